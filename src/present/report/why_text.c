/* why_text.c - critical paths as text, made of their JSON: see why.h. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "present/report/why.h"
#include "present/table.h"
#include "present/units.h"
#include "sonde/sonde.h"

enum { BAR_CELLS = 60, SHARE_CELLS = 20, DETAILS_SHOWN = 3, WIDTH_DEFAULT = 100 };

struct why_text {
    const struct sonde_why_style *style;
    struct sonde_buf *out;
    int many;              /* of means: which requests were computed for says nothing */
};

static double why_text_number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static const char *why_text_string(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static const char *why_text_seconds(const struct why_text *t, char out[SONDE_VALUE_BYTES], double v)
{
    return sonde_value_format(out, v, SONDE_UNIT_SECONDS, t->style->ascii);
}

/* A line of text from anywhere, made harmless, as wide as there is room. */
static void why_text_line(const struct why_text *t, const char *text)
{
    char line[4 * SONDE_TABLE_CELL_MAX + 1];
    const int width = t->style->width > 0 ? t->style->width : SONDE_TABLE_CELL_MAX;
    const int cells = sonde_text_cells(text, t->style->ascii);
    sonde_text_fit(line, sizeof(line), text, cells < width ? cells : width, SONDE_LEFT,
                   t->style->ascii);
    sonde_buf_printf(t->out, "%s\n", line);
}

/* ---- Bars ------------------------------------------------------------------------------------ */

/* A letter for each kind, so that the bar can be read without colours. */
static char why_text_letter(const char *kind)
{
    static const struct { const char *kind; char letter; } letters[] = {
        { "queue", 'q' },      { "encode", 'e' },  { "prefill", 'P' },     { "decode", 'D' },
        { "sample", 's' },     { "detokenize", 't' }, { "compute", 'C' },  { "overhead", 'o' },
        { "batch_mates", 'b' }, { "lock", 'L' },   { "gil", 'G' },
        { "thread", 'w' },      { "io", 'I' },
        { "page_fault", 'F' }, { "sleep", 'z' },   { "network", 'n' },     { "process", 'p' },
        { "blocked", 'x' },    { "runnable", 'r' }, { "unexplained", '?' },
    };
    for (size_t i = 0; i < SONDE_COUNT(letters); i++) {
        if (!strcmp(letters[i].kind, kind)) return letters[i].letter;
    }
    return '.';
}

/* In order of time: in each cell what most of it was. */
static void why_text_bar(const struct why_text *t, const json_t *path, double total)
{
    char bar[BAR_CELLS + 1];
    double most[BAR_CELLS] = { 0 };
    const json_t *piece, *line = json_object_get(path, "timeline");
    size_t i;
    memset(bar, ' ', BAR_CELLS);
    bar[BAR_CELLS] = '\0';
    if (!(total > 0) || !json_array_size(line)) return;
    json_array_foreach(line, i, piece) {
        const double from = why_text_number(piece, "start_s") / total * BAR_CELLS;
        const double to = why_text_number(piece, "end_s") / total * BAR_CELLS;
        if (!(from >= 0) || !(to > from) || !(to <= BAR_CELLS + 1e-6)) continue;
        for (int c = (int)from; c < BAR_CELLS && c < to; c++) {
            const double part = fmin(to, c + 1) - fmax(from, c);
            if (part <= most[c]) continue;
            most[c] = part;
            bar[c] = why_text_letter(why_text_string(piece, "kind"));
        }
    }
    sonde_buf_printf(t->out, "  |%s|\n\n", bar);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static void why_text_where(const json_t *d, char *out, size_t size)
{
    const char *file = why_text_string(d, "file");
    const double line = why_text_number(d, "line");
    const char *slash = strrchr(file, '/');
    if (slash) file = slash + 1;
    if (!*file) snprintf(out, size, "%s", "");
    else if (line > 0) snprintf(out, size, " (%s:%.0f)", file, line);
    else snprintf(out, size, " (%s)", file);
}

static void why_text_detail(const struct why_text *t, struct sonde_table *table, const char *key,
                            const json_t *d)
{
    char where[200], text[512], seconds[SONDE_VALUE_BYTES];
    const char *function = why_text_string(d, "function"), *call = why_text_string(d, "call");
    const char *name = why_text_string(d, "name");
    why_text_where(d, where, sizeof(where));
    if (!strcmp(key, "requests")) {
        snprintf(text, sizeof(text), "for %s", *name ? name : why_text_string(d, "id"));
    } else if (!strcmp(key, "spans")) {
        snprintf(text, sizeof(text), "around span %s", name);
    } else if (*call && *function) {
        snprintf(text, sizeof(text), "%s%s in %s", function, where, call);
    } else {
        snprintf(text, sizeof(text), "%s%s", *function ? function : *call ? call : "[unknown]",
                 where);
    }
    sonde_table_row(table);
    sonde_table_cell(table, 0, "    %s", text);
    sonde_table_cell(table, 1, "%s", why_text_seconds(t, seconds, why_text_number(d, "seconds")));
}

static void why_text_part(const struct why_text *t, struct sonde_table *table, const json_t *part)
{
    static const char *const keys[] = { "waits", "functions", "requests", "spans" };
    char seconds[SONDE_VALUE_BYTES], bar[SHARE_CELLS + 1];
    const double share = why_text_number(part, "share");
    const int cells = share > 0 && share <= 1 ? (int)(share * SHARE_CELLS + 0.5) : 0;
    memset(bar, '#', (size_t)cells);
    bar[cells] = '\0';
    sonde_table_row(table);
    sonde_table_cell(table, 0, "%c %s", why_text_letter(why_text_string(part, "kind")),
                     why_text_string(part, "title"));
    sonde_table_cell(table, 1, "%s",
                     why_text_seconds(t, seconds, why_text_number(part, "seconds")));
    if (!isnan(share)) sonde_table_cell(table, 2, "%.1f %%", share * 100);
    sonde_table_cell(table, 3, "%s", bar);
    for (size_t k = 0; k < SONDE_COUNT(keys); k++) {
        const json_t *d, *list = json_object_get(part, keys[k]);
        size_t i;
        json_array_foreach(list, i, d) {
            if (i == DETAILS_SHOWN || (t->many && !strcmp(keys[k], "requests"))) break;
            why_text_detail(t, table, keys[k], d);
        }
    }
}

static void why_text_render(const struct why_text *t, struct sonde_table *table)
{
    sonde_table_render(table, t->style->width, t->style->ascii, t->out);
    if (table->error) t->out->error = table->error;
    sonde_table_release(table);
}

static void why_text_parts(const struct why_text *t, const json_t *of)
{
    static const struct sonde_column columns[] = {
        { .title = "PART", .align = SONDE_LEFT, .min = 20 },
        { .title = "TIME", .align = SONDE_RIGHT },
        { .title = "SHARE", .align = SONDE_RIGHT },
        { .title = "", .align = SONDE_LEFT, .drop = 1 },
    };
    char seconds[SONDE_VALUE_BYTES];
    struct sonde_table table;
    const json_t *part;
    size_t i;
    sonde_table_init(&table, columns, SONDE_COUNT(columns));
    json_array_foreach(json_object_get(of, "parts"), i, part) why_text_part(t, &table, part);
    sonde_table_row(&table);
    sonde_table_cell(&table, 0, "  total");
    sonde_table_cell(&table, 1, "%s", why_text_seconds(t, seconds, why_text_number(of, "seconds")));
    why_text_render(t, &table);
}

static void why_text_notes(const struct why_text *t, const json_t *root)
{
    const json_t *note;
    size_t i;
    json_array_foreach(json_object_get(root, "notes"), i, note) {
        char text[1024];
        if (!json_is_string(note)) continue;
        snprintf(text, sizeof(text), "note: %s", json_string_value(note));
        sonde_buf_putc(t->out, '\n');
        const struct sonde_why_style wide = { 0, t->style->ascii };
        why_text_line(&(struct why_text){ &wide, t->out, 0 }, text);
    }
}

static void why_text_one(const struct why_text *t, const json_t *root)
{
    char text[512], seconds[SONDE_VALUE_BYTES];
    const char *name = why_text_string(root, "name"), *program = why_text_string(root, "program");
    const double total = why_text_number(root, "seconds");
    const double mates = why_text_number(root, "batch_mates");
    if (!*name) name = why_text_string(root, "trace_id");
    snprintf(text, sizeof(text), "%s %s%s%s: %s", why_text_string(root, "kind"), name,
             *program ? " of " : "", program, why_text_seconds(t, seconds, total));
    why_text_line(t, text);
    why_text_bar(t, root, total);
    why_text_parts(t, root);
    if (mates > 0) {
        sonde_buf_printf(t->out, "\n%.0f other request%s computed for meanwhile, %.0f of their "
                         "tokens\n", mates, mates == 1 ? " was" : "s were",
                         why_text_number(root, "batch_mate_tokens"));
    }
}

/* ---- The slow against the rest --------------------------------------------------------------- */

static void why_text_value(const struct why_text *t, struct sonde_table *table, size_t column,
                           const json_t *row, const char *key, int sign)
{
    const char *unit = why_text_string(row, "unit");
    const double v = why_text_number(row, key);
    char value[SONDE_VALUE_BYTES];
    if (isnan(v)) return;
    const enum sonde_unit u = !strcmp(unit, "seconds") ? SONDE_UNIT_SECONDS
                              : !strcmp(unit, "share") ? SONDE_UNIT_RATIO : SONDE_UNIT_COUNT;
    sonde_table_cell(table, column, "%s%s", sign && v > 0 ? "+" : "",
                     sonde_value_format(value, v, u, t->style->ascii));
}

static void why_text_difference(const struct why_text *t, const json_t *root)
{
    static const struct sonde_column columns[] = {
        { .title = "DIFFERS IN", .align = SONDE_LEFT, .min = 20 },
        { .title = "SLOW", .align = SONDE_RIGHT },
        { .title = "REST", .align = SONDE_RIGHT },
        { .title = "CHANGE", .align = SONDE_RIGHT },
        { .title = "OF GAP", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "MORE IN", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "P", .align = SONDE_RIGHT, .drop = 1 },
    };
    const json_t *d = json_object_get(root, "difference"), *rows = json_object_get(d, "rows"), *row;
    const char *why = why_text_string(d, "why_none");
    struct sonde_table table;
    size_t i;
    sonde_buf_putc(t->out, '\n');
    if (*why) {
        why_text_line(t, why);
        return;
    }
    if (!json_array_size(rows)) {
        sonde_buf_printf(t->out, "nothing tells them from the rest for sure, of %.0f things that "
                         "were compared\n", why_text_number(d, "looked_at"));
        return;
    }
    sonde_table_init(&table, columns, SONDE_COUNT(columns));
    json_array_foreach(rows, i, row) {
        char where[200];
        const char *type = why_text_string(row, "type"), *kind = why_text_string(row, "kind");
        const double gap = why_text_number(row, "gap_share"), p = why_text_number(row, "p");
        const double more = why_text_number(row, "likelihood");
        const int wait = !strcmp(type, "wait");
        why_text_where(row, where, sizeof(where));
        sonde_table_row(&table);
        sonde_table_cell(&table, 0, "%s %s%s%s%s", type, why_text_string(row, "name"), where,
                         wait ? ": " : "", wait ? kind : "");
        why_text_value(t, &table, 1, row, "slow", 0);
        why_text_value(t, &table, 2, row, "rest", 0);
        why_text_value(t, &table, 3, row, "change", 1);
        if (!isnan(gap)) sonde_table_cell(&table, 4, "%.0f %%", gap * 100);
        if (!isnan(more)) sonde_table_cell(&table, 5, "%.0f %%", more * 100);
        if (!isnan(p)) sonde_table_cell(&table, 6, p < 0.001 ? "<0.001" : "%.3f", p);
    }
    why_text_render(t, &table);
    sonde_buf_printf(t->out, "MORE IN: how often a slow one has more of it than one of the rest. "
                     "P: adjusted for the %.0f that were compared.\n",
                     why_text_number(d, "looked_at"));
}

static void why_text_set(const struct why_text *t, const json_t *root)
{
    const json_t *slow = json_object_get(root, "slow"), *rest = json_object_get(root, "rest");
    const char *span = why_text_string(root, "span");
    char text[512], a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    const double asked = why_text_number(root, "slow_asked");
    const double count = why_text_number(slow, "count");
    snprintf(text, sizeof(text), "the slowest %.0f of %.0f %s%s: %s on average; the rest: %s",
             count, why_text_number(root, "count"), *span ? "spans " : "requests", span,
             why_text_seconds(t, a, why_text_number(slow, "seconds")),
             why_text_seconds(t, b, why_text_number(rest, "seconds")));
    why_text_line(t, text);
    if (asked < count) {
        sonde_buf_printf(t->out, "(%.0f would be as asked for; fewer than %.0f tell nothing)\n",
                         asked, count);
    }
    sonde_buf_putc(t->out, '\n');
    sonde_buf_puts(t->out, "the slowest consist of\n");
    why_text_parts(t, slow);
    if (why_text_number(rest, "count") > 0) {
        sonde_buf_puts(t->out, "\nthe rest consist of\n");
        why_text_parts(t, rest);
    }
    why_text_difference(t, root);
    const json_t *one, *list = json_object_get(root, "slowest");
    size_t i;
    sonde_buf_puts(t->out, "\nslowest:");
    json_array_foreach(list, i, one) {
        char name[64];
        if (i == 5) break;
        const char *of = why_text_string(one, *span ? "trace_id" : "name");
        sonde_text_fit(name, sizeof(name), of, sonde_text_cells(of, t->style->ascii) < 40
                       ? sonde_text_cells(of, t->style->ascii) : 40, SONDE_LEFT, t->style->ascii);
        sonde_buf_printf(t->out, " %s (%s)", name,
                         why_text_seconds(t, a, why_text_number(one, "seconds")));
    }
    sonde_buf_putc(t->out, '\n');
}

int sonde_why_text(const char *json, size_t len, const struct sonde_why_style *style,
                   struct sonde_buf *out, struct sonde_err *err)
{
    json_error_t error;
    json_t *root = json_loadb(json, len, 0, &error);
    const char *kind = why_text_string(root, "kind");
    const int many = !strcmp(kind, "requests") || !strcmp(kind, "spans");
    const struct why_text t = { style, out, many };
    if (!root || !*kind) {
        json_decref(root);
        return sonde_err_set(err, SONDE_EFORMAT, "the answer is not one about critical paths%s%s",
                             root ? "" : ": ", root ? "" : error.text);
    }
    if (many) why_text_set(&t, root);
    else why_text_one(&t, root);
    why_text_notes(&t, root);
    json_decref(root);
    return out->error ? sonde_err_set(err, SONDE_ENOMEM, "out of memory") : 0;
}
