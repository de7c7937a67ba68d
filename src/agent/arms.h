/* arms.h - two servers behind the front, compared while it runs (front/front.h, struct
 * sonde_front_ab): what each did, and how they differ, with intervals that may be looked at at any
 * time.
 *
 * Times begin when the front had read the whole request: in a mirror that is the one moment that
 * both servers' times can begin at, and how long a client takes to send its request is neither's
 * doing. Values of requests that follow each other are alike, so what is compared are blocks of
 * time (analyze/sequential.h). Five measures are looked at; each has a fifth of the level, so that
 * equal servers are called different, in any of them, in at most 5 % of tests. */
#ifndef SONDE_AGENT_ARMS_H
#define SONDE_AGENT_ARMS_H

#include "base/buf.h"
#include "front/front.h"
#include "model/model.h"

/* X(id, key, title, better): -1 = less is better. Those before ERRORS are of requests that ended
 * well. */
#define SONDE_ARM_MEASURES(X)                                                                  \
    X(TTFT, "ttft_s", "time to first token", -1)                                               \
    X(ITL, "itl_s", "time between tokens", -1)         /* a request's mean */                  \
    X(E2E, "e2e_s", "whole request", -1)                                                       \
    X(SPEED, "tokens_per_s", "tokens per second", 1)   /* of one request, over all its time */ \
    X(ERRORS, "error_ratio", "failed requests", -1)

enum sonde_arm_measure {
#define SONDE__X(id, key, title, better) SONDE_ARM_##id,
    SONDE_ARM_MEASURES(SONDE__X)
#undef SONDE__X
    SONDE_ARM_MEASURE_COUNT
};

struct sonde_arms_settings {
    double block_s;              /* 0 = SONDE_SEQUENTIAL_BLOCK_S */
    uint32_t block_values;       /* requests of each server in a block; 0 = _BLOCK_VALUES */
    double detect;               /* a relative difference that matters; 0 = none */
};

struct sonde_arms;

/* front: its ab and upstream are copied. model is borrowed. SONDE_ENOMEM. */
int sonde_arms_create(const struct sonde_arms_settings *settings,
                      const struct sonde_front_options *front, struct sonde_model *model,
                      struct sonde_arms **out);
/* The front has been stopped. NULL is fine. */
void sonde_arms_destroy(struct sonde_arms *arms);

/* On the front's thread: a request with an arm has ended. Neither waits for readers. */
void sonde_arms_ended(struct sonde_arms *arms, const struct sonde_front_request *r);
void sonde_arms_tick(struct sonde_arms *arms, const struct sonde_front_state *state);

/* An object, without a newline; docs/front.md says what is in it. */
void sonde_arms_json(struct sonde_arms *arms, struct sonde_buf *out);

#endif
