/* profile.c - see profile.h; the advice is in advice.c. */
#include "text/profile.h"

#include <string.h>

#include "text/encode.h"

void profile_init(struct profile *p)
{
    memset(p, 0, sizeof(*p));
    pthread_mutex_init(&p->lock, NULL);
}

void profile_release(struct profile *p) { pthread_mutex_destroy(&p->lock); }

static void slow_insert(struct profile *p, const struct tokenizer_slow *slow)
{
    pthread_mutex_lock(&p->lock);
    size_t at = p->slow_count;
    while (at > 0 && p->slowest[at - 1].ns < slow->ns) at--;
    if (at < TOKENIZER_SLOWEST) {
        if (p->slow_count < TOKENIZER_SLOWEST) p->slow_count++;
        memmove(&p->slowest[at + 1], &p->slowest[at], (p->slow_count - at - 1) * sizeof(*slow));
        p->slowest[at] = *slow;
        if (p->slow_count == TOKENIZER_SLOWEST) p->slow_ns = p->slowest[TOKENIZER_SLOWEST - 1].ns;
    }
    pthread_mutex_unlock(&p->lock);
}

static void tokenizer_profile_add(_Atomic uint64_t *to, uint64_t n)
{
    if (n) atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static uint64_t tokenizer_profile_get(const _Atomic uint64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

#define PROFILE_COUNTS(X)                                                                      \
    X(bytes) X(tokens) X(ns) X(lookups) X(merges) X(cache_hits) X(cache_misses) X(words_long)  \
    X(words_long_bytes)

void profile_add(struct profile *p, const struct tokenizer_counts *one)
{
    tokenizer_profile_add(&p->encodes, 1);
#define PROFILE_ADD(field) tokenizer_profile_add(&p->field, one->field);
    PROFILE_COUNTS(PROFILE_ADD)
#undef PROFILE_ADD
    if (one->ns <= tokenizer_profile_get(&p->slow_ns)) return;
    slow_insert(p, &(struct tokenizer_slow){ .bytes = one->bytes, .tokens = one->tokens,
                                             .ns = one->ns, .merges = one->merges });
}

void tokenizer_counts(const struct tokenizer *t, struct tokenizer_counts *out)
{
    memset(out, 0, sizeof(*out));
    out->encodes = tokenizer_profile_get(&t->profile.encodes);
#define PROFILE_GET(field) out->field = tokenizer_profile_get(&t->profile.field);
    PROFILE_COUNTS(PROFILE_GET)
#undef PROFILE_GET
    out->cache_slots = WORD_CACHE_SLOTS;
    out->cache_used = word_cache_used(&t->cache);
}

size_t tokenizer_slowest(const struct tokenizer *t, struct tokenizer_slow out[TOKENIZER_SLOWEST])
{
    struct profile *p = (struct profile *)(uintptr_t)&t->profile; /* its lock */
    pthread_mutex_lock(&p->lock);
    const size_t count = p->slow_count;
    memcpy(out, p->slowest, count * sizeof(*out));
    pthread_mutex_unlock(&p->lock);
    return count;
}
