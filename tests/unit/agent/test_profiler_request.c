/* Profiles of single requests: which there are, and what is answered when. Nothing is sampled here:
 * tests/e2e/test_request_profile.sh does that. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "agent/profiler_request.h"
#include "serve_profiler.h"
#include "sonde/sonde.h"

#define T0 1700000000000000000ull
enum { WAIT_S = 60 };

static int setup(void **state)
{
    (void)state;
    return profiler_make();
}

static int teardown(void **state)
{
    (void)state;
    profiler_end();
    return 0;
}

static struct sonde_profiler_request front(uint64_t id)
{
    return (struct sonde_profiler_request){ .id = id, .trace_hi = 7, .trace_lo = id + 1,
                                            .source = SONDE_INFER_FRONT, .arrived_ns = T0 };
}

static void begin(uint64_t id)
{
    const struct sonde_profiler_request r = front(id);
    char text[SONDE_REQUEST_PROFILE_ID];
    assert_int_equal(sonde_profiler_request_begin(profiler, &r, text), 0);
    char wanted[32];
    snprintf(wanted, sizeof(wanted), "%016llx", (unsigned long long)id);
    assert_string_equal(text, wanted);
}

static struct sonde_request_profile *done(const char *id)
{
    struct sonde_request_profile *r = NULL;
    struct sonde_err err = { "" };
    int rc = SONDE_EBUSY;
    for (int i = 0; rc == SONDE_EBUSY && i < WAIT_S * 1000; i++) {
        rc = sonde_profiler_request_get(profiler, id, &r, &err);
        if (rc == SONDE_EBUSY) usleep(1000);
    }
    if (rc) fail_msg("%s: %s", id ? id : "last", err.text);
    return r;
}

static int get(const char *id, struct sonde_err *err)
{
    struct sonde_request_profile *r = NULL;
    const int rc = sonde_profiler_request_get(profiler, id, &r, err);
    if (!rc) sonde_profiler_request_put(profiler, r);
    return rc;
}

static void test_life(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    assert_int_equal(get(NULL, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "X-Profile"));
    begin(0xabc);
    assert_int_equal(get("0000000000000abc", &err), SONDE_EBUSY);
    assert_non_null(strstr(err.text, "not ended"));
    assert_int_equal(get(NULL, &err), SONDE_EBUSY);
    for (int i = 0; !sonde_profiler_request_ready(profiler, 0xabc) && i < WAIT_S * 1000; i++) {
        usleep(1000);
    }
    assert_true(sonde_profiler_request_ready(profiler, 0xabc));
    assert_true(sonde_profiler_request_ready(profiler, 0xdef)); /* nobody waits for it */
    sonde_profiler_request_end(profiler, 0xabc, T0 + 1000, 0);
    assert_int_equal(get("0000000000000abc", &err), SONDE_EBUSY);
    sonde_profiler_request_end(profiler, 0xabc, T0 + 2000, 1); /* the first end counts */
    struct sonde_request_profile *r = done("0000000000000ABC");
    assert_int_equal(r->request.id, 0xabc);
    assert_int_equal(r->ended_ns, T0 + 1000);
    assert_non_null(r->profile);
    assert_int_equal(r->profile->samples_count, 0);
    assert_int_equal(r->profile->infer->request_count, 1);
    assert_int_equal(r->note_count, 2);
    assert_non_null(strstr(r->notes[0], "the CPU was not sampled: no process"));
    assert_non_null(strstr(r->notes[1], "allocations are not known"));
    sonde_profiler_request_put(profiler, r);
    r = done(NULL);
    assert_int_equal(r->request.id, 0xabc);
    sonde_profiler_request_put(profiler, r);
    r = done("00000000000000070000000000000abd"); /* its trace */
    assert_int_equal(r->request.id, 0xabc);
    sonde_profiler_request_put(profiler, r);
    struct sonde_request_profile_row row;
    assert_int_equal(sonde_profiler_request_list(profiler, &row, 1), 1);
    assert_true(row.done);
}

static void test_ids(void **state)
{
    (void)state;
    static const struct { const char *id; int rc; } cases[] = {
        { "", SONDE_EINVAL },
        { "x", SONDE_EINVAL },
        { "../../etc/passwd", SONDE_EINVAL }, /* of the right length */
        { "000000000000000g", SONDE_EINVAL },
        { "-000000000000001", SONDE_EINVAL },
        { " 00000000000000a", SONDE_EINVAL },
        { "0x0000000000000a", SONDE_EINVAL },
        { "000000000000000", SONDE_EINVAL },
        { "00000000000000000", SONDE_EINVAL },
        { "0000000000000000000000000000000000", SONDE_EINVAL },
        { "0000000000000000", SONDE_ENOENT },
        { "ffffffffffffffff", SONDE_ENOENT },
        { "ffffffffffffffffffffffffffffffff", SONDE_ENOENT },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_err err = { "" };
        assert_int_equal(get(cases[i].id, &err), cases[i].rc);
        assert_true(err.text[0]);
    }
}

/* So many are kept, and no more; one that somebody looks at stays until it is given back. */
static void test_bounds(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    char text[SONDE_REQUEST_PROFILE_ID];
    begin(1);
    sonde_profiler_request_end(profiler, 1, T0 + 1, 1);
    struct sonde_request_profile *first = done("0000000000000001");
    for (uint64_t i = 2; i <= 200; i++) {
        begin(i);
        sonde_profiler_request_end(profiler, i, T0 + i, 1);
        snprintf(text, sizeof(text), "%016llx", (unsigned long long)i);
        sonde_profiler_request_put(profiler, done(text));
    }
    struct sonde_request_profile_row rows[300];
    assert_int_equal(sonde_profiler_request_list(profiler, rows, 300), SONDE_REQUEST_PROFILES_MAX);
    assert_int_equal(rows[0].request.id, 200);
    assert_int_equal(get("0000000000000001", &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "no longer"));
    assert_int_equal(first->request.id, 1);
    assert_int_equal(first->profile->samples_count, 0);
    sonde_profiler_request_put(profiler, first);

    /* As many may be under way. */
    for (uint64_t i = 0; i < SONDE_REQUEST_PROFILES_MAX; i++) begin(1000 + i);
    struct sonde_profiler_request more = front(5000);
    assert_int_equal(sonde_profiler_request_begin(profiler, &more, text), SONDE_EFULL);
    sonde_profiler_request_end(profiler, 1000, T0 + 1, 1);
    sonde_profiler_request_put(profiler, done("00000000000003e8"));
    assert_int_equal(sonde_profiler_request_begin(profiler, &more, text), 0);
    more = front(1001); /* twice */
    sonde_profiler_request_end(profiler, 1002, T0 + 1, 1);
    sonde_profiler_request_put(profiler, done("00000000000003ea"));
    assert_int_equal(sonde_profiler_request_begin(profiler, &more, text), SONDE_EFULL);
}

static struct sonde_infer_request engine(uint64_t id, uint64_t parent, uint32_t flags)
{
    return (struct sonde_infer_request){ .id = id, .parent = parent, .flags = flags,
                                         .source = SONDE_INFER_API, .arrived_ns = T0,
                                         .total_s = 0.5 };
}

/* As the model does, with its lock. */
static void tell(void (*what)(struct sonde_profiler *, const struct sonde_infer_request *),
                 const struct sonde_infer_request *r)
{
    struct sonde_model *m = sonde_collector_model(collector);
    sonde_wrlock(&m->lock);
    what(profiler, r);
    sonde_rwunlock(&m->lock);
}

/* Requests that ask for it themselves; but not what a front has begun. */
static void test_inference(void **state)
{
    (void)state;
    struct sonde_request_profile_row rows[8];
    struct sonde_infer_request r = engine(0x11, 0, 0);
    tell(sonde_profiler_on_begin, &r);
    tell(sonde_profiler_on_done, &r);
    assert_int_equal(sonde_profiler_request_list(profiler, rows, 8), 0);
    begin(0x20);
    r = engine(0x21, 0x20, SONDE_INFER_PROFILE);
    tell(sonde_profiler_on_begin, &r);
    tell(sonde_profiler_on_done, &r);
    assert_int_equal(sonde_profiler_request_list(profiler, rows, 8), 1);
    r = engine(0x31, 0x30, SONDE_INFER_PROFILE);
    tell(sonde_profiler_on_begin, &r);
    assert_int_equal(sonde_profiler_request_list(profiler, rows, 8), 2);
    tell(sonde_profiler_on_done, &r);
    struct sonde_request_profile *p = done("0000000000000031");
    assert_int_equal(p->request.source, SONDE_INFER_API);
    assert_int_equal(p->ended_ns, T0 + 500000000u);
    sonde_profiler_request_put(profiler, p);
    /* The front's is done when its own request is. */
    r = engine(0x20, 0, SONDE_INFER_PROFILE);
    r.source = SONDE_INFER_FRONT;
    tell(sonde_profiler_on_done, &r);
    sonde_profiler_request_put(profiler, done("0000000000000020"));
}

/* Whatever there is no memory for: the answer is a profile, or that there was none for it. */
static void test_no_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth <= 120; nth++) {
        const struct sonde_profiler_request r = front(nth);
        struct sonde_err err = { "" };
        char id[SONDE_REQUEST_PROFILE_ID];
        sonde__alloc_fail_nth(nth);
        const int begun = sonde_profiler_request_begin(profiler, &r, id);
        assert_true(!begun || begun == SONDE_ENOMEM);
        sonde_profiler_request_end(profiler, nth, T0 + 1, 1);
        int rc = begun;
        for (int i = 0; !begun && i < WAIT_S * 1000; i++) {
            rc = get(id, &err);
            if (rc != SONDE_EBUSY) break;
            usleep(1000);
        }
        sonde__alloc_fail_nth(0);
        assert_true(!rc || rc == SONDE_ENOMEM);
    }
}

/* Ends in the middle of things. */
static void test_end(void **state)
{
    (void)state;
    struct sonde_profiler_request r = front(9);
    char text[SONDE_REQUEST_PROFILE_ID];
    for (uint64_t i = 1; i < 9; i++) begin(i);
    for (uint64_t i = 1; i < 5; i++) sonde_profiler_request_end(profiler, i, T0, 1);
    sonde_profiler_cancel(profiler);
    assert_int_equal(sonde_profiler_request_begin(profiler, &r, text), SONDE_EFULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = { TEST(test_life), TEST(test_ids), TEST(test_bounds),
                                        TEST(test_inference), TEST(test_no_memory),
                                        TEST(test_end) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
