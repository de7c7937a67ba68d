#include "collect/proc/probe_series.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"

int sonde_probe_open_proc(const char *probe, const char *proc_root, int *fd,
                          struct sonde_procfs_buf *buf, struct sonde_err *err)
{
    assert(probe && proc_root && fd && buf);
    *fd = open(proc_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0) {
        return sonde_err_set(err, SONDE_ENOENT, "%s: cannot open %s: %s; mount procfs there", probe,
                             proc_root, strerror(errno));
    }
    const int rc = sonde_procfs_buf_init(buf);
    return rc ? sonde_err_set(err, rc, "%s: out of memory", probe) : 0;
}

static struct sonde_model_series *probe_series_make(struct sonde_model *m,
                                                    const struct sonde_model_family_spec *spec,
                                                    struct sonde_model_process *process,
                                                    const struct sonde_label *labels,
                                                    size_t label_count)
{
    struct sonde_model_family_spec scaled = *spec;
    if (scaled.scale < 0) {
        const long hz = sysconf(_SC_CLK_TCK);
        scaled.scale = 1.0 / (double)(hz > 0 ? hz : 100);
    }
    struct sonde_model_family *f = sonde_model_family(m, &scaled);
    return f ? sonde_model_series(m, f, process, labels, label_count) : NULL;
}

void sonde_probe_counter(struct sonde_model *m, const struct sonde_model_family_spec *spec,
                         struct sonde_model_process *process, const struct sonde_label *labels,
                         size_t label_count, struct sonde_model_series **s, uint64_t value)
{
    if (!*s) *s = probe_series_make(m, spec, process, labels, label_count);
    if (*s) (*s)->counter = value;
}

void sonde_probe_gauge(struct sonde_model *m, const struct sonde_model_family_spec *spec,
                       struct sonde_model_process *process, const struct sonde_label *labels,
                       size_t label_count, struct sonde_model_series **s, double value)
{
    if (!*s) *s = probe_series_make(m, spec, process, labels, label_count);
    if (*s) (*s)->gauge = value;
}

void sonde_probe_drop(struct sonde_model *m, struct sonde_model_series **s)
{
    if (*s) sonde_model_series_forget(m, *s);
    *s = NULL;
}

static struct sonde_probe_row *probe_series_add(struct sonde_probe_rows *rows, const char *key)
{
    if (SONDE_ARRAY_ROOM_MAX(rows->row, rows->count, rows->cap, rows->max)) return NULL;
    char *copy = sonde__strdup(key);
    if (!copy) return NULL;
    struct sonde_probe_row *row = &rows->row[rows->count++];
    *row = (struct sonde_probe_row){ .key = copy, .seen = rows->tick };
    return row;
}

struct sonde_probe_row *sonde_probe_row(struct sonde_probe_rows *rows, const char *key,
                                        int *fresh)
{
    assert(rows->max > 0 && key);
    *fresh = 0;
    for (size_t tried = 0; tried < rows->count; tried++) {
        const size_t i = (rows->cursor + tried) % rows->count;
        if (strcmp(rows->row[i].key, key) == 0) {
            rows->cursor = i + 1;
            rows->row[i].seen = rows->tick;
            return &rows->row[i];
        }
    }
    struct sonde_probe_row *row = probe_series_add(rows, key);
    if (!row) {
        rows->left_out++;
        return NULL;
    }
    *fresh = 1;
    rows->cursor = rows->count;
    return row;
}

void sonde_probe_rows_sweep(struct sonde_model *m, struct sonde_probe_rows *rows)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++) {
        struct sonde_probe_row *row = &rows->row[i];
        if (row->seen == rows->tick) {
            rows->row[kept++] = *row;
            continue;
        }
        for (size_t k = 0; k < SONDE_PROBE_ROW_SERIES; k++) sonde_probe_drop(m, &row->series[k]);
        sonde__free(row->key);
    }
    rows->count = kept;
    rows->cursor = 0;
    rows->tick++;
}

void sonde_probe_rows_release(struct sonde_probe_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) sonde__free(rows->row[i].key);
    sonde__free(rows->row);
    *rows = (struct sonde_probe_rows){ .max = rows->max };
}
