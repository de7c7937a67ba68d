/* cmd_alerts.c - `sonde alerts`: what fires, whether receivers are reached, muting. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/visible.h"
#include "cli/agent_options.h"
#include "cli/cli.h"
#include "present/table.h"
#include "present/text.h"
#include "present/units.h"
#include "sonde/sonde.h"

#define ALERTS_ANSWER_MAX ((size_t)64 << 20)
#define ALERTS_TEST_S 660.0 /* each receiver has its own time */

struct alerts_values {
    int json, all;
    struct sonde_cli_list labels;
    double seconds;
    const char *weekly, *comment, *severity;
};

#define AT(field) .offset = offsetof(struct alerts_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "json", .type = SONDE_OPT_FLAG, AT(json), .help = "write JSON" },
    { .name = "all", .letter = 'a', .type = SONDE_OPT_FLAG, AT(all),
      .help = "list: resolved ones, receivers, rules and mutes too" },
    { .name = "severity", .type = SONDE_OPT_STR, .value = "LEVEL", .choices =
      "info|warning|critical", AT(severity), .help = "check: only alerts of at least this" },
    { .name = "label", .type = SONDE_OPT_LIST, .value = "NAME=GLOB", AT(labels),
      .help = "mute: alerts with this label; kind and severity are labels too; may be given "
              "several times" },
    { .name = "for", .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 1, .max = 315360000,
      AT(seconds), .help = "mute: for so long (default: until it is unmuted)" },
    { .name = "weekly", .type = SONDE_OPT_STR, .value = "HOURS", AT(weekly),
      .help = "mute: only then, such as 'Mon-Fri 22:00-06:00; Sat,Sun'" },
    { .name = "comment", .type = SONDE_OPT_STR, .value = "TEXT", AT(comment),
      .help = "mute: why" },
    { .name = NULL },
};
#undef AT

/* ---- Asking an agent ------------------------------------------------------------------------- */

/* The URL among the operands, or the setting's, with path. */
static int cmd_alerts_url(const struct sonde_cli *cli, int operand, const char *path, char *out,
                          size_t out_size)
{
    char here[sizeof(cli->config.server_listen) + 16];
    const char *given = cli->operand_count > operand ? cli->operands[operand] : NULL;
    if (given && !sonde_cli_is_url(given)) {
        return sonde_cli_usage(cli, "'%s' is not a URL, which begins with http://", given);
    }
    snprintf(here, sizeof(here), "http://%s", cli->config.server_listen);
    if (sonde_cli_url(out, out_size, given ? given : here, path) != 0) {
        return sonde_cli_usage(cli, "too long a URL");
    }
    return SONDE_EXIT_OK;
}

/* An agent's answer as JSON, which is freed by the caller; NULL = *status says what was told. */
static json_t *cmd_alerts_answer(const struct sonde_cli *cli, int rc, const struct sonde_buf *body,
                                 const char *url, const struct sonde_err *err, int *status)
{
    if (rc) {
        *status = sonde_cli_fail(cli, "%s", err->text);
        return NULL;
    }
    json_t *json = json_loadb(body->data ? body->data : "", body->len, 0, NULL);
    if (json_is_object(json)) return json;
    json_decref(json);
    *status = sonde_cli_fail(cli, "%s: not an agent's answer", url);
    return NULL;
}

/* ---- list and check -------------------------------------------------------------------------- */

static const char *cmd_alerts_text(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static void cmd_alerts_ago(const json_t *v, double now_s, char out[SONDE_VALUE_BYTES])
{
    const double t = json_number_value(v);
    out[0] = '\0';
    if (t > 0) {
        sonde_value_format(out, now_s > t ? now_s - t : 0, SONDE_UNIT_SECONDS,
                           sonde_text_locale_ascii());
    }
}

static void cmd_alerts_rows(const json_t *answer, int all, struct sonde_table *t)
{
    const double now = json_number_value(json_object_get(answer, "time"));
    const json_t *list = json_object_get(answer, "alerts");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *a = json_array_get(list, i);
        char ago[SONDE_VALUE_BYTES];
        const char *state = cmd_alerts_text(a, "state"), *held = cmd_alerts_text(a, "held");
        if (!all && !strcmp(state, "resolved")) continue;
        cmd_alerts_ago(json_object_get(a, "since"), now, ago);
        sonde_table_row(t);
        sonde_table_cell(t, 0, "%s%s%s%s", state, *held ? " (" : "", held, *held ? ")" : "");
        sonde_table_cell(t, 1, "%s", cmd_alerts_text(a, "severity"));
        sonde_table_cell(t, 2, "%s", ago);
        sonde_table_cell(t, 3, "%s", cmd_alerts_text(a, "kind"));
        sonde_table_cell(t, 4, "%s", cmd_alerts_text(a, "summary"));
    }
}

static void cmd_alerts_receivers(const json_t *answer, struct sonde_table *t)
{
    const json_t *list = json_object_get(answer, "receivers");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *r = json_array_get(list, i);
        static const char *const counts[] = { "sent", "queued", "failed", "refused", "dropped" };
        sonde_table_row(t);
        sonde_table_cell(t, 0, "%s", cmd_alerts_text(r, "name"));
        sonde_table_cell(t, 1, "%s", cmd_alerts_text(r, "to"));
        for (size_t k = 0; k < SONDE_COUNT(counts); k++) {
            sonde_table_cell(t, 2 + k, "%lld",
                             (long long)json_integer_value(json_object_get(r, counts[k])));
        }
        sonde_table_cell(t, 7, "%s", cmd_alerts_text(r, "last_error"));
    }
}

static void cmd_alerts_mutes(const json_t *answer, struct sonde_table *t)
{
    const json_t *list = json_object_get(answer, "mutes");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *m = json_array_get(list, i);
        char *labels = json_dumps(json_object_get(m, "labels"), JSON_COMPACT);
        const double to = json_number_value(json_object_get(m, "to"));
        const time_t end = (time_t)to;
        struct tm tm;
        char until[32] = "";
        if (to > 0 && localtime_r(&end, &tm)) {
            strftime(until, sizeof(until), "%Y-%m-%d %H:%M:%S", &tm);
        }
        sonde_table_row(t);
        sonde_table_cell(t, 0, "%lld", (long long)json_integer_value(json_object_get(m, "id")));
        sonde_table_cell(t, 1, "%s", json_is_true(json_object_get(m, "active")) ? "now" : "later");
        sonde_table_cell(t, 2, "%s", until);
        sonde_table_cell(t, 3, "%s", cmd_alerts_text(m, "weekly"));
        sonde_table_cell(t, 4, "%s", labels ? labels : "");
        sonde_table_cell(t, 5, "%s", cmd_alerts_text(m, "comment"));
        free(labels);
    }
}

static const struct sonde_column alert_columns[] = {
    { .title = "STATE" }, { .title = "SEVERITY" }, { .title = "SINCE", .align = SONDE_RIGHT },
    { .title = "KIND" }, { .title = "WHAT", .min = 20 },
};
static const struct sonde_column receiver_columns[] = {
    { .title = "RECEIVER" },
    { .title = "TO", .drop = 1 },
    { .title = "SENT", .align = SONDE_RIGHT },
    { .title = "QUEUED", .align = SONDE_RIGHT },
    { .title = "FAILED", .align = SONDE_RIGHT },
    { .title = "REFUSED", .align = SONDE_RIGHT },
    { .title = "DROPPED", .align = SONDE_RIGHT },
    { .title = "LAST ERROR", .min = 10 },
};
static const struct sonde_column mute_columns[] = {
    { .title = "MUTE", .align = SONDE_RIGHT }, { .title = "ACTIVE" }, { .title = "UNTIL" },
    { .title = "HOURS" }, { .title = "LABELS" }, { .title = "COMMENT", .drop = 1 },
};

static void cmd_alerts_print(struct sonde_table *t, const char *before)
{
    struct sonde_buf b;
    sonde_buf_init(&b, ALERTS_ANSWER_MAX);
    if (t->row_count) {
        sonde_table_render(t, sonde_cli_width(), sonde_text_locale_ascii(), &b);
        printf("%s%s", before, b.data ? b.data : "");
    }
    sonde_buf_release(&b);
    sonde_table_release(t);
}

static void cmd_alerts_show(const struct sonde_cli *cli, const json_t *answer)
{
    const struct alerts_values *v = cli->values;
    struct sonde_table t;
    sonde_table_init(&t, alert_columns, SONDE_COUNT(alert_columns));
    cmd_alerts_rows(answer, v->all, &t);
    if (!t.row_count && !cli->quiet) printf("no alert fires or is pending\n");
    cmd_alerts_print(&t, "");
    sonde_table_init(&t, receiver_columns, SONDE_COUNT(receiver_columns));
    if (v->all) cmd_alerts_receivers(answer, &t);
    cmd_alerts_print(&t, "\n");
    sonde_table_init(&t, mute_columns, SONDE_COUNT(mute_columns));
    if (v->all) cmd_alerts_mutes(answer, &t);
    cmd_alerts_print(&t, "\n");
}

/* How many fire, are not muted and are severe enough. */
static size_t cmd_alerts_firing(const json_t *answer, int severity_min)
{
    const json_t *list = json_object_get(answer, "alerts");
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *a = json_array_get(list, i);
        n += !strcmp(cmd_alerts_text(a, "state"), "firing") &&
             !json_is_true(json_object_get(a, "muted")) &&
             sonde_severity_find(cmd_alerts_text(a, "severity")) >= severity_min;
    }
    return n;
}

static int cmd_alerts_list(struct sonde_cli *cli, int check)
{
    const struct alerts_values *v = cli->values;
    char url[4096];
    struct sonde_buf body;
    struct sonde_err err = { "" };
    int status = cmd_alerts_url(cli, 1, "/api/alerts", url, sizeof(url));
    if (status) return status;
    const int rc = sonde_cli_fetch(url, ALERTS_ANSWER_MAX, SONDE_CLI_FETCH_S, &body, &err);
    json_t *answer = cmd_alerts_answer(cli, rc, &body, url, &err, &status);
    if (answer && v->json) fwrite(body.data, 1, body.len, stdout);
    else if (answer && !(check && cli->quiet)) cmd_alerts_show(cli, answer);
    if (answer && check) {
        const size_t n = cmd_alerts_firing(answer, v->severity ? sonde_severity_find(v->severity)
                                                               : 0);
        if (n) status = SONDE_EXIT_LIMIT;
    }
    json_decref(answer);
    sonde_buf_release(&body);
    return status;
}

/* ---- test ------------------------------------------------------------------------------------ */

static int cmd_alerts_tried(const struct sonde_cli *cli, const json_t *answer)
{
    const struct alerts_values *v = cli->values;
    const json_t *list = json_object_get(answer, "receivers");
    int bad = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *r = json_array_get(list, i);
        const int ok = json_is_true(json_object_get(r, "ok"));
        bad |= !ok;
        if (v->json) continue;
        sonde_visible_printf(STDOUT_FILENO, "%-6s %s (%s): %s\n", ok ? "ok" : "failed",
                             cmd_alerts_text(r, "name"), cmd_alerts_text(r, "to"),
                             cmd_alerts_text(r, "text"));
    }
    if (!json_array_size(list)) {
        return sonde_cli_fail(cli, "there is no receiver: set alerts.webhook, alerts.command, "
                              "alerts.receivers or alerts.log");
    }
    return bad ? SONDE_EXIT_FAIL : SONDE_EXIT_OK;
}

/* Of the settings, without an agent. */
static int cmd_alerts_test_here(struct sonde_cli *cli, struct sonde_buf *out)
{
    struct sonde_alerts_tried tried[SONDE_ALERT_RECEIVERS_MAX];
    struct sonde_alerts_options o;
    struct sonde_alert_shipped shipped;
    char state[SONDE_CLI_SPOOL_MAX];
    struct sonde_alerts *a = NULL;
    struct sonde_err err = { "" };
    sonde_buf_init(out, ALERTS_ANSWER_MAX);
    sonde_cli_alerts(cli, &o, &shipped, state);
    o.state = NULL; /* the agent's */
    const int rc = sonde_alerts_create(&o, &a, &err);
    if (rc) {
        return rc == SONDE_EINVAL ? sonde_cli_usage(cli, "%s", err.text)
                                  : sonde_cli_fail(cli, "%s", err.text);
    }
    const size_t count = sonde_alerts_test(a, tried, SONDE_ALERT_RECEIVERS_MAX);
    sonde_alerts_tried_json(tried, count, out);
    sonde_alerts_destroy(a);
    return SONDE_EXIT_OK;
}

static int cmd_alerts_test(struct sonde_cli *cli)
{
    const struct alerts_values *v = cli->values;
    char url[4096] = "";
    struct sonde_buf body;
    struct sonde_err err = { "" };
    int status, rc = 0;
    if (cli->operand_count > 1) {
        status = cmd_alerts_url(cli, 1, "/api/alerts/test", url, sizeof(url));
        if (status) return status;
        rc = sonde_cli_post(url, NULL, ALERTS_ANSWER_MAX, ALERTS_TEST_S, &body, &err);
    } else {
        status = cmd_alerts_test_here(cli, &body);
    }
    json_t *answer = status ? NULL : cmd_alerts_answer(cli, rc, &body, url, &err, &status);
    if (answer && v->json) printf("%.*s\n", (int)strcspn(body.data, "\n"), body.data);
    if (answer) status = cmd_alerts_tried(cli, answer);
    json_decref(answer);
    sonde_buf_release(&body);
    return status;
}

/* ---- mute and unmute ------------------------------------------------------------------------- */

/* What is to be muted, as /api/alerts/mutes takes it; NULL = *status says what was told. */
static json_t *cmd_alerts_mute_body(const struct sonde_cli *cli, int *status)
{
    const struct alerts_values *v = cli->values;
    json_t *labels = json_object(), *body = json_object();
    for (size_t i = 0; i < v->labels.count; i++) {
        const char *text = v->labels.item[i], *equals = strchr(text, '=');
        if (!equals || equals == text) {
            *status = sonde_cli_usage(cli, "--label '%s' is not NAME=GLOB", text);
            json_decref(labels);
            json_decref(body);
            return NULL;
        }
        json_t *name = json_stringn(text, (size_t)(equals - text));
        if (name) json_object_set_new(labels, json_string_value(name), json_string(equals + 1));
        json_decref(name);
    }
    json_object_set_new(body, "labels", labels);
    if (v->seconds > 0) json_object_set_new(body, "seconds", json_real(v->seconds));
    if (v->weekly) json_object_set_new(body, "weekly", json_string(v->weekly));
    if (v->comment) json_object_set_new(body, "comment", json_string(v->comment));
    return body;
}

static int cmd_alerts_mute(struct sonde_cli *cli)
{
    char url[4096];
    struct sonde_buf answer;
    struct sonde_err err = { "" };
    int status = cmd_alerts_url(cli, 1, "/api/alerts/mutes", url, sizeof(url));
    json_t *body = status ? NULL : cmd_alerts_mute_body(cli, &status);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text) return status ? status : sonde_cli_fail(cli, "out of memory");
    const int rc = sonde_cli_post_body(url, text, ALERTS_ANSWER_MAX, SONDE_CLI_FETCH_S, &answer,
                                       &err);
    free(text);
    json_t *said = cmd_alerts_answer(cli, rc, &answer, url, &err, &status);
    if (said && !cli->quiet) {
        printf("mute %lld\n", (long long)json_integer_value(json_object_get(said, "id")));
    }
    json_decref(said);
    sonde_buf_release(&answer);
    return status;
}

static int cmd_alerts_unmute(struct sonde_cli *cli)
{
    char url[4096], path[64];
    struct sonde_buf answer;
    struct sonde_err err = { "" };
    char *end = NULL;
    const char *id = cli->operand_count > 1 ? cli->operands[1] : "";
    const unsigned long long number = strtoull(id, &end, 10);
    if (id[0] < '0' || id[0] > '9' || *end) {
        return sonde_cli_usage(cli, "say which: sonde alerts unmute ID [URL]; `sonde alerts list "
                               "--all` lists mutes");
    }
    snprintf(path, sizeof(path), "/api/alerts/mutes/%llu", number);
    int status = cmd_alerts_url(cli, 2, path, url, sizeof(url));
    if (status) return status;
    const int rc = sonde_cli_delete(url, ALERTS_ANSWER_MAX, SONDE_CLI_FETCH_S, &answer, &err);
    json_t *said = cmd_alerts_answer(cli, rc, &answer, url, &err, &status);
    json_decref(said);
    sonde_buf_release(&answer);
    return status;
}

static int cmd_alerts_run(struct sonde_cli *cli)
{
    const char *what = cli->operand_count ? cli->operands[0] : "list";
    const int url_first = sonde_cli_is_url(what);
    if (url_first) return sonde_cli_usage(cli, "say what: sonde alerts list %s", what);
    if (cli->operand_count > (strcmp(what, "unmute") ? 2 : 3)) {
        return sonde_cli_usage(cli, "too many arguments");
    }
    if (!strcmp(what, "list")) return cmd_alerts_list(cli, 0);
    if (!strcmp(what, "check")) return cmd_alerts_list(cli, 1);
    if (!strcmp(what, "test")) return cmd_alerts_test(cli);
    if (!strcmp(what, "mute")) return cmd_alerts_mute(cli);
    if (!strcmp(what, "unmute")) return cmd_alerts_unmute(cli);
    return sonde_cli_usage(cli, "'%s' is not one of list, check, test, mute, unmute", what);
}

const struct sonde_command sonde_cmd_alerts = {
    .name = "alerts",
    .summary = "what fires, whether receivers are reached, muting",
    .usage = "[options] list|check|test|mute|unmute [ID] [URL]",
    .details =
        "list     alerts that fire or are pending at the agent of URL (default: the setting "
        "server.listen); --all: resolved ones, receivers and mutes too\n"
        "check    the same for scripts: exit status 3 if one fires that is not muted\n"
        "test     sends a test notification through every receiver, says of each whether it "
        "arrived and what to do if not; exit status 1 if one failed. With a URL the agent there "
        "sends it, otherwise this command does, as the settings say (--config, --set)\n"
        "mute     alerts with all --label are listed and not sent, --for some time or at --weekly "
        "hours; prints the mute's ID\n"
        "unmute   ends the mute ID\n"
        "\n"
        "Rules, receivers and limits are settings: `sonde help config`, alerts.…, and "
        "docs/alerts.md.\n"
        "\n"
        "examples:\n"
        "  sonde alerts list --all\n"
        "  sonde alerts check --severity critical http://127.0.0.1:6061\n"
        "  sonde alerts test --set alerts.webhook=https://hooks.example.com/T0/B0/x "
        "--set alerts.form=slack\n"
        "  sonde alerts mute --label kind=memory --for 7200 --comment 'loading weights'",
    .options = options,
    .values_size = sizeof(struct alerts_values),
    .operands_max = 3,
    .run = cmd_alerts_run,
};
