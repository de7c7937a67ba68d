/* gpu_rows.c - facts of GPUs in a run file: tables of structures, see rows.h.
 *
 *   gpu             one row: all that is said once
 *   gpu_kernels     id 1 … : by name and device
 *   gpu_queues      id 1 …
 *   gpu_commands    id 1 … : in the order they were read; kernel and queue are ids less one */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/intern.h"
#include "profile/gpu.h"
#include "sonde/sonde.h"
#include "store/run/private.h"
#include "store/run/rows.h"

#define F(strct, field, kind)                                                                  \
    { .name = #field, .at = offsetof(struct strct, field), .type = RUN_##kind }

static const struct run_field gpu_fact_fields[] = {
    F(sonde_gpu_work, enqueued, U64), F(sonde_gpu_work, recorded, U64),
    F(sonde_gpu_work, crowded, U64), F(sonde_gpu_work, full, U64),
    F(sonde_gpu_work, unprofiled, U64), F(sonde_gpu_work, lost, U64),
    F(sonde_gpu_work, failed, U64), F(sonde_gpu_work, unread, U64),
    F(sonde_gpu_work, off_calls, U64), F(sonde_gpu_work, own_ns, U64),
    F(sonde_gpu_work, waits, U64), F(sonde_gpu_work, wait_ns, U64),
    F(sonde_gpu_work, doubt_ns, U64),
};

static const struct run_field gpu_kernel_fields[] = {
    F(sonde_gpu_kernel, name, STRING), F(sonde_gpu_kernel, device, STRING),
    F(sonde_gpu_kernel, class, U32), F(sonde_gpu_kernel, is_kernel, U32),
    F(sonde_gpu_kernel, count, U64), F(sonde_gpu_kernel, untimed, U64),
    F(sonde_gpu_kernel, ns, U64), F(sonde_gpu_kernel, min_ns, U64),
    F(sonde_gpu_kernel, max_ns, U64), F(sonde_gpu_kernel, wait_ns, U64),
    F(sonde_gpu_kernel, bytes, U64),
};

static const struct run_field gpu_queue_fields[] = {
    F(sonde_gpu_queue, device, STRING), F(sonde_gpu_queue, pid, U32),
    F(sonde_gpu_queue, number, U32), F(sonde_gpu_queue, context, U32),
    F(sonde_gpu_queue, out_of_order, U32), F(sonde_gpu_queue, api, U32),
    F(sonde_gpu_queue, commands, U64), F(sonde_gpu_queue, busy_ns, U64),
    F(sonde_gpu_queue, first_ns, U64), F(sonde_gpu_queue, last_ns, U64),
    F(sonde_gpu_queue, gaps, U64), F(sonde_gpu_queue, gap_ns, U64),
    F(sonde_gpu_queue, starved_ns, U64),
};

static const struct run_field gpu_command_fields[] = {
    F(sonde_gpu_command, call_ns, U64), F(sonde_gpu_command, start_ns, U64),
    F(sonde_gpu_command, end_ns, U64), F(sonde_gpu_command, bytes, U64),
    F(sonde_gpu_command, kernel, U32), F(sonde_gpu_command, queue, U32),
    F(sonde_gpu_command, thread, THREAD),
};

static const struct run_table gpu_facts = RUN_TABLE("gpu", gpu_fact_fields, struct sonde_gpu_work);
static const struct run_table gpu_kernels =
    RUN_TABLE("gpu_kernels", gpu_kernel_fields, struct sonde_gpu_kernel);
static const struct run_table gpu_queues =
    RUN_TABLE("gpu_queues", gpu_queue_fields, struct sonde_gpu_queue);
static const struct run_table gpu_commands =
    RUN_TABLE("gpu_commands", gpu_command_fields, struct sonde_gpu_command);

int sonde_run_gpu_write(sqlite3 *db, const struct sonde_profile *p)
{
    const struct sonde_gpu_work *g = p->gpu;
    assert(g);
    int rc = run_rows_write(db, p, &gpu_facts, g, 1);
    if (rc == SQLITE_OK) rc = run_rows_write(db, p, &gpu_kernels, g->kernels, g->kernel_count);
    if (rc == SQLITE_OK) rc = run_rows_write(db, p, &gpu_queues, g->queues, g->queue_count);
    if (rc != SQLITE_OK) return rc;
    return run_rows_write(db, p, &gpu_commands, g->commands, g->command_count);
}

/* ---- Reading ----------------------------------------------------------------------------- */

/* command_cap: one was there. */
static int gpu_take_facts(struct run_reader *r, void *row, void *arg)
{
    struct sonde_gpu_work *facts = arg;
    if (facts->command_cap++) return run_bad(r, "there is more than one row of facts");
    *facts = *(const struct sonde_gpu_work *)row;
    facts->command_cap = 1;
    return 0;
}

/* Another row of a table of g, if it may have that many. */
static int gpu_take_row(struct run_reader *r, const void *row, size_t size, void **rows,
                        uint32_t *count, uint32_t *cap, uint32_t max)
{
    const struct sonde_budget b = { &r->p->bytes, r->p->bytes_max };
    if (*count >= max) return run_bad(r, "there are more than %u of them", max);
    void *grown = sonde_table_grow(*rows, *count, cap, size, &b);
    if (!grown) return run_no_memory(r);
    *rows = grown;
    memcpy((char *)grown + size * (*count)++, row, size);
    return 0;
}

static int gpu_take_kernel(struct run_reader *r, void *row, void *arg)
{
    struct sonde_gpu_work *g = arg;
    const struct sonde_gpu_kernel *k = row;
    if (k->class >= SONDE_GPU_CLASS_COUNT || k->untimed > k->count || k->min_ns > k->max_ns) {
        return run_bad(r, "what it says of a kernel cannot be");
    }
    return gpu_take_row(r, row, sizeof(*k), (void **)&g->kernels, &g->kernel_count,
                        &g->kernel_cap, SONDE_GPU_KERNELS_MAX);
}

static int gpu_take_queue(struct run_reader *r, void *row, void *arg)
{
    struct sonde_gpu_work *g = arg;
    return gpu_take_row(r, row, sizeof(struct sonde_gpu_queue), (void **)&g->queues,
                        &g->queue_count, &g->queue_cap, SONDE_GPU_QUEUES_MAX);
}

static int gpu_take_command(struct run_reader *r, void *row, void *arg)
{
    struct sonde_gpu_work *g = arg;
    const struct sonde_gpu_command *c = row;
    if (c->kernel >= g->kernel_count || c->queue >= g->queue_count || c->end_ns < c->start_ns) {
        return run_bad(r, "a command is of no kernel or queue, or ends before it begins");
    }
    return gpu_take_row(r, row, sizeof(*c), (void **)&g->commands, &g->command_count,
                        &g->command_cap, SONDE_GPU_COMMANDS_MAX);
}

int run_gpu_read(struct run_reader *r)
{
    struct sonde_gpu_work facts = { 0 };
    union {
        struct sonde_gpu_work facts;
        struct sonde_gpu_kernel kernel;
        struct sonde_gpu_queue queue;
        struct sonde_gpu_command command;
    } row;
    if (!run_has_table(r, gpu_facts.name)) return 0;
    int rc = run_rows_read(r, &gpu_facts, &row, gpu_take_facts, &facts);
    struct sonde_gpu_work *g = rc ? NULL : sonde_gpu_of(r->p);
    if (rc || !g) return rc ? rc : run_no_memory(r);
    facts.command_cap = 0;
    *g = facts;
    if (run_has_table(r, gpu_kernels.name)) {
        rc = run_rows_read(r, &gpu_kernels, &row, gpu_take_kernel, g);
    }
    if (!rc && run_has_table(r, gpu_queues.name)) {
        rc = run_rows_read(r, &gpu_queues, &row, gpu_take_queue, g);
    }
    if (!rc && run_has_table(r, gpu_commands.name)) {
        rc = run_rows_read(r, &gpu_commands, &row, gpu_take_command, g);
    }
    return rc;
}
