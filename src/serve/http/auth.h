/* auth.h - who may ask: a token, the user at the other end, the names this machine goes by.
 *
 * Without a token only loopback addresses are listened on. Programs of the agent's user and root's
 * may ask for everything; those of other users for /metrics and health, and they may send OTLP,
 * unless all users are let in. With a token, everything but /livez, /readyz and /healthz (and, if
 * so configured, /metrics and /health) takes
 *     Authorization: Bearer TOKEN
 * from everybody, this machine's programs too. */
#ifndef SONDE_SERVE_HTTP_AUTH_H
#define SONDE_SERVE_HTTP_AUTH_H

#include <stddef.h>

#include "base/err.h"
#include "serve/http/listen.h"

#define SONDE_TOKEN_MIN 16   /* bytes; shorter ones are guessed */
#define SONDE_TOKEN_MAX 256

/* The token of the environment (SONDE_TOKEN), else of the file (path "" = none), into out; "" =
 * there is none. SONDE_EINVAL: it cannot be read, others may read it too, or it is too short, too
 * long or not printable. */
int sonde_token_read(const char *path, char out[SONDE_TOKEN_MAX + 1], struct sonde_err *err);

struct sonde_auth_options {
    const char *token;       /* "" or NULL = none is asked for */
    const char *hosts;       /* further names in Host headers, and whose pages may ask:
                                "sonde.lan,10.0.0.7,localhost:3000"; NULL = none */
    int open_metrics;        /* /metrics takes no token */
    int open_health;         /* neither does /health */
    int all_users;           /* without a token: other users of this machine may ask for anything */
};

struct sonde_auth;

/* where: what is listened on, NULL = nothing. SONDE_EINVAL: not loopback, and no token. */
int sonde_auth_create(const struct sonde_auth_options *o, const struct sonde_listen *where,
                      struct sonde_auth **out, struct sonde_err *err);
void sonde_auth_destroy(struct sonde_auth *auth); /* NULL is fine */

/* 1 if a Host header, or the part of an Origin behind "//", can only mean this machine. */
int sonde_auth_host_ok(const struct sonde_auth *auth, const char *host);

/* What a web page that sends this Origin may do (NULL = none was sent). */
enum sonde_auth_page {
    SONDE_PAGE_FOREIGN, /* nothing */
    SONDE_PAGE_OURS,    /* as without one: it is of this machine, or from where it asks */
    SONDE_PAGE_SHARED,  /* read answers (CORS): its host is in hosts. With a token it may act too */
};
/* host: the Host header, NULL = not there. Pages of this machine's other ports are OURS, which does
 * not let them read answers: they may be of other users. Name them in hosts ("localhost:3000"). */
enum sonde_auth_page sonde_auth_page(const struct sonde_auth *auth, const char *origin,
                                     const char *host);
/* 1 if there are hosts: answers depend on Origin then. */
int sonde_auth_shares(const struct sonde_auth *auth);

enum sonde_auth_answer { SONDE_AUTH_YES, SONDE_AUTH_NO, SONDE_AUTH_LATER };

/* Whether a request may be answered; authorization: the header, NULL = not there. LATER: too many
 * wrong tokens lately. Any thread. */
enum sonde_auth_answer sonde_auth_ask(struct sonde_auth *auth, const char *path,
                                      const char *authorization);

/* 1 if only the agent's user and root may ask for this path: there is no token. */
int sonde_auth_wants_same_user(const struct sonde_auth *auth, const char *path);

/* Whether a token is asked for at all, and 1 if it is not for this path. */
int sonde_auth_has_token(const struct sonde_auth *auth);
int sonde_auth_is_open(const struct sonde_auth *auth, const char *path);
/* 1 if it is one of those that tell how the service is. */
int sonde_auth_is_health(const char *path);

#endif
