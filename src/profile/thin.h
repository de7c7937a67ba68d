/* thin.h - less of the samples of a profile: those of a stretch of time, or the same ones in fewer
 * rows. */
#ifndef SONDE_PROFILE_THIN_H
#define SONDE_PROFILE_THIN_H

#include "profile/profile.h"

/* Keep samples of [from_ns, to_ns), unix time; to_ns 0 = open. Of blocked time, which has a length,
 * the part that is in it. Returns how many are left, at the front. */
uint32_t sonde_samples_cut(struct sonde_profile_sample *samples, uint32_t count, uint64_t from_ns,
                           uint64_t to_ns);

/* The same of a profile, and of its weights; samples without a time stay. */
void sonde_profile_cut(struct sonde_profile *p, uint64_t from_ns, uint64_t to_ns);

/* Make one row of samples that differ in nothing but their time within a slice of slice_ns (> 0):
 * weights and counts are added up, the time is that of the first. What is lost is when in its slice
 * a sample was, so also which span that is shorter than a slice it was in. */
void sonde_profile_thin(struct sonde_profile *p, uint64_t slice_ns);

/* Half of the rows, with their times: of two samples of a thread and kind that follow each other
 * one stands for both, drawn by their weights. Totals of threads stay exact; what a function has is
 * an estimate, as it was, of half as many samples. */
void sonde_profile_halve(struct sonde_profile *p);

#endif
