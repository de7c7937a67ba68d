/* What tells the slow from the rest: what was planted is found, noise and waves of load are not,
 * and nothing is said of few. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyze/path/slow.h"
#include "base/alloc.h"
#include "sonde/sonde.h"
#include "unit/analyze/path/path_build.h"
#include "unit/analyze/random.h"

/* count requests one after the other: prefill of prefill_ms, in which a lock takes lock_ms. */
struct plan { double prefill_ms, lock_ms; uint64_t tokens; const char *route; };

static void put_request(struct sonde_profile *p, uint32_t id, double *at, const struct plan *plan)
{
    const uint32_t t = build_thread(p, 5, 6);
    const double end = *at + plan->prefill_ms + plan->lock_ms;
    build_span(p, t, "prefill", 1000000 + id, id, *at, end);
    if (plan->lock_ms > 0) {
        build_off(p, t, *at + plan->prefill_ms / 2, *at + plan->prefill_ms / 2 + plan->lock_ms,
                  "main;contended;@pthread_mutex_lock");
    }
    build_sample(p, t, SONDE_SAMPLE_CPU, *at + plan->prefill_ms / 4,
                 *at + plan->prefill_ms / 4 + 1, id % 2 ? "main;even" : "main;odd");
    struct sonde_infer_request r = build_request(5, id, *at, end);
    r.tokens_in = plan->tokens;
    r.route = plan->route;
    build_add(p, r);
    *at = end + 1;
}

static const struct sonde_slow_row *find(const struct sonde_slow *s, const char *name)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (!strcmp(s->rows[i].name, name)) return &s->rows[i];
    }
    return NULL;
}

static void look(const struct sonde_profile *p, const struct sonde_path_query *q,
                 struct sonde_path_set *set, struct sonde_slow *slow)
{
    struct sonde_path_index *x;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_path_index_create(p, &x), 0);
    if (sonde_path_set_create(x, q, set, &err) != 0) fail_msg("%s", err.text);
    assert_int_equal(sonde_path_slow(x, set, slow), 0);
    sonde_path_index_destroy(x);
}

static void test_planted(void **state)
{
    (void)state;
    struct sonde_profile *p = build_profile();
    double at = 0;
    random_state = 3;
    for (uint32_t i = 1; i <= 400; i++) {
        const int bad = random_uniform() < 0.1;
        const struct plan plan = { 20 + 2 * random_normal(), bad ? 15 : 1, 100 + i % 7,
                                   bad ? "/slow" : i % 2 ? "/a" : "/b" };
        put_request(p, i, &at, &plan);
    }
    struct sonde_path_set set;
    struct sonde_slow slow;
    look(p, &(struct sonde_path_query){ .slowest_share = 0.05 }, &set, &slow);
    assert_int_equal(set.all, 400);
    assert_int_equal(set.slow_count, 20);
    assert_null(slow.why_none);
    const struct sonde_slow_row *lock = find(&slow, "lock"), *where = find(&slow, "contended"),
                                *route = find(&slow, "route=/slow");
    assert_non_null(lock);
    assert_non_null(where);
    assert_non_null(route);
    assert_true(slow.rows[0].type == SONDE_SLOW_PART && !strcmp(slow.rows[0].name, "lock"));
    assert_true(lock->likelihood > 0.9 && lock->p < 0.001);
    assert_true(lock->slow > 0.0149 && lock->slow < 0.0151 && lock->gap_share > 0.6);
    assert_true(lock->low <= lock->change && lock->change <= lock->high);
    assert_int_equal(where->type, SONDE_SLOW_WAIT);
    assert_int_equal(where->kind, SONDE_PATH_LOCK);
    assert_int_equal(where->line, 12);
    assert_null(find(&slow, "prompt_tokens"));
    assert_true(set.slow.ns[SONDE_PATH_LOCK] == 20 * 15 * MS);
    sonde_slow_release(&slow);
    sonde_path_set_release(&set);
    sonde_profile_destroy(p);
}

/* Figures that have nothing to do with the latency; with waves, in which all figures of requests
 * that are near each other are alike. wave 0 = none. */
static int false_finds(uint64_t seed, double wave)
{
    struct sonde_profile *p = build_profile();
    double at = 0, slow_wave = 0, token_wave = 0;
    random_state = seed * 7919;
    for (uint32_t i = 1; i <= 300; i++) {
        slow_wave = wave * slow_wave + random_normal();
        token_wave = wave * token_wave + random_normal();
        const struct plan plan = { 50 + 3 * slow_wave, 0,
                                   (uint64_t)(1000 + 50 * token_wave),
                                   token_wave > 0 ? "/a" : "/b" };
        put_request(p, i, &at, &plan);
    }
    struct sonde_path_set set;
    struct sonde_slow slow;
    look(p, &(struct sonde_path_query){ .slowest_share = 0.05 }, &set, &slow);
    const int found = find(&slow, "prompt_tokens") || find(&slow, "route=/a") ||
                      find(&slow, "route=/b") || find(&slow, "even") || find(&slow, "odd");
    sonde_slow_release(&slow);
    sonde_path_set_release(&set);
    sonde_profile_destroy(p);
    return found;
}

static void test_noise(void **state)
{
    (void)state;
    int plain = 0, waves = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) plain += false_finds(seed, 0);
    for (uint64_t seed = 1; seed <= 100; seed++) waves += false_finds(seed, 0.95);
    print_message("false finds in 100: %d of noise, %d of waves\n", plain, waves);
    assert_true(plain <= 10);
    assert_true(waves <= 15);
}

static void test_few(void **state)
{
    (void)state;
    struct sonde_profile *p = build_profile();
    double at = 0;
    for (uint32_t i = 1; i <= 12; i++) {
        put_request(p, i, &at, &(struct plan){ 10 + i, i, 5, "/a" });
    }
    struct sonde_path_set set;
    struct sonde_slow slow;
    look(p, &(struct sonde_path_query){ .slowest = 3 }, &set, &slow);
    assert_int_equal(set.slow_count, 3);
    assert_non_null(slow.why_none);
    assert_int_equal(slow.count, 0);
    sonde_slow_release(&slow);
    sonde_path_set_release(&set);

    /* Spans by name, and none of such a name. */
    look(p, &(struct sonde_path_query){ .span = "pre*", .slowest_share = 0.5 }, &set, &slow);
    assert_int_equal(set.all, 12);
    assert_int_equal(set.slow_count, 6);
    sonde_slow_release(&slow);
    sonde_path_set_release(&set);
    struct sonde_path_index *x;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_path_index_create(p, &x), 0);
    assert_int_equal(sonde_path_set_create(x, &(struct sonde_path_query){ .span = "no" }, &set,
                                           &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "'no'"));
    sonde_path_index_destroy(x);
    sonde_profile_destroy(p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planted),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
