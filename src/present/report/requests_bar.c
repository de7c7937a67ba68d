/* requests_bar.c - a request's time as a line of cells: see requests.h.
 *
 *     ····████┼─┼─┼──────┼     waits, prefill, then a token every so often, and a stall
 *
 * A cell shows what took most of its time. Time in which nothing was done for the request is
 * waiting, whether in a queue or for a turn. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "present/report/requests.h"

static const struct { const char *glyph, *ascii, *name; unsigned style; } looks[SONDE_BAR_KINDS] = {
    [SONDE_BAR_NONE] = { " ", " ", NULL, SONDE_STYLE_NORMAL },
    [SONDE_BAR_WAIT] = { "·", ".", "waits", SONDE_STYLE_YELLOW },
    [SONDE_BAR_PREFILL] = { "█", "#", "prefill", SONDE_STYLE_CYAN },
    [SONDE_BAR_DECODE] = { "─", "-", "decode", SONDE_STYLE_GREEN },
    [SONDE_BAR_TOKEN] = { "┼", "+", "tokens", SONDE_STYLE_GREEN | SONDE_STYLE_BOLD },
    [SONDE_BAR_OTHER] = { "▒", "=", "other phases", SONDE_STYLE_NORMAL },
    [SONDE_BAR_FIRST] = { "░", "~", "to the first token (no timeline kept)", SONDE_STYLE_DIM },
};

const char *sonde_bar_glyph(enum sonde_bar cell, int ascii)
{
    assert(cell < SONDE_BAR_KINDS);
    return ascii ? looks[cell].ascii : looks[cell].glyph;
}

unsigned sonde_bar_style(enum sonde_bar cell) { return looks[cell].style; }

const char *sonde_bar_name(enum sonde_bar cell) { return looks[cell].name; }

static enum sonde_bar requests_bar_of(uint32_t phase)
{
    switch (phase) {
    case SONDE_PHASE_QUEUE: return SONDE_BAR_WAIT;
    case SONDE_PHASE_PREFILL: return SONDE_BAR_PREFILL;
    case SONDE_PHASE_DECODE: return SONDE_BAR_DECODE;
    default: return SONDE_BAR_OTHER;
    }
}

static double since_arrival(const struct sonde_infer_request *r, uint64_t ns)
{
    return ns > r->arrived_ns ? (double)(ns - r->arrived_ns) * 1e-9 : 0;
}

/* Seconds of [from, to) that are spent on each, and whether tokens came. */
static void requests_bar_look(const struct sonde_infer_request *r, double from, double to,
                              double spent[SONDE_BAR_KINDS], int *tokens)
{
    *tokens = 0;
    memset(spent, 0, SONDE_BAR_KINDS * sizeof(*spent));
    for (uint32_t i = 0; i < r->item_count; i++) {
        const struct sonde_infer_item *item = &r->items[i];
        const double start = since_arrival(r, item->start_ns), end = since_arrival(r, item->end_ns);
        if (item->kind == SONDE_PHASE_NONE) {
            /* Joined ones came all along. */
            if (start < to && end >= from) *tokens = 1;
            continue;
        }
        const double part = fmin(end, to) - fmax(start, from);
        if (part > 0) spent[requests_bar_of(item->kind)] += part;
    }
}

static enum sonde_bar cell_of(const struct sonde_infer_request *r, double from, double to)
{
    double spent[SONDE_BAR_KINDS];
    int tokens;
    enum sonde_bar most = SONDE_BAR_WAIT;
    requests_bar_look(r, from, to, spent, &tokens);
    for (int k = SONDE_BAR_WAIT; k < SONDE_BAR_KINDS; k++) {
        if (spent[k] > spent[most]) most = (enum sonde_bar)k;
    }
    return tokens && most != SONDE_BAR_PREFILL ? SONDE_BAR_TOKEN : most;
}

/* From figures alone. */
static enum sonde_bar requests_bar_guess(const struct sonde_infer_request *r, double middle)
{
    if (middle < sonde_infer_queue_s(r)) return SONDE_BAR_WAIT;
    return r->tokens_out && middle > r->ttft_s ? SONDE_BAR_DECODE : SONDE_BAR_FIRST;
}

void sonde_request_bar(const struct sonde_infer_request *r, double scale_s, unsigned char *cells,
                       int count)
{
    const double each = scale_s > 0 && count > 0 ? scale_s / count : 0;
    for (int i = 0; i < count; i++) {
        const double from = each * i, to = fmin(from + each, r->total_s);
        /* What is shorter than a cell has one all the same. */
        if (!(each > 0) || (i && from >= r->total_s)) cells[i] = SONDE_BAR_NONE;
        else if (r->item_count) cells[i] = (unsigned char)cell_of(r, from, to);
        else cells[i] = (unsigned char)requests_bar_guess(r, (from + to) / 2);
    }
}

void sonde_request_draw_bar(const struct sonde_infer_request *r, double scale_s,
                            struct sonde_grid *g, int x, int y, int cells)
{
    unsigned char bar[SONDE_GRID_MAX];
    if (cells > SONDE_GRID_MAX) cells = SONDE_GRID_MAX;
    sonde_request_bar(r, scale_s, bar, cells);
    for (int i = 0; i < cells; i++) {
        const enum sonde_bar cell = (enum sonde_bar)bar[i];
        sonde_grid_text(g, x + i, y, 1, sonde_bar_style(cell), sonde_bar_glyph(cell, g->ascii));
    }
}
