/* cmd_correlate.c - `sonde correlate`: which series move with throughput, or with any other. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analyze/correlate_tracks.h"
#include "base/array.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "present/report/correlate.h"
#include "present/text.h"
#include "serve/api/correlate.h"
#include "sonde/sonde.h"

enum { OUTPUT_MAX = 64 << 20 };
#define UNIX_TIME_MIN 1e9

struct correlate_values {
    const char *target, *with, *from, *to, *format, *output;
    double lag_s;
    uint64_t limit;
    int json, all;
};

#define AT(field) .offset = offsetof(struct correlate_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "target", .letter = 't', .type = SONDE_OPT_STR, .value = "GLOB", AT(target),
      .help = "series to explain (default: tokens, requests or items per second)" },
    { .name = "with", .letter = 'w', .type = SONDE_OPT_STR, .value = "GLOB", AT(with),
      .help = "series to compare it with (default: CPU, memory, disk, network, queues, ...)" },
    { .name = "from", .type = SONDE_OPT_STR, .value = "SECONDS", AT(from),
      .help = "only from here on: seconds since the start, -SECONDS ago, or unix time" },
    { .name = "to", .type = SONDE_OPT_STR, .value = "SECONDS", AT(to),
      .help = "only up to here, alike" },
    { .name = "lag", .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.001, .max = 86400,
      AT(lag_s), .help = "maximum lag either way (default: ten steps)" },
    { .name = "limit", .letter = 'n', .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1000,
      AT(limit), .help = "pairs listed, the strongest (default 50)" },
    { .name = "all", .letter = 'a', .type = SONDE_OPT_FLAG, AT(all),
      .help = "list also pairs of which nothing is shown or known" },
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT",
      .choices = "text|json", AT(format), .help = "text, or JSON for programs (default text)" },
    { .name = "json", .type = SONDE_OPT_FLAG, AT(json), .help = "the same as --format json" },
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE", AT(output),
      .help = "write to FILE (default: standard output)" },
    { .name = NULL },
};
#undef AT

static struct sonde_correlate_style correlate_style_of(const struct correlate_values *v)
{
    return (struct sonde_correlate_style){
        .json = v->json || (v->format && !strcmp(v->format, "json")), .all = v->all,
        .width = v->output ? 0 : sonde_cli_width(), .ascii = sonde_text_locale_ascii(),
    };
}

static int correlate_failed(const struct sonde_cli *cli, int rc, const struct sonde_err *err)
{
    const int theirs = rc == SONDE_ENOENT || rc == SONDE_EINVAL;
    if (theirs) return sonde_cli_usage(cli, "%s: %s", cli->operands[0], err->text);
    return sonde_cli_fail(cli, "%s: %s", cli->operands[0], err->text);
}

/* ---- A recording ----------------------------------------------------------------------------- */

static int correlate_file(struct sonde_cli *cli, struct sonde_correlate_query *q,
                          struct sonde_buf *out)
{
    const struct correlate_values *v = cli->values;
    const struct sonde_cli_filter when = { .from = v->from, .to = v->to };
    const struct sonde_correlate_style style = correlate_style_of(v);
    struct sonde_profile *p;
    struct sonde_profile_filter f = { .kind = -1 };
    struct sonde_correlate_answer a;
    struct sonde_err err = { "" };
    int status = sonde_cli_profile(cli, cli->operands[0], 0, NULL, &p);
    if (status) return status;
    status = sonde_cli_filter(cli, &when, p, &f);
    q->from_s = (double)f.from_ns * 1e-9;
    q->to_s = (double)f.to_ns * 1e-9;
    if (!status && !p->tracks) {
        status = sonde_cli_usage(cli, "%s has no series over time: runs that `sonde record` writes "
                                      "have them, profiles of other tools do not",
                                 cli->operands[0]);
    }
    if (!status) {
        const int rc = sonde_correlate_tracks(p->tracks, q, &a, &err);
        if (rc) {
            status = correlate_failed(cli, rc, &err);
        } else {
            sonde_correlate_write(&a, &style, out);
            sonde_correlate_answer_release(&a);
        }
    }
    sonde_profile_destroy(p);
    return status;
}

/* ---- A store, an agent ----------------------------------------------------------------------- */

/* Unix time; of what is negative, so long before end_s. */
static int correlate_moment(const struct sonde_cli *cli, const char *option, const char *text,
                            double end_s, double *out)
{
    double v;
    if (!text) return SONDE_EXIT_OK;
    if (sonde_cli_number(text, &v) || (v >= 0 && v < UNIX_TIME_MIN) || !(v > -1e10 && v < 1e10)) {
        return sonde_cli_usage(cli, "--%s: of a store or an agent say -SECONDS ago, or unix time, "
                                    "not '%s'", option, text);
    }
    *out = v < 0 ? end_s + v : v;
    return SONDE_EXIT_OK;
}

static int correlate_range(const struct sonde_cli *cli, double end_s,
                           struct sonde_correlate_query *q)
{
    const struct correlate_values *v = cli->values;
    q->to_s = end_s;
    int status = correlate_moment(cli, "to", v->to, end_s, &q->to_s);
    q->from_s = q->to_s - SONDE_API_CORRELATE_S;
    if (!status) status = correlate_moment(cli, "from", v->from, end_s, &q->from_s);
    if (!status && !(q->from_s < q->to_s)) {
        status = sonde_cli_usage(cli, "--from is not before --to");
    }
    return status;
}

static void correlate_run_end(const struct sonde_store_run *r, void *arg)
{
    double *end_s = arg;
    if (r->end_s > *end_s) *end_s = r->end_s;
}

static int correlate_store(struct sonde_cli *cli, struct sonde_correlate_query *q,
                           struct sonde_buf *out)
{
    const struct sonde_store_ops *ops = &sonde_store_sqlite;
    const struct sonde_store_options o = { .path = cli->operands[0], .read_only = 1 };
    const struct sonde_correlate_style style = correlate_style_of(cli->values);
    struct sonde_store *store;
    struct sonde_err err = { "" };
    double end_s = 0;
    if (ops->open(&o, &store, &err) != 0) return sonde_cli_fail(cli, "%s", err.text);
    int rc = ops->runs(store, correlate_run_end, &end_s, &err), status = SONDE_EXIT_OK;
    if (!rc) status = correlate_range(cli, end_s, q);
    if (!rc && !status) rc = sonde_api_correlate(ops, store, q, &style, out, &err);
    ops->close(store);
    return rc ? correlate_failed(cli, rc, &err) : status;
}

static int correlate_agent(struct sonde_cli *cli, struct sonde_correlate_query *q,
                           struct sonde_buf *out)
{
    const struct correlate_values *v = cli->values;
    char url[8192];
    struct sonde_err err = { "" };
    int status = correlate_range(cli, sonde_clock_s(CLOCK_REALTIME), q);
    if (status) return status;
    struct sonde_buf route;
    sonde_buf_init(&route, sizeof(url) / 2);
    sonde_buf_printf(&route, "/api/correlations?from=%.3f&to=%.3f&format=%s", q->from_s, q->to_s,
                     correlate_style_of(v).json ? "json" : "text");
    const struct { const char *name, *value; } texts[] = { { "target", v->target },
                                                            { "with", v->with } };
    for (size_t i = 0; i < SONDE_COUNT(texts); i++) {
        if (!texts[i].value) continue;
        sonde_buf_printf(&route, "&%s=", texts[i].name);
        sonde_buf_url(&route, texts[i].value);
    }
    if (v->lag_s > 0) sonde_buf_printf(&route, "&lag=%.6g", v->lag_s);
    if (v->limit) sonde_buf_printf(&route, "&limit=%llu", (unsigned long long)v->limit);
    if (v->all) sonde_buf_puts(&route, "&all=1");
    if (route.error || sonde_cli_url(url, sizeof(url), cli->operands[0], route.data) != 0) {
        status = sonde_cli_usage(cli, "too long a URL");
    } else {
        sonde_buf_release(out);
        const int rc = sonde_cli_fetch(url, OUTPUT_MAX, SONDE_CLI_FETCH_S, out, &err);
        if (rc) status = sonde_cli_fail(cli, "%s", err.text);
    }
    sonde_buf_release(&route);
    return status;
}

static int correlate_run(struct sonde_cli *cli)
{
    const struct correlate_values *v = cli->values;
    struct sonde_correlate_query q = { .target = v->target, .with = v->with, .lag_s = v->lag_s,
                                       .limit = (size_t)v->limit };
    struct sonde_buf out;
    if (!cli->operand_count) {
        return sonde_cli_usage(cli, "say of what: sonde correlate FILE, STORE or URL");
    }
    if (v->json && v->format) return sonde_cli_usage(cli, "--json or --format: one of them");
    const char *of = cli->operands[0];
    sonde_buf_init(&out, OUTPUT_MAX);
    int status = sonde_cli_is_url(of)         ? correlate_agent(cli, &q, &out)
                 : sonde_store_is_file(of)    ? correlate_store(cli, &q, &out)
                                              : correlate_file(cli, &q, &out);
    if (!status && out.error) status = sonde_cli_fail(cli, "the answer is too long");
    if (!status) status = sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    return status;
}

const struct sonde_command sonde_cmd_correlate = {
    .name = "correlate",
    .summary = "say which series move with throughput: CPU, memory, queues, batches, with the lag",
    .usage = "[options] FILE | STORE | URL",
    .details =
        "FILE is a run that `sonde record` wrote: all of it, or --from and --to. STORE is what "
        "`sonde serve --store` keeps, URL an agent: the last 500 seconds, or --from and --to.\n"
        "\n"
        "The target is what counts tokens, requests or items, per second. --target names others: "
        "of a GLOB on names the counters of each program are added up; with labels in braces, "
        "'shop_requests_total{*route=\"search\"*}', each series is a target.\n"
        "\n"
        "Series that drift correlate with all others that do, and neighbouring values are alike. "
        "So what decides is whether that part of each series which its own past does not predict "
        "comes with that of the other, at any lag; p-values allow for all lags and pairs. "
        "\"levels only\" is where levels go together and that part does not, as for all series "
        "that drift or share a few large values: no evidence that one depends on the other. "
        "Correlation does not say which is the cause; the lag says which comes first.\n"
        "\n"
        "examples:\n"
        "  sonde correlate server.run\n"
        "  sonde correlate --target sonde_infer_tokens_total http://127.0.0.1:6060\n"
        "  sonde correlate --from -3600 --with 'sonde_process_*|*queue*' history.store",
    .options = options,
    .values_size = sizeof(struct correlate_values),
    .operands_max = 1,
    .run = correlate_run,
};
