/* top_source.h - where `sonde top` has its data from: a live agent by URL, or a collector in this
 * process. Both give the JSON of serve/api/api.h, so everything after that is one code path. */
#ifndef SONDE_CLI_TOP_SOURCE_H
#define SONDE_CLI_TOP_SOURCE_H

#include "base/err.h"
#include "agent/agent.h"
#include "present/top/view.h"

/* What is to be shown, and so has to be read. */
struct sonde_top_request {
    enum sonde_top_page page;
    struct sonde_top_words words;
    const char *type;                    /* static; NULL = all */
    uint32_t pid;                        /* 0 = all */
    char trace_id[SONDE_TOP_TRACE_ID];   /* spans page: also all of this trace; "" = none */
    enum sonde_requests_sort sort;       /* inference page */
};
void sonde_top_request_of(const struct sonde_top_state *s, struct sonde_top_request *out);

struct sonde_top_source;

/* options are copied, their strings borrowed. */
int sonde_top_source_local(const struct sonde_agent_options *options,
                           struct sonde_top_source **out, struct sonde_err *err);
int sonde_top_source_url(const char *url, struct sonde_top_source **out, struct sonde_err *err);
void sonde_top_source_destroy(struct sonde_top_source *s); /* NULL is fine */

/* A tick: a local collector reads everything once. Nothing to do for an agent, which has its
 * own. */
void sonde_top_source_tick(struct sonde_top_source *s);

/* Read what r needs into d, which is fresh. */
int sonde_top_source_read(struct sonde_top_source *s, const struct sonde_top_request *r,
                          struct sonde_top_data *d, struct sonde_err *err);

/* From any thread: have a read that waits for the network fail soon. */
void sonde_top_source_cancel(struct sonde_top_source *s);

#endif
