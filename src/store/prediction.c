/* prediction.c - see prediction.h. */
#include "store/prediction.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "sonde/sonde.h"

/* ---- Writing --------------------------------------------------------------------------------- */

static void prediction_put_value(struct sonde_buf *out, const char *key,
                                 const struct sonde_predict_value *v)
{
    const double all[3] = { v->value, v->low, v->high };
    sonde_json_key_open(out, key, '[');
    for (int i = 0; i < 3; i++) {
        if (i) sonde_buf_putc(out, ',');
        sonde_buf_json_double(out, all[i]);
    }
    sonde_json_close(out, ']');
}

static void prediction_put(struct sonde_buf *out, const struct sonde_prediction *p)
{
    sonde_buf_putc(out, '{');
    sonde_json_id(out, "id", &p->id, 1);
    sonde_json_num(out, "made_s", p->made_s);
    sonde_json_num(out, "recorded_s", p->recorded_s);
    sonde_json_str(out, "host", p->host);
    sonde_json_str(out, "model", p->model);
    sonde_json_str(out, "program", p->program);
    sonde_json_num(out, "rate", p->rate);
    sonde_json_u64(out, "slots", p->slots);
    sonde_json_u64(out, "batch_tokens", p->batch_tokens);
    sonde_json_u64(out, "requests", p->requests);
    sonde_json_num(out, "tokens_in", p->tokens_in);
    sonde_json_num(out, "tokens_out", p->tokens_out);
    prediction_put_value(out, "knee", &p->knee);
    sonde_json_key_open(out, "figures", '{');
    for (int f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
        prediction_put_value(out, sonde_predict_figure_name((enum sonde_predict_figure)f),
                             &p->figures[f]);
    }
    sonde_json_close(out, '}');
    if (p->checked_s > 0) {
        sonde_json_key_open(out, "checked", '{');
        sonde_json_num(out, "s", p->checked_s);
        sonde_json_num(out, "recorded_s", p->checked_recorded_s);
        sonde_json_num(out, "rate", p->checked_rate);
        sonde_json_key_open(out, "figures", '{');
        for (int f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
            sonde_json_num(out, sonde_predict_figure_name((enum sonde_predict_figure)f),
                           p->measured[f]);
        }
        sonde_json_close(out, '}');
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, '}');
    sonde_buf_putc(out, '\n');
}

int sonde_predictions_save(const struct sonde_predictions *p, const char *path,
                           struct sonde_err *err)
{
    struct sonde_buf out;
    sonde_buf_init(&out, SONDE_PREDICTIONS_BYTES_MAX);
    for (uint32_t i = 0; i < p->count; i++) prediction_put(&out, &p->list[i]);
    const int rc = out.error ? sonde_err_memory(err)
                             : sonde_file_replace(path, out.data ? out.data : "", out.len, err);
    sonde_buf_release(&out);
    return rc;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* A number, or null for NaN. 0, or -1: it is neither. */
static int prediction_number(const json_t *v, double *out)
{
    *out = NAN;
    if (json_is_null(v)) return 0;
    if (!json_is_number(v)) return -1;
    *out = json_number_value(v);
    return isfinite(*out) ? 0 : -1;
}

static int prediction_count(const json_t *v, uint32_t *out)
{
    const json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 0 || n > UINT32_MAX) return -1;
    *out = (uint32_t)n;
    return 0;
}

static int prediction_text(const json_t *v, char out[SONDE_PREDICTION_TEXT])
{
    const char *text = json_string_value(v);
    if (!text || strlen(text) >= SONDE_PREDICTION_TEXT) return -1;
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

static int prediction_value(const json_t *v, struct sonde_predict_value *out)
{
    if (!json_is_array(v) || json_array_size(v) != 3) return -1;
    return prediction_number(json_array_get(v, 0), &out->value) ||
           prediction_number(json_array_get(v, 1), &out->low) ||
           prediction_number(json_array_get(v, 2), &out->high) ? -1 : 0;
}

static int prediction_checked(const json_t *c, struct sonde_prediction *p)
{
    if (!c) return 0;
    const json_t *figures = json_object_get(c, "figures");
    if (!json_is_object(c) || !json_is_object(figures) ||
        prediction_number(json_object_get(c, "s"), &p->checked_s) || !(p->checked_s > 0) ||
        prediction_number(json_object_get(c, "recorded_s"), &p->checked_recorded_s) ||
        prediction_number(json_object_get(c, "rate"), &p->checked_rate)) {
        return -1;
    }
    for (int f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
        const json_t *v =
            json_object_get(figures, sonde_predict_figure_name((enum sonde_predict_figure)f));
        if (prediction_number(v, &p->measured[f])) return -1;
    }
    return 0;
}

static int prediction_get(const json_t *o, struct sonde_prediction *p)
{
    char id[SONDE_PREDICTION_TEXT], *end;
    const json_t *figures = json_object_get(o, "figures");
    *p = (struct sonde_prediction){ 0 };
    if (prediction_text(json_object_get(o, "id"), id) ||
        prediction_number(json_object_get(o, "made_s"), &p->made_s) ||
        prediction_number(json_object_get(o, "recorded_s"), &p->recorded_s) ||
        prediction_text(json_object_get(o, "host"), p->host) ||
        prediction_text(json_object_get(o, "model"), p->model) ||
        prediction_text(json_object_get(o, "program"), p->program) ||
        prediction_number(json_object_get(o, "rate"), &p->rate) ||
        prediction_count(json_object_get(o, "slots"), &p->slots) ||
        prediction_count(json_object_get(o, "batch_tokens"), &p->batch_tokens) ||
        prediction_count(json_object_get(o, "requests"), &p->requests) ||
        prediction_number(json_object_get(o, "tokens_in"), &p->tokens_in) ||
        prediction_number(json_object_get(o, "tokens_out"), &p->tokens_out) ||
        prediction_value(json_object_get(o, "knee"), &p->knee) || !json_is_object(figures)) {
        return -1;
    }
    p->id = strtoull(id, &end, 16);
    if (*end || !*id) return -1;
    for (int f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
        const json_t *v =
            json_object_get(figures, sonde_predict_figure_name((enum sonde_predict_figure)f));
        if (prediction_value(v, &p->figures[f])) return -1;
    }
    return prediction_checked(json_object_get(o, "checked"), p);
}

int sonde_predictions_read(const char *data, size_t len, const char *name,
                           struct sonde_predictions *out, struct sonde_err *err)
{
    struct sonde_predictions p = { 0 };
    int rc = 0;
    for (size_t at = 0, line = 1; !rc && at < len; line++) {
        const char *nl = memchr(data + at, '\n', len - at);
        const size_t n = nl ? (size_t)(nl - (data + at)) : len - at;
        struct sonde_prediction one;
        json_t *o = n ? json_loadb(data + at, n, 0, NULL) : NULL;
        if (n && (!json_is_object(o) || prediction_get(o, &one))) {
            rc = sonde_err_set(err, SONDE_EFORMAT, "line %zu of '%s' is not a prediction: remove "
                               "it, or the file", line, name);
        } else if (n && sonde_predictions_add(&p, &one)) {
            rc = sonde_err_memory(err);
        }
        json_decref(o);
        at += n + 1;
    }
    if (rc) sonde_predictions_release(&p);
    else *out = p;
    return rc;
}

int sonde_predictions_load(const char *path, struct sonde_predictions *out, struct sonde_err *err)
{
    struct sonde_buf text;
    sonde_buf_init(&text, SONDE_PREDICTIONS_BYTES_MAX);
    int rc = sonde_file_read(path, &text, err);
    if (rc == SONDE_ENOENT) {
        *out = (struct sonde_predictions){ 0 };
        rc = 0;
    } else if (!rc) {
        rc = sonde_predictions_read(text.data ? text.data : "", text.len, path, out, err);
    }
    sonde_buf_release(&text);
    return rc;
}
