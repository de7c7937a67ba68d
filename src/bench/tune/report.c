/* report.c - see tune.h: what was found, as text and as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "bench/tune/tune.h"
#include "present/table.h"
#include "present/units.h"
#include "sonde/sonde.h"

/* ---- The command ----------------------------------------------------------------------------- */

static void report_word(const char *word, struct sonde_buf *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:=,+@%";
    if (word[0] && word[strspn(word, plain)] == 0) {
        sonde_buf_puts(out, word);
        return;
    }
    sonde_buf_putc(out, '\'');
    for (; *word; word++) {
        if (*word == '\'') sonde_buf_puts(out, "'\\''");
        else sonde_buf_putc(out, *word);
    }
    sonde_buf_putc(out, '\'');
}

void sonde_tune_command_text(const struct sonde_tune_options *o, uint32_t point,
                             struct sonde_buf *out)
{
    char cpus[SONDE_TUNE_NAME_MAX + 1];
    char **argv = sonde_tune_argv(o->knobs, o->command, point, 0, cpus);
    if (!argv) {
        out->error = SONDE_ENOMEM;
        return;
    }
    if (cpus[0]) {
        for (char *c = cpus; *c; c++) {
            if (*c == '+') *c = ',';
        }
        sonde_buf_printf(out, "taskset -c %s ", cpus);
    }
    for (size_t i = 0; argv[i]; i++) {
        if (i) sonde_buf_putc(out, ' ');
        report_word(argv[i], out);
    }
    sonde_tune_argv_free(argv);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static const char *report_value(const struct sonde_tune_options *o, double v, char out[64])
{
    char text[SONDE_VALUE_BYTES];
    const char *unit = sonde_tune_objective_unit(o->plan->objective);
    if (!strcmp(unit, "s")) snprintf(out, 64, "%s", sonde_value_format(text, v, SONDE_UNIT_SECONDS,
            0));
    else snprintf(out, 64, "%.4g%s%s", v, unit[0] ? " " : "", unit);
    return out;
}

/* "+12.3 % (+9.1 … +15.6 %)" */
static const char *report_gain(double gain, double low, double high, int ascii, char out[64])
{
    if (isnan(gain)) return "";
    snprintf(out, 64, "%+.1f %% (%+.1f %s %+.1f)", 100 * gain, 100 * low, ascii ? "to" : "…",
             100 * high);
    return out;
}

static void report_knobs(const struct sonde_tune_options *o, const struct sonde_tune_found *f,
                         const struct sonde_bench_view *v, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "knob" }, { .title = "given" }, { .title = "winner" },
        { .title = "effect (95 %)" }, { .title = "" } };
    const struct sonde_tune_space *s = &o->knobs->space;
    struct sonde_table t;
    char gain[64];
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t k = 0; k < f->answer.effect_count; k++) {
        const struct sonde_tune_effect *e = &f->answer.effects[k];
        const struct sonde_tune_knob *knob = &s->knobs[k];
        if (knob->level_count < 2) continue;
        const int moved = e->given != e->winner, shown = e->low > 0 || e->high < 0;
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", knob->name);
        sonde_table_cell(&t, 1, "%s", knob->levels[e->given]);
        sonde_table_cell(&t, 2, "%s", knob->levels[e->winner]);
        sonde_table_cell(&t, 3, "%s", report_gain(e->gain, e->low, e->high, v->ascii, gain));
        if (moved) {
            sonde_table_cell(&t, 4, "%s", shown ? "of the change" : "of the change; may be noise");
        } else if (e->rival != e->winner) {
            sonde_table_cell(&t, 4, "of %s instead%s", knob->levels[e->rival],
                             shown ? "" : ": no difference shown");
        }
    }
    sonde_bench_table_text(&t, v, out);
    sonde_table_release(&t);
}

static void report_failures(const struct sonde_tune_options *o, const struct sonde_tune_found *f,
                            struct sonde_buf *out)
{
    enum { SHOWN = 8 };
    size_t count = 0;
    char words[SONDE_TUNE_WORDS_BYTES];
    for (size_t i = 0; i < f->history.count; i++) {
        const struct sonde_tune_past *t = &f->history.trials[i];
        if (t->outcome == SONDE_TUNE_OK || count++ >= SHOWN) continue;
        if (count == 1) sonde_buf_puts(out, "\nleft out:\n");
        sonde_buf_printf(out, "  %s: %s\n",
                         t->step.point == f->answer.given
                             ? "as given"
                             : sonde_tune_words(&o->knobs->space, t->step.point, f->answer.given,
                                                words),
                         t->figures.reason);
    }
    if (count > SHOWN) sonde_buf_printf(out, "  and %zu more, in the JSON\n", count - SHOWN);
}

static void report_verdict(const struct sonde_tune_options *o, const struct sonde_tune_found *f,
                           struct sonde_buf *out)
{
    const struct sonde_tune_answer *a = &f->answer;
    char given[64], winner[64], words[SONDE_TUNE_WORDS_BYTES];
    sonde_tune_words(&o->knobs->space, a->winner, a->given, words);
    report_value(o, a->value_given, given);
    report_value(o, a->value_winner, winner);
    switch (a->verdict) {
    case SONDE_TUNE_NOTHING:
        sonde_buf_puts(out, "no setting worked\n");
        return;
    case SONDE_TUNE_ONLY:
        sonde_buf_printf(out, "change %s: %s; the command as given does not work or breaks a "
                         "constraint\n", words, winner);
        break;
    case SONDE_TUNE_CHANGE:
        sonde_buf_printf(out, "change %s\n%s instead of %s: %.1f %% better, 95 %% interval %.1f to "
                         "%.1f %%, probability of any gain %.4g %%, by %zu pairs\n", words, winner,
                         given, 100 * a->gain, 100 * a->low, 100 * a->high,
                         floor(1e4 * a->p_better) / 100, a->pairs);
        break;
    case SONDE_TUNE_KEEP:
        if (a->winner == a->given) {
            sonde_buf_printf(out, "keep the command as it is: %s, and nothing better was found\n",
                             given);
        } else if (a->pairs) {
            sonde_buf_printf(out, "keep the command as it is: %s. The best of the others (%s) "
                             "gains "
                             "%.1f %%, 95 %% interval %.1f to %.1f %%: no more than noise, or less "
                             "than %.3g %%\n", given, words, 100 * a->gain, 100 * a->low,
                             100 * a->high, 100 * o->min_gain);
        } else {
            sonde_buf_printf(out, "keep the command as it is for now: %s. %s looks better, but was "
                             "not compared with it\n", given, words);
        }
        break;
    }
    if (!isnan(a->p_near)) {
        sonde_buf_printf(out, "probability that it is within 3 %% of the best of %u settings: "
                         "%.0f %% "
                         "(expected loss %.1f %%)\n", f->points, 100 * a->p_near,
                         100 * a->loss_expected);
    }
}

static int report_is_expected(const struct sonde_tune_knob *k)
{
    for (size_t l = 0; l < k->level_count; l++) {
        if (k->expected[l] != 0) return 1;
    }
    return 0;
}

/* "expected by the model of 312 requests, beside as given: slots 1 -48 %, 4 +61 %" */
static void report_guide(const struct sonde_tune_options *o, struct sonde_buf *out)
{
    const struct sonde_tune_guide *g = o->guide;
    if (!g || !g->asked) return;
    if (!g->requests) {
        sonde_buf_printf(out, "nothing was expected beforehand: %s\n\n", g->why);
        return;
    }
    sonde_buf_printf(out, "expected beforehand, by a model of %u requests:", g->requests);
    const char *separator = "";
    for (size_t k = 0; k < o->knobs->space.knob_count; k++) {
        const struct sonde_tune_knob *knob = &o->knobs->space.knobs[k];
        if (!report_is_expected(knob)) continue;
        sonde_buf_printf(out, "%s %s", separator, knob->name);
        const char *comma = "";
        for (size_t l = 0; l < knob->level_count; l++) {
            if (l == knob->start || knob->expected[l] == 0) continue;
            sonde_buf_printf(out, "%s %s %+.0f %%", comma, knob->levels[l],
                             100 * expm1(knob->expected[l] - knob->expected[knob->start]));
            comma = ",";
        }
        separator = ";";
    }
    sonde_buf_puts(out, "\n\n");
}

void sonde_tune_text(const struct sonde_tune_options *o, const struct sonde_tune_found *f,
                     const struct sonde_bench_view *v, struct sonde_buf *out)
{
    sonde_buf_printf(out, "%s of %u settings in %zu trials%s", sonde_tune_objective_name(
                         o->plan->objective), f->points, f->history.count,
                     f->stopped ? " (stopped: the same command resumes)" : "");
    if (f->resumed) sonde_buf_printf(out, ", %zu of them from the journal", f->resumed);
    if (!isnan(f->answer.noise)) {
        sonde_buf_printf(out, "; noise of a trial %.1f %%", 100 * f->answer.noise);
    }
    sonde_buf_puts(out, "\n\n");
    report_guide(o, out);
    if (f->answer.effect_count) {
        report_knobs(o, f, v, out);
        sonde_buf_putc(out, '\n');
    }
    report_verdict(o, f, out);
    report_failures(o, f, out);
    for (size_t i = 0; i < o->knobs->left_out_count; i++) {
        sonde_buf_printf(out, "%snot tried: %s: %s\n", i ? "" : "\n", o->knobs->left_out[i].name,
                         o->knobs->left_out[i].why);
    }
    if (f->answer.verdict != SONDE_TUNE_NOTHING) {
        sonde_buf_puts(out, "\n  ");
        sonde_tune_command_text(o, f->answer.recommended, out);
        sonde_buf_putc(out, '\n');
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void report_setting_json(const struct sonde_tune_space *s, const char *key, uint32_t point,
                                struct sonde_buf *b)
{
    uint8_t levels[SONDE_TUNE_KNOBS_MAX];
    sonde_tune_levels(s, point, levels);
    sonde_json_key_open(b, key, '{');
    for (size_t k = 0; k < s->knob_count; k++) {
        sonde_json_str(b, s->knobs[k].name, s->knobs[k].levels[levels[k]]);
    }
    sonde_json_close(b, '}');
}

static void report_knobs_json(const struct sonde_tune_options *o, const struct sonde_tune_found *f,
                              struct sonde_buf *b)
{
    sonde_json_key_open(b, "knobs", '[');
    for (size_t k = 0; k < f->answer.effect_count; k++) {
        const struct sonde_tune_effect *e = &f->answer.effects[k];
        const struct sonde_tune_knob *knob = &o->knobs->space.knobs[k];
        sonde_json_open(b, '{');
        sonde_json_str(b, "name", knob->name);
        sonde_json_key_open(b, "levels", '[');
        for (size_t l = 0; l < knob->level_count; l++) sonde_json_str(b, NULL, knob->levels[l]);
        sonde_json_close(b, ']');
        if (report_is_expected(knob)) {
            sonde_json_key_open(b, "expected", '[');
            for (size_t l = 0; l < knob->level_count; l++) {
                sonde_json_num(b, NULL, expm1(knob->expected[l] - knob->expected[knob->start]));
            }
            sonde_json_close(b, ']');
        }
        sonde_json_str(b, "given", knob->levels[e->given]);
        sonde_json_str(b, "winner", knob->levels[e->winner]);
        sonde_json_str(b, "compared", knob->levels[e->given != e->winner ? e->given : e->rival]);
        sonde_json_num(b, "gain", e->gain);
        sonde_json_num(b, "low", e->low);
        sonde_json_num(b, "high", e->high);
        sonde_json_close(b, '}');
    }
    sonde_json_close(b, ']');
}

static void report_json(const struct sonde_tune_options *o, const struct sonde_tune_found *f,
                        struct sonde_buf *b)
{
    static const char *const verdicts[] = { "keep", "change", "only", "nothing" };
    const struct sonde_tune_answer *a = &f->answer;
    const struct sonde_tune_space *s = &o->knobs->space;
    struct sonde_buf line;
    sonde_json_str(b, "objective", sonde_tune_objective_name(o->plan->objective));
    sonde_json_u64(b, "points", f->points);
    sonde_json_bool(b, "complete", !f->stopped);
    sonde_json_str(b, "answer", verdicts[a->verdict]);
    report_setting_json(s, "given", a->given, b);
    report_setting_json(s, "winner", a->winner, b);
    report_setting_json(s, "recommended", a->recommended, b);
    sonde_buf_init(&line, (size_t)1 << 20);
    sonde_tune_command_text(o, a->recommended, &line);
    sonde_json_str(b, "command_line", line.error ? NULL : line.data);
    sonde_buf_release(&line);
    sonde_json_key_open(b, "gain", '{');
    sonde_json_num(b, "value", a->gain);
    sonde_json_num(b, "low", a->low);
    sonde_json_num(b, "high", a->high);
    sonde_json_num(b, "probability", a->p_better);
    sonde_json_u64(b, "pairs", a->pairs);
    sonde_json_close(b, '}');
    sonde_json_num(b, "noise", a->noise);
    sonde_json_num(b, "loss_expected", a->loss_expected);
    sonde_json_num(b, "probability_within_3_percent", a->p_near);
    report_knobs_json(o, f, b);
    if (o->guide && o->guide->asked) {
        sonde_json_key_open(b, "guide", '{');
        sonde_json_u64(b, "requests", o->guide->requests);
        sonde_json_u64(b, "steps", o->guide->steps);
        sonde_json_str(b, "why", o->guide->requests ? NULL : o->guide->why);
        sonde_json_close(b, '}');
    }
    sonde_json_key_open(b, "not_tried", '{');
    for (size_t i = 0; i < o->knobs->left_out_count; i++) {
        sonde_json_str(b, o->knobs->left_out[i].name, o->knobs->left_out[i].why);
    }
    sonde_json_close(b, '}');
    sonde_json_key_open(b, "trials", '[');
    for (size_t i = 0; i < f->history.count; i++) {
        sonde_json_open(b, '{');
        sonde_tune_past_json(s, &f->history.trials[i], i, b);
        sonde_json_close(b, '}');
    }
    sonde_json_close(b, ']');
}

/* The values of a point's trials as the parts of a figure. */
static int report_figure(const struct sonde_tune_options *o, const struct sonde_tune_found *f,
                         const char *name, uint32_t point, struct sonde_bench_result *r)
{
    double parts[SONDE_TUNE_TRIALS_MAX];
    size_t n = 0;
    const char *unit = sonde_tune_objective_unit(o->plan->objective);
    for (size_t i = 0; i < f->history.count; i++) {
        const struct sonde_tune_past *t = &f->history.trials[i];
        if (t->step.point != point || t->outcome == SONDE_TUNE_FAILED) continue;
        parts[n++] = t->figures.value;
    }
    if (!n) return 0;
    struct sonde_bench_figure *figure =
        sonde_bench_figure_add(r, name, !strcmp(unit, "tokens/s") ? "1/s" : unit,
                               o->plan->less ? -1 : 1);
    if (!figure || sonde_bench_figure_parts(figure, parts, n)) return SONDE_ENOMEM;
    sonde_bench_figure_mean(figure);
    return 0;
}

int sonde_tune_result(const struct sonde_tune_options *o, const struct sonde_tune_found *f,
                      struct sonde_bench_result *r)
{
    int rc = report_figure(o, f, "given", f->answer.given, r);
    if (!rc) rc = report_figure(o, f, "recommended", f->answer.recommended, r);
    report_json(o, f, &r->extra);
    r->seed = o->seed;
    if (!rc && f->stopped) {
        rc = sonde_bench_result_doubt(r, "stopped before it was done");
    }
    if (!rc && f->answer.verdict == SONDE_TUNE_NOTHING) {
        rc = sonde_bench_result_doubt(r, "no setting worked");
    }
    return rc ? rc : r->extra.error;
}
