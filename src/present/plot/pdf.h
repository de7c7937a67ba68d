/* pdf.h - a document on pages, as a report has it: headings, paragraphs, tables and charts one
 * below the other, drawn as plots are (canvas.h). What does not fit goes on to the next page; a
 * heading stays with what follows; the first line of a table is repeated; pages are numbered.
 *
 *   struct sonde_pdf *pdf;
 *   rc = sonde_pdf_create(&(struct sonde_pdf_options){ .title = "report of server" }, &pdf, err);
 *   sonde_pdf_heading(pdf, 1, "Requests");
 *   sonde_pdf_text(pdf, "12 of 4000 failed.");
 *   sonde_pdf_table(pdf, &table);              present/table.h; all of its columns
 *   sonde_pdf_charts(pdf, charts, count, 2);   side by side, two in a row
 *   rc = sonde_pdf_finish(pdf, &out, &err);    destroys it
 *
 * After a failure calls do nothing, so that only the end is looked at. Texts may be of any
 * origin. A program that has drawn its last calls sonde_canvas_forget_fonts(). */
#ifndef SONDE_PRESENT_PLOT_PDF_H
#define SONDE_PRESENT_PLOT_PDF_H

#include "base/buf.h"
#include "base/err.h"
#include "present/plot/canvas.h"
#include "present/plot/chart.h"
#include "present/table.h"

struct sonde_pdf;

struct sonde_pdf_options {
    const char *title;           /* of the document, and at the foot of pages; "" or NULL = none */
    double width, height;        /* points; 0 = A4 (595 x 842) */
    enum sonde_theme theme;      /* LIGHT or DARK */
};

/* 0, SONDE_ENOMEM, or SONDE_ENOENT: there is no cairo. */
int sonde_pdf_create(const struct sonde_pdf_options *o, struct sonde_pdf **out,
                     struct sonde_err *err);
/* level 1: large, 2: smaller, 3: bold text. */
void sonde_pdf_heading(struct sonde_pdf *pdf, int level, const char *text);
/* A paragraph, wrapped; a newline in it begins a line. */
void sonde_pdf_text(struct sonde_pdf *pdf, const char *text);
/* The same in the colour of notes, and smaller. */
void sonde_pdf_note(struct sonde_pdf *pdf, const char *text);
/* Columns are as wide as they need to be, or are squeezed, the widest first, and cut. */
void sonde_pdf_table(struct sonde_pdf *pdf, const struct sonde_table *t);
/* columns: charts in a row, 1 … 3; a wide one has a row for itself. */
void sonde_pdf_charts(struct sonde_pdf *pdf, const struct sonde_chart *charts, size_t count,
                      int columns);
void sonde_pdf_new_page(struct sonde_pdf *pdf);
/* The document is appended to out. pdf is destroyed either way; NULL is fine, and is no document.
 * SONDE_ENOMEM, SONDE_EFULL. */
int sonde_pdf_finish(struct sonde_pdf *pdf, struct sonde_buf *out, struct sonde_err *err);

#endif
