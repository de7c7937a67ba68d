/* Buckets of requests: who is counted, by what address, and how many may come. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "serve/http/rate.h"

static struct sonde_rate_client client_of(const char *peer, const char *forwarded, int *counted)
{
    struct sonde_rate_client c;
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    memset(&c, 0x55, sizeof(c));
    if (inet_pton(AF_INET, peer, &v4.sin_addr) == 1) {
        *counted = sonde_rate_client((const struct sockaddr *)&v4, forwarded, &c);
    } else {
        assert_int_equal(inet_pton(AF_INET6, peer, &v6.sin6_addr), 1);
        *counted = sonde_rate_client((const struct sockaddr *)&v6, forwarded, &c);
    }
    return c;
}

static void who_is_counted(void **state)
{
    (void)state;
    static const struct {
        const char *peer, *forwarded;
        int counted;
        const char *same_as;
    } cases[] = {
        { "127.0.0.1", NULL, 0, NULL },
        { "127.3.2.1", NULL, 0, NULL },
        { "::1", NULL, 0, NULL },
        { "::ffff:127.0.0.1", NULL, 0, NULL },
        { "10.0.0.7", NULL, 1, "10.0.0.7" },
        { "::ffff:10.0.0.7", NULL, 1, "10.0.0.7" },
        { "2001:db8::1", NULL, 1, "2001:db8::2" }, /* one network */
        /* A proxy on this machine, and what stands in its header. */
        { "127.0.0.1", "10.0.0.7", 1, "10.0.0.7" },
        { "::1", "10.0.0.7", 1, "10.0.0.7" },
        { "127.0.0.1", "1.2.3.4, 10.0.0.7", 1, "10.0.0.7" },
        { "127.0.0.1", "1.2.3.4,10.0.0.7:4711 ", 1, "10.0.0.7" },
        { "127.0.0.1", "[2001:db8::1]:80", 1, "2001:db8::1" },
        { "127.0.0.1", "2001:db8::1", 1, "2001:db8::1" },
        { "127.0.0.1", "unknown", 1, NULL },
        { "127.0.0.1", "", 1, NULL },
        { "::ffff:127.0.0.1", "10.0.0.7", 1, "10.0.0.7" },
        { "127.0.0.1", "1.2.3.4,\t10.0.0.7", 1, "10.0.0.7" },
        { "127.0.0.1", "::ffff:10.0.0.7", 1, "10.0.0.7" },
        { "127.0.0.1", "[2001:db8::1]", 1, "2001:db8::ffff" }, /* one network */
        /* What is no address is one client, whatever it says. */
        { "127.0.0.1", "10.0.0.7,", 1, "::2" },
        { "127.0.0.1", "10.0.0.256", 1, "::2" },
        { "127.0.0.1", "10.0.0.7, evil", 1, "::2" },
        { "127.0.0.1", "\"10.0.0.7\"", 1, "::2" },
        { "127.0.0.1", "[[[", 1, "::2" },
        { "127.0.0.1", ":", 1, "::2" },
        { "127.0.0.1", "10.0.0.7:1:2", 1, "::2" },
        { "127.0.0.1", "00000000000000000000000000000000000000000000000000000000000000000000000",
          1, "::2" },
        /* Others' headers are not believed. */
        { "10.0.0.7", "1.2.3.4", 1, "10.0.0.7" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int counted, other;
        const struct sonde_rate_client c = client_of(cases[i].peer, cases[i].forwarded, &counted);
        if (counted != cases[i].counted) fail_msg("case %zu: counted %d", i, counted);
        if (!cases[i].same_as) continue;
        const struct sonde_rate_client same = client_of(cases[i].same_as, NULL, &other);
        if (memcmp(&c, &same, sizeof(c)) != 0) fail_msg("case %zu: another address", i);
    }
    struct sonde_rate_client c;
    assert_int_equal(sonde_rate_client(NULL, "1.2.3.4", &c), 0);
    const struct sockaddr local = { .sa_family = AF_UNIX };
    assert_int_equal(sonde_rate_client(&local, "1.2.3.4", &c), 0);
}

/* So many in the long run, by whoever asks all the time; burst is never less than one. */
static void rates_hold(void **state)
{
    (void)state;
    static const struct { double per_s, burst, step_s; } cases[] = {
        { 10, 5, 0.001 }, { 10, 1, 0.001 }, { 10, 0, 0.001 }, { 0.5, 3, 0.01 }, { 1000, 1, 1e-5 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_rate *r = sonde_rate_create(cases[i].per_s, cases[i].burst);
        const struct sonde_rate_client c = { { 1 } };
        const double burst = cases[i].burst < 1 ? 1 : cases[i].burst;
        double taken = 0, now = 1000;
        for (int k = 0; k < 20000; k++, now += cases[i].step_s) {
            const double wait_s = sonde_rate_take(r, &c, now);
            assert_true(wait_s >= 0 && wait_s <= 1 / cases[i].per_s + 1e-6);
            taken += wait_s == 0;
        }
        const double most = cases[i].per_s * (now - 1000) + burst;
        if (taken > most + 1 || taken < (most - burst) * 0.95) fail_msg("case %zu: %g", i, taken);
        sonde_rate_destroy(r);
    }
}

/* Who waits as long as he is told is let in. */
static void the_wait_is_enough(void **state)
{
    (void)state;
    struct sonde_rate *r = sonde_rate_create(3, 2);
    const struct sonde_rate_client c = { { 7 } };
    double now = 50;
    for (int i = 0; i < 1000; i++) {
        const double wait_s = sonde_rate_take(r, &c, now);
        if (wait_s > 0) {
            now += wait_s + 1e-9;
            assert_true(sonde_rate_take(r, &c, now) == 0);
        }
    }
    sonde_rate_destroy(r);
}

static void a_bucket_empties_and_fills(void **state)
{
    (void)state;
    struct sonde_rate *r = sonde_rate_create(10, 5);
    int counted;
    const struct sonde_rate_client a = client_of("10.0.0.1", NULL, &counted);
    const struct sonde_rate_client b = client_of("10.0.0.2", NULL, &counted);
    assert_non_null(r);
    for (int i = 0; i < 5; i++) assert_true(sonde_rate_take(r, &a, 100) == 0);
    assert_float_equal(sonde_rate_take(r, &a, 100), 0.1, 1e-9);
    assert_float_equal(sonde_rate_take(r, &a, 100.04), 0.06, 1e-9);
    assert_true(sonde_rate_take(r, &b, 100) == 0); /* others are not held up */
    assert_true(sonde_rate_take(r, &a, 100.11) == 0);
    assert_true(sonde_rate_take(r, &a, 100.11) > 0);
    /* Not more than what may come at once, after whatever time; and a clock that stands still. */
    for (int i = 0; i < 5; i++) assert_true(sonde_rate_take(r, &a, 1e6) == 0);
    assert_true(sonde_rate_take(r, &a, 1e6) > 0);
    assert_true(sonde_rate_take(r, &a, 1e6 - 1) > 0);
    sonde_rate_destroy(r);
    sonde_rate_destroy(NULL);
}

/* More clients than there are places: each still gets what one may send. */
static void many_clients(void **state)
{
    (void)state;
    struct sonde_rate *r = sonde_rate_create(1, 2);
    struct sonde_rate_client c = { { 0 } };
    for (uint32_t i = 0; i < 50000; i++) {
        memcpy(c.address, &i, sizeof(i));
        assert_true(sonde_rate_take(r, &c, 10 + i * 1e-6) == 0);
    }
    /* The last one is remembered. */
    assert_true(sonde_rate_take(r, &c, 10.05) == 0);
    assert_true(sonde_rate_take(r, &c, 10.05) > 0);
    sonde_rate_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_counted),
        cmocka_unit_test(rates_hold),
        cmocka_unit_test(the_wait_is_enough),
        cmocka_unit_test(a_bucket_empties_and_fills),
        cmocka_unit_test(many_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
