/* find.c - the rule for one address of a module in this process, by the search table that the
 * linker made (.eh_frame_hdr): a binary search, one entry, one little program.
 *
 * For a process that walks its own stack. Compiling whole modules ahead of time would cost it
 * milliseconds and megabytes at its start and again with every dlopen, which it would have to
 * intercept. */
#include <string.h>

#include "unwind/eh_frame.h"

#define COUNT_ENCODING 0x03 /* four bytes, unsigned: what linkers write */
#define TABLE_ENCODING 0x3b /* relative to the header, signed, four bytes */
#define PADDING_MAX 16      /* see sonde__unwind_compile */

struct pick {
    uint32_t pc;
    struct sonde__unwind_row row; /* the last one at or before pc */
};

static void pick_row(void *arg, const struct sonde__unwind_row *row)
{
    struct pick *p = arg;
    if (row->pc <= p->pc) p->row = *row;
}

static int32_t table_start(const uint8_t *table, size_t i)
{
    int32_t v;
    memcpy(&v, table + 8 * i, sizeof(v));
    return v;
}

/* Offset from the header of the entry for the last function that begins at or before at (also an
 * offset from the header), and where the next one begins. 0, or -1: all begin later. */
static int unwind_find_search(const uint8_t *table, size_t count, int64_t at, int32_t *entry,
                              int64_t *next)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (table_start(table, middle) <= at) low = middle + 1;
        else high = middle;
    }
    if (!low) return -1;
    memcpy(entry, table + 8 * (low - 1) + 4, sizeof(*entry));
    *next = low < count ? table_start(table, low) : INT64_MAX;
    return 0;
}

int sonde__unwind_find(const struct sonde__unwind_object *o, uint64_t pc,
                       struct sonde__unwind_row *row)
{
    const uint8_t *first = (const uint8_t *)(uintptr_t)o->start;
    const uint8_t *last = (const uint8_t *)(uintptr_t)o->end;
    const uint8_t *h = (const uint8_t *)(uintptr_t)o->header;
    if (h < first || h >= last || last - h < 12 || h[0] != 1 || h[2] != COUNT_ENCODING ||
        h[3] != TABLE_ENCODING || pc < o->start || pc >= o->end || pc - o->start > UINT32_MAX) {
        return -1;
    }
    struct sonde__unwind_source s = { .eh_frame = h, .eh_frame_addr = (uint64_t)(h - first),
                                      .data_addr = (uint64_t)(h - first), .first_addr = o->start };
    struct sonde__cursor c = { h + 4, last, 0 };
    const uint64_t frames = sonde__eh_pointer(&s, &c, h[1]);
    const uint64_t count = sonde__cursor_fixed(&c, 4);
    if (c.bad || frames >= (uint64_t)(last - first)) return -1;
    if (count > (uint64_t)(last - c.p) / 8) return -1;

    int32_t entry;
    int64_t next; /* from the header */
    const int64_t wanted = (int64_t)(pc - o->start) - (h - first);
    if (unwind_find_search(c.p, (size_t)count, wanted, &entry, &next)) return -1;
    s.eh_frame = first + frames;
    s.eh_frame_addr = frames;
    s.eh_frame_len = (size_t)(last - first) - frames;
    const int64_t offset = (h - first) + entry - (int64_t)frames;
    if (offset < 0) return -1;

    struct sonde__cie cie = { 0 };
    struct sonde__fde fde;
    uint64_t cie_at = UINT64_MAX;
    size_t at = (size_t)offset;
    struct pick pick = { .pc = (uint32_t)(pc - o->start) };
    if (sonde__eh_entry(&s, &at, &cie, &cie_at, &fde) != SONDE__ENTRY_FDE) return -1;
    const int padding = pick.pc >= fde.end;
    if (fde.start > pick.pc) return -1;
    if (padding && next >= (int64_t)fde.end - (h - first) + PADDING_MAX) {
        row->pc = (uint32_t)fde.end;
        return 1;
    }
    sonde__cfi_run(&s, &cie, &fde, pick_row, &pick);
    if (pick.row.cfa == SONDE__CFA_NONE) return -1;
    if (padding && (pick.row.cfa != SONDE__CFA_SP || pick.row.cfa_off != 8)) return -1;
    *row = pick.row;
    return 0;
}
