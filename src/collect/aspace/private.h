/* private.h - what the aspace_*.c files share; nobody else includes it. */
#ifndef SONDE_COLLECT_ASPACE_PRIVATE_H
#define SONDE_COLLECT_ASPACE_PRIVATE_H

#include "collect/aspace/aspace.h"

/* One file, opened. Counted references: by mappings, in all processes. */
struct sonde_aspace_module {
    struct sonde_aspace_module *next; /* in the list of all */
    uint32_t refs;
    /* What tells it from others. A file that is replaced under its name has another inode, or
     * the same again with another time; in memory there are only the build id and the address. */
    dev_t dev;
    uint64_t inode, size, changed_ns;
    struct sonde__elf_info elf;
    int in_memory;             /* its bytes come from a process, not from a file */
    struct sonde__unwind_row *rows; /* NULL: not built, or dropped */
    uint32_t row_count;
    uint32_t *functions;       /* where they begin, ascending, from the first byte; as rows */
    uint32_t function_count;
    int tried;                 /* to build it */
    uint64_t used;             /* tick of the last lookup, for dropping */
};

enum sonde_aspace_state { MAPPING_NEW, MAPPING_OPEN, MAPPING_NONE };
enum sonde_aspace_from { FROM_PATH, FROM_ROOT, FROM_MAP_FILES, FROM_MEMORY };

/* Shared by processes after a fork, so nothing in it depends on which one looks. */
struct sonde_aspace_mapping {
    uint32_t refs;
    uint64_t id;
    struct sonde_mapping map;      /* as reported, but for its path, which is in text, without
                                      " (deleted)"; "[anon]" for code without file and name */
    uint32_t flags;                /* SONDE_MODULE_… */
    enum sonde_aspace_state state; /* NONE: no module could be opened, or it is not an ELF file */
    enum sonde_aspace_from from;
    struct sonde_aspace_module *module;
    uint64_t first;                /* address of the module's first byte */
    char text[];
};

#define RULES 4096u /* a power of two */

/* What to do at an address, remembered. FP_DOUBT: by frame pointer, where none seems to be kept. */
enum rule_kind { RULE_EMPTY, RULE_ROW, RULE_FP, RULE_FP_DOUBT, RULE_NOWHERE };
struct rule {
    uint64_t key;      /* address * 2 + exact */
    uint32_t layout;
    uint32_t kind;
    struct sonde__unwind_row row;
};

#define CALLS 1024u /* a power of two */

/* What calls a return address is behind of, remembered. */
struct call_site {
    uint64_t address;   /* 0 = free */
    uint64_t to;        /* DIRECT */
    uint32_t layout;
    uint32_t kind;      /* enum sonde__call */
    uint64_t from;      /* the function it was last compared with, and what came of it */
    enum sonde_aspace_call call;
};

struct sonde_modules {
    struct sonde_aspace_module *list;
    size_t table_bytes, table_bytes_max;
    uint64_t tick;
    uint64_t mapping_id;
    uint32_t layout;           /* last number given out */
    struct sonde_modules_stats stats;
    struct rule rules[RULES];
    struct call_site calls[CALLS];
};

struct sonde_aspace {
    struct sonde_modules *modules;
    uint32_t pid;
    /* Which set of mappings this is: another number after every change, the same in a child that
     * has changed nothing yet. Rules are remembered by it. */
    uint32_t layout;
    struct sonde_aspace_mapping **maps; /* by start, not overlapping */
    uint32_t map_count, map_cap;
};

/* aspace.c */
struct sonde_aspace_mapping *sonde_aspace_find(const struct sonde_aspace *as, uint64_t addr);

/* module.c */
void sonde_aspace_module_release(struct sonde_modules *all, struct sonde_aspace_module *m);
/* Opens what is mapped there, once: m->state is OPEN or NONE afterwards. */
void sonde_aspace_mapping_open(struct sonde_modules *all, struct sonde_aspace_mapping *m,
                               uint32_t pid);
/* Its table, made if need be; no rows when there is none. */
struct sonde__unwind_table sonde_aspace_mapping_table(struct sonde_modules *all,
                                                      struct sonde_aspace_mapping *m, uint32_t pid);

/* open.c: bytes of a mapped module, and where they come from. */
struct sonde_module_bytes {
    int fd;
    int memory;      /* fd is a process's memory; first: where its first byte is */
    uint64_t first;
    enum sonde_aspace_from from;
};
int sonde_module_bytes_open(const struct sonde_mapping *m, uint32_t pid,
                            struct sonde_module_bytes *out); /* 0 or -1 */
/* struct sonde__elf_reader.read of it. */
int sonde_module_bytes_read(void *bytes, uint64_t at, void *out, size_t len);
int sonde_module_open_path(const struct sonde_aspace_mapping *m, uint32_t pid, char *out,
                           size_t size);
/* Bytes of code in a mapping that was opened, from its file if it has one: the process may be gone
 * by now, or another program. 0 or -1. */
int sonde_module_code(const struct sonde_aspace_mapping *m, uint32_t pid, uint64_t addr, void *out,
                      size_t len);

#endif
