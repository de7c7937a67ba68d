/* gpus.h - the GPUs that processes of a profile used, for the rules about them: by the series of
 * devices that the agent keeps (collect/gpu/). Others of the machine are nobody's concern here: a
 * program that computes on the CPU leaves the GPU idle, and that is no finding. */
#ifndef SONDE_ANALYZE_FINDING_GPUS_H
#define SONDE_ANALYZE_FINDING_GPUS_H

#include "analyze/finding/rule.h"

enum { FINDING_GPUS_MAX = 32 };

struct finding_gpu {
    char label[24];          /* `gpu="0"`, for struct finding_series */
    char subject[24];        /* "GPU 0" */
};

/* How many; 0 = none, or no process is known to use one. */
size_t finding_gpus(const struct finding_look *l, struct finding_gpu out[static FINDING_GPUS_MAX]);

/* A series of one, with one more label if other is not NULL (`reason="power"`). label is where the
 * two are written. */
struct finding_series finding_gpu_series(const struct finding_gpu *g, const char *family,
                                         const char *other, char label[static 64]);

#endif
