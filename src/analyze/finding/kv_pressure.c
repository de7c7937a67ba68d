/* kv_pressure.c - the KV cache is full, so that requests wait, fail or lose what was computed. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>

#include "analyze/finding/rule.h"
#include "base/array.h"
#include "profile/infer.h"

#define PEAK_RATIO 0.97
#define MEAN_RATIO 0.80

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

/* Prompt tokens that were computed more than once: passes had more of them than requests asked
 * for. NaN = passes are not known. */
static double kv_recomputed(const struct sonde_profile *p)
{
    double asked = 0, computed = 0;
    for (uint32_t i = 0; p->infer && i < p->infer->request_count; i++) {
        const struct sonde_infer_request *r = &p->infer->requests[i];
        asked += (double)(r->tokens_in - r->tokens_reused);
    }
    for (uint32_t i = 0; i < p->parts_count; i++) computed += (double)p->parts[i].tokens_in;
    return asked > 0 && computed > 0 ? fmax(0, 1 - asked / computed) : NAN;
}

static void kv_add(struct finding_look *l, const struct sonde_infer_model *m, double mean,
                   size_t failures)
{
    const double peak = (double)m->kv_peak / (double)m->kv_total;
    const double again = kv_recomputed(l->p);
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
    const size_t failures = kv_failures(run);
    for (uint32_t i = 0; run && i < run->model_count; i++) {
        const struct sonde_infer_model *m = &run->models[i];
        if (!m->kv_total) continue;
        const double peak = (double)m->kv_peak / (double)m->kv_total;
        if (peak < PEAK_RATIO || (!failures && mean < MEAN_RATIO)) continue;
        kv_add(l, m, run->model_count == 1 ? mean : NAN, failures);
    }
}

extern const struct finding_rule finding_rule_kv_pressure;
const struct finding_rule finding_rule_kv_pressure = {
    .kind = "kv_pressure",
    .title = "KV cache is full",
    .summary = "the KV cache was 97 % full and 80 % on average, or requests failed for lack of "
               "room in it",
    .explains = "queueing low_throughput slow_first_token error_burst prefill_interference "
                "large_chunks small_batches prefix_reuse",
    .look = kv_look,
};
