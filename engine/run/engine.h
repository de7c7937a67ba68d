/* engine.h - requests in, tokens out: a queue, slots, and one thread that computes for all of them.
 *
 *   submit ─▶ queue ─▶ slot ─▶ ┌ one pass: chunks of prompts, a token of each answer ┐ ─▶ on_token
 *                              └ sample for those whose prompt is done               ┘
 *
 * Continuous batching: requests join and leave between passes. Of long prompts at most
 * batch_tokens − (answers running) tokens are computed in a pass, so that answers go on
 * meanwhile. */
#ifndef ENGINE_RUN_ENGINE_H
#define ENGINE_RUN_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "model/forward.h"
#include "model/sampler.h"
#include "sonde/inference.h"
#include "text/tokenizer.h"

struct engine;

struct engine_options {
    const char *model_path;
    uint32_t threads;            /* 0 = CPUs there are */
    uint32_t slots;              /* 0 = 4 */
    uint32_t context;            /* positions a slot; 0 = the model's, at most 4096 */
    uint32_t batch_tokens;       /* tokens in one pass; 0 = 256 */
    uint32_t queue_max;          /* requests that may wait; 0 = 256 */
    uint64_t memory_limit;       /* bytes for weights, KV and activations; 0 = none */
    int deterministic;           /* seeds that requests do not give follow from `seed` */
    int seed_set;
    uint64_t seed;
    const char *event_log;       /* JSON lines of what happened when; NULL = none */
    const char *device;          /* "cpu", "opencl", "opencl:N"; NULL = "cpu" */
    uint64_t device_memory;      /* bytes of the device's memory; 0 = all that it has */
    int operations;              /* times of every pass by layer and operation, for sonde */
};

/* What they may be at most: command lines and environments are held to it. */
enum { ENGINE_THREADS_MAX = 256, ENGINE_SLOTS_MAX = 256, ENGINE_CONTEXT_MIN = 16,
       ENGINE_CONTEXT_MAX = 1 << 20, ENGINE_BATCH_MAX = 8192, ENGINE_QUEUE_MAX = 65536 };

/* Reads SONDE_…/BITNET_… variables over what is set (sonde_inference_env); -1 and why names the
 * variable, its value and what is allowed. */
int engine_options_from_env(struct engine_options *o, struct fail *why);

int engine_create(const struct engine_options *options, struct engine **out, struct fail *why);
/* Requests that run are ended as cancelled. */
void engine_destroy(struct engine *e);

const struct model *engine_model(const struct engine *e);
const struct tokenizer *engine_tokenizer(const struct engine *e);
/* What a memory limit changed, in a sentence; "" = nothing. */
const char *engine_notice(const struct engine *e);
/* "cpu", or that of the device that computes products: "opencl0" */
const char *engine_device_name(const struct engine *e);
/* What the device has of the model, in a sentence; "" = there is none but the CPU. */
const char *engine_device(const struct engine *e);
/* Positions that a request may take, prompt and answer. */
uint32_t engine_context(const struct engine *e);
uint32_t engine_slots(const struct engine *e);
uint32_t engine_threads(const struct engine *e);
uint32_t engine_name(const struct engine *e); /* of the model, for sonde: sonde_name() */
struct event_log *engine_event_log(const struct engine *e); /* NULL = none */

enum engine_finish { ENGINE_STOP, ENGINE_LENGTH, ENGINE_CANCELLED, ENGINE_FAILED };

struct engine_timings {          /* as llama.cpp's "timings" */
    uint32_t cache_n, prompt_n, predicted_n;
    double prompt_ms, predicted_ms;
    double queue_ms, total_ms;
    const struct engine_profile *profile; /* NULL unless it was asked for */
};

/* What the engine knows of one request (X-Profile: true), borrowed during on_end. */
struct engine_profile {
    double prefill_ms, decode_ms; /* of passes, its share by tokens */
    double passes_ms;            /* passes that it was in, as a whole */
    double sample_ms, detokenize_ms;
    uint32_t passes, others_max; /* others in one pass, at most */
    uint64_t others;             /* in all passes together */
    uint32_t preempted;          /* how often it was put back for want of memory */
    /* Of the passes: [layer · FORWARD_OPS + op], layer == layers: embedding and logits */
    uint32_t layers;
    const uint64_t *op_ns, *op_calls;
};

struct engine_request {
    const int32_t *prompt;       /* copied */
    uint32_t prompt_count;
    uint32_t tokens_max;
    struct sampler_params sampler;
    int seed_set;
    int ignore_end;              /* go on after end-of-generation tokens */
    int profile;                 /* X-Profile: true */
    struct sonde_request sonde;  /* begun by the caller, when it came; ended by the engine */
    const char *name;            /* its id in the event log; copied; NULL = made of its number */

    /* On the engine's thread: keep them short. piece: bytes of the token. Non-zero: the caller
     * wants no more (stop string, client gone). Exactly one on_end, also after cancel. */
    int (*on_token)(void *context, int32_t token, const char *piece, size_t bytes);
    void (*on_end)(void *context, enum engine_finish finish, const char *why,
                   const struct engine_timings *timings);
    void *context;
};

/* 0 and *id, or -1 (the queue is full: why; the prompt is too long: why). on_end is not called
 * then, and the sonde request is left to the caller. */
enum engine_refusal { ENGINE_REFUSED_NOT, ENGINE_REFUSED_FULL, ENGINE_REFUSED_TOO_LONG,
                      ENGINE_REFUSED_STOPPING, ENGINE_REFUSED_MEMORY };
enum engine_refusal engine_submit(struct engine *e, const struct engine_request *r, uint64_t *id,
                                  struct fail *why);
void engine_cancel(struct engine *e, uint64_t id); /* unknown ids are passed over */
/* Accept no more, wait until all that run and wait have ended, at most this long; those left are
 * cancelled. */
void engine_drain(struct engine *e, double seconds_max);

struct engine_counts { uint64_t running, waiting, done, failed, cancelled, tokens_in, tokens_out; };
void engine_counts(struct engine *e, struct engine_counts *out);

#endif
