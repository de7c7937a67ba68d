/* Which route a path is of and which methods it takes; numbers in requests; errors as JSON; and
 * targets as a browser would send them, asked by this process itself. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "serve/http/route.h"
#include "serve/http/server.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct sonde_response answer;

static int make(void **state)
{
    (void)state;
    memset(&answer, 0, sizeof(answer));
    sonde_buf_init(&answer.body, 1 << 16);
    return 0;
}

static int release(void **state)
{
    (void)state;
    sonde_buf_release(&answer.body);
    return 0;
}

/* ---- Finding --------------------------------------------------------------------------------- */

static void paths(void **state)
{
    (void)state;
    static const struct { const char *path, *method, *route, *name, *allow; } cases[] = {
        { "/", "GET", "/", NULL, "" },
        { "/", "HEAD", "/", NULL, "" },
        { "/", "POST", NULL, NULL, "GET, HEAD" },
        { "/metrics", "GET", "/metrics", NULL, "" },
        { "/metrics/", "GET", NULL, NULL, "" },
        { "/Metrics", "GET", NULL, NULL, "" },
        { "/metrics", "get", NULL, NULL, "GET, HEAD" },
        { "/metrics", "", NULL, NULL, "GET, HEAD" },
        { "/metrics?x", "GET", NULL, NULL, "" },
        { "", "GET", NULL, NULL, "" },
        { "*", "GET", NULL, NULL, "" },
        { "metrics", "GET", NULL, NULL, "" },
        { "//metrics", "GET", NULL, NULL, "" },
        { "/api/runs/7", "GET", "/api/runs/*", "7", "" },
        { "/api/runs/a b", "GET", "/api/runs/*", "a b", "" },
        { "/api/runs/*", "GET", "/api/runs/*", "*", "" },
        { "/api/runs/", "GET", NULL, NULL, "" },         /* one part of any name: not of none … */
        { "/api/runs/7/8", "GET", NULL, NULL, "" },      /* … nor of two */
        { "/api/runs/7/", "GET", NULL, NULL, "" },
        { "/api/runs/..", "GET", "/api/runs/*", "..", "" },
        { "/api/requests/7/why", "GET", "/api/requests/*/why", "7/why", "" },
        { "/api/requests//why", "GET", NULL, NULL, "" },
        { "/api/requests/7/why/", "GET", NULL, NULL, "" },
        { "/api/requests/7/whyever", "GET", NULL, NULL, "" },
        { "/admin/profiles/x", "DELETE", "/admin/profiles/*", "x", NULL },
        { "/admin/profiles/x", "GET", "/admin/profiles/*", "x", NULL },
        { "/admin/profiles/x", "PUT", NULL, NULL, "GET, HEAD, DELETE" },
        { "/v1/metrics", "POST", "/v1/metrics", NULL, "" },
        { "/v1/metrics", "GET", NULL, NULL, "POST" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *name = "unset";
        char allow[SONDE_ALLOW_MAX];
        const struct sonde_route *r = sonde_route_find(cases[i].path, cases[i].method, &name, allow,
                                                       sizeof(allow));
        if (!r != !cases[i].route || (r && strcmp(r->path, cases[i].route))) {
            fail_msg("%s %s: %s", cases[i].method, cases[i].path, r ? r->path : "none");
        }
        if (r && cases[i].name) assert_string_equal(name, cases[i].name);
        else if (r) assert_null(name);
        if (cases[i].allow && strcmp(allow, cases[i].allow)) {
            fail_msg("%s %s allows %s", cases[i].method, cases[i].path, allow);
        }
    }
    for (size_t size = 0; size < 12; size++) { /* whatever room there is for the methods */
        char allow[16] = "zzzzzzzzzzzzzzz";
        const char *name;
        assert_null(sonde_route_find("/", "POST", &name, allow, size));
        if (size) assert_true(strlen(allow) < size);
        assert_int_equal(allow[size], 'z');
    }
}

/* Each is found by its own path and method: none is hidden by one before it. */
static void every_route_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; sonde_routes[i]; i++) {
        const struct sonde_route *route = sonde_routes[i];
        char path[200], allow[SONDE_ALLOW_MAX];
        const char *name, *star = strchr(route->path, '*');
        snprintf(path, sizeof(path), "%.*s%s%s", (int)strcspn(route->path, "*"), route->path,
                 star ? "some-thing" : "", star ? star + 1 : "");
        if (sonde_route_find(path, route->method, &name, allow, sizeof(allow)) != route) {
            fail_msg("%s %s is hidden", route->method, route->path);
        }
        assert_non_null(route->handle);
        assert_true(route->path[0] == '/');
        if (star) assert_true((star[1] == '\0' || star[1] == '/') && star[-1] == '/');
        const int get = !strcmp(route->method, "GET");
        assert_true(get || !strcmp(route->method, "POST") || !strcmp(route->method, "DELETE"));
        if (get) assert_int_equal(route->body_max, 0);
        else assert_int_equal(route->open, 0);
    }
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void numbers(void **state)
{
    (void)state;
    static const struct { const char *text; int ok; double value; } cases[] = {
        { "1", 1, 1 },     { "0.5", 1, 0.5 },  { "-2", 1, -2 },    { "1e1", 1, 10 },
        { "+3", 1, 3 },    { ".5", 1, 0.5 },   { "5.", 1, 5 },     { "-0", 1, 0 },
        { "-10", 1, -10 }, { "10", 1, 10 },    { "1E-3", 1, 0.001 },
        { "10.001", 0, 0 }, { "-10.1", 0, 0 }, { "", 0, 0 },       { "1.2.3", 0, 0 },
        { "1-2", 0, 0 },   { "0x1", 0, 0 },    { "nan", 0, 0 },    { "1e999", 0, 0 },
        { "1e", 0, 0 },    { "1 ", 0, 0 },     { "e", 0, 0 },      { "-", 0, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct sonde_http_request r = { .params = { { "other", "1" }, { "n", cases[i].text },
                                                          { "n", "7" } }, .param_count = 3 };
        double v = 99;
        answer.status = 0;
        const int ok = sonde_http_number(&r, &answer, "n", -10, 10, &v);
        if (ok != cases[i].ok) fail_msg("'%s'", cases[i].text);
        assert_true(v == (ok ? cases[i].value : 99)); /* the first counts */
        assert_int_equal(answer.status, ok ? 0 : 400);
        if (!ok) assert_non_null(strstr(answer.body.data, "parameter n: "));
        if (!ok) assert_non_null(strstr(answer.body.data, "from -10 to 10"));
    }
    const struct sonde_http_request r = { .param_count = 0 };
    double v = 99;
    uint64_t n = 98;
    assert_int_equal(sonde_http_number(&r, &answer, "n", 0, 1, &v), 1);
    assert_int_equal(sonde_http_count(&r, &answer, "n", 1, &n), 1);
    assert_true(v == 99 && n == 98); /* not there: as it was */
}

static void counts(void **state)
{
    (void)state;
    static const struct { const char *text; uint64_t max; int ok; uint64_t value; } cases[] = {
        { "1", 10, 1, 1 },   { "10", 10, 1, 10 }, { "007", 10, 1, 7 },
        { "11", 10, 0, 0 },  { "0", 10, 0, 0 },   { "-1", 10, 0, 0 },  { "", 10, 0, 0 },
        { "1.0", 10, 0, 0 }, { " 1", 10, 0, 0 },  { "1a", 10, 0, 0 },  { "+1", 10, 0, 0 },
        { "18446744073709551615", UINT64_MAX, 1, UINT64_MAX },
        { "18446744073709551616", UINT64_MAX, 0, 0 },
        { "100000000000000000000000001", UINT64_MAX, 0, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct sonde_http_request r = { .params = { { "n", cases[i].text } },
                                              .param_count = 1 };
        uint64_t v = 99;
        answer.status = 0;
        const int ok = sonde_http_count(&r, &answer, "n", cases[i].max, &v);
        if (ok != cases[i].ok) fail_msg("'%s'", cases[i].text);
        assert_true(v == (ok ? cases[i].value : 99));
        assert_int_equal(answer.status, ok ? 0 : 400);
    }
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void errors_are_json(void **state)
{
    (void)state;
    static char huge[5000];
    static const char *const texts[] = { "", "plain", "a \"quote\"", "back\\slash", "\n\t\x01",
                                         "\xff\xfe", "\xc3\xa4", "</script>", "%s%n" };
    memset(huge, 'h', sizeof(huge) - 1);
    sonde_buf_puts(&answer.body, "half an answer");
    for (size_t i = 0; i <= COUNT(texts); i++) {
        const char *text = i < COUNT(texts) ? texts[i] : huge;
        sonde_response_error(&answer, 400 + (unsigned)i, "%s", text);
        assert_int_equal(answer.status, 400 + i);
        assert_string_equal(answer.content_type, "application/json");
        json_t *o = json_loadb(answer.body.data, answer.body.len, 0, NULL);
        assert_non_null(o);
        const char *said = json_string_value(json_object_get(o, "error"));
        assert_non_null(said);
        if (i < COUNT(texts) && (unsigned char)text[0] < 0xf0) assert_string_equal(said, text);
        assert_true(strlen(said) < 1100);
        json_decref(o);
    }
}

/* ---- Asking by itself ------------------------------------------------------------------------ */

static void targets(void **state)
{
    (void)state;
    static char many[1000] = "/livez?";
    for (int i = 0; i < 65; i++) strcat(many, "a=b&");
    static const struct { const char *target; unsigned status; const char *says; } cases[] = {
        { "/livez", 200, NULL },
        { "/%6Civez", 200, NULL },
        { "/livez?", 200, NULL },
        { "/livez?&anything", 200, NULL },
        { "/api/requests?&", 400, "unknown parameter \\\"\\\"" },
        { "/nothing", 404, "no such path: \\\"/nothing\\\"" },
        { "/liv%65z/", 404, "no such path: \\\"/livez/\\\"" },
        { "/livez%00", 400, "cannot be asked for" },
        { "/livez?a=%00", 400, "cannot be asked for" },
        { "/livez?%00=b", 400, "cannot be asked for" },
        { "/%", 404, "no such path: \\\"/%\\\"" },        /* what is no escape stays as it is */
        { "/%4", 404, "no such path: \\\"/%4\\\"" },
        { "/%zz", 404, "no such path: \\\"/%zz\\\"" },
        { "/a+b", 404, "no such path: \\\"/a b\\\"" },
        { "", 404, "no such path" },
        { "?a=b", 404, "no such path" },
        { "/v1/metrics", 404, "no such path" },            /* only what GET gets */
        { "/api/requests?sort=sideways", 400, "parameter sort" },
        { "/api/requests?nothing", 400, "unknown parameter \\\"nothing\\\"" },
        { "/api/requests?so%72t=%73ideways", 400, "\\\"sideways\\\"" },
        { "/api/runs/x%2Fy", 404, "no such path" },        /* a slash is no part of a name */
        { "/api/runs/%30", 400, "parameter id: \\\"0\\\"" },
        { many, 400, "cannot be asked for" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct sonde_http_request from = { .agent = &sonde_agent_none, .param_count = 3,
                                                 .body = "x", .body_len = 1 };
        answer.status = 200;
        sonde_buf_reset(&answer.body);
        sonde_route_ask(&from, cases[i].target, &answer);
        if (answer.status != cases[i].status) {
            fail_msg("%s: %u %s", cases[i].target, answer.status, answer.body.data);
        }
        if (cases[i].says && !strstr(answer.body.data, cases[i].says)) {
            fail_msg("%s: %s", cases[i].target, answer.body.data);
        }
    }
    const int64_t live = sonde__alloc_live();
    sonde_buf_reset(&answer.body);
    sonde__alloc_fail_nth(1);
    sonde_route_ask(&(struct sonde_http_request){ .param_count = 0 }, "/livez", &answer);
    sonde__alloc_fail_nth(0);
    assert_int_equal(answer.status, 500);
    assert_int_equal(sonde__alloc_live(), live);
}

/* ---- What handlers share --------------------------------------------------------------------- */

static void small_helpers(void **state)
{
    (void)state;
    const struct sonde_server_file files[] = { { .name = "a" }, { .name = "b" }, { .name = "a" } };
    struct sonde_http_request r = { .agent = &sonde_agent_none, .files = files, .file_count = 3,
                                    .min_width = { 0.5, 0.25 },
                                    .params = { { "format", "run" }, { "a", "1" }, { "a", "2" } },
                                    .param_count = 3 };
    assert_ptr_equal(sonde_http_file(&r, "a"), &files[0]);
    assert_ptr_equal(sonde_http_file(&r, "b"), &files[1]);
    assert_null(sonde_http_file(&r, "c"));
    assert_null(sonde_http_file(&r, ""));
    assert_string_equal(sonde_http_param(&r, "a"), "1");
    assert_null(sonde_http_param(&r, "A"));
    assert_int_equal(sonde_http_wants_run(&r), 1);
    r.params[0].value = "runs";
    assert_int_equal(sonde_http_wants_run(&r), 0);
    r.param_count = 0;
    assert_int_equal(sonde_http_wants_run(&r), 0);
    assert_null(sonde_http_history(&r));
    assert_true(sonde_http_picture(&r, 0).min_width == 0.5);
    assert_true(sonde_http_picture(&r, 1).min_width == 0.25);
    assert_true(sonde_http_picture(&r, 7).min_width == 0.25);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, make, release)
    const struct CMUnitTest tests[] = {
        T(paths), T(every_route_is_found), T(numbers), T(counts), T(errors_are_json), T(targets),
        T(small_helpers),
    };
    return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
