/* saved.h - results that are kept under a name: one file each, to which every run adds a line.
 *
 *   NAME.json     {"schema":1,"kind":"http",…}\n       the first run
 *                 {"schema":1,"kind":"http",…}\n       the next …
 *
 * So what `-o FILE` wrote is a file of one run, a history can be cut with `tail`, and jq reads
 * both. A file is always written anew, under a temporary name, and renamed: a reader sees it
 * without the new run or with it. Two that save at once wait for each other (a lock of the
 * folder).
 *
 * Rejected: appending in place, which leaves half a line when the disk is full; and a folder for
 * each name, which cannot be mailed. */
#ifndef SONDE_BENCH_SAVED_H
#define SONDE_BENCH_SAVED_H

#include <stddef.h>

#include "base/err.h"
#include "bench/result.h"

#define SONDE_BENCH_SAVED_SUFFIX ".json"
#define SONDE_BENCH_SAVED_RUNS_MAX 10000u
#define SONDE_BENCH_SAVED_NAME_MAX 100u

struct sonde_bench_saved {
    struct sonde_bench_result *runs;   /* owned; in the order they were added */
    size_t count, cap;
};
void sonde_bench_saved_release(struct sonde_bench_saved *s);

/* 0, or SONDE_EINVAL: not a name (letters, digits, . _ -; not first a dot or dash). */
int sonde_bench_saved_name_check(const char *name, struct sonde_err *err);

/* All runs of a file. SONDE_ENOENT, SONDE_EACCES, SONDE_EIO: it cannot be read; SONDE_EFORMAT,
 * SONDE_EVERSION, SONDE_EFULL with file and line: it is not what it should be; SONDE_ENOMEM. */
int sonde_bench_saved_load(const char *path, struct sonde_bench_saved *out, struct sonde_err *err);
/* The same for bytes that are in memory; name is how errors call them. */
int sonde_bench_saved_load_bytes(const char *data, size_t len, const char *name,
                                 struct sonde_bench_saved *out, struct sonde_err *err);

/* One more run. *runs: how many it has now; may be NULL. A file that is there and not one of
 * results is left alone (SONDE_EFORMAT). Folders on the way are made. */
int sonde_bench_saved_append(const char *path, const struct sonde_bench_result *r, size_t *runs,
                             struct sonde_err *err);

#endif
