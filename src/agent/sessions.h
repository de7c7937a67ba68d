/* sessions.h - profiling sessions that have names: begun and ended over HTTP, kept in the agent's
 * store. Without a store they are kept in memory, some of them, until the agent ends.
 *
 * A session is a capture (capture.h) with a name; several may run. One may be given a time
 * after which it ends by itself; all end with the agent, and are in its store then. */
#ifndef SONDE_AGENT_SESSIONS_H
#define SONDE_AGENT_SESSIONS_H

#include "agent/capture.h"
#include "agent/session_body.h"
#include "analyze/finding/finding.h"
#include "store/store.h"

struct sonde_sessions;

#define SONDE_SESSION_NAME_BYTES 65
#define SONDE_SESSION_NOTES 6

/* profiler is borrowed, as is the store; NULL = there is none. */
int sonde_sessions_create(struct sonde_profiler *profiler, const struct sonde_store_ops *ops,
                          struct sonde_store *store, struct sonde_sessions **out);
/* Sessions that run end now, and are kept if there is a store. NULL is fine. */
void sonde_sessions_destroy(struct sonde_sessions *s);

/* Before anything is kept: how bottlenecks of what is kept are looked for, borrowed; NULL = they
 * are not. */
void sonde_sessions_set_findings(struct sonde_sessions *s,
                                 const struct sonde_finding_options *rules);

/* Where profiles are kept; memory: they are gone with the agent. */
struct sonde_store *sonde_sessions_store(struct sonde_sessions *s,
                                         const struct sonde_store_ops **ops, int *memory);

/* Begin one; without a name it is given one, which is in ask then. SONDE_EEXIST: one of that name
 * runs. Others as sonde_profiler_begin. */
int sonde_sessions_begin(struct sonde_sessions *s, struct sonde_session_ask *ask,
                         struct sonde_err *err);

struct sonde_session_done {
    char name[SONDE_SESSION_NAME_BYTES];
    uint64_t id;                     /* in the store; 0 = it could not be kept, a note says why */
    struct sonde_profile *profile;   /* the caller's */
    char notes[SONDE_SESSION_NOTES][256];
    size_t note_count;
};

/* End one and keep it; name NULL = the one that runs. SONDE_EBUSY: none runs, several do, or it has
 * ended by itself; SONDE_ENOENT: there is none of that name. */
int sonde_sessions_end(struct sonde_sessions *s, const char *name, struct sonde_session_done *out,
                       struct sonde_err *err);

/* The profile that text says: of a session that runs, so far; else of the store, by its name or id
 * (sonde_store_profile_find). NULL: of the session that was begun last and runs, else the last
 * profile that was kept since the agent started. label: what it is called. id: 0 = it runs.
 * SONDE_ENOENT. */
struct sonde_session_found {
    struct sonde_profile *profile;   /* the caller's */
    char label[SONDE_SESSION_NAME_BYTES + 40];
    uint64_t id;
};
int sonde_sessions_find(struct sonde_sessions *s, const char *text,
                        struct sonde_session_found *out, struct sonde_err *err);

/* The profile of a stretch of time, "FROM..TO" in unix seconds: from the history of continuous
 * profiling if there is one of it; else all of the store that have something of it and do not
 * overlap, together. SONDE_ENOENT: there is none; SONDE_EINVAL: no such stretch. */
struct sonde_session_range {
    struct sonde_session_found found;
    uint64_t from_ns, to_ns;
};
int sonde_sessions_is_range(const char *text);
int sonde_sessions_range(struct sonde_sessions *s, const char *text,
                         struct sonde_session_range *out, struct sonde_err *err);

/* Keep a profile. kind: "session", "cpu", "memory". */
int sonde_sessions_keep(struct sonde_sessions *s, const char *name, const char *kind,
                        const struct sonde_profile *p, uint64_t *id, struct sonde_err *err);

/* Those that run, the newest first: up to max. Returns how many. */
struct sonde_session_row {
    char name[SONDE_SESSION_NAME_BYTES];
    double duration_s;               /* after which it ends by itself; 0 = never */
    int cpu, memory;
    struct sonde_capture_status status;
};
size_t sonde_sessions_running(struct sonde_sessions *s, struct sonde_session_row *out, size_t max);

/* The last one that was kept since the agent started, heaps on demand aside if there is another; 0
 * = none. */
uint64_t sonde_sessions_last(struct sonde_sessions *s);
/* The same with heaps on demand. */
uint64_t sonde_sessions_newest(struct sonde_sessions *s);

#endif
