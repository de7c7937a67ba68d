#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int no_blocks_left(void **state)
{
    (void)state;
    return sonde__alloc_live() != 0;
}

static void test_grow_and_terminate(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    for (int i = 0; i < 10000; i++) {
        sonde_buf_puts(&b, "abc");
        sonde_buf_putc(&b, '\n');
        assert_int_equal(b.data[b.len], 0);
    }
    assert_int_equal(b.error, 0);
    assert_int_equal(b.len, 40000);
    assert_int_equal(strlen(b.data), 40000);
    sonde_buf_reset(&b);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    assert_true(b.cap >= 40001);
    sonde_buf_release(&b);
    assert_null(b.data);
}

static void test_full_is_exact_and_sticky(void **state)
{
    (void)state;
    struct sonde_buf b;
    for (size_t max = 0; max < 600; max += 37) {
        sonde_buf_init(&b, max);
        for (size_t i = 0; i < max; i++) sonde_buf_putc(&b, 'x');
        assert_int_equal(b.error, 0);
        assert_int_equal(b.len, max);
        sonde_buf_putc(&b, 'y');
        assert_int_equal(b.error, SONDE_EFULL);
        assert_int_equal(b.len, max);
        sonde_buf_reset(&b);
        assert_int_equal(b.error, 0);
        sonde_buf_printf(&b, "%*s", (int)max, "");
        assert_int_equal(b.error, 0);
        sonde_buf_printf(&b, "%d", 1);
        assert_int_equal(b.error, SONDE_EFULL);
        if (b.data) assert_int_equal(strlen(b.data), max);
        sonde_buf_release(&b);
    }
    sonde_buf_init(&b, 3);
    sonde_buf_puts(&b, "abcd");
    sonde_buf_puts(&b, "a");
    assert_int_equal(b.error, SONDE_EFULL);
    assert_int_equal(b.len, 0);
    sonde_buf_release(&b);
}

static void test_take(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 10);
    char *s = sonde_buf_take(&b);
    assert_string_equal(s, "");
    sonde__free(s);
    sonde_buf_puts(&b, "ten bytes!");
    s = sonde_buf_take(&b);
    assert_string_equal(s, "ten bytes!");
    sonde__free(s);
    assert_int_equal(b.len, 0);
    sonde_buf_puts(&b, "eleven bytes");
    assert_null(sonde_buf_take(&b));
    assert_int_equal(b.error, 0);
    sonde_buf_puts(&b, "again");
    assert_string_equal(b.data, "again");
    sonde_buf_release(&b);
}

static void test_reserve(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 5000);
    char *to = sonde_buf_reserve(&b, 5000);
    assert_non_null(to);
    memset(to, 'r', 5000);
    b.len += 5000;
    assert_null(sonde_buf_reserve(&b, 1));
    assert_int_equal(b.error, SONDE_EFULL);
    sonde_buf_release(&b);
}

static void test_printf(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    sonde_buf_printf(&b, "%s=%d;", "a", 7);
    sonde_buf_printf(&b, "%0*d", 3000, 1); /* does not fit at first */
    assert_int_equal(b.len, 4 + 3000);
    assert_memory_equal(b.data, "a=7;000", 7);
    assert_int_equal(b.data[b.len - 1], '1');
    sonde_buf_release(&b);
}

static void expect_u64(uint64_t v)
{
    char want[32];
    snprintf(want, sizeof(want), "%" PRIu64, v);
    struct sonde_buf b;
    sonde_buf_init(&b, 64);
    sonde_buf_u64(&b, v);
    assert_string_equal(b.data, want);
    sonde_buf_release(&b);
}

static void test_u64(void **state)
{
    (void)state;
    for (uint64_t v = 0; v < 2000; v++) expect_u64(v);
    for (uint64_t p = 10; p < UINT64_MAX / 10; p *= 10) {
        expect_u64(p - 1);
        expect_u64(p);
        expect_u64(p + 1);
    }
    for (unsigned bit = 0; bit < 64; bit++) expect_u64(UINT64_MAX >> bit);
}

static const struct {
    double v;
    const char *text;
} doubles[] = {
    { 0, "0" }, { -0.0, "-0" }, { 1, "1" }, { -1, "-1" }, { 0.1, "0.1" }, { -0.1, "-0.1" },
    { 0.5, "0.5" }, { 1.5, "1.5" }, { 0.001, "0.001" }, { 0.0001, "0.0001" }, { 1e-5, "1e-05" },
    { 123.456, "123.456" }, { 0.3, "0.3" }, { 0.1 + 0.2, "0.30000000000000004" },
    { 1.0 / 3, "0.3333333333333333" },
    { 1.25e-7, "1.25e-07" }, { -3e-6, "-3e-06" }, { 1.0 / 3e9, "3.333333333333333e-10" },
    { 4503599627370495.5, "4503599627370495.5" }, { 2.0 / 3, "0.6666666666666666" },
    { 99.99, "99.99" }, { 1e15 - 0.125, "999999999999999.9" }, { 100.01, "100.01" },
    { 0.00025, "0.00025" }, { 0.000123456789012345, "0.000123456789012345" },
    { 9007199254740991, "9007199254740991" }, { 9007199254740992, "9007199254740992" },
    { 1e15, "1000000000000000" }, { 1e22, "1e+22" },
    { 1.7976931348623157e308, "1.7976931348623157e+308" }, { 5e-324, "4.94065645841247e-324" },
    { 2.2250738585072014e-308, "2.2250738585072014e-308" },
    { 18446744073709551616.0, "1.8446744073709552e+19" },
};

static void test_double(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 64);
    for (size_t i = 0; i < COUNT(doubles); i++) {
        sonde_buf_reset(&b);
        sonde_buf_double(&b, doubles[i].v);
        assert_string_equal(b.data, doubles[i].text);
        sonde_buf_reset(&b);
        sonde_buf_json_double(&b, doubles[i].v);
        assert_string_equal(b.data, doubles[i].text);
    }
    sonde_buf_release(&b);
}

static void test_not_finite(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 64);
    sonde_buf_double(&b, (double)NAN);
    sonde_buf_double(&b, (double)INFINITY);
    sonde_buf_double(&b, -(double)INFINITY);
    sonde_buf_json_double(&b, (double)NAN);
    sonde_buf_json_double(&b, -(double)INFINITY);
    assert_string_equal(b.data, "NaN+Inf-Infnullnull");
    sonde_buf_release(&b);
}

/* The digits of text without sign, point, exponent, and zeros at either end. */
static void significant(char out[40], const char *text)
{
    size_t n = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text >= '0' && *text <= '9' && (n || *text != '0')) out[n++] = *text;
    }
    while (n && out[n - 1] == '0') n--;
    out[n] = 0;
}

/* Reads back as the same bits, and has the digits of the shortest decimal that does, found by
 * trying them all. */
static void expect_shortest(struct sonde_buf *b, double v)
{
    sonde_buf_reset(b);
    sonde_buf_double(b, v);
    char *end;
    const double back = strtod(b->data, &end);
    if (*end || memcmp(&back, &v, sizeof(v)) != 0) fail_msg("%.17g became %s", v, b->data);
    if (fabs(v) < 1e-300) return; /* there 15 digits may be more than needed */

    char text[40], want[40], got[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*e", digits - 1, v);
        if (strtod(text, NULL) == v) break;
    }
    significant(want, text);
    significant(got, b->data);
    if (strcmp(got, want) != 0) fail_msg("%.17g became %s, digits %s", v, b->data, want);
}

static uint64_t random_u64(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static void test_double_random(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 64);
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        const uint64_t bits = random_u64(&seed);
        double v;
        memcpy(&v, &bits, sizeof(v));
        if (isfinite(v)) expect_shortest(&b, v);
        /* decimals of 1 to 19 digits, their neighbours, and any double of common size */
        const double decimal = (double)(bits >> (bits % 60)) / pow(10, (double)(bits % 20));
        expect_shortest(&b, decimal);
        expect_shortest(&b, nextafter(decimal, 0));
        expect_shortest(&b, ldexp((double)(bits >> 11), (int)(bits % 120) - 110));
    }
    sonde_buf_release(&b);
}

/* Around every power of two and of ten: where methods, lengths and rounding intervals change. */
static void test_double_edges(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 64);
    for (int e = -1000; e <= 1000; e++) {
        const double v = ldexp(1, e);
        expect_shortest(&b, v);
        expect_shortest(&b, -nextafter(v, 0));
        expect_shortest(&b, nextafter(v, (double)INFINITY));
        expect_shortest(&b, v * 1.5);
    }
    for (int e = -300; e <= 300; e++) {
        char text[16];
        snprintf(text, sizeof(text), "1e%d", e);
        const double v = strtod(text, NULL);
        expect_shortest(&b, v);
        expect_shortest(&b, nextafter(v, 0));
        expect_shortest(&b, nextafter(v, (double)INFINITY));
        expect_shortest(&b, v * 3);
    }
    sonde_buf_release(&b);
}

/* A locale with a decimal comma must not reach the output. */
static void test_double_locale(void **state)
{
    (void)state;
    static const char *const names[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR" };
    for (size_t i = 0; i < COUNT(names) && !setlocale(LC_NUMERIC, names[i]); i++) continue;
    struct sonde_buf b;
    sonde_buf_init(&b, 64);
    sonde_buf_double(&b, 0.1 + 0.2);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(b.data, "0.30000000000000004");
    sonde_buf_release(&b);
}

static const struct {
    const char *in;
    size_t len;
    const char *json;
} strings[] = {
    { "", 0, "\"\"" },
    { "plain", 5, "\"plain\"" },
    { "a\"b\\c/", 6, "\"a\\\"b\\\\c/\"" },
    { "\n\r\t\b\x1f", 5, "\"\\n\\r\\t\\u0008\\u001f\"" },
    { "\xc3\xa9", 2, "\"\xc3\xa9\"" },
    { "a\xff\"", 3, "\"a\xef\xbf\xbd\\\"\"" },
    { "a\0b", 3, "\"a\xef\xbf\xbd" "b\"" },
};

static void test_json_str(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 1000);
    for (size_t i = 0; i < COUNT(strings); i++) {
        sonde_buf_reset(&b);
        sonde_buf_json_str(&b, strings[i].in, strings[i].len);
        assert_string_equal(b.data, strings[i].json);
    }
    sonde_buf_release(&b);
}

static void test_url(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 1000);
    sonde_buf_url(&b, "aZ09-_.!~*'()/?&=+ %\r\n\xc3\xa9");
    assert_string_equal(b.data, "aZ09-_.!~*'()%2F%3F%26%3D%2B%20%25%0D%0A%C3%A9");
    sonde_buf_release(&b);
}

/* Repairing works in pieces: a character across any boundary must come out whole. */
static void test_json_str_long(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 10000);
    for (size_t shift = 0; shift < 8; shift++) {
        char in[1000], want[1100];
        size_t n = 0, w = 0;
        want[w++] = '"';
        for (; n < shift; n++) in[n] = want[w++] = 'a';
        in[n++] = '\xff';
        memcpy(want + w, "\xef\xbf\xbd", 3);
        w += 3;
        for (int i = 0; i < 200; i++, n += 4, w += 4) {
            memcpy(in + n, "\xf0\x9f\x98\x80", 4);
            memcpy(want + w, "\xf0\x9f\x98\x80", 4);
        }
        want[w++] = '"';
        sonde_buf_reset(&b);
        sonde_buf_json_str(&b, in, n);
        assert_int_equal(b.len, w);
        assert_memory_equal(b.data, want, w);
    }
    /* Nothing but stray continuation bytes. */
    char stray[500];
    memset(stray, 0x80, sizeof(stray));
    sonde_buf_reset(&b);
    sonde_buf_json_str(&b, stray, sizeof(stray));
    assert_int_equal(b.len, 2 + 3 * sizeof(stray));
    sonde_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grow_and_terminate),
        cmocka_unit_test(test_full_is_exact_and_sticky),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_printf),
        cmocka_unit_test(test_u64),
        cmocka_unit_test(test_double),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_double_random),
        cmocka_unit_test(test_double_edges),
        cmocka_unit_test(test_double_locale),
        cmocka_unit_test(test_json_str),
        cmocka_unit_test(test_json_str_long),
        cmocka_unit_test(test_url),
    };
    return cmocka_run_group_tests(tests, NULL, no_blocks_left);
}
