/* GET /api/flamegraph on a history, requests and kept profiles that are made here: what is answered
 * is decoded as a page does it, and compared with trees of the same samples. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "profile/infer.h"
#include "profile/select/select.h"
#include "profile/tree/tree.h"
#include "agent/continuous.h"
#include "base/recent.h"
#include "serve/http/route.h"
#include "unit/agent/serve_profiler.h"
#include "sonde/sonde.h"
#include "store/history.h"
#include "unit/profile/profile_build.h"

extern const struct sonde_route sonde_route_api_flamegraph, sonde_route_api_flamegraph_time,
                                sonde_route_api_flamegraph_samples;

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define S 1000000000ull
#define START_S 1763164800ull /* a full minute */
#define START (START_S * S)
enum { PID = 7, NODES_MAX = 4096 };

static struct sonde_store_ops ops;
static struct sonde_store *store;
static struct sonde_recent *recent;
static struct sonde_sessions *sessions;
static struct sonde_continuous *continuous; /* NULL: what was sampled is in the store */

/* ---- What is known --------------------------------------------------------------------------- */

/* Request n of ten arrives at second 4 n and takes n / 4 + 1 s. Those with an odd number are of the
 * model "large". */
static struct sonde_infer_request request_of(unsigned n)
{
    struct sonde_infer_request r = { .id = 0x100 + n, .trace_lo = 0x500 + n, .pid = PID,
                                     .program = "engine", .model = n % 2 ? "large" : "small",
                                     .route = n < 5 ? "/chat" : "/embed",
                                     .backend = "", .error = "", .invalid = "", .tokens_out = 5,
                                     .arrived_ns = START + 4 * n * S };
    snprintf(r.own_id, sizeof(r.own_id), "job-%u", n);
    r.total_s = (double)n / 4 + 1;
    r.ttft_s = r.total_s / 2;
    return r;
}

/* Newest first, as stores do. */
static int requests_of(struct sonde_store *s, const struct sonde_store_range *q,
                       int (*row)(const struct sonde_infer_request *r, void *arg), void *arg,
                       struct sonde_store_counts *counts, struct sonde_err *err)
{
    (void)s;
    (void)counts;
    (void)err;
    for (unsigned n = 10; n-- > 0;) {
        const struct sonde_infer_request r = request_of(n);
        const double at_s = (double)r.arrived_ns * 1e-9;
        if (at_s < q->from_s || (q->to_s > 0 && at_s > q->to_s)) continue;
        if (row(&r, arg)) break;
    }
    return 0;
}

static void stats_of(struct sonde_store *s, struct sonde_store_stats *out)
{
    (void)s;
    *out = (struct sonde_store_stats){ 0 };
}

static void add_span(struct sonde_profile *p, const char *name, uint32_t thread, double from_s,
                     double to_s, uint64_t id, uint64_t parent)
{
    assert_int_equal(sonde_profile_add_span(p, &(struct sonde_profile_span){
        .name = sonde_profile_cstring(p, name), .thread = thread, .id = id, .parent = parent,
        .start_ns = START + (uint64_t)(from_s * 1e9),
        .end_ns = START + (uint64_t)(to_s * 1e9) }), 0);
}

/* A minute of one process: of each request a prefill in the first half of its time, a decode in the
 * second, sampled ten times a second; between requests housekeeping; a pool that computes all
 * along. Weights are those of no other sample, so that sums tell. */
static struct sonde_profile *minute(void)
{
    struct sonde_profile *p;
    uint64_t weight = 1000;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    const uint32_t main = sonde_profile_thread(p, PID, 70, "main");
    const uint32_t pool = sonde_profile_thread(p, PID, 71, "pool");
    p->program = sonde_profile_cstring(p, "engine");
    p->start_ns = START;
    p->end_ns = START + 60 * S;
    for (unsigned n = 0; n < 10; n++) {
        const double begin_s = 4.0 * n, half_s = ((double)n / 4 + 1) / 2;
        add_span(p, "prefill", main, begin_s, begin_s + half_s, 0x1000 + n, 0x100 + n);
        add_span(p, "decode", main, begin_s + half_s, begin_s + 2 * half_s, 0x2000 + n, 0x100 + n);
    }
    for (unsigned i = 0; i < 400; i++) {
        const unsigned n = i / 40;
        const double in_s = (i % 40) * 0.1 + 0.05, total_s = (double)n / 4 + 1;
        const char *stack = in_s < total_s / 2
                                ? (n == 9 ? "run;prefill;slow;f;g;f" : "run;prefill;f")
                                : in_s < total_s   ? "run;decode;f;h" : "run;tidy";
        const uint64_t at = START + i * S / 10 + S / 20;
        assert_int_equal(build_sample(p, stack, weight += 7, main, at), 0);
        assert_int_equal(build_sample(p, "worker;multiply", weight += 7, pool, at), 0);
    }
    return p;
}

static struct sonde_profile *with_requests(void)
{
    struct sonde_profile *p = minute();
    for (unsigned n = 0; n < 10; n++) {
        const struct sonde_infer_request r = request_of(n);
        assert_int_equal(sonde_infer_run_add(p, &r), 0);
    }
    return p;
}

static int setup(void **state)
{
    (void)state;
    struct sonde_err err;
    uint64_t id = 0;
    ops = sonde_store_memory;
    ops.requests = requests_of;
    ops.stats = stats_of;
    if (profiler_make() || ops.open(&(struct sonde_store_options){ 0 }, &store, &err) ||
        sonde_recent_create(64 << 20, 60, &recent) ||
        sonde_sessions_create(profiler, &ops, store, &sessions)) {
        return -1;
    }
    struct sonde_history h = { .ops = &ops, .store = store };
    struct sonde_profile *p = minute(), *kept = with_requests();
    int rc = sonde_history_put(&h, SONDE_HISTORY_MINUTE, p, &id, &err);
    if (!rc) rc = sonde_sessions_keep(sessions, "kept", "session", kept, &id, &err);
    sonde_profile_destroy(p);
    sonde_profile_destroy(kept);
    return rc;
}

static int teardown(void **state)
{
    (void)state;
    sonde_recent_destroy(recent);
    sonde_sessions_destroy(sessions);
    ops.close(store);
    profiler_end();
    return 0;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

/* "from=1&to=2": times that begin with + are seconds after START. NULL with the status if it is not
 * 200. */
static json_t *ask_route(const struct sonde_route *route, const char *query, unsigned *status)
{
    const struct sonde_agent asked = { .store_ops = &ops, .store = continuous ? NULL : store,
                                       .temporary = continuous ? store : NULL,
                                       .continuous = continuous, .sessions = sessions };
    struct sonde_http_request r = { .path = route->path, .body = "", .recent = recent,
                                    .agent = &asked };
    struct sonde_response a = { .status = 200 };
    char copy[2000], *save = NULL;
    static char texts[64][64];
    snprintf(copy, sizeof(copy), "%s", query);
    sonde_buf_init(&a.body, 64 << 20);
    for (char *at = strtok_r(copy, "&", &save); at; at = strtok_r(NULL, "&", &save)) {
        char *value = strchr(at, '=');
        *value++ = '\0';
        if (*value == '+') {
            snprintf(texts[r.param_count], sizeof(texts[0]), "%.3f", (double)START_S + atof(value));
            value = texts[r.param_count];
        }
        r.params[r.param_count++] = (struct sonde_param){ at, value };
    }
    route->handle(&r, &a);
    *status = a.status;
    json_t *json = json_loadb(a.body.data, a.body.len, 0, NULL);
    assert_non_null(json);
    sonde_buf_release(&a.body);
    return json;
}

static json_t *ask(const char *query, unsigned *status)
{
    return ask_route(&sonde_route_api_flamegraph, query, status);
}

struct node { int parent; const char *name; uint64_t self, total, base, samples; };

static struct node nodes[NODES_MAX];
static int node_count;

static uint64_t next_int(const char **s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 5) {
        const uint64_t digit = (uint64_t)(strchr(digits, *(*s)++) - digits);
        v |= (digit & 31) << shift;
        if (digit < 32) return v;
    }
}

static void decode(const json_t *json)
{
    static char names[1024][200]; /* they outlive the answer */
    const char *s = json_string_value(json_object_get(json, "frames"));
    const uint64_t scale = (uint64_t)json_integer_value(json_object_get(json, "scale"));
    const int diff = json_integer_value(json_object_get(json, "baseTotal")) > 0;
    for (size_t n = 0; *s; n++) {
        assert_true(n < COUNT(names));
        snprintf(names[n], sizeof(names[n]), "%s",
                 json_string_value(json_array_get(json_object_get(json, "strings"), next_int(&s))));
        for (int i = 0; i < 6; i++) next_int(&s);
    }
    s = json_string_value(json_object_get(json, "nodes"));
    for (node_count = 0; *s; node_count++) {
        struct node *n = &nodes[node_count];
        assert_true(node_count < NODES_MAX);
        *n = (struct node){ .parent = node_count - 1 };
        for (uint64_t up = next_int(&s); up; up--) n->parent = nodes[n->parent].parent;
        n->name = names[next_int(&s)];
        n->self = next_int(&s) * scale;
        n->total = n->self + next_int(&s) * scale;
        n->samples = next_int(&s);
        if (diff) n->base = next_int(&s) * scale;
        if (diff) n->base += next_int(&s) * scale;
    }
    for (int i = node_count - 1; i > 0; i--) {
        nodes[nodes[i].parent].total += nodes[i].total;
        nodes[nodes[i].parent].base += nodes[i].base;
        nodes[nodes[i].parent].samples += nodes[i].samples;
    }
}

/* The answer, decoded; to be released. */
static json_t *get(const char *query)
{
    unsigned status;
    json_t *json = ask(query, &status);
    if (status != 200) {
        fail_msg("%s: %u %s", query, status, json_string_value(json_object_get(json, "error")));
    }
    decode(json);
    return json;
}

static json_int_t about(const json_t *json, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(json, "about"), key));
}

static int has_note(const json_t *json, const char *part)
{
    size_t i;
    json_t *note;
    json_array_foreach(json_object_get(json_object_get(json, "about"), "notes"), i, note) {
        if (strstr(json_string_value(note), part)) return 1;
    }
    return 0;
}

/* ---- Compared with trees --------------------------------------------------------------------- */

static uint32_t find_in(const struct sonde_tree *t, int node)
{
    if (!node) return 0;
    const uint32_t parent = find_in(t, nodes[node].parent);
    uint32_t c = t->nodes[parent].first_child;
    while (c && strcmp(t->nodes[c].name, nodes[node].name) != 0) c = t->nodes[c].next;
    assert_true(c != 0);
    return c;
}

/* Every node that was answered is as in t; all: and there are no others. */
static void check_tree(const char *what, const struct sonde_tree *t, int all)
{
    if (all && (uint32_t)node_count != t->node_count) {
        fail_msg("%s: %d nodes, not %u", what, node_count, t->node_count);
    }
    for (int i = 0; i < node_count; i++) {
        const struct sonde_tree_node *n = &t->nodes[find_in(t, i)];
        if (nodes[i].total != n->total || nodes[i].self != n->self ||
            nodes[i].base != n->base_total || nodes[i].samples != n->samples) {
            fail_msg("%s: %s has %llu/%llu<%llu, not %llu/%llu<%llu", what, n->name,
                     (unsigned long long)nodes[i].total, (unsigned long long)nodes[i].self,
                     (unsigned long long)nodes[i].base, (unsigned long long)n->total,
                     (unsigned long long)n->self, (unsigned long long)n->base_total);
        }
    }
}

static struct sonde_tree *tree_of(const struct sonde_profile *p, double from_s, double to_s)
{
    struct sonde_tree *t;
    const struct sonde_profile_filter f = {
        .kind = SONDE_SAMPLE_CPU, .from_ns = from_s > 0 ? START + (uint64_t)(from_s * 1e9) : 0,
        .to_ns = to_s > 0 ? START + (uint64_t)(to_s * 1e9) : 0 };
    const struct sonde_tree_options o = { .by_module = 1 };
    assert_int_equal(sonde_tree_build(p, &f, &o, &t, NULL), 0);
    return t;
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

static void ranges(void **state)
{
    (void)state;
    static const double times[][2] = { { 0, 60 }, { 3, 9 }, { 10, 10.5 }, { 35, 50 } };
    struct sonde_profile *p = minute();
    for (size_t i = 0; i < COUNT(times); i++) {
        char query[100];
        struct sonde_tree *t = tree_of(p, times[i][0], times[i][1]);
        snprintf(query, sizeof(query), "from=+%g&to=+%g", times[i][0], times[i][1]);
        json_t *json = get(query);
        check_tree(query, t, 1);
        assert_int_equal(about(json, "samples"), t->nodes[0].samples);
        assert_non_null(json_object_get(json, "functions"));
        json_decref(json);
        sonde_tree_destroy(t);
    }
    sonde_profile_destroy(p);
}

/* The widest few, and the sums as before. */
static void cuts(void **state)
{
    (void)state;
    static const unsigned most[] = { 1, 2, 3, 5, 8, 100 };
    struct sonde_profile *p = minute();
    struct sonde_tree *t = tree_of(p, 0, 0);
    for (size_t i = 0; i < COUNT(most); i++) {
        char query[100];
        snprintf(query, sizeof(query), "from=+0&to=+60&nodes=%u&functions=0", most[i]);
        json_t *json = get(query);
        assert_true(node_count <= (int)most[i]);
        check_tree(query, t, 0);
        assert_null(json_object_get(json, "functions"));
        json_decref(json);
    }
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

static void kept_profiles(void **state)
{
    (void)state;
    struct sonde_profile *p = minute();
    struct sonde_tree *all = tree_of(p, 0, 0), *part = tree_of(p, 20, 30);
    json_decref(get("profile=kept"));
    check_tree("kept", all, 1);
    json_decref(get("profile=kept&from=+20&to=+30"));
    check_tree("a part of it", part, 1);
    sonde_tree_destroy(all);
    sonde_tree_destroy(part);
    sonde_profile_destroy(p);
}

/* ---- Choices --------------------------------------------------------------------------------- */

/* What sonde_profile_select, which the commands use, makes of the same. */
static const struct {
    const char *query;      /* of both the history and the kept profile */
    struct sonde_select select;
} choices[] = {
    { "phase=prefill", { .phase = "prefill" } },
    { "phase=decode", { .phase = "decode" } },
    { "phase=decode&workers=1", { .phase = "decode", .workers = 1 } },
    { "request=job-7", { .request = "job-7" } },
    { "request=0000000000000107&phase=decode", { .request = "job-7", .phase = "decode" } },
    { "request=00000000000000000000000000000507", { .request = "job-7" } },
    { "slowest=1", { .slowest = 1 } },
    { "slowest=30%25", { .slowest_share = 0.3 } },
    { "slowest=3&workers=1", { .slowest = 3, .workers = 1 } },
};

static void choices_are_those_of_select(void **state)
{
    (void)state;
    static const char *const sources[] = { "profile=kept&", "from=+0&to=+60&" };
    for (size_t i = 0; i < COUNT(choices); i++) {
        struct sonde_profile *p = with_requests();
        struct sonde_selected found;
        assert_int_equal(sonde_profile_select(p, &choices[i].select, &found, NULL), 0);
        struct sonde_tree *t = tree_of(p, 0, 0);
        for (size_t k = 0; k < COUNT(sources); k++) {
            char query[200], *percent;
            snprintf(query, sizeof(query), "%s%s", sources[k], choices[i].query);
            if ((percent = strstr(query, "%25"))) strcpy(percent, "%");
            json_t *json = get(query);
            check_tree(query, t, 1);
            assert_int_equal(about(json, "requests"), found.requests);
            assert_int_equal(about(json, "own"), found.own[SONDE_SAMPLE_CPU]);
            assert_int_equal(about(json, "workers"), found.workers[SONDE_SAMPLE_CPU]);
            assert_int_equal(has_note(json, "workers=1"), !choices[i].select.workers);
            json_decref(json);
        }
        sonde_tree_destroy(t);
        sonde_profile_destroy(p);
    }
}

/* By what requests are: the given rule says which of the ten, by number. */
static const struct { const char *query; unsigned from, below, step; } rules[] = {
    { "from=+0&to=+60&model=large", 1, 10, 2 },
    { "from=+0&to=+60&model=l*&route=/chat", 1, 5, 2 },
    { "from=+0&to=+60&metric=total&min=2&max=3", 4, 8, 1 },
    { "from=+0&to=+60&metric=ttft&min=1.5", 8, 10, 1 },
    { "from=+15&to=+25&metric=total&min=0", 4, 7, 1 },   /* arrived then; samples of later count */
    { "profile=kept&from=+15&to=+25&metric=total&min=0", 4, 7, 1 },
    { "profile=kept&route=/embed", 5, 10, 1 },
};

static void check_rule(const char *query, unsigned from, unsigned below, unsigned step, int others,
                       unsigned all)
{
    unsigned char given[10] = { 0 };
    struct sonde_profile *p = with_requests();
    for (unsigned n = from; n < below; n += step) given[n] = 1;
    assert_int_equal(sonde_profile_select(p,
                                          &(struct sonde_select){ .given = given, .rest = others },
                                          NULL, NULL), 0);
    struct sonde_tree *t = tree_of(p, 0, 0);
    json_t *json = get(query);
    check_tree(query, t, 1);
    assert_int_equal(about(json, "requests"), (below - from + step - 1) / step);
    if (all) assert_int_equal(about(json, "requests_all"), all);
    json_decref(json);
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

static void requests_by_what_they_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++) {
        check_rule(rules[i].query, rules[i].from, rules[i].below, rules[i].step, 0, 0);
    }
    check_rule("from=+0&to=+60&metric=total&min=2&max=3", 4, 8, 1, 0, 10);
}

/* ---- Differences ----------------------------------------------------------------------------- */

static struct sonde_tree *diff_of(const struct sonde_profile *before, double from_s, double to_s,
                                  const struct sonde_profile *after, double after_from_s,
                                  double after_to_s)
{
    struct sonde_tree *x = tree_of(before, from_s, to_s);
    struct sonde_tree *y = tree_of(after, after_from_s, after_to_s), *diff;
    assert_int_equal(sonde_tree_diff(x, y, &diff), 0);
    sonde_tree_destroy(x);
    sonde_tree_destroy(y);
    return diff;
}

static void differences_of_times(void **state)
{
    (void)state;
    struct sonde_profile *p = minute();
    struct sonde_tree *t = diff_of(p, 1, 11, p, 30, 40);
    json_t *json = get("from=+30&to=+40&base_from=+1&base_to=+11");
    check_tree("two times", t, 1);
    assert_int_equal(about(json, "samples"), 200);
    assert_int_equal(about(json, "base_samples"), 200);
    json_decref(json);
    json_decref(get("profile=kept&from=+30&to=+40&base_profile=kept&base_from=+1&base_to=+11"));
    check_tree("of one profile", t, 1);
    json_decref(get("from=+30&to=+40&base_profile=kept&base_from=+1&base_to=+11"));
    check_tree("a time with a profile", t, 1);
    json_decref(get("from=+30&to=+40&base_from=+1&base_to=+11&nodes=4"));
    check_tree("cut", t, 0);
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

static void nothing_differs_from_itself(void **state)
{
    (void)state;
    static const char *const queries[] = {
        "from=+3&to=+33&base_from=+3&base_to=+33", "profile=kept&base_profile=kept",
        "from=+3&to=+33&base_from=+3&base_to=+33&invert=1&fold=1",
        "from=+3&to=+33&base_from=+3&base_to=+33&phase=decode",
    };
    for (size_t i = 0; i < COUNT(queries); i++) {
        json_decref(get(queries[i]));
        assert_true(node_count > 2);
        for (int n = 0; n < node_count; n++) assert_int_equal(nodes[n].total, nodes[n].base);
    }
}

/* Chosen ones and the others: both together are all that requests have. */
static void the_rest(void **state)
{
    (void)state;
    static const struct { const char *query; unsigned from, below, step; } cases[] = {
        { "from=+0&to=+60&slowest=1", 9, 10, 1 },
        { "from=+0&to=+60&request=job-9", 9, 10, 1 },
        { "from=+0&to=+60&metric=total&min=2&max=3", 4, 8, 1 },
        { "from=+0&to=+60&model=large", 1, 10, 2 },
        { "profile=kept&slowest=20%", 8, 10, 1 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        unsigned char given[10] = { 0 };
        char query[200];
        struct sonde_profile *some = with_requests(), *rest = with_requests();
        for (unsigned n = cases[i].from; n < cases[i].below; n += cases[i].step) given[n] = 1;
        struct sonde_select select = { .given = given };
        assert_int_equal(sonde_profile_select(some, &select, NULL, NULL), 0);
        select.rest = 1;
        assert_int_equal(sonde_profile_select(rest, &select, NULL, NULL), 0);
        struct sonde_tree *t = diff_of(rest, 0, 0, some, 0, 0);
        snprintf(query, sizeof(query), "%s&base=rest", cases[i].query);
        json_t *json = get(query);
        check_tree(query, t, 1);
        assert_int_equal(about(json, "requests_all"), 10);
        json_decref(json);
        sonde_tree_destroy(t);
        sonde_profile_destroy(some);
        sonde_profile_destroy(rest);
    }
}

/* The function that made a request slow is what grew most in the difference from the rest. */
static void the_cause_stands_out(void **state)
{
    (void)state;
    json_decref(get("from=+0&to=+60&slowest=1&base=rest"));
    double most = 0;
    const char *name = "";
    for (int i = 1; i < node_count; i++) {
        const double more = (double)nodes[i].total / (double)nodes[0].total -
                            (double)nodes[i].base / (double)nodes[0].base;
        if (more > most + 1e-9) {
            most = more;
            name = nodes[i].name;
        }
    }
    assert_string_equal(name, "slow");
}

/* ---- Views ----------------------------------------------------------------------------------- */

static void views(void **state)
{
    (void)state;
    struct sonde_profile *p = minute();
    struct sonde_tree *t = tree_of(p, 0, 0), *folded, *inverted, *both;
    const struct sonde_tree_path nowhere = { NULL, 0 };
    assert_int_equal(sonde_tree_fold(t, &folded), 0);
    assert_int_equal(sonde_tree_invert(t, 0, &nowhere, &inverted), 0);
    assert_int_equal(sonde_tree_invert(folded, 0, &nowhere, &both), 0);
    json_decref(get("from=+0&to=+60&fold=1"));
    check_tree("folded", folded, 1);
    json_decref(get("from=+0&to=+60&invert=1"));
    check_tree("inverted", inverted, 1);
    json_decref(get("from=+0&to=+60&invert=1&fold=1"));
    check_tree("both", both, 1);
    json_decref(get("from=+0&to=+60&invert=1&nodes=4"));
    check_tree("inverted, cut", inverted, 0);
    sonde_tree_destroy(both);
    sonde_tree_destroy(inverted);
    sonde_tree_destroy(folded);
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

static void focus(void **state)
{
    (void)state;
    struct sonde_profile *p = minute();
    struct sonde_tree *t = tree_of(p, 0, 0);
    json_t *json = get("from=+0&to=+60&focus=run;prefill;slow");
    check_tree("focus", t, 0);
    assert_int_equal(about(json, "focus"), 3);
    assert_int_equal(node_count, 7); /* all, run, prefill, slow, f, g, f */
    json_decref(json);
    json = get("from=+0&to=+60&focus=run;prefill;slow;nothing");
    assert_int_equal(about(json, "focus"), 3);
    assert_true(has_note(json, "\"nothing\" is not in these samples"));
    assert_int_equal(node_count, 7);
    json_decref(json);
    json = get("from=+0&to=+60&invert=1&focus=f;g");
    assert_int_equal(about(json, "focus"), 2);
    assert_string_equal(nodes[2].name, "g");
    assert_string_equal(nodes[3].name, "f");
    json_decref(json);
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

/* Names with what separates them. */
static void odd_names(void **state)
{
    (void)state;
    struct sonde_profile *p;
    struct sonde_err err;
    uint64_t id;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    uint32_t stack = 0;
    static const char *const names[] = { "a;b", "100%", "%3B", "<\"x\">" };
    for (size_t i = 0; i < COUNT(names); i++) {
        stack = sonde_profile_stack(p, stack,
                                    sonde_profile_named_location(p, names[i], strlen(names[i])));
    }
    assert_int_equal(sonde_profile_add_sample(p, &(struct sonde_profile_sample){
        .stack = stack, .weight = 5, .count = 1 }), 0);
    assert_int_equal(sonde_sessions_keep(sessions, "odd", "session", p, &id, &err), 0);
    json_t *json = get("profile=odd&focus=a%3Bb;100%25;%253B");
    assert_int_equal(about(json, "focus"), 3);
    assert_int_equal(node_count, 5);
    for (size_t i = 0; i < COUNT(names); i++) assert_string_equal(nodes[i + 1].name, names[i]);
    json_decref(json);
    sonde_profile_destroy(p);
}

/* ---- Over time ------------------------------------------------------------------------------- */

/* Parts of the whole, each where its samples were taken. */
static void weight_over_time(void **state)
{
    (void)state;
    static const char *const queries[] = { "from=+0&to=+60&buckets=60", "profile=kept&buckets=60",
                                           "from=+0&to=+60&buckets=60&thread=pool" };
    struct sonde_profile *p = minute();
    for (size_t i = 0; i < COUNT(queries); i++) {
        unsigned status;
        json_t *json = ask_route(&sonde_route_api_flamegraph_time, queries[i], &status);
        assert_int_equal(status, 200);
        json_t *total = json_object_get(json, "total");
        assert_int_equal(json_array_size(total), 60);
        assert_int_equal(json_number_value(json_object_get(json, "step_s")), 1);
        for (uint64_t s = 0; s < 60; s++) {
            uint64_t weight = 0;
            for (uint32_t k = 0; k < p->samples_count; k++) {
                const struct sonde_profile_sample *x = &p->samples[k];
                if ((x->time_ns - START) / S != s) continue;
                if (i == 2 && p->threads[x->thread].tid != 71) continue;
                weight += x->weight;
            }
            assert_int_equal(json_number_value(json_array_get(total, s)), weight);
        }
        assert_true(json_equal(total, json_object_get(json_object_get(json, "kinds"), "cpu")));
        json_decref(json);
    }
    sonde_profile_destroy(p);
}

static void samples_by_time(void **state)
{
    (void)state;
    static const struct { const char *query; size_t count, all; } cases[] = {
        { "from=+0&to=+60&thread=main", 400, 400 },
        { "from=+0&to=+60&thread=main&limit=100", 100, 400 },
        { "profile=kept&phase=decode&limit=1", 1, 0 }, { "from=+8&to=+9", 20, 20 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        unsigned status;
        json_t *json = ask_route(&sonde_route_api_flamegraph_samples, cases[i].query, &status);
        assert_int_equal(status, 200);
        json_t *samples = json_object_get(json, "samples"), *row;
        json_t *stacks = json_object_get(json, "stacks"), *frames = json_object_get(json, "frames");
        assert_int_equal(json_array_size(samples), cases[i].count);
        if (cases[i].all) {
            assert_int_equal(json_integer_value(json_object_get(json, "all")), cases[i].all);
        }
        double before = 0;
        size_t k;
        json_array_foreach(samples, k, row) {
            const double time = json_number_value(json_array_get(row, 0));
            const size_t stack = (size_t)json_integer_value(json_array_get(row, 1));
            json_t *way = json_array_get(stacks, stack);
            assert_true(time >= before);
            before = time;
            const char *first = json_string_value(
                json_array_get(frames, (size_t)json_integer_value(json_array_get(way, 0))));
            json_t *thread = json_array_get(json_object_get(json, "threads"),
                                            (size_t)json_integer_value(json_array_get(row, 3)));
            const char *name = json_string_value(json_object_get(thread, "name"));
            assert_string_equal(first, !strcmp(name, "main") ? "run" : "worker");
        }
        json_decref(json);
    }
}

/* ---- What is wrong --------------------------------------------------------------------------- */

static const struct { const char *query; unsigned status; const char *text; } wrong[] = {
    { "from=+10&to=+5", 400, "must be after the start of the range" },
    { "profile=kept&live=1", 400, "not both" },
    { "profile=nobody", 404, "nobody" },
    { "from=+70&to=+80", 404, "there is a history from" },
    { "from=+1&to=+9&phase=prefil", 404, "did you mean 'prefill'?" },
    { "from=+1&to=+9&request=job-99", 404, "job-9" },
    { "from=+1&to=+9&request=job-1&slowest=1", 400, "one of request, slowest and metric" },
    { "from=+1&to=+9&slowest=0", 400, "slowest" },
    { "from=+1&to=+9&base=rest", 400, "add request, slowest, metric, model or route" },
    { "from=+1&to=+9&slowest=1&base=rest&base_from=+1", 400, "leave out base" },
    { "from=+1&to=+9&base_from=+70&base_to=+80", 404, "what it is compared with: nothing was" },
    { "from=+1&to=+9&model=nobody", 404, "no request is as asked for" },
    { "from=+1&to=+9&metric=total&min=100", 404, "no request is as asked for" },
    { "from=+1&to=+9&type=alloc", 404, "there are some of CPU time" },
    { "live=1&phase=decode", 400, "have no threads, phases or requests" },
    { "from=+41&to=+59&phase=decode", 404, "" },
};

static void what_is_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        unsigned status;
        json_t *json = ask(wrong[i].query, &status);
        const char *text = json_string_value(json_object_get(json, "error"));
        if (status != wrong[i].status || !text || !strstr(text, wrong[i].text)) {
            fail_msg("%s: %u %s", wrong[i].query, status, text ? text : "no error");
        }
        json_decref(json);
    }
}

/* The same, for pages: what is not there is an answer without frames, what is wrong stays that. */
static void nothing_is_an_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        unsigned status;
        char query[200];
        snprintf(query, sizeof(query), "%s&empty=1", wrong[i].query);
        json_t *json = ask(query, &status);
        assert_int_equal(status, wrong[i].status == 404 ? 200 : wrong[i].status);
        if (status == 200) {
            const char *note = json_string_value(json_array_get(
                json_object_get(json_object_get(json, "about"), "notes"), 0));
            assert_int_equal(about(json, "samples"), 0);
            assert_string_equal(json_string_value(json_object_get(json, "nodes")), "");
            if (!note || !strstr(note, wrong[i].text)) {
                fail_msg("%s: %s", query, note ? note : "no note");
            }
        }
        json_decref(json);
    }
}

/* Samples in memory, requests in what is kept of the last hours: as with a store. */
static void the_last_hours(void **state)
{
    (void)state;
    static const char *const queries[] = { "from=+0&to=+40&slowest=2", "request=job-3",
                                           "from=+0&to=+40&metric=total&min=1&max=2",
                                           "from=+0&to=+40&model=large" };
    struct sonde_err err = { "" };
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        json_t *json = get(queries[i]);
        const json_int_t requests = about(json, "requests"), samples = about(json, "samples");
        json_decref(json);
        sonde_recent_destroy(recent);
        assert_int_equal(sonde_recent_create(64 << 20, 60, &recent), 0);
        assert_int_equal(sonde_continuous_create(&(struct sonde_continuous_options){
            .collector = collector, .store_ops = &ops, .store = store }, &continuous, &err), 0);
        json = get(queries[i]);
        sonde_continuous_destroy(continuous);
        continuous = NULL;
        assert_true(requests > 0);
        assert_int_equal(about(json, "requests"), requests);
        assert_int_equal(about(json, "samples"), samples);
        json_decref(json);
    }
}

/* What was worked out is used again. */
static void the_same_is_asked_again(void **state)
{
    (void)state;
    size_t bytes, before;
    json_decref(get("from=+1&to=+9"));
    before = sonde_recent_count(recent, &bytes);
    json_decref(get("from=+1&to=+9&focus=run"));
    json_decref(get("from=+1&to=+9&invert=1"));
    json_decref(get("from=+1&to=+9&nodes=3"));
    assert_int_equal(sonde_recent_count(recent, &bytes), before);
    json_decref(get("from=+1&to=+9&thread=main"));
    /* A tree of the same profile. */
    assert_int_equal(sonde_recent_count(recent, &bytes), before + 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ranges), TEST(cuts), TEST(kept_profiles), TEST(choices_are_those_of_select),
        TEST(requests_by_what_they_are), TEST(differences_of_times),
        TEST(nothing_differs_from_itself), TEST(the_rest), TEST(the_cause_stands_out), TEST(views),
        TEST(focus),
        TEST(odd_names), TEST(weight_over_time), TEST(samples_by_time), TEST(what_is_wrong),
        TEST(nothing_is_an_answer), TEST(the_last_hours), TEST(the_same_is_asked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
