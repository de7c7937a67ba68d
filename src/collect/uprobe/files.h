/* files.h - the files of a process that have functions of llama.cpp in them, found and probed
 * once each. For one thread, but for status and symbols. */
#ifndef SONDE_COLLECT_UPROBE_FILES_H
#define SONDE_COLLECT_UPROBE_FILES_H

#include "collect/uprobe/uprobe.h"
#include "collect/uprobe/event.h"

struct sonde_uprobe_files;

/* set is borrowed. 0 or SONDE_ENOMEM. */
int sonde_uprobe_files_create(uint32_t pid, struct sonde_uprobe_set *set,
                              struct sonde_uprobe_files **out);
void sonde_uprobe_files_destroy(struct sonde_uprobe_files *u); /* NULL is fine */

/* Look for files that the process has mapped since the last time. */
void sonde_uprobe_files_scan(struct sonde_uprobe_files *u);
/* One that it will execute: probes are put into files, whoever maps them. */
void sonde_uprobe_files_program(struct sonde_uprobe_files *u, const char *path);

/* Of a file, by the number that its events have. */
const struct sonde_uprobe_symbols *sonde_uprobe_files_symbols(const struct sonde_uprobe_files *u,
                                                              uint32_t file);
/* Fills in files, functions, found and problem. Any thread. */
void sonde_uprobe_files_status(struct sonde_uprobe_files *u, struct sonde_uprobe_status *out);

#endif
