/* profiler_request.h - profiles of single requests: of who sent `X-Profile: true` through the
 * front, or set sonde_request_info.profile.
 *
 * Whoever hears of such a request says so (begin), and again when it has ended (end). A thread of
 * the profiler sees to it that the processes of the model are sampled meanwhile: with the engine
 * that runs anyway, or with new ones, which stay for half a minute since the next request may
 * follow soon. When all is known of the request it takes what was sampled and allocated, and the
 * spans of that time, and keeps what belongs to the request alone (profile/select/select.h).
 *
 * Bounded: so many are kept, and so many bytes of them; the oldest go first. */
#ifndef SONDE_AGENT_PROFILER_REQUEST_H
#define SONDE_AGENT_PROFILER_REQUEST_H

#include "profile/infer.h"
#include "agent/profiler.h"

#define SONDE_REQUEST_PROFILES_MAX 64          /* kept, and as many under way */
#define SONDE_REQUEST_PROFILE_ID 17            /* 16 hexadecimal digits and a NUL */
#define SONDE_REQUEST_PROFILE_NOTES 4

struct sonde_profiler_request {
    uint64_t id;                 /* the request's span: what its profile is asked for by */
    uint64_t trace_hi, trace_lo;
    uint32_t source;             /* enum sonde_infer_source */
    uint64_t arrived_ns;         /* unix time */
};

/* It has arrived. Any thread, whatever locks it holds; returns at once. id gets what its profile is
 * asked for by. SONDE_EFULL: too many are under way, or the agent ends; SONDE_ENOMEM. */
int sonde_profiler_request_begin(struct sonde_profiler *p, const struct sonde_profiler_request *r,
                                 char id[SONDE_REQUEST_PROFILE_ID]);
/* 1 = what can be sampled is sampled, so that nothing of it will be missed; 0 = wait a little. */
int sonde_profiler_request_ready(struct sonde_profiler *p, uint64_t id);
/* It ended at ended_ns, unix time. known: events and spans up to then are in the model; else they
 * are given some time. May be called twice. */
void sonde_profiler_request_end(struct sonde_profiler *p, uint64_t id, uint64_t ended_ns,
                                int known);

/* For sonde_infer_options.on_begin and .on_done: both of the above, for requests with
 * SONDE_INFER_PROFILE. One that the front has begun is not begun again. */
void sonde_profiler_on_begin(struct sonde_profiler *p, const struct sonde_infer_request *r);
void sonde_profiler_on_done(struct sonde_profiler *p, const struct sonde_infer_request *r);

/* ---- Looking ------------------------------------------------------------------------------- */

/* One that is done. */
struct sonde_request_profile {
    struct sonde_profiler_request request;
    uint64_t ended_ns;           /* unix time */
    struct sonde_profile *profile; /* samples, spans and requests of it alone, symbolized */
    char notes[SONDE_REQUEST_PROFILE_NOTES][256]; /* what is not in it, why, and what to do */
    size_t note_count;
    int refs;                    /* private, as all that follows */
};

/* By profile id (16 hexadecimal digits), by trace id (32: the newest of that trace), or NULL: the
 * newest that is done. Give it back with put. SONDE_EINVAL: neither; SONDE_ENOENT: there is none,
 * or none any more; SONDE_EBUSY: it is not done yet. */
int sonde_profiler_request_get(struct sonde_profiler *p, const char *text,
                               struct sonde_request_profile **out, struct sonde_err *err);
void sonde_profiler_request_put(struct sonde_profiler *p, struct sonde_request_profile *r);

/* All that are known, newest first: up to max. Returns how many. */
struct sonde_request_profile_row {
    struct sonde_profiler_request request;
    uint64_t ended_ns;           /* 0 = it runs */
    int done;
};
size_t sonde_profiler_request_list(struct sonde_profiler *p, struct sonde_request_profile_row *out,
                                   size_t max);

#endif
