/* timer.c - the engine that samples from within, through libsonde_preload: finding the
 * segments it writes, reading them, and saying what it could not do. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "collect/cpu/engine.h"
#include "collect/cpu/timer.h"
#include "collect/proc/describe.h"
#include "collect/python/location.h"
#include "segment/segment.h"
#include "sonde/sonde.h"

#define WAIT_MS 50

struct sonde_cpu_engine {
    struct sonde_cpu_options options;
    struct sonde_preload_targets found;  /* struct sonde_timer_target */
    struct sonde_tick_clock clock;
    struct sonde_timer_reader reader;
    int described, any;          /* any: some target was ours */
    uint32_t told;               /* bit n: the note of state n was made */
    char note[SONDE_CPU_NOTE_MAX], absent[SONDE_CPU_NOTE_MAX];
    char env[SONDE_TIMER_ENV_MAX];
    size_t env_size;
};

static struct sonde_timer_target *target_at(const struct sonde_cpu_engine *e, uint32_t i)
{
    return (struct sonde_timer_target *)(void *)e->found.targets[i];
}

/* ---- Notes ----------------------------------------------------------------------------------- */

static void note_state(struct sonde_cpu_engine *e, const struct sonde_timer_target *t)
{
    static const char *const texts[] = {
#define SONDE__X(name, text) text,
        SONDE__SAMPLER_STATES(SONDE__X)
#undef SONDE__X
    };
    const uint32_t bit = 1u << t->info.state;
    if (t->info.state <= SONDE__SAMPLER_ENDED || e->told & bit) return;
    e->told |= bit;
    snprintf(e->note, sizeof(e->note), "process %u is not sampled%s: %s", t->base.id.pid,
             t->info.state == SONDE__SAMPLER_GAVE_WAY ||
             t->info.state == SONDE__SAMPLER_SANDBOXED ? " any more" : "", texts[t->info.state]);
    sonde_log(SONDE_LOG_WARN, "%s", e->note);
}

static void note_threads(struct sonde_cpu_engine *e, const struct sonde_timer_target *t)
{
    if (t->info.state > SONDE__SAMPLER_ENDED) return;
    if (t->info.full) {
        snprintf(e->note, sizeof(e->note), "%llu samples of process %u are missing: there was no "
                 "room for them in %.160s", (unsigned long long)t->info.full, t->base.id.pid,
                 e->found.dir);
    } else if (t->info.threads_refused) {
        snprintf(e->note, sizeof(e->note), "%llu threads of process %u were not sampled: the "
                 "kernel gave no more timers (ulimit -i is their limit)",
                 (unsigned long long)t->info.threads_refused, t->base.id.pid);
    } else if (t->info.threads_skipped) {
        snprintf(e->note, sizeof(e->note), "%llu threads of process %u were not sampled while "
                 "their alternate signal stack was too small",
                 (unsigned long long)t->info.threads_skipped, t->base.id.pid);
    } else if (t->info.late) {
        snprintf(e->note, sizeof(e->note), "%llu samples of process %u came late, because signals "
                 "were blocked: time is shown where they were unblocked",
                 (unsigned long long)t->info.late, t->base.id.pid);
    }
}

static void note_python(struct sonde_cpu_engine *e, struct sonde_timer_target *t)
{
    char note[SONDE_CPU_NOTE_MAX];
    sonde_python_note(t->base.segment, t->base.id.pid, note, sizeof(note));
    if (!note[0] || t->info.state > SONDE__SAMPLER_ENDED) return;
    memcpy(e->note, note, sizeof(e->note));
    if (!t->python_told) sonde_log(SONDE_LOG_WARN, "%s", note);
    t->python_told = 1;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* 0, or SONDE_ENOENT: it is not sampled, or not by us. */
static int cpu_timer_is_ours(struct sonde_cpu_engine *e, struct sonde_timer_target *t)
{
    struct sonde_err err;
    const int rc = sonde_segment_sampler(t->base.segment, &t->info, &err);
    if (rc == 0 && e->found.only && t->info.session != e->found.only) return SONDE_ENOENT;
    if (rc == 0 && !e->reader.stacks) {
        return sonde_cpu_stacks_create(e->reader.profile, t->info.depth_max, &e->reader.stacks);
    }
    return rc;
}

static void cpu_timer_target_read(struct sonde_cpu_engine *e, struct sonde_timer_target *t,
                                  int last)
{
    struct sonde_err err;
    if (!t->base.segment) return;
    /* Who has just been sampled lives; if it has ended since, the next round will see no sample. */
    if (!t->busy || last) sonde_preload_look(&e->found, &t->base);
    if (!t->base.ours) {
        const int rc = cpu_timer_is_ours(e, t);
        if (rc != 0) {
            if (t->base.gone || rc != SONDE_ENOENT) sonde_timer_target_release(&e->reader, t);
            return;
        }
        t->base.ours = e->any = 1;
    }
    if (!e->described && t->base.id.pid == e->options.pid) {
        sonde_proc_describe(e->reader.profile, t->base.id.pid,
                            sonde_segment_header(t->base.segment)->program);
        e->described = 1;
    }
    const uint64_t before = e->reader.figures.samples;
    const int rc = sonde_timer_read(&e->reader, t, t->base.gone, &err);
    t->busy = e->reader.figures.samples != before;
    if (rc != 0) {
        sonde_log(SONDE_LOG_WARN, "samples of %s/%s: %s", e->found.dir, t->base.name, err.text);
    }
    note_state(e, t);
    note_python(e, t);
    note_threads(e, t);
    if (rc != 0 || t->base.gone) sonde_timer_target_release(&e->reader, t);
}

static void cpu_timer_engine_drain(struct sonde_cpu_engine *e, int last)
{
    /* Records that are being written when sampling ends are nobody's. */
    sonde_tick_clock_update(&e->clock);
    e->reader.now_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    sonde_preload_scan(&e->found);
    for (uint32_t i = 0; i < e->found.target_count; i++) {
        cpu_timer_target_read(e, target_at(e, i), last);
    }
}

static void engine_wait(struct sonde_cpu_engine *e, int wake_fd)
{
    struct pollfd p = { .fd = wake_fd, .events = POLLIN };
    (void)e;
    poll(&p, 1, WAIT_MS);
}

static void engine_forget(struct sonde_cpu_engine *e)
{
    if (e->reader.stacks) sonde_cpu_stacks_forget(e->reader.stacks);
    for (uint32_t i = 0; i < e->found.target_count; i++) {
        memset(target_at(e, i)->named, 0, sizeof(target_at(e, i)->named));
    }
}

static void cpu_timer_blocked_flush(struct sonde_cpu_engine *e) { (void)e; }

static void cpu_timer_engine_counts(struct sonde_cpu_engine *e, struct sonde_cpu_counts *out)
{
    const struct sonde_timer_figures *f = &e->reader.figures;
    *out = (struct sonde_cpu_counts){ .samples = f->samples, .truncated = f->truncated,
                                      .unwound_frames = f->frames, .lost = f->lost,
                                      .cpu_ns = f->cpu_ns };
    for (uint32_t i = 0; i < e->found.target_count; i++) {
        const struct sonde_timer_target *t = target_at(e, i);
        out->lost += t->lost;
        out->cpu_ns += t->cpu_ns;
        if (t->base.segment && t->base.ours && !t->base.gone &&
            out->known_count < SONDE_CPU_KNOWN_MAX) {
            out->known[out->known_count++] = t->base.id.pid;
        }
    }
    out->note = e->note;
    if (!e->any) {
        sonde_preload_absent(&e->found, e->absent, sizeof(e->absent));
        out->note = e->absent;
    }
}

/* ---- Starting and ending --------------------------------------------------------------------- */

static int engine_check(struct sonde_err *note)
{
    char library[512];
    const int rc = sonde_preload_library(library, sizeof(library), note);
    if (rc != 0) return rc;
    return sonde_err_set(note, 0, "%s can sample programs that sonde starts", library);
}

int sonde_timer_environment(uint64_t session, uint64_t period_ns, uint32_t depth_max, int children,
                            char out[SONDE_TIMER_ENV_MAX], size_t *size, struct sonde_err *err)
{
    char variable[160];
    snprintf(variable, sizeof(variable), "SONDE_SAMPLER=session=%016" PRIx64 ",period=%" PRIu64
             ",depth=%" PRIu32 ",children=%d", session, period_ns, depth_max, children != 0);
    return sonde_preload_environment(variable, out, size, err);
}

/* A process that runs already must have come with the library in it. */
static int cpu_timer_find_running(struct sonde_cpu_engine *e, struct sonde_err *err)
{
    sonde_preload_scan(&e->found);
    for (uint32_t i = 0; i < e->found.target_count; i++) {
        struct sonde_timer_target *t = target_at(e, i);
        if (t->base.segment && t->base.id.pid == e->options.pid && cpu_timer_is_ours(e, t) == 0) {
            if (e->options.children) e->found.only = t->info.session;
            return 0;
        }
    }
    return sonde_err_set(err, SONDE_EOFF, "process %u was not started with libsonde_preload, which "
                         "cannot come in later; start it with: sonde record --engine timer -- CMD",
                         e->options.pid);
}

static void cpu_timer_engine_destroy(struct sonde_cpu_engine *e);

static int engine_start(const struct sonde_cpu_options *options, int on_exec,
                        struct sonde_profile *p, struct sonde_cpu_engine **out,
                        struct sonde_err *err)
{
    if (options->off_cpu) {
        return sonde_err_set(err, SONDE_EOFF, "the timer engine samples CPU time only: blocked "
                             "time needs perf events");
    }
    struct sonde_cpu_engine *e = sonde__calloc(1, sizeof(*e));
    if (!e) return sonde_err_set(err, SONDE_ENOMEM, "no memory to sample with");
    e->options = *options;
    e->reader.profile = p;
    e->reader.clock = &e->clock;
    sonde_tick_clock_init(&e->clock);
    int rc = sonde_preload_init(&e->found, options->readers, options->dir, options->pid,
                                options->children, on_exec, sizeof(struct sonde_timer_target), err);
    if (rc == 0 && sonde_modules_create(0, &e->reader.modules) != 0) {
        rc = sonde_err_set(err, SONDE_ENOMEM, "no memory to sample with");
    }
    if (rc == 0 && on_exec) {
        const uint64_t period_ns = (uint64_t)(1e9 / options->rate_hz + 0.5);
        rc = sonde_timer_environment(e->found.session, period_ns,
                                     options->depth_max < SONDE__DEPTH_MIN ? SONDE__DEPTH_MIN
                                                                           : options->depth_max,
                                     options->children, e->env, &e->env_size, err);
    } else if (rc == 0) {
        rc = cpu_timer_find_running(e, err);
    }
    if (rc != 0) {
        cpu_timer_engine_destroy(e);
        return rc;
    }
    *out = e;
    return 0;
}

static const char *engine_environment(const struct sonde_cpu_engine *e, size_t *size)
{
    *size = e->env_size;
    return e->env;
}

static void cpu_timer_engine_destroy(struct sonde_cpu_engine *e)
{
    if (!e) return;
    for (uint32_t i = 0; i < e->found.target_count; i++) {
        sonde_timer_target_release(&e->reader, target_at(e, i));
    }
    sonde_preload_release(&e->found);
    sonde_cpu_stacks_destroy(e->reader.stacks);
    sonde_modules_destroy(e->reader.modules);
    sonde__free(e);
}

const struct sonde_cpu_engine_ops sonde_cpu_engine_timer = {
    .kind = SONDE_CPU_TIMER,
    .check = engine_check,
    .start = engine_start,
    .environment = engine_environment,
    .wait = engine_wait,
    .drain = cpu_timer_engine_drain,
    .blocked_flush = cpu_timer_blocked_flush,
    .forget = engine_forget,
    .counts = cpu_timer_engine_counts,
    .destroy = cpu_timer_engine_destroy,
};
