/* pprof.h - what the writer and the reader of pprof's profile.proto share. */
#ifndef SONDE_PROFILE_FORMATS_PPROF_H
#define SONDE_PROFILE_FORMATS_PPROF_H

#include "profile/format.h"

/* Field numbers of profile.proto. */
enum {
    PPROF_SAMPLE_TYPE = 1, PPROF_SAMPLE = 2, PPROF_MAPPING = 3, PPROF_LOCATION = 4,
    PPROF_FUNCTION = 5, PPROF_STRING = 6, PPROF_TIME_NANOS = 9, PPROF_DURATION_NANOS = 10,
    PPROF_PERIOD_TYPE = 11, PPROF_PERIOD = 12, PPROF_COMMENT = 13,
    PPROF_DEFAULT_SAMPLE_TYPE = 14,
    PPROF_FIELD_LAST = 15, /* doc_url */

    PPROF_TYPE_TYPE = 1, PPROF_TYPE_UNIT = 2,
    PPROF_SAMPLE_LOCATION = 1, PPROF_SAMPLE_VALUE = 2, PPROF_SAMPLE_LABEL = 3,
    PPROF_LABEL_KEY = 1, PPROF_LABEL_STR = 2, PPROF_LABEL_NUM = 3,
    PPROF_MAPPING_ID = 1, PPROF_MAPPING_START = 2, PPROF_MAPPING_LIMIT = 3,
    PPROF_MAPPING_OFFSET = 4, PPROF_MAPPING_FILE = 5, PPROF_MAPPING_BUILD_ID = 6,
    PPROF_MAPPING_HAS_FUNCTIONS = 7, PPROF_MAPPING_HAS_FILENAMES = 8,
    PPROF_MAPPING_HAS_LINES = 9, PPROF_MAPPING_HAS_INLINES = 10,
    PPROF_LOCATION_ID = 1, PPROF_LOCATION_MAPPING = 2, PPROF_LOCATION_ADDRESS = 3,
    PPROF_LOCATION_LINE = 4,
    PPROF_LINE_FUNCTION = 1, PPROF_LINE_LINE = 2,
    PPROF_FUNCTION_ID = 1, PPROF_FUNCTION_NAME = 2, PPROF_FUNCTION_FILE = 4,
    PPROF_FUNCTION_START_LINE = 5
};

/* The two values of a sample, by kind: how many, and how much in the kind's unit. Names as Go's
 * profiles have them where they have them, since tools know those. */
struct pprof_kind {
    const char *count, *weight, *unit;
};
extern const struct pprof_kind sonde_pprof_kinds[SONDE_SAMPLE_KIND_COUNT];

/* Facts without a field of their own are comments. */
#define PPROF_COMMENT_PROGRAM "program: "
#define PPROF_COMMENT_ACHIEVED "samples per second reached: "
#define PPROF_COMMENT_LOST "records lost: "
#define PPROF_COMMENT_DROPPED "samples dropped: "

int sonde_pprof_write(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                      struct sonde_buf *out, struct sonde_err *err);
/* All kinds of memory samples in one, as Go's heap profiles: alloc_objects, alloc_space,
 * inuse_objects, inuse_space, and what else there is. The filter's kind does not count. */
int sonde_pprof_write_heap(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                           struct sonde_buf *out, struct sonde_err *err);
int sonde_pprof_read(const char *data, size_t len, struct sonde_import *how,
                     struct sonde_profile *p, struct sonde_err *err);

#endif
