/* peak_hot.c - when most was in use, and where.
 *
 * Threads add to the total by the portion, so that they do not share a line with each allocation:
 * 64 KiB at most, less while there is less in use. Whoever finds it a hundredth above the last
 * peak copies what every site has in use to the other one of two tables. That takes a hundredth of
 * the time at most: copies are paid from a credit that grows with time up to a limit, so that
 * memory which comes all at once, as when a model is loaded, is seen at its highest. (A rest after
 * each copy, a hundred times as long as it took, missed whole programs: one that is not on a CPU
 * for 20 ms in the middle of a copy rested for two seconds.) */
#include <string.h>

#include "preload/heap/heap.h"
#include "record/state.h"

#include "base/hot_banned.h"

#define LIMIT_MIN 512
#define LIMIT_MAX (64 << 10)
#define SHARE 100              /* of the time one part in so many, for copies */
#define CREDIT_MAX INT64_C(0x100000000) /* ticks that can be saved up: a second and a half or
                                         * four */
#define ROW_TICKS 512          /* a row takes less; if it took longer, the thread was not running */

static int64_t credit_ticks; /* this and the next with the lock */
static uint64_t paid_ticks;  /* when credit was last given */

static uint64_t *directory_of(uint64_t *at)
{
    if (!*at) {
        const uint64_t made = sonde__block_take(SONDE__HEAP_ROW_CHUNKS * sizeof(uint64_t));
        __atomic_store_n(at, made, __ATOMIC_RELEASE);
        if (!made) return NULL;
    }
    return (uint64_t *)(void *)sonde__at(*at);
}

static struct sonde__heap_peak *chunk_of(uint64_t *at)
{
    if (!*at) {
        const uint64_t made = sonde__block_take(SONDE__HEAP_ROWS * sizeof(struct sonde__heap_peak));
        __atomic_store_n(at, made, __ATOMIC_RELEASE);
        if (!made) return NULL;
    }
    return (struct sonde__heap_peak *)(void *)sonde__at(*at);
}

static uint64_t heap_peak_load(const uint64_t *cell)
{
    return __atomic_load_n(cell, __ATOMIC_RELAXED);
}

static void add_rows(struct sonde__heap_peak *to, const struct sonde__heap_row *rows)
{
    for (uint32_t i = 0; i < SONDE__HEAP_ROWS; i++) {
        const struct sonde__heap_row *r = &rows[i];
        to[i].count += heap_peak_load(&r->allocs) - heap_peak_load(&r->frees);
        to[i].bytes += heap_peak_load(&r->alloc_bytes) - heap_peak_load(&r->free_bytes);
        to[i].bytes_var += heap_peak_load(&r->alloc_bytes_var) - heap_peak_load(&r->free_bytes_var);
        to[i].count_var += heap_peak_load(&r->alloc_count_var) - heap_peak_load(&r->free_count_var);
    }
}

/* All lanes' rows of one chunk of sites. */
static void copy_chunk(struct sonde__heap *m, uint32_t chunk, struct sonde__heap_peak *to)
{
    const uint32_t lanes = __atomic_load_n(&m->lane_count, __ATOMIC_ACQUIRE);
    memset(to, 0, SONDE__HEAP_ROWS * sizeof(*to));
    for (uint32_t lane = 0; lane < lanes; lane++) {
        const uint64_t directory = __atomic_load_n(&m->lane[lane].rows, __ATOMIC_ACQUIRE);
        if (!directory) continue;
        const uint64_t *chunks = (const uint64_t *)(void *)sonde__at(directory);
        const uint64_t rows = __atomic_load_n(&chunks[chunk], __ATOMIC_ACQUIRE);
        if (rows) add_rows(to, (const struct sonde__heap_row *)(void *)sonde__at(rows));
    }
}

static void heap_peak_copy(struct sonde__heap *m, uint64_t live)
{
    SONDE_MUST(SONDE__HEAP_HOLDS(SONDE__HEAP_RANK_PEAK));
    const uint64_t seq = m->peak_seq + 1;
    const uint32_t sites = __atomic_load_n(&m->site_count, __ATOMIC_ACQUIRE);
    uint64_t *directory = directory_of(&m->peak[seq & 1]);
    if (!directory) return;
    for (uint32_t chunk = 0; chunk * SONDE__HEAP_ROWS < sites; chunk++) {
        struct sonde__heap_peak *to = chunk_of(&directory[chunk]);
        if (to) copy_chunk(m, chunk, to);
    }
    __atomic_store_n(&m->peak_bytes, live, __ATOMIC_RELAXED);
    __atomic_store_n(&m->peak_ticks, sonde_ticks(), __ATOMIC_RELAXED);
    __atomic_store_n(&m->peak_seq, seq, __ATOMIC_RELEASE);
}

static void heap_peak_keep(struct sonde__heap *m, uint64_t live)
{
    if (sonde__heap_trylock(&sonde__heap_gate.peak_lock, SONDE__HEAP_RANK_PEAK)) return;
    const uint64_t start = sonde_ticks();
    const uint64_t since = start - paid_ticks;
    if (start > paid_ticks) {
        credit_ticks += since < CREDIT_MAX ? (int64_t)since : CREDIT_MAX;
        if (credit_ticks > CREDIT_MAX) credit_ticks = CREDIT_MAX;
        paid_ticks = start;
    }
    if (credit_ticks > 0) {
        heap_peak_copy(m, live);
        const uint64_t took = sonde_ticks() - start;
        const uint64_t rows = (1ull + __atomic_load_n(&m->lane_count, __ATOMIC_RELAXED)) *
                              __atomic_load_n(&m->site_count, __ATOMIC_RELAXED);
        const uint64_t most = rows * ROW_TICKS;
        credit_ticks -= (int64_t)(took < most ? took : most) * SHARE;
    }
    sonde__heap_unlock(&sonde__heap_gate.peak_lock, SONDE__HEAP_RANK_PEAK);
}

void sonde__heap_flush(struct sonde__heap_thread *t)
{
    SONDE_MUST(sonde__heap_tls.busy);
    struct sonde__heap *m = sonde__heap_state.area;
    const int64_t live = (int64_t)__atomic_add_fetch(&m->live_bytes, (uint64_t)t->live_delta,
                                                     __ATOMIC_RELAXED);
    const int64_t limit = live / 256;
    t->live_delta = 0;
    t->live_limit = limit < LIMIT_MIN ? LIMIT_MIN : limit > LIMIT_MAX ? LIMIT_MAX : limit;
    const int64_t last = (int64_t)heap_peak_load(&m->peak_bytes);
    if (live > last + last / 100) heap_peak_keep(m, (uint64_t)live);
}
