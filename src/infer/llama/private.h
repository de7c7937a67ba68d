/* private.h - what the files of the tracker (llama.h) share. */
#ifndef SONDE_INFER_LLAMA_PRIVATE_H
#define SONDE_INFER_LLAMA_PRIVATE_H

#include "base/timeq.h"
#include "infer/llama/llama.h"

#define LLAMA_WAITING_MAX 65536u   /* calls that wait for their turn … */
#define LLAMA_PARTS_WAIT_MAX (1u << 20) /* … and parts of them */
#define LLAMA_CONTEXTS_MAX 64u
#define LLAMA_MODELS_MAX 32u
#define LLAMA_BUFFERS_MAX 1024u
#define LLAMA_SEQS_MAX 256         /* of a context: LLAMA_MAX_SEQ of llama.cpp */
#define LLAMA_THREADS_MAX 256u
#define LLAMA_TEXTS_MAX 512u       /* prompts turned into tokens that no request is known of yet */
#define LLAMA_NAME_MAX 128u
#define LLAMA_APPLIES 8u           /* samplers for one token; more are joined with the last */
#define LLAMA_ROWS 4096u           /* rows of a batch of which it is known that they were sampled */
#define LLAMA_TOKENS_MAX (1u << 24) /* of one call */

#define LLAMA_QUIET_NS 750000000ull /* nothing was heard of it for so much longer than it ever
                                      paused, and nothing is computed: it has ended … */
#define LLAMA_QUIET_MAX_NS 30000000000ull /* … or for so long, however it pauses */
#define LLAMA_ABSENT_QUIET 2u     /* while something is computed: so many batches were without it */
#define LLAMA_ABSENT 8u           /* … or, however soon, so many */
#define LLAMA_PASSES_MAX 64u      /* forward passes under way */
#define LLAMA_PASS_MAX_NS 600000000000ull /* one that takes longer was left without a return */
#define LLAMA_WARMUP_TOKENS 4u    /* a warm-up batch has no more */

struct llama_model {
    uint64_t object;               /* 0 = free */
    char name[LLAMA_NAME_MAX];     /* valid UTF-8 */
};

enum llama_memory_kind { LLAMA_WEIGHTS, LLAMA_KV, LLAMA_COMPUTE, LLAMA_MEMORY_KINDS };

struct llama_buffer {
    uint64_t object, bytes;        /* object 0 = free */
    uint64_t time_ns;
    uint64_t model, context;       /* whose; model 0 = not known yet */
    uint32_t tid, kind;
};

/* A prompt that was turned into tokens. */
struct llama_text {
    uint64_t begin_ns, end_ns, tail;
    uint64_t prefix;               /* how its tokens begin (sonde/prefix.h); 0 = not known */
    uint32_t tid, tokens;          /* 0 = free */
    uint32_t complete;             /* 0: there was no room for them, and they are asked for again */
};

/* A request's prompt is being computed until a token came out. */
enum llama_seq_state { LLAMA_NOTHING, LLAMA_PROMPT, LLAMA_GENERATING };

/* A sequence of a context and the request that it serves now. */
struct llama_seq {
    int64_t length;                /* positions that are filled, as far as known */
    uint64_t reset_ns;             /* it was cut to its length then, since the last batch; 0 =
                                    * not */

    uint32_t state;                /* enum llama_seq_state */
    uint32_t absent;               /* batches without it since the last that had it */
    uint64_t id, trace_hi, trace_lo;
    uint64_t arrived_ns, heard_ns; /* first and last of it */
    uint64_t pause_ns;             /* the longest that it was in no batch, so far */
    int quiet;                     /* it ended because nothing was heard of it: it may go on … */
    int resumed;                   /* … and did */
    int unknown;                   /* it serves a request that began before what is known */
    int64_t reused;
    int64_t prompt;                /* tokens of its prompt, if known from its text; else 0 */
    uint64_t prompt_ns;            /* when the last batch of it began */
    uint64_t prefix;               /* how the prompt begins (sonde/prefix.h); 0 = not known */
    uint64_t tokens_out;
    int64_t token;                 /* the last that was sampled; -1 = not known */
    int prompt_done, prompt_told;
    int sampled;                   /* since its last batch */
};

/* The batch that was computed last and has not been told yet: its results may still be waited
 * for. */
struct llama_batch {
    int waits;
    uint32_t tid, part_count, requests;
    uint64_t begin_ns, end_ns;
    uint64_t prompt_tokens, output_tokens;
    struct llama_batch_part { uint64_t id, prompt, output; } *parts; /* SONDE_LLAMA_PARTS_MAX */
};

/* A call, kept until it is worked out. */
struct llama_kept { struct sonde_llama_call c; struct sonde_llama_part *parts; char *text; };

struct llama_context {
    uint64_t object;               /* 0 = free */
    uint64_t serial;               /* never used again */
    uint64_t memory;               /* object; 0 = not known */
    uint64_t model;                /* object; 0 = not known */
    uint64_t used;                 /* calls when it was used last */
    int created_seen;              /* from its beginning */
    int warming;                   /* between llama_set_warmup(true) and (false) */
    int served;                    /* a request was begun */
    uint32_t held_count;           /* batches that may be warm-up: not worked out so far */
    struct llama_kept held[2];
    struct llama_seq *seq;         /* LLAMA_SEQS_MAX of them; with the first batch */
    uint32_t active;               /* of which have a request */

    /* Rows of the last batch. */
    struct sonde_llama_part *rows; /* SONDE_LLAMA_PARTS_MAX */
    uint32_t row_count;
    uint64_t outputs;              /* of all of them */
    uint64_t sampled[LLAMA_ROWS / 64];
    struct llama_batch batch;

    /* As llama.cpp itself counts: check.c. */
    uint64_t compute_ns;           /* begin of what has not been waited for; 0 = nothing */
    uint64_t queued;               /* tokens of it */
    uint64_t prompt_ns, prompt_tokens, eval_ns, eval_tokens;
    struct sonde_llama_check check;/* the last comparison */
};

/* A thread that samples. */
struct llama_thread {
    uint32_t tid;                  /* 0 = free */
    uint64_t used;                 /* calls when it was used last */
    /* Logits were asked for; the token is out when sampling ends, which later calls tell. */
    uint64_t pending_context;      /* serial; 0 = none */
    int64_t pending_row;
    uint64_t pending_ns;           /* when it was out, as far as known */
    uint32_t apply_count;          /* samplers that were applied to them */
    struct { uint64_t begin_ns, end_ns; } apply[LLAMA_APPLIES];
    /* Whose token came last, until something else does. */
    uint64_t last_context, last_id;/* serial, request; 0 = nobody's */
    int64_t last_seq;
};

/* A forward pass that has begun. Its call is known when it has returned, which may take longer than
 * silence is taken for an end. */
struct llama_pass {
    uint64_t object, begin_ns;
    uint32_t tid;                  /* 0 = free */
    int known;                     /* who is in it … */
    uint64_t prompt[LLAMA_SEQS_MAX / 64]; /* … by number: with more of a prompt, or the next … */
    uint64_t output[LLAMA_SEQS_MAX / 64]; /* … or with what came out */
};

struct sonde_llama {
    uint32_t pid;
    uint16_t source;
    const struct sonde_llama_ops *ops;
    void *arg;
    struct sonde_llama_figures figures;
    uint64_t serials;
    uint64_t known_ns;             /* calls that ended up to then may have been lost; 0 = none */
    uint64_t told_stamp;           /* end_stamp of the last call that was worked out */
    uint64_t replay_stamp, replay_ns; /* another has told of calls up to there; 0 = nobody has */
    int quietly;                   /* the one at hand is such a call: nothing is told */
    int lost;                      /* … and what was known before has not been given up yet */
    char only_model[LLAMA_NAME_MAX];
    uint64_t now_ns;               /* end of the last call that was worked out */
    uint64_t computed_ns;          /* end of the last forward pass */

    struct sonde_timeq waiting;    /* of struct llama_kept */
    uint64_t parts_waiting;

    struct llama_context context[LLAMA_CONTEXTS_MAX];
    struct llama_model model[LLAMA_MODELS_MAX];
    struct llama_buffer buffer[LLAMA_BUFFERS_MAX];
    uint32_t buffers_unknown;      /* whose model is not known yet */
    struct llama_thread thread[LLAMA_THREADS_MAX];
    struct llama_pass pass[LLAMA_PASSES_MAX];
    struct llama_text text[LLAMA_TEXTS_MAX]; /* oldest at text_next */
    uint32_t text_next;
};

/* ---- llama.c: telling ---- */

/* A pass of k is under way: 0 = none is, or none that goes on with the request of this sequence; 1
 * = one does; -1 = perhaps. */
int llama_pass_has(const struct sonde_llama *llama, const struct llama_context *k, uint32_t seq,
                   uint64_t now_ns);

struct sonde_infer_event llama_event(const struct sonde_llama *llama, uint16_t type, uint32_t tid,
                                     uint64_t begin_ns, uint64_t end_ns);
void llama_tell(struct sonde_llama *llama, const struct sonde_infer_event *e);
/* A span of a thread. kind: enum sonde_phase_kind. of NULL = of no request. parts: of a batch. */
void llama_span(struct sonde_llama *llama, uint32_t kind, uint32_t tid, uint64_t begin_ns,
                uint64_t end_ns, const struct llama_seq *of);
void llama_span_parts(struct sonde_llama *llama, uint32_t kind, uint32_t tid, uint64_t begin_ns,
                      uint64_t end_ns, const struct llama_seq *of, struct sonde_model_part *parts,
                      uint32_t part_count);
uint64_t llama_mix(uint64_t v);
/* Copies c with what it borrows. 0 or SONDE_ENOMEM. */
int llama_keep(struct llama_kept *to, const struct sonde_llama_call *c);
void llama_kept_release(struct llama_kept *kept);

/* ---- object.c: models, contexts, memory ---- */

/* NULL = out of memory. */
struct llama_context *llama_context_get(struct sonde_llama *llama, uint64_t object);
struct llama_context *llama_context_find(struct sonde_llama *llama, uint64_t object); /* or NULL */
struct llama_context *llama_context_serial(struct sonde_llama *llama,
                                           uint64_t serial); /* or NULL */
/* The context that memory belongs to; the only one there is if that is not known; or NULL. */
struct llama_context *llama_context_memory(struct sonde_llama *llama, uint64_t memory);
void llama_context_release(struct sonde_llama *llama, struct llama_context *k);
const char *llama_model_name(const struct sonde_llama *llama, uint64_t model); /* "" = not known */
/* Buffers that thread tid made since begin_ns and nobody owns are this model's and context's. */
void llama_buffers_claim(struct sonde_llama *llama, const struct sonde_llama_call *c,
                         uint64_t model, uint64_t context);
void llama_object_call(struct sonde_llama *llama, const struct sonde_llama_call *c);

/* ---- check.c: as llama.cpp counts ---- */

void llama_check_computed(struct llama_context *k, const struct sonde_llama_call *c);
void llama_check_waited(struct llama_context *k, uint64_t end_ns);
void llama_check_reset(struct llama_context *k);
void llama_check_compare(struct llama_context *k, const struct sonde_llama_call *c);
void llama_check_add(struct sonde_llama_check *to, const struct sonde_llama_check *c);

/* ---- seq.c: sequences and requests ---- */

/* NULL = there is none of that number, or no memory. */
struct llama_seq *llama_seq_get(struct llama_context *k, int64_t seq);
/* It ends where it was last heard of, if it has begun. */
void llama_request_end(struct sonde_llama *llama, struct llama_context *k, struct llama_seq *s,
                       uint32_t outcome, const char *error);
/* How long its prompt was is known with the first token that comes out, or the end. */
void llama_prompt_tell(struct sonde_llama *llama, struct llama_seq *s);
/* What a part of a batch is to its sequence: of its prompt or of its output. */
void llama_seq_part(struct sonde_llama *llama, struct llama_context *k, struct llama_seq *s,
                    const struct sonde_llama_call *c, const struct sonde_llama_part *p,
                    struct llama_batch_part *out);
/* Calls were lost: nothing is known of any sequence. */
void llama_seqs_lose(struct sonde_llama *llama, struct llama_context *k);
/* All requests of a context end, and its sequences are empty. */
void llama_seqs_clear(struct sonde_llama *llama, struct llama_context *k);
/* Those that nothing was heard of for long, at now_ns. */
void llama_seqs_age(struct sonde_llama *llama, struct llama_context *k, uint64_t now_ns);
void llama_seqs_absent(struct sonde_llama *llama, struct llama_context *k);
void llama_seq_call(struct sonde_llama *llama, const struct sonde_llama_call *c);

/* ---- text.c: prompts before they are requests ---- */

void llama_text_add(struct sonde_llama *llama, const struct sonde_llama_call *c);
void llama_texts_forget(struct sonde_llama *llama);
/* Nothing was computed from since_ns on, for a while: who had come before that is not waiting. */
void llama_texts_expire(struct sonde_llama *llama, uint64_t since_ns);
/* The prompt of so many tokens, whose last are tail; complete 0: there are more to come, -1:
 * perhaps. What it was made of is filled in and, with take, forgotten. 0 = none is known. */
int llama_text_find(struct sonde_llama *llama, uint64_t tokens, uint64_t tail, int complete,
                    uint64_t before_ns, int take, struct llama_text *out);

/* ---- preload/llama/batch.c: batches and tokens ---- */

/* The last batch is told, if it was not. */
void llama_batch_tell(struct sonde_llama *llama, struct llama_context *k);
/* Batches that were held back: work them out after all, or forget them as warm-up. */
void llama_held_work(struct sonde_llama *llama, struct llama_context *k);
void llama_held_drop(struct sonde_llama *llama, struct llama_context *k);
/* Somebody waits for results of k: how long the last batch took is known. */
void llama_batch_waited(struct sonde_llama *llama, struct llama_context *k,
                        const struct sonde_llama_call *c);
void llama_forward_call(struct sonde_llama *llama, const struct sonde_llama_call *c);

/* ---- token.c: tokens that come out ---- */

struct llama_thread *llama_thread_get(struct sonde_llama *llama, uint32_t tid);
/* The token that a thread was about to sample is out, since it does something else now. */
void llama_pending_out(struct sonde_llama *llama, struct llama_thread *t,
                       const struct sonde_llama_call *next);
void llama_pending_age(struct sonde_llama *llama, uint64_t before_ns);
void llama_token_call(struct sonde_llama *llama, const struct sonde_llama_call *c);

#endif
