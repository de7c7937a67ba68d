/* profile_json.c - a report for programs: all that the text says, with exact weights. */
#include <math.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "present/report/profile_private.h"
#include "profile/formats/report_json.h"
#include "sonde/sonde.h"

enum { TREE_ROWS_MAX = 20000 };

/* To six decimals: more is noise. */
static void put_share(struct sonde_buf *out, const char *key, double share)
{
    sonde_json_num(out, key, round(share * 1e6) / 1e6);
}

static void profile_report_json_put_place(struct sonde_buf *out, const char *module,
                                          const char *file, uint32_t line)
{
    if (*module) sonde_json_str(out, "module", module);
    if (*file) sonde_json_str(out, "file", file);
    if (line) sonde_json_u64(out, "line", line);
}

/* "prof_20260123_014500": when it began, UTC; as sessions are called. */
static void profile_report_json_put_id(const struct sonde_profile *p, struct sonde_buf *out)
{
    const time_t start = (time_t)(p->start_ns / 1000000000u);
    char id[64] = "prof_imported";
    struct tm tm;
    if (p->start_ns && gmtime_r(&start, &tm)) {
        strftime(id, sizeof(id), "prof_%Y%m%d_%H%M%S", &tm);
    }
    sonde_json_str(out, "profile_id", id);
    sonde_json_num(out, "duration_seconds",
                   p->end_ns > p->start_ns ? (double)(p->end_ns - p->start_ns) * 1e-9 : NAN);
}

static void profile_report_json_put_sampled(const struct report *r, struct sonde_buf *out);

static void profile_report_json_put_head(const struct report *r, struct sonde_buf *out)
{
    const struct sonde_profile *p = r->p;
    profile_report_json_put_id(p, out);
    const struct { const char *key; uint32_t text; } texts[] = {
        { "program", p->program }, { "command", p->command }, { "host", p->host },
        { "engine", p->engine },
    };
    for (size_t i = 0; i < SONDE_COUNT(texts); i++) {
        if (texts[i].text) sonde_json_str(out, texts[i].key, sonde_profile_str(p, texts[i].text));
    }
    if (p->start_ns) sonde_json_ns(out, "start", p->start_ns);
    if (p->end_ns) sonde_json_ns(out, "end", p->end_ns);
    if (r->tree) profile_report_json_put_sampled(r, out);
    else sonde_json_u64(out, "samples", 0);
}

static void profile_report_json_put_sampled(const struct report *r, struct sonde_buf *out)
{
    const struct sonde_profile *p = r->p;
    sonde_json_str(out, "type", sonde_sample_kind_name(r->kind));
    sonde_json_str(out, "unit", sonde_sample_kind_unit(r->kind));
    sonde_json_u64(out, "weight", r->weight);
    sonde_json_u64(out, "samples", r->samples);
    sonde_json_u64(out, "truncated_samples", r->truncated);
    if (r->truncated) {
        sonde_json_key_open(out, "truncated_by", '{');
        for (int i = 0; i < SONDE_CUT_COUNT; i++) {
            if (!r->stacks.cuts[i]) continue;
            sonde_json_u64(out, sonde_sample_cut_name((enum sonde_sample_cut)i), r->stacks.cuts[i]);
        }
        sonde_json_close(out, '}');
    }
    sonde_json_u64(out, "mended_samples", r->stacks.mended);
    put_share(out, "complete",
              r->samples ? 1 - (double)r->truncated / (double)r->samples : 0);
    sonde_json_num(out, "rate_hz", p->rate_hz > 0 ? p->rate_hz : NAN);
    sonde_json_num(out, "achieved_hz", p->achieved_hz > 0 ? p->achieved_hz : NAN);
    sonde_json_u64(out, "lost_records", p->lost_records);
    sonde_json_u64(out, "dropped_samples", p->dropped_samples);
    sonde_json_num(out, "unsampled_seconds", (double)p->unsampled_ns * 1e-9);
    if (p->cost.text) {
        sonde_json_key_open(out, "own_cost", '{');
        sonde_json_str(out, "text", sonde_profile_str(p, p->cost.text));
        sonde_json_str(out, "method", isnan(p->cost.ratio) ? NULL
                                      : p->cost.pairs ? "comparison" : "estimate");
        sonde_json_num(out, "ratio", p->cost.ratio);
        sonde_json_num(out, "low", p->cost.low);
        sonde_json_num(out, "high", p->cost.high);
        sonde_json_u64(out, "pairs", p->cost.pairs);
        sonde_json_close(out, '}');
    }
}

static void profile_report_json_put_functions(const struct report *r, struct sonde_buf *out)
{
    sonde_json_u64(out, "functions_total", r->flat_count);
    sonde_json_key_open(out, "functions", '[');
    for (size_t i = 0; i < r->flat_count && i < r->limit; i++) {
        const struct sonde_flat *f = &r->flat[i];
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", f->name);
        profile_report_json_put_place(out, f->module, f->file, f->line);
        sonde_json_u64(out, "self", f->self);
        sonde_json_u64(out, "total", f->total);
        put_share(out, "self_share", report_share(r, f->self));
        put_share(out, "total_share", report_share(r, f->total));
        sonde_json_u64(out, "self_samples", f->self_samples);
        sonde_json_u64(out, "total_samples", f->samples);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

/* A flat array with the index of the parent: no reader has trouble with deep recursion. Parents
 * come before their children in the tree, so one pass is enough. */
static void profile_report_json_put_tree(const struct report *r, struct sonde_buf *out)
{
    const struct sonde_tree *t = r->tree;
    uint32_t *row_of = sonde__calloc(t->node_count, sizeof(*row_of)); /* row + 1 */
    if (!row_of) {
        out->error = SONDE_ENOMEM;
        return;
    }
    const double least = r->share_min * (double)r->weight;
    uint32_t rows = 0;
    sonde_json_key_open(out, "tree", '[');
    for (uint32_t i = 0; i < t->node_count && rows < TREE_ROWS_MAX; i++) {
        const struct sonde_tree_node *n = &t->nodes[i];
        if ((double)n->total < least || (i && !row_of[n->parent])) continue;
        row_of[i] = ++rows;
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", n->name);
        if (i) sonde_json_u64(out, "parent", row_of[n->parent] - 1);
        profile_report_json_put_place(out, n->module, n->file, n->line);
        sonde_json_u64(out, "self", n->self);
        sonde_json_u64(out, "total", n->total);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde__free(row_of);
}

static void put_sampled(const struct report *r, uint64_t weight, uint64_t samples,
                        uint64_t truncated, struct sonde_buf *out)
{
    sonde_json_u64(out, "weight", weight);
    put_share(out, "share", report_share(r, weight));
    sonde_json_u64(out, "samples", samples);
    sonde_json_u64(out, "truncated_samples", truncated);
}

static void profile_report_json_put_processes(const struct report *r, struct sonde_buf *out)
{
    sonde_json_u64(out, "processes_total", r->process_count);
    sonde_json_key_open(out, "processes", '[');
    for (uint32_t i = 0; i < r->process_count && i < r->limit; i++) {
        const struct sonde_profile_process *row = &r->processes[i];
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", row->name ? sonde_profile_str(r->p, row->name) : NULL);
        sonde_json_u64(out, "pid", row->pid);
        sonde_json_u64(out, "threads", row->threads);
        put_sampled(r, row->weight, row->samples, row->truncated, out);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void profile_report_json_put_threads(const struct report *r, struct sonde_buf *out)
{
    sonde_json_u64(out, "threads_total", r->thread_count);
    sonde_json_key_open(out, "threads", '[');
    for (size_t i = 0; i < r->thread_count && i < r->limit; i++) {
        const struct report_thread *row = &r->threads[i];
        const struct sonde_profile_thread *t = &r->p->threads[row->thread];
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", row->thread ? sonde_profile_str(r->p, t->name) : NULL);
        sonde_json_u64(out, "pid", t->pid);
        sonde_json_u64(out, "tid", t->tid);
        put_sampled(r, row->weight, row->samples, row->truncated, out);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void profile_report_json_put_spans(const struct report *r, struct sonde_buf *out)
{
    sonde_json_u64(out, "spans_total", r->span_count);
    sonde_json_key_open(out, "spans", '[');
    for (size_t i = 0; i < r->span_count && i < r->limit; i++) {
        const struct report_span *s = &r->spans[i];
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", sonde_profile_str(r->p, s->name));
        sonde_json_u64(out, "count", s->count);
        sonde_json_u64(out, "errors", s->errors);
        sonde_json_ns(out, "duration_s_sum", s->duration_ns_sum);
        sonde_json_ns(out, "duration_s_max", s->duration_ns_max);
        sonde_json_u64(out, "weight", s->weight);
        put_share(out, "share", report_share(r, s->weight));
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void profile_report_json_put_modules(const struct report *r, struct sonde_buf *out)
{
    sonde_json_key_open(out, "modules_incomplete", '[');
    for (size_t i = 0; i < r->module_count && i < r->limit; i++) {
        const struct report_module *m = &r->modules[i];
        char advice[REPORT_ADVICE_MAX];
        sonde_json_open(out, '{');
        sonde_json_str(out, "path", sonde_profile_str(r->p, m->path));
        if (m->build_id) sonde_json_str(out, "build_id", sonde_profile_str(r->p, m->build_id));
        put_share(out, "share", report_share(r, m->weight));
        sonde_json_bool(out, "has_symbols", !(m->flags & SONDE_MODULE_STRIPPED));
        report_module_advise(r, m, advice, sizeof(advice));
        sonde_json_str(out, "advice", advice);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

/* Under both names that readers know. */
static void report_findings_json(const struct report *r, struct sonde_buf *out)
{
    if (!r->findings) return;
    sonde_json_key(out, "findings");
    sonde_findings_json(r->findings, out);
    sonde_json_key(out, "bottlenecks");
    sonde_findings_json(r->findings, out);
}

static void report_samples_json(const struct report *r, struct sonde_buf *out)
{
    if (!r->tree) {
        if (r->span_count) profile_report_json_put_spans(r, out);
        return;
    }
    profile_report_json_put_functions(r, out);
    profile_report_json_put_tree(r, out);
    profile_report_json_put_processes(r, out);
    profile_report_json_put_threads(r, out);
    profile_report_json_put_spans(r, out);
    profile_report_json_put_modules(r, out);
}

void report_write_json(const struct report *r, struct sonde_buf *out)
{
    sonde_buf_putc(out, '{');
    profile_report_json_put_head(r, out);
    report_summary_json(r, out);
    report_findings_json(r, out);
    if (r->tree && r->o->filter.kind < 0) {
        const int rc = sonde_report_short_functions(r->p, &r->o->filter, r->limit, out);
        if (rc) out->error = rc;
    }
    report_samples_json(r, out);
    heap_report_json(&r->heap, out);
    infer_report_json(&r->infer, out);
    gpu_report_json(&r->gpu, out);
    sonde_activity_json(r->activity, out);
    sonde_ml_json(r->ml, out);
    report_system_json(r->system, out);
    report_gpus_json(r->gpus, out);
    sonde_engine_json(r->inside, out);
    report_notes_json(r, out);
    sonde_buf_puts(out, "}\n");
}
