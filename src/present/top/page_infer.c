/* page_infer.c - inference: how much is going on, where its time goes, models with their
 * memory, percentiles by route, and the requests that are chosen by how they are sorted. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "present/top/pages.h"
#include "present/units.h"
#include "sonde/sonde.h"

enum { MODEL_LINES = 4, LIST_ROWS_MIN = 5, PHASE_BAR = 24, ONCE_REQUESTS = 20 };

enum {
    R_NAME, R_RATE, R_TTFT50, R_TTFT95, R_TTFT99, R_ITL50, R_ITL95, R_ITL99, R_TOTAL50, R_TOTAL95,
    R_TOTAL99, R_FAILED, R_COLUMNS
};
#define FIGURE_COLUMN(text, number) \
    { .title = text, .align = SONDE_RIGHT, .want = 7, .drop = number }
static const struct sonde_column route_columns[R_COLUMNS] = {
    [R_NAME] = { .title = "MODEL AND ROUTE", .min = 12, .want = 20, .max = 48 },
    [R_RATE] = { .title = "REQ/s", .align = SONDE_RIGHT, .drop = 6 },
    [R_TTFT50] = FIGURE_COLUMN("TTFT P50", 1),
    [R_TTFT95] = FIGURE_COLUMN("P95", 4),
    [R_TTFT99] = FIGURE_COLUMN("P99", 2),
    [R_ITL50] = FIGURE_COLUMN("ITL P50", 1),
    [R_ITL95] = FIGURE_COLUMN("P95", 5),
    [R_ITL99] = FIGURE_COLUMN("P99", 3),
    [R_TOTAL50] = FIGURE_COLUMN("TOTAL P50", 8),
    [R_TOTAL95] = FIGURE_COLUMN("P95", 10),
    [R_TOTAL99] = FIGURE_COLUMN("P99", 9),
    [R_FAILED] = { .title = "FAILED", .align = SONDE_RIGHT, .drop = 7 },
};

/* What is shown of it: of one process, or of all. */
struct top_page_infer_view {
    const struct sonde_top_state *s;
    const struct sonde_top_inference *x;
    const struct sonde_top_engine *e;
    struct sonde_grid *g;
    int y, end;
};

static int of_view(const struct top_page_infer_view *v, uint32_t pid)
{
    return !v->s->pid || v->s->pid == pid;
}

static double top_page_infer_plus(double sum, double v) { return isnan(v) ? sum : sum + v; }

/* ---- Lines ----------------------------------------------------------------------------------- */

static void draw_requests_line(struct top_page_infer_view *v)
{
    double running = 0, waiting = 0, per_s = 0, failed = 0, cancelled = 0, lost = 0, met = 0,
           missed = 0;
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    const int ascii = v->g->ascii;
    for (size_t i = 0; i < v->x->model_count; i++) {
        if (!of_view(v, v->x->models[i].pid)) continue;
        running = top_page_infer_plus(running, v->x->models[i].running);
        waiting = top_page_infer_plus(waiting, v->x->models[i].waiting);
    }
    for (size_t i = 0; i < v->x->route_count; i++) {
        const struct sonde_top_route *r = &v->x->routes[i];
        if (!of_view(v, r->pid)) continue;
        per_s = top_page_infer_plus(per_s, r->per_s);
        failed = top_page_infer_plus(failed, r->failed);
        cancelled = top_page_infer_plus(cancelled, r->cancelled);
        lost = top_page_infer_plus(lost, r->lost);
        met = top_page_infer_plus(met, r->slo_met);
        missed = top_page_infer_plus(missed, r->slo_missed);
    }
#define COUNT(to, value) sonde_value_format(to, value, SONDE_UNIT_COUNT, ascii)
    struct sonde_top_part part[7] = { 0 };
    snprintf(part[0].text, sizeof(part[0].text), "%s requests/s", COUNT(a, per_s));
    snprintf(part[1].text, sizeof(part[1].text), "%s running", COUNT(a, running));
    snprintf(part[2].text, sizeof(part[2].text), "%s waiting", COUNT(a, waiting));
    if (waiting > 0) part[2].style = SONDE_STYLE_YELLOW;
    snprintf(part[3].text, sizeof(part[3].text), "%s failed, %s cancelled", COUNT(a, failed),
             COUNT(b, cancelled));
    if (failed > 0) part[3].style = SONDE_STYLE_RED;
    if (met + missed > 0) {
        snprintf(part[4].text, sizeof(part[4].text), "goodput %s",
                 sonde_value_format(a, met / (met + missed), SONDE_UNIT_RATIO, ascii));
    }
    if (lost > 0) snprintf(part[5].text, sizeof(part[5].text), "%s lost", COUNT(a, lost));
    if (v->x->invalid > 0) {
        snprintf(part[6].text, sizeof(part[6].text), "%s events not used", COUNT(a, v->x->invalid));
        part[6].style = SONDE_STYLE_YELLOW;
    }
#undef COUNT
    sonde_top_parts(v->g, 0, v->y++, part, SONDE_COUNT(part));
}

static void draw_tokens_line(struct top_page_infer_view *v)
{
    double out = 0, decode = 0, prefill = 0, user = 0, routes = 0;
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES], c[SONDE_VALUE_BYTES];
    const int ascii = v->g->ascii;
    for (size_t i = 0; i < v->x->model_count; i++) {
        const struct sonde_top_model *m = &v->x->models[i];
        if (!of_view(v, m->pid)) continue;
        out = top_page_infer_plus(out, m->output_per_s);
        decode = top_page_infer_plus(decode, m->decode_per_s);
        prefill = top_page_infer_plus(prefill, m->prefill_per_s);
    }
    /* Of several routes the mean of their medians, by requests. */
    for (size_t i = 0; i < v->x->route_count; i++) {
        const struct sonde_top_route *r = &v->x->routes[i];
        const double n = r->duration.count > 0 ? r->duration.count : 0;
        if (!of_view(v, r->pid) || isnan(r->user_per_s) || !(n > 0)) continue;
        user += r->user_per_s * n;
        routes += n;
    }
#define COUNT(to, value) sonde_value_format(to, value, SONDE_UNIT_COUNT, ascii)
    struct sonde_top_part part[3] = { 0 };
    snprintf(part[0].text, sizeof(part[0].text), "tokens/s: %s out in all", COUNT(a, out));
    if (routes > 0) {
        snprintf(part[1].text, sizeof(part[1].text), "%s as a user sees", COUNT(a, user / routes));
        part[1].style = SONDE_STYLE_BOLD;
    }
    snprintf(part[2].text, sizeof(part[2].text), "computed %s decode, %s prefill",
             COUNT(b, decode), COUNT(c, prefill));
#undef COUNT
    sonde_top_parts(v->g, 0, v->y++, part, 3);
}

/* As many as a line has room for. */
enum { ENGINE_PARTS = 5 };

static void draw_devices_line(struct top_page_infer_view *v)
{
    struct sonde_top_part part[ENGINE_PARTS] = { 0 };
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    size_t n = 0;
    double fallbacks = 0;
    for (size_t i = 0; i < v->e->device_count; i++) {
        const struct sonde_top_device *d = &v->e->devices[i];
        if (!of_view(v, d->pid)) continue;
        fallbacks = top_page_infer_plus(fallbacks, d->fallbacks);
        if (n + 1 == ENGINE_PARTS) continue;
        snprintf(part[n].text, sizeof(part[n].text), "%s%.24s %s ops, %s", n ? "" : "devices: ",
                 d->device, sonde_value_format(a, d->operations, SONDE_UNIT_COUNT, v->g->ascii),
                 sonde_value_format(b, d->seconds, SONDE_UNIT_SECONDS, v->g->ascii));
        n++;
    }
    if (!n) return;
    if (fallbacks > 0) {
        snprintf(part[n].text, sizeof(part[n].text), "%s fallbacks",
                 sonde_value_format(a, fallbacks, SONDE_UNIT_COUNT, v->g->ascii));
        part[n++].style = SONDE_STYLE_YELLOW;
    }
    sonde_top_parts(v->g, 0, v->y++, part, n);
}

static void draw_tokenizers_line(struct top_page_infer_view *v)
{
    struct sonde_top_part part[ENGINE_PARTS] = { 0 };
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES], cache[SONDE_VALUE_BYTES + 24];
    size_t n = 0;
    for (size_t i = 0; i < v->e->tokenizer_count && n < ENGINE_PARTS; i++) {
        const struct sonde_top_tokenizer *t = &v->e->tokenizers[i];
        if (!of_view(v, t->pid)) continue;
        cache[0] = '\0';
        if (!isnan(t->hit_ratio)) {
            snprintf(cache, sizeof(cache), ", %s cache hits",
                     sonde_value_format(b, t->hit_ratio, SONDE_UNIT_RATIO, v->g->ascii));
        }
        snprintf(part[n].text, sizeof(part[n].text), "%s%.24s %s tokens/s%s",
                 n ? "" : "tokenizer: ", t->tokenizer,
                 sonde_value_format(a, t->tokens_per_s, SONDE_UNIT_COUNT, v->g->ascii), cache);
        n++;
    }
    if (n) sonde_top_parts(v->g, 0, v->y++, part, n);
}

static enum sonde_bar top_page_infer_bar_of(size_t phase)
{
    return phase == SONDE_PHASE_QUEUE     ? SONDE_BAR_WAIT
           : phase == SONDE_PHASE_PREFILL ? SONDE_BAR_PREFILL
           : phase == SONDE_PHASE_DECODE  ? SONDE_BAR_DECODE : SONDE_BAR_OTHER;
}

/* Shares of what requests that ended in the window spent, as a bar and in words. */
static void draw_phases_line(struct top_page_infer_view *v)
{
    double phase_s[SONDE_PHASE_COUNT] = { 0 }, total = 0, before = 0;
    struct sonde_grid *g = v->g;
    for (size_t i = 0; i < v->x->route_count; i++) {
        if (!of_view(v, v->x->routes[i].pid)) continue;
        for (size_t k = 1; k < SONDE_PHASE_COUNT; k++) phase_s[k] += v->x->routes[i].phase_s[k];
    }
    for (size_t k = 1; k < SONDE_PHASE_COUNT; k++) total += phase_s[k];
    if (!(total > 0)) return;
    const int cells = g->width >= 60 ? PHASE_BAR : g->width / 3;
    int x = sonde_grid_text(g, 0, v->y, g->width, SONDE_STYLE_NORMAL, "phases ");
    struct sonde_top_part part[SONDE_PHASE_COUNT] = { 0 };
    for (size_t k = 1; k < SONDE_PHASE_COUNT; k++) {
        const enum sonde_bar look = top_page_infer_bar_of(k);
        const int from = (int)(before / total * cells + 0.5);
        before += phase_s[k];
        const int to = (int)(before / total * cells + 0.5);
        for (int i = from; i < to; i++) {
            sonde_grid_text(g, x + i, v->y, 1, sonde_bar_style(look),
                            sonde_bar_glyph(look, g->ascii));
        }
        char a[SONDE_VALUE_BYTES];
        if (phase_s[k] < 0.001 * total) continue;
        snprintf(part[k].text, sizeof(part[k].text), "%s %s", sonde_phase_name(k),
                 sonde_value_format(a, phase_s[k] / total, SONDE_UNIT_RATIO, g->ascii));
    }
    x += cells + 2;
    if (x < g->width) sonde_top_parts(g, x, v->y, part + 1, SONDE_PHASE_COUNT - 1);
    v->y++;
}

/* Memory has a line of its own where all does not fit on one. */
static void draw_model_line(struct top_page_infer_view *v, const struct sonde_top_model *m)
{
    struct sonde_top_part part[4] = { 0 };
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    const int ascii = v->g->ascii;
    snprintf(part[0].text, sizeof(part[0].text), "%.60s%s%.24s", *m->model ? m->model : "no name",
             *m->backend ? " on " : "", m->backend);
    part[0].style = SONDE_STYLE_BOLD;
    if (m->kv_total > 0) {
        snprintf(part[1].text, sizeof(part[1].text), "KV %s of %s cells",
                 sonde_value_format(a, m->kv_used / m->kv_total, SONDE_UNIT_RATIO, ascii),
                 sonde_value_format(b, m->kv_total, SONDE_UNIT_COUNT, ascii));
        if (m->kv_used / m->kv_total >= 0.9) part[1].style = SONDE_STYLE_RED;
    }
    if (!isnan(m->hit_ratio)) {
        snprintf(part[2].text, sizeof(part[2].text), "prefix hits %s",
                 sonde_value_format(a, m->hit_ratio, SONDE_UNIT_RATIO, ascii));
    }
    size_t used = 0;
    for (size_t i = 0; i < m->memory_count && used < sizeof(part[3].text); i++) {
        used += (size_t)snprintf(part[3].text + used, sizeof(part[3].text) - used, "%s%.24s %s",
                                 i ? ", " : "", m->memory[i].kind,
                                 sonde_value_format(a, m->memory[i].bytes, SONDE_UNIT_BYTES,
                                                    ascii));
    }
    const int x = sonde_top_parts(v->g, 0, v->y, part, 3);
    const int below = x + 3 + sonde_text_cells(part[3].text, ascii) > v->g->width;
    if (part[3].text[0] && !below) {
        sonde_grid_text(v->g, x, v->y, 3, SONDE_STYLE_DIM, " · ");
        sonde_top_parts(v->g, x + 3, v->y, &part[3], 1);
    } else if (part[3].text[0] && v->y + 1 < v->end) {
        sonde_top_parts(v->g, 2, ++v->y, &part[3], 1);
    }
    v->y++;
}

static void draw_models(struct top_page_infer_view *v)
{
    size_t count = 0, shown = 0;
    for (size_t i = 0; i < v->x->model_count; i++) count += of_view(v, v->x->models[i].pid) != 0;
    const size_t room = v->s->once ? count : MODEL_LINES;
    for (size_t i = 0; i < v->x->model_count && v->y < v->end && shown < room; i++) {
        if (!of_view(v, v->x->models[i].pid)) continue;
        draw_model_line(v, &v->x->models[i]);
        shown++;
    }
    if (shown < count && v->y < v->end) {
        char more[64];
        snprintf(more, sizeof(more), "and %zu more models", count - shown);
        sonde_grid_text(v->g, 0, v->y++, v->g->width, SONDE_STYLE_DIM, more);
    }
}

/* ---- Routes ---------------------------------------------------------------------------------- */

static void add_route(struct sonde_table *t, const struct sonde_top_route *r, int ascii)
{
    char v[SONDE_VALUE_BYTES];
    sonde_table_row(t);
    sonde_table_cell(t, R_NAME, "%s%s%s", r->model, *r->model && *r->route ? " " : "", r->route);
#define FIGURE(column, value, unit) \
    sonde_table_cell(t, column, "%s", sonde_value_format(v, value, unit, ascii))
    FIGURE(R_RATE, r->per_s, SONDE_UNIT_COUNT);
    FIGURE(R_TTFT50, r->ttft.p50, SONDE_UNIT_SECONDS);
    FIGURE(R_TTFT95, r->ttft.p95, SONDE_UNIT_SECONDS);
    FIGURE(R_TTFT99, r->ttft.p99, SONDE_UNIT_SECONDS);
    FIGURE(R_ITL50, r->itl.p50, SONDE_UNIT_SECONDS);
    FIGURE(R_ITL95, r->itl.p95, SONDE_UNIT_SECONDS);
    FIGURE(R_ITL99, r->itl.p99, SONDE_UNIT_SECONDS);
    FIGURE(R_TOTAL50, r->duration.p50, SONDE_UNIT_SECONDS);
    FIGURE(R_TOTAL95, r->duration.p95, SONDE_UNIT_SECONDS);
    FIGURE(R_TOTAL99, r->duration.p99, SONDE_UNIT_SECONDS);
    FIGURE(R_FAILED, r->failed, SONDE_UNIT_COUNT);
#undef FIGURE
}

/* At most a third of what is left, so that requests stay in sight. */
static int draw_routes(struct top_page_infer_view *v)
{
    struct sonde_table t;
    sonde_table_init(&t, route_columns, R_COLUMNS);
    for (size_t i = 0; i < v->x->route_count; i++) {
        if (of_view(v, v->x->routes[i].pid)) add_route(&t, &v->x->routes[i], v->g->ascii);
    }
    const int rc = t.error;
    const int room = v->s->once ? (int)t.row_count + 1 : (v->end - v->y) / 3;
    const int wanted = (int)t.row_count + 1 < room ? (int)t.row_count + 1 : room;
    if (!rc && t.row_count && wanted > 1) {
        const struct sonde_top_list list = { .table = &t, .sorted = -1 };
        /* Titles are shown from three rows of room on. */
        v->y += sonde_top_draw_list(NULL, &list, v->g, (struct sonde_top_area){
            .y = v->y, .height = wanted < 3 ? 3 : wanted });
    }
    sonde_table_release(&t);
    return rc;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static int draw_list(struct sonde_top_state *s, struct top_page_infer_view *v)
{
    const struct sonde_requests *r = &v->x->requests;
    const struct sonde_infer_request **items = sonde__calloc(r->count + 1, sizeof(*items));
    const enum sonde_requests_sort sort = (enum sonde_requests_sort)s->sort[s->page];
    if (!items) return SONDE_ENOMEM;
    size_t n = 0;
    const size_t most = s->once ? ONCE_REQUESTS : SIZE_MAX;
    for (size_t i = 0; i < r->count && n < most; i++) {
        if (of_view(v, r->list[i].pid)) items[n++] = &r->list[i];
    }
    struct sonde_requests_list l;
    const int rc = sonde_requests_list_init(&l, items, n, v->g->ascii);
    if (!rc && n && v->y < v->end) {
        struct sonde_top_cursor *cursor = sonde_top_cursor(s);
        const struct sonde_top_list list = {
            .table = &l.table, .ids = l.ids, .cursor = cursor,
            .sorted = sonde_requests_list_column(sort), .style = sonde_requests_list_style,
            .fill = sonde_requests_list_fill, .arg = &l };
        sonde_top_draw_list(s, &list, v->g, (struct sonde_top_area){
            .y = v->y, .height = v->end - v->y });
        const struct sonde_infer_request *chosen = items[cursor->index];
        if (chosen->trace_hi || chosen->trace_lo) {
            snprintf(s->row_trace, sizeof(s->row_trace), "%016llx%016llx",
                     (unsigned long long)chosen->trace_hi, (unsigned long long)chosen->trace_lo);
        }
    }
    sonde_requests_list_release(&l);
    sonde__free(items);
    return rc;
}

static void draw_sort_line(struct top_page_infer_view *v)
{
    const struct sonde_requests *r = &v->x->requests;
    struct sonde_top_part part[3] = { 0 };
    const size_t shown = v->s->once && r->count > ONCE_REQUESTS ? ONCE_REQUESTS : r->count;
    snprintf(part[0].text, sizeof(part[0].text), "%zu of %zu requests, %s first", shown, r->total,
             sonde_requests_sorts[v->s->sort[v->s->page]]);
    if (v->s->pid) snprintf(part[1].text, sizeof(part[1].text), "process %u", v->s->pid);
    snprintf(part[2].text, sizeof(part[2].text), "percentiles of the last %g s", v->x->window_s);
    for (int i = 0; i < 3; i++) part[i].style = SONDE_STYLE_DIM;
    sonde_top_parts(v->g, 0, v->y++, part, 3);
}

int sonde_top_page_infer(struct sonde_top_state *s, const struct sonde_top_data *d,
                         struct sonde_grid *g, struct sonde_top_area area)
{
    static const char *const nothing[] = {
        "No inference has been seen.",
        "Start an engine:        sonde run -- llama-server -m model.gguf",
        "Or be a server's front: sonde serve --upstream http://127.0.0.1:8000",
        "Or use sonde/inference.h in your engine.", NULL };
    struct top_page_infer_view v = { s, &d->inference, &d->engine, g, area.y,
                                     area.y + area.height };
    if (!v.x->model_count && !v.x->route_count && !v.x->requests.count && !v.e->device_count &&
        !v.e->tokenizer_count) {
        sonde_top_message(g, area, nothing);
        return 0;
    }
    /* What is at the top gives way where there is no room for a few requests. */
    const int roomy = area.height >= 12;
    draw_requests_line(&v);
    if (v.y < v.end - LIST_ROWS_MIN) draw_tokens_line(&v);
    if (v.y < v.end - LIST_ROWS_MIN) draw_phases_line(&v);
    if (roomy && v.y < v.end - LIST_ROWS_MIN) draw_devices_line(&v);
    if (roomy && v.y < v.end - LIST_ROWS_MIN) draw_tokenizers_line(&v);
    if (roomy && v.y < v.end - LIST_ROWS_MIN) draw_models(&v);
    int rc = 0;
    if (roomy && v.y < v.end - 2 * LIST_ROWS_MIN) {
        v.y++;
        rc = draw_routes(&v);
        v.y++;
    }
    if (v.y < v.end - LIST_ROWS_MIN) draw_sort_line(&v);
    return rc ? rc : draw_list(s, &v);
}
