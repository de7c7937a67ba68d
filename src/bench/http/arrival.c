/* arrival.c - see arrival.h. */
#include "bench/http/arrival.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

/* ---- Reading --------------------------------------------------------------------------------- */

/* A decimal number that is all of s[0..len). strtod alone also accepts blanks, "inf" and
 * hexadecimal. */
static int arrival_number(const char *s, size_t len, double *out)
{
    char text[48], *end;
    if (!len || len >= sizeof(text)) return SONDE_EINVAL;
    memcpy(text, s, len);
    text[len] = '\0';
    if (strspn(text, "0123456789.eE+-") != len || text[0] == '-' || text[0] == '+') {
        return SONDE_EINVAL;
    }
    *out = strtod(text, &end);
    return *end || !isfinite(*out) ? SONDE_EINVAL : 0;
}

int sonde_load_seconds_parse(const char *text, size_t len, double *out)
{
    static const struct { const char *unit; double s; } units[] = {
        { "ns", 1e-9 }, { "us", 1e-6 }, { "µs", 1e-6 }, { "ms", 1e-3 }, { "min", 60 },
        { "s", 1 }, { "m", 60 }, { "h", 3600 },
    };
    double factor = 1;
    for (size_t i = 0; i < SONDE_COUNT(units); i++) {
        const size_t unit = strlen(units[i].unit);
        if (len > unit && !memcmp(text + len - unit, units[i].unit, unit)) {
            factor = units[i].s;
            len -= unit;
            break;
        }
    }
    if (arrival_number(text, len, out)) return SONDE_EINVAL;
    *out *= factor;
    return 0;
}

int sonde_load_arrival_parse(const char *text, struct sonde_load_arrival *a, struct sonde_err *err)
{
    double n = 0;
    const char *colon = strchr(text, ':');
    const int number = colon ? arrival_number(colon + 1, strlen(colon + 1), &n) : 0;
    if (!strcmp(text, "constant")) {
        a->kind = SONDE_LOAD_CONSTANT;
    } else if (!strcmp(text, "poisson")) {
        a->kind = SONDE_LOAD_POISSON;
    } else if (!strncmp(text, "gamma:", 6) && !number && n >= 0.01 && n <= 1000) {
        a->kind = SONDE_LOAD_GAMMA;
        a->shape = n;
    } else if (!strncmp(text, "burst:", 6) && !number && n >= 1 && n <= 1e6 && n == floor(n)) {
        a->kind = SONDE_LOAD_BURST;
        a->burst = (uint32_t)n;
    } else {
        return sonde_err_set(err, SONDE_EINVAL, "'%.60s' is not an arrival process: say constant, "
                             "poisson, gamma:SHAPE (0.01 to 1000) or burst:N", text);
    }
    return 0;
}

int sonde_load_arrival_stage(struct sonde_load_arrival *a, double begin_rate, double end_rate,
                             double seconds)
{
    struct sonde_load_stage *grown =
        sonde__realloc(a->stages, (a->stage_count + 1) * sizeof(*a->stages));
    if (!grown) return SONDE_ENOMEM;
    a->stages = grown;
    a->stages[a->stage_count++] =
        (struct sonde_load_stage){ begin_rate, end_rate, seconds };
    return 0;
}

static int arrival_rates(const char *s, size_t len, double *begin, double *end)
{
    const char *dots = memmem(s, len, "..", 2);
    const size_t first = dots ? (size_t)(dots - s) : len;
    if (arrival_number(s, first, begin)) return SONDE_EINVAL;
    *end = *begin;
    if (dots && arrival_number(dots + 2, len - first - 2, end)) return SONDE_EINVAL;
    return *begin <= SONDE_LOAD_RATE_MAX && *end <= SONDE_LOAD_RATE_MAX && *begin + *end > 0
               ? 0 : SONDE_EINVAL;
}

int sonde_load_stages_parse(const char *text, struct sonde_load_arrival *a, struct sonde_err *err)
{
    sonde_load_arrival_release(a);
    for (const char *at = text; *at;) {
        const size_t len = strcspn(at, ",");
        const char *colon = memchr(at, ':', len);
        const size_t rate = colon ? (size_t)(colon - at) : 0;
        double begin, end, seconds;
        if (!colon || arrival_rates(at, rate, &begin, &end) ||
            sonde_load_seconds_parse(colon + 1, len - rate - 1, &seconds) || !(seconds > 0)) {
            return sonde_err_set(err, SONDE_EINVAL, "'%.*s' is not a stage: say RATE:TIME or "
                                 "FROM..TO:TIME, as in 10:30s,10..50:1m",
                                 (int)(len < 60 ? len : 60), at);
        }
        if (a->stage_count >= SONDE_LOAD_STAGES_MAX) {
            return sonde_err_set(err, SONDE_EINVAL, "there may be at most %u stages",
                                 SONDE_LOAD_STAGES_MAX);
        }
        if (sonde_load_arrival_stage(a, begin, end, seconds)) return sonde_err_memory(err);
        at += len + (at[len] == ',');
    }
    if (!a->stage_count) return sonde_err_set(err, SONDE_EINVAL, "no stages were given");
    return 0;
}

void sonde_load_arrival_release(struct sonde_load_arrival *a)
{
    sonde__free(a->stages);
    a->stages = NULL;
    a->stage_count = 0;
}

/* ---- Making ---------------------------------------------------------------------------------- */

void sonde_load_arrival_start(struct sonde_load_arrival *a, uint64_t seed)
{
    a->random = sonde_load_random_of(seed, UINT64_MAX); /* a stream that no request has */
    a->position = a->stage_position = a->stage_s = 0;
    a->made = 0;
    a->stage = 0;
}

static double arrival_gap(struct sonde_load_arrival *a)
{
    switch (a->kind) {
    case SONDE_LOAD_POISSON: return -log(sonde_load_random_unit(&a->random));
    case SONDE_LOAD_GAMMA: return sonde_load_random_gamma(&a->random, a->shape);
    case SONDE_LOAD_BURST: return a->made && a->made % a->burst == 0 ? a->burst : 0;
    case SONDE_LOAD_CONSTANT: break;
    }
    return a->made ? 1 : 0;
}

/* Requests expected in the first s seconds of a stage, and the other way round: the smaller root
 * of begin t + (end - begin) t^2 / (2 seconds) = n, written so that nothing cancels. */
static double arrival_stage_count(const struct sonde_load_stage *g, double s)
{
    const double slope = isinf(g->seconds) ? 0 : (g->end_rate - g->begin_rate) / g->seconds;
    return g->begin_rate * s + slope * s * s / 2;
}

static double arrival_stage_time(const struct sonde_load_stage *g, double n)
{
    const double slope = isinf(g->seconds) ? 0 : (g->end_rate - g->begin_rate) / g->seconds;
    const double inner = g->begin_rate * g->begin_rate + 2 * slope * n;
    return n > 0 ? 2 * n / (g->begin_rate + sqrt(inner > 0 ? inner : 0)) : 0;
}

int sonde_load_arrival_next(struct sonde_load_arrival *a, uint64_t *at_ns)
{
    a->position += arrival_gap(a);
    a->made++;
    for (; a->stage < a->stage_count; a->stage++) {
        const struct sonde_load_stage *g = &a->stages[a->stage];
        const double all = isinf(g->seconds) ? INFINITY : arrival_stage_count(g, g->seconds);
        if (a->position - a->stage_position < all) {
            const double s = a->stage_s + arrival_stage_time(g, a->position - a->stage_position);
            *at_ns = (uint64_t)(s * 1e9);
            return 0;
        }
        a->stage_position += all;
        a->stage_s += g->seconds;
    }
    return SONDE_ENOENT;
}

double sonde_load_arrival_expected(const struct sonde_load_arrival *a, double from_s, double to_s)
{
    double sum = 0, begin = 0;
    for (size_t i = 0; i < a->stage_count; i++) {
        const struct sonde_load_stage *g = &a->stages[i];
        const double low = fmax(from_s - begin, 0), high = fmin(to_s - begin, g->seconds);
        if (high > low) sum += arrival_stage_count(g, high) - arrival_stage_count(g, low);
        begin += g->seconds;
    }
    return sum;
}

double sonde_load_arrival_seconds(const struct sonde_load_arrival *a)
{
    double sum = 0;
    for (size_t i = 0; i < a->stage_count; i++) sum += a->stages[i].seconds;
    return sum;
}

int sonde_load_arrival_level(const struct sonde_load_arrival *a)
{
    for (size_t i = 0; i < a->stage_count; i++) {
        const struct sonde_load_stage *g = &a->stages[i];
        if (g->begin_rate < g->end_rate || g->begin_rate > g->end_rate) return 0;
        if (g->begin_rate < a->stages[0].begin_rate || g->begin_rate > a->stages[0].begin_rate) {
            return 0;
        }
    }
    return 1;
}
