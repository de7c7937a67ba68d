/* post.h - one POST over HTTP or HTTPS, by libcurl, and what users say about it: URLs and headers.
 * Shared by destinations (push.h) and by the receivers of alerts (alert/). */
#ifndef SONDE_PUSH_POST_H
#define SONDE_PUSH_POST_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define PUSH_URL_MAX 1024
#define PUSH_WEBHOOK_MAX 2048 /* a webhook's URL, with its query */

struct push_answer {
    long status;                  /* 0 = none came: text says why */
    double retry_after_s;         /* 0 = not said */
    struct sonde_buf body;        /* the first bytes of it */
    char text[256];               /* for people: "HTTP 400: no such thing", "connection refused" */
};

/* SONDE_EINVAL: not http(s)://host…, or with credentials or a query in it. url is copied without a
 * slash at its end; path is added if it has none. */
int push_url_check(const char *url, const char *path, char out[PUSH_URL_MAX],
                   struct sonde_err *err);

/* The same for a webhook, which may have a query and is not changed. path: added if the URL has
 * none. Errors do not quote the URL beyond its host: a webhook's path is often a secret. */
int push_url_check_webhook(const char *url, const char *path, char out[PUSH_WEBHOOK_MAX],
                           struct sonde_err *err);

/* Its scheme, host and port: what may be shown of a URL that may hold a secret. */
void push_url_shown(const char *url, char *out, size_t out_size);

/* Handle of libcurl's; NULL = out of memory. */
void *push_http_open(void);
void push_http_close(void *curl); /* NULL is fine */

struct push_http_request {
    const char *url;
    char *const *headers;         /* NULL-terminated; NULL = none */
    const char *body;
    size_t body_len;
    double timeout_s;
};

/* stop (may be NULL) is asked again and again: 1 = give up. 0 = an answer came, of whatever
 * status. out->body is a buffer with a cap, which is emptied first. */
int push_http_send(void *curl, const struct push_http_request *r, int (*stop)(void *arg), void *arg,
                   struct push_answer *out);

/* What most say: too many requests, or something is wrong at their end. */
int push_again_later(long status);

/* Connects only. SONDE_EIO with the reason. */
int push_http_reach(const char *url, double timeout_s, struct sonde_err *err);

/* ---- headers.c ------------------------------------------------------------------------------- */

/* The headers of fixed (NULL-terminated) and those of text, one per line, as a new NULL-terminated
 * list; text NULL or "" = none. whose: for errors, which never quote a value. */
int push_headers_parse(const char *whose, const char *const *fixed, const char *text, char ***out,
                       struct sonde_err *err);
void push_headers_free(char **headers); /* NULL is fine; overwrites them first */

#endif
