/* cpu_share.h - what a program has of the machine's CPUs: what it uses, what it could use, and how
 * long its threads wait for one. Shared by the rules on scheduling. */
#ifndef SONDE_ANALYZE_FINDING_CPU_SHARE_H
#define SONDE_ANALYZE_FINDING_CPU_SHARE_H

#include "analyze/finding/rule.h"

struct finding_cpu_share {
    double cpus;        /* that it may use: of the machine, or fewer by affinity; NaN = not known */
    double used;        /* CPU time per time, of all its processes; NaN = not known */
    double delayed;     /* threads that could run but do not, on average; NaN = not known */
    double known_s;     /* time that the last two are known for */
    double quota;       /* CPUs that its cgroup may use; NaN = as many as there are */
    double processes;   /* in cgroups with a quota, on average over the time that is known */
    double involuntary, voluntary; /* context switches per second; NaN = not known */
    const char *program; /* the one that uses the most; "" = not known */
};

void finding_cpu_share(const struct finding_look *l, struct finding_cpu_share *out);

extern const struct finding_series finding_series_cpu, finding_series_run_delay;

#endif
