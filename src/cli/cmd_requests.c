/* cmd_requests.c - `sonde requests`: the slowest inference requests with their timelines, or one
 * with all that is known of it. Wherever they come from, they come as the JSON of /api/requests. */
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "present/report/requests.h"
#include "present/text.h"
#include "serve/api/api.h"
#include "sonde/sonde.h"
#include "store/run/run.h"

#define ANSWER_MAX ((size_t)512 << 20)
#define DURATION_DEFAULT_S 10
enum { LIMIT_DEFAULT = 20 };

struct requests_values {
    const char *sort, *state, *model, *route, *outcome, *source;
    double min_ms, duration_s;
    uint64_t limit, width;
    int json;
};

#define AT(field) .offset = offsetof(struct requests_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "sort", .letter = 's', .type = SONDE_OPT_STR, .value = "BY",
      .choices = SONDE_REQUESTS_SORT_NAMES, AT(sort),
      .help = "which come first (default slowest)" },
    { .name = "limit", .letter = 'n', .type = SONDE_OPT_UINT, .value = "N", .min = 1,
      .max = SONDE_REQUESTS_TEXT_MAX, AT(limit), .help = "how many at most (default 20)" },
    { .name = "state", .type = SONDE_OPT_STR, .value = "STATE", .choices = "running|done",
      AT(state), .help = "only those that still run, or that ended" },
    { .name = "outcome", .type = SONDE_OPT_STR, .value = "OUTCOME",
      .choices = "ok|error|cancelled|timeout|lost", AT(outcome),
      .help = "only those that ended so" },
    { .name = "model", .letter = 'm', .type = SONDE_OPT_STR, .value = "GLOB", AT(model),
      .help = "only of such a model" },
    { .name = "route", .letter = 'r', .type = SONDE_OPT_STR, .value = "GLOB", AT(route),
      .help = "only of such a route" },
    { .name = "source", .type = SONDE_OPT_STR, .value = "SOURCE", .choices = "api|hook|probe|front",
      AT(source), .help = "only those that were seen this way" },
    { .name = "min-ms", .type = SONDE_OPT_NUM, .value = "MS", .min = 0, .max = 1e9, AT(min_ms),
      .help = "only those that took at least this long" },
    { .name = "duration", .letter = 'd', .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.1,
      .max = 86400, AT(duration_s), .help = "with a PID: how long to watch (default 10)" },
    { .name = "width", .letter = 'w', .type = SONDE_OPT_UINT, .value = "COLUMNS", .min = 40,
      .max = SONDE_GRID_MAX, AT(width), .help = "columns of the list (default the terminal's)" },
    { .name = "json", .type = SONDE_OPT_FLAG, AT(json),
      .help = "write JSON, as /api/requests does" },
    SONDE_OPT_DIR,
    { .name = NULL },
};
#undef AT

/* What is asked for. */
struct cmd_requests_asked {
    const char *target;     /* a file, a URL or a process id */
    const char *id;         /* NULL = a list */
    struct sonde_requests_query query;
    char agent[512];        /* URL of the agent that is asked when no target was named */
};

static struct sonde_requests_query cmd_requests_query_of(const struct requests_values *v)
{
    return (struct sonde_requests_query){
        .sort = v->sort ? (enum sonde_requests_sort)sonde_requests_sort_find(v->sort)
                        : SONDE_REQUESTS_SLOWEST,
        .state = !v->state                       ? SONDE_REQUESTS_ALL
                 : strcmp(v->state, "done") == 0 ? SONDE_REQUESTS_DONE : SONDE_REQUESTS_RUNNING,
        .limit = v->limit ? (size_t)v->limit : LIMIT_DEFAULT,
        .model = v->model,
        .route = v->route,
        .outcome = v->outcome ? sonde_infer_outcome_find(v->outcome) : -1,
        .source = v->source ? sonde_infer_source_find(v->source) : -1,
        .min_s = v->min_ms * 1e-3,
    };
}

/* ---- An agent -------------------------------------------------------------------------------- */

static void cmd_requests_add_parameter(struct sonde_buf *b, const char *name, const char *value)
{
    char *escaped = value ? curl_easy_escape(NULL, value, 0) : NULL;
    if (value && !escaped) b->error = SONDE_ENOMEM;
    if (escaped) {
        sonde_buf_printf(b, "%s%s=%s", b->data && strchr(b->data, '?') ? "&" : "?", name, escaped);
    }
    curl_free(escaped);
}

static void cmd_requests_path_of(const struct sonde_cli *cli, const struct cmd_requests_asked *a,
                                 struct sonde_buf *b)
{
    const struct requests_values *v = cli->values;
    char number[32];
    sonde_buf_puts(b, "/api/requests");
    if (a->id) {
        char *escaped = curl_easy_escape(NULL, a->id, 0);
        sonde_buf_printf(b, "/%s", escaped ? escaped : "");
        curl_free(escaped);
        return;
    }
    snprintf(number, sizeof(number), "%zu", a->query.limit);
    cmd_requests_add_parameter(b, "limit", number);
    cmd_requests_add_parameter(b, "sort", v->sort);
    cmd_requests_add_parameter(b, "state", v->state);
    cmd_requests_add_parameter(b, "outcome", v->outcome);
    cmd_requests_add_parameter(b, "model", v->model);
    cmd_requests_add_parameter(b, "route", v->route);
    cmd_requests_add_parameter(b, "source", v->source);
    snprintf(number, sizeof(number), "%.9g", v->min_ms);
    if (v->min_ms > 0) cmd_requests_add_parameter(b, "min_ms", number);
}

static int cmd_requests_ask_agent(const struct sonde_cli *cli, const struct cmd_requests_asked *a,
                                  struct sonde_buf *out)
{
    char url[8192];
    struct sonde_err err = { "" };
    struct sonde_buf path;
    sonde_buf_init(&path, sizeof(url));
    cmd_requests_path_of(cli, a, &path);
    const int fits = !path.error && sonde_cli_url(url, sizeof(url), a->target, path.data) == 0;
    sonde_buf_release(&path);
    if (!fits) return sonde_cli_usage(cli, "too long a URL");
    sonde_buf_release(out);
    if (sonde_cli_fetch(url, ANSWER_MAX, SONDE_CLI_FETCH_S, out, &err) == 0) return SONDE_EXIT_OK;
    if (a->target != a->agent) return sonde_cli_fail(cli, "%s", err.text);
    if (a->id) {
        return sonde_cli_fail(cli, "there is no file '%s', so the agent was asked for a request of "
                              "that id: %s", a->id, err.text);
    }
    return sonde_cli_fail(cli, "%s; or name a FILE, URL or PID", err.text);
}

/* ---- A run file ------------------------------------------------------------------------------ */

static int put_selected(const struct cmd_requests_asked *a, const struct sonde_infer_request **list,
                        size_t count, struct sonde_buf *out)
{
    if (a->id) {
        /* The newest, if ids repeat. */
        size_t i = count;
        while (i > 0 && !sonde_request_is(list[i - 1], a->id)) i--;
        if (!i) return SONDE_ENOENT;
        sonde_request_json(out, list[i - 1]);
        sonde_buf_putc(out, '\n');
        return out->error;
    }
    size_t total = 0;
    const size_t n = sonde_requests_select(&a->query, list, count, &total);
    sonde_buf_putc(out, '{');
    sonde_json_u64(out, "total", total);
    sonde_json_key_open(out, "requests", '[');
    for (size_t i = 0; i < n; i++) sonde_request_json(out, list[i]);
    sonde_buf_puts(out, "]}\n");
    return out->error;
}

static int ask_profile(const struct sonde_profile *p, const struct cmd_requests_asked *a,
                       struct sonde_buf *out)
{
    const size_t count = p->infer ? p->infer->request_count : 0;
    const struct sonde_infer_request **list = sonde__calloc(count + 1, sizeof(*list));
    if (!list) return SONDE_ENOMEM;
    for (size_t i = 0; i < count; i++) list[i] = &p->infer->requests[i];
    const int rc = put_selected(a, list, count, out);
    sonde__free(list);
    return rc;
}

static int ask_file(const struct sonde_cli *cli, const struct cmd_requests_asked *a,
                    struct sonde_buf *out)
{
    struct sonde_err err = { "" };
    struct sonde_profile *p;
    int rc = sonde_run_load(a->target, &p, &err);
    if (rc) {
        sonde_cli_fail(cli, "%s", err.text);
        return rc == SONDE_ENOMEM || rc == SONDE_EIO ? SONDE_EXIT_FAIL : SONDE_EXIT_USAGE;
    }
    const int any = p->infer && p->infer->request_count;
    rc = ask_profile(p, a, out);
    sonde_profile_destroy(p);
    if (rc == SONDE_ENOENT) {
        return sonde_cli_fail(cli, "there is no request '%s' in '%s'", a->id, a->target);
    }
    if (rc) return sonde_cli_fail(cli, "out of memory");
    if (!any && !cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde requests: '%s' has no inference requests: its "
                             "program told of none (sonde/inference.h, or llama.cpp under `sonde "
                             "record`)\n", a->target);
    }
    return SONDE_EXIT_OK;
}

/* ---- A process ------------------------------------------------------------------------------- */

/* Returns when the time is over, or the user has had enough. */
static void wait_for(double seconds)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    struct timespec t = { .tv_sec = (time_t)seconds };
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    sigtimedwait(&set, NULL, &t);
}

static int ask_process(const struct sonde_cli *cli, uint32_t pid,
                       const struct cmd_requests_asked *a, struct sonde_buf *out)
{
    const struct requests_values *v = cli->values;
    struct sonde_agent *agent;
    struct sonde_err err = { "" };
    const double seconds = v->duration_s > 0 ? v->duration_s : DURATION_DEFAULT_S;
    /* Before there is a thread, so that none gets the signals. */
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    if (sonde_cli_reader_open(cli, pid, 0, &agent, &err) != 0) {
        return sonde_cli_fail(cli, "%s", err.text);
    }
    struct sonde_collector *c = agent->collector;
    sonde_collector_step(c);
    struct sonde_model *m = sonde_collector_model(c);
    struct sonde_infer_tracker *tracker = sonde_collector_tracker(c);
    int status = SONDE_EXIT_OK;
    if (!m->process_count) {
        status = sonde_cli_fail(cli, "process %u tells of nothing: it does not use libsonde and "
                                "was not started with `sonde run` (`sonde ls` lists those that do)",
                                pid);
    } else if (sonde_collector_start(c, &err) != 0) {
        status = sonde_cli_fail(cli, "%s", err.text);
    } else {
        if (!cli->quiet && isatty(STDERR_FILENO)) {
            sonde_visible_printf(STDERR_FILENO,
                                 "sonde: watching process %u for %g s; Ctrl-C ends it\n", pid,
                                 seconds);
        }
        wait_for(seconds);
        sonde_collector_stop(c);
        sonde_collector_step(c);
        sonde_wrlock(&m->lock);
        sonde_infer_flush(tracker);
        if (!a->id) sonde_api_requests(m, tracker, &a->query, out);
        else if (!sonde_api_request(m, tracker, a->id, out) && !out->error) {
            status = sonde_cli_fail(cli, "there is no request '%s' of process %u", a->id, pid);
        }
        sonde_rwunlock(&m->lock);
    }
    sonde_agent_close(agent);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* ---- Showing --------------------------------------------------------------------------------- */

static int cmd_requests_show(const struct sonde_cli *cli, const struct cmd_requests_asked *a,
                             const struct sonde_buf *json)
{
    const struct requests_values *v = cli->values;
    const struct sonde_requests_style style = {
        .width = v->width ? (int)v->width : sonde_cli_width(),
        .ascii = sonde_text_locale_ascii(),
        .colour = sonde_cli_colour(STDOUT_FILENO),
    };
    struct sonde_requests r;
    struct sonde_err err = { "" };
    if (sonde_requests_read(json->data ? json->data : "", json->len, &r, &err) != 0) {
        return sonde_cli_fail(cli, "%s: %s", a->target, err.text);
    }
    struct sonde_buf out;
    sonde_buf_init(&out, ANSWER_MAX);
    const struct sonde_infer_request **list = sonde__calloc(r.count + 1, sizeof(*list));
    for (size_t i = 0; list && i < r.count; i++) list[i] = &r.list[i];
    int rc = list ? 0 : SONDE_ENOMEM;
    if (!rc && a->id && r.count) rc = sonde_request_text(list[0], &style, &out);
    else if (!rc && r.count) {
        rc = sonde_requests_text(list, r.count, a->query.sort, &style, &out);
    }
    if (!rc && r.total > r.count) {
        sonde_buf_printf(&out, "%zu of %zu; more with --limit\n", r.count, r.total);
    }
    const int status = rc ? sonde_cli_fail(cli, "out of memory") : sonde_cli_write(cli, NULL, &out);
    if (!rc && !r.count && !cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde requests: none\n");
    }
    sonde__free(list);
    sonde_buf_release(&out);
    sonde_requests_release(&r);
    return status;
}

/* FILE, URL or PID, then perhaps ID; or ID alone, which is looked for where an agent is by
 * default. */
static int target_of(struct sonde_cli *cli, struct cmd_requests_asked *a)
{
    const char *first = cli->operand_count ? cli->operands[0] : NULL;
    uint32_t pid;
    a->target = first;
    if (cli->operand_count == 2) a->id = cli->operands[1];
    const int named = first && (sonde_cli_is_url(first) || sonde_cli_parse_pid(first, &pid) == 0 ||
                                access(first, F_OK) == 0 || strchr(first, '/') ||
                                strcmp(first, "-") == 0 || cli->operand_count == 2);
    if (named) return SONDE_EXIT_OK;
    a->id = first;
    a->target = a->agent;
    const int n = snprintf(a->agent, sizeof(a->agent), "http://%s", cli->config.server_listen);
    return n < (int)sizeof(a->agent) ? SONDE_EXIT_OK
                                     : sonde_cli_usage(cli, "server.listen is too long");
}

static int cmd_requests_run(struct sonde_cli *cli)
{
    const struct requests_values *v = cli->values;
    struct cmd_requests_asked a = { .query = cmd_requests_query_of(v) };
    uint32_t pid;
    int status = target_of(cli, &a);
    if (status) return status;
    struct sonde_buf json;
    sonde_buf_init(&json, ANSWER_MAX);
    if (sonde_cli_is_url(a.target)) {
        status = cmd_requests_ask_agent(cli, &a, &json);
    } else if (sonde_cli_parse_pid(a.target, &pid) == 0 && access(a.target, F_OK) != 0) {
        status = ask_process(cli, pid, &a, &json);
    } else {
        status = ask_file(cli, &a, &json);
    }
    if (!status && json.error) status = sonde_cli_fail(cli, "out of memory");
    if (!status) {
        status = v->json ? sonde_cli_write(cli, NULL, &json) : cmd_requests_show(cli, &a, &json);
    }
    sonde_buf_release(&json);
    return status;
}

const struct sonde_command sonde_cmd_requests = {
    .name = "requests",
    .summary = "list the slowest inference requests with their timelines",
    .usage = "[options] [FILE | URL | PID] [ID]",
    .details =
        "FILE is a run that `sonde record` wrote, URL a running agent, PID a process that is "
        "watched now. Without any, the agent at the address of server.listen is asked "
        "(http://127.0.0.1:6060 unless it is set). With an ID, all that is known of that request: "
        "the engine's own id of it, its number, or its trace id, with or without dashes.\n"
        "\n"
        "TOTAL is from arrival to end, TTFT to the first token, ITL the mean time between tokens, "
        "TOK/S what its user saw, TOKENS those of the prompt and of the output. Bars are to one "
        "scale, the longest request. Timelines are kept of requests that were slow or failed, and "
        "of the newest.\n"
        "\n"
        "examples:\n"
        "  sonde requests\n"
        "  sonde requests --sort ttft --model 'llama*' http://127.0.0.1:6060\n"
        "  sonde requests --outcome error server.run\n"
        "  sonde requests server.run job-12",
    .options = options,
    .values_size = sizeof(struct requests_values),
    .operands_max = 2,
    .run = cmd_requests_run,
};
