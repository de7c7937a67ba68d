/* http_body.c - where a body ends; see http.h.
 *
 * Chunks are passed on as they are, size lines and trailers too, so every byte of them is checked
 * against the grammar: what this parser does not understand must not reach the next one. */
#include "base/array.h"
#include "front/http.h"

#include <assert.h>
#include <string.h>

enum { SIZE_LINE_MAX = 4096, TRAILERS_MAX = 8192, DIGITS_MAX = 15 };

enum chunk_state {
    SIZE,          /* digits */
    EXTENSION,     /* behind the size, up to the CR */
    SIZE_LF,
    DATA,
    DATA_CR, DATA_LF,
    TRAILER,       /* first byte of a line */
    TRAILER_NAME, TRAILER_VALUE, TRAILER_LF, /* of it */
    END_LF,
};

void sonde_http_body_of_request(struct sonde_http_body *b, const struct sonde_http_head *h)
{
    assert(!h->response && h->progress == SONDE_HTTP_DONE);
    *b = (struct sonde_http_body){ .framing = SONDE_HTTP_NONE };
    if (h->chunked) {
        b->framing = SONDE_HTTP_CHUNKED;
    } else if (h->length) {
        b->framing = SONDE_HTTP_LENGTH;
        b->left = h->length;
    } else {
        b->progress = SONDE_HTTP_DONE;
    }
}

void sonde_http_body_of_response(struct sonde_http_body *b, const struct sonde_http_head *h,
                                 int to_head_request)
{
    assert(h->response && h->progress == SONDE_HTTP_DONE);
    *b = (struct sonde_http_body){ .framing = SONDE_HTTP_NONE };
    const int none = to_head_request || h->status < 200 || h->status == 204 || h->status == 304;
    if (none || (h->has_length && !h->length)) {
        b->progress = SONDE_HTTP_DONE;
    } else if (h->chunked) {
        b->framing = SONDE_HTTP_CHUNKED;
    } else if (h->has_length) {
        b->framing = SONDE_HTTP_LENGTH;
        b->left = h->length;
    } else {
        b->framing = SONDE_HTTP_CLOSE;
    }
}

static int http_body_hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void http_body_refuse(struct sonde_http_body *b, const char *problem)
{
    b->problem = problem;
    b->progress = SONDE_HTTP_BAD;
}

/* Expect one certain byte. */
static void http_body_demand(struct sonde_http_body *b, char c, char wanted, enum chunk_state next)
{
    if (c != wanted) http_body_refuse(b, "a chunk's line does not end in CR LF");
    else b->state = (int)next;
}

static void size_byte(struct sonde_http_body *b, char c)
{
    const int digit = http_body_hex(c);
    if (digit >= 0) {
        if (++b->digits > DIGITS_MAX) http_body_refuse(b, "a chunk's size is too large");
        else b->left = b->left << 4 | (uint64_t)digit;
    } else if (b->digits == 0) {
        http_body_refuse(b, "a chunk has no size");
    } else if (c == '\r') {
        b->state = SIZE_LF;
    } else if (c == ';') {
        b->state = EXTENSION;
    } else {
        http_body_refuse(b, "a chunk's size is not a hexadecimal number");
    }
}

static int http_body_is_text(char c) { return ((unsigned char)c >= ' ' && c != 0x7f) || c == '\t'; }

static int http_body_is_name(char c)
{
    return c > ' ' && c < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", c);
}

/* Fields that decide how a message is read, where it goes or who sent it: in a trailer they come
 * too late to mean that, and the next parser might merge them into the head all the same (RFC 9110,
 * 6.5.1). */
static int is_forbidden(const char *name, size_t len)
{
    static const char *const names[] = {
        "age", "authorization", "cache-control", "connection", "content-encoding",
        "content-length", "content-range", "content-type", "cookie", "expect", "expires",
        "forwarded", "host",
        "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since",
        "keep-alive", "max-forwards", "pragma", "proxy-authenticate", "proxy-authorization",
        "proxy-connection", "range", "set-cookie", "te", "trailer", "transfer-encoding", "upgrade",
        "vary", "via", "www-authenticate", "x-forwarded-for", "x-forwarded-host",
        "x-forwarded-proto",
    };
    for (size_t i = 0; i < SONDE_COUNT(names); i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) return 1;
    }
    return 0;
}

static void name_byte(struct sonde_http_body *b, char c)
{
    const char lower = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    if (b->name_len < sizeof(b->name)) b->name[b->name_len] = lower;
    b->name_len++; /* longer ones are none of ours */
}

static void trailer_byte(struct sonde_http_body *b, char c)
{
    if (++b->line_len > TRAILERS_MAX) {
        http_body_refuse(b, "the trailers are longer than 8 KiB");
    } else if (b->state == TRAILER) {
        b->name_len = 0;
        if (c == '\r') b->state = END_LF;
        else if (http_body_is_name(c)) b->state = TRAILER_NAME;
        else http_body_refuse(b, "a trailer is not NAME: VALUE");
        if (b->state == TRAILER_NAME) name_byte(b, c);
    } else if (b->state == TRAILER_NAME) {
        if (c == ':' && b->name_len <= sizeof(b->name) && is_forbidden(b->name, b->name_len)) {
            http_body_refuse(b, "a trailer is a field that belongs in the head");
        } else if (c == ':') {
            b->state = TRAILER_VALUE;
        } else if (http_body_is_name(c)) {
            name_byte(b, c);
        } else {
            http_body_refuse(b, "a trailer is not NAME: VALUE");
        }
    } else if (c == '\r') {
        b->state = TRAILER_LF;
    } else if (!http_body_is_text(c)) {
        http_body_refuse(b, "a trailer's value holds control characters");
    }
}

static void framing_byte(struct sonde_http_body *b, char c)
{
    switch ((enum chunk_state)b->state) {
    case SIZE: size_byte(b, c); break;
    case EXTENSION:
        if (c == '\r') b->state = SIZE_LF;
        else if (!http_body_is_text(c))
            http_body_refuse(b, "a chunk extension holds control characters");
        else if (++b->line_len > SIZE_LINE_MAX)
            http_body_refuse(b, "a chunk extension is too long");
        break;
    case SIZE_LF:
        http_body_demand(b, c, '\n', b->left ? DATA : TRAILER);
        b->line_len = 0;
        break;
    case DATA_CR: http_body_demand(b, c, '\r', DATA_LF); break;
    case DATA_LF:
        http_body_demand(b, c, '\n', SIZE);
        b->digits = 0;
        break;
    case TRAILER:
    case TRAILER_NAME:
    case TRAILER_VALUE: trailer_byte(b, c); break;
    case TRAILER_LF: http_body_demand(b, c, '\n', TRAILER); break;
    case END_LF:
        http_body_demand(b, c, '\n', SIZE);
        if (b->progress == SONDE_HTTP_MORE) b->progress = SONDE_HTTP_DONE;
        break;
    case DATA: break;
    }
}

static size_t feed_chunked(struct sonde_http_body *b, const char *data, size_t len,
                           struct sonde_http_span *payload)
{
    size_t at = 0;
    while (at < len && b->progress == SONDE_HTTP_MORE) {
        if (b->state != DATA) {
            framing_byte(b, data[at]);
            at += b->progress != SONDE_HTTP_BAD;
            continue;
        }
        const size_t n = b->left < len - at ? (size_t)b->left : len - at;
        *payload = (struct sonde_http_span){ (uint32_t)at, (uint32_t)n };
        b->left -= n;
        if (!b->left) b->state = DATA_CR;
        return at + n;
    }
    return at;
}

size_t sonde_http_body_feed(struct sonde_http_body *b, const char *data, size_t len,
                            struct sonde_http_span *payload)
{
    *payload = (struct sonde_http_span){ 0, 0 };
    if (b->progress != SONDE_HTTP_MORE || !len) return 0;
    if (len > UINT32_MAX) len = UINT32_MAX;
    if (b->framing == SONDE_HTTP_CHUNKED) return feed_chunked(b, data, len, payload);
    if (b->framing == SONDE_HTTP_LENGTH) {
        if (len > b->left) len = (size_t)b->left;
        b->left -= len;
        if (!b->left) b->progress = SONDE_HTTP_DONE;
    }
    payload->len = (uint32_t)len;
    return len;
}

enum sonde_http_progress sonde_http_body_end(struct sonde_http_body *b)
{
    if (b->progress == SONDE_HTTP_MORE) {
        if (b->framing == SONDE_HTTP_CLOSE) b->progress = SONDE_HTTP_DONE;
        else http_body_refuse(b, "the connection ended in the middle of the body");
    }
    return b->progress;
}
