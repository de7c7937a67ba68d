/* clock.c - ticks: the TSC where it counts at one rate on all CPUs and the kernel trusts it,
 * CLOCK_MONOTONIC's nanoseconds elsewhere.
 *
 * Calibration compares two instants on both clocks. The first pair is taken when the segment
 * opens, the second a tenth of a millisecond later, which is good to some 300 ppm; every later
 * slow path (a new thread, a new series) moves the second instant further out, so after a
 * second the rate is good to a part per million without a thread or a timer of ours. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "record/state.h"

#define SPIN_NS 100000u
#define RECHECK_FACTOR 2 /* recheck when the baseline has doubled … */
#define RECHECK_MAX_NS 1000000000ull /* … or every second */

static uint64_t record_clock_ns(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t sonde__mono_ns(void) { return record_clock_ns(CLOCK_MONOTONIC); }
uint64_t sonde__real_ns(void) { return record_clock_ns(CLOCK_REALTIME); }

#if defined(__x86_64__)

/* CPUID says whether the TSC is invariant; the kernel's choice of clock source says whether it
 * found the TSCs of all CPUs in step. */
static int tsc_usable(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000000u, &a, &b, &c, &d) || a < 0x80000007u) return 0;
    __cpuid(0x80000007u, a, b, c, d);
    if (!(d & 1u << 8)) return 0;

    char source[32] = "";
    const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                        O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t n = read(fd, source, sizeof(source) - 1);
    close(fd);
    if (n <= 0) return 0;
    return !strncmp(source, "tsc", 3) || !strncmp(source, "kvm-clock", 9) ||
           !strncmp(source, "hyperv", 6);
}

/* One instant on both clocks: of a few tries the one that took least time in between. */
static void record_clock_instant(uint64_t *ticks, uint64_t *ns)
{
    uint64_t best = UINT64_MAX;
    *ticks = *ns = 0;
    for (int i = 0; i < 6; i++) {
        const uint64_t before = __builtin_ia32_rdtsc();
        const uint64_t now = sonde__mono_ns();
        const uint64_t after = __builtin_ia32_rdtsc();
        if (after - before < best) {
            best = after - before;
            *ticks = before + best / 2;
            *ns = now;
        }
    }
}

#else
static int tsc_usable(void) { return 0; }
static void record_clock_instant(uint64_t *ticks, uint64_t *ns) { *ticks = *ns = sonde__mono_ns(); }
#endif

static void record_clock_calibrate(void)
{
    uint64_t ticks, ns;
    record_clock_instant(&ticks, &ns);
    if (ticks <= sonde__g.tick0 || ns <= sonde__g.mono0_ns) return;
    const unsigned __int128 q = (unsigned __int128)(ns - sonde__g.mono0_ns) << 32;
    __atomic_store_n(&sonde__g.tick_ns_q32, (uint64_t)(q / (ticks - sonde__g.tick0)),
                     __ATOMIC_RELAXED);
    sonde__g.checked_ns = ns;
}

void sonde__clock_start(void)
{
    if (!sonde__g.clock_ready) {
        const char *force = secure_getenv("SONDE_CLOCK");
        sonde__g.tsc = !(force && !strcmp(force, "monotonic")) && tsc_usable();
        sonde__g.tick_ns_q32 = 1ull << 32;
        if (sonde__g.tsc) {
            record_clock_instant(&sonde__g.tick0, &sonde__g.mono0_ns);
            while (sonde__mono_ns() - sonde__g.mono0_ns < SPIN_NS) continue;
            record_clock_calibrate();
        } else {
            sonde__g.tick0 = sonde__g.mono0_ns = sonde__mono_ns();
        }
        __atomic_store_n(&sonde__g.clock_ready, 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&sonde__gate.tick_ns_q32,
                     __atomic_load_n(&sonde__g.tick_ns_q32, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    __atomic_store_n(&sonde__gate.tsc, sonde__g.tsc, __ATOMIC_RELEASE);
}

void sonde__clock_recheck(void)
{
    const uint64_t now = sonde__mono_ns();
    __atomic_store_n(&sonde__g.h->heartbeat_ns, now, __ATOMIC_RELAXED);
    if (!sonde__g.tsc) return;
    const uint64_t baseline = sonde__g.checked_ns - sonde__g.mono0_ns;
    const uint64_t since = now - sonde__g.checked_ns;
    if (since < baseline * (RECHECK_FACTOR - 1) && since < RECHECK_MAX_NS) return;
    record_clock_calibrate();
    __atomic_store_n(&sonde__gate.tick_ns_q32, sonde__g.tick_ns_q32, __ATOMIC_RELAXED);
    __atomic_store_n(&sonde__g.h->tick_ns_q32, sonde__g.tick_ns_q32, __ATOMIC_RELAXED);
}

uint64_t sonde__ticks_slow(void)
{
    /* A rate of 0 is a gate that was wiped in a child: a duration may come before any record. */
    if (!__atomic_load_n(&sonde__g.clock_ready, __ATOMIC_ACQUIRE) ||
        !__atomic_load_n(&sonde__gate.tick_ns_q32, __ATOMIC_RELAXED)) {
        sonde__clock_ensure();
        /* Still not: a signal handler that interrupted the opening. */
        if (!__atomic_load_n(&sonde__g.clock_ready, __ATOMIC_ACQUIRE)) return sonde__mono_ns();
    }
#if defined(__x86_64__)
    if (sonde__g.tsc) return __builtin_ia32_rdtsc();
#endif
    return sonde__mono_ns();
}
