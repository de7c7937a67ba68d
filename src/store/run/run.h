/* run.h - a run: one SQLite file with everything that was recorded of one execution. This version
 * keeps profiles, spans and facts about the run; the tables are made to be widened (see
 * private.h). A run file can be copied and mailed.
 *
 * Every command that reads a profile takes what sonde_run_load takes: a run file, or a file in any
 * format that src/profile/format.h can read. */
#ifndef SONDE_STORE_RUN_RUN_H
#define SONDE_STORE_RUN_RUN_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "profile/profile.h"

/* Write p as a new run file, atomically (temporary name, then rename). Locations should be
 * symbolized first: the file must make sense on another machine. */
int sonde_run_save(const char *path, const struct sonde_profile *p, struct sonde_err *err);

/* Whether a run could be written there now: to be asked before an hour is recorded. 0 or the error
 * that saving would end with. */
int sonde_run_check(const char *path, struct sonde_err *err);

/* The same as bytes, for who hands it on. */
int sonde_run_save_bytes(const struct sonde_profile *p, struct sonde_buf *out,
                         struct sonde_err *err);

/* Read a run file, or import another format by looking at its first bytes; path "-" is the
 * standard input. Errors name the file and what is wrong with it; a run file of a newer version is
 * refused. SONDE_ENOENT, SONDE_EACCES, SONDE_EIO: it cannot be read; SONDE_EFORMAT,
 * SONDE_EVERSION: it is not what it should be; SONDE_ENOMEM. */
int sonde_run_load(const char *path, struct sonde_profile **out, struct sonde_err *err);

/* The same, told how a file of another format is to be read; how->note is what there is to say
 * about it. how may be NULL. SONDE_EINVAL: how asks for what is not there. */
struct sonde_import;
int sonde_run_import(const char *path, struct sonde_import *how, struct sonde_profile **out,
                     struct sonde_err *err);

/* The same for bytes that are in memory already; name is how errors call them. */
int sonde_run_load_bytes(const char *data, size_t len, const char *name,
                         struct sonde_profile **out, struct sonde_err *err);

#endif
