/* specials.c - see specials.h. */
#include "text/specials.h"

#include <stdlib.h>
#include <string.h>

static int text_order(const struct vocab *v, uint32_t a, uint32_t b)
{
    const struct vocab_token *x = &v->tokens[a], *y = &v->tokens[b];
    const uint32_t least = x->text_bytes < y->text_bytes ? x->text_bytes : y->text_bytes;
    const int order = memcmp(v->texts + x->text, v->texts + y->text, least);
    return order ? order : (x->text_bytes > y->text_bytes) - (x->text_bytes < y->text_bytes);
}

static int token_compare(const void *a, const void *b, void *vocab)
{
    return text_order(vocab, *(const uint32_t *)a, *(const uint32_t *)b);
}

static int length_compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

int specials_init(struct specials *s, const struct vocab *v, uint32_t kinds, uint32_t but)
{
    memset(s, 0, sizeof(*s));
    s->vocab = v;
    for (int pass = 0; pass < 2; pass++) {
        s->count = 0;
        for (uint32_t i = 0; i < v->count; i++) {
            if (!(v->tokens[i].kind & kinds) || (v->tokens[i].kind & but)) continue;
            if (pass) {
                s->tokens[s->count] = i;
                s->lengths[s->count] = v->tokens[i].text_bytes;
                s->starts[(unsigned char)vocab_text(v, i)[0]] = 1;
            }
            s->count++;
        }
        if (pass) break;
        s->tokens = malloc((s->count + 1) * sizeof(*s->tokens));
        s->lengths = malloc((s->count + 1) * sizeof(*s->lengths));
        if (!s->tokens || !s->lengths) {
            specials_release(s);
            return -1;
        }
    }
    struct vocab *order = (struct vocab *)(uintptr_t)v; /* qsort_r takes no const */
    qsort_r(s->tokens, s->count, sizeof(*s->tokens), token_compare, order);
    qsort(s->lengths, s->count, sizeof(*s->lengths), length_compare);
    for (uint32_t i = 0; i < s->count; i++) {
        if (i && s->lengths[i] == s->lengths[s->length_count - 1]) continue;
        s->lengths[s->length_count++] = s->lengths[i];
    }
    return 0;
}

void specials_release(struct specials *s)
{
    free(s->tokens);
    free(s->lengths);
    memset(s, 0, sizeof(*s));
}

/* The range [*low, *high) of texts that agree with the first depth bytes shrinks to those that have
 * c behind them. */
static void trie_step(const struct specials *s, size_t depth, unsigned char c, uint32_t *low,
                      uint32_t *high)
{
    for (int side = 0; side < 2; side++) { /* the first that is at least c, then the first above */
        uint32_t from = *low, to = *high;
        while (from < to) {
            const uint32_t middle = from + (to - from) / 2;
            const struct vocab_token *t = &s->vocab->tokens[s->tokens[middle]];
            const int value = depth < t->text_bytes
                            ? (unsigned char)s->vocab->texts[t->text + depth] : -1;
            if (value < (int)c + side) from = middle + 1;
            else to = middle;
        }
        if (side) *high = from;
        else *low = from;
    }
}

/* The token whose text is the first length bytes of text, or -1; with seen, instead, marks there
 * the lengths of all that text starts with. */
static int32_t trie_find(const struct specials *s, const char *text, size_t bytes, uint32_t length,
                         unsigned char *seen)
{
    uint32_t low = 0, high = s->count;
    for (size_t depth = 0; depth < bytes && low < high; depth++) {
        trie_step(s, depth, (unsigned char)text[depth], &low, &high);
        if (low == high) return -1;
        const struct vocab_token *t = &s->vocab->tokens[s->tokens[low]];
        if (t->text_bytes != depth + 1) continue; /* the shortest of a range is its first */
        if (!seen && length == depth + 1) return (int32_t)s->tokens[low];
        if (!seen) continue;
        uint32_t at = 0;
        while (s->lengths[at] != t->text_bytes) at++;
        seen[at] = 1;
    }
    return -1;
}

static int specials_part_add(struct special_parts *p, size_t *count, size_t at, size_t end,
                             int32_t token)
{
    if (token < 0 && at == end) return 0;
    if (*count == p->capacity) {
        const size_t capacity = p->capacity ? p->capacity * 2 : 16;
        void *larger = realloc(p->items, capacity * sizeof(*p->items));
        if (!larger) return -1;
        p->items = larger;
        larger = realloc(p->spare, capacity * sizeof(*p->spare));
        if (!larger) return -1;
        p->spare = larger;
        p->capacity = capacity;
    }
    p->spare[(*count)++] = (struct special_part){ at, end, token };
    return 0;
}

static int specials_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* One plain part, cut where a text of this length is, to the spare parts. */
static int part_cut(const struct specials *s, const char *text, const struct special_part *part,
                    uint32_t length, struct special_parts *p, size_t *count)
{
    size_t from = part->at;
    for (size_t at = from; at + length <= part->end;) {
        int32_t token = -1;
        if (s->starts[(unsigned char)text[at]]) {
            token = trie_find(s, text + at, part->end - at, length, NULL);
        }
        if (token < 0) {
            at++;
            continue;
        }
        size_t left = at;
        const uint32_t kind = s->vocab->tokens[token].kind;
        if (kind & TOKEN_STRIP_LEFT)
            while (left > from && specials_is_space(text[left - 1])) left--;
        at += length;
        if (specials_part_add(p, count, from, left, -1) ||
            specials_part_add(p, count, at, at, token)) {
            return -1;
        }
        if (kind & TOKEN_STRIP_RIGHT) while (at < part->end && specials_is_space(text[at])) at++;
        from = at;
    }
    return specials_part_add(p, count, from, part->end, -1);
}

static int length_cut(const struct specials *s, const char *text, uint32_t length,
                      struct special_parts *p)
{
    size_t count = 0;
    for (size_t i = 0; i < p->count; i++) {
        const struct special_part part = p->items[i]; /* items may move */
        const int rc = part.token >= 0 ? specials_part_add(p, &count, part.at, part.end, part.token)
                                       : part_cut(s, text, &part, length, p, &count);
        if (rc) return -1;
    }
    struct special_part *items = p->items;
    p->items = p->spare;
    p->spare = items;
    p->count = count;
    return 0;
}

int specials_cut(const struct specials *s, const char *text, size_t bytes,
                 struct special_parts *out)
{
    out->count = 0;
    size_t first = 0;
    if (specials_part_add(out, &first, 0, bytes, -1)) return -1;
    if (!bytes) return 0;
    out->items[0] = out->spare[0];
    out->count = 1;
    if (!s->count) return 0;

    unsigned char *seen = calloc(1, s->length_count);
    if (!seen) return -1;
    for (size_t at = 0; at < bytes; at++) {
        if (s->starts[(unsigned char)text[at]]) trie_find(s, text + at, bytes - at, 0, seen);
    }
    int rc = 0;
    for (uint32_t i = 0; i < s->length_count && !rc; i++) {
        if (seen[i]) rc = length_cut(s, text, s->lengths[i], out);
    }
    free(seen);
    return rc;
}

void special_parts_release(struct special_parts *p)
{
    free(p->items);
    free(p->spare);
    memset(p, 0, sizeof(*p));
}
