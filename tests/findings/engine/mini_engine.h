/* mini_engine.h - a small inference engine for the bench: tokenizer, scheduler, KV cache, model,
 * sampler, detokenizer, clients. All of it computes; nothing waits for a clock to look like work.
 * What a program of the bench plants is a plan: how the engine is configured, or which slow part it
 * has.
 *
 *   clients ──▶ queue ──▶ slots ──▶ a pass: chunks of prompts, a token of each answer ──▶ text
 *
 * It tells sonde what an engine would: requests, phases, batches, KV cells, pools, tokenizer. */
#ifndef FINDINGS_MINI_ENGINE_H
#define FINDINGS_MINI_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "../programs/bench.h"

enum { MINI_SLOTS = 16, MINI_DIM = 160, MINI_VOCAB = 256, MINI_TOKENS_MAX = 4096 };

struct mini_job;

struct mini_plan {
    double load;                 /* arrivals as a share of measured capacity; 0 = clients below */
    unsigned clients;            /* closed loop: each asks again when it has its answer */
    unsigned pause_us;           /* of a client between its requests */
    unsigned slots;              /* requests in the engine at once */
    unsigned pass_requests;      /* of which so many share a pass; 0 = all */
    unsigned chunk;              /* tokens of prompts in a pass at most */
    int prefill_alone;           /* a pass for prompts serves no answers */
    unsigned prompt_min, prompt_max;
    unsigned long_every, long_prompt; /* every nth prompt has so many tokens; 0 = none */
    unsigned output_min, output_max;
    unsigned shared_prefix;      /* tokens that all prompts begin with */
    int reuse;                   /* the KV cells of the prefix are kept */
    unsigned kv_cells;           /* 0 = plenty */
    double fail_from_s, fail_to_s; /* requests fail in this time … */
    unsigned fail_percent;       /* … with this probability */
    unsigned copies;             /* of the model's layers: a larger model; 0 = 1 */
    /* Parts that a program may have its own of. */
    unsigned (*encode)(const char *text, uint16_t *tokens, unsigned max);
    unsigned (*sample)(float *logits, const uint16_t *history, unsigned count, uint64_t *random);
    void (*spell)(struct mini_job *job);
    void (*send)(struct mini_job *job, const char *text, size_t length);
};

struct mini_job {                /* what parts may look at */
    uint16_t tokens[MINI_TOKENS_MAX]; /* prompt, then answer */
    unsigned prompt, produced;
    char *answer;                /* text so far */
    size_t answer_length, answer_max;
    int client;                  /* number of the client that asked */
    struct mini_state *state;
};

/* Serves until b's time is over. */
void mini_engine_run(struct bench *b, const struct mini_plan *plan);

/* The parts as they should be. */
unsigned mini_encode(const char *text, uint16_t *tokens, unsigned max);
unsigned mini_sample(float *logits, const uint16_t *history, unsigned count, uint64_t *random);
void mini_spell(struct mini_job *job);
const char *mini_word(unsigned token);

#endif
