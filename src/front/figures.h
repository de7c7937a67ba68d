/* figures.h - an observer of the front that puts what it sees into the agent's model: requests,
 * latencies, tokens, errors, by route and model.
 *
 * The model's lock may be held for milliseconds by whoever renders it, and the front's thread
 * must not wait that long with streams in its hands. So figures are noted in memory of their own
 * first and go into the model when the lock is free, at the front's ticks. */
#ifndef SONDE_FRONT_FIGURES_H
#define SONDE_FRONT_FIGURES_H

#include "collect/model.h"
#include "front/front.h"

struct sonde_figures;

/* m is borrowed. SONDE_ENOMEM. */
int sonde_figures_create(struct sonde_model *m, struct sonde_figures **out);
/* The front has been stopped. NULL is fine. */
void sonde_figures_destroy(struct sonde_figures *g);
struct sonde_front_observer sonde_figures_observer(struct sonde_figures *g);

#endif
