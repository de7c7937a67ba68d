/* spin.c - see spin.h: a decoder for the few instructions that a waiting loop is made of. Whatever
 * it does not know is work, so that a loop it cannot judge is never called waste. */
#include "profile/symbol/spin.h"

#include <string.h>

enum {
    NONE = 16, SLOTS_MAX = 8, LOOP_MAX = 96, PAUSE_NEAR = 16,
    STACK_POINTER = 4, FRAME_POINTER = 5 /* registers, by number */
};

struct spin_instruction {
    size_t length;
    unsigned base, index;    /* registers of its memory operand; NONE */
    int memory;              /* it has one … */
    int reads, stores;       /* … and reads it, or stores a register to it */
    int slot;                /* … which is of the stack: at this distance … */
    int is_slot;
    uint32_t writes;         /* registers, by number … */
    unsigned copies;         /* … from this one; NONE */
};

struct spin_bytes {
    const uint8_t *p;
    size_t left;
    unsigned rex, mod, reg, rm;
    int wide;                /* 16-bit operands */
    struct spin_instruction *out;
};

static int spin_take(struct spin_bytes *b, size_t n)
{
    if (b->left < n) return 0;
    b->p += n;
    b->left -= n;
    return 1;
}

/* ModRM, SIB and displacement. */
static int spin_operand(struct spin_bytes *b)
{
    if (!b->left) return 0;
    const uint8_t modrm = *b->p;
    spin_take(b, 1);
    b->mod = modrm >> 6;
    b->reg = (modrm >> 3 & 7u) | (b->rex & 4u) << 1;
    b->rm = (modrm & 7u) | (b->rex & 1u) << 3;
    if (b->mod == 3) return 1;
    b->out->memory = 1;
    size_t displacement = b->mod == 1 ? 1 : b->mod == 2 ? 4 : 0;
    int has_index = 0;
    if ((modrm & 7u) == 4) {
        if (!b->left) return 0;
        const uint8_t sib = *b->p;
        spin_take(b, 1);
        const unsigned index = (sib >> 3 & 7u) | (b->rex & 2u) << 2;
        has_index = index != 4;
        b->out->index = has_index ? index : NONE;
        b->out->base = (sib & 7u) | (b->rex & 1u) << 3;
        if ((sib & 7u) == 5 && b->mod == 0) {
            b->out->base = NONE;
            displacement = 4;
        }
    } else if ((modrm & 7u) == 5 && b->mod == 0) {
        displacement = 4; /* relative to the instruction: a variable of the program */
    } else {
        b->out->base = b->rm;
    }
    if (b->left < displacement) return 0;
    int32_t distance = 0;
    if (displacement == 1) distance = (int8_t)*b->p;
    if (displacement == 4) memcpy(&distance, b->p, 4);
    b->out->slot = distance;
    b->out->is_slot =
        !has_index && (b->out->base == STACK_POINTER || b->out->base == FRAME_POINTER);
    return spin_take(b, displacement);
}

static void spin_writes(struct spin_bytes *b, unsigned reg) { b->out->writes |= 1u << reg; }

/* Loads, of which the register is written. */
static int spin_load(struct spin_bytes *b)
{
    if (!spin_operand(b)) return 0;
    b->out->reads = b->out->memory;
    if (!b->out->memory) b->out->copies = b->rm;
    spin_writes(b, b->reg);
    return 1;
}

/* Comparisons: nothing is written but flags. */
static int spin_compare(struct spin_bytes *b, size_t immediate)
{
    if (!spin_operand(b)) return 0;
    b->out->reads = b->out->memory;
    return spin_take(b, immediate);
}

static int spin_two_bytes(struct spin_bytes *b, int locked)
{
    if (!b->left) return 0;
    const uint8_t op = *b->p;
    spin_take(b, 1);
    /* movzx, movsx */
    if (op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf) return spin_load(b);
    if (op == 0x1f) { /* nop */
        if (!spin_operand(b)) return 0;
        b->out->memory = b->out->is_slot = 0;
        return 1;
    }
    if ((op & 0xf0u) == 0x80) return spin_take(b, 4);  /* jcc */
    if ((op & 0xf0u) == 0x90) {                        /* setcc */
        if (!spin_operand(b) || b->out->memory) return 0;
        spin_writes(b, b->rm);
        return 1;
    }
    if (op == 0xae) { /* fences */
        return spin_operand(b) && !b->out->memory && b->reg >= 5;
    }
    if ((op == 0xb0 || op == 0xb1) && locked) { /* cmpxchg: rax is what was there */
        if (!spin_operand(b) || !b->out->memory) return 0;
        b->out->reads = 1;
        spin_writes(b, 0);
        return 1;
    }
    if (op == 0xba && locked) { /* bts with a number */
        if (!spin_operand(b) || !b->out->memory || b->reg != 5) return 0;
        b->out->reads = 1;
        return spin_take(b, 1);
    }
    return 0;
}

/* mov of a register: to a register, or to the stack, as unoptimized code does. */
static int spin_store(struct spin_bytes *b)
{
    if (!spin_operand(b)) return 0;
    b->out->copies = b->reg;
    if (!b->out->memory) {
        spin_writes(b, b->rm);
        return 1;
    }
    b->out->stores = 1;
    return b->out->is_slot;
}

static int spin_one_byte(struct spin_bytes *b, uint8_t op, int locked)
{
    const size_t wide = b->wide ? 2 : 4;
    if (op == 0x90) return 1;                                    /* nop, pause */
    if ((op & 0xf0u) == 0x70 || op == 0xeb) return spin_take(b, 1); /* short jumps */
    if (op == 0xe9) return spin_take(b, 4);
    if ((op & 0xf8u) == 0xb8 || (op & 0xf8u) == 0xb0) {          /* mov of a number */
        spin_writes(b, (op & 7u) | (b->rex & 1u) << 3);
        return spin_take(b, op < 0xb8 ? 1 : b->rex & 8u ? 8 : wide);
    }
    switch (op) {
    case 0x8a:
    case 0x8b:
    case 0x63: return spin_load(b);
    case 0x88:
    case 0x89: return spin_store(b);
    case 0x38:
    case 0x39:
    case 0x3a:
    case 0x3b:
    case 0x84:
    case 0x85: return spin_compare(b, 0);
    case 0x80:
    case 0x83: return spin_compare(b, 1) && (b->reg & 7u) == 7;
    case 0x81: return spin_compare(b, wide) && (b->reg & 7u) == 7;
    case 0xf6: return spin_compare(b, 1) && (b->reg & 7u) == 0;
    case 0xf7: return spin_compare(b, wide) && (b->reg & 7u) == 0;
    case 0x3c:
    case 0xa8: return spin_take(b, 1);
    case 0x3d:
    case 0xa9: return spin_take(b, wide);
    case 0x86:
    case 0x87: /* xchg */
        if (!spin_operand(b) || !b->out->memory) return 0;
        b->out->reads = 1;
        spin_writes(b, b->reg);
        return 1;
    case 0x31:
    case 0x33: /* xor of a register with itself: 0 */
        if (!spin_operand(b) || b->out->memory || b->reg != b->rm) return 0;
        spin_writes(b, b->rm);
        return 1;
    case 0x0f: return spin_two_bytes(b, locked);
    default: return 0;
    }
}

/* 1, or 0: it is work, or not known. */
static int spin_decode(const uint8_t *code, size_t len, struct spin_instruction *out)
{
    struct spin_bytes b = { .p = code, .left = len, .out = out };
    int locked = 0;
    *out = (struct spin_instruction){ .base = NONE, .index = NONE, .copies = NONE };
    for (;;) {
        if (!b.left) return 0;
        const uint8_t prefix = *b.p;
        if (prefix == 0xf0) locked = 1;
        else if (prefix == 0x66) b.wide = 1;
        else if (prefix != 0xf3 && prefix != 0xf2 && prefix != 0x2e && prefix != 0x3e &&
                 prefix != 0x64 && prefix != 0x65) {
            break;
        }
        spin_take(&b, 1);
        if (len - b.left > 8) return 0;
    }
    if ((*b.p & 0xf0u) == 0x40) {
        b.rex = *b.p & 15u;
        spin_take(&b, 1);
        if (!b.left) return 0;
    }
    const uint8_t op = *b.p;
    spin_take(&b, 1);
    if (!spin_one_byte(&b, op, locked)) return 0;
    out->length = len - b.left;
    return 1;
}

/* ---- The loop -------------------------------------------------------------------------------- */

struct spin_loop {
    uint32_t used_first, written;  /* registers: as addresses, or copied, before they are written;
                                      and at all */
    struct { int at, used_first, written; } slots[SLOTS_MAX];
    size_t slot_count;
    int reads;
};

/* 0 = too many. */
static int spin_loop_slot(struct spin_loop *l, const struct spin_instruction *i)
{
    size_t k = 0;
    while (k < l->slot_count && l->slots[k].at != i->slot) k++;
    if (k == SLOTS_MAX) return 0;
    if (k == l->slot_count) {
        l->slots[l->slot_count++].at = i->slot;
        l->slots[k].used_first = l->slots[k].written = 0;
    }
    if (i->stores) l->slots[k].written = 1;
    else if (!l->slots[k].written) l->slots[k].used_first = 1;
    return 1;
}

static int spin_loop_add(struct spin_loop *l, const struct spin_instruction *i)
{
    const unsigned used[] = { i->base, i->index, i->copies };
    for (size_t k = 0; k < 3; k++) {
        if (used[k] < NONE && !(l->written & 1u << used[k])) l->used_first |= 1u << used[k];
    }
    if (i->memory && i->is_slot && !spin_loop_slot(l, i)) return 0;
    l->written |= i->writes;
    l->reads |= i->reads && !i->is_slot;
    return 1;
}

/* Nothing is handed on from one turn to the next: no list is walked, nothing is counted. */
static int spin_loop_waits(const struct spin_loop *l)
{
    if (!l->reads || (l->used_first & l->written)) return 0;
    for (size_t k = 0; k < l->slot_count; k++) {
        if (l->slots[k].used_first && l->slots[k].written) return 0;
    }
    return 1;
}

/* The code from `from` up to the jump back at `jump`, with `at` one of its instructions. */
static int spin_is_loop(const uint8_t *code, size_t len, size_t from, size_t jump, size_t at)
{
    struct spin_loop l = { .used_first = 0 };
    struct spin_instruction i;
    int met = 0;
    size_t k = from;
    while (k < jump) {
        met |= k == at;
        if (!spin_decode(code + k, len - k, &i) || !spin_loop_add(&l, &i)) return 0;
        k += i.length;
    }
    return k == jump && (met || at == jump) && spin_loop_waits(&l);
}

/* Where a jump at k leads, if one that goes back begins there; else len. */
static size_t spin_jump_target(const uint8_t *code, size_t len, size_t k)
{
    int64_t distance = 0;
    size_t end = 0;
    if (((code[k] & 0xf0u) == 0x70 || code[k] == 0xeb) && k + 2 <= len) {
        distance = (int8_t)code[k + 1];
        end = k + 2;
    } else if (code[k] == 0x0f && k + 6 <= len && (code[k + 1] & 0xf0u) == 0x80) {
        int32_t rel;
        memcpy(&rel, code + k + 2, 4);
        distance = rel;
        end = k + 6;
    }
    if (distance >= 0 || end < (size_t)-distance) return len;
    return end - (size_t)-distance;
}

int sonde_symbol_is_spin(const uint8_t *code, size_t len, size_t at)
{
    if (at >= len) return 0;
    const size_t low = at > PAUSE_NEAR ? at - PAUSE_NEAR : 0;
    for (size_t k = low; k + 2 <= len && k < at + PAUSE_NEAR; k++) {
        if (code[k] == 0xf3 && code[k + 1] == 0x90) return 1;
    }
    for (size_t jump = at; jump < len && jump < at + LOOP_MAX; jump++) {
        const size_t from = spin_jump_target(code, len, jump);
        if (from > at || jump - from > LOOP_MAX) continue;
        if (spin_is_loop(code, len, from, jump, at)) return 1;
    }
    return 0;
}
