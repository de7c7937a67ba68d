/* private.h - what the files of predict/ share.
 *
 *   cost.c      a cost as a sum of features, its residuals, replicates of both
 *   look.c      what the recording says of the scheduler: slots, batch, sharing, arrivals
 *   fit.c       observations to a model
 *   simulate.c  the scheduler
 *   predict.c   questions: replicates, figures, the knee, what is refused */
#ifndef SONDE_ANALYZE_PREDICT_PRIVATE_H
#define SONDE_ANALYZE_PREDICT_PRIVATE_H

#include "analyze/predict/cost.h"
#include "analyze/predict/predict.h"
#include "analyze/predict/simulate.h"

struct sonde_predict_model {
    struct sonde_predict_facts facts;
    struct predict_features features;
    struct predict_cost step, gap, intake;
    uint64_t kv_cells;               /* 0 = not known */
    struct predict_sim_request *requests; /* owned; all that are known whole, arrival from 0 */
    uint32_t request_count;
    uint32_t warm;                   /* those before it arrived in the cold start */
    double *gaps;                    /* owned; between arrivals of warm ones, their mean is 1 */
    uint32_t gap_count;
    struct sonde_predict_value measured[SONDE_PREDICT_FIGURE_COUNT];
    struct sonde_predict_value replayed[SONDE_PREDICT_FIGURE_COUNT];
};

/* A request as its steps show it. */
struct predict_seen {
    uint32_t first_step, last_step;  /* UINT32_MAX = in none */
    uint32_t computed;               /* while steps are gone through: tokens in the cache */
    double token_s;                  /* its last token */
    double end_s;
};

/* Steps with what each did, for the time of fitting. */
struct predict_observation {
    const struct sonde_predict_observed *o;
    struct predict_seen *seen;       /* owned; by request */
    struct predict_work *work;       /* owned; by step */
    uint8_t *unknown;                /* owned; by step: of a request that is not known */
    uint32_t cold;                   /* steps at the beginning that are left out */
    struct predict_hist *itl;        /* owned; of warm requests, when known */
};

/* ---- look.c ---- */

/* Fill facts, which have costs already: slots, batch, share, burstiness, closed_loop, what was seen
 * at most. */
void predict_look(const struct predict_observation *b, struct sonde_predict_facts *facts);
/* The step is not over for that request's prompt: it was cut. */
int predict_part_cut(const struct sonde_predict_request *r, uint32_t computed_after);

/* ---- predict.c ---- */

/* Its own requests, at their own times. 0 or SONDE_ENOMEM. */
int predict_replay(struct sonde_predict_model *m);

#endif
