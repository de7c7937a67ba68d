/* guarded_map.h - read-only mappings of files that somebody else may cut short at any moment.
 *
 * Touching a page behind the end of a mapped file raises SIGBUS, which would end the agent. A
 * process-wide handler finds the mapping, puts zeros under the rest of it and marks it damaged;
 * whoever reads it looks at the mark when done. A SIGBUS elsewhere goes where it went before. */
#ifndef SONDE_BASE_GUARDED_MAP_H
#define SONDE_BASE_GUARDED_MAP_H

#include <stddef.h>

#include "base/err.h"

#define SONDE_GUARDED_MAPS_MAX 4096  /* mappings at one time */

struct sonde_guarded_map {
    const char *base;
    size_t bytes;
    int slot;
};

/* Map the first bytes of fd, which may be closed afterwards. SONDE_EFULL: all slots are taken.
 * Thread-safe. */
int sonde_guarded_map_open(int fd, size_t bytes, struct sonde_guarded_map *out,
                           struct sonde_err *err);
/* Nobody may be reading it. A guard that is all zero is fine. */
void sonde_guarded_map_close(struct sonde_guarded_map *g);
/* What was read no longer counts as memory of this process; it is read again when needed. */
void sonde_guarded_map_forget(const struct sonde_guarded_map *g);
/* Reading the page that byte off is in brings in that page alone, not those around it as well. */
void sonde_guarded_map_window(const struct sonde_guarded_map *g, size_t off);
/* 1 if something was read that the file did not have. */
int sonde_guarded_map_damaged(const struct sonde_guarded_map *g);

#endif
