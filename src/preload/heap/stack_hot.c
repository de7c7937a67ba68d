/* stack_hot.c - walking a stack, as far as must be, and remembering it: see stack.h. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "preload/heap/stack.h"
#include "preload/walk/python_walk.h"

#include "base/hot_banned.h"

enum {
    BP_LOADED = 1,  /* bp was read on the way into this frame … */
    BP_USED = 2,    /* … and bp as it is in this frame is what frames further out hang on */
    VIA = 4,        /* sp was read on the way into this frame */
    EXACT = 8       /* ra is where the frame was interrupted */
};

struct heap_walk_state {
    struct sonde__heap_thread *t;
    struct sonde__walker w;
    uint32_t n;             /* frames in t->fresh */
    uint32_t joined;        /* + 1: shadow frame that the last one is */
    int remember;           /* all that it hangs on is known */
    int truncated;
    int deep;               /* cut for its depth */
    struct sonde__python_walk python;
    uint32_t broken;        /* shadow frame that does not stand any more: none further in will do */
};

static uint64_t heap_walk_at(uint64_t base, int32_t off) { return base + (uint64_t)(int64_t)off; }

/* ---- What a walk hangs on -------------------------------------------------------------------- */

static void use_bp(struct sonde__heap_frame *frames, uint32_t i)
{
    for (;; i--) {
        frames[i].flags |= BP_USED;
        if (!i || frames[i].flags & BP_LOADED) return;
    }
}

static int heap_walk_fits(int64_t off) { return off >= INT32_MIN && off <= INT32_MAX; }

static void load_bp(struct heap_walk_state *k, struct sonde__heap_frame *next, uint64_t slot)
{
    const int64_t off = (int64_t)(slot - next->sp);
    if (!heap_walk_fits(off)) k->remember = 0;
    next->bp_at = (int32_t)off;
    next->flags |= BP_LOADED;
}

static void load_sp(struct heap_walk_state *k, struct sonde__heap_frame *next, uint64_t slot,
                    int off2)
{
    const int64_t off = (int64_t)(slot - next->sp);
    if (!heap_walk_fits(off)) k->remember = 0;
    next->via_at = (int32_t)off;
    next->via_off = (int16_t)off2;
    next->flags |= VIA;
}

/* By row, from frame i with sp and bp, next was reached. */
static void note_row(struct heap_walk_state *k, uint32_t i, uint64_t sp, uint64_t bp,
                     struct sonde__heap_frame *next)
{
    const struct sonde__unwind_row *row = &k->w.row;
    const uint32_t saved = row->saved & 15u;
    if (row->ra_off != -8) k->remember = 0;
    switch (row->cfa) {
    case SONDE__CFA_SP: break;
    case SONDE__CFA_BP: use_bp(k->t->fresh, i); break;
    case SONDE__CFA_SP_DEREF:
        load_sp(k, next, heap_walk_at(sp, row->cfa_off), row->cfa_off2);
        break;
    case SONDE__CFA_BP_DEREF:
        use_bp(k->t->fresh, i);
        load_sp(k, next, heap_walk_at(bp, row->cfa_off), row->cfa_off2);
        break;
    default: k->remember = 0;
    }
    if (saved == SONDE__SAVED_AT_CFA) {
        const uint64_t slot = heap_walk_at(next->sp, row->bp_off);
        if (slot >= sp) load_bp(k, next, slot);
    } else if (saved == SONDE__SAVED_AT_BP) {
        const uint64_t slot = heap_walk_at(bp, row->bp_off);
        use_bp(k->t->fresh, i);
        if (slot >= sp) load_bp(k, next, slot);
    } else if (saved == SONDE__SAVED_IN_REG) {
        k->remember = 0;
    }
}

/* There is no way on by row: that would be so again. */
static void note_last(struct heap_walk_state *k, uint32_t i)
{
    switch (k->w.row.cfa) {
    case SONDE__CFA_END: case SONDE__CFA_SP: break;
    case SONDE__CFA_BP: use_bp(k->t->fresh, i); break;
    default: k->remember = 0;
    }
}

/* How the step from frame i was made; next was reached by it, if it was. */
static void heap_walk_note(struct heap_walk_state *k, uint32_t i, uint64_t sp, uint64_t bp,
                           struct sonde__heap_frame *next, int reached)
{
    if (k->w.rule == SONDE__RULE_ROW) {
        if (reached) note_row(k, i, sp, bp, next);
        else note_last(k, i);
    } else if (k->w.rule == SONDE__RULE_FP) {
        use_bp(k->t->fresh, i);
        if (reached) load_bp(k, next, bp);
    } else {
        k->remember = 0;
    }
}

/* ---- Walking --------------------------------------------------------------------------------- */

static inline int heap_walk_stands(const struct sonde__heap_frame *f)
{
    if (sonde__walk_load(f->sp - 8) != f->ra) return 0;
    if ((f->flags & (BP_LOADED | BP_USED)) == (BP_LOADED | BP_USED) &&
        sonde__walk_load(heap_walk_at(f->sp, f->bp_at)) != f->bp) {
        return 0;
    }
    return !(f->flags & VIA) ||
           heap_walk_at(sonde__walk_load(heap_walk_at(f->sp, f->via_at)), f->via_off) == f->sp;
}

/* Do frames further out than m still stand? */
static int all_stand(struct heap_walk_state *k, uint32_t m)
{
    while (m--) {
        if (heap_walk_stands(&k->t->shadow[m])) continue;
        k->broken = m;
        return 0;
    }
    return 1;
}

/* Frame i is one of the shadow's: the walk is over. *m: shadow frames not yet passed. */
static inline int heap_walk_join(struct heap_walk_state *k, uint32_t i, uint32_t *m)
{
    const struct sonde__heap_frame *shadow = k->t->shadow;
    struct sonde__heap_frame *f = &k->t->fresh[i];
    while (*m && shadow[*m - 1].sp < f->sp) --*m;
    if (!*m) return 0;
    const struct sonde__heap_frame *s = &shadow[*m - 1];
    if (s->sp != f->sp || s->ra != f->ra || (s->flags | f->flags) & EXACT || !s->node ||
        (s->flags & BP_USED && (s->bp != f->bp || k->w.regs.bp_lost)) ||
        i + *m > sonde__heap_state.depth_max || *m - 1 > k->broken || !all_stand(k, *m - 1)) {
        return 0;
    }
    if (s->flags & BP_USED) use_bp(k->t->fresh, i);
    f->node = s->node;
    k->joined = *m;
    return 1;
}

static int in_own_code(uint64_t ip)
{
    return ip >= sonde__heap_state.own_low && ip < sonde__heap_state.own_high;
}

/* Out of our own functions. */
static int heap_walk_leave(struct sonde__walker *w)
{
    uint64_t ip;
    while (in_own_code(w->regs.ip)) {
        if (sonde__walk_next(w, 0, &ip) != SONDE__STEP_OK) return -1;
    }
    return 0;
}

/* The same for a step by a rule that is a word: sp is that of frame i. */
static inline void note_fast(struct heap_walk_state *k, uint32_t i, uint64_t sp, uint64_t rule,
                             struct sonde__heap_frame *next)
{
    const int off = sonde__fast_bp_off(rule);
    if ((rule & SONDE__FAST_KIND) == SONDE__FAST_BP) use_bp(k->t->fresh, i);
    if (rule & SONDE__FAST_BP_SAVED && heap_walk_at(next->sp, off) >= sp) {
        next->bp_at = off;
        next->flags |= BP_LOADED;
    }
}

/* The next run of Python's frames, from frame i on, which is the native one that they stand for. */
static void heap_walk_python(struct heap_walk_state *k, uint32_t i)
{
    uint64_t frame;
    const uint32_t first = i;
    while (i < sonde__heap_state.depth_max && (frame = sonde__python_frame(&k->python))) {
        k->t->fresh[i++] = (struct sonde__heap_frame){ .ra = frame, .flags = EXACT };
    }
    if (i > first) k->n = i;
}

/* Calls from Python to Python leave no trace on the C stack, so that what is the same there may
 * still be another stack: nothing of it is remembered. */
static void heap_walk_python_begin(struct heap_walk_state *k)
{
    sonde__python_end(&k->python); /* of a walk that did not get on */
    sonde__python_begin(&k->python, 1);
    if (k->python.anchor) k->remember = 0;
}

static void heap_walk_frames(struct heap_walk_state *k)
{
    struct sonde__heap_thread *t = k->t;
    const struct sonde__regs *r = &k->w.regs;
    const uint64_t salt = sonde__fast_salt();
    uint32_t m = t->shadow_whole ? t->shadow_depth : 0;
    struct sonde__heap_frame next = { .ra = r->ip, .sp = r->sp, .bp = r->bp };
    enum sonde__step step = SONDE__STEP_OK;
    k->truncated = 1;
    k->broken = m;
    for (;;) {
        const uint32_t i = k->n;
        if (i == sonde__heap_state.depth_max) {
            k->deep = 1;
            return;
        }
        next.flags |= k->w.exact ? EXACT : 0;
        t->fresh[i] = next;
        if (k->remember && heap_walk_join(k, i, &m)) {
            k->truncated = 0;
            k->n++;
            return;
        }
        const uint64_t sp = r->sp, bp = r->bp;
        const uint64_t rule = k->w.exact ? 0 : sonde__fast_find(salt, r->ip - 1);
        step = rule ? sonde__walk_fast(&k->w, rule) : SONDE__STEP_FAIL;
        if (step == SONDE__STEP_OK) {
            k->n++;
            next = (struct sonde__heap_frame){ .ra = r->ip, .sp = r->sp, .bp = r->bp };
            note_fast(k, i, sp, rule, &next);
            if (sonde__python_here(&k->python, sp, r->sp)) heap_walk_python(k, i);
            continue;
        }
        uint64_t ip;
        step = sonde__walk_next(&k->w, !i, &ip);
        if (!ip) {  /* the frame before was not what it seemed */
            k->remember = 0;
            return;
        }
        k->n++;
        if (k->w.row.cfa == SONDE__CFA_SIGNAL && k->w.rule == SONDE__RULE_ROW) {
            t->fresh[i].flags |= EXACT;
        }
        next = (struct sonde__heap_frame){ .ra = r->ip, .sp = r->sp, .bp = r->bp };
        heap_walk_note(k, i, sp, bp, &next, step == SONDE__STEP_OK);
        if (step == SONDE__STEP_END) k->truncated = 0;
        if (step != SONDE__STEP_OK) return;
        if (sonde__python_here(&k->python, sp, r->sp)) heap_walk_python(k, i);
    }
}

/* The node of a frame under its caller's; 0 = there is no room. */
static inline uint32_t node_of(struct sonde__heap_thread *t, uint32_t parent,
                               const struct sonde__heap_frame *f)
{
    const uint64_t ra = f->ra << 1 | (f->flags & EXACT ? 1u : 0u);
    struct sonde__heap_named *e =
        &t->named[(ra ^ (uint64_t)parent << 40) * 0x9e3779b97f4a7c15ull >> 54];
    _Static_assert(SONDE__HEAP_NAMED == 1u << (64 - 54), "as many as bits are left");
    if (e->ra == ra && e->parent == parent) return e->node;
    const uint32_t node = sonde__heap_node(parent, sonde__heap_tag(f->flags & EXACT ? f->ra
                                                                                    : f->ra - 1));
    if (node) *e = (struct sonde__heap_named){ ra, parent, node };
    return node;
}

/* Nodes from the outside in; the innermost one's number. */
static uint32_t heap_walk_name(struct heap_walk_state *k)
{
    struct sonde__heap_frame *fresh = k->t->fresh;
    uint32_t i = k->n, node = k->truncated ? SONDE__HEAP_NODE_TRUNCATED : 0;
    if (k->joined) node = fresh[--i].node;
    while (i--) {
        node = node_of(k->t, node, &fresh[i]);
        fresh[i].node = node;
        if (!node) return 0;
    }
    return node;
}

static void shadow_set(const struct heap_walk_state *k)
{
    struct sonde__heap_thread *t = k->t;
    uint32_t depth = k->joined ? k->joined - 1 : 0;
    for (uint32_t i = k->n; i--;) t->shadow[depth++] = t->fresh[i];
    t->shadow_depth = k->remember ? depth : 0;
    t->shadow_whole = !k->deep;
}

/* ---- Remembering ----------------------------------------------------------------------------- */

/* When the pool is full everything is forgotten: what is needed comes back. */
static void forget_all(struct sonde__heap_thread *t)
{
    memset(t->slot, 0, sizeof(t->slot));
    t->pool_used = 1; /* 0 is none */
    t->miss.from = 0;
}

static uint32_t pool_units(uint32_t checks)
{
    return (uint32_t)((sizeof(struct sonde__heap_stack) + checks * 12 + SONDE__STACK_UNIT - 1) /
                      SONDE__STACK_UNIT);
}

/* The next index; 0 = there can be none. */
static uint32_t pool_next(struct sonde__heap_thread *t, uint32_t checks)
{
    const uint32_t units = pool_units(checks), all = SONDE__HEAP_POOL / SONDE__STACK_UNIT;
    if (units >= all || checks >= SONDE__STACK_BP) return 0;
    if (t->pool_used + units > all) forget_all(t);
    return t->pool_used;
}

static int check_add(struct sonde__heap_stack *s, uint32_t *n, uint64_t addr, uint64_t value)
{
    const uint64_t off = addr - s->sp;
    if (off > UINT32_MAX) return -1;
    s->value[*n] = value;
    sonde__stack_where(s)[(*n)++] = (uint32_t)off;
    return 0;
}

static uint32_t checks_of(const struct sonde__heap_frame *f)
{
    const uint32_t bp = (f->flags & (BP_LOADED | BP_USED)) == (BP_LOADED | BP_USED);
    return 1 + bp + (f->flags & VIA ? 1u : 0u);
}

static int check_frame(struct sonde__heap_stack *s, uint32_t *n, const struct sonde__heap_frame *f)
{
    int rc = check_add(s, n, f->sp - 8, f->ra);
    if ((f->flags & (BP_LOADED | BP_USED)) == (BP_LOADED | BP_USED)) {
        rc |= check_add(s, n, heap_walk_at(f->sp, f->bp_at), f->bp);
    }
    if (f->flags & VIA) {
        rc |= check_add(s, n, heap_walk_at(f->sp, f->via_at), heap_walk_at(f->sp, -f->via_off));
    }
    return rc;
}

/* Are the words before the one that tells s from other the same? Then comparing can go on there. */
static uint16_t heap_walk_first_of(const struct sonde__heap_stack *s,
                                   const struct sonde__heap_stack *other)
{
    const uint32_t n = s->at;
    const uint32_t *where = sonde__stack_where(s), *others = sonde__stack_where(other);
    if (n >= s->checks || n >= other->checks || where[n] != others[n] ||
        s->value[n] != s->branch) {
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (s->value[i] != other->value[i] || where[i] != others[i]) return 0;
    }
    return (uint16_t)(n + 1);
}

/* Where the comparison ended that did not find it. */
static void stack_enter(struct sonde__heap_thread *t, uint32_t index, struct sonde__heap_stack *s)
{
    const struct sonde__heap_stack *other = sonde__stack_at(t, t->miss.from);
    const int told = t->miss.from && other->ra == s->ra && other->sp == s->sp;
    const struct sonde__caller c = { s->ra, s->sp, s->bp };
    s->from = told ? (uint16_t)t->miss.from : 0;
    s->at = told ? (uint16_t)t->miss.at : 0;
    s->branch = told ? t->miss.branch : sonde__caller_key(&c);
    s->first = told ? heap_walk_first_of(s, other) : 0;
    uint16_t *slot = sonde__stack_slots(t, s->from, s->at, s->branch);
    slot[1] = slot[0];
    slot[0] = (uint16_t)index;
}

static struct sonde__heap_stack *heap_walk_remember(struct sonde__heap_thread *t,
                                                    const struct sonde__caller *c)
{
    const uint32_t depth = t->shadow_depth;
    const struct sonde__heap_frame *caller = &t->shadow[depth - 1];
    uint32_t checks = 0;
    int rc = 0;
    if (!depth || caller->ra != c->ra || caller->sp != c->sp) return NULL;
    for (uint32_t i = 0; i + 1 < depth; i++) checks += checks_of(&t->shadow[i]);
    const uint32_t index = pool_next(t, checks);
    if (!index) return NULL;
    struct sonde__heap_stack *s = sonde__stack_at(t, index);
    const uint64_t bp_mask = caller->flags & BP_USED ? ~0ull : 0;
    *s = (struct sonde__heap_stack){ .ra = c->ra, .sp = c->sp, .bp = c->bp, .bp_mask = bp_mask,
                                     .checks = (uint16_t)checks };
    uint32_t n = 0;
    for (uint32_t i = depth - 1; i--;) rc |= check_frame(s, &n, &t->shadow[i]);
    if (rc) return NULL;
    t->pool_used += pool_units(checks);
    stack_enter(t, index, s);
    return s;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* Whether memory can be read, if it is not the thread's own stack, is remembered as well, for as
 * long as the thread stays there and no mapping is taken away. */
static void memory_begin(struct heap_walk_state *k, uint64_t sp, uint32_t unmaps)
{
    const struct sonde__heap_thread *t = k->t;
    uint64_t unused;
    k->w.memory = sonde__memory_above(sp);
    if (k->w.memory.high) return;
    if (t->unmaps == unmaps && sp >= t->memory.low && sp < t->memory.high) k->w.memory = t->memory;
    else (void)sonde__walk_word(&k->w.memory, sp & ~7ull, &unused);
}

/* A walk from here, out of our own functions, with all the registers that there are: should a rule
 * want one that the caller's do not include. */
__attribute__((noinline)) static void walk_here(struct heap_walk_state *k)
{
    k->n = 0;
    k->remember = 1;
    k->w.jumps = 0;
    sonde__arch_here(&k->w.regs);
    k->w.exact = 1;
    heap_walk_python_begin(k);
    if (heap_walk_leave(&k->w)) k->remember = 0;
    else heap_walk_frames(k);
}

static uint32_t heap_walk_from(struct sonde__heap_thread *t, const struct sonde__caller *c,
                               struct heap_walk_state *k)
{
    const uint32_t unmaps = __atomic_load_n(&sonde__heap_unmaps, __ATOMIC_RELAXED);
    memset(k, 0, sizeof(*k));
    k->t = t;
    k->remember = 1;
    k->w.known_only = k->w.asks = 1;
    k->w.regs.ip = c->ra;
    k->w.regs.sp = c->sp;
    k->w.regs.bp = c->bp;
    memory_begin(k, c->sp, unmaps);
    heap_walk_python_begin(k);
    const int known = k->python.found != NULL;
    if (!in_own_code(c->ra)) heap_walk_frames(k);
    else k->truncated = 1;
    if (k->truncated && !k->deep) walk_here(k);
    while (k->truncated && k->python.anchor && k->n < sonde__heap_state.depth_max) {
        heap_walk_python(k, k->n); /* known also where native frames are not */
    }
    if (!known && sonde__python_found()) k->remember = 0; /* it was met on this very walk */
    sonde__python_end(&k->python);
    if (k->w.begun) sonde__walk_end();
    t->memory = k->w.memory;
    t->unmaps = unmaps;
    return k->n ? heap_walk_name(k) : 0;
}

/* Where there is no memory for rows of its own, a thread adds to everybody's from then on. */
static struct sonde__heap_row *row_in_lane(struct sonde__heap_thread *t, uint32_t site)
{
    struct sonde__heap_row *row = sonde__heap_row(t->lane_index, site);
    if (row) return row;
    forget_all(t);
    sonde__heap_lane_leave(t);
    return sonde__heap_row(0, site);
}

uint32_t sonde__heap_walk(struct sonde__heap_thread *t, const struct sonde__caller *c,
                          struct sonde__heap_row **row)
{
    struct heap_walk_state k;
    const int saved = errno;
    if (t->unloads != sonde__unloads()) {
        forget_all(t);
        memset(t->named, 0, sizeof(t->named));
        t->shadow_depth = 0;
        t->unloads = sonde__unloads();
    }
    const uint32_t node = heap_walk_from(t, c, &k);
    if (k.truncated || !node) sonde__heap_count(&sonde__heap_state.area->truncated);
    const uint32_t site = node ? sonde__heap_site(node) : SONDE__HEAP_SITE_REST;
    shadow_set(&k);
    *row = row_in_lane(t, site);
    struct sonde__heap_stack *s =
        k.remember && sonde__heap_gate.mode == SONDE__HEAP_FULL ? heap_walk_remember(t, c) : NULL;
    if (s) {
        s->site = site;
        s->row = *row;
    }
    errno = saved;
    return site;
}
