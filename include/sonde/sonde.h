/* sonde.h - count, time and trace what a native program does, for a nanosecond a record.
 *
 * The whole library is a writer: records go to a memory-mapped file (the segment) that the
 * `sonde` agent reads from outside. Nothing here starts a thread, opens a socket, allocates
 * from the heap or takes a lock on a path that records; the program's counts outlive it, even
 * after SIGKILL.
 *
 *     static struct sonde_counter requests;
 *     requests = sonde_counter("app_requests_total", "Requests answered.");
 *     sonde_counter_add(requests, 1);
 *
 *     void prefill(void) { SONDE_SCOPE("prefill"); ... }      // a span, closed by leaving
 *
 * Contract for everything below unless it says otherwise:
 *  - Calls that record are safe in any thread and in signal handlers, and never fail: when
 *    recording is off or memory is used up the record is dropped, and drops are counted where
 *    the agent shows them.
 *  - Calls that define or bind may wait for another thread that defines. They are safe in any
 *    thread and in signal handlers; only in one for a fault (SIGSEGV, SIGTRAP, …) in the middle
 *    of a define they return the sink.
 *  - Handles are values of a word or two. A failed define yields a handle to a *sink*: recording to
 *    it is harmless, so hot code needs no error branch. Handles stay valid until the process
 *    ends and in children made by fork.
 *  - Strings passed in are copied.
 *
 * Order of this file: simple, then advanced, then the inline fast paths (sonde__*: private).
 */
#ifndef SONDE_H
#define SONDE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <exception>
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* function and struct of one name, as with stat() */
extern "C" {
#endif

#define SONDE_VERSION_MAJOR 0
#define SONDE_VERSION_MINOR 1
#define SONDE_VERSION_PATCH 0
#define SONDE_VERSION "0.1.0"

#if defined(SONDE_BUILDING)
#define SONDE_API __attribute__((visibility("default")))
#else
#define SONDE_API
#endif

/* ---- Errors ------------------------------------------------------------------------------ */

/* Values are pinned: append only. Also change nothing else: names and messages follow. */
#define SONDE_ERRORS(X)                                                                        \
    X(EINVAL, -1, "invalid argument")                                                          \
    X(ENOMEM, -2, "no memory left for it")                                                     \
    X(ENOSPC, -3, "no room left in the segment's file system")                                 \
    X(EEXIST, -4, "already defined with another type or other labels")                         \
    X(EFULL, -5, "the segment's table is full")                                                \
    X(EBUSY, -6, "called again from a signal handler while defining")                          \
    X(EOFF, -7, "recording is off")                                                            \
    X(EACCES, -8, "permission denied")                                                         \
    X(EIO, -9, "input/output error")                                                           \
    X(EFORMAT, -10, "damaged or not a segment")                                                \
    X(EVERSION, -11, "written by another version")                                             \
    X(ESTALE, -12, "from another boot of this machine")                                        \
    X(ENOENT, -13, "no such thing")

enum sonde_error {
#define SONDE__X(name, value, text) SONDE_##name = (value),
    SONDE_ERRORS(SONDE__X)
#undef SONDE__X
};

/* A sentence for a SONDE_E… value, "success" for 0. Never NULL. */
SONDE_API const char *sonde_strerror(int error);

/* ---- Opening (optional) ------------------------------------------------------------------ */

/* The first define or record opens the segment with defaults. Call this before it to name the
 * program or set limits, or to learn why recording is off. */
struct sonde_config {
    size_t size;          /* sizeof(struct sonde_config); fields are only ever appended */
    const char *name;     /* shown as the process's name; NULL = the executable's name */
    const char *dir;      /* NULL = $SONDE_DIR, else /dev/shm/sonde-<uid> */
    uint64_t bytes_max;   /* memory the segment may take; 0 = 256 MiB, at most 1/4 of the fs */
    uint32_t series_max;  /* 0 = 131072; at most 2^21 */
    uint32_t lanes_max;   /* threads with a lane of their own; 0 = max(64, 4 x CPUs) */
};

/* 0, or why recording is off. Already open: 0, and the configuration is not looked at.
 * config may be NULL. SONDE_EINVAL: size is wrong, or a field this library is too old for. */
SONDE_API int sonde_open(const struct sonde_config *config);

/* Switch recording off and on at run time, for this copy of the library. Off costs one
 * predictable branch a call. SONDE_ENABLED=0 in the environment starts it off. */
SONDE_API void sonde_enable(int on);

/* 1 if records are kept now. */
SONDE_API int sonde_is_enabled(void);

/* ---- Counters, gauges, histograms: the simple way ---------------------------------------- */

struct sonde_counter { uint64_t off; };
struct sonde_gauge { uint64_t off; };
struct sonde_hist { uint64_t off; double scale; };

/* Define, or find again by name. Names are [a-zA-Z_][a-zA-Z0-9_]*; a counter's ends in _total,
 * and units are Prometheus' base units (_seconds, _bytes, _ratio). */
SONDE_API struct sonde_counter sonde_counter(const char *name, const char *help);
SONDE_API struct sonde_gauge sonde_gauge(const char *name, const char *help);

/* scale turns a recorded integer into the exported unit: 1e-9 for nanoseconds recorded and
 * seconds shown, 1 for bytes. Buckets are base-2 exponential, 64 an octave (<= 0.54 % error). */
SONDE_API struct sonde_hist sonde_hist(const char *name, const char *help, double scale);

static inline void sonde_counter_add(struct sonde_counter c, uint64_t n);
static inline void sonde_gauge_set(struct sonde_gauge g, double value);
static inline void sonde_gauge_add(struct sonde_gauge g, double delta);
static inline void sonde_hist_record(struct sonde_hist h, uint64_t value);
/* n times */
static inline void sonde_hist_record_many(struct sonde_hist h, uint64_t value, uint64_t n);

/* The same, and the thread's current trace id is kept as an exemplar of this histogram. */
static inline void sonde_hist_record_traced(struct sonde_hist h, uint64_t value);

/* The cheapest clock there is (the TSC where it is invariant), in ticks, and a difference of
 * ticks in nanoseconds. */
static inline uint64_t sonde_ticks(void);
static inline uint64_t sonde_ticks_ns(uint64_t ticks);

/* ---- Metrics: the advanced way ----------------------------------------------------------- */

enum sonde_type { SONDE_COUNTER = 1, SONDE_GAUGE = 2, SONDE_HISTOGRAM = 3 };

/* What the quantity is about; filters and views group by it. */
enum sonde_kind {
    SONDE_KIND_CUSTOM = 0,
    SONDE_KIND_TIME = 1,
    SONDE_KIND_THROUGHPUT = 2,
    SONDE_KIND_MEMORY = 3,
    SONDE_KIND_COUNTER = 4,
    SONDE_KIND_RATIO = 5,
    SONDE_KIND_PERCENTAGE = 6
};

#define SONDE_LABELS_MAX 8          /* label names of a family */
#define SONDE_LABEL_VALUE_MAX 256   /* bytes kept of a label value; longer ones are cut */
#define SONDE_NAME_MAX 128          /* bytes of a metric, label or span name */

struct sonde_metric {
    size_t size;                /* sizeof(struct sonde_metric); fields are only ever appended */
    const char *name;           /* required */
    const char *help;           /* NULL = none */
    const char *unit;           /* "seconds", "bytes", …; NULL = none */
    const char *source;         /* which part of the program; NULL = none; filters match it */
    const char *const *labels;  /* label names, NULL-terminated; NULL = no labels */
    const char *const *tags;    /* constant labels: name, value, name, value, …, NULL */
    double scale;               /* histograms; 0 = 1 */
    uint32_t kind;              /* enum sonde_kind */
    uint32_t series_max;        /* distinct label sets kept; 0 = 2000; more go to the overflow
                                   series and are counted */
};

struct sonde_family { uint32_t id; };

/* Define a family, or find it again: same name, type and label names. On failure *out is the
 * sink family. SONDE_EINVAL: a bad name. SONDE_EEXIST: the name is taken otherwise. */
SONDE_API int sonde_define(enum sonde_type type, const struct sonde_metric *metric,
                           struct sonde_family *out);

/* Resolve label values (one a label name, in order; NULL = no labels) to a handle. Known label
 * sets are found without a lock in some ten nanoseconds; keep the handle where you can. Values
 * are made valid UTF-8 and cut at SONDE_LABEL_VALUE_MAX. */
SONDE_API struct sonde_counter sonde_counter_bind(struct sonde_family f, const char *const *v);
SONDE_API struct sonde_gauge sonde_gauge_bind(struct sonde_family f, const char *const *v);
SONDE_API struct sonde_hist sonde_hist_bind(struct sonde_family f, const char *const *v);

/* ---- Spans and traces -------------------------------------------------------------------- */

enum sonde_outcome {
    SONDE_OK = 0,
    SONDE_ERROR = 1,
    SONDE_CANCELLED = 2,
    SONDE_TIMEOUT = 3
};

/* W3C trace context: 16-byte trace id, 8-byte span id. All zero = none. */
struct sonde_trace { uint64_t hi, lo, span; };

struct sonde_span {           /* lives on the caller's stack; treat as opaque */
    uint64_t start;
    uint64_t trace_hi, trace_lo;
    uint64_t id, parent;
    uint32_t name;
    uint32_t flags;
};

/* The id of a span or attribute name; the same name gives the same id. 0 = table full. */
SONDE_API uint32_t sonde_name(const char *name);

/* Begin on this thread, as a child of the thread's current span, or as the root of a new
 * trace. End on the same thread, innermost first. Two clock reads are the cost. */
static inline void sonde_span_begin(struct sonde_span *s, uint32_t name);
static inline void sonde_span_end(struct sonde_span *s, enum sonde_outcome outcome);

/* Attach a value to a span between begin and end. Strings are cut at 40 bytes. */
SONDE_API void sonde_span_attr_int(struct sonde_span *s, uint32_t key, int64_t value);
SONDE_API void sonde_span_attr_double(struct sonde_span *s, uint32_t key, double value);
SONDE_API void sonde_span_attr_str(struct sonde_span *s, uint32_t key, const char *value);

/* The rest of the block is a span with this name. */
#define SONDE_SCOPE(name) SONDE__SCOPE(name, __LINE__)

/* The context of this thread. To hand work to another thread, pass what _current returned and
 * _set it there; set back what _set returned when done. A process started with TRACEPARENT in
 * its environment continues that trace in every thread that has none. */
SONDE_API struct sonde_trace sonde_trace_current(void);
SONDE_API struct sonde_trace sonde_trace_set(struct sonde_trace t);

/* W3C traceparent, "00-<32 hex>-<16 hex>-01": for request headers and, as the environment
 * variable TRACEPARENT, for child processes. Format writes 55 characters and a NUL; without a
 * current trace it starts one. Parse: SONDE_EINVAL unless well-formed and not all zero. */
#define SONDE_TRACEPARENT_SIZE 56
SONDE_API void sonde_traceparent_format(struct sonde_trace t, char out[SONDE_TRACEPARENT_SIZE]);
SONDE_API int sonde_traceparent_parse(const char *text, struct sonde_trace *out);

/* A new random trace id without a span. */
SONDE_API struct sonde_trace sonde_trace_new(void);

/* ---- Operations: latency, outcome, errors, bandwidth, caches ------------------------------ */

struct sonde_op { struct sonde_span span; };  /* opaque */

/* A span, and on end also sonde_operation_duration_seconds{operation,outcome} with the trace
 * as exemplar and, for an error, sonde_operation_errors_total{operation,type}. */
SONDE_API void sonde_op_begin(struct sonde_op *op, const char *operation);
SONDE_API void sonde_op_end(struct sonde_op *op, enum sonde_outcome outcome,
                            const char *error_type);

/* sonde_bandwidth_bytes_total{direction="in"|"out",source} */
SONDE_API void sonde_bandwidth_in(const char *source, uint64_t bytes);
SONDE_API void sonde_bandwidth_out(const char *source, uint64_t bytes);

/* sonde_cache_accesses_total{tier,result="hit"|"miss"}; tier NULL = "default" */
SONDE_API void sonde_cache_access(const char *tier, int hit);

/* ---- Pools: memory that has a name -------------------------------------------------------- */

/* What a program takes in large pieces and hands out itself, or gets from a device, has no name in
 * a heap profile. Say how much of it there is and it has: sonde_memory_pool_bytes{pool}, shown by
 * reports and by `sonde top` beside the heap. Names are the program's; "weights", "kv",
 * "activations" and "scratch" are what others call such pools.
 *
 *     static struct sonde_pool kv;
 *     kv = sonde_pool("kv");
 *     sonde_pool_add(kv, (int64_t)bytes);      // and -bytes when they are given back
 *
 * A few nanoseconds each. sonde_fn_gauge_add and _set take a pool's off as well. */
struct sonde_pool { uint64_t off; };

SONDE_API struct sonde_pool sonde_pool(const char *name); /* NULL = "default" */
static inline void sonde_pool_add(struct sonde_pool p, int64_t bytes);
static inline void sonde_pool_set(struct sonde_pool p, uint64_t bytes);

/* ---- Scopes that measure more ------------------------------------------------------------ */

/* The rest of the block: wall time, CPU time of this thread, page faults of this thread and
 * change of the process's resident memory, as sonde_resource_*{scope}. A few microseconds. */
#define SONDE_RESOURCE_SCOPE(name) SONDE__RESOURCE_SCOPE(name, __LINE__)

struct sonde_resource {  /* opaque */
    struct sonde_span span;
    uint64_t cpu_ns, faults_minor, faults_major;
    int64_t resident_bytes;
};
SONDE_API void sonde_resource_begin(struct sonde_resource *r, const char *scope);
SONDE_API void sonde_resource_end(struct sonde_resource *r);
SONDE_API void sonde_resource_end_as(struct sonde_resource *r, enum sonde_outcome outcome);

/* Items handled in a stretch of time, as sonde_throughput_{items_total,seconds_total,per_second}
 * {scope}. Count what was done with items before leaving:
 *     SONDE_THROUGHPUT_SCOPE("rows", n_rows);      // n_rows is read when the block is left */
#define SONDE_THROUGHPUT_SCOPE(name, items_lvalue)                                             \
    SONDE__THROUGHPUT_SCOPE(name, items_lvalue, __LINE__)

struct sonde_throughput {  /* opaque */
    struct sonde_span span;
    const uint64_t *items;
};
SONDE_API void sonde_throughput_begin(struct sonde_throughput *t, const char *scope,
                                      const uint64_t *items);
SONDE_API void sonde_throughput_end(struct sonde_throughput *t);
SONDE_API void sonde_throughput_end_as(struct sonde_throughput *t, enum sonde_outcome outcome);

/* ---- For languages that cannot inline: the fast paths as functions ------------------------ */

SONDE_API void sonde_fn_counter_add(uint64_t off, uint64_t n);
SONDE_API void sonde_fn_gauge_set(uint64_t off, double value);
SONDE_API void sonde_fn_gauge_add(uint64_t off, double delta);
SONDE_API void sonde_fn_hist_record(uint64_t off, double scale, uint64_t value);
SONDE_API void sonde_fn_span_begin(struct sonde_span *s, uint32_t name);
SONDE_API void sonde_fn_span_end(struct sonde_span *s, int outcome);
SONDE_API uint64_t sonde_fn_ticks(void);
SONDE_API uint64_t sonde_fn_ticks_ns(uint64_t ticks);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#include "sonde/sonde_inline.h"

#endif
