/* What is a model, and what is refused with a sentence that names it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/engine/model/tiny_model.h"

static int tiny_load(const struct tiny_model *t, struct buddy **pool, struct model **m,
                     struct fail *why)
{
    struct gguf *g = NULL;
    *pool = NULL;
    if (tiny_open(t, &g, why)) return -1;
    assert_int_equal(buddy_create("weights", model_pool_bytes(g), 4096, pool, why), 0);
    if (!model_load(g, *pool, m, why)) return 0;
    gguf_close(g);
    return -1;
}

static void test_loads(void **state)
{
    (void)state;
    static const struct { const char *arch; enum weight_type type; int tied, scales; } rows[] = {
        { "llama", WEIGHT_F32, 0, 0 },        { "llama", WEIGHT_F16, 1, 0 },
        { "llama", WEIGHT_Q8_0, 0, 0 },       { "llama", WEIGHT_Q4_0, 1, 0 },
        { "llama", WEIGHT_TQ2_0, 0, 0 },      { "bitnet", WEIGHT_TQ2_0, 0, 1 },
        { "bitnet-b1.58", WEIGHT_I2_S, 0, 0 }, { "bitnet-25", WEIGHT_I2_S, 0, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buddy *pool;
        struct model *m;
        struct fail why = { "" };
        const struct tiny_model t = { .arch = rows[i].arch, .type = rows[i].type,
                                      .tied = rows[i].tied, .scales = rows[i].scales };
        if (tiny_load(&t, &pool, &m, &why)) fail_msg("%s: %s", rows[i].arch, why.text);
        assert_string_equal(m->type, weight_kind(rows[i].type)->name);
        assert_string_equal(m->name, "tiny?model");
        assert_int_equal(m->head_dim, 32);
        assert_int_equal(m->vocab, 97);
        const int shared = rows[i].tied || m->arch == MODEL_BITNET;
        assert_int_equal(m->output.data == m->tok_embd.data, shared);
        assert_int_equal(m->layer[1].attn_sub_norm != NULL, m->arch == MODEL_BITNET);
        assert_int_equal(m->layer[0].q_scale != 1, rows[i].scales);
        for (uint32_t l = 0; l < m->layers; l++) {
            assert_int_equal((uintptr_t)m->layer[l].down.data % MODEL_WEIGHT_ALIGN, 0);
        }
        struct buddy_stats stats;
        buddy_stats(pool, &stats);
        assert_int_equal(stats.asked_bytes, m->weight_bytes);
        model_destroy(m);
        buddy_stats(pool, &stats);
        assert_int_equal(stats.used_bytes, 0);
        buddy_destroy(pool);
    }
}

static void test_refuses(void **state)
{
    (void)state;
    static const struct { const char *says; struct tiny_model t; } rows[] = {
        { "general.architecture", { .skip = "general.architecture" } },
        { "the architecture qwen2", { .arch = "qwen2" } },
        { "no number llama.block_count", { .skip = "block_count" } },
        { "no number llama.attention.head_count", { .skip = "attention.head_count" } },
        { "8 attention heads cannot share 3", { .heads_kv = 3 } },
        { "llama.block_count is 2000",
          { .layers = 2000, .embd = 4, .heads = 2, .heads_kv = 2, .ff = 4 } },
        { "mixtures of experts", { .experts = 8 } },
        { "attention.key_length", { .heads = 7, .heads_kv = 7, .embd = 256 } },
        { "33 rotated dimensions", { .rope_dims = 33 } },
        { "64 rotated dimensions", { .rope_dims = 64 } },
        { "llama.rope.scaling.type is yarn", { .scaling = "yarn" } },
        { "llama.rope.scaling.factor is nan", { .scaling_factor = NAN } },
        { "llama.rope.scaling.factor is -2", { .scaling_factor = -2 } },
        { "layer_norm_rms_epsilon is -1", { .negative_epsilon = -1 } },
        { "no tensor token_embd.weight", { .skip = "token_embd.weight" } },
        { "no tensor output_norm.weight", { .skip = "output_norm.weight" } },
        { "no tensor blk.1.ffn_down.weight", { .skip = "blk.1.ffn_down.weight" } },
        { "no tensor blk.0.attn_sub_norm.weight",
          { .arch = "bitnet", .skip = "blk.0.attn_sub_norm.weight" } },
        { "blk.0.attn_k.weight is 256 × 256, but should be 256 × 128",
          { .wrong_shape = "blk.0.attn_k.weight" } },
        { "output.weight is 256 × 194", { .wrong_shape = "output.weight" } },
        { "blk.1.attn_norm.weight is F16, but should be F32",
          { .wrong_type = "blk.1.attn_norm.weight" } },
        { "blk.0.attn_q.bias is not one", { .extra = "blk.0.attn_q.bias" } },
        { "blk.0.ffn_gate_inp.weight is not one", { .extra = "blk.0.ffn_gate_inp.weight" } },
        { "output_norm.weight holds a number that is not finite",
          { .not_finite = "output_norm.weight" } },
        { "scale of the tensor blk.0.ffn_up.weight is not",
          { .arch = "bitnet", .type = WEIGHT_I2_S, .not_finite = "blk.0.ffn_up.weight" } },
        { "blk.0.attn_v.weight is of the type 12, which",
          { .wrong_type = "blk.0.attn_v.weight", .unknown_type = 12 } },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buddy *pool;
        struct model *m = NULL;
        struct fail why = { "" };
        if (!tiny_load(&rows[i].t, &pool, &m, &why)) fail_msg("it loads: %s", rows[i].says);
        if (!strstr(why.text, rows[i].says)) {
            fail_msg("'%s' does not say '%s'", why.text, rows[i].says);
        }
        if (pool) {
            struct buddy_stats stats;
            buddy_stats(pool, &stats);
            assert_int_equal(stats.used_bytes, 0);
        }
        buddy_destroy(pool);
    }
}

static void test_no_room(void **state)
{
    (void)state;
    struct gguf *g;
    struct buddy *pool;
    struct model *m = NULL;
    struct fail why;
    assert_int_equal(tiny_open(&(struct tiny_model){ 0 }, &g, &why), 0);
    assert_int_equal(buddy_create("weights", 65536, 4096, &pool, &why), 0);
    assert_int_equal(model_load(g, pool, &m, &why), -1);
    assert_non_null(strstr(why.text, "no room"));
    gguf_close(g);
    buddy_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_loads),
                                        cmocka_unit_test(test_refuses),
                                        cmocka_unit_test(test_no_room) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
