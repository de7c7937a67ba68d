/* Content negotiation, listening addresses and Host headers: tables of text and verdict. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "serve/http/accept.h"
#include "serve/http/listen.h"
#include "sonde/sonde.h"

#define PB                                                                                         \
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
#define OM "application/openmetrics-text"

static const struct { const char *accept, *format; } metrics[] = {
    { NULL, "prometheus" },
    { "", "prometheus" },
    { "*/*", "prometheus" },
    { "text/html,application/xhtml+xml,*/*;q=0.8", "prometheus" },
    { "application/json", "prometheus" },
    { OM ";version=1.0.0", "openmetrics" },
    { OM, "openmetrics" },
    { OM ";version=0.0.1", "prometheus" },
    { OM "; version=\"1.0.0\" ; charset=utf-8", "openmetrics" },
    { "APPLICATION/OpenMetrics-Text; Version=1.0.0", "openmetrics" },
    /* Prometheus 2.42, then the same with native histograms on. */
    { OM ";version=1.0.0," OM ";version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
      "openmetrics" },
    { PB "," OM ";version=1.0.0;q=0.8," OM ";version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,"
             "*/*;q=0.1", "protobuf" },
    { PB ";q=0.4," OM ";version=1.0.0;q=0.8,*/*;q=0.1", "openmetrics" },
    { OM ";version=1.0.0;q=0.3,text/plain;q=0.9", "prometheus" },
    { PB ";q=0," OM ";version=1.0.0;q=0", "prometheus" },
    { "application/vnd.google.protobuf", "prometheus" },
    { "application/vnd.google.protobuf;proto=other;encoding=delimited", "prometheus" },
    { "text/plain," OM "," PB, "protobuf" },
    { OM ";q=2", "prometheus" },
    { OM ";q=0.1234", "prometheus" },
    { OM ";q=", "prometheus" },
    { ",,;;=,\"", "prometheus" },
    { "x;a=\"b,c;d\"," OM, "openmetrics" },
    { "x;a=\"b\\\",c\"," OM, "openmetrics" }, /* a quote that is escaped */
    { "x;a=\"never closed," OM, "prometheus" },
    { OM ";q=1.000", "openmetrics" },
    { OM ";q=1.001", "prometheus" },
    { OM ";q=0.001", "openmetrics" },
    { OM ";q=.5", "prometheus" },
    { OM ";q=-1", "prometheus" },
    { OM ";q=0x1", "prometheus" },
    { OM ";q=1,5", "openmetrics" },            /* a comma begins the next */
    { OM "\t;\tq = 0.9 , text/plain;q=0.8", "openmetrics" },
    { OM ";Q=0", "prometheus" },
    { OM ";version=1.0.0;version=0.0.1", "openmetrics" }, /* the first counts */
    { OM ";version", "openmetrics" },          /* no value: as if it were not there */
    { OM ";version=", "prometheus" },
    { OM "x", "prometheus" },
    { "text/plain;version=1.0.0;q=1," OM ";q=0.1", "openmetrics" }, /* not our version of text */
    { "text/*;q=0.9," OM ";q=0.8", "prometheus" },
    { "*/*," OM, "openmetrics" },              /* what is named comes before any */
    { OM ",*/*", "openmetrics" },
    { "application/*", "prometheus" },
    { PB ";q=0.5," PB ";q=0.9," OM ";q=0.7", "protobuf" },
};

static void test_metrics(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
        assert_string_equal(sonde_accept_metrics(metrics[i].accept)->name, metrics[i].format);
    }
}

static const struct { const char *header; int ok; } gzip[] = {
    { NULL, 0 },          { "", 0 },
    { "gzip", 1 },        { "deflate, gzip;q=0.5", 1 },
    { "gzip;q=0", 0 },    { "gzip;q=0.0", 0 },
    { "identity", 0 },    { "*", 1 },
    { "*;q=0", 0 },       { "gzip;q=0, *", 0 },
    { "br, GZIP", 1 },    { "gzippy", 0 },
    { "x-gzip", 1 },      { "gzip;q=0.001", 1 },
    { "*;q=0.5, gzip;q=0", 0 }, { "*;q=0, gzip", 1 },
    { "gzip;q=x", 0 },    { "gzip;level=9", 1 },
    { ",,gzip,,", 1 },    { "\tgzip\t", 1 },
    { "\"gzip\"", 0 },    { "identity;q=1, *;q=0", 0 },
};

static void test_gzip(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(gzip) / sizeof(gzip[0]); i++) {
        assert_int_equal(sonde_accept_gzip(gzip[i].header), gzip[i].ok);
    }
}

static const struct { const char *text, *url, *error; } listens[] = {
    { "127.0.0.1:6060", "http://127.0.0.1:6060", NULL },
    { "127.0.0.2:0", "http://127.0.0.2:0", NULL },
    { "localhost:80", "http://127.0.0.1:80", NULL },
    { ":8080", "http://127.0.0.1:8080", NULL },
    { "8080", "http://127.0.0.1:8080", NULL },
    { "[::1]:65535", "http://[::1]:65535", NULL },
    { "", NULL, "port" },
    { "127.0.0.1", NULL, "port" },
    { "127.0.0.1:", NULL, "port" },
    { "127.0.0.1:65536", NULL, "65535" },
    { "127.0.0.1:80x", NULL, "port" },
    { "127.0.0.1:-1", NULL, "port" },
    { "::1:6060", NULL, "port" },
    { "[::1", NULL, "ADDRESS:PORT" },
    { "[::1]6060", NULL, "ADDRESS:PORT" },
    { "[127.0.0.1]:1", NULL, "not an IP" },
    { "example.org:6060", NULL, "not an IP" },
    { "0.0.0.0:6060", "http://0.0.0.0:6060", NULL },
    { "192.168.1.1:6060", "http://192.168.1.1:6060", NULL },
    { "[::]:6060", "http://[::]:6060", NULL },
};

static void test_listen(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(listens) / sizeof(listens[0]); i++) {
        struct sonde_listen l;
        struct sonde_err err = { "" };
        char url[80];
        const int rc = sonde_listen_parse(listens[i].text, &l, &err);
        assert_int_equal(rc, listens[i].url ? 0 : SONDE_EINVAL);
        if (listens[i].url) {
            sonde_listen_url(&l, 0, url, sizeof(url));
            assert_string_equal(url, listens[i].url);
        } else {
            assert_non_null(strstr(err.text, listens[i].text));
            assert_non_null(strstr(err.text, listens[i].error));
        }
    }
}

static const struct { const char *host; int ok; } hosts[] = {
    { "localhost", 1 },       { "LocalHost:1", 1 },     { "127.0.0.1", 1 },
    { "127.0.0.1:6060", 1 },  { "127.9.9.9:1", 1 },     { "[::1]", 1 },
    { "[::1]:6060", 1 },      { "", 0 },                { "example.org", 0 },
    { "localhost.evil", 0 },  { "127.0.0.1.evil", 0 },  { "10.0.0.1:6060", 0 },
    { "localhost:x", 0 },     { "[::1]x", 0 },          { "[::2]:1", 0 },
    { "::1", 0 },             { "localhost:99999", 0 }, { "2130706433", 0 },
};

static void test_hosts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        assert_int_equal(sonde_listen_host_ok(hosts[i].host), hosts[i].ok);
    }
}

static void test_html(void **state)
{
    (void)state;
    static const struct { const char *accept; int html; } cases[] = {
        { NULL, 0 }, { "", 0 }, { "*/*", 0 }, { "text/html", 1 }, { "text/html;q=0", 0 },
        { "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", 1 },
        { "text/plain, text/html;q=0.5", 0 }, { "text/plain;q=0.5, text/html", 1 },
        { "text/htmlx", 0 }, { "TEXT/HTML", 1 }, { "text/plain,text/html", 1 },
        { "text/html;level=1", 1 }, { "text/*", 0 }, { "application/xhtml+xml", 0 },
        { "text/html;q=0.001, text/plain;q=0.002", 0 }, { "x;y=\"text/html\"", 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(sonde_accept_html(cases[i].accept), cases[i].html);
    }
}

static void test_etags(void **state)
{
    (void)state;
    static const struct { const char *sent; int has; } cases[] = {
        { NULL, 0 }, { "", 0 }, { "*", 1 }, { "\"ab12\"", 1 }, { "W/\"ab12\"", 1 },
        { "\"ab12-gz\"", 1 }, { "\"x\", W/\"ab12-gz\"", 1 }, { "ab12", 0 }, { "\"ab1\"", 0 },
        { "\"ab12-gz-gz\"", 0 }, { "\"x,\"ab12\"", 0 }, { "W/", 0 }, { "\"ab12", 0 },
    };
    char plain[SONDE_ETAG_MAX], packed[SONDE_ETAG_MAX];
    sonde_accept_etag(plain, "ab12", 0);
    sonde_accept_etag(packed, "ab12", 1);
    assert_string_equal(plain, "\"ab12\"");
    assert_string_equal(packed, "\"ab12-gz\"");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (sonde_accept_has(cases[i].sent, "ab12") != cases[i].has) fail_msg("%s", cases[i].sent);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_html),
        cmocka_unit_test(test_etags),
        cmocka_unit_test(test_listen),
        cmocka_unit_test(test_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
