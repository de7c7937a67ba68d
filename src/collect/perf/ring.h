/* ring.h - the memory that the kernel writes a CPU's records to, and many of them read as one
 * stream in the order of time.
 *
 * A thread that moves between CPUs leaves records in several rings: a mapping in one, samples in
 * code of that mapping in the next. So records are taken from whichever ring has the oldest one,
 * and none younger than a limit that lies a little in the past: what is older than that has been
 * written by then, on every CPU. */
#ifndef SONDE_COLLECT_PERF_RING_H
#define SONDE_COLLECT_PERF_RING_H

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

struct sonde_perf_ring {
    struct perf_event_mmap_page *page; /* NULL = not mapped */
    const char *data;
    uint64_t size;             /* bytes of data; a power of two */
    uint64_t head, tail;       /* as far as it is known to be written, and read */
    uint64_t next_ns;          /* of the record at tail; UINT64_MAX = none that may be read */
    int fd;                    /* of the event that holds it; owned */
    int damaged;               /* a record in it made no sense: it is not read any more */
};

/* Map size bytes (a power of two of whole pages) for fd, which it owns from now on also when it
 * fails. SONDE_EACCES: more than may be locked in memory. SONDE_ENOMEM, SONDE_EIO. */
int sonde_perf_ring_map(struct sonde_perf_ring *r, int fd, size_t size);
void sonde_perf_ring_unmap(struct sonde_perf_ring *r); /* one that is all zero is fine */

struct sonde_perf_rings {
    struct sonde_perf_ring *rings; /* borrowed */
    uint32_t count;
    uint64_t limit_ns;
    struct sonde_perf_ring *given; /* whose record the caller looks at */
    uint64_t *bounce;              /* for a record that wraps; SONDE_PERF_RECORD_MAX bytes */
};

int sonde_perf_rings_init(struct sonde_perf_rings *s, struct sonde_perf_ring *rings,
                          uint32_t count);
void sonde_perf_rings_release(struct sonde_perf_rings *s);

/* Start a round over what is there now, up to limit_ns. */
void sonde_perf_rings_begin(struct sonde_perf_rings *s, uint64_t limit_ns);

/* The oldest record, or NULL at the end of the round. It stays valid until the next call, which
 * gives its room back to the kernel. *ring: where it is from. */
const struct perf_event_header *sonde_perf_rings_next(struct sonde_perf_rings *s, uint32_t *ring);

/* Rings that had to be given up. */
uint32_t sonde_perf_rings_damaged(const struct sonde_perf_rings *s);

#endif
