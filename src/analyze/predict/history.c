/* history.c - see history.h. */
#include "analyze/predict/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

#define NEAR_RATE 0.1
#define NEAR_TOKENS 0.15

void sonde_predictions_release(struct sonde_predictions *p)
{
    sonde__free(p->list);
    *p = (struct sonde_predictions){ 0 };
}

int sonde_predictions_add(struct sonde_predictions *p, const struct sonde_prediction *one)
{
    if (p->count == SONDE_PREDICTIONS_MAX) {
        p->count--;
        memmove(p->list, p->list + 1, p->count * sizeof(*p->list));
    }
    const struct sonde_prediction copy = *one; /* it may be one of the list */
    struct sonde_prediction *to = SONDE_ARRAY_ADD(p->list, p->count, p->cap);
    if (!to) return SONDE_ENOMEM;
    *to = copy;
    return 0;
}

static int prediction_near(double a, double b, double ratio)
{
    return fabs(a - b) <= ratio * fmax(fabs(a), fabs(b));
}

int sonde_prediction_matches(const struct sonde_prediction *p, const struct sonde_prediction *m)
{
    return !strcmp(p->host, m->host) && !strcmp(p->model, m->model) &&
           !strcmp(p->program, m->program) && p->recorded_s != m->recorded_s &&
           (!p->slots || !m->slots || p->slots == m->slots) &&
           (!p->batch_tokens || !m->batch_tokens || p->batch_tokens == m->batch_tokens) &&
           prediction_near(p->rate, m->rate, NEAR_RATE) &&
           prediction_near(p->tokens_in, m->tokens_in, NEAR_TOKENS) &&
           prediction_near(p->tokens_out, m->tokens_out, NEAR_TOKENS);
}

int sonde_predictions_check(struct sonde_predictions *p, const struct sonde_prediction *m,
                            double now_s, uint32_t *checked)
{
    const uint32_t count = p->count;
    *checked = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!sonde_prediction_matches(&p->list[i], m)) continue;
        int had = 0;
        for (uint32_t k = 0; k < p->count && !had; k++) {
            had = p->list[k].id == p->list[i].id && p->list[k].checked_s > 0 &&
                  p->list[k].checked_recorded_s == m->recorded_s;
        }
        if (had) continue;
        struct sonde_prediction one = p->list[i];
        one.checked_s = now_s;
        one.checked_recorded_s = m->recorded_s;
        one.checked_rate = m->rate;
        for (int f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
            one.measured[f] = m->figures[f].value;
        }
        ++*checked;
        if (p->list[i].checked_s > 0) {
            /* Not over the limit: then places would move under our feet. */
            if (p->count < SONDE_PREDICTIONS_MAX && sonde_predictions_add(p, &one)) {
                return SONDE_ENOMEM;
            }
        } else {
            p->list[i] = one;
        }
    }
    return 0;
}

void sonde_predictions_errors(const struct sonde_predictions *p, const char *host,
                              const char *model, enum sonde_predict_figure f,
                              struct sonde_prediction_errors *out)
{
    double off[SONDE_PREDICTIONS_MAX];
    *out = (struct sonde_prediction_errors){ .median = NAN, .worst = NAN };
    for (uint32_t i = 0; i < p->count; i++) {
        const struct sonde_prediction *one = &p->list[i];
        const double seen = one->measured[f], said = one->figures[f].value;
        if (!(one->checked_s > 0) || strcmp(one->host, host) != 0 ||
            strcmp(one->model, model) != 0 || !(seen > 0) || isnan(said)) {
            continue;
        }
        off[out->count++] = fabs(said / seen - 1);
        out->inside += seen >= one->figures[f].low && seen <= one->figures[f].high;
    }
    if (!out->count) return;
    qsort(off, out->count, sizeof(off[0]), sonde_cmp_double);
    out->median = off[(out->count - 1) / 2];
    out->worst = off[out->count - 1];
}
