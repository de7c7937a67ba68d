/* scrape.h - read other exporters' /metrics: a list of targets, one thread, all at once.
 *
 * As Prometheus does it: each target has the labels job and instance; up says whether the last
 * scrape of it was good, scrape_duration_seconds how long it took, scrape_samples_scraped what it
 * had. A target that fails has no series but these. What is too much (bytes, time, series) is a
 * failure of that target, or counted as its; the others do not notice. */
#ifndef SONDE_COLLECT_INGEST_SCRAPE_H
#define SONDE_COLLECT_INGEST_SCRAPE_H

#include "base/err.h"
#include "model/model.h"

enum { SONDE_SCRAPE_TARGETS_MAX = 256, SONDE_SCRAPE_LABELS_MAX = 16 };

struct sonde_scrape_target {
    char *url;                    /* http:// or https://; owned, as all texts here */
    char *job, *instance;
    char *token_file;             /* NULL = none; read at each scrape */
    double interval_s, timeout_s;
    struct sonde_label label[SONDE_SCRAPE_LABELS_MAX];
    size_t label_count;
};

struct sonde_scrape_options {
    double interval_s, timeout_s; /* of targets that do not say */
    size_t series_max;            /* of a target */
    size_t body_max;              /* bytes of an answer, unpacked */
};

/* ---- scrape_target.c ------------------------------------------------------------------------- */

struct sonde_scrape_targets {
    struct sonde_scrape_target *at;
    size_t count;
};

/* JSON: an array of URLs, or of objects {"url", "job", "instance", "labels": {},
 * "interval_seconds", "timeout_seconds", "bearer_token_file"}. Appends. SONDE_EINVAL says which of
 * them is bad, and why. */
int sonde_scrape_targets_parse(struct sonde_scrape_targets *t, const char *json,
                               const struct sonde_scrape_options *o, struct sonde_err *err);
int sonde_scrape_targets_add(struct sonde_scrape_targets *t, const char *url,
                             const struct sonde_scrape_options *o, struct sonde_err *err);
void sonde_scrape_targets_release(struct sonde_scrape_targets *t);

/* ---- scrape.c -------------------------------------------------------------------------------- */

struct sonde_scrape;

/* Takes over the targets. m must outlive it. */
int sonde_scrape_start(struct sonde_model *m, struct sonde_scrape_targets *t,
                       const struct sonde_scrape_options *o, struct sonde_scrape **out,
                       struct sonde_err *err);
/* Under way or not; the targets' series are forgotten. NULL is fine. */
void sonde_scrape_stop(struct sonde_scrape *s);

/* What every scrape says in a header of this name: an agent then shows only what is its own, so
 * that two that scrape each other, or one itself, do not copy copies for ever. */
#define SONDE_SCRAPE_HEADER "X-Sonde-Scrape"

#endif
