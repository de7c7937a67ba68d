/* slow.h - what tells the slow from the rest: the parts of their latency, functions, waits, other
 * requests that were computed for, sizes, and where they ran.
 *
 * Each is compared by ranks (Mann and Whitney's U), so that one freak request cannot decide. Slow
 * requests come together, and so does everything else about them: the variance of U is that of the
 * labels shifted along the requests in order of time, if that is larger than what independence
 * gives. p is adjusted for all that were looked at (sonde_stats_adjust). Nothing is said of fewer
 * than SONDE_PATH_SET_MIN requests.
 *
 * Those are differences, not causes: a part of the latency that varies is longer in what is
 * slow. */
#ifndef SONDE_ANALYZE_PATH_SLOW_H
#define SONDE_ANALYZE_PATH_SLOW_H

#include "analyze/path/set.h"

/* Names are in JSON: append only. */
#define SONDE_SLOW_TYPES(X)                                                                    \
    X(PART, "part", "seconds")          /* of the latency, by kind */                          \
    X(FUNCTION, "function", "seconds")  /* on a CPU, in itself */                              \
    X(WAIT, "wait", "seconds")          /* at a place of the program */                        \
    X(SIZE, "size", "count")            /* tokens, requests */                                 \
    X(PLACE, "place", "share")          /* program, model, route, thread: share that are so */

enum sonde_slow_type {
#define SONDE__X(id, name, unit) SONDE_SLOW_##id,
    SONDE_SLOW_TYPES(SONDE__X)
#undef SONDE__X
    SONDE_SLOW_TYPE_COUNT
};
const char *sonde_slow_type_name(enum sonde_slow_type t); /* "part" */
const char *sonde_slow_type_unit(enum sonde_slow_type t); /* "seconds" */

enum { SONDE_SLOW_ROWS_MAX = 64, SONDE_SLOW_NAME = 160 };

struct sonde_slow_row {
    enum sonde_slow_type type;
    enum sonde_path_kind kind;      /* of a part or wait */
    char name[SONDE_SLOW_NAME];     /* "decode", "matmul", "prompt_tokens", "route=/v1/chat" */
    uint32_t function, line;        /* of the profile; 0 = none */
    double slow, rest;              /* means, in the unit of the type */
    double change, low, high;       /* slow - rest, and its 95 % interval; NaN = not known */
    double gap_share;               /* of a time: change by the difference of latencies; else NaN */
    double likelihood;              /* that one of the slow has more than one of the rest; ties
                                     * count half: 0.5 = no difference, 1 = always */
    double p;                       /* adjusted */
};

struct sonde_slow {
    struct sonde_slow_row *rows;    /* owned; by type, then the largest difference first */
    uint32_t count;
    uint32_t looked_at;             /* of which these were found to differ */
    const char *why_none;           /* nothing could be said, and why; NULL = it was looked */
};

/* Those that differ with adjusted p <= 0.05. 0 or SONDE_ENOMEM. Release *out after 0. */
int sonde_path_slow(const struct sonde_path_index *x, const struct sonde_path_set *set,
                    struct sonde_slow *out);
void sonde_slow_release(struct sonde_slow *slow);

#endif
