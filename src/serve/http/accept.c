/* accept.c - see accept.h. Header values are short (the server caps all headers together), so
 * each element is looked at in place, again for each question. */
#include "serve/http/accept.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct piece { const char *text; size_t len; };

static struct piece trim(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t')) from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t')) to--;
    return (struct piece){ from, (size_t)(to - from) };
}

static int is(struct piece p, const char *text)
{
    return p.len == strlen(text) && strncasecmp(p.text, text, p.len) == 0;
}

/* Up to the next stop character outside of quotes, or the end. */
static const char *until(const char *p, const char *end, char stop)
{
    for (int quoted = 0; p < end && (quoted || *p != stop); p++) {
        if (*p == '"') quoted = !quoted;
        else if (*p == '\\' && quoted && p + 1 < end) p++;
    }
    return p;
}

/* The next element of a comma-separated list; 0 at its end. */
static int next_element(const char **at, struct piece *out)
{
    const char *end = *at + strlen(*at);
    if (*at == end) return 0;
    const char *stop = until(*at, end, ',');
    *out = trim(*at, stop);
    *at = stop < end ? stop + 1 : end;
    return 1;
}

/* What stands before the parameters. */
static struct piece main_of(struct piece e)
{
    return trim(e.text, until(e.text, e.text + e.len, ';'));
}

/* The value of a parameter without quotes; text NULL if e does not have it. */
static struct piece param(struct piece e, const char *name)
{
    const char *const end = e.text + e.len;
    for (const char *p = until(e.text, end, ';'); p < end;) {
        const char *stop = until(++p, end, ';');
        const char *equals = memchr(p, '=', (size_t)(stop - p));
        if (equals && is(trim(p, equals), name)) {
            struct piece v = trim(equals + 1, stop);
            if (v.len >= 2 && v.text[0] == '"' && v.text[v.len - 1] == '"') {
                v.text++;
                v.len -= 2;
            }
            return v;
        }
        p = stop;
    }
    return (struct piece){ NULL, 0 };
}

/* q in thousandths; 1000 without one, 0 if it is malformed. */
static int weight(struct piece e)
{
    const struct piece q = param(e, "q");
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
static int param_fits(struct piece e, const char *name, const char *value)
{
    const struct piece v = param(e, name);
    return !v.text || is(v, value);
}

/* The format an element asks for, with its rank among equals; NULL = none of ours. */
static const char *format_of(struct piece e, int *rank)
{
    const struct piece type = main_of(e);
    *rank = 0;
    if (is(type, "application/vnd.google.protobuf") &&
        is(param(e, "proto"), "io.prometheus.client.MetricFamily") &&
        is(param(e, "encoding"), "delimited")) {
        *rank = 3;
        return "protobuf";
    }
    if (is(type, "application/openmetrics-text") && param_fits(e, "version", "1.0.0")) {
        *rank = 2;
        return "openmetrics";
    }
    if (is(type, "text/plain") && param_fits(e, "version", "0.0.4")) {
        *rank = 1;
        return "prometheus";
    }
    return is(type, "*/*") || is(type, "text/*") ? "prometheus" : NULL;
}

const struct sonde_export_ops *sonde_accept_metrics(const char *accept)
{
    const char *best = "prometheus";
    int best_q = 0, best_rank = 0, rank;
    struct piece e;
    for (const char *at = accept ? accept : ""; next_element(&at, &e);) {
        const char *format = format_of(e, &rank);
        const int q = weight(e);
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
    struct piece e;
    for (const char *at = accept_encoding ? accept_encoding : ""; next_element(&at, &e);) {
        const struct piece coding = main_of(e);
        if (is(coding, "gzip") || is(coding, "x-gzip")) named = weight(e);
        else if (is(coding, "*")) any = weight(e);
    }
    return named >= 0 ? named > 0 : any > 0;
}

int sonde_accept_html(const char *accept)
{
    int html = 0, plain = 0;
    struct piece e;
    for (const char *at = accept ? accept : ""; next_element(&at, &e);) {
        if (is(main_of(e), "text/html")) html = weight(e);
        else if (is(main_of(e), "text/plain")) plain = weight(e);
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
    struct piece e;
    sonde_accept_etag(plain, hash, 0);
    sonde_accept_etag(packed, hash, 1);
    for (const char *at = if_none_match ? if_none_match : ""; next_element(&at, &e);) {
        if (e.len > 2 && strncmp(e.text, "W/", 2) == 0) { /* a proxy's: the comparison is weak */
            e.text += 2;
            e.len -= 2;
        }
        if (is(e, "*") || is(e, plain) || is(e, packed)) return 1;
    }
    return 0;
}
