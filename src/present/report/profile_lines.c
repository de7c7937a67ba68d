/* profile_lines.c - what reports are made of: a line with a name, a heading, a table; as
 * text or as Markdown. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "present/plot/pdf.h"
#include "present/report/profile_private.h"

void report_put_clean(struct sonde_buf *out, const char *text, int ascii)
{
    char clean[REPORT_LINE_MAX];
    sonde_text_fit(clean, sizeof(clean), text, sonde_text_cells(text, ascii), SONDE_LEFT, ascii);
    sonde_buf_puts(out, clean);
}

/* 1 if GitHub would make a link of what begins here: of "://", of "www.". */
static int is_link(const char *text, const char *c)
{
    const int scheme = *c == ':' && c[1] == '/' && c[2] == '/';
    return scheme || (*c == '.' && c - text >= 3 && !strncasecmp(c - 3, "www", 3));
}

/* Markdown: what would be read as markup is escaped; also entities, formulas and links, which only
 * some readers know. */
static void put_markdown(struct sonde_buf *out, const char *text, int ascii)
{
    char clean[REPORT_LINE_MAX];
    sonde_text_fit(clean, sizeof(clean), text, sonde_text_cells(text, ascii), SONDE_LEFT, ascii);
    for (const char *c = clean; *c; c++) {
        if (strchr("\\`*_{}[]<>|#~&$", *c) || is_link(clean, c)) sonde_buf_putc(out, '\\');
        sonde_buf_putc(out, *c);
    }
}

static void put_markdown_table(const struct sonde_table *t, int ascii, struct sonde_buf *out)
{
    for (size_t c = 0; c < t->column_count; c++) {
        sonde_buf_puts(out, c ? " | " : "| ");
        put_markdown(out, t->columns[c].title, ascii);
    }
    sonde_buf_puts(out, " |\n");
    for (size_t c = 0; c < t->column_count; c++) {
        sonde_buf_puts(out, t->columns[c].align == SONDE_RIGHT ? "|---:" : "|---");
    }
    sonde_buf_puts(out, "|\n");
    for (size_t row = 0; row < t->row_count; row++) {
        for (size_t c = 0; c < t->column_count; c++) {
            sonde_buf_puts(out, c ? " | " : "| ");
            put_markdown(out, sonde_table_text(t, row, c), ascii);
        }
        sonde_buf_puts(out, " |\n");
    }
}

void report_put_text(const struct sonde_report_options *o, struct sonde_buf *out, const char *text)
{
    if (o->style == SONDE_REPORT_MARKDOWN) put_markdown(out, text, o->ascii);
    else report_put_clean(out, text, o->ascii);
}

void report_put_heading(const struct sonde_report_options *o, int level, const char *title,
                        struct sonde_buf *out)
{
    assert(level == 2 || level == 3);
    if (o->pdf) {
        report_pdf_flush(o->pdf, out);
        sonde_pdf_heading(o->pdf, level, title);
        return;
    }
    const char *mark = o->style != SONDE_REPORT_MARKDOWN ? "" : level == 2 ? "## " : "### ";
    sonde_buf_printf(out, "\n%s%s\n\n", mark, title);
}

void report_put_rows(const struct sonde_report_options *o, struct sonde_table *t,
                     struct sonde_buf *out)
{
    if (o->pdf) {
        report_pdf_flush(o->pdf, out);
        sonde_pdf_table(o->pdf, t);
    } else if (o->style == SONDE_REPORT_MARKDOWN) {
        put_markdown_table(t, o->ascii, out);
    } else {
        sonde_table_render(t, o->width, o->ascii, out);
    }
    if (t->error) out->error = t->error;
    sonde_table_release(t);
}

void report_put_table(const struct sonde_report_options *o, const char *title,
                      struct sonde_table *t, struct sonde_buf *out)
{
    report_put_heading(o, 2, title, out);
    report_put_rows(o, t, out);
}

/* Words, on a new line under the first where they do not fit. */
static void put_wrapped(struct sonde_buf *out, char *text, int indent, int width, int ascii)
{
    int at = indent;
    for (char *word = text, *next; word; word = next) {
        next = strchr(word, ' ');
        if (next) *next++ = '\0';
        const int cells = sonde_text_cells(word, ascii);
        if (at > indent && at + 1 + cells > width) {
            sonde_buf_printf(out, "\n%*s", indent, "");
            at = indent;
        } else if (word != text) {
            sonde_buf_putc(out, ' ');
            at++;
        }
        report_put_clean(out, word, ascii);
        at += cells;
    }
}

void report_put_fact(const struct sonde_report_options *o, struct sonde_buf *out, const char *name,
                     const char *format, ...)
{
    enum { INDENT = 13, WIDTH_MIN = 40 };
    char text[REPORT_LINE_MAX];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    if (o->style == SONDE_REPORT_MARKDOWN) {
        sonde_buf_printf(out, "- %s: ", name);
        put_markdown(out, text, o->ascii);
    } else if (o->pdf) {
        sonde_buf_printf(out, "%s: %s", name, text);
    } else {
        sonde_buf_printf(out, "  %-10s ", name);
        if (o->width >= WIDTH_MIN) put_wrapped(out, text, INDENT, o->width, o->ascii);
        else report_put_clean(out, text, o->ascii);
    }
    sonde_buf_putc(out, '\n');
}

void report_percent_cell(struct sonde_table *t, size_t column, double share)
{
    sonde_table_cell(t, column, "%.1f %%", 100 * share);
}

void report_where_cell(struct sonde_table *t, size_t column, const char *file, uint32_t line,
                       const char *module)
{
    if (*file && line) sonde_table_cell(t, column, "%s:%u", file, line);
    else sonde_table_cell(t, column, "%s", *file ? file : module);
}
