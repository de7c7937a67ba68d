/* store_events.c - spans, findings and one run out of the store: see store.h. */
#include <fnmatch.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "agent/finding_watch.h"
#include "present/report/finding.h"
#include "profile/profile.h"
#include "serve/api/store.h"
#include "base/json.h"
#include "agent/marks.h"
#include "agent/regressions.h"
#include "sonde/sonde.h"

void sonde_api_put_counts(struct sonde_buf *out, const struct sonde_store_counts *c)
{
    sonde_json_bool(out, "stored", 1);
    sonde_json_u64(out, "seen", c->seen);
    sonde_json_u64(out, "kept", c->kept);
}

/* ---- Spans -------------------------------------------------------------------------------- */

struct spans_answer {
    const struct sonde_api_spans *q;
    struct sonde_buf *out;
    size_t put, limit;
};

static int api_store_events_put_span(const struct sonde_model_span *span, void *arg)
{
    struct spans_answer *a = arg;
    if (!sonde_api_span_passes(a->q, span)) return 0;
    sonde_api_put_span(span, a->out);
    return ++a->put == a->limit || a->out->error;
}

int sonde_api_stored_spans(const struct sonde_store_ops *ops, struct sonde_store *s,
                           const struct sonde_api_spans *q, struct sonde_buf *out,
                           struct sonde_err *err)
{
    struct spans_answer a = { .q = q, .out = out,
                              .limit = q->limit ? q->limit : SONDE_API_SPANS_DEFAULT };
    const struct sonde_store_range range = { .from_s = q->from_s, .to_s = q->to_s };
    struct sonde_store_counts counts = { 0 };
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", sonde_clock_s(CLOCK_REALTIME));
    sonde_json_key_open(out, "spans", '[');
    const int rc = ops->spans(s, &range, api_store_events_put_span, &a, &counts, err);
    sonde_json_close(out, ']');
    sonde_api_put_counts(out, &counts);
    sonde_buf_puts(out, "}\n");
    return rc;
}

/* ---- Findings ----------------------------------------------------------------------------- */

struct findings_answer {
    const struct sonde_api_findings *q;
    struct sonde_buf *out;
    size_t put;
};

static int api_store_events_put_finding(const struct sonde_store_finding *f, void *arg)
{
    struct findings_answer *a = arg;
    struct sonde_buf *out = a->out;
    if ((int)f->severity < a->q->severity) return 0;
    /* Marks and facts are nobody's conclusion: they are among the events, and here if asked for by
     * name. */
    if (!a->q->kind && (strcmp(f->kind, SONDE_MARK_KIND) == 0 ||
                        strcmp(f->kind, SONDE_CHANGE_KIND) == 0)) {
        return 0;
    }
    if (a->q->kind && fnmatch(a->q->kind, f->kind, 0) != 0) return 0;
    sonde_json_open(out, '{');
    sonde_json_u64(out, "id", f->id);
    sonde_json_u64(out, "run", f->run);
    sonde_json_time(out, "time", f->time_s);
    sonde_json_str(out, "kind", f->kind);
    sonde_json_str(out, "subject", f->subject);
    sonde_json_str(out, "severity", sonde_severity_name(f->severity));
    sonde_json_num(out, "value", f->value);
    sonde_json_str(out, "unit", f->unit[0] ? f->unit : NULL);
    sonde_json_str(out, "text", f->text);
    sonde_json_close(out, '}');
    return ++a->put == a->q->range.limit;
}

static void api_store_events_put_active(const struct sonde_findings *f, double time_s, void *arg)
{
    struct sonde_buf *out = arg;
    sonde_json_key(out, "active");
    if (f) sonde_findings_json(f, out);
    else sonde_buf_puts(out, "[]");
    sonde_json_time(out, "looked", time_s);
}

int sonde_api_findings(const struct sonde_store_ops *ops, struct sonde_store *s,
                       const struct sonde_api_findings *q, struct sonde_buf *out,
                       struct sonde_err *err)
{
    struct findings_answer a = { q, out, 0 };
    struct sonde_store_range range = q->range;
    range.limit = 0; /* not all that are read pass */
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", sonde_clock_s(CLOCK_REALTIME));
    sonde_json_key_open(out, "findings", '[');
    const int rc = ops->findings(s, &range, api_store_events_put_finding, &a, err);
    sonde_json_close(out, ']');
    if (q->watch) sonde_finding_watch_last(q->watch, api_store_events_put_active, out);
    else api_store_events_put_active(NULL, 0, out);
    sonde_buf_puts(out, "}\n");
    return rc;
}

/* ---- One run ------------------------------------------------------------------------------ */

struct run_answer { uint32_t id; struct sonde_buf *out; int found; };

/* The settings it was recorded with: JSON that was in a file, so it is looked at. */
static void api_store_events_put_config(struct sonde_buf *out, const char *config)
{
    json_t *json = json_loads(config, 0, NULL);
    char *text = json_is_object(json) ? json_dumps(json, JSON_COMPACT) : NULL;
    sonde_json_key(out, "config");
    sonde_buf_puts(out, text ? text : "null");
    free(text);
    json_decref(json);
}

static void find_run(const struct sonde_store_run *r, void *arg)
{
    struct run_answer *a = arg;
    if (r->id != a->id) return;
    a->found = 1;
    sonde_api_put_run(a->out, r);
    api_store_events_put_config(a->out, r->config);
}

static void put_module(const char *path, const char *build_id, void *arg)
{
    sonde_json_open(arg, '{');
    sonde_json_str(arg, "path", path);
    sonde_json_str(arg, "build_id", build_id);
    sonde_json_close(arg, '}');
}

static void api_store_events_put_heap(const struct sonde_store_heap *h, void *arg)
{
    struct sonde_buf *out = arg;
    sonde_json_open(out, '{');
    sonde_json_u64(out, "profile", h->profile);
    sonde_json_time(out, "time", h->time_s);
    sonde_json_str(out, "program", h->program);
    sonde_json_bool(out, "exact", h->exact);
    sonde_json_num(out, "live_bytes", h->live_bytes);
    sonde_json_num(out, "live_count", h->live_count);
    sonde_json_num(out, "alloc_bytes", h->alloc_bytes);
    sonde_json_num(out, "alloc_count", h->alloc_count);
    sonde_json_num(out, "peak_bytes", h->peak_bytes > 0 ? h->peak_bytes : NAN);
    sonde_json_num(out, "rss_bytes", h->rss_bytes > 0 ? h->rss_bytes : NAN);
    sonde_json_num(out, "lost_bytes", h->lost_bytes);
    sonde_json_close(out, '}');
}

int sonde_api_run(const struct sonde_store_ops *ops, struct sonde_store *s, uint32_t id,
                  struct sonde_buf *out, struct sonde_err *err)
{
    struct run_answer a = { .id = id, .out = out };
    sonde_buf_putc(out, '{');
    int rc = ops->runs(s, find_run, &a, err);
    if (!rc && !a.found) rc = sonde_err_set(err, SONDE_ENOENT, "there is no run %u", id);
    if (rc) return rc;
    sonde_json_key_open(out, "modules", '[');
    rc = ops->modules(s, id, put_module, out, err);
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "heaps", '[');
    if (!rc) rc = ops->heaps(s, id, api_store_events_put_heap, out, err);
    sonde_json_close(out, ']');
    sonde_buf_puts(out, "}\n");
    return rc;
}
