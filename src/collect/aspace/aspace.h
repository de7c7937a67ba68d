/* aspace.h - the address space of one process, as far as the agent must know it: which code is
 * mapped where, and how to get from a frame in it to the caller.
 *
 *   aspace ─▶ mapping ─▶ module ─▶ unwind table
 *   (a process) (shared after  (a file, shared by all   (16-byte rows; the least recently used
 *                fork)          processes)               ones are dropped and made again)
 *
 * Mappings come from /proc/PID/maps when a process is first seen and from the kernel's events
 * afterwards; the newest one at an address holds, so code that is unloaded and replaced is told
 * apart as long as samples and events are given in the order of time. A module is opened when the
 * first frame in it is met: through the process's own root (containers), verified by its inode
 * against the mapping; when the file is gone or was replaced, it is read from the process's
 * memory. Code without a file (JIT) is walked by frame pointers.
 *
 * Not thread-safe: a struct sonde_modules and the aspaces made with it have one owner. */
#ifndef SONDE_COLLECT_ASPACE_ASPACE_H
#define SONDE_COLLECT_ASPACE_ASPACE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/mapping.h"
#include "profile/module.h"
#include "unwind/unwind.h"

/* ---- What all processes share ------------------------------------------------------------- */

struct sonde_modules;

/* table_bytes_max: memory for unwind tables, 0 = 64 MiB. The table in use stays even when it
 * alone is larger. */
int sonde_modules_create(size_t table_bytes_max, struct sonde_modules **out);
/* After the aspaces made with it. NULL is fine. */
void sonde_modules_destroy(struct sonde_modules *m);

struct sonde_modules_stats {
    uint32_t modules;         /* open now */
    uint32_t tables;          /* with a table in memory */
    size_t table_bytes;
    uint64_t tables_built, tables_dropped;
    uint64_t build_ns;        /* in all */
    uint64_t entries_bad;     /* of .eh_frame: damaged or not expressible */
    uint64_t rule_hits, rule_misses;
};
void sonde_modules_stats(const struct sonde_modules *m, struct sonde_modules_stats *out);

/* ---- One process -------------------------------------------------------------------------- */

struct sonde_aspace;

/* Empty: for a process that begins with an exec, whose mappings will come as events. */
int sonde_aspace_create(struct sonde_modules *m, uint32_t pid, struct sonde_aspace **out);
void sonde_aspace_destroy(struct sonde_aspace *as); /* NULL is fine */

/* What /proc/PID/maps has: for a process that runs already. Replaces what was known.
 * SONDE_ENOENT: no such process. SONDE_EACCES, SONDE_ENOMEM, SONDE_EIO. */
int sonde_aspace_scan(struct sonde_aspace *as);

/* A child with the same mappings. Costs a pointer a mapping. */
int sonde_aspace_fork(const struct sonde_aspace *parent, uint32_t pid, struct sonde_aspace **out);

/* The process has replaced its program: nothing is mapped. */
void sonde_aspace_exec(struct sonde_aspace *as);

/* A new mapping, which is copied. What it covers of older ones is gone; one that is not executable
 * does nothing else. SONDE_EINVAL: it does not end above its start. SONDE_ENOMEM. SONDE_EFULL: too
 * many mappings. */
int sonde_aspace_map(struct sonde_aspace *as, const struct sonde_mapping *map);

/* ---- Stacks ------------------------------------------------------------------------------- */

/* From regs up to the thread's start. stack: a copy of stack_len bytes from stack_addr on; other
 * memory counts as not readable. ips[0] is regs->ip; callers follow as return address - 1, which
 * lies in the call; code that a signal interrupted, and the trampoline of its handler, with their
 * exact addresses. *truncated: 1 when the thread's start was not reached, or when a frame may be
 * missing between (code that neither has a table nor seems to keep a frame pointer). *used (may be
 * NULL): how much of the copy was needed. Returns the number of frames. */
size_t sonde_aspace_unwind(struct sonde_aspace *as, const struct sonde__regs *regs,
                           const void *stack, uint64_t stack_addr, size_t stack_len,
                           uint64_t *ips, size_t max, int *truncated, size_t *used);

/* Is this the return address of a call of the function that pc is in? */
enum sonde_aspace_call {
    SONDE_ASPACE_CALL_NOT,     /* there is no call before it, or of one that cannot get there */
    SONDE_ASPACE_CALL_OTHER,   /* of another one, which may have gone on by a jump, but need not */
    SONDE_ASPACE_CALL_UNKNOWN, /* by a pointer, or of one that does go on there by a jump */
    SONDE_ASPACE_CALL_FITS
};
enum sonde_aspace_call sonde_aspace_call(struct sonde_aspace *as, uint64_t address, uint64_t pc);

/* Where the function at pc begins; where that is not known, pc itself. */
uint64_t sonde_aspace_function(struct sonde_aspace *as, uint64_t pc);

/* Who knows what lies beyond the copy of a stack. For each frame that needs such words: frame, word
 * as often as it takes, and believe, which says whether its caller can be that one; if not, the
 * same with again = 1, for what is known from before. */
struct sonde_aspace_outer {
    void *arg;
    void (*frame)(void *arg, uint64_t pc, int again);
    int (*word)(void *arg, uint64_t addr, uint64_t *out);                       /* 0 or -1 */
    int (*believe)(void *arg, uint64_t caller, enum sonde_aspace_call call);    /* 1 or 0 */
    /* A return address in the copy is hidden, in the kernel's page for probes: what it was. place:
     * where it stands. 0 = not known. *sure: it is known, not assumed. NULL = there are no
     * probes. */
    uint64_t (*returns_to)(void *arg, uint64_t place, uint64_t hidden, int *sure);
};

/* Why a walk ended where it did. */
enum sonde_aspace_end {
    SONDE_ASPACE_START,   /* at the thread's start */
    SONDE_ASPACE_CODE,    /* in code that says not how to go on */
    SONDE_ASPACE_MEMORY,  /* at a word of the stack that is not to be had */
    SONDE_ASPACE_DEEP     /* at max frames */
};

struct sonde_aspace_walk {
    enum sonde_aspace_end end;
    size_t used;          /* bytes of the stack, from stack_addr on, up to the last word read that
                             is less than reach away */
    uint64_t missing;     /* MEMORY: where that word is */
    int mended;           /* words beyond the copy were used */
};

/* As sonde_aspace_unwind, with words that outer has. What it has counts only if they lead to the
 * thread's start: frames of a walk that does not get there are those of the copy. */
size_t sonde_aspace_unwind_outer(struct sonde_aspace *as, const struct sonde__regs *regs,
                                 const void *stack, uint64_t stack_addr, size_t stack_len,
                                 size_t reach, const struct sonde_aspace_outer *outer,
                                 uint64_t *ips, size_t max, struct sonde_aspace_walk *out);

/* The same, and of each frame where its caller's begins: sp when it has returned; 0 = not known, as
 * of the last one. cfas: as many as ips, or NULL. */
size_t sonde_aspace_unwind_frames(struct sonde_aspace *as, const struct sonde__regs *regs,
                                  const void *stack, uint64_t stack_addr, size_t stack_len,
                                  size_t reach, const struct sonde_aspace_outer *outer,
                                  uint64_t *ips, uint64_t *cfas, size_t max,
                                  struct sonde_aspace_walk *out);

/* ---- Modules of addresses ----------------------------------------------------------------- */

#define SONDE_ASPACE_PATH 4352 /* PATH_MAX and a prefix under /proc */
#define SONDE_ASPACE_BUILD_ID (2 * SONDE__ELF_BUILD_ID + 1)

/* Room for the texts of a module that are made up when it is asked for. */
struct sonde_aspace_texts {
    char build_id[SONDE_ASPACE_BUILD_ID];
    char open_path[SONDE_ASPACE_PATH];
};

/* A number of the mapping at addr that no other mapping in this agent ever has, so that the
 * caller can remember what it made of the module; 0 = nothing is mapped there. */
uint64_t sonde_aspace_mapping(const struct sonde_aspace *as, uint64_t addr);

/* Where the kernel's page for probes begins, if addr is in it: copies of instructions, and where
 * probed functions return to. Else 0. */
uint64_t sonde_aspace_probes(const struct sonde_aspace *as, uint64_t addr);

/* What is mapped at addr; its flags are SONDE_MODULE_VDSO, _JIT, _DELETED. Its path is good as long
 * as the mapping is there, build_id and open_path are in texts. Opens the module if that was not
 * done yet. SONDE_ENOENT: no code is mapped there. */
int sonde_aspace_module(struct sonde_aspace *as, uint64_t addr, struct sonde_aspace_texts *texts,
                        struct sonde_module *out);

/* ---- Files of code ------------------------------------------------------------------------ */

/* Calls file for each mapping of code that is a file for which want returns 1, with a descriptor of
 * that very file (verified as for unwinding), which it owns; -1 = it cannot be opened.
 * SONDE_ENOENT: no such process. SONDE_EACCES, SONDE_ENOMEM, SONDE_EIO. */
int sonde_aspace_files(uint32_t pid, int (*want)(void *arg, const struct sonde_mapping *m),
                       void (*file)(void *arg, const struct sonde_mapping *m, int fd),
                       void *arg);

#endif
