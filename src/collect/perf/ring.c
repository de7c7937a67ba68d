#include "collect/perf/ring.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "collect/perf/record.h"
#include "sonde/sonde.h"

#define SAMPLE_MIN 48u /* a sample's fixed part */

int sonde_perf_ring_map(struct sonde_perf_ring *r, int fd, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert(size >= page && !(size & (size - 1)));
    void *base = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        const int rc = errno == EPERM || errno == EACCES ? SONDE_EACCES
                       : errno == ENOMEM                 ? SONDE_ENOMEM
                                                         : SONDE_EIO;
        close(fd);
        return rc;
    }
    *r = (struct sonde_perf_ring){
        .page = base, .data = (const char *)base + page, .size = size, .fd = fd
    };
    return 0;
}

void sonde_perf_ring_unmap(struct sonde_perf_ring *r)
{
    if (!r->page) return;
    munmap(r->page, (size_t)(r->data - (const char *)r->page) + r->size);
    close(r->fd);
    *r = (struct sonde_perf_ring){ 0 };
}

/* ---- One ring -------------------------------------------------------------------------------- */

/* count bytes from the position at, which may lie behind the end and go on at the start. */
static void copy_out(const struct sonde_perf_ring *r, uint64_t at, void *out, size_t count)
{
    const uint64_t from = at & (r->size - 1);
    const size_t first = r->size - from < count ? (size_t)(r->size - from) : count;
    memcpy(out, r->data + from, first);
    memcpy((char *)out + first, r->data, count - first);
}

/* A record's place always leaves room for its header: all sizes are multiples of 8. */
static const struct perf_event_header *header_at(const struct sonde_perf_ring *r, uint64_t at)
{
    return (const struct perf_event_header *)(const void *)(r->data + (at & (r->size - 1)));
}

static void perf_ring_peek(struct sonde_perf_ring *r)
{
    r->next_ns = UINT64_MAX;
    if (r->damaged || r->head == r->tail) return;
    const struct perf_event_header h = *header_at(r, r->tail);
    const uint64_t there = r->head - r->tail;
    if (there > r->size || h.size > there || h.size < SONDE_PERF_RECORD_MIN || h.size % 8 ||
        (h.type == PERF_RECORD_SAMPLE && h.size < SAMPLE_MIN)) {
        r->damaged = 1;
        return;
    }
    const uint64_t time_at = h.type == PERF_RECORD_SAMPLE ? 32 : h.size - 16u;
    copy_out(r, r->tail + time_at, &r->next_ns, sizeof(r->next_ns));
}

/* Give the room up to tail back. Release: reads of the records come before it. */
static void give_back(struct sonde_perf_ring *r)
{
    __atomic_store_n(&r->page->data_tail, r->tail, __ATOMIC_RELEASE);
}

/* ---- All of them ----------------------------------------------------------------------------- */

int sonde_perf_rings_init(struct sonde_perf_rings *s, struct sonde_perf_ring *rings,
                          uint32_t count)
{
    assert(rings && count > 0);
    *s = (struct sonde_perf_rings){ .rings = rings, .count = count };
    s->bounce = sonde__alloc(SONDE_PERF_RECORD_MAX);
    return s->bounce ? 0 : SONDE_ENOMEM;
}

void sonde_perf_rings_release(struct sonde_perf_rings *s) { sonde__free(s->bounce); }

void sonde_perf_rings_begin(struct sonde_perf_rings *s, uint64_t limit_ns)
{
    s->limit_ns = limit_ns;
    s->given = NULL;
    for (uint32_t i = 0; i < s->count; i++) {
        struct sonde_perf_ring *r = &s->rings[i];
        r->head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
        perf_ring_peek(r);
    }
}

const struct perf_event_header *sonde_perf_rings_next(struct sonde_perf_rings *s, uint32_t *ring)
{
    assert(s->bounce && ring);
    if (s->given) {
        struct sonde_perf_ring *r = s->given;
        r->tail += header_at(r, r->tail)->size;
        give_back(r);
        perf_ring_peek(r);
        s->given = NULL;
    }
    struct sonde_perf_ring *oldest = NULL;
    uint64_t oldest_ns = s->limit_ns;
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->rings[i].next_ns < oldest_ns) {
            oldest = &s->rings[i];
            oldest_ns = oldest->next_ns;
        }
    }
    if (!oldest) return NULL;
    s->given = oldest;
    *ring = (uint32_t)(oldest - s->rings);
    const struct perf_event_header *h = header_at(oldest, oldest->tail);
    if ((oldest->tail & (oldest->size - 1)) + h->size <= oldest->size) return h;
    copy_out(oldest, oldest->tail, s->bounce, h->size);
    return (const struct perf_event_header *)(const void *)s->bounce;
}

uint32_t sonde_perf_rings_damaged(const struct sonde_perf_rings *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->count; i++) n += s->rings[i].damaged != 0;
    return n;
}
