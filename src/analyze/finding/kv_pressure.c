/* kv_pressure.c - the KV cache is full, so that requests wait, fail or lose what was computed. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyze/finding/rule.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "profile/infer.h"
#include "sonde/sonde.h"

#define PEAK_RATIO 0.97
#define MEAN_RATIO 0.80
#define AGAIN_RATIO 0.10 /* of prompt tokens: who has to compute them again had to make room */

/* Requests that failed for lack of room, as engines name that. */
static size_t kv_failures(const struct sonde_infer_run *run)
{
    static const char *const names[] = { "*context*full*", "*kv*", "*no_slot*", "*cache_full*",
                                         "*preempt*", "*evict*" };
    size_t failed = 0;
    for (uint32_t i = 0; run && i < run->request_count; i++) {
        for (size_t k = 0; k < SONDE_COUNT(names); k++) {
            if (fnmatch(names[k], run->requests[i].error, FNM_CASEFOLD) != 0) continue;
            failed++;
            break;
        }
    }
    return failed;
}

static int kv_id_compare(const void *x, const void *y)
{
    const uint64_t *a = x, *b = y;
    return SONDE_CMP(*a, *b);
}

/* Prompt tokens that were computed more than once: passes had more of them than requests asked
 * for, of those that are known to have asked. NaN = passes are not known. */
static double kv_recomputed(struct finding_look *l)
{
    const struct sonde_profile *p = l->p;
    double asked = 0, computed = 0;
    size_t n = 0;
    if (!p->infer || !p->infer->request_count || !p->parts_count) return NAN;
    uint64_t *ids = sonde__calloc(p->infer->request_count, sizeof(*ids));
    if (!ids) {
        l->rc = SONDE_ENOMEM;
        return NAN;
    }
    for (uint32_t i = 0; i < p->infer->request_count; i++) {
        const struct sonde_infer_request *r = &p->infer->requests[i];
        if (!r->tokens_in) continue;
        asked += (double)(r->tokens_in - r->tokens_reused);
        ids[n++] = r->id;
    }
    if (n) qsort(ids, n, sizeof(*ids), kv_id_compare);
    for (uint32_t i = 0; n && i < p->parts_count; i++) {
        const struct sonde_profile_part *part = &p->parts[i];
        if (!bsearch(&part->request, ids, n, sizeof(*ids), kv_id_compare)) continue;
        computed += (double)part->tokens_in;
    }
    sonde__free(ids);
    return asked > 0 && computed > 0 ? fmax(0, 1 - asked / computed) : NAN;
}

static void kv_add(struct finding_look *l, const struct sonde_infer_model *m, double mean,
                   double again, size_t failures)
{
    const double peak = (double)m->kv_peak / (double)m->kv_total;
    struct sonde_finding *f = finding_add(
        l, failures ? SONDE_SEVERITY_CRITICAL : SONDE_SEVERITY_WARNING, isnan(mean) ? peak : mean);
    char lost[96] = "";
    if (again >= 0.05) {
        snprintf(lost, sizeof(lost), "; %.0f %% of the prompt tokens were computed more than once",
                 100 * again);
    }
    finding_subject(l, f, m->model, "", 0);
    f->share = peak;
    char average[48] = "";
    if (!isnan(mean)) snprintf(average, sizeof(average), ", %.0f %% on average", 100 * mean);
    finding_text(l, f,
                 "the KV cache of %.100s was %.0f %% full at its peak%s (%llu cells)%s; %zu "
                 "requests failed for lack of room",
                 m->model, 100 * peak, average, (unsigned long long)m->kv_total, lost, failures);
    finding_advise(l, f,
                   "give it %llu cells (llama-server: --ctx-size %llu), store them in fewer bits "
                   "(--cache-type-k q8_0 halves them), or serve fewer requests at once",
                   (unsigned long long)(2 * m->kv_total), (unsigned long long)(2 * m->kv_total));
    finding_prove_series(l, f, &(struct finding_series){ .family = "sonde_infer_kv_used_ratio" },
                         "ratio", "cells in use");
}

static void kv_look(struct finding_look *l)
{
    const struct sonde_infer_run *run = l->p->infer;
    const struct finding_series used = { .family = "sonde_infer_kv_used_ratio" };
    const double mean = finding_series_mean(l, &used, NULL);
    const double again = kv_recomputed(l);
    const size_t failures = kv_failures(run);
    for (uint32_t i = 0; run && i < run->model_count; i++) {
        const struct sonde_infer_model *m = &run->models[i];
        if (!m->kv_total) continue;
        const double peak = (double)m->kv_peak / (double)m->kv_total;
        if (peak < PEAK_RATIO) continue;
        if (!failures && mean < MEAN_RATIO && !(again >= AGAIN_RATIO)) continue;
        kv_add(l, m, run->model_count == 1 ? mean : NAN, again, failures);
    }
}

extern const struct finding_rule finding_rule_kv_pressure;
const struct finding_rule finding_rule_kv_pressure = {
    .kind = "kv_pressure",
    .title = "KV cache is full",
    .summary = "the KV cache was 97 % full, and that was 80 % on average, or made prompts be "
               "computed again, or requests fail for lack of room",
    .explains = "queueing low_throughput slow_first_token error_burst prefill_interference "
                "large_chunks small_batches prefix_reuse",
    .look = kv_look,
};
