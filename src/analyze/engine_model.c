/* engine_model.c - the series of sonde/engine.h out of a model: see engine.h. */
#include <math.h>
#include <string.h>

#include "analyze/engine.h"
#include "model/window.h"
#include "base/alloc.h"
#include "base/array.h"
#include "model/model.h"
#include "profile/profile.h"

#define VALUE_MAX 1e18  /* what run files take */

/* Names and labels of include/sonde/engine.h, and of the pools of sonde.h. */
static const struct engine_family {
    const char *name;
    enum sonde_type type;
    const char *subject, *detail;
} families[] = {
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
};

static const char *engine_model_label_of(const struct sonde_model_series *s, const char *name)
{
    for (size_t i = 0; name && i < s->label_count; i++) {
        if (!strcmp(s->labels[i].name, name)) return s->labels[i].value;
    }
    return "";
}

static int engine_model_hist_read(const struct sonde_hist_value *h, struct sonde_engine_series *out)
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
        out->buckets[out->bucket_count++] = (struct sonde_engine_bucket){ .p = p, .n = n };
        out->count += n;
    }
    return 0;
}

/* The most of it that is remembered; what it is now is part of that. */
static double gauge_peak(const struct sonde_model *m, const struct sonde_model_series *s)
{
    double peak = s->gauge;
    for (uint32_t age = 0; s->history && age < s->history_count; age++) {
        const double v = s->history[(m->tick - 1 - age) % SONDE_HISTORY];
        if (v > peak) peak = v;
    }
    return peak;
}

static int engine_model_series_read(const struct sonde_model *m, const struct engine_family *f,
                                    const struct sonde_model_series *s,
                                    struct sonde_engine_series *out)
{
    *out = (struct sonde_engine_series){
        .family = f->name, .program = s->process ? s->process->program : "",
        .pid = s->process ? s->process->pid : 0, .subject = engine_model_label_of(s, f->subject),
        .detail = engine_model_label_of(s, f->detail),
    };
    int rc = 0;
    if (f->type == SONDE_HISTOGRAM) {
        rc = engine_model_hist_read(s->hist, out);
        out->value = sonde_model_series_sum(s);
    } else if (f->type == SONDE_COUNTER) {
        out->value = sonde_model_series_total(s);
    } else {
        out->value = s->gauge;
        out->peak = gauge_peak(m, s);
    }
    /* A gauge may be set to anything. */
    if (!(fabs(out->value) <= VALUE_MAX)) out->value = 0;
    if (!(fabs(out->peak) <= VALUE_MAX)) out->peak = 0;
    return rc;
}

/* each() for every series; its buckets are gone after that, unless it set them to NULL. */
static int model_each(const struct sonde_model *m,
                      int (*each)(struct sonde_engine_series *s, void *arg), void *arg)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < SONDE_COUNT(families); i++) {
        const struct sonde_model_family *f = sonde_model_family_find(m, families[i].name);
        for (size_t k = 0; !rc && f && f->type == families[i].type && k < f->series_count; k++) {
            struct sonde_engine_series s;
            rc = engine_model_series_read(m, &families[i], f->series[k], &s);
            if (!rc && *s.subject) rc = each(&s, arg);
            sonde__free(s.buckets);
        }
    }
    return rc;
}

struct gathered { struct sonde_engine_series *series; size_t count, cap; };

static int engine_model_gather(struct sonde_engine_series *s, void *arg)
{
    struct gathered *g = arg;
    if (g->count == SONDE_ENGINE_SERIES_MAX) return 0;
    if (SONDE_ARRAY_ROOM(g->series, g->count, g->cap)) return SONDE_ENOMEM;
    g->series[g->count++] = *s;
    s->buckets = NULL;
    return 0;
}

int sonde_engine_of_model(const struct sonde_model *m, struct sonde_engine **out)
{
    if (m->shared) sonde_assert_held(&m->lock);
    struct gathered g = { 0 };
    int rc = model_each(m, engine_model_gather, &g);
    if (!rc) rc = sonde_engine_build(g.series, g.count, out);
    for (size_t i = 0; i < g.count; i++) sonde__free(g.series[i].buckets);
    sonde__free(g.series);
    return rc;
}

static int engine_model_keep(struct sonde_engine_series *s, void *arg)
{
    const struct sonde_profile *p = arg;
    const int full = p->engine_run && p->engine_run->count == SONDE_ENGINE_SERIES_MAX;
    return full ? 0 : sonde_engine_run_add(arg, s);
}

int sonde_engine_complete_run(const struct sonde_model *m, struct sonde_profile *p)
{
    if (m->shared) sonde_assert_held(&m->lock);
    return model_each(m, engine_model_keep, p);
}
