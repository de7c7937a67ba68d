/* cost_private.h - what the files of functions' costs share. */
#ifndef SONDE_ANALYZE_COST_PRIVATE_H
#define SONDE_ANALYZE_COST_PRIVATE_H

#include "analyze/cost.h"
#include "base/intern.h"

enum { COST_CALLERS = 6 };

struct cost_function {
    uint32_t name, module;         /* strings of the pool */
    float *self, *total;           /* by slot of a bin; one block */
    uint32_t callers[COST_CALLERS]; /* functions, + 1; 0 = none. Those that were seen most … */
    uint32_t calls[COST_CALLERS];  /* … by samples, about */
    uint64_t samples;              /* by itself */
    uint64_t stamp;                /* the last sample that it was counted for */
};

struct sonde_cost {
    struct sonde_cost_options o;
    size_t used;
    struct sonde_budget budget;
    struct sonde_strings pool;
    struct cost_function *functions;
    uint32_t count, cap;
    uint32_t *by_name;             /* string -> function + 1 */
    uint32_t by_name_count;
    float *whole;                  /* by slot */
    int64_t first, last;           /* bins that are there; last < first = none */
    double weight, events;         /* of all samples: what one stands for */
    uint64_t stamp;
};

static inline size_t cost_slot(const struct sonde_cost *c, int64_t bin)
{
    const int64_t r = bin % (int64_t)c->o.bins;
    return (size_t)(r < 0 ? r + (int64_t)c->o.bins : r);
}

#endif
