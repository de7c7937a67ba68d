/* spans.h - figures from the spans at hand: per name, per pair of parent and child, and the
 * tree of one trace. */
#ifndef SONDE_PRESENT_TOP_SPANS_H
#define SONDE_PRESENT_TOP_SPANS_H

#include "present/top/data.h"

/* Fill d->names, d->pairs and d->spans_seconds from d->spans. 0 or SONDE_ENOMEM. */
int sonde_top_group_spans(struct sonde_top_data *d);

#define SONDE_TOP_DEPTH_MAX 64 /* deeper spans are drawn at this depth */

/* One line of a trace: which span, and how deep below the root. */
struct sonde_top_node { size_t span; int depth; };

/* d->trace in the order of a tree, parents before children, siblings by start. Spans whose
 * parent is not there, or is their own descendant, are roots: each span comes exactly once. out
 * has room for d->trace_count. 0 or SONDE_ENOMEM. */
int sonde_top_trace_tree(const struct sonde_top_data *d, struct sonde_top_node *out);

#endif
