/* continuous.c - see continuous.h: settings, and the thread. */
#include "agent/continuous.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "agent/continuous_private.h"
#include "sonde/sonde.h"

#define FLUSH_DEFAULT_S 10.0
#define SPANS_BYTES_MAX ((size_t)16 << 20) /* between two writes: some 200,000 */
#define MEMORY_MAX ((uint64_t)32 << 20) /* of a history without a store … */
#define MEMORY_PARTS 100000u   /* … which is bounded by that alone */
#define TIDY_S 60.0            /* between looks at whether something is to be merged */
#define STEP_S 0.05            /* between steps, when there is */
#define FLUSH_WAIT_NS 5000000000u
#define FLUSH_AGAIN_NS 1000000000u
#define LOOK_S 1.0             /* the thread wakes at least so often while it is on */
#define RETRY_S 5.0            /* after something could not be begun */

/* ---- What is wanted now ---------------------------------------------------------------------- */

struct continuous_wanted {
    double hz;                 /* 0 = the CPU is not to be sampled */
    int heaps;
    double until_s;            /* unix time at which this may change */
};

static struct continuous_wanted what_is_wanted(struct sonde_continuous *c, double unix_s)
{
    sonde_assert_held(&c->lock);
    const struct sonde_continuous_settings *s = &c->settings;
    struct continuous_wanted w = { .heaps = s->enabled && s->memory, .until_s = unix_s + LOOK_S };
    if (!s->enabled || !s->cpu || c->worker.stopping) return w;
    const double mono_s = sonde_clock_s(CLOCK_MONOTONIC);
    const double phase_s = fmod(unix_s, s->interval_s);
    if (c->burst_until_s > mono_s) {
        w.hz = fmax(c->burst_hz, s->rate_hz);
        w.until_s = fmin(w.until_s, unix_s + c->burst_until_s - mono_s);
    } else if (!(s->duration_s > 0) || s->duration_s >= s->interval_s) {
        w.hz = s->rate_hz;
    } else if (phase_s < s->duration_s) {
        w.hz = s->rate_hz;
        w.until_s = fmin(w.until_s, unix_s + s->duration_s - phase_s);
    } else {
        w.until_s = fmin(w.until_s, unix_s + s->interval_s - phase_s);
    }
    return w;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static void set_capture(struct sonde_continuous *c, struct sonde_capture *t)
{
    sonde_lock(&c->lock);
    c->capture = t;
    sonde_unlock(&c->lock);
}

/* Whoever looks at the capture holds the lock, so it cannot go meanwhile. */
static uint64_t since_of(struct sonde_continuous *c, struct sonde_capture *t)
{
    struct sonde_capture_status status;
    sonde_profiler_capture_status(c->o.profiler, t, &status);
    return status.since_ns;
}

/* One is begun at this rate before the one that runs ends; 0 = none is. What that saw goes into
 * minutes: up to where the next one begins, so that nothing is missed nor there twice. */
static void continuous_cut(struct sonde_continuous *c, double hz)
{
    struct sonde_err err = { "" };
    struct sonde_capture *old = c->capture, *next = NULL;
    struct sonde_profile *p = NULL;
    const struct sonde_capture_options o = { .rate_hz = hz, .spans_bytes_max = SPANS_BYTES_MAX,
                                             .wait = 1, .background = 1 };
    int rc = 0;
    if (hz > 0) rc = sonde_profiler_begin(c->o.profiler, &o, &next, &err);
    if (rc) {
        next = NULL;
        if (rc != SONDE_EOFF) continuous_problem(c, "%s", err.text);
    }
    const uint64_t next_ns = next ? since_of(c, next) : 0;
    set_capture(c, next);
    if (old) {
        rc = sonde_profiler_end(c->o.profiler, old, &p, &err);
        if (rc) {
            continuous_problem(c, "%s", err.text);
        } else {
            continuous_take_in(c, p, c->taken_ns, next_ns);
            sonde_profile_destroy(p);
        }
    }
    c->capture_hz = next ? hz : 0;
    c->taken_ns = next_ns;
}

static double next_cut(const struct sonde_continuous *c, double unix_s)
{
    return (floor(unix_s / c->o.flush_s) + 1) * c->o.flush_s;
}

static void continuous_sample(struct sonde_continuous *c, const struct continuous_wanted *w,
                              int asked, double unix_s)
{
    /* The clock may have been set. */
    const int due = asked || unix_s >= c->cut_due_s || c->cut_due_s > unix_s + 2 * c->o.flush_s;
    if (c->capture ? !due && w->hz == c->capture_hz : !(w->hz > 0) || unix_s < c->cut_due_s) return;
    continuous_cut(c, w->hz);
    if (!c->capture && w->hz > 0) { /* it could not be begun */
        c->cut_due_s = unix_s + RETRY_S;
        return;
    }
    continuous_write(c, sonde_clock_ns(CLOCK_REALTIME));
    continuous_cost_look(c);
    continuous_cost_mark(c);
    c->cut_due_s = c->capture ? next_cut(c, unix_s) : 0;
}

/* ---- Heaps ----------------------------------------------------------------------------------- */

/* A capture of its own, without the CPU, that ends with every interval. */
static void look_at_heaps(struct sonde_continuous *c, int wanted, double interval_s, double unix_s)
{
    struct sonde_err err = { "" };
    struct sonde_profile *p = NULL;
    const struct sonde_capture_options o = { .no_cpu = 1, .memory = 1, .no_spans = 1,
                                             .wait = 1 };
    const int due = unix_s >= c->heap_due_s || c->heap_due_s > unix_s + 2 * interval_s;
    if (wanted && c->heap_capture && !due) return;
    if (c->heap_capture) {
        const uint64_t since_ns = since_of(c, c->heap_capture);
        if (sonde_profiler_end(c->o.profiler, c->heap_capture, &p, &err) == 0) {
            continuous_take_heaps(c, p, since_ns);
            continuous_write(c, sonde_clock_ns(CLOCK_REALTIME));
            sonde_profile_destroy(p);
        } else {
            continuous_problem(c, "%s", err.text);
        }
        c->heap_capture = NULL;
    }
    if (!wanted || sonde_profiler_begin(c->o.profiler, &o, &c->heap_capture, &err) != 0) return;
    c->heap_due_s = (floor(unix_s / interval_s) + 1) * interval_s;
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void continuous_tidy(struct sonde_continuous *c, double unix_s)
{
    struct sonde_err err = { "" };
    if (unix_s < c->tidy_due_s && c->tidy_due_s <= unix_s + 2 * TIDY_S) return;
    const int more = sonde_history_step(&c->history, unix_s, &err);
    if (more < 0) continuous_problem(c, "%s", err.text);
    c->tidy_due_s = unix_s + (more > 0 ? STEP_S : TIDY_S);
    sonde_lock(&c->lock);
    c->merges = c->history.merges;
    c->deleted = c->history.deleted;
    sonde_unlock(&c->lock);
}

/* Until something is due, or settings change. */
static void wait_until(struct sonde_continuous *c, double until_unix_s)
{
    sonde_assert_held(&c->lock);
    double left_s = until_unix_s - sonde_clock_s(CLOCK_REALTIME);
    if (left_s > LOOK_S) left_s = LOOK_S;
    if (left_s < 0.001) left_s = 0.001;
    const uint64_t until = sonde_clock_ns(CLOCK_MONOTONIC) + (uint64_t)(left_s * 1e9);
    const struct timespec t = sonde_clock_timespec(until);
    while (!c->changed && !c->worker.stopping &&
           sonde_cond_timedwait(&c->wake, &c->lock, &t) != ETIMEDOUT) {
    }
    c->changed = 0;
}

static void cut_tell(struct sonde_continuous *c, uint64_t done)
{
    sonde_lock(&c->lock);
    c->cut_done = done;
    c->cut_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    sonde_cond_broadcast(&c->written);
    sonde_unlock(&c->lock);
}

void sonde_continuous_flush(struct sonde_continuous *c)
{
    const uint64_t now_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    const struct timespec until = sonde_clock_timespec(now_ns + FLUSH_WAIT_NS);
    sonde_lock(&c->lock);
    const int recent = c->cut_ns && now_ns - c->cut_ns < FLUSH_AGAIN_NS;
    if (c->worker.thread.started && !c->worker.stopping && c->settings.enabled && !recent) {
        const uint64_t mine = ++c->cut_asked;
        c->changed = 1;
        sonde_cond_broadcast(&c->wake);
        while (c->cut_done < mine &&
               sonde_cond_timedwait(&c->written, &c->lock, &until) != ETIMEDOUT) {
        }
    }
    sonde_unlock(&c->lock);
}

/* Writes what there is, or lets go of it. */
static void continuous_finish(struct sonde_continuous *c, int abandoned)
{
    struct sonde_err err = { "" };
    if (!abandoned) {
        continuous_cut(c, 0);
        look_at_heaps(c, 0, 1, sonde_clock_s(CLOCK_REALTIME));
        continuous_write(c, sonde_clock_ns(CLOCK_REALTIME));
    } else {
        struct sonde_capture *t = c->capture;
        set_capture(c, NULL);
        if (t) sonde_profiler_end(c->o.profiler, t, NULL, &err);
        if (c->heap_capture) sonde_profiler_end(c->o.profiler, c->heap_capture, NULL, &err);
        c->heap_capture = NULL;
    }
    continuous_parts_release(c);
}

static void *continuous_work(void *arg)
{
    struct sonde_continuous *c = arg;
    c->started_s = sonde_clock_s(CLOCK_MONOTONIC);
    continuous_cost_look(c);
    continuous_cost_mark(c);
    sonde_lock(&c->lock);
    while (!c->worker.stopping) {
        const double unix_s = sonde_clock_s(CLOCK_REALTIME);
        const struct continuous_wanted w = what_is_wanted(c, unix_s);
        const int on = c->settings.enabled;
        const double interval_s = c->settings.interval_s;
        const uint64_t asked = c->cut_asked;
        const int ask = asked != c->cut_done;
        sonde_unlock(&c->lock);
        if (w.hz > 0 && sonde_clock_s(CLOCK_MONOTONIC) >= c->started_s + c->o.cost_after_s) {
            continuous_cost_try(c);
        }
        continuous_sample(c, &w, ask, unix_s);
        if (ask) cut_tell(c, asked);
        look_at_heaps(c, w.heaps, interval_s, unix_s);
        if (on) continuous_tidy(c, unix_s);
        continuous_cost_show(c);
        double until_s = w.until_s;
        if (c->capture) until_s = fmin(until_s, c->cut_due_s);
        if (on) until_s = fmin(until_s, c->tidy_due_s);
        sonde_lock(&c->lock);
        if (on) wait_until(c, until_s);
        else while (!c->changed && !c->worker.stopping) sonde_cond_wait(&c->wake, &c->lock);
    }
    const int abandoned = c->abandoned;
    sonde_unlock(&c->lock);
    cut_tell(c, UINT64_MAX);
    continuous_finish(c, abandoned);
    return NULL;
}

static int continuous_start_thread(struct sonde_continuous *c, struct sonde_err *err)
{
    sonde_assert_held(&c->lock);
    if (sonde_worker_start(&c->worker, "sonde-always", continuous_work, c) == 0) return 0;
    return sonde_err_set(err, SONDE_ENOMEM, "cannot start a thread for continuous profiling");
}

/* ---- Settings -------------------------------------------------------------------------------- */

static int continuous_check(const struct sonde_continuous *c,
                            const struct sonde_continuous_settings *s, struct sonde_err *err)
{
    if (!s->enabled) return 0;
    if (!c->o.profiler) return sonde_err_set(err, SONDE_EOFF, "this agent takes no profiles");
    if (s->cpu && !sonde_profiler_has_cpu(c->o.profiler)) {
        return sonde_err_set(err, SONDE_EOFF, "the CPU is not sampled here: cpu.enabled is false; "
                             "continuous.cpu=false leaves it out");
    }
    if (!s->cpu && !s->memory) {
        return sonde_err_set(err, SONDE_EINVAL, "nothing is to be profiled: \"cpu\" or \"memory\" "
                             "must be true%s", s->gpu ? "; GPUs are not profiled" : "");
    }
    if (s->duration_s > s->interval_s) {
        return sonde_err_set(err, SONDE_EINVAL, "\"duration_seconds\" (%g) is more than "
                             "\"interval_seconds\" (%g)", s->duration_s, s->interval_s);
    }
    return 0;
}

static struct sonde_continuous_settings continuous_changed(const struct sonde_continuous *c,
                                                           const struct sonde_continuous_change *x)
{
    sonde_assert_held(&c->lock);
    struct sonde_continuous_settings s = c->settings;
#define TAKE(id, field) if (x->has & 1u << CONTINUOUS_##id) s.field = x->settings.field
    TAKE(ENABLED, enabled);
    TAKE(CPU, cpu);
    TAKE(MEMORY, memory);
    TAKE(GPU, gpu);
    TAKE(RATE, rate_hz);
    TAKE(INTERVAL, interval_s);
    TAKE(DURATION, duration_s);
#undef TAKE
    return s;
}

int sonde_continuous_apply(struct sonde_continuous *c, const struct sonde_continuous_change *change,
                           struct sonde_err *err)
{
    sonde_lock(&c->lock);
    const struct sonde_continuous_settings s = continuous_changed(c, change);
    const int burst = change->has >> CONTINUOUS_BURST & 1;
    int rc = c->worker.stopping ? sonde_err_set(err, SONDE_EOFF, "the agent ends")
                                : continuous_check(c, &s, err);
    if (!rc && burst && (!s.enabled || !s.cpu)) {
        rc = sonde_err_set(err, SONDE_EBUSY, "a burst raises the rate of continuous profiling of "
                           "the CPU, which is off: send \"enabled\": true too");
    }
    if (!rc && s.enabled) rc = continuous_start_thread(c, err);
    if (!rc) {
        c->settings = s;
        if (burst) {
            c->burst_until_s = sonde_clock_s(CLOCK_MONOTONIC) + change->burst_s;
            c->burst_hz = change->burst_hz;
        }
        if (!s.enabled) c->burst_until_s = 0;
        c->changed = 1;
        sonde_cond_broadcast(&c->wake);
    }
    sonde_unlock(&c->lock);
    return rc;
}

/* ---- Begin and end --------------------------------------------------------------------------- */

/* Its own limit is above ours, so that it is we who say what goes. */
static int continuous_open_memory(struct sonde_continuous *c, struct sonde_err *err)
{
    if (!c->o.bytes_max || c->o.bytes_max > MEMORY_MAX) c->o.bytes_max = MEMORY_MAX;
    const struct sonde_store_options o = { .keep = { .profiles = MEMORY_PARTS,
                                                     .bytes = 2 * MEMORY_MAX } };
    const int rc = sonde_store_memory.open(&o, &c->memory, err);
    c->o.store_ops = &sonde_store_memory;
    c->o.store = c->memory;
    return rc;
}

struct sonde_store *sonde_continuous_store(struct sonde_continuous *c,
                                           const struct sonde_store_ops **ops)
{
    *ops = c->o.store_ops;
    return c->o.store;
}

int sonde_continuous_create(const struct sonde_continuous_options *o, struct sonde_continuous **out,
                            struct sonde_err *err)
{
    assert(o->collector && out && (!o->store || o->store_ops));
    struct sonde_continuous *c = sonde__calloc(1, sizeof(*c));
    if (!c) return sonde_err_set(err, SONDE_ENOMEM, "no memory for continuous profiling");
    c->o = *o;
    if (!(c->o.flush_s > 0)) c->o.flush_s = FLUSH_DEFAULT_S;
    c->settings = o->settings;
    c->sampled_heaps = -1;
    sonde_cond_init(&c->wake);
    sonde_cond_init(&c->written);
    sonde_lock_init(&c->lock, SONDE_RANK_CONTINUOUS);
    int rc = o->store && !o->in_memory ? 0 : continuous_open_memory(c, err);
    c->history = (struct sonde_history){ .ops = c->o.store_ops, .store = c->o.store,
                                         .minutes_s = o->minutes_s, .hours_s = o->hours_s,
                                         .bytes_max = c->o.bytes_max };
    if (!rc) rc = continuous_check(c, &c->settings, err);
    sonde_lock(&c->lock);
    if (!rc && c->settings.enabled) rc = continuous_start_thread(c, err);
    sonde_unlock(&c->lock);
    if (rc) {
        sonde_continuous_destroy(c);
        return rc;
    }
    *out = c;
    return 0;
}

void sonde_continuous_stop(struct sonde_continuous *c)
{
    if (!c) return;
    sonde_worker_stop(&c->worker, &c->lock, &c->wake);
}

void sonde_continuous_abandon(struct sonde_continuous *c)
{
    if (!c) return;
    sonde_lock(&c->lock);
    c->abandoned = 1;
    sonde_unlock(&c->lock);
    sonde_continuous_stop(c);
}

void sonde_continuous_destroy(struct sonde_continuous *c)
{
    if (!c) return;
    sonde_continuous_stop(c);
    continuous_parts_release(c);
    continuous_cost_release(&c->cost);
    sonde_store_memory.close(c->memory);
    sonde_cond_destroy(&c->wake);
    sonde_cond_destroy(&c->written);
    sonde_lock_destroy(&c->lock);
    sonde__free(c);
}
