/* probe_series.h - what probes share when they put figures into the model: values that
 * may be absent, and rows of series for things that come and go (CPUs, disks, interfaces,
 * mounts). */
#ifndef SONDE_COLLECT_PROC_PROBE_SERIES_H
#define SONDE_COLLECT_PROC_PROBE_SERIES_H

#include "base/err.h"
#include "collect/proc/procfs.h"
#include "model/model.h"

/* What a probe (its name is for the sentence) reads /proc with: the folder and a buffer. *fd is
 * closed and buf released by the probe, also after a failure: SONDE_ENOENT, SONDE_ENOMEM. */
int sonde_probe_open_proc(const char *probe, const char *proc_root, int *fd,
                          struct sonde_procfs_buf *buf, struct sonde_err *err);

/* A spec's scale that stands for 1 / sysconf(_SC_CLK_TCK). */
#define SONDE_PROBE_CLOCK_TICKS (-1.0)

/* Set *s, made on first use: its family from spec, which may have SONDE_PROBE_CLOCK_TICKS, and
 * these labels. *s stays NULL where the model has no place for it. Families are looked up when a
 * series is made and never kept, since the model drops a family with its last series. */
void sonde_probe_counter(struct sonde_model *m, const struct sonde_model_family_spec *spec,
                         struct sonde_model_process *process, const struct sonde_label *labels,
                         size_t label_count, struct sonde_model_series **s, uint64_t value);
void sonde_probe_gauge(struct sonde_model *m, const struct sonde_model_family_spec *spec,
                       struct sonde_model_process *process, const struct sonde_label *labels,
                       size_t label_count, struct sonde_model_series **s, double value);

/* Take *s out of the model and make it NULL: what it said is no longer known. */
void sonde_probe_drop(struct sonde_model *m, struct sonde_model_series **s);

#define SONDE_PROBE_ROW_SERIES 8

struct sonde_probe_row {
    char *key;               /* owned */
    uint64_t seen;           /* tick of the table it was last found in */
    int ignored;             /* known, and not to be shown */
    uint64_t last[SONDE_PROBE_ROW_SERIES]; /* the reader's own */
    struct sonde_model_series *series[SONDE_PROBE_ROW_SERIES];
};

struct sonde_probe_rows {
    struct sonde_probe_row *row; /* owned */
    size_t count, cap;
    size_t max;              /* rows kept; further keys are left out */
    size_t cursor;           /* where the next key is likely to be: files keep their order */
    uint64_t tick;           /* raised by sweep */
    uint64_t left_out;       /* keys over max, or without memory, ever */
};

/* Find or add; *fresh is set to whether it is new. NULL: full. Good until the next call. */
struct sonde_probe_row *sonde_probe_row(struct sonde_probe_rows *rows, const char *key,
                                        int *fresh);

/* Take out the rows (and their series) that were not found since the last sweep. */
void sonde_probe_rows_sweep(struct sonde_model *m, struct sonde_probe_rows *rows);

/* Free the rows; the series stay. */
void sonde_probe_rows_release(struct sonde_probe_rows *rows);

#endif
