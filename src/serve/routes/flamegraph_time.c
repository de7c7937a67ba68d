/* flamegraph_time.c - when samples of a flame graph were taken: GET /api/flamegraph/time, how much
 * of each kind over time, for a strip above it; GET /api/flamegraph/samples, samples one by one,
 * for a picture that has time from left to right. Both take what /api/flamegraph takes to say
 * whose. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cmp.h"
#include "base/json.h"
#include "profile/tree/frame.h"
#include "serve/api/flame.h"
#include "serve/api/session_report.h"
#include "sonde/sonde.h"

enum { BUCKETS_DEFAULT = 200, BUCKETS_MAX = 5000, LIMIT_DEFAULT = 20000, LIMIT_MAX = 200000 };

/* Asks for the source and answers; errors are in answer. */
static void route_flame_time_answer(
    const struct sonde_http_request *r, struct sonde_response *answer,
    int (*put)(const struct sonde_http_request *r, struct sonde_response *answer,
               const struct sonde_api_flame_query *q, const struct sonde_api_flame_source *s,
               struct sonde_err *err))
{
    struct sonde_api_flame_query q;
    struct sonde_recent_thing *source = NULL;
    struct sonde_err err = { "" };
    if (sonde_api_flame_read(r, answer, &q)) {
        int rc = sonde_api_flame_source(r, &q, &q.side, &source, &err);
        if (!rc) rc = put(r, answer, &q, sonde_recent_get(source), &err);
        if (rc) sonde_response_failed(answer, rc, &err);
        sonde_recent_give(source);
    }
    sonde_api_flame_release(&q);
}

/* ---- How much, over time --------------------------------------------------------------------- */

struct strip {
    uint64_t from_ns;
    double step_ns;
    size_t buckets;
    double *weights;           /* by kind and bucket */
};

static void strip_add(struct strip *s, int kind, double at_ns, double weight)
{
    const double bucket = floor((at_ns - (double)s->from_ns) / s->step_ns);
    if (bucket >= 0 && bucket < (double)s->buckets) {
        s->weights[(size_t)kind * s->buckets + (size_t)bucket] += weight;
    }
}

/* Blocked time goes on from when it began; what stands for several does not say of which. */
static void strip_add_sample(struct strip *s, const struct sonde_profile_sample *x)
{
    const double from = (double)(int64_t)(x->time_ns - s->from_ns), end = from + (double)x->weight;
    if (x->kind != SONDE_SAMPLE_OFFCPU || x->count != 1) {
        strip_add(s, x->kind, (double)x->time_ns, (double)x->weight);
        return;
    }
    for (double b = fmax(0, floor(from / s->step_ns)); b < (double)s->buckets; b++) {
        const double begin = fmax(from, b * s->step_ns), until = fmin(end, (b + 1) * s->step_ns);
        if (until <= begin) break;
        s->weights[(size_t)x->kind * s->buckets + (size_t)b] += until - begin;
    }
}

/* Of each kind all samples that are meant; those without a time are of no use here. */
static int strip_fill(struct strip *s, const struct sonde_api_flame_query *q,
                      const struct sonde_profile *p, struct sonde_err *err)
{
    for (int kind = 0; kind < SONDE_SAMPLE_KIND_COUNT; kind++) {
        struct sonde_profile_match *m;
        struct sonde_profile_filter f = sonde_api_flame_filter(q, &q->side);
        f.kind = kind;
        if (!p->weights[kind]) continue;
        const int rc = sonde_profile_match_create(p, &f, &m, err);
        if (rc) return rc;
        for (uint32_t i = 0; i < p->samples_count; i++) {
            if (p->samples[i].time_ns && sonde_profile_matches(m, i)) {
                strip_add_sample(s, &p->samples[i]);
            }
        }
        sonde_profile_match_destroy(m);
    }
    return 0;
}

static void strip_put(const struct strip *s, const char *key, int kind, struct sonde_buf *out)
{
    sonde_json_key_open(out, key, '[');
    for (size_t b = 0; b < s->buckets; b++) {
        if (b) sonde_buf_putc(out, ',');
        sonde_buf_json_double(out, round(s->weights[(size_t)kind * s->buckets + b]));
    }
    sonde_json_close(out, ']');
}

static int route_flame_time_put(const struct sonde_http_request *r, struct sonde_response *answer,
                                const struct sonde_api_flame_query *q,
                                const struct sonde_api_flame_source *src, struct sonde_err *err)
{
    const struct sonde_api_flame_side *side = &q->side;
    uint64_t buckets = BUCKETS_DEFAULT;
    if (!sonde_http_count(r, answer, "buckets", BUCKETS_MAX, &buckets)) return 0;
    /* What was asked for, where that is a range; of requests and profiles the time that they
     * have. */
    const int own = side->profile || side->request || src->to_ns > sonde_clock_ns_of(side->to_s);
    const double from_s = own ? (double)src->from_ns * 1e-9 : side->from_s;
    const double to_s = own ? (double)src->to_ns * 1e-9 : side->to_s;
    struct strip s = { .from_ns = own ? src->from_ns : sonde_clock_ns_of(side->from_s),
                       .step_ns = fmax((to_s - from_s) * 1e9 / (double)buckets, 1),
                       .buckets = (size_t)buckets };
    s.weights = sonde__calloc(SONDE_SAMPLE_KIND_COUNT * s.buckets, sizeof(*s.weights));
    if (!s.weights) return sonde_err_memory(err);
    const int rc = strip_fill(&s, q, src->profile, err);
    int kind = q->kind;
    for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT && kind < 0; k++) {
        if (src->profile->weights[k]) kind = k;
    }
    if (kind < 0) kind = SONDE_SAMPLE_CPU;
    if (!rc) {
        struct sonde_buf *out = &answer->body;
        sonde_buf_putc(out, '{');
        sonde_json_num(out, "from", from_s);
        sonde_json_num(out, "to", to_s);
        sonde_json_num(out, "step_s", s.step_ns * 1e-9);
        sonde_json_str(out, "kind", sonde_sample_kind_name((enum sonde_sample_kind)kind));
        sonde_json_str(out, "unit", sonde_sample_kind_unit((enum sonde_sample_kind)kind));
        strip_put(&s, "total", kind, out);
        sonde_json_key_open(out, "kinds", '{');
        for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT; k++) {
            if (!src->profile->weights[k]) continue;
            strip_put(&s, sonde_sample_kind_name((enum sonde_sample_kind)k), k, out);
        }
        sonde_buf_puts(out, "}}\n");
    }
    sonde__free(s.weights);
    return rc;
}

static void flamegraph_time(const struct sonde_http_request *r, struct sonde_response *answer)
{
    route_flame_time_answer(r, answer, route_flame_time_put);
}

/* ---- One by one ------------------------------------------------------------------------------ */

struct route_flame_time_listing {
    const struct sonde_profile *p;
    struct sonde_frames frames;
    struct sonde_strings pool;
    size_t bytes;
    uint32_t *samples;         /* those that are meant, in order of time … */
    uint32_t count, all;       /* … and how many there are */
    uint32_t *stack_id;        /* by stack, whole and truncated: its number + 1 */
    uint32_t *frame_id;        /* by name: alike */
    uint32_t *thread_id;       /* by thread: alike */
    uint32_t *thread_of;       /* number -> thread */
    uint32_t stacks, names, threads;
    struct sonde_buf name_list, stack_list;
};

static int route_flame_time_by_time(const void *a, const void *b, void *arg)
{
    const struct sonde_profile *p = arg;
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const uint64_t x = p->samples[i].time_ns, y = p->samples[k].time_ns;
    return x != y ? SONDE_CMP(x, y) : SONDE_CMP(i, k);
}

/* Of too many every so manieth, from the first to the last. */
static int find_samples(struct route_flame_time_listing *l, const struct sonde_profile_filter *f,
                        uint32_t limit, struct sonde_err *err)
{
    struct sonde_profile_match *m;
    const struct sonde_profile *p = l->p;
    int rc = sonde_profile_match_some(p, f, &m, err);
    if (rc) return rc;
    l->samples = sonde__alloc(((size_t)sonde_profile_match_count(m) + 1) * sizeof(*l->samples));
    for (uint32_t i = 0; l->samples && i < p->samples_count; i++) {
        if (p->samples[i].time_ns && sonde_profile_matches(m, i)) l->samples[l->all++] = i;
    }
    sonde_profile_match_destroy(m);
    if (!l->samples) return sonde_err_memory(err);
    qsort_r(l->samples, l->all, sizeof(*l->samples), route_flame_time_by_time,
            (void *)(uintptr_t)p);
    l->count = l->all < limit ? l->all : limit;
    for (uint32_t i = 0; i < l->count; i++) {
        l->samples[i] = l->samples[(uint64_t)i * l->all / l->count];
    }
    return 0;
}

static int listing_init(struct route_flame_time_listing *l)
{
    const struct sonde_budget b = { .used = &l->bytes, .max = (size_t)1 << 31 };
    sonde_buf_init(&l->name_list, (size_t)1 << 30);
    sonde_buf_init(&l->stack_list, (size_t)1 << 30);
    if (sonde_strings_init(&l->pool, &b) || sonde_frames_create(&l->frames, l->p, &l->pool, &b)) {
        return SONDE_ENOMEM;
    }
    l->stack_id = sonde__calloc((size_t)l->p->stacks_count * 2, sizeof(*l->stack_id));
    l->frame_id = sonde__calloc(l->pool.count, sizeof(*l->frame_id));
    l->thread_id = sonde__calloc(l->p->threads_count, sizeof(*l->thread_id));
    l->thread_of = sonde__calloc(l->p->threads_count, sizeof(*l->thread_of));
    return l->stack_id && l->frame_id && l->thread_id && l->thread_of ? 0 : SONDE_ENOMEM;
}

static void listing_release(struct route_flame_time_listing *l)
{
    sonde_frames_release(&l->frames);
    sonde_strings_release(&l->pool);
    sonde_buf_release(&l->name_list);
    sonde_buf_release(&l->stack_list);
    sonde__free(l->samples);
    sonde__free(l->stack_id);
    sonde__free(l->frame_id);
    sonde__free(l->thread_id);
    sonde__free(l->thread_of);
}

static uint32_t frame_of(struct route_flame_time_listing *l, uint32_t name)
{
    if (!l->frame_id[name]) {
        const char *text = l->pool.strings[name];
        if (l->names) sonde_buf_putc(&l->name_list, ',');
        sonde_buf_json_str(&l->name_list, text, strlen(text));
        l->frame_id[name] = ++l->names;
    }
    return l->frame_id[name] - 1;
}

static int route_flame_time_stack_of(struct route_flame_time_listing *l,
                                     const struct sonde_profile_sample *s,
                                     struct sonde_frame_path *path, uint32_t *out)
{
    uint32_t *id = &l->stack_id[(size_t)s->stack * 2 + (s->flags & SONDE_SAMPLE_TRUNCATED ? 1 : 0)];
    if (!*id) {
        if (sonde_frame_path_set(path, &l->frames, l->p, s)) return SONDE_ENOMEM;
        sonde_buf_puts(&l->stack_list, l->stacks ? ",[" : "[");
        for (uint32_t i = 0; i < path->count; i++) {
            if (i) sonde_buf_putc(&l->stack_list, ',');
            sonde_buf_u64(&l->stack_list, frame_of(l, l->frames.rows[path->rows[i]].name));
        }
        sonde_buf_putc(&l->stack_list, ']');
        *id = ++l->stacks;
    }
    *out = *id - 1;
    return 0;
}

static uint32_t route_flame_time_thread_of(struct route_flame_time_listing *l, uint32_t thread)
{
    if (!l->thread_id[thread]) {
        l->thread_of[l->threads] = thread;
        l->thread_id[thread] = ++l->threads;
    }
    return l->thread_id[thread] - 1;
}

static int route_flame_time_put_rows(struct route_flame_time_listing *l, struct sonde_buf *out)
{
    struct sonde_frame_path path = { 0 };
    int rc = 0;
    sonde_json_key_open(out, "samples", '[');
    for (uint32_t i = 0; i < l->count && !rc; i++) {
        const struct sonde_profile_sample *s = &l->p->samples[l->samples[i]];
        uint32_t stack;
        rc = route_flame_time_stack_of(l, s, &path, &stack);
        if (rc) break;
        if (i) sonde_buf_putc(out, ',');
        sonde_buf_printf(out, "[%llu.%06llu,%u,%llu,%u]",
                         (unsigned long long)(s->time_ns / 1000000000u),
                         (unsigned long long)(s->time_ns % 1000000000u / 1000), stack,
                         (unsigned long long)s->weight, route_flame_time_thread_of(l, s->thread));
    }
    sonde_json_close(out, ']');
    sonde_frame_path_release(&path);
    return rc;
}

static void route_flame_time_put_threads(const struct route_flame_time_listing *l,
                                         struct sonde_buf *out)
{
    sonde_json_key_open(out, "threads", '[');
    for (uint32_t i = 0; i < l->threads; i++) {
        const struct sonde_profile_thread *t = &l->p->threads[l->thread_of[i]];
        sonde_json_open(out, '{');
        sonde_json_u64(out, "tid", t->tid);
        sonde_json_u64(out, "pid", t->pid);
        sonde_json_str(out, "name", sonde_profile_str(l->p, t->name));
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static int route_flame_time_put_samples(const struct sonde_http_request *r,
                                        struct sonde_response *answer,
                                        const struct sonde_api_flame_query *q,
                                        const struct sonde_api_flame_source *src,
                                        struct sonde_err *err)
{
    uint64_t limit = LIMIT_DEFAULT;
    struct route_flame_time_listing l = { .p = src->profile };
    const struct sonde_profile_filter f = sonde_api_flame_filter(q, &q->side);
    if (!sonde_http_count(r, answer, "limit", LIMIT_MAX, &limit)) return 0;
    int rc = listing_init(&l);
    if (rc) rc = sonde_err_memory(err);
    if (!rc) rc = find_samples(&l, &f, (uint32_t)limit, err);
    if (!rc) {
        struct sonde_buf *out = &answer->body;
        sonde_buf_putc(out, '{');
        rc = route_flame_time_put_rows(&l, out);
        if (!rc && (l.name_list.error || l.stack_list.error)) rc = SONDE_ENOMEM;
        sonde_json_key_open(out, "frames", '[');
        sonde_buf_add(out, l.name_list.data ? l.name_list.data : "", l.name_list.len);
        sonde_json_close(out, ']');
        sonde_json_key_open(out, "stacks", '[');
        sonde_buf_add(out, l.stack_list.data ? l.stack_list.data : "", l.stack_list.len);
        sonde_json_close(out, ']');
        route_flame_time_put_threads(&l, out);
        sonde_json_u64(out, "all", l.all);
        sonde_json_bool(out, "truncated", l.count < l.all);
        sonde_buf_puts(out, "}\n");
        if (rc) rc = sonde_err_memory(err);
    }
    listing_release(&l);
    return rc;
}

static void flamegraph_samples(const struct sonde_http_request *r, struct sonde_response *answer)
{
    route_flame_time_answer(r, answer, route_flame_time_put_samples);
}

#define WHOSE                                                                                     \
    "from", "to", "process", "pid", "profile", "type", "thread", "span", "phase", "request",      \
        "slowest", "model", "route", "metric", "min", "max", "workers", "base", "base_from",      \
        "base_to", "base_profile", "live"

extern const struct sonde_route sonde_route_api_flamegraph_time, sonde_route_api_flamegraph_samples;
const struct sonde_route sonde_route_api_flamegraph_time = {
    .method = "GET",
    .path = "/api/flamegraph/time",
    .summary = "weight of the samples over time, in ?buckets= of equal length, for a strip above "
               "the flame "
               "graph",
    .params = (const char *const[]){ WHOSE, "buckets", NULL },
    .slow = 1,
    .handle = flamegraph_time,
    .keys = "from,to,step_s,kind,unit,total,kinds",
    .statuses = "404,409",
};
const struct sonde_route sonde_route_api_flamegraph_samples = {
    .method = "GET",
    .path = "/api/flamegraph/samples",
    .summary =
        "the samples in order of time, each [time, stack, weight, thread], at most ?limit= of "
        "them",
    .params = (const char *const[]){ WHOSE, "limit", NULL },
    .slow = 1,
    .handle = flamegraph_samples,
    .keys = "samples,frames,stacks,threads,all,truncated",
    .statuses = "404,409",
};
