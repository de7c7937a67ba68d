/* Every route of route_list.h: bad parameters, things that are not there, and an agent that has
 * nothing at all. Whatever is answered, OpenAPI must have promised it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/recent.h"
#include "unit/serve/serve_ask.h"
#include "unit/serve/serve_collector.h"

static struct sonde_recent *recent;
static struct sonde_streams *streams;
static struct sonde_auth *auth;
static int start(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    if (collector_make(NULL) != 0) return -1;
    if (sonde_recent_create(1 << 20, 1, &recent) || sonde_streams_create(collector, 4, &streams) ||
        sonde_auth_create(&(struct sonde_auth_options){ 0 }, NULL, &auth, &err)) {
        return -1;
    }
    asked = (struct sonde_http_request){ .agent = &agent, .recent = recent, .streams = streams,
                                         .auth = auth, .url = "http://127.0.0.1:1" };
    return 0;
}

static int end(void **state)
{
    (void)state;
    answer_release();
    sonde_streams_destroy(streams);
    sonde_recent_destroy(recent);
    sonde_auth_destroy(auth);
    const int rc = collector_end();
    if (sonde__alloc_live())
        print_error("%lld allocations are left\n", (long long)sonde__alloc_live());
    return rc || sonde__alloc_live();
}

/* ---- Parameters ------------------------------------------------------------------------------ */

/* A value that no row of this kind takes; NULL = it takes all. */
static const char *bad_value(const struct sonde_param_row *row)
{
    if (row->kind != SONDE_PARAM_IS_TEXT) return "-no such value-";
    return row->pattern ? "\x01" : NULL;
}

static const char *name_of(const struct sonde_route *route)
{
    if (!strchr(route->path, '*')) return NULL;
    const struct sonde_param_row *row =
        sonde_param_find(route->path, route->star ? route->star : "id");
    return row && row->example ? row->example : "1";
}

static void unknown_parameters(void **state)
{
    (void)state;
    for (size_t i = 0; sonde_routes[i]; i++) {
        const struct sonde_route *route = sonde_routes[i];
        if (!route->params) continue; /* it takes any, and passes over them */
        route_call(route, name_of(route), "no-such-parameter=1", "");
        if (handled || answer.status != 400 || !strstr(error_text(), "\"no-such-parameter\"")) {
            fail_msg("%s %s: %u", route->method, route->path, answer.status);
        }
    }
}

static void bad_parameters(void **state)
{
    (void)state;
    size_t tried = 0;
    for (size_t i = 0; sonde_routes[i]; i++) {
        const struct sonde_route *route = sonde_routes[i];
        for (size_t k = 0; route->params && route->params[k]; k++) {
            const struct sonde_param_row *row = sonde_param_find(route->path, route->params[k]);
            char query[200], says[200];
            if (!row) fail_msg("%s?%s: param_list.h has no row", route->path, route->params[k]);
            if (!bad_value(row)) continue;
            snprintf(query, sizeof(query), "%s=%s", row->name, bad_value(row));
            snprintf(says, sizeof(says), "parameter %s: ", row->name);
            route_call(route, name_of(route), query, "");
            if (handled || answer.status != 400 || strncmp(error_text(), says, strlen(says)) != 0) {
                fail_msg("%s %s?%s: %u", route->method, route->path, query, answer.status);
            }
            tried++;
        }
    }
    assert_true(tried > 150);
}

static void bad_names(void **state)
{
    (void)state;
    size_t tried = 0;
    for (size_t i = 0; sonde_routes[i]; i++) {
        const struct sonde_route *route = sonde_routes[i];
        if (!strchr(route->path, '*')) continue;
        const char *star = route->star ? route->star : "id";
        const struct sonde_param_row *row = sonde_param_find(route->path, star);
        assert_non_null(row);
        if (!bad_value(row)) continue;
        route_call(route, bad_value(row), NULL, "");
        if (handled || answer.status != 400 || !strstr(error_text(), star)) {
            fail_msg("%s %s: %u", route->method, route->path, answer.status);
        }
        tried++;
    }
    assert_true(tried >= 4);
}

static int takes(const struct sonde_route *route, const char *name)
{
    for (size_t k = 0; route->params && route->params[k]; k++) {
        if (!strcmp(route->params[k], name)) return 1;
    }
    return 0;
}

static void ranges_that_end_before_they_begin(void **state)
{
    (void)state;
    size_t tried = 0;
    for (size_t i = 0; sonde_routes[i]; i++) {
        const struct sonde_route *route = sonde_routes[i];
        if (!takes(route, "from") || !takes(route, "to")) continue;
        route_call(route, name_of(route), "from=2000&to=1000", "");
        /* Where there is no store, that is said first. */
        if (answer.status == 404 && !strcmp(route->path, "/api/findings")) continue;
        if (answer.status != 400 || strncmp(error_text(), "parameter to: ", 14) != 0) {
            fail_msg("%s: %u %s", route->path, answer.status, answer.body.data);
        }
        tried++;
    }
    assert_true(tried >= 10);
}

/* ---- An agent that has a collector and nothing else ------------------------------------------ */

#define NO_PROFILES "this agent does not capture profiles"
#define NO_CONTINUOUS "this agent does not profile continuously"
#define NO_STORE "there is no store: start the agent with --store FILE"

static const struct {
    const char *method, *target, *body;
    unsigned status;
    const char *says; /* in the answer, or in its error; NULL = not looked at */
} bare[] = {
    { "GET", "/", "", 200, "/metrics" },
    { "GET", "/profiling/dashboard", "", 200, NULL },
    { "GET", "/profiling/cpu", "", 200, NULL },
    { "GET", "/profiling/nothing", "", 404, "no such page: \"nothing\"" },
    { "GET", "/profiling/routes", "", 200, "<h1>sonde</h1>" },
    { "GET", "/profiling/elements.js", "", 200, NULL },
    { "GET", "/profiling/app.js", "", 200, NULL },
    { "GET", "/profiling/app.css", "", 200, NULL },
    { "GET", "/profiling/icon.svg", "", 200, NULL },
    { "GET", "/api/openapi.json", "", 200, "\"openapi\":\"3.1.0\"" },
    { "GET", "/livez", "", 200, "ok" },
    { "GET", "/readyz", "", 503, "starting" },
    { "GET", "/healthz", "", 503, "\"status\":\"starting\"" },
    { "GET", "/health", "", 503, NULL },
    { "GET", "/metrics", "", 200, NULL },
    { "GET", "/api/series", "", 200, "\"families\":[]" },
    { "GET", "/api/query", "", 200, "\"series\":[]" },
    { "GET", "/api/query?step=1", "", 400, "parameter step: there is no history to read from" },
    { "GET", "/api/correlations", "", 404, "this agent keeps no history" },
    { "GET", "/api/stream", "", 200, NULL },
    { "GET", "/api/processes", "", 200, "\"processes\":[]" },
    { "GET", "/api/spans", "", 200, "\"spans\":[]" },
    { "GET", "/api/spans?trace=00000000000000000000000000000000", "", 400, "parameter trace: " },
    { "GET", "/api/requests", "", 200, "\"requests\":[]" },
    { "GET", "/api/requests?min=2&max=1", "", 400, "parameter max: " },
    { "GET", "/api/requests?trace=00000000000000000000000000000000", "", 400, "parameter trace: " },
    { "GET", "/api/requests/nothing", "", 404, "there is no request \"nothing\"" },
    { "GET", "/api/requests/nothing/why", "", 404, "there is no request \"nothing\"" },
    { "GET", "/api/why", "", 404, "this agent does not profile continuously" },
    { "GET", "/api/why?from=2&to=1", "", 400, "parameter to: " },
    { "GET", "/api/shared/nothing", "", 404, "request \"nothing\" is not among those in memory" },
    { "GET", "/api/heatmap", "", 200, "\"cells\":[]" },
    { "GET", "/api/inference", "", 200, "\"models\":[]" },
    { "POST", "/api/inference/reset", "", 404, "inference" },
    { "GET", "/api/engine", "", 200, "\"pools\":" },
    { "GET", "/api/ml", "", 200, "\"ml\":null" },
    { "GET", "/api/gpu", "", 200, "\"enabled\":false,\"sources\":[],\"devices\":[]" },
    { "GET", "/api/export", "", 200, "\"families\":[]" },
    { "GET", "/api/export?from=1", "", 400, "parameter from: there is no history to read from" },
    { "GET", "/api/export?from=1&format=protobuf", "", 400, "parameter format: " },
    { "GET", "/api/runs", "", 200, "\"runs\":[]" },
    { "GET", "/api/runs/1", "", 404, NO_STORE },
    { "GET", "/api/findings", "", 404, NO_STORE },
    { "GET", "/api/findings/now", "", 503, "this agent captures no profiles" },
    { "GET", "/api/report", "", 503, "this agent captures no profiles" },
    { "GET", "/api/alerts", "", 404, "alert" },
    { "POST", "/api/alerts/mutes", "", 404, "alert" },
    { "DELETE", "/api/alerts/mutes/1", "", 404, "alert" },
    { "POST", "/api/alerts/test", "", 404, "alert" },
    { "GET", "/api/regressions", "", 404, "regression" },
    { "GET", "/api/cost", "", 200, "\"enabled\":false" },
    { "GET", "/api/ab", "", 404, "compares no servers" },
    { "GET", "/api/events", "", 200, "\"events\":[]" },
    { "POST", "/api/marks", "", 400, "the body is not a JSON object" },
    { "POST", "/api/marks", "{\"text\":1}", 400, "\"text\"" },
    { "POST", "/api/marks", "{\"text\":\"a\",\"where\":1}", 400, "\"where\"" },
    { "POST", "/api/marks", "{\"text\":\"a\",\"time\":5,\"end\":4}", 400, "\"end\"" },
    { "POST", "/api/marks", "{\"text\":\"a\"}", 201, "\"id\":\"1\"" },
    { "DELETE", "/api/marks/99", "", 404, "there is no mark 99" },
    { "DELETE", "/api/marks/1", "", 200, "\"deleted\":\"1\"" },
    { "GET", "/api/profiles", "", 404, NO_CONTINUOUS },
    { "GET", "/api/profile", "", 404, NO_CONTINUOUS },
    { "GET", "/api/flamegraph", "", 404, NULL },
    { "GET", "/api/flamegraph?live=1", "", 404, NO_PROFILES },
    { "GET", "/api/flamegraph?live=1&profile=x", "", 400, "not both" },
    { "GET", "/api/flamegraph?live=1&phase=decode", "", 400, "leave out live" },
    { "GET", "/api/flamegraph?base=rest", "", 400, "parameter base: " },
    { "GET", "/api/flamegraph?request=x&slowest=1", "", 400,
      "only one of request, slowest and metric" },
    { "GET", "/api/flamegraph?empty=1", "", 200, "\"notes\":[" },
    { "GET", "/api/flamegraph/time", "", 404, NULL },
    { "GET", "/api/flamegraph/samples", "", 404, NULL },
    { "GET", "/debug/pprof/profile", "", 404, NO_PROFILES },
    { "POST", "/admin/profile/cpu", "", 404, NO_PROFILES },
    { "GET", "/debug/pprof/heap", "", 404, NO_PROFILES },
    { "POST", "/admin/profile/memory", "", 404, NO_PROFILES },
    { "POST", "/admin/profile/mark", "", 404, NO_PROFILES },
    { "POST", "/admin/profile/gpu?duration=0", "", 400, "duration" },
    { "GET", "/admin/profile/continuous", "", 404, NO_CONTINUOUS },
    { "POST", "/admin/profile/continuous", "", 400, NULL },
    { "POST", "/admin/profile/continuous", "{\"rate_hz\":-1}", 400, "rate_hz" },
    { "POST", "/admin/profile/continuous", "{\"enabled\":true}", 404, NO_CONTINUOUS },
    { "POST", "/admin/profile/start", "{\"name\":\"a\"}", 404, NO_PROFILES },
    { "POST", "/admin/profile/stop", "{\"name\":\"a\"}", 404, NO_PROFILES },
    { "GET", "/admin/profile/status", "", 404, NO_PROFILES },
    { "POST", "/admin/profile/flamegraph", "", 404, NO_PROFILES },
    { "GET", "/admin/profile/bottlenecks", "", 404, NO_PROFILES },
    { "GET", "/admin/profile/compare?a=x", "", 404, NO_PROFILES },
    { "GET", "/admin/profiles", "", 404, "this agent stores no profiles" },
    { "GET", "/admin/profiles/x", "", 404, "this agent stores no profiles" },
    { "DELETE", "/admin/profiles/x", "", 404, "this agent stores no profiles" },
    { "GET", "/admin/profile/last", "", 404, NO_PROFILES },
    { "GET", "/admin/profile/requests/00f067aa0ba902b7", "", 404, NO_PROFILES },
    { "GET", "/admin/profile/requests", "", 200, "\"profiles\":[]" },
    { "POST", "/v1/metrics", "{}", 404, NULL },
    { "POST", "/v1/traces", "{}", 404, NULL },
};

static void nothing_there(void **state)
{
    (void)state;
    char seen[100] = { 0 };
    for (size_t i = 0; i < SONDE_COUNT(bare); i++) {
        const struct sonde_route *route = route_expect(bare[i].method, bare[i].target, bare[i].body,
                                                       bare[i].status, bare[i].says);
        for (size_t k = 0; sonde_routes[k]; k++) seen[k] |= sonde_routes[k] == route;
    }
    for (size_t k = 0; sonde_routes[k]; k++) {
        if (!seen[k]) fail_msg("%s %s has no row", sonde_routes[k]->method, sonde_routes[k]->path);
    }
}

/* Every allocation fails in turn: an answer, or that there was no memory for it; never a crash. */
static void without_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < SONDE_COUNT(bare); i++) {
        if (!strcmp(bare[i].target, "/api/stream")) continue; /* its thread allocates too */
        for (unsigned nth = 1; nth < 4; nth++) {
            fail_nth = nth;
            const struct sonde_route *route =
                route_ask(bare[i].method, bare[i].target, bare[i].body);
            fail_nth = 0;
            if (!answer.body.error && !is_promised(route, answer.status)) {
                fail_msg("%s %s: %u", route->method, route->path, answer.status);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_parameters),
        cmocka_unit_test(bad_parameters),
        cmocka_unit_test(bad_names),
        cmocka_unit_test(ranges_that_end_before_they_begin),
        cmocka_unit_test(nothing_there),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests_name("routes", tests, start, end);
}
