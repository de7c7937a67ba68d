/* data_file.c - see data_file.h. Files come from others: nothing in them is believed. What JSON
 * does not have and Python writes (NaN, Infinity) is read as what it is. */
#include "present/plot/data_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/utf8.h"
#include "present/plot/kind.h"
#include "sonde/sonde.h"

int sonde_plot_file_is(const char *text, size_t len)
{
    static const char word[] = "\"sonde_plot\"";
    size_t at = 0;
    while (at < len && strchr(" \t\r\n", text[at])) at++;
    return at < len && text[at] == '{' && memmem(text, len, word, sizeof(word) - 1) != NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct file_numbers { double *v; size_t count, cap; };

struct file_series {         /* as it stands, until all of it is known */
    struct file_numbers x, y, low, high, weight, failed;
    char role[32], name[SONDE_PLOT_NAME_MAX], group[SONDE_PLOT_NAME_MAX], unit[16];
    int has_role, has_unit, has_group;
    double better, sum;
};

static void file_series_release(struct file_series *s)
{
    struct file_numbers *const all[] = { &s->x, &s->y, &s->low, &s->high, &s->weight, &s->failed };
    for (size_t i = 0; i < SONDE_COUNT(all); i++) sonde__free(all[i]->v);
}

static int file_word(struct sonde_json_reader *r, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return 0;
    r->at += n;
    return 1;
}

/* A number; null, which was not measured, is NaN, and what was measured and is no number is
 * infinite: it is counted. */
static int file_number(struct sonde_json_reader *r, double *out)
{
    const char next = sonde_json_peek(r);
    *out = NAN;
    if (file_word(r, "null")) return 1;
    if (file_word(r, "NaN") || file_word(r, "Infinity") || file_word(r, "-Infinity")) {
        *out = INFINITY;
        return 1;
    }
    if (next != '0') return sonde_json_fail(r, "a number was expected");
    return sonde_json_number(r, out);
}

static int file_numbers_read(struct sonde_json_reader *r, struct file_numbers *n)
{
    int rc = 0;
    double v;
    n->count = 0;
    if (!sonde_json_enter(r, '[')) return 0;
    while (!rc && sonde_json_element(r)) {
        if (!file_number(r, &v)) break;
        if (n->count == SONDE_PLOT_VALUES_MAX) return SONDE_EFULL;
        double *new = SONDE_ARRAY_ADD(n->v, n->count, n->cap);
        if (!new) rc = SONDE_ENOMEM;
        else *new = v;
    }
    return rc;
}

static void file_text(struct sonde_json_reader *r, char *out, size_t size)
{
    struct sonde_buf b;
    struct sonde_json_text t;
    int changed = 0;
    sonde_buf_init(&b, SONDE_PLOT_FILE_MAX);
    if (sonde_json_string(r, &b, &t)) {
        out[sonde__utf8_copy(out, size - 1, t.s, t.len, &changed)] = '\0';
    }
    sonde_buf_release(&b);
}

static int file_series_member(struct sonde_json_reader *r, struct sonde_json_text key,
                              struct file_series *s)
{
    const struct { const char *key; struct file_numbers *to; } arrays[] = {
        { "x", &s->x },     { "y", &s->y },           { "low", &s->low },
        { "high", &s->high }, { "weight", &s->weight }, { "failed", &s->failed },
    };
    for (size_t i = 0; i < SONDE_COUNT(arrays); i++) {
        if (sonde_json_text_is(key, arrays[i].key)) return file_numbers_read(r, arrays[i].to);
    }
    if (sonde_json_text_is(key, "role")) {
        file_text(r, s->role, sizeof(s->role));
        s->has_role = 1;
    } else if (sonde_json_text_is(key, "name")) {
        file_text(r, s->name, sizeof(s->name));
    } else if (sonde_json_text_is(key, "group")) {
        file_text(r, s->group, sizeof(s->group));
        s->has_group = 1;
    } else if (sonde_json_text_is(key, "unit")) {
        file_text(r, s->unit, sizeof(s->unit));
        s->has_unit = 1;
    } else if (sonde_json_text_is(key, "better")) {
        file_number(r, &s->better);
    } else if (sonde_json_text_is(key, "sum")) {
        file_number(r, &s->sum);
    } else {
        sonde_json_skip(r);
    }
    return 0;
}

/* 0, or SONDE_EFORMAT: an array that is there is not as long as y. */
static int file_lengths(const struct file_series *s, struct sonde_err *err)
{
    const struct { const char *key; const struct file_numbers *n; } arrays[] = {
        { "x", &s->x }, { "low", &s->low }, { "high", &s->high }, { "weight", &s->weight },
        { "failed", &s->failed },
    };
    for (size_t i = 0; i < SONDE_COUNT(arrays); i++) {
        if (!arrays[i].n->count || arrays[i].n->count == s->y.count) continue;
        return sonde_err_set(err, SONDE_EFORMAT, "series '%.60s' has %zu values in y and %zu in %s",
                             s->name, s->y.count, arrays[i].n->count, arrays[i].key);
    }
    return 0;
}

static double file_at(const struct file_numbers *n, size_t i, double otherwise)
{
    return n->count ? n->v[i] : otherwise;
}

/* A series whose role is not said has ROLE_UNSAID until all of the file is read. */
#define ROLE_UNSAID SONDE_ROLE_COUNT

static int file_series_take(const struct file_series *s, const char *group,
                            struct sonde_plot_data *data, struct sonde_err *err)
{
    const int as = s->has_role ? sonde_plot_role_find(s->role) : 0;
    if (as < 0) {
        return sonde_err_set(err, SONDE_EFORMAT, "series '%.60s' has a role that is not known: "
                             "'%.31s' (docs/plot.md)", s->name, s->role);
    }
    const char *unit = s->has_unit ? sonde_plot_unit_find(s->unit)
                                   : sonde_plot_role_unit((enum sonde_plot_role)as);
    if (!unit) {
        return sonde_err_set(err, SONDE_EFORMAT, "series '%.60s' has a unit that is not known: "
                             "'%.15s' (s, bytes, 1/s, bytes/s, share, ratio)", s->name, s->unit);
    }
    int rc = file_lengths(s, err);
    if (rc) return rc;
    struct sonde_plot_series *to = sonde_plot_series_add(data, (enum sonde_plot_role)as,
                                                         s->has_group ? s->group : group, s->name);
    if (!to) {
        return data->count == SONDE_PLOT_SERIES_MAX
                   ? sonde_err_set(err, SONDE_EFULL, "more than %u series", SONDE_PLOT_SERIES_MAX)
                   : sonde_err_memory(err);
    }
    if (!s->has_role) to->role = ROLE_UNSAID;
    to->unit = s->has_role || s->has_unit ? unit : NULL;
    to->sum = isfinite(s->sum) ? s->sum : NAN;
    to->better = s->better > 0 ? 1 : s->better < 0 ? -1 : 0;
    for (size_t i = 0; i < s->y.count && !rc; i++) {
        const double failed = file_at(&s->failed, i, 0);
        const struct sonde_plot_value v = {
            .x = file_at(&s->x, i, NAN), .y = s->y.v[i], .low = file_at(&s->low, i, NAN),
            .high = file_at(&s->high, i, NAN), .weight = file_at(&s->weight, i, 1),
            .failed = failed > 0 ? 1 : 0 };
        rc = sonde_plot_value_add(data, to, &v);
    }
    if (!rc && data->left_out) {
        return sonde_err_set(err, SONDE_EFULL, "more than %u values", SONDE_PLOT_VALUES_MAX);
    }
    return rc ? sonde_err_memory(err) : 0;
}

static int file_series_read(struct sonde_json_reader *r, const char *group,
                            struct sonde_plot_data *data, struct sonde_err *err)
{
    int rc = 0;
    if (!sonde_json_enter(r, '[')) return 0;
    while (!rc && sonde_json_element(r)) {
        struct file_series s = { .sum = NAN };
        struct sonde_json_text key;
        if (sonde_json_enter(r, '{')) {
            while (!rc && sonde_json_member(r, &key)) rc = file_series_member(r, key, &s);
        }
        if (rc == SONDE_EFULL) {
            sonde_err_set(err, rc, "more than %u values", SONDE_PLOT_VALUES_MAX);
        } else if (rc) {
            sonde_err_memory(err);
        } else if (!r->error) {
            rc = file_series_take(&s, group, data, err);
        }
        file_series_release(&s);
        if (r->error) break;
    }
    return rc;
}

/* Series without a role have the first of the file's kind, or of the kind that is drawn. */
static int file_roles(struct sonde_plot_data *data, size_t first, const char *kind, int role,
                      struct sonde_err *err)
{
    const struct sonde_plot_kind *k = sonde_plot_kind_find(kind);
    if (k && k->role >= 0) role = k->role;
    for (size_t i = first; i < data->count; i++) {
        struct sonde_plot_series *s = &data->series[i];
        if (s->role != ROLE_UNSAID) continue;
        if (role < 0) {
            return sonde_err_set(err, SONDE_EFORMAT, "series '%.60s' has no role, and the kind has "
                                 "none for it (docs/plot.md)", s->name);
        }
        s->role = (enum sonde_plot_role)role;
        if (!s->unit) s->unit = sonde_plot_role_unit(s->role);
    }
    return 0;
}

int sonde_plot_file_read(const char *text, size_t len, const char *name, int role,
                         const char *group, struct sonde_plot_data *data, struct sonde_err *err)
{
    struct sonde_json_reader r;
    struct sonde_json_text key;
    struct sonde_err why = { "" };
    char title[sizeof(data->title)] = "", note[sizeof(data->note)] = "", kind[32] = "";
    const size_t first = data->count;
    double version = NAN;
    int rc = 0, series = 0;
    sonde_json_reader_init(&r, text, len);
    if (sonde_json_enter(&r, '{')) {
        while (!rc && sonde_json_member(&r, &key)) {
            if (sonde_json_text_is(key, "sonde_plot")) file_number(&r, &version);
            else if (sonde_json_text_is(key, "title")) file_text(&r, title, sizeof(title));
            else if (sonde_json_text_is(key, "note")) file_text(&r, note, sizeof(note));
            else if (sonde_json_text_is(key, "kind")) file_text(&r, kind, sizeof(kind));
            else if (sonde_json_text_is(key, "series")) {
                rc = file_series_read(&r, group, data, &why);
                series = 1;
            } else {
                sonde_json_skip(&r);
            }
        }
    }
    if (rc) return sonde_err_set(err, rc, "%s: %s", name, why.text);
    if (!r.error && !sonde_json_at_end(&r)) sonde_json_fail(&r, "there is more behind its end");
    if (r.error) {
        return sonde_err_set(err, SONDE_EFORMAT, "%s:%zu: %s", name, sonde_json_line(&r), r.error);
    }
    if (version != 1) {
        return sonde_err_set(err, SONDE_EVERSION,
                             "%s: \"sonde_plot\" is not 1: this sonde knows no "
                             "other data files (docs/plot.md)",
                             name);
    }
    if (!series) {
        return sonde_err_set(err, SONDE_EFORMAT, "%s: a data file without \"series\" "
                             "(docs/plot.md)", name);
    }
    rc = file_roles(data, first, kind, role, &why);
    if (rc) return sonde_err_set(err, rc, "%s: %s", name, why.text);
    if (!data->title[0]) memcpy(data->title, title, sizeof(title));
    if (!data->note[0]) memcpy(data->note, note, sizeof(note));
    if (!data->kind[0]) memcpy(data->kind, kind, sizeof(kind));
    return 0;
}

/* ---- Writing --------------------------------------------------------------------------------- */

enum { FILE_X, FILE_LOW, FILE_HIGH, FILE_WEIGHT, FILE_FAILED, FILE_Y };

static double file_field(const struct sonde_plot_value *v, int field)
{
    const double of[] = { v->x, v->low, v->high, v->weight, v->failed, v->y };
    return of[field];
}

/* Only if a value has one that is not what a reader takes for granted. */
static void file_numbers_write(const struct sonde_plot_series *s, const char *key, int field,
                               struct sonde_buf *out)
{
    int said = field == FILE_Y;
    for (size_t i = 0; i < s->count && !said; i++) {
        const double v = file_field(&s->values[i], field);
        said = field == FILE_WEIGHT ? v != 1 : field == FILE_FAILED ? v > 0 : !isnan(v);
    }
    if (!said) return;
    sonde_json_key_open(out, key, '[');
    for (size_t i = 0; i < s->count; i++) {
        sonde_json_num(out, NULL, file_field(&s->values[i], field));
    }
    sonde_json_close(out, ']');
}

void sonde_plot_file_write(const struct sonde_plot_data *data, struct sonde_buf *out)
{
    sonde_json_str(out, "kind", data->kind);
    sonde_json_str(out, "title", data->title);
    sonde_json_str(out, "note", data->note);
    sonde_json_key_open(out, "series", '[');
    for (size_t i = 0; i < data->count; i++) {
        const struct sonde_plot_series *s = &data->series[i];
        sonde_json_open(out, '{');
        sonde_json_str(out, "role", sonde_plot_role_name(s->role));
        sonde_json_str(out, "name", s->name);
        if (s->group[0]) sonde_json_str(out, "group", s->group);
        sonde_json_str(out, "unit", s->unit);
        if (s->better) sonde_json_num(out, "better", s->better);
        if (!isnan(s->sum)) sonde_json_num(out, "sum", s->sum);
        file_numbers_write(s, "x", FILE_X, out);
        file_numbers_write(s, "y", FILE_Y, out);
        file_numbers_write(s, "low", FILE_LOW, out);
        file_numbers_write(s, "high", FILE_HIGH, out);
        file_numbers_write(s, "weight", FILE_WEIGHT, out);
        file_numbers_write(s, "failed", FILE_FAILED, out);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}
