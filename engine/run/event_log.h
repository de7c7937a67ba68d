/* event_log.h - what happened to requests when, as JSON lines: the engine's own account, which the
 * figures of any observer can be compared with. Counts and times; never text, never token ids.
 *
 *   {"event":"start","ticks":…,"unix_ns":…}                  ns of all lines count from here
 *   {"event":"arrival","ns":…,"request":ID,"route":…}
 *   {"event":"encode","begin":…,"ns":…,"request":ID,"tokens":…}
 *   {"event":"queue","begin":…,"ns":…,"request":ID}
 *   {"event":"prompt","ns":…,"request":ID,"tokens":…,"reused":…}
 *   {"event":"batch","begin":…,"ns":…,"batch":N,"members":[{"request":ID,"prompt":…,"output":…},…]}
 *   {"event":"sample" | "detokenize","begin":…,"ns":…,"request":ID}
 *   {"event":"token","ns":…,"request":ID,"n":…}              n = 1 for the first
 *   {"event":"end","ns":…,"request":ID,"tokens":…,"outcome":…,"error":… or null}
 *
 * Events go to a buffer as they are; a thread makes lines of them. When the buffer is full the
 * caller waits: a log that is compared with must not have holes. */
#ifndef ENGINE_RUN_EVENT_LOG_H
#define ENGINE_RUN_EVENT_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"

enum { EVENT_ID_MAX = 48 };

enum event_kind { EVENT_ARRIVAL, EVENT_ENCODE, EVENT_QUEUE, EVENT_PROMPT, EVENT_BATCH, EVENT_MEMBER,
                  EVENT_SAMPLE, EVENT_DETOKENIZE, EVENT_TOKEN, EVENT_END, EVENT_KINDS };

struct engine_event {
    enum event_kind kind;
    uint64_t begin, at;          /* ticks; begin only of those that last */
    uint64_t a, b;               /* counts, in the order above */
    const char *text, *error;    /* static: route, outcome, type of error */
    char request[EVENT_ID_MAX];
};

struct event_log;

int event_log_create(const char *path, struct event_log **out, struct fail *why);
void event_log_destroy(struct event_log *l); /* all is written; NULL is fine */

/* A batch is followed by its members, in one call. l NULL: nothing is done. */
void event_log_put(struct event_log *l, const struct engine_event *events, size_t count);

#endif
