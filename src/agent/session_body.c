/* session_body.c - see session_body.h. */
#include "agent/session_body.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "sonde/sonde.h"
#include "store/store.h"

#define RATE_MAX 10000.0

static int take_name(const json_t *v, struct sonde_session_ask *out, struct sonde_err *err)
{
    const char *text = json_string_value(v);
    if (!text) return sonde_err_set(err, SONDE_EINVAL, "\"name\" is no text");
    const int rc = sonde_store_name_check(text, err);
    if (!rc) snprintf(out->name, sizeof(out->name), "%s", text);
    return rc;
}

static int session_body_take_number(const char *key, const json_t *v, double min, double max,
                                    double *out, struct sonde_err *err)
{
    const double number = json_number_value(v);
    if (!json_is_number(v) || !(number >= min && number <= max)) {
        return sonde_err_set(err, SONDE_EINVAL, "\"%s\" is no number from %g to %g", key, min, max);
    }
    *out = number;
    return 0;
}

static int take_bool(const char *key, const json_t *v, int *out, struct sonde_err *err)
{
    if (!json_is_boolean(v)) {
        return sonde_err_set(err, SONDE_EINVAL, "\"%s\" is neither true nor false", key);
    }
    *out = json_is_true(v);
    return 0;
}

static int session_body_take_key(const char *key, const json_t *v, int start,
                                 struct sonde_session_ask *out, struct sonde_err *err)
{
    if (!strcmp(key, "name")) return take_name(v, out, err);
    if (start && !strcmp(key, "rate_hz")) {
        return session_body_take_number(key, v, 1, RATE_MAX, &out->rate_hz, err);
    }
    if (start && !strcmp(key, "duration_seconds")) {
        return session_body_take_number(key, v, 0.1, SONDE_SESSION_SECONDS_MAX, &out->duration_s,
                                        err);
    }
    if (start && !strcmp(key, "cpu")) return take_bool(key, v, &out->cpu, err);
    if (start && !strcmp(key, "memory")) return take_bool(key, v, &out->memory, err);
    return sonde_err_set(err, SONDE_EINVAL,
                         start ? "there is no \"%.60s\": a session has name, "
                                 "rate_hz, cpu, memory and duration_seconds"
                               : "there is no \"%.60s\": what is to be stopped has a name", key);
}

static int take_object(json_t *root, int start, struct sonde_session_ask *out,
                       struct sonde_err *err)
{
    const char *key;
    json_t *v;
    if (!json_is_object(root)) {
        return sonde_err_set(err, SONDE_EINVAL, "the body is no JSON object like "
                             "{\"name\": \"baseline\"}");
    }
    json_object_foreach(root, key, v) {
        const int rc = session_body_take_key(key, v, start, out, err);
        if (rc) return rc;
    }
    if (out->cpu || out->memory) return 0;
    return sonde_err_set(err, SONDE_EINVAL, "\"cpu\" and \"memory\" are both false: nothing would "
                         "be profiled");
}

int sonde_session_body(const char *text, size_t len, int start, struct sonde_session_ask *out,
                       struct sonde_err *err)
{
    json_error_t why;
    *out = (struct sonde_session_ask){ .cpu = 1, .memory = 1 };
    if (strspn(text, " \t\r\n") == len) return 0;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!root) {
        return sonde_err_set(err, SONDE_EINVAL, "the body is no JSON: %.100s (line %d)", why.text,
                             why.line);
    }
    const int rc = take_object(root, start, out, err);
    json_decref(root);
    return rc;
}
