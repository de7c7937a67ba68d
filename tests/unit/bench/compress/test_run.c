/* Rows of real codecs by threads and blocks; a codec that lies is caught; no memory is said so. And
 * samples: the same for a seed, and what they are said to be. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "bench/compress/compress.h"
#include "bench/compress/sample.h"
#include "sonde/sonde.h"

enum { INPUT = 200001 };
static char input[INPUT];

static struct sonde_compress_options quick(size_t bytes)
{
    return (struct sonde_compress_options){ .data = input, .bytes = bytes, .time_s = 0.002, .turns_min = 2,
                                            .limit_s = 1e9 };
}

static void test_rows(void **state)
{
    (void)state;
    static const char *const names[] = { "none", "lz4", "snappy", "zstd", "gzip", "libdeflate" };
    static const struct { uint32_t threads; size_t block; uint64_t blocks; int own; } cuts[] = {
        { 1, 0, 1, 0 }, { 1, 65536, 4, 0 }, { 3, 4096, 49, 0 }, { 3, 0, 3, 0 }, { 2, 1 << 30, 2, 0 },
    };
    sonde_compress_sample_make(sonde_compress_sample_find("json"), SONDE_SAMPLE_NONE, 3, input, INPUT);
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
            const struct sonde_codec *codec = sonde_codec_find(names[n], strlen(names[n]));
            struct sonde_compress_row row = { .codec = codec, .level = codec->level_max ? 1 : 0,
                .threads = cuts[i].threads, .block_bytes = cuts[i].block };
            const struct sonde_compress_options o = quick(INPUT);
            assert_int_equal(sonde_compress_run(&o, &row, 1, NULL), 0);
            assert_int_equal(row.state, SONDE_COMPRESS_MEASURED);
            const int own = codec->threaded && cuts[i].threads > 1 && (!cuts[i].block || cuts[i].block > INPUT);
            assert_int_equal(row.blocks, own ? 1 : cuts[i].blocks);
            assert_int_equal(row.own_threads, own);
            assert_true(row.turns >= 1 && row.pack_s[0] > 0 && row.unpack_s[0] > 0);
            if (n) assert_true(row.packed_bytes < INPUT * 2 / 3);
            else assert_int_equal(row.packed_bytes, INPUT);
            assert_true(row.pack_memory_bytes >= 0);
            if (cuts[i].threads == 3 && cuts[i].block && n == 1) assert_true(row.pack_memory_bytes > 3 * 16384);
            sonde_compress_row_release(&row);
        }
    }
}

static void test_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 2, 100 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t k = 0; sonde_codecs[k]; k++) {
            struct sonde_compress_row row = { .codec = sonde_codecs[k], .threads = 1,
                .level = sonde_codecs[k]->level_min > 1 ? sonde_codecs[k]->level_min : sonde_codecs[k]->level_max ? 1 : 0 };
            const struct sonde_compress_options o = quick(sizes[i]);
            assert_int_equal(sonde_compress_run(&o, &row, 1, NULL), 0);
            assert_int_equal(row.state, SONDE_COMPRESS_MEASURED);
            assert_int_equal(row.turns > 0, sizes[i] > 0);
            sonde_compress_row_release(&row);
        }
    }
    /* Fewer blocks than threads: left out, and said why. */
    struct sonde_compress_row row = { .codec = sonde_codec_find("lz4", 3), .level = 1, .threads = 4,
                                      .block_bytes = 100000 };
    const struct sonde_compress_options o = quick(INPUT);
    assert_int_equal(sonde_compress_run(&o, &row, 1, NULL), 0);
    assert_int_equal(row.state, SONDE_COMPRESS_LEFT_OUT);
    assert_non_null(strstr(row.why, "only 3 blocks"));
}

/* ---- Liars ------------------------------------------------------------------------------------- */

static int lie; /* 1: one bit is wrong, 2: one byte short, 3: packing fails, 4: does nothing at all */

static void *liar_open(const struct sonde_codec_how *how) { return sonde_codec_alloc(how->memory, 0); }
static size_t liar_bound(size_t bytes) { return bytes; }

static int liar_pack(void *s, const void *in, size_t bytes, void *out, size_t room, size_t *made)
{
    (void)s;
    if (lie == 3 || bytes > room) return SONDE_EFULL;
    memcpy(out, in, bytes);
    *made = bytes;
    return 0;
}

static int liar_unpack(void *s, const void *in, size_t bytes, void *out, size_t room, size_t *made)
{
    (void)s;
    if (bytes > room) return SONDE_EINVAL;
    if (lie != 4) memcpy(out, in, bytes);
    if (lie == 1) ((char *)out)[bytes / 2] ^= 1;
    *made = lie == 2 ? bytes - 1 : bytes;
    return 0;
}

static void test_liars(void **state)
{
    (void)state;
    static const struct sonde_codec liar = { .name = "liar", .counted = 1, .block_max = 1 << 30, .bound = liar_bound,
        .open = liar_open, .pack = liar_pack, .unpack = liar_unpack, .close = sonde_codec_free };
    static const char *const whys[] = { NULL, "differs from the input", "unpacking failed", "packing failed",
                                        "differs from the input" };
    for (lie = 0; lie <= 4; lie++) {
        /* The honest one before it leaves the right bytes in the buffers. */
        struct sonde_compress_row rows[2] = { { .codec = sonde_codec_find("none", 4), .threads = 1 },
                                              { .codec = &liar, .threads = 2, .block_bytes = 4096 } };
        const struct sonde_compress_options o = quick(INPUT);
        assert_int_equal(sonde_compress_run(&o, rows, 2, NULL), 0);
        assert_int_equal(rows[0].state, SONDE_COMPRESS_MEASURED);
        assert_int_equal(rows[1].state, lie ? SONDE_COMPRESS_FAILED : SONDE_COMPRESS_MEASURED);
        if (lie) assert_non_null(strstr(rows[1].why, whys[lie]));
        assert_true(!rows[1].pack_front || !lie);
        for (int i = 0; i < 2; i++) sonde_compress_row_release(&rows[i]);
    }
}

static void test_limit(void **state)
{
    (void)state;
    struct sonde_compress_row row = { .codec = sonde_codec_find("zstd", 4), .level = 19, .threads = 1 };
    struct sonde_compress_options o = quick(INPUT);
    o.limit_s = 1e-7;
    assert_int_equal(sonde_compress_run(&o, &row, 1, NULL), 0);
    assert_int_equal(row.state, SONDE_COMPRESS_LEFT_OUT);
    assert_non_null(strstr(row.why, "--limit"));
}

static void test_no_memory(void **state)
{
    (void)state;
    int rc = SONDE_ENOMEM, done = 0;
    for (uint64_t nth = 1; nth < 200 && !done; nth++) {
        struct sonde_compress_row row = { .codec = sonde_codec_find("lz4", 3), .level = 1, .threads = 2,
                                          .block_bytes = 65536 };
        const struct sonde_compress_options o = quick(INPUT);
        struct sonde_err err = { "" };
        const int64_t live = sonde__alloc_live();
        sonde__alloc_fail_nth(nth);
        rc = sonde_compress_run(&o, &row, 1, &err);
        sonde__alloc_fail_nth(0);
        assert_true(!rc || (rc == SONDE_ENOMEM && err.text[0]));
        done = !rc && row.state == SONDE_COMPRESS_MEASURED;
        if (!rc && !done) assert_int_equal(row.state, SONDE_COMPRESS_FAILED);
        sonde_compress_row_release(&row);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_true(done);
}

/* ---- Samples ----------------------------------------------------------------------------------- */

static void test_samples(void **state)
{
    (void)state;
    static char again[INPUT];
    for (const struct sonde_compress_sample *s = sonde_compress_samples; s->name; s++) {
        for (int type = 0; type < SONDE_SAMPLE_TYPE_COUNT; type++) {
            if (type && s->type == SONDE_SAMPLE_NONE) continue;
            sonde_compress_sample_make(s, (enum sonde_sample_type)type, 5, input, INPUT);
            sonde_compress_sample_make(s, (enum sonde_sample_type)type, 5, again, INPUT);
            assert_memory_equal(input, again, INPUT);
            sonde_compress_sample_make(s, (enum sonde_sample_type)type, 6, again, INPUT);
            assert_int_not_equal(memcmp(input, again, INPUT), 0);
        }
    }
    assert_null(sonde_compress_sample_find("nothing"));
    assert_int_equal(sonde_sample_type_find("f16"), SONDE_SAMPLE_F16);
    assert_int_equal(sonde_sample_type_find("f8"), SONDE_SAMPLE_TYPE_COUNT);
}

static double f16_value(const char *at)
{
    uint16_t h;
    memcpy(&h, at, 2);
    const double size = h >> 10 & 31 ? ldexp(1024 + (h & 1023), (h >> 10 & 31) - 25) : ldexp(h & 1023, -24);
    return h & 0x8000 ? -size : size;
}

/* The same numbers in all types: the first kilobyte of numbers of the f32 sample is the oracle of the others. */
static void test_types(void **state)
{
    (void)state;
    static float exact[1024];
    static char stored[4096];
    const struct sonde_compress_sample *s = sonde_compress_sample_find("weights");
    sonde_compress_sample_make(s, SONDE_SAMPLE_F32, 9, (char *)exact, sizeof(exact));
    double squares = 0;
    for (int i = 0; i < 1024; i++) squares += (double)exact[i] * exact[i];
    assert_true(sqrt(squares / 1024) > 0.005 && sqrt(squares / 1024) < 0.1);
    sonde_compress_sample_make(s, SONDE_SAMPLE_F16, 9, stored, 2048);
    for (int i = 0; i < 1024; i++) {
        assert_true(fabs(f16_value(stored + 2 * i) - exact[i]) <= fabs((double)exact[i]) / 2048 + ldexp(1, -25));
    }
    sonde_compress_sample_make(s, SONDE_SAMPLE_BF16, 9, stored, 2048);
    for (int i = 0; i < 1024; i++) {
        uint32_t bits = 0;
        float v;
        memcpy((char *)&bits + 2, stored + 2 * i, 2);
        memcpy(&v, &bits, 4);
        assert_true(fabs((double)v - exact[i]) <= fabs((double)exact[i]) / 256);
    }
    sonde_compress_sample_make(s, SONDE_SAMPLE_Q8_0, 9, stored, 1024 / 32 * 34);
    for (int i = 0; i < 1024; i++) {
        const double d = f16_value(stored + i / 32 * 34);
        assert_true(fabs(d * (signed char)stored[i / 32 * 34 + 2 + i % 32] - exact[i]) <= d * 0.6);
    }
    sonde_compress_sample_make(s, SONDE_SAMPLE_Q4_0, 9, stored, 1024 / 32 * 18);
    for (int i = 0; i < 1024; i++) {
        const double d = f16_value(stored + i / 32 * 18);
        const unsigned byte = (unsigned char)stored[i / 32 * 18 + 2 + i % 16];
        const int q = (int)(i % 32 < 16 ? byte & 15 : byte >> 4) - 8;
        assert_true(fabs(d * q - exact[i]) <= fabs(d) * 1.01);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows), cmocka_unit_test(test_sizes), cmocka_unit_test(test_liars),
        cmocka_unit_test(test_limit), cmocka_unit_test(test_no_memory), cmocka_unit_test(test_samples),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
