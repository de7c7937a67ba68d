/* device.c - a device: opening it, its kernels, its memory, and what becomes of errors. */
#include <stdlib.h>
#include <string.h>

#include "opencl/opencl_private.h"

/* Work-items of a group: a CPU runs the items of a group one after the other, and groups on its
 * cores, so that they may be few; a GPU fills its lanes with a group. */
enum { GROUP_CPU = 16, GROUP_OTHER = 64, LOG_BYTES = 200 };

static const struct opencl_kernel opencl_kernels[OPENCL_TYPES] = {
    { WEIGHT_F32, { "matvec_f32", "matmul_f32" }, { NULL }, { 0 }, 0 },
    { WEIGHT_F16, { "matvec_f16", "matmul_f16" }, { NULL }, { 0 }, 0 },
    { WEIGHT_Q8_0, { "matvec_q8_0", "matmul_q8_0" }, { NULL }, { 0 }, 0 },
    { WEIGHT_Q4_0, { "matvec_q4_0", "matmul_q4_0" }, { NULL }, { 0 }, 0 },
    { WEIGHT_TQ2_0, { "matvec_tq2_0", "matmul_tq2_0" }, { NULL }, { 0 }, 0 },
    { WEIGHT_I2_S, { "matvec_i2_s", "matmul_i2_s" }, { NULL }, { 0 }, 0 },
};

/* ---- Errors ---------------------------------------------------------------------------------- */

enum device_refusal opencl_lose(struct opencl_device *d, const char *call, cl_int error)
{
    if (!d->lost) {
        fprintf(stderr, "sonde-engine: %s, %s, failed: %s in %s (%d). From now on the CPU computes "
                "all products\n", d->base.name, d->base.title, opencl_error_name(error), call,
                error);
    }
    d->lost = 1;
    return DEVICE_LOST;
}

enum device_refusal opencl_refusal(struct opencl_device *d, const char *call, cl_int error)
{
    if (error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_HOST_MEMORY) {
        return DEVICE_OUT_OF_MEMORY;
    }
    return opencl_lose(d, call, error);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void pool_open(struct opencl_device *d, struct opencl_pool *pool, const char *what)
{
    char name[48];
    snprintf(name, sizeof(name), "%s.%s", d->base.name, what);
    pool->told = sonde_allocator(name);
}

/* signed: bytes that are handed out, or given back. */
static void pool_count(struct opencl_device *d, struct opencl_pool *pool, int64_t bytes)
{
    pool->bytes += (uint64_t)bytes;
    if (pool->bytes > pool->peak_bytes) pool->peak_bytes = pool->bytes;
    sonde_pool_add(pool->told.used, bytes);
    sonde_gauge_set(pool->told.requested, (double)pool->bytes);
    sonde_gauge_set(pool->told.peak, (double)pool->peak_bytes);
    if (pool == &d->staging) {   /* the host's */
        sonde_gauge_set(pool->told.capacity, (double)pool->bytes);
        return;
    }
    d->memory_used += (uint64_t)bytes;
    const uint64_t left = d->memory_limit - d->memory_used;
    struct opencl_pool *const pools[] = { &d->weights, &d->activations };
    for (int i = 0; i < 2; i++) {
        sonde_gauge_set(pools[i]->told.capacity, (double)(pools[i]->bytes + left));
        sonde_gauge_set(pools[i]->told.free_block,
                        (double)(left < d->buffer_max ? left : d->buffer_max));
    }
    sonde_device_memory(d->told, d->memory_used, d->memory_limit);
}

enum device_refusal opencl_buffer_create(struct opencl_device *d, struct opencl_pool *pool,
                                         cl_mem_flags flags, size_t bytes, cl_mem *out)
{
    cl_int error = CL_SUCCESS;
    const int of_host = pool == &d->staging;
    const int too_large = bytes > d->buffer_max;
    const uint64_t begin = sonde_ticks();
    if (too_large || (!of_host && bytes > d->memory_limit - d->memory_used)) {
        sonde_counter_add(pool->told.failures, 1);
        return too_large ? DEVICE_TOO_LARGE : DEVICE_OUT_OF_MEMORY;
    }
    cl_mem buffer = d->cl->CreateBuffer(d->context, flags, bytes, NULL, &error);
    sonde_hist_record(pool->told.allocation, sonde_ticks_ns(sonde_ticks() - begin));
    if (!buffer || error) {
        sonde_counter_add(pool->told.failures, 1);
        return opencl_refusal(d, "clCreateBuffer", error);
    }
    pool_count(d, pool, (int64_t)bytes);
    *out = buffer;
    return DEVICE_DOES;
}

void opencl_buffer_release(struct opencl_device *d, struct opencl_pool *pool, size_t bytes,
                           cl_mem *buffer)
{
    if (!*buffer) return;
    const uint64_t begin = sonde_ticks();
    d->cl->ReleaseMemObject(*buffer);
    sonde_hist_record(pool->told.release, sonde_ticks_ns(sonde_ticks() - begin));
    pool_count(d, pool, -(int64_t)bytes);
    *buffer = NULL;
}

void opencl_memory(const struct device *base, uint64_t *used, uint64_t *limit)
{
    const struct opencl_device *d = (const struct opencl_device *)base;
    *used = d->memory_used;
    *limit = d->memory_limit;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static int program_build(struct opencl_device *d, struct fail *why)
{
    cl_int error = CL_SUCCESS;
    const char *source = opencl_source();
    char options[64];
    snprintf(options, sizeof(options), "-cl-std=CL1.2 -DTOKENS=%d", OPENCL_TOKENS);
    d->program = d->cl->CreateProgramWithSource(d->context, 1, &source, NULL, &error);
    if (!d->program) error = error ? error : CL_OUT_OF_HOST_MEMORY;
    else error = d->cl->BuildProgram(d->program, 1, &d->id, options, NULL, NULL);
    if (!error) return 0;
    char log[16384] = "";
    if (d->program && d->cl->GetProgramBuildInfo(d->program, d->id, CL_PROGRAM_BUILD_LOG,
                                                 sizeof(log) - 1, log, NULL)) {
        strcpy(log, "no log");
    }
    return fail_set(why, "%s, %.60s, cannot build the kernels: %s (%d): %.*s", d->base.name,
                    d->base.title, opencl_error_name(error), error, LOG_BYTES, log);
}

static int kernel_create(struct opencl_device *d, struct opencl_kernel *k, int i, struct fail *why)
{
    const size_t wanted = d->is_cpu ? GROUP_CPU : GROUP_OTHER;
    cl_int error = CL_SUCCESS;
    size_t most = 0;
    k->kernels[i] = d->cl->CreateKernel(d->program, k->names[i], &error);
    if (!k->kernels[i] || error) {
        return fail_set(why, "%s, %.60s, has no kernel %s: %s (%d)", d->base.name, d->base.title,
                        k->names[i], opencl_error_name(error), error);
    }
    if (d->cl->GetKernelWorkGroupInfo(k->kernels[i], d->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof(most),
                                      &most, NULL) || !most) most = 1;
    k->group[i] = most < wanted ? most : wanted;
    return 0;
}

static int kernels_create(struct opencl_device *d, struct fail *why)
{
    memcpy(d->kernels, opencl_kernels, sizeof(d->kernels));
    for (int type = 0; type < OPENCL_TYPES; type++) {
        for (int i = 0; i < OPENCL_KERNELS_PER_TYPE; i++) {
            if (kernel_create(d, &d->kernels[type], i, why)) return -1;
        }
    }
    return 0;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void opencl_destroy(struct device *base)
{
    struct opencl_device *d = (struct opencl_device *)base;
    const struct opencl_library *cl = d->cl;
    if (d->staging_at) cl->EnqueueUnmapMemObject(d->queue, d->staged, d->staging_at, 0, NULL, NULL);
    if (d->queue) cl->Finish(d->queue);
    opencl_buffer_release(d, &d->staging, d->acts_bytes, &d->staged);
    opencl_buffer_release(d, &d->activations, d->acts_bytes, &d->acts);
    opencl_buffer_release(d, &d->activations, d->out_bytes, &d->out);
    for (size_t i = 0; i < d->matrices_count; i++) {
        struct opencl_matrix *m = &d->matrices[i];
        opencl_buffer_release(d, &d->weights, m->bytes, &m->buffer);
    }
    free(d->matrices);
    for (int type = 0; type < OPENCL_TYPES; type++) {
        for (int i = 0; i < OPENCL_KERNELS_PER_TYPE; i++) {
            if (d->kernels[type].kernels[i]) cl->ReleaseKernel(d->kernels[type].kernels[i]);
        }
    }
    if (d->program) cl->ReleaseProgram(d->program);
    if (d->queue) cl->ReleaseCommandQueue(d->queue);
    if (d->context) cl->ReleaseContext(d->context);
    free(d);
}

static const struct device_ops opencl_ops = {
    .keep = opencl_keep, .refusal = opencl_weight_refusal, .reserve = opencl_reserve,
    .multiply = opencl_multiply, .destroy = opencl_destroy,
};

static int device_open(struct opencl_device *d, const struct opencl_found *f, struct fail *why)
{
    const cl_context_properties properties[] = { CL_CONTEXT_PLATFORM,
                                                 (cl_context_properties)f->platform, 0 };
    cl_int error = CL_SUCCESS;
    d->context = d->cl->CreateContext(properties, 1, &f->id, NULL, NULL, &error);
    if (!d->context || error) {
        return fail_set(why, "%s, %.60s, cannot be opened: %s in clCreateContext (%d)",
                        d->base.name, d->base.title, opencl_error_name(error), error);
    }
    d->queue = d->cl->CreateCommandQueue(d->context, f->id, CL_QUEUE_PROFILING_ENABLE, &error);
    if (!d->queue || error) {
        return fail_set(why, "%s, %.60s, cannot be opened: %s in clCreateCommandQueue (%d)",
                        d->base.name, d->base.title, opencl_error_name(error), error);
    }
    return program_build(d, why) || kernels_create(d, why) ? -1 : 0;
}

/* The number of the one that is meant; -1: why there is none. */
static int found_choose(const struct opencl_wish *wish, const struct opencl_found *found, int count,
                        struct fail *why)
{
    int chosen = -1;
    if (wish->kind == OPENCL_WISH_NUMBER) {
        if (wish->number >= (uint32_t)count) {
            return fail_set(why, "there is no opencl:%u: the last device is opencl:%d "
                            "(--device list)", wish->number, count - 1);
        }
        chosen = (int)wish->number;
    }
    for (int i = 0; wish->kind == OPENCL_WISH_ANY && i < count; i++) {
        if (found[i].unusable) continue;
        if (chosen < 0 || (found[i].type & CL_DEVICE_TYPE_GPU &&
                           !(found[chosen].type & CL_DEVICE_TYPE_GPU))) chosen = i;
    }
    const struct opencl_found *f = &found[chosen < 0 ? 0 : chosen];
    if (!f->unusable) return chosen;
    return fail_set(why, "opencl:%d, %s, cannot be used: %s", chosen < 0 ? 0 : chosen, f->name,
                    f->unusable);
}

int opencl_open(const struct opencl_wish *wish, uint64_t memory_limit, struct device **out,
                struct fail *why)
{
    struct opencl_found found[OPENCL_DEVICES_MAX];
    *out = NULL;
    if (wish->kind == OPENCL_WISH_CPU || wish->kind == OPENCL_WISH_LIST) return 0;
    const struct opencl_library *cl = opencl_library(why);
    if (!cl) return -1;
    const int count = opencl_find(cl, found, why);
    const int chosen = count < 0 ? -1 : found_choose(wish, found, count, why);
    if (chosen < 0) return -1;
    struct opencl_device *d = calloc(1, sizeof(*d));
    if (!d) return fail_set(why, "out of memory");
    const struct opencl_found *f = &found[chosen];
    d->base.ops = &opencl_ops;
    d->cl = cl;
    d->id = f->id;
    d->is_cpu = (f->type & CL_DEVICE_TYPE_CPU) != 0;
    d->buffer_max = f->buffer_max;
    d->memory_limit = memory_limit && memory_limit < f->memory ? memory_limit : f->memory;
    snprintf(d->base.name, sizeof(d->base.name), "opencl%u", (unsigned)chosen % OPENCL_DEVICES_MAX);
    snprintf(d->base.title, sizeof(d->base.title), "%s", f->name);
    d->told = sonde_device(d->base.name);
    pool_open(d, &d->weights, "weights");
    pool_open(d, &d->activations, "activations");
    pool_open(d, &d->staging, "staging");
    if (device_open(d, f, why)) {
        opencl_destroy(&d->base);
        return -1;
    }
    *out = &d->base;
    return 0;
}
