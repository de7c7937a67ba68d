/* The forward pass: the same bits however it is cut up, and right against a plain reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/forward.h"
#include "unit/engine/model/tiny_model.h"

enum { LENGTH = 80, SHARED = 66, CONTEXT = 128, BATCH = 160, VOCAB = 97 };

/* ---- A model that can be run ----------------------------------------------------------------- */

struct runner {
    struct buddy *weights, *cells, *activations;
    struct model *m;
    struct kv *kv;
    struct team *team;
    struct forward *f;
};

static void runner_open(struct runner *r, const struct tiny_model *t, const char *kernel,
                        uint32_t threads, uint32_t slots)
{
    struct fail why = { "" };
    struct gguf *g;
    const struct kernel_ops *ops = kernel_named(kernel);
    assert_non_null(ops);
    if (tiny_open(t, &g, &why)) fail_msg("%s", why.text);
    assert_int_equal(buddy_create("weights", model_pool_bytes(g), 4096, &r->weights, &why), 0);
    if (model_load(g, r->weights, &r->m, &why)) fail_msg("%s", why.text);
    const uint64_t cells = kv_pool_bytes_of(r->m, slots * (CONTEXT / KV_PAGE));
    const struct forward_bytes scratch =
        forward_bytes_needed(r->m, slots, CONTEXT, threads, ops, BATCH);
    assert_int_equal(buddy_create("kv", cells, KV_POOL_UNIT, &r->cells, &why), 0);
    assert_int_equal(buddy_create("activations", scratch.pool, 4096, &r->activations, &why), 0);
    assert_int_equal(kv_create(r->m, slots, CONTEXT, r->cells, &r->kv, &why), 0);
    assert_int_equal(team_create(threads, &r->team, &why), 0);
    if (forward_create(r->m, r->kv, r->team, ops, r->activations, BATCH, &r->f, &why)) {
        fail_msg("%s", why.text);
    }
    struct buddy_stats stats;
    buddy_stats(r->activations, &stats);
    assert_int_equal(stats.asked_bytes, scratch.used);
}

static void runner_close(struct runner *r)
{
    struct buddy_stats stats;
    forward_destroy(r->f);
    kv_destroy(r->kv);
    team_destroy(r->team);
    model_destroy(r->m);
    buddy_stats(r->activations, &stats);
    assert_int_equal(stats.used_bytes, 0);
    buddy_destroy(r->activations);
    buddy_destroy(r->cells);
    buddy_destroy(r->weights);
}

static void tokens_of(int32_t *tokens, uint32_t seed)
{
    for (uint32_t i = 0; i < LENGTH; i++) {
        tokens[i] = (int32_t)((i * i * 7 + i * seed + seed) % VOCAB);
    }
}

static uint32_t slot_begin(struct runner *r, const int32_t *tokens, uint32_t *reused)
{
    const int32_t slot = kv_slot_take(r->kv, tokens, LENGTH, reused);
    assert_true(slot >= 0);
    assert_int_equal(kv_slot_reserve(r->kv, (uint32_t)slot, LENGTH), 0);
    return (uint32_t)slot;
}

/* The logits of all positions from `from` to before `end`, in passes of at most `part`. */
static void run_part(struct runner *r, uint32_t slot, const int32_t *tokens, uint32_t from,
                     uint32_t end, uint32_t part, float *out)
{
    static struct forward_token batch[BATCH];
    const uint32_t most = forward_logits_max(r->f);
    if (part > most) part = most;
    for (uint32_t at = from; at < end;) {
        const uint32_t n = end - at < part ? end - at : part;
        const float *logits;
        for (uint32_t i = 0; i < n; i++) {
            batch[i] = (struct forward_token){ tokens[at + i], slot, at + i, 1 };
        }
        forward_run(r->f, batch, n, &logits);
        memcpy(out + (size_t)at * VOCAB, logits, (size_t)n * VOCAB * sizeof(*out));
        kv_slot_append(r->kv, slot, tokens + at, n);
        at += n;
    }
}

static void run_all(struct runner *r, uint32_t slot, const int32_t *tokens, uint32_t from,
                    uint32_t part, float *out)
{
    run_part(r, slot, tokens, from, LENGTH, part, out);
}

/* ---- The same bits --------------------------------------------------------------------------- */

static float alone[LENGTH * VOCAB], other[LENGTH * VOCAB];

static void same_or_fail(const char *what, uint32_t from)
{
    for (uint32_t i = from * VOCAB; i < LENGTH * VOCAB; i++) {
        assert_true(isfinite(other[i]));
        if (memcmp(&alone[i], &other[i], sizeof(float))) {
            fail_msg("%s: position %u, token %u: %.9g, not %.9g", what, i / VOCAB, i % VOCAB,
                     (double)other[i], (double)alone[i]);
        }
    }
}

/* Two sequences in the same passes, chunks of the one beside single tokens of the other; only the
 * last of a chunk wants logits. */
static void check_mixed(struct runner *r, const int32_t *a, const int32_t *b)
{
    static struct forward_token batch[BATCH];
    static float mixed[LENGTH * VOCAB];
    uint32_t reused, at_a = 0, at_b = 0;
    const uint32_t slot_b = slot_begin(r, b, &reused);
    const uint32_t slot_a = slot_begin(r, a, &reused);
    memcpy(mixed, alone, sizeof(mixed));
    while (at_a < LENGTH) {
        uint32_t n = 0;
        const uint32_t chunk = LENGTH - at_a < 11 ? LENGTH - at_a : 11;
        const float *logits;
        if (at_b < LENGTH) batch[n++] = (struct forward_token){ b[at_b], slot_b, at_b, 1 };
        const uint32_t row = n;
        for (uint32_t i = 0; i < chunk; i++) {
            batch[n++] = (struct forward_token){ a[at_a + i], slot_a, at_a + i, i + 1 == chunk };
        }
        forward_run(r->f, batch, n, &logits);
        at_a += chunk;
        at_b += row;
        memcpy(mixed + (size_t)(at_a - 1) * VOCAB, logits + (size_t)row * VOCAB,
               VOCAB * sizeof(float));
    }
    kv_slot_release(r->kv, slot_a);
    kv_slot_release(r->kv, slot_b);
    memcpy(other, mixed, sizeof(other));
    same_or_fail("mixed", 0);
}

/* What a slot holds of one prompt is reused by another that begins alike. */
static void check_reuse(struct runner *r, const int32_t *a)
{
    int32_t c[LENGTH];
    uint32_t reused;
    memcpy(c, a, sizeof(c));
    c[SHARED] = (c[SHARED] + 1) % VOCAB;
    uint32_t slot = slot_begin(r, c, &reused);
    assert_int_equal(reused, SHARED);
    run_all(r, slot, c, reused, BATCH, other);
    kv_slot_release(r->kv, slot);
    slot = slot_begin(r, a, &reused);
    assert_int_equal(reused, SHARED);
    run_all(r, slot, a, reused, 13, other);
    same_or_fail("reused", reused);
    kv_slot_release(r->kv, slot);
}

/* One by one on one thread is what all else is compared with. */
static void check_bits(const struct tiny_model *t, const char *kernel)
{
    static const uint32_t parts[] = { 1, 7, BATCH };
    int32_t a[LENGTH], b[LENGTH];
    tokens_of(a, 3);
    tokens_of(b, 5);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        struct runner r;
        uint32_t reused;
        runner_open(&r, t, kernel, threads, 2);
        const uint32_t slot = slot_begin(&r, a, &reused);
        run_all(&r, slot, a, 0, parts[threads - 1], threads == 1 ? alone : other);
        if (threads > 1) same_or_fail("batches and threads", 0);
        kv_slot_release(r.kv, slot);
        check_reuse(&r, a);
        if (threads != 2) check_mixed(&r, a, b);
        runner_close(&r);
    }
}

static void test_same_bits(void **state)
{
    (void)state;
    static const struct tiny_model rows[] = {
        { .type = WEIGHT_F32 },
        { .type = WEIGHT_F16 }, { .type = WEIGHT_Q8_0 }, { .type = WEIGHT_Q4_0 },
        { .type = WEIGHT_TQ2_0 }, { .arch = "bitnet", .type = WEIGHT_TQ2_0, .scales = 1 },
        { .arch = "bitnet-b1.58", .type = WEIGHT_I2_S } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_bits(&rows[i], kernel_choose()->name);
    }
    /* math/ tests all types of all kernels */
    check_bits(&(struct tiny_model){ .type = WEIGHT_Q8_0, .embd = 64, .heads = 4, .heads_kv = 2,
                                     .ff = 64 }, "portable");
}

/* ---- A plain reference, in double precision -------------------------------------------------- */

/* Keys, values and queries are f16, and activations of I2_S int8: rounded as the engine does, that
 * is what makes it one model. The rest is as the papers have it. */
static double half_of(double x)
{
    return (double)weight_f16_to_float(weight_f16_from_float((float)x));
}

static void plain_product(const struct weight *w, const double *x, double by, double *out)
{
    float row[1024];
    double most = 1e-5, q[1024];
    for (uint32_t i = 0; i < w->cols; i++) most = fmax(most, fabs(x[i]));
    for (uint32_t i = 0; i < w->cols; i++) {
        q[i] = w->type == WEIGHT_I2_S ? nearbyint(x[i] * 127 / most) * most / 127 : x[i];
    }
    for (uint32_t r = 0; r < w->rows; r++) {
        out[r] = 0;
        weight_row_to_floats(w, r, row);
        for (uint32_t i = 0; i < w->cols; i++) out[r] += (double)row[i] * q[i];
        out[r] *= by;
    }
}

static void plain_norm(const double *x, const float *gain, uint32_t n, float epsilon, double *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += x[i] * x[i];
    for (uint32_t i = 0; i < n; i++) {
        out[i] = x[i] / sqrt(sum / n + (double)epsilon) * (double)gain[i];
    }
}

static void plain_rope(const struct model *m, double *x, uint32_t heads, uint32_t position)
{
    const uint32_t half = m->rope_dims / 2;
    for (uint32_t h = 0; h < heads; h++, x += m->head_dim) {
        for (uint32_t i = 0; i < half; i++) {
            const double angle = position * pow((double)m->rope_base, -2.0 * i / m->rope_dims) *
                                 (double)m->rope_scale /
                                 (m->rope_factors ? (double)m->rope_factors[i] : 1);
            double *a = m->form->rope_halves ? &x[i] : &x[2 * i];
            double *b = m->form->rope_halves ? &x[i + half] : &x[2 * i + 1];
            const double p = *a, q = *b;
            *a = p * cos(angle) - q * sin(angle);
            *b = p * sin(angle) + q * cos(angle);
        }
    }
}

static double plain_keys[2][LENGTH][256], plain_values[2][LENGTH][256];

static void plain_attention(const struct model *m, uint32_t layer, const double *q,
                            uint32_t position, double *out)
{
    const uint32_t n = m->head_dim, group = m->heads / m->heads_kv;
    for (uint32_t h = 0; h < m->heads; h++) {
        double weights[LENGTH], sum = 0;
        for (uint32_t p = 0; p <= position; p++) {
            double dot = 0;
            for (uint32_t i = 0; i < n; i++) {
                dot += half_of(q[h * n + i]) * plain_keys[layer][p][h / group * n + i];
            }
            sum += weights[p] = exp(dot / sqrt(n));
        }
        for (uint32_t i = 0; i < n; i++) {
            out[h * n + i] = 0;
            for (uint32_t p = 0; p <= position; p++) {
                out[h * n + i] +=
                    half_of(weights[p] / sum) * plain_values[layer][p][h / group * n + i];
            }
        }
    }
}

static void plain_layer(const struct model *m, uint32_t layer, uint32_t position, double *x)
{
    const struct model_layer *y = &m->layer[layer];
    const uint32_t kv = m->heads_kv * m->head_dim;
    double h[1024], q[1024], k[1024], v[1024], up[1024];
    plain_norm(x, y->attn_norm, m->embd, m->norm_epsilon, h);
    plain_product(&y->q, h, (double)y->q_scale, q);
    plain_product(&y->k, h, (double)y->k_scale, k);
    plain_product(&y->v, h, (double)y->v_scale, v);
    plain_rope(m, q, m->heads, position);
    plain_rope(m, k, m->heads_kv, position);
    for (uint32_t i = 0; i < kv; i++) {
        plain_keys[layer][position][i] = half_of(k[i]);
        plain_values[layer][position][i] = half_of(v[i]);
    }
    plain_attention(m, layer, q, position, h);
    if (y->attn_sub_norm) plain_norm(h, y->attn_sub_norm, m->embd, m->norm_epsilon, h);
    plain_product(&y->o, h, (double)y->o_scale, q);
    for (uint32_t i = 0; i < m->embd; i++) x[i] += q[i];

    plain_norm(x, y->ffn_norm, m->embd, m->norm_epsilon, h);
    plain_product(&y->gate, h, (double)y->gate_scale, q);
    plain_product(&y->up, h, (double)y->up_scale, up);
    for (uint32_t i = 0; i < m->ff; i++) {
        const double g = q[i];
        q[i] = (m->form->relu2 ? fmax(g, 0) * fmax(g, 0) : g / (1 + exp(-g))) * up[i];
    }
    if (y->ffn_sub_norm) plain_norm(q, y->ffn_sub_norm, m->ff, m->norm_epsilon, q);
    plain_product(&y->down, q, (double)y->down_scale, h);
    for (uint32_t i = 0; i < m->embd; i++) x[i] += h[i];
}

static void plain_token(const struct model *m, int32_t token, uint32_t position, double *logits)
{
    float row[1024];
    double x[1024], h[1024];
    weight_row_to_floats(&m->tok_embd, (uint32_t)token, row);
    for (uint32_t i = 0; i < m->embd; i++) x[i] = (double)row[i];
    for (uint32_t i = 0; i < m->layers; i++) plain_layer(m, i, position, x);
    plain_norm(x, m->output_norm, m->embd, m->norm_epsilon, h);
    plain_product(&m->output, h, 1, logits);
}

/* slack: of the size of logits (root mean square). A number that is rounded to the other int8 moves
 * all of them; with floats nothing is rounded but to f16. */
static void check_reference(const struct tiny_model *t, const char *kernel, double slack)
{
    enum { POSITIONS = 12 };
    int32_t tokens[LENGTH];
    struct runner r;
    uint32_t reused;
    tokens_of(tokens, 11);
    runner_open(&r, t, kernel, 1, 1);
    run_part(&r, slot_begin(&r, tokens, &reused), tokens, 0, POSITIONS, 5, alone);
    double apart = 0, size = 0;
    for (uint32_t p = 0; p < POSITIONS; p++) {
        double logits[VOCAB];
        plain_token(r.m, tokens[p], p, logits);
        for (uint32_t i = 0; i < VOCAB; i++) {
            const double d = (double)alone[p * VOCAB + i] - logits[i];
            apart += d * d;
            size += logits[i] * logits[i];
        }
    }
    if (!(sqrt(apart / size) < slack)) {
        fail_msg("%s, %s: %.3g apart, more than %.3g", t->arch ? t->arch : "llama", kernel,
                 sqrt(apart / size), slack);
    }
    runner_close(&r);
}

static void test_reference(void **state)
{
    (void)state;
    static const struct { double slack; struct tiny_model t; } rows[] = {
        { 1e-4, { .type = WEIGHT_F32 } },
        { 1e-4, { .type = WEIGHT_F32, .rope_factors = 1, .tied = 1 } },
        { 1e-4, { .type = WEIGHT_F32, .rope_dims = 16, .heads_kv = 8 } },
        { 1e-4, { .type = WEIGHT_F32, .scaling = "linear", .scaling_factor = 4 } },
        { 1e-4, { .type = WEIGHT_F32, .scaling = "none", .scaling_factor = 4, .heads_kv = 1 } },
        { 1e-4, { .arch = "bitnet", .type = WEIGHT_F32, .scales = 1 } },
        { 1e-4, { .arch = "bitnet-b1.58", .type = WEIGHT_F32 } },
        { 2e-3, { .type = WEIGHT_F16 } },
        { 2e-2, { .arch = "bitnet", .type = WEIGHT_I2_S } },
        { 2e-2, { .arch = "bitnet-b1.58", .type = WEIGHT_I2_S } },
        { 2e-2, { .type = WEIGHT_I2_S } },
        { 5e-2, { .type = WEIGHT_Q8_0 } }, /* whose activations the reference does not round */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_reference(&rows[i].t, kernel_choose()->name, rows[i].slack);
    }
    check_reference(&(struct tiny_model){ .arch = "bitnet-b1.58", .type = WEIGHT_I2_S, .embd = 128,
                                          .heads = 4, .heads_kv = 2, .ff = 128 }, "portable", 2e-2);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static void test_times(void **state)
{
    (void)state;
    int32_t tokens[LENGTH];
    struct runner r;
    uint32_t reused;
    uint64_t ns, calls, sum = 0;
    tokens_of(tokens, 3);
    runner_open(&r, &(struct tiny_model){ .type = WEIGHT_Q8_0 }, kernel_choose()->name, 1, 1);
    const uint32_t slot = slot_begin(&r, tokens, &reused);
    forward_times_enable(r.f, 1);
    run_all(&r, slot, tokens, 0, 30, alone);
    forward_times(r.f, 0, FORWARD_QKV, &ns, &calls);
    assert_int_equal(calls, 3);
    forward_times(r.f, 1, FORWARD_QKV, &ns, &calls);
    assert_int_equal(calls, 6); /* in the last layer queries come later than keys and values */
    forward_times(r.f, 2, FORWARD_LOGITS, &ns, &calls);
    assert_int_equal(calls, 3);
    for (uint32_t layer = 0; layer <= 2; layer++) {
        for (int op = 0; op < FORWARD_OPS; op++) {
            assert_true(strlen(forward_op_name((enum forward_op)op)) > 0);
            forward_times(r.f, layer, (enum forward_op)op, &ns, &calls);
            sum += ns;
        }
    }
    assert_true(sum > 0);
    forward_times_enable(r.f, 0);
    kv_slot_cut(r.kv, slot, LENGTH - 1);
    const float *logits = alone;
    forward_run(r.f, &(struct forward_token){ 1, slot, LENGTH - 1, 0 }, 1, &logits);
    assert_null(logits); /* nobody wanted any */
    forward_times(r.f, 0, FORWARD_QKV, &ns, &calls);
    assert_int_equal(calls, 3);
    runner_close(&r);
}

static void test_no_room(void **state)
{
    (void)state;
    struct runner r;
    struct fail why;
    struct buddy *small;
    struct forward *f = NULL;
    runner_open(&r, &(struct tiny_model){ .type = WEIGHT_F32 }, "portable", 1, 1);
    assert_int_equal(buddy_create("small", 65536, 4096, &small, &why), 0);
    assert_int_equal(forward_create(r.m, r.kv, r.team, kernel_named("portable"), small, BATCH, &f,
                                    &why), -1);
    assert_non_null(strstr(why.text, "a pass of 160 tokens needs"));
    buddy_destroy(small);
    runner_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits), cmocka_unit_test(test_reference),
        cmocka_unit_test(test_times), cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
