/* tree.h - a process with all that descend from it, as /proc has them now. */
#ifndef SONDE_COLLECT_PROC_TREE_H
#define SONDE_COLLECT_PROC_TREE_H

#include <stdint.h>

#define SONDE_PROC_TREE_MAX 65536u /* processes */

/* Their numbers, root first, a parent before its children; to be freed with sonde__free. A process
 * whose parent has ended belongs to nobody any more and is not among them. SONDE_ENOMEM, SONDE_EIO:
 * /proc cannot be read. */
int sonde_proc_tree(uint32_t root, uint32_t **out, uint32_t *count);

/* User and system time of a process so far, of all its threads, also those that have ended, in
 * nanoseconds; children (may be NULL): of processes that it has waited for, with theirs. Also of
 * one that has ended and was not waited for yet. 0 or SONDE_ENOENT. */
int sonde_proc_cpu_ns(uint32_t pid, uint64_t *own, uint64_t *children);
/* The same of itself, apart. */
int sonde_proc_cpu_modes(uint32_t pid, uint64_t *user, uint64_t *system);

#endif
