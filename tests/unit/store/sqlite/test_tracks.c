/* Series of a store as tracks: values of each step, whose they are, and what does not fit. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "profile/track.h"
#include "store/tracks.h"
#include "unit/store/sqlite/store_build.h"

static const struct sonde_track *track_of(const struct sonde_profile *p, const char *family)
{
    for (uint32_t i = 0; i < p->tracks->count; i++) {
        if (!strcmp(p->tracks->rows[i].family, family)) return &p->tracks->rows[i];
    }
    fail_msg("no track %s", family);
    return NULL;
}

static void test_values(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 50 });
    struct load l = new_load(s, 2, 2, 1);
    struct sonde_profile *p;
    struct sonde_err err = { "" };
    add_ticks(&l, 100);
    flush(s);
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_store_tracks(OPS, s, "g0|c1|h0", START_S, START_S + 100, p, &err), 0);
    assert_int_equal(p->tracks->tick_count, 100);
    assert_true(p->tracks->ticks[0].length_s == 1);
    assert_int_equal(p->tracks->count, 4); /* a histogram is two */
    assert_true(track_of(p, "g0")->gauge && !track_of(p, "c1")->gauge);
    for (uint32_t i = 2; i < 100; i++) {
        assert_true(track_of(p, "g0")->values[i] == (float)i);
        assert_true(track_of(p, "c1")->values[i] == 2);
        assert_true(track_of(p, "h0_count")->values[i] == (float)(i % 10 + 1));
        assert_true(track_of(p, "h0_sum")->values[i] == (float)(i % 10 + 1));
    }
    assert_string_equal(track_of(p, "g0")->labels, "index=\"0\",text=\"a\\\"b\"");
    sonde_profile_destroy(p);
    /* Coarser over a longer time, of which nothing is known but for the end. */
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_store_tracks(OPS, s, "g0", START_S - 900, START_S + 100, p, &err), 0);
    assert_int_equal(p->tracks->tick_count, 500);
    assert_true(isnan(track_of(p, "g0")->values[449]));
    assert_true(track_of(p, "g0")->values[460] == 20.5f);
    sonde_profile_destroy(p);
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_store_tracks(OPS, s, NULL, START_S, START_S, p, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "empty"));
    sonde_profile_destroy(p);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_steps(void **unused)
{
    (void)unused;
    static const struct { double seconds, step; } rows[] = {
        { 1, 1 }, { 511, 1 }, { 512, 2 }, { 3600, 10 }, { 86400, 300 }, { 30 * 86400.0, 7200 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const double step = sonde_store_step_s(rows[i].seconds, 511);
        if (step != rows[i].step) fail_msg("%g s: %g", rows[i].seconds, step);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(test_values), TEST(test_steps) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
