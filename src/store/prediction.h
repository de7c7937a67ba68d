/* prediction.h - predictions that were made, and how far off they were: one file of JSON lines, one
 * for each, so that it can be read with any tool:
 *
 *   {"id": "0123456789abcdef", "made_s": …, "recorded_s": …, "host": …, "model": …, "program": …,
 *    "rate": …, "slots": …, "batch_tokens": …, "requests": …, "tokens_in": …, "tokens_out": …,
 *    "knee": [value, low, high], "figures": {"ttft_p50_s": [value, low, high], …},
 *    "checked": {"s": …, "recorded_s": …, "rate": …, "figures": {"ttft_p50_s": …, …}}}
 *
 * It is always written anew and renamed, the oldest lines go first when there are too many. Of two
 * writers at once the last one wins, whole: a prediction may be lost then, no file is.
 *
 * Rejected: keeping them beside the recording they were made from, where the next one, of another
 * file, does not find them. */
#ifndef SONDE_STORE_PREDICTION_H
#define SONDE_STORE_PREDICTION_H

#include "analyze/predict/history.h"
#include "base/err.h"

#define SONDE_PREDICTIONS_BYTES_MAX ((size_t)8 << 20)

/* A file that is not there has none. SONDE_EFORMAT: a line is not a prediction; SONDE_EACCES,
 * SONDE_EIO, SONDE_EFULL, SONDE_ENOMEM. */
int sonde_predictions_load(const char *path, struct sonde_predictions *out, struct sonde_err *err);
/* The same of bytes in memory; name is how errors call them. */
int sonde_predictions_read(const char *data, size_t len, const char *name,
                           struct sonde_predictions *out, struct sonde_err *err);
int sonde_predictions_save(const struct sonde_predictions *p, const char *path,
                           struct sonde_err *err);

#endif
