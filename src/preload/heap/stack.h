/* stack.h - from where an allocation is made, mostly without walking.
 *
 * What a walk finds depends on nothing but the caller's registers (return address, sp, and bp where
 * a rule uses it), the rules, and the words of the stack that it reads: return addresses, frame
 * pointers that a rule further out uses, and saved values of sp (realigned stacks). So a stack that
 * was walked is remembered with those words, by its caller; if they are all as they were, the walk
 * would find the same. That takes about a nanosecond a frame.
 *
 * Comparing goes outwards and stops at the first difference. As long as all words are the same the
 * frames are the real ones, and the next one's words are where the program itself will look when it
 * returns: they can be read. The stack that differs there has its place in the same table, by which
 * one it was told apart from, at which word, by which value: comparing goes on in that one, behind
 * that word, since the words before are the same by then. So a function that is reached in hundreds
 * of ways is found by as many comparisons as one that is reached in one, and some jumps.
 *
 * Otherwise it is walked, but only up to a frame that the last walk of this thread met too, in the
 * same place with the same registers, if the words further out are the same (the shadow). Frames
 * further in are new, and so are their nodes.
 *
 * Stacks with signal frames, or with rules that use other registers, are walked each time. */
#ifndef SONDE_PRELOAD_HEAP_STACK_H
#define SONDE_PRELOAD_HEAP_STACK_H

#include <string.h>

#include "preload/heap/heap.h"

struct sonde__heap_stack {       /* one that is remembered; never changed, but with all of them */
    uint64_t ra, sp, bp;        /* of the allocation's caller */
    uint64_t bp_mask;           /* ~0 if bp matters, else 0 */
    uint64_t branch;            /* the word that it was told apart by */
    struct sonde__heap_row *row; /* in the thread's lane */
    uint32_t site;
    uint16_t checks;            /* words of the stack that must be as they were … */
    uint16_t first;             /* … from this one on, if it is come to from another */
    uint16_t from;              /* the one that it was told apart from; 0 = found by ra and sp */
    uint16_t at;                /* by which of whose words; or SONDE__STACK_BP */
    uint16_t pad[2];
    uint64_t value[];           /* checks of them, then where: uint32_t above sp */
};
_Static_assert(sizeof(struct sonde__heap_stack) == 64, "its head is a line");

#define SONDE__STACK_BP UINT16_MAX
#define SONDE__STACK_UNIT 64u   /* pool indexes count these */

static inline uint32_t *sonde__stack_where(const struct sonde__heap_stack *s)
{
    return (uint32_t *)(uintptr_t)&s->value[s->checks];
}

/* Two places next to each other. from = 0: by the caller. */
static inline uint16_t *sonde__stack_slots(struct sonde__heap_thread *t, uint32_t from, uint32_t at,
                                           uint64_t branch)
{
    const uint64_t h = (branch ^ (uint64_t)from << 48 ^ (uint64_t)at << 32) *
                       0x9e3779b97f4a7c15ull;
    return &t->slot[h >> 52 & ~1ull];
}

_Static_assert(SONDE__HEAP_SLOTS == 1u << (64 - 52), "as many as bits are left");

static inline struct sonde__heap_stack *sonde__stack_at(struct sonde__heap_thread *t, uint32_t i)
{
    return (struct sonde__heap_stack *)(void *)(t->pool + SONDE__STACK_UNIT * i);
}

static inline uint64_t sonde__caller_key(const struct sonde__caller *c)
{
    return c->ra ^ c->sp << 20;
}

/* The first to compare with: by the caller; 0 = none. Entry 0 is of nobody. One that was told apart
 * from another, and happens to be met here, will do: all of its words are compared. */
static inline uint32_t sonde__stack_first(struct sonde__heap_thread *t,
                                          const struct sonde__caller *c)
{
    const uint16_t *slot = sonde__stack_slots(t, 0, 0, sonde__caller_key(c));
    const struct sonde__heap_stack *s = sonde__stack_at(t, slot[0]);
    if (__builtin_expect(s->ra == c->ra && s->sp == c->sp, 1)) return slot[0];
    s = sonde__stack_at(t, slot[1]);
    return s->ra == c->ra && s->sp == c->sp ? slot[1] : 0;
}

/* The one that differs from from at such a word, which is branch; 0 = none. */
static inline uint32_t sonde__stack_other(struct sonde__heap_thread *t, uint32_t from, uint32_t at,
                                          uint64_t branch)
{
    const uint16_t *slot = sonde__stack_slots(t, from, at, branch);
    for (int i = 0; i < 2; i++) {
        const struct sonde__heap_stack *s = sonde__stack_at(t, slot[i]);
        if (s->from == from && s->at == at && s->branch == branch) return slot[i];
    }
    return 0;
}

/* The stack that c is in, if it is remembered; else NULL, and t->miss says where it would be. */
static inline const struct sonde__heap_stack *sonde__stack_recall(struct sonde__heap_thread *t,
                                                                  const struct sonde__caller *c)
{
    const char *sp = (const char *)(uintptr_t)c->sp;
    uint32_t from = 0, at = 0, i = 0;
    uint64_t v = 0;
    uint32_t now = t->unloads == sonde__unloads() ? sonde__stack_first(t, c) : 0;
    while (__builtin_expect(now != 0, 1)) {
        const struct sonde__heap_stack *s = sonde__stack_at(t, now);
        const uint32_t *off = sonde__stack_where(s);
        const uint32_t checks = s->checks;
        from = now;
        at = SONDE__STACK_BP;
        v = c->bp;
        if (__builtin_expect(!((s->bp ^ v) & s->bp_mask), 1)) {
            for (; i < checks; i++) {
                memcpy(&v, sp + off[i], sizeof(v));
                if (v != s->value[i]) break;
            }
            if (__builtin_expect(i == checks, 1)) return s;
            at = i;
        }
        now = sonde__stack_other(t, from, at, v);
        i = sonde__stack_at(t, now)->first;
    }
    t->miss.from = from;
    t->miss.at = at;
    t->miss.branch = from ? v : sonde__caller_key(c);
    return NULL;
}

#endif
