/* perf_parked.h - records of samples whose stacks cannot be told yet, kept for a moment: see
 * perf_outer.h. Copies, in the order they came. */
#ifndef SONDE_COLLECT_CPU_PERF_PARKED_H
#define SONDE_COLLECT_CPU_PERF_PARKED_H

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/cpu/perf_python_sample.h"

#define SONDE_PERF_PARKED_BYTES (4u << 20) /* at most; what comes then does not wait */

struct sonde_perf_parked {
    struct sonde_perf_parked *next;
    uint64_t time_ns;                   /* of the sample */
    uint64_t due_ns;                    /* when to look at it again */
    uint32_t pid;
    uint32_t tries;
    struct sonde_perf_python_sample python; /* that came with it; frames within this block */
    struct perf_event_header header;    /* and what follows it */
};

struct sonde_perf_lot {
    struct sonde_perf_parked *first, **last; /* last NULL = not used yet */
    size_t bytes;
};

/* python: what came with it; NULL = nothing. 0, or SONDE_EFULL, SONDE_ENOMEM: the caller goes on
 * without waiting. */
int sonde_perf_lot_put(struct sonde_perf_lot *l, const struct perf_event_header *h, uint32_t pid,
                       uint64_t time_ns, const struct sonde_perf_python_sample *python);

/* The first one that is due at now_ns (UINT64_MAX: any), of process pid (0 = any), taken out; NULL
 * = none. Free it, or put it back. *final: it will not wait any longer. */
struct sonde_perf_parked *sonde_perf_lot_take(struct sonde_perf_lot *l, uint64_t now_ns,
                                              uint32_t pid, int *final);
void sonde_perf_lot_back(struct sonde_perf_lot *l, struct sonde_perf_parked *p);
void sonde_perf_lot_free(struct sonde_perf_parked *p);
void sonde_perf_lot_release(struct sonde_perf_lot *l);

#endif
