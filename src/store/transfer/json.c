/* json.c - series as JSON:
 *
 * {"format":"sonde-series","version":1,"series":[
 * {"name","type","kind","unit","help","source","labels":{},"program","pid","scale","points":[…]},
 * …
 * ]}
 *
 * A point of a counter is [time in ms, total] and, where it does not go on from the one before,
 * "zero" or "base" (transfer.h); of a gauge [time, value]; of a histogram what was added, [time,
 * zeros, sum, [[bucket, count], …]]. Totals, sums and times are whole numbers, to be multiplied by
 * scale; those above 2^53, which many readers of JSON would round, are texts, and so are "NaN",
 * "+Inf" and "-Inf". */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "sonde/sonde.h"
#include "store/transfer/transfer.h"

enum { LABELS_MAX = 64 };

/* ---- Writing --------------------------------------------------------------------------------- */

static void transfer_json_put_u64(struct sonde_buf *out, uint64_t v)
{
    const int quote = v > 1ull << 53;
    if (quote) sonde_buf_putc(out, '"');
    sonde_buf_u64(out, v);
    if (quote) sonde_buf_putc(out, '"');
}

/* Sums of histograms may have a sign. */
static void put_i64(struct sonde_buf *out, int64_t v)
{
    const int quote = v > 1ll << 53 || v < -(1ll << 53);
    sonde_buf_printf(out, quote ? "\"%lld\"" : "%lld", (long long)v);
}

static void put_double(struct sonde_buf *out, double v)
{
    if (isfinite(v)) {
        sonde_buf_double(out, v);
        /* -0 would be read as a whole 0 */
        if (!(v < 0 || v > 0) && signbit(v)) sonde_buf_puts(out, ".0");
        return;
    }
    sonde_buf_putc(out, '"');
    sonde_buf_double(out, v);
    sonde_buf_putc(out, '"');
}

static void transfer_json_put_point(struct sonde_buf *out, const struct sonde_transfer_series *s,
                                    const struct sonde_transfer_point *p, int first)
{
    sonde_buf_printf(out, "[%lld,", (long long)p->time_ms);
    if (s->spec.type == SONDE_COUNTER) {
        transfer_json_put_u64(out, p->value);
        if (p->start == SONDE_START_ZERO) sonde_buf_puts(out, ",\"zero\"");
        else if (p->start == SONDE_START_BASE && !first) sonde_buf_puts(out, ",\"base\"");
    } else if (s->spec.type == SONDE_GAUGE) {
        put_double(out, sonde_transfer_double(p->value));
    } else {
        transfer_json_put_u64(out, p->zero);
        sonde_buf_putc(out, ',');
        put_i64(out, (int64_t)p->sum_raw);
        sonde_buf_puts(out, ",[");
        for (uint32_t i = 0; i < p->count; i++) {
            const struct sonde_transfer_bucket *b = &s->bucket[p->first + i];
            sonde_buf_printf(out, "%s[%u,", i ? "," : "", b->p);
            transfer_json_put_u64(out, b->n);
            sonde_buf_putc(out, ']');
        }
        sonde_buf_putc(out, ']');
    }
    sonde_buf_putc(out, ']');
}

static void transfer_json_put_labels(struct sonde_buf *out, const char *labels)
{
    struct sonde_label l[LABELS_MAX];
    char *text = sonde__strdup(labels);
    const int n = text ? sonde_store_labels(text, l, LABELS_MAX) : -1;
    if (!text && !out->error) out->error = SONDE_ENOMEM;
    sonde_json_key_open(out, "labels", '{');
    for (int i = 0; i < n; i++) sonde_json_str(out, l[i].name, l[i].value);
    sonde_json_close(out, '}');
    sonde__free(text);
}

void sonde_transfer_json_write(struct sonde_transfer_writer *w,
                               const struct sonde_transfer_series *s)
{
    struct sonde_buf *out = w->out;
    sonde_buf_puts(out, w->series++ ? ",\n{" : "\n{");
    sonde_json_str(out, "name", s->spec.name);
    sonde_json_str(out, "type", sonde_type_name(s->spec.type));
    sonde_json_str(out, "kind", sonde_kind_name(s->spec.kind));
    sonde_json_str(out, "unit", s->spec.unit);
    sonde_json_str(out, "help", s->spec.help);
    sonde_json_str(out, "source", s->spec.source);
    transfer_json_put_labels(out, s->spec.labels);
    sonde_json_str(out, "program", s->spec.program);
    sonde_json_u64(out, "pid", s->spec.pid);
    sonde_json_num(out, "scale", s->spec.scale);
    sonde_json_key_open(out, "points", '[');
    for (size_t i = 0; i < s->count; i++) {
        if (i) sonde_buf_putc(out, ',');
        transfer_json_put_point(out, s, &s->point[i], i == 0);
    }
    sonde_buf_puts(out, "]}");
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct transfer_json_reader {
    struct sonde_transfer *x;
    struct sonde_err *err;
    size_t nth;      /* series */
    size_t point;
};

static int transfer_json_bad(const struct transfer_json_reader *r, const char *what)
{
    if (r->point) {
        return sonde_err_set(r->err, SONDE_EFORMAT, "series %zu, point %zu: %s", r->nth,
                             r->point, what);
    }
    return sonde_err_set(r->err, SONDE_EFORMAT, "series %zu: %s", r->nth, what);
}

static int transfer_json_whole(const json_t *v, int is_signed, uint64_t *out)
{
    if (json_is_integer(v)) {
        if (!is_signed && json_integer_value(v) < 0) return -1;
        *out = (uint64_t)json_integer_value(v);
        return 0;
    }
    const char *text = json_string_value(v);
    if (!text || !*text || text[strspn(text, "-0123456789")]) return -1;
    char *end;
    errno = 0;
    *out = is_signed ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
    return errno || *end || (!is_signed && *text == '-') ? -1 : 0;
}

static int transfer_json_number(const json_t *v, double *out)
{
    const char *text = json_string_value(v);
    if (json_is_number(v)) *out = json_number_value(v);
    else if (text && !strcmp(text, "NaN")) *out = NAN;
    else if (text && !strcmp(text, "+Inf")) *out = INFINITY;
    else if (text && !strcmp(text, "-Inf")) *out = -INFINITY;
    else return -1;
    return 0;
}

static int read_counter(struct transfer_json_reader *r, const json_t *v, int first,
                        struct sonde_transfer_point *p)
{
    const char *start = json_string_value(json_array_get(v, 2));
    if (transfer_json_whole(json_array_get(v, 1), 0, &p->value)) {
        return transfer_json_bad(r, "a counter's total must be a whole number");
    }
    p->start = first ? SONDE_START_BASE : SONDE_START_NONE;
    if (json_array_size(v) < 3) return 0;
    if (start && !strcmp(start, "zero")) p->start = SONDE_START_ZERO;
    else if (start && !strcmp(start, "base")) p->start = SONDE_START_BASE;
    else return transfer_json_bad(r, "a counter's third may be \"zero\" or \"base\"");
    return 0;
}

static int read_hist(struct transfer_json_reader *r, const json_t *v,
                     struct sonde_transfer_series *s, struct sonde_transfer_point *p)
{
    json_t *buckets = json_array_get(v, 3), *b;
    size_t i;
    uint64_t before = 0;
    if (transfer_json_whole(json_array_get(v, 1), 0, &p->zero) ||
        transfer_json_whole(json_array_get(v, 2), 1, &p->sum_raw) || !json_is_array(buckets)) {
        return transfer_json_bad(r,
                                 "a histogram's point is [time, zeros, sum, [[bucket, count], …]]");
    }
    p->first = (uint32_t)s->bucket_count;
    json_array_foreach(buckets, i, b)
    {
        uint64_t at, n;
        if (transfer_json_whole(json_array_get(b, 0), 0, &at) ||
            transfer_json_whole(json_array_get(b, 1), 0, &n) || at >= SONDE__HIST_BUCKETS ||
            (i && at <= before)) {
            return transfer_json_bad(r, "buckets are [0 to 6143, count], ascending");
        }
        before = at;
        if (sonde_transfer_bucket(s, (uint16_t)at, n)) return SONDE_ENOMEM;
        p->count++;
    }
    return 0;
}

static int transfer_json_read_point(struct transfer_json_reader *r, const json_t *v,
                                    struct sonde_transfer_series *s)
{
    struct sonde_transfer_point p = { 0 };
    uint64_t time_ms;
    double d;
    int rc = 0;
    if (!json_is_array(v) || transfer_json_whole(json_array_get(v, 0), 1, &time_ms)) {
        return transfer_json_bad(r,
                                 "a point is an array that begins with the time in milliseconds");
    }
    p.time_ms = (int64_t)time_ms;
    if (s->spec.type == SONDE_COUNTER) rc = read_counter(r, v, s->count == 0, &p);
    else if (s->spec.type == SONDE_HISTOGRAM) rc = read_hist(r, v, s, &p);
    else if (transfer_json_number(json_array_get(v, 1), &d))
        rc = transfer_json_bad(r, "a gauge's value must be a number");
    else p.value = sonde_transfer_bits(d);
    return rc ? rc : sonde_transfer_point(s, &p);
}

static const char *transfer_json_text_of(const json_t *o, const char *key)
{
    const char *t = json_string_value(json_object_get(o, key));
    return t ? t : "";
}

/* `a="b",c="d"`, escaped. */
static void labels_text(json_t *labels, struct sonde_buf *out)
{
    const char *name;
    json_t *value;
    json_object_foreach(labels, name, value)
    {
        const char *v = json_string_value(value);
        if (out->len) sonde_buf_putc(out, ',');
        sonde_buf_printf(out, "%s=\"", name);
        for (; v && *v; v++) {
            if (*v == '\\' || *v == '"' || *v == '\n') sonde_buf_putc(out, '\\');
            sonde_buf_putc(out, *v == '\n' ? 'n' : *v);
        }
        sonde_buf_putc(out, '"');
    }
}

static int read_series(struct transfer_json_reader *r, json_t *v)
{
    const int type = sonde_transfer_type(transfer_json_text_of(v, "type"));
    const char *kind = json_string_value(json_object_get(v, "kind"));
    struct sonde_buf labels;
    json_t *points = json_object_get(v, "points"), *p, *scale = json_object_get(v, "scale");
    r->point = 0;
    if (!*transfer_json_text_of(v, "name")) return transfer_json_bad(r, "it has no name");
    if (type < 0) return transfer_json_bad(r, "its type is not counter, gauge or histogram");
    if (kind && sonde_transfer_kind(kind) < 0) {
        return transfer_json_bad(r, "its kind is none that there is");
    }
    if (scale && !(json_number_value(scale) > 0)) {
        return transfer_json_bad(r, "its scale is not above 0");
    }
    if (!json_is_array(points)) return transfer_json_bad(r, "it has no points");
    sonde_buf_init(&labels, 1 << 20);
    labels_text(json_object_get(v, "labels"), &labels);
    const struct sonde_store_series spec = {
        .name = transfer_json_text_of(v, "name"),
        .help = transfer_json_text_of(v, "help"),
        .unit = transfer_json_text_of(v, "unit"),
        .source = transfer_json_text_of(v, "source"),
        .labels = labels.len ? labels.data : "",
        .program = transfer_json_text_of(v, "program"),
        .pid = (uint32_t)json_integer_value(json_object_get(v, "pid")),
        .type = (enum sonde_type)type,
        .kind = (enum sonde_kind)(kind ? sonde_transfer_kind(kind) : 0),
        .scale = scale ? json_number_value(scale) : 1,
    };
    struct sonde_transfer_series *s = labels.error ? NULL : sonde_transfer_add(r->x, &spec);
    sonde_buf_release(&labels);
    if (!s) return SONDE_ENOMEM;
    size_t i;
    json_array_foreach(points, i, p)
    {
        r->point = i + 1;
        const int rc = transfer_json_read_point(r, p, s);
        if (rc) return rc;
    }
    return 0;
}

int sonde_transfer_json_read(const char *text, size_t len, struct sonde_transfer *x,
                             struct sonde_err *err)
{
    json_error_t problem;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &problem), *series, *v;
    struct transfer_json_reader r = { .x = x, .err = err };
    int rc = 0;
    if (!root) {
        return sonde_err_set(err, SONDE_EFORMAT, "line %d: not valid JSON: %s", problem.line,
                             problem.text);
    }
    series = json_object_get(root, "series");
    if (strcmp(transfer_json_text_of(root, "format"), "sonde-series") != 0 ||
        !json_is_array(series)) {
        rc = sonde_err_set(err, SONDE_EFORMAT, "not series as an export in the format json has "
                                               "them (\"format\": \"sonde-series\")");
    } else if (json_integer_value(json_object_get(root, "version")) != 1) {
        rc = sonde_err_set(err, SONDE_EVERSION, "written by a later version of sonde");
    } else {
        size_t i;
        json_array_foreach(series, i, v)
        {
            r.nth = i + 1;
            rc = read_series(&r, v);
            if (rc) break;
        }
    }
    json_decref(root);
    return rc == SONDE_ENOMEM ? sonde_err_set(err, rc, "no memory for what is imported") : rc;
}
