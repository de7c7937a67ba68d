/* plot.c - see plot.h. What only a kind of result has is read from its members, as JSON, and is not
 * believed: what is missing or is not a number is not drawn. */
#include "bench/plot/plot.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

enum { PLOT_FIGURES = 6, PLOT_CURVE = 80 };

/* Units are kept by results, which may go before the chart does. */
static const char *plot_unit(const char *unit)
{
    static const char *const units[] = { "s", "bytes", "1/s", "bytes/s", "ratio" };
    for (size_t i = 0; i < SONDE_COUNT(units); i++) {
        if (!strcmp(units[i], unit)) return units[i];
    }
    return "";
}

/* ---- Of figures ------------------------------------------------------------------------------ */

static int plot_distribution(struct sonde_plot_page *p, const struct sonde_bench_plot_input *inputs,
                             size_t count, const struct sonde_bench_figure *f)
{
    struct sonde_chart *c = sonde_plot_page_chart(p, "name", plot_unit(f->unit));
    if (!c) return sonde_plot_page_full(p) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "%s", f->name);
    snprintf(c->note, sizeof(c->note), "last run of each: parts, value and 95 %% interval%s",
             f->better < 0 ? "; less is better" : f->better > 0 ? "; more is better" : "");
    struct sonde_chart_series *parts = sonde_chart_series(c, ""), *mean = sonde_chart_series(c, "");
    parts->faint = 1;
    mean->color = 1;
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        const struct sonde_bench_saved *s = inputs[i].saved;
        const struct sonde_bench_figure *g =
            sonde_bench_figure_find(&s->runs[s->count - 1], f->name);
        const int name = sonde_chart_name(c, inputs[i].name);
        if (!g || name < 0) continue;
        /* Side by side in the order of time, so that none hides another and a drift shows. */
        for (size_t k = 0; k < g->part_count && !rc; k++) {
            const double at = ((double)k + 0.5) / (double)g->part_count - 0.5;
            rc = sonde_chart_add(c, parts, name + 0.5 * at, g->parts[k], NAN, NAN, NULL);
        }
        if (!rc) rc = sonde_chart_add(c, mean, name, g->value, g->low, g->high, NULL);
    }
    sonde_plot_page_drop_empty(p);
    return rc;
}

static int plot_history(struct sonde_plot_page *p, const struct sonde_bench_plot_input *inputs,
                        size_t count, const struct sonde_bench_figure *f)
{
    size_t runs = 0;
    for (size_t i = 0; i < count; i++) {
        if (inputs[i].saved->count > runs) runs = inputs[i].saved->count;
    }
    if (runs < 2) return 0;
    struct sonde_chart *c = sonde_plot_page_chart(p, "time", plot_unit(f->unit));
    if (!c) return sonde_plot_page_full(p) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "%s over time", f->name);
    snprintf(c->note, sizeof(c->note), "every run that was kept, with its 95 %% interval");
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        struct sonde_chart_series *s = sonde_chart_series(c, inputs[i].name);
        if (!s) break;
        s->mark = SONDE_MARK_LINE;
        for (size_t k = 0; k < inputs[i].saved->count && !rc; k++) {
            const struct sonde_bench_result *r = &inputs[i].saved->runs[k];
            const struct sonde_bench_figure *g = sonde_bench_figure_find(r, f->name);
            if (g) rc = sonde_chart_add(c, s, r->time_s, g->value, g->low, g->high, NULL);
        }
    }
    sonde_plot_page_drop_empty(p);
    return rc;
}

/* ---- Of what only a kind has ----------------------------------------------------------------- */

static double plot_number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static double plot_deep(const json_t *o, const char *key, const char *inner)
{
    return plot_number(json_object_get(o, key), inner);
}

/* X(N) = single N / (1 + contention (N - 1) + coherence N (N - 1)) */
static int plot_scaling_curve(struct sonde_chart *c, const json_t *fit, int color, double most)
{
    const double single = plot_deep(fit, "single_per_s", "value");
    const double contention = plot_deep(fit, "contention", "value");
    const double coherence = plot_deep(fit, "coherence", "value");
    struct sonde_chart_series *s = sonde_chart_series(c, "");
    int rc = 0;
    if (!s || isnan(single + contention + coherence)) return 0;
    s->mark = SONDE_MARK_DASHED;
    s->color = color;
    for (int i = 0; i <= PLOT_CURVE && !rc; i++) {
        const double n = 1 + (most - 1) * i / PLOT_CURVE;
        const double by = 1 + contention * (n - 1) + coherence * n * (n - 1);
        rc = sonde_chart_add(c, s, n, single * n / by, NAN, NAN, NULL);
    }
    return rc;
}

static int plot_scaling(struct sonde_plot_page *p, const char *name, const json_t *extra)
{
    const json_t *commands = json_object_get(extra, "commands"), *command, *point;
    size_t i, k;
    int rc = 0, wanted = 0;
    json_array_foreach(commands, i, command) {
        wanted |= json_array_size(json_object_get(command, "parallel")) > 1;
    }
    if (!wanted) return 0;
    struct sonde_chart *c = sonde_plot_page_chart(p, "", "1/s");
    if (!c) return sonde_plot_page_full(p) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "%s: throughput by copies", name);
    snprintf(c->note, sizeof(c->note), "dashed: the universal scalability law, fitted");
    snprintf(c->x_title, sizeof(c->x_title), "copies at a time");
    c->y_zero = 1;
    json_array_foreach(commands, i, command) {
        const char *title = json_string_value(json_object_get(command, "name"));
        struct sonde_chart_series *s = sonde_chart_series(c, title ? title : "");
        if (!s || rc) break;
        const int color = (int)c->series_count;
        double most = 1;
        json_array_foreach(json_object_get(command, "parallel"), k, point) {
            const double copies = plot_number(point, "copies");
            if (copies > most) most = copies;
            /* Throughput is copies by time: so are its limits. */
            if (!rc) {
                rc = sonde_chart_add(c, s, copies, plot_number(point, "throughput_per_s"),
                                     copies / plot_deep(point, "wall_s", "high"),
                                     copies / plot_deep(point, "wall_s", "low"), NULL);
            }
        }
        if (!rc) rc = plot_scaling_curve(c, json_object_get(command, "scaling"), color, most);
    }
    sonde_plot_page_drop_empty(p);
    return rc;
}

struct plot_curve { const char *key, *name; };

static int plot_sweep_chart(struct sonde_plot_page *p, const char *title, const json_t *sweep,
                            const char *y_unit, const struct plot_curve *curves, size_t count)
{
    const json_t *point;
    const char *by = json_string_value(json_object_get(sweep, "by"));
    struct sonde_chart *c = sonde_plot_page_chart(p, "", y_unit);
    if (!c) return sonde_plot_page_full(p) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "%s", title);
    snprintf(c->x_title, sizeof(c->x_title), "%s",
             by && !strcmp(by, "rate") ? "requests per second, planned" : "requests at a time");
    c->y_zero = 1;
    int rc = 0;
    for (size_t i = 0; i < count; i++) {
        struct sonde_chart_series *s = sonde_chart_series(c, curves[i].name);
        size_t k;
        if (!s) break;
        s->mark = SONDE_MARK_LINE;
        json_array_foreach(json_object_get(sweep, "points"), k, point) {
            if (!rc) {
                rc = sonde_chart_add(c, s, plot_number(point, "load"),
                                     plot_number(point, curves[i].key), NAN, NAN, NULL);
            }
        }
    }
    sonde_plot_page_drop_empty(p);
    return rc;
}

static int plot_sweep(struct sonde_plot_page *p, const char *name, const json_t *extra)
{
    static const struct plot_curve latencies[] = {
        { "ttft_p50_s", "TTFT p50" }, { "ttft_p95_s", "TTFT p95" }, { "e2e_p50_s", "answer p50" },
        { "e2e_p95_s", "answer p95" } };
    static const struct plot_curve rates[] = { { "output_tokens_per_s", "output tokens" } };
    static const struct plot_curve requests[] = { { "requests_per_s", "requests" } };
    const json_t *sweep = json_object_get(extra, "sweep");
    char title[160];
    if (!sweep) sweep = json_object_get(extra, "find");
    if (!json_is_object(sweep)) return 0;
    snprintf(title, sizeof(title), "%.80s: latency by load", name);
    int rc = plot_sweep_chart(p, title, sweep, "s", latencies, SONDE_COUNT(latencies));
    snprintf(title, sizeof(title), "%.80s: output tokens by load", name);
    if (!rc) rc = plot_sweep_chart(p, title, sweep, "1/s", rates, SONDE_COUNT(rates));
    snprintf(title, sizeof(title), "%.80s: requests by load", name);
    if (!rc) rc = plot_sweep_chart(p, title, sweep, "1/s", requests, SONDE_COUNT(requests));
    return rc;
}

/* "zstd 3" */
static void plot_codec(const json_t *row, char out[SONDE_CHART_LABEL_MAX])
{
    const char *codec = json_string_value(json_object_get(row, "codec"));
    const json_t *level = json_object_get(row, "level");
    const double threads = plot_number(row, "threads");
    const size_t n = (size_t)snprintf(out, SONDE_CHART_LABEL_MAX, "%.40s", codec ? codec : "");
    if (json_is_number(level)) {
        snprintf(out + n, SONDE_CHART_LABEL_MAX - n, " %g", json_number_value(level));
    }
    const size_t m = strlen(out);
    if (threads > 1) snprintf(out + m, SONDE_CHART_LABEL_MAX - m, " x%g", threads);
}

static int plot_compress(struct sonde_plot_page *p, const char *name, const json_t *extra,
                         const char *way)
{
    const json_t *rows = json_object_get(extra, "rows"), *row;
    size_t i;
    int rc = 0;
    if (!json_is_array(rows) || !json_is_object(json_object_get(json_array_get(rows, 0), way))) {
        return 0;
    }
    struct sonde_chart *c = sonde_plot_page_chart(p, "bytes/s", "ratio");
    if (!c) return sonde_plot_page_full(p) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "%.80s: ratio by speed, %s", name, way);
    snprintf(c->note, sizeof(c->note), "up and to the right is better; named: the Pareto front");
    snprintf(c->x_title, sizeof(c->x_title), "speed");
    snprintf(c->y_title, sizeof(c->y_title), "ratio");
    c->x_log = 1;
    struct sonde_chart_series *all = sonde_chart_series(c, "others"),
                              *front = sonde_chart_series(c, "front");
    all->faint = 1;
    json_array_foreach(rows, i, row) {
        const json_t *of = json_object_get(row, way);
        const int best = json_is_true(json_object_get(of, "front"));
        char label[SONDE_CHART_LABEL_MAX];
        plot_codec(row, label);
        if (rc) break;
        rc = sonde_chart_add(c, best ? front : all, plot_number(of, "best_bytes_per_s"),
                             plot_number(row, "ratio"), NAN, NAN, best ? label : NULL);
    }
    sonde_plot_page_drop_empty(p);
    return rc;
}

/* What only this kind of result has; NULL if it is nothing that can be read. 0 or SONDE_ENOMEM. */
static int plot_extra_read(const struct sonde_bench_plot_input *input, json_t **out)
{
    const struct sonde_bench_result *r = &input->saved->runs[input->saved->count - 1];
    struct sonde_buf text;
    *out = NULL;
    if (!r->extra.len) return 0;
    sonde_buf_init(&text, SONDE_BENCH_JSON_MAX);
    sonde_buf_putc(&text, '{');
    sonde_buf_add(&text, r->extra.data, r->extra.len);
    sonde_buf_putc(&text, '}');
    if (!text.error) *out = json_loadb(text.data, text.len, 0, NULL);
    const int rc = text.error ? SONDE_ENOMEM : 0;
    sonde_buf_release(&text);
    return rc;
}

static int plot_extra(struct sonde_plot_page *p, const struct sonde_bench_plot_input *input)
{
    json_t *extra;
    int rc = plot_extra_read(input, &extra);
    if (!rc) rc = plot_scaling(p, input->name, extra);
    if (!rc) rc = plot_sweep(p, input->name, extra);
    if (!rc) rc = plot_compress(p, input->name, extra, "compress");
    if (!rc) rc = plot_compress(p, input->name, extra, "decompress");
    json_decref(extra);
    return rc;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int plot_figure(struct sonde_plot_page *p, const struct sonde_bench_plot_input *inputs,
                       size_t count, const struct sonde_bench_figure *f)
{
    const int rc = plot_distribution(p, inputs, count, f);
    return rc ? rc : plot_history(p, inputs, count, f);
}

int sonde_bench_plot_make(const struct sonde_bench_plot_input *inputs, size_t count,
                    const char *const *figures, size_t figure_count, struct sonde_plot_page *out,
                    struct sonde_err *err)
{
    struct sonde_plot_page p = { .title = "" };
    const struct sonde_bench_saved *first = inputs[0].saved;
    const struct sonde_bench_result *last = &first->runs[first->count - 1];
    int rc = 0;
    for (size_t i = 0; i < count && !rc && !figure_count; i++) rc = plot_extra(&p, &inputs[i]);
    for (size_t i = 0; i < figure_count && !rc; i++) {
        const struct sonde_bench_figure *f = sonde_bench_figure_find(last, figures[i]);
        if (f) rc = plot_figure(&p, inputs, count, f);
        else {
            sonde_plot_page_release(&p);
            return sonde_err_set(err, SONDE_EINVAL, "'%.100s' has no figure '%.100s': `sonde bench "
                                 "show` lists them", inputs[0].name, figures[i]);
        }
    }
    /* A kind that has a picture of its own is not drawn figure by figure too. */
    const size_t most = p.count ? 0 : PLOT_FIGURES;
    for (size_t i = 0, n = 0; i < last->figure_count && n < most && !rc && !figure_count; i++) {
        if (!last->figures[i].better || isnan(last->figures[i].value)) continue;
        rc = plot_figure(&p, inputs, count, &last->figures[i]);
        n++;
    }
    if (rc) rc = sonde_err_memory(err);
    else if (!p.count) rc = sonde_err_set(err, SONDE_EINVAL, "there is nothing in it to draw");
    if (rc) sonde_plot_page_release(&p);
    else *out = p;
    return rc;
}

/* ---- For other pictures ---------------------------------------------------------------------- */

/* What is better in a direction; the rest are settings and counts. */
static int plot_data_figures(const struct sonde_bench_plot_input *input,
                             struct sonde_plot_data *out)
{
    const struct sonde_bench_result *r = &input->saved->runs[input->saved->count - 1];
    int rc = 0;
    for (size_t i = 0; i < r->figure_count && !rc && !sonde_plot_data_full(out); i++) {
        const struct sonde_bench_figure *f = &r->figures[i];
        if (!f->better || isnan(f->value)) continue;
        struct sonde_plot_series *s = sonde_plot_series_add(out, SONDE_ROLE_FIGURE, input->name,
                                                            f->name);
        if (!s) return SONDE_ENOMEM;
        s->unit = plot_unit(f->unit);
        s->better = f->better;
        const struct sonde_plot_value v = { .x = NAN, .y = f->value, .low = f->low,
                                            .high = f->high, .weight = 1 };
        rc = sonde_plot_value_add(out, s, &v);
    }
    return rc;
}

static int plot_data_scaling(const char *group, const json_t *extra, struct sonde_plot_data *out)
{
    const json_t *command, *point;
    size_t i, k;
    int rc = 0;
    json_array_foreach(json_object_get(extra, "commands"), i, command) {
        const char *title = json_string_value(json_object_get(command, "name"));
        const json_t *parallel = json_object_get(command, "parallel");
        if (rc || sonde_plot_data_full(out) || !json_array_size(parallel)) continue;
        struct sonde_plot_series *s = sonde_plot_series_add(out, SONDE_ROLE_SCALING, group,
                                                            title ? title : "");
        if (!s) return SONDE_ENOMEM;
        json_array_foreach(parallel, k, point) {
            const double copies = plot_number(point, "copies");
            const struct sonde_plot_value v = {
                .x = copies, .y = plot_number(point, "throughput_per_s"), .weight = 1,
                .low = copies / plot_deep(point, "wall_s", "high"),
                .high = copies / plot_deep(point, "wall_s", "low") };
            if (!rc) rc = sonde_plot_value_add(out, s, &v);
        }
    }
    return rc;
}

int sonde_bench_plot_data(const struct sonde_bench_plot_input *inputs, size_t count,
                          struct sonde_plot_data *out)
{
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        json_t *extra;
        rc = plot_data_figures(&inputs[i], out);
        if (!rc) rc = plot_extra_read(&inputs[i], &extra);
        if (rc) break;
        rc = plot_data_scaling(inputs[i].name, extra, out);
        json_decref(extra);
    }
    return rc;
}
