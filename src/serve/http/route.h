/* route.h - what answers a path. One route = one row of route_list.h; the row's struct carries
 * path, summary and parameters, so that the index page, 404 and 405 answers and the OpenAPI
 * description (openapi.h) come from the table. What a parameter is stands in param_list.h.
 *
 * A handler sees a parsed request and fills a response; it knows nothing of the HTTP library. It
 * runs in one of the server's threads, takes the model's read lock while it renders, and does
 * nothing else under it. */
#ifndef SONDE_SERVE_HTTP_ROUTE_H
#define SONDE_SERVE_HTTP_ROUTE_H

#include "agent/agent.h"
#include "base/buf.h"
#include "present/flamegraph/flamegraph.h"
#include "present/web.h"
#include "serve/http/auth.h"
#include "serve/http/stream.h"

struct sonde_recent;
struct sonde_history_summaries;
struct sonde_server_file;

#define SONDE_TIME_MAX_S 1e11 /* Unix time in parameters: up to the year 5138 */
enum { SONDE_PARAMS_MAX = 64, SONDE_ALLOW_MAX = 64, SONDE_LOCATION_MAX = 2048 };

struct sonde_param { const char *name, *value; }; /* decoded; value "" if there was none */

struct sonde_http_request {
    const char *path;                /* of the route */
    const char *name;                /* what "*" in the route's path stands for, and what
                                        follows it; decoded */
    const char *body;                /* NUL-terminated; "" = none */
    size_t body_len;
    struct sonde_param params[SONDE_PARAMS_MAX];
    size_t param_count;
    const char *accept;              /* headers; NULL = not there */
    const char *content_type, *content_encoding;
    int scraped;                     /* an agent asks, to show it further: it wants what is ours */
    const char *last_event_id;
    const struct sonde_agent *agent; /* what is asked about; its parts have locks of their own */
    struct sonde_recent *recent;     /* what was worked out a moment ago */
    struct sonde_history_summaries *summaries; /* store/history_summary.h */
    const struct sonde_profile *shown; /* what ?profile= is of, whatever it says: a file is looked
                                        at, by something that is no agent. NULL = those that are
                                          kept */
    const struct sonde_server_file *files; /* profiles of files (server.h) */
    size_t file_count;
    struct sonde_streams *streams;
    const struct sonde_auth *auth;
    enum sonde_flamegraph_colors colors; /* of flame graphs, and how wide a frame is at least: in
                                          * … */
    double min_width[2];             /* … an SVG and in HTML */
    const char *url;                 /* of the server */
    int (*gone)(void *client);       /* of a slow route: 1 = the client has closed its connection,
                                        so nobody waits for the answer. NULL = it is not known */
    void *client;
};

struct sonde_response {
    unsigned status;                 /* 200 unless set */
    const char *content_type;        /* JSON unless set */
    int vary_accept;                 /* the answer depends on Accept */
    int packed;                      /* the body is compressed already */
    unsigned retry_after_s;          /* when to try again, of a 429 or 503; 0 = nobody knows */
    struct sonde_stream *stream;     /* the body is what comes of it; the server closes it */
    const char *filename;            /* what a browser saves it as; NULL = it shows it */
    const struct sonde_web_file *file; /* the body, embedded; type, ETag and 304 come with it */
    const char *policy;              /* Content-Security-Policy of a page; NULL = none */
    char location[SONDE_LOCATION_MAX]; /* where a 302 leads; "" = nowhere */
    int preflight;                   /* it says what pages of server.hosts may send */
    char allow[SONDE_ALLOW_MAX];     /* methods, for a 405 */
    struct sonde_buf body;
};

struct sonde_route {
    const char *method;              /* "GET": HEAD is answered too; "POST", "DELETE" */
    const char *path;                /* exact, or with one "*": a part of any name */
    const char *summary;             /* one line; NULL = not listed */
    const char *const *params;       /* names, NULL-terminated; others are refused, and those that
                                        are not as param_list.h says. NULL = any are passed over
                                        but those that have a row for this path */
    size_t body_max;                 /* bytes; more are refused. 0 = it takes no body */
    int samples;                     /* GET that starts sampling: not for pages of other origins */
    int open;                        /* nothing that was measured is in it: it takes no token, and
                                        every user of this machine may ask */
    int slow;                        /* takes seconds: is handled in a thread of its own */
    void (*handle)(const struct sonde_http_request *r, struct sonde_response *answer);
    const char *star;                /* what "*" is: a row of param_list.h; NULL = id */
    const char *const *required;     /* those of params that must be there, NULL-terminated */

    /* For the description alone; all may be left out. */
    const char *produces;            /* content types of what it answers, "a|b"; NULL = JSON */
    const char *keys;                /* that a JSON answer has at the top, "a,b" */
    const char *statuses;            /* beyond 200, 400, 401, 403, 413, 429, 500, with "*" 404 and
                                        if slow 503: "404,409". Another 2xx replaces 200. "503*":
                                        not {"error"} but of the types that it produces */
    const char *body;                /* JSON Schema of the body, with "example"; NULL = any */
    const char *body_type;           /* its content types, "a|b"; NULL = JSON */
};

/* NULL-terminated. */
extern const struct sonde_route *const sonde_routes[];

/* The route of a path that takes the method; NULL = none. *name is what its "*" stands for, with
 * what follows it in the path, if anything does; NULL without one. allow gets the methods that the
 * path does take, "" if there is no such path. */
const struct sonde_route *sonde_route_find(const char *path, const char *method, const char **name,
                                           char *allow, size_t allow_size);

/* The answer to a GET of target ("/api/flamegraph?type=cpu") of whoever is in this process: r says
 * where to look, the rest of it is set here. Slow ones are answered at once. a->body is empty. */
void sonde_route_ask(const struct sonde_http_request *r, const char *target,
                     struct sonde_response *answer);

/* The answer {"error": …} with this status; anything in the body is replaced. */
void sonde_response_error(struct sonde_response *answer, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a call that failed with rc: its status (status.h), and err's sentence if there is
 * one. A body that found no memory, or is too large, stays as it is: the server says so. */
void sonde_response_failed(struct sonde_response *answer, int rc, const struct sonde_err *err);

/* How a flame graph looks here. */
struct sonde_flamegraph_options sonde_http_picture(const struct sonde_http_request *r, int html);

struct sonde_profile;
/* A run file with all of p as the answer. */
void sonde_response_run(struct sonde_response *answer, const struct sonde_profile *p);
/* Whether format= asks for one. */
int sonde_http_wants_run(const struct sonde_http_request *r);

/* The profile of a file that is called so; NULL = there is none. */
const struct sonde_server_file *sonde_http_file(const struct sonde_http_request *r,
                                                const char *name);

/* Where readings, spans, requests and events of the past are: the store, else what is kept of the
 * last hours; NULL = there is neither. Profiles and runs are in the store alone. */
struct sonde_store *sonde_http_history(const struct sonde_http_request *r);

/* The first value of a parameter, NULL if it is not there. */
const char *sonde_http_param(const struct sonde_http_request *r, const char *name);

/* Of these 1 = what was asked for is there, or the parameter is not; 0 = the error is in answer,
 * and names the parameter. */
int sonde_http_number(const struct sonde_http_request *r, struct sonde_response *answer,
                      const char *name, double min, double max, double *out);
int sonde_http_count(const struct sonde_http_request *r, struct sonde_response *answer,
                     const char *name, uint64_t max, uint64_t *out);
/* "from" and "to", Unix time; either may be left out. */
int sonde_http_range(const struct sonde_http_request *r, struct sonde_response *answer,
                     double *from_s, double *to_s);
/* "trace": 32 hexadecimal digits, or a UUID. */
int sonde_http_trace(const struct sonde_http_request *r, struct sonde_response *answer,
                     uint64_t *hi, uint64_t *lo);
/* Whether this agent captures profiles, on demand and in sessions. */
int sonde_http_has_profiler(const struct sonde_http_request *r, struct sonde_response *answer);
int sonde_http_has_sessions(const struct sonde_http_request *r, struct sonde_response *answer);

/* The kind of samples that "type" names; -1 = there is none, or no such kind. */
int sonde_http_kind(const struct sonde_http_request *r);

#endif
