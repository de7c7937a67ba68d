/* table.c - sorted ranges with a bounded search: the innermost range around an address is
 * looked for backwards from the last one that starts at or before it, no further than any earlier
 * range reaches and no more than BACK_MAX steps, so that a file made of nested ranges cannot make
 * it slow. An interval tree would find deeper ones; symbols do not nest that deep. */
#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "profile/symbol/symbol.h"
#include "sonde/sonde.h"

#define RANGES_MAX (64u << 20) /* 2.5 GiB; no symbol table comes near */
#define BACK_MAX 256

int sonde_symbol_table_add(struct sonde_symbol_table *t, const struct sonde_symbol_range *r)
{
    assert(t->count <= t->cap);
    if (r->end <= r->start) return 0;
    const int rc = SONDE_ARRAY_ROOM_MAX(t->ranges, t->count, t->cap, RANGES_MAX);
    if (rc) return rc;
    t->ranges[t->count++] = *r;
    return 0;
}

static int symbol_table_by_start(const void *a, const void *b)
{
    const struct sonde_symbol_range *x = a, *y = b;
    if (x->start != y->start) return SONDE_CMP(x->start, y->start);
    if (x->rank != y->rank) return SONDE_CMP(y->rank, x->rank);
    if (x->end != y->end) return SONDE_CMP(y->end, x->end);
    return SONDE_CMP(x->value, y->value);
}

static void set_reach(struct sonde_symbol_table *t)
{
    uint64_t reach = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->ranges[i].end > reach) reach = t->ranges[i].end;
        t->ranges[i].reach = reach;
    }
}

void sonde_symbol_table_seal(struct sonde_symbol_table *t)
{
    uint64_t reach = 0;
    size_t kept = 0;
    if (t->count == 0) return;
    qsort(t->ranges, t->count, sizeof(*t->ranges), symbol_table_by_start);
    for (size_t i = 0; i < t->count; i++) {
        struct sonde_symbol_range r = t->ranges[i];
        struct sonde_symbol_range *last = kept ? &t->ranges[kept - 1] : NULL;
        if (last && last->start == r.start) continue;
        /* A label without a size inside a function is part of it. */
        if (r.unsized && r.start < reach) continue;
        if (last && last->unsized && last->end > r.start) last->end = r.start;
        if (!r.unsized && r.end > reach) reach = r.end;
        t->ranges[kept++] = r;
    }
    t->count = kept;
    set_reach(t);
}

void sonde_symbol_table_limit(struct sonde_symbol_table *t,
                              uint64_t (*limit)(void *arg, uint64_t start), void *arg)
{
    for (size_t i = 0; i < t->count; i++) {
        struct sonde_symbol_range *r = &t->ranges[i];
        if (!r->unsized) continue;
        const uint64_t end = limit(arg, r->start);
        if (end > r->start && end < r->end) r->end = end;
    }
    set_reach(t);
}

/* How many ranges start at or before addr. */
static size_t count_before(const struct sonde_symbol_table *t, uint64_t addr)
{
    size_t low = 0, high = t->count;
    assert(!high || t->ranges[0].start <= t->ranges[high - 1].start); /* sealed */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (t->ranges[mid].start <= addr) low = mid + 1;
        else high = mid;
    }
    return low;
}

uint64_t sonde_symbol_table_reach(const struct sonde_symbol_table *t, uint64_t addr)
{
    const size_t n = count_before(t, addr);
    return n ? t->ranges[n - 1].reach : 0;
}

uint64_t sonde_symbol_table_next(const struct sonde_symbol_table *t, uint64_t addr)
{
    const size_t n = count_before(t, addr);
    return n < t->count ? t->ranges[n].start : UINT64_MAX;
}

const struct sonde_symbol_range *sonde_symbol_table_find(const struct sonde_symbol_table *t,
                                                         uint64_t addr)
{
    assert(!t->count || t->ranges[t->count - 1].reach); /* sealed */
    const struct sonde_symbol_range *best = NULL;
    size_t low = count_before(t, addr);
    for (int steps = 0; low > 0 && steps < BACK_MAX; steps++) {
        const struct sonde_symbol_range *r = &t->ranges[--low];
        if (r->reach <= addr) break;
        if (r->end <= addr) continue;
        if (!best || r->rank > best->rank) best = r;
        if (!t->latest) break;
    }
    return best;
}

void sonde_symbol_table_release(struct sonde_symbol_table *t)
{
    sonde__free(t->ranges);
    *t = (struct sonde_symbol_table){ 0 };
}
