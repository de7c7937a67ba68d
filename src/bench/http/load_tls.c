/* load_tls.c - TLS of a loop's connections, by OpenSSL; see load_private.h.
 *
 *   socket ─recv─▶ loop->sealed ─BIO─▶ SSL_read ─▶ loop->buffer ─▶ the answer
 *   request ─▶ SSL_write ─BIO─▶ send, and what the kernel does not take: held
 *
 * An event costs one recv, as without TLS, however many records came. OpenSSL takes them from the
 * loop's buffer and always all of them, since it never waits to write: what the kernel does not
 * take is held for the connection, and the next part of a request is sealed when nothing is. So of
 * OpenSSL's two "wants" only one is left: that the server has to speak first, in a handshake or
 * when it asks for another one in the middle (TLS 1.2's renegotiation). Rejected: OpenSSL's own
 * BIO of sockets, which reads each record with two calls, writes without MSG_NOSIGNAL, and with
 * which reads wait for writes; memory BIOs, which copy all of it once more.
 *
 * Memory: records' buffers are given back whenever they are empty, so that an idle connection
 * keeps only OpenSSL's state. A server's newest session is tried by each connection that is opened
 * later. */
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "bench/http/load_private.h"
#include "sonde/sonde.h"

enum {
    TLS_RECORD = 16 << 10,     /* bytes of HTTP in a record at most */
    TLS_HELD_MAX = 256 << 10,  /* a record, and what a server can make us say meanwhile */
};

/* ---- Between OpenSSL and the socket ---------------------------------------------------------- */

/* What the kernel takes of it. A connection that broke takes all: what the server said before can
 * still be read. */
static size_t tls_send(struct load_conn *c, const char *data, size_t len)
{
    size_t at = 0;
    while (at < len && !c->broken) {
        const ssize_t n = send(c->fd, data + at, len - at, MSG_NOSIGNAL);
        if (n > 0) at += (size_t)n;
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return at;
        else if (n < 0 && errno == EINTR) continue;
        else c->broken = 1;
    }
    return len;
}

static int tls_bio_write(BIO *bio, const char *data, int len)
{
    struct load_conn *c = BIO_get_data(bio);
    struct load_tls *t = c->tls;
    const size_t all = (size_t)len, sent = t->held_len ? 0 : tls_send(c, data, all);
    const size_t left = all - sent;
    BIO_clear_retry_flags(bio);
    if (!left) return len;
    const size_t needed = t->held_at + t->held_len + left;
    if (needed > TLS_HELD_MAX || SONDE_ARRAY_RESERVE(t->held, t->held_cap, needed)) return -1;
    memcpy(t->held + t->held_at + t->held_len, data + sent, left);
    t->held_len += (uint32_t)left;
    return len;
}

static int tls_bio_read(BIO *bio, char *out, int size)
{
    const struct load_conn *c = BIO_get_data(bio);
    struct load_loop *loop = c->loop;
    const size_t left = loop->sealed_len - loop->sealed_at;
    const size_t n = left < (size_t)size ? left : (size_t)size;
    BIO_clear_retry_flags(bio);
    if (!n) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(out, loop->sealed + loop->sealed_at, n);
    loop->sealed_at += n;
    return (int)n;
}

static long tls_bio_control(BIO *bio, int what, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return what == BIO_CTRL_FLUSH;
}

static BIO_METHOD *tls_bio_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "sonde load");
    if (!m) return NULL;
    BIO_meth_set_write(m, tls_bio_write);
    BIO_meth_set_read(m, tls_bio_read);
    BIO_meth_set_ctrl(m, tls_bio_control);
    return m;
}

/* ---- What connections share ------------------------------------------------------------------ */

/* A session to be resumed: the newest is kept, 1 = it is ours now. */
static int tls_on_session(SSL *ssl, SSL_SESSION *session)
{
    const struct load_conn *c = SSL_get_app_data(ssl);
    SSL_SESSION_free(c->loop->session);
    c->loop->session = session;
    return 1;
}

int load_tls_init(struct load_run *run, struct sonde_err *err)
{
    static const unsigned char protocols[] = "\x08http/1.1";
    if (!run->target.https) return 0;
    const int rc = sonde_bench_trust_context(run->options->trust, &run->tls, err);
    if (rc) return rc;
    run->tls_bio = tls_bio_method();
    SSL_CTX_set_mode(run->tls, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                   SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(run->tls,
                                   SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(run->tls, tls_on_session);
    if (!run->tls_bio || SSL_CTX_set_alpn_protos(run->tls, protocols, sizeof(protocols) - 1)) {
        load_tls_release(run);
        return sonde_err_memory(err);
    }
    return 0;
}

void load_tls_release(struct load_run *run)
{
    SSL_CTX_free(run->tls);
    BIO_meth_free(run->tls_bio);
    run->tls = NULL;
    run->tls_bio = NULL;
}

int load_tls_loop_init(struct load_loop *loop)
{
    if (!loop->run->tls) return 0;
    loop->sealed = sonde__alloc(LOAD_READ);
    return loop->sealed ? 0 : SONDE_ENOMEM;
}

void load_tls_loop_release(struct load_loop *loop)
{
    SSL_SESSION_free(loop->session);
    sonde__free(loop->sealed);
}

void load_tls_count(struct load_loop *loop, enum sonde_bench_tls_problem p, const char *detail)
{
    struct sonde_load_setup *s = &loop->setup;
    s->failed[p]++;
    if (!s->why[0]) sonde_bench_tls_sentence(p, detail, s->why, sizeof(s->why));
}

/* ---- A connection ---------------------------------------------------------------------------- */

int load_tls_open(struct load_conn *c)
{
    const struct load_run *run = c->loop->run;
    SSL_SESSION *session = c->loop->session;
    struct load_tls *t = sonde__calloc(1, sizeof(*t));
    BIO *bio = NULL;
    if (!t) return SONDE_ENOMEM;
    t->ssl = SSL_new(run->tls);
    if (t->ssl) bio = BIO_new(run->tls_bio);
    if (!bio || sonde_bench_trust_host(t->ssl, run->target.host)) {
        BIO_free(bio);
        SSL_free(t->ssl);
        sonde__free(t);
        ERR_clear_error();
        return SONDE_ENOMEM;
    }
    BIO_set_data(bio, c);
    BIO_set_init(bio, 1);
    SSL_set_bio(t->ssl, bio, bio);
    SSL_set_app_data(t->ssl, c);
    if (session && SSL_SESSION_is_resumable(session)) SSL_set_session(t->ssl, session);
    SSL_set_connect_state(t->ssl);
    c->tls = t;
    c->loop->sealed_at = c->loop->sealed_len = 0;
    return 0;
}

void load_tls_close(struct load_conn *c)
{
    struct load_tls *t = c->tls;
    if (!t) return;
    /* Half a record would be sent before a goodbye. Without one OpenSSL would think that the
     * session is not to be trusted any more. */
    if (t->done && !t->failed && !t->held_len && !c->broken) SSL_shutdown(t->ssl);
    else SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(t->ssl);
    ERR_clear_error();
    sonde__free(t->held);
    sonde__free(t);
    c->tls = NULL;
}

ssize_t load_tls_receive(struct load_conn *c)
{
    struct load_loop *loop = c->loop;
    const ssize_t n = recv(c->fd, loop->sealed, LOAD_READ, 0);
    loop->sealed_at = 0;
    loop->sealed_len = n > 0 ? (size_t)n : 0;
    return n;
}

int load_tls_flush(struct load_conn *c)
{
    struct load_tls *t = c->tls;
    if (!t->held_len) return 1;
    const size_t n = tls_send(c, t->held + t->held_at, t->held_len);
    t->held_at += (uint32_t)n;
    t->held_len -= (uint32_t)n;
    if (t->held_len) return 0;
    sonde__free(t->held);
    t->held = NULL;
    t->held_at = t->held_cap = 0;
    return 1;
}

/* The connection is of no use any more. */
static enum load_tls_step tls_break(struct load_conn *c, enum sonde_bench_tls_problem *problem)
{
    struct load_tls *t = c->tls;
    const long verified = SSL_get_verify_result(t->ssl);
    const unsigned long error = ERR_peek_last_error();
    const char *detail = ERR_reason_error_string(error);
    *problem = sonde_bench_tls_classify(verified, error);
    if (*problem == SONDE_BENCH_TLS_UNTRUSTED) detail = X509_verify_cert_error_string(verified);
    else if (*problem != SONDE_BENCH_TLS_REFUSED && *problem != SONDE_BENCH_TLS_FAILED) detail = "";
    t->failed = 1;
    load_tls_count(c->loop, *problem, detail ? detail : "");
    ERR_clear_error();
    return LOAD_TLS_BROKEN;
}

/* A record begins with its kind, 20 to 23, and version 3. OpenSSL's words for what does not depend
 * on what it is. */
static int tls_speaks(struct load_conn *c)
{
    const struct load_loop *loop = c->loop;
    const unsigned char *at = (const unsigned char *)loop->sealed;
    if (c->tls->spoke || !loop->sealed_len) return 1;
    c->tls->spoke = 1;
    return at[0] >= 20 && at[0] <= 23 && (loop->sealed_len < 2 || at[1] == 3);
}

enum load_tls_step load_tls_shake(struct load_conn *c, enum sonde_bench_tls_problem *problem)
{
    struct load_tls *t = c->tls;
    struct sonde_load_setup *s = &c->loop->setup;
    if (!tls_speaks(c)) {
        t->failed = 1;
        *problem = SONDE_BENCH_TLS_NOT_TLS;
        load_tls_count(c->loop, *problem, "");
        return LOAD_TLS_BROKEN;
    }
    ERR_clear_error();
    const int n = SSL_do_handshake(t->ssl);
    if (n != 1) {
        return SSL_get_error(t->ssl, n) == SSL_ERROR_WANT_READ ? LOAD_TLS_MORE
                                                               : tls_break(c, problem);
    }
    t->done = 1;
    s->resumed += SSL_session_reused(t->ssl) != 0;
    if (!s->version[0]) {
        snprintf(s->version, sizeof(s->version), "%s", SSL_get_version(t->ssl));
        snprintf(s->cipher, sizeof(s->cipher), "%s", SSL_get_cipher_name(t->ssl));
    }
    return LOAD_TLS_DONE;
}

enum load_tls_step load_tls_read(struct load_conn *c, size_t *len,
                                 enum sonde_bench_tls_problem *problem)
{
    SSL *ssl = c->tls->ssl;
    if (c->loop->sealed_at == c->loop->sealed_len && !SSL_has_pending(ssl)) return LOAD_TLS_MORE;
    ERR_clear_error();
    const int n = SSL_read(ssl, c->loop->buffer, LOAD_READ);
    if (n > 0) {
        *len = (size_t)n;
        return LOAD_TLS_DONE;
    }
    switch (SSL_get_error(ssl, n)) {
    case SSL_ERROR_WANT_READ: return LOAD_TLS_MORE;
    case SSL_ERROR_ZERO_RETURN: return LOAD_TLS_OVER;
    default: return tls_break(c, problem);
    }
}

/* What is next of the request: head and the beginning of its body in one record. */
static size_t tls_next_part(struct load_conn *c, const char **data)
{
    const struct load_prepared *p = &c->prepared;
    const size_t head = p->head.len, body = p->request.body_len;
    if (c->written >= head) {
        const size_t left = head + body - c->written;
        *data = p->request.body + (c->written - head);
        return left < TLS_RECORD ? left : TLS_RECORD;
    }
    char *out = c->loop->buffer;
    const size_t head_left = head - c->written;
    const size_t n = head_left < TLS_RECORD ? head_left : TLS_RECORD;
    const size_t room = TLS_RECORD - n, more = body < room ? body : room;
    *data = out;
    memcpy(out, p->head.data + c->written, n);
    if (more) memcpy(out + n, p->request.body, more);
    return n + more;
}

ssize_t load_tls_write(struct load_conn *c)
{
    struct load_tls *t = c->tls;
    const char *data = NULL;
    if (!load_tls_flush(c)) {
        errno = EAGAIN;
        return -1;
    }
    const size_t len = tls_next_part(c, &data);
    ERR_clear_error();
    const int n = t->failed ? -1 : SSL_write(t->ssl, data, (int)len);
    if (n > 0) return n;
    const int again = !t->failed && SSL_get_error(t->ssl, n) == SSL_ERROR_WANT_READ;
    t->failed |= !again;
    ERR_clear_error();
    errno = again ? EAGAIN : EPIPE;
    return -1;
}
