#include "unwind/unwind.h"

#include <string.h>

#include "unwind/arch_x86_64.h"

#include "base/hot_banned.h"

#define LANDING_WORDS 8192u /* of the stack that an exception leaves */

const struct sonde__unwind_row *sonde__unwind_lookup(const struct sonde__unwind_table *t,
                                                     uint32_t pc)
{
    if (!t->count || pc < t->rows[0].pc) return NULL;
    const struct sonde__unwind_row *base = t->rows;
    uint32_t n = t->count;
    /* The last row at or below pc. One conditional move a round, no branch to mispredict. */
    while (n > 1) {
        const uint32_t half = n / 2;
        base = base[half].pc <= pc ? base + half : base;
        n -= half;
    }
    return base;
}

static int reg_value(const struct sonde__regs *regs, uint32_t reg, uint64_t *out)
{
    if (reg >= SONDE__REG_COUNT || !(regs->known & (1u << reg))) return -1;
    *out = regs->other[reg];
    return 0;
}

static enum sonde__step apply_signal(struct sonde__regs *regs, sonde__read_word *word, void *arg)
{
    struct sonde__regs to = { .known = 0xffff };
    const uint64_t context = regs->sp;
    for (uint32_t i = 0; i < SONDE__REG_COUNT; i++) {
        if (word(arg, context + sonde__arch_ucontext[i], &to.other[i])) return SONDE__STEP_FAIL;
    }
    if (word(arg, context + sonde__arch_ucontext[SONDE__ARCH_IP], &to.ip)) return SONDE__STEP_FAIL;
    to.sp = to.other[SONDE__ARCH_SP];
    to.bp = to.other[SONDE__ARCH_BP];
    *regs = to;
    return SONDE__STEP_OK;
}

static int find_cfa(const struct sonde__unwind_row *row, const struct sonde__regs *regs,
                    sonde__read_word *word, void *arg, uint64_t *cfa)
{
    const uint64_t off = (uint64_t)(int64_t)row->cfa_off;
    const uint64_t off2 = (uint64_t)(int64_t)row->cfa_off2;
    switch (row->cfa) {
    case SONDE__CFA_SP:
        *cfa = regs->sp + off;
        return 0;
    case SONDE__CFA_BP:
        *cfa = regs->bp + off;
        return regs->bp_lost ? -1 : 0;
    case SONDE__CFA_PLT:
        *cfa = regs->sp + ((regs->ip & 15) >= off ? 16 : 8);
        return 0;
    case SONDE__CFA_SP_DEREF:
        if (word(arg, regs->sp + off, cfa)) return -1;
        *cfa += off2;
        return 0;
    case SONDE__CFA_BP_DEREF:
        if (regs->bp_lost || word(arg, regs->bp + off, cfa)) return -1;
        *cfa += off2;
        return 0;
    case SONDE__CFA_REG:
        if (reg_value(regs, (uint8_t)row->cfa_off2, cfa)) return -1;
        *cfa += off;
        return 0;
    default:
        return -1;
    }
}

/* A slot below sp is one that the prologue has not filled yet or the epilogue has emptied, and
 * that a copy of the stack does not hold: the register still has the value. */
static void restore_bp(const struct sonde__unwind_row *row, uint64_t cfa, struct sonde__regs *regs,
                       sonde__read_word *word, void *arg)
{
    const uint64_t off = (uint64_t)(int64_t)row->bp_off;
    uint64_t slot;
    switch (row->saved & 15u) {
    case SONDE__SAVED_SAME:
        return;
    case SONDE__SAVED_AT_CFA:
        slot = cfa + off;
        break;
    case SONDE__SAVED_AT_BP:
        if (regs->bp_lost) return;
        slot = regs->bp + off;
        break;
    case SONDE__SAVED_IN_REG:
        regs->bp_lost = reg_value(regs, (uint32_t)row->bp_off, &regs->bp) != 0;
        return;
    default:
        regs->bp_lost = 1;
        return;
    }
    if (slot < regs->sp) return;
    regs->bp_lost = word(arg, slot, &regs->bp) != 0;
}

static void restore_bx(const struct sonde__unwind_row *row, uint64_t cfa, struct sonde__regs *regs,
                       sonde__read_word *word, void *arg)
{
    const uint32_t bit = 1u << SONDE__ARCH_BX;
    const uint32_t saved = (row->saved & ~SONDE__SAVED_JUMPS) >> 4;
    regs->known &= bit; /* the others do not survive a call, or are not followed */
    if (saved == SONDE__SAVED_SAME) return;
    const uint64_t slot = cfa + (uint64_t)((int64_t)row->bx_off * 8);
    if (saved == SONDE__SAVED_AT_CFA) {
        if (slot < regs->sp) return;
        regs->known = word(arg, slot, &regs->other[SONDE__ARCH_BX]) ? 0 : bit;
    } else {
        regs->known = 0;
    }
}

enum sonde__step sonde__unwind_apply(const struct sonde__unwind_row *row, struct sonde__regs *regs,
                                     sonde__read_word *word, void *arg, int *signal)
{
    uint64_t cfa, ra;
    *signal = row->cfa == SONDE__CFA_SIGNAL;
    if (*signal) return apply_signal(regs, word, arg);
    if (row->cfa == SONDE__CFA_END) return SONDE__STEP_END;
    if (find_cfa(row, regs, word, arg, &cfa)) return SONDE__STEP_FAIL;

    /* Callers lie higher: whatever the memory says, the walk ends. */
    if (row->ra_off < SONDE__RA_IN_REG + 32) {
        if (cfa < regs->sp) return SONDE__STEP_FAIL;
        if (reg_value(regs, (uint32_t)(row->ra_off - SONDE__RA_IN_REG), &ra)) {
            return SONDE__STEP_FAIL;
        }
    } else {
        if (cfa <= regs->sp) return SONDE__STEP_FAIL;
        if (word(arg, cfa + (uint64_t)(int64_t)row->ra_off, &ra)) return SONDE__STEP_FAIL;
    }
    restore_bp(row, cfa, regs, word, arg);
    restore_bx(row, cfa, regs, word, arg);
    regs->sp = cfa;
    regs->ip = ra;
    /* Stacks that are made by hand (coroutines, kernels) begin with a return address of 0. */
    return ra ? SONDE__STEP_OK : SONDE__STEP_END;
}

/* sp: above the first word from it on that is ip. */
static int land_moved(struct sonde__regs *regs, sonde__read_word *word, void *arg)
{
    uint64_t v = 0;
    for (uint64_t i = 0; i < LANDING_WORDS && v != regs->ip; i++) {
        if (word(arg, regs->sp, &v)) return -1;
        regs->sp += sizeof(v);
    }
    return v == regs->ip ? 0 : -1;
}

/* A register has the address of the word with the handler's, or how far that is above the return
 * address, which lies under sp. */
static int land_put(const struct sonde__regs *inner, struct sonde__regs *regs,
                    sonde__read_word *word, void *arg)
{
    uint64_t at;
    if (reg_value(inner, SONDE__ARCH_EH_ADJUST, &at)) return -1;
    if (at < regs->sp) at += regs->sp - sizeof(at);
    if (at < regs->sp || at % sizeof(at) || word(arg, at, &regs->ip)) return -1;
    regs->sp = at + sizeof(at);
    return 0;
}

int sonde__unwind_land(enum sonde__landing landing, const struct sonde__regs *inner,
                       struct sonde__regs *regs, sonde__read_word *word, void *arg, int *exact)
{
    *exact = landing == SONDE__LANDING_JUMP || landing == SONDE__LANDING_PUT;
    if (landing == SONDE__LANDING_MOVED) return land_moved(regs, word, arg);
    return landing == SONDE__LANDING_PUT ? land_put(inner, regs, word, arg) : 0;
}

enum sonde__step sonde__unwind_fp(struct sonde__regs *regs, sonde__read_word *word, void *arg)
{
    uint64_t bp, ra;
    if (regs->bp_lost) return SONDE__STEP_FAIL;
    if (!regs->bp) return SONDE__STEP_END;
    if (regs->bp < regs->sp || regs->bp % 8) return SONDE__STEP_FAIL;
    if (word(arg, regs->bp, &bp) || word(arg, regs->bp + 8, &ra)) return SONDE__STEP_FAIL;
    /* What was saved may be anything: the caller need not keep a frame pointer itself. */
    regs->sp = regs->bp + 16;
    regs->bp = bp;
    regs->ip = ra;
    regs->known = 0;
    return ra ? SONDE__STEP_OK : SONDE__STEP_END;
}

enum sonde__step sonde__unwind_leaf(struct sonde__regs *regs, sonde__read_word *word, void *arg)
{
    uint64_t ra;
    if (word(arg, regs->sp, &ra) || !ra) return SONDE__STEP_FAIL;
    regs->sp += sizeof(ra);
    regs->ip = ra;
    regs->known &= 1u << SONDE__ARCH_BX;
    return SONDE__STEP_OK;
}

int sonde__unwind_guess(const uint8_t *code, size_t len, size_t ip, int exact,
                        struct sonde__unwind_row *row)
{
    struct sonde__unwind_row r = { .ra_off = -8 };
    if (sonde__arch_is_sigreturn(code, len, ip)) {
        r.cfa = SONDE__CFA_SIGNAL;
    } else if (exact && sonde__arch_is_fp_set(code, len, ip)) {
        r.cfa = SONDE__CFA_SP;
        r.cfa_off = 16;
        r.bp_off = -16;
        r.saved = SONDE__SAVED_AT_CFA;
    } else {
        /* Behind a call there may be another function, unless it is a known one. */
        r.cfa = SONDE__CFA_SP;
        r.cfa_off = exact ? sonde__arch_cfa_above_sp(code, len, ip)
                          : sonde__arch_in_init(code, len, ip) == 18 ? 16 : 0;
        if (!r.cfa_off) return 0;
    }
    *row = r;
    return 1;
}

int sonde__unwind_is_entry(const uint8_t *code, size_t len)
{
    return sonde__arch_is_entry(code, len);
}

int sonde__unwind_keeps_fp(const uint8_t *code, size_t len, uint64_t at)
{
    return sonde__arch_keeps_fp(code, len, at);
}
