/* mixed.c - the engine for programs whose CPU time is best sampled from within, and whose blocked
 * time can only be seen from outside: Python with --off-cpu. The timer engine and the one of perf
 * events, of which the latter takes no CPU samples, beside each other into one profile. */
#include "base/alloc.h"
#include "collect/cpu/engine.h"
#include "sonde/sonde.h"

struct mixed {
    struct sonde_cpu_engine *timer, *perf; /* owned; of their own types */
};

static struct mixed *mixed_of(struct sonde_cpu_engine *e) { return (struct mixed *)(void *)e; }

#define TIMER sonde_cpu_engine_timer
#define PERF sonde_cpu_engine_perf

static int mixed_check(struct sonde_err *note)
{
    const int rc = TIMER.check(note);
    return rc ? rc : PERF.check(note);
}

static void mixed_destroy(struct sonde_cpu_engine *engine)
{
    struct mixed *e = mixed_of(engine);
    if (!e) return;
    if (e->timer) TIMER.destroy(e->timer);
    if (e->perf) PERF.destroy(e->perf);
    sonde__free(e);
}

static int mixed_start(const struct sonde_cpu_options *options, int on_exec,
                       struct sonde_profile *p, struct sonde_cpu_engine **out,
                       struct sonde_err *err)
{
    struct sonde_cpu_options cpu = *options, blocked = *options;
    cpu.off_cpu = 0;
    blocked.off_cpu = blocked.blocked_only = 1;
    struct mixed *e = sonde__calloc(1, sizeof(*e));
    if (!e) return sonde_err_set(err, SONDE_ENOMEM, "no memory to sample with");
    int rc = TIMER.start(&cpu, on_exec, p, &e->timer, err);
    if (!rc && options->off_cpu) rc = PERF.start(&blocked, on_exec, p, &e->perf, err);
    if (rc) {
        mixed_destroy((struct sonde_cpu_engine *)(void *)e);
        return rc;
    }
    *out = (struct sonde_cpu_engine *)(void *)e;
    return 0;
}

static const char *mixed_environment(const struct sonde_cpu_engine *engine, size_t *size)
{
    const struct mixed *e = (const struct mixed *)(const void *)engine;
    return TIMER.environment(e->timer, size);
}

static void mixed_wait(struct sonde_cpu_engine *engine, int wake_fd)
{
    struct mixed *e = mixed_of(engine);
    if (e->perf) PERF.wait(e->perf, wake_fd);
    else TIMER.wait(e->timer, wake_fd);
}

static void mixed_drain(struct sonde_cpu_engine *engine, int last)
{
    struct mixed *e = mixed_of(engine);
    TIMER.drain(e->timer, last);
    if (e->perf) PERF.drain(e->perf, last);
}

static void mixed_blocked_flush(struct sonde_cpu_engine *engine)
{
    struct mixed *e = mixed_of(engine);
    if (e->perf) PERF.blocked_flush(e->perf);
}

static void mixed_forget(struct sonde_cpu_engine *engine)
{
    struct mixed *e = mixed_of(engine);
    TIMER.forget(e->timer);
    if (e->perf) PERF.forget(e->perf);
}

static void mixed_counts(struct sonde_cpu_engine *engine, struct sonde_cpu_counts *out)
{
    struct mixed *e = mixed_of(engine);
    struct sonde_cpu_counts blocked = { .note = NULL };
    TIMER.counts(e->timer, out);
    if (!e->perf) return;
    PERF.counts(e->perf, &blocked);
    out->lost += blocked.lost;
    out->unwound_frames += blocked.unwound_frames;
    if (!out->note || !out->note[0]) out->note = blocked.note;
}

const struct sonde_cpu_engine_ops sonde_cpu_engine_mixed = {
    .kind = SONDE_CPU_MIXED,
    .check = mixed_check,
    .start = mixed_start,
    .environment = mixed_environment,
    .wait = mixed_wait,
    .drain = mixed_drain,
    .blocked_flush = mixed_blocked_flush,
    .forget = mixed_forget,
    .counts = mixed_counts,
    .destroy = mixed_destroy,
};
