/* mem_stack.h - from where an allocation is made, mostly without walking.
 *
 * What a walk finds depends on nothing but the caller's registers (return address, sp, and bp where
 * a rule uses it), the rules, and the words of the stack that it reads: return addresses, frame
 * pointers that a rule further out uses, and saved values of sp (realigned stacks). So a stack that
 * was walked is remembered with those words, by its caller; if they are all as they were, the walk
 * would find the same. That takes about a nanosecond a frame.
 *
 * Comparing goes outwards and stops at the first difference. As long as all words are the same the
 * frames are the real ones, and the next one's words are where the program itself will look when it
 * returns: they can be read.
 *
 * Otherwise it is walked, but only up to a frame that the last walk of this thread met too, in the
 * same place with the same registers, if the words further out are the same (the shadow). Frames
 * further in are new, and so are their nodes.
 *
 * Stacks with signal frames, or with rules that use other registers, are walked each time. */
#ifndef SONDE_PRELOAD_MEM_STACK_H
#define SONDE_PRELOAD_MEM_STACK_H

#include <string.h>

#include "preload/mem.h"

struct sonde__mem_stack {       /* one that is remembered */
    uint64_t ra, sp, bp;        /* of the allocation's caller */
    uint64_t bp_mask;           /* ~0 if bp matters, else 0 */
    struct sonde__mem_row *row; /* in the thread's lane */
    uint32_t site;
    uint16_t checks;            /* words of the stack that must be as they were … */
    uint16_t room;              /* … and there is room for */
    uint64_t value[];           /* room of them, then where: uint32_t above sp */
};

static inline uint32_t *sonde__stack_where(const struct sonde__mem_stack *s)
{
    return (uint32_t *)(uintptr_t)&s->value[s->room];
}

static inline uint16_t *sonde__stack_slot(struct sonde__mem_thread *t,
                                          const struct sonde__caller *c)
{
    return &t->slot[(c->ra ^ c->sp << 20) * 0x9e3779b97f4a7c15ull >> 55];
}
_Static_assert(SONDE__MEM_SLOTS == 1u << (64 - 55), "as many as bits are left");

static inline struct sonde__mem_stack *sonde__stack_at(struct sonde__mem_thread *t, uint32_t i)
{
    return (struct sonde__mem_stack *)(void *)(t->pool + 16 * i);
}

/* The stack that c is in, if it is remembered; else NULL. */
static inline const struct sonde__mem_stack *sonde__stack_recall(struct sonde__mem_thread *t,
                                                                 const struct sonde__caller *c)
{
    const struct sonde__mem_stack *s = sonde__stack_at(t, *sonde__stack_slot(t, c));
    if (s->ra != c->ra || s->sp != c->sp || (s->bp ^ c->bp) & s->bp_mask ||
        t->unloads != sonde__unloads()) {
        return NULL;
    }
    const uint32_t *off = sonde__stack_where(s);
    const char *sp = (const char *)(uintptr_t)c->sp;
    for (uint32_t i = 0; i < s->checks; i++) {
        uint64_t v;
        memcpy(&v, sp + off[i], sizeof(v));
        if (v != s->value[i]) return NULL;
    }
    return s;
}

#endif
