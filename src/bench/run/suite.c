/* suite.c - see suite.h. suite_report.c writes what came of it. */
#include "bench/run/suite.h"

#include <assert.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/cmd/timing.h"
#include "sonde/sonde.h"

/* More iterations than any real work needs: what is faster was optimized away. */
#define SUITE_ITERATIONS_MAX (UINT64_C(1) << 40)

struct suite_state {
    const struct sonde_suite_options *o;
    struct sonde_suite *s;
    struct sonde_program program;
    sigset_t found;
    int signal_fd;
    size_t *order;           /* owned */
    uint64_t seed;
    double begin_s;
};

/* ---- Cases ----------------------------------------------------------------------------------- */

static int suite_wants(const char *filter, const char *name)
{
    if (!filter || !*filter) return 1;
    return strpbrk(filter, "*?[") ? fnmatch(filter, name, 0) == 0 : strstr(name, filter) != NULL;
}

static int suite_cases(struct suite_state *t, struct sonde_err *err)
{
    struct sonde_program_case *all;
    size_t count;
    const size_t most = (size_t)t->o->processes_max;
    int rc = sonde_program_list(&t->program, &all, &count, err);
    struct sonde_suite *s = t->s;
    if (!rc) {
        s->cases = sonde__calloc(count ? count : 1, sizeof(*s->cases));
        t->order = sonde__calloc(count ? count : 1, sizeof(*t->order));
        if (!s->cases || !t->order) rc = sonde_err_memory(err);
    }
    for (size_t i = 0; i < count && !rc; i++) {
        if (!suite_wants(t->o->filter, all[i].name)) continue;
        for (size_t k = 0; k < s->case_count; k++) {
            if (!strcmp(s->cases[k].of.name, all[i].name)) {
                rc = sonde_err_set(err, SONDE_EINVAL, "there are two benchmarks '%s' in '%s'",
                                   all[i].name, t->o->path);
            }
        }
        struct sonde_suite_case *c = &s->cases[s->case_count++];
        c->of = all[i];
        c->real_s = sonde__calloc(most, sizeof(*c->real_s));
        c->cpu_s = sonde__calloc(most, sizeof(*c->cpu_s));
        c->count = sonde__calloc(most, sizeof(*c->count));
        if (!rc && (!c->real_s || !c->cpu_s || !c->count)) rc = sonde_err_memory(err);
    }
    sonde__free(all);
    if (!rc && !s->case_count) {
        rc = sonde_err_set(err, SONDE_EINVAL, "no benchmark of '%s' is called '%s'; --list shows "
                           "them", t->o->path, t->o->filter ? t->o->filter : "");
    }
    return rc;
}

static int suite_start(struct suite_state *t, struct sonde_err *err)
{
    return sonde_program_start(&t->program, t->o->path, &t->found, t->signal_fd, t->o->timeout_s,
                               t->o->show_output, err);
}

/* ---- Samples --------------------------------------------------------------------------------- */

/* A benchmark that says it cannot is left out; anything else ends it all. 1 = interrupted. */
static int suite_sample(struct suite_state *t, struct sonde_suite_case *c, uint64_t iterations,
                        struct sonde_program_sample *out, struct sonde_err *err)
{
    const int rc = sonde_program_run(&t->program, &c->of, iterations, out, err);
    if (rc == 1) t->s->interrupted = 1;
    if (!rc && out->failed[0]) {
        memcpy(c->failed, out->failed, sizeof(c->failed));
        c->iterations = 0;
    }
    return rc;
}

/* How many iterations take sample_s. */
static int suite_calibrate(struct suite_state *t, struct sonde_suite_case *c, struct sonde_err *err)
{
    uint64_t n = 1;
    for (;;) {
        struct sonde_program_sample s;
        const int rc = suite_sample(t, c, n, &s, err);
        if (rc || c->failed[0]) return rc;
        const double took_s = (double)s.real_ns * 1e-9;
        c->bytes = s.bytes;
        c->items = s.items;
        if (took_s >= t->o->sample_s) break;
        if (n >= SUITE_ITERATIONS_MAX) {
            snprintf(c->failed, sizeof(c->failed), "it takes no time: the compiler has removed it; "
                     "use SONDE_BENCH_KEEP");
            return 0;
        }
        /* By ten at most: the first iterations are slower than the rest. */
        const double more = took_s > 0 ? 1.2 * t->o->sample_s / took_s : 10;
        n = (uint64_t)((double)n * fmin(more, 10)) + 1;
    }
    c->iterations = n;
    return 0;
}

static int suite_round(struct suite_state *t, int counted, struct sonde_err *err)
{
    struct sonde_suite *s = t->s;
    for (size_t i = s->case_count; i > 1; i--) {
        const size_t k = (size_t)sonde_random_below(&t->seed, i), swap = t->order[i - 1];
        t->order[i - 1] = t->order[k];
        t->order[k] = swap;
    }
    for (size_t i = 0; i < s->case_count; i++) {
        struct sonde_suite_case *c = &s->cases[t->order[i]];
        struct sonde_program_sample sample;
        if (!c->iterations) continue;
        /* Not counted: a tenth, so that caches and pages are as they will be. */
        const uint64_t n = counted ? c->iterations : c->iterations / 10 + 1;
        const int rc = suite_sample(t, c, n, &sample, err);
        if (rc) return rc;
        if (!counted || !c->iterations) continue;
        c->real_s[s->processes] += (double)sample.real_ns * 1e-9;
        c->cpu_s[s->processes] += (double)sample.cpu_ns * 1e-9;
        c->count[s->processes] += (double)n;
    }
    return 0;
}

struct sonde_estimate sonde_suite_time(const struct sonde_suite *s, size_t which)
{
    const struct sonde_suite_case *c = &s->cases[which];
    const size_t n = s->processes;
    return sonde_timing_degrees(sonde_estimate_runs(c->real_s, c->count, n, 0), n);
}

static double suite_width(const struct sonde_suite *s)
{
    double widest = 0;
    for (size_t i = 0; i < s->case_count; i++) {
        if (!s->cases[i].iterations) continue;
        const struct sonde_estimate e = sonde_suite_time(s, i);
        const double width = e.value > 0 ? sonde_timing_half(&e) / e.value : INFINITY;
        if (!(width <= widest)) widest = width;
    }
    return widest;
}

static void suite_tell(const struct suite_state *t, double width)
{
    const struct sonde_suite_options *o = t->o;
    char state[96];
    if (!o->progress) return;
    const double done = (double)t->s->processes;
    double needed = (double)o->processes_min;
    if (o->until > 0 && isfinite(width)) {
        needed = fmax(needed, 1.25 * done * pow(width / o->until, 2));
    }
    double share = done / fmin(needed, (double)o->processes_max);
    if (t->s->processes >= o->processes_min) {
        share = fmax(share, (sonde_clock_s(CLOCK_MONOTONIC) - t->begin_s) / o->duration_s);
    }
    snprintf(state, sizeof(state), "process %zu", t->s->processes);
    o->progress(o->progress_arg, fmin(share, 1), state);
}

/* 1 = interrupted: a process that was not finished does not count. */
static int suite_process(struct suite_state *t, struct sonde_err *err)
{
    struct sonde_suite *s = t->s;
    int rc = suite_start(t, err);
    if (!rc) rc = suite_round(t, 0, err);
    for (uint64_t i = 0; i < t->o->samples && !rc; i++) rc = suite_round(t, 1, err);
    sonde_program_stop(&t->program);
    if (!rc) s->processes++;
    return rc;
}

static int suite_all(struct suite_state *t, struct sonde_err *err)
{
    const struct sonde_suite_options *o = t->o;
    struct sonde_suite *s = t->s;
    size_t stop_at = 0;
    t->begin_s = sonde_clock_s(CLOCK_MONOTONIC);
    for (;;) {
        const int rc = suite_process(t, err);
        if (rc) return rc;
        const double width = suite_width(s);
        suite_tell(t, width);
        if (s->processes >= o->processes_min) {
            const int enough = sonde_timing_enough(s->processes, width, o->until, &stop_at);
            s->narrow = o->until > 0 && width <= o->until;
            if (o->until <= 0 || enough) return 0;
            if (sonde_clock_s(CLOCK_MONOTONIC) - t->begin_s >= o->duration_s) return 0;
        }
        if (s->processes >= o->processes_max) return 0;
    }
}

/* ---- All ------------------------------------------------------------------------------------- */

static int suite_open(struct suite_state *t, struct sonde_err *err)
{
    memset(t->s, 0, sizeof(*t->s));
    t->signal_fd = sonde_program_signals(&t->found, err);
    if (t->signal_fd < 0) return SONDE_EIO;
    int rc = suite_start(t, err);
    if (!rc) rc = suite_cases(t, err);
    if (rc == 1) t->s->interrupted = 1;
    return rc;
}

static void suite_close(struct suite_state *t)
{
    sonde_program_stop(&t->program);
    sonde__free(t->order);
    if (t->signal_fd < 0) return;
    close(t->signal_fd);
    /* A signal that came has done its work: not ending by it once more. */
    sigset_t pending;
    const struct timespec now = { 0, 0 };
    sigemptyset(&pending);
    sigaddset(&pending, SIGINT);
    sigaddset(&pending, SIGTERM);
    sigaddset(&pending, SIGHUP);
    sigaddset(&pending, SIGQUIT);
    if (t->s->interrupted) sigtimedwait(&pending, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &t->found, NULL);
}

int sonde_suite_list(const struct sonde_suite_options *o, struct sonde_suite *s,
                     struct sonde_err *err)
{
    struct suite_state t = { .o = o, .s = s };
    const int rc = suite_open(&t, err);
    suite_close(&t);
    return rc > 0 ? 0 : rc;
}

int sonde_suite_run(const struct sonde_suite_options *o, struct sonde_suite *s,
                    struct sonde_err *err)
{
    assert(o->processes_min >= 1 && o->processes_max >= o->processes_min && o->samples >= 1);
    assert(o->processes_max <= SONDE_SUITE_PROCESSES_MAX && o->sample_s > 0 && o->duration_s > 0);
    struct suite_state t = { .o = o, .s = s, .seed = o->seed };
    const double begin_s = sonde_clock_s(CLOCK_MONOTONIC);
    int rc = suite_open(&t, err);
    for (size_t i = 0; i < s->case_count && !rc; i++) {
        t.order[i] = i;
        rc = suite_calibrate(&t, &s->cases[i], err);
    }
    sonde_program_stop(&t.program);
    if (!rc) rc = suite_all(&t, err);
    suite_close(&t);
    s->elapsed_s = sonde_clock_s(CLOCK_MONOTONIC) - begin_s;
    return rc > 0 ? 0 : rc;
}

void sonde_suite_release(struct sonde_suite *s)
{
    for (size_t i = 0; i < s->case_count; i++) {
        sonde__free(s->cases[i].real_s);
        sonde__free(s->cases[i].cpu_s);
        sonde__free(s->cases[i].count);
    }
    sonde__free(s->cases);
    memset(s, 0, sizeof(*s));
}

int sonde_suite_scaling(const struct sonde_suite *s, size_t first, uint64_t seed,
                        struct sonde_usl *out)
{
    struct sonde_usl_point points[SONDE_USL_POINTS_MAX];
    const char *group = s->cases[first].of.group;
    size_t count = 0;
    for (size_t i = 0; i < first; i++) {
        if (!strcmp(s->cases[i].of.group, group)) return SONDE_EINVAL;
    }
    for (size_t i = first; i < s->case_count && count < SONDE_USL_POINTS_MAX; i++) {
        if (strcmp(s->cases[i].of.group, group) || !s->cases[i].iterations) continue;
        const struct sonde_estimate e = sonde_suite_time(s, i);
        const double n = (double)s->cases[i].of.threads;
        if (!(e.value > 0)) continue;
        points[count++] = (struct sonde_usl_point){ .n = n, .throughput = n / e.value,
                                                    .se = n / e.value * e.se_high / e.value,
                                                    .df = e.df };
    }
    return sonde_usl_fit(points, count, seed, out);
}
