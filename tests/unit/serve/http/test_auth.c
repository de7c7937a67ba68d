/* Who may ask: tokens, users, web pages, and which routes are open to everybody. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "serve/http/route.h"

#define TOKEN "correct-horse-battery"

static struct sonde_auth *guard_of(struct sonde_auth_options o)
{
    struct sonde_auth *g = NULL;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_auth_create(&o, NULL, &g, &err), 0);
    return g;
}

static void test_tokens(void **state)
{
    (void)state;
    static const struct { const char *path, *sent; enum sonde_auth_answer answer; } cases[] = {
        { "/metrics", NULL, SONDE_AUTH_NO },
        { "/metrics", "Bearer " TOKEN, SONDE_AUTH_YES },
        { "/metrics", "bearer   " TOKEN, SONDE_AUTH_YES },
        { "/metrics", "Bearer " TOKEN "x", SONDE_AUTH_NO },
        { "/metrics", "Basic " TOKEN, SONDE_AUTH_NO },
        { "/metrics", TOKEN, SONDE_AUTH_NO },
        { "/livez", NULL, SONDE_AUTH_YES },
        { "/health", NULL, SONDE_AUTH_NO },
        { "/profiling/nothing", NULL, SONDE_AUTH_NO },
    };
    struct sonde_auth *g = guard_of((struct sonde_auth_options){ .token = TOKEN });
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (sonde_auth_ask(g, cases[i].path, cases[i].sent) != cases[i].answer) {
            fail_msg("%s with %s", cases[i].path, cases[i].sent);
        }
    }
    sonde_auth_destroy(g);
}

/* What a page may do depends on where it is from. */
static void test_pages(void **state)
{
    (void)state;
    enum { FOREIGN = SONDE_PAGE_FOREIGN, OURS = SONDE_PAGE_OURS, SHARED = SONDE_PAGE_SHARED };
    static const struct { const char *hosts, *origin, *host; int page; } cases[] = {
        { NULL, NULL, "localhost:6060", OURS },
        { NULL, "http://localhost:6060", "localhost:6060", OURS },
        { NULL, "http://localhost:3000", "localhost:6060", OURS },
        { NULL, "https://127.0.0.1", "localhost:6060", OURS },
        { NULL, "http://evil.example", "localhost:6060", FOREIGN },
        { NULL, "null", "localhost:6060", FOREIGN },
        { NULL, "", "localhost:6060", FOREIGN },
        { NULL, "file://", "localhost:6060", FOREIGN },
        { NULL, "ftp://localhost", "localhost:6060", FOREIGN },
        { NULL, "http://localhost.evil", "localhost:6060", FOREIGN },
        { NULL, "http://localhost/../evil", "localhost:6060", FOREIGN },
        { "ui.lan", "http://ui.lan", "localhost:6060", SHARED },
        { "ui.lan", "https://UI.lan:8443", "localhost:6060", SHARED },
        { "ui.lan", "http://ui.lan:6060", "ui.lan:6060", OURS },
        { "ui.lan", "http://ui.lan.evil", "localhost:6060", FOREIGN },
        { "ui.lan", "http://xui.lan", "localhost:6060", FOREIGN },
        { "ui.lan", "http://evil/ui.lan", "localhost:6060", FOREIGN },
        { "ui.lan", "http://ui.lan@evil", "localhost:6060", FOREIGN },
        { "ui.lan", "http://localhost:3000", "localhost:6060", OURS },
        { "ui.lan", "null", "localhost:6060", FOREIGN },
        { "a,localhost:3000", "http://localhost:3000", "localhost:6060", SHARED },
        { "a,localhost:3000", "http://localhost:3001", "localhost:6060", OURS },
        { "a,localhost:3000", "http://127.0.0.1:3000", "localhost:6060", OURS },
        { "localhost", "http://localhost:3000", "127.0.0.1:6060", SHARED },
        { "ui.lan:80", "http://ui.lan:81", "localhost:6060", FOREIGN },
        { "fd00::7", "http://[fd00::7]:80", "localhost:6060", SHARED },
        { "fd00::7", "http://[FD00:0::7]", "localhost:6060", SHARED },
        { "[fd00::7]:80", "http://[fd00::7]:80", "localhost:6060", SHARED },
        { "fd00::7", "http://fd00::7", "localhost:6060", FOREIGN },
        { "*", "http://evil.example", "localhost:6060", FOREIGN },
        { "ui.lan", "http://ui.lan:8443/", "localhost:6060", FOREIGN },
        { "ui.lan", "http://ui.lan:8443@evil", "localhost:6060", FOREIGN },
        { "ui.lan", "http://user@ui.lan", "localhost:6060", FOREIGN },
        { "ui.lan", "http://user:1@ui.lan", "localhost:6060", FOREIGN },
        { "ui.lan", "http://ui.lan http://evil", "localhost:6060", FOREIGN },
        { "ui.lan", "http:/ui.lan", "localhost:6060", FOREIGN },
        { "ui.lan", "http:///ui.lan", "localhost:6060", FOREIGN },
        { "ui.lan", "ui.lan", "localhost:6060", FOREIGN },
        { "ui.lan", "http://ui.lan", NULL, SHARED },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_auth *g = guard_of((struct sonde_auth_options){ .hosts = cases[i].hosts });
        const int page = (int)sonde_auth_page(g, cases[i].origin, cases[i].host);
        if (page != cases[i].page) fail_msg("%s, %s: %d", cases[i].hosts, cases[i].origin, page);
        assert_int_equal(sonde_auth_shares(g), cases[i].hosts != NULL);
        sonde_auth_destroy(g);
    }
}

/* Forms that no browser sends do not stand for a host, also where one that is named begins them. */
static void test_hosts(void **state)
{
    (void)state;
    static const struct { const char *host; int ok; } cases[] = {
        { "ui.lan", 1 },           { "UI.Lan:8443", 1 },      { "ui.lan:1", 1 },
        { "ui.lan:65535", 1 },     { "10.0.0.7:80", 1 },      { "[fd00::7]", 1 },
        { "[fd00::7]:80", 1 },     { "[FD00:0:0::7]", 1 },    { "a_b-c.lan", 1 },
        { "localhost:6060", 1 },   { "[::1]", 1 },            { "[0::1]:6060", 1 },
        { "", 0 },                 { ":80", 0 },              { "ui.lan:", 0 },
        { "ui.lan:0", 0 },         { "ui.lan:65536", 0 },     { "ui.lan:080", 0 },
        { "ui.lan:+80", 0 },       { "ui.lan:80x", 0 },       { "ui.lan:80:80", 0 },
        { "ui.lan:80 ", 0 },       { "ui.lan: 80", 0 },       { " ui.lan", 0 },
        { "ui.lan ", 0 },          { "ui.lan\t", 0 },         { "ui.lan/", 0 },
        { "ui.lan:80/x", 0 },      { "ui.lan?", 0 },          { "ui.lan#", 0 },
        { "user@ui.lan", 0 },      { "ui.lan:80@evil", 0 },   { "ui.lan@evil", 0 },
        { "ui.lan,evil", 0 },      { "ui.lan:x", 0 },         { "fd00::7", 0 },
        { "[fd00::7", 0 },         { "[fd00::7]80", 0 },      { "[fd00::7]:", 0 },
        { "[fd00::7%1]", 0 },      { "[ui.lan]", 0 },         { "[]", 0 },
        { "[::1", 0 },             { "[::1]:0", 0 },          { "localhost:", 0 },
        { "localhost:0", 0 },      { "http://ui.lan", 0 },    { "ui.lan.", 0 },
    };
    struct sonde_auth *g = guard_of(
        (struct sonde_auth_options){ .hosts = "ui.lan,10.0.0.7,fd00::7,a_b-c.lan" });
    char longest[300];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (sonde_auth_host_ok(g, cases[i].host) != cases[i].ok) fail_msg("'%s'", cases[i].host);
    }
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(sonde_auth_host_ok(g, longest), 0);
    sonde_auth_destroy(g);
}

/* Also change this list when a route is opened: nothing that was measured may be in it. */
static void test_open_routes(void **state)
{
    (void)state;
    static const char *const open[] = {
        "/", "/profiling/dashboard", "/profiling/routes", "/profiling/app.js",
        "/profiling/app.css", "/profiling/elements.js", "/profiling/icon.svg", "/profiling/*",
    };
    size_t found = 0;
    for (size_t i = 0; sonde_routes[i]; i++) {
        const struct sonde_route *route = sonde_routes[i];
        size_t k = 0;
        if (!route->open) continue;
        while (k < sizeof(open) / sizeof(open[0]) && strcmp(open[k], route->path) != 0) k++;
        if (k == sizeof(open) / sizeof(open[0])) fail_msg("%s is open", route->path);
        assert_string_equal(route->method, "GET");
        assert_int_equal(route->samples, 0);
        found++;
    }
    assert_int_equal(found, sizeof(open) / sizeof(open[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_open_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
