/* products.c - weights to the device, activations there, results back. */
#include <stdlib.h>
#include <string.h>

#include "math/acts.h"
#include "math/matmul.h"
#include "opencl/opencl_private.h"

enum { PRODUCTS_MAX = 4, EVENTS_MAX = 1 + 2 * PRODUCTS_MAX };

/* ---- Matrices -------------------------------------------------------------------------------- */

/* Where it is, or would be. */
static size_t matrix_place(const struct opencl_device *d, const void *data)
{
    size_t low = 0, high = d->matrices_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((uintptr_t)d->matrices[middle].data < (uintptr_t)data) low = middle + 1;
        else high = middle;
    }
    return low;
}

static struct opencl_matrix *matrix_find(const struct opencl_device *d, const void *data)
{
    const size_t at = matrix_place(d, data);
    return at < d->matrices_count && d->matrices[at].data == data ? &d->matrices[at] : NULL;
}

static struct opencl_matrix *matrix_insert(struct opencl_device *d, const void *data)
{
    if (d->matrices_count == d->matrices_max) {
        const size_t max = d->matrices_max ? 2 * d->matrices_max : 64;
        void *more = realloc(d->matrices, max * sizeof(*d->matrices));
        if (!more) return NULL;
        d->matrices = more;
        d->matrices_max = max;
    }
    const size_t at = matrix_place(d, data);
    struct opencl_matrix *m = &d->matrices[at];
    memmove(m + 1, m, (d->matrices_count++ - at) * sizeof(*m));
    *m = (struct opencl_matrix){ .data = data };
    return m;
}

static struct opencl_kernel *kernel_for(struct opencl_device *d, enum weight_type type)
{
    for (int i = 0; i < OPENCL_TYPES; i++) {
        if (d->kernels[i].type == type) return &d->kernels[i];
    }
    return NULL;
}

enum device_refusal opencl_weight_refusal(const struct device *base, const struct weight *w)
{
    const struct opencl_device *d = (const struct opencl_device *)base;
    const struct opencl_matrix *m = matrix_find(d, w->data);
    if (d->lost) return DEVICE_LOST;
    return m ? m->refusal : DEVICE_OUT_OF_MEMORY; /* the table itself had no room for it */
}

/* ---- Launches -------------------------------------------------------------------------------- */

struct opencl_run {
    struct opencl_device *d;
    const char *call;            /* the last one */
    cl_event events[EVENTS_MAX];
    int events_count, kernels_from, kernels_to; /* which of them are kernels' */
};

static cl_event *run_event(struct opencl_run *r)
{
    r->events[r->events_count] = NULL;
    return &r->events[r->events_count++];
}

/* Results from out[out_at] on: a row of rows floats for each token. */
static cl_int product_launch(struct opencl_run *r, const struct weight *w, cl_mem buffer,
                             uint32_t count, size_t out_at)
{
    struct opencl_device *d = r->d;
    const struct opencl_kernel *k = kernel_for(d, w->type);
    const int some = count > OPENCL_TOKENS / 2;
    const size_t group = k->group[some], per_item = some ? OPENCL_TOKENS : 1;
    const size_t local[2] = { group, 1 };
    const size_t global[2] = { (w->rows + group - 1) / group * group,
                               (count + per_item - 1) / per_item };
    const uint32_t block = acts_block(w->type, w->cols);
    const cl_uint d_at = (cl_uint)acts_up64(w->cols);
    const cl_uint sum_at =
        d_at + (block ? (cl_uint)acts_up64((size_t)w->cols / block * sizeof(float)) : 0);
    const cl_ulong row_bytes = w->row_bytes, acts_bytes = acts_row_bytes(w->type, w->cols),
                   at = out_at;
    const cl_uint rows = w->rows, cols = w->cols, tokens = count;
    const struct { size_t bytes; const void *value; } args[] = {
        { sizeof(buffer), &buffer },   { sizeof(row_bytes), &row_bytes },
        { sizeof(rows), &rows },       { sizeof(cols), &cols },
        { sizeof(d->acts), &d->acts }, { sizeof(acts_bytes), &acts_bytes },
        { sizeof(d_at), &d_at },       { sizeof(sum_at), &sum_at },
        { sizeof(tokens), &tokens },   { sizeof(d->out), &d->out },
        { sizeof(at), &at },
    };
    cl_int error = CL_SUCCESS;
    r->call = "clSetKernelArg";
    for (cl_uint i = 0; !error && i < sizeof(args) / sizeof(args[0]); i++) {
        error = d->cl->SetKernelArg(k->kernels[some], i, args[i].bytes, args[i].value);
    }
    if (error) return error;
    r->call = "clEnqueueNDRangeKernel";
    return d->cl->EnqueueNDRangeKernel(d->queue, k->kernels[some], 2, NULL, global, local, 0, NULL,
                                       run_event(r));
}

static cl_int product_read(struct opencl_run *r, const struct matmul_product *p, uint32_t count,
                           size_t out_at)
{
    struct opencl_device *d = r->d;
    const size_t row = p->w->rows * sizeof(float);
    if (p->stride == p->w->rows || count == 1) {
        r->call = "clEnqueueReadBuffer";
        return d->cl->EnqueueReadBuffer(d->queue, d->out, CL_FALSE, out_at * sizeof(float),
                                        count * row, p->out, 0, NULL, run_event(r));
    }
    const size_t from[3] = { out_at * sizeof(float), 0, 0 }, to[3] = { 0 };
    const size_t region[3] = { row, count, 1 };
    r->call = "clEnqueueReadBufferRect";
    return d->cl->EnqueueReadBufferRect(d->queue, d->out, CL_FALSE, from, to, region, row, 0,
                                        p->stride * sizeof(float), 0, p->out, 0, NULL,
                                        run_event(r));
}

static void run_release(struct opencl_run *r)
{
    for (int i = 0; i < r->events_count; i++) {
        if (r->events[i]) r->d->cl->ReleaseEvent(r->events[i]);
    }
    r->events_count = 0;
}

/* Nanoseconds of an event; 0 if the driver does not know. */
static uint64_t event_ns(const struct opencl_run *r, cl_event event)
{
    cl_ulong start = 0, end = 0;
    const struct opencl_library *cl = r->d->cl;
    if (!event ||
        cl->GetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof(start), &start, NULL) ||
        cl->GetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL)) {
        return 0;
    }
    return end > start ? end - start : 0;
}

static void run_account(const struct opencl_run *r, struct device_account *account)
{
    for (int i = 0; i < r->events_count; i++) {
        const uint64_t ns = event_ns(r, r->events[i]);
        const int kernel = i >= r->kernels_from && i < r->kernels_to;
        if (kernel) account->matmul_ns += ns;
        else account->copy_ns += ns;
        account->copies += !kernel;
    }
}

static cl_int run_finish(struct opencl_run *r)
{
    r->call = "clFinish";
    return r->d->cl->Finish(r->d->queue);
}

/* ---- Products -------------------------------------------------------------------------------- */

static cl_int run_enqueue(struct opencl_run *r, const void *acts, size_t acts_bytes,
                          uint32_t count, const struct matmul_product *products, uint32_t n)
{
    struct opencl_device *d = r->d;
    size_t at[PRODUCTS_MAX], next = 0;
    r->call = "clEnqueueWriteBuffer";
    cl_int error = d->cl->EnqueueWriteBuffer(d->queue, d->acts, CL_FALSE, 0, acts_bytes, acts, 0,
                                             NULL, run_event(r));
    r->kernels_from = r->kernels_to = r->events_count;
    for (uint32_t i = 0; !error && i < n; i++) {
        const struct weight *w = products[i].w;
        at[i] = next;
        next += (size_t)w->rows * count;
        error = product_launch(r, w, matrix_find(d, w->data)->buffer, count, at[i]);
    }
    r->kernels_to = r->events_count;
    for (uint32_t i = 0; !error && i < n; i++) error = product_read(r, &products[i], count, at[i]);
    return error;
}

/* What products.cl leaves to the host. */
static void i2_s_scale(const struct matmul_product *p, const char *acts, uint32_t count)
{
    const size_t bytes = acts_row_bytes(WEIGHT_I2_S, p->w->cols);
    for (uint32_t t = 0; t < count; t++) {
        const float d = acts_of(WEIGHT_I2_S, p->w->cols, acts + t * bytes).d[0];
        float *out = p->out + t * p->stride;
        for (uint32_t r = 0; r < p->w->rows; r++) out[r] = out[r] / d * p->w->scale;
    }
}

enum device_refusal opencl_multiply(struct device *base, const void *acts, uint32_t count,
                                    const struct matmul_product *products, uint32_t n,
                                    struct device_account *account)
{
    struct opencl_device *d = (struct opencl_device *)base;
    struct opencl_run run = { .d = d };
    const size_t acts_bytes = count * acts_row_bytes(products->w->type, products->w->cols);
    size_t out_bytes = 0;
    if (d->lost) return DEVICE_LOST;
    for (uint32_t i = 0; i < n; i++) {
        out_bytes += (size_t)products[i].w->rows * count * sizeof(float);
    }
    if (n > PRODUCTS_MAX || acts_bytes > d->acts_bytes || out_bytes > d->out_bytes) {
        return DEVICE_TOO_LARGE;
    }
    const cl_int error = run_enqueue(&run, acts, acts_bytes, count, products, n);
    const char *call = run.call;
    /* Also after an error: nothing may write to the caller's memory later. */
    const cl_int finish = run_finish(&run);
    if (!error && !finish) {
        run_account(&run, account);
        account->to_bytes += acts_bytes;
        account->from_bytes += out_bytes;
        for (uint32_t i = 0; i < n; i++) {
            if (products[i].w->type == WEIGHT_I2_S) i2_s_scale(&products[i], acts, count);
        }
    }
    run_release(&run);
    if (finish) return opencl_lose(d, run.call, finish);
    return error ? opencl_refusal(d, call, error) : DEVICE_DOES;
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* Drivers compile a kernel anew when it is first launched, which may take seconds: now, and not in
 * the first request. What it computes is of no interest. */
static cl_int kernel_warm(struct opencl_device *d, const struct weight *w, cl_mem buffer)
{
    const size_t acts = acts_row_bytes(w->type, w->cols), out = w->rows * sizeof(float);
    cl_int error = CL_SUCCESS;
    struct opencl_run run = { .d = d };
    for (uint32_t count = 1; !error && count <= OPENCL_TOKENS; count *= OPENCL_TOKENS) {
        if (acts * count > d->acts_bytes || out * count > d->out_bytes) break;
        error = product_launch(&run, w, buffer, count, 0);
    }
    const cl_int finish = run_finish(&run);
    run_release(&run);
    return error ? error : finish;
}

static enum device_refusal matrix_upload(struct opencl_device *d, struct opencl_matrix *m,
                                         const struct weight *w)
{
    struct opencl_kernel *k = kernel_for(d, w->type);
    const size_t bytes = w->rows * w->row_bytes;
    if (!k) return DEVICE_UNSUPPORTED;
    const enum device_refusal refusal =
        opencl_buffer_create(d, &d->weights, CL_MEM_READ_ONLY, bytes, &m->buffer);
    if (refusal) return refusal;
    m->bytes = bytes;
    const char *call = "clEnqueueWriteBuffer";
    /* Many drivers find memory for a buffer only now. */
    cl_int error = d->cl->EnqueueWriteBuffer(d->queue, m->buffer, CL_TRUE, 0, bytes, w->data, 0,
                                             NULL, NULL);
    if (!error && !k->warm) {
        call = "a first launch";
        error = kernel_warm(d, w, m->buffer);
        k->warm = !error;
    }
    if (!error) return DEVICE_DOES;
    opencl_buffer_release(d, &d->weights, bytes, &m->buffer);
    return error == CL_OUT_OF_RESOURCES ? DEVICE_OUT_OF_MEMORY : opencl_refusal(d, call, error);
}

enum device_refusal opencl_keep(struct device *base, const struct weight *w)
{
    struct opencl_device *d = (struct opencl_device *)base;
    struct opencl_matrix *m = matrix_find(d, w->data);
    if (d->lost) return DEVICE_LOST;
    if (m) return m->refusal;
    m = matrix_insert(d, w->data);
    if (!m) return DEVICE_OUT_OF_MEMORY;
    m->refusal = matrix_upload(d, m, w);
    return m->refusal;
}

/* ---- Room ------------------------------------------------------------------------------------ */

/* Not needed: without it the driver copies once more. */
static void staging_open(struct opencl_device *d)
{
    cl_int error = CL_SUCCESS;
    if (opencl_buffer_create(d, &d->staging, CL_MEM_READ_ONLY | CL_MEM_ALLOC_HOST_PTR,
                             d->acts_bytes, &d->staged)) return;
    d->staging_at =
        d->cl->EnqueueMapBuffer(d->queue, d->staged, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                d->acts_bytes, 0, NULL, NULL, &error);
    if (!error && d->staging_at && (uintptr_t)d->staging_at % 64 == 0) return;
    if (!error && d->staging_at) {
        d->cl->EnqueueUnmapMemObject(d->queue, d->staged, d->staging_at, 0, NULL, NULL);
    }
    d->staging_at = NULL;
    opencl_buffer_release(d, &d->staging, d->acts_bytes, &d->staged);
}

enum device_refusal opencl_reserve(struct device *base, size_t acts_bytes, size_t out_bytes,
                                   void **staging)
{
    struct opencl_device *d = (struct opencl_device *)base;
    *staging = NULL;
    if (d->acts || d->lost) return d->lost ? DEVICE_LOST : DEVICE_UNSUPPORTED; /* once */
    enum device_refusal refusal =
        opencl_buffer_create(d, &d->activations, CL_MEM_READ_ONLY, acts_bytes, &d->acts);
    if (refusal) return refusal;
    d->acts_bytes = acts_bytes;
    refusal = opencl_buffer_create(d, &d->activations, CL_MEM_WRITE_ONLY, out_bytes, &d->out);
    if (refusal) {
        opencl_buffer_release(d, &d->activations, acts_bytes, &d->acts);
        return refusal;
    }
    d->out_bytes = out_bytes;
    staging_open(d);
    *staging = d->staging_at;
    return d->lost ? DEVICE_LOST : DEVICE_DOES;
}
