/* process_cgroup.h - the CPU quota of the cgroup that a process is in; how often it was used up.
 *
 * Versions 1 and 2 are read. Quotas nest: of the cgroups from the process's own to the root the one
 * that allows the least is the one that counts. In a container whose mount shows only a part of the
 * hierarchy, the root of the mount stands for the cgroup that cannot be seen. */
#ifndef SONDE_COLLECT_PROC_PROCESS_CGROUP_H
#define SONDE_COLLECT_PROC_PROCESS_CGROUP_H

#include <stdint.h>

#include "collect/proc/procfs.h"

enum { SONDE_PROCESS_CGROUP_PATH_MAX = 1024 };

struct sonde_process_cgroup {
    int stat_fd;            /* cpu.stat of the one that counts; -1 = none has a quota */
    char dir[SONDE_PROCESS_CGROUP_PATH_MAX]; /* it; "" = none */

    /* Results. */
    double quota_cpus;      /* CPU time per time; 0 = no quota */
    int moved;              /* since the last find another one counts: counters begin anew */
    int counts_known;       /* of the following */
    uint64_t periods, throttled, throttled_ns;
};

void sonde_process_cgroup_init(struct sonde_process_cgroup *c);
void sonde_process_cgroup_release(struct sonde_process_cgroup *c);

/* Look where the process is (its folder of /proc is process_fd) and which quota counts: some ten
 * small files. */
void sonde_process_cgroup_find(struct sonde_process_cgroup *c, struct sonde_procfs_buf *buf,
                               int process_fd, const char *sys_root);
/* The counts: one small file, none where there is no quota. */
void sonde_process_cgroup_read(struct sonde_process_cgroup *c, struct sonde_procfs_buf *buf);

#endif
