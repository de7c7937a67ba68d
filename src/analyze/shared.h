/* shared.h - whom a request shared its time with: the others in its forward passes, and those that
 * were worked for while it waited for its first work.
 *
 * A batch has one beginning and one end for all that are in it, so two requests of one process were
 * in the same batch exactly where their timelines have a part with the same two times. What waited
 * is divided as timelines divide it: of a batch that served several, each counts with its own
 * share, so that the parts of what was waited for never add up to more than the wait.
 *
 * It is handed requests and opens nothing. */
#ifndef SONDE_ANALYZE_SHARED_H
#define SONDE_ANALYZE_SHARED_H

#include <stddef.h>

#include "profile/infer.h"

struct sonde_shared_request {
    const struct sonde_infer_request *request; /* borrowed */
    uint64_t batches, tokens;    /* that both were in; the other's tokens in them */
    double seconds;              /* that these batches took */
};

struct sonde_shared_wait {
    const struct sonde_infer_request *request; /* borrowed */
    uint32_t kind;               /* enum sonde_phase_kind */
    const char *phase;           /* borrowed */
    double seconds;              /* of the wait */
};

struct sonde_shared {
    struct sonde_shared_request *requests; /* owned; most seconds first */
    size_t request_count;
    struct sonde_shared_wait *waits;       /* owned; alike */
    size_t wait_count;
    uint64_t batches;         /* of the request, that have their times */
    double batch_s;           /* and what they took in all */
    double wait_s;            /* arrival to its first work */
    int no_timeline;          /* its own was not kept: nothing is known */
    size_t others_unknown;    /* requests of that time whose timeline was not kept */
    int joined;               /* parts of a timeline were joined: batches in them are not counted */
};

/* all: requests of the time, r among them or not. 0 or SONDE_ENOMEM; release in any case. */
int sonde_shared_find(const struct sonde_infer_request *r,
                      const struct sonde_infer_request *const *all, size_t count,
                      struct sonde_shared *out);
void sonde_shared_release(struct sonde_shared *s);

#endif
