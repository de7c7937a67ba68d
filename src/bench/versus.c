/* versus.c - see versus.h. */
#include "bench/versus.h"

#include <float.h>
#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyze/power.h"
#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

#define COMPARE_NORMAL 1.959963984540054 /* half of a 95 % interval in standard errors */
#define COMPARE_NOTES_MAX 1000u
/* CPU time that the host took, and processes that ran before, beyond which it is said. */
#define COMPARE_STOLEN 0.02
#define COMPARE_LOAD 0.5

const char *sonde_bench_verdict_name(enum sonde_bench_verdict v)
{
    static const char *const names[] = {
        [SONDE_BENCH_UNKNOWN] = "not known",
        [SONDE_BENCH_SAME] = "no difference seen",
        [SONDE_BENCH_BETTER] = "better",
        [SONDE_BENCH_WORSE] = "worse",
        [SONDE_BENCH_CHANGED] = "changed",
    };
    return names[v];
}

/* ---- Notes ----------------------------------------------------------------------------------- */

static int compare_note(struct sonde_bench_comparison *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int compare_note(struct sonde_bench_comparison *c, const char *format, ...)
{
    char text[700];
    va_list args;
    if (c->note_count >= COMPARE_NOTES_MAX) return 0;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    char *copy = sonde__strdup(text);
    char **at = copy ? SONDE_ARRAY_ADD(c->notes, c->note_count, c->note_cap) : NULL;
    if (!at) {
        sonde__free(copy);
        return SONDE_ENOMEM;
    }
    *at = copy;
    return 0;
}

/* Only where both are known, and each thing once. */
static int compare_note_texts(struct sonde_bench_comparison *c, const char *what, const char *a,
                              const char *b)
{
    if (!*a || !*b || !strcmp(a, b)) return 0;
    return compare_note(c, "another %s: '%.200s' before, '%.200s' after", what, a, b);
}

static int compare_note_machine(struct sonde_bench_comparison *c,
                                const struct sonde_bench_result *before,
                                const struct sonde_bench_result *after)
{
    const struct sonde_bench_machine *a = &before->machine, *b = &after->machine;
    int rc = compare_note_texts(c, "CPU", a->cpu, b->cpu);
    if (!rc && a->cpus && b->cpus && a->cpus != b->cpus) {
        rc = compare_note(c, "another number of CPUs: %u before, %u after", a->cpus, b->cpus);
    }
    /* What the kernel keeps for itself differs from boot to boot. */
    const double memory[2] = { (double)a->memory_bytes, (double)b->memory_bytes };
    if (!rc && memory[0] > 0 && memory[1] > 0 && fabs(memory[1] / memory[0] - 1) > 0.05) {
        rc = compare_note(c, "another size of memory: %.1f GiB before, %.1f GiB after",
                          memory[0] / (1 << 30), memory[1] / (1 << 30));
    }
    if (!rc) rc = compare_note_texts(c, "kernel", a->kernel, b->kernel);
    if (!rc) rc = compare_note_texts(c, "CPU governor", a->governor, b->governor);
    if (!rc) rc = compare_note_texts(c, "host", a->host, b->host);
    if (!rc && a->virtual != b->virtual) {
        rc = compare_note(c, "%s runs on a virtual machine, the other does not",
                          a->virtual ? "before" : "after");
    }
    if (!rc) rc = compare_note_texts(c, "sonde", before->sonde, after->sonde);
    return rc;
}

/* Doubts about a single result. */
static int compare_note_result(struct sonde_bench_comparison *c, const char *side, size_t run,
                               const struct sonde_bench_result *r)
{
    int rc = 0;
    for (size_t i = 0; i < r->reason_count && !rc; i++) {
        rc = compare_note(c, "%s, run %zu is not valid: %.500s", side, run + 1, r->reasons[i]);
    }
    if (!rc && r->machine.stolen_ratio > COMPARE_STOLEN) {
        rc = compare_note(c, "%s, run %zu: the host took %.1f %% of the CPU time", side, run + 1,
                          100 * r->machine.stolen_ratio);
    }
    if (!rc && r->machine.load_before > COMPARE_LOAD * r->machine.cpus && r->machine.cpus) {
        rc = compare_note(c, "%s, run %zu: the machine was busy before it began (load %.1f)", side,
                          run + 1, r->machine.load_before);
    }
    return rc;
}

static int compare_command_differs(const struct sonde_bench_result *a,
                                   const struct sonde_bench_result *b)
{
    if (!a->command_count || !b->command_count) return 0;
    if (a->command_count != b->command_count) return 1;
    for (size_t i = 0; i < a->command_count; i++) {
        if (strcmp(a->command[i], b->command[i]) != 0) return 1;
    }
    return 0;
}

static int compare_notes(struct sonde_bench_comparison *c, const struct sonde_bench_saved *before,
                         const struct sonde_bench_saved *after)
{
    const struct sonde_bench_result *a = &before->runs[before->count - 1];
    const struct sonde_bench_result *b = &after->runs[after->count - 1];
    int rc = compare_note_machine(c, a, b);
    if (!rc && compare_command_differs(a, b)) {
        rc = compare_note(c, "they were called with other arguments (`sonde bench show` has them)");
    }
    if (!rc && c->runs[0] == 1 && c->runs[1] == 1) {
        rc = compare_note(c, "one run each: intervals know how much it varied within a run, not "
                          "from run to run; save several runs of each to know that too");
    }
    for (size_t i = 0; i < before->count && !rc; i++) {
        rc = compare_note_result(c, "before", i, &before->runs[i]);
    }
    for (size_t i = 0; i < after->count && !rc; i++) {
        rc = compare_note_result(c, "after", i, &after->runs[i]);
    }
    return rc;
}

/* ---- Estimates ------------------------------------------------------------------------------- */

static const struct sonde_estimate compare_unknown = { NAN, INFINITY, INFINITY, 1 };

/* n values in the order of time; y: theirs, x: room for as many. */
static struct sonde_estimate compare_of_values(const double *y, double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!(y[i] >= 0) || isinf(y[i])) return compare_unknown;
        x[i] = 1;
    }
    if (n < 2) return compare_unknown;
    return sonde_estimate_runs(y, x, n, 0);
}

/* One result: by its parts or by its interval, whichever says that less is known. */
static struct sonde_estimate compare_of_parts(const struct sonde_bench_figure *f, double *x)
{
    struct sonde_estimate e = compare_of_values(f->parts, x, f->part_count);
    const double df = f->part_count > 1 ? (double)(f->part_count - 1) : INFINITY;
    const double t = isinf(df) ? COMPARE_NORMAL : sonde_t_quantile(0.975, df);
    if (!(f->low <= f->value && f->value <= f->high)) {
        e.value = f->value;
        return e;
    }
    const double low = (f->value - f->low) / t, high = (f->high - f->value) / t;
    if (isinf(e.se_low) || low > e.se_low || high > e.se_high) {
        e = (struct sonde_estimate){ f->value, low, high, df };
    }
    e.value = f->value;
    return e;
}

/* How it is known on one side; *n: of how many observations. */
static struct sonde_estimate compare_estimate(const struct sonde_bench_saved *s, const char *name,
                                              double *y, double *x, size_t *n)
{
    const struct sonde_bench_figure *f = NULL;
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct sonde_bench_figure *g = sonde_bench_figure_find(&s->runs[i], name);
        if (!g || isnan(g->value)) continue;
        f = g;
        y[count++] = g->value;
    }
    *n = count;
    if (count > 1) return compare_of_values(y, x, count);
    if (!f) return compare_unknown;
    *n = f->part_count;
    return compare_of_parts(f, x);
}

static size_t compare_known(const struct sonde_bench_saved *s, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct sonde_bench_figure *g = sonde_bench_figure_find(&s->runs[i], name);
        count += g && !isnan(g->value);
    }
    return count;
}

/* The relative change that would be seen in nine of ten comparisons of what spreads like this. */
static double compare_smallest(const struct sonde_estimate e[2], const size_t n[2])
{
    if (n[0] >= 1 && n[1] >= 1 && n[0] + n[1] > 2) {
        const struct sonde_power p = sonde_power_of(e, n);
        const size_t none[2] = { 0, 0 };
        return sonde_power_smallest(&p, none, SONDE_BENCH_COMPARE_LEVEL, SONDE_POWER_DEFAULT);
    }
    const double se = hypot(fmax(e[0].se_low, e[0].se_high), fmax(e[1].se_low, e[1].se_high));
    if (!isfinite(se) || !(e[0].value > 0)) return NAN;
    return (COMPARE_NORMAL + 1.2815515655446004) * se / e[0].value;
}

static void compare_change(const struct sonde_bench_saved *before,
                           const struct sonde_bench_saved *after,
                           const struct sonde_bench_figure *f, double *y, double *x,
                           struct sonde_bench_change *out)
{
    size_t n[2];
    const size_t known[2] = { compare_known(before, f->name), compare_known(after, f->name) };
    struct sonde_bench_change k = { .name = f->name, .unit = f->unit, .better = f->better,
                                    .smallest = NAN, .adjusted = NAN };
    k.estimate[0] = compare_estimate(before, f->name, y, x, &n[0]);
    k.estimate[1] = compare_estimate(after, f->name, y, x, &n[1]);
    /* A single run beside several: what it would do another time, only the others know. */
    for (int i = 0; i < 2; i++) {
        if (known[i] != 1 || known[!i] < 2) continue;
        k.estimate[i] = sonde_estimate_lend(k.estimate[i].value, &k.estimate[!i], known[!i]);
        n[i] = 1;
    }
    k.d = sonde_estimate_compare(&k.estimate[0], &k.estimate[1]);
    /* Two that are equal and never varied are no different. */
    if (isnan(k.d.p) && k.estimate[0].value == k.estimate[1].value &&
        isfinite(k.estimate[0].se_high) && isfinite(k.estimate[1].se_high)) {
        k.d.p = 1;
    }
    k.smallest = compare_smallest(k.estimate, n);
    *out = k;
}

static int versus_judge(struct sonde_bench_comparison *c)
{
    double *p = sonde__calloc(c->count ? c->count : 1, sizeof(*p));
    if (!p) return SONDE_ENOMEM;
    for (size_t i = 0; i < c->count; i++) p[i] = c->changes[i].d.p;
    const int rc = sonde_stats_adjust(p, c->count);
    for (size_t i = 0; i < c->count && !rc; i++) {
        struct sonde_bench_change *k = &c->changes[i];
        k->adjusted = p[i];
        if (isnan(p[i])) k->verdict = SONDE_BENCH_UNKNOWN;
        else if (p[i] > SONDE_BENCH_COMPARE_LEVEL) k->verdict = SONDE_BENCH_SAME;
        else if (!k->better) k->verdict = SONDE_BENCH_CHANGED;
        else {
            k->verdict = (k->d.change > 0) == (k->better > 0) ? SONDE_BENCH_BETTER
                                                              : SONDE_BENCH_WORSE;
        }
    }
    sonde__free(p);
    return rc;
}

/* ---- All of it ------------------------------------------------------------------------------- */

void sonde_bench_comparison_release(struct sonde_bench_comparison *c)
{
    for (size_t i = 0; i < c->note_count; i++) sonde__free(c->notes[i]);
    sonde__free(c->notes);
    sonde__free(c->changes);
    *c = (struct sonde_bench_comparison){ 0 };
}

static int compare_in_common(const struct sonde_bench_saved *a, const struct sonde_bench_saved *b)
{
    const struct sonde_bench_result *x = &a->runs[a->count - 1], *y = &b->runs[b->count - 1];
    for (size_t i = 0; i < x->figure_count; i++) {
        if (sonde_bench_figure_find(y, x->figures[i].name)) return 1;
    }
    return 0;
}

/* How much of the first figure's name all begin with, up to and with a dot. */
static size_t compare_prefix(const struct sonde_bench_result *r)
{
    size_t len = r->figure_count ? strlen(r->figures[0].name) : 0;
    for (size_t i = 1; i < r->figure_count; i++) {
        size_t k = 0;
        while (k < len && r->figures[i].name[k] == r->figures[0].name[k]) k++;
        len = k;
    }
    while (len && r->figures[0].name[len - 1] != '.') len--;
    return r->figure_count > 1 ? len : 0;
}

static void compare_strip(struct sonde_bench_saved *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct sonde_bench_result *r = &s->runs[i];
        const size_t len = compare_prefix(r);
        for (size_t k = 0; k < r->figure_count && len; k++) {
            char *name = r->figures[k].name;
            memmove(name, name + len, strlen(name + len) + 1);
        }
    }
}

void sonde_bench_compare_align(struct sonde_bench_saved *a, struct sonde_bench_saved *b)
{
    if (compare_in_common(a, b)) return;
    compare_strip(a);
    compare_strip(b);
}

/* The most values that any figure of a side has. */
static size_t compare_room(const struct sonde_bench_saved *s)
{
    size_t most = s->count;
    for (size_t i = 0; i < s->count; i++) {
        for (size_t k = 0; k < s->runs[i].figure_count; k++) {
            const size_t parts = s->runs[i].figures[k].part_count;
            if (parts > most) most = parts;
        }
    }
    return most + 1;
}

static int compare_figures(struct sonde_bench_comparison *c, const struct sonde_bench_saved *before,
                           const struct sonde_bench_saved *after)
{
    const struct sonde_bench_result *last = &after->runs[after->count - 1];
    const size_t a = compare_room(before), b = compare_room(after), room = a > b ? a : b;
    double *work = sonde__calloc(2 * room, sizeof(*work));
    int rc = work ? 0 : SONDE_ENOMEM;
    for (size_t i = 0; i < last->figure_count && !rc; i++) {
        const struct sonde_bench_figure *f = &last->figures[i];
        if (!compare_known(before, f->name)) {
            c->left_out++;
            continue;
        }
        struct sonde_bench_change *k = SONDE_ARRAY_ADD(c->changes, c->count, c->cap);
        if (k) compare_change(before, after, f, work, work + room, k);
        else rc = SONDE_ENOMEM;
    }
    sonde__free(work);
    return rc;
}

int sonde_bench_compare(const struct sonde_bench_saved *before,
                        const struct sonde_bench_saved *after,
                        struct sonde_bench_comparison *out, struct sonde_err *err)
{
    struct sonde_bench_comparison c = { .runs = { before->count, after->count } };
    const struct sonde_bench_saved *const sides[2] = { before, after };
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < sides[s]->count; i++) {
            if (!strcmp(sides[s]->runs[i].kind, before->runs[0].kind)) continue;
            return sonde_err_set(err, SONDE_EINVAL, "results of `%.40s` and of `%.40s` cannot be "
                                 "compared: compare two of one kind", before->runs[0].kind,
                                 sides[s]->runs[i].kind);
        }
    }
    int rc = compare_figures(&c, before, after);
    if (!rc) rc = versus_judge(&c);
    if (!rc) rc = compare_notes(&c, before, after);
    if (rc) rc = sonde_err_memory(err);
    else if (!c.count) {
        rc = sonde_err_set(err, SONDE_EINVAL, "the results have no figure in common");
    }
    if (rc) sonde_bench_comparison_release(&c);
    else *out = c;
    return rc;
}

/* By how much the change breaks the limit; 0 or less: it does not. */
static double compare_excess(const struct sonde_bench_limit *l, const struct sonde_bench_change *k,
                             int unknown_ok)
{
    if (l->absolute) return (k->estimate[1].value - l->limit) * l->sign;
    if (k->verdict == SONDE_BENCH_UNKNOWN) return unknown_ok ? 0 : DBL_MIN;
    if (k->verdict == SONDE_BENCH_SAME) return 0;
    if (isnan(k->d.relative)) return k->d.change * l->sign > 0 ? INFINITY : 0;
    return k->d.relative * l->sign - l->limit;
}

int sonde_bench_compare_limit(const struct sonde_bench_limit *l,
                              const struct sonde_bench_comparison *c, int unknown_ok,
                              const struct sonde_bench_change **out, struct sonde_err *err)
{
    double most = 0;
    int found = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_bench_change *k = &c->changes[i];
        if (fnmatch(l->glob, k->name, 0) != 0) continue;
        const int rc = sonde_bench_limit_unit(l, k->name, k->unit, err);
        if (rc) return rc;
        found = 1;
        const double excess = compare_excess(l, k, unknown_ok);
        if (!(excess > most)) continue;
        most = excess;
        *out = k;
    }
    if (!found) {
        return sonde_err_set(err, SONDE_ENOENT, "'%.100s': these results have no such figure",
                             l->text);
    }
    return most > 0;
}
