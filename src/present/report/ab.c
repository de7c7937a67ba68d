/* ab.c - see ab.h. What is missing in an answer, or of another type, is "–": an agent of another
 * version may say more or less. */
#include "present/report/ab.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "present/table.h"
#include "present/units.h"
#include "sonde/sonde.h"

enum { AB_ERRORS_SHOWN = 32, AB_DIFFERENCES_MAX = 32, AB_WARNINGS_SHOWN = 16 };

struct ab_page {
    const struct sonde_ab_style *style;
    struct sonde_buf *out;
};

static double ab_number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static const char *ab_string(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* A line of text, harmless. */
__attribute__((format(printf, 2, 3)))
static void ab_line(const struct ab_page *page, const char *format, ...)
{
    char text[1024], fit[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    const int cells = sonde_text_cells(text, page->style->ascii);
    sonde_text_fit(fit, sizeof(fit), text, cells, SONDE_LEFT, page->style->ascii);
    sonde_buf_puts(page->out, fit);
    sonde_buf_putc(page->out, '\n');
}

static enum sonde_unit ab_unit(const char *measure)
{
    const size_t len = strlen(measure);
    if (!strcmp(measure, "error_ratio")) return SONDE_UNIT_RATIO;
    return len > 2 && !strcmp(measure + len - 2, "_s") && strcmp(measure, "tokens_per_s") != 0
               ? SONDE_UNIT_SECONDS
               : SONDE_UNIT_COUNT;
}

/* ---- Both servers --------------------------------------------------------------------------- */

static void ab_servers(const struct ab_page *page, const json_t *answer)
{
    static const struct sonde_column columns[] = {
        { .title = "" }, { .title = "server" },
        { .title = "requests", .align = SONDE_RIGHT }, { .title = "ok", .align = SONDE_RIGHT },
        { .title = "failed", .align = SONDE_RIGHT }, { .title = "cancelled", .align = SONDE_RIGHT },
        { .title = "output tokens", .align = SONDE_RIGHT },
    };
    static const char *const keys[] = { "requests", "ok", "failed", "cancelled", "output_tokens" };
    static const char *const arms[] = { "a", "b" };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t arm = 0; arm < SONDE_COUNT(arms); arm++) {
        const json_t *o = json_object_get(answer, arms[arm]);
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", arms[arm]);
        sonde_table_cell(&t, 1, "%s", ab_string(o, "url"));
        for (size_t i = 0; i < SONDE_COUNT(keys); i++) {
            const double v = ab_number(o, keys[i]);
            if (isnan(v)) sonde_table_cell(&t, 2 + i, "–");
            else sonde_table_cell(&t, 2 + i, "%.0f", v);
        }
    }
    sonde_table_render(&t, page->style->width, page->style->ascii, page->out);
    sonde_table_release(&t);
}

/* ---- Differences ---------------------------------------------------------------------------- */

/* "12.3 ms (11.9 ms … 12.8 ms)" */
static void ab_estimate(struct sonde_table *t, size_t column, const json_t *o, enum sonde_unit unit,
                        int ascii)
{
    char mean[SONDE_VALUE_BYTES], low[SONDE_VALUE_BYTES], high[SONDE_VALUE_BYTES];
    sonde_value_format(mean, ab_number(o, "mean"), unit, ascii);
    if (isnan(ab_number(o, "low")) || isnan(ab_number(o, "high"))) {
        sonde_table_cell(t, column, "%s", mean);
        return;
    }
    sonde_table_cell(t, column, "%s (%s … %s)", mean,
                     sonde_value_format(low, ab_number(o, "low"), unit, ascii),
                     sonde_value_format(high, ab_number(o, "high"), unit, ascii));
}

static void ab_change(struct sonde_table *t, size_t column, const json_t *d)
{
    const double relative = ab_number(d, "relative");
    const double low = ab_number(d, "relative_low"), high = ab_number(d, "relative_high");
    if (isnan(relative)) {
        sonde_table_cell(t, column, "–");
    } else if (isnan(low) && isnan(high)) {
        sonde_table_cell(t, column, "%+.1f %%", 100 * relative);
    } else if (isnan(low)) {
        sonde_table_cell(t, column, "%+.1f %% (up to %+.1f %%)", 100 * relative, 100 * high);
    } else if (isnan(high)) {
        sonde_table_cell(t, column, "%+.1f %% (from %+.1f %%)", 100 * relative, 100 * low);
    } else {
        sonde_table_cell(t, column, "%+.1f %% (%+.1f … %+.1f %%)", 100 * relative, 100 * low,
                         100 * high);
    }
}

/* How many, and about how many there have to be until it is known. */
static void ab_blocks(struct sonde_table *t, size_t column, const json_t *d)
{
    const double blocks = ab_number(d, "blocks"), more = ab_number(d, "blocks_more");
    if (isnan(blocks)) return;
    if (more > 0 && more < 1e6) sonde_table_cell(t, column, "%.0f of ~%.0f", blocks, blocks + more);
    else sonde_table_cell(t, column, "%.0f", blocks);
}

static const char *ab_verdict(const char *verdict)
{
    static const struct { const char *name, *text; } known[] = {
        { "a_better", "b is worse" }, { "b_better", "b is better" }, { "same", "no difference" },
        { "different", "they differ" }, { "undecided", "not known yet" } };
    for (size_t i = 0; i < SONDE_COUNT(known); i++) {
        if (!strcmp(known[i].name, verdict)) return known[i].text;
    }
    return verdict;
}

static void ab_differences(const struct ab_page *page, const json_t *answer)
{
    static const struct sonde_column columns[] = {
        { .title = "" },
        { .title = "a" }, { .title = "p95", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "b" }, { .title = "p95", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "difference" }, { .title = "blocks", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "" },
    };
    static const char *const arms[] = { "a", "b" };
    const int ascii = page->style->ascii;
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    const json_t *list = json_object_get(answer, "differences"), *d;
    size_t i;
    json_array_foreach(list, i, d) {
        if (i == AB_DIFFERENCES_MAX) break;
        const char *measure = ab_string(d, "measure");
        const enum sonde_unit unit = ab_unit(measure);
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", *ab_string(d, "title") ? ab_string(d, "title") : measure);
        for (size_t arm = 0; arm < SONDE_COUNT(arms); arm++) {
            char p95[SONDE_VALUE_BYTES];
            const json_t *f = json_object_get(json_object_get(answer, arms[arm]), measure);
            ab_estimate(&t, 1 + 2 * arm, f, unit, ascii);
            if (isnan(ab_number(f, "p95"))) continue;
            sonde_table_cell(&t, 2 + 2 * arm, "%s",
                             sonde_value_format(p95, ab_number(f, "p95"), unit, ascii));
        }
        ab_change(&t, 5, d);
        ab_blocks(&t, 6, d);
        const int none = unit == SONDE_UNIT_RATIO && ab_number(d, "a") <= 0 &&
                         ab_number(d, "b") <= 0;
        sonde_table_cell(&t, 7, "%s", none ? "none failed" : ab_verdict(ab_string(d, "verdict")));
    }
    sonde_table_render(&t, page->style->width, ascii, page->out);
    sonde_table_release(&t);
}

/* ---- The rest ------------------------------------------------------------------------------- */

/* "WHAT: connect_refused 3, http_503 1", if any of them is not 0. */
static void ab_counts(const struct ab_page *page, const char *what, const json_t *counts)
{
    char text[960];
    size_t used = 0, shown = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)counts, key, value) {
        if (!(json_number_value(value) > 0) || shown == AB_ERRORS_SHOWN) continue;
        const int n = snprintf(text + used, sizeof(text) - used, "%s%.60s %.0f",
                               shown ? ", " : "", key, json_number_value(value));
        if (n < 0 || (size_t)n >= sizeof(text) - used) break;
        used += (size_t)n;
        shown++;
    }
    if (shown) ab_line(page, "%s: %s", what, text);
}

static void ab_head(const struct ab_page *page, const json_t *answer)
{
    char time[SONDE_VALUE_BYTES], share[SONDE_VALUE_BYTES];
    const int mirror = !strcmp(ab_string(answer, "mode"), "mirror");
    sonde_value_format(time, ab_number(answer, "seconds"), SONDE_UNIT_SECONDS, 0);
    sonde_value_format(share, ab_number(answer, "share"), SONDE_UNIT_RATIO, 0);
    ab_line(page, mirror ? "%s of the inference requests are mirrored to b, for %s"
                         : "%s of the inference requests go to b, for %s", share, time);
    sonde_buf_putc(page->out, '\n');
}

static void ab_foot(const struct ab_page *page, const json_t *answer)
{
    const json_t *mirror = json_object_get(answer, "mirror"), *warning;
    size_t i;
    sonde_buf_putc(page->out, '\n');
    ab_counts(page, "errors of a", json_object_get(json_object_get(answer, "a"), "errors"));
    ab_counts(page, "errors of b", json_object_get(json_object_get(answer, "b"), "errors"));
    ab_counts(page, "not mirrored", json_object_get(mirror, "dropped"));
    json_array_foreach(json_object_get(answer, "warnings"), i, warning) {
        if (i == AB_WARNINGS_SHOWN) break;
        if (json_is_string(warning)) ab_line(page, "note: %.900s", json_string_value(warning));
    }
    ab_line(page, "%.900s", ab_string(answer, "text"));
}

int sonde_ab_text(const char *json, size_t len, const struct sonde_ab_style *style,
                  struct sonde_buf *out, struct sonde_err *err)
{
    json_t *answer =
        len <= SONDE_AB_ANSWER_MAX ? json_loadb(len ? json : "", len, 0, NULL) : NULL;
    if (!json_is_object(json_object_get(answer, "a")) ||
        !json_is_object(json_object_get(answer, "b")) ||
        !json_is_array(json_object_get(answer, "differences"))) {
        json_decref(answer);
        return sonde_err_set(err, SONDE_EINVAL, "what was answered is not a comparison of two "
                                                "servers, as /api/ab of a sonde agent gives it");
    }
    const struct ab_page page = { style, out };
    ab_head(&page, answer);
    ab_servers(&page, answer);
    sonde_buf_putc(out, '\n');
    ab_differences(&page, answer);
    ab_foot(&page, answer);
    json_decref(answer);
    return out->error ? sonde_err_set(err, SONDE_ENOMEM, "out of memory") : 0;
}
