/* clock.c - a device's clock on ours.
 *
 * OpenCL 2.1 has a call that tells both clocks at once (within its own length), but not every
 * driver has it, and some tell another clock than the one of their events. What always holds: a
 * command was queued, by the clock of its events, while the call that queued it ran. So each
 * command says between which two numbers the offset lies; the narrowest of the last seconds wins,
 * and a timer that contradicts it by a millisecond is not believed again. Where a clock of the host
 * has an offset between the bounds, it is taken to be the device's. Clocks drift apart (PoCL's
 * is CLOCK_MONOTONIC_RAW, which nobody steers), by 500 ppm at most: the bounds widen by that. */
#include <string.h>
#include <time.h>

#include "preload/opencl/opencl.h"
#include "record/state.h"

#define EVERY_NS 500000000u        /* between comparisons by timer */
#define TRIES 3
#define DRIFT_SHARE 2000u          /* one part in so many: 500 ppm */
#define TRUST_NS 1000000
#define OLD_NS 5000000000ull       /* bounds as old as that say nothing */

/* "OpenCL 2.1 …". Drivers before that may not even have the function's place. */
static int clock_has_timer(cl_device_id device)
{
    char version[64] = "";
    size_t used = 0;
    if (!sonde__opencl_next.clGetDeviceAndHostTimer ||
        sonde__opencl_next.clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof(version), version,
                                           &used) != CL_SUCCESS) {
        return 0;
    }
    version[sizeof(version) - 1] = '\0';
    if (strncmp(version, "OpenCL ", 7) || version[8] != '.') return 0;
    return version[7] > '2' || (version[7] == '2' && version[9] >= '1');
}

static int clock_measure(cl_device_id device, struct sonde__opencl_clock *c)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        cl_ulong theirs = 0, host = 0;
        const uint64_t before = sonde__mono_ns();
        if (sonde__opencl_next.clGetDeviceAndHostTimer(device, &theirs, &host) != CL_SUCCESS) {
            return -1;
        }
        const uint64_t after = sonde__mono_ns(), width = after - before;
        if (width >= best) continue;
        best = width;
        c->offset = (int64_t)(before + width / 2 - theirs);
        c->doubt = width / 2 + 1;
    }
    return 0;
}

void sonde__opencl_clock_start(struct sonde__opencl_device *d)
{
    memset(&d->clock, 0, sizeof(d->clock));
    d->clock.by_timer = clock_has_timer(d->handle) && !clock_measure(d->handle, &d->clock);
}

/* Between the two numbers: the offset of a clock of the host's, which a driver for a CPU is likely
 * to use, if there is one; else the middle. A wrong guess is no worse than the bounds are, and the
 * next command may rule it out. */
static int64_t clock_likely(int64_t low, int64_t high)
{
    static const clockid_t clocks[] = { CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC, CLOCK_REALTIME,
                                        CLOCK_BOOTTIME };
    for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
        struct timespec t;
        if (clock_gettime(clocks[i], &t)) continue;
        const int64_t ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
        const int64_t offset = (int64_t)sonde__mono_ns() - ns;
        if (offset >= low && offset <= high) return offset;
    }
    return low + (high - low) / 2;
}

void sonde__opencl_clock_bracket(struct sonde__opencl_clock *c, uint64_t queued, uint64_t call_ns,
                                 uint64_t end_ns)
{
    const int64_t low = (int64_t)(call_ns - queued), high = (int64_t)(end_ns - queued);
    int inside = 0;
    if (c->at_ns && end_ns - c->at_ns < OLD_NS) {
        const int64_t drift = (int64_t)((end_ns - c->at_ns) / DRIFT_SHARE);
        c->low -= drift;
        c->high += drift;
    }
    if (!c->at_ns || end_ns - c->at_ns >= OLD_NS || low > c->high || high < c->low) {
        c->low = low;
        c->high = high;
    } else {
        inside = c->by_timer || (c->offset >= low && c->offset <= high);
        if (low > c->low) c->low = low;
        if (high < c->high) c->high = high;
    }
    c->at_ns = end_ns;
    if (c->by_timer && (c->offset < low - TRUST_NS || c->offset > high + TRUST_NS)) c->by_timer = 0;
    if (c->by_timer) return;
    if (!inside || end_ns - c->guessed_ns > EVERY_NS) {
        c->offset = clock_likely(c->low, c->high);
        c->guessed_ns = end_ns;
    }
    c->doubt = (uint64_t)(c->high - c->low) / 2 + 1;
}

void sonde__opencl_clock_convert(struct sonde__opencl_device *d, struct sonde__kernels_record *r)
{
    struct sonde__opencl_clock *c = &d->clock;
    if (!__atomic_exchange_n(&d->lock, 1, __ATOMIC_ACQUIRE)) {
        const uint64_t end_ns = r->call_ns + r->took_ns;
        /* A blocking call lasts as long as its command, which says little of when it was queued;
         * nor does one that ended before the last comparison. */
        if (end_ns >= c->at_ns) sonde__opencl_clock_bracket(c, r->queued_ns, r->call_ns, end_ns);
        if (c->by_timer && end_ns > c->measured_ns + EVERY_NS) {
            c->measured_ns = end_ns;
            if (clock_measure(d->handle, c)) c->by_timer = 0;
        }
        __atomic_store_n(&d->lock, 0, __ATOMIC_RELEASE);
    }
    const uint64_t offset = (uint64_t)__atomic_load_n(&c->offset, __ATOMIC_RELAXED);
    r->queued_ns += offset;
    r->submit_ns += offset;
    r->start_ns += offset;
    r->end_ns += offset;
    r->doubt_ns = __atomic_load_n(&c->doubt, __ATOMIC_RELAXED);
}
