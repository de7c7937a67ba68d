/* baseline.h - a baseline: a named set of runs that later ones are compared with, in one file that
 * can be committed to a repository or mailed:
 *
 *   sonde-baseline 1 BYTES\n      version, and how long the next part is
 *   { … }\n                       JSON: created_s, note, span, and of each run source, sonde,
 *                                 added_s, start_s, end_s, from_s, to_s, requests, bytes, and one
 *                                 member for each of SONDE_RUN_FACTS that is known
 *   run files (store/run/run.h), gzipped, `bytes` each, in that order
 *
 * So `head -n 2` shows what it is of. It is always written anew, under a temporary name, and
 * renamed: a reader sees the old one or the new. Of two writers at once the last one wins, whole.
 *
 * Rejected: a folder of run files with an index, which a copy of half of it makes untrue; and an
 * SQLite database, whose pages nobody can read in a merge request, for what is a list. */
#ifndef SONDE_STORE_BASELINE_BASELINE_H
#define SONDE_STORE_BASELINE_BASELINE_H

#include <stddef.h>
#include <stdint.h>

#include "analyze/run_facts.h"
#include "base/buf.h"
#include "base/err.h"
#include "profile/profile.h"

#define SONDE_BASELINE_SUFFIX ".baseline"
#define SONDE_BASELINE_RUNS_MAX 1000u
#define SONDE_BASELINE_NAME_MAX 100u
#define SONDE_BASELINE_TEXT_MAX 4096u /* of a note, source or span */

struct sonde_baseline_run {
    char *source;              /* owned: the file or URL it came from */
    char *sonde;               /* owned: version that added it */
    double added_s;            /* unix time, as the next four */
    double start_s, end_s;
    double from_s, to_s;       /* the part that counts; 0 = open */
    uint64_t requests;         /* of inference, or spans that are requests; 0 = none */
    struct sonde_run_facts facts;
    char *data;                /* owned: the run file, gzipped */
    size_t bytes;
};

struct sonde_baseline {
    double created_s;
    char *note, *span;         /* owned; "" = none. span: GLOB of spans that are requests */
    struct sonde_baseline_run *runs;
    size_t count, cap;
    size_t bytes;              /* of all runs */
};

/* 0, or SONDE_EINVAL: not a name of a baseline (letters, digits, . _ -; not first a dot). */
int sonde_baseline_name_check(const char *name, struct sonde_err *err);

int sonde_baseline_create(struct sonde_baseline **out);
void sonde_baseline_destroy(struct sonde_baseline *b); /* NULL is fine */

/* SONDE_ENOENT, SONDE_EACCES, SONDE_EIO: it cannot be read; SONDE_EFORMAT, SONDE_EVERSION: it is
 * not what it should be; SONDE_ENOMEM. */
int sonde_baseline_load(const char *path, struct sonde_baseline **out, struct sonde_err *err);

/* The same for bytes that are in memory already; name is how errors call them. */
int sonde_baseline_load_bytes(const char *data, size_t len, const char *name,
                              struct sonde_baseline **out, struct sonde_err *err);

/* A profile as another run. SONDE_EFULL: too many, or with it more than bytes_max. */
struct sonde_baseline_add {
    const struct sonde_profile *profile;
    const char *source;
    double from_s, to_s;       /* the part of it that counts; 0 = open */
    uint64_t requests;
    double now_s;
};
int sonde_baseline_add_run(struct sonde_baseline *b, const struct sonde_baseline_add *add,
                           size_t bytes_max, struct sonde_err *err);

/* NULL leaves it alone. SONDE_EINVAL: too long; SONDE_ENOMEM. */
int sonde_baseline_describe(struct sonde_baseline *b, const char *note, const char *span,
                            struct sonde_err *err);

int sonde_baseline_save(const struct sonde_baseline *b, const char *path, struct sonde_err *err);

/* The profile of a run. As sonde_run_load_bytes. */
int sonde_baseline_profile(const struct sonde_baseline *b, size_t run, struct sonde_profile **out,
                           struct sonde_err *err);

#endif
