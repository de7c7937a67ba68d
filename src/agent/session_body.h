/* session_body.h - what is asked for in the body of POST /admin/profile/start and stop: JSON,
 * whatever Content-Type says (curl --data says it is a form). */
#ifndef SONDE_AGENT_SESSION_BODY_H
#define SONDE_AGENT_SESSION_BODY_H

#include <stddef.h>

#include "base/err.h"

#define SONDE_SESSION_BODY_MAX 4096
#define SONDE_SESSION_SECONDS_MAX 2592000.0 /* 30 days */

struct sonde_session_ask {
    char name[65];           /* "" = none was given */
    double rate_hz;          /* 0 = as the agent is set */
    double duration_s;       /* after which it ends by itself; 0 = never */
    int cpu, memory;         /* 1 unless set */
};

/* An empty body is {}. start: all keys; else name alone. SONDE_EINVAL and which key is wrong. */
int sonde_session_body(const char *text, size_t len, int start, struct sonde_session_ask *out,
                       struct sonde_err *err);

#endif
