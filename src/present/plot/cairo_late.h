/* cairo_late.h - cairo, loaded when the first picture is drawn.
 *
 * Linked in the usual way it brings sixteen more libraries into every start of `sonde`: 3 ms, and
 * address space that `sonde run` does not have under a tight `ulimit -v`. Most starts draw nothing.
 *
 * Files that draw include this instead of cairo.h; calls look as always. Each way to them begins
 * with sonde_cairo_load(). */
#ifndef SONDE_PRESENT_PLOT_CAIRO_LATE_H
#define SONDE_PRESENT_PLOT_CAIRO_LATE_H

#include <cairo-pdf.h>
#include <cairo.h>

#include "base/err.h"

/* Also change: the list of macros below. */
#define SONDE_CAIRO_FUNCTIONS(X)                                                                \
    X(cairo_arc) X(cairo_close_path) X(cairo_create) X(cairo_debug_reset_static_data)           \
    X(cairo_destroy) X(cairo_fill) X(cairo_fill_preserve) X(cairo_font_options_create)          \
    X(cairo_font_options_destroy) X(cairo_font_options_set_hint_metrics)                        \
    X(cairo_image_surface_create) X(cairo_line_to) X(cairo_move_to) X(cairo_new_path)           \
    X(cairo_new_sub_path) X(cairo_pdf_surface_create_for_stream)                                \
    X(cairo_pdf_surface_set_metadata) X(cairo_rectangle) X(cairo_scale)                         \
    X(cairo_select_font_face) X(cairo_set_dash) X(cairo_set_font_options)                       \
    X(cairo_set_font_size) X(cairo_set_line_join) X(cairo_set_line_width)                       \
    X(cairo_set_source_rgba) X(cairo_show_page) X(cairo_show_text) X(cairo_status)              \
    X(cairo_status_to_string) X(cairo_stroke) X(cairo_surface_destroy) X(cairo_surface_finish)  \
    X(cairo_surface_status) X(cairo_surface_write_to_png_stream) X(cairo_text_extents)

struct sonde_cairo {
#define SONDE__X(name) __typeof__(&name) name;
    SONDE_CAIRO_FUNCTIONS(SONDE__X)
#undef SONDE__X
};
extern struct sonde_cairo sonde_cairo; /* all set once sonde_cairo_load has returned 0 */

/* 0, or SONDE_ENOENT: err says what to install. Any thread; err may be NULL. */
int sonde_cairo_load(struct sonde_err *err);

/* Give back what cairo and fontconfig keep until the end: for checks of leaks. */
void sonde_cairo_forget(void);

#ifndef SONDE_CAIRO_LATE_OWN
#define cairo_arc sonde_cairo.cairo_arc
#define cairo_close_path sonde_cairo.cairo_close_path
#define cairo_create sonde_cairo.cairo_create
#define cairo_destroy sonde_cairo.cairo_destroy
#define cairo_fill sonde_cairo.cairo_fill
#define cairo_fill_preserve sonde_cairo.cairo_fill_preserve
#define cairo_font_options_create sonde_cairo.cairo_font_options_create
#define cairo_font_options_destroy sonde_cairo.cairo_font_options_destroy
#define cairo_font_options_set_hint_metrics sonde_cairo.cairo_font_options_set_hint_metrics
#define cairo_image_surface_create sonde_cairo.cairo_image_surface_create
#define cairo_line_to sonde_cairo.cairo_line_to
#define cairo_move_to sonde_cairo.cairo_move_to
#define cairo_new_path sonde_cairo.cairo_new_path
#define cairo_new_sub_path sonde_cairo.cairo_new_sub_path
#define cairo_pdf_surface_create_for_stream sonde_cairo.cairo_pdf_surface_create_for_stream
#define cairo_pdf_surface_set_metadata sonde_cairo.cairo_pdf_surface_set_metadata
#define cairo_rectangle sonde_cairo.cairo_rectangle
#define cairo_scale sonde_cairo.cairo_scale
#define cairo_select_font_face sonde_cairo.cairo_select_font_face
#define cairo_set_dash sonde_cairo.cairo_set_dash
#define cairo_set_font_options sonde_cairo.cairo_set_font_options
#define cairo_set_font_size sonde_cairo.cairo_set_font_size
#define cairo_set_line_join sonde_cairo.cairo_set_line_join
#define cairo_set_line_width sonde_cairo.cairo_set_line_width
#define cairo_set_source_rgba sonde_cairo.cairo_set_source_rgba
#define cairo_show_page sonde_cairo.cairo_show_page
#define cairo_show_text sonde_cairo.cairo_show_text
#define cairo_status sonde_cairo.cairo_status
#define cairo_status_to_string sonde_cairo.cairo_status_to_string
#define cairo_stroke sonde_cairo.cairo_stroke
#define cairo_surface_destroy sonde_cairo.cairo_surface_destroy
#define cairo_surface_finish sonde_cairo.cairo_surface_finish
#define cairo_surface_status sonde_cairo.cairo_surface_status
#define cairo_surface_write_to_png_stream sonde_cairo.cairo_surface_write_to_png_stream
#define cairo_text_extents sonde_cairo.cairo_text_extents
#endif

#endif
