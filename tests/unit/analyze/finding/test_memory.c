/* Findings about memory: which function a leak is of, and what is free but held. */
#include "unit/analyze/finding/finding_build.h"
#include "unit/profile/heap_build.h"

#define MIB 1048576.0

static struct sonde_heap_amount exactly(double value)
{
    return (struct sonde_heap_amount){ value, value, value };
}

/* A heap of two sites by their stacks: the first leaks, and so much of the other's memory is still in
 * use, of 1,000 bytes. */
static struct sonde_profile *two_sites(const char *leaking, const char *other, double other_live)
{
    struct sonde_profile *p = find_make(10000);
    struct sonde_heap *h = build_heap_facts(p);
    const char *const stacks[] = { leaking, other };
    h->live_bytes = exactly(1000);
    h->site_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        h->sites[i].stack = build_stack(p, stacks[i]);
        h->sites[i].verdict = i ? SONDE_HEAP_STABLE : SONDE_HEAP_LEAK;
        h->sites[i].live_bytes = exactly(i ? other_live : 1000);
        h->sites[i].alloc_bytes = exactly(1000);
    }
    assert_int_equal(sonde_profile_take_heap(p, h), 0);
    return p;
}

static void test_place(void **state)
{
    (void)state;
    static const struct { const char *leaking, *other; double live; const char *place; } cases[] = {
        /* A wrapper whose memory others free is not the place; one whose memory all stays is. */
        { "main;serve;read_text;get;malloc", "main;serve;parse;get;malloc", 0, "read_text" },
        { "main;serve;read_text;get;malloc", "main;serve;parse;get;malloc", 1000, "get" },
        { "main;serve;read_text;get;malloc", "main;serve;parse;take;malloc", 0, "get" },
        /* Two of them, one in the other. */
        { "main;keep;copy;get;malloc", "main;drop;copy;get;malloc", 0, "keep" },
        /* What heap_frames() knows by name is passed over anyway. */
        { "main;serve;xmalloc;malloc", "main;parse;xmalloc;malloc", 0, "serve" },
        /* Nothing tells the two apart. */
        { "main;get;malloc", "main;get;malloc", 0, "get" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_profile *p = two_sites(cases[i].leaking, cases[i].other, cases[i].live);
        struct sonde_findings *f = find_look(p);
        const struct sonde_finding *leak = find_kind(f, "leak");
        assert_non_null(leak);
        assert_string_equal(leak->subject, cases[i].place);
        sonde_findings_destroy(f);
        sonde_profile_destroy(p);
    }
}

/* A heap with so many MiB in use now, at its peak, resident, and known to the allocator. */
static struct sonde_profile *heap_of(double live, double peak, double resident, double system,
                                     double free)
{
    struct sonde_profile *p = find_make(10000);
    struct sonde_heap *h = build_heap_facts(p);
    h->site_count = 0;
    h->live_bytes = exactly(live * MIB);
    h->live_count = exactly(live * 1000);
    h->peak_bytes = (uint64_t)(peak * MIB);
    h->arena_system = (uint64_t)(system * MIB);
    h->arena_free = (uint64_t)(free * MIB);
    h->arena_trim = 0;
    h->pools[0] = (struct sonde_heap_pool){ sonde_profile_cstring(p, "[heap]"), 1,
                                            (uint64_t)(resident * MIB),
                                            (uint64_t)(resident * MIB) };
    assert_int_equal(sonde_profile_take_heap(p, h), 0);
    return p;
}

static void test_fragmentation(void **state)
{
    (void)state;
    /* As the allocator counts it. */
    find_expect(heap_of(50, 200, 200, 200, 150), "fragmentation");
    find_expect(heap_of(180, 200, 200, 200, 20), NULL);
    /* It was last asked when there was little, but the kernel and the profiler know. */
    find_expect(heap_of(20, 210, 215, 0.1, 0.1), "fragmentation");
    find_expect(heap_of(200, 210, 215, 0.1, 0.1), NULL);
    /* That much may be kept at the end of the heap. */
    find_expect(heap_of(20, 80, 80, 0.1, 0.1), NULL);
    /* Malloc never had that much: others have put it there. */
    find_expect(heap_of(20, 30, 215, 0.1, 0.1), NULL);
    /* The allocator knows of it all and says that it is in use. */
    find_expect(heap_of(20, 210, 215, 215, 5), NULL);
}

/* Much of little is worth knowing, not worth acting on. */
static void test_churn_of_an_idle_program(void **state)
{
    (void)state;
    static const struct { uint64_t length_ms; enum sonde_severity severity; } cases[] = {
        { 1000, SONDE_SEVERITY_WARNING }, { 3000, SONDE_SEVERITY_INFO },
    };
    for (size_t i = 0; i < 2; i++) {
        struct sonde_profile *p = find_make(cases[i].length_ms);
        find_samples(p, "main;serve;malloc", 200);
        find_samples(p, "main;serve", 200);
        struct sonde_findings *f = find_look(p);
        const struct sonde_finding *churn = find_kind(f, "allocation_churn");
        assert_non_null(churn);
        assert_int_equal(churn->severity, cases[i].severity);
        sonde_findings_destroy(f);
        sonde_profile_destroy(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place),
        cmocka_unit_test(test_fragmentation),
        cmocka_unit_test(test_churn_of_an_idle_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
