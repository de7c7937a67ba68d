/* bench_json.c - a load as JSON: the members that results of its kind have (result.h), and records
 * as lines. Times are seconds; what is not known is null. */
#include <math.h>
#include <stdio.h>

#include "base/array.h"
#include "base/json.h"
#include "bench/http/bench.h"

static void bench_json_metric(struct sonde_buf *out, const char *name,
                              const struct sonde_load_metric *m)
{
    sonde_json_key_open(out, name, '{');
    sonde_json_u64(out, "count", m->count);
    sonde_json_num(out, "mean", m->mean);
    sonde_json_num(out, "mean_low", m->mean_low);
    sonde_json_num(out, "mean_high", m->mean_high);
    sonde_json_num(out, "min", m->min);
    sonde_json_num(out, "max", m->max);
    for (int q = 0; q < SONDE_LOAD_QUANTILE_COUNT; q++) {
        const char *p = sonde_load_quantile_name((enum sonde_load_quantile_id)q);
        char key[24];
        sonde_json_num(out, p, m->q[q].value);
        snprintf(key, sizeof(key), "%s_low", p);
        sonde_json_num(out, key, m->q[q].low);
        snprintf(key, sizeof(key), "%s_high", p);
        sonde_json_num(out, key, m->q[q].high);
    }
    /* Why percentiles are null. */
    sonde_json_key_open(out, "too_few", '{');
    for (int q = 0; q < SONDE_LOAD_QUANTILE_COUNT; q++) {
        const uint64_t least = sonde_load_quantile_least((enum sonde_load_quantile_id)q);
        char why[96];
        if (m->count >= least) continue;
        snprintf(why, sizeof(why), "%llu values; %llu are needed", (unsigned long long)m->count,
                 (unsigned long long)least);
        sonde_json_str(out, sonde_load_quantile_name((enum sonde_load_quantile_id)q), why);
    }
    sonde_json_close(out, '}');
    sonde_json_close(out, '}');
}

static void bench_json_rates(struct sonde_buf *out, const struct sonde_load_measures *m)
{
    for (int id = 0; id < SONDE_LOAD_RATE_COUNT; id++) {
        sonde_json_num(out, sonde_load_rate_name((enum sonde_load_rate_id)id), m->rates[id].value);
    }
    sonde_json_num(out, "goodput_ratio", m->good_ratio);
}

static void bench_json_requests(struct sonde_buf *out, const struct sonde_load_bench *b)
{
    const struct sonde_load_measures *m = &b->measures;
    sonde_json_key_open(out, "requests", '{');
    sonde_json_u64(out, "due", m->due);
    sonde_json_u64(out, "sent", m->sent);
    sonde_json_u64(out, "unsent", b->load.unsent);
    sonde_json_u64(out, "ok", m->outcomes[SONDE_LOAD_OK]);
    uint64_t failed = 0;
    for (size_t i = 1; i < SONDE_LOAD_CANCELLED; i++) failed += m->outcomes[i];
    sonde_json_u64(out, "failed", failed);
    sonde_json_u64(out, "cancelled", m->outcomes[SONDE_LOAD_CANCELLED]);
    sonde_json_u64(out, "measured", m->measured);
    sonde_json_num(out, "effective", m->effective);
    sonde_json_key_open(out, "by_outcome", '{');
    for (size_t i = 0; i < SONDE_LOAD_OUTCOME_COUNT; i++) {
        if (!m->outcomes[i]) continue;
        sonde_json_u64(out, sonde_load_outcome_name((enum sonde_load_outcome)i), m->outcomes[i]);
    }
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "by_status", '{');
    for (size_t i = 0; i < SONDE_COUNT(m->statuses); i++) {
        char key[8];
        snprintf(key, sizeof(key), "%zuxx", i);
        if (m->statuses[i]) sonde_json_u64(out, i ? key : "other", m->statuses[i]);
    }
    sonde_json_close(out, '}');
    sonde_json_u64(out, "turns_not_sent", b->broken_turns);
    sonde_json_close(out, '}');
}

static void bench_json_window(struct sonde_buf *out, const struct sonde_load_bench *b)
{
    const struct sonde_load_measures *m = &b->measures;
    const double from = b->begin_unix_s + m->warmup_s;
    sonde_json_key_open(out, "window", '{');
    sonde_json_num(out, "run_s", m->run_s);
    sonde_json_num(out, "warmup_s", m->warmup_s);
    sonde_json_str(out, "warmup", m->warmup_found ? "found" : "given");
    sonde_json_num(out, "seconds", m->window_s);
    sonde_json_time(out, "from", from);
    sonde_json_time(out, "to", from + m->window_s);
    sonde_json_key(out, "steady");
    sonde_buf_puts(out, !m->steady_known ? "null" : m->steady ? "true" : "false");
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "schedule", '{');
    sonde_json_str(out, "loop", b->open ? "open" : "closed");
    sonde_json_num(out, "planned_per_s", m->planned_rate);
    sonde_json_num(out, "sent_per_s", m->sent_rate);
    sonde_json_num(out, "delay_p50_s", m->send_delay_p50_s);
    sonde_json_num(out, "delay_p99_s", m->send_delay_p99_s);
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "little", '{');
    sonde_json_num(out, "under_way_mean", m->in_flight);
    sonde_json_num(out, "rate_times_latency", m->little);
    sonde_json_close(out, '}');
}

static void bench_json_tokens(struct sonde_buf *out, const struct sonde_load_measures *m)
{
    static const char *const bases[] = { "usage", "events", "unknown" };
    sonde_json_key_open(out, "tokens", '{');
    sonde_json_str(out, "counted_by", bases[m->token_basis]);
    sonde_json_num(out, "prompt_mean", m->prompt_tokens_mean);
    sonde_json_num(out, "output_mean", m->output_tokens_mean);
    sonde_json_num(out, "cached_ratio", m->cached_ratio);
    sonde_json_num(out, "reasoning_ratio", m->reasoning_ratio);
    sonde_json_num(out, "per_chunk", m->tokens_per_chunk);
    sonde_json_str(out, "itl_of", m->itl_of_gaps ? "gaps" : "means of answers");
    sonde_json_close(out, '}');
}

static void bench_json_client(struct sonde_buf *out, const struct sonde_load_client *c)
{
    const double wall = (double)c->wall_ns;
    sonde_json_key_open(out, "client", '{');
    sonde_json_num(out, "cpu_ratio", wall > 0 ? (double)c->cpu_ns / wall : NAN);
    sonde_json_num(out, "spun_ratio", wall > 0 ? (double)c->spun_ns / wall : NAN);
    sonde_json_num(out, "queued_ratio", wall > 0 ? (double)c->queued_ns / wall : NAN);
    sonde_json_ns(out, "late_max_s", c->late_max_ns);
    sonde_json_ns(out, "ready_delay_p99_s", c->ready_delay_p99_ns);
    sonde_json_u64(out, "starved", c->starved);
    sonde_json_u64(out, "involuntary_switches", c->involuntary);
    sonde_json_close(out, '}');
}

/* How the requests that had none got a connection, and what it was. */
static void bench_json_setup(struct sonde_buf *out, const struct sonde_load_bench *b)
{
    const struct sonde_load_setup *s = &b->load.setup;
    uint64_t waited = 0, failed = 0;
    for (size_t i = 0; i < b->load.record_count; i++) waited += b->load.records[i].connect_ns != 0;
    sonde_json_key_open(out, "connections", '{');
    sonde_json_u64(out, "opened", s->opened);
    sonde_json_u64(out, "requests_that_waited", waited);
    sonde_json_ns(out, "connect_p50_s", s->connect_p50_ns);
    sonde_json_ns(out, "connect_p99_s", s->connect_p99_ns);
    if (!s->tls) {
        sonde_json_str(out, "tls", NULL);
        sonde_json_close(out, '}');
        return;
    }
    sonde_json_key_open(out, "tls", '{');
    sonde_json_str(out, "version", s->version[0] ? s->version : NULL);
    sonde_json_str(out, "cipher", s->cipher[0] ? s->cipher : NULL);
    sonde_json_bool(out, "verified", s->verified);
    sonde_json_u64(out, "resumed", s->resumed);
    sonde_json_ns(out, "handshake_p50_s", s->tls_p50_ns);
    sonde_json_ns(out, "handshake_p99_s", s->tls_p99_ns);
    sonde_json_key_open(out, "failed", '{');
    for (size_t i = 0; i < SONDE_BENCH_TLS_PROBLEM_COUNT; i++) {
        const enum sonde_bench_tls_problem p = (enum sonde_bench_tls_problem)i;
        if (s->failed[i]) sonde_json_u64(out, sonde_bench_tls_problem_name(p), s->failed[i]);
        failed += s->failed[i];
    }
    sonde_json_close(out, '}');
    sonde_json_str(out, "why", failed ? s->why : NULL);
    sonde_json_close(out, '}');
    sonde_json_close(out, '}');
}

static void bench_json_target(struct sonde_buf *out, const struct sonde_load_plan *p,
                              const struct sonde_load_target *t)
{
    sonde_json_key_open(out, "target", '{');
    sonde_json_str(out, "url", t->url);
    sonde_json_str(out, "api", sonde_load_api_name(t->api));
    sonde_json_str(out, "model", t->model[0] ? t->model : NULL);
    sonde_json_bool(out, "stream", p->stream);
    sonde_json_bool(out, "ignore_eos", t->ignore_eos);
    sonde_json_bool(out, "calibrated", t->calibration.known);
    sonde_json_num(out, "tokens_per_word", t->calibration.known ? t->calibration.per_word : NAN);
    sonde_json_close(out, '}');
}

void sonde_load_bench_json(const struct sonde_load_plan *p, const struct sonde_load_bench *b,
                           struct sonde_bench_result *result)
{
    struct sonde_buf *out = &result->extra;
    bench_json_target(out, p, &b->target);
    bench_json_rates(out, &b->measures);
    sonde_json_key_open(out, "metrics", '{');
    for (int id = 0; id < SONDE_LOAD_METRIC_COUNT; id++) {
        bench_json_metric(out, sonde_load_metric_name((enum sonde_load_metric_id)id),
                          &b->measures.metrics[id]);
    }
    sonde_json_close(out, '}');
    bench_json_requests(out, b);
    bench_json_window(out, b);
    bench_json_tokens(out, &b->measures);
    bench_json_client(out, &b->load.client);
    bench_json_setup(out, b);
    sonde_json_key_open(out, "remarks", '[');
    for (size_t i = 0; i < b->remarks.count; i++) sonde_json_str(out, NULL, b->remarks.text[i]);
    for (size_t i = 0; i < SONDE_COUNT(b->target.notes); i++) {
        if (b->target.notes[i][0]) sonde_json_str(out, NULL, b->target.notes[i]);
    }
    sonde_json_close(out, ']');
}

/* ---- Records --------------------------------------------------------------------------------- */

/* Seconds since the beginning of the run; null = it never came to that. */
static void bench_json_at(struct sonde_buf *out, const char *key, uint64_t ns, uint64_t begin_ns)
{
    sonde_json_num(out, key, ns ? ((double)ns - (double)begin_ns) * 1e-9 : NAN);
}

static void bench_json_count(struct sonde_buf *out, const char *key, uint32_t n)
{
    if (n == SONDE_LOAD_UNKNOWN) sonde_json_str(out, key, NULL);
    else sonde_json_u64(out, key, n);
}

void sonde_load_bench_records(const struct sonde_load_bench *b, struct sonde_buf *out)
{
    const uint64_t begin = b->load.begin_ns;
    for (size_t i = 0; i < b->load.record_count; i++) {
        const struct sonde_load_record *r = &b->load.records[i];
        sonde_buf_putc(out, '{');
        sonde_json_u64(out, "request", r->request);
        sonde_json_id(out, "trace_id", r->trace, 2);
        sonde_json_str(out, "outcome",
                       sonde_load_outcome_name((enum sonde_load_outcome)r->outcome));
        sonde_json_u64_or_null(out, "status", r->status);
        sonde_json_bool(out, "measured", sonde_load_measured(&b->measures, r));
        bench_json_at(out, "intended_s", r->intended_ns, begin);
        bench_json_at(out, "sent_s", r->sent_ns, begin);
        bench_json_at(out, "head_s", r->head_ns, begin);
        bench_json_at(out, "first_s", r->first_ns, begin);
        bench_json_at(out, "content_s", r->content_ns, begin);
        bench_json_at(out, "last_s", r->last_ns, begin);
        bench_json_at(out, "end_s", r->end_ns, begin);
        sonde_json_num(out, "connect_s", r->connect_ns * 1e-9);
        sonde_json_num(out, "tls_s", r->tls_ns * 1e-9);
        if (r->tls_problem) {
            sonde_json_str(out, "tls_problem", sonde_bench_tls_problem_name(
                           (enum sonde_bench_tls_problem)r->tls_problem));
        }
        sonde_json_u64(out, "events", r->events);
        sonde_json_u64(out, "bytes", r->bytes);
        bench_json_count(out, "prompt_tokens", r->prompt_tokens);
        bench_json_count(out, "output_tokens", r->output_tokens);
        bench_json_count(out, "cached_tokens", r->cached_tokens);
        sonde_buf_puts(out, "}\n");
        if (out->error) return;
    }
}
