/* predict_text.c - see predict.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "present/report/predict.h"
#include "present/table.h"
#include "present/units.h"

enum { CHECKS_SHOWN = 5, INTERVAL_BYTES = 2 * SONDE_VALUE_BYTES + 8 };

static const struct predict_text_row {
    enum sonde_predict_figure figure;
    enum sonde_unit unit;
    const char *name;
} predict_text_rows[] = {
    { SONDE_PREDICT_REQUESTS_PER_S, SONDE_UNIT_COUNT, "requests per second" },
    { SONDE_PREDICT_TOKENS_PER_S, SONDE_UNIT_COUNT, "output tokens per second" },
    { SONDE_PREDICT_TTFT_P50, SONDE_UNIT_SECONDS, "first token P50" },
    { SONDE_PREDICT_TTFT_P90, SONDE_UNIT_SECONDS, "first token P90" },
    { SONDE_PREDICT_TTFT_P99, SONDE_UNIT_SECONDS, "first token P99" },
    { SONDE_PREDICT_ITL_P50, SONDE_UNIT_SECONDS, "between tokens P50" },
    { SONDE_PREDICT_ITL_P90, SONDE_UNIT_SECONDS, "between tokens P90" },
    { SONDE_PREDICT_ITL_P99, SONDE_UNIT_SECONDS, "between tokens P99" },
    { SONDE_PREDICT_E2E_P50, SONDE_UNIT_SECONDS, "total P50" },
    { SONDE_PREDICT_E2E_P90, SONDE_UNIT_SECONDS, "total P90" },
    { SONDE_PREDICT_E2E_P99, SONDE_UNIT_SECONDS, "total P99" },
};

static const char *predict_text_value(const struct sonde_predict_report *r,
                                      char out[SONDE_VALUE_BYTES], double v, enum sonde_unit u)
{
    return sonde_value_format(out, v, u, r->ascii);
}

static const char *predict_text_interval(const struct sonde_predict_report *r,
                                         char out[INTERVAL_BYTES],
                                         const struct sonde_predict_value *v, enum sonde_unit u)
{
    char low[SONDE_VALUE_BYTES], high[SONDE_VALUE_BYTES];
    out[0] = '\0';
    if (isnan(v->value)) return out;
    snprintf(out, INTERVAL_BYTES, "%s to %s", predict_text_value(r, low, v->low, u),
             predict_text_value(r, high, v->high, u));
    return out;
}

/* Text from anywhere on a line of its own, made harmless. */
static void predict_text_line(const struct sonde_predict_report *r, struct sonde_buf *out,
                              const char *title, const char *text)
{
    char line[4 * SONDE_TABLE_CELL_MAX + 1];
    sonde_text_fit(line, sizeof(line), text, sonde_text_cells(text, r->ascii), SONDE_LEFT,
                   r->ascii);
    sonde_buf_printf(out, "  %-10s %s\n", title, line);
}

/* ---- The recording --------------------------------------------------------------------------- */

static void predict_text_cost(struct sonde_table *t, const struct sonde_predict_report *r,
                              double seconds, const char *of, double from)
{
    char v[SONDE_VALUE_BYTES];
    sonde_table_row(t);
    sonde_table_cell(t, 1, "%s", predict_text_value(r, v, seconds, SONDE_UNIT_SECONDS));
    if (from > 0) sonde_table_cell(t, 2, "for each %s above %.0f", of, from);
    else sonde_table_cell(t, 2, "%s", of);
}

static void predict_text_costs(const struct sonde_predict_report *r,
                               const struct sonde_predict_facts *f, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "" }, { .title = "TIME", .align = SONDE_RIGHT }, { .title = "FOR" },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < f->coefficient_count; i++) {
        const struct sonde_predict_coefficient *c = &f->coefficients[i];
        if (c->seconds <= 0) continue; /* what costs nothing, or is in the row of another */
        char of[64];
        snprintf(of, sizeof(of), i ? "each %s" : "the pass itself", c->name);
        predict_text_cost(&t, r, c->seconds, c->from > 0 ? c->name : of, c->from);
    }
    predict_text_cost(&t, r, f->gap_s, "what is between passes", 0);
    predict_text_cost(&t, r, f->gap_output_s, "each token that comes out there", 0);
    predict_text_cost(&t, r, f->intake_s, "the way from arrival to the queue", 0);
    predict_text_cost(&t, r, f->intake_token_s, "each token of the prompt there", 0);
    sonde_table_render(&t, (int)r->width, r->ascii, out);
    if (t.error) out->error = t.error;
    sonde_table_release(&t);
    sonde_buf_putc(out, '\n');
}

static void predict_text_recording(const struct sonde_predict_report *r, struct sonde_buf *out)
{
    const struct sonde_predict_facts *f = sonde_predict_facts(r->model);
    char v[SONDE_VALUE_BYTES], text[512];
    snprintf(text, sizeof(text), "%s, model %s", r->recording->program, r->recording->model);
    predict_text_line(r, out, "engine", text);
    predict_text_line(r, out, "host", r->recording->host);
    sonde_buf_printf(out, "  %-10s %u requests in %s, %.3g per second (burstiness %.2f%s); prompts "
                     "of %.0f tokens, %.0f reused, answers of %.0f\n", "recorded", f->requests,
                     predict_text_value(r, v, f->seconds, SONDE_UNIT_SECONDS), f->rate,
                     f->burstiness, f->closed_loop ? ", closed loop: taken as Poisson" : "",
                     f->tokens_in, f->tokens_reused, f->tokens_out);
    sonde_buf_printf(out, "  %-10s ", "scheduler");
    if (f->slots) sonde_buf_printf(out, "%u slots, ", f->slots);
    else sonde_buf_puts(out, "slots not known, ");
    if (f->batch_tokens) sonde_buf_printf(out, "at most %u tokens in a pass, ", f->batch_tokens);
    else sonde_buf_puts(out, "no limit of tokens in a pass was seen, ");
    sonde_buf_printf(out, "prompts %s\n", f->share == SONDE_PREDICT_EVEN
                                              ? "share it evenly" : "in their order");
    sonde_buf_printf(out, "  %-10s up to %u sequences that decode, %u tokens in a pass, %u of "
                     "context; busy %.0f %% of the time\n", "seen", f->decode_max,
                     f->step_tokens_max, f->context_max, 100 * f->busy_ratio);
    if (f->cold_steps || f->unknown_steps || r->recording->left_out || r->recording->others) {
        sonde_buf_printf(out, "  %-10s %u passes of a cold start, %u of requests that are not "
                         "known whole, %u such requests, %u other processes\n", "left out",
                         f->cold_steps, f->unknown_steps, r->recording->left_out,
                         r->recording->others);
    }
    sonde_buf_printf(out, "\nWhat a forward pass costs here (%u seen, half of them within %.1f "
                     "%%)\n\n", f->steps, 100 * f->error_median);
    predict_text_costs(r, f, out);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Measured, replayed, and one pair of columns for each answer; of a load also what was measured
 * where it was recorded. */
static void predict_text_table(const struct sonde_predict_report *r, struct sonde_buf *out)
{
    struct sonde_column columns[SONDE_TABLE_COLUMNS_MAX] = {
        { .title = "FIGURE" }, { .title = "MEASURED", .align = SONDE_RIGHT },
        { .title = "REPLAYED", .align = SONDE_RIGHT },
    };
    char titles[SONDE_TABLE_COLUMNS_MAX][32];
    size_t n = 3, shown = 0;
    struct sonde_predict_value measured[SONDE_PREDICT_FIGURE_COUNT];
    struct sonde_predict_value replayed[SONDE_PREDICT_FIGURE_COUNT];
    sonde_predict_measured(r->model, measured);
    sonde_predict_replayed(r->model, replayed);
    for (; shown < r->answer_count && n + 2 <= SONDE_TABLE_COLUMNS_MAX; shown++) {
        snprintf(titles[n], sizeof(titles[n]), "AT %.3g/s", r->answers[shown].rate);
        columns[n] = (struct sonde_column){ .title = titles[n], .align = SONDE_RIGHT };
        columns[n + 1] = (struct sonde_column){ .title = "95 %", .align = SONDE_RIGHT,
                                                .drop = (int)(2 + shown) };
        n += 2;
    }
    const size_t there = n;
    struct sonde_predict_value seen[SONDE_PREDICT_FIGURE_COUNT];
    if (r->load && n < SONDE_TABLE_COLUMNS_MAX) {
        sonde_predict_measured(r->load, seen);
        columns[n++] = (struct sonde_column){ .title = "THERE", .align = SONDE_RIGHT };
    }
    struct sonde_table t;
    sonde_table_init(&t, columns, n);
    for (size_t i = 0; i < SONDE_COUNT(predict_text_rows); i++) {
        const struct predict_text_row *row = &predict_text_rows[i];
        char v[SONDE_VALUE_BYTES], interval[INTERVAL_BYTES];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", row->name);
        sonde_table_cell(&t, 1, "%s",
                         predict_text_value(r, v, measured[row->figure].value, row->unit));
        sonde_table_cell(&t, 2, "%s",
                         predict_text_value(r, v, replayed[row->figure].value, row->unit));
        for (size_t k = 0; k < shown; k++) {
            const struct sonde_predict_value *f = &r->answers[k].figures[row->figure];
            sonde_table_cell(&t, 3 + 2 * k, "%s", predict_text_value(r, v, f->value, row->unit));
            sonde_table_cell(&t, 4 + 2 * k, "%s",
                             predict_text_interval(r, interval, f, row->unit));
        }
        if (n > there) {
            sonde_table_cell(&t, there, "%s",
                             predict_text_value(r, v, seen[row->figure].value, row->unit));
        }
    }
    sonde_table_render(&t, (int)r->width, r->ascii, out);
    if (t.error) out->error = t.error;
    sonde_table_release(&t);
    sonde_buf_putc(out, '\n');
}

static void predict_text_verdicts(const struct sonde_predict_report *r, struct sonde_buf *out)
{
    for (size_t i = 0; i < r->answer_count; i++) {
        const struct sonde_predict_answer *a = &r->answers[i];
        char v[SONDE_VALUE_BYTES], interval[INTERVAL_BYTES];
        if (!i && !isnan(a->knee.value)) {
            sonde_buf_printf(out, "Knee: %s requests per second (%s) with %u slots",
                             predict_text_value(r, v, a->knee.value, SONDE_UNIT_COUNT),
                             predict_text_interval(r, interval, &a->knee, SONDE_UNIT_COUNT),
                             a->slots);
            if (a->speed < 1 || a->speed > 1) {
                sonde_buf_printf(out, " on a machine %.3g times as fast", a->speed);
            }
            sonde_buf_puts(out, "; above it the queue grows without bound.\n");
        }
        if (!sonde_predict_refused(a)) {
            sonde_buf_printf(out, "At %.3g/s: busy %.0f %% of the time, %.1f sequences decode "
                             "together.", a->rate, 100 * a->busy_ratio, a->decoding);
            if (a->why[0]) sonde_buf_printf(out, " With care: %s.", a->why);
            sonde_buf_putc(out, '\n');
        } else {
            sonde_buf_printf(out, "At %.3g/s: not predicted: %s.\n", a->rate, a->why);
        }
    }
    if (r->load) {
        sonde_buf_printf(out, "Predicted are the %u requests of %s, when they came; THERE is what "
                         "that recording has.\n", r->answers[0].requests, r->load_source);
    }
    if (r->answer_count && !sonde_predict_refused(&r->answers[0])) {
        sonde_buf_printf(out, "Intervals are for a run of %u requests; times are the engine's, "
                         "from arrival there.\n", r->answers[0].requests);
    }
}

/* ---- Earlier predictions --------------------------------------------------------------------- */

static void predict_text_check(const struct sonde_predict_report *r,
                               const struct sonde_prediction *p, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "FIGURE" }, { .title = "PREDICTED", .align = SONDE_RIGHT },
        { .title = "95 %", .align = SONDE_RIGHT }, { .title = "MEASURED", .align = SONDE_RIGHT },
        { .title = "ERROR", .align = SONDE_RIGHT }, { .title = "" },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < SONDE_COUNT(predict_text_rows); i++) {
        const struct predict_text_row *row = &predict_text_rows[i];
        const struct sonde_predict_value *f = &p->figures[row->figure];
        const double seen = p->measured[row->figure];
        char v[SONDE_VALUE_BYTES], interval[INTERVAL_BYTES];
        if (isnan(seen) || isnan(f->value)) continue;
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", row->name);
        sonde_table_cell(&t, 1, "%s", predict_text_value(r, v, f->value, row->unit));
        sonde_table_cell(&t, 2, "%s", predict_text_interval(r, interval, f, row->unit));
        sonde_table_cell(&t, 3, "%s", predict_text_value(r, v, seen, row->unit));
        sonde_table_cell(&t, 4, "%+.1f %%", 100 * (f->value / seen - 1));
        sonde_table_cell(&t, 5, "%s", seen >= f->low && seen <= f->high ? "" : "outside");
    }
    sonde_table_render(&t, (int)r->width, r->ascii, out);
    if (t.error) out->error = t.error;
    sonde_table_release(&t);
}

static void predict_text_history(const struct sonde_predict_report *r, struct sonde_buf *out)
{
    uint32_t shown = 0;
    int any = 0;
    for (uint32_t i = r->history->count; i-- > 0 && shown < CHECKS_SHOWN;) {
        const struct sonde_prediction *p = &r->history->list[i];
        if (!(p->checked_s > 0) || p->checked_recorded_s != r->recording->start_s ||
            strcmp(p->host, r->recording->host) != 0) {
            continue;
        }
        shown++;
        sonde_buf_printf(out, "\nThis recording, at %.3g per second, checks a prediction for %.3g "
                         "per second\n\n", p->checked_rate, p->rate);
        predict_text_check(r, p, out);
    }
    for (size_t i = 0; i < SONDE_COUNT(predict_text_rows); i++) {
        const struct predict_text_row *row = &predict_text_rows[i];
        struct sonde_prediction_errors e;
        sonde_predictions_errors(r->history, r->recording->host, r->recording->model, row->figure,
                                 &e);
        if (!e.count) continue;
        if (!any++) {
            sonde_buf_printf(out, "\nHow far off earlier predictions were, on this host and of "
                             "this model\n\n");
        }
        sonde_buf_printf(out, "  %-24s %5.1f %% as the median of %u, %.1f %% at most; %u within "
                         "their intervals\n", row->name, 100 * e.median, e.count, 100 * e.worst,
                         e.inside);
    }
    if (!any) {
        sonde_buf_puts(out, "\nNo earlier prediction of this model on this host has been checked "
                       "yet: record at a rate that was predicted, then `sonde predict --check "
                       "FILE`.\n");
    }
}

void sonde_predict_text(const struct sonde_predict_report *r, struct sonde_buf *out)
{
    predict_text_line(r, out, "from", r->source);
    predict_text_recording(r, out);
    if (r->answer_count) {
        predict_text_table(r, out);
        predict_text_verdicts(r, out);
    }
    if (r->history) predict_text_history(r, out);
}
