/* compile.c - all of a module's .eh_frame into one table.
 *
 * Functions are not in order in .eh_frame (hot, cold and start-up code are moved apart), and
 * there is no memory to sort in but the caller's rows. So: an index of functions is put at the
 * end of it, one row each, and sorted; then they are compiled in order to the front, which never
 * catches up, since every function was counted with its index row. */
#include <string.h>

#include "unwind/eh_frame.h"

#define PADDING_MAX 16 /* functions are aligned to 16 bytes */

/* ---- The index: pc = start, cfa_off = length, the two 16-bit fields = offset of the FDE --- */

static struct sonde__unwind_row index_row(const struct sonde__fde *fde, size_t at)
{
    return (struct sonde__unwind_row){ .pc = (uint32_t)fde->start,
                                       .cfa_off = (int32_t)(uint32_t)(fde->end - fde->start),
                                       .bp_off = (int16_t)(uint16_t)(at & 0xffff),
                                       .ra_off = (int16_t)(uint16_t)(at >> 16) };
}

static size_t index_at(const struct sonde__unwind_row *row)
{
    return (size_t)(uint16_t)row->bp_off | (size_t)(uint16_t)row->ra_off << 16;
}

static int index_less(const struct sonde__unwind_row *a, const struct sonde__unwind_row *b)
{
    return a->pc != b->pc ? a->pc < b->pc : index_at(a) < index_at(b);
}

static void sift_down(struct sonde__unwind_row *rows, size_t at, size_t count)
{
    const struct sonde__unwind_row moving = rows[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && index_less(&rows[child], &rows[child + 1])) child++;
        if (!index_less(&moving, &rows[child])) break;
        rows[at] = rows[child];
        at = child;
    }
    rows[at] = moving;
}

/* Heapsort: in place, without recursion, and no input makes it slow. */
static void sort_index(struct sonde__unwind_row *rows, size_t count)
{
    size_t sorted = 1;
    while (sorted < count && index_less(&rows[sorted - 1], &rows[sorted])) sorted++;
    if (sorted >= count) return;
    for (size_t i = count / 2; i > 0; i--) sift_down(rows, i - 1, count);
    for (size_t end = count - 1; end > 0; end--) {
        const struct sonde__unwind_row last = rows[0];
        rows[0] = rows[end];
        rows[end] = last;
        sift_down(rows, 0, end);
    }
}

/* ---- Rows --------------------------------------------------------------------------------- */

struct unwind_compile_output {
    struct sonde__unwind_row *rows; /* NULL: only counted */
    size_t count;
    uint32_t limit;                 /* rows from here on belong to the next function */
};

static int same_rule(const struct sonde__unwind_row *a, const struct sonde__unwind_row *b)
{
    return !memcmp((const uint8_t *)a + sizeof(a->pc), (const uint8_t *)b + sizeof(b->pc),
                   sizeof(*a) - sizeof(a->pc));
}

static void unwind_compile_put_row(void *arg, const struct sonde__unwind_row *row)
{
    struct unwind_compile_output *o = arg;
    if (!o->rows) {
        o->count++;
        return;
    }
    if (row->pc >= o->limit) return;
    if (o->count && o->rows[o->count - 1].pc == row->pc) o->count--;
    if (o->count && same_rule(&o->rows[o->count - 1], row)) return;
    o->rows[o->count++] = *row;
}

static int is_padding(const struct unwind_compile_output *o, uint64_t end, uint64_t next)
{
    const struct sonde__unwind_row *last = &o->rows[o->count - 1];
    return next - end < PADDING_MAX && last->cfa == SONDE__CFA_SP && last->cfa_off == 8;
}

static size_t count_rows(const struct sonde__unwind_source *source, size_t *functions,
                         uint32_t *bad)
{
    struct unwind_compile_output o = { 0 };
    struct sonde__cie cie = { 0 };
    struct sonde__fde fde;
    uint64_t cie_at = UINT64_MAX;
    enum sonde__entry kind;
    *functions = 0;
    for (size_t at = 0;
         (kind = sonde__eh_entry(source, &at, &cie, &cie_at, &fde)) != SONDE__ENTRY_LAST;) {
        if (kind == SONDE__ENTRY_BAD) ++*bad;
        if (kind != SONDE__ENTRY_FDE) continue;
        if (sonde__cfi_run(source, &cie, &fde, unwind_compile_put_row, &o)) ++*bad;
        ++*functions;
    }
    return o.count + *functions; /* and one each for the gap behind */
}

static void fill_index(const struct sonde__unwind_source *source, struct sonde__unwind_row *index)
{
    struct sonde__cie cie = { 0 };
    struct sonde__fde fde;
    uint64_t cie_at = UINT64_MAX;
    enum sonde__entry kind;
    size_t at = 0, start = 0;
    while ((kind = sonde__eh_entry(source, &at, &cie, &cie_at, &fde)) != SONDE__ENTRY_LAST) {
        if (kind == SONDE__ENTRY_FDE) *index++ = index_row(&fde, start);
        start = at;
    }
}

size_t sonde__unwind_compile(const struct sonde__unwind_source *source,
                             struct sonde__unwind_row *rows, size_t max, uint32_t *bad)
{
    size_t functions;
    *bad = 0;
    if (source->eh_frame_len > SONDE__EH_FRAME_MAX) return 0;
    const size_t most = count_rows(source, &functions, bad);
    if (!rows) return most + functions;
    if (max < most + functions) return 0;

    struct sonde__unwind_row *index = rows + most;
    fill_index(source, index);
    sort_index(index, functions);

    struct unwind_compile_output o = { .rows = rows };
    struct sonde__cie cie = { 0 };
    struct sonde__fde fde;
    uint64_t cie_at = UINT64_MAX;
    for (size_t i = 0; i < functions; i++) {
        size_t at = index_at(&index[i]);
        const uint64_t next = i + 1 < functions ? index[i + 1].pc : UINT64_MAX;
        if (sonde__eh_entry(source, &at, &cie, &cie_at, &fde) != SONDE__ENTRY_FDE) continue;
        if (next <= fde.start) continue; /* another one begins at the same address */
        o.limit = next < fde.end ? (uint32_t)next : (uint32_t)fde.end;
        sonde__cfi_run(source, &cie, &fde, unwind_compile_put_row, &o);
        if (fde.end >= next || is_padding(&o, fde.end, next)) continue;
        o.limit = UINT32_MAX;
        unwind_compile_put_row(&o, &(struct sonde__unwind_row){ .pc = (uint32_t)fde.end });
    }
    return o.count;
}
