/* http.c - reads of an object behind a URL by range requests, one connection for each thread that
 * is kept: see cache.h. What caches on the way say of themselves decides what a hit is:
 *
 *   Age: N             a cache had it, N seconds old; N = 0 says nothing
 *   X-Cache, X-Cache-Status, CF-Cache-Status: HIT, MISS …   Varnish, nginx, CDNs
 *   Cache-Status: name; hit, or fwd=…                       RFC 9211
 *
 * A status other than 206 (of a whole object 200; of a revalidation also 304), and a body of
 * another length, are errors; more than was asked for is not read. Redirects are not followed:
 * which server is measured should be said. */
#include <ctype.h>
#include <curl/curl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "bench/cache/cache.h"
#include "bench/cache/zipf.h"
#include "bench/draw.h"
#include "sonde/sonde.h"

enum { HTTP_TIMEOUT_S = 30, HTTP_ETAG_MAX = 255, HTTP_HEADER_MAX = 1024 };
#define HTTP_WHOLE_MAX ((uint64_t)64 << 20) /* of an object that has no ranges */

/* One answer. */
struct cache_answer {
    uint64_t bytes, bytes_max;
    uint64_t total;              /* of Content-Range, else of Content-Length; 0 = not said */
    int hit;                     /* 1 hit, 0 miss, -1 not said */
    char etag[HTTP_ETAG_MAX + 1];
    char said[CURL_ERROR_SIZE];  /* by libcurl, of what failed */
};

struct cache_http {
    const char *url;
    const struct sonde_cache_options *o;
    uint64_t bytes;
    int ranges;
    char etag[HTTP_ETAG_MAX + 1];
};

struct cache_client {
    const struct cache_http *h;
    const struct sonde_cache_row *row;
    const struct sonde_zipf *zipf;
    CURL *curl;
    struct curl_slist *headers;
    struct cache_answer answer;
    uint64_t from, to, begin_ns, end_ns, last_ns;
    struct sonde_draw draw;
    uint64_t reads, bytes, hits, misses, errors, revalidated, connects,
             windows[SONDE_CACHE_WINDOWS];
    char why[120];               /* of the first error */
    struct sonde_cache_latency latency;
};

/* ---- Answers --------------------------------------------------------------------------------- */

static size_t http_take_body(char *data, size_t size, size_t count, void *arg)
{
    struct cache_answer *a = arg;
    (void)data;
    a->bytes += size * count;
    return a->bytes > a->bytes_max ? 0 : size * count;
}

static int http_says(const char *value, const char *word)
{
    return strcasestr(value, word) != NULL;
}

static void http_take_field(struct cache_answer *a, const char *name, const char *value)
{
    if (!strcasecmp(name, "content-range")) {
        const char *slash = strchr(value, '/');
        if (slash) a->total = strtoull(slash + 1, NULL, 10);
    } else if (!strcasecmp(name, "content-length")) {
        if (!a->total) a->total = strtoull(value, NULL, 10);
    } else if (!strcasecmp(name, "etag")) {
        const size_t len = strlen(value); /* one that is cut would be another */
        if (len <= HTTP_ETAG_MAX) memcpy(a->etag, value, len + 1);
    } else if (!strcasecmp(name, "age")) {
        if (strtoull(value, NULL, 10) > 0 && a->hit < 0) a->hit = 1;
    } else if (!strcasecmp(name, "x-cache") || !strcasecmp(name, "x-cache-status") ||
               !strcasecmp(name, "cf-cache-status")) {
        if (http_says(value, "hit")) a->hit = 1;
        else if (http_says(value, "miss") || http_says(value, "expired") ||
                 http_says(value, "bypass") || http_says(value, "dynamic")) a->hit = 0;
    } else if (!strcasecmp(name, "cache-status")) {
        a->hit = http_says(value, "fwd=") ? 0 : http_says(value, "hit") ? 1 : a->hit;
    }
}

static size_t http_take_header(char *data, size_t size, size_t count, void *arg)
{
    const size_t len = size * count;
    char line[HTTP_HEADER_MAX];
    if (len >= sizeof(line)) return len; /* none of those that matter is that long */
    memcpy(line, data, len);
    line[len] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    char *colon = strchr(line, ':');
    if (!colon) return len;
    *colon = '\0';
    http_take_field(arg, line, colon + 1 + strspn(colon + 1, " \t"));
    return len;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static CURL *http_handle(const struct cache_http *h, struct cache_answer *answer)
{
    CURL *c = curl_easy_init();
    if (!c) return NULL;
    curl_easy_setopt(c, CURLOPT_URL, h->url);
    sonde_bench_trust_curl(&h->o->trust, c);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)HTTP_TIMEOUT_S);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "sonde/" SONDE_VERSION);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, http_take_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, answer->said);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, http_take_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, answer);
    return c;
}

/* The status, or -1 with what curl said in why. */
static long http_get(CURL *c, struct cache_answer *a, uint64_t at, uint64_t bytes, int range,
                     char *why, size_t why_size)
{
    char text[64];
    long status = 0;
    *a = (struct cache_answer){ .bytes_max = bytes, .hit = -1 };
    snprintf(text, sizeof(text), "%" PRIu64 "-%" PRIu64, at, at + bytes - 1);
    curl_easy_setopt(c, CURLOPT_RANGE, range ? text : NULL);
    const CURLcode rc = curl_easy_perform(c);
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    if (!rc) return status;
    if (rc == CURLE_WRITE_ERROR && status) {
        snprintf(why, why_size, "status %ld with more bytes than were asked for", status);
    } else if (!sonde_bench_tls_of_curl(c, rc, a->said, why, why_size)) {
        snprintf(why, why_size, "%s", curl_easy_strerror(rc));
    }
    return -1;
}

/* How large it is, whether there are ranges, and its ETag. */
static int http_look(struct cache_http *h, struct sonde_cache_target *t, struct sonde_err *err)
{
    struct cache_answer a;
    char why[300] = "";
    CURL *c = http_handle(h, &a);
    if (!c) return sonde_err_memory(err);
    long status = http_get(c, &a, 0, 1, 1, why, sizeof(why));
    const int no_ranges = status < 0 && a.bytes > 1;
    if (no_ranges) { /* it sends all of it */
        status = http_get(c, &a, 0, HTTP_WHOLE_MAX, 0, why, sizeof(why));
        a.total = a.bytes;
    }
    curl_easy_cleanup(c);
    if (status < 0) {
        return sonde_err_set(err, SONDE_EIO, "cannot read %.200s: %s", h->url, why);
    }
    if (status != 206 && status != 200) {
        return sonde_err_set(err, SONDE_EIO, "%.200s answers with status %ld, not with bytes",
                             h->url, status);
    }
    h->ranges = status == 206;
    t->bytes_all = status == 206 ? a.total : a.bytes;
    if (!t->bytes_all) {
        return sonde_err_set(err, SONDE_EINVAL, "%.200s is empty, or does not say how long it is",
                             h->url);
    }
    h->bytes = t->bytes = !h->ranges || t->bytes_all < h->o->bytes_max ? t->bytes_all
                                                                       : h->o->bytes_max;
    snprintf(t->what, sizeof(t->what), "HTTP %s ranges", h->ranges ? "with" : "without");
    memcpy(h->etag, a.etag, sizeof(h->etag));
    return 0;
}

static void cache_client_note(struct cache_client *c, long status)
{
    const int again = c->row->state == SONDE_CACHE_REVALIDATE && status == 304;
    const uint64_t wanted = c->h->ranges ? c->row->block : c->h->bytes;
    const int fine = again || (status == (c->h->ranges ? 206 : 200) && c->answer.bytes == wanted);
    long connects = 0;
    curl_easy_getinfo(c->curl, CURLINFO_NUM_CONNECTS, &connects);
    c->connects += connects > 0 ? (uint64_t)connects : 0;
    if (!fine) {
        c->errors++;
        if (!c->why[0]) {
            snprintf(c->why, sizeof(c->why), "status %ld with %" PRIu64 " bytes", status,
                     c->answer.bytes);
        }
        return;
    }
    c->reads++;
    c->bytes += c->answer.bytes;
    c->revalidated += again ? 1u : 0u;
    c->hits += c->answer.hit == 1 ? 1u : 0u;
    c->misses += c->answer.hit == 0 ? 1u : 0u;
}

static void *cache_client_run(void *arg)
{
    struct cache_client *c = arg;
    const uint64_t blocks = c->h->ranges ? c->h->bytes / c->row->block : 1;
    const uint64_t window_ns = (c->end_ns - c->begin_ns) / SONDE_CACHE_WINDOWS + 1;
    uint64_t now = sonde_clock_ns(CLOCK_MONOTONIC), next = c->from;
    while (now < c->end_ns || !(c->reads + c->errors)) { /* one at least */
        if (next >= c->to) next = c->from;
        const uint64_t i = c->row->pattern == SONDE_CACHE_SEQUENTIAL ? next++
                           : c->row->pattern == SONDE_CACHE_RANDOM
                               ? sonde_draw_below(&c->draw, blocks)
                               : sonde_zipf_place(c->zipf, sonde_zipf_draw(c->zipf, &c->draw));
        const uint64_t before = sonde_clock_ns(CLOCK_MONOTONIC), reads = c->reads;
        const long status = http_get(c->curl, &c->answer, i * c->row->block,
                                     c->h->ranges ? c->row->block : c->h->bytes, c->h->ranges,
                                     c->why, c->errors ? 0 : sizeof(c->why));
        now = sonde_clock_ns(CLOCK_MONOTONIC);
        cache_client_note(c, status);
        if (c->reads == reads) {
            /* A server that refuses at once is not asked a million times. */
            if (c->errors >= 10 && !c->reads) break;
            continue;
        }
        sonde_cache_latency_add(&c->latency, now - before);
        const uint64_t window = (now - c->begin_ns) / window_ns;
        if (window < SONDE_CACHE_WINDOWS) c->windows[window] += c->answer.bytes;
    }
    c->last_ns = now;
    return NULL;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static int cache_client_open(struct cache_client *c, const struct cache_http *h,
                             const struct sonde_cache_row *row)
{
    char line[HTTP_ETAG_MAX + 32];
    c->curl = http_handle(h, &c->answer);
    if (!c->curl) return SONDE_ENOMEM;
    if (row->state == SONDE_CACHE_NO_CACHE) {
        c->headers = curl_slist_append(NULL, "Cache-Control: no-cache");
    } else if (row->state == SONDE_CACHE_REVALIDATE) {
        snprintf(line, sizeof(line), "If-None-Match: %s", h->etag);
        c->headers = curl_slist_append(NULL, line);
    }
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers);
    return 0;
}

static void http_row_merge(struct sonde_cache_row *row, const struct cache_client *clients,
                           uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t last_ns = begin_ns, windows[SONDE_CACHE_WINDOWS] = { 0 };
    for (uint32_t i = 0; i < row->threads; i++) {
        const struct cache_client *c = &clients[i];
        row->reads += c->reads;
        row->bytes += c->bytes;
        row->hits += c->hits;
        row->misses += c->misses;
        row->errors += c->errors;
        row->revalidated += c->revalidated;
        row->connects += c->connects;
        sonde_cache_latency_merge(&row->latency, &c->latency);
        for (size_t w = 0; w < SONDE_CACHE_WINDOWS; w++) windows[w] += c->windows[w];
        if (c->last_ns > last_ns) last_ns = c->last_ns;
        if (c->errors && !row->why[0]) snprintf(row->why, sizeof(row->why), "%s", c->why);
    }
    row->seconds = (double)(last_ns - begin_ns) * 1e-9;
    row->measured = row->reads > 0 && row->seconds > 0;
    const double window_s = (double)(end_ns - begin_ns) * 1e-9 / SONDE_CACHE_WINDOWS;
    for (size_t w = 0; w < SONDE_CACHE_WINDOWS; w++) row->rates[w] = (double)windows[w] / window_s;
    row->rate_count = SONDE_CACHE_WINDOWS;
}

static int http_row_read(const struct cache_http *h, struct sonde_cache_row *row)
{
    const uint32_t n = row->threads;
    struct cache_client *clients = sonde__calloc(n, sizeof(*clients));
    struct sonde_thread *threads = sonde__calloc(n, sizeof(*threads));
    const uint64_t blocks = h->ranges ? h->bytes / row->block : 1;
    struct sonde_zipf zipf;
    int rc = clients && threads ? 0 : SONDE_ENOMEM;
    sonde_zipf_init(&zipf, blocks, h->o->exponent);
    for (uint32_t i = 0; !rc && i < n; i++) {
        clients[i] = (struct cache_client){ .h = h, .row = row, .zipf = &zipf,
            .from = blocks * i / n, .to = blocks * (i + 1) / n,
            .draw = { .state = sonde_hash_u64(h->o->seed + i) } };
        rc = cache_client_open(&clients[i], h, row);
    }
    const uint64_t begin_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    const uint64_t end_ns = begin_ns + sonde_clock_ns_of(h->o->duration_s);
    for (uint32_t i = 0; !rc && i < n; i++) {
        clients[i].begin_ns = begin_ns;
        clients[i].end_ns = end_ns;
        if (i) {
            rc = sonde_thread_start(&threads[i], "sonde-get", cache_client_run, &clients[i], NULL);
        }
    }
    if (!rc) cache_client_run(&clients[0]);
    for (uint32_t i = 1; threads && i < n; i++) sonde_thread_join(&threads[i]);
    if (!rc) http_row_merge(row, clients, begin_ns, end_ns);
    for (uint32_t i = 0; clients && i < n; i++) {
        curl_easy_cleanup(clients[i].curl);
        curl_slist_free_all(clients[i].headers);
    }
    sonde__free(clients);
    sonde__free(threads);
    return rc;
}

int sonde_cache_http_run(const char *url, const struct sonde_cache_options *o,
                         struct sonde_cache_row *rows, size_t count,
                         struct sonde_cache_target *t, struct sonde_err *err)
{
    struct cache_http h = { .url = url, .o = o };
    *t = (struct sonde_cache_target){ 0 };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    const int rc = http_look(&h, t, err);
    if (rc) return rc;
    for (size_t i = 0; i < count; i++) {
        struct sonde_cache_row *row = &rows[i];
        char state[64];
        snprintf(state, sizeof(state), "%s, %s", sonde_cache_state_name(row->state),
                 sonde_cache_pattern_name(row->pattern));
        if (o->tell) o->tell(o->arg, (double)i / (double)count, state);
        row->resident_before = NAN;
        if (row->state == SONDE_CACHE_REVALIDATE && !h.etag[0]) {
            snprintf(row->why, sizeof(row->why), "the server sends no ETag to ask with");
        } else if (h.ranges && (h.bytes < row->block || h.bytes / row->block < row->threads)) {
            snprintf(row->why, sizeof(row->why), "the object has fewer blocks than threads");
        } else if (http_row_read(&h, row)) {
            return sonde_err_memory(err);
        }
    }
    return 0;
}
