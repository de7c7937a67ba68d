/* map.c - see map.h. Both shapes have the same functions, so they are written once, as a macro over
 * the names of the types and of the field that says whether a slot is in use. */
#include "base/map.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

enum { FIRST = 128 };

/* 0 = it cannot grow any more. */
static uint32_t cap_after(uint32_t cap)
{
    return !cap ? FIRST : cap > UINT32_MAX / 2 ? 0 : cap * 2;
}

/* Removing: slots behind the hole move into it unless that would put them before their home, which
 * is where their search begins. Distances are modulo the size of the table. */
#define MAP_FUNCTIONS(map, value, value_type, key_type)                                        \
    size_t map##_reserve_bytes(const struct map *m)                                            \
    {                                                                                          \
        const uint32_t cap = map##_has_room(m) ? m->cap : cap_after(m->cap);                   \
        return cap > m->cap ? (size_t)(cap - m->cap) * sizeof(*m->slots) : 0;                  \
    }                                                                                          \
                                                                                               \
    int map##_reserve(struct map *m)                                                           \
    {                                                                                          \
        if (map##_has_room(m)) return 0;                                                       \
        struct map more = { .cap = cap_after(m->cap) };                                        \
        if (!more.cap) return SONDE_ENOMEM;                                                    \
        /* Not calloc: a page that is first read and then written is faulted in twice. */      \
        more.slots = sonde__alloc((size_t)more.cap * sizeof(*more.slots));                     \
        if (!more.slots) return SONDE_ENOMEM;                                                  \
        memset(more.slots, 0, (size_t)more.cap * sizeof(*more.slots));                         \
        for (uint32_t i = 0; i < m->cap; i++) {                                                \
            if (m->slots[i].value) map##_put(&more, m->slots[i].hash, m->slots[i].value);      \
        }                                                                                      \
        sonde__free(m->slots);                                                                 \
        *m = more;                                                                             \
        return 0;                                                                              \
    }                                                                                          \
                                                                                               \
    void map##_put(struct map *m, uint32_t hash, value_type given)                             \
    {                                                                                          \
        assert(given);                                                                         \
        assert(m->used < m->cap);                                                              \
        const uint32_t mask = m->cap - 1;                                                      \
        uint32_t at = hash & mask;                                                             \
        while (m->slots[at].value) at = (at + 1) & mask;                                       \
        m->slots[at] = (struct map##_slot){ .hash = hash, .value = given };                    \
        m->used++;                                                                             \
    }                                                                                          \
                                                                                               \
    static uint32_t map##_slot_of(const struct map *m, uint32_t hash, key_type given)          \
    {                                                                                          \
        assert(given && m->used);                                                              \
        const uint32_t mask = m->cap - 1;                                                      \
        uint32_t at = hash & mask;                                                             \
        while (m->slots[at].value != given) {                                                  \
            assert(m->slots[at].value); /* it is there */                                      \
            at = (at + 1) & mask;                                                              \
        }                                                                                      \
        return at;                                                                             \
    }                                                                                          \
                                                                                               \
    void map##_remove(struct map *m, uint32_t hash, key_type given)                            \
    {                                                                                          \
        const uint32_t mask = m->cap - 1;                                                      \
        uint32_t hole = map##_slot_of(m, hash, given);                                         \
        for (uint32_t at = (hole + 1) & mask; m->slots[at].value; at = (at + 1) & mask) {      \
            const uint32_t home = m->slots[at].hash & mask;                                    \
            if (((at - home) & mask) < ((at - hole) & mask)) continue;                         \
            m->slots[hole] = m->slots[at];                                                     \
            hole = at;                                                                         \
        }                                                                                      \
        m->slots[hole] = (struct map##_slot){ 0 };                                             \
        m->used--;                                                                             \
    }                                                                                          \
                                                                                               \
    void map##_clear(struct map *m)                                                            \
    {                                                                                          \
        if (m->used) memset(m->slots, 0, (size_t)m->cap * sizeof(*m->slots));                  \
        m->used = 0;                                                                           \
    }                                                                                          \
                                                                                               \
    void map##_release(struct map *m)                                                          \
    {                                                                                          \
        sonde__free(m->slots);                                                                 \
        *m = (struct map){ 0 };                                                                \
    }

MAP_FUNCTIONS(sonde_map, row, uint32_t, uint32_t)
MAP_FUNCTIONS(sonde_pointer_map, item, void *, const void *)

void sonde_map_renumber(struct sonde_map *m, uint32_t hash, uint32_t row, uint32_t now)
{
    assert(now);
    m->slots[sonde_map_slot_of(m, hash, row)].row = now;
}
