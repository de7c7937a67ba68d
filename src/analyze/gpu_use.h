/* gpu_use.h - for whom a GPU worked: its time by phase and by request, out of the samples of a
 * profile and the spans that they were queued in.
 *
 * As profile/select/ has it: a command is of the innermost span of its thread when it was queued;
 * from there upwards, by parent and then by what encloses it, the first phase and the first request
 * are the ones that it is of. In a batch it counts for each request, and for prefill and decode, by
 * tokens. So the parts of one figure add up to the time of all samples, less what is in none. */
#ifndef SONDE_ANALYZE_GPU_USE_H
#define SONDE_ANALYZE_GPU_USE_H

#include "profile/gpu.h"
#include "profile/infer.h"
#include "profile/profile.h"

struct sonde_gpu_request { uint32_t index; double ns, commands; }; /* of p->infer */

struct sonde_gpu_use {
    double ns;                              /* of all commands with times */
    double phase_ns[SONDE_PHASE_COUNT];
    double no_phase_ns, no_request_ns;      /* in none */
    struct sonde_gpu_request *requests;     /* owned: those with any, most time first */
    uint32_t request_count;
};

/* 0 or SONDE_ENOMEM. Of a profile without commands all is 0. */
int sonde_gpu_use_of(const struct sonde_profile *p, struct sonde_gpu_use *out);
void sonde_gpu_use_release(struct sonde_gpu_use *u);

#endif
