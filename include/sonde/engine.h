/* engine.h - what an inference engine tells about its insides: devices, memory pools, the
 * tokenizer. Reports and the dashboard have a section for each, made of the series that are named
 * here; an engine in another language may record the same series by sonde.h and has the same
 * sections.
 *
 * Contract as in sonde.h: calls that record are for any thread and signal handlers, do not allocate
 * or lock, and never fail. Handles are values, define them once and keep them; those that are all
 * zero, or were defined while recording was off, are harmless. A name that is NULL or empty is
 * "default", that of a device "cpu". */
#ifndef SONDE_ENGINE_H
#define SONDE_ENGINE_H

#include "sonde/sonde.h"

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* function and struct of one name, as with stat() */
extern "C" {
#endif

/* ---- Devices ------------------------------------------------------------------------------ */

/* sonde_device_operation_seconds{device,operation}      a histogram: how many, how long
 * sonde_device_fallbacks_total{device,reason}           operations that another device had to do
 * sonde_device_memory_bytes{device,state="used"|"total"} */
struct sonde_device_op { struct sonde_hist seconds; };
struct sonde_device { struct sonde_gauge used, total; };

/* name: "cpu", "cuda0", "opencl0" …; anything that is not "cpu" or "cpu…" counts as a GPU. */
SONDE_API struct sonde_device sonde_device(const char *name);
/* operation: "matmul", "quantize", "attention", "norm", … */
SONDE_API struct sonde_device_op sonde_device_op(const char *device, const char *operation);
static inline void sonde_device_op_record(struct sonde_device_op op, uint64_t ns)
{
    sonde_hist_record(op.seconds, ns);
}
/* count operations that took ns in all, where a clock reading for each would cost too much: number
 * and sum are exact, percentiles are of means. */
static inline void sonde_device_op_record_mean(struct sonde_device_op op, uint64_t ns,
                                               uint64_t count)
{
    if (!count) return;
    const uint64_t mean = ns / count;
    sonde_hist_record_many(op.seconds, mean, count - 1);
    sonde_hist_record(op.seconds, ns - mean * (count - 1));
}
/* device: the one that could not; reason: "unsupported", "out_of_memory", …; NULL = "other". The
 * operation itself is recorded for the device that did it. */
SONDE_API void sonde_device_fallback(const char *device, const char *reason);
static inline void sonde_device_memory(struct sonde_device d, uint64_t used, uint64_t total)
{
    sonde_gauge_set(d.used, (double)used);
    sonde_gauge_set(d.total, (double)total);
}

/* ---- Pools -------------------------------------------------------------------------------- */

/* What an allocator of one's own says after each request, with the calls of sonde.h:
 *
 *     struct sonde_allocator a = sonde_allocator("kv");
 *     sonde_gauge_set(a.capacity, arena_bytes);
 *     sonde_pool_add(a.used, block_bytes); sonde_gauge_add(a.requested, bytes);
 *     sonde_gauge_set(a.free_block, largest_free_bytes); sonde_hist_record(a.allocation, ns);
 *
 * Beside sonde_memory_pool_bytes{pool} (sonde_pool in sonde.h, which is the bytes in use):
 * sonde_memory_pool_capacity_bytes{pool}        what it may hand out
 * sonde_memory_pool_peak_bytes{pool}            the most that was ever in use; 0 = not told: then
 *                                               it is the most that the agent saw
 * sonde_memory_pool_requested_bytes{pool}       what callers asked for of what is in use
 * sonde_memory_pool_free_block_bytes{pool}      the largest request that would succeed
 * sonde_memory_pool_allocation_seconds{pool}    histograms
 * sonde_memory_pool_free_seconds{pool}
 * sonde_memory_pool_failures_total{pool} */
struct sonde_allocator {
    struct sonde_pool used;
    struct sonde_gauge capacity, peak, requested, free_block;
    struct sonde_hist allocation, release;
    struct sonde_counter failures;
};
SONDE_API struct sonde_allocator sonde_allocator(const char *pool);

/* ---- Tokenizers --------------------------------------------------------------------------- */

/* sonde_tokenizer_encode_seconds{tokenizer,length}      length: of the input in bytes, a class
 * sonde_tokenizer_decode_seconds{tokenizer}
 * sonde_tokenizer_bytes_total, _tokens_total, _lookups_total, _merges_total {tokenizer}
 * sonde_tokenizer_cache_accesses_total{tokenizer,result="hit"|"miss"}
 * Never any text. */
#define SONDE_TOKENIZER_LENGTHS(X) /* label, upper bound in bytes */                           \
    X("1-64", 64) X("65-256", 256) X("257-1024", 1024) X("1025-4096", 4096)                    \
    X("4097-16384", 16384) X("16385+", UINT64_MAX)
enum { SONDE_TOKENIZER_CLASSES = 6 };

struct sonde_tokenizer {
    struct sonde_hist encode[SONDE_TOKENIZER_CLASSES], decode;
    struct sonde_counter bytes, tokens, lookups, merges, cache_hits, cache_misses;
};
SONDE_API void sonde_tokenizer_define(struct sonde_tokenizer *t, const char *name);

struct sonde_tokenizer_encoded {
    uint64_t ns, bytes, tokens;  /* of this input */
    uint64_t lookups, merges, cache_hits, cache_misses;
};
SONDE_API void sonde_tokenizer_encoded(const struct sonde_tokenizer *t,
                                       const struct sonde_tokenizer_encoded *e);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
