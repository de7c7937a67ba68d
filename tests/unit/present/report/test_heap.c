/* The heap's part of a report, of facts whose figures can be worked out by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "analyze/growth.h"
#include "present/report/heap.h"
#include "sonde/sonde.h"
#include "unit/present/heap_sample.h"

static char *report(const struct sonde_profile *p, struct sonde_report_options o)
{
    struct sonde_buf b;
    struct sonde_err err = { "" };
    sonde_buf_init(&b, 1 << 22);
    if (sonde_profile_report(p, &o, &b, &err) != 0) fail_msg("%s", err.text);
    return sonde_buf_take(&b);
}

static void has(const char *text, const char *what)
{
    if (!strstr(text, what)) fail_msg("no '%s' in:\n%s", what, text);
}

static void has_not(const char *text, const char *what)
{
    if (strstr(text, what)) fail_msg("'%s' in:\n%s", what, text);
}

static struct sonde_profile *judged(double share)
{
    struct sonde_profile *p = heap_sample(share);
    assert_int_equal(sonde_growth_judge_profile(p), 0);
    return p;
}

static void test_exact_text(void **state)
{
    (void)state;
    struct sonde_profile *p = judged(0);
    char *text = report(p, (struct sonde_report_options){ .filter.kind = -1, .ascii = 1 });
    has(text, "Memory in use of server\n");
    has(text, "in use     76.4 MiB in 99.1k allocations, when last seen\n");
    has(text, "peak       77.2 MiB, 1.89 min after the start\n");
    has(text, "allocated  288 MiB in 199k calls: 1.91 MiB and 1.00k calls a second\n");
    has(text, "temporary  22.6 % of the calls, 29.8 % of the bytes: freed before");
    has(text, "process    101 MiB resident, 103 MiB at its peak, PSS 100 MiB; in use is 76 % of");
    has(text, "libc.so.6: 3 arenas, 89.6 MiB from the system, 8.58 MiB of it free (10 % frag");
    has(text, "61.0 MiB in large blocks; a trim would return 3.81 MiB\n");
    has(text, "method     every allocation: figures are exact\n");
    has(text, "growth     since the end of warm-up, 22.0 s after the start\n");
    has(text, "not seen   7 frees of what was allocated before\n");
    has(text, "up to 76.3 MiB, 2.00 min\n");
    has(text, "Leaks: 1 place, 6.51 KiB a second in all\n\n  grows by 6.51 KiB");
    has(text, "      session_open  src/server.c:99\n      handle        src/server.c:152\n");
    has(text, "  IN USE       %  COUNT  VERDICT         GROWS/s  LIFETIME  ALLOCATED  CALLS  PL");
    has(text, " 775 KiB   1.0 %  99.0k  leak           6.51 KiB              775 KiB  99.0k  se");
    has(text, "cache filling  49.0 KiB             13.8 MiB     20  cache_put     src/server.c:77");
    has(text, "    16 B      32 B  9.50k  16.5 %  #############\n");
    has(text, "4.00 us  16.0 us  1.83k   8.1 %  #######\n");
    has(text, "worker    8    219 MiB  76.2 %   190k\n");
    has(text, "Pools\n\nPOOL             BYTES  RESIDENT\nkv            15.3 MiB\n"
              "[anon:arena]  1.91 MiB  1000 KiB\n");
    has(text, "MAPPING           BYTES  RESIDENT\n/models/m.gguf  381 MiB  61.0 MiB\n");
    has_not(text, "[vdso]");
    has_not(text, "+-");
    /* Before the functions, since it is what was asked for. */
    assert_true(strstr(text, "\nMemory\n") < strstr(text, "\nFunctions\n"));
    sonde__free(text);
    sonde_profile_destroy(p);
}

static void test_estimates(void **state)
{
    (void)state;
    struct sonde_profile *p = judged(0.1);
    char *text = report(p, (struct sonde_report_options){ .filter.kind = -1, .ascii = 1 });
    has(text, "in use     76.4 MiB (68.8 MiB to 84.1 MiB) in 99.1k (89.2k to 109k) allocations");
    has(text, "method     sampled, one allocation in 512 KiB: figures are estimates");
    has(text, "temporary  about 22.6 %");
    has(text, " 775 KiB  +-10 %   1.0 %");
    has(text, "grows by 6.51 KiB (");
    sonde__free(text);
    sonde_profile_destroy(p);
}

static void test_what_is_not_known(void **state)
{
    (void)state;
    struct sonde_profile *p = heap_sample(0);
    struct sonde_heap *h = p->heap;
    h->rss_bytes = 0;
    h->arena_known = 0;
    h->unmatched = 0;
    h->tick_s = 0;
    h->pool_count = h->thread_count = 0;
    h->point_count = 1;
    h->growth.count = 1;
    p->end_ns = 0;
    assert_int_equal(sonde_growth_judge_profile(p), 0);
    char *text = report(p, (struct sonde_report_options){ .filter.kind = -1, .ascii = 1 });
    has(text, "process    its resident memory was not seen\n");
    has(text, "libc.so.6: does not say what it holds\n");
    has(text, "not seen   nothing is missing\n");
    has(text, "growth     no mark, and no end of warm-up to be seen: growth is since the start\n");
    has(text, "allocated  288 MiB in 199k calls\n");
    has(text, "unknown");
    has_not(text, "Leaks:");
    has_not(text, "Pools");
    has_not(text, "curve");
    sonde__free(text);
    text = report(p, (struct sonde_report_options){ .filter.kind = -1,
                                                    .style = SONDE_REPORT_JSON });
    json_t *r = json_loads(text, 0, NULL);
    assert_non_null(r);
    json_t *m = json_object_get(r, "memory");
    assert_true(json_is_null(json_object_get(m, "rss_bytes")));
    assert_true(json_is_null(json_object_get(m, "mark_time")));
    assert_true(json_is_null(json_object_get(m, "seconds")));
    assert_null(json_object_get(json_object_get(m, "allocator"), "arenas"));
    json_decref(r);
    sonde__free(text);
    /* Nothing was allocated at all. */
    h->site_count = 0;
    h->live_bytes = h->alloc_bytes = h->alloc_count = (struct sonde_heap_amount){ 0 };
    text = report(p, (struct sonde_report_options){ .filter.kind = -1, .ascii = 1 });
    has_not(text, "nan");
    has_not(text, "temporary");
    sonde__free(text);
    sonde_profile_destroy(p);
}

static void test_lost(void **state)
{
    (void)state;
    struct sonde_profile *p = judged(0);
    p->heap->ended = p->heap->scanned = 1;
    for (uint32_t i = 0; i < HEAP_SAMPLE_SITES; i++) {
        p->heap->sites[i].lost_bytes = i == 2 ? 800 : i >= 3 ? 12 : 0;
        p->heap->sites[i].lost_count = i == 2 ? 100 : i >= 3;
    }
    char *text = report(p, (struct sonde_report_options){ .filter.kind = -1, .ascii = 1 });
    has(text, "when the process ended\n");
    has(text, "Lost: 824 B in 102 allocations that nothing pointed to at exit\n\n"
              "  800 B in 100 allocations\n      session_open  src/server.c:99\n");
    has(text, "\n\n  12 B in 1 allocation\n      ring_push  src/server.c:120\n");
    has(text, "\n\n  12 B in 1 allocation\n      format_reply  src/server.c:130\n");
    sonde__free(text);
    for (uint32_t i = 0; i < HEAP_SAMPLE_SITES; i++) p->heap->sites[i].lost_bytes = 0;
    text = report(p, (struct sonde_report_options){ .filter.kind = -1, .ascii = 1 });
    has(text, "Lost: nothing\n");
    sonde__free(text);
    sonde_profile_destroy(p);
}

static void test_markdown(void **state)
{
    (void)state;
    struct sonde_profile *p = judged(0.1);
    char *text = report(p, (struct sonde_report_options){
        .filter.kind = -1, .style = SONDE_REPORT_MARKDOWN, .ascii = 1, .limit = 2 });
    has(text, "\n## Memory\n\n- in use: 76.4 MiB (");
    has(text, "\n### Leaks: 1 place, 6.51 KiB a second in all\n\n```\n");
    has(text, "\n### Places that allocate, the first 2 of 5\n\n| IN USE |");
    has(text, "| 775 KiB | +-10 % | 1.0 % | 99.0k | leak |");
    sonde__free(text);
    sonde_profile_destroy(p);
}

/* Every line of a fact fits, and continues under its text. */
static void test_width(void **state)
{
    (void)state;
    struct sonde_profile *p = judged(0.1);
    char *text = report(p, (struct sonde_report_options){ .filter.kind = -1, .ascii = 1,
                                                          .width = 72 });
    char *end = strstr(text, "Leaks:");
    assert_non_null(end);
    *end = '\0';
    for (char *line = text; line && *line;) {
        char *next = strchr(line, '\n');
        if (next) *next++ = '\0';
        if (strlen(line) > 72 && !strstr(line, "curve")) fail_msg("too long: %s", line);
        line = next;
    }
    sonde__free(text);
    sonde_profile_destroy(p);
}

static double number(json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void test_json(void **state)
{
    (void)state;
    struct sonde_profile *p = judged(0.1);
    char *text = report(p, (struct sonde_report_options){ .filter.kind = -1, .limit = 3,
                                                          .style = SONDE_REPORT_JSON });
    json_t *r = json_loads(text, 0, NULL);
    assert_non_null(r);
    json_t *m = json_object_get(r, "memory");
    assert_string_equal(json_string_value(json_object_get(m, "mode")), "sampled");
    assert_true(number(m, "mean_bytes") == 524288 && number(m, "seconds") == 119);
    json_t *in_use = json_object_get(m, "in_use_bytes");
    assert_true(number(in_use, "low") < number(in_use, "value"));
    assert_true(number(in_use, "high") > number(in_use, "value"));
    assert_true(number(m, "peak_bytes") == 81000000 && number(m, "peak_time") == 1700000113.5);
    assert_true(number(m, "leaks") == 1 && number(m, "sites_total") == 5);
    assert_true(json_is_true(json_object_get(m, "mark_automatic")));
    assert_true(json_is_null(json_object_get(m, "lost_bytes")));
    assert_true(number(json_object_get(m, "allocator"), "trim_bytes") == 4000000);
    assert_true(number(json_object_get(m, "not_seen"), "unmatched") == 7);
    json_t *sites = json_object_get(m, "sites");
    assert_int_equal(json_array_size(sites), 3);
    json_t *leak = json_array_get(sites, 0), *frame;
    assert_string_equal(json_string_value(json_object_get(leak, "verdict")), "leak");
    assert_true(number(json_object_get(leak, "bytes_per_second"), "low") > 0);
    assert_true(json_is_null(json_object_get(leak, "lifetime_s")));
    frame = json_array_get(json_object_get(leak, "frames"), 0);
    assert_string_equal(json_string_value(json_object_get(frame, "name")), "session_open");
    assert_string_equal(json_string_value(json_object_get(frame, "file")), "src/server.c");
    assert_true(number(frame, "line") == 99);
    /* Sizes are counted once each, and the classes meet. */
    json_t *sizes = json_object_get(m, "sizes"), *row;
    double sum = 0, all = 0, end = number(json_array_get(sizes, 0), "from_bytes");
    size_t i;
    json_array_foreach(sizes, i, row) {
        assert_true(number(row, "from_bytes") == end);
        end = number(row, "below_bytes");
        sum += number(row, "count");
    }
    for (i = 0; i < SONDE_HEAP_SIZES; i++) all += p->heap->size_class[i];
    assert_true(fabs(sum - all) < 20);
    assert_int_equal(json_array_size(json_object_get(m, "threads")), 2);
    assert_int_equal(json_array_size(json_object_get(m, "pools")), 3); /* the limit */
    assert_int_equal(json_array_size(json_object_get(m, "curve")), HEAP_SAMPLE_TICKS);
    json_decref(r);
    sonde__free(text);
    sonde_profile_destroy(p);
}

/* Facts are of the whole process: nothing of them beside a part of it, or another kind. */
static void test_only_where_it_belongs(void **state)
{
    (void)state;
    struct sonde_profile *p = judged(0);
    const uint32_t thread = sonde_profile_thread(p, 7, 7, "main");
    build_sample(p, "main;burn", 1000, thread, HEAP_SAMPLE_START);
    const struct { struct sonde_profile_filter filter; int shown; } rows[] = {
        { { .kind = -1 }, 1 }, { { .kind = SONDE_SAMPLE_LIVE }, 1 },
        { { .kind = SONDE_SAMPLE_CPU }, 0 }, { { .kind = -1, .thread = "main" }, 0 },
        { { .kind = -1, .from_ns = 1 }, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text = report(p, (struct sonde_report_options){ .filter = rows[i].filter });
        assert_true((strstr(text, "\nMemory\n") != NULL) == rows[i].shown);
        sonde__free(text);
    }
    /* Beside CPU samples it comes last. */
    char *text = report(p, (struct sonde_report_options){ .filter.kind = -1 });
    assert_true(strstr(text, "\nMemory\n") > strstr(text, "\nFunctions\n"));
    sonde__free(text);
    sonde_profile_destroy(p);
}

static void test_frames(void **state)
{
    static const struct { const char *folded, *first; } rows[] = {
        { "main;f;malloc", "f" }, { "main;f;strdup;malloc", "f" },
        { "main;f;operator new(unsigned long)", "f" },
        { "main;f;std::string::assign;operator new(unsigned long)", "f" },
        { "main;f;void std::vector<int>::push_back(int);operator new[](unsigned long)", "f" },
        { "main;f<std::string>(std::string)", "f<std::string>(std::string)" },
        { "malloc", "malloc" }, { "operator new;malloc", "malloc" },
        { "main;mallocate", "mallocate" },
    };
    (void)state;
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct heap_frame frames[8];
        assert_true(heap_frames(p, build_stack(p, rows[i].folded), frames, 8) > 0);
        assert_string_equal(heap_frame_name(&frames[0]), rows[i].first);
    }
    /* Without names: where it is in its module. */
    const struct sonde_profile_module m = { .path = sonde_profile_cstring(p, "/usr/lib/x.so"),
                                            .start = 0x1000, .end = 0x9000, .offset = 0x200 };
    const uint32_t known = sonde_profile_location(p, sonde_profile_module(p, &m), 0x1234);
    const uint32_t unknown = sonde_profile_location(p, 0, 0x77);
    struct heap_frame frames[3];
    const uint32_t stack = sonde_profile_stack(p, sonde_profile_stack(p, 0, unknown), known);
    assert_int_equal(heap_frames(p, stack, frames, 3), 2);
    assert_string_equal(heap_frame_name(&frames[0]), "x.so+0x434");
    assert_string_equal(heap_frame_name(&frames[1]), "0x77");
    assert_int_equal(heap_frames(p, 0, frames, 3), 0);
    sonde_profile_destroy(p);
}

static void test_summary(void **state)
{
    (void)state;
    struct sonde_profile *p = judged(0.1);
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 16);
    sonde_heap_summary(p, 5, 1, &b);
    has(b.data, "heap: 76.4 MiB +-10 % in use, 77.2 MiB at the peak, 288 MiB allocated in 199k "
                "calls (sampled, one in 512 KiB)\nLEAK: 6.51 KiB a second, 628 KiB since the end "
                "of warm-up: session_open  src/server.c:99\n");
    sonde_buf_reset(&b);
    p->heap->ended = p->heap->scanned = p->heap->full = 1;
    p->heap->sites[2].lost_bytes = 800;
    p->heap->sites[2].lost_count = 100;
    sonde_heap_summary(p, 0, 1, &b);
    has(b.data, "in use at exit");
    has(b.data, "(all of them)\nlost: 800 B in 100 allocations that nothing points to\n"
                "and 1 more leak\n");
    sonde_buf_reset(&b);
    p->heap->full = p->heap->scanned = 0;
    p->heap->alloc_count = (struct sonde_heap_amount){ 0 };
    sonde_heap_summary(p, 0, 1, &b);
    has(b.data, "heap: too little was allocated to be sampled (one in 512 KiB)\n");
    sonde_buf_release(&b);
    sonde_profile_destroy(p);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct sonde_profile *p = judged(0);
    const struct sonde_report_options o = { .filter.kind = -1 };
    int rc = SONDE_ENOMEM;
    const int64_t live = sonde__alloc_live();
    for (uint64_t nth = 1; rc && nth < 10000; nth++) {
        struct sonde_buf b;
        sonde_buf_init(&b, 1 << 22);
        sonde__alloc_fail_nth(nth);
        rc = sonde_profile_report(p, &o, &b, NULL);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        sonde_buf_release(&b);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_text), cmocka_unit_test(test_estimates),
        cmocka_unit_test(test_what_is_not_known), cmocka_unit_test(test_lost),
        cmocka_unit_test(test_markdown), cmocka_unit_test(test_width), cmocka_unit_test(test_json),
        cmocka_unit_test(test_only_where_it_belongs), cmocka_unit_test(test_frames),
        cmocka_unit_test(test_summary), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
