/* spin_wait.h - CPU time that is spent waiting, for other rules. */
#ifndef SONDE_ANALYZE_FINDING_SPIN_WAIT_H
#define SONDE_ANALYZE_FINDING_SPIN_WAIT_H

struct finding_look;

/* Its share of all CPU time. */
double finding_spin_share(struct finding_look *l);

#endif
