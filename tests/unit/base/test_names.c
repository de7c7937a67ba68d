/* Names of an enum's values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/names.h"

static const char *const flavours[] = { "sour", "sweet", NULL, "sweetest", "" };

static void found(void **state)
{
    (void)state;
    static const struct { const char *text; int value; } cases[] = {
        { "sour", 0 }, { "sweet", 1 }, { "sweetest", 3 }, { "", 4 },
        { "swee", -1 }, { "sweeter", -1 }, { "Sour", -1 }, { "sour ", -1 },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        const int value = SONDE_NAME_FIND(flavours, cases[i].text);
        if (value != cases[i].value) fail_msg("'%s': %d", cases[i].text, value);
    }
    assert_int_equal(sonde_name_find(flavours, 1, "sweet"), -1);
    assert_int_equal(sonde_name_find(flavours, 0, "sour"), -1);
}

static void found_in_a_list(void **state)
{
    (void)state;
    const size_t count = SONDE_COUNT(flavours);
    assert_int_equal(sonde_name_find_len(flavours, count, "sweet,sour", 5), 1);
    assert_int_equal(sonde_name_find_len(flavours, count, "sweetest,sour", 8), 3);
    assert_int_equal(sonde_name_find_len(flavours, count, "sweetest,sour", 7), -1);
    assert_int_equal(sonde_name_find_len(flavours, count, "sweet,sour", 10), -1);
    assert_int_equal(sonde_name_find_len(flavours, count, ",sour", 0), 4);
}

static void named(void **state)
{
    (void)state;
    assert_string_equal(SONDE_NAME_OF(flavours, 0), "sour");
    assert_string_equal(SONDE_NAME_OF(flavours, 4), "");
    assert_string_equal(SONDE_NAME_OF(flavours, 2), "unknown"); /* has none */
    assert_string_equal(SONDE_NAME_OF(flavours, 5), "unknown");
    assert_string_equal(SONDE_NAME_OF(flavours, -1), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found), cmocka_unit_test(found_in_a_list), cmocka_unit_test(named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
