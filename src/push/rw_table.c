/* rw_table.c - see remote_write.h. */
#include <string.h>

#include "base/alloc.h"
#include "push/remote_write.h"

static uint64_t rw_table_hash_of(const char *data, size_t len)
{
    uint64_t h = len * 0x9e3779b97f4a7c15ull;
    for (; len >= 8; data += 8, len -= 8) {
        uint64_t w;
        memcpy(&w, data, sizeof(w));
        h = (h ^ w) * 0xbf58476d1ce4e5b9ull;
        h ^= h >> 29;
    }
    for (; len; data++, len--) h = (h ^ (unsigned char)*data) * 0x100000001b3ull;
    h *= 0x94d049bb133111ebull;
    return h ^ h >> 31;
}

static int rw_table_grow(struct rw_table *t)
{
    const size_t size = t->size ? t->size * 2 : 1024;
    struct rw_tracked *slot = sonde__calloc(size, sizeof(*slot));
    if (!slot) return -1;
    for (size_t i = 0; i < t->size; i++) {
        if (!t->slot[i].labels) continue;
        size_t at = (size_t)t->slot[i].hash & (size - 1);
        while (slot[at].labels) at = (at + 1) & (size - 1);
        slot[at] = t->slot[i];
    }
    sonde__free(t->slot);
    t->slot = slot;
    t->size = size;
    return 0;
}

/* Where labels are, or the free slot where they belong: there always is one. */
static size_t rw_table_slot_of(const struct rw_table *t, uint64_t hash, const char *labels,
                               size_t len)
{
    size_t at = (size_t)hash & (t->size - 1);
    for (; t->slot[at].labels; at = (at + 1) & (t->size - 1)) {
        const struct rw_tracked *s = &t->slot[at];
        if (s->hash == hash && s->len == len && !memcmp(s->labels, labels, len)) break;
    }
    return at;
}

/* Only a new one needs room: without memory for that, those that are known stay so. */
void rw_table_mark(struct rw_table *t, const char *labels, size_t len)
{
    const uint64_t hash = rw_table_hash_of(labels, len);
    if (!t->size && rw_table_grow(t) != 0) return;
    size_t at = rw_table_slot_of(t, hash, labels, len);
    if (t->slot[at].labels) {
        t->slot[at].round = t->round;
        return;
    }
    if (t->count >= RW_TRACKED_MAX) return;
    if (4 * (t->count + 1) > 3 * t->size) {
        if (rw_table_grow(t) != 0) return;
        at = rw_table_slot_of(t, hash, labels, len);
    }
    char *copy = sonde__alloc(len + 1);
    if (!copy) return;
    memcpy(copy, labels, len);
    t->slot[at] = (struct rw_tracked){ hash, copy, (uint32_t)len, t->round };
    t->count++;
}

/* Those behind it that would not be found any more move up. */
static void rw_table_take_out(struct rw_table *t, size_t hole)
{
    const size_t mask = t->size - 1;
    sonde__free(t->slot[hole].labels);
    t->slot[hole].labels = NULL;
    t->count--;
    for (size_t at = (hole + 1) & mask; t->slot[at].labels; at = (at + 1) & mask) {
        const size_t home = (size_t)t->slot[at].hash & mask;
        if (((at - home) & mask) < ((at - hole) & mask)) continue;
        t->slot[hole] = t->slot[at];
        t->slot[at].labels = NULL;
        hole = at;
    }
}

void rw_table_sweep(struct rw_table *t, void (*gone)(const char *labels, size_t len, void *arg),
                    void *arg)
{
    for (size_t i = 0; i < t->size;) {
        const struct rw_tracked *s = &t->slot[i];
        if (!s->labels || s->round == t->round) {
            i++;
            continue;
        }
        gone(s->labels, s->len, arg);
        rw_table_take_out(t, i); /* another may be here now */
    }
    t->round++;
}

void rw_table_release(struct rw_table *t)
{
    for (size_t i = 0; i < t->size; i++) sonde__free(t->slot[i].labels);
    sonde__free(t->slot);
    *t = (struct rw_table){ 0 };
}
