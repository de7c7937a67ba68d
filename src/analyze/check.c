/* check.c - see check.h. */
#include "analyze/check.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "analyze/power.h"
#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

const char *sonde_check_verdict_name(enum sonde_check_verdict v)
{
    static const char *const names[] = { "not known", "nothing to be seen", "improved", "regressed",
                                         "changed", "within the limit", "beyond the limit" };
    assert((size_t)v < SONDE_COUNT(names));
    return names[v];
}

/* ---- Limits ---------------------------------------------------------------------------------- */

enum check_default_of { CHECK_OF_ALL, CHECK_OF_SPANS, CHECK_OF_SPAN_CPU };

static const struct { const char *limit; enum check_default_of of; } check_defaults[] = {
    { "p50>1%", CHECK_OF_ALL },       { "p95>1%", CHECK_OF_ALL },
    { "ttft.p50>1%", CHECK_OF_ALL },  { "ttft.p95>1%", CHECK_OF_ALL },
    { "itl.p50>1%", CHECK_OF_ALL },   { "itl.p95>1%", CHECK_OF_ALL },
    { "requests<1%", CHECK_OF_ALL },  { "tokens<1%", CHECK_OF_ALL },
    { "errors>1%", CHECK_OF_ALL },    { "p50:*>1%", CHECK_OF_SPANS },
    { "p95:*>1%", CHECK_OF_SPANS },   { "cpu:*>1%", CHECK_OF_SPAN_CPU },
    { "cpu>1%", CHECK_OF_ALL },       { "peak>1%", CHECK_OF_ALL },
    { "rss>1%", CHECK_OF_ALL },
};

int sonde_check_defaults(int spans, int span_cpu, struct sonde_fail_on **out, size_t *count)
{
    struct sonde_fail_on *limits = sonde__calloc(SONDE_COUNT(check_defaults), sizeof(*limits));
    if (!limits) return SONDE_ENOMEM;
    size_t n = 0;
    for (size_t i = 0; i < SONDE_COUNT(check_defaults); i++) {
        if (check_defaults[i].of == CHECK_OF_SPANS && !spans) continue;
        if (check_defaults[i].of == CHECK_OF_SPAN_CPU && !span_cpu) continue;
        struct sonde_err err;
        const int rc = sonde_fail_on_parse(check_defaults[i].limit, &limits[n++], &err);
        assert(!rc);
        (void)rc;
    }
    *out = limits;
    *count = n;
    return 0;
}

/* "cpu" without requests or several runs is how busy CPUs were, which is neither good nor bad. */
static int check_covers(const struct sonde_check_options *o, const struct sonde_fail_on *limit,
                        const struct sonde_compare_measure *f)
{
    return sonde_fail_on_matches(limit, f) && (!o->defaults || f->better);
}

int sonde_check_watches(const struct sonde_compare_measure *f, const void *arg)
{
    const struct sonde_check_options *o = arg;
    for (size_t i = 0; i < o->limit_count; i++) {
        if (!o->limits[i].absolute && check_covers(o, &o->limits[i], f)) return 1;
    }
    return 0;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static enum sonde_check_verdict check_judge(const struct sonde_check_row *r)
{
    const struct sonde_compare_measure *f = r->figure;
    if (r->limit->absolute) return r->broken ? SONDE_CHECK_BEYOND : SONDE_CHECK_WITHIN;
    if (f->verdict == SONDE_VERDICT_UNKNOWN) return SONDE_CHECK_UNKNOWN;
    if (!sonde_compare_measure_changed(f)) return SONDE_CHECK_NOTHING;
    if (!f->better) return SONDE_CHECK_CHANGED;
    return f->d.change * f->better > 0 ? SONDE_CHECK_IMPROVED : SONDE_CHECK_REGRESSED;
}

static void check_row_power(const struct sonde_comparison *c, const struct sonde_check_options *o,
                            struct sonde_check_row *r)
{
    const double chance = o->chance > 0 ? o->chance : SONDE_POWER_DEFAULT;
    const double level = SONDE_CHECK_LEVEL / (double)(c->watched ? c->watched : 1);
    const size_t none[2] = { 0, 0 };
    const struct sonde_power p = sonde_power_of(r->figure->estimate,
                                                c->by_runs ? c->runs : c->parts);
    r->detect = o->detect > 0                           ? o->detect
                : o->defaults                           ? SONDE_CHECK_DETECT
                : r->limit->limit > SONDE_COMPARE_EFFECT ? r->limit->limit
                                                        : SONDE_COMPARE_EFFECT;
    r->smallest = sonde_power_smallest(&p, none, level, chance);
    if (r->smallest < SONDE_COMPARE_EFFECT) r->smallest = SONDE_COMPARE_EFFECT;
    /* Sub-windows of one run do not know how much the next run differs. */
    if (!c->by_runs) return;
    r->more = sonde_power_more(&p, r->detect, level, chance, 0);
    r->more_each = sonde_power_more(&p, r->detect, level, chance, 1);
}

static int check_row_add(const struct sonde_comparison *c, const struct sonde_check_options *o,
                         const struct sonde_fail_on *limit, const struct sonde_compare_measure *f,
                         struct sonde_check *out)
{
    struct sonde_check_row *r = SONDE_ARRAY_ADD(out->rows, out->count, out->cap);
    if (!r) return SONDE_ENOMEM;
    *r = (struct sonde_check_row){ .limit = limit, .figure = f, .detect = NAN, .smallest = NAN,
                                   .more = SONDE_POWER_NEVER, .more_each = SONDE_POWER_NEVER };
    r->broken = sonde_fail_on_excess(limit, f, o->unknown_ok || o->defaults) > 0;
    r->verdict = check_judge(r);
    if (!limit->absolute) check_row_power(c, o, r);
    r->goal = !limit->absolute && !o->defaults;
    out->broken += (size_t)r->broken;
    return 0;
}

/* Of default limits one figure is enough to ask for runs: CPU time a request or run, which depends
 * least on what else the machine does; else that which needs the fewest. */
static void check_choose_goal(struct sonde_check *out)
{
    size_t best = out->count;
    for (size_t i = 0; i < out->count; i++) {
        const struct sonde_check_row *r = &out->rows[i];
        if (isnan(r->smallest)) continue;
        if (!strcmp(r->figure->measure, "cpu") && !*r->figure->subject) {
            best = i;
            break;
        }
        if (best == out->count || r->smallest < out->rows[best].smallest) best = i;
    }
    if (best < out->count) out->rows[best].goal = 1;
}

static int check_weight(enum sonde_check_verdict v)
{
    static const int weights[] = {
        [SONDE_CHECK_UNKNOWN] = 0,  [SONDE_CHECK_WITHIN] = 1,    [SONDE_CHECK_NOTHING] = 2,
        [SONDE_CHECK_CHANGED] = 3,  [SONDE_CHECK_IMPROVED] = 4,  [SONDE_CHECK_REGRESSED] = 5,
        [SONDE_CHECK_BEYOND] = 6,
    };
    return weights[v];
}

static void check_sum_up(const struct sonde_check_options *o, struct sonde_check *out)
{
    out->verdict = SONDE_CHECK_UNKNOWN;
    out->lead = out->count;
    for (size_t i = 0; i < out->count; i++) {
        const struct sonde_check_row *r = &out->rows[i];
        if (check_weight(r->verdict) > check_weight(out->verdict)) out->verdict = r->verdict;
        if (!r->goal) continue;
        if (out->lead == out->count || r->more > out->rows[out->lead].more) out->lead = i;
    }
    out->undecided = o->defaults && out->verdict == SONDE_CHECK_UNKNOWN;
    out->failed = out->broken || (out->undecided && !o->unknown_ok);
}

int sonde_check_run(const struct sonde_comparison *c, const struct sonde_check_options *o,
                    struct sonde_check *out, struct sonde_err *err)
{
    assert(c && o->limits && out);
    *out = (struct sonde_check){ 0 };
    int rc = 0;
    for (size_t i = 0; i < o->limit_count && !rc; i++) {
        const struct sonde_fail_on *limit = &o->limits[i];
        const struct sonde_compare_measure *worst;
        if (!o->defaults) {
            rc = sonde_fail_on_check(limit, c, o->unknown_ok, &worst, err);
            if (rc > 0) rc = 0;
        }
        for (size_t k = 0; k < c->count && !rc; k++) {
            if (!check_covers(o, limit, &c->figures[k])) continue;
            rc = check_row_add(c, o, limit, &c->figures[k], out);
            if (rc) sonde_err_memory(err);
        }
    }
    if (rc) {
        sonde_check_release(out);
        return rc;
    }
    if (o->defaults) check_choose_goal(out);
    check_sum_up(o, out);
    return 0;
}

void sonde_check_release(struct sonde_check *c)
{
    sonde__free(c->rows);
    *c = (struct sonde_check){ 0 };
}
