/* stored.c - see stored.h. */
#include "bench/stored.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "sonde/sonde.h"
#include "store/store.h"
#include "store/transfer/transfer.h"

#define SERIES_LABELS_MAX 2048u

static const struct { const char *unit, *name, *as; } stored_units[] = {
    { "s", "sonde_bench_seconds", "seconds" },
    { "bytes", "sonde_bench_bytes", "bytes" },
    { "1/s", "sonde_bench_per_second", "" },
    { "bytes/s", "sonde_bench_bytes_per_second", "" },
    { "ratio", "sonde_bench_ratio", "ratio" },
    { "", "sonde_bench_value", "" },
};

/* As Prometheus has it: backslash, quote and newline escaped. */
static void stored_label(struct sonde_buf *out, const char *key, const char *value)
{
    sonde_buf_printf(out, "%s%s=\"", out->len ? "," : "", key);
    for (; *value; value++) {
        if (*value == '\n') sonde_buf_puts(out, "\\n");
        else {
            if (*value == '"' || *value == '\\') sonde_buf_putc(out, '\\');
            sonde_buf_putc(out, *value);
        }
    }
    sonde_buf_putc(out, '"');
}

static int stored_add(struct sonde_transfer *x, const struct sonde_bench_result *r,
                      const struct sonde_bench_figure *f)
{
    size_t unit = 0;
    while (unit + 1 < SONDE_COUNT(stored_units) && strcmp(stored_units[unit].unit, f->unit) != 0) {
        unit++;
    }
    struct sonde_buf labels;
    sonde_buf_init(&labels, SERIES_LABELS_MAX);
    stored_label(&labels, "bench", r->name[0] ? r->name : r->kind);
    stored_label(&labels, "figure", f->name);
    stored_label(&labels, "kind", r->kind);
    sonde_buf_putc(&labels, '\0');
    int rc = labels.error;
    if (!rc) {
        const struct sonde_store_series spec = {
            .name = stored_units[unit].name, .help = "A figure of a benchmark.",
            .unit = stored_units[unit].as, .source = "bench", .labels = labels.data, .program = "",
            .type = SONDE_GAUGE, .kind = SONDE_KIND_CUSTOM, .scale = 1 };
        struct sonde_transfer_series *s = sonde_transfer_add(x, &spec);
        const struct sonde_transfer_point p = { .time_ms = (int64_t)(r->time_s * 1000),
                                                .value = sonde_transfer_bits(f->value) };
        rc = s ? sonde_transfer_point(s, &p) : SONDE_ENOMEM;
    }
    sonde_buf_release(&labels);
    return rc;
}

int sonde_bench_series_append(const char *path, const struct sonde_bench_result *r,
                              struct sonde_err *err)
{
    struct sonde_transfer x = { 0 };
    char name[SONDE_BENCH_NAME_MAX + 16];
    int rc = 0;
    if (access(path, F_OK) == 0 && !sonde_store_is_file(path)) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.200s' is there and is not a store: "
                             "name another file", path);
    }
    for (size_t i = 0; i < r->figure_count && !rc; i++) {
        if (!isnan(r->figures[i].value)) rc = stored_add(&x, r, &r->figures[i]);
    }
    snprintf(name, sizeof(name), "bench %s", r->name[0] ? r->name : r->kind);
    if (rc) rc = sonde_err_memory(err);
    else if (!x.count) {
        rc = sonde_err_set(err, SONDE_EINVAL, "the result has no figure to put into a store");
    } else {
        rc = sonde_transfer_import(&sonde_store_sqlite, path, name, &x, err);
    }
    sonde_transfer_release(&x);
    return rc;
}
