/* solo.h - a model and one sequence, with no queue and no server: what run and bench work with. */
#ifndef ENGINE_CMD_SOLO_H
#define ENGINE_CMD_SOLO_H

#include "model/placement.h"

struct solo_options {
    const char *model_path;
    uint32_t threads;            /* 0 = CPUs there are */
    uint32_t context;            /* 0 = the model's, at most 4096 */
    uint32_t batch;              /* tokens of a pass at most */
    uint64_t memory_limit;       /* bytes for weights, KV cache and activations; 0 = none */
    const char *device;          /* "opencl", …; NULL = "cpu" */
    uint64_t device_memory;      /* bytes of its memory; 0 = all that it has */
};

struct solo {
    struct model *model;
    struct buddy *weights, *cells, *activations;
    struct kv *kv;
    struct team *team;
    const struct kernel_ops *ops;
    struct forward *forward;
    struct device *device;       /* NULL: the CPU does all */
    struct placement placement;
    int device_refused;
    uint32_t context, batch, slot, length;
    struct forward_token *tokens; /* room for a pass */
    char notice[160];            /* what a memory limit changed; "" = nothing */
};

/* Takes the file over, also on failure; -1: why. What is wrong with is the model, or, if
 * s->device_refused is set then, the device. */
int solo_open(struct solo *s, struct gguf *g, const struct solo_options *o, struct fail *why);
void solo_close(struct solo *s);

/* Goes on with these tokens, in passes of s->batch; *logits are of the last one. each (may be NULL)
 * is called with the logits of every one, in order. -1: they do not fit the context. */
int solo_eval(struct solo *s, const int32_t *tokens, uint32_t count, const float **logits,
              void (*each)(void *context, const float *logits), void *context);
void solo_clear(struct solo *s); /* the next token is at position 0 */

/* The defaults that the environment gives (SONDE_NUM_THREADS, …); 0, or 2 after it said what is
 * wrong. */
struct solo_env { uint32_t threads, batch; uint64_t seed, memory_limit; };
int solo_env(const char *command, struct solo_env *out);

#endif
