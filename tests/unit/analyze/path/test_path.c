/* The critical path of requests, spans and traces whose parts are known; and of spans that make no
 * sense: whatever there is, the parts add up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyze/path/path.h"
#include "base/alloc.h"
#include "sonde/sonde.h"
#include "unit/analyze/path/path_build.h"
#include "unit/analyze/random.h"

struct want { enum sonde_path_kind kind; double ms; };

static void check_sum(const struct sonde_path *path)
{
    uint64_t sum = 0, at = path->from_ns;
    for (int k = 0; k < SONDE_PATH_KIND_COUNT; k++) sum += path->ns[k];
    assert_true(sum == path->to_ns - path->from_ns);
    for (uint32_t i = 0; i < path->piece_count; i++) {
        assert_true(path->pieces[i].from_ns == at);
        assert_true(path->pieces[i].to_ns > at);
        at = path->pieces[i].to_ns;
    }
    if (!path->pieces_left_out) assert_true(at == path->to_ns);
}

static void check_parts(const char *what, const struct sonde_path *path, const struct want *want,
                        size_t count)
{
    check_sum(path);
    double ms[SONDE_PATH_KIND_COUNT] = { 0 };
    for (size_t i = 0; i < count; i++) ms[want[i].kind] = want[i].ms;
    for (int k = 0; k < SONDE_PATH_KIND_COUNT; k++) {
        const double got = (double)path->ns[k] / 1e6;
        if (got - ms[k] < 1e-5 && ms[k] - got < 1e-5) continue;
        fail_msg("%s: %s is %.6f ms, not %.6f", what,
                 sonde_path_kind_name((enum sonde_path_kind)k), got, ms[k]);
    }
}

#define CHECK_PARTS(what, path, ...)                                                           \
    check_parts(what, path, (const struct want[]){ __VA_ARGS__ },                              \
                sizeof((const struct want[]){ __VA_ARGS__ }) / sizeof(struct want))

static struct sonde_path path_of_request(const struct sonde_profile *p, uint32_t request)
{
    struct sonde_path_index *x;
    struct sonde_path path;
    assert_int_equal(sonde_path_index_create(p, &x), 0);
    assert_int_equal(sonde_path_of_request(x, request, &path), 0);
    sonde_path_index_destroy(x);
    return path;
}

static struct sonde_path path_of_span(const struct sonde_profile *p, uint32_t span)
{
    struct sonde_path_index *x;
    struct sonde_path path;
    assert_int_equal(sonde_path_index_create(p, &x), 0);
    assert_int_equal(sonde_path_of_span(x, span, &path), 0);
    sonde_path_index_destroy(x);
    return path;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* One thread serves 1 and 2: 1 from 0 to 100, 2 from 10 to 90. */
static struct sonde_profile *two_requests(void)
{
    struct sonde_profile *p = build_profile();
    const uint32_t t = build_thread(p, 5, 6), none = build_thread(p, 5, 0);
    build_span(p, none, "request", 1, 0, 0, 100);
    build_span(p, t, "encode", 11, 1, 5, 10);
    build_span(p, t, "prefill", 12, 0, 20, 40);
    build_part(p, 1, 6, 0);
    build_part(p, 2, 2, 0);
    build_span(p, t, "prefill", 13, 0, 50, 60); /* 1 is not in it */
    build_part(p, 2, 8, 0);
    build_span(p, t, "decode", 14, 0, 60, 80);
    build_part(p, 1, 0, 1);
    build_part(p, 2, 0, 3);
    build_span(p, t, "sample", 15, 2, 80, 85);
    build_span(p, t, "detokenize", 16, 1, 85, 90);
    build_add(p, build_request(5, 1, 0, 100));
    build_add(p, build_request(5, 2, 10, 90));
    return p;
}

static void test_phases_only(void **state)
{
    (void)state;
    struct sonde_profile *p = two_requests();
    struct sonde_path path = path_of_request(p, 0);
    CHECK_PARTS("1", &path, { SONDE_PATH_QUEUE, 5 }, { SONDE_PATH_ENCODE, 5 },
                { SONDE_PATH_PREFILL, 15 }, { SONDE_PATH_DECODE, 5 },
                { SONDE_PATH_DETOKENIZE, 5 }, { SONDE_PATH_BATCH_MATES, 5 + 10 + 15 + 5 },
                { SONDE_PATH_UNEXPLAINED, 10 + 10 + 10 });
    assert_true(path.no_off_cpu);
    assert_int_equal(path.mates, 1);
    assert_int_equal(path.mate_tokens, 2 + 8 + 3);
    sonde_path_release(&path);
    path = path_of_request(p, 1);
    CHECK_PARTS("2", &path, { SONDE_PATH_QUEUE, 10 }, { SONDE_PATH_PREFILL, 5 + 10 },
                { SONDE_PATH_DECODE, 15 }, { SONDE_PATH_SAMPLE, 5 },
                { SONDE_PATH_BATCH_MATES, 15 + 5 + 5 }, { SONDE_PATH_UNEXPLAINED, 10 });
    sonde_path_release(&path);
    sonde_profile_destroy(p);
}

static const struct sonde_path_detail *detail_of(const struct sonde_path *path,
                                                 enum sonde_path_kind kind)
{
    for (uint32_t i = 0; i < path->detail_count; i++) {
        if (path->details[i].kind == kind) return &path->details[i];
    }
    fail_msg("no detail of %s", sonde_path_kind_name(kind));
    return NULL;
}

static void test_waits(void **state)
{
    (void)state;
    struct sonde_profile *p = two_requests();
    const uint32_t t = build_thread(p, 5, 6);
    build_off(p, t, 6, 8, "main;tokens;@fsync");               /* in encode */
    build_off(p, t, 30, 34, "main;step;@pthread_mutex_lock;@__lll_lock_wait"); /* in a batch */
    build_sample(p, t, SONDE_SAMPLE_RUNNABLE, 36, 37, "main;step");
    build_off(p, t, 42, 48, "main;loop;@epoll_wait");          /* between batches */
    build_off(p, t, 52, 54, "main;step;@clock_nanosleep");     /* in one of others */
    build_off(p, t, 95, 99, "main;step;weights");              /* no call: a page */
    struct sonde_path path = path_of_request(p, 0);
    CHECK_PARTS("1", &path, { SONDE_PATH_QUEUE, 5 }, { SONDE_PATH_ENCODE, 3 },
                { SONDE_PATH_PREFILL, 15 * 0.75 }, { SONDE_PATH_DECODE, 5 },
                { SONDE_PATH_DETOKENIZE, 5 },
                { SONDE_PATH_BATCH_MATES, 15 * 0.25 + 8 + 15 + 5 },
                { SONDE_PATH_OVERHEAD, 10 + 4 + 6 }, { SONDE_PATH_IO, 2 }, { SONDE_PATH_LOCK, 4 },
                { SONDE_PATH_RUNNABLE, 1 }, { SONDE_PATH_NETWORK, 6 }, { SONDE_PATH_SLEEP, 2 },
                { SONDE_PATH_PAGE_FAULT, 4 });
    assert_false(path.no_off_cpu);
    assert_int_equal(path.thread, t);
    assert_int_equal(path.mate_tokens, 2 + 8 + 3); /* however often a batch waits */
    const struct sonde_path_detail *lock = detail_of(&path, SONDE_PATH_LOCK);
    const struct sonde_wait wait = sonde_wait_of(p, (uint32_t)lock->key);
    assert_string_equal(sonde_profile_str(p, p->functions[wait.caller].name), "step");
    assert_string_equal(sonde_profile_str(p, p->functions[wait.call].name), "pthread_mutex_lock");
    assert_int_equal(wait.caller_line, 12);
    sonde_path_release(&path);
    sonde_profile_destroy(p);
}

/* A wait for a slot on a thread of its own is that, whatever it waits in. */
static void test_queue_phase(void **state)
{
    (void)state;
    struct sonde_profile *p = build_profile();
    const uint32_t t = build_thread(p, 5, 6), none = build_thread(p, 5, 0);
    build_span(p, t, "queue", 21, 1, 0, 8);
    build_off(p, t, 1, 8, "main;handle;@pthread_cond_wait");
    build_span(p, t, "prefill", 22, 1, 8, 20);
    build_span(p, none, "queue", 23, 1, 20, 25); /* told, of no thread */
    build_span(p, t, "decode", 24, 1, 25, 30);
    build_add(p, build_request(5, 1, 0, 30));
    struct sonde_path path = path_of_request(p, 0);
    CHECK_PARTS("queue", &path, { SONDE_PATH_QUEUE, 13 }, { SONDE_PATH_PREFILL, 12 },
                { SONDE_PATH_DECODE, 5 });
    sonde_path_release(&path);
    sonde_profile_destroy(p);
}

/* Without spans, by the timeline: its own share of a batch, and the others'. */
static void test_timeline(void **state)
{
    (void)state;
    struct sonde_profile *p = build_profile();
    struct sonde_infer_item items[] = {
        { build_at(2), build_at(12), 10 * MS, 4, "prefill", SONDE_PHASE_PREFILL, 1, 0 },
        { build_at(12), build_at(12), 0, 1, "tokens", SONDE_PHASE_NONE, 1, 0 },
        { build_at(12), build_at(32), 5 * MS, 1, "decode", SONDE_PHASE_DECODE, 3, 4 },
    };
    struct sonde_infer_request r = build_request(5, 1, 0, 35);
    r.items = items;
    r.item_count = 3;
    build_add(p, r);
    struct sonde_path path = path_of_request(p, 0);
    CHECK_PARTS("timeline", &path, { SONDE_PATH_QUEUE, 2 }, { SONDE_PATH_PREFILL, 10 },
                { SONDE_PATH_DECODE, 5 }, { SONDE_PATH_BATCH_MATES, 15 },
                { SONDE_PATH_UNEXPLAINED, 3 });
    sonde_path_release(&path);
    sonde_profile_destroy(p);
}

/* ---- Across threads and processes ------------------------------------------------------------ */

static void test_hand_over(void **state)
{
    (void)state;
    struct sonde_profile *p = build_profile();
    const uint32_t a = build_thread(p, 5, 6), b = build_thread(p, 5, 7), c = build_thread(p, 8, 8);
    const uint32_t handle = build_span(p, a, "handle", 1, 0, 0, 100);
    build_off(p, a, 10, 60, "main;handle;@pthread_cond_wait");
    build_span(p, b, "work", 2, 1, 15, 55);
    build_off(p, b, 20, 30, "main;work;@read");
    build_off(p, a, 70, 95, "main;handle;@recv");
    build_span(p, c, "serve", 3, 1, 72, 90);
    build_off(p, c, 75, 85, "main;serve;@pthread_mutex_lock");
    build_span(p, b, "after", 4, 1, 60, 70); /* nobody waits for it */
    struct sonde_path path = path_of_span(p, handle);
    CHECK_PARTS("handle", &path, { SONDE_PATH_COMPUTE, 10 + 30 + 10 + 8 + 5 },
                { SONDE_PATH_THREAD, 5 + 5 }, { SONDE_PATH_IO, 10 }, { SONDE_PATH_LOCK, 10 },
                { SONDE_PATH_NETWORK, 2 + 5 });
    sonde_path_release(&path);

    /* The trace is the same, from its first begin to its last end. */
    struct sonde_path_index *x;
    assert_int_equal(sonde_path_index_create(p, &x), 0);
    assert_int_equal(sonde_path_of_trace(x, 0, 9, &path), 0);
    assert_int_equal(path.ns[SONDE_PATH_IO], 10 * MS);
    check_sum(&path);
    sonde_path_release(&path);
    assert_int_equal(sonde_path_of_trace(x, 0, 10, &path), SONDE_ENOENT);
    sonde_path_index_destroy(x);
    sonde_profile_destroy(p);
}

/* Without off-CPU samples a child counts whenever it is there. */
static void test_blind(void **state)
{
    (void)state;
    struct sonde_profile *p = build_profile();
    const uint32_t a = build_thread(p, 5, 6), c = build_thread(p, 8, 8);
    const uint32_t call = build_span(p, a, "call", 1, 0, 0, 50);
    build_span(p, c, "serve", 3, 1, 10, 40);
    build_sample(p, a, SONDE_SAMPLE_CPU, 2, 4, "main;call");
    build_sample(p, c, SONDE_SAMPLE_CPU, 20, 32, "main;serve;crunch");
    struct sonde_path path = path_of_span(p, call);
    CHECK_PARTS("call", &path, { SONDE_PATH_COMPUTE, 2 + 12 }, { SONDE_PATH_NETWORK, 8 + 10 },
                { SONDE_PATH_UNEXPLAINED, 18 });
    assert_true(path.no_off_cpu);
    sonde_path_release(&path);
    sonde_profile_destroy(p);
}

/* ---- Anything -------------------------------------------------------------------------------- */

/* Spans that overlap, are their own parents, in circles, of batches that nobody is in. */
static void test_nonsense(void **state)
{
    (void)state;
    static const char *const names[] = { "prefill", "decode", "queue", "x", "request" };
    static const char *const stacks[] = { "main;f;@read", "main;@pthread_cond_wait", "main;g",
                                          "@nanosleep", "main;h;@recv" };
    for (random_state = 1; random_state < 200; random_state++) {
        struct sonde_profile *p = build_profile();
        const uint64_t seed = random_state;
        for (int i = 0; i < 40; i++) {
            const uint32_t t = build_thread(p, 5 + (uint32_t)(random_uniform() * 2),
                                            (uint32_t)(random_uniform() * 4));
            const double from = random_uniform() * 100;
            build_span(p, t, names[(int)(random_uniform() * 5)],
                       (uint64_t)(random_uniform() * 12), (uint64_t)(random_uniform() * 12), from,
                       from + random_uniform() * 60);
            for (int k = (int)(random_uniform() * 5) - 2; k > 0; k--) {
                build_part(p, (uint64_t)(random_uniform() * 8), (uint32_t)(random_uniform() * 3),
                           (uint32_t)(random_uniform() * 3));
            }
        }
        for (int i = 0; i < 30 && seed % 3; i++) {
            const double from = random_uniform() * 150;
            build_sample(p, build_thread(p, 5, 1 + (uint32_t)(random_uniform() * 3)),
                         random_uniform() < 0.3 ? SONDE_SAMPLE_RUNNABLE : SONDE_SAMPLE_OFFCPU, from,
                         from + random_uniform() * 20, stacks[(int)(random_uniform() * 5)]);
            if (random_uniform() < 0.3) p->samples[p->samples_count - 1].count = 7;
        }
        for (uint64_t id = 1; id < 6; id++) {
            const double from = random_uniform() * 50;
            struct sonde_infer_request r = build_request(5 + (uint32_t)(id & 1), id, from,
                                                         from + random_uniform() * 100);
            r.trace_lo = 9;
            r.parent = (uint64_t)(random_uniform() * 8);
            r.source = (uint32_t)(random_uniform() * 3);
            build_add(p, r);
        }
        struct sonde_path_index *x;
        struct sonde_path path;
        assert_int_equal(sonde_path_index_create(p, &x), 0);
        for (uint32_t i = 0; i < p->spans_count; i++) {
            assert_int_equal(sonde_path_of_span(x, i, &path), 0);
            check_sum(&path);
            sonde_path_release(&path);
        }
        for (uint32_t i = 0; i < p->infer->request_count; i++) {
            assert_int_equal(sonde_path_of_request(x, i, &path), 0);
            check_sum(&path);
            sonde_path_release(&path);
        }
        assert_int_equal(sonde_path_of_trace(x, 0, 9, &path), 0);
        check_sum(&path);
        sonde_path_release(&path);
        sonde_path_index_destroy(x);
        sonde_profile_destroy(p);
        random_state = seed;
    }
}

/* ---- Waits ----------------------------------------------------------------------------------- */

static void test_wait_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *stack;
        enum sonde_wait_kind kind;
        const char *caller;
    } rows[] = {
        { "main;work;@__pthread_mutex_lock;@__lll_lock_wait", SONDE_WAIT_LOCK, "work" },
        { "main;work;@pthread_cond_wait@@GLIBC_2.3.2;@__futex_abstimed_wait_common",
          SONDE_WAIT_THREAD, "work" },
        { "main;work;@__GI___pthread_timedjoin_ex;@futex_wait", SONDE_WAIT_THREAD, "work" },
        { "main;work;@syscall;@futex", SONDE_WAIT_THREAD, "work" },
        { "main;load;@malloc;@__lll_lock_wait_private", SONDE_WAIT_LOCK, "load" },
        { "main;load;@__libc_read", SONDE_WAIT_IO, "load" },
        { "main;load;@fread;@_IO_file_xsgetn;@__GI___read", SONDE_WAIT_IO, "load" },
        { "main;loop;@epoll_wait", SONDE_WAIT_NETWORK, "loop" },
        { "main;loop;@__poll", SONDE_WAIT_NETWORK, "loop" },
        { "main;nap;@sleep;@__GI___clock_nanosleep", SONDE_WAIT_SLEEP, "nap" },
        { "main;spawn;@wait4", SONDE_WAIT_PROCESS, "spawn" },
        { "main;weights", SONDE_WAIT_PAGE_FAULT, "weights" },
        { "main;weights;@__memcpy_avx_unaligned_erms", SONDE_WAIT_PAGE_FAULT, "weights" },
        { "main;state_next;@qsort", SONDE_WAIT_OTHER, "state_next" },
        { "main;recv_all;@pthread_mutex_lock", SONDE_WAIT_LOCK, "recv_all" },
        { "main;state_next", SONDE_WAIT_PAGE_FAULT, "state_next" },
        { "main;work;__pthread_mutex_lock;__lll_lock_wait", SONDE_WAIT_LOCK, "work" }, /* static */
        { "[stack not sampled]", SONDE_WAIT_OTHER, "" },
        /* Python: % is its interpreter, plain names are functions of Python. */
        { "%Py_Main;work;%take_gil;@pthread_cond_timedwait;@futex", SONDE_WAIT_GIL, "work" },
        { "%Py_Main;work;%PyEval_RestoreThread;%;@pthread_cond_timedwait", SONDE_WAIT_GIL, "work" },
        { "%Py_Main;work;%PyEval_RestoreThread;%;@pthread_mutex_lock;@futex", SONDE_WAIT_GIL,
          "work" },
        { "%Py_Main;%_PyEval_EvalFrameDefault;%;@pthread_cond_clockwait", SONDE_WAIT_GIL,
          "_PyEval_EvalFrameDefault" },
        { "%Py_Main;work;%PyThread_acquire_lock_timed;@sem_clockwait", SONDE_WAIT_LOCK, "work" },
        { "%Py_Main;work;%time_sleep;@clock_nanosleep", SONDE_WAIT_SLEEP, "work" },
        { "%Py_Main;work;%PyObject_Call;library;@pthread_cond_wait", SONDE_WAIT_THREAD, "library" },
    };
    struct sonde_profile *p = build_profile();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct sonde_wait w = sonde_wait_of(p, build_stack(p, rows[i].stack));
        if (w.kind != rows[i].kind) {
            fail_msg("%s: %s", rows[i].stack, sonde_wait_kind_name(w.kind));
        }
        assert_string_equal(sonde_profile_str(p, p->functions[w.caller].name), rows[i].caller);
    }
    assert_int_equal(sonde_wait_of(p, 0).kind, SONDE_WAIT_OTHER);
    sonde_profile_destroy(p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phases_only),  cmocka_unit_test(test_waits),
        cmocka_unit_test(test_queue_phase),  cmocka_unit_test(test_timeline),
        cmocka_unit_test(test_hand_over),    cmocka_unit_test(test_blind),
        cmocka_unit_test(test_nonsense),     cmocka_unit_test(test_wait_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
