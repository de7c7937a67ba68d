/* requests.h - inference requests of any time, as JSON: those that run, and those that ended, from
 * the store as far back as that reaches, else from the model.
 *
 * A range of time is answered from the store alone where there is one, also for the last minute:
 * what it keeps of many is a sample, and a list of a minute must have the requests that a picture
 * of the day has in it. Only those that run, and timelines that it did not keep, come from the
 * model. */
#ifndef SONDE_SERVE_API_REQUESTS_H
#define SONDE_SERVE_API_REQUESTS_H

#include "base/buf.h"
#include "base/err.h"
#include "model/model.h"
#include "present/report/requests.h"
#include "store/store.h"

/* Where requests are. The model's read lock is taken here, for moments. */
struct sonde_api_past {
    struct sonde_model *m;
    const struct sonde_infer_tracker *tracker; /* of m; NULL = there is none */
    const struct sonde_store_ops *ops;
    struct sonde_store *store;   /* NULL = what is in the model is all */
};

/* For qsort() and bsearch(), of pointers to struct sonde_infer_request: by id, process and
 * source. */
int sonde_api_request_cmp_at(const void *a, const void *b);

/* As sonde_api_requests answers. Those of the store, if from or to is set, with "stored":true and
 * "seen" and "kept": of the time that was looked at, how many there were and are in the store;
 * "truncated": there was no memory for some. 0 or a negative SONDE_E…. */
int sonde_api_past_requests(const struct sonde_api_past *p, const struct sonde_requests_query *q,
                            struct sonde_buf *out, struct sonde_err *err);

/* The newest request that id names, alone. 1, 0 = there is none, or a negative SONDE_E…. */
int sonde_api_past_request(const struct sonde_api_past *p, const char *id, struct sonde_buf *out,
                           struct sonde_err *err);

/* {"time","metric","unit","from","to","step_s","edges":[…],"columns","rows",
 *  "cells":[[column,row,count,failed], …],"counted","kept","seen","truncated"}: requests by arrival
 * and by q's metric (analyze/heatmap.h); from and to are whole columns. Cells without any are left
 * out; failed: of a cell's, those that ended with an error, in time-out or not at all. A cell
 * counts what sonde_api_past_requests lists with the same q and its bounds. q has a
 * metric, from_s and to_s; columns and rows are at most so many, 0 = 120 and 40. */
int sonde_api_heatmap(const struct sonde_api_past *p, const struct sonde_requests_query *q,
                      uint32_t columns, uint32_t rows, struct sonde_buf *out,
                      struct sonde_err *err);

#endif
