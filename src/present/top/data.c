/* data.c - see data.h. The JSON stays in memory as long as the data does, so that most
 * strings need no copy. */
#include "present/top/data.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/buf.h"
#include "base/cmp.h"
#include "present/top/json.h"
#include "present/top/spans.h"
#include "sonde/sonde.h"

/* ---- Answers ------------------------------------------------------------------------------- */

int top_open(struct sonde_top_data *d, const char *what, const char *key, const char *text,
             size_t len, json_t **array, struct sonde_err *err)
{
    json_error_t why;
    if (d->json_count == SONDE_COUNT(d->json)) return SONDE_EINVAL;
    json_t *root = json_loadb(text, len, 0, &why);
    if (!root) {
        return sonde_err_set(err, SONDE_EFORMAT, "the answer about %s is not JSON: %s (line %d)",
                             what, why.text, why.line);
    }
    d->json[d->json_count++] = root;
    *array = json_object_get(root, key);
    if (!json_is_array(*array)) {
        return sonde_err_set(err, SONDE_EFORMAT,
                             "the answer about %s has no list \"%s\": is that a sonde agent?",
                             what, key);
    }
    const double time_s = top_number(root, "time");
    if (time_s > d->time_s) d->time_s = time_s;
    return 0;
}

/* ---- Processes ----------------------------------------------------------------------------- */

double top_sum(const json_t *o)
{
    double sum = 0;
    const char *key;
    json_t *v;
    if (!json_is_object(o)) return NAN;
    json_object_foreach((json_t *)o, key, v) {
        if (json_is_number(v)) sum += json_number_value(v);
    }
    return sum;
}

int sonde_top_read_processes(struct sonde_top_data *d, const char *text, size_t len,
                             struct sonde_err *err)
{
    json_t *array;
    const int rc = top_open(d, "processes", "processes", text, len, &array, err);
    if (rc) return rc;
    const size_t n = top_at_most(array, SONDE_TOP_PROCESSES_MAX);
    d->processes = sonde__calloc(n + 1, sizeof(*d->processes));
    if (!d->processes) return sonde_err_memory(err);

    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(array, i);
        d->processes[d->process_count++] = (struct sonde_top_process){
            .pid = top_id(o, "pid"),
            .program = top_string(o, "program"),
            .state = top_string(o, "state"),
            .cpu_ratio = top_number(o, "cpu_ratio"),
            .rss_bytes = top_number(o, "rss_bytes"),
            .threads = top_number(o, "threads"),
            .series = top_number(o, "series"),
            .segment_bytes = top_number(o, "segment_bytes"),
            .drops = top_sum(json_object_get(o, "drops")),
            .spans_seen = top_number(o, "spans_seen"),
            .spans_lost = top_number(o, "spans_lost"),
            .spans_per_s = NAN,
        };
    }
    return 0;
}

static void rate_since(struct sonde_top_process *p, const struct sonde_top_memory *m,
                       double seconds)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->processes[i].pid != p->pid) continue;
        /* Fewer than before: another process that got the number of one that is gone. */
        if (p->spans_seen >= m->processes[i].spans_seen) {
            p->spans_per_s = (p->spans_seen - m->processes[i].spans_seen) / seconds;
        }
        return;
    }
}

int sonde_top_data_rates(struct sonde_top_data *d, struct sonde_top_memory *m)
{
    const double seconds = d->time_s - m->time_s;
    if (m->time_s > 0 && seconds > 0) {
        for (size_t i = 0; i < d->process_count; i++) rate_since(&d->processes[i], m, seconds);
    }
    struct sonde_top_remembered *now = sonde__calloc(d->process_count + 1, sizeof(*now));
    if (!now) return SONDE_ENOMEM;
    for (size_t i = 0; i < d->process_count; i++) {
        now[i].pid = d->processes[i].pid;
        now[i].spans_seen = d->processes[i].spans_seen;
    }
    sonde__free(m->processes);
    *m = (struct sonde_top_memory){ .time_s = d->time_s, .processes = now,
                                    .count = d->process_count };
    return 0;
}

void sonde_top_memory_release(struct sonde_top_memory *m)
{
    sonde__free(m->processes);
    *m = (struct sonde_top_memory){ 0 };
}

/* ---- Series -------------------------------------------------------------------------------- */

static char *top_data_take_text(struct sonde_buf *b)
{
    if (!b->error && b->len == 0) sonde_buf_puts(b, "");
    if (!b->error) return sonde_buf_take(b);
    sonde_buf_release(b);
    return NULL;
}

/* Labels as Prometheus writes them, without the two that have columns of their own. */
static char *top_data_label_text(const json_t *labels)
{
    struct sonde_buf b;
    const char *key;
    json_t *v;
    sonde_buf_init(&b, 1 << 16);
    json_object_foreach((json_t *)labels, key, v) {
        const char *value = json_string_value(v);
        if (!value || strcmp(key, "process") == 0 || strcmp(key, "pid") == 0) continue;
        sonde_buf_puts(&b, b.len ? "," : "{");
        sonde_buf_puts(&b, key);
        sonde_buf_puts(&b, "=\"");
        sonde_buf_puts(&b, value);
        sonde_buf_puts(&b, "\"");
    }
    if (b.len) sonde_buf_puts(&b, "}");
    return top_data_take_text(&b);
}

/* [[time, value], …] newest first, to values oldest first. */
static int read_history(const json_t *array, double **out, size_t *out_count)
{
    const size_t n = top_at_most(array, SONDE_TOP_HISTORY);
    double *value = sonde__calloc(n + 1, sizeof(*value));
    if (!value) return SONDE_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(json_array_get(array, n - 1 - i), 1);
        value[i] = json_is_number(v) ? json_number_value(v) : NAN;
    }
    *out = value;
    *out_count = n;
    return 0;
}

int sonde_top_read_series(struct sonde_top_data *d, const char *text, size_t len,
                          struct sonde_err *err)
{
    json_t *array;
    const int rc = top_open(d, "series", "series", text, len, &array, err);
    if (rc) return rc;
    const size_t n = top_at_most(array, SONDE_TOP_SERIES_MAX);
    d->series = sonde__calloc(n + 1, sizeof(*d->series));
    if (!d->series) return sonde_err_memory(err);

    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(array, i);
        struct sonde_top_series *s = &d->series[d->series_count++];
        *s = (struct sonde_top_series){
            .name = top_string(o, "name"),
            .type = top_string(o, "type"), .unit = top_string(o, "unit"),
            .process = top_string(o, "process"), .trend = top_string(o, "trend"),
            .labels = top_data_label_text(json_object_get(o, "labels")),
            .pid = top_id(o, "pid"),
            .value = top_number(o, "value"), .rate = top_number(o, "rate"),
            .avg = top_number(o, "avg"), .min = top_number(o, "min"), .max = top_number(o, "max"),
            .p50 = top_number(o, "p50"), .p95 = top_number(o, "p95"), .p99 = top_number(o, "p99"),
        };
        if (!s->labels || read_history(json_object_get(o, "history"), &s->history,
                                       &s->history_count)) {
            return sonde_err_memory(err);
        }
    }
    const double total = top_number(d->json[d->json_count - 1], "total");
    d->series_total = total >= (double)n && total < 1e12 ? (size_t)total : n;
    return 0;
}

/* ---- The host ------------------------------------------------------------------------------ */

/* Names as in collect/proc/probe_host.c. */
static const struct { const char *name, *stat; double scale; size_t offset; } host_figures[] = {
#define FIGURE(name, stat, scale, field) \
    { name, stat, scale, offsetof(struct sonde_top_host, field) }
    FIGURE("system_cpu_usage_percent", "value", 0.01, cpu_ratio),
    FIGURE("system_disk_usage_percent", "value", 0.01, disk_ratio),
    FIGURE("system_uptime_seconds", "value", 1, uptime_s),
    FIGURE("system_network_bytes_received_total", "rate", 1, net_in),
    FIGURE("system_network_bytes_sent_total", "rate", 1, net_out),
    FIGURE("sonde_host_memory_total_bytes", "value", 1, memory_total),
    FIGURE("sonde_host_memory_available_bytes", "value", 1, memory_available),
    FIGURE("sonde_host_load1", "value", 1, load1),
    FIGURE("sonde_host_load5", "value", 1, load5),
    FIGURE("sonde_host_load15", "value", 1, load15),
    FIGURE("sonde_cost_ratio", "value", 1, cost_ratio), /* agent/own_cost_control.h */
    FIGURE("sonde_cost_low_ratio", "value", 1, cost_low),
    FIGURE("sonde_cost_high_ratio", "value", 1, cost_high),
#undef FIGURE
};

static int read_host_series(struct sonde_top_host *h, const json_t *o)
{
    const char *name = top_string(o, "name");
    /* A recorded process may have series of the same name. */
    if (top_id(o, "pid")) return 0;
    for (size_t i = 0; i < SONDE_COUNT(host_figures); i++) {
        if (strcmp(name, host_figures[i].name) != 0) continue;
        const double v = top_number(o, host_figures[i].stat) * host_figures[i].scale;
        memcpy((char *)h + host_figures[i].offset, &v, sizeof(v));
    }
    if (strcmp(name, "system_cpu_usage_percent") != 0) return 0;

    double *history = NULL;
    const int rc = read_history(json_object_get(o, "history"), &history, &h->cpu_history_count);
    if (rc) return rc;
    memcpy(h->cpu_history, history, h->cpu_history_count * sizeof(*history));
    sonde__free(history);
    return 0;
}

int sonde_top_read_host(struct sonde_top_data *d, const char *text, size_t len,
                        struct sonde_err *err)
{
    json_t *array;
    int rc = top_open(d, "the host", "series", text, len, &array, err);
    for (size_t i = 0; !rc && i < top_at_most(array, SONDE_TOP_SERIES_MAX); i++) {
        if (read_host_series(&d->host, json_array_get(array, i))) {
            rc = sonde_err_memory(err);
        }
    }
    return rc;
}

/* ---- Spans --------------------------------------------------------------------------------- */

static char *attribute_text(const json_t *attributes)
{
    struct sonde_buf b;
    const char *key;
    json_t *v;
    sonde_buf_init(&b, 1 << 16);
    json_object_foreach((json_t *)attributes, key, v) {
        if (b.len) sonde_buf_putc(&b, ' ');
        sonde_buf_puts(&b, key);
        sonde_buf_putc(&b, '=');
        if (json_is_string(v)) sonde_buf_puts(&b, json_string_value(v));
        else if (json_is_integer(v)) {
            sonde_buf_printf(&b, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        } else if (json_is_real(v)) sonde_buf_printf(&b, "%.6g", json_real_value(v));
        else sonde_buf_puts(&b, "?");
    }
    return top_data_take_text(&b);
}

static int read_span_list(const json_t *array, struct sonde_top_span **out, size_t *out_count,
                          struct sonde_err *err)
{
    const size_t n = top_at_most(array, SONDE_TOP_SPANS_MAX);
    *out = sonde__calloc(n + 1, sizeof(**out));
    if (!*out) return sonde_err_memory(err);
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(array, i);
        struct sonde_top_span *s = &(*out)[(*out_count)++];
        *s = (struct sonde_top_span){
            .name = top_string(o, "name"), .program = top_string(o, "program"),
            .trace_id = top_string(o, "trace_id"), .span_id = top_string(o, "span_id"),
            .parent_id = top_string(o, "parent_id"), .outcome = top_string(o, "outcome"),
            .attributes = attribute_text(json_object_get(o, "attributes")),
            .pid = top_id(o, "pid"), .tid = top_id(o, "tid"),
            .start = top_number(o, "start"), .duration_s = top_number(o, "duration_s"),
        };
        if (!s->attributes) return sonde_err_memory(err);
        if (!(s->duration_s >= 0)) s->duration_s = 0;
        if (!isfinite(s->start)) s->start = 0;
    }
    return 0;
}

int sonde_top_read_spans(struct sonde_top_data *d, const char *text, size_t len,
                         struct sonde_err *err)
{
    json_t *array;
    int rc = top_open(d, "spans", "spans", text, len, &array, err);
    if (!rc) rc = read_span_list(array, &d->spans, &d->span_count, err);
    if (!rc && sonde_top_group_spans(d)) rc = sonde_err_memory(err);
    return rc;
}

static int top_data_by_start(const void *a, const void *b)
{
    const struct sonde_top_span *x = a, *y = b;
    if (x->start != y->start) return SONDE_CMP(x->start, y->start);
    return (x->duration_s < y->duration_s) - (x->duration_s > y->duration_s);
}

int sonde_top_read_trace(struct sonde_top_data *d, const char *text, size_t len,
                         struct sonde_err *err)
{
    json_t *array;
    int rc = top_open(d, "the trace", "spans", text, len, &array, err);
    if (!rc) rc = read_span_list(array, &d->trace, &d->trace_count, err);
    if (!rc) qsort(d->trace, d->trace_count, sizeof(*d->trace), top_data_by_start);
    return rc;
}

/* ---- Life ---------------------------------------------------------------------------------- */

void sonde_top_data_init(struct sonde_top_data *d)
{
    *d = (struct sonde_top_data){ .host = {
        .cpu_ratio = NAN, .memory_available = NAN, .memory_total = NAN, .load1 = NAN, .load5 = NAN,
        .load15 = NAN, .net_in = NAN, .net_out = NAN, .disk_ratio = NAN,
        .uptime_s = NAN, .cost_ratio = NAN, .cost_low = NAN, .cost_high = NAN } };
}

void sonde_top_data_release(struct sonde_top_data *d)
{
    for (size_t i = 0; i < d->series_count; i++) {
        sonde__free(d->series[i].labels);
        sonde__free(d->series[i].history);
    }
    for (size_t i = 0; i < d->span_count; i++) sonde__free(d->spans[i].attributes);
    for (size_t i = 0; i < d->trace_count; i++) sonde__free(d->trace[i].attributes);
    for (size_t i = 0; i < d->json_count; i++) json_decref(d->json[i]);
    sonde__free(d->processes);
    sonde__free(d->series);
    sonde__free(d->spans);
    sonde__free(d->trace);
    sonde__free(d->names);
    sonde__free(d->pairs);
    sonde__free(d->inference.models);
    sonde__free(d->inference.routes);
    sonde_requests_release(&d->inference.requests);
    sonde_top_data_init(d);
}
