/* grid.c - see grid.h. */
#include "present/grid.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "present/text.h"
#include "sonde/sonde.h"

static const struct sonde_cell blank = { .code = { ' ' }, .cells = 1 };

static int grid_limit(int side)
{
    return side < 1 ? 1 : side > SONDE_GRID_MAX ? SONDE_GRID_MAX : side;
}

int sonde_grid_init(struct sonde_grid *g, int width, int height, int ascii)
{
    width = grid_limit(width);
    height = grid_limit(height);
    const size_t count = (size_t)width * (size_t)height;
    struct sonde_cell *cells = sonde__calloc(count, sizeof(*cells));
    if (!cells) return SONDE_ENOMEM;
    for (size_t i = 0; i < count; i++) cells[i] = blank;
    *g = (struct sonde_grid){ .width = width, .height = height, .ascii = ascii, .cells = cells };
    return 0;
}

void sonde_grid_release(struct sonde_grid *g)
{
    sonde__free(g->cells);
    *g = (struct sonde_grid){ 0 };
}

static struct sonde_cell *grid_at(struct sonde_grid *g, int x, int y)
{
    if (x < 0 || y < 0 || x >= g->width || y >= g->height) return NULL;
    return &g->cells[(size_t)y * (size_t)g->width + (size_t)x];
}

const struct sonde_cell *sonde_grid_at(const struct sonde_grid *g, int x, int y)
{
    assert(x >= 0 && y >= 0 && x < g->width && y < g->height);
    return &g->cells[(size_t)y * (size_t)g->width + (size_t)x];
}

/* Overwriting half of a wide character leaves a blank for the other half. */
static void grid_unpair(struct sonde_grid *g, int x, int y)
{
    struct sonde_cell *c = grid_at(g, x, y), *other;
    if (c->cells == 0) other = grid_at(g, x - 1, y);
    else if (c->cells == 2) other = grid_at(g, x + 1, y);
    else return;
    assert(other);
    const uint8_t style = other->style;
    *other = blank;
    other->style = style;
}

static void grid_put(struct sonde_grid *g, int x, int y, struct sonde_glyph glyph, unsigned style)
{
    grid_unpair(g, x, y);
    if (glyph.cells == 2) grid_unpair(g, x + 1, y);
    *grid_at(g, x, y) = (struct sonde_cell){ .code = { glyph.code }, .cells = (uint8_t)glyph.cells,
                                             .style = (uint8_t)style };
    if (glyph.cells == 2) {
        *grid_at(g, x + 1, y) = (struct sonde_cell){ .cells = 0, .style = (uint8_t)style };
    }
}

static void grid_combine(struct sonde_cell *c, uint32_t code)
{
    for (int i = 1; i < SONDE_CELL_CODES; i++) {
        if (c->code[i]) continue;
        c->code[i] = code;
        return;
    }
}

int sonde_grid_text(struct sonde_grid *g, int x, int y, int max, unsigned style, const char *s)
{
    int used = 0;
    struct sonde_cell *last = NULL;
    if (y < 0 || y >= g->height || x < 0) return 0;
    if (max > g->width - x) max = g->width - x;

    for (size_t len = strlen(s); len > 0;) {
        struct sonde_glyph glyph;
        const size_t n = sonde_text_next(s, len, g->ascii, &glyph);
        s += n;
        len -= n;
        if (glyph.cells == 0) {
            if (last && glyph.code) grid_combine(last, glyph.code);
            continue;
        }
        if (used + glyph.cells > max) break;
        grid_put(g, x + used, y, glyph, style);
        last = grid_at(g, x + used, y);
        used += glyph.cells;
    }
    return used;
}

void sonde_grid_field(struct sonde_grid *g, int x, int y, int cells, int right, unsigned style,
                      const char *s)
{
    const int want = sonde_text_cells(s, g->ascii);
    static const struct sonde_glyph space = { .code = ' ', .cells = 1 };
    if (y < 0 || y >= g->height || x < 0) return;
    for (int i = 0; i < cells && x + i < g->width; i++) grid_put(g, x + i, y, space, style);

    if (want > cells) {
        if (cells < 1) return;
        sonde_grid_text(g, x, y, cells - 1, style, s);
        sonde_grid_text(g, x + cells - 1, y, 1, style, "…");
    } else {
        sonde_grid_text(g, right ? x + cells - want : x, y, want, style, s);
    }
}

void sonde_grid_field_middle(struct sonde_grid *g, int x, int y, int cells, unsigned style,
                             const char *s)
{
    int left_over = sonde_text_cells(s, g->ascii);
    if (left_over <= cells || cells < 3) {
        sonde_grid_field(g, x, y, cells, 0, style, s);
        return;
    }
    const int head = (cells - 1) / 2, tail = cells - 1 - head;
    sonde_grid_field(g, x, y, cells, 0, style, "");
    sonde_grid_text(g, x, y, head, style, s);
    sonde_grid_text(g, x + head, y, 1, style, "…");
    for (size_t len = strlen(s); left_over > tail && len > 0;) {
        struct sonde_glyph glyph;
        const size_t n = sonde_text_next(s, len, g->ascii, &glyph);
        left_over -= glyph.cells;
        s += n;
        len -= n;
    }
    sonde_grid_text(g, x + head + 1, y, tail, style, s);
}

void sonde_grid_restyle(struct sonde_grid *g, int x, int y, int cells, unsigned style)
{
    for (int i = 0; i < cells; i++) {
        struct sonde_cell *c = grid_at(g, x + i, y);
        if (!c) continue;
        unsigned old = c->style;
        if (style & SONDE_STYLE_COLOUR) old &= ~(unsigned)SONDE_STYLE_COLOUR;
        c->style = (uint8_t)(old | style);
    }
}

static int grid_is_blank(const struct sonde_cell *c)
{
    return c->code[0] == ' ' && !c->code[1];
}

static int row_end(const struct sonde_grid *g, int y)
{
    int end = g->width;
    while (end > 0 && grid_is_blank(sonde_grid_at(g, end - 1, y))) end--;
    return end;
}

static void grid_put_style(struct sonde_buf *out, unsigned style)
{
    static const int colours[] = { [SONDE_STYLE_GREEN] = 32, [SONDE_STYLE_YELLOW] = 33,
                                   [SONDE_STYLE_RED] = 31, [SONDE_STYLE_CYAN] = 36 };
    const unsigned colour = style & SONDE_STYLE_COLOUR;
    sonde_buf_puts(out, "\033[0");
    if (style & SONDE_STYLE_BOLD) sonde_buf_puts(out, ";1");
    if (style & SONDE_STYLE_DIM) sonde_buf_puts(out, ";2");
    if (style & SONDE_STYLE_REVERSE) sonde_buf_puts(out, ";7");
    if (colour && colour < SONDE_COUNT(colours)) {
        sonde_buf_printf(out, ";%d", colours[colour]);
    }
    sonde_buf_putc(out, 'm');
}

static void grid_print_row(const struct sonde_grid *g, int y, int colour, struct sonde_buf *out)
{
    const int end = row_end(g, y);
    unsigned style = SONDE_STYLE_NORMAL;
    for (int x = 0; x < end; x++) {
        const struct sonde_cell *c = sonde_grid_at(g, x, y);
        if (colour && c->style != style) {
            grid_put_style(out, c->style);
            style = c->style;
        }
        for (int i = 0; i < SONDE_CELL_CODES && c->code[i]; i++) {
            char bytes[4];
            sonde_buf_add(out, bytes, sonde_text_encode(c->code[i], bytes));
        }
    }
    if (style != SONDE_STYLE_NORMAL) grid_put_style(out, SONDE_STYLE_NORMAL);
    sonde_buf_putc(out, '\n');
}

static void grid_print(const struct sonde_grid *g, int colour, struct sonde_buf *out)
{
    int rows = g->height;
    while (rows > 0 && row_end(g, rows - 1) == 0) rows--;
    for (int y = 0; y < rows; y++) grid_print_row(g, y, colour, out);
}

void sonde_grid_print(const struct sonde_grid *g, struct sonde_buf *out) { grid_print(g, 0, out); }

void sonde_grid_print_colour(const struct sonde_grid *g, struct sonde_buf *out)
{
    grid_print(g, 1, out);
}
