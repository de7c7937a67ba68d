/* engine_tokenizer.c - what to do about a tokenizer: see engine.h. Each piece of advice has a
 * threshold on what was measured, says the figures it is made of, and is left out where they are
 * too few. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "analyze/engine.h"

enum {
    ACCESSES_MIN = 1000,       /* of the cache */
    CLASS_MIN = 10,            /* inputs of a length */
};
#define HIT_RATIO_LOW 0.5
#define MERGES_HIGH 1.0        /* by token, without a cache */
#define LOOKUPS_HIGH 8.0       /* by token */
#define GROWTH_HIGH 2.0        /* time by byte, long inputs beside short ones */

const char *sonde_engine_advice_name(enum sonde_engine_advice_kind k)
{
    static const char *const names[] = {
#define SONDE__X(id, name) name,
        SONDE_ENGINE_ADVICES(SONDE__X)
#undef SONDE__X
    };
    assert(k < SONDE_ENGINE_ADVICE_COUNT);
    return names[k];
}

static struct sonde_engine_advice *advice_add(struct sonde_engine_tokenizer *t,
                                              enum sonde_engine_advice_kind kind)
{
    struct sonde_engine_advice *a = &t->advice[t->advice_count++];
    a->kind = kind;
    return a;
}

static void engine_tokenizer_advise_cache(struct sonde_engine_tokenizer *t)
{
    const uint64_t asked = t->cache_hits + t->cache_misses;
    if (asked >= ACCESSES_MIN && t->hit_ratio < HIT_RATIO_LOW) {
        struct sonde_engine_advice *a = advice_add(t, SONDE_ENGINE_ADVICE_CACHE_MISSES);
        snprintf(a->text, sizeof(a->text),
                 "the cache had %.1f %% of %" PRIu64 " look-ups; each of the %" PRIu64 " misses "
                 "took %.1f merges on average: make it larger, or ask it for words instead of "
                 "whole inputs", 100 * t->hit_ratio, asked, t->cache_misses,
                 (double)t->merges / (double)t->cache_misses);
    }
    if (!asked && t->merges_per_token > MERGES_HIGH) {
        struct sonde_engine_advice *a = advice_add(t, SONDE_ENGINE_ADVICE_NO_CACHE);
        snprintf(a->text, sizeof(a->text),
                 "there is no cache, and %" PRIu64 " merges were made for %" PRIu64 " tokens (%.1f "
                 "each): remember the tokens of words, most of which come again",
                 t->merges, t->tokens, t->merges_per_token);
    }
}

/* Only the class of an input's length is known, so its time by byte lies between the mean over the
 * longest length of the class and over the shortest. If even the least for long inputs is far over
 * the most for short ones, time grows faster than length. */
static void engine_tokenizer_advise_long(struct sonde_engine_tokenizer *t)
{
    const struct sonde_engine_length *worst = NULL, *beside = NULL;
    double worst_growth = GROWTH_HIGH;
    for (int i = 1; i < SONDE_TOKENIZER_CLASSES - 1; i++) { /* the last has no longest length */
        const struct sonde_engine_length *l = &t->lengths[i];
        if (l->time.count < CLASS_MIN) continue;
        for (int k = 0; k < i; k++) {
            const struct sonde_engine_length *s = &t->lengths[k];
            const double least = l->time.mean_s / (double)l->bytes_max;
            const double most = s->time.mean_s / (double)s->bytes_min;
            if (s->time.count < CLASS_MIN || !(most > 0) || least / most <= worst_growth) continue;
            worst_growth = least / most;
            worst = l;
            beside = s;
        }
    }
    if (!worst) return;
    struct sonde_engine_advice *a = advice_add(t, SONDE_ENGINE_ADVICE_LONG_INPUTS);
    snprintf(a->text, sizeof(a->text),
             "inputs of %s bytes take %.3g \xc2\xb5s on average, at least %.1f times as much "
             "a byte as those of %s: time grows faster than length; split inputs into words before "
             "merging, or keep pairs in a heap", worst->label, worst->time.mean_s * 1e6,
             worst_growth, beside->label);
}

static void advise_lookups(struct sonde_engine_tokenizer *t)
{
    if (!(t->lookups_per_token > LOOKUPS_HIGH)) return;
    struct sonde_engine_advice *a = advice_add(t, SONDE_ENGINE_ADVICE_LOOKUPS);
    snprintf(a->text, sizeof(a->text), "%.1f look-ups in the vocabulary for a token (%"
             PRIu64 " for %" PRIu64 " tokens): find the longest match in a trie, or look up whole "
                                       "words first", t->lookups_per_token, t->lookups, t->tokens);
}

void sonde_engine_advise(struct sonde_engine_tokenizer *t)
{
    t->advice_count = 0;
    if (t->encode.count < SONDE_ENGINE_ADVICE_MIN || !t->tokens) return;
    engine_tokenizer_advise_cache(t);
    engine_tokenizer_advise_long(t);
    advise_lookups(t);
}
