/* infer.h - what is known of one inference request after it ended: the figures users ask for, and,
 * where it was kept, its timeline. The agent's model makes them (infer/tracker.h), run files
 * keep them, reports and HTTP show them.
 *
 * A figure that is not known is 0, and a count beside it says so: no ttft_s without tokens_out (see
 * sonde_infer_has_ttft), no
 * itl without itl_count, no phase_s without phase_count, no hit_ratio without tokens_in. */
#ifndef SONDE_PROFILE_INFER_H
#define SONDE_PROFILE_INFER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sonde/phases.h"
#include "sonde/sonde.h"

/* Beside enum sonde_outcome: its end was never told. It was not heard of for long, or its process
 * is gone. */
enum { SONDE_INFER_LOST = SONDE_TIMEOUT + 1, SONDE_INFER_OUTCOMES };
const char *sonde_infer_outcome_name(uint32_t outcome); /* "ok" …, "lost" */
int sonde_infer_outcome_find(const char *name);         /* or -1 */
/* Of enum sonde_infer_source (infer/event.h): "api", "hook", "probe", "front". */
const char *sonde_infer_source_name(uint32_t source);
int sonde_infer_source_find(const char *name);          /* or -1 */

#define SONDE_INFER_ID_MAX 40
#define SONDE_INFER_ATTRS_MAX 8
#define SONDE_INFER_ITEMS_MAX 256   /* of a timeline */

/* "queue" … for enum sonde_phase_kind; "" for others. */
static inline const char *sonde_phase_name(size_t kind)
{
    switch (kind) {
#define SONDE__X(id, name)                                                                     \
    case SONDE_PHASE_##id: return name;
        SONDE_PHASES(SONDE__X)
#undef SONDE__X
    default: return "";
    }
}

/* The same where sums are shown by kind: phases that have names of their own are one. */
static inline const char *sonde_phase_title(size_t kind)
{
    return kind == SONDE_PHASE_NONE ? "other" : sonde_phase_name(kind);
}

/* Part of a timeline: a phase, or tokens that came out. When there would be too many, neighbours of
 * one kind are joined: then it is busy for a part of its time only. */
struct sonde_infer_item {
    uint64_t start_ns, end_ns;      /* unix time */
    uint64_t busy_ns;               /* this request's share of it */
    uint64_t tokens;
    const char *name;               /* "prefill", …, "tokens" */
    uint32_t kind;                  /* enum sonde_phase_kind; SONDE_PHASE_NONE: tokens came out */
    uint32_t count;                 /* what it was joined of; 1 = nothing */
    uint32_t batch;                 /* requests that shared it, at most; 0 = it was no batch */
};

struct sonde_infer_attr { const char *key; char value[48]; };

#define SONDE_INFER_PROFILE 1u       /* a profile of it alone was asked for */
#define SONDE_INFER_QUEUE_DERIVED 2u /* queue: from arrival to the first work on it */
#define SONDE_INFER_SLO_MET 4u
#define SONDE_INFER_SLO_MISSED 8u    /* neither: there is none, or it does not count */
#define SONDE_INFER_RUNNING 16u      /* it has not ended: figures so far */
#define SONDE_INFER_WENT_ON 32u      /* it was taken to have ended before, and told: this corrects
                                      * it */

#define SONDE_INFER_INCOMPLETE 64u   /* it began before what is known of it: arrived_ns is the first
                                        that is, total_s from there, and neither ttft_s nor queue */

/* Texts are "" when not known. Times are seconds. */
struct sonde_infer_request {
    uint64_t id, trace_hi, trace_lo;
    uint64_t parent;                /* span that asked for it; 0 = none, or it was not kept */
    uint32_t pid;
    uint32_t source;                /* enum sonde_infer_source of infer/event.h */
    uint32_t outcome, flags;
    const char *program, *model, *route, *backend;
    const char *error;              /* its type */
    const char *invalid;            /* the field that cannot be; then it is part of no statistics */
    char own_id[SONDE_INFER_ID_MAX + 1]; /* the engine's */
    uint64_t arrived_ns;            /* unix time */
    uint64_t tokens_max;
    uint64_t tokens_in, tokens_reused, tokens_out;
    uint64_t tokens_shared;         /* so many of tokens_in, at least, began an earlier prompt too;
                                       0 also = not known */
    uint64_t prefix_known;          /* 1: how its prompt begins is known */
    double total_s;
    double ttft_s;                  /* arrival to first token */
    double phase_s[SONDE_PHASE_COUNT]; /* by kind; batches divided by tokens. [0] is of named
                                        * ones */
    uint64_t phase_count[SONDE_PHASE_COUNT];
    uint64_t itl_count;             /* gaps between tokens */
    double itl_s;                   /* their mean: first token to last, by tokens less one */
    double itl_min_s, itl_p50_s, itl_p95_s, itl_p99_s, itl_max_s;
    double tokens_per_s;            /* as its user saw it: tokens out by total */
    double hit_ratio;               /* reused of the prompt's tokens */
    double efficiency;              /* tokens out a millisecond */
    uint64_t memory_bytes;          /* of its model, all kinds, when it ended; 0 = not known */
    uint64_t batches;               /* forward passes it was in */
    struct sonde_infer_item *items; /* owned; NULL = not kept */
    uint32_t item_count;
    uint32_t attr_count;
    struct sonde_infer_attr *attrs; /* owned */
};

/* 0, or SONDE_EINVAL: a figure is NaN, infinite or negative, a ratio is not in 0 … 1, or figures
 * cannot be together (the first token after the end, more reused than asked, parts longer than the
 * whole). field (may be NULL) is the name of the one that is wrong, static; err a sentence. */
int sonde_infer_validate(const struct sonde_infer_request *r, const char **field,
                         struct sonde_err *err);

/* Frees what r owns. */
void sonde_infer_request_release(struct sonde_infer_request *r);

/* Its time to the first token is known. */
static inline int sonde_infer_has_ttft(const struct sonde_infer_request *r)
{
    return r->tokens_out && !(r->flags & SONDE_INFER_INCOMPLETE);
}

/* Where waiting ended and tokens came: for bars and tables. */
static inline double sonde_infer_queue_s(const struct sonde_infer_request *r)
{
    return r->phase_s[SONDE_PHASE_QUEUE];
}

/* ---- Of a run ------------------------------------------------------------------------------ */

#define SONDE_INFER_MEMORY_KINDS 16

struct sonde_infer_memory { const char *kind; uint64_t bytes, peak; };

/* What is known of a model in a process, in all. */
struct sonde_infer_model {
    uint32_t pid, source;
    const char *program, *model, *backend;
    double load_s;                  /* 0 = not seen */
    uint64_t loaded_ns;             /* unix time its load ended; 0 = this agent has not seen it */
    uint64_t load_bytes;
    uint64_t memory_peak;           /* of the sum of all kinds */
    uint64_t kv_used, kv_total, kv_peak;
    uint64_t batches, batch_requests, batch_tokens; /* sums, for averages */
    uint64_t phase_tokens[SONDE_PHASE_COUNT];  /* computed in prefill and decode … */
    double phase_s[SONDE_PHASE_COUNT];         /* … and the time it took, a batch once */
    uint32_t memory_count;
    struct sonde_infer_memory memory[SONDE_INFER_MEMORY_KINDS];
};

struct sonde_profile;

#define SONDE_INFER_INVALID_MAX 32

/* Hung on a profile (profile.h); its texts are strings of that. */
struct sonde_infer_run {
    double slo_ttft_s, slo_itl_s, slo_total_s; /* objectives that were set; 0 = none */
    struct sonde_infer_invalid { const char *reason; uint64_t count; }
        invalid[SONDE_INFER_INVALID_MAX];  /* events that were not used, or not as they were */
    uint32_t invalid_count;
    struct sonde_infer_request *requests;  /* in the order they ended */
    uint32_t request_count, request_cap;
    struct sonde_infer_model *models;
    uint32_t model_count, model_cap;
    uint64_t dropped;                      /* requests that did not fit */
};

/* p's, made if need be; NULL = out of memory. */
struct sonde_infer_run *sonde_infer_run(struct sonde_profile *p);
/* Copies r with texts and timeline; one that went on takes the place of what it was. 0, or
 * SONDE_ENOMEM (counted as dropped): over p's memory. */
int sonde_infer_run_add(struct sonde_profile *p, const struct sonde_infer_request *r);
/* The same for a model; one that is known (pid, source, model) is replaced. */
int sonde_infer_run_model(struct sonde_profile *p, const struct sonde_infer_model *m);
/* Adds to the events that were not used for a reason; too many reasons are passed over. 0 or
 * SONDE_ENOMEM. */
int sonde_infer_run_invalid(struct sonde_profile *p, const char *reason, uint64_t count);
/* Takes all of from's over, when profiles are merged; objectives if p has none. */
int sonde_infer_run_merge(struct sonde_profile *p, const struct sonde_profile *from);
void sonde_infer_run_destroy(struct sonde_infer_run *r);  /* NULL is fine */

#endif
