/* flame.h - flame graphs for pages that draw them (GET /api/flamegraph): whose samples are asked
 * for, where they come from, and the tree that is made of them.
 *
 *   source    a profile of a time that continuous profiling has seen, one that is kept, heaps now
 *   choice    of it what is of a phase, of requests, of a model or route, or of all others
 *   tree      samples by function; whole, unless there are millions of stacks. Of two the
 *             difference
 *   view      recursion folded, the leaf first, a part of it at full resolution, cut to some frames
 *
 * All but the last are kept for a while (recent.h): whoever zooms in or looks at it in another way
 * asks again for the same.
 *
 * Which requests. A request, cells of a heat map and the slowest are chosen among those that
 * arrived in the range, and have all of their samples, also those of later. A phase, model or route
 * chooses among the samples of the range. */
#ifndef SONDE_SERVE_API_FLAME_H
#define SONDE_SERVE_API_FLAME_H

#include "present/report/requests.h"
#include "profile/select/select.h"
#include "profile/tree/tree.h"
#include "base/recent.h"
#include "serve/http/route.h"

enum {
    SONDE_API_FLAME_NODES_DEFAULT = 8000,
    SONDE_API_FLAME_NODES_MAX = 100000,
    SONDE_API_FLAME_NOTES = 8,
};

/* Whose samples. Texts are the request's; NULL = any. */
struct sonde_api_flame_side {
    const char *profile;       /* one that is kept; NULL = what follows */
    int live;                  /* heaps as they are now */
    double from_s, to_s;       /* unix time; of a kept one 0 = open */
    int no_range;              /* it was not asked for one */
    const char *process;       /* glob */
    uint32_t pid;              /* 0 = all */
    const char *thread, *span; /* as struct sonde_profile_filter */
    const char *phase, *request, *slowest; /* as struct sonde_select */
    const char *model, *route; /* globs */
    enum sonde_request_metric metric; /* of requests; NONE = any */
    double min, max;           /* min <= it < max; max 0 = open */
    int workers, rest;
};

struct sonde_api_flame_query {
    struct sonde_api_flame_side side, base;
    int has_base;              /* side is compared with base */
    int kind;                  /* enum sonde_sample_kind; -1 = the first that there is */
    int fold, invert;
    char *focus_text;          /* owned; names point into it … */
    const char **focus;        /* … owned: the way from the root to what is looked at */
    size_t focus_count;
    uint32_t nodes;
    int functions;             /* with their table */
    int empty;                 /* an answer without frames where there is nothing, not an error */
};

/* 1, or the error is in answer. Release in any case. */
int sonde_api_flame_read(const struct sonde_http_request *r, struct sonde_response *answer,
                         struct sonde_api_flame_query *out);
void sonde_api_flame_release(struct sonde_api_flame_query *q);

/* Things of recent.h. */

/* What is asked for, once it has been chosen. */
struct sonde_api_flame_source {
    struct sonde_profile *profile;
    int lent;                  /* it is somebody's who sees to it; else its own */
    char label[140];           /* what it is of */
    uint32_t kinds;            /* 1 << SONDE_SAMPLE_… that there is something of, before choosing */
    uint64_t from_ns, to_ns;   /* that it covers */
    int chosen;                /* found is set */
    struct sonde_selected found;
    char notes[SONDE_API_FLAME_NOTES][300]; /* for people: what is missing, and what to do */
    size_t note_count;
};

struct sonde_api_flame_tree {
    struct sonde_tree *tree;
    struct sonde_recent_thing *of, *base_of; /* what it was made of */
    const struct sonde_api_flame_source *source, *base; /* in the end; base NULL = no difference */
    uint64_t base_samples;
};

int sonde_api_flame_source(const struct sonde_http_request *r,
                           const struct sonde_api_flame_query *q,
                           const struct sonde_api_flame_side *side,
                           struct sonde_recent_thing **out, struct sonde_err *err);
int sonde_api_flame_tree(const struct sonde_http_request *r, const struct sonde_api_flame_query *q,
                         struct sonde_recent_thing **out, struct sonde_err *err);

/* Which samples of the source are meant: by kind, thread and span, and those of a kept profile by
 * time. */
struct sonde_profile_filter sonde_api_flame_filter(const struct sonde_api_flame_query *q,
                                                   const struct sonde_api_flame_side *side);

#endif
