/* Parameters against their rows: every row of the table at its bounds, with bad values of its kind,
 * and with what is not of its kind at all. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "serve/http/param.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* path and name of each row, again: the table itself is param.c's. */
static const struct { const char *path, *name; } rows[] = {
#define SONDE_PARAM_TEXT(at, id, sample, text) { at, id },
#define SONDE_PARAM_PATTERN(at, id, regex, sample, text) { at, id },
#define SONDE_PARAM_NUMBER(at, id, least, most, text) { at, id },
#define SONDE_PARAM_COUNT(at, id, most, text) { at, id },
#define SONDE_PARAM_WORDS(at, id, choices, text) { at, id },
#define SONDE_PARAM_WORDS_BESIDE(at, id, choices, others, text) { at, id },
#include "serve/http/param_list.h"
};

static struct sonde_response answer;

static int make(void **state)
{
    (void)state;
    sonde_buf_init(&answer.body, 1 << 16);
    return 0;
}

static int release(void **state)
{
    (void)state;
    sonde_buf_release(&answer.body);
    memset(&answer, 0, sizeof(answer));
    return 0;
}

/* A route of this path that takes just this parameter, asked with just this value. */
static int takes(const char *path, const char *name, const char *value)
{
    const char *const params[] = { name, NULL };
    const struct sonde_route route = { .method = "GET", .path = path ? path : "/x",
                                       .params = params };
    const struct sonde_http_request r = { .params = { { name, value } }, .param_count = 1 };
    answer.status = 0;
    sonde_buf_reset(&answer.body);
    const int ok = sonde_params_ok(&route, &r, &answer);
    assert_int_equal(answer.status, ok ? 0 : 400);
    if (!ok && !strstr(answer.body.data, name)) fail_msg("%s", answer.body.data);
    return ok;
}

static void expect(const char *path, const char *name, const char *value, int ok)
{
    if (takes(path, name, value) != ok) {
        fail_msg("%s?%s=%s is %s", path ? path : "*", name, value, ok ? "refused" : "taken");
    }
}

static void number_row(const struct sonde_param_row *p, const char *path)
{
    static const char *const never[] = { "", " ", "x", "1x", "0x10", "nan", "inf", "-inf", "1e400",
                                         "1 ", " 1", "1,5", "--1", "1e", ".", "e5", "+", "infinity",
                                         "1_0", "\xd9\xa1" };
    char text[64];
    for (size_t i = 0; i < COUNT(never); i++) expect(path, p->name, never[i], 0);
    snprintf(text, sizeof(text), "%.17g", p->min);
    expect(path, p->name, text, 1);
    snprintf(text, sizeof(text), "%.17g", p->max);
    expect(path, p->name, text, 1);
    snprintf(text, sizeof(text), "%.17g", nextafter(p->min, -1e300));
    expect(path, p->name, text, 0);
    snprintf(text, sizeof(text), "%.17g", nextafter(p->max, 1e300));
    expect(path, p->name, text, 0);
    expect(path, p->name, "-1e300", 0);
}

static void count_row(const struct sonde_param_row *p, const char *path)
{
    static const char *const never[] = { "", "0", "-1", "+1", "1.0", "1e3", "0x1", " 1", "1 ", "x",
                                         "00", "18446744073709551616", "99999999999999999999999",
                                         "\xd9\xa1", "1\n" };
    char text[64];
    for (size_t i = 0; i < COUNT(never); i++) expect(path, p->name, never[i], 0);
    expect(path, p->name, "1", 1);
    expect(path, p->name, "01", 1);
    snprintf(text, sizeof(text), "%.0f", p->max);
    expect(path, p->name, text, 1);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)p->max + 1);
    expect(path, p->name, text, 0);
    assert_true(p->min == 1 && p->max == floor(p->max) && p->max <= 9007199254740991.0);
}

static void words_row(const struct sonde_param_row *p, const char *path)
{
    char word[64];
    for (const char *w = p->words; *w; w += strcspn(w, "|"), w += *w == '|') {
        const size_t len = strcspn(w, "|");
        assert_true(len > 0 && len < sizeof(word) - 2);
        snprintf(word, sizeof(word), "%.*s", (int)len, w);
        expect(path, p->name, word, 1);
        snprintf(word, sizeof(word), "%.*s|", (int)len, w);
        expect(path, p->name, word, 0);
        snprintf(word, sizeof(word), " %.*s", (int)len, w);
        expect(path, p->name, word, 0);
        snprintf(word, sizeof(word), "%.*s%%", (int)len, w);
        expect(path, p->name, word, 0);
    }
    expect(path, p->name, "", 0);
    expect(path, p->name, "|", 0);
    expect(path, p->name, "no-such-word", 0);
    if (strchr(p->words, '|')) expect(path, p->name, p->words, 0);
    assert_non_null(strstr(answer.body.data, "is not one of "));
}

static void text_row(const struct sonde_param_row *p, const char *path)
{
    regex_t regex;
    expect(path, p->name, p->example, 1);
    if (!p->pattern) {
        expect(path, p->name, "", 1);
        return;
    }
    /* One that does not compile would let everything through. */
    assert_int_equal(regcomp(&regex, p->pattern, REG_EXTENDED | REG_NOSUB), 0);
    regfree(&regex);
    assert_true(p->pattern[0] == '^');
    expect(path, p->name, "", 0);
    expect(path, p->name, "\x01", 0);
    expect(path, p->name, "/../etc", 0);
}

static void every_row_at_its_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *path = rows[i].path;
        const struct sonde_param_row *p = sonde_param_find(path ? path : "/x", rows[i].name);
        assert_non_null(p);
        assert_true(p->path == path || strcmp(p->path, path) == 0);
        switch (p->kind) {
        case SONDE_PARAM_IS_NUMBER: number_row(p, path); break;
        case SONDE_PARAM_IS_COUNT: count_row(p, path); break;
        case SONDE_PARAM_IS_WORDS: words_row(p, path); break;
        default: text_row(p, path);
        }
    }
}

/* A second row of the same would never be found, one of no route never be asked for. */
static void every_row_is_of_use(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int used = 0;
        for (size_t k = 0; k < i; k++) {
            const int same_path = rows[i].path && rows[k].path ? !strcmp(rows[i].path, rows[k].path)
                                                               : rows[i].path == rows[k].path;
            if (same_path && !strcmp(rows[i].name, rows[k].name)) {
                fail_msg("%s of %s is there twice", rows[i].name, rows[i].path);
            }
        }
        for (size_t k = 0; sonde_routes[k] && !used; k++) {
            const struct sonde_route *route = sonde_routes[k];
            const struct sonde_param_row *p = sonde_param_find(route->path, rows[i].name);
            const int found = p && (p->path == rows[i].path ||
                                    (p->path && rows[i].path && !strcmp(p->path, rows[i].path)));
            const char *star = strchr(route->path, '*') ? route->star ? route->star : "id" : "";
            /* One that passes over what it does not know may know this one: /health. */
            used = found && (!strcmp(star, rows[i].name) || (rows[i].path && !route->params));
            for (size_t n = 0; found && route->params && route->params[n]; n++) {
                used |= !strcmp(route->params[n], rows[i].name);
            }
        }
        if (!used) fail_msg("no route takes %s of %s", rows[i].name, rows[i].path);
    }
}

/* A row of a path is also of those below it, unless they have their own. */
static void rows_of_paths_above(void **state)
{
    (void)state;
    static const struct { const char *path, *name, *from; } cases[] = {
        { "/api/flamegraph", "nodes", "/api/flamegraph" },
        { "/api/flamegraph/time", "nodes", "/api/flamegraph" },
        { "/api/flamegraph/samples", "limit", "/api/flamegraph/samples" },
        { "/api/flamegraphs", "limit", NULL }, /* only begins alike */
        { "/api/requests/*", "sort", "/api/requests" },
        { "/", "limit", NULL },
        { "", "limit", NULL },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct sonde_param_row *p = sonde_param_find(cases[i].path, cases[i].name);
        assert_non_null(p);
        if (cases[i].from) assert_string_equal(p->path, cases[i].from);
        else assert_null(p->path);
    }
    assert_null(sonde_param_find("/api/series", ""));
    assert_null(sonde_param_find("/api/series", "LIMIT"));
    assert_null(sonde_param_find("/api/flamegraphs", "nodes"));
}

/* ---- Requests -------------------------------------------------------------------------------- */

static const char *const two[] = { "limit", "trace", NULL };
static const char *const none[] = { NULL };
static const char *const needed[] = { "trace", NULL };
#define TRACE "0af7651916cd43dd8448eb211c80319c"

static void whole_requests(void **state)
{
    (void)state;
    static const struct {
        struct sonde_route route;
        struct sonde_param params[3];
        size_t count;
        const char *name, *says; /* says NULL = it is fine */
    } cases[] = {
        { { .path = "/x", .params = two }, { { NULL, NULL } }, 0, NULL, NULL },
        { { .path = "/x", .params = two }, { { "limit", "5" } }, 1, NULL, NULL },
        { { .path = "/x", .params = two }, { { "limit", "5" }, { "limit", "0" } }, 2, NULL,
          "parameter limit" }, /* each of several is looked at */
        { { .path = "/x", .params = two }, { { "lim", "5" } }, 1, NULL,
          "unknown parameter \\\"lim\\\"; /x takes: limit, trace" },
        { { .path = "/x", .params = two }, { { "LIMIT", "5" } }, 1, NULL, "unknown parameter" },
        { { .path = "/x", .params = two }, { { "", "" } }, 1, NULL, "unknown parameter \\\"\\\"" },
        { { .path = "/x", .params = none }, { { "a", "b" } }, 1, NULL, "/x takes: none" },
        { { .path = "/x" }, { { "a", "b" } }, 1, NULL, NULL }, /* any are passed over */
        { { .path = "/x", .params = two, .required = needed }, { { "limit", "5" } }, 1, NULL,
          "parameter trace is missing: trace or correlation id" },
        { { .path = "/x", .params = two, .required = needed }, { { "trace", TRACE } }, 1, NULL,
          NULL },
        { { .path = "/x", .params = two, .required = needed }, { { "trace", "" } }, 1, NULL,
          "parameter trace" },
        { { .path = "/api/runs/*", .params = none }, { { NULL, NULL } }, 0, "7", NULL },
        { { .path = "/api/runs/*", .params = none }, { { NULL, NULL } }, 0, "0", "parameter id" },
        { { .path = "/api/runs/*", .params = none }, { { NULL, NULL } }, 0, "x", "parameter id" },
        { { .path = "/x/*", .params = none, .star = "trace" }, { { NULL, NULL } }, 0, TRACE, NULL },
        { { .path = "/x/*", .params = none, .star = "trace" }, { { NULL, NULL } }, 0, "1",
          "parameter trace" },
        { { .path = "/x/*", .params = none, .star = "unsaid" }, { { NULL, NULL } }, 0, "1", NULL },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_http_request r = { .name = cases[i].name, .param_count = cases[i].count };
        memcpy(r.params, cases[i].params, sizeof(cases[i].params));
        sonde_buf_reset(&answer.body);
        const int ok = sonde_params_ok(&cases[i].route, &r, &answer);
        if (ok != !cases[i].says) fail_msg("case %zu: %d", i, ok);
        if (!ok && !strstr(answer.body.data, cases[i].says)) fail_msg("%s", answer.body.data);
    }
}

/* What is shown of a value, and of a route's names, is cut. */
static void long_texts(void **state)
{
    (void)state;
    static char value[100000];
    static char names[200][16];
    static const char *many[201];
    memset(value, 'v', sizeof(value) - 1);
    for (size_t i = 0; i < 200; i++) {
        snprintf(names[i], sizeof(names[i]), "parameter%zu", i);
        many[i] = names[i];
    }
    expect("/health", "format", value, 0);
    expect(NULL, "limit", value, 0);
    expect(NULL, "trace", value, 0);
    expect(NULL, "window", value, 0);
    assert_true(answer.body.len < 400);
    const struct sonde_route route = { .path = "/x", .params = many };
    const struct sonde_http_request r = { .params = { { value, "" } }, .param_count = 1 };
    assert_int_equal(sonde_params_ok(&route, &r, &answer), 0);
    assert_true(answer.body.len < 1000);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, make, release)
    const struct CMUnitTest tests[] = {
        T(every_row_at_its_bounds), T(every_row_is_of_use), T(rows_of_paths_above),
        T(whole_requests), T(long_texts),
    };
    return cmocka_run_group_tests_name("param", tests, NULL, NULL);
}
