/* symbols.h - where in an ELF file the functions of llama.cpp are that are watched
 * (segment/llama.h), from its symbol tables: those it exports, and those it only has names for, as
 * in a program that llama.cpp is linked into. */
#ifndef SONDE_COLLECT_UPROBE_SYMBOLS_H
#define SONDE_COLLECT_UPROBE_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "segment/llama.h"

struct sonde_uprobe_symbols {
    uint64_t at[SONDE__LLAMA_COUNT]; /* offset in the file for a probe; 0 = it is not there */
    uint32_t count;                  /* functions that are */
    uint64_t entry_at;               /* where a program begins; 0 = nowhere */
    /* Where the size of a buffer and the name of a tensor are in their structs, which differs
     * between versions: read from the code of the functions that return them. -1 = not known. */
    int32_t buffer_size_at, tensor_name_at;
};

/* The file's bytes, which may be anything and may even change while they are looked at. 0, or
 * SONDE_EFORMAT: no ELF file with code for this machine. */
int sonde_uprobe_symbols_find(const void *elf, size_t len, struct sonde_uprobe_symbols *out);

/* The same of an open file. SONDE_EIO: it could not be mapped, or was cut short meanwhile. */
int sonde_uprobe_symbols_read(int fd, struct sonde_uprobe_symbols *out);

#endif
