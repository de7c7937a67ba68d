/* Batches and names, read from a memory that holds anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "collect/uprobe/memory.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define BASE UINT64_C(0x7000000000)

/* ---- Parts ----------------------------------------------------------------------------------- */

static void expect_part(const struct sonde_llama_part *p, int32_t seq, int32_t pos, uint32_t row,
                        uint32_t tokens, uint32_t outputs, uint32_t flags, uint64_t tail)
{
    assert_int_equal(p->seq, seq);
    assert_int_equal(p->pos, pos);
    assert_int_equal(p->row, row);
    assert_int_equal(p->tokens, tokens);
    assert_int_equal(p->outputs, outputs);
    assert_int_equal(p->flags, flags);
    assert_true(p->tail == tail);
}

static void test_parts(void **state)
{
    (void)state;
    struct sonde_llama_part out[8];
    /* A prompt of 0, a token of 1, the same of 2 and 3 together, and 0 again at another place. */
    const int32_t token[] = { 10, 11, 12, 20, 30, 31, 90 };
    const int32_t pos[] = { 5, 6, 7, 40, 0, 1, 50 };
    const int32_t counts[] = { 1, 1, 1, 1, 2, 2, 1 };
    const int8_t logits[] = { 0, 0, 1, 1, 0, 1, 0 };
    int32_t seq[7 * SONDE_UPROBE_SEQS_MAX] = { 0 };
    seq[3 * SONDE_UPROBE_SEQS_MAX] = 1;
    for (int i = 4; i < 6; i++) {
        seq[i * (int)SONDE_UPROBE_SEQS_MAX] = 2;
        seq[i * (int)SONDE_UPROBE_SEQS_MAX + 1] = 3;
    }
    struct sonde_uprobe_rows r = { 7, token, pos, counts, seq, logits };
    assert_int_equal(sonde_uprobe_parts(&r, out, COUNT(out)), 5);
    expect_part(&out[0], 0, 5, 0, 3, 1, 0, SONDE__LLAMA_TAIL(11, 12));
    expect_part(&out[1], 1, 40, 3, 1, 1, 0, SONDE__LLAMA_TAIL(-1, 20));
    expect_part(&out[2], 2, 0, 4, 2, 1, 0, SONDE__LLAMA_TAIL(30, 31));
    expect_part(&out[3], 3, 0, 4, 2, 1, SONDE_LLAMA_SHARED, SONDE__LLAMA_TAIL(30, 31));
    expect_part(&out[4], 0, 50, 6, 1, 0, 0, SONDE__LLAMA_TAIL(-1, 90));
    assert_int_equal(sonde_uprobe_parts(&r, out, 2), 5);

    /* Nothing but tokens: all of sequence 0, and the last gives logits. */
    r = (struct sonde_uprobe_rows){ .count = 7, .token = token };
    assert_int_equal(sonde_uprobe_parts(&r, out, COUNT(out)), 1);
    expect_part(&out[0], 0, -1, 0, 7, 1, 0, SONDE__LLAMA_TAIL(31, 90));
    r = (struct sonde_uprobe_rows){ .count = 2, .pos = pos };
    assert_int_equal(sonde_uprobe_parts(&r, out, COUNT(out)), 1);
    expect_part(&out[0], 0, 5, 0, 2, 1, 0, SONDE__LLAMA_TAIL_NONE);
    r.count = 0;
    assert_int_equal(sonde_uprobe_parts(&r, out, COUNT(out)), 0);
}

/* Numbers of sequences and positions that cannot be. */
static void test_parts_hostile(void **state)
{
    (void)state;
    struct sonde_llama_part out[32];
    const int32_t pos[] = { INT32_MAX, INT32_MIN, -1, 0 };
    const int32_t counts[] = { -5, 0, INT32_MAX, 9 };
    int32_t seq[4 * SONDE_UPROBE_SEQS_MAX];
    for (size_t i = 0; i < COUNT(seq); i++) seq[i] = INT32_MIN + (int32_t)i;
    const struct sonde_uprobe_rows r = { .count = 4, .pos = pos, .seq_count = counts, .seq = seq };
    assert_int_equal(sonde_uprobe_parts(&r, out, COUNT(out)), 2 + 2 * SONDE_UPROBE_SEQS_MAX);
    for (uint32_t i = 0; i < 18; i++) assert_true(out[i].row < 4 && out[i].tokens == 1);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

struct memory {
    char bytes[65536];
    uint32_t reads, pieces;
};

static int read_memory(void *arg, const struct iovec *pieces, size_t count, void *out, size_t len)
{
    struct memory *m = arg;
    char *to = out;
    m->reads++;
    for (size_t i = 0; i < count; i++, m->pieces++) {
        const uint64_t at = (uint64_t)(uintptr_t)pieces[i].iov_base - BASE;
        if (pieces[i].iov_len > len) return -1;
        if (at > sizeof(m->bytes) || pieces[i].iov_len > sizeof(m->bytes) - at) return -1;
        memcpy(to, m->bytes + at, pieces[i].iov_len);
        to += pieces[i].iov_len;
        len -= pieces[i].iov_len;
    }
    return 0;
}

static struct memory *make_reader(struct sonde_uprobe_reader *r)
{
    struct memory *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    assert_int_equal(sonde_uprobe_reader_init(r, 1), 0);
    r->read = read_memory;
    r->arg = m;
    return m;
}

static void release(struct sonde_uprobe_reader *r, struct memory *m)
{
    sonde_uprobe_reader_release(r);
    free(m);
    assert_int_equal(sonde__alloc_live(), 0);
}

enum { TOKENS = 0, POSITIONS = 1024, SEQ_COUNTS = 2048, LISTS = 3072, LOGITS = 5120, SEQS = 6144 };

/* rows rows of sequence row / 3, whose lists are stride bytes apart. */
static struct sonde_uprobe_batch put_batch(struct memory *m, uint32_t rows, uint64_t stride)
{
    for (uint32_t i = 0; i < rows; i++) {
        const int32_t token = 100 + (int32_t)i, pos = (int32_t)i, one = 1, seq = (int32_t)i / 3;
        const uint64_t list = BASE + SEQS + i * stride;
        memcpy(m->bytes + TOKENS + 4 * i, &token, 4);
        memcpy(m->bytes + POSITIONS + 4 * i, &pos, 4);
        memcpy(m->bytes + SEQ_COUNTS + 4 * i, &one, 4);
        memcpy(m->bytes + LISTS + 8 * i, &list, 8);
        m->bytes[LOGITS + i] = i % 3 == 2;
        memcpy(m->bytes + SEQS + i * stride, &seq, 4);
    }
    return (struct sonde_uprobe_batch){
        .tokens = (int32_t)rows, .token = BASE + TOKENS, .pos = BASE + POSITIONS,
        .seq_count = BASE + SEQ_COUNTS, .seq = BASE + LISTS, .logits = BASE + LOGITS
    };
}

static void test_batch(void **state)
{
    (void)state;
    struct sonde_uprobe_reader r;
    struct memory *m = make_reader(&r);
    static const uint64_t strides[] = { 32, 8192 }; /* side by side, and far from each other */
    for (size_t n = 0; n < COUNT(strides); n++) {
        const struct sonde_uprobe_batch b = put_batch(m, 7, strides[n]);
        struct sonde_uprobe_memory *x = sonde_uprobe_read_batch(&r, &b);
        assert_non_null(x);
        assert_int_equal(x->part_count, 3);
        expect_part(&x->parts[0], 0, 0, 0, 3, 1, 0, SONDE__LLAMA_TAIL(101, 102));
        expect_part(&x->parts[2], 2, 6, 6, 1, 0, 0, SONDE__LLAMA_TAIL(-1, 106));
        assert_true(x->read_ns > 0);
        sonde__free(x);
    }
    release(&r, m);
}

static void test_many_parts(void **state)
{
    (void)state;
    struct sonde_uprobe_reader r;
    struct memory *m = make_reader(&r);
    static char stack[SONDE_UPROBE_BATCH_STACK];
    struct sonde_uprobe_batch b, again;
    /* As it lies on the stack. */
    const uint64_t words[8] = { 1, 0xffffffff00000100, BASE, 0, BASE + 2048, 0, 0, 0 };
    memcpy(stack, words, sizeof(words));
    assert_int_equal(sonde_uprobe_batch(stack, sizeof(stack) - 1, &b), SONDE_EFORMAT);
    assert_int_equal(sonde_uprobe_batch(stack, sizeof(stack), &b), 0);
    assert_int_equal(b.tokens, 256);
    assert_true(b.token == BASE && b.pos == BASE + 2048 && !b.seq);
    /* All at position 0: none goes on where another was, and more than are kept. */
    again = b;
    again.tokens = SONDE_LLAMA_PARTS_MAX + 100;
    struct sonde_uprobe_memory *x = sonde_uprobe_read_batch(&r, &again);
    assert_non_null(x);
    assert_int_equal(x->part_count, SONDE_LLAMA_PARTS_MAX);
    assert_int_equal(x->parts_dropped, 100);
    sonde__free(x);
    release(&r, m);
}

static void test_batch_hostile(void **state)
{
    (void)state;
    struct sonde_uprobe_reader r;
    struct memory *m = make_reader(&r);
    const struct sonde_uprobe_batch good = put_batch(m, 7, 32);
    static const int32_t tokens[] = { 0, -1, INT32_MIN, INT32_MAX, SONDE_UPROBE_ROWS_MAX + 1 };
    for (size_t i = 0; i < COUNT(tokens); i++) {
        struct sonde_uprobe_batch b = good;
        b.tokens = tokens[i];
        assert_null(sonde_uprobe_read_batch(&r, &b));
    }
    assert_int_equal(m->reads, 0);
    static const uint64_t addresses[] = { 1, BASE - 8, BASE + 65536 - 4, UINT64_MAX, 1ull << 47 };
    for (size_t i = 0; i < COUNT(addresses); i++) {
        for (int field = 0; field < 5; field++) {
            struct sonde_uprobe_batch b = good;
            uint64_t *const fields[] = { &b.token, &b.pos, &b.seq_count, &b.seq, &b.logits };
            *fields[field] = addresses[i];
            assert_null(sonde_uprobe_read_batch(&r, &b));
        }
        const uint64_t was = BASE + SEQS + 64, list = addresses[i] + (i == 2 ? 2 : 0);
        memcpy(m->bytes + LISTS + 16, &list, 8);
        assert_null(sonde_uprobe_read_batch(&r, &good));
        memcpy(m->bytes + LISTS + 16, &was, 8);
    }
    for (uint64_t nth = 1; nth < 4; nth++) {
        sonde__alloc_fail_nth(nth);
        sonde__free(sonde_uprobe_read_batch(&r, &good));
        sonde__alloc_fail_nth(0);
    }
    release(&r, m);
}

/* ---- The others ------------------------------------------------------------------------------ */

static void test_tail(void **state)
{
    (void)state;
    struct sonde_uprobe_reader r;
    struct memory *m = make_reader(&r);
    put_batch(m, 5, 32);
    struct sonde_uprobe_memory *x = sonde_uprobe_read_tail(&r, BASE, 5);
    assert_non_null(x);
    assert_true(x->value == SONDE__LLAMA_TAIL(103, 104) && x->from == BASE);
    sonde__free(x);
    x = sonde_uprobe_read_tail(&r, BASE, 1);
    assert_non_null(x);
    assert_true(x->value == SONDE__LLAMA_TAIL(-1, 100));
    sonde__free(x);
    assert_null(sonde_uprobe_read_tail(&r, BASE, 0));
    assert_null(sonde_uprobe_read_tail(&r, BASE, -3));
    assert_null(sonde_uprobe_read_tail(&r, 0, 5));
    assert_null(sonde_uprobe_read_tail(&r, BASE, INT32_MAX));
    assert_null(sonde_uprobe_read_tail(&r, UINT64_MAX - 8, 5));
    release(&r, m);
}

static void test_names(void **state)
{
    (void)state;
    struct sonde_uprobe_reader r;
    struct memory *m = make_reader(&r);
    struct sonde_uprobe_symbols s = { .buffer_size_at = 0x68, .tensor_name_at = 0x100 };
    struct sonde_uprobe_memory *x;

    strcpy(m->bytes + 4090, "/models/a model.gguf"); /* over the end of a page */
    x = sonde_uprobe_read_path(&r, BASE + 4090);
    assert_non_null(x);
    assert_string_equal(x->text, "a model.gguf");
    sonde__free(x);
    strcpy(m->bytes + 100, "/dir/");
    x = sonde_uprobe_read_path(&r, BASE + 100);
    assert_non_null(x);
    assert_string_equal(x->text, "/dir/");
    sonde__free(x);
    memset(m->bytes + 8192, 'x', 8192); /* no end */
    assert_null(sonde_uprobe_read_path(&r, BASE + 8192));
    memset(m->bytes + 12288, 0, 4096);
    m->bytes[12288 - 200] = '/';
    x = sonde_uprobe_read_path(&r, BASE + 12288 - 300); /* a long one is cut */
    assert_non_null(x);
    assert_int_equal(strlen(x->text), SONDE_UPROBE_TEXT - 1);
    sonde__free(x);
    assert_null(sonde_uprobe_read_path(&r, 0));
    assert_null(sonde_uprobe_read_path(&r, BASE + 65535 + 4096));

    const uint64_t size = 12345;
    memcpy(m->bytes + 0x68, &size, 8);
    x = sonde_uprobe_read_size(&r, &s, BASE);
    assert_non_null(x);
    assert_int_equal(x->value, size);
    sonde__free(x);
    memset(m->bytes + 0x68, 0xff, 8);
    assert_null(sonde_uprobe_read_size(&r, &s, BASE)); /* no size there is */
    assert_null(sonde_uprobe_read_size(&r, &s, 0));
    s.buffer_size_at = -1;
    assert_null(sonde_uprobe_read_size(&r, &s, BASE));
    release(&r, m);
}

static void test_tensor(void **state)
{
    (void)state;
    struct sonde_uprobe_reader r;
    struct memory *m = make_reader(&r);
    struct sonde_uprobe_symbols s = { .buffer_size_at = 0x68, .tensor_name_at = 0x100 };
    const uint64_t context[2] = { 4096, BASE + 1024 };
    const uint64_t offset = 32;
    memcpy(m->bytes, context, sizeof(context));
    memcpy(m->bytes + 1024, &offset, 8);
    strcpy(m->bytes + 1024 + 32 + 0x100, "cache_k_l0");
    struct sonde_uprobe_memory *x = sonde_uprobe_read_tensor(&r, &s, BASE);
    assert_non_null(x);
    assert_string_equal(x->text, "cache_k_l0");
    sonde__free(x);
    static const uint64_t bad[] = { 4096, 4000, UINT64_MAX - 15, 33, UINT64_MAX & ~7ull };
    for (size_t i = 0; i < COUNT(bad); i++) {
        memcpy(m->bytes + 1024, &bad[i], 8);
        assert_null(sonde_uprobe_read_tensor(&r, &s, BASE));
    }
    assert_null(sonde_uprobe_read_tensor(&r, &s, 0));
    assert_null(sonde_uprobe_read_tensor(&r, &s, BASE + 65530));
    s.tensor_name_at = -1;
    assert_null(sonde_uprobe_read_tensor(&r, &s, BASE));
    release(&r, m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),      cmocka_unit_test(test_parts_hostile),
        cmocka_unit_test(test_batch),      cmocka_unit_test(test_many_parts),
        cmocka_unit_test(test_batch_hostile), cmocka_unit_test(test_tail),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
