/* continuous_body.c - what POST /admin/profile/continuous is sent; see continuous.h. */
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/nearest.h"
#include "agent/continuous_private.h"
#include "sonde/sonde.h"

enum { SHOWN_MAX = 60 };

static const struct continuous_body_member {
    const char *name;
    int is_bool;
    size_t offset;
    double min, max;           /* of numbers */
} members[CONTINUOUS_MEMBERS] = {
#define AT(field) offsetof(struct sonde_continuous_change, field)
    [CONTINUOUS_ENABLED] = { "enabled", 1, AT(settings.enabled), 0, 0 },
    [CONTINUOUS_CPU] = { "cpu", 1, AT(settings.cpu), 0, 0 },
    [CONTINUOUS_MEMORY] = { "memory", 1, AT(settings.memory), 0, 0 },
    [CONTINUOUS_GPU] = { "gpu", 1, AT(settings.gpu), 0, 0 },
    [CONTINUOUS_RATE] = { "rate_hz", 0, AT(settings.rate_hz), 1, SONDE_CONTINUOUS_RATE_MAX },
    [CONTINUOUS_INTERVAL] = { "interval_seconds", 0, AT(settings.interval_s), 1, 86400 },
    [CONTINUOUS_DURATION] = { "duration_seconds", 0, AT(settings.duration_s), 0, 86400 },
    [CONTINUOUS_BURST] = { "burst_seconds", 0, AT(burst_s), 1, SONDE_CONTINUOUS_BURST_S_MAX },
#undef AT
};

static int continuous_body_unknown(const char *name, struct sonde_err *err)
{
    struct sonde_nearest best = SONDE_NEAREST_NONE;
    for (int i = 0; i < CONTINUOUS_MEMBERS; i++) sonde_nearest_try(&best, name, members[i].name);
    if (best.known) {
        return sonde_err_set(err, SONDE_EINVAL, "unknown member \"%.*s\"; did you mean \"%s\"?",
                             SHOWN_MAX, name, best.known);
    }
    return sonde_err_set(err, SONDE_EINVAL, "unknown member \"%.*s\"; there are enabled, cpu, "
                         "memory, gpu, rate_hz, interval_seconds, duration_seconds, burst_seconds",
                         SHOWN_MAX, name);
}

static int continuous_body_take(const struct continuous_body_member *m, const json_t *value,
                                struct sonde_continuous_change *out, struct sonde_err *err)
{
    char *to = (char *)out + m->offset;
    if (m->is_bool) {
        if (!json_is_boolean(value)) {
            return sonde_err_set(err, SONDE_EINVAL, "\"%s\" must be true or false", m->name);
        }
        const int flag = json_is_true(value);
        memcpy(to, &flag, sizeof(flag));
        return 0;
    }
    const double number = json_is_number(value) ? json_number_value(value) : NAN;
    if (!(number >= m->min && number <= m->max)) {
        return sonde_err_set(err, SONDE_EINVAL, "\"%s\" must be a number from %g to %g", m->name,
                             m->min, m->max);
    }
    memcpy(to, &number, sizeof(number));
    return 0;
}

static int take_all(json_t *object, struct sonde_continuous_change *out, struct sonde_err *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        int i = 0;
        while (i < CONTINUOUS_MEMBERS && strcmp(members[i].name, name) != 0) i++;
        if (i == CONTINUOUS_MEMBERS) return continuous_body_unknown(name, err);
        const int rc = continuous_body_take(&members[i], value, out, err);
        if (rc) return rc;
        out->has |= 1u << i;
    }
    if (!out->has) {
        return sonde_err_set(err, SONDE_EINVAL, "the body asks for nothing: {\"enabled\": true} "
                             "turns continuous profiling on");
    }
    return 0;
}

int sonde_continuous_parse(const char *body, size_t len, struct sonde_continuous_change *out,
                           struct sonde_err *err)
{
    json_error_t where;
    struct sonde_continuous_change change = { 0 };
    json_t *root = json_loadb(body, len, JSON_REJECT_DUPLICATES, &where);
    if (!root) {
        return sonde_err_set(err, SONDE_EINVAL, "the body is no JSON: line %d, column %d: %.100s",
                             where.line, where.column, where.text);
    }
    const int rc = json_is_object(root)
                       ? take_all(root, &change, err)
                       : sonde_err_set(err, SONDE_EINVAL, "the body must be a JSON object: "
                                       "{\"enabled\": true}");
    json_decref(root);
    if (rc) return rc;
    /* With a burst the rate is the burst's. */
    if (change.has & 1u << CONTINUOUS_BURST) {
        change.burst_hz = change.has & 1u << CONTINUOUS_RATE ? change.settings.rate_hz
                                                             : SONDE_CONTINUOUS_BURST_HZ;
        change.has &= ~(1u << CONTINUOUS_RATE);
    }
    *out = change;
    return 0;
}
