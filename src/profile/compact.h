/* compact.h - profiles that are kept for long: the part of one that is wanted, in as few rows as
 * say it.
 *
 * Adding takes samples of a time or of a process over to another profile, with the stacks, names
 * and spans that they need and nothing else. Folding makes one sample of all that have the same
 * stack, thread and kind within a step of time. Neither loses anything of weights and counts: those
 * of the parts add up to those of the whole, to the last nanosecond. */
#ifndef SONDE_PROFILE_COMPACT_H
#define SONDE_PROFILE_COMPACT_H

#include "profile/profile.h"

struct sonde_compact_part {
    uint64_t from_ns, to_ns;   /* samples of [from, to); 0 = open */
    uint32_t pid;              /* of this process; 0 = all */
    uint32_t kinds;            /* of kinds 1 << SONDE_SAMPLE_… that are set; 0 = all */
    int spans;                 /* also spans that one of these samples is inside of, and what those
                                  were begun for; and those that began before, which samples of an
                                  earlier part may be in */
    uint32_t others_max;       /* and for samples outside of any span, as those of a pool of
                                  workers, the spans that other threads of the process were in at
                                  that time, up to so many */
    int rebase;                /* addresses as offsets in files: wherever a process had them mapped,
                                  the same code is the same stack */
};

/* Add a part of `from` to p. SONDE_ENOMEM or SONDE_EFORMAT as adding a sample says: p holds some of
 * it then, and is good only to be destroyed. Facts of a heap and requests are not taken over. */
int sonde_compact_add(struct sonde_profile *p, const struct sonde_profile *from,
                      const struct sonde_compact_part *part);

enum sonde_compact_threads {
    SONDE_COMPACT_THREADS_KEEP,
    SONDE_COMPACT_THREADS_NAME,   /* those of a process that have the same name are one, without an
                                   * id */
    SONDE_COMPACT_THREADS_ALL,    /* those of all processes, alike */
};

/* One sample for each stack, thread, kind and step; its time is when the step begins (steps are
 * multiples of step_ns since 1970, which is not 0). Spans are dropped: after this no time is exact
 * enough to be inside of one. SONDE_ENOMEM. */
int sonde_compact_steps(struct sonde_profile *p, uint64_t step_ns,
                        enum sonde_compact_threads threads);

#endif
