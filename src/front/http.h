/* http.h - HTTP/1.1 messages that come in pieces: heads are parsed line by line, bodies are
 * followed to their end.
 *
 * Strict on purpose. Two parsers that disagree on where a message ends let one client put words
 * into the mouth of another (request smuggling), so whatever could be read in two ways is refused:
 * lines without CR, folded lines, blanks before a colon, lengths that are repeated or stand beside
 * a transfer coding, codings other than "chunked". Nothing here allocates, keeps pointers to data
 * or depends on how the bytes were cut. */
#ifndef SONDE_FRONT_HTTP_H
#define SONDE_FRONT_HTTP_H

#include <stddef.h>
#include <stdint.h>

#define SONDE_HTTP_HEAD_MAX (32u << 10) /* bytes of a start line and its fields */
#define SONDE_HTTP_FIELDS_MAX 128u

/* Fields that mean something to a proxy. */
#define SONDE_HTTP_FIELDS(X)                                                                   \
    X(ACCEPT_ENCODING, "accept-encoding")                                                      \
    X(CONNECTION, "connection")                                                                \
    X(CONTENT_ENCODING, "content-encoding")                                                    \
    X(CONTENT_LENGTH, "content-length")                                                        \
    X(CONTENT_TYPE, "content-type")                                                            \
    X(EXPECT, "expect")                                                                        \
    X(HOST, "host")                                                                            \
    X(HTTP2_SETTINGS, "http2-settings")                                                        \
    X(KEEP_ALIVE, "keep-alive")                                                                \
    X(PROXY_CONNECTION, "proxy-connection")                                                    \
    X(TE, "te")                                                                                \
    X(TRACEPARENT, "traceparent")                                                              \
    X(TRACERESPONSE, "traceresponse")                                                          \
    X(TRACESTATE, "tracestate")                                                                \
    X(TRANSFER_ENCODING, "transfer-encoding")                                                  \
    X(UPGRADE, "upgrade")                                                                      \
    X(VIA, "via")                                                                              \
    X(X_FORWARDED_FOR, "x-forwarded-for")                                                      \
    X(X_FORWARDED_HOST, "x-forwarded-host")                                                    \
    X(X_FORWARDED_PROTO, "x-forwarded-proto")                                                  \
    X(X_PROFILE, "x-profile")

enum sonde_http_field_id {
    SONDE_HTTP_OTHER,
#define SONDE__X(id, name) SONDE_HTTP_##id,
    SONDE_HTTP_FIELDS(SONDE__X)
#undef SONDE__X
    SONDE_HTTP_FIELD_IDS
};

enum sonde_http_progress { SONDE_HTTP_MORE, SONDE_HTTP_DONE, SONDE_HTTP_BAD };

struct sonde_http_span { uint32_t at, len; }; /* of the head's bytes */

struct sonde_http_field {
    struct sonde_http_span name, value;       /* value without blanks around it */
    enum sonde_http_field_id id;
};

struct sonde_http_head {
    int response;                    /* 0 = a request is expected */
    enum sonde_http_progress progress;
    uint32_t line;                   /* where the line begins that is not complete yet */
    uint32_t scanned;                /* up to here no line ends */
    uint32_t len;                    /* DONE: bytes of the head, with the empty line */
    int started;                     /* the start line is parsed */
    const char *problem;             /* BAD: half a sentence; static */
    unsigned problem_status;         /* BAD: what to answer to a request */

    struct sonde_http_span method, target; /* request */
    unsigned status;                 /* response: 100 to 999 */
    struct sonde_http_span reason;
    int minor;                       /* HTTP/1.0 or HTTP/1.1 */
    struct sonde_http_field field[SONDE_HTTP_FIELDS_MAX];
    uint32_t field_count;
    uint16_t first[SONDE_HTTP_FIELD_IDS]; /* index + 1 of the first of each; 0 = none */

    int chunked, has_length;
    uint64_t length;
    int says_close, says_keep_alive, says_upgrade; /* tokens of Connection */
};

void sonde_http_head_init(struct sonde_http_head *h, int response);

/* Go on parsing. data is the message from its first byte on, each time as much as there is; what
 * follows the head is not looked at. Once DONE or BAD it stays so. */
enum sonde_http_progress sonde_http_head_feed(struct sonde_http_head *h, const char *data,
                                              size_t len);

/* The first field of this kind, NULL = there is none. */
const struct sonde_http_field *sonde_http_field(const struct sonde_http_head *h,
                                                enum sonde_http_field_id id);

/* 1 if a comma-separated list holds this token, in any case. */
int sonde_http_list_has(const char *list, size_t len, const char *token);

/* 1 if the connection may be used for another message after this one; the body's framing apart. */
int sonde_http_keeps_alive(const struct sonde_http_head *h);

/* ---- Bodies ------------------------------------------------------------------------------- */

enum sonde_http_framing {
    SONDE_HTTP_NONE,                 /* no body */
    SONDE_HTTP_LENGTH,
    SONDE_HTTP_CHUNKED,
    SONDE_HTTP_CLOSE,                /* until the connection ends; responses only */
};

struct sonde_http_body {
    enum sonde_http_framing framing;
    enum sonde_http_progress progress;
    uint64_t left;                   /* bytes left of the body, or of the chunk */
    int state;                       /* CHUNKED: private to http_body.c */
    uint32_t digits, line_len;       /* of the size; of the line, or of all trailers */
    uint32_t name_len;               /* of a trailer's name … */
    char name[24];                   /* … and its first bytes, in lower case */
    const char *problem;             /* BAD: half a sentence; static */
};

/* How the message's body is delimited, from a head that is DONE. */
void sonde_http_body_of_request(struct sonde_http_body *b, const struct sonde_http_head *h);
void sonde_http_body_of_response(struct sonde_http_body *b, const struct sonde_http_head *h,
                                 int to_head_request);

/* Follow the body through data. Returns the bytes that belong to it, and in *payload the ones
 * among them that are content: at most one run a call, so call again with the rest until all is
 * consumed or progress is not MORE. Bytes from the first bad one on are not consumed. */
size_t sonde_http_body_feed(struct sonde_http_body *b, const char *data, size_t len,
                            struct sonde_http_span *payload);

/* The connection has ended. DONE if the body may end there, BAD if it is cut off. */
enum sonde_http_progress sonde_http_body_end(struct sonde_http_body *b);

#endif
