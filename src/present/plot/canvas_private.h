/* canvas_private.h - what the back-ends of canvases share. */
#ifndef SONDE_PRESENT_PLOT_CANVAS_PRIVATE_H
#define SONDE_PRESENT_PLOT_CANVAS_PRIVATE_H

#include <cairo.h>

#include "present/plot/canvas.h"

#define SONDE_CANVAS_TEXT_MAX 2048  /* bytes of a line; more are not drawn */
#define SONDE_CANVAS_FONT "DejaVu Sans" /* of Debian; fontconfig takes another if it is not there */

/* Valid UTF-8 without control characters and what reverses lines. Returns its bytes. */
size_t sonde_canvas_harmless(char out[SONDE_CANVAS_TEXT_MAX], const char *text, size_t len);
void sonde_canvas_font(cairo_t *cr, double size, int bold);

#endif
