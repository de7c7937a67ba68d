/* rope.h - rotary position embedding: pairs of numbers of queries and keys are turned by an angle
 * that grows with the position, each pair at its own speed. */
#ifndef ENGINE_MODEL_ROPE_H
#define ENGINE_MODEL_ROPE_H

#include "model/model.h"

/* Cosines and sines of one position: rope_dims floats, a pair for each pair. */
void rope_table(const struct model *m, uint32_t position, float *table);

/* Turns `heads` heads of head_dim numbers, one after the other, by such a table. */
void rope_apply(const struct model *m, const float *table, float *x, uint32_t heads);

#endif
