/* bench_http_plan.c - from the options of `sonde bench http` to a plan; what is wrong is told here,
 * before anything is sent. */
#include <fcntl.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cli/bench_http.h"
#include "cli/bench_options.h"
#include "present/report/requests.h"
#include "profile/profile.h"
#include "sonde/sonde.h"
#include "store/run/run.h"

#define REPLAY_ANSWER_MAX ((size_t)512 << 20)

/* A time of an option; NULL leaves *out as it is. */
static int plan_time(const struct bench_http *b, const char *name, const char *text, double *out)
{
    if (!text) return SONDE_EXIT_OK;
    if (!sonde_load_seconds_parse(text, strlen(text), out) && *out > 0 && *out <= 1e7) {
        return SONDE_EXIT_OK;
    }
    return sonde_cli_usage(b->cli, "--%s: '%s' is not a time: say 30s, 5m or 500ms", name, text);
}

/* "2%", "±2%", "0.02": a share in (0, 1). */
static int plan_share(const struct bench_http *b, const char *name, const char *text, double *out)
{
    if (!text) return SONDE_EXIT_OK;
    const char *number = strncmp(text, "±", 2) ? text : text + 2;
    char digits[32];
    const size_t len = strcspn(number, "%");
    snprintf(digits, sizeof(digits), "%.*s", (int)(len < 31 ? len : 31), number);
    double v = 0;
    const int bad = len > 30 || sonde_cli_number(digits, &v) || (number[len] && number[len + 1]);
    if (number[len] == '%') v /= 100;
    if (bad || !(v > 0) || v >= 1) {
        return sonde_cli_usage(b->cli, "--%s: '%s' is not a share: say 2%%", name, text);
    }
    *out = v;
    return SONDE_EXIT_OK;
}

/* ---- When ------------------------------------------------------------------------------------ */

static int plan_ramp(struct bench_http *b, const char *text)
{
    char stage[96];
    struct sonde_err err = { "" };
    double seconds = b->plan.duration_s > 0 ? b->plan.duration_s : 60;
    snprintf(stage, sizeof(stage), "%.60s:%.6fs", text, seconds);
    if (!strstr(text, "..")) {
        return sonde_cli_usage(b->cli, "--ramp: '%s' is not a ramp: say FROM..TO, as 1..50", text);
    }
    if (sonde_load_stages_parse(stage, &b->plan.arrival, &err)) {
        return sonde_cli_usage(b->cli, "--ramp: %s", err.text);
    }
    return SONDE_EXIT_OK;
}

static int plan_arrival(struct bench_http *b)
{
    const struct bench_http_values *v = b->v;
    struct sonde_err err = { "" };
    const int ways = (v->rate > 0) + !!v->stages + !!v->ramp + !!v->replay;
    if (ways > 1) {
        return sonde_cli_usage(b->cli, "give one of --rate, --stages, --ramp and --replay: each "
                               "says when requests are due");
    }
    if (ways && v->concurrency) {
        return sonde_cli_usage(b->cli, "--concurrency is of a closed loop, in which requests are "
                               "sent as others end: leave it out, or the rate; --connections "
                               "limits an open loop");
    }
    if (v->arrival && (!ways || v->replay)) {
        return sonde_cli_usage(b->cli, "--arrival says how regular a rate is: give --rate, "
                               "--stages or --ramp as well");
    }
    if (sonde_load_arrival_parse(v->arrival ? v->arrival : "poisson", &b->plan.arrival, &err)) {
        return sonde_cli_usage(b->cli, "--arrival: %s", err.text);
    }
    if (v->ramp) return plan_ramp(b, v->ramp);
    if (v->stages && sonde_load_stages_parse(v->stages, &b->plan.arrival, &err)) {
        return sonde_cli_usage(b->cli, "--stages: %s", err.text);
    }
    if (v->rate > 0 && sonde_load_arrival_stage(&b->plan.arrival, v->rate, v->rate, INFINITY)) {
        return sonde_cli_fail(b->cli, "out of memory");
    }
    return SONDE_EXIT_OK;
}

/* "20" requests, or "10s". */
static int plan_warmup(struct bench_http *b, const char *text)
{
    double n;
    b->plan.warmup_s = -1;
    if (!text || !strcmp(text, "auto")) return SONDE_EXIT_OK;
    if (!strcmp(text, "0")) {
        b->plan.warmup_s = 0;
        return SONDE_EXIT_OK;
    }
    if (!sonde_cli_number(text, &n) && n >= 1 && n <= 1e9 && n == floor(n)) {
        b->plan.warmup_requests = (uint64_t)n;
        return SONDE_EXIT_OK;
    }
    if (!sonde_load_seconds_parse(text, strlen(text), &n) && n > 0 && n <= 1e7) {
        b->plan.warmup_s = n;
        return SONDE_EXIT_OK;
    }
    return sonde_cli_usage(b->cli, "--warmup: '%s' is neither a number of requests (20) nor a time "
                           "(10s) nor auto", text);
}

static int plan_when(struct bench_http *b)
{
    const struct bench_http_values *v = b->v;
    struct sonde_load_plan *p = &b->plan;
    int status = plan_time(b, "duration", v->duration, &p->duration_s);
    if (!status) status = plan_time(b, "timeout", v->timeout, &p->timeout_s);
    if (!status) status = plan_time(b, "first-timeout", v->first_timeout, &p->first_timeout_s);
    if (!status) status = plan_share(b, "until", v->until, &p->until);
    if (!status) status = plan_share(b, "cancel", v->cancel, &p->cancel_ratio);
    if (!status) status = plan_share(b, "share", v->share, &b->share);
    if (!status) status = plan_warmup(b, v->warmup);
    if (!status) status = plan_arrival(b);
    p->concurrency = (uint32_t)v->concurrency;
    p->connections = (uint32_t)v->connections;
    p->threads = (uint32_t)v->threads;
    p->requests = v->requests;
    p->spin = v->spin;
    p->no_keep_alive = v->no_keep_alive;
    return status;
}

/* ---- What ------------------------------------------------------------------------------------ */

/* Requests that an agent or a recording of one has seen: arrivals and lengths. */
static int plan_replay_seen(struct bench_http *b, const char *text, size_t len, const char *name)
{
    struct sonde_requests seen;
    struct sonde_err err = { "" };
    if (sonde_requests_read(text, len, &seen, &err)) {
        return sonde_cli_usage(b->cli, "--replay: %s: %s", name, err.text);
    }
    int rc = 0;
    for (size_t i = 0; i < seen.count && !rc; i++) {
        const struct sonde_infer_request *r = &seen.list[i];
        if (!r->arrived_ns || !r->tokens_in || !r->tokens_out) {
            b->trace.skipped++;
            continue;
        }
        const uint64_t most = SONDE_LOAD_TOKENS_MAX;
        rc = sonde_load_trace_add(&b->trace, (double)r->arrived_ns * 1e-9,
                                  (uint32_t)(r->tokens_in < most ? r->tokens_in : most),
                                  (uint32_t)(r->tokens_out < most ? r->tokens_out : most));
    }
    sonde_requests_release(&seen);
    if (rc) return sonde_cli_fail(b->cli, "--replay: out of memory");
    sonde_load_trace_sort(&b->trace);
    if (b->trace.count) return SONDE_EXIT_OK;
    return sonde_cli_usage(b->cli, "--replay: %s has no request of which arrival and tokens are "
                           "known", name);
}

static int plan_replay_agent(struct bench_http *b, const char *agent)
{
    char url[SONDE_LOAD_URL_MAX];
    struct sonde_err err = { "" };
    struct sonde_buf answer;
    if (sonde_cli_url(url, sizeof(url), agent, "/api/requests?state=done&sort=oldest&timeline=0&"
                      "limit=100000&outcome=ok")) {
        return sonde_cli_usage(b->cli, "--replay: too long a URL");
    }
    int status;
    if (sonde_cli_fetch(url, REPLAY_ANSWER_MAX, SONDE_CLI_FETCH_S, &answer, &err)) {
        status = sonde_cli_fail(b->cli, "--replay: %s", err.text);
    } else {
        status = plan_replay_seen(b, answer.data ? answer.data : "", answer.len, agent);
    }
    sonde_buf_release(&answer);
    return status;
}

/* A run file is one of SQLite's. */
static int plan_is_run(const char *path)
{
    char head[17];
    return sonde_file_read_small(AT_FDCWD, path, head, sizeof(head)) > 14 &&
           !strncmp(head, "SQLite format 3", 15);
}

static int plan_replay_run(struct bench_http *b, const char *path)
{
    struct sonde_profile *profile = NULL;
    struct sonde_err err = { "" };
    int rc = sonde_run_load(path, &profile, &err);
    if (rc) return sonde_cli_usage(b->cli, "--replay: %s", err.text);
    const struct sonde_infer_run *run = profile->infer;
    for (uint32_t i = 0; run && i < run->request_count && !rc; i++) {
        const struct sonde_infer_request *r = &run->requests[i];
        const int known = r->arrived_ns && r->tokens_in && r->tokens_out &&
                          r->tokens_in < SONDE_LOAD_TOKENS_MAX &&
                          r->tokens_out < SONDE_LOAD_TOKENS_MAX;
        if (!known) b->trace.skipped++;
        else rc = sonde_load_trace_add(&b->trace, (double)r->arrived_ns * 1e-9,
                                       (uint32_t)r->tokens_in, (uint32_t)r->tokens_out);
    }
    sonde_profile_destroy(profile);
    if (rc) return sonde_cli_fail(b->cli, "--replay: out of memory");
    sonde_load_trace_sort(&b->trace);
    if (b->trace.count) return SONDE_EXIT_OK;
    return sonde_cli_usage(b->cli, "--replay: '%s' has no request of which arrival and tokens are "
                           "known", path);
}

static int plan_trace(struct bench_http *b)
{
    const struct bench_http_values *v = b->v;
    struct sonde_err err = { "" };
    int status = SONDE_EXIT_OK;
    if (v->prompts && v->replay) {
        return sonde_cli_usage(b->cli, "--replay has its own requests: leave out --prompts");
    }
    if (v->replay && sonde_cli_is_url(v->replay)) {
        status = plan_replay_agent(b, v->replay);
    } else if (v->replay && plan_is_run(v->replay)) {
        status = plan_replay_run(b, v->replay);
    } else if (v->replay || v->prompts) {
        const char *path = v->replay ? v->replay : v->prompts;
        if (sonde_load_trace_read(path, &b->trace, &err)) {
            return sonde_cli_usage(b->cli, "--%s: %s", v->replay ? "replay" : "prompts", err.text);
        }
    }
    if (status) return status;
    if (v->replay && !b->trace.timed) {
        return sonde_cli_usage(b->cli, "--replay: '%s' has requests without a time: use --prompts "
                               "and --rate", v->replay);
    }
    if (v->prompts || v->replay) b->plan.trace = &b->trace;
    b->plan.replay = v->replay != NULL;
    b->plan.speed = 1;
    if (v->speed) {
        char number[32];
        const size_t len = strcspn(v->speed, "x");
        snprintf(number, sizeof(number), "%.*s", (int)(len < 31 ? len : 31), v->speed);
        if (sonde_cli_number(number, &b->plan.speed) || !(b->plan.speed > 0) || !v->replay) {
            return sonde_cli_usage(b->cli, "--speed: say 2x, with --replay");
        }
    }
    return SONDE_EXIT_OK;
}

static int plan_headers(struct bench_http *b)
{
    const struct bench_http_values *v = b->v;
    b->headers = sonde__calloc(v->header.count + 2, sizeof(*b->headers));
    if (!b->headers) return sonde_cli_fail(b->cli, "out of memory");
    size_t n = 0;
    for (; n < v->header.count; n++) b->headers[n] = v->header.item[n];
    if (v->key_env) {
        const char *key = getenv(v->key_env);
        if (!key || !*key) {
            return sonde_cli_usage(b->cli, "--api-key-env: the environment has no %s", v->key_env);
        }
        struct sonde_buf line;
        sonde_buf_init(&line, 16384);
        sonde_buf_printf(&line, "Authorization: Bearer %s", key);
        b->key_header = sonde_buf_take(&line);
        if (!b->key_header) return sonde_cli_fail(b->cli, "the key is too long");
        b->headers[n] = b->key_header;
    }
    b->plan.headers = b->headers;
    return SONDE_EXIT_OK;
}

static int plan_what(struct bench_http *b)
{
    const struct bench_http_values *v = b->v;
    struct sonde_load_plan *p = &b->plan;
    struct sonde_err err = { "" };
    p->stream = !v->no_stream;
    if (v->prompt && sonde_load_length_parse(v->prompt, &p->prompt, &err)) {
        return sonde_cli_usage(b->cli, "--prompt-tokens: %s", err.text);
    }
    if (v->max_tokens && sonde_load_length_parse(v->max_tokens, &p->output, &err)) {
        return sonde_cli_usage(b->cli, "--max-tokens: %s", err.text);
    }
    if (v->prompts && !v->max_tokens) p->output.a = 0; /* bodies say themselves, or nobody does */
    if (v->slo && sonde_load_slo_parse(v->slo, &p->slo, &err)) {
        return sonde_cli_usage(b->cli, "--slo: %s", err.text);
    }
    if (v->prefix_count && !v->prefix_tokens) {
        return sonde_cli_usage(b->cli, "--prefix-count needs --prefix-tokens");
    }
    p->prefix_tokens = (uint32_t)v->prefix_tokens;
    p->prefix_count = (uint32_t)v->prefix_count;
    p->turns = (uint32_t)v->turns;
    if (v->seed) p->seed = v->seed;
    const int status = plan_trace(b);
    if (status) return status;
    b->probe = (struct sonde_load_probe_options){
        .url = b->cli->operands[0], .api = v->api ? sonde_load_api_find(v->api) : -1,
        .model = v->model, .stream = p->stream, .ignore_eos = !v->keep_eos,
        .calibrate = !p->trace || p->replay, .silent = v->no_probe, .trust = v->trust };
    p->trust = v->trust;
    return sonde_cli_bench_trust(b->cli, &v->trust, b->cli->operands[0], NULL);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* "ttft_p95>500ms" as figures are called, "ttft_s.p95>500ms"; "errors>1%" as a ratio. */
static char *plan_limit(const char *text)
{
    struct sonde_buf out;
    sonde_buf_init(&out, 512);
    const size_t name = strcspn(text, "<> ");
    for (int id = 0; id < SONDE_LOAD_METRIC_COUNT; id++) {
        const char *full = sonde_load_metric_name((enum sonde_load_metric_id)id);
        const size_t base = strlen(full) - 2;
        if (name < base + 2 || strncmp(text, full, base) || text[base] != '_') continue;
        if (text[base + 1] != 'p' && strncmp(text + base + 1, "mean", 4)) continue;
        sonde_buf_printf(&out, "%s.%s", full, text + base + 1);
        return sonde_buf_take(&out);
    }
    char *end;
    const double percent = strncmp(text, "errors>", 7) ? -1 : strtod(text + 7, &end);
    if (percent >= 0 && !strcmp(end, "%")) sonde_buf_printf(&out, "errors>%.9g", percent / 100);
    else sonde_buf_puts(&out, text);
    return sonde_buf_take(&out);
}

/* Whether a load has such a figure: to be known before one is sent. */
static int plan_has_figure(const char *glob)
{
    if (!fnmatch(glob, "errors", 0) || !fnmatch(glob, "max_rate", 0)) return 1;
    for (int id = 0; id < SONDE_LOAD_RATE_COUNT; id++) {
        if (!fnmatch(glob, sonde_load_rate_name((enum sonde_load_rate_id)id), 0)) return 1;
    }
    for (int id = 0; id < SONDE_LOAD_METRIC_COUNT; id++) {
        for (int q = -1; q < SONDE_LOAD_QUANTILE_COUNT; q++) {
            char name[64];
            snprintf(name, sizeof(name), "%s.%s",
                     sonde_load_metric_name((enum sonde_load_metric_id)id),
                     q < 0 ? "mean" : sonde_load_quantile_name((enum sonde_load_quantile_id)q));
            if (!fnmatch(glob, name, 0)) return 1;
        }
    }
    return 0;
}

static int plan_limits(struct bench_http *b)
{
    const struct sonde_cli_list *given = &b->v->out.fail_on;
    b->out = b->v->out;
    b->limits = sonde__calloc(given->count + 1, sizeof(*b->limits));
    if (!b->limits) return sonde_cli_fail(b->cli, "out of memory");
    for (size_t i = 0; i < given->count; i++) {
        b->limits[i] = plan_limit(given->item[i]);
        if (!b->limits[i]) return sonde_cli_usage(b->cli, "--fail-on: too long a limit");
        struct sonde_bench_limit limit;
        struct sonde_err err = { "" };
        if (sonde_bench_limit_parse(b->limits[i], &limit, &err)) {
            return sonde_cli_usage(b->cli, "--fail-on: %s", err.text);
        }
        if (plan_has_figure(limit.glob)) continue;
        return sonde_cli_usage(b->cli, "--fail-on: a load has no figure '%s': say ttft_p95>500ms, "
                               "itl_p99>50ms, e2e_mean>5s, e2e_from_schedule_p99>10s, "
                               "requests_per_s<20, output_tokens_per_s<500, goodput_per_s<10 or "
                               "errors>1%%", limit.glob);
    }
    b->out.fail_on.item = (const char **)b->limits;
    return SONDE_EXIT_OK;
}

int bench_http_plan(struct bench_http *b)
{
    sonde_load_plan_init(&b->plan);
    b->share = 0.95;
    int status = plan_when(b);
    if (!status) status = plan_what(b);
    if (!status) status = plan_headers(b);
    if (!status) status = plan_limits(b);
    b->probe.headers = b->headers;
    return status;
}

void bench_http_release(struct bench_http *b)
{
    sonde_load_arrival_release(&b->plan.arrival);
    sonde_load_trace_release(&b->trace);
    sonde__free(b->headers);
    sonde__free(b->key_header);
    for (size_t i = 0; b->limits && b->limits[i]; i++) sonde__free(b->limits[i]);
    sonde__free(b->limits);
}
