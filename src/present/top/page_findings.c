/* page_findings.c - what is wrong now, the weightiest first; below it what the chosen one says, and
 * what to do about it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "present/top/pages.h"
#include "present/units.h"

enum { SEVERITY, TITLE, SUBJECT, PLACE, IMPACT, SINCE, COLUMNS };

static const struct sonde_column columns[COLUMNS] = {
    [SEVERITY] = { .title = "SEVERITY", .want = 8 },
    [TITLE] = { .title = "FINDING", .min = 12 },
    [SUBJECT] = { .title = "SUBJECT", .min = 8, .max = 40, .drop = 2 },
    [PLACE] = { .title = "PLACE", .min = 8, .max = 40, .drop = 3 },
    [IMPACT] = { .title = "IMPACT", .align = SONDE_RIGHT, .want = 7 },
    [SINCE] = { .title = "SINCE", .align = SONDE_RIGHT, .want = SONDE_VALUE_CELLS, .drop = 1 },
};

unsigned sonde_top_severity_style(const char *severity)
{
    if (!strcmp(severity, "critical")) return SONDE_STYLE_RED | SONDE_STYLE_BOLD;
    return strcmp(severity, "warning") == 0 ? SONDE_STYLE_YELLOW : 0;
}

/* The file without its folders: the line is what one looks for. */
static void top_page_findings_place(const struct sonde_top_finding *f, char *out, size_t size)
{
    const char *slash = strrchr(f->file, '/');
    const char *name = slash ? slash + 1 : f->file;
    if (f->line && *name) snprintf(out, size, "%s:%u", name, f->line);
    else snprintf(out, size, "%s", name);
}

static void top_page_findings_add_row(struct sonde_table *t, const struct sonde_top_finding *f,
                                      double now_s, int ascii)
{
    char v[SONDE_VALUE_BYTES], place[256];
    top_page_findings_place(f, place, sizeof(place));
    sonde_table_row(t);
    sonde_table_cell(t, SEVERITY, "%s", f->severity);
    sonde_table_cell(t, TITLE, "%s", f->title);
    sonde_table_cell(t, SUBJECT, "%s", f->subject);
    sonde_table_cell(t, PLACE, "%s", place);
    sonde_table_cell(t, IMPACT, "%s",
                     sonde_value_format(v, f->impact, SONDE_UNIT_RATIO, ascii));
    sonde_table_cell(t, SINCE, "%s",
                     sonde_value_format(v, fmax(0, now_s - f->since_s), SONDE_UNIT_SECONDS, ascii));
}

static unsigned top_page_findings_cell_style(const void *arg, size_t row, size_t column)
{
    const struct sonde_top_findings *f = arg;
    return column == SEVERITY ? sonde_top_severity_style(f->rows[row].severity) : 0;
}

/* Text wrapped at blanks from y on, at most to end; returns the row below it. */
static int top_page_findings_wrap(struct sonde_grid *g, int y, int end, unsigned style,
                                  const char *text)
{
    char line[SONDE_TABLE_CELL_MAX];
    while (*text && y < end) {
        size_t taken = 0, len = 0;
        while (text[taken]) { /* a word more, as long as it fits; the first always does */
            const size_t next = taken + strspn(text + taken, " ");
            const size_t word_end = next + strcspn(text + next, " ");
            if (word_end >= sizeof(line) && len) break;
            snprintf(line, sizeof(line), "%.*s", (int)word_end, text);
            if (len && sonde_text_cells(line, g->ascii) > g->width) break;
            taken = len = word_end;
        }
        if (!len) return y;
        snprintf(line, sizeof(line), "%.*s", (int)len, text);
        sonde_grid_field(g, 0, y++, g->width, 0, style, line);
        text += taken + strspn(text + taken, " ");
    }
    return y;
}

static void top_page_findings_detail(const struct sonde_top_finding *f, struct sonde_grid *g,
                                     struct sonde_top_area area)
{
    const int end = area.y + area.height;
    char line[2 * SONDE_TABLE_CELL_MAX];
    int y = top_page_findings_wrap(g, area.y, end, SONDE_STYLE_BOLD, f->text);
    snprintf(line, sizeof(line), "→ %s", f->advice);
    if (*f->advice) y = top_page_findings_wrap(g, y, end, 0, line);
    if (f->gain > 0) {
        snprintf(line, sizeof(line), "gain: up to %.0f %% of the %s", ceil(100 * f->gain),
                 f->gain_of);
        y = top_page_findings_wrap(g, y, end, SONDE_STYLE_DIM, line);
    }
    if (!f->symptoms) return;
    snprintf(line, sizeof(line), f->symptoms > 1 ? "explains %zu other findings"
                                                 : "explains %zu other finding", f->symptoms);
    top_page_findings_wrap(g, y, end, SONDE_STYLE_DIM, line);
}

/* Why there is nothing to see. */
static void top_page_findings_nothing(const struct sonde_top_findings *f, struct sonde_grid *g,
                                      struct sonde_top_area area)
{
    static const char *const nobody[] = {
        "Nobody looks for findings here.",
        "An agent does, all the time:  sonde serve, then  sonde top http://127.0.0.1:6060",
        "Once, of one process:  sonde findings PID", NULL };
    static const char *const early[] = {
        "The agent has not looked yet.", "It does ten seconds after its start.", NULL };
    static const char *const fine[] = {
        "Nothing found.", "Waiting for locks and storage is judged by  sonde findings URL", NULL };
    sonde_top_message(g, area, !f->known ? nobody : f->looked_s > 0 ? fine : early);
}

int sonde_top_page_findings(struct sonde_top_state *s, const struct sonde_top_data *d,
                            struct sonde_grid *g, struct sonde_top_area area)
{
    const struct sonde_top_findings *f = &d->findings;
    uint64_t ids[SONDE_TOP_FINDINGS_MAX];
    struct sonde_table t;
    if (!f->count) {
        top_page_findings_nothing(f, g, area);
        return 0;
    }
    sonde_table_init(&t, columns, COLUMNS);
    for (size_t i = 0; i < f->count; i++) {
        top_page_findings_add_row(&t, &f->rows[i], d->time_s, g->ascii);
        ids[i] = sonde_top_row_id(f->rows[i].title, f->rows[i].subject, 0);
    }
    const int rc = t.error;
    if (!rc) {
        struct sonde_top_cursor *cursor = sonde_top_cursor(s);
        struct sonde_top_area below = area;
        if (area.height > 8) area.height /= 2;
        const struct sonde_top_list list = { .table = &t, .ids = ids, .cursor = cursor,
                                             .style = top_page_findings_cell_style, .sorted = -1,
                                             .arg = f };
        const int used = sonde_top_draw_list(s, &list, g, area) + 1;
        below.y += used;
        below.height -= used;
        top_page_findings_detail(&f->rows[cursor->index], g, below);
    }
    sonde_table_release(&t);
    return rc;
}
