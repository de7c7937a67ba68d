/* requests_text.c - requests as a list, and one with all that is known of it: see requests.h. Drawn
 * as a grid, so that a terminal gets colours and a file does not. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "present/report/requests.h"
#include "present/top/pages.h"
#include "present/units.h"
#include "sonde/sonde.h"

enum { WIDTH_DEFAULT = 100, WIDTH_MIN = 40, LABEL = 12, AXIS_PARTS = 4 };

enum { REQUEST, MODEL, ROUTE, OUTCOME, TOTAL, QUEUE, TTFT, ITL, RATE, TOKENS, TIMELINE, COLUMNS };
#define FIGURE(text, number) \
    { .title = text, .align = SONDE_RIGHT, .want = 7, .drop = number }
static const struct sonde_column columns[COLUMNS] = {
    [REQUEST] = { .title = "REQUEST", .min = 16, .max = 36 },
    [MODEL] = { .title = "MODEL", .min = 6, .max = 20, .drop = 7 },
    [ROUTE] = { .title = "ROUTE", .min = 8, .max = 24, .drop = 8 },
    [OUTCOME] = { .title = "OUTCOME", .min = 9, .drop = 3 },
    [TOTAL] = FIGURE("TOTAL", 0),
    [QUEUE] = FIGURE("QUEUE", 9),
    [TTFT] = FIGURE("TTFT", 2),
    [ITL] = FIGURE("ITL", 4),
    [RATE] = { .title = "TOK/S", .align = SONDE_RIGHT, .drop = 5 },
    [TOKENS] = { .title = "TOKENS", .align = SONDE_RIGHT, .drop = 6 },
    [TIMELINE] = { .title = "TIMELINE", .min = 18, .want = 60, .drop = 1 },
};

/* ---- A list --------------------------------------------------------------------------------- */

static const char *requests_text_state_of(const struct sonde_infer_request *r)
{
    if (r->flags & SONDE_INFER_RUNNING) return "running";
    return *r->invalid ? "invalid" : sonde_infer_outcome_name(r->outcome);
}

static void requests_text_add_row(struct sonde_table *t, const struct sonde_infer_request *r,
                                  int ascii)
{
    char v[SONDE_VALUE_BYTES], name[SONDE_REQUEST_NAME];
#define CELL(column, known, value, unit)                                                       \
    sonde_table_cell(t, column, "%s",                                                          \
                     (known) ? sonde_value_format(v, value, unit, ascii) : ascii ? "-" : "–")
    sonde_table_row(t);
    sonde_table_cell(t, REQUEST, "%s", sonde_request_name(r, name));
    sonde_table_cell(t, MODEL, "%s", r->model);
    sonde_table_cell(t, ROUTE, "%s", r->route);
    sonde_table_cell(t, OUTCOME, "%s", requests_text_state_of(r));
    CELL(TOTAL, 1, r->total_s, SONDE_UNIT_SECONDS);
    CELL(QUEUE, r->phase_count[SONDE_PHASE_QUEUE], sonde_infer_queue_s(r), SONDE_UNIT_SECONDS);
    CELL(TTFT, sonde_infer_has_ttft(r), r->ttft_s, SONDE_UNIT_SECONDS);
    CELL(ITL, r->itl_count, r->itl_s, SONDE_UNIT_SECONDS);
    CELL(RATE, r->tokens_out, r->tokens_per_s, SONDE_UNIT_COUNT);
    sonde_table_cell(t, TOKENS, "%" PRIu64 "%s%" PRIu64, r->tokens_in, ascii ? ">" : "→",
                     r->tokens_out);
#undef CELL
}

int sonde_requests_list_init(struct sonde_requests_list *l,
                             const struct sonde_infer_request **items, size_t count, int ascii)
{
    *l = (struct sonde_requests_list){ .items = items, .count = count };
    sonde_table_init(&l->table, columns, COLUMNS);
    l->ids = sonde__calloc(count + 1, sizeof(*l->ids));
    if (!l->ids) return SONDE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const struct sonde_infer_request *r = items[i];
        requests_text_add_row(&l->table, r, ascii);
        l->ids[i] = sonde_top_row_id(r->own_id, r->program, r->id ^ r->arrived_ns);
        if (r->total_s > l->scale_s) l->scale_s = r->total_s;
    }
    return l->table.error;
}

void sonde_requests_list_release(struct sonde_requests_list *l)
{
    sonde_table_release(&l->table);
    sonde__free(l->ids);
}

unsigned sonde_requests_list_style(const void *list, size_t row, size_t column)
{
    const struct sonde_infer_request *r = ((const struct sonde_requests_list *)list)->items[row];
    if (column != OUTCOME) return SONDE_STYLE_NORMAL;
    if (r->flags & SONDE_INFER_RUNNING) return SONDE_STYLE_CYAN;
    if (*r->invalid || r->outcome == SONDE_ERROR) return SONDE_STYLE_RED;
    return r->outcome == SONDE_OK ? SONDE_STYLE_DIM : SONDE_STYLE_YELLOW;
}

int sonde_requests_list_fill(const void *list, size_t row, size_t column, struct sonde_grid *g,
                             int x, int y, int cells)
{
    const struct sonde_requests_list *l = list;
    if (column != TIMELINE) return 0;
    sonde_request_draw_bar(l->items[row], l->scale_s, g, x, y, cells);
    return 1;
}

int sonde_requests_list_column(enum sonde_requests_sort sort)
{
    static const int column[SONDE_REQUESTS_SORT_COUNT] = {
        [SONDE_REQUESTS_SLOWEST] = TOTAL, [SONDE_REQUESTS_NEWEST] = -1,
        [SONDE_REQUESTS_OLDEST] = -1,
        [SONDE_REQUESTS_TTFT] = TTFT, [SONDE_REQUESTS_ITL] = ITL,
        [SONDE_REQUESTS_QUEUE] = QUEUE, [SONDE_REQUESTS_TOKENS] = TOKENS,
    };
    assert(sort < SONDE_REQUESTS_SORT_COUNT);
    return column[sort];
}

/* ---- As text -------------------------------------------------------------------------------- */

static int requests_text_width_of(const struct sonde_requests_style *style)
{
    if (style->width <= 0) return WIDTH_DEFAULT;
    return style->width < WIDTH_MIN ? WIDTH_MIN : style->width;
}

static void print_grid(const struct sonde_grid *g, int colour, struct sonde_buf *out)
{
    if (colour) sonde_grid_print_colour(g, out);
    else sonde_grid_print(g, out);
}

/* What the cells of bars that are shown mean; of a list, only those that there are. */
static void draw_legend(const struct sonde_infer_request **items, size_t count,
                        struct sonde_grid *g, int y)
{
    int used[SONDE_BAR_KINDS] = { 0 }, x = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned char bar[64];
        sonde_request_bar(items[i], items[i]->total_s, bar, (int)sizeof(bar));
        for (size_t k = 0; k < sizeof(bar); k++) used[bar[k]] = 1;
    }
    for (int k = SONDE_BAR_WAIT; k < SONDE_BAR_KINDS; k++) {
        const enum sonde_bar cell = (enum sonde_bar)k;
        if (!used[k]) continue;
        const int cells = 2 + sonde_text_cells(sonde_bar_name(cell), g->ascii);
        if (x && x + cells > g->width) break;
        sonde_grid_text(g, x, y, 1, sonde_bar_style(cell), sonde_bar_glyph(cell, g->ascii));
        sonde_grid_text(g, x + 2, y, g->width - x - 2, SONDE_STYLE_DIM, sonde_bar_name(cell));
        x += cells + 3;
    }
}

int sonde_requests_text(const struct sonde_infer_request **items, size_t count,
                        enum sonde_requests_sort sort, const struct sonde_requests_style *style,
                        struct sonde_buf *out)
{
    if (count > SONDE_REQUESTS_TEXT_MAX) count = SONDE_REQUESTS_TEXT_MAX;
    struct sonde_requests_list l;
    struct sonde_grid g;
    int rc = sonde_requests_list_init(&l, items, count, style->ascii);
    if (!rc) rc = sonde_grid_init(&g, requests_text_width_of(style), (int)count + 4, style->ascii);
    if (!rc) {
        const struct sonde_top_list list = {
            .table = &l.table, .sorted = sonde_requests_list_column(sort),
            .style = sonde_requests_list_style, .fill = sonde_requests_list_fill, .arg = &l };
        const int rows = sonde_top_draw_list(NULL, &list, &g, (struct sonde_top_area){
            .y = 0, .height = (int)count + 2 });
        draw_legend(items, count, &g, rows + 1);
        print_grid(&g, style->colour, out);
        sonde_grid_release(&g);
        rc = out->error;
    }
    sonde_requests_list_release(&l);
    return rc;
}

/* ---- One request ----------------------------------------------------------------------------- */

struct page { struct sonde_grid *g; int y; };

static void requests_text_put(struct page *p, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void requests_text_put(struct page *p, const char *label, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    sonde_grid_text(p->g, 0, p->y, LABEL, SONDE_STYLE_DIM, label);
    sonde_grid_field(p->g, LABEL, p->y++, p->g->width - LABEL, 0, SONDE_STYLE_NORMAL, text);
}

static void requests_text_put_who(struct page *p, const struct sonde_infer_request *r)
{
    char name[SONDE_REQUEST_NAME], when[64] = "";
    const time_t arrived = (time_t)(r->arrived_ns / 1000000000u);
    struct tm tm;
    if (localtime_r(&arrived, &tm)) strftime(when, sizeof(when), "%F %T", &tm);
    sonde_grid_field(p->g, 0, p->y++, p->g->width, 0, SONDE_STYLE_BOLD,
                     sonde_request_name(r, name));
    requests_text_put(p, "outcome", "%s%s%s%s%s", requests_text_state_of(r), *r->error ? ": " : "",
                      r->error, *r->invalid ? ", cannot be: " : "", r->invalid);
    requests_text_put(p, "arrived", "%s.%03u", when, (unsigned)(r->arrived_ns / 1000000 % 1000));
    requests_text_put(p, "model", "%s%s%s%s%s%s%s", *r->model ? r->model : "not known",
                      *r->backend ? " on " : "", r->backend, *r->route ? ", route " : "", r->route,
                      r->flags & SONDE_INFER_SLO_MET ? ", objectives met" : "",
                      r->flags & SONDE_INFER_SLO_MISSED ? ", objectives missed" : "");
    if (r->pid) {
        requests_text_put(p, "process", "%u %s, by %s", r->pid, r->program,
                          sonde_infer_source_name(r->source));
    }
    requests_text_put(p, "id", "%016" PRIx64, r->id);
    if (r->trace_hi || r->trace_lo) {
        requests_text_put(p, "trace", "%016" PRIx64 "%016" PRIx64, r->trace_hi, r->trace_lo);
    }
    char attributes[512] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < r->attr_count && used < sizeof(attributes); i++) {
        used += (size_t)snprintf(attributes + used, sizeof(attributes) - used, "%s%s=%s",
                                 i ? " " : "", r->attrs[i].key, r->attrs[i].value);
    }
    if (used) requests_text_put(p, "attributes", "%s", attributes);
}

static void requests_text_put_figures(struct page *p, const struct sonde_infer_request *r)
{
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES], c[SONDE_VALUE_BYTES], d[SONDE_VALUE_BYTES],
        e[SONDE_VALUE_BYTES];
    const int ascii = p->g->ascii;
#define TIME(to, v) sonde_value_format(to, v, SONDE_UNIT_SECONDS, ascii)
    requests_text_put(p, "total", "%s", TIME(a, r->total_s));
    if (r->flags & SONDE_INFER_INCOMPLETE) {
        requests_text_put(p, "first token", "not known: it began before what is known of it");
    } else if (r->tokens_out) {
        requests_text_put(p, "first token", "%s", TIME(a, r->ttft_s));
    }
    if (r->tokens_in) {
        requests_text_put(p, "prompt", "%" PRIu64 " tokens, %" PRIu64 " of them reused (%s)",
                          r->tokens_in, r->tokens_reused,
                          sonde_value_format(a, r->hit_ratio, SONDE_UNIT_RATIO, ascii));
    }
    if (r->tokens_out && r->tokens_max) {
        requests_text_put(p, "output", "%" PRIu64 " tokens of at most %" PRIu64 ", %s/s",
                          r->tokens_out, r->tokens_max,
                          sonde_value_format(a, r->tokens_per_s, SONDE_UNIT_COUNT, ascii));
    } else if (r->tokens_out) {
        requests_text_put(p, "output", "%" PRIu64 " tokens, %s/s", r->tokens_out,
                          sonde_value_format(a, r->tokens_per_s, SONDE_UNIT_COUNT, ascii));
    }
    if (r->itl_count) {
        requests_text_put(p, "between", "mean %s, p50 %s, p95 %s, p99 %s, max %s",
                          TIME(a, r->itl_s), TIME(b, r->itl_p50_s), TIME(c, r->itl_p95_s),
                          TIME(d, r->itl_p99_s), TIME(e, r->itl_max_s));
    }
    if (r->batches) requests_text_put(p, "batches", "%" PRIu64 " forward passes", r->batches);
    if (r->memory_bytes) {
        requests_text_put(p, "memory", "%s for its model",
                          sonde_value_format(a, (double)r->memory_bytes, SONDE_UNIT_BYTES, ascii));
    }
#undef TIME
}

static void requests_text_put_phases(struct page *p, const struct sonde_infer_request *r)
{
    char v[SONDE_VALUE_BYTES], line[128];
    const int ascii = p->g->ascii;
    p->y++;
    sonde_grid_text(p->g, 0, p->y++, p->g->width, SONDE_STYLE_DIM,
                    "PHASE           TIME       %   TIMES");
    for (uint32_t i = 1; i <= SONDE_PHASE_COUNT; i++) {
        const uint32_t k = i % SONDE_PHASE_COUNT; /* those without a kind last */
        if (!r->phase_count[k]) continue;
        snprintf(line, sizeof(line), "%s%s", sonde_phase_title(k),
                 k == SONDE_PHASE_QUEUE && r->flags & SONDE_INFER_QUEUE_DERIVED ? "*" : "");
        sonde_grid_field(p->g, 0, p->y, LABEL, 0, SONDE_STYLE_NORMAL, line);
        sonde_grid_field(p->g, LABEL - 1, p->y, 9, 1, SONDE_STYLE_NORMAL,
                         sonde_value_format(v, r->phase_s[k], SONDE_UNIT_SECONDS, ascii));
        snprintf(line, sizeof(line), "%.1f", r->total_s > 0 ? 100 * r->phase_s[k] / r->total_s : 0);
        sonde_grid_field(p->g, LABEL + 9, p->y, 7, 1, SONDE_STYLE_NORMAL, line);
        snprintf(line, sizeof(line), "%" PRIu64, r->phase_count[k]);
        sonde_grid_field(p->g, LABEL + 16, p->y++, 8, 1, SONDE_STYLE_NORMAL, line);
    }
    if (r->flags & SONDE_INFER_QUEUE_DERIVED) {
        sonde_grid_text(p->g, 0, p->y++, p->g->width, SONDE_STYLE_DIM,
                        "* from arrival to the first work on it: the engine does not tell");
    }
}

static void requests_text_put_timeline(struct page *p, const struct sonde_infer_request *r)
{
    struct sonde_grid *g = p->g;
    char v[SONDE_VALUE_BYTES];
    p->y++;
    sonde_request_draw_bar(r, r->total_s, g, 0, p->y++, g->width);
    for (int i = 0; i <= AXIS_PARTS; i++) {
        const char *text = i ? sonde_value_format(v, r->total_s * i / AXIS_PARTS,
                                                  SONDE_UNIT_SECONDS, g->ascii) : "0";
        const int cells = sonde_text_cells(text, g->ascii);
        const int at = (g->width - 1) * i / AXIS_PARTS;
        const int x = i == AXIS_PARTS ? g->width - cells : i ? at - cells / 2 : 0;
        sonde_grid_text(g, x, p->y, cells, SONDE_STYLE_DIM, text);
    }
    p->y += 2;
    draw_legend(&r, 1, g, p->y++);
}

int sonde_request_text(const struct sonde_infer_request *r,
                       const struct sonde_requests_style *style, struct sonde_buf *out)
{
    enum { ROWS = 48 };
    struct sonde_grid g;
    const int rc = sonde_grid_init(&g, requests_text_width_of(style), ROWS, style->ascii);
    if (rc) return rc;
    struct page p = { &g, 0 };
    requests_text_put_who(&p, r);
    requests_text_put_figures(&p, r);
    requests_text_put_phases(&p, r);
    requests_text_put_timeline(&p, r);
    print_grid(&g, style->colour, out);
    sonde_grid_release(&g);
    return out->error;
}
