/* device.h - what another device than the CPU has to do for matrix products: a back-end is a struct
 * that begins with `struct device` and a table of these functions (opencl/ is one).
 *
 * A product that a device did has the bits of the variant "portable" (kernel.h): each output is one
 * sum, added up in the same order and with the same roundings. So a token's result depends on
 * nothing but the model, here too. */
#ifndef ENGINE_MATH_DEVICE_H
#define ENGINE_MATH_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "file/weight.h"

struct matmul_product;
struct device;

/* Why it is the CPU that did a product: the reason of a fallback. */
enum device_refusal {
    DEVICE_DOES,
    DEVICE_UNSUPPORTED,          /* no kernel for this type of weights */
    DEVICE_OUT_OF_MEMORY,
    DEVICE_TOO_LARGE,            /* for one buffer of this device */
    DEVICE_LOST,                 /* it failed, and is not asked again */
    DEVICE_REFUSALS
};

static inline const char *device_refusal_name(enum device_refusal r)
{
    static const char *const names[DEVICE_REFUSALS] = { "none", "unsupported", "out_of_memory",
                                                        "too_large", "lost" };
    return names[r];
}

/* What some products took, by the device's clock. */
struct device_account {
    uint64_t matmul_ns, copy_ns, copies; /* products are counted by their caller */
    uint64_t to_bytes, from_bytes;
};

struct device_ops {
    /* Copies these weights to the device, once; they stay where they are for as long as it. */
    enum device_refusal (*keep)(struct device *d, const struct weight *w);
    /* Whether a product of these weights is one for multiply(). */
    enum device_refusal (*refusal)(const struct device *d, const struct weight *w);
    /* Room for activations and for results, of one multiply(). *staging: memory that activations
     * are best converted to, aligned to 64 bytes, the device's; NULL = any is as good. */
    enum device_refusal (*reserve)(struct device *d, size_t acts_bytes, size_t out_bytes,
                                   void **staging);
    /* All products use the same activations, count rows of them as acts.h has them, and
     * refusal() is DEVICE_DOES for all. When it returns the results are there, and if it does not
     * return DEVICE_DOES they are anything. *account is added to. */
    enum device_refusal (*multiply)(struct device *d, const void *acts, uint32_t count,
                                    const struct matmul_product *products, uint32_t products_count,
                                    struct device_account *account);
    void (*destroy)(struct device *d);
};

struct device {
    const struct device_ops *ops;
    char name[16];               /* "opencl0": for sonde */
    char title[160];             /* for people */
};

static inline void device_destroy(struct device *d) /* NULL is fine */
{
    if (d) d->ops->destroy(d);
}

#endif
