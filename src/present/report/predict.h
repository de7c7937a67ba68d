/* predict.h - predictions (analyze/predict/predict.h) for people and programs: what `sonde predict`
 * prints. docs/predict.md describes the JSON. */
#ifndef SONDE_PRESENT_REPORT_PREDICT_H
#define SONDE_PRESENT_REPORT_PREDICT_H

#include "analyze/predict/history.h"
#include "analyze/predict/observe.h"
#include "base/buf.h"

struct sonde_predict_report {
    const char *source;                        /* file or URL it was made from */
    const struct sonde_predict_recording *recording;
    const struct sonde_predict_model *model;
    const struct sonde_predict_answer *answers;
    size_t answer_count;
    const char *load_source;                   /* recording whose requests were asked about … */
    const struct sonde_predict_model *load;    /* … NULL = none */
    const struct sonde_predictions *history;   /* NULL = none is kept */
    uint32_t width;                            /* of text; 0 = as wide as needed */
    int ascii;
};

/* SONDE_ENOMEM is out->error. */
void sonde_predict_text(const struct sonde_predict_report *r, struct sonde_buf *out);
void sonde_predict_json(const struct sonde_predict_report *r, struct sonde_buf *out);

#endif
