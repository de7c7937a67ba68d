/* lock_holder.h - who holds a lock that others wait for: nobody records it, but what the other
 * threads of the process did in just that time says it. */
#ifndef SONDE_ANALYZE_FINDING_LOCK_HOLDER_H
#define SONDE_ANALYZE_FINDING_LOCK_HOLDER_H

#include "analyze/finding/waits.h"

struct finding_lock_holder {
    uint32_t function;     /* where threads were while others waited: the one that waits for the
                              lock itself if it is that, else the innermost that is not inlined;
                              0 = not known */
    uint32_t inside;       /* the innermost in it, which may be inlined; 0 = none further in */
    uint32_t line;         /* of function: where it begins */
    double share;          /* of what other threads did meanwhile */
    double disk_share;     /* of it: they waited for the disk */
    uint32_t disk_call;    /* by this call mostly; 0 = none */
    uint64_t samples;      /* that this is known from */
};

/* Of the lock that is waited for at `site`. 0 or SONDE_ENOMEM. */
int finding_lock_holder(struct finding_look *l, const struct finding_wait_site *site,
                        struct finding_lock_holder *out);

#endif
