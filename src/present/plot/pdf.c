/* pdf.c - see pdf.h. */
#include "present/plot/pdf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "present/plot/cairo_late.h"
#include "present/plot/page.h"
#include "sonde/sonde.h"

enum { PDF_MARGIN = 42, PDF_FOOT = 20, PDF_CHART_GAP = 12 };

static const double body_size = 9.5, note_size = 8.5, cell_size = 8;

struct sonde_pdf {
    struct sonde_canvas_cairo canvas;
    struct sonde_buf bytes;      /* of the document, until its end */
    char title[200];
    double width, height, y;     /* y: where the next goes */
    int page;
    int begun;                   /* the page has something on it */
};

static struct sonde_canvas *pdf_canvas(struct sonde_pdf *pdf) { return &pdf->canvas.canvas; }
static double pdf_bottom(const struct sonde_pdf *pdf)
{
    return pdf->height - PDF_MARGIN - PDF_FOOT;
}
static double pdf_across(const struct sonde_pdf *pdf) { return pdf->width - 2 * PDF_MARGIN; }

/* ---- Pages ----------------------------------------------------------------------------------- */

static void pdf_paper(struct sonde_pdf *pdf)
{
    struct sonde_canvas *c = pdf_canvas(pdf);
    const struct sonde_canvas_line paper = { .fill = SONDE_INK_CARD };
    char number[32];
    c->ops->rect(c, 0, 0, pdf->width, pdf->height, &paper);
    struct sonde_canvas_text t = { .x = PDF_MARGIN, .y = pdf->height - PDF_MARGIN + 8,
                                   .size = note_size, .ink = SONDE_INK_SOFT };
    sonde_canvas_write(c, &t, pdf_across(pdf) - 40, pdf->title);
    snprintf(number, sizeof(number), "%d", ++pdf->page);
    t.x = pdf->width - PDF_MARGIN;
    t.anchor = SONDE_ANCHOR_END;
    sonde_canvas_write(c, &t, 0, number);
    pdf->y = PDF_MARGIN;
    pdf->begun = 0;
}

int sonde_pdf_create(const struct sonde_pdf_options *o, struct sonde_pdf **out,
                     struct sonde_err *err)
{
    int rc = sonde_cairo_load(err);
    if (rc) return rc;
    struct sonde_pdf *pdf = sonde__calloc(1, sizeof(*pdf));
    if (!pdf) return sonde_err_memory(err);
    pdf->width = o->width > 0 ? o->width : 595;
    pdf->height = o->height > 0 ? o->height : 842;
    snprintf(pdf->title, sizeof(pdf->title), "%s", o->title ? o->title : "");
    sonde_buf_init(&pdf->bytes, (size_t)256 << 20);
    rc = sonde_canvas_pdf_begin(&pdf->canvas, &pdf->bytes, pdf->width, pdf->height, o->theme,
                                pdf->title);
    if (rc) {
        sonde_buf_release(&pdf->bytes);
        sonde__free(pdf);
        return sonde_err_memory(err);
    }
    pdf_paper(pdf);
    *out = pdf;
    return 0;
}

void sonde_pdf_new_page(struct sonde_pdf *pdf)
{
    if (!pdf->begun) return;
    sonde_canvas_pdf_next_page(&pdf->canvas);
    pdf_paper(pdf);
}

/* Room for what is so high, on this page or the next. */
static void pdf_room(struct sonde_pdf *pdf, double height)
{
    if (pdf->y + height > pdf_bottom(pdf)) sonde_pdf_new_page(pdf);
    pdf->begun = 1;
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* The part of a paragraph that is the next line, into line; returns what is left. */
static const char *pdf_line(struct sonde_pdf *pdf, const char *text, double size, char line[1024])
{
    size_t fits = 0, end = 0;
    for (;;) {
        end += strcspn(text + end, " \n");
        const size_t n = end < 1023 ? end : 1023;
        memcpy(line, text, n);
        line[n] = '\0';
        if (fits && sonde_canvas_text_width(pdf_canvas(pdf), line, size, 0) > pdf_across(pdf))
            break;
        fits = n;
        if (!text[end] || text[end] == '\n' || end >= 1023) break;
        end++;
    }
    line[fits] = '\0';
    return text + fits + (text[fits] == ' ' || text[fits] == '\n');
}

static void pdf_paragraph(struct sonde_pdf *pdf, const char *text, double size, enum sonde_ink ink)
{
    char line[1024];
    while (*text) {
        text = pdf_line(pdf, text, size, line);
        pdf_room(pdf, size * 1.45);
        const struct sonde_canvas_text t = { .x = PDF_MARGIN, .y = pdf->y + size, .size = size,
                                             .ink = ink };
        sonde_canvas_write(pdf_canvas(pdf), &t, pdf_across(pdf), line);
        pdf->y += size * 1.45;
    }
    pdf->y += size * 0.5;
}

void sonde_pdf_text(struct sonde_pdf *pdf, const char *text)
{
    pdf_paragraph(pdf, text, body_size, SONDE_INK_TEXT);
}

void sonde_pdf_note(struct sonde_pdf *pdf, const char *text)
{
    pdf_paragraph(pdf, text, note_size, SONDE_INK_SOFT);
}

void sonde_pdf_heading(struct sonde_pdf *pdf, int level, const char *text)
{
    const double size = level <= 1 ? 18 : level == 2 ? 13 : 10.5;
    const int fresh = !pdf->begun;
    pdf_room(pdf, size * 2.2 + 40); /* not alone at the foot of a page */
    if (!fresh && pdf->y > PDF_MARGIN) pdf->y += size * 0.6;
    const struct sonde_canvas_text t = { .x = PDF_MARGIN, .y = pdf->y + size, .size = size,
                                         .bold = 1, .ink = SONDE_INK_TEXT };
    sonde_canvas_write(pdf_canvas(pdf), &t, pdf_across(pdf), text);
    pdf->y += size * 1.7;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void pdf_widths(struct sonde_pdf *pdf, const struct sonde_table *t, double *widths)
{
    double all = 0;
    for (size_t k = 0; k < t->column_count; k++) {
        widths[k] = sonde_canvas_text_width(pdf_canvas(pdf), t->columns[k].title, cell_size, 1);
        int used = t->columns[k].title[0] != '\0';
        for (size_t r = 0; r < t->row_count; r++) {
            const char *text = sonde_table_text(t, r, k);
            used |= text[0] != '\0';
            widths[k] =
                fmax(widths[k], sonde_canvas_text_width(pdf_canvas(pdf), text, cell_size, 0));
        }
        widths[k] = used ? widths[k] + 10 : 0;
        all += widths[k];
    }
    /* The widest gives way first. */
    while (all > pdf_across(pdf)) {
        size_t widest = 0;
        double next = 20;
        for (size_t k = 1; k < t->column_count; k++) {
            if (widths[k] > widths[widest]) widest = k;
        }
        for (size_t k = 0; k < t->column_count; k++) {
            if (widths[k] < widths[widest]) next = fmax(next, widths[k]);
        }
        const double give = fmin(all - pdf_across(pdf), fmax(4, widths[widest] - next));
        if (widths[widest] - give < 12) break;
        widths[widest] -= give;
        all -= give;
    }
}

/* row -1: titles. */
static void pdf_row(struct sonde_pdf *pdf, const struct sonde_table *t, const double *widths,
                    long row)
{
    struct sonde_canvas *c = pdf_canvas(pdf);
    const struct sonde_canvas_line line = { .stroke = row < 0 ? SONDE_INK_AXIS : SONDE_INK_LINE,
                                            .width = 0.5 };
    double x = PDF_MARGIN;
    for (size_t k = 0; k < t->column_count; k++) {
        const int right = t->columns[k].align == SONDE_RIGHT;
        const struct sonde_canvas_text text = {
            .x = right ? x + widths[k] - 5 : x + 5, .y = pdf->y + cell_size + 2, .size = cell_size,
            .bold = row < 0, .ink = row < 0 ? SONDE_INK_SOFT : SONDE_INK_TEXT,
            .anchor = right ? SONDE_ANCHOR_END : SONDE_ANCHOR_START };
        if (widths[k] > 10) {
            sonde_canvas_write(c, &text, widths[k] - 9, row < 0 ? t->columns[k].title
                                                    : sonde_table_text(t, (size_t)row, k));
        }
        x += widths[k];
    }
    pdf->y += cell_size * 1.7;
    c->ops->path(c, (double[]){ PDF_MARGIN, pdf->y, x, pdf->y }, 2, 0, &line);
}

void sonde_pdf_table(struct sonde_pdf *pdf, const struct sonde_table *t)
{
    double widths[SONDE_TABLE_COLUMNS_MAX];
    int titled = 0;
    if (!t->row_count) return;
    pdf_widths(pdf, t, widths);
    pdf_room(pdf, 3 * cell_size * 1.7);
    for (size_t k = 0; k < t->column_count; k++) titled |= t->columns[k].title[0] != '\0';
    if (titled) pdf_row(pdf, t, widths, -1);
    for (size_t r = 0; r < t->row_count; r++) {
        const int page = pdf->page;
        pdf_room(pdf, cell_size * 1.7 + 2);
        if (pdf->page != page && titled) pdf_row(pdf, t, widths, -1);
        pdf_row(pdf, t, widths, (long)r);
    }
    pdf->y += 8;
}

/* ---- Charts ---------------------------------------------------------------------------------- */

void sonde_pdf_charts(struct sonde_pdf *pdf, const struct sonde_chart *charts, size_t count,
                      int columns)
{
    const double most = pdf_bottom(pdf) - PDF_MARGIN;
    if (columns < 1) columns = 1;
    if (columns > 3) columns = 3;
    for (size_t i = 0; i < count;) {
        double height;
        const size_t n = sonde_plot_charts_row(charts + i, count - i, columns, &height);
        /* Charts are made for pictures that are wider than paper. */
        height = fmin(most, columns == 1 ? height * 0.62 : height * 0.72);
        pdf_room(pdf, height);
        sonde_plot_charts_draw(charts + i, n, columns, pdf_canvas(pdf), PDF_MARGIN, pdf->y,
                               pdf_across(pdf), height);
        pdf->y += height + PDF_CHART_GAP;
        i += n;
    }
}

int sonde_pdf_finish(struct sonde_pdf *pdf, struct sonde_buf *out, struct sonde_err *err)
{
    if (!pdf) return 0;
    const int rc = sonde_canvas_cairo_end(&pdf->canvas, err);
    if (!rc) sonde_buf_add(out, pdf->bytes.data, pdf->bytes.len);
    sonde_buf_release(&pdf->bytes);
    sonde__free(pdf);
    if (!rc && out->error) return sonde_err_set(err, out->error, "the document is too large");
    return rc;
}
