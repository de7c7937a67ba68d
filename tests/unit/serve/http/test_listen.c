/* Addresses that are listened on: what is taken, opening with ports in use, who holds one; and
 * hosts as headers name them. The short table of addresses is in test_accept.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "serve/http/listen.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void addresses(void **state)
{
    (void)state;
    static const struct { const char *text, *url; int loopback; } cases[] = {
        { "0", "http://127.0.0.1:0", 1 },
        { "00080", "http://127.0.0.1:80", 1 },
        { "LOCALHOST:1", "http://127.0.0.1:1", 1 },
        { "127.255.255.255:1", "http://127.255.255.255:1", 1 },
        { "128.0.0.1:1", "http://128.0.0.1:1", 0 },
        { "126.0.0.1:1", "http://126.0.0.1:1", 0 },
        { "[0:0::1]:1", "http://[::1]:1", 1 },
        { "[::2]:1", "http://[::2]:1", 0 },
        { "[fe80::1]:1", "http://[fe80::1]:1", 0 },
        { "[::ffff:127.0.0.1]:1", "http://[::ffff:127.0.0.1]:1", 0 }, /* a token does no harm */
        { "255.255.255.255:65535", "http://255.255.255.255:65535", 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_listen l;
        struct sonde_err err = { "" };
        char url[80];
        if (sonde_listen_parse(cases[i].text, &l, &err)) fail_msg("%s", err.text);
        sonde_listen_url(&l, 0, url, sizeof(url));
        assert_string_equal(url, cases[i].url);
        if (sonde_listen_is_loopback(&l) != cases[i].loopback) fail_msg("%s", cases[i].text);
        sonde_listen_url(&l, 1, url, sizeof(url));
        assert_memory_equal(url, "https://", 8);
        sonde_listen_url(&l, 0, url, 5); /* cut, not beyond */
        assert_string_equal(url, "http");
    }
}

static void not_addresses(void **state)
{
    (void)state;
    static char longest[300];
    memset(longest, '1', sizeof(longest) - 1);
    static const char *const texts[] = {
        ":", ":x", "::", "[", "[]", "[]:", "[]:1", "[::1]", "[::1]:", "[::1]:x", "[::1]:65536",
        "127.0.0.1:000080", "127.0.0.1: 80", "127.0.0.1 :80", " 127.0.0.1:80", "127.0.0.1:80 ",
        "127.1:80", "0x7f.0.0.1:80", "127.0.0.256:80", "127.0.0.1.:80", "2130706433:80",
        "localhost", "localhost.:80", "local host:80", "http://127.0.0.1:80", "*:80", "-1",
        "65536", "99999", "1e3", "127.0.0.1:80:90", "127.0.0.1:80/x", "[::1%lo]:80", "\xff:80",
        "[::1]:80x", "unix:/tmp/x", longest,
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct sonde_listen l, before;
        struct sonde_err err = { "" };
        memset(&l, 0x5a, sizeof(l));
        before = l;
        if (!sonde_listen_parse(texts[i], &l, &err)) fail_msg("'%s' is taken", texts[i]);
        assert_memory_equal(&l, &before, sizeof(l));
        assert_non_null(strstr(err.text, "cannot listen on \""));
        assert_non_null(strstr(err.text, "127.0.0.1:6060")); /* says what would do */
        assert_true(strlen(err.text) < 400);
    }
}

/* ---- Opening --------------------------------------------------------------------------------- */

static struct sonde_listen at(const char *text)
{
    struct sonde_listen l;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_listen_parse(text, &l, &err), 0);
    return l;
}

static void opening(void **state)
{
    (void)state;
    struct sonde_listen l = at("127.0.0.1:0");
    struct sonde_err err = { "" };
    int fd = -1, other = -1;
    assert_int_equal(sonde_listen_open(&l, 0, &fd, &err), 0);
    const int port = ntohs(l.address.v4.sin_port);
    assert_true(port > 0); /* the one that it really has */
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    /* It is taken: by whom is found, as this process's name says. */
    char name[17] = "", wanted[64], text[32];
    assert_int_equal(prctl(PR_GET_NAME, name), 0);
    snprintf(text, sizeof(text), "127.0.0.1:%d", port);
    snprintf(wanted, sizeof(wanted), "in use by %s (pid %d)", name, (int)getpid());
    struct sonde_listen again = at(text);
    assert_int_equal(sonde_listen_open(&again, 0, &other, &err), SONDE_EBUSY);
    assert_int_equal(other, -1);
    if (!strstr(err.text, wanted)) fail_msg("%s", err.text);
    assert_non_null(strstr(err.text, "--listen 127.0.0.1:0"));
    assert_int_equal(ntohs(again.address.v4.sin_port), port); /* as it was */
    /* With tries, one of the ports after it. */
    if (port < 65000) {
        assert_int_equal(sonde_listen_open(&again, 500, &other, &err), 0);
        assert_in_range(ntohs(again.address.v4.sin_port), port + 1, port + 500);
        close(other);
    }
    close(fd);
}

static void opening_v6(void **state)
{
    (void)state;
    struct sonde_listen l = at("[::1]:0");
    struct sonde_err err = { "" };
    char url[80];
    int fd = -1;
    if (sonde_listen_open(&l, 0, &fd, &err) != 0) skip(); /* a machine without IPv6 */
    sonde_listen_url(&l, 0, url, sizeof(url));
    assert_memory_equal(url, "http://[::1]:", 13);
    assert_true(ntohs(l.address.v6.sin6_port) > 0);
    close(fd);
}

static void not_ours(void **state)
{
    (void)state;
    struct sonde_listen l = at("192.0.2.1:6060"); /* of no machine: RFC 5737 */
    struct sonde_err err = { "" };
    int fd = -1;
    assert_int_equal(sonde_listen_open(&l, 5, &fd, &err), SONDE_EIO);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(err.text, "cannot listen on 192.0.2.1:6060: "));
}

/* ---- Hosts ----------------------------------------------------------------------------------- */

static void hosts(void **state)
{
    (void)state;
    static const struct { const char *text, *name; int is_v6, port; } cases[] = {
        { "a", "a", 0, 0 },
        { "Ui.Lan", "Ui.Lan", 0, 0 },
        { "a:1", "a", 0, 1 },
        { "a:65535", "a", 0, 65535 },
        { "10.0.0.7:80", "10.0.0.7", 0, 80 },
        { "a_b-c.d", "a_b-c.d", 0, 0 },
        { "[::1]", "::1", 1, 0 },
        { "[0:0:0:0:0:0:0:1]:80", "::1", 1, 80 },
        { "[FD00::A]", "fd00::a", 1, 0 },
        { "[::ffff:1.2.3.4]:1", "::ffff:1.2.3.4", 1, 1 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_host h;
        if (sonde_host_parse(cases[i].text, &h)) fail_msg("%s", cases[i].text);
        assert_string_equal(h.name, cases[i].name);
        assert_int_equal(h.is_v6, cases[i].is_v6);
        assert_int_equal(h.port, cases[i].port);
    }
    static const char *const not_hosts[] = {
        "", ":", ":80", "a:", "a:0", "a:00", "a:080", "a:65536", "a:100000", "a:-1", "a:+1", "a: 1",
        "a:1 ", "a b", "a/b", "a?b", "a#b", "a@b", "a,b", "a\\b", "a%41", "a\tb", "a\n", "\xc3\xa4",
        "[", "[]", "[a]", "[::1", "::1", "[::1]x", "[::1]:", "[::1]:0", "[::1%1]", "[[::1]]",
        "[1.2.3.4]", "[0000:0000:0000:0000:0000:0000:0000:0000:0000]", "http://a", "*", "a*", "'a'",
    };
    for (size_t i = 0; i < COUNT(not_hosts); i++) {
        struct sonde_host h = { .port = 77 };
        if (!sonde_host_parse(not_hosts[i], &h)) fail_msg("'%s' is a host", not_hosts[i]);
        assert_int_equal(h.port, 77);
        assert_int_equal(sonde_listen_host_ok(not_hosts[i]), 0);
    }
    for (size_t len = SONDE_HOST_NAME_MAX - 1; len < SONDE_HOST_NAME_MAX + 3; len++) {
        char text[300];
        struct sonde_host h;
        memset(text, 'a', len);
        text[len] = '\0';
        assert_int_equal(sonde_host_parse(text, &h) == 0, len <= SONDE_HOST_NAME_MAX);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(addresses), T(not_addresses), T(opening), T(opening_v6), T(not_ours), T(hosts),
    };
    return cmocka_run_group_tests_name("listen", tests, NULL, NULL);
}
