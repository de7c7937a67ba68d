/* look.c - what a recording says of the scheduler without being told: how many slots there are, how
 * many tokens fit in a step, who gets them; and how requests arrive. Whatever it does not say stays
 * unknown: at low load nobody ever waited for a slot, so how many there are cannot be seen. */
#include <math.h>

#include "analyze/predict/private.h"

enum { WAITS_MIN = 5, CUTS_MIN = 3 };
#define WAIT_LEAST_S 1e-4     /* beside twice the usual time of handing over */
#define CLOSED_RATIO 0.5      /* so many arrivals just behind a completion are no chance */
#define CLOSED_NEAR 0.2       /* of the mean gap: by chance one arrival in five is as near */

int predict_part_cut(const struct sonde_predict_request *r, uint32_t computed_after)
{
    return computed_after < r->tokens_in;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* Requests that were there before a step, for longer than handing over takes, and were in none
 * until later: they waited for a slot. That is sure of steps without any prompt only: in others
 * they may have a slot, and no room in the batch. If it was so only where as many as ever decode,
 * that many slots there are. */
static uint32_t predict_look_slots(const struct predict_observation *b,
                                   const struct sonde_predict_facts *f)
{
    const struct sonde_predict_observed *o = b->o;
    uint32_t most = 0, arrived = 0, begun = 0, full = 0, less = 0;
    for (uint32_t i = 0; i < o->step_count; i++) {
        if (b->work[i].members > most) most = b->work[i].members;
    }
    for (uint32_t i = 0; i < o->step_count; i++) {
        const double start = o->steps[i].start_s;
        while (arrived < o->request_count &&
               o->requests[arrived].arrived_s + WAIT_LEAST_S +
                   2 * (f->intake_s + f->intake_token_s * o->requests[arrived].tokens_in) < start) {
            arrived++;
        }
        for (uint32_t k = 0; k < o->steps[i].part_count; k++) {
            const uint32_t r = o->parts[o->steps[i].part + k].request;
            if (r != UINT32_MAX && b->seen[r].first_step == i) begun++;
        }
        if (arrived <= begun || b->work[i].prompt > 0 || b->unknown[i]) continue;
        if (b->work[i].members == most) full++;
        else less++;
    }
    return full >= WAITS_MIN && less * 10 <= full ? most : 0;
}

/* ---- The batch ------------------------------------------------------------------------------- */

/* Prompts are cut where the step is full: then its tokens are the limit. */
static void predict_look_batch(const struct predict_observation *b, uint32_t *limit, int *even)
{
    const struct sonde_predict_observed *o = b->o;
    uint32_t cuts = 0, at_most = 0, most = 0, shared = 0;
    for (uint32_t r = 0; r < o->request_count; r++) {
        b->seen[r].computed = o->requests[r].tokens_reused;
    }
    for (uint32_t i = 0; i < o->step_count; i++) {
        uint32_t tokens = 0, cut = 0, younger = 0;
        double cut_s = INFINITY;
        for (uint32_t k = 0; k < o->steps[i].part_count; k++) {
            const struct sonde_predict_part *p = &o->parts[o->steps[i].part + k];
            tokens += p->prompt + p->output;
            if (p->request == UINT32_MAX) continue;
            b->seen[p->request].computed += p->prompt + p->output;
            if (p->prompt && predict_part_cut(&o->requests[p->request],
                                              b->seen[p->request].computed)) {
                cut = 1;
                cut_s = fmin(cut_s, o->requests[p->request].arrived_s);
            }
        }
        for (uint32_t k = 0; cut && k < o->steps[i].part_count; k++) {
            const struct sonde_predict_part *p = &o->parts[o->steps[i].part + k];
            younger += p->prompt && p->request != UINT32_MAX &&
                       o->requests[p->request].arrived_s > cut_s;
        }
        cuts += cut;
        shared += younger != 0;
        if (tokens > most) {
            most = tokens;
            at_most = 0;
        }
        at_most += cut && tokens == most;
    }
    *even = shared != 0; /* in order, nobody behind one that was cut would have got any */
    *limit = cuts >= CUTS_MIN && at_most * 2 >= cuts ? most : 0;
}

/* ---- Arrivals -------------------------------------------------------------------------------- */

/* Requests at a time of a closed loop: the median over arrivals of those under way. More are only
 * for the moment in which one has ended here and not yet there. */
static uint32_t predict_look_concurrency(const struct sonde_predict_observed *o)
{
    enum { UNDER_WAY_MAX = 1024 };
    uint32_t counts[UNDER_WAY_MAX + 1] = { 0 }, below = 0, k = 0;
    for (uint32_t i = 0; i < o->request_count; i++) {
        uint32_t under_way = 1;
        for (uint32_t j = i, looked = 0; j-- > 0 && looked < UNDER_WAY_MAX - 1; looked++) {
            under_way += o->requests[j].arrived_s + o->requests[j].total_s >
                         o->requests[i].arrived_s;
        }
        counts[under_way]++;
    }
    for (; k < UNDER_WAY_MAX && 2 * (below += counts[k]) < o->request_count; k++) continue;
    return k;
}

static void predict_look_arrivals(const struct predict_observation *b,
                                  struct sonde_predict_facts *facts)
{
    const struct sonde_predict_observed *o = b->o;
    double sum = 0, squares = 0;
    uint32_t near = 0;
    for (uint32_t i = 1; i < o->request_count; i++) {
        const double gap = o->requests[i].arrived_s - o->requests[i - 1].arrived_s;
        sum += gap;
        squares += gap * gap;
    }
    const double n = o->request_count - 1, mean = sum / n;
    facts->burstiness = mean > 0 ? sqrt(fmax(squares / n - mean * mean, 0)) / mean : 0;
    /* Quadratic in principle; requests that are under way together are few. */
    for (uint32_t i = 1; i < o->request_count; i++) {
        const double at = o->requests[i].arrived_s;
        int follows = 0;
        for (uint32_t k = i, looked = 0; k-- > 0 && looked < 512 && !follows; looked++) {
            const double end = o->requests[k].arrived_s + o->requests[k].total_s;
            follows = end <= at && at - end < CLOSED_NEAR * mean;
        }
        near += (uint32_t)follows;
    }
    facts->closed_loop = o->concurrency || near > CLOSED_RATIO * n;
    if (!facts->closed_loop) return;
    facts->concurrency = o->concurrency ? o->concurrency : predict_look_concurrency(o);
    /* Little's law: what is at the server is rate times time there; the rest is on its way. */
    double total = 0;
    for (uint32_t i = 0; i < o->request_count; i++) total += o->requests[i].total_s;
    facts->think_s = fmax(0, facts->concurrency * mean - total / o->request_count);
}

void predict_look(const struct predict_observation *b, struct sonde_predict_facts *facts)
{
    const struct sonde_predict_observed *o = b->o;
    uint32_t limit;
    int even;
    predict_look_batch(b, &limit, &even);
    facts->slots = o->slots ? o->slots : predict_look_slots(b, facts);
    facts->batch_tokens = o->batch_tokens ? o->batch_tokens : limit;
    facts->share = o->share >= 0 ? (enum sonde_predict_share)o->share
                   : even        ? SONDE_PREDICT_EVEN : SONDE_PREDICT_FIRST;
    predict_look_arrivals(b, facts);
    for (uint32_t i = b->cold; i < o->step_count; i++) {
        const struct predict_work *w = &b->work[i];
        const uint32_t decode = (uint32_t)w->decode, tokens = (uint32_t)(w->decode + w->prompt);
        if (b->unknown[i]) continue;
        if (decode > facts->decode_max) facts->decode_max = decode;
        if (tokens > facts->step_tokens_max) facts->step_tokens_max = tokens;
        if (w->context_max > facts->context_max) facts->context_max = w->context_max;
    }
    for (uint32_t i = 0; i < o->request_count; i++) {
        if (o->requests[i].tokens_in > facts->prompt_max) {
            facts->prompt_max = o->requests[i].tokens_in;
        }
    }
}
