/* engine_private.h - what the files of run/ share.
 *
 * Two threads' worth of state: what callers touch is under the lock (the queue, cancellations,
 * counts); all else belongs to the engine's thread. A job is in the queue or in `running`, or about
 * to be freed. Callbacks are called without the lock, from the engine's thread only. */
#ifndef ENGINE_RUN_ENGINE_PRIVATE_H
#define ENGINE_RUN_ENGINE_PRIVATE_H

#include <pthread.h>

#include "math/device.h"
#include "model/placement.h"
#include "run/engine.h"
#include "run/event_log.h"
#include "sonde/engine.h"

struct job_profile {
    struct engine_profile out;
    uint64_t prefill_ticks, decode_ticks, passes_ticks, sample_ticks, detokenize_ticks;
    uint64_t ops[];              /* ns, then calls */
};

struct engine_job {
    uint64_t id;
    struct engine_request r;     /* prompt and name: not, see below */
    char name[EVENT_ID_MAX];
    int32_t *tokens;             /* of prompt and answer; owned */
    uint32_t prompt_count;
    uint32_t count;              /* tokens there are */
    uint32_t computed;           /* of them, in the KV cache */
    uint32_t produced, tokens_max;
    uint32_t reused;             /* of the prompt, when it was taken in first */
    int told;                    /* … which sonde knows */
    uint32_t slot;
    struct sampler sampler;
    uint64_t submitted, waits_since, taken, prompt_done, last; /* ticks */
    int cancel;                  /* set by callers; the lock, or atomic */
    uint32_t chunk;              /* tokens of it in the pass that is made */
    struct job_profile *profile; /* NULL = none */
    struct engine_job *next;     /* in the queue */
};

struct engine_pools { struct buddy *weights, *kv, *activations; };

struct engine {
    struct engine_options o;     /* as they are obeyed */
    struct engine_pools pools;
    struct model *model;
    struct tokenizer *tokenizer;
    struct team *team;
    const struct kernel_ops *kernels;
    struct kv *kv;
    struct forward *forward;
    struct device *accelerator;  /* NULL: the CPU does all */
    struct placement placement;
    struct sampler_scratch *scratch;
    struct event_log *log;
    uint32_t name;               /* of the model */
    uint32_t context;            /* positions of a slot, as the memory allows */
    char notice[320];

    pthread_mutex_t lock;
    pthread_cond_t work, idle;   /* something to do; nothing left */
    struct engine_job *first, *last;
    uint32_t waiting;
    uint64_t ids;
    struct engine_counts counts; /* without running and waiting */
    int stopping, ending;        /* accept no more; leave */
    int cancel_all;              /* end what there is; atomic */
    uint32_t ending_jobs;        /* out of queue and `running`, and not ended yet */
    int started;
    pthread_t thread;

    struct engine_job **running; /* in order of admission; changed with the lock held */
    uint32_t running_count;
    int held;                    /* a job was put back: none is taken in until one has ended */
    struct forward_token *batch;
    struct engine_event *events;        /* of one pass */
    uint64_t batches;
    uint64_t resources_at;       /* ticks when memory was looked at last … */
    uint64_t kv_at;              /* … and the KV cache */
    struct sonde_device device;
    struct sonde_hist *op_seconds; /* of --operations, as struct engine_profile's; NULL = off */
};

/* memory.c: pools, KV cache and forward pass within the limit. For the second the model is loaded
 * and the team there. */
int engine_weights_create(struct engine *e, const struct gguf *g, struct fail *why);
int engine_memory_create(struct engine *e, struct fail *why);
void engine_memory_tell(struct engine *e);        /* to sonde: pools of the model */
void engine_resources_tell(struct engine *e, uint64_t now); /* … host memory, once a second */

/* job.c */
struct engine_job *engine_job_create(const struct engine *e, const struct engine_request *r);
void engine_job_destroy(struct engine_job *j);
/* Ends it: tells sonde, the log and the caller, and frees it. It is in no list any more. */
void engine_job_end(struct engine *e, struct engine_job *j, enum engine_finish finish,
                    const char *error, const char *why);
void engine_job_event(struct engine *e, const struct engine_job *j, enum event_kind kind,
                      uint64_t begin, uint64_t at, uint64_t a, uint64_t b);

/* pass.c: one pass for all that run. */
void engine_pass_run(struct engine *e);
/* running.c: out of `running` and of its slot, then ended. */
void engine_running_end(struct engine *e, struct engine_job *j, enum engine_finish finish,
                        const char *error, const char *why);
/* The youngest goes back to the head of the queue, so that others have its memory. */
void engine_running_put_back(struct engine *e);
void *engine_thread(void *arg);

#endif
