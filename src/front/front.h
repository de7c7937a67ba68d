/* front.h - a reverse proxy before an inference server, that measures what it passes on.
 *
 * Everything a client sends goes to one upstream and everything that comes back goes to the
 * client, as it comes: bytes are never held back to be looked at. Paths of sonde itself are handed
 * to its own HTTP server instead, through a socket pair, so that one port does all.
 *
 * One thread does it, with epoll and sockets that do not block; so observers are called one at a
 * time and must be quick. Memory of a connection is constant: when one side does not take what the
 * other sends, that one is not read. */
#ifndef SONDE_FRONT_FRONT_H
#define SONDE_FRONT_FRONT_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "front/scan.h"

/* ---- What is measured --------------------------------------------------------------------- */

/* X(id, text): what a path asks for; the text is the label `route`. */
#define SONDE_FRONT_ROUTES(X)                                                                  \
    X(OTHER, "other")                                                                          \
    X(CHAT, "chat")                  /* …/chat/completions */                                  \
    X(COMPLETIONS, "completions")    /* …/completions */                                       \
    X(RESPONSES, "responses")        /* …/responses */                                         \
    X(EMBEDDINGS, "embeddings")      /* …/embeddings, llama.cpp's /embedding */                \
    X(MESSAGES, "messages")          /* …/v1/messages */                                       \
    X(LLAMA_COMPLETION, "llama_completion") /* llama.cpp's /completion and /infill */          \
    X(OLLAMA_CHAT, "ollama_chat")    /* /api/chat */                                           \
    X(OLLAMA_GENERATE, "ollama_generate")   /* /api/generate */                                \
    X(OLLAMA_EMBED, "ollama_embed")  /* /api/embed, /api/embeddings */                         \
    X(TGI_GENERATE, "tgi_generate")  /* /generate and /generate_stream */

enum sonde_front_route {
#define SONDE__X(id, text) SONDE_FRONT_##id,
    SONDE_FRONT_ROUTES(SONDE__X)
#undef SONDE__X
    SONDE_FRONT_ROUTE_COUNT
};

const char *sonde_front_route_name(enum sonde_front_route route);
/* path without a query. Only POST is anything but OTHER. */
enum sonde_front_route sonde_front_route_of(const char *method, const char *path);

enum sonde_front_outcome {
    SONDE_FRONT_OK,
    SONDE_FRONT_ERROR,     /* the upstream says so: a status of 400 and up, or in the stream */
    SONDE_FRONT_CANCELLED, /* the client went away, or sent what is not HTTP */
    SONDE_FRONT_UPSTREAM,  /* the upstream could not be reached, or broke off */
};

/* Two servers that are compared (struct sonde_front_ab). */
enum sonde_front_arm {
    SONDE_FRONT_NO_ARM,    /* the request is no part of a comparison */
    SONDE_FRONT_A,         /* the upstream */
    SONDE_FRONT_B,
    SONDE_FRONT_ARM_COUNT
};

#define SONDE_FRONT_PATH_MAX 255
#define SONDE_FRONT_ERROR_MAX 47
#define SONDE_FRONT_PROFILE_ID_MAX 63

/* One request. Times are CLOCK_MONOTONIC in ns, 0 = has not happened. */
struct sonde_front_request {
    uint64_t id;                     /* from 1, in the order of arrival */
    uint64_t arrived_ns;             /* first byte read */
    uint64_t arrived_unix_ns;        /* the same by the wall clock */
    char method[33];
    char path[SONDE_FRONT_PATH_MAX + 1]; /* without the query; cut */
    enum sonde_front_route route;
    uint64_t trace_hi, trace_lo;     /* the client's, or new */
    uint64_t parent;                 /* span of the client; 0 = the trace is new */
    uint64_t span;                   /* of this request; what the upstream gets as parent */
    int profile;                     /* X-Profile: true */
    enum sonde_front_arm arm;        /* as it was assigned; of a mirrored one from SENT on */
    int copy;                        /* it is one that no client waits for: a mirrored request */

    /* From the request's body; complete when SENT. */
    char model[SONDE_JSON_TEXT_MAX + 1]; /* else from the answer; UTF-8; "" = unknown */
    int stream;                      /* -1 = not said */
    int64_t max_tokens;              /* -1 = not said */

    uint64_t whole_ns;               /* of those with an arm: last byte read from the client */
    uint64_t sent_ns;                /* last byte given to the upstream */
    uint64_t headers_ns;             /* head of the answer read */
    unsigned status;                 /* of the answer the client gets */
    int encoded;                     /* it is compressed: tokens cannot be seen */
    uint64_t first_byte_ns;          /* of the answer's body */
    uint64_t first_token_ns, last_token_ns; /* of pieces that carry text or a tool call */
    uint64_t chunks;                 /* how many of those */
    unsigned pieces;                 /* TOKEN: how many of them came at last_token_ns */

    /* When it has ENDED. */
    uint64_t ended_ns;               /* last byte given to the client, or when it broke off */
    enum sonde_front_outcome outcome;
    char error[SONDE_FRONT_ERROR_MAX + 1]; /* what kind of failure, for a label; "" = none */
    char fell_back[SONDE_FRONT_ERROR_MAX + 1]; /* B could not be reached, for this reason, and A
                                        has answered in its place; "" = no */
    struct sonde_scan_usage usage;
    uint64_t bytes_in, bytes_out;    /* read from, and written to, the client */

    /* The observer's. */
    void *user;
    char profile_id[SONDE_FRONT_PROFILE_ID_MAX + 1]; /* filled at HEADERS or before: goes into
                                        the answer as X-Profile-Id; visible ASCII */
};

enum sonde_front_event {
    SONDE_FRONT_ARRIVED,  /* the head has been read: id, arrived_ns, path, route, trace, profile */
    SONDE_FRONT_SENT,     /* the whole request has been passed on; not if the answer came first */
    SONDE_FRONT_HEADERS,  /* the answer begins; nothing of it has been passed on */
    SONDE_FRONT_BYTE,     /* the first byte of its body */
    SONDE_FRONT_TOKEN,    /* pieces that carry text have been read, at last_token_ns */
    SONDE_FRONT_ENDED,    /* once for each that ARRIVED; r is gone afterwards */
};

/* X(id, text): why a request that should have been mirrored was not; the text is a label. */
#define SONDE_FRONT_DROP_REASONS(X)                                                            \
    X(TOO_LARGE, "too_large")  /* longer than copy_bytes_max */                                \
    X(BUSY, "busy")            /* copies_max are under way: B is slower than its share needs */ \
    X(NO_ROOM, "no_room")      /* all of them hold copies_bytes_max, or memory has run out */

enum sonde_front_drop {
#define SONDE__X(id, text) SONDE_FRONT_DROP_##id,
    SONDE_FRONT_DROP_REASONS(SONDE__X)
#undef SONDE__X
    SONDE_FRONT_DROPS
};
const char *sonde_front_drop_name(enum sonde_front_drop reason);

/* How things stand now, but for the totals. */
struct sonde_front_state {
    uint64_t clients, upstreams, upstreams_idle; /* connections */
    uint64_t in_flight;              /* requests that have arrived and not ended */
    uint64_t accepted_total, connected_total, reused_total; /* connections, and requests that
                                        found one open */
    uint64_t refused_total;          /* requests that are not HTTP, or not for this host */
    uint64_t copies;                 /* mirrored requests under way */
    uint64_t copies_total;           /* that were begun … */
    uint64_t dropped_total[SONDE_FRONT_DROPS]; /* … and that were not, by why */
};

struct sonde_front_observer {
    /* Both on the front's thread; NULL = not wanted. r may be changed where it says so. */
    void (*event)(void *arg, enum sonde_front_event event, struct sonde_front_request *r);
    /* Within a tenth of a second after anything happened, and at the end. */
    void (*tick)(void *arg, const struct sonde_front_state *state);
    void *arg;
    /* On that thread too. After ARRIVED of a request with X-Profile, every few
     * milliseconds: 0 = nothing of it may go to the upstream yet, for two seconds at the most.
     * NULL = all may. */
    int (*ready)(void *arg, const struct sonde_front_request *r);
};

/* ---- The front ---------------------------------------------------------------------------- */

#define SONDE_FRONT_HOST_MAX 255

struct sonde_front_upstream {
    char authority[SONDE_FRONT_HOST_MAX + 8]; /* host:port, for Host */
    char host[SONDE_FRONT_HOST_MAX + 1]; /* without a port, an address without brackets */
    char prefix[256];                /* before every path; "" or "/prefix" */
    int https;                       /* it was an https:// URL */
    struct sockaddr_storage address[8];
    size_t address_count;
};

/* "http://host[:port][/prefix]", and the addresses it has now. SONDE_EINVAL with a sentence for
 * anything else (https too: put a TLS terminator between), SONDE_ENOENT if it has no address. */
int sonde_front_upstream_parse(const char *url, struct sonde_front_upstream *out,
                               struct sonde_err *err);
/* The same for who else speaks to servers, also of https:// URLs; what: how sentences call the one
 * that is meant. */
int sonde_front_url_parse(const char *url, const char *what, struct sonde_front_upstream *out,
                          struct sonde_err *err);

/* A second server, B, that inference requests are split or mirrored to. Which of them is a matter
 * of a hash of the session they say they belong to, else of their trace: what belongs together
 * goes to the same server, also after a restart and through another front. All else is A's. */
enum sonde_front_ab_mode {
    SONDE_FRONT_ONE,             /* there is no B */
    SONDE_FRONT_SPLIT,           /* B answers its share; A does so while B cannot be reached */
    SONDE_FRONT_MIRROR,          /* A answers all, B gets copies, whose answers are dropped */
};

#define SONDE_FRONT_SHARE_ALL 1000000u
#define SONDE_FRONT_SESSION_MAX 63

struct sonde_front_ab {
    enum sonde_front_ab_mode mode;
    struct sonde_front_upstream upstream;
    uint32_t share_ppm;          /* in millionths; SONDE_FRONT_SHARE_ALL = all */
    char session[SONDE_FRONT_SESSION_MAX + 1]; /* name of the field that says it; "" = none */
    /* Of mirrored requests. */
    uint32_t copies_max;         /* at a time; 0 = 64 */
    uint32_t copy_bytes_max;     /* of one's head and body; 0 = 1 MiB */
    uint32_t copies_bytes_max;   /* of all that wait to be sent; 0 = 16 MiB */
    uint32_t copy_timeout_ms;    /* B does nothing for so long; 0 = 75000 */
};

/* Which server gets a request of this session, or without one (length 0) of this trace. */
enum sonde_front_arm sonde_front_arm_of(uint32_t share_ppm, const char *session,
                                        size_t session_len, uint64_t trace_hi, uint64_t trace_lo);

/* "10%", "0.1" or "12.5 %" in millionths; more than nothing, at most all. SONDE_EINVAL with a
 * sentence. */
int sonde_front_share_parse(const char *text, uint32_t *ppm, struct sonde_err *err);

struct sonde_front_options {
    int listen_fd;               /* listening; taken over on success */
    struct sonde_front_upstream upstream;
    struct sonde_front_ab ab;
    struct sonde_front_observer observer;

    /* Paths of sonde: 1 = not for the upstream. NULL = there are none. */
    int (*own)(const char *path, void *arg);
    /* Serve HTTP on fd, one end of a socket pair, for whoever `who` said; takes fd in any case.
     * 0 = it will be. */
    int (*adopt)(int fd, int64_t who, void *arg);
    /* Who is at the other end of a client's connection; asked once for each that asks for a path
     * of sonde. Connections to sonde's server are not shared between two of them. NULL = 0. */
    int64_t (*who)(int client_fd, void *arg);
    /* 1 = a Host of this value is meant for us; NULL = any. A page that rebinds its name to
     * our address is told by it, and the upstream cannot do so: it sees a Host of our making. */
    int (*host_ok)(const char *host, void *arg);
    void *arg;                   /* of these */

    uint32_t connections_max;    /* clients at a time; then those without a request go, the
                                    quietest first; 0 = 4096 */
    uint32_t connect_timeout_ms; /* 0 = 5000 */
    uint32_t head_timeout_ms;    /* for a client to send a request's head; 0 = 30000 */
    uint32_t idle_timeout_ms;    /* connections of clients without a request; 0 = 75000 */
    uint32_t stall_timeout_ms;   /* of those that do not send the rest of one, or do not take
                                    the answer; 0 = 75000 */
    uint32_t poll_percent;       /* of a CPU, to look for events before sleeping; 0 = not; poll.h */
    uint32_t drain_ms;           /* how long stop waits for requests under way; 0 = not */
};

struct sonde_front;

int sonde_front_start(const struct sonde_front_options *options, struct sonde_front **out,
                      struct sonde_err *err);
/* No new connections; requests under way have drain_ms to end. NULL is fine. */
void sonde_front_stop(struct sonde_front *f);

#endif
