/* elf.h - one opened ELF file with its debug file, for resolve.c. */
#ifndef SONDE_PROFILE_SYMBOL_ELF_H
#define SONDE_PROFILE_SYMBOL_ELF_H

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>

#include "profile/symbol/symbol.h"

struct sonde_symbol_plt {          /* made at the first address in a PLT */
    struct sonde_symbol_got *slots; /* by address, ascending */
    size_t count, cap;
    int made;
    char text[SONDE_SYMBOL_TEXT_MAX + 8];
};

struct sonde_symbol_nameless {     /* made at the first address that has no name */
    struct sonde_symbol_table functions; /* values: where they start */
    int made;
    char text[SONDE_SYMBOL_TEXT_MAX + 24];
};

struct sonde_symbol_elf {
    Dwfl *dwfl;
    Dwfl_Module *module;
    Elf *elf;                       /* of the file itself; borrowed from module */
    struct sonde_symbol_table symbols; /* values: const char *, mangled */
    struct sonde_symbol_plt plt;
    struct sonde_symbol_nameless nameless;
    struct sonde_symbol_demangler *demangler; /* borrowed */
    Dwfl_Callbacks callbacks;
    char *debug_path;               /* where separate debug files are looked for */
    char name[4096];                /* the file as its process saw it */
    GElf_Word machine;
    int has_symtab;                 /* more than exported names */
};

/* Takes fd over. SONDE_EFORMAT: not an ELF file that can be read; SONDE_ENOMEM. */
int sonde_symbol_elf_open(const struct sonde_symbol_job *job, int fd, const char *name,
                          const char *path, struct sonde_symbol_demangler *demangler,
                          struct sonde_symbol_elf *out);
void sonde_symbol_elf_close(struct sonde_symbol_elf *e);

/* The address as linked of an offset in the file: 1, or 0 if nothing of the file is loaded
 * there. */
int sonde_symbol_elf_vaddr(const struct sonde_symbol_elf *e, uint64_t offset, uint64_t *vaddr);

/* The mangled name of the function around vaddr, or NULL. */
const char *sonde_symbol_elf_find(const struct sonde_symbol_elf *e, uint64_t vaddr);

/* "name@plt" for an address in a PLT stub, or NULL. Lives until the next call. */
const char *sonde_symbol_plt_find(struct sonde_symbol_elf *e, uint64_t vaddr);
void sonde_symbol_plt_release(struct sonde_symbol_plt *p);

/* "burn+0x1a30" for an address in the function that starts there, or, where no function is known,
 * in all that lies between two that are. NULL: it is not in the file. Lives as above. */
const char *sonde_symbol_fde_find(struct sonde_symbol_elf *e, uint64_t vaddr);

/* Where the function at start ends at the latest, as tables of exceptions tell: the end of its own,
 * or the beginning of the next one; UINT64_MAX = they do not tell. */
uint64_t sonde_symbol_fde_end(struct sonde_symbol_elf *e, uint64_t start);

/* Lines and inlined frames. Emits what lies in a unit of the debug information and sets done[i]
 * for it; vaddr ascending. */
struct sonde_symbol_addr {
    uint64_t vaddr;
    size_t index;                   /* in the job's at[] */
};
int sonde_symbol_dwarf(struct sonde_symbol_elf *e, Dwarf *dwarf, uint64_t bias,
                       const struct sonde_symbol_addr *addrs, size_t count,
                       unsigned char *done, sonde_symbol_emit *emit, void *arg);

#endif
