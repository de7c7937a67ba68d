/* bench_http_both.c - see bench_http_both.h. Which agent: that of --agent; else the server itself,
 * which may be an agent's front; else the default address of this machine. One that was not named
 * is believed only if it knows a trace id of ours. */
#include "cli/bench_http_both.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/strip.h"
#include "present/report/requests.h"
#include "present/table.h"
#include "present/text.h"
#include "present/units.h"
#include "sonde/sonde.h"

#define BOTH_ANSWER_MAX ((size_t)512 << 20)
#define BOTH_FETCH_S 20.0
/* The agent works out requests a tick later. One that nobody named is not waited for as long. */
enum { BOTH_TRIES = 75, BOTH_TRIES_DEFAULT = 15, BOTH_WAIT_MS = 200 };

void bench_http_command(const struct bench_http *b, struct sonde_bench_result *result)
{
    struct sonde_buf line;
    const char *argv[256];
    size_t n = 0;
    (void)b;
    sonde_buf_init(&line, 1 << 20);
    struct sonde_err ignored;
    if (!sonde_file_read("/proc/self/cmdline", &line, &ignored)) {
        int secret = 0;
        for (size_t at = 0; at < line.len && n < SONDE_COUNT(argv);) {
            const char *arg = line.data + at;
            at += strlen(arg) + 1;
            /* Headers may hold keys. */
            argv[n++] = secret ? "[…]" : !strncmp(arg, "--header=", 9) ? "--header=[…]" : arg;
            secret = !strcmp(arg, "-H") || !strcmp(arg, "--header");
        }
        sonde_bench_result_command(result, (char *const *)argv, n);
    }
    sonde_buf_release(&line);
}

/* ---- Which agent ----------------------------------------------------------------------------- */

static json_t *both_get(const char *agent, const char *path)
{
    char url[4096];
    struct sonde_buf answer;
    struct sonde_err ignored;
    json_t *j = NULL;
    if (sonde_cli_url(url, sizeof(url), agent, path)) return NULL;
    if (!sonde_cli_fetch(url, BOTH_ANSWER_MAX, BOTH_FETCH_S, &answer, &ignored) && answer.len) {
        j = json_loadb(answer.data, answer.len, 0, NULL);
    }
    sonde_buf_release(&answer);
    return j;
}

static const struct sonde_load_record *both_last(const struct sonde_load_bench *bench)
{
    for (size_t i = bench->load.record_count; i-- > 0;) {
        if (sonde_load_measured(&bench->measures, &bench->load.records[i])) {
            return &bench->load.records[i];
        }
    }
    return NULL;
}

static int both_knows(const char *agent, const struct sonde_load_record *r)
{
    char path[128];
    snprintf(path, sizeof(path), "/api/requests?timeline=0&limit=1&trace=%016llx%016llx",
             (unsigned long long)r->trace[0], (unsigned long long)r->trace[1]);
    json_t *j = both_get(agent, path);
    const int known = json_array_size(json_object_get(j, "requests")) > 0;
    json_decref(j);
    return known;
}

static void both_wait(void)
{
    const struct timespec t = { 0, BOTH_WAIT_MS * 1000000L };
    nanosleep(&t, NULL);
}

static int both_is_agent(const char *url)
{
    json_t *j = both_get(url, "/api/inference");
    const int is = json_object_get(j, "time") != NULL;
    json_decref(j);
    return is;
}

/* 1 and out->agent. Waits until the last request is known, for as long as one is worth it. */
static int both_find_agent(const struct bench_http *b, const struct sonde_load_record *last,
                           struct bench_http_both *out)
{
    const char *url = b->cli->operands[0], *found = NULL;
    const char *const candidates[] = { b->v->agent ? b->v->agent : url, "http://127.0.0.1:6060" };
    const size_t count = b->v->agent ? 1 : 2;
    if (b->v->no_agent) return 0;
    for (size_t i = 0; i < count && !found; i++) {
        if (!both_is_agent(candidates[i])) continue;
        /* One that sees requests of the server sees the last one in a second or two; the default
         * one may have nothing to do with it. */
        for (int k = i ? BOTH_TRIES - BOTH_TRIES_DEFAULT : 0; k < BOTH_TRIES && !found; k++) {
            if (both_knows(candidates[i], last)) found = candidates[i];
            else both_wait();
        }
        if (!found && (b->v->agent || i == 0)) found = candidates[i];
    }
    if (!found && b->v->agent) {
        out->asked = 1;
        snprintf(out->agent, sizeof(out->agent), "%.500s", b->v->agent);
        snprintf(out->why, sizeof(out->why), "there is no sonde agent at %.180s", b->v->agent);
    }
    if (!found) return 0;
    sonde_cli_url(out->agent, sizeof(out->agent), found, "");
    out->asked = 1;
    return 1;
}

/* ---- What it knows --------------------------------------------------------------------------- */

static int both_local(const char *agent)
{
    return strstr(agent, "://127.") || strstr(agent, "://localhost") || strstr(agent, "://[::1]");
}

/* What an agent answers to /api/requests; 0, or -1 and why. */
static int both_fetch(const char *agent, const char *path, struct sonde_requests *out,
                      struct sonde_err *err)
{
    char url[1024];
    struct sonde_buf answer = { 0 };
    if (sonde_cli_url(url, sizeof(url), agent, path)) return -1;
    int rc = sonde_cli_fetch(url, BOTH_ANSWER_MAX, SONDE_CLI_FETCH_S, &answer, err);
    if (!rc) rc = sonde_requests_read(answer.data ? answer.data : "", answer.len, out, err);
    sonde_buf_release(&answer);
    return rc ? -1 : 0;
}

/* Requests in memory have their timelines and are all there, but only the last few thousand; the
 * store has older ones, of which it may have kept a part. */
static void both_join(const struct sonde_load_bench *bench, double from, double to,
                      struct bench_http_both *out)
{
    char path[160];
    struct sonde_err err = { "" };
    struct sonde_requests recent = { 0 }, stored = { 0 };
    if (both_fetch(out->agent, "/api/requests?limit=100000&sort=newest&state=done", &recent,
                   &err)) {
        snprintf(out->why, sizeof(out->why), "%.250s", err.text);
        return;
    }
    snprintf(path, sizeof(path), "/api/requests?from=%.3f&to=%.3f&limit=100000&sort=oldest",
             from - 1, to + 1);
    if (both_fetch(out->agent, path, &stored, &err)) stored.count = 0;
    const size_t count = recent.count + stored.count;
    struct sonde_infer_request *all = sonde__calloc(count + 1, sizeof(*all));
    if (all && recent.count) memcpy(all, recent.list, recent.count * sizeof(*all));
    if (all && stored.count) {
        memcpy(all + recent.count, stored.list, stored.count * sizeof(*all));
    }
    if (!all || sonde_load_both_join(bench, all, count, both_local(out->agent), &out->both)) {
        snprintf(out->why, sizeof(out->why), "out of memory");
    } else if (!out->both.joined) {
        snprintf(out->why, sizeof(out->why),
                 "the agent has seen %zu requests in that time, none of which is one of these: it "
                 "watches another server, or the server does not pass on `traceparent`",
                 stored.count);
    }
    sonde__free(all);
    sonde_requests_release(&recent);
    sonde_requests_release(&stored);
}

/* One figure of the window: the mean over its points of a series by name, added up over series; or
 * their mean, of what is a share of each device. */
struct both_figure { const char *key, *name, *text; enum sonde_unit unit; int mean; };

static double both_series_mean(const json_t *series, const char *name, int mean)
{
    double sum = 0;
    int found = 0;
    for (size_t i = 0; i < json_array_size(series); i++) {
        const json_t *s = json_array_get(series, i);
        const char *own = json_string_value(json_object_get(s, "name"));
        const json_t *points = json_object_get(s, "points");
        if (!own || strcmp(own, name)) continue;
        double all = 0;
        size_t n = 0;
        for (size_t k = 0; k < json_array_size(points); k++) {
            const json_t *v = json_object_get(json_array_get(points, k), "value");
            if (!json_is_number(v)) continue;
            all += json_number_value(v);
            n++;
        }
        if (!n) continue;
        sum += all / (double)n;
        found++;
    }
    if (!found) return NAN;
    return mean ? sum / found : sum;
}

static void both_resources(double from, double to, struct bench_http_both *out)
{
    static const struct both_figure rows[] = {
        { "cpu_cores", "sonde_process_cpu_utilization_ratio", "server CPUs", SONDE_UNIT_COUNT, 0 },
        { "memory_bytes", "sonde_process_resident_memory_bytes", "server memory",
          SONDE_UNIT_BYTES, 0 },
        { "host_cpu_ratio", "sonde_host_cpu_utilization_ratio", "host CPU", SONDE_UNIT_RATIO, 0 },
        { "gpu_ratio", "sonde_gpu_utilization_ratio", "GPU", SONDE_UNIT_RATIO, 1 },
        { "gpu_memory_bytes", "sonde_gpu_memory_used_bytes", "GPU memory", SONDE_UNIT_BYTES, 0 },
    };
    for (size_t i = 0; i < SONDE_COUNT(rows); i++) {
        char path[256], v[SONDE_VALUE_BYTES];
        const int process = !strncmp(rows[i].name, "sonde_process_", 14);
        if (process && !out->both.pid) continue;
        int n = snprintf(path, sizeof(path), "/api/query?name=%s&from=%.3f&to=%.3f&step=1",
                         rows[i].name, from, to);
        if (process) {
            snprintf(path + n, sizeof(path) - (size_t)n, "&pid=%u", (unsigned)out->both.pid);
        }
        json_t *j = both_get(out->agent, path);
        const double mean = both_series_mean(json_object_get(j, "series"), rows[i].name,
                                             rows[i].mean);
        json_decref(j);
        if (isnan(mean)) continue;
        sonde_json_num(&out->resources, rows[i].key, mean);
        sonde_buf_printf(&out->text, "%-18s%9s mean in the window\n", rows[i].text,
                         sonde_value_format(v, mean, rows[i].unit, 0));
    }
}

static void both_findings(struct bench_http_both *out)
{
    json_t *j = both_get(out->agent, "/api/findings/now");
    const json_t *list = json_object_get(j, "findings");
    int shown = 0;
    for (size_t i = 0; i < json_array_size(list) && i < 20; i++) {
        const json_t *f = json_array_get(list, i);
        const char *text = json_string_value(json_object_get(f, "text"));
        const char *severity = json_string_value(json_object_get(f, "severity"));
        if (!text || !severity) continue;
        sonde_json_open(&out->findings, '{');
        sonde_json_str(&out->findings, "severity", severity);
        sonde_json_str(&out->findings, "text", text);
        sonde_json_close(&out->findings, '}');
        if (strcmp(severity, "info") && shown++ < 3) {
            sonde_buf_printf(&out->text, "%-18s%s: %.300s\n", "finding", severity, text);
        }
    }
    json_decref(j);
}

void bench_http_both_ask(struct bench_http *b, const struct sonde_load_bench *bench,
                         struct bench_http_both *out)
{
    const struct sonde_load_record *last = both_last(bench);
    sonde_buf_init(&out->resources, 1 << 16);
    sonde_buf_init(&out->findings, 1 << 20);
    sonde_buf_init(&out->text, 1 << 16);
    if (!last) return;
    sonde_progress_begin(&b->progress, b->cli, "asking the agent of", b->target.url);
    if (both_find_agent(b, last, out)) {
        const double from = bench->begin_unix_s + bench->measures.warmup_s;
        const double to = from + bench->measures.window_s;
        both_join(bench, from, to, out);
        both_resources(from, to, out);
        both_findings(out);
        snprintf(out->flamegraph, sizeof(out->flamegraph), "%s/profiling/cpu?from=%.3f&to=%.3f",
                 out->agent, from, to);
    }
    sonde_progress_end(&b->progress);
}

/* ---- Shown ----------------------------------------------------------------------------------- */

void bench_http_both_json(const struct bench_http_both *both, struct sonde_bench_result *result)
{
    struct sonde_buf *out = &result->extra;
    const struct sonde_load_both *m = &both->both;
    if (!both->asked) {
        sonde_json_str(out, "server", NULL);
        return;
    }
    sonde_json_key_open(out, "server", '{');
    sonde_json_str(out, "agent", both->agent);
    sonde_json_str(out, "why_not", both->why[0] ? both->why : NULL);
    sonde_json_u64(out, "measured", m->measured);
    sonde_json_u64(out, "joined", m->joined);
    sonde_json_u64(out, "joined_by_time", m->by_time);
    sonde_json_u64(out, "timelines", m->timelines);
    sonde_json_key_open(out, "ttft_parts", '{');
    sonde_json_num(out, "ttft_from_schedule_mean_s", m->joined ? m->ttft_mean_s : NAN);
    for (int p = 0; p < SONDE_LOAD_PIECE_COUNT && m->joined; p++) {
        sonde_json_key_open(out, sonde_load_piece_name((enum sonde_load_piece)p), '{');
        sonde_json_num(out, "mean_s", m->mean_s[p]);
        sonde_json_num(out, "p95_s", m->p95_s[p]);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "resources", '{');
    if (both->resources.len) sonde_buf_add(out, both->resources.data, both->resources.len);
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "findings", '[');
    if (both->findings.len) sonde_buf_add(out, both->findings.data, both->findings.len);
    sonde_json_close(out, ']');
    sonde_json_str(out, "flamegraph", both->flamegraph[0] ? both->flamegraph : NULL);
    sonde_json_close(out, '}');
}

static void both_text_parts(const struct sonde_load_both *m, int width, int ascii,
                            struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "time to first token, from schedule", .align = SONDE_LEFT },
        { .title = "mean", .align = SONDE_RIGHT }, { .title = "share", .align = SONDE_RIGHT },
        { .title = "p95", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    char v[SONDE_VALUE_BYTES];
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (int p = 0; p <= SONDE_LOAD_PIECE_COUNT; p++) {
        const int all = p == SONDE_LOAD_PIECE_COUNT;
        if (p == SONDE_LOAD_PIECE_FRONT && !m->has_front) continue;
        const double mean = all ? m->ttft_mean_s : m->mean_s[p];
        const int setup = p == SONDE_LOAD_PIECE_CONNECT || p == SONDE_LOAD_PIECE_TLS;
        if (setup && !(mean > 0)) continue; /* connections were there */
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s",
                         all ? "all" : sonde_load_piece_text((enum sonde_load_piece)p));
        sonde_table_cell(&t, 1, "%s", sonde_value_format(v, mean, SONDE_UNIT_SECONDS, ascii));
        sonde_table_cell(&t, 2, "%.1f %%", 100 * mean / m->ttft_mean_s);
        if (all) continue;
        sonde_table_cell(&t, 3, "%s",
                         sonde_value_format(v, m->p95_s[p], SONDE_UNIT_SECONDS, ascii));
    }
    sonde_table_render(&t, width, ascii, out);
    sonde_table_release(&t);
}

void bench_http_both_text(const struct bench_http_both *both, int width, int ascii,
                          struct sonde_buf *out)
{
    const struct sonde_load_both *m = &both->both;
    if (!both->asked) return;
    sonde_buf_printf(out, "\nserver's side, from the agent at %s: %zu of %zu requests joined",
                     both->agent, m->joined, m->measured);
    if (m->by_time) sonde_buf_printf(out, ", %zu of them by time, not by trace id", m->by_time);
    sonde_buf_putc(out, '\n');
    if (both->why[0]) sonde_buf_printf(out, "not known: %s\n", both->why);
    if (m->joined) both_text_parts(m, width, ascii, out);
    if (m->joined && m->timelines < m->joined) {
        sonde_buf_printf(out, "%zu have no timeline: of them the first decode is part of what is "
                         "not explained\n", m->joined - m->timelines);
    }
    if (both->text.len) sonde_buf_add(out, both->text.data, both->text.len);
    if (both->flamegraph[0]) sonde_buf_printf(out, "flame graph       %s\n", both->flamegraph);
}

void bench_http_both_release(struct bench_http_both *both)
{
    sonde_buf_release(&both->resources);
    sonde_buf_release(&both->findings);
    sonde_buf_release(&both->text);
}
