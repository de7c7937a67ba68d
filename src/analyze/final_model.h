/* final_model.h - the series of a model that a report is made of (profile/final.h), as they are
 * now: of a live agent directly, and put into a recording at its end. */
#ifndef SONDE_ANALYZE_FINAL_MODEL_H
#define SONDE_ANALYZE_FINAL_MODEL_H

#include <stddef.h>

#include "profile/final.h"
#include "profile/track.h"
#include "sonde/sonde.h"

struct sonde_model;

/* What is kept: names of include/sonde/engine.h and of the ready-made records of sonde.h, and what
 * the labels that they are told apart by are called. */
struct sonde_final_family {
    const char *name;
    enum sonde_type type;
    const char *subject, *detail;    /* detail NULL = it has one label */
};
const struct sonde_final_family *sonde_final_family_find(const char *name); /* NULL = not kept */
const struct sonde_final_family *sonde_final_family_at(size_t i); /* all of them; NULL = no more */
/* The same of a track; of a histogram that of its count, and not that of its sum. */
const struct sonde_final_family *sonde_final_family_of_track(const struct sonde_track *t);

/* Of what m knows now (read lock, asserted); texts are borrowed from it. 0 or SONDE_ENOMEM. */
int sonde_final_of_model(const struct sonde_model *m, struct sonde_final *out);
void sonde_final_release(struct sonde_final *f); /* what _of_model filled */

/* The same into p, a recording. 0 or SONDE_ENOMEM. */
int sonde_final_complete_run(const struct sonde_model *m, struct sonde_profile *p);

/* Quantile q of what these histograms recorded, all together; scale: raw to exported unit. NaN if
 * they are empty, or their buckets are not known. Within 0.54 % of a recorded value. */
double sonde_final_quantile(const struct sonde_final_series *const *series, size_t count, double q,
                            double scale);

#endif
