/* bpf.h - BPF programs: written as instructions in C, checked and run by the kernel.
 *
 * A program is assembled at run time, with labels for its jumps and what is known by then (offsets,
 * numbers) as constants in it: so there is neither a compiler nor a loader to depend on, and no
 * branch for what cannot be. Rejected: clang and libbpf, which are made for programs of another
 * size, and would be needed to build sonde or to run it. */
#ifndef SONDE_COLLECT_BPF_BPF_H
#define SONDE_COLLECT_BPF_BPF_H

#include <linux/bpf.h>
#include <stdint.h>

#include "base/err.h"

enum { SONDE_BPF_INSNS_MAX = 1024, SONDE_BPF_LABELS_MAX = 64, SONDE_BPF_JUMPS_MAX = 128 };

/* Programs are known to end by the kernel's own check, so what is written here need not be bounded,
 * only right: a mistake is refused when it is loaded. */
struct sonde_bpf_code {
    struct bpf_insn insns[SONDE_BPF_INSNS_MAX];
    uint32_t count;
    uint32_t at[SONDE_BPF_LABELS_MAX];          /* where a label is, + 1; 0 = nowhere yet */
    uint32_t jumps;
    struct { uint32_t insn, label; } jump[SONDE_BPF_JUMPS_MAX]; /* to be filled in */
    int broken;                                 /* it did not fit */
};

/* ---- program.c: instructions ----------------------------------------------------------------- */

/* One as it is. */
void sonde_bpf_put(struct sonde_bpf_code *c, uint8_t code, uint8_t to, uint8_t from, int16_t off,
                   int32_t imm);

void sonde_bpf_move(struct sonde_bpf_code *c, uint8_t to, uint8_t from);
void sonde_bpf_number(struct sonde_bpf_code *c, uint8_t to, uint64_t value);
void sonde_bpf_map_of(struct sonde_bpf_code *c, uint8_t to, int fd);
/* op: BPF_ADD, BPF_MUL, … of 64 bits. */
void sonde_bpf_math(struct sonde_bpf_code *c, uint8_t op, uint8_t to, int32_t by);
void sonde_bpf_math_reg(struct sonde_bpf_code *c, uint8_t op, uint8_t to, uint8_t by);
/* size: BPF_B, BPF_H, BPF_W, BPF_DW. */
void sonde_bpf_load(struct sonde_bpf_code *c, uint8_t size, uint8_t to, uint8_t from, int off);
void sonde_bpf_store(struct sonde_bpf_code *c, uint8_t size, uint8_t to, int off, uint8_t from);
void sonde_bpf_store_number(struct sonde_bpf_code *c, uint8_t size, uint8_t to, int off,
                            int32_t value);
void sonde_bpf_call(struct sonde_bpf_code *c, int32_t helper);
void sonde_bpf_exit(struct sonde_bpf_code *c, int32_t value);

/* Labels are numbers of the caller's. op: BPF_JEQ, BPF_JNE, BPF_JGT, …, or BPF_JA. */
void sonde_bpf_label(struct sonde_bpf_code *c, uint32_t label);
void sonde_bpf_jump(struct sonde_bpf_code *c, uint8_t op, uint8_t reg, int32_t value,
                    uint32_t label);
void sonde_bpf_jump_reg(struct sonde_bpf_code *c, uint8_t op, uint8_t reg, uint8_t with,
                        uint32_t label);

/* All jumps filled in: 0, or SONDE_EINVAL: it did not fit, or a label is nowhere. */
int sonde_bpf_finish(struct sonde_bpf_code *c);

/* ---- call.c: the kernel ---------------------------------------------------------------------- */

/* A map's descriptor in *fd, for the caller to close; SONDE_EACCES: the kernel does not permit it,
 * SONDE_EOFF: it has no such thing, and why and what to do. */
int sonde_bpf_map_create(enum bpf_map_type type, const char *name, uint32_t key, uint32_t value,
                         uint32_t entries, int *fd, struct sonde_err *err);
/* The same of a program for perf events, which sonde_bpf_finish has finished. */
int sonde_bpf_program_create(const struct sonde_bpf_code *c, const char *name, int *fd,
                             struct sonde_err *err);

/* 0, or SONDE_ENOENT, SONDE_EFULL …. */
int sonde_bpf_map_put(int fd, const void *key, const void *value);
int sonde_bpf_map_take(int fd, const void *key);
int sonde_bpf_map_get(int fd, const void *key, void *value);

#endif
