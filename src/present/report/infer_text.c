/* infer_text.c - the part on inference of a report as text or Markdown. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "infer/tracker.h"
#include "present/report/infer.h"
#include "present/report/profile_private.h"
#include "present/report/requests.h"
#include "present/units.h"
#include "sonde/sonde.h"

static const char *infer_report_text_seconds(char out[SONDE_VALUE_BYTES], double v, int ascii)
{
    return sonde_value_format(out, v, SONDE_UNIT_SECONDS, ascii);
}

static const char *infer_report_text_count(char out[SONDE_VALUE_BYTES], double v, int ascii)
{
    return sonde_value_format(out, v, SONDE_UNIT_COUNT, ascii);
}

static const char *infer_report_text_bytes(char out[SONDE_VALUE_BYTES], uint64_t v, int ascii)
{
    return sonde_value_format(out, (double)v, SONDE_UNIT_BYTES, ascii);
}

/* ---- Facts ----------------------------------------------------------------------------------- */

static void infer_report_text_put_requests(const struct infer_report *r, struct sonde_buf *out)
{
    char text[256] = "", rate[SONDE_VALUE_BYTES], length[SONDE_VALUE_BYTES];
    const int ascii = r->o->ascii;
    size_t used = 0;
    for (uint32_t i = 0; i < SONDE_INFER_OUTCOMES; i++) {
        if (!r->all.requests[i]) continue;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%" PRIu64 " %s",
                                 used ? ", " : ": ", r->all.requests[i],
                                 sonde_infer_outcome_name(i));
    }
    report_put_fact(r->o, out, "requests", "%" PRIu64 "%s; %s a second over %s", r->all.count, text,
                    infer_report_text_count(
                        rate, r->seconds > 0 ? (double)r->all.count / r->seconds : NAN, ascii),
                    infer_report_text_seconds(length, r->seconds, ascii));
    if (r->all.invalid) {
        report_put_fact(r->o, out, "invalid", "%" PRIu64 " requests have figures that cannot be; "
                        "they are part of no statistics", r->all.invalid);
    }
    if (r->run->dropped) {
        report_put_fact(r->o, out, "dropped", "%" PRIu64 " requests did not fit in memory",
                        r->run->dropped);
    }
}

static void put_tokens(const struct infer_report *r, struct sonde_buf *out)
{
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    const int ascii = r->o->ascii;
    if (r->tokens_in) {
        report_put_fact(r->o, out, "prompts", "%" PRIu64 " tokens, %" PRIu64 " of them reused from "
                        "a cache (%.1f %%)", r->tokens_in, r->tokens_reused,
                        100 * (double)r->tokens_reused / (double)r->tokens_in);
    }
    if (r->tokens_out) {
        report_put_fact(r->o, out, "output",
                        "%" PRIu64 " tokens: %s a second in all, %s as the "
                        "median user saw it",
                        r->tokens_out,
                        infer_report_text_count(
                            a, r->seconds > 0 ? (double)r->tokens_out / r->seconds : NAN, ascii),
                        infer_report_text_count(b, r->all.dist[INFER_RATE].p50, ascii));
    }
}

static void infer_report_text_put_objectives(const struct infer_report *r, struct sonde_buf *out)
{
    const struct { const char *name; double v; } slo[] = {
        { "first token", r->run->slo_ttft_s }, { "between tokens", r->run->slo_itl_s },
        { "total", r->run->slo_total_s },
    };
    char text[256] = "", v[SONDE_VALUE_BYTES];
    size_t used = 0;
    for (size_t i = 0; i < SONDE_COUNT(slo); i++) {
        if (!(slo[i].v > 0)) continue;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s within %s",
                                 used ? ", " : "", slo[i].name,
                                 infer_report_text_seconds(v, slo[i].v, r->o->ascii));
    }
    const uint64_t met = r->all.slo_met, judged = met + r->all.slo_missed;
    if (!used) return;
    if (judged) {
        report_put_fact(r->o, out, "goodput", "%.1f %% (%" PRIu64 " of %" PRIu64 " requests met "
                        "all objectives: %s)", 100 * (double)met / (double)judged, met, judged,
                        text);
    } else {
        report_put_fact(r->o, out, "goodput", "no request to judge by the objectives: %s", text);
    }
}

static void infer_report_text_put_invalid(const struct infer_report *r, struct sonde_buf *out)
{
    for (uint32_t i = 0; i < r->run->invalid_count; i++) {
        const struct sonde_infer_invalid *v = &r->run->invalid[i];
        const char *why = sonde_infer_reason_text(v->reason);
        report_put_fact(r->o, out, "not used", "%" PRIu64 " event%s: %.200s%s%s%s", v->count,
                        v->count == 1 ? "" : "s", v->reason, *why ? " (" : "", why,
                        *why ? ")" : "");
    }
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void put_measures(const struct infer_report *r, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "MEASURE" },
        { .title = "P50", .align = SONDE_RIGHT }, { .title = "P95", .align = SONDE_RIGHT },
        { .title = "P99", .align = SONDE_RIGHT }, { .title = "MAX", .align = SONDE_RIGHT },
        { .title = "MEAN", .align = SONDE_RIGHT }, { .title = "OF", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    const int ascii = r->o->ascii;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (int m = 0; m < INFER_MEASURE_COUNT; m++) {
        const struct infer_dist *d = &r->all.dist[m];
        const double v[] = { d->p50, d->p95, d->p99, d->max, d->mean };
        char text[SONDE_VALUE_BYTES];
        if (!d->count) continue;
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", infer_measure_titles[m]);
        for (size_t k = 0; k < SONDE_COUNT(v); k++) {
            sonde_table_cell(&t, k + 1, "%s",
                             sonde_value_format(text, v[k], m == INFER_RATE ? SONDE_UNIT_COUNT
                                                                            : SONDE_UNIT_SECONDS,
                                                ascii));
        }
        sonde_table_cell(&t, 6, "%zu", d->count);
    }
    sonde_buf_putc(out, '\n');
    report_put_rows(r->o, &t, out);
}

static void infer_report_text_put_parts(const struct infer_report *r, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "MODEL", .min = 8 }, { .title = "ROUTE", .min = 8 },
        { .title = "REQUESTS", .align = SONDE_RIGHT },
        { .title = "NOT OK", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "TTFT P50", .align = SONDE_RIGHT },
        { .title = "P99", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "ITL P50", .align = SONDE_RIGHT },
        { .title = "P99", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "TOTAL P50", .align = SONDE_RIGHT, .drop = 5 },
        { .title = "P99", .align = SONDE_RIGHT, .drop = 4 },
    };
    struct sonde_table t;
    const int ascii = r->o->ascii;
    if (r->part_count < 2) return;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < r->part_count && i < r->limit; i++) {
        const struct infer_part *p = &r->parts[i];
        const double v[] = { p->dist[INFER_TTFT].p50, p->dist[INFER_TTFT].p99,
                             p->dist[INFER_ITL].p50, p->dist[INFER_ITL].p99,
                             p->dist[INFER_TOTAL].p50, p->dist[INFER_TOTAL].p99 };
        char text[SONDE_VALUE_BYTES];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", *p->model ? p->model : "no name");
        sonde_table_cell(&t, 1, "%s", p->route);
        sonde_table_cell(&t, 2, "%" PRIu64, p->count);
        sonde_table_cell(&t, 3, "%" PRIu64, p->count - p->requests[SONDE_OK]);
        for (size_t k = 0; k < SONDE_COUNT(v); k++) {
            sonde_table_cell(&t, k + 4, "%s", infer_report_text_seconds(text, v[k], ascii));
        }
    }
    report_put_heading(r->o, 3, "By model and route", out);
    report_put_rows(r->o, &t, out);
}

static void infer_report_text_put_phases(const struct infer_report *r, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "PHASE" }, { .title = "TIME", .align = SONDE_RIGHT },
        { .title = "%", .align = SONDE_RIGHT }, { .title = "REQUESTS", .align = SONDE_RIGHT },
        { .title = "EACH", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    if (!(r->phase_all_s > 0)) return;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 1; i <= SONDE_PHASE_COUNT; i++) {
        const size_t k = i % SONDE_PHASE_COUNT;
        char text[SONDE_VALUE_BYTES];
        if (!r->phase_requests[k]) continue;
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", sonde_phase_title(k));
        sonde_table_cell(&t, 1, "%s", infer_report_text_seconds(text, r->phase_s[k], r->o->ascii));
        report_percent_cell(&t, 2, r->phase_s[k] / r->phase_all_s);
        sonde_table_cell(&t, 3, "%" PRIu64, r->phase_requests[k]);
        sonde_table_cell(&t, 4, "%s",
                         infer_report_text_seconds(
                             text, r->phase_s[k] / (double)r->phase_requests[k], r->o->ascii));
    }
    report_put_heading(r->o, 3, "Phases, of all requests; batches divided by tokens", out);
    report_put_rows(r->o, &t, out);
}

static double infer_report_text_per(uint64_t tokens, double seconds)
{
    return seconds > 0 ? (double)tokens / seconds : NAN;
}

static void add_model(const struct infer_report *r, const struct sonde_infer_model *m,
                      struct sonde_table *t)
{
    char text[SONDE_VALUE_BYTES], memory[512] = "";
    const int ascii = r->o->ascii;
    size_t used = 0;
    for (uint32_t k = 0; k < m->memory_count && used < sizeof(memory); k++) {
        /* What has been freed by now is shown as it was. */
        const int freed = !m->memory[k].bytes && m->memory[k].peak;
        used += (size_t)snprintf(
            memory + used, sizeof(memory) - used, "%s%.40s %s%s", k ? ", " : "", m->memory[k].kind,
            infer_report_text_bytes(text, freed ? m->memory[k].peak : m->memory[k].bytes, ascii),
            freed ? " (freed)" : "");
    }
    sonde_table_row(t);
    sonde_table_cell(t, 0, "%s%s%s", *m->model ? m->model : "no name", *m->backend ? " on " : "",
                     m->backend);
    sonde_table_cell(t, 1, "%s", memory);
    if (m->memory_peak) {
        sonde_table_cell(t, 2, "%s", infer_report_text_bytes(text, m->memory_peak, ascii));
    }
    if (m->kv_total) {
        sonde_table_cell(t, 3, "%.1f %%", 100 * (double)m->kv_peak / (double)m->kv_total);
    }
    if (m->load_s > 0) {
        sonde_table_cell(t, 4, "%s", infer_report_text_seconds(text, m->load_s, ascii));
    }
    if (m->batches) {
        sonde_table_cell(t, 5, "%.2f", (double)m->batch_requests / (double)m->batches);
    }
    const uint32_t phases[] = { SONDE_PHASE_PREFILL, SONDE_PHASE_DECODE };
    for (size_t k = 0; k < 2; k++) {
        sonde_table_cell(t, 6 + k, "%s",
                         infer_report_text_count(text,
                                                 infer_report_text_per(m->phase_tokens[phases[k]],
                                                                       m->phase_s[phases[k]]),
                                                 ascii));
    }
}

static void put_models(const struct infer_report *r, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "MODEL", .min = 8 }, { .title = "MEMORY", .min = 12, .drop = 1 },
        { .title = "PEAK", .align = SONDE_RIGHT },
        { .title = "KV PEAK", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "LOAD", .align = SONDE_RIGHT, .drop = 4 },
        { .title = "BATCH", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "PREFILL/s", .align = SONDE_RIGHT },
        { .title = "DECODE/s", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    if (!r->run->model_count) return;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < r->run->model_count && i < r->limit; i++) {
        add_model(r, &r->run->models[i], &t);
    }
    report_put_heading(r->o, 3, "Models", out);
    report_put_rows(r->o, &t, out);
}

static void put_slowest(const struct infer_report *r, struct sonde_buf *out)
{
    const int markdown = r->o->style == SONDE_REPORT_MARKDOWN;
    const struct sonde_requests_style style = { .width = markdown ? 0 : r->o->width,
                                                .ascii = r->o->ascii };
    if (!r->slowest_count || r->o->pdf) return; /* time lines of characters are not for paper */
    report_put_heading(r->o, 3, "Slowest requests", out);
    if (markdown) sonde_buf_puts(out, "```\n");
    const int rc = sonde_requests_text(r->slowest, r->slowest_count, SONDE_REQUESTS_SLOWEST, &style,
                                       out);
    if (rc) out->error = rc;
    if (markdown) sonde_buf_puts(out, "```\n");
}

void infer_report_text(const struct infer_report *r, struct sonde_buf *out)
{
    if (!r->run) return;
    report_put_heading(r->o, 2, "Inference", out);
    infer_report_text_put_requests(r, out);
    put_tokens(r, out);
    infer_report_text_put_objectives(r, out);
    infer_report_text_put_invalid(r, out);
    put_measures(r, out);
    infer_report_text_put_parts(r, out);
    infer_report_text_put_phases(r, out);
    put_models(r, out);
    put_slowest(r, out);
}
