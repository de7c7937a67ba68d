/* correlate.h - which series of a store move with a target. */
#ifndef SONDE_SERVE_API_CORRELATE_H
#define SONDE_SERVE_API_CORRELATE_H

#include "present/report/correlate.h"
#include "store/store.h"

#define SONDE_API_CORRELATE_S 500 /* how far back it looks if no start is given: at steps of 1 s */

/* Appends the answer (present/report/correlate.h). q has both ends of the range. SONDE_ENOENT:
 * there is no such series; others as the store says. */
int sonde_api_correlate(const struct sonde_store_ops *ops, struct sonde_store *s,
                        const struct sonde_correlate_query *q,
                        const struct sonde_correlate_style *style, struct sonde_buf *out,
                        struct sonde_err *err);

#endif
