/* hot.c - from frame to frame. */
#include "preload/walk/walk.h"

#include <string.h>

#include "base/hot_banned.h"

#define PAGE 4096u

static int page_known(struct sonde__memory *m, uint64_t addr)
{
    const uint64_t page = addr & ~(uint64_t)(PAGE - 1);
    if (page >= m->low && page < m->high) return 1;
    if (!sonde__readable(page)) return 0;
    if (page != m->high) m->low = page;
    m->high = page + PAGE;
    return 1;
}

int sonde__walk_word(void *arg, uint64_t addr, uint64_t *out)
{
    struct sonde__memory *m = arg;
    if (addr > UINT64_MAX - sizeof(*out)) return -1;
    if (addr < m->low || addr + sizeof(*out) > m->high) {
        if (!page_known(m, addr) || !page_known(m, addr + sizeof(*out) - 1)) return -1;
    }
    memcpy(out, (const void *)(uintptr_t)addr, sizeof(*out));
    return 0;
}

/* A word of every page, upwards: then they are one stretch of what is known. */
int sonde__walk_room(struct sonde__memory *m, uint64_t sp)
{
    uint64_t unused;
    const uint64_t low = (sp - SONDE__ROOM_TO_FIND) & ~7ull;
    struct sonde__stack *s = &sonde__stack;
    const int own = sonde__on_stack(sp);
    if (own && low < sp && low >= s->known) return 1;
    _Static_assert(SONDE__ROOM_TO_FIND > PAGE && SONDE__ROOM_TO_FIND < 2 * PAGE, "two pages");
    if (sp <= SONDE__ROOM_TO_FIND || sonde__walk_word(m, low, &unused) ||
        sonde__walk_word(m, low + PAGE, &unused)) {
        return 0;
    }
    if (own && low >= s->low) s->known = low; /* what is between is there as well: it is in use */
    return 1;
}

static enum sonde__rule rule_find(struct sonde__walker *w, uint64_t pc)
{
    enum sonde__rule rule = sonde__rule_find(pc, w->exact, w->known_only, &w->row);
    if (rule != SONDE__RULE_UNKNOWN || !w->asks) return rule;
    struct sonde__memory below = { 0, 0 };
    w->asks = 0;
    if (!sonde__walk_room(&below, (uint64_t)(uintptr_t)__builtin_frame_address(0))) return rule;
    w->begun = 1;
    w->known_only = sonde__walk_begin();
    return sonde__rule_find(pc, w->exact, w->known_only, &w->row);
}

enum sonde__step sonde__walk_next(struct sonde__walker *w, int first, uint64_t *ip)
{
    struct sonde__regs *r = &w->regs;
    const uint64_t pc = w->exact ? r->ip : r->ip - 1;
    enum sonde__step step = SONDE__STEP_FAIL;
    int signal = 0;
    *ip = 0;
    w->rule = pc >> 63 ? SONDE__RULE_NOWHERE : rule_find(w, pc);
    /* What points to no code is no return address: the step before went wrong. */
    if (!first && w->rule == SONDE__RULE_NOWHERE) return step;
    *ip = w->rule == SONDE__RULE_ROW && w->row.cfa == SONDE__CFA_SIGNAL ? r->ip : pc;
    if (w->rule == SONDE__RULE_ROW) {
        const int jumps = w->row.saved & SONDE__SAVED_JUMPS && !w->jumps;
        struct sonde__regs inner;
        if (jumps) inner = *r;
        step = sonde__unwind_apply(&w->row, r, sonde__walk_word, &w->memory, &signal);
        if (jumps && step == SONDE__STEP_OK &&
            sonde__unwind_land(w->landing, &inner, r, sonde__walk_word, &w->memory, &signal)) {
            step = SONDE__STEP_FAIL;
        }
        w->jumps |= jumps;
    } else if (w->rule == SONDE__RULE_FP_DOUBT && first && w->exact && w->judges &&
               !w->known_only && sonde__rule_is_leaf(&w->memory, pc, r->sp)) {
        step = sonde__unwind_leaf(r, sonde__walk_word, &w->memory);
    } else if (w->rule == SONDE__RULE_FP || w->rule == SONDE__RULE_FP_DOUBT) {
        const uint64_t sp = r->sp, fp = r->bp;
        step = sonde__unwind_fp(r, sonde__walk_word, &w->memory);
        if (w->judges && w->rule == SONDE__RULE_FP_DOUBT && step == SONDE__STEP_OK) {
            w->doubt |= w->known_only || sonde__rule_hides_call(&w->memory, pc, sp, fp);
        }
        /* In code that does not keep a frame pointer it may be 0 for any reason. */
        if (first && step == SONDE__STEP_END) step = SONDE__STEP_FAIL;
    }
    w->exact = signal;
    return step;
}
