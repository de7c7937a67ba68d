/* sampler.h - choosing the next token. The same seed and the same logits choose the same tokens. */
#ifndef ENGINE_MODEL_SAMPLER_H
#define ENGINE_MODEL_SAMPLER_H

#include <stdint.h>

struct sampler_params {
    float temperature;           /* 0 = greedy: the largest logit, the lower token of equals */
    uint32_t top_k;              /* 0 = all */
    float top_p, min_p;          /* 1 and 0 = off */
    uint64_t seed;
};

struct sampler { struct sampler_params params; uint64_t state[4]; };

void sampler_init(struct sampler *s, const struct sampler_params *params);

struct sampler_scratch;          /* vocab candidates; one a thread that samples */
struct sampler_scratch *sampler_scratch_create(uint32_t vocab);
void sampler_scratch_destroy(struct sampler_scratch *scratch);

int32_t sampler_choose(struct sampler *s, struct sampler_scratch *scratch, const float *logits,
                       uint32_t vocab);

#endif
