/* api.c - see api.h. */
#include "serve/api/api.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "serve/export/json.h"

enum { SERIES_DEFAULT = 1000 };
#define WINDOW_DEFAULT_S 60.0

/* Families of the process probe. */
#define CPU_RATIO "sonde_process_cpu_utilization_ratio"
#define RSS_BYTES "sonde_process_resident_memory_bytes"
#define HEAP_BYTES "sonde_heap_live_bytes"

static void put_family_head(struct sonde_buf *out, const struct sonde_model_family *family)
{
    sonde_json_str(out, "name", family->name);
    sonde_json_str(out, "type", sonde_type_name(family->type));
    sonde_json_str(out, "kind", sonde_kind_name(family->kind));
    sonde_json_str(out, "unit", family->unit);
}

/* ---- Series ------------------------------------------------------------------------------- */

void sonde_api_series(const struct sonde_model *m, const struct sonde_filter *f, size_t limit,
                      struct sonde_buf *out)
{
    sonde_assert_held(&m->lock);
    size_t shown = 0;
    if (!limit) limit = SERIES_DEFAULT;
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", m->now_s);
    sonde_json_key_open(out, "families", '[');
    for (size_t i = 0; i < m->family_count && shown < limit && !out->error; i++) {
        const struct sonde_model_family *family = m->families[i];
        int head = 0;
        if (!sonde_filter_family(f, family)) continue;
        for (size_t k = 0; k < family->series_count && shown < limit; k++) {
            if (!sonde_filter_series(f, family->series[k])) continue;
            if (!head) {
                head = 1;
                sonde_json_open(out, '{');
                put_family_head(out, family);
                sonde_json_str(out, "help", family->help);
                sonde_json_str(out, "source", family->source);
                sonde_json_key_open(out, "series", '[');
            }
            sonde_json_open(out, '{');
            sonde_export_json_labels(out, family->series[k]);
            sonde_json_close(out, '}');
            shown++;
        }
        if (!head) continue;
        sonde_json_close(out, ']');
        sonde_json_close(out, '}');
    }
    sonde_buf_puts(out, "]}\n");
}

/* ---- Query -------------------------------------------------------------------------------- */

static int api_in_range(double t, double from_s, double to_s)
{
    return !(from_s > 0 && t < from_s) && !(to_s > 0 && t > to_s);
}

/* [time, value], newest first. Value: what window statistics call a tick's: a counter's increase
 * per second, a gauge's value, a histogram's records per second. */
static void api_put_history(const struct sonde_model *m, const struct sonde_model_series *s,
                            const struct sonde_api_query *q, struct sonde_buf *out)
{
    size_t put = 0;
    sonde_json_key_open(out, "history", '[');
    for (uint32_t age = 0; age < s->history_count && age < m->tick && put < q->history; age++) {
        const double t = sonde_model_tick_end(m, age);
        const size_t at = (size_t)((m->tick - 1 - age) % SONDE_HISTORY);
        const double length = sonde_model_tick_len(m, age);
        double v;
        if (!api_in_range(t, q->from_s, q->to_s)) continue;
        if (s->family->type == SONDE_HISTOGRAM) {
            v = s->history_hist ? (double)s->history_hist[at].count / length : 0;
        } else if (!s->history) {
            break;
        } else {
            v = s->family->type == SONDE_COUNTER ? s->history[at] / length : s->history[at];
        }
        sonde_json_open(out, '[');
        sonde_buf_json_double(out, t);
        sonde_buf_putc(out, ',');
        sonde_buf_json_double(out, v);
        sonde_json_close(out, ']');
        put++;
    }
    sonde_json_close(out, ']');
}

void sonde_api_put_process(struct sonde_buf *out, const struct sonde_model_process *p)
{
    sonde_json_str(out, "process", p ? p->program : NULL);
    sonde_json_u64_or_null(out, "pid", p ? p->pid : 0);
}

static void api_put_series(const struct sonde_model *m, const struct sonde_model_series *s,
                           const struct sonde_api_query *q, double window_s, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    put_family_head(out, s->family);
    sonde_json_str(out, "source", s->family->source);
    sonde_export_json_labels(out, s);
    sonde_api_put_process(out, s->process);
    sonde_export_json_value(out, s);
    sonde_export_json_stats(out, m, s, window_s);
    if (q->history) api_put_history(m, s, q, out);
    sonde_json_close(out, '}');
}

static int family_passes(const struct sonde_api_query *q, const struct sonde_model_family *f)
{
    for (size_t i = 0; i < q->filter_count; i++) {
        if (!sonde_filter_family(&q->filters[i], f)) return 0;
    }
    return 1;
}

int sonde_api_query_passes(const struct sonde_api_query *q, const struct sonde_model_series *s)
{
    for (size_t i = 0; i < q->filter_count; i++) {
        if (!sonde_filter_series(&q->filters[i], s)) return 0;
    }
    return 1;
}

void sonde_api_query(const struct sonde_model *m, const struct sonde_api_query *q,
                     struct sonde_buf *out)
{
    sonde_assert_held(&m->lock);
    const size_t limit = q->limit ? q->limit : SERIES_DEFAULT;
    const double window_s = q->window_s > 0 ? q->window_s : WINDOW_DEFAULT_S;
    size_t total = 0;
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", m->now_s);
    sonde_json_num(out, "interval_s", m->interval_s);
    sonde_json_num(out, "window_s", window_s);
    sonde_json_key_open(out, "series", '[');
    for (size_t i = 0; i < m->family_count && !out->error; i++) {
        const struct sonde_model_family *family = m->families[i];
        if (!family_passes(q, family)) continue;
        for (size_t k = 0; k < family->series_count; k++) {
            if (!sonde_api_query_passes(q, family->series[k])) continue;
            if (total++ < limit) api_put_series(m, family->series[k], q, window_s, out);
        }
    }
    sonde_json_close(out, ']');
    sonde_json_u64(out, "total", total);
    sonde_json_bool(out, "truncated", total > limit);
    sonde_buf_puts(out, "}\n");
}

/* ---- Processes ---------------------------------------------------------------------------- */

/* A figure the process probe keeps of p; NaN without one. */
static double api_probed(const struct sonde_model *m, const char *name,
                         const struct sonde_model_process *p)
{
    for (size_t i = 0; i < m->family_count; i++) {
        const struct sonde_model_family *f = m->families[i];
        if (f->type != SONDE_GAUGE || strcmp(f->name, name) != 0) continue;
        for (size_t k = 0; k < f->series_count; k++) {
            if (f->series[k]->process == p) return f->series[k]->gauge;
        }
    }
    return NAN;
}

void sonde_api_processes(const struct sonde_model *m, struct sonde_buf *out)
{
    sonde_assert_held(&m->lock);
    static const char *const drops[] = {
#define SONDE__X(name, text) #name,
        SONDE__DROPS(SONDE__X)
#undef SONDE__X
    };
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", m->now_s);
    sonde_json_key_open(out, "processes", '[');
    for (size_t i = 0; i < m->process_count; i++) {
        const struct sonde_model_process *p = m->processes[i];
        const int running = p->state == SONDE_PROCESS_RUNNING;
        sonde_json_open(out, '{');
        sonde_json_u64(out, "pid", p->pid);
        sonde_json_str(out, "program", p->program);
        sonde_json_str(out, "state", sonde_process_state_name(p->state));
        sonde_json_time(out, "ended", p->ended_s);
        sonde_json_u64(out, "segment_bytes", p->segment_bytes);
        sonde_json_u64(out, "lanes", p->lanes);
        sonde_json_u64(out, "threads", p->threads);
        sonde_json_num(out, "cpu_ratio", running ? api_probed(m, CPU_RATIO, p) : NAN);
        sonde_json_num(out, "rss_bytes", running ? api_probed(m, RSS_BYTES, p) : NAN);
        sonde_json_num(out, "heap_bytes", running ? api_probed(m, HEAP_BYTES, p) : NAN);
        sonde_json_key_open(out, "drops", '{');
        for (size_t d = 0; d < SONDE__DROP_COUNT; d++) {
            sonde_json_u64(out, drops[d], p->drops[d]);
        }
        sonde_json_close(out, '}');
        sonde_json_u64(out, "spans_seen", p->spans_seen);
        sonde_json_u64(out, "spans_lost", p->spans_lost);
        sonde_json_u64(out, "series", p->series_count);
        sonde_json_close(out, '}');
    }
    sonde_buf_puts(out, "]}\n");
}

/* ---- Spans -------------------------------------------------------------------------------- */

static const char *api_outcome_name(uint32_t outcome)
{
    switch (outcome) {
    case SONDE_OK: return "ok";
    case SONDE_ERROR: return "error";
    case SONDE_CANCELLED: return "cancelled";
    case SONDE_TIMEOUT: return "timeout";
    default: return "unknown";
    }
}

static void api_put_attributes(const struct sonde_model_span *s, struct sonde_buf *out)
{
    sonde_json_key_open(out, "attributes", '{');
    for (uint32_t i = 0; i < s->attr_count; i++) {
        const struct sonde_model_attr *a = &s->attrs[i];
        if (a->type == SONDE__ATTR_INT) {
            sonde_json_key(out, a->key);
            sonde_buf_printf(out, "%lld", (long long)a->value.i);
        } else if (a->type == SONDE__ATTR_DOUBLE) {
            sonde_json_num(out, a->key, a->value.d);
        } else {
            sonde_json_str(out, a->key, a->value.str);
        }
    }
    sonde_json_close(out, '}');
}

void sonde_api_put_span(const struct sonde_model_span *s, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "name", s->name);
    sonde_json_str(out, "program", s->program);
    sonde_json_u64(out, "pid", s->pid);
    sonde_json_u64(out, "tid", s->tid);
    sonde_json_ns(out, "start", s->start_ns);
    sonde_json_ns(out, "duration_s", s->duration_ns);
    sonde_json_id(out, "trace_id", (const uint64_t[]){ s->trace_hi, s->trace_lo }, 2);
    sonde_json_id(out, "span_id", &s->id, 1);
    if (s->parent) sonde_json_id(out, "parent_id", &s->parent, 1);
    else sonde_json_str(out, "parent_id", NULL);
    sonde_json_str(out, "outcome", api_outcome_name(s->outcome));
    api_put_attributes(s, out);
    sonde_json_close(out, '}');
}

int sonde_api_span_passes(const struct sonde_api_spans *q, const struct sonde_model_span *s)
{
    if ((q->trace_hi || q->trace_lo) &&
        (s->trace_hi != q->trace_hi || s->trace_lo != q->trace_lo)) {
        return 0;
    }
    if (q->pid && s->pid != q->pid) return 0;
    if (!api_in_range((double)s->start_ns * 1e-9, q->from_s, q->to_s)) return 0;
    return !q->name || fnmatch(q->name, s->name, 0) == 0;
}

void sonde_api_spans(const struct sonde_model *m, const struct sonde_api_spans *q,
                     struct sonde_buf *out)
{
    sonde_assert_held(&m->lock);
    const size_t limit = q->limit ? q->limit : SONDE_API_SPANS_DEFAULT;
    size_t put = 0;
    sonde_buf_putc(out, '{');
    /* Spans are read more often than there are ticks: who divides by the time needs the later
     * one. */
    sonde_json_time(out, "time", m->spans_s > m->now_s ? m->spans_s : m->now_s);
    sonde_json_key_open(out, "spans", '[');
    for (uint64_t age = 0; age < m->span_next && age < m->spans_max && put < limit; age++) {
        const struct sonde_model_span *s = &m->spans[(m->span_next - 1 - age) % m->spans_max];
        if (!sonde_api_span_passes(q, s)) continue;
        sonde_api_put_span(s, out);
        put++;
    }
    sonde_buf_puts(out, "]}\n");
}
