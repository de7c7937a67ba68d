/* compare_functions.c - functions, by themselves and with what they call.
 *
 * Names of all runs go to one pool, so a name's id is the function, whichever run it is of, and its
 * weights are a row of numbers, one for each part of both sides. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/compare_private.h"
#include "base/alloc.h"
#include "base/cmp.h"
#include "profile/tree/frame.h"
#include "profile/heap.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"

/* Functions below this share of both sides are not looked at: with a handful of samples nothing can
 * be said, and each one that is looked at makes it harder for the others. */
#define SHARE_MIN 0.001

struct function {
    double *self[2], *total[2]; /* by part; one block, self[0] is its start; NULL = not seen */
    double self_square[2], total_square[2]; /* sum of squares of the weights of single samples */
    uint64_t stamp;             /* the last sample that it was counted for */
    uint64_t self_sum[2], total_sum[2]; /* of all samples, also of those that are in no part */
    uint32_t row;               /* in the comparison's table */
    struct sonde_frame frame;   /* the first that was seen, after rather than before */
    int8_t side;                /* that it is of, + 1; 0 = none yet */
};

struct function_work {
    struct function *rows;  /* by name */
    uint32_t count;
    uint64_t stamp;
    double *whole[2];       /* by part: all weight */
    double all[2], samples[2];
    int matched[2];         /* some sample passes */
};

static int compare_in_bytes(const struct cmp *c)
{
    return sonde_sample_kind_is_bytes((enum sonde_sample_kind)c->out->kind);
}

static int compare_function_grow(struct function_work *w, uint32_t count)
{
    if (count <= w->count) return 0;
    struct function *rows = sonde__realloc(w->rows, (size_t)count * sizeof(*rows));
    if (!rows) return SONDE_ENOMEM;
    memset(rows + w->count, 0, (size_t)(count - w->count) * sizeof(*rows));
    w->rows = rows;
    w->count = count;
    return 0;
}

static struct function *compare_function_row(const struct cmp *c, struct function_work *w,
                                             uint32_t name)
{
    struct function *f = &w->rows[name];
    if (f->self[0]) return f;
    const size_t a = c->side[0].n, b = c->side[1].n;
    double *block = sonde__calloc(2 * (a + b), sizeof(*block));
    if (!block) return NULL;
    f->self[0] = block;
    f->self[1] = block + a;
    f->total[0] = block + a + b;
    f->total[1] = block + 2 * a + b;
    return f;
}

/* Weights of one sample fit (profile.h); those of several runs need not. */
static void compare_function_sum(uint64_t *sum, uint64_t weight)
{
    if (__builtin_add_overflow(*sum, weight, sum)) *sum = UINT64_MAX;
}

/* part may be CMP_NO_PART: then it counts for the table, and for no figure. */
static int compare_function_add_sample(const struct cmp *c, struct function_work *w, int side,
                                       uint32_t part, const struct sonde_profile_sample *s,
                                       const struct sonde_frames *frames,
                                       const struct sonde_frame_path *path)
{
    const double weight = part != CMP_NO_PART ? (double)s->weight : 0;
    const double square = s->count ? weight * weight / s->count : 0;
    const uint32_t at = part != CMP_NO_PART ? part : 0;
    if (part != CMP_NO_PART) {
        w->whole[side][part] += weight;
        w->all[side] += weight;
        w->samples[side] += s->count;
    }
    compare_function_sum(&c->out->weights[side], s->weight);
    w->stamp++;
    for (uint32_t i = 0; i < path->count; i++) {
        const struct sonde_frame *frame = &frames->rows[path->rows[i]];
        if (frame->flags & SONDE_NODE_TRUNCATED) continue;
        struct function *f = compare_function_row(c, w, frame->name);
        if (!f) return SONDE_ENOMEM;
        if (f->side <= side) {
            f->frame = *frame;
            f->side = (int8_t)(side + 1);
        }
        if (i + 1 == path->count) {
            f->self[side][at] += weight;
            f->self_square[side] += square;
            compare_function_sum(&f->self_sum[side], s->weight);
        }
        if (f->stamp == w->stamp) continue; /* it called itself */
        f->stamp = w->stamp;
        f->total[side][at] += weight;
        f->total_square[side] += square;
        compare_function_sum(&f->total_sum[side], s->weight);
    }
    return 0;
}

static int compare_function_add_run(struct cmp *c, struct function_work *w, int side, size_t run)
{
    const struct sonde_profile *p = c->side[side].runs[run].profile;
    struct sonde_profile_filter filter = c->side[side].runs[run].filter;
    struct sonde_profile_match *match;
    struct sonde_frames frames = { 0 };
    struct sonde_frame_path path = { 0 };
    filter.kind = c->out->kind;
    int rc = sonde_profile_match_create(p, &filter, &match, c->err);
    if (rc) return rc;
    rc = sonde_frames_create(&frames, p, &c->out->texts->pool, &c->budget);
    if (!rc) rc = compare_function_grow(w, c->out->texts->pool.count);
    for (uint32_t i = 0; i < p->samples_count && !rc; i++) {
        if (!sonde_profile_matches(match, i)) continue;
        /* Memory is as it was at the end: of no time. */
        const uint32_t part = compare_in_bytes(c) ? (uint32_t)run * c->side[side].per_run
                                                  : cmp_part(c, side, run, p->samples[i].time_ns);
        w->matched[side] = 1;
        if (!p->samples[i].weight && !p->samples[i].count) continue;
        rc = sonde_frame_path_set(&path, &frames, p, &p->samples[i]);
        if (!rc) rc = compare_function_add_sample(c, w, side, part, &p->samples[i], &frames, &path);
    }
    sonde_frame_path_release(&path);
    sonde_frames_release(&frames);
    sonde_profile_match_destroy(match);
    return rc;
}

/* ---- Figures --------------------------------------------------------------------------------- */

/* Of heaps in single runs: what sampling leaves open, as compare_measures.c says. */
static double heap_variance(const struct cmp *c, int side, double bytes)
{
    const struct sonde_heap *h = c->side[side].runs[0].profile->heap;
    if (!h) return INFINITY;
    return h->full ? 0 : bytes * (double)h->mean + (double)h->mean * (double)h->mean;
}

/* y by the whole, or by what the basis counts, in seconds or the kind's unit. */
static struct sonde_estimate of_function(const struct cmp *c, const struct function_work *w,
                                         int side, const double *y, double square)
{
    const struct cmp_side *s = &c->side[side];
    const int share = c->out->basis == SONDE_BASIS_SHARE;
    const double *x = share ? w->whole[side] : cmp_basis(c, side);
    double sum_x = 0, sum_y = 0;
    for (size_t i = 0; i < s->n; i++) {
        sum_x += x[i];
        sum_y += y[i];
    }
    if (!(sum_x > 0)) return (struct sonde_estimate){ NAN, INFINITY, INFINITY, 1 };
    if (compare_in_bytes(c) && !c->out->by_runs) {
        if (c->out->basis == SONDE_BASIS_RUN) sum_x = (double)s->run_count;
        const double se = sqrt(heap_variance(c, side, sum_y)) / sum_x;
        return (struct sonde_estimate){ sum_y / sum_x, se, se, INFINITY };
    }
    /* That samples hit a function is a matter of chance even if the program always does the same:
     * a binomial count, and one sample more or less. */
    const double part = w->all[side] > 0 ? sum_y / w->all[side] : 0;
    const double one = w->samples[side] > 0 ? w->all[side] / w->samples[side] : 0;
    const double least = (square * (1 - part) + one * one) / (sum_x * sum_x);
    struct sonde_estimate e = cmp_ratio(c, side, y, x, least);
    const int ns = sonde_sample_kind_is_time((enum sonde_sample_kind)c->out->kind);
    const double scale = ns && !share ? 1e-9 : 1;
    e.value *= scale;
    e.se_low *= scale;
    e.se_high *= scale;
    return e;
}

static const char *compare_unit(const struct cmp *c)
{
    if (c->out->basis == SONDE_BASIS_SHARE) return "ratio";
    if (sonde_sample_kind_is_time((enum sonde_sample_kind)c->out->kind)) {
        return c->out->basis == SONDE_BASIS_SECOND ? "cpus" : "seconds";
    }
    if (compare_in_bytes(c)) {
        return c->out->basis == SONDE_BASIS_SECOND ? "bytes per second" : "bytes";
    }
    return c->out->basis == SONDE_BASIS_SECOND ? "per second" : "count";
}

static int compare_function_add(struct cmp *c, const struct function_work *w, uint32_t name,
                                const struct sonde_estimate whole[2])
{
    const struct function *f = &w->rows[name];
    struct sonde_comparison *out = c->out;
    const char *text = out->texts->pool.strings[name];
    const int less = c->out->basis == SONDE_BASIS_SHARE || c->out->basis == SONDE_BASIS_SECOND;
    const struct cmp_measure measures[2] = {
        { "self", "by itself", compare_unit(c), SONDE_MEASURE_FUNCTIONS, less ? 0 : -1, 1 },
        { "total", "with what it calls", compare_unit(c), SONDE_MEASURE_FUNCTIONS, less ? 0 : -1,
          1 },
    };
    int rc = 0;
    for (int i = 0; i < 2 && !rc; i++) {
        struct sonde_estimate e[2];
        for (int side = 0; side < 2; side++) {
            e[side] = of_function(c, w, side, i ? f->total[side] : f->self[side],
                                  i ? f->total_square[side] : f->self_square[side]);
        }
        if (e[0].value < SHARE_MIN * whole[0].value && e[1].value < SHARE_MIN * whole[1].value) {
            continue;
        }
        const size_t had = out->count;
        rc = cmp_add(c, &measures[i], text, fmax(e[0].value, e[1].value), e);
        if (out->count > had) out->figures[had].function = f->row;
    }
    return rc;
}

static int by_weight(const void *a, const void *b)
{
    const struct sonde_compare_measure *x = a, *y = b;
    if (x->weight != y->weight) return SONDE_CMP(y->weight, x->weight);
    const int order = strcmp(x->subject, y->subject);
    return order ? order : strcmp(x->measure, y->measure);
}

static int add_functions(struct cmp *c, const struct function_work *w)
{
    struct sonde_comparison *out = c->out;
    struct sonde_estimate whole[2];
    for (int side = 0; side < 2; side++) {
        whole[side] = of_function(c, w, side, w->whole[side], 0);
        out->whole[side] = whole[side].value;
    }
    const size_t first = out->count;
    int rc = 0;
    for (uint32_t i = 1; i < w->count && !rc; i++) {
        if (w->rows[i].self[0]) rc = compare_function_add(c, w, i, whole);
    }
    if (out->count > first) {
        qsort(out->figures + first, out->count - first, sizeof(*out->figures), by_weight);
    }
    return rc;
}

/* ---- The table ------------------------------------------------------------------------------- */

static int compare_function_table(struct cmp *c, struct function_work *w)
{
    struct sonde_comparison *out = c->out;
    char *const *strings = out->texts->pool.strings;
    size_t count = 0;
    for (uint32_t i = 1; i < w->count; i++) count += w->rows[i].self[0] != NULL;
    out->functions = sonde__calloc(count ? count : 1, sizeof(*out->functions));
    if (!out->functions) return SONDE_ENOMEM;
    for (uint32_t i = 1; i < w->count; i++) {
        struct function *f = &w->rows[i];
        if (!f->self[0]) continue;
        f->row = (uint32_t)out->function_count;
        out->functions[out->function_count++] = (struct sonde_compare_function){
            .name = strings[i], .module = strings[f->frame.module],
            .file = strings[f->frame.file], .line = f->frame.line,
            .self = { f->self_sum[0], f->self_sum[1] },
            .total = { f->total_sum[0], f->total_sum[1] },
        };
    }
    assert(out->function_count == count);
    return 0;
}

void cmp_functions_link(struct sonde_comparison *out)
{
    assert(!out->function_count || out->functions);
    for (size_t i = 0; i < out->count; i++) {
        const struct sonde_compare_measure *f = &out->figures[i];
        if (f->group != SONDE_MEASURE_FUNCTIONS || f->verdict == SONDE_VERDICT_UNKNOWN) continue;
        assert(f->function < out->function_count);
        struct sonde_compare_function *row = &out->functions[f->function];
        if (!strcmp(f->measure, "self")) row->self_measure = f;
        else row->total_measure = f;
    }
}

int cmp_functions(struct cmp *c)
{
    struct function_work w = { 0 };
    int rc = 0;
    for (int side = 0; side < 2; side++) {
        w.whole[side] = sonde__calloc(c->side[side].n, sizeof(double));
        if (!w.whole[side]) rc = SONDE_ENOMEM;
    }
    for (int side = 0; side < 2; side++) {
        for (size_t run = 0; run < c->side[side].run_count && !rc; run++) {
            rc = compare_function_add_run(c, &w, side, run);
        }
    }
    if (!rc && w.matched[0] && w.matched[1]) rc = compare_function_table(c, &w);
    if (!rc && w.all[0] > 0 && w.all[1] > 0) rc = add_functions(c, &w);
    for (uint32_t i = 0; i < w.count; i++) sonde__free(w.rows[i].self[0]);
    sonde__free(w.rows);
    sonde__free(w.whole[0]);
    sonde__free(w.whole[1]);
    return rc;
}
