/* profile_notes.c - what a report has not, or only in part, and why: of a time out of a store what
 * that could not tell, of a part of a recording what is known of the whole only. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "present/report/csv.h"
#include "present/report/profile_private.h"

/* The next line of notes, and how long it is; NULL = no more. *at begins as NULL. */
static const char *report_note_next(const struct report *r, const char **at, size_t *len)
{
    const char *line = *at ? *at : r->notes.len ? r->notes.data : "";
    if (!*line) return NULL;
    *len = strcspn(line, "\n");
    *at = line + *len + (line[*len] == '\n');
    return line;
}

void report_notes_text(const struct report *r, struct sonde_buf *out)
{
    const char *at = NULL, *line;
    size_t len;
    if (!r->notes.len) return;
    report_put_heading(r->o, 2, "Notes", out);
    while ((line = report_note_next(r, &at, &len)) != NULL) {
        char text[REPORT_LINE_MAX];
        snprintf(text, sizeof(text), "%.*s", (int)len, line);
        if (!r->o->pdf) sonde_buf_puts(out, r->o->style == SONDE_REPORT_MARKDOWN ? "- " : "  ");
        report_put_text(r->o, out, text);
        sonde_buf_putc(out, '\n');
    }
}

void report_notes_json(const struct report *r, struct sonde_buf *out)
{
    const char *at = NULL, *line;
    size_t len;
    if (!r->notes.len) return;
    sonde_json_key_open(out, "notes", '[');
    for (int i = 0; (line = report_note_next(r, &at, &len)) != NULL; i++) {
        if (i) sonde_buf_putc(out, ',');
        sonde_buf_json_str(out, line, len);
    }
    sonde_json_close(out, ']');
}

void report_notes_csv(const struct report *r, struct sonde_buf *out)
{
    const char *at = NULL, *line;
    size_t len;
    while ((line = report_note_next(r, &at, &len)) != NULL) {
        const size_t name_len = strcspn(line, ":\n");
        char name[128], text[REPORT_LINE_MAX];
        snprintf(name, sizeof(name), "%.*s", (int)(name_len < len ? name_len : len), line);
        snprintf(text, sizeof(text), "%.*s", (int)len, line);
        const struct report_csv c = { .out = out, .section = "notes", .name = name };
        report_csv_text(&c, "note", text);
    }
}
