/* unwind.h - from a frame to its caller, without frame pointers: .eh_frame turned once per module
 * into a sorted array of small rows, then one binary search and two loads a frame.
 *
 * Both halves use it: the agent on copies of registers and stack from the kernel, and a signal
 * handler in the profiled process on its own stack. So: libc only, no allocation, no lock, no
 * dl_iterate_phdr; every byte of .eh_frame and of the stack is treated as hostile, and memory is
 * read through a callback.
 *
 * Only ip, sp and the frame pointer (rbp) are recovered: that is enough to go on, since a
 * CFA is computed from those in all code that compilers emit (other rules are counted and the
 * stack is marked truncated, never silently cut).
 *
 * Rejected: libunwind's local caches and dwarf interpreter per step (10-50 times slower, locks,
 * dl_iterate_phdr), and copying 8 KB of stack per sample to unwind later. */
#ifndef SONDE_UNWIND_UNWIND_H
#define SONDE_UNWIND_UNWIND_H

#include <stddef.h>
#include <stdint.h>

/* How the canonical frame address (sp before the call) is found. */
enum sonde__cfa {
    SONDE__CFA_NONE,        /* no rule: cannot go on */
    SONDE__CFA_END,         /* return address undefined: the thread's start (_start, clone) */
    SONDE__CFA_SP,          /* sp + cfa_off */
    SONDE__CFA_BP,          /* bp + cfa_off */
    SONDE__CFA_PLT,         /* sp + 8, or 16 in the second half of a 16-byte PLT entry */
    SONDE__CFA_SP_DEREF,    /* *(sp + cfa_off) + cfa_off2: realigned stacks */
    SONDE__CFA_BP_DEREF,    /* *(bp + cfa_off) + cfa_off2 */
    SONDE__CFA_SIGNAL       /* a signal frame: all registers are in the ucontext at sp */
};

enum sonde__bp { SONDE__BP_SAME, SONDE__BP_SAVED /* at CFA + bp_off */, SONDE__BP_LOST };

struct sonde__unwind_row {  /* 16 bytes; valid from pc up to the next row's pc */
    uint32_t pc;            /* from the module's first byte (its lowest PT_LOAD address) */
    uint8_t cfa;            /* enum sonde__cfa */
    uint8_t bp;             /* enum sonde__bp */
    int16_t ra_off;         /* return address at CFA + ra_off; -8 but for odd code */
    int32_t cfa_off;
    int16_t bp_off;
    int16_t cfa_off2;
};

struct sonde__unwind_table {
    const struct sonde__unwind_row *rows; /* ascending by pc */
    uint32_t count;
};

/* Where .eh_frame is, as bytes and as addresses relative to the module's first byte. */
struct sonde__unwind_source {
    const uint8_t *eh_frame;
    size_t eh_frame_len;
    uint64_t eh_frame_addr;   /* for pc-relative pointers */
    uint64_t text_addr;       /* for text-relative ones; usually 0 */
    uint64_t data_addr;       /* for data-relative ones: .eh_frame_hdr */
};

/* Rows for every function found, sorted, with CFA_NONE rows in the gaps. Returns how many there
 * are; writes at most max of them, so a call with rows = NULL counts. *bad counts entries that
 * were skipped as damaged or with rules that cannot be expressed. */
size_t sonde__unwind_compile(const struct sonde__unwind_source *source,
                             struct sonde__unwind_row *rows, size_t max, uint32_t *bad);

struct sonde__regs { uint64_t ip, sp, bp; };

/* One 8-byte word at addr; 0 on success. */
typedef int sonde__read_word(void *arg, uint64_t addr, uint64_t *out);

enum sonde__step {
    SONDE__STEP_OK,      /* regs are the caller's */
    SONDE__STEP_END,     /* this was the thread's first frame */
    SONDE__STEP_FAIL     /* no rule, or memory that cannot be read, or no progress */
};

/* From regs to the caller's. pc: regs->ip relative to the module's first byte; for every frame but
 * the innermost and those above a signal frame the caller looks up ip - 1 (a call may be the last
 * instruction of a function): pass that. *signal is set to 1 if the step crossed a signal
 * frame, so that the next ip is exact. */
enum sonde__step sonde__unwind_step(const struct sonde__unwind_table *t, uint32_t pc,
                                    struct sonde__regs *regs, sonde__read_word *read, void *arg,
                                    int *signal);

/* By frame pointer alone, where there is no table (JIT code, hand-written assembly): bp must lie
 * above sp and point to a plausible pair. */
enum sonde__step sonde__unwind_fp(struct sonde__regs *regs, sonde__read_word *read, void *arg);

#endif
