/* cpu.c - choosing an engine, the thread that reads it, and handing out what it found.
 *
 * From start to stop the profile and the engine are the reading thread's alone: others ask it, and
 * wait for the answer. A lock would do, but on a busy machine a caller that holds it and waits for
 * a CPU keeps the reading thread waiting too, and rings run over. A snapshot is a quick copy of
 * rows; the caller interns them into a profile of its own. */
#include "collect/cpu/cpu.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "collect/cpu/engine.h"
#include "collect/proc/describe.h"
#include "profile/copy.h"
#include "profile/thin.h"
#include "sonde/sonde.h"

enum { RATE_DEFAULT = 1000, RATE_MAX = 10000, DEPTH_DEFAULT = 128, DEPTH_MAX = 1024, NICE = -10 };
#define PROFILE_BYTES_DEFAULT ((size_t)256 << 20)
#define ROWS_SHARE 4u /* tables grow by doubling, and have indexes: more would not fit */

static const struct sonde_cpu_engine_ops *const engines[] = {
#define SONDE_CPU_ENGINE(id) &sonde_cpu_engine_##id,
#include "collect/cpu/engine_list.h"
#undef SONDE_CPU_ENGINE
};
#define ENGINES SONDE_COUNT(engines)

static const char *const engine_names[] = {
#define SONDE__X(id, name, help) name,
    SONDE_CPU_ENGINES(SONDE__X)
#undef SONDE__X
};

enum question { NOTHING, STATUS, COPY, SINCE, PAUSE, RESUME, END };

struct sonde_cpu {
    struct sonde_cpu_options options; /* complete */
    const struct sonde_cpu_engine_ops *ops;
    struct sonde_cpu_engine *engine;  /* the reading thread's, as the profile */
    struct sonde_profile *profile;
    struct sonde_thread thread;
    int wake_fd;

    struct sonde_lock asking;             /* one caller at a time; taken before lock */
    struct sonde_lock lock;               /* of what follows */
    struct sonde_cond answered;
    enum question question;
    struct sonde_cpu_status status;   /* the answer to any question */
    struct sonde_profile *copy;       /* COPY, SINCE: rows go there */
    struct sonde_cpu_cursor *cursor;  /* SINCE */
    int forget;                       /* SINCE */
    int copy_rc;
    struct sonde_err *why;            /* PAUSE, RESUME: what forbids it */
    uint64_t forgotten;               /* the reading thread's: samples that are not kept any more */
    uint64_t paused_since_ns, paused_ns; /* alike: CLOCK_MONOTONIC, 0 = it is not; before that */
};

/* ---- The reading thread ---------------------------------------------------------------------- */

/* With what has not ended yet, as far as it has come. */
static int copy_now(struct sonde_cpu *c, struct sonde_profile *view)
{
    struct sonde_profile *p = c->profile;
    const uint32_t ended = p->samples_count;
    const uint64_t dropped = p->dropped_samples;
    uint64_t weights[SONDE_SAMPLE_KIND_COUNT];
    memcpy(weights, p->weights, sizeof(weights));
    c->ops->blocked_flush(c->engine);
    const int rc = sonde_profile_view_init(view, p);
    p->samples_count = ended;
    p->dropped_samples = dropped;
    memcpy(p->weights, weights, sizeof(weights));
    return rc;
}

/* Only what is new, and figures of that alone. */
static int copy_since(struct sonde_cpu *c, struct sonde_profile *view)
{
    struct sonde_profile *p = c->profile;
    struct sonde_cpu_cursor *cursor = c->cursor;
    const uint64_t all = c->forgotten + p->samples_count;
    assert(cursor->samples <= all); /* it is of this engine */
    uint64_t skip = cursor->samples > c->forgotten ? cursor->samples - c->forgotten : 0;
    if (skip > p->samples_count) skip = p->samples_count;
    struct sonde_profile part = *p;
    part.samples = p->samples + skip;
    part.samples_count = p->samples_count - (uint32_t)skip;
    part.lost_records = p->lost_records - cursor->lost;
    part.dropped_samples = p->dropped_samples - cursor->dropped;
    if (cursor->time_ns > part.start_ns) part.start_ns = cursor->time_ns;
    const int rc = view ? sonde_profile_view_init(view, &part) : 0;
    if (rc) return rc;
    *cursor = (struct sonde_cpu_cursor){ .samples = all, .lost = p->lost_records,
                                         .dropped = p->dropped_samples, .time_ns = p->end_ns };
    if (c->forget) {
        c->forgotten = all;
        p->samples_count = 0;
        memset(p->weights, 0, sizeof(p->weights));
        if (c->ops->emptied) c->ops->emptied(c->engine);
        /* Stacks that nobody has had for long are in the way of new ones one day. */
        if (sonde_profile_rows_bytes(p) > p->bytes_max / ROWS_SHARE) {
            sonde_profile_forget(p);
            c->ops->forget(c->engine);
        }
    }
    return 0;
}

/* Figures, also what the profile says of itself. */
static void read_counts(struct sonde_cpu *c, struct sonde_cpu_status *out)
{
    struct sonde_cpu_counts counts;
    c->ops->counts(c->engine, &counts);
    *out = (struct sonde_cpu_status){
        .engine = engine_names[c->ops->kind],
        .samples = counts.samples,
        .lost = counts.lost,
        .truncated = counts.truncated,
        .rate_hz = c->options.rate_hz,
        .unwound_frames = counts.unwound_frames,
        .achieved_hz = counts.cpu_ns ? (double)counts.samples * 1e9 / (double)counts.cpu_ns : 0,
        .cpu_s = sonde_clock_s(CLOCK_THREAD_CPUTIME_ID),
    };
    uint64_t paused_ns = c->paused_ns;
    if (c->paused_since_ns) paused_ns += sonde_clock_ns(CLOCK_MONOTONIC) - c->paused_since_ns;
    out->paused_s = (double)paused_ns * 1e-9;
    memcpy(out->known, counts.known, sizeof(out->known));
    out->known_count = counts.known_count;
    if (counts.note) snprintf(out->note, sizeof(out->note), "%s", counts.note);
    c->profile->achieved_hz = out->achieved_hz;
    c->profile->lost_records = counts.lost;
    c->profile->end_ns = sonde_clock_ns(CLOCK_REALTIME);
}

static int cpu_switch(struct sonde_cpu *c, int paused)
{
    const uint64_t now = sonde_clock_ns(CLOCK_MONOTONIC);
    if (!c->ops->pause) {
        return sonde_err_set(c->why, SONDE_EOFF, "the %s engine samples inside the process, and is "
                             "not switched from outside", engine_names[c->ops->kind]);
    }
    const int rc = c->ops->pause(c->engine, paused, c->why);
    if (rc || paused == (c->paused_since_ns != 0)) return rc;
    if (!paused) c->paused_ns += now - c->paused_since_ns;
    c->paused_since_ns = paused ? now : 0;
    return 0;
}

static int cpu_do(struct sonde_cpu *c, enum question q)
{
    switch (q) {
    case COPY: return copy_now(c, c->copy); /* whoever asks has set it before */
    case SINCE: return copy_since(c, c->copy);
    case PAUSE: return cpu_switch(c, 1);
    case RESUME: return cpu_switch(c, 0);
    case NOTHING:
    case STATUS:
    case END: break;
    }
    return 0;
}

static enum question next_question(struct sonde_cpu *c)
{
    sonde_lock(&c->lock);
    const enum question q = c->question;
    sonde_unlock(&c->lock);
    return q;
}

static void cpu_answer(struct sonde_cpu *c, enum question q)
{
    assert(q != NOTHING);
    struct sonde_cpu_status status;
    uint64_t woken;
    read_counts(c, &status);
    const int rc = cpu_do(c, q);
    if (read(c->wake_fd, &woken, sizeof(woken)) < 0) woken = 0; /* a signal was enough */
    sonde_lock(&c->lock);
    c->status = status;
    c->copy_rc = rc;
    c->question = NOTHING;
    sonde_cond_broadcast(&c->answered);
    sonde_unlock(&c->lock);
}

static void *cpu_read_loop(void *arg)
{
    struct sonde_cpu *c = arg;
    /* Where that is permitted: it needs little, but when it must wait for a CPU, rings run over. */
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    enum question q = NOTHING;
    while (q != END) {
        c->ops->wait(c->engine, c->wake_fd);
        q = next_question(c);
        c->ops->drain(c->engine, q == END);
        if (q != NOTHING) cpu_answer(c, q);
    }
    return NULL;
}

/* Ask the reading thread and wait. copy: where rows go; cursor and forget: of SINCE. */
static int ask_since(struct sonde_cpu *c, enum question q, struct sonde_profile *copy,
                     struct sonde_cpu_cursor *cursor, int forget, struct sonde_cpu_status *out)
{
    assert(q != NOTHING && (q != SINCE || cursor) && (q != COPY || copy));
    assert(c->thread.started); /* or nobody would answer */
    const uint64_t one = 1;
    sonde_lock(&c->asking);
    sonde_lock(&c->lock);
    c->question = q;
    c->copy = copy;
    c->cursor = cursor;
    c->forget = forget;
    const ssize_t n = write(c->wake_fd, &one, sizeof(one));
    (void)n; /* fails only when it is readable anyway */
    while (c->question != NOTHING) sonde_cond_wait(&c->answered, &c->lock);
    *out = c->status;
    const int rc = c->copy_rc;
    sonde_unlock(&c->lock);
    sonde_unlock(&c->asking);
    return rc;
}

static int cpu_ask(struct sonde_cpu *c, enum question q, struct sonde_profile *copy,
                   struct sonde_cpu_status *out)
{
    return ask_since(c, q, copy, NULL, 0, out);
}

static void free_cpu(struct sonde_cpu *c)
{
    if (c->engine) c->ops->destroy(c->engine);
    sonde_profile_destroy(c->profile);
    if (c->wake_fd >= 0) close(c->wake_fd);
    sonde_lock_destroy(&c->asking);
    sonde_lock_destroy(&c->lock);
    sonde_cond_destroy(&c->answered);
    sonde__free(c);
}

/* ---- Starting -------------------------------------------------------------------------------- */

static int cpu_complete(const struct sonde_cpu_options *in, struct sonde_cpu_options *o,
                        struct sonde_err *err)
{
    *o = *in;
    if (!o->pid) return sonde_err_set(err, SONDE_EINVAL, "no process to sample was named");
    if (o->rate_hz == 0) o->rate_hz = RATE_DEFAULT;
    if (!(o->rate_hz >= 1 && o->rate_hz <= RATE_MAX)) {
        return sonde_err_set(err, SONDE_EINVAL, "a rate of %g samples a second: from 1 to %d are "
                             "possible", o->rate_hz, RATE_MAX);
    }
    if (!o->depth_max) o->depth_max = DEPTH_DEFAULT;
    if (o->depth_max > DEPTH_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "%u frames of a stack: at most %d are kept",
                             o->depth_max, DEPTH_MAX);
    }
    if (!o->profile_bytes_max) o->profile_bytes_max = PROFILE_BYTES_DEFAULT;
    return 0;
}

/* The order in which AUTO tries engines; NULL = there are no more. */
static const struct sonde_cpu_engine_ops *engine_at(const struct sonde_cpu_options *o, int on_exec,
                                                    size_t i)
{
    static const enum sonde_cpu_engine_kind usual[] = { SONDE_CPU_PERF, SONDE_CPU_TIMER };
    static const enum sonde_cpu_engine_kind inside[] = { SONDE_CPU_TIMER, SONDE_CPU_PERF };
    static const enum sonde_cpu_engine_kind both[] = { SONDE_CPU_MIXED, SONDE_CPU_PERF };
    const enum sonde_cpu_engine_kind *order = usual;
    if (o->python && on_exec) order = o->off_cpu ? both : inside;
    if (o->engine != SONDE_CPU_AUTO) order = &o->engine;
    if (i >= (o->engine == SONDE_CPU_AUTO ? SONDE_COUNT(usual) : 1)) return NULL;
    for (size_t k = 0; k < ENGINES; k++) {
        if (engines[k]->kind == order[i]) return engines[k];
    }
    return NULL;
}

/* The engine asked for, or the first that can: what the others said is part of the error. */
static int start_engine(struct sonde_cpu *c, int on_exec, struct sonde_err *err)
{
    struct sonde_err why, all = { "" };
    const struct sonde_cpu_engine_ops *ops;
    int rc = SONDE_EINVAL;
    sonde_err_set(&all, rc, "no engine \"%s\" is built in", engine_names[c->options.engine]);
    for (size_t i = 0; (ops = engine_at(&c->options, on_exec, i)); i++) {
        rc = ops->start(&c->options, on_exec, c->profile, &c->engine, &why);
        if (!rc) {
            c->ops = ops;
            return 0;
        }
        if (i) {
            sonde_err_set(&all, rc, "%s; %s: %s", all.text, engine_names[ops->kind], why.text);
        } else {
            all = why;
        }
        if (rc != SONDE_EACCES && rc != SONDE_EOFF) break;
    }
    return sonde_err_set(err, rc, "%s", all.text);
}

static int cpu_start(const struct sonde_cpu_options *options, int on_exec, struct sonde_cpu **out,
                     struct sonde_err *err)
{
    assert(options && out);
    struct sonde_cpu_options complete_options;
    int rc = cpu_complete(options, &complete_options, err);
    if (rc) return rc;
    struct sonde_cpu *c = sonde__calloc(1, sizeof(*c));
    if (!c) return sonde_err_set(err, SONDE_ENOMEM, "no memory to sample with");
    c->options = complete_options;
    sonde_lock_init(&c->asking, SONDE_RANK_CPU_ASKING);
    sonde_lock_init(&c->lock, SONDE_RANK_CPU);
    sonde_cond_init(&c->answered);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake_fd < 0) {
        rc = sonde_err_set(err, SONDE_EFULL, "cannot start sampling: %s%s", strerror(errno),
                           errno == EMFILE ? " (ulimit -n)" : "");
        goto fail;
    }
    rc = sonde_profile_create(c->options.profile_bytes_max, &c->profile);
    if (rc) {
        sonde_err_set(err, rc, "cannot start sampling: %s", sonde_strerror(rc));
        goto fail;
    }
    c->profile->start_ns = sonde_clock_ns(CLOCK_REALTIME);
    c->profile->rate_hz = c->options.rate_hz;
    rc = start_engine(c, on_exec, err);
    if (rc) goto fail;
    c->profile->engine = sonde_profile_cstring(c->profile, engine_names[c->ops->kind]);
    if (!on_exec) sonde_proc_describe(c->profile, c->options.pid, "");
    rc = sonde_thread_start(&c->thread, "sonde-cpu", cpu_read_loop, c, err);
    if (rc) goto fail;
    *out = c;
    return 0;
fail:
    free_cpu(c);
    return rc;
}

int sonde_cpu_start(const struct sonde_cpu_options *options, struct sonde_cpu **out,
                    struct sonde_err *err)
{
    return cpu_start(options, 0, out, err);
}

int sonde_cpu_start_on_exec(const struct sonde_cpu_options *options, struct sonde_cpu **out,
                            struct sonde_err *err)
{
    return cpu_start(options, 1, out, err);
}

const char *sonde_cpu_environment(struct sonde_cpu *c, size_t *size)
{
    assert(c && size);
    *size = 0;
    return c->ops->environment ? c->ops->environment(c->engine, size) : NULL;
}

/* ---- Answers --------------------------------------------------------------------------------- */

void sonde_cpu_status(struct sonde_cpu *c, struct sonde_cpu_status *out)
{
    cpu_ask(c, STATUS, NULL, out);
}

int sonde_cpu_check(struct sonde_err *note)
{
    struct sonde_err why, all = { "no engine is built in" };
    int rc = SONDE_EOFF;
    for (size_t i = 0; i < ENGINES; i++) {
        rc = engines[i]->check(&why);
        sonde_err_set(&all, rc, i ? "%s; %s: %s" : "%.0s%s: %s", all.text,
                      engine_names[engines[i]->kind], why.text);
        if (!rc) break;
    }
    return sonde_err_set(note, rc, "%s", all.text);
}

/* A profile of its own, of the rows in view, which go. */
static int from_view(struct sonde_profile *view, struct sonde_profile **out)
{
    struct sonde_profile *p = NULL;
    int rc = sonde_profile_create(view->bytes_max, &p);
    if (!rc) rc = sonde_profile_merge(p, view);
    sonde_profile_view_release(view);
    if (rc) sonde_profile_destroy(p);
    else *out = p;
    return rc;
}

int sonde_cpu_snapshot(struct sonde_cpu *c, uint64_t from_ns, struct sonde_profile **out)
{
    assert(c && out);
    struct sonde_cpu_status status;
    struct sonde_profile view;
    const int rc = cpu_ask(c, COPY, &view, &status);
    if (rc) {
        sonde_profile_view_release(&view);
        return rc;
    }
    view.samples_count = sonde_samples_cut(view.samples, view.samples_count, from_ns, 0);
    if (view.start_ns < from_ns) view.start_ns = from_ns;
    return from_view(&view, out);
}

int sonde_cpu_since(struct sonde_cpu *c, struct sonde_cpu_cursor *cursor, int forget,
                    struct sonde_profile **out)
{
    assert(c && cursor);
    struct sonde_cpu_status status;
    struct sonde_profile view;
    const int rc = ask_since(c, SINCE, out ? &view : NULL, cursor, forget, &status);
    if (rc) {
        sonde_profile_view_release(&view); /* fails only when it copies */
        return rc;
    }
    return out ? from_view(&view, out) : 0;
}

int sonde_cpu_pause(struct sonde_cpu *c, int paused, struct sonde_err *err)
{
    assert(c && err);
    struct sonde_cpu_status status;
    c->why = err; /* one thread pauses */
    return cpu_ask(c, paused ? PAUSE : RESUME, NULL, &status);
}

int sonde_cpu_stop(struct sonde_cpu *c, struct sonde_profile **out)
{
    struct sonde_cpu_status status;
    return sonde_cpu_stop_status(c, out, &status);
}

int sonde_cpu_stop_status(struct sonde_cpu *c, struct sonde_profile **out,
                          struct sonde_cpu_status *status)
{
    assert(c && out && status);
    cpu_ask(c, END, NULL, status);
    sonde_thread_join(&c->thread);
    c->profile->unsampled_ns = (uint64_t)(status->paused_s * 1e9);
    *out = c->profile;
    c->profile = NULL;
    free_cpu(c);
    return 0;
}
