/* select.h - the part of a profile that is of a phase, of one request, or of the slowest ones.
 *
 * A sample belongs to the innermost span of its thread at its time. Whose that is, is looked for
 * from there upwards, by parent and then by what encloses it on the thread:
 *
 *   phase    the first span on the way that is a phase: named prefill, decode, …, or begun for a
 *            request. So a sampler inside a prefill is not prefill.
 *   request  the first on the way that was begun for a request; else the request that has the
 *            span's trace at that time.
 *
 * A batch is of several requests, and may be of prefill and decode at once: a sample in it counts
 * for each by its tokens of the batch's tokens, as the figures of requests do (infer.h). Weights
 * and counts stay whole numbers and add up: what one sample loses in rounding the next one gets.
 *
 * Threads of a pool compute for a phase without a span of their own. Their samples are not part of
 * it unless asked for; then those are taken that were sampled while all phases that ran in the
 * process were of the selection, or just one ran, whose share they get. What ran while some phases
 * were and others were not is told, not guessed.
 *
 * Rejected: a filter that is asked for every sample, as struct sonde_profile_filter is. Parts of
 * samples would then concern whoever adds up weights. */
#ifndef SONDE_PROFILE_SELECT_SELECT_H
#define SONDE_PROFILE_SELECT_SELECT_H

#include "base/err.h"
#include "profile/profile.h"

struct sonde_select_trace { uint64_t hi, lo; };

/* Phase and requests can be combined; of request, slowest, traces and given only one. All zero:
 * all. */
struct sonde_select {
    const char *phase;     /* its name; NULL = any */
    const char *request;   /* the engine's own id, or trace id or request id in hexadecimal digits;
                              a beginning will do if it is that of one request only; NULL = any */
    double slowest_share;  /* so much (0 … 1] of all requests, by their total time, at least one */
    uint64_t slowest;      /* or so many */
    const struct sonde_select_trace *traces; /* requests of these traces */
    uint32_t trace_count;
    const unsigned char *given; /* by request of p->infer: exactly these, and … */
    const unsigned char *among; /* … alike: only these count at all. NULL = all */
    int rest;              /* instead of the requests that are chosen all others that count */
    int workers;           /* with threads that have no span of their own at that time */
};

/* What else could be asked for where nothing was found; how to ask is the caller's to say. */
enum sonde_select_hint {
    SONDE_SELECT_HINT_NONE,
    SONDE_SELECT_HINT_WORKERS, /* threads without a span of their own: workers */
    SONDE_SELECT_HINT_SPANS,   /* there are no phases, but spans can be filtered by any name */
    SONDE_SELECT_HINT_COUNT
};

/* What was found, by kind of sample, in its unit. */
struct sonde_selected {
    uint64_t requests, requests_all;              /* chosen, and of how many; 0 0 = not asked for */
    uint64_t own[SONDE_SAMPLE_KIND_COUNT];        /* in spans */
    uint64_t workers[SONDE_SAMPLE_KIND_COUNT];    /* on threads outside; in p only if asked for */
    uint64_t ambiguous[SONDE_SAMPLE_KIND_COUNT];  /* there too, but others ran as well: left out */
    uint64_t untimed[SONDE_SAMPLE_KIND_COUNT];    /* without a time or thread: left out */
    enum sonde_select_hint hint;                  /* with SONDE_ENOENT, and then only this */
};

/* "5" or "1%" into s. SONDE_EINVAL: it is neither, or nothing. */
int sonde_select_slowest(const char *text, struct sonde_select *s, struct sonde_err *err);

/* 1 if s asks for a part. */
int sonde_select_asks(const struct sonde_select *s);

/* p becomes what s asks for: samples as above; no spans and requests (p->infer, which has to hold
 * those that are asked for) that are of others; no facts of a heap, which are of all. *out may be
 * NULL. SONDE_EINVAL: s contradicts itself, or its request is several. SONDE_ENOENT: there is no
 * such phase or request, or no sample is in it; err names what is near, and out->hint what else
 * there is. SONDE_ENOMEM. After an error p is as it was. */
int sonde_profile_select(struct sonde_profile *p, const struct sonde_select *s,
                         struct sonde_selected *out, struct sonde_err *err);

#endif
