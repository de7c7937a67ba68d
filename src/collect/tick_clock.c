/* tick_clock.c - see tick_clock.h. */
#include "collect/tick_clock.h"

#include <assert.h>
#include <time.h>

#include "base/clock.h"

#define BASELINE_NS 10000000u
#define STEP_NS 1000000u /* a difference this large is a clock that was set, not noise */

static uint64_t tsc_now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return sonde_clock_ns(CLOCK_MONOTONIC);
#endif
}

/* ---- Unix time ------------------------------------------------------------------------------- */

/* Both clocks at one instant, as the difference; of a few tries the one that took least is best:
 * in between the thread may have been put aside. */
static uint64_t offset_now(void)
{
    uint64_t best = UINT64_MAX, offset = 0;
    for (int i = 0; i < 8; i++) {
        const uint64_t before = sonde_clock_ns(CLOCK_MONOTONIC);
        const uint64_t real = sonde_clock_ns(CLOCK_REALTIME);
        const uint64_t took = sonde_clock_ns(CLOCK_MONOTONIC) - before;
        if (took >= best) continue;
        best = took;
        offset = real - before - took / 2;
    }
    return offset;
}

static uint64_t agreed;

void sonde_unix_offset_adopt(uint64_t offset_ns)
{
    const uint64_t now = offset_now();
    const uint64_t apart = now > offset_ns ? now - offset_ns : offset_ns - now;
    if (apart < STEP_NS) __atomic_store_n(&agreed, offset_ns, __ATOMIC_RELEASE);
}

uint64_t sonde_unix_offset_ns(void)
{
    const uint64_t known = __atomic_load_n(&agreed, __ATOMIC_ACQUIRE), now = offset_now();
    const uint64_t apart = now > known ? now - known : known - now;
    if (known && apart < STEP_NS) return known;
    /* The first time, or the clock was set. Whoever comes first decides for all. */
    uint64_t expected = known;
    return __atomic_compare_exchange_n(&agreed, &expected, now, 0, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE)
               ? now : expected;
}

/* ---- Ticks ----------------------------------------------------------------------------------- */

/* The clocks are read one after the other; of a few tries the one that took least is best. */
static void tick_clock_sample(uint64_t *tsc, uint64_t *mono_ns)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = tsc_now(), mono = sonde_clock_ns(CLOCK_MONOTONIC), after = tsc_now();
        if (after - before >= best) continue;
        best = after - before;
        *tsc = before + best / 2;
        *mono_ns = mono;
    }
}

void sonde_tick_clock_init(struct sonde_tick_clock *c)
{
    *c = (struct sonde_tick_clock){ .tsc_ns = 1 };
    tick_clock_sample(&c->first_tsc, &c->first_mono_ns);
}

void sonde_tick_clock_update(struct sonde_tick_clock *c)
{
    assert(c->first_mono_ns); /* initialized */
    c->last_tsc = c->now_tsc;
    c->last_mono_ns = c->now_mono_ns;
    tick_clock_sample(&c->now_tsc, &c->now_mono_ns);
    uint64_t passed = c->now_mono_ns - c->first_mono_ns;
    if (passed < BASELINE_NS) {
        struct timespec rest = { .tv_nsec = (long)(BASELINE_NS - passed) };
        nanosleep(&rest, NULL);
        tick_clock_sample(&c->now_tsc, &c->now_mono_ns);
        passed = c->now_mono_ns - c->first_mono_ns;
    }
    if (c->now_tsc > c->first_tsc) {
        c->tsc_ns = (double)passed / (double)(c->now_tsc - c->first_tsc);
    }
    c->unix_ns = sonde_unix_offset_ns();
}

/* CLOCK_MONOTONIC at a tick of the TSC. */
static double mono_of(const struct sonde_tick_clock *c, uint64_t tsc)
{
    if (c->last_mono_ns && tsc >= c->last_tsc && tsc < c->now_tsc) {
        const double rate = (double)(c->now_mono_ns - c->last_mono_ns) /
                            (double)(c->now_tsc - c->last_tsc);
        return (double)c->last_mono_ns + (double)(tsc - c->last_tsc) * rate;
    }
    const int later = tsc >= c->now_tsc || !c->last_mono_ns;
    const uint64_t from_tsc = later ? c->now_tsc : c->last_tsc;
    const double from_ns = (double)(later ? c->now_mono_ns : c->last_mono_ns);
    return tsc >= from_tsc ? from_ns + (double)(tsc - from_tsc) * c->tsc_ns
                           : from_ns - (double)(from_tsc - tsc) * c->tsc_ns;
}

uint64_t sonde_tick_unix_ns(const struct sonde_tick_clock *c, int tsc, uint64_t tick)
{
    const double mono = tsc ? mono_of(c, tick) : (double)tick;
    /* Nonsense from a damaged record must not become an undefined conversion. */
    if (!(mono > -(double)c->unix_ns && mono < 1e18)) return 0;
    return mono >= 0 ? c->unix_ns + (tsc ? (uint64_t)mono : tick) : c->unix_ns - (uint64_t)-mono;
}

uint64_t sonde_tick_span_ns(const struct sonde_tick_clock *c, int tsc, uint64_t from, uint64_t to)
{
    if (to <= from) return 0;
    double ns = (double)(to - from) * (tsc ? c->tsc_ns : 1);
    return ns < 1e18 ? (uint64_t)(ns + 0.5) : 1000000000000000000u;
}
