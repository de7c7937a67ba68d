/* Hits of probes into calls: nesting, what is left without a return, and values that cannot be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collect/uprobe/pair.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define CALLS_MAX 4096u

static struct sonde_llama_call calls[CALLS_MAX];
static uint32_t count;
static char text[64];

static void on_call(void *arg, const struct sonde_llama_call *c)
{
    (void)arg;
    assert_true(count < CALLS_MAX);
    assert_true(c->end_ns >= c->begin_ns);
    snprintf(text, sizeof(text), "%s", c->text);
    calls[count++] = *c;
}

static void begin(struct sonde_uprobe_pairs *p)
{
    count = 0;
    assert_int_equal(sonde_uprobe_pairs_init(p, on_call, NULL), 0);
    p->unix_ns = 1000000;
}

static void end(struct sonde_uprobe_pairs *p)
{
    sonde_uprobe_pairs_release(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static struct sonde_uprobe_memory *memory(uint32_t parts)
{
    struct sonde_uprobe_memory *m = sonde__calloc(1, sizeof(*m) + parts * sizeof(m->parts[0]));
    assert_non_null(m);
    m->part_count = parts;
    return m;
}

static void enter(struct sonde_uprobe_pairs *p, uint32_t tid, uint32_t fn, uint64_t ns, uint64_t sp,
                  struct sonde_uprobe_memory *m)
{
    const struct sonde_uprobe_hit h = { .time_ns = ns, .sp = sp, .back = 0x400000 + sp,
                                        .arg = { 0x100, 0xffffffff00000002, 0xfffffffffffffffd,
                                                 4, 5 }, .tid = tid, .fn = (uint16_t)fn,
                                        .batch_tokens = 9, .memory = m };
    sonde_uprobe_pairs_take(p, &h);
}

static void leave(struct sonde_uprobe_pairs *p, uint32_t tid, uint32_t fn, uint64_t ns, uint64_t sp,
                  uint64_t result)
{
    const struct sonde_uprobe_hit h = { .time_ns = ns, .sp = sp + SONDE__ARCH_CALL_BYTES,
                                        .arg = { result }, .tid = tid, .fn = (uint16_t)fn,
                                        .is_return = 1 };
    sonde_uprobe_pairs_take(p, &h);
}

static void test_values(void **state)
{
    (void)state;
    struct sonde_uprobe_pairs p;
    begin(&p);
    enter(&p, 7, SONDE__LLAMA_SEQ_RM, 10, 800, NULL);
    leave(&p, 7, SONDE__LLAMA_SEQ_RM, 15, 800, 0xabcdef01);
    assert_int_equal(count, 1);
    assert_int_equal(calls[0].tid, 7);
    assert_int_equal(calls[0].begin_ns, 1000010);
    assert_int_equal(calls[0].end_ns, 1000015);
    assert_int_equal(calls[0].object, 0x100);
    assert_int_equal(calls[0].arg[0], 2);              /* a 32-bit argument, whatever is above */
    assert_true((int64_t)calls[0].arg[1] == -3);       /* with its sign */
    assert_int_equal(calls[0].arg[2], 4);
    assert_int_equal(calls[0].result, 1);              /* a bool is one byte */
    enter(&p, 7, SONDE__LLAMA_IS_EOG, 20, 800, NULL);
    leave(&p, 7, SONDE__LLAMA_IS_EOG, 21, 800, 0xffffff00);
    assert_int_equal(calls[1].result, 0);
    enter(&p, 7, SONDE__LLAMA_SAMPLE, 30, 800, NULL);
    leave(&p, 7, SONDE__LLAMA_SAMPLE, 31, 800, 0xffffffff);
    assert_true(calls[2].arg[0] == 0xffffffff00000002); /* a context */
    assert_true((int64_t)calls[2].arg[1] == -3);
    assert_int_equal(calls[2].result, -1);
    /* Only its entry is probed. */
    enter(&p, 7, SONDE__LLAMA_CLEAR, 40, 800, NULL);
    assert_int_equal(count, 4);
    assert_int_equal(calls[3].begin_ns, calls[3].end_ns);
    assert_int_equal(p.calls, 4);
    assert_int_equal(p.unpaired, 0);
    end(&p);
}

static void test_nesting(void **state)
{
    (void)state;
    struct sonde_uprobe_pairs p;
    begin(&p);
    /* Two threads at once; samplers in samplers are not told, and one behind is again. */
    enter(&p, 1, SONDE__LLAMA_SAMPLE, 1, 1000, NULL);
    enter(&p, 2, SONDE__LLAMA_TOKENIZE, 2, 1000, NULL);
    enter(&p, 1, SONDE__LLAMA_APPLY, 3, 900, NULL);
    enter(&p, 1, SONDE__LLAMA_APPLY, 4, 800, NULL);
    enter(&p, 1, SONDE__LLAMA_APPLY, 5, 700, NULL);
    leave(&p, 1, SONDE__LLAMA_APPLY, 6, 700, 0);
    leave(&p, 1, SONDE__LLAMA_APPLY, 7, 800, 0);
    leave(&p, 1, SONDE__LLAMA_APPLY, 8, 900, 0);
    leave(&p, 2, SONDE__LLAMA_TOKENIZE, 9, 1000, 5);
    leave(&p, 1, SONDE__LLAMA_SAMPLE, 10, 1000, 77);
    enter(&p, 1, SONDE__LLAMA_APPLY, 11, 900, NULL);
    leave(&p, 1, SONDE__LLAMA_APPLY, 12, 900, 0);
    enter(&p, 1, SONDE__LLAMA_APPLY, 13, 900, NULL);
    enter(&p, 1, SONDE__LLAMA_APPLY, 14, 800, NULL);
    leave(&p, 1, SONDE__LLAMA_APPLY, 15, 800, 0);
    leave(&p, 1, SONDE__LLAMA_APPLY, 18, 900, 0);
    static const uint32_t order[] = { SONDE__LLAMA_TOKENIZE, SONDE__LLAMA_SAMPLE,
                                      SONDE__LLAMA_APPLY, SONDE__LLAMA_APPLY };
    assert_int_equal(count, COUNT(order));
    for (size_t i = 0; i < COUNT(order); i++) assert_int_equal(calls[i].fn, order[i]);
    assert_int_equal(calls[1].result, 77);
    assert_int_equal(calls[3].end_ns - calls[3].begin_ns, 5);
    assert_int_equal(p.unpaired, 0);
    end(&p);
}

static void test_left(void **state)
{
    (void)state;
    struct sonde_uprobe_pairs p;
    begin(&p);
    /* An exception passes through two calls; the next one, above them in the stack, tells. */
    enter(&p, 1, SONDE__LLAMA_SAMPLE, 1, 900, NULL);
    enter(&p, 1, SONDE__LLAMA_APPLY, 2, 800, NULL);
    enter(&p, 1, SONDE__LLAMA_DECODE, 3, 950, memory(1));
    leave(&p, 1, SONDE__LLAMA_DECODE, 4, 950, 0);
    assert_int_equal(count, 1);
    assert_int_equal(p.unpaired, 2);
    /* A longjmp out of an inner call: the return of the outer one tells. */
    enter(&p, 1, SONDE__LLAMA_SAMPLE, 5, 900, NULL);
    enter(&p, 1, SONDE__LLAMA_APPLY, 6, 800, NULL);
    leave(&p, 1, SONDE__LLAMA_SAMPLE, 7, 900, 0);
    assert_int_equal(count, 2);
    assert_int_equal(p.unpaired, 3);
    /* The same call again, from the same place. */
    enter(&p, 1, SONDE__LLAMA_PIECE, 8, 900, NULL);
    enter(&p, 1, SONDE__LLAMA_PIECE, 9, 900, NULL);
    leave(&p, 1, SONDE__LLAMA_PIECE, 10, 900, 1);
    assert_int_equal(count, 3);
    assert_int_equal(calls[2].begin_ns, 1000009);
    assert_int_equal(p.unpaired, 4);
    /* Returns that nobody entered. */
    leave(&p, 1, SONDE__LLAMA_PIECE, 11, 900, 1);
    leave(&p, 9, SONDE__LLAMA_PIECE, 12, 900, 1);
    assert_int_equal(count, 3);
    assert_int_equal(p.unpaired, 6);
    end(&p);
}

/* As many calls about texts as sampling needs, not one for every token there is. */
static void test_texts(void **state)
{
    (void)state;
    struct sonde_uprobe_pairs p;
    begin(&p);
    for (uint64_t i = 0; i < 1000; i++) {
        enter(&p, 1, SONDE__LLAMA_IS_EOG, 20000000 + i * 1000, 900, NULL);
        leave(&p, 1, SONDE__LLAMA_IS_EOG, 20000500 + i * 1000, 900, 0);
    }
    assert_int_equal(count, 64);
    enter(&p, 1, SONDE__LLAMA_LOGITS_ITH, 21000000, 900, NULL);
    leave(&p, 1, SONDE__LLAMA_LOGITS_ITH, 21000001, 900, 0);
    for (uint64_t i = 0; i < 6; i++) {
        enter(&p, 1, SONDE__LLAMA_PIECE, 21000100 + i, 900, NULL);
        leave(&p, 1, SONDE__LLAMA_PIECE, 21000101 + i, 900, 1);
    }
    assert_int_equal(count, 64 + 1 + 4);
    enter(&p, 1, SONDE__LLAMA_PIECE, 40000000, 900, NULL);
    leave(&p, 1, SONDE__LLAMA_PIECE, 40000001, 900, 1);
    assert_int_equal(count, 64 + 1 + 4 + 1);
    assert_int_equal(p.unpaired, 0);
    end(&p);
}

/* A function that ends with a jump to another one: both return at the same place. */
static void test_jump(void **state)
{
    (void)state;
    struct sonde_uprobe_pairs p;
    begin(&p);
    enter(&p, 1, SONDE__LLAMA_LOGITS, 1, 900, NULL);
    struct sonde_uprobe_hit h = { .time_ns = 2, .sp = 900, .back = 0x7fffffffe000, .tid = 1,
                                  .fn = SONDE__LLAMA_SYNCHRONIZE };
    sonde_uprobe_pairs_take(&p, &h);
    leave(&p, 1, SONDE__LLAMA_SYNCHRONIZE, 3, 900, 0);
    leave(&p, 1, SONDE__LLAMA_LOGITS, 4, 900, 0x1234);
    assert_int_equal(count, 2);
    assert_int_equal(calls[1].result, 0x1234);
    assert_int_equal(p.unpaired, 0);
    end(&p);
}

static void test_memory(void **state)
{
    (void)state;
    struct sonde_uprobe_pairs p;
    struct sonde_uprobe_memory *m;
    begin(&p);
    m = memory(2);
    m->read_ns = 15;
    enter(&p, 1, SONDE__LLAMA_DECODE, 10, 900, m);
    leave(&p, 1, SONDE__LLAMA_DECODE, 16, 900, 0);
    assert_int_equal(calls[0].part_count, 2);
    assert_int_equal(calls[0].arg[0], 9);
    m = memory(2);
    m->read_ns = 26; /* when the call had returned */
    enter(&p, 1, SONDE__LLAMA_DECODE, 20, 900, m);
    leave(&p, 1, SONDE__LLAMA_DECODE, 26, 900, 1);
    assert_int_equal(calls[1].part_count, 0);
    assert_int_equal(calls[1].arg[0], 9);
    enter(&p, 1, SONDE__LLAMA_DECODE, 30, 900, NULL); /* it could not be read */
    leave(&p, 1, SONDE__LLAMA_DECODE, 36, 900, 1);
    assert_int_equal(p.late, 2);

    m = memory(0);
    strcpy(m->text, "name.gguf");
    enter(&p, 1, SONDE__LLAMA_MODEL_LOAD, 40, 900, m);
    leave(&p, 1, SONDE__LLAMA_MODEL_LOAD, 41, 900, 0x5555);
    assert_string_equal(text, "name.gguf");
    m = memory(0);
    m->value = 4096;
    enter(&p, 1, SONDE__LLAMA_SET_USAGE, 42, 900, m);
    assert_int_equal(calls[4].arg[1], 4096);

    /* The tokens of this call, and those of another. */
    for (uint64_t from = 4; from < 6; from++) {
        enter(&p, 1, SONDE__LLAMA_TOKENIZE, 50, 900, NULL);
        m = memory(0);
        m->value = 77;
        m->from = from;
        struct sonde_uprobe_hit h = { .time_ns = 51, .sp = 908, .arg = { 2 }, .tid = 1,
                                      .fn = SONDE__LLAMA_TOKENIZE, .is_return = 1, .memory = m };
        sonde_uprobe_pairs_take(&p, &h);
    }
    assert_int_equal(calls[5].arg[2], 77);
    assert_true(calls[6].arg[2] == SONDE__LLAMA_TAIL_NONE);
    end(&p);
}

static void test_bounds(void **state)
{
    (void)state;
    struct sonde_uprobe_pairs p;
    begin(&p);
    /* Deeper than is followed. */
    for (uint64_t i = 0; i < 2 * SONDE_UPROBE_DEPTH_MAX; i++) {
        enter(&p, 1, SONDE__LLAMA_DECODE, i, 100000 - i * 100, memory(1));
    }
    assert_int_equal(p.unpaired, SONDE_UPROBE_DEPTH_MAX);
    /* More threads than are kept. */
    for (uint32_t i = 0; i < 3 * SONDE_UPROBE_THREADS_MAX; i++) {
        enter(&p, 100 + i, SONDE__LLAMA_DECODE, 1000 + i, 500, memory(1));
    }
    assert_int_equal(p.thread_count, SONDE_UPROBE_THREADS_MAX);
    leave(&p, 100 + 3 * SONDE_UPROBE_THREADS_MAX - 1, SONDE__LLAMA_DECODE, 1u << 20, 500, 0);
    assert_int_equal(count, 1);
    /* Functions there are not, or that are not probed; time that goes back. */
    enter(&p, 1, SONDE__LLAMA_COUNT, 5, 5, memory(1));
    enter(&p, 1, 65535, 5, 5, memory(1));
    enter(&p, 1, SONDE__LLAMA_PERF, 5, 5, memory(1));
    leave(&p, 1, SONDE__LLAMA_PERF, 5, 5, 1);
    assert_int_equal(count, 1);
    enter(&p, 1, SONDE__LLAMA_PIECE, 500, 50, NULL);
    leave(&p, 1, SONDE__LLAMA_PIECE, 400, 50, 1);
    assert_int_equal(count, 2);
    end(&p);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct sonde_uprobe_pairs p;
    sonde__alloc_fail_nth(1);
    assert_int_equal(sonde_uprobe_pairs_init(&p, on_call, NULL), SONDE_ENOMEM);
    sonde__alloc_fail_nth(0);
    begin(&p);
    struct sonde_uprobe_memory *m = memory(1);
    sonde__alloc_fail_nth(1);
    enter(&p, 1, SONDE__LLAMA_DECODE, 1, 5, m);
    sonde__alloc_fail_nth(0);
    assert_int_equal(p.unpaired, 1);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_left),   cmocka_unit_test(test_jump),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_texts),  cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
