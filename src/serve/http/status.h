/* status.h - the one map from what failed in the agent to what HTTP says. */
#ifndef SONDE_SERVE_HTTP_STATUS_H
#define SONDE_SERVE_HTTP_STATUS_H

/* The status of a SONDE_E…; 200 for 0. What it does not know, a bug or a failing disk, is 500. */
unsigned sonde_http_status(int error);

#endif
