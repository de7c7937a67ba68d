/* serve_model.h - a small model built by hand, for the tests of serve/. */
#ifndef TESTS_SERVE_MODEL_H
#define TESTS_SERVE_MODEL_H

#include <string.h>

#include "model/model.h"

static inline struct sonde_model_family *family(struct sonde_model *m, enum sonde_type type,
                                                const char *name, const char *help,
                                                const char *unit, double scale)
{
    return sonde_model_family(m, &(struct sonde_model_family_spec){
                                     .name = name, .help = help, .unit = unit, .source = "test",
                                     .type = type, .scale = scale });
}

static inline struct sonde_model_series *series1(struct sonde_model *m,
                                                 struct sonde_model_family *f, const char *label,
                                                 const char *value)
{
    const struct sonde_label l = { label, value };
    struct sonde_model_series *s = sonde_model_series(m, f, NULL, &l, label ? 1 : 0);
    s->created_s = 1700000000.25;
    return s;
}

/* n records of raw in the family's scale. */
static inline void record(struct sonde_model_series *s, uint64_t raw, uint64_t n)
{
    struct sonde_hist_value *h = sonde_model_hist(s);
    const uint64_t p = sonde__hist_bucket((double)raw * s->family->scale);
    if (p < SONDE__HIST_BUCKETS) {
        sonde_hist_value_add(h, (uint32_t)p, n);
    } else {
        h->zero += n;
        h->count += n;
    }
    h->sum_raw += raw * n;
    h->last_raw = raw;
}

#endif
