/* agent_private.h - what the files of the agent's life share. */
#ifndef SONDE_AGENT_AGENT_PRIVATE_H
#define SONDE_AGENT_AGENT_PRIVATE_H

#include "agent/agent.h"
#include "front/metrics.h"

struct sonde_agent_life {
    struct sonde_store_feed *feed;       /* from the model to the store, or the temporary one */
    struct sonde_scrape_targets targets; /* until they are scraped */
    struct sonde_scrape_options scrape_options;
    struct sonde_scrape *scrape;
    double flush_s;                      /* for what is sent on, at the end */
    double alert_flush_s;                /* for notifications, alike */
    int sending, telling;                /* push, and alerts, were started */
    uint32_t pid;                        /* the only process that is watched; 0 = all */
    int watched;                         /* the collector was told so */
    int unread;                          /* its segment is read once more when it has ended */
    struct sonde_recording recording;
    struct sonde_front_metrics *front_metrics;
    struct sonde_front_observer measures; /* front_metrics' */
    struct sonde_front *front;           /* NULL = no upstream */
    int asked, no_findings;
    double finding_interval_s;
    char *muted;                         /* of rules */
    int measures_cost;                   /* … as these say, where profiles are taken all the time */
    struct sonde_own_cost_settings own_cost;
    double interval_s;                   /* of ticks */
    int (*missing)(enum sonde_agent_part part, int rc, const struct sonde_err *err, void *arg);
    void *missing_arg;
};

/* ---- front_observer.c ---- */
void agent_front_stop(struct sonde_agent *a);
void agent_front_release(struct sonde_agent *a); /* once the server is gone, too */

#endif
