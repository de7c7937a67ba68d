/* agent_options.c - see agent_options.h. Secrets come from files or the environment, never from
 * arguments, which every user of the machine can read. */
#include "cli/agent_options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "sonde/sonde.h"

enum { HEADERS_MAX = 1 << 16, STORE_CONFIG_MAX = 1 << 16, TEMPORARY_BLOCK_TICKS = 120 };
#define PROFILE_MAX ((size_t)1 << 30)
#define RECENT_COST_S 10  /* short commands are not to share a core with that */
#define RECENT_FLUSH_S 20 /* nothing would be left of it after a crash; who asks has it up to now */

/* ---- Destinations: headers ------------------------------------------------------------------- */

static int cli_push_read_file(const char *path, struct sonde_buf *out, struct sonde_err *err)
{
    struct sonde_err why = { "" };
    const int rc = sonde_file_read(path, out, &why);
    if (!rc) sonde_buf_putc(out, '\n');
    if (rc == SONDE_EFULL || (!rc && out->error)) {
        return sonde_err_set(err, SONDE_EINVAL, "'%s' is too long for headers", path);
    }
    if (rc) return sonde_err_set(err, SONDE_EIO, "no headers: %s", why.text);
    if (memchr(out->data, 0, out->len)) {
        return sonde_err_set(err, SONDE_EINVAL, "'%s' holds a NUL: not lines of headers", path);
    }
    return 0;
}

static int cli_push_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10 : -1;
}

/* "a=b,c=d%20e" as lines. */
static void otel_headers(const char *text, struct sonde_buf *out)
{
    int value = 0;
    for (const char *p = text; *p; p++) {
        if (*p == ',') {
            sonde_buf_putc(out, '\n');
            value = 0;
        } else if (*p == '=' && !value) {
            sonde_buf_puts(out, ": ");
            value = 1;
        } else if (value && *p == '%' && cli_push_hex_digit(p[1]) >= 0 &&
                   cli_push_hex_digit(p[2]) >= 0) {
            const int c = cli_push_hex_digit(p[1]) << 4 | cli_push_hex_digit(p[2]);
            sonde_buf_putc(out, c ? (char)c : ' ');
            p += 2;
        } else if (*p != ' ' || value) {
            sonde_buf_putc(out, *p);
        }
    }
    sonde_buf_putc(out, '\n');
}

static const char *headers_file(const struct sonde_cli *cli, const char *kind)
{
    const struct sonde_config_values *c = &cli->config;
    if (!strcmp(kind, "otlp")) return c->push_otlp_headers;
    return !strcmp(kind, "remote_write") ? c->push_remote_write_headers : c->push_pyroscope_headers;
}

int sonde_cli_push_headers(const struct sonde_cli *cli, const char *kind, struct sonde_buf *out,
                           struct sonde_err *err)
{
    char name[64];
    snprintf(name, sizeof(name), "SONDE_%s_TOKEN", kind);
    for (char *c = name; *c; c++) *c = (char)toupper((unsigned char)*c);
    const char *file = headers_file(cli, kind), *token = getenv(name);
    const int rc = *file ? cli_push_read_file(file, out, err) : 0;
    if (rc) return rc;
    if (token && *token) {
        if (token[strcspn(token, "\r\n")]) {
            return sonde_err_set(err, SONDE_EINVAL, "%s: a token is one line", name);
        }
        sonde_buf_printf(out, "Authorization: Bearer %s\n", token);
    }
    return out->error ? sonde_err_set(err, out->error, "out of memory") : 0;
}

/* ---- Destinations ---------------------------------------------------------------------------- */

static const char *url_of(const struct sonde_cli *cli, const char *kind)
{
    const struct sonde_config_values *c = &cli->config;
    if (!strcmp(kind, "otlp")) return c->push_otlp;
    return !strcmp(kind, "remote_write") ? c->push_remote_write : c->push_pyroscope;
}

/* Both or none: headers that the environment has are for the endpoint that it has. */
static int from_environment(struct sonde_push_target *t, struct sonde_buf *headers,
                            struct sonde_err *err)
{
    const char *url = getenv("OTEL_EXPORTER_OTLP_ENDPOINT"),
               *more = getenv("OTEL_EXPORTER_OTLP_HEADERS");
    if (!url || !*url) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "push.otlp is env, but OTEL_EXPORTER_OTLP_ENDPOINT is "
                             "not set");
    }
    t->url = url;
    if (more && *more) otel_headers(more, headers);
    return headers->error;
}

/* In the user's own folder of states: what is kept there outlives the agent. NULL = there is
 * none. */
static const char *cli_state_path(const char *name, char out[SONDE_CLI_SPOOL_MAX])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (state && *state == '/') {
        n = snprintf(out, SONDE_CLI_SPOOL_MAX, "%s/sonde/%s", state, name);
    } else if (home && *home == '/') {
        n = snprintf(out, SONDE_CLI_SPOOL_MAX, "%s/.local/state/sonde/%s", home, name);
    }
    return n > 0 && n < SONDE_CLI_SPOOL_MAX - 64 ? out : NULL;
}

const char *sonde_cli_push_spool(const struct sonde_cli *cli, char out[SONDE_CLI_SPOOL_MAX])
{
    const char *chosen = cli->config.push_spool;
    if (!strcmp(chosen, "none")) return NULL;
    if (!*chosen) return cli_state_path("push", out);
    snprintf(out, SONDE_CLI_SPOOL_MAX, "%s", chosen);
    return out;
}

/* What the settings name. headers: one for each, to be cleared and released also on failure. */
static int find_targets(const struct sonde_cli *cli,
                        struct sonde_push_target targets[SONDE_CLI_KINDS_MAX],
                        struct sonde_buf headers[SONDE_CLI_KINDS_MAX], size_t *count,
                        struct sonde_err *err)
{
    int rc = 0;
    *count = 0;
    for (size_t i = 0; sonde_push_kind(i) && *count < SONDE_CLI_KINDS_MAX && !rc; i++) {
        struct sonde_push_target *t = &targets[*count];
        const char *kind = sonde_push_kind(i);
        *t = (struct sonde_push_target){ .kind = kind, .url = url_of(cli, kind) };
        if (!*t->url) continue;
        struct sonde_buf *h = &headers[(*count)++];
        sonde_buf_init(h, HEADERS_MAX);
        rc = sonde_cli_push_headers(cli, t->kind, h, err);
        if (!rc && !strcmp(t->kind, "otlp") && !strcmp(t->url, "env")) {
            rc = from_environment(t, h, err);
        }
        t->headers = h->data;
    }
    return rc;
}

static void forget_headers(struct sonde_buf *headers, size_t count)
{
    assert(count <= SONDE_CLI_KINDS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (headers[i].data) explicit_bzero(headers[i].data, headers[i].len);
        sonde_buf_release(&headers[i]);
    }
}

int sonde_cli_push_each(const struct sonde_cli *cli,
                        void (*each)(const struct sonde_push_target *t, const char *labels,
                                     void *arg),
                        void *arg, size_t *count, struct sonde_err *err)
{
    struct sonde_push_target targets[SONDE_CLI_KINDS_MAX];
    struct sonde_buf headers[SONDE_CLI_KINDS_MAX];
    const int rc = find_targets(cli, targets, headers, count, err);
    for (size_t i = 0; i < *count && !rc; i++) each(&targets[i], cli->config.push_labels, arg);
    forget_headers(headers, *count);
    return rc;
}

static int cli_agent_push(const struct sonde_cli *cli, struct sonde_cli_agent *a,
                          struct sonde_err *err)
{
    const struct sonde_config_values *c = &cli->config;
    struct sonde_push_options *o = &a->push;
    const int rc = find_targets(cli, a->push_targets, a->headers, &a->header_count, err);
    if (rc || !a->header_count) return rc;
    *o = (struct sonde_push_options){ .targets = a->push_targets,
                                      .target_count = a->header_count,
                                      .interval_s = c->push_interval_seconds,
                                      .timeout_s = c->push_timeout_seconds,
                                      .labels = c->push_labels,
                                      .native_histograms = c->push_native_histograms,
                                      .spool = sonde_cli_push_spool(cli, a->spool),
                                      .spool_bytes = (uint64_t)c->push_spool_megabytes << 20,
                                      .spool_age_s = c->push_spool_hours * 3600 };
    a->options.push = o;
    return sonde_push_signals(c->push_signals, &o->signals, err);
}

/* ---- Alerts ---------------------------------------------------------------------------------- */

/* Where alerts are kept over a restart; NULL = nowhere. */
static const char *cli_alerts_state(const struct sonde_config_values *c,
                                    char out[SONDE_CLI_SPOOL_MAX])
{
    if (!strcmp(c->alerts_state, "none")) return NULL;
    if (c->alerts_state[0]) {
        snprintf(out, SONDE_CLI_SPOOL_MAX, "%s", c->alerts_state);
        return out;
    }
    if (c->storage_path[0]) {
        snprintf(out, SONDE_CLI_SPOOL_MAX, "%s.alerts", c->storage_path);
        return out;
    }
    const int away = c->alerts_webhook[0] || strcmp(c->alerts_command, "[]") ||
                     strcmp(c->alerts_receivers, "[]");
    return away ? cli_state_path("alerts", out) : NULL;
}

int sonde_cli_alerts(const struct sonde_cli *cli, struct sonde_alerts_options *o,
                     struct sonde_alert_shipped *shipped, char state[SONDE_CLI_SPOOL_MAX])
{
    const struct sonde_config_values *c = &cli->config;
    const int objectives = c->inference_slo_ttft_ms > 0 || c->inference_slo_itl_ms > 0 ||
                           c->inference_slo_total_ms > 0;
    const int severity = sonde_severity_find(c->alerts_min_severity);
    *shipped = (struct sonde_alert_shipped){
        c->alerts_cpu_percent, c->alerts_memory_percent, c->alerts_disk_percent,
        c->alerts_error_ratio, c->alerts_cache_hit_ratio,
    };
    *o = (struct sonde_alerts_options){
        .webhook = c->alerts_webhook, .webhook_form = c->alerts_form,
        .webhook_headers = c->alerts_headers, .command = c->alerts_command,
        .receivers = c->alerts_receivers, .rules = c->alerts_rules, .mutes = c->alerts_mute,
        .token = getenv("SONDE_WEBHOOK_TOKEN"), .log = c->alerts_log,
        .shipped = c->alerts_resources ? shipped : NULL, .for_s = c->alerts_for_seconds,
        .keep_s = c->alerts_keep_seconds,
        .severity_min = severity > 0 ? (enum sonde_severity)severity : SONDE_SEVERITY_INFO,
        .timeout_s = c->alerts_timeout_seconds, .repeat_s = c->alerts_repeat_hours * 3600,
        .age_s = c->alerts_queue_hours * 3600, .interval_s = c->agent_interval_seconds < 1
            ? c->agent_interval_seconds : 1,
        .slo_target = objectives ? c->alerts_slo_target : 0,
        .slo_requests_min = c->alerts_slo_min_requests, .state = cli_alerts_state(c, state),
        .url = c->alerts_url, .strip = c->agent_strip,
    };
    return c->alerts_enabled;
}

/* ---- Others' series -------------------------------------------------------------------------- */

static int cli_agent_scrape(const struct sonde_cli *cli, const struct sonde_cli_list *urls,
                            struct sonde_cli_agent *a, struct sonde_err *err)
{
    const struct sonde_config_values *c = &cli->config;
    struct sonde_scrape_options *o = &a->options.scrape;
    *o = (struct sonde_scrape_options){ .interval_s = c->scrape_interval_seconds,
                                        .timeout_s = c->scrape_timeout_seconds,
                                        .series_max = (size_t)c->scrape_max_series,
                                        .body_max = (size_t)c->scrape_max_megabytes << 20 };
    int rc = sonde_scrape_targets_parse(&a->targets, c->scrape_targets, o, err);
    for (size_t i = 0; !rc && i < urls->count; i++) {
        rc = sonde_scrape_targets_add(&a->targets, urls->item[i], o, err);
    }
    a->options.targets = &a->targets;
    return rc;
}

static void cli_agent_otlp(const struct sonde_cli *cli, struct sonde_cli_agent *a)
{
    a->otlp = (struct sonde_otlp_options){ .series_max = (size_t)cli->config.ingest_max_series,
                                           .stale_s = cli->config.ingest_stale_seconds };
    if (cli->config.ingest_enabled) a->options.otlp = &a->otlp;
}

struct sonde_change_options sonde_cli_change_options(const struct sonde_cli *cli)
{
    const struct sonde_config_values *c = &cli->config;
    return (struct sonde_change_options){
        .threshold = c->regression_threshold,
        .min_relative = c->regression_min_percent / 100,
        .warmup_s = c->regression_warmup_seconds > 0 ? c->regression_warmup_seconds : 1e-9,
    };
}

static void cli_agent_regressions(const struct sonde_cli *cli, struct sonde_cli_agent *a)
{
    const struct sonde_config_values *c = &cli->config;
    a->regressions = (struct sonde_regressions_options){
        .series = c->regression_series[0] ? c->regression_series : NULL,
        .series_max = (uint32_t)c->regression_max_series,
        .change = sonde_cli_change_options(cli),
        .strip = c->agent_strip,
        .settings = a->store_config.error ? NULL : a->store_config.data,
    };
    a->options.regressions = &a->regressions;
}

/* ---- Stores ---------------------------------------------------------------------------------- */

struct sonde_store_retention sonde_cli_retention(const struct sonde_cli *cli)
{
    const struct sonde_config_values *c = &cli->config;
    return (struct sonde_store_retention){
        .age_s = (uint64_t)c->storage_retention_days * 86400,
        .raw_s = (uint64_t)c->storage_raw_hours * 3600,
        .profiles = (uint64_t)c->storage_max_profiles,
        .bytes = (uint64_t)c->storage_max_megabytes << 20,
    };
}

/* The settings that a run was recorded with. */
static void put_setting(const char *section, const char *key, const char *value, void *arg)
{
    char name[128];
    snprintf(name, sizeof(name), "%s.%s", section, key);
    /* Webhooks' URLs are secrets. */
    const int secret = !strcmp(name, "alerts.webhook") || !strcmp(name, "alerts.receivers");
    sonde_json_str(arg, name, secret && *value && strcmp(value, "[]") ? "(not kept)" : value);
}

static void cli_agent_store(const struct sonde_cli *cli, const char *name,
                            struct sonde_cli_agent *a)
{
    const struct sonde_config_values *c = &cli->config;
    if (!c->storage_path[0]) return;
    struct sonde_buf *config = &a->store_config;
    sonde_buf_putc(config, '{');
    sonde_config_each_value(c, put_setting, config);
    sonde_buf_putc(config, '}');
    a->store = (struct sonde_store_options){
        .path = c->storage_path,
        .run_name = name,
        .config = config->error || c->agent_strip ? NULL : config->data, /* it has paths */
        .keep = sonde_cli_retention(cli),
        .spans_per_s = (uint32_t)c->storage_spans_per_second,
        .requests_per_s = (uint32_t)c->storage_requests_per_second,
    };
    a->options.store = &a->store;
}

/* Without a store what was lately is kept all the same, unless the settings say no. */
static void cli_agent_temporary(const struct sonde_cli *cli, struct sonde_cli_agent *a)
{
    const struct sonde_config_values *c = &cli->config;
    a->temporary = (struct sonde_store_options){
        .keep = { .age_s = (uint64_t)(c->storage_recent_hours * 3600),
                  .bytes = (uint64_t)c->storage_recent_megabytes << 20, .force = 1 },
        .block_ticks = TEMPORARY_BLOCK_TICKS,
        .spans_per_s = (uint32_t)c->storage_spans_per_second,
        .requests_per_s = (uint32_t)c->storage_requests_per_second,
    };
    if (a->temporary.keep.bytes && a->temporary.keep.age_s) a->options.temporary = &a->temporary;
}

/* What it is to the user: the kind of most of its samples. */
static const char *cli_store_kind_of(const struct sonde_profile *p)
{
    uint32_t count[SONDE_SAMPLE_KIND_COUNT] = { 0 };
    int most = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) count[p->samples[i].kind]++;
    for (int k = 1; k < SONDE_SAMPLE_KIND_COUNT; k++) most = count[k] > count[most] ? k : most;
    return sonde_sample_kind_name((enum sonde_sample_kind)most);
}

int sonde_cli_store_profile(struct sonde_store *s, const char *path, const struct sonde_profile *p,
                            const char *name, struct sonde_err *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    char clean[64];
    snprintf(clean, sizeof(clean), "%s", name);
    for (char *c = clean; *c; c++) {
        if (!strchr(allowed, *c)) *c = '_';
    }
    const struct sonde_store_profile row = {
        .name = clean,
        .kind = cli_store_kind_of(p),
        .program = sonde_profile_str(p, p->program),
        .start_s = (double)p->start_ns * 1e-9,
        .end_s = (double)p->end_ns * 1e-9,
        .samples = p->samples_count,
    };
    struct sonde_buf data;
    sonde_buf_init(&data, PROFILE_MAX);
    int rc = sonde_file_read(path, &data, err);
    if (!rc) rc = sonde_store_sqlite.profile_put(s, &row, data.data, data.len, NULL, err);
    sonde_buf_release(&data);
    return rc;
}

/* ---- Continuous profiling -------------------------------------------------------------------- */

int sonde_cli_continuous(const struct sonde_cli *cli, const char *rate,
                         struct sonde_continuous_options *o)
{
    struct sonde_config_values c = cli->config;
    struct sonde_err err = { "" };
    if (rate && rate[0] &&
        sonde_config_set(&c, "continuous.rate_hz", rate, "--continuous", &err) != 0) {
        return sonde_cli_usage(cli, "%s", err.text);
    }
    const uint64_t own_max = (uint64_t)c.continuous_max_megabytes << 20;
    const uint64_t quarter = ((uint64_t)c.storage_max_megabytes << 20) / 4;
    o->settings = (struct sonde_continuous_settings){
        .enabled = rate || c.continuous_enabled,
        .cpu = c.continuous_cpu,
        .memory = c.continuous_memory,
        .gpu = 0,
        .rate_hz = c.continuous_rate_hz,
        .interval_s = c.continuous_interval_seconds,
        .duration_s = c.continuous_duration_seconds,
    };
    o->flush_s = c.continuous_flush_seconds;
    o->minutes_s = c.continuous_keep_minutes * 60;
    o->hours_s = c.continuous_keep_hours * 3600;
    o->bytes_max = own_max < quarter ? own_max : quarter;
    return SONDE_EXIT_OK;
}

void sonde_cli_continuous_recent(struct sonde_continuous_options *o, double rate_hz, int heap)
{
    o->in_memory = 1;
    o->flush_s = RECENT_FLUSH_S;
    o->cost_after_s = RECENT_COST_S;
    o->settings.cpu = o->settings.cpu && rate_hz > 0;
    o->settings.memory = o->settings.memory && heap;
    o->settings.enabled = o->settings.cpu || o->settings.memory;
    /* More than the engine that runs would take another one. */
    if (rate_hz < o->settings.rate_hz && rate_hz > 0) o->settings.rate_hz = rate_hz;
}

/* ---- All of it ------------------------------------------------------------------------------- */

struct sonde_finding_options sonde_cli_rules(const struct sonde_cli *cli)
{
    const struct sonde_config_values *c = &cli->config;
    return (struct sonde_finding_options){
        .seconds_min = c->bottleneck_threshold_ms > 0 ? c->bottleneck_threshold_ms * 1e-3 : 1e-9,
        .muted = c->bottleneck_mute,
        .slo_ttft_s = c->inference_slo_ttft_ms * 1e-3,
        .slo_itl_s = c->inference_slo_itl_ms * 1e-3,
        .slo_total_s = c->inference_slo_total_ms * 1e-3,
    };
}

int sonde_cli_agent_options(const struct sonde_cli *cli, const struct sonde_cli_agent_wants *wants,
                            struct sonde_cli_agent *a)
{
    const struct sonde_config_values *c = &cli->config;
    const struct sonde_cpu_options cpu = sonde_cli_cpu_options(cli);
    struct sonde_err err = { "" };
    *a = (struct sonde_cli_agent){ 0 };
    sonde_buf_init(&a->store_config, STORE_CONFIG_MAX);
    struct sonde_agent_options *o = &a->options;
    o->collector = sonde_cli_collector_options(cli);
    o->collector.agent = 1;
    o->infer = sonde_cli_infer_options(cli);
    o->profiler = (struct sonde_profiler_options){ .rate_hz = cpu.rate_hz,
                                                   .depth_max = cpu.depth_max, .dir = cpu.dir,
                                                   .no_cpu = !c->cpu_enabled,
                                                   .no_heap = !c->memory_enabled };
    o->asked = wants->http;
    o->health = (struct sonde_health_options){
        .window_s = c->health_window_seconds, .p95_s_max = c->health_max_p95_ms * 1e-3,
        .error_ratio_max = c->health_max_error_ratio,
        .error_ratio_failing = c->health_failing_error_ratio,
        .memory_ratio_max = c->health_max_memory_ratio,
    };
    o->no_findings = !c->bottleneck_auto_detect;
    o->finding_interval_s = c->bottleneck_interval_seconds;
    o->rules = sonde_cli_rules(cli);
    a->own_cost = (struct sonde_own_cost_settings){ .window_s = c->cost_window_seconds,
                                                    .off_ratio_max = c->cost_off_percent / 100 };
    snprintf(a->own_cost.work, sizeof(a->own_cost.work), "%.127s", c->cost_work);
    if (c->cost_enabled) o->own_cost = &a->own_cost;
    int rc = sonde_finding_mute_check(o->rules.muted, &err);
    if (!rc) rc = wants->scrape ? cli_agent_scrape(cli, wants->scrape, a, &err) : 0;
    if (!rc && wants->keep) rc = cli_agent_push(cli, a, &err);
    if ((wants->keep || wants->http) &&
        sonde_cli_alerts(cli, &a->alerts, &a->shipped, a->alerts_state)) {
        o->alerts = &a->alerts;
    }
    if (wants->keep) cli_agent_store(cli, wants->run_name, a);
    if (wants->http) cli_agent_temporary(cli, a);
    if (wants->http && wants->scrape) cli_agent_otlp(cli, a);
    if (wants->http && c->bottleneck_alert_on_regression) cli_agent_regressions(cli, a);
    if (!rc) return SONDE_EXIT_OK;
    return rc == SONDE_EINVAL ? sonde_cli_usage(cli, "%s", err.text)
                              : sonde_cli_fail(cli, "%s", err.text);
}

void sonde_cli_agent_release(struct sonde_cli_agent *a)
{
    forget_headers(a->headers, a->header_count);
    sonde_scrape_targets_release(&a->targets); /* none are left if the agent took them */
    sonde_buf_release(&a->store_config);
    *a = (struct sonde_cli_agent){ 0 };
}

int sonde_cli_agent_missing(const struct sonde_cli *cli, enum sonde_agent_part part, int rc,
                            const struct sonde_err *err)
{
    if (part == SONDE_AGENT_TEMPORARY) {
        sonde_log(SONDE_LOG_WARN,
                  "the last hours are not kept: %s. What is in memory is shown; TMPDIR names "
                  "another folder, storage.recent_megabytes=0 turns it off", err->text);
        return SONDE_EXIT_OK;
    }
    if (part == SONDE_AGENT_CONTINUOUS && (rc == SONDE_EOFF || rc == SONDE_EINVAL)) {
        return sonde_cli_usage(cli, "continuous profiling: %s", err->text);
    }
    const int usage = rc == SONDE_EINVAL || (part == SONDE_AGENT_STORE && rc == SONDE_EVERSION);
    return usage ? sonde_cli_usage(cli, "%s", err->text) : sonde_cli_fail(cli, "%s", err->text);
}
