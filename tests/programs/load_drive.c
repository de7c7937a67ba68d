/* load_drive.c - drives the load generator itself, without what `sonde bench http` adds: for tests
 * of the engine and for perf/bench_http.py.
 *
 *   load_drive URL [--rate N] [--poisson] [--connections N] [--requests N] [--duration-ms N]
 *              [--drain-ms N] [--timeout-ms N] [--first-timeout-ms N] [--threads N] [--spin N]
 *              [--body TEXT] [--cancel RATIO] [--no-keep-alive] [--keep-text] [--header TEXT]
 *              [--answer-max N] [--records FILE] [--cacert FILE] [--insecure]
 *
 * With --rate an open loop. Prints the result as one JSON object; --records writes a line for each
 * request, with tabs: trace id, intended, sent, head, first, content, last, end (0 = never), connect,
 * events, prompt, output, cached, reasoning tokens, status, outcome, bytes, TLS handshake. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/hash.h"
#include "bench/http/load.h"
#include "sonde/sonde.h"

struct drive_source {
    struct sonde_load_source source;
    const char *body;
    uint64_t next, count;
    double rate, at_s;
    int poisson, keep_text;
    uint64_t draw, done, text_bytes;
};

static int drive_next(struct sonde_load_source *s, struct sonde_load_request *out)
{
    struct drive_source *d = (struct drive_source *)s;
    if (d->count && d->next == d->count) return SONDE_ENOENT;
    out->request = (uint32_t)d->next++;
    out->body = d->body;
    out->body_len = d->body ? strlen(d->body) : 0;
    out->keep_text = d->keep_text;
    if (d->rate > 0) {
        out->at_ns = (uint64_t)(d->at_s * 1e9);
        d->draw += SONDE_HASH_MUL;
        const double u = ((double)(sonde_hash_u64(d->draw) >> 11) + 0.5) * 0x1p-53;
        d->at_s += d->poisson ? -log(u) / d->rate : 1 / d->rate;
    }
    return 0;
}

static void drive_done(struct sonde_load_source *s, const struct sonde_load_request *r,
                       const struct sonde_load_record *record, const char *text, size_t text_len)
{
    struct drive_source *d = (struct drive_source *)s;
    (void)r, (void)record;
    d->done++;
    if (text) d->text_bytes += text_len;
}

static int drive_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void drive_quantiles(const char *name, double *v, size_t n)
{
    qsort(v, n, sizeof(*v), drive_compare);
    printf(", \"%s\": {\"count\": %zu", name, n);
    if (n) {
        printf(", \"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"max\": %.1f", v[n / 2], v[n * 9 / 10],
               v[n * 99 / 100], v[n - 1]);
    }
    printf("}");
}

static void drive_records(const char *path, const struct sonde_load_result *r)
{
    FILE *f = fopen(path, "w");
    if (!f) exit(1);
    for (size_t i = 0; i < r->record_count; i++) {
        const struct sonde_load_record *x = &r->records[i];
        fprintf(f, "%016" PRIx64 "%016" PRIx64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
                "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%u\t%u\t%d\t%d\t%d\t%d\t%u\t%s\t%" PRIu64
                "\t%u\n", x->trace[0], x->trace[1], x->intended_ns, x->sent_ns, x->head_ns, x->first_ns,
                x->content_ns, x->last_ns, x->end_ns, x->connect_ns, x->events, (int)x->prompt_tokens,
                (int)x->output_tokens, (int)x->cached_tokens, (int)x->reasoning_tokens, x->status,
                sonde_load_outcome_name(x->outcome), x->bytes,
                x->tls_ns);
    }
    fclose(f);
}

static void drive_print(const struct sonde_load_result *r, const struct drive_source *d)
{
    const double wall_s = (double)(r->end_ns - r->begin_ns) / 1e9;
    uint64_t outcomes[SONDE_LOAD_OUTCOME_COUNT] = { 0 }, events = 0, gaps = 0, tokens = 0;
    double *late = calloc(r->record_count + 1, sizeof(*late));
    double *ttft = calloc(r->record_count + 1, sizeof(*ttft));
    double *e2e = calloc(r->record_count + 1, sizeof(*e2e));
    double *scheduled = calloc(r->record_count + 1, sizeof(*scheduled));
    size_t sent = 0, firsts = 0, ok = 0;
    struct rusage used;
    for (size_t i = 0; i < r->record_count; i++) {
        const struct sonde_load_record *x = &r->records[i];
        outcomes[x->outcome]++;
        events += x->events;
        if (x->output_tokens != SONDE_LOAD_UNKNOWN) tokens += x->output_tokens;
        if (x->sent_ns) late[sent++] = (double)(x->sent_ns - x->intended_ns) / 1e3;
        if (x->first_ns) ttft[firsts++] = (double)(x->first_ns - x->sent_ns) / 1e3;
        if (x->outcome == SONDE_LOAD_OK) {
            scheduled[ok] = (double)(x->end_ns - x->intended_ns) / 1e3;
            e2e[ok++] = (double)(x->end_ns - x->sent_ns) / 1e3;
        }
    }
    for (size_t i = 0; i < r->gaps.window_count * sonde_load_gap_buckets(); i++) {
        gaps += r->gaps.counts[i];
    }
    getrusage(RUSAGE_SELF, &used);
    printf("{\"records\": %zu, \"wall_s\": %.3f, \"requests_per_s\": %.1f, \"events\": %" PRIu64
           ", \"events_per_s\": %.0f, \"gaps\": %" PRIu64 ", \"windows\": %zu, \"tokens\": %" PRIu64
           ", \"unsent\": %" PRIu64 ", \"done\": %" PRIu64 ", \"text_bytes\": %" PRIu64
           ", \"rss_max_kb\": %ld", r->record_count, wall_s, (double)ok / wall_s, events,
           (double)events / wall_s, gaps, r->gaps.window_count, tokens, r->unsent, d->done,
           d->text_bytes, used.ru_maxrss);
    for (int i = 0; i < SONDE_LOAD_OUTCOME_COUNT; i++) {
        printf(", \"%s\": %" PRIu64, sonde_load_outcome_name((enum sonde_load_outcome)i), outcomes[i]);
    }
    drive_quantiles("send_error_us", late, sent);
    drive_quantiles("ttft_us", ttft, firsts);
    drive_quantiles("e2e_us", e2e, ok);
    drive_quantiles("e2e_from_schedule_us", scheduled, ok);
    const struct sonde_load_client *c = &r->client;
    printf(", \"client\": {\"cpu_s\": %.3f, \"wall_s\": %.3f, \"spun_s\": %.3f, \"late_max_us\": %.1f, "
           "\"starved\": %" PRIu64 ", \"ready_delay_p99_us\": %.1f, \"involuntary\": %" PRIu64
           ", \"queued_s\": %.4f, \"resent\": %" PRIu64 "}", (double)c->cpu_ns / 1e9,
           (double)c->wall_ns / 1e9, (double)c->spun_ns / 1e9, (double)c->late_max_ns / 1e3,
           c->starved, (double)c->ready_delay_p99_ns / 1e3, c->involuntary,
           (double)c->queued_ns / 1e9, c->resent);
    const struct sonde_load_setup *s = &r->setup;
    printf(", \"opened\": %" PRIu64 ", \"resumed\": %" PRIu64 ", \"version\": \"%s\", "
           "\"connect_us\": %.1f, \"tls_us\": %.1f, \"why\": \"%s\"}\n", s->opened, s->resumed,
           s->version, (double)s->connect_p50_ns / 1e3, (double)s->tls_p50_ns / 1e3, s->why);
    free(late), free(ttft), free(e2e), free(scheduled);
}

static uint64_t drive_number(const char *text) { return strtoull(text, NULL, 10); }

int main(int argc, char **argv)
{
    struct drive_source d = { .source = { drive_next, drive_done }, .draw = 1 };
    const char *headers[9] = { NULL }, *records = NULL;
    size_t header_count = 0;
    struct sonde_bench_trust trust = { 0, NULL };
    struct sonde_load_options o = { .source = &d.source, .url = argc > 1 ? argv[1] : "", .spin = 1 };
    for (int i = 2; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : "";
        i++;
        if (!strcmp(a, "--rate")) d.rate = strtod(v, NULL), o.open = 1;
        else if (!strcmp(a, "--connections")) o.connections_max = (uint32_t)drive_number(v);
        else if (!strcmp(a, "--requests")) d.count = drive_number(v);
        else if (!strcmp(a, "--duration-ms")) o.duration_ns = drive_number(v) * 1000000u;
        else if (!strcmp(a, "--drain-ms")) o.drain_ns = drive_number(v) * 1000000u;
        else if (!strcmp(a, "--timeout-ms")) o.timeout_ns = drive_number(v) * 1000000u;
        else if (!strcmp(a, "--first-timeout-ms")) o.first_timeout_ns = drive_number(v) * 1000000u;
        else if (!strcmp(a, "--threads")) o.threads = (uint32_t)drive_number(v);
        else if (!strcmp(a, "--spin")) o.spin = (int)drive_number(v);
        else if (!strcmp(a, "--body")) d.body = v;
        else if (!strcmp(a, "--cancel")) o.cancel_ratio = strtod(v, NULL);
        else if (!strcmp(a, "--answer-max")) o.answer_max = drive_number(v);
        else if (!strcmp(a, "--records")) records = v;
        else if (!strcmp(a, "--cacert")) trust.ca_file = v;
        else if (!strcmp(a, "--header") && header_count < 8) headers[header_count++] = v;
        else if (i--, !strcmp(a, "--poisson")) d.poisson = 1;
        else if (!strcmp(a, "--no-keep-alive")) o.no_keep_alive = 1;
        else if (!strcmp(a, "--insecure")) trust.insecure = 1;
        else if (!strcmp(a, "--keep-text")) d.keep_text = 1;
        else {
            fprintf(stderr, "load_drive: unknown option %s\n", a);
            return 2;
        }
    }
    o.headers = headers;
    o.trust = &trust;
    struct sonde_load_result r;
    struct sonde_err err;
    const int rc = sonde_load_run(&o, &r, &err);
    if (rc) {
        fprintf(stderr, "load_drive: %s\n", err.text);
        return rc == SONDE_EINVAL ? 2 : 1;
    }
    drive_print(&r, &d);
    if (records) drive_records(records, &r);
    sonde_load_result_release(&r);
    return 0;
}
