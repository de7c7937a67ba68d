/* plot_data.h - what pictures are drawn of: series of values, each with a role that says what they
 * are. One shape for recordings (plot_gather.h), results of benchmarks and data files of others
 * (docs/plot.md), so that a kind of picture knows nothing of where its data came from. */
#ifndef SONDE_ANALYZE_PLOT_DATA_H
#define SONDE_ANALYZE_PLOT_DATA_H

#include <stddef.h>
#include <stdint.h>

#define SONDE_PLOT_SERIES_MAX 4096u
#define SONDE_PLOT_VALUES_MAX 5000000u  /* of all series */
#define SONDE_PLOT_VALUE_MAX 1e300      /* what is beyond counts as infinite */
#define SONDE_PLOT_NAME_MAX 128
#define SONDE_PLOT_SPANS " (spans)" /* behind the name of a latency that was gathered from spans */

/* id, name in files, unit of y if nothing else is said, whether x is a time. */
#define SONDE_PLOT_ROLES(X)                                                                    \
    X(EPOCH, "epoch", "", 0)                                                                   \
    X(LATENCY, "latency", "s", 1)                                                              \
    X(BATCH, "batch", "s", 0)                                                                  \
    X(RATE, "rate", "1/s", 1)                                                                  \
    X(PHASE, "phase", "s", 0)                                                                  \
    X(WORKER, "worker", "share", 1)                                                            \
    X(LOAD, "load", "s", 0)                                                                    \
    X(BYTES, "bytes", "bytes", 0)                                                              \
    X(HITS, "hits", "", 1)                                                                     \
    X(MISSES, "misses", "", 1)                                                                 \
    X(MEMORY, "memory", "bytes", 1)                                                            \
    X(FIGURE, "figure", "", 0)                                                                 \
    X(SCALING, "scaling", "1/s", 0)

enum sonde_plot_role {
#define SONDE__X(id, name, unit, timed) SONDE_ROLE_##id,
    SONDE_PLOT_ROLES(SONDE__X)
#undef SONDE__X
    SONDE_ROLE_COUNT
};
const char *sonde_plot_role_name(enum sonde_plot_role r);
const char *sonde_plot_role_unit(enum sonde_plot_role r);
int sonde_plot_role_find(const char *name); /* or -1 */
/* The static text of a unit that charts know; NULL = it is none. */
const char *sonde_plot_unit_find(const char *unit);

struct sonde_plot_value {
    double x, y;             /* x is NaN: it has none; y is NaN: it was not measured; infinite: it
                                was, and is no number */
    double low, high;        /* 95 % interval of y; NaN = not known */
    double weight;           /* how many observations it stands for */
    uint32_t failed;         /* it did not succeed: heat maps tell */
};

struct sonde_plot_series {
    enum sonde_plot_role role;
    char name[SONDE_PLOT_NAME_MAX];
    char group[SONDE_PLOT_NAME_MAX];  /* model, program or run; "" = there is one */
    const char *unit;                 /* static, of y */
    int better;                       /* of a figure: -1 less is, 1 more is, 0 neither */
    double sum;                       /* of y by weight, where values are the middles of buckets and
                                         it is known better; NaN = as they add up */
    struct sonde_plot_value *values;  /* owned */
    size_t count, cap;
};

struct sonde_plot_data {
    char kind[32];           /* what a file asks to be drawn as; "" = nothing */
    char title[200], note[400];
    struct sonde_plot_series *series; /* owned */
    size_t count, cap;
    size_t values;           /* of all */
    size_t left_out;         /* for which there was no room */
};

void sonde_plot_data_release(struct sonde_plot_data *d);
/* There is no room for another series. */
int sonde_plot_data_full(const struct sonde_plot_data *d);
/* Series whose name matches the pattern (fnmatch) stay. */
void sonde_plot_data_keep(struct sonde_plot_data *d, const char *glob);

/* A new series; texts are copied, made valid UTF-8 and cut. NULL: no memory, or too many. Valid
 * until the next. */
struct sonde_plot_series *sonde_plot_series_add(struct sonde_plot_data *d,
                                                enum sonde_plot_role role, const char *group,
                                                const char *name);
/* One more value; what is beyond SONDE_PLOT_VALUES_MAX is counted. 0 or SONDE_ENOMEM. */
int sonde_plot_value_add(struct sonde_plot_data *d, struct sonde_plot_series *s,
                         const struct sonde_plot_value *v);
/* The same of x and y alone; x may be NaN. */
int sonde_plot_xy_add(struct sonde_plot_data *d, struct sonde_plot_series *s, double x, double y);

/* ---- What series say ------------------------------------------------------------------------- */

/* Those values that are numbers and weigh something, by y. Free with sonde__free; NULL with *count
 * 0: there are none, or no memory. */
struct sonde_plot_value *sonde_plot_sorted(const struct sonde_plot_series *s, size_t *count);
/* Quantile q of what _sorted returned: the value that at least q of all weigh up to; NaN if there
 * are none. */
double sonde_plot_quantile(const struct sonde_plot_value *sorted, size_t count, double q);
double sonde_plot_weight(const struct sonde_plot_series *s);    /* of those that are numbers */
double sonde_plot_sum(const struct sonde_plot_series *s);       /* of y by weight, alike */
size_t sonde_plot_not_finite(const struct sonde_plot_series *s); /* values that are no numbers */
int sonde_plot_has_x(const struct sonde_plot_series *s);        /* any of them */

#endif
