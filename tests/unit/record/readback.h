/* readback.h - what this process has recorded, read through the segment's format. A second way
 * to the figures beside the agent's reader. */
#ifndef SONDE_TESTS_READBACK_H
#define SONDE_TESTS_READBACK_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/state.h"

/* A private directory for segments, so that a test never meets other processes' files. */
static inline void readback_private_dir(void)
{
    static char dir[64];
    strcpy(dir, "/dev/shm/sonde-test-XXXXXX");
    if (!mkdtemp(dir) || setenv("SONDE_DIR", dir, 1)) abort();
}

static inline void readback_remove_dir(void)
{
    char command[128] = "rm -rf ";
    strcat(command, getenv("SONDE_DIR"));
    if (system(command)) abort();
}

static inline uint64_t readback_counter(struct sonde_counter c)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < sonde__g.h->lane_count; i++) {
        total += __atomic_load_n((uint64_t *)(void *)(sonde__lane_cells(i) + c.off),
                                 __ATOMIC_RELAXED);
    }
    return total;
}

static inline double readback_gauge(struct sonde_gauge g)
{
    double v;
    memcpy(&v, sonde__lane_cells(0) + g.off, sizeof(v));
    return v;
}

struct readback_hist { uint64_t count, zero, sum; uint64_t bucket[SONDE__HIST_BUCKETS]; };

static inline void readback_hist(struct sonde_hist h, struct readback_hist *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < sonde__g.h->lane_count; i++) {
        uint64_t at;
        memcpy(&at, sonde__lane_cells(i) + h.off - 8, sizeof(at));
        if (!at) continue;
        const struct sonde__hist *b =
            (const struct sonde__hist *)(void *)sonde__at(at + SONDE__HIST_NONE);
        out->zero += b->zero;
        out->sum += b->sum;
        out->count += b->zero;
        for (uint32_t p = 0; p < SONDE__HIST_BUCKETS; p++) {
            if (!b->octave[p >> 6]) continue;
            const uint64_t *cells =
                (const uint64_t *)(void *)sonde__at((uint64_t)b->octave[p >> 6] * 64);
            out->bucket[p] += cells[p & 63];
            out->count += cells[p & 63];
        }
    }
}

/* Newest finished span record of this thread's lane; NULL if none. */
static inline const struct sonde__span_rec *readback_span(uint64_t back)
{
    const struct sonde__ring *r = sonde__tls.ring;
    if (!r || r->reserve <= back) return NULL;
    return &r->rec[(r->reserve - 1 - back) % SONDE__RING_RECS];
}

/* The finished record of a span, in whichever lane it is; NULL if none. */
static inline const struct sonde__span_rec *readback_span_id(uint64_t id)
{
    const uint32_t lanes = __atomic_load_n(&sonde__g.h->lane_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < lanes; i++) {
        const struct sonde__lane *l = sonde__lane_of(sonde__lane_cells(i));
        const uint64_t at = __atomic_load_n(&l->ring, __ATOMIC_ACQUIRE);
        if (!at) continue;
        const struct sonde__ring *r = (const struct sonde__ring *)(void *)sonde__at(at);
        for (uint32_t j = 0; j < SONDE__RING_RECS; j++) {
            const uint64_t type = __atomic_load_n(&r->rec[j].seq_type, __ATOMIC_ACQUIRE) & 0xff;
            if (type == SONDE__REC_SPAN && __atomic_load_n(&r->rec[j].id, __ATOMIC_RELAXED) == id) {
                return &r->rec[j];
            }
        }
    }
    return NULL;
}

#endif
