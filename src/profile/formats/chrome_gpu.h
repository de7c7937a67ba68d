/* chrome_gpu.h - commands of GPUs in the Trace Event Format: a track for each queue. */
#ifndef SONDE_PROFILE_FORMATS_CHROME_GPU_H
#define SONDE_PROFILE_FORMATS_CHROME_GPU_H

#include "base/buf.h"
#include "profile/profile.h"

struct sonde_chrome_gpu {
    const struct sonde_profile *p;
    uint32_t *order;      /* owned: commands that are shown, by queue and start */
    uint32_t count;
};

/* Those of p that f lets through: of a time, and of a thread by its number or name; of spans and
 * traces there are none. 0 or SONDE_ENOMEM. */
int sonde_chrome_gpu_find(struct sonde_chrome_gpu *g, const struct sonde_profile *p,
                          const struct sonde_profile_filter *f);
void sonde_chrome_gpu_release(struct sonde_chrome_gpu *g);

/* When the first of them was queued; UINT64_MAX = there is none. */
uint64_t sonde_chrome_gpu_base(const struct sonde_chrome_gpu *g);

/* Their process has the number 3 × pids. Otherwise as sonde_chrome_requests_put. */
void sonde_chrome_gpu_put(const struct sonde_chrome_gpu *g, uint64_t base_ns, uint32_t pids,
                          uint64_t *events, struct sonde_buf *out);

#endif
