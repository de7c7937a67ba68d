/* trust.c - see trust.h. */
#include "bench/trust.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "sonde/sonde.h"

#define TRUST_HOST_MAX 255

static const struct { const char *name, *what, *advice; } trust_rows[] = {
    [SONDE_BENCH_TLS_NONE] = { "none", "TLS did not fail", "" },
    [SONDE_BENCH_TLS_UNTRUSTED] = {
        "not trusted", "the server's certificate is not trusted",
        "name the authority that signed it with --cacert FILE, or measure without verification "
        "with --insecure" },
    [SONDE_BENCH_TLS_EXPIRED] = {
        "expired", "the server's certificate has expired",
        "renew it, or measure without verification with --insecure" },
    [SONDE_BENCH_TLS_EARLY] = {
        "not valid yet", "the server's certificate is not valid yet",
        "check this machine's clock, or measure without verification with --insecure" },
    [SONDE_BENCH_TLS_HOST] = {
        "wrong host", "the server's certificate is for another host",
        "use a name that it is for, or measure without verification with --insecure" },
    [SONDE_BENCH_TLS_REFUSED] = {
        "refused", "the server refused the TLS connection",
        "sonde offers TLS 1.2 and 1.3 and has no client certificate" },
    [SONDE_BENCH_TLS_CLOSED] = {
        "closed", "the server closed the connection during the TLS handshake",
        "check that it speaks HTTPS on this port" },
    [SONDE_BENCH_TLS_NOT_TLS] = {
        "not TLS", "the server does not speak TLS on this port",
        "use http://, or the port of its HTTPS" },
    [SONDE_BENCH_TLS_FAILED] = {
        "failed", "the TLS connection failed", "check the server's TLS settings" },
};
_Static_assert(SONDE_COUNT(trust_rows) == SONDE_BENCH_TLS_PROBLEM_COUNT, "a row for each");

const char *sonde_bench_tls_problem_name(enum sonde_bench_tls_problem p)
{
    return p < SONDE_BENCH_TLS_PROBLEM_COUNT ? trust_rows[p].name : "?";
}

void sonde_bench_tls_sentence(enum sonde_bench_tls_problem p, const char *detail, char *out,
                              size_t size)
{
    const int some = detail[0] != 0;
    snprintf(out, size, "%s%s%s%s; %s", trust_rows[p].what, some ? " (" : "", detail,
             some ? ")" : "", trust_rows[p].advice);
}

/* ---- Certificates ---------------------------------------------------------------------------- */

static int trust_load(SSL_CTX *context, const char *file, struct sonde_err *err)
{
    ERR_clear_error();
    const int loaded = SSL_CTX_load_verify_file(context, file);
    const unsigned long error = ERR_peek_error();
    const char *why = ERR_SYSTEM_ERROR(error) ? strerror(ERR_GET_REASON(error))
                                              : "it holds no certificate in PEM";
    ERR_clear_error();
    if (loaded) return 0;
    return sonde_err_set(err, SONDE_EINVAL, "--cacert: cannot use '%.200s': %s", file, why);
}

int sonde_bench_trust_context(const struct sonde_bench_trust *t, SSL_CTX **out,
                              struct sonde_err *err)
{
    SSL_CTX *c = SSL_CTX_new(TLS_client_method());
    if (!c || !SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION)) {
        SSL_CTX_free(c);
        ERR_clear_error();
        return sonde_err_memory(err);
    }
    if (t && t->insecure) {
        SSL_CTX_set_verify(c, SSL_VERIFY_NONE, NULL);
    } else {
        SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
        /* A server's own certificate, or one between, may be what is trusted: as with libcurl. */
        X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(c), X509_V_FLAG_PARTIAL_CHAIN);
        const int rc = t && t->ca_file ? trust_load(c, t->ca_file, err) : 0;
        if (rc) {
            SSL_CTX_free(c);
            return rc;
        }
        /* Without a store nobody is trusted, which is said of a certificate. */
        if (!t || !t->ca_file) SSL_CTX_set_default_verify_paths(c);
    }
    ERR_clear_error();
    *out = c;
    return 0;
}

int sonde_bench_trust_check(const struct sonde_bench_trust *t, struct sonde_err *err)
{
    SSL_CTX *c;
    if (t->insecure && t->ca_file) {
        return sonde_err_set(err, SONDE_EINVAL, "--insecure verifies no certificate: leave out "
                             "--cacert, or --insecure");
    }
    if (!t->ca_file) return 0;
    const int rc = sonde_bench_trust_context(t, &c, err);
    if (!rc) SSL_CTX_free(c);
    return rc;
}

int sonde_bench_trust_host(SSL *ssl, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    char name[TRUST_HOST_MAX + 1];
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(param, host) ? 0 : SONDE_ENOMEM;
    }
    /* A dot at the end says that the name is whole; certificates do not hold it. */
    const size_t len = strlen(host), dot = len && host[len - 1] == '.';
    snprintf(name, sizeof(name), "%.*s", (int)(len - dot), host);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(param, name, 0) && SSL_set_tlsext_host_name(ssl, name)
               ? 0 : SONDE_ENOMEM;
}

void sonde_bench_trust_curl(const struct sonde_bench_trust *t, CURL *curl)
{
    /* OpenSSL's own store knows these variables, libcurl does not. */
    const char *file = t && t->ca_file ? t->ca_file : getenv("SSL_CERT_FILE");
    const char *folder = t && t->ca_file ? NULL : getenv("SSL_CERT_DIR");
    const long verify = !t || !t->insecure;
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, verify);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
    if (!verify) return;
    if (file && *file) curl_easy_setopt(curl, CURLOPT_CAINFO, file);
    if (folder && *folder) curl_easy_setopt(curl, CURLOPT_CAPATH, folder);
    else if (t && t->ca_file) curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
}

/* ---- What failed ----------------------------------------------------------------------------- */

static enum sonde_bench_tls_problem trust_of_verify(long result)
{
    switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED: return SONDE_BENCH_TLS_EXPIRED;
    case X509_V_ERR_CERT_NOT_YET_VALID: return SONDE_BENCH_TLS_EARLY;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: return SONDE_BENCH_TLS_HOST;
    default: return SONDE_BENCH_TLS_UNTRUSTED;
    }
}

enum sonde_bench_tls_problem sonde_bench_tls_classify(long verify_result, unsigned long error)
{
    const int reason = ERR_GET_REASON(error);
    if (ERR_SYSTEM_ERROR(error) || !error) return SONDE_BENCH_TLS_CLOSED;
    if (ERR_GET_LIB(error) != ERR_LIB_SSL) return SONDE_BENCH_TLS_FAILED;
    if (reason > SSL_AD_REASON_OFFSET) return SONDE_BENCH_TLS_REFUSED; /* its alert */
    switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED: return trust_of_verify(verify_result);
    case SSL_R_UNEXPECTED_EOF_WHILE_READING: return SONDE_BENCH_TLS_CLOSED;
    case SSL_R_UNSUPPORTED_PROTOCOL: return SONDE_BENCH_TLS_REFUSED; /* it chose an older one */
    case SSL_R_WRONG_VERSION_NUMBER: return SONDE_BENCH_TLS_NOT_TLS;
    default: return SONDE_BENCH_TLS_FAILED;
    }
}

/* libcurl says what OpenSSL said, as text. */
static enum sonde_bench_tls_problem trust_of_text(const char *why)
{
    static const struct { const char *says; enum sonde_bench_tls_problem problem; } rows[] = {
        { "wrong version number", SONDE_BENCH_TLS_NOT_TLS },
        { "packet length too long", SONDE_BENCH_TLS_NOT_TLS },
        { "bad record type", SONDE_BENCH_TLS_NOT_TLS },
        { "alert", SONDE_BENCH_TLS_REFUSED },
        { "unsupported protocol", SONDE_BENCH_TLS_REFUSED },
        { "unexpected eof", SONDE_BENCH_TLS_CLOSED },
        { "SSL_ERROR_SYSCALL", SONDE_BENCH_TLS_CLOSED },
        { "onnection reset", SONDE_BENCH_TLS_CLOSED },
    };
    for (size_t i = 0; i < SONDE_COUNT(rows); i++) {
        if (strstr(why, rows[i].says)) return rows[i].problem;
    }
    return SONDE_BENCH_TLS_FAILED;
}

enum sonde_bench_tls_problem sonde_bench_tls_of_curl(CURL *curl, CURLcode code, const char *why,
                                                     char *out, size_t size)
{
    enum sonde_bench_tls_problem p = SONDE_BENCH_TLS_NONE;
    const char *detail = "";
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
        long result = X509_V_OK;
        curl_easy_getinfo(curl, CURLINFO_SSL_VERIFYRESULT, &result);
        /* It compares the host itself, before it asks what else was found. */
        const int unasked = result == X509_V_OK || result == X509_V_ERR_UNSPECIFIED;
        p = unasked ? SONDE_BENCH_TLS_HOST : trust_of_verify(result);
        if (p == SONDE_BENCH_TLS_UNTRUSTED) detail = X509_verify_cert_error_string(result);
    } else if (code == CURLE_SSL_CONNECT_ERROR) {
        p = trust_of_text(why);
        const char *last = strrchr(why, ':'); /* error:0A000410:SSL routines::the words */
        if (p == SONDE_BENCH_TLS_REFUSED || p == SONDE_BENCH_TLS_FAILED) {
            detail = last && last[1] ? last + 1 : why;
        }
    }
    if (p != SONDE_BENCH_TLS_NONE) sonde_bench_tls_sentence(p, detail, out, size);
    return p;
}
