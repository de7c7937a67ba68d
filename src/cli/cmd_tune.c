/* cmd_tune.c - `sonde tune`: the settings of a server, or of any command, that are best on this
 * machine for a load. Options and words; the search is bench/tune/ and analyze/tune/. */
#include <errno.h>
#include <math.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/visible.h"
#include "bench/http/api.h"
#include "bench/tune/tune.h"
#include "cli/bench_output.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/tune_guide.h"
#include "sonde/sonde.h"

struct tune_values {
    struct sonde_cli_list knobs, fixed;
    const char *only, *objective, *metric, *kind, *slo, *memory, *prompt, *output, *api, *model;
    const char *ready, *journal;
    uint64_t concurrency, trials, all, seed;
    double warmup_s, block_s, start_s, min_gain, slo_share;
    int fresh, less, no_guide;
    struct sonde_cli_bench_output out;
};

#define AT(field) .offset = offsetof(struct tune_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "knob", .letter = 'k', .type = SONDE_OPT_LIST, .value = "NAME=A,B,C", AT(knobs),
      .help = "try these levels of a knob; of {NAME} in the command, or an option --NAME" },
    { .name = "only", .type = SONDE_OPT_STR, .value = "NAME,NAME", AT(only),
      .help = "of the known knobs try no others" },
    { .name = "fix", .type = SONDE_OPT_LIST, .value = "NAME=LEVEL", AT(fixed),
      .help = "set a knob and do not vary it" },
    { .name = "objective", .type = SONDE_OPT_STR, .value = "WHAT",
      .choices = SONDE_TUNE_OBJECTIVE_NAMES, AT(objective),
      .help = "what is to be best (default tokens per second; of a command its time)" },
    { .name = "metric", .type = SONDE_OPT_STR, .value = "REGEX", AT(metric),
      .help = "a command's number: group 1 of this, in what it prints; the last match" },
    { .name = "less", .type = SONDE_OPT_FLAG, AT(less), .help = "less of --metric is better" },
    { .name = "kind", .type = SONDE_OPT_STR, .value = "KIND", .choices = "auto|server|command",
      AT(kind), .help = "a server to send load to, or a command that ends (default: find out)" },
    { .name = "prompt-tokens", .type = SONDE_OPT_STR, .value = "N", AT(prompt),
      .help = "tokens of a prompt: 128, 64..512, lognormal:256,0.5 (default 128)" },
    { .name = "max-tokens", .type = SONDE_OPT_STR, .value = "N", AT(output),
      .help = "tokens of an answer, alike (default 64)" },
    { .name = "concurrency", .letter = 'c', .type = SONDE_OPT_UINT, .value = "N", .min = 1,
      .max = 4096, AT(concurrency), .help = "requests at a time (default 4)" },
    { .name = "slo", .type = SONDE_OPT_STR, .value = "LIMITS", AT(slo),
      .help = "ttft<500ms,itl<50ms,e2e<5s: a setting that breaks it is left out" },
    { .name = "slo-share", .type = SONDE_OPT_NUM, .value = "RATIO", .min = 0.01, .max = 1,
      AT(slo_share), .help = "of the answers that must meet it (default 0.95)" },
    { .name = "memory", .type = SONDE_OPT_STR, .value = "BYTES", AT(memory),
      .help = "peak of resident memory at most: 512M, 4G" },
    { .name = "warmup", .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0, .max = 3600,
      AT(warmup_s), .help = "load before the block, not counted (default 1)" },
    { .name = "block", .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.1, .max = 3600,
      AT(block_s), .help = "load that is counted in each trial (default 5)" },
    { .name = "timeout", .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 1, .max = 86400,
      AT(start_s), .help = "for a server to be ready, or a command to end (default 120)" },
    { .name = "trials", .type = SONDE_OPT_UINT, .value = "N", .min = 4,
      .max = SONDE_TUNE_TRIALS_MAX, AT(trials),
      .help = "at most (default: a quarter of three times the grid, 12 to 60)" },
    { .name = "all", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 100, AT(all),
      .help = "no search: every setting N times, each time in another order" },
    { .name = "no-guide", .type = SONDE_OPT_FLAG, AT(no_guide),
      .help = "do not record a load first to learn what slots and batches may bring" },
    { .name = "min-gain", .type = SONDE_OPT_NUM, .value = "PERCENT", .min = 0.01, .max = 100,
      AT(min_gain), .help = "a change that brings less is not recommended (default 1)" },
    { .name = "api", .type = SONDE_OPT_STR, .value = "API", .choices = SONDE_LOAD_API_NAMES,
      AT(api), .help = "how the server is asked (default: find out)" },
    { .name = "model", .type = SONDE_OPT_STR, .value = "NAME", AT(model),
      .help = "model to name in requests (default: ask the server)" },
    { .name = "ready", .type = SONDE_OPT_STR, .value = "PATH", AT(ready),
      .help = "what answers other than 503 when the server is ready (default /health)" },
    { .name = "seed", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1e15, AT(seed),
      .help = "of requests and of the search (default 1)" },
    { .name = "journal", .type = SONDE_OPT_STR, .value = "FILE", AT(journal),
      .help = "trials as they come, from which the same command resumes" },
    { .name = "fresh", .type = SONDE_OPT_FLAG, AT(fresh),
      .help = "do not resume: what the journal holds is dropped" },
    SONDE_OPT_BENCH_OUTPUT(struct tune_values, out),
    { .name = NULL },
};
#undef AT

/* ---- Interrupting ---------------------------------------------------------------------------- */

static volatile sig_atomic_t tune_interrupted;

static void tune_on_signal(int sig)
{
    tune_interrupted = sig;
}

static int tune_is_stopped(void *arg)
{
    (void)arg;
    return tune_interrupted != 0;
}

static void tune_catch_signals(void)
{
    const struct sigaction a = { .sa_handler = tune_on_signal }; /* no SA_RESTART: waits end */
    const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    for (size_t i = 0; i < SONDE_COUNT(signals); i++) sigaction(signals[i], &a, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* ---- What was asked for ---------------------------------------------------------------------- */

/* "512M", "4G", "4GiB"; 0 = it is not one. */
static uint64_t tune_bytes(const char *text)
{
    static const char units[] = "KMGT";
    char *end;
    if (text[0] < '0' || text[0] > '9') return 0;
    double v = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        v *= exp2(10.0 * (double)(unit - units + 1));
        end++;
    }
    if (!strcmp(end, "iB") || !strcmp(end, "B")) end = strchr(end, 0);
    return *end || !(v >= 1 && v < 1e18) ? 0 : (uint64_t)v;
}

static int tune_plan_load(const struct sonde_cli *cli, struct sonde_tune_plan *p)
{
    const struct tune_values *v = cli->values;
    struct sonde_err err;
    if (sonde_load_length_parse(v->prompt ? v->prompt : "128", &p->prompt, &err)) {
        return sonde_cli_usage(cli, "--prompt-tokens: %s", err.text);
    }
    if (sonde_load_length_parse(v->output ? v->output : "64", &p->output, &err)) {
        return sonde_cli_usage(cli, "--max-tokens: %s", err.text);
    }
    if (v->slo && sonde_load_slo_parse(v->slo, &p->slo, &err)) {
        return sonde_cli_usage(cli, "--slo: %s", err.text);
    }
    p->memory_bytes = v->memory ? tune_bytes(v->memory) : 0;
    if (v->memory && !p->memory_bytes) {
        return sonde_cli_usage(cli, "--memory: '%s' is not a size, for example 512M or 4G",
                               v->memory);
    }
    p->api = v->api && strcmp(v->api, "auto") != 0 ? sonde_load_api_find(v->api) : -1;
    p->model = v->model;
    p->ready_path = v->ready ? v->ready : "/health";
    if (p->ready_path[0] != '/') return sonde_cli_usage(cli, "--ready: '%s' does not begin with "
                                                        "'/'",
                                                        p->ready_path);
    p->concurrency = v->concurrency ? (uint32_t)v->concurrency : 4;
    p->warmup_s = v->warmup_s > 0 ? v->warmup_s : 1;
    p->block_s = v->block_s > 0 ? v->block_s : 5;
    p->start_s = v->start_s > 0 ? v->start_s : 120;
    p->slo_share = v->slo_share > 0 ? v->slo_share : 0.95;
    p->seed = v->seed ? v->seed : 1;
    p->stopped = tune_is_stopped;
    return SONDE_EXIT_OK;
}

/* A server or a command, and what is to be best of it. */
static int tune_plan_kind(const struct sonde_cli *cli, const struct sonde_tune_options_known *known,
                          struct sonde_tune_plan *p, regex_t *metric)
{
    const struct tune_values *v = cli->values;
    const int says = sonde_tune_says_port(cli->operands, (size_t)cli->operand_count, &p->port);
    p->server = v->kind && !strcmp(v->kind, "server") ? 1
                : v->kind && !strcmp(v->kind, "command") ? 0
                : says || (!v->metric && (sonde_tune_help_find(known, "--port") ||
                                          sonde_tune_help_find(known, "--listen")));
    const char *name = v->objective ? v->objective
                       : v->metric ? "metric" : p->server ? "tokens" : "wall";
    p->objective = (enum sonde_tune_objective)sonde_tune_objective_find(name);
    p->less = sonde_tune_objective_less(p->objective) || v->less;
    if (sonde_tune_objective_of_command(p->objective) == p->server) {
        return sonde_cli_usage(cli, "--objective %s is of %s, but this is %s (see --kind)", name,
                               p->server ? "a command" : "a server",
                               p->server ? "a server" : "a command");
    }
    if ((p->objective == SONDE_TUNE_OBJECTIVE_METRIC) != (v->metric != NULL)) {
        return sonde_cli_usage(cli, "--objective metric and --metric REGEX go together");
    }
    if (v->less && !v->metric) return sonde_cli_usage(cli, "--less is for --metric");
    if (p->objective == SONDE_TUNE_OBJECTIVE_GOODPUT && !sonde_load_slo_any(&p->slo)) {
        return sonde_cli_usage(cli, "--objective goodput needs --slo");
    }
    if (v->metric) {
        if (regcomp(metric, v->metric, REG_EXTENDED | REG_NEWLINE) || metric->re_nsub < 1) {
            return sonde_cli_usage(cli, "--metric: '%s' is not an extended regular expression "
                                   "with a "
                                   "group, for example 'speed: ([0-9.]+)'", v->metric);
        }
        p->metric = metric;
    }
    return SONDE_EXIT_OK;
}

/* Where trials are kept: beside results, under the key of what they are of. */
static int tune_journal_path(const struct sonde_cli *cli, uint64_t key, char *out, size_t size)
{
    const struct tune_values *v = cli->values;
    char dir[SONDE_CLI_BENCH_PATH];
    if (v->journal) {
        if (snprintf(out, size, "%s", v->journal) < (int)size) return SONDE_EXIT_OK;
        return sonde_cli_usage(cli, "--journal: too long a name");
    }
    const int status = sonde_cli_bench_dir(cli, dir);
    if (status) return status;
    for (char *at = dir + 1; *at; at++) {
        if (*at != '/') continue;
        *at = 0;
        mkdir(dir, 0700);
        *at = '/';
    }
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        return sonde_cli_fail(cli, "cannot make the folder '%s' for trials: %s; --journal FILE "
                              "names "
                              "another place", dir, strerror(errno));
    }
    const int n = snprintf(out, size, "%s/tune-%016llx.jsonl", dir, (unsigned long long)key);
    return n < (int)size ? SONDE_EXIT_OK : sonde_cli_usage(cli, "--results: too long a name");
}

/* ---- Running --------------------------------------------------------------------------------- */

struct tune_view {
    const struct sonde_cli *cli;
    const struct sonde_tune_options *o;
    struct sonde_tune_found *found;
    struct sonde_progress progress;
};

static void tune_on_progress(void *arg, const struct sonde_tune_step *step, size_t number,
                             uint32_t max, const struct sonde_tune_past *past)
{
    struct tune_view *view = arg;
    char words[SONDE_TUNE_WORDS_BYTES], state[96];
    const struct sonde_tune_space *s = &view->o->knobs->space;
    sonde_tune_words(s, step->point, UINT32_MAX, words);
    if (!past) {
        snprintf(state, sizeof(state), "trial %zu of at most %u (%s), %.48s", number + 1, max,
                 sonde_tune_phase_name(step->phase), words);
        sonde_progress_share(&view->progress, (double)number / max, state);
    } else if (view->cli->verbose) {
        char value[64];
        snprintf(value, sizeof(value), "%.5g %s", past->figures.value,
                 sonde_tune_objective_unit(view->o->plan->objective));
        sonde_visible_printf(STDERR_FILENO, "sonde tune: trial %zu (%s) %s: %s\n", number + 1,
                             sonde_tune_phase_name(step->phase), words,
                             past->outcome == SONDE_TUNE_OK ? value : past->figures.reason);
    }
}

static void tune_write_text(const struct sonde_bench_result *r, const struct sonde_bench_view *v,
                            struct sonde_buf *out, void *arg)
{
    const struct tune_view *view = arg;
    (void)r;
    sonde_tune_text(view->o, view->found, v, out);
}

static int tune_finish(const struct sonde_cli *cli, struct tune_view *view)
{
    const struct tune_values *v = cli->values;
    struct sonde_bench_result r;
    sonde_bench_result_init(&r, "tune", v->out.save);
    int status = SONDE_EXIT_OK;
    if (sonde_bench_result_command(&r, cli->operands, (size_t)cli->operand_count) ||
        sonde_tune_result(view->o, view->found, &r)) {
        status = sonde_cli_fail(cli, "out of memory");
    }
    sonde_bench_result_end(&r);
    if (!status) status = sonde_cli_bench_finish(cli, &v->out, &r, tune_write_text, view);
    sonde_bench_result_release(&r);
    if (!status && view->found->answer.verdict == SONDE_TUNE_NOTHING) status = SONDE_EXIT_FAIL;
    if (!status && view->found->stopped) status = SONDE_EXIT_FAIL;
    return status;
}

static int tune_search(struct sonde_cli *cli, struct sonde_tune_plan *p,
                       const struct sonde_tune_options_known *known)
{
    const struct tune_values *v = cli->values;
    struct sonde_err err = { "" };
    struct sonde_tune_knobs knobs;
    struct sonde_tune_found found;
    char journal[SONDE_CLI_BENCH_PATH + 64];
    const struct sonde_tune_knobs_options command = {
        .argv = cli->operands, .argc = (size_t)cli->operand_count, .known = known,
        .knobs = v->knobs.item, .knob_count = v->knobs.count, .fixed = v->fixed.item,
        .fixed_count = v->fixed.count, .only = v->only,
        .concurrency = p->server ? p->concurrency : 0 };
    if (sonde_tune_knobs_init(&knobs, &command, &err)) return sonde_cli_usage(cli, "%s", err.text);
    int status = tune_journal_path(cli, sonde_tune_key(&knobs, &command, p), journal,
                                   sizeof(journal));
    if (status) return status;
    struct tune_view view = { .cli = cli, .found = &found };
    struct sonde_tune_guide guide = { .asked = 0 };
    const struct sonde_tune_options o = {
        .plan = p, .knobs = &knobs, .command = &command, .guide = &guide,
        .trials_max = (uint32_t)v->trials, .all = (uint32_t)v->all,
        .min_gain = v->min_gain > 0 ? v->min_gain / 100 : 0.01, .seed = p->seed, .journal = journal,
        .fresh = v->fresh, .progress = tune_on_progress, .arg = &view };
    view.o = &o;
    status = sonde_cli_bench_begin(cli, &v->out, "tune");
    if (status) return status;
    tune_catch_signals();
    sonde_progress_begin(&view.progress, cli, "tuning", cli->operands[0]);
    if (!v->no_guide && !v->all) {
        sonde_progress_share(&view.progress, 0, "a load is recorded, to know what to expect");
        status = sonde_cli_tune_guide(cli, p, &command, journal, v->fresh, &knobs, &guide);
        if (status) {
            sonde_progress_end(&view.progress);
            return sonde_cli_fail(cli, "stopped before the first trial");
        }
    }
    const int rc = sonde_tune_run(&o, &found, &err);
    sonde_progress_end(&view.progress);
    if (rc == SONDE_EINVAL) return sonde_cli_usage(cli, "%s", err.text);
    if (rc) return sonde_cli_fail(cli, "%s", err.text);
    status = tune_finish(cli, &view);
    sonde_tune_found_release(&found);
    return status;
}

static int tune_run(struct sonde_cli *cli)
{
    struct sonde_tune_plan p;
    struct sonde_tune_options_known known = { .options = NULL };
    struct sonde_err err = { "" };
    regex_t metric;
    memset(&p, 0, sizeof(p));
    if (!cli->operand_count) {
        return sonde_cli_usage(cli, "say what to tune: sonde tune [options] -- llama-server -m "
                               "FILE");
    }
    int status = tune_plan_load(cli, &p);
    if (status) return status;
    if (sonde_tune_help_ask(cli->operands, (size_t)cli->operand_count, &known, &err)) {
        return sonde_cli_usage(cli, "%s", err.text);
    }
    status = tune_plan_kind(cli, &known, &p, &metric);
    if (!status) status = tune_search(cli, &p, &known);
    if (p.metric) regfree(&metric);
    sonde_tune_help_release(&known);
    return status;
}

const struct sonde_command sonde_cmd_tune = {
    .name = "tune",
    .summary = "find the settings of a server or command that are best on this machine",
    .usage = "[options] -- CMD [ARG ...]",
    .details =
        "CMD is a server (llama-server, sonde-engine, any with --port or {port} in its command "
        "line) or a command that ends. Each trial starts it with a setting, waits until it is "
        "ready, sends a load, counts what came after a warm-up, and stops it.\n"
        "\n"
        "Knobs that are known: threads, threads-batch, batch, ubatch, slots, fa (flash attention), "
        "mmap, kv (type of the KV cache; only if asked for), pin (CPUs). Those that the server has "
        "are found in its --help. Others: write {NAME} in the command, and --knob NAME=A,B,C.\n"
        "\n"
        "Before a search over slots or batches, one load is recorded, and the model of `sonde "
        "predict` says what to expect of them; trials correct it. The search learns from each "
        "trial which knobs matter, and tries what may be better than the best so far. At the end "
        "that one is compared with the command as it was given, in turns; what gains less than "
        "--min-gain, or no more than noise, is not recommended. Ctrl-C stops it, and the same "
        "command resumes.\n"
        "\n"
        "examples:\n"
        "  sonde tune -- llama-server -m model.gguf\n"
        "  sonde tune --only threads,slots -c 8 --slo 'ttft<500ms' -- llama-server -m model.gguf\n"
        "  sonde tune --memory 4G --save nightly -- llama-server -m model.gguf\n"
        "  sonde tune --knob level=1,3,9 --knob threads=1,2 -- zstd -f -T{threads} -{level} FILE",
    .options = options,
    .values_size = sizeof(struct tune_values),
    .operands_max = -1,
    .stop_at_operand = 1,
    .command_after_dashes = 1,
    .run = tune_run,
};
