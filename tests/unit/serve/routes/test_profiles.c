/* Profiles by HTTP, on a store in memory with a kept profile and a minute of history: lists, every
 * format, comparison, sessions that are in the wrong state, and deleting. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "serve/api/history.h"
#include "base/recent.h"
#include "store/history.h"
#include "unit/agent/serve_profiler.h"
#include "unit/profile/profile_build.h"
#include "unit/serve/serve_ask.h"

#define S 1000000000ull
#define START_S 1763164800ull /* a full minute */
#define START (START_S * S)

static struct sonde_agent full; /* that has a profiler, sessions and a store */
static struct sonde_recent *recent;
static struct sonde_history_summaries *summaries;

static struct sonde_profile *minute(void)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    const uint32_t thread = sonde_profile_thread(p, 7, 70, "main");
    p->program = sonde_profile_cstring(p, "engine");
    p->start_ns = START;
    p->end_ns = START + 60 * S;
    for (unsigned i = 0; i < 100; i++) {
        const char *stack = i < 70 ? "run;work" : "run;rest";
        assert_int_equal(build_sample(p, stack, S / 10, thread, START + i * S / 10), 0);
    }
    return p;
}

static int setup(void **state)
{
    (void)state;
    struct sonde_err err;
    uint64_t id = 0;
    if (profiler_make()) return -1;
    full = (struct sonde_agent){ .collector = collector, .profiler = profiler,
                                 .store_ops = &sonde_store_memory };
    if (full.store_ops->open(&(struct sonde_store_options){ 0 }, &full.store, &err) ||
        sonde_sessions_create(profiler, full.store_ops, full.store, &full.sessions) ||
        sonde_recent_create(64 << 20, 60, &recent) || sonde_history_summaries_create(&summaries)) {
        return -1;
    }
    struct sonde_history h = { .ops = full.store_ops, .store = full.store };
    struct sonde_profile *p = minute();
    int rc = sonde_history_put(&h, SONDE_HISTORY_MINUTE, p, &id, &err);
    if (!rc) rc = sonde_sessions_keep(full.sessions, "kept", "session", p, &id, &err);
    sonde_profile_destroy(p);
    asked = (struct sonde_http_request){ .agent = &full, .recent = recent, .summaries = summaries,
                                         .url = "http://127.0.0.1:1" };
    return rc;
}

static int teardown(void **state)
{
    (void)state;
    answer_release();
    sonde_recent_destroy(recent);
    sonde_history_summaries_destroy(summaries);
    sonde_sessions_destroy(full.sessions);
    full.store_ops->close(full.store);
    profiler_end();
    return sonde__alloc_live() != 0;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static double listed(const char *target, const char *key)
{
    route_expect("GET", target, "", 200, NULL);
    json_t *o = json_loadb(answer.body.data, answer.body.len, 0, NULL);
    const double n = json_number_value(json_object_get(o, key));
    json_decref(o);
    return n;
}

static void lists(void **state)
{
    (void)state;
    static const struct { const char *query; double total; } cases[] = {
        { "", 1 }, /* parts of the history have a list of their own … */
        { "?kind=*", 2 }, /* … unless they are asked for */
        { "?kind=session", 1 },
        { "?kind=cpu", 0 },
        { "?name=k*t", 1 },
        { "?name=K*", 0 },
        { "?program=eng*", 1 },
        { "?program=other", 0 },
        { "?from=1763164860", 1 },
        { "?from=1763164861", 0 },
        { "?to=1763164800", 1 },
        { "?to=1763164799", 0 },
        { "?from=1&to=99999999999", 1 },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        char target[100];
        snprintf(target, sizeof(target), "/admin/profiles%s", cases[i].query);
        const double n = listed(target, "total");
        if ((int)n != (int)cases[i].total) fail_msg("%s: %g", target, n);
    }
    for (int i = 0; i < 2; i++) { /* looked at, and remembered */
        assert_true((int)listed("/api/profiles", "total") == 1);
        assert_non_null(strstr(answer.body.data, "\"function\":\"work\""));
        assert_non_null(strstr(answer.body.data, "\"ratio\":0.7"));
    }
    assert_true((int)listed("/api/profiles?type=memory", "total") == 0);
    assert_true((int)listed("/api/profiles?process=other", "total") == 0);
    assert_true((int)listed("/api/profiles?from=1763164860", "total") == 0);
}

/* ---- Formats --------------------------------------------------------------------------------- */

static const struct {
    const char *format, *content_type, *filename, *says; /* says NULL: it is packed */
} formats[] = {
    { "json", NULL, NULL, "\"bottlenecks\":" },
    { "svg", "image/svg+xml", NULL, "work" },
    { "html", "text/html; charset=utf-8", NULL, "<html" },
    { "pprof", "application/octet-stream", "profile.pb.gz", NULL },
    { "folded", "text/plain; charset=utf-8", NULL, "run;work " },
    { "speedscope", "application/json", NULL, "\"work\"" },
    { "chrome", "application/json", NULL, "\"work\"" },
    { "report-json", "application/json", NULL, "\"work\"" },
    { "text", "text/plain; charset=utf-8", NULL, "work" },
    { "markdown", "text/markdown; charset=utf-8", NULL, "work" },
    { "run", "application/vnd.sqlite3", "profile.run", "SQLite format 3" },
};

static void every_format(void **state)
{
    (void)state;
    for (size_t i = 0; i < SONDE_COUNT(formats); i++) {
        char target[100];
        const char *type = formats[i].content_type;
        snprintf(target, sizeof(target), "/admin/profiles/kept?format=%s", formats[i].format);
        route_expect("GET", target, "", 200, formats[i].says);
        if (type && strcmp(answer.content_type ? answer.content_type : "", type) != 0) {
            fail_msg("%s: %s", target, answer.content_type);
        }
        if (formats[i].filename) assert_string_equal(answer.filename, formats[i].filename);
        else assert_null(answer.filename);
        assert_int_equal(answer.packed, !formats[i].says);
        if (!formats[i].says) assert_memory_equal(answer.body.data, "\x1f\x8b", 2);

        /* The same of the history, as far as it has them. */
        if (!strcmp(formats[i].format, "text") || !strcmp(formats[i].format, "markdown")) continue;
        snprintf(target, sizeof(target), "/api/profile?format=%s", formats[i].format);
        route_expect("GET", target, "", 200, strcmp(formats[i].format, "json") ? formats[i].says
                                                                               : "\"work\"");
        assert_int_equal(answer.packed, !formats[i].says);
    }
}

/* What there is none of, in every format: an error and nothing of the format that was begun. */
static void nothing_in_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < SONDE_COUNT(formats); i++) {
        char target[100];
        const int whole = !strcmp(formats[i].format, "json") || !strcmp(formats[i].format, "run");
        snprintf(target, sizeof(target), "/admin/profiles/kept?type=alloc&format=%s",
                 formats[i].format);
        if (!whole) route_expect("GET", target, "", 404, NULL);
        snprintf(target, sizeof(target), "/admin/profiles/nobody?format=%s", formats[i].format);
        route_expect("GET", target, "", 404, "nobody");
        if (!strcmp(formats[i].format, "text") || !strcmp(formats[i].format, "markdown")) continue;
        snprintf(target, sizeof(target), "/api/profile?from=1&to=2&format=%s", formats[i].format);
        route_expect("GET", target, "", 404, NULL);
    }
}

/* ---- A look at one, and at two --------------------------------------------------------------- */

static void looks(void **state)
{
    (void)state;
    route_expect("POST", "/admin/profile/flamegraph?name=kept", "", 200, "work");
    assert_string_equal(answer.content_type, "image/svg+xml");
    route_expect("POST", "/admin/profile/flamegraph?name=kept&format=html", "", 200, "<html");
    route_expect("POST", "/admin/profile/flamegraph?name=kept&type=leaked", "", 404, NULL);
    route_expect("POST", "/admin/profile/flamegraph?name=nobody", "", 404, "nobody");
    route_expect("GET", "/admin/profile/bottlenecks?name=kept", "", 200, "\"bottlenecks\":[");
    route_expect("GET", "/admin/profile/bottlenecks?name=kept&format=text", "", 200, NULL);
    assert_string_equal(answer.content_type, "text/plain; charset=utf-8");
    route_expect("GET", "/admin/profile/bottlenecks?name=nobody", "", 404, "nobody");
    route_expect("GET", "/admin/profile/last", "", 200, "\"name\":\"kept\"");
    route_expect("GET", "/admin/profile/last?format=folded", "", 200, "run;work ");

    static const struct { const char *format, *content_type, *says; } compared[] = {
        { "json", NULL, "work" },
        { "text", "text/plain; charset=utf-8", "work" },
        { "markdown", "text/markdown; charset=utf-8", "work" },
        { "svg", "image/svg+xml", "work" },
        { "html", "text/html; charset=utf-8", "<html" },
    };
    for (size_t i = 0; i < SONDE_COUNT(compared); i++) {
        char target[200];
        snprintf(target, sizeof(target), "/admin/profile/compare?a=kept&b=kept&format=%s",
                 compared[i].format);
        route_expect("GET", target, "", 200, compared[i].says);
        if (!compared[i].content_type) continue;
        assert_string_equal(answer.content_type, compared[i].content_type);
    }
    route_expect("GET", "/admin/profile/compare?a=kept", "", 200, NULL); /* with the last */
    route_expect("GET", "/admin/profile/compare?a=nobody", "", 404, "nobody");
    route_expect("GET", "/admin/profile/compare", "", 400, "parameter a is missing");
}

/* ---- States ---------------------------------------------------------------------------------- */

static void sessions_in_the_wrong_state(void **state)
{
    (void)state;
    route_expect("GET", "/admin/profile/status", "", 200, "\"status\":\"idle\"");
    route_expect("POST", "/admin/profile/stop", "", 409, "no session runs");
    route_expect("POST", "/admin/profile/stop", "{\"name\":\"nobody\"}", 404, "nobody");
    route_expect("POST", "/admin/profile/stop", "{\"name\":1}", 400, "name");
    route_expect("POST", "/admin/profile/start", "{\"name\":\"a b\"}", 400, "name");
    route_expect("POST", "/admin/profile/start", "{\"rate_hz\":0}", 400, "rate_hz");
    route_expect("POST", "/admin/profile/start", "not JSON", 400, NULL);
    route_expect("GET", "/admin/profile/requests/00f067aa0ba902b7", "", 404, NULL);
    /* Nothing records here: there is nothing to sample. */
    route_expect("GET", "/debug/pprof/profile?seconds=0.1", "", 404, NULL);
    route_expect("POST", "/admin/profile/cpu?duration=0.1", "", 404, NULL);
    route_expect("GET", "/debug/pprof/heap", "", 404, NULL);
    route_expect("GET", "/debug/pprof/heap?pid=4194304", "", 404, NULL);
    route_expect("POST", "/admin/profile/memory", "", 404, NULL);
}

static void deleting(void **state)
{
    (void)state;
    route_expect("DELETE", "/admin/profiles/nobody", "", 404, "nobody");
    route_expect("DELETE", "/admin/profiles/kept", "", 200, "\"name\":\"kept\"");
    route_expect("DELETE", "/admin/profiles/kept", "", 404, "kept");
    route_expect("GET", "/admin/profiles/kept", "", 404, "kept");
    assert_true((int)listed("/admin/profiles", "total") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(every_format),
        cmocka_unit_test(nothing_in_it),
        cmocka_unit_test(looks),
        cmocka_unit_test(sessions_in_the_wrong_state),
        cmocka_unit_test(deleting), /* the last: it is gone then */
    };
    return cmocka_run_group_tests_name("profiles", tests, setup, teardown);
}
