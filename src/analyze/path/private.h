/* private.h - what the files of path.h share.
 *
 *   index.c   spans, waits and samples in the order they are asked for
 *   part.c    where stretches and what they are made of are added up
 *   thread.c  what a thread did in a time
 *   node.c    requests, spans and traces: whose time counts when
 *   set.c     many of them
 *   slow.c    what tells the slow from the rest */
#ifndef SONDE_ANALYZE_PATH_PRIVATE_H
#define SONDE_ANALYZE_PATH_PRIVATE_H

#include "analyze/path/path.h"
#include "profile/infer.h"

enum { PATH_DEPTH_MAX = 48, PATH_OWN_MAX = 16 };

/* ---- index.c -------------------------------------------------------------------------------- */

/* A thread was off the CPU, from start to end. */
struct path_off {
    uint64_t start, end;
    uint32_t stack, thread;
    int runnable;
};

/* Times off the CPU that are only known as a sum, over what was neither that nor path_off between
 * from and to. */
struct path_short {
    uint64_t from, to, run_ns, ns;
    uint32_t stack, thread;
    int runnable;
};

struct path_cpu { uint64_t time, ns; uint32_t function, thread; };

struct path_id { uint64_t id; uint32_t index; };

struct sonde_path_index {
    const struct sonde_profile *p;
    /* Each by thread, then time; x_first[thread] … x_first[thread + 1]. */
    struct path_off *offs;
    struct path_short *shorts;
    struct path_cpu *cpus;
    uint32_t *spans;                 /* indexes; of those that begin together the longer first */
    uint32_t *off_first, *short_first, *cpu_first, *span_first;
    uint32_t off_count, short_count, cpu_count;
    uint32_t *of_span, *of_sample;   /* sonde_profile_innermost_spans */
    unsigned char *known;            /* by thread: its process has off-CPU samples */
    unsigned char *phase;            /* by string: enum sonde_phase_kind; 0 = no phase's name */
    struct path_id *by_parent;       /* spans that have one, by it */
    struct path_id *by_id;           /* spans that have an id, by it */
    struct path_id *by_request;      /* parts of batches, by request */
    struct path_id *requests;        /* by id */
    uint32_t *by_trace;              /* requests that have one, by trace */
    uint32_t by_parent_count, by_id_count, by_request_count, request_count, by_trace_count;
    uint32_t *part_first;            /* by span: its first part; [spans_count] = end */
    struct sonde_wait *waits;        /* by stack, of those that waited */
};

/* Where id begins in a table that is sorted by it. */
uint32_t path_id_first(const struct path_id *table, uint32_t count, uint64_t id);
/* The request of that process and id; UINT32_MAX = none. */
uint32_t path_request_find(const struct sonde_path_index *x, uint32_t pid, uint64_t id);
uint32_t path_pid(const struct sonde_path_index *x, uint32_t thread);
uint32_t path_tid(const struct sonde_path_index *x, uint32_t thread);
int path_same_trace(uint64_t a_hi, uint64_t a_lo, uint64_t b_hi, uint64_t b_lo); /* or unknown */

/* ---- part.c --------------------------------------------------------------------------------- */

/* What time on a CPU counts as. */
struct path_label {
    enum sonde_path_kind kind;
    int all;                  /* waits too: a thread that waits for a slot */
    int told;                 /* by the engine, so it counts without off-CPU samples as well */
    uint32_t batch;           /* index + 1 of the span: divided by tokens; 0 = it is not */
    uint64_t own_in, own_out, tokens; /* of the batch */
    uint64_t mate;            /* request that is computed for; 0 = this one */
};

struct path_own { uint64_t id; uint32_t pid; };

struct path_work {
    const struct sonde_path_index *x;
    struct sonde_path *out;
    struct path_own own[PATH_OWN_MAX]; /* requests that this is about */
    uint32_t own_count;
    struct path_link {
        uint64_t id;
        uint32_t pid;
        uint32_t thread;      /* that all its children are on; 0 = several, or none is theirs */
        int childless;
    } chain[PATH_DEPTH_MAX];  /* ids whose children are waited for */
    uint32_t chain_count;
    uint32_t threads[PATH_DEPTH_MAX];  /* that wait for each other */
    uint32_t thread_count;
    uint32_t last_batch;      /* index + 1: its tokens have been counted */
    int depth;
    int rc;                   /* SONDE_ENOMEM: nothing is added any more */
};

void path_add(struct path_work *w, enum sonde_path_kind kind, uint64_t from, uint64_t to,
              uint32_t thread, uint32_t span);
void path_detail(struct path_work *w, enum sonde_path_kind kind, enum sonde_path_detail_type type,
                 uint64_t key, uint64_t ns, uint64_t count);
/* Time on a CPU, or where that is not known. */
void path_add_label(struct path_work *w, const struct path_label *label, uint64_t from, uint64_t to,
                    uint32_t thread, uint32_t span);
/* Others that a batch computes for: ns of it by tokens. */
void path_add_mates(struct path_work *w, enum sonde_path_kind kind, uint32_t batch, uint64_t ns);
void path_finish(struct path_work *w);
int path_is_own(const struct path_work *w, uint32_t pid, uint64_t id);

/* ---- thread.c ------------------------------------------------------------------------------- */

struct path_label path_label_of(const struct path_work *w, uint32_t span,
                                const struct path_label *inherit);
/* What the thread did, inside of a span (index + 1), or (0) in all. */
void path_inside(struct path_work *w, uint32_t thread, uint32_t span,
                 const struct path_label *label, uint64_t from, uint64_t to);
/* CPU time that was sampled, at most all of it. */
uint64_t path_cpu_ns(const struct sonde_path_index *x, uint32_t thread, uint64_t from, uint64_t to);
enum sonde_path_kind path_kind_of_wait(enum sonde_wait_kind k);

/* ---- node.c --------------------------------------------------------------------------------- */

/* A span on its thread, which is on the list of those that wait. */
void path_span(struct path_work *w, uint32_t span, const struct path_label *inherit, uint64_t from,
               uint64_t to);
/* A wait: what children did meanwhile, if there are any. */
void path_wait(struct path_work *w, const struct path_off *off, uint64_t from, uint64_t to,
               uint32_t span, const struct path_label *label);

#endif
