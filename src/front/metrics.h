/* metrics.h - an observer of the front that tells the agent's model what it sees.
 *
 * Requests to measured routes become inference events (infer/tracker.h, source "front"), so
 * that they are worked out like those of engines that tell about themselves: time to first token,
 * percentiles by model and route, objectives, timelines. What only a proxy knows are series of its
 * own: answers by status, bytes, connections, what went wrong on the way. And each of those
 * requests is a span, the parent of what the upstream records with the traceparent it got.
 *
 * The model's lock may be held for milliseconds by whoever renders it, and the front's thread
 * must not wait that long with streams in its hands. So figures are kept in memory of their own
 * first and go into the model when the lock is free, at the front's ticks. */
#ifndef SONDE_FRONT_METRICS_H
#define SONDE_FRONT_METRICS_H

#include "model/model.h"
#include "front/front.h"

struct sonde_front_metrics;
struct sonde_infer_tracker;

/* Both are borrowed; tracker is of m, and NULL = there are only the front's own series.
 * SONDE_ENOMEM. */
int sonde_front_metrics_create(struct sonde_model *m, struct sonde_infer_tracker *tracker,
                               struct sonde_front_metrics **out);
/* The front has been stopped. NULL is fine. */
void sonde_front_metrics_destroy(struct sonde_front_metrics *g);
struct sonde_front_observer sonde_front_metrics_observer(struct sonde_front_metrics *g);

#endif
