#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/nearest.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
    const char *word, *known;
    unsigned cost;
} cases[] = {
    { "listen", "listen", 0 },
    { "LISTEN", "listen", 0 },
    { "max-spans", "max_spans", 0 },
    { "listn", "listen", 1 },
    { "llisten", "listen", 1 },
    { "liston", "listen", 1 },
    { "litsen", "listen", 1 }, /* swapped */
    { "tilsen", "listen", 3 },
    { "rate", "sample_rate_hz", 2 }, /* a part */
    { "sample_rate_hertz", "sample_rate_hz", 3 },
    { "xyzzy", "listen", SONDE_NOT_NEAR },
    { "", "listen", SONDE_NOT_NEAR },
    { "a", "listen", SONDE_NOT_NEAR },
    { "q", "a", 1 },
    { "0123456789012345678901234567890123456789012345678901234567890123456789", "listen",
      SONDE_NOT_NEAR },
};

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const unsigned cost = sonde_nearness(cases[i].word, cases[i].known);
        if (cost != cases[i].cost) {
            fail_msg("%s, %s: %u, not %u", cases[i].word, cases[i].known, cost, cases[i].cost);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_table) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
