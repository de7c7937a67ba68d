/* history_summary.h - what parts of the history (history.h) are about.
 *
 * A row of the store says when a part is of and how large it is; what took the time is in the
 * profile itself. So that is looked at once and kept in the summaries: parts do not change, they
 * are replaced. */
#ifndef SONDE_STORE_HISTORY_SUMMARY_H
#define SONDE_STORE_HISTORY_SUMMARY_H

#include "store/history.h"

struct sonde_history_summary {
    uint64_t id;
    double end_s;              /* with it, tells a part from a later one of the same number */
    size_t bytes;
    uint64_t cpu_ns, alloc_bytes, live_bytes;
    double ratio;              /* of the top function; 0 = there is none */
    char top[120];             /* what took most of the CPU itself; of heaps, what is in use */
};

struct sonde_history_summaries;
/* 0 or SONDE_ENOMEM. */
int sonde_history_summaries_create(struct sonde_history_summaries **out);
void sonde_history_summaries_destroy(struct sonde_history_summaries *s); /* NULL is fine */

/* 0, or SONDE_E…: it is gone meanwhile, or cannot be read. s NULL: it is looked at anew. Any
 * thread. */
int sonde_history_summary(struct sonde_history_summaries *s, const struct sonde_store_ops *ops,
                          struct sonde_store *store, const struct sonde_history_part *part,
                          struct sonde_history_summary *out);

#endif
