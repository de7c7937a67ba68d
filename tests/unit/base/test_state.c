/* Values as bytes and back, and bytes that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/state.h"

struct things {
    uint64_t a, b;
    uint32_t c;
    double f;
    uint64_t count;
    char text[16], skipped[8], after[8];
};

static void things_io(struct sonde_state *s, struct things *t, int know)
{
    sonde_state_u64(s, &t->a);
    sonde_state_u64(s, &t->b);
    sonde_state_u32(s, &t->c);
    sonde_state_double(s, &t->f);
    sonde_state_count(s, &t->count, 10);
    sonde_state_text(s, t->text, sizeof(t->text));
    const size_t part = sonde_state_begin(s);
    if (know) sonde_state_text(s, t->skipped, sizeof(t->skipped));
    sonde_state_end(s, part);
    sonde_state_text(s, t->after, sizeof(t->after));
}

static const struct things all = { 0, UINT64_MAX, UINT32_MAX, 0.1, 10,
                                   "caf\xc3\xa9", "part", "end" };

static void save(struct sonde_buf *b)
{
    struct things t = all;
    struct sonde_state s = { .to = b };
    sonde_buf_init(b, 4096);
    things_io(&s, &t, 1);
    assert_int_equal(b->error, 0);
}

static void there_and_back(void **state)
{
    (void)state;
    struct sonde_buf b;
    save(&b);
    for (int know = 0; know < 2; know++) {
        struct things t = { 0 };
        struct sonde_state s = { .from = (unsigned char *)b.data, .len = b.len };
        things_io(&s, &t, know);
        assert_int_equal(s.bad, 0);
        assert_int_equal(s.at, b.len);
        assert_true(t.a == all.a && t.b == all.b && t.c == all.c);
        assert_memory_equal(&t.f, &all.f, sizeof(t.f));
        assert_string_equal(t.text, all.text);
        assert_string_equal(t.skipped, know ? all.skipped : "");
        assert_string_equal(t.after, all.after);
    }
    sonde_buf_release(&b);
}

/* Cut off anywhere it is bad; what was read is 0 or as it was. */
static void cut_off(void **state)
{
    (void)state;
    struct sonde_buf b;
    save(&b);
    for (size_t len = 0; len < b.len; len++) {
        struct things t;
        struct sonde_state s = { .from = (unsigned char *)b.data, .len = len };
        memset(&t, 0x55, sizeof(t));
        things_io(&s, &t, 1);
        assert_int_equal(s.bad, 1);
        assert_string_equal(t.after, "");
        assert_true(t.count == 0 || t.count == 10);
    }
    sonde_buf_release(&b);
}

static void what_cannot_be(void **state)
{
    (void)state;
    static const struct { const char *bytes; size_t len; char what; } rows[] = {
        { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, 'u' }, /* 65 bits */
        { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 'u' },
        { "\x80\x80\x80\x80\x10", 5, '3' },                      /* 2^32 */
        { "\x0b", 1, 'c' },                                      /* eleven of ten */
        { "\x04""abcd", 5, 't' },                                /* no room for the NUL */
        { "\x02""a\xff", 3, 't' },
        { "\x02""a\0", 3, 't' },
        { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" "a", 11, 't' },
        { "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, 'b' },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sonde_state s = { .from = (const unsigned char *)rows[i].bytes, .len = rows[i].len };
        uint64_t wide = 7;
        uint32_t narrow = 7;
        char text[4] = "zzz";
        switch (rows[i].what) {
        case 'u': sonde_state_u64(&s, &wide); break;
        case '3': sonde_state_u32(&s, &narrow); break;
        case 'c': sonde_state_count(&s, &wide, 10); break;
        case 'b': sonde_state_end(&s, sonde_state_begin(&s)); break;
        default: sonde_state_text(&s, text, sizeof(text)); break;
        }
        assert_int_equal(s.bad, 1);
        assert_true(wide == 7 || wide == 0);
        sonde_state_u64(&s, &wide);
        assert_int_equal(wide, 0);
    }
    assert_true(sonde_state_check("abcdefghi", 9) != sonde_state_check("abcdefghj", 9));
    assert_true(sonde_state_check("a\0", 2) != sonde_state_check("a", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(cut_off),
        cmocka_unit_test(what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
