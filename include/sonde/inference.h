/* inference.h - what an inference engine tells about its requests: arrival, phases, tokens,
 * batches, caches and memory. The agent makes of it time to first token, time between tokens,
 * tokens a second, queue times, hit rates and goodput, each with percentiles, for every request and
 * in all.
 *
 *     struct sonde_request r;
 *     sonde_request_begin(&r, &(struct sonde_request_info){ .size = sizeof(struct sonde_request_info),
 *                                                           .model = model, .route = route });
 *     ... in the queue ...
 *     struct sonde_phase p;
 *     sonde_phase_begin(&p, &r, SONDE_PHASE_PREFILL);
 *     ...
 *     sonde_phase_end(&p, n_prompt);              // tokens it was about; 0 = none
 *     sonde_request_tokens(&r, 1);                // a token is out
 *     sonde_request_end(&r, SONDE_OK, NULL);
 *
 * Contract as in sonde.h: any thread, signal handlers too, no allocation, no lock, never fails; an
 * event is one record in the thread's ring (a text that goes with it another one). A request is a
 * value of the engine's: it may be copied, and used by any thread and by several at once. Events
 * of one request are put in order by their times. It belongs to the process that began it: what a
 * forked child says about it is counted as being about an unknown request.
 *
 * An engine that serves several requests with one forward pass tells the batch, and who is in it;
 * the agent divides its time by tokens.
 *
 * Calls that end in _at take the event's time, as sonde_ticks() gave it; 0 = now. So an engine that
 * logs what it does reads the clock once, and both say the same to the tick. A time in the future
 * is now, and one before the request, phase or batch began is when that did. */
#ifndef SONDE_INFERENCE_H
#define SONDE_INFERENCE_H

#include "sonde/phases.h"
#include "sonde/prefix.h"
#include "sonde/sonde.h"

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* function and struct of one name, as with stat() */
extern "C" {
#endif

/* ---- Requests ----------------------------------------------------------------------------- */

#define SONDE_REQUEST_TEXT_MAX 40 /* bytes kept of an id and of an error type */
#define SONDE_REQUEST_ATTR_MAX 32 /* bytes kept of an attribute's text */

struct sonde_request {          /* opaque; all zero = none: events for it are passed over */
    uint64_t id;                /* unique in this process; also the id of its span */
    uint64_t begin;             /* ticks */
    struct sonde_trace trace;   /* to hand on (sonde_traceparent_format); its span is the request */
    uint64_t parent;            /* span that it is part of; 0 = none */
};

struct sonde_request_info {
    size_t size;                 /* sizeof(struct sonde_request_info); fields are only appended */
    uint32_t model, route;       /* sonde_name(): "llama-3-8b", "/v1/chat/completions"; 0 = none */
    uint64_t arrived;            /* sonde_ticks() when it came, if that was before; 0 = now */
    struct sonde_trace trace;    /* of the caller's traceparent; all zero = the thread's, or new */
    const char *id;              /* the engine's own id of it, up to 40 bytes; NULL = none */
    uint32_t tokens_max;         /* output tokens asked for at most; 0 = not known */
    uint32_t profile;            /* 1 = keep a profile of this request alone (X-Profile: true) */
};

/* info NULL, or of a size this library is too old for: nothing is known. */
SONDE_API void sonde_request_begin(struct sonde_request *r, const struct sonde_request_info *info);

/* A parameter of it (temperature, top_k, …), shown with it and with its span. key: sonde_name(). */
SONDE_API void sonde_request_attr_int(const struct sonde_request *r, uint32_t key, int64_t value);
SONDE_API void sonde_request_attr_double(const struct sonde_request *r, uint32_t key, double value);
SONDE_API void sonde_request_attr_str(const struct sonde_request *r, uint32_t key,
                                      const char *value);

/* Its prompt has this many tokens, of which `reused` need not be computed (prefix or KV cache). */
SONDE_API void sonde_request_prompt(const struct sonde_request *r, uint64_t tokens,
                                    uint64_t reused);

/* How its prompt begins, so that prompts which share their beginning are seen, and what a prefix
 * cache would save can be computed; prompts themselves are not kept. tokens: the first 768 at
 * least, or all. It is an attribute that is not shown. */
static inline void sonde_request_prefix(const struct sonde_request *r, const int32_t *tokens,
                                        size_t count)
{
    sonde_request_attr_int(r, sonde_name("sonde.prefix"),
                           (int64_t)sonde_prefix_signature(tokens, count));
}

/* n output tokens are out now: the first is what time to first token ends with. */
SONDE_API void sonde_request_tokens(const struct sonde_request *r, uint64_t n);
SONDE_API void sonde_request_tokens_at(const struct sonde_request *r, uint64_t n, uint64_t at);

/* error_type: "oom", "context_full", …, up to 40 bytes; NULL = none. Events with a later time are
 * counted, not used. */
SONDE_API void sonde_request_end(const struct sonde_request *r, enum sonde_outcome outcome,
                                 const char *error_type);
SONDE_API void sonde_request_end_at(const struct sonde_request *r, enum sonde_outcome outcome,
                                    const char *error_type, uint64_t at);

/* All of a request in one call, for an engine that answers one at a time: it has just ended, took
 * so long and gave so many tokens, all at its end, which is what its time to first token says.
 * What a cache had of it is sonde_cache_access in sonde.h. */
SONDE_API void sonde_inference_record(uint32_t model, uint64_t tokens, uint64_t ns);

/* ---- Phases ------------------------------------------------------------------------------- */

struct sonde_phase {             /* opaque */
    struct sonde_span span;
    struct sonde_trace before;   /* of the thread */
    uint32_t kind, flags;
};

/* On one thread, innermost ends first: it is also a span of that thread, so that CPU samples and
 * allocations inside belong to the phase. kind: enum sonde_phase_kind, or SONDE_PHASE_NAME(…).
 * r NULL = of no one request. A forward pass for several is a batch, below; time of a phase inside
 * a phase counts for both. */
SONDE_API void sonde_phase_begin(struct sonde_phase *p, const struct sonde_request *r,
                                 uint32_t kind);
SONDE_API void sonde_phase_end(struct sonde_phase *p, uint64_t tokens);
SONDE_API void sonde_phase_begin_at(struct sonde_phase *p, const struct sonde_request *r,
                                    uint32_t kind, uint64_t at);
SONDE_API void sonde_phase_end_at(struct sonde_phase *p, uint64_t tokens, uint64_t at);

/* A phase that began and ended elsewhere (a queue, a device): ticks. No thread's samples are in
 * it. */
SONDE_API void sonde_phase_record(const struct sonde_request *r, uint32_t kind, uint64_t begin,
                                  uint64_t end, uint64_t tokens);

/* ---- Batches ------------------------------------------------------------------------------ */

struct sonde_batch {             /* opaque */
    struct sonde_phase phase;
    uint64_t prompt_tokens, output_tokens;
    struct sonde_trace first;    /* of the first request in it */
    uint64_t part[6];            /* what has not been written yet of who is in it */
    uint32_t requests, parts;
};

/* One forward pass for several requests, on one thread. It is a span named prefill or decode,
 * whichever more of its tokens are for. */
SONDE_API void sonde_batch_begin(struct sonde_batch *b);
SONDE_API void sonde_batch_begin_at(struct sonde_batch *b, uint64_t at);
/* Of which request how many tokens are in it: of its prompt, and of its output. */
SONDE_API void sonde_batch_add(struct sonde_batch *b, const struct sonde_request *r,
                               uint64_t prompt_tokens, uint64_t output_tokens);
SONDE_API void sonde_batch_end(struct sonde_batch *b);
SONDE_API void sonde_batch_end_at(struct sonde_batch *b, uint64_t at);

/* ---- Models, memory, caches --------------------------------------------------------------- */

#define SONDE_MODEL_TEXT_MAX 24  /* bytes kept of a kind of memory and of a backend */

struct sonde_model_load { uint64_t begin; uint32_t model, pad; };

SONDE_API void sonde_model_load_begin(struct sonde_model_load *l, uint32_t model);
SONDE_API void sonde_model_load_end(struct sonde_model_load *l, uint64_t bytes,
                                    enum sonde_outcome outcome);

/* What it runs on: "cpu", "cuda", "vulkan", … */
SONDE_API void sonde_model_backend(uint32_t model, const char *backend);

/* Bytes in use now for a purpose: "weights", "kv", "compute", or any name. */
SONDE_API void sonde_model_memory(uint32_t model, const char *kind, uint64_t bytes);

/* KV cells in use of those there are. */
SONDE_API void sonde_model_kv(uint32_t model, uint64_t used, uint64_t total);

/* Requests that wait, as the engine counts them, where it does. */
SONDE_API void sonde_model_waiting(uint32_t model, uint64_t requests);

/* ---- Environment -------------------------------------------------------------------------- */

/* What the environment asks of an engine: the first of SONDE_…, BITNET_… and NLOCAL_… that is set,
 * of DETERMINISTIC, SEED, BATCH_SIZE, MEMORY_LIMIT ("512MB", "1GB": powers of 1024), NUM_THREADS,
 * PROFILE_ENABLED, PROFILE_CPU, PROFILE_MEMORY, PROFILE_GPU. */
struct sonde_inference_env {
    size_t size;                 /* sizeof(struct sonde_inference_env), set by the caller */
    int deterministic;           /* 0 or 1 */
    int seed_set;
    uint64_t seed;
    uint32_t batch_size, threads;/* 0 = not set */
    uint64_t memory_limit;       /* bytes; 0 = not set */
    int profile, profile_cpu, profile_memory, profile_gpu; /* -1 = not set */
};

/* 0, or SONDE_EINVAL and in error (may be NULL) a sentence that names the variable, its value and
 * what is allowed; *out is then as it was. Not in signal handlers. */
SONDE_API int sonde_inference_env(struct sonde_inference_env *out, char *error,
                                  size_t error_size);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
