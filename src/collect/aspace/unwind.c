/* unwind.c - a stack, frame by frame, with the rules of addresses remembered: return
 * addresses repeat from sample to sample, so nearly every step finds its rule by one probe of a
 * hash table, and reads two or three words of the stack. */
#include <assert.h>
#include <string.h>

#include "collect/aspace/private.h"
#include "unwind/arch_call.h"

#define CODE_BEFORE 16384u /* of a function's code, to find its beginning in */
#define CODE_AFTER 64u
#define HIDES_MAX 4096u   /* bytes of a frame that are searched for another one */
#define ENTRY_CODE 64u    /* of the dynamic linker before it jumps to the program's own beginning */

struct aspace_unwind_stack {
    const uint8_t *copy;
    uint64_t addr;
    size_t len;
    size_t reach;
    size_t used;      /* up to the last word that was read, of those less than reach away */
    uint64_t missing; /* the last word that could not be read … */
    int missed;       /* … if there is one */
    const struct sonde_aspace_outer *outer; /* NULL = nothing is known but the copy */
    int beyond;       /* the step at hand needed words that are not in the copy */
};

static int aspace_unwind_read_stack(void *arg, uint64_t addr, uint64_t *out)
{
    struct aspace_unwind_stack *s = arg;
    const uint64_t at = addr - s->addr;
    if (s->len >= sizeof(*out) && at <= s->len - sizeof(*out)) {
        memcpy(out, s->copy + at, sizeof(*out));
    } else {
        if (s->outer && addr >= s->addr) s->beyond = 1;
        if (!s->beyond || s->outer->word(s->outer->arg, addr, out)) {
            s->missing = addr;
            s->missed = 1;
            return -1;
        }
    }
    if (at < s->reach && s->used < at + sizeof(*out)) s->used = at + sizeof(*out);
    return 0;
}

/* ---- Rules -------------------------------------------------------------------------------- */

/* Where no table has a rule the code itself may show one. from: where such code begins. */
static enum rule_kind aspace_unwind_guess(const struct sonde_aspace *as,
                                          const struct sonde_aspace_mapping *m, uint64_t from,
                                          uint64_t ip, int exact, struct sonde__unwind_row *row)
{
    uint8_t code[CODE_BEFORE + CODE_AFTER];
    if (ip < from || ip >= m->map.end) return RULE_FP_DOUBT;
    const uint64_t before = ip - from < CODE_BEFORE ? ip - from : CODE_BEFORE;
    const uint64_t after = m->map.end - ip < CODE_AFTER ? m->map.end - ip : CODE_AFTER;
    if (sonde_module_code(m, as->pid, ip - before, code, before + after)) return RULE_FP_DOUBT;
    if (sonde__unwind_guess(code, before + after, before, exact, row)) return RULE_ROW;
    return sonde__unwind_keeps_fp(code, before, ip - before) ? RULE_FP : RULE_FP_DOUBT;
}

/* Where a process begins, in code that no table describes from gap on: glibc's dynamic linker. It
 * is sampled there, while its first page comes in. Some linkers name an entry in libraries too, so
 * the code has the last word. */
static int is_entry(const struct sonde_aspace *as, const struct sonde_aspace_mapping *m,
                    uint64_t pc, uint32_t gap)
{
    const uint64_t entry = m->module->elf.entry;
    uint8_t code[8];
    if (!entry || entry < gap || pc < entry || pc - entry >= ENTRY_CODE) return 0;
    return !sonde_module_code(m, as->pid, m->first + entry, code, sizeof(code)) &&
           sonde__unwind_is_entry(code, sizeof(code));
}

static void find_rule(struct sonde_aspace *as, uint64_t pc, int exact, struct rule *out)
{
    struct sonde_aspace_mapping *m = sonde_aspace_find(as, pc);
    uint64_t from;
    out->kind = RULE_NOWHERE;
    if (!m) return;
    from = m->map.start;
    if (m->state == MAPPING_NEW) sonde_aspace_mapping_open(as->modules, m, as->pid);
    if (m->state == MAPPING_OPEN && pc - m->first <= UINT32_MAX) {
        const struct sonde__unwind_table t = sonde_aspace_mapping_table(as->modules, m, as->pid);
        const struct sonde__unwind_row *row = sonde__unwind_lookup(&t, (uint32_t)(pc - m->first));
        if (row && row->cfa != SONDE__CFA_NONE) {
            out->row = *row;
            out->kind = RULE_ROW;
            return;
        }
        if (row && m->first + row->pc > from) from = m->first + row->pc;
        if (row && is_entry(as, m, pc - m->first, row->pc)) {
            out->row = (struct sonde__unwind_row){ .cfa = SONDE__CFA_END };
            out->kind = RULE_ROW;
            return;
        }
    }
    out->kind = aspace_unwind_guess(as, m, from, exact ? pc : pc + 1, exact, &out->row);
}

static const struct rule *rule_at(struct sonde_aspace *as, uint64_t pc, int exact)
{
    struct sonde_modules *all = as->modules;
    const uint64_t key = pc << 1 | (uint64_t)exact;
    const uint64_t hash = (key ^ (uint64_t)as->layout << 40) * 0x9e3779b97f4a7c15u;
    struct rule *r = &all->rules[hash >> 52];
    _Static_assert(RULES == 1u << 12, "the hash has as many bits");
    if (r->key == key && r->layout == as->layout && r->kind != RULE_EMPTY) {
        all->stats.rule_hits++;
        return r;
    }
    all->stats.rule_misses++;
    r->key = key;
    r->layout = as->layout;
    find_rule(as, pc, exact, r);
    return r;
}

/* ---- Stacks ------------------------------------------------------------------------------- */

struct aspace_unwind_walk {
    struct sonde__regs regs;
    struct aspace_unwind_stack stack;
    int exact;  /* regs.ip is where the frame is, not where it returns to */
    int doubt;  /* a frame may have been skipped */
    int mended; /* words that are not in the copy were used */
    int jumps;  /* went through a function that ends in a jump */
    enum sonde__landing landing; /* what to think of the first of those */
};

/* Code that no table describes, and of which it is not known that it keeps a frame pointer, at pc.
 * If it does not, fp is of a frame further out, and the return address lies between sp and there.
 * So if nothing there returns behind a call, no frame was skipped. Of what earlier calls have left
 * there some does, and the doubt stays. */
static int hides_call(struct sonde_aspace *as, const struct aspace_unwind_stack *s, uint64_t pc,
                      uint64_t sp, uint64_t fp)
{
    if (fp < sp || fp - sp > HIDES_MAX || sp < s->addr || fp - s->addr > s->len) return 1;
    for (uint64_t at = (sp + 7) & ~7ull; at + 8 <= fp; at += 8) {
        uint64_t word;
        memcpy(&word, s->copy + (at - s->addr), sizeof(word));
        const struct sonde_aspace_mapping *m =
            word < 4096 || word >> 63 ? NULL : sonde_aspace_find(as, word - 1);
        uint8_t code;
        if (!m) continue;
        /* What cannot be read may be a call. */
        if (sonde_aspace_call(as, word, pc) != SONDE_ASPACE_CALL_NOT ||
            sonde_module_code(m, as->pid, word - 1, &code, sizeof(code))) {
            return 1;
        }
    }
    return 0;
}

/* Where such code was interrupted with nothing on the stack (a leaf of assembly, a handler of V8's
 * interpreter), the word on top is behind a call that can have led there: what the frame pointer is
 * of is further out. */
static int is_leaf(struct sonde_aspace *as, struct aspace_unwind_walk *w, uint64_t pc)
{
    uint64_t word;
    if (aspace_unwind_read_stack(&w->stack, w->regs.sp, &word) || word < 4096 || word >> 63 ||
        !sonde_aspace_find(as, word - 1)) {
        return 0;
    }
    const enum sonde_aspace_call call = sonde_aspace_call(as, word, pc);
    return call == SONDE_ASPACE_CALL_FITS || call == SONDE_ASPACE_CALL_UNKNOWN;
}

static enum sonde__step one_step(struct sonde_aspace *as, struct aspace_unwind_walk *w,
                                 const struct rule *rule, uint64_t pc, int innermost)
{
    int signal = 0;
    enum sonde__step step;
    if (rule->kind == RULE_NOWHERE) return SONDE__STEP_FAIL;
    if (rule->kind == RULE_ROW) {
        const int jumps = rule->row.saved & SONDE__SAVED_JUMPS && !w->jumps;
        struct sonde__regs inner;
        if (jumps) inner = w->regs;
        step =
            sonde__unwind_apply(&rule->row, &w->regs, aspace_unwind_read_stack, &w->stack, &signal);
        if (jumps && step == SONDE__STEP_OK &&
            sonde__unwind_land(w->landing, &inner, &w->regs, aspace_unwind_read_stack, &w->stack,
                               &signal)) {
            step = SONDE__STEP_FAIL;
        }
        w->jumps |= jumps;
    } else if (rule->kind == RULE_FP_DOUBT && innermost && w->exact && is_leaf(as, w, pc)) {
        step = sonde__unwind_leaf(&w->regs, aspace_unwind_read_stack, &w->stack);
    } else {
        const uint64_t sp = w->regs.sp, fp = w->regs.bp;
        step = sonde__unwind_fp(&w->regs, aspace_unwind_read_stack, &w->stack);
        /* In code that does not keep a frame pointer it may be 0 for any reason. */
        if (innermost && step == SONDE__STEP_END) step = SONDE__STEP_FAIL;
        if (rule->kind == RULE_FP_DOUBT && step == SONDE__STEP_OK) {
            w->doubt |= hides_call(as, &w->stack, pc, sp, fp);
        }
    }
    w->exact = signal;
    return step;
}

/* One step of a frame at pc whose words lie beyond the copy, or not. */
static enum sonde__step any_step(struct sonde_aspace *as, struct aspace_unwind_walk *w,
                                 const struct rule *rule, uint64_t pc, int innermost)
{
    const struct sonde_aspace_outer *outer = w->stack.outer;
    const struct aspace_unwind_walk before = *w;
    w->stack.beyond = 0;
    if (outer) outer->frame(outer->arg, pc, 0);
    enum sonde__step step = one_step(as, w, rule, pc, innermost);
    for (int again = 0; w->stack.beyond; again++) {
        w->mended = 1;
        /* A word of 0 ends stacks that are made by hand, but memory may be 0 for any reason. */
        if (step == SONDE__STEP_OK) {
            const enum sonde_aspace_call call =
                w->exact ? SONDE_ASPACE_CALL_UNKNOWN : sonde_aspace_call(as, w->regs.ip, pc);
            if (outer->believe(outer->arg, w->regs.ip, call)) return step;
        }
        w->stack.missing = before.regs.sp;
        w->stack.missed = 1;
        if (again) return SONDE__STEP_FAIL;
        const struct aspace_unwind_stack after = w->stack;
        *w = before;
        w->stack = after;
        outer->frame(outer->arg, pc, 1);
        step = one_step(as, w, rule, pc, innermost);
    }
    return step;
}

/* Where the frame returns to, if the kernel has put an address of its own in place of that, to see
 * it return: 1 = it has, and w goes on there; -1 = it has, and where to is not known. pc: of the
 * frame that returns. */
static int aspace_unwind_put_back(struct sonde_aspace *as, struct aspace_unwind_walk *w,
                                  uint64_t pc)
{
    const struct sonde_aspace_outer *outer = w->stack.outer;
    int sure = 0;
    if (!outer || !outer->returns_to || w->exact || !sonde_aspace_probes(as, w->regs.ip)) return 0;
    const uint64_t place = w->regs.sp - SONDE__ARCH_CALL_BYTES;
    const uint64_t ip = outer->returns_to(outer->arg, place, w->regs.ip, &sure);
    const enum sonde_aspace_call call =
        ip ? sonde_aspace_call(as, ip, pc) : SONDE_ASPACE_CALL_NOT;
    /* When the probe's record was lost, what is known is another call's. */
    if (call == SONDE_ASPACE_CALL_NOT || (call == SONDE_ASPACE_CALL_OTHER && !sure)) {
        w->stack.missing = place;
        w->stack.missed = 1;
        return -1;
    }
    w->regs.ip = ip;
    return 1;
}

/* Frames into ips, and why there are no more. */
static enum sonde_aspace_end aspace_unwind_walk(
    struct sonde_aspace *as, struct aspace_unwind_walk *w, uint64_t *ips, uint64_t *cfas,
    size_t max, size_t *count)
{
    static const struct rule nowhere = { .kind = RULE_NOWHERE };
    enum sonde__step step = SONDE__STEP_OK;
    size_t n = 0, of_copy = 0;
    uint64_t pc = 0;
    while (n < max && step == SONDE__STEP_OK) {
        const uint64_t inner = pc;
        pc = w->exact ? w->regs.ip : w->regs.ip - 1;
        const struct rule *found = pc >> 63 ? &nowhere : rule_at(as, pc, w->exact);
        if (n && found->kind != RULE_ROW) {
            const int back = aspace_unwind_put_back(as, w, inner);
            if (back) pc = w->regs.ip - 1;
            if (back) found = back > 0 ? rule_at(as, pc, 0) : &nowhere;
        }
        /* What points to no code is no return address: the step before went wrong. */
        if (n && found->kind == RULE_NOWHERE) {
            step = SONDE__STEP_FAIL;
            break;
        }
        const struct rule rule = *found; /* looking at calls may put another one there */
        ips[n++] = rule.kind == RULE_ROW && rule.row.cfa == SONDE__CFA_SIGNAL ? w->regs.ip : pc;
        if (!w->mended) of_copy = n;
        w->stack.missed = 0;
        step = any_step(as, w, &rule, pc, n == 1);
        if (cfas) cfas[n - 1] = step == SONDE__STEP_OK ? w->regs.sp : 0;
    }
    *count = n;
    if (step == SONDE__STEP_END && !w->doubt) return SONDE_ASPACE_START;
    *count = of_copy;
    if (step == SONDE__STEP_OK) return SONDE_ASPACE_DEEP;
    return step == SONDE__STEP_FAIL && w->stack.missed ? SONDE_ASPACE_MEMORY : SONDE_ASPACE_CODE;
}

size_t sonde_aspace_unwind_frames(struct sonde_aspace *as, const struct sonde__regs *regs,
                                  const void *stack, uint64_t stack_addr, size_t stack_len,
                                  size_t reach, const struct sonde_aspace_outer *outer,
                                  uint64_t *ips, uint64_t *cfas, size_t max,
                                  struct sonde_aspace_walk *out)
{
    assert(as && regs && ips);
    const struct aspace_unwind_walk first = {
        .regs = *regs,
        .stack = { .copy = stack, .addr = stack_addr, .len = stack_len, .reach = reach,
                   .outer = outer },
        .exact = 1,
    };
    struct aspace_unwind_walk w = first;
    size_t n;
    enum sonde_aspace_end end = aspace_unwind_walk(as, &w, ips, cfas, max, &n);
    if (end != SONDE_ASPACE_START && w.jumps) {
        for (int i = 1; i < SONDE__LANDINGS && end != SONDE_ASPACE_START; i++) {
            w = first;
            w.landing = (enum sonde__landing)i;
            end = aspace_unwind_walk(as, &w, ips, cfas, max, &n);
        }
        if (end != SONDE_ASPACE_START) {
            w = first;
            end = aspace_unwind_walk(as, &w, ips, cfas, max, &n);
        }
    }
    *out = (struct sonde_aspace_walk){ .end = end, .used = w.stack.used,
                                       .missing = w.stack.missing, .mended = w.mended };
    return n;
}

size_t sonde_aspace_unwind_outer(struct sonde_aspace *as, const struct sonde__regs *regs,
                                 const void *stack, uint64_t stack_addr, size_t stack_len,
                                 size_t reach, const struct sonde_aspace_outer *outer,
                                 uint64_t *ips, size_t max, struct sonde_aspace_walk *out)
{
    return sonde_aspace_unwind_frames(as, regs, stack, stack_addr, stack_len, reach, outer, ips,
                                      NULL, max, out);
}

size_t sonde_aspace_unwind(struct sonde_aspace *as, const struct sonde__regs *regs,
                           const void *stack, uint64_t stack_addr, size_t stack_len,
                           uint64_t *ips, size_t max, int *truncated, size_t *used)
{
    assert(as && regs && ips && truncated);
    struct sonde_aspace_walk w;
    const size_t n = sonde_aspace_unwind_outer(as, regs, stack, stack_addr, stack_len, stack_len,
                                               NULL, ips, max, &w);
    *truncated = w.end != SONDE_ASPACE_START;
    if (used) *used = w.used;
    return n;
}
