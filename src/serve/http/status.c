/* status.c - see status.h. 4xx: the client can do something about it, and the sentence beside it
 * says what; 5xx: only whoever runs the agent can.
 *
 * EBUSY is 409 rather than 503: sessions, captures and profiles are limited in number or are in
 * another state, and a client that only waits and repeats itself does not change that. EFULL is
 * 400: the store has more to say than fits, and the client can ask for less of it. */
#include "serve/http/status.h"

#include "sonde/sonde.h"

unsigned sonde_http_status(int error)
{
    switch (error) {
    case 0: return 200;
    case SONDE_EINVAL:
    case SONDE_EFULL: return 400;
    case SONDE_EACCES: return 403;
    case SONDE_ENOENT: return 404;
    case SONDE_EEXIST:
    case SONDE_EBUSY: return 409;
    case SONDE_EOFF: return 503; /* the agent ends, or the store was given up */
    default: return 500;
    }
}
