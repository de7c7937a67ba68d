/* canvas_cairo.c - see canvas.h. */
#include "present/plot/cairo_late.h"
#include "present/plot/canvas_private.h"
#include "present/plot/canvas_text.h"
#include "sonde/sonde.h"

static void canvas_cairo_ink(cairo_t *cr, enum sonde_ink ink, enum sonde_theme theme, double alpha)
{
    const unsigned color = sonde_ink_color(ink, theme);
    cairo_set_source_rgba(cr, (color >> 16 & 255) / 255.0, (color >> 8 & 255) / 255.0,
                          (color & 255) / 255.0, alpha);
}

/* The path that was made is filled and drawn. */
static void canvas_cairo_use(struct sonde_canvas *c, const struct sonde_canvas_line *l)
{
    static const double dashes[] = { 5, 4 };
    const struct sonde_canvas_cairo *s = (const struct sonde_canvas_cairo *)c;
    cairo_t *cr = s->cr;
    if (l->fill) {
        canvas_cairo_ink(cr, l->fill, s->theme, l->opacity > 0 ? l->opacity : 1);
        if (l->stroke) cairo_fill_preserve(cr);
        else cairo_fill(cr);
    }
    if (!l->stroke) return;
    canvas_cairo_ink(cr, l->stroke, s->theme, 1);
    cairo_set_line_width(cr, l->width > 0 ? l->width : 1);
    cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_dash(cr, dashes, l->dashed ? 2 : 0, 0);
    cairo_stroke(cr);
}

static void canvas_cairo_rect(struct sonde_canvas *c, double x, double y, double width,
                              double height, const struct sonde_canvas_line *l)
{
    cairo_rectangle(((struct sonde_canvas_cairo *)c)->cr, x, y, width, height);
    canvas_cairo_use(c, l);
}

static void canvas_cairo_path(struct sonde_canvas *c, const double *xy, size_t points, int closed,
                       const struct sonde_canvas_line *l)
{
    cairo_t *cr = ((struct sonde_canvas_cairo *)c)->cr;
    for (size_t i = 0; i < points; i++) cairo_line_to(cr, xy[2 * i], xy[2 * i + 1]);
    if (closed) cairo_close_path(cr);
    canvas_cairo_use(c, l);
}

static void canvas_cairo_dot(struct sonde_canvas *c, double x, double y, double radius,
                      const struct sonde_canvas_line *l)
{
    cairo_t *cr = ((struct sonde_canvas_cairo *)c)->cr;
    cairo_new_sub_path(cr);
    cairo_arc(cr, x, y, radius, 0, 6.283185307179586);
    canvas_cairo_use(c, l);
}

static void canvas_cairo_text(struct sonde_canvas *c, const struct sonde_canvas_text *t,
                              const char *text)
{
    const struct sonde_canvas_cairo *s = (const struct sonde_canvas_cairo *)c;
    const double width = sonde_canvas_show(s->cr, text, t->size, t->bold, 0);
    canvas_cairo_ink(s->cr, t->ink, s->theme, 1);
    cairo_move_to(s->cr, t->x - width * (double)t->anchor / 2, t->y);
    sonde_canvas_show(s->cr, text, t->size, t->bold, 1);
    cairo_new_path(s->cr);
}

static const struct sonde_canvas_ops canvas_cairo_ops = { canvas_cairo_rect, canvas_cairo_path,
                                                          canvas_cairo_dot, canvas_cairo_text };

static cairo_status_t canvas_cairo_write(void *out, const unsigned char *data, unsigned len)
{
    sonde_buf_add(out, data, len);
    return ((struct sonde_buf *)out)->error ? CAIRO_STATUS_WRITE_ERROR : CAIRO_STATUS_SUCCESS;
}

static int canvas_cairo_begin(struct sonde_canvas_cairo *s, double width, double height)
{
    const int rc = sonde_canvas_init(&s->canvas, &canvas_cairo_ops, width, height);
    s->cr = cairo_create(s->surface);
    if (!rc && cairo_status(s->cr) == CAIRO_STATUS_SUCCESS) {
        cairo_font_options_t *o = cairo_font_options_create();
        cairo_font_options_set_hint_metrics(o, CAIRO_HINT_METRICS_OFF);
        cairo_set_font_options(s->cr, o);
        cairo_font_options_destroy(o);
        return 0;
    }
    cairo_destroy(s->cr);
    cairo_surface_destroy(s->surface);
    sonde_canvas_release(&s->canvas);
    return SONDE_ENOMEM;
}

int sonde_canvas_png_begin(struct sonde_canvas_cairo *s, struct sonde_buf *out, double width,
                           double height, double scale, enum sonde_theme theme)
{
    int rc = sonde_cairo_load(NULL);
    if (rc) return rc;
    *s = (struct sonde_canvas_cairo){ .out = out, .theme = theme };
    s->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(width * scale + 0.5),
                                            (int)(height * scale + 0.5));
    rc = canvas_cairo_begin(s, width, height);
    if (!rc) cairo_scale(s->cr, scale, scale);
    return rc;
}

int sonde_canvas_pdf_begin(struct sonde_canvas_cairo *s, struct sonde_buf *out, double width,
                           double height, enum sonde_theme theme, const char *title)
{
    char harmless[SONDE_CANVAS_TEXT_MAX];
    size_t len = 0;
    const int rc = sonde_cairo_load(NULL);
    if (rc) return rc;
    *s = (struct sonde_canvas_cairo){ .out = out, .theme = theme, .pdf = 1 };
    s->surface = cairo_pdf_surface_create_for_stream(canvas_cairo_write, out, width, height);
    while (title[len]) len++;
    sonde_canvas_harmless(harmless, title, len);
    cairo_pdf_surface_set_metadata(s->surface, CAIRO_PDF_METADATA_TITLE, harmless);
    cairo_pdf_surface_set_metadata(s->surface, CAIRO_PDF_METADATA_CREATOR, "sonde");
    return canvas_cairo_begin(s, width, height);
}

void sonde_canvas_pdf_next_page(struct sonde_canvas_cairo *s)
{
    cairo_show_page(s->cr);
}

int sonde_canvas_cairo_end(struct sonde_canvas_cairo *s, struct sonde_err *err)
{
    cairo_status_t status = cairo_status(s->cr);
    if (s->pdf) {
        cairo_show_page(s->cr);
        cairo_surface_finish(s->surface);
        status = cairo_surface_status(s->surface);
    } else if (status == CAIRO_STATUS_SUCCESS) {
        status = cairo_surface_write_to_png_stream(s->surface, canvas_cairo_write, s->out);
    }
    cairo_destroy(s->cr);
    cairo_surface_destroy(s->surface);
    sonde_canvas_release(&s->canvas);
    if (s->out->error) {
        return sonde_err_set(err, s->out->error, "the picture is too large, or memory is out");
    }
    if (status != CAIRO_STATUS_SUCCESS) {
        return sonde_err_set(err, SONDE_ENOMEM, "drawing failed: %s",
                             cairo_status_to_string(status));
    }
    return 0;
}
