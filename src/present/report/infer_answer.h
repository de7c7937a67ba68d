/* infer_answer.h - the requests of a recording as an agent would have told of them: what
 * GET /api/inference and GET /api/requests answer (serve/api/api.h), over all of its time. */
#ifndef SONDE_PRESENT_REPORT_INFER_ANSWER_H
#define SONDE_PRESENT_REPORT_INFER_ANSWER_H

#include "base/buf.h"
#include "profile/profile.h"

/* Nothing runs or waits any more, and gaps between tokens are known by request alone: what an agent
 * says of those is null. p has requests or models. 0 or SONDE_ENOMEM. */
int sonde_infer_answer(const struct sonde_profile *p, struct sonde_buf *out);

/* The slowest `limit` of them, with their timelines. *count is how many that are. */
int sonde_requests_answer(const struct sonde_profile *p, size_t limit, size_t *count,
                          struct sonde_buf *out);

#endif
