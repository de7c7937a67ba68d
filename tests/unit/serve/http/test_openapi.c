/* The description of the routes: it is of all of them, every parameter is described, and what a row
 * says comes out. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "serve/http/openapi.h"
#include "serve/http/param.h"

static struct sonde_auth *guard_with(const char *token)
{
    struct sonde_auth *g = NULL;
    struct sonde_err err = { "" };
    const struct sonde_auth_options o = { .token = token };
    assert_int_equal(sonde_auth_create(&o, NULL, &g, &err), 0);
    return g;
}

static json_t *describe(const char *token)
{
    struct sonde_auth *g = guard_with(token);
    const struct sonde_http_request r = { .url = "http://127.0.0.1:1", .auth = g };
    struct sonde_buf out;
    json_error_t error;
    sonde_buf_init(&out, 1 << 24);
    sonde_openapi(&r, &out);
    assert_int_equal(out.error, 0);
    json_t *d = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, &error);
    if (!d) print_message("%s at %d\n", error.text, error.position);
    assert_non_null(d);
    sonde_buf_release(&out);
    sonde_auth_destroy(g);
    return d;
}

static void complain_param(const struct sonde_route *route, const char *name)
{
    fail_msg("%s %s: parameter %s is not described: add a row to src/serve/http/param_list.h",
             route->method, route->path, name);
}

static void every_parameter_is_described(void **state)
{
    (void)state;
    for (size_t i = 0; sonde_routes[i]; i++) {
        const struct sonde_route *route = sonde_routes[i];
        for (size_t k = 0; route->params && route->params[k]; k++) {
            const struct sonde_param_row *p = sonde_param_find(route->path, route->params[k]);
            if (!p) complain_param(route, route->params[k]);
            assert_true(p->help && *p->help);
            assert_true(p->kind != SONDE_PARAM_IS_TEXT || p->example);
            assert_true(p->kind != SONDE_PARAM_IS_WORDS || p->words);
            assert_true(p->min <= p->max);
        }
        for (size_t k = 0; route->required && route->required[k]; k++) {
            size_t at = 0;
            while (route->params[at] && strcmp(route->params[at], route->required[k]) != 0) at++;
            assert_non_null(route->params[at]);
        }
        const char *star = strchr(route->path, '*') ? (route->star ? route->star : "id") : NULL;
        if (star && !sonde_param_find(route->path, star)) complain_param(route, star);
    }
}

static json_t *operation_of(json_t *d, const struct sonde_route *route)
{
    char path[200], method[16];
    const char *star = strchr(route->path, '*');
    snprintf(path, sizeof(path), star ? "%.*s{%s}%s" : "%.*s", (int)strcspn(route->path, "*"),
             route->path, route->star ? route->star : "id", star ? star + 1 : "");
    snprintf(method, sizeof(method), "%s", route->method);
    for (char *c = method; *c; c++) *c = (char)(*c | 0x20);
    return json_object_get(json_object_get(json_object_get(d, "paths"), path), method);
}

static void every_route_is_described_and_no_other(void **state)
{
    (void)state;
    json_t *d = describe(NULL), *path;
    const char *key;
    size_t listed = 0, described = 0;
    for (size_t i = 0; sonde_routes[i]; i++) {
        const struct sonde_route *route = sonde_routes[i];
        if (!route->summary) continue;
        listed++;
        json_t *o = operation_of(d, route);
        if (!o) fail_msg("%s %s is not described", route->method, route->path);
        assert_string_equal(json_string_value(json_object_get(o, "summary")), route->summary);
        size_t params = strchr(route->path, '*') != NULL;
        for (size_t k = 0; route->params && route->params[k]; k++) params++;
        for (size_t at = 0; !route->params && sonde_param_next(route->path, &at);) params++;
        assert_int_equal(json_array_size(json_object_get(o, "parameters")), params);
        assert_int_equal(route->body_max != 0, json_object_get(o, "requestBody") != NULL);
        assert_non_null(json_object_get(json_object_get(o, "responses"), "400"));
    }
    json_object_foreach(json_object_get(d, "paths"), key, path) {
        described += json_object_size(path);
    }
    assert_int_equal(described, listed);
    json_decref(d);
}

/* Statuses that are referred to are there. */
static void references_lead_somewhere(void **state)
{
    (void)state;
    json_t *d = describe(NULL), *path, *operation, *answer;
    json_t *responses = json_object_get(json_object_get(d, "components"), "responses");
    const char *key, *method, *status;
    json_object_foreach(json_object_get(d, "paths"), key, path) {
        json_object_foreach(path, method, operation) {
            json_object_foreach(json_object_get(operation, "responses"), status, answer) {
                const char *ref = json_string_value(json_object_get(answer, "$ref"));
                if (!ref) continue;
                if (!json_object_get(responses, strrchr(ref, '/') + 1)) {
                    fail_msg("%s %s: %s has no description", method, key, status);
                }
            }
        }
    }
    json_decref(d);
}

static void tokens_are_told(void **state)
{
    (void)state;
    json_t *open = describe(NULL), *closed = describe("0123456789abcdef");
    assert_null(json_object_get(open, "security"));
    assert_int_equal(json_array_size(json_object_get(closed, "security")), 1);
    json_t *paths = json_object_get(closed, "paths");
    json_t *livez = json_object_get(json_object_get(paths, "/livez"), "get");
    json_t *series = json_object_get(json_object_get(paths, "/api/series"), "get");
    assert_true(json_is_array(json_object_get(livez, "security")));
    assert_null(json_object_get(series, "security"));
    json_decref(open);
    json_decref(closed);
}

/* A route that passes over what it does not know says what it does know. */
static void rows_of_routes_that_accept_any(void **state)
{
    (void)state;
    json_t *d = describe(NULL);
    json_t *path = json_object_get(json_object_get(d, "paths"), "/health");
    json_t *health = json_object_get(path, "get");
    json_t *list = json_object_get(health, "parameters");
    assert_true(json_is_true(json_object_get(health, "x-any-parameters")));
    assert_int_equal(json_array_size(list), 1);
    json_t *words = json_object_get(json_object_get(json_array_get(list, 0), "schema"), "enum");
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "name")),
                        "format");
    assert_string_equal(json_string_value(json_array_get(words, 0)), "json");
    assert_string_equal(json_string_value(json_array_get(words, 1)), "flat");
    json_decref(d);
}

static void a_row_of_a_route_wins(void **state)
{
    (void)state;
    const struct sonde_param_row *all = sonde_param_find("/api/series", "source");
    const struct sonde_param_row *own = sonde_param_find("/api/requests", "source");
    assert_int_equal(all->kind, SONDE_PARAM_IS_TEXT);
    assert_int_equal(own->kind, SONDE_PARAM_IS_WORDS);
    assert_null(sonde_param_find("/api/series", "no such"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter_is_described),
        cmocka_unit_test(every_route_is_described_and_no_other),
        cmocka_unit_test(references_lead_somewhere),
        cmocka_unit_test(tokens_are_told),
        cmocka_unit_test(rows_of_routes_that_accept_any),
        cmocka_unit_test(a_row_of_a_route_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
