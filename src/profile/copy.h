/* copy.h - rows of one profile interned in another: under merging, compacting and the profiles of
 * single requests.
 *
 * Rows refer to each other by ids, and ids differ from profile to profile. A copy keeps a map from
 * old to new ids for every table, and makes a row in the target when it is first needed, with all
 * that it refers to. So a part of a profile takes nothing with it but what it needs, and copying
 * all rows in the order of their tables keeps that order.
 *
 *   struct sonde_profile_copy c;
 *   int rc = sonde_profile_copy_init(&c, to, from);
 *   if (!rc) rc = sonde_profile_copy_samples(&c, wanted, arg);
 *   sonde_profile_copy_release(&c);
 *
 * Whatever fails leaves a part of the rows in the target. */
#ifndef SONDE_PROFILE_COPY_H
#define SONDE_PROFILE_COPY_H

#include "profile/profile.h"

struct sonde_profile_copy {
    const struct sonde_profile *from; /* borrowed, as to */
    struct sonde_profile *to;
    int rebase;                       /* set after init: addresses become offsets in files, so that
                                         the same code is the same stack wherever it was mapped */
    int failed;                       /* some row could not be made: out of memory */
    int complete;                     /* sonde_profile_copy_tables has made all there are */
    uint32_t *strings, *modules, *functions, *locations, *stacks, *threads; /* owned; new id by old
                                                                               one, 0 = none yet */
    struct sonde_profile_line *lines; /* owned: those of the location being copied */
    uint32_t lines_cap;
};

/* SONDE_ENOMEM. To be released in either case. */
int sonde_profile_copy_init(struct sonde_profile_copy *c, struct sonde_profile *to,
                            const struct sonde_profile *from);
void sonde_profile_copy_release(struct sonde_profile_copy *c);

/* The new id of a row, which is made if need be. 0 for 0, and when out of memory. */
uint32_t sonde_profile_copy_thread(struct sonde_profile_copy *c, uint32_t id);

/* Every row of every table but samples and spans, needed or not: 0 or SONDE_ENOMEM. */
int sonde_profile_copy_tables(struct sonde_profile_copy *c);

/* Whether row number i of the source's samples or spans is to be copied. */
typedef int sonde_profile_copy_wanted(void *arg, uint32_t i);

/* Samples with their stacks; wanted NULL = all, else it is asked twice about each. SONDE_ENOMEM, or
 * SONDE_EFORMAT as sonde_profile_add_sample says. */
int sonde_profile_copy_samples(struct sonde_profile_copy *c, sonde_profile_copy_wanted *wanted,
                               void *arg);

/* Spans with their attributes, and with their parts if parts is set; wanted NULL = all.
 * SONDE_ENOMEM. */
int sonde_profile_copy_spans(struct sonde_profile_copy *c, sonde_profile_copy_wanted *wanted,
                             void *arg, int parts);

/* What the source says of itself: program, command, engine and host where the target does not say
 * it; the time, of which only [start_ns, end_ns) was copied; the rates, by how long each was
 * profiled. Not what was lost and dropped. SONDE_ENOMEM. */
int sonde_profile_copy_facts(struct sonde_profile_copy *c, uint64_t start_ns, uint64_t end_ns);

/* ---- As it stands ---------------------------------------------------------------------------- */

/* view: rows of p as they are now, in arrays of their own, and p's figures. It has no index: enough
 * to be read and copied from, while p goes on. Texts are p's own, which never move. Facts of heap,
 * requests and engines are left out. SONDE_ENOMEM; to be released in either case. */
int sonde_profile_view_init(struct sonde_profile *view, const struct sonde_profile *p);
void sonde_profile_view_release(struct sonde_profile *view);

#endif
