/* json.c - see json.h. */
#include "serve/api/json.h"

#include "base/array.h"
#include "model/window.h"

void sonde_json_labels(struct sonde_buf *out, const struct sonde_model_series *s)
{
    sonde_json_key_open(out, "labels", '{');
    for (size_t i = 0; i < s->label_count; i++) {
        sonde_json_str(out, s->labels[i].name, s->labels[i].value);
    }
    sonde_json_close(out, '}');
}

void sonde_json_value(struct sonde_buf *out, const struct sonde_model_series *s)
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

void sonde_json_stats(struct sonde_buf *out, const struct sonde_model *m,
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
