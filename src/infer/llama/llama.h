/* llama.h - what calls of llama.cpp's functions (infer/llama/call.h) mean: requests with their
 * phases and tokens, batches, memory, as inference events and spans.
 *
 * llama.cpp knows no requests, only sequences of a context. A request is one use of a sequence: it
 * begins with a batch that starts the sequence anew, and arrived when its prompt was turned into
 * tokens, which is found by the number of tokens and the last of them. Tokens come out where the
 * logits of one of its rows are asked for. It ends with the token that ends generation, when its
 * sequence is used for something else, or with its context. Most end otherwise, without a call:
 * their sequence is in no batch any more. So one that is silent for a moment, while nothing is
 * computed or others are, ended with the last that was heard of it. Should it go on after all, it
 * does so as the same request.
 *
 * One tracker is for one process. Calls may come in any order that has those of a thread in theirs:
 * they are worked out by the time they ended, when nothing earlier is to come. Memory is bounded,
 * and any values are put up with: they are another process's. */
#ifndef SONDE_INFER_LLAMA_LLAMA_H
#define SONDE_INFER_LLAMA_LLAMA_H

#include "infer/event.h"
#include "infer/llama/call.h"

struct sonde_llama;

/* Both are called from within the functions below; what they are given is borrowed. */
struct sonde_llama_ops {
    void (*event)(void *arg, const struct sonde_infer_event *e);
    /* A phase or batch of a thread, so that samples inside belong to it; and whole requests, of no
     * thread. NULL = nobody wants them. */
    void (*span)(void *arg, const struct sonde_model_span *span);
};

/* source: SONDE_INFER_HOOK or SONDE_INFER_PROBE. NULL = out of memory. ops is borrowed. */
struct sonde_llama *sonde_llama_create(uint32_t pid, uint16_t source,
                                       const struct sonde_llama_ops *ops, void *arg);
void sonde_llama_destroy(struct sonde_llama *llama); /* NULL is fine; tells nothing */

/* Copies c. */
void sonde_llama_track(struct sonde_llama *llama, const struct sonde_llama_call *c);

/* Calls of a thread that ended up to unix time until_ns have been lost, some of them or all: a ring
 * was written over before it was read. What is not known whole is not known: requests under way
 * then are lost, and nothing that was called before is matched with what comes after it. A request
 * whose beginning may be among the lost is told as such (SONDE_INFER_REQUEST, incomplete). Call it
 * before sonde_llama_drained. */
void sonde_llama_lost(struct sonde_llama *llama, uint64_t until_ns);

/* Another tracker has told of calls up to this end_stamp (sonde_llama_told), and had been told of
 * all that ended before unix time until_ns: they are tracked once more, before the first drained,
 * so that what comes after them is understood, and nothing is told of them again. */
void sonde_llama_replay(struct sonde_llama *llama, uint64_t end_stamp, uint64_t until_ns);
uint64_t sonde_llama_told(const struct sonde_llama *llama);

/* A context, its memory (0 = not known) and its model with the name of its file: told again and
 * again, for those who missed the beginning. memory and name may be of none. */
void sonde_llama_known(struct sonde_llama *llama, uint64_t context, uint64_t memory, uint64_t model,
                       const char *path);
/* The file of a model, for contexts of which nobody told. */
void sonde_llama_only_model(struct sonde_llama *llama, const char *path);

/* A thread is in a forward pass of context object since unix time begin_ns: while it is, nobody is
 * silent who may be in it. Who that is say its parts; part_count 0 = that is not known. It is over
 * with the next call of that thread that is tracked. */
void sonde_llama_pass(struct sonde_llama *llama, uint32_t tid, uint64_t object, uint64_t begin_ns,
                      const struct sonde_llama_part *parts, uint32_t part_count);

/* All calls that ended before unix time since_ns have been tracked: work them out. */
void sonde_llama_drained(struct sonde_llama *llama, uint64_t since_ns);

/* No more calls will come: work out everything, and end the requests that are left. */
void sonde_llama_end(struct sonde_llama *llama);

/* ---- Looking --------------------------------------------------------------------------------- */

/* What llama.cpp counted of a context (llama_perf_context), and what calls say of the same, summed
 * over the contexts of the process that were asked. Evaluation is, as there, of one token. */
struct sonde_llama_check {
    uint64_t contexts;                         /* compared; 0 = nothing is known */
    uint64_t theirs_prompt_ns, theirs_eval_ns, theirs_prompt_tokens, theirs_eval_tokens;
    uint64_t ours_prompt_ns, ours_eval_ns, ours_prompt_tokens, ours_eval_tokens;
};

struct sonde_llama_figures {
    uint64_t calls;
    uint64_t dropped;        /* calls for which there was no room, or that make no sense */
    uint64_t late;           /* calls that came when later ones had been worked out */
    uint64_t warmups;        /* decodes that were for no request */
    uint64_t gaps;           /* times that calls were lost while requests were followed */
    uint64_t unused;         /* calls that came before what was lost last, and were not used */
    uint64_t unknown;        /* requests that began before what is known, and are not told of */
    uint64_t seen[SONDE__LLAMA_COUNT]; /* calls by function */
    struct sonde_llama_check check;
};
void sonde_llama_figures(const struct sonde_llama *llama, struct sonde_llama_figures *out);

/* The sentence for a check that failed: times further apart than 1 % and 20 ms, or token counts
 * further apart than 1 %. Returns 0 = it holds or nothing is known; 1 = out has the sentence. */
int sonde_llama_check_text(const struct sonde_llama_check *c, char *out, size_t size);
/* The same for calls that were lost: what is not known for it. */
int sonde_llama_lost_text(const struct sonde_llama_figures *f, char *out, size_t size);

#endif
