/* lock_rank.h - every lock of the agent, outermost first: who holds one may take those below it.
 *
 * A new lock is one row, at the place where it may be held; several objects of a kind share theirs.
 * Most are leaves: nothing is taken under them, and where they stand among each other does not
 * matter. docs/design/guarantees.md has what is not of one lock alone, and the locks in a user's
 * process, which are not pthread's and have no row here. */
#ifndef SONDE_BASE_LOCK_RANK_H
#define SONDE_BASE_LOCK_RANK_H

#define SONDE_LOCK_RANKS(X)                                                                    \
    /* Of a command */                                                                         \
    X(TOP_FEED, "what `sonde top` shows next")                                                 \
    X(PROGRESS, "the line that tells how far a command is")                                    \
    X(LOAD, "the source of a load's requests, and which of its threads have ended")            \
    X(BENCH_TEAM, "threads of a benchmark that begin and end a pass together")                 \
    /* Of HTTP, leaves: a look at a list or a number */                                        \
    X(SERVER, "how many slow requests are being answered")                                     \
    X(CONNECTIONS, "connections that are waited for")                                          \
    X(TOKEN, "wrong tokens of late")                                                           \
    X(RATE, "requests of each client")                                                         \
    X(RECENT, "what was worked out lately; nothing is made or destroyed under it")             \
    X(SUMMARIES, "what parts of the history are about, remembered")                            \
    /* Of profiles; these take the model's lock, and ask engines */                            \
    X(FINDING_WATCH, "what was found at the last look")                                        \
    X(SESSIONS, "the list of sessions")                                                        \
    X(CONTINUOUS, "settings and figures of continuous profiling")                              \
    X(HEAP_PROFILER, "which processes' heaps are watched; also while a profile is made")       \
    X(PROFILER_POOL, "captures, and the engines they share; samples from one to the other")    \
    X(PROFILER, "the engine that runs anyway, and who uses it")                                \
    X(PUSH_MADE, "encoding for a destination; of all of them at once, by address")             \
    /* The model */                                                                            \
    X(COLLECTOR, "a tick or a drain")                                                          \
    X(MODEL, "what the agent knows: read or written")                                          \
    /* Taken by those who hold the model's, or by nobody who does */                           \
    X(STREAMS, "readers of streams and their rings; libmicrohttpd's suspend and resume")       \
    X(PROFILER_REQUESTS, "the list of requests that are profiled")                             \
    X(INFER_POSTED, "events that wait for the next drain")                                     \
    X(PUSH_SPANS, "spans that wait to be sent")                                                \
    X(PUSH, "whether the feeder is to stop")                                                   \
    X(PUSH_DEST, "counts of a destination, and whether it is to stop")                         \
    X(PUSH_QUEUE, "batches that wait; also while one is written to its file")                  \
    X(ARMS, "figures of two servers that are compared")                                        \
    X(REGRESSIONS, "regressions that were found, and what functions cost")                     \
    X(ALERTS_FILE, "writing the state of alerts to its file")                                  \
    X(ALERTS, "alerts, mutes and notifications that wait; never while one is sent")            \
    X(MARKS, "marks that are in no store")                                                     \
    X(OWN_COST, "what sampling costs, as compared so far; a reading on its way")               \
    X(CPU_ASKING, "one question at a time to a CPU engine")                                    \
    X(CPU, "the question and its answer")                                                      \
    X(HEAP_ENGINE, "a round of the heap profiler, or a profile made of it")                    \
    X(UPROBE, "what probes have seen, as numbers")                                             \
    X(UPROBE_FILES, "files that have probes")                                                  \
    X(UPROBE_EVENTS, "probes and their rings: one thread opens, another finds")                \
    X(UPROBE_RETURNS, "return addresses that probes have taken")                               \
    X(STORE_DB, "the writer's connection: a step, some milliseconds")                          \
    X(STORE_READ, "the readers' connection")                                                   \
    X(STORE, "the store's lists and open block; never while the disk is used")                 \
    X(STORE_MEMORY, "a store in memory")                                                       \
    X(SYMBOLIZER, "naming addresses: seconds")                                                 \
    X(PRELOADED, "who in this process reads the segments of preloaded processes")              \
    X(FOLDED_READER, "the ring between the two threads that read a file of folded stacks")     \
    X(WORKLOAD, "latencies of a load so far: are they known well enough?")                     \
    /* Innermost, never held across a call out */                                              \
    X(GUARD, "setting the handler of SIGBUS")                                                  \
    X(LOG, "a line")

#endif
