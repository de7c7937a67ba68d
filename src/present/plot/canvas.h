/* canvas.h - what drawings are made on: few operations, two back-ends behind one const struct. SVG
 * is written by hand, since cairo's turns text into outlines, which nobody can search, copy or
 * read aloud; PNG and PDF are cairo's.
 *
 * Lengths are points, y goes down. Colours are names (enum sonde_ink), so that one drawing serves
 * light, dark, and what follows the viewer. Text of any origin is made harmless here
 * (present/text.h), and measured with the font that PNG and PDF have; browsers may use another,
 * which is narrower. */
#ifndef SONDE_PRESENT_PLOT_CANVAS_H
#define SONDE_PRESENT_PLOT_CANVAS_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define SONDE_INK_SERIES 8   /* colours of series, from SONDE_INK_S1 */
#define SONDE_INK_HEATS 10   /* from SONDE_INK_H0, few, to many */

enum sonde_ink {
    SONDE_INK_NONE, SONDE_INK_PAGE, SONDE_INK_CARD, SONDE_INK_LINE, SONDE_INK_AXIS, SONDE_INK_TEXT,
    SONDE_INK_SOFT, SONDE_INK_GOOD, SONDE_INK_BAD,
    SONDE_INK_S1,
    SONDE_INK_H0 = SONDE_INK_S1 + SONDE_INK_SERIES,
    SONDE_INK_COUNT = SONDE_INK_H0 + SONDE_INK_HEATS,
};

enum sonde_theme { SONDE_THEME_LIGHT, SONDE_THEME_DARK, SONDE_THEME_AUTO };

/* 0xrrggbb, as the dashboard has it; AUTO is light. */
unsigned sonde_ink_color(enum sonde_ink ink, enum sonde_theme theme);

enum sonde_anchor { SONDE_ANCHOR_START, SONDE_ANCHOR_MIDDLE, SONDE_ANCHOR_END };

struct sonde_canvas_text {
    double x, y;             /* of the base line */
    double size;
    enum sonde_ink ink;
    enum sonde_anchor anchor;
    int bold;
    const char *whole;       /* if it was cut: all of it, for who points at it; NULL = none */
};

struct sonde_canvas_line {
    enum sonde_ink stroke;   /* NONE: not drawn */
    enum sonde_ink fill;     /* NONE: not filled */
    double width, opacity;   /* opacity of the filling; 0 = 1 */
    int dashed;
    const char *tip;         /* what it says to who points at it; NULL = nothing */
};

struct sonde_canvas {
    const struct sonde_canvas_ops *ops;
    double width, height;
    void *measure;           /* cairo_t with the font; owned */
};

struct sonde_canvas_ops {
    void (*rect)(struct sonde_canvas *c, double x, double y, double width, double height,
                 const struct sonde_canvas_line *l);
    /* xy: x, y, x, y …; closed: its end is joined with its beginning. */
    void (*path)(struct sonde_canvas *c, const double *xy, size_t points, int closed,
                 const struct sonde_canvas_line *l);
    void (*dot)(struct sonde_canvas *c, double x, double y, double radius,
                const struct sonde_canvas_line *l);
    void (*text)(struct sonde_canvas *c, const struct sonde_canvas_text *t, const char *text);
};

/* 0 or SONDE_ENOMEM; on failure nothing is left behind. */
int sonde_canvas_init(struct sonde_canvas *c, const struct sonde_canvas_ops *ops, double width,
                      double height);
void sonde_canvas_release(struct sonde_canvas *c);

/* Nothing is drawn any more: fonts that were kept for the next time are given back. Leak checkers
 * cannot see through the pointers of fontconfig. No canvas may be open, in any thread. */
void sonde_canvas_forget_fonts(void);

double sonde_canvas_text_width(const struct sonde_canvas *c, const char *text, double size,
                               int bold);
/* Text, cut with an ellipsis if it is wider than width (0 = no limit). Returns how wide it is. */
double sonde_canvas_write(struct sonde_canvas *c, const struct sonde_canvas_text *t, double width,
                          const char *text);
/* Text in lines of at most width, `leading` apart; returns the number of lines. max 0 = any. */
int sonde_canvas_write_lines(struct sonde_canvas *c, const struct sonde_canvas_text *t,
                             double width, double leading, int max, const char *text);

/* ---- Back-ends ------------------------------------------------------------------------------- */

/* SVG appended to out while it is drawn; ended by _end. theme AUTO follows the viewer. */
struct sonde_canvas_svg {
    struct sonde_canvas canvas;
    struct sonde_buf *out;
    enum sonde_theme theme;
};
int sonde_canvas_svg_begin(struct sonde_canvas_svg *s, struct sonde_buf *out, double width,
                           double height, enum sonde_theme theme, const char *title);
void sonde_canvas_svg_end(struct sonde_canvas_svg *s);
/* Text as part of SVG or HTML, in an element or an attribute. */
void sonde_canvas_escape(struct sonde_buf *out, const char *text);
/* Rules of the classes that SVG uses, for root (a selector). */
void sonde_canvas_svg_style(struct sonde_buf *out, enum sonde_theme theme);

/* cairo: PNG with `scale` pixels a point, or PDF of one page or more. */
struct sonde_canvas_cairo {
    struct sonde_canvas canvas;
    struct sonde_buf *out;
    enum sonde_theme theme;
    void *surface, *cr;      /* cairo's; owned */
    int pdf;
};
int sonde_canvas_png_begin(struct sonde_canvas_cairo *s, struct sonde_buf *out, double width,
                           double height, double scale, enum sonde_theme theme);
int sonde_canvas_pdf_begin(struct sonde_canvas_cairo *s, struct sonde_buf *out, double width,
                           double height, enum sonde_theme theme, const char *title);
void sonde_canvas_pdf_next_page(struct sonde_canvas_cairo *s);
/* Writes what is left to out. 0, or SONDE_ENOMEM or SONDE_EFULL and why. */
int sonde_canvas_cairo_end(struct sonde_canvas_cairo *s, struct sonde_err *err);

#endif
