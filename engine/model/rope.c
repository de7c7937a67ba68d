/* rope.c - see rope.h.
 *
 * Pair i turns by position · base^(−2i/n) · scale / factor[i]. The angle is computed as llama.cpp
 * does, by multiplying on from pair to pair in single precision: at position 4000 an angle that is
 * computed exactly differs by 1e-4, which is enough for another token. It is computed once for a
 * token and not for every layer. */
#include "model/rope.h"

#include <math.h>

void rope_table(const struct model *m, uint32_t position, float *table)
{
    const float step = powf(m->rope_base, -2.0f / (float)m->rope_dims);
    float theta = (float)position;
    for (uint32_t i = 0; i < m->rope_dims / 2; i++) {
        const float angle = m->rope_scale * (m->rope_factors ? theta / m->rope_factors[i] : theta);
        table[2 * i] = cosf(angle);
        table[2 * i + 1] = sinf(angle);
        theta *= step;
    }
}

static void rope_turn(float *a, float *b, const float *turn)
{
    const float x = *a, y = *b;
    *a = x * turn[0] - y * turn[1];
    *b = x * turn[1] + y * turn[0];
}

void rope_apply(const struct model *m, const float *table, float *x, uint32_t heads)
{
    const uint32_t half = m->rope_dims / 2;
    for (uint32_t h = 0; h < heads; h++, x += m->head_dim) {
        if (m->form->rope_halves) {
            for (uint32_t i = 0; i < half; i++) rope_turn(&x[i], &x[i + half], &table[2 * i]);
        } else {
            for (uint32_t i = 0; i < half; i++) rope_turn(&x[2 * i], &x[2 * i + 1], &table[2 * i]);
        }
    }
}
