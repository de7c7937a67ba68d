/* toy_engine.h - an engine whose every cost is known, and that leaves a recording behind: what
 * predictions are held against. Written for itself; it shares nothing with analyze/predict/simulate.c but what both are about. */
#ifndef SONDE_TESTS_TOY_ENGINE_H
#define SONDE_TESTS_TOY_ENGINE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "analyze/predict/predict.h"
#include "unit/analyze/random.h"

struct toy {
    double rate;                   /* requests per second, Poisson; 0 = all at once */
    uint32_t at_a_time;            /* a closed loop of so many, instead */
    double think_s;                /* from an end to the next arrival of that */
    uint32_t count;
    uint32_t slots, batch;
    int even;                      /* how prompts share a step */
    double step_s, prompt_s, decode_s, cell_s; /* a step, a token, a sequence, a cell */
    double bend, bend_s;           /* tokens above bend cost bend_s more each */
    double row_s, rows_until, row_late_s; /* tokens of any kind: from the second on, above so many */
    double gap_s, output_s, intake_s;
    double noise;                  /* relative, of a step */
    double slow_until_s, slow;     /* a cold start: steps are slow times as long */
    double prompt_mean, output_mean;
    uint32_t reused;               /* of every prompt, if it is longer */
    uint64_t seed;
};

/* Recorded, and what a client would have measured. */
struct toy_run {
    struct sonde_predict_observed o;
    struct sonde_predict_request *requests;
    struct sonde_predict_step *steps;
    struct sonde_predict_part *parts;
    double *ttft, *total;          /* sorted */
    double seconds, middle_rate;
    uint32_t arrived;              /* of a closed loop, so far */
};

struct toy_job { uint32_t id, done, produced; };

static int toy_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 0 … 1 in equal steps, shuffled: sizes of every run are alike, and only their order is chance. */
static double *toy_ranks(uint32_t n)
{
    double *v = calloc(n, sizeof(*v));
    for (uint32_t i = 0; i < n; i++) v[i] = (i + 0.5) / n;
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t k = (uint32_t)(random_uniform() * i);
        const double was = v[i - 1];
        v[i - 1] = v[k];
        v[k] = was;
    }
    return v;
}

/* Two humps: mostly short, some long. */
static uint32_t toy_size(double mean, double rank)
{
    const double v = rank < 0.8 ? 0.5 * mean * (0.5 + rank / 0.8)
                                : 3 * mean * (0.5 + (rank - 0.8) / 0.2);
    return 2 + (uint32_t)v;
}

static void toy_requests(const struct toy *t, struct toy_run *r)
{
    double at = 0, *in = toy_ranks(t->count), *out = toy_ranks(t->count);
    for (uint32_t i = 0; i < t->count; i++) {
        struct sonde_predict_request *q = &r->requests[i];
        q->arrived_s = at;
        q->tokens_in = toy_size(t->prompt_mean, in[i]);
        q->tokens_out = toy_size(t->output_mean, out[i]);
        q->tokens_reused = t->reused < q->tokens_in ? t->reused : 0;
        if (t->rate > 0) at -= log(random_uniform()) / t->rate;
        if (t->at_a_time && i + 1 >= t->at_a_time) at = INFINITY;
    }
    r->arrived = t->at_a_time;
    free(in);
    free(out);
}

/* Tokens of prompts in a step, one at a time to whom it is due. */
static void toy_deal(const struct toy *t, const struct toy_run *r, const struct toy_job *jobs,
                     uint32_t count, uint32_t left, uint32_t *dealt)
{
    for (uint32_t i = 0; i < count; i++) dealt[i] = 0;
    for (int any = 1; left && any;) {
        any = 0;
        for (uint32_t i = 0; i < count && left; i++) {
            const uint32_t in = r->requests[jobs[i].id].tokens_in;
            while (left && !jobs[i].produced && jobs[i].done + dealt[i] < in) {
                dealt[i]++;
                left--;
                any = 1;
                if (t->even) break;
            }
        }
    }
}

static double toy_cost(const struct toy *t, double now, double prompt, double decode, double cells)
{
    double s = t->step_s + t->prompt_s * prompt + t->decode_s * decode + t->cell_s * cells;
    if (prompt > t->bend && t->bend_s > 0) s += t->bend_s * (prompt - t->bend);
    const double rows = fmax(prompt + decode - 1, 0), many = fmax(rows + 1 - t->rows_until, 0);
    s += t->row_s * (rows - many) + t->row_late_s * many;
    s *= exp(t->noise * random_normal() - t->noise * t->noise / 2);
    return now < t->slow_until_s ? s * t->slow : s;
}

static void toy_finish(const struct toy *t, struct toy_run *r, double *ends)
{
    for (uint32_t i = 0; i < t->count; i++) {
        r->ttft[i] = r->requests[i].ttft_s;
        r->total[i] = r->requests[i].total_s;
        ends[i] = r->requests[i].arrived_s + r->requests[i].total_s;
    }
    qsort(r->ttft, t->count, sizeof(double), toy_order);
    qsort(r->total, t->count, sizeof(double), toy_order);
    qsort(ends, t->count, sizeof(double), toy_order);
    const uint32_t low = t->count / 10, high = t->count - t->count / 10 - 1;
    r->middle_rate = (high - low) / (ends[high] - ends[low]);
    r->seconds = ends[t->count - 1];
    r->o.requests = r->requests;
    r->o.steps = r->steps;
    r->o.parts = r->parts;
    r->o.request_count = t->count;
    r->o.share = -1;
}

/* One step of all that run: recorded, and its time is passed. */
static double toy_step(const struct toy *t, struct toy_run *r, struct toy_job *jobs,
                       uint32_t *running, double now)
{
    uint32_t dealt[64], decodes = 0, kept = 0;
    double prompt = 0, cells = 0;
    for (uint32_t i = 0; i < *running; i++) decodes += jobs[i].produced != 0;
    toy_deal(t, r, jobs, *running, t->batch - decodes, dealt);
    struct sonde_predict_step *s = &r->steps[r->o.step_count++];
    *s = (struct sonde_predict_step){ .start_s = now, .part = r->o.part_count };
    for (uint32_t i = 0; i < *running; i++) {
        for (uint32_t k = 0; k < dealt[i]; k++) cells += jobs[i].done + k + 1;
        if (jobs[i].produced) cells += jobs[i].done + 1;
        prompt += dealt[i];
        if (!dealt[i] && !jobs[i].produced) continue;
        r->parts[r->o.part_count++] = (struct sonde_predict_part){ jobs[i].id, dealt[i],
                                                                   jobs[i].produced != 0 };
    }
    s->part_count = r->o.part_count - s->part;
    now += toy_cost(t, now, prompt, decodes, cells);
    s->end_s = now;
    now += t->gap_s;
    for (uint32_t i = 0; i < *running; i++) {
        struct toy_job j = jobs[i];
        struct sonde_predict_request *q = &r->requests[j.id];
        j.done += j.produced ? 1 : dealt[i];
        if (j.done >= q->tokens_in) {
            now += t->output_s;
            if (!j.produced++) q->ttft_s = now - q->arrived_s;
            q->total_s = now - q->arrived_s;
        }
        if (j.produced < q->tokens_out) jobs[kept++] = j;
        else if (t->at_a_time && r->arrived < t->count) {
            r->requests[r->arrived++].arrived_s = now + t->think_s;
        }
    }
    *running = kept;
    return now;
}

static struct toy_run toy_run(const struct toy *t)
{
    struct toy_run r = { .seconds = 0 };
    struct toy_job jobs[64];
    uint32_t running = 0, next = 0, tokens = 0;
    double now = 0;
    random_state = t->seed;
    r.requests = calloc(t->count, sizeof(*r.requests));
    r.ttft = calloc(t->count, sizeof(double));
    r.total = calloc(t->count, sizeof(double));
    double *ends = calloc(t->count, sizeof(double));
    toy_requests(t, &r);
    for (uint32_t i = 0; i < t->count; i++) {
        tokens += r.requests[i].tokens_out + r.requests[i].tokens_in / 8 + 8;
    }
    r.steps = calloc(tokens, sizeof(*r.steps));
    r.parts = calloc((size_t)tokens * 4, sizeof(*r.parts));
    while (next < t->count || running) {
        if (!running && r.requests[next].arrived_s + t->intake_s > now) {
            now = r.requests[next].arrived_s + t->intake_s;
        }
        while (running < t->slots && next < t->count &&
               r.requests[next].arrived_s + t->intake_s <= now) {
            jobs[running++] = (struct toy_job){ next, r.requests[next].tokens_reused, 0 };
            next++;
        }
        now = toy_step(t, &r, jobs, &running, now);
    }
    toy_finish(t, &r, ends);
    free(ends);
    return r;
}

static void toy_release(struct toy_run *r)
{
    free(r->requests);
    free(r->steps);
    free(r->parts);
    free(r->ttft);
    free(r->total);
}

static inline double toy_quantile(const double *v, uint32_t n, double q)
{
    return v[(uint32_t)(q * (n - 1))];
}

#endif
