/* read.h - reads one process's segment into the model.
 *
 * Nothing in the file is believed: the fixed header is checked and copied once, everything
 * else is checked when first seen and copied before use, and whatever does not fit is a reason
 * to refuse the file, in words. Pages that the header does not count as populated are never
 * touched: in tmpfs even reading a hole takes memory. */
#ifndef SONDE_COLLECT_SEGMENT_READ_H
#define SONDE_COLLECT_SEGMENT_READ_H

#include "base/err.h"
#include "base/mapping.h"
#include "model/model.h"
#include "collect/tick_clock.h"
#include "segment/heap.h"
#include "segment/python.h"

struct sonde_segment;

/* Open dirfd/name; name is <pid>.<start>[.<n>]. fresh: the file was not there when the agent
 * last looked, so all that is in it happened since. err says why not, without the name:
 * SONDE_ENOENT gone again, SONDE_EACCES not a regular file of ours, SONDE_EVERSION,
 * SONDE_ESTALE, SONDE_EFORMAT, SONDE_ENOMEM, SONDE_EFULL, SONDE_EIO. */
int sonde_segment_open(int dirfd, const char *name, int fresh, struct sonde_segment **out,
                       struct sonde_err *err);
void sonde_segment_close(struct sonde_segment *s);  /* NULL is fine */

/* The checked copy of the header; only its immutable part means anything. */
const struct sonde__header *sonde_segment_header(const struct sonde_segment *s);
/* What the process calls itself, valid UTF-8: the header's program, or a name that it gave
 * later. */
void sonde_segment_program(const struct sonde_segment *s, char out[64]);
/* 1 if the process said that it came to its normal end. */
int sonde_segment_closed(const struct sonde_segment *s);

/* Bring p's series and figures in m up to date. last: the process is gone, so look at
 * everything and pass over what it left unfinished. Asserts the write lock. 0, or SONDE_EFORMAT and
 * the segment must not be read again; what was read stays in the model. */
int sonde_segment_read(struct sonde_segment *s, struct sonde_model *m,
                       struct sonde_model_process *p, int last, struct sonde_err *err);

/* Take new spans and inference events out of the rings, as above. Cheap when there are none. */
int sonde_segment_drain(struct sonde_segment *s, struct sonde_model *m,
                        struct sonde_model_process *p, const struct sonde_tick_clock *clock,
                        int last, struct sonde_err *err);

/* Inference events go there from the next drain on; NULL = nobody wants them, as at first. */
struct sonde_infer_sink;
void sonde_segment_deliver_to(struct sonde_segment *s, const struct sonde_infer_sink *sink);

/* Most records that the last drain found in a ring; SONDE__RING_RECS = one was overrun. */
uint32_t sonde_segment_fullest(const struct sonde_segment *s);

/* How far its rings have been read, and what waits for records that have not come, either way
 * (state.h); loaded before the first drain. */
struct sonde_state;
void sonde_segment_state(struct sonde_segment *s, struct sonde_state *st);

/* ---- Samples: what libsonde_preload writes --------------------------------------------------- */

struct sonde_sampler_info {
    uint64_t session, period_ns;
    uint32_t depth_max, signal;
    uint32_t state;                   /* enum sonde__sampler_state */
    uint64_t cpu_start_ns, cpu_end_ns;/* CPU time of the process; end 0 = not yet */
    uint64_t threads_refused, threads_skipped, late, cut, full;
};

/* 0; SONDE_ENOENT: the process is not sampled, or not yet; SONDE_EFORMAT. */
int sonde_segment_sampler(struct sonde_segment *s, struct sonde_sampler_info *out,
                          struct sonde_err *err);

struct sonde_segment_sample {
    uint64_t ticks;
    uint32_t tid, overrun, depth, flags; /* flags: SONDE__SAMPLE_… */
    uint32_t left_out;                /* frames between the innermost and the outermost ones kept */
    const uint64_t *ips;              /* depth of them, innermost first */
};

struct sonde_segment_thread { uint32_t tid; uint64_t cpu_ns; char name[17]; };

/* What is called for each record, in the order they were reserved. What they are given is gone
 * when they return. Texts may hold anything but NUL. */
struct sonde_segment_sink {
    void (*sample)(void *arg, const struct sonde_segment_sample *sample);
    void (*map)(void *arg, const struct sonde_mapping *map);
    void (*thread)(void *arg, const struct sonde_segment_thread *thread);
    void *arg;
};

/* Take new records out of the sampler's ring. *lost: about how many have been overwritten or
 * damaged so far, in all. last: as above. SONDE_ENOENT as above. */
int sonde_segment_samples(struct sonde_segment *s, const struct sonde_segment_sink *sink, int last,
                          uint64_t *lost, struct sonde_err *err);

/* ---- Python: functions that samples and nodes of the heap profile lead to (segment/python.h) - */

struct sonde_segment_python_info {
    uint32_t state;                   /* enum sonde__python_state */
    uint32_t version;                 /* as PY_VERSION_HEX; 0 = not known */
    uint64_t codes, full, broken;     /* as in struct sonde__python */
};

/* 0; SONDE_ENOENT: no interpreter was met yet; SONDE_EFORMAT. */
int sonde_segment_python(struct sonde_segment *s, struct sonde_segment_python_info *out,
                         struct sonde_err *err);

struct sonde_segment_python_function {
    char name[4 * SONDE__PYTHON_NAME_MAX + 8]; /* UTF-8, no control characters; the same: */
    char file[4 * SONDE__PYTHON_FILE_MAX + 8];
    uint32_t first_line, line;        /* 0 = not known */
};

/* Of a frame for which sonde__python_is. SONDE_EFULL: there was no room for it; SONDE_EBUSY: it is
 * being written, or was when its thread was killed; SONDE_EFORMAT. */
int sonde_segment_python_function(struct sonde_segment *s, uint64_t ip,
                                  struct sonde_segment_python_function *out,
                                  struct sonde_err *err);

/* ---- The heap profile: what libsonde_preload keeps (segment/heap.h) -------------------------- */

struct sonde_segment_heap_info {
    uint64_t session, mean, start_ticks;
    uint32_t mode;                    /* SONDE__HEAP_SAMPLED, SONDE__HEAP_FULL */
    uint32_t count_shift, depth_max;
    char allocator[64];               /* valid UTF-8 */
    uint32_t nodes, sites, modules, lanes; /* counts: one more than the last number; or 0 */
    uint64_t live_bytes, peak_bytes, peak_ticks, scanned;
    uint64_t reentrant, refused, truncated, unmatched, failed;
    struct sonde__heap_arena arena;    /* ticks 0 = not known */
};

/* How it stands, and how much of its tables the calls below may ask for: nothing of them before
 * this has returned 0. SONDE_ENOENT: the heap is not profiled, or not yet; SONDE_EFORMAT. */
int sonde_segment_heap(struct sonde_segment *s, struct sonde_segment_heap_info *out,
                       struct sonde_err *err);

/* Node 1 … nodes - 1. Its parent is smaller, its module and its site have been counted (a site that
 * has not reads as 0). Never changes but for the site, which may be given later. */
int sonde_segment_heap_node(struct sonde_segment *s, uint32_t id, struct sonde__heap_node *out,
                            struct sonde_err *err);

#define SONDE_HEAP_PATH_MAX 4096u

/* Module 1 … modules - 1; out->path is path, which may hold anything but NUL. Never changes. */
int sonde_segment_heap_module(struct sonde_segment *s, uint32_t id, struct sonde_mapping *out,
                              char path[SONDE_HEAP_PATH_MAX + 1], struct sonde_err *err);

/* Rows of the sites chunk * SONDE__HEAP_ROWS and following, each summed over all lanes. */
int sonde_segment_heap_rows(struct sonde_segment *s, uint32_t chunk,
                            struct sonde__heap_row out[SONDE__HEAP_ROWS], struct sonde_err *err);

/* The row of one site, as above. */
int sonde_segment_heap_row(struct sonde_segment *s, uint32_t site, struct sonde__heap_row *out,
                           struct sonde_err *err);

/* Units of rows. */
struct sonde_segment_heap_totals { uint64_t allocs, alloc_bytes, frees, free_bytes; };

/* Of all lanes; what was freed was allocated before. */
void sonde_segment_heap_totals(struct sonde_segment *s, struct sonde_segment_heap_totals *out);
/* A copy of lane i, without its offset; all zero where there is none. */
void sonde_segment_heap_lane(struct sonde_segment *s, uint32_t i, struct sonde__heap_lane *out);

/* Sites 0 … count - 1 at the peak. SONDE_ENOENT: there was none yet. */
int sonde_segment_heap_peak(struct sonde_segment *s, struct sonde__heap_peak *out, uint32_t count,
                            struct sonde_err *err);

struct sonde_segment_heap_event {              /* one that was sampled */
    int freed;                        /* freed now; else allocated now */
    uint32_t tid, node;               /* node: not checked */
    uint64_t ticks, alloc_ticks, size, address;
};

struct sonde_segment_heap_thread { uint32_t tid; uint64_t bytes, allocs; char name[17]; };

struct sonde_segment_heap_sink {               /* as struct sonde_segment_sink */
    void (*event)(void *arg, const struct sonde_segment_heap_event *event);
    void (*thread)(void *arg, const struct sonde_segment_heap_thread *thread);
    void *arg;
};

int sonde_segment_heap_events(struct sonde_segment *s, const struct sonde_segment_heap_sink *sink,
                              int last, uint64_t *lost, struct sonde_err *err);

/* For each pool of the process (sonde_pool): its name, valid UTF-8, and how much is in it. */
void sonde_segment_pools(struct sonde_segment *s,
                         void (*pool)(void *arg, const char *name, double bytes), void *arg);

/* Pages of the file that were looked at do not count as this process's memory any more. */
void sonde_segment_forget(struct sonde_segment *s);

/* File names: 0 and the numbers, or SONDE_EINVAL for names that are not of segments. */
struct sonde_segment_name { uint32_t pid; uint64_t start; uint32_t n; };
int sonde_segment_name_parse(const char *name, struct sonde_segment_name *out);

#endif
