/* rule.h - rules on series, as JSON in the setting alerts.rules:
 *
 *   {"name": "memory",                      the kind of its alerts
 *    "series": "system_memory_usage_percent", a name, or a glob
 *    "labels": {"process": "llama*"},       globs, at most 4; each series is an alert of its own
 *    "function": "last",                    or avg, min, max, p50, p90, p95, p99, rate, increase
 *    "window_seconds": 60,                  that it is of; the model has a minute (60 ticks)
 *    "above": 90, "below": 10,              either or both
 *    "clear": 85,                           once it fires, the value that it has to be back at
 *    "for_seconds": 60, "keep_seconds": 30, how long it must hold, and be gone
 *    "per": {"series": …, "labels": …},     instead of a function: the increase of all series in
 *                                           the window, divided by that of these (histograms:
 *                                           records)
 *    "by": ["process"],                     with per: one quotient for each value of these labels
 *    "min_count": 20,                       with per: fewer in the divisor say nothing
 *    "severity": "critical"}                default warning
 *
 * What cannot be computed (no such series, nothing in the window, a rate of a gauge) is not a
 * value: the alert is resolved as if the condition were gone, except in the first minute of an
 * agent, which may not have seen the series yet. Series of processes that have ended have no
 * value. */
#ifndef SONDE_ALERT_RULE_H
#define SONDE_ALERT_RULE_H

#include "alert/alert_table.h"

enum { ALERT_RULES_MAX = 200, ALERT_RULE_LABELS_MAX = 4, ALERT_RULE_BY_MAX = 4,
       ALERT_RULE_GROUPS_MAX = 64 };

enum alert_function { ALERT_LAST, ALERT_AVG, ALERT_MIN, ALERT_MAX, ALERT_P50, ALERT_P90, ALERT_P95,
                      ALERT_P99, ALERT_RATE, ALERT_INCREASE, ALERT_RATIO };
const char *alert_function_name(uint32_t f);

struct alert_which {              /* series that are meant; owned */
    char *series;
    int glob;                     /* it is one */
    struct alert_labels labels;
};

struct alert_rule {
    char name[SONDE_ALERT_KIND_MAX + 1];
    struct alert_which of, per;
    char *by[ALERT_RULE_BY_MAX];
    size_t by_count;
    enum alert_function function;
    double window_s, above, below, clear; /* limits: NAN = none */
    double for_s, keep_s, count_min;
    enum sonde_severity severity;
    int shipped;
    /* Of the last look. */
    size_t matched;               /* values that there were */
    double value;                 /* the worst of them; NAN = none */
};

struct alert_rules {
    struct alert_rule *at;
    size_t count, cap;
};

void alert_rules_release(struct alert_rules *r);

/* Of those that say nothing. */
struct alert_rule_defaults { double for_s, keep_s; };

/* An array of rules, added. SONDE_EINVAL: which rule and which member. */
int alert_rules_parse(struct alert_rules *r, const char *json, const struct alert_rule_defaults *d,
                      struct sonde_err *err);
/* Those of seed-like resource alerts, rule_shipped.c. */
int alert_rules_ship(struct alert_rules *r, const struct sonde_alert_shipped *s,
                     const struct alert_rule_defaults *d, struct sonde_err *err);

/* NULL = there is none. */
const struct alert_rule *alert_rules_find(const struct alert_rules *r, const char *name);

/* 1 = the condition holds for v; firing: it did before, so that it has to be back at clear. */
int alert_rule_holds(const struct alert_rule *r, double v, int firing);

/* All rules on m as it is now, told to t. Under the model's lock for reading. */
void alert_rules_look(struct alert_rules *r, const struct sonde_model *m, struct alert_table *t,
                      uint64_t round, double now_s);

#endif
