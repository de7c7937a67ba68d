/* cmd_view.c - `sonde view FILE…`: profiles of files in the dashboard, which the agent cuts to what
 * a page can show, so that their size does not matter. */
#include <ctype.h>
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "infer/tracker.h"
#include "base/alloc.h"
#include "base/visible.h"
#include "cli/agent_options.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "present/report/requests.h"
#include "profile/infer.h"
#include "serve/http/server.h"
#include "sonde/sonde.h"

enum { FILES_MAX = 16, NAME_BYTES = 65, PORT_TRIES = 100 };

static const struct sonde_cli_opt options[] = {
    SONDE_OPT_LISTEN,
    SONDE_OPT_STRIP,
    { .name = NULL },
};

struct viewing {
    struct sonde_server_file files[FILES_MAX];
    char names[FILES_MAX][NAME_BYTES];
    size_t count;
    struct sonde_agent *agent;
    struct sonde_server *server;
};

/* ---- Files ----------------------------------------------------------------------------------- */

static int cmd_view_is_taken(const struct viewing *v, const char *name)
{
    for (size_t i = 0; i < v->count; i++) {
        if (!strcmp(v->files[i].name, name)) return 1;
    }
    return 0;
}

/* The file's own, as far as it may be part of an address; those that look alike are numbered. */
static void choose_name(const struct viewing *v, const char *path, char out[NAME_BYTES])
{
    const char *from = sonde_path_base(path);
    char base[NAME_BYTES - 4];
    size_t len = 0;
    if (!strcmp(path, "-")) from = "stdin";
    for (; *from && len + 1 < sizeof(base); from++) {
        const unsigned char c = (unsigned char)*from;
        base[len++] = isalnum(c) || c == '.' || c == '_' || c == '-' ? (char)c : '-';
    }
    base[len] = '\0';
    snprintf(out, NAME_BYTES, "%s", base);
    for (unsigned n = 2; cmd_view_is_taken(v, out); n++) {
        snprintf(out, NAME_BYTES, "%s-%u", base, n);
    }
}

static int cmd_view_load(struct sonde_cli *cli, struct viewing *v)
{
    for (int i = 0; i < cli->operand_count; i++) {
        struct sonde_profile *p;
        const int status = sonde_cli_profile(cli, cli->operands[i], 0, NULL, &p);
        if (status) return status;
        choose_name(v, cli->operands[i], v->names[v->count]);
        v->files[v->count] = (struct sonde_server_file){ v->names[v->count], p };
        v->count++;
    }
    return SONDE_EXIT_OK;
}

/* ---- Serving --------------------------------------------------------------------------------- */

static size_t request_count(const struct viewing *v)
{
    size_t count = 0;
    for (size_t i = 0; i < v->count; i++) {
        const struct sonde_infer_run *run = v->files[i].profile->infer;
        count += run ? run->request_count : 0;
    }
    return count;
}

/* Requests of the files are those of the model: lists and heat maps show them. */
static int cmd_view_adopt(const struct viewing *v)
{
    struct sonde_model *m = sonde_collector_model(v->agent->collector);
    struct sonde_infer_tracker *tracker = sonde_collector_tracker(v->agent->collector);
    int rc = 0;
    sonde_wrlock(&m->lock);
    for (size_t i = 0; !rc && i < v->count; i++) {
        const struct sonde_infer_run *run = v->files[i].profile->infer;
        for (size_t k = 0; run && !rc && k < run->request_count; k++) {
            rc = sonde_infer_adopt(tracker, &run->requests[k]);
        }
    }
    sonde_rwunlock(&m->lock);
    return rc;
}

/* An agent that is never started: it reads nothing. */
static int cmd_view_start(struct sonde_cli *cli, struct viewing *v, struct sonde_err *err)
{
    struct sonde_config_values defaults;
    char token[SONDE_TOKEN_MAX + 1];
    const size_t count = request_count(v);
    struct sonde_cli_agent a;
    const int status = sonde_cli_agent_options(cli, &(struct sonde_cli_agent_wants){ 0 }, &a);
    assert(status == SONDE_EXIT_OK); /* nothing is wanted that settings could be wrong about */
    (void)status;
    a.options.asked = 1;
    a.options.infer = (struct sonde_infer_options){
        .done_max = count < SONDE_REQUESTS_MAX ? count + 1 : SONDE_REQUESTS_MAX };
    a.options.collector.agent = a.options.collector.host = a.options.collector.processes = 0;
    a.options.collector.gpu.enabled = 0;
    sonde_config_defaults(&defaults);
    const int chosen = sonde_cli_was_set(cli, "server.listen") ||
                       strcmp(cli->config.server_listen, defaults.server_listen) != 0;
    struct sonde_server_options o = { .listen = cli->config.server_listen,
                                      .port_tries = chosen ? 0 : PORT_TRIES,
                                      .files = v->files, .file_count = v->count };
    int rc = sonde_agent_open(&a.options, &v->agent, err);
    sonde_cli_agent_release(&a);
    if (!rc && cmd_view_adopt(v) != 0) rc = sonde_err_set(err, SONDE_ENOMEM, "out of memory");
    if (!rc) rc = sonde_cli_server_options(cli, &o, token, err);
    o.agent = v->agent;
    return rc ? rc : sonde_server_start(&o, &v->server, err);
}

/* ---- Addresses ------------------------------------------------------------------------------- */

/* "&type=live" if the first samples there are are not of the CPU. */
static const char *cmd_view_type_of(const struct sonde_profile *p, char *out, size_t size)
{
    out[0] = '\0';
    for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT; k++) {
        if (!p->weights[k]) continue;
        if (k != SONDE_SAMPLE_CPU) {
            snprintf(out, size, "&type=%s", sonde_sample_kind_name((enum sonde_sample_kind)k));
        }
        break;
    }
    return out;
}

static void cmd_view_announce(const struct sonde_cli *cli, const struct viewing *v)
{
    const char *url = sonde_server_url(v->server);
    const size_t last = v->count - 1;
    char type[32];
    cmd_view_type_of(v->files[last].profile, type, sizeof(type));
    printf("%s/profiling/cpu?profile=%s", url, v->files[last].name);
    if (v->count > 1) printf("&base=%s", v->files[0].name);
    printf("%s\n", type);
    double from_s = 0, to_s = 0;
    for (size_t i = 0; i < v->count; i++) {
        const struct sonde_infer_run *run = v->files[i].profile->infer;
        for (size_t k = 0; run && k < run->request_count; k++) {
            const double at_s = (double)run->requests[k].arrived_ns * 1e-9;
            if (from_s == 0 || at_s < from_s) from_s = at_s;
            if (at_s + run->requests[k].total_s > to_s) to_s = at_s + run->requests[k].total_s;
        }
    }
    if (to_s > 0) printf("%s/profiling/requests?from=%.0f&to=%.0f\n", url, from_s - 0.5, to_s + 1);
    fflush(stdout);
    if (!cli->quiet) sonde_visible_printf(STDERR_FILENO, "sonde: Ctrl-C ends it\n");
}

static int cmd_view_run(struct sonde_cli *cli)
{
    struct viewing v = { .count = 0 };
    struct sonde_err err = { "" };
    sigset_t set;
    if (cli->operand_count == 0) {
        return sonde_cli_usage(cli, "say what to view: sonde view FILE...");
    }
    if (cli->operand_count > FILES_MAX) {
        return sonde_cli_usage(cli, "more than %d files", FILES_MAX);
    }
    int status = cmd_view_load(cli, &v);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL); /* until then Ctrl-C ends the reading of a large file */
    if (!status) {
        const int rc = cmd_view_start(cli, &v, &err);
        if (rc == SONDE_EINVAL) status = sonde_cli_usage(cli, "%s", err.text);
        else if (rc) status = sonde_cli_fail(cli, "%s", err.text);
    }
    if (!status) {
        int which;
        cmd_view_announce(cli, &v);
        sigwait(&set, &which);
    }
    sonde_server_stop(v.server);
    sonde_agent_close(v.agent);
    for (size_t i = 0; i < v.count; i++) sonde_profile_destroy(v.files[i].profile);
    return status;
}

const struct sonde_command sonde_cmd_view = {
    .name = "view",
    .summary = "show profiles of files in a browser, however large they are",
    .usage = "[options] FILE...",
    .details =
        "FILE is anything that `sonde flamegraph` reads: a run file, pprof, folded stacks, `perf "
        "script`, and so on, STORE:NAME, the URL of a profile, or - for the standard input. The "
        "address to open is printed; sonde stays until Ctrl-C, and starts no browser.\n"
        "\n"
        "With several files the last is compared with the first: what takes a larger share of "
        "it is red. The address names both, as profile=NAME and base=NAME: put others there to "
        "compare those.\n"
        "\n"
        "A run with inference requests has them too: the second address leads there, to its heat "
        "map and to the flame graph of each request.\n"
        "\n"
        "The page is sent what it can show, and the rest of a frame when it is zoomed into. So a "
        "profile of hundreds of megabytes opens as a small one does, once it has been read.\n"
        "\n"
        "If port 6060 is taken, the next free one is used. With --listen exactly that one is.\n"
        "\n"
        "examples:\n"
        "  sonde view server.run\n"
        "  sonde view before.pb.gz after.pb.gz\n"
        "  perf script | sonde view -",
    .options = options,
    .operands_max = -1,
    .run = cmd_view_run,
};
