/* compare.c - see compare.h: cuts runs into parts, lets the others add figures, and judges. */
#include "analyze/compare.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "analyze/compare_private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/names.h"
#include "sonde/sonde.h"

#define PARTS_OF_RUN_MIN 4u

static const char *const basis_names[] = {
#define SONDE__X(id, name) name,
    SONDE_COMPARE_BASES(SONDE__X)
#undef SONDE__X
};

int sonde_compare_basis_find(const char *name)
{
    return SONDE_NAME_FIND(basis_names, name);
}

const char *sonde_compare_basis_name(enum sonde_compare_basis b) { return basis_names[b]; }

const char *sonde_compare_measure_group_name(enum sonde_compare_measure_group g)
{
    static const char *const names[] = { "requests", "phases", "spans", "run", "memory",
                                         "functions" };
    assert((size_t)g < SONDE_COUNT(names));
    return names[g];
}

const char *sonde_verdict_name(enum sonde_verdict v)
{
    static const char *const names[] = { "not known", "not different", "faster", "slower",
                                         "less", "more", "different" };
    assert((size_t)v < SONDE_COUNT(names));
    return names[v];
}

/* ---- Parts ----------------------------------------------------------------------------------- */

void cmp_range(const struct sonde_compare_run *r, uint64_t *start_ns, uint64_t *end_ns)
{
    const struct sonde_profile_filter *f = &r->filter;
    *start_ns = f->from_ns > r->profile->start_ns ? f->from_ns : r->profile->start_ns;
    *end_ns = f->to_ns && f->to_ns < r->profile->end_ns ? f->to_ns : r->profile->end_ns;
    if (*end_ns < *start_ns) *end_ns = *start_ns;
}

uint32_t cmp_part(const struct cmp *c, int side, size_t run, uint64_t time_ns)
{
    assert((side == 0 || side == 1) && run < c->side[side].run_count);
    const struct cmp_side *s = &c->side[side];
    const struct sonde_profile_filter *f = &s->runs[run].filter;
    if ((f->from_ns && time_ns < f->from_ns) || (f->to_ns && time_ns >= f->to_ns)) {
        return CMP_NO_PART;
    }
    if (s->per_run == 1) return (uint32_t)run;
    uint64_t start_ns, end_ns;
    cmp_range(&s->runs[run], &start_ns, &end_ns);
    if (time_ns < start_ns || time_ns > end_ns || end_ns == start_ns) return CMP_NO_PART;
    const double at = (double)(time_ns - start_ns) / (double)(end_ns - start_ns);
    const uint32_t i = (uint32_t)(at * s->per_run);
    return (uint32_t)run * s->per_run + (i < s->per_run ? i : s->per_run - 1);
}

/* 1 if it is known when a run's samples of time were taken. */
static int run_timed(const struct sonde_compare_run *r)
{
    uint64_t start_ns, end_ns;
    cmp_range(r, &start_ns, &end_ns);
    if (end_ns == start_ns) return 0;
    for (uint32_t i = 0; i < r->profile->samples_count; i++) {
        const struct sonde_profile_sample *s = &r->profile->samples[i];
        if (!s->time_ns && !sonde_sample_kind_is_bytes((enum sonde_sample_kind)s->kind)) return 0;
    }
    return 1;
}

static int side_init(struct cmp *c, int side)
{
    struct cmp_side *s = &c->side[side];
    s->per_run = 1;
    if (!c->out->by_runs && c->out->timed) {
        s->per_run = SONDE_COMPARE_PARTS / (uint32_t)s->run_count;
        if (s->per_run < PARTS_OF_RUN_MIN) s->per_run = PARTS_OF_RUN_MIN;
    }
    s->n = s->run_count * s->per_run;
    s->run_of = sonde__calloc(s->n, sizeof(*s->run_of));
    double **const columns[] = { &s->seconds, &s->ones, &s->requests, &s->cpu, &s->off_cpu };
    for (size_t i = 0; i < SONDE_COUNT(columns); i++) {
        *columns[i] = sonde__calloc(s->n, sizeof(double));
        if (!*columns[i]) return SONDE_ENOMEM;
    }
    if (!s->run_of) return SONDE_ENOMEM;
    for (size_t i = 0; i < s->n; i++) {
        uint64_t start_ns, end_ns;
        cmp_range(&s->runs[i / s->per_run], &start_ns, &end_ns);
        s->run_of[i] = (uint32_t)(i / s->per_run);
        s->seconds[i] = (double)(end_ns - start_ns) / 1e9 / s->per_run;
        s->ones[i] = 1;
    }
    c->out->runs[side] = s->run_count;
    c->out->parts[side] = s->n;
    return 0;
}

static void side_release(struct cmp_side *s)
{
    sonde__free(s->run_of);
    sonde__free(s->seconds);
    sonde__free(s->ones);
    sonde__free(s->requests);
    sonde__free(s->cpu);
    sonde__free(s->off_cpu);
}

/* ---- What all figures need ------------------------------------------------------------------- */

/* CPU or blocked time of each part. */
static int sum_time(struct cmp *c, int side, size_t run, int kind)
{
    struct cmp_side *s = &c->side[side];
    const struct sonde_profile *p = s->runs[run].profile;
    struct sonde_profile_filter filter = s->runs[run].filter;
    struct sonde_profile_match *match;
    filter.kind = kind;
    const int rc = sonde_profile_match_create(p, &filter, &match, c->err);
    if (rc) return rc;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (!sonde_profile_matches(match, i)) continue;
        const uint32_t part = cmp_part(c, side, run, p->samples[i].time_ns);
        if (part == CMP_NO_PART) continue;
        const double seconds = (double)p->samples[i].weight / 1e9;
        if (kind == SONDE_SAMPLE_CPU) {
            s->cpu[part] += seconds;
            s->cpu_all += seconds;
            s->cpu_samples += p->samples[i].count;
        } else {
            s->off_cpu[part] += seconds;
            s->off_cpu_all += seconds;
        }
    }
    sonde_profile_match_destroy(match);
    return 0;
}

static void count_request(struct cmp *c, int side, size_t run, uint64_t end_ns)
{
    struct cmp_side *s = &c->side[side];
    const uint32_t part = cmp_part(c, side, run, end_ns);
    if (part == CMP_NO_PART) return;
    s->requests[part]++;
    s->request_count++;
}

/* Requests are those of inference, or, where the filter names spans, these. */
static int compare_count_requests(struct cmp *c, int side, size_t run)
{
    const struct sonde_compare_run *r = &c->side[side].runs[run];
    const struct sonde_profile *p = r->profile;
    if (c->request_is_span) {
        struct sonde_profile_match *match;
        const int rc = sonde_profile_match_create(p, &r->filter, &match, c->err);
        if (rc) return rc;
        for (uint32_t i = 0; i < p->spans_count; i++) {
            if (sonde_profile_matches_span(match, i)) {
                count_request(c, side, run, p->spans[i].end_ns);
            }
        }
        sonde_profile_match_destroy(match);
        return 0;
    }
    for (size_t i = 0; p->infer && i < p->infer->request_count; i++) {
        const struct sonde_infer_request *q = &p->infer->requests[i];
        if (cmp_request_counts(q)) count_request(c, side, run, cmp_request_end(q));
    }
    return 0;
}

static int count_all(struct cmp *c)
{
    int rc = 0;
    for (int side = 0; side < 2; side++) {
        for (size_t run = 0; !rc && run < c->side[side].run_count; run++) {
            rc = sum_time(c, side, run, SONDE_SAMPLE_CPU);
            if (!rc) rc = sum_time(c, side, run, SONDE_SAMPLE_OFFCPU);
            if (!rc) rc = compare_count_requests(c, side, run);
        }
        c->out->requests[side] = c->side[side].request_count;
    }
    return rc;
}

static int compare_resolve_kind(const struct cmp *c)
{
    if (c->o->kind >= 0) return c->o->kind;
    uint32_t seen = 0;
    for (size_t run = 0; run < c->side[0].run_count; run++) {
        const struct sonde_profile *p = c->side[0].runs[run].profile;
        for (uint32_t i = 0; i < p->samples_count; i++) seen |= 1u << p->samples[i].kind;
    }
    return seen ? __builtin_ctz(seen) : SONDE_SAMPLE_CPU;
}

static int resolve_basis(struct cmp *c)
{
    struct sonde_comparison *out = c->out;
    const int requests = out->requests[0] && out->requests[1];
    const int bytes = sonde_sample_kind_is_bytes((enum sonde_sample_kind)out->kind);
    out->basis = c->o->basis;
    if (out->basis == SONDE_BASIS_AUTO) {
        out->basis = bytes ? SONDE_BASIS_RUN : requests ? SONDE_BASIS_REQUEST : SONDE_BASIS_SHARE;
    }
    if (out->basis == SONDE_BASIS_REQUEST && !requests) {
        return sonde_err_set(c->err, SONDE_EINVAL, "requests cannot be counted: there are none in "
                             "%s; record inference, or name spans that are requests",
                             out->requests[0] ? "what comes after" : "what was before");
    }
    for (int side = 0; side < 2 && out->basis == SONDE_BASIS_SECOND; side++) {
        for (size_t i = 0; i < c->side[side].n; i++) {
            if (c->side[side].seconds[i] > 0) continue;
            return sonde_err_set(c->err, SONDE_EINVAL, "it is not known how long these runs "
                                 "took");
        }
    }
    return 0;
}

const double *cmp_basis(const struct cmp *c, int side)
{
    const struct cmp_side *s = &c->side[side];
    switch (c->out->basis) {
    case SONDE_BASIS_REQUEST: return s->requests;
    case SONDE_BASIS_SECOND: return s->seconds;
    default: return s->ones;
    }
}

/* ---- Judging --------------------------------------------------------------------------------- */

static int compare_is_memory(const struct sonde_comparison *c,
                             const struct sonde_compare_measure *f)
{
    return f->group == SONDE_MEASURE_MEMORY ||
           (f->group == SONDE_MEASURE_FUNCTIONS &&
            sonde_sample_kind_is_bytes((enum sonde_sample_kind)c->kind));
}

static int compare_matters(const struct sonde_comparison *c, const struct sonde_compare_measure *f)
{
    const double least = compare_is_memory(c, f) && !c->by_runs ? SONDE_COMPARE_EFFECT_SINGLE
                                                                : SONDE_COMPARE_EFFECT;
    if (fabs(f->d.relative) < least) return 0; /* NaN, of what was not there before, is not */
    return f->group != SONDE_MEASURE_FUNCTIONS ||
           fabs(f->d.change) >= SONDE_COMPARE_WEIGHT * fmax(c->whole[0], c->whole[1]);
}

/* A change by half or more could have gone unseen. Functions are many and mostly small: theirs are
 * held against the whole, not against themselves. */
static int is_vague(const struct sonde_compare_measure *f)
{
    if (f->group == SONDE_MEASURE_FUNCTIONS) return 0;
    if (isnan(f->d.relative)) return f->d.change != 0; /* there was nothing before */
    return !(f->d.relative_low > -SONDE_COMPARE_VAGUE && f->d.relative_high < SONDE_COMPARE_VAGUE);
}

static enum sonde_verdict compare_judge(const struct sonde_comparison *c,
                                        const struct sonde_compare_measure *f,
                                        enum sonde_verdict grown, enum sonde_verdict shrunk)
{
    if (isnan(f->adjusted)) return SONDE_VERDICT_UNKNOWN;
    if (f->adjusted > f->level) {
        return is_vague(f) ? SONDE_VERDICT_UNKNOWN : SONDE_VERDICT_SAME;
    }
    if (!compare_matters(c, f)) return SONDE_VERDICT_SAME;
    return f->d.change > 0 ? grown : shrunk;
}

/* Which p-values are raised together. */
enum compare_family { COMPARE_FAMILY_FIGURES, COMPARE_FAMILY_FUNCTIONS, COMPARE_FAMILY_WATCHED,
                      COMPARE_FAMILIES };

static enum compare_family compare_family_of(const struct sonde_compare_measure *f)
{
    if (f->watched) return COMPARE_FAMILY_WATCHED;
    return f->group == SONDE_MEASURE_FUNCTIONS ? COMPARE_FAMILY_FUNCTIONS : COMPARE_FAMILY_FIGURES;
}

static int compare_adjust(struct sonde_comparison *c, const struct sonde_compare_options *o)
{
    double *p = sonde__calloc(c->count ? c->count : 1, sizeof(*p));
    if (!p) return SONDE_ENOMEM;
    int rc = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct sonde_compare_measure *f = &c->figures[i];
        f->watched = o->watched && o->watched(f, o->watched_arg);
        f->level = f->watched ? o->level : SONDE_COMPARE_LEVEL;
        c->watched += f->watched && !isnan(f->d.p);
    }
    for (int family = 0; family < COMPARE_FAMILIES && !rc; family++) {
        for (size_t i = 0; i < c->count; i++) {
            const int is = (int)compare_family_of(&c->figures[i]) == family;
            p[i] = is ? c->figures[i].d.p : NAN;
        }
        rc = sonde_stats_adjust(p, c->count);
        for (size_t i = 0; i < c->count && !rc; i++) {
            const int is = (int)compare_family_of(&c->figures[i]) == family;
            if (is) c->figures[i].adjusted = p[i];
        }
    }
    sonde__free(p);
    return rc;
}

/* Requests are what people compare runs for: if nothing is known of their times, other figures are
 * no verdict on them. */
static int requests_unknown(const struct sonde_comparison *c)
{
    if (!c->requests[0] || !c->requests[1] || c->basis != SONDE_BASIS_REQUEST) return 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_compare_measure *f = &c->figures[i];
        const int time = !strcmp(f->unit, "seconds") &&
                         (f->group == SONDE_MEASURE_REQUESTS || f->group == SONDE_MEASURE_SPANS);
        if (time && f->verdict != SONDE_VERDICT_UNKNOWN) return 0;
    }
    return 1;
}

/* Of functions the one that changed most by itself; of all else the first there is. What is neither
 * good nor bad (how busy the machine was) is told, but is no verdict. */
static void find_headline(struct sonde_comparison *c)
{
    size_t best = c->count;
    int known = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_compare_measure *f = &c->figures[i];
        const int function = f->group == SONDE_MEASURE_FUNCTIONS;
        if (!f->better && !function) continue;
        known |= f->verdict != SONDE_VERDICT_UNKNOWN;
        if (!sonde_compare_measure_changed(f)) continue;
        if (best == c->count) best = i;
        const struct sonde_compare_measure *b = &c->figures[best];
        if (!function || b->group != SONDE_MEASURE_FUNCTIONS || b == f) continue;
        const int self = !strcmp(f->measure, "self"), best_self = !strcmp(b->measure, "self");
        if (self > best_self ||
            (self == best_self && fabs(f->d.change) > fabs(b->d.change))) {
            best = i;
        }
    }
    c->headline = best;
    c->requests_unknown = requests_unknown(c);
    if (best == c->count) {
        c->verdict = known && !c->requests_unknown ? SONDE_VERDICT_SAME : SONDE_VERDICT_UNKNOWN;
    }
    else if (!c->figures[best].better) c->verdict = SONDE_VERDICT_DIFFERENT;
    else c->verdict = c->figures[best].verdict;
}

static int judge_all(struct sonde_comparison *c, const struct sonde_compare_options *o)
{
    const int rc = compare_adjust(c, o);
    if (rc) return rc;
    for (size_t i = 0; i < c->count; i++) {
        struct sonde_compare_measure *f = &c->figures[i];
        f->verdict = f->amount ? compare_judge(c, f, SONDE_VERDICT_MORE, SONDE_VERDICT_LESS)
                     : f->better > 0
                           ? compare_judge(c, f, SONDE_VERDICT_FASTER, SONDE_VERDICT_SLOWER)
                           : compare_judge(c, f, SONDE_VERDICT_SLOWER, SONDE_VERDICT_FASTER);
    }
    find_headline(c);
    return 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int compare_init(struct cmp *c)
{
    struct sonde_comparison *out = c->out;
    const size_t runs[2] = { c->side[0].run_count, c->side[1].run_count };
    out->by_runs = runs[0] >= 2 && runs[1] >= 2;
    out->lent = !out->by_runs && c->o->lend && (runs[0] >= 2 || runs[1] >= 2);
    out->by_runs |= out->lent;
    out->timed = 1;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < c->side[side].run_count; i++) {
            out->timed &= run_timed(&c->side[side].runs[i]);
        }
    }
    int rc = side_init(c, 0);
    if (!rc) rc = side_init(c, 1);
    if (rc) return rc;
    const size_t most = c->side[0].n > c->side[1].n ? c->side[0].n : c->side[1].n;
    c->work = sonde__calloc(2 * most, sizeof(*c->work));
    out->texts = sonde__calloc(1, sizeof(*out->texts));
    if (!c->work || !out->texts) return SONDE_ENOMEM;
    c->budget = (struct sonde_budget){ .used = &out->texts->bytes, .max = CMP_BYTES_MAX };
    out->kind = compare_resolve_kind(c);
    c->request_is_span = c->side[0].runs[0].filter.span != NULL;
    return sonde_strings_init(&out->texts->pool, &c->budget);
}

static int compare_all(struct cmp *c)
{
    int rc = count_all(c);
    if (!rc) rc = resolve_basis(c);
    if (!rc) rc = cmp_requests(c);
    if (!rc) rc = cmp_spans(c);
    if (!rc) rc = cmp_run(c);
    if (!rc) rc = cmp_memory(c);
    if (!rc) rc = cmp_functions(c);
    if (!rc) rc = judge_all(c->out, c->o);
    if (!rc) cmp_functions_link(c->out);
    return rc;
}

int sonde_compare(const struct sonde_compare_run *before, size_t before_count,
                  const struct sonde_compare_run *after, size_t after_count,
                  const struct sonde_compare_options *o, struct sonde_comparison **out,
                  struct sonde_err *err)
{
    assert(before && before_count && after && after_count && o && out);
    assert(!o->watched || (o->level > 0 && o->level < 1));
    struct sonde_err none = { "" };
    struct cmp c = { .o = o, .err = err ? err : &none };
    if (before_count > SONDE_COMPARE_RUNS_MAX || after_count > SONDE_COMPARE_RUNS_MAX) {
        return sonde_err_set(err, SONDE_EFULL, "more than %u runs on one side",
                             SONDE_COMPARE_RUNS_MAX);
    }
    c.side[0] = (struct cmp_side){ .runs = before, .run_count = before_count };
    c.side[1] = (struct cmp_side){ .runs = after, .run_count = after_count };
    c.out = sonde__calloc(1, sizeof(*c.out));
    int rc = c.out ? compare_init(&c) : SONDE_ENOMEM;
    if (!rc) rc = compare_all(&c);
    side_release(&c.side[0]);
    side_release(&c.side[1]);
    sonde__free(c.work);
    if (rc) {
        sonde_comparison_destroy(c.out);
        if (rc == SONDE_ENOMEM) sonde_err_set(err, rc, "no memory for the comparison");
        return rc;
    }
    *out = c.out;
    return 0;
}

void sonde_comparison_destroy(struct sonde_comparison *c)
{
    if (!c) return;
    if (c->texts) sonde_strings_release(&c->texts->pool);
    sonde__free(c->texts);
    sonde__free(c->figures);
    sonde__free(c->functions);
    sonde__free(c);
}
