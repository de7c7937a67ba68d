/* csv.c - one row a series, for spreadsheets and data frames; RFC 4180.
 *
 * name,type,kind,unit,source,label_<name>…,value,count,sum,avg,min,max,p50,p90,p95,p99,rate
 *
 * A column for each label name that any of the series has, in alphabetical order. Histograms:
 * value and count are the number of records, and count … p99 are of all that was ever recorded,
 * since most people export once, after the fact. Counters and gauges: count … p99 are of the last
 * minute's ticks (a counter's increase per second). rate is always of the last minute. What
 * cannot be known is an empty field. */
#include <math.h>
#include <string.h>

#include "model/window.h"
#include "base/alloc.h"
#include "base/array.h"
#include "serve/export/export.h"

#define WINDOW_S 60.0

struct columns {
    const char **name;  /* borrowed from the series; ascending */
    size_t count, cap;
};

/* Where name is or has to go. */
static size_t column_find(const struct columns *c, const char *name, int *found)
{
    size_t low = 0, high = c->count;
    *found = 0;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const int order = strcmp(c->name[mid], name);
        if (order == 0) {
            *found = 1;
            return mid;
        }
        if (order < 0) low = mid + 1;
        else high = mid;
    }
    return low;
}

static int column_add(struct columns *c, const char *name)
{
    int found;
    const size_t at = column_find(c, name, &found);
    if (found) return 0;
    if (SONDE_ARRAY_ROOM(c->name, c->count, c->cap)) return SONDE_ENOMEM;
    memmove(c->name + at + 1, c->name + at, (c->count - at) * sizeof(*c->name));
    c->name[at] = name;
    c->count++;
    return 0;
}

static int columns_of(const struct sonde_model *m, const struct sonde_filter *f,
                      struct columns *c)
{
    for (size_t i = 0; i < m->family_count; i++) {
        const struct sonde_model_family *family = m->families[i];
        for (size_t k = 0; k < family->series_count; k++) {
            const struct sonde_model_series *s = family->series[k];
            if (f && !sonde_filter_series(f, s)) continue;
            for (size_t l = 0; l < s->label_count; l++) {
                const int rc = column_add(c, s->labels[l].name);
                if (rc) return rc;
            }
        }
    }
    return 0;
}

/* A field, in quotes if it needs them. */
static void export_csv_put_text(struct sonde_buf *out, const char *text)
{
    const size_t len = strlen(text);
    if (!strpbrk(text, "\",\r\n")) {
        sonde_buf_add(out, text, len);
        return;
    }
    sonde_buf_putc(out, '"');
    for (const char *p = text; *p;) {
        const size_t plain = strcspn(p, "\"");
        sonde_buf_add(out, p, plain);
        p += plain;
        if (*p == '"') {
            sonde_buf_add(out, "\"\"", 2);
            p++;
        }
    }
    sonde_buf_putc(out, '"');
}

static void export_csv_put_number(struct sonde_buf *out, double v)
{
    sonde_buf_putc(out, ',');
    if (!isnan(v)) sonde_buf_double(out, v);
}

static void export_csv_put_value(struct sonde_buf *out, const struct sonde_model_series *s)
{
    sonde_buf_putc(out, ',');
    switch (s->family->type) {
    case SONDE_COUNTER:
        if (s->family->scale == 1 && !s->real) sonde_buf_u64(out, s->counter);
        else sonde_buf_double(out, sonde_model_series_total(s));
        break;
    case SONDE_GAUGE: sonde_buf_double(out, s->gauge); break;
    case SONDE_HISTOGRAM: sonde_buf_u64(out, s->hist ? s->hist->count : 0); break;
    }
}

static void hist_range(const struct sonde_hist_value *h, double scale, double *min, double *max)
{
    *min = *max = h->zero ? 0 : NAN;
    for (uint32_t p = 0; p < SONDE__HIST_BUCKETS; p++) {
        const uint64_t *counts = h->octave[p / 64];
        if (!counts) {
            p |= 63;
            continue;
        }
        if (!counts[p % 64]) continue;
        *max = sonde__hist_middle(p, scale);
        if (isnan(*min)) *min = *max;
    }
}

static void put_hist_stats(struct sonde_buf *out, const struct sonde_model_series *s)
{
    const struct sonde_hist_value *h = s->hist;
    if (!h || !h->count) {
        sonde_buf_puts(out, ",0,0,,,,,,,");
        return;
    }
    static const double quantiles[] = { 0.5, 0.9, 0.95, 0.99 };
    const double sum = sonde_model_series_sum(s);
    double min, max;
    hist_range(h, s->family->scale, &min, &max);
    sonde_buf_putc(out, ',');
    sonde_buf_u64(out, h->count);
    export_csv_put_number(out, sum);
    export_csv_put_number(out, sum / (double)h->count);
    export_csv_put_number(out, min);
    export_csv_put_number(out, max);
    for (size_t i = 0; i < SONDE_COUNT(quantiles); i++) {
        export_csv_put_number(out,
                              sonde_quantile(quantiles[i], h->zero,
                                             (const uint64_t *const *)h->octave, s->family->scale));
    }
}

static void export_csv_put_series(struct sonde_buf *out, const struct sonde_model *m,
                                  const struct sonde_model_series *s, const struct columns *c,
                                  const char **row)
{
    const struct sonde_model_family *f = s->family;
    const char *const head[] = { f->name, sonde_type_name(f->type), sonde_kind_name(f->kind),
                                 f->unit, f->source };
    for (size_t i = 0; i < SONDE_COUNT(head); i++) {
        if (i) sonde_buf_putc(out, ',');
        export_csv_put_text(out, head[i]);
    }
    memset(row, 0, c->count * sizeof(*row));
    for (size_t i = 0; i < s->label_count; i++) {
        int found;
        row[column_find(c, s->labels[i].name, &found)] = s->labels[i].value;
    }
    for (size_t i = 0; i < c->count; i++) {
        sonde_buf_putc(out, ',');
        if (row[i]) export_csv_put_text(out, row[i]);
    }
    export_csv_put_value(out, s);
    struct sonde_window w;
    sonde_window_stats(m, s, WINDOW_S, &w);
    if (f->type == SONDE_HISTOGRAM) {
        put_hist_stats(out, s);
    } else {
        const double stats[] = { w.count, w.total, w.avg, w.min, w.max, w.p50, w.p90, w.p95,
                                 w.p99 };
        for (size_t i = 0; i < SONDE_COUNT(stats); i++) {
            export_csv_put_number(out, stats[i]);
        }
    }
    export_csv_put_number(out, w.rate);
    sonde_buf_puts(out, "\r\n");
}

static void export_csv_render(const struct sonde_model *m, const struct sonde_filter *f,
                              struct sonde_buf *out)
{
    if (m->shared) sonde_assert_held(&m->lock);
    struct columns c = { 0 };
    const int rc = columns_of(m, f, &c);
    const char **row = rc ? NULL : sonde__alloc((c.count + 1) * sizeof(*row));
    if (!row) {
        if (!out->error) out->error = SONDE_ENOMEM;
        sonde__free(c.name);
        return;
    }
    sonde_buf_puts(out, "name,type,kind,unit,source");
    for (size_t i = 0; i < c.count; i++) {
        sonde_buf_puts(out, ",label_");
        export_csv_put_text(out, c.name[i]);
    }
    sonde_buf_puts(out, ",value,count,sum,avg,min,max,p50,p90,p95,p99,rate\r\n");
    for (size_t i = 0; i < m->family_count; i++) {
        for (size_t k = 0; k < m->families[i]->series_count && !out->error; k++) {
            const struct sonde_model_series *s = m->families[i]->series[k];
            if (!f || sonde_filter_series(f, s)) export_csv_put_series(out, m, s, &c, row);
        }
    }
    sonde__free(row);
    sonde__free(c.name);
}

extern const struct sonde_export_ops sonde_export_csv;
const struct sonde_export_ops sonde_export_csv = {
    .name = "csv",
    .summary = "CSV (RFC 4180), one row a series",
    .content_type = "text/csv; charset=utf-8; header=present",
    .render = export_csv_render,
};
