/* private.h - what the files of select.h share.
 *
 *   select.c          the call; samples, spans and requests that stay
 *   request.c  which requests are asked for
 *   span.c     how much of each span that is
 *   worker.c   samples of threads without a span */
#ifndef SONDE_PROFILE_SELECT_PRIVATE_H
#define SONDE_PROFILE_SELECT_PRIVATE_H

#include "profile/infer.h"
#include "profile/select/select.h"

#define SELECT_OTHERS (-1.0f)    /* share of a span that is known to be of others */
#define SELECT_AMBIGUOUS (-2.0f) /* share of a sample: it may be of the selection or not */

/* A name of spans: bits of select_work.names. */
enum {
    SELECT_PHASE = 1,            /* of a phase */
    SELECT_WAITS = 2,            /* which computes nothing */
    SELECT_ASKED = 4,            /* the one that is asked for */
};

struct select_id { uint64_t id; uint32_t index; };

struct select_work {
    struct sonde_profile *p;
    const struct sonde_select *s;
    enum sonde_select_hint hint; /* with SONDE_ENOENT */
    struct sonde_err *err;
    /* Requests. Indexes are those of p->infer. */
    unsigned char *chosen;       /* NULL = all of them */
    uint32_t *by_id, *by_trace;  /* all requests, in that order */
    uint32_t request_count;
    /* Spans. */
    unsigned char *names;        /* by string */
    struct select_id *span_ids;  /* sorted */
    uint32_t span_id_count;
    uint32_t *of_sample, *of_span; /* sonde_profile_innermost_spans */
    float *span_share;           /* 0 … 1, or SELECT_OTHERS */
    float *sample_share;         /* of those without a span: 0 … 1, or SELECT_AMBIGUOUS */
};

/* ---- request.c ------------------------------------------------------------------------- */

/* Sorts requests, fills chosen. */
int select_requests(struct select_work *w);
/* Index of the request of that process and id, or -1. */
int64_t select_request_find(const struct select_work *w, uint32_t pid, uint64_t id);
/* Whether a span belongs to a chosen request by its trace: 1, 0, or -1: that trace is of none. */
int select_trace_chosen(const struct select_work *w, const struct sonde_profile_span *span);

/* ---- span.c ---------------------------------------------------------------------------- */

/* Fills names, span_ids and span_share; of_span is there. */
int select_spans(struct select_work *w);
/* 1 if it is a phase, or a batch. */
int select_is_phase(const struct select_work *w, uint32_t span);

/* ---- worker.c -------------------------------------------------------------------------- */

/* Fills sample_share. */
int select_workers(struct select_work *w);

#endif
