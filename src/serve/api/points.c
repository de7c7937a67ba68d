/* points.c - the step that has just ended, of every series: what /api/query?step= answers of it,
 * from the model's own history, so that live charts cost no query. */
#include <assert.h>
#include <math.h>

#include "base/json.h"
#include "model/window.h"
#include "serve/api/api.h"
#include "serve/api/store.h"
#include "serve/export/json.h"

/* As the store has it: see store/sqlite/query.c. */
static int point_of(const struct sonde_model *m, const struct sonde_model_series *s, double from_s,
                    double to_s, struct sonde_store_point *out)
{
    struct sonde_window w;
    sonde_window_between(m, s, from_s, to_s, &w);
    if (!(w.count > 0)) return 0;
    *out = (struct sonde_store_point){
        .time_s = from_s, .seconds = w.seconds, .count = w.count, .sum = w.total, .min = w.min,
        .max = w.max, .last = w.last, .p50 = w.p50, .p90 = w.p90, .p95 = w.p95, .p99 = w.p99,
    };
    if (s->family->type != SONDE_COUNTER) return 1;
    /* As of the last tick: what was recorded since then is of the next. Less what came after the
     * step. */
    out->last = s->real ? s->real_prev : sonde_family_value(s->family, s->counter_prev);
    for (uint32_t age = 0; age < s->history_count && sonde_model_tick_end(m, age) >= to_s; age++) {
        out->last -= s->history[(m->tick - 1 - age) % SONDE_HISTORY];
    }
    return 1;
}

static void api_points_put_series(const struct sonde_model_series *s,
                                  const struct sonde_store_point *p, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "name", s->family->name);
    sonde_json_str(out, "type", sonde_type_name(s->family->type));
    sonde_json_str(out, "unit", s->family->unit);
    sonde_export_json_labels(out, s);
    sonde_api_put_process(out, s->process);
    sonde_json_key(out, "point");
    sonde_api_put_point(out, p, s->family->type);
    sonde_json_close(out, '}');
}

int sonde_api_points(const struct sonde_model *m, const struct sonde_api_query *q, double step_s,
                     struct sonde_buf *out)
{
    sonde_assert_held(&m->lock);
    assert(step_s > 0);
    if (m->tick < 2) return 0;
    const double before_s = floor(sonde_model_tick_end(m, 1) / step_s) * step_s;
    if (!(m->now_s >= before_s + step_s)) return 0;
    const size_t limit = q->limit ? q->limit : 1000;
    size_t put = 0;
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", before_s);
    sonde_json_num(out, "step_s", step_s);
    sonde_json_key_open(out, "series", '[');
    for (size_t i = 0; i < m->family_count && put < limit && !out->error; i++) {
        const struct sonde_model_family *f = m->families[i];
        for (size_t k = 0; k < f->series_count && put < limit; k++) {
            struct sonde_store_point p;
            if (!sonde_api_query_passes(q, f->series[k]) ||
                !point_of(m, f->series[k], before_s, before_s + step_s, &p)) {
                continue;
            }
            api_points_put_series(f->series[k], &p, out);
            put++;
        }
    }
    sonde_buf_puts(out, "]}\n");
    return 1;
}
