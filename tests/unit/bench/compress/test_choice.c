/* Fronts, choices and bandwidths of rows whose times and sizes are given. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/compress/compress.h"

#define ROWS_MAX 8
enum { INPUT = 1000000 };

static const struct sonde_codec none = { .name = "none" }, fast = { .name = "fast", .level_max = 9 },
                                slow = { .name = "slow", .level_max = 9 };

/* Two turns of each: no spread, unless noise is given. */
static double times[ROWS_MAX][2][2];
static struct sonde_compress_row rows[ROWS_MAX];
static size_t count;

static void begin(void)
{
    memset(rows, 0, sizeof(rows));
    count = 0;
}

static struct sonde_compress_row *row(const struct sonde_codec *codec, int level, uint64_t packed, double pack_s,
                                      double unpack_s)
{
    struct sonde_compress_row *r = &rows[count];
    for (int i = 0; i < 2; i++) {
        times[count][0][i] = pack_s;
        times[count][1][i] = unpack_s;
    }
    *r = (struct sonde_compress_row){ .codec = codec, .level = level, .threads = 1, .turns = 2,
        .state = SONDE_COMPRESS_MEASURED, .packed_bytes = packed, .pack_s = times[count][0],
        .unpack_s = times[count][1] };
    count++;
    return r;
}

static const struct sonde_compress_needs needs = { .bytes = INPUT, .threads = 1, .saving_min = 0.05,
    .bandwidth_bytes_per_s = 100e6, .archive_slack = 0.01 };

static const struct sonde_compress_row *choose(enum sonde_compress_use use, double bandwidth)
{
    struct sonde_compress_choice c;
    struct sonde_compress_needs n = needs;
    if (bandwidth > 0) n.bandwidth_bytes_per_s = bandwidth;
    sonde_compress_choose(rows, count, &n, use, &c);
    assert_true(c.why[0]);
    return c.row;
}

static void test_fronts(void **state)
{
    (void)state;
    begin();
    row(&none, 0, INPUT, 0.0001, 0.0001);
    row(&fast, 1, 600000, 0.002, 0.001);
    row(&fast, 2, 610000, 0.003, 0.0005);  /* beaten at packing by fast:1, not at unpacking */
    row(&slow, 1, 400000, 0.02, 0.004);
    row(&slow, 2, 400000, 0.02, 0.005);    /* as good at packing, worse at unpacking */
    row(&slow, 3, 700000, 0.5, 0.5);       /* beaten in all */
    row(&slow, 4, 300000, 0.9, 0.9)->threads = 2; /* another race */
    sonde_compress_fronts(rows, count);
    static const struct { unsigned pack, unpack; } wanted[] = { { 1, 1 }, { 1, 1 }, { 0, 1 }, { 1, 1 }, { 1, 0 },
                                                                { 0, 0 }, { 1, 1 } };
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(rows[i].pack_front, wanted[i].pack);
        assert_int_equal(rows[i].unpack_front, wanted[i].unpack);
    }
    rows[0].state = SONDE_COMPRESS_FAILED;
    sonde_compress_fronts(rows, count);
    assert_int_equal(rows[0].pack_front, 0);
}

static void test_choices(void **state)
{
    (void)state;
    begin();
    row(&none, 0, INPUT, 0.0001, 0.0001);
    const struct sonde_compress_row *quick = row(&fast, 1, 960000, 0.0005, 0.0005); /* saves 4 % only */
    const struct sonde_compress_row *one = row(&fast, 2, 600000, 0.002, 0.001);
    const struct sonde_compress_row *small = row(&slow, 1, 400000, 0.02, 0.004);
    const struct sonde_compress_row *smallest = row(&slow, 9, 398000, 0.9, 0.01);
    assert_ptr_equal(choose(SONDE_COMPRESS_FAST, 0), one);
    /* 0.5 % larger and 38 times as fast; without slack the smallest. */
    assert_ptr_equal(choose(SONDE_COMPRESS_ARCHIVE, 0), small);
    struct sonde_compress_needs exact = needs;
    struct sonde_compress_choice c;
    exact.archive_slack = 0;
    sonde_compress_choose(rows, count, &exact, SONDE_COMPRESS_ARCHIVE, &c);
    assert_ptr_equal(c.row, smallest);
    /* By hand: T = a + s / B. At 10 GB/s a copy: 0.2 + 0.1 ms. At 100 MB/s fast:2: 3 + 6 ms against 10.2, 10.6
     * and 28. At 5 MB/s slow:1: 24 + 80 against 123 of fast:2. At 1 kB/s slow:9: 398.91 s against 400.024. */
    static const double rates[] = { 1e10, 100e6, 5e6, 1e3 };
    const struct sonde_compress_row *const wanted[] = { &rows[0], one, small, smallest };
    for (size_t i = 0; i < 4; i++) assert_ptr_equal(choose(SONDE_COMPRESS_NETWORK, rates[i]), wanted[i]);
    (void)quick;
}

static void test_nothing(void **state)
{
    (void)state;
    struct sonde_compress_choice c;
    begin();
    row(&none, 0, INPUT, 0.0001, 0.0001);
    row(&fast, 1, INPUT + 100, 0.002, 0.001);
    row(&slow, 1, 100, 0.002, 0.001)->state = SONDE_COMPRESS_FAILED;
    row(&slow, 2, 100, 0.002, 0.001)->turns = 0;
    assert_null(choose(SONDE_COMPRESS_FAST, 0));
    assert_null(choose(SONDE_COMPRESS_ARCHIVE, 0));
    assert_ptr_equal(choose(SONDE_COMPRESS_NETWORK, 0), &rows[0]);
    sonde_compress_choose(rows, 0, &needs, SONDE_COMPRESS_NETWORK, &c);
    assert_null(c.row);
}

/* Within what turns differ, the smaller one; but not far behind the best. */
static void test_ties(void **state)
{
    (void)state;
    struct sonde_compress_choice c;
    begin();
    row(&fast, 1, 600000, 0.00100, 0.001);
    row(&fast, 2, 500000, 0.00101, 0.001);
    row(&fast, 3, 400000, 0.00150, 0.001);
    sonde_compress_choose(rows, count, &needs, SONDE_COMPRESS_FAST, &c);
    assert_ptr_equal(c.row, &rows[0]);
    assert_null(c.tie);
    for (size_t i = 0; i < count; i++) times[i][0][1] *= 1.05;
    sonde_compress_choose(rows, count, &needs, SONDE_COMPRESS_FAST, &c);
    assert_ptr_equal(c.row, &rows[1]);
    assert_ptr_equal(c.tie, &rows[0]);
}

/* The spans are where choosing by single bandwidths changes its mind. */
static void test_spans(void **state)
{
    (void)state;
    struct sonde_compress_span spans[ROWS_MAX];
    begin();
    row(&none, 0, INPUT, 0.0001, 0.0001);
    row(&fast, 1, 600000, 0.002, 0.001);
    row(&fast, 2, 590000, 0.5, 0.5);       /* never the fastest */
    row(&slow, 1, 400000, 0.02, 0.004);
    row(&slow, 9, 398000, 0.9, 0.01);
    const size_t n = sonde_compress_spans(rows, count, 1, spans, ROWS_MAX);
    assert_int_equal(n, 4);
    assert_true(isinf(spans[0].to_bytes_per_s));
    assert_true(spans[n - 1].from_bytes_per_s == 0);
    assert_true(fabs(spans[0].from_bytes_per_s - 400000 / 0.0028) < 1);
    assert_true(fabs(spans[1].from_bytes_per_s - 200000 / 0.021) < 1);
    for (size_t i = 0; i < n; i++) {
        const double high = isinf(spans[i].to_bytes_per_s) ? spans[i].from_bytes_per_s * 10 : spans[i].to_bytes_per_s;
        assert_ptr_equal(choose(SONDE_COMPRESS_NETWORK, high * 0.999), spans[i].row);
        assert_ptr_equal(choose(SONDE_COMPRESS_NETWORK, (spans[i].from_bytes_per_s + 1) * 1.001), spans[i].row);
        if (i) assert_true(spans[i].to_bytes_per_s == spans[i - 1].from_bytes_per_s);
    }
    assert_int_equal(sonde_compress_spans(rows, count, 7, spans, ROWS_MAX), 0);
    assert_int_equal(sonde_compress_spans(rows, count, 1, spans, 2), 2);
}

static void test_sums(void **state)
{
    (void)state;
    const double s[] = { 3, 1, 2 };
    assert_true(sonde_compress_best(s, 3) == 1);
    assert_true(sonde_compress_mean(s, 3) == 2);
    assert_true(fabs(sonde_compress_noise(s, 3) - 4.302652729911 / sqrt(3) / 2) < 1e-9);
    assert_true(isnan(sonde_compress_best(s, 0)));
    assert_true(isnan(sonde_compress_noise(s, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fronts), cmocka_unit_test(test_choices), cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_ties), cmocka_unit_test(test_spans), cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
