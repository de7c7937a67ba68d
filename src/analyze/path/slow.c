/* slow.c - what tells the slow from the rest: see slow.h. */
#include "analyze/path/slow.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/path/private.h"
#include "analyze/stats.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"

enum {
    LOOKED_MAX = 256,     /* features */
    FUNCTIONS_MAX = 60,   /* functions, and places of waits, that took most */
    PLACES_MAX = 12,      /* values of a label */
    SHIFTS_MAX = 400,
};

#define LEVEL 0.05        /* of adjusted p */
#define LIKELIHOOD_MIN 0.1 /* less than this from 0.5 is of no use, however sure */
#define GAP_MIN 0.01      /* of the difference in latency: a time below it explains nothing */
#define USE_MIN 0.001     /* of all latency: functions below it are not looked at */

static const struct {
    const char *name, *unit;
} slow_types[] = {
#define SONDE__X(id, name, unit) { name, unit },
    SONDE_SLOW_TYPES(SONDE__X)
#undef SONDE__X
};

const char *sonde_slow_type_name(enum sonde_slow_type t)
{
    assert((size_t)t < SONDE_COUNT(slow_types));
    return slow_types[t].name;
}

const char *sonde_slow_type_unit(enum sonde_slow_type t)
{
    assert((size_t)t < SONDE_COUNT(slow_types));
    return slow_types[t].unit;
}

struct slow_work {
    const struct sonde_path_index *x;
    const struct sonde_path_set *set;
    double *values;       /* by item, of the feature at hand */
    double *ranks;
    uint32_t *order;
    uint32_t *slow;       /* items that are, set->slow_count of them */
    struct sonde_slow_row *rows; /* LOOKED_MAX */
    double *p;
    uint32_t count;
    double gap_s;         /* difference of mean latencies */
};

/* ---- One feature ----------------------------------------------------------------------------- */

static int slow_by_value(const void *a, const void *b, void *arg)
{
    const double *v = arg;
    return SONDE_CMP(v[*(const uint32_t *)a], v[*(const uint32_t *)b]);
}

/* Ranks from 1, ties share theirs. Returns the sum of t^3 - t over ties. */
static double slow_rank(struct slow_work *w)
{
    const uint32_t n = w->set->count;
    double ties = 0;
    for (uint32_t i = 0; i < n; i++) w->order[i] = i;
    qsort_r(w->order, n, sizeof(*w->order), slow_by_value, w->values);
    for (uint32_t i = 0, end; i < n; i = end) {
        end = i + 1;
        while (end < n && w->values[w->order[end]] <= w->values[w->order[i]]) end++;
        const double t = end - i;
        ties += t * t * t - t;
        for (uint32_t k = i; k < end; k++) w->ranks[w->order[k]] = (i + 1 + end) / 2.0;
    }
    return ties;
}

/* Sum of the ranks of the slow, as if they had come so many places later. */
static double slow_rank_sum(const struct slow_work *w, uint32_t shift)
{
    double sum = 0;
    for (uint32_t i = 0; i < w->set->slow_count; i++) {
        sum += w->ranks[(w->slow[i] + shift) % w->set->count];
    }
    return sum;
}

/* How many times the variance is that of independent ones. */
static double slow_inflation(const struct slow_work *w, double mean, double variance)
{
    const uint32_t n = w->set->count;
    const uint32_t shifts = n - 1 < SHIFTS_MAX ? n - 1 : SHIFTS_MAX;
    double squares = 0;
    for (uint32_t s = 1; s <= shifts; s++) {
        const uint32_t shift = (uint32_t)((uint64_t)s * n / (shifts + 1));
        const double d = slow_rank_sum(w, shift ? shift : 1) - mean;
        squares += d * d;
    }
    return fmax(1, squares / shifts / variance);
}

static struct sonde_estimate slow_mean(const struct slow_work *w, int slow, double inflation)
{
    double sum = 0, squares = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->set->count; i++) {
        if (!w->set->items[i].slow != !slow) continue;
        sum += w->values[i];
        n++;
    }
    const double mean = n ? sum / n : NAN;
    for (uint32_t i = 0; i < w->set->count; i++) {
        if (!w->set->items[i].slow != !slow) continue;
        squares += (w->values[i] - mean) * (w->values[i] - mean);
    }
    const double se = n > 1 ? sqrt(inflation * squares / (n - 1) / n) : INFINITY;
    return (struct sonde_estimate){ mean, se, se, n > 1 ? n - 1 : 1 };
}

/* The feature whose values are set; row has its name and type. */
static void slow_look(struct slow_work *w, const struct sonde_slow_row *about)
{
    const double n1 = w->set->slow_count, n = w->set->count, n2 = n - n1;
    if (w->count == LOOKED_MAX) return;
    const double ties = slow_rank(w);
    const double mean = n1 * (n + 1) / 2;
    const double variance = n1 * n2 / 12 * (n + 1 - ties / (n * (n - 1)));
    if (!(variance > 0)) return; /* all are alike */
    const double inflation = slow_inflation(w, mean, variance);
    const double sum = slow_rank_sum(w, 0);
    /* Half a step towards the mean: ranks are whole numbers. */
    const double step = sum > mean ? -0.5 : sum < mean ? 0.5 : 0;
    const double z = (sum - mean + step) / sqrt(variance * inflation);
    struct sonde_slow_row *row = &w->rows[w->count];
    const struct sonde_estimate slow = slow_mean(w, 1, inflation);
    const struct sonde_estimate rest = slow_mean(w, 0, inflation);
    const struct sonde_difference d = sonde_estimate_compare(&rest, &slow);
    *row = *about;
    row->slow = slow.value;
    row->rest = rest.value;
    row->change = slow.value - rest.value;
    row->low = d.low;
    row->high = d.high;
    row->gap_share = about->type <= SONDE_SLOW_WAIT && w->gap_s > 0 ? row->change / w->gap_s : NAN;
    row->likelihood = (sum - n1 * (n1 + 1) / 2) / (n1 * n2);
    w->p[w->count++] = sonde_t_p(z, INFINITY);
}

/* ---- Which features -------------------------------------------------------------------------- */

static void slow_look_parts(struct slow_work *w)
{
    for (int k = 0; k < SONDE_PATH_KIND_COUNT; k++) {
        struct sonde_slow_row row = { .type = SONDE_SLOW_PART, .kind = (enum sonde_path_kind)k };
        double all = 0;
        for (uint32_t i = 0; i < w->set->count; i++) {
            w->values[i] = (double)w->set->items[i].ns[k] * 1e-9;
            all += w->values[i];
        }
        if (!(all > 0)) continue;
        snprintf(row.name, sizeof(row.name), "%s", sonde_path_kind_name((enum sonde_path_kind)k));
        slow_look(w, &row);
    }
}

static double slow_size(const struct slow_work *w, uint32_t i, int which)
{
    const struct sonde_path_item *item = &w->set->items[i];
    if (which == 0) return (double)item->mates;
    if (which == 1) return (double)item->mate_tokens;
    if (w->set->of_spans) return 0;
    const struct sonde_infer_request *r = &w->x->p->infer->requests[item->index];
    switch (which) {
    case 2: return (double)r->tokens_in;
    case 3: return (double)r->tokens_reused;
    case 4: return (double)(r->tokens_in - r->tokens_reused);
    case 5: return (double)r->tokens_out;
    default: return (double)r->batches;
    }
}

static void slow_look_sizes(struct slow_work *w)
{
    static const char *const names[] = { "batch_mates", "batch_mate_tokens", "prompt_tokens",
                                         "reused_tokens", "computed_prompt_tokens",
                                         "output_tokens", "batches" };
    for (int s = 0; s < (int)SONDE_COUNT(names); s++) {
        struct sonde_slow_row row = { .type = SONDE_SLOW_SIZE };
        for (uint32_t i = 0; i < w->set->count; i++) w->values[i] = slow_size(w, i, s);
        snprintf(row.name, sizeof(row.name), "%s", names[s]);
        slow_look(w, &row);
    }
}

/* A label's value as a text of the profile, or "". */
static const char *slow_place(const struct slow_work *w, uint32_t i, int which, char out[64])
{
    const struct sonde_profile *p = w->x->p;
    const struct sonde_path_item *item = &w->set->items[i];
    if (which == 0) {
        const struct sonde_profile_thread *t = &p->threads[item->thread];
        if (!item->thread) return "";
        snprintf(out, 64, "%.40s/%u", sonde_profile_str(p, t->name), t->tid);
        return out;
    }
    if (w->set->of_spans) return "";
    const struct sonde_infer_request *r = &p->infer->requests[item->index];
    switch (which) {
    case 1: return r->program;
    case 2: return r->model;
    case 3: return r->route;
    case 4: return r->backend;
    default: return sonde_infer_outcome_name(r->outcome);
    }
}

static void slow_look_places(struct slow_work *w)
{
    static const char *const labels[] = { "thread", "program", "model", "route", "backend",
                                          "outcome" };
    for (int l = 0; l < (int)SONDE_COUNT(labels); l++) {
        char seen[PLACES_MAX][64], text[64];
        size_t count = 0;
        for (uint32_t i = 0; i < w->set->count && count < PLACES_MAX; i++) {
            const char *value = slow_place(w, i, l, text);
            size_t k = 0;
            while (k < count && strncmp(seen[k], value, 63) != 0) k++;
            if (k == count && *value) snprintf(seen[count++], 64, "%s", value);
        }
        for (size_t k = 0; k < count && count > 1; k++) {
            struct sonde_slow_row row = { .type = SONDE_SLOW_PLACE };
            for (uint32_t i = 0; i < w->set->count; i++) {
                w->values[i] = strncmp(slow_place(w, i, l, text), seen[k], 63) == 0;
            }
            snprintf(row.name, sizeof(row.name), "%s=%s", labels[l], seen[k]);
            slow_look(w, &row);
        }
    }
}

/* ---- Functions and waits --------------------------------------------------------------------- */

struct slow_use { uint32_t kind, function, line; uint64_t ns; };

static int slow_by_use(const void *a, const void *b)
{
    const struct sonde_path_use *x = a, *y = b;
    if (x->kind != y->kind) return SONDE_CMP(x->kind, y->kind);
    if (x->function != y->function) return SONDE_CMP(x->function, y->function);
    return SONDE_CMP(x->item, y->item);
}

static int slow_most_first(const void *a, const void *b)
{
    const struct slow_use *x = a, *y = b;
    if (x->ns != y->ns) return SONDE_CMP(y->ns, x->ns);
    return SONDE_CMP(x->function, y->function);
}

static void slow_look_use(struct slow_work *w, const struct sonde_path_use *uses, uint32_t count,
                          const struct slow_use *use)
{
    const struct sonde_profile *p = w->x->p;
    struct sonde_slow_row row = { .kind = (enum sonde_path_kind)use->kind,
                                  .function = use->function, .line = use->line };
    row.type = use->kind == SONDE_PATH_COMPUTE ? SONDE_SLOW_FUNCTION : SONDE_SLOW_WAIT;
    memset(w->values, 0, w->set->count * sizeof(*w->values));
    for (uint32_t i = 0; i < count; i++) {
        if (uses[i].kind != use->kind || uses[i].function != use->function) continue;
        w->values[uses[i].item] += (double)uses[i].ns * 1e-9;
    }
    snprintf(row.name, sizeof(row.name), "%s",
             sonde_profile_str(p, p->functions[use->function].name));
    slow_look(w, &row);
}

static int slow_look_uses(struct slow_work *w)
{
    const struct sonde_path_set *set = w->set;
    const uint32_t n = set->use_count;
    struct sonde_path_use *uses = sonde__alloc(((size_t)n + 1) * sizeof(*uses));
    struct slow_use *sums = sonde__alloc(((size_t)n + 1) * sizeof(*sums));
    uint32_t count = 0;
    if (uses && sums && n) {
        memcpy(uses, set->uses, n * sizeof(*uses));
        qsort(uses, n, sizeof(*uses), slow_by_use);
        for (uint32_t i = 0; i < n; i++) {
            struct slow_use *last = count ? &sums[count - 1] : NULL;
            if (!last || last->kind != uses[i].kind || last->function != uses[i].function) {
                last = &sums[count++];
                *last = (struct slow_use){ uses[i].kind, uses[i].function, uses[i].line, 0 };
            }
            if (last->line != uses[i].line) last->line = 0;
            last->ns += uses[i].ns;
        }
        qsort(sums, count, sizeof(*sums), slow_most_first);
        const double least = USE_MIN * (double)(set->slow_ns + set->rest_ns);
        for (uint32_t i = 0; i < count && i < FUNCTIONS_MAX && (double)sums[i].ns >= least; i++) {
            slow_look_use(w, uses, n, &sums[i]);
        }
    }
    const int rc = uses && sums ? 0 : SONDE_ENOMEM;
    sonde__free(uses);
    sonde__free(sums);
    return rc;
}

/* ---- All ------------------------------------------------------------------------------------- */

static int slow_in_order(const void *a, const void *b)
{
    const struct sonde_slow_row *x = a, *y = b;
    if (x->type != y->type) return SONDE_CMP(x->type, y->type);
    if (x->type <= SONDE_SLOW_WAIT) return SONDE_CMP(fabs(y->change), fabs(x->change));
    return SONDE_CMP(fabs(y->likelihood - 0.5), fabs(x->likelihood - 0.5));
}

static int slow_keep(struct slow_work *w, struct sonde_slow *out)
{
    const int rc = sonde_stats_adjust(w->p, w->count);
    if (rc) return rc;
    out->looked_at = w->count;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        struct sonde_slow_row row = w->rows[i];
        row.p = w->p[i];
        if (!(row.p <= LEVEL) || fabs(row.likelihood - 0.5) < LIKELIHOOD_MIN) continue;
        if (fabs(row.gap_share) < GAP_MIN) continue;
        /* Where they are more often says where they are less. */
        if (row.type == SONDE_SLOW_PLACE && row.change < 0) continue;
        w->rows[kept++] = row;
    }
    qsort(w->rows, kept, sizeof(*w->rows), slow_in_order);
    out->count = kept < SONDE_SLOW_ROWS_MAX ? kept : SONDE_SLOW_ROWS_MAX;
    out->rows = w->rows;
    w->rows = NULL;
    return 0;
}

int sonde_path_slow(const struct sonde_path_index *x, const struct sonde_path_set *set,
                    struct sonde_slow *out)
{
    const uint32_t n = set->count, rest = n - set->slow_count;
    *out = (struct sonde_slow){ 0 };
    if (n < SONDE_PATH_SET_MIN || set->slow_count < SONDE_PATH_SLOW_MIN ||
        rest < SONDE_PATH_SET_MIN / 2) {
        out->why_none = "too few to tell: it takes 20 in all, 5 slow ones and 10 others";
        return 0;
    }
    struct slow_work w = { .x = x, .set = set };
    w.gap_s = ((double)set->slow_ns / set->slow_count - (double)set->rest_ns / rest) * 1e-9;
    w.values = sonde__alloc(n * sizeof(*w.values));
    w.ranks = sonde__alloc(n * sizeof(*w.ranks));
    w.order = sonde__alloc(n * sizeof(*w.order));
    w.slow = sonde__alloc(n * sizeof(*w.slow));
    w.rows = sonde__calloc(LOOKED_MAX, sizeof(*w.rows));
    w.p = sonde__alloc(LOOKED_MAX * sizeof(*w.p));
    int rc = w.values && w.ranks && w.order && w.slow && w.rows && w.p ? 0 : SONDE_ENOMEM;
    for (uint32_t i = 0, k = 0; !rc && i < n; i++) {
        if (set->items[i].slow) w.slow[k++] = i;
    }
    if (!rc) {
        slow_look_parts(&w);
        slow_look_sizes(&w);
        slow_look_places(&w);
        rc = slow_look_uses(&w);
    }
    if (!rc) rc = slow_keep(&w, out);
    sonde__free(w.values);
    sonde__free(w.ranks);
    sonde__free(w.order);
    sonde__free(w.slow);
    sonde__free(w.rows);
    sonde__free(w.p);
    return rc;
}

void sonde_slow_release(struct sonde_slow *slow)
{
    sonde__free(slow->rows);
    *slow = (struct sonde_slow){ 0 };
}
