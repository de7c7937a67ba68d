/* trial_figures.c - see trial.h: what came in the block. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "bench/tune/trial_private.h"
#include "sonde/sonde.h"

/* Latencies of answers that were complete, and of those that came in time. */
struct block_tally {
    uint64_t from_ns, to_ns;
    double *ttft, *itl, *e2e;  /* owned */
    size_t ttft_count, itl_count, e2e_count;
    double tokens, ended, good;
    uint64_t outcomes[SONDE_LOAD_OUTCOME_COUNT];
    uint64_t status;           /* of the last that was refused */
};

/* How much of [a, b] is in the block; of a moment all or nothing. */
static double block_share(const struct block_tally *b, uint64_t from, uint64_t to)
{
    const uint64_t low = from > b->from_ns ? from : b->from_ns;
    const uint64_t high = to < b->to_ns ? to : b->to_ns;
    if (to <= from) return from >= b->from_ns && from < b->to_ns;
    return high > low ? (double)(high - low) / (double)(to - from) : 0;
}

static int block_good(const struct sonde_load_slo *s, double ttft, double itl, double e2e)
{
    return (!(s->ttft_s > 0) || ttft <= s->ttft_s) && (!(s->itl_s > 0) || !(itl > s->itl_s)) &&
           (!(s->tpot_s > 0) || !(itl > s->tpot_s)) && (!(s->e2e_s > 0) || e2e <= s->e2e_s);
}

/* A record: tokens by the share of its time, latencies if it is whole. */
static void block_count(struct block_tally *b, const struct sonde_load_slo *slo,
                      const struct sonde_load_record *r)
{
    b->outcomes[r->outcome]++;
    if (r->outcome == SONDE_LOAD_STATUS) b->status = r->status;
    const int ok = r->outcome == SONDE_LOAD_OK;
    if (!ok && r->outcome != SONDE_LOAD_CANCELLED) return;
    if (r->first_ns && r->events) {
        const double tokens = ok && r->output_tokens != SONDE_LOAD_UNKNOWN
                                  ? (double)r->output_tokens : (double)r->events;
        b->tokens += tokens * block_share(b, r->first_ns, r->last_ns);
    }
    if (r->first_ns >= b->from_ns && r->first_ns < b->to_ns) {
        b->ttft[b->ttft_count++] = 1e-9 * (double)(r->first_ns - r->sent_ns);
    }
    if (!ok || r->end_ns < b->from_ns || r->end_ns >= b->to_ns) return;
    const double e2e = 1e-9 * (double)(r->end_ns - r->sent_ns);
    const double ttft = r->first_ns ? 1e-9 * (double)(r->first_ns - r->sent_ns) : e2e;
    const double itl = r->events > 1 ? 1e-9 * (double)(r->last_ns - r->first_ns) /
                                           (double)(r->events - 1) : NAN;
    b->e2e[b->e2e_count++] = e2e;
    if (r->events > 1) b->itl[b->itl_count++] = itl;
    b->ended++;
    b->good += block_good(slo, ttft, itl, e2e);
}

static int block_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts v. NaN = there is none. */
static double block_quantile(double *v, size_t n, double q)
{
    if (!n) return NAN;
    qsort(v, n, sizeof(*v), block_compare);
    size_t at = (size_t)ceil(q * (double)n);
    return v[at ? at - 1 : 0];
}

/* "3 of 40 requests failed: status 3 (the last 400)"; 0 = none did. */
static int block_failed(const struct block_tally *b, struct sonde_tune_figures *out)
{
    uint64_t failed = 0, all = 0;
    for (int i = 0; i < SONDE_LOAD_OUTCOME_COUNT; i++) {
        all += b->outcomes[i];
        if (i != SONDE_LOAD_OK && i != SONDE_LOAD_CANCELLED) failed += b->outcomes[i];
    }
    out->requests = all;
    out->failed = failed;
    if (!failed) return 0;
    int n = snprintf(out->reason, sizeof(out->reason), "%llu of %llu requests failed:",
                     (unsigned long long)failed, (unsigned long long)all);
    for (int i = 0; i < SONDE_LOAD_OUTCOME_COUNT && n < 256; i++) {
        if (i == SONDE_LOAD_OK || i == SONDE_LOAD_CANCELLED || !b->outcomes[i]) continue;
        n += snprintf(out->reason + n, sizeof(out->reason) - (size_t)n, " %s %llu",
                      sonde_load_outcome_name((enum sonde_load_outcome)i),
                      (unsigned long long)b->outcomes[i]);
    }
    if (b->status) {
        snprintf(out->reason + n, sizeof(out->reason) - (size_t)n, " (the last %llu)",
                 (unsigned long long)b->status);
    }
    return 1;
}

static void block_fill(const struct sonde_tune_plan *p, struct block_tally *b,
                       const struct sonde_load_result *load, struct sonde_tune_figures *out)
{
    const double seconds = 1e-9 * (double)(b->to_ns - b->from_ns);
    out->tokens_per_s = b->tokens / seconds;
    out->requests_per_s = b->ended / seconds;
    out->goodput_per_s = sonde_load_slo_any(&p->slo) ? b->good / seconds : NAN;
    out->good_ratio = sonde_load_slo_any(&p->slo) && b->ended > 0 ? b->good / b->ended : NAN;
    out->ttft_s = block_quantile(b->ttft, b->ttft_count, 0.5);
    out->ttft_p95_s = block_quantile(b->ttft, b->ttft_count, 0.95);
    out->itl_s = block_quantile(b->itl, b->itl_count, 0.5);
    out->e2e_s = block_quantile(b->e2e, b->e2e_count, 0.5);
    out->e2e_p95_s = block_quantile(b->e2e, b->e2e_count, 0.95);
    if (load->client.wall_ns) {
        out->client_cpu_ratio = (double)load->client.cpu_ns / (double)load->client.wall_ns;
    }
    switch (p->objective) {
    case SONDE_TUNE_OBJECTIVE_REQUESTS: out->value = out->requests_per_s; break;
    case SONDE_TUNE_OBJECTIVE_GOODPUT: out->value = out->goodput_per_s; break;
    case SONDE_TUNE_OBJECTIVE_TTFT: out->value = out->ttft_s; break;
    case SONDE_TUNE_OBJECTIVE_LATENCY: out->value = out->e2e_s; break;
    default: out->value = out->tokens_per_s; break;
    }
}

int trial_figures(const struct sonde_tune_plan *p, const struct sonde_load_result *load,
                  struct sonde_tune_figures *out)
{
    const size_t n = load->record_count;
    const uint64_t from = load->begin_ns + (uint64_t)(1e9 * p->warmup_s);
    struct block_tally b = { .from_ns = from, .to_ns = from + (uint64_t)(1e9 * p->block_s) };
    double *room = sonde__calloc(3 * n + 1, sizeof(*room));
    if (!room) return SONDE_ENOMEM;
    b.ttft = room;
    b.itl = room + n;
    b.e2e = room + 2 * n;
    for (size_t i = 0; i < n; i++) block_count(&b, &p->slo, &load->records[i]);
    int rc = 0;
    if (block_failed(&b, out)) {
        rc = SONDE_EIO;
    } else {
        block_fill(p, &b, load, out);
        if (!(out->value > 0)) {
            snprintf(out->reason, sizeof(out->reason), "nothing came in the %.3g s of the block: a "
                     "longer --block may help", p->block_s);
            rc = SONDE_EIO;
        }
    }
    sonde__free(room);
    return rc;
}

enum sonde_tune_outcome trial_constraints(const struct sonde_tune_plan *p,
                                          struct sonde_tune_figures *out)
{
    if (p->memory_bytes && out->rss_bytes > p->memory_bytes) {
        snprintf(out->reason, sizeof(out->reason), "memory: %.0f MiB at its peak, more than %.0f "
                 "MiB",
                 (double)out->rss_bytes / 1048576, (double)p->memory_bytes / 1048576);
        return SONDE_TUNE_BROKEN;
    }
    if (p->server && sonde_load_slo_any(&p->slo) &&
        p->objective != SONDE_TUNE_OBJECTIVE_GOODPUT && !(out->good_ratio >= p->slo_share)) {
        if (out->good_ratio >= 0) {
            snprintf(out->reason, sizeof(out->reason), "SLO: %.0f %% of the answers meet it, and "
                     "%.0f %% should", 100 * out->good_ratio, 100 * p->slo_share);
        } else {
            snprintf(out->reason, sizeof(out->reason), "SLO: no answer was complete in the block");
        }
        return SONDE_TUNE_BROKEN;
    }
    return SONDE_TUNE_OK;
}
