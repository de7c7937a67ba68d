/* Slots and pages: against a model of plain arrays, at random, under pressure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "model/kv.h"

enum { SLOTS = 5, CONTEXT = 300, LAYERS = 2, HEADS = 3, HEAD_DIM = 8, PAGES = 8,
       STEPS = 20000 };

static const struct model shape = { .layers = LAYERS, .heads = HEADS, .heads_kv = HEADS,
                                    .head_dim = HEAD_DIM, .context = CONTEXT };

static struct kv *kv_of(uint32_t slots, uint64_t pages, struct buddy **pool)
{
    struct fail why;
    struct kv *kv;
    assert_int_equal(buddy_create("kv", kv_pool_bytes_of(&shape, pages), KV_POOL_UNIT, pool, &why),
                     0);
    assert_int_equal(kv_create(&shape, slots, CONTEXT, *pool, &kv, &why), 0);
    return kv;
}

static void tokens_fill(int32_t *tokens, uint32_t count, int32_t first)
{
    for (uint32_t i = 0; i < count; i++) tokens[i] = first + (int32_t)i;
}

static void test_reuse(void **state)
{
    (void)state;
    struct buddy *pool;
    struct kv *kv = kv_of(2, 10, &pool);
    int32_t a[100], b[100];
    uint32_t reused = 99;
    uint64_t used, total;
    tokens_fill(a, 100, 1);
    tokens_fill(b, 100, 1);
    tokens_fill(b + 70, 30, 1000);

    const int32_t first = kv_slot_take(kv, a, 100, &reused);
    assert_int_equal(reused, 0);
    assert_int_equal(kv_slot_reserve(kv, (uint32_t)first, 100), 0);
    kv_slot_append(kv, (uint32_t)first, a, 100);
    kv_cells(kv, &used, &total);
    assert_int_equal(used, 100);
    assert_int_equal(total, 600);

    /* While it is busy nobody else has what it holds. */
    const int32_t second = kv_slot_take(kv, b, 100, &reused);
    assert_int_not_equal(second, first);
    assert_int_equal(reused, 0);
    assert_int_equal(kv_slot_take(kv, b, 100, &reused), -1);
    kv_slot_release(kv, (uint32_t)second);
    kv_slot_release(kv, (uint32_t)first);

    /* The longest beginning wins, the rest is cut; the last token is always computed. */
    assert_int_equal(kv_slot_take(kv, b, 100, &reused), first);
    assert_int_equal(reused, 70);
    assert_int_equal(kv_slot_length(kv, (uint32_t)first), 70);
    kv_slot_release(kv, (uint32_t)first);
    assert_int_equal(kv_slot_take(kv, a, 70, &reused), first);
    assert_int_equal(reused, 69);
    kv_slot_release(kv, (uint32_t)first);
    /* No beginning in common: the one used longest ago. */
    assert_int_equal(kv_slot_take(kv, (int32_t[]){ -5, 3 }, 2, &reused), second);
    assert_int_equal(reused, 0);
    kv_destroy(kv);
    buddy_destroy(pool);
}

static void test_pressure(void **state)
{
    (void)state;
    struct buddy *pool;
    struct kv *kv = kv_of(3, 4, &pool);
    int32_t tokens[CONTEXT];
    uint32_t reused;
    uint64_t used, total;
    kv_cells(kv, &used, &total);
    assert_int_equal(total, 4 * KV_PAGE);
    for (int32_t i = 0; i < 2; i++) { /* two idle ones of two pages each */
        tokens_fill(tokens, 100, 1000 * (i + 1));
        const uint32_t slot = (uint32_t)kv_slot_take(kv, tokens, 100, &reused);
        assert_int_equal(slot, i);
        assert_int_equal(kv_slot_reserve(kv, slot, 100), 0);
        kv_slot_append(kv, slot, tokens, 100);
    }
    kv_slot_release(kv, 0);
    kv_slot_release(kv, 1);

    tokens_fill(tokens, 200, 5000);
    assert_int_equal(kv_slot_take(kv, tokens, 200, &reused), 2);
    /* The last page of the first, then its first, then the second's. */
    assert_int_equal(kv_slot_reserve(kv, 2, 1), 0);
    assert_int_equal(kv_slot_length(kv, 0), 64);
    assert_int_equal(kv_slot_length(kv, 1), 100);
    assert_int_equal(kv_slot_reserve(kv, 2, 3 * KV_PAGE), 0);
    assert_int_equal(kv_slot_length(kv, 0), 0);
    assert_int_equal(kv_slot_length(kv, 1), 64);
    assert_int_equal(kv_evictions(kv), 3);
    /* What is busy stays; more than there is is refused, and so is more than the context. */
    tokens_fill(tokens, 64, 2000);
    assert_int_equal(kv_slot_take(kv, tokens, 64, &reused), 1);
    assert_int_equal(reused, 63);
    assert_int_equal(kv_slot_reserve(kv, 2, 3 * KV_PAGE + 1), -1);
    assert_int_equal(kv_slot_length(kv, 1), 63);
    assert_int_equal(kv_slot_reserve(kv, 2, CONTEXT + 1), -1);
    kv_destroy(kv);

    struct buddy_stats stats;
    buddy_stats(pool, &stats);
    assert_int_equal(stats.used_bytes, 0);
    buddy_destroy(pool);
}

/* ---- At random ------------------------------------------------------------------------------- */

struct shadow { int32_t tokens[CONTEXT]; uint32_t length; int busy; };

static uint64_t random_state = 7;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

/* What the cell of a token is marked with, in every head of every layer. */
static uint16_t mark_of(int32_t token, uint32_t position, uint32_t layer, uint32_t head, int value)
{
    return (uint16_t)((uint32_t)token * 31 + position * 7 + layer * 5 + head * 3 + (uint32_t)value);
}

static void cells_mark(struct kv *kv, uint32_t slot, const struct shadow *s, uint32_t from)
{
    for (uint32_t p = from; p < s->length; p++) {
        for (uint32_t l = 0; l < LAYERS; l++) {
            for (uint32_t h = 0; h < HEADS; h++) {
                for (uint32_t i = 0; i < HEAD_DIM; i++) {
                    kv_key(kv, slot, l, h, p)[i] = mark_of(s->tokens[p], p, l, h, 0);
                    kv_value(kv, slot, l, h, p)[i] = mark_of(s->tokens[p], p, l, h, 1);
                }
            }
        }
    }
}

static void cells_check(struct kv *kv, uint32_t slot, const struct shadow *s)
{
    for (uint32_t p = 0; p < s->length; p++) {
        const uint32_t l = p % LAYERS, h = p % HEADS;
        assert_int_equal(kv_key(kv, slot, l, h, p)[HEAD_DIM - 1],
                         mark_of(s->tokens[p], p, l, h, 0));
        assert_int_equal(kv_value(kv, slot, l, h, p)[0], mark_of(s->tokens[p], p, l, h, 1));
    }
}

static uint32_t shadow_shared(const struct shadow *s, const int32_t *tokens, uint32_t count)
{
    uint32_t n = 0;
    while (n < s->length && n + 1 < count && s->tokens[n] == tokens[n]) n++;
    return n;
}

/* Few different tokens, so that beginnings are shared. */
static void step_take(struct kv *kv, struct shadow *shadows)
{
    int32_t tokens[CONTEXT];
    const uint32_t count = 1 + random_below(CONTEXT);
    uint32_t reused, best = 0;
    int idle = 0;
    const struct shadow *like = &shadows[random_below(SLOTS)];
    const uint32_t same = random_below(like->length + 1);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = i < same ? like->tokens[i] : (int32_t)random_below(3);
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (shadows[i].busy) continue;
        idle = 1;
        const uint32_t shared = shadow_shared(&shadows[i], tokens, count);
        if (shared > best) best = shared;
    }
    const int32_t slot = kv_slot_take(kv, tokens, count, &reused);
    assert_int_equal(slot >= 0, idle);
    if (slot < 0) return;
    struct shadow *s = &shadows[slot];
    assert_false(s->busy);
    assert_int_equal(reused, best);
    assert_int_equal(shadow_shared(s, tokens, count), best);
    s->busy = 1;
    s->length = best;
}

static void step_append(struct kv *kv, struct shadow *shadows, uint32_t slot)
{
    struct shadow *s = &shadows[slot];
    const uint32_t more = random_below(100);
    uint32_t pages = 0; /* that cannot be had: those of the busy, and what this one needs */
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (i != slot && shadows[i].busy) pages += (shadows[i].length + KV_PAGE - 1) / KV_PAGE;
    }
    pages += (s->length + more + KV_PAGE - 1) / KV_PAGE;
    const int fits = s->length + more <= CONTEXT && pages <= PAGES;
    const int rc = kv_slot_reserve(kv, slot, s->length + more);
    assert_int_equal(rc, fits ? 0 : -1);
    if (rc) {
        kv_slot_cut(kv, slot, s->length); /* give back what was had of it */
    } else {
        int32_t tokens[100];
        for (uint32_t i = 0; i < more; i++) tokens[i] = (int32_t)random_below(3);
        kv_slot_append(kv, slot, tokens, more);
        memcpy(s->tokens + s->length, tokens, more * sizeof(*tokens));
        const uint32_t from = s->length;
        s->length += more;
        cells_mark(kv, slot, s, from);
    }
    for (uint32_t i = 0; i < SLOTS; i++) { /* what was taken from idle ones */
        const uint32_t length = kv_slot_length(kv, i);
        assert_true(length == shadows[i].length ||
                    (!shadows[i].busy && length < shadows[i].length && length % KV_PAGE == 0));
        shadows[i].length = length;
    }
}

static void test_random(void **state)
{
    (void)state;
    struct buddy *pool;
    struct kv *kv = kv_of(SLOTS, PAGES, &pool);
    static struct shadow shadows[SLOTS];
    for (int step = 0; step < STEPS; step++) {
        const uint32_t slot = random_below(SLOTS);
        struct shadow *s = &shadows[slot];
        if (!s->busy) {
            step_take(kv, shadows);
        } else if (random_below(4) == 0) {
            kv_slot_release(kv, slot);
            s->busy = 0;
        } else if (random_below(6) == 0) {
            s->length = random_below(s->length + 1);
            kv_slot_cut(kv, slot, s->length);
        } else {
            step_append(kv, shadows, slot);
        }
        uint64_t used, total, sum = 0;
        for (uint32_t i = 0; i < SLOTS; i++) {
            assert_int_equal(kv_slot_length(kv, i), shadows[i].length);
            sum += shadows[i].length;
        }
        kv_cells(kv, &used, &total);
        assert_int_equal(used, sum);
        assert_true(used <= total);
        if (step % 16 == 0) cells_check(kv, slot, s);
    }
    kv_destroy(kv);
    struct buddy_stats stats;
    buddy_stats(pool, &stats);
    assert_int_equal(stats.used_bytes, 0);
    assert_true(stats.failures > 100); /* it was under pressure */
    buddy_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_reuse),
                                        cmocka_unit_test(test_pressure),
                                        cmocka_unit_test(test_random) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
