/* scan.c - from roots through blocks to blocks, and what was never reached: see scan.h. */
#include "preload/heap/scan.h"

#include <errno.h>

#include "preload/heap/heap.h"
#include "preload/preload.h"
#include "record/state.h"

#define TIME_NS 5000000000u
#define DONE 1u
#define GIVEN_UP 2u

struct job {
    struct sonde__scan s;
    struct sonde__scan_reader *r;
    uint64_t sp;                /* of this thread: what is below is nobody's */
    int late;
};

static void heap_scan_words(void *arg, const uint64_t *word, uint64_t count)
{
    struct job *j = arg;
    for (uint64_t i = 0; i < count; i++) sonde__scan_word(&j->s, word[i]);
}

static int in_time(struct job *j)
{
    if (!j->late) j->late = sonde__mono_ns() > j->s.until_ns;
    return !j->late;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* All that is marked is looked into, and what that marks. */
static void heap_scan_follow(struct job *j)
{
    struct sonde__scan *s = &j->s;
    struct iovec pieces[SONDE__SCAN_PIECES];
    while (s->pending_count && in_time(j)) {
        uint32_t n = 0;
        uint64_t bytes = 0;
        while (s->pending_count && n < SONDE__SCAN_PIECES) {
            const struct sonde__scan_block *b = &s->block[s->pending[s->pending_count - 1]];
            const uint64_t start = (sonde__scan_start(b) + 7) & ~7ull;
            const uint64_t end = (sonde__scan_start(b) + sonde__scan_size(b)) & ~7ull;
            if (end > start && bytes + (end - start) > SONDE__SCAN_BUFFER) break;
            s->pending_count--;
            if (end <= start) continue;
            pieces[n++] = (struct iovec){ (void *)(uintptr_t)start, end - start };
            bytes += end - start;
        }
        if (n) {
            sonde__scan_read_pieces(j->r, pieces, n, heap_scan_words, j);
        } else if (s->pending_count) { /* a large one */
            const struct sonde__scan_block *b = &s->block[s->pending[--s->pending_count]];
            sonde__scan_read(j->r, sonde__scan_start(b), sonde__scan_start(b) + sonde__scan_size(b),
                             heap_scan_words, j);
        }
    }
}

/* ---- Roots ----------------------------------------------------------------------------------- */

/* Between them, by parts, so that the time is looked at. */
static void heap_scan_root(struct job *j, uint64_t start, uint64_t end)
{
    const uint64_t part = 64ull << 20;
    while (start < end && in_time(j)) {
        const uint64_t stop = end - start < part ? end : start + part;
        sonde__scan_read(j->r, start, stop, heap_scan_words, j);
        heap_scan_follow(j);
        start = stop;
    }
}

/* Without blocks: in full mode also without what lies between them, which is the allocator's. */
static void root_without_blocks(struct job *j, uint64_t start, uint64_t end)
{
    const struct sonde__scan *s = &j->s;
    const uint32_t first = sonde__scan_behind(s, start);
    uint64_t at = start;
    for (uint32_t i = first; i < s->count && sonde__scan_start(&s->block[i]) < end; i++) {
        const struct sonde__scan_block *b = &s->block[i];
        if (sonde__heap_gate.mode == SONDE__HEAP_SAMPLED || i == first) {
            heap_scan_root(j, at, sonde__scan_start(b));
        }
        at = sonde__scan_start(b) + sonde__scan_size(b);
    }
    if (at < end) heap_scan_root(j, at, end);
}

/* Without our own pages, beginning with the ith. They may lie in the middle of a mapping. */
static void root_without_own(struct job *j, uint64_t start, uint64_t end, uint32_t i)
{
    uint64_t own, bytes;
    for (; (own = sonde__heap_own(i, &bytes)) != 0; i++) {
        if (own >= end || own + bytes <= start) continue;
        if (own > start) root_without_own(j, start, own, i + 1);
        start = own + bytes;
        if (start >= end) return;
    }
    root_without_blocks(j, start, end);
}

static void heap_scan_roots(struct job *j)
{
    struct sonde__scan_map m;
    const uint64_t segment = (uint64_t)(uintptr_t)sonde__g.base;
    while (sonde__scan_map(j->r, &m) && in_time(j)) {
        if (m.device || (m.start >= segment && m.start < segment + sonde__g.h->file_bytes)) {
            continue;
        }
        if (j->sp >= m.start && j->sp < m.end) m.start = j->sp;
        root_without_own(j, m.start, m.end, 0);
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void heap_scan_count_lost(const struct sonde__scan *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const struct sonde__scan_block *b = &s->block[i];
        struct sonde__heap_row *row = sonde__heap_row(0, (uint32_t)(b->start_site & 0x1ffff));
        if (b->size_marked & 1 || !row) continue;
        struct sonde__heap_weight w = { 1, sonde__scan_size(b), 0, 0 };
        if (sonde__heap_gate.mode == SONDE__HEAP_SAMPLED) {
            w = sonde__heap_weigh(sonde__scan_size(b), sonde__heap_state.mean);
        }
        __atomic_fetch_add(&row->lost, w.count, __ATOMIC_RELAXED);
        __atomic_fetch_add(&row->lost_bytes, w.bytes, __ATOMIC_RELAXED);
    }
}

__attribute__((noinline)) static void heap_scan_all(struct job *j)
{
    struct sonde__heap *m = sonde__heap_state.area;
    j->s.until_ns = sonde__mono_ns() + TIME_NS;
    j->r = sonde__scan_reader_open();
    j->late = !j->r || sonde__scan_collect(&j->s);
    if (!j->late) heap_scan_roots(j);
    if (!j->late) heap_scan_count_lost(&j->s);
    __atomic_store_n(&m->scanned, j->late ? GIVEN_UP : DONE, __ATOMIC_RELEASE);
    sonde__scan_release(&j->s);
    sonde__scan_reader_close(j->r);
}

void sonde__heap_scan(void)
{
    struct job *j = sonde__heap_pages(sizeof(*j)); /* not on the stack, which is scanned */
    const int saved = errno;
    if (!j) return;
    sonde__arch_spill();
    j->sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    heap_scan_all(j);
    sonde__heap_pages_give(j, sizeof(*j));
    errno = saved;
}
