/* serve_profiler.h - a profiler of what a collector finds, with an inference model. */
#ifndef SONDE_TEST_AGENT_SERVE_PROFILER_H
#define SONDE_TEST_AGENT_SERVE_PROFILER_H

#include "infer/tracker.h"
#include "agent/profiler.h"
#include "unit/serve/serve_collector.h"

static struct sonde_profiler *profiler;

static inline int profiler_make(void)
{
    const struct sonde_infer_options none = { 0 };
    if (collector_make(&none) != 0) return -1;
    const struct sonde_profiler_options o = { .collector = collector, .dir = dir };
    return sonde_profiler_create(&o, &profiler);
}

static inline void profiler_end(void)
{
    sonde_profiler_destroy(profiler);
    collector_end();
}

#endif
