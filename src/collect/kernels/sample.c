/* sample.c - commands as samples: the stack that queued it, with the kernel on top. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "collect/kernels/reading.h"
#include "collect/python/location.h"
#include "sonde/sonde.h"

#define NAME_EVERY_NS 1000000000u

static const char *const gpu_op_names[] = {
#define SONDE__X(id, name, text) name,
    SONDE__KERNEL_OPS(SONDE__X)
#undef SONDE__X
};

/* ---- Numbers of the segment: looked up once ---------------------------------------------- */

static struct kernels_number *gpu_number_find(struct sonde_map *map, struct kernels_number *rows,
                                          uint32_t number)
{
    const uint32_t hash = (uint32_t)sonde_hash_u64(number);
    uint32_t at = hash, i;
    while ((i = sonde_map_next(map, hash, &at))) {
        if (rows[i - 1].number == number) return &rows[i - 1];
    }
    return NULL;
}

static void gpu_number_put(struct sonde_map *map, struct kernels_number **rows, uint32_t *count,
                       uint32_t *cap, struct kernels_number n)
{
    if (sonde_map_reserve(map)) return;
    struct kernels_number *row = SONDE_ARRAY_ADD(*rows, *count, *cap);
    if (!row) return;
    *row = n;
    sonde_map_put(map, (uint32_t)sonde_hash_u64(n.number), *count);
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

struct sample_python { struct kernels_reader *r; struct kernels_target *t; };

static uint32_t sample_python(void *arg, uint64_t ip, int *final)
{
    const struct sample_python *g = arg;
    return sonde_python_location(g->r->profile, g->t->base.segment, ip, final);
}

static uint32_t gpu_stack_read(struct kernels_reader *r, struct kernels_target *t, uint32_t number)
{
    struct sonde_segment_kernel_stack s;
    struct sample_python g = { r, t };
    struct sonde_err err;
    if (sonde_segment_kernel_stack(t->base.segment, number, &s, &err) != 0) {
        return sonde_cpu_stacks_named(r->stacks, "[callers unknown]");
    }
    if (sonde_preload_find_code(&t->base, r->modules, t->as, s.ip, s.depth, r->now_ns) ||
        !t->layout) {
        t->layout = sonde_cpu_stacks_layout_new(r->stacks);
    }
    sonde_cpu_stacks_python(r->stacks, sample_python, &g);
    const uint32_t stack = sonde_cpu_stacks_add(r->stacks, t->as, t->layout, 0, s.ip, s.depth);
    sonde_cpu_stacks_python(r->stacks, NULL, NULL);
    return stack;
}

static uint32_t gpu_stack_of(struct kernels_reader *r, struct kernels_target *t, uint32_t number)
{
    const struct kernels_number *known = gpu_number_find(&t->by_stack, t->stacks, number);
    if (known) return known->row;
    const uint32_t row = gpu_stack_read(r, t, number);
    if (row) {
        gpu_number_put(&t->by_stack, &t->stacks, &t->stack_count, &t->stack_cap,
                   (struct kernels_number){ number, row });
    }
    return row;
}

/* ---- Threads, queues and kernels --------------------------------------------------------- */

static uint32_t gpu_thread_of(struct kernels_reader *r, struct kernels_target *t, uint32_t tid)
{
    char name[64] = "";
    const uint32_t at = tid % KERNELS_NAMES;
    if (t->named[at].tid != tid || r->now_ns - t->named[at].at_ns > NAME_EVERY_NS) {
        t->named[at].tid = tid;
        t->named[at].at_ns = r->now_ns;
        sonde_preload_thread_name(t->base.id.pid, tid, name);
        if (!name[0] && tid == t->base.id.pid) {
            sonde_segment_program(t->base.segment, name);
        }
    }
    return sonde_profile_thread(r->profile, t->base.id.pid, tid, name);
}

static uint32_t gpu_device_of(struct kernels_reader *r, struct kernels_target *t, uint32_t queue,
                          struct sonde__kernel_queue *q, uint32_t *api)
{
    char name[SONDE_SEGMENT_KERNEL_TEXT];
    struct sonde__kernel_device d = { 0, 0 };
    struct sonde_err err;
    *q = (struct sonde__kernel_queue){ 0 };
    *api = 0;
    if (queue && queue < t->info.queues) sonde_segment_kernel_queue(t->base.segment, queue, q);
    if (!q->device || q->device > t->info.devices) return 0;
    sonde_segment_kernel_device(t->base.segment, q->device - 1, &d);
    *api = d.api;
    if (sonde_segment_kernel_name(t->base.segment, d.name, name, &err) != 0) return 0;
    return sonde_profile_string(r->profile, name, strlen(name));
}

static uint32_t gpu_queue_of(struct kernels_reader *r, struct kernels_target *t, uint32_t number,
                         uint32_t *device)
{
    struct sonde__kernel_queue q;
    uint32_t api, row = t->queue[number];
    struct sonde_gpu_work *g = sonde_gpu_of(r->profile);
    if (g && row) {
        *device = g->queues[row - 1].device;
        return row - 1;
    }
    *device = gpu_device_of(r, t, number, &q, &api);
    const struct sonde_gpu_queue fresh = { .device = *device, .pid = t->base.id.pid,
                                           .number = number, .context = q.context,
                                           .out_of_order = q.out_of_order, .api = api };
    row = sonde_gpu_queue(r->profile, &fresh);
    if (row != UINT32_MAX && number < t->info.queues) t->queue[number] = row + 1;
    return row;
}

/* The row of a kernel on a device; one number for both. */
static uint32_t gpu_kernel_of(struct kernels_reader *r, struct kernels_target *t,
                          const struct sonde_segment_kernel *k, uint32_t device)
{
    char name[SONDE_SEGMENT_KERNEL_TEXT];
    struct sonde_err err;
    const uint32_t key = (uint32_t)sonde_hash_u64((uint64_t)k->op << 58 ^
                                                  (uint64_t)device << 32 ^ k->name) | 1;
    const struct kernels_number *known = gpu_number_find(&t->by_name, t->names, key);
    if (known) return known->row;
    const int is_kernel = k->op == SONDE__KERNEL_OP_KERNEL;
    if (!is_kernel) {
        snprintf(name, sizeof(name), "%s", gpu_op_names[k->op]);
    } else if (sonde_segment_kernel_name(t->base.segment, k->name, name, &err) != 0) {
        snprintf(name, sizeof(name), "(unnamed kernel)");
    }
    const int moves = k->op >= SONDE__KERNEL_OP_READ && k->op <= SONDE__KERNEL_OP_MIGRATE;
    const uint32_t row = sonde_gpu_kernel(r->profile, name, is_kernel,
                                          is_kernel ? sonde_gpu_class_of(name)
                                          : moves   ? SONDE_GPU_COPY : SONDE_GPU_OTHER, device);
    if (row != UINT32_MAX) {
        gpu_number_put(&t->by_name, &t->names, &t->name_count, &t->name_cap,
                   (struct kernels_number){ key, row });
    }
    return row;
}

/* ---- Samples ----------------------------------------------------------------------------- */

static uint64_t gpu_unix_of(const struct kernels_reader *r, uint64_t mono_ns)
{
    return mono_ns ? r->clock.unix_ns + mono_ns : 0;
}

/* When there are too many for one each, commands of a stack and thread are added up. */
static void sample_put(struct kernels_reader *r, const struct sonde_profile_sample *s)
{
    struct sonde_profile *p = r->profile;
    const uint32_t hash = (uint32_t)sonde_hash_u64((uint64_t)s->stack << 32 ^ s->thread ^
                                                   (uint64_t)s->kind << 28);
    uint32_t at = hash, i;
    if (r->samples < KERNELS_EXACT_MAX) {
        if (!sonde_profile_add_sample(p, s)) r->samples++;
        return;
    }
    while ((i = sonde_map_next(&r->by_slice, hash, &at))) {
        struct sonde_profile_sample *last = &p->samples[i - 1];
        if (last->stack != s->stack || last->thread != s->thread || last->kind != s->kind) continue;
        if (s->time_ns - last->time_ns < KERNELS_SLICE_NS && last->count < UINT32_MAX &&
            p->weights[s->kind] + s->weight > p->weights[s->kind]) {
            last->weight += s->weight;
            last->count++;
            p->weights[s->kind] += s->weight;
            return;
        }
        sonde_map_remove(&r->by_slice, hash, i);
        break;
    }
    if (sonde_map_reserve(&r->by_slice) || sonde_profile_add_sample(p, s)) return;
    sonde_map_put(&r->by_slice, hash, p->samples_count);
}

static uint16_t gpu_flags_of(struct kernels_target *t, uint32_t stack)
{
    struct sonde_segment_kernel_stack s;
    struct sonde_err err;
    if (sonde_segment_kernel_stack(t->base.segment, stack, &s, &err) == 0 &&
        !(s.flags & SONDE__SAMPLE_TRUNCATED)) {
        return 0;
    }
    return sonde_sample_cut_flags(SONDE_CUT_UNKNOWN);
}

static void command_sample(struct kernels_reader *r, struct kernels_target *t,
                           const struct sonde_segment_kernel *k,
                           const struct sonde_gpu_command *c)
{
    struct sonde_profile *p = r->profile;
    char name[SONDE_SEGMENT_KERNEL_TEXT + 8];
    const struct sonde_gpu_kernel *row = &p->gpu->kernels[c->kernel];
    const char *text = sonde_profile_str(p, row->name);
    if (row->is_kernel) snprintf(name, sizeof(name), "%s", text);
    else snprintf(name, sizeof(name), "[gpu %s]", text);
    const uint32_t parent = gpu_stack_of(r, t, k->stack);
    const uint32_t location = sonde_profile_named_location(p, name, strlen(name));
    const struct sonde_profile_sample s = {
        .time_ns = c->call_ns, .weight = k->end_ns - k->start_ns,
        .stack = parent && location ? sonde_profile_stack(p, parent, location) : 0,
        .thread = c->thread, .count = 1, .kind = SONDE_SAMPLE_GPU,
        .flags = gpu_flags_of(t, k->stack) };
    sample_put(r, &s);
}

void kernels_add_command(struct kernels_reader *r, struct kernels_target *t,
                         const struct sonde_segment_kernel *k)
{
    struct sonde_gpu_command c = { .call_ns = gpu_unix_of(r, k->call_ns),
                                   .start_ns = gpu_unix_of(r, k->start_ns),
                                   .end_ns = gpu_unix_of(r, k->end_ns), .bytes = k->bytes };
    struct sonde_gpu_work *g = sonde_gpu_of(r->profile);
    uint32_t device = 0;
    /* Markers and barriers take no time of the device: theirs is that of what they wait for. */
    const int orders = k->op == SONDE__KERNEL_OP_MARKER || k->op == SONDE__KERNEL_OP_BARRIER;
    if (!g) return;
    if (orders) c.start_ns = c.end_ns = 0;
    r->seen++;
    c.queue = gpu_queue_of(r, t, k->queue, &device);
    c.kernel = gpu_kernel_of(r, t, k, device);
    c.thread = gpu_thread_of(r, t, k->tid);
    if (c.kernel == UINT32_MAX) return;
    if (k->doubt_ns) g->doubt_ns = k->doubt_ns;
    sonde_gpu_add(r->profile, &c, gpu_unix_of(r, k->queued_ns));
    if (c.start_ns) command_sample(r, t, k, &c);
}

void kernels_add_wait(struct kernels_reader *r, struct kernels_target *t,
                      const struct sonde_segment_kernel_wait *w)
{
    const struct sonde_profile_sample s = {
        .time_ns = gpu_unix_of(r, w->begin_ns), .weight = w->end_ns - w->begin_ns,
        .stack = gpu_stack_of(r, t, w->stack), .thread = gpu_thread_of(r, t, w->tid), .count = 1,
        .kind = SONDE_SAMPLE_GPU_WAIT, .flags = gpu_flags_of(t, w->stack) };
    sample_put(r, &s);
}
