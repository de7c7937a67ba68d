/* regression_series.c - from the store's series to detectors: see regressions.h. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/regressions_private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/hash.h"
#include "sonde/sonde.h"

#define REGRESSION_STEP_S 60.0
#define REGRESSION_DAY_S 86400.0
#define REGRESSION_NAMES_MAX 4096
#define REGRESSION_COUNT_MIN 5.0   /* records that a percentile of a minute needs */
#define REGRESSION_BEGAN_S 90.0    /* a series that begins later in a chunk was not there before */

/* What is watched anyway, and which way is worse: 1 = upwards. A load has no worse. */
static const struct { const char *name; int worse; } regression_watched[] = {
    { "gen_ai_server_request_duration_seconds", 1 },
    { "gen_ai_server_time_to_first_token_seconds", 1 },
    { "gen_ai_server_time_per_output_token_seconds", 1 },
    { "sonde_infer_inter_token_seconds", 1 },
    { "sonde_infer_phase_seconds", 1 },
    { "sonde_infer_errors_total", 1 },
    { "sonde_infer_tokens_per_second", 0 },
    { "sonde_infer_requests_total", 0 },
    { "sonde_infer_prefix_hit_ratio", -1 },
    { "sonde_infer_memory_bytes", 1 },
    { "sonde_process_resident_memory_bytes", 1 },
};

/* Read for ratios besides. */
#define REGRESSION_ROLE_NAMES "sonde_process_cpu_seconds_total|sonde_infer_tokens_total"

static const struct { const char *name, *unit; enum regression_role above, below; }
    regression_ratios[] = {
        { "cpu_seconds_per_output_token", "seconds", REGRESSION_CPU, REGRESSION_TOKENS },
        { "cpu_seconds_per_request", "seconds", REGRESSION_CPU, REGRESSION_REQUESTS },
        { "failed_requests_ratio", "ratio", REGRESSION_FAILED, REGRESSION_REQUESTS },
    };

static int regression_worse(const struct sonde_store_series *s)
{
    for (size_t i = 0; i < SONDE_COUNT(regression_watched); i++) {
        if (!strcmp(s->name, regression_watched[i].name)) return regression_watched[i].worse;
    }
    switch (s->kind) {
    case SONDE_KIND_TIME: return s->type == SONDE_COUNTER ? 0 : 1;
    case SONDE_KIND_MEMORY: return 1;
    case SONDE_KIND_THROUGHPUT: return s->type == SONDE_HISTOGRAM ? 0 : -1;
    default: return 0;
    }
}

/* ---- The table ------------------------------------------------------------------------------- */

/* The series of that key, made if there is room; NULL = there is none. */
static struct regression_series *regression_series_find(struct sonde_regressions *r,
                                                        const char *program, const char *name,
                                                        const char *labels, const char *figure,
                                                        int worse, const char *unit)
{
    char key[640];
    const int n = snprintf(key, sizeof(key), "%s\n%s\n%s%s%s%s", program, figure, name,
                           *labels ? "{" : "", labels, *labels ? "}" : "");
    if (n < 0 || (size_t)n >= sizeof(key)) return NULL;
    const uint32_t hash = sonde_hash_bytes(key, (size_t)n);
    uint32_t at = hash, row;
    while ((row = sonde_map_next(&r->by_key, hash, &at))) {
        if (!strcmp(r->series[row - 1].key, key)) return &r->series[row - 1];
    }
    if (r->series_count >= r->o.series_max || sonde_map_reserve(&r->by_key)) return NULL;
    if (SONDE_ARRAY_ROOM(r->series, r->series_count, r->series_cap)) return NULL;
    struct regression_series *s = &r->series[r->series_count];
    memset(s, 0, sizeof(*s));
    s->key = sonde__strdup(key);
    if (!s->key || sonde_change_create(&r->o.change, &s->detector) != 0) {
        sonde__free(s->key);
        return NULL;
    }
    s->subject = strrchr(s->key, '\n') + 1;
    s->worse = worse;
    snprintf(s->program, sizeof(s->program), "%.63s", program);
    snprintf(s->figure, sizeof(s->figure), "%s", figure);
    snprintf(s->unit, sizeof(s->unit), "%.23s", unit ? unit : "");
    sonde_map_put(&r->by_key, hash, ++r->series_count);
    return s;
}

void regression_series_release(struct sonde_regressions *r)
{
    for (uint32_t i = 0; i < r->series_count; i++) {
        sonde_change_destroy(r->series[i].detector);
        sonde__free(r->series[i].key);
    }
    sonde__free(r->series);
    sonde_map_release(&r->by_key);
}

static struct regression_program *regression_program_find(struct sonde_regressions *r,
                                                          const char *name)
{
    for (size_t i = 0; i < r->program_count; i++) {
        if (!strncmp(r->programs[i].name, name, sizeof(r->programs[i].name) - 1)) {
            return &r->programs[i];
        }
    }
    if (r->program_count == REGRESSION_PROGRAMS) return NULL;
    struct regression_program *p = &r->programs[r->program_count++];
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "%.63s", name);
    return p;
}

/* ---- Points ---------------------------------------------------------------------------------- */

static int regression_minute(const struct sonde_regressions *r, double time_s)
{
    const double at = (time_s - r->chunk_from_s) / REGRESSION_STEP_S;
    return at >= -0.01 && at < (double)r->chunk_minutes - 0.01 ? (int)(at + 0.01) : -1;
}

static double regression_value(const struct sonde_store_series *s,
                               const struct sonde_store_point *p, int figure, double *weight)
{
    *weight = 1;
    switch (s->type) {
    case SONDE_COUNTER: return p->seconds > 0 ? p->sum / p->seconds : NAN;
    case SONDE_GAUGE: return p->count > 0 ? p->sum / p->count : NAN;
    default:
        *weight = p->count;
        if (!(p->count >= REGRESSION_COUNT_MIN)) return NAN;
        return figure ? p->p95 : p->p50;
    }
}

static void regression_add_role(struct sonde_regressions *r, const struct sonde_store_series *s,
                                const struct sonde_store_point *points, size_t count)
{
    int roles[2] = { -1, -1 };
    if (!strcmp(s->name, "sonde_process_cpu_seconds_total")) {
        roles[0] = REGRESSION_CPU;
    } else if (!strcmp(s->name, "sonde_infer_tokens_total")) {
        if (strstr(s->labels, "\"output\"")) roles[0] = REGRESSION_TOKENS;
    } else if (!strcmp(s->name, "sonde_infer_requests_total")) {
        roles[0] = REGRESSION_REQUESTS;
        if (strstr(s->labels, "\"error\"") || strstr(s->labels, "\"timeout\"")) {
            roles[1] = REGRESSION_FAILED;
        }
    }
    struct regression_program *p = roles[0] >= 0 ? regression_program_find(r, s->program) : NULL;
    for (int k = 0; k < 2 && p; k++) {
        if (roles[k] < 0) continue;
        p->any[roles[k]] = 1;
        for (size_t i = 0; i < count; i++) {
            const int at = regression_minute(r, points[i].time_s);
            if (at >= 0 && points[i].seconds > 0 && !isnan(points[i].sum)) {
                p->sum[roles[k]][at] += points[i].sum / points[i].seconds;
            }
        }
    }
}

static void regression_add_points(struct sonde_regressions *r, const struct sonde_store_series *s,
                                  const struct sonde_store_point *points, size_t count, int figure)
{
    static const char *const figures[] = { "p50", "p95" };
    const char *name = s->type == SONDE_COUNTER ? "rate"
                       : s->type == SONDE_GAUGE ? "mean" : figures[figure];
    const char *unit = s->unit && *s->unit ? s->unit : "";
    struct regression_series *t = regression_series_find(r, s->program, s->name, s->labels, name,
                                                         regression_worse(s), unit);
    if (!t || !count) return;
    if (t->pid && t->pid != s->pid && points[0].time_s > r->chunk_from_s + REGRESSION_BEGAN_S) {
        t->restarted_s = points[0].time_s;
    }
    t->pid = s->pid;
    for (size_t i = 0; i < count; i++) {
        double weight;
        const double value = regression_value(s, &points[i], figure, &weight);
        const int at = regression_minute(r, points[i].time_s);
        if (at < 0 || isnan(value) || !(weight > 0)) continue;
        t->sum[at] += value * weight;
        /* Rates of several processes add up. */
        if (s->type == SONDE_COUNTER) t->weight[at] = 1;
        else t->weight[at] += weight;
    }
}

static int regression_glob_matches(const char *globs, const char *name)
{
    char one[128];
    for (const char *at = globs; at && *at;) {
        const size_t n = strcspn(at, "|");
        if (n < sizeof(one)) {
            memcpy(one, at, n);
            one[n] = '\0';
            if (fnmatch(one, name, 0) == 0) return 1;
        }
        at += n + (at[n] == '|');
    }
    return 0;
}

static void regression_on_series(const struct sonde_store_series *s,
                                 const struct sonde_store_point *all,
                                 const struct sonde_store_point *points, size_t count, void *arg)
{
    struct sonde_regressions *r = arg;
    (void)all;
    regression_add_role(r, s, points, count);
    int watched = regression_glob_matches(r->series_globs, s->name);
    for (size_t i = 0; i < SONDE_COUNT(regression_watched) && !watched; i++) {
        watched = !strcmp(s->name, regression_watched[i].name);
    }
    if (!watched) return;
    regression_add_points(r, s, points, count, 0);
    if (s->type == SONDE_HISTOGRAM) regression_add_points(r, s, points, count, 1);
}

/* ---- To the detectors ------------------------------------------------------------------------ */

static void regression_make_ratios(struct sonde_regressions *r)
{
    for (size_t k = 0; k < r->program_count; k++) {
        struct regression_program *p = &r->programs[k];
        for (size_t i = 0; i < SONDE_COUNT(regression_ratios); i++) {
            const int above = regression_ratios[i].above, below = regression_ratios[i].below;
            if (!p->any[above] || !p->any[below]) continue;
            struct regression_series *t = regression_series_find(
                r, p->name, regression_ratios[i].name, "", "ratio", 1, regression_ratios[i].unit);
            for (size_t m = 0; t && m < r->chunk_minutes; m++) {
                if (!(p->sum[below][m] > 0)) continue;
                t->sum[m] = p->sum[above][m] / p->sum[below][m];
                t->weight[m] = 1;
            }
        }
        memset(p->sum, 0, sizeof(p->sum));
    }
}

static void regression_tell(struct sonde_regressions *r, const struct regression_series *s,
                            const struct sonde_change *c)
{
    struct sonde_regression g = { .change = *c };
    const int up = c->absolute > 0;
    g.verdict = !s->worse ? SONDE_REGRESSION_CHANGED
                : (s->worse > 0) == up ? SONDE_REGRESSION_WORSE : SONDE_REGRESSION_BETTER;
    snprintf(g.subject, sizeof(g.subject), "%s", s->subject);
    snprintf(g.program, sizeof(g.program), "%s", s->program);
    snprintf(g.figure, sizeof(g.figure), "%s", s->figure);
    snprintf(g.unit, sizeof(g.unit), "%s%s", s->unit,
             !strcmp(s->figure, "rate") ? "/s" : "");
    regression_report(r, &g);
}

static void regression_feed(struct sonde_regressions *r)
{
    size_t learning = 0;
    for (uint32_t i = 0; i < r->series_count; i++) {
        struct regression_series *s = &r->series[i];
        for (size_t m = 0; m < r->chunk_minutes; m++) {
            struct sonde_change c;
            const double time_s = r->chunk_from_s + (double)m * REGRESSION_STEP_S;
            if (s->restarted_s > 0 && time_s + REGRESSION_STEP_S > s->restarted_s) {
                sonde_change_restart(s->detector, s->restarted_s);
                s->restarted_s = 0;
            }
            if (!(s->weight[m] > 0)) continue;
            if (sonde_change_add(s->detector, time_s, REGRESSION_STEP_S, s->sum[m] / s->weight[m],
                                 &c) != SONDE_CHANGE_NONE) {
                regression_tell(r, s, &c);
            }
        }
        memset(s->sum, 0, sizeof(s->sum));
        memset(s->weight, 0, sizeof(s->weight));
        s->restarted_s = 0;
        learning += isnan(sonde_change_smallest(s->detector)) ? 1 : 0;
    }
    sonde_lock(&r->lock);
    r->watched = r->series_count;
    r->learning = learning;
    sonde_unlock(&r->lock);
}

/* The names that are read, as one glob. 0 or SONDE_EINVAL. */
static int regression_names(const struct sonde_regressions *r, char *out, size_t size,
                            struct sonde_err *err)
{
    size_t len = (size_t)snprintf(out, size, "%s", REGRESSION_ROLE_NAMES);
    for (size_t i = 0; i < SONDE_COUNT(regression_watched); i++) {
        len += (size_t)snprintf(out + len, size - len, "|%s", regression_watched[i].name);
    }
    if (!r->series_globs || !*r->series_globs) return 0;
    const int n = snprintf(out + len, size - len, "|%s", r->series_globs);
    if (n >= 0 && (size_t)n < size - len) return 0;
    return sonde_err_set(err, SONDE_EINVAL, "regression.series is too long");
}

static void regression_on_days(const struct sonde_store_series *s,
                               const struct sonde_store_point *all,
                               const struct sonde_store_point *points, size_t count, void *arg)
{
    double *range = arg;
    (void)s;
    (void)all;
    if (!count) return;
    if (points[0].time_s < range[0]) range[0] = points[0].time_s;
    if (points[count - 1].time_s + REGRESSION_DAY_S > range[1]) {
        range[1] = points[count - 1].time_s + REGRESSION_DAY_S;
    }
}

int regression_series_range(struct sonde_regressions *r, double range[2], struct sonde_err *err)
{
    char names[REGRESSION_NAMES_MAX];
    range[0] = INFINITY;
    range[1] = 0;
    const int rc = regression_names(r, names, sizeof(names), err);
    if (rc) return rc;
    const struct sonde_filter filter = { .name = names };
    const struct sonde_store_query q = { .filters = &filter, .filter_count = 1, .from_s = 1,
                                         .step_s = REGRESSION_DAY_S,
                                         .series_max = 4 * (size_t)r->o.series_max };
    const struct sonde_store_sink sink = { .series = regression_on_days, .arg = range };
    return r->o.ops->query(r->o.store, &q, &sink, err);
}

int regression_series_read(struct sonde_regressions *r, double from_s, size_t minutes,
                           struct sonde_err *err)
{
    char names[REGRESSION_NAMES_MAX];
    int rc = regression_names(r, names, sizeof(names), err);
    if (rc) return rc;
    r->chunk_from_s = from_s;
    r->chunk_minutes = minutes < REGRESSION_CHUNK ? minutes : REGRESSION_CHUNK;
    const struct sonde_filter filter = { .name = names };
    const struct sonde_store_query q = {
        .filters = &filter, .filter_count = 1, .from_s = from_s,
        .to_s = from_s + (double)r->chunk_minutes * REGRESSION_STEP_S,
        .step_s = REGRESSION_STEP_S, .series_max = 4 * (size_t)r->o.series_max,
        .points_max = 8 * (size_t)r->o.series_max * REGRESSION_CHUNK,
    };
    const struct sonde_store_sink sink = { .series = regression_on_series, .arg = r };
    rc = r->o.ops->query(r->o.store, &q, &sink, err);
    if (rc) return rc;
    regression_make_ratios(r);
    regression_feed(r);
    return 0;
}
