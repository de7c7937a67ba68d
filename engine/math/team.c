/* team.c - pieces of work by a shared counter; sleep on futexes.
 *
 *   ticket   run : 32 | next piece : 32     one word, so that a piece is claimed of one run only: a
 *                                           thread that comes late, with the number of an old run,
 *                                           fails to exchange it and goes back to sleep
 *   done     pieces of the run that are finished: the caller waits for pieces, not for threads, so
 *            one that the operating system has not woken yet is not waited for
 *   wake     counts runs; idle threads sleep on it
 *
 * Before the fields of a run are written, the ticket is closed (no piece left, another run), and
 * the fields are released and acquired one by one: who reads a field of the next run cannot claim a
 * piece of the one before. A mutex with condition variables was the first thought: its convoys cost
 * more than small products take. */
#include "math/team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TEAM_THREADS_MAX = 256, TEAM_SPINS = 400 }; /* a spin is 10 to 20 ns: a few microseconds */

struct team_member { struct team *team; uint32_t number; pthread_t id; };

struct team {
    uint32_t threads, spins;
    struct team_member *members; /* threads − 1: the caller is number 0 */
    uint32_t quit;

    void (*work)(void *arg, uint32_t piece, uint32_t thread);
    void *arg;
    uint32_t pieces;

    _Alignas(64) uint64_t ticket;
    _Alignas(64) uint32_t done;
    uint32_t caller_sleeps;
    _Alignas(64) uint32_t wake;
    uint32_t sleepers;
};

static void futex_wait(uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(uint32_t *word, uint32_t count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Claims pieces of the run that is open, one after the other, until there is none left. */
static void team_work(struct team *t, uint32_t thread)
{
    uint32_t mine = 0, pieces = 0;
    uint64_t ticket = __atomic_load_n(&t->ticket, __ATOMIC_ACQUIRE);
    for (;;) {
        const uint32_t piece = (uint32_t)ticket;
        void (*work)(void *, uint32_t, uint32_t) = __atomic_load_n(&t->work, __ATOMIC_ACQUIRE);
        void *arg = __atomic_load_n(&t->arg, __ATOMIC_ACQUIRE);
        const uint32_t all = __atomic_load_n(&t->pieces, __ATOMIC_ACQUIRE);
        if (piece >= all) break;
        if (!__atomic_compare_exchange_n(&t->ticket, &ticket, ticket + 1, 0, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)) {
            /* Another run now means that ours is over, which it is not while we owe it pieces. */
            continue;
        }
        pieces = all;
        work(arg, piece, thread);
        mine++;
        ticket = __atomic_load_n(&t->ticket, __ATOMIC_ACQUIRE);
    }
    if (!mine) return;
    if (__atomic_add_fetch(&t->done, mine, __ATOMIC_SEQ_CST) == pieces &&
        __atomic_load_n(&t->caller_sleeps, __ATOMIC_SEQ_CST)) {
        futex_wake(&t->done, 1);
    }
}

static void *team_thread(void *arg)
{
    const struct team_member *me = arg;
    struct team *t = me->team;
    uint32_t seen = 0; /* as it was when the team was made: a run before we got here is seen */
    for (;;) {
        uint32_t wake = __atomic_load_n(&t->wake, __ATOMIC_ACQUIRE);
        for (uint32_t i = 0; i < t->spins && wake == seen; i++) {
            cpu_relax();
            wake = __atomic_load_n(&t->wake, __ATOMIC_ACQUIRE);
        }
        if (wake == seen) {
            __atomic_add_fetch(&t->sleepers, 1, __ATOMIC_SEQ_CST);
            while ((wake = __atomic_load_n(&t->wake, __ATOMIC_SEQ_CST)) == seen) {
                futex_wait(&t->wake, seen);
            }
            __atomic_sub_fetch(&t->sleepers, 1, __ATOMIC_SEQ_CST);
        }
        seen = wake;
        if (__atomic_load_n(&t->quit, __ATOMIC_ACQUIRE)) return NULL;
        team_work(t, me->number);
    }
}

static void team_wake(struct team *t, uint32_t count)
{
    __atomic_add_fetch(&t->wake, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&t->sleepers, __ATOMIC_SEQ_CST)) futex_wake(&t->wake, count);
}

void team_run(struct team *t, uint32_t pieces,
              void (*work)(void *arg, uint32_t piece, uint32_t thread), void *arg)
{
    if (t->threads == 1 || pieces <= 1) {
        for (uint32_t piece = 0; piece < pieces; piece++) work(arg, piece, 0);
        return;
    }

    const uint64_t run = (__atomic_load_n(&t->ticket, __ATOMIC_RELAXED) >> 32) + 1;
    __atomic_store_n(&t->ticket, run << 32 | UINT32_MAX, __ATOMIC_RELAXED); /* closed */
    __atomic_store_n(&t->done, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&t->work, work, __ATOMIC_RELEASE);
    __atomic_store_n(&t->arg, arg, __ATOMIC_RELEASE);
    __atomic_store_n(&t->pieces, pieces, __ATOMIC_RELEASE);
    __atomic_store_n(&t->ticket, (run + 1) << 32, __ATOMIC_RELEASE);
    team_wake(t, pieces - 1);

    team_work(t, 0);

    uint32_t done = __atomic_load_n(&t->done, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < t->spins && done != pieces; i++) {
        cpu_relax();
        done = __atomic_load_n(&t->done, __ATOMIC_ACQUIRE);
    }
    if (done == pieces) return;
    __atomic_store_n(&t->caller_sleeps, 1, __ATOMIC_SEQ_CST);
    while ((done = __atomic_load_n(&t->done, __ATOMIC_SEQ_CST)) != pieces) {
        futex_wait(&t->done, done);
    }
    __atomic_store_n(&t->caller_sleeps, 0, __ATOMIC_RELAXED);
}

static int team_start(struct team *t, uint32_t number)
{
    struct team_member *m = &t->members[number - 1];
    *m = (struct team_member){ .team = t, .number = number };
    const int rc = pthread_create(&m->id, NULL, team_thread, m);
    if (rc) return rc;
    char name[16];
    snprintf(name, sizeof(name), "engine-%u", (number - 1) % 1000);
    pthread_setname_np(m->id, name);
    return 0;
}

int team_create(uint32_t threads, struct team **out, struct fail *why)
{
    if (!threads || threads > TEAM_THREADS_MAX) {
        return fail_set(why, "%u threads: 1 to %u are possible", threads, TEAM_THREADS_MAX);
    }
    struct team *t = aligned_alloc(64, sizeof(*t));
    if (!t) return fail_set(why, "no memory for a team of threads");
    *t = (struct team){ .threads = 1 };
    t->members = calloc(threads, sizeof(*t->members));
    if (!t->members) {
        free(t);
        return fail_set(why, "no memory for a team of %u threads", threads);
    }
    cpu_set_t cpus;
    if (!sched_getaffinity(0, sizeof(cpus), &cpus) && (uint32_t)CPU_COUNT(&cpus) >= threads) {
        t->spins = TEAM_SPINS;
    }

    /* Signals are the program's: its main thread waits for them. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = 0;
    while (t->threads < threads && !(rc = team_start(t, t->threads))) t->threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        const uint32_t started = t->threads;
        team_destroy(t);
        return fail_set(why, "cannot start thread %u of %u: %s", started + 1, threads,
                        strerror(rc));
    }
    *out = t;
    return 0;
}

void team_destroy(struct team *t)
{
    if (!t) return;
    __atomic_store_n(&t->quit, 1, __ATOMIC_RELEASE);
    team_wake(t, TEAM_THREADS_MAX);
    for (uint32_t i = 1; i < t->threads; i++) pthread_join(t->members[i - 1].id, NULL);
    free(t->members);
    free(t);
}

uint32_t team_threads(const struct team *t) { return t->threads; }
