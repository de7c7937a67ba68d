/* encode.c - a word to its tokens, the same for both kinds of vocabularies; see encode.h. */
#include "text/encode.h"

#include <stdlib.h>

int encode_reserve(struct encode *e, size_t bytes)
{
    if (bytes <= e->text_room) return 0;
    free(e->units);
    free(e->text);
    e->text_room = 0;
    e->units = malloc((bytes + 1) * sizeof(*e->units));
    e->text = malloc(3 * bytes + 3); /* a byte may become a U+FFFD, a space U+2581 */
    if (!e->units || !e->text) return -1;
    e->text_room = bytes;
    return 0;
}

static int word_merge(struct encode *e, const struct encode_word *how, const char *word,
                      size_t bytes)
{
    if (merge_work_reserve(&e->work, bytes)) return -1;
    if (how->symbols_of(e, word, bytes)) return 0;
    merges_apply(&e->t->merges, &e->work);
    const struct merge_node *nodes = e->work.nodes;
    size_t offset = 0;
    for (int32_t i = 0; i >= 0; i = nodes[i].next) {
        if (nodes[i].symbol < e->t->vocab.count) encode_push(e, (int32_t)nodes[i].symbol);
        else how->fallback(e, word + offset, nodes[i].bytes);
        offset += nodes[i].bytes;
    }
    return 0;
}

int encode_word(struct encode *e, const struct encode_word *how, const char *word, size_t bytes)
{
    struct word_cache_key key;
    char packed[WORD_CACHE_BYTES];
    const size_t key_bytes = how->pack ? how->pack(word, bytes, packed) : bytes;
    if (!word_cache_key(how->pack ? packed : word, key_bytes, &key)) {
        e->words_long++;
        e->words_long_bytes += bytes;
        return word_merge(e, how, word, bytes);
    }
    int32_t cached[WORD_CACHE_TOKENS];
    const int count = word_cache_get(&e->t->cache, &key, cached);
    if (count >= 0) {
        e->cache_hits++;
        for (int i = 0; i < count; i++) encode_push(e, cached[i]);
        return 0;
    }
    e->cache_misses++;
    const size_t before = e->count;
    if (word_merge(e, how, word, bytes)) return -1;
    if (e->count <= e->max) {
        word_cache_put(&e->t->cache, &key, e->tokens + before, e->count - before);
    }
    return 0;
}
