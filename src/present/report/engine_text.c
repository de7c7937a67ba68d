/* engine_text.c - devices, pools and tokenizers of a report as text or Markdown. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "present/report/engine.h"
#include "present/report/profile_private.h"
#include "present/units.h"
#include "profile/final.h"

struct engine_text {                 /* what all parts are written with */
    const struct sonde_engine *e;
    const struct sonde_report_options *o;
    size_t limit;
    struct sonde_buf *out;
};

static void value_cell(const struct engine_text *x, struct sonde_table *t, size_t column, double v,
                       enum sonde_unit unit)
{
    char text[SONDE_VALUE_BYTES];
    if (!isnan(v)) {
        sonde_table_cell(t, column, "%s", sonde_value_format(text, v, unit, x->o->ascii));
    }
}

static void seconds_cell(const struct engine_text *x, struct sonde_table *t, size_t column,
                         double v)
{
    value_cell(x, t, column, v, SONDE_UNIT_SECONDS);
}

static void bytes_cell(const struct engine_text *x, struct sonde_table *t, size_t column, double v)
{
    value_cell(x, t, column, v, SONDE_UNIT_BYTES);
}

static void percent_cell(struct sonde_table *t, size_t column, double share)
{
    if (!isnan(share)) report_percent_cell(t, column, share);
}

/* The name, and where there are several programs whose it is. */
static void name_cell(const struct engine_text *x, struct sonde_table *t, const char *name,
                      const struct sonde_engine_who *who)
{
    if (x->e->several) sonde_table_cell(t, 0, "%s of %s %u", name, who->program, who->pid);
    else sonde_table_cell(t, 0, "%s", name);
}

/* "Devices", or how many of them are shown. */
static void heading_put(const struct engine_text *x, int level, const char *title, size_t count)
{
    char text[96];
    snprintf(text, sizeof(text), "%s", title);
    if (count > x->limit) {
        snprintf(text, sizeof(text), "%s, the first %zu of %zu", title, x->limit, count);
    }
    report_put_heading(x->o, level, text, x->out);
}

/* ---- Devices ------------------------------------------------------------------------------- */

static void device_facts(const struct engine_text *x)
{
    const struct sonde_engine *e = x->e;
    char text[SONDE_VALUE_BYTES];
    report_put_fact(x->o, x->out, "operations", "%" PRIu64 " on CPUs, %" PRIu64 " on GPUs, %" PRIu64
                    " fallbacks; %s in all", e->cpu_operations, e->gpu_operations, e->fallbacks,
                    sonde_value_format(text, e->device_seconds, SONDE_UNIT_SECONDS, x->o->ascii));
    for (uint32_t i = 0; i < e->device_count && i < x->limit; i++) {
        const struct sonde_engine_device *d = &e->devices[i];
        for (uint32_t k = 0; k < d->reason_count && k < x->limit; k++) {
            report_put_fact(x->o, x->out, "fallbacks", "%" PRIu64 " from %.80s: %.80s",
                            d->reasons[k].count, d->device, d->reasons[k].reason);
        }
    }
}

static void device_memory(const struct engine_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "DEVICE", .min = 6 }, { .title = "OPERATIONS", .align = SONDE_RIGHT },
        { .title = "TIME", .align = SONDE_RIGHT }, { .title = "%", .align = SONDE_RIGHT },
        { .title = "MEMORY", .align = SONDE_RIGHT }, { .title = "TOTAL", .align = SONDE_RIGHT },
        { .title = "MEMORY %", .align = SONDE_RIGHT },
        { .title = "FALLBACKS", .align = SONDE_RIGHT, .drop = 1 },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->e->device_count && i < x->limit; i++) {
        const struct sonde_engine_device *d = &x->e->devices[i];
        sonde_table_row(&t);
        name_cell(x, &t, d->device, &d->who);
        sonde_table_cell(&t, 1, "%" PRIu64, d->operations);
        seconds_cell(x, &t, 2, d->seconds);
        percent_cell(&t, 3, d->share);
        bytes_cell(x, &t, 4, d->used_bytes);
        bytes_cell(x, &t, 5, d->total_bytes);
        value_cell(x, &t, 6, d->efficiency, SONDE_UNIT_RATIO);
        sonde_table_cell(&t, 7, "%" PRIu64, d->fallbacks);
    }
    sonde_buf_putc(x->out, '\n');
    report_put_rows(x->o, &t, x->out);
}

static void device_operations(const struct engine_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "DEVICE", .min = 6 }, { .title = "OPERATION", .min = 8 },
        { .title = "COUNT", .align = SONDE_RIGHT }, { .title = "TIME", .align = SONDE_RIGHT },
        { .title = "%", .align = SONDE_RIGHT }, { .title = "MEAN", .align = SONDE_RIGHT },
        { .title = "P99", .align = SONDE_RIGHT },
        { .title = "MAX", .align = SONDE_RIGHT, .drop = 1 },
    };
    struct sonde_table t;
    size_t count = 0, shown = 0;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->e->device_count; i++) {
        const struct sonde_engine_device *d = &x->e->devices[i];
        count += d->op_count;
        for (uint32_t k = 0; k < d->op_count && shown < x->limit; k++, shown++) {
            const struct sonde_engine_op *op = &d->ops[k];
            sonde_table_row(&t);
            name_cell(x, &t, d->device, &d->who);
            sonde_table_cell(&t, 1, "%s", op->operation);
            sonde_table_cell(&t, 2, "%" PRIu64, op->time.count);
            seconds_cell(x, &t, 3, op->time.sum_s);
            percent_cell(&t, 4, op->share);
            seconds_cell(x, &t, 5, op->time.mean_s);
            seconds_cell(x, &t, 6, op->time.p99_s);
            seconds_cell(x, &t, 7, op->time.max_s);
        }
    }
    if (count) {
        heading_put(x, 3, "Operations by device and kind", count);
        report_put_rows(x->o, &t, x->out);
    } else {
        sonde_table_release(&t);
    }
}

/* ---- Pools --------------------------------------------------------------------------------- */

static void pool_row(const struct engine_text *x, struct sonde_table *t,
                     const struct sonde_engine_pool *p)
{
    bytes_cell(x, t, 1, p->used_bytes);
    bytes_cell(x, t, 2, p->peak_bytes);
    bytes_cell(x, t, 3, p->capacity_bytes);
    bytes_cell(x, t, 4, p->requested_bytes);
    percent_cell(t, 5, p->external);
    percent_cell(t, 6, p->internal);
    sonde_table_cell(t, 7, "%" PRIu64, p->failures);
}

static void pool_bytes(const struct engine_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "POOL", .min = 6 }, { .title = "USED", .align = SONDE_RIGHT },
        { .title = "PEAK", .align = SONDE_RIGHT }, { .title = "CAPACITY", .align = SONDE_RIGHT },
        { .title = "REQUESTED", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "EXTERNAL %", .align = SONDE_RIGHT },
        { .title = "INTERNAL %", .align = SONDE_RIGHT },
        { .title = "FAILURES", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->e->pool_count && i < x->limit; i++) {
        sonde_table_row(&t);
        name_cell(x, &t, x->e->pools[i].pool, &x->e->pools[i].who);
        pool_row(x, &t, &x->e->pools[i]);
    }
    if (x->e->pool_count > 1) {
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "all");
        pool_row(x, &t, &x->e->all_pools);
    }
    report_put_rows(x->o, &t, x->out);
}

static void pool_time_row(const struct engine_text *x, struct sonde_table *t,
                          const struct sonde_engine_pool *p)
{
    const struct sonde_engine_time *times[] = { &p->allocation, &p->release };
    for (size_t k = 0; k < 2; k++) {
        sonde_table_cell(t, 1 + 3 * k, "%" PRIu64, times[k]->count);
        seconds_cell(x, t, 2 + 3 * k, times[k]->mean_s);
        seconds_cell(x, t, 3 + 3 * k, times[k]->p99_s);
    }
}

static void pool_times(const struct engine_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "POOL", .min = 6 }, { .title = "ALLOCATIONS", .align = SONDE_RIGHT },
        { .title = "MEAN", .align = SONDE_RIGHT }, { .title = "P99", .align = SONDE_RIGHT },
        { .title = "FREES", .align = SONDE_RIGHT }, { .title = "MEAN", .align = SONDE_RIGHT },
        { .title = "P99", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    if (!x->e->all_pools.allocation.count && !x->e->all_pools.release.count) return;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->e->pool_count && i < x->limit; i++) {
        sonde_table_row(&t);
        name_cell(x, &t, x->e->pools[i].pool, &x->e->pools[i].who);
        pool_time_row(x, &t, &x->e->pools[i]);
    }
    if (x->e->pool_count > 1) {
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "all");
        pool_time_row(x, &t, &x->e->all_pools);
    }
    report_put_heading(x->o, 3, "Allocations and frees", x->out);
    report_put_rows(x->o, &t, x->out);
}

/* ---- Tokenizers ---------------------------------------------------------------------------- */

static void tokenizer_facts(const struct engine_text *x, const struct sonde_engine_tokenizer *t)
{
    const struct sonde_report_options *o = x->o;
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES], c[SONDE_VALUE_BYTES];
    report_put_fact(o, x->out, "encoded", "%" PRIu64 " inputs, %s, %" PRIu64 " tokens (%.2f bytes "
                    "each); %s tokens per second", t->encode.count,
                    sonde_value_format(a, (double)t->bytes, SONDE_UNIT_BYTES, o->ascii), t->tokens,
                    isnan(t->bytes_per_token) ? 0 : t->bytes_per_token,
                    sonde_value_format(b, t->tokens_per_s, SONDE_UNIT_COUNT, o->ascii));
    if (t->decode.count) {
        report_put_fact(o, x->out, "decoded", "%" PRIu64 " times: %s in all, mean %s, p99 %s",
                        t->decode.count,
                        sonde_value_format(a, t->decode.sum_s, SONDE_UNIT_SECONDS, o->ascii),
                        sonde_value_format(b, t->decode.mean_s, SONDE_UNIT_SECONDS, o->ascii),
                        sonde_value_format(c, t->decode.p99_s, SONDE_UNIT_SECONDS, o->ascii));
    }
    if (t->tokens) {
        report_put_fact(o, x->out, "per token", "%.2f look-ups, %.2f merges", t->lookups_per_token,
                        t->merges_per_token);
    }
    if (!isnan(t->hit_ratio)) {
        report_put_fact(o, x->out, "cache", "%.1f %% of %" PRIu64 " look-ups were hits",
                        100 * t->hit_ratio, t->cache_hits + t->cache_misses);
    }
    if (t->slowest >= 0) {
        const struct sonde_engine_length *l = &t->lengths[t->slowest];
        report_put_fact(o, x->out, "slowest", "%s, for an input of %s bytes",
                        sonde_value_format(a, l->time.max_s, SONDE_UNIT_SECONDS, o->ascii),
                        l->label);
    }
    for (uint32_t i = 0; i < t->advice_count; i++) {
        report_put_fact(o, x->out, "advice", "%s", t->advice[i].text);
    }
}

static void tokenizer_lengths(const struct engine_text *x, const struct sonde_engine_tokenizer *t)
{
    static const struct sonde_column columns[] = {
        { .title = "BYTES", .min = 6 }, { .title = "INPUTS", .align = SONDE_RIGHT },
        { .title = "TIME", .align = SONDE_RIGHT }, { .title = "%", .align = SONDE_RIGHT },
        { .title = "MEAN", .align = SONDE_RIGHT }, { .title = "P99", .align = SONDE_RIGHT },
        { .title = "MAX", .align = SONDE_RIGHT },
    };
    struct sonde_table table;
    if (!t->encode.count) return;
    sonde_table_init(&table, columns, SONDE_COUNT(columns));
    for (int i = 0; i < SONDE_TOKENIZER_CLASSES; i++) {
        const struct sonde_engine_length *l = &t->lengths[i];
        if (!l->time.count) continue;
        sonde_table_row(&table);
        sonde_table_cell(&table, 0, "%s", l->label);
        sonde_table_cell(&table, 1, "%" PRIu64, l->time.count);
        seconds_cell(x, &table, 2, l->time.sum_s);
        percent_cell(&table, 3, l->share);
        seconds_cell(x, &table, 4, l->time.mean_s);
        seconds_cell(x, &table, 5, l->time.p99_s);
        seconds_cell(x, &table, 6, l->time.max_s);
    }
    sonde_buf_putc(x->out, '\n');
    report_put_rows(x->o, &table, x->out);
}

static void tokenizer_part(const struct engine_text *x, const struct sonde_engine_tokenizer *t)
{
    report_put_heading(x->o, 2, "Tokenizer", x->out);
    if (x->e->several) {
        report_put_fact(x->o, x->out, "name", "%.120s of %.120s %u", t->tokenizer, t->who.program,
                        t->who.pid);
    } else {
        report_put_fact(x->o, x->out, "name", "%.120s", t->tokenizer);
    }
    tokenizer_facts(x, t);
    tokenizer_lengths(x, t);
}

void sonde_engine_report(const struct sonde_engine *e, const struct sonde_report_options *o,
                         size_t limit, struct sonde_buf *out)
{
    const struct engine_text x = { e, o, limit, out };
    if (!e) return;
    if (e->device_count) {
        heading_put(&x, 2, "Devices", e->device_count);
        device_facts(&x);
        device_memory(&x);
        device_operations(&x);
    }
    if (e->pool_count) {
        heading_put(&x, 2, "Pools", e->pool_count);
        pool_bytes(&x);
        pool_times(&x);
    }
    for (uint32_t i = 0; i < e->tokenizer_count && i < limit; i++) {
        tokenizer_part(&x, &e->tokenizers[i]);
    }
}
