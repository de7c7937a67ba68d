/* Profiles that are begun and ended, several at a time: what they share, and what each has. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/profiler_request.h"
#include "agent/capture.h"
#include "serve_profiler.h"
#include "sonde/sonde.h"

enum { WAIT_ROUNDS = 600 }; /* of a tenth of a second */

static pid_t child;
static volatile uint64_t turns;

static int setup(void **state)
{
    (void)state;
    child = 0;
    return profiler_make();
}

static int teardown(void **state)
{
    (void)state;
    profiler_end();
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return 0;
}

/* A process that uses the CPU, and that the model knows. */
static void start_child(void)
{
    child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) turns++;
    }
    assert_true(child > 0);
}

static void tell_model(void)
{
    struct sonde_model *m = sonde_collector_model(collector);
    sonde_wrlock(&m->lock);
    assert_non_null(sonde_model_process(m, (uint32_t)child, 1, "spin"));
    sonde_rwunlock(&m->lock);
}

/* Skips the test where nothing may be sampled. */
static struct sonde_capture *begin(const struct sonde_capture_options *o)
{
    struct sonde_capture *t = NULL;
    struct sonde_err err = { "" };
    const int rc = sonde_profiler_begin(profiler, o, &t, &err);
    if (rc == SONDE_EACCES || rc == SONDE_EOFF) {
        print_message("%s\n", err.text);
        skip();
    }
    if (rc) fail_msg("%d: %s", rc, err.text);
    return t;
}

static struct sonde_profile *end(struct sonde_capture *t)
{
    struct sonde_profile *p = NULL;
    struct sonde_err err = { "" };
    if (sonde_profiler_end(profiler, t, &p, &err)) fail_msg("%s", err.text);
    return p;
}

static double rate_of(struct sonde_capture *t)
{
    struct sonde_capture_status s;
    sonde_profiler_capture_status(profiler, t, &s);
    return s.rate_hz;
}

/* Until it has CPU time. */
static void wait_for_samples(struct sonde_capture *t)
{
    uint64_t weight = 0;
    for (int i = 0; !weight && i < WAIT_ROUNDS; i++) {
        struct sonde_profile *p = NULL;
        struct sonde_err err = { "" };
        usleep(100000);
        if (sonde_profiler_peek(profiler, t, &p, &err)) fail_msg("%s", err.text);
        weight = p->weights[SONDE_SAMPLE_CPU];
        sonde_profile_destroy(p);
    }
    assert_true(weight > 0);
}

static void check_times(const struct sonde_profile *p)
{
    assert_true(p->start_ns < p->end_ns);
    for (uint32_t i = 0; i < p->samples_count; i++) {
        assert_true(p->samples[i].time_ns >= p->start_ns && p->samples[i].time_ns < p->end_ns);
    }
}

static void test_nobody(void **state)
{
    (void)state;
    struct sonde_capture *t = NULL;
    struct sonde_err err = { "" };
    struct sonde_capture_options o = { 0 };
    assert_int_equal(sonde_profiler_begin(profiler, &o, &t, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "no process"));
    o.wait = 1;
    t = begin(&o);
    assert_true(rate_of(t) == 0);
    struct sonde_profile *p = end(t);
    assert_int_equal(p->samples_count, 0);
    check_times(p);
    sonde_profile_destroy(p);
    o = (struct sonde_capture_options){ .no_cpu = 1, .memory = 1 };
    sonde_profile_destroy(end(begin(&o)));
}

static void test_limit(void **state)
{
    (void)state;
    struct sonde_capture *t[SONDE_CAPTURES_MAX], *more = NULL;
    const struct sonde_capture_options o = { .wait = 1 };
    struct sonde_err err = { "" };
    for (size_t i = 0; i < SONDE_CAPTURES_MAX; i++) t[i] = begin(&o);
    assert_int_equal(sonde_profiler_begin(profiler, &o, &more, &err), SONDE_EBUSY);
    assert_non_null(strstr(err.text, "limit"));
    sonde_profiler_end(profiler, t[3], NULL, NULL);
    t[3] = begin(&o);
    for (size_t i = 0; i < SONDE_CAPTURES_MAX; i++) sonde_profiler_end(profiler, t[i], NULL, NULL);
}

/* The highest rate that is asked for, and back. Each has what was in its time. */
static void test_shared(void **state)
{
    (void)state;
    start_child();
    tell_model();
    struct sonde_capture *slow = begin(&(struct sonde_capture_options){ .rate_hz = 50 });
    assert_true(rate_of(slow) == 50);
    wait_for_samples(slow);
    struct sonde_capture *fast = begin(&(struct sonde_capture_options){ .rate_hz = 500 });
    assert_true(rate_of(slow) == 500 && rate_of(fast) == 500);
    wait_for_samples(fast);
    struct sonde_profile *p = end(fast), *q = NULL;
    assert_true(p->weights[SONDE_SAMPLE_CPU] > 0);
    check_times(p);
    assert_true(rate_of(slow) == 50);
    wait_for_samples(slow);
    q = end(slow);
    check_times(q);
    assert_true(q->weights[SONDE_SAMPLE_CPU] > p->weights[SONDE_SAMPLE_CPU]);
    assert_true(q->start_ns < p->start_ns && q->end_ns > p->end_ns);
    /* No more CPU time than there was, but for what a sample stands for. */
    assert_true((double)q->weights[SONDE_SAMPLE_CPU] <= (double)(q->end_ns - q->start_ns) + 1e8);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

/* Sampling is switched off only for what goes on in the background, and is on again at once when
 * somebody wants every sample. */
static void test_switch(void **state)
{
    (void)state;
    struct sonde_sampling s;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_profiler_switch(profiler, 1, &err), SONDE_EBUSY); /* nothing runs */
    start_child();
    tell_model();
    struct sonde_capture *always = begin(&(struct sonde_capture_options){ .rate_hz = 50,
                                                                          .background = 1 });
    wait_for_samples(always);
    assert_int_equal(sonde_profiler_switch(profiler, 1, &err), 0);
    sonde_profiler_sampling(profiler, &s);
    assert_true(s.off && !s.wanted && s.processes == 1 && s.rate_hz == 50);
    const uint64_t changes = s.changes;
    assert_int_equal(sonde_profiler_switch(profiler, 0, &err), 0);
    sonde_profiler_sampling(profiler, &s);
    assert_true(!s.off && s.changes == changes);
    assert_int_equal(sonde_profiler_switch(profiler, 1, &err), 0);
    struct sonde_capture *session = begin(&(struct sonde_capture_options){ .rate_hz = 50 });
    sonde_profiler_sampling(profiler, &s);
    assert_true(!s.off && s.wanted && s.changes > changes);
    assert_int_equal(sonde_profiler_switch(profiler, 1, &err), SONDE_EBUSY);
    wait_for_samples(session);
    sonde_profile_destroy(end(session));
    /* Another rate is another engine: it is on, whatever the old one was. */
    assert_int_equal(sonde_profiler_switch(profiler, 1, &err), 0);
    struct sonde_capture *burst = begin(&(struct sonde_capture_options){ .rate_hz = 500,
                                                                         .background = 1 });
    sonde_profiler_sampling(profiler, &s);
    assert_true(!s.off && s.rate_hz == 500);
    wait_for_samples(burst);
    sonde_profile_destroy(end(burst));
    sonde_profile_destroy(end(always));
}

/* The engine that runs anyway keeps what it has; what captures saw of it stays when it ends. */
static void test_running(void **state)
{
    (void)state;
    struct sonde_cpu *cpu = NULL;
    struct sonde_err err = { "" };
    start_child();
    const struct sonde_cpu_options o = { .pid = (uint32_t)child, .rate_hz = 400, .dir = dir };
    if (sonde_cpu_start(&o, &cpu, &err)) {
        print_message("%s\n", err.text);
        skip();
    }
    sonde_profiler_use(profiler, cpu);
    struct sonde_capture *t = begin(&(struct sonde_capture_options){ 0 });
    struct sonde_capture *u = begin(&(struct sonde_capture_options){ .rate_hz = 400 });
    assert_true(rate_of(t) == 400);
    wait_for_samples(t);
    sonde_profiler_use(profiler, NULL);
    struct sonde_profile *all = NULL;
    assert_int_equal(sonde_cpu_stop(cpu, &all), 0);
    struct sonde_profile *p = end(t), *q = end(u);
    assert_true(p->weights[SONDE_SAMPLE_CPU] > 0 && q->weights[SONDE_SAMPLE_CPU] > 0);
    assert_true(all->weights[SONDE_SAMPLE_CPU] >= p->weights[SONDE_SAMPLE_CPU]);
    check_times(p);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
    sonde_profile_destroy(all);
}

static uint64_t unix_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void test_context(void **state)
{
    (void)state;
    struct sonde_model *m = sonde_collector_model(collector);
    struct sonde_capture *t = begin(&(struct sonde_capture_options){ .wait = 1 });
    const struct sonde_model_span span = { .name = "work", .program = "x", .start_ns = unix_ns(),
                                           .duration_ns = 1000 };
    const struct sonde_infer_request r = {
        .id = 7, .source = SONDE_INFER_API, .program = "x", .model = "m", .route = "",
        .backend = "",
        .error = "", .invalid = "", .arrived_ns = unix_ns(), .total_s = 0.001 };
    sonde_wrlock(&m->lock);
    sonde_model_span(m, &span);
    sonde_profiler_on_done(profiler, &r);
    sonde_rwunlock(&m->lock);
    struct sonde_capture_status s;
    sonde_profiler_capture_status(profiler, t, &s);
    assert_int_equal(s.spans, 1);
    assert_int_equal(s.requests, 1);
    struct sonde_profile *p = end(t);
    assert_int_equal(p->spans_count, 1);
    assert_string_equal(sonde_profile_str(p, p->spans[0].name), "work");
    assert_non_null(p->infer);
    assert_int_equal(p->infer->request_count, 1);
    sonde_profile_destroy(p);
    sonde_wrlock(&m->lock);
    sonde_model_span(m, &span); /* nobody listens any more */
    sonde_profiler_on_done(profiler, &r);
    sonde_rwunlock(&m->lock);
}

static void test_stopped(void **state)
{
    (void)state;
    struct sonde_capture *t = begin(&(struct sonde_capture_options){ .wait = 1 }), *more = NULL;
    struct sonde_err err = { "" };
    sonde_profiler_cancel(profiler);
    assert_int_equal(sonde_profiler_begin(profiler, &(struct sonde_capture_options){ .wait = 1 },
                                          &more, &err), SONDE_EOFF);
    sonde_profile_destroy(end(t)); /* what was begun can be ended */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = { TEST(test_nobody),  TEST(test_limit),  TEST(test_shared),
                                        TEST(test_switch),  TEST(test_running), TEST(test_context),
                                        TEST(test_stopped) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
