/* callgrind.h - a call graph with costs, and the stacks that are made of it. */
#ifndef SONDE_PROFILE_FORMATS_CALLGRIND_H
#define SONDE_PROFILE_FORMATS_CALLGRIND_H

#include "base/intern.h"
#include "profile/format.h"

struct sonde_callgrind_node {
    uint64_t self;
    uint64_t calls;       /* cost of all calls from it */
    uint32_t location;
    uint32_t first_call;  /* + 1; 0 = it calls nothing */
    int called, on_path;
    uint32_t stack, depth; /* of the first that was made for it; 0 = none yet */
    unsigned __int128 given, dealt; /* to its stacks by the walk; of that, made samples of */
    uint64_t sampled;     /* of self, that its samples have */
};

struct sonde_callgrind_edge {
    uint64_t cost;        /* inclusive */
    uint32_t from, to;
    uint32_t next;        /* of the same caller, + 1 */
};

struct sonde_callgrind {
    struct sonde_callgrind_node *nodes;
    uint32_t node_count, node_cap;
    struct sonde_callgrind_edge *edges;
    uint32_t edge_count, edge_cap;
    struct sonde_map by_location, by_ends; /* of nodes and edges, id + 1 */
    size_t bytes, bytes_max;
    uint64_t total;       /* of self */
};

void sonde_callgrind_init(struct sonde_callgrind *g, size_t bytes_max);
void sonde_callgrind_release(struct sonde_callgrind *g);

/* 0, SONDE_ENOMEM, or SONDE_EFORMAT: costs add up to too much. */
int sonde_callgrind_function(struct sonde_callgrind *g, uint32_t location, uint32_t *out);
int sonde_callgrind_self(struct sonde_callgrind *g, uint32_t node, uint64_t cost);
int sonde_callgrind_call(struct sonde_callgrind *g, uint32_t from, uint32_t to, uint64_t cost);

/* Samples for all of it, as kind SONDE_SAMPLE_OTHER. */
int sonde_callgrind_stacks(struct sonde_callgrind *g, struct sonde_profile *p,
                           struct sonde_import *how, struct sonde_err *err);

#endif
