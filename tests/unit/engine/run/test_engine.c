/* The scheduler on a small model: what is answered does not depend on threads, batches, chunks,
 * cached prefixes or what else runs; requests can be cancelled at any time; queues and drains. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/engine/small_model.h"

enum { REQUESTS = 8, TOKENS = 12, PROMPT = 40 };

static struct engine *engine_make(const struct engine_options *o)
{
    struct engine_options all = *o;
    struct engine *e = NULL;
    struct fail why = { "" };
    all.model_path = small_model();
    if (engine_create(&all, &e, &why)) fail_msg("%s", why.text);
    return e;
}

static void submit(struct engine *e, struct waiter *w, uint32_t i, uint32_t tokens_max)
{
    int32_t prompt[SMALL_CONTEXT];
    struct fail why;
    const uint32_t count = small_prompt(i, PROMPT + i * 3, prompt);
    const struct engine_request r = small_request(w, prompt, count, tokens_max);
    assert_int_equal(engine_submit(e, &r, &w->id, &why), ENGINE_REFUSED_NOT);
}

static struct waiter expected[REQUESTS];

static void check_same(const struct waiter *w, const struct waiter *as, const char *what)
{
    assert_int_equal(w->ends, 1);
    assert_int_equal(w->finish, ENGINE_LENGTH);
    if (w->count != as->count ||
        memcmp(w->tokens, as->tokens, w->count * sizeof(w->tokens[0])) != 0) {
        fail_msg("%s: other tokens", what);
    }
    assert_int_equal(w->timings.predicted_n, TOKENS);
    assert_int_equal(w->timings.prompt_n + w->timings.cache_n,
                     as->timings.prompt_n + as->timings.cache_n);
}

/* One thread, one slot, one after the other, each prompt as a whole. */
static int expect(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct engine *e =
            engine_make(&(struct engine_options){ .threads = 1, .slots = 1, .deterministic = 1 });
        waiter_init(&expected[i]);
        submit(e, &expected[i], i, TOKENS);
        waiter_wait(&expected[i]);
        engine_destroy(e);
        assert_int_equal(expected[i].count, TOKENS);
        assert_int_equal(expected[i].timings.cache_n, 0);
    }
    return 0;
}

static void test_same_tokens(void **state)
{
    static const struct engine_options ways[] = {
        { .threads = 1, .slots = 4, .deterministic = 1 },
        { .threads = 2, .slots = 4, .deterministic = 1 },
        { .threads = 2, .slots = 8, .batch_tokens = 9, .deterministic = 1 },
        { .threads = 3, .slots = 3, .batch_tokens = 16, .deterministic = 1 },
        { .threads = 1, .slots = 1, .batch_tokens = 5, .deterministic = 1 },
    };
    (void)state;
    for (int run = 0; run < 10; run++) {
        const struct engine_options *o = &ways[run % 5];
        struct engine *e = engine_make(o);
        struct waiter w[REQUESTS];
        struct engine_counts n;
        for (uint32_t i = 0; i < REQUESTS; i++) waiter_init(&w[i]);
        for (uint32_t i = 0; i < REQUESTS; i++) submit(e, &w[(i + (uint32_t)run) % REQUESTS],
                                                       (i + (uint32_t)run) % REQUESTS, TOKENS);
        for (uint32_t i = 0; i < REQUESTS; i++) waiter_wait(&w[i]);
        for (uint32_t i = 0; i < REQUESTS; i++) check_same(&w[i], &expected[i], "batched");
        engine_counts(e, &n);
        assert_int_equal(n.done, REQUESTS);
        assert_int_equal(n.tokens_out, REQUESTS * TOKENS);
        engine_destroy(e);
    }
}

static void test_prefix_reused(void **state)
{
    struct engine *e =
        engine_make(&(struct engine_options){ .threads = 1, .slots = 2, .deterministic = 1 });
    (void)state;
    for (int round = 0; round < 3; round++) {
        struct waiter w;
        waiter_init(&w);
        submit(e, &w, 0, TOKENS);
        waiter_wait(&w);
        check_same(&w, &expected[0], "again");
        assert_int_equal(w.timings.cache_n, round ? PROMPT - 1 : 0);
    }
    engine_destroy(e);
}

static void test_seeds(void **state)
{
    static const struct engine_options o = { .threads = 1, .seed_set = 1, .seed = 5 };
    struct waiter w[2][3];
    (void)state;
    /* With a seed, and not deterministic: two requests differ, two runs do not. */
    for (int run = 0; run < 2; run++) {
        struct engine *e = engine_make(&o);
        for (int i = 0; i < 3; i++) {
            waiter_init(&w[run][i]);
            submit(e, &w[run][i], 0, TOKENS);
            waiter_wait(&w[run][i]);
        }
        engine_destroy(e);
    }
    for (int i = 0; i < 3; i++) assert_memory_equal(w[0][i].tokens, w[1][i].tokens, TOKENS * 4);
    assert_memory_not_equal(w[0][0].tokens, w[0][1].tokens, TOKENS * 4);
}

static void test_caller_has_enough(void **state)
{
    struct engine *e = engine_make(&(struct engine_options){ .threads = 1 });
    struct waiter w;
    (void)state;
    waiter_init(&w);
    w.enough = 3;
    submit(e, &w, 1, 50);
    waiter_wait(&w);
    assert_int_equal(w.finish, ENGINE_STOP);
    assert_int_equal(w.count, 3);
    engine_destroy(e);
}

static void test_profile(void **state)
{
    struct engine *e = engine_make(&(struct engine_options){ .threads = 1, .operations = 1 });
    struct waiter w;
    int32_t prompt[SMALL_CONTEXT];
    struct fail why;
    (void)state;
    waiter_init(&w);
    struct engine_request r = small_request(&w, prompt, small_prompt(2, 30, prompt), 5);
    r.profile = 1;
    assert_int_equal(engine_submit(e, &r, &w.id, &why), 0);
    waiter_wait(&w);
    assert_non_null(w.timings.profile); /* borrowed: only that it was there */
    engine_destroy(e);
}

static void test_refusals(void **state)
{
    struct engine *e =
        engine_make(&(struct engine_options){ .threads = 1, .slots = 1, .queue_max = 2 });
    struct waiter w[4];
    int32_t prompt[SMALL_CONTEXT + 1];
    uint64_t id;
    struct fail why = { "" };
    (void)state;
    for (int i = 0; i < 4; i++) waiter_init(&w[i]);
    struct engine_request r =
        small_request(&w[3], prompt, small_prompt(1, SMALL_CONTEXT, prompt), 5);
    assert_int_equal(engine_submit(e, &r, &id, &why), ENGINE_REFUSED_TOO_LONG);
    assert_non_null(strstr(why.text, "512"));
    r.prompt_count = 0;
    assert_int_equal(engine_submit(e, &r, &id, &why), ENGINE_REFUSED_TOO_LONG);
    r.prompt_count = 4;
    prompt[2] = -3;
    assert_int_equal(engine_submit(e, &r, &id, &why), ENGINE_REFUSED_TOO_LONG);
    prompt[2] = 1 << 20;
    assert_int_equal(engine_submit(e, &r, &id, &why), ENGINE_REFUSED_TOO_LONG);
    prompt[2] = 3;

    w[0].hold = 1;
    submit(e, &w[0], 0, 400);
    waiter_wait_tokens(&w[0], 1);
    submit(e, &w[1], 1, 5);
    submit(e, &w[2], 2, 5);
    assert_int_equal(engine_submit(e, &r, &id, &why), ENGINE_REFUSED_FULL);
    assert_non_null(strstr(why.text, "2 requests"));
    engine_cancel(e, w[0].id);
    engine_cancel(e, 123456);
    waiter_go_on(&w[0]);
    for (int i = 0; i < 3; i++) waiter_wait(&w[i]);
    assert_int_equal(w[0].finish, ENGINE_CANCELLED);
    assert_int_equal(w[2].finish, ENGINE_LENGTH);
    assert_int_equal(w[3].ends, 0);
    engine_destroy(e);
}

/* ---- Storms --------------------------------------------------------------------------------- */

struct storm { struct engine *engine; uint32_t seed; struct waiter w[24]; };

static void *storm_thread(void *arg)
{
    struct storm *s = arg;
    for (uint32_t i = 0; i < 24; i++) {
        struct waiter *w = &s->w[i];
        waiter_init(w);
        const uint32_t what = (i * 7 + s->seed) % 6;
        submit(s->engine, w, (i + s->seed) % REQUESTS, TOKENS);
        if (what == 0) engine_cancel(s->engine, w->id);
        if (what == 1) waiter_wait_tokens(w, 1);
        if (what == 2) waiter_wait_tokens(w, 5);
        if (what <= 2) engine_cancel(s->engine, w->id);
        if (what == 3) waiter_wait(w);
    }
    return NULL;
}

static void test_cancel_storm(void **state)
{
    struct engine *e =
        engine_make(&(struct engine_options){ .threads = 2, .slots = 4, .deterministic = 1 });
    static struct storm storms[4];
    pthread_t threads[4];
    struct engine_counts n;
    uint64_t cancelled = 0;
    (void)state;
    for (uint32_t t = 0; t < 4; t++) {
        storms[t].engine = e;
        storms[t].seed = t * 3;
        assert_int_equal(pthread_create(&threads[t], NULL, storm_thread, &storms[t]), 0);
    }
    for (int t = 0; t < 4; t++) pthread_join(threads[t], NULL);
    for (uint32_t t = 0; t < 4; t++) {
        for (uint32_t i = 0; i < 24; i++) {
            struct waiter *w = &storms[t].w[i];
            waiter_wait(w);
            assert_int_equal(w->ends, 1);
            cancelled += w->finish == ENGINE_CANCELLED;
            if (w->finish == ENGINE_LENGTH) {
                check_same(w, &expected[(i + storms[t].seed) % REQUESTS], "beside cancelled ones");
            }
        }
    }
    engine_drain(e, 60);
    engine_counts(e, &n);
    assert_int_equal(n.running + n.waiting, 0);
    assert_int_equal(n.cancelled, cancelled);
    assert_int_equal(n.cancelled + n.done, 4 * 24);
    engine_destroy(e);
}

static void test_drain(void **state)
{
    struct engine *e =
        engine_make(&(struct engine_options){ .threads = 1, .slots = 2, .deterministic = 1 });
    struct waiter w[6];
    uint64_t id;
    int32_t prompt[8];
    struct fail why;
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        waiter_init(&w[i]);
        submit(e, &w[i], i, TOKENS);
    }
    engine_drain(e, 600);
    for (uint32_t i = 0; i < 6; i++) check_same(&w[i], &expected[i], "drained");
    const struct engine_request r = small_request(&w[0], prompt, small_prompt(0, 8, prompt), 1);
    assert_int_equal(engine_submit(e, &r, &id, &why), ENGINE_REFUSED_STOPPING);
    engine_destroy(e);

    /* No time: what runs and what waits is cancelled. */
    e = engine_make(&(struct engine_options){ .threads = 1, .slots = 1 });
    for (uint32_t i = 0; i < 3; i++) {
        waiter_init(&w[i]);
        submit(e, &w[i], i, 400);
    }
    waiter_wait_tokens(&w[0], 1);
    engine_drain(e, 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(w[i].ends, 1); /* and on a busy machine one may have come to its end */
        assert_true(w[i].finish == ENGINE_CANCELLED || w[i].count == 400);
    }
    engine_destroy(e);

    /* Destroyed without a drain. */
    e = engine_make(&(struct engine_options){ .threads = 2, .slots = 2 });
    for (uint32_t i = 0; i < 4; i++) {
        waiter_init(&w[i]);
        submit(e, &w[i], i, 400);
    }
    engine_destroy(e);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(w[i].ends, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_tokens), cmocka_unit_test(test_prefix_reused),
        cmocka_unit_test(test_seeds), cmocka_unit_test(test_caller_has_enough),
        cmocka_unit_test(test_profile), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_cancel_storm), cmocka_unit_test(test_drain),
    };
    return cmocka_run_group_tests(tests, expect, NULL);
}
