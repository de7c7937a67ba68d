/* forward.c - one forward pass:
 *
 *   x = embedding ─▶ ┌ layer: x += o · attention(rope(q · norm(x)), …)     ┐ ─▶ norm ─▶ · output
 *                    └        x += down · (act(gate · norm(x)) · up · …)   ┘
 *
 * What is of the tokens of a batch is in rows. In the last layer keys and values are needed of all
 * of them, everything else only of those that want logits: rows are closed up there, which for a
 * prompt saves most of that layer and of the output.
 *
 * Products are shared out by rows of the weights (math/matmul.c), attention by tokens and heads,
 * the rest by tokens; with few tokens the rest is done by the caller alone, since it takes less
 * than waking a thread. */
#include "model/forward.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/attention.h"
#include "model/rope.h"
#include "sonde/engine.h"

enum { ALONE_TOKENS = 3 };       /* so few are not shared out where work is by token */

static const char *const op_names[FORWARD_OPS] = {
    [FORWARD_NORM] = "norm", [FORWARD_QKV] = "qkv", [FORWARD_ROPE] = "rope",
    [FORWARD_ATTENTION] = "attention", [FORWARD_ATTN_OUT] = "attn_out", [FORWARD_FFN_UP] = "ffn_up",
    [FORWARD_ACTIVATION] = "activation", [FORWARD_FFN_DOWN] = "ffn_down",
    [FORWARD_EMBED] = "embedding",
    [FORWARD_LOGITS] = "logits",
};

struct forward_time { uint64_t ticks, calls; };

/* Scratch, one block of the pool each. */
enum forward_part { PART_X, PART_H, PART_Q, PART_Q16, PART_K, PART_V, PART_GATE, PART_UP, PART_ROPE,
                    PART_SCORES, PART_ACTS, PART_LOGITS, PARTS };

struct forward {
    const struct model *m;
    struct kv *kv;
    struct team *team;
    const struct kernel_ops *ops;
    struct buddy *pool;
    struct matmul *matmul;
    struct attention attention;
    uint32_t batch_max, logits_max;
    void *part[PARTS];
    float *x, *h;                /* the residual; what goes into a product and comes out of it */
    float *q, *k, *v, *gate, *up, *rope, *logits;
    uint16_t *q16;
    struct attention_row *rows;  /* where each row is */
    uint32_t *row_token;         /* which token of the batch a row is */

    /* What sonde is told of every pass; products are told by math/matmul.c. Norms, rope,
     * activations and the like are one operation, "other": reading the clock around each of them
     * would cost more than telling them apart is worth, except on demand. */
    struct sonde_device_op attention_op, other_op;
    int timed;                   /* sonde is told of this pass */
    uint64_t pass_begin, attention_ticks, attention_count;

    int times_on;                /* on demand, by layer and operation */
    uint64_t before;             /* ticks, when the last operation ended */
    struct forward_time *times;  /* (layers + 1) × FORWARD_OPS */

    /* of the pass */
    const struct forward_token *tokens;
    uint32_t count;              /* of rows */
    uint32_t layer;
};

/* ---- Scratch --------------------------------------------------------------------------------- */

static uint32_t logits_max_for(uint32_t slots, uint32_t batch_max)
{
    const uint32_t max = slots > FORWARD_LOGITS_MIN ? slots : FORWARD_LOGITS_MIN;
    return max < batch_max ? max : batch_max;
}

static uint64_t forward_larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The most that activations of one token take for any product. */
static uint64_t acts_bytes_for(const struct model *m, const struct kernel_ops *ops)
{
    uint64_t most = ops->acts_bytes(m->output.type, m->output.cols);
    for (uint32_t i = 0; i < m->layers; i++) {
        const struct model_layer *y = &m->layer[i];
        const struct weight *ws[] = { &y->q, &y->k, &y->v, &y->o, &y->gate, &y->up, &y->down };
        for (size_t n = 0; n < sizeof(ws) / sizeof(ws[0]); n++) {
            most = forward_larger(most, ops->acts_bytes(ws[n]->type, ws[n]->cols));
        }
    }
    return most;
}

static void part_bytes(const struct model *m, uint32_t slots, uint32_t context, uint32_t threads,
                       const struct kernel_ops *ops, uint32_t batch, uint64_t bytes[PARTS])
{
    const uint64_t q = (uint64_t)m->heads * m->head_dim, kv = (uint64_t)m->heads_kv * m->head_dim;
    bytes[PART_X] = batch * (uint64_t)m->embd * sizeof(float);
    bytes[PART_H] = batch * forward_larger(m->embd, q) * sizeof(float);
    bytes[PART_Q] = batch * q * sizeof(float);
    bytes[PART_Q16] = batch * q * sizeof(uint16_t);
    bytes[PART_K] = bytes[PART_V] = batch * kv * sizeof(float);
    bytes[PART_GATE] = bytes[PART_UP] = batch * (uint64_t)m->ff * sizeof(float);
    bytes[PART_ROPE] = batch * (uint64_t)m->rope_dims * sizeof(float);
    bytes[PART_SCORES] = threads * (uint64_t)attention_scores(m, context) * sizeof(float);
    bytes[PART_ACTS] = batch * acts_bytes_for(m, ops);
    bytes[PART_LOGITS] = logits_max_for(slots, batch) * (uint64_t)m->vocab * sizeof(float);
}

struct forward_bytes forward_bytes_needed(const struct model *m, uint32_t slots, uint32_t context,
                                          uint32_t threads, const struct kernel_ops *ops,
                                          uint32_t batch_max)
{
    uint64_t bytes[PARTS];
    struct forward_bytes sum = { 0, 0 };
    part_bytes(m, slots, context, threads, ops, batch_max, bytes);
    for (int i = 0; i < PARTS; i++) {
        uint64_t block = 4096;
        while (block < bytes[i]) block *= 2;
        sum.used += bytes[i];
        sum.pool += block;
    }
    for (uint64_t power = 1; power; power *= 2) { /* blocks in any order fit into a power of two */
        if (power < sum.pool) continue;
        sum.pool = power;
        break;
    }
    return sum;
}

static int forward_allocate(struct forward *f, struct fail *why)
{
    uint64_t bytes[PARTS];
    part_bytes(f->m, kv_slots(f->kv), kv_context(f->kv), team_threads(f->team), f->ops,
               f->batch_max, bytes);
    for (int i = 0; i < PARTS; i++) {
        f->part[i] = buddy_alloc(f->pool, bytes[i]);
        if (f->part[i]) continue;
        return fail_set(why, "a pass of %u tokens needs %llu bytes that are not there: give more "
                        "memory or a smaller batch", f->batch_max, (unsigned long long)bytes[i]);
    }
    f->x = f->part[PART_X];
    f->h = f->part[PART_H];
    f->q = f->part[PART_Q];
    f->q16 = f->part[PART_Q16];
    f->k = f->part[PART_K];
    f->v = f->part[PART_V];
    f->gate = f->part[PART_GATE];
    f->up = f->part[PART_UP];
    f->rope = f->part[PART_ROPE];
    f->logits = f->part[PART_LOGITS];
    f->rows = calloc(f->batch_max, sizeof(*f->rows));
    f->row_token = calloc(f->batch_max, sizeof(*f->row_token));
    f->times = calloc((size_t)(f->m->layers + 1) * FORWARD_OPS, sizeof(*f->times));
    f->attention = (struct attention){ f->m, f->kv, f->team, f->ops, kv_context(f->kv),
        f->part[PART_SCORES], calloc(f->batch_max, sizeof(*f->attention.blocks)), 0 };
    if (!f->rows || !f->row_token || !f->times || !f->attention.blocks) {
        return fail_set(why, "out of memory");
    }
    return matmul_create(f->team, f->ops, f->part[PART_ACTS], bytes[PART_ACTS], &f->matmul, why);
}

int forward_create(const struct model *m, struct kv *kv, struct team *team,
                   const struct kernel_ops *ops, struct buddy *activations, uint32_t batch_max,
                   struct forward **out, struct fail *why)
{
    assert(batch_max > 0);
    struct forward *f = calloc(1, sizeof(*f));
    if (!f) return fail_set(why, "out of memory");
    f->m = m;
    f->kv = kv;
    f->team = team;
    f->ops = ops;
    f->pool = activations;
    f->batch_max = batch_max;
    f->logits_max = logits_max_for(kv_slots(kv), batch_max);
    f->attention_op = sonde_device_op("cpu", "attention");
    f->other_op = sonde_device_op("cpu", "other");
    if (forward_allocate(f, why)) {
        forward_destroy(f);
        return -1;
    }
    *out = f;
    return 0;
}

void forward_destroy(struct forward *f)
{
    if (!f) return;
    matmul_destroy(f->matmul);
    for (int i = 0; i < PARTS; i++) buddy_free(f->pool, f->part[i]);
    free(f->attention.blocks);
    free(f->rows);
    free(f->row_token);
    free(f->times);
    free(f);
}

/* Results of one matmul_run(), at most: of q, k and v, of gate and up, of the output. */
static uint64_t results_bytes_max(const struct forward *f)
{
    const struct model *m = f->m;
    const uint64_t qkv = ((uint64_t)m->heads + 2 * m->heads_kv) * m->head_dim;
    const uint64_t a_token = forward_larger(forward_larger(qkv, m->embd), 2 * (uint64_t)m->ff);
    return sizeof(float) * forward_larger(f->batch_max * a_token,
                                          f->logits_max * (uint64_t)m->vocab);
}

int forward_use_device(struct forward *f, struct device *d, struct fail *why)
{
    const int rc = matmul_use_device(f->matmul, d, results_bytes_max(f), why);
    if (rc < 0) return -1;
    if (rc) { /* activations are converted to memory of the device */
        buddy_free(f->pool, f->part[PART_ACTS]);
        f->part[PART_ACTS] = NULL;
    }
    return 0;
}

uint32_t forward_logits_max(const struct forward *f) { return f->logits_max; }

/* ---- Times ----------------------------------------------------------------------------------- */

const char *forward_op_name(enum forward_op op) { return op_names[op]; }

void forward_times_enable(struct forward *f, int on)
{
    if (on) memset(f->times, 0, (size_t)(f->m->layers + 1) * FORWARD_OPS * sizeof(*f->times));
    f->times_on = on;
}

void forward_times(const struct forward *f, uint32_t layer, enum forward_op op, uint64_t *ns,
                   uint64_t *calls)
{
    const struct forward_time *t = &f->times[layer * FORWARD_OPS + op];
    *ns = sonde_ticks_ns(t->ticks);
    *calls = t->calls;
}

/* What was done since the last one of these was this operation. */
static void op_done(struct forward *f, enum forward_op op)
{
    if (!f->times_on) return;
    const uint64_t now = sonde_ticks();
    struct forward_time *t = &f->times[f->layer * FORWARD_OPS + op];
    t->ticks += now - f->before;
    t->calls++;
    f->before = now;
}

static void pass_begin(struct forward *f)
{
    f->timed = sonde_is_enabled();
    matmul_pass_begin(f->matmul, f->timed);
    if (!f->timed && !f->times_on) return;
    f->attention_ticks = f->attention_count = 0;
    f->pass_begin = f->before = sonde_ticks();
}

static void pass_end(struct forward *f)
{
    if (!f->timed) return;
    const uint64_t products = matmul_pass_end(f->matmul);
    const uint64_t all = sonde_ticks() - f->pass_begin;
    sonde_device_op_record_mean(f->attention_op, sonde_ticks_ns(f->attention_ticks),
                                f->attention_count);
    sonde_device_op_record(f->other_op, sonde_ticks_ns(all - products - f->attention_ticks));
}

/* ---- Work by token --------------------------------------------------------------------------- */

/* work(f, row, thread) for all rows. */
static void rows_run(struct forward *f, void (*work)(void *f, uint32_t row, uint32_t thread))
{
    if (f->count > ALONE_TOKENS && team_threads(f->team) > 1) {
        team_run(f->team, f->count, work, f);
        return;
    }
    for (uint32_t i = 0; i < f->count; i++) work(f, i, 0);
}

static void row_embed(void *arg, uint32_t row, uint32_t thread)
{
    (void)thread;
    struct forward *f = arg;
    const struct forward_token *t = &f->tokens[row];
    assert(t->token >= 0 && (uint32_t)t->token < f->m->vocab);
    f->ops->row_to_floats(&f->m->tok_embd, (uint32_t)t->token, f->x + (size_t)row * f->m->embd);
    rope_table(f->m, t->position, f->rope + (size_t)row * f->m->rope_dims);
}

static void row_norm(struct forward *f, uint32_t row, const float *gain)
{
    const size_t at = (size_t)row * f->m->embd;
    f->ops->rms_norm(f->x + at, gain, f->m->embd, f->m->norm_epsilon, f->h + at);
}

static void row_attn_norm(void *arg, uint32_t row, uint32_t thread)
{
    (void)thread;
    struct forward *f = arg;
    row_norm(f, row, f->m->layer[f->layer].attn_norm);
}

static void row_ffn_norm(void *arg, uint32_t row, uint32_t thread)
{
    (void)thread;
    struct forward *f = arg;
    row_norm(f, row, f->m->layer[f->layer].ffn_norm);
}

static void row_output_norm(void *arg, uint32_t row, uint32_t thread)
{
    (void)thread;
    struct forward *f = arg;
    row_norm(f, row, f->m->output_norm);
}

static void row_scale(const struct forward *f, float *x, float by, uint32_t n)
{
    if (by != 1) f->ops->scale(x, by, n);
}

/* Keys and values of a token, turned, into the cache. */
static void row_store(void *arg, uint32_t row, uint32_t thread)
{
    (void)thread;
    struct forward *f = arg;
    const struct model *m = f->m;
    const struct model_layer *y = &m->layer[f->layer];
    const uint32_t n = m->heads_kv * m->head_dim;
    float *k = f->k + (size_t)row * n, *v = f->v + (size_t)row * n;
    row_scale(f, k, y->k_scale, n);
    row_scale(f, v, y->v_scale, n);
    rope_apply(m, f->rope + (size_t)row * m->rope_dims, k, m->heads_kv);
    const struct attention_row *at = &f->rows[row];
    for (uint32_t h = 0; h < m->heads_kv; h++) {
        f->ops->f16_from_floats(k + h * m->head_dim, m->head_dim,
                                kv_key(f->kv, at->slot, f->layer, h, at->position));
        f->ops->f16_from_floats(v + h * m->head_dim, m->head_dim,
                                kv_value(f->kv, at->slot, f->layer, h, at->position));
    }
}

static void row_query(void *arg, uint32_t row, uint32_t thread)
{
    (void)thread;
    struct forward *f = arg;
    const struct model *m = f->m;
    const uint32_t n = m->heads * m->head_dim;
    float *q = f->q + (size_t)row * n;
    row_scale(f, q, m->layer[f->layer].q_scale, n);
    rope_apply(m, f->rope + (size_t)f->row_token[row] * m->rope_dims, q, m->heads);
    f->ops->f16_from_floats(q, n, f->q16 + (size_t)row * n);
}

static void row_attn_sub_norm(void *arg, uint32_t row, uint32_t thread)
{
    (void)thread;
    struct forward *f = arg;
    const uint32_t n = f->m->heads * f->m->head_dim;
    float *x = f->q + (size_t)row * n;
    f->ops->rms_norm(x, f->m->layer[f->layer].attn_sub_norm, n, f->m->norm_epsilon, x);
}

static void row_activate(void *arg, uint32_t row, uint32_t thread)
{
    (void)thread;
    struct forward *f = arg;
    const struct model *m = f->m;
    const struct model_layer *y = &m->layer[f->layer];
    float *gate = f->gate + (size_t)row * m->ff, *up = f->up + (size_t)row * m->ff;
    row_scale(f, gate, y->gate_scale, m->ff);
    row_scale(f, up, y->up_scale, m->ff);
    if (m->form->relu2) f->ops->relu2_mul(gate, up, m->ff);
    else f->ops->silu_mul(gate, up, m->ff);
    if (y->ffn_sub_norm) f->ops->rms_norm(gate, y->ffn_sub_norm, m->ff, m->norm_epsilon, gate);
}

static void row_add(struct forward *f, uint32_t row, float scale)
{
    const size_t at = (size_t)row * f->m->embd;
    row_scale(f, f->h + at, scale, f->m->embd);
    f->ops->add(f->x + at, f->h + at, f->m->embd);
}

static void row_add_attention(void *arg, uint32_t row, uint32_t thread)
{
    (void)thread;
    struct forward *f = arg;
    row_add(f, row, f->m->layer[f->layer].o_scale);
}

static void row_add_ffn(void *arg, uint32_t row, uint32_t thread)
{
    (void)thread;
    struct forward *f = arg;
    row_add(f, row, f->m->layer[f->layer].down_scale);
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static void forward_product(struct forward *f, const struct weight *w, const float *x, float *out)
{
    const struct matmul_product p = { w, out, w->rows };
    matmul_run(f->matmul, x, w->cols, f->count, &p, 1);
}

/* Only rows that want logits go on: x and h close up. */
static void rows_close_up(struct forward *f)
{
    const size_t row_bytes = f->m->embd * sizeof(float);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        if (!f->tokens[i].wants_logits) continue;
        if (kept != i) {
            memcpy(f->x + (size_t)kept * f->m->embd, f->x + (size_t)i * f->m->embd, row_bytes);
            memcpy(f->h + (size_t)kept * f->m->embd, f->h + (size_t)i * f->m->embd, row_bytes);
        }
        f->rows[kept] = f->rows[i];
        f->row_token[kept++] = i;
    }
    f->count = kept;
    attention_plan(&f->attention, f->rows, f->count);
}

static void layer_attention(struct forward *f)
{
    const struct model *m = f->m;
    const struct model_layer *y = &m->layer[f->layer];
    const int last = f->layer + 1 == m->layers;
    rows_run(f, row_attn_norm);
    op_done(f, FORWARD_NORM);

    const struct matmul_product products[] = {
        { &y->k, f->k, y->k.rows }, { &y->v, f->v, y->v.rows }, { &y->q, f->q, y->q.rows } };
    matmul_run(f->matmul, f->h, m->embd, f->count, products, last ? 2 : 3);
    op_done(f, FORWARD_QKV);
    rows_run(f, row_store);
    if (last) {
        rows_close_up(f);
        if (!f->count) return;
        op_done(f, FORWARD_ROPE);
        forward_product(f, &y->q, f->h, f->q);
        op_done(f, FORWARD_QKV);
    }
    rows_run(f, row_query);
    op_done(f, FORWARD_ROPE);

    const uint64_t begin = f->timed ? sonde_ticks() : 0;
    attention_run(&f->attention, f->rows, f->layer, f->q16, f->q);
    if (f->timed) {
        f->attention_ticks += sonde_ticks() - begin;
        f->attention_count++;
    }
    op_done(f, FORWARD_ATTENTION);
    if (y->attn_sub_norm) {
        rows_run(f, row_attn_sub_norm);
        op_done(f, FORWARD_NORM);
    }
    forward_product(f, &y->o, f->q, f->h);
    rows_run(f, row_add_attention);
    op_done(f, FORWARD_ATTN_OUT);
}

static void layer_feed_forward(struct forward *f)
{
    const struct model *m = f->m;
    const struct model_layer *y = &m->layer[f->layer];
    rows_run(f, row_ffn_norm);
    op_done(f, FORWARD_NORM);
    const struct matmul_product products[] = { { &y->gate, f->gate, m->ff },
                                               { &y->up, f->up, m->ff } };
    matmul_run(f->matmul, f->h, m->embd, f->count, products, 2);
    op_done(f, FORWARD_FFN_UP);
    rows_run(f, row_activate);
    op_done(f, FORWARD_ACTIVATION);
    forward_product(f, &y->down, f->gate, f->h);
    rows_run(f, row_add_ffn);
    op_done(f, FORWARD_FFN_DOWN);
}

void forward_run(struct forward *f, const struct forward_token *tokens, uint32_t count,
                 const float **logits)
{
    const struct model *m = f->m;
    assert(count <= f->batch_max);
    pass_begin(f);
    f->tokens = tokens;
    f->count = count;
    f->layer = m->layers;
    for (uint32_t i = 0; i < count; i++) {
        f->rows[i] = (struct attention_row){ tokens[i].slot, tokens[i].position };
        f->row_token[i] = i;
    }
    attention_plan(&f->attention, f->rows, count);
    rows_run(f, row_embed);
    op_done(f, FORWARD_EMBED);

    for (f->layer = 0; f->layer < m->layers && f->count; f->layer++) {
        layer_attention(f);
        if (f->count) layer_feed_forward(f);
    }
    f->layer = m->layers;
    if (f->count) {
        assert(f->count <= f->logits_max);
        rows_run(f, row_output_norm);
        op_done(f, FORWARD_NORM);
        forward_product(f, &m->output, f->h, f->logits);
        op_done(f, FORWARD_LOGITS);
    }
    pass_end(f);
    if (logits) *logits = f->count ? f->logits : NULL;
}
