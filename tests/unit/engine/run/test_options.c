/* What the environment asks of the engine, and what it may not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/engine.h"

static const char *const names[] = {
    "SONDE_SEED", "BITNET_SEED", "SONDE_DETERMINISTIC", "BITNET_DETERMINISTIC", "SONDE_BATCH_SIZE",
    "BITNET_BATCH_SIZE", "SONDE_NUM_THREADS", "BITNET_NUM_THREADS", "SONDE_MEMORY_LIMIT",
    "BITNET_MEMORY_LIMIT",
};

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) unsetenv(names[i]);
    return 0;
}

static void test_obeyed(void **state)
{
    struct engine_options o = { .slots = 7, .threads = 3 };
    struct fail why;
    (void)state;
    assert_int_equal(engine_options_from_env(&o, &why), 0);
    assert_int_equal(o.slots, 7);
    assert_int_equal(o.threads, 3);
    setenv("BITNET_SEED", "99", 1);
    setenv("SONDE_DETERMINISTIC", "true", 1);
    setenv("BITNET_BATCH_SIZE", "16", 1);
    setenv("SONDE_NUM_THREADS", "2", 1);
    setenv("BITNET_MEMORY_LIMIT", "1GB", 1);
    assert_int_equal(engine_options_from_env(&o, &why), 0);
    assert_true(o.seed_set && o.seed == 99 && o.deterministic);
    assert_int_equal(o.slots, 16);
    assert_int_equal(o.threads, 2);
    assert_true(o.memory_limit == 1u << 30);
}

static void test_refused(void **state)
{
    static const char *const cases[][3] = {
        { "SONDE_NUM_THREADS", "257", "1 to 256" },
        { "BITNET_NUM_THREADS", "many", "whole number" },
        { "BITNET_BATCH_SIZE", "1000", "1 to 256" },
        { "SONDE_SEED", "-1", "whole number" },
        { "SONDE_MEMORY_LIMIT", "lots", "bytes" },
        { "BITNET_DETERMINISTIC", "maybe", "true or false" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct engine_options o = { 0 };
        struct fail why = { "" };
        clear(NULL);
        setenv(cases[i][0], cases[i][1], 1);
        assert_int_equal(engine_options_from_env(&o, &why), -1);
        for (int k = 0; k < 3; k++) {
            if (!strstr(why.text, cases[i][k])) fail_msg("no %s in: %s", cases[i][k], why.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_obeyed, clear, clear),
        cmocka_unit_test_setup_teardown(test_refused, clear, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
