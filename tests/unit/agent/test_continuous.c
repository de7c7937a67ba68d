/* Continuous profiling: what is asked for, what becomes of it, and what is in the store. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "serve/api/history.h"
#include "agent/continuous_private.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"
#include "unit/store/sqlite/store_build.h"

enum { WAIT_ROUNDS = 600 }; /* of a tenth of a second */
#define S 1000000000ull
#define MINUTE (1763164800ull * S)

static struct sonde_store *store;
static struct sonde_collector *collector;
static struct sonde_profiler *profiler;
static struct sonde_continuous *c;
static pid_t child;
static volatile uint64_t turns;

static void pause_a_bit(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
}

static int setup(void **state)
{
    struct sonde_err err;
    if (build_make_dir(state)) return -1;
    const struct sonde_store_options so = { .path = build_path };
    const struct sonde_collector_options co = { .dir = build_dir };
    child = 0;
    c = NULL;
    if (OPS->open(&so, &store, &err) || sonde_collector_create(&co, &collector, &err)) return -1;
    const struct sonde_profiler_options po = { .collector = collector, .dir = build_dir };
    return sonde_profiler_create(&po, &profiler);
}

static int teardown(void **state)
{
    sonde_continuous_destroy(c);
    sonde_profiler_destroy(profiler);
    sonde_collector_destroy(collector);
    OPS->close(store);
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return build_remove_dir(state);
}

static void create(int with_store, struct sonde_continuous_settings settings, double flush_s)
{
    struct sonde_err err = { "" };
    const struct sonde_continuous_options o = {
        .collector = collector, .profiler = profiler, .store_ops = OPS,
        .store = with_store ? store : NULL, .settings = settings, .flush_s = flush_s,
        .bytes_max = 1 << 20 };
    if (sonde_continuous_create(&o, &c, &err) != 0) fail_msg("%s", err.text);
}

static const struct sonde_continuous_settings usual = { .cpu = 1, .memory = 1, .rate_hz = 19,
                                                        .interval_s = 60 };

static int apply(const char *body, struct sonde_err *err)
{
    struct sonde_continuous_change change;
    const int rc = sonde_continuous_parse(body, strlen(body), &change, err);
    return rc ? rc : sonde_continuous_apply(c, &change, err);
}

static json_t *status(void)
{
    struct sonde_buf out;
    struct sonde_err err = { "" };
    sonde_buf_init(&out, 1 << 20);
    if (sonde_continuous_json(c, &out, &err) != 0) fail_msg("%s", err.text);
    json_t *root = json_loadb(out.data, out.len, 0, NULL);
    assert_non_null(root);
    sonde_buf_release(&out);
    return root;
}

static double json_num(json_t *root, const char *object, const char *name)
{
    json_t *at = object ? json_object_get(root, object) : root;
    return json_number_value(json_object_get(at, name));
}

/* ---- What is asked for ----------------------------------------------------------------------- */

static void test_bodies(void **state)
{
    (void)state;
    static const struct { const char *body, *says; } bad[] = {
        { "", "no JSON" },
        { "nonsense", "no JSON" },
        { "[1]", "JSON object" },
        { "{}", "asks for nothing" },
        { "{\"enable\": true}", "did you mean \"enabled\"" },
        { "{\"zzz\": true}", "unknown member \"zzz\"" },
        { "{\"enabled\": 1}", "\"enabled\" must be true or false" },
        { "{\"rate_hz\": \"fast\"}", "\"rate_hz\" must be a number from 1 to 10000" },
        { "{\"rate_hz\": 0}", "\"rate_hz\"" },
        { "{\"rate_hz\": 10001}", "\"rate_hz\"" },
        { "{\"interval_seconds\": 0}", "\"interval_seconds\"" },
        { "{\"interval_seconds\": -5}", "\"interval_seconds\"" },
        { "{\"burst_seconds\": 3601}", "\"burst_seconds\"" },
        { "{\"enabled\": true, \"enabled\": false}", "no JSON" },
    };
    struct sonde_continuous_change change;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sonde_err err = { "" };
        const int rc = sonde_continuous_parse(bad[i].body, strlen(bad[i].body), &change, &err);
        if (rc != SONDE_EINVAL || !strstr(err.text, bad[i].says)) {
            fail_msg("%s: %d %s", bad[i].body, rc, err.text);
        }
    }
    static const char burst[] = "{\"burst_seconds\": 30}";
    assert_int_equal(sonde_continuous_parse(burst, strlen(burst), &change, NULL), 0);
    assert_true(change.burst_s == 30 && change.burst_hz == SONDE_CONTINUOUS_BURST_HZ);
    static const char rate[] = "{\"burst_seconds\": 3, \"rate_hz\": 500}";
    assert_int_equal(sonde_continuous_parse(rate, strlen(rate), &change, NULL), 0);
    assert_true(change.burst_hz == 500 && !(change.has >> CONTINUOUS_RATE & 1));
}

static void test_settings(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    create(1, usual, 10);
    assert_int_equal(apply("{\"burst_seconds\": 3}", &err), SONDE_EBUSY);
    assert_int_equal(apply("{\"enabled\": true, \"cpu\": false, \"memory\": false}", &err),
                     SONDE_EINVAL);
    assert_int_equal(apply("{\"enabled\": true, \"duration_seconds\": 61}", &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "duration_seconds"));
    json_t *root = status();
    assert_true(json_is_false(json_object_get(root, "enabled")));
    json_decref(root);
    assert_int_equal(apply("{\"enabled\": true, \"interval_seconds\": 300, \"cpu\": true, "
                           "\"memory\": true, \"gpu\": true}", &err), 0);
    assert_int_equal(apply("{\"duration_seconds\": 30, \"rate_hz\": 49}", &err), 0);
    root = status();
    assert_true(json_is_true(json_object_get(root, "enabled")));
    assert_true(json_num(root, NULL, "interval_seconds") == 300);
    assert_true(json_num(root, NULL, "duration_seconds") == 30);
    assert_true(json_num(root, NULL, "rate_hz") == 49);
    assert_true(json_num(root, NULL, "duty") == 0.1);
    json_t *gpu = json_object_get(root, "gpu");
    assert_true(json_is_true(json_object_get(gpu, "wanted")));
    assert_true(json_is_false(json_object_get(gpu, "active")));
    assert_true(json_is_string(json_object_get(gpu, "reason")));
    json_decref(root);
    assert_int_equal(apply("{\"enabled\": false}", &err), 0);
    sonde_continuous_stop(c);
    assert_int_equal(apply("{\"enabled\": true}", &err), SONDE_EOFF);
}

/* Without a store it is kept in memory, within a limit. */
static void test_no_store(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    create(0, usual, 10);
    assert_int_equal(apply("{\"enabled\": true, \"cpu\": false}", &err), 0);
    json_t *root = status();
    json_t *history = json_object_get(root, "history");
    assert_string_equal(json_string_value(json_object_get(history, "kept_in")), "memory");
    json_decref(root);
    const struct sonde_store_ops *ops = NULL;
    assert_non_null(sonde_continuous_store(c, &ops));
    assert_ptr_equal(ops, &sonde_store_memory);

    struct sonde_continuous_settings on = usual;
    on.enabled = 1;
    struct sonde_continuous *none = NULL;
    const struct sonde_continuous_options o = { .collector = collector, .settings = on };
    assert_int_equal(sonde_continuous_create(&o, &none, &err), SONDE_EOFF); /* no profiler */
    assert_null(none);
}

/* ---- Minutes --------------------------------------------------------------------------------- */

static struct sonde_model_process *add_process(uint32_t pid, const char *program)
{
    struct sonde_model *m = sonde_collector_model(collector);
    sonde_wrlock(&m->lock);
    struct sonde_model_process *p = sonde_model_process(m, pid, 1, program);
    sonde_rwunlock(&m->lock);
    assert_non_null(p);
    return p;
}

static uint64_t stored(const struct sonde_history_query *q, uint64_t *events)
{
    struct sonde_profile *p = NULL;
    struct sonde_err err = { "" };
    const int rc = sonde_history_merge(OPS, store, q, &p, &err);
    if (rc == SONDE_ENOENT) return 0;
    if (rc) fail_msg("%s", err.text);
    uint64_t weight = 0, n = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        weight += p->samples[i].weight;
        n += p->samples[i].count;
    }
    if (events) *events = n;
    sonde_profile_destroy(p);
    return weight;
}

struct counted { int parts; char programs[256]; };

static void count_part(const struct sonde_history_part *part, void *arg)
{
    struct counted *n = arg;
    n->parts++;
    snprintf(n->programs + strlen(n->programs), sizeof(n->programs) - strlen(n->programs), "%s ",
             part->program);
}

/* Cuts of ten seconds from two programs, in which the next one overlaps the last: each sample is in
 * the minute and the program that it is of, once. */
static void test_minutes(void **state)
{
    (void)state;
    create(1, usual, 10);
    add_process(10, "alpha");
    add_process(20, "beta");
    for (uint64_t cut = 0; cut < 15; cut++) { /* two and a half minutes from :05 on */
        struct sonde_profile *p;
        const uint64_t from = MINUTE + (5 + cut * 10) * S, to = from + 10 * S;
        assert_int_equal(sonde_profile_create(0, &p), 0);
        const uint32_t a = sonde_profile_thread(p, 10, 11, "a");
        const uint32_t b = sonde_profile_thread(p, 20, 21, "b");
        for (uint64_t i = 0; i < 11; i++) { /* the last of them is also the next one's */
            build_sample(p, "main;f", 7, a, from + i * S);
            build_sample(p, "main;g", 5, b, from + i * S);
        }
        p->start_ns = from;
        p->end_ns = to + S / 2;
        continuous_take_in(c, p, from, to);
        sonde_profile_destroy(p);
        continuous_write(c, to);
    }
    const struct sonde_history_query all = { 0 };
    uint64_t events = 0;
    assert_int_equal(stored(&all, &events), 150 * (7 + 5));
    assert_int_equal(events, 300);
    struct counted n = { 0 };
    assert_int_equal(sonde_history_each(OPS, store, &all, count_part, &n, NULL), 0);
    assert_int_equal(n.parts, 6);
    assert_string_equal(n.programs, "alpha beta alpha beta alpha beta ");
    const struct sonde_history_query second = { .from_s = (double)(MINUTE / S) + 60,
                                                .to_s = (double)(MINUTE / S) + 120,
                                                .program = "beta" };
    assert_int_equal(stored(&second, &events), 60 * 5);
    assert_int_equal(c->parts.samples, 300);
    assert_int_equal(c->parts.weight_ns, 1800);
    /* What is over is not kept in memory. */
    continuous_write(c, MINUTE + 3600 * S);
    assert_int_equal(c->parts.count, 0);

    struct sonde_buf out, again;
    struct sonde_history_summaries *summaries;
    sonde_buf_init(&out, 1 << 20);
    assert_int_equal(sonde_history_summaries_create(&summaries), 0);
    assert_int_equal(sonde_api_history(OPS, store, summaries, &second, 10, &out, NULL), 0);
    for (int i = 0; i < 2; i++) { /* the same from what is remembered, and without */
        sonde_buf_init(&again, 1 << 20);
        assert_int_equal(
            sonde_api_history(OPS, store, i ? NULL : summaries, &second, 10, &again, NULL), 0);
        assert_string_equal(again.data, out.data);
        sonde_buf_release(&again);
    }
    sonde_history_summaries_destroy(summaries);
    json_t *root = json_loadb(out.data, out.len, 0, NULL);
    json_t *part = json_array_get(json_object_get(root, "parts"), 0);
    assert_int_equal(json_integer_value(json_object_get(root, "total")), 1);
    assert_string_equal(json_string_value(json_object_get(part, "tier")), "minute");
    assert_int_equal(json_integer_value(json_object_get(part, "samples")), 60);
    assert_string_equal(json_string_value(json_object_get(json_object_get(part, "top"),
                                                          "function")), "g");
    assert_true(json_num(part, "top", "ratio") == 1);
    json_decref(root);
    sonde_buf_release(&out);
}

/* ---- For real -------------------------------------------------------------------------------- */

/* A process that uses the CPU, and that the model knows. */
static void start_child(void)
{
    child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) turns++;
    }
    assert_true(child > 0);
    add_process((uint32_t)child, "spin");
}

static uint64_t wait_for_samples(uint64_t more_than)
{
    uint64_t events = 0;
    for (int i = 0; i < WAIT_ROUNDS && events <= more_than; i++) {
        stored(&(struct sonde_history_query){ .program = "spin" }, &events);
        pause_a_bit();
    }
    return events;
}

static void test_sampling(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    start_child();
    create(1, usual, 0.3);
    assert_int_equal(apply("{\"enabled\": true, \"rate_hz\": 97}", &err), 0);
    uint64_t events = 0;
    for (int i = 0; i < WAIT_ROUNDS && !events; i++) {
        json_t *root = status();
        const char *note = json_string_value(json_object_get(json_object_get(root, "cpu"), "note"));
        const int forbidden = note && !json_num(root, "cpu", "processes");
        json_decref(root);
        if (forbidden) { /* where nothing may be sampled */
            print_message("not sampled here\n");
            skip();
        }
        stored(&(struct sonde_history_query){ .program = "spin" }, &events);
        pause_a_bit();
    }
    assert_true(events > 0);
    assert_int_equal(apply("{\"burst_seconds\": 60, \"rate_hz\": 997}", &err), 0);
    events = wait_for_samples(events);
    json_t *root = status();
    assert_true(json_is_true(json_object_get(json_object_get(root, "burst"), "active")));
    assert_true(json_num(root, "burst", "rate_hz") == 997);
    assert_true(json_num(root, "overhead", "agent_cpu_seconds") > 0);
    json_decref(root);
    assert_int_equal(apply("{\"enabled\": false}", &err), 0);
    sonde_continuous_stop(c);
    stored(&(struct sonde_history_query){ .program = "spin" }, &events);
    /* What is in the store is what was counted: nothing twice, nothing lost on the way. */
    assert_int_equal(events, c->parts.samples);
    assert_int_equal(c->parts.dropped, 0);
    assert_null(c->capture);
    assert_null(c->heap_capture);
}

/* What was sampled is there when it is asked for, long before it is written by itself. */
static void test_asked_for(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    uint64_t events = 0;
    start_child();
    create(1, usual, 1e6);
    sonde_continuous_flush(c); /* it is off: nothing to wait for */
    assert_int_equal(apply("{\"enabled\": true, \"rate_hz\": 97}", &err), 0);
    for (int i = 0; i < WAIT_ROUNDS && !events; i++) {
        json_t *root = status();
        const char *note = json_string_value(json_object_get(json_object_get(root, "cpu"), "note"));
        const int forbidden = note && !json_num(root, "cpu", "processes");
        json_decref(root);
        if (forbidden) skip();
        sonde_continuous_flush(c);
        stored(&(struct sonde_history_query){ .program = "spin" }, &events);
        pause_a_bit();
    }
    assert_true(events > 0);
    sonde_continuous_stop(c);
    sonde_continuous_flush(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        CASE(test_bodies),  CASE(test_settings), CASE(test_no_store),
        CASE(test_minutes), CASE(test_sampling), CASE(test_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
