/* cpu_steal.c - time in which the hypervisor ran another machine on CPUs that this one needed. What
 * a neighbour takes for some seconds is worth knowing, when times are read; worth moving a machine
 * is only what lasts. */
#include <math.h>

#include "analyze/finding/cpu_share.h"
#include "analyze/finding/rule.h"

#define KNOWN_MIN_S 2.0
#define STEAL_INFO 0.05      /* of the time that CPUs were wanted */
#define STEAL_WARNING 0.15
#define LASTS_MIN_S 20.0
#define USED_MIN 0.2         /* CPUs: a program that hardly runs does not suffer */

static void steal_look(struct finding_look *l)
{
    const struct finding_series all = { .family = "sonde_host_cpu_all_seconds_total", .host = 1 };
    const struct finding_series steal = { .family = "sonde_host_cpu_all_seconds_total",
                                          .label = "mode=\"steal\"", .host = 1 };
    const struct finding_series idle = { .family = "sonde_host_cpu_all_seconds_total",
                                         .label = "mode=\"idle\"", .host = 1 };
    const struct finding_series iowait = { .family = "sonde_host_cpu_all_seconds_total",
                                           .label = "mode=\"iowait\"", .host = 1 };
    struct finding_cpu_share c;
    double known_s = 0;
    const double stolen = finding_series_mean(l, &steal, &known_s);
    const double wanted = finding_series_mean(l, &all, NULL) -
                          fmax(0, finding_series_mean(l, &idle, NULL)) -
                          fmax(0, finding_series_mean(l, &iowait, NULL));
    finding_cpu_share(l, &c);
    if (!(stolen > 0) || !(wanted > 0) || known_s < KNOWN_MIN_S || !(c.used >= USED_MIN)) return;
    const double share = fmin(1, stolen / wanted);
    if (share < STEAL_INFO) return;
    struct sonde_finding *f = finding_add(
        l, share >= STEAL_WARNING && known_s >= LASTS_MIN_S ? SONDE_SEVERITY_WARNING
                                                            : SONDE_SEVERITY_INFO, share);
    finding_subject(l, f, "host", "", 0);
    f->share = share;
    f->seconds = stolen * known_s;
    f->gain = share;
    f->gain_of = "CPU time";
    f->confidence = 0.9;
    finding_text(l, f,
                 "the hypervisor ran other machines for %.0f %% of the time that this one wanted "
                 "CPUs (%.2f of %.0f CPUs)",
                 100 * share, stolen, l->cpus);
    finding_advise(l, f,
                   "move the machine to a host with free CPUs, or give it dedicated ones; nothing "
                   "in the program can be changed about this, and its times are up to %.0f %% "
                   "longer than its own",
                   100 * share / fmax(1 - share, 0.01));
    finding_prove_series(l, f, &steal, "CPUs", "stolen");
    finding_prove_series(l, f, &finding_series_cpu, "CPUs", "CPU time per time");
}

extern const struct finding_rule finding_rule_cpu_steal;
const struct finding_rule finding_rule_cpu_steal = {
    .kind = "cpu_steal",
    .title = "CPUs stolen by the hypervisor",
    .summary = "other virtual machines had 5 % or more of the CPU time that this one wanted; a "
               "warning from 15 % on that last 20 seconds",
    .look = steal_look,
};
