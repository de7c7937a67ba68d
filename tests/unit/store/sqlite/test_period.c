/* A stretch of time as one profile: sums of any range add up, buckets come with them, spans and
 * requests are those of that time, and what is not there is said. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "profile/final.h"
#include "profile/track.h"
#include "store/period.h"
#include "unit/store/sqlite/store_build.h"

/* ---- The whole of a range -------------------------------------------------------------------- */

struct sums {
    double sum[4], count[4], last[4];  /* g0, c0, c1, h0 */
    uint64_t buckets, bucket_values;   /* of h0 */
    size_t series, points;
};

static void on_buckets(uint64_t zero, const uint64_t n[SONDE__HIST_BUCKETS], void *arg)
{
    struct sums *s = arg;
    assert_int_equal(zero, 0);
    for (uint32_t p = 0; p < SONDE__HIST_BUCKETS; p++) {
        s->buckets += n[p] != 0;
        s->bucket_values += n[p];
    }
}

static void on_series(const struct sonde_store_series *series, const struct sonde_store_point *all,
                      const struct sonde_store_point *points, size_t count, void *arg)
{
    static const char *const names[] = { "g0", "c0", "c1", "h0" };
    struct sums *s = arg;
    (void)points;
    s->points += count;
    s->series++;
    for (size_t i = 0; i < 4; i++) {
        if (strcmp(series->name, names[i]) != 0) continue;
        s->sum[i] = all->sum;
        s->count[i] = all->count;
        s->last[i] = all->last;
    }
}

static struct sums sums_of(struct sonde_store *s, double from_s, double to_s)
{
    struct sums out = { .series = 0 };
    struct sonde_err err = { "" };
    const struct sonde_store_query q = { .from_s = from_s, .to_s = to_s, .whole = 1,
                                         .step_s = 1 };
    const struct sonde_store_sink sink = { .series = on_series, .buckets = on_buckets,
                                           .arg = &out };
    assert_int_equal(OPS->query(s, &q, &sink, &err), 0);
    return out;
}

static void test_whole(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 50 });
    struct load l = new_load(s, 1, 2, 1);
    add_ticks(&l, 100);
    flush(s);
    const struct sums all = sums_of(s, START_S - 10, START_S + 200);
    assert_int_equal(all.series, 4);
    assert_int_equal(all.points, 0);
    assert_true(all.sum[1] == 100 && all.sum[2] == 200);
    assert_true(all.count[3] == 550 && all.bucket_values == 550 && all.buckets == 1);
    assert_true(all.last[0] == 99 && all.count[0] == 100);
    /* Wherever it is cut, to the tick, the two sides are the whole. */
    for (double cut = 3.25; cut < 100; cut += 12.75) {
        const struct sums a = sums_of(s, START_S - 10, START_S + cut);
        const struct sums b = sums_of(s, START_S + cut, START_S + 200);
        for (int i = 0; i < 4; i++) {
            assert_true(a.sum[i] + b.sum[i] == all.sum[i]);
            assert_true(a.count[i] + b.count[i] == all.count[i]);
        }
        assert_true(a.bucket_values + b.bucket_values == all.bucket_values);
        assert_true(a.last[0] == floor(cut));
    }
    /* A tick is of the time before it. */
    const struct sums one = sums_of(s, START_S + 10, START_S + 11);
    assert_true(one.sum[1] == 1 && one.last[0] == 11);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- A profile ------------------------------------------------------------------------------- */

static void test_times(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 50 });
    const struct sonde_period_source from = { OPS, s, OPS, s };
    struct sonde_history_query q = { .from_s = START_S - 1000, .to_s = START_S + 30 };
    struct load l = new_load(s, 1, 1, 1);
    struct sonde_profile *p = NULL;
    struct sonde_err err = { "" };
    add_ticks(&l, 100);
    flush(s);
    /* The runs of this store are of now, its ticks of START_S: both are looked at. */
    assert_int_equal(sonde_period_profile(&from, &q, 2e9, &p, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "there is a history from"));
    q = (struct sonde_history_query){ .from_s = START_S + 20, .to_s = START_S + 10 };
    assert_int_equal(sonde_period_profile(&from, &q, 2e9, &p, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "ends before it begins"));
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(test_whole), TEST(test_times) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
