/* final_model.c - see final_model.h. */
#include "analyze/final_model.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "model/model.h"
#include "profile/profile.h"

#define VALUE_MAX 1e18  /* what run files take */

/* Names and labels of include/sonde/engine.h and ml.h, and of the ready-made records of sonde.h. */
static const struct sonde_final_family families[] = {
    { "sonde_device_operation_seconds", SONDE_HISTOGRAM, "device", "operation" },
    { "sonde_device_fallbacks_total", SONDE_COUNTER, "device", "reason" },
    { "sonde_device_memory_bytes", SONDE_GAUGE, "device", "state" },
    { "sonde_memory_pool_bytes", SONDE_GAUGE, "pool", NULL },
    { "sonde_memory_pool_capacity_bytes", SONDE_GAUGE, "pool", NULL },
    { "sonde_memory_pool_peak_bytes", SONDE_GAUGE, "pool", NULL },
    { "sonde_memory_pool_requested_bytes", SONDE_GAUGE, "pool", NULL },
    { "sonde_memory_pool_free_block_bytes", SONDE_GAUGE, "pool", NULL },
    { "sonde_memory_pool_allocation_seconds", SONDE_HISTOGRAM, "pool", NULL },
    { "sonde_memory_pool_free_seconds", SONDE_HISTOGRAM, "pool", NULL },
    { "sonde_memory_pool_failures_total", SONDE_COUNTER, "pool", NULL },
    { "sonde_tokenizer_encode_seconds", SONDE_HISTOGRAM, "tokenizer", "length" },
    { "sonde_tokenizer_decode_seconds", SONDE_HISTOGRAM, "tokenizer", NULL },
    { "sonde_tokenizer_bytes_total", SONDE_COUNTER, "tokenizer", NULL },
    { "sonde_tokenizer_tokens_total", SONDE_COUNTER, "tokenizer", NULL },
    { "sonde_tokenizer_lookups_total", SONDE_COUNTER, "tokenizer", NULL },
    { "sonde_tokenizer_merges_total", SONDE_COUNTER, "tokenizer", NULL },
    { "sonde_tokenizer_cache_accesses_total", SONDE_COUNTER, "tokenizer", "result" },
    { "sonde_operation_duration_seconds", SONDE_HISTOGRAM, "operation", "outcome" },
    { "sonde_operation_errors_total", SONDE_COUNTER, "operation", "type" },
    { "sonde_cache_accesses_total", SONDE_COUNTER, "tier", "result" },
    { "sonde_bandwidth_bytes_total", SONDE_COUNTER, "source", "direction" },
    { "sonde_resource_wall_seconds", SONDE_HISTOGRAM, "scope", NULL },
    { "sonde_resource_cpu_seconds", SONDE_HISTOGRAM, "scope", NULL },
    { "sonde_resource_page_faults_total", SONDE_COUNTER, "scope", "kind" },
    { "sonde_resource_memory_delta_bytes", SONDE_GAUGE, "scope", "over" },
    { "sonde_throughput_items_total", SONDE_COUNTER, "scope", NULL },
    { "sonde_throughput_seconds_total", SONDE_COUNTER, "scope", NULL },
    { "sonde_throughput_per_second", SONDE_GAUGE, "scope", NULL },
    { "sonde_ml_model_load_seconds", SONDE_HISTOGRAM, "model", "stage" },
    { "sonde_ml_model_bytes", SONDE_GAUGE, "model", NULL },
    { "sonde_ml_inference_seconds", SONDE_HISTOGRAM, "model", "batch_size" },
    { "sonde_ml_inference_items_total", SONDE_COUNTER, "model", NULL },
    { "sonde_ml_epoch_seconds", SONDE_HISTOGRAM, "model", NULL },
    { "sonde_ml_step_seconds", SONDE_HISTOGRAM, "model", NULL },
    { "sonde_ml_first_step_seconds", SONDE_HISTOGRAM, "model", NULL },
    { "sonde_ml_phase_seconds", SONDE_HISTOGRAM, "model", "phase" },
    { "sonde_ml_samples_total", SONDE_COUNTER, "model", NULL },
    { "sonde_ml_steps_total", SONDE_COUNTER, "model", NULL },
    { "sonde_ml_epoch", SONDE_GAUGE, "model", NULL },
    { "sonde_ml_value", SONDE_GAUGE, "model", "name" },
    { "sonde_ml_dataset_load_seconds", SONDE_HISTOGRAM, "dataset", "format" },
    { "sonde_ml_dataset_bytes_total", SONDE_COUNTER, "dataset", NULL },
    { "sonde_ml_dataset_items_total", SONDE_COUNTER, "dataset", NULL },
    { "sonde_ml_dataset_wait_seconds", SONDE_HISTOGRAM, "dataset", NULL },
    { "sonde_ml_dataset_use_seconds", SONDE_HISTOGRAM, "dataset", NULL },
    { "sonde_ml_dataset_first_wait_seconds", SONDE_HISTOGRAM, "dataset", NULL },
    { "sonde_ml_preprocess_seconds", SONDE_HISTOGRAM, "operation", NULL },
    { "sonde_ml_communication_seconds", SONDE_HISTOGRAM, "operation", "worker" },
    { "sonde_ml_communication_bytes_total", SONDE_COUNTER, "operation", "worker" },
    { "sonde_ml_worker_utilization_ratio", SONDE_GAUGE, "worker", NULL },
    { "sonde_ml_worker_memory_bytes", SONDE_GAUGE, "worker", NULL },
    { "sonde_ml_worker_active_tasks", SONDE_GAUGE, "worker", NULL },
    { "sonde_ml_task_seconds", SONDE_HISTOGRAM, "task", "worker" },
};

const struct sonde_final_family *sonde_final_family_find(const char *name)
{
    for (size_t i = 0; i < SONDE_COUNT(families); i++) {
        if (!strcmp(families[i].name, name)) return &families[i];
    }
    return NULL;
}

const struct sonde_final_family *sonde_final_family_at(size_t i)
{
    return i < SONDE_COUNT(families) ? &families[i] : NULL;
}

const struct sonde_final_family *sonde_final_family_of_track(const struct sonde_track *t)
{
    static const char suffix[] = "_count";
    for (size_t i = 0; i < SONDE_COUNT(families); i++) {
        const struct sonde_final_family *f = &families[i];
        const size_t len = strlen(f->name);
        const char *end = f->type == SONDE_HISTOGRAM ? suffix : "";
        if (!strncmp(t->family, f->name, len) && !strcmp(t->family + len, end) &&
            !t->gauge == (f->type != SONDE_GAUGE)) {
            return f;
        }
    }
    return NULL;
}

static const char *final_model_label_of(const struct sonde_model_series *s, const char *name)
{
    for (size_t i = 0; name && i < s->label_count; i++) {
        if (!strcmp(s->labels[i].name, name)) return s->labels[i].value;
    }
    return "";
}

/* A third label: the outcome, of families that have it besides. */
static const char *final_model_extra_of(const struct sonde_model_series *s,
                                        const struct sonde_final_family *f)
{
    return f->detail && !strcmp(f->detail, "outcome") ? "" : final_model_label_of(s, "outcome");
}

static int final_model_hist_read(const struct sonde_hist_value *h, struct sonde_final_series *out)
{
    uint32_t used = 0;
    if (!h) return 0;
    for (uint32_t p = 0; p < SONDE__HIST_BUCKETS; p++) {
        used += h->octave[p / 64] && h->octave[p / 64][p % 64];
    }
    out->count = out->zero = h->zero;
    if (!used) return 0;
    out->buckets = sonde__calloc(used, sizeof(*out->buckets));
    if (!out->buckets) return SONDE_ENOMEM;
    for (uint32_t p = 0; p < SONDE__HIST_BUCKETS; p++) {
        const uint64_t n = h->octave[p / 64] ? h->octave[p / 64][p % 64] : 0;
        if (!n) continue;
        out->buckets[out->bucket_count++] = (struct sonde_final_bucket){ .p = p, .n = n };
        out->count += n;
    }
    return 0;
}

/* The most of it that is remembered; what it is now is part of that. */
static double final_model_peak(const struct sonde_model *m, const struct sonde_model_series *s)
{
    double peak = s->gauge;
    for (uint32_t age = 0; s->history && age < s->history_count; age++) {
        const double v = s->history[(m->tick - 1 - age) % SONDE_HISTORY];
        if (v > peak) peak = v;
    }
    return peak;
}

/* How long it has counted: since its program began, or since it was seen first. */
static double final_model_seconds(const struct sonde_model *m, const struct sonde_model_series *s)
{
    const struct sonde_model_process *p = s->process;
    const double from = p && p->started_s > 0 ? p->started_s : s->created_s;
    const double seconds = (p && p->ended_s > 0 ? p->ended_s : m->now_s) - from;
    return seconds > 0 && seconds < 1e10 && from > 0 ? seconds : 0;
}

static int final_model_series_read(const struct sonde_model *m, const struct sonde_final_family *f,
                                    const struct sonde_model_series *s,
                                    struct sonde_final_series *out)
{
    *out = (struct sonde_final_series){
        .family = f->name, .program = s->process ? s->process->program : "",
        .pid = s->process ? s->process->pid : 0, .subject = final_model_label_of(s, f->subject),
        .detail = final_model_label_of(s, f->detail),
        .extra = final_model_extra_of(s, f),
    };
    int rc = 0;
    if (f->type == SONDE_HISTOGRAM) {
        rc = final_model_hist_read(s->hist, out);
        out->value = sonde_model_series_sum(s);
    } else if (f->type == SONDE_COUNTER) {
        out->value = sonde_model_series_total(s);
    } else {
        out->value = s->gauge;
        out->peak = final_model_peak(m, s);
    }
    out->seconds = final_model_seconds(m, s);
    /* A gauge may be set to anything. */
    if (!(fabs(out->value) <= VALUE_MAX)) out->value = 0;
    if (!(fabs(out->peak) <= VALUE_MAX)) out->peak = 0;
    return rc;
}

/* A loss that is not a number must not be kept as 0: it is in the attributes of its epoch. */
static int final_model_is_lost(const struct sonde_final_family *f,
                               const struct sonde_model_series *s)
{
    return !strcmp(f->name, "sonde_ml_value") && !(fabs(s->gauge) <= VALUE_MAX);
}

/* each() for every series; its buckets are gone after that, unless it set them to NULL. */
static int final_model_each(const struct sonde_model *m,
                      int (*each)(struct sonde_final_series *s, void *arg), void *arg)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < SONDE_COUNT(families); i++) {
        const struct sonde_model_family *f = sonde_model_family_find(m, families[i].name);
        for (size_t k = 0; !rc && f && f->type == families[i].type && k < f->series_count; k++) {
            struct sonde_final_series s;
            rc = final_model_series_read(m, &families[i], f->series[k], &s);
            if (!rc && *s.subject && !final_model_is_lost(&families[i], f->series[k])) {
                rc = each(&s, arg);
            }
            sonde__free(s.buckets);
        }
    }
    return rc;
}

static int final_model_gather(struct sonde_final_series *s, void *arg)
{
    struct sonde_final *f = arg;
    if (f->count == SONDE_FINAL_MAX) return 0;
    if (SONDE_ARRAY_ROOM(f->series, f->count, f->cap)) return SONDE_ENOMEM;
    f->series[f->count++] = *s;
    s->buckets = NULL;
    return 0;
}

int sonde_final_of_model(const struct sonde_model *m, struct sonde_final *out)
{
    if (m->shared) sonde_assert_held(&m->lock);
    struct sonde_final f = { .series = NULL };
    const int rc = final_model_each(m, final_model_gather, &f);
    if (rc) sonde_final_release(&f);
    else *out = f;
    return rc;
}

void sonde_final_release(struct sonde_final *f)
{
    for (uint32_t i = 0; i < f->count; i++) sonde__free(f->series[i].buckets);
    sonde__free(f->series);
    *f = (struct sonde_final){ .series = NULL };
}

static int final_model_keep(struct sonde_final_series *s, void *arg)
{
    const struct sonde_profile *p = arg;
    const int full = p->final && p->final->count == SONDE_FINAL_MAX;
    return full ? 0 : sonde_final_add(arg, s);
}

int sonde_final_complete_run(const struct sonde_model *m, struct sonde_profile *p)
{
    if (m->shared) sonde_assert_held(&m->lock);
    return final_model_each(m, final_model_keep, p);
}

/* ---- Percentiles ----------------------------------------------------------------------------- */

/* The value of that rank, from 1: the lowest bucket of all at which so many are reached. */
static double final_rank_value(const struct sonde_final_series *const *series, size_t count,
                               double rank, double scale)
{
    uint64_t below = 0;
    uint32_t low = 0, high = SONDE__HIST_BUCKETS - 1;
    for (size_t i = 0; i < count; i++) below += series[i]->zero;
    if (rank <= (double)below) return 0;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        uint64_t seen = below;
        for (size_t i = 0; i < count; i++) {
            for (uint32_t b = 0; b < series[i]->bucket_count; b++) {
                if (series[i]->buckets[b].p <= middle) seen += series[i]->buckets[b].n;
            }
        }
        if ((double)seen >= rank) high = middle;
        else low = middle + 1;
    }
    return sonde__hist_middle(low, scale);
}

double sonde_final_quantile(const struct sonde_final_series *const *series, size_t count, double q,
                            double scale)
{
    uint64_t n = 0, known = 0;
    for (size_t i = 0; i < count; i++) {
        n += series[i]->count;
        known += series[i]->zero;
        for (uint32_t b = 0; b < series[i]->bucket_count; b++) known += series[i]->buckets[b].n;
    }
    if (!n || known != n) return NAN;
    const double rank = ceil(q * (double)n);
    return final_rank_value(series, count, fmin(fmax(rank, 1), (double)n), scale);
}
