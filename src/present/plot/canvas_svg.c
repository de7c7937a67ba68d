/* canvas_svg.c - see canvas.h. Colours are classes, so that a style sheet inside can have two sets
 * of them. Style sheets of pictures in a page are in force in all of it: rules are for what is
 * below .sonde-plot, and colours for what is below the class of their theme, since a notebook has
 * light pictures and dark ones. */
#include <string.h>

#include "present/plot/canvas_private.h"
#include "sonde/sonde.h"

void sonde_canvas_escape(struct sonde_buf *out, const char *text)
{
    char harmless[SONDE_CANVAS_TEXT_MAX];
    sonde_canvas_harmless(harmless, text, strlen(text));
    for (const char *s = harmless; *s; s++) {
        switch (*s) {
        case '<': sonde_buf_puts(out, "&lt;"); break;
        case '>': sonde_buf_puts(out, "&gt;"); break;
        case '&': sonde_buf_puts(out, "&amp;"); break;
        case '"': sonde_buf_puts(out, "&quot;"); break;
        case '\'': sonde_buf_puts(out, "&#39;"); break;
        default: sonde_buf_putc(out, *s); break;
        }
    }
}

static const char *canvas_svg_class(enum sonde_theme theme)
{
    switch (theme) {
    case SONDE_THEME_LIGHT: return "sonde-light";
    case SONDE_THEME_DARK: return "sonde-dark";
    default: return "sonde-auto";
    }
}

/* The colours of one theme for pictures of another, or of the same. */
static void canvas_svg_colors(struct sonde_buf *out, enum sonde_theme theme, const char *of)
{
    for (int i = SONDE_INK_NONE + 1; i < SONDE_INK_COUNT; i++) {
        const unsigned color = sonde_ink_color((enum sonde_ink)i, theme);
        sonde_buf_printf(out, ".%s .f%d{fill:#%06x}.%s .s%d{stroke:#%06x}", of, i, color, of, i,
                         color);
    }
}

void sonde_canvas_svg_style(struct sonde_buf *out, enum sonde_theme theme)
{
    sonde_buf_puts(out, ".sonde-plot text{font-family:ui-sans-serif,system-ui,-apple-system,"
                        "\"Segoe UI\",Roboto,\"Noto Sans\",\"DejaVu Sans\",sans-serif}"
                        ".sonde-plot path{fill:none;stroke-linejoin:round}");
    const char *of = canvas_svg_class(theme);
    canvas_svg_colors(out, theme == SONDE_THEME_DARK ? SONDE_THEME_DARK : SONDE_THEME_LIGHT, of);
    if (theme != SONDE_THEME_AUTO) return;
    sonde_buf_puts(out, "@media(prefers-color-scheme:dark){");
    canvas_svg_colors(out, SONDE_THEME_DARK, of);
    sonde_buf_putc(out, '}');
}

/* class="…", width, opacity; then the end of the element, with what it says. */
static void canvas_svg_finish(struct sonde_buf *out, const struct sonde_canvas_line *l,
                              const char *element)
{
    sonde_buf_puts(out, " class=\"");
    if (l->fill) sonde_buf_printf(out, "f%d", (int)l->fill);
    if (l->stroke) sonde_buf_printf(out, "%ss%d", l->fill ? " " : "", (int)l->stroke);
    sonde_buf_putc(out, '"');
    if (l->stroke) sonde_buf_printf(out, " stroke-width=\"%g\"", l->width > 0 ? l->width : 1);
    if (l->stroke && !l->fill && *element != 'p') sonde_buf_puts(out, " fill=\"none\"");
    if (l->dashed) sonde_buf_puts(out, " stroke-dasharray=\"5 4\"");
    if (l->opacity > 0) sonde_buf_printf(out, " fill-opacity=\"%g\"", l->opacity);
    if (!l->tip) {
        sonde_buf_puts(out, "/>\n");
        return;
    }
    sonde_buf_puts(out, "><title>");
    sonde_canvas_escape(out, l->tip);
    sonde_buf_printf(out, "</title></%s>\n", element);
}

static void canvas_svg_rect(struct sonde_canvas *c, double x, double y, double width, double height,
                     const struct sonde_canvas_line *l)
{
    struct sonde_buf *out = ((struct sonde_canvas_svg *)c)->out;
    sonde_buf_printf(out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"", x, y, width,
                     height);
    canvas_svg_finish(out, l, "rect");
}

static void canvas_svg_path(struct sonde_canvas *c, const double *xy, size_t points, int closed,
                     const struct sonde_canvas_line *l)
{
    struct sonde_buf *out = ((struct sonde_canvas_svg *)c)->out;
    sonde_buf_puts(out, "<path d=\"");
    for (size_t i = 0; i < points; i++) {
        sonde_buf_printf(out, "%c%.2f %.2f", i ? 'L' : 'M', xy[2 * i], xy[2 * i + 1]);
    }
    sonde_buf_puts(out, closed ? "Z\"" : "\"");
    canvas_svg_finish(out, l, "path");
}

static void canvas_svg_dot(struct sonde_canvas *c, double x, double y, double radius,
                    const struct sonde_canvas_line *l)
{
    struct sonde_buf *out = ((struct sonde_canvas_svg *)c)->out;
    sonde_buf_printf(out, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%g\"", x, y, radius);
    canvas_svg_finish(out, l, "circle");
}

static void canvas_svg_text(struct sonde_canvas *c, const struct sonde_canvas_text *t,
                            const char *text)
{
    static const char *const anchors[] = { "start", "middle", "end" };
    struct sonde_buf *out = ((struct sonde_canvas_svg *)c)->out;
    sonde_buf_printf(out, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%g\"", t->x, t->y, t->size);
    if (t->anchor) sonde_buf_printf(out, " text-anchor=\"%s\"", anchors[t->anchor]);
    if (t->bold) sonde_buf_puts(out, " font-weight=\"600\"");
    sonde_buf_printf(out, " class=\"f%d\">", (int)t->ink);
    sonde_canvas_escape(out, text);
    if (t->whole) {
        sonde_buf_puts(out, "<title>");
        sonde_canvas_escape(out, t->whole);
        sonde_buf_puts(out, "</title>");
    }
    sonde_buf_puts(out, "</text>\n");
}

static const struct sonde_canvas_ops canvas_svg_ops = { canvas_svg_rect, canvas_svg_path,
                                                        canvas_svg_dot, canvas_svg_text };

int sonde_canvas_svg_begin(struct sonde_canvas_svg *s, struct sonde_buf *out, double width,
                           double height, enum sonde_theme theme, const char *title)
{
    *s = (struct sonde_canvas_svg){ .out = out, .theme = theme };
    const int rc = sonde_canvas_init(&s->canvas, &canvas_svg_ops, width, height);
    if (rc) return rc;
    sonde_buf_printf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sonde-plot %s\" "
                     "width=\"%g\" height=\"%g\" viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"",
                     canvas_svg_class(theme), width, height, width, height);
    sonde_canvas_escape(out, title);
    sonde_buf_puts(out, "\">\n<style>");
    sonde_canvas_svg_style(out, theme);
    sonde_buf_puts(out, "</style>\n");
    return 0;
}

void sonde_canvas_svg_end(struct sonde_canvas_svg *s)
{
    sonde_buf_puts(s->out, "</svg>\n");
    sonde_canvas_release(&s->canvas);
}
