/* requests.h - inference requests (profile/infer.h) for people and programs: which ones, in which
 * order, as JSON and back, as a bar, as a list, and one with all that is known of it. The same for
 * those of a run file, of an agent's answer and of a model in this process. */
#ifndef SONDE_PRESENT_REPORT_REQUESTS_H
#define SONDE_PRESENT_REPORT_REQUESTS_H

#include "base/buf.h"
#include "base/err.h"
#include "present/grid.h"
#include "present/table.h"
#include "profile/infer.h"

/* ---- Which ---------------------------------------------------------------------------------- */

#define SONDE_REQUESTS_SORTS(X)                                                                \
    X(SLOWEST, "slowest")  /* longest in all first */                                          \
    X(NEWEST, "newest")    /* arrived last */                                                  \
    X(TTFT, "ttft")        /* waited longest for the first token */                            \
    X(ITL, "itl")          /* longest mean time between tokens */                              \
    X(QUEUE, "queue")      /* waited longest to be served */                                   \
    X(TOKENS, "tokens")    /* most tokens out */                                               \
    X(OLDEST, "oldest")    /* arrived first */

enum sonde_requests_sort {
#define SONDE__X(id, name) SONDE_REQUESTS_##id,
    SONDE_REQUESTS_SORTS(SONDE__X)
#undef SONDE__X
    SONDE_REQUESTS_SORT_COUNT
};
extern const char *const sonde_requests_sorts[]; /* NULL-terminated */
#define SONDE_REQUESTS_SORT_NAMES "slowest|newest|ttft|itl|queue|tokens|oldest"
int sonde_requests_sort_find(const char *name);  /* or -1 */

/* What a request is measured by, and in which unit. */
#define SONDE_REQUEST_METRICS(X)                                                               \
    X(TTFT, "ttft", "s")                                                                       \
    X(ITL, "itl", "s")                     /* the mean of its gaps between tokens */           \
    X(TOTAL, "total", "s")                                                                     \
    X(QUEUE, "queue", "s")                                                                     \
    X(TOKENS_PER_S, "tokens_per_s", "tokens/s")

enum sonde_request_metric {
    SONDE_METRIC_NONE,
#define SONDE__X(id, name, unit) SONDE_METRIC_##id,
    SONDE_REQUEST_METRICS(SONDE__X)
#undef SONDE__X
    SONDE_METRIC_COUNT
};
#define SONDE_REQUEST_METRIC_NAMES "ttft|itl|total|queue|tokens_per_s"
int sonde_request_metric_find(const char *name);        /* or -1 */
const char *sonde_request_metric_name(enum sonde_request_metric metric);
const char *sonde_request_metric_unit(enum sonde_request_metric metric);
/* 1 if r has ended and it is known: *out is set. */
int sonde_request_metric(const struct sonde_infer_request *r, enum sonde_request_metric metric,
                         double *out);

enum sonde_requests_state { SONDE_REQUESTS_ALL, SONDE_REQUESTS_RUNNING, SONDE_REQUESTS_DONE };

struct sonde_requests_query {
    enum sonde_requests_sort sort;
    enum sonde_requests_state state;
    size_t limit;                /* 0 = 100 */
    const char *model, *route;   /* globs; NULL = any */
    const char *process;         /* program, a glob; NULL = any */
    int outcome, source;         /* -1 = any. outcome: of those that ended */
    uint32_t pid;                /* 0 = any */
    uint64_t trace_hi, trace_lo; /* 0 0 = any */
    double min_s;                /* took at least this long */
    double from_s, to_s;         /* arrived from … on, before to_s, to the microsecond; 0 = open */
    enum sonde_request_metric metric; /* not NONE: it is known, and min <= it < max; max 0 = open */
    double metric_min, metric_max;
    int no_timeline;             /* timelines are left out: null */
};

int sonde_request_passes(const struct sonde_requests_query *q,
                         const struct sonde_infer_request *r);

/* Below 0 if x comes before y in that order; looks at no text. */
int sonde_requests_compare(enum sonde_requests_sort by, const struct sonde_infer_request *x,
                           const struct sonde_infer_request *y);

/* Those of list that pass, in order, at most q->limit of them, to the front of list. Returns how
 * many; *total (may be NULL) is how many passed. */
size_t sonde_requests_select(const struct sonde_requests_query *q,
                             const struct sonde_infer_request **list, size_t count,
                             size_t *total);

/* text is the engine's own id of it, its number as 16 hexadecimal digits, or the id of its trace,
 * of which there may be several (base/trace_id.h). */
int sonde_request_is(const struct sonde_infer_request *r, const char *text);

/* What to call it: the engine's own id, else its number. */
#define SONDE_REQUEST_NAME 48
const char *sonde_request_name(const struct sonde_infer_request *r, char out[SONDE_REQUEST_NAME]);

/* ---- JSON ----------------------------------------------------------------------------------- */

/* One request as an element or value; times are seconds, those of the timeline since arrival:
 * {"id","own_id","state","outcome","error","invalid","source","pid","program","model","route",
 *  "backend","trace_id","arrived","total_s","ttft_s","tokens_max","tokens_in","tokens_reused",
 *  "tokens_out","tokens_per_s","hit_ratio","efficiency","memory_bytes","batches","slo","profile",
 *  "phases":{"queue":{"seconds","count","derived"}},"itl":{"count","mean_s","min_s","p50_s",
 *  "p95_s","p99_s","max_s"},"attributes":{},"timeline":[{"name","start_s","end_s","busy_s",
 *  "tokens","count","batch"}]}
 * What is not known is null; a timeline that was not kept too. */
void sonde_request_json(struct sonde_buf *out, const struct sonde_infer_request *r);

/* The member "memory" of a model: {"weights":{"bytes","peak"}}. */
void sonde_infer_memory_json(struct sonde_buf *out, const struct sonde_infer_model *m);
/* Members that /api/inference has of a model, live or recorded: "kv":{"used","total","peak"},
 * "memory","memory_peak_bytes","load_s","batches","batch_requests_mean","batch_tokens_mean". */
void sonde_infer_model_json(struct sonde_buf *out, const struct sonde_infer_model *m);

struct json_t;

/* What was read from JSON. */
struct sonde_requests {
    struct sonde_infer_request *list;  /* owned */
    size_t count, total;               /* total: that passed, when not all were asked for */
    double time_s;                     /* unix time of the answer; 0 = not known */
    struct json_t *json;               /* owned: texts are in it */
};
#define SONDE_REQUESTS_MAX 100000

/* {"time","total","requests":[…]}, or one request alone. Nothing is assumed about what it holds:
 * figures that are not there or cannot be are 0. SONDE_EFORMAT with what is wrong; SONDE_ENOMEM. */
int sonde_requests_read(const char *text, size_t len, struct sonde_requests *out,
                        struct sonde_err *err);
void sonde_requests_release(struct sonde_requests *r);

/* ---- A bar ---------------------------------------------------------------------------------- */

/* What a request mostly did in the time of one cell. */
enum sonde_bar {
    SONDE_BAR_NONE, SONDE_BAR_WAIT, SONDE_BAR_PREFILL, SONDE_BAR_DECODE, SONDE_BAR_TOKEN,
    SONDE_BAR_OTHER, SONDE_BAR_FIRST, SONDE_BAR_KINDS
};

/* Fills cells[0 … count) with enum sonde_bar; count cells are scale_s seconds since its arrival.
 * TOKEN: tokens came out while it waited or decoded. FIRST: up to the first token, where no
 * timeline was kept. */
void sonde_request_bar(const struct sonde_infer_request *r, double scale_s, unsigned char *cells,
                       int count);

/* How a cell looks, and what it means ("waits", …; NULL for NONE). */
const char *sonde_bar_glyph(enum sonde_bar cell, int ascii);
unsigned sonde_bar_style(enum sonde_bar cell);
const char *sonde_bar_name(enum sonde_bar cell);

/* Draws one at (x, y). */
void sonde_request_draw_bar(const struct sonde_infer_request *r, double scale_s,
                            struct sonde_grid *g, int x, int y, int cells);

/* ---- A list --------------------------------------------------------------------------------- */

/* A table of them, for sonde_top_draw_list: its arg is the list itself. */
struct sonde_requests_list {
    const struct sonde_infer_request **items;
    size_t count;
    double scale_s;              /* of bars: the longest */
    struct sonde_table table;    /* owned */
    uint64_t *ids;               /* owned: of rows */
};
int sonde_requests_list_init(struct sonde_requests_list *l,
                             const struct sonde_infer_request **items, size_t count, int ascii);
void sonde_requests_list_release(struct sonde_requests_list *l);
unsigned sonde_requests_list_style(const void *list, size_t row, size_t column);
int sonde_requests_list_fill(const void *list, size_t row, size_t column, struct sonde_grid *g,
                             int x, int y, int cells);
/* Of a way to sort: the column whose title is marked; -1 = none. */
int sonde_requests_list_column(enum sonde_requests_sort sort);

/* ---- As text -------------------------------------------------------------------------------- */

struct sonde_requests_style { int width, ascii, colour; };

#define SONDE_REQUESTS_TEXT_MAX 1000 /* rows of a list */

/* The list with its legend; and one request with its phases, gaps and timeline. 0 or
 * SONDE_ENOMEM. */
int sonde_requests_text(const struct sonde_infer_request **items, size_t count,
                        enum sonde_requests_sort sort, const struct sonde_requests_style *style,
                        struct sonde_buf *out);
int sonde_request_text(const struct sonde_infer_request *r,
                       const struct sonde_requests_style *style, struct sonde_buf *out);

#endif
