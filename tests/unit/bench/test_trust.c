/* Whose certificates are believed, and what failures are called. What connections do with it is in
 * http/test_load_tls.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "bench/trust.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_classes(void **state)
{
    (void)state;
    static const struct {
        long verify;
        int lib, reason;
        enum sonde_bench_tls_problem problem;
    } cases[] = {
        { X509_V_OK, 0, 0, SONDE_BENCH_TLS_CLOSED },
        { X509_V_OK, ERR_LIB_SSL, SSL_R_UNEXPECTED_EOF_WHILE_READING, SONDE_BENCH_TLS_CLOSED },
        { X509_V_OK, ERR_LIB_SSL, SSL_R_WRONG_VERSION_NUMBER, SONDE_BENCH_TLS_NOT_TLS },
        { X509_V_OK, ERR_LIB_SSL, SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, SONDE_BENCH_TLS_REFUSED },
        { X509_V_OK, ERR_LIB_SSL, SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, SONDE_BENCH_TLS_REFUSED },
        { X509_V_OK, ERR_LIB_SSL, SSL_R_UNSUPPORTED_PROTOCOL, SONDE_BENCH_TLS_REFUSED },
        { X509_V_OK, ERR_LIB_SSL, SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, SONDE_BENCH_TLS_FAILED },
        { X509_V_OK, ERR_LIB_X509, 1040, SONDE_BENCH_TLS_FAILED },
        { X509_V_ERR_CERT_HAS_EXPIRED, ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED,
          SONDE_BENCH_TLS_EXPIRED },
        { X509_V_ERR_CERT_NOT_YET_VALID, ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED,
          SONDE_BENCH_TLS_EARLY },
        { X509_V_ERR_HOSTNAME_MISMATCH, ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED,
          SONDE_BENCH_TLS_HOST },
        { X509_V_ERR_IP_ADDRESS_MISMATCH, ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED,
          SONDE_BENCH_TLS_HOST },
        { X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED,
          SONDE_BENCH_TLS_UNTRUSTED },
        { X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, ERR_LIB_SSL,
          SSL_R_CERTIFICATE_VERIFY_FAILED, SONDE_BENCH_TLS_UNTRUSTED },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const unsigned long error = cases[i].lib ? ERR_PACK(cases[i].lib, 0, cases[i].reason) : 0;
        const enum sonde_bench_tls_problem p = sonde_bench_tls_classify(cases[i].verify, error);
        if (p != cases[i].problem) fail_msg("case %zu: %s", i, sonde_bench_tls_problem_name(p));
    }
}

/* As libcurl says it. */
static void test_curl(void **state)
{
    (void)state;
    static const struct {
        CURLcode code;
        const char *why;
        enum sonde_bench_tls_problem problem;
        const char *says;
    } cases[] = {
        { CURLE_OK, "", SONDE_BENCH_TLS_NONE, "as before" },
        { CURLE_COULDNT_CONNECT, "Failed to connect", SONDE_BENCH_TLS_NONE, "as before" },
        { CURLE_SSL_CONNECT_ERROR, "error:0A00010B:SSL routines::wrong version number",
          SONDE_BENCH_TLS_NOT_TLS, "does not speak TLS on this port; use http://" },
        { CURLE_SSL_CONNECT_ERROR, "error:0A000410:SSL routines::sslv3 alert handshake failure",
          SONDE_BENCH_TLS_REFUSED, "(sslv3 alert handshake failure)" },
        { CURLE_SSL_CONNECT_ERROR, "OpenSSL SSL_connect: Connection reset by peer in connection to x",
          SONDE_BENCH_TLS_CLOSED, "closed the connection" },
        { CURLE_SSL_CONNECT_ERROR, "", SONDE_BENCH_TLS_FAILED, "the TLS connection failed;" },
        { CURLE_PEER_FAILED_VERIFICATION, "", SONDE_BENCH_TLS_HOST, "is for another host" },
    };
    CURL *curl = curl_easy_init();
    for (size_t i = 0; i < COUNT(cases); i++) {
        char out[400] = "as before";
        const enum sonde_bench_tls_problem p =
            sonde_bench_tls_of_curl(curl, cases[i].code, cases[i].why, out, sizeof(out));
        if (p != cases[i].problem || !strstr(out, cases[i].says)) fail_msg("case %zu: %s", i, out);
    }
    curl_easy_cleanup(curl);
}

/* Each problem has a name and says what to do. */
static void test_sentences(void **state)
{
    (void)state;
    for (int i = SONDE_BENCH_TLS_NONE + 1; i < SONDE_BENCH_TLS_PROBLEM_COUNT; i++) {
        const enum sonde_bench_tls_problem p = (enum sonde_bench_tls_problem)i;
        char out[400], tiny[8];
        sonde_bench_tls_sentence(p, "in other words", out, sizeof(out));
        assert_non_null(strstr(out, " (in other words); "));
        assert_true(strlen(strrchr(out, ';')) > 10 && strlen(out) < sizeof(out) - 100);
        assert_true(sonde_bench_tls_problem_name(p)[0]);
        sonde_bench_tls_sentence(p, "", tiny, sizeof(tiny));
        assert_int_equal(strlen(tiny), 7);
    }
}

static void test_host(void **state)
{
    (void)state;
    static const struct { const char *host, *name; } cases[] = {
        { "example.com", "example.com" }, { "example.com.", "example.com" }, { "localhost", "localhost" },
        { "127.0.0.1", NULL },            { "::1", NULL },                   { "1.2.3", "1.2.3" },
    };
    SSL_CTX *c;
    assert_int_equal(sonde_bench_trust_context(NULL, &c, NULL), 0);
    assert_int_equal(SSL_CTX_get_verify_mode(c), SSL_VERIFY_PEER);
    for (size_t i = 0; i < COUNT(cases); i++) {
        SSL *ssl = SSL_new(c);
        assert_int_equal(sonde_bench_trust_host(ssl, cases[i].host), 0);
        SSL_set_connect_state(ssl);
        const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
        const char *verified = X509_VERIFY_PARAM_get0_host(SSL_get0_param(ssl), 0);
        char *address = X509_VERIFY_PARAM_get1_ip_asc(SSL_get0_param(ssl));
        assert_int_equal(!name, !cases[i].name);
        assert_int_equal(!verified, !cases[i].name);
        assert_int_equal(!address, !!cases[i].name);
        if (name) assert_string_equal(name, cases[i].name);
        if (name) assert_string_equal(verified, cases[i].name);
        OPENSSL_free(address);
        SSL_free(ssl);
    }
    SSL_CTX_free(c);
}

static void test_check(void **state)
{
    (void)state;
    static const struct { struct sonde_bench_trust trust; const char *says; } cases[] = {
        { { 0, NULL }, NULL },
        { { 1, NULL }, NULL },
        { { 1, "/etc/hosts" }, "--insecure verifies no certificate" },
        { { 0, "/etc/hosts" }, "cannot use '/etc/hosts': it holds no certificate in PEM" },
        { { 0, "/nowhere/x" }, "cannot use '/nowhere/x': No such file or directory" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_err err = { "" };
        ERR_clear_error();
        const int rc = sonde_bench_trust_check(&cases[i].trust, &err);
        assert_int_equal(rc, cases[i].says ? SONDE_EINVAL : 0);
        if (rc && !strstr(err.text, cases[i].says)) fail_msg("case %zu: %s", i, err.text);
        assert_int_equal(ERR_peek_error(), 0); /* nothing is left for others */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes), cmocka_unit_test(test_curl), cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_host),    cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
