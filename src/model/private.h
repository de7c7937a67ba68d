/* private.h - what the files of the model share. */
#ifndef SONDE_MODEL_PRIVATE_H
#define SONDE_MODEL_PRIVATE_H

#include "base/map.h"
#include "model/model.h"

/* Text that spans point to, counted, so that names of processes long gone do not pile up. */
struct sonde_model_intern {
    uint64_t refs;
    size_t len;
    uint32_t hash;
    char text[];
};

/* Where things are found. */
struct sonde_model_index {
    struct sonde_pointer_map series;       /* by family, process and labels */
    struct sonde_pointer_map families;     /* by name */
    struct sonde_pointer_map texts;        /* of struct sonde_model_intern */
    size_t history_series;                 /* series that have a history */
    size_t parts;                          /* of all spans that are kept */
    struct sonde_model_stripped **stripped; /* values of labels that are shown otherwise */
    size_t stripped_count, stripped_cap;
};

/* Or nobody else knows m yet. */
#define SONDE_MODEL_ASSERT_READ(m) \
    do { if ((m)->shared) sonde_assert_held(&(m)->lock); } while (0)
#define SONDE_MODEL_ASSERT_WRITE(m) \
    do { if ((m)->shared) sonde_assert_held_write(&(m)->lock); } while (0)

/* strip.c. What a label's value is shown as (--strip); as long as the model lives. NULL: out of
 * memory. */
const char *sonde_model_strip(struct sonde_model *m, const char *name, const char *value);
void sonde_model_strip_free(struct sonde_model *m);

/* hist.c. A count is smaller than it was: it began again. */
int model_hist_went_back(const struct sonde_hist_value *now, const struct sonde_hist_value *old);
/* How many buckets grew; with d, put them into d->bucket, which has room. */
uint32_t model_hist_changes(const struct sonde_hist_value *now, const struct sonde_hist_value *old,
                            struct sonde_hist_delta *d);
/* old = now. Out of memory for an octave: the rest stays old and is a difference again. */
void model_hist_copy(struct sonde_hist_value *old, const struct sonde_hist_value *now);

/* Spans of pid that have the program's old name. */
void sonde_model_spans_rename(struct sonde_model *m, uint32_t pid, const char *old,
                              const char *now);
void sonde_model_series_free(struct sonde_model *m, struct sonde_model_series *s);
void sonde_model_spans_free(struct sonde_model *m);

#endif
