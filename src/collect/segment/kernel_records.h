/* kernel_records.h - commands of GPUs out of a segment (segment/kernels.h), checked. */
#ifndef SONDE_COLLECT_SEGMENT_KERNEL_RECORDS_H
#define SONDE_COLLECT_SEGMENT_KERNEL_RECORDS_H

#include "collect/segment/read.h"
#include "segment/kernels.h"

struct sonde_segment_kernels_info {
    uint64_t session, start_ns;
    uint32_t depth_max, state;      /* enum sonde__kernel_state */
    uint32_t devices, queues;       /* counts; queues: one more than the last number */
    uint64_t switched, enqueued, recorded, crowded, full, foreign, failed, unnamed, stackless,
             own_ns, waits, wait_ns, off_calls;
};

/* 0; SONDE_ENOENT: it has used no GPU yet, or is not asked to say; SONDE_EFORMAT. */
int sonde_segment_kernels(struct sonde_segment *s, struct sonde_segment_kernels_info *out,
                          struct sonde_err *err);

/* Device 0 … devices - 1, queue 1 … queues - 1. Its device: index + 1, 0 = not known. */
void sonde_segment_kernel_device(struct sonde_segment *s, uint32_t i,
                                 struct sonde__kernel_device *out);
void sonde_segment_kernel_queue(struct sonde_segment *s, uint32_t i,
                                struct sonde__kernel_queue *out);

#define SONDE_SEGMENT_KERNEL_TEXT (SONDE__KERNEL_NAME_MAX + 1)

/* Text of a name, valid UTF-8 without control characters. SONDE_ENOENT: number 0; SONDE_EBUSY: it
 * was being written; SONDE_EFORMAT. */
int sonde_segment_kernel_name(struct sonde_segment *s, uint32_t number,
                              char out[SONDE_SEGMENT_KERNEL_TEXT], struct sonde_err *err);

struct sonde_segment_kernel_stack {
    uint32_t depth, flags;          /* flags: SONDE__SAMPLE_TRUNCATED */
    uint64_t ip[SONDE__KERNEL_DEPTH_MAX];
};
int sonde_segment_kernel_stack(struct sonde_segment *s, uint32_t number,
                               struct sonde_segment_kernel_stack *out, struct sonde_err *err);

/* Times: ns of CLOCK_MONOTONIC, in this order, or all four 0: not known. */
struct sonde_segment_kernel {
    uint64_t call_ns, took_ns;
    uint64_t queued_ns, submit_ns, start_ns, end_ns, doubt_ns;
    uint64_t bytes, global[3], local[3];
    uint32_t tid, stack, name, queue; /* numbers, not checked; queue: 0 = not known */
    uint32_t op, flags;               /* enum sonde__kernel_op; SONDE__KERNEL_BLOCKING */
    int32_t status;                   /* 0, or why it failed */
};

struct sonde_segment_kernel_wait {
    uint64_t begin_ns, end_ns;
    uint32_t tid, queue, stack, kind; /* enum sonde__kernel_wait */
};

struct sonde_segment_kernel_sink {    /* as struct sonde_segment_sink */
    void (*kernel)(void *arg, const struct sonde_segment_kernel *kernel);
    void (*wait)(void *arg, const struct sonde_segment_kernel_wait *wait);
    void (*map)(void *arg, const struct sonde_mapping *map);
    void *arg;
};

/* Take new records out of the ring. As sonde_segment_samples. */
int sonde_segment_kernel_records(struct sonde_segment *s,
                                 const struct sonde_segment_kernel_sink *sink, int last,
                                 uint64_t *lost, struct sonde_err *err);

#endif
