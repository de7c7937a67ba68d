/* history.h - predictions that were made, and how far off they were: which of them a later
 * recording checks, and what became of those that were. Pure; store/prediction.h keeps them. */
#ifndef SONDE_ANALYZE_PREDICT_HISTORY_H
#define SONDE_ANALYZE_PREDICT_HISTORY_H

#include "analyze/predict/predict.h"

#define SONDE_PREDICTIONS_MAX 1000u
#define SONDE_PREDICTION_TEXT 256

struct sonde_prediction {
    uint64_t id;
    double made_s, recorded_s;     /* unix time: of the prediction, of what it was made from */
    char host[SONDE_PREDICTION_TEXT], model[SONDE_PREDICTION_TEXT], program[SONDE_PREDICTION_TEXT];
    double rate, tokens_in, tokens_out;
    uint32_t slots, batch_tokens, requests;
    struct sonde_predict_value knee, figures[SONDE_PREDICT_FIGURE_COUNT];
    /* What was measured later; checked_s 0 = nothing yet. */
    double checked_s, checked_recorded_s, checked_rate;
    double measured[SONDE_PREDICT_FIGURE_COUNT]; /* NaN = not known */
};

struct sonde_predictions { struct sonde_prediction *list; uint32_t count, cap; };

void sonde_predictions_release(struct sonde_predictions *p);

/* Copies one; the oldest goes when there are too many. 0 or SONDE_ENOMEM. */
int sonde_predictions_add(struct sonde_predictions *p, const struct sonde_prediction *one);

/* 1 if what was measured is what p predicts: host, model, slots the same, rate and sizes close, and
 * of another recording than it was made from. m: as a prediction, with figures measured. */
int sonde_prediction_matches(const struct sonde_prediction *p, const struct sonde_prediction *m);

/* Compare m with all that it matches and was not compared with: of one that was checked before a
 * copy is added. checked: how many. 0 or SONDE_ENOMEM. */
int sonde_predictions_check(struct sonde_predictions *p, const struct sonde_prediction *m,
                            double now_s, uint32_t *checked);

/* How far off predictions of this host and model were, of one figure. */
struct sonde_prediction_errors {
    uint32_t count, inside;        /* checked; measured within the interval */
    double median, worst;          /* of |predicted / measured - 1| */
};
void sonde_predictions_errors(const struct sonde_predictions *p, const char *host,
                              const char *model, enum sonde_predict_figure f,
                              struct sonde_prediction_errors *out);

#endif
