/* engine.h - devices, pools and tokenizers of an inference engine (analyze/engine.h) as parts of
 * a report: text, Markdown, and the JSON that reports and GET /api/engine share. */
#ifndef SONDE_PRESENT_REPORT_ENGINE_H
#define SONDE_PRESENT_REPORT_ENGINE_H

#include "analyze/engine.h"
#include "base/buf.h"
#include "present/report/profile.h"

/* Parts of what there is; nothing if e is NULL. limit: rows of a table. */
void sonde_engine_report(const struct sonde_engine *e, const struct sonde_report_options *o,
                         size_t limit, struct sonde_buf *out);

/* Members "devices", "pools" and "tokenizers" of an open object: those of which there is
 * something. */
void sonde_engine_json(const struct sonde_engine *e, struct sonde_buf *out);

/* What GET /api/engine answers: all three, null = nothing. e may be NULL. */
void sonde_engine_answer(const struct sonde_engine *e, double time_s, struct sonde_buf *out);

/* What it would have answered at the end of the recording p. 0 or SONDE_ENOMEM. *any: it is not all
 * null. */
int sonde_engine_answer_run(const struct sonde_profile *p, int *any, struct sonde_buf *out);

#endif
