/* gzip: what is packed comes out the same, and damage is noticed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/gz.h"
#include "sonde/sonde.h"

enum { LEN = 1 << 20 };

static void test_round_trip(void **state)
{
    (void)state;
    static const size_t lengths[] = { 0, 1, 1000, LEN };
    char *data = malloc(LEN);
    assert_non_null(data);
    for (size_t i = 0; i < LEN; i++) data[i] = (char)(i * i >> 7);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct sonde_buf packed, back;
        sonde_buf_init(&packed, 2 * LEN);
        sonde_buf_init(&back, LEN);
        assert_int_equal(sonde_gz_pack(data, lengths[i], 6, &packed), 0);
        assert_true(sonde_gz_is(packed.data, packed.len));
        assert_int_equal(sonde_gz_unpack(packed.data, packed.len, &back), 0);
        assert_int_equal(back.len, lengths[i]);
        if (lengths[i]) assert_memory_equal(back.data, data, lengths[i]);

        /* A second member follows the first, as `cat a.gz b.gz` makes it. */
        assert_int_equal(sonde_gz_pack("more", 4, 6, &packed), 0);
        sonde_buf_release(&back);
        sonde_buf_init(&back, LEN + 4);
        assert_int_equal(sonde_gz_unpack(packed.data, packed.len, &back), 0);
        assert_int_equal(back.len, lengths[i] + 4);
        sonde_buf_release(&packed);
        sonde_buf_release(&back);
    }
    free(data);
}

static void test_damage(void **state)
{
    (void)state;
    struct sonde_buf packed, out;
    char text[5000];
    memset(text, 'x', sizeof(text));
    sonde_buf_init(&packed, 1 << 16);
    assert_int_equal(sonde_gz_pack(text, sizeof(text), 1, &packed), 0);
    for (size_t len = 0; len < packed.len; len++) { /* cut anywhere */
        sonde_buf_init(&out, 1 << 16);
        assert_int_equal(sonde_gz_unpack(packed.data, len, &out), SONDE_EFORMAT);
        sonde_buf_release(&out);
    }
    packed.data[packed.len - 6] ^= 1; /* the check sum */
    sonde_buf_init(&out, 1 << 16);
    assert_int_equal(sonde_gz_unpack(packed.data, packed.len, &out), SONDE_EFORMAT);
    sonde_buf_release(&out);
    packed.data[packed.len - 6] ^= 1;
    sonde_buf_init(&out, 100); /* a small file that unpacks to a large one */
    assert_int_equal(sonde_gz_unpack(packed.data, packed.len, &out), SONDE_EFULL);
    sonde_buf_release(&out);
    sonde_buf_init(&out, 10);
    assert_int_equal(sonde_gz_pack(text, sizeof(text), 1, &out), SONDE_EFULL);
    sonde_buf_release(&out);
    sonde_buf_release(&packed);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A file that is hardly anything but its length is given up early, not when all room is used up. */
static void test_bomb(void **state)
{
    (void)state;
    enum { ZEROS = 64 << 20 };
    struct sonde_buf packed, out;
    char *zeros = calloc(1, ZEROS);
    assert_non_null(zeros);
    sonde_buf_init(&packed, 1 << 20);
    sonde_buf_init(&out, (size_t)1 << 30);
    assert_int_equal(sonde_gz_pack(zeros, SONDE_GZ_RATIO_FROM, 9, &packed), 0);
    assert_int_equal(sonde_gz_unpack(packed.data, packed.len, &out), 0);
    assert_int_equal(out.len, SONDE_GZ_RATIO_FROM);
    sonde_buf_reset(&packed);
    sonde_buf_reset(&out);
    assert_int_equal(sonde_gz_pack(zeros, ZEROS, 9, &packed), 0);
    assert_int_equal(sonde_gz_unpack(packed.data, packed.len, &out), SONDE_EFULL);
    assert_true(out.len < (size_t)2 * SONDE_GZ_RATIO_FROM);
    assert_int_equal(out.error, 0);
    assert_true(SONDE_GZ_RATIO_MAX <= 256); /* a megabyte does not cost more than so many */
    sonde_buf_release(&packed);
    sonde_buf_release(&out);
    free(zeros);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_bomb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
