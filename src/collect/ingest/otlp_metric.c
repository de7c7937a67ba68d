/* otlp_metric.c - data points of OTLP to series; see otlp.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collect/ingest/otlp_private.h"
#include "sonde/sonde.h"

enum { BUCKETS_MAX = 8192, CLASSIC_MAX = 512, OURS = 6 /* our histograms' scale */ };
enum { UNSPECIFIED, DELTA, CUMULATIVE };
enum { NO_VALUE = 1 };  /* of flags */

/* Of any kind of data point; what a kind does not have stays 0. */
struct point {
    uint64_t start_ns, time_ns, count, zero;
    double value, sum, zero_threshold;
    int has_value, has_sum;
    uint64_t flags;
    int64_t scale;
    struct sonde_pb_field counts, bounds, positive, negative; /* last piece of packed ones */
    const unsigned char *data;  /* of all of it, to go through again */
    size_t len;
};

enum shape { NUMBER, HISTOGRAM, EXPONENTIAL, SUMMARY };

/* ---- One series ------------------------------------------------------------------------------ */

static const char *otlp_metric_reason_of(int rc)
{
    switch (rc) {
    case SONDE_EFULL: return "there are too many series (ingest.max_series)";
    case SONDE_EEXIST: return "older than what is there, sent twice, or the name is taken";
    case SONDE_EINVAL: return "its name or attributes cannot be labels";
    default: return "no memory";
    }
}

/* One series of t's metric: name + suffix, t's labels. 0, or it was rejected. */
static int otlp_metric_put_series(struct otlp_capture *t, const char *suffix,
                                  struct sonde_ingest_point *p)
{
    char name[OTLP_NAME_BYTES + 16];
    snprintf(name, sizeof(name), "%s%s", t->name, suffix);
    p->name = name;
    p->help = t->help.len ? t->help.data : NULL;
    p->unit = t->unit;
    p->source = "otlp";
    p->labels = t->labels.label;
    p->label_count = t->labels.count;
    p->now_s = t->now_s;
    return t->apply ? sonde_ingest_put(t->o->foreign, p) : 0;
}

/* The same with one label more. */
static int put_with(struct otlp_capture *t, const char *suffix, const char *label, double bound,
                    struct sonde_ingest_point *p)
{
    char text[64];
    struct sonde_buf b;
    sonde_buf_init(&b, sizeof(text) - 1);
    sonde_buf_double(&b, bound);
    snprintf(text, sizeof(text), "%s", b.error ? "" : b.data);
    sonde_buf_release(&b);
    if (t->labels.count == OTLP_LABELS_MAX) return SONDE_EINVAL;
    t->labels.label[t->labels.count++] = (struct sonde_label){ label, text };
    const int rc = otlp_metric_put_series(t, suffix, p);
    t->labels.count--;
    return rc;
}

static struct sonde_ingest_point base_of(const struct point *d, int delta)
{
    return (struct sonde_ingest_point){ .delta = delta, .start_ns = d->start_ns,
                                        .time_ns = d->time_ns };
}

/* ---- Histograms with bounds, and summaries --------------------------------------------------- */

static int otlp_metric_put_part(struct otlp_capture *t, const struct point *d, int delta,
                                enum sonde_shown shown, const char *suffix, double value)
{
    struct sonde_ingest_point p = base_of(d, delta);
    p.type = SONDE_COUNTER;
    p.shown = shown;
    p.stem = strlen(t->name);
    p.value = value;
    return otlp_metric_put_series(t, suffix, &p);
}

static int otlp_metric_put_bucket(struct otlp_capture *t, const struct point *d, int delta,
                                  double bound, uint64_t count)
{
    struct sonde_ingest_point p = base_of(d, delta);
    p.type = SONDE_COUNTER;
    p.shown = SONDE_SHOWN_HISTOGRAM;
    p.stem = strlen(t->name);
    p.value = (double)count;
    return put_with(t, "_bucket", "le", bound, &p);
}

static int put_rest(struct otlp_capture *t, const struct point *d, int delta,
                    enum sonde_shown shown)
{
    int rc = otlp_metric_put_part(t, d, delta, shown, "_count", (double)d->count);
    if (!rc && d->has_sum) rc = otlp_metric_put_part(t, d, delta, shown, "_sum", d->sum);
    return rc;
}

/* Numbers of a repeated field of eight bytes each, packed or not. How many, or -1. */
static int64_t read_fixed(const struct point *d, uint32_t number, uint64_t *out, size_t max)
{
    struct sonde_pb_reader r = sonde_pb_reader(d->data, d->len);
    struct sonde_pb_field f;
    size_t n = 0;
    while (sonde_pb_next(&r, &f) > 0) {
        if (f.number != number) continue;
        if (f.wire == SONDE_PB_FIXED64) {
            if (n == max) return -1;
            out[n++] = f.value;
        } else if (f.wire == SONDE_PB_BYTES && f.len % 8 == 0) {
            for (size_t i = 0; i < f.len; i += 8) {
                if (n == max) return -1;
                uint64_t v = 0;
                for (size_t k = 8; k-- > 0;) v = v << 8 | f.data[i + k];
                out[n++] = v;
            }
        } else {
            return -1;
        }
    }
    return (int64_t)n;
}

static int put_explicit(struct otlp_capture *t, const struct point *d, int delta)
{
    uint64_t counts[CLASSIC_MAX + 1], bits[CLASSIC_MAX];
    const int64_t n = read_fixed(d, 6, counts, CLASSIC_MAX + 1),
                  m = read_fixed(d, 7, bits, CLASSIC_MAX);
    double before = -INFINITY;
    uint64_t sum = 0;
    int rc = 0;
    if (n < 0 || m < 0 || (n && n != m + 1) || (!n && m)) return SONDE_EFORMAT;
    for (int64_t i = 0; i < n; i++) {
        if (__builtin_add_overflow(sum, counts[i], &sum)) return SONDE_EFORMAT;
        if (i == m) break;
        const double bound = otlp_double(bits[i]);
        if (!(bound > before)) return SONDE_EFORMAT;
        before = bound;
    }
    if (n && sum != d->count) return SONDE_EFORMAT;
    sum = 0;
    for (int64_t i = 0; i < m && !rc; i++) {
        if (isinf(otlp_double(bits[i]))) break;
        sum += counts[i];
        rc = otlp_metric_put_bucket(t, d, delta, otlp_double(bits[i]), sum);
    }
    if (!rc) rc = otlp_metric_put_bucket(t, d, delta, INFINITY, d->count);
    return rc ? rc : put_rest(t, d, delta, SONDE_SHOWN_HISTOGRAM);
}

static int otlp_metric_put_summary(struct otlp_capture *t, const struct point *d)
{
    struct sonde_pb_reader r = sonde_pb_reader(d->data, d->len), q;
    struct sonde_pb_field f, v;
    int rc = 0;
    while (!rc && sonde_pb_next(&r, &f) > 0) {
        if (f.number != 6) continue;
        if (f.wire != SONDE_PB_BYTES) return SONDE_EFORMAT;
        double quantile = 0, value = 0;
        q = sonde_pb_reader(f.data, f.len);
        while (sonde_pb_next(&q, &v) > 0) {
            if (v.number == 1) quantile = otlp_double(v.value);
            if (v.number == 2) value = otlp_double(v.value);
        }
        struct sonde_ingest_point p = base_of(d, 0);
        p.type = SONDE_GAUGE;
        p.shown = SONDE_SHOWN_SUMMARY;
        p.stem = strlen(t->name);
        p.value = value;
        rc = put_with(t, "", "quantile", quantile, &p);
    }
    return rc ? rc : put_rest(t, d, 0, SONDE_SHOWN_SUMMARY);
}

/* ---- Exponential histograms ------------------------------------------------------------------ */

struct buckets {
    int64_t offset;
    size_t count;
    uint64_t n[BUCKETS_MAX];
};

static int otlp_metric_read_buckets(const struct sonde_pb_field *f, struct buckets *out)
{
    struct sonde_pb_reader r = sonde_pb_reader(f->data, f->len), packed;
    struct sonde_pb_field b;
    int more;
    out->offset = 0;
    out->count = 0;
    while ((more = sonde_pb_next(&r, &b)) > 0) {
        if (b.number == 1 && b.wire == SONDE_PB_VARINT) {
            const int64_t v = (int64_t)(b.value >> 1) ^ -(int64_t)(b.value & 1);
            if (v < -(1 << 30) || v > 1 << 30) return SONDE_EFORMAT;
            out->offset = v;
        } else if (b.number == 2 && b.wire == SONDE_PB_VARINT) {
            if (out->count == BUCKETS_MAX) return SONDE_EFORMAT;
            out->n[out->count++] = b.value;
        } else if (b.number == 2 && b.wire == SONDE_PB_BYTES) {
            uint64_t v;
            packed = sonde_pb_reader(b.data, b.len);
            while ((more = sonde_pb_next_varint(&packed, &v)) > 0) {
                if (out->count == BUCKETS_MAX) return SONDE_EFORMAT;
                out->n[out->count++] = v;
            }
            if (more < 0) return SONDE_EFORMAT;
        }
    }
    return more < 0 ? SONDE_EFORMAT : 0;
}

/* Ours are those of scale 6, the first of them at 2^-40; several of a finer one make one of ours.
 * How many, or -1: they are not within ours. */
static int64_t to_ours(const struct buckets *in, int64_t scale, struct sonde_hist_bucket64 *out)
{
    int64_t n = 0;
    for (size_t i = 0; i < in->count; i++) {
        if (!in->n[i]) continue;
        const int64_t index = (in->offset + (int64_t)i) >> (scale - OURS);
        const int64_t p = index + 1 - 64 * SONDE__HIST_EXP_MIN;
        if (p < 1 || p >= (int64_t)SONDE__HIST_BUCKETS) return -1;
        if (n && out[n - 1].p == (uint32_t)p) {
            out[n - 1].n += in->n[i];
        } else {
            out[n++] = (struct sonde_hist_bucket64){ (uint32_t)p, in->n[i] };
        }
    }
    return n;
}

/* Counters at the bounds that it has: exact, if not fine. Only buckets that hold something. */
static int put_coarse(struct otlp_capture *t, const struct point *d, const struct buckets *positive,
                      const struct buckets *negative)
{
    const double step = exp2(-(double)d->scale);
    uint64_t sum = 0;
    size_t shown = 0;
    int rc = 0;
    for (size_t i = negative->count; i-- > 0 && !rc;) {
        if (!negative->n[i]) continue;
        sum += negative->n[i];
        if (++shown > CLASSIC_MAX) return SONDE_EFORMAT;
        /* (-upper, -lower]: up to but not with its lower end, which is as near as le comes. */
        rc = otlp_metric_put_bucket(t, d, 0, -exp2((double)(negative->offset + (int64_t)i) * step),
                                    sum);
    }
    sum += d->zero;
    if (!rc && d->zero) rc = otlp_metric_put_bucket(t, d, 0, d->zero_threshold, sum);
    for (size_t i = 0; i < positive->count && !rc; i++) {
        if (!positive->n[i]) continue;
        sum += positive->n[i];
        const double bound = exp2((double)(positive->offset + (int64_t)i + 1) * step);
        if (++shown > CLASSIC_MAX) return SONDE_EFORMAT;
        if (isfinite(bound)) rc = otlp_metric_put_bucket(t, d, 0, bound, sum);
    }
    if (!rc) rc = otlp_metric_put_bucket(t, d, 0, INFINITY, d->count);
    return rc ? rc : put_rest(t, d, 0, SONDE_SHOWN_HISTOGRAM);
}

static int total_is(const struct point *d, const struct buckets *a, const struct buckets *b)
{
    uint64_t sum = d->zero;
    for (size_t i = 0; i < a->count; i++) {
        if (__builtin_add_overflow(sum, a->n[i], &sum)) return 0;
    }
    for (size_t i = 0; i < b->count; i++) {
        if (__builtin_add_overflow(sum, b->n[i], &sum)) return 0;
    }
    return sum == d->count;
}

struct exponential {
    struct buckets positive, negative;
    struct sonde_hist_bucket64 ours[BUCKETS_MAX];
};

static int otlp_metric_put_buckets(struct otlp_capture *t, const struct point *d, int delta,
                                   struct exponential *x)
{
    int64_t n = -1;
    int negatives = 0;
    if (otlp_metric_read_buckets(&d->positive, &x->positive) ||
        otlp_metric_read_buckets(&d->negative, &x->negative) ||
        !total_is(d, &x->positive, &x->negative) || d->scale < -10 || d->scale > 20) {
        return SONDE_EFORMAT;
    }
    for (size_t i = 0; i < x->negative.count; i++) negatives |= x->negative.n[i] > 0;
    if (d->scale >= OURS && !negatives) n = to_ours(&x->positive, d->scale, x->ours);
    struct sonde_ingest_point p = base_of(d, delta);
    p.type = SONDE_HISTOGRAM;
    if (n < 0 && delta) return SONDE_EVERSION;
    if (n < 0) {
        /* It was fine before, and got too wide for that. */
        char name[OTLP_NAME_BYTES];
        snprintf(name, sizeof(name), "%s", t->name);
        p.name = name;
        p.labels = t->labels.label;
        p.label_count = t->labels.count;
        if (t->apply) sonde_ingest_drop(t->o->foreign, &p);
        return put_coarse(t, d, &x->positive, &x->negative);
    }
    const struct sonde_ingest_hist h = { .zero = d->zero, .sum = d->has_sum ? d->sum : 0,
                                         .bucket = x->ours, .bucket_count = (size_t)n };
    p.hist = &h;
    return otlp_metric_put_series(t, "", &p);
}

static int put_exponential(struct otlp_capture *t, const struct point *d, int delta)
{
    struct exponential *x = sonde__alloc(sizeof(*x));
    if (!x) return SONDE_ENOMEM;
    const int rc = otlp_metric_put_buckets(t, d, delta, x);
    sonde__free(x);
    return rc;
}

/* ---- Data points ----------------------------------------------------------------------------- */

/* Fields 2 to 6 are alike in all; which number the others have depends on the shape. */
static int read_field(struct point *d, const struct sonde_pb_field *f, enum shape shape)
{
    static const uint32_t flags[] = { [NUMBER] = 8, [HISTOGRAM] = 10, [EXPONENTIAL] = 10,
                                      [SUMMARY] = 8 };
    const uint32_t n = f->number;
    const int fixed = f->wire == SONDE_PB_FIXED64, bytes = f->wire == SONDE_PB_BYTES;
    if (n == 2 && fixed) d->start_ns = f->value;
    else if (n == 3 && fixed) d->time_ns = f->value;
    else if (n == flags[shape] && f->wire == SONDE_PB_VARINT) d->flags = f->value;
    else if (shape == NUMBER && (n == 4 || n == 6)) {
        if (!fixed) return SONDE_EFORMAT;
        d->has_value = 1;
        d->value = n == 4 ? otlp_double(f->value) : (double)(int64_t)f->value;
    } else if (shape != NUMBER && n == 4 && fixed) d->count = f->value;
    else if (shape != NUMBER && n == 5 && fixed) {
        d->has_sum = 1;
        d->sum = otlp_double(f->value);
    } else if (shape == EXPONENTIAL && n == 6 && f->wire == SONDE_PB_VARINT) {
        d->scale = (int64_t)(f->value >> 1) ^ -(int64_t)(f->value & 1);
    } else if (shape == EXPONENTIAL && n == 7 && fixed) d->zero = f->value;
    else if (shape == EXPONENTIAL && n == 8 && bytes) d->positive = *f;
    else if (shape == EXPONENTIAL && n == 9 && bytes) d->negative = *f;
    else if (shape == EXPONENTIAL && n == 14 && fixed) d->zero_threshold = otlp_double(f->value);
    return 0;
}

static int otlp_metric_read_point(struct otlp_capture *t, const struct sonde_pb_field *in,
                                  enum shape shape, struct point *d)
{
    static const uint32_t attributes[] = { [NUMBER] = 7, [HISTOGRAM] = 9, [EXPONENTIAL] = 1,
                                           [SUMMARY] = 7 };
    struct sonde_pb_reader r = sonde_pb_reader(in->data, in->len);
    struct sonde_pb_field f;
    int more, rc = 0;
    *d = (struct point){ .data = in->data, .len = in->len };
    otlp_labels_cut(&t->labels, t->common, t->common_text);
    while (!rc && (more = sonde_pb_next(&r, &f)) > 0) {
        if (f.number == attributes[shape]) rc = otlp_attribute(&t->labels, &f);
        else rc = read_field(d, &f, shape);
    }
    if (!rc && more < 0) rc = SONDE_EFORMAT;
    if (!rc) otlp_labels_done(&t->labels);
    return rc;
}

struct metric {
    struct sonde_pb_field data;  /* the last of gauge … summary */
    enum shape shape;
    uint64_t temporality, monotonic;
    int gauge;
};

static int otlp_metric_put_point(struct otlp_capture *t, const struct metric *m,
                                 const struct point *d)
{
    const int delta = m->temporality == DELTA;
    switch (m->shape) {
    case HISTOGRAM: return put_explicit(t, d, delta);
    case EXPONENTIAL: return put_exponential(t, d, delta);
    case SUMMARY: return otlp_metric_put_summary(t, d);
    case NUMBER: break;
    }
    struct sonde_ingest_point p = base_of(d, delta && !m->gauge);
    p.type = m->monotonic ? SONDE_COUNTER : SONDE_GAUGE;
    p.value = d->value;
    return otlp_metric_put_series(t, "", &p);
}

static int take_point(struct otlp_capture *t, const struct metric *m,
                      const struct sonde_pb_field *f)
{
    struct point d;
    int rc = f->wire == SONDE_PB_BYTES ? otlp_metric_read_point(t, f, m->shape, &d) : SONDE_EFORMAT;
    if (rc) return rc;
    if (d.flags & NO_VALUE) return 0; /* it says that there is nothing: the series will be stale */
    if (m->shape == NUMBER && !d.has_value) {
        otlp_reject(t, 1, "%s: a data point without a value", t->name);
        return 0;
    }
    if (!m->gauge && m->shape != SUMMARY && m->temporality != DELTA &&
        m->temporality != CUMULATIVE) {
        otlp_reject(t, 1, "%s: neither delta nor cumulative", t->name);
        return 0;
    }
    rc = t->labels.too_many ? SONDE_EINVAL : otlp_metric_put_point(t, m, &d);
    if (rc == SONDE_EFORMAT) {
        otlp_reject(t, 1, "%s: its buckets do not fit its count, or are too many", t->name);
    } else if (rc == SONDE_EVERSION) {
        otlp_reject(t, 1, "%s: deltas of exponential histograms need a scale of 6 or more and "
                    "values from 2^-40 to 2^56: send them cumulative, or with bounds", t->name);
    } else if (rc) {
        otlp_reject(t, 1, "%s: %s", t->name, otlp_metric_reason_of(rc));
    } else {
        t->result->accepted++;
    }
    otlp_breathe(t);
    return 0;
}

static int take_data(struct otlp_capture *t, struct metric *m)
{
    struct sonde_pb_reader r = sonde_pb_reader(m->data.data, m->data.len);
    struct sonde_pb_field f;
    int more, rc = 0;
    while (!rc && (more = sonde_pb_next(&r, &f)) > 0) {
        if (f.number == 1) rc = take_point(t, m, &f);
    }
    return rc ? rc : more < 0 ? SONDE_EFORMAT : 0;
}

static int read_kind(struct metric *m)
{
    struct sonde_pb_reader r = sonde_pb_reader(m->data.data, m->data.len);
    struct sonde_pb_field f;
    int more;
    while ((more = sonde_pb_next(&r, &f)) > 0) {
        if (f.number == 2 && f.wire == SONDE_PB_VARINT) m->temporality = f.value;
        if (f.number == 3 && f.wire == SONDE_PB_VARINT) m->monotonic = f.value;
    }
    return more < 0 ? SONDE_EFORMAT : 0;
}

int otlp_metric(struct otlp_capture *t, const struct sonde_pb_field *in)
{
    struct sonde_pb_reader r = sonde_pb_reader(in->data, in->len);
    struct sonde_pb_field f;
    struct metric m = { 0 };
    struct sonde_buf name, unit;
    int more, rc = 0, known = 0;
    if (in->wire != SONDE_PB_BYTES) return SONDE_EFORMAT;
    t->common = t->labels.count;
    t->common_text = t->labels.text.len;
    sonde_buf_init(&name, 4096);
    sonde_buf_init(&unit, 4096);
    sonde_buf_reset(&t->help);
    while (!rc && (more = sonde_pb_next(&r, &f)) > 0) {
        if (f.number == 1) rc = otlp_text(&f, &name);
        if (f.number == 2) rc = otlp_text(&f, &t->help);
        if (f.number == 3) rc = otlp_text(&f, &unit);
        if (f.number != 5 && f.number != 7 && (f.number < 9 || f.number > 11)) continue;
        if (f.wire != SONDE_PB_BYTES) rc = SONDE_EFORMAT;
        known = 1;
        m.data = f;
        m.gauge = f.number == 5;
        m.shape = f.number < 9 ? NUMBER : f.number == 9 ? HISTOGRAM
                  : f.number == 10 ? EXPONENTIAL : SUMMARY;
    }
    if (!rc && more < 0) rc = SONDE_EFORMAT;
    if (!rc && known) {
        rc = m.gauge || m.shape == SUMMARY ? 0 : read_kind(&m);
        if (m.shape != NUMBER) m.monotonic = 0;
        otlp_name(t->name, name.len ? name.data : "", unit.len ? unit.data : "", m.monotonic != 0,
                  m.gauge, &t->unit);
        if (!rc) rc = take_data(t, &m);
    }
    otlp_labels_cut(&t->labels, t->common, t->common_text);
    sonde_buf_release(&name);
    sonde_buf_release(&unit);
    return rc;
}
