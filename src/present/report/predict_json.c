/* predict_json.c - see predict.h. */
#include <string.h>

#include "base/json.h"
#include "present/report/predict.h"

static const char *const verdicts[] = {
    [SONDE_PREDICT_OK] = "ok", [SONDE_PREDICT_STRETCHED] = "stretched",
    [SONDE_PREDICT_BEYOND_KNEE] = "beyond_knee", [SONDE_PREDICT_UNSEEN] = "unseen",
    [SONDE_PREDICT_UNEXPLAINED] = "unexplained", [SONDE_PREDICT_UNKNOWN] = "unknown",
};

static void predict_json_value(struct sonde_buf *out, const char *key,
                               const struct sonde_predict_value *v)
{
    sonde_json_key_open(out, key, '{');
    sonde_json_num(out, "value", v->value);
    sonde_json_num(out, "low", v->low);
    sonde_json_num(out, "high", v->high);
    sonde_json_close(out, '}');
}

static void predict_json_plain(struct sonde_buf *out, const char *key,
                               const struct sonde_predict_value *v)
{
    sonde_json_key_open(out, key, '{');
    for (int f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
        sonde_json_num(out, sonde_predict_figure_name((enum sonde_predict_figure)f), v[f].value);
    }
    sonde_json_close(out, '}');
}

static void predict_json_recording(const struct sonde_predict_report *r, struct sonde_buf *out)
{
    const struct sonde_predict_facts *f = sonde_predict_facts(r->model);
    sonde_json_key_open(out, "recording", '{');
    sonde_json_str(out, "source", r->source);
    sonde_json_str(out, "host", r->recording->host);
    sonde_json_str(out, "program", r->recording->program);
    sonde_json_str(out, "model", r->recording->model);
    sonde_json_time(out, "start_s", r->recording->start_s);
    sonde_json_num(out, "seconds", f->seconds);
    sonde_json_u64(out, "requests", f->requests);
    sonde_json_u64(out, "requests_left_out", r->recording->left_out);
    sonde_json_u64(out, "steps", f->steps);
    sonde_json_u64(out, "steps_cold", f->cold_steps);
    sonde_json_u64(out, "steps_unknown", f->unknown_steps);
    sonde_json_num(out, "rate", f->rate);
    sonde_json_num(out, "burstiness", f->burstiness);
    sonde_json_bool(out, "closed_loop", f->closed_loop);
    if (f->closed_loop) {
        sonde_json_u64(out, "concurrency", f->concurrency);
        sonde_json_num(out, "think_s", f->think_s);
    }
    sonde_json_u64_or_null(out, "slots", f->slots);
    sonde_json_u64_or_null(out, "batch_tokens", f->batch_tokens);
    sonde_json_str(out, "share", f->share == SONDE_PREDICT_EVEN ? "even" : "first");
    sonde_json_num(out, "tokens_in", f->tokens_in);
    sonde_json_num(out, "tokens_reused", f->tokens_reused);
    sonde_json_num(out, "tokens_out", f->tokens_out);
    sonde_json_u64(out, "decode_max", f->decode_max);
    sonde_json_u64(out, "step_tokens_max", f->step_tokens_max);
    sonde_json_u64(out, "context_max", f->context_max);
    sonde_json_num(out, "busy_ratio", f->busy_ratio);
    sonde_json_close(out, '}');
}

static void predict_json_costs(const struct sonde_predict_facts *f, struct sonde_buf *out)
{
    sonde_json_key_open(out, "costs", '{');
    sonde_json_key_open(out, "step", '[');
    for (uint32_t i = 0; i < f->coefficient_count; i++) {
        const struct sonde_predict_coefficient *c = &f->coefficients[i];
        sonde_json_open(out, '{');
        sonde_json_str(out, "of", c->name);
        sonde_json_num(out, "from", c->from);
        sonde_json_num(out, "seconds", c->seconds);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_num(out, "step_error_median", f->error_median);
    sonde_json_num(out, "gap_s", f->gap_s);
    sonde_json_num(out, "gap_output_s", f->gap_output_s);
    sonde_json_num(out, "intake_s", f->intake_s);
    sonde_json_num(out, "intake_token_s", f->intake_token_s);
    sonde_json_close(out, '}');
}

static void predict_json_answer(const struct sonde_predict_answer *a, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "verdict", verdicts[a->verdict]);
    sonde_json_str(out, "why", a->why[0] ? a->why : NULL);
    sonde_json_num(out, "rate", a->rate);
    sonde_json_num(out, "speed", a->speed);
    sonde_json_u64_or_null(out, "slots", a->slots);
    sonde_json_u64_or_null(out, "batch_tokens", a->batch_tokens);
    sonde_json_u64(out, "requests", a->requests);
    sonde_json_num(out, "tokens_in", a->tokens_in);
    sonde_json_num(out, "tokens_out", a->tokens_out);
    predict_json_value(out, "knee", &a->knee);
    if (!sonde_predict_refused(a)) {
        sonde_json_key_open(out, "figures", '{');
        for (int f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
            predict_json_value(out, sonde_predict_figure_name((enum sonde_predict_figure)f),
                               &a->figures[f]);
        }
        sonde_json_close(out, '}');
        sonde_json_num(out, "busy_ratio", a->busy_ratio);
        sonde_json_num(out, "decoding", a->decoding);
    }
    sonde_json_close(out, '}');
}

static void predict_json_history(const struct sonde_predict_report *r, struct sonde_buf *out)
{
    sonde_json_key_open(out, "checks", '[');
    for (uint32_t i = 0; r->history && i < r->history->count; i++) {
        const struct sonde_prediction *p = &r->history->list[i];
        if (!(p->checked_s > 0) || strcmp(p->host, r->recording->host) != 0 ||
            strcmp(p->model, r->recording->model) != 0) {
            continue;
        }
        sonde_json_open(out, '{');
        sonde_json_id(out, "id", &p->id, 1);
        sonde_json_time(out, "made_s", p->made_s);
        sonde_json_num(out, "rate", p->rate);
        sonde_json_num(out, "measured_rate", p->checked_rate);
        sonde_json_u64_or_null(out, "slots", p->slots);
        sonde_json_bool(out, "now", p->checked_recorded_s == r->recording->start_s);
        sonde_json_key_open(out, "figures", '{');
        for (int f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
            const struct sonde_predict_value *v = &p->figures[f];
            sonde_json_key_open(out, sonde_predict_figure_name((enum sonde_predict_figure)f), '{');
            sonde_json_num(out, "predicted", v->value);
            sonde_json_num(out, "low", v->low);
            sonde_json_num(out, "high", v->high);
            sonde_json_num(out, "measured", p->measured[f]);
            sonde_json_num(out, "error", v->value / p->measured[f] - 1);
            sonde_json_close(out, '}');
        }
        sonde_json_close(out, '}');
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "errors", '{');
    for (int f = 0; r->history && f < SONDE_PREDICT_FIGURE_COUNT; f++) {
        struct sonde_prediction_errors e;
        sonde_predictions_errors(r->history, r->recording->host, r->recording->model,
                                 (enum sonde_predict_figure)f, &e);
        if (!e.count) continue;
        sonde_json_key_open(out, sonde_predict_figure_name((enum sonde_predict_figure)f), '{');
        sonde_json_u64(out, "checked", e.count);
        sonde_json_u64(out, "inside", e.inside);
        sonde_json_num(out, "median", e.median);
        sonde_json_num(out, "worst", e.worst);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, '}');
}

void sonde_predict_json(const struct sonde_predict_report *r, struct sonde_buf *out)
{
    struct sonde_predict_value v[SONDE_PREDICT_FIGURE_COUNT];
    sonde_buf_putc(out, '{');
    predict_json_recording(r, out);
    predict_json_costs(sonde_predict_facts(r->model), out);
    sonde_predict_measured(r->model, v);
    predict_json_plain(out, "measured", v);
    sonde_predict_replayed(r->model, v);
    predict_json_plain(out, "replayed", v);
    if (r->load) {
        sonde_json_key_open(out, "load", '{');
        sonde_json_str(out, "source", r->load_source);
        sonde_predict_measured(r->load, v);
        predict_json_plain(out, "measured", v);
        sonde_json_close(out, '}');
    }
    sonde_json_key_open(out, "predictions", '[');
    for (size_t i = 0; i < r->answer_count; i++) predict_json_answer(&r->answers[i], out);
    sonde_json_close(out, ']');
    predict_json_history(r, out);
    sonde_buf_puts(out, "}\n");
}
