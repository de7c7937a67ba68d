/* server_answer.c - an answer on its way: its headers, compressed if the client takes that, or as a
 * stream that the library asks for more of as long as it lasts. */
#include "serve/http/server_private.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/gz.h"
#include "serve/http/accept.h"
#include "serve/http/status.h"
#include "sonde/sonde.h"

enum {
    GZIP_MIN = 1024,         /* shorter answers are sent as they are */
    GZIP_LEVEL = 1,          /* most of the gain at a fraction of the time */
    STREAM_BLOCK = 16 << 10, /* that a stream is asked for at once */
    SMALL = 1 << 20,         /* answers that are always sent, whatever else is on its way */
};

/* ---- What is on its way ---------------------------------------------------------------------- */

int sonde_server_hold(struct sonde_server *s, size_t bytes)
{
    const size_t before = __atomic_fetch_add(&s->held, bytes, __ATOMIC_RELAXED);
    /* One alone may be of any size. */
    if (!before || before + bytes <= s->limits.held_bytes) return 1;
    sonde_server_drop(s, bytes);
    return 0;
}

void sonde_server_drop(struct sonde_server *s, size_t bytes)
{
    __atomic_fetch_sub(&s->held, bytes, __ATOMIC_RELAXED);
}

/* The body of an answer, until it has been read. */
struct server_answer_held {
    struct sonde_server *server;
    size_t bytes;            /* 0 = it is not counted */
    char *data;
};

static void server_answer_release_held(void *arg)
{
    struct server_answer_held *h = arg;
    sonde_server_drop(h->server, h->bytes);
    sonde__free(h->data);
    sonde__free(h);
}

/* ---- Headers --------------------------------------------------------------------------------- */

static const char *server_answer_header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static void server_answer_compress(struct sonde_response *a, int *compressed)
{
    struct sonde_buf small;
    sonde_buf_init(&small, a->body.len);
    *compressed = sonde_gz_pack(a->body.data, a->body.len, GZIP_LEVEL, &small) == 0;
    if (*compressed) {
        sonde_buf_release(&a->body);
        a->body = small;
    } else {
        sonde_buf_release(&small);
    }
}

/* What only pages and their parts have. A file is kept and asked for again with its ETag each time,
 * so a new agent's pages are never mixed with an old one's. */
static void add_page_headers(struct MHD_Response *response, const struct sonde_response *a,
                             int compressed)
{
    char etag[SONDE_ETAG_MAX];
    if (a->file) {
        sonde_accept_etag(etag, a->file->hash, compressed);
        MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, etag);
    }
    if (a->location[0]) MHD_add_response_header(response, MHD_HTTP_HEADER_LOCATION, a->location);
    if (a->policy) {
        MHD_add_response_header(response, "Content-Security-Policy", a->policy);
        MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    }
}

enum sonde_auth_page sonde_server_page(const struct sonde_server *s,
                                       struct MHD_Connection *connection)
{
    return sonde_auth_page(s->auth, server_answer_header(connection, MHD_HTTP_HEADER_ORIGIN),
                           server_answer_header(connection, MHD_HTTP_HEADER_HOST));
}

/* CORS: pages of server.hosts may read all answers, also those that say what is wrong. There are no
 * cookies, so credentials are not let through: a page sends the token that it was given itself. */
static void add_origin_headers(struct MHD_Response *response, const struct sonde_server *s,
                               struct MHD_Connection *connection, const struct sonde_response *a)
{
    if (sonde_auth_shares(s->auth)) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ORIGIN);
    }
    if (sonde_server_page(s, connection) != SONDE_PAGE_SHARED) return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin",
                            server_answer_header(connection, MHD_HTTP_HEADER_ORIGIN));
    MHD_add_response_header(response, "Access-Control-Expose-Headers", "Retry-After");
    if (!a->preflight) return;
    MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST, DELETE");
    MHD_add_response_header(response, "Access-Control-Allow-Headers",
                            "Authorization, Content-Type, Last-Event-ID");
    MHD_add_response_header(response, "Access-Control-Max-Age", "600");
}

static void add_headers(struct MHD_Response *response, const struct sonde_response *a,
                        int compressed)
{
    char value[128];
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                            a->content_type ? a->content_type : "application/json");
    MHD_add_response_header(response, MHD_HTTP_HEADER_VARY,
                            a->vary_accept ? "Accept, Accept-Encoding" : "Accept-Encoding");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL,
                            a->file ? "no-cache" : "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (compressed) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    add_page_headers(response, a, compressed);
    /* nginx and its kin would keep events back until a buffer is full. */
    if (a->stream) MHD_add_response_header(response, "X-Accel-Buffering", "no");
    if (a->status == 401) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    }
    if (a->status == 405) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, a->allow);
    if (a->retry_after_s) {
        snprintf(value, sizeof(value), "%u", a->retry_after_s);
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, value);
    }
    if (a->filename && (!a->status || a->status == 200)) {
        snprintf(value, sizeof(value), "attachment; filename=\"%s\"", a->filename);
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION, value);
    }
}

/* ---- Streams --------------------------------------------------------------------------------- */

static ssize_t read_stream(void *arg, uint64_t at, char *out, size_t max)
{
    (void)at;
    const ssize_t n = sonde_stream_read(arg, out, max);
    return n < 0 ? MHD_CONTENT_READER_END_OF_STREAM : n;
}

static void close_stream(void *arg) { sonde_stream_close(arg); }

static void pause_stream(void *connection) { MHD_suspend_connection(connection); }

static void resume_stream(void *connection) { MHD_resume_connection(connection); }

static struct MHD_Response *make_stream(struct MHD_Connection *connection, struct sonde_response *a)
{
    sonde_stream_bind(a->stream, connection, pause_stream, resume_stream);
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, a->stream, close_stream);
    if (!response) sonde_stream_close(a->stream);
    return response;
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void tell_too_many(struct sonde_response *a)
{
    sonde_buf_release(&a->body);
    a->packed = 0;
    a->retry_after_s = 1;
    sonde_response_error(a, 503,
                         "answers that other clients are still reading use too much memory: try "
                         "again");
}

/* Takes what is in b, which counts if it is large. */
static struct MHD_Response *make_held(struct sonde_server *s, struct sonde_buf *b)
{
    const size_t len = b->len, bytes = b->cap > SMALL ? b->cap : 0;
    char *data = sonde_buf_take(b);
    struct server_answer_held *h = data ? sonde__calloc(1, sizeof(*h)) : NULL;
    struct MHD_Response *response = NULL;
    if (h) {
        *h = (struct server_answer_held){ s, bytes, data };
        response = MHD_create_response_from_buffer_with_free_callback_cls(
            len, data, server_answer_release_held, h);
    }
    if (response) return response;
    sonde_server_drop(s, bytes);
    sonde__free(data);
    sonde__free(h);
    return NULL;
}

static struct MHD_Response *server_answer_make_whole(struct sonde_server *s,
                                                     struct MHD_Connection *connection,
                                                     struct sonde_response *a, int *compressed)
{
    const char *encoding = server_answer_header(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    if (a->body.len > GZIP_MIN && !a->packed && sonde_accept_gzip(encoding)) {
        server_answer_compress(a, compressed);
    }
    if (a->body.cap > SMALL && !sonde_server_hold(s, a->body.cap)) {
        tell_too_many(a);
        *compressed = 0;
    }
    return make_held(s, &a->body);
}

static void server_answer_tell_failure(struct sonde_response *a)
{
    const int full = a->body.error == SONDE_EFULL;
    sonde_buf_release(&a->body);
    a->packed = 0;
    a->file = NULL;
    if (full) {
        sonde_response_error(a, sonde_http_status(SONDE_EFULL),
                             "the answer is larger than %d MiB: ask for less, by name",
                             SONDE_ANSWER_MIB_MAX);
    } else {
        sonde_response_error(a, 500, "the agent is out of memory");
    }
}

/* Nothing if the client has it, else it as it is stored, else unpacked. */
static struct MHD_Response *make_file(struct sonde_server *s, struct MHD_Connection *connection,
                                      struct sonde_response *a, int *compressed)
{
    const struct sonde_web_file *f = a->file;
    a->content_type = f->content_type;
    *compressed =
        sonde_accept_gzip(server_answer_header(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING));
    if (sonde_accept_has(server_answer_header(connection, MHD_HTTP_HEADER_IF_NONE_MATCH),
                         f->hash)) {
        a->status = 304;
        return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    }
    if (*compressed) {
        return MHD_create_response_from_buffer(f->packed_len, (void *)(uintptr_t)f->packed,
                                               MHD_RESPMEM_PERSISTENT);
    }
    if (sonde_gz_unpack(f->packed, f->packed_len, &a->body) != 0) server_answer_tell_failure(a);
    return make_held(s, &a->body);
}

enum MHD_Result sonde_server_send(struct sonde_server *s, struct MHD_Connection *connection,
                                  struct sonde_response *a)
{
    int compressed = 0;
    if (a->body.error) server_answer_tell_failure(a);
    struct MHD_Response *response = a->stream ? make_stream(connection, a)
                                    : a->file
                                          ? make_file(s, connection, a, &compressed)
                                          : server_answer_make_whole(s, connection, a, &compressed);
    if (a->stream || a->file) sonde_buf_release(&a->body);
    if (!response) return MHD_NO;
    add_headers(response, a, compressed);
    add_origin_headers(response, s, connection, a);
    const enum MHD_Result queued =
        MHD_queue_response(connection, a->status ? a->status : 200, response);
    MHD_destroy_response(response);
    return queued;
}
