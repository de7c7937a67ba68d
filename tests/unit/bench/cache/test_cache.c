/* Zipf's law by its probabilities, percentiles by known values, and reads of a real file whose pages
 * are in a known state. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/cache/cache.h"
#include "bench/cache/zipf.h"
#include "sonde/sonde.h"

/* ---- Zipf -------------------------------------------------------------------------------------- */

/* Each of the first ranks, and the mean, within 5 standard deviations of what they are by summing. */
static void test_zipf(void **state)
{
    (void)state;
    static const struct { uint64_t n; double s; } cases[] = { { 1, 1 }, { 2, 0.5 }, { 10, 1 }, { 1000, 0.99 },
                                                              { 100000, 0.7 }, { 1000, 2 }, { 50, 3.5 } };
    enum { DRAWS = 200000 };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const uint64_t n = cases[c].n;
        struct sonde_draw d = { .state = 42 + c };
        struct sonde_zipf z;
        uint64_t counts[6] = { 0 };
        double sum = 0, norm = 0, mean = 0, square = 0;
        for (uint64_t k = 1; k <= n; k++) {
            const double p = pow((double)k, -cases[c].s);
            norm += p;
            mean += p * (double)k;
            square += p * (double)k * (double)k;
        }
        mean /= norm;
        const double deviation = sqrt(square / norm - mean * mean);
        sonde_zipf_init(&z, n, cases[c].s);
        for (int i = 0; i < DRAWS; i++) {
            const uint64_t k = sonde_zipf_draw(&z, &d);
            assert_in_range(k, 1, n);
            if (k <= 5) counts[k]++;
            sum += (double)k;
        }
        assert_true(fabs(sum / DRAWS - mean) <= 5 * deviation / sqrt(DRAWS) + 1e-12);
        for (uint64_t k = 1; k <= 5 && k <= n; k++) {
            const double p = pow((double)k, -cases[c].s) / norm;
            assert_true(fabs((double)counts[k] / DRAWS - p) <= 5 * sqrt(p * (1 - p) / DRAWS) + 1e-12);
        }
    }
}

static void test_places(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 300; n += 7) {
        struct sonde_zipf z;
        unsigned char seen[300] = { 0 };
        sonde_zipf_init(&z, n, 1);
        for (uint64_t k = 1; k <= n; k++) {
            const uint64_t at = sonde_zipf_place(&z, k);
            assert_true(at < n && !seen[at]);
            seen[at] = 1;
        }
    }
}

/* ---- Latencies --------------------------------------------------------------------------------- */

static void test_latency(void **state)
{
    (void)state;
    static struct sonde_cache_latency l, sum;
    memset(&l, 0, sizeof(l));
    assert_true(isnan(sonde_cache_latency_quantile(&l, 0.5)));
    for (uint64_t i = 1; i <= 10000; i++) sonde_cache_latency_add(&l, i * 1000);
    static const double qs[] = { 0.01, 0.5, 0.9, 0.99, 0.999 };
    for (size_t i = 0; i < 5; i++) {
        const double exact = qs[i] * 10000 * 1e-6, got = sonde_cache_latency_quantile(&l, qs[i]);
        assert_true(fabs(got - exact) <= 0.008 * exact + 1e-6);
    }
    assert_true(isnan(sonde_cache_latency_quantile(&l, 0.9999))); /* one value is beyond it */
    memset(&sum, 0, sizeof(sum));
    sonde_cache_latency_merge(&sum, &l);
    sonde_cache_latency_merge(&sum, &l);
    assert_int_equal(sum.count, 20000);
    assert_true(sonde_cache_latency_quantile(&sum, 0.5) == sonde_cache_latency_quantile(&l, 0.5));
    /* The smallest and the largest have a bucket. */
    memset(&l, 0, sizeof(l));
    for (int i = 0; i < 20; i++) sonde_cache_latency_add(&l, i < 10 ? 0 : UINT64_MAX);
    assert_true(sonde_cache_latency_quantile(&l, 0.5) == 0);
    assert_true(sonde_cache_latency_quantile(&l, 0.75) > 1000);
}

/* ---- Files ------------------------------------------------------------------------------------- */

enum { FILE_BYTES = 8 << 20 };

/* On a disk if the temporary folder is on one. */
static int make_file(const char *folder, size_t bytes)
{
    char path[128], piece[65536];
    snprintf(path, sizeof(path), "%s/sonde-cache-XXXXXX", folder);
    const int fd = mkstemp(path);
    if (fd < 0) return -1;
    unlink(path);
    memset(piece, 7, sizeof(piece));
    for (size_t at = 0; at < bytes; at += sizeof(piece)) {
        assert_int_equal(write(fd, piece, bytes - at < sizeof(piece) ? bytes - at : sizeof(piece)),
                         bytes - at < sizeof(piece) ? bytes - at : sizeof(piece));
    }
    assert_int_equal(fsync(fd), 0);
    return fd;
}

static struct sonde_cache_row row_of(enum sonde_cache_state state, enum sonde_cache_pattern pattern, size_t block,
                                     uint32_t threads)
{
    return (struct sonde_cache_row){ .state = state, .pattern = pattern, .block = block, .threads = threads };
}

static const struct sonde_cache_options options = { .duration_s = 0.05, .bytes_max = 1 << 30, .exponent = 0.99,
                                                    .seed = 1 };

static void test_pages(void **state)
{
    (void)state;
    char what[64];
    const int fd = make_file("/var/tmp", FILE_BYTES);
    char page[4096];
    if (fd < 0 || sonde_cache_pages_system(fd, what, sizeof(what))) skip();
    assert_true(sonde_cache_pages_drop(fd, FILE_BYTES) < 0.01);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0); /* no readahead */
    assert_int_equal(pread(fd, page, sizeof(page), 4 << 20), sizeof(page));
    const double one = sonde_cache_pages_resident(fd, FILE_BYTES);
    assert_true(one > 0 && one < 0.2);
    close(fd);
}

static void test_file(void **state)
{
    (void)state;
    static struct sonde_cache_row rows[6];
    struct sonde_cache_target t;
    const int fd = make_file("/var/tmp", FILE_BYTES);
    if (fd < 0) skip();
    rows[0] = row_of(SONDE_CACHE_COLD, SONDE_CACHE_SEQUENTIAL, 65536, 1);
    rows[1] = row_of(SONDE_CACHE_WARM, SONDE_CACHE_SEQUENTIAL, 65536, 2);
    rows[2] = row_of(SONDE_CACHE_WARM, SONDE_CACHE_ZIPF, 4096, 1);
    rows[3] = row_of(SONDE_CACHE_DIRECT, SONDE_CACHE_RANDOM, 4096, 2);
    rows[4] = row_of(SONDE_CACHE_WARM, SONDE_CACHE_RANDOM, 64 << 20, 1);
    rows[5] = row_of(SONDE_CACHE_COLD, SONDE_CACHE_RANDOM, 1 << 20, 1);
    assert_int_equal(sonde_cache_file_run(fd, "file", &options, rows, 6, &t, NULL), 0);
    assert_int_equal(t.bytes, FILE_BYTES);
    if (!t.in_memory) {
        /* A disk so slow that not one block comes in time is not what is tested here. */
        assert_true(rows[0].measured && rows[0].reads <= FILE_BYTES / 65536);
        assert_true(rows[0].resident_before <= 0.01);
        if (rows[0].hits + rows[0].misses) assert_true(rows[0].misses >= 1);
        assert_true(rows[3].measured || rows[3].why[0]);
        assert_int_equal(rows[3].hits, 0);
        assert_true(rows[5].measured && rows[5].resident_before <= 0.01);
    }
    for (int i = 1; i <= 2; i++) {
        assert_true(rows[i].measured && rows[i].reads > 0 && rows[i].bytes == rows[i].reads * rows[i].block);
        assert_int_equal(rows[i].latency.count, rows[i].reads);
        /* Every page was there: every read is a hit, where the kernel tells. */
        if (rows[i].resident_before == 1 && rows[i].hits) assert_int_equal(rows[i].misses, 0);
    }
    assert_false(rows[4].measured);
    assert_non_null(strstr(rows[4].why, "smaller than a block"));
    close(fd);
}

static void test_memory_file(void **state)
{
    (void)state;
    static struct sonde_cache_row rows[2];
    struct sonde_cache_target t;
    const int fd = make_file("/dev/shm", 1 << 20);
    if (fd < 0) skip();
    rows[0] = row_of(SONDE_CACHE_COLD, SONDE_CACHE_RANDOM, 4096, 1);
    rows[1] = row_of(SONDE_CACHE_WARM, SONDE_CACHE_RANDOM, 4096, 1);
    assert_int_equal(sonde_cache_file_run(fd, "file", &options, rows, 2, &t, NULL), 0);
    assert_true(t.in_memory);
    assert_false(rows[0].measured);
    assert_non_null(strstr(rows[0].why, "tmpfs"));
    assert_true(rows[1].measured);
    close(fd);
}

static void test_empty(void **state)
{
    (void)state;
    struct sonde_cache_row row = row_of(SONDE_CACHE_WARM, SONDE_CACHE_RANDOM, 4096, 1);
    struct sonde_cache_target t;
    struct sonde_err err = { "" };
    const int fd = make_file("/dev/shm", 0);
    if (fd < 0) skip();
    assert_int_equal(sonde_cache_file_run(fd, "file", &options, &row, 1, &t, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "empty"));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zipf), cmocka_unit_test(test_places), cmocka_unit_test(test_latency),
        cmocka_unit_test(test_pages), cmocka_unit_test(test_file), cmocka_unit_test(test_memory_file),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
