/* perf_outer.h - what lies beyond the copy of a stack that comes with a sample.
 *
 * The kernel copies 64 KB at most, and frames may be larger: then main and its callers are not in
 * it. Their words are read from the process's memory when the sample is looked at, some
 * milliseconds later. A thread's outer frames hardly ever change in that time, but they may, so
 * nothing is taken on trust:
 *
 *  - a return address must be behind a call, and, where the call says whom it calls, of that very
 *    function (collect/aspace/call.c);
 *  - all of them together must lead to the thread's start, or none counts;
 *  - each word is remembered by thread, function and address. What was believed before stands in
 *    when the word is another call's by now, or when thread or process are gone. A frame that is
 *    seen to have now one caller and now another, either of which could be, is believed no more
 *    until it has kept one for a while: which of them it was when the sample came cannot be told.
 *    So that this is noticed in time, the first samples wait until a frame has been seen some times
 *    (perf_parked.h).
 *
 * Rejected: stopping the thread to read its stack, which changes what it does; a larger copy, which
 * perf events do not have; and scanning what was read for return addresses, which finds those of
 * calls that returned long ago. */
#ifndef SONDE_COLLECT_CPU_PERF_OUTER_H
#define SONDE_COLLECT_CPU_PERF_OUTER_H

#include "collect/aspace/aspace.h"
#include "collect/uprobe/returns.h"

/* Why words could not be had. */
enum sonde_perf_outer_why {
    SONDE_PERF_OUTER_NOTHING,
    SONDE_PERF_OUTER_GONE,     /* thread or process have ended */
    SONDE_PERF_OUTER_DENIED,   /* its memory may not be read */
    SONDE_PERF_OUTER_CHANGED,  /* something else is there by now, or it keeps changing */
    SONDE_PERF_OUTER_HIDDEN,   /* a probe hides it, and nothing is known of that call */
    SONDE_PERF_OUTER_EARLY     /* not seen often enough: ask again later, or with final */
};

struct sonde_perf_words;       /* of one thread: what was seen beyond its copies */
struct sonde_perf_outer;

int sonde_perf_outer_create(struct sonde_uprobe_returns *returns, /* borrowed; NULL = no probes */
                            struct sonde_perf_outer **out);
void sonde_perf_outer_destroy(struct sonde_perf_outer *o);

/* The next stack is of this thread, at time_ns (CLOCK_MONOTONIC). final: what was seen but once
 * must do, since there will be no later. words: where it is remembered,
 * NULL at first. What to pass to sonde_aspace_unwind_outer. */
const struct sonde_aspace_outer *sonde_perf_outer_begin(struct sonde_perf_outer *o,
                                                        struct sonde_aspace *as, uint32_t pid,
                                                        uint32_t tid, uint64_t time_ns, int final,
                                                        struct sonde_perf_words **words);

/* Why the walk that was just made did not get on. */
enum sonde_perf_outer_why sonde_perf_outer_why(const struct sonde_perf_outer *o);

/* For a process that the thread has forked, whose stack is the same. NULL: no memory, or
 * nothing. */
struct sonde_perf_words *sonde_perf_words_copy(const struct sonde_perf_words *of);
void sonde_perf_words_free(struct sonde_perf_words *w); /* before its outer; NULL is fine */

#endif
