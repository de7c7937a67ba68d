/* power.c - see power.h. */
#include "analyze/power.h"

#include <assert.h>
#include <math.h>

struct sonde_power sonde_power_of(const struct sonde_estimate e[2], const size_t n[2])
{
    assert(n[0] && n[1]);
    struct sonde_power p = { .before = e[0].value, .spread = NAN, .n = { n[0], n[1] } };
    double squares = 0, df = 0;
    for (int i = 0; i < 2; i++) {
        if (n[i] < 2) continue;
        const double se = fmax(e[i].se_low, e[i].se_high);
        squares += (double)(n[i] - 1) * se * se * (double)n[i];
        df += (double)(n[i] - 1);
    }
    if (df > 0 && isfinite(squares)) p.spread = sqrt(squares / df);
    return p;
}

double sonde_power_smallest(const struct sonde_power *p, const size_t more[2], double level,
                            double chance)
{
    assert(level > 0 && level < 1 && chance >= 0.5 && chance < 1);
    const double a = (double)(p->n[0] + more[0]), b = (double)(p->n[1] + more[1]);
    const double df = a + b - 2;
    if (isnan(p->spread) || !(p->before > 0) || df < 1) return NAN;
    const double t = sonde_t_quantile(1 - level / 2, df) + sonde_t_quantile(chance, df);
    return t * p->spread * sqrt(1 / a + 1 / b) / p->before;
}

size_t sonde_power_more(const struct sonde_power *p, double relative, double level, double chance,
                        int each)
{
    assert(relative > 0);
    /* It only gets smaller with more runs: bisect. */
    size_t low = 0, high = SONDE_POWER_MORE_MAX;
    const size_t most[2] = { each ? high : 0, high }, none[2] = { 0, 0 };
    const double now = sonde_power_smallest(p, none, level, chance);
    if (now <= relative) return 0;
    if (!(sonde_power_smallest(p, most, level, chance) <= relative)) return SONDE_POWER_NEVER;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        const size_t more[2] = { each ? middle : 0, middle };
        if (sonde_power_smallest(p, more, level, chance) <= relative) high = middle;
        else low = middle;
    }
    return high;
}
