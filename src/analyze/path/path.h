/* path.h - what the latency of a request, a span or a trace consisted of: its critical path, across
 * threads and processes, cut into parts that add up to it to the nanosecond.
 *
 * At every moment one thing counts, the one that the end waited for:
 *
 *   request  what was done for it: its phases and the batches it was in, wherever they ran; where
 *            they overlap, the one that began first. In between, what the thread did that went on
 *            with it. Before the first of them it waited for a slot.
 *   batch    computes for all that are in it: by tokens, for this request and for its mates.
 *   span     what its thread did: it ran, could not run, or waited. While it waits and a child of
 *            it, on another thread or in another process, works, what that does counts.
 *   thread   waits are known to the nanosecond if they are as long as a sampling period; of shorter
 *            ones how much of a time they are (profile.h: samples with count > 1).
 *
 * Without off-CPU samples of a process (`sonde record --off-cpu`) a phase counts as computing, as
 * the engine says; of other spans only what CPU samples show, and the rest is unexplained.
 *
 * Waking a thread up takes time that no record shows: it is part of the wait before it. What the
 * holder of a lock did meanwhile is not followed.
 *
 * Rejected: following every wait to the thread that ended it, as an analysis of wake-ups does. It
 * needs a record at every wake-up of the whole machine (sched_wakeup), as root, and costs more than
 * it tells on servers that switch 100,000 times per second; spans say whom one waits for. */
#ifndef SONDE_ANALYZE_PATH_PATH_H
#define SONDE_ANALYZE_PATH_PATH_H

#include "analyze/wait_kind.h"
#include "base/err.h"
#include "profile/profile.h"

/* In the order they are shown. Names are in JSON: append only. */
#define SONDE_PATH_KINDS(X)                                                                    \
    X(QUEUE, "queue", "waiting for a slot")                                                    \
    X(ENCODE, "encode", "computing: encode")                                                   \
    X(PREFILL, "prefill", "computing: prefill")                                                \
    X(DECODE, "decode", "computing: decode")                                                   \
    X(SAMPLE, "sample", "computing: sample")                                                   \
    X(DETOKENIZE, "detokenize", "computing: detokenize")                                       \
    X(COMPUTE, "compute", "computing")                                                         \
    X(OVERHEAD, "overhead", "its thread, outside of any phase")                                \
    X(BATCH_MATES, "batch_mates", "computing for other requests")                              \
    X(LOCK, "lock", "waiting for a lock")                                                      \
    X(GIL, "gil", "waiting for Python's interpreter lock (GIL)")                               \
    X(THREAD, "thread", "waiting for another thread")                                          \
    X(IO, "io", "reading or writing files and pipes")                                          \
    X(PAGE_FAULT, "page_fault", "waiting for a page of memory")                                \
    X(SLEEP, "sleep", "sleeping")                                                              \
    X(NETWORK, "network", "network, and between processes")                                    \
    X(PROCESS, "process", "waiting for another process to end")                                \
    X(BLOCKED, "blocked", "blocked, for a reason that is not known")                           \
    X(RUNNABLE, "runnable", "runnable, but not running")                                       \
    X(UNEXPLAINED, "unexplained", "unexplained")

enum sonde_path_kind {
#define SONDE__X(id, name, title) SONDE_PATH_##id,
    SONDE_PATH_KINDS(SONDE__X)
#undef SONDE__X
    SONDE_PATH_KIND_COUNT
};

const char *sonde_path_kind_name(enum sonde_path_kind k);  /* "queue" */
const char *sonde_path_kind_title(enum sonde_path_kind k); /* "waiting for a slot" */

/* What a part is made of. */
enum sonde_path_detail_type {
    SONDE_PATH_STACK,     /* a stack that waited; ns is measured */
    SONDE_PATH_FUNCTION,  /* a function that computed, by itself; ns is from samples */
    SONDE_PATH_REQUEST,   /* another request that was computed for; its id */
    SONDE_PATH_SPAN,      /* a span of this name: what the time before or after it was for */
};

struct sonde_path_detail {
    enum sonde_path_kind kind;
    enum sonde_path_detail_type type;
    uint64_t key;         /* stack, function, id of a request, string */
    uint64_t ns, count;
};

/* A stretch of the path, in order of time. Within a batch its own share stands before its
 * mates'. */
struct sonde_path_piece {
    uint64_t from_ns, to_ns; /* unix time */
    enum sonde_path_kind kind;
    uint32_t thread;      /* 0 = of none */
    uint32_t span;        /* index + 1; 0 = of none */
};

enum { SONDE_PATH_PIECES_MAX = 4096, SONDE_PATH_DETAILS_MAX = 4096 };

struct sonde_path {
    uint64_t from_ns, to_ns;
    uint64_t ns[SONDE_PATH_KIND_COUNT];    /* add up to to_ns - from_ns */
    uint64_t count[SONDE_PATH_KIND_COUNT]; /* stretches */
    struct sonde_path_detail *details;     /* owned; by kind, then the largest first */
    uint32_t detail_count, detail_cap;
    struct sonde_path_piece *pieces;       /* owned; the first SONDE_PATH_PIECES_MAX */
    uint32_t piece_count, piece_cap;
    uint64_t pieces_left_out;
    uint64_t mates, mate_tokens;           /* other requests that were computed for meanwhile, and
                                              their tokens */
    uint32_t thread;                       /* that most of it was on; 0 = none */
    int no_off_cpu;                        /* some of it was in a process without off-CPU samples */
};
void sonde_path_release(struct sonde_path *path);

/* Spans, waits and samples of p in the order they are asked for. p is borrowed and must not change.
 * 0 or SONDE_ENOMEM. */
struct sonde_path_index;
int sonde_path_index_create(const struct sonde_profile *p, struct sonde_path_index **out);
void sonde_path_index_destroy(struct sonde_path_index *x); /* NULL is fine */
const struct sonde_profile *sonde_path_index_profile(const struct sonde_path_index *x);

/* The path of a request (index in p->infer), a span (index in p->spans) and of all spans of a
 * trace, from the first begin to the last end. Release *out. 0 or SONDE_ENOMEM; of a trace
 * SONDE_ENOENT: there is none. */
int sonde_path_of_request(const struct sonde_path_index *x, uint32_t request,
                          struct sonde_path *out);
int sonde_path_of_span(const struct sonde_path_index *x, uint32_t span, struct sonde_path *out);
int sonde_path_of_trace(const struct sonde_path_index *x, uint64_t hi, uint64_t lo,
                        struct sonde_path *out);

/* Of a stack that waited, as sonde_wait_of, worked out once. */
struct sonde_wait sonde_path_wait(const struct sonde_path_index *x, uint32_t stack);

/* End of a request, unix time. */
uint64_t sonde_path_request_end(const struct sonde_profile *p, uint32_t request);

#endif
