/* json.c - everything the model knows of its series, as one JSON object:
 *
 * {"time","interval_s","window_s",
 *  "families":[{"name","type","kind","unit","help","source","scale","series":[{
 *     "labels":{},"process","pid","created","value",
 *     counter    "raw"                      the recorded integer; value = raw * scale. Not there
 *                                           where others count (collect/ingest/ingest.h)
 *     histogram  "sum","zero","buckets":[[upper bound,count],…],
 *                "exemplars":[{"value","trace_id","time"}]
 *     "window":{"count","total","avg",…}}]}]}
 *
 * Buckets are all that are not empty; one reaches from its upper bound / 2^(1/64) to it. Numbers
 * read back as the same double. */
#include "serve/export/json.h"

#include "base/array.h"
#include "model/window.h"
#include "serve/export/export.h"

#define WINDOW_S 60.0

/* ---- What all JSON has of a series ----------------------------------------------------------- */

void sonde_export_json_labels(struct sonde_buf *out, const struct sonde_model_series *s)
{
    sonde_json_key_open(out, "labels", '{');
    for (size_t i = 0; i < s->label_count; i++) {
        sonde_json_str(out, s->labels[i].name, s->labels[i].value);
    }
    sonde_json_close(out, '}');
}

void sonde_export_json_value(struct sonde_buf *out, const struct sonde_model_series *s)
{
    switch (s->family->type) {
    case SONDE_COUNTER:
        if (s->family->scale == 1 && !s->real) sonde_json_u64(out, "value", s->counter);
        else sonde_json_num(out, "value", sonde_model_series_total(s));
        break;
    case SONDE_GAUGE: sonde_json_num(out, "value", s->gauge); break;
    case SONDE_HISTOGRAM: sonde_json_u64(out, "value", s->hist ? s->hist->count : 0); break;
    }
}

void sonde_export_json_stats(struct sonde_buf *out, const struct sonde_model *m,
                             const struct sonde_model_series *s, double window_s)
{
    struct sonde_window w;
    sonde_window_stats(m, s, window_s, &w);
    const struct { const char *key; double value; } rows[] = {
        { "count", w.count }, { "total", w.total },   { "avg", w.avg },    { "min", w.min },
        { "max", w.max },     { "stddev", w.stddev }, { "last", w.last },  { "median", w.p50 },
        { "p50", w.p50 },     { "p90", w.p90 },       { "p95", w.p95 },    { "p99", w.p99 },
        { "rate", w.rate },
    };
    for (size_t i = 0; i < SONDE_COUNT(rows); i++) {
        sonde_json_num(out, rows[i].key, rows[i].value);
    }
    sonde_json_str(out, "trend", sonde_trend_name(w.trend));
    sonde_json_num(out, "trend_per_s", w.trend_per_s);
}

/* ---- The export ------------------------------------------------------------------------------ */

static void export_json_put_buckets(struct sonde_buf *out, const struct sonde_hist_value *h)
{
    sonde_json_key_open(out, "buckets", '[');
    for (uint32_t p = 0; h && p < SONDE__HIST_BUCKETS; p++) {
        const uint64_t *counts = h->octave[p / 64];
        if (!counts) {
            p |= 63;
            continue;
        }
        if (!counts[p % 64]) continue;
        sonde_json_open(out, '[');
        sonde_buf_json_double(out, sonde__hist_upper(p));
        sonde_buf_putc(out, ',');
        sonde_buf_u64(out, counts[p % 64]);
        sonde_json_close(out, ']');
    }
    sonde_json_close(out, ']');
}

static void export_json_put_histogram(struct sonde_buf *out, const struct sonde_model_series *s)
{
    const struct sonde_hist_value *h = s->hist;
    sonde_json_num(out, "sum", sonde_model_series_sum(s));
    sonde_json_u64(out, "zero", h ? h->zero : 0);
    export_json_put_buckets(out, h);
    sonde_json_key_open(out, "exemplars", '[');
    for (size_t i = 0; i < s->exemplar_count; i++) {
        const struct sonde_exemplar *e = &s->exemplar[i];
        sonde_json_open(out, '{');
        sonde_json_num(out, "value", e->value);
        sonde_json_id(out, "trace_id", (const uint64_t[]){ e->trace_hi, e->trace_lo }, 2);
        sonde_json_time(out, "time", e->time_s);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void export_json_put_series(struct sonde_buf *out, const struct sonde_model *m,
                                   const struct sonde_model_series *s)
{
    sonde_json_open(out, '{');
    sonde_export_json_labels(out, s);
    if (s->process) {
        sonde_json_str(out, "process", s->process->program);
        sonde_json_u64(out, "pid", s->process->pid);
    }
    sonde_json_time(out, "created", s->created_s);
    sonde_export_json_value(out, s);
    if (s->family->type == SONDE_COUNTER && !s->real) sonde_json_u64(out, "raw", s->counter);
    if (s->family->type == SONDE_HISTOGRAM) export_json_put_histogram(out, s);
    sonde_json_key_open(out, "window", '{');
    sonde_export_json_stats(out, m, s, WINDOW_S);
    sonde_json_close(out, '}');
    sonde_json_close(out, '}');
}

static void export_json_put_family(struct sonde_buf *out, const struct sonde_model *m,
                                   const struct sonde_model_family *family,
                                   const struct sonde_filter *f)
{
    int head = 0;
    for (size_t i = 0; i < family->series_count && !out->error; i++) {
        if (f && !sonde_filter_series(f, family->series[i])) continue;
        if (!head) {
            head = 1;
            sonde_json_open(out, '{');
            sonde_json_str(out, "name", family->name);
            sonde_json_str(out, "type", sonde_type_name(family->type));
            sonde_json_str(out, "kind", sonde_kind_name(family->kind));
            sonde_json_str(out, "unit", family->unit);
            sonde_json_str(out, "help", family->help);
            sonde_json_str(out, "source", family->source);
            sonde_json_num(out, "scale", family->scale);
            sonde_json_key_open(out, "series", '[');
        }
        export_json_put_series(out, m, family->series[i]);
    }
    if (!head) return;
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}

static void export_json_render(const struct sonde_model *m, const struct sonde_filter *f,
                               struct sonde_buf *out)
{
    if (m->shared) sonde_assert_held(&m->lock);
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", m->now_s);
    sonde_json_num(out, "interval_s", m->interval_s);
    sonde_json_num(out, "window_s", WINDOW_S);
    sonde_json_key_open(out, "families", '[');
    for (size_t i = 0; i < m->family_count && !out->error; i++) {
        if (f && !sonde_filter_family(f, m->families[i])) continue;
        export_json_put_family(out, m, m->families[i], f);
    }
    sonde_buf_puts(out, "]}\n");
}

extern const struct sonde_export_ops sonde_export_json;
const struct sonde_export_ops sonde_export_json = {
    .name = "json",
    .summary = "JSON with all buckets and statistics of the last minute",
    .content_type = "application/json",
    .render = export_json_render,
};
