/* canvas.c - see canvas.h: colours, and text of any origin, measured and cut. */
#include "present/plot/canvas.h"

#include <string.h>

#include "base/array.h"
#include "present/plot/cairo_late.h"
#include "present/plot/canvas_private.h"
#include "present/plot/canvas_text.h"
#include "present/text.h"
#include "sonde/sonde.h"

/* As web/src/styles/theme.css has them: all of sonde looks alike. */
static const unsigned colors[SONDE_INK_COUNT][2] = {
    [SONDE_INK_PAGE] = { 0xf5f6f8, 0x0f1217 }, [SONDE_INK_CARD] = { 0xffffff, 0x171b22 },
    [SONDE_INK_LINE] = { 0xdde1e7, 0x2c333d }, [SONDE_INK_AXIS] = { 0x8c95a1, 0x6b7684 },
    [SONDE_INK_TEXT] = { 0x1a1e24, 0xe8ecf1 }, [SONDE_INK_SOFT] = { 0x525b66, 0xaab3be },
    [SONDE_INK_GOOD] = { 0x1a7a3c, 0x4cc27a }, [SONDE_INK_BAD] = { 0xc4281c, 0xf5776b },
    [SONDE_INK_S1] = { 0x2a78d6, 0x3987e5 },     [SONDE_INK_S1 + 1] = { 0xeb6834, 0xd95926 },
    [SONDE_INK_S1 + 2] = { 0x1baf7a, 0x199e70 }, [SONDE_INK_S1 + 3] = { 0xeda100, 0xc98500 },
    [SONDE_INK_S1 + 4] = { 0xe87ba4, 0xd55181 }, [SONDE_INK_S1 + 5] = { 0x008300, 0x008300 },
    [SONDE_INK_S1 + 6] = { 0x4a3aa7, 0x9085e9 }, [SONDE_INK_S1 + 7] = { 0xe34948, 0xe66767 },
    [SONDE_INK_H0] = { 0xdbe9fa, 0x1b2a40 },     [SONDE_INK_H0 + 1] = { 0xc1d9f5, 0x1d3759 },
    [SONDE_INK_H0 + 2] = { 0xa3c6ef, 0x1f4675 }, [SONDE_INK_H0 + 3] = { 0x82b0e8, 0x235893 },
    [SONDE_INK_H0 + 4] = { 0x6099de, 0x2b6cb2 }, [SONDE_INK_H0 + 5] = { 0x4081d0, 0x3c82cd },
    [SONDE_INK_H0 + 6] = { 0x2a69b8, 0x5a9be0 }, [SONDE_INK_H0 + 7] = { 0x1f5399, 0x82b5ec },
    [SONDE_INK_H0 + 8] = { 0x173f77, 0xaed0f5 }, [SONDE_INK_H0 + 9] = { 0x0f2b54, 0xdcebfc },
};

unsigned sonde_ink_color(enum sonde_ink ink, enum sonde_theme theme)
{
    return colors[ink][theme == SONDE_THEME_DARK];
}

/* ---- Text ------------------------------------------------------------------------------------ */

size_t sonde_canvas_harmless(char out[SONDE_CANVAS_TEXT_MAX], const char *text, size_t len)
{
    size_t n = 0;
    for (size_t at = 0; at < len && n + 4 < SONDE_CANVAS_TEXT_MAX;) {
        struct sonde_glyph g;
        at += sonde_text_next(text + at, len - at, 0, &g);
        if (g.code) n += sonde_text_encode(g.code, out + n);
    }
    out[n] = '\0';
    return n;
}

void sonde_canvas_font(cairo_t *cr, double size, int bold)
{
    cairo_select_font_face(cr, SONDE_CANVAS_FONT, CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, size);
}

static double canvas_advance(const struct sonde_canvas *c, const char *harmless, double size,
                             int bold)
{
    return sonde_canvas_show(c->measure, harmless, size, bold, 0);
}

int sonde_canvas_init(struct sonde_canvas *c, const struct sonde_canvas_ops *ops, double width,
                      double height)
{
    const int rc = sonde_cairo_load(NULL);
    if (rc) return rc;
    cairo_surface_t *none = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    cairo_t *cr = cairo_create(none);
    cairo_surface_destroy(none);
    if (cairo_status(cr) != CAIRO_STATUS_SUCCESS) {
        cairo_destroy(cr);
        return SONDE_ENOMEM;
    }
    /* Widths must not depend on the size of pixels. */
    cairo_font_options_t *o = cairo_font_options_create();
    cairo_font_options_set_hint_metrics(o, CAIRO_HINT_METRICS_OFF);
    cairo_set_font_options(cr, o);
    cairo_font_options_destroy(o);
    *c = (struct sonde_canvas){ .ops = ops, .width = width, .height = height, .measure = cr };
    return 0;
}

void sonde_canvas_release(struct sonde_canvas *c)
{
    if (c->measure) cairo_destroy(c->measure);
    c->measure = NULL;
}

void sonde_canvas_forget_fonts(void)
{
    sonde_canvas_forget_choice();
    sonde_cairo_forget();
}

double sonde_canvas_text_width(const struct sonde_canvas *c, const char *text, double size,
                               int bold)
{
    char harmless[SONDE_CANVAS_TEXT_MAX];
    sonde_canvas_harmless(harmless, text, strlen(text));
    return canvas_advance(c, harmless, size, bold);
}

/* text without its last characters, and an ellipsis: as much as is not wider. */
static void canvas_cut(const struct sonde_canvas *c, char *text, size_t len, double size, int bold,
                       double width)
{
    static const char dots[] = "…";
    char tried[SONDE_CANVAS_TEXT_MAX + sizeof(dots)];
    size_t low = 0, high = len; /* bytes that fit, and that do not */
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        while (mid > low && ((unsigned char)text[mid] & 0xc0) == 0x80) mid--;
        if (mid == low) { /* a character: can only be taken whole */
            mid = (low + high) / 2;
            while (mid < high && ((unsigned char)text[mid] & 0xc0) == 0x80) mid++;
            if (mid == high) break;
        }
        memcpy(tried, text, mid);
        memcpy(tried + mid, dots, sizeof(dots));
        if (canvas_advance(c, tried, size, bold) <= width) low = mid;
        else high = mid;
    }
    while (low && text[low - 1] == ' ') low--;
    memcpy(text + low, dots, sizeof(dots));
}

double sonde_canvas_write(struct sonde_canvas *c, const struct sonde_canvas_text *t, double width,
                          const char *text)
{
    char harmless[SONDE_CANVAS_TEXT_MAX + 4];
    const size_t len = sonde_canvas_harmless(harmless, text, strlen(text));
    struct sonde_canvas_text as = *t;
    double w = canvas_advance(c, harmless, t->size, t->bold);
    if (width > 0 && w > width) {
        canvas_cut(c, harmless, len, t->size, t->bold, width);
        w = canvas_advance(c, harmless, t->size, t->bold);
        as.whole = text;
    }
    c->ops->text(c, &as, harmless);
    return w;
}

int sonde_canvas_write_lines(struct sonde_canvas *c, const struct sonde_canvas_text *t,
                             double width, double leading, int max, const char *text)
{
    struct sonde_canvas_text as = *t;
    char line[SONDE_CANVAS_TEXT_MAX];
    int lines = 0;
    while (*text) {
        size_t fits = 0, end = 0; /* bytes up to a blank that fit */
        for (;;) {
            end += strcspn(text + end, " \n");
            const size_t n = end < sizeof(line) - 1 ? end : sizeof(line) - 1;
            memcpy(line, text, n);
            line[n] = '\0';
            if (fits && sonde_canvas_text_width(c, line, t->size, t->bold) > width) break;
            fits = end;
            if (!text[end] || text[end] == '\n' || end >= sizeof(line) - 1) break;
            end++;
        }
        const int last = max && lines + 1 == max;
        const size_t n = fits < sizeof(line) - 1 ? fits : sizeof(line) - 1;
        memcpy(line, text, n);
        line[n] = '\0';
        lines++;
        sonde_canvas_write(c, &as, width, last ? text : line);
        if (last) break;
        as.y += leading;
        text += fits;
        text += *text != '\0';
    }
    return lines;
}
