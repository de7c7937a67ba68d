/* private.h - what the files of infer/tracker.h share.
 *
 *   tracker.c  attaching, names, the order of events, ticks
 *   flight.c  requests in flight: what each event does to them
 *   join.c    what the front knows of an engine's requests
 *   done.c    figures of a request that ended; the ring of them, timelines that are kept, what goes
 *             to a run file
 *   series.c  which series there are, and recording to them
 *   by_model.c   models: batches, memory, caches, rates
 *   state.c   what goes to the next agent */
#ifndef SONDE_INFER_PRIVATE_H
#define SONDE_INFER_PRIVATE_H

#include "infer/tracker.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/timeq.h"

#define INFER_NAMES_MAX 4096u      /* texts kept: models, routes, phases, errors */
#define INFER_GROUPS_MAX 1024u
#define INFER_MODELS_MAX 256u
#define INFER_WAITING_MAX 65536u   /* events being put in order */
#define INFER_POSTED_MAX 65536u
#define INFER_POSTED_KEPT 2048u    /* room for so many stays after they were read */
#define INFER_ITEMS_MAX (1u << 18) /* of all timelines of requests in flight */
#define INFER_QUIET 256u           /* requests that ended for being silent, should they go on */
#define INFER_ENDED 4096u          /* ids that ended last, to tell late from unknown */
#define INFER_KEPT 64u             /* timelines kept of each: slowest, first token, failed,
                                    * newest */
#define INFER_TOKENS_MAX (1ull << 40)

/* Names that others give to a series: vLLM, llama.cpp, and plain ones. */
#define INFER_ALIASES 3u
struct infer_series { struct sonde_model_series *main, *alias[INFER_ALIASES]; };

enum infer_model_slot {
    INFER_M_RUNNING, INFER_M_WAITING, INFER_M_BATCH_REQUESTS, INFER_M_BATCH_TOKENS,
    INFER_M_PREFILL_TOKENS, INFER_M_DECODE_TOKENS, INFER_M_PREFILL_SECONDS,
    INFER_M_DECODE_SECONDS, INFER_M_PREFILL_RATE, INFER_M_DECODE_RATE, INFER_M_OUTPUT_RATE,
    INFER_M_HIT_RATIO, INFER_M_KV_RATIO, INFER_M_KV_USED, INFER_M_KV_TOTAL,
    INFER_M_MEMORY_PEAK, INFER_M_LOAD_SECONDS, INFER_M_LOAD_OK, INFER_M_LOAD_FAILED,
    INFER_M_MEMORY,
    /* What llama.cpp's server counts differently: aliases only. */
    INFER_M_PROMPT_TOKENS, INFER_M_PROMPT_AVERAGE, INFER_M_PREDICTED_TOKENS,
    INFER_M_PREDICTED_SECONDS, INFER_M_PREDICTED_AVERAGE, INFER_M_PASSES, INFER_M_PASS_REQUESTS,
    INFER_MODEL_SLOT_COUNT
};

struct infer_group {
    struct sonde_model_process *process;
    uint32_t source;
    const char *model, *route;     /* names of the tracker */
    uint64_t out_owed;             /* tokens out that were counted too many: see on_usage */
    struct infer_series slot[SONDE_INFER_GROUP_SLOT_COUNT];
    uint64_t base[SONDE_INFER_GROUP_SLOT_COUNT]; /* counters at the last reset */
};

struct infer_model {
    struct sonde_model_process *process;
    struct sonde_infer_model facts;
    struct infer_series slot[INFER_MODEL_SLOT_COUNT];
    struct sonde_model_series *memory[SONDE_INFER_MEMORY_KINDS], *info;
    uint64_t running, waiting;     /* as counted at the last tick */
    uint64_t told_waiting;         /* by the engine … */
    int waiting_told;              /* … if it did */
    uint64_t tokens_in, tokens_reused, tokens_out;
    uint64_t out_owed;             /* alike */
    uint64_t last_prefill, last_decode, last_output; /* at the last tick */
    double prefill_per_s, decode_per_s, output_per_s;
    uint64_t memory_now;
    int ended;                     /* its process has, at the last tick: it has no memory */
};

struct infer_flight {
    struct infer_flight *before, *after;   /* by when it was heard of; before is longer ago */
    struct sonde_model_process *process;
    struct infer_group *group;
    struct infer_model *model;
    struct sonde_infer_request r;          /* who it is, counts, timeline */
    uint64_t heard_ns, seen_ns;            /* of its newest event: when that was, and when known */
    uint64_t first_token_ns, last_token_ns;
    uint64_t work_ns, encode_ns;           /* first forward pass begins; encoding before it took */
    uint32_t last_token_tid;               /* and seq: what has all three again was told twice */
    uint64_t last_token_seq;
    int exact;                             /* tokens_out is what the server says */
    uint32_t quiet_slot;                   /* of tracker->quiet, and 1; 0 = it is in flight */
    int client_gone;                       /* as the front saw: what ends then was cancelled */
    int told;                              /* it ended, and was counted */
    int counted;                           /* it ended before, for being silent, and went on … */
    uint64_t counted_serial;               /* … this is its entry of the ring */
    uint64_t phase_ns[SONDE_PHASE_COUNT];
    struct sonde_hist_value *itl;          /* gaps, in seconds */
    uint64_t itl_ns_min, itl_ns_max;
    uint32_t item_cap;
};

struct infer_ended { uint64_t id; uint32_t pid, source; };

/* Which timelines are kept is decided by lists of entries of the ring, worst last. */
struct infer_kept { size_t count; uint64_t serial[INFER_KEPT]; };

struct infer_done { struct sonde_infer_request r; uint32_t kept; /* lists it is in */ };

struct infer_event { struct sonde_infer_event e; struct sonde_model_process *process; };

/* Texts that stay where they are, each once. */
struct infer_names { struct sonde_pointer_map map; };

/* How a prompt began that a model had: prefix.c. */
enum { INFER_PREFIXES = 128 };
struct infer_prefix {
    const char *model;   /* interned */
    uint32_t pid;
    uint64_t signature;  /* 0 = free */
};
#define INFER_PREFIX_KEY "sonde.prefix" /* the attribute of sonde_request_prefix() */

struct sonde_infer_tracker {
    struct sonde_infer_options o;
    struct sonde_model *m;
    struct sonde_model_listener listener;  /* of processes that are forgotten */
    double started_s, now_s;
    uint64_t from_ns;
    int muted; /* the event at hand was before that: it does not count */

    struct infer_names names;

    struct sonde_lock post_lock;           /* of the next five */
    struct sonde_infer_event *posted;
    size_t posted_count, posted_cap;
    uint64_t posted_dropped;
    struct infer_names posted_names;       /* those of posted events point here */
    struct sonde_infer_event *spare;       /* takes turns with posted; under the model's lock */
    size_t spare_cap;

    struct sonde_timeq waiting;            /* of struct infer_event */

    struct sonde_pointer_map flights;      /* by source, pid and id */
    size_t flight_count;                   /* of which in flight */
    struct infer_flight *oldest, *newest;  /* by when they were heard of */
    struct infer_flight *quiet[INFER_QUIET]; /* in the table, but not in flight; NULL = free */
    uint32_t quiet_next;
    uint64_t item_total;
    struct infer_ended *ended;             /* INFER_ENDED of them, by hash; with the first */

    struct infer_prefix prefixes[INFER_PREFIXES]; /* of the last prompts: a ring */
    uint32_t prefix_next;

    struct infer_group **groups;
    size_t group_count;
    struct infer_model **models;
    size_t model_count;
    /* Whose the last part was: its batch comes next. */
    struct infer_model *part_model;
    uint64_t part_begin_ns, part_time_ns;

    struct infer_done *done;               /* ring */
    uint64_t done_next;
    struct infer_kept slow_total, slow_ttft, failed, recent;

    struct sonde_infer_totals totals;
    uint64_t reset_tick, reset_done;       /* of the model, and done_next, at the last reset */
    uint64_t cache_asked;
    uint64_t invalid[SONDE_INFER_REASON_COUNT];
    struct sonde_model_series *invalid_series[SONDE_INFER_REASON_COUNT];
};

/* ---- tracker.c ---- */

/* Put an event, whose texts are the tracker's names, among those that are put in order. */
void infer_wait(struct sonde_infer_tracker *tracker, const struct infer_event *e);
/* A text that stays; "(other)" when there are too many. */
const char *infer_name(struct sonde_infer_tracker *tracker, const char *text);
void infer_count(struct sonde_infer_tracker *tracker, enum sonde_infer_reason reason);

/* ---- flight.c ---- */

void infer_on_event(struct sonde_infer_tracker *tracker, const struct infer_event *e);
/* Give up requests that were not heard of since before_ns, and those of processes that are gone. */
void infer_age(struct sonde_infer_tracker *tracker, uint64_t before_ns);
/* End all requests of p as lost; NULL: all there are, without a trace of them. */
void infer_drop(struct sonde_infer_tracker *tracker, const struct sonde_model_process *p);
/* It was given up: what is known of it ends where it was last heard of. */
void infer_lose(struct sonde_infer_tracker *tracker, struct infer_flight *f, const char *why);
/* Into the table, which has room (tracker->flights), and the list, as the one that was heard of
 * last. */
void infer_flight_link(struct sonde_infer_tracker *tracker, struct infer_flight *f);
/* It has ended for being silent, and is kept for a while, should it go on. */
void infer_flight_quiet(struct sonde_infer_tracker *tracker, struct infer_flight *f);
/* What an item of a timeline is called: items are compared by the address of their name. */
const char *infer_item_name(struct sonde_infer_tracker *tracker, uint32_t kind, const char *text);

/* ---- join.c ---- */

/* The client of this request of the front's went away at end_ns: so did that of the engine's
 * request behind it, if it can be told which that is. */
void infer_client_gone(struct sonde_infer_tracker *tracker, const struct infer_flight *front,
                       uint64_t end_ns);

/* ---- prefix.c ---- */

/* How its prompt begins is known now (sonde/prefix.h); 0 = it is not. */
void infer_prefix(struct sonde_infer_tracker *tracker, struct infer_flight *f, uint64_t signature);

/* ---- done.c ---- */

/* Add to a flight's timeline. */
void infer_item(struct sonde_infer_tracker *tracker, struct infer_flight *f,
                const struct sonde_infer_item *item);
/* Figures of a request as if it ended at end_ns; items and attrs stay f's. */
void infer_figures(const struct infer_flight *f, uint64_t end_ns, struct sonde_infer_request *out);
/* It ended: figures, series, the ring. f's items and attrs are taken. What was counted before is
 * only corrected in the ring: neither counters nor histograms can take anything back. */
void infer_finish(struct sonde_infer_tracker *tracker, struct infer_flight *f, uint32_t outcome,
                  uint64_t end_ns, const char *error);
/* It goes on: f gets its timeline back, as far as it was kept. */
void infer_done_resume(struct sonde_infer_tracker *tracker, struct infer_flight *f);
void infer_done_release(struct sonde_infer_tracker *tracker);

/* ---- series.c ---- */

/* NULL: there are too many. */
struct infer_group *infer_group_find(struct sonde_infer_tracker *tracker,
                                     struct sonde_model_process *p, uint32_t source,
                                     const char *model, const char *route);
struct infer_model *infer_model_find(struct sonde_infer_tracker *tracker,
                                     struct sonde_model_process *p, uint32_t source,
                                     const char *model);
/* To a slot of a group or model; NULL is passed over. */
void infer_add(struct sonde_infer_tracker *tracker, struct infer_group *g,
               enum sonde_infer_group_slot s, uint64_t n);
void infer_record(struct sonde_infer_tracker *tracker, struct infer_group *g,
                  enum sonde_infer_group_slot s, uint64_t raw, uint64_t n);
void infer_model_add(struct sonde_infer_tracker *tracker, struct infer_model *m,
                     enum infer_model_slot s, uint64_t n);
void infer_model_record(struct sonde_infer_tracker *tracker, struct infer_model *m,
                        enum infer_model_slot s, uint64_t raw);
void infer_model_set(struct sonde_infer_tracker *tracker, struct infer_model *m,
                     enum infer_model_slot s, double value);
/* The exemplar of a slot's newest value. */
void infer_exemplar(struct infer_group *g, enum sonde_infer_group_slot s, uint64_t raw,
                    const struct sonde_infer_request *r, uint64_t time_ns);
/* Duration of a request that did not end well, and the count of its error: who went away is
 * none. */
void infer_error(struct sonde_infer_tracker *tracker, struct infer_group *g, uint64_t duration_ns,
                 uint32_t outcome, const char *type);
struct sonde_model_series *infer_memory_series(struct sonde_infer_tracker *tracker,
                                               struct infer_model *m, const char *kind);
struct sonde_model_series *infer_info_series(struct sonde_infer_tracker *tracker,
                                             struct infer_model *m, const char *backend);
struct sonde_model_series *infer_invalid_series(struct sonde_infer_tracker *tracker,
                                                const char *reason);
struct sonde_model_series *infer_invalid_request_series(struct sonde_infer_tracker *tracker,
                                                        const char *field);
/* Which series of g or m there are, as bits by slot; and make those that a mask says. */
uint64_t infer_group_mask(const struct infer_group *g);
void infer_group_fill(struct sonde_infer_tracker *tracker, struct infer_group *g, uint64_t mask);
uint64_t infer_model_mask(const struct infer_model *m);
void infer_model_fill(struct sonde_infer_tracker *tracker, struct infer_model *m, uint64_t mask);
/* Counts and ticks of all groups begin here. */
void infer_groups_reset(struct sonde_infer_tracker *tracker);
void infer_series_forget(struct sonde_infer_tracker *tracker, const struct sonde_model_process *p);

/* ---- by_model.c ---- */

void infer_on_batch(struct sonde_infer_tracker *tracker, const struct infer_event *e);
/* Of no one request. */
void infer_on_phase(struct sonde_infer_tracker *tracker, const struct infer_event *e);
void infer_on_model(struct sonde_infer_tracker *tracker, const struct infer_event *e);
/* Tokens computed in a phase and the time it took, of this or of no one request. */
void infer_computed(struct sonde_infer_tracker *tracker, struct infer_model *m, uint32_t kind,
                    uint64_t tokens, uint64_t ns);
void infer_models_tick(struct sonde_infer_tracker *tracker, double seconds);

/* Or nobody else knows the model yet. */
#define INFER_ASSERT_READ(tracker) \
    do { if ((tracker)->m->shared) sonde_assert_held(&(tracker)->m->lock); } while (0)
#define INFER_ASSERT_WRITE(tracker) \
    do { if ((tracker)->m->shared) sonde_assert_held_write(&(tracker)->m->lock); } while (0)

static inline uint64_t infer_now_ns(const struct sonde_infer_tracker *tracker)
{
    return (uint64_t)(tracker->now_s * 1e9);
}

#endif
