/* Memory limits: a KV cache that shrinks and says so, requests that make room for each other,
 * limits that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/engine/small_model.h"

enum { PROMPT = 60, TOKENS = 100 };

static int make(uint64_t limit, uint32_t slots, struct engine **e, struct fail *why)
{
    return engine_create(&(struct engine_options){ .model_path = small_model(),
                                                   .threads = 1,
                                                   .slots = slots,
                                                   .batch_tokens = 64,
                                                   .memory_limit = limit,
                                                   .deterministic = 1 },
                         e, why);
}

/* The smallest limit that is accepted, to 4 KB. */
static uint64_t limit_smallest(uint32_t slots)
{
    uint64_t low = 1, high = 64 << 20;
    while (high - low > 4096) {
        const uint64_t middle = (low + high) / 2;
        struct engine *e = NULL;
        struct fail why;
        if (make(middle, slots, &e, &why)) low = middle;
        else high = middle;
        engine_destroy(e);
    }
    return high;
}

static void run_all(struct engine *e, struct waiter *w, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int32_t prompt[SMALL_CONTEXT];
        struct fail why;
        waiter_init(&w[i]);
        const struct engine_request r =
            small_request(&w[i], prompt, small_prompt(i * 4, PROMPT, prompt), TOKENS);
        assert_int_equal(engine_submit(e, &r, &w[i].id, &why), 0);
    }
    for (uint32_t i = 0; i < count; i++) waiter_wait(&w[i]);
}

/* With room for one long request at a time, four of them push each other out, and all are answered
 * as if each were alone. */
static void test_shrunk(void **state)
{
    static struct waiter roomy[4], tight[4];
    struct engine *e = NULL;
    struct fail why = { "" };
    (void)state;
    assert_int_equal(make(0, 4, &e, &why), 0);
    assert_string_equal(engine_notice(e), "");
    assert_int_equal(engine_context(e), SMALL_CONTEXT);
    run_all(e, roomy, 4);
    engine_destroy(e);

    e = NULL;
    const uint64_t limit = limit_smallest(4);
    if (make(limit, 4, &e, &why)) fail_msg("%s", why.text);
    assert_non_null(strstr(engine_notice(e), "memory limit"));
    assert_non_null(strstr(engine_notice(e), "256 positions"));
    assert_int_equal(engine_context(e), 256);
    run_all(e, tight, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tight[i].finish, ENGINE_LENGTH);
        assert_int_equal(tight[i].count, TOKENS);
        assert_memory_equal(tight[i].tokens, roomy[i].tokens, TOKENS * sizeof(int32_t));
    }
    engine_destroy(e);
}

static void test_refused(void **state)
{
    struct engine *e = NULL;
    struct fail why = { "" };
    (void)state;
    assert_int_equal(make(1000, 4, &e, &why), -1);
    assert_non_null(strstr(why.text, "weights"));
    assert_int_equal(make(limit_smallest(4) - 65536, 4, &e, &why), -1);
    assert_non_null(strstr(why.text, "too small"));
    assert_null(e);
}

static void test_bad_options(void **state)
{
    static const struct { struct engine_options o; const char *says; } cases[] = {
        { { .model_path = NULL }, "no model" },
        { { .model_path = "/no/such.gguf" }, "/no/such.gguf" },
        { { .model_path = "/dev/null" }, "" },
        { { .model_path = "x", .threads = 1000 }, "threads" },
        { { .model_path = "x", .slots = 1000 }, "slots" },
        { { .model_path = "x", .context = 3 }, "context" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct engine *e = NULL;
        struct fail why = { "" };
        assert_int_equal(engine_create(&cases[i].o, &e, &why), -1);
        assert_true(why.text[0]);
        if (!strstr(why.text, cases[i].says)) fail_msg("no '%s' in: %s", cases[i].says, why.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_shrunk),
                                        cmocka_unit_test(test_refused),
                                        cmocka_unit_test(test_bad_options) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
