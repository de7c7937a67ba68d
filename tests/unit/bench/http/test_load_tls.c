/* The load generator over TLS, against a server in a thread of this process with certificates made
 * here: what is sent and received through records however they come, what each kind of broken
 * server is called, and that nothing is left behind. Times are only compared with each other. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bench/http/load.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
enum { DAY_S = 86400, BODY = 6 << 20 };

/* ---- Certificates ------------------------------------------------------------------------------- */

static EVP_PKEY *key_make(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert_non_null(key);
    return key;
}

/* Of this name, by an authority, or by itself. */
static X509 *cert_make(EVP_PKEY *key, const char *names, int from_days, int to_days, X509 *by,
                       EVP_PKEY *by_key)
{
    X509 *x = X509_new();
    X509_NAME *subject = X509_get_subject_name(x);
    static long serial = 1;
    assert_true(X509_set_version(x, X509_VERSION_3) && X509_set_pubkey(x, key));
    ASN1_INTEGER_set(X509_get_serialNumber(x), serial++);
    X509_gmtime_adj(X509_getm_notBefore(x), (long)from_days * DAY_S);
    X509_gmtime_adj(X509_getm_notAfter(x), (long)to_days * DAY_S);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               (const unsigned char *)(by ? "a server" : "an authority"), -1, -1, 0);
    X509_set_issuer_name(x, by ? X509_get_subject_name(by) : subject);
    const struct { int nid; const char *value; } extensions[] = {
        { NID_basic_constraints, by ? "CA:FALSE" : "critical,CA:TRUE" },
        { NID_subject_alt_name, names },
    };
    for (size_t i = 0; i < COUNT(extensions); i++) {
        if (!extensions[i].value) continue;
        X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, extensions[i].nid, extensions[i].value);
        assert_true(e && X509_add_ext(x, e, -1));
        X509_EXTENSION_free(e);
    }
    assert_true(X509_sign(x, by ? by_key : key, EVP_sha256()));
    return x;
}

static EVP_PKEY *authority_key, *server_key;
static X509 *authority;
static char authority_file[] = "/tmp/sonde-authority-XXXXXX";

static int group_setup(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN); /* of the server; that the client needs none, test_sigpipe says */
    authority_key = key_make();
    server_key = key_make();
    authority = cert_make(authority_key, NULL, -1, 1, NULL, NULL);
    FILE *f = fdopen(mkstemp(authority_file), "w");
    assert_true(f && PEM_write_X509(f, authority) && !fclose(f));
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    unlink(authority_file);
    X509_free(authority);
    EVP_PKEY_free(authority_key);
    EVP_PKEY_free(server_key);
    return 0;
}

/* ---- A server ----------------------------------------------------------------------------------- */

/* What it does to a connection, beside answering. */
enum behaviour {
    GOOD, NOT_HTTP_OVER_TLS, PLAIN, SILENT_CLOSE, CLOSE_AFTER_HELLO, CLOSE_MID_RECORD, NO_GOODBYE,
    GOODBYE, BAD_RECORD, KEY_UPDATE, RENEGOTIATE, WANTS_CLIENT_CERT, CLOSE_IDLE, SMALL_RECORDS,
    SPEAKS_FIRST,
};

struct tls_peer {
    int listener;
    unsigned port;
    pthread_t thread;
    enum behaviour does;
    int tls12, old_tls;
    SSL_CTX *context;
    uint64_t requests, connections, resumed, goodbyes;
    size_t body;                /* bytes of the last request's body */
    char name[64], protocol[16], last[4096];
};

static const char sse_head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
static const char json_head[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";

static int peer_put(SSL *ssl, const char *text) { return SSL_write(ssl, text, (int)strlen(text)); }

/* Half of a record, or one that was changed on its way; then nothing. */
static void peer_put_broken(int fd, SSL *ssl, int half)
{
    char sealed[512];
    BIO *wire = SSL_get_wbio(ssl), *memory = BIO_new(BIO_s_mem());
    BIO_up_ref(wire);
    SSL_set0_wbio(ssl, memory);
    peer_put(ssl, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
    int len = BIO_read(memory, sealed, sizeof(sealed));
    assert_true(len > 20);
    if (half) len /= 2;
    else sealed[len - 1] ^= 1;
    assert_int_equal(send(fd, sealed, (size_t)len, MSG_NOSIGNAL), len);
    SSL_set0_wbio(ssl, wire);
}

static void peer_stream(SSL *ssl)
{
    peer_put(ssl, sse_head);
    for (int i = 0; i < 3; i++) {
        peer_put(ssl, "2f\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n\r\n");
    }
    peer_put(ssl, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
}

/* 0 = the connection is over. */
static int peer_answer(struct tls_peer *p, int fd, SSL *ssl)
{
    switch (p->does) {
    case NOT_HTTP_OVER_TLS: peer_put(ssl, "SSH-2.0-x\r\n"); return 0;
    case CLOSE_MID_RECORD: peer_put_broken(fd, ssl, 1); return 0;
    case BAD_RECORD:
        peer_put_broken(fd, ssl, 0);
        while (SSL_read(ssl, p->last, sizeof(p->last)) > 0) { } /* its alert */
        return 0;
    case NO_GOODBYE:
    case GOODBYE:
        peer_put(ssl, json_head);
        peer_put(ssl, "\r\n{\"content\":\"x\"}");
        if (p->does == GOODBYE) SSL_shutdown(ssl);
        return 0;
    case KEY_UPDATE:
        SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
        peer_stream(ssl);
        SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
        return SSL_do_handshake(ssl) == 1;
    case RENEGOTIATE:
        SSL_renegotiate(ssl);
        SSL_do_handshake(ssl); /* asks; the client's side of it comes when we read */
        peer_stream(ssl);
        return 1;
    case SMALL_RECORDS: {
        const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                              "Content-Length: 15\r\n\r\n{\"content\":\"x\"}";
        for (size_t i = 0; i + 1 < sizeof(answer); i++) SSL_write(ssl, answer + i, 1);
        return 1;
    }
    case CLOSE_IDLE:
        peer_stream(ssl);
        SSL_shutdown(ssl);
        return 0;
    default: peer_stream(ssl); return 1;
    }
}

static int peer_requests(struct tls_peer *p, int fd, SSL *ssl)
{
    static char in[BODY + 65536];
    size_t len = 0;
    int n;
    while ((n = SSL_read(ssl, in + len, (int)(sizeof(in) - 1 - len))) > 0) {
        len += (size_t)n;
        in[len] = 0;
        const char *head = strstr(in, "\r\n\r\n"), *length = strstr(in, "Content-Length: ");
        p->body = length ? strtoul(length + 16, NULL, 10) : 0;
        if (!head || len < (size_t)(head + 4 - in) + p->body) continue;
        snprintf(p->last, sizeof(p->last), "%.4000s", in);
        len = 0;
        p->requests++;
        if (!peer_answer(p, fd, ssl)) return 0;
    }
    p->goodbyes += SSL_get_error(ssl, n) == SSL_ERROR_ZERO_RETURN;
    return 0;
}

static void peer_serve_one(struct tls_peer *p, int fd)
{
    char hello[65536];
    if (p->does == SILENT_CLOSE) return;
    if (p->does == PLAIN) {
        const char no[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
        if (recv(fd, hello, sizeof(hello), 0) > 0) send(fd, no, sizeof(no) - 1, MSG_NOSIGNAL);
        return;
    }
    if (p->does == CLOSE_AFTER_HELLO) {
        const char half[] = { 22, 3, 3, 0, 100, 2, 0 }; /* of a ServerHello */
        if (recv(fd, hello, sizeof(hello), 0) > 0) send(fd, half, sizeof(half), MSG_NOSIGNAL);
        return;
    }
    SSL *ssl = SSL_new(p->context);
    assert_true(ssl && SSL_set_fd(ssl, fd));
    if (p->does == SPEAKS_FIRST) SSL_set_mode(ssl, SSL_MODE_AUTO_RETRY);
    if (SSL_accept(ssl) == 1) {
        const unsigned char *protocol = NULL;
        unsigned len = 0;
        const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
        SSL_get0_alpn_selected(ssl, &protocol, &len);
        snprintf(p->protocol, sizeof(p->protocol), "%.*s", (int)len, (const char *)protocol);
        snprintf(p->name, sizeof(p->name), "%s", name ? name : "");
        p->resumed += SSL_session_reused(ssl) != 0;
        if (p->does == SPEAKS_FIRST) peer_put(ssl, "HTTP/1.1 408 Too Late\r\n\r\n");
        else peer_requests(p, fd, ssl);
    }
    ERR_clear_error();
    SSL_free(ssl);
}

static void *peer_serve(void *arg)
{
    struct tls_peer *p = arg;
    for (int fd; (fd = accept(p->listener, NULL, NULL)) >= 0; close(fd)) {
        const int one = 1;
        p->connections++;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        peer_serve_one(p, fd);
        /* Until the client has closed too, or what it sent would make the end a reset. */
        char rest[4096];
        shutdown(fd, SHUT_WR);
        while (recv(fd, rest, sizeof(rest), 0) > 0) { }
    }
    ERR_clear_error();
    return NULL;
}

static int peer_choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                       const unsigned char *in, unsigned in_len, void *arg)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    unsigned char *chosen = NULL;
    (void)ssl, (void)arg;
    const int rc = SSL_select_next_proto(&chosen, out_len, ours, sizeof(ours) - 1, in, in_len);
    *out = chosen;
    return rc == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static void peer_start(struct tls_peer *p, X509 *cert)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(at);
    p->context = SSL_CTX_new(TLS_server_method());
    assert_true(p->context && SSL_CTX_use_certificate(p->context, cert) &&
                SSL_CTX_use_PrivateKey(p->context, server_key));
    SSL_CTX_set_alpn_select_cb(p->context, peer_choose, NULL);
    SSL_CTX_set_session_id_context(p->context, (const unsigned char *)"x", 1);
    if (p->tls12) SSL_CTX_set_max_proto_version(p->context, TLS1_2_VERSION);
    if (p->old_tls) {
        SSL_CTX_set_security_level(p->context, 0);
        SSL_CTX_set_min_proto_version(p->context, TLS1_VERSION);
        SSL_CTX_set_max_proto_version(p->context, TLS1_1_VERSION);
    }
    if (p->does == WANTS_CLIENT_CERT) {
        SSL_CTX_set_verify(p->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    p->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(p->listener >= 0 && !bind(p->listener, (struct sockaddr *)&at, len) &&
                !listen(p->listener, 64) && !getsockname(p->listener, (struct sockaddr *)&at, &len));
    p->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&p->thread, NULL, peer_serve, p), 0);
}

static void peer_stop(struct tls_peer *p)
{
    shutdown(p->listener, SHUT_RDWR);
    pthread_join(p->thread, NULL);
    close(p->listener);
    SSL_CTX_free(p->context);
}

/* ---- A source ----------------------------------------------------------------------------------- */

struct tls_source {
    struct sonde_load_source source;
    uint32_t count, given;
    const char *body;
    size_t body_len;
};

static int tls_next(struct sonde_load_source *s, struct sonde_load_request *out)
{
    struct tls_source *l = (struct tls_source *)s;
    if (l->given == l->count) return SONDE_ENOENT;
    out->request = l->given++;
    out->body = l->body ? l->body : "{}";
    out->body_len = l->body ? l->body_len : 2;
    return 0;
}

static int tls_load(struct tls_source *l, struct sonde_load_options *o, const char *host,
                    unsigned port, struct sonde_load_result *r)
{
    char url[128];
    struct sonde_err err = { "" };
    const struct sonde_bench_trust trust = { 0, authority_file };
    snprintf(url, sizeof(url), "https://%s:%u/v1/x", host, port);
    l->source = (struct sonde_load_source){ tls_next, NULL };
    o->source = &l->source;
    o->url = url;
    if (!o->trust) o->trust = &trust;
    if (!o->connections_max) o->connections_max = 1;
    const int rc = sonde_load_run(o, r, &err);
    if (rc && rc != SONDE_ENOMEM) fail_msg("%s", err.text);
    return rc;
}

static X509 *good_cert(void)
{
    return cert_make(server_key, "DNS:localhost,IP:127.0.0.1", -1, 1, authority, authority_key);
}

/* A server with a good certificate that does this, asked count times; r is to be released. */
static void tls_run(struct tls_peer *p, uint32_t count, struct sonde_load_options *o,
                    struct sonde_load_result *r)
{
    struct tls_source l = { .count = count };
    X509 *cert = good_cert();
    peer_start(p, cert);
    assert_int_equal(tls_load(&l, o, "127.0.0.1", p->port, r), 0);
    peer_stop(p);
    X509_free(cert);
    assert_int_equal(r->record_count, count);
}

/* ---- What works --------------------------------------------------------------------------------- */

static void test_good(void **state)
{
    (void)state;
    for (int tls12 = 0; tls12 < 2; tls12++) {
        struct tls_peer p = { .tls12 = tls12 };
        struct sonde_load_options o = { 0 };
        struct sonde_load_result r;
        tls_run(&p, 50, &o, &r);
        for (size_t i = 0; i < 50; i++) {
            const struct sonde_load_record *x = &r.records[i];
            assert_int_equal(x->outcome, SONDE_LOAD_OK);
            assert_int_equal(x->events, 3);
            assert_true(x->intended_ns <= x->sent_ns && x->sent_ns <= x->head_ns &&
                        x->head_ns <= x->first_ns && x->first_ns <= x->end_ns);
            assert_int_equal(x->tls_ns != 0, i == 0);
        }
        /* Set-up is between due and sent, and in no latency from sending. */
        assert_true(r.records[0].connect_ns + (uint64_t)r.records[0].tls_ns <=
                    r.records[0].sent_ns - r.records[0].intended_ns);
        assert_int_equal(p.connections, 1);
        assert_int_equal(p.requests, 50);
        assert_int_equal(p.goodbyes, 1);
        assert_string_equal(p.protocol, "http/1.1");
        assert_string_equal(p.name, ""); /* an address is no name */
        assert_string_equal(r.setup.version, tls12 ? "TLSv1.2" : "TLSv1.3");
        assert_true(r.setup.cipher[0] && r.setup.tls && r.setup.verified && !r.setup.why[0]);
        assert_int_equal(r.setup.opened, 1);
        assert_true(r.setup.connect_p50_ns && r.setup.tls_p50_ns);
        sonde_load_result_release(&r);
    }
}

/* By name: it is sent and verified. */
static void test_name(void **state)
{
    (void)state;
    static const char *const hosts[] = { "localhost", "LOCALHOST" };
    for (size_t i = 0; i < COUNT(hosts); i++) {
        struct tls_peer p = { 0 };
        struct sonde_load_options o = { 0 };
        struct sonde_load_result r;
        struct tls_source l = { .count = 2 };
        X509 *cert = good_cert();
        peer_start(&p, cert);
        assert_int_equal(tls_load(&l, &o, hosts[i], p.port, &r), 0);
        peer_stop(&p);
        X509_free(cert);
        assert_int_equal(r.records[1].outcome, SONDE_LOAD_OK);
        assert_int_equal(strncasecmp(p.name, "localhost", 10), 0);
        sonde_load_result_release(&r);
    }
}

/* A connection for each request: all but the first are resumed. */
static void test_resumed(void **state)
{
    (void)state;
    for (int tls12 = 0; tls12 < 2; tls12++) {
        struct tls_peer p = { .tls12 = tls12 };
        struct sonde_load_options o = { .no_keep_alive = 1 };
        struct sonde_load_result r;
        tls_run(&p, 10, &o, &r);
        for (size_t i = 0; i < 10; i++) {
            assert_int_equal(r.records[i].outcome, SONDE_LOAD_OK);
            assert_true(r.records[i].tls_ns && r.records[i].connect_ns);
        }
        assert_int_equal(r.setup.opened, 10);
        assert_int_equal(r.setup.resumed, 9);
        assert_int_equal(p.resumed, 9);
        sonde_load_result_release(&r);
    }
}

/* Records of a byte, new keys in the middle, another handshake in the middle, a goodbye after each
 * answer: all the same to the load. */
static void test_records(void **state)
{
    (void)state;
    static const struct { enum behaviour does; int tls12; uint64_t connections; } cases[] = {
        { SMALL_RECORDS, 0, 1 }, { KEY_UPDATE, 0, 1 }, { RENEGOTIATE, 1, 1 }, { CLOSE_IDLE, 0, 6 },
        { GOODBYE, 0, 6 },       { GOODBYE, 1, 6 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct tls_peer p = { .does = cases[i].does, .tls12 = cases[i].tls12 };
        struct sonde_load_options o = { 0 };
        struct sonde_load_result r;
        tls_run(&p, 6, &o, &r);
        for (size_t k = 0; k < 6; k++) {
            if (r.records[k].outcome) {
                fail_msg("case %zu, request %zu: %s (%s)", i, k,
                         sonde_load_outcome_name(r.records[k].outcome), r.setup.why);
            }
        }
        assert_int_equal(p.requests, 6);
        assert_int_equal(p.connections, cases[i].connections);
        sonde_load_result_release(&r);
    }
}

/* A body that is more than the kernel takes at once, and a server that asks for another handshake
 * after it: all of it comes. */
static void test_large_body(void **state)
{
    (void)state;
    char *body = malloc(BODY);
    assert_non_null(body);
    memset(body, 'x', BODY);
    for (int tls12 = 0; tls12 < 2; tls12++) {
        struct tls_peer p = { .does = tls12 ? RENEGOTIATE : KEY_UPDATE, .tls12 = tls12 };
        struct sonde_load_options o = { 0 };
        struct sonde_load_result r;
        struct tls_source l = { .count = 3, .body = body, .body_len = BODY };
        X509 *cert = good_cert();
        peer_start(&p, cert);
        assert_int_equal(tls_load(&l, &o, "127.0.0.1", p.port, &r), 0);
        peer_stop(&p);
        X509_free(cert);
        for (size_t k = 0; k < 3; k++) assert_int_equal(r.records[k].outcome, SONDE_LOAD_OK);
        assert_int_equal(p.body, BODY);
        assert_int_equal(p.requests, 3);
        sonde_load_result_release(&r);
    }
    free(body);
}

/* ---- What does not ------------------------------------------------------------------------------ */

static void test_broken(void **state)
{
    (void)state;
    static const struct {
        enum behaviour does;
        int old;
        enum sonde_load_outcome outcome;
        enum sonde_bench_tls_problem problem;
        const char *says;
    } cases[] = {
        { PLAIN, 0, SONDE_LOAD_TLS, SONDE_BENCH_TLS_NOT_TLS, "does not speak TLS" },
        { SILENT_CLOSE, 0, SONDE_LOAD_TLS, SONDE_BENCH_TLS_CLOSED, "closed the connection" },
        { CLOSE_AFTER_HELLO, 0, SONDE_LOAD_TLS, SONDE_BENCH_TLS_CLOSED, "closed the connection" },
        { GOOD, 1, SONDE_LOAD_TLS, SONDE_BENCH_TLS_REFUSED, "refused the TLS connection (" },
        { WANTS_CLIENT_CERT, 0, SONDE_LOAD_TLS, SONDE_BENCH_TLS_REFUSED, "certificate required" },
        { BAD_RECORD, 0, SONDE_LOAD_TLS, SONDE_BENCH_TLS_FAILED, "the TLS connection failed (" },
        { CLOSE_MID_RECORD, 0, SONDE_LOAD_TRUNCATED, 0, "" },
        { NO_GOODBYE, 0, SONDE_LOAD_TRUNCATED, 0, "" },
        { NOT_HTTP_OVER_TLS, 0, SONDE_LOAD_PROTOCOL, 0, "" },
        { SPEAKS_FIRST, 0, SONDE_LOAD_OK, 0, "" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct tls_peer p = { .does = cases[i].does, .old_tls = cases[i].old };
        struct sonde_load_options o = { 0 };
        struct sonde_load_result r;
        tls_run(&p, 3, &o, &r);
        for (size_t k = 0; k < 3; k++) {
            const struct sonde_load_record *x = &r.records[k];
            if (cases[i].does == SPEAKS_FIRST) {
                assert_int_not_equal(x->outcome, SONDE_LOAD_OK);
                continue;
            }
            if (x->outcome != cases[i].outcome || x->tls_problem != cases[i].problem) {
                fail_msg("case %zu: %s, %s: %s", i, sonde_load_outcome_name(x->outcome),
                         sonde_bench_tls_problem_name(x->tls_problem), r.setup.why);
            }
            assert_int_equal(x->sent_ns != 0, p.requests != 0 || cases[i].does == WANTS_CLIENT_CERT);
        }
        if (!strstr(r.setup.why, cases[i].says)) fail_msg("case %zu: '%s'", i, r.setup.why);
        if (cases[i].problem) assert_int_equal(r.setup.failed[cases[i].problem], 3);
        sonde_load_result_release(&r);
    }
}

static void test_certificates(void **state)
{
    (void)state;
    EVP_PKEY *other_key = key_make();
    X509 *other = cert_make(other_key, NULL, -1, 1, NULL, NULL);
    const char *const ours = "DNS:localhost,IP:127.0.0.1";
    const struct {
        const char *names;
        int from, to, by_other;
        enum sonde_bench_tls_problem problem;
    } cases[] = {
        { ours, -1, 1, 0, SONDE_BENCH_TLS_NONE },
        { ours, -1, 1, 1, SONDE_BENCH_TLS_UNTRUSTED },
        { ours, -3, -1, 0, SONDE_BENCH_TLS_EXPIRED },
        { ours, 1, 2, 0, SONDE_BENCH_TLS_EARLY },
        { "DNS:example.com", -1, 1, 0, SONDE_BENCH_TLS_HOST },
        { "IP:127.0.0.2", -1, 1, 0, SONDE_BENCH_TLS_HOST },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        X509 *cert = cert_make(server_key, cases[i].names, cases[i].from, cases[i].to,
                               cases[i].by_other ? other : authority,
                               cases[i].by_other ? other_key : authority_key);
        for (int insecure = 0; insecure < 2; insecure++) {
            const struct sonde_bench_trust nobody = { 1, NULL };
            for (size_t h = 0; h < 2; h++) {
                struct tls_peer p = { 0 };
                struct sonde_load_options o = { .trust = insecure ? &nobody : NULL };
                struct sonde_load_result r;
                struct tls_source l = { .count = 2 };
                peer_start(&p, cert);
                assert_int_equal(tls_load(&l, &o, h ? "localhost" : "127.0.0.1", p.port, &r), 0);
                peer_stop(&p);
                const int fails = cases[i].problem && !insecure;
                for (size_t k = 0; k < 2; k++) {
                    assert_int_equal(r.records[k].outcome, fails ? SONDE_LOAD_TLS : SONDE_LOAD_OK);
                    assert_int_equal(r.records[k].tls_problem, fails ? cases[i].problem : 0);
                }
                assert_int_equal(r.setup.verified, !insecure);
                assert_int_equal(r.setup.why[0] != 0, fails);
                sonde_load_result_release(&r);
            }
        }
        X509_free(cert);
    }
    X509_free(other);
    EVP_PKEY_free(other_key);
}

/* An open loop with spares, and a server that can only say no: the run ends, and it is counted. */
static void test_open(void **state)
{
    (void)state;
    struct tls_peer p = { .does = PLAIN };
    struct sonde_load_options o = { .open = 1, .connections_max = 4 };
    struct sonde_load_result r;
    tls_run(&p, 8, &o, &r);
    for (size_t i = 0; i < 8; i++) assert_int_equal(r.records[i].outcome, SONDE_LOAD_TLS);
    assert_true(r.setup.failed[SONDE_BENCH_TLS_NOT_TLS] >= 8);
    sonde_load_result_release(&r);
}

/* Writing to what is gone is no signal for the program, whatever it does with SIGPIPE. */
static void test_sigpipe(void **state)
{
    (void)state;
    struct tls_peer p = { .does = CLOSE_IDLE };
    struct sonde_load_options o = { 0 };
    struct sonde_load_result r;
    sigset_t pipe_set, pending;
    /* This thread and those that it starts, the load's and the server's: pending for one of them. */
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    signal(SIGPIPE, SIG_DFL);
    pthread_sigmask(SIG_BLOCK, &pipe_set, NULL);
    tls_run(&p, 20, &o, &r);
    sigpending(&pending);
    assert_false(sigismember(&pending, SIGPIPE));
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_UNBLOCK, &pipe_set, NULL);
    sonde_load_result_release(&r);
}

static void test_bad_authorities(void **state)
{
    (void)state;
    char empty[] = "/tmp/sonde-empty-XXXXXX";
    close(mkstemp(empty));
    const struct { struct sonde_bench_trust trust; const char *says; } cases[] = {
        { { 0, "/nowhere/ca.pem" }, "No such file" },
        { { 0, empty }, "no certificate in PEM" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct tls_source l = { .source = { tls_next, NULL } };
        struct sonde_load_result r;
        struct sonde_err err = { "" };
        const struct sonde_load_options o = { .url = "https://127.0.0.1:1/", .source = &l.source,
                                              .trust = &cases[i].trust };
        assert_int_equal(sonde_load_run(&o, &r, &err), SONDE_EINVAL);
        if (!strstr(err.text, cases[i].says)) fail_msg("%s", err.text);
    }
    unlink(empty);
}

static void test_no_memory(void **state)
{
    (void)state;
    int rc = SONDE_ENOMEM;
    struct tls_peer p = { 0 };
    X509 *cert = good_cert();
    peer_start(&p, cert);
    for (uint64_t nth = 1; rc && nth < 100; nth++) {
        struct sonde_load_result r;
        struct tls_source l = { .count = 2 };
        struct sonde_load_options o = { 0 };
        const int64_t before = sonde__alloc_live();
        sonde__alloc_fail_nth(nth);
        rc = tls_load(&l, &o, "127.0.0.1", p.port, &r);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        if (!rc) {
            rc = r.records[0].outcome || r.records[1].outcome;
            sonde_load_result_release(&r);
        }
        assert_int_equal(sonde__alloc_live(), before);
    }
    assert_int_equal(rc, 0);
    peer_stop(&p);
    X509_free(cert);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),         cmocka_unit_test(test_name),
        cmocka_unit_test(test_resumed),      cmocka_unit_test(test_records),
        cmocka_unit_test(test_large_body),   cmocka_unit_test(test_broken),
        cmocka_unit_test(test_certificates), cmocka_unit_test(test_open),
        cmocka_unit_test(test_sigpipe),      cmocka_unit_test(test_bad_authorities),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
