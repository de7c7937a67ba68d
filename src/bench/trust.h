/* trust.h - whose certificates a benchmark believes, and why a TLS connection could not be made.
 *
 * Certificates are verified by the system's store (OpenSSL's: /etc/ssl/certs, SSL_CERT_FILE,
 * SSL_CERT_DIR) or by a file of authorities, and have to be for the host that was named. TLS 1.2
 * and 1.3 are spoken.
 *
 * What goes wrong is one of a few classes, with a sentence that says what to do: the same whether
 * libcurl met it (questions before a load, reads of a cache) or the load generator did. */
#ifndef SONDE_BENCH_TRUST_H
#define SONDE_BENCH_TRUST_H

#include <curl/curl.h>
#include <openssl/ssl.h>
#include <stddef.h>

#include "base/err.h"

struct sonde_bench_trust {
    int insecure;            /* certificates are not verified */
    const char *ca_file;     /* authorities, in PEM, instead of the system's; NULL = the system's */
};

#define SONDE_BENCH_TLS_PROBLEMS(X)                                                             \
    X(NONE, "none")                                                                             \
    X(UNTRUSTED, "not trusted")     /* nobody who is trusted has signed the certificate */      \
    X(EXPIRED, "expired")                                                                       \
    X(EARLY, "not valid yet")                                                                   \
    X(HOST, "wrong host")           /* the certificate is another host's */                     \
    X(REFUSED, "refused")           /* the server said no, by an alert */                       \
    X(CLOSED, "closed")             /* the connection ended before the handshake did */         \
    X(NOT_TLS, "not TLS")           /* the server speaks something else */                      \
    X(FAILED, "failed")             /* anything else that breaks TLS */
enum sonde_bench_tls_problem {
#define SONDE__X(id, name) SONDE_BENCH_TLS_##id,
    SONDE_BENCH_TLS_PROBLEMS(SONDE__X)
#undef SONDE__X
    SONDE_BENCH_TLS_PROBLEM_COUNT
};
const char *sonde_bench_tls_problem_name(enum sonde_bench_tls_problem p);

/* Whether it can be used: SONDE_EINVAL and why not (no such file, nothing in it, both at once). */
int sonde_bench_trust_check(const struct sonde_bench_trust *t, struct sonde_err *err);

/* For connections as a client that verify as t says (NULL = by the system's store); whom they
 * connect to, sonde_bench_trust_host says. On success pass *out to SSL_CTX_free. */
int sonde_bench_trust_context(const struct sonde_bench_trust *t, SSL_CTX **out,
                              struct sonde_err *err);

/* host: a name or an address without brackets, sent as SNI if it is a name, and verified unless
 * the context says else. 0 or SONDE_ENOMEM. */
int sonde_bench_trust_host(SSL *ssl, const char *host);

/* The same for a handle of libcurl. */
void sonde_bench_trust_curl(const struct sonde_bench_trust *t, CURL *curl);

/* Why a handshake or what came after it failed, from SSL_get_verify_result and an error of
 * OpenSSL's queue (0 = none). */
enum sonde_bench_tls_problem sonde_bench_tls_classify(long verify_result, unsigned long error);

/* What failed, and what to do. detail: OpenSSL's words; "" = none. */
void sonde_bench_tls_sentence(enum sonde_bench_tls_problem p, const char *detail, char *out,
                              size_t size);

/* The same of a transfer that failed with code and why, as libcurl said it. NONE and out as it was
 * if it was not TLS that failed. */
enum sonde_bench_tls_problem sonde_bench_tls_of_curl(CURL *curl, CURLcode code, const char *why,
                                                     char *out, size_t size);

#endif
