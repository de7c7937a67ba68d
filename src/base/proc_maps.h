/* proc_maps.h - /proc/PID/maps, a line at a time: it has no bound that could be read whole. */
#ifndef SONDE_BASE_PROC_MAPS_H
#define SONDE_BASE_PROC_MAPS_H

#include <stdint.h>
#include <sys/types.h>

struct sonde_proc_mapping {
    uint64_t start, end, offset; /* offset in the file, bytes */
    dev_t dev;
    uint64_t inode;              /* 0 = it is not of a file */
    const char *path;            /* "/… (deleted)", "[vdso]", ""; a newline in it is one */
    int executable;
};

/* line() for each mapping, whose path is good until it returns; what it returns, unless 0, ends the
 * reading and is returned. Lines that make no sense are skipped. SONDE_ENOENT: there is no such
 * process; SONDE_EACCES, SONDE_ENOMEM, SONDE_EIO. */
int sonde_proc_maps(uint32_t pid, int (*line)(void *arg, const struct sonde_proc_mapping *m),
                    void *arg);

#endif
