/* Reading protobuf: what pb.c writes comes back, and what nobody should write is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/pb.h"
#include "base/pb_read.h"

static void test_what_was_written(void **state)
{
    (void)state;
    struct sonde_buf b;
    struct sonde_pb_field f;
    const uint64_t packed[] = { 0, 1, 300, UINT64_MAX };
    sonde_buf_init(&b, 4096);
    sonde_pb_uint(&b, 1, 150);
    sonde_pb_str(&b, 2, "text", 4);
    sonde_pb_fixed64(&b, 3, 0x0102030405060708u);
    sonde_pb_packed_uint(&b, (1u << 29) - 1, packed, 4);
    struct sonde_pb_reader r = sonde_pb_reader(b.data, b.len);
    assert_int_equal(sonde_pb_next(&r, &f), 1);
    assert_int_equal(f.number, 1);
    assert_int_equal(f.wire, SONDE_PB_VARINT);
    assert_int_equal(f.value, 150);
    assert_int_equal(sonde_pb_next(&r, &f), 1);
    assert_int_equal(f.len, 4);
    assert_memory_equal(f.data, "text", 4);
    assert_int_equal(sonde_pb_next(&r, &f), 1);
    assert_true(f.value == 0x0102030405060708u);
    assert_int_equal(sonde_pb_next(&r, &f), 1);
    assert_int_equal(f.number, (1u << 29) - 1);
    struct sonde_pb_reader numbers = sonde_pb_reader(f.data, f.len);
    uint64_t v;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(sonde_pb_next_varint(&numbers, &v), 1);
        assert_true(v == packed[i]);
    }
    assert_int_equal(sonde_pb_next_varint(&numbers, &v), 0);
    assert_int_equal(sonde_pb_next(&r, &f), 0);
    sonde_buf_release(&b);
}

static const struct {
    const char *name;
    const char *bytes;
    size_t len;
    int result;
} cases[] = {
    { "nothing", "", 0, 0 },
    { "tag cut", "\x80", 1, -1 },
    { "number missing", "\x08", 1, -1 },
    { "number cut", "\x08\xff", 2, -1 },
    { "number of 64 bits", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 1 },
    { "number of 65 bits", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, -1 },
    { "number of 11 bytes", "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12, -1 },
    { "field 0", "\x00\x01", 2, -1 },
    { "field number too large", "\xf8\xff\xff\xff\x1f\x01", 6, -1 },
    { "length past the end", "\x0a\x05gone", 6, -1 },
    { "length near 2^64", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01z", 12, -1 },
    { "fixed64 cut", "\x09\x01\x02\x03\x04\x05\x06\x07", 8, -1 },
    { "fixed32", "\x0d\x01\x02\x03\x04", 5, 1 },
    { "fixed32 cut", "\x0d\x01\x02\x03", 4, -1 },
    { "start of a group", "\x0b", 1, -1 },
    { "end of a group", "\x0c", 1, -1 },
    { "wire type 7", "\x0f\x01", 2, -1 },
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_pb_reader r = sonde_pb_reader(cases[i].bytes, cases[i].len);
        struct sonde_pb_field f;
        const int got = sonde_pb_next(&r, &f);
        if (got != cases[i].result) print_error("case: %s\n", cases[i].name);
        assert_int_equal(got, cases[i].result);
        assert_true(r.at <= r.end);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_written),
        cmocka_unit_test(test_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
