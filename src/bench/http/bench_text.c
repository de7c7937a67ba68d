/* bench_text.c - a load as a person reads it: verdict first, then latencies, rates, what failed,
 * and how it was measured. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "bench/http/bench.h"
#include "present/table.h"
#include "present/text.h"
#include "present/units.h"

static const char *text_value(char out[SONDE_VALUE_BYTES], double v, enum sonde_unit u, int ascii)
{
    return sonde_value_format(out, v, u, ascii);
}

/* Words at most so wide, later lines below the first. */
static void text_wrap(struct sonde_buf *out, const char *first, const char *text, int width)
{
    const int indent = sonde_text_cells(first, 0);
    int at = indent;
    sonde_buf_puts(out, first);
    for (const char *word = text; *word;) {
        const size_t len = strcspn(word, " ");
        char one[SONDE_LOAD_REMARK_SIZE];
        snprintf(one, sizeof(one), "%.*s", (int)len, word);
        const int cells = sonde_text_cells(one, 0);
        if (at > indent && at + 1 + cells > width) {
            sonde_buf_printf(out, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            sonde_buf_putc(out, ' ');
            at++;
        }
        sonde_buf_puts(out, one);
        at += cells;
        word += len;
        while (*word == ' ') word++;
    }
    sonde_buf_putc(out, '\n');
}

static void text_head(const struct sonde_load_plan *p, const struct sonde_load_bench *b,
                      struct sonde_buf *out)
{
    const struct sonde_load_target *t = &b->target;
    const struct sonde_load_measures *m = &b->measures;
    sonde_buf_printf(out, "%s  %s%s%s\n", t->url, sonde_load_api_name(t->api),
                     t->model[0] ? ", model " : "", t->model);
    if (b->open) {
        sonde_buf_printf(out, "open loop, ");
        if (p->replay) sonde_buf_printf(out, "replay of %zu requests", p->trace->count);
        else sonde_buf_printf(out, "%.4g requests/s planned", m->planned_rate);
    } else {
        sonde_buf_printf(out, "closed loop, concurrency %u", p->concurrency ? p->concurrency : 1);
    }
    sonde_buf_printf(out, "; %s; seed %llu\n", p->stream ? "streamed" : "not streamed",
                     (unsigned long long)p->seed);
    const struct sonde_load_setup *s = &b->load.setup;
    if (s->version[0]) {
        sonde_buf_printf(out, "%s, %s; certificate %s\n", s->version, s->cipher,
                         s->verified ? "verified" : "NOT verified (--insecure)");
    }
}

static void text_verdict(const struct sonde_load_bench *b, const struct sonde_bench_result *r,
                         int width, struct sonde_buf *out)
{
    sonde_buf_printf(out, "\nverdict: %s\n", r->reason_count ? "NOT VALID" : "valid");
    for (size_t i = 0; i < r->reason_count; i++) text_wrap(out, "  - ", r->reasons[i], width);
    for (size_t i = 0; i < b->remarks.count; i++) {
        text_wrap(out, "  note: ", b->remarks.text[i], width);
    }
    for (size_t i = 0; i < SONDE_COUNT(b->target.notes); i++) {
        if (b->target.notes[i][0]) text_wrap(out, "  note: ", b->target.notes[i], width);
    }
}

/* Rows that say the same as the one before are left out: by token = by chunk, from schedule = from
 * sending in a closed loop, no reasoning. */
static int text_shown(const struct sonde_load_bench *b, int id)
{
    const struct sonde_load_metric *m = b->measures.metrics;
    if (!m[id].count) return 0;
    if (id == SONDE_LOAD_METRIC_ITL_CHUNK) return !b->measures.itl_of_gaps;
    if (id == SONDE_LOAD_METRIC_TTFT_CONTENT) {
        return fabs(m[id].mean - m[SONDE_LOAD_METRIC_TTFT].mean) > 1e-9;
    }
    if (id == SONDE_LOAD_METRIC_TTFT_SCHEDULE || id == SONDE_LOAD_METRIC_E2E_SCHEDULE) {
        return b->open;
    }
    return 1;
}

static void text_quantile(char *out, size_t size, const struct sonde_load_quantile *q, int ascii)
{
    char v[SONDE_VALUE_BYTES];
    /* ±: the wider side of the interval. */
    const double arm = fmax(q->value - q->low, q->high - q->value);
    if (isnan(q->value)) {
        snprintf(out, size, "%s", ascii ? "-" : "–");
    } else if (isnan(q->low) || isnan(q->high)) {
        snprintf(out, size, "%s ±?", text_value(v, q->value, SONDE_UNIT_SECONDS, ascii));
    } else if (arm > 9.99 * q->value) {
        snprintf(out, size, "%s ±>999%%", text_value(v, q->value, SONDE_UNIT_SECONDS, ascii));
    } else {
        snprintf(out, size, "%s ±%.*f%%", text_value(v, q->value, SONDE_UNIT_SECONDS, ascii),
                 arm / q->value < 0.1 ? 1 : 0, 100 * arm / q->value);
    }
}

static void text_latencies(const struct sonde_load_bench *b, int width, int ascii,
                           struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "latency", .align = SONDE_LEFT },
        { .title = "p50", .align = SONDE_RIGHT }, { .title = "p90", .align = SONDE_RIGHT },
        { .title = "p95", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "p99", .align = SONDE_RIGHT },
        { .title = "p99.9", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "count", .align = SONDE_RIGHT, .drop = 3 },
    };
    struct sonde_table t;
    int few = 0;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (int id = 0; id < SONDE_LOAD_METRIC_COUNT; id++) {
        if (!text_shown(b, id)) continue;
        const struct sonde_load_metric *m = &b->measures.metrics[id];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", sonde_load_metric_text((enum sonde_load_metric_id)id));
        for (size_t q = 0; q < SONDE_LOAD_QUANTILE_COUNT; q++) {
            char cell[64];
            text_quantile(cell, sizeof(cell), &m->q[q], ascii);
            few |= isnan(m->q[q].value);
            sonde_table_cell(&t, 1 + q, "%s", cell);
        }
        sonde_table_cell(&t, 6, "%llu", (unsigned long long)m->count);
    }
    sonde_buf_putc(out, '\n');
    if (t.row_count) sonde_table_render(&t, width, ascii, out);
    if (few && t.row_count) {
        sonde_buf_printf(out, "%s: too few requests for this percentile (p90 needs 36, p95 72, p99 "
                         "368, p99.9 3688)\n", ascii ? "-" : "–");
    }
    sonde_table_release(&t);
}

static void text_rates(const struct sonde_load_bench *b, int ascii, struct sonde_buf *out)
{
    static const char *const names[] = { "requests/s", "output tokens/s", "all tokens/s",
                                         "goodput/s" };
    const struct sonde_load_measures *m = &b->measures;
    sonde_buf_putc(out, '\n');
    for (int id = 0; id < SONDE_LOAD_RATE_COUNT; id++) {
        char v[SONDE_VALUE_BYTES], low[SONDE_VALUE_BYTES], high[SONDE_VALUE_BYTES];
        const struct sonde_load_rate *r = &m->rates[id];
        if (isnan(r->value)) continue;
        sonde_buf_printf(out, "%-18s%9s", names[id],
                         text_value(v, r->value, SONDE_UNIT_COUNT, ascii));
        if (!isnan(r->low)) {
            sonde_buf_printf(out, "   (%s to %s)", text_value(low, r->low, SONDE_UNIT_COUNT, ascii),
                             text_value(high, r->high, SONDE_UNIT_COUNT, ascii));
        }
        if (id == SONDE_LOAD_RATE_GOODPUT && !isnan(m->good_ratio)) {
            sonde_buf_printf(out, "   %.1f %% met the objectives", 100 * m->good_ratio);
        }
        sonde_buf_putc(out, '\n');
    }
}

static void text_counts(const struct sonde_load_bench *b, struct sonde_buf *out)
{
    const struct sonde_load_measures *m = &b->measures;
    sonde_buf_printf(out, "%-18s%9llu sent, %llu ok", "requests", (unsigned long long)m->sent,
                     (unsigned long long)m->outcomes[SONDE_LOAD_OK]);
    for (size_t i = 1; i < SONDE_LOAD_OUTCOME_COUNT; i++) {
        if (!m->outcomes[i]) continue;
        sonde_buf_printf(out, ", %llu %s", (unsigned long long)m->outcomes[i],
                         sonde_load_outcome_name((enum sonde_load_outcome)i));
    }
    if (b->load.unsent) {
        sonde_buf_printf(out, ", %llu due and not sent", (unsigned long long)b->load.unsent);
    }
    sonde_buf_printf(out, "; %llu measured, worth %.0f independent\n",
                     (unsigned long long)m->measured, m->effective);
    if (!isnan(m->output_tokens_mean)) {
        sonde_buf_printf(out, "%-18s%9.1f out", "tokens, mean", m->output_tokens_mean);
        if (!isnan(m->prompt_tokens_mean)) {
            sonde_buf_printf(out, ", %.1f in", m->prompt_tokens_mean);
        }
        if (!isnan(m->cached_ratio)) {
            sonde_buf_printf(out, ", %.1f %% of those from a cache", 100 * m->cached_ratio);
        }
        if (m->token_basis == SONDE_LOAD_TOKENS_EVENTS) sonde_buf_puts(out, " (counted as events)");
        sonde_buf_putc(out, '\n');
    }
}

/* What opening a connection takes: in no latency from sending. */
static void text_setup(const struct sonde_load_setup *s, int ascii, struct sonde_buf *out)
{
    char v[2][SONDE_VALUE_BYTES];
    if (!s->opened) return;
    sonde_buf_printf(out, "%-18s%9llu opened; TCP %s (p99 %s)", "connections",
                     (unsigned long long)s->opened,
                     text_value(v[0], (double)s->connect_p50_ns * 1e-9, SONDE_UNIT_SECONDS, ascii),
                     text_value(v[1], (double)s->connect_p99_ns * 1e-9, SONDE_UNIT_SECONDS, ascii));
    if (s->tls) {
        sonde_buf_printf(out, ", TLS %s (p99 %s), %llu resumed",
                         text_value(v[0], (double)s->tls_p50_ns * 1e-9, SONDE_UNIT_SECONDS, ascii),
                         text_value(v[1], (double)s->tls_p99_ns * 1e-9, SONDE_UNIT_SECONDS, ascii),
                         (unsigned long long)s->resumed);
    }
    sonde_buf_putc(out, '\n');
}

static void text_method(const struct sonde_load_bench *b, int ascii, struct sonde_buf *out)
{
    char v[4][SONDE_VALUE_BYTES];
    const struct sonde_load_measures *m = &b->measures;
    const struct sonde_load_client *c = &b->load.client;
    const double wall = (double)c->wall_ns;
    sonde_buf_printf(out, "%-18s%9s measured after %s of warm-up (%s)\n", "window",
                     text_value(v[0], m->window_s, SONDE_UNIT_SECONDS, ascii),
                     text_value(v[1], m->warmup_s, SONDE_UNIT_SECONDS, ascii),
                     m->warmup_found ? "found" : "given");
    sonde_buf_printf(out, "%-18s%9.3g under way on average; rate times latency %.3g\n",
                     "concurrency", m->in_flight, m->little);
    sonde_buf_printf(out, "%-18s%9s after due (p99 %s); %.0f %% of a CPU", "client sends",
                     text_value(v[2], m->send_delay_p50_s, SONDE_UNIT_SECONDS, ascii),
                     text_value(v[3], m->send_delay_p99_s, SONDE_UNIT_SECONDS, ascii),
                     wall > 0 ? 100 * (double)c->cpu_ns / wall : 0);
    if (c->spun_ns) sonde_buf_printf(out, ", %.0f %% spinning", 100 * (double)c->spun_ns / wall);
    sonde_buf_putc(out, '\n');
}

void sonde_load_bench_text(const struct sonde_load_plan *p, const struct sonde_load_bench *b,
                           const struct sonde_bench_result *result, int width, int ascii,
                           struct sonde_buf *out)
{
    text_head(p, b, out);
    text_verdict(b, result, width, out);
    text_latencies(b, width, ascii, out);
    text_rates(b, ascii, out);
    text_counts(b, out);
    text_setup(&b->load.setup, ascii, out);
    text_method(b, ascii, out);
}
