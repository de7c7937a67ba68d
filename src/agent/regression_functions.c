/* regression_functions.c - from continuous profiles to changes of functions' costs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/regressions_private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"
#include "store/history.h"

#define REGRESSION_FUNCTIONS_S 172800.0

static struct sonde_cost *regression_cost_find(struct sonde_regressions *r, const char *program)
{
    sonde_assert_held(&r->lock);
    for (size_t i = 0; i < r->cost_count; i++) {
        if (!strcmp(r->costs[i].program, program)) return r->costs[i].cost;
    }
    if (r->cost_count == REGRESSION_COSTS) return NULL;
    struct regression_cost *c = &r->costs[r->cost_count];
    if (sonde_cost_create(NULL, &c->cost) != 0) return NULL;
    snprintf(c->program, sizeof(c->program), "%.63s", program);
    r->cost_count++;
    return c->cost;
}

void regression_functions_add(struct sonde_regressions *r, const struct sonde_profile *p)
{
    char program[64];
    snprintf(program, sizeof(program), "%.63s", sonde_profile_str(p, p->program));
    sonde_lock(&r->lock);
    struct sonde_cost *c = regression_cost_find(r, program);
    /* Without memory some samples are missing, of all functions alike. */
    if (c) sonde_cost_add(c, p);
    sonde_unlock(&r->lock);
}

void regression_functions_release(struct sonde_regressions *r)
{
    for (size_t i = 0; i < r->cost_count; i++) sonde_cost_destroy(r->costs[i].cost);
    r->cost_count = 0;
}

/* ---- Changes --------------------------------------------------------------------------------- */

static void regression_function_tell(struct sonde_regressions *r, const char *program,
                                     const struct sonde_cost_change *c, double now_s)
{
    struct sonde_regression g = { .is_function = 1 };
    g.verdict = c->kind == SONDE_COST_SHIFT ? SONDE_REGRESSION_SHIFT
                : c->kind == SONDE_COST_REGRESSION ? SONDE_REGRESSION_WORSE
                                                   : SONDE_REGRESSION_BETTER;
    snprintf(g.subject, sizeof(g.subject), "%.255s", c->function);
    snprintf(g.program, sizeof(g.program), "%s", program);
    snprintf(g.figure, sizeof(g.figure), "share");
    snprintf(g.unit, sizeof(g.unit), "ratio");
    snprintf(g.caller, sizeof(g.caller), "%.127s", c->caller ? c->caller : "");
    snprintf(g.with, sizeof(g.with), "%.127s", c->with ? c->with : "");
    g.change = (struct sonde_change){
        .time_s = c->time_s, .time_low_s = c->time_low_s, .time_high_s = c->time_high_s,
        .found_s = now_s, .before = c->before, .after = c->after,
        .absolute = c->absolute, .absolute_low = c->absolute_low,
        .absolute_high = c->absolute_high,
        .relative = c->relative, .relative_low = c->relative_low,
        .relative_high = c->relative_high,
        .scales = NAN, .n_eff = NAN, .confidence = 1 - c->p,
        .state = c->until_s > 0 ? SONDE_CHANGE_WENT_AWAY : SONDE_CHANGE_OPEN,
        .until_s = c->until_s,
    };
    regression_report(r, &g);
}

/* Copies, as reporting happens without the lock that names need. */
struct regression_found {
    struct sonde_cost_change *changes;
    char (*texts)[3][128];
    size_t count;
};

static void regression_found_copy(struct regression_found *f)
{
    f->texts = f->count ? sonde__calloc(f->count, sizeof(*f->texts)) : NULL;
    if (!f->texts) f->count = 0;
    for (size_t i = 0; i < f->count; i++) {
        struct sonde_cost_change *c = &f->changes[i];
        const char **texts[] = { &c->function, &c->caller, &c->with };
        for (int k = 0; k < 3; k++) {
            if (!*texts[k]) continue;
            snprintf(f->texts[i][k], sizeof(f->texts[i][k]), "%.127s", *texts[k]);
            *texts[k] = f->texts[i][k];
        }
        c->module = NULL;
    }
}

void regression_functions_judge(struct sonde_regressions *r)
{
    for (size_t i = 0; i < REGRESSION_COSTS; i++) {
        struct regression_found f = { 0 };
        char program[64] = "";
        sonde_lock(&r->lock);
        if (i < r->cost_count) {
            memcpy(program, r->costs[i].program, sizeof(program));
            if (sonde_cost_judge(r->costs[i].cost, &f.changes, &f.count) != 0) f.count = 0;
            regression_found_copy(&f);
        }
        sonde_unlock(&r->lock);
        for (size_t k = 0; k < f.count; k++) {
            regression_function_tell(r, program, &f.changes[k], r->read_to_s);
        }
        sonde__free(f.texts);
        sonde__free(f.changes);
    }
}

/* ---- The history ----------------------------------------------------------------------------- */

struct regression_parts { uint64_t *ids; double *start_s; size_t count, cap, start_cap; };

static void regression_part_note(const struct sonde_history_part *part, void *arg)
{
    struct regression_parts *p = arg;
    if (part->tier == SONDE_HISTORY_HEAP) return;
    const size_t needed = p->count + 1;
    if (SONDE_ARRAY_RESERVE(p->ids, p->cap, needed)) return;
    if (SONDE_ARRAY_RESERVE(p->start_s, p->start_cap, needed)) return;
    p->ids[p->count] = part->id;
    p->start_s[p->count++] = part->start_s;
}

int regression_functions_load(struct sonde_regressions *r, double from_s, double to_s,
                              struct sonde_err *err)
{
    if (!r->history) return 0;
    const struct sonde_history_query q = { .from_s = from_s, .to_s = to_s };
    struct regression_parts parts = { 0 };
    int rc = sonde_history_each(r->history_ops, r->history, &q, regression_part_note, &parts,
                                err);
    double judged_s = parts.count ? parts.start_s[0] : 0;
    for (size_t i = 0; i < parts.count && !rc; i++) {
        struct sonde_profile *p = NULL;
        sonde_lock(&r->lock);
        const int stopping = r->worker.stopping;
        sonde_unlock(&r->lock);
        if (stopping) break;
        /* One that went meanwhile was merged into a later one, or is too old. */
        if (sonde_history_get(r->history_ops, r->history, parts.ids[i], &p, err) != 0) continue;
        regression_functions_add(r, p);
        sonde_profile_destroy(p);
        /* A table holds two days: what changed earlier is judged before it is gone. */
        if (parts.start_s[i] - judged_s >= REGRESSION_FUNCTIONS_S / 4) {
            judged_s = parts.start_s[i];
            regression_functions_judge(r);
        }
    }
    sonde__free(parts.ids);
    sonde__free(parts.start_s);
    return rc;
}
