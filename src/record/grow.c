/* grow.c - memory of the segment. Pages are populated before anyone touches them: on a full
 * tmpfs a hole maps fine and kills the writer with SIGBUS. Until then they cannot be accessed
 * either: mlockall, which populates all that can be, would otherwise fill more than a gigabyte of
 * tmpfs.
 *
 * MADV_POPULATE_WRITE does that through the mapping alone. Keeping a descriptor open for
 * fallocate was rejected: programs close all descriptors they do not know, the number comes back
 * as a file of theirs, and we would allocate in that. Kernels before 5.14 lack the advice; there
 * the file is opened again by its path and closed at once.
 *
 * Everything here is syscalls and atomics: it may run in a signal handler. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/call.h"
#include "record/state.h"
#include "segment/never.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HEAP_CHUNK_MIN (64u << 10)
#define HEAP_CHUNK_MAX (1u << 20)
#define REST_NS 100000000ull

void sonde__drop(int reason)
{
    if (SONDE_NEVER(reason < 0 || reason >= SONDE__DROP_COUNT)) return;
    __atomic_fetch_add(&sonde__g.h->drops[reason], 1, __ATOMIC_RELAXED);
}

/* Not open() and fallocate(): those are cancellation points, and a thread
 * cancelled here would keep the define lock. */
static int populate_by_path(uint64_t off, uint64_t len)
{
    const long fd = sonde__call(SYS_openat, AT_FDCWD, SONDE__WORD(sonde__g.path),
                                O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0, 0);
    if (fd < 0) return SONDE_ENOSPC;
    const int rc = sonde__call(SYS_fallocate, fd, 0, (long)off, (long)len, 0) ? SONDE_ENOSPC : 0;
    sonde__call(SYS_close, fd, 0, 0, 0, 0);
    return rc;
}

int sonde__populate(uint64_t off, uint64_t len)
{
    if (SONDE_NEVER(!len || off + len > sonde__g.h->file_bytes)) return SONDE_ENOSPC;
    struct sonde__header *h = sonde__g.h;
    const uint64_t first = off & ~(uint64_t)(SONDE__PAGE - 1);
    const uint64_t end = (off + len + SONDE__PAGE - 1) & ~(uint64_t)(SONDE__PAGE - 1);
    const uint64_t bytes = end - first;

    if (sonde__silent()) return SONDE_ENOSPC;
    if (__atomic_add_fetch(&h->populated_bytes, bytes, __ATOMIC_RELAXED) > h->bytes_max) {
        __atomic_sub_fetch(&h->populated_bytes, bytes, __ATOMIC_RELAXED);
        return SONDE_ENOSPC;
    }
    const int saved = errno;
    int rc = 0;
    int tries = 0;
    if (mprotect(sonde__g.base + first, bytes, PROT_READ | PROT_WRITE)) rc = SONDE_ENOSPC;
    while (!rc && madvise(sonde__g.base + first, bytes, MADV_POPULATE_WRITE)) {
        if ((errno == EINTR || errno == EAGAIN) && tries++ < 100) continue;
        rc = errno == EINVAL ? populate_by_path(first, bytes) : SONDE_ENOSPC;
        break;
    }
    errno = saved;
    if (rc) __atomic_sub_fetch(&h->populated_bytes, bytes, __ATOMIC_RELAXED);
    return rc;
}

void sonde__populate_undo(uint64_t bytes)
{
    SONDE_MUST(__atomic_load_n(&sonde__g.h->populated_bytes, __ATOMIC_RELAXED) >= bytes);
    __atomic_sub_fetch(&sonde__g.h->populated_bytes, bytes, __ATOMIC_RELAXED);
}

/* Several threads may populate the same chunk at once: whoever is not the one to add it takes it
 * off the account again. */
static int block_ready(struct sonde__header *h, uint64_t need)
{
    SONDE_MUST(need <= h->block_max);
    uint64_t ready = __atomic_load_n(&h->block_ready, __ATOMIC_ACQUIRE);
    while (ready < need) {
        uint64_t chunk = ready / 4;
        if (chunk < HEAP_CHUNK_MIN) chunk = HEAP_CHUNK_MIN;
        if (chunk > HEAP_CHUNK_MAX) chunk = HEAP_CHUNK_MAX;
        if (chunk < need - ready) chunk = need - ready;
        chunk = (chunk + SONDE__PAGE - 1) & ~(uint64_t)(SONDE__PAGE - 1);
        if (ready + chunk > h->block_max) chunk = h->block_max - ready;
        if (sonde__populate(h->block_off + ready, chunk)) {
            /* No room for a comfortable chunk: the bare need may still fit. */
            chunk = (need - ready + SONDE__PAGE - 1) & ~(uint64_t)(SONDE__PAGE - 1);
            if (sonde__populate(h->block_off + ready, chunk)) return SONDE_ENOSPC;
        }
        if (!__atomic_compare_exchange_n(&h->block_ready, &ready, ready + chunk, 0,
                                         __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
            sonde__populate_undo(chunk);
        }
        ready = __atomic_load_n(&h->block_ready, __ATOMIC_ACQUIRE);
    }
    return 0;
}

/* ---- When there is no room ------------------------------------------------------------------ */

/* On a full file system every try populates what is left of it, page by page, before it fails: a
 * third of a millisecond for a span ring, and who lacks one asks with every span. So what did not
 * fit is not tried again for a tenth of a second. */
static uint64_t rest_ticks(void)
{
    const uint64_t per_tick = __atomic_load_n(&sonde__g.tick_ns_q32, __ATOMIC_RELAXED);
    return (REST_NS << 32) / (per_tick ? per_tick : 1);
}

int sonde__resting(const uint64_t *until)
{
    /* Also over if the clock has gone back. */
    return __atomic_load_n(until, __ATOMIC_RELAXED) - sonde_ticks() <= rest_ticks();
}

void sonde__rest(uint64_t *until)
{
    __atomic_store_n(until, sonde_ticks() + rest_ticks(), __ATOMIC_RELAXED);
}

/* A block that is smaller than what did not fit still may. */
static int did_not_fit(uint64_t size)
{
    return size >= __atomic_load_n(&sonde__g.block_full_bytes, __ATOMIC_RELAXED) &&
           sonde__resting(&sonde__g.block_full_until);
}

static uint64_t does_not_fit(uint64_t size)
{
    if (size < __atomic_load_n(&sonde__g.block_full_bytes, __ATOMIC_RELAXED) ||
        !sonde__resting(&sonde__g.block_full_until)) {
        __atomic_store_n(&sonde__g.block_full_bytes, size, __ATOMIC_RELAXED);
        sonde__rest(&sonde__g.block_full_until);
    }
    sonde__drop(SONDE__DROP_memory);
    return 0;
}

uint64_t sonde__block_take(uint64_t size)
{
    if (SONDE_NEVER(!size)) return 0;
    struct sonde__header *h = sonde__g.h;
    size = (size + 63) & ~63ull;
    if (did_not_fit(size)) return does_not_fit(size);
    uint64_t used = __atomic_load_n(&h->block_used, __ATOMIC_RELAXED);
    do {
        if (used + size > h->block_max || block_ready(h, used + size)) return does_not_fit(size);
    } while (!__atomic_compare_exchange_n(&h->block_used, &used, used + size, 1, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
    return h->block_off + used;
}

/* Claimed first, so that it is nobody else's; who looks for room in between populates some of it,
 * which does no harm. */
uint64_t sonde__block_take_bare(uint64_t size, uint64_t *ready_bytes)
{
    if (SONDE_NEVER(!size || !ready_bytes)) return 0;
    struct sonde__header *h = sonde__g.h;
    const uint64_t mask = SONDE__PAGE - 1;
    size = (size + mask) & ~mask;
    uint64_t start, used = __atomic_load_n(&h->block_used, __ATOMIC_RELAXED);
    do {
        start = (used + mask) & ~mask;
        if (start + size > h->block_max) {
            sonde__drop(SONDE__DROP_memory);
            return 0;
        }
    } while (!__atomic_compare_exchange_n(&h->block_used, &used, start + size, 1, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
    uint64_t ready = __atomic_load_n(&h->block_ready, __ATOMIC_ACQUIRE);
    const uint64_t first = ready;
    while (ready < start + size &&
           !__atomic_compare_exchange_n(&h->block_ready, &ready, start + size, 0, __ATOMIC_RELEASE,
                                        __ATOMIC_ACQUIRE)) {
    }
    *ready_bytes = first <= start ? 0 : first - start < size ? first - start : size;
    return h->block_off + start;
}
