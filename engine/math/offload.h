/* offload.h - products that another device does, for matmul.c: which of them, and what sonde is
 * told of it. */
#ifndef ENGINE_MATH_OFFLOAD_H
#define ENGINE_MATH_OFFLOAD_H

#include "math/device.h"
#include "math/matmul.h"
#include "sonde/engine.h"

struct offload {
    struct device *device;       /* borrowed; NULL: the CPU does all */
    struct sonde_device_op product, copy;
    struct sonde_counter to, from; /* bytes */
    /* of the pass */
    struct device_account account;
    uint64_t products, ticks;    /* ticks: that the caller waited */
    uint32_t refused[DEVICE_REFUSALS];
};

void offload_open(struct offload *o, struct device *d);
void offload_pass_begin(struct offload *o);
/* Tells sonde; returns the ticks that the caller waited for the device. */
uint64_t offload_pass_end(struct offload *o);

/* Those of these products, which all use the same activations, that the device did: a bit each. */
uint32_t offload_run(struct offload *o, const void *acts, uint32_t count,
                     const struct matmul_product *products, uint32_t products_count, int timed);

#endif
