/* weight.h - the kinds of numbers that tensors are made of, and a matrix of them.
 *
 *   type    numbers in a block   bytes   layout
 *   F32     1                    4
 *   F16     1                    2
 *   Q8_0    32                   34      f16 d; int8[32]                        x = d·q
 *   Q4_0    32                   18      f16 d; 16 bytes: low nibbles first 16   x = d·(q − 8)
 *   TQ2_0   256                  66      64 bytes of 2-bit codes; f16 d         x = d·(q − 1)
 *   I2_S    128                  32      2-bit codes, one f32 scale a tensor    x = scale·(q − 1)
 *
 * Codes of TQ2_0: of each half (128 numbers, 32 bytes) number 32·n + j is in byte j, shift 2·n.
 * Codes of I2_S: of a block, number j is in byte j % 32, shift 6 − 2·(j / 32). */
#ifndef ENGINE_FILE_WEIGHT_H
#define ENGINE_FILE_WEIGHT_H

#include <stddef.h>
#include <stdint.h>

enum weight_type { /* as in GGUF files */
    WEIGHT_F32 = 0,
    WEIGHT_F16 = 1,
    WEIGHT_Q4_0 = 2,
    WEIGHT_Q8_0 = 8,
    WEIGHT_TQ2_0 = 35,
    WEIGHT_I2_S = 36,
};

struct weight_kind {
    enum weight_type type;
    const char *name;            /* "Q8_0" */
    uint32_t block, block_bytes;
    uint32_t file_type;          /* general.file_type of a file that is mostly this */
};

/* NULL: not one that this engine reads. */
const struct weight_kind *weight_kind(uint32_t type);
const struct weight_kind *weight_kind_named(const char *name); /* any case */

/* rows × cols numbers, row after row; cols is what a row is multiplied with. */
struct weight {
    enum weight_type type;
    uint32_t cols, rows;
    uint64_t row_bytes;
    const void *data;            /* borrowed, of the file or of a pool */
    float scale;                 /* I2_S: of the tensor; else 1 */
};

/* Bytes of a row; of a whole tensor (I2_S has its scale behind it: + 32). */
uint64_t weight_row_bytes(enum weight_type type, uint64_t cols);
uint64_t weight_bytes(enum weight_type type, uint64_t cols, uint64_t rows);

/* Reference conversions, row by row: what the kernels in math/ are tested against. */
void weight_row_to_floats(const struct weight *w, uint32_t row, float *out);
/* n is a multiple of the block; scale: I2_S only, else ignored. */
void weight_row_from_floats(enum weight_type type, const float *x, uint64_t n, float scale,
                            void *out);

/* The scale that I2_S of these numbers has: the absolute mean, as BitNet b1.58 has it; of numbers
 * that are ternary already (made so by a converter) their magnitude, so that they stay what they
 * are. */
float weight_ternary_scale(const float *x, uint64_t n);

float weight_f16_to_float(uint16_t h);
uint16_t weight_f16_from_float(float f); /* round to nearest, ties to even */

#endif
