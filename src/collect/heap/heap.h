/* heap.h - the heap of a process into a profile: reads what libsonde_preload keeps in the segment
 * (segment/heap.h), as often as curves and verdicts need it. The same for sampled and full mode.
 *
 * A thread of the agent drains events 20 times a second and takes a tick (a point of the curve, and
 * of the growth of each site) 16 times a second at first, then ever more rarely down to once;
 * series are of bounded length (profile/curve.h; analyze/growth.h says what they mean). Memory
 * follows the number of sites, not of allocations. */
#ifndef SONDE_COLLECT_HEAP_HEAP_H
#define SONDE_COLLECT_HEAP_HEAP_H

#include "base/err.h"
#include "profile/heap.h"
#include "profile/profile.h"

#define SONDE_HEAP_MEAN_DEFAULT (512u << 10)

struct sonde_preload_readers;

struct sonde_heap_reader_options {
    uint32_t pid;              /* the process; required */
    int full;                  /* every allocation */
    uint64_t mean;             /* bytes between samples; 0 = SONDE_HEAP_MEAN_DEFAULT */
    uint32_t depth_max;        /* frames kept of a stack; 0 = 128 */
    int children;              /* also processes it starts */
    int scan;                  /* at exit, tell lost memory from what is still reachable */
    uint64_t seed;             /* of the sampling; 0 = random */
    size_t bytes_max;          /* memory for profile and series; 0 = 192 MiB */
    const char *dir;           /* of segments; NULL = the default directory */
    struct sonde_preload_readers *readers; /* sonde_collector_readers, which must outlive the
                                              reader; NULL = no collector */
};

struct sonde_heap_reader;

/* For a child that was forked but has not yet called exec: profiling begins at exec. SONDE_EOFF
 * with a sentence: libsonde_preload is not there, … */
int sonde_heap_reader_start_on_exec(const struct sonde_heap_reader_options *options,
                                    struct sonde_heap_reader **out, struct sonde_err *err);

/* For a process that runs and was started with libsonde_preload's heap profiler (by whomever).
 * SONDE_EOFF and what to do otherwise. */
int sonde_heap_reader_start(const struct sonde_heap_reader_options *options,
                            struct sonde_heap_reader **out, struct sonde_err *err);

/* After start_on_exec: what must be set in the environment of the child, as with
 * sonde_cpu_environment. LD_PRELOAD is the same as for the timer engine, should both be used. */
const char *sonde_heap_reader_environment(struct sonde_heap_reader *m, size_t *size);

#define SONDE_HEAP_NOTE_MAX 256

struct sonde_heap_reader_status {
    int running;               /* the process has been seen with its heap profile */
    uint64_t live_bytes, live_count, peak_bytes, alloc_bytes, alloc_count;
    double alloc_rate, count_rate;   /* bytes and allocations a second, over the last seconds */
    uint64_t sites, lost;
    double cpu_s;              /* CPU time the agent spent on it */
    char note[SONDE_HEAP_NOTE_MAX];
};
void sonde_heap_reader_status(struct sonde_heap_reader *m, struct sonde_heap_reader_status *out);

/* The warm-up ends now: growth counts from here on. */
void sonde_heap_reader_mark(struct sonde_heap_reader *m);

/* The profile as of now, not symbolized, with its heap facts but for verdicts and the kind LEAKED
 * (analyze/growth.h adds them): kinds LIVE, PEAK, ALLOC, TEMPORARY. ALLOC samples have times and
 * threads, those of events; their weights are scaled so that each site's sum is its row's. */
int sonde_heap_reader_snapshot(struct sonde_heap_reader *m, struct sonde_profile **out);

/* What was allocated in [from_ns, to_ns), unix time, by processes that are still there: ALLOC
 * samples with times and threads, not symbolized. Totals know no time, so weights are those of the
 * events alone, each by the inverse of its chance to be one: right on average, whenever m began to
 * look. bytes_max: of the profile. SONDE_ENOMEM. */
int sonde_heap_reader_window(struct sonde_heap_reader *m, uint64_t from_ns, uint64_t to_ns,
                             size_t bytes_max, struct sonde_profile **out);

/* As sonde_heap_reader_snapshot, at the end; m is gone after this, also when there was no memory
 * for a profile. What was in use when processes ended counts as in use, if that of pid has
 * ended. */
int sonde_heap_reader_stop(struct sonde_heap_reader *m, struct sonde_profile **out);

#endif
