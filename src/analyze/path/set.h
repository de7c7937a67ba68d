/* set.h - the paths of many requests or spans: the slowest of them, and the rest. */
#ifndef SONDE_ANALYZE_PATH_SET_H
#define SONDE_ANALYZE_PATH_SET_H

#include "analyze/path/path.h"

struct sonde_path_query {
    const char *span;          /* spans of such a name, a glob; NULL = inference requests */
    double slowest_share;      /* which are slow: such a part of all (0 … 1] … */
    uint64_t slowest;          /* … or so many; both 0 = 1 % */
};

enum {
    SONDE_PATH_SLOW_MIN = 5,       /* the slowest of few are so many, … */
    SONDE_PATH_SET_MIN = 20,       /* … if there are as many as this in all */
    SONDE_PATH_SLOW_MAX = 5000,    /* that are looked at, the slowest … */
    SONDE_PATH_REST_MAX = 20000,   /* … and of the rest, every so many */
};

/* One that was looked at. */
struct sonde_path_item {
    uint32_t index;            /* of the request or span */
    int slow;
    uint64_t from_ns, total_ns;
    uint64_t ns[SONDE_PATH_KIND_COUNT];
    uint64_t mates, mate_tokens;
    uint32_t thread;
};

/* A function or a wait that an item spent time in. */
struct sonde_path_use {
    uint32_t item;
    uint32_t kind;             /* enum sonde_path_kind of a wait; SONDE_PATH_COMPUTE: on a CPU */
    uint32_t function;         /* that computed, or that the program waits in */
    uint32_t line;             /* of it; 0 = not known, or several */
    uint64_t ns;
};

struct sonde_path_set {
    int of_spans;
    uint64_t all;              /* requests or spans that there are */
    uint64_t slow_asked;       /* slow ones as asked for, before SONDE_PATH_SLOW_MIN */
    struct sonde_path_item *items; /* owned; by begin */
    uint32_t count, slow_count;
    struct sonde_path_use *uses;   /* owned; by item */
    uint32_t use_count, use_cap;
    struct sonde_path slow, rest;  /* sums: parts, counts and details; no pieces */
    uint64_t slow_ns, rest_ns;     /* sums of latencies */
};

/* SONDE_ENOENT: there is none; err says so. SONDE_ENOMEM. Release *out after 0. */
int sonde_path_set_create(const struct sonde_path_index *x, const struct sonde_path_query *q,
                          struct sonde_path_set *out, struct sonde_err *err);
void sonde_path_set_release(struct sonde_path_set *set);

#endif
