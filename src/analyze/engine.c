/* engine.c - see engine.h: from series to devices, pools and tokenizers. */
#include "analyze/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/final_model.h"
#include "base/alloc.h"
#include "base/cmp.h"
#include "model/model.h"

#define NANOSECONDS 1e-9 /* what times of sonde/engine.h are recorded in */

/* Room for one more of count elements, zeroed; arrays grow at powers of two. NULL: no memory. */
static void *array_add(void **data, uint32_t *count, size_t size)
{
    if ((*count & (*count - 1)) == 0) {
        void *grown = sonde__realloc(*data, (*count ? 2 * (size_t)*count : 1) * size);
        if (!grown) return NULL;
        *data = grown;
    }
    return memset((char *)*data + (*count)++ * size, 0, size);
}

static struct sonde_engine_who who_of(const struct sonde_final_series *s)
{
    return (struct sonde_engine_who){ s->program, s->pid };
}

static int engine_build_is_of(struct sonde_engine_who who, const char *name,
                              const struct sonde_final_series *s)
{
    return who.pid == s->pid && !strcmp(who.program, s->program) && !strcmp(name, s->subject);
}

/* ---- Times --------------------------------------------------------------------------------- */

static double engine_build_quantile(const struct sonde_final_series *s, double q)
{
    return sonde_final_quantile(&s, 1, q, NANOSECONDS);
}

static struct sonde_engine_time time_none(void)
{
    return (struct sonde_engine_time){ 0, 0, NAN, NAN, NAN, NAN };
}

static struct sonde_engine_time time_of(const struct sonde_final_series *s)
{
    struct sonde_engine_time t = time_none();
    t.count = s->count;
    if (!s->count) return t;
    t.sum_s = s->value > 0 ? s->value : 0;
    t.mean_s = t.sum_s / (double)s->count;
    t.p50_s = engine_build_quantile(s, 0.5);
    t.p99_s = engine_build_quantile(s, 0.99);
    t.max_s = engine_build_quantile(s, 1);
    return t;
}

/* Two that were timed apart: percentiles of both together are not known, but the longest is. */
static void time_join(struct sonde_engine_time *to, const struct sonde_engine_time *t)
{
    if (!t->count) return;
    to->count += t->count;
    to->sum_s += t->sum_s;
    to->mean_s = to->sum_s / (double)to->count;
    to->max_s = fmax(to->max_s, t->max_s);
}

static uint64_t engine_build_count_of(double v) { return v > 0 ? (uint64_t)(v + 0.5) : 0; }

/* ---- Devices ------------------------------------------------------------------------------- */

static struct sonde_engine_device *device_of(struct sonde_engine *e,
                                             const struct sonde_final_series *s)
{
    for (uint32_t i = 0; i < e->device_count; i++) {
        if (engine_build_is_of(e->devices[i].who, e->devices[i].device, s)) return &e->devices[i];
    }
    struct sonde_engine_device *d =
        array_add((void **)&e->devices, &e->device_count, sizeof(*d));
    if (!d) return NULL;
    d->who = who_of(s);
    d->device = s->subject;
    d->gpu = strncmp(s->subject, "cpu", 3) != 0;
    d->used_bytes = d->total_bytes = d->efficiency = NAN;
    return d;
}

static int on_operation(struct sonde_engine *e, const struct sonde_final_series *s)
{
    if (!s->count) return 0; /* defined, and never done */
    struct sonde_engine_device *d = device_of(e, s);
    struct sonde_engine_op *op =
        d ? array_add((void **)&d->ops, &d->op_count, sizeof(*op)) : NULL;
    if (!op) return SONDE_ENOMEM;
    op->operation = s->detail;
    op->time = time_of(s);
    d->operations += s->count;
    d->seconds += op->time.sum_s;
    if (d->gpu) e->gpu_operations += s->count;
    else e->cpu_operations += s->count;
    e->device_seconds += op->time.sum_s;
    return 0;
}

static int on_fallback(struct sonde_engine *e, const struct sonde_final_series *s)
{
    const uint64_t n = engine_build_count_of(s->value);
    if (!n) return 0;
    struct sonde_engine_device *d = device_of(e, s);
    struct sonde_engine_fallback *f =
        d ? array_add((void **)&d->reasons, &d->reason_count, sizeof(*f)) : NULL;
    if (!f) return SONDE_ENOMEM;
    *f = (struct sonde_engine_fallback){ s->detail, n };
    d->fallbacks += n;
    e->fallbacks += n;
    return 0;
}

static int on_device_memory(struct sonde_engine *e, const struct sonde_final_series *s)
{
    const int used = !strcmp(s->detail, "used");
    if (!(s->value > 0) || (!used && strcmp(s->detail, "total") != 0)) return 0;
    struct sonde_engine_device *d = device_of(e, s);
    if (!d) return SONDE_ENOMEM;
    *(used ? &d->used_bytes : &d->total_bytes) = s->value;
    return 0;
}

static int by_op_time(const void *a, const void *b)
{
    const struct sonde_engine_op *x = a, *y = b;
    if (x->time.sum_s != y->time.sum_s) return SONDE_CMP(y->time.sum_s, x->time.sum_s);
    return strcmp(x->operation, y->operation);
}

static int by_fallback_count(const void *a, const void *b)
{
    const struct sonde_engine_fallback *x = a, *y = b;
    if (x->count != y->count) return SONDE_CMP(y->count, x->count);
    return strcmp(x->reason, y->reason);
}

static int by_device_time(const void *a, const void *b)
{
    const struct sonde_engine_device *x = a, *y = b;
    if (x->seconds != y->seconds) return SONDE_CMP(y->seconds, x->seconds);
    const int name = strcmp(x->device, y->device);
    return name ? name : SONDE_CMP(x->who.pid, y->who.pid);
}

static void engine_build_sort(void *data, uint32_t count, size_t size,
                              int (*order)(const void *, const void *))
{
    if (count) qsort(data, count, size, order);
}

static void devices_finish(struct sonde_engine *e)
{
    for (uint32_t i = 0; i < e->device_count; i++) {
        struct sonde_engine_device *d = &e->devices[i];
        const double all = e->device_seconds > 0 ? e->device_seconds : NAN;
        if (isnan(d->used_bytes) && d->total_bytes > 0) d->used_bytes = 0;
        d->efficiency = d->used_bytes / d->total_bytes;
        d->share = d->seconds / all;
        for (uint32_t k = 0; k < d->op_count; k++) d->ops[k].share = d->ops[k].time.sum_s / all;
        engine_build_sort(d->ops, d->op_count, sizeof(*d->ops), by_op_time);
        engine_build_sort(d->reasons, d->reason_count, sizeof(*d->reasons), by_fallback_count);
    }
    engine_build_sort(e->devices, e->device_count, sizeof(*e->devices), by_device_time);
}

/* ---- Pools --------------------------------------------------------------------------------- */

static struct sonde_engine_pool pool_none(void)
{
    return (struct sonde_engine_pool){
        .peak_bytes = NAN, .capacity_bytes = NAN, .requested_bytes = NAN, .free_block_bytes = NAN,
        .allocation = time_none(), .release = time_none(), .external = NAN, .internal = NAN,
    };
}

static struct sonde_engine_pool *engine_build_pool_of(struct sonde_engine *e,
                                                      const struct sonde_final_series *s)
{
    for (uint32_t i = 0; i < e->pool_count; i++) {
        if (engine_build_is_of(e->pools[i].who, e->pools[i].pool, s)) return &e->pools[i];
    }
    struct sonde_engine_pool *p = array_add((void **)&e->pools, &e->pool_count, sizeof(*p));
    if (!p) return NULL;
    *p = pool_none();
    p->who = who_of(s);
    p->pool = s->subject;
    return p;
}

static int engine_build_on_pool(struct sonde_engine *e, const struct sonde_final_series *s)
{
    const char *what = s->family + strlen("sonde_memory_pool_");
    struct sonde_engine_pool *p = engine_build_pool_of(e, s);
    if (!p) return SONDE_ENOMEM;
    if (!strcmp(what, "bytes")) {
        p->used_bytes = s->value > 0 ? s->value : 0;
        p->peak_bytes = fmax(p->peak_bytes, s->peak);
        return 0;
    }
    p->detailed = 1;
    if (!strcmp(what, "capacity_bytes") && s->value > 0) p->capacity_bytes = s->value;
    if (!strcmp(what, "peak_bytes") && s->value > 0) p->peak_bytes = fmax(p->peak_bytes, s->value);
    if (!strcmp(what, "requested_bytes")) p->requested_bytes = s->value > 0 ? s->value : 0;
    if (!strcmp(what, "free_block_bytes")) p->free_block_bytes = s->value > 0 ? s->value : 0;
    if (!strcmp(what, "allocation_seconds")) p->allocation = time_of(s);
    if (!strcmp(what, "free_seconds")) p->release = time_of(s);
    if (!strcmp(what, "failures_total")) p->failures = engine_build_count_of(s->value);
    return 0;
}

/* 1 - part / whole, of figures that are read one after the other while the program goes on. */
static double engine_build_missing(double part, double whole)
{
    if (!(whole > 0) || isnan(part)) return NAN;
    return part >= whole ? 0 : part <= 0 ? 1 : 1 - part / whole;
}

struct pool_sums { double free, free_block, used, requested; };

static void pool_finish(struct sonde_engine_pool *p, struct pool_sums *sums)
{
    const double free_bytes = p->capacity_bytes - p->used_bytes;
    p->peak_bytes = fmax(p->peak_bytes, p->used_bytes);
    p->external = engine_build_missing(p->free_block_bytes, free_bytes);
    p->internal = engine_build_missing(p->requested_bytes, p->used_bytes);
    if (!isnan(p->external)) {
        sums->free += free_bytes;
        sums->free_block += fmin(p->free_block_bytes, free_bytes);
    }
    if (!isnan(p->internal)) {
        sums->used += p->used_bytes;
        sums->requested += fmin(p->requested_bytes, p->used_bytes);
    }
}

static double engine_build_plus(double sum, double v)
{
    return isnan(v) ? sum : isnan(sum) ? v : sum + v;
}

static int by_pool_bytes(const void *a, const void *b)
{
    const struct sonde_engine_pool *x = a, *y = b;
    if (x->used_bytes != y->used_bytes) return SONDE_CMP(y->used_bytes, x->used_bytes);
    const int name = strcmp(x->pool, y->pool);
    return name ? name : SONDE_CMP(x->who.pid, y->who.pid);
}

/* Fragmentation in all is by bytes: of all that is free, of all that is used. Peaks are of
 * different times and have no sum. */
static void pools_finish(struct sonde_engine *e)
{
    struct sonde_engine_pool *all = &e->all_pools;
    struct pool_sums sums = { 0 };
    int detailed = 0;
    *all = pool_none();
    for (uint32_t i = 0; i < e->pool_count; i++) {
        struct sonde_engine_pool *p = &e->pools[i];
        pool_finish(p, &sums);
        detailed |= p->detailed;
        all->used_bytes += p->used_bytes;
        all->capacity_bytes = engine_build_plus(all->capacity_bytes, p->capacity_bytes);
        all->requested_bytes = engine_build_plus(all->requested_bytes, p->requested_bytes);
        all->failures += p->failures;
        time_join(&all->allocation, &p->allocation);
        time_join(&all->release, &p->release);
    }
    all->external = engine_build_missing(sums.free_block, sums.free);
    all->internal = engine_build_missing(sums.requested, sums.used);
    if (!detailed) e->pool_count = 0; /* what is told by sonde_pool alone is part of the heap's */
    engine_build_sort(e->pools, e->pool_count, sizeof(*e->pools), by_pool_bytes);
}

/* ---- Tokenizers ---------------------------------------------------------------------------- */

static const struct { const char *label; uint64_t bytes_max; } lengths[] = {
#define SONDE__X(label, max) { label, max },
    SONDE_TOKENIZER_LENGTHS(SONDE__X)
#undef SONDE__X
};

static struct sonde_engine_tokenizer *tokenizer_of(struct sonde_engine *e,
                                                   const struct sonde_final_series *s)
{
    for (uint32_t i = 0; i < e->tokenizer_count; i++) {
        if (engine_build_is_of(e->tokenizers[i].who, e->tokenizers[i].tokenizer, s)) {
            return &e->tokenizers[i];
        }
    }
    struct sonde_engine_tokenizer *t =
        array_add((void **)&e->tokenizers, &e->tokenizer_count, sizeof(*t));
    if (!t) return NULL;
    t->who = who_of(s);
    t->tokenizer = s->subject;
    t->encode = t->decode = time_none();
    t->slowest = -1;
    for (size_t i = 0; i < SONDE_TOKENIZER_CLASSES; i++) {
        t->lengths[i] = (struct sonde_engine_length){
            .label = lengths[i].label, .bytes_min = i ? lengths[i - 1].bytes_max + 1 : 1,
            .bytes_max = lengths[i].bytes_max, .time = time_none(),
        };
    }
    return t;
}

static int on_tokenizer(struct sonde_engine *e, const struct sonde_final_series *s)
{
    const char *what = s->family + strlen("sonde_tokenizer_");
    struct sonde_engine_tokenizer *t = tokenizer_of(e, s);
    if (!t) return SONDE_ENOMEM;
    const uint64_t n = engine_build_count_of(s->value);
    if (!strcmp(what, "encode_seconds")) {
        size_t i = 0;
        while (i < SONDE_TOKENIZER_CLASSES && strcmp(lengths[i].label, s->detail) != 0) i++;
        const struct sonde_engine_time time = time_of(s);
        time_join(&t->encode, &time); /* of a class that we do not know, too */
        if (i < SONDE_TOKENIZER_CLASSES) t->lengths[i].time = time;
    }
    if (!strcmp(what, "decode_seconds")) t->decode = time_of(s);
    if (!strcmp(what, "bytes_total")) t->bytes = n;
    if (!strcmp(what, "tokens_total")) t->tokens = n;
    if (!strcmp(what, "lookups_total")) t->lookups = n;
    if (!strcmp(what, "merges_total")) t->merges = n;
    if (!strcmp(what, "cache_accesses_total")) {
        *(strcmp(s->detail, "hit") == 0 ? &t->cache_hits : &t->cache_misses) += n;
    }
    return 0;
}

static double engine_build_ratio(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : NAN;
}

static int by_tokenizer_time(const void *a, const void *b)
{
    const struct sonde_engine_tokenizer *x = a, *y = b;
    if (x->encode.sum_s != y->encode.sum_s) return SONDE_CMP(y->encode.sum_s, x->encode.sum_s);
    const int name = strcmp(x->tokenizer, y->tokenizer);
    return name ? name : SONDE_CMP(x->who.pid, y->who.pid);
}

static void tokenizers_finish(struct sonde_engine *e)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < e->tokenizer_count; i++) {
        struct sonde_engine_tokenizer *t = &e->tokenizers[i];
        if (!t->encode.count && !t->decode.count) continue; /* defined, and never used */
        t->tokens_per_s = t->encode.sum_s > 0 ? (double)t->tokens / t->encode.sum_s : NAN;
        t->bytes_per_token = engine_build_ratio(t->bytes, t->tokens);
        t->lookups_per_token = engine_build_ratio(t->lookups, t->tokens);
        t->merges_per_token = engine_build_ratio(t->merges, t->tokens);
        t->hit_ratio = engine_build_ratio(t->cache_hits, t->cache_hits + t->cache_misses);
        for (int k = 0; k < SONDE_TOKENIZER_CLASSES; k++) {
            struct sonde_engine_length *l = &t->lengths[k];
            l->share = t->encode.sum_s > 0 ? l->time.sum_s / t->encode.sum_s : NAN;
            if (!l->time.count) continue;
            if (t->slowest < 0 || l->time.max_s > t->lengths[t->slowest].time.max_s) t->slowest = k;
        }
        sonde_engine_advise(t);
        e->tokenizers[kept++] = *t;
    }
    e->tokenizer_count = kept;
    engine_build_sort(e->tokenizers, kept, sizeof(*e->tokenizers), by_tokenizer_time);
}

/* ---- All of it ----------------------------------------------------------------------------- */

static int on_series(struct sonde_engine *e, const struct sonde_final_series *s)
{
    if (!strcmp(s->family, "sonde_device_operation_seconds")) return on_operation(e, s);
    if (!strcmp(s->family, "sonde_device_fallbacks_total")) return on_fallback(e, s);
    if (!strcmp(s->family, "sonde_device_memory_bytes")) return on_device_memory(e, s);
    if (!strncmp(s->family, "sonde_memory_pool_", 18)) return engine_build_on_pool(e, s);
    if (!strncmp(s->family, "sonde_tokenizer_", 16)) return on_tokenizer(e, s);
    return 0; /* of a later version */
}

static int is_another(struct sonde_engine_who first, struct sonde_engine_who who)
{
    return first.program && (first.pid != who.pid || strcmp(first.program, who.program) != 0);
}

static void note_programs(struct sonde_engine *e)
{
    struct sonde_engine_who first = { NULL, 0 };
    for (uint32_t i = 0; i < e->device_count; i++) {
        e->several |= is_another(first, e->devices[i].who);
        first = e->devices[i].who;
    }
    for (uint32_t i = 0; i < e->pool_count; i++) {
        e->several |= is_another(first, e->pools[i].who);
        first = e->pools[i].who;
    }
    for (uint32_t i = 0; i < e->tokenizer_count; i++) {
        e->several |= is_another(first, e->tokenizers[i].who);
        first = e->tokenizers[i].who;
    }
}

int sonde_engine_build(const struct sonde_final_series *series, size_t count,
                       struct sonde_engine **out)
{
    struct sonde_engine *e = sonde__calloc(1, sizeof(*e));
    int rc = e ? 0 : SONDE_ENOMEM;
    *out = NULL;
    for (size_t i = 0; !rc && i < count; i++) rc = on_series(e, &series[i]);
    if (rc) {
        sonde_engine_destroy(e);
        return rc;
    }
    devices_finish(e);
    pools_finish(e);
    tokenizers_finish(e);
    note_programs(e);
    if (e->device_count || e->pool_count || e->tokenizer_count) *out = e;
    else sonde_engine_destroy(e);
    return 0;
}

int sonde_engine_of_model(const struct sonde_model *m, struct sonde_engine **out)
{
    struct sonde_final f;
    int rc = sonde_final_of_model(m, &f);
    if (rc) return rc;
    rc = sonde_engine_build(f.series, f.count, out);
    sonde_final_release(&f);
    return rc;
}

void sonde_engine_destroy(struct sonde_engine *e)
{
    if (!e) return;
    for (uint32_t i = 0; i < e->device_count; i++) {
        sonde__free(e->devices[i].ops);
        sonde__free(e->devices[i].reasons);
    }
    sonde__free(e->devices);
    sonde__free(e->pools);
    sonde__free(e->tokenizers);
    sonde__free(e);
}
