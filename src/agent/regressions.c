/* regressions.c - see regressions.h: the thread, what was found, and who is told. */
#include "agent/regressions.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent/regressions_private.h"
#include "base/percent.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "sonde/sonde.h"

#define REGRESSIONS_LATE_S 90.0        /* behind the clock: what is written by then is whole */
#define REGRESSIONS_EVERY_S 300.0      /* a bin of the detectors */
#define REGRESSIONS_BACK_S (8 * 86400.0)
#define REGRESSIONS_PAUSE_S 0.05       /* between two chunks of the past */
#define REGRESSIONS_JUDGE_S 1800.0     /* between looks at functions */
#define REGRESSIONS_SAME_S 7200.0      /* a function's change is placed that well */
#define REGRESSIONS_NICE 19
#define REGRESSIONS_CRITICAL 0.5       /* worse by so much */
#define REGRESSIONS_SERIES_DEFAULT 1000u

const char *sonde_regression_verdict_name(enum sonde_regression_verdict v)
{
    static const char *const names[] = {
#define SONDE__X(id, name) name,
        SONDE_REGRESSION_VERDICTS(SONDE__X)
#undef SONDE__X
    };
    return (size_t)v < SONDE_COUNT(names) ? names[v] : "unknown";
}

/* ---- Life ------------------------------------------------------------------------------------ */

int sonde_regressions_create(const struct sonde_regressions_options *o,
                             struct sonde_regressions **out, struct sonde_err *err)
{
    assert(o && o->ops && o->store && out);
    struct sonde_regressions *r = sonde__calloc(1, sizeof(*r));
    if (!r) return sonde_err_memory(err);
    r->o = *o;
    if (!r->o.series_max) r->o.series_max = REGRESSIONS_SERIES_DEFAULT;
    r->list = sonde__calloc(SONDE_REGRESSIONS_MAX, sizeof(*r->list));
    r->series_globs = o->series ? sonde__strdup(o->series) : NULL;
    r->settings = o->settings ? sonde__strdup(o->settings) : NULL;
    sonde_lock_init(&r->lock, SONDE_RANK_REGRESSIONS);
    sonde_cond_init(&r->wake);
    if (!r->list || (o->series && !r->series_globs) || (o->settings && !r->settings)) {
        sonde_regressions_destroy(r);
        return sonde_err_memory(err);
    }
    *out = r;
    return 0;
}

void sonde_regressions_use_history(struct sonde_regressions *r, const struct sonde_store_ops *ops,
                                   struct sonde_store *history)
{
    r->history_ops = ops;
    r->history = history;
}

void sonde_regressions_stop(struct sonde_regressions *r)
{
    if (r) sonde_worker_stop(&r->worker, &r->lock, &r->wake);
}

void sonde_regressions_destroy(struct sonde_regressions *r)
{
    if (!r) return;
    sonde_regressions_stop(r);
    regression_series_release(r);
    regression_functions_release(r);
    sonde__free(r->known);
    sonde__free(r->list);
    sonde__free(r->series_globs);
    sonde__free(r->settings);
    sonde_cond_destroy(&r->wake);
    sonde_lock_destroy(&r->lock);
    sonde__free(r);
}

void sonde_regressions_profile(struct sonde_regressions *r, const struct sonde_profile *p)
{
    if (r) regression_functions_add(r, p);
}

/* ---- What was found -------------------------------------------------------------------------- */

static void regression_value_text(char out[48], double v, const char *unit)
{
    char percent[SONDE_PERCENT_BYTES];
    if (!strcmp(unit, "ratio")) snprintf(out, 48, "%s", sonde_percent_text(percent, v));
    else snprintf(out, 48, "%.4g%s%s", v, *unit ? " " : "", unit);
}

/* "p95 ttft of server rose by 12 % (95 %: 9 to 15 %), from 0.1 seconds to 0.112 seconds, at …" */
static void regression_sentence(struct sonde_regression *g)
{
    const struct sonde_change *c = &g->change;
    char before[48], after[48], when[24] = "", percent[80] = "", moved[96] = "";
    const time_t at = (time_t)c->time_s;
    struct tm tm;
    if (gmtime_r(&at, &tm)) strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &tm);
    regression_value_text(before, c->before, g->unit);
    regression_value_text(after, c->after, g->unit);
    if (isfinite(c->relative) && isfinite(c->relative_low) && isfinite(c->relative_high)) {
        const int up = c->absolute > 0;
        char by[SONDE_PERCENT_BYTES], low[SONDE_PERCENT_BYTES], high[SONDE_PERCENT_BYTES];
        snprintf(percent, sizeof(percent), " by %s (95 %%: %s to %s)",
                 sonde_percent_text(by, fabs(c->relative)),
                 sonde_percent_text(low, up ? c->relative_low : -c->relative_high),
                 sonde_percent_text(high, up ? c->relative_high : -c->relative_low));
    }
    if (g->verdict == SONDE_REGRESSION_SHIFT) {
        snprintf(moved, sizeof(moved), "; the cost moved %s %.64s", c->absolute > 0 ? "from" : "to",
                 g->with[0] ? g->with : "others");
    }
    snprintf(g->text, sizeof(g->text), "%s %.120s%s%.63s %s%s, from %s to %s, at %s%s%s",
             g->is_function ? "CPU share of" : g->figure,
             g->subject, g->program[0] ? " of " : "", g->program,
             c->absolute > 0 ? "rose" : "fell", percent, before, after, when, moved,
             c->state == SONDE_CHANGE_WENT_AWAY ? "; it went away again" : "");
}

/* 1 if an earlier life of the agent has reported it. */
static int regression_is_known(const struct sonde_regressions *r, const char *subject,
                               double time_s, double within_s)
{
    for (size_t i = 0; i < r->known_count; i++) {
        if (fabs(r->known[i].time_s - time_s) <= within_s &&
            !strncmp(r->known[i].subject, subject, sizeof(r->known[i].subject) - 1)) {
            return 1;
        }
    }
    return 0;
}

static void regression_know(struct sonde_regressions *r, const char *subject, double time_s)
{
    if (SONDE_ARRAY_ROOM_MAX(r->known, r->known_count, r->known_cap, REGRESSION_KNOWN_MAX)) return;
    struct regression_known *k = &r->known[r->known_count++];
    k->time_s = time_s;
    snprintf(k->subject, sizeof(k->subject), "%.127s", subject);
}

static int regression_on_stored(const struct sonde_store_finding *f, void *arg)
{
    regression_know(arg, f->subject, f->time_s);
    return 0;
}

/* "program: subject, figure", as findings have it. */
static void regression_name(const struct sonde_regression *g, char out[400])
{
    snprintf(out, 400, "%s%s%s %s", g->program, g->program[0] ? ": " : "", g->subject, g->figure);
}

static void regression_write(struct sonde_regressions *r, const struct sonde_regression *g,
                             double time_s)
{
    char name[400], text[900];
    struct sonde_err err = { "" };
    uint64_t id;
    if (r->o.read_only) return;
    regression_name(g, name);
    size_t len = (size_t)snprintf(text, sizeof(text), "%s", g->text);
    for (size_t i = 0; i < g->fact_count && len < sizeof(text) - 260; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s %.200s",
                                i ? ", " : "; near that time: ", g->facts[i].kind,
                                g->facts[i].text);
    }
    const struct sonde_store_finding f = {
        .time_s = time_s, .kind = SONDE_REGRESSION_KIND, .subject = name,
        .severity = g->change.state == SONDE_CHANGE_WENT_AWAY ? SONDE_SEVERITY_INFO : g->severity,
        .value = g->change.relative, .unit = "ratio", .text = text,
    };
    if (r->o.ops->finding_put(r->o.store, &f, &id, &err) != 0) {
        sonde_log(SONDE_LOG_WARN, "a regression could not be written to the store: %s", err.text);
    }
}

/* The one in the list that g is, or NULL. */
static struct sonde_regression *regression_listed(struct sonde_regressions *r,
                                                  const struct sonde_regression *g)
{
    const uint64_t n = r->listed < SONDE_REGRESSIONS_MAX ? r->listed : SONDE_REGRESSIONS_MAX;
    const double within_s = g->is_function ? REGRESSIONS_SAME_S : 1;
    for (uint64_t i = 0; i < n; i++) {
        struct sonde_regression *k = &r->list[i];
        if (k->is_function == g->is_function && !strcmp(k->subject, g->subject) &&
            !strcmp(k->program, g->program) && !strcmp(k->figure, g->figure) &&
            fabs(k->change.time_s - g->change.time_s) <= within_s) {
            return k;
        }
    }
    return NULL;
}

void regression_report(struct sonde_regressions *r, struct sonde_regression *g)
{
    char name[400];
    const int worse = g->verdict == SONDE_REGRESSION_WORSE;
    const int away = g->change.state == SONDE_CHANGE_WENT_AWAY;
    g->severity = !worse ? SONDE_SEVERITY_INFO
                  : fabs(g->change.relative) >= REGRESSIONS_CRITICAL ? SONDE_SEVERITY_CRITICAL
                                                                     : SONDE_SEVERITY_WARNING;
    sonde_lock(&r->lock);
    struct sonde_regression *was = regression_listed(r, g);
    const int same = was && was->change.state == g->change.state;
    g->id = was ? was->id : r->listed + 1;
    sonde_unlock(&r->lock);
    if (same) return;
    regression_facts_near(r, g);
    regression_sentence(g);
    sonde_lock(&r->lock);
    if (was) *was = *g;
    else r->list[r->listed++ % SONDE_REGRESSIONS_MAX] = *g;
    sonde_unlock(&r->lock);
    /* A function's excursion that is over when it is first seen is listed, and nobody is woken. */
    if (g->is_function && away && !was) return;
    regression_name(g, name);
    const double time_s = away ? g->change.until_s : g->change.time_s;
    if (regression_is_known(r, name, time_s,
                            g->is_function ? REGRESSIONS_SAME_S : 2 * SONDE_CHANGE_BIN_S)) {
        return;
    }
    regression_know(r, name, time_s);
    regression_write(r, g, time_s);
    if (r->o.on_regression) r->o.on_regression(g, r->o.on_regression_arg);
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void regressions_load(struct sonde_regressions *r)
{
    struct sonde_err err = { "" };
    const struct sonde_store_range q = { .kind = SONDE_REGRESSION_KIND,
                                         .limit = REGRESSION_KNOWN_MAX };
    if (r->o.ops->findings) r->o.ops->findings(r->o.store, &q, regression_on_stored, r, &err);
    regression_facts_load(r);
}

/* Whole bins up to `to_s`, one chunk. 1 = there is more. */
static int regressions_read(struct sonde_regressions *r, double to_s, struct sonde_err *err)
{
    const double minutes = floor((to_s - r->read_to_s) / 60);
    if (minutes < 1) return 0;
    const size_t n = minutes < REGRESSION_CHUNK ? (size_t)minutes : REGRESSION_CHUNK;
    const int rc = regression_series_read(r, r->read_to_s, n, err);
    if (rc) return rc;
    r->read_to_s += (double)n * 60;
    return r->read_to_s + 60 <= to_s;
}

static int regressions_wait(struct sonde_regressions *r, double seconds)
{
    sonde_lock(&r->lock);
    const uint64_t until = sonde_clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
    const struct timespec t = sonde_clock_timespec(until);
    while (!r->worker.stopping && sonde_cond_timedwait(&r->wake, &r->lock, &t) != ETIMEDOUT) {
    }
    const int stopping = r->worker.stopping;
    sonde_unlock(&r->lock);
    return stopping;
}

static void *regressions_work(void *arg)
{
    struct sonde_regressions *r = arg;
    struct sonde_err err = { "" };
    setpriority(PRIO_PROCESS, (id_t)gettid(), REGRESSIONS_NICE);
    const double now_s = sonde_clock_s(CLOCK_REALTIME);
    r->read_to_s = floor((now_s - REGRESSIONS_BACK_S) / 300) * 300;
    regressions_load(r);
    regression_facts_look(r, now_s);
    regression_functions_load(r, now_s - 2 * 86400.0, 0, &err);
    int warned = 0;
    for (double pause_s = REGRESSIONS_PAUSE_S; !regressions_wait(r, pause_s);) {
        const double to_s = sonde_clock_s(CLOCK_REALTIME) - REGRESSIONS_LATE_S;
        /* The clock was set back: what comes now was read already, or is read late. */
        const int more = regressions_read(r, to_s, &err);
        if (more < 0 && !warned++) sonde_log(SONDE_LOG_WARN, "regressions: %s", err.text);
        pause_s = more > 0 ? REGRESSIONS_PAUSE_S : REGRESSIONS_EVERY_S / 5;
        if (more > 0) continue;
        regression_facts_look(r, to_s + REGRESSIONS_LATE_S);
        if (to_s - r->judged_s >= REGRESSIONS_JUDGE_S || to_s < r->judged_s) {
            r->judged_s = to_s;
            regression_functions_judge(r);
        }
    }
    return NULL;
}

int sonde_regressions_start(struct sonde_regressions *r, struct sonde_err *err)
{
    sonde_lock(&r->lock);
    const int rc = sonde_worker_start(&r->worker, "sonde-changes", regressions_work, r);
    sonde_unlock(&r->lock);
    return rc ? sonde_err_set(err, rc, "no thread to look for regressions") : 0;
}

/* ---- A whole store --------------------------------------------------------------------------- */

int sonde_regressions_scan(struct sonde_regressions *r, double from_s, double to_s,
                           struct sonde_err *err)
{
    double range[2];
    int rc = regression_series_range(r, range, err);
    if (rc) return rc;
    if (from_s > range[0]) range[0] = from_s;
    if (to_s > 0 && to_s < range[1]) range[1] = to_s;
    if (!(range[0] < range[1])) return 0;
    r->read_to_s = floor(range[0] / 300) * 300;
    if (!r->o.read_only) regressions_load(r);
    do {
        rc = regressions_read(r, range[1], err);
    } while (rc > 0);
    if (!rc) rc = regression_functions_load(r, range[0], range[1], err);
    if (!rc) regression_functions_judge(r);
    return rc;
}

/* ---- For who asks ---------------------------------------------------------------------------- */

void sonde_regressions_each(struct sonde_regressions *r,
                            int (*row)(const struct sonde_regression *g, void *arg), void *arg)
{
    sonde_lock(&r->lock);
    const uint64_t n = r->listed < SONDE_REGRESSIONS_MAX ? r->listed : SONDE_REGRESSIONS_MAX;
    for (uint64_t i = 0; i < n; i++) {
        if (row(&r->list[(r->listed - 1 - i) % SONDE_REGRESSIONS_MAX], arg)) break;
    }
    sonde_unlock(&r->lock);
}

static void regression_put_effect(struct sonde_buf *out, const struct sonde_change *c)
{
    sonde_json_num(out, "before", c->before);
    sonde_json_num(out, "after", c->after);
    sonde_json_num(out, "absolute", c->absolute);
    sonde_json_num(out, "absolute_low", c->absolute_low);
    sonde_json_num(out, "absolute_high", c->absolute_high);
    sonde_json_num(out, "relative", c->relative);
    sonde_json_num(out, "relative_low", c->relative_low);
    sonde_json_num(out, "relative_high", c->relative_high);
    sonde_json_num(out, "confidence", c->confidence);
    sonde_json_num(out, "n_eff", c->n_eff);
}

static void regression_put(struct sonde_buf *out, const struct sonde_regression *g)
{
    const struct sonde_change *c = &g->change;
    sonde_json_open(out, '{');
    sonde_json_u64(out, "id", g->id);
    sonde_json_str(out, "kind", g->is_function ? "function" : "series");
    sonde_json_str(out, "verdict", sonde_regression_verdict_name(g->verdict));
    sonde_json_str(out, "severity", sonde_severity_name(g->severity));
    sonde_json_str(out, "state", sonde_change_state_name(c->state));
    sonde_json_str(out, "subject", g->subject);
    sonde_json_str(out, "program", g->program[0] ? g->program : NULL);
    sonde_json_str(out, "figure", g->figure);
    sonde_json_str(out, "unit", g->unit[0] ? g->unit : NULL);
    sonde_json_str(out, "caller", g->caller[0] ? g->caller : NULL);
    sonde_json_str(out, "moved_with", g->with[0] ? g->with : NULL);
    sonde_json_time(out, "since", c->time_s);
    sonde_json_time(out, "since_low", c->time_low_s);
    sonde_json_time(out, "since_high", c->time_high_s);
    sonde_json_time(out, "found", c->found_s);
    sonde_json_time(out, "until", c->until_s);
    regression_put_effect(out, c);
    sonde_json_str(out, "text", g->text);
    sonde_json_key_open(out, "what_changed", '[');
    for (size_t i = 0; i < g->fact_count; i++) {
        sonde_json_open(out, '{');
        sonde_json_time(out, "time", g->facts[i].time_s);
        sonde_json_str(out, "kind", g->facts[i].kind);
        sonde_json_str(out, "text", g->facts[i].text);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}

struct regressions_answer { struct sonde_buf *out; double from_s; size_t left; };

static int regressions_put_row(const struct sonde_regression *g, void *arg)
{
    struct regressions_answer *a = arg;
    const double last_s = fmax(g->change.time_s, g->change.until_s);
    if (last_s < a->from_s) return 0;
    regression_put(a->out, g);
    return --a->left == 0;
}

void sonde_regressions_json(struct sonde_regressions *r, double from_s, size_t limit,
                            struct sonde_buf *out)
{
    struct regressions_answer a = { out, from_s, limit ? limit : SONDE_REGRESSIONS_MAX };
    sonde_lock(&r->lock);
    const size_t watched = r->watched, learning = r->learning, programs = r->cost_count;
    sonde_unlock(&r->lock);
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", sonde_clock_s(CLOCK_REALTIME));
    sonde_json_u64(out, "series_watched", watched);
    sonde_json_u64(out, "series_learning", learning);
    sonde_json_u64(out, "programs_profiled", programs);
    sonde_json_key_open(out, "regressions", '[');
    sonde_regressions_each(r, regressions_put_row, &a);
    sonde_buf_puts(out, "]}\n");
}
