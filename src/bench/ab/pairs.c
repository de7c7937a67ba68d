/* pairs.c - see pairs.h. */
#include "bench/ab/pairs.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/random.h"
#include "sonde/sonde.h"

const char *sonde_pairs_end_name(enum sonde_pairs_end e)
{
    static const char *const names[] = {
        [SONDE_PAIRS_DECIDED] = "decided",
        [SONDE_PAIRS_MAX_PAIRS] = "as many pairs as --max-runs allows",
        [SONDE_PAIRS_MAX_TIME] = "as long as --max-time allows",
        [SONDE_PAIRS_INTERRUPTED] = "interrupted",
    };
    return names[e];
}

void sonde_pairs_release(struct sonde_pairs *p)
{
    sonde__free(p->values[0]);
    sonde__free(p->values[1]);
    sonde__free(p->b_first);
    memset(p, 0, sizeof(*p));
}

/* Room for one more pair. */
static int pairs_room(struct sonde_pairs *p)
{
    const size_t count = p->o->figure_count;
    for (int arm = 0; arm < 2; arm++) {
        while (p->cap[arm] < (p->pairs + 1) * count) {
            const size_t cap = p->cap[arm] ? 2 * p->cap[arm] : 16 * count;
            double *grown = sonde__realloc(p->values[arm], cap * sizeof(*grown));
            if (!grown) return SONDE_ENOMEM;
            p->values[arm] = grown;
            p->cap[arm] = cap;
        }
    }
    return SONDE_ARRAY_ROOM(p->b_first, p->pairs, p->cap[2]);
}

/* One pair; 0, 1 = interrupted, or an error. */
static int pairs_take(struct sonde_pairs *p, uint64_t *seed, int counted, struct sonde_err *err)
{
    const struct sonde_pairs_options *o = p->o;
    double values[2][SONDE_PAIRS_FIGURES_MAX];
    const int b_first = sonde_random_u64(seed) >> 63 != 0;
    for (int i = 0; i < 2; i++) {
        const int arm = i ^ b_first;
        const int rc = o->measure(o->measure_arg, arm, values[arm], err);
        if (rc) return rc;
    }
    if (!counted) return 0;
    if (pairs_room(p)) return sonde_err_memory(err);
    for (size_t f = 0; f < o->figure_count; f++) {
        sonde_sequential_add(&p->tests[f], values[0][f], values[1][f]);
        p->values[0][p->pairs * o->figure_count + f] = values[0][f];
        p->values[1][p->pairs * o->figure_count + f] = values[1][f];
    }
    p->b_first[p->pairs++] = (uint8_t)b_first;
    return 0;
}

static void pairs_progress(const struct sonde_pairs *p)
{
    const struct sonde_pairs_options *o = p->o;
    char state[96], low[SONDE_BENCH_VALUE_BYTES], high[SONDE_BENCH_VALUE_BYTES];
    if (!o->progress) return;
    const struct sonde_sequential_look look = sonde_sequential_look(&p->tests[o->lead]);
    double share = (double)p->pairs / (double)o->pairs_max;
    if (o->time_max_s > 0) share = fmax(share, p->elapsed_s / o->time_max_s);
    const double n = (double)p->pairs;
    if (!isnan(look.more)) share = fmax(share, n / (n + look.more));
    snprintf(state, sizeof(state), "pair %zu, change %s to %s", p->pairs,
             sonde_bench_percent_format(low, look.relative_low, 1),
             sonde_bench_percent_format(high, look.relative_high, 1));
    o->progress(o->progress_arg, fmin(share, 0.99), state);
}

int sonde_pairs_run(const struct sonde_pairs_options *o, struct sonde_pairs *out,
                    struct sonde_err *err)
{
    assert(o->figure_count && o->figure_count <= SONDE_PAIRS_FIGURES_MAX);
    assert(o->lead < o->figure_count && o->pairs_max && o->pairs_max <= SONDE_PAIRS_MAX);
    struct sonde_pairs *p = out;
    memset(p, 0, sizeof(*p));
    p->o = o;
    for (size_t f = 0; f < o->figure_count; f++) {
        const struct sonde_sequential_options s = { .better = o->figures[f].better, .drawn = 1,
                                                    .detect = o->detect };
        sonde_sequential_init(&p->tests[f], &s);
    }
    uint64_t seed = o->seed;
    int rc = 0;
    for (uint64_t i = 0; i < o->warmup && !rc; i++) rc = pairs_take(p, &seed, 0, err);
    const double begin_s = sonde_clock_s(CLOCK_MONOTONIC);
    p->end = SONDE_PAIRS_MAX_PAIRS;
    while (!rc && p->pairs < o->pairs_max) {
        if (o->time_max_s > 0 && p->elapsed_s >= o->time_max_s) {
            p->end = SONDE_PAIRS_MAX_TIME;
            break;
        }
        rc = pairs_take(p, &seed, 1, err);
        p->elapsed_s = sonde_clock_s(CLOCK_MONOTONIC) - begin_s;
        if (rc) break;
        if (sonde_sequential_decide(&p->tests[o->lead]) != SONDE_SEQUENTIAL_UNDECIDED) {
            p->end = SONDE_PAIRS_DECIDED;
            break;
        }
        pairs_progress(p);
    }
    if (rc == 1) p->end = SONDE_PAIRS_INTERRUPTED;
    if (rc < 0) sonde_pairs_release(p);
    return rc < 0 ? rc : 0;
}
