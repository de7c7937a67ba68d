/* Heap facts in run files: what was saved comes back; older files and tampered ones. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <sqlite3.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "unit/profile/heap_build.h"
#include "unit/store/run/run_file.h"

static struct sonde_profile *create(void)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    build_sample(p, "main;load;malloc", 5, 0, 0);
    assert_int_equal(sonde_profile_take_heap(p, build_heap_facts(p)), 0);
    return p;
}

static const char *name_of(const struct sonde_profile *p, uint32_t stack)
{
    const struct sonde_profile_location *l = &p->locations[p->stacks[stack].location];
    return sonde_profile_str(p, p->functions[p->lines[l->line].function].name);
}

static void test_comes_back(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    save(p);
    struct sonde_profile *q = load();
    const struct sonde_heap *a = p->heap, *b = q->heap;
    assert_non_null(b);
    /* Ids may be others; everything else is the same. */
    assert_int_equal(b->site_count, a->site_count);
    assert_string_equal(sonde_profile_str(q, b->allocator), sonde_profile_str(p, a->allocator));
    for (uint32_t i = 0; i < a->site_count; i++) {
        assert_string_equal(name_of(q, b->sites[i].stack), name_of(p, a->sites[i].stack));
        b->sites[i].stack = a->sites[i].stack;
        assert_memory_equal(&b->sites[i], &a->sites[i], sizeof(a->sites[i]));
    }
    assert_int_equal(b->point_count, a->point_count);
    assert_memory_equal(b->points, a->points, a->point_count * sizeof(*a->points));
    assert_int_equal(b->thread_count, 1);
    assert_int_equal(q->threads[b->threads[0].thread].tid, 2);
    assert_int_equal(b->threads[0].alloc_count, a->threads[0].alloc_count);
    assert_int_equal(b->pool_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_string_equal(sonde_profile_str(q, b->pools[i].name),
                            sonde_profile_str(p, a->pools[i].name));
        assert_int_equal(b->pools[i].mapped, a->pools[i].mapped);
        assert_int_equal(b->pools[i].rss_bytes, a->pools[i].rss_bytes);
    }
    struct sonde_heap plain = *b; /* the rest, but for ids and pointers */
    plain.allocator = a->allocator;
    plain.sites = a->sites;
    plain.points = a->points;
    plain.threads = a->threads;
    plain.pools = a->pools;
    assert_memory_equal(&plain, a, sizeof(plain));
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Sites with the same amount for ever take few bytes. */
static void test_is_small(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    struct sonde_heap *h = p->heap;
    const uint32_t count = 2000;
    sonde__free(h->sites);
    h->sites = sonde__calloc(count, sizeof(*h->sites));
    h->site_count = count;
    for (uint32_t i = 0; i < count; i++) {
        h->sites[i].stack = 1;
        for (int t = 0; t < 60; t++) sonde_curve_add(&h->sites[i].growth, i);
    }
    save(p);
    FILE *f = fopen(path, "rb");
    assert_true(f && fseek(f, 0, SEEK_END) == 0);
    const long bytes = ftell(f);
    fclose(f);
    print_message("%ld bytes a site\n", bytes / count);
    assert_true(bytes < 200 * (long)count);
    sonde_profile_destroy(p);
}

static void test_none(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    sonde_heap_destroy(p->heap);
    p->heap = NULL;
    save(p);
    struct sonde_profile *q = load();
    assert_null(q->heap);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

/* Columns that are not known are passed over, and those that are missing are 0. */
static void test_other_versions(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    save(p);
    edit("ALTER TABLE heap_sites ADD COLUMN colour TEXT; ALTER TABLE heap_sites DROP COLUMN slope;"
         "ALTER TABLE heap DROP COLUMN pss_bytes; CREATE TABLE heap_new(id INTEGER PRIMARY KEY);"
         "DELETE FROM heap_sizes WHERE id > 10; DELETE FROM heap_threads");
    struct sonde_profile *q = load();
    assert_int_equal(q->heap->site_count, BUILD_HEAP_SITES);
    assert_true(q->heap->sites[0].slope == 0 && p->heap->sites[0].slope != 0);
    assert_true(q->heap->sites[0].slope_low == p->heap->sites[0].slope_low);
    assert_int_equal(q->heap->pss_bytes, 0);
    assert_true(q->heap->size_class[9] == p->heap->size_class[9] && q->heap->size_class[10] == 0);
    assert_int_equal(q->heap->thread_count, 0);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

static void test_tampered(void **state)
{
    static const struct { const char *sql, *text; } cases[] = {
        { "UPDATE heap_sites SET stack = 0 WHERE id = 1", "it is of no stack" },
        { "UPDATE heap_sites SET stack = 99999", "no such row" },
        { "UPDATE heap_sites SET stack = 'x'", "stack is not a number" },
        { "UPDATE heap_sites SET verdict = 'maybe'", "no verdict 'maybe'" },
        { "UPDATE heap_sites SET live_bytes = 'much'", "live_bytes is not a number" },
        { "UPDATE heap_sites SET live_bytes = 9e999", "live_bytes is not a number" },
        { "UPDATE heap_sites SET growth = x'00'", "growth is not a series" },
        { "UPDATE heap_sites SET growth = zeroblob(20 + 5 * 65)", "growth is not a series" },
        { "UPDATE heap_sites SET growth = x'00000000' || x'03000000' || zeroblob(12)",
          "growth is not a series" },
        { "UPDATE heap SET growth = zeroblob(20) || x'ff00000000'", "growth is not a series" },
        { "UPDATE heap SET growth = zeroblob(20) || x'010000807f'", "growth is not a series" },
        { "UPDATE heap SET full = -1", "full is" },
        { "DELETE FROM heap", "0 rows of facts" },
        { "INSERT INTO heap SELECT id + 1, full, mean, allocator, mark_ns, mark_automatic, ended,"
          " tick_s, tick0_ns, growth, live_bytes, live_bytes_low, live_bytes_high, live_count,"
          " live_count_low, live_count_high, alloc_bytes, alloc_bytes_low, alloc_bytes_high,"
          " alloc_count, alloc_count_low, alloc_count_high, peak_bytes, peak_ns, rss_bytes,"
          " rss_peak_bytes, pss_bytes, arenas, arena_system, arena_used, arena_free, arena_mapped,"
          " arena_trim, arena_known, lost_events, reentrant, refused, truncated, unmatched, failed,"
          " scanned FROM heap", "2 rows of facts" },
        { "UPDATE heap_threads SET thread = 0", "it is of no thread" },
        { "UPDATE heap_pools SET name = 0", "it is of no name" },
        { "UPDATE heap_pools SET mapped = 1 << 40", "mapped is" },
        { "INSERT INTO heap_sizes VALUES(65, 0, 0, 0)", "more than 64 classes" },
        { "DROP TABLE heap_points", "heap_points" },
    };
    (void)state;
    struct sonde_profile *p = create();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_profile *q = NULL;
        struct sonde_err err = { "" };
        save(p);
        edit(cases[i].sql);
        assert_int_equal(sonde_run_load(path, &q, &err), SONDE_EFORMAT);
        assert_null(q);
        if (!strstr(err.text, cases[i].text)) fail_msg("%s: \"%s\"", cases[i].sql, err.text);
        assert_non_null(strstr(err.text, "is damaged"));
    }
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_without_memory(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    save(p);
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 500; nth++) {
        struct sonde_profile *q = NULL;
        struct sonde_err err = { "" };
        sonde__alloc_fail_nth(nth);
        rc = sonde_run_load(path, &q, &err);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        sonde_profile_destroy(q);
    }
    assert_int_equal(rc, 0);
    for (uint64_t nth = 1; nth < 30; nth++) {
        struct sonde_err err = { "" };
        sonde__alloc_fail_nth(nth);
        rc = sonde_run_save(path, p, &err);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || (rc == SONDE_ENOMEM && err.text[0]));
    }
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_back),     cmocka_unit_test(test_is_small),
        cmocka_unit_test(test_none),           cmocka_unit_test(test_other_versions),
        cmocka_unit_test(test_tampered),       cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
