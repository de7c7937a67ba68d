/* observe.h - what a recording says of an engine, as predict.h wants it: the requests and forward
 * passes of one process, and how its command line set it up. */
#ifndef SONDE_ANALYZE_PREDICT_OBSERVE_H
#define SONDE_ANALYZE_PREDICT_OBSERVE_H

#include "analyze/predict/predict.h"
#include "profile/profile.h"

struct sonde_predict_recording {
    struct sonde_predict_observed observed; /* points to the three below */
    struct sonde_predict_request *requests; /* owned, as the next two */
    struct sonde_predict_step *steps;
    struct sonde_predict_part *parts;
    uint32_t request_cap, step_cap, part_cap;
    uint32_t pid;
    uint32_t left_out;                      /* requests that are not known whole */
    uint32_t others;                        /* processes that compute too, and are left out */
    const char *model, *program, *host;     /* borrowed from the profile; "" = not known */
    double start_s;                         /* unix time of the recording */
};

/* What of a recording counts. */
struct sonde_predict_choice {
    const char *model;                      /* a process that has requests of it; NULL = any */
    uint64_t from_ns, to_ns;                /* unix time: what arrived then; 0 = open */
};

/* Of the process that computed most. SONDE_ENOENT: there are no requests or no passes (err says
 * what to record); SONDE_ENOMEM. */
int sonde_predict_observe(const struct sonde_profile *p,
                          const struct sonde_predict_choice *choice,
                          struct sonde_predict_recording *out, struct sonde_err *err);
void sonde_predict_recording_release(struct sonde_predict_recording *r);

/* The value of the first of the options that a command line has, with a blank or = before it; 0 =
 * there is none. Names end with NULL. */
uint32_t sonde_predict_option(const char *command, const char *const *names);

#endif
