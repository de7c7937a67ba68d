/* scrape.c - see scrape.h.
 *
 * libcurl's multi interface: one thread, no target waits for another. The first scrapes are spread
 * over a second, so that a hundred targets are not asked, and their answers not read, at the same
 * moment.
 *
 * An answer is read twice: once to see that all of it is good, then, under the model's lock, which
 * is let go every thousand samples, into the model. Rejected: a list of samples in between, which
 * takes several times the memory of the text. */
#include "collect/ingest/scrape.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "model/exposition.h"
#include "collect/ingest/ingest.h"
#include "collect/proc/probe_series.h"
#include "sonde/sonde.h"

enum { AT_ONCE = 1000, TOKEN_MAX_BYTES = 8192, REDIRECTS = 5 };
#define SPREAD_S 1.0

enum { UP, DURATION, SAMPLES, SERIES, LEFT_OUT, FIGURES };
static const struct sonde_model_family_spec specs[FIGURES] = {
    [UP] = { .name = "up", .help = "Whether the last scrape was good.", .source = "scrape",
             .type = SONDE_GAUGE },
    [DURATION] = { .name = "scrape_duration_seconds", .help = "How long the last scrape took.",
                   .unit = "seconds", .source = "scrape", .type = SONDE_GAUGE,
                   .kind = SONDE_KIND_TIME },
    [SAMPLES] = { .name = "scrape_samples_scraped", .help = "Samples that the target had.",
                  .source = "scrape", .type = SONDE_GAUGE },
    [SERIES] = { .name = "scrape_series_kept", .help = "Series of the target that are kept.",
                 .source = "scrape", .type = SONDE_GAUGE },
    [LEFT_OUT] = { .name = "scrape_samples_left_out", .source = "scrape", .type = SONDE_GAUGE,
                   .help = "Samples of the last scrape that were over the limit, there twice, or "
                           "not possible." },
};

struct target {
    struct sonde_scrape_target t;
    struct sonde_scrape *scrape;
    struct sonde_ingest *foreign;
    struct sonde_model_series *figure[FIGURES];
    CURL *curl;
    struct curl_slist *headers;
    struct sonde_buf body;
    char reason[CURL_ERROR_SIZE];
    int running;
    double due_s, began_s;        /* monotonic */
    int told;                     /* that it fails */
};

struct sonde_scrape {
    struct sonde_model *model;
    struct sonde_scrape_options o;
    struct sonde_scrape_targets targets; /* whose texts those below borrow */
    struct target *at;
    size_t count;
    CURLM *multi;
    struct sonde_thread thread;
    int stopping;                 /* atomic */
};

/* ---- Into the model -------------------------------------------------------------------------- */

struct applying {
    struct target *t;
    double now_s;
    size_t samples, left_out;
};

static int count_sample(const struct sonde_exposition_sample *s, void *arg)
{
    (void)s;
    ((struct applying *)arg)->samples++;
    return 0;
}

static int scrape_put_sample(const struct sonde_exposition_sample *s, void *arg)
{
    struct applying *a = arg;
    struct sonde_model *m = a->t->scrape->model;
    struct sonde_ingest_point p;
    if (++a->samples % AT_ONCE == 0) { /* others wait */
        sonde_rwunlock(&m->lock);
        sonde_wrlock(&m->lock);
    }
    if (!sonde_ingest_exposition(s, &p)) return 0;
    p.source = a->t->t.job;
    p.now_s = a->now_s;
    if (sonde_ingest_put(a->t->foreign, &p) != 0) a->left_out++;
    return 0;
}

static void set_figures(struct target *t, const double value[FIGURES])
{
    assert(t->t.label_count <= SONDE_SCRAPE_LABELS_MAX);
    struct sonde_label labels[SONDE_SCRAPE_LABELS_MAX + 2];
    size_t n = 0;
    labels[n++] = (struct sonde_label){ "instance", t->t.instance };
    labels[n++] = (struct sonde_label){ "job", t->t.job };
    for (size_t i = 0; i < t->t.label_count; i++) labels[n++] = t->t.label[i];
    for (size_t i = 0; i < FIGURES; i++) {
        sonde_probe_gauge(t->scrape->model, &specs[i], NULL, labels, n, &t->figure[i], value[i]);
    }
}

/* reason: NULL = the answer is good so far. */
static void scrape_take(struct target *t, int openmetrics, double took_s, const char *reason)
{
    struct sonde_model *m = t->scrape->model;
    struct applying a = { .t = t };
    struct sonde_exposition_sink sink = { count_sample, &a };
    struct sonde_err err = { "" };
    const char *text = t->body.len ? t->body.data : "";
    if (!reason && sonde_exposition_read(text, t->body.len, openmetrics, &sink, &err) != 0) {
        reason = err.text;
    }
    const size_t samples = reason ? 0 : a.samples;
    a = (struct applying){ .t = t, .now_s = sonde_clock_s(CLOCK_REALTIME) };
    sink.sample = scrape_put_sample;
    sonde_wrlock(&m->lock);
    sonde_ingest_begin(t->foreign);
    if (!reason) sonde_exposition_read(text, t->body.len, openmetrics, &sink, &err);
    sonde_ingest_end(t->foreign);
    set_figures(t, (const double[FIGURES]){ [UP] = !reason, [DURATION] = took_s,
                                            [SAMPLES] = (double)samples,
                                            [SERIES] = (double)sonde_ingest_count(t->foreign),
                                            [LEFT_OUT] = (double)a.left_out });
    sonde_rwunlock(&m->lock);
    if (reason && !t->told) {
        sonde_log(SONDE_LOG_WARN, "scrape of %s: %s", t->t.url, reason);
    } else if (!reason && t->told) {
        sonde_log(SONDE_LOG_INFO, "scrape of %s: good again", t->t.url);
    } else if (!reason && a.left_out) {
        sonde_log(SONDE_LOG_DEBUG, "scrape of %s: %zu samples were left out", t->t.url, a.left_out);
    }
    t->told = reason != NULL;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static size_t on_data(char *data, size_t size, size_t count, void *arg)
{
    struct target *t = arg;
    sonde_buf_add(&t->body, data, size * count);
    return t->body.error ? 0 : size * count;
}

/* What is in the token's file, up to its first line's end; 0 or why not in t->reason. */
static int read_token(struct target *t, char token[TOKEN_MAX_BYTES])
{
    FILE *f = fopen(t->t.token_file, "re");
    const char *got = f ? fgets(token, TOKEN_MAX_BYTES, f) : NULL;
    if (!got) {
        snprintf(t->reason, sizeof(t->reason), "cannot read the token in %.100s: %.60s",
                 t->t.token_file, f ? "it is empty" : strerror(errno));
    }
    if (f) fclose(f);
    if (got) token[strcspn(token, "\r\n")] = '\0';
    return got ? 0 : -1;
}

static int scrape_prepare(struct target *t)
{
    char token[TOKEN_MAX_BYTES] = "";
    CURL *c = t->curl;
    sonde_buf_reset(&t->body);
    t->body.error = 0;
    t->reason[0] = '\0';
    curl_easy_reset(c);
    if (t->t.token_file && read_token(t, token) != 0) return -1;
    curl_easy_setopt(c, CURLOPT_URL, t->t.url);
    curl_easy_setopt(c, CURLOPT_PRIVATE, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->reason);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "sonde");
    curl_easy_setopt(c, CURLOPT_ACCEPT_ENCODING, "gzip");
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)REDIRECTS);
    curl_easy_setopt(c, CURLOPT_PROXY, "");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L); /* stopping does not wait for name servers */
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(t->t.timeout_s * 1e3));
    if (*token) {
        curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, token);
    }
    return 0;
}

static void scrape_begin(struct target *t, double now_s)
{
    /* On schedule; what was missed is not made up for. */
    t->due_s += t->t.interval_s;
    if (t->due_s < now_s) t->due_s = now_s + t->t.interval_s;
    t->began_s = now_s;
    if (scrape_prepare(t) != 0 || curl_multi_add_handle(t->scrape->multi, t->curl) != CURLM_OK) {
        scrape_take(t, 0, 0, t->reason[0] ? t->reason : "out of memory");
        return;
    }
    t->running = 1;
}

static void scrape_done(struct target *t, CURLcode code)
{
    char reason[CURL_ERROR_SIZE + 64] = "";
    char *type = NULL;
    long status = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(t->curl, CURLINFO_CONTENT_TYPE, &type);
    const double took_s = sonde_clock_s(CLOCK_MONOTONIC) - t->began_s;
    if (t->body.error == SONDE_EFULL) {
        snprintf(reason, sizeof(reason),
                 "the answer is larger than %zu bytes (scrape.max_megabytes)", t->body.max);
    } else if (code != CURLE_OK) {
        snprintf(reason, sizeof(reason), "%s",
                 t->body.error ? "out of memory"
                 : t->reason[0] ? t->reason : curl_easy_strerror(code));
    } else if (status != 200) {
        snprintf(reason, sizeof(reason), "it answered with status %ld", status);
    }
    const int openmetrics = type && strncasecmp(type, "application/openmetrics-text", 28) == 0;
    scrape_take(t, openmetrics, took_s, reason[0] ? reason : NULL);
    curl_multi_remove_handle(t->scrape->multi, t->curl);
    t->running = 0;
    /* A large answer once is no reason to keep its memory. */
    if (t->body.cap > (size_t)8 << 20) sonde_buf_release(&t->body);
}

static void *scrape_run(void *arg)
{
    struct sonde_scrape *s = arg;
    while (!__atomic_load_n(&s->stopping, __ATOMIC_ACQUIRE)) {
        double now_s = sonde_clock_s(CLOCK_MONOTONIC), next_s = now_s + 60;
        for (size_t i = 0; i < s->count; i++) {
            struct target *t = &s->at[i];
            if (!t->running && t->due_s <= now_s) scrape_begin(t, now_s);
            if (!t->running && t->due_s < next_s) next_s = t->due_s;
        }
        int running = 0, left;
        curl_multi_perform(s->multi, &running);
        for (CURLMsg *msg; (msg = curl_multi_info_read(s->multi, &left)) != NULL;) {
            struct target *t = NULL;
            if (msg->msg != CURLMSG_DONE) continue;
            const CURLcode code = msg->data.result;
            curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &t);
            scrape_done(t, code);
            next_s = 0; /* its next turn has to be looked at */
        }
        const double wait_s = next_s - sonde_clock_s(CLOCK_MONOTONIC);
        if (wait_s > 0) curl_multi_poll(s->multi, NULL, 0, (int)ceil(wait_s * 1e3), NULL);
    }
    return NULL;
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

static int prepare_target(struct sonde_scrape *s, struct target *t)
{
    struct sonde_label labels[SONDE_SCRAPE_LABELS_MAX + 2];
    size_t n = 0;
    labels[n++] = (struct sonde_label){ "instance", t->t.instance };
    labels[n++] = (struct sonde_label){ "job", t->t.job };
    for (size_t i = 0; i < t->t.label_count; i++) labels[n++] = t->t.label[i];
    const struct sonde_ingest_options o = { .labels = labels, .label_count = n,
                                            .series_max = s->o.series_max };
    t->scrape = s;
    sonde_buf_init(&t->body, s->o.body_max);
    t->curl = curl_easy_init();
    struct curl_slist *list = curl_slist_append(NULL, "Accept: application/openmetrics-text;"
        "version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;"
        "q=0.5,*/*;q=0.1");
    t->headers = list ? curl_slist_append(list, SONDE_SCRAPE_HEADER ": 1") : NULL;
    if (list && !t->headers) curl_slist_free_all(list);
    if (!t->curl || !t->headers) return SONDE_ENOMEM;
    return sonde_ingest_create(s->model, &o, &t->foreign);
}

static void scrape_release(struct sonde_scrape *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct target *t = &s->at[i];
        if (t->running) curl_multi_remove_handle(s->multi, t->curl);
        curl_easy_cleanup(t->curl);
        curl_slist_free_all(t->headers);
        sonde_ingest_destroy(t->foreign);
        sonde_wrlock(&s->model->lock);
        for (size_t k = 0; k < FIGURES; k++) sonde_probe_drop(s->model, &t->figure[k]);
        sonde_rwunlock(&s->model->lock);
        sonde_buf_release(&t->body);
    }
    curl_multi_cleanup(s->multi);
    sonde__free(s->at);
    sonde_scrape_targets_release(&s->targets);
    sonde__free(s);
}

int sonde_scrape_start(struct sonde_model *m, struct sonde_scrape_targets *targets,
                       const struct sonde_scrape_options *o, struct sonde_scrape **out,
                       struct sonde_err *err)
{
    struct sonde_scrape *s = sonde__calloc(1, sizeof(*s));
    if (!s) return sonde_err_set(err, SONDE_ENOMEM, "no memory to scrape");
    s->model = m;
    s->o = *o;
    s->targets = *targets;
    *targets = (struct sonde_scrape_targets){ 0 };
    s->multi = curl_multi_init();
    s->at = sonde__calloc(s->targets.count + 1, sizeof(*s->at));
    int rc = s->multi && s->at ? 0 : SONDE_ENOMEM;
    const double now_s = sonde_clock_s(CLOCK_MONOTONIC);
    for (size_t i = 0; !rc && i < s->targets.count; i++) {
        struct target *t = &s->at[s->count++];
        t->t = s->targets.at[i];
        t->due_s = now_s;
        t->due_s += SPREAD_S * (double)i / (double)s->targets.count;
        rc = prepare_target(s, t);
    }
    if (rc) {
        scrape_release(s);
        return sonde_err_set(err, rc, "no memory to scrape");
    }
    rc = sonde_thread_start(&s->thread, "sonde-scrape", scrape_run, s, err);
    if (rc) {
        scrape_release(s);
        return rc;
    }
    *out = s;
    return 0;
}

void sonde_scrape_stop(struct sonde_scrape *s)
{
    if (!s) return;
    __atomic_store_n(&s->stopping, 1, __ATOMIC_RELEASE);
    curl_multi_wakeup(s->multi);
    sonde_thread_join(&s->thread);
    scrape_release(s);
}
