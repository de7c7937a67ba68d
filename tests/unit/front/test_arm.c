/* Which of two servers gets a request: the share, and that what belongs together stays together. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "front/front.h"
#include "sonde/sonde.h"

static void test_share_parse(void **state)
{
    (void)state;
    static const struct { const char *text; uint32_t ppm; } cases[] = {
        { "10%", 100000 },   { "0.1", 100000 },  { "12.5 %", 125000 }, { "100%", 1000000 },
        { "1", 1000000 },    { "0.0001%", 1 },   { ".5", 500000 },     { "33.3333%", 333333 },
    };
    static const char *const bad[] = {
        "", "%", "0", "0%", "-1%", "101%", "1.5", "10%%", "10 percent", "nan", "inf", "1e9",
        "0.00001%", "ten", "0x1",
    };
    uint32_t ppm = 0;
    struct sonde_err err = { "" };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(sonde_front_share_parse(cases[i].text, &ppm, &err), 0);
        assert_int_equal(ppm, cases[i].ppm);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ppm = 7;
        if (sonde_front_share_parse(bad[i], &ppm, &err) != SONDE_EINVAL) fail_msg("'%s'", bad[i]);
        assert_int_equal(ppm, 7);
        assert_non_null(strstr(err.text, "is not a share of requests"));
    }
}

/* Keys that are as alike as keys can be: names that count up, traces that do. The same keys each
 * time, so there is nothing that could fail at times; five standard errors of a binomial are what
 * a good hash keeps to. */
static void test_share(void **state)
{
    (void)state;
    static const uint32_t shares[] = { 1000, 10000, 100000, 500000, 900000 };
    enum { KEYS = 100000 };
    for (size_t s = 0; s < sizeof(shares) / sizeof(shares[0]); s++) {
        const double p = shares[s] / 1e6;
        uint32_t sessions = 0, low = 0, high = 0, both = 0;
        for (uint32_t i = 0; i < KEYS; i++) {
            char name[32];
            const int len = snprintf(name, sizeof(name), "user-%u", i);
            const int session = sonde_front_arm_of(shares[s], name, (size_t)len, 1, 1);
            const int trace = sonde_front_arm_of(shares[s], NULL, 0, 0, i);
            sessions += session == SONDE_FRONT_B;
            low += trace == SONDE_FRONT_B;
            high += sonde_front_arm_of(shares[s], NULL, 0, (uint64_t)i << 32, 1) == SONDE_FRONT_B;
            both += session == SONDE_FRONT_B && trace == SONDE_FRONT_B;
        }
        const double bound = 5 * sqrt(KEYS * p * (1 - p));
        assert_true(fabs(sessions - KEYS * p) < bound);
        assert_true(fabs(low - KEYS * p) < bound);
        assert_true(fabs(high - KEYS * p) < bound);
        assert_true(fabs(both - KEYS * p * p) < 5 * sqrt(KEYS * p * p * (1 - p * p)) + 5);
    }
    assert_int_equal(sonde_front_arm_of(SONDE_FRONT_SHARE_ALL, "x", 1, 0, 0), SONDE_FRONT_B);
    assert_int_equal(sonde_front_arm_of(SONDE_FRONT_SHARE_ALL, NULL, 0, 5, 5), SONDE_FRONT_B);
    assert_int_equal(sonde_front_arm_of(0, "x", 1, 0, 0), SONDE_FRONT_A);
}

static void test_sticky(void **state)
{
    (void)state;
    uint32_t kept = 0, moved = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        char name[32];
        const size_t len = (size_t)snprintf(name, sizeof(name), "s%u", (unsigned)i);
        const enum sonde_front_arm arm = sonde_front_arm_of(100000, name, len, i, ~i);
        /* Whatever the trace. */
        assert_int_equal(arm, sonde_front_arm_of(100000, name, len, i * 77, 1));
        /* Who is at B stays there when B's share grows. */
        const enum sonde_front_arm later = sonde_front_arm_of(200000, name, len, i, ~i);
        if (arm == SONDE_FRONT_B) assert_int_equal(later, SONDE_FRONT_B);
        kept += arm == SONDE_FRONT_B;
        moved += arm != later;
    }
    assert_true(kept > 800 && moved > 800);
}

/* Sessions keep their server with the next version: these do not change. */
static void test_pinned(void **state)
{
    (void)state;
    static const struct { const char *session; uint64_t hi, lo; char arm; } cases[] = {
        { "alice", 0, 0, 'B' }, { "bob", 0, 0, 'B' }, { "carol", 0, 0, 'B' },
        { "", 1, 2, 'A' }, { "", 0x0af7651916cd43ddu, 0x8448eb211c80319cu, 'A' },
    };
    char arms[8] = "", wanted[8] = "";
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        arms[i] = sonde_front_arm_of(500000, cases[i].session, strlen(cases[i].session),
                                     cases[i].hi, cases[i].lo) == SONDE_FRONT_B ? 'B' : 'A';
        wanted[i] = cases[i].arm;
    }
    assert_string_equal(arms, wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share_parse), cmocka_unit_test(test_share),
        cmocka_unit_test(test_sticky), cmocka_unit_test(test_pinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
