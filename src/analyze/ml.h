/* ml.h - what programs recorded of machine learning (sonde/ml.h, and sonde.ml in Python): models
 * loaded, inference by batch size, training by epoch, step and phase, datasets, preprocessing,
 * tasks of workers and what they said to each other. One way for a live agent (the series and
 * recent spans of its model) and for a recording (series at its end, spans with attributes,
 * tracks).
 *
 * Totals and percentiles are of series, since each program began, and exact; epochs are the spans
 * `ml.epoch` that are still known, which in a recording are all of its time and in an agent the
 * newest. Processes of one program are added up. What is not known is NaN. */
#ifndef SONDE_ANALYZE_ML_H
#define SONDE_ANALYZE_ML_H

#include <stddef.h>
#include <stdint.h>

#include "profile/final.h"

struct sonde_model;
struct sonde_profile;

struct sonde_ml_time {               /* seconds of something that was done `count` times */
    uint64_t count;                  /* 0: the rest is NaN, but for the sum */
    double sum_s, mean_s, min_s, p50_s, p90_s, p95_s, p99_s, max_s;
};

/* A gauge over time, as often as the agent looked; times ascend. */
struct sonde_ml_history {
    double *time_s, *value;          /* unix time; as many each */
    uint32_t count, cap, cap_value;
};

/* ---- Models and inference -------------------------------------------------------------------- */

struct sonde_ml_model {
    const char *program, *model;
    struct sonde_ml_time load, init;
    double bytes;
};

struct sonde_ml_batch {              /* inferences of one batch size */
    const char *label;               /* as it was recorded: "32" */
    uint64_t size;                   /* 0 = it is not a number */
    struct sonde_ml_time time;
    double items_per_s;              /* while such a batch was computed */
};

struct sonde_ml_inference {
    const char *program, *model;
    struct sonde_ml_time time;       /* of all batch sizes */
    uint64_t items;
    double items_per_s;              /* while it inferred; per second of time is rate */
    double rate;                     /* batches per second since the program began */
    struct sonde_ml_batch *batches;  /* ascending size */
    uint32_t batch_count, batch_cap;
};

/* ---- Training -------------------------------------------------------------------------------- */

struct sonde_ml_value {
    const char *name;                /* "train_loss" … */
    double value;
};

struct sonde_ml_epoch {
    int64_t epoch;                   /* as the program counts them; INT64_MIN = it did not say */
    double start_s, duration_s;      /* start: unix time */
    uint64_t samples;
    double samples_per_s;
    uint32_t outcome;                /* enum sonde_outcome */
    uint32_t pid;
    /* Steps of it: spans `ml.step` inside. The first is apart: it waits for what has to be started
     * (workers, caches, compilation), and would be hidden in the mean. */
    uint64_t steps;                  /* known ones; 0: the next are NaN */
    double first_step_s, later_step_mean_s;
    struct sonde_ml_value *values;   /* as they were recorded with it */
    uint32_t value_count, value_cap;
};

struct sonde_ml_phase {
    const char *phase;               /* data_wait, transfer, forward, backward, optimizer … */
    struct sonde_ml_time time;
    double share;                    /* of the time of all phases of that model */
};

struct sonde_ml_latest {             /* the newest value of a name, and how it went */
    const char *name;
    double value;
    struct sonde_ml_history history; /* empty if none was kept */
};

struct sonde_ml_training {
    const char *program, *model;
    struct sonde_ml_time epoch, step, first_step; /* first_step: of each epoch; part of step */
    uint64_t samples, steps;
    double samples_per_s;            /* of the time in epochs, or in steps if there are none */
    double epoch_now;                /* the newest epoch number */
    double phase_seconds;            /* of all phases */
    struct sonde_ml_phase *phases;   /* in the order of a step, others after, most time first */
    struct sonde_ml_epoch *epochs;   /* by start; fewer than epoch.count if some are forgotten */
    struct sonde_ml_latest *latest;  /* by name */
    const char **curve_names;        /* names of values that any of the epochs has, known ones
                                        (train_loss, val_loss, train_acc, …) first */
    uint32_t phase_count, epoch_count, latest_count, curve_count;
    uint32_t phase_cap, epoch_cap, latest_cap, curve_cap;
};

/* What the epoch recorded under that name; NaN = nothing. */
double sonde_ml_epoch_value(const struct sonde_ml_epoch *e, const char *name);

/* ---- Data ------------------------------------------------------------------------------------ */

struct sonde_ml_dataset {
    const char *program, *dataset;
    const char *format;              /* "" = not told, or several: the most loads */
    struct sonde_ml_time load;
    double bytes;
    uint64_t items;
    double bytes_per_s, items_per_s; /* while it was loaded; NaN if nothing was */
    /* Of loops over it: waiting for an item, working on it, and the first wait of each pass, which
     * is one of the waits. wait_share: of both. */
    struct sonde_ml_time wait, use, first_wait;
    double wait_share;
};

struct sonde_ml_preprocess {
    const char *program, *operation;
    struct sonde_ml_time time;
};

/* ---- Workers --------------------------------------------------------------------------------- */

struct sonde_ml_task {               /* tasks of one name of one worker */
    const char *program, *task, *worker;
    struct sonde_ml_time time;
    uint64_t failed;                 /* all outcomes but ok */
};

struct sonde_ml_communication {
    const char *program, *operation, *worker;
    struct sonde_ml_time time;
    double bytes, bytes_per_s;
};

struct sonde_ml_worker {
    const char *program, *worker;
    uint64_t tasks, failed;
    double task_seconds, communication_seconds, communication_bytes;
    double utilization;              /* 0 … 1, the newest; NaN = it told none */
    double memory_bytes, memory_peak_bytes, active_tasks;
    struct sonde_ml_history utilizations;
};

/* ---- All of it ------------------------------------------------------------------------------- */

struct sonde_ml {
    struct sonde_ml_model *models;               /* most time first */
    struct sonde_ml_inference *inferences;       /* most time first */
    struct sonde_ml_training *trainings;         /* most time first */
    struct sonde_ml_dataset *datasets;           /* most time first */
    struct sonde_ml_preprocess *preprocesses;    /* most time first */
    struct sonde_ml_task *tasks;                 /* most time first */
    struct sonde_ml_communication *communications; /* most time first */
    struct sonde_ml_worker *workers;             /* by name */
    uint32_t model_count, inference_count, training_count, dataset_count, preprocess_count,
        task_count, communication_count, worker_count;
    uint32_t model_cap, inference_cap, training_cap, dataset_cap, preprocess_cap, task_cap,
        communication_cap, worker_cap;
    int several;                                 /* programs: say whose each is */
};

/* Of a recording; texts are borrowed from it. *out is NULL if there is nothing to say. 0 or
 * SONDE_ENOMEM. */
int sonde_ml_of_profile(const struct sonde_profile *p, struct sonde_ml **out);
/* The same of a part of it, unix time, 0 = open: of its series in that time (final_tracks.h), and
 * epochs that ended in it. */
struct sonde_final;
int sonde_ml_of_part(const struct sonde_profile *p, const struct sonde_final *final,
                     uint64_t from_ns, uint64_t to_ns, struct sonde_ml **out);
/* Of what m knows now (read lock, asserted, until it is destroyed). */
int sonde_ml_of_model(const struct sonde_model *m, struct sonde_ml **out);
void sonde_ml_destroy(struct sonde_ml *ml); /* NULL is fine */

#endif
