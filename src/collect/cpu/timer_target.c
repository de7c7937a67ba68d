/* timer_target.c - the samples of one segment, into the profile.
 *
 * Addresses mean what the process said was mapped when they were sampled: the ring has that in
 * order with the samples, so it is right for code that has been unloaded since, and for programs
 * that are gone before anybody could look at /proc/PID/maps. That is looked at only for addresses
 * the process said nothing about: code without a file, or what was said before we came. */
#include <string.h>
#include <time.h>

#include "base/utf8.h"
#include "collect/cpu/timer.h"
#include "collect/python/location.h"
#include "segment/segment.h"
#include "sonde/sonde.h"

#define NAME_EVERY_NS 1000000000u

struct cpu_timer_target_reading {
    struct sonde_timer_reader *r;
    struct sonde_timer_target *t;
};

/* ---- Code ------------------------------------------------------------------------------------ */

static void on_map(void *arg, const struct sonde_mapping *m)
{
    struct cpu_timer_target_reading *g = arg;
    if (sonde_preload_map(&g->t->base, g->t->as, m) == 0) {
        g->t->layout = sonde_cpu_stacks_layout_new(g->r->stacks);
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* The name as it is now, at most once a second: threads name themselves after they begin. */
static void cpu_timer_target_look_at_name(struct cpu_timer_target_reading *g, uint32_t tid)
{
    char name[64];
    struct sonde_timer_target *t = g->t;
    const uint32_t at = tid % SONDE_TIMER_NAMES;
    if (t->named[at].tid == tid && g->r->now_ns - t->named[at].at_ns < NAME_EVERY_NS) return;
    t->named[at].tid = tid;
    t->named[at].at_ns = g->r->now_ns;
    sonde_preload_thread_name(t->base.id.pid, tid, name);
    if (name[0]) sonde_profile_thread(g->r->profile, t->base.id.pid, tid, name);
}

/* As its program is called, for one that is gone before anybody could ask. */
static void name_process(struct sonde_timer_reader *r, struct sonde_timer_target *t)
{
    const char *program = sonde_segment_header(t->base.segment)->program;
    const uint32_t pid = t->base.id.pid;
    const uint32_t row = sonde_profile_thread(r->profile, pid, pid, "");
    if (row && !r->profile->threads[row].name) {
        sonde_profile_thread(r->profile, pid, pid, program);
    }
}

static void cpu_timer_target_on_thread(void *arg, const struct sonde_segment_thread *thread)
{
    struct cpu_timer_target_reading *g = arg;
    char name[64];
    int changed = 0;
    name[sonde__utf8_copy(name, sizeof(name) - 1, thread->name, strlen(thread->name),
                          &changed)] = '\0';
    sonde_profile_thread(g->r->profile, g->t->base.id.pid, thread->tid, name);
}

/* ---- Samples --------------------------------------------------------------------------------- */

static uint32_t cpu_timer_target_python(void *arg, uint64_t ip, int *final)
{
    struct cpu_timer_target_reading *g = arg;
    return sonde_python_location(g->r->profile, g->t->base.segment, ip, final);
}

/* As sonde_cpu_stacks_add wants it: with a frame where some were left out. */
static uint32_t cpu_timer_target_stack_of(struct cpu_timer_target_reading *g,
                                          const struct sonde_segment_sample *s)
{
    uint64_t ips[SONDE__DEPTH_MAX + 1];
    struct sonde_timer_target *t = g->t;
    const uint32_t inner = s->depth - s->depth / 4;
    if (!s->depth) return sonde_cpu_stacks_named(g->r->stacks, "[no user stack]");
    if (sonde_preload_find_code(&t->base, g->r->modules, t->as, s->ips, s->depth,
                                g->r->now_ns)) {
        t->layout = sonde_cpu_stacks_layout_new(g->r->stacks);
    }
    /* What is remembered of Python's frames is of this process. */
    if (!t->layout) t->layout = sonde_cpu_stacks_layout_new(g->r->stacks);
    if (!s->left_out) {
        return sonde_cpu_stacks_add(g->r->stacks, t->as, t->layout, 0, s->ips, s->depth);
    }
    memcpy(ips, s->ips, inner * sizeof(ips[0]));
    ips[inner] = 0;
    memcpy(ips + inner + 1, s->ips + inner, (s->depth - inner) * sizeof(ips[0]));
    return sonde_cpu_stacks_add(g->r->stacks, t->as, t->layout, 0, ips, s->depth + 1);
}

static void cpu_timer_target_on_sample(void *arg, const struct sonde_segment_sample *s)
{
    struct cpu_timer_target_reading *g = arg;
    struct sonde_timer_reader *r = g->r;
    const struct sonde__header *h = sonde_segment_header(g->t->base.segment);
    const uint64_t stands_for = 1 + (uint64_t)s->overrun;
    const int truncated = s->depth == 0 || s->flags & SONDE__SAMPLE_TRUNCATED;
    cpu_timer_target_look_at_name(g, g->t->base.id.pid); /* as the process is called */
    cpu_timer_target_look_at_name(g, s->tid);
    const struct sonde_profile_sample sample = {
        .time_ns = sonde_tick_unix_ns(r->clock, h->tsc != 0, s->ticks),
        .weight = stands_for * g->t->info.period_ns,
        .stack = cpu_timer_target_stack_of(g, s),
        .thread = sonde_profile_thread(r->profile, g->t->base.id.pid, s->tid, ""),
        .count = stands_for > UINT32_MAX ? UINT32_MAX : (uint32_t)stands_for,
        .kind = SONDE_SAMPLE_CPU,
        .flags = !truncated ? 0 : sonde_sample_cut_flags(s->flags & SONDE__SAMPLE_CODE
                                                             ? SONDE_CUT_CODE : SONDE_CUT_UNKNOWN),
    };
    sonde_profile_add_sample(r->profile, &sample);
    r->figures.samples += stands_for;
    r->figures.frames += s->depth + s->left_out;
    r->figures.truncated += truncated != 0;
}

/* ---- All ------------------------------------------------------------------------------------- */

/* While it lives its clock can be asked; at its end it leaves a note. */
static void look_at_cpu(struct sonde_timer_target *t)
{
    clockid_t clock;
    struct timespec now;
    uint64_t ns = t->info.cpu_end_ns;
    if (!t->base.gone && clock_getcpuclockid((pid_t)t->base.id.pid, &clock) == 0 &&
        clock_gettime(clock, &now) == 0 && t->info.state == SONDE__SAMPLER_RUNNING) {
        ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    }
    if (ns > t->info.cpu_start_ns && ns - t->info.cpu_start_ns > t->cpu_ns) {
        t->cpu_ns = ns - t->info.cpu_start_ns;
    }
}

int sonde_timer_read(struct sonde_timer_reader *r, struct sonde_timer_target *t, int last,
                     struct sonde_err *err)
{
    struct cpu_timer_target_reading g = { r, t };
    const struct sonde_segment_sink sink = { cpu_timer_target_on_sample, on_map,
                                             cpu_timer_target_on_thread, &g };
    int rc = sonde_segment_sampler(t->base.segment, &t->info, err);
    if (rc != 0) return rc;
    if (!t->as) {
        rc = sonde_aspace_create(r->modules, t->base.id.pid, &t->as);
        name_process(r, t);
    }
    if (rc != 0) return sonde_err_set(err, rc, "no memory for the mappings of it");
    look_at_cpu(t);
    sonde_cpu_stacks_python(r->stacks, cpu_timer_target_python, &g);
    rc = sonde_segment_samples(t->base.segment, &sink, last, &t->lost, err);
    sonde_cpu_stacks_python(r->stacks, NULL, NULL);
    return rc;
}

void sonde_timer_target_release(struct sonde_timer_reader *r, struct sonde_timer_target *t)
{
    r->figures.lost += t->lost;
    r->figures.cpu_ns += t->cpu_ns;
    t->lost = t->cpu_ns = 0;
    sonde_preload_close(&t->base);
    sonde_aspace_destroy(t->as);
    t->as = NULL;
}
