/* cfi.c - the program of an FDE, run once, into rows.
 *
 * The rules of four registers are followed: bp, bx, sp and the return address; those of others
 * are read and forgotten. Where rules change without the address moving on, only the last ones
 * count. */
#include "unwind/arch_x86_64.h"
#include "unwind/eh_frame.h"

#define STATES_MAX 16 /* remember_state may nest; compilers go one deep */

enum { REG_BP, REG_BX, REG_SP, REG_RA, REGS };

enum cfi_how { SAME, AT_CFA, AT_SP, AT_BP, IN_REG, UNDEFINED, OTHER };

struct cfi_rule {
    enum cfi_how how;
    int64_t off; /* or the register's number */
};

enum cfa_how { CFA_UNSET, CFA_REG, CFA_DEREF, CFA_PLT, CFA_OTHER };

struct cfi_state {
    enum cfa_how cfa;
    uint64_t cfa_reg;
    int64_t cfa_off, cfa_off2;
    int jumps; /* saves what only __builtin_eh_return needs */
    struct cfi_rule regs[REGS];
};

struct cfi_run {
    const struct sonde__unwind_source *source;
    const struct sonde__cie *cie;
    struct cfi_state now, first; /* first: when the CIE's program has ended */
    struct cfi_state kept[STATES_MAX];
    uint32_t kept_count;
    uint64_t pc, end;
    sonde__row_sink *sink;
    void *arg;
    int bad;
};

/* ---- Expressions -------------------------------------------------------------------------- */

enum {
    OP_DEREF = 0x06, OP_CONST1U = 0x08, OP_CONST1S = 0x09, OP_CONST2U = 0x0a, OP_CONST2S = 0x0b,
    OP_CONST4U = 0x0c, OP_CONST4S = 0x0d, OP_CONSTU = 0x10, OP_CONSTS = 0x11, OP_AND = 0x1a,
    OP_MINUS = 0x1c, OP_PLUS = 0x22, OP_PLUS_UCONST = 0x23, OP_SHL = 0x24, OP_GE = 0x2a,
    OP_LIT0 = 0x30, OP_LIT31 = 0x4f, OP_BREG0 = 0x70, OP_BREG31 = 0x8f, OP_NOP = 0x96
};

/* GNU ld's PLT: sp + 8 + ((ip & 15) >= N) * 8. 1 and N, or 0. */
static int is_plt(struct sonde__cursor c, int64_t *from)
{
    static const uint8_t head[] = { OP_BREG0 + SONDE__ARCH_SP, 8, OP_BREG0 + SONDE__ARCH_IP, 0,
                                    OP_LIT0 + 15, OP_AND };
    static const uint8_t tail[] = { OP_GE, OP_LIT0 + 3, OP_SHL, OP_PLUS };
    if ((size_t)(c.end - c.p) != sizeof(head) + 1 + sizeof(tail)) return 0;
    const uint8_t lit = c.p[sizeof(head)];
    if (memcmp(c.p, head, sizeof(head)) || lit < OP_LIT0 || lit > OP_LIT0 + 15) return 0;
    if (memcmp(c.p + sizeof(head) + 1, tail, sizeof(tail))) return 0;
    *from = lit - OP_LIT0;
    return 1;
}

/* A constant that some operation pushes: 1, or 0 when op is another. */
static int cfi_constant(struct sonde__cursor *c, uint8_t op, int64_t *out)
{
    if (op >= OP_LIT0 && op <= OP_LIT31) {
        *out = op - OP_LIT0;
        return 1;
    }
    switch (op) {
    case OP_CONST1U: *out = (int64_t)sonde__cursor_fixed(c, 1); return 1;
    case OP_CONST1S: *out = (int8_t)sonde__cursor_fixed(c, 1); return 1;
    case OP_CONST2U: *out = (int64_t)sonde__cursor_fixed(c, 2); return 1;
    case OP_CONST2S: *out = (int16_t)sonde__cursor_fixed(c, 2); return 1;
    case OP_CONST4U: *out = (int64_t)sonde__cursor_fixed(c, 4); return 1;
    case OP_CONST4S: *out = (int32_t)sonde__cursor_fixed(c, 4); return 1;
    case OP_CONSTU: *out = (int64_t)sonde__cursor_uleb(c); return 1;
    case OP_CONSTS: *out = sonde__cursor_sleb(c); return 1;
    default: return 0;
    }
}

struct sum {
    uint64_t reg;
    int64_t off, off2;
    int deref; /* *(reg + off) + off2, else reg + off */
};

/* Register + constants, with at most one load between: 0, or -1 when it is more than that. */
static int read_sum(struct sonde__cursor c, struct sum *out)
{
    struct sum s = { 0 };
    const uint8_t first = (uint8_t)sonde__cursor_fixed(&c, 1);
    if (first < OP_BREG0 || first > OP_BREG31) return -1;
    s.reg = (uint64_t)(first - OP_BREG0);
    s.off = sonde__cursor_sleb(&c);
    while (c.p < c.end) {
        const uint8_t op = (uint8_t)sonde__cursor_fixed(&c, 1);
        int64_t add = 0;
        if (op == OP_NOP) continue;
        if (op == OP_DEREF) {
            if (s.deref++) return -1;
            continue;
        }
        if (op == OP_PLUS_UCONST) {
            add = (int64_t)sonde__cursor_uleb(&c);
        } else if (cfi_constant(&c, op, &add)) {
            const uint8_t then = (uint8_t)sonde__cursor_fixed(&c, 1);
            if (then != OP_PLUS && then != OP_MINUS) return -1;
            if (then == OP_MINUS && __builtin_sub_overflow(0, add, &add)) return -1;
        } else {
            return -1;
        }
        int64_t *to = s.deref ? &s.off2 : &s.off;
        if (__builtin_add_overflow(*to, add, to)) return -1;
    }
    if (c.bad) return -1;
    *out = s;
    return 0;
}

static void cfa_expression(struct cfi_run *r, struct sonde__cursor c)
{
    struct cfi_state *now = &r->now;
    struct sum s;
    int64_t from;
    now->cfa_off2 = 0;
    if (is_plt(c, &from)) {
        now->cfa = CFA_PLT;
        now->cfa_off = from;
    } else if (!read_sum(c, &s)) {
        now->cfa = s.deref ? CFA_DEREF : CFA_REG;
        now->cfa_reg = s.reg;
        now->cfa_off = s.off;
        now->cfa_off2 = s.off2;
    } else {
        now->cfa = CFA_OTHER;
    }
}

/* A register saved at an address that an expression computes. */
static struct cfi_rule saved_expression(struct sonde__cursor c)
{
    struct sum s;
    if (read_sum(c, &s) || s.deref) return (struct cfi_rule){ OTHER, 0 };
    if (s.reg == SONDE__ARCH_SP) return (struct cfi_rule){ AT_SP, s.off };
    if (s.reg == SONDE__ARCH_BP) return (struct cfi_rule){ AT_BP, s.off };
    return (struct cfi_rule){ OTHER, 0 };
}

/* ---- From state to row -------------------------------------------------------------------- */

static int cfi_fits(int64_t v, int64_t max) { return v >= -max - 1 && v <= max; }

static void saved_bp(const struct cfi_rule *bp, struct sonde__unwind_row *row)
{
    static const uint8_t as[] = { [SAME] = SONDE__SAVED_SAME,     [AT_CFA] = SONDE__SAVED_AT_CFA,
                                  [AT_SP] = SONDE__SAVED_LOST,    [AT_BP] = SONDE__SAVED_AT_BP,
                                  [IN_REG] = SONDE__SAVED_IN_REG, [UNDEFINED] = SONDE__SAVED_LOST,
                                  [OTHER] = SONDE__SAVED_LOST };
    uint8_t saved = as[bp->how];
    if (!cfi_fits(bp->off, INT16_MAX)) saved = SONDE__SAVED_LOST;
    row->saved = saved;
    if (saved != SONDE__SAVED_SAME && saved != SONDE__SAVED_LOST) row->bp_off = (int16_t)bp->off;
}

static void saved_bx(const struct cfi_rule *bx, struct sonde__unwind_row *row)
{
    uint8_t saved = SONDE__SAVED_LOST;
    if (bx->how == SAME) saved = SONDE__SAVED_SAME;
    if (bx->how == AT_CFA && bx->off % 8 == 0 && cfi_fits(bx->off / 8, INT8_MAX)) {
        saved = SONDE__SAVED_AT_CFA;
        row->bx_off = (int8_t)(bx->off / 8);
    }
    row->saved = (uint8_t)(row->saved | saved << 4);
}

static int row_cfa(const struct cfi_state *s, struct sonde__unwind_row *row)
{
    const struct cfi_rule *sp = &s->regs[REG_SP];
    if (sp->how == IN_REG) { /* longjmp: what the caller's sp will be is in a register */
        row->cfa = SONDE__CFA_REG;
        row->cfa_off2 = (int8_t)sp->off;
        return 0;
    }
    if (!cfi_fits(s->cfa_off, INT32_MAX) || !cfi_fits(s->cfa_off2, INT8_MAX)) return -1;
    row->cfa_off = (int32_t)s->cfa_off;
    if (s->cfa == CFA_PLT) {
        row->cfa = SONDE__CFA_PLT;
    } else if (s->cfa == CFA_REG && s->cfa_reg == SONDE__ARCH_SP) {
        row->cfa = SONDE__CFA_SP;
    } else if (s->cfa == CFA_REG && s->cfa_reg == SONDE__ARCH_BP) {
        row->cfa = SONDE__CFA_BP;
    } else if (s->cfa == CFA_REG && s->cfa_reg < SONDE__REG_COUNT) {
        row->cfa = SONDE__CFA_REG;
        row->cfa_off2 = (int8_t)s->cfa_reg;
    } else if (s->cfa == CFA_DEREF && s->cfa_reg == SONDE__ARCH_SP) {
        row->cfa = SONDE__CFA_SP_DEREF;
        row->cfa_off2 = (int8_t)s->cfa_off2;
    } else if (s->cfa == CFA_DEREF && s->cfa_reg == SONDE__ARCH_BP) {
        row->cfa = SONDE__CFA_BP_DEREF;
        row->cfa_off2 = (int8_t)s->cfa_off2;
    } else {
        return -1;
    }
    return 0;
}

/* The trampoline of signal handlers: sp and ip are where a ucontext has them. */
static int is_signal(const struct cfi_state *s)
{
    const struct cfi_rule *ra = &s->regs[REG_RA];
    return s->cfa == CFA_DEREF && s->cfa_reg == SONDE__ARCH_SP && !s->cfa_off2 &&
           s->cfa_off == sonde__arch_ucontext[SONDE__ARCH_SP] && ra->how == AT_SP &&
           ra->off == sonde__arch_ucontext[SONDE__ARCH_IP];
}

static int cfi_express(const struct cfi_state *s, struct sonde__unwind_row *row)
{
    const struct cfi_rule *ra = &s->regs[REG_RA];
    if (ra->how == UNDEFINED) {
        row->cfa = SONDE__CFA_END;
        return 0;
    }
    if (is_signal(s)) {
        row->cfa = SONDE__CFA_SIGNAL;
        return 0;
    }
    if (row_cfa(s, row)) return -1;
    if (ra->how == AT_CFA && cfi_fits(ra->off, INT16_MAX) && ra->off >= SONDE__RA_IN_REG + 32) {
        row->ra_off = (int16_t)ra->off;
    } else if (ra->how == IN_REG) {
        row->ra_off = (int16_t)(SONDE__RA_IN_REG + ra->off);
    } else {
        return -1;
    }
    saved_bp(&s->regs[REG_BP], row);
    saved_bx(&s->regs[REG_BX], row);
    if (s->jumps) row->saved |= SONDE__SAVED_JUMPS;
    return 0;
}

static void give_row(struct cfi_run *r)
{
    struct sonde__unwind_row row = { .pc = (uint32_t)r->pc };
    if (cfi_express(&r->now, &row)) {
        row = (struct sonde__unwind_row){ .pc = (uint32_t)r->pc };
        r->bad = 1;
    }
    r->sink(r->arg, &row);
}

/* ---- Instructions ------------------------------------------------------------------------- */

static struct cfi_rule *rule_of(struct cfi_run *r, struct cfi_state *s, uint64_t reg)
{
    if (reg == r->cie->ra_reg) return &s->regs[REG_RA];
    if (reg == SONDE__ARCH_BP) return &s->regs[REG_BP];
    if (reg == SONDE__ARCH_BX) return &s->regs[REG_BX];
    if (reg == SONDE__ARCH_SP) return &s->regs[REG_SP];
    return NULL;
}

static void set_rule(struct cfi_run *r, uint64_t reg, enum cfi_how how, int64_t off)
{
    struct cfi_rule *rule = rule_of(r, &r->now, reg);
    if (rule) *rule = (struct cfi_rule){ how, off };
}

static void set_offset(struct cfi_run *r, uint64_t reg, int64_t factored)
{
    int64_t off;
    const int over = __builtin_mul_overflow(factored, r->cie->data_align, &off);
    set_rule(r, reg, over ? OTHER : AT_CFA, over ? 0 : off);
    if (reg == SONDE__ARCH_EH_DATA) r->now.jumps = 1;
}

static void cfi_rule_restore(struct cfi_run *r, uint64_t reg)
{
    struct cfi_rule *rule = rule_of(r, &r->now, reg);
    if (rule) *rule = *rule_of(r, &r->first, reg);
}

static void set_cfa(struct cfi_run *r, uint64_t reg, int64_t off)
{
    r->now.cfa = CFA_REG;
    r->now.cfa_reg = reg;
    r->now.cfa_off = off;
    r->now.cfa_off2 = 0;
}

/* To a later address: the rules up to here are a row. -1: backwards, or out of the function. */
static int move_to(struct cfi_run *r, uint64_t pc)
{
    if (pc < r->pc) return -1;
    if (pc == r->pc) return 0;
    if (r->pc < r->end) give_row(r);
    r->pc = pc;
    return pc < r->end ? 0 : -1;
}

static int cfi_advance(struct cfi_run *r, uint64_t factored)
{
    uint64_t delta, pc;
    if (__builtin_mul_overflow(factored, r->cie->code_align, &delta)) return -1;
    if (__builtin_add_overflow(r->pc, delta, &pc)) return -1;
    return move_to(r, pc);
}

static int factored_cfa_off(struct cfi_run *r, int64_t factored)
{
    return __builtin_mul_overflow(factored, r->cie->data_align, &r->now.cfa_off) ? -1 : 0;
}

enum {
    CFA_set_loc = 0x01, CFA_advance1 = 0x02, CFA_advance2 = 0x03, CFA_advance4 = 0x04,
    CFA_offset_extended = 0x05, CFA_restore_extended = 0x06, CFA_undefined = 0x07,
    CFA_same_value = 0x08, CFA_register = 0x09, CFA_remember = 0x0a, CFA_restore_state = 0x0b,
    CFA_def_cfa = 0x0c, CFA_def_cfa_register = 0x0d, CFA_def_cfa_offset = 0x0e,
    CFA_def_cfa_expression = 0x0f, CFA_expression = 0x10, CFA_offset_extended_sf = 0x11,
    CFA_def_cfa_sf = 0x12, CFA_def_cfa_offset_sf = 0x13, CFA_val_offset = 0x14,
    CFA_val_offset_sf = 0x15, CFA_val_expression = 0x16, CFA_advance8 = 0x1d,
    CFA_args_size = 0x2e, CFA_negative_offset = 0x2f
};

/* Instructions on the CFA. 1: done, 0: none of them, -1: stop. */
static int run_cfa(struct cfi_run *r, uint8_t op, struct sonde__cursor *c)
{
    uint64_t reg;
    switch (op) {
    case CFA_def_cfa:
        reg = sonde__cursor_uleb(c);
        set_cfa(r, reg, (int64_t)sonde__cursor_uleb(c));
        return 1;
    case CFA_def_cfa_sf:
        reg = sonde__cursor_uleb(c);
        set_cfa(r, reg, 0);
        return factored_cfa_off(r, sonde__cursor_sleb(c)) ? -1 : 1;
    case CFA_def_cfa_register:
        if (r->now.cfa != CFA_REG) return -1;
        r->now.cfa_reg = sonde__cursor_uleb(c);
        return 1;
    case CFA_def_cfa_offset:
        if (r->now.cfa != CFA_REG) return -1;
        r->now.cfa_off = (int64_t)sonde__cursor_uleb(c);
        return 1;
    case CFA_def_cfa_offset_sf:
        if (r->now.cfa != CFA_REG) return -1;
        return factored_cfa_off(r, sonde__cursor_sleb(c)) ? -1 : 1;
    case CFA_def_cfa_expression:
        cfa_expression(r, sonde__cursor_block(c, sonde__cursor_uleb(c)));
        return 1;
    case CFA_args_size:
        sonde__cursor_uleb(c);
        return 1;
    default:
        return 0;
    }
}

static int is_on_register(uint8_t op)
{
    switch (op) {
    case CFA_offset_extended:
    case CFA_offset_extended_sf:
    case CFA_negative_offset:
    case CFA_restore_extended:
    case CFA_undefined:
    case CFA_same_value:
    case CFA_register:
    case CFA_expression:
    case CFA_val_expression:
    case CFA_val_offset:
    case CFA_val_offset_sf:
        return 1;
    default:
        return 0;
    }
}

/* Instructions on where a register is saved: 1, or 0: none of them. */
static int run_register(struct cfi_run *r, uint8_t op, struct sonde__cursor *c)
{
    if (!is_on_register(op)) return 0;
    const uint64_t reg = sonde__cursor_uleb(c);
    switch (op) {
    case CFA_offset_extended:
        set_offset(r, reg, (int64_t)sonde__cursor_uleb(c));
        break;
    case CFA_offset_extended_sf:
        set_offset(r, reg, sonde__cursor_sleb(c));
        break;
    case CFA_negative_offset:
        set_offset(r, reg, -(int64_t)(sonde__cursor_uleb(c) & INT64_MAX));
        break;
    case CFA_restore_extended:
        cfi_rule_restore(r, reg);
        break;
    case CFA_undefined:
        set_rule(r, reg, UNDEFINED, 0);
        break;
    case CFA_same_value:
        set_rule(r, reg, SAME, 0);
        break;
    case CFA_register: {
        const uint64_t in = sonde__cursor_uleb(c);
        set_rule(r, reg, in < SONDE__REG_COUNT ? IN_REG : OTHER, (int64_t)(in & 31));
        break;
    }
    case CFA_expression: {
        const struct cfi_rule rule =
            saved_expression(sonde__cursor_block(c, sonde__cursor_uleb(c)));
        set_rule(r, reg, rule.how, rule.off);
        break;
    }
    case CFA_val_expression:
        sonde__cursor_block(c, sonde__cursor_uleb(c));
        set_rule(r, reg, OTHER, 0);
        break;
    default: /* val_offset: CFA + n is the value. For sp that is what it always is */
        sonde__cursor_uleb(c);
        set_rule(r, reg, OTHER, 0);
        break;
    }
    return 1;
}

static int run_other(struct cfi_run *r, uint8_t op, struct sonde__cursor *c)
{
    switch (op) {
    case 0:
        return 0;
    case CFA_set_loc:
        return move_to(r, sonde__eh_pointer(r->source, c, r->cie->encoding));
    case CFA_advance1:
        return cfi_advance(r, sonde__cursor_fixed(c, 1));
    case CFA_advance2:
        return cfi_advance(r, sonde__cursor_fixed(c, 2));
    case CFA_advance4:
        return cfi_advance(r, sonde__cursor_fixed(c, 4));
    case CFA_advance8:
        return cfi_advance(r, sonde__cursor_fixed(c, 8));
    case CFA_remember:
        if (r->kept_count == STATES_MAX) return -1;
        r->kept[r->kept_count++] = r->now;
        return 0;
    case CFA_restore_state:
        if (!r->kept_count) return -1;
        r->now = r->kept[--r->kept_count];
        return 0;
    default:
        return -1;
    }
}

/* 0, or -1: it cannot be followed further than r->pc. */
static int run_program(struct cfi_run *r, struct sonde__cursor c)
{
    while (c.p < c.end) {
        const uint8_t op = *c.p++;
        const uint64_t low = op & 0x3f;
        int rc = 0;
        switch (op >> 6) {
        case 1:
            rc = cfi_advance(r, low);
            break;
        case 2:
            set_offset(r, low, (int64_t)sonde__cursor_uleb(&c));
            break;
        case 3:
            cfi_rule_restore(r, low);
            break;
        default:
            rc = run_cfa(r, op, &c);
            if (!rc) rc = run_register(r, op, &c);
            rc = rc ? rc < 0 : run_other(r, op, &c);
        }
        if (c.bad || rc) return -1;
    }
    return 0;
}

int sonde__cfi_run(const struct sonde__unwind_source *s, const struct sonde__cie *cie,
                   const struct sonde__fde *fde, sonde__row_sink *sink, void *arg)
{
    struct cfi_run r; /* field by field: clearing what is kept would be the most of the work */
    r.source = s;
    r.cie = cie;
    r.now = (struct cfi_state){ 0 };
    r.first = r.now;
    r.kept_count = 0;
    r.pc = fde->start;
    r.end = 0; /* of the CIE's program, where moving on makes no sense: it stops */
    r.sink = sink;
    r.arg = arg;
    r.bad = 0;
    if (run_program(&r, cie->program)) {
        r.now = (struct cfi_state){ 0 };
        r.pc = fde->start;
        r.bad = 1;
    } else {
        r.first = r.now;
        r.kept_count = 0;
        r.end = fde->end;
        if (run_program(&r, fde->program) && r.pc < r.end) {
            r.now = (struct cfi_state){ 0 };
            r.bad = 1;
        }
    }
    if (r.pc < fde->end) give_row(&r);
    return r.bad ? -1 : 0;
}
