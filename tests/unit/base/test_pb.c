#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/pb.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct sonde_buf b;

static int setup(void **state)
{
    (void)state;
    sonde_buf_init(&b, 4096);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sonde_buf_release(&b);
    return sonde__alloc_live() != 0;
}

#define EXPECT(bytes)                                                                          \
    do {                                                                                       \
        assert_int_equal(b.error, 0);                                                          \
        assert_int_equal(b.len, sizeof(bytes) - 1);                                            \
        assert_memory_equal(b.data, bytes, sizeof(bytes) - 1);                                 \
        sonde_buf_reset(&b);                                                                   \
    } while (0)

static void test_uint(void **state)
{
    (void)state;
    sonde_pb_uint(&b, 1, 0);
    EXPECT("\x08\x00");
    sonde_pb_uint(&b, 1, 127);
    EXPECT("\x08\x7f");
    sonde_pb_uint(&b, 1, 128);
    EXPECT("\x08\x80\x01");
    sonde_pb_uint(&b, 1, 150); /* the example of the format's own documentation */
    EXPECT("\x08\x96\x01");
    sonde_pb_uint(&b, 2, UINT64_MAX);
    EXPECT("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    sonde_pb_uint(&b, 3, (uint64_t)(int64_t)-2);
    EXPECT("\x18\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    sonde_pb_uint(&b, 16, 1); /* the first field whose tag takes two bytes */
    EXPECT("\x80\x01\x01");
    sonde_pb_uint(&b, (1u << 29) - 1, 1);
    EXPECT("\xf8\xff\xff\xff\x0f\x01");
}

static void test_sint(void **state)
{
    (void)state;
    static const struct {
        int64_t v;
        const char *bytes;
        size_t len;
    } cases[] = {
        { 0, "\x08\x00", 2 },          { -1, "\x08\x01", 2 },        { 1, "\x08\x02", 2 },
        { -2, "\x08\x03", 2 },         { 63, "\x08\x7e", 2 },        { -64, "\x08\x7f", 2 },
        { 64, "\x08\x80\x01", 3 },
        { INT64_MAX, "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 },
        { INT64_MIN, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        sonde_buf_reset(&b);
        sonde_pb_sint(&b, 1, cases[i].v);
        assert_int_equal(b.len, cases[i].len);
        assert_memory_equal(b.data, cases[i].bytes, cases[i].len);
    }
}

static void test_fixed(void **state)
{
    (void)state;
    sonde_pb_fixed64(&b, 1, 0x0123456789abcdefu);
    EXPECT("\x09\xef\xcd\xab\x89\x67\x45\x23\x01");
    sonde_pb_double(&b, 2, 1.0);
    EXPECT("\x11\x00\x00\x00\x00\x00\x00\xf0\x3f");
    sonde_pb_double(&b, 2, -2.5);
    EXPECT("\x11\x00\x00\x00\x00\x00\x00\x04\xc0");
}

static void test_bytes(void **state)
{
    (void)state;
    sonde_pb_str(&b, 2, "testing", 7);
    EXPECT("\x12\x07testing");
    sonde_pb_str(&b, 2, "", 0);
    EXPECT("\x12\x00");
    sonde_pb_bytes(&b, 15, "a\0b", 3);
    EXPECT("\x7a\x03" "a\0b");

    char big[300];
    memset(big, 'x', sizeof(big));
    sonde_pb_bytes(&b, 1, big, sizeof(big));
    assert_int_equal(b.len, 1 + 2 + sizeof(big));
    assert_memory_equal(b.data, "\x0a\xac\x02x", 4);
}

/* io.prometheus.client.MetricFamily{name:"c", type:COUNTER, metric:{label:{name:"l",value:"v"},
 * counter:{value:1}}}, delimited. */
static void test_nested(void **state)
{
    (void)state;
    struct sonde_buf family, metric, part;
    sonde_buf_init(&family, 4096);
    sonde_buf_init(&metric, 4096);
    sonde_buf_init(&part, 4096);

    sonde_pb_str(&family, 1, "c", 1);
    sonde_pb_uint(&family, 3, 0);
    sonde_pb_str(&part, 1, "l", 1);
    sonde_pb_str(&part, 2, "v", 1);
    sonde_pb_message(&metric, 1, &part);
    sonde_buf_reset(&part);
    sonde_pb_double(&part, 1, 1.0);
    sonde_pb_message(&metric, 3, &part);
    sonde_pb_message(&family, 4, &metric);
    sonde_pb_delimited(&b, &family);
    EXPECT("\x1a"
           "\x0a\x01" "c"
           "\x18\x00"
           "\x22\x13"
           "\x0a\x06" "\x0a\x01" "l" "\x12\x01" "v"
           "\x1a\x09" "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f");
    sonde_buf_release(&family);
    sonde_buf_release(&metric);
    sonde_buf_release(&part);
}

static void test_empty_message(void **state)
{
    (void)state;
    struct sonde_buf empty;
    sonde_buf_init(&empty, 16);
    sonde_pb_message(&b, 1, &empty);
    sonde_pb_delimited(&b, &empty);
    EXPECT("\x0a\x00\x00");
}

static void test_packed(void **state)
{
    (void)state;
    static const uint64_t u[] = { 3, 270, 86942 }; /* the documentation's example */
    static const int64_t s[] = { 0, -1, 1, 64, -65 };
    sonde_pb_packed_uint(&b, 4, u, COUNT(u));
    EXPECT("\x22\x06\x03\x8e\x02\x9e\xa7\x05");
    sonde_pb_packed_sint(&b, 5, s, COUNT(s));
    EXPECT("\x2a\x07\x00\x01\x02\x80\x01\x81\x01");
    sonde_pb_packed_uint(&b, 4, u, 0);
    sonde_pb_packed_sint(&b, 4, s, 0);
    assert_int_equal(b.len, 0);
}

/* The length in front of packed values is computed, not measured: every size of varint. */
static void test_packed_lengths(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        const uint64_t v = (uint64_t)1 << bit;
        sonde_buf_reset(&b);
        sonde_pb_packed_uint(&b, 1, &v, 1);
        assert_int_equal((unsigned char)b.data[1], b.len - 2);
        assert_int_equal(b.len - 2, bit / 7 + 1);
    }
}

static void test_error_of_a_part(void **state)
{
    (void)state;
    struct sonde_buf part;
    sonde_buf_init(&part, 4);
    sonde_pb_str(&part, 1, "too long", 8);
    assert_int_equal(part.error, SONDE_EFULL);
    sonde_pb_message(&b, 1, &part);
    assert_int_equal(b.error, SONDE_EFULL);
    sonde_buf_reset(&b);
    sonde_pb_delimited(&b, &part);
    assert_int_equal(b.error, SONDE_EFULL);
    sonde_buf_release(&part);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_uint),
        TEST(test_sint),
        TEST(test_fixed),
        TEST(test_bytes),
        TEST(test_nested),
        TEST(test_empty_message),
        TEST(test_packed),
        TEST(test_packed_lengths),
        TEST(test_error_of_a_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
