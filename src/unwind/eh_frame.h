/* eh_frame.h - private to src/unwind: the entries of .eh_frame, and their programs.
 *
 *   .eh_frame:  CIE  FDE FDE FDE  CIE  FDE …  0
 *
 * A CIE (common information entry) says how the FDEs (frame description entries) that name it are
 * encoded, and has the rules at the start of every function; an FDE covers one function and is a
 * little program that moves along its addresses and changes the rules. */
#ifndef SONDE_UNWIND_EH_FRAME_H
#define SONDE_UNWIND_EH_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "unwind/unwind.h"

/* ---- Reading bytes: past the end everything is 0 and bad is set --------------------------- */

struct sonde__cursor {
    const uint8_t *p, *end;
    int bad;
};

uint64_t sonde__cursor_fixed(struct sonde__cursor *c, size_t bytes); /* 1, 2, 4 or 8 */
uint64_t sonde__cursor_uleb(struct sonde__cursor *c);
int64_t sonde__cursor_sleb(struct sonde__cursor *c);
struct sonde__cursor sonde__cursor_block(struct sonde__cursor *c, uint64_t len);

/* An encoded pointer (DW_EH_PE_…), as an address from the module's first byte. */
uint64_t sonde__eh_pointer(const struct sonde__unwind_source *s, struct sonde__cursor *c,
                           uint8_t encoding);

/* ---- Entries ------------------------------------------------------------------------------ */

struct sonde__cie {
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra_reg;
    uint8_t encoding;   /* of pointers in its FDEs */
    uint8_t sized;      /* its FDEs have augmentation data behind a length */
    struct sonde__cursor program;
};

struct sonde__fde {
    uint64_t cie_at;    /* offset in .eh_frame */
    uint64_t start, end;/* [start, end), from the module's first byte */
    struct sonde__cursor program;
};

enum sonde__entry { SONDE__ENTRY_CIE, SONDE__ENTRY_FDE, SONDE__ENTRY_BAD, SONDE__ENTRY_LAST };

/* What is at offset *at, which moves to the next one. An FDE is read with cie, which is that of
 * *cie_at and is replaced when the FDE names another. */
enum sonde__entry sonde__eh_entry(const struct sonde__unwind_source *s, size_t *at,
                                  struct sonde__cie *cie, uint64_t *cie_at,
                                  struct sonde__fde *fde);

/* ---- Programs ----------------------------------------------------------------------------- */

/* Called with rows of one function in ascending order, all within [start, end). */
typedef void sonde__row_sink(void *arg, const struct sonde__unwind_row *row);

/* 0, or -1 when a part of it could not be expressed or is damaged: that part has CFA_NONE. */
int sonde__cfi_run(const struct sonde__unwind_source *s, const struct sonde__cie *cie,
                   const struct sonde__fde *fde, sonde__row_sink *sink, void *arg);

#endif
