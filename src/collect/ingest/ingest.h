/* ingest.h - series that others recorded: what is scraped from their /metrics, and what they send
 * as OTLP. They become series of the model like our own, with labels that say where they are from,
 * and so are shown, asked for, stored and exported alike.
 *
 * What is different:
 *
 *  - Others count in doubles: `real` of a series (model.h).
 *  - A name that is taken by another type becomes exported_<name>, so that nothing of theirs can
 *    be in the way of ours, or spoil what we export.
 *  - Labels are put in the order of their names, and those that we add win: one of theirs of the
 *    same name becomes exported_<label>, as Prometheus does it.
 *  - A source has a limit of series; what is over it is counted. A series that its source says
 *    nothing of any more is forgotten.
 *
 * Classic histograms and summaries stay what they are, a counter for each bucket: between two of
 * their bounds nobody knows where a value was, so they cannot become ours without inventing it.
 *
 * All calls need the model's write lock, but create and destroy, which take it. */
#ifndef SONDE_COLLECT_INGEST_INGEST_H
#define SONDE_COLLECT_INGEST_INGEST_H

#include "model/exposition.h"
#include "model/model.h"

#define SONDE_INGEST_LABELS_MAX 48      /* of a series, ours included */
#define SONDE_INGEST_TEXT_MAX 16384u    /* bytes of a series' labels */

struct sonde_ingest;

struct sonde_ingest_options {
    const struct sonde_label *labels; /* added to each series; copied */
    size_t label_count;
    size_t series_max;
    double stale_s;                   /* forget what was not heard of for so long; 0 = rounds
                                       * only */
};

int sonde_ingest_create(struct sonde_model *m, const struct sonde_ingest_options *o,
                        struct sonde_ingest **out);
/* Its series are forgotten. NULL is fine. */
void sonde_ingest_destroy(struct sonde_ingest *f);

/* Buckets as in struct sonde_hist_value. */
struct sonde_ingest_hist {
    uint64_t zero;
    double sum;
    const struct sonde_hist_bucket64 { uint32_t p; uint64_t n; } *bucket;
    size_t bucket_count;
};

struct sonde_ingest_point {
    const char *name;                 /* of the series: with _total, _bucket … */
    const char *help, *unit;          /* NULL = none */
    const char *source;               /* "scrape", "otlp" */
    enum sonde_type type;
    enum sonde_shown shown;
    size_t stem;                      /* of parts: bytes of name that are the histogram's */
    const struct sonde_label *labels; /* any order; empty values are left out */
    size_t label_count;
    double value;                     /* of counters and gauges */
    const struct sonde_ingest_hist *hist;
    int delta;                        /* is to be added to what there was */
    uint64_t start_ns;                /* unix; when a total began at zero; 0 = not known. A total
                                         whose start is another than before began again */
    uint64_t time_ns;                 /* unix; when it was so; 0 = now. What is older than the last
                                         is refused, and a delta of the same time too: it came
                                         twice */
    double now_s;                     /* unix */
};

/* 0; SONDE_EFULL: over series_max or the model's limit; SONDE_EEXIST: the series is somebody
 * else's, or was said already (in this round, or with a later time), or its name is taken;
 * SONDE_EINVAL: labels that cannot be (too many, too long, one twice); SONDE_ENOMEM. */
int sonde_ingest_put(struct sonde_ingest *f, const struct sonde_ingest_point *p);

/* Forget one series: of p its name and labels count. */
void sonde_ingest_drop(struct sonde_ingest *f, const struct sonde_ingest_point *p);

/* A round in which every series is said once begins; after it, forget those that were not. */
void sonde_ingest_begin(struct sonde_ingest *f);
void sonde_ingest_end(struct sonde_ingest *f);

size_t sonde_ingest_count(const struct sonde_ingest *f);

/* Forget what is stale, of all sources of a model. The collector calls it each tick. */
void sonde_ingest_tick(struct sonde_model *m, double now_s);

/* 1 if it may be the name of a label. */
int sonde_ingest_label_ok(const char *name);

/* What a sample of a page is in the model. 0 = it is no series of its own (x_created). name and
 * labels of point are s's. */
int sonde_ingest_exposition(const struct sonde_exposition_sample *s,
                            struct sonde_ingest_point *point);

#endif
