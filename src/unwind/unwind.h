/* unwind.h - from a frame to its caller, without frame pointers: .eh_frame turned once per module
 * into a sorted array of small rows, then one binary search and two loads a frame.
 *
 * Both halves use it: the agent on copies of registers and stack from the kernel, and a signal
 * handler in the profiled process on its own stack. So: libc only, no allocation, no lock, no
 * dl_iterate_phdr; every byte of .eh_frame and of the stack is treated as hostile, and memory is
 * read through a callback.
 *
 * Carried from frame to frame are ip, sp, the frame pointer (rbp), and one more register that
 * survives calls (rbx), since the dynamic linker's lazy binding finds its caller through it. The
 * other registers count in the innermost frame only: hand-written code and prologues of realigned
 * stacks keep the CFA there for some instructions. A rule that cannot be expressed in a row is
 * counted, and the stack is marked truncated, never silently cut.
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
    SONDE__CFA_PLT,         /* sp + 8, or 16 from byte cfa_off on of a 16-byte PLT entry */
    SONDE__CFA_SP_DEREF,    /* *(sp + cfa_off) + cfa_off2: realigned stacks */
    SONDE__CFA_BP_DEREF,    /* *(bp + cfa_off) + cfa_off2 */
    SONDE__CFA_REG,         /* register cfa_off2 + cfa_off */
    SONDE__CFA_SIGNAL       /* a signal frame: all registers are in the ucontext at sp */
};

/* Where the caller's value of a register is. */
enum sonde__saved {
    SONDE__SAVED_SAME,      /* still in it */
    SONDE__SAVED_AT_CFA,    /* at CFA + offset */
    SONDE__SAVED_AT_BP,     /* at bp + offset */
    SONDE__SAVED_IN_REG,    /* in register number offset */
    SONDE__SAVED_LOST
};

#define SONDE__SAVED_JUMPS 0x80u  /* of a function that may end in a jump: enum sonde__landing */
#define SONDE__RA_IN_REG (-32768) /* ra_off of this + n, n < 32: in register n, not in memory */

struct sonde__unwind_row {  /* 16 bytes; valid from pc up to the next row's pc */
    uint32_t pc;            /* from the module's first byte (its lowest PT_LOAD address) */
    int32_t cfa_off;
    int16_t bp_off;
    int16_t ra_off;         /* return address at CFA + ra_off; -8 but for odd code */
    int8_t cfa_off2;
    int8_t bx_off;          /* in words of 8 bytes */
    uint8_t cfa;            /* enum sonde__cfa */
    uint8_t saved;          /* enum sonde__saved of bp; of bx << 4 (AT_CFA, SAME or LOST);
                               SONDE__SAVED_JUMPS */
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
    uint64_t first_addr;      /* taken from absolute ones: the address of the module's first byte,
                                 as linked in a file, as loaded in memory */
};

/* Rows for every function found, sorted, with CFA_NONE rows in the gaps, but for gaps of less
 * than 16 bytes after a function that ended with sp at its return address: those are padding, or
 * the tail of clone() behind its system call, and the rule holds on. Where entries overlap the
 * one that begins last holds, as in the linker's own search table.
 *
 * With rows = NULL: how many rows of room it takes (more than there will be: sorting is done in
 * them). With room for as many: writes them and returns how many there are. With less: writes
 * nothing and returns 0. *bad counts entries that are damaged or have rules that a row cannot
 * express. */
size_t sonde__unwind_compile(const struct sonde__unwind_source *source,
                             struct sonde__unwind_row *rows, size_t max, uint32_t *bad);

/* ---- ELF ---------------------------------------------------------------------------------- */

/* Bytes of a module: 0, or -1 when they are not there. at: an offset in the file, or with
 * memory = 1 an address counted from the module's first byte. */
struct sonde__elf_reader {
    int (*read)(void *arg, uint64_t at, void *out, size_t len);
    void *arg;
    int memory;
};

#define SONDE__ELF_TEXTS 8u
#define SONDE__ELF_BUILD_ID 32u
#define SONDE__EH_FRAME_MAX (128u << 20) /* a larger one is damage */

struct sonde__elf_info {
    uint64_t first_addr;      /* lowest PT_LOAD address, rounded down to a page */
    struct sonde__elf_text {  /* executable PT_LOADs */
        uint64_t offset, len, addr; /* in the file, there, and as linked */
    } texts[SONDE__ELF_TEXTS];
    uint32_t text_count;
    uint64_t entry;           /* where a program begins, from the first byte; 0 = nowhere */
    uint64_t eh_frame_at;     /* for the reader */
    uint64_t eh_frame_len;    /* 0 = there is none */
    uint64_t eh_frame_addr;   /* these two as in struct sonde__unwind_source */
    uint64_t data_addr;
    uint8_t build_id[SONDE__ELF_BUILD_ID];
    uint32_t build_id_len;    /* 0 = none */
};

/* 0, or -1: not an ELF file for this machine, or damaged. */
int sonde__elf_find(const struct sonde__elf_reader *r, struct sonde__elf_info *out);

/* Where a mapping from offset of the file on puts the module's first byte, if the mapping begins
 * at start: 0 and *first, or -1 when that part of the file is no code. */
int sonde__elf_first_byte(const struct sonde__elf_info *e, uint64_t start, uint64_t offset,
                          uint64_t *first);

/* ---- In this process: safe in signal handlers ------------------------------------------------ */

struct sonde__unwind_object { /* a module that is loaded, and will be until the call returns */
    uint64_t start, end;      /* its first byte, and behind its last */
    uint64_t header;          /* .eh_frame_hdr */
};

/* The row for the address pc in it. 0, or -1: there is no rule; 1: nor for what lies between
 * row->pc (from the first byte) and there, which is all that is set. Takes some 2 KiB of stack. */
int sonde__unwind_find(const struct sonde__unwind_object *o, uint64_t pc,
                       struct sonde__unwind_row *row);

/* ---- Steps: safe in signal handlers ------------------------------------------------------- */

#define SONDE__REG_COUNT 16u

struct sonde__regs {
    uint64_t ip, sp, bp;
    uint64_t other[SONDE__REG_COUNT]; /* by DWARF number; only where known says so */
    uint32_t known;                   /* bit n: other[n] holds register n. 0 is fine */
    uint32_t bp_lost;                 /* 1 = bp is not the frame's any more */
};

/* One 8-byte word at addr; 0 on success. */
typedef int sonde__read_word(void *arg, uint64_t addr, uint64_t *out);

enum sonde__step {
    SONDE__STEP_OK,      /* regs are the caller's */
    SONDE__STEP_END,     /* this was the thread's first frame */
    SONDE__STEP_FAIL     /* no rule, or memory that cannot be read, or no progress */
};

/* The row for pc, or NULL before the first. pc: an address relative to the module's first byte; of
 * every frame but the innermost and those above a signal frame that of ip - 1, since a call may be
 * the last instruction of a function. */
const struct sonde__unwind_row *sonde__unwind_lookup(const struct sonde__unwind_table *t,
                                                     uint32_t pc);

/* From regs to the caller's by row. *signal is set to 1 if the step crossed a signal frame, so
 * that the next ip is exact, and to 0 otherwise. */
enum sonde__step sonde__unwind_apply(const struct sonde__unwind_row *row, struct sonde__regs *regs,
                                     sonde__read_word *word, void *arg, int *signal);

/* Functions that end with __builtin_eh_return (_Unwind_Resume and its like) overwrite what they
 * have saved with the registers of the frame that handles an exception, their own return address
 * as well, and jump there. A walk that crosses one and fails is worth repeating, with another idea
 * of what comes out of it. */
enum sonde__landing {
    SONDE__LANDING_CALLER, /* its caller, as ever */
    SONDE__LANDING_JUMP,   /* about to jump: ip is where to, not behind a call */
    SONDE__LANDING_MOVED,  /* overwritten: ip is that frame's, and sp where its call has put ip */
    SONDE__LANDING_PUT,    /* and that, too, is overwritten, by where it will jump to */
    SONDE__LANDINGS
};

/* regs, which came out of such a frame, by another idea; inner: as they were in it. *exact as
 * *signal of a step. 0, or -1: it cannot be so. */
int sonde__unwind_land(enum sonde__landing landing, const struct sonde__regs *inner,
                       struct sonde__regs *regs, sonde__read_word *word, void *arg, int *exact);

/* By frame pointer alone, where there is no table (JIT code, hand-written assembly): bp must be
 * aligned and lie at or above sp. Whether what it leads to is code is for the caller to check: a
 * frame pointer that none was kept in is garbage. END when bp is 0, with which the ABI marks the
 * outermost frame: the caller should doubt that in the innermost one. */
enum sonde__step sonde__unwind_fp(struct sonde__regs *regs, sonde__read_word *word, void *arg);

/* From a function that has put nothing on the stack yet, or never does: where it returns to is on
 * top. Whether that word is a return address is for the caller to check. */
enum sonde__step sonde__unwind_leaf(struct sonde__regs *regs, sonde__read_word *word, void *arg);

/* A rule from the code itself, where no table has one: the trampoline of signal handlers, PLT
 * entries, the first and last instructions of a function, what crti.o and crtbegin.o bring. code:
 * len bytes of which the one at index ip is where the frame is. exact: the frame was interrupted
 * there (else only the trampoline and the call in _init are looked for). 1 and *row, or 0. */
int sonde__unwind_guess(const uint8_t *code, size_t len, size_t ip, int exact,
                        struct sonde__unwind_row *row);

/* 1 if this is how a dynamic linker begins. */
int sonde__unwind_is_entry(const uint8_t *code, size_t len);

/* 1 if the function that this code, from the address at on, ends in the middle of has set up a
 * frame pointer: if not, a frame pointer that is plausible may well be that of a caller's
 * caller. */
int sonde__unwind_keeps_fp(const uint8_t *code, size_t len, uint64_t at);

#endif
