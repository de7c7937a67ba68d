/* profile_csv.c - a report as one long table (csv.h): the figures of all of its sections. */
#include <math.h>
#include <stdio.h>

#include "base/array.h"
#include "present/report/csv.h"
#include "present/report/ml.h"
#include "present/report/profile_private.h"

static void csv_run(const struct report *r, struct sonde_buf *out)
{
    const struct sonde_profile *p = r->p;
    const struct report_csv c = { .out = out, .section = "run",
                                  .program = sonde_profile_str(p, p->program) };
    struct report_summary s;
    report_summary_of(r, &s);
    report_csv_text(&c, "command", sonde_profile_str(p, p->command));
    report_csv_text(&c, "host", sonde_profile_str(p, p->host));
    if (p->start_ns) report_csv_num(&c, "start", (double)p->start_ns * 1e-9, "unix seconds");
    report_csv_num(&c, "duration", s.seconds, "seconds");
    report_csv_u64(&c, "samples", r->samples, "");
    if (r->tree) report_csv_u64(&c, "lost_records", p->lost_records, "");
    for (int i = 0; r->findings && i < 3; i++) {
        const struct report_csv one = { .out = out, .section = "run", .program = c.program,
                                        .name = "findings",
                                        .detail = sonde_severity_name((enum sonde_severity)i) };
        report_csv_u64(&one, "count", s.severities[i], "");
    }
}

static void csv_findings(const struct report *r, struct sonde_buf *out)
{
    for (size_t i = 0; r->findings && i < r->findings->causes; i++) {
        const struct sonde_finding *f = &r->findings->rows[i];
        const struct report_csv c = { .out = out, .section = "findings", .name = f->subject,
                                      .detail = f->kind };
        report_csv_text(&c, "severity", sonde_severity_name(f->severity));
        report_csv_num(&c, "impact", f->impact, "ratio");
        report_csv_num(&c, "confidence", f->confidence, "ratio");
        report_csv_num(&c, "gain", f->gain, "ratio");
        report_csv_num(&c, "seconds", f->seconds, "seconds");
        report_csv_num(&c, "bytes", f->bytes, "bytes");
        report_csv_num(&c, "count", f->count, "");
        report_csv_text(&c, "text", f->text);
        report_csv_text(&c, "advice", f->advice);
    }
}

/* ---- Inference ------------------------------------------------------------------------------- */

static void csv_part(const struct infer_part *part, struct report_csv c)
{
    for (uint32_t i = 0; i < SONDE_INFER_OUTCOMES; i++) {
        char figure[64];
        snprintf(figure, sizeof(figure), "requests_%.40s", sonde_infer_outcome_name(i));
        report_csv_u64(&c, figure, part->requests[i], "");
    }
    for (int m = 0; m < INFER_MEASURE_COUNT; m++) {
        const struct infer_dist *d = &part->dist[m];
        const struct { const char *name; double value; } figures[] = {
            { "mean", d->mean }, { "p50", d->p50 }, { "p95", d->p95 }, { "p99", d->p99 },
            { "max", d->max },
        };
        for (size_t k = 0; k < SONDE_COUNT(figures); k++) {
            char figure[64];
            snprintf(figure, sizeof(figure), "%.30s_%s", infer_measure_keys[m], figures[k].name);
            report_csv_num(&c, figure, figures[k].value,
                           m == INFER_RATE ? "tokens per second" : "seconds");
        }
    }
}

static void csv_infer(const struct infer_report *r, struct sonde_buf *out)
{
    struct report_csv c = { .out = out, .section = "inference" };
    if (!r->run) return;
    report_csv_u64(&c, "tokens_in", r->tokens_in, "");
    report_csv_u64(&c, "tokens_reused", r->tokens_reused, "");
    report_csv_u64(&c, "tokens_out", r->tokens_out, "");
    report_csv_num(&c, "seconds", r->seconds, "seconds");
    csv_part(&r->all, c);
    for (size_t i = 0; i < r->part_count; i++) {
        c.name = r->parts[i].model;
        c.detail = r->parts[i].route;
        csv_part(&r->parts[i], c);
    }
    c = (struct report_csv){ .out = out, .section = "inference_phases" };
    for (size_t k = 0; k < SONDE_PHASE_COUNT; k++) {
        if (!r->phase_requests[k]) continue;
        c.name = sonde_phase_title(k);
        report_csv_num(&c, "seconds", r->phase_s[k], "seconds");
        report_csv_num(&c, "share", r->phase_all_s > 0 ? r->phase_s[k] / r->phase_all_s : NAN,
                       "ratio");
        report_csv_u64(&c, "requests", r->phase_requests[k], "");
    }
}

/* ---- Operations, errors, caches, bandwidth, scopes ----------------------------------------- */

static void csv_operations(const struct sonde_activity *a, struct sonde_buf *out)
{
    for (uint32_t i = 0; i < a->operation_count; i++) {
        const struct sonde_activity_operation *o = &a->operations[i];
        const struct report_csv c = { .out = out, .section = "operations", .program = o->program,
                                      .name = o->operation };
        report_csv_u64(&c, "count", o->count, "");
        report_csv_num(&c, "rate", o->rate, "per second");
        report_csv_u64(&c, "errors", o->errors, "");
        report_csv_num(&c, "error_ratio", (double)o->errors / (double)o->count, "ratio");
        report_csv_num(&c, "seconds", o->seconds, "seconds");
        report_csv_num(&c, "mean", o->mean_s, "seconds");
        report_csv_num(&c, "p50", o->p50_s, "seconds");
        report_csv_num(&c, "p95", o->p95_s, "seconds");
        report_csv_num(&c, "p99", o->p99_s, "seconds");
        report_csv_num(&c, "max", o->max_s, "seconds");
    }
    for (uint32_t i = 0; i < a->error_count; i++) {
        const struct sonde_activity_error *e = &a->errors[i];
        const struct report_csv c = { .out = out, .section = "errors", .program = e->program,
                                      .name = e->operation, .detail = e->type };
        report_csv_u64(&c, "count", e->count, "");
        report_csv_num(&c, "rate", e->rate, "per second");
        report_csv_num(&c, "share", e->share, "ratio");
    }
}

static void csv_moved(const struct sonde_activity *a, struct sonde_buf *out)
{
    for (uint32_t i = 0; i < a->cache_count; i++) {
        const struct sonde_activity_cache *x = &a->caches[i];
        const struct report_csv c = { .out = out, .section = "caches", .program = x->program,
                                      .name = x->tier };
        report_csv_u64(&c, "hits", x->hits, "");
        report_csv_u64(&c, "misses", x->misses, "");
        report_csv_num(&c, "hit_ratio", x->hit_ratio, "ratio");
        report_csv_num(&c, "rate", x->rate, "per second");
    }
    for (uint32_t i = 0; i < a->bandwidth_count; i++) {
        const struct sonde_activity_bandwidth *b = &a->bandwidths[i];
        const struct report_csv c = { .out = out, .section = "bandwidth", .program = b->program,
                                      .name = b->source };
        report_csv_num(&c, "in", b->in_bytes, "bytes");
        report_csv_num(&c, "out", b->out_bytes, "bytes");
        report_csv_num(&c, "in_rate", b->in_rate, "bytes per second");
        report_csv_num(&c, "out_rate", b->out_rate, "bytes per second");
    }
}

static void csv_scopes(const struct sonde_activity *a, struct sonde_buf *out)
{
    for (uint32_t i = 0; i < a->scope_count; i++) {
        const struct sonde_activity_scope *s = &a->scopes[i];
        const struct report_csv c = { .out = out, .section = "scopes", .program = s->program,
                                      .name = s->scope };
        report_csv_u64(&c, "count", s->count, "");
        report_csv_num(&c, "wall", s->wall_s, "seconds");
        report_csv_num(&c, "cpu", s->cpu_s, "seconds");
        report_csv_num(&c, "mean", s->wall_mean_s, "seconds");
        report_csv_num(&c, "p95", s->wall_p95_s, "seconds");
        report_csv_num(&c, "max", s->wall_max_s, "seconds");
        report_csv_u64(&c, "page_faults_minor", s->faults_minor, "");
        report_csv_u64(&c, "page_faults_major", s->faults_major, "");
        report_csv_num(&c, "memory_last", s->memory_last_bytes, "bytes");
        report_csv_num(&c, "memory_sum", s->memory_sum_bytes, "bytes");
    }
    for (uint32_t i = 0; i < a->throughput_count; i++) {
        const struct sonde_activity_throughput *t = &a->throughputs[i];
        const struct report_csv c = { .out = out, .section = "throughput", .program = t->program,
                                      .name = t->scope };
        report_csv_num(&c, "items", t->items, "");
        report_csv_num(&c, "seconds", t->seconds, "seconds");
        report_csv_num(&c, "rate", t->rate, "per second");
        report_csv_num(&c, "last_rate", t->last_rate, "per second");
    }
}

/* ---- System ---------------------------------------------------------------------------------- */

/* "min", "mean" and "max" of a figure are three rows: detail says which. */
static void csv_figure(struct report_csv c, const struct sonde_system_name *name,
                       const struct sonde_system_figure *f)
{
    const struct { const char *what; double value; } parts[] = {
        { "min", f->min }, { "mean", f->mean }, { "max", f->max },
    };
    for (size_t i = 0; i < SONDE_COUNT(parts); i++) {
        c.detail = parts[i].what;
        report_csv_num(&c, name->key, parts[i].value, name->unit);
    }
}

static void csv_system(const struct sonde_system *s, struct sonde_buf *out)
{
    struct report_csv c = { .out = out, .section = "system", .name = "machine" };
    if (!s) return;
    report_csv_num(&c, "cpus", s->cpus, "");
    report_csv_num(&c, "memory", s->memory_bytes, "bytes");
    for (size_t i = 0; i < SONDE_HOST_FIGURES; i++) {
        csv_figure(c, &sonde_system_host_names[i], &s->host[i]);
    }
    for (uint32_t k = 0; k < s->process_count; k++) {
        c.program = s->processes[k].program;
        c.pid = s->processes[k].pid;
        c.name = "process";
        for (size_t i = 0; i < SONDE_PROCESS_FIGURES; i++) {
            csv_figure(c, &sonde_system_process_names[i], &s->processes[k].figures[i]);
        }
    }
}

static void csv_gpus(const struct sonde_gpus *g, struct sonde_buf *out)
{
    for (uint32_t i = 0; g && i < g->count; i++) {
        const struct sonde_gpus_one *one = &g->gpus[i];
        char name[24];
        snprintf(name, sizeof(name), "%u", one->gpu);
        const struct report_csv c = { .out = out, .section = "gpus", .name = name };
        report_csv_num(&c, "memory_total_bytes", one->memory_bytes, "bytes");
        report_csv_num(&c, "energy_joules", one->joules, "joules");
        for (size_t f = 0; f < SONDE_GPUS_FIGURE_COUNT; f++) {
            csv_figure(c, &sonde_gpus_names[f], &one->figures[f]);
        }
    }
    for (uint32_t i = 0; g && i < g->process_count; i++) {
        const struct sonde_gpus_process *p = &g->processes[i];
        char name[24];
        snprintf(name, sizeof(name), "%u", p->gpu);
        const struct report_csv c = { .out = out, .section = "gpus", .name = name,
                                      .program = p->program, .pid = p->pid };
        report_csv_num(&c, "memory_max_bytes", p->memory_max_bytes, "bytes");
        report_csv_num(&c, "utilization_ratio", p->utilization, "ratio");
    }
}

/* ---- Engines --------------------------------------------------------------------------------- */

static void csv_time(const struct report_csv *c, const struct sonde_engine_time *t)
{
    report_csv_u64(c, "count", t->count, "");
    report_csv_num(c, "seconds", t->sum_s, "seconds");
    report_csv_num(c, "mean", t->mean_s, "seconds");
    report_csv_num(c, "p50", t->p50_s, "seconds");
    report_csv_num(c, "p99", t->p99_s, "seconds");
    report_csv_num(c, "max", t->max_s, "seconds");
}

static void csv_devices(const struct sonde_engine *e, struct sonde_buf *out)
{
    for (uint32_t i = 0; i < e->device_count; i++) {
        const struct sonde_engine_device *d = &e->devices[i];
        struct report_csv c = { .out = out, .section = "devices", .program = d->who.program,
                                .pid = d->who.pid, .name = d->device };
        report_csv_u64(&c, "count", d->operations, "");
        report_csv_num(&c, "seconds", d->seconds, "seconds");
        report_csv_u64(&c, "fallbacks", d->fallbacks, "");
        report_csv_num(&c, "memory_used", d->used_bytes, "bytes");
        report_csv_num(&c, "memory_total", d->total_bytes, "bytes");
        for (uint32_t k = 0; k < d->op_count; k++) {
            c.detail = d->ops[k].operation;
            csv_time(&c, &d->ops[k].time);
        }
    }
}

static void csv_engine(const struct sonde_engine *e, struct sonde_buf *out)
{
    if (!e) return;
    csv_devices(e, out);
    for (uint32_t i = 0; i < e->pool_count; i++) {
        const struct sonde_engine_pool *p = &e->pools[i];
        const struct report_csv c = { .out = out, .section = "pools", .program = p->who.program,
                                      .pid = p->who.pid, .name = p->pool };
        report_csv_num(&c, "used", p->used_bytes, "bytes");
        report_csv_num(&c, "peak", p->peak_bytes, "bytes");
        report_csv_num(&c, "capacity", p->capacity_bytes, "bytes");
        report_csv_num(&c, "requested", p->requested_bytes, "bytes");
        report_csv_num(&c, "fragmentation_external", p->external, "ratio");
        report_csv_num(&c, "fragmentation_internal", p->internal, "ratio");
        report_csv_u64(&c, "failures", p->failures, "");
    }
    for (uint32_t i = 0; i < e->tokenizer_count; i++) {
        const struct sonde_engine_tokenizer *t = &e->tokenizers[i];
        struct report_csv c = { .out = out, .section = "tokenizers", .program = t->who.program,
                                .pid = t->who.pid, .name = t->tokenizer, .detail = "encode" };
        csv_time(&c, &t->encode);
        c.detail = "decode";
        csv_time(&c, &t->decode);
    }
}

/* ---- Heap and samples ------------------------------------------------------------------------ */

static void csv_heap(const struct heap_report *r, struct sonde_buf *out)
{
    const struct sonde_heap *h = r->h;
    const struct report_csv c = { .out = out, .section = "memory" };
    if (!h) return;
    report_csv_num(&c, "in_use", h->live_bytes.value, "bytes");
    report_csv_num(&c, "in_use_count", h->live_count.value, "");
    report_csv_num(&c, "allocated", h->alloc_bytes.value, "bytes");
    report_csv_num(&c, "allocated_count", h->alloc_count.value, "");
    report_csv_u64(&c, "peak", h->peak_bytes, "bytes");
    report_csv_num(&c, "allocation_rate", r->alloc_rate, "bytes per second");
    report_csv_u64(&c, "leaks", r->leak_count, "");
    report_csv_num(&c, "leaks_rate", r->leak_slope, "bytes per second");
    if (h->rss_bytes) report_csv_u64(&c, "resident", h->rss_bytes, "bytes");
}

static void csv_samples(const struct report *r, struct sonde_buf *out)
{
    const char *unit = sonde_sample_kind_unit(r->kind);
    for (size_t i = 0; i < r->flat_count && i < r->limit; i++) {
        const struct sonde_flat *f = &r->flat[i];
        const struct report_csv c = { .out = out, .section = "functions", .name = f->name,
                                      .detail = *f->file ? f->file : f->module };
        report_csv_u64(&c, "self", f->self, unit);
        report_csv_u64(&c, "total", f->total, unit);
        report_csv_num(&c, "self_share", report_share(r, f->self), "ratio");
        report_csv_num(&c, "total_share", report_share(r, f->total), "ratio");
        report_csv_u64(&c, "samples", f->self_samples, "");
    }
    for (size_t i = 0; i < r->thread_count && i < r->limit; i++) {
        const struct sonde_profile_thread *t = &r->p->threads[r->threads[i].thread];
        char tid[16];
        snprintf(tid, sizeof(tid), "%u", t->tid);
        const struct report_csv c = { .out = out, .section = "threads", .pid = t->pid,
                                      .name = sonde_profile_str(r->p, t->name), .detail = tid };
        report_csv_u64(&c, "weight", r->threads[i].weight, unit);
        report_csv_num(&c, "share", report_share(r, r->threads[i].weight), "ratio");
        report_csv_u64(&c, "samples", r->threads[i].samples, "");
    }
}

static void csv_spans(const struct report *r, struct sonde_buf *out)
{
    for (size_t i = 0; i < r->span_count && i < r->limit; i++) {
        const struct report_span *s = &r->spans[i];
        const struct report_csv c = { .out = out, .section = "spans",
                                      .name = sonde_profile_str(r->p, s->name) };
        report_csv_u64(&c, "count", s->count, "");
        report_csv_u64(&c, "errors", s->errors, "");
        report_csv_num(&c, "seconds", (double)s->duration_ns_sum * 1e-9, "seconds");
        report_csv_num(&c, "max", (double)s->duration_ns_max * 1e-9, "seconds");
        if (r->tree) {
            report_csv_u64(&c, "sampled", s->weight, sonde_sample_kind_unit(r->kind));
        }
    }
}

void report_write_csv(const struct report *r, struct sonde_buf *out)
{
    report_csv_head(out);
    csv_run(r, out);
    csv_findings(r, out);
    csv_infer(&r->infer, out);
    if (r->activity) {
        csv_operations(r->activity, out);
        csv_moved(r->activity, out);
        csv_scopes(r->activity, out);
    }
    sonde_ml_csv(r->ml, out);
    csv_system(r->system, out);
    csv_gpus(r->gpus, out);
    csv_engine(r->inside, out);
    csv_heap(&r->heap, out);
    if (r->tree) csv_samples(r, out);
    csv_spans(r, out);
    report_notes_csv(r, out);
}
