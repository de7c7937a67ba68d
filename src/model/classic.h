/* classic.h - classic Prometheus buckets made of the fine exponential ones.
 *
 * 64 buckets an octave are too many to print as lines, so bounds are whole powers of two of the
 * exported unit. Those are bounds of fine buckets too: every count shown is exact.
 *
 * Users add up `le` series over processes and over time, which asks for two things. All series of
 * a family have the same bounds. And a bound once shown is shown for ever: each family keeps a
 * set (le_shown) that only grows, from the lowest to the highest octave that any of its series
 * has used. It grows by every power of two while it has at most 20; a wider range is covered
 * by every second or every fourth one only, so that 40 is the most there can ever be.
 *
 * A family may say which bounds its users expect (model.h): then those are shown, and were counted
 * as the values came.
 *
 * Rejected: bounds by unit, fixed from the start (they fit nobody); bounds per series (a sum by
 * (le) over series with different bounds is wrong); dropping bounds to stay under 20 (a series
 * that ends makes rate() and histogram_quantile() wrong).
 */
#ifndef SONDE_MODEL_CLASSIC_H
#define SONDE_MODEL_CLASSIC_H

#include "model/model.h"

#define SONDE_CLASSIC_MAX 97 /* powers of two from 2^-40 to 2^56 */

struct sonde_classic {
    size_t count;                     /* bounds, +Inf not among them */
    double bound[SONDE_CLASSIC_MAX];  /* ascending */
    uint8_t octave[SONDE_CLASSIC_MAX];
};

/* Widens f's set by what its series hold now. Under the read lock of f's model. */
void sonde_classic_bounds(struct sonde_model_family *f, struct sonde_classic *out);

/* cumulative[i]: values <= bound[i]. */
void sonde_classic_counts(const struct sonde_classic *c, const struct sonde_model_series *s,
                          uint64_t cumulative[SONDE_CLASSIC_MAX]);

/* The newest exemplar of each bucket, NULL where there is none; [c->count] is that of +Inf. */
void sonde_classic_exemplars(const struct sonde_classic *c, const struct sonde_model_series *s,
                             const struct sonde_exemplar *out[SONDE_CLASSIC_MAX + 1]);

#endif
