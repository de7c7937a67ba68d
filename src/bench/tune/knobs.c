/* knobs.c - see knobs.h: which knobs there are, with which levels. */
#include "bench/tune/knobs.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "bench/tune/cpus.h"
#include "sonde/sonde.h"

struct tune_knob_row {
    const char *name, *options, *levels;
    int unasked;
    const char *note;
};
static const struct tune_knob_row knob_rows[] = {
#define SONDE_TUNE_KNOB(name, options, levels, unasked, note) \
    { name, options, levels, unasked, note },
#include "bench/tune/knob_list.h"
#undef SONDE_TUNE_KNOB
};

/* What was asked of one knob. */
struct knob_wish {
    char name[SONDE_TUNE_NAME_MAX + 1];
    const char *levels;         /* "1,2,4"; NULL = as the row has it */
    const struct tune_knob_row *row; /* NULL = one of the command's own */
    int asked;                  /* by --knob, --fix, --only or {NAME} */
    int fixed;
};

static const struct tune_knob_row *knob_row_find(const char *name)
{
    for (size_t i = 0; i < SONDE_COUNT(knob_rows); i++) {
        if (!strcmp(knob_rows[i].name, name)) return &knob_rows[i];
    }
    return NULL;
}

static void knob_leave_out(struct sonde_tune_knobs *k, const char *name, const char *why)
{
    if (k->left_out_count == SONDE_COUNT(k->left_out)) return;
    snprintf(k->left_out[k->left_out_count].name, sizeof(k->left_out[0].name), "%s", name);
    snprintf(k->left_out[k->left_out_count++].why, sizeof(k->left_out[0].why), "%s", why);
}

/* 1 if `name` is among "a,b,c". */
static int knob_listed(const char *list, const char *name)
{
    const size_t len = strlen(name);
    for (const char *at = list; *at;) {
        const size_t n = strcspn(at, ",");
        if (n == len && !memcmp(at, name, n)) return 1;
        at += n + (at[n] == ',');
    }
    return 0;
}

/* ---- What the command says ------------------------------------------------------------------- */

static int knob_has_place(const struct sonde_tune_knobs_options *o, const char *name)
{
    char place[SONDE_TUNE_NAME_MAX + 3];
    snprintf(place, sizeof(place), "{%s}", name);
    for (size_t i = 1; i < o->argc; i++) {
        if (strstr(o->argv[i], place)) return 1;
    }
    return 0;
}

/* What follows one of the option's names in the command; NULL = it is not there. */
static const char *knob_said(const struct sonde_tune_knobs_options *o,
                             const struct sonde_tune_option *option)
{
    for (size_t i = 1; i < o->argc; i++) {
        for (size_t n = 0; n < option->name_count; n++) {
            const size_t len = strlen(option->names[n]);
            if (strncmp(o->argv[i], option->names[n], len) != 0) continue;
            if (o->argv[i][len] == '=') return o->argv[i] + len + 1;
            if (!o->argv[i][len] && i + 1 < o->argc) return o->argv[i + 1];
        }
    }
    return NULL;
}

/* Of a flag: "on", "off"; NULL = it is not there. */
static const char *knob_flag_said(const struct sonde_tune_knobs_options *o,
                                  const struct sonde_tune_setter *s)
{
    const char *said = NULL;
    for (size_t i = 1; i < o->argc; i++) {
        for (size_t n = 0; n < s->options[0].name_count; n++) {
            if (strcmp(o->argv[i], s->options[0].names[n]) != 0) continue;
            said = strcmp(o->argv[i], s->off) == 0 || !strncmp(o->argv[i], "--no-", 5) ? "off"
                                                                                        : "on";
        }
    }
    return said;
}

/* ---- How a knob is set ----------------------------------------------------------------------- */

/* The first of "--a|--b+--c" that the program knows; both of those that '+' joins. 0 = none. */
static int knob_setter_find(const struct sonde_tune_options_known *known, const char *options,
                            struct sonde_tune_setter *s)
{
    for (const char *at = options; *at;) {
        const size_t n = strcspn(at, "|");
        char one[128], *second;
        snprintf(one, sizeof(one), "%.*s", (int)n, at);
        if ((second = strchr(one, '+'))) *second++ = 0;
        const struct sonde_tune_option *a = sonde_tune_help_find(known, one);
        const struct sonde_tune_option *b = second ? sonde_tune_help_find(known, second) : NULL;
        if (a && (!second || b)) {
            s->options[0] = *a;
            if (b) s->options[1] = *b;
            s->way = a->value[0] ? SONDE_TUNE_BY_OPTION : SONDE_TUNE_BY_FLAG;
            for (size_t i = 0; i < a->name_count; i++) {
                if (!strncmp(a->names[i], "--no-", 5)) {
                    snprintf(s->off, sizeof(s->off), "%s", a->names[i]);
                }
            }
            return 1;
        }
        at += n + (at[n] == '|');
    }
    return 0;
}

/* A level as it can be passed: presets like -1 or "" mean something else than their number. */
static int knob_plain(const char *preset)
{
    return isalnum((unsigned char)preset[0]) && strcmp(preset, "0") != 0 &&
           strlen(preset) <= SONDE_TUNE_NAME_MAX;
}

/* The level that the command starts with, and the one that it has if nothing is said. */
static void knob_start(const struct sonde_tune_knobs_options *o, struct sonde_tune_setter *s,
                       char start[SONDE_TUNE_NAME_MAX + 1])
{
    const char *preset = s->options[0].preset, *said = NULL;
    switch (s->way) {
    case SONDE_TUNE_BY_OPTION:
        said = knob_said(o, &s->options[0]);
        snprintf(s->unsaid, sizeof(s->unsaid), "%.*s", SONDE_TUNE_NAME_MAX,
                 knob_plain(preset) ? preset : SONDE_TUNE_LEVEL_DEFAULT);
        break;
    case SONDE_TUNE_BY_FLAG:
        said = knob_flag_said(o, s);
        /* A program that has only --no-x does x unless told. */
        snprintf(s->unsaid, sizeof(s->unsaid), "%s",
                 !strcmp(preset, "enabled") || !strcmp(preset, "true") ||
                         (s->off[0] && s->options[0].name_count == 1) ? "on" : "off");
        break;
    case SONDE_TUNE_BY_CPUS:
        snprintf(s->unsaid, sizeof(s->unsaid), "%s", SONDE_TUNE_LEVEL_NOT_PINNED);
        break;
    case SONDE_TUNE_BY_PLACE:
        break;
    }
    s->given = said != NULL;
    snprintf(start, SONDE_TUNE_NAME_MAX + 1, "%s", said ? said : s->unsaid);
}

/* ---- Levels ---------------------------------------------------------------------------------- */

static int knob_level_bad(struct sonde_err *err, const char *name, const char *level)
{
    return sonde_err_set(err, SONDE_EINVAL, "--knob %s: the level '%.40s' is empty, longer than %d "
                         "bytes, or beyond the %u that a knob may have", name, level,
                         SONDE_TUNE_NAME_MAX, SONDE_TUNE_LEVELS_MAX);
}

static int knob_levels_doubling(struct sonde_tune_knob *k, uint32_t to)
{
    char level[16];
    for (uint32_t v = 1;; v = 2 * v < to ? 2 * v : to) {
        snprintf(level, sizeof(level), "%u", v);
        if (sonde_tune_level_add(k, level) < 0) return -1;
        if (v >= to) return 0;
    }
}

/* "1,2,4" into levels; of a row's, those that the option does not allow are left out. */
static int knob_levels_list(struct sonde_tune_knob *k, const char *list,
                            const struct sonde_tune_option *option, struct sonde_err *err)
{
    for (const char *at = list;;) {
        char level[64];
        const size_t n = strcspn(at, ",");
        snprintf(level, sizeof(level), "%.*s", (int)(n < sizeof(level) ? n : sizeof(level) - 1),
                 at);
        const int limited = option && (option->choices[0] || strchr(option->value, '|'));
        if (!limited || sonde_tune_help_allows(option, level)) {
            if (sonde_tune_level_add(k, level) < 0) return knob_level_bad(err, k->name, level);
        }
        if (!at[n]) return 0;
        at += n + 1;
    }
}

static int knob_levels(struct sonde_tune_knob *k, const struct knob_wish *w,
                       const struct sonde_tune_setter *s, const struct sonde_tune_knobs_options *o,
                       struct sonde_err *err)
{
    if (w->levels) return knob_levels_list(k, w->levels, NULL, err);
    if (!w->row) {
        return sonde_err_set(err, SONDE_EINVAL, "{%s}: say which levels to try: --knob %s=A,B,C",
                             w->name, w->name);
    }
    const char *levels = w->row->levels;
    if (s->way == SONDE_TUNE_BY_FLAG) return knob_levels_list(k, "on,off", NULL, err);
    if (!strcmp(levels, "cpus") || !strcmp(levels, "slots")) {
        const uint32_t cpus = o->cpus ? o->cpus : sonde_tune_cpus();
        const uint32_t to = !strcmp(levels, "cpus") ? cpus : o->concurrency ? o->concurrency : 4;
        return knob_levels_doubling(k, to) ? knob_level_bad(err, k->name, "…") : 0;
    }
    if (!strcmp(levels, "pin")) {
        char one[SONDE_TUNE_NAME_MAX + 1];
        sonde_tune_level_add(k, SONDE_TUNE_LEVEL_NOT_PINNED);
        if (sonde_tune_cpus_cores(one, sizeof(one))) sonde_tune_level_add(k, one);
        if (sonde_tune_cpus_node(one, sizeof(one))) sonde_tune_level_add(k, one);
        return 0;
    }
    return knob_levels_list(k, levels, &s->options[0], err);
}

/* ---- One knob -------------------------------------------------------------------------------- */

static void knob_drop_last(struct sonde_tune_knobs *k, const char *why)
{
    char name[SONDE_TUNE_NAME_MAX + 1];
    memcpy(name, k->space.knobs[--k->space.knob_count].name, sizeof(name));
    knob_leave_out(k, name, why);
}

static int knob_add(struct sonde_tune_knobs *k, const struct knob_wish *w,
                    const struct sonde_tune_knobs_options *o, struct sonde_err *err)
{
    struct sonde_tune_setter s = { .way = SONDE_TUNE_BY_PLACE };
    char start[SONDE_TUNE_NAME_MAX + 1] = "", option[SONDE_TUNE_NAME_MAX + 3];
    snprintf(option, sizeof(option), "--%s", w->name);
    if (!knob_has_place(o, w->name)) {
        if (w->row && !strcmp(w->row->levels, "pin")) {
            s.way = SONDE_TUNE_BY_CPUS;
        } else if (!knob_setter_find(o->known, w->row ? w->row->options : option, &s)) {
            if (!w->asked || w->row) {
                knob_leave_out(k, w->name, "the program has no such option, by its --help");
                return 0;
            }
            return sonde_err_set(err, SONDE_EINVAL, "knob '%s': the command has no {%s}, and its "
                                 "program no option %s, by its --help", w->name, w->name, option);
        }
        knob_start(o, &s, start);
        if (w->fixed) s.given = 0; /* and it is replaced */
    }
    struct sonde_tune_knob *knob = sonde_tune_knob_add(&k->space, w->name);
    if (!knob) return sonde_err_set(err, SONDE_EINVAL, "knob '%s' is there twice, or is one too "
                                    "many: "
                                    "%u are possible", w->name, SONDE_TUNE_KNOBS_MAX);
    const int rc = knob_levels(knob, w, &s, o, err);
    if (rc) return rc;
    k->setters[k->space.knob_count - 1] = s;
    if (!w->fixed && start[0] && sonde_tune_level_add(knob, start) < 0) {
        return knob_level_bad(err, knob->name, start);
    }
    const int at = start[0] && !w->fixed ? sonde_tune_level_find(knob, start) : 0;
    knob->start = (uint8_t)(at < 0 ? 0 : at);
    sonde_tune_knob_ready(knob);
    if (knob->level_count < 2 && !w->fixed) {
        knob_drop_last(k, s.way == SONDE_TUNE_BY_CPUS
                              ? "this machine has neither hyperthreads nor NUMA nodes to choose "
                                      "from"
                              : "there is only one level to try");
    }
    return 0;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int knob_wish_of(const char *text, int fixed, struct knob_wish *out, struct sonde_err *err)
{
    const size_t n = strcspn(text, "=");
    if (!n || n > SONDE_TUNE_NAME_MAX || (fixed && !text[n])) {
        return sonde_err_set(err, SONDE_EINVAL, "--%s %s: this is not %s, for example %s",
                             fixed ? "fix" : "knob", text, fixed ? "NAME=LEVEL" : "NAME=A,B,C",
                             fixed ? "batch=512" : "threads=1,2,4");
    }
    *out = (struct knob_wish){ .asked = 1, .fixed = fixed, .levels = text[n] ? text + n + 1 :
            NULL };
    snprintf(out->name, sizeof(out->name), "%.*s", (int)n, text);
    out->row = knob_row_find(out->name);
    return 0;
}

static int knob_wished(const struct sonde_tune_knobs *k, const char *name)
{
    for (size_t i = 0; i < k->space.knob_count; i++) {
        if (!strcmp(k->space.knobs[i].name, name)) return 1;
    }
    return 0;
}

/* Knobs of --knob and --fix, then places in the command that are none of these, then the rows. */
static int knobs_add_all(struct sonde_tune_knobs *k, const struct sonde_tune_knobs_options *o,
                         struct sonde_err *err)
{
    int rc = 0, places = 0;
    struct knob_wish w;
    for (size_t i = 0; i < o->knob_count + o->fixed_count && !rc; i++) {
        const int fixed = i >= o->knob_count;
        rc = knob_wish_of(fixed ? o->fixed[i - o->knob_count] : o->knobs[i], fixed, &w, err);
        if (!rc) rc = knob_add(k, &w, o, err);
    }
    for (size_t i = 1; i < o->argc && !rc; i++) {
        const char *at = o->argv[i];
        while (!rc && (at = strchr(at, '{'))) {
            const size_t n = strcspn(++at, "}");
            if (!n || at[n] != '}' || n > SONDE_TUNE_NAME_MAX) continue;
            if (strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_-") < n) continue;
            w = (struct knob_wish){ .asked = 1 };
            snprintf(w.name, sizeof(w.name), "%.*s", (int)n, at);
            if (!strcmp(w.name, "port")) continue;
            places = 1;
            w.row = knob_row_find(w.name);
            if (!knob_wished(k, w.name)) rc = knob_add(k, &w, o, err);
        }
    }
    for (size_t i = 0; i < SONDE_COUNT(knob_rows) && !rc; i++) {
        const struct tune_knob_row *row = &knob_rows[i];
        const int asked = o->only && knob_listed(o->only, row->name);
        if (knob_wished(k, row->name) || (o->only && !asked) || (places && !asked)) continue;
        w = (struct knob_wish){ .row = row, .asked = asked };
        snprintf(w.name, sizeof(w.name), "%s", row->name);
        if (row->unasked || asked) rc = knob_add(k, &w, o, err);
        else if (row->note[0]) knob_leave_out(k, row->name, row->note);
    }
    return rc;
}

int sonde_tune_knobs_init(struct sonde_tune_knobs *k, const struct sonde_tune_knobs_options *o,
                          struct sonde_err *err)
{
    memset(k, 0, sizeof(*k));
    if (o->argc > SONDE_TUNE_ARGS_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "the command has more than %u words",
                             SONDE_TUNE_ARGS_MAX);
    }
    const int rc = knobs_add_all(k, o, err);
    if (rc) return rc;
    while (k->space.knob_count > o->knob_count + o->fixed_count + 1 &&
           !sonde_tune_points(&k->space)) {
        knob_drop_last(k, "there would be too many combinations: name those to try with --only");
    }
    const uint32_t points = sonde_tune_points(&k->space);
    if (points > 1) return 0;
    if (!points && k->space.knob_count) {
        return sonde_err_set(err, SONDE_EINVAL, "there are more than %u combinations of levels: "
                             "name "
                             "fewer knobs (--only) or levels (--knob)", SONDE_TUNE_POINTS_MAX);
    }
    return sonde_err_set(err, SONDE_EINVAL, "there is nothing to tune: %s by its --help has none "
                         "of "
                         "the options known here (`sonde help tune` lists them); write {NAME} "
                                 "where "
                         "the command has something to vary, and --knob NAME=A,B,C", o->argv[0]);
}

const char *sonde_tune_words(const struct sonde_tune_space *s, uint32_t point, uint32_t other,
                             char out[SONDE_TUNE_WORDS_BYTES])
{
    uint8_t levels[SONDE_TUNE_KNOBS_MAX], others[SONDE_TUNE_KNOBS_MAX];
    size_t len = 0;
    sonde_tune_levels(s, point, levels);
    if (other != UINT32_MAX) sonde_tune_levels(s, other, others);
    out[0] = 0;
    for (size_t k = 0; k < s->knob_count && len < SONDE_TUNE_WORDS_BYTES; k++) {
        if (other != UINT32_MAX && levels[k] == others[k]) continue;
        len += (size_t)snprintf(out + len, SONDE_TUNE_WORDS_BYTES - len, "%s%s=%s", len ? " " : "",
                                s->knobs[k].name, s->knobs[k].levels[levels[k]]);
    }
    return out;
}
