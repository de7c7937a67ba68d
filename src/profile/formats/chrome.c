/* chrome.c - the Trace Event Format, for Perfetto and chrome://tracing: spans as slices on their
 * threads, samples as slices on tracks of their own, inference requests as asynchronous tracks
 * (chrome_requests.c), and commands of GPUs on a track for each queue (chrome_gpu.c).
 *
 * The format's own way for samples ("stackFrames" and "samples") is not read by Perfetto, so a
 * thread's samples become the slices of a flame chart: a sample of time stands for the time it
 * weighs up to its own (CPU) or from it on (blocked), frames that go on from one to the next are
 * one slice, and a gap longer than half a sample ends them all. Samples of bytes or events have
 * no length and become instants with their stack.
 *
 * Tracks are known by two numbers. Those of samples have the pid plus the largest pid there can
 * be, so they never nest with the spans of the same thread. Times count from the first event, in
 * microseconds: unix time would not fit in a double to the nanosecond. Read by chrome_read.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "profile/format.h"
#include "profile/formats/chrome_gpu.h"
#include "profile/formats/chrome_read.h"
#include "profile/formats/chrome_requests.h"
#include "profile/tree/frame.h"
#include "sonde/sonde.h"

#define NAMES_MAX ((size_t)1 << 30)
enum { PID_MAX = 1 << 22 };

/* A slice that has begun. */
struct chrome_open {
    uint32_t name;
    uint64_t start_ns;
};

struct chrome_writer {
    const struct sonde_profile *p;
    const struct sonde_profile_match *m;
    struct sonde_buf *out;
    struct sonde_strings pool;
    struct sonde_frames frames;
    struct sonde_frame_path path;
    uint32_t *order;              /* samples, by thread and time */
    uint32_t *spans;              /* those that pass, by thread and start */
    uint32_t span_count;
    struct sonde_chrome_requests requests;
    struct sonde_chrome_gpu gpu;
    unsigned char *used;          /* thread -> 1: has spans, 2: has samples */
    struct chrome_open *open;
    uint32_t open_count, open_cap;
    uint64_t base_ns;             /* the first event */
    enum sonde_sample_kind kind;
    size_t bytes;
    uint64_t events;
};

/* ---- Events ---------------------------------------------------------------------------------- */

static void chrome_put_time(struct chrome_writer *w, const char *before, uint64_t ns)
{
    sonde_buf_printf(w->out, "%s%" PRIu64 ".%03u", before, ns / 1000, (unsigned)(ns % 1000));
}

static void chrome_put_string(struct chrome_writer *w, const char *before, const char *s)
{
    sonde_buf_puts(w->out, before);
    sonde_buf_json_str(w->out, s, strlen(s));
}

/* {"ph":"X","name":…,"pid":…,"tid":… and the time; the caller goes on and closes it. */
static void chrome_begin_event(struct chrome_writer *w, char phase, const char *name,
                               uint32_t thread, int samples, uint64_t time_ns)
{
    const struct sonde_profile_thread *t = &w->p->threads[thread];
    sonde_buf_printf(w->out, "%s{\"ph\":\"%c\"", w->events++ ? ",\n" : "\n", phase);
    chrome_put_string(w, ",\"name\":", name);
    sonde_buf_printf(w->out, ",\"pid\":%u,\"tid\":%u", t->pid % PID_MAX + (samples ? PID_MAX : 0),
                     t->tid);
    if (phase != 'M') chrome_put_time(w, ",\"ts\":", time_ns - w->base_ns);
}

static void chrome_put_metadata(struct chrome_writer *w, const char *what, const char *value,
                                uint32_t thread, int samples)
{
    chrome_begin_event(w, 'M', what, thread, samples, 0);
    chrome_put_string(w, ",\"args\":{\"name\":", value);
    sonde_buf_puts(w->out, "}}");
}

/* Names of processes and threads that have events. */
static void put_tracks(struct chrome_writer *w)
{
    const struct sonde_profile *p = w->p;
    const struct sonde_budget b = { .used = &w->bytes, .max = NAMES_MAX };
    const char *program = sonde_profile_str(p, p->program);
    char title[512];
    if (!*program) program = "process";
    snprintf(title, sizeof(title), "%.400s: %s, sampled", program,
             sonde_sample_kind_title(w->kind));
    for (uint32_t t = 0; t < p->threads_count; t++) {
        if (!w->used[t]) continue;
        const uint32_t label = sonde_thread_label(p, t, &w->pool, &b);
        if (!label) w->out->error = SONDE_ENOMEM;
        for (int samples = 0; samples < 2; samples++) {
            if (!(w->used[t] & (samples ? 2 : 1))) continue;
            chrome_put_metadata(w, "process_name", samples ? title : program, t, samples);
            chrome_put_metadata(w, "thread_name", w->pool.strings[label], t, samples);
        }
    }
}

/* ---- Spans ----------------------------------------------------------------------------------- */

static int chrome_by_start(const void *a, const void *b, void *spans)
{
    const struct sonde_profile_span *x =
        (const struct sonde_profile_span *)spans + *(const uint32_t *)a;
    const struct sonde_profile_span *y =
        (const struct sonde_profile_span *)spans + *(const uint32_t *)b;
    if (x->thread != y->thread) return SONDE_CMP(x->thread, y->thread);
    if (x->start_ns != y->start_ns) return SONDE_CMP(x->start_ns, y->start_ns);
    if (x->end_ns != y->end_ns) return SONDE_CMP(y->end_ns, x->end_ns);
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

static void put_span_args(struct chrome_writer *w, const struct sonde_profile_span *s)
{
    static const char *const outcomes[] = { "ok", "error", "cancelled", "timeout" };
    sonde_buf_printf(w->out,
                     ",\"args\":{\"trace_id\":\"%016" PRIx64 "%016" PRIx64
                     "\",\"span_id\":\"%016" PRIx64 "\"",
                     s->trace_hi, s->trace_lo, s->id);
    if (s->parent) sonde_buf_printf(w->out, ",\"parent_id\":\"%016" PRIx64 "\"", s->parent);
    if (s->outcome < SONDE_COUNT(outcomes)) {
        chrome_put_string(w, ",\"outcome\":", outcomes[s->outcome]);
    }
    sonde_buf_puts(w->out, "}}");
}

static void chrome_put_span(struct chrome_writer *w, const struct sonde_profile_span *s, int nests)
{
    const char *name = sonde_profile_str(w->p, s->name);
    if (nests) {
        chrome_begin_event(w, 'X', name, s->thread, 0, s->start_ns);
        chrome_put_time(w, ",\"dur\":", s->end_ns - s->start_ns);
        sonde_buf_puts(w->out, ",\"cat\":\"span\"");
        put_span_args(w, s);
        return;
    }
    chrome_begin_event(w, 'b', name, s->thread, 0, s->start_ns);
    sonde_buf_printf(w->out, ",\"cat\":\"span\",\"id\":\"0x%" PRIx64 "\"", s->id);
    put_span_args(w, s);
    chrome_begin_event(w, 'e', name, s->thread, 0, s->end_ns);
    sonde_buf_printf(w->out, ",\"cat\":\"span\",\"id\":\"0x%" PRIx64 "\"}", s->id);
}

static int chrome_push_open(struct chrome_writer *w, struct chrome_open o)
{
    if (SONDE_ARRAY_ROOM(w->open, w->open_count, w->open_cap)) return w->out->error = SONDE_ENOMEM;
    w->open[w->open_count++] = o;
    return 0;
}

/* Slices of one track must nest; spans that cross others become asynchronous pairs. */
static void chrome_put_spans(struct chrome_writer *w)
{
    w->open_count = 0;
    for (uint32_t i = 0; i < w->span_count && !w->out->error; i++) {
        const struct sonde_profile_span *s = &w->p->spans[w->spans[i]];
        if (i && w->p->spans[w->spans[i - 1]].thread != s->thread) w->open_count = 0;
        /* open[].start_ns holds the end here. */
        while (w->open_count && w->open[w->open_count - 1].start_ns <= s->start_ns) {
            w->open_count--;
        }
        const int nests = !w->open_count || s->end_ns <= w->open[w->open_count - 1].start_ns;
        if (nests) chrome_push_open(w, (struct chrome_open){ .start_ns = s->end_ns });
        chrome_put_span(w, s, nests);
    }
    w->open_count = 0;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static void close_slices(struct chrome_writer *w, uint32_t thread, uint32_t keep, uint64_t end_ns)
{
    while (w->open_count > keep) {
        const struct chrome_open o = w->open[--w->open_count];
        if (end_ns <= o.start_ns) continue;
        chrome_begin_event(w, 'X', w->pool.strings[o.name], thread, 1, o.start_ns);
        chrome_put_time(w, ",\"dur\":", end_ns - o.start_ns);
        sonde_buf_puts(w->out, ",\"cat\":\"sample\"}");
    }
}

/* The open slices are those of the sample's stack from start_ns on. */
static void switch_stack(struct chrome_writer *w, const struct sonde_profile_sample *s,
                         uint64_t start_ns)
{
    uint32_t same = 0;
    if (sonde_frame_path_set(&w->path, &w->frames, w->p, s)) w->out->error = SONDE_ENOMEM;
    while (same < w->open_count && same < w->path.count &&
           w->open[same].name == w->frames.rows[w->path.rows[same]].name) {
        same++;
    }
    close_slices(w, s->thread, same, start_ns);
    for (uint32_t i = same; i < w->path.count; i++) {
        const struct chrome_open o = { w->frames.rows[w->path.rows[i]].name, start_ns };
        if (chrome_push_open(w, o)) return;
    }
}

static uint64_t sample_start(const struct chrome_writer *w, const struct sonde_profile_sample *s)
{
    if (w->kind != SONDE_SAMPLE_CPU) return s->time_ns;
    return s->weight < s->time_ns ? s->time_ns - s->weight : 0;
}

static void put_chart(struct chrome_writer *w)
{
    uint64_t end_ns = 0;
    uint32_t thread = UINT32_MAX;
    for (uint32_t i = 0; i < sonde_profile_match_count(w->m) && !w->out->error; i++) {
        const struct sonde_profile_sample *s = &w->p->samples[w->order[i]];
        if (!s->time_ns) continue;
        uint64_t start_ns = sample_start(w, s);
        if (s->thread != thread || start_ns > end_ns + s->weight / 2) {
            close_slices(w, thread, 0, end_ns);
            thread = s->thread;
        } else {
            start_ns = end_ns;
        }
        switch_stack(w, s, start_ns);
        end_ns = w->kind == SONDE_SAMPLE_CPU ? s->time_ns : start_ns + s->weight;
        if (end_ns < start_ns) end_ns = start_ns;
    }
    if (thread != UINT32_MAX) close_slices(w, thread, 0, end_ns);
}

static void put_instants(struct chrome_writer *w)
{
    for (uint32_t i = 0; i < sonde_profile_match_count(w->m) && !w->out->error; i++) {
        const struct sonde_profile_sample *s = &w->p->samples[w->order[i]];
        if (!s->time_ns) continue;
        if (sonde_frame_path_set(&w->path, &w->frames, w->p, s)) {
            w->out->error = SONDE_ENOMEM;
            return;
        }
        const uint32_t leaf = w->frames.rows[w->path.rows[w->path.count - 1]].name;
        chrome_begin_event(w, 'i', w->pool.strings[leaf], s->thread, 1, s->time_ns);
        sonde_buf_printf(w->out, ",\"s\":\"t\",\"cat\":\"sample\",\"args\":{\"%s\":%" PRIu64
                         ",\"stack\":[", sonde_sample_kind_unit(w->kind), s->weight);
        for (uint32_t k = 0; k < w->path.count; k++) {
            chrome_put_string(w, k ? "," : "",
                              w->pool.strings[w->frames.rows[w->path.rows[k]].name]);
        }
        sonde_buf_puts(w->out, "]}}");
    }
}

/* ---- The file -------------------------------------------------------------------------------- */

static int chrome_prepare(struct chrome_writer *w, const struct sonde_profile_filter *f)
{
    const struct sonde_profile *p = w->p;
    const struct sonde_budget b = { .used = &w->bytes, .max = NAMES_MAX };
    w->kind = (enum sonde_sample_kind)sonde_profile_match_kind(w->m);
    w->order = sonde_profile_match_in_order(p, w->m);
    w->spans = sonde__alloc(p->spans_count * sizeof(*w->spans));
    w->used = sonde__calloc(p->threads_count, 1);
    if (!w->order || !w->spans || !w->used || sonde_strings_init(&w->pool, &b) ||
        sonde_frames_create(&w->frames, p, &w->pool, &b) ||
        sonde_chrome_requests_find(&w->requests, p, f) || sonde_chrome_gpu_find(&w->gpu, p, f)) {
        return SONDE_ENOMEM;
    }
    w->base_ns = sonde_chrome_gpu_base(&w->gpu);
    if (w->requests.count && w->requests.list[0]->arrived_ns < w->base_ns) {
        w->base_ns = w->requests.list[0]->arrived_ns;
    }
    for (uint32_t i = 0; i < p->spans_count; i++) {
        if (!sonde_profile_matches_span(w->m, i) ||
            sonde_chrome_requests_has(&w->requests, p, &p->spans[i])) {
            continue;
        }
        w->spans[w->span_count++] = i;
        w->used[p->spans[i].thread] |= 1;
        if (p->spans[i].start_ns < w->base_ns) w->base_ns = p->spans[i].start_ns;
    }
    qsort_r(w->spans, w->span_count, sizeof(*w->spans), chrome_by_start, p->spans);
    for (uint32_t i = 0; i < sonde_profile_match_count(w->m); i++) {
        const struct sonde_profile_sample *s = &p->samples[w->order[i]];
        if (!s->time_ns) continue;
        w->used[s->thread] |= 2;
        if (sample_start(w, s) < w->base_ns) w->base_ns = sample_start(w, s);
    }
    return 0;
}

static void chrome_put_file(struct chrome_writer *w)
{
    sonde_buf_puts(w->out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"exporter\":\"sonde "
                   SONDE_VERSION "\"");
    /* A string: readers that take numbers for doubles would round it. */
    sonde_buf_printf(w->out, ",\"start_unix_ns\":\"%" PRIu64 "\"},\n\"traceEvents\":[", w->base_ns);
    put_tracks(w);
    chrome_put_spans(w);
    const char *program = sonde_profile_str(w->p, w->p->program);
    sonde_chrome_requests_put(&w->requests, *program ? program : "process", w->base_ns, PID_MAX,
                              &w->events, w->out);
    sonde_chrome_gpu_put(&w->gpu, w->base_ns, PID_MAX, &w->events, w->out);
    if (sonde_sample_kind_is_time(w->kind)) put_chart(w);
    else put_instants(w);
    sonde_buf_puts(w->out, "]}\n");
}

static int chrome_write_matching(struct chrome_writer *w, const struct sonde_profile_filter *f,
                                 struct sonde_err *err)
{
    int rc = chrome_prepare(w, f);
    if (!rc && w->base_ns == UINT64_MAX) {
        if (!sonde_profile_match_count(w->m)) return sonde_profile_match_none(w->p, f, err);
        return sonde_err_set(err, SONDE_ENOENT,
                             "the samples have no times, so there is nothing to put on a timeline; "
                             "use another format");
    }
    if (!rc) {
        chrome_put_file(w);
        rc = w->out->error;
    }
    return rc ? sonde_err_set(err, rc, "no memory for the trace") : 0;
}

static int chrome_write(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                        struct sonde_buf *out, struct sonde_err *err)
{
    struct sonde_profile_match *m;
    int rc = sonde_profile_match_create(p, f, &m, err);
    if (rc) return rc;
    struct chrome_writer w = { .p = p, .m = m, .out = out };
    rc = chrome_write_matching(&w, f, err);
    sonde_frame_path_release(&w.path);
    sonde_frames_release(&w.frames);
    sonde_strings_release(&w.pool);
    sonde_chrome_requests_release(&w.requests);
    sonde_chrome_gpu_release(&w.gpu);
    sonde__free(w.order);
    sonde__free(w.spans);
    sonde__free(w.used);
    sonde__free(w.open);
    sonde_profile_match_destroy(m);
    return rc;
}

extern const struct sonde_format_ops sonde_format_chrome;
const struct sonde_format_ops sonde_format_chrome = {
    .name = "chrome",
    .summary =
        "trace events as JSON, for Perfetto and chrome://tracing: spans, requests, GPU commands "
        "and samples",
    .content_type = "application/json",
    .suffix = ".trace.json",
    .write = chrome_write,
    .probe = sonde_chrome_probe,
    .read = sonde_chrome_read,
};
