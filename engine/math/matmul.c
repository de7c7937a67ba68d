/* matmul.c - products of one input by a team: convert what the input has to be, then rows in
 * pieces.
 *
 * A piece is some rows of one product with all tokens of the call: a group of rows is read from
 * memory once, and stays in the cache while the tokens pass. Pieces are small enough that no thread
 * waits long for the last one, and large enough that claiming one is nothing; products that a
 * single thread is done with before another one is awake are not shared. */
#include "math/matmul.h"

#include <assert.h>
#include <stdlib.h>

#include "math/acts.h"
#include "math/offload.h"
#include "sonde/engine.h"

enum {
    PIECE_ROWS = 32,             /* what the kernels like: a multiple of their groups */
    PIECES_PER_THREAD = 4,
    ALONE_BYTES = 32 * 1024,     /* of weights times tokens: a few microseconds */
};

/* Of a pass. Sonde is told at its end, of each product the mean of the pass, so that their number
 * and their time in all are exact: telling each when it is done cost half a percent of a token of a
 * small model, since a product reads its weights through the caches, and the histogram's cells have
 * to be fetched again after it. The clock is read once for all products of one input. */
struct matmul_time { struct sonde_device_op op; uint64_t ticks, count; };

struct matmul {
    struct team *team;
    const struct kernel_ops *ops;
    char *acts;
    size_t acts_bytes_max;
    int timed;
    struct matmul_time product, quantize;
    struct offload offload;
};

void matmul_pass_begin(struct matmul *m, int timed)
{
    m->timed = timed;
    m->product.ticks = m->product.count = m->quantize.ticks = m->quantize.count = 0;
    offload_pass_begin(&m->offload);
}

uint64_t matmul_pass_end(struct matmul *m)
{
    sonde_device_op_record_mean(m->product.op, sonde_ticks_ns(m->product.ticks), m->product.count);
    sonde_device_op_record_mean(m->quantize.op, sonde_ticks_ns(m->quantize.ticks),
                                m->quantize.count);
    return m->product.ticks + m->quantize.ticks + offload_pass_end(&m->offload);
}

int matmul_create(struct team *team, const struct kernel_ops *ops, void *acts,
                  size_t acts_bytes_max, struct matmul **out, struct fail *why)
{
    struct matmul *m = calloc(1, sizeof(*m));
    if (!m) return fail_set(why, "no memory for matrix products");
    m->team = team;
    m->ops = ops;
    m->acts = acts;
    m->acts_bytes_max = acts_bytes_max;
    m->product.op = sonde_device_op("cpu", "matmul");
    m->quantize.op = sonde_device_op("cpu", "quantize");
    *out = m;
    return 0;
}

void matmul_destroy(struct matmul *m) { free(m); }

int matmul_use_device(struct matmul *m, struct device *d, size_t out_bytes_max, struct fail *why)
{
    void *staging = NULL;
    const enum device_refusal refusal =
        d->ops->reserve(d, m->acts_bytes_max, out_bytes_max, &staging);
    if (refusal) {
        return fail_set(why, "%s, %s, has no room for the %zu bytes of activations and results of "
                        "a pass (%s): give smaller passes, or more of its memory", d->name,
                        d->title, m->acts_bytes_max + out_bytes_max, device_refusal_name(refusal));
    }
    offload_open(&m->offload, d);
    if (!staging) return 0;
    m->acts = staging;
    return 1;
}

/* ---- Activations ----------------------------------------------------------------------------- */

struct matmul_convert {
    const struct kernel_ops *ops;
    enum weight_type type;
    const float *x;
    size_t x_stride, bytes;
    uint32_t cols;
    char *acts;
};

static void convert_token(void *arg, uint32_t token, uint32_t thread)
{
    (void)thread;
    const struct matmul_convert *c = arg;
    c->ops->acts_from_floats(c->type, c->x + token * c->x_stride, c->cols,
                             c->acts + token * c->bytes);
}

static void matmul_convert(struct matmul *m, struct matmul_convert *c, uint32_t count)
{
    if ((uint64_t)count * c->cols * sizeof(float) <= ALONE_BYTES) {
        for (uint32_t t = 0; t < count; t++) convert_token(c, t, 0);
    } else {
        team_run(m->team, count, convert_token, c);
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

struct matmul_pass { /* products that use the same activations */
    const struct kernel_ops *ops;
    const char *acts;
    const struct matmul_product *product;
    uint32_t count, rows_a_piece;
};

static void multiply_piece(void *arg, uint32_t piece, uint32_t thread)
{
    (void)thread;
    const struct matmul_pass *p = arg;
    const struct weight *w = p->product->w;
    const uint32_t begin = piece * p->rows_a_piece;
    const uint32_t end = w->rows - begin > p->rows_a_piece ? begin + p->rows_a_piece : w->rows;
    p->ops->matmul(w, begin, end, p->acts, p->count, p->product->out, p->product->stride);
}

static void matmul_multiply(struct matmul *m, struct matmul_pass *p)
{
    const struct weight *w = p->product->w;
    const uint64_t wanted = (uint64_t)team_threads(m->team) * PIECES_PER_THREAD * PIECE_ROWS;
    const uint32_t groups = (uint32_t)(w->rows / wanted) + 1;
    p->rows_a_piece = groups * PIECE_ROWS;
    if (w->rows * w->row_bytes * p->count <= ALONE_BYTES || team_threads(m->team) == 1) {
        p->ops->matmul(w, 0, w->rows, p->acts, p->count, p->product->out, p->product->stride);
    } else {
        const uint32_t pieces = (w->rows + p->rows_a_piece - 1) / p->rows_a_piece;
        team_run(m->team, pieces, multiply_piece, p);
    }
}

/* Products that use the same activations, which were converted at `begin`: by the device, and the
 * rest by the team. Ticks of the team. */
static uint64_t matmul_group(struct matmul *m, const struct matmul_product *group, uint32_t n,
                             uint32_t count, uint64_t begin)
{
    uint32_t done = 0;
    if (m->offload.device) {
        done = offload_run(&m->offload, m->acts, count, group, n, m->timed);
        if (done == (1u << n) - 1) return 0;
        begin = m->timed ? sonde_ticks() : 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (done & 1u << i) continue;
        struct matmul_pass p = { m->ops, m->acts, &group[i], count, 0 };
        matmul_multiply(m, &p);
        m->product.count++;
    }
    return m->timed ? sonde_ticks() - begin : 0;
}

/* Tokens are taken in parts if their activations do not fit all at once. */
static void matmul_part(struct matmul *m, const float *x, size_t x_stride, uint32_t count,
                        size_t skip, const struct matmul_product *products, uint32_t products_count)
{
    uint32_t done = 0; /* a bit each */
    for (uint32_t i = 0; i < products_count; i++) {
        if (done & 1u << i) continue;
        const struct weight *w = products[i].w;
        struct matmul_convert c = { m->ops, w->type, x, x_stride,
                                    m->ops->acts_bytes(w->type, w->cols), w->cols, m->acts };
        const uint64_t begin = m->timed ? sonde_ticks() : 0;
        matmul_convert(m, &c, count);
        const uint64_t converted = m->timed ? sonde_ticks() : 0;
        m->quantize.ticks += converted - begin;
        m->quantize.count++;
        struct matmul_product group[MATMUL_PRODUCTS_MAX];
        uint32_t n = 0;
        for (uint32_t j = i; j < products_count; j++) {
            if (!acts_same(w->type, products[j].w->type)) continue;
            group[n] = products[j];
            group[n++].out += skip * products[j].stride;
            done |= 1u << j;
        }
        m->product.ticks += matmul_group(m, group, n, count, converted);
    }
}

void matmul_run(struct matmul *m, const float *x, size_t x_stride, uint32_t count,
                const struct matmul_product *products, uint32_t products_count)
{
    assert(products_count <= MATMUL_PRODUCTS_MAX);
    size_t bytes = 1;
    for (uint32_t i = 0; i < products_count; i++) {
        const size_t n = m->ops->acts_bytes(products[i].w->type, products[i].w->cols);
        if (n > bytes) bytes = n;
    }
    const size_t fit = m->acts_bytes_max / bytes;
    assert(fit);
    for (uint32_t at = 0; at < count;) {
        const uint32_t n = count - at < fit ? count - at : (uint32_t)fit;
        matmul_part(m, x + at * x_stride, x_stride, n, at, products, products_count);
        at += n;
    }
}
