/* symbol.h - inside the symbolizer: from addresses in one module to frames.
 *
 *   symbolize.c    which addresses of which modules; cache; what comes back goes in the profile
 *   plan.c  its locations sorted into jobs, one a file
 *   child.c the jobs run in a child process: libdw is fed files that anyone wrote
 *   wire.c  what the child sends
 *   resolve.c  one job: choose the source of names
 *   open.c  the file that was really mapped, or none
 *   elf.c   symbol tables, file offset to address; plt.c: name@plt; fde.c:
 *                  functions without names
 *   dwarf.c lines and inlined frames; die.c: the functions around an address, their names and
 *                  files
 *   cache.c what is known of a build stays known
 *   text.c  JIT maps and /proc/kallsyms
 *   table.c sorted ranges of addresses, used by all of them
 *   demangle.c
 *   spin.c  whether code only waits; spin_mark.c: of which locations, and where it is read */
#ifndef SONDE_PROFILE_SYMBOL_SYMBOL_H
#define SONDE_PROFILE_SYMBOL_SYMBOL_H

#include <stddef.h>
#include <stdint.h>

#include "profile/module.h"

#define SONDE_SYMBOL_TEXT_MAX 4096u   /* longest name or file, bytes; longer ones are cut */
#define SONDE_SYMBOL_FRAMES_MAX 128u  /* frames at one address */

/* Beside the SONDE_MODULE_… flags of a module, from a job: the kernel hides its symbols. */
#define SONDE_SYMBOL_HIDDEN (1u << 31)

struct sonde_symbol_frame {
    const char *name;       /* demangled; any bytes */
    const char *file;       /* "" = unknown */
    uint32_t line;          /* 0 = unknown */
    uint32_t start_line;    /* of the function, in file; 0 = unknown or in another file */
};

/* ---- Ranges of addresses ------------------------------------------------------------------- */

struct sonde_symbol_range {
    uint64_t start, end;    /* [start, end) */
    uint64_t reach;         /* the greatest end of this and all ranges before it */
    uint64_t value;         /* the caller's: an offset, or a pointer to a name */
    uint32_t rank;          /* of several with one start the highest is kept */
    uint32_t unsized;       /* end is only an upper bound: it ends where the next one starts */
};

struct sonde_symbol_table {
    struct sonde_symbol_range *ranges;
    size_t count, cap;
    int latest;             /* where ranges overlap the highest rank counts, not the innermost */
};

int sonde_symbol_table_add(struct sonde_symbol_table *t, const struct sonde_symbol_range *r);
void sonde_symbol_table_seal(struct sonde_symbol_table *t); /* sort; then it can be searched */
const struct sonde_symbol_range *sonde_symbol_table_find(const struct sonde_symbol_table *t,
                                                         uint64_t addr);
/* When it is sealed: unsized ranges end at limit(arg, start) at the latest. */
void sonde_symbol_table_limit(struct sonde_symbol_table *t,
                              uint64_t (*limit)(void *arg, uint64_t start), void *arg);
/* How far ranges reach that start at or before addr, 0 = none does; and where the next one after it
 * starts, UINT64_MAX = none. */
uint64_t sonde_symbol_table_reach(const struct sonde_symbol_table *t, uint64_t addr);
uint64_t sonde_symbol_table_next(const struct sonde_symbol_table *t, uint64_t addr);
void sonde_symbol_table_release(struct sonde_symbol_table *t);

/* ---- One job: addresses of one file, or of the kernel, or of a JIT ------------------------- */

enum sonde_symbol_kind {
    SONDE_SYMBOL_FILE,     /* at: offsets in the file */
    SONDE_SYMBOL_VADDR,    /* at: addresses as linked (a mapping is not known) */
    SONDE_SYMBOL_VDSO,     /* at: offsets in the image */
    SONDE_SYMBOL_JIT,      /* at: addresses in the process */
    SONDE_SYMBOL_KERNEL    /* at: addresses */
};

struct sonde_symbol_job {
    enum sonde_symbol_kind kind;
    const char *build_id;   /* hex; "" = unknown */
    const char *debug_root; /* searched besides /usr/lib/debug; NULL = none */
    const struct sonde_module *places; /* mappings of the file: where it may be opened */
    size_t place_count;     /* at least 1 */
    const uint64_t *at;     /* ascending, each once */
    size_t at_count;
    int symbols_only;       /* leave debug information alone */
};

/* The frames of at[index], innermost first; count 0 = it has no name. Not 0 = stop. */
typedef int sonde_symbol_emit(void *arg, size_t index, const struct sonde_symbol_frame *frames,
                              uint32_t count);

/* Every at[] is emitted at most once. *flags: SONDE_MODULE_… to add to the modules. Files that
 * are missing or damaged are no error: then nothing is emitted. SONDE_ENOMEM, or what emit gave. */
int sonde_symbol_resolve(const struct sonde_symbol_job *job, sonde_symbol_emit *emit, void *arg,
                         uint32_t *flags);

/* JIT and kernel: from text tables. */
int sonde_symbol_text(const struct sonde_symbol_job *job, sonde_symbol_emit *emit, void *arg,
                      uint32_t *flags);

/* ---- Files --------------------------------------------------------------------------------- */

struct sonde_symbol_file {
    int fd;                 /* owned */
    char name[4096];        /* where to look for debug files beside it */
    const struct sonde_module *place;
};

/* SONDE_ENOENT: the file is gone, is no ELF file, or is another than the one that was mapped (then
 * *flags gets SONDE_MODULE_DELETED). */
int sonde_symbol_open(const struct sonde_symbol_job *job, struct sonde_symbol_file *out,
                      uint32_t *flags);

/* A path that leads through /proc/PID/root is resolved in that root, so that an absolute link in a
 * container does not lead out of it. A regular file's descriptor, or -1. */
int sonde_symbol_open_path(const char *path);

/* The pid of a path that begins with /proc/PID/; 0 = it does not. */
uint32_t sonde_symbol_pid(const char *path);

/* ---- Demangling ---------------------------------------------------------------------------- */

struct sonde_symbol_demangler {
    char text[SONDE_SYMBOL_TEXT_MAX + 4]; /* the result */
    size_t len;
};

/* A C++ or Rust name; text that is not a mangled name comes back as it is (cut to 4 KiB, as all
 * names). Without parameters, with the compiler's suffix: ns::f<int>.cold. The result lives until
 * the next call. */
const char *sonde_symbol_demangle(struct sonde_symbol_demangler *d, const char *name);

/* The name is cut at its symbol version ("read@@GLIBC_2.2.5"), then as above. */
const char *sonde_symbol_demangle_versioned(struct sonde_symbol_demangler *d, const char *name);

#endif
