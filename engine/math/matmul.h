/* matmul.h - a matrix product by a team of threads; those of a pass are an operation of the device
 * for sonde.
 *
 * Rows of the weights are cut into pieces; activations are converted once per call, in parallel,
 * and may be shared by several products of the same input (q, k and v; gate and up). */
#ifndef ENGINE_MATH_MATMUL_H
#define ENGINE_MATH_MATMUL_H

#include <stddef.h>
#include <stdint.h>

#include "math/kernel.h"
#include "math/team.h"

struct matmul;                   /* the team, the kernels, room for converted activations */

/* acts_bytes_max: room for converted activations, borrowed (of the activations pool), aligned to 64
 * bytes; a row of the widest matrix has to fit (ops->acts_bytes), and more tokens at once are
 * faster. */
int matmul_create(struct team *team, const struct kernel_ops *ops, void *acts,
                  size_t acts_bytes_max, struct matmul **out, struct fail *why);
void matmul_destroy(struct matmul *m);

/* From now on products whose weights this device keeps are computed there, if it can.
 * out_bytes_max: results of one matmul_run(). 1: the activations that were given are not needed any
 * more, the device has room of its own; 0: they are; -1: it has no room, and why. */
struct device;
int matmul_use_device(struct matmul *m, struct device *d, size_t out_bytes_max, struct fail *why);

/* Up to 4 products of the same input: outs[i][t · strides[i] + r] = ws[i] row r · x[t · x_stride].
 * All ws have the same cols; their types may differ. */
enum { MATMUL_PRODUCTS_MAX = 4 };
struct matmul_product { const struct weight *w; float *out; size_t stride; };
void matmul_run(struct matmul *m, const float *x, size_t x_stride, uint32_t count,
                const struct matmul_product *products, uint32_t products_count);

/* A pass begins: whether the clock is read in it. At its end sonde is told of its products and of
 * the conversions for them, how many and how long, on which device; returns the ticks of all. */
void matmul_pass_begin(struct matmul *m, int timed);
uint64_t matmul_pass_end(struct matmul *m);

#endif
