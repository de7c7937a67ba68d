/* agent.h - one agent: what `run`, `record`, `attach`, `serve`, `view` and a local `top` all open,
 * each with options of its own. It owns every part, and there is one order:
 *
 *      open     store, model and collector, profiler, OTLP, destinations, alerts, marks: nothing
 *       |       runs yet, and every mistake in the settings is known
 *      record   engines on one process: probes, CPU, heap             (run, record, attach)
 *      profile  continuous profiling, sessions
 *       |       . the caller starts its server, which answers from the parts
 *      front    the proxy before an inference server                  (serve --upstream)
 *      start    scraping, sending on, alerts, and last the collector: it calls all of the others
 *       |       . time passes
 *      stop     the front, continuous profiling, engines, the collector; what they saw last is in
 *       |       the model and the recording then, and can still be asked for. start continues it
 *       |       . the caller finishes the recording, and stops its server
 *      close    sessions into the store, the last of what is sent on; then what is left, the model
 *               before the stores
 *
 * Each step but open and close may be left out. A part that cannot be had is reported to `missing`,
 * which decides whether the agent goes on without it: nothing here prints, and nothing here knows
 * of flags or exit statuses. One thread, the opener's, takes these steps; the parts have locks of
 * their own. */
#ifndef SONDE_AGENT_AGENT_H
#define SONDE_AGENT_AGENT_H

#include "agent/continuous.h"
#include "agent/finding_watch.h"
#include "agent/marks.h"
#include "agent/own_cost_control.h"
#include "agent/profiler.h"
#include "agent/recording.h"
#include "agent/regressions.h"
#include "agent/sessions.h"
#include "alert/alert.h"
#include "analyze/health.h"
#include "collect/collector.h"
#include "collect/ingest/otlp.h"
#include "collect/ingest/scrape.h"
#include "agent/arms.h"
#include "front/front.h"
#include "infer/tracker.h"
#include "push/push.h"
#include "store/store.h"

struct sonde_agent_life;

/* The parts, for those who read what the agent knows; only agent/ sets them. NULL = it has none. */
struct sonde_agent {
    struct sonde_collector *collector;
    struct sonde_profiler *profiler;     /* NULL = profiles are not captured */
    struct sonde_sessions *sessions;     /* NULL alike */
    const struct sonde_store_ops *store_ops;
    struct sonde_store *store;
    struct sonde_store *temporary;       /* instead of it: the last hours, gone with the agent */
    struct sonde_continuous *continuous;
    struct sonde_own_cost_control *own_cost; /* NULL = what sampling costs is not measured */
    struct sonde_marks *marks;
    struct sonde_regressions *regressions; /* NULL = changes are not looked for */
    struct sonde_otlp *otlp;             /* NULL = OTLP is not accepted */
    struct sonde_push *push;             /* NULL = nothing is sent on */
    struct sonde_alerts *alerts;         /* NULL = there are none; sonde_alerts_tell takes that */
    struct sonde_recording *recording;   /* of the process of `record` */
    struct sonde_arms *arms;             /* two servers behind the front; NULL = there are not */
    struct sonde_health_options health;  /* when /health is not well */
    struct sonde_finding_options rules;  /* of all that look for findings */
    struct sonde_finding_watch *findings; /* NULL = nobody looks all the time */
    double started_s;                    /* Unix time */
    struct sonde_agent_life *life;       /* agent/'s own: what only its steps need */
};

/* An agent that has nothing: for routes that are asked about a file. */
extern const struct sonde_agent sonde_agent_none;

/* What may be missing. */
enum sonde_agent_part {
    SONDE_AGENT_STORE,
    SONDE_AGENT_TEMPORARY,
    SONDE_AGENT_COLLECTOR,     /* without it there is nothing but the store */
    SONDE_AGENT_OTLP,
    SONDE_AGENT_PUSH,
    SONDE_AGENT_ALERTS,
    SONDE_AGENT_MARKS,
    SONDE_AGENT_REGRESSIONS,
    SONDE_AGENT_CPU,
    SONDE_AGENT_HEAP,
    SONDE_AGENT_GPU,
    SONDE_AGENT_PROBES,
    SONDE_AGENT_CONTINUOUS,
    SONDE_AGENT_SESSIONS,
    SONDE_AGENT_FINDINGS,
    SONDE_AGENT_SCRAPE,
    SONDE_AGENT_SENDING,       /* threads of push */
    SONDE_AGENT_TELLING,       /* threads of alerts */
    SONDE_AGENT_READING,       /* the collector's thread: it can be stepped all the same */
};

/* Borrowed until open returns, unless it says otherwise. */
struct sonde_agent_options {
    struct sonde_collector_options collector; /* without what it calls: that is set here */
    struct sonde_infer_options infer;         /* alike */
    const struct sonde_store_options *store;  /* NULL = none */
    const struct sonde_store_options *temporary; /* where there is no store; NULL = none either */
    int record;                          /* spans and requests are kept for the recording */
    int profile;                         /* profiles are captured, as options of … */
    struct sonde_profiler_options profiler; /* … without the collector */
    const struct sonde_otlp_options *otlp; /* NULL = OTLP is not accepted */
    const struct sonde_push_options *push; /* without the model; NULL = nothing is sent on */
    const struct sonde_alerts_options *alerts; /* without the model; NULL = there are none */
    struct sonde_scrape_targets *targets;  /* taken over, also on failure; NULL = none */
    struct sonde_scrape_options scrape;
    int asked;                           /* it is asked over HTTP: sessions and marks are kept */
    struct sonde_health_options health;
    struct sonde_finding_options rules;  /* the text of muted is copied */
    int no_findings;                     /* nothing is searched for bottlenecks unless it is asked
                                            for */
    double finding_interval_s;           /* between looks at the last minute; 0 = the default */
    const struct sonde_own_cost_settings *own_cost; /* where profiles are taken all the time;
                                          * NULL = sampling is never switched off */
    /* NULL = changes are not looked for; without store, marks and collector, which are set here.
     * There must be a store, be it a temporary one, or there is nothing to look at. */
    const struct sonde_regressions_options *regressions;
    /* A part cannot be had, rc and err say why: 0 = go on without it, else the step fails with rc.
     * NULL = every step fails that cannot have all. As long as the agent lives. */
    int (*missing)(enum sonde_agent_part part, int rc, const struct sonde_err *err, void *arg);
    void *missing_arg;
};

/* 0 or a negative SONDE_E…; then there is no agent. err: why, also told to `missing`. */
int sonde_agent_open(const struct sonde_agent_options *options, struct sonde_agent **out,
                     struct sonde_err *err);

/* One process, besides what the collector sees of it. */
struct sonde_agent_recording {
    uint32_t pid;
    char *const *argv;         /* what pid will execute, NULL-terminated; NULL = it runs already.
                                * Borrowed until the recording is finished */
    int children;              /* also processes that it starts */
    int cpu, heap, llama;      /* what is wanted */
    int gpu;                   /* commands of GPUs */
    int gpu_off;               /* … from when they are switched on */
    int leaks;                 /* judge growth of the heap */
    struct sonde_cpu_options cpu_options;         /* without pid, children and returns */
    struct sonde_heap_reader_options heap_options; /* without pid and children */
};
int sonde_agent_record(struct sonde_agent *a, const struct sonde_agent_recording *o,
                       struct sonde_err *err);

/* o: without what it samples and where it keeps it, which is set here; NULL = no continuous
 * profiling. */
int sonde_agent_profile(struct sonde_agent *a, const struct sonde_continuous_options *o,
                        struct sonde_err *err);

/* ---- front_observer.c ---- */
/* o: without observer, which is the agent's; its listen_fd is taken over on success. compared: of
 * two servers, if o has them; else NULL will do. */
int sonde_agent_front(struct sonde_agent *a, const struct sonde_front_options *o,
                      const struct sonde_arms_settings *compared, struct sonde_err *err);

int sonde_agent_start(struct sonde_agent *a, struct sonde_err *err);

/* abandon: what continuous profiling has not written yet is dropped, since nobody will read it.
 * Also after a step that failed, and again. */
void sonde_agent_stop(struct sonde_agent *a, int abandon);

/* Stops what still runs. No server asks any more. NULL is fine. */
void sonde_agent_close(struct sonde_agent *a);

#endif
