/* mapping.h - a mapping as the kernel reports it, whichever way that came: a line of
 * /proc/PID/maps, PERF_RECORD_MMAP2, or what libsonde_preload read in the process and wrote to its
 * segment. */
#ifndef SONDE_BASE_MAPPING_H
#define SONDE_BASE_MAPPING_H

#include <stdint.h>
#include <sys/types.h>

struct sonde_mapping {
    uint64_t start, end, offset; /* offset in the file, bytes */
    dev_t dev;                   /* makedev(major, minor) */
    uint64_t inode;              /* 0 = unknown, or it is not of a file */
    const char *path;            /* "/… (deleted)", "[vdso]", "//anon", ""; a newline in it is one.
                                    Borrowed: the source says how long it is good */
    int executable;
};

#endif
