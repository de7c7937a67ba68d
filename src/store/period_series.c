/* period_series.c - see period_series.h. */
#include "store/period_series.h"

#include <math.h>
#include <string.h>

#include "analyze/final_model.h"
#include "base/alloc.h"
#include "base/array.h"
#include "profile/final.h"
#include "profile/infer.h"
#include "profile/profile.h"
#include "sonde/sonde.h"
#include "store/tracks.h"

#define VALUE_MAX 1e18 /* what run files take */
enum { LABELS_MAX = 32, MODELS_MAX = 256, NAMES_MAX = 1 << 14, POINTS = 512 };

struct period_fill {
    struct sonde_profile *p;
    struct sonde_final_bucket buckets[SONDE__HIST_BUCKETS]; /* of the histogram at hand */
    uint32_t bucket_count;
    uint64_t zero;
    struct sonde_infer_model *models; /* owned; texts are p's */
    uint32_t model_count, model_cap;
    int rc;
};

/* A series with its labels apart. */
struct period_series {
    const struct sonde_store_series *s;
    const struct sonde_store_point *all;
    struct sonde_label labels[LABELS_MAX];
    size_t label_count;
};

static const char *period_label(const struct period_series *s, const char *name)
{
    for (size_t i = 0; name && i < s->label_count; i++) {
        if (!strcmp(s->labels[i].name, name)) return s->labels[i].value;
    }
    return "";
}

static double period_value(double v) { return fabs(v) <= VALUE_MAX ? v : 0; }

static uint64_t period_whole(double v)
{
    return v > 0 ? (uint64_t)(period_value(v) + 0.5) : 0;
}

static void period_on_buckets(uint64_t zero, const uint64_t n[SONDE__HIST_BUCKETS], void *arg)
{
    struct period_fill *f = arg;
    f->zero = zero;
    f->bucket_count = 0;
    for (uint32_t p = 0; p < SONDE__HIST_BUCKETS; p++) {
        if (n[p]) {
            f->buckets[f->bucket_count++] = (struct sonde_final_bucket){ .p = p, .n = n[p] };
        }
    }
}

/* ---- What reports are of --------------------------------------------------------------------- */

static void period_final_add(struct period_fill *f, const struct sonde_final_family *family,
                             const struct period_series *s)
{
    const struct sonde_store_point *all = s->all;
    struct sonde_final_series one = {
        .family = family->name, .program = s->s->program, .pid = s->s->pid,
        .subject = period_label(s, family->subject), .detail = period_label(s, family->detail),
        .extra = family->detail && !strcmp(family->detail, "outcome")
                     ? "" : period_label(s, "outcome"),
        .seconds = period_value(all->seconds),
    };
    if (!*one.subject || (f->p->final && f->p->final->count == SONDE_FINAL_MAX)) return;
    if (s->s->type == SONDE_GAUGE) {
        if (!(all->count > 0)) return; /* it was never a number */
        one.value = period_value(all->last);
        one.peak = period_value(all->max);
    } else {
        one.value = period_value(all->sum);
    }
    if (s->s->type == SONDE_HISTOGRAM) {
        one.count = period_whole(all->count);
        one.zero = f->zero;
        one.buckets = f->buckets;
        one.bucket_count = f->bucket_count;
    }
    f->rc = sonde_final_add(f->p, &one);
}

/* ---- Models of inference --------------------------------------------------------------------- */

static struct sonde_infer_model *period_model_of(struct period_fill *f,
                                                 const struct period_series *s)
{
    const char *name = period_label(s, "model");
    for (uint32_t i = 0; i < f->model_count; i++) {
        if (f->models[i].pid == s->s->pid && !strcmp(f->models[i].model, name)) {
            return &f->models[i];
        }
    }
    if (f->model_count == MODELS_MAX) return NULL;
    struct sonde_infer_model *m = SONDE_ARRAY_ADD(f->models, f->model_count, f->model_cap);
    const uint32_t program = sonde_profile_cstring(f->p, s->s->program);
    const uint32_t model = sonde_profile_cstring(f->p, name);
    if (!m || (!model && *name) || (!program && *s->s->program)) {
        f->model_count -= m != NULL;
        f->rc = SONDE_ENOMEM;
        return NULL;
    }
    *m = (struct sonde_infer_model){ .pid = s->s->pid, .backend = "",
                                     .program = sonde_profile_str(f->p, program),
                                     .model = sonde_profile_str(f->p, model) };
    return m;
}

static int period_phase(const struct period_series *s)
{
    const char *phase = period_label(s, "phase");
    return !strcmp(phase, "prefill")  ? SONDE_PHASE_PREFILL
           : !strcmp(phase, "decode") ? SONDE_PHASE_DECODE : SONDE_PHASE_NONE;
}

static void period_model_load(struct period_fill *f, struct sonde_infer_model *m,
                              const struct period_series *s)
{
    (void)f;
    m->load_s = fmax(period_value(s->all->last), 0);
}

static void period_model_memory(struct period_fill *f, struct sonde_infer_model *m,
                                const struct period_series *s)
{
    if (m->memory_count == SONDE_INFER_MEMORY_KINDS) return;
    const uint32_t kind = sonde_profile_cstring(f->p, period_label(s, "kind"));
    m->memory[m->memory_count++] = (struct sonde_infer_memory){
        .kind = sonde_profile_str(f->p, kind), .bytes = period_whole(s->all->last),
        .peak = period_whole(s->all->max) };
}

static void period_model_peak(struct period_fill *f, struct sonde_infer_model *m,
                              const struct period_series *s)
{
    (void)f;
    m->memory_peak = period_whole(s->all->max);
}

static void period_model_kv(struct period_fill *f, struct sonde_infer_model *m,
                            const struct period_series *s)
{
    (void)f;
    if (!strcmp(period_label(s, "state"), "used")) {
        m->kv_used = period_whole(s->all->last);
        m->kv_peak = period_whole(s->all->max);
    } else {
        m->kv_total = period_whole(s->all->last);
    }
}

static void period_model_batch(struct period_fill *f, struct sonde_infer_model *m,
                               const struct period_series *s)
{
    (void)f;
    m->batches = period_whole(s->all->count);
    m->batch_requests = period_whole(s->all->sum);
}

static void period_model_batch_tokens(struct period_fill *f, struct sonde_infer_model *m,
                                      const struct period_series *s)
{
    (void)f;
    m->batch_tokens = period_whole(s->all->sum);
}

static void period_model_tokens(struct period_fill *f, struct sonde_infer_model *m,
                                const struct period_series *s)
{
    (void)f;
    m->phase_tokens[period_phase(s)] = period_whole(s->all->sum);
}

static void period_model_busy(struct period_fill *f, struct sonde_infer_model *m,
                              const struct period_series *s)
{
    (void)f;
    m->phase_s[period_phase(s)] = fmax(period_value(s->all->sum), 0);
}

static void period_model_backend(struct period_fill *f, struct sonde_infer_model *m,
                                 const struct period_series *s)
{
    const uint32_t backend = sonde_profile_cstring(f->p, period_label(s, "backend"));
    m->backend = sonde_profile_str(f->p, backend);
}

static const struct period_model_family {
    const char *name;
    enum sonde_type type;
    void (*put)(struct period_fill *f, struct sonde_infer_model *m, const struct period_series *s);
} model_families[] = { /* of infer/series.c */
    { "sonde_infer_model_load_seconds", SONDE_GAUGE, period_model_load },
    { "sonde_infer_memory_bytes", SONDE_GAUGE, period_model_memory },
    { "sonde_infer_memory_peak_bytes", SONDE_GAUGE, period_model_peak },
    { "sonde_infer_kv_cells", SONDE_GAUGE, period_model_kv },
    { "sonde_infer_batch_requests", SONDE_HISTOGRAM, period_model_batch },
    { "sonde_infer_batch_tokens", SONDE_HISTOGRAM, period_model_batch_tokens },
    { "sonde_infer_computed_tokens_total", SONDE_COUNTER, period_model_tokens },
    { "sonde_infer_compute_seconds_total", SONDE_COUNTER, period_model_busy },
    { "sonde_infer_model_info", SONDE_GAUGE, period_model_backend },
};

static void period_on_model(struct period_fill *f, const struct period_series *s)
{
    for (size_t i = 0; i < SONDE_COUNT(model_families); i++) {
        if (strcmp(model_families[i].name, s->s->name) != 0) continue;
        if (model_families[i].type != s->s->type) return;
        if (s->s->type == SONDE_GAUGE && !(s->all->count > 0)) return;
        struct sonde_infer_model *m = period_model_of(f, s);
        if (m) model_families[i].put(f, m, s);
        return;
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void period_on_series(const struct sonde_store_series *s,
                             const struct sonde_store_point *all,
                             const struct sonde_store_point *points, size_t count, void *arg)
{
    struct period_fill *f = arg;
    const struct sonde_final_family *family = sonde_final_family_find(s->name);
    struct period_series one = { .s = s, .all = all };
    (void)points;
    (void)count;
    if (f->rc) return;
    char *text = sonde__strdup(s->labels);
    const int n = text ? sonde_store_labels(text, one.labels, LABELS_MAX) : 0;
    if (!text) f->rc = SONDE_ENOMEM;
    one.label_count = n > 0 ? (size_t)n : 0;
    if (text && family && family->type == s->type) period_final_add(f, family, &one);
    else if (text && !family) period_on_model(f, &one);
    sonde__free(text);
}

/* A series begins with its first record, a rate with its program: the longest of its series. */
static void period_set_seconds(struct sonde_final *final)
{
    for (uint32_t i = 0; final && i < final->count; i++) {
        struct sonde_final_series *s = &final->series[i];
        for (uint32_t k = 0; s->pid && k < final->count; k++) {
            const struct sonde_final_series *other = &final->series[k];
            if (other->pid == s->pid && !strcmp(other->program, s->program)) {
                s->seconds = fmax(s->seconds, other->seconds);
            }
        }
    }
}

static int period_names(struct sonde_buf *out)
{
    const struct sonde_final_family *family;
    for (size_t i = 0; (family = sonde_final_family_at(i)) != NULL; i++) {
        sonde_buf_printf(out, "%s|", family->name);
    }
    for (size_t i = 0; i < SONDE_COUNT(model_families); i++) {
        sonde_buf_printf(out, "%s%s", i ? "|" : "", model_families[i].name);
    }
    return out->error;
}

int sonde_period_series(const struct sonde_store_ops *ops, struct sonde_store *s,
                        const struct sonde_history_query *q, struct sonde_profile *p,
                        struct sonde_err *err)
{
    struct period_fill *f = sonde__calloc(1, sizeof(*f));
    struct sonde_buf names;
    sonde_buf_init(&names, NAMES_MAX);
    int rc = f ? period_names(&names) : SONDE_ENOMEM;
    if (!rc) {
        const struct sonde_filter filter = { .name = names.data, .process = q->program,
                                             .pid = q->pid };
        const struct sonde_store_query wanted = {
            .filters = &filter, .filter_count = 1, .from_s = q->from_s, .to_s = q->to_s,
            .step_s = sonde_store_step_s(q->to_s - q->from_s, POINTS), .whole = 1,
            .series_max = SONDE_FINAL_MAX,
        };
        const struct sonde_store_sink sink = { .series = period_on_series,
                                               .buckets = period_on_buckets, .arg = f };
        f->p = p;
        rc = ops->query(s, &wanted, &sink, err);
        if (!rc) rc = f->rc;
        if (!rc) period_set_seconds(p->final);
        for (uint32_t i = 0; !rc && i < f->model_count; i++) {
            rc = sonde_infer_run_model(p, &f->models[i]);
        }
    }
    if (rc == SONDE_ENOMEM) sonde_err_set(err, rc, "no memory for series");
    sonde_buf_release(&names);
    if (f) sonde__free(f->models);
    sonde__free(f);
    return rc;
}
