/* Series over the time of a recording in run files: what was saved comes back; tampered ones do
 * not. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>

#include "base/alloc.h"
#include "profile/track.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"
#include "unit/store/run/run_file.h"

static struct sonde_profile *create(void)
{
    struct sonde_profile *p;
    const struct sonde_track a = { .family = "cpu", .labels = "mode=\"user\"", .program = "x",
                                   .pid = 7 };
    const struct sonde_track b = { .family = "memory", .labels = "", .program = "", .gauge = 1 };
    assert_int_equal(sonde_profile_create(0, &p), 0);
    build_sample(p, "main;forward", 5, 0, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sonde_tracks_tick(p, 1700000000 + i, 1), 0);
        assert_int_equal(sonde_tracks_put(p, &a, 0.25 * i), 0);
        if (i == 1) assert_int_equal(sonde_tracks_put(p, &b, 4096), 0);
    }
    return p;
}

static void comes_back(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    save(p);
    struct sonde_profile *q = load();
    const struct sonde_tracks *t = q->tracks;
    assert_non_null(t);
    assert_int_equal(t->count, 2);
    assert_int_equal(t->tick_count, 3);
    assert_true(t->ticks[2].end_s == 1700000002 && t->ticks[2].length_s == 1);
    assert_string_equal(t->rows[0].family, "cpu");
    assert_string_equal(t->rows[0].labels, "mode=\"user\"");
    assert_string_equal(t->rows[0].program, "x");
    assert_int_equal(t->rows[0].pid, 7);
    assert_int_equal(t->rows[1].gauge, 1);
    assert_true(t->rows[0].values[2] == 0.5f);
    assert_true(isnan(t->rows[1].values[0]) && t->rows[1].values[1] == 4096);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void what_cannot_be_is_refused(void **state)
{
    static const struct { const char *sql, *says; } rows[] = {
        { "UPDATE tracks SET data='text' WHERE id=1", "data is not a blob" },
        { "UPDATE tracks SET data=x'1234' WHERE id=1", "values are not those of 3 ticks" },
        { "UPDATE tracks SET data=(SELECT data FROM tracks WHERE id=2) WHERE id=1; "
          "DELETE FROM track_ticks WHERE id=3", "values are not those of 2 ticks" },
        { "UPDATE tracks SET gauge=2 WHERE id=1", "gauge is 2" },
        { "UPDATE tracks SET family=9999 WHERE id=1", "family is 9999" },
        { "UPDATE track_ticks SET length_s=-1 WHERE id=1", "its time cannot be" },
        { "UPDATE track_ticks SET end_s=5 WHERE id=2", "its time cannot be" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sonde_profile *p = create(), *q = NULL;
        struct sonde_err err = { "" };
        save(p);
        edit(rows[i].sql);
        assert_int_equal(sonde_run_load(path, &q, &err), SONDE_EFORMAT);
        if (!strstr(err.text, rows[i].says)) fail_msg("%s: %s", rows[i].sql, err.text);
        sonde_profile_destroy(p);
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

static void none(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    save(p);
    edit("DROP TABLE tracks");
    struct sonde_profile *q = load();
    assert_null(q->tracks);
    sonde_profile_destroy(q);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(none),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
