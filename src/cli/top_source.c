/* top_source.c - see top_source.h. */
#include "cli/top_source.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "cli/cli.h"
#include "serve/api/api.h"
#include "sonde/sonde.h"

#define ANSWER_MAX ((size_t)64 << 20) /* bytes taken of one answer */
#define WINDOW_START_S 10.0
#define WINDOW_MIN_S 0.05
#define WINDOW_MAX_S 3600.0
#define WINDOW_TRIES 6
#define HOST_SERIES "system_*|sonde_host_load*|sonde_host_memory_*|sonde_cost_*ratio"

#define MEMORY_SERIES "sonde_heap_*|sonde_process_resident_memory_bytes|sonde_memory_pool_bytes"

enum top_source_answer { PROCESSES, HOST, SERIES, SPANS, TRACE, MEMORY, INFERENCE, REQUESTS,
                         ENGINE, FINDINGS, GPU };

struct source_ops {
    void (*tick)(struct sonde_top_source *s);
    int (*get)(struct sonde_top_source *s, enum top_source_answer what,
               const struct sonde_top_request *r, struct sonde_buf *out, struct sonde_err *err);
    void (*close)(struct sonde_top_source *s);
};

struct sonde_top_source {
    const struct source_ops *ops;
    struct sonde_agent *agent;          /* local: never started, stepped by hand */
    CURL *curl;                         /* url; keeps its connection */
    const char *url;                    /* borrowed */
    double window_s;                    /* spans of so long a time are asked for */
    double time_s;                      /* the agent's clock at the last answer; 0 = not known */
    double from_s;                      /* spans since then; 0 = the newest */
    int cancelled;                      /* atomic */
};

void sonde_top_request_of(const struct sonde_top_state *s, struct sonde_top_request *out)
{
    *out = (struct sonde_top_request){ .page = s->page, .type = sonde_top_type(s), .pid = s->pid };
    sonde_top_split_filter(s->filter, &out->words);
    if (s->page == SONDE_TOP_INFERENCE) out->sort = (enum sonde_requests_sort)s->sort[s->page];
    if (s->page == SONDE_TOP_SPANS && s->view == SONDE_TOP_TRACE) {
        memcpy(out->trace_id, s->trace_id, sizeof(out->trace_id));
    }
}

/* ---- A collector in this process ------------------------------------------------------------ */

static void local_tick(struct sonde_top_source *s)
{
    sonde_collector_step(s->agent->collector);
}

/* One filter for each word about the name, since a filter has one; the rest is in the first. */
static size_t make_filters(const struct sonde_top_request *r, struct sonde_filter *out)
{
    size_t n = 1;
    memset(out, 0, SONDE_TOP_WORDS * sizeof(*out));
    out[0].type = r->type;
    out[0].pid = r->pid;
    out[0].label_count = r->words.label_count;
    for (size_t i = 0; i < r->words.label_count; i++) {
        out[0].label[i] = (struct sonde_label){ .name = r->words.label[i],
                                                .value = r->words.value[i] };
    }
    for (size_t i = 0; i < r->words.name_count; i++) {
        out[i].name = r->words.name[i];
        if (i + 1 > n) n = i + 1;
    }
    return n;
}

static int top_source_parse_trace(const char *text, uint64_t *hi, uint64_t *lo)
{
    return strlen(text) == 32 && strspn(text, "0123456789abcdefABCDEF") == 32 &&
           sscanf(text, "%16lx%16lx", hi, lo) == 2;
}

static int local_get(struct sonde_top_source *s, enum top_source_answer what,
                     const struct sonde_top_request *r, struct sonde_buf *out,
                     struct sonde_err *err)
{
    struct sonde_model *m = sonde_collector_model(s->agent->collector);
    const struct sonde_infer_tracker *tracker = sonde_collector_tracker(s->agent->collector);
    struct sonde_filter filters[SONDE_TOP_WORDS];
    struct sonde_api_query q = { .filters = filters, .limit = SONDE_TOP_SERIES_MAX,
                                 .history = SONDE_TOP_HISTORY };
    struct sonde_api_spans spans = { .pid = r->pid, .from_s = s->from_s,
                                     .limit = SONDE_TOP_SPANS_MAX };

    const struct sonde_requests_query requests = {
        .sort = r->sort, .limit = SONDE_TOP_REQUESTS_MAX, .outcome = -1, .source = -1,
        .pid = r->pid };
    if (what == TRACE) {
        spans.pid = 0; /* a trace may lead through several processes */
        spans.from_s = 0;
        if (!top_source_parse_trace(r->trace_id, &spans.trace_hi, &spans.trace_lo)) {
            return sonde_err_set(err, SONDE_EINVAL, "'%s' is no trace id", r->trace_id);
        }
    }
    if (what == HOST) {
        filters[0] = (struct sonde_filter){ .name = HOST_SERIES };
        q.filter_count = 1;
        q.window_s = 5;
    } else if (what == MEMORY) {
        filters[0] = (struct sonde_filter){ .name = MEMORY_SERIES, .pid = r->pid };
        q.filter_count = 1;
    } else {
        q.filter_count = make_filters(r, filters);
    }
    sonde_rdlock(&m->lock);
    if (what == PROCESSES) sonde_api_processes(m, out);
    else if (what == SPANS || what == TRACE) sonde_api_spans(m, &spans, out);
    else if (what == INFERENCE) sonde_api_infer(m, tracker, 0, out);
    else if (what == ENGINE) sonde_api_engine(m, out);
    else if (what == GPU) sonde_api_gpu(sonde_collector_gpu(s->agent->collector), m, out);
    else if (what == REQUESTS) sonde_api_requests(m, tracker, &requests, out);
    else sonde_api_query(m, &q, out);
    sonde_rwunlock(&m->lock);
    return 0;
}

static void local_close(struct sonde_top_source *s)
{
    sonde_agent_close(s->agent);
}

static const struct source_ops local_ops = { local_tick, local_get, local_close };

int sonde_top_source_local(const struct sonde_agent_options *options,
                           struct sonde_top_source **out, struct sonde_err *err)
{
    struct sonde_top_source *s = sonde__calloc(1, sizeof(*s));
    if (!s) return sonde_err_set(err, SONDE_ENOMEM, "out of memory");
    s->ops = &local_ops;
    s->window_s = WINDOW_START_S;
    const int rc = sonde_agent_open(options, &s->agent, err);
    if (rc) {
        sonde__free(s);
        return rc;
    }
    *out = s;
    return 0;
}

/* ---- An agent by URL ------------------------------------------------------------------------ */

static size_t top_source_on_body(char *data, size_t size, size_t count, void *arg)
{
    struct sonde_buf *b = arg;
    sonde_buf_add(b, data, size * count);
    return b->error ? 0 : size * count;
}

static int top_source_on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total,
                                  curl_off_t up_now)
{
    const struct sonde_top_source *s = arg;
    (void)total, (void)now, (void)up_total, (void)up_now;
    return __atomic_load_n(&s->cancelled, __ATOMIC_RELAXED);
}

/* key=value with what needs it percent-encoded. */
static void top_source_add_parameter(struct sonde_top_source *s, struct sonde_buf *b,
                                     const char *key, const char *value)
{
    char *escaped = curl_easy_escape(s->curl, value, 0);
    if (!escaped) {
        b->error = SONDE_ENOMEM;
        return;
    }
    sonde_buf_printf(b, "%s%s=%s", strchr(b->data, '?') ? "&" : "?", key, escaped);
    curl_free(escaped);
}

static void top_source_add_number(struct sonde_top_source *s, struct sonde_buf *b, const char *key,
                                  size_t n)
{
    char text[32];
    snprintf(text, sizeof(text), "%zu", n);
    top_source_add_parameter(s, b, key, text);
}

static void add_words(struct sonde_top_source *s, struct sonde_buf *b,
                      const struct sonde_top_request *r)
{
    for (size_t i = 0; i < r->words.name_count; i++) {
        top_source_add_parameter(s, b, "name", r->words.name[i]);
    }
    for (size_t i = 0; i < r->words.label_count; i++) {
        char both[SONDE_TOP_FILTER_MAX + SONDE_TOP_GLOB_MAX];
        snprintf(both, sizeof(both), "%s:%s", r->words.label[i], r->words.value[i]);
        top_source_add_parameter(s, b, "label", both);
    }
    if (r->type) top_source_add_parameter(s, b, "type", r->type);
}

static void make_url(struct sonde_top_source *s, enum top_source_answer what,
                     const struct sonde_top_request *r, struct sonde_buf *b)
{
    static const char *const paths[] = {
        [PROCESSES] = "/api/processes", [HOST] = "/api/query", [SERIES] = "/api/query",
        [SPANS] = "/api/spans", [TRACE] = "/api/spans", [MEMORY] = "/api/query",
        [INFERENCE] = "/api/inference", [REQUESTS] = "/api/requests",
        [ENGINE] = "/api/engine", [FINDINGS] = "/api/findings",
        [GPU] = "/api/gpu" };
    char base[512];
    if (sonde_cli_url(base, sizeof(base), s->url, paths[what])) {
        b->error = SONDE_EFULL;
        return;
    }
    sonde_buf_puts(b, base);
    if (b->error || what == PROCESSES || what == INFERENCE || what == ENGINE || what == GPU) {
        return;
    }
    if (what == FINDINGS) {
        top_source_add_number(s, b, "limit", 1); /* of those that began: what goes on comes whole */
        return;
    }
    if (what == REQUESTS) {
        top_source_add_number(s, b, "limit", SONDE_TOP_REQUESTS_MAX);
        top_source_add_parameter(s, b, "sort", sonde_requests_sorts[r->sort]);
        if (r->pid) top_source_add_number(s, b, "pid", r->pid);
        return;
    }
    if (what == HOST) {
        top_source_add_parameter(s, b, "name", HOST_SERIES);
        top_source_add_number(s, b, "window", 5);
    }
    if (what == MEMORY) top_source_add_parameter(s, b, "name", MEMORY_SERIES);
    if (what == HOST || what == SERIES || what == MEMORY) {
        top_source_add_number(s, b, "limit", SONDE_TOP_SERIES_MAX);
        top_source_add_number(s, b, "history", SONDE_TOP_HISTORY);
    } else {
        top_source_add_number(s, b, "limit", SONDE_TOP_SPANS_MAX);
    }
    if (what == SPANS && s->from_s > 0) {
        char text[32];
        snprintf(text, sizeof(text), "%.3f", s->from_s);
        top_source_add_parameter(s, b, "from", text);
    }
    if (what == SERIES) add_words(s, b, r);
    if (what == TRACE) top_source_add_parameter(s, b, "trace", r->trace_id);
    const int of_one = what == SERIES || what == SPANS || what == MEMORY;
    if (of_one && r->pid) top_source_add_number(s, b, "pid", r->pid);
}

static int url_get(struct sonde_top_source *s, enum top_source_answer what,
                   const struct sonde_top_request *r, struct sonde_buf *out,
                   struct sonde_err *err)
{
    struct sonde_buf url;
    char why[CURL_ERROR_SIZE] = "";
    long status = 0;
    sonde_buf_init(&url, 1 << 14);
    make_url(s, what, r, &url);
    if (url.error) {
        sonde_buf_release(&url);
        return sonde_err_set(err, SONDE_EINVAL, "the URL is too long");
    }
    curl_easy_setopt(s->curl, CURLOPT_URL, url.data);
    curl_easy_setopt(s->curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(s->curl, CURLOPT_WRITEDATA, out);
    const CURLcode code = curl_easy_perform(s->curl);
    curl_easy_setopt(s->curl, CURLOPT_ERRORBUFFER, NULL);
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    sonde_buf_release(&url);

    if (out->error == SONDE_EFULL) {
        return sonde_err_set(err, SONDE_EIO, "the answer is larger than %zu MiB",
                             ANSWER_MAX >> 20);
    }
    if (out->error) return sonde_err_set(err, out->error, "out of memory");
    if (code != CURLE_OK) {
        return sonde_err_set(err, SONDE_EIO, "%s%s", why[0] ? why : curl_easy_strerror(code),
                             sonde_cli_curl_hint((int)code));
    }
    if (status != 200) {
        const size_t len = out->data ? strcspn(out->data, "\r\n") : 0;
        return sonde_err_set(err, SONDE_EIO, "status %ld: %.*s", status,
                             (int)(len < 200 ? len : 200), out->data ? out->data : "");
    }
    return 0;
}

static void url_tick(struct sonde_top_source *s)
{
    (void)s;
}

static void url_close(struct sonde_top_source *s)
{
    curl_easy_cleanup(s->curl);
}

static const struct source_ops url_ops = { url_tick, url_get, url_close };

int sonde_top_source_url(const char *url, struct sonde_top_source **out, struct sonde_err *err)
{
    struct sonde_top_source *s = sonde__calloc(1, sizeof(*s));
    if (!s) return sonde_err_set(err, SONDE_ENOMEM, "out of memory");
    s->ops = &url_ops;
    s->window_s = WINDOW_START_S;
    s->url = url;
    s->curl = curl_easy_init();
    if (!s->curl) {
        sonde__free(s);
        return sonde_err_set(err, SONDE_ENOMEM, "out of memory");
    }
    sonde_cli_curl(s->curl);
    curl_easy_setopt(s->curl, CURLOPT_WRITEFUNCTION, top_source_on_body);
    curl_easy_setopt(s->curl, CURLOPT_XFERINFOFUNCTION, top_source_on_progress);
    curl_easy_setopt(s->curl, CURLOPT_XFERINFODATA, s);
    curl_easy_setopt(s->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(s->curl, CURLOPT_CONNECTTIMEOUT, 3L);
    curl_easy_setopt(s->curl, CURLOPT_TIMEOUT, 10L);
    *out = s;
    return 0;
}

/* ---- Both ----------------------------------------------------------------------------------- */

void sonde_top_source_destroy(struct sonde_top_source *s)
{
    if (!s) return;
    s->ops->close(s);
    sonde__free(s);
}

void sonde_top_source_tick(struct sonde_top_source *s)
{
    s->ops->tick(s);
}

void sonde_top_source_cancel(struct sonde_top_source *s)
{
    __atomic_store_n(&s->cancelled, 1, __ATOMIC_RELAXED);
}

static int top_source_read_one(struct sonde_top_source *s, enum top_source_answer what,
                               const struct sonde_top_request *r, struct sonde_top_data *d,
                               struct sonde_err *err)
{
    static int (*const readers[])(struct sonde_top_data *, const char *, size_t,
                                  struct sonde_err *) = {
        [PROCESSES] = sonde_top_read_processes, [HOST] = sonde_top_read_host,
        [SERIES] = sonde_top_read_series, [SPANS] = sonde_top_read_spans,
        [TRACE] = sonde_top_read_trace, [MEMORY] = sonde_top_read_series,
        [INFERENCE] = sonde_top_read_infer, [REQUESTS] = sonde_top_read_requests,
        [ENGINE] = sonde_top_read_engine, [FINDINGS] = sonde_top_read_findings,
        [GPU] = sonde_top_read_gpu };
    struct sonde_buf text;
    sonde_buf_init(&text, ANSWER_MAX);
    int rc = s->ops->get(s, what, r, &text, err);
    if (!rc && text.error) rc = sonde_err_set(err, text.error, "out of memory");
    if (!rc) rc = readers[what](d, text.data ? text.data : "", text.len, err);
    sonde_buf_release(&text);
    return rc;
}

/* All spans of the longest time whose spans are not too many. The newest N would do for a list
 * but not for rates: an agent takes spans thread by thread, so the oldest of N are those of a few
 * threads only. */
static int read_spans(struct sonde_top_source *s, const struct sonde_top_request *r,
                      struct sonde_top_data *d, struct sonde_err *err)
{
    for (int left = WINDOW_TRIES;; left--) {
        s->from_s = s->time_s > s->window_s ? s->time_s - s->window_s : 0;
        if (left == 0) s->from_s = 0;
        d->spans_from_s = s->from_s;
        const int rc = top_source_read_one(s, SPANS, r, d, err);
        if (rc) return rc;
        s->time_s = d->time_s;
        const int too_many = d->span_count == SONDE_TOP_SPANS_MAX;
        if (too_many && s->window_s > WINDOW_MIN_S) s->window_s /= 3;
        else if (d->span_count < SONDE_TOP_SPANS_MAX / 10 && s->window_s < WINDOW_MAX_S) {
            s->window_s *= 2;
        }
        /* Few are good enough until next time, none may mean that they are older. */
        if (left == 0 || !(too_many || (d->span_count == 0 && s->from_s > 0))) return 0;
        sonde_top_data_release(d);
    }
}

/* Findings are an agent's that watches: the collector in this process looks for none, nor does an
 * agent that is told not to. */
static void read_findings(struct sonde_top_source *s, const struct sonde_top_request *r,
                          struct sonde_top_data *d)
{
    struct sonde_err err;
    if (!s->agent) top_source_read_one(s, FINDINGS, r, d, &err);
}

/* What engines tell of their insides is shown beside the rest, and not at all of an agent that is
 * too old to know of it. */
static void read_engine(struct sonde_top_source *s, const struct sonde_top_request *r,
                        struct sonde_top_data *d)
{
    struct sonde_err err;
    top_source_read_one(s, ENGINE, r, d, &err);
}

int sonde_top_source_read(struct sonde_top_source *s, const struct sonde_top_request *r,
                          struct sonde_top_data *d, struct sonde_err *err)
{
    int rc = 0;
    switch (r->page) {
    case SONDE_TOP_OVERVIEW:
        rc = top_source_read_one(s, PROCESSES, r, d, err);
        if (!rc) rc = top_source_read_one(s, HOST, r, d, err);
        if (!rc) read_findings(s, r, d);
        return rc;
    case SONDE_TOP_FINDINGS:
        rc = top_source_read_one(s, PROCESSES, r, d, err);
        if (!rc) read_findings(s, r, d);
        return rc;
    case SONDE_TOP_GPU:
        return top_source_read_one(s, GPU, r, d, err);
    case SONDE_TOP_SERIES:
        return top_source_read_one(s, SERIES, r, d, err);
    case SONDE_TOP_MEMORY:
        rc = top_source_read_one(s, MEMORY, r, d, err);
        if (!rc) read_engine(s, r, d);
        return rc;
    case SONDE_TOP_INFERENCE:
        rc = top_source_read_one(s, INFERENCE, r, d, err);
        if (!rc) rc = top_source_read_one(s, REQUESTS, r, d, err);
        if (!rc) read_engine(s, r, d);
        return rc;
    default:
        rc = read_spans(s, r, d, err);
        return rc || !r->trace_id[0] ? rc : top_source_read_one(s, TRACE, r, d, err);
    }
}
