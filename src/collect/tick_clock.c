/* tick_clock.c - see tick_clock.h. */
#include "collect/tick_clock.h"

#include <time.h>

#define BASELINE_NS 10000000u

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t tsc_now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return clock_ns(CLOCK_MONOTONIC);
#endif
}

/* The clocks are read one after the other; of a few tries the one that took least is best. */
static void sample(uint64_t *tsc, uint64_t *mono_ns)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = tsc_now(), mono = clock_ns(CLOCK_MONOTONIC), after = tsc_now();
        if (after - before >= best) continue;
        best = after - before;
        *tsc = before + best / 2;
        *mono_ns = mono;
    }
}

void sonde_tick_clock_init(struct sonde_tick_clock *c)
{
    *c = (struct sonde_tick_clock){ .tsc_ns = 1 };
    sample(&c->first_tsc, &c->first_mono_ns);
}

void sonde_tick_clock_update(struct sonde_tick_clock *c)
{
    sample(&c->now_tsc, &c->now_mono_ns);
    uint64_t passed = c->now_mono_ns - c->first_mono_ns;
    if (passed < BASELINE_NS) {
        struct timespec rest = { .tv_nsec = (long)(BASELINE_NS - passed) };
        nanosleep(&rest, NULL);
        sample(&c->now_tsc, &c->now_mono_ns);
        passed = c->now_mono_ns - c->first_mono_ns;
    }
    if (c->now_tsc > c->first_tsc) {
        c->tsc_ns = (double)passed / (double)(c->now_tsc - c->first_tsc);
    }
    c->now_real_ns = clock_ns(CLOCK_REALTIME);
}

uint64_t sonde_tick_unix_ns(const struct sonde_tick_clock *c, int tsc, uint64_t tick)
{
    double rate = tsc ? c->tsc_ns : 1;
    uint64_t now = tsc ? c->now_tsc : c->now_mono_ns;
    double ago = tick <= now ? (double)(now - tick) * rate : -(double)(tick - now) * rate;
    /* Nonsense from a damaged record must not become an undefined conversion. */
    if (!(ago > -1e18 && ago < (double)c->now_real_ns)) return 0;
    return ago >= 0 ? c->now_real_ns - (uint64_t)ago : c->now_real_ns + (uint64_t)-ago;
}

uint64_t sonde_tick_span_ns(const struct sonde_tick_clock *c, int tsc, uint64_t from, uint64_t to)
{
    if (to <= from) return 0;
    double ns = (double)(to - from) * (tsc ? c->tsc_ns : 1);
    return ns < 1e18 ? (uint64_t)(ns + 0.5) : 1000000000000000000u;
}
