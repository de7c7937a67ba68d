/* The life of an agent: what each step makes, what goes on without a part, and that all is given
 * back whichever step and whichever allocation fails. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "sonde/sonde.h"

static char dir[] = "/tmp/sonde-unit-XXXXXX";
static char file[sizeof(dir) + 16];

/* What was told to be missing, and what to make of it. */
static struct { unsigned parts; int rc, give_up; char text[512]; } told;

static int on_missing(enum sonde_agent_part part, int rc, const struct sonde_err *err, void *arg)
{
    assert_ptr_equal(arg, &told);
    assert_true(rc < 0);
    told.parts |= 1u << part;
    told.rc = rc;
    snprintf(told.text, sizeof(told.text), "%s", err->text);
    return told.give_up;
}

static struct sonde_agent_options plain(void)
{
    return (struct sonde_agent_options){ .collector = { .dir = dir }, .missing = on_missing,
                                         .missing_arg = &told };
}

static int setup(void **state)
{
    (void)state;
    memset(&told, 0, sizeof(told));
    strcpy(dir, "/tmp/sonde-unit-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(file, sizeof(file), "%s/store", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[sizeof(dir) + 16];
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void nothing_but_a_model(void **state)
{
    (void)state;
    const struct sonde_agent_options o = plain();
    struct sonde_err err = { "" };
    struct sonde_agent *a;
    assert_int_equal(sonde_agent_open(&o, &a, &err), 0);
    assert_non_null(a->collector);
    assert_non_null(sonde_collector_tracker(a->collector));
    assert_true(a->started_s > 1e9);
    assert_null(a->profiler);
    assert_null(a->sessions);
    assert_null(a->store);
    assert_null(a->temporary);
    assert_null(a->marks);
    assert_null(a->otlp);
    assert_null(a->push);
    assert_null(a->recording);
    sonde_collector_step(a->collector);
    assert_int_equal(sonde_agent_profile(a, NULL, &err), 0);
    assert_null(a->sessions);
    assert_null(a->continuous);
    sonde_agent_stop(a, 0);
    sonde_agent_stop(a, 1);
    sonde_agent_close(a);
    sonde_agent_close(NULL);
    assert_int_equal(told.parts, 0);
}

/* All that needs no other process. */
static int open_much(struct sonde_agent **out, struct sonde_err *err)
{
    static const struct sonde_push_target target = { .kind = "otlp", .url = "http://127.0.0.1:9" };
    const struct sonde_push_options push = { .targets = &target, .target_count = 1,
                                             .signals = SONDE_PUSH_METRICS, .interval_s = 3600,
                                             .timeout_s = 0.1 };
    const struct sonde_otlp_options otlp = { .series_max = 10, .stale_s = 1 };
    const struct sonde_store_options store = { .path = file };
    const struct sonde_store_options temporary = { .path = dir, .keep = { .bytes = 1 << 20 } };
    struct sonde_scrape_targets targets = { 0 };
    struct sonde_agent_options o = plain();
    o.scrape = (struct sonde_scrape_options){ .interval_s = 3600, .timeout_s = 0.1,
                                              .series_max = 10, .body_max = 1000 };
    int rc = sonde_scrape_targets_add(&targets, "http://127.0.0.1:9/metrics", &o.scrape, err);
    if (rc) {
        sonde_scrape_targets_release(&targets);
        return rc;
    }
    o.store = &store;
    o.temporary = &temporary;
    o.otlp = &otlp;
    o.push = &push;
    o.targets = &targets;
    o.asked = o.profile = o.record = 1;
    o.profiler.dir = dir;
    rc = sonde_agent_open(&o, out, err);
    assert_null(targets.at); /* taken over, whatever came of it */
    return rc;
}

static void all_steps(void **state)
{
    (void)state;
    const struct sonde_continuous_options continuous = { .settings = { .rate_hz = 19,
                                                                       .interval_s = 60 } };
    struct sonde_err err = { "" };
    struct sonde_agent *a;
    assert_int_equal(open_much(&a, &err), 0);
    assert_non_null(a->store);
    assert_null(a->temporary); /* there is a store */
    assert_non_null(a->profiler);
    assert_non_null(a->marks);
    assert_non_null(a->otlp);
    assert_non_null(a->push);
    assert_non_null(a->recording->spans);
    assert_null(a->sessions);
    assert_int_equal(sonde_agent_profile(a, &continuous, &err), 0);
    assert_non_null(a->sessions);
    assert_non_null(a->continuous);
    assert_int_equal(sonde_agent_start(a, &err), 0);
    sonde_agent_stop(a, 0);
    assert_int_equal(sonde_agent_start(a, &err), 0); /* goes on */
    sonde_agent_close(a);
    assert_int_equal(told.parts, 0);
    assert_int_equal(access(file, F_OK), 0);
}

static void the_last_hours_without_a_store(void **state)
{
    (void)state;
    const struct sonde_store_options temporary = { .path = dir, .keep = { .bytes = 1 << 20 } };
    struct sonde_agent_options o = plain();
    struct sonde_err err = { "" };
    struct sonde_agent *a;
    o.temporary = &temporary;
    assert_int_equal(sonde_agent_open(&o, &a, &err), 0);
    assert_null(a->store);
    assert_non_null(a->temporary);
    sonde_agent_close(a);
}

/* ---- What is missing ------------------------------------------------------------------------- */

static void a_part_that_is_missing(void **state)
{
    (void)state;
    const struct sonde_store_options store = { .path = "/proc/none/store" };
    struct sonde_agent_options o = plain();
    struct sonde_err err = { "" };
    struct sonde_agent *a = NULL;
    o.store = &store;
    /* Who is asked may go on without it, … */
    assert_int_equal(sonde_agent_open(&o, &a, &err), 0);
    assert_int_equal(told.parts, 1u << SONDE_AGENT_STORE);
    assert_non_null(strstr(told.text, "/proc/none"));
    assert_null(a->store);
    assert_non_null(a->collector);
    sonde_agent_close(a);
    /* … or not; … */
    a = NULL;
    told.give_up = 1;
    assert_int_equal(sonde_agent_open(&o, &a, &err), told.rc);
    assert_null(a);
    /* … and without anybody to ask it fails. */
    o.missing = NULL;
    err.text[0] = '\0';
    assert_int_equal(sonde_agent_open(&o, &a, &err), told.rc);
    assert_null(a);
    assert_string_equal(err.text, told.text);
}

static void without_a_collector(void **state)
{
    (void)state;
    const struct sonde_continuous_options continuous = { 0 };
    struct sonde_agent_options o = plain();
    struct sonde_err err = { "" };
    struct sonde_agent *a;
    o.collector.agent = 1;
    o.collector.dir = "/proc/none/segments"; /* which it cannot make */
    o.asked = o.profile = o.record = 1;
    assert_int_equal(sonde_agent_open(&o, &a, &err), 0);
    assert_int_equal(told.parts, 1u << SONDE_AGENT_COLLECTOR);
    assert_null(a->collector);
    assert_null(a->profiler);
    /* Every step can be taken, and does nothing. */
    assert_int_equal(sonde_agent_profile(a, &continuous, &err), 0);
    assert_null(a->continuous);
    assert_int_equal(sonde_agent_start(a, &err), 0);
    sonde_agent_stop(a, 0);
    sonde_agent_close(a);
}

static void destinations_that_are_wrong(void **state)
{
    (void)state;
    static const struct sonde_push_target target = { .kind = "otlp", .url = "gopher://x" };
    const struct sonde_push_options push = { .targets = &target, .target_count = 1,
                                             .signals = SONDE_PUSH_METRICS, .interval_s = 1,
                                             .timeout_s = 1 };
    struct sonde_agent_options o = plain();
    struct sonde_err err = { "" };
    struct sonde_agent *a = NULL;
    o.push = &push;
    told.give_up = 1;
    assert_int_equal(sonde_agent_open(&o, &a, &err), SONDE_EINVAL);
    assert_int_equal(told.parts, 1u << SONDE_AGENT_PUSH);
    assert_null(a);
}

static void a_recording_of_what_cannot_be(void **state)
{
    (void)state;
    struct sonde_agent_options o = plain();
    struct sonde_err err = { "" };
    struct sonde_agent *a;
    o.record = 1;
    assert_int_equal(sonde_agent_open(&o, &a, &err), 0);
    const struct sonde_agent_recording r = { .pid = 0x7ffffff0, .cpu = 1, .heap = 1, .llama = 1,
                                             .heap_options = { .dir = dir },
                                             .cpu_options = { .rate_hz = 99, .dir = dir } };
    told.give_up = 0;
    assert_int_equal(sonde_agent_record(a, &r, &err), 0);
    assert_true(told.parts & 1u << SONDE_AGENT_CPU);
    assert_null(a->recording->cpu);
    assert_null(a->recording->heap_reader);
    sonde_agent_stop(a, 0);
    struct sonde_profile *p = NULL;
    assert_int_equal(sonde_recording_finish(a->recording, &p, &err), 0); /* it has no samples */
    assert_int_equal(p->samples_count, 0);
    sonde_profile_destroy(p);
    sonde_agent_close(a);
}

/* ---- Every allocation fails once ------------------------------------------------------------- */

static void without_memory(void **state)
{
    (void)state;
    int rc = -1;
    told.give_up = 1;
    for (unsigned nth = 1; rc && nth < 5000; nth++) {
        struct sonde_agent *a = NULL;
        struct sonde_err err = { "" };
        const int64_t live = sonde__alloc_live();
        sonde__alloc_fail_nth(nth);
        rc = open_much(&a, &err);
        if (!rc) rc = sonde_agent_profile(a, NULL, &err);
        const int profiler = a && a->profiler; /* goes on without it, and so without sessions */
        sonde__alloc_fail_nth(0);
        sonde_agent_close(a);
        if (!rc && !profiler) rc = -1;
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(nothing_but_a_model), T(all_steps), T(the_last_hours_without_a_store),
        T(a_part_that_is_missing), T(without_a_collector), T(destinations_that_are_wrong),
        T(a_recording_of_what_cannot_be), T(without_memory),
    };
    return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
