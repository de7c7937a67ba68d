/* own_cost.c - sonde itself takes much of the program's time, as measured by switching its sampling
 * off and on (analyze/own_cost.h). */
#include <math.h>

#include "analyze/finding/rule.h"

#define INFO_RATIO 0.02
#define WARNING_RATIO 0.05

static void finding_own_cost_look(struct finding_look *l)
{
    const struct sonde_profile *p = l->p;
    if (!p->cost.pairs || !(p->cost.low >= INFO_RATIO)) return;
    struct sonde_finding *f = finding_add(
        l, p->cost.low >= WARNING_RATIO ? SONDE_SEVERITY_WARNING : SONDE_SEVERITY_INFO,
        fmax(0, fmin(1, p->cost.ratio)));
    finding_subject(l, f, "sonde", "", 0);
    f->share = p->cost.ratio;
    f->count = (double)p->cost.pairs;
    f->gain = fmax(0, fmin(1, p->cost.ratio));
    f->gain_of = "time of the program";
    finding_text(l, f,
                 "sampling takes %.1f %% of the program's time (%.1f … %.1f %%, %u pairs of "
                 "windows with and without it)",
                 100 * p->cost.ratio, 100 * p->cost.low, 100 * p->cost.high,
                 p->cost.pairs);
    if (p->rate_hz > 0) {
        finding_advise(l, f,
                       "sample less often: %.0f instead of %.0f samples per second "
                       "(cpu.sample_rate_hz, continuous.rate_hz) would cost about 1 %%",
                       fmax(1, floor(p->rate_hz * 0.01 / p->cost.ratio)), p->rate_hz);
    } else {
        finding_advise(l, f, "sample less often: cpu.sample_rate_hz, continuous.rate_hz");
    }
    finding_prove_series(l, f, &(struct finding_series){ .family = "sonde_cost_ratio", .host = 1 },
                         "ratio", "cost");
}

extern const struct finding_rule finding_rule_own_cost;
const struct finding_rule finding_rule_own_cost = {
    .kind = "own_cost",
    .title = "Cost of sonde",
    .summary = "sampling takes 2 % or more of the program's time, by the lower end of its "
               "interval; a warning from 5 % on",
    .look = finding_own_cost_look,
};
