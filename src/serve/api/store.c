/* store.c - see store.h. */
#include "serve/api/store.h"

#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/strip.h"

struct api_store_answer {
    struct sonde_buf *out;
    struct sonde_buf gaps;  /* they come last */
    size_t shown, series_max;
    int truncated;
};

enum { LABELS_MAX = 64, SERIES_DEFAULT = 1000, GAPS_BYTES_MAX = 1 << 20 };

static void api_store_put_labels(struct sonde_buf *out, const char *text)
{
    struct sonde_label labels[LABELS_MAX];
    char *copy = sonde__strdup(text);
    const int n = copy ? sonde_store_labels(copy, labels, LABELS_MAX) : -1;
    sonde_json_key_open(out, "labels", '{');
    for (int i = 0; i < n; i++) sonde_json_str(out, labels[i].name, labels[i].value);
    sonde_json_close(out, '}');
    sonde__free(copy);
}

static double api_store_ratio(double a, double b) { return b > 0 ? a / b : NAN; }

static double api_store_value_of(const struct sonde_store_point *p, enum sonde_type type)
{
    if (type == SONDE_GAUGE) return api_store_ratio(p->sum, p->count);
    return api_store_ratio(type == SONDE_COUNTER ? p->sum : p->count, p->seconds);
}

static void put_quantiles(struct sonde_buf *out, const struct sonde_store_point *p)
{
    sonde_json_num(out, "p50", p->p50);
    sonde_json_num(out, "p90", p->p90);
    sonde_json_num(out, "p95", p->p95);
    sonde_json_num(out, "p99", p->p99);
}

void sonde_api_put_point(struct sonde_buf *out, const struct sonde_store_point *p,
                         enum sonde_type type)
{
    sonde_json_open(out, '{');
    sonde_json_time(out, "time", p->time_s);
    sonde_json_num(out, "value", api_store_value_of(p, type));
    sonde_json_num(out, "count", p->count);
    if (type == SONDE_HISTOGRAM) sonde_json_num(out, "avg", api_store_ratio(p->sum, p->count));
    sonde_json_num(out, "min", p->min);
    sonde_json_num(out, "max", p->max);
    if (type == SONDE_HISTOGRAM) put_quantiles(out, p);
    else sonde_json_num(out, "last", p->last);
    sonde_json_close(out, '}');
}

static void api_store_put_figures(struct sonde_buf *out, const struct sonde_store_point *all,
                                  enum sonde_type type)
{
    sonde_json_num(out, "value", type == SONDE_HISTOGRAM ? all->count : all->last);
    sonde_json_num(out, "count", all->count);
    sonde_json_num(out, "total", all->sum);
    sonde_json_num(out, "avg", type == SONDE_COUNTER ? api_store_ratio(all->sum, all->seconds)
                                                     : api_store_ratio(all->sum, all->count));
    sonde_json_num(out, "min", all->min);
    sonde_json_num(out, "max", all->max);
    sonde_json_num(out, "last", all->last);
    sonde_json_num(out, "median", all->p50);
    put_quantiles(out, all);
    sonde_json_num(out, "rate", type == SONDE_GAUGE ? NAN : api_store_value_of(all, type));
}

static void api_store_put_series(const struct sonde_store_series *s,
                                 const struct sonde_store_point *all,
                                 const struct sonde_store_point *points, size_t count, void *arg)
{
    struct api_store_answer *a = arg;
    struct sonde_buf *out = a->out;
    if (a->shown == a->series_max) { /* one more was asked for, to know this */
        a->truncated = 1;
        return;
    }
    a->shown++;
    sonde_json_open(out, '{');
    sonde_json_str(out, "name", s->name);
    sonde_json_str(out, "type", sonde_type_name(s->type));
    sonde_json_str(out, "kind", sonde_kind_name(s->kind));
    sonde_json_str(out, "unit", s->unit);
    sonde_json_str(out, "source", s->source);
    api_store_put_labels(out, s->labels);
    sonde_json_str(out, "process", s->program[0] ? s->program : NULL);
    sonde_json_u64_or_null(out, "pid", s->pid);
    api_store_put_figures(out, all, s->type);
    sonde_json_key_open(out, "points", '[');
    for (size_t i = 0; i < count && !out->error; i++) sonde_api_put_point(out, &points[i], s->type);
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}

static void put_gap(double from_s, double to_s, const char *reason, void *arg)
{
    struct sonde_buf *out = &((struct api_store_answer *)arg)->gaps;
    sonde_json_open(out, '{');
    sonde_json_time(out, "from", from_s);
    sonde_json_time(out, "to", to_s);
    sonde_json_str(out, "reason", reason);
    sonde_json_close(out, '}');
}

int sonde_api_stored(const struct sonde_store_ops *ops, struct sonde_store *s,
                     const struct sonde_store_query *q, struct sonde_buf *out,
                     struct sonde_err *err)
{
    struct api_store_answer a = { .out = out,
                                  .series_max = q->series_max ? q->series_max : SERIES_DEFAULT };
    struct sonde_store_query one_more = *q;
    one_more.series_max = a.series_max + 1;
    const struct sonde_store_sink sink = { .series = api_store_put_series,
                                           .gap = put_gap,
                                           .arg = &a };
    assert(ops && s);
    sonde_buf_init(&a.gaps, GAPS_BYTES_MAX);
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", sonde_clock_s(CLOCK_REALTIME));
    sonde_json_time(out, "from", q->from_s);
    sonde_json_time(out, "to", q->to_s);
    sonde_json_num(out, "step_s", q->step_s);
    sonde_json_key_open(out, "series", '[');
    const int rc = ops->query(s, &one_more, &sink, err);
    sonde_json_close(out, ']');
    sonde_json_u64(out, "total", a.shown);
    sonde_json_bool(out, "truncated", a.truncated);
    sonde_json_key_open(out, "gaps", '[');
    if (!a.gaps.error && a.gaps.len) sonde_buf_add(out, a.gaps.data, a.gaps.len);
    sonde_json_close(out, ']');
    sonde_buf_puts(out, "}\n");
    sonde_buf_release(&a.gaps);
    return rc;
}

/* ---- Runs --------------------------------------------------------------------------------- */

void sonde_api_put_run(struct sonde_buf *out, const struct sonde_store_run *r)
{
    sonde_json_u64(out, "id", r->id);
    sonde_json_str(out, "name", r->name);
    sonde_json_str(out, "tags", r->tags);
    sonde_json_str(out, "host", sonde_strip_on() ? NULL : r->host);
    sonde_json_str(out, "version", r->version);
    sonde_json_time(out, "start", r->start_s);
    sonde_json_time(out, "end", r->end_s);
    sonde_json_u64(out, "ticks", r->ticks);
    sonde_json_u64(out, "profiles", r->profiles);
    sonde_json_u64(out, "spans", r->spans);
    sonde_json_u64(out, "requests", r->requests);
    sonde_json_u64(out, "findings", r->findings);
    sonde_json_bool(out, "live", r->live);
}

static void api_store_put_run(const struct sonde_store_run *r, void *arg)
{
    sonde_json_open(arg, '{');
    sonde_api_put_run(arg, r);
    sonde_json_close(arg, '}');
}

int sonde_api_runs(const struct sonde_store_ops *ops, struct sonde_store *s, struct sonde_buf *out,
                   struct sonde_err *err)
{
    struct sonde_store_stats stats;
    ops->stats(s, &stats);
    sonde_buf_putc(out, '{');
    sonde_json_key_open(out, "runs", '[');
    const int rc = ops->runs(s, api_store_put_run, out, err);
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "store", '{');
    sonde_json_u64(out, "ticks", stats.ticks);
    sonde_json_u64(out, "points", stats.points);
    sonde_json_u64(out, "dropped_ticks", stats.dropped_ticks);
    sonde_json_u64(out, "dropped_series", stats.dropped_series);
    sonde_json_u64(out, "spans_left_out", stats.spans_left_out);
    sonde_json_u64(out, "requests_left_out", stats.requests_left_out);
    sonde_json_u64(out, "dropped_events", stats.dropped_events);
    sonde_json_u64(out, "commits", stats.commits);
    sonde_json_u64(out, "failures", stats.failures);
    sonde_json_num(out, "append_s_max", stats.append_s_max);
    sonde_json_num(out, "commit_s_max", stats.commit_s_max);
    sonde_json_num(out, "step_s_max", stats.step_s_max);
    sonde_json_num(out, "checkpoint_s_max", stats.checkpoint_s_max);
    sonde_json_num(out, "step_cpu_s_max", stats.step_cpu_s_max);
    sonde_json_time(out, "failing_since", stats.failing_since_s);
    sonde_json_str(out, "problem", stats.problem[0] ? stats.problem : NULL);
    if (stats.clock_ahead_s > 0) sonde_json_num(out, "clock_ahead_s", stats.clock_ahead_s);
    sonde_json_close(out, '}');
    sonde_buf_puts(out, "}\n");
    return rc;
}
