/* heap.c - the heap profiler: its thread, and what others ask of it.
 *
 * One lock for all: a profile is made by whoever asks for it, while the thread waits. Events that a
 * ring has no room for meanwhile only make times and threads less exact, since amounts are kept in
 * the segment. */
#include "collect/heap/heap.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collect/heap/private.h"
#include "segment/segment.h"
#include "sonde/sonde.h"

#define WAIT_MS 50
#define TICK_FIRST_NS (1000000000u / 16)
#define BYTES_DEFAULT ((size_t)192 << 20)
#define BYTES_MIN ((size_t)4 << 20)
#define DEPTH_DEFAULT 128u
#define MEAN_MAX (1ull << 40)

static void *heap_reader_read_loop(void *arg)
{
    struct sonde_heap_reader *m = arg;
    struct pollfd p = { .fd = m->wake_fd, .events = POLLIN };
    int stopping = 0;
    while (!stopping) {
        poll(&p, 1, WAIT_MS);
        sonde_lock(&m->lock);
        stopping = m->stopping;
        if (!stopping) heap_round(m);
        sonde_unlock(&m->lock);
    }
    return NULL;
}

/* ---- Starting -------------------------------------------------------------------------------- */

static int heap_reader_complete(const struct sonde_heap_reader_options *in,
                                struct sonde_heap_reader_options *o, struct sonde_err *err)
{
    *o = *in;
    if (!o->pid) return sonde_err_set(err, SONDE_EINVAL, "no process to profile was named");
    if (!o->mean) o->mean = SONDE_HEAP_MEAN_DEFAULT;
    if (o->mean > MEAN_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "%" PRIu64 " bytes between samples: at most %llu "
                             "are possible", o->mean, (unsigned long long)MEAN_MAX);
    }
    if (!o->depth_max) o->depth_max = DEPTH_DEFAULT;
    if (o->depth_max < SONDE__DEPTH_MIN) o->depth_max = SONDE__DEPTH_MIN;
    if (o->depth_max > SONDE__DEPTH_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "%u frames of a stack: at most %u are kept",
                             o->depth_max, SONDE__DEPTH_MAX);
    }
    if (!o->bytes_max) o->bytes_max = BYTES_DEFAULT;
    if (o->bytes_max < BYTES_MIN) o->bytes_max = BYTES_MIN;
    while (!o->seed) {
        if (getrandom(&o->seed, sizeof(o->seed), 0) != sizeof(o->seed)) {
            o->seed = sonde_clock_ns(CLOCK_MONOTONIC);
        }
    }
    return 0;
}

static int make_environment(struct sonde_heap_reader *m, struct sonde_err *err)
{
    char variable[256];
    const struct sonde_heap_reader_options *o = &m->options;
    snprintf(variable, sizeof(variable), "SONDE_HEAP=session=%016" PRIx64 ",mode=%s,mean=%" PRIu64
             ",depth=%" PRIu32 ",children=%d,scan=%d,seed=%" PRIu64, m->found.session,
             o->full ? "full" : "sampled", o->mean, o->depth_max, o->children != 0, o->scan != 0,
             o->seed);
    return sonde_preload_environment(variable, m->env, &m->env_size, err);
}

/* A process that runs already must have come with the library in it. */
static int heap_reader_find_running(struct sonde_heap_reader *m, struct sonde_err *err)
{
    struct sonde_err why;
    sonde_preload_scan(&m->found);
    for (uint32_t i = 0; i < m->found.target_count; i++) {
        struct heap_target *t = heap_target_at(m, i);
        if (t->base.segment && t->base.id.pid == m->options.pid && heap_is_ours(m, t, &why) == 0) {
            if (m->options.children) m->found.only = t->info.session;
            return 0;
        }
    }
    return sonde_err_set(err, SONDE_EOFF, "process %u was not started with the heap profiler, "
                         "which cannot come in later; start it with: sonde run --heap -- CMD",
                         m->options.pid);
}

static void heap_reader_free(struct sonde_heap_reader *m)
{
    for (uint32_t i = 0; i < m->found.target_count; i++) {
        heap_target_release(&m->reader, heap_target_at(m, i));
    }
    sonde_preload_release(&m->found);
    if (m->ended.p) heap_sum_release(&m->ended);
    sonde_modules_destroy(m->reader.modules);
    sonde__free(m->points);
    if (m->wake_fd >= 0) close(m->wake_fd);
    sonde_lock_destroy(&m->lock);
    sonde__free(m);
}

/* What a new one is made of, but the segments. */
static int make_parts(struct sonde_heap_reader *m, struct sonde_err *err)
{
    /* A quarter for growth at most; the rest for stacks and what is said of them. */
    m->reader.series = (struct sonde_budget){ &m->reader.series_bytes, m->options.bytes_max / 4 };
    m->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    m->points = sonde__calloc(HEAP_POINTS_MAX, sizeof(*m->points));
    m->point_every = 1;
    m->tick_ns = TICK_FIRST_NS;
    m->start_ns = sonde_clock_ns(CLOCK_REALTIME);
    sonde_tick_clock_init(&m->reader.clock);
    if (m->wake_fd < 0) {
        return sonde_err_set(err, SONDE_EFULL, "cannot start the heap profiler: %s%s",
                             strerror(errno), errno == EMFILE ? " (ulimit -n)" : "");
    }
    int rc = m->points ? sonde_modules_create(0, &m->reader.modules) : SONDE_ENOMEM;
    if (rc == 0) rc = heap_sum_create(m->options.bytes_max, &m->ended);
    if (rc == 0) return 0;
    return sonde_err_set(err, rc, "cannot start the heap profiler: %s", sonde_strerror(rc));
}

static int heap_reader_start(const struct sonde_heap_reader_options *options, int on_exec,
                             struct sonde_heap_reader **out, struct sonde_err *err)
{
    assert(options && out);
    struct sonde_heap_reader_options o;
    int rc = heap_reader_complete(options, &o, err);
    if (rc != 0) return rc;
    struct sonde_heap_reader *m = sonde__calloc(1, sizeof(*m));
    if (!m) return sonde_err_set(err, SONDE_ENOMEM, "no memory to profile with");
    m->options = o;
    m->options.dir = NULL;
    m->wake_fd = m->found.dirfd = m->found.lock_fd = -1;
    sonde_lock_init(&m->lock, SONDE_RANK_HEAP_ENGINE);
    rc = make_parts(m, err);
    if (rc == 0) {
        rc = sonde_preload_init(&m->found, o.readers, o.dir, o.pid, o.children, on_exec,
                                sizeof(struct heap_target), err);
    }
    if (rc == 0) rc = on_exec ? make_environment(m, err) : heap_reader_find_running(m, err);
    if (rc == 0) rc = sonde_thread_start(&m->thread, "sonde-heap", heap_reader_read_loop, m, err);
    if (rc != 0) {
        heap_reader_free(m);
        return rc;
    }
    *out = m;
    return 0;
}

int sonde_heap_reader_start_on_exec(const struct sonde_heap_reader_options *options,
                                    struct sonde_heap_reader **out, struct sonde_err *err)
{
    return heap_reader_start(options, 1, out, err);
}

int sonde_heap_reader_start(const struct sonde_heap_reader_options *options,
                            struct sonde_heap_reader **out, struct sonde_err *err)
{
    return heap_reader_start(options, 0, out, err);
}

const char *sonde_heap_reader_environment(struct sonde_heap_reader *m, size_t *size)
{
    assert(m && size);
    *size = m->env_size;
    return m->env;
}

/* ---- Status ---------------------------------------------------------------------------------- */

/* Append a sentence. */
__attribute__((format(printf, 2, 3)))
static void heap_reader_note(char out[SONDE_HEAP_NOTE_MAX], const char *format, ...)
{
    va_list ap;
    const size_t len = strlen(out);
    const int n = len ? snprintf(out + len, SONDE_HEAP_NOTE_MAX - len, "; ") : 0;
    if (len + (size_t)n >= SONDE_HEAP_NOTE_MAX) return;
    va_start(ap, format);
    vsnprintf(out + len + n, SONDE_HEAP_NOTE_MAX - len - (size_t)n, format, ap);
    va_end(ap);
}

/* The worst first: what does not fit is cut. */
static void make_note(struct sonde_heap_reader *m, char out[SONDE_HEAP_NOTE_MAX])
{
    uint64_t refused = m->refused, reentrant = m->reentrant, given_up = m->scans_given_up;
    out[0] = '\0';
    if (!m->any) sonde_preload_absent(&m->found, out, SONDE_HEAP_NOTE_MAX);
    if (m->broken[0]) heap_reader_note(out, "%s", m->broken);
    for (uint32_t i = 0; i < m->found.target_count; i++) {
        const struct heap_target *t = heap_target_at(m, i);
        if (!heap_is_open(t)) continue;
        refused += t->info.refused;
        reentrant += t->info.reentrant;
        given_up += t->info.scanned == 2;
    }
    if (refused) {
        heap_reader_note(
            out,
            "%" PRIu64 " allocations were not recorded: there was no memory for tables, no "
            "room in the directory of segments, or the program has given up system calls (seccomp)",
            refused);
    }
    if (m->ended.stacks_refused) {
        heap_reader_note(out, "%" PRIu64 " of the smallest places are left out, for lack of memory",
                         m->ended.stacks_refused);
    }
    if (m->reader.series_refused) {
        heap_reader_note(out, "growth is not known of %" PRIu64 " places, for lack of memory",
                         m->reader.series_refused);
    }
    if (given_up) {
        heap_reader_note(out, "the scan for lost memory was given up: leaks are not told apart");
    }
    if (reentrant) {
        heap_reader_note(out, "%" PRIu64 " allocations in signal handlers were not recorded",
                         reentrant);
    }
}

static void make_rates(const struct sonde_heap_reader *m, const struct heap_now *n,
                       struct sonde_heap_reader_status *out)
{
    uint32_t oldest = UINT32_MAX;
    for (uint32_t i = 0; i < HEAP_RATES; i++) {
        if (!m->rates[i].at_ns) continue;
        if (oldest == UINT32_MAX || m->rates[i].at_ns < m->rates[oldest].at_ns) oldest = i;
    }
    if (oldest == UINT32_MAX || m->reader.now_ns <= m->rates[oldest].at_ns || m->root_ended) return;
    const double s = (double)(m->reader.now_ns - m->rates[oldest].at_ns) * 1e-9;
    out->alloc_rate = (n->alloc_bytes - m->rates[oldest].bytes) / s;
    out->count_rate = (n->alloc_count - m->rates[oldest].count) / s;
}

void sonde_heap_reader_status(struct sonde_heap_reader *m, struct sonde_heap_reader_status *out)
{
    clockid_t clock;
    double peak;
    sonde_lock(&m->lock);
    heap_round(m);
    struct heap_now n = heap_totals(m);
    if (m->root_ended) {
        n.live_bytes += m->left_bytes;
        n.live_count += m->left_count;
    }
    *out = (struct sonde_heap_reader_status){
        .live_bytes = heap_whole(n.live_bytes),
        .live_count = heap_whole(n.live_count),
        .alloc_bytes = heap_whole(n.alloc_bytes),
        .alloc_count = heap_whole(n.alloc_count),
        .sites = m->ended_sites,
        .lost = m->ended_lost,
        .running = m->any,
    };
    peak = m->ended_peak;
    for (uint32_t i = 0; i < m->found.target_count; i++) {
        const struct heap_target *t = heap_target_at(m, i);
        if (!heap_is_open(t)) continue;
        peak += (double)t->info.peak_bytes;
        out->sites += t->info.sites ? t->info.sites - 1 : 0;
        out->lost += t->lost;
    }
    out->peak_bytes = heap_whole(peak > n.live_bytes ? peak : n.live_bytes);
    make_rates(m, &n, out);
    make_note(m, out->note);
    sonde_unlock(&m->lock);
    if (pthread_getcpuclockid(m->thread.id, &clock) == 0) out->cpu_s = sonde_clock_s(clock);
}

void sonde_heap_reader_mark(struct sonde_heap_reader *m)
{
    struct sonde_err err;
    sonde_lock(&m->lock);
    heap_round(m);
    m->mark_ns = sonde_clock_ns(CLOCK_REALTIME);
    for (uint32_t i = 0; i < m->found.target_count; i++) {
        struct heap_target *t = heap_target_at(m, i);
        const int rc = heap_is_open(t) ? heap_target_mark(t, &err) : 0;
        if (rc != 0) heap_give_up(m, t, rc, &err);
    }
    sonde_unlock(&m->lock);
}

/* ---- Profiles -------------------------------------------------------------------------------- */

/* All that still run into s, and a profile out of it. s is released. */
static int make_profile(struct sonde_heap_reader *m, struct heap_sum *s, struct sonde_profile **out)
{
    struct sonde_err err;
    struct sonde_heap *h = s->h;
    const int last = s == &m->ended;
    const struct heap_build_options o = heap_build_options(m, s, last);
    for (uint32_t i = 0; i < m->found.target_count; i++) {
        struct heap_target *t = heap_target_at(m, i);
        if (last && heap_is_open(t)) heap_target_look_at_last(&m->reader, t);
        const int rc = heap_is_open(t) ? heap_build(t, &o, s, &err) : 0;
        if (rc == SONDE_ENOMEM) {
            heap_sum_release(s);
            return rc;
        }
        if (rc != 0) heap_give_up(m, t, rc, &err);
    }
    h->mark_ns = m->mark_ns;
    h->ended = m->root_ended;
    h->tick_s = (double)m->tick_ns * 1e-9;
    h->tick0_ns = m->tick0_unix_ns;
    h->growth = m->growth;
    if (m->point_count) {
        h->points = sonde__alloc(m->point_count * sizeof(*h->points));
        if (h->points) {
            memcpy(h->points, m->points, m->point_count * sizeof(*h->points));
            h->point_count = m->point_count;
        }
    }
    s->p->start_ns = m->start_ns;
    s->p->end_ns = sonde_clock_ns(CLOCK_REALTIME);
    s->p->engine = sonde_profile_cstring(s->p, "heap");
    s->p->lost_records = h->lost_events;
    const int rc = heap_sum_finish(s, m->root_ended);
    if (rc == 0) {
        *out = s->p;
        s->p = NULL;
    }
    heap_sum_release(s);
    return rc;
}

int sonde_heap_reader_snapshot(struct sonde_heap_reader *m, struct sonde_profile **out)
{
    assert(m && out);
    struct heap_sum s;
    sonde_lock(&m->lock);
    heap_round(m);
    int rc = heap_sum_copy(&m->ended, &s);
    if (rc == 0) rc = make_profile(m, &s, out);
    sonde_unlock(&m->lock);
    return rc;
}

int sonde_heap_reader_window(struct sonde_heap_reader *m, uint64_t from_ns, uint64_t to_ns,
                             size_t bytes_max, struct sonde_profile **out)
{
    assert(m && out);
    struct sonde_err err;
    struct sonde_profile *p;
    int rc = sonde_profile_create(bytes_max, &p);
    if (rc) return rc;
    sonde_lock(&m->lock);
    heap_round(m);
    for (uint32_t i = 0; !rc && i < m->found.target_count; i++) {
        struct heap_target *t = heap_target_at(m, i);
        if (!heap_is_open(t)) continue;
        const int read = heap_window(t, m->reader.event_shift, from_ns, to_ns, p, &err);
        if (read == SONDE_ENOMEM) rc = read;
        else if (read) heap_give_up(m, t, read, &err);
    }
    sonde_unlock(&m->lock);
    if (rc) {
        sonde_profile_destroy(p);
        return rc;
    }
    p->start_ns = from_ns;
    p->end_ns = to_ns;
    *out = p;
    return 0;
}

int sonde_heap_reader_stop(struct sonde_heap_reader *m, struct sonde_profile **out)
{
    assert(m && out && !m->stopping);
    const uint64_t one = 1;
    sonde_lock(&m->lock);
    m->stopping = 1;
    sonde_unlock(&m->lock);
    const ssize_t n = write(m->wake_fd, &one, sizeof(one));
    (void)n; /* without it the thread looks a little later */
    sonde_thread_join(&m->thread);
    sonde_lock(&m->lock);
    heap_round(m);
    const int rc = make_profile(m, &m->ended, out);
    sonde_unlock(&m->lock);
    heap_reader_free(m);
    return rc;
}
