/* canvas_text.h - text by cairo, each character in a font that has it. cairo's own simple way
 * (cairo_show_text) takes one font for all of it and draws boxes for what that lacks; its other way
 * leaves the choice to pango, which is forty more libraries.
 *
 * A text is cut into runs by what fontconfig sorts behind the usual font; what no font has is a
 * box. Characters are not joined and not turned around: Arabic and Indic scripts are not what their
 * readers expect. Private to present/plot/. */
#ifndef SONDE_PRESENT_PLOT_CANVAS_TEXT_H
#define SONDE_PRESENT_PLOT_CANVAS_TEXT_H

#include "present/plot/cairo_late.h"

/* How wide harmless text is (canvas.h). draw: also draw it, from the current point on. Any thread,
 * each with a cr of its own. */
double sonde_canvas_show(cairo_t *cr, const char *harmless, double size, int bold, int draw);

/* What is kept of fontconfig is given back; before it ends itself. */
void sonde_canvas_forget_choice(void);

#endif
