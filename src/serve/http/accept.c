/* accept.c - see accept.h. Header values are short (the server caps all headers together), so
 * each element is looked at in place, again for each question. */
#include "serve/http/accept.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct http_accept_piece { const char *text; size_t len; };

static struct http_accept_piece http_accept_trim(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t')) from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t')) to--;
    return (struct http_accept_piece){ from, (size_t)(to - from) };
}

static int http_accept_is(struct http_accept_piece p, const char *text)
{
    return p.len == strlen(text) && strncasecmp(p.text, text, p.len) == 0;
}

/* Up to the next stop character outside of quotes, or the end. */
static const char *http_accept_until(const char *p, const char *end, char stop)
{
    for (int quoted = 0; p < end && (quoted || *p != stop); p++) {
        if (*p == '"') quoted = !quoted;
        else if (*p == '\\' && quoted && p + 1 < end) p++;
    }
    return p;
}

/* The next element of a comma-separated list; 0 at its end. */
static int next_element(const char **at, struct http_accept_piece *out)
{
    const char *end = *at + strlen(*at);
    if (*at == end) return 0;
    const char *stop = http_accept_until(*at, end, ',');
    *out = http_accept_trim(*at, stop);
    *at = stop < end ? stop + 1 : end;
    return 1;
}

/* What stands before the parameters. */
static struct http_accept_piece main_of(struct http_accept_piece e)
{
    return http_accept_trim(e.text, http_accept_until(e.text, e.text + e.len, ';'));
}

/* The value of a parameter without quotes; text NULL if e does not have it. */
static struct http_accept_piece http_accept_param(struct http_accept_piece e, const char *name)
{
    const char *const end = e.text + e.len;
    for (const char *p = http_accept_until(e.text, end, ';'); p < end;) {
        const char *stop = http_accept_until(++p, end, ';');
        const char *equals = memchr(p, '=', (size_t)(stop - p));
        if (equals && http_accept_is(http_accept_trim(p, equals), name)) {
            struct http_accept_piece v = http_accept_trim(equals + 1, stop);
            if (v.len >= 2 && v.text[0] == '"' && v.text[v.len - 1] == '"') {
                v.text++;
                v.len -= 2;
            }
            return v;
        }
        p = stop;
    }
    return (struct http_accept_piece){ NULL, 0 };
}

/* q in thousandths; 1000 without one, 0 if it is malformed. */
static int http_accept_weight(struct http_accept_piece e)
{
    const struct http_accept_piece q = http_accept_param(e, "q");
    if (!q.text) return 1000;
    if (q.len == 0 || q.len > 5 || (q.text[0] != '0' && q.text[0] != '1')) return 0;
    int value = (q.text[0] - '0') * 1000, unit = 100;
    for (size_t i = 1; i < q.len; i++) {
        if (i == 1) {
            if (q.text[i] != '.') return 0;
            continue;
        }
        if (q.text[i] < '0' || q.text[i] > '9') return 0;
        value += (q.text[i] - '0') * unit;
        unit /= 10;
    }
    return value <= 1000 ? value : 0;
}

/* 1 if e lacks the parameter or has this value. */
static int param_fits(struct http_accept_piece e, const char *name, const char *value)
{
    const struct http_accept_piece v = http_accept_param(e, name);
    return !v.text || http_accept_is(v, value);
}

/* The format an element asks for, with its rank among equals; NULL = none of ours. */
static const char *http_accept_format_of(struct http_accept_piece e, int *rank)
{
    const struct http_accept_piece type = main_of(e);
    *rank = 0;
    if (http_accept_is(type, "application/vnd.google.protobuf") &&
        http_accept_is(http_accept_param(e, "proto"), "io.prometheus.client.MetricFamily") &&
        http_accept_is(http_accept_param(e, "encoding"), "delimited")) {
        *rank = 3;
        return "protobuf";
    }
    if (http_accept_is(type, "application/openmetrics-text") && param_fits(e, "version", "1.0.0")) {
        *rank = 2;
        return "openmetrics";
    }
    if (http_accept_is(type, "text/plain") && param_fits(e, "version", "0.0.4")) {
        *rank = 1;
        return "prometheus";
    }
    return http_accept_is(type, "*/*") || http_accept_is(type, "text/*") ? "prometheus" : NULL;
}

const struct sonde_export_ops *sonde_accept_metrics(const char *accept)
{
    const char *best = "prometheus";
    int best_q = 0, best_rank = 0, rank;
    struct http_accept_piece e;
    for (const char *at = accept ? accept : ""; next_element(&at, &e);) {
        const char *format = http_accept_format_of(e, &rank);
        const int q = http_accept_weight(e);
        if (!format || q == 0 || q < best_q || (q == best_q && rank <= best_rank)) continue;
        best = format;
        best_q = q;
        best_rank = rank;
    }
    return sonde_export_find(best);
}

int sonde_accept_gzip(const char *accept_encoding)
{
    int named = -1, any = -1;
    struct http_accept_piece e;
    for (const char *at = accept_encoding ? accept_encoding : ""; next_element(&at, &e);) {
        const struct http_accept_piece coding = main_of(e);
        if (http_accept_is(coding, "gzip") || http_accept_is(coding, "x-gzip"))
            named = http_accept_weight(e);
        else if (http_accept_is(coding, "*")) any = http_accept_weight(e);
    }
    return named >= 0 ? named > 0 : any > 0;
}

int sonde_accept_html(const char *accept)
{
    int html = 0, plain = 0;
    struct http_accept_piece e;
    for (const char *at = accept ? accept : ""; next_element(&at, &e);) {
        if (http_accept_is(main_of(e), "text/html")) html = http_accept_weight(e);
        else if (http_accept_is(main_of(e), "text/plain")) plain = http_accept_weight(e);
    }
    return html > 0 && html >= plain;
}

void sonde_accept_etag(char out[SONDE_ETAG_MAX], const char *hash, int packed)
{
    snprintf(out, SONDE_ETAG_MAX, "\"%.64s%s\"", hash, packed ? "-gz" : "");
}

int sonde_accept_has(const char *if_none_match, const char *hash)
{
    char plain[SONDE_ETAG_MAX], packed[SONDE_ETAG_MAX];
    struct http_accept_piece e;
    sonde_accept_etag(plain, hash, 0);
    sonde_accept_etag(packed, hash, 1);
    for (const char *at = if_none_match ? if_none_match : ""; next_element(&at, &e);) {
        if (e.len > 2 && strncmp(e.text, "W/", 2) == 0) { /* a proxy's: the comparison is weak */
            e.text += 2;
            e.len -= 2;
        }
        if (http_accept_is(e, "*") || http_accept_is(e, plain) || http_accept_is(e, packed)) {
            return 1;
        }
    }
    return 0;
}
