/* profile.h - many samples of stacks, of every kind the same way: CPU, off-CPU, bytes allocated.
 *
 *   sample ─▶ stack ─▶ location ─▶ line, line, … ─▶ function
 *             (node of a tree)     (inlined ones)
 *
 * Everything is interned: a string, function, location or stack is stored once and named by a
 * 32-bit id, so a sample is 32 bytes however deep its stack. A stack is the id of its innermost
 * node in a tree of (parent, location): stacks that share callers share memory. In every table
 * with ids row 0 is "none" (string 0 is ""), so counts are one more than there are; lines, spans,
 * parts, attrs and samples are plain arrays that start at 0. A row's parent comes before it.
 *
 * A location is an address in a module; until it is symbolized it has no lines. Symbolizing
 * happens once per unique location, after sampling (src/profile/symbol/symbolize.h).
 *
 * Not thread-safe: one owner at a time. Memory is bounded by the limit given at creation: a sample
 * that does not fit, or whose stack did not, is counted in dropped_samples and is part of nothing
 * else.
 *
 * Texts, stacks and the lines of a location are bounded too, here rather than in each reader, so
 * that whatever a profile holds fits into a run file and out of it again.
 */
#ifndef SONDE_PROFILE_PROFILE_H
#define SONDE_PROFILE_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* What a sample's weight counts. Names are used by --type and in files: append only. */
#define SONDE_SAMPLE_KINDS(X)                                                                  \
    X(CPU, "cpu", "nanoseconds", "CPU time")                                                   \
    X(OFFCPU, "off-cpu", "nanoseconds", "time blocked")                                        \
    X(LIVE, "live", "bytes", "memory in use")                                                  \
    X(PEAK, "peak", "bytes", "memory in use at the peak")                                      \
    X(LEAKED, "leaked", "bytes", "memory leaked")                                              \
    X(ALLOC, "alloc", "bytes", "memory allocated")                                             \
    X(TEMPORARY, "temporary", "bytes", "memory freed before the next allocation")              \
    X(OTHER, "samples", "count", "samples of an imported profile")                            \
    X(WALL, "wall", "nanoseconds", "time from begin to end")                                   \
    X(RUNNABLE, "runnable", "nanoseconds", "time runnable, but not running")                   \
    X(GPU, "gpu", "nanoseconds", "GPU time")                                                   \
    X(GPU_WAIT, "gpu-wait", "nanoseconds", "time waiting for the GPU")

enum sonde_sample_kind {
#define SONDE__X(id, name, unit, title) SONDE_SAMPLE_##id,
    SONDE_SAMPLE_KINDS(SONDE__X)
#undef SONDE__X
    SONDE_SAMPLE_KIND_COUNT
};

const char *sonde_sample_kind_name(enum sonde_sample_kind k);   /* "cpu" */
const char *sonde_sample_kind_unit(enum sonde_sample_kind k);   /* "nanoseconds" */
const char *sonde_sample_kind_title(enum sonde_sample_kind k);
int sonde_sample_kind_is_bytes(enum sonde_sample_kind k);       /* memory */
int sonde_sample_kind_is_time(enum sonde_sample_kind k);        /* nanoseconds */
int sonde_sample_kind_find(const char *name);                   /* or -1 */

#define SONDE_PROFILE_TEXT_MAX ((size_t)1 << 16) /* bytes; what is longer ends in "…" */
#define SONDE_PROFILE_DEPTH_MAX 65535u /* frames of a stack; what is deeper ends in the next */
#define SONDE_PROFILE_CUT_NAME "[deeper frames left out]"
#define SONDE_PROFILE_LINES_MAX 4096u /* of a location; the outermost are left out */

#define SONDE_MODULE_KERNEL 1u      /* the kernel, or a module of it */
#define SONDE_MODULE_VDSO 2u
#define SONDE_MODULE_JIT 4u         /* code without a file; names from /tmp/perf-PID.map */
#define SONDE_MODULE_DELETED 8u     /* the file was deleted or replaced while it ran */
#define SONDE_MODULE_STRIPPED 16u   /* no symbol table was found for it */
#define SONDE_MODULE_NO_LINES 32u   /* symbols, but no debug information */
#define SONDE_MODULE_PYTHON 64u     /* functions of Python (python_function.h); no addresses */
#define SONDE_PYTHON_MODULE "[python]" /* its path */

struct sonde_profile_module {
    uint32_t path;          /* string: as the process saw it, "[vdso]", "[kernel]" */
    uint32_t build_id;      /* string: hex; "" = none */
    uint64_t start, end;    /* where it was mapped; 0 0 = unknown */
    uint64_t offset;        /* file offset of start */
    uint32_t flags;
    uint32_t open_path;     /* string: where the agent can open it (/proc/PID/root/…); "" = path */
};

struct sonde_profile_function {
    uint32_t name;          /* string: demangled */
    uint32_t file;          /* string: source; "" = unknown */
    uint32_t start_line;
    uint32_t module;
};

struct sonde_profile_line {
    uint32_t function;
    uint32_t line;          /* 0 = unknown */
};

#define SONDE_LOCATION_SPINS 1u     /* its code is a loop that only waits (symbol/spin.h) */
#define SONDE_LOCATION_LOOKED 2u    /* its code was looked at; in no file */

struct sonde_profile_location {
    uint64_t address;       /* in the process; for a caller the return address - 1 */
    uint32_t module;        /* 0 = unknown */
    uint32_t line;          /* first of its lines in lines[]; innermost (inlined) first */
    uint32_t line_count;    /* 0 = not symbolized: shown as module+offset */
    uint32_t flags;         /* SONDE_LOCATION_… */
};

struct sonde_profile_stack {
    uint32_t parent;        /* caller's stack; 0 = this is the thread's start */
    uint32_t location;
};

struct sonde_profile_thread {
    uint32_t pid, tid;
    uint32_t name;          /* string */
};

/* A span that samples are joined with, by thread and time. */
struct sonde_profile_span {
    uint64_t start_ns, end_ns;   /* unix time */
    uint64_t trace_hi, trace_lo, id, parent;
    uint32_t thread;
    uint32_t name;               /* string */
    uint32_t outcome;
    uint32_t pad;
};

/* Of a span that served several requests at once (a batch): whose tokens it was about. */
struct sonde_profile_part {
    uint64_t request;            /* its id; 0 = of nobody that is known */
    uint32_t span;               /* in spans[] */
    uint32_t tokens_in, tokens_out; /* of its prompt, of its output */
    uint32_t pad;
};

/* What the program said of a span. Numbers are in files, and are the segment's. */
enum sonde_profile_attr_type {
    SONDE_PROFILE_ATTR_INT = 1,
    SONDE_PROFILE_ATTR_DOUBLE = 2,
    SONDE_PROFILE_ATTR_TEXT = 3,
};

struct sonde_profile_attr {
    uint32_t span;               /* in spans[] */
    uint32_t key;                /* string */
    uint32_t type;               /* enum sonde_profile_attr_type */
    uint32_t text;               /* string */
    union { int64_t i; double d; } value;
};

#define SONDE_SAMPLE_TRUNCATED 1u /* the stack does not reach the thread's start */
#define SONDE_SAMPLE_MENDED 2u    /* its outer frames were read a moment later, and verified */

/* Why a stack is truncated, in bits 4 to 7 of the flags. Numbers are in files: append only. */
#define SONDE_SAMPLE_CUTS(X)                                                                   \
    X(UNKNOWN, "unknown", "for reasons the engine does not tell")                              \
    X(CODE, "code", "in code without unwind tables (JIT, assembly)")                           \
    X(GONE, "gone", "since the thread ended before its outer frames were read")                \
    X(DENIED, "denied", "since its memory may not be read (run as root, or see "               \
      "kernel.yama.ptrace_scope)")                                                             \
    X(CHANGED, "changed", "since outer frames changed before they were read")                  \
    X(DEEP, "deep", "of more frames than are walked")                                          \
    X(PROBED, "probed", "where a probe hides whom a function returns to")

enum sonde_sample_cut {
#define SONDE__X(id, name, title) SONDE_CUT_##id,
    SONDE_SAMPLE_CUTS(SONDE__X)
#undef SONDE__X
    SONDE_CUT_COUNT
};

static inline uint16_t sonde_sample_cut_flags(enum sonde_sample_cut cut)
{
    return (uint16_t)(SONDE_SAMPLE_TRUNCATED | (unsigned)cut << 4);
}

static inline enum sonde_sample_cut sonde_sample_cut_of(uint16_t flags)
{
    const unsigned cut = flags >> 4 & 15u;
    return cut < SONDE_CUT_COUNT ? (enum sonde_sample_cut)cut : SONDE_CUT_UNKNOWN;
}

const char *sonde_sample_cut_name(enum sonde_sample_cut cut);   /* "code" */
const char *sonde_sample_cut_title(enum sonde_sample_cut cut);  /* goes on from "truncated" */

struct sonde_profile_sample {
    uint64_t time_ns;       /* unix time; 0 = unknown */
    uint64_t weight;        /* in the kind's unit */
    uint32_t stack;
    uint32_t thread;        /* 0 = unknown */
    uint32_t count;         /* how many samples or events this stands for */
    uint16_t kind;          /* enum sonde_sample_kind */
    uint16_t flags;
};

/* How many stacks are whole, and why the others are not; by count, not by weight. */
struct sonde_stack_sums {
    uint64_t stacks, truncated, mended;
    uint64_t cuts[SONDE_CUT_COUNT];  /* of those truncated */
};
void sonde_stack_sums_add(struct sonde_stack_sums *sums, const struct sonde_profile_sample *s);
enum sonde_sample_cut sonde_stack_sums_main(const struct sonde_stack_sums *sums); /* the most */

/* What sampling cost the program, as the agent measured it while it took the samples
 * (docs/own-cost.md). Shares of the program's time; NaN = not known. */
struct sonde_profile_cost {
    uint32_t text;               /* string: in words; "" = nothing is known, nor the rest */
    uint32_t pairs;              /* of windows that were compared; 0 = it is an estimate */
    double ratio, low, high;     /* low, high: 95 % interval */
};

struct sonde_heap;
struct sonde_gpu_work;
struct sonde_infer_run;
struct sonde_final;
struct sonde_tracks;

/* All tables that a profile has: type of a row, name. Strings are owned and NUL-terminated; parts
 * and attrs are in the order of spans. */
#define SONDE_PROFILE_TABLES(X)                                                                \
    X(char *, strings)                                                                         \
    X(struct sonde_profile_module, modules)                                                    \
    X(struct sonde_profile_function, functions)                                                \
    X(struct sonde_profile_line, lines)                                                        \
    X(struct sonde_profile_location, locations)                                                \
    X(struct sonde_profile_stack, stacks)                                                      \
    X(struct sonde_profile_thread, threads)                                                    \
    X(struct sonde_profile_span, spans)                                                        \
    X(struct sonde_profile_part, parts)                                                        \
    X(struct sonde_profile_attr, attrs)                                                        \
    X(struct sonde_profile_sample, samples)

struct sonde_profile {
#define SONDE__X(type, name) type *name; uint32_t name##_count, name##_cap;
    SONDE_PROFILE_TABLES(SONDE__X)
#undef SONDE__X
    uint64_t start_ns, end_ns;     /* unix time it covers */
    double rate_hz, achieved_hz;   /* CPU: asked for and reached; 0 = unknown */
    uint64_t weights[SONDE_SAMPLE_KIND_COUNT]; /* of all samples that were added, by kind */
    uint64_t lost_records;         /* by the kernel or the ring */
    uint64_t dropped_samples;      /* for lack of memory */
    uint64_t unsampled_ns;         /* in which CPU sampling was paused to measure what it costs;
                                    * weights make up for it. Of recordings only */
    struct sonde_profile_cost cost;
    uint64_t shortened;            /* texts, stacks and locations that were over their limits */
    uint32_t program;              /* string */
    uint32_t command;              /* string: the command line; "" = unknown */
    uint32_t engine;               /* string: "perf", "timer", "import" */
    uint32_t notes;                /* string: lines, what is not in it or only in part, and why: of
                                    * a time that nobody recorded (store/period.h) */
    uint32_t host;                 /* string: "name, Linux 6.1 x86_64, 2 CPUs (MODEL)"; ""
                                    * = unknown */
    struct sonde_heap *heap;       /* owned: facts of a heap profile (heap.h); NULL = none */
    struct sonde_gpu_work *gpu;         /* owned: facts of GPUs (gpu.h); NULL = none was used */
    struct sonde_infer_run *infer; /* owned: inference requests (infer.h); NULL = none */
    struct sonde_final *final;     /* owned: series at its end (final.h); NULL = none */
    struct sonde_tracks *tracks;   /* owned: series over its time (track.h); NULL = none */
    struct sonde_profile_index *index; /* private to profile.c */
    size_t bytes, bytes_max;       /* memory taken, and its cap */
};

/* bytes_max 0 = 1 GiB. */
int sonde_profile_create(size_t bytes_max, struct sonde_profile **out);
void sonde_profile_destroy(struct sonde_profile *p);

/* Interning: the id, or 0 when out of memory (string "" is 0 as well). Text ends at its first NUL.
 * A module is known by path, build id, place and offset; a function by all its fields; a thread by
 * pid and tid, and by name only where tid is 0: the last name given that is not "" is kept. */
uint32_t sonde_profile_string(struct sonde_profile *p, const char *s, size_t len);
uint32_t sonde_profile_cstring(struct sonde_profile *p, const char *s);
uint32_t sonde_profile_find_string(const struct sonde_profile *p,
                                   const char *s); /* 0 = not there */
uint32_t sonde_profile_module(struct sonde_profile *p, const struct sonde_profile_module *m);
uint32_t sonde_profile_function(struct sonde_profile *p, const struct sonde_profile_function *f);
uint32_t sonde_profile_location(struct sonde_profile *p, uint32_t module, uint64_t address);
uint32_t sonde_profile_stack(struct sonde_profile *p, uint32_t parent, uint32_t location);
uint32_t sonde_profile_thread(struct sonde_profile *p, uint32_t pid, uint32_t tid,
                              const char *name);

/* A location known by name only (imported formats): one line, no module, no address. */
uint32_t sonde_profile_named_location(struct sonde_profile *p, const char *name, size_t len);

/* A location with its lines (imported formats, merging). If that address is known with other lines,
 * or there is no address, a location with just these. */
uint32_t sonde_profile_lines_location(struct sonde_profile *p, uint32_t module, uint64_t address,
                                      const struct sonde_profile_line *lines, uint32_t count);

/* Give a location its lines, innermost first. Replaces what it had. 0 or SONDE_ENOMEM. */
int sonde_profile_set_lines(struct sonde_profile *p, uint32_t location,
                            const struct sonde_profile_line *lines, uint32_t count);

/* SONDE_ENOMEM: a sample without a stack, or no room. SONDE_EFORMAT: the weights of its kind would
 * add up to more than 2^64, so that nobody after this needs to look. Both are counted as
 * dropped. */
int sonde_profile_add_sample(struct sonde_profile *p, const struct sonde_profile_sample *s);
int sonde_profile_add_span(struct sonde_profile *p, const struct sonde_profile_span *s);
/* Of the span that was added last, or of the one the last part is of. */
int sonde_profile_add_part(struct sonde_profile *p, const struct sonde_profile_part *part);
int sonde_profile_add_attr(struct sonde_profile *p, const struct sonde_profile_attr *attr);
/* The attributes of a span: the first, and how many. They are found by halving. */
const struct sonde_profile_attr *sonde_profile_attrs_of(const struct sonde_profile *p,
                                                        uint32_t span, uint32_t *count);

/* Rows that samples are made of, as far as they take memory that grows with every new one: what
 * they need, about, in bytes. */
size_t sonde_profile_rows_bytes(const struct sonde_profile *p);
/* All samples, stacks, locations, functions, modules and threads are gone, and their ids void;
 * strings and what p says of itself stay. Nothing of it is given back: there is room for others
 * now. */
void sonde_profile_forget(struct sonde_profile *p);

/* p's heap facts are h from now on, which is taken; what it had is destroyed. SONDE_ENOMEM: it does
 * not fit in bytes_max, and nothing was done. */
int sonde_profile_take_heap(struct sonde_profile *p, struct sonde_heap *h);

/* p has no heap facts from now on. */
void sonde_profile_drop_heap(struct sonde_profile *p);
void sonde_profile_drop_gpu(struct sonde_profile *p);   /* nor of GPUs */

/* Add all of from's samples, spans and tables to p. SONDE_ENOMEM or SONDE_EFORMAT, as adding a
 * sample says: p holds a part of them. Heap facts are copied if p has none; they cannot be added up
 * (of a leak on two days the slopes are not a sum), so p keeps its own, and samples of heap kinds
 * are then more than they say. */
int sonde_profile_merge(struct sonde_profile *p, const struct sonde_profile *from);

static inline const char *sonde_profile_str(const struct sonde_profile *p, uint32_t id)
{
    return id < p->strings_count ? p->strings[id] : "";
}

/* ---- Looking at a part of it --------------------------------------------------------------- */

struct sonde_profile_filter {
    int kind;                  /* enum sonde_sample_kind; -1 = the first kind that has samples */
    const char *thread;        /* glob on the name, or a tid; NULL = any */
    const char *span;          /* glob: only samples inside a span of that name, on its thread */
    uint64_t trace_hi, trace_lo; /* only samples inside spans of this trace; 0 0 = any */
    uint64_t from_ns, to_ns;   /* unix time; 0 = open */
};

/* A view of the filter on p: for each sample 1 if it passes. Call once, then ask per sample.
 * A sample is inside a span if it is on its thread and start_ns <= time < end_ns; a span and a
 * trace must hold for the same span. SONDE_EINVAL: a time range that ends before it starts. */
struct sonde_profile_match;
int sonde_profile_match_create(const struct sonde_profile *p,
                               const struct sonde_profile_filter *f,
                               struct sonde_profile_match **out, struct sonde_err *err);
int sonde_profile_matches(const struct sonde_profile_match *m, uint32_t sample);
/* 1 if a span has something of what the filter asks for: thread, name, trace, a time in the
 * range. */
int sonde_profile_matches_span(const struct sonde_profile_match *m, uint32_t span);
int sonde_profile_match_kind(const struct sonde_profile_match *m);  /* as resolved */
uint32_t sonde_profile_match_count(const struct sonde_profile_match *m);  /* how many pass */
/* Those that pass, by thread, then time, then as they came. Free with sonde__free; NULL = no
 * memory. */
uint32_t *sonde_profile_match_in_order(const struct sonde_profile *p,
                                       const struct sonde_profile_match *m);
/* SONDE_ENOENT and why nothing passed f. */
int sonde_profile_match_none(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                             struct sonde_err *err);
/* As create; SONDE_ENOENT, as none says it, if no sample matches. */
int sonde_profile_match_some(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                             struct sonde_profile_match **out, struct sonde_err *err);
void sonde_profile_match_destroy(struct sonde_profile_match *m);

/* For each sample the innermost span it is inside of, as index + 1; 0 = none. Where spans overlap
 * without nesting, the one that started last. of_span (may be NULL): for each span the one it began
 * inside of, alike. Free both with sonde__free. 0 or SONDE_ENOMEM. */
int sonde_profile_innermost_spans(const struct sonde_profile *p, uint32_t **of_sample,
                                  uint32_t **of_span);

#endif
