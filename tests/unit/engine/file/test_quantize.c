/* Also of random models: they are what is quantized here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/corpus.h"
#include "file/gguf_write.h"
#include "file/quantize.h"
#include "file/random_model.h"

static char folder[64], path_in[128], path_out[128];
static const struct random_model_size size = { "test", 1, 256, 4, 2, 256, 512, 128 };

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/test_quantize.XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path_in, sizeof(path_in), "%s/in.gguf", folder);
    snprintf(path_out, sizeof(path_out), "%s/out.gguf", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path_in);
    unlink(path_out);
    return rmdir(folder);
}

static struct gguf *opened(const char *path)
{
    struct gguf *g;
    struct fail why;
    if (gguf_open(path, &g, &why)) fail_msg("%s", why.text);
    return g;
}

static struct gguf *model_made(const char *path, enum random_vocab_kind kind,
                               enum random_model_arch arch, enum weight_type type)
{
    size_t bytes;
    const char *text = corpus_text(&bytes);
    struct random_vocab *v;
    struct fail why;
    assert_int_equal(random_vocab_train(kind, text, 60000, size.vocab, &v, &why), 0);
    assert_int_equal(random_vocab_size(v), size.vocab);
    const struct random_model m = { .size = &size, .arch = arch, .type = type, .vocab = v,
                                    .seed = 3 };
    if (random_model_write(&m, path, &why)) fail_msg("%s", why.text);
    random_vocab_destroy(v);
    return opened(path);
}

static struct gguf *quantized(const struct gguf *in, enum weight_type type,
                              struct quantize_report *r)
{
    struct fail why;
    if (quantize_file(in, type, path_out, NULL, r, &why)) fail_msg("%s", why.text);
    assert_int_equal(r->done, r->tensors);
    return opened(path_out);
}

static int tensors_same(const struct gguf *a, const struct gguf *b)
{
    for (uint64_t i = 0; i < gguf_tensor_count(a); i++) {
        const struct gguf_tensor *x = gguf_tensor_at(a, i), *y = gguf_tensor_at(b, i);
        if (x->type != y->type || x->bytes != y->bytes || memcmp(x->data, y->data, x->bytes)) {
            return 0;
        }
    }
    return gguf_tensor_count(a) == gguf_tensor_count(b);
}

static const enum weight_type types[] = { WEIGHT_F32, WEIGHT_F16, WEIGHT_Q8_0, WEIGHT_Q4_0,
                                          WEIGHT_TQ2_0, WEIGHT_I2_S };
enum { TYPES = 6 };

/* What is made as a type is what is made as F32 and quantized; ternary ones of llama are not, as
 * they are ternary by birth. Metadata stays, but for the file type. */
static void test_all_types(void **state)
{
    (void)state;
    static const enum random_model_arch archs[] = { RANDOM_MODEL_LLAMA, RANDOM_MODEL_BITNET };
    for (int a = 0; a < 2; a++) {
        const enum random_model_arch arch = archs[a];
        struct gguf *f32 = model_made(path_in, RANDOM_VOCAB_SPM, arch, WEIGHT_F32);
        for (int i = 0; i < TYPES; i++) {
            struct quantize_report r;
            struct gguf *q = quantized(f32, types[i], &r);
            uint32_t file_type;
            assert_true(gguf_get_u32(q, "general.file_type", &file_type));
            assert_int_equal(file_type, weight_kind(types[i])->file_type);
            assert_int_equal(gguf_pair_count(q), gguf_pair_count(f32));
            assert_int_equal(r.fallbacks, 0);
            assert_int_equal(gguf_tensor_named(q, "blk.0.ffn_up.weight")->type, types[i]);
            assert_int_equal(gguf_tensor_named(q, "blk.0.ffn_norm.weight")->type, WEIGHT_F32);
            const int ternary = types[i] == WEIGHT_TQ2_0 || types[i] == WEIGHT_I2_S;
            assert_int_equal(gguf_tensor_named(q, "token_embd.weight")->type,
                             ternary ? WEIGHT_F16 : types[i]);
            if (!ternary || arch == RANDOM_MODEL_BITNET) {
                char path[160];
                snprintf(path, sizeof(path), "%s/made.gguf", folder);
                struct gguf *made = model_made(path, RANDOM_VOCAB_SPM, arch, types[i]);
                assert_true(tensors_same(made, q));
                gguf_close(made);
                unlink(path);
            }
            gguf_close(q);
        }
        gguf_close(f32);
    }
}

/* Ternary numbers are the same numbers in every type that holds them, whatever they went
 * through. */
static void test_ternary_round_trip(void **state)
{
    (void)state;
    struct gguf *i2 = model_made(path_in, RANDOM_VOCAB_BPE, RANDOM_MODEL_BITNET, WEIGHT_I2_S);
    static const enum weight_type through[] = { WEIGHT_F32, WEIGHT_F16, WEIGHT_TQ2_0 };
    char path[160];
    snprintf(path, sizeof(path), "%s/back.gguf", folder);
    for (int i = 0; i < 3; i++) {
        struct quantize_report r;
        struct fail why;
        struct gguf *q = quantized(i2, through[i], &r);
        assert_int_equal(quantize_file(q, WEIGHT_I2_S, path, NULL, &r, &why), 0);
        struct gguf *back = opened(path);
        assert_true(tensors_same(i2, back));
        gguf_close(back);
        gguf_close(q);
        unlink(path);
    }
    gguf_close(i2);
}

static void test_same_bytes(void **state)
{
    (void)state;
    struct gguf *a = model_made(path_in, RANDOM_VOCAB_BPE, RANDOM_MODEL_LLAMA, WEIGHT_Q4_0);
    struct gguf *b = model_made(path_out, RANDOM_VOCAB_BPE, RANDOM_MODEL_LLAMA, WEIGHT_Q4_0);
    assert_int_equal(gguf_file_bytes(a), gguf_file_bytes(b));
    assert_true(tensors_same(a, b));
    for (uint64_t i = 0; i < gguf_pair_count(a); i++) {
        struct gguf_text key;
        const void *x, *y;
        size_t n, m;
        gguf_pair(a, i, &key, &x, &n);
        gguf_pair(b, i, &key, &y, &m);
        assert_true(n == m && !memcmp(x, y, n));
    }
    gguf_close(a);
    gguf_close(b);
}

/* Weights are what the file says they are: mean 0 and the deviation that they should have. */
static void test_statistics(void **state)
{
    (void)state;
    struct gguf *g = model_made(path_in, RANDOM_VOCAB_BPE, RANDOM_MODEL_LLAMA, WEIGHT_F32);
    const struct gguf_tensor *t = gguf_tensor_named(g, "blk.0.ffn_gate.weight");
    const float *x = t->data;
    const uint64_t n = t->dims[0] * t->dims[1];
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    assert_true(fabs(sum / (double)n) < 1e-3);
    assert_true(fabs(sqrt(squares / (double)n) * 16 - 1) < 0.02);
    gguf_close(g);
}

static void custom_file(uint64_t cols, uint32_t type, float value)
{
    struct gguf_writer *w;
    struct fail why;
    const uint64_t dims[2] = { cols, 2 };
    const struct gguf_text names[] = { { "x.weight", 8 }, { "x_norm.weight", 13 } };
    assert_int_equal(gguf_write_begin(path_in, &w, &why), 0);
    gguf_write_u32(w, "general.alignment", 32);
    float *x = calloc(cols * 2, sizeof(*x));
    x[0] = value;
    for (int i = 0; i < 2; i++) gguf_write_tensor(w, names[i], type, dims, 2, cols * 8);
    for (int i = 0; i < 2; i++) gguf_write_data(w, x, cols * 8);
    assert_int_equal(gguf_write_finish(w, &why), 0);
    free(x);
}

static void test_fallback(void **state)
{
    (void)state;
    struct quantize_report r;
    custom_file(96, WEIGHT_F32, 1);
    struct gguf *g = opened(path_in), *q = quantized(g, WEIGHT_TQ2_0, &r);
    uint32_t alignment;
    assert_int_equal(r.fallbacks, 1);
    assert_int_equal(gguf_tensor_named(q, "x.weight")->type, WEIGHT_F16);
    assert_int_equal(gguf_tensor_named(q, "x_norm.weight")->type, WEIGHT_F32);
    assert_false(gguf_get_u32(q, "general.alignment", &alignment));
    gguf_close(q);
    q = quantized(g, WEIGHT_Q8_0, &r);
    assert_int_equal(r.fallbacks, 0);
    gguf_close(q);
    gguf_close(g);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct { uint32_t type; float value; const char *says; } cases[] = {
        { WEIGHT_F32, INFINITY, "tensor x.weight has a number" },
        { WEIGHT_F32, NAN, "tensor x.weight has a number" },
        { 12, 0, "tensor x.weight has type 12" },
    };
    unlink(path_out);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct quantize_report r;
        struct fail why = { "" };
        struct stat st;
        custom_file(256, cases[i].type, cases[i].value);
        struct gguf *g = opened(path_in);
        for (int t = 1; t < TYPES; t++) {
            assert_int_equal(quantize_file(g, types[t], path_out, NULL, &r, &why), -1);
            assert_non_null(strstr(why.text, path_in));
            assert_non_null(strstr(why.text, cases[i].says));
            assert_int_equal(stat(path_out, &st), -1);
        }
        gguf_close(g);
    }
}

static void test_vocab(void **state)
{
    (void)state;
    struct random_vocab *v;
    struct fail why;
    assert_int_equal(random_vocab_train(RANDOM_VOCAB_BPE, "", 0, 100, &v, &why), -1);
    /* Text that has hardly any pairs: fewer tokens than there may be. */
    assert_int_equal(random_vocab_train(RANDOM_VOCAB_BPE, "ab ab", 5, 1000, &v, &why), 0);
    assert_int_equal(random_vocab_size(v), 256 + 1 + 4); /* "ab"; " a" is there once */
    assert_false(random_vocab_is_odd(v, 'a'));
    assert_true(random_vocab_is_odd(v, 0x80));
    assert_true(random_vocab_is_odd(v, 256 + 1));
    random_vocab_destroy(v);
    assert_int_equal(random_vocab_train(RANDOM_VOCAB_SPM, "\xff\xff\xff\n\n\n", 6, 1000, &v, &why),
                     0);
    assert_int_equal(random_vocab_size(v), 3 + 256 + 2);
    random_vocab_destroy(v);
    random_vocab_destroy(NULL);
    assert_null(random_model_size_named("huge"));
    assert_non_null(random_model_size_named("tiny"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_types),  cmocka_unit_test(test_ternary_round_trip),
        cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_fallback),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_vocab),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
