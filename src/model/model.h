/* model.h - what the agent knows: families, series, their values and recent history, processes
 * and recent spans. Collectors write it once an interval; HTTP routes, exporters and terminal
 * views read it. Nobody who reads it ever touches a recorded process.
 *
 * Locking: one read-write lock for the whole model; a waiting writer goes first, so no thread may
 * take it for reading twice. sonde_model_tick and everything that adds or
 * changes runs under the write lock, everything that looks under the read lock; before other
 * threads know the model (`shared`) nobody needs it. Debug builds assert that. Pointers are
 * good while the lock is held; a series lives as long as its process (host and agent ones for
 * ever) unless who added it forgets it, a family as long as it has series.
 *
 * Memory is bounded: series_max, spans_max and per-series history of SONDE_HISTORY ticks. What
 * does not fit is counted in model->dropped_*.
 */
#ifndef SONDE_MODEL_MODEL_H
#define SONDE_MODEL_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "segment/segment.h"

#define SONDE_HISTORY 60          /* ticks of history a series keeps; a tick is about a second */
#define SONDE_EXEMPLARS_MAX 8     /* per histogram series, newest kept, one a bucket */

struct sonde_label {
    const char *name, *value;     /* valid UTF-8, unescaped */
};

struct sonde_exemplar {
    double value;                 /* exported unit */
    uint64_t trace_hi, trace_lo;
    double time_s;                /* unix time the agent first saw it */
};

/* Buckets of a histogram as they are now: dense per octave, octaves in use only. */
struct sonde_hist_value {
    uint64_t count;               /* zero + all buckets */
    uint64_t zero;
    uint64_t sum_raw;             /* times the family's scale = sum in the exported unit */
    uint64_t last_raw;
    uint64_t *octave[SONDE__HIST_OCTAVES]; /* 64 counts each, or NULL */
};

/* One tick of a histogram's history: what was added in it, sparse. */
struct sonde_hist_delta {
    uint64_t count, zero, sum_raw;
    uint32_t bucket_count;
    struct sonde_hist_bucket { uint16_t p; uint32_t n; } *bucket; /* ascending p */
};

struct sonde_model_family;
struct sonde_model_process;

struct sonde_model_series {
    struct sonde_model_family *family;
    struct sonde_model_process *process; /* NULL = the host or the agent itself */
    struct sonde_label *labels;          /* all of them: tags, own labels, process and pid */
    size_t label_count;
    char *label_text;                    /* `a="b",c="d"`, escaped for Prometheus; "" = none */
    size_t label_text_len;
    double created_s;                    /* unix time it was first seen or defined */

    /* Now. */
    uint64_t counter;                    /* SONDE_COUNTER: times family->scale */
    double gauge;                        /* SONDE_GAUGE */
    struct sonde_hist_value *hist;       /* SONDE_HISTOGRAM */
    uint64_t *le;                        /* family->bound_count of them: values over the bound
                                            before and not over this one; NULL until the first */
    struct sonde_exemplar *exemplar;     /* SONDE_EXEMPLARS_MAX of them; NULL until the first */
    size_t exemplar_count;

    /* History: index (model->tick - 1 - age) % SONDE_HISTORY, age 0 = newest; valid for
     * age < history_count. Counter: increase in the tick, exported unit. Gauge: value. NULL
     * past model->history_series_max: then window statistics are not available for it.
     * A histogram's is also NULL as long as nothing was recorded: then history_count > 0. */
    double *history;
    struct sonde_hist_delta *history_hist; /* SONDE_HISTORY of them; histograms only */
    uint32_t history_count;
    /* Set by who adds the series when it began to count from 0 after the last tick: then its
     * first value is an increase. Otherwise the first value seen is where differences start
     * (an agent that is started late must not show a leap). */
    uint32_t from_zero;
    uint32_t kept;                       /* it is the agent that counts here, so the next one has to
                                            be told (collector_state.c) */
    uint32_t stored;                     /* for who keeps ticks (store/sqlite/model.c); 0 at
                                          * first */
    double stored_scale;                 /* alike, of `real` ones */

    /* Of series that came from elsewhere (collect/ingest/ingest.h). */
    struct sonde_ingest *foreign;       /* whose it is; NULL = our own */
    uint32_t ingest_at;                 /* where it is there */
    uint32_t real;                       /* a counter's total, or a histogram's sum, is the double
                                            in `gauge`: others count in fractions, with no scale */

    /* Private to the model. */
    uint32_t hash;
    struct sonde_model_series *renamed;  /* where labels are since the process was; NULL = it was
                                          * not */
    uint64_t counter_prev;               /* as of the last tick … */
    double real_prev;                    /* … or this */
    struct sonde_hist_value *hist_prev;
    uint32_t ticks_seen;
};

/* How expositions show a family that came from elsewhere. Others' histograms and summaries are some
 * families of counters and gauges here (x_bucket, x_sum, x_count, x), and leave as what they
 * were. */
enum sonde_shown {
    SONDE_SHOWN_TYPE,                    /* as its type says */
    SONDE_SHOWN_UNKNOWN,                 /* nobody said what it is; a gauge here */
    SONDE_SHOWN_HISTOGRAM,               /* a part of one; `stem` bytes of the name are its name */
    SONDE_SHOWN_SUMMARY,
};

struct sonde_model_family {
    char *name, *help, *unit, *source; /* owned; "" = none */
    uint8_t foreign;                   /* made for a series from elsewhere, and none of ours is in
                                        * it */
    uint8_t shown;                     /* enum sonde_shown */
    uint32_t stem;
    enum sonde_type type;
    enum sonde_kind kind;
    double scale;                      /* counters and histograms: raw to exported unit */
    double divisor;                    /* 1 / scale where that is a whole number; else 0 */
    uint64_t le_shown[2];              /* bounds exporters have shown: model/classic.h; grows
                                          by atomic or under the read lock */
    const double *bounds;              /* classic buckets are these; NULL = what exporters choose */
    size_t bound_count;
    double *bounds_own;                /* owned: bounds that came from a state; NULL = static
                                        * ones */
    struct sonde_model_series **series;
    size_t series_count, series_cap;
};

/* A counter or histogram sum in the exported unit. Dividing by 1e9 is right to the last bit where
 * multiplying by 1e-9 is not, and so prints as 0.3 what was 300000000 ns. */
static inline double sonde_family_value(const struct sonde_model_family *f, uint64_t raw)
{
    return f->divisor > 0 ? (double)raw / f->divisor : (double)raw * f->scale;
}

/* What a counter stands at, and what a histogram's values add up to. */
static inline double sonde_model_series_total(const struct sonde_model_series *s)
{
    return s->real ? s->gauge : sonde_family_value(s->family, s->counter);
}

static inline double sonde_model_series_sum(const struct sonde_model_series *s)
{
    if (s->real) return s->gauge;
    return s->hist ? sonde_family_value(s->family, s->hist->sum_raw) : 0;
}

struct sonde_model_attr {
    const char *key;              /* interned */
    uint32_t type;                /* SONDE__ATTR_* */
    union { int64_t i; double d; char str[SONDE__ATTR_BYTES + 1]; } value;
};
#define SONDE_SPAN_ATTRS_MAX 16

/* Of a batch, whose tokens it was about. */
struct sonde_model_part {
    uint64_t request;             /* its id; 0 = of nobody that is known */
    uint32_t tokens_in, tokens_out;
};

struct sonde_model_span {
    const char *name;             /* interned in the model */
    const char *program;          /* interned */
    uint32_t pid, tid;
    uint64_t start_ns;            /* unix time */
    uint64_t duration_ns;
    uint64_t trace_hi, trace_lo, id, parent;
    uint32_t outcome;             /* enum sonde_outcome */
    uint32_t attr_count;
    struct sonde_model_attr *attrs; /* owned by the model; NULL if none */
    struct sonde_model_part *parts; /* of a batch; owned by the model; NULL if none */
    uint32_t part_count, pad;
};

/* Called under the write lock; a function that is NULL is not called. */
struct sonde_model_listener {
    /* Every span that is added: the ring holds the newest only. */
    void (*on_span)(const struct sonde_model_span *span, void *arg);
    /* p is about to be forgotten, with its series: pointers to them must go. */
    void (*on_forget)(struct sonde_model_process *p, void *arg);
    void *arg;
    struct sonde_model_listener *next; /* the model's */
};

enum sonde_process_state { SONDE_PROCESS_RUNNING, SONDE_PROCESS_EXITED, SONDE_PROCESS_KILLED };
const char *sonde_process_state_name(enum sonde_process_state s); /* "running" */

struct sonde_model_process {
    uint64_t serial;            /* of the model's processes, from 1, never used again: tells a
                                   process from a later one in the same memory */
    uint32_t pid;
    uint64_t start_time;        /* as in /proc/PID/stat */
    char *program;              /* owned */
    char *path;                 /* of the segment, owned; NULL = no segment (watched by pid) */
    enum sonde_process_state state; /* KILLED: gone without coming to its end */
    int elsewhere;              /* in another pid or time namespace: pid, and start_time, mean
                                   nothing to this machine's /proc as we see it */
    double started_s;           /* unix time; 0 = not known */
    double ended_s;             /* unix time it was found gone; 0 = running */
    uint64_t segment_bytes;     /* populated */
    uint32_t lanes, threads;    /* lanes in use; live threads as of the last tick */
    uint64_t drops[SONDE__DROP_COUNT];
    uint64_t spans_seen, spans_lost;
    uint64_t gap_ns;            /* unix time up to which records of it may be missing, overwritten
                                   before they were read; 0 = none are */
    char llama_note[240];       /* what does not agree with llama.cpp's own figures; "" = nothing */
    size_t series_count;        /* kept by the model */
};

struct sonde_model {
    struct sonde_rwlock lock;
    int shared;                   /* other threads may know it: set by who starts them */
    uint64_t tick;                /* ticks done */
    double now_s, interval_s;     /* unix time of the last tick, and its real length; never 0 */
    double spans_s;               /* unix time up to which spans have been read; 0 = as now_s */
    double tick_end_s[SONDE_HISTORY], tick_len_s[SONDE_HISTORY]; /* as series history */
    struct sonde_model_family **families; /* ascending by name */
    size_t family_count, family_cap;
    struct sonde_model_process **processes; /* in the order they were found */
    size_t process_count, process_cap;
    uint64_t process_serial;      /* of the newest process */
    struct sonde_model_span *spans; /* ring: newest is (span_next - 1) % spans_max */
    size_t spans_max;
    uint64_t span_next;           /* spans ever added */
    uint64_t activity;            /* grows with everything that a state (below) has to tell */
    size_t series_count, series_max, history_series_max;
    uint64_t dropped_series, dropped_conflicts; /* over series_max; name with another type */
    uint64_t dropped_spans;       /* for lack of memory */
    void (*on_span)(const struct sonde_model_span *span, void *arg); /* each one added; NULL */
    void *on_span_arg;
    struct sonde_model_listener *listeners;
    struct sonde_ingest *foreign; /* where series come from besides (collect/ingest/ingest.h): a
                                   * list */
    struct sonde_model_index *index; /* private to model.c */
};

/* 0 = the default for each limit (1<<20 series, 20000 with history, 16384 spans). */
struct sonde_model_limits { size_t series_max, history_series_max, spans_max; };

int sonde_model_create(const struct sonde_model_limits *limits, struct sonde_model **out);
void sonde_model_destroy(struct sonde_model *m);

/* ---- Writing (write lock; whoever is handed m asserts it) ---------------------------------- */

struct sonde_model_family_spec {
    const char *name, *help, *unit, *source;  /* name required; others may be NULL */
    enum sonde_type type;
    enum sonde_kind kind;
    double scale;                             /* 0 = 1 */
    /* Histograms that sonde_model_record fills: classic buckets that users expect, ascending, in
     * the exported unit; static, at most SONDE_BOUNDS_MAX. They are counted exactly. */
    const double *bounds;
    size_t bound_count;
};
#define SONDE_BOUNDS_MAX 32

/* Find or add. NULL: out of memory, or the name exists with another type or scale (counted).
 * A new family has no series yet: whoever lists families passes over empty ones. */
struct sonde_model_family *sonde_model_family(struct sonde_model *m,
                                              const struct sonde_model_family_spec *spec);

/* The same for series from elsewhere. They may be added to a family of ours of the same type,
 * whatever its scale. NULL: no memory, or the name is taken by something else (not counted). Where
 * such a family is in the way of one of ours it is renamed, to exported_<name>. */
struct sonde_model_family *sonde_model_family_foreign(struct sonde_model *m,
                                                      const struct sonde_model_family_spec *spec,
                                                      enum sonde_shown shown, size_t stem);
/* Take f out if it is foreign and has no series. */
void sonde_model_family_tidy(struct sonde_model *m, struct sonde_model_family *f);
/* NULL = there is none. */
struct sonde_model_family *sonde_model_family_find(const struct sonde_model *m, const char *name);

/* Find or add by exactly these labels, in this order. process may be NULL; when it is not, the
 * labels process="…" and pid="…" are appended; own labels of these names are then renamed to
 * exported_process and exported_pid. NULL: no memory or over the limit (counted). */
struct sonde_model_series *sonde_model_series(struct sonde_model *m,
                                              struct sonde_model_family *f,
                                              struct sonde_model_process *process,
                                              const struct sonde_label *labels, size_t count);

/* A series of the agent itself: its family found or added, then the series, which counts from zero.
 * NULL as those two. */
struct sonde_model_series *sonde_model_own_series(struct sonde_model *m,
                                                  const struct sonde_model_family_spec *spec,
                                                  struct sonde_model_process *process,
                                                  const struct sonde_label *labels, size_t count);
/* The same, and the next agent goes on with it (sonde_model_series_keep). */
struct sonde_model_series *sonde_model_kept_series(struct sonde_model *m,
                                                   const struct sonde_model_family_spec *spec,
                                                   struct sonde_model_process *process,
                                                   const struct sonde_label *labels, size_t count);

/* Take out one series: what it counted is gone (a thread, a disk). For who added it only: others
 * may keep pointers to theirs. Its family stays, even without series, unless it is foreign. */
void sonde_model_series_forget(struct sonde_model *m, struct sonde_model_series *s);

/* The hist of s, allocated if need be; NULL when out of memory. Bucket as sonde__hist_bucket. */
struct sonde_hist_value *sonde_model_hist(struct sonde_model_series *s);
/* n more in bucket p, counted in h->count too. 0, SONDE_EINVAL (no such p) or SONDE_ENOMEM. */
int sonde_hist_value_add(struct sonde_hist_value *h, uint32_t p, uint64_t n);

void sonde_hist_value_free(struct sonde_hist_value *h); /* NULL is fine */

/* A value of a histogram that the agent itself records, n times; raw times the family's scale is in
 * the exported unit. Out of memory: it is not recorded. */
void sonde_model_record(struct sonde_model_series *s, uint64_t raw, uint64_t n);

/* Keep e as s's newest exemplar for its bucket. Same trace and value as one there: ignored. */
void sonde_model_exemplar(struct sonde_model_series *s, const struct sonde_exemplar *e);

/* Find by all three, or add; forget one with all its series. */
struct sonde_model_process *sonde_model_process(struct sonde_model *m, uint32_t pid,
                                                uint64_t start_time, const char *program);
void sonde_model_process_forget(struct sonde_model *m, struct sonde_model_process *p);
/* Its series and recent spans too. SONDE_EEXIST: another one of its pid has that name;
 * SONDE_ENOMEM: nothing has changed. */
int sonde_model_process_rename(struct sonde_model *m, struct sonde_model_process *p,
                               const char *program);

/* Copies span; its strings are interned, attrs copied (at most SONDE_SPAN_ATTRS_MAX), and parts,
 * unless there are too many of all spans. */
void sonde_model_span(struct sonde_model *m, const struct sonde_model_span *span);

/* l is called from now on, until it is removed; borrowed. */
void sonde_model_listen(struct sonde_model *m, struct sonde_model_listener *l);
void sonde_model_unlisten(struct sonde_model *m, const struct sonde_model_listener *l);

/* Close an interval: push every series' history. The first interval is now_s less the
 * model's now_s if that was set before, else 1 s. */
void sonde_model_tick(struct sonde_model *m, double now_s);

/* It is the agent that counts here, from zero, unless an agent before it did. NULL is fine. */
static inline void sonde_model_series_keep(struct sonde_model_series *s)
{
    if (!s || s->kept) return;
    s->kept = s->from_zero = 1;
}

/* What s was told since the last tick is part of no tick: what comes is the increase of the
 * next. */
void sonde_model_series_continue(struct sonde_model *m, struct sonde_model_series *s);

/* ---- From one agent to the next ------------------------------------------------------------ */

struct sonde_state;

/* A process of the model that was saved, and what it is here; NULL: nothing is known of it now. */
struct sonde_model_known { uint64_t serial; struct sonde_model_process *process; };
struct sonde_model_knowns { const struct sonde_model_known *known; size_t count; }; /* ascending */

/* 1: *out is whose serial it is, NULL for serial 0. 0: its process is gone. */
int sonde_model_known(const struct sonde_model_knowns *k, uint64_t serial,
                      struct sonde_model_process **out);

/* All `kept` series with their values (read lock), and back (write lock); asserted. They go on from
 * there, without a leap in their history. What is bad stops it, s->bad tells. */
void sonde_model_save(const struct sonde_model *m, struct sonde_state *s);
void sonde_model_load(struct sonde_model *m, struct sonde_state *s,
                      const struct sonde_model_knowns *k);
/* Buckets and sums of one histogram, either way; h is empty when it is loaded. */
void sonde_hist_value_state(struct sonde_state *s, struct sonde_hist_value *h);

/* ---- Looking (read lock) ------------------------------------------------------------------- */

/* A filter: every pattern that is set must match. Patterns are shell globs; several filters
 * chained match when all do. */
struct sonde_filter {
    const char *name;       /* glob on the family's name; `a|b*`: any of them */
    const char *source;     /* glob on its source */
    const char *process;    /* glob on the program's name */
    const char *type;       /* counter, gauge, histogram, or a kind: time, throughput, memory, … */
    uint32_t pid;           /* 0 = any */
    int own;                /* 1 = without what came from elsewhere (collect/ingest/ingest.h) */
    struct sonde_label label[4]; /* value is a glob */
    size_t label_count;
};

/* 1 = text matches one of the globs, `a*|b`; NULL = any text does. */
int sonde_filter_glob(const char *patterns, const char *text);

/* Add a span with its parts and attributes to a profile. 0 or SONDE_ENOMEM. */
struct sonde_profile;
int sonde_model_span_add_to(const struct sonde_model_span *span, struct sonde_profile *p);

/* 1 = passes. _family looks at name, source and type only, to skip whole families; _series at
 * everything. f NULL = everything passes. A label that a series lacks counts as "". */
int sonde_filter_family(const struct sonde_filter *f, const struct sonde_model_family *family);
int sonde_filter_series(const struct sonde_filter *f, const struct sonde_model_series *s);

/* When tick `age` (0 = newest, < SONDE_HISTORY and < m->tick) ended, and how long it was. */
static inline double sonde_model_tick_end(const struct sonde_model *m, uint32_t age)
{
    return m->tick_end_s[(m->tick - 1 - age) % SONDE_HISTORY];
}

static inline double sonde_model_tick_len(const struct sonde_model *m, uint32_t age)
{
    return m->tick_len_s[(m->tick - 1 - age) % SONDE_HISTORY];
}

const char *sonde_type_name(enum sonde_type t);  /* "counter" … */
const char *sonde_kind_name(enum sonde_kind k);  /* "time" …, "custom" */

#endif
