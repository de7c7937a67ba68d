/* bpe_words.c - a text as words and how often they are there (train_bpe.h). */
#include <stdlib.h>
#include <string.h>

#include "file/train_bpe.h"

enum char_class { SPACE, LETTER, DIGIT, SIGN };

static enum char_class char_class_of(char c)
{
    const unsigned char u = (unsigned char)c;
    if (u == ' ' || (u >= '\t' && u <= '\r')) return SPACE;
    if (u >= '0' && u <= '9') return DIGIT;
    if (u >= 0x80 || (u >= 'A' && u <= 'Z') || (u >= 'a' && u <= 'z')) return LETTER;
    return SIGN;
}

/* Where the word that begins at `at` ends. */
static const char *bpe_words_word_end(const char *at, const char *end)
{
    const char *p = at;
    if (char_class_of(*p) == SPACE) {
        while (p < end && char_class_of(*p) == SPACE) p++;
        /* The last space belongs to the word behind it. */
        if (p == end || p[-1] != ' ') return p;
        if (p - at > 1) return p - 1;
    }
    if (p == end) return p;
    const enum char_class class = char_class_of(*p);
    while (p < end && char_class_of(*p) == class) p++;
    return p;
}

struct word_table {
    struct bpe_text_word *words;
    size_t count, room;
    uint32_t *slots;
    size_t slots_mask;
};

static uint64_t word_hash(const char *at, size_t bytes)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ (unsigned char)at[i]) * 0x100000001b3u;
    return h ^ h >> 31;
}

static int table_grow(struct word_table *t)
{
    const size_t room = t->room ? t->room * 2 : 4096, size = room * 2;
    struct bpe_text_word *words = reallocarray(t->words, room, sizeof(*words));
    if (!words) return -1;
    t->words = words;
    t->room = room;
    uint32_t *slots = calloc(size, sizeof(*slots));
    if (!slots) return -1;
    for (size_t i = 0; i < t->count; i++) {
        size_t at = word_hash(words[i].at, words[i].bytes) & (size - 1);
        while (slots[at]) at = (at + 1) & (size - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(t->slots);
    t->slots = slots;
    t->slots_mask = size - 1;
    return 0;
}

static int table_count(struct word_table *t, const char *at, uint32_t bytes)
{
    if (t->count == t->room && table_grow(t)) return -1;
    size_t slot = word_hash(at, bytes) & t->slots_mask;
    for (; t->slots[slot]; slot = (slot + 1) & t->slots_mask) {
        struct bpe_text_word *w = &t->words[t->slots[slot] - 1];
        if (w->bytes != bytes || memcmp(w->at, at, bytes)) continue;
        w->times++;
        return 0;
    }
    t->words[t->count] = (struct bpe_text_word){ at, bytes, 1 };
    t->slots[slot] = (uint32_t)++t->count;
    return 0;
}

int bpe_words(const char *text, size_t bytes, struct bpe_text_word **out, size_t *count)
{
    struct word_table t = { 0 };
    int rc = bytes < UINT32_MAX ? table_grow(&t) : -1;
    const char *end = text + bytes;
    for (const char *at = text; at < end && !rc;) {
        const char *next = bpe_words_word_end(at, end);
        rc = table_count(&t, at, (uint32_t)(next - at));
        at = next;
    }
    free(t.slots);
    if (rc) {
        free(t.words);
        return rc;
    }
    *out = t.words;
    *count = t.count;
    return 0;
}
