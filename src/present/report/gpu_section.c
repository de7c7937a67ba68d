/* gpu_section.c - what GPUs did, as text, Markdown and JSON: where their time went, by class of
 * operation, by kernel, by phase and request; queues and how long they stood still; and what is
 * missing. */
#include "present/report/gpu_section.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "present/report/profile_private.h"
#include "present/units.h"
#include "sonde/sonde.h"

/* ---- What it is made of ------------------------------------------------------------------ */

static int gpu_report_by_ns(const void *a, const void *b, void *arg)
{
    const struct sonde_gpu_kernel *kernels = arg;
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (kernels[x].ns != kernels[y].ns) return kernels[x].ns > kernels[y].ns ? -1 : 1;
    if (kernels[x].count != kernels[y].count) return kernels[x].count > kernels[y].count ? -1 : 1;
    return x < y ? -1 : 1;
}

int gpu_report_init(struct gpu_report *r, const struct sonde_profile *p, size_t limit)
{
    const struct sonde_gpu_work *g = p->gpu;
    *r = (struct gpu_report){ .p = p, .limit = limit };
    if (!g || (!g->enqueued && !g->off_calls)) return 0;
    r->g = g;
    r->order = sonde__calloc(g->kernel_count + 1, sizeof(*r->order));
    if (!r->order) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < g->kernel_count; i++) r->order[i] = i;
    qsort_r(r->order, g->kernel_count, sizeof(*r->order), gpu_report_by_ns, g->kernels);
    return sonde_gpu_use_of(p, &r->use);
}

void gpu_report_release(struct gpu_report *r)
{
    sonde__free(r->order);
    sonde_gpu_use_release(&r->use);
    r->order = NULL;
}

static uint64_t gpu_report_missing(const struct sonde_gpu_work *g)
{
    return g->crowded + g->full + g->unprofiled + g->lost + g->unread;
}

/* ---- Text -------------------------------------------------------------------------------- */

struct gpu_text {
    const struct gpu_report *r;
    const struct sonde_report_options *o;
    struct sonde_buf *out;
    double ns;                  /* of all, or 1 */
};

static const char *gpu_text_s(const struct gpu_text *x, char text[SONDE_VALUE_BYTES], double ns)
{
    return sonde_value_format(text, ns * 1e-9, SONDE_UNIT_SECONDS, x->o->ascii);
}

static void gpu_text_missing(const struct gpu_text *x)
{
    const struct sonde_gpu_work *g = x->r->g;
    const struct { uint64_t count; const char *why; } parts[] = {
        { g->unread, "had not ended, or were not looked at again, when the program did" },
        { g->crowded, "were queued while too many others had not ended" },
        { g->unprofiled, "were on queues that tell no times" },
        { g->full, "found no room in the segment" },
        { g->lost, "were written over before they were read" },
    };
    for (size_t i = 0; i < SONDE_COUNT(parts); i++) {
        if (!parts[i].count) continue;
        report_put_fact(x->o, x->out, "missing", "%" PRIu64 " commands %s", parts[i].count,
                        parts[i].why);
    }
    if (g->off_calls) {
        report_put_fact(x->o, x->out, "missing", "%" PRIu64 " commands were queued while recording "
                        "was switched off", g->off_calls);
    }
}

static void gpu_text_facts(const struct gpu_text *x)
{
    const struct sonde_gpu_work *g = x->r->g;
    char time[SONDE_VALUE_BYTES], wait[SONDE_VALUE_BYTES], own[SONDE_VALUE_BYTES];
    report_put_fact(x->o, x->out, "commands", "%" PRIu64 " recorded of %" PRIu64 ", %s of GPU time",
                    g->recorded, g->enqueued, gpu_text_s(x, time, (double)sonde_gpu_ns(g)));
    report_put_fact(x->o, x->out, "waiting", "the program waited %" PRIu64 " times, %s in all",
                    g->waits, gpu_text_s(x, wait, (double)g->wait_ns));
    report_put_fact(x->o, x->out, "own cost", "%s of the program's threads, %s for each command",
                    gpu_text_s(x, own, (double)g->own_ns),
                    gpu_text_s(x, time, g->enqueued ? (double)g->own_ns / (double)g->enqueued : 0));
    if (g->failed) {
        report_put_fact(x->o, x->out, "failed", "%" PRIu64 " calls returned an error and queued "
                        "nothing", g->failed);
    }
    gpu_text_missing(x);
}

static void gpu_text_classes(const struct gpu_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "OPERATIONS", .min = 8 }, { .title = "COUNT", .align = SONDE_RIGHT },
        { .title = "TIME", .align = SONDE_RIGHT }, { .title = "%", .align = SONDE_RIGHT },
        { .title = "BYTES", .align = SONDE_RIGHT },
    };
    const struct sonde_gpu_work *g = x->r->g;
    char text[SONDE_VALUE_BYTES];
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t c = 0; c < SONDE_GPU_CLASS_COUNT; c++) {
        uint64_t count = 0, bytes = 0;
        for (uint32_t i = 0; i < g->kernel_count; i++) {
            count += g->kernels[i].class == c ? g->kernels[i].count : 0;
            bytes += g->kernels[i].class == c ? g->kernels[i].bytes : 0;
        }
        const double ns = (double)sonde_gpu_class_ns(g, (enum sonde_gpu_class)c);
        if (!count) continue;
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", sonde_gpu_class_name((enum sonde_gpu_class)c));
        sonde_table_cell(&t, 1, "%" PRIu64, count);
        sonde_table_cell(&t, 2, "%s", gpu_text_s(x, text, ns));
        report_percent_cell(&t, 3, ns / x->ns);
        if (bytes) {
            sonde_table_cell(&t, 4, "%s", sonde_value_format(text, (double)bytes, SONDE_UNIT_BYTES,
                                                             x->o->ascii));
        }
    }
    sonde_buf_putc(x->out, '\n');
    report_put_rows(x->o, &t, x->out);
}

static void gpu_text_kernels(const struct gpu_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "KERNEL", .min = 8 }, { .title = "OF", .min = 4 },
        { .title = "COUNT", .align = SONDE_RIGHT }, { .title = "TIME", .align = SONDE_RIGHT },
        { .title = "%", .align = SONDE_RIGHT }, { .title = "MEAN", .align = SONDE_RIGHT },
        { .title = "MIN", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "MAX", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "DEVICE", .drop = 3 },
    };
    const struct sonde_gpu_work *g = x->r->g;
    char text[SONDE_VALUE_BYTES];
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < g->kernel_count && i < x->r->limit; i++) {
        const struct sonde_gpu_kernel *k = &g->kernels[x->r->order[i]];
        const uint64_t timed = k->count - k->untimed;
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, k->is_kernel ? "%s" : "[%s]", sonde_profile_str(x->r->p, k->name));
        sonde_table_cell(&t, 1, "%s", sonde_gpu_class_name((enum sonde_gpu_class)k->class));
        sonde_table_cell(&t, 2, "%" PRIu64, k->count);
        sonde_table_cell(&t, 3, "%s", gpu_text_s(x, text, (double)k->ns));
        report_percent_cell(&t, 4, (double)k->ns / x->ns);
        sonde_table_cell(&t, 8, "%s", sonde_profile_str(x->r->p, k->device));
        if (!timed) continue;
        sonde_table_cell(&t, 5, "%s", gpu_text_s(x, text, (double)k->ns / (double)timed));
        sonde_table_cell(&t, 6, "%s", gpu_text_s(x, text, (double)k->min_ns));
        sonde_table_cell(&t, 7, "%s", gpu_text_s(x, text, (double)k->max_ns));
    }
    sonde_buf_putc(x->out, '\n');
    report_put_rows(x->o, &t, x->out);
}

/* Of a queue: how much of the time between its first command and its last it worked. */
static double gpu_report_busy(const struct sonde_gpu_queue *q)
{
    return q->last_ns > q->first_ns ? (double)q->busy_ns / (double)(q->last_ns - q->first_ns) : 0;
}

static void gpu_text_queues(const struct gpu_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "QUEUE", .min = 5 }, { .title = "COMMANDS", .align = SONDE_RIGHT },
        { .title = "BUSY", .align = SONDE_RIGHT }, { .title = "BUSY %", .align = SONDE_RIGHT },
        { .title = "GAPS", .align = SONDE_RIGHT }, { .title = "IDLE", .align = SONDE_RIGHT },
        { .title = "NOTHING QUEUED", .align = SONDE_RIGHT }, { .title = "DEVICE", .drop = 1 },
    };
    const struct sonde_gpu_work *g = x->r->g;
    char text[SONDE_VALUE_BYTES];
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < g->queue_count && i < x->r->limit; i++) {
        const struct sonde_gpu_queue *q = &g->queues[i];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%u/%u%s", q->pid, q->number, q->out_of_order ? " out of order"
                                                                             : "");
        sonde_table_cell(&t, 1, "%" PRIu64, q->commands);
        sonde_table_cell(&t, 2, "%s", gpu_text_s(x, text, (double)q->busy_ns));
        report_percent_cell(&t, 3, gpu_report_busy(q));
        sonde_table_cell(&t, 4, "%" PRIu64, q->gaps);
        sonde_table_cell(&t, 5, "%s", gpu_text_s(x, text, (double)q->gap_ns));
        sonde_table_cell(&t, 6, "%s", gpu_text_s(x, text, (double)q->starved_ns));
        sonde_table_cell(&t, 7, "%s", sonde_profile_str(x->r->p, q->device));
    }
    sonde_buf_putc(x->out, '\n');
    report_put_rows(x->o, &t, x->out);
}

static void gpu_text_phases(const struct gpu_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "PHASE", .min = 6 }, { .title = "GPU TIME", .align = SONDE_RIGHT },
        { .title = "%", .align = SONDE_RIGHT },
    };
    const struct sonde_gpu_use *u = &x->r->use;
    char text[SONDE_VALUE_BYTES];
    struct sonde_table t;
    if (!(u->ns > u->no_phase_ns)) return;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t k = 0; k < SONDE_PHASE_COUNT; k++) {
        const double ns = k ? u->phase_ns[k] : u->no_phase_ns;
        if (!(ns > 0)) continue;
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", k ? sonde_phase_name(k) : "(in no phase)");
        sonde_table_cell(&t, 1, "%s", gpu_text_s(x, text, ns));
        report_percent_cell(&t, 2, ns / u->ns);
    }
    sonde_buf_putc(x->out, '\n');
    report_put_rows(x->o, &t, x->out);
}

static const char *gpu_report_request(const struct gpu_report *r, uint32_t i, char id[24])
{
    const struct sonde_infer_request *q = &r->p->infer->requests[r->use.requests[i].index];
    if (q->own_id[0]) return q->own_id;
    snprintf(id, 24, "%016" PRIx64, q->id);
    return id;
}

static void gpu_text_requests(const struct gpu_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "REQUEST", .min = 8 }, { .title = "GPU TIME", .align = SONDE_RIGHT },
        { .title = "%", .align = SONDE_RIGHT }, { .title = "COMMANDS", .align = SONDE_RIGHT },
    };
    const struct sonde_gpu_use *u = &x->r->use;
    char text[SONDE_VALUE_BYTES], id[24];
    struct sonde_table t;
    if (!u->request_count) return;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < u->request_count && i < x->r->limit; i++) {
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", gpu_report_request(x->r, i, id));
        sonde_table_cell(&t, 1, "%s", gpu_text_s(x, text, u->requests[i].ns));
        report_percent_cell(&t, 2, u->requests[i].ns / u->ns);
        sonde_table_cell(&t, 3, "%.0f", u->requests[i].commands);
    }
    sonde_buf_putc(x->out, '\n');
    report_put_rows(x->o, &t, x->out);
}

void gpu_report_text(const struct gpu_report *r, const struct sonde_report_options *o,
                     struct sonde_buf *out)
{
    if (!r->g) return;
    const uint64_t ns = sonde_gpu_ns(r->g);
    const struct gpu_text x = { r, o, out, ns ? (double)ns : 1 };
    report_put_heading(o, 2, "GPU commands", out);
    gpu_text_facts(&x);
    if (!r->g->kernel_count) return;
    gpu_text_classes(&x);
    gpu_text_kernels(&x);
    gpu_text_phases(&x);
    gpu_text_requests(&x);
    gpu_text_queues(&x);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void gpu_json_kernel(const struct gpu_report *r, const struct sonde_gpu_kernel *k,
                            struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "name", sonde_profile_str(r->p, k->name));
    sonde_json_str(out, "device", sonde_profile_str(r->p, k->device));
    sonde_json_str(out, "class", sonde_gpu_class_name((enum sonde_gpu_class)k->class));
    sonde_json_bool(out, "kernel", (int)k->is_kernel);
    sonde_json_u64(out, "count", k->count);
    sonde_json_u64(out, "untimed", k->untimed);
    sonde_json_num(out, "seconds", (double)k->ns * 1e-9);
    sonde_json_num(out, "min_s", (double)k->min_ns * 1e-9);
    sonde_json_num(out, "max_s", (double)k->max_ns * 1e-9);
    sonde_json_num(out, "queued_s", (double)k->wait_ns * 1e-9);
    sonde_json_u64(out, "bytes", k->bytes);
    sonde_json_close(out, '}');
}

static void gpu_json_queue(const struct gpu_report *r, const struct sonde_gpu_queue *q,
                           struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "device", sonde_profile_str(r->p, q->device));
    sonde_json_u64(out, "pid", q->pid);
    sonde_json_u64(out, "number", q->number);
    sonde_json_u64(out, "context", q->context);
    sonde_json_bool(out, "out_of_order", q->out_of_order != 0);
    sonde_json_u64(out, "commands", q->commands);
    sonde_json_num(out, "busy_s", (double)q->busy_ns * 1e-9);
    sonde_json_num(out, "busy_ratio", gpu_report_busy(q));
    sonde_json_u64(out, "gaps", q->gaps);
    sonde_json_num(out, "idle_s", (double)q->gap_ns * 1e-9);
    sonde_json_num(out, "nothing_queued_s", (double)q->starved_ns * 1e-9);
    sonde_json_close(out, '}');
}

static void gpu_json_use(const struct gpu_report *r, struct sonde_buf *out)
{
    const struct sonde_gpu_use *u = &r->use;
    char id[24];
    sonde_json_key_open(out, "phases", '{');
    for (uint32_t k = 1; k < SONDE_PHASE_COUNT; k++) {
        if (u->phase_ns[k] > 0) sonde_json_num(out, sonde_phase_name(k), u->phase_ns[k] * 1e-9);
    }
    sonde_json_close(out, '}');
    sonde_json_num(out, "no_phase_s", u->no_phase_ns * 1e-9);
    sonde_json_key_open(out, "requests", '[');
    for (uint32_t i = 0; i < u->request_count && i < r->limit; i++) {
        sonde_json_open(out, '{');
        sonde_json_str(out, "request", gpu_report_request(r, i, id));
        sonde_json_num(out, "seconds", u->requests[i].ns * 1e-9);
        sonde_json_num(out, "commands", u->requests[i].commands);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

void gpu_report_json(const struct gpu_report *r, struct sonde_buf *out)
{
    const struct sonde_gpu_work *g = r->g;
    if (!g) return;
    sonde_json_key_open(out, "gpu_commands", '{');
    sonde_json_u64(out, "enqueued", g->enqueued);
    sonde_json_u64(out, "recorded", g->recorded);
    sonde_json_u64(out, "missing", gpu_report_missing(g));
    sonde_json_u64(out, "failed", g->failed);
    sonde_json_u64(out, "switched_off", g->off_calls);
    sonde_json_num(out, "seconds", (double)sonde_gpu_ns(g) * 1e-9);
    sonde_json_u64(out, "waits", g->waits);
    sonde_json_num(out, "wait_s", (double)g->wait_ns * 1e-9);
    sonde_json_num(out, "own_s", (double)g->own_ns * 1e-9);
    sonde_json_num(out, "clock_doubt_s", (double)g->doubt_ns * 1e-9);
    sonde_json_key_open(out, "classes", '{');
    for (uint32_t c = 0; c < SONDE_GPU_CLASS_COUNT; c++) {
        const uint64_t ns = sonde_gpu_class_ns(g, (enum sonde_gpu_class)c);
        if (ns) sonde_json_num(out, sonde_gpu_class_name((enum sonde_gpu_class)c),
                               (double)ns * 1e-9);
    }
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "kernels", '[');
    for (uint32_t i = 0; i < g->kernel_count && i < r->limit; i++) {
        gpu_json_kernel(r, &g->kernels[r->order[i]], out);
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "queues", '[');
    for (uint32_t i = 0; i < g->queue_count && i < r->limit; i++) {
        gpu_json_queue(r, &g->queues[i], out);
    }
    sonde_json_close(out, ']');
    gpu_json_use(r, out);
    sonde_json_close(out, '}');
}
