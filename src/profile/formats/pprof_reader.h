/* pprof_reader.h - what the files that read pprof share. */
#ifndef SONDE_PROFILE_FORMATS_PPROF_READER_H
#define SONDE_PROFILE_FORMATS_PPROF_READER_H

#include "base/pb_read.h"
#include "profile/formats/pprof.h"

enum { PPROF_TYPES_MAX = 64 };

struct pprof_text {
    const char *s;
    size_t len;
};

/* Ids of a table in the file, with what they became. Most files number their rows 1, 2, 3 …, which
 * needs no search. */
struct pprof_ids {
    struct pprof_id { uint64_t id; uint32_t value; } *rows;
    uint32_t count, cap;
    int dense;
};

/* One kind of samples to be read out of each sample's values. */
struct pprof_column {
    int kind;
    uint32_t weight, count; /* indexes of values; count == weight: none of its own */
    uint64_t scale;         /* weight times this is in the kind's unit */
    int count_is_weight;    /* unit is count and there is no other */
};

struct pprof_reader {
    struct sonde_profile *p;
    struct sonde_err *err;
    const char *data;
    size_t len;
    struct pprof_text *strings;
    uint32_t strings_count, strings_cap;
    struct pprof_ids mappings, functions, locations;
    struct { uint64_t type, unit; } types[PPROF_TYPES_MAX];
    uint32_t types_count;
    uint64_t default_type, period, duration;
    struct pprof_column columns[SONDE_SAMPLE_KIND_COUNT];
    uint32_t columns_count;
    uint64_t *path;          /* of a sample, the leaf first */
    uint32_t path_cap;
    struct sonde_profile_line *lines;
    uint32_t lines_cap;
    uint64_t row;            /* number of the row that is read, for messages */
    size_t bytes;
};

#define PPROF_DAMAGED(r, ...) sonde_err_set((r)->err, SONDE_EFORMAT, __VA_ARGS__)

/* ---- pprof_read.c ---- */

int pprof_no_room(const struct pprof_reader *r);
int pprof_damaged_row(struct pprof_reader *r, const char *what);
/* What an id became; 0 = there is none such. */
uint32_t pprof_find_id(const struct pprof_ids *ids, uint64_t id);
/* SONDE_EFORMAT: there is no such string. */
int pprof_get_text(struct pprof_reader *r, uint64_t index, struct pprof_text *out);
int pprof_text_is(struct pprof_text t, const char *s);
/* Fields 1 … max of a message that are numbers, into v; the others are left to the caller. Not 0:
 * it is damaged. */
int pprof_get_numbers(struct sonde_pb_reader message, uint64_t *v, uint32_t max);

/* ---- pprof_read_sample.c ---- */

/* How many of the kind's unit are in one of this unit; 0 = it is another thing. */
uint64_t pprof_unit_scale(const char *unit, struct pprof_text t);
/* Which of the file's sample types become which kinds. */
int pprof_choose_columns(struct pprof_reader *r);
int pprof_read_sample(struct pprof_reader *r, struct sonde_pb_reader message);

#endif
