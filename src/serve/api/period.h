/* period.h - all that an agent knows of a time (store/period.h), for reports and run files. */
#ifndef SONDE_SERVE_API_PERIOD_H
#define SONDE_SERVE_API_PERIOD_H

#include "serve/http/route.h"
#include "store/period.h"

/* What was sampled since it was written last is written, if q goes up to now. */
void sonde_api_period_flush(const struct sonde_http_request *r,
                            const struct sonde_history_query *q);
/* As sonde_period_profile; what is not on disk yet is in it too. */
int sonde_api_period(const struct sonde_http_request *r, const struct sonde_history_query *q,
                     struct sonde_profile **out, struct sonde_err *err);

#endif
