/* data.h - what `sonde top` shows, read from the JSON of serve/api/api.h. The same whether it
 * came over HTTP or from a collector in this process, and checked alike: nothing is assumed
 * about its shape, sizes or strings. */
#ifndef SONDE_PRESENT_TOP_DATA_H
#define SONDE_PRESENT_TOP_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "present/report/requests.h"

#define SONDE_TOP_HISTORY 60      /* points of a sparkline */
#define SONDE_TOP_SERIES_MAX 1000 /* asked for, and kept */
#define SONDE_TOP_SPANS_MAX 5000
#define SONDE_TOP_PROCESSES_MAX 10000
#define SONDE_TOP_MODELS_MAX 256
#define SONDE_TOP_ROUTES_MAX 1024
#define SONDE_TOP_REQUESTS_MAX 200  /* asked for */
#define SONDE_TOP_FINDINGS_MAX 64

struct json_t;

/* Figures that are not known are NaN, texts that are not known "". Strings live in the JSON that
 * the data holds on to. */
struct sonde_top_process {
    uint32_t pid;
    const char *program, *state;
    double cpu_ratio, rss_bytes, threads, series, segment_bytes, drops, spans_seen, spans_lost;
    double spans_per_s;  /* since the reading before */
};

struct sonde_top_series {
    const char *name, *type, *unit, *process, *trend;
    char *labels;        /* owned: `{a="b"}` without process and pid; "" = none */
    uint32_t pid;        /* 0 = the host or the agent */
    double value, rate, avg, min, max, p50, p95, p99;
    double *history;     /* owned; oldest first */
    size_t history_count;
};

struct sonde_top_span {
    const char *name, *program, *trace_id, *span_id, *parent_id, *outcome;
    char *attributes;    /* owned: `key=value key=value`; "" = none */
    uint32_t pid, tid;
    double start, duration_s;
};

/* Figures of one span name, or of one pair "parent > child", within the spans at hand. */
struct sonde_top_group {
    const char *name, *parent;   /* parent NULL: not a pair */
    size_t count, errors;
    double rate, p50, p95, p99, max;
};

struct sonde_top_host {
    double cpu_ratio, memory_available, memory_total, load1, load5, load15;
    double net_in, net_out;      /* bytes a second */
    double disk_ratio;           /* used part of the root file system */
    double uptime_s;
    double cost_ratio, cost_low, cost_high; /* of sonde: share of the programs' time */
    double cpu_history[SONDE_TOP_HISTORY];
    size_t cpu_history_count;
};

/* Inference over the last window: figures of one model in one process … */
struct sonde_top_model {
    uint32_t pid;
    const char *process, *model, *backend;
    double running, waiting, prefill_per_s, decode_per_s, output_per_s, hit_ratio;
    double kv_used, kv_total, memory_peak;
    size_t memory_count;
    struct { const char *kind; double bytes; } memory[SONDE_INFER_MEMORY_KINDS];
};

/* … and of one route of it. */
struct sonde_top_stat { double count, total, p50, p95, p99; };
struct sonde_top_route {
    uint32_t pid;
    const char *process, *model, *route;
    double per_s, failed, cancelled, lost, slo_met, slo_missed, user_per_s;
    struct sonde_top_stat duration, ttft, itl;
    double phase_s[SONDE_PHASE_COUNT];   /* in all; 0 = none */
};

struct sonde_top_inference {
    double window_s, invalid;            /* events that were not used */
    struct sonde_top_model *models;
    size_t model_count;
    struct sonde_top_route *routes;
    size_t route_count;
    struct sonde_requests requests;
};

/* What engines tell of their insides, since they began. */
#define SONDE_TOP_ENGINE_MAX 16
struct sonde_top_device {
    uint32_t pid;
    const char *device;
    double operations, seconds, share, fallbacks;
};
struct sonde_top_pool {
    uint32_t pid;
    const char *pool;
    double capacity, failures, external, internal; /* fragmentation: 0 … 1 */
};
struct sonde_top_tokenizer {
    uint32_t pid;
    const char *tokenizer;
    double tokens_per_s, hit_ratio, merges_per_token;
};
struct sonde_top_engine {
    struct sonde_top_device devices[SONDE_TOP_ENGINE_MAX];
    struct sonde_top_pool pools[SONDE_TOP_ENGINE_MAX];
    struct sonde_top_tokenizer tokenizers[SONDE_TOP_ENGINE_MAX];
    size_t device_count, pool_count, tokenizer_count;
};

/* What is wrong now: causes, the weightiest first, as the agent's last look had them. */
struct sonde_top_finding {
    const char *title, *severity, *subject, *file, *text, *advice, *gain_of;
    uint32_t line;
    double impact, gain;         /* 0 … 1 */
    double since_s;              /* unix time */
    size_t symptoms;             /* that it explains */
};
struct sonde_top_findings {
    int known;                   /* 0: nobody looks for findings where the data is from */
    double looked_s;             /* unix time of the last look; 0 = there was none yet */
    struct sonde_top_finding rows[SONDE_TOP_FINDINGS_MAX];
    size_t count;
};

/* GPUs, and processes that use them. */
#define SONDE_TOP_GPUS_MAX 128
#define SONDE_TOP_GPU_PROCESSES_MAX 256
struct sonde_top_gpu {
    double gpu, mig;             /* numbers; mig NaN = a card */
    const char *name, *state;    /* "ok", "lost", "gone" */
    double utilization, used, total, celsius, watts, watts_max, hertz, sm;
    double power, thermal, hardware; /* reasons of lowered clocks: shares of the time */
};
struct sonde_top_gpu_process {
    double gpu, mig;
    uint32_t pid;
    const char *program;
    double memory, utilization;
};
struct sonde_top_gpus {
    int enabled;
    const char *broken;          /* why a source does not read; "" = all do; NULL = not asked */
    struct sonde_top_gpu devices[SONDE_TOP_GPUS_MAX];
    struct sonde_top_gpu_process processes[SONDE_TOP_GPU_PROCESSES_MAX];
    size_t device_count, process_count;
};

struct sonde_top_data {
    double time_s;               /* unix time of the agent; 0 = nothing read yet */
    struct sonde_top_host host;
    struct sonde_top_process *processes;
    size_t process_count;
    struct sonde_top_series *series;
    size_t series_count;
    size_t series_total;         /* that matched; more than series_count when cut */
    struct sonde_top_span *spans; /* newest first */
    size_t span_count;
    double spans_from_s;         /* set before reading them: asked for all since then, unix time;
                                    0 = for the newest */
    double spans_seconds;        /* the time they cover */
    struct sonde_top_group *names, *pairs; /* most frequent first */
    size_t name_count, pair_count;
    struct sonde_top_span *trace; /* spans of the chosen trace, by start */
    size_t trace_count;
    struct sonde_top_inference inference;
    struct sonde_top_engine engine;
    struct sonde_top_findings findings;
    struct sonde_top_gpus gpus;
    struct json_t *json[8];      /* owned */
    size_t json_count;
};

void sonde_top_data_init(struct sonde_top_data *d);
void sonde_top_data_release(struct sonde_top_data *d);

/* Each reads one answer into d, once per d if nothing else is said. SONDE_EFORMAT with what is
 * wrong; SONDE_ENOMEM. */
int sonde_top_read_processes(struct sonde_top_data *d, const char *text, size_t len,
                             struct sonde_err *err);
/* May be given several answers, each with some of the host's series. */
int sonde_top_read_host(struct sonde_top_data *d, const char *text, size_t len,
                        struct sonde_err *err);
int sonde_top_read_series(struct sonde_top_data *d, const char *text, size_t len,
                          struct sonde_err *err);
int sonde_top_read_spans(struct sonde_top_data *d, const char *text, size_t len,
                         struct sonde_err *err);
int sonde_top_read_trace(struct sonde_top_data *d, const char *text, size_t len,
                         struct sonde_err *err);
int sonde_top_read_infer(struct sonde_top_data *d, const char *text, size_t len,
                         struct sonde_err *err);
int sonde_top_read_engine(struct sonde_top_data *d, const char *text, size_t len,
                          struct sonde_err *err);
int sonde_top_read_gpu(struct sonde_top_data *d, const char *text, size_t len,
                       struct sonde_err *err);
int sonde_top_read_findings(struct sonde_top_data *d, const char *text, size_t len,
                            struct sonde_err *err);
int sonde_top_read_requests(struct sonde_top_data *d, const char *text, size_t len,
                            struct sonde_err *err);

/* What has to be remembered of processes from one reading to the next. */
struct sonde_top_memory {
    double time_s;               /* 0 = nothing yet */
    struct sonde_top_remembered { uint32_t pid; double spans_seen; } *processes; /* owned */
    size_t count;
};

/* Fill spans_per_s from what was remembered, and remember d. 0 or SONDE_ENOMEM. */
int sonde_top_data_rates(struct sonde_top_data *d, struct sonde_top_memory *m);
void sonde_top_memory_release(struct sonde_top_memory *m);

#endif
