#include "base/intern.h"

#include <assert.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

enum { TABLE_FIRST = 64, BLOCK_FIRST = 4096, BLOCK_BYTES = 1 << 18 };

struct sonde_strings_block {
    struct sonde_strings_block *next;
    size_t used, cap;
    char data[];
};

static int budget_take(const struct sonde_budget *b, size_t bytes)
{
    assert(*b->used <= b->max);
    if (bytes > b->max - *b->used) return SONDE_ENOMEM;
    *b->used += bytes;
    return 0;
}

void *sonde_table_grow(void *data, uint32_t count, uint32_t *cap, size_t size,
                       const struct sonde_budget *b)
{
    assert(count <= *cap || !*cap); /* row 0 may be counted before there is a table */
    if (count < *cap) return data;
    if (*cap > UINT32_MAX / 2) return NULL; /* ids are 32 bits */
    const uint32_t more = *cap ? *cap * 2 : TABLE_FIRST;
    const size_t added = (size_t)(more - *cap) * size;
    if (budget_take(b, added)) return NULL;
    void *grown = sonde__realloc(data, (size_t)more * size);
    if (!grown) {
        *b->used -= added;
        return NULL;
    }
    *cap = more;
    return grown;
}

int sonde_intern_reserve(struct sonde_map *index, const struct sonde_budget *b)
{
    if (sonde_map_has_room(index)) return 0;
    const size_t more = sonde_map_reserve_bytes(index);
    if (budget_take(b, more)) return SONDE_ENOMEM;
    const int rc = sonde_map_reserve(index);
    if (rc) *b->used -= more;
    return rc;
}

/* ---- Strings --------------------------------------------------------------------------------- */

static char *block_room(struct sonde_strings *pool, size_t bytes, const struct sonde_budget *b)
{
    struct sonde_strings_block *head = pool->blocks;
    if (head && head->cap - head->used >= bytes) return head->data + head->used;

    /* Blocks grow with the pool, so that a small profile stays small. */
    size_t cap = head ? head->cap * 2 : BLOCK_FIRST;
    if (cap > BLOCK_BYTES) cap = BLOCK_BYTES;
    if (cap < bytes) cap = bytes;
    if (budget_take(b, sizeof(*head) + cap)) return NULL;
    struct sonde_strings_block *block = sonde__alloc(sizeof(*block) + cap);
    if (!block) {
        *b->used -= sizeof(*head) + cap;
        return NULL;
    }
    *block = (struct sonde_strings_block){ .next = head, .cap = cap };
    pool->blocks = block;
    return block->data;
}

/* A string that is not in the pool yet. */
static uint32_t pool_append(struct sonde_strings *pool, const char *s, size_t len,
                            const struct sonde_budget *b)
{
    if (len >= UINT32_MAX) return 0;
    char **strings = sonde_table_grow(pool->strings, pool->count, &pool->cap, sizeof(*strings), b);
    if (!strings) return 0;
    pool->strings = strings;
    uint32_t *lengths =
        sonde_table_grow(pool->lengths, pool->count, &pool->lengths_cap, sizeof(*lengths), b);
    if (!lengths) return 0;
    pool->lengths = lengths;
    char *text = block_room(pool, len + 1, b);
    if (!text) return 0;
    memcpy(text, s, len);
    text[len] = '\0';
    pool->blocks->used += len + 1;
    assert(pool->blocks->used <= pool->blocks->cap);
    pool->strings[pool->count] = text;
    pool->lengths[pool->count] = (uint32_t)len;
    return pool->count++;
}

int sonde_strings_init(struct sonde_strings *pool, const struct sonde_budget *b)
{
    *pool = (struct sonde_strings){ 0 };
    pool_append(pool, "", 0, b);
    if (pool->count) return 0;
    sonde_strings_release(pool);
    return SONDE_ENOMEM;
}

void sonde_strings_release(struct sonde_strings *pool)
{
    for (struct sonde_strings_block *block = pool->blocks, *next; block; block = next) {
        next = block->next;
        sonde__free(block);
    }
    sonde__free(pool->strings);
    sonde__free(pool->lengths);
    sonde_map_release(&pool->index);
    *pool = (struct sonde_strings){ 0 };
}

uint32_t sonde_strings_add(struct sonde_strings *pool, const char *s, size_t len,
                           const struct sonde_budget *b)
{
    if (!len) return 0;
    const uint32_t hash = sonde_hash_bytes(s, len);
    uint32_t id = sonde_strings_find(pool, s, len, hash);
    if (id) return id;
    if (sonde_intern_reserve(&pool->index, b)) return 0;
    id = pool_append(pool, s, len, b);
    if (id) sonde_map_put(&pool->index, hash, id);
    return id;
}
