/* The perf engine on programs whose profile is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collect/cpu/engine.h"
#include "collect/proc/tree.h"
#include "sonde/sonde.h"
#include "unit/collect/cpu_burn.h"

/* A sanitizer makes the reader ten times slower, and brings threads and assembly of its own into
 * the program: what runs is checked then, not the figures. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EXACT = 0 };
#else
enum { EXACT = 1 };
#endif

/* What the kernel allows here; tests of the rest are skipped. */
static int can_sample, can_see_kernel;

static int look(void **state)
{
    (void)state;
    struct sonde_err note = { "" };
    can_sample = !sonde_cpu_engine_perf.check(&note);
    can_see_kernel = strstr(note.text, "kernel frames and off-CPU time are permitted") != NULL;
    print_message("%s\n", note.text);
    return 0;
}

/* Run burn from its exec on. */
static struct sonde_profile *profile_burn(struct burn *b, const char *const *args,
                                          struct sonde_cpu_options o)
{
    struct sonde_cpu *c = NULL;
    struct sonde_profile *p = NULL;
    struct sonde_err err = { "" };
    if (!can_sample) skip();
    burn_fork(b, args);
    o.pid = (uint32_t)b->pid;
    o.engine = SONDE_CPU_PERF;
    if (sonde_cpu_start_on_exec(&o, &c, &err)) fail_msg("%s", err.text);
    burn_go(b);
    burn_end(b);
    struct sonde_cpu_status st;
    sonde_cpu_status(c, &st);
    assert_int_equal(sonde_cpu_stop(c, &p), 0);
    print_message("%llu samples, %llu lost, %llu truncated, %.1f Hz, %.1f ms of CPU for it\n",
                  (unsigned long long)st.samples, (unsigned long long)st.lost,
                  (unsigned long long)st.truncated, p->achieved_hz, st.cpu_s * 1e3);
    assert_int_equal(b->status, 0);
    assert_string_equal(sonde_profile_str(p, p->engine), "perf");
    assert_string_equal(sonde_profile_str(p, p->program), "burn");
    return p;
}

static int near(const char *what, double got, double wanted, double off)
{
    return burn_near(what, got, wanted, off) || !EXACT;
}

static void check_complete(const struct sonde_profile *p)
{
    if (EXACT) burn_check_complete(p);
}

static int shares(int which)
{
    (void)which;
    static const char *const args[] = { "--seconds", "1.5", NULL };
    struct burn b;
    struct sonde_profile *p = profile_burn(&b, args, (struct sonde_cpu_options){ .rate_hz = 4000 });
    int good = burn_shares_are_true(&b, p) || !EXACT;
    good &= !EXACT || p->lost_records * 100 <= p->samples_count;
    check_complete(p);
    int named = 0;
    for (uint32_t i = 1; i < p->threads_count; i++) {
        named += !strncmp(sonde_profile_str(p, p->threads[i].name), "burn-", 5);
    }
    assert_int_equal(named, 2);
    assert_non_null(strstr(sonde_profile_str(p, p->command), "--seconds 1.5"));
    sonde_profile_destroy(p);
    return good;
}

static void test_shares(void **state)
{
    (void)state;
    burn_some_run(shares, 0);
}

/* Samples times period is the CPU time of the threads, in the same time by the same clock. */
static int rate(int hz)
{
    static const char *const args[] = { "--seconds", "0.7", NULL };
    struct burn b;
    struct sonde_profile *p = profile_burn(&b, args, (struct sonde_cpu_options){ .rate_hz = hz });
    const int good = near("achieved", p->achieved_hz / hz, 1, 0.1);
    sonde_profile_destroy(p);
    return good;
}

static void test_rate(void **state)
{
    (void)state;
    for (int hz = 100; hz <= 10000; hz *= 10) burn_some_run(rate, hz);
}

/* Of a stack that is deeper than what is kept the middle is left out, not its beginning. */
static void test_deep(void **state)
{
    (void)state;
    static const struct { const char *depth; uint32_t depth_max; } cases[] = {
        { "100", 0 }, { "300", 0 }, { "600", 1024 }, { "300", 16 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const args[] = { "--seconds", "0.5", "--recursion", cases[i].depth, NULL };
        struct burn b;
        struct sonde_profile *p = profile_burn(
            &b, args, (struct sonde_cpu_options){ .depth_max = cases[i].depth_max });
        check_complete(p);
        const uint32_t max = cases[i].depth_max ? cases[i].depth_max : 128;
        uint32_t deepest = 0;
        for (uint32_t k = 0; k < p->samples_count; k++) {
            uint32_t depth = 0;
            for (uint32_t at = p->samples[k].stack; at; at = p->stacks[at].parent) depth++;
            if (depth > deepest) deepest = depth;
        }
        assert_true(deepest <= max + 1);
        assert_true(deepest >= (max < 100 ? max : 100));
        sonde_profile_destroy(p);
    }
}

static int off_cpu(int which)
{
    (void)which;
    static const char *const args[] = { "--sleep-mutex", NULL };
    struct burn b;
    struct sonde_profile *p = profile_burn(&b, args, (struct sonde_cpu_options){ .off_cpu = 1 });
    const double slept = burn_weight(&b, p, SONDE_SAMPLE_OFFCPU, "sleep");
    const double locked = burn_weight(&b, p, SONDE_SAMPLE_OFFCPU, "lock");
    const int good = near("sleep", slept / burn_truth(&b, "sleep"), 1, 0.05) &
                     near("lock", locked / burn_truth(&b, "lock"), 1, 0.05);
    if (EXACT) assert_int_equal(burn_count(p, SONDE_SAMPLE_OFFCPU, SONDE_SAMPLE_TRUNCATED), 0);
    sonde_profile_destroy(p);
    return good;
}

static void test_off_cpu(void **state)
{
    (void)state;
    burn_some_run(off_cpu, 0);
}

/* The program runs, and waits to be told to go on. */
static void fork_until_ready(struct burn *b, const char *const *args)
{
    burn_fork(b, args);
    burn_go(b);
    assert_true(burn_read_until(b, "ready"));
}

/* A thread that waits from before the recording until after it, and never switches in between. */
static void test_off_cpu_attach(void **state)
{
    (void)state;
    static const char *const args[] = { "--attach", "3", NULL };
    struct burn b;
    struct sonde_cpu *c = NULL;
    struct sonde_profile *p = NULL, *half = NULL;
    struct sonde_err err = { "" };
    if (!can_sample) skip();
    fork_until_ready(&b, args);
    burn_wait_until_asleep(&b);
    const struct sonde_cpu_options o = { .pid = (uint32_t)b.pid, .off_cpu = 1,
                                         .engine = SONDE_CPU_PERF };
    if (sonde_cpu_start(&o, &c, &err)) fail_msg("%s", err.text);
    usleep(100000);
    assert_int_equal(sonde_cpu_snapshot(c, 0, &half), 0);
    usleep(100000);
    assert_int_equal(sonde_cpu_stop(c, &p), 0);
    kill(b.pid, SIGKILL);
    burn_end(&b);
    const struct sonde_profile *both[] = { half, p };
    for (int i = 0; i < 2; i++) {
        const double span = (double)(both[i]->end_ns - both[i]->start_ns);
        assert_int_equal(burn_count(both[i], SONDE_SAMPLE_OFFCPU, 0), 4);
        const double blocked = burn_weight(&b, both[i], SONDE_SAMPLE_OFFCPU, NULL);
        assert_true(blocked >= 4 * 0.1e9 * (i + 1) && blocked <= 4 * span);
        assert_int_equal(burn_count(both[i], SONDE_SAMPLE_OFFCPU, SONDE_SAMPLE_TRUNCATED), 0);
        for (uint32_t k = 0; k < both[i]->samples_count; k++) {
            assert_true(both[i]->stacks[both[i]->samples[k].stack].parent != 0);
        }
    }
    sonde_profile_destroy(half);
    sonde_profile_destroy(p);
}

/* Twenty thousand short waits: few samples, all of the time. */
static int off_cpu_often(int which)
{
    (void)which;
    static const char *const args[] = { "--ping-pong", "20000", NULL };
    struct burn b;
    struct sonde_profile *p =
        profile_burn(&b, args, (struct sonde_cpu_options){ .off_cpu = 1, .rate_hz = 100 });
    const double got = burn_weight(&b, p, SONDE_SAMPLE_OFFCPU, NULL);
    const double wait = burn_truth(&b, "wait");
    print_message("blocked %.1f ms in two threads that waited %.1f ms, %llu samples\n", got / 1e6,
                  wait / 1e6, (unsigned long long)burn_count(p, SONDE_SAMPLE_OFFCPU, 0));
    /* Between the end of a thread's CPU time and the switch the kernel takes the sample, some
     * microseconds each time, which the thread has waited too. */
    const int good = near("blocked", got / wait, 0.9, 0.6);
    /* By sums one a period of 10 ms, as many of single waits, and 32 at once for each thread. */
    const double seconds = (double)(p->end_ns - p->start_ns) * 1e-9;
    assert_true((double)burn_count(p, SONDE_SAMPLE_OFFCPU, 0) <
                got / 1e7 + 3 * (100 * seconds + 34));
    sonde_profile_destroy(p);
    return good;
}

static void test_off_cpu_often(void **state)
{
    (void)state;
    burn_some_run(off_cpu_often, 0);
}

/* A program that does other things than compute, alone and under the profiler: the same output. */
static void test_programs(void **state)
{
    (void)state;
    char plugin[4352];
    burn_path("burn_plugin.so", plugin, sizeof(plugin));
    const struct {
        const char *args[4];
        const char *key;
        unsigned long long count;
        int children;
        const char *part;
    } cases[] = {
        { { "--fork", "1000" }, "children", 1000, 1, "child" },
        { { "--fork", "100" }, "children", 100, 0, NULL },
        { { "--exec-self", "30" }, "exec", 0, 0, "alpha" },
        { { "--signal", "200" }, "signals", 200, 0, "handler" },
        { { "--dlopen", "1500", plugin }, "plugins", 1500, 0, NULL },
        { { "--threads", "64" }, "threads", 64, 0, "alpha" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *args[8] = { "--seconds", "0.02" };
        for (int k = 0; k < 4; k++) args[k + 2] = cases[i].args[k];
        struct burn b;
        unsigned long long count = 0;
        struct sonde_profile *p = profile_burn(
            &b, args, (struct sonde_cpu_options){ .children = cases[i].children,
                                                  .off_cpu = 1 });
        assert_true(burn_said(&b, "done", cases[i].key, &count, NULL));
        assert_int_equal(count, cases[i].count);
        if (cases[i].part) {
            assert_true(burn_weight(&b, p, SONDE_SAMPLE_CPU, cases[i].part) > 0);
        } else {
            assert_true(p->threads_count <= 2);
        }
        check_complete(p);
        sonde_profile_destroy(p);
    }
}

static int attach(int which)
{
    (void)which;
    static const char *const args[] = { "--seconds", "0.05", "--attach", "50", NULL };
    struct burn b;
    struct sonde_cpu *c = NULL;
    struct sonde_profile *p = NULL, *half = NULL;
    struct sonde_err err = { "" };
    if (!can_sample) skip();
    fork_until_ready(&b, args);
    const struct sonde_cpu_options o = { .pid = (uint32_t)b.pid, .rate_hz = 2000,
                                         .off_cpu = 1, .engine = SONDE_CPU_PERF };
    if (sonde_cpu_start(&o, &c, &err)) fail_msg("%s", err.text);
    burn_go(&b);
    assert_int_equal(sonde_cpu_snapshot(c, 0, &half), 0);
    burn_end(&b);
    assert_int_equal(sonde_cpu_stop(c, &p), 0);
    assert_int_equal(b.status, 0);
    assert_true(half->samples_count <= p->samples_count);
    /* All fifty threads, each once. */
    const double got = burn_weight(&b, p, SONDE_SAMPLE_CPU, "alpha");
    const int good =
        near("alpha", got / burn_truth(&b, "alpha"), 1, can_see_kernel ? 0.2 : 0.4);
    assert_true(p->threads_count >= 51);
    check_complete(p);
    sonde_profile_destroy(half);
    sonde_profile_destroy(p);
    return good;
}

static void test_attach(void **state)
{
    (void)state;
    burn_some_run(attach, 0);
}

/* A thread that begins while others are opened has events twice: its time counts once. */
static int attach_churn(int which)
{
    (void)which;
    static const char *const args[] = { "--churn", "1200", NULL };
    struct burn b;
    struct sonde_cpu *c = NULL;
    struct sonde_profile *p = NULL;
    struct sonde_err err = { "" };
    if (!can_sample) skip();
    fork_until_ready(&b, args);
    const struct sonde_cpu_options o = { .pid = (uint32_t)b.pid, .rate_hz = 10000,
                                         .engine = SONDE_CPU_PERF };
    if (sonde_cpu_start(&o, &c, &err)) fail_msg("%s", err.text);
    burn_go(&b);
    burn_end(&b);
    assert_int_equal(sonde_cpu_stop(c, &p), 0);
    assert_int_equal(b.status, 0);
    const double got = burn_weight(&b, p, SONDE_SAMPLE_CPU, "alpha");
    const double truth = burn_truth(&b, "alpha");
    assert_true(got > 0);
    check_complete(p);
    sonde_profile_destroy(p);
    if (EXACT && got > truth * 1.05) print_message("churn: %g of %g ns\n", got, truth);
    return !EXACT || got <= truth * 1.05;
}

static void test_attach_churn(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) burn_some_run(attach_churn, 0);
}

static void test_snapshot_since(void **state)
{
    (void)state;
    static const char *const args[] = { "--wait", "--seconds", "0.3", NULL };
    struct burn b;
    struct sonde_cpu *c = NULL;
    struct sonde_profile *all = NULL, *late = NULL, *none = NULL;
    struct sonde_err err = { "" };
    if (!can_sample) skip();
    fork_until_ready(&b, args);
    const struct sonde_cpu_options o = { .pid = (uint32_t)b.pid, .engine = SONDE_CPU_PERF };
    if (sonde_cpu_start(&o, &c, &err)) fail_msg("%s", err.text);
    burn_go(&b);
    burn_read_until(&b, NULL);
    assert_int_equal(sonde_cpu_snapshot(c, 0, &all), 0);
    assert_true(all->samples_count > 10);
    const uint64_t middle = all->samples[all->samples_count / 2].time_ns;
    assert_int_equal(sonde_cpu_snapshot(c, middle, &late), 0);
    assert_int_equal(sonde_cpu_snapshot(c, UINT64_MAX, &none), 0);
    assert_true(late->samples_count > 0 && late->samples_count < all->samples_count);
    for (uint32_t i = 0; i < late->samples_count; i++) {
        assert_true(late->samples[i].time_ns >= middle);
    }
    assert_int_equal(none->samples_count, 0);
    sonde_profile_destroy(all);
    sonde_profile_destroy(late);
    sonde_profile_destroy(none);
    assert_int_equal(sonde_cpu_stop(c, &all), 0);
    sonde_profile_destroy(all);
    burn_end(&b);
}

/* ---- Ever new stacks ----------------------------------------------------------------------- */

static volatile uint64_t wander_sink;

/* Each of 2^30 ways down is another stack. */
__attribute__((noinline)) static void wander_left(uint64_t way, int depth);
__attribute__((noinline)) static void wander_right(uint64_t way, int depth)
{
    if (!depth) {
        for (int i = 0; i < 20000; i++) wander_sink += (uint64_t)i;
        return;
    }
    (way & 1 ? wander_left : wander_right)(way >> 1, depth - 1);
    wander_sink++;
}
__attribute__((noinline)) static void wander_left(uint64_t way, int depth)
{
    if (!depth) {
        for (int i = 0; i < 20000; i++) wander_sink += (uint64_t)i;
        return;
    }
    (way & 1 ? wander_right : wander_left)(way >> 1, depth - 1);
    wander_sink--;
}

/* An engine that is asked to forget has room for new stacks for ever. */
static void test_forgets_stacks(void **state)
{
    (void)state;
    if (!can_sample) skip();
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        uint64_t way = 1;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            way = way * 6364136223846793005ull + 1442695040888963407ull;
            wander_left(way >> 20, 30);
        }
    }
    const struct sonde_cpu_options o = { .pid = (uint32_t)child, .rate_hz = 2000,
                                         .engine = SONDE_CPU_PERF, .profile_bytes_max = 1 << 20 };
    struct sonde_cpu_cursor cursor = { 0 };
    struct sonde_cpu *c = NULL;
    struct sonde_profile *part = NULL;
    struct sonde_err err = { "" };
    if (sonde_cpu_start(&o, &c, &err)) fail_msg("%s", err.text);
    uint64_t samples = 0;
    /* A megabyte has the stacks of some 1,500. */
    for (int i = 0; i < 12000 && samples < 5000; i++) {
        usleep(10000);
        assert_int_equal(sonde_cpu_since(c, &cursor, 1, &part), 0);
        assert_int_equal(part->dropped_samples, 0);
        samples += part->samples_count;
        for (uint32_t k = 0; k < part->samples_count; k++) {
            assert_true(part->samples[k].stack && part->samples[k].thread);
        }
        if (part->samples_count) {
            const struct sonde_profile_thread *t = &part->threads[part->samples[0].thread];
            assert_int_equal(t->pid, child);
        }
        sonde_profile_destroy(part);
    }
    assert_true(samples >= 5000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(sonde_cpu_stop(c, &part), 0);
    assert_int_equal(part->dropped_samples, 0);
    sonde_profile_destroy(part);
}

/* What is taken away part by part weighs no more than the CPU time that was used: nothing counts
 * twice, whenever it is taken. */
static void test_parts_add_up(void **state)
{
    (void)state;
    if (!can_sample) skip();
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) wander_left(1, 30);
    }
    const struct sonde_cpu_options o = { .pid = (uint32_t)child, .rate_hz = 1000,
                                         .engine = SONDE_CPU_PERF };
    struct sonde_cpu_cursor cursor = { 0 };
    struct sonde_cpu *c = NULL;
    struct sonde_profile *part = NULL;
    struct sonde_err err = { "" };
    uint64_t before = 0, after = 0, weight = 0;
    assert_int_equal(sonde_proc_cpu_ns((uint32_t)child, &before, NULL), 0);
    if (sonde_cpu_start(&o, &c, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < 8; i++) {
        usleep(290000); /* the engine looks at weights five times a second */
        assert_int_equal(sonde_cpu_since(c, &cursor, 1, &part), 0);
        weight += part->weights[SONDE_SAMPLE_CPU];
        sonde_profile_destroy(part);
    }
    assert_int_equal(sonde_proc_cpu_ns((uint32_t)child, &after, NULL), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(sonde_cpu_stop(c, &part), 0);
    sonde_profile_destroy(part);
    const uint64_t used = after - before;
    /* Some may be lost on a busy machine. */
    assert_in_range(weight, used / 2, used + used / 20 + 50000000);
}

/* In a pause nothing is sampled, and afterwards all CPU time is there all the same. */
static void test_pause(void **state)
{
    (void)state;
    if (!can_sample) skip();
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) wander_left(1, 30);
    }
    const struct sonde_cpu_options o = { .pid = (uint32_t)child, .rate_hz = 1000,
                                         .engine = SONDE_CPU_PERF };
    struct sonde_cpu *c = NULL;
    struct sonde_profile *p = NULL;
    struct sonde_cpu_status status, later;
    struct sonde_err err = { "" };
    uint64_t before = 0, after = 0;
    assert_int_equal(sonde_proc_cpu_ns((uint32_t)child, &before, NULL), 0);
    if (sonde_cpu_start(&o, &c, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < 3; i++) {
        usleep(300000);
        assert_int_equal(sonde_cpu_pause(c, 1, &err), 0);
        assert_int_equal(sonde_cpu_pause(c, 1, &err), 0); /* it is already */
        usleep(50000); /* what was on its way has come */
        sonde_cpu_status(c, &status);
        usleep(200000);
        sonde_cpu_status(c, &later);
        assert_true(later.samples == status.samples);
        assert_true(later.paused_s > status.paused_s);
        assert_int_equal(sonde_cpu_pause(c, 0, &err), 0);
    }
    for (int i = 0; i < 600 && later.samples < status.samples + 400; i++) {
        usleep(100000);
        sonde_cpu_status(c, &later);
    }
    assert_true(later.samples > status.samples);
    assert_int_equal(sonde_proc_cpu_ns((uint32_t)child, &after, NULL), 0);
    assert_int_equal(sonde_cpu_stop(c, &p), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_true(p->unsampled_ns >= 3 * 250000000ull);
    const uint64_t used = after - before;
    print_message("%.3f s used, %.3f s sampled, %.3f s paused\n", (double)used * 1e-9,
                  (double)p->weights[SONDE_SAMPLE_CPU] * 1e-9, (double)p->unsampled_ns * 1e-9);
    assert_in_range(p->weights[SONDE_SAMPLE_CPU], used / 2, used + used / 20 + 50000000);
    sonde_profile_destroy(p);
}

/* Of blocked time nothing may be missing. */
static void test_pause_refused(void **state)
{
    (void)state;
    static const char *const args[] = { "--wait", "--seconds", "0.1", NULL };
    struct burn b;
    struct sonde_cpu *c = NULL;
    struct sonde_profile *p = NULL;
    struct sonde_err err = { "" };
    if (!can_sample) skip();
    fork_until_ready(&b, args);
    const struct sonde_cpu_options o = { .pid = (uint32_t)b.pid, .engine = SONDE_CPU_PERF,
                                         .off_cpu = 1 };
    if (sonde_cpu_start(&o, &c, &err)) fail_msg("%s", err.text);
    assert_int_equal(sonde_cpu_pause(c, 1, &err), SONDE_EOFF);
    assert_non_null(strstr(err.text, "blocked"));
    burn_go(&b);
    assert_int_equal(sonde_cpu_stop(c, &p), 0);
    sonde_profile_destroy(p);
    burn_end(&b);
}

/* What is blocked while somebody looks has not ended: it is in the copy, and counts once in the
 * end, however often it was looked at. */
static void test_snapshots_while_blocked(void **state)
{
    (void)state;
    static const char *const args[] = { "--wait", "--seconds", "0.1", NULL };
    struct burn b;
    struct sonde_cpu *c = NULL;
    struct sonde_profile *p = NULL;
    struct sonde_err err = { "" };
    if (!can_sample) skip();
    fork_until_ready(&b, args);
    const struct sonde_cpu_options o = { .pid = (uint32_t)b.pid, .engine = SONDE_CPU_PERF,
                                         .off_cpu = 1 };
    if (sonde_cpu_start(&o, &c, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(sonde_cpu_snapshot(c, 0, &p), 0);
        sonde_profile_destroy(p);
    }
    burn_go(&b);
    burn_end(&b);
    assert_int_equal(sonde_cpu_stop(c, &p), 0);
    uint64_t weights[SONDE_SAMPLE_KIND_COUNT] = { 0 };
    for (uint32_t i = 0; i < p->samples_count; i++) {
        weights[p->samples[i].kind] += p->samples[i].weight;
    }
    assert_true(weights[SONDE_SAMPLE_OFFCPU] > 0);
    assert_memory_equal(weights, p->weights, sizeof(weights));
    sonde_profile_destroy(p);
}

static void test_kernel_frames(void **state)
{
    (void)state;
    static const char *const args[] = { "--ping-pong", "20000", NULL };
    struct burn b;
    if (!can_see_kernel) skip();
    struct sonde_profile *p = profile_burn(&b, args, (struct sonde_cpu_options){ .kernel = 1 });
    uint32_t kernel = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const uint32_t location = p->stacks[p->samples[i].stack].location;
        const uint32_t module = p->locations[location].module;
        kernel += (p->modules[module].flags & SONDE_MODULE_KERNEL) != 0;
    }
    assert_true(kernel > 0);
    sonde_profile_destroy(p);
}

static void test_errors(void **state)
{
    (void)state;
    static const struct { struct sonde_cpu_options o; int rc; const char *says; } cases[] = {
        { { .rate_hz = 100 }, SONDE_EINVAL, "no process" },
        { { .pid = 1, .rate_hz = 0.5 }, SONDE_EINVAL, "0.5" },
        { { .pid = 1, .rate_hz = 10001 }, SONDE_EINVAL, "10001" },
        { { .pid = 1, .depth_max = 5000 }, SONDE_EINVAL, "5000" },
        { { .pid = 0x3ffffff0, .engine = SONDE_CPU_PERF }, SONDE_ENOENT, "no process 1073741808" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_cpu *c = NULL;
        struct sonde_err err = { "" };
        assert_int_equal(sonde_cpu_start(&cases[i].o, &c, &err), cases[i].rc);
        assert_null(c);
        if (!strstr(err.text, cases[i].says)) fail_msg("%s", err.text);
    }
}

static void test_fault(void **state)
{
    (void)state;
    int rc = SONDE_ENOMEM;
    if (!can_sample) skip();
    const int64_t live = sonde__alloc_live();
    for (uint64_t nth = 1; rc && nth < 200; nth++) {
        const struct sonde_cpu_options o = { .pid = (uint32_t)getpid(), .engine = SONDE_CPU_PERF };
        struct sonde_cpu *c = NULL;
        struct sonde_err err = { "" };
        sonde__alloc_fail_nth(nth);
        rc = sonde_cpu_start(&o, &c, &err);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || (rc == SONDE_ENOMEM && !c && err.text[0]));
        if (c) {
            struct sonde_profile *p = NULL;
            assert_int_equal(sonde_cpu_stop(c, &p), 0);
            sonde_profile_destroy(p);
        }
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_off_cpu),
        cmocka_unit_test(test_off_cpu_attach),
        cmocka_unit_test(test_off_cpu_often),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_attach),
        cmocka_unit_test(test_attach_churn),
        cmocka_unit_test(test_snapshot_since),
        cmocka_unit_test(test_forgets_stacks),
        cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_pause_refused),
        cmocka_unit_test(test_snapshots_while_blocked),
        cmocka_unit_test(test_kernel_frames),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_fault),
    };
    return cmocka_run_group_tests(tests, look, NULL);
}
