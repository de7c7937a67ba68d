/* fuzz_segment_gpu.c - damaged records of GPU commands in segments: what the reader gives has an
 * order, an end and whole texts, and so have the series that come of it. */
#include "base/utf8.h"
#include "collect/segment/kernel_records.h"
#include "fuzz/fuzz_segment.h"
#include "unit/collect/segment/kernel_build.h"

static void fuzz_build(struct build *b)
{
    struct sonde__kernels *k = build_kernels(b, 64);
    const uint32_t kernel = build_kernel_name(b, "mul_mat_q4_0");
    const uint32_t queue = build_kernel_queue(k, build_kernel_name(b, "some device"));
    const uint32_t stack = build_kernel_stack(b, 12, 0x1000);
    for (uint32_t i = 0; i < 20; i++) {
        build_kernel(k, (enum sonde__kernel_op)(i % SONDE__KERNEL_OP_COUNT), queue, kernel, stack,
                     1000ull * i, 10, 64);
        build_kernel_wait(k, (enum sonde__kernel_wait)(i % SONDE__KERNEL_WAIT_COUNT), queue,
                          1000ull * i, 5);
    }
}

static void check_kernel(void *arg, const struct sonde_segment_kernel *k)
{
    struct sonde_segment *s = arg;
    char name[SONDE_SEGMENT_KERNEL_TEXT];
    struct sonde_segment_kernel_stack stack;
    struct sonde_err err;
    CHECK(k->op < SONDE__KERNEL_OP_COUNT && k->queue < SONDE__KERNEL_QUEUES);
    CHECK(k->queued_ns <= k->submit_ns && k->submit_ns <= k->start_ns);
    CHECK(k->start_ns <= k->end_ns);
    if (sonde_segment_kernel_name(s, k->name, name, &err) == 0) {
        CHECK(name[0] && sonde__utf8_valid(name, strlen(name)));
    }
    if (sonde_segment_kernel_stack(s, k->stack, &stack, &err) == 0) {
        CHECK(stack.depth && stack.depth <= SONDE__KERNEL_DEPTH_MAX);
    }
}

static void check_wait(void *arg, const struct sonde_segment_kernel_wait *w)
{
    (void)arg;
    CHECK(w->begin_ns <= w->end_ns && w->kind < SONDE__KERNEL_WAIT_COUNT);
}

static void check_map(void *arg, const struct sonde_mapping *m)
{
    (void)arg;
    CHECK(m->start < m->end && strlen(m->path) <= SONDE__MAP_PATH_MAX);
}

static int fuzz_read(struct sonde_segment *s, const struct edits *late, struct sonde_err *err)
{
    const struct sonde_segment_kernel_sink sink = { check_kernel, check_wait, check_map, s };
    int rc = 0;
    for (int pass = 0; rc == 0 && pass < PASSES; pass++) {
        struct sonde_segment_kernels_info info;
        uint64_t lost = 0;
        rc = sonde_segment_kernels(s, &info, err);
        if (rc == SONDE_ENOENT) return 0;
        for (uint32_t i = 0; rc == 0 && i < info.devices; i++) {
            struct sonde__kernel_device d;
            sonde_segment_kernel_device(s, i, &d);
        }
        for (uint32_t i = 1; rc == 0 && i < info.queues; i++) {
            struct sonde__kernel_queue q;
            sonde_segment_kernel_queue(s, i, &q);
            CHECK(q.device <= SONDE__KERNEL_DEVICES);
        }
        if (rc == 0) rc = sonde_segment_kernel_records(s, &sink, pass > 0, &lost, err);
        if (pass == 0) fuzz_late(late);
    }
    return rc == SONDE_ENOENT ? 0 : rc;
}

#ifdef SONDE_FUZZ_MAIN
static uint32_t fuzz_offset(void)
{
    const uint64_t area = seed.h->kernels;
    switch (draw() % 4) {
    case 0: return (uint32_t)(draw() % sizeof(struct sonde__header));
    case 1: return (uint32_t)(area + draw() % 384);
    default: return (uint32_t)(area + draw() % (sizeof(struct sonde__kernels) + 64 * 64 + 1024));
    }
}
#endif
