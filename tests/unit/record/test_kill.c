/* SIGKILL at any instant: what the agent reads afterwards is what each thread had done, or one
 * more, since it says so only after the record. While it lives, nothing goes back. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collect/segment/read.h"
#include "unit/record/child.h"
#include "unit/record/readback.h"

#define THREADS 8u
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KILLS 15u
#else
#define KILLS 100u
#endif

/* Shared with the child; each thread writes its own line, after the record. */
struct progress { uint64_t counted, recorded, pad[6]; };
static struct progress *progress;

/* ---- The victim ------------------------------------------------------------------------------ */

static struct sonde_family counters, hists;

static void *counts(void *arg)
{
    struct progress *mine = arg;
    char name[16];
    snprintf(name, sizeof(name), "t%d", (int)(mine - progress));
    const struct sonde_counter c = sonde_counter_bind(counters, (const char *const[]){ name });
    const struct sonde_hist h = sonde_hist_bind(hists, (const char *const[]){ name });
    for (uint64_t i = 1;; i++) {
        SONDE_SCOPE("step");
        sonde_counter_add(c, 1);
        __atomic_store_n(&mine->counted, i, __ATOMIC_RELEASE);
        sonde_hist_record(h, 1 + i % 5000);
        __atomic_store_n(&mine->recorded, i, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void victim(void)
{
    struct sonde_metric m = { .size = sizeof(m),
                              .name = "kill_total",
                              .labels = (const char *const[]){ "thread", NULL } };
    pthread_t t;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* not to outlive a test that fails */
    NEED(!sonde_define(SONDE_COUNTER, &m, &counters));
    m.name = "kill_bytes";
    NEED(!sonde_define(SONDE_HISTOGRAM, &m, &hists));
    for (unsigned i = 0; i < THREADS; i++) {
        NEED(!pthread_create(&t, NULL, counts, &progress[i]));
    }
    for (;;) pause();
}

/* ---- The agent's side ------------------------------------------------------------------------ */

struct reader {
    int dirfd;
    char name[64];
    struct sonde_model *m;
    struct sonde_model_process *p;
    struct sonde_segment *s;
    struct sonde_tick_clock clock;
    uint64_t counted[THREADS], recorded[THREADS]; /* as read last */
};

static struct sonde_model_series *find(const struct reader *r, const char *family, unsigned thread)
{
    char label[32];
    snprintf(label, sizeof(label), "thread=\"t%u\"", thread);
    for (size_t i = 0; i < r->m->family_count; i++) {
        const struct sonde_model_family *f = r->m->families[i];
        if (strcmp(f->name, family)) continue;
        for (size_t k = 0; k < f->series_count; k++) {
            if (strstr(f->series[k]->label_text, label)) return f->series[k];
        }
    }
    return NULL;
}

static uint64_t buckets_sum(const struct sonde_hist_value *h)
{
    uint64_t n = h->zero;
    for (uint32_t p = 0; p < SONDE__HIST_BUCKETS; p++) {
        if (h->octave[p >> 6]) n += h->octave[p >> 6][p & 63];
    }
    return n;
}

/* Reads once; what a thread had done before must be there, and nothing that it has not begun. */
static void read_all(struct reader *r, int last)
{
    struct sonde_err err;
    struct progress before[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        before[i].counted = __atomic_load_n(&progress[i].counted, __ATOMIC_ACQUIRE);
        before[i].recorded = __atomic_load_n(&progress[i].recorded, __ATOMIC_ACQUIRE);
    }
    if (!r->s) {
        assert_int_equal(sonde_segment_open(r->dirfd, r->name, 0, &r->s, &err), 0);
    }
    assert_int_equal(sonde_segment_read(r->s, r->m, r->p, last, &err), 0);
    assert_int_equal(sonde_segment_drain(r->s, r->m, r->p, &r->clock, last, &err), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        const struct sonde_model_series *c = find(r, "kill_total", i);
        const struct sonde_model_series *h = find(r, "kill_bytes", i);
        const uint64_t counted = c ? c->counter : 0;
        const uint64_t recorded = h && h->hist ? h->hist->count : 0;
        assert_true(counted >= r->counted[i] && recorded >= r->recorded[i]);
        assert_true(counted >= before[i].counted && recorded >= before[i].recorded);
        assert_true(counted <= __atomic_load_n(&progress[i].counted, __ATOMIC_ACQUIRE) + 1);
        assert_true(recorded <= __atomic_load_n(&progress[i].recorded, __ATOMIC_ACQUIRE) + 1);
        if (recorded) assert_int_equal(recorded, buckets_sum(h->hist));
        r->counted[i] = counted;
        r->recorded[i] = recorded;
    }
}

static int all_begun(void)
{
    for (unsigned i = 0; i < THREADS; i++) {
        if (!__atomic_load_n(&progress[i].recorded, __ATOMIC_ACQUIRE)) return 0;
    }
    return 1;
}

static uint64_t sum_of(uint64_t n) /* of 1 + i % 5000 for i = 1 … n */
{
    const uint64_t whole = n / 5000, rest = n % 5000;
    return n + whole * (4999u * 5000u / 2) + rest * (rest + 1) / 2;
}

static void kill_once(unsigned round)
{
    struct reader r = { .dirfd = open(getenv("SONDE_DIR"), O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
    memset(progress, 0, 4096);
    const pid_t pid = fork();
    if (pid == 0) victim();
    assert_true(pid > 0 && r.dirfd >= 0);
    const uint64_t start = sonde__start_time((uint32_t)pid);
    snprintf(r.name, sizeof(r.name), "%d.%llu", (int)pid, (unsigned long long)start);
    assert_int_equal(sonde_model_create(NULL, &r.m), 0);
    r.m->now_s = 1700000000;
    r.p = sonde_model_process(r.m, (uint32_t)pid, start, "victim");
    sonde_tick_clock_init(&r.clock);
    sonde_tick_clock_update(&r.clock);

    /* Some are killed before the threads run or are all there, most in full flight. */
    const struct timespec instant = { 0, (long)((round * 2654435761u) % 3000000) };
    if (round % 5) {
        while (!all_begun()) nanosleep(&instant, NULL);
        for (unsigned i = 0; i < round % 4; i++) read_all(&r, 0);
    }
    nanosleep(&instant, NULL);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);

    if (round % 5 || faccessat(r.dirfd, r.name, R_OK, 0) == 0) {
        read_all(&r, 1);
        for (unsigned i = 0; i < THREADS && r.recorded[i]; i++) {
            /* The sum is added after the bucket: it may lack the last value. */
            const uint64_t sum = find(&r, "kill_bytes", i)->hist->sum_raw;
            assert_true(sum == sum_of(r.recorded[i]) || sum == sum_of(r.recorded[i] - 1));
        }
    }
    unlinkat(r.dirfd, r.name, 0);
    sonde_segment_close(r.s);
    sonde_model_destroy(r.m);
    close(r.dirfd);
}

static void killed_at_any_instant(void **state)
{
    (void)state;
    for (unsigned round = 1; round <= KILLS; round++) kill_once(round);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_any_instant),
    };
    progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED) return 1;
    readback_private_dir();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
