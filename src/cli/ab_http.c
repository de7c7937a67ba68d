/* ab_http.c - `sonde ab --a URL --b URL`: two inference servers, sent the same requests in turns.
 *
 * A pair is one short load on each, the same bytes, in an order that is drawn. Rejected: both at
 * the same time, with requests dealt out at random, which on one machine measures how they
 * disturb each other; for live traffic the front does that (`sonde serve --ab`). */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "bench/http/bench.h"
#include "cli/ab.h"
#include "cli/bench_form.h"
#include "cli/bench_options.h"
#include "sonde/sonde.h"

#define AB_HTTP_REQUESTS 20u

static const struct sonde_pairs_figure ab_http_figures[] = {
    { "e2e_s", "whole answer", "s", -1 },
    { "ttft_s", "time to first token", "s", -1 },
    { "itl_s", "between tokens", "s", -1 },
    { "tpot_s", "time per output token", "s", -1 },
    { "output_tokens_per_s", "output tokens", "1/s", 1 },
    { "requests_per_s", "requests", "1/s", 1 },
    { "error_ratio", "errors", "ratio", -1 },
};
enum { AB_HTTP_E2E, AB_HTTP_TTFT, AB_HTTP_ITL, AB_HTTP_TPOT, AB_HTTP_TOKENS, AB_HTTP_REQUEST_RATE,
       AB_HTTP_ERRORS };

struct ab_http {
    const struct sonde_cli *cli;
    const struct ab_values *v;
    struct sonde_load_plan plan;
    struct sonde_load_target targets[2];
    const char **headers;        /* owned */
    uint64_t measured;           /* arms so far: two make a pair */
    struct sonde_pairs_options o;
    struct sonde_pairs pairs;
    struct sonde_bench_result result;
    struct sonde_progress progress;
};

static volatile sig_atomic_t ab_http_stopped;

static void ab_http_on_signal(int number)
{
    (void)number;
    ab_http_stopped = 1;
}

static int ab_http_look(void *arg, double share, const char *state)
{
    (void)arg;
    (void)share;
    (void)state;
    return ab_http_stopped != 0;
}

/* ---- An arm ---------------------------------------------------------------------------------- */

static void ab_http_values(const struct sonde_load_measures *m, double *values)
{
    uint64_t all = 0;
    for (int i = 0; i < SONDE_LOAD_OUTCOME_COUNT; i++) all += m->outcomes[i];
    values[AB_HTTP_E2E] = m->metrics[SONDE_LOAD_METRIC_E2E].mean;
    values[AB_HTTP_TTFT] = m->metrics[SONDE_LOAD_METRIC_TTFT].mean;
    values[AB_HTTP_ITL] = m->metrics[SONDE_LOAD_METRIC_ITL].mean;
    values[AB_HTTP_TPOT] = m->metrics[SONDE_LOAD_METRIC_TPOT].mean;
    values[AB_HTTP_TOKENS] = m->rates[SONDE_LOAD_RATE_OUTPUT].value;
    values[AB_HTTP_REQUEST_RATE] = m->rates[SONDE_LOAD_RATE_REQUESTS].value;
    values[AB_HTTP_ERRORS] =
        all ? 1 - (double)m->outcomes[SONDE_LOAD_OK] / (double)all : (double)NAN;
}

static int ab_http_measure(void *arg, int arm, double *values, struct sonde_err *err)
{
    struct ab_http *s = arg;
    struct sonde_load_bench bench;
    struct sonde_bench_result single;
    /* Both arms of a pair are sent the same; every pair something else. */
    s->plan.seed = s->o.seed + s->measured++ / 2;
    sonde_bench_result_init(&single, "http", NULL);
    int rc = sonde_load_bench_run(&s->plan, &s->targets[arm], &bench, &single, err);
    if (!rc) {
        ab_http_values(&bench.measures, values);
        if (!bench.measures.outcomes[SONDE_LOAD_OK] && !ab_http_stopped) {
            rc = sonde_err_set(err, SONDE_EIO, "no request to %.200s succeeded: %.200s",
                               s->targets[arm].url,
                               single.reason_count ? single.reasons[0] : "none was sent");
        }
        sonde_load_bench_release(&bench);
    }
    sonde_bench_result_release(&single);
    return rc ? rc : ab_http_stopped ? 1 : 0;
}

/* ---- What was asked for ---------------------------------------------------------------------- */

static int ab_http_length(const struct sonde_cli *cli, const char *option, const char *text,
                          struct sonde_load_length *out)
{
    struct sonde_err err = { "" };
    if (!text || !sonde_load_length_parse(text, out, &err)) return SONDE_EXIT_OK;
    return sonde_cli_usage(cli, "--%s: %s", option, err.text);
}

static int ab_http_take(const struct sonde_cli *cli, struct ab_http *s)
{
    const struct ab_values *v = cli->values;
    if (v->record || v->shell || v->prepare || v->input || v->show_output || v->ignore_failure) {
        return sonde_cli_usage(cli, "--record, --shell, --prepare, --input, --show-output and "
                               "--ignore-failure are for commands");
    }
    sonde_load_plan_init(&s->plan);
    s->headers = sonde__calloc(v->header.count + 1, sizeof(*s->headers));
    if (!s->headers) return sonde_cli_fail(cli, "out of memory");
    for (size_t i = 0; i < v->header.count; i++) s->headers[i] = v->header.item[i];
    s->plan.headers = s->headers;
    s->plan.trust = v->trust;
    s->plan.stream = !v->no_stream;
    s->plan.concurrency = v->concurrency ? (uint32_t)v->concurrency : 1;
    s->plan.requests = v->requests ? v->requests : AB_HTTP_REQUESTS;
    s->plan.warmup_s = 0; /* the first pairs are, with --warmup */
    s->plan.timeout_s = v->timeout_s;
    s->plan.progress = ab_http_look;
    s->o = (struct sonde_pairs_options){
        .figures = ab_http_figures, .figure_count = SONDE_COUNT(ab_http_figures),
        .measure = ab_http_measure, .measure_arg = s,
        .progress = sonde_progress_told, .progress_arg = &s->progress,
    };
    int status = sonde_cli_bench_trust(cli, &v->trust, v->a, v->b);
    if (!status) status = sonde_cli_ab_plan(cli, &s->o);
    if (!status) status = ab_http_length(cli, "prompt-tokens", v->prompt, &s->plan.prompt);
    if (!status) status = ab_http_length(cli, "max-tokens", v->max_tokens, &s->plan.output);
    return status;
}

static int ab_http_probe(const struct sonde_cli *cli, struct ab_http *s)
{
    const struct ab_values *v = cli->values;
    const char *const urls[2] = { v->a, v->b };
    for (int arm = 0; arm < 2; arm++) {
        struct sonde_err err = { "" };
        const struct sonde_load_probe_options probe = {
            .url = urls[arm], .api = v->api ? sonde_load_api_find(v->api) : -1, .model = v->model,
            .headers = s->headers, .trust = v->trust, .stream = s->plan.stream, .ignore_eos = 1,
            .calibrate = 1 };
        const int rc = sonde_load_probe(&probe, &s->targets[arm], &err);
        if (rc == SONDE_EINVAL) return sonde_cli_usage(cli, "--%c: %s", arm ? 'b' : 'a', err.text);
        if (rc) return sonde_cli_fail(cli, "--%c: %s", arm ? 'b' : 'a', err.text);
    }
    /* The same bytes for both: what a word is, one of them says. */
    s->targets[1].calibration = s->targets[0].calibration;
    return SONDE_EXIT_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void ab_http_text(const struct sonde_bench_result *r, const struct sonde_bench_view *view,
                         struct sonde_buf *out, void *arg)
{
    const struct ab_http *s = arg;
    sonde_pairs_text(&s->pairs, s->v->a, s->v->b, view, out);
    sonde_bench_form_doubts(r, out);
}

static int ab_http_test(const struct sonde_cli *cli, struct ab_http *s)
{
    const struct ab_values *v = cli->values;
    const struct sigaction action = { .sa_handler = ab_http_on_signal,
                                      .sa_flags = (int)SA_RESETHAND };
    struct sonde_err err = { "" };
    const int status = sonde_cli_ab_begin(cli, s->o.seed, &s->result);
    if (status) return status;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sonde_progress_begin(&s->progress, cli, "comparing", v->b);
    const int rc = sonde_pairs_run(&s->o, &s->pairs, &err);
    sonde_progress_end(&s->progress);
    return sonde_cli_ab_end(cli, rc, &err, &s->pairs, &s->result);
}

int sonde_cli_ab_http(struct sonde_cli *cli)
{
    const struct ab_values *v = cli->values;
    struct ab_http s;
    memset(&s, 0, sizeof(s));
    s.cli = cli;
    s.v = v;
    int status = ab_http_take(cli, &s);
    if (!status) status = sonde_cli_bench_begin(cli, &v->out, "ab");
    if (!status) status = ab_http_probe(cli, &s);
    if (!status) status = ab_http_test(cli, &s);
    if (!status) status = sonde_cli_bench_finish(cli, &v->out, &s.result, ab_http_text, &s);
    if (!status && s.pairs.end == SONDE_PAIRS_INTERRUPTED) status = SONDE_EXIT_FAIL;
    sonde_pairs_release(&s.pairs);
    sonde_bench_result_release(&s.result);
    sonde__free(s.headers);
    return status;
}
