#include "collect/bpf/bpf.h"

#include <assert.h>

#include "sonde/sonde.h"

void sonde_bpf_put(struct sonde_bpf_code *c, uint8_t code, uint8_t to, uint8_t from, int16_t off,
                   int32_t imm)
{
    assert(to <= BPF_REG_10 && from <= BPF_REG_10);
    if (c->count == SONDE_BPF_INSNS_MAX) {
        c->broken = 1;
        return;
    }
    struct bpf_insn *i = &c->insns[c->count++];
    i->code = code;
    i->dst_reg = (uint8_t)(to & 15);
    i->src_reg = (uint8_t)(from & 15);
    i->off = off;
    i->imm = imm;
}

void sonde_bpf_move(struct sonde_bpf_code *c, uint8_t to, uint8_t from)
{
    sonde_bpf_put(c, BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}

/* 64 bits are two instructions. */
static void bpf_program_wide(struct sonde_bpf_code *c, uint8_t to, uint8_t kind, uint64_t value)
{
    sonde_bpf_put(c, BPF_LD | BPF_DW | BPF_IMM, to, kind, 0, (int32_t)(uint32_t)value);
    sonde_bpf_put(c, 0, 0, 0, 0, (int32_t)(uint32_t)(value >> 32));
}

void sonde_bpf_number(struct sonde_bpf_code *c, uint8_t to, uint64_t value)
{
    if (value <= INT32_MAX) sonde_bpf_put(c, BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, (int32_t)value);
    else bpf_program_wide(c, to, 0, value);
}

void sonde_bpf_map_of(struct sonde_bpf_code *c, uint8_t to, int fd)
{
    bpf_program_wide(c, to, BPF_PSEUDO_MAP_FD, (uint32_t)fd);
}

void sonde_bpf_math(struct sonde_bpf_code *c, uint8_t op, uint8_t to, int32_t by)
{
    sonde_bpf_put(c, BPF_ALU64 | op | BPF_K, to, 0, 0, by);
}

void sonde_bpf_math_reg(struct sonde_bpf_code *c, uint8_t op, uint8_t to, uint8_t by)
{
    sonde_bpf_put(c, BPF_ALU64 | op | BPF_X, to, by, 0, 0);
}

static int16_t bpf_program_off(struct sonde_bpf_code *c, int off)
{
    if (off < INT16_MIN || off > INT16_MAX) c->broken = 1;
    return (int16_t)off;
}

void sonde_bpf_load(struct sonde_bpf_code *c, uint8_t size, uint8_t to, uint8_t from, int off)
{
    sonde_bpf_put(c, BPF_LDX | BPF_MEM | size, to, from, bpf_program_off(c, off), 0);
}

void sonde_bpf_store(struct sonde_bpf_code *c, uint8_t size, uint8_t to, int off, uint8_t from)
{
    sonde_bpf_put(c, BPF_STX | BPF_MEM | size, to, from, bpf_program_off(c, off), 0);
}

void sonde_bpf_store_number(struct sonde_bpf_code *c, uint8_t size, uint8_t to, int off,
                            int32_t value)
{
    sonde_bpf_put(c, BPF_ST | BPF_MEM | size, to, 0, bpf_program_off(c, off), value);
}

void sonde_bpf_call(struct sonde_bpf_code *c, int32_t helper)
{
    sonde_bpf_put(c, BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}

void sonde_bpf_exit(struct sonde_bpf_code *c, int32_t value)
{
    sonde_bpf_put(c, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, value);
    sonde_bpf_put(c, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

void sonde_bpf_label(struct sonde_bpf_code *c, uint32_t label)
{
    assert(label < SONDE_BPF_LABELS_MAX && !c->at[label]);
    c->at[label] = c->count + 1;
}

static void bpf_program_jump(struct sonde_bpf_code *c, uint8_t code, uint8_t reg, uint8_t with,
                             int32_t value, uint32_t label)
{
    assert(label < SONDE_BPF_LABELS_MAX);
    if (c->jumps == SONDE_BPF_JUMPS_MAX) {
        c->broken = 1;
        return;
    }
    c->jump[c->jumps].insn = c->count;
    c->jump[c->jumps++].label = label;
    sonde_bpf_put(c, code, reg, with, 0, value);
}

void sonde_bpf_jump(struct sonde_bpf_code *c, uint8_t op, uint8_t reg, int32_t value,
                    uint32_t label)
{
    bpf_program_jump(c, BPF_JMP | op | BPF_K, reg, 0, value, label);
}

void sonde_bpf_jump_reg(struct sonde_bpf_code *c, uint8_t op, uint8_t reg, uint8_t with,
                        uint32_t label)
{
    bpf_program_jump(c, BPF_JMP | op | BPF_X, reg, with, 0, label);
}

int sonde_bpf_finish(struct sonde_bpf_code *c)
{
    for (uint32_t i = 0; i < c->jumps && !c->broken; i++) {
        const uint32_t to = c->at[c->jump[i].label], from = c->jump[i].insn + 1;
        if (!to) return SONDE_EINVAL;
        c->insns[c->jump[i].insn].off = bpf_program_off(c, (int)to - 1 - (int)from);
    }
    return c->broken ? SONDE_EINVAL : 0;
}
