/* Series over the time of a profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "profile/profile.h"
#include "profile/track.h"
#include "sonde/sonde.h"

static struct sonde_profile *make(void)
{
    struct sonde_profile *p = NULL;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    return p;
}

static int put(struct sonde_profile *p, const char *family, uint32_t pid, double value)
{
    const struct sonde_track t = { .family = family, .labels = "a=\"b\"", .program = "x",
                                   .pid = pid, .gauge = 1 };
    return sonde_tracks_put(p, &t, value);
}

static void test_values(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    assert_int_equal(sonde_tracks_tick(p, 10, 1), 0);
    assert_int_equal(put(p, "one", 1, 5), 0);
    assert_int_equal(sonde_tracks_tick(p, 11, 1), 0);
    assert_int_equal(put(p, "one", 2, 7), 0);    /* another process */
    assert_int_equal(put(p, "one", 1, NAN), 0);  /* is not there */
    assert_int_equal(put(p, "one", 1, 1e300), 0); /* more than is kept: alike */
    assert_int_equal(p->tracks->count, 2);
    assert_int_equal(p->tracks->tick_count, 2);
    assert_true(p->tracks->rows[0].values[0] == 5 && isnan(p->tracks->rows[0].values[1]));
    assert_true(isnan(p->tracks->rows[1].values[0]) && p->tracks->rows[1].values[1] == 7);
    sonde_profile_destroy(p);
}

/* More ticks than there is room for: neighbours are joined, weighted by their length. */
static void test_joined(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    for (int i = 0; i < SONDE_TRACK_TICKS_MAX + 1; i++) {
        assert_int_equal(sonde_tracks_tick(p, i, i % 2 ? 3 : 1), 0);
        assert_int_equal(put(p, "all", 1, i % 2 ? 4 : 8), 0);
        if (i % 4 == 0) assert_int_equal(put(p, "some", 1, 2), 0);
    }
    const struct sonde_tracks *t = p->tracks;
    assert_int_equal(t->tick_count, SONDE_TRACK_TICKS_MAX / 2 + 1);
    assert_true(t->ticks[0].end_s == 1 && t->ticks[0].length_s == 4);
    assert_true(t->rows[0].values[0] == 5);                      /* (8 + 3 * 4) / 4 */
    assert_true(t->rows[1].values[0] == 2 && isnan(t->rows[1].values[1]));
    assert_true(t->rows[0].values[t->tick_count - 1] == 8);
    sonde_profile_destroy(p);
}

static void test_merged(void **state)
{
    (void)state;
    struct sonde_profile *p = make(), *from = make();
    assert_int_equal(sonde_tracks_tick(from, 10, 1), 0);
    assert_int_equal(put(from, "one", 1, 5), 0);
    assert_int_equal(sonde_profile_merge(p, from), 0);
    assert_int_equal(p->tracks->count, 1);
    assert_string_equal(p->tracks->rows[0].labels, "a=\"b\"");
    assert_true(p->tracks->rows[0].values[0] == 5);
    assert_int_equal(sonde_profile_merge(p, from), 0); /* p keeps its own */
    assert_int_equal(p->tracks->tick_count, 1);
    sonde_profile_destroy(from);
    sonde_profile_destroy(p);
}

static void test_full(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    char name[32];
    assert_int_equal(sonde_tracks_tick(p, 10, 1), 0);
    for (int i = 0; i < SONDE_TRACKS_MAX; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        assert_int_equal(put(p, name, 1, i), 0);
    }
    assert_int_equal(put(p, "one more", 1, 1), SONDE_ENOMEM);
    assert_int_equal(p->tracks->dropped, 1);
    assert_int_equal(put(p, "s17", 1, 1), 0);
    sonde_profile_destroy(p);
}

static void test_no_memory(void **state)
{
    (void)state;
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 100; nth++) {
        struct sonde_profile *p = make();
        sonde__alloc_fail_nth(nth);
        rc = sonde_tracks_tick(p, 10, 1);
        if (!rc) rc = put(p, "one", 1, 5);
        sonde__alloc_fail_nth(0);
        assert_true(!rc || rc == SONDE_ENOMEM);
        sonde_profile_destroy(p);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_joined),
        cmocka_unit_test(test_merged), cmocka_unit_test(test_full),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
