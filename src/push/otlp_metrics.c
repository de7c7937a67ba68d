/* otlp_metrics.c - a model as ExportMetricsServiceRequest.
 *
 * OTLP groups by resource first, the model by family: so the families are gone through once, and
 * each resource (a process, or the host with the agent) has buffers of its own that its points go
 * to.
 * Counters are monotonic cumulative sums, histograms exponential ones of scale 6. The recorder's
 * buckets are just those: bucket p, counted from the octave 2^-40, has the index p - 2561, since
 * OTLP's index i is (2^(i/64), 2^((i+1)/64)]. Bucket 0 holds the one value 2^-40, which is the zero
 * threshold. The labels process and pid are the resource's. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/pb.h"
#include "model/export_name.h"
#include "push/otlp.h"
#include "sonde/sonde.h"

enum { REQUEST_RESOURCE = 1, RESOURCE_RESOURCE = 1, RESOURCE_SCOPE = 2, SCOPE_SCOPE = 1,
       SCOPE_METRIC = 2 };
enum { METRIC_NAME = 1, METRIC_DESCRIPTION = 2, METRIC_UNIT = 3, METRIC_GAUGE = 5, METRIC_SUM = 7,
       METRIC_EXPONENTIAL = 10 };
enum { DATA_POINT = 1, DATA_TEMPORALITY = 2, DATA_MONOTONIC = 3, CUMULATIVE = 2 };
enum { NUMBER_START = 2, NUMBER_TIME = 3, NUMBER_DOUBLE = 4, NUMBER_INT = 6, NUMBER_ATTRIBUTE = 7 };
enum { HIST_ATTRIBUTE = 1, HIST_START = 2, HIST_TIME = 3, HIST_COUNT = 4, HIST_SUM = 5,
       HIST_SCALE = 6, HIST_ZERO = 7, HIST_POSITIVE = 8, HIST_EXEMPLAR = 11,
       HIST_ZERO_THRESHOLD = 14 };
enum { BUCKETS_OFFSET = 1, BUCKETS_COUNT = 2, SCALE = 6 };
enum { EXEMPLAR_TIME = 2, EXEMPLAR_DOUBLE = 3, EXEMPLAR_TRACE = 5 };
enum { GROUP_LABELS = 2 }; /* process and pid, the last two of a process's series */

struct resource {
    const struct sonde_model_process *process; /* NULL = host and agent */
    struct sonde_buf points, metrics;  /* of this family; of all so far */
    uint32_t count;                    /* points in metrics */
};

struct push_otlp_metrics_writer {
    struct push_dest *d;
    const struct sonde_model *m;
    struct resource *resources;
    size_t count, last;                /* last: the one used last */
    struct sonde_map index;            /* by process; row = resource + 1 */
    size_t bytes;                      /* in all buffers */
    struct push_otlp_scratch scratch;
    struct sonde_buf point, nested, data, help;
    uint64_t counts[SONDE__HIST_BUCKETS];
    uint64_t time_ns;
};

static uint64_t to_ns(double s) { return s > 0 && s < 1e10 ? (uint64_t)(s * 1e9) : 0; }

/* ---- Resources ------------------------------------------------------------------------------- */

static int resources_init(struct push_otlp_metrics_writer *w)
{
    const size_t count = w->m->process_count + 1;
    w->resources = sonde__calloc(count, sizeof(*w->resources));
    if (!w->resources) return SONDE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct resource *r = &w->resources[i];
        if (sonde_map_reserve(&w->index)) return SONDE_ENOMEM;
        r->process = i ? w->m->processes[i - 1] : NULL;
        sonde_buf_init(&r->points, PUSH_BODY_MAX);
        sonde_buf_init(&r->metrics, PUSH_BODY_MAX);
        w->count = i + 1;
        sonde_map_put(&w->index, sonde_hash_pointer(r->process), (uint32_t)w->count);
    }
    return 0;
}

static struct resource *resource_of(struct push_otlp_metrics_writer *w,
                                    const struct sonde_model_process *p)
{
    if (w->resources[w->last].process == p) return &w->resources[w->last];
    const uint32_t hash = sonde_hash_pointer(p);
    uint32_t at = hash, row;
    while ((row = sonde_map_next(&w->index, hash, &at)) && w->resources[row - 1].process != p)
        continue;
    assert(row); /* every process of a series is among the model's */
    w->last = row ? row - 1 : 0;
    return &w->resources[w->last];
}

/* ---- A request ------------------------------------------------------------------------------- */

static void put_resource(struct push_otlp_metrics_writer *w,
                         struct resource *r, struct sonde_buf *out)
{
    struct push_otlp_who who = { "", 0, 0 };
    if (r->process) {
        who =
            (struct push_otlp_who){ r->process->program, r->process->pid, r->process->start_time };
    }
    sonde_buf_reset(&w->data);
    sonde_buf_reset(&w->nested);
    sonde_buf_reset(&w->point);
    push_otlp_resource(&w->nested, &w->scratch, push_origin(w->d), &who);
    sonde_pb_message(&w->data, RESOURCE_RESOURCE, &w->nested);
    push_otlp_scope(&w->point, SCOPE_SCOPE, &w->scratch);
    sonde_buf_add(&w->point, r->metrics.data, r->metrics.len);
    if (r->metrics.error) w->point.error = r->metrics.error;
    sonde_pb_message(&w->data, RESOURCE_SCOPE, &w->point);
    sonde_pb_message(out, REQUEST_RESOURCE, &w->data);
}

static int push_otlp_metrics_flush(struct push_otlp_metrics_writer *w)
{
    struct sonde_buf out;
    uint32_t count = 0;
    sonde_buf_init(&out, PUSH_BODY_MAX);
    for (size_t i = 0; i < w->count; i++) {
        struct resource *r = &w->resources[i];
        if (!r->count) continue;
        count += r->count;
        put_resource(w, r, &out);
        sonde_buf_reset(&r->metrics);
        r->count = 0;
    }
    w->bytes = 0;
    const int rc = out.error;
    if (!rc && count) push_emit(w->d, SONDE_PUSH_METRICS, "/v1/metrics", count, &out);
    sonde_buf_release(&out);
    return rc;
}

/* ---- Points ---------------------------------------------------------------------------------- */

static void push_otlp_metrics_put_attributes(struct push_otlp_metrics_writer *w, uint32_t field,
                                             const struct sonde_model_series *s)
{
    const size_t count = s->process && s->label_count >= GROUP_LABELS
                             ? s->label_count - GROUP_LABELS
                             : s->label_count;
    for (size_t i = 0; i < count; i++) {
        push_otlp_str(&w->point, field, s->labels[i].name, s->labels[i].value);
    }
}

static uint64_t start_of(const struct push_otlp_metrics_writer *w,
                         const struct sonde_model_series *s)
{
    const uint64_t start = to_ns(s->created_s);
    return start < w->time_ns ? start : w->time_ns;
}

static void push_otlp_metrics_put_number(struct push_otlp_metrics_writer *w,
                                         const struct sonde_model_series *s)
{
    const struct sonde_model_family *f = s->family;
    push_otlp_metrics_put_attributes(w, NUMBER_ATTRIBUTE, s);
    if (f->type == SONDE_COUNTER) sonde_pb_fixed64(&w->point, NUMBER_START, start_of(w, s));
    sonde_pb_fixed64(&w->point, NUMBER_TIME, w->time_ns);
    if (f->type == SONDE_COUNTER && f->scale == 1 && !s->real && s->counter <= INT64_MAX) {
        sonde_pb_fixed64(&w->point, NUMBER_INT, s->counter);
    } else {
        sonde_pb_double(&w->point, NUMBER_DOUBLE,
                        f->type == SONDE_COUNTER ? sonde_model_series_total(s) : s->gauge);
    }
}

/* From the first bucket that is not empty to the last one. */
static void push_otlp_metrics_put_buckets(struct push_otlp_metrics_writer *w,
                                          const struct sonde_hist_value *h)
{
    uint32_t first = 0, last = 0;
    for (uint32_t p = 1; p < SONDE__HIST_BUCKETS; p++) {
        const uint64_t *counts = h->octave[p / 64];
        if (!counts) {
            p |= 63;
            continue;
        }
        if (!counts[p % 64]) continue;
        if (!first) first = p;
        last = p;
    }
    sonde_buf_reset(&w->nested);
    if (!first) return;
    for (uint32_t p = first; p <= last; p++) {
        w->counts[p - first] = h->octave[p / 64] ? h->octave[p / 64][p % 64] : 0;
    }
    sonde_pb_sint(&w->nested, BUCKETS_OFFSET, (int64_t)first + 64 * SONDE__HIST_EXP_MIN - 1);
    sonde_pb_packed_uint(&w->nested, BUCKETS_COUNT, w->counts, last - first + 1);
    sonde_pb_message(&w->point, HIST_POSITIVE, &w->nested);
}

static void put_exemplars(struct push_otlp_metrics_writer *w, const struct sonde_model_series *s)
{
    for (size_t i = 0; i < s->exemplar_count; i++) {
        const struct sonde_exemplar *e = &s->exemplar[i];
        if (!(e->time_s > 0)) continue;
        sonde_buf_reset(&w->nested);
        sonde_pb_fixed64(&w->nested, EXEMPLAR_TIME, to_ns(e->time_s));
        sonde_pb_double(&w->nested, EXEMPLAR_DOUBLE, e->value);
        push_otlp_id(&w->nested, EXEMPLAR_TRACE, (const uint64_t[]){ e->trace_hi, e->trace_lo }, 2);
        sonde_pb_message(&w->point, HIST_EXEMPLAR, &w->nested);
    }
}

static void push_otlp_metrics_put_histogram(struct push_otlp_metrics_writer *w,
                                            const struct sonde_model_series *s)
{
    const struct sonde_hist_value *h = s->hist;
    push_otlp_metrics_put_attributes(w, HIST_ATTRIBUTE, s);
    sonde_pb_fixed64(&w->point, HIST_START, start_of(w, s));
    sonde_pb_fixed64(&w->point, HIST_TIME, w->time_ns);
    sonde_pb_fixed64(&w->point, HIST_COUNT, h ? h->count : 0);
    sonde_pb_double(&w->point, HIST_SUM, sonde_model_series_sum(s));
    sonde_pb_sint(&w->point, HIST_SCALE, SCALE);
    sonde_pb_fixed64(&w->point, HIST_ZERO, h ? h->zero + (h->octave[0] ? h->octave[0][0] : 0) : 0);
    if (h) push_otlp_metrics_put_buckets(w, h);
    put_exemplars(w, s);
    sonde_pb_double(&w->point, HIST_ZERO_THRESHOLD, ldexp(1, SONDE__HIST_EXP_MIN));
}

/* ---- Families -------------------------------------------------------------------------------- */

/* UCUM, which OTLP asks for; of a family that does not say, from its name. */
static const char *push_otlp_metrics_unit_of(const struct sonde_model_family *f)
{
    static const struct { const char *ours, *theirs; } units[] = {
        { "seconds", "s" }, { "bytes", "By" }, { "ratio", "1" }, { "percent", "%" },
    };
    size_t stem = strlen(f->name);
    if (stem > 6 && !strcmp(f->name + stem - 6, "_total")) stem -= 6;
    for (size_t i = 0; i < SONDE_COUNT(units); i++) {
        const size_t len = strlen(units[i].ours);
        if (!strcmp(f->unit, units[i].ours)) return units[i].theirs;
        if (!*f->unit && stem > len && f->name[stem - len - 1] == '_' &&
            !memcmp(f->name + stem - len, units[i].ours, len)) {
            return units[i].theirs;
        }
    }
    return f->unit;
}

/* The points of a resource become a metric of it. */
static void close_metric(struct push_otlp_metrics_writer *w, const struct sonde_model_family *f,
                         struct resource *r)
{
    if (!r->points.len) return;
    const char *unit = push_otlp_metrics_unit_of(f);
    sonde_buf_reset(&w->nested);
    sonde_buf_reset(&w->data);
    sonde_buf_add(&w->data, r->points.data, r->points.len);
    if (r->points.error) w->data.error = r->points.error;
    if (f->type != SONDE_GAUGE) sonde_pb_uint(&w->data, DATA_TEMPORALITY, CUMULATIVE);
    if (f->type == SONDE_COUNTER) sonde_pb_uint(&w->data, DATA_MONOTONIC, 1);
    sonde_pb_str(&w->nested, METRIC_NAME, f->name, strlen(f->name));
    sonde_pb_str(&w->nested, METRIC_DESCRIPTION, w->help.data ? w->help.data : "", w->help.len);
    if (*unit) sonde_pb_str(&w->nested, METRIC_UNIT, unit, strlen(unit));
    sonde_pb_message(&w->nested, f->type == SONDE_COUNTER ? METRIC_SUM
                                 : f->type == SONDE_GAUGE ? METRIC_GAUGE
                                                          : METRIC_EXPONENTIAL, &w->data);
    const size_t before = r->metrics.len;
    sonde_pb_message(&r->metrics, SCOPE_METRIC, &w->nested);
    w->bytes += r->metrics.len - before;
    w->bytes -= r->points.len;
    sonde_buf_reset(&r->points);
}

static int close_metrics(struct push_otlp_metrics_writer *w, const struct sonde_model_family *f,
                         int all)
{
    if (!all && w->bytes < OTLP_RAW_MAX) {
        /* Most families are of one resource. */
        close_metric(w, f, &w->resources[w->last]);
        return 0;
    }
    for (size_t i = 0; i < w->count; i++) close_metric(w, f, &w->resources[i]);
    return w->bytes >= OTLP_RAW_MAX ? push_otlp_metrics_flush(w) : 0;
}

static int push_otlp_metrics_put_family(struct push_otlp_metrics_writer *w,
                                        const struct sonde_model_family *f)
{
    const struct resource *only = NULL;
    int several = 0, rc = 0;
    sonde_buf_reset(&w->help);
    sonde_export_help(f, &w->help);
    for (size_t i = 0; i < f->series_count && !rc; i++) {
        const struct sonde_model_series *s = f->series[i];
        struct resource *r = resource_of(w, s->process);
        several |= only && only != r;
        only = r;
        sonde_buf_reset(&w->point);
        if (f->type == SONDE_HISTOGRAM) push_otlp_metrics_put_histogram(w, s);
        else push_otlp_metrics_put_number(w, s);
        const size_t before = r->points.len;
        sonde_pb_message(&r->points, DATA_POINT, &w->point);
        w->bytes += r->points.len - before;
        r->count++;
        if (w->bytes >= OTLP_RAW_MAX) rc = close_metrics(w, f, 1);
    }
    return rc ? rc : only ? close_metrics(w, f, several) : 0;
}

int push_otlp_metrics(struct push_dest *d, struct sonde_model *m)
{
    if (m->shared) sonde_assert_held(&m->lock);
    struct push_otlp_metrics_writer *w = sonde__calloc(1, sizeof(*w));
    if (!w) return SONDE_ENOMEM;
    w->d = d;
    w->m = m;
    w->time_ns = to_ns(m->now_s);
    struct sonde_buf *const bufs[] = { &w->point, &w->nested, &w->data, &w->help };
    for (size_t i = 0; i < SONDE_COUNT(bufs); i++)
        sonde_buf_init(bufs[i], PUSH_BODY_MAX);
    push_otlp_scratch_init(&w->scratch, PUSH_BODY_MAX);
    int rc = resources_init(w);
    for (size_t i = 0; i < m->family_count && !rc; i++) {
        rc = push_otlp_metrics_put_family(w, m->families[i]);
    }
    if (!rc) rc = push_otlp_metrics_flush(w);
    for (size_t i = 0; i < w->count; i++) {
        sonde_buf_release(&w->resources[i].points);
        sonde_buf_release(&w->resources[i].metrics);
    }
    for (size_t i = 0; i < SONDE_COUNT(bufs); i++) sonde_buf_release(bufs[i]);
    push_otlp_scratch_release(&w->scratch);
    sonde__free(w->resources);
    sonde_map_release(&w->index);
    sonde__free(w);
    return rc;
}
