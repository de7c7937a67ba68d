/* Columns of numbers: what was put comes back to the bit, in few bytes, and a damaged column is
 * refused without reading past its end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/chunk.h"
#include "store/chunk_hist.h"

enum { N = 600 };

static uint64_t state = 88172645463325252ull;
static uint64_t random_u64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}
static double uniform(void) { return (double)(random_u64() >> 11) * 0x1p-53; }

static uint64_t bits(double d)
{
    uint64_t v;
    memcpy(&v, &d, sizeof(v));
    return v;
}

/* Bytes that n numbers take; all come back. */
static size_t round_trip(enum sonde_chunk_type type, const uint64_t *v, uint32_t n)
{
    static uint64_t back[SONDE_CHUNK_MAX];
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    sonde_chunk_put(&b, type, v, n);
    sonde_chunk_put_varint(&b, 0xabcdef); /* a column ends where the next begins */
    assert_int_equal(b.error, 0);
    unsigned char *exact = malloc(b.len);
    assert_non_null(exact);
    memcpy(exact, b.data, b.len);
    struct sonde_chunk_in in = { exact, exact + b.len, 0 };
    memset(back, 0xaa, sizeof(back));
    sonde_chunk_get(&in, type, back, n);
    assert_int_equal(in.bad, 0);
    assert_memory_equal(back, v, n * sizeof(*v));
    assert_int_equal(sonde_chunk_get_varint(&in), 0xabcdef);
    assert_ptr_equal(in.at, in.end);
    const size_t len = b.len - 4;
    free(exact);
    sonde_buf_release(&b);
    return len;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static uint64_t total;
static double level;
static uint64_t make_constant(uint32_t i) { return i ? 42 : 42; }
static uint64_t make_clock(uint32_t i) { return 1763260118000u + 1000u * i + random_u64() % 3; }
static uint64_t make_counter(uint32_t i) { return total += i ? 95 + random_u64() % 11 : 1000000; }
static uint64_t make_idle(uint32_t i) { return total += i % 100 == 7; }
static uint64_t make_pages(uint32_t i)
{
    (void)i;
    return bits((double)(total += 4096 * (random_u64() % 3)) + 1e9);
}
static uint64_t make_cpu_ns(uint32_t i) { (void)i; return total += 10000000 * (random_u64() % 5); }
static uint64_t make_percent(uint32_t i)
{
    (void)i;
    return bits((double)(random_u64() % 1000) / 10);
}
static uint64_t make_millis(uint32_t i)
{
    (void)i;
    return bits((double)(40000 + random_u64() % 500) / 1000);
}
static uint64_t make_walk(uint32_t i) { (void)i; return bits(level += floor(uniform() * 9) - 4); }
static uint64_t make_ratio(uint32_t i) { (void)i; return bits(0.5 + uniform() / 10); }
static uint64_t make_odd(uint32_t i) { return i ? bits(M_PI) : bits(M_PI); }
static uint64_t make_noise(uint32_t i) { (void)i; return random_u64(); }
static uint64_t make_leaps(uint32_t i) { return i % 2 ? UINT64_MAX : i % 3 ? 0 : 1ull << 63; }

static const struct shape {
    const char *name;
    enum sonde_chunk_type type;
    uint64_t (*make)(uint32_t i);
    double bytes_max; /* a number */
} shapes[] = {
    { "constant", SONDE_CHUNK_INTEGERS, make_constant, 0.01 },
    { "clock", SONDE_CHUNK_INTEGERS, make_clock, 0.35 },
    { "counter", SONDE_CHUNK_INTEGERS, make_counter, 0.6 },
    { "idle counter", SONDE_CHUNK_INTEGERS, make_idle, 0.1 },
    { "memory in pages", SONDE_CHUNK_DOUBLES, make_pages, 0.35 },
    { "CPU time", SONDE_CHUNK_INTEGERS, make_cpu_ns, 0.5 },
    { "percentage", SONDE_CHUNK_DOUBLES, make_percent, 1.35 },
    { "milliseconds", SONDE_CHUNK_DOUBLES, make_millis, 1.25 },
    { "walk", SONDE_CHUNK_DOUBLES, make_walk, 0.6 },
    { "quotient", SONDE_CHUNK_DOUBLES, make_ratio, 7.6 },
    { "constant that is no decimal", SONDE_CHUNK_DOUBLES, make_odd, 0.02 },
    { "noise", SONDE_CHUNK_INTEGERS, make_noise, 8.2 },
    { "noise as doubles", SONDE_CHUNK_DOUBLES, make_noise, 8.6 },
    { "leaps", SONDE_CHUNK_INTEGERS, make_leaps, 10.7 },
};

static void test_shapes(void **unused)
{
    (void)unused;
    static uint64_t v[SONDE_CHUNK_MAX];
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        total = 0;
        level = 500;
        for (uint32_t i = 0; i < SONDE_CHUNK_MAX; i++) v[i] = shapes[s].make(i);
        const double each = (double)round_trip(shapes[s].type, v, N) / N;
        print_message("%-28s %.3f bytes a number\n", shapes[s].name, each);
        if (each > shapes[s].bytes_max) fail_msg("%s: %.3f bytes", shapes[s].name, each);
        for (uint32_t n = 0; n < 70; n++) round_trip(shapes[s].type, v, n);
        round_trip(shapes[s].type, v, SONDE_CHUNK_MAX);
    }
}

static void test_special_doubles(void **unused)
{
    (void)unused;
    const double special[] = { NAN,  -0.0,  0.0,     INFINITY,
                               -INFINITY, 5e-324, 1.7976931348623157e308, 1e15,
                               1e-12, 1e-13,   -1.5,     0.1,       2.5e-7, 9007199254740993.0,
                               -9007199254740992.0,  9007199254740992.0,  1e17 };
    const size_t n = sizeof(special) / sizeof(special[0]);
    uint64_t v[2];
    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < n; b++) {
            v[0] = bits(special[a]);
            v[1] = bits(special[b]);
            round_trip(SONDE_CHUNK_DOUBLES, v, 2);
        }
    }
}

/* Sizes of numbers change within a column. */
static void test_mixed(void **unused)
{
    (void)unused;
    uint64_t v[N];
    for (int round = 0; round < 200; round++) {
        const unsigned type = (unsigned)random_u64() % 2;
        for (uint32_t i = 0; i < N; i++) {
            const unsigned shift = (unsigned)(random_u64() % 64);
            v[i] = random_u64() % 4 ? random_u64() >> shift : v[i ? i - 1 : 0];
            if (type && random_u64() % 2) v[i] = bits((double)(int64_t)v[i] / 100);
        }
        round_trip((enum sonde_chunk_type)type, v, (uint32_t)(random_u64() % N));
    }
}

static void test_damaged(void **unused)
{
    (void)unused;
    uint64_t v[N], back[N];
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        struct sonde_buf b;
        sonde_buf_init(&b, 1 << 20);
        for (uint32_t i = 0; i < N; i++) v[i] = shapes[s].make(i);
        sonde_chunk_put(&b, shapes[s].type, v, N);
        for (size_t cut = 0; cut < b.len; cut += 1 + b.len / 97) { /* every prefix is too short */
            unsigned char *exact = malloc(cut ? cut : 1);
            assert_non_null(exact);
            memcpy(exact, b.data, cut);
            struct sonde_chunk_in in = { exact, exact + cut, 0 };
            sonde_chunk_get(&in, shapes[s].type, back, N);
            assert_int_equal(in.bad, 1);
            assert_int_equal(back[0], 0);
            free(exact);
        }
        sonde_buf_release(&b);
    }
    const unsigned char kinds[] = { 0x03, 0x07, 0x20, 0x0a, 0xff };
    for (size_t i = 0; i < sizeof(kinds); i++) {
        struct sonde_chunk_in in = { kinds + i, kinds + i + 1, 0 };
        sonde_chunk_get(&in, SONDE_CHUNK_DOUBLES, back, 3);
        assert_int_equal(in.bad, 1);
    }
    const unsigned char digits[] = { 0x01, 13, 0, 1, 0, 0, 0 };
    struct sonde_chunk_in in = { digits, digits + sizeof(digits), 0 };
    sonde_chunk_get(&in, SONDE_CHUNK_DOUBLES, back, 3);
    assert_int_equal(in.bad, 1);
}

/* ---- Histograms ------------------------------------------------------------------------------ */

/* What a tick of a latency histogram adds: some records around the same value. */
static void random_delta(struct sonde_hist_delta *d, struct sonde_hist_bucket *buckets)
{
    uint32_t counts[200] = { 0 };
    *d = (struct sonde_hist_delta){ .bucket = buckets };
    if (random_u64() % 10 == 0) return; /* nothing happened */
    d->zero = random_u64() % 5 == 0;
    d->sum_raw = random_u64() % 1000000000u - (random_u64() % 7 == 0 ? 2000000000u : 0);
    for (uint32_t n = 40 + (uint32_t)(random_u64() % 20); n > 0; n--) {
        counts[(random_u64() % 40 + random_u64() % 40 + random_u64() % 40)]++;
    }
    if (random_u64() % 9 == 0) counts[199] = UINT32_MAX; /* far off, and many */
    for (uint32_t p = 0; p < 200; p++) {
        if (!counts[p]) continue;
        const uint16_t at = (uint16_t)(p == 199 ? SONDE__HIST_BUCKETS - 1 : 1900 + p);
        buckets[d->bucket_count++] = (struct sonde_hist_bucket){ at, counts[p] };
    }
}

static void test_histograms(void **unused)
{
    (void)unused;
    struct sonde_hist_bucket buckets[200];
    struct sonde_hist_delta d;
    struct sonde_buf entries, chunk;
    struct sonde_hist_column column = { 0 }, back = { 0 };
    sonde_buf_init(&entries, 1 << 24);
    sonde_buf_init(&chunk, 1 << 24);
    for (uint32_t i = 0; i < N; i++) {
        random_delta(&d, buckets);
        sonde_chunk_put_entry(&entries, &d);
    }
    assert_int_equal(entries.error, 0);
    const unsigned char *data = (const unsigned char *)entries.data;
    struct sonde_chunk_in in = { data, data + entries.len, 0 }, skip = in;
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(sonde_hist_column_add(&column, &in), 0);
        sonde_chunk_skip_entry(&skip);
        assert_ptr_equal(skip.at, in.at);
    }
    assert_ptr_equal(in.at, in.end);
    sonde_chunk_put_hist(&chunk, &column);
    assert_int_equal(chunk.error, 0);
    print_message("a bucket: %.3f bytes as entries, %.3f as a chunk\n",
                  (double)entries.len / column.buckets, (double)chunk.len / column.buckets);
    assert_true((double)chunk.len < 1.3 * column.buckets); /* one in 300 is UINT32_MAX */

    data = (const unsigned char *)chunk.data;
    in = (struct sonde_chunk_in){ data, data + chunk.len, 0 };
    assert_int_equal(sonde_chunk_get_hist(&in, N, &back), 0);
    assert_ptr_equal(in.at, in.end);
    assert_int_equal(back.n, N);
    assert_int_equal(back.buckets, column.buckets);
    assert_memory_equal(back.zero, column.zero, N * sizeof(*back.zero));
    assert_memory_equal(back.sum_raw, column.sum_raw, N * sizeof(*back.sum_raw));
    assert_memory_equal(back.end, column.end, N * sizeof(*back.end));
    assert_memory_equal(back.p, column.p, back.buckets * sizeof(*back.p));
    assert_memory_equal(back.count, column.count, back.buckets * sizeof(*back.count));
    for (size_t cut = 0; cut < chunk.len; cut += 1 + chunk.len / 53) {
        in = (struct sonde_chunk_in){ data, data + cut, 0 };
        sonde_hist_column_reset(&back);
        assert_int_equal(sonde_chunk_get_hist(&in, N, &back), SONDE_EFORMAT);
    }
    sonde_hist_column_release(&back);
    sonde_hist_column_release(&column);
    sonde_buf_release(&entries);
    sonde_buf_release(&chunk);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Buckets that do not exist, too many of them, or not ascending. */
static void test_bad_entries(void **unused)
{
    (void)unused;
    const uint64_t bad[][6] = {
        { 0, 0, 1, SONDE__HIST_BUCKETS, 1, 0 },
        { 0, 0, SONDE__HIST_BUCKETS + 1, 0, 1, 0 },
        { 0, 0, 2, SONDE__HIST_BUCKETS - 1, 1, 0 },
        { 0, 0, UINT64_MAX, 1, 1, 1 },
        { 0, 0, 9, 1, 1, 1 },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sonde_buf b;
        struct sonde_hist_column c = { 0 };
        sonde_buf_init(&b, 1 << 10);
        for (size_t k = 0; k < 6; k++) sonde_chunk_put_varint(&b, bad[i][k]);
        const unsigned char *data = (const unsigned char *)b.data;
        struct sonde_chunk_in in = { data, data + b.len, 0 };
        assert_int_equal(sonde_hist_column_add(&c, &in), SONDE_EFORMAT);
        sonde_hist_column_release(&c);
        sonde_buf_release(&b);
    }
}

static void test_no_memory(void **unused)
{
    (void)unused;
    uint64_t v[N];
    for (uint32_t i = 0; i < N; i++) v[i] = random_u64();
    for (uint64_t nth = 1; nth < 5; nth++) {
        struct sonde_buf b;
        sonde_buf_init(&b, 1 << 20);
        sonde__alloc_fail_nth(nth);
        sonde_chunk_put(&b, SONDE_CHUNK_INTEGERS, v, N);
        sonde__alloc_fail_nth(0);
        assert_int_equal(b.error, SONDE_ENOMEM);
        sonde_buf_release(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),  cmocka_unit_test(test_special_doubles),
        cmocka_unit_test(test_mixed),   cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_histograms), cmocka_unit_test(test_bad_entries),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
