/* gpu_throttling.c - a GPU whose clocks are lowered by its power limit or by its board. A card at
 * full load is often at its power limit: that is worth knowing, and worth acting on where it is
 * most of the time. */
#include <math.h>

#include "analyze/finding/gpus.h"

#define INFO_RATIO 0.10
#define WARNING_RATIO 0.50
#define KNOWN_MIN_S 1.0

static void gpu_throttling_add(struct finding_look *l, const struct finding_gpu *g, double share,
                               int board)
{
    char label[4][64];
    const struct finding_series power = finding_gpu_series(g, "sonde_gpu_power_watts", NULL,
                                                           label[0]),
                                limit = finding_gpu_series(g, "sonde_gpu_power_limit_watts", NULL,
                                                           label[1]),
                                clock = finding_gpu_series(g, "sonde_gpu_clock_hertz",
                                                           "domain=\"graphics\"", label[2]),
                                most = finding_gpu_series(g, "sonde_gpu_clock_max_hertz",
                                                          "domain=\"graphics\"", label[3]);
    const double watts = finding_series_mean(l, &power, NULL),
                 watts_max = finding_series_last(l, &limit),
                 lost = 1 - finding_series_mean(l, &clock, NULL) / finding_series_last(l, &most);
    struct sonde_finding *f = finding_add(
        l, share >= WARNING_RATIO ? SONDE_SEVERITY_WARNING : SONDE_SEVERITY_INFO, share);
    finding_subject(l, f, g->subject, "", 0);
    f->share = share;
    if (lost > 0 && lost < 1) {
        f->gain = lost;
        f->gain_of = "clock of the GPU";
    }
    finding_text(l, f, "clocks of %s were lowered in %.0f %% of the time by %s", g->subject,
                 100 * share, board ? "its board (power brake or voltage)" : "its power limit");
    if (board) {
        finding_advise(l, f,
                       "look at the power supply and its connectors, and at the temperature of the "
                       "rack: a board brakes on its own where those are at their limits");
    } else if (watts > 0 && watts_max > 0) {
        finding_advise(l, f,
                       "it draws %.0f of %.0f W: raise the limit if cooling and supply permit "
                       "(nvidia-smi -pl, rocm-smi --setpoweroverdrive), or judge the server by "
                       "tokens per joule",
                       watts, watts_max);
    } else {
        finding_advise(l, f, "raise its power limit if cooling and supply permit");
    }
    if (!isnan(watts)) finding_prove_series(l, f, &power, "watts", "power drawn");
    if (!isnan(lost)) finding_prove_series(l, f, &clock, "hertz", "graphics clock");
}

static void gpu_throttling_look(struct finding_look *l)
{
    struct finding_gpu gpu[FINDING_GPUS_MAX];
    const size_t count = finding_gpus(l, gpu);
    for (size_t i = 0; i < count; i++) {
        char label[2][64];
        const struct finding_series power = finding_gpu_series(&gpu[i], "sonde_gpu_throttled_ratio",
                                                               "reason=\"power\"", label[0]),
                                    board = finding_gpu_series(&gpu[i], "sonde_gpu_throttled_ratio",
                                                               "reason=\"hardware\"", label[1]);
        double known_s = 0;
        const double by_power = finding_series_mean(l, &power, &known_s),
                     by_board = finding_series_mean(l, &board, NULL);
        if (known_s < KNOWN_MIN_S) continue;
        if (by_board >= INFO_RATIO) gpu_throttling_add(l, &gpu[i], by_board, 1);
        else if (by_power >= INFO_RATIO) gpu_throttling_add(l, &gpu[i], by_power, 0);
    }
}

extern const struct finding_rule finding_rule_gpu_throttling;
const struct finding_rule finding_rule_gpu_throttling = {
    .kind = "gpu_throttling",
    .title = "GPU clocks are lowered",
    .summary = "the power limit or the board of a GPU lowers its clocks in 10 % of the time or "
               "more; a warning from 50 % on",
    .explains = "low_throughput",
    .look = gpu_throttling_look,
};
