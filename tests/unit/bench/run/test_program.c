/* Answers of a program of benchmarks, which may be anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "bench/run/program.h"
#include "sonde/sonde.h"

static void test_case(void **state)
{
    (void)state;
    static const struct { const char *line, *name, *group; uint32_t threads; } good[] = {
        { "{\"case\":\"a\",\"name\":\"a\",\"param\":null,\"threads\":1}", "a", "a", 1 },
        { "{\"case\":\"a/-5/threads:8\",\"threads\":8}", "a/-5/threads:8", "a/-5", 8 },
    };
    static const char *const bad[] = {
        "", "{}", "null", "[]", "{\"case\":\"a\"}", "{\"case\":\"\",\"threads\":1}",
        "{\"case\":\"a\",\"threads\":0}", "{\"case\":\"a\",\"threads\":-1}",
        "{\"case\":\"a\",\"threads\":1e9}", "{\"case\":7,\"threads\":1}",
        "{\"case\":\"a\",\"threads\":1", "{\"case\":\"a\",\"threads\":1} x",
        "{\"case\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaa\",\"threads\":1}",
    };
    struct sonde_program_case c;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(sonde_program_parse_case(good[i].line, strlen(good[i].line), &c), 0);
        assert_string_equal(c.name, good[i].name);
        assert_string_equal(c.group, good[i].group);
        assert_int_equal(c.threads, good[i].threads);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (sonde_program_parse_case(bad[i], strlen(bad[i]), &c) != SONDE_EFORMAT) {
            fail_msg("%s", bad[i]);
        }
    }
}

static const char sample_line[] =
    "{\"iterations\":100,\"real_ns\":5000,\"cpu_ns\":4000,\"bytes\":64,\"items\":2}";

static void test_sample(void **state)
{
    (void)state;
    struct sonde_program_sample s;
    assert_int_equal(sonde_program_parse_sample(sample_line, strlen(sample_line), &s), 0);
    assert_true(s.iterations == 100 && s.real_ns == 5000 && s.cpu_ns == 4000 && s.bytes == 64);
    assert_true(s.items == 2 && !s.failed[0]);
    static const char failed[] = "{\"error\":\"no memory\"}";
    assert_int_equal(sonde_program_parse_sample(failed, strlen(failed), &s), 0);
    assert_string_equal(s.failed, "no memory");
    static const char *const bad[] = { "", "{}", "hello", "{\"iterations\":0}",
                                       "{\"iterations\":-3}", "{\"iterations\":1e300}",
                                       "{\"iterations\":\"1\"}", "{\"error\":1}" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (sonde_program_parse_sample(bad[i], strlen(bad[i]), &s) != SONDE_EFORMAT) {
            fail_msg("%s", bad[i]);
        }
    }
}

/* One byte is another: read, or refused, and never beyond its end (under ASan). */
static void test_damaged(void **state)
{
    (void)state;
    uint64_t seed = 9;
    for (int i = 0; i < 20000; i++) {
        char line[sizeof(sample_line)];
        struct sonde_program_sample s;
        struct sonde_program_case c;
        memcpy(line, sample_line, sizeof(line));
        const size_t len = (size_t)sonde_random_below(&seed, sizeof(line));
        if (len) line[sonde_random_below(&seed, len)] = (char)sonde_random_u64(&seed);
        const int rc = sonde_program_parse_sample(line, len, &s);
        assert_true(rc == 0 || rc == SONDE_EFORMAT);
        assert_true(sonde_program_parse_case(line, len, &c) == SONDE_EFORMAT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_case), cmocka_unit_test(test_sample), cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
