/* rule.h - one rule = one file here and one row in rule_list.h.
 *
 * A rule looks at `struct finding_look`, which has what several rules need worked out once, and
 * adds findings:
 *
 *   struct sonde_finding *f = finding_add(l, SONDE_SEVERITY_WARNING, impact);
 *   finding_subject(l, f, name, file, line);
 *   finding_text(l, f, "%s waited for %.1f s …", …);
 *   finding_advise(l, f, "…");
 *   finding_prove(l, f, &(struct sonde_evidence){ … });
 *
 * f is never NULL and good until the next is added; what fails for lack of memory is kept in
 * l->rc. */
#ifndef SONDE_ANALYZE_FINDING_RULE_H
#define SONDE_ANALYZE_FINDING_RULE_H

#include "analyze/finding/finding.h"
#include "profile/tree/tree.h"

struct finding_rule;
struct finding_waits;

/* Functions by their own weight, of one kind of samples. */
struct finding_functions {
    struct sonde_tree *tree;     /* NULL = there are no samples */
    struct sonde_flat *rows;     /* the most first */
    size_t count;
    double seconds;              /* of all samples */
    uint64_t samples;
};

struct finding_look {
    const struct sonde_profile *p;
    struct sonde_finding_options o; /* complete */
    double seconds;              /* that the profile covers */
    double cpus;                 /* of the machine; NaN = not known */
    struct finding_functions cpu, off_cpu;
    struct finding_waits *waits; /* of waits.h; NULL = not worked out */
    struct sonde_findings *out;
    const struct finding_rule *rule; /* that looks now */
    struct sonde_finding spare;  /* what is written to when there is no memory for another */
    int rc;
};

struct finding_rule {
    const char *kind;            /* for programs: letters, digits and _ */
    const char *title;           /* for people */
    const char *summary;         /* when there is one: for help and docs */
    const char *explains;        /* kinds that are symptoms if this one is found, "a b c"; NULL */
    int (*explains_one)(const struct sonde_finding *symptom); /* only if it says 1; NULL = all */
    void (*look)(struct finding_look *l);
};

/* ---- finding.c ------------------------------------------------------------------------------- */

/* One more, of the rule that looks, with nothing known but this. confidence is 1. */
struct sonde_finding *finding_add(struct finding_look *l, enum sonde_severity severity,
                                  double impact);
void finding_subject(struct finding_look *l, struct sonde_finding *f, const char *subject,
                     const char *file, uint32_t line);
void finding_text(struct finding_look *l, struct sonde_finding *f, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void finding_advise(struct finding_look *l, struct sonde_finding *f, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Copies e; texts that are NULL are "". More than SONDE_EVIDENCE_MAX are passed over. */
void finding_prove(struct finding_look *l, struct sonde_finding *f,
                   const struct sonde_evidence *e);
/* A function of a flat table as evidence: its own weight in seconds. */
void finding_prove_function(struct finding_look *l, struct sonde_finding *f,
                            const struct sonde_flat *row, const char *what);
/* What this rule could not judge, and what would help. */
void finding_note(struct finding_look *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- look.c ---------------------------------------------------------------------------------- */

/* Fills what rules share. 0 or SONDE_ENOMEM. */
int finding_look_init(struct finding_look *l);
void finding_look_release(struct finding_look *l);

/* The ends of Wilson's 95 % interval of a share that was seen in k of n samples. */
double finding_share_low(double k, double n);
double finding_share_high(double k, double n);

/* A series over the time of the profile: the sum of all that match. */
struct finding_series {
    const char *family;          /* of profile/track.h */
    const char *label;           /* a part of the labels that it must have, `mode="steal"`; NULL */
    int host;                    /* 1: of the host or the agent; 0: of processes, all added up … */
    uint32_t pid;                /* … or of this one */
};
/* Its mean over the time that it is known in, weighted by the length of ticks; and how long that
 * is (may be NULL). Of counters this is an increase per second. NaN = it is not there. */
double finding_series_mean(const struct finding_look *l, const struct finding_series *s,
                           double *known_s);
double finding_series_max(const struct finding_look *l, const struct finding_series *s);
double finding_series_last(const struct finding_look *l, const struct finding_series *s);
/* As evidence: its mean. */
void finding_prove_series(struct finding_look *l, struct sonde_finding *f,
                          const struct finding_series *s, const char *unit, const char *what);

#endif
