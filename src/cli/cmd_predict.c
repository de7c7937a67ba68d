/* cmd_predict.c - `sonde predict`: what latencies and throughput an engine would have at another
 * rate, with other requests or slots, and where it saturates; and whether what was predicted before
 * came true. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyze/predict/observe.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "present/grid.h"
#include "present/report/predict.h"
#include "present/text.h"
#include "sonde/sonde.h"
#include "store/prediction.h"

#define ANSWER_MAX ((size_t)64 << 20)
#define RATES_DEFAULT "1x,1.5x,2x"
enum { RATES_MAX = 12, PATH_BYTES = 4096 };

struct predict_values {
    const char *rate, *prompt, *output, *arrivals, *model, *history, *format, *from, *to;
    const char *load;
    uint64_t slots, batch, recorded_slots, recorded_batch, requests, seed, width;
    double duration_s, speed;
    int check, no_keep;
};

#define AT(field) .offset = offsetof(struct predict_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "rate", .letter = 'r', .type = SONDE_OPT_STR, .value = "N/s|Nx,...", AT(rate),
      .help = "requests per second, or times those recorded (default " RATES_DEFAULT ")" },
    { .name = "slots", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 65536, AT(slots),
      .help = "requests that are computed together (default as recorded)" },
    { .name = "batch", .type = SONDE_OPT_UINT, .value = "TOKENS", .min = 1, .max = 1 << 24,
      AT(batch), .help = "tokens in one forward pass (default as recorded)" },
    { .name = "prompt-tokens", .type = SONDE_OPT_STR, .value = "N|Nx", AT(prompt),
      .help = "prompts of N tokens on average, or N times as long" },
    { .name = "output-tokens", .type = SONDE_OPT_STR, .value = "N|Nx", AT(output),
      .help = "answers, alike" },
    { .name = "speed", .type = SONDE_OPT_NUM, .value = "TIMES", .min = 0.01, .max = 100, AT(speed),
      .help = "on a machine that is so many times as fast in all it does (default 1)" },
    { .name = "arrivals", .type = SONDE_OPT_STR, .value = "KIND", .choices = "recorded|poisson",
      AT(arrivals), .help = "how requests follow each other (default recorded)" },
    { .name = "load", .type = SONDE_OPT_STR, .value = "FILE", AT(load),
      .help = "the requests of that recording, when they came, instead of such at random" },
    { .name = "requests", .letter = 'n', .type = SONDE_OPT_UINT, .value = "N", .min = 30,
      .max = 2000, AT(requests),
      .help = "intervals are for a run of so many (default as recorded)" },
    { .name = "recorded-slots", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 65536,
      AT(recorded_slots), .help = "slots the engine had, where the recording does not tell" },
    { .name = "recorded-batch", .type = SONDE_OPT_UINT, .value = "TOKENS", .min = 1,
      .max = 1 << 24, AT(recorded_batch), .help = "tokens in one forward pass, alike" },
    { .name = "model", .letter = 'm', .type = SONDE_OPT_STR, .value = "NAME", AT(model),
      .help = "the process that serves this model (default the one that computed most)" },
    { .name = "check", .type = SONDE_OPT_FLAG, AT(check),
      .help = "predict nothing: compare the recording with what was predicted" },
    { .name = "history", .type = SONDE_OPT_STR, .value = "FILE", AT(history),
      .help = "where predictions are kept (default ~/.local/state/sonde/predictions.jsonl)" },
    { .name = "no-keep", .type = SONDE_OPT_FLAG, AT(no_keep),
      .help = "neither keep the prediction nor look at earlier ones" },
    { .name = "seed", .type = SONDE_OPT_UINT, .value = "N", .min = 0, .max = 1e15, AT(seed),
      .help = "of the simulation (default 0): the same one gives the same answer" },
    { .name = "duration", .letter = 'd', .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.1,
      .max = 86400, AT(duration_s), .help = "how long to observe an agent (default 10)" },
    { .name = "from", .type = SONDE_OPT_STR, .value = "TIME", AT(from),
      .help = "only from here on: seconds since the start, -SECONDS ago, or unix time" },
    { .name = "to", .type = SONDE_OPT_STR, .value = "TIME", AT(to), .help = "up to here, alike" },
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT",
      .choices = "text|json", AT(format), .help = "how it is written (default text)" },
    { .name = "width", .letter = 'w', .type = SONDE_OPT_UINT, .value = "COLUMNS", .min = 40,
      .max = SONDE_GRID_MAX, AT(width), .help = "columns of tables (default the terminal's)" },
    { .name = NULL },
};
#undef AT

/* ---- What is asked --------------------------------------------------------------------------- */

/* "2x" or "3.5/s", "3.5": 0 and *out, or -1. of: what x is times of. */
static int predict_parse(const char *text, size_t len, const char *unit, double of, double *out)
{
    char number[64];
    double v, times = 1;
    if (!len || len >= sizeof(number)) return -1;
    memcpy(number, text, len);
    number[len] = '\0';
    const size_t unit_len = strlen(unit);
    if (number[len - 1] == 'x') {
        number[len - 1] = '\0';
        times = of;
    } else if (unit_len && len > unit_len && !strcmp(number + len - unit_len, unit)) {
        number[len - unit_len] = '\0';
    }
    if (sonde_cli_number(number, &v) || !(v > 0) || v > 1e9) return -1;
    *out = v * times;
    return 0;
}

static int predict_ask_tokens(const struct sonde_cli *cli, const char *name, const char *text,
                              double mean, double *ratio)
{
    double tokens;
    if (!text) return SONDE_EXIT_OK;
    if (predict_parse(text, strlen(text), "", mean, &tokens)) {
        return sonde_cli_usage(cli, "--%s: '%s' is neither a number of tokens nor one with x, as "
                               "2x", name, text);
    }
    *ratio = tokens / mean;
    return SONDE_EXIT_OK;
}

struct predict_rates { double rate[RATES_MAX]; size_t count; };

static int predict_ask_rates(const struct sonde_cli *cli, double recorded,
                             struct predict_rates *out)
{
    const struct predict_values *v = cli->values;
    const char *at = v->rate ? v->rate : RATES_DEFAULT;
    for (;; at++) {
        const size_t len = strcspn(at, ",");
        if (out->count == RATES_MAX) {
            return sonde_cli_usage(cli, "--rate: at most %d at a time", RATES_MAX);
        }
        if (predict_parse(at, len, "/s", recorded, &out->rate[out->count++])) {
            return sonde_cli_usage(cli, "--rate: '%.*s' is neither a rate, as 3.5/s, nor times the "
                                   "recorded one, as 2x", (int)len, at);
        }
        at += len;
        if (!*at) return SONDE_EXIT_OK;
    }
}

/* ---- What is kept ---------------------------------------------------------------------------- */

static int predict_history_path(const struct sonde_cli *cli, char out[PATH_BYTES])
{
    const struct predict_values *v = cli->values;
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (v->history) n = snprintf(out, PATH_BYTES, "%s", v->history);
    else if (state && *state == '/') {
        n = snprintf(out, PATH_BYTES, "%s/sonde/predictions.jsonl", state);
    } else if (home && *home == '/') {
        n = snprintf(out, PATH_BYTES, "%s/.local/state/sonde/predictions.jsonl", home);
    }
    if (n < 0) {
        return sonde_cli_usage(cli, "there is neither XDG_STATE_HOME nor HOME: say where "
                               "predictions are kept with --history, or --no-keep");
    }
    return n && n < PATH_BYTES ? SONDE_EXIT_OK
                               : sonde_cli_usage(cli, "--history: that is not a path");
}

static struct sonde_prediction predict_kept(const struct sonde_predict_recording *r)
{
    struct sonde_prediction p = { .made_s = (double)time(NULL), .recorded_s = r->start_s };
    snprintf(p.host, sizeof(p.host), "%s", r->host);
    snprintf(p.model, sizeof(p.model), "%s", r->model);
    snprintf(p.program, sizeof(p.program), "%s", r->program);
    return p;
}

/* The recording itself, as something that predictions are compared with. */
static struct sonde_prediction predict_kept_measured(const struct sonde_predict_recording *r,
                                                     const struct sonde_predict_model *m)
{
    const struct sonde_predict_facts *f = sonde_predict_facts(m);
    struct sonde_prediction p = predict_kept(r);
    p.rate = f->rate;
    p.slots = f->slots;
    p.batch_tokens = f->batch_tokens;
    p.requests = f->requests;
    p.tokens_in = f->tokens_in;
    p.tokens_out = f->tokens_out;
    sonde_predict_measured(m, p.figures);
    return p;
}

static int predict_keep(struct sonde_predictions *all, const struct sonde_predict_recording *r,
                        const struct sonde_predict_answer *a)
{
    struct sonde_prediction p = predict_kept(r);
    p.rate = a->rate;
    p.slots = a->slots;
    p.batch_tokens = a->batch_tokens;
    p.requests = a->requests;
    p.tokens_in = a->tokens_in;
    p.tokens_out = a->tokens_out;
    p.knee = a->knee;
    memcpy(p.figures, a->figures, sizeof(p.figures));
    const double key[5] = { p.recorded_s, p.rate, p.slots, p.tokens_in, p.tokens_out };
    p.id = sonde_fnv64(sonde_fnv64_text(0, p.host), key, sizeof(key));
    /* The same question again takes the place of the answer that nobody has checked. */
    for (uint32_t i = 0; i < all->count; i++) {
        if (all->list[i].id == p.id && !(all->list[i].checked_s > 0)) {
            all->list[i] = p;
            return 0;
        }
    }
    return sonde_predictions_add(all, &p);
}

/* ---- Doing it -------------------------------------------------------------------------------- */

struct predict_job {
    struct sonde_cli *cli;
    const char *source;
    struct sonde_predict_recording recording;
    struct sonde_predict_model *model;
    struct sonde_predict_model *load;
    struct sonde_predict_answer answers[RATES_MAX];
    size_t answer_count;
    struct sonde_predictions history;
    char history_path[PATH_BYTES];
};

static int predict_job_fit(struct predict_job *j, const struct sonde_profile *p)
{
    const struct predict_values *v = j->cli->values;
    struct sonde_err err = { "" };
    const struct sonde_cli_filter part = { .from = v->from, .to = v->to };
    struct sonde_profile_filter times = { 0 };
    const int status = sonde_cli_filter(j->cli, &part, p, &times);
    if (status) return status;
    const struct sonde_predict_choice choice = { v->model, times.from_ns, times.to_ns };
    int rc = sonde_predict_observe(p, &choice, &j->recording, &err);
    if (!rc) {
        struct sonde_predict_observed *o = &j->recording.observed;
        if (v->recorded_slots) o->slots = (uint32_t)v->recorded_slots;
        if (v->recorded_batch) o->batch_tokens = (uint32_t)v->recorded_batch;
        rc = sonde_predict_fit(o, &j->model, &err);
    }
    if (!rc) return SONDE_EXIT_OK;
    return rc == SONDE_ENOMEM ? sonde_cli_fail(j->cli, "%s", err.text)
                              : sonde_cli_usage(j->cli, "%s: %s", j->source, err.text);
}

static int predict_job_ask(struct predict_job *j)
{
    const struct predict_values *v = j->cli->values;
    const struct sonde_predict_facts *f = sonde_predict_facts(j->model);
    struct sonde_predict_ask ask = {
        .slots = (uint32_t)v->slots, .batch_tokens = (uint32_t)v->batch,
        .requests = (uint32_t)v->requests, .seed = v->seed, .speed = v->speed,
        .poisson = v->arrivals && !strcmp(v->arrivals, "poisson"),
    };
    struct predict_rates rates = { .count = 0 };
    if (j->load) {
        struct sonde_err err = { "" };
        ask.load = j->load;
        if (sonde_predict_run(j->model, &ask, &j->answers[0], &err)) {
            return sonde_cli_fail(j->cli, "%s", err.text);
        }
        j->answer_count = 1;
        return SONDE_EXIT_OK;
    }
    int status = predict_ask_tokens(j->cli, "prompt-tokens", v->prompt, f->tokens_in,
                                    &ask.prompt_ratio);
    if (!status) {
        status = predict_ask_tokens(j->cli, "output-tokens", v->output, f->tokens_out,
                                    &ask.output_ratio);
    }
    if (!status) status = predict_ask_rates(j->cli, f->rate, &rates);
    for (size_t i = 0; !status && i < rates.count; i++) {
        struct sonde_err err = { "" };
        ask.rate = rates.rate[i];
        const int rc = sonde_predict_run(j->model, &ask, &j->answers[i], &err);
        if (rc == SONDE_EINVAL) return sonde_cli_usage(j->cli, "%s", err.text);
        if (rc) return sonde_cli_fail(j->cli, "%s", err.text);
        j->answer_count++;
    }
    return status;
}

/* The recording whose requests are asked about. */
static int predict_job_load(struct predict_job *j)
{
    const struct predict_values *v = j->cli->values;
    const struct sonde_predict_choice any = { .model = v->model };
    struct sonde_predict_recording r;
    struct sonde_profile *p;
    struct sonde_err err = { "" };
    if (v->rate || v->prompt || v->output || v->arrivals || v->requests || v->check) {
        return sonde_cli_usage(j->cli, "--load has rates, lengths and arrivals of its own: leave "
                               "out --rate, --prompt-tokens, --output-tokens, --arrivals, "
                               "--requests and --check");
    }
    const int status = sonde_cli_profile(j->cli, v->load, v->duration_s, NULL, &p);
    if (status) return status;
    int rc = sonde_predict_observe(p, &any, &r, &err);
    if (!rc) {
        rc = sonde_predict_fit(&r.observed, &j->load, &err);
        sonde_predict_recording_release(&r);
    }
    sonde_profile_destroy(p);
    if (!rc) return SONDE_EXIT_OK;
    return rc == SONDE_ENOMEM ? sonde_cli_fail(j->cli, "%s", err.text)
                              : sonde_cli_usage(j->cli, "%s: %s", v->load, err.text);
}

/* Compare, keep, and write it back if anything is new. What was asked about one load only, or
 * about another machine, cannot be checked by a later recording here, so it is not kept. */
static int predict_job_history(struct predict_job *j, uint32_t *checked)
{
    struct sonde_err err = { "" };
    uint32_t kept = 0;
    const struct predict_values *v = j->cli->values;
    const struct sonde_prediction m = predict_kept_measured(&j->recording, j->model);
    int status = predict_history_path(j->cli, j->history_path);
    if (status) return status;
    int rc = sonde_predictions_load(j->history_path, &j->history, &err);
    if (rc == SONDE_EFORMAT) return sonde_cli_usage(j->cli, "%s", err.text);
    if (rc) return sonde_cli_fail(j->cli, "%s", err.text);
    rc = sonde_predictions_check(&j->history, &m, (double)time(NULL), checked);
    for (size_t i = 0; !rc && i < j->answer_count; i++) {
        if (j->load || v->speed > 0 || sonde_predict_refused(&j->answers[i])) continue;
        rc = predict_keep(&j->history, &j->recording, &j->answers[i]);
        kept++;
    }
    if (rc) return sonde_cli_fail(j->cli, "out of memory");
    if (!kept && !*checked) return SONDE_EXIT_OK;
    sonde_cli_make_folders(j->history_path);
    return sonde_predictions_save(&j->history, j->history_path, &err)
               ? sonde_cli_fail(j->cli, "%s", err.text) : SONDE_EXIT_OK;
}

static int predict_job_print(const struct predict_job *j)
{
    const struct predict_values *v = j->cli->values;
    const struct sonde_predict_report r = {
        .source = j->source, .recording = &j->recording, .model = j->model,
        .answers = j->answers, .answer_count = j->answer_count,
        .load = j->load, .load_source = v->load,
        .history = v->no_keep ? NULL : &j->history,
        .width = v->width ? (uint32_t)v->width : (uint32_t)sonde_cli_width(),
        .ascii = sonde_text_locale_ascii(),
    };
    struct sonde_buf out;
    sonde_buf_init(&out, ANSWER_MAX);
    if (v->format && !strcmp(v->format, "json")) sonde_predict_json(&r, &out);
    else sonde_predict_text(&r, &out);
    const int status = out.error ? sonde_cli_fail(j->cli, "out of memory")
                                 : sonde_cli_write(j->cli, NULL, &out);
    sonde_buf_release(&out);
    return status;
}

/* 1 if the recording stands in the history as one that checked a prediction. */
static int predict_job_has_check(const struct predict_job *j)
{
    for (uint32_t i = 0; i < j->history.count; i++) {
        const struct sonde_prediction *p = &j->history.list[i];
        if (p->checked_s > 0 && p->checked_recorded_s == j->recording.start_s) return 1;
    }
    return 0;
}

static int predict_job_run(struct predict_job *j, const struct sonde_profile *p)
{
    const struct predict_values *v = j->cli->values;
    uint32_t checked = 0;
    size_t refused = 0;
    int status = predict_job_fit(j, p);
    if (!status && v->load) status = predict_job_load(j);
    if (!status && !v->check) status = predict_job_ask(j);
    if (!status && !v->no_keep) status = predict_job_history(j, &checked);
    if (!status && v->check && !predict_job_has_check(j)) {
        return sonde_cli_fail(j->cli, "%s: nothing to check: '%s' has no prediction of this model "
                              "on this host for about %.3g requests per second with such prompts, "
                              "answers and slots", j->source, j->history_path,
                              sonde_predict_facts(j->model)->rate);
    }
    if (!status) status = predict_job_print(j);
    for (size_t i = 0; i < j->answer_count; i++) {
        refused += (size_t)sonde_predict_refused(&j->answers[i]);
    }
    if (status || !refused || refused < j->answer_count) return status;
    return sonde_cli_fail(j->cli, "not predicted: %s", j->answers[0].why);
}

static int cmd_predict_run(struct sonde_cli *cli)
{
    const struct predict_values *v = cli->values;
    struct sonde_profile *p;
    if (!cli->operand_count) {
        return sonde_cli_usage(cli, "name a FILE that `sonde record` wrote, or the URL of an "
                               "agent");
    }
    if (v->check && v->no_keep) {
        return sonde_cli_usage(cli, "--check compares with what was kept: leave out --no-keep");
    }
    const struct sonde_cli_filter filter = { .from = v->from, .to = v->to };
    const int status = sonde_cli_profile(cli, cli->operands[0], v->duration_s,
                                         v->from || v->to ? &filter : NULL, &p);
    if (status) return status;
    struct predict_job *j = sonde__calloc(1, sizeof(*j));
    int rc = j ? 0 : sonde_cli_fail(cli, "out of memory");
    if (j) {
        j->cli = cli;
        j->source = cli->operands[0];
        rc = predict_job_run(j, p);
        sonde_predict_destroy(j->model);
        sonde_predict_destroy(j->load);
        sonde_predict_recording_release(&j->recording);
        sonde_predictions_release(&j->history);
    }
    sonde__free(j);
    sonde_profile_destroy(p);
    return rc;
}

const struct sonde_command sonde_cmd_predict = {
    .name = "predict",
    .summary = "predict an engine's latencies and saturation at other rates and slots",
    .usage = "[options] FILE | URL",
    .details =
        "FILE is a run of an inference engine that `sonde record` wrote under load; URL is an "
        "agent, which observes for a while. What a forward pass costs on this host, by tokens of "
        "prompts, sequences that decode and context, is fitted; the scheduler (slots, tokens in a "
        "pass, prompts in chunks, first come first served) is simulated; times to first token, "
        "between tokens and in all, throughput and the knee, where the queue begins to grow "
        "without bound, come with the interval that a run as long as the recording would show 19 "
        "times of 20.\n"
        "\n"
        "It does not answer at or beyond the knee, nor far outside of what was seen, and says "
        "which quantity that is and what to record. REPLAYED is the recording's own arrivals "
        "through the model, beside what was MEASURED.\n"
        "\n"
        "Predictions are kept. A later recording of the same model on the same host, at a rate "
        "that was predicted, is compared with them, and how far off they were is shown from then "
        "on. Exit status 1: nothing could be predicted.\n"
        "\n"
        "examples:\n"
        "  sonde record -o low.run -p $(pidof llama-server)\n"
        "  sonde predict low.run --rate 2x\n"
        "  sonde predict low.run --rate 3/s,4/s,5/s --slots 8\n"
        "  sonde predict low.run --prompt-tokens 2x --output-tokens 200\n"
        "  sonde predict low.run --rate 2x --speed 1.5\n"
        "  sonde predict low.run --load yesterday.run --slots 8\n"
        "  sonde predict --check later.run",
    .options = options,
    .values_size = sizeof(struct predict_values),
    .operands_max = 1,
    .run = cmd_predict_run,
};
