/* perf_cost.c - see perf_cost.h.
 *
 * Rejected: the time that a fixed piece of work takes with and without sampling. The difference is
 * a hundredth of what other programs on the machine make of it. A gap that has a sample in it is
 * the sample's, and the median of fifty of them does not care about the few that were
 * interrupted. */
#include "collect/cpu/perf_cost.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/cmp.h"
#include "collect/perf/event.h"
#include "collect/perf/limits.h"
#include "sonde/sonde.h"
#include "unwind/arch_x86_64.h"

enum { SAMPLES = 50, MATCHES_MIN = 10, GAPS_MAX = 4096, GAP_NS = 300, STACK_BYTES = 4096 };
#define PERIOD_NS 1000000u
#define SPIN_NS (4ull * SAMPLES * PERIOD_NS) /* at the most */
#define RING_BYTES ((size_t)256 << 10)

struct gap { uint64_t from_ns, to_ns; };

/* As the engine's own: what is written for each sample is what takes the time. */
static struct perf_event_attr perf_cost_sampling(int hardware)
{
    return (struct perf_event_attr){
        .size = sizeof(struct perf_event_attr),
        .type = hardware ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE,
        .config = hardware ? PERF_COUNT_HW_CPU_CYCLES : PERF_COUNT_SW_CPU_CLOCK,
        .freq = (unsigned)hardware & 1u,
        .sample_period = hardware ? 1000000000u / PERIOD_NS : PERIOD_NS,
        .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                       PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
        .sample_regs_user = SONDE__ARCH_PERF_REGS,
        .sample_stack_user = STACK_BYTES,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .disabled = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .watermark = 1,
        .wakeup_watermark = (uint32_t)RING_BYTES,
    };
}

static int open_on_self(struct sonde_perf_ring *ring, struct sonde_err *err)
{
    struct perf_event_attr attr = perf_cost_sampling(1);
    int fd = sonde_perf_open(&attr, 0, -1);
    if (fd < 0) {
        attr = perf_cost_sampling(0);
        fd = sonde_perf_open(&attr, 0, -1);
    }
    if (fd < 0) return sonde_perf_explain(errno, 0, err);
    const int rc = sonde_perf_ring_map(ring, fd, RING_BYTES);
    return rc ? sonde_err_set(err, rc, "no ring for perf events: %s", sonde_strerror(rc)) : 0;
}

static uint64_t head_of(const struct sonde_perf_ring *ring)
{
    return __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
}

/* Gaps in the stream of readings; how many. */
static size_t perf_cost_spin(const struct sonde_perf_ring *ring, struct gap *gaps)
{
    size_t count = 0;
    const uint64_t until = sonde_clock_ns(CLOCK_MONOTONIC) + SPIN_NS;
    uint64_t last = sonde_clock_ns(CLOCK_MONOTONIC);
    while (last < until && count < GAPS_MAX && head_of(ring) < RING_BYTES - 2 * STACK_BYTES) {
        const uint64_t now = sonde_clock_ns(CLOCK_MONOTONIC);
        if (now - last > GAP_NS) gaps[count++] = (struct gap){ last, now };
        last = now;
    }
    return count;
}

/* The gap that each sample's time is in; how many were found. Nothing in the ring has wrapped. */
static size_t perf_cost_match(const struct sonde_perf_ring *ring, const struct gap *gaps,
                              size_t gap_count, uint64_t *sizes, size_t max)
{
    size_t count = 0, gap = 0;
    const uint64_t head = head_of(ring) < ring->size ? head_of(ring) : 0;
    for (uint64_t at = 0; at + sizeof(struct perf_event_header) <= head && count < max;) {
        struct { struct perf_event_header header; uint64_t ip, ids, time_ns; } record;
        memcpy(&record.header, ring->data + at, sizeof(record.header));
        if (record.header.size < sizeof(record.header) || record.header.size > head - at) break;
        if (record.header.type == PERF_RECORD_SAMPLE && record.header.size >= sizeof(record)) {
            memcpy(&record, ring->data + at, sizeof(record));
            while (gap < gap_count && gaps[gap].to_ns < record.time_ns) gap++;
            if (gap < gap_count && gaps[gap].from_ns <= record.time_ns) {
                sizes[count++] = gaps[gap].to_ns - gaps[gap].from_ns;
            }
        }
        at += record.header.size;
    }
    return count;
}

int sonde_perf_cost(double *out_ns, struct sonde_err *err)
{
    static const char few[] = "too few samples were seen to measure what one costs";
    struct sonde_perf_ring ring = { 0 };
    struct gap gaps[GAPS_MAX];
    uint64_t sizes[SAMPLES];
    const int rc = open_on_self(&ring, err);
    if (rc) return rc;
    ioctl(ring.fd, PERF_EVENT_IOC_ENABLE, 0);
    const size_t gap_count = perf_cost_spin(&ring, gaps);
    ioctl(ring.fd, PERF_EVENT_IOC_DISABLE, 0);
    const size_t count = perf_cost_match(&ring, gaps, gap_count, sizes, SAMPLES);
    sonde_perf_ring_unmap(&ring);
    if (count < MATCHES_MIN) return sonde_err_set(err, SONDE_EBUSY, "%s", few);
    qsort(sizes, count, sizeof(sizes[0]), sonde_cmp_u64);
    *out_ns = (double)sizes[count / 2];
    return 0;
}
