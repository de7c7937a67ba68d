/* kernel.h - the arithmetic of a forward pass, in variants for the CPU at hand.
 *
 * Every number that comes out is the same sum in the same order, whatever else is computed in the
 * same call: a matrix product adds up each output by itself, along the columns, in vector lanes
 * that are added at the end in a fixed order. So a token's result does not depend on its batch, on
 * the thread that computed it or on how many there are: determinism costs nothing here, and is
 * always on. (Results of two variants differ in the last bits.)
 *
 * Activations are turned to what the weights are multiplied with, as llama.cpp does it, so that
 * both engines compute the same: F32 with floats, F16 with f16, Q8_0 and Q4_0 with blocks of 32
 * int8 and an f16 scale (Q8_0), TQ2_0 with blocks of 256 int8 and an f32 scale (Q8_K), I2_S with
 * int8 and a scale a row, 127/max|x|. */
#ifndef ENGINE_MATH_KERNEL_H
#define ENGINE_MATH_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "file/weight.h"

struct kernel_ops {
    const char *name;            /* "avx512", "avx2", "portable" */
    int (*usable)(void);         /* on this CPU */

    /* Bytes of a row of activations for weights of this type, and turning floats to it. */
    size_t (*acts_bytes)(enum weight_type type, uint32_t cols);
    void (*acts_from_floats)(enum weight_type type, const float *x, uint32_t cols, void *acts);

    /* out[t · out_stride + r] = row r of w · activations t, for rows from begin to before end and
     * all t below count. acts: rows of acts_bytes() each, one after the other. */
    void (*matmul)(const struct weight *w, uint32_t begin, uint32_t end, const void *acts,
                   uint32_t count, float *out, size_t out_stride);

    /* One row of w as floats (embeddings). */
    void (*row_to_floats)(const struct weight *w, uint32_t row, float *out);

    void (*rms_norm)(const float *x, const float *gain, uint32_t n, float epsilon, float *out);
    void (*add)(float *x, const float *y, uint32_t n);                /* x += y */
    void (*scale)(float *x, float by, uint32_t n);
    void (*silu_mul)(float *gate, const float *up, uint32_t n);       /* gate = silu(gate)·up */
    void (*relu2_mul)(float *gate, const float *up, uint32_t n);      /* gate = max(gate, 0)²·up */

    void (*f16_from_floats)(const float *x, uint32_t n, uint16_t *out);
    float (*dot_f16)(const uint16_t *a, const uint16_t *b, uint32_t n); /* summed as f32 */
    void (*softmax)(float *x, uint32_t n);                            /* in place */
    /* acc[i] += v[i] · by: values of the KV cache, weighted */
    void (*add_f16)(float *acc, const uint16_t *v, float by, uint32_t n);

    /* Attention of one head over positions whose keys or values (f16, head_dim of each) are one
     * after the other: out[i] = q · key i · scale; and acc += Σ weights[i] · value i, position by
     * position, so that it does not matter where a longer sequence is cut. */
    void (*scores_f16)(const uint16_t *q, const uint16_t *keys, uint32_t positions,
                       uint32_t head_dim, float scale, float *out);
    void (*weighted_sum_f16)(const uint16_t *values, const float *weights, uint32_t positions,
                             uint32_t head_dim, float *acc);
};

/* The best one that is usable; or the one that SONDE_ENGINE_KERNEL names, NULL if there is no such
 * or it is not usable here. */
const struct kernel_ops *kernel_choose(void);
int kernel_refuse(struct fail *why); /* -1: why it chose none */
const struct kernel_ops *kernel_named(const char *name);
/* All there are, best first, NULL at the end; those not usable here too. */
const struct kernel_ops *const *kernel_all(void);

#endif
