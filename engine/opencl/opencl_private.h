/* opencl_private.h - what the files of opencl/ share.
 *
 * Memory of the device, told as pools: weights (a buffer for each matrix), activations (one buffer
 * for what goes in, one for what comes out), staging (of the host, which the driver can copy from
 * without another copy). One queue, in order: a multiply() is
 *
 *   write activations ─▶ a kernel for each product ─▶ a read for each product ─▶ finish
 *
 * and each of these has an event, whose times are those of the account. One caller at a time. */
#ifndef ENGINE_OPENCL_PRIVATE_H
#define ENGINE_OPENCL_PRIVATE_H

#include "opencl/library.h"
#include "opencl/opencl.h"
#include "sonde/engine.h"

/* products.cl */
const char *opencl_source(void);

/* ---- Which there are: choice.c --------------------------------------------------------------- */

enum { OPENCL_DEVICES_MAX = 32 };
struct opencl_found {
    cl_platform_id platform;
    cl_device_id id;
    cl_device_type type;
    cl_uint units;
    cl_ulong memory, buffer_max;
    char name[96], version[64], platform_name[64];
    const char *unusable;        /* why; NULL = it is not */
};
/* How many, numbered as they are found; -1: why not. */
int opencl_find(const struct opencl_library *cl, struct opencl_found out[OPENCL_DEVICES_MAX],
                struct fail *why);

/* ---- One device: device.c -------------------------------------------------------------------- */

enum { OPENCL_KERNELS_PER_TYPE = 2 }; /* of one token, of some */
enum { OPENCL_TOKENS = 4 };           /* of a work-item of the second */

struct opencl_kernel {
    enum weight_type type;
    const char *names[OPENCL_KERNELS_PER_TYPE];
    cl_kernel kernels[OPENCL_KERNELS_PER_TYPE];
    size_t group[OPENCL_KERNELS_PER_TYPE]; /* work-items of a group */
    int warm;                    /* was launched once */
};
enum { OPENCL_TYPES = 6 };

struct opencl_pool { struct sonde_allocator told; uint64_t bytes, peak_bytes; };

struct opencl_matrix {
    const void *data;            /* whose copy it is */
    cl_mem buffer;               /* NULL: refused */
    size_t bytes;
    enum device_refusal refusal;
};

struct opencl_device {
    struct device base;
    const struct opencl_library *cl;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_device_id id;
    int is_cpu;
    struct opencl_kernel kernels[OPENCL_TYPES];

    uint64_t memory_limit, memory_used, buffer_max;
    struct sonde_device told;
    struct opencl_pool weights, activations, staging;
    struct opencl_matrix *matrices; /* in order of data */
    size_t matrices_count, matrices_max;
    cl_mem acts, out, staged;    /* NULL = not reserved */
    size_t acts_bytes, out_bytes;
    void *staging_at;            /* staged, mapped */
    int lost;
};

/* A buffer of the device, counted in this pool. flags: as clCreateBuffer's. */
enum device_refusal opencl_buffer_create(struct opencl_device *d, struct opencl_pool *pool,
                                         cl_mem_flags flags, size_t bytes, cl_mem *out);
/* NULL is fine; *buffer is NULL then. */
void opencl_buffer_release(struct opencl_device *d, struct opencl_pool *pool, size_t bytes,
                           cl_mem *buffer);

/* It failed for good: said once, and never used again. */
enum device_refusal opencl_lose(struct opencl_device *d, const char *call, cl_int error);
/* What an error means: of memory it recovers, of all else not. */
enum device_refusal opencl_refusal(struct opencl_device *d, const char *call, cl_int error);

/* ---- Products: products.c -------------------------------------------------------------------- */

enum device_refusal opencl_keep(struct device *d, const struct weight *w);
enum device_refusal opencl_weight_refusal(const struct device *d, const struct weight *w);
enum device_refusal opencl_reserve(struct device *d, size_t acts_bytes, size_t out_bytes,
                                   void **staging);
enum device_refusal opencl_multiply(struct device *d, const void *acts, uint32_t count,
                                    const struct matmul_product *products, uint32_t products_count,
                                    struct device_account *account);

#endif
