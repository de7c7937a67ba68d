/* store.h - what the agent keeps for longer than it runs: every series as it was at each tick,
 * rolled up for long times, and profiles. One engine = one `struct sonde_store_ops`; the embedded
 * one is SQLite (store/sqlite/sqlite.c).
 *
 * A *run* is the time from opening a store for writing to closing it: one life of an agent (two, if
 * the clock is set back by more than a minute meanwhile). Series
 * are the store's, over all runs; what was recorded is of a run, and can be named, tagged, deleted
 * and copied out by it.
 *
 * append returns at once: a thread of the store writes. What was appended is on disk as soon as
 * that thread got round to it, which without trouble is milliseconds; with trouble (a full disk)
 * it is kept in memory as long as there is room, and then dropped, which shows as a gap. */
#ifndef SONDE_STORE_STORE_H
#define SONDE_STORE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "analyze/severity.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/model.h"
#include "profile/infer.h"

struct sonde_store;

/* What is kept; 0 = no limit. Applied all the time, in small steps, oldest first. */
struct sonde_store_retention {
    uint64_t age_s;            /* of everything */
    uint64_t raw_s;            /* of points as they were recorded; 0 = age_s. Roll-ups stay */
    uint64_t profiles;         /* at most so many */
    uint64_t bytes;            /* of the file, without what is free in it */
    int force;                 /* by age even if the clock is far beyond what was recorded before */
};

struct sonde_store_options {
    const char *path;
    int read_only;             /* look only: no run is begun, no thread, nothing is written */
    int maintain;              /* change what is there, also beside an agent: no run, no thread */
    int temporary;             /* nobody opens it again: nothing waits for the disk, and when it
                                  cannot be written it is given up (stats: off). By
                                  store/sqlite/recent.c */
    const char *run_name;      /* NULL = none */
    const char *config;        /* kept with the run; NULL = none */
    struct sonde_store_retention keep;
    uint32_t series_max;       /* recorded at one time; 0 = 100000 */
    uint32_t block_ticks;      /* ticks that are packed together; 0 = 600 */
    size_t memory_max;         /* bytes of what is not packed yet; 0 = 32 MiB */
    uint32_t spans_per_s, requests_per_s; /* kept of each second, and as many failed or slow ones
                                             beside them; 0 = 100 */
};

/* ---- Series ---------------------------------------------------------------------------------- */

struct sonde_store_series {
    uint32_t id;               /* the store's; not looked at by define */
    const char *name, *help, *unit, *source;
    const char *labels;        /* `a="b",c="d"` as Prometheus has it; "" = none */
    const char *program;       /* of the process; "" = the host's or the agent's */
    uint32_t pid;
    enum sonde_type type;
    enum sonde_kind kind;
    double scale;              /* counters and histograms: raw to exported unit */
    int from_zero;             /* define: its first value is an increase */
};

/* One tick: what every series that there is now had. */
struct sonde_store_tick {
    int64_t time_ms;           /* unix */
    uint32_t count;
    struct sonde_store_value {
        uint32_t slot;         /* from define */
        uint32_t bytes;        /* histograms: length of its entry (chunk_hist.h) … */
        uint64_t value;        /* … and where in data it is; counter: raw total; gauge: bits */
    } *values;
    const char *data;
};

/* ---- Asking ---------------------------------------------------------------------------------- */

struct sonde_store_query {
    const struct sonde_filter *filters; /* chained: all must match */
    size_t filter_count;
    double from_s, to_s;       /* unix; to_s 0 = now */
    double step_s;             /* one point for so long, and steps begin at multiples of it: from_s
                                  is taken down to one; 0 = as recorded */
    size_t series_max;         /* 0 = 1000 */
    size_t points_max;         /* of all series; more are SONDE_EFULL. 0 = 1000000 */
    int whole;                 /* no points, but the whole range as one: what was recorded after
                                  from_s, until to_s, so that ranges that follow each other add up.
                                  step_s: how exact that has to be, where points are rolled up */
};

/* A step, or a tick. NaN = cannot be known. */
struct sonde_store_point {
    double time_s;             /* when it begins; of a tick, when it was taken */
    double seconds;            /* of it that were recorded */
    double count;              /* of ticks; histograms: of records */
    double sum;                /* counter: increase; gauge: sum of values; histogram: of records */
    double min, max, last;     /* counter: of increases per second; last: total; histogram: of
                                  records to 0.54 %, last: NaN */
    double p50, p90, p95, p99; /* histograms */
};

/* Names and values of `a="b",c="d"`, unescaped in place; how many, or -1. */
int sonde_store_labels(char *text, struct sonde_label *out, size_t max);

/* A tick of a series as it was recorded. */
struct sonde_store_raw {
    int64_t time_ms;
    uint64_t value;            /* counter: total; gauge: bits */
    uint64_t increase;         /* counter: since the tick before */
    uint64_t zero, sum_raw;    /* histogram: what was added … */
    uint32_t bucket_count;     /* … and to which buckets, ascending */
    const uint16_t *p;
    const uint64_t *n;
};

/* Called for each series that matches, in order of names; borrowed. all: everything in range. */
struct sonde_store_sink {
    void (*series)(const struct sonde_store_series *s, const struct sonde_store_point *all,
                   const struct sonde_store_point *points, size_t count, void *arg);
    void (*gap)(double from_s, double to_s, const char *reason, void *arg); /* NULL = not wanted */
    void *arg;
    /* Before series of a histogram: what all of it recorded, by sonde__hist_bucket. NULL = not
     * wanted. */
    void (*buckets)(uint64_t zero, const uint64_t n[SONDE__HIST_BUCKETS], void *arg);
    /* Instead of series (step_s 0): each tick of each; what is only left rolled up is passed over.
     * Not 0 = enough. */
    int (*raw)(const struct sonde_store_series *s, const struct sonde_store_raw *p, void *arg);
};

/* ---- Spans, requests, findings --------------------------------------------------------------- */

struct sonde_store_range {
    double from_s, to_s;       /* unix; 0 = open */
    const char *kind;          /* of findings; NULL = all */
    uint32_t run;              /* 0 = all */
    size_t limit;              /* 0 = no limit */
};

/* Of the time that was looked at, in whole batches: how many there were and are kept. */
struct sonde_store_counts { uint64_t seen, kept; };

/* One conclusion of an analysis. Texts may be NULL but for kind. */
struct sonde_store_finding {
    uint64_t id;               /* put: not looked at */
    uint32_t run;              /* put: not looked at: the one that is written, else the last */
    double time_s;             /* unix */
    const char *kind;          /* "slow_phase", "leak", …: letters, digits and . _ - */
    const char *subject;       /* what it is about: a function, a route, … */
    enum sonde_severity severity;
    double value;              /* NaN = none */
    const char *unit;          /* of value */
    const char *text;          /* for people */
};

/* ---- Runs and profiles ----------------------------------------------------------------------- */

struct sonde_store_run {
    uint32_t id;
    const char *name, *tags, *host, *version, *config;
    double start_s, end_s;     /* end: of what is recorded so far */
    uint64_t ticks, profiles;
    uint64_t spans, requests;  /* that were kept, also those that are too old by now */
    uint64_t findings;
    int live;                  /* an agent writes it now */
};

/* The sums of a heap profile. */
struct sonde_store_heap {
    uint64_t profile;          /* its id */
    double time_s;             /* unix */
    const char *program;
    int exact;                 /* every allocation; else estimated from samples */
    double live_bytes, live_count, alloc_bytes, alloc_count;
    double peak_bytes, rss_bytes; /* 0 = not known */
    double lost_bytes;         /* by the scan at exit */
};

struct sonde_store_profile {
    uint64_t id;               /* put: not looked at */
    uint32_t run;              /* put: not looked at: the one that is written, else the last */
    const char *name;          /* letters, digits and . _ -; need not be unique */
    const char *kind;          /* "cpu", "heap", …: what it is to the user */
    const char *program;
    double start_s, end_s;
    uint64_t samples;
    size_t bytes;              /* as stored */
};

struct sonde_store_stats {
    uint64_t ticks, points;    /* appended since opening */
    uint64_t dropped_ticks;    /* for lack of memory or disk: gaps */
    uint64_t dropped_series;   /* over series_max */
    uint64_t spans_left_out, requests_left_out; /* more in a second than are kept */
    uint64_t dropped_events;   /* of both, for lack of memory or disk */
    uint64_t commits, failures;
    double append_s_max;       /* the longest that append took */
    /* The longest commit of points, step of packing, rolling up or deleting, and moving of the log
     * to the file, by the clock; and the longest of all these in the writer's own CPU time. */
    double commit_s_max, step_s_max, checkpoint_s_max, step_cpu_s_max;
    int off;                   /* a temporary one that was given up: nothing is in it */
    double failing_since_s;    /* unix time; 0 = all is well */
    char problem[256];         /* what is wrong now, or was last; "" = nothing ever */
    double clock_ahead_s;      /* the clock is so far beyond what was recorded before that nothing
                                  is deleted for its age; 0 = it is not */
};

/* Everything returns 0 or a negative SONDE_E… with err filled; any thread may call. */
struct sonde_store_ops {
    const char *name, *summary;

    /* SONDE_EBUSY: another agent writes it. A damaged file is put aside and a new one begun. */
    int (*open)(const struct sonde_store_options *o, struct sonde_store **out,
                struct sonde_err *err);
    /* Writes what is pending. NULL is fine. */
    void (*close)(struct sonde_store *s);

    /* A series that is recorded from now on; *slot stands for it until a tick is without it.
     * SONDE_EFULL: series_max (counted). */
    int (*define)(struct sonde_store *s, const struct sonde_store_series *spec, uint32_t *slot);
    /* Copies t. SONDE_EFULL: memory_max is used up (counted). SONDE_EOFF: it was given up. */
    int (*append)(struct sonde_store *s, const struct sonde_store_tick *t);
    /* Copy it to what is written next; waits for nothing. 0 also when it is left out, since there
     * are too many (counted) or since an earlier run has it; SONDE_EFULL, SONDE_ENOMEM
     * (counted). */
    int (*span_add)(struct sonde_store *s, const struct sonde_model_span *span);
    /* The timeline is kept if it failed, missed its objective or was slow. */
    int (*request_add)(struct sonde_store *s, const struct sonde_infer_request *r);
    /* Wait until all that was appended is on disk; SONDE_EIO with the reason if it cannot be. */
    int (*flush)(struct sonde_store *s, struct sonde_err *err);

    int (*query)(struct sonde_store *s, const struct sonde_store_query *q,
                 const struct sonde_store_sink *sink, struct sonde_err *err);
    void (*stats)(struct sonde_store *s, struct sonde_store_stats *out);

    /* Those that started, or arrived, in q, newest first, until row returns 1; borrowed. counts may
     * be NULL, and is added to. */
    int (*spans)(struct sonde_store *s, const struct sonde_store_range *q,
                 int (*row)(const struct sonde_model_span *span, void *arg), void *arg,
                 struct sonde_store_counts *counts, struct sonde_err *err);
    int (*requests)(struct sonde_store *s, const struct sonde_store_range *q,
                    int (*row)(const struct sonde_infer_request *r, void *arg), void *arg,
                    struct sonde_store_counts *counts, struct sonde_err *err);
    /* On disk when it returns. SONDE_EINVAL: a field cannot be. */
    int (*finding_put)(struct sonde_store *s, const struct sonde_store_finding *f, uint64_t *id,
                       struct sonde_err *err);
    /* SONDE_ENOENT: there is none of that id and kind. */
    int (*finding_delete)(struct sonde_store *s, uint64_t id, const char *kind,
                          struct sonde_err *err);
    int (*findings)(struct sonde_store *s, const struct sonde_store_range *q,
                    int (*row)(const struct sonde_store_finding *f, void *arg), void *arg,
                    struct sonde_err *err);

    /* Newest first. */
    int (*runs)(struct sonde_store *s,
                void (*row)(const struct sonde_store_run *r, void *arg), void *arg,
                struct sonde_err *err);
    int (*run_set)(struct sonde_store *s, uint32_t id, const char *name, const char *tags,
                   struct sonde_err *err); /* NULL = leave */
    int (*run_delete)(struct sonde_store *s, uint32_t id, struct sonde_err *err);
    /* All of `from` becomes part of `to`. */
    int (*run_merge)(struct sonde_store *s, uint32_t to, uint32_t from, struct sonde_err *err);
    /* A new store at path with this run only. */
    int (*run_copy)(struct sonde_store *s, uint32_t id, const char *path, struct sonde_err *err);

    /* Files that its profiles have code of, by path; and its heap profiles' sums, newest first. */
    int (*modules)(struct sonde_store *s, uint32_t run,
                   void (*row)(const char *path, const char *build_id, void *arg), void *arg,
                   struct sonde_err *err);
    int (*heaps)(struct sonde_store *s, uint32_t run,
                 void (*row)(const struct sonde_store_heap *h, void *arg), void *arg,
                 struct sonde_err *err);

    /* data: a run file (run.h), copied. */
    int (*profile_put)(struct sonde_store *s, const struct sonde_store_profile *p,
                       const void *data, size_t len, uint64_t *id, struct sonde_err *err);
    /* The same, and those with ids go, in one transaction: they became part of it. Ids that are not
     * there, or are of another kind, are passed over. */
    int (*profile_replace)(struct sonde_store *s, const struct sonde_store_profile *p,
                           const void *data, size_t len, const uint64_t *ids, size_t id_count,
                           uint64_t *id, struct sonde_err *err);
    int (*profiles)(struct sonde_store *s, /* newest first; name NULL = all */
                    const char *name, void (*row)(const struct sonde_store_profile *p, void *arg),
                    void *arg, struct sonde_err *err);
    int (*profile_get)(struct sonde_store *s, uint64_t id, struct sonde_buf *out,
                       struct sonde_err *err);
    int (*profile_delete)(struct sonde_store *s, uint64_t id, struct sonde_err *err);

    /* Apply keep (NULL = what it was opened with) until nothing is left to do, and give what is
     * free back to the file system. */
    int (*gc)(struct sonde_store *s, const struct sonde_store_retention *keep,
              uint64_t *freed_bytes, struct sonde_err *err);
};

extern const struct sonde_store_ops sonde_store_sqlite;

/* Profiles alone, in memory: for an agent that has no store, and gone with it. All but open, close
 * and what is of profiles is NULL. keep says how many and how much (of bytes) there may be: the
 * oldest go. */
extern const struct sonde_store_ops sonde_store_memory;

/* ---- store/sqlite/look.c --------------------------------------------------------------------- */

/* 1 if a file is a store. */
int sonde_store_is_file(const char *path);

/* ---- store/sqlite/recent.c ------------------------------------------------------------------- */

/* A store of its own for an agent that was given no file: what was lately, gone with the agent
 * however that ends. o->path is the folder to have it in; NULL = $TMPDIR, or the first of /var/tmp
 * and /tmp that can be written. */
int sonde_store_recent_open(const struct sonde_store_options *o, struct sonde_store **out,
                            struct sonde_err *err);

/* ---- store/sqlite/find.c --------------------------------------------------------------------- */

/* A name that users may give a profile: up to 64 letters, digits and . _ -, among them a letter, as
 * without it would be an id or a time. 0, or SONDE_EINVAL and why. */
#define SONDE_PROFILE_NAME_MAX 64
int sonde_store_name_check(const char *name, struct sonde_err *err);

struct sonde_store_found {
    uint64_t id;
    char name[104], kind[36], program[132];
    double start_s, end_s;
    uint64_t samples;
    size_t bytes;
};

/* The profile that text says: its id, its name (the newest of that name), or prof_YYYYMMDD_HHMMSS,
 * when it began in UTC. SONDE_ENOENT: there is none. */
int sonde_store_profile_find(const struct sonde_store_ops *ops, struct sonde_store *s,
                             const char *text, struct sonde_store_found *out,
                             struct sonde_err *err);

/* ---- store/sqlite/model.c -------------------------------------------------------------------- */

/* Every tick, span and request of a model to a store. */
struct sonde_store_feed;
int sonde_store_feed_create(const struct sonde_store_ops *ops, struct sonde_store *s,
                            struct sonde_store_feed **out);
void sonde_store_feed_destroy(struct sonde_store_feed *f); /* NULL is fine */
/* For sonde_collector_options.on_tick; arg is the feed. */
void sonde_store_feed_tick(struct sonde_model *m, void *arg);
/* Spans of m from now on; under its write lock (asserted), or before others know m, which ends
 * before f does. */
void sonde_store_feed_spans(struct sonde_store_feed *f, struct sonde_model *m);
/* A request that ended. */
void sonde_store_feed_request(struct sonde_store_feed *f, const struct sonde_infer_request *r);

#endif
