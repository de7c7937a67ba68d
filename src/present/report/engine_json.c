/* engine_json.c - devices, pools and tokenizers for programs. */
#include <math.h>

#include "base/json.h"
#include "present/report/engine.h"
#include "profile/profile.h"

/* To six decimals: more is noise. */
static void share_put(struct sonde_buf *out, const char *key, double share)
{
    sonde_json_num(out, key, round(share * 1e6) / 1e6);
}

static void who_put(struct sonde_buf *out, const struct sonde_engine_who *who)
{
    sonde_json_str(out, "program", who->program);
    sonde_json_u64(out, "pid", who->pid);
}

static void time_put(struct sonde_buf *out, const struct sonde_engine_time *t)
{
    sonde_json_u64(out, "count", t->count);
    sonde_json_num(out, "seconds", t->sum_s);
    sonde_json_num(out, "mean_s", t->mean_s);
    sonde_json_num(out, "p50_s", t->p50_s);
    sonde_json_num(out, "p99_s", t->p99_s);
    sonde_json_num(out, "max_s", t->max_s);
}

static void time_object(struct sonde_buf *out, const char *key, const struct sonde_engine_time *t)
{
    sonde_json_key_open(out, key, '{');
    time_put(out, t);
    sonde_json_close(out, '}');
}

/* ---- Devices ------------------------------------------------------------------------------- */

static void device_put(struct sonde_buf *out, const struct sonde_engine_device *d)
{
    sonde_json_open(out, '{');
    who_put(out, &d->who);
    sonde_json_str(out, "device", d->device);
    sonde_json_str(out, "kind", d->gpu ? "gpu" : "cpu");
    sonde_json_u64(out, "count", d->operations);
    sonde_json_num(out, "seconds", d->seconds);
    share_put(out, "share", d->share);
    sonde_json_num(out, "memory_used_bytes", d->used_bytes);
    sonde_json_num(out, "memory_total_bytes", d->total_bytes);
    share_put(out, "memory_efficiency", d->efficiency);
    sonde_json_key_open(out, "operations", '[');
    for (uint32_t i = 0; i < d->op_count; i++) {
        sonde_json_open(out, '{');
        sonde_json_str(out, "operation", d->ops[i].operation);
        time_put(out, &d->ops[i].time);
        share_put(out, "share", d->ops[i].share);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_u64(out, "fallbacks", d->fallbacks);
    sonde_json_key_open(out, "fallback_reasons", '{');
    for (uint32_t i = 0; i < d->reason_count; i++) {
        sonde_json_u64(out, d->reasons[i].reason, d->reasons[i].count);
    }
    sonde_json_close(out, '}');
    sonde_json_close(out, '}');
}

static void devices_put(struct sonde_buf *out, const struct sonde_engine *e)
{
    if (!e->device_count) return;
    sonde_json_key_open(out, "devices", '{');
    sonde_json_u64(out, "cpu_operations", e->cpu_operations);
    sonde_json_u64(out, "gpu_operations", e->gpu_operations);
    sonde_json_u64(out, "fallbacks", e->fallbacks);
    sonde_json_num(out, "seconds", e->device_seconds);
    sonde_json_key_open(out, "list", '[');
    for (uint32_t i = 0; i < e->device_count; i++) device_put(out, &e->devices[i]);
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}

/* ---- Pools --------------------------------------------------------------------------------- */

static void pool_put(struct sonde_buf *out, const struct sonde_engine_pool *p)
{
    sonde_json_num(out, "used_bytes", p->used_bytes);
    if (p->pool) sonde_json_num(out, "peak_bytes", p->peak_bytes);
    sonde_json_num(out, "capacity_bytes", p->capacity_bytes);
    sonde_json_num(out, "requested_bytes", p->requested_bytes);
    if (p->pool) sonde_json_num(out, "free_block_bytes", p->free_block_bytes);
    time_object(out, "allocations", &p->allocation);
    time_object(out, "frees", &p->release);
    sonde_json_u64(out, "failures", p->failures);
    share_put(out, "fragmentation_external", p->external);
    share_put(out, "fragmentation_internal", p->internal);
}

static void pools_put(struct sonde_buf *out, const struct sonde_engine *e)
{
    if (!e->pool_count) return;
    sonde_json_key_open(out, "pools", '{');
    sonde_json_key_open(out, "all", '{');
    pool_put(out, &e->all_pools);
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "list", '[');
    for (uint32_t i = 0; i < e->pool_count; i++) {
        sonde_json_open(out, '{');
        who_put(out, &e->pools[i].who);
        sonde_json_str(out, "pool", e->pools[i].pool);
        pool_put(out, &e->pools[i]);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}

/* ---- Tokenizers ---------------------------------------------------------------------------- */

static void lengths_put(struct sonde_buf *out, const struct sonde_engine_tokenizer *t)
{
    sonde_json_key_open(out, "lengths", '[');
    for (int i = 0; i < SONDE_TOKENIZER_CLASSES; i++) {
        const struct sonde_engine_length *l = &t->lengths[i];
        if (!l->time.count) continue;
        sonde_json_open(out, '{');
        sonde_json_str(out, "bytes", l->label);
        time_put(out, &l->time);
        share_put(out, "share", l->share);
        sonde_json_bool(out, "slowest", i == t->slowest);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void tokenizer_put(struct sonde_buf *out, const struct sonde_engine_tokenizer *t)
{
    sonde_json_open(out, '{');
    who_put(out, &t->who);
    sonde_json_str(out, "tokenizer", t->tokenizer);
    time_object(out, "encodes", &t->encode);
    time_object(out, "decodes", &t->decode);
    sonde_json_u64(out, "bytes", t->bytes);
    sonde_json_u64(out, "tokens", t->tokens);
    sonde_json_u64(out, "lookups", t->lookups);
    sonde_json_u64(out, "merges", t->merges);
    sonde_json_u64(out, "cache_hits", t->cache_hits);
    sonde_json_u64(out, "cache_misses", t->cache_misses);
    sonde_json_num(out, "tokens_per_s", t->tokens_per_s);
    share_put(out, "bytes_per_token", t->bytes_per_token);
    share_put(out, "lookups_per_token", t->lookups_per_token);
    share_put(out, "merges_per_token", t->merges_per_token);
    share_put(out, "cache_hit_ratio", t->hit_ratio);
    lengths_put(out, t);
    sonde_json_key_open(out, "advice", '[');
    for (uint32_t i = 0; i < t->advice_count; i++) {
        sonde_json_open(out, '{');
        sonde_json_str(out, "kind", sonde_engine_advice_name(t->advice[i].kind));
        sonde_json_str(out, "text", t->advice[i].text);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}

static void tokenizers_put(struct sonde_buf *out, const struct sonde_engine *e)
{
    if (!e->tokenizer_count) return;
    sonde_json_key_open(out, "tokenizers", '[');
    for (uint32_t i = 0; i < e->tokenizer_count; i++) tokenizer_put(out, &e->tokenizers[i]);
    sonde_json_close(out, ']');
}

void sonde_engine_json(const struct sonde_engine *e, struct sonde_buf *out)
{
    if (!e) return;
    devices_put(out, e);
    pools_put(out, e);
    tokenizers_put(out, e);
}

void sonde_engine_answer(const struct sonde_engine *e, double time_s, struct sonde_buf *out)
{
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", time_s);
    sonde_engine_json(e, out);
    if (!e || !e->device_count) sonde_json_str(out, "devices", NULL);
    if (!e || !e->pool_count) sonde_json_str(out, "pools", NULL);
    if (!e || !e->tokenizer_count) sonde_json_str(out, "tokenizers", NULL);
    sonde_buf_puts(out, "}\n");
}

int sonde_engine_answer_run(const struct sonde_profile *p, int *any, struct sonde_buf *out)
{
    const struct sonde_final *run = p->final;
    struct sonde_engine *e;
    const int rc = sonde_engine_build(run ? run->series : NULL, run ? run->count : 0, &e);
    if (rc) return rc;
    *any = e != NULL;
    sonde_engine_answer(e, (double)p->end_ns * 1e-9, out);
    sonde_engine_destroy(e);
    return out->error;
}
