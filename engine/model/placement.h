/* placement.h - a model's matrices to a device that computes products (math/device.h). */
#ifndef ENGINE_MODEL_PLACEMENT_H
#define ENGINE_MODEL_PLACEMENT_H

#include "math/device.h"
#include "model/forward.h"

struct placement {
    uint32_t matrices, kept;     /* that products are made with; of them, on the device */
    uint64_t bytes, kept_bytes;
    enum device_refusal refusal; /* of the first that is not */
    char text[256];              /* all that, in a sentence */
};

/* Passes of f use the device from now on: room for activations first, which has to be there (-1:
 * why), then matrices in the order of layers, as many as it takes; products of the others stay with
 * the CPU. The device has to outlive f. */
int model_place(const struct model *m, struct forward *f, struct device *d, struct placement *out,
                struct fail *why);

#endif
