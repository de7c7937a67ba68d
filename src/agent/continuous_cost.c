/* continuous_cost.c - what continuous profiling costs, and that as series; see continuous.h.
 *
 * The agent's part is the CPU time of its threads by name: those of engines, the one that hands out
 * what they saw, and our own, which also writes. The kernel counts it to the nanosecond. To that
 * comes the process that reads symbols, which is waited for. When a session or a request is
 * profiled at the same time engines are shared, and theirs is in it.
 *
 * The part of who is sampled cannot be seen from outside, but what one sample takes can be
 * measured, and how many there were is known. */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "collect/cpu/perf_cost.h"
#include "agent/continuous_private.h"
#include "sonde/sonde.h"

static const char *const thread_names[] = { "sonde-cpu", "sonde-captures", "sonde-always" };

void continuous_cost_try(struct sonde_continuous *c)
{
    struct sonde_err err = { "" };
    double ns = 0;
    if (c->cost.tried) return;
    const int rc = sonde_perf_cost(&ns, &err);
    sonde_lock(&c->lock);
    c->cost.tried = 1;
    c->cost.sample_ns = rc ? 0 : ns;
    snprintf(c->cost.why, sizeof(c->cost.why), "%.255s", rc ? err.text : "");
    sonde_unlock(&c->lock);
}

/* ---- The agent's ----------------------------------------------------------------------------- */

static int continuous_cost_is_ours(const char *tid)
{
    char path[64], name[32];
    snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", tid);
    if (sonde_file_read_small(AT_FDCWD, path, name, sizeof(name)) <= 0) return 0;
    name[strcspn(name, "\n")] = '\0';
    for (size_t i = 0; i < SONDE_COUNT(thread_names); i++) {
        if (!strcmp(name, thread_names[i])) return 1;
    }
    return 0;
}

/* What a thread has used since the last look. One that begins is counted from its beginning; of one
 * that ends what came after the last look is missed. */
static uint64_t used_by(const char *tid, const struct continuous_cost *before,
                        struct continuous_thread *out)
{
    char path[64], text[96];
    snprintf(path, sizeof(path), "/proc/self/task/%.16s/schedstat", tid);
    *out = (struct continuous_thread){ .tid = atoi(tid) };
    if (sonde_file_read_small(AT_FDCWD, path, text, sizeof(text)) > 0) {
        out->cpu_ns = strtoull(text, NULL, 10);
    }
    for (size_t i = 0; i < before->thread_count; i++) {
        const struct continuous_thread *old = &before->threads[i];
        if (old->tid != out->tid || old->cpu_ns > out->cpu_ns) continue;
        return out->cpu_ns - old->cpu_ns;
    }
    return out->cpu_ns;
}

static uint64_t children_ns(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_CHILDREN, &u) != 0) return 0;
    return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * 1000u;
}

void continuous_cost_look(struct sonde_continuous *c)
{
    struct continuous_thread now[CONTINUOUS_THREADS_MAX];
    size_t n = 0;
    uint64_t used = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *e; dir && (e = readdir(dir)) && n < CONTINUOUS_THREADS_MAX;) {
        if (e->d_name[0] == '.' || !continuous_cost_is_ours(e->d_name)) continue;
        used += used_by(e->d_name, &c->cost, &now[n++]);
    }
    if (dir) closedir(dir);
    memcpy(c->cost.threads, now, n * sizeof(now[0]));
    c->cost.thread_count = n;
    const uint64_t children = children_ns();
    sonde_lock(&c->lock);
    c->cost.agent_ns += used;
    /* The first look is at what came before. */
    if (c->cost.children_ns) c->cost.agent_ns += children - c->cost.children_ns;
    c->cost.children_ns = children ? children : 1;
    if (!c->cost.since_ns) {
        c->cost.since_ns = sonde_clock_ns(CLOCK_MONOTONIC);
        c->cost.agent_ns = 0;
    }
    sonde_unlock(&c->lock);
}

/* ---- Shares ---------------------------------------------------------------------------------- */

void continuous_cost_mark(struct sonde_continuous *c)
{
    struct continuous_cost *cost = &c->cost;
    sonde_lock(&c->lock);
    cost->marks[cost->mark_count++ % CONTINUOUS_MARKS] = (struct continuous_mark){
        .mono_ns = sonde_clock_ns(CLOCK_MONOTONIC), .agent_ns = cost->agent_ns,
        .samples = c->parts.samples, .weight_ns = c->parts.weight_ns };
    sonde_unlock(&c->lock);
}

/* The oldest mark and the newest; 0 = there are no two. */
static int continuous_cost_span_of(const struct continuous_cost *cost,
                                   const struct continuous_mark **first,
                                   const struct continuous_mark **last)
{
    if (cost->mark_count < 2) return 0;
    const uint64_t oldest = cost->mark_count < CONTINUOUS_MARKS ? 0 : cost->mark_count;
    *first = &cost->marks[oldest % CONTINUOUS_MARKS];
    *last = &cost->marks[(cost->mark_count - 1) % CONTINUOUS_MARKS];
    return (*last)->mono_ns > (*first)->mono_ns;
}

double continuous_cost_agent(const struct continuous_cost *cost)
{
    const struct continuous_mark *a, *b;
    if (!continuous_cost_span_of(cost, &a, &b)) return NAN;
    return (double)(b->agent_ns - a->agent_ns) / (double)(b->mono_ns - a->mono_ns);
}

double continuous_cost_target(const struct continuous_cost *cost)
{
    const struct continuous_mark *a, *b;
    if (!continuous_cost_span_of(cost, &a, &b) || !(cost->sample_ns > 0) ||
        b->weight_ns == a->weight_ns) {
        return NAN;
    }
    return (double)(b->samples - a->samples) * cost->sample_ns /
           (double)(b->weight_ns - a->weight_ns);
}

/* ---- Series ---------------------------------------------------------------------------------- */

enum { ENABLED, SAMPLES, PARTS, DROPPED, AGENT, AGENT_RATIO, COST, TARGET_RATIO, SERIES };

struct continuous_series { struct sonde_model_series *at[SERIES]; };

static const struct sonde_model_family_spec families[SERIES] = {
    [ENABLED] = { .name = "sonde_continuous_enabled", .type = SONDE_GAUGE,
                  .help = "1 while continuous profiling is on." },
    [SAMPLES] = { .name = "sonde_continuous_samples_total", .type = SONDE_COUNTER,
                  .help = "CPU samples that continuous profiling took." },
    [PARTS] = { .name = "sonde_continuous_writes_total", .type = SONDE_COUNTER,
                .help = "Parts of the history that were written." },
    [DROPPED] = { .name = "sonde_continuous_dropped_total", .type = SONDE_COUNTER,
                  .help = "Parts of the history that were lost, for lack of memory or disk." },
    [AGENT] = { .name = "sonde_continuous_agent_cpu_seconds_total", .type = SONDE_COUNTER,
                .unit = "seconds", .scale = 1e-9,
                .help = "CPU time of the agent for sampling, naming and writing." },
    [AGENT_RATIO] = { .name = "sonde_continuous_agent_cpu_ratio", .type = SONDE_GAUGE,
                      .unit = "ratio",
                      .help = "That as a share of one core, over the last minute." },
    [COST] = { .name = "sonde_continuous_sample_cost_seconds", .type = SONDE_GAUGE,
               .unit = "seconds",
               .help = "What a sample takes of the thread that is sampled, as measured." },
    [TARGET_RATIO] = { .name = "sonde_continuous_target_cpu_ratio", .type = SONDE_GAUGE,
                       .unit = "ratio",
                       .help = "Share of the CPU time of sampled processes that sampling takes." },
};

static struct sonde_model_series *continuous_cost_define(struct sonde_model *m, int i)
{
    struct sonde_model_family_spec spec = families[i];
    spec.source = "sonde";
    return sonde_model_own_series(m, &spec, NULL, NULL, 0);
}

/* What is not known yet has no series. */
void continuous_cost_show(struct sonde_continuous *c)
{
    struct sonde_model *m = sonde_collector_model(c->o.collector);
    sonde_lock(&c->lock);
    const uint64_t counters[SERIES] = { [SAMPLES] = c->parts.samples, [PARTS] = c->parts.written,
                                        [DROPPED] = c->parts.dropped, [AGENT] = c->cost.agent_ns };
    const double gauges[SERIES] = {
        [ENABLED] = c->settings.enabled,
        [AGENT_RATIO] = continuous_cost_agent(&c->cost),
        [COST] = c->cost.sample_ns > 0 ? c->cost.sample_ns * 1e-9 : NAN,
        [TARGET_RATIO] = continuous_cost_target(&c->cost),
    };
    sonde_unlock(&c->lock);
    if (!c->cost.series) c->cost.series = sonde__calloc(1, sizeof(*c->cost.series));
    if (!c->cost.series) return;
    sonde_wrlock(&m->lock);
    for (int i = 0; i < SERIES; i++) {
        struct sonde_model_series **s = &c->cost.series->at[i];
        if (isnan(gauges[i])) continue;
        if (!*s) *s = continuous_cost_define(m, i);
        if (!*s) continue;
        if (families[i].type == SONDE_COUNTER) (*s)->counter = counters[i];
        else (*s)->gauge = gauges[i];
    }
    sonde_rwunlock(&m->lock);
}

void sonde_continuous_cost(struct sonde_continuous *c, double *ratio, double *sample_s, char *why,
                           size_t why_size)
{
    sonde_lock(&c->lock);
    *ratio = continuous_cost_target(&c->cost);
    *sample_s = c->cost.sample_ns > 0 ? c->cost.sample_ns * 1e-9 : NAN;
    snprintf(why, why_size, "%s", c->cost.why);
    sonde_unlock(&c->lock);
}

void continuous_cost_release(struct continuous_cost *cost) { sonde__free(cost->series); }
