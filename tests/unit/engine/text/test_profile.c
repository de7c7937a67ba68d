#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sonde/engine.h"
#include "sonde/read.h"
#include "vocab_file.h"

static const char *const tokens[] = { "<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁a", "aa" };
static const float scores[] = { 0, 0, 0, -9, -9, -9, -1, -2, -3 };

static struct tokenizer *load(void)
{
    struct vocab_file f;
    struct fail why;
    vocab_file_begin(&f);
    vocab_file_text(&f, "tokenizer.ggml.model", "llama");
    vocab_file_texts(&f, "tokenizer.ggml.tokens", tokens, 9);
    vocab_file_numbers(&f, "tokenizer.ggml.scores", GGUF_F32, scores, 9);
    return vocab_file_load(&f, &why);
}

/* What sonde has is what the tokenizer itself counted, to the last look-up and nanosecond. */
static void test_same_as_sonde(void **state)
{
    (void)state;
    char dir[] = "/dev/shm/sonde-text-XXXXXX";
    assert_non_null(mkdtemp(dir));
    assert_int_equal(setenv("SONDE_DIR", dir, 1), 0);
    const struct sonde_config config = { .size = sizeof(config), .name = "test_profile" };
    assert_int_equal(sonde_open(&config), 0);

    struct tokenizer *t = load();
    static char text[20000];
    static int32_t out[60000];
    static const size_t lengths[] = { 1, 64, 65, 256, 257, 1024, 1025, 4096, 4097, 16384,
                                      16385, 0 };
    for (size_t i = 0; i < sizeof(text); i++) text[i] = "ab a  aab"[i * i % 9];
    size_t count, total = 0;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        assert_int_equal(tokenizer_encode(t, text, lengths[i], TOKENIZE_BOS, out, 60000, &count),
                         0);
        total += count;
    }
    char piece[8];
    for (int32_t i = 0; i < 9; i++) tokenizer_piece(t, i, 1, piece, sizeof(piece));

    struct tokenizer_counts c;
    tokenizer_counts(t, &c);
    assert_int_equal(c.encodes, 12);
    assert_int_equal(c.tokens, total);
    assert_true(c.merges > 0 && c.lookups > c.merges && c.cache_hits > 0 && c.cache_misses > 0);

    struct sonde_tokenizer s; /* the same names are the same cells */
    sonde_tokenizer_define(&s, "llama");
    assert_int_equal(sonde_read_counter(s.bytes), c.bytes);
    assert_int_equal(sonde_read_counter(s.tokens), c.tokens);
    assert_int_equal(sonde_read_counter(s.lookups), c.lookups);
    assert_int_equal(sonde_read_counter(s.merges), c.merges);
    assert_int_equal(sonde_read_counter(s.cache_hits), c.cache_hits);
    assert_int_equal(sonde_read_counter(s.cache_misses), c.cache_misses);
    struct sonde_read_hist h;
    double seconds = 0;
    for (int i = 0; i < SONDE_TOKENIZER_CLASSES; i++) {
        sonde_read_hist(s.encode[i], &h);
        assert_int_equal(h.count, i == 0 ? 3 : i == SONDE_TOKENIZER_CLASSES - 1 ? 1 : 2);
        seconds += h.sum;
    }
    assert_true(fabs(seconds - (double)c.ns / 1e9) < 1e-9);
    sonde_read_hist(s.decode, &h);
    assert_int_equal(h.count, 9);

    tokenizer_destroy(t);
    char command[64];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_same_as_sonde) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
