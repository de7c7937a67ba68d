/* proc_maps.h - /proc/PID/maps, a line at a time: it has no bound that could be read whole. */
#ifndef SONDE_BASE_PROC_MAPS_H
#define SONDE_BASE_PROC_MAPS_H

#include <stdint.h>

#include "base/mapping.h"

/* line() for each mapping, whose path is good until it returns; what it returns, unless 0, ends the
 * reading and is returned. Lines that make no sense are skipped. SONDE_ENOENT: there is no such
 * process; SONDE_EACCES, SONDE_ENOMEM, SONDE_EIO. */
int sonde_proc_maps(uint32_t pid, int (*line)(void *arg, const struct sonde_mapping *m),
                    void *arg);

#endif
