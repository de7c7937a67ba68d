/* timeq.c - see timeq.h. */
#include "base/timeq.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

#define CAP_FIRST 256u

void sonde_timeq_init(struct sonde_timeq *q, size_t item_size, uint32_t max)
{
    *q = (struct sonde_timeq){ .item_size = item_size, .max = max };
}

void sonde_timeq_release(struct sonde_timeq *q)
{
    sonde__free(q->items);
    sonde__free(q->spare);
    sonde__free(q->heap);
    sonde_timeq_init(q, q->item_size, q->max);
}

static int timeq_grow(struct sonde_timeq *q)
{
    if (q->cap == q->max) return SONDE_EFULL;
    uint32_t cap = q->cap ? q->cap * 2 : CAP_FIRST;
    if (cap > q->max) cap = q->max;
    unsigned char *items = sonde__realloc(q->items, cap * q->item_size);
    if (items) q->items = items;
    uint32_t *spare = sonde__realloc(q->spare, cap * sizeof(*spare));
    if (spare) q->spare = spare;
    struct sonde_timeq_entry *heap = sonde__realloc(q->heap, cap * sizeof(*heap));
    if (heap) q->heap = heap;
    if (!items || !spare || !heap) return SONDE_ENOMEM;
    /* All up to now are in use. */
    for (uint32_t i = 0; i < cap - q->cap; i++) q->spare[i] = cap - 1 - i;
    q->cap = cap;
    return 0;
}

static int timeq_earlier(const struct sonde_timeq_entry *a, const struct sonde_timeq_entry *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->serial < b->serial;
}

int sonde_timeq_put(struct sonde_timeq *q, uint64_t time_ns, const void *item)
{
    if (q->count == q->cap) {
        const int rc = timeq_grow(q);
        if (rc) return rc;
    }
    assert(q->item_size && q->count < q->cap);
    const uint32_t at = q->spare[q->cap - q->count - 1];
    assert(at < q->cap);
    const struct sonde_timeq_entry e = { time_ns, q->serial++, at };
    memcpy(q->items + at * q->item_size, item, q->item_size);
    uint32_t i = q->count++;
    for (; i > 0 && timeq_earlier(&e, &q->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        q->heap[i] = q->heap[(i - 1) / 2];
    }
    q->heap[i] = e;
    return 0;
}

void sonde_timeq_take(struct sonde_timeq *q, void *item)
{
    assert(q->count);
    const uint32_t at = q->heap[0].at;
    const struct sonde_timeq_entry e = q->heap[--q->count];
    uint32_t i = 0;
    for (uint32_t child; (child = 2 * i + 1) < q->count; i = child) {
        if (child + 1 < q->count && timeq_earlier(&q->heap[child + 1], &q->heap[child])) child++;
        if (!timeq_earlier(&q->heap[child], &e)) break;
        q->heap[i] = q->heap[child];
    }
    q->heap[i] = e;
    q->spare[q->cap - q->count - 1] = at;
    memcpy(item, q->items + at * q->item_size, q->item_size);
}

static int timeq_by_time(const void *a, const void *b)
{
    const struct sonde_timeq_entry *x = a, *y = b;
    return timeq_earlier(x, y) ? -1 : timeq_earlier(y, x);
}

/* What is sorted is a heap, too. */
void sonde_timeq_sort(struct sonde_timeq *q)
{
    if (q->count) qsort(q->heap, q->count, sizeof(q->heap[0]), timeq_by_time);
}
