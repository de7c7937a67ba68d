/* One agent and the next: whenever the first one ends, both together count what one alone does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/state.h"
#include "unit/infer/infer_play.h"

/* ---- A scenario in steps --------------------------------------------------------------------- */

enum { STEPS = 34 };

static void step(struct play *g, int i)
{
    const struct play_part both[] = { { 1, 40, 0 }, { 2, 7, 0 } }, one[] = { { 1, 0, 1 } };
    switch (i) {
    case 0: play_request(g, 1, 0); break;
    case 1: play_request(g, 2, 3); break;
    case 2: play_phase(g, 1, SONDE_PHASE_QUEUE, 0, 20, 0); break;
    case 3: play_phase(g, 1, SONDE_PHASE_ENCODE, 20, 25, 100); break;
    case 4: play_prompt(g, 1, 25, 100, 60); break;
    case 5: play_prompt(g, 2, 26, 7, 0); break;
    case 6: play_batch(g, 30, 60, both, 2); break;
    case 7: play_tokens(g, 1, 61, 1); break;
    case 8: play_tokens(g, 2, 62, 1); break;
    case 9: play_until(g, 62); break;
    case 10: play_batch(g, 63, 70, one, 1); break;
    case 11: play_tokens(g, 1, 71, 1); break;
    case 12: play_tokens(g, 1, 75, 2); break;
    case 13: play_phase(g, 1, SONDE_PHASE_NAMED, 75, 76, 0); break;
    case 14: play_phase(g, 2, SONDE_PHASE_DECODE, 62, 77, 1); break;
    case 15: play_tokens(g, 2, 77, 1); break;
    case 16: play_end(g, 2, 78, SONDE_ERROR, "context_full"); break;
    case 17: play_until(g, 78); break;
    case 18: /* an attribute, and what models say */
        play_event(g, &(struct sonde_infer_event){
            .type = SONDE_INFER_ATTR, .id = 1, .time_ns = MS(79),
            .attr = { .key = "temperature", .type = SONDE__ATTR_DOUBLE, .value.d = 0.7 } });
        break;
    case 19: {
        play_event(g, &(struct sonde_infer_event){ .type = SONDE_INFER_MEMORY, .model = "tiny",
                                                   .time_ns = MS(80), .memory = { 4096, "kv" } });
        play_event(g, &(struct sonde_infer_event){ .type = SONDE_INFER_BACKEND, .model = "tiny",
                                                   .time_ns = MS(80), .backend.name = "cpu" });
        break;
    }
    case 20:
        play_event(g, &(struct sonde_infer_event){ .type = SONDE_INFER_LOAD, .model = "tiny",
                                                   .begin_ns = MS(1), .time_ns = MS(81),
                                                   .load.bytes = 1 << 20 });
        break;
    case 21: play_tokens(g, 9, 82, 1); break; /* of nobody */
    case 22: play_tokens(g, 1, 90, 1); break;
    case 23: play_tokens(g, 1, 90, 1); break; /* told twice */
    case 24: play_end(g, 1, 100, SONDE_OK, ""); break;
    case 25: play_until(g, 500); break;
    case 26: play_request(g, 3, 600); break;
    case 27: play_tokens(g, 3, 610, 2); break;
    case 28: /* silent, and then it goes on */
        play_event(g, &(struct sonde_infer_event){ .type = SONDE_INFER_END, .id = 3,
                                                   .time_ns = MS(611), .end.silent = 1 });
        break;
    case 29: play_until(g, 900); break;
    case 30: play_tokens(g, 3, 950, 3); break;
    case 31: play_until(g, 1000); break;
    case 32: play_end(g, 3, 1100, SONDE_OK, ""); break;
    default: play_until(g, 2000); break;
    }
}

/* ---- Saving and loading ---------------------------------------------------------------------- */

static void save(const struct play *g, struct sonde_buf *out)
{
    struct sonde_state s = { .to = out };
    sonde_buf_init(out, 1u << 20);
    sonde_model_save(g->m, &s);
    sonde_infer_save(g->tracker, &s);
    assert_int_equal(out->error, 0);
}

static int load(struct play *g, const void *bytes, size_t n, int there)
{
    const struct sonde_model_known known = { 1, there ? g->p : NULL };
    const struct sonde_model_knowns k = { &known, 1 };
    struct sonde_state s = { .from = bytes, .len = n };
    sonde_model_load(g->m, &s, &k);
    if (!s.bad) sonde_infer_load(g->tracker, &s, &k);
    return s.bad || s.at != n;
}

static void hist_same(const struct sonde_hist_value *a, const struct sonde_hist_value *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->zero, b->zero);
    assert_int_equal(a->sum_raw, b->sum_raw);
    for (uint32_t p = 0; p < SONDE__HIST_BUCKETS; p++) {
        assert_int_equal(a->octave[p / 64] ? a->octave[p / 64][p % 64] : 0,
                         b->octave[p / 64] ? b->octave[p / 64][p % 64] : 0);
    }
}

static void series_same(const struct sonde_model_series *a, const struct sonde_model_series *b)
{
    assert_int_equal(a->counter, b->counter);
    /* Rates are of the last tick. */
    if (!strstr(a->family->name, "per_second")) {
        assert_true(!(a->gauge < b->gauge || a->gauge > b->gauge));
    }
    assert_int_equal(!a->hist, !b->hist);
    if (a->hist) hist_same(a->hist, b->hist);
    assert_int_equal(a->family->bound_count, b->family->bound_count);
    for (size_t i = 0; a->le && i < a->family->bound_count; i++) {
        assert_int_equal(a->le[i], b->le[i]);
    }
}

static void models_same(const struct play *a, const struct play *b)
{
    assert_int_equal(a->m->series_count, b->m->series_count);
    for (size_t i = 0; i < a->m->family_count; i++) {
        const struct sonde_model_family *f = a->m->families[i];
        for (size_t k = 0; k < f->series_count; k++) {
            const struct sonde_model_series *s =
                play_series(b, f->name, f->series[k]->label_text);
            assert_non_null(s);
            assert_string_equal(s->label_text, f->series[k]->label_text);
            series_same(f->series[k], s);
        }
    }
}

static void requests_same(const struct play *a, const struct play *b, uint64_t id)
{
    const struct sonde_infer_request *x = play_done(a, id), *y = play_done(b, id);
    if (!y) return; /* it ended before */
    assert_non_null(x);
    assert_true(!(x->total_s < y->total_s || x->total_s > y->total_s));
    assert_true(!(x->ttft_s < y->ttft_s || x->ttft_s > y->ttft_s));
    assert_true(!(x->itl_p95_s < y->itl_p95_s || x->itl_p95_s > y->itl_p95_s));
    assert_int_equal(x->tokens_out, y->tokens_out);
    assert_int_equal(x->item_count, y->item_count);
    assert_int_equal(x->attr_count, y->attr_count);
    for (uint32_t i = 0; i < x->attr_count; i++) {
        assert_string_equal(x->attrs[i].value, y->attrs[i].value);
    }
    for (uint32_t i = 0; i < x->item_count; i++) {
        assert_string_equal(x->items[i].name, y->items[i].name);
    }
}

static void totals_same(const struct play *a, const struct play *b)
{
    struct sonde_infer_totals x, y;
    sonde_infer_totals(a->tracker, (double)T0 + 2, &x);
    sonde_infer_totals(b->tracker, (double)T0 + 2, &y);
    assert_memory_equal(x.requests, y.requests, sizeof(x.requests));
    assert_int_equal(x.tokens_in, y.tokens_in);
    assert_int_equal(x.tokens_reused, y.tokens_reused);
    assert_int_equal(x.tokens_out, y.tokens_out);
    assert_int_equal(x.memory_bytes, y.memory_bytes);
    assert_int_equal(x.memory_peak, y.memory_peak);
    assert_true(!(x.since_s < y.since_s || x.since_s > y.since_s));
    assert_int_equal(sonde_infer_invalid(a->tracker, SONDE_INFER_BAD_duplicate),
                     sonde_infer_invalid(b->tracker, SONDE_INFER_BAD_duplicate));
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void cut_anywhere(void **state)
{
    (void)state;
    const struct sonde_infer_options o = { .slo_total_s = 0.09, .aliases = 1 };
    struct play whole;
    play_init(&whole, &o);
    for (int i = 0; i < STEPS; i++) step(&whole, i);
    assert_non_null(play_series(&whole, "sonde_infer_errors_total", "context_full"));
    for (int cut = 0; cut <= STEPS; cut++) {
        struct play first, second;
        struct sonde_buf b;
        play_init(&first, &o);
        play_init(&second, &o);
        for (int i = 0; i < cut; i++) step(&first, i);
        save(&first, &b);
        assert_int_equal(load(&second, b.data, b.len, 1), 0);
        for (int i = cut; i < STEPS; i++) step(&second, i);
        models_same(&whole, &second);
        totals_same(&whole, &second);
        requests_same(&whole, &second, 1);
        requests_same(&whole, &second, 2);
        sonde_buf_release(&b);
        play_release(&first);
        play_release(&second);
    }
    play_release(&whole);
}

/* What was counted before is not an increase of the first tick. */
static void no_leap(void **state)
{
    (void)state;
    struct play first, second;
    struct sonde_buf b;
    play_init(&first, NULL);
    play_init(&second, NULL);
    for (int i = 0; i < 26; i++) step(&first, i);
    save(&first, &b);
    assert_int_equal(load(&second, b.data, b.len, 1), 0);
    play_until(&second, 1000);
    const struct sonde_model_series *s =
        play_series(&second, "sonde_infer_requests_total", "\"ok\"");
    assert_non_null(s);
    assert_int_equal(s->counter, 1);
    assert_int_equal(s->history_count, 1);
    assert_true(s->history[0] < 0.5);
    s = play_series(&second, "sonde_infer_inter_token_seconds", "tiny");
    assert_non_null(s);
    assert_int_equal(s->hist->count, 5);
    assert_int_equal(s->history_hist[0].count, 0);
    sonde_buf_release(&b);
    play_release(&first);
    play_release(&second);
}

/* Of a process that is not there any more nothing is left but the totals. */
static void process_gone(void **state)
{
    (void)state;
    struct play first, second;
    struct sonde_buf b;
    play_init(&first, NULL);
    play_init(&second, NULL);
    for (int i = 0; i < 17; i++) step(&first, i);
    save(&first, &b);
    assert_int_equal(load(&second, b.data, b.len, 0), 0);
    play_until(&second, 1000);
    assert_null(play_series(&second, "sonde_infer_tokens_total", ""));
    assert_int_equal(sonde_infer_group_count(second.tracker), 0);
    assert_int_equal(sonde_infer_running(second.tracker, 0, NULL, 0), 0);
    sonde_buf_release(&b);
    play_release(&first);
    play_release(&second);
}

static void front_event(struct play *g, uint32_t type, uint64_t id, double ms, uint32_t outcome)
{
    struct sonde_infer_event e = { .type = (uint16_t)type, .source = SONDE_INFER_FRONT, .id = id,
                                   .time_ns = MS(ms), .model = "tiny" };
    if (type == SONDE_INFER_END) e.end.outcome = outcome;
    play_event(g, &e);
}

/* The front ends with its agent: what it broke off then has ended so; of what it did not see end
 * nothing is heard any more. */
static void front_ended(void **state)
{
    (void)state;
    struct play first, next;
    struct sonde_buf b;
    play_init(&first, NULL);
    front_event(&first, SONDE_INFER_REQUEST, 1, 10, 0);
    front_event(&first, SONDE_INFER_REQUEST, 2, 20, 0);
    play_until(&first, 500);
    front_event(&first, SONDE_INFER_END, 1, 1600, SONDE_CANCELLED); /* waits when it is saved */
    save(&first, &b);
    play_init(&next, NULL);
    assert_int_equal(load(&next, b.data, b.len, 1), 0);
    play_until(&next, 3000);
    const struct sonde_infer_request *broken = play_done(&next, 1), *lost = play_done(&next, 2);
    assert_non_null(broken);
    assert_non_null(lost);
    assert_int_equal(broken->outcome, SONDE_CANCELLED);
    assert_int_equal(lost->outcome, SONDE_INFER_LOST);
    assert_string_equal(lost->error, "agent_ended");
    assert_int_equal(sonde_infer_invalid(next.tracker, SONDE_INFER_BAD_after_end), 0);
    sonde_buf_release(&b);
    play_release(&first);
    play_release(&next);
}

/* Bytes that are wrong are bad or other values, never a crash; for the sanitizers. */
static void damaged(void **state)
{
    (void)state;
    struct play first;
    struct sonde_buf b;
    play_init(&first, NULL);
    for (int i = 0; i < 24; i++) step(&first, i);
    save(&first, &b);
    srand(7);
    for (int i = 0; i < 400; i++) {
        struct play g;
        unsigned char *copy = malloc(b.len);
        assert_non_null(copy);
        memcpy(copy, b.data, b.len);
        size_t n = b.len;
        if (i % 4 == 0) n = (size_t)rand() % b.len;
        for (int k = i % 4; k > 0; k--) copy[(size_t)rand() % b.len] = (unsigned char)rand();
        play_init(&g, NULL);
        if (load(&g, copy, n, 1) == 0) assert_int_not_equal(i % 4, 0);
        for (int k = 24; k < STEPS; k++) step(&g, k);
        play_release(&g);
        free(copy);
    }
    sonde_buf_release(&b);
    play_release(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(no_leap),
        cmocka_unit_test(process_gone),
        cmocka_unit_test(front_ended),
        cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
