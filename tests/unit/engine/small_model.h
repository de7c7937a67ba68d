/* small_model.h - a model of a few hundred kilobytes with a trained tokenizer, in a file that
 * goes away, and what tests of run/ and http/ share: requests that are waited for. */
#ifndef TESTS_UNIT_ENGINE_SMALL_MODEL_H
#define TESTS_UNIT_ENGINE_SMALL_MODEL_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/corpus.h"
#include "file/random_model.h"
#include "run/engine.h"

enum { SMALL_CONTEXT = 512 };

static char small_model_path[64];

static inline void small_model_remove(void) { unlink(small_model_path); }

/* Its path; written at the first call. */
static inline const char *small_model(void)
{
    static const struct random_model_size size = { "test", 2, 64, 4, 2, 128, 400, SMALL_CONTEXT };
    struct random_vocab *vocab = NULL;
    struct fail why;
    size_t bytes;
    if (small_model_path[0]) return small_model_path;
    snprintf(small_model_path, sizeof(small_model_path), "/tmp/sonde-small-XXXXXX");
    const int fd = mkstemp(small_model_path);
    const char *text = corpus_text(&bytes);
    if (fd < 0 || close(fd) ||
        random_vocab_train(RANDOM_VOCAB_BPE, text, bytes < 20000 ? bytes : 20000, size.vocab,
                           &vocab, &why) ||
        random_model_write(&(struct random_model){ .size = &size,
                                                   .arch = RANDOM_MODEL_LLAMA,
                                                   .type = WEIGHT_F32,
                                                   .vocab = vocab,
                                                   .seed = 7 },
                           small_model_path, &why)) {
        fprintf(stderr, "small_model: %s\n", why.text);
        exit(1);
    }
    random_vocab_destroy(vocab);
    atexit(small_model_remove);
    return small_model_path;
}

/* ---- Requests ------------------------------------------------------------------------------- */

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int32_t tokens[SMALL_CONTEXT];
    uint32_t count, enough;      /* enough: wants no more than so many; 0 = all */
    int hold;                    /* the engine stands still at its next token until this is 0 */
    int ends;                    /* how often on_end came */
    enum engine_finish finish;
    struct engine_timings timings;
    char why[160];
    uint64_t id;
};

static inline void waiter_init(struct waiter *w)
{
    memset(w, 0, sizeof(*w));
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
}

static inline int waiter_token(void *context, int32_t token, const char *piece, size_t bytes)
{
    struct waiter *w = context;
    (void)piece;
    (void)bytes;
    pthread_mutex_lock(&w->lock);
    w->tokens[w->count++] = token;
    const int enough = w->enough && w->count >= w->enough;
    pthread_cond_broadcast(&w->changed);
    while (w->hold) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return enough;
}

static inline void waiter_end(void *context, enum engine_finish finish, const char *why,
                              const struct engine_timings *timings)
{
    struct waiter *w = context;
    pthread_mutex_lock(&w->lock);
    w->ends++;
    w->finish = finish;
    w->timings = *timings;
    snprintf(w->why, sizeof(w->why), "%s", why);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static inline void waiter_wait(struct waiter *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->ends) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static inline void waiter_wait_tokens(struct waiter *w, uint32_t count)
{
    pthread_mutex_lock(&w->lock);
    while (!w->ends && w->count < count) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static inline void waiter_go_on(struct waiter *w)
{
    pthread_mutex_lock(&w->lock);
    w->hold = 0;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* The i-th of a family of prompts: those of the same i / 4 begin alike. */
static inline uint32_t small_prompt(uint32_t i, uint32_t length, int32_t *out)
{
    for (uint32_t k = 0; k < length; k++) {
        const uint32_t of = k < length / 2 ? i / 4 : i;
        out[k] = (int32_t)(10 + (of * 131 + k * 17 + k * k) % 300);
    }
    return length;
}

static inline struct engine_request small_request(struct waiter *w, const int32_t *prompt,
                                                  uint32_t count, uint32_t tokens_max)
{
    return (struct engine_request){
        .prompt = prompt, .prompt_count = count, .tokens_max = tokens_max, .ignore_end = 1,
        .sampler = { .temperature = 1, .top_k = 40, .top_p = 1 }, .on_token = waiter_token,
        .on_end = waiter_end, .context = w };
}

#endif
