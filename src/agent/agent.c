/* agent.c - see agent.h. */
#include "agent/agent.h"

#include "base/clock.h"
#include "sonde/sonde.h"

const struct sonde_agent sonde_agent_none;

int sonde_agent_open_sessions(struct sonde_agent *a, int no_findings, struct sonde_err *err)
{
    a->started_s = sonde_clock_s(CLOCK_REALTIME);
    if (sonde_marks_create(a->store_ops, a->store, &a->marks) != 0 ||
        (a->profiler &&
         sonde_sessions_create(a->profiler, a->store_ops, a->store, &a->sessions) != 0)) {
        return sonde_err_set(err, SONDE_ENOMEM, "cannot start the agent: out of memory");
    }
    if (a->sessions) sonde_sessions_set_findings(a->sessions, no_findings, a->bottleneck_s);
    return 0;
}

void sonde_agent_close_sessions(struct sonde_agent *a)
{
    sonde_sessions_destroy(a->sessions);
    sonde_marks_destroy(a->marks);
    a->sessions = NULL;
    a->marks = NULL;
}
