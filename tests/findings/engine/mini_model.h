/* mini_model.h - the model: layers of matrices, and a key and a value for each token in the KV
 * cache. */
#ifndef FINDINGS_MINI_MODEL_H
#define FINDINGS_MINI_MODEL_H

#include "mini_engine.h"

enum { MINI_LANES = 8, MINI_LAYERS = 2 }; /* tokens that are computed together */

/* kv: DIM, out; NULL = none */
struct mini_lane { uint16_t token; float *kv; const float *mean; float *logits; };

void mini_model_make(uint64_t *random);
/* A forward pass over these tokens. logits NULL = nothing is asked of it. */
void mini_model_pass(struct mini_lane *lanes, unsigned count, unsigned copies);
size_t mini_model_bytes(void);

#endif
