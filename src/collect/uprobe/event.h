/* event.h - the perf events that are probes in a file: for every function one at its entry
 * and, where that is wanted, one at its return, on every CPU; and a ring for every CPU.
 *
 * They are not opened for a process but for a CPU, whatever runs there, and so stop every process
 * that runs the same file, for a microsecond a hit; hits of others are left out by whoever reads.
 * Opened for a thread they would have to be opened for every thread, and those that begin later
 * would be missed: an event of this kind cannot be inherited. The kernel (6.18) lets one be opened
 * that says so, reads its path again when a thread begins, in that process's memory, and fails:
 * from then on the program can start no threads and no children. */
#ifndef SONDE_COLLECT_UPROBE_EVENT_H
#define SONDE_COLLECT_UPROBE_EVENT_H


#include "base/err.h"
#include "base/map.h"
#include "base/lock.h"
#include "collect/perf/ring.h"
#include "collect/uprobe/symbols.h"

struct sonde_uprobe_event {
    uint64_t id;
    int fd;
    uint32_t file;               /* number given to sonde_uprobe_set_open */
    uint16_t fn;                 /* enum sonde__llama_fn */
    uint16_t is_return;
};

struct sonde_uprobe_set {
    uint32_t type;               /* of the kernel's PMU */
    uint64_t return_bit;         /* in the attribute's config */
    int *cpus;
    uint32_t cpu_count;
    struct sonde_lock lock;        /* of what follows: one thread opens, another finds */
    struct sonde_perf_ring *rings; /* cpu_count of them, once there is a probe */
    struct sonde_uprobe_event *events;
    uint32_t event_count, event_cap;
    struct sonde_map by_id;   /* ids to index in events + 1 */
};

/* Nothing is opened yet. SONDE_EOFF: the kernel has no such probes; SONDE_ENOMEM. */
int sonde_uprobe_set_init(struct sonde_uprobe_set *s, struct sonde_err *err);
void sonde_uprobe_set_release(struct sonde_uprobe_set *s);

/* Probes at all functions that symbols has in fd, which may be closed afterwards. *probed: of how
 * many; one that the kernel refuses is logged and left out. SONDE_EACCES, SONDE_EFULL, SONDE_EIO,
 * SONDE_ENOMEM with what to do. */
int sonde_uprobe_set_open(struct sonde_uprobe_set *s, int fd, uint32_t file,
                          const struct sonde_uprobe_symbols *symbols, uint32_t *probed,
                          struct sonde_err *err);

/* The rings, which stay where they are; NULL = there is no probe yet. */
struct sonde_perf_ring *sonde_uprobe_set_rings(struct sonde_uprobe_set *s);

/* The event a record is from: 1, or 0 = none of ours. An event is known before it is enabled. */
int sonde_uprobe_set_find(struct sonde_uprobe_set *s, uint64_t id, struct sonde_uprobe_event *out);

/* When none is being opened. */
void sonde_uprobe_set_disable(struct sonde_uprobe_set *s);

/* Try it on this very program: 0, or SONDE_E… and what forbids it. */
int sonde_uprobe_check(struct sonde_err *note);

#endif
