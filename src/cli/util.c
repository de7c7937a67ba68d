/* util.c - what several commands need: messages, colour, settings, HTTP. */
#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/log.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "present/flamegraph/flamegraph.h"
#include "segment/segment.h"
#include "sonde/sonde.h"

enum { VOID_NAMES_SIZE = 512 };

/* One line: which command it is, what it says, what to do. */
static void cli_tell(const struct sonde_cli *cli, const char *end, const char *format, va_list ap)
{
    struct sonde_buf b;
    char text[4096];
    vsnprintf(text, sizeof(text), format, ap);
    sonde_buf_init(&b, 2 * sizeof(text));
    sonde_buf_printf(&b, "sonde %s: %s%s", cli->command->name, text, end);
    sonde_visible_printf(STDERR_FILENO, "%s\n", b.error ? text : b.data);
    sonde_buf_release(&b);
}

int sonde_cli_fail(const struct sonde_cli *cli, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    cli_tell(cli, "", format, ap);
    va_end(ap);
    return SONDE_EXIT_FAIL;
}

int sonde_cli_usage(const struct sonde_cli *cli, const char *format, ...)
{
    char end[64];
    va_list ap;
    snprintf(end, sizeof(end), " (see `sonde help %s`)", cli->command->name);
    va_start(ap, format);
    cli_tell(cli, end, format, ap);
    va_end(ap);
    return SONDE_EXIT_USAGE;
}

int sonde_cli_colour(int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if (no && no[0]) return 0;
    return term && strcmp(term, "dumb") != 0 && isatty(fd);
}

struct sonde_infer_options sonde_cli_infer_options(const struct sonde_cli *cli)
{
    const struct sonde_config_values *c = &cli->config;
    return (struct sonde_infer_options){
        .slo_ttft_s = c->inference_slo_ttft_ms * 1e-3,
        .slo_itl_s = c->inference_slo_itl_ms * 1e-3,
        .slo_total_s = c->inference_slo_total_ms * 1e-3,
        .aliases = c->inference_aliases,
        .done_max = (size_t)c->inference_max_requests,
        .running_max = (size_t)c->inference_max_running,
        .timeout_s = c->inference_timeout_seconds,
    };
}

int sonde_cli_number(const char *text, double *out)
{
    char *end;
    if (!*text || text[strspn(text, "0123456789.eE+-")]) return SONDE_EINVAL;
    errno = 0;
    const double v = strtod(text, &end);
    if (end == text || *end || errno) return SONDE_EINVAL;
    *out = v;
    return 0;
}

struct sonde_gpu_options sonde_cli_gpu_options(const struct sonde_cli *cli)
{
    const struct sonde_config_values *c = &cli->config;
    return (struct sonde_gpu_options){
        .enabled = c->gpu_enabled,
        .interval_ms = (uint32_t)c->gpu_poll_interval_ms,
        .burst_ms = (uint32_t)c->gpu_burst_interval_ms,
        .activity = c->gpu_activity,
        .root = c->gpu_root,
    };
}

struct sonde_collector_options sonde_cli_collector_options(const struct sonde_cli *cli)
{
    const struct sonde_config_values *c = &cli->config;
    return (struct sonde_collector_options){
        .dir = c->agent_dir[0] ? c->agent_dir : NULL,
        .interval_s = c->agent_interval_seconds,
        .retain_s = c->agent_retain_seconds,
        .host = c->agent_host_metrics,
        .processes = c->agent_process_metrics,
        .gpu = sonde_cli_gpu_options(cli),
        .limits = { .series_max = (size_t)c->agent_max_series,
                    .spans_max = (size_t)c->agent_max_spans },
    };
}

int sonde_cli_reader_open(const struct sonde_cli *cli, uint32_t pid, int probes,
                          struct sonde_agent **out, struct sonde_err *err)
{
    struct sonde_agent_options o = { .collector = sonde_cli_collector_options(cli),
                                     .infer = sonde_cli_infer_options(cli) };
    o.collector.pid = pid;
    if (!probes) o.collector.host = o.collector.processes = o.collector.gpu.enabled = 0;
    return sonde_agent_open(&o, out, err);
}

struct sonde_cpu_options sonde_cli_cpu_options(const struct sonde_cli *cli)
{
    const struct sonde_config_values *c = &cli->config;
    return (struct sonde_cpu_options){ .rate_hz = (double)c->cpu_sample_rate_hz,
                                       .depth_max = (uint32_t)c->cpu_max_stack_depth,
                                       .dir = c->agent_dir[0] ? c->agent_dir : NULL };
}

int sonde_cli_dir(const struct sonde_cli *cli, char *out, size_t out_size)
{
    if (!cli->config.agent_dir[0]) return sonde__dir_default(out, out_size) == 0 ? 0 : -1;
    const int n = snprintf(out, out_size, "%s", cli->config.agent_dir);
    return n >= 0 && (size_t)n < out_size ? 0 : -1;
}

int sonde_cli_parse_pid(const char *text, uint32_t *out)
{
    char *end;
    errno = 0;
    const unsigned long v = strtoul(text, &end, 10);
    if (text[0] < '1' || text[0] > '9' || *end || errno || v > INT32_MAX) return -1;
    *out = (uint32_t)v;
    return 0;
}

/* ---- HTTP --------------------------------------------------------------------------------- */

int sonde_cli_is_url(const char *text)
{
    return strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
}

int sonde_cli_is_agent(const char *text)
{
    const char *path = sonde_cli_is_url(text) ? strchr(strstr(text, "://") + 3, '/') : NULL;
    return sonde_cli_is_url(text) && (!path || !path[1]);
}

int sonde_cli_url(char *out, size_t out_size, const char *url, const char *path)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    const int origin = (int)((size_t)(host - url) + strcspn(host, "/?#"));
    const int n = snprintf(out, out_size, "%.*s%s", origin, url, path);
    return n >= 0 && (size_t)n < out_size ? 0 : -1;
}

static void cli_add_void(const char *name, const char *why, void *arg)
{
    char *names = arg;
    (void)why;
    const size_t len = strlen(names);
    snprintf(names + len, VOID_NAMES_SIZE - len, "%s%s", len ? ", " : "", name);
}

void sonde_cli_tell_void(const struct sonde_cli *cli)
{
    char names[VOID_NAMES_SIZE] = "";
    sonde_config_each_void(&cli->config, cli_add_void, names);
    if (!*names) return;
    if (cli->log_path) sonde_log(SONDE_LOG_WARN, "settings without effect: %s", names);
    if (cli->quiet) return;
    /* One write: a command may write to the same terminal. */
    sonde_visible_printf(STDERR_FILENO, "sonde: these settings have no effect in this version: %s; "
                         "`sonde doctor` says why\n", names);
}

/* How flame graphs look on HTTP, as `sonde flamegraph` draws them. */
static struct sonde_server_pictures pictures_of(const struct sonde_config_values *c)
{
    const double percent = c->flamegraph_min_width_percent;
    const double width = percent > 0 ? percent / 100 : -1;
    const int colors = sonde_flamegraph_colors_find(c->flamegraph_color_scheme);
    return (struct sonde_server_pictures){
        .colors = colors < 0 ? SONDE_FLAMEGRAPH_HOT : (enum sonde_flamegraph_colors)colors,
        .min_width = width,
        /* A page can hold far more frames than a drawing, so it has a rule of its own. */
        .min_width_html = sonde_config_was_given(c, "flamegraph.min_width_percent") ? width : 0,
    };
}

int sonde_cli_server_options(const struct sonde_cli *cli, struct sonde_server_options *o,
                             char token[SONDE_TOKEN_MAX + 1], struct sonde_err *err)
{
    const struct sonde_config_values *c = &cli->config;
    const int rc = sonde_token_read(c->server_token_file, token, err);
    o->auth = (struct sonde_auth_options){ .token = token, .hosts = c->server_hosts,
                                           .open_metrics = c->server_open_metrics,
                                           .open_health = c->server_open_health,
                                           .all_users = !strcmp(c->server_local_users, "all") };
    o->pictures = pictures_of(c);
    o->tls_certificate = c->server_tls_certificate;
    o->tls_key = c->server_tls_key;
    o->limits = (struct sonde_server_limits){
        .connections = (unsigned)c->server_max_connections,
        .streams = (unsigned)c->server_max_streams,
        .header_bytes = (size_t)c->server_max_header_bytes,
        .body_bytes = (size_t)c->server_max_body_bytes,
        .idle_s = c->server_idle_seconds,
        .request_s = c->server_request_seconds,
        .answer_s = c->server_answer_seconds,
        .rate_per_s = c->server_rate_per_second,
        .rate_burst = (double)c->server_rate_burst,
    };
    return rc;
}

void sonde_cli_curl(void *curl)
{
    const char *token = getenv("SONDE_TOKEN"), *trusted = getenv("SSL_CERT_FILE");
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*"); /* none could reach a loopback address */
    curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "sonde/" SONDE_VERSION);
    if (token && *token) {
        curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, token);
    }
    if (trusted && *trusted) curl_easy_setopt(curl, CURLOPT_CAINFO, trusted);
}

const char *sonde_cli_curl_hint(int code)
{
    switch (code) {
    case CURLE_COULDNT_CONNECT: return "; start an agent there with `sonde serve` or `sonde run`";
    case CURLE_OPERATION_TIMEDOUT:
        return "; it has stalled or is too busy: check that an agent is at that address, or try "
               "again later";
    default: return "";
    }
}

static size_t cli_on_body(char *data, size_t size, size_t count, void *arg)
{
    struct sonde_buf *b = arg;
    sonde_buf_add(b, data, size * count);
    return b->error ? 0 : size * count;
}

/* How much of a URL a message names: parameters would crowd out the rest. */
static int cli_shown(const char *url)
{
    return (int)strcspn(url, "?");
}

/* An agent explains itself as {"error": …}; anything else gets its first line shown. */
static int status_error(const char *url, long status, const struct sonde_buf *body,
                        struct sonde_err *err)
{
    json_t *answer = body->len ? json_loadb(body->data, body->len, 0, NULL) : NULL;
    const char *text = json_string_value(json_object_get(answer, "error"));
    if (!text) text = body->len ? body->data : "no explanation";
    const int rc = sonde_err_set(err, SONDE_EACCES, "%.*s: status %ld: %.*s", cli_shown(url), url,
                                 status, (int)strcspn(text, "\r\n"), text);
    json_decref(answer);
    return rc;
}

/* A server that drips bytes, or none, is given up before timeout_s. What it takes to make an
 * answer, of samples for instance, is in timeout_s beyond SONDE_CLI_FETCH_S. */
static void set_limits(CURL *curl, double timeout_s)
{
    enum { STALLED_S = 30, STALLED_BYTES_PER_S = 100 };
    const double made_s = timeout_s > SONDE_CLI_FETCH_S ? timeout_s - SONDE_CLI_FETCH_S : 0;
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 5L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(timeout_s * 1e3));
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)STALLED_BYTES_PER_S);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)made_s + STALLED_S);
}

/* What is asked for: GET unless something else is given. */
struct cli_request {
    const char *post;            /* the body of a POST */
    const char *method;          /* another one, without a body */
    const char *accept;
};

static int cli_request(const char *url, const struct cli_request *r, size_t max, double timeout_s,
                       struct sonde_buf *out, struct sonde_err *err)
{
    sonde_buf_init(out, max);
    CURL *curl = curl_easy_init();
    if (!curl) return sonde_err_set(err, SONDE_ENOMEM, "%.*s: out of memory", cli_shown(url), url);

    char why[CURL_ERROR_SIZE] = "";
    curl_easy_setopt(curl, CURLOPT_URL, url);
    sonde_cli_curl(curl);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, cli_on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, out);
    set_limits(curl, timeout_s);
    if (r->post) curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, r->post);
    if (r->method) curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, r->method);
    struct curl_slist *headers = NULL;
    if (r->accept) {
        char header[256];
        snprintf(header, sizeof(header), "Accept: %s", r->accept);
        headers = curl_slist_append(NULL, header);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    }

    const CURLcode code = curl_easy_perform(curl);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    curl_slist_free_all(headers);

    if (out->error == SONDE_EFULL) {
        return sonde_err_set(err, SONDE_EIO, "%.*s: the answer is larger than %zu bytes",
                             cli_shown(url), url, max);
    }
    if (out->error) {
        return sonde_err_set(err, out->error, "%.*s: out of memory", cli_shown(url), url);
    }
    if (code != CURLE_OK) {
        return sonde_err_set(err, SONDE_EIO, "%.*s: %s%s", cli_shown(url), url,
                             why[0] ? why : curl_easy_strerror(code),
                             sonde_cli_curl_hint((int)code));
    }
    return status == 200 || status == 201 ? 0 : status_error(url, status, out, err);
}

int sonde_cli_fetch(const char *url, size_t max, double timeout_s, struct sonde_buf *out,
                    struct sonde_err *err)
{
    return cli_request(url, &(struct cli_request){ .post = NULL }, max, timeout_s, out, err);
}

int sonde_cli_post(const char *url, const char *accept, size_t max, double timeout_s,
                   struct sonde_buf *out, struct sonde_err *err)
{
    const struct cli_request r = { .post = "", .accept = accept };
    return cli_request(url, &r, max, timeout_s, out, err);
}

int sonde_cli_post_body(const char *url, const char *body, size_t max, double timeout_s,
                        struct sonde_buf *out, struct sonde_err *err)
{
    return cli_request(url, &(struct cli_request){ .post = body }, max, timeout_s, out, err);
}

int sonde_cli_delete(const char *url, size_t max, double timeout_s, struct sonde_buf *out,
                     struct sonde_err *err)
{
    const struct cli_request r = { .method = "DELETE" };
    return cli_request(url, &r, max, timeout_s, out, err);
}
