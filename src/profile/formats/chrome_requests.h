/* chrome_requests.h - inference requests in the Trace Event Format: see chrome_requests.c. */
#ifndef SONDE_PROFILE_FORMATS_CHROME_REQUESTS_H
#define SONDE_PROFILE_FORMATS_CHROME_REQUESTS_H

#include "base/buf.h"
#include "profile/infer.h"
#include "profile/profile.h"

struct sonde_chrome_requests {
    const struct sonde_infer_request **list;  /* owned: those that pass the filter, by arrival */
    size_t count;
    uint64_t *ids;                            /* owned: theirs, in order */
};

/* Those of p that pass f: a thread or span has none. 0 or SONDE_ENOMEM. */
int sonde_chrome_requests_find(struct sonde_chrome_requests *r, const struct sonde_profile *p,
                               const struct sonde_profile_filter *f);
void sonde_chrome_requests_release(struct sonde_chrome_requests *r);

/* 1 if a span is a request that is shown anyway. */
int sonde_chrome_requests_has(const struct sonde_chrome_requests *r,
                              const struct sonde_profile *p, const struct sonde_profile_span *s);

/* Times count from base_ns; *events is how many were written, pids how many pids there can be. */
void sonde_chrome_requests_put(const struct sonde_chrome_requests *r, const char *program,
                               uint64_t base_ns, uint32_t pids, uint64_t *events,
                               struct sonde_buf *out);

#endif
