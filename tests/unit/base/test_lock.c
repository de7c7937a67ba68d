/* Locks do what those of pthread do, and in debug builds what is wrong ends the process, tried in a
 * child each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/thread.h"
#include "segment/never.h"

static struct sonde_lock outer = SONDE_LOCK_INITIALIZER(SONDE_RANK_SESSIONS);
static struct sonde_lock inner = SONDE_LOCK_INITIALIZER(SONDE_RANK_LOG);
static struct sonde_lock row[3];
static struct sonde_rwlock model = SONDE_RWLOCK_INITIALIZER(SONDE_RANK_MODEL);
static struct sonde_cond cond;

/* ---- What is right --------------------------------------------------------------------------- */

static void in_order(void **state)
{
    (void)state;
    sonde_lock(&outer);
    sonde_assert_held(&outer);
    sonde_assert_not_held(&inner);
    sonde_rdlock(&model);
    sonde_assert_held(&model);
    sonde_lock(&inner);
    sonde_unlock(&outer); /* in any order */
    sonde_rwunlock(&model);
    sonde_assert_not_held(&model);
    sonde_unlock(&inner);
    sonde_assert_none_held();
    sonde_wrlock(&model);
    sonde_assert_held(&model);
    sonde_assert_held_write(&model);
    sonde_rwunlock(&model);
}

static void several_of_a_rank(void **state)
{
    (void)state;
    for (size_t i = 0; i < SONDE_COUNT(row); i++) sonde_lock_ascending(&row[i]);
    sonde_rdlock(&model);
    sonde_rwunlock(&model);
    for (size_t i = 0; i < SONDE_COUNT(row); i++) sonde_unlock(&row[i]);
    sonde_assert_none_held();
}

static void *try_all(void *arg)
{
    int *rc = arg;
    rc[0] = sonde_trylock(&outer);
    rc[1] = sonde_trywrlock(&model);
    if (!rc[0]) sonde_unlock(&outer);
    if (!rc[1]) sonde_rwunlock(&model);
    return NULL;
}

static void tried(void **state)
{
    (void)state;
    struct sonde_thread t = { 0 };
    int rc[2] = { -1, -1 };
    assert_int_equal(sonde_trywrlock(&model), 0);
    assert_int_equal(sonde_trylock(&outer), 0); /* out of order, but it does not wait */
    sonde_assert_held_write(&model);
    assert_int_equal(sonde_thread_start(&t, "sonde-try", try_all, rc, NULL), 0);
    sonde_thread_join(&t);
    assert_int_equal(rc[0], EBUSY);
    assert_int_equal(rc[1], EBUSY);
    sonde_unlock(&outer);
    sonde_rwunlock(&model);
    assert_int_equal(sonde_thread_start(&t, "sonde-try", try_all, rc, NULL), 0);
    sonde_thread_join(&t);
    assert_int_equal(rc[0], 0);
    assert_int_equal(rc[1], 0);
    sonde_assert_none_held();
}

static int flag;

static void *raise_flag(void *arg)
{
    (void)arg;
    sonde_lock(&inner);
    flag = 1;
    sonde_cond_broadcast(&cond);
    sonde_unlock(&inner);
    return NULL;
}

static void conditions(void **state)
{
    (void)state;
    struct sonde_thread t = { 0 };
    const struct timespec past = sonde_clock_timespec(1);
    sonde_lock(&outer); /* below the condition's: may be held meanwhile */
    sonde_lock(&inner);
    assert_int_equal(sonde_cond_timedwait(&cond, &inner, &past), ETIMEDOUT);
    sonde_assert_held(&inner);
    assert_int_equal(sonde_thread_start(&t, "sonde-raise", raise_flag, NULL, NULL), 0);
    while (!flag) sonde_cond_wait(&cond, &inner);
    sonde_assert_held(&inner);
    sonde_assert_held(&outer);
    sonde_unlock(&inner);
    sonde_unlock(&outer);
    sonde_thread_join(&t);
    sonde_assert_none_held();
}

static void ranks_have_names(void **state)
{
    (void)state;
    assert_string_equal(sonde_lock_rank_name(SONDE_RANK_MODEL), "MODEL");
    for (int i = 0; i < SONDE_RANK_COUNT; i++) {
        assert_true(strlen(sonde_lock_rank_name((enum sonde_lock_rank)i)) > 1);
    }
    assert_string_equal(sonde_lock_rank_name(SONDE_RANK_COUNT), "(unknown)");
    assert_true(SONDE_RANK_COLLECTOR < SONDE_RANK_MODEL && SONDE_RANK_MODEL < SONDE_RANK_STORE);
}

static void release_builds_are_plain(void **state)
{
    (void)state;
#ifdef NDEBUG
    assert_int_equal(sizeof(struct sonde_lock), sizeof(pthread_mutex_t));
    assert_int_equal(sizeof(struct sonde_rwlock), sizeof(pthread_rwlock_t));
#else
    skip();
#endif
}

/* ---- What is wrong --------------------------------------------------------------------------- */

#ifndef NDEBUG
static void wrong_order(void) { sonde_rdlock(&model); sonde_lock(&outer); }
static void wrong_order_write(void) { sonde_lock(&inner); sonde_wrlock(&model); }
static void twice(void) { sonde_lock(&outer); sonde_lock(&outer); }
static void read_twice(void) { sonde_rdlock(&model); sonde_rdlock(&model); }
static void same_rank(void) { sonde_lock(&row[0]); sonde_lock(&row[1]); }
static void descending(void) { sonde_lock_ascending(&row[1]); sonde_lock_ascending(&row[0]); }
static void ascending_too_late(void) { sonde_rdlock(&model); sonde_lock_ascending(&row[0]); }
static void try_twice(void) { sonde_lock(&outer); (void)sonde_trylock(&outer); }
static void not_held(void) { sonde_unlock(&outer); }
static void not_held_rw(void) { sonde_rwunlock(&model); }
static void waits_without(void) { sonde_cond_wait(&cond, &inner); }
static void waits_with_inner(void)
{
    const struct timespec past = sonde_clock_timespec(1);
    sonde_lock(&outer);
    sonde_lock(&inner);
    sonde_cond_timedwait(&cond, &outer, &past);
}
static void after_try(void) { (void)sonde_trylock(&inner); sonde_lock(&outer); }
static void asserts_held(void) { sonde_assert_held(&model); }
static void asserts_write(void) { sonde_rdlock(&model); sonde_assert_held_write(&model); }
static void asserts_not_held(void) { sonde_lock(&outer); sonde_assert_not_held(&outer); }
static void asserts_none(void) { sonde_lock(&inner); sonde_assert_none_held(); }
static void destroys_held(void) { sonde_lock(&outer); sonde_lock_destroy(&outer); }

static const struct { void (*run)(void); const char *says; } wrongs[] = {
    { wrong_order, "while it holds 'MODEL'" },
    { wrong_order_write, "while it holds 'LOG'" },
    { twice, "takes once more 'SESSIONS'" },
    { read_twice, "takes once more 'MODEL'" },
    { same_rank, "while it holds 'PUSH_MADE'" },
    { descending, "while it holds 'PUSH_MADE'" },
    { ascending_too_late, "while it holds 'MODEL'" },
    { try_twice, "takes once more 'SESSIONS'" },
    { not_held, "releases without holding it 'SESSIONS'" },
    { not_held_rw, "releases without holding it 'MODEL'" },
    { waits_without, "waits without holding 'LOG'" },
    { waits_with_inner, "waits for a condition of 'SESSIONS'" },
    { after_try, "while it holds 'LOG'" },
    { asserts_held, "does not hold 'MODEL'" },
    { asserts_write, "does not hold for writing 'MODEL'" },
    { asserts_not_held, "must not hold 'SESSIONS'" },
    { asserts_none, "must hold no lock, and holds 'LOG'" },
    { destroys_held, "must not hold 'SESSIONS'" },
};

/* What a child says, which ends by the signal. */
static void run_child(void (*run)(void), int signal_number, struct sonde_buf *said)
{
    int ends[2], status = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit none = { 0, 0 };
        setrlimit(RLIMIT_CORE, &none);
        signal(signal_number, SIG_DFL); /* a sanitizer's would have more to say */
        dup2(ends[1], STDERR_FILENO);
        run();
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(sonde_file_read_fd(ends[0], said), 0);
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signal_number);
}

#ifdef __x86_64__
enum { TRAP = SIGILL };
#else
enum { TRAP = SIGTRAP };
#endif

static void never(void) { if (SONDE_NEVER(getpid() > 0)) _exit(3); }
#endif

static void wrongs_end_it(void **state)
{
    (void)state;
#ifdef NDEBUG
    skip();
#else
    for (size_t i = 0; i < SONDE_COUNT(wrongs); i++) {
        struct sonde_buf said;
        sonde_buf_init(&said, 1 << 16);
        run_child(wrongs[i].run, SIGABRT, &said);
        if (!strstr(said.data, "lock order, thread ") || !strstr(said.data, wrongs[i].says)) {
            fail_msg("case %zu says: %s", i, said.data);
        }
        sonde_buf_release(&said);
    }
#endif
}

static void never_traps_or_degrades(void **state)
{
    (void)state;
    assert_int_equal(SONDE_NEVER(getpid() <= 0), 0);
#ifdef NDEBUG
    assert_int_equal(SONDE_NEVER(getpid() > 0), 1);
#else
    struct sonde_buf said;
    sonde_buf_init(&said, 1 << 16);
    run_child(never, TRAP, &said);
    sonde_buf_release(&said);
#endif
}

/* A thread's own set is its own, and a fork's is that of the thread that forked. */
static void fork_keeps_what_is_held(void **state)
{
    (void)state;
    int status = -1;
    sonde_lock(&outer);
    const pid_t pid = fork();
    if (pid == 0) {
        sonde_assert_held(&outer);
        sonde_unlock(&outer);
        sonde_assert_none_held();
        _exit(0);
    }
    sonde_unlock(&outer);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < SONDE_COUNT(row); i++) sonde_lock_init(&row[i], SONDE_RANK_PUSH_MADE);
    sonde_cond_init(&cond);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < SONDE_COUNT(row); i++) sonde_lock_destroy(&row[i]);
    sonde_cond_destroy(&cond);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),         cmocka_unit_test(several_of_a_rank),
        cmocka_unit_test(tried),            cmocka_unit_test(conditions),
        cmocka_unit_test(ranks_have_names), cmocka_unit_test(release_builds_are_plain),
        cmocka_unit_test(wrongs_end_it),    cmocka_unit_test(never_traps_or_degrades),
        cmocka_unit_test(fork_keeps_what_is_held),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
