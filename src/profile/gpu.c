/* gpu.c - see gpu.h. */
#include "profile/gpu.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/intern.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

/* ---- Classes -------------------------------------------------------------------------------- */

static const struct { const char *name, *title; } gpu_classes[] = {
#define SONDE__X(id, name, title) { name, title },
    SONDE_GPU_CLASSES(SONDE__X)
#undef SONDE__X
};

const char *sonde_gpu_class_name(enum sonde_gpu_class c) { return gpu_classes[c].name; }
const char *sonde_gpu_class_title(enum sonde_gpu_class c) { return gpu_classes[c].title; }

int sonde_gpu_class_find(const char *name)
{
    for (int i = 0; i < SONDE_GPU_CLASS_COUNT; i++) {
        if (!strcmp(gpu_classes[i].name, name)) return i;
    }
    return -1;
}

/* What is in a name; the first that fits decides. So what tells more stands before what tells less:
 * "flash_attn_softmax" is attention, "mul_mat_q4_0" a product of quantised matrices, and
 * "dequantize_block" no product. */
static const struct { const char *part; enum sonde_gpu_class class; } gpu_patterns[] = {
    { "nccl", SONDE_GPU_COLLECTIVE },      { "rccl", SONDE_GPU_COLLECTIVE },
    { "allreduce", SONDE_GPU_COLLECTIVE }, { "all_reduce", SONDE_GPU_COLLECTIVE },
    { "allgather", SONDE_GPU_COLLECTIVE }, { "all_gather", SONDE_GPU_COLLECTIVE },
    { "reduce_scatter", SONDE_GPU_COLLECTIVE },
    { "attn", SONDE_GPU_ATTENTION },       { "attention", SONDE_GPU_ATTENTION },
    { "fmha", SONDE_GPU_ATTENTION },       { "rope", SONDE_GPU_ATTENTION },
    { "rotary", SONDE_GPU_ATTENTION },     { "kv_cache", SONDE_GPU_ATTENTION },
    { "dequant", SONDE_GPU_QUANTISE },
    { "matmul", SONDE_GPU_MATMUL },        { "mat_mul", SONDE_GPU_MATMUL },
    { "mul_mat", SONDE_GPU_MATMUL },       { "mul_mv", SONDE_GPU_MATMUL },
    { "mul_mm", SONDE_GPU_MATMUL },        { "gemm", SONDE_GPU_MATMUL },
    { "gemv", SONDE_GPU_MATMUL },          { "matvec", SONDE_GPU_MATMUL },
    { "mat_vec", SONDE_GPU_MATMUL },       { "cutlass", SONDE_GPU_MATMUL },
    { "xmma", SONDE_GPU_MATMUL },          { "conv", SONDE_GPU_MATMUL },
    { "quant", SONDE_GPU_QUANTISE },
    { "norm", SONDE_GPU_NORM },            { "softmax", SONDE_GPU_NORM },
    { "soft_max", SONDE_GPU_NORM },        { "silu", SONDE_GPU_NORM },
    { "gelu", SONDE_GPU_NORM },            { "relu", SONDE_GPU_NORM },
    { "swiglu", SONDE_GPU_NORM },          { "activation", SONDE_GPU_NORM },
    { "memcpy", SONDE_GPU_COPY },          { "memset", SONDE_GPU_COPY },
    { "copy", SONDE_GPU_COPY },            { "cpy", SONDE_GPU_COPY },
    { "transpose", SONDE_GPU_COPY },       { "get_rows", SONDE_GPU_COPY },
    { "concat", SONDE_GPU_COPY },          { "fill", SONDE_GPU_COPY },
};

static int gpu_name_has(const char *name, const char *part)
{
    for (; *name; name++) {
        size_t i = 0;
        while (part[i] && tolower((unsigned char)name[i]) == part[i]) i++;
        if (!part[i]) return 1;
    }
    return 0;
}

enum sonde_gpu_class sonde_gpu_class_of(const char *kernel)
{
    for (size_t i = 0; i < SONDE_COUNT(gpu_patterns); i++) {
        if (gpu_name_has(kernel, gpu_patterns[i].part)) return gpu_patterns[i].class;
    }
    return SONDE_GPU_OTHER;
}

/* ---- Making --------------------------------------------------------------------------------- */

struct sonde_gpu_work *sonde_gpu_of(struct sonde_profile *p)
{
    if (!p->gpu) p->gpu = sonde__calloc(1, sizeof(*p->gpu));
    return p->gpu;
}

void sonde_gpu_work_destroy(struct sonde_gpu_work *g)
{
    if (!g) return;
    sonde__free(g->kernels);
    sonde__free(g->queues);
    sonde__free(g->commands);
    sonde__free(g);
}

static void *gpu_grow(struct sonde_profile *p, void *rows, uint32_t count, uint32_t *cap,
                      size_t size)
{
    const struct sonde_budget b = { &p->bytes, p->bytes_max };
    return sonde_table_grow(rows, count, cap, size, &b);
}

/* There are few of them, and a reader remembers which is which. */
uint32_t sonde_gpu_kernel(struct sonde_profile *p, const char *name, int is_kernel,
                          enum sonde_gpu_class class, uint32_t device)
{
    struct sonde_gpu_work *g = sonde_gpu_of(p);
    if (!g) return UINT32_MAX;
    if (g->kernel_count + 1 >= SONDE_GPU_KERNELS_MAX) {
        name = "(others)";
        class = SONDE_GPU_OTHER;
    }
    const uint32_t id = sonde_profile_string(p, name, strlen(name));
    if (!id) return UINT32_MAX;
    for (uint32_t i = 0; i < g->kernel_count; i++) {
        const struct sonde_gpu_kernel *k = &g->kernels[i];
        if (k->name == id && k->device == device && k->is_kernel == (is_kernel != 0)) return i;
    }
    void *rows = gpu_grow(p, g->kernels, g->kernel_count, &g->kernel_cap, sizeof(*g->kernels));
    if (!rows || g->kernel_count >= SONDE_GPU_KERNELS_MAX) return UINT32_MAX;
    g->kernels = rows;
    g->kernels[g->kernel_count] = (struct sonde_gpu_kernel){
        .name = id, .device = device, .class = class, .is_kernel = is_kernel != 0 };
    return g->kernel_count++;
}

uint32_t sonde_gpu_queue(struct sonde_profile *p, const struct sonde_gpu_queue *q)
{
    struct sonde_gpu_work *g = sonde_gpu_of(p);
    if (!g || g->queue_count >= SONDE_GPU_QUEUES_MAX) return UINT32_MAX;
    for (uint32_t i = 0; i < g->queue_count; i++) {
        if (g->queues[i].pid == q->pid && g->queues[i].number == q->number) return i;
    }
    void *rows = gpu_grow(p, g->queues, g->queue_count, &g->queue_cap, sizeof(*g->queues));
    if (!rows) return UINT32_MAX;
    g->queues = rows;
    g->queues[g->queue_count] = *q;
    return g->queue_count++;
}

/* Records come about in the order in which commands ended. Gaps are those between one command and
 * the next that begins after everything before has ended. */
static void gpu_queue_add(struct sonde_gpu_queue *q, const struct sonde_gpu_command *c,
                          uint64_t queued_ns)
{
    q->commands++;
    if (!c->start_ns) return;
    if (!q->first_ns || c->start_ns < q->first_ns) q->first_ns = c->start_ns;
    if (!q->last_ns) {
        q->busy_ns += c->end_ns - c->start_ns;
    } else if (c->start_ns >= q->last_ns) {
        q->gaps++;
        q->gap_ns += c->start_ns - q->last_ns;
        if (queued_ns > q->last_ns) {
            q->starved_ns += (queued_ns < c->start_ns ? queued_ns : c->start_ns) - q->last_ns;
        }
        q->busy_ns += c->end_ns - c->start_ns;
    } else if (c->end_ns > q->last_ns) {
        q->busy_ns += c->end_ns - q->last_ns;
    }
    if (c->end_ns > q->last_ns) q->last_ns = c->end_ns;
}

static void gpu_kernel_add(struct sonde_gpu_kernel *k, const struct sonde_gpu_command *c,
                           uint64_t queued_ns)
{
    k->count++;
    k->bytes += c->bytes;
    if (!c->start_ns) {
        k->untimed++;
        return;
    }
    const uint64_t ns = c->end_ns - c->start_ns;
    if (k->count - k->untimed == 1 || ns < k->min_ns) k->min_ns = ns;
    if (ns > k->max_ns) k->max_ns = ns;
    k->ns += ns;
    if (c->start_ns > queued_ns) k->wait_ns += c->start_ns - queued_ns;
}

void sonde_gpu_add(struct sonde_profile *p, const struct sonde_gpu_command *c, uint64_t queued_ns)
{
    struct sonde_gpu_work *g = sonde_gpu_of(p);
    if (!g || c->kernel >= g->kernel_count) return;
    gpu_kernel_add(&g->kernels[c->kernel], c, queued_ns);
    if (c->queue >= g->queue_count) return;
    gpu_queue_add(&g->queues[c->queue], c, queued_ns);
    if (!c->start_ns || g->command_count >= SONDE_GPU_COMMANDS_MAX) return;
    void *rows = gpu_grow(p, g->commands, g->command_count, &g->command_cap,
                          sizeof(*g->commands));
    if (!rows) return;
    g->commands = rows;
    g->commands[g->command_count++] = *c;
}

/* ---- Sums ----------------------------------------------------------------------------------- */

uint64_t sonde_gpu_ns(const struct sonde_gpu_work *g)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < g->kernel_count; i++) ns += g->kernels[i].ns;
    return ns;
}

uint64_t sonde_gpu_class_ns(const struct sonde_gpu_work *g, enum sonde_gpu_class c)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < g->kernel_count; i++) {
        if (g->kernels[i].class == c) ns += g->kernels[i].ns;
    }
    return ns;
}

/* ---- Merging -------------------------------------------------------------------------------- */

static uint32_t gpu_text(struct sonde_profile *p, const struct sonde_profile *from, uint32_t id)
{
    const char *text = sonde_profile_str(from, id);
    return sonde_profile_string(p, text, strlen(text));
}

static uint32_t gpu_thread(struct sonde_profile *p, const struct sonde_profile *from, uint32_t id)
{
    if (!id || id >= from->threads_count) return 0;
    const struct sonde_profile_thread *t = &from->threads[id];
    return sonde_profile_thread(p, t->pid, t->tid, sonde_profile_str(from, t->name));
}

static uint32_t gpu_merge_kernel(struct sonde_profile *p, const struct sonde_profile *from,
                                 const struct sonde_gpu_kernel *k)
{
    const uint32_t row = sonde_gpu_kernel(p, sonde_profile_str(from, k->name), (int)k->is_kernel,
                                          (enum sonde_gpu_class)k->class,
                                          gpu_text(p, from, k->device));
    if (row == UINT32_MAX) return row;
    struct sonde_gpu_kernel *to = &p->gpu->kernels[row];
    const int first = to->count == to->untimed;
    to->count += k->count;
    to->untimed += k->untimed;
    to->ns += k->ns;
    to->wait_ns += k->wait_ns;
    to->bytes += k->bytes;
    if (k->count > k->untimed && (first || k->min_ns < to->min_ns)) to->min_ns = k->min_ns;
    if (k->max_ns > to->max_ns) to->max_ns = k->max_ns;
    return row;
}

static uint32_t gpu_merge_queue(struct sonde_profile *p, const struct sonde_profile *from,
                                const struct sonde_gpu_queue *q)
{
    const uint32_t before = p->gpu->queue_count;
    struct sonde_gpu_queue add = *q;
    add.device = gpu_text(p, from, q->device);
    const uint32_t row = sonde_gpu_queue(p, &add);
    if (row == UINT32_MAX || row == before) return row;
    struct sonde_gpu_queue *to = &p->gpu->queues[row];
    to->commands += q->commands;
    to->busy_ns += q->busy_ns;
    to->gaps += q->gaps;
    to->gap_ns += q->gap_ns;
    to->starved_ns += q->starved_ns;
    if (q->first_ns && (!to->first_ns || q->first_ns < to->first_ns)) to->first_ns = q->first_ns;
    if (q->last_ns > to->last_ns) to->last_ns = q->last_ns;
    return row;
}

static int gpu_merge_commands(struct sonde_profile *p, const struct sonde_profile *from,
                              const uint32_t *kernels, const uint32_t *queues)
{
    struct sonde_gpu_work *g = p->gpu;
    for (uint32_t i = 0; i < from->gpu->command_count; i++) {
        struct sonde_gpu_command c = from->gpu->commands[i];
        if (g->command_count >= SONDE_GPU_COMMANDS_MAX) return 0;
        c.kernel = kernels[c.kernel];
        c.queue = queues[c.queue];
        c.thread = gpu_thread(p, from, c.thread);
        if (c.kernel == UINT32_MAX || c.queue == UINT32_MAX) continue;
        void *rows = gpu_grow(p, g->commands, g->command_count, &g->command_cap, sizeof(c));
        if (!rows) return SONDE_ENOMEM;
        g->commands = rows;
        g->commands[g->command_count++] = c;
    }
    return 0;
}

int sonde_gpu_merge(struct sonde_profile *p, const struct sonde_profile *from)
{
    const struct sonde_gpu_work *f = from->gpu;
    if (!f) return 0;
    struct sonde_gpu_work *g = sonde_gpu_of(p);
    uint32_t *kernels = sonde__calloc(f->kernel_count + 1, sizeof(*kernels));
    uint32_t *queues = sonde__calloc(f->queue_count + 1, sizeof(*queues));
    int rc = g && kernels && queues ? 0 : SONDE_ENOMEM;
    for (uint32_t i = 0; !rc && i < f->kernel_count; i++) {
        kernels[i] = gpu_merge_kernel(p, from, &f->kernels[i]);
    }
    for (uint32_t i = 0; !rc && i < f->queue_count; i++) {
        queues[i] = gpu_merge_queue(p, from, &f->queues[i]);
    }
    if (!rc) rc = gpu_merge_commands(p, from, kernels, queues);
    if (!rc) {
        g->enqueued += f->enqueued;
        g->recorded += f->recorded;
        g->crowded += f->crowded;
        g->full += f->full;
        g->unprofiled += f->unprofiled;
        g->lost += f->lost;
        g->failed += f->failed;
        g->unread += f->unread;
        g->off_calls += f->off_calls;
        g->own_ns += f->own_ns;
        g->waits += f->waits;
        g->wait_ns += f->wait_ns;
        if (f->doubt_ns > g->doubt_ns) g->doubt_ns = f->doubt_ns;
    }
    sonde__free(kernels);
    sonde__free(queues);
    return rc;
}
