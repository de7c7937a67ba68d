/* die.h - the functions of one unit of debug information around given addresses, their names
 * and files. */
#ifndef SONDE_PROFILE_SYMBOL_DIE_H
#define SONDE_PROFILE_SYMBOL_DIE_H

#include <elfutils/libdw.h>

#include "base/map.h"
#include "profile/symbol/elf.h"

#define SONDE_SYMBOL_DIE_NONE UINT32_MAX

struct sonde_symbol_die_node {    /* a function, or one inlined at parent's */
    Dwarf_Die die;
    uint32_t parent;
};

/* What an address lies in: addrs[i] is in nodes[at[i]] (SONDE_SYMBOL_DIE_NONE = in no function). */
struct sonde_symbol_die_walk {
    struct sonde_symbol_die_node *nodes;
    uint32_t node_count, node_cap;
    uint32_t *at, at_cap;
    uint32_t *lists;        /* scratch: stacked lists of indexes in addrs */
    size_t list_top, list_cap;
    const struct sonde_symbol_addr *addrs;
    uint32_t count;
    uint64_t bias;          /* vaddr - bias = address in the debug information */
    int deep;               /* look in types and in functions elsewhere too */
    int rc;
};

/* addrs ascending. 0 or SONDE_ENOMEM. */
int sonde_symbol_die_find(struct sonde_symbol_die_walk *w, Dwarf_Die *unit,
                          const struct sonde_symbol_addr *addrs, uint32_t count, uint64_t bias);
void sonde_symbol_die_release(struct sonde_symbol_die_walk *w);

/* A function's name and where it is declared, by the DIE that says so, kept for the next use. */
struct sonde_symbol_die_name {
    const void *key;        /* the DIE's address in memory */
    char *text;             /* owned; demangled; "" = it has none */
    const char *raw;        /* as in the symbol table; NULL = unknown; libdw's */
    const char *file;       /* libdw's; "" = unknown */
    uint32_t line;
    int mangled;            /* raw is a linkage name */
};

struct sonde_symbol_die_names {
    struct sonde_symbol_die_name *rows;
    uint32_t count, cap;
    struct sonde_map map;
};

/* NULL when out of memory. Lives until the next call. */
const struct sonde_symbol_die_name *sonde_symbol_die_name(struct sonde_symbol_die_names *n,
                                                          Dwarf_Die *die,
                                                          struct sonde_symbol_demangler *demangler);
void sonde_symbol_die_names_release(struct sonde_symbol_die_names *n);

/* Whole paths of the files of one unit. */
struct sonde_symbol_path {
    const char *key;        /* libdw's, by its address */
    char *text;             /* owned */
};

struct sonde_symbol_paths {
    struct sonde_symbol_path *rows;
    uint32_t count, cap;
    struct sonde_map map;
};

/* file in folder, if it is relative (folder: NULL = unknown). Lives until the release; file itself
 * when nothing is to be added, or out of memory. */
const char *sonde_symbol_path_whole(struct sonde_symbol_paths *p, const char *folder,
                                    const char *file);
void sonde_symbol_paths_release(struct sonde_symbol_paths *p);

#endif
