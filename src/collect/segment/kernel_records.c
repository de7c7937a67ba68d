/* kernel_records.c - commands of GPUs out of the ring of libsonde_preload; see segment/kernels.h.
 * What a record says is checked before it is used; one that makes no sense counts as lost. */
#include "collect/segment/kernel_records.h"

#include <assert.h>
#include <string.h>

#include "base/utf8.h"
#include "collect/segment/private.h"

#define CHUNK_COUNT_MAX (1u << 24)
#define RECORD_CHUNKS_MAX 32u     /* more than the largest record has */
#define TIME_MAX (1ull << 62)

static const struct sonde__kernels *segment_kernels_at(const struct sonde_segment *s)
{
    return (const struct sonde__kernels *)(const void *)(s->map.base + s->kernels.off);
}

static uint32_t kernels_load32(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }

/* Find it, and check that all its chunks are there. */
static int segment_kernels_find(struct sonde_segment *s, struct sonde_err *err)
{
    struct segment_counts c;
    struct segment_sampler *k = &s->kernels;
    const uint64_t off = __atomic_load_n(&s->live->kernels, __ATOMIC_ACQUIRE);
    if (off == k->off) return off ? 0 : SONDE_ENOENT;
    const int rc = segment_counts_load(s, &c, err);
    if (rc != 0) return rc;
    if (k->off != 0 || !segment_in_blocks(s, &c, off, sizeof(struct sonde__kernels))) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: what it says of GPUs lies outside the "
                             "block area or has moved");
    }
    const struct sonde__kernels *at =
        (const struct sonde__kernels *)(const void *)(s->map.base + off);
    const uint32_t chunks = kernels_load32(&at->chunk_count);
    if (chunks < RECORD_CHUNKS_MAX || chunks > CHUNK_COUNT_MAX || chunks & (chunks - 1) ||
        !segment_in_blocks(s, &c, off, sizeof(*at) + (uint64_t)chunks * sizeof(at->chunk[0]))) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: the ring of what GPUs do does not fit "
                             "in the block area");
    }
    if (segment_chunks_init(&k->ring, at->chunk, chunks, &at->reserve, RECORD_CHUNKS_MAX) != 0) {
        return sonde_err_set(err, SONDE_ENOMEM, "no memory to read what GPUs do");
    }
    k->off = off;
    return 0;
}

int sonde_segment_kernels(struct sonde_segment *s, struct sonde_segment_kernels_info *out,
                          struct sonde_err *err)
{
    const int rc = segment_kernels_find(s, err);
    if (rc == SONDE_ENOENT) return rc;
    if (rc != 0) return segment_verdict(s, rc, err);
    const struct sonde__kernels *at = segment_kernels_at(s);
    const struct sonde_segment_kernels_info i = {
        .session = segment_load(&at->session), .start_ns = segment_load(&at->start_ns),
        .depth_max = kernels_load32(&at->depth_max), .state = kernels_load32(&at->state),
        .devices = kernels_load32(&at->device_count), .queues = kernels_load32(&at->queue_count),
        .switched = segment_load(&at->switched), .enqueued = segment_load(&at->enqueued),
        .recorded = segment_load(&at->recorded), .crowded = segment_load(&at->crowded),
        .full = segment_load(&at->full), .foreign = segment_load(&at->foreign),
        .failed = segment_load(&at->failed), .unnamed = segment_load(&at->unnamed),
        .stackless = segment_load(&at->stackless), .own_ns = segment_load(&at->own_ns),
        .waits = segment_load(&at->waits), .wait_ns = segment_load(&at->wait_ns),
        .off_calls = segment_load(&at->off_calls),
    };
    if (!i.depth_max || i.depth_max > SONDE__KERNEL_DEPTH_MAX ||
        i.state >= SONDE__KERNEL_STATE_COUNT || i.devices > SONDE__KERNEL_DEVICES || !i.queues ||
        i.queues > SONDE__KERNEL_QUEUES) {
        return segment_verdict(s, sonde_err_set(err, SONDE_EFORMAT, "damaged: what it says of GPUs "
                                                "makes no sense"), err);
    }
    *out = i;
    return segment_verdict(s, 0, err);
}

void sonde_segment_kernel_device(struct sonde_segment *s, uint32_t i,
                                 struct sonde__kernel_device *out)
{
    assert(s->kernels.off && i < SONDE__KERNEL_DEVICES);
    *out = segment_kernels_at(s)->device[i];
}

void sonde_segment_kernel_queue(struct sonde_segment *s, uint32_t i,
                                struct sonde__kernel_queue *out)
{
    assert(s->kernels.off && i < SONDE__KERNEL_QUEUES);
    *out = segment_kernels_at(s)->queue[i];
    if (out->device > SONDE__KERNEL_DEVICES) out->device = 0;
}

/* ---- Names and stacks -------------------------------------------------------------------- */

/* What a number leads to, if so many bytes are there. */
static const void *kernels_block(struct sonde_segment *s, uint32_t number, uint64_t bytes)
{
    struct sonde_err err;
    struct segment_counts c;
    const uint64_t off = sonde__kernel_off(number);
    if (segment_counts_load(s, &c, &err) != 0 || !segment_in_blocks(s, &c, off, bytes)) return NULL;
    return s->map.base + off;
}

static int kernels_damaged(const struct sonde_segment *s, const char *what, struct sonde_err *err)
{
    return segment_verdict(s, sonde_err_set(err, SONDE_EFORMAT, "damaged: %s makes no sense", what),
                           err);
}

int sonde_segment_kernel_name(struct sonde_segment *s, uint32_t number,
                              char out[SONDE_SEGMENT_KERNEL_TEXT], struct sonde_err *err)
{
    char text[SONDE__KERNEL_NAME_MAX];
    int changed = 0;
    out[0] = '\0';
    if (!number) return SONDE_ENOENT;
    const struct sonde__kernel_name *n = kernels_block(s, number, sizeof(*n));
    if (!n) return kernels_damaged(s, "the place of a kernel's name", err);
    if (kernels_load32(&n->ready) != 1) return segment_verdict(s, SONDE_EBUSY, err);
    const uint32_t bytes = kernels_load32(&n->bytes), magic = kernels_load32(&n->magic);
    if (magic != SONDE__KERNEL_NAME_MAGIC || !bytes || bytes > SONDE__KERNEL_NAME_MAX ||
        !kernels_block(s, number, sizeof(*n) + bytes)) {
        return kernels_damaged(s, "a kernel's name", err);
    }
    memcpy(text, n->text, bytes);
    const size_t len = sonde__utf8_copy(out, SONDE_SEGMENT_KERNEL_TEXT - 1, text, bytes, &changed);
    out[len] = '\0';
    for (char *p = out; p < out + len; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f) *p = '?';
    }
    return segment_verdict(s, 0, err);
}

int sonde_segment_kernel_stack(struct sonde_segment *s, uint32_t number,
                               struct sonde_segment_kernel_stack *out, struct sonde_err *err)
{
    out->depth = 0;
    if (!number) return SONDE_ENOENT;
    const struct sonde__kernel_stack *k = kernels_block(s, number, sizeof(*k));
    if (!k) return kernels_damaged(s, "the place of a stack", err);
    if (kernels_load32(&k->ready) != 1) return segment_verdict(s, SONDE_EBUSY, err);
    const uint32_t depth = kernels_load32(&k->depth), magic = kernels_load32(&k->magic);
    if (magic != SONDE__KERNEL_STACK_MAGIC || !depth || depth > SONDE__KERNEL_DEPTH_MAX ||
        !kernels_block(s, number, sizeof(*k) + depth * sizeof(k->ip[0]))) {
        return kernels_damaged(s, "a stack", err);
    }
    out->flags = kernels_load32(&k->flags);
    memcpy(out->ip, k->ip, depth * sizeof(k->ip[0]));
    out->depth = depth;
    return segment_verdict(s, 0, err);
}

/* ---- Records ----------------------------------------------------------------------------- */

static uint32_t kernels_record_chunks(uint32_t type, const uint64_t *w)
{
    switch (type) {
    case SONDE__CHUNK_KERNEL: return (w[2] >> 16 & 0xff) < SONDE__KERNEL_OP_COUNT ? 2 : 0;
    case SONDE__CHUNK_WAIT:
        return w[1] >= w[0] && w[1] < TIME_MAX && (w[2] >> 16 & 0xffff) < SONDE__KERNEL_WAIT_COUNT;
    case SONDE__CHUNK_MAP:
        return w[3] && w[3] <= SONDE__MAP_PATH_MAX ? sonde__map_chunks((uint32_t)w[3]) : 0;
    default: return 0;
    }
}

/* Drivers have been seen to say 0, or times out of order: of those only that it happened is
 * known. */
static int kernels_times_ok(const struct sonde_segment_kernel *k)
{
    return k->start_ns && k->queued_ns <= k->submit_ns && k->submit_ns <= k->start_ns &&
           k->start_ns <= k->end_ns && k->end_ns < TIME_MAX;
}

static void kernels_give_kernel(const uint64_t *w, const struct sonde_segment_kernel_sink *sink)
{
    const uint64_t mask = (1u << SONDE__KERNEL_LOCAL_BITS) - 1;
    struct sonde_segment_kernel k = {
        .call_ns = w[0], .took_ns = (uint32_t)w[1], .tid = (uint32_t)(w[1] >> 32),
        .queue = (uint32_t)(w[2] & 0xffff), .op = (uint32_t)(w[2] >> 16 & 0xff),
        .flags = (uint32_t)(w[2] >> 24 & 0xff), .stack = (uint32_t)(w[2] >> 32),
        .status = (int32_t)(uint32_t)w[3], .name = (uint32_t)(w[3] >> 32),
        .queued_ns = w[4], .submit_ns = w[5], .start_ns = w[6], .end_ns = w[7], .bytes = w[8],
        .global = { w[9], w[10], w[11] }, .doubt_ns = w[13],
    };
    for (uint32_t i = 0; i < 3; i++) k.local[i] = w[12] >> (i * SONDE__KERNEL_LOCAL_BITS) & mask;
    if (k.queue >= SONDE__KERNEL_QUEUES) k.queue = 0;
    if (k.call_ns >= TIME_MAX) return;
    if (k.flags & SONDE__KERNEL_UNTIMED || !kernels_times_ok(&k)) {
        k.queued_ns = k.submit_ns = k.start_ns = k.end_ns = k.doubt_ns = 0;
        k.flags |= SONDE__KERNEL_UNTIMED;
    }
    sink->kernel(sink->arg, &k);
}

static void kernels_give_wait(const uint64_t *w, const struct sonde_segment_kernel_sink *sink)
{
    struct sonde_segment_kernel_wait wait = {
        .begin_ns = w[0], .end_ns = w[1], .tid = (uint32_t)(w[2] >> 32),
        .kind = (uint32_t)(w[2] >> 16 & 0xffff), .queue = (uint32_t)(w[2] & 0xffff),
        .stack = (uint32_t)(w[3] >> 32),
    };
    if (wait.queue >= SONDE__KERNEL_QUEUES) wait.queue = 0;
    sink->wait(sink->arg, &wait);
}

static void kernels_give_map(const uint64_t *w, const struct sonde_segment_kernel_sink *sink)
{
    char path[SONDE__MAP_PATH_MAX + 1];
    memcpy(path, w + 4, (size_t)w[3]);
    path[w[3]] = '\0';
    if (strlen(path) != w[3] || w[1] <= w[0]) return;
    const struct sonde_mapping map = { .start = w[0], .end = w[1], .offset = w[2], .path = path,
                                       .executable = 1 };
    sink->map(sink->arg, &map);
}

static void kernels_give(uint32_t type, const uint64_t *w, void *arg)
{
    const struct sonde_segment_kernel_sink *sink = arg;
    if (type == SONDE__CHUNK_KERNEL) kernels_give_kernel(w, sink);
    else if (type == SONDE__CHUNK_WAIT) kernels_give_wait(w, sink);
    else kernels_give_map(w, sink);
}

static const struct segment_records kernels_records = { "GPU commands", kernels_record_chunks,
                                                        kernels_give };

int sonde_segment_kernel_records(struct sonde_segment *s,
                                 const struct sonde_segment_kernel_sink *sink, int last,
                                 uint64_t *lost, struct sonde_err *err)
{
    assert(sink && sink->kernel && sink->wait && sink->map && lost);
    int rc = segment_kernels_find(s, err);
    if (rc == 0) {
        rc = segment_chunks_drain(&s->kernels.ring, &kernels_records, (void *)(uintptr_t)sink,
                                  s->fresh, last, err);
    }
    *lost = segment_chunks_lost(&s->kernels.ring);
    return rc == SONDE_ENOENT ? rc : segment_verdict(s, rc, err);
}
