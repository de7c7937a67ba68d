/* kernel_build.h - commands of GPUs in a segment that a test builds. */
#ifndef SONDE_TEST_COLLECT_SEGMENT_KERNEL_BUILD_H
#define SONDE_TEST_COLLECT_SEGMENT_KERNEL_BUILD_H

#include "segment/kernels.h"
#include "unit/collect/segment/segment_build.h"

static inline struct sonde__kernels *build_kernels(struct build *b, uint32_t chunks)
{
    const uint64_t at = build_heap(b, sizeof(struct sonde__kernels) +
                                          chunks * sizeof(struct sonde__chunk));
    struct sonde__kernels *k = (struct sonde__kernels *)(void *)(b->base + at);
    b->h->kernels = at;
    k->session = 7;
    k->chunk_count = chunks;
    k->depth_max = 64;
    k->queue_count = 1;
    return k;
}

static inline uint32_t build_kernel_name(struct build *b, const char *text)
{
    const size_t len = strlen(text);
    const uint64_t at = build_heap(b, sizeof(struct sonde__kernel_name) + len);
    struct sonde__kernel_name *n = (struct sonde__kernel_name *)(void *)(b->base + at);
    *n = (struct sonde__kernel_name){ SONDE__KERNEL_NAME_MAGIC, 1, (uint32_t)len, 0 };
    memcpy(n->text, text, len);
    return (uint32_t)(at >> 6);
}

static inline uint32_t build_kernel_stack(struct build *b, uint32_t depth, uint64_t first)
{
    const uint64_t at = build_heap(b, sizeof(struct sonde__kernel_stack) + depth * 8);
    struct sonde__kernel_stack *s = (struct sonde__kernel_stack *)(void *)(b->base + at);
    *s = (struct sonde__kernel_stack){ SONDE__KERNEL_STACK_MAGIC, 1, depth, 0, 0 };
    for (uint32_t i = 0; i < depth; i++) s->ip[i] = first + i;
    return (uint32_t)(at >> 6);
}

static inline uint32_t build_kernel_queue(struct sonde__kernels *k, uint32_t device_name)
{
    k->device[k->device_count++] =
        (struct sonde__kernel_device){ device_name, SONDE__KERNEL_OPENCL };
    k->queue[k->queue_count] = (struct sonde__kernel_queue){ .device = k->device_count,
                                                             .context = 1 };
    return k->queue_count++;
}

/* Queued at queued_ns, started 100 ns later. Returns its words, the first chunk's. */
static inline uint64_t *build_kernel(struct sonde__kernels *k, enum sonde__kernel_op op,
                                     uint32_t queue, uint32_t name, uint32_t stack,
                                     uint64_t queued_ns, uint64_t ns, uint64_t bytes)
{
    struct sonde__chunk *c = &k->chunk[k->reserve % k->chunk_count];
    struct sonde__chunk *more = &k->chunk[(k->reserve + 1) % k->chunk_count];
    *c = (struct sonde__chunk){ (k->reserve + 1) << 8 | SONDE__CHUNK_KERNEL,
                                { queued_ns, 4243ull << 32 | 50,
                                  (uint64_t)stack << 32 | (uint64_t)op << 16 | queue,
                                  (uint64_t)name << 32, queued_ns, queued_ns + 50,
                                  queued_ns + 100 } };
    *more = (struct sonde__chunk){ (k->reserve + 2) << 8 | SONDE__CHUNK_MORE,
                                   { queued_ns + 100 + ns, bytes, 1024, 2, 1,
                                     64 | 2ull << 21 | 1ull << 42, 5 } };
    k->reserve += 2;
    k->enqueued++;
    k->recorded++;
    return c->word;
}

static inline uint64_t *build_kernel_wait(struct sonde__kernels *k, enum sonde__kernel_wait kind,
                                          uint32_t queue, uint64_t begin_ns, uint64_t ns)
{
    struct sonde__chunk *c = &k->chunk[k->reserve % k->chunk_count];
    *c = (struct sonde__chunk){ (k->reserve + 1) << 8 | SONDE__CHUNK_WAIT,
                                { begin_ns, begin_ns + ns,
                                  4243ull << 32 | (uint64_t)kind << 16 | queue } };
    k->reserve++;
    k->waits++;
    k->wait_ns += ns;
    return c->word;
}

#endif
