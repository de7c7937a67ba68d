/* http.c - one POST to a destination, by libcurl. Certificates are checked against those the system
 * trusts, or those of SSL_CERT_FILE. Redirections are not followed: what is sent may carry a
 * token. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "push/push_private.h"
#include "sonde/sonde.h"

enum { SHOWN = 160 };
#define CONNECT_MAX_S 10.0

static void push_http_init(void) { curl_global_init(CURL_GLOBAL_DEFAULT); }

void *push_http_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, push_http_init);
    return curl_easy_init();
}

void push_http_close(void *curl)
{
    if (curl) curl_easy_cleanup(curl);
}

/* ---- URLs ------------------------------------------------------------------------------------ */

static int push_http_has(CURLU *u, CURLUPart part)
{
    char *text = NULL;
    const int found = curl_url_get(u, part, &text, 0) == CURLUE_OK && text && *text;
    curl_free(text);
    return found;
}

static int has_path(CURLU *u)
{
    char *text = NULL;
    const int found = curl_url_get(u, CURLUPART_PATH, &text, 0) == CURLUE_OK && text && text[0] &&
                      strcmp(text, "/") != 0;
    curl_free(text);
    return found;
}

int push_url_check(const char *url, const char *path, char out[PUSH_URL_MAX], struct sonde_err *err)
{
    CURLU *u = curl_url();
    if (!u) return sonde_err_memory(err);
    int rc = 0;
    const size_t len = strlen(url);
    if ((strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) ||
        curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK) {
        rc =
            sonde_err_set(err, SONDE_EINVAL, "'%.200s' is not a URL such as http://HOST:PORT", url);
    } else if (push_http_has(u, CURLUPART_USER) || push_http_has(u, CURLUPART_PASSWORD)) {
        rc = sonde_err_set(err, SONDE_EINVAL,
                           "a URL to push to holds no credentials: put them as a "
                           "header in a file (`sonde help config`, push)");
    } else if (push_http_has(u, CURLUPART_QUERY) || push_http_has(u, CURLUPART_FRAGMENT)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "'%.200s': a URL to push to has no ? and no #", url);
    } else if (len + strlen(path) + 1 > PUSH_URL_MAX / 2) {
        rc = sonde_err_set(err, SONDE_EINVAL, "a URL of %zu bytes is too long", len);
    } else {
        const size_t n = url[len - 1] == '/' ? len - 1 : len;
        snprintf(out, PUSH_URL_MAX, "%.*s%s", (int)n, url, has_path(u) ? "" : path);
    }
    curl_url_cleanup(u);
    return rc;
}

void push_url_shown(const char *url, char *out, size_t out_size)
{
    const char *host = strstr(url, "://");
    const size_t start = host ? (size_t)(host - url) + 3 : 0;
    snprintf(out, out_size, "%.*s", (int)(start + strcspn(url + start, "/?#")), url);
}

int push_url_check_webhook(const char *url, const char *path, char out[PUSH_WEBHOOK_MAX],
                           struct sonde_err *err)
{
    char shown[160];
    CURLU *u = curl_url();
    if (!u) return sonde_err_memory(err);
    int rc = 0;
    push_url_shown(url, shown, sizeof(shown));
    if ((strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) ||
        curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK) {
        rc = sonde_err_set(err, SONDE_EINVAL, "'%s' is not a URL such as https://HOST/PATH", shown);
    } else if (push_http_has(u, CURLUPART_USER) || push_http_has(u, CURLUPART_PASSWORD)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "a webhook's URL holds no user and password: put "
                           "them as a header in a file (`sonde help config`, alerts)");
    } else if (strlen(url) + strlen(path) + 1 > PUSH_WEBHOOK_MAX) {
        rc = sonde_err_set(err, SONDE_EINVAL, "a URL of %zu bytes is too long", strlen(url));
    } else if (*path && !has_path(u) && push_http_has(u, CURLUPART_QUERY)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "'%s': a URL with a query needs its path", shown);
    } else {
        const size_t len = strlen(url), n = url[len - 1] == '/' && *path ? len - 1 : len;
        snprintf(out, PUSH_WEBHOOK_MAX, "%.*s%s", (int)n, url, has_path(u) ? "" : path);
    }
    curl_url_cleanup(u);
    return rc;
}

/* ---- A try ----------------------------------------------------------------------------------- */

struct push_http_asked {
    int (*stop)(void *arg);
    void *arg;
};

/* The first bytes are kept, the rest is read and forgotten. */
static size_t push_http_on_body(char *data, size_t size, size_t count, void *arg)
{
    struct sonde_buf *b = arg;
    const size_t n = size * count, room = b->max - b->len;
    sonde_buf_add(b, data, n < room ? n : room);
    return b->error ? 0 : n;
}

static int push_http_on_progress(void *arg, curl_off_t dl, curl_off_t dn, curl_off_t ul,
                                 curl_off_t un)
{
    const struct push_http_asked *a = arg;
    (void)dl, (void)dn, (void)ul, (void)un;
    return a->stop && a->stop(a->arg);
}

/* What a server says about itself may be anything: its first line, if that is text. */
static void push_http_describe(struct push_answer *out)
{
    const struct sonde_buf *b = &out->body;
    size_t n = 0;
    while (n < b->len && n < SHOWN && (unsigned char)b->data[n] >= ' ' &&
           (unsigned char)b->data[n] < 0x7f) {
        n++;
    }
    const int text =
        n > 0 && (n == b->len || n == SHOWN || b->data[n] == '\n' || b->data[n] == '\r');
    snprintf(out->text, sizeof(out->text), "HTTP %ld%s%.*s", out->status, text ? ": " : "",
             text ? (int)n : 0, text ? b->data : "");
}

static struct curl_slist *header_list(char *const *headers)
{
    /* Without it, libcurl waits a second for "100 Continue" before it sends a large body. */
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    for (char *const *h = headers; h && *h; h++) {
        struct curl_slist *longer = curl_slist_append(list, *h);
        if (!longer) {
            curl_slist_free_all(list);
            return NULL;
        }
        list = longer;
    }
    return list;
}

int push_http_post(void *curl, const struct push_dest *d, const struct push_batch *b,
                   double timeout_s, int (*stop)(void *arg), void *arg, struct push_answer *out)
{
    char url[PUSH_URL_MAX + PUSH_TARGET_MAX];
    snprintf(url, sizeof(url), "%s%s", d->url, b->target);
    const struct push_http_request r = { .url = url, .headers = d->headers, .body = b->body,
                                         .body_len = b->body_len, .timeout_s = timeout_s };
    return push_http_send(curl, &r, stop, arg, out);
}

int push_http_send(void *curl, const struct push_http_request *r, int (*stop)(void *arg), void *arg,
                   struct push_answer *out)
{
    char why[CURL_ERROR_SIZE] = "";
    const double timeout_s = r->timeout_s;
    const char *trusted = getenv("SSL_CERT_FILE");
    struct push_http_asked asked = { stop, arg };
    out->status = 0;
    out->retry_after_s = 0;
    sonde_buf_reset(&out->body);
    struct curl_slist *headers = header_list(r->headers);
    if (!headers) {
        snprintf(out->text, sizeof(out->text), "out of memory");
        return SONDE_ENOMEM;
    }
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, r->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    /* A name that is looked up is not waited for when there is no time left: name servers that are
     * away take their time, and the agent would end by as much later. */
    curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "sonde/" SONDE_VERSION);
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, r->body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_len);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, push_http_on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &out->body);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(timeout_s * 1e3));
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)((timeout_s < CONNECT_MAX_S ? timeout_s : CONNECT_MAX_S) * 1e3));
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, push_http_on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &asked);
    if (trusted && *trusted) curl_easy_setopt(curl, CURLOPT_CAINFO, trusted);

    const CURLcode code = curl_easy_perform(curl);
    curl_off_t after = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &out->status);
    curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &after);
    /* What points to this stack frame. */
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, NULL);
    curl_slist_free_all(headers);
    out->retry_after_s = after > 0 ? (double)after : 0;
    if (code != CURLE_OK) {
        out->status = 0;
        snprintf(out->text, sizeof(out->text), "%s", why[0] ? why : curl_easy_strerror(code));
        return SONDE_EIO;
    }
    push_http_describe(out);
    return 0;
}

int push_again_later(long status) { return status == 429 || status >= 500; }

int push_http_reach(const char *url, double timeout_s, struct sonde_err *err)
{
    char why[CURL_ERROR_SIZE] = "";
    const char *trusted = getenv("SSL_CERT_FILE");
    CURL *curl = push_http_open();
    if (!curl) return sonde_err_memory(err);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(timeout_s * 1e3));
    if (trusted && *trusted) curl_easy_setopt(curl, CURLOPT_CAINFO, trusted);
    const CURLcode code = curl_easy_perform(curl);
    curl_easy_cleanup(curl);
    if (code == CURLE_OK) return 0;
    return sonde_err_set(err, SONDE_EIO, "%s", why[0] ? why : curl_easy_strerror(code));
}
