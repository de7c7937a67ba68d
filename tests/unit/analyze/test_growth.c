/* Verdicts: curves of programs that leak, cache, recycle or just wander, many times each with other
 * noise, and how often each verdict is right; warm-up; profiles. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/growth.h"
#include "base/alloc.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"

#define TAU 6.283185307179586
#define MB 1e6

static uint64_t rng;
static double state_of[2]; /* of the curve that is drawn; zero at its start */

static double uniform(void) /* (0, 1) */
{
    uint64_t x = (rng += 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return ((double)((x ^ (x >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void) { return sqrt(-2 * log(uniform())) * cos(TAU * uniform()); }

/* ---- Curves: bytes in use at tick t of n ----------------------------------------------------- */

static double leak_linear(double t, double n) { return MB + MB * t / n; }
static double leak_small(double t, double n) { return 8 * floor(100000 * t / n); }
static double leak_on_top(double t, double n) { return 1000 * MB + MB * t / n; }
static double leak_steps(double t, double n) { return MB * floor(16 * t / n); }
static double leak_noise(double t, double n) { return MB + MB * t / n + 0.1 * MB * normal(); }
static double leak_churn(double t, double n)
{
    state_of[0] = 0.7 * state_of[0] + 0.714 * normal();
    return MB + 2 * MB * t / n + 0.1 * MB * state_of[0];
}
static double leak_bursty(double t, double n)
{
    (void)t;
    if (uniform() < 30 / n) state_of[0] += MB * (0.5 + uniform());
    return state_of[0];
}
static double leak_sampled(double t, double n) /* 30 samples of 512 KiB */
{
    (void)t;
    if (uniform() < 30 / n) state_of[0] += 524288;
    return state_of[0];
}
static double leak_late(double t, double n) { return t < n / 3 ? MB : MB + MB * (t - n / 3) / n; }
static double leak_in_ring(double t, double n) { return 4 * MB * t / n + MB * fmod(t, 7) / 7; }

static double cache_filling(double t, double n) { return MB * (1 - exp(-2.5 * t / n)); }
static double cache_slow(double t, double n) { return MB * (1 - exp(-t / n)); }
static double cache_noise(double t, double n)
{
    return MB * (1 - exp(-2.5 * t / n)) + 0.01 * MB * normal();
}
static double cache_by_hits(double t, double n) /* slots that are filled by random keys */
{
    (void)t;
    for (double hits = 0; hits < 2500 / n; hits++) {
        if (uniform() < 1 - state_of[0] / 1000) state_of[0]++;
    }
    return 1e4 * state_of[0];
}
static double cache_reaches_limit(double t, double n) { return MB * fmin(t / (0.8 * n), 1); }
static double cache_full_at_once(double t, double n) { return n > 0 && t < 3 ? 0 : MB; }
static double cache_filled_early(double t, double n)
{
    return MB * (1 - exp(-16 * t / n)) + 0.01 * MB * normal();
}

static double constant(double t, double n) { return t < n ? MB : 0; }
static double nothing(double t, double n) { return t < n ? 0 : 1; }
static double white(double t, double n) { return t < n ? MB + 0.1 * MB * normal() : 0; }
static double wandering(double t, double n, double back)
{
    if (t < 1) state_of[0] = back < 1 ? normal() : 0;
    state_of[0] = back * state_of[0] + (back < 1 ? sqrt(1 - back * back) : 1) * normal();
    return n > 0 ? MB + (back < 1 ? 0.1 : 0.01) * MB * state_of[0] : 0;
}
static double slow_churn(double t, double n) { return wandering(t, n, 0.9); }
static double slower_churn(double t, double n) { return wandering(t, n, 0.97); }
static double random_walk(double t, double n) { return wandering(t, n, 1); }
static double requests(double t, double n) /* come and go by chance; each has 512 KiB */
{
    if (t < 1) state_of[0] = 20;
    double left = 0, come = -1;
    for (double i = 0; i < state_of[0]; i++) left += uniform() < 0.05;
    for (double p = 1; p > exp(-1); p *= uniform()) come++;
    state_of[0] += come - left;
    return n > 0 ? 524288 * state_of[0] : 0;
}
static double in_flight(double t, double n) /* seldom any when it is counted */
{
    return t < n && uniform() < 0.2 ? 64 * (1 + floor(3 * uniform())) : 0;
}
static double sawtooth(double t, double n) /* of any period and phase, with a fall in sight */
{
    if (t < 1) {
        state_of[0] = 3 + uniform() * 0.8 * n;
        state_of[1] = uniform() * state_of[0];
    }
    return MB * fmod(t + state_of[1], state_of[0]) / state_of[0];
}
static double one_jump(double t, double n) { return t < 0.8 * n ? 0.1 * MB : MB; }
static double two_jumps(double t, double n)
{
    return 0.1 * MB + (t > 0.6 * n ? MB : 0) + (t > 0.9 * n ? MB : 0);
}
static double pool(double t, double n)
{
    const double f = t / n;
    return MB * (f < 0.4 ? f / 0.4 : f < 0.8 ? (0.8 - f) / 0.4 : 0) + 1000 * normal();
}
static double shrinks(double t, double n) { return MB * (2 - t / n); }

#define V(verdict) (1u << SONDE_HEAP_##verdict)
#define FINE (V(STABLE) | V(UNKNOWN) | V(SHRINKING))

static const struct {
    const char *name;
    double (*curve)(double t, double n);
    unsigned wanted;       /* verdicts that are right */
    double share;          /* of the draws that get one of them */
    double noise;
} cases[] = {
    { "linear", leak_linear, V(LEAK), 1, 0 },
    { "8 bytes, 100000 times", leak_small, V(LEAK), 1, 0 },
    { "a thousandth of all", leak_on_top, V(LEAK), 1, 0 },
    { "equal steps", leak_steps, V(LEAK), 1, 0 },
    { "noise", leak_noise, V(LEAK), 0.95, 0 },
    { "churn", leak_churn, V(LEAK), 0.8, 0 },
    { "bursts by chance", leak_bursty, V(LEAK), 0.95, 0 },
    { "few samples", leak_sampled, V(LEAK), 0.95, 524288 * 5.5 },
    { "too few samples", leak_sampled, V(UNKNOWN), 0.95, 524288 * 30.0 },
    { "begins late", leak_late, V(LEAK), 1, 0 },
    { "under a ring", leak_in_ring, V(LEAK), 1, 0 },
    { "filling", cache_filling, V(CACHE), 1, 0 },
    { "filling slowly", cache_slow, V(CACHE), 1, 0 },
    { "filling with noise", cache_noise, V(CACHE), 0.95, 0 },
    { "filled by hits", cache_by_hits, V(CACHE), 0.99, 0 },
    { "reaches its limit", cache_reaches_limit, V(CACHE), 1, 0 },
    { "full at once", cache_full_at_once, V(STABLE), 1, 0 },
    { "filled early", cache_filled_early, V(STABLE), 0.95, 0 },
    { "constant", constant, V(STABLE), 1, 0 },
    { "nothing", nothing, V(STABLE), 1, 0 },
    { "white noise", white, FINE, 0.99, 0 },
    { "slow churn", slow_churn, FINE, 0.98, 0 },
    { "slower churn", slower_churn, FINE, 0.97, 0 },
    { "random walk", random_walk, FINE, 0.97, 0 },
    { "requests", requests, FINE, 0.98, 524288 * 4.5 },
    { "few requests in flight", in_flight, FINE, 0.98, 0 },
    { "sawtooth", sawtooth, FINE, 0.98, 0 },
    { "one jump", one_jump, V(UNKNOWN) | V(STABLE), 1, 0 },
    { "two jumps", two_jumps, V(UNKNOWN) | V(STABLE), 1, 0 },
    { "pool", pool, V(SHRINKING) | V(STABLE), 0.99, 0 },
    { "shrinks", shrinks, V(SHRINKING), 1, 0 },
};

static struct sonde_curve draw(double (*curve)(double, double), uint32_t ticks, uint64_t seed)
{
    struct sonde_curve s = { .count = 0 };
    rng = seed * 7919 + 1;
    memset(state_of, 0, sizeof(state_of));
    for (uint32_t t = 0; t < ticks; t++) sonde_curve_add(&s, curve(t, ticks));
    return s;
}

static void verdicts_are_right(void **state)
{
    enum { DRAWS = 1000 };
    static const uint32_t lengths[] = { 60, 127, 1000 };
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
            unsigned got[SONDE_HEAP_VERDICT_COUNT] = { 0 }, right = 0;
            for (uint64_t seed = 0; seed < DRAWS; seed++) {
                const struct sonde_curve s = draw(cases[i].curve, lengths[l], seed);
                struct sonde_growth g;
                sonde_growth_judge(&s, 1, 0, cases[i].noise, &g);
                got[g.verdict]++;
                right += (cases[i].wanted >> g.verdict & 1) != 0;
                assert_true(g.slope_low <= g.slope && g.slope <= g.slope_high);
                if (g.verdict == SONDE_HEAP_LEAK) assert_true(g.slope > 0);
            }
            if (right >= cases[i].share * DRAWS) continue;
            bad++;
            print_error("%s, %u ticks: %u of %u:", cases[i].name, lengths[l], right, DRAWS);
            for (int v = 0; v < SONDE_HEAP_VERDICT_COUNT; v++) {
                print_error(" %s %u", sonde_heap_verdict_name((enum sonde_heap_verdict)v), got[v]);
            }
            print_error("\n");
        }
    }
    assert_int_equal(bad, 0);
}

/* The issue's own words: at most one in twenty. Lengths between, and after an automatic skip. */
static void walks_are_no_leaks(void **state)
{
    (void)state;
    for (uint32_t ticks = 16; ticks < 400; ticks += ticks / 3) {
        unsigned leaks = 0;
        for (uint64_t seed = 0; seed < 1000; seed++) {
            const struct sonde_curve s = draw(random_walk, ticks, seed);
            const uint32_t skip = sonde_growth_warm_up(&s);
            struct sonde_growth g;
            sonde_growth_judge(&s, 1, seed % 2 && skip != UINT32_MAX ? skip : 0, 0, &g);
            leaks += g.verdict == SONDE_HEAP_LEAK || g.verdict == SONDE_HEAP_CACHE;
        }
        if (leaks > 50) print_error("%u ticks: %u of 1000\n", ticks, leaks);
        assert_true(leaks <= 50);
    }
}

static void short_runs_are_unknown(void **state)
{
    (void)state;
    for (uint32_t ticks = 0; ticks < 16; ticks++) {
        const struct sonde_curve s = draw(leak_linear, ticks, 1);
        struct sonde_growth g;
        sonde_growth_judge(&s, 1, 0, 0, &g);
        assert_int_equal(g.verdict, SONDE_HEAP_UNKNOWN);
        assert_int_equal(sonde_growth_warm_up(&s), UINT32_MAX);
    }
    /* All of it is warm-up, or begins after the end. */
    const struct sonde_curve s = draw(leak_linear, 60, 1);
    struct sonde_growth g;
    sonde_growth_judge(&s, 1, 50, 0, &g);
    assert_int_equal(g.verdict, SONDE_HEAP_UNKNOWN);
    sonde_growth_judge(&s, 1, UINT32_MAX, 0, &g);
    assert_int_equal(g.verdict, SONDE_HEAP_UNKNOWN);
    sonde_growth_judge(&s, 0, 0, 0, &g);
    assert_int_equal(g.verdict, SONDE_HEAP_UNKNOWN);
    /* Enough points, but of less than five seconds. */
    sonde_growth_judge(&s, 4.9 / 60, 0, 0, &g);
    assert_int_equal(g.verdict, SONDE_HEAP_UNKNOWN);
    sonde_growth_judge(&s, 5.1 / 60, 0, 0, &g);
    assert_int_equal(g.verdict, SONDE_HEAP_LEAK);
}

/* Bytes a second, whatever a tick is and however many make a point. */
static void slope_is_by_seconds(void **state)
{
    static const uint32_t lengths[] = { 20, 60, 64, 65, 500, 4000 };
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        const struct sonde_curve s = draw(leak_linear, lengths[i], 1);
        struct sonde_growth g;
        sonde_growth_judge(&s, 0.25, 0, 0, &g);
        const double expected = MB / lengths[i] / 0.25;
        assert_true(fabs(g.slope - expected) < 0.01 * expected);
        assert_true(g.slope_low > 0.9 * expected && g.slope_high < 1.1 * expected);
    }
    /* And 95 of 100 intervals hold the truth. */
    unsigned held = 0;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        const struct sonde_curve s = draw(leak_noise, 64, seed);
        struct sonde_growth g;
        sonde_growth_judge(&s, 1, 0, 0, &g);
        held += g.slope_low <= MB / 64 && MB / 64 <= g.slope_high;
    }
    assert_true(held >= 940);
}

/* ---- Warm-up --------------------------------------------------------------------------------- */

static double start_then_leak(double t, double n)
{
    return 10 * MB * fmin(t / (0.2 * n), 1) + MB * t / n + 0.02 * MB * normal();
}
static double start_then_flat(double t, double n) { return 10 * MB * fmin(t / (0.3 * n), 1); }
static double burst_in_the_middle(double t, double n)
{
    return MB + (t > 0.4 * n && t < 0.5 * n ? 5 * MB : 0) + 1000 * normal();
}
static double load_at_the_end(double t, double n) { return t < 0.9 * n ? MB : 10 * MB; }

static void warm_up_ends(void **state)
{
    static const struct {
        double (*curve)(double t, double n);
        double from, to; /* of the run; -1 = it has not ended */
    } rows[] = {
        { start_then_leak, 0.19, 0.34 }, { start_then_flat, 0.29, 0.44 },
        { burst_in_the_middle, 0, 0.1 }, { load_at_the_end, -1, -1 },
        { leak_linear, 0, 0 }, { constant, 0, 0 }, { nothing, 0, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (uint32_t ticks = 40; ticks < 3000; ticks *= 3) {
            struct sonde_curve s = draw(rows[i].curve, ticks, ticks);
            s.first = 100;
            const uint32_t tick = sonde_growth_warm_up(&s);
            if (rows[i].from < 0) {
                assert_int_equal(tick, UINT32_MAX);
                continue;
            }
            assert_true(tick != UINT32_MAX && tick >= 100);
            const double share = (tick - 100.0) / ticks;
            if (share < rows[i].from || share > rows[i].to) {
                print_error("curve %zu, %u ticks: at %.3f\n", i, ticks, share);
                fail();
            }
        }
    }
    struct sonde_curve s = draw(start_then_leak, 200, 1);
    struct sonde_growth g;
    sonde_growth_judge(&s, 1, sonde_growth_warm_up(&s), 0, &g);
    assert_int_equal(g.verdict, SONDE_HEAP_LEAK);
}

/* ---- Profiles -------------------------------------------------------------------------------- */

enum { TICKS = 240 };
#define TICK0 1700000000000000000u

static struct sonde_heap_amount exactly(double v) { return (struct sonde_heap_amount){ v, v, v }; }

static double grows_in_start(double t, double n) { return 20 * MB * fmin(t / (0.2 * n), 1); }
static double leaks(double t, double n) { return 8 * floor(100000 * t / n); }
static double fills_meanwhile(double t, double n) { return MB * fmin(t / (0.2 * n), 1); }

static const struct {
    const char *stack;
    double (*curve)(double t, double n);
    enum sonde_heap_verdict verdict;
    double live_count;
} sites[] = {
    { "main;load", grows_in_start, SONDE_HEAP_STABLE, 20 },
    { "main;fill", fills_meanwhile, SONDE_HEAP_STABLE, 100 },
    { "main;leak", leaks, SONDE_HEAP_LEAK, 99583 },
    { "main;pool", pool, SONDE_HEAP_SHRINKING, 0 },
};
enum { SITES = sizeof(sites) / sizeof(sites[0]) };

static struct sonde_profile *profile_of_sites(void)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    struct sonde_heap *h = sonde__calloc(1, sizeof(*h));
    assert_non_null(h);
    h->full = 1;
    h->tick_s = 0.5;
    h->tick0_ns = TICK0;
    h->sites = sonde__calloc(SITES, sizeof(*h->sites));
    assert_non_null(h->sites);
    h->site_count = SITES;
    for (uint32_t t = 0; t < TICKS; t++) {
        double all = 0;
        for (uint32_t i = 0; i < SITES; i++) {
            const double v = sites[i].curve(t, TICKS);
            sonde_curve_add(&h->sites[i].growth, v);
            h->sites[i].live_bytes = exactly(v > 0 ? v : 0);
            all += v;
        }
        sonde_curve_add(&h->growth, all);
    }
    for (uint32_t i = 0; i < SITES; i++) {
        h->sites[i].stack = build_stack(p, sites[i].stack);
        h->sites[i].live_count = exactly(sites[i].live_count);
        h->sites[i].lost_bytes = h->sites[i].lost_count = -1;
        const struct sonde_profile_sample live = {
            .kind = SONDE_SAMPLE_LIVE, .stack = h->sites[i].stack, .count = 1,
            .weight = (uint64_t)h->sites[i].live_bytes.value,
            .flags = i == 2 ? SONDE_SAMPLE_TRUNCATED : 0 };
        assert_int_equal(sonde_profile_add_sample(p, &live), 0);
    }
    assert_int_equal(sonde_profile_take_heap(p, h), 0);
    return p;
}

/* The sample of kind LEAKED of a site; NULL = none. At most one. */
static const struct sonde_profile_sample *leaked_of(const struct sonde_profile *p, uint32_t site)
{
    const struct sonde_profile_sample *found = NULL;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (s->kind != SONDE_SAMPLE_LEAKED || s->stack != p->heap->sites[site].stack) continue;
        assert_null(found);
        found = s;
    }
    return found;
}

static void profile_without_a_mark(void **state)
{
    (void)state;
    struct sonde_profile *p = profile_of_sites();
    for (int again = 0; again < 2; again++) {
        assert_int_equal(sonde_growth_judge_profile(p), 0);
        const struct sonde_heap *h = p->heap;
        assert_true(h->mark_automatic);
        const double at_s = (double)(h->mark_ns - TICK0) * 1e-9;
        assert_true(at_s > 0.19 * TICKS / 2 && at_s < 0.34 * TICKS / 2);
        for (uint32_t i = 0; i < SITES; i++) {
            assert_int_equal(h->sites[i].verdict, sites[i].verdict);
            assert_true((leaked_of(p, i) != NULL) == (i == 2));
        }
        const struct sonde_heap_site *leak = &h->sites[2];
        assert_true(fabs(leak->slope - 8 * 100000 / (TICKS / 2.0)) < 70);
        assert_true(leak->slope_low > 0);
        assert_true(leak->grown_bytes > 520000 && leak->grown_bytes < 680000);
        assert_true(fabs(leak->mark_count - leak->mark_bytes / 8) < 200);
        assert_int_equal(leaked_of(p, 2)->weight, (uint64_t)(leak->grown_bytes + 0.5));
        assert_int_equal(leaked_of(p, 2)->flags, SONDE_SAMPLE_TRUNCATED);
        assert_int_equal(p->samples_count, SITES + 1);
    }
    sonde_profile_destroy(p);
}

/* More and more often something is in use when it is counted: means rise, zeros stay. */
static double in_flight_more(double t, double n)
{
    return uniform() < 0.1 + 0.3 * t / n ? 64 * (1 + floor(3 * uniform())) : 0;
}

static void lows_that_stay_are_no_leaks(void **state)
{
    (void)state;
    unsigned leaks = 0;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        const struct sonde_curve s = draw(in_flight_more, 60, seed);
        struct sonde_growth g;
        sonde_growth_judge(&s, 1, 0, 0, &g);
        leaks += g.verdict == SONDE_HEAP_LEAK;
    }
    assert_int_equal(leaks, 0);
}

/* The same growth: of 100,000 objects, or of less than one. */
static void profile_of_few_objects(void **state)
{
    (void)state;
    struct sonde_profile *p = profile_of_sites();
    struct sonde_heap_site *s = &p->heap->sites[2];
    p->heap->full = 1;
    s->alloc_bytes.value = 8e5;
    s->alloc_count.value = 1e5;
    assert_int_equal(sonde_growth_judge_profile(p), 0);
    assert_int_equal(s->verdict, SONDE_HEAP_LEAK);
    s->alloc_count.value = 1;
    assert_int_equal(sonde_growth_judge_profile(p), 0);
    assert_int_equal(s->verdict, SONDE_HEAP_UNKNOWN);
    sonde_profile_destroy(p);
}

static void profile_with_a_mark(void **state)
{
    (void)state;
    struct sonde_profile *p = profile_of_sites();
    struct sonde_heap *h = p->heap;
    h->mark_ns = TICK0 + (uint64_t)(TICKS / 4) * 1000000000u; /* half-way */
    h->sites[0].mark_bytes = h->sites[0].live_bytes.value - 1000;
    h->sites[0].mark_count = 19;
    h->sites[1].mark_bytes = h->sites[1].live_bytes.value;
    h->sites[2].mark_bytes = 400000;
    h->sites[2].mark_count = 50000;
    h->sites[3].mark_bytes = 700000;
    assert_int_equal(sonde_growth_judge_profile(p), 0);
    assert_false(h->mark_automatic);
    assert_int_equal(leaked_of(p, 0)->weight, 1000); /* what was added, whatever its verdict */
    assert_int_equal(leaked_of(p, 0)->count, 1);
    assert_null(leaked_of(p, 1));
    assert_int_equal(leaked_of(p, 2)->count, 49583);
    assert_null(leaked_of(p, 3));
    assert_int_equal(h->sites[2].verdict, SONDE_HEAP_LEAK);
    assert_true(h->sites[3].grown_bytes < 0);
    sonde_profile_destroy(p);
}

static void profile_of_what_ended(void **state)
{
    (void)state;
    struct sonde_profile *p = profile_of_sites();
    p->heap->ended = 1;
    assert_int_equal(sonde_growth_judge_profile(p), 0);
    for (uint32_t i = 0; i < SITES - 1; i++) {
        const double live = p->heap->sites[i].live_bytes.value;
        assert_int_equal(leaked_of(p, i)->weight, (uint64_t)(live + 0.5));
        assert_int_equal(leaked_of(p, i)->count, sites[i].live_count);
    }
    p->heap->scanned = 1;
    for (uint32_t i = 0; i < SITES; i++) p->heap->sites[i].lost_bytes = i == 2 ? 800 : 0;
    p->heap->sites[2].lost_count = 100;
    assert_int_equal(sonde_growth_judge_profile(p), 0);
    for (uint32_t i = 0; i < SITES; i++) assert_true((leaked_of(p, i) != NULL) == (i == 2));
    assert_int_equal(leaked_of(p, 2)->weight, 800);
    assert_int_equal(leaked_of(p, 2)->count, 100);
    sonde_profile_destroy(p);
}

/* No curve at all, no heap at all, no memory. */
static void profile_edges(void **state)
{
    (void)state;
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_growth_judge_profile(p), 0);
    sonde_profile_destroy(p);

    p = profile_of_sites();
    memset(&p->heap->growth, 0, sizeof(p->heap->growth));
    for (uint32_t i = 0; i < SITES; i++) {
        memset(&p->heap->sites[i].growth, 0, sizeof(p->heap->sites[i].growth));
    }
    p->heap->tick_s = 0;
    assert_int_equal(sonde_growth_judge_profile(p), 0);
    for (uint32_t i = 0; i < SITES; i++) {
        assert_int_equal(p->heap->sites[i].verdict, SONDE_HEAP_UNKNOWN);
        assert_null(leaked_of(p, i));
    }
    assert_int_equal(p->heap->mark_ns, 0);

    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 10; nth++) {
        sonde__alloc_fail_nth(nth);
        rc = sonde_growth_judge_profile(p);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
    }
    assert_int_equal(rc, 0);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_are_right),
        cmocka_unit_test(walks_are_no_leaks),
        cmocka_unit_test(short_runs_are_unknown),
        cmocka_unit_test(slope_is_by_seconds),
        cmocka_unit_test(warm_up_ends),
        cmocka_unit_test(profile_without_a_mark),
        cmocka_unit_test(lows_that_stay_are_no_leaks),
        cmocka_unit_test(profile_of_few_objects),
        cmocka_unit_test(profile_with_a_mark),
        cmocka_unit_test(profile_of_what_ended),
        cmocka_unit_test(profile_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
