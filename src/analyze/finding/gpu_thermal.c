/* gpu_thermal.c - a GPU that is so hot that its clocks are lowered, or is about to be. */
#include <math.h>

#include "analyze/finding/gpus.h"

#define WARNING_RATIO 0.02
#define CRITICAL_RATIO 0.30
#define NEAR_CELSIUS 3.0
#define KNOWN_MIN_S 1.0

static void gpu_thermal_add(struct finding_look *l, const struct finding_gpu *g, double share,
                            double celsius, double limit)
{
    char label[64];
    const struct finding_series heat = finding_gpu_series(g, "sonde_gpu_temperature_celsius",
                                                          "sensor=\"core\"", label);
    const int slowed = share >= WARNING_RATIO;
    struct sonde_finding *f = finding_add(l, !slowed                   ? SONDE_SEVERITY_INFO
                                             : share >= CRITICAL_RATIO ? SONDE_SEVERITY_CRITICAL
                                                                       : SONDE_SEVERITY_WARNING,
                                          slowed ? share : 0.01);
    finding_subject(l, f, g->subject, "", 0);
    if (slowed) {
        f->share = share;
        finding_text(l, f, "clocks of %s were lowered in %.0f %% of the time since it was too hot "
                           "(%.0f °C)", g->subject, 100 * share, celsius);
    } else {
        finding_text(l, f, "%s was at %.0f °C, and lowers its clocks at %.0f °C", g->subject,
                     celsius, limit);
    }
    finding_advise(l, f, "look at fans, dust and the air that it gets; a lower power limit keeps "
                         "clocks steady where cooling cannot be better (nvidia-smi -pl, rocm-smi "
                         "--setpoweroverdrive)");
    if (!isnan(celsius)) finding_prove_series(l, f, &heat, "celsius", "temperature, on average");
}

static void gpu_thermal_look(struct finding_look *l)
{
    struct finding_gpu gpu[FINDING_GPUS_MAX];
    const size_t count = finding_gpus(l, gpu);
    for (size_t i = 0; i < count; i++) {
        char label[3][64];
        const struct finding_series slowed = finding_gpu_series(
            &gpu[i], "sonde_gpu_throttled_ratio", "reason=\"thermal\"", label[0]);
        const struct finding_series heat = finding_gpu_series(
            &gpu[i], "sonde_gpu_temperature_celsius", "sensor=\"core\"", label[1]);
        const struct finding_series most = finding_gpu_series(
            &gpu[i], "sonde_gpu_temperature_limit_celsius", NULL, label[2]);
        double slowed_s = 0, heat_s = 0;
        const double share = finding_series_mean(l, &slowed, &slowed_s),
                     mean = finding_series_mean(l, &heat, &heat_s),
                     celsius = finding_series_max(l, &heat), limit = finding_series_last(l, &most);
        const int hot = heat_s >= KNOWN_MIN_S && limit > 0 && mean >= limit - NEAR_CELSIUS;
        if ((slowed_s >= KNOWN_MIN_S && share >= WARNING_RATIO) || hot) {
            gpu_thermal_add(l, &gpu[i], share, celsius, limit);
        }
    }
}

extern const struct finding_rule finding_rule_gpu_thermal;
const struct finding_rule finding_rule_gpu_thermal = {
    .kind = "gpu_thermal",
    .title = "GPU is hot",
    .summary = "a GPU lowers its clocks since it is too hot, in 2 % of the time or more (critical "
               "from 30 % on), or is within 3 °C of that",
    .explains = "gpu_throttling low_throughput",
    .look = gpu_thermal_look,
};
