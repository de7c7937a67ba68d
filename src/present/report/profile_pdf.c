/* profile_pdf.c - a report on pages: the parts of its text, drawn by present/plot/ as plots are,
 * and the charts that a recording has. Parts put their lines into a buffer and their headings and
 * tables through profile_lines.c, which hands both on to the document in order. */
#include <stdio.h>
#include <string.h>

#include "analyze/plot_gather.h"
#include "present/plot/kind.h"
#include "present/plot/pdf.h"
#include "present/report/profile_private.h"

enum { FINDINGS_ON_PAPER = 10, CHARTS_IN_A_ROW = 2 };

void report_pdf_flush(struct sonde_pdf *pdf, struct sonde_buf *text)
{
    char *from = text->data;
    if (text->len) {
        while (*from == '\n') from++;
        while (text->len && text->data[text->len - 1] == '\n') text->data[--text->len] = '\0';
        if (*from) sonde_pdf_text(pdf, from);
    }
    sonde_buf_reset(text);
}

void report_findings_pdf(const struct report *r, struct sonde_buf *out)
{
    const struct sonde_findings *f = r->findings;
    size_t shown = 0;
    for (size_t i = 0; f && i < f->causes && shown < FINDINGS_ON_PAPER; i++) {
        const struct sonde_finding *row = &f->rows[i];
        char title[256];
        if (row->severity == SONDE_SEVERITY_INFO) continue;
        if (!shown++) report_put_heading(r->o, 2, "Findings", out);
        snprintf(title, sizeof(title), "%s: %s", sonde_severity_name(row->severity), row->title);
        report_put_heading(r->o, 3, title, out);
        sonde_buf_puts(out, row->text);
        report_pdf_flush(r->o->pdf, out);
        if (*row->advice) {
            sonde_buf_printf(out, "What to do: %s", row->advice);
            report_pdf_flush(r->o->pdf, out);
        }
    }
}

/* A picture of everything, of all of a recording. */
void report_charts_pdf(const struct report *r, struct sonde_buf *out)
{
    const struct sonde_profile_filter *f = &r->o->filter;
    const struct sonde_plot_kind *kind = sonde_plot_kind_find("comprehensive");
    struct sonde_plot_data data = { .count = 0 };
    struct sonde_plot_page page = { .count = 0 };
    int empty = 1;
    if (f->kind >= 0 || f->from_ns || f->to_ns || f->thread || f->span || f->trace_hi ||
        f->trace_lo || !kind) {
        return;
    }
    int rc = sonde_plot_gather(r->p, "", &data);
    if (!rc) rc = sonde_plot_kind_draw(kind, &data, &page, &empty);
    if (!rc && !empty) {
        report_put_heading(r->o, 2, "Charts", out);
        sonde_pdf_charts(r->o->pdf, page.charts, page.count, CHARTS_IN_A_ROW);
    }
    if (rc) out->error = rc;
    sonde_plot_page_release(&page);
    sonde_plot_data_release(&data);
}

int report_write_pdf(struct report *r, struct sonde_buf *out, struct sonde_err *err)
{
    const char *program = sonde_profile_str(r->p, r->p->program);
    struct sonde_report_options o = *r->o;
    struct sonde_buf text;
    char title[200];
    snprintf(title, sizeof(title), "report%s%.150s", *program ? " of " : "", program);
    int rc = sonde_pdf_create(&(struct sonde_pdf_options){ .title = title }, &o.pdf, err);
    if (rc) return rc;
    o.width = 0;
    r->o = r->heap.o = r->infer.o = &o;
    sonde_buf_init(&text, out->max);
    report_write_text(r, &text);
    report_pdf_flush(o.pdf, &text);
    rc = text.error;
    sonde_buf_release(&text);
    const int finished = sonde_pdf_finish(o.pdf, out, err);
    return rc ? rc : finished;
}
