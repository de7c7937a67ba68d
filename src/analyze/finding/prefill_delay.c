/* prefill_delay.c - see prefill_delay.h. */
#include "analyze/finding/prefill_delay.h"

#include <math.h>

enum { REQUESTS_MIN = 3, PASSES_MIN = 5 };
#define INFO_SHARE 0.10
#define WARNING_SHARE 0.25
#define CHUNK_STEPS 2.0 /* a pass with a part of a prompt may take so many times one without */

static void prefill_delay_count(struct finding_prefill_delay *d, double cost, uint64_t chunk)
{
    d->delay_s += cost;
    d->passes++;
    if (cost <= d->longest_s) return;
    d->longest_s = cost;
    d->chunk_max = chunk;
}

static void prefill_delay_requests(struct finding_prefill_delay *d,
                                   const struct finding_served *r, double before_s)
{
    const double own = d->delay_s - before_s;
    if (!(own > 0)) return;
    d->requests++;
    if (own <= d->worst_s) return;
    d->worst_s = own;
    d->worst = r->id;
}

static void prefill_delays_of(const struct finding_look *l, const struct finding_batches *b,
                              const struct finding_served *r,
                              struct finding_prefill_delays *out)
{
    const double apart = out->apart.delay_s, shared = out->shared.delay_s;
    for (size_t i = finding_batches_from(b, r->token_ns); i < b->count; i++) {
        const struct finding_pass *pass = &b->rows[i];
        uint64_t own_in, own_out;
        if (pass->start_ns >= r->last_ns) break;
        if (!pass->tokens_in) continue;
        const int in = finding_pass_has(l->p, pass, r->id, &own_in, &own_out);
        const double cost = finding_pass_s(pass) - (in ? b->decode_s : 0);
        if (own_in || !(cost > 0)) continue;
        prefill_delay_count(in ? &out->shared : &out->apart, cost, pass->tokens_in);
    }
    prefill_delay_requests(&out->apart, r, apart);
    prefill_delay_requests(&out->shared, r, shared);
}

/* Prompt tokens that a pass computes in CHUNK_STEPS - 1 times one without, from what they cost
 * beyond that. */
static double prefill_chunk(const struct finding_batches *b)
{
    double tokens = 0, seconds = 0;
    for (size_t i = 0; i < b->count; i++) {
        const struct finding_pass *pass = &b->rows[i];
        if (!pass->tokens_in) continue;
        tokens += (double)pass->tokens_in;
        seconds += fmax(0, finding_pass_s(pass) - (pass->tokens_out ? b->decode_s : 0));
    }
    if (!(seconds > 0)) return NAN;
    const double chunk = tokens / seconds * b->decode_s * (CHUNK_STEPS - 1);
    return chunk >= 16 ? exp2(floor(log2(chunk))) : floor(chunk);
}

void finding_prefill_delays(struct finding_look *l, struct finding_prefill_delays *out)
{
    struct finding_batches b;
    *out = (struct finding_prefill_delays){ .decode_s = NAN, .chunk = NAN };
    if (!l->p->parts_count) return;
    l->rc = finding_batches_init(&b, l->p);
    if (!l->rc && !isnan(b.decode_s)) {
        out->decode_s = b.decode_s;
        out->chunk = prefill_chunk(&b);
        for (size_t i = 0; i < b.served_count; i++) {
            const struct finding_served *r = &b.served[i];
            if (!r->token_ns || r->last_ns <= r->token_ns) continue;
            out->window_s += (double)(r->last_ns - r->token_ns) * 1e-9;
            prefill_delays_of(l, &b, r, out);
        }
    }
    finding_batches_release(&b);
}

struct sonde_finding *finding_prefill_add(struct finding_look *l,
                                          const struct finding_prefill_delays *d,
                                          const struct finding_prefill_delay *part)
{
    char name[64];
    const double share = d->window_s > 0 ? fmin(1, part->delay_s / d->window_s) : 0;
    if (part->requests < REQUESTS_MIN || part->passes < PASSES_MIN || share < INFO_SHARE ||
        part->delay_s < l->o.seconds_min) {
        return NULL;
    }
    struct sonde_finding *f = finding_add(
        l, share >= WARNING_SHARE ? SONDE_SEVERITY_WARNING : SONDE_SEVERITY_INFO, share);
    finding_subject(l, f, "prefill", "", 0);
    f->share = share;
    f->seconds = part->delay_s;
    f->count = (double)part->requests;
    f->avg_s = part->delay_s / (double)part->requests;
    f->gain = share;
    f->gain_of = "time between tokens";
    finding_request_name(l->p, part->worst, name);
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_REQUEST, .subject = name, .value = part->worst_s,
        .unit = "seconds", .what = "delayed by others' prompts" });
    return f;
}
