/* data_file.h - data files (docs/plot.md): what any program has measured, as JSON. */
#ifndef SONDE_PRESENT_PLOT_DATA_FILE_H
#define SONDE_PRESENT_PLOT_DATA_FILE_H

#include <stddef.h>

#include "analyze/plot_data.h"
#include "base/buf.h"
#include "base/err.h"

#define SONDE_PLOT_FILE_MAX ((size_t)256 << 20)

/* 1 if it is meant to be one: an object in which its name stands. */
int sonde_plot_file_is(const char *text, size_t len);
/* Adds its series to data; title, note and kind if data has none. role: that of series without one
 * in a file without a kind; -1 = none. group: of series without one. name is how errors call it.
 * SONDE_EFORMAT, SONDE_EVERSION and what is wrong where, SONDE_EFULL, SONDE_ENOMEM: data has a
 * part of it. */
int sonde_plot_file_read(const char *text, size_t len, const char *name, int role,
                         const char *group, struct sonde_plot_data *data, struct sonde_err *err);
/* Members of an object: kind, title, note and series. */
void sonde_plot_file_write(const struct sonde_plot_data *data, struct sonde_buf *out);

#endif
