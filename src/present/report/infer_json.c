/* infer_json.c - the part on inference of a report for programs. */
#include <math.h>

#include "base/json.h"
#include "present/report/infer.h"
#include "present/report/requests.h"

static void infer_report_json_put_part(const struct infer_part *p, struct sonde_buf *out)
{
    sonde_json_u64(out, "requests_total", p->count);
    sonde_json_key_open(out, "requests", '{');
    for (uint32_t i = 0; i < SONDE_INFER_OUTCOMES; i++) {
        sonde_json_u64(out, sonde_infer_outcome_name(i), p->requests[i]);
    }
    sonde_json_close(out, '}');
    sonde_json_u64(out, "requests_invalid", p->invalid);
    sonde_json_u64(out, "slo_met", p->slo_met);
    sonde_json_u64(out, "slo_missed", p->slo_missed);
    sonde_json_key_open(out, "measures", '{');
    for (int m = 0; m < INFER_MEASURE_COUNT; m++) {
        const struct infer_dist *d = &p->dist[m];
        sonde_json_key_open(out, infer_measure_keys[m], '{');
        sonde_json_u64(out, "count", d->count);
        sonde_json_num(out, "mean", d->mean);
        sonde_json_num(out, "p50", d->p50);
        sonde_json_num(out, "p95", d->p95);
        sonde_json_num(out, "p99", d->p99);
        sonde_json_num(out, "max", d->max);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, '}');
}

static void infer_report_json_put_totals(const struct infer_report *r, struct sonde_buf *out)
{
    const struct sonde_infer_run *run = r->run;
    sonde_json_num(out, "seconds", r->seconds);
    sonde_json_u64(out, "tokens_in", r->tokens_in);
    sonde_json_u64(out, "tokens_reused", r->tokens_reused);
    sonde_json_u64(out, "tokens_out", r->tokens_out);
    sonde_json_num(out, "hit_ratio",
                   r->tokens_in ? (double)r->tokens_reused / (double)r->tokens_in : NAN);
    sonde_json_num(out, "tokens_per_s",
                   r->seconds > 0 ? (double)r->tokens_out / r->seconds : NAN);
    sonde_json_key_open(out, "slo", '{');
    sonde_json_num(out, "ttft_s", run->slo_ttft_s > 0 ? run->slo_ttft_s : NAN);
    sonde_json_num(out, "itl_s", run->slo_itl_s > 0 ? run->slo_itl_s : NAN);
    sonde_json_num(out, "total_s", run->slo_total_s > 0 ? run->slo_total_s : NAN);
    sonde_json_close(out, '}');
    sonde_json_u64(out, "requests_dropped", run->dropped);
    sonde_json_key_open(out, "invalid_events", '{');
    for (uint32_t i = 0; i < run->invalid_count; i++) {
        sonde_json_u64(out, run->invalid[i].reason, run->invalid[i].count);
    }
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "phases", '{');
    for (size_t k = 0; k < SONDE_PHASE_COUNT; k++) {
        if (!r->phase_requests[k]) continue;
        sonde_json_key_open(out, sonde_phase_title(k), '{');
        sonde_json_num(out, "seconds", r->phase_s[k]);
        sonde_json_num(out, "share", r->phase_all_s > 0 ? r->phase_s[k] / r->phase_all_s : NAN);
        sonde_json_u64(out, "requests", r->phase_requests[k]);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, '}');
}

static void infer_report_json_put_model(const struct sonde_infer_model *m, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "model", m->model);
    sonde_json_str(out, "backend", *m->backend ? m->backend : NULL);
    sonde_json_u64(out, "pid", m->pid);
    sonde_json_str(out, "source", sonde_infer_source_name(m->source));
    sonde_json_num(out, "load_s", m->load_s > 0 ? m->load_s : NAN);
    sonde_json_u64(out, "load_bytes", m->load_bytes);
    sonde_json_u64(out, "memory_peak_bytes", m->memory_peak);
    sonde_infer_memory_json(out, m);
    sonde_json_u64(out, "kv_total", m->kv_total);
    sonde_json_u64(out, "kv_peak", m->kv_peak);
    sonde_json_u64(out, "batches", m->batches);
    sonde_json_u64(out, "batch_requests", m->batch_requests);
    sonde_json_u64(out, "batch_tokens", m->batch_tokens);
    sonde_json_u64(out, "prefill_tokens", m->phase_tokens[SONDE_PHASE_PREFILL]);
    sonde_json_num(out, "prefill_s", m->phase_s[SONDE_PHASE_PREFILL]);
    sonde_json_u64(out, "decode_tokens", m->phase_tokens[SONDE_PHASE_DECODE]);
    sonde_json_num(out, "decode_s", m->phase_s[SONDE_PHASE_DECODE]);
    sonde_json_close(out, '}');
}

void infer_report_json(const struct infer_report *r, struct sonde_buf *out)
{
    if (!r->run) return;
    sonde_json_key_open(out, "inference", '{');
    infer_report_json_put_totals(r, out);
    infer_report_json_put_part(&r->all, out);
    sonde_json_key_open(out, "routes", '[');
    for (size_t i = 0; i < r->part_count && i < r->limit; i++) {
        sonde_json_open(out, '{');
        sonde_json_str(out, "model", r->parts[i].model);
        sonde_json_str(out, "route", r->parts[i].route);
        infer_report_json_put_part(&r->parts[i], out);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "models", '[');
    for (size_t i = 0; i < r->run->model_count && i < r->limit; i++) {
        infer_report_json_put_model(&r->run->models[i], out);
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "slowest", '[');
    for (size_t i = 0; i < r->slowest_count; i++) sonde_request_json(out, r->slowest[i]);
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}
