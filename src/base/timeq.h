/* timeq.h - things that come out of order, in order of time: what was put in first comes first of
 * those with the same time. Items are copied in and out; they lie still meanwhile, only their
 * numbers are sorted (a binary heap). */
#ifndef SONDE_BASE_TIMEQ_H
#define SONDE_BASE_TIMEQ_H

#include <stddef.h>
#include <stdint.h>

struct sonde_timeq_entry { uint64_t time_ns, serial; uint32_t at; };

struct sonde_timeq {
    size_t item_size;
    uint32_t max;                    /* items; see put */
    uint32_t count, cap;
    uint64_t serial;
    unsigned char *items;
    uint32_t *spare;                 /* cap - count of them are free */
    struct sonde_timeq_entry *heap;  /* earliest first */
};

void sonde_timeq_init(struct sonde_timeq *q, size_t item_size, uint32_t max);
void sonde_timeq_release(struct sonde_timeq *q); /* what is in it is the caller's to empty */

/* SONDE_EFULL: max are in it. SONDE_ENOMEM. In both cases taking one makes room, if there is
 * one. */
int sonde_timeq_put(struct sonde_timeq *q, uint64_t time_ns, const void *item);

/* Time of the earliest; there must be one. */
static inline uint64_t sonde_timeq_first(const struct sonde_timeq *q) { return q->heap[0].time_ns; }
/* Take it out; there must be one. */
void sonde_timeq_take(struct sonde_timeq *q, void *item);

/* Looking at all of them, in order: sort, then ask for 0 … count - 1. */
void sonde_timeq_sort(struct sonde_timeq *q);
static inline const void *sonde_timeq_item(const struct sonde_timeq *q, uint32_t i)
{
    return q->items + q->heap[i].at * q->item_size;
}

#endif
