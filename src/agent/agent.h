/* agent.h - one agent: what `run`, `record`, `attach` and `serve` all open. */
#ifndef SONDE_AGENT_AGENT_H
#define SONDE_AGENT_AGENT_H

#include "agent/continuous.h"
#include "agent/marks.h"
#include "agent/profiler.h"
#include "agent/sessions.h"
#include "analyze/health.h"
#include "collect/collector.h"
#include "collect/ingest/otlp.h"
#include "store/store.h"

/* The parts of an agent, for those who read what it knows. NULL = it has none. */
struct sonde_agent {
    struct sonde_collector *collector;
    struct sonde_profiler *profiler;     /* NULL = profiles are not captured */
    struct sonde_sessions *sessions;     /* NULL alike */
    const struct sonde_store_ops *store_ops;
    struct sonde_store *store;
    struct sonde_store *temporary;       /* instead of it: the last hours, gone with the agent */
    struct sonde_continuous *continuous;
    struct sonde_marks *marks;
    struct sonde_otlp *otlp;             /* NULL = OTLP is not accepted */
    struct sonde_health_options health;  /* when /health is not well */
    double bottleneck_s;                 /* shorter ones are no findings; 0 = the default */
    double started_s;                    /* Unix time */
};

/* An agent that has nothing: for routes that are asked about a file. */
extern const struct sonde_agent sonde_agent_none;

/* Sessions and marks, once profiler and store are there. no_findings: what is kept is not searched
 * for bottlenecks. SONDE_ENOMEM: call the other all the same. */
int sonde_agent_open_sessions(struct sonde_agent *a, int no_findings, struct sonde_err *err);
void sonde_agent_close_sessions(struct sonde_agent *a);

#endif
