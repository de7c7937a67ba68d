/* private.h - what the files of the model share. */
#ifndef SONDE_MODEL_PRIVATE_H
#define SONDE_MODEL_PRIVATE_H

#include "model/model.h"

/* Text that spans point to, counted, so that names of processes long gone do not pile up. */
struct sonde_model_intern {
    struct sonde_model_intern *chain;
    uint64_t hash, refs;
    size_t len;
    char text[];
};

/* Hash tables with chains through the entries; the number of slots is a power of two. */
struct sonde_model_index {
    struct sonde_model_series **series;
    size_t series_slots;
    struct sonde_model_family_entry {
        struct sonde_model_family family;  /* first: a family is its entry */
        struct sonde_model_family_entry *chain;
        uint64_t hash;
    } **family;
    size_t family_slots;
    struct sonde_model_intern **intern;
    size_t intern_slots, intern_count;
    size_t history_series;                 /* series that have a history */
    size_t parts;                          /* of all spans that are kept */
    struct sonde_model_stripped **stripped; /* values of labels that are shown otherwise */
    size_t stripped_count, stripped_cap;
};

uint64_t sonde_model_hash(uint64_t seed, const void *data, size_t len);
#define SONDE_MODEL_HASH_SEED 14695981039346656037ull

/* Grow array to hold one more; 0 or SONDE_ENOMEM. */
int sonde_model_grow(void **array, size_t *cap, size_t count, size_t item_bytes);

/* strip.c. What a label's value is shown as (--strip); as long as the model lives. NULL: out of
 * memory. */
const char *sonde_model_strip(struct sonde_model *m, const char *name, const char *value);
void sonde_model_strip_free(struct sonde_model *m);

/* Spans of pid that have the program's old name. */
void sonde_model_spans_rename(struct sonde_model *m, uint32_t pid, const char *old, const char *now);
void sonde_model_series_free(struct sonde_model *m, struct sonde_model_series *s);
void sonde_model_spans_free(struct sonde_model *m);

#endif
