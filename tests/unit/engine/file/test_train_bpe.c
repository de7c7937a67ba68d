#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "file/corpus.h"
#include "file/train_bpe.h"

static void test_words(void **state)
{
    (void)state;
    static const struct { const char *text, *words; } cases[] = { /* words: | between them */
        { "", "" },
        { "the cat", "the| cat" },
        { "a  b", "a| | b" },
        { "x1, y2\n\n z", "x|1|,| y|2|\n\n| z" },
        { "end  ", "end|  " },
        { "caf\xc3\xa9 na\xc3\xafve", "caf\xc3\xa9| na\xc3\xafve" },
        { " ", " " },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bpe_text_word *words;
        size_t count;
        char got[100] = "";
        assert_int_equal(bpe_words(cases[i].text, strlen(cases[i].text), &words, &count), 0);
        for (size_t k = 0; k < count; k++) {
            if (k) strcat(got, "|");
            strncat(got, words[k].at, words[k].bytes);
        }
        assert_string_equal(got, cases[i].words);
        free(words);
    }
    struct bpe_text_word *words;
    size_t count;
    assert_int_equal(bpe_words("to be or not to be", 18, &words, &count), 0);
    assert_int_equal(count, 5); /* "to" and " to" are two */
    assert_int_equal(words[1].times, 2);
    free(words);
}

/* ---- Against counting all pairs anew for every merge ----------------------------------------- */

enum { MERGES = 200 };

struct naive_word { uint32_t symbols[64], count; uint64_t times; };
struct merges { struct { uint32_t left, right; } list[MERGES]; uint32_t count; };

static uint32_t merged(void *arg, uint32_t left, uint32_t right)
{
    struct merges *m = arg;
    if (m->count == MERGES) return BPE_BARRIER;
    m->list[m->count].left = left;
    m->list[m->count].right = right;
    return 256 + m->count++;
}

static int naive_best(const struct naive_word *words, size_t count, uint64_t *best_key)
{
    enum { SYMBOLS = 256 + MERGES };
    static uint64_t times[SYMBOLS][SYMBOLS];
    memset(times, 0, sizeof(times));
    uint64_t best = 1;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 1; k < words[i].count; k++) {
            times[words[i].symbols[k - 1]][words[i].symbols[k]] += words[i].times;
        }
    }
    for (uint64_t a = 0; a < SYMBOLS; a++) {
        for (uint64_t b = 0; b < SYMBOLS; b++) {
            if (times[a][b] <= best) continue;
            best = times[a][b];
            *best_key = a << 32 | b;
        }
    }
    return best > 1;
}

static void naive_merge(struct naive_word *w, uint32_t left, uint32_t right, uint32_t symbol)
{
    uint32_t to = 0;
    for (uint32_t k = 0; k < w->count; k++) {
        if (k + 1 < w->count && w->symbols[k] == left && w->symbols[k + 1] == right) {
            w->symbols[to++] = symbol;
            k++;
        } else {
            w->symbols[to++] = w->symbols[k];
        }
    }
    w->count = to;
}

static void test_as_naive(void **state)
{
    (void)state;
    size_t bytes, count;
    const char *text = corpus_text(&bytes);
    assert_true(bytes > 100000);
    struct bpe_text_word *from;
    assert_int_equal(bpe_words(text, 6000, &from, &count), 0);
    struct naive_word *naive = calloc(count, sizeof(*naive));
    struct bpe_word *words = calloc(count, sizeof(*words));
    for (size_t i = 0; i < count; i++) {
        naive[i].count = from[i].bytes < 64 ? from[i].bytes : 64;
        naive[i].times = from[i].times;
        for (uint32_t k = 0; k < naive[i].count; k++) {
            naive[i].symbols[k] = (unsigned char)from[i].at[k];
        }
        words[i] = (struct bpe_word){ naive[i].symbols, naive[i].count, naive[i].times };
    }
    struct merges m = { .count = 0 };
    assert_int_equal(bpe_train(words, count, merged, &m), 0);
    assert_int_equal(m.count, MERGES);
    for (uint32_t i = 0; i < MERGES; i++) {
        uint64_t key = 0;
        assert_true(naive_best(naive, count, &key));
        assert_int_equal(m.list[i].left, key >> 32);
        assert_int_equal(m.list[i].right, (uint32_t)key);
        for (size_t k = 0; k < count; k++) {
            naive_merge(&naive[k], m.list[i].left, m.list[i].right, 256 + i);
        }
    }
    free(from);
    free(naive);
    free(words);
}

static void test_overlap_and_barrier(void **state)
{
    (void)state;
    /* aaaa: the pair a a is there three times, but merges twice; then aa aa. Nothing over a
     * barrier. */
    uint32_t a[4] = { 1, 1, 1, 1 }, b[3] = { 2, BPE_BARRIER, 3 };
    const struct bpe_word words[] = { { a, 4, 2 }, { b, 3, 100 } };
    struct merges m = { .count = 0 };
    assert_int_equal(bpe_train(words, 2, merged, &m), 0);
    assert_int_equal(m.count, 2);
    assert_int_equal(m.list[0].left, 1);
    assert_int_equal(m.list[0].right, 1);
    assert_int_equal(m.list[1].left, 256);
    assert_int_equal(m.list[1].right, 256);
    m.count = 0;
    assert_int_equal(bpe_train(NULL, 0, merged, &m), 0);
    assert_int_equal(m.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words), cmocka_unit_test(test_as_naive),
        cmocka_unit_test(test_overlap_and_barrier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
