/* scan_find.c - blocks by any address in them: sorted, and found by the 64 KiB an address is in.
 * See scan.h. */
#include <string.h>

#include "preload/heap/live.h"
#include "preload/heap/scan.h"

#define REGION 16               /* bits of an address */
#define SMALL 24u               /* that insertion sorts */
#define DEPTH 64u
#define MIX 0x9e3779b97f4a7c15ull

/* ---- Collecting ------------------------------------------------------------------------------ */

static void heap_scan_find_collect(void *arg, const struct sonde__heap_block *b)
{
    struct sonde__scan *s = arg;
    if (s->count == s->room) return; /* came up meanwhile: not judged */
    s->block[s->count++] = (struct sonde__scan_block){ b->addr << 17 | b->site, b->size << 1 };
}

static void heap_scan_find_swap(struct sonde__scan_block *a, struct sonde__scan_block *b)
{
    const struct sonde__scan_block t = *a;
    *a = *b;
    *b = t;
}

static void sort_small(struct sonde__scan_block *b, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const struct sonde__scan_block x = b[i];
        uint32_t k = i;
        for (; k && b[k - 1].start_site > x.start_site; k--) b[k] = b[k - 1];
        b[k] = x;
    }
}

/* Below the middle one of three in front, the others behind: where those begin. */
static uint32_t heap_scan_find_divide(struct sonde__scan_block *b, uint32_t n)
{
    if (b[n / 2].start_site < b[0].start_site) heap_scan_find_swap(&b[n / 2], &b[0]);
    if (b[n - 1].start_site < b[0].start_site) heap_scan_find_swap(&b[n - 1], &b[0]);
    if (b[n - 1].start_site < b[n / 2].start_site) heap_scan_find_swap(&b[n - 1], &b[n / 2]);
    const uint64_t pivot = b[n / 2].start_site;
    uint32_t i = 0, k = n - 1;
    for (;;) {
        while (b[i].start_site < pivot) i++;
        while (b[k].start_site > pivot) k--;
        if (i >= k) return i ? i : 1;
        heap_scan_find_swap(&b[i++], &b[k--]);
    }
}

/* Quicksort, the larger part put off: the stack need not be deep. libc's would allocate. */
static void heap_scan_find_sort(struct sonde__scan_block *b, uint32_t n)
{
    struct { uint32_t at, n; } later[DEPTH];
    uint32_t depth = 0, at = 0;
    for (;;) {
        while (n > SMALL) {
            const uint32_t front = heap_scan_find_divide(b + at, n), behind = n - front;
            const int front_first = front < behind;
            later[depth].at = front_first ? at + front : at;
            later[depth++].n = front_first ? behind : front;
            if (!front_first) at += front;
            n = front_first ? front : behind;
        }
        sort_small(b + at, n);
        if (!depth) return;
        at = later[--depth].at;
        n = later[depth].n;
    }
}

/* ---- Regions --------------------------------------------------------------------------------- */

static uint64_t last_region(const struct sonde__scan_block *b)
{
    const uint64_t size = sonde__scan_size(b);
    return (sonde__scan_start(b) + (size ? size - 1 : 0)) >> REGION;
}

static struct sonde__scan_region *region_at(const struct sonde__scan *s, uint64_t region)
{
    uint64_t i = region * MIX >> 20 & s->region_mask;
    while (s->region[i].key && s->region[i].key != region + 1) i = (i + 1) & s->region_mask;
    return &s->region[i];
}

static int regions_make(struct sonde__scan *s)
{
    uint64_t regions = 0, room = 64, before = UINT64_MAX;
    for (uint32_t i = 0; i < s->count; i++) {
        const uint64_t first = sonde__scan_start(&s->block[i]) >> REGION;
        const uint64_t last = last_region(&s->block[i]);
        regions += last - first + (first != before);
        before = last;
    }
    while (room < regions * 2) room *= 2;
    s->region = sonde__heap_pages(room * sizeof(*s->region));
    if (!s->region) return -1;
    s->region_mask = room - 1;
    for (uint32_t i = 0; i < s->count; i++) {
        const uint64_t last = last_region(&s->block[i]);
        for (uint64_t k = sonde__scan_start(&s->block[i]) >> REGION; k <= last; k++) {
            struct sonde__scan_region *r = region_at(s, k);
            if (!r->key) r->first = i;
            r->key = k + 1;
            r->last = i;
        }
    }
    return 0;
}

/* ---- Finding --------------------------------------------------------------------------------- */

/* The last of [first, last] that begins at or before addr; they are known to be some. */
static uint32_t last_before(const struct sonde__scan *s, uint32_t first, uint32_t last,
                            uint64_t addr)
{
    while (first < last) {
        const uint32_t middle = first + (last - first + 1) / 2;
        if (sonde__scan_start(&s->block[middle]) <= addr) first = middle;
        else last = middle - 1;
    }
    return first;
}

void sonde__scan_word(struct sonde__scan *s, uint64_t word)
{
    if (word < s->low || word >= s->high) return;
    const struct sonde__scan_region *r = region_at(s, word >> REGION);
    if (!r->key) return;
    const uint32_t i = last_before(s, r->first, r->last, word);
    struct sonde__scan_block *b = &s->block[i];
    const uint64_t size = sonde__scan_size(b), start = sonde__scan_start(b);
    if (b->size_marked & 1 || word < start || word - start >= (size ? size : 1)) return;
    b->size_marked |= 1;
    s->pending[s->pending_count++] = i;
}

uint32_t sonde__scan_behind(const struct sonde__scan *s, uint64_t addr)
{
    if (!s->count) return 0;
    const uint32_t i = last_before(s, 0, s->count - 1, addr);
    return sonde__scan_start(&s->block[i]) + sonde__scan_size(&s->block[i]) > addr ? i : i + 1;
}

int sonde__scan_collect(struct sonde__scan *s)
{
    uint64_t room = sonde__live_count() + sonde__heap_maps_count();
    if (room > UINT32_MAX / 2) return -1;
    room += room / 64 + 64;
    s->room = (uint32_t)room;
    s->block = sonde__heap_pages(room * sizeof(*s->block));
    s->pending = sonde__heap_pages(room * sizeof(*s->pending));
    if (!s->block || !s->pending) return -1;
    sonde__live_each(heap_scan_find_collect, s);
    sonde__heap_maps_each(heap_scan_find_collect, s);
    heap_scan_find_sort(s->block, s->count);
    if (!s->count) return 0;
    const struct sonde__scan_block *last = &s->block[s->count - 1];
    s->low = sonde__scan_start(s->block);
    s->high = sonde__scan_start(last) + sonde__scan_size(last) + 1;
    return regions_make(s);
}

void sonde__scan_release(struct sonde__scan *s)
{
    sonde__heap_pages_give(s->block, s->room * sizeof(*s->block));
    sonde__heap_pages_give(s->pending, s->room * sizeof(*s->pending));
    sonde__heap_pages_give(s->region, (s->region_mask + 1) * sizeof(*s->region));
    memset(s, 0, sizeof(*s));
}
