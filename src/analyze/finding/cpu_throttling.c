/* cpu_throttling.c - a cgroup whose CPU quota is used up: all threads stand still until the next
 * period, whatever they were doing. */
#include <math.h>

#include "analyze/finding/cpu_share.h"
#include "analyze/finding/rule.h"

#define KNOWN_MIN_S 1.0
#define PERIODS_INFO 0.02     /* share of periods in which the quota was used up */
#define PERIODS_WARNING 0.10
#define STOPPED_WARNING 0.05  /* share of the time it wanted to run */
#define STOPPED_CRITICAL 0.50

static void throttling_look(struct finding_look *l)
{
    const struct finding_series periods = { .family = "sonde_process_cgroup_periods_total" };
    const struct finding_series throttled = {
        .family = "sonde_process_cgroup_throttled_periods_total" };
    const struct finding_series stopped = {
        .family = "sonde_process_cgroup_throttled_seconds_total" };
    struct finding_cpu_share c;
    double known_s = 0;
    const double all = finding_series_mean(l, &periods, &known_s);
    const double full = finding_series_mean(l, &throttled, NULL);
    const double seconds = finding_series_mean(l, &stopped, NULL);
    if (!(all > 0) || known_s < KNOWN_MIN_S || isnan(full) || isnan(seconds)) return;
    finding_cpu_share(l, &c);
    const double share_full = fmin(1, full / all);
    /* Processes of one cgroup each have its figures. */
    const double stop = seconds / fmax(1, c.processes), used = isnan(c.used) ? 0 : c.used;
    const double share = stop > 0 ? stop / (stop + used) : 0;
    if (share_full < PERIODS_INFO || !(stop > 0)) return;
    const enum sonde_severity severity =
        share_full < PERIODS_WARNING || share < STOPPED_WARNING ? SONDE_SEVERITY_INFO
        : share >= STOPPED_CRITICAL                             ? SONDE_SEVERITY_CRITICAL
                                                                : SONDE_SEVERITY_WARNING;
    struct sonde_finding *f = finding_add(l, severity, share);
    finding_subject(l, f, c.program, "", 0);
    f->share = share;
    f->seconds = stop * known_s;
    f->gain = share;
    f->gain_of = "time it wants to run";
    finding_text(l, f,
                 "the cgroup may use %.2f CPUs, and used them up in %.0f %% of its periods: "
                 "threads stood still for %.0f %% of the time they wanted to run",
                 c.quota, 100 * share_full, 100 * share);
    finding_advise(l, f,
                   "raise the quota from %.2f to at least %.2f CPUs (cgroup v2: cpu.max, "
                   "Kubernetes: limits.cpu, Docker: --cpus), or use no more than %.0f thread%s "
                   "that compute%s: a quota that several threads use up early stops all of them "
                   "until the period ends",
                   c.quota, c.quota + stop, fmax(1, floor(c.quota)), c.quota >= 2 ? "s" : "",
                   c.quota >= 2 ? "" : "s");
    finding_prove_series(l, f, &throttled, "per second", "periods with the quota used up");
    finding_prove_series(l, f, &stopped, "ratio", "time stopped, of all CPUs");
    finding_prove_series(l, f, &finding_series_cpu, "CPUs", "CPU time per time");
}

extern const struct finding_rule finding_rule_cpu_throttling;
const struct finding_rule finding_rule_cpu_throttling = {
    .kind = "cpu_throttling",
    .title = "CPU quota",
    .summary = "the CPU quota of the cgroup is used up in 10 % of its periods or more, and threads "
               "stand still",
    .explains = "oversubscription spin_wait lock_contention queueing slow_first_token "
                "low_throughput",
    .look = throttling_look,
};
