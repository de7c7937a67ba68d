/* advice.c - what the figures of a tokenizer suggest.
 *
 * A sentence has its numbers in it and is only there where they are large enough to mean something:
 * shares of a few words or of one input say nothing about the next ones. */
#include "text/tokenizer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    WORDS_MIN = 1000,            /* before the cache is judged */
    TOKENS_MIN = 1000,           /* before the vocabulary is */
    ENCODES_MIN = 20,            /* before one input is compared with the others */
};

struct advice_list { struct tokenizer_advice *items; size_t count; };

__attribute__((format(printf, 2, 3)))
static void tokenizer_advice_add(struct advice_list *list, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(list->items[list->count++].text, sizeof(list->items[0].text), format, args);
    va_end(args);
}

static double tokenizer_advice_share(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void tokenizer_advice_cache(struct advice_list *list, const struct tokenizer_counts *c)
{
    const uint64_t words = c->cache_hits + c->cache_misses;
    const double hits = tokenizer_advice_share(c->cache_hits, words),
                 used = tokenizer_advice_share(c->cache_used, c->cache_slots);
    if (words < WORDS_MIN || hits >= 80) return;
    if (used >= 75) {
        tokenizer_advice_add(list,
                             "The word cache is too small for this text: %.1f %% of %" PRIu64
                             " words were "
                             "in it, and %.0f %% of its %" PRIu64 " slots are taken.",
                             hits, words, used, c->cache_slots);
    } else {
        tokenizer_advice_add(list,
                             "The words hardly repeat: %.1f %% of %" PRIu64
                             " were in the cache, of which "
                             "%.0f %% is taken; a larger one would not help.",
                             hits, words, used);
    }
}

static void tokenizer_advice_long(struct advice_list *list, const struct tokenizer_counts *c)
{
    const double bytes = tokenizer_advice_share(c->words_long_bytes, c->bytes);
    if (c->cache_hits + c->cache_misses + c->words_long < WORDS_MIN || bytes < 20) return;
    tokenizer_advice_add(
        list,
        "%.0f %% of the bytes are in %" PRIu64 " words of more than the cache keeps (%.0f "
        "bytes on average): text without spaces, or encoded data that could stay out of prompts.",
        bytes, c->words_long, (double)c->words_long_bytes / (double)c->words_long);
}

static void advise_vocabulary(struct advice_list *list, const struct tokenizer_counts *c)
{
    if (c->tokens < TOKENS_MIN) return;
    const double bytes = (double)c->bytes / (double)c->tokens;
    if (bytes < 2.5) {
        tokenizer_advice_add(
            list,
            "The vocabulary does not fit this text: %.2f bytes per token over %" PRIu64
            " tokens (English prose has about 4), so prompts use up more of the context.",
            bytes, c->tokens);
    }
    const double merges = (double)c->merges / (double)c->tokens;
    if (merges > 2) {
        tokenizer_advice_add(list,
                             "%.1f merges for each of %" PRIu64
                             " tokens: most of the time goes to merging "
                             "words that are not cached.",
                             merges, c->tokens);
    }
}

static void advise_slowest(struct advice_list *list, const struct tokenizer_counts *c,
                           const struct tokenizer_slow *slowest, size_t count)
{
    if (!count || c->encodes < ENCODES_MIN || slowest->ns < c->ns / 2) return;
    tokenizer_advice_add(list,
                         "One input of %" PRIu64 " bytes took %.0f %% of the time of all %" PRIu64
                         " (%.1f ms): what arrives at the same time as such a one waits for it.",
                         slowest->bytes, tokenizer_advice_share(slowest->ns, c->ns), c->encodes,
                         (double)slowest->ns / 1e6);
}

size_t tokenizer_advice(const struct tokenizer_counts *c, const struct tokenizer_slow *slowest,
                        size_t slow_count, struct tokenizer_advice out[TOKENIZER_ADVICE_MAX])
{
    struct advice_list list = { .items = out };
    tokenizer_advice_cache(&list, c);
    tokenizer_advice_long(&list, c);
    advise_vocabulary(&list, c);
    advise_slowest(&list, c, slowest, slow_count);
    return list.count;
}
