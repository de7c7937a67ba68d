/* heap_place.h - which function to name for memory that stays: not a wrapper of malloc that others
 * use as well, and whose memory they give back. */
#ifndef SONDE_ANALYZE_FINDING_HEAP_PLACE_H
#define SONDE_ANALYZE_FINDING_HEAP_PLACE_H

#include "analyze/heap_site.h"
#include "profile/heap.h"

struct finding_heap_place {
    struct heap_frame frame;     /* the place */
    struct heap_frame caller;    /* who calls it … */
    int has_caller;              /* … if that is known */
};

/* 0 = nothing is known of the site's stack. */
int finding_heap_place(const struct sonde_profile *p, const struct sonde_heap_site *s,
                       struct finding_heap_place *out);

#endif
