/* list.c - what the pages of `sonde top` are made of: a table with a cursor that stays on its
 * row, a line of parts, a message. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "present/top/pages.h"

int sonde_top_compare(double a, double b, int reverse)
{
    if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
    const int order = (a < b) - (a > b);
    return reverse ? -order : order;
}

uint64_t sonde_top_row_id(const char *a, const char *b, uint64_t n)
{
    static const unsigned char border = 0xff; /* so that "ab","c" and "a","bc" differ */
    uint64_t h = sonde_fnv64_text(SONDE_FNV64_SEED ^ n, a);
    h = sonde_fnv64_text(sonde_fnv64(h, &border, 1), b);
    return h ? h : 1;
}

struct sonde_top_cursor *sonde_top_cursor(struct sonde_top_state *s)
{
    assert((size_t)s->page < SONDE_TOP_PAGES);
    if (s->page != SONDE_TOP_SPANS) return &s->cursor[s->page];
    return &s->cursor[SONDE_TOP_PAGES + (int)s->view];
}

void sonde_top_place(struct sonde_top_cursor *c, const uint64_t *ids, size_t count, size_t shown)
{
    assert(ids || !count);
    if (count == 0) {
        c->index = c->scroll = 0;
        c->moved = 0;
        return;
    }
    if (!c->moved) {
        if (!c->id) c->index = 0;
        for (size_t i = 0; c->id && i < count; i++) {
            if (ids[i] != c->id) continue;
            c->index = i;
            break;
        }
    }
    if (c->index >= count) c->index = count - 1;
    if (c->moved) c->id = c->index ? ids[c->index] : 0;
    c->moved = 0;

    if (shown == 0) shown = 1;
    if (c->index < c->scroll) c->scroll = c->index;
    if (c->index >= c->scroll + shown) c->scroll = c->index - shown + 1;
    if (c->scroll + shown > count) c->scroll = count > shown ? count - shown : 0;
}

static void draw_titles(const struct sonde_top_list *list, const int *width, struct sonde_grid *g,
                        int y)
{
    const struct sonde_table *t = list->table;
    int x = 0;
    sonde_grid_field(g, 0, y, g->width, 0, SONDE_STYLE_DIM, "");
    for (size_t c = 0; c < t->column_count; c++) {
        if (!width[c]) continue;
        const unsigned style = (int)c == list->sorted ? SONDE_STYLE_BOLD : SONDE_STYLE_DIM;
        sonde_grid_field(g, x, y, width[c], t->columns[c].align == SONDE_RIGHT, style,
                         t->columns[c].title);
        x += width[c] + SONDE_TABLE_GAP;
    }
}

static void draw_row(const struct sonde_top_list *list, const int *width, size_t row,
                     struct sonde_grid *g, int y)
{
    assert(row < list->table->row_count);
    const struct sonde_table *t = list->table;
    int x = 0;
    for (size_t c = 0; c < t->column_count; c++) {
        if (!width[c]) continue;
        if (!list->fill || !list->fill(list->arg, row, c, g, x, y, width[c])) {
            const unsigned style = list->style ? list->style(list->arg, row, c) : 0;
            sonde_grid_field(g, x, y, width[c], t->columns[c].align == SONDE_RIGHT, style,
                             sonde_table_text(t, row, c));
        }
        x += width[c] + SONDE_TABLE_GAP;
    }
}

int sonde_top_draw_list(struct sonde_top_state *s, const struct sonde_top_list *list,
                        struct sonde_grid *g, struct sonde_top_area area)
{
    const struct sonde_table *t = list->table;
    int width[SONDE_TABLE_COLUMNS_MAX];
    if (area.height < 1) return 0;
    sonde_table_fit(t, g->width, g->ascii, width);

    /* With two rows or less the titles give way to the rows. */
    int y = area.y;
    if (area.height > 2) draw_titles(list, width, g, y++);
    const size_t shown = (size_t)(area.y + area.height - y);
    size_t from = 0;
    if (list->cursor) {
        sonde_top_place(list->cursor, list->ids, t->row_count, shown);
        from = list->cursor->scroll;
        s->row_count = t->row_count;
        s->rows_shown = shown;
    }
    for (size_t row = from; row < t->row_count && row - from < shown; row++, y++) {
        draw_row(list, width, row, g, y);
        if (list->cursor && row == list->cursor->index && !s->once) {
            sonde_grid_restyle(g, 0, y, g->width, SONDE_STYLE_REVERSE);
        }
    }
    return y - area.y;
}

void sonde_top_message(struct sonde_grid *g, struct sonde_top_area area, const char *const *lines)
{
    int count = 0, widest = 0;
    for (; lines[count]; count++) {
        const int cells = sonde_text_cells(lines[count], g->ascii);
        if (cells > widest) widest = cells;
    }
    const int x = widest < g->width ? (g->width - widest) / 2 : 0;
    int y = area.y + (area.height > count + 4 ? 2 : 0);
    for (int i = 0; i < count && y < area.y + area.height; i++, y++) {
        sonde_grid_field(g, x, y, widest < g->width ? widest : g->width, 0,
                         i ? SONDE_STYLE_NORMAL : SONDE_STYLE_BOLD, lines[i]);
    }
}

int sonde_top_parts(struct sonde_grid *g, int x, int y, const struct sonde_top_part *parts,
                    size_t count)
{
    const int start = x;
    for (size_t i = 0; i < count; i++) {
        if (!parts[i].text[0]) continue;
        const int cells = sonde_text_cells(parts[i].text, g->ascii);
        const int gap = x > start ? 3 : 0;
        /* The first is shown even if it must be cut. */
        if (x + gap + cells > g->width && x > start) continue;
        if (gap) sonde_grid_text(g, x, y, 3, SONDE_STYLE_DIM, " · ");
        if (x + gap + cells > g->width) {
            sonde_grid_field(g, x, y, g->width - x, 0, parts[i].style, parts[i].text);
            return g->width - start;
        }
        x += gap + sonde_grid_text(g, x + gap, y, cells, parts[i].style, parts[i].text);
    }
    return x - start;
}
