/* export_name.h - what a family is called, and how it is described, in the Prometheus family of
 * formats. The same in all of them, so that a scrape that negotiates another format tomorrow
 * continues the same series.
 *
 *  - A counter ends in _total; what the program left out is appended.
 *  - No two families may yield the same sample name. A histogram h owns h_bucket, h_sum, h_count
 *    and h_created; another family of such a name gets _value appended. A counter x keeps its
 *    name when a family x_total exists.
 *  - OpenMetrics names a counter family without _total, which may be taken too (a gauge x beside
 *    a counter x_total). Then the counter is shown there as type unknown: its samples keep
 *    their name. Rejected: renaming one of them, since Prometheus 2 asks for OpenMetrics first
 *    and both names are fine in every other format.
 *  - What came from elsewhere (collect/ingest/ingest.h) keeps the names that it had there. A
 *    counter without _total is of type unknown in OpenMetrics then. Parts of a histogram or a
 *    summary are shown as what they are of, under one head.
 */
#ifndef SONDE_MODEL_EXPORT_NAME_H
#define SONDE_MODEL_EXPORT_NAME_H

#include "base/buf.h"
#include "model/model.h"

struct sonde_export_name {
    char text[512];    /* of samples, without _bucket, _sum, _count */
    size_t len;
    size_t stem;       /* bytes of text without a counter's _total; len for others */
    int unknown;       /* OpenMetrics cannot call this counter one */
    int no_created;    /* OpenMetrics: the name of its _created sample is taken */
};

void sonde_export_name(const struct sonde_model *m, const struct sonde_model_family *f,
                       struct sonde_export_name *out);

/* Of a family that is a part of somebody's histogram or summary: all that there are, in the order
 * of their names. */
enum { SONDE_EXPORT_PARTS = 4 };
enum { SONDE_PART_PLAIN, SONDE_PART_BUCKET, SONDE_PART_COUNT, SONDE_PART_SUM };
struct sonde_export_group {
    const struct sonde_model_family *part[SONDE_EXPORT_PARTS]; /* NULL = it has none */
    struct sonde_export_name name;                             /* of the whole */
};
/* 1 if f is the first of them that the filter lets through (NULL = all); 0: another one is, or
 * there is no name left to show them by. */
int sonde_export_group(const struct sonde_model *m, const struct sonde_model_family *f,
                       const struct sonde_filter *filter, struct sonde_export_group *out);

/* 1 if the family's unit is the last word of its stem: only then may a format state it. */
int sonde_export_has_unit(const struct sonde_model_family *f, const struct sonde_export_name *n);

/* The help text, unescaped; made from the name when there is none ("App requests."). */
void sonde_export_help(const struct sonde_model_family *f, struct sonde_buf *out);

/* 1 if s has a label `le`, which a histogram's buckets need for themselves. Such a label is
 * shown as exported_le. */
int sonde_export_has_le(const struct sonde_model_series *s);

/* Processes whose pid and program a later one has too, since pids are used again: both would be
 * shown under the same labels, so the earlier ones' series are left out. */
struct sonde_export_twins {
    const struct sonde_model_process **hidden; /* owned; mostly none */
    size_t count;
};
int sonde_export_twins_init(const struct sonde_model *m, struct sonde_export_twins *t);
void sonde_export_twins_release(struct sonde_export_twins *t);

static inline int sonde_export_hidden(const struct sonde_export_twins *t,
                                      const struct sonde_model_series *s)
{
    for (size_t i = 0; i < t->count; i++) {
        if (t->hidden[i] == s->process) return 1;
    }
    return 0;
}

#endif
