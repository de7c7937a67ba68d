/* engine.c - the series of engine.h: devices, memory pools, tokenizers. Names are in the header
 * too, for engines that record them by themselves; analyze/engine.c makes reports of them. */
#include "sonde/engine.h"

#include "record/ready.h"

static struct ready device_op =
    READY(SONDE_HISTOGRAM, "sonde_device_operation_seconds",
          "Time of operations, by the device that did them.", "seconds", SONDE_KIND_TIME, 1e-9,
          LABELS("device", "operation"));
static struct ready device_fallbacks =
    READY(SONDE_COUNTER, "sonde_device_fallbacks_total",
          "Operations that another device had to do, by the device that could not.", NULL,
          SONDE_KIND_COUNTER, 1, LABELS("device", "reason"));
static struct ready device_memory =
    READY(SONDE_GAUGE, "sonde_device_memory_bytes", "Memory of a device: used and total.", "bytes",
          SONDE_KIND_MEMORY, 1, LABELS("device", "state"));

static struct ready pool_capacity =
    READY(SONDE_GAUGE, "sonde_memory_pool_capacity_bytes", "What a pool may hand out.", "bytes",
          SONDE_KIND_MEMORY, 1, LABELS("pool"));
static struct ready pool_peak =
    READY(SONDE_GAUGE, "sonde_memory_pool_peak_bytes", "The most a pool ever had in use.", "bytes",
          SONDE_KIND_MEMORY, 1, LABELS("pool"));
static struct ready pool_requested =
    READY(SONDE_GAUGE, "sonde_memory_pool_requested_bytes",
          "What callers asked for, of what a pool has in use.", "bytes", SONDE_KIND_MEMORY, 1,
          LABELS("pool"));
static struct ready pool_free_block =
    READY(SONDE_GAUGE, "sonde_memory_pool_free_block_bytes",
          "The largest request that a pool could serve.", "bytes", SONDE_KIND_MEMORY, 1,
          LABELS("pool"));
static struct ready pool_allocation =
    READY(SONDE_HISTOGRAM, "sonde_memory_pool_allocation_seconds",
          "Time a pool took to allocate.", "seconds", SONDE_KIND_TIME, 1e-9, LABELS("pool"));
static struct ready pool_free =
    READY(SONDE_HISTOGRAM, "sonde_memory_pool_free_seconds", "Time a pool took to free.",
          "seconds", SONDE_KIND_TIME, 1e-9, LABELS("pool"));
static struct ready pool_failures =
    READY(SONDE_COUNTER, "sonde_memory_pool_failures_total",
          "Requests that a pool could not serve.", NULL, SONDE_KIND_COUNTER, 1, LABELS("pool"));

static struct ready tokenizer_encode =
    READY(SONDE_HISTOGRAM, "sonde_tokenizer_encode_seconds",
          "Time to encode an input, by its length in bytes.", "seconds", SONDE_KIND_TIME, 1e-9,
          LABELS("tokenizer", "length"));
static struct ready tokenizer_decode =
    READY(SONDE_HISTOGRAM, "sonde_tokenizer_decode_seconds", "Time to decode tokens.", "seconds",
          SONDE_KIND_TIME, 1e-9, LABELS("tokenizer"));
static struct ready tokenizer_bytes =
    READY(SONDE_COUNTER, "sonde_tokenizer_bytes_total", "Bytes encoded.", "bytes",
          SONDE_KIND_THROUGHPUT, 1, LABELS("tokenizer"));
static struct ready tokenizer_tokens =
    READY(SONDE_COUNTER, "sonde_tokenizer_tokens_total", "Tokens that bytes were encoded to.",
          NULL, SONDE_KIND_THROUGHPUT, 1, LABELS("tokenizer"));
static struct ready tokenizer_lookups =
    READY(SONDE_COUNTER, "sonde_tokenizer_lookups_total", "Look-ups in the vocabulary.", NULL,
          SONDE_KIND_COUNTER, 1, LABELS("tokenizer"));
static struct ready tokenizer_merges =
    READY(SONDE_COUNTER, "sonde_tokenizer_merges_total", "Pairs of pieces merged.", NULL,
          SONDE_KIND_COUNTER, 1, LABELS("tokenizer"));
static struct ready tokenizer_cache =
    READY(SONDE_COUNTER, "sonde_tokenizer_cache_accesses_total",
          "Look-ups in the tokenizer's own cache, by result.", NULL, SONDE_KIND_COUNTER, 1,
          LABELS("tokenizer", "result"));

static const char *name_or(const char *name, const char *other)
{
    return name && *name ? name : other;
}

static struct sonde_gauge record_engine_gauge_of(struct ready *r, const char *a, const char *b)
{
    const char *const values[] = { a, b };
    return sonde_gauge_bind(ready_family(r), values);
}

static struct sonde_hist hist_of(struct ready *r, const char *a, const char *b)
{
    const char *const values[] = { a, b };
    return sonde_hist_bind(ready_family(r), values);
}

static struct sonde_counter counter_of(struct ready *r, const char *a, const char *b)
{
    const char *const values[] = { a, b };
    return sonde_counter_bind(ready_family(r), values);
}

/* ---- Devices ------------------------------------------------------------------------------- */

struct sonde_device sonde_device(const char *name)
{
    const char *device = name_or(name, "cpu");
    return (struct sonde_device){ .used = record_engine_gauge_of(&device_memory, device, "used"),
                                  .total =
                                      record_engine_gauge_of(&device_memory, device, "total") };
}

struct sonde_device_op sonde_device_op(const char *device, const char *operation)
{
    return (struct sonde_device_op){
        hist_of(&device_op, name_or(device, "cpu"), name_or(operation, "other"))
    };
}

void sonde_device_fallback(const char *device, const char *reason)
{
    ready_count(&device_fallbacks, name_or(device, "cpu"), name_or(reason, "other"), 1);
}

/* ---- Pools --------------------------------------------------------------------------------- */

struct sonde_allocator sonde_allocator(const char *name)
{
    const char *pool = name_or(name, "default");
    return (struct sonde_allocator){
        .used = sonde_pool(pool),
        .capacity = record_engine_gauge_of(&pool_capacity, pool, NULL),
        .peak = record_engine_gauge_of(&pool_peak, pool, NULL),
        .requested = record_engine_gauge_of(&pool_requested, pool, NULL),
        .free_block = record_engine_gauge_of(&pool_free_block, pool, NULL),
        .allocation = hist_of(&pool_allocation, pool, NULL),
        .release = hist_of(&pool_free, pool, NULL),
        .failures = counter_of(&pool_failures, pool, NULL),
    };
}

/* ---- Tokenizers ---------------------------------------------------------------------------- */

void sonde_tokenizer_define(struct sonde_tokenizer *t, const char *name)
{
    static const char *const lengths[] = {
#define SONDE__X(label, max) label,
        SONDE_TOKENIZER_LENGTHS(SONDE__X)
#undef SONDE__X
    };
    _Static_assert(sizeof(lengths) / sizeof(lengths[0]) == SONDE_TOKENIZER_CLASSES,
                   "one histogram a class");
    const char *tokenizer = name_or(name, "default");
    for (size_t i = 0; i < SONDE_TOKENIZER_CLASSES; i++) {
        t->encode[i] = hist_of(&tokenizer_encode, tokenizer, lengths[i]);
    }
    t->decode = hist_of(&tokenizer_decode, tokenizer, NULL);
    t->bytes = counter_of(&tokenizer_bytes, tokenizer, NULL);
    t->tokens = counter_of(&tokenizer_tokens, tokenizer, NULL);
    t->lookups = counter_of(&tokenizer_lookups, tokenizer, NULL);
    t->merges = counter_of(&tokenizer_merges, tokenizer, NULL);
    t->cache_hits = counter_of(&tokenizer_cache, tokenizer, "hit");
    t->cache_misses = counter_of(&tokenizer_cache, tokenizer, "miss");
}
