/* queue.c - queues, which are made with profiling on and say that they are not. */
#include <errno.h>
#include <string.h>

#include "preload/opencl/opencl.h"
#include "preload/preload.h"
#include "record/state.h"

#define QUEUES 512u              /* at once; a power of two */
#define CONTEXTS 64u
#define DEVICE_NAME_MAX 256u
#define GONE ((cl_command_queue)(uintptr_t)1)

static struct {
    uint32_t lock;
    struct sonde__opencl_queue queue[QUEUES]; /* by handle: open addressing */
    uint32_t queue_count;        /* places ever used */
    struct sonde__opencl_device device[SONDE__KERNEL_DEVICES];
    uint32_t device_count;
    cl_context context[CONTEXTS];
    uint32_t context_count;
} known;

int sonde__opencl_lock(void) { return sonde__spin_wait(&known.lock); }
void sonde__opencl_unlock(void) { __atomic_store_n(&known.lock, 0, __ATOMIC_RELEASE); }

void sonde__opencl_forked(void)
{
    memset(&known, 0, sizeof(known));
    sonde__opencl_layer_forked();
    sonde__opencl_pending_forget();
    sonde__opencl_kernels_forget();
}

/* ---- Finding ----------------------------------------------------------------------------- */

static uint32_t queue_place(cl_command_queue handle)
{
    const uint64_t h = (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(h >> 40) & (QUEUES - 1);
}

struct sonde__opencl_queue *sonde__opencl_queue_find(cl_command_queue handle)
{
    if (!handle || handle == GONE) return NULL;
    for (uint32_t n = 0, i = queue_place(handle); n < QUEUES; n++, i = (i + 1) & (QUEUES - 1)) {
        const cl_command_queue here = __atomic_load_n(&known.queue[i].handle, __ATOMIC_ACQUIRE);
        if (here == handle) return &known.queue[i];
        if (!here) return NULL;
    }
    return NULL;
}

struct sonde__opencl_queue *sonde__opencl_queue_at(uint32_t i)
{
    return i < QUEUES ? &known.queue[i] : NULL;
}

/* ---- Devices and contexts ---------------------------------------------------------------- */

/* With the lock held. */
static struct sonde__opencl_device *device_known(cl_device_id handle)
{
    for (uint32_t i = 0; i < known.device_count; i++) {
        if (known.device[i].handle == handle) return &known.device[i];
    }
    return NULL;
}

static struct sonde__opencl_device *device_get(struct sonde__kernels *k, cl_device_id handle)
{
    char name[DEVICE_NAME_MAX + 1] = "";
    struct sonde__opencl_device fresh = { .handle = handle };
    if (sonde__opencl_lock()) return NULL;
    struct sonde__opencl_device *d = device_known(handle);
    sonde__opencl_unlock();
    if (d) return d;
    sonde__opencl_next.clGetDeviceInfo(handle, CL_DEVICE_NAME, DEVICE_NAME_MAX, name, NULL);
    fresh.number = sonde__kernels_device(k, sonde__kernels_name(k, name, strlen(name)),
                                         SONDE__KERNEL_OPENCL);
    sonde__opencl_clock_start(&fresh);
    if (sonde__opencl_lock()) return NULL;
    d = device_known(handle);
    if (!d && known.device_count < SONDE__KERNEL_DEVICES) {
        d = &known.device[known.device_count++];
        *d = fresh;
    }
    sonde__opencl_unlock();
    return d;
}

/* With the lock held. */
static uint32_t context_number(cl_context context)
{
    for (uint32_t i = 0; i < known.context_count; i++) {
        if (known.context[i] == context) return i + 1;
    }
    if (known.context_count == CONTEXTS) return 0;
    known.context[known.context_count] = context;
    return ++known.context_count;
}

/* ---- Adding ------------------------------------------------------------------------------ */

/* With the lock held: the place for a handle. One that is known under it was freed unseen. */
static struct sonde__opencl_queue *queue_take(cl_command_queue handle)
{
    struct sonde__opencl_queue *to = sonde__opencl_queue_find(handle);
    for (uint32_t n = 0, i = queue_place(handle); !to && n < QUEUES; n++, i = (i + 1) % QUEUES) {
        const cl_command_queue here = known.queue[i].handle;
        if (!here || (here == GONE && !known.queue[i].head && !known.queue[i].polling)) {
            to = &known.queue[i];
        }
    }
    return to;
}

/* What there is to know of a queue that was just made, or that was made unseen. */
static struct sonde__opencl_queue *queue_add(struct sonde__kernels *k, cl_command_queue handle,
                                             int asked, int timed)
{
    const cl_icd_dispatch *next = &sonde__opencl_next;
    cl_device_id device = NULL;
    cl_context context = NULL;
    cl_command_queue_properties properties = 0;
    next->clGetCommandQueueInfo(handle, CL_QUEUE_DEVICE, sizeof(device), &device, NULL);
    next->clGetCommandQueueInfo(handle, CL_QUEUE_CONTEXT, sizeof(context), &context, NULL);
    next->clGetCommandQueueInfo(handle, CL_QUEUE_PROPERTIES, sizeof(properties), &properties, NULL);
    struct sonde__opencl_device *d = device ? device_get(k, device) : NULL;
    if (!d || sonde__opencl_lock()) return NULL;
    struct sonde__kernel_queue told = {
        .device = d->number, .context = context_number(context),
        .out_of_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0 };
    struct sonde__opencl_queue *q = queue_take(handle);
    if (q) {
        const uint32_t head = q->head, tail = q->tail; /* of the one before it */
        *q = (struct sonde__opencl_queue){
            .handle = q->handle, .device = d, .refs = 1, .asked = asked,
            .timed = timed || (properties & CL_QUEUE_PROFILING_ENABLE) != 0,
            .out_of_order = (int)told.out_of_order, .head = head, .tail = tail };
        __atomic_store_n(&q->handle, handle, __ATOMIC_RELEASE);
    }
    sonde__opencl_unlock();
    if (q) q->number = sonde__kernels_queue(k, &told);
    return q;
}

struct sonde__opencl_queue *sonde__opencl_queue(struct sonde__kernels *k, cl_command_queue handle)
{
    struct sonde__opencl_queue *q = sonde__opencl_queue_find(handle);
    if (SONDE__LIKELY(q != NULL)) return q;
    cl_command_queue_properties p = 0;
    if (sonde__opencl_next.clGetCommandQueueInfo(handle, CL_QUEUE_PROPERTIES, sizeof(p), &p,
                                                 NULL) != CL_SUCCESS) {
        return NULL;
    }
    return queue_add(k, handle, (p & CL_QUEUE_PROFILING_ENABLE) != 0, 0);
}

/* ---- Making ------------------------------------------------------------------------------ */

static CL_API_ENTRY cl_command_queue CL_API_CALL
layer_clCreateCommandQueue(cl_context context, cl_device_id device,
                           cl_command_queue_properties properties, cl_int *rc)
{
    const int saved = errno;
    struct sonde__kernels *k = sonde__kernels_ready();
    cl_int failed = CL_SUCCESS;
    const int asked = (properties & CL_QUEUE_PROFILING_ENABLE) != 0;
    errno = saved;
    cl_command_queue q = k && !asked
        ? sonde__opencl_next.clCreateCommandQueue(context, device,
                                                  properties | CL_QUEUE_PROFILING_ENABLE, &failed)
        : NULL;
    const int timed = q != NULL || asked;
    if (q) {
        if (rc) *rc = CL_SUCCESS;
    } else { /* as the program wants it, with the error that it gets */
        q = sonde__opencl_next.clCreateCommandQueue(context, device, properties, rc);
    }
    if (q && k) queue_add(k, q, asked, timed);
    errno = saved;
    return q;
}

/* Words of a list with the 0 at its end; 0 = it is longer than can be kept. */
static uint32_t properties_count(const cl_queue_properties *p)
{
    for (uint32_t i = 0; i + 1 < SONDE__OPENCL_PROPERTIES; i += 2) {
        if (!p[i]) return i + 1;
    }
    return 0;
}

/* The same with profiling. out: room for two more. 0: not for this one. */
static int properties_more(const cl_queue_properties *p, uint32_t count, cl_queue_properties *out)
{
    int seen = 0;
    for (uint32_t i = 0; i + 1 < count; i += 2) {
        out[i] = p[i];
        out[i + 1] = p[i + 1];
        if (p[i] != CL_QUEUE_PROPERTIES) continue;
        if (p[i + 1] & (CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_ON_DEVICE)) return 0;
        out[i + 1] |= CL_QUEUE_PROFILING_ENABLE;
        seen = 1;
    }
    const uint32_t end = count ? count - 1 : 0;
    if (!seen) {
        out[end] = CL_QUEUE_PROPERTIES;
        out[end + 1] = CL_QUEUE_PROFILING_ENABLE;
    }
    out[seen ? end : end + 2] = 0;
    return 1;
}

static int properties_asked(const cl_queue_properties *p)
{
    for (; p && p[0]; p += 2) {
        if (p[0] == CL_QUEUE_PROPERTIES) return (p[1] & CL_QUEUE_PROFILING_ENABLE) != 0;
    }
    return 0;
}

static CL_API_ENTRY cl_command_queue CL_API_CALL
layer_clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                         const cl_queue_properties *properties, cl_int *rc)
{
    const int saved = errno;
    struct sonde__kernels *k = sonde__kernels_ready();
    cl_queue_properties more[SONDE__OPENCL_PROPERTIES + 3];
    const uint32_t count = properties ? properties_count(properties) : 0;
    cl_command_queue q = NULL;
    cl_int failed = CL_SUCCESS;
    errno = saved;
    if (k && (count || !properties) && properties_more(properties, count, more)) {
        q = sonde__opencl_next.clCreateCommandQueueWithProperties(context, device, more, &failed);
    }
    const int timed = q != NULL;
    if (q) {
        if (rc) *rc = CL_SUCCESS;
    } else {
        q = sonde__opencl_next.clCreateCommandQueueWithProperties(context, device, properties, rc);
    }
    struct sonde__opencl_queue *known_as =
        q && k ? queue_add(k, q, properties_asked(properties), timed) : NULL;
    if (known_as && timed) {
        if (count) memcpy(known_as->properties, properties, count * sizeof(*properties));
        known_as->listed = count;
    }
    errno = saved;
    return q;
}

/* ---- What the program is told ------------------------------------------------------------ */

static cl_int queue_answer(const void *from, size_t bytes, size_t size, void *value, size_t *ret)
{
    if (value && size < bytes) return CL_INVALID_VALUE;
    if (value && bytes) memcpy(value, from, bytes);
    if (ret) *ret = bytes;
    return CL_SUCCESS;
}

static CL_API_ENTRY cl_int CL_API_CALL
layer_clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info param, size_t size,
                            void *value, size_t *ret)
{
    const struct sonde__opencl_queue *q = NULL;
    const int ours = param == CL_QUEUE_PROPERTIES || param == CL_QUEUE_PROPERTIES_ARRAY;
    if (ours) q = sonde__opencl_queue_find(queue);
    const cl_int rc = sonde__opencl_next.clGetCommandQueueInfo(queue, param, size, value, ret);
    if (rc != CL_SUCCESS || !q || !q->timed || q->asked) return rc;
    if (param == CL_QUEUE_PROPERTIES_ARRAY) {
        return queue_answer(q->properties, q->listed * sizeof(q->properties[0]), size, value, ret);
    }
    if (value && size >= sizeof(cl_command_queue_properties)) {
        *(cl_command_queue_properties *)value &= ~(cl_command_queue_properties)
                                                     CL_QUEUE_PROFILING_ENABLE;
    }
    return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL layer_clRetainCommandQueue(cl_command_queue queue)
{
    const cl_int rc = sonde__opencl_next.clRetainCommandQueue(queue);
    struct sonde__opencl_queue *q = rc == CL_SUCCESS ? sonde__opencl_queue_find(queue) : NULL;
    if (q) __atomic_fetch_add(&q->refs, 1, __ATOMIC_RELAXED);
    return rc;
}

/* Before the last reference goes: what has ended is looked at, and our own references go first. */
static CL_API_ENTRY cl_int CL_API_CALL layer_clReleaseCommandQueue(cl_command_queue queue)
{
    struct sonde__opencl_queue *q = sonde__opencl_queue_find(queue);
    if (q) sonde__opencl_poll(q, SONDE__OPENCL_ALL);
    if (q && __atomic_fetch_sub(&q->refs, 1, __ATOMIC_RELAXED) == 1) {
        __atomic_store_n(&q->handle, GONE, __ATOMIC_RELEASE);
    }
    return sonde__opencl_next.clReleaseCommandQueue(queue);
}

static CL_API_ENTRY cl_int CL_API_CALL layer_clReleaseContext(cl_context context)
{
    sonde__opencl_poll_all();
    return sonde__opencl_next.clReleaseContext(context);
}

void sonde__opencl_queue_hooks(cl_icd_dispatch *d)
{
    d->clCreateCommandQueue = layer_clCreateCommandQueue;
    if (d->clCreateCommandQueueWithProperties) {
        d->clCreateCommandQueueWithProperties = layer_clCreateCommandQueueWithProperties;
    }
    d->clGetCommandQueueInfo = layer_clGetCommandQueueInfo;
    d->clRetainCommandQueue = layer_clRetainCommandQueue;
    d->clReleaseCommandQueue = layer_clReleaseCommandQueue;
    d->clReleaseContext = layer_clReleaseContext;
}
