/* sampler.c - choosing the next token.
 *
 *   logits ─▶ candidates: the top_k best, or all ─▶ sorted as far as needed ─▶ min_p, top_p ─▶ draw
 *
 * Best = larger logit, of equal ones the lower token: so the order is total, and the choice depends
 * on nothing but logits, parameters and seed. What is not a number is never best; +inf is. A whole
 * sort of a vocabulary takes milliseconds: candidates are instead kept in a heap, of which the best
 * k are kept (top_k) or as many taken as top_p needs.
 *
 * The order of filters is llama.cpp's: top_k, top_p and min_p on probabilities at temperature 1,
 * the temperature last. */
#include "model/sampler.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

struct sampler_candidate { float logit; int32_t token; };

struct sampler_scratch {
    uint32_t vocab;
    struct sampler_candidate *heap; /* of all, or of the best k */
    struct sampler_candidate *best; /* in order */
    double *weight;                 /* of best */
};

/* ---- Random numbers: xoshiro256** (Blackman, Vigna), seeded by splitmix64 -------------------- */

static uint64_t seed_mix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int by) { return x << by | x >> (64 - by); }

static uint64_t sampler_random(struct sampler *s)
{
    uint64_t *x = s->state;
    const uint64_t out = rotate_left(x[1] * 5, 7) * 9, t = x[1] << 17;
    x[2] ^= x[0];
    x[3] ^= x[1];
    x[1] ^= x[2];
    x[0] ^= x[3];
    x[2] ^= t;
    x[3] = rotate_left(x[3], 45);
    return out;
}

void sampler_init(struct sampler *s, const struct sampler_params *params)
{
    s->params = *params;
    uint64_t seed = params->seed;
    for (int i = 0; i < 4; i++) s->state[i] = seed_mix(&seed);
}

struct sampler_scratch *sampler_scratch_create(uint32_t vocab)
{
    struct sampler_scratch *x = calloc(1, sizeof(*x));
    if (!x) return NULL;
    x->vocab = vocab;
    x->heap = malloc(vocab * sizeof(*x->heap));
    x->best = malloc(vocab * sizeof(*x->best));
    x->weight = malloc(vocab * sizeof(*x->weight));
    if (x->heap && x->best && x->weight) return x;
    sampler_scratch_destroy(x);
    return NULL;
}

void sampler_scratch_destroy(struct sampler_scratch *x)
{
    if (!x) return;
    free(x->heap);
    free(x->best);
    free(x->weight);
    free(x);
}

/* ---- Candidates ------------------------------------------------------------------------------ */

static float logit_clean(float logit) { return isnan(logit) ? -INFINITY : logit; }

static int candidate_better(struct sampler_candidate a, struct sampler_candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

/* heap[at] may be out of order; sign 1: the best is on top, −1: the worst. */
static void heap_sink(struct sampler_candidate *heap, uint32_t count, uint32_t at, int sign)
{
    const struct sampler_candidate moved = heap[at];
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && candidate_better(heap[child + 1], heap[child]) == (sign > 0)) {
            child++;
        }
        if (candidate_better(heap[child], moved) != (sign > 0)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void heap_make(struct sampler_candidate *heap, uint32_t count, int sign)
{
    for (uint32_t i = count / 2; i-- > 0;) heap_sink(heap, count, i, sign);
}

static struct sampler_candidate heap_take(struct sampler_candidate *heap, uint32_t *count, int sign)
{
    const struct sampler_candidate top = heap[0];
    heap[0] = heap[--*count];
    if (*count) heap_sink(heap, *count, 0, sign);
    return top;
}

/* The best k into heap, best on top: a heap of k with the worst on top that a better one
 * replaces. */
static void candidates_best(struct sampler_candidate *heap, const float *logits, uint32_t vocab,
                            uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) {
        heap[i] = (struct sampler_candidate){ logit_clean(logits[i]), (int32_t)i };
    }
    if (k < vocab) heap_make(heap, k, -1);
    for (uint32_t i = k; i < vocab; i++) {
        if (!(logits[i] > heap[0].logit)) continue; /* an equal one has a higher token */
        heap[0] = (struct sampler_candidate){ logits[i], (int32_t)i };
        heap_sink(heap, k, 0, -1);
    }
    heap_make(heap, k, 1);
}

static int32_t token_greedy(const float *logits, uint32_t vocab)
{
    uint32_t best = 0;
    float most = logit_clean(logits[0]);
    for (uint32_t i = 1; i < vocab; i++) {
        if (!(logits[i] > most)) continue;
        best = i;
        most = logits[i];
    }
    return (int32_t)best;
}

/* exp(logit − most), with infinities: of those that are +inf each has the same weight. */
static double candidate_weight(float logit, float most, double temperature)
{
    if (logit == most) return 1;
    if (isinf(most)) return 0;
    return exp(((double)logit - (double)most) / temperature);
}

/* The number of candidates that top_p and min_p leave, moved to best in order. */
static uint32_t candidates_filter(const struct sampler *s, struct sampler_scratch *x,
                                  uint32_t count)
{
    const struct sampler_params *p = &s->params;
    const float most = x->heap[0].logit;
    double total = 0;
    for (uint32_t i = 0; i < count; i++) total += candidate_weight(x->heap[i].logit, most, 1);

    uint32_t kept = 0;
    for (double sum = 0; count > 0;) {
        const struct sampler_candidate c = heap_take(x->heap, &count, 1);
        const double weight = candidate_weight(c.logit, most, 1);
        if (kept && weight < (double)p->min_p) break;
        x->best[kept++] = c;
        sum += weight;
        if (p->top_p < 1 && sum >= (double)p->top_p * total) break;
    }
    return kept;
}

int32_t sampler_choose(struct sampler *s, struct sampler_scratch *x, const float *logits,
                       uint32_t vocab)
{
    assert(vocab > 0);
    const struct sampler_params *p = &s->params;
    if (!(p->temperature > 0)) return token_greedy(logits, vocab);
    assert(vocab <= x->vocab);

    uint32_t count = p->top_k && p->top_k < vocab ? p->top_k : vocab;
    candidates_best(x->heap, logits, vocab, count);
    const float most = x->heap[0].logit;
    const struct sampler_candidate *candidates = x->heap;
    if (p->top_p < 1 || p->min_p > 0) {
        count = candidates_filter(s, x, count);
        candidates = x->best;
    }

    double total = 0;
    for (uint32_t i = 0; i < count; i++) {
        x->weight[i] = candidate_weight(candidates[i].logit, most, (double)p->temperature);
        total += x->weight[i];
    }
    double left = (double)(sampler_random(s) >> 11) * 0x1p-53 * total;
    uint32_t i = 0;
    while (i + 1 < count && left >= x->weight[i]) left -= x->weight[i++];
    /* What rounding left over goes to one that may be drawn. */
    while (i > 0 && x->weight[i] <= 0) i--;
    return candidates[i].token;
}
