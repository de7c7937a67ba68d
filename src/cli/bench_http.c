/* bench_http.c - `sonde bench http URL`: load on an inference server, and what it shows. Options
 * and words; the plan is made in bench_http_plan.c, several loads are in bench_http_sweep.c. */
#include "cli/bench_http.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/visible.h"
#include "cli/bench_http_both.h"
#include "cli/bench_options.h"
#include "sonde/sonde.h"

#define AT(field) .offset = offsetof(struct bench_http_values, field)
static const struct sonde_cli_opt bench_http_options[] = {
    { .name = "concurrency", .letter = 'c', .type = SONDE_OPT_UINT, .value = "N", .min = 1,
      .max = 1000000, AT(concurrency),
      .help = "closed loop: so many requests at a time (default 1)" },
    { .name = "rate", .letter = 'r', .type = SONDE_OPT_NUM, .value = "PER_SECOND", .min = 1e-6,
      .max = SONDE_LOAD_RATE_MAX, AT(rate), .help = "open loop: requests per second" },
    { .name = "arrival", .type = SONDE_OPT_STR, .value = "PROCESS", AT(arrival),
      .help = "poisson (default), constant, gamma:SHAPE or burst:N" },
    { .name = "stages", .type = SONDE_OPT_STR, .value = "RATE:TIME,...", AT(stages),
      .help = "rates one after the other: 10:30s,20:30s,5..50:1m" },
    { .name = "ramp", .type = SONDE_OPT_STR, .value = "FROM..TO", AT(ramp),
      .help = "a rate that grows over the duration" },
    { .name = "replay", .type = SONDE_OPT_STR, .value = "FILE|URL", AT(replay),
      .help = "a trace with its times: JSONL, CSV, a run file, or an agent's requests" },
    { .name = "speed", .type = SONDE_OPT_STR, .value = "2x", AT(speed),
      .help = "replay so much faster" },
    { .name = "duration", .letter = 'd', .type = SONDE_OPT_STR, .value = "TIME", AT(duration),
      .help = "send for so long (default 30s)" },
    { .name = "requests", .letter = 'n', .type = SONDE_OPT_UINT, .value = "N", .min = 1,
      .max = 4000000000.0, AT(requests), .help = "send so many" },
    { .name = "until", .type = SONDE_OPT_STR, .value = "2%", AT(until),
      .help = "send until mean latency and rate are known so well" },
    { .name = "warmup", .type = SONDE_OPT_STR, .value = "N|TIME", AT(warmup),
      .help = "leave out the first N requests, or so long (default auto: it is found)" },
    { .name = "api", .type = SONDE_OPT_STR, .value = "DIALECT", .choices = SONDE_LOAD_API_NAMES,
      AT(api), .help = "how the server is asked (default auto)" },
    { .name = "model", .letter = 'm', .type = SONDE_OPT_STR, .value = "NAME", AT(model),
      .help = "model to ask for (default the first that the server lists)" },
    { .name = "prompt-tokens", .letter = 'p', .type = SONDE_OPT_STR, .value = "LENGTH", AT(prompt),
      .help = "of made-up prompts: 128, 64..512, normal:256,64, lognormal:256,0.5 (default 128)" },
    { .name = "max-tokens", .type = SONDE_OPT_STR, .value = "LENGTH", AT(max_tokens),
      .help = "of answers, alike (default 128)" },
    { .name = "prefix-tokens", .type = SONDE_OPT_UINT, .value = "N", .min = 1,
      .max = SONDE_LOAD_TOKENS_MAX, AT(prefix_tokens),
      .help = "prompts begin with N tokens that others have too" },
    { .name = "prefix-count", .type = SONDE_OPT_UINT, .value = "K", .min = 1, .max = 1000000,
      AT(prefix_count), .help = "of so many different prefixes (default 1)" },
    { .name = "turns", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = SONDE_LOAD_TURNS_MAX,
      AT(turns), .help = "chats of N turns, each with what was said before" },
    { .name = "prompts", .type = SONDE_OPT_STR, .value = "FILE", AT(prompts),
      .help = "prompts from JSONL: bodies, {\"prompt\"}, {\"messages\"}, ShareGPT" },
    { .name = "no-stream", .type = SONDE_OPT_FLAG, AT(no_stream),
      .help = "ask for whole answers" },
    { .name = "keep-eos", .type = SONDE_OPT_FLAG, AT(keep_eos),
      .help = "let answers end where the model ends them, not at max-tokens" },
    { .name = "header", .letter = 'H', .type = SONDE_OPT_LIST, .value = "NAME: VALUE", AT(header),
      .help = "send this header with every request" },
    { .name = "api-key-env", .type = SONDE_OPT_STR, .value = "VARIABLE", AT(key_env),
      .help = "environment variable that holds the key (Authorization: Bearer …)" },
    SONDE_OPT_BENCH_TRUST(struct bench_http_values, trust),
    { .name = "no-probe", .type = SONDE_OPT_FLAG, AT(no_probe),
      .help = "send nothing but the load: no questions before it" },
    { .name = "slo", .type = SONDE_OPT_STR, .value = "LIMITS", AT(slo),
      .help = "objectives for goodput: ttft<500ms,itl<50ms,e2e<5s" },
    { .name = "sweep", .type = SONDE_OPT_STR, .value = "LIST", .implied = "auto", AT(sweep),
      .help = "several loads: --sweep=1,2,4 or, alone, up until the server is saturated" },
    { .name = "find", .type = SONDE_OPT_STR, .value = "WHAT", .choices = "max-rate", AT(find),
      .help = "the highest rate at which --slo is met" },
    { .name = "share", .type = SONDE_OPT_STR, .value = "95%", AT(share),
      .help = "with --find: share of requests that have to meet it (default 95%)" },
    { .name = "agent", .type = SONDE_OPT_STR, .value = "URL", AT(agent),
      .help = "sonde agent that watches the server (default: looked for)" },
    { .name = "no-agent", .type = SONDE_OPT_FLAG, AT(no_agent), .help = "do not look for one" },
    { .name = "records", .type = SONDE_OPT_STR, .value = "FILE", AT(records),
      .help = "write every request as a line of JSON" },
    { .name = "timeout", .type = SONDE_OPT_STR, .value = "TIME", AT(timeout),
      .help = "give up a request after that (default never)" },
    { .name = "first-timeout", .type = SONDE_OPT_STR, .value = "TIME", AT(first_timeout),
      .help = "give up a request without a first token after that" },
    { .name = "cancel", .type = SONDE_OPT_STR, .value = "5%", AT(cancel),
      .help = "break off this share of requests on purpose" },
    { .name = "connections", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1000000,
      AT(connections), .help = "of an open loop at most (default 10000)" },
    { .name = "threads", .letter = 't', .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 256,
      AT(threads), .help = "that send (default 1)" },
    { .name = "spin", .type = SONDE_OPT_FLAG, AT(spin),
      .help = "do not sleep just before a request is due: microseconds, for a CPU's worth" },
    { .name = "no-keep-alive", .type = SONDE_OPT_FLAG, AT(no_keep_alive),
      .help = "a connection for each request" },
    { .name = "seed", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 9007199254740991.0,
      AT(seed), .help = "the same seed sends the same requests at the same times (default 1)" },
    SONDE_OPT_BENCH_OUTPUT(struct bench_http_values, out),
    SONDE_OPT_STRIP,
    { .name = NULL },
};
#undef AT

/* ---- One load -------------------------------------------------------------------------------- */

static volatile sig_atomic_t bench_http_stopped;

static void bench_http_on_signal(int signal)
{
    (void)signal;
    bench_http_stopped = 1;
}

/* The first Ctrl-C ends the load in order, and what came so far is reported; the second ends the
 * command. */
static void bench_http_catch(void)
{
    const struct sigaction action = { .sa_handler = bench_http_on_signal,
                                      .sa_flags = (int)SA_RESETHAND };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static int bench_http_progress(void *arg, double share, const char *state)
{
    struct bench_http *b = arg;
    sonde_progress_share(&b->progress, share, state);
    b->interrupted |= bench_http_stopped;
    return b->interrupted;
}

int bench_http_once(struct bench_http *b, const char *what, struct sonde_load_bench *out,
                    struct sonde_bench_result *result)
{
    struct sonde_err err = { "" };
    b->plan.progress = bench_http_progress;
    b->plan.progress_arg = b;
    sonde_progress_begin(&b->progress, b->cli, what, b->target.url);
    const int rc = sonde_load_bench_run(&b->plan, &b->target, out, result, &err);
    sonde_progress_end(&b->progress);
    if (!rc) return SONDE_EXIT_OK;
    return rc == SONDE_EINVAL ? sonde_cli_usage(b->cli, "%s", err.text)
                              : sonde_cli_fail(b->cli, "%s", err.text);
}

struct bench_http_shown {
    const struct bench_http *b;
    const struct sonde_load_bench *bench;
    const struct bench_http_both *both;
};

static void bench_http_text(const struct sonde_bench_result *r, const struct sonde_bench_view *v,
                            struct sonde_buf *out, void *arg)
{
    const struct bench_http_shown *s = arg;
    if (v->markdown) sonde_buf_puts(out, "```\n");
    sonde_load_bench_text(&s->b->plan, s->bench, r, v->width ? v->width : 100, v->ascii, out);
    bench_http_both_text(s->both, v->width ? v->width : 100, v->ascii, out);
    if (v->markdown) sonde_buf_puts(out, "```\n");
}

static int bench_http_write_records(const struct bench_http *b,
                                    const struct sonde_load_bench *bench)
{
    if (!b->v->records) return SONDE_EXIT_OK;
    struct sonde_buf lines;
    sonde_buf_init(&lines, (size_t)4 << 30);
    sonde_load_bench_records(bench, &lines);
    const int status = lines.error ? sonde_cli_fail(b->cli, "--records: out of memory")
                                   : sonde_cli_write(b->cli, b->v->records, &lines);
    sonde_buf_release(&lines);
    return status;
}

static int bench_http_single(struct bench_http *b)
{
    struct sonde_load_bench bench;
    struct sonde_bench_result result;
    struct bench_http_both both = { 0 };
    sonde_bench_result_init(&result, "http", NULL);
    bench_http_command(b, &result);
    int status = bench_http_once(b, "sending to", &bench, &result);
    if (status) {
        sonde_bench_result_release(&result);
        return status;
    }
    if (b->interrupted) {
        sonde_bench_result_doubt(&result, "it was interrupted");
    }
    sonde_load_bench_json(&b->plan, &bench, &result);
    bench_http_both_ask(b, &bench, &both);
    bench_http_both_json(&both, &result);
    const struct bench_http_shown shown = { b, &bench, &both };
    status = sonde_cli_bench_finish(b->cli, &b->out, &result, bench_http_text, (void *)&shown);
    const int records = bench_http_write_records(b, &bench);
    if (!status) status = records;
    if (!bench.measures.outcomes[SONDE_LOAD_OK] && status != SONDE_EXIT_USAGE) {
        status = sonde_cli_fail(b->cli, "no request succeeded: %s",
                                result.reason_count ? result.reasons[0] : "none was sent");
    }
    bench_http_both_release(&both);
    sonde_load_bench_release(&bench);
    sonde_bench_result_release(&result);
    return status;
}

static int bench_http_run(struct sonde_cli *cli)
{
    struct bench_http b = { .cli = cli, .v = cli->values };
    struct sonde_err err = { "" };
    if (!cli->operand_count) {
        return sonde_cli_usage(cli, "which server? For example: sonde bench http "
                               "http://127.0.0.1:8080 --concurrency 4");
    }
    int status = bench_http_plan(&b);
    if (!status) status = sonde_cli_bench_begin(cli, &b.out, cli->operands[0]);
    if (!status) {
        const int rc = sonde_load_probe(&b.probe, &b.target, &err);
        if (rc == SONDE_EINVAL) status = sonde_cli_usage(cli, "%s", err.text);
        else if (rc) status = sonde_cli_fail(cli, "%s", err.text);
    }
    if (!status) {
        bench_http_catch();
        status = b.v->find ? bench_http_find(&b) : b.v->sweep ? bench_http_sweep(&b)
                                                              : bench_http_single(&b);
    }
    bench_http_release(&b);
    return status;
}

const struct sonde_command sonde_bench_cmd_http = {
    .name = "bench http",
    .summary = "load on an inference server: latencies, rates, and whether they can be trusted",
    .usage = "URL [options]",
    .details =
        "Sends requests to an OpenAI-compatible server, llama.cpp, Ollama or TGI, and reports time "
        "to first token, time between tokens, latencies from sending and from the schedule, rates "
        "and errors, each with a 95 % interval. A verdict says whether the figures are the "
        "server's: valid, or why not.\n\n"
        "A closed loop (--concurrency) sends the next request when one has ended: how fast the "
        "server is when it is never idle. An open loop (--rate, --stages, --ramp, --replay) sends "
        "when requests are due, as users do, whatever the server does.\n\n"
        "URL is the server (its dialect is found by asking), or one path of it. With a sonde agent "
        "that watches the server, times of both sides are joined by trace id.\n\n"
        "examples:\n"
        "  sonde bench http http://127.0.0.1:8080 -c 8 -d 60s\n"
        "  sonde bench http http://127.0.0.1:8080 --rate 5 --slo 'ttft<500ms,itl<50ms'\n"
        "  sonde bench http https://api.example.com/v1 --api-key-env API_KEY -c 4\n"
        "  sonde bench http http://127.0.0.1:8080 --sweep\n"
        "  sonde bench http http://127.0.0.1:8080 --find max-rate --slo 'ttft<1s'\n"
        "  sonde bench http http://127.0.0.1:8080 --replay trace.jsonl --speed 2x\n"
        "  sonde bench http http://127.0.0.1:8080 -c 4 -o result.json --fail-on 'ttft_p95>500ms'",
    .options = bench_http_options,
    .values_size = sizeof(struct bench_http_values),
    .operands_max = 1,
    .run = bench_http_run,
};
