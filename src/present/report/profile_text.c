/* profile_text.c - a report and a comparison as text for a terminal, or as Markdown: the
 * same tables, laid out in columns or with bars. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "present/plot/pdf.h"
#include "present/report/profile_private.h"
#include "present/table.h"
#include "present/units.h"
#include "sonde/sonde.h"

enum { TREE_ROWS_MAX = 400, TREE_DEPTH_MAX = 64, FINDINGS_MAX = 5 };
enum { LINE_MAX_TEXT = REPORT_LINE_MAX };

/* ---- Head ------------------------------------------------------------------------------------ */

static void put_when(const struct report *r, struct sonde_buf *out)
{
    const struct sonde_profile *p = r->p;
    const char *host = sonde_profile_str(p, p->host);
    const time_t start = (time_t)(p->start_ns / 1000000000u);
    char when[64] = "", length[SONDE_VALUE_BYTES] = "";
    struct tm tm;
    /* Imported times may count from when a machine or a program started: those are no dates. */
    enum { SECONDS_1980 = 315532800 };
    if (start >= SECONDS_1980 && localtime_r(&start, &tm)) {
        strftime(when, sizeof(when), "%F %T %z", &tm);
    }
    if (p->end_ns > p->start_ns) {
        sonde_value_format(length, (double)(p->end_ns - p->start_ns) * 1e-9, SONDE_UNIT_SECONDS,
                           r->o->ascii);
    }
    if (when[0] || length[0] || *host) {
        report_put_fact(r->o, out, "recorded", "%s%s%s%s%s", when, when[0] && length[0] ? ", " : "",
                        length, *host ? " on " : "", host);
    }
}

static void put_loss(const struct report *r, struct sonde_buf *out)
{
    const struct sonde_profile *p = r->p;
    if (!p->lost_records && !p->dropped_samples) {
        report_put_fact(r->o, out, "lost", "nothing");
        return;
    }
    report_put_fact(r->o, out, "lost",
                    "%llu records by the kernel or the ring, %llu samples for lack of memory",
                    (unsigned long long)p->lost_records, (unsigned long long)p->dropped_samples);
}

/* What the samples cost the program, if the agent that took them knows. */
static void put_cost(const struct report *r, struct sonde_buf *out)
{
    const struct sonde_profile *p = r->p;
    if (r->kind == SONDE_SAMPLE_CPU && p->cost.text) {
        report_put_fact(r->o, out, "own cost", "%s", sonde_profile_str(p, p->cost.text));
    }
    if (r->kind == SONDE_SAMPLE_CPU && p->unsampled_ns) {
        report_put_fact(r->o, out, "not sampled", "%.3g s, to measure that; weights of later "
                        "samples make up for it", (double)p->unsampled_ns * 1e-9);
    }
}

/* What was done to have stacks whole, and why some are not. */
static void put_stacks(const struct report *r, struct sonde_buf *out)
{
    const struct sonde_stack_sums *sums = &r->stacks;
    if (sums->mended) {
        report_put_fact(r->o, out, "mended", "%.2f %% of the stacks: outer frames beyond what is "
                        "copied, read a moment later and verified",
                        (double)sums->mended / (double)sums->stacks * 100);
    }
    for (int i = 0; i < SONDE_CUT_COUNT; i++) {
        if (!sums->cuts[i] || (i == SONDE_CUT_UNKNOWN && sums->cuts[i] == sums->truncated)) {
            continue;
        }
        report_put_fact(r->o, out, "truncated", "%.2f %% of the stacks, %s",
                        ceil((double)sums->cuts[i] / (double)sums->stacks * 1e4) / 100,
                        sonde_sample_cut_title((enum sonde_sample_cut)i));
    }
}

static void profile_report_text_put_head(const struct report *r, struct sonde_buf *out)
{
    const struct sonde_profile *p = r->p;
    const char *program = sonde_profile_str(p, p->program);
    const char *command = sonde_profile_str(p, p->command);
    const char *engine = sonde_profile_str(p, p->engine);
    char title[LINE_MAX_TEXT], weight[SONDE_WEIGHT_BYTES];
    snprintf(title, sizeof(title), "%s%s%.1000s",
             r->tree ? sonde_sample_kind_title(r->kind) : "recording", *program ? " of " : "",
             program);
    title[0] = (char)(title[0] >= 'a' && title[0] <= 'z' ? title[0] - 32 : title[0]);
    if (r->o->pdf) {
        sonde_pdf_heading(r->o->pdf, 1, title);
    } else {
        if (r->o->style == SONDE_REPORT_MARKDOWN) sonde_buf_puts(out, "# ");
        report_put_text(r->o, out, title);
        sonde_buf_puts(out, "\n\n");
    }
    if (*command) report_put_fact(r->o, out, "command", "%.2000s", command);
    put_when(r, out);
    if (!r->tree) return;
    sonde_weight_format(weight, r->weight, r->kind, r->o->ascii);
    const int counted = !strcmp(sonde_sample_kind_unit(r->kind), "count");
    report_put_fact(r->o, out, "samples", "%llu%s%s", (unsigned long long)r->samples,
                    counted ? "" : ", ", counted ? "" : weight);
    if (r->kind == SONDE_SAMPLE_CPU && p->rate_hz > 0) {
        report_put_fact(r->o, out, "rate", "%.5g Hz asked for, %.5g Hz reached, engine %s",
                        p->rate_hz, p->achieved_hz, engine);
    } else if (*engine) {
        report_put_fact(r->o, out, "engine", "%s", engine);
    }
    /* Rounded down: 99.99 % must not be shown as all. */
    const double whole = r->samples ? 1 - (double)r->truncated / (double)r->samples : 0;
    report_put_fact(r->o, out, "complete", "%.2f %% of the stacks reach the thread's start",
                    floor(whole * 1e4) / 100);
    put_stacks(r, out);
    put_loss(r, out);
    put_cost(r, out);
}

/* ---- Functions and tree ---------------------------------------------------------------------- */

static void profile_report_text_put_functions(const struct report *r, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "SELF", .align = SONDE_RIGHT }, { .title = "%", .align = SONDE_RIGHT },
        { .title = "TOTAL", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "%", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "FUNCTION", .min = 20 }, { .title = "WHERE", .min = 12, .drop = 3 },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < r->flat_count && i < r->limit; i++) {
        const struct sonde_flat *f = &r->flat[i];
        char self[SONDE_WEIGHT_BYTES], total[SONDE_WEIGHT_BYTES];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", sonde_weight_format(self, f->self, r->kind, r->o->ascii));
        report_percent_cell(&t, 1, report_share(r, f->self));
        sonde_table_cell(&t, 2, "%s", sonde_weight_format(total, f->total, r->kind, r->o->ascii));
        report_percent_cell(&t, 3, report_share(r, f->total));
        sonde_table_cell(&t, 4, "%s", f->name);
        report_where_cell(&t, 5, f->file, f->line, f->module);
    }
    report_put_table(r->o, "Functions", &t, out);
}

struct profile_report_text_row {
    uint32_t node, indent;
};

struct profile_report_text_walk {
    const struct sonde_tree *tree;
    struct profile_report_text_row *todo;     /* still to be shown; the last is next */
    size_t count, cap;
    uint64_t least;       /* lighter nodes are left out */
};

static int profile_report_text_by_total(const void *a, const void *b, void *tree)
{
    const struct sonde_tree *t = tree;
    const struct sonde_tree_node *x = &t->nodes[((const struct profile_report_text_row *)a)->node];
    const struct sonde_tree_node *y = &t->nodes[((const struct profile_report_text_row *)b)->node];
    if (x->total != y->total) return SONDE_CMP(x->total, y->total);
    return -strcmp(x->name, y->name);
}

/* The children that are heavy enough, so that the heaviest is taken next. */
static int push_children(struct profile_report_text_walk *w, uint32_t node, uint32_t indent)
{
    assert(node < w->tree->node_count);
    const size_t first = w->count;
    for (uint32_t c = w->tree->nodes[node].first_child; c; c = w->tree->nodes[c].next) {
        if (w->tree->nodes[c].total < w->least) continue;
        if (SONDE_ARRAY_ROOM(w->todo, w->count, w->cap)) return SONDE_ENOMEM;
        w->todo[w->count++] = (struct profile_report_text_row){ c, indent };
    }
    if (w->count > first) {
        qsort_r(w->todo + first, w->count - first, sizeof(*w->todo), profile_report_text_by_total,
                (void *)(uintptr_t)w->tree);
    }
    return 0;
}

/* The child of a node that calls nothing else of weight, if it is the same function again. */
static uint32_t profile_report_text_again(const struct profile_report_text_walk *w, uint32_t node)
{
    uint32_t only = 0;
    for (uint32_t c = w->tree->nodes[node].first_child; c; c = w->tree->nodes[c].next) {
        if (w->tree->nodes[c].total < w->least) continue;
        if (only) return 0;
        only = c;
    }
    return only && !strcmp(w->tree->nodes[only].name, w->tree->nodes[node].name) ? only : 0;
}

/* A recursion is one line, however deep: returns the innermost of its nodes. */
static uint32_t put_node(const struct report *r, const struct profile_report_text_walk *w,
                         struct profile_report_text_row row, struct sonde_buf *out)
{
    const struct sonde_tree_node *n = &w->tree->nodes[row.node];
    uint64_t self = n->self;
    uint32_t last = row.node, times = 1;
    for (uint32_t c; (c = profile_report_text_again(w, last)); last = c, times++) {
        self += w->tree->nodes[c].self;
    }

    char line[LINE_MAX_TEXT], deep[32] = "";
    const int indent = (int)row.indent * 2, ascii = r->o->ascii;
    const int width = r->o->width && r->o->style == SONDE_REPORT_TEXT ? r->o->width - 28 - indent
                                                                     : LINE_MAX_TEXT / 4;
    const int cells = sonde_text_cells(n->name, ascii);
    sonde_text_fit(line, sizeof(line), n->name, cells < width ? cells : width > 8 ? width : 8,
                   SONDE_LEFT, ascii);
    if (times > 1) snprintf(deep, sizeof(deep), ", %u deep", times);
    sonde_buf_printf(out, "%6.1f %%%7.1f %%  %*s%s%s\n", 100 * report_share(r, n->total),
                     100 * report_share(r, self), indent, "", line, deep);
    return last;
}

static void profile_report_text_put_tree(const struct report *r, struct sonde_buf *out)
{
    struct profile_report_text_walk w = { .tree = r->tree };
    const int markdown = r->o->style == SONDE_REPORT_MARKDOWN;
    const double least = r->share_min * (double)r->weight;
    w.least = least < 1 ? 1 : (uint64_t)least;
    sonde_buf_printf(out, "\n%sTree, from %.3g %% of the total up\n\n%s", markdown ? "## " : "",
                     100 * r->share_min, markdown ? "```\n" : "");
    sonde_buf_puts(out, "   TOTAL     SELF  FUNCTION\n");
    int rc = push_children(&w, 0, 0);
    size_t rows = 0, left_out = 0;
    while (!rc && w.count) {
        const struct profile_report_text_row row = w.todo[--w.count];
        if (rows == TREE_ROWS_MAX || row.indent > TREE_DEPTH_MAX) {
            left_out++;
        } else {
            const uint32_t last = put_node(r, &w, row, out);
            rows++;
            rc = push_children(&w, last, row.indent + 1);
        }
    }
    if (left_out) {
        sonde_buf_printf(out, "%18sdeeper ones are left out: see `sonde flamegraph`\n", "");
    }
    if (markdown) sonde_buf_puts(out, "```\n");
    if (rc) out->error = rc;
    sonde__free(w.todo);
}

/* ---- Processes, threads, spans, modules ------------------------------------------------------ */

/* Of one alone the head says all there is. */
static void profile_report_text_put_processes(const struct report *r, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "PROCESS", .min = 8 }, { .title = "PID", .align = SONDE_RIGHT },
        { .title = "THREADS", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "SAMPLES", .align = SONDE_RIGHT }, { .title = "WEIGHT", .align = SONDE_RIGHT },
        { .title = "%", .align = SONDE_RIGHT }, { .title = "COMPLETE", .align = SONDE_RIGHT },
    };
    if (r->process_count < 2) return;
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < r->process_count && i < r->limit; i++) {
        const struct sonde_profile_process *row = &r->processes[i];
        char weight[SONDE_WEIGHT_BYTES];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", row->name ? sonde_profile_str(r->p, row->name) : "unknown");
        sonde_table_cell(&t, 1, "%u", row->pid);
        sonde_table_cell(&t, 2, "%u", row->threads);
        sonde_table_cell(&t, 3, "%llu", (unsigned long long)row->samples);
        sonde_table_cell(&t, 4, "%s",
                         sonde_weight_format(weight, row->weight, r->kind, r->o->ascii));
        report_percent_cell(&t, 5, report_share(r, row->weight));
        report_percent_cell(&t, 6, 1 - (double)row->truncated / (double)row->samples);
    }
    char title[80] = "Processes";
    if (r->process_count > r->limit) {
        snprintf(title, sizeof(title), "Processes, the first %zu of %u", r->limit,
                 r->process_count);
    }
    report_put_table(r->o, title, &t, out);
}

static void profile_report_text_put_threads(const struct report *r, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "THREAD", .min = 8 }, { .title = "TID", .align = SONDE_RIGHT },
        { .title = "PID", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "SAMPLES", .align = SONDE_RIGHT }, { .title = "WEIGHT", .align = SONDE_RIGHT },
        { .title = "%", .align = SONDE_RIGHT }, { .title = "COMPLETE", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < r->thread_count && i < r->limit; i++) {
        const struct report_thread *row = &r->threads[i];
        const struct sonde_profile_thread *thread = &r->p->threads[row->thread];
        char weight[SONDE_WEIGHT_BYTES];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s",
                         row->thread ? sonde_profile_str(r->p, thread->name) : "unknown");
        if (thread->tid) sonde_table_cell(&t, 1, "%u", thread->tid);
        if (thread->pid) sonde_table_cell(&t, 2, "%u", thread->pid);
        sonde_table_cell(&t, 3, "%llu", (unsigned long long)row->samples);
        sonde_table_cell(&t, 4, "%s",
                         sonde_weight_format(weight, row->weight, r->kind, r->o->ascii));
        report_percent_cell(&t, 5, report_share(r, row->weight));
        report_percent_cell(&t, 6, 1 - (double)row->truncated / (double)row->samples);
    }
    char title[80] = "Threads";
    if (r->thread_count > r->limit) {
        snprintf(title, sizeof(title), "Threads, the first %zu of %zu", r->limit, r->thread_count);
    }
    report_put_table(r->o, title, &t, out);
}

static void profile_report_text_put_spans(const struct report *r, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "SPAN", .min = 8 }, { .title = "COUNT", .align = SONDE_RIGHT },
        { .title = "ERRORS", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "TIME", .align = SONDE_RIGHT }, { .title = "AVG", .align = SONDE_RIGHT },
        { .title = "MAX", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "SAMPLED", .align = SONDE_RIGHT }, { .title = "%", .align = SONDE_RIGHT },
    };
    if (!r->span_count) return;
    struct sonde_table t;
    sonde_table_init(&t, columns, r->tree ? SONDE_COUNT(columns) : SONDE_COUNT(columns) - 2);
    for (size_t i = 0; i < r->span_count && i < r->limit; i++) {
        const struct report_span *s = &r->spans[i];
        char text[SONDE_VALUE_BYTES];
        const int ascii = r->o->ascii;
        const double sum = (double)s->duration_ns_sum * 1e-9;
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", sonde_profile_str(r->p, s->name));
        sonde_table_cell(&t, 1, "%llu", (unsigned long long)s->count);
        sonde_table_cell(&t, 2, "%llu", (unsigned long long)s->errors);
        sonde_table_cell(&t, 3, "%s", sonde_value_format(text, sum, SONDE_UNIT_SECONDS, ascii));
        sonde_table_cell(&t, 4, "%s", sonde_value_format(text, sum / (double)s->count,
                                                         SONDE_UNIT_SECONDS, ascii));
        sonde_table_cell(&t, 5, "%s", sonde_value_format(text, (double)s->duration_ns_max * 1e-9,
                                                         SONDE_UNIT_SECONDS, ascii));
        if (!r->tree) continue;
        sonde_table_cell(&t, 6, "%s", sonde_weight_format(text, s->weight, r->kind, ascii));
        report_percent_cell(&t, 7, report_share(r, s->weight));
    }
    char title[80] = "Spans";
    if (r->span_count > r->limit) {
        snprintf(title, sizeof(title), "Spans, the first %zu of %zu names", r->limit,
                 r->span_count);
    }
    report_put_table(r->o, title, &t, out);
}

static void profile_report_text_put_modules(const struct report *r, struct sonde_buf *out)
{
    if (!r->module_count) return;
    const int markdown = r->o->style == SONDE_REPORT_MARKDOWN;
    report_put_heading(r->o, 2, "Modules without names or lines", out);
    for (size_t i = 0; i < r->module_count && i < r->limit; i++) {
        const struct report_module *m = &r->modules[i];
        const char *build_id = sonde_profile_str(r->p, m->build_id);
        char line[LINE_MAX_TEXT], advice[REPORT_ADVICE_MAX];
        report_module_advise(r, m, advice, sizeof(advice));
        snprintf(line, sizeof(line), "%.1f %%  %.2000s%s%.80s%s: %s",
                 100 * report_share(r, m->weight), sonde_profile_str(r->p, m->path),
                 *build_id ? " (build id " : "", build_id, *build_id ? ")" : "",
                 advice);
        sonde_buf_puts(out, markdown ? "- " : "  ");
        report_put_text(r->o, out, line);
        sonde_buf_putc(out, '\n');
    }
}

/* What is worth acting on; the rest is what tables are for. */
static void report_findings_text(const struct report *r, struct sonde_buf *out)
{
    struct sonde_findings *f = r->findings;
    if (!f) return;
    while (f->causes && f->rows[f->causes - 1].severity == SONDE_SEVERITY_INFO) f->causes--;
    if (!f->causes) return;
    report_put_heading(r->o, 2, "Findings", out);
    if (r->o->style == SONDE_REPORT_MARKDOWN) sonde_findings_markdown(f, r->o, FINDINGS_MAX, out);
    else sonde_findings_text(f, r->o->width > 0 ? (size_t)r->o->width : 0, FINDINGS_MAX, out);
}

static void report_samples_text(const struct report *r, struct sonde_buf *out)
{
    if (!r->tree) {
        profile_report_text_put_spans(r, out);
        return;
    }
    profile_report_text_put_functions(r, out);
    if (!r->o->pdf) profile_report_text_put_tree(r, out); /* flame graphs are better on paper */
    profile_report_text_put_processes(r, out);
    profile_report_text_put_threads(r, out);
    profile_report_text_put_spans(r, out);
    profile_report_text_put_modules(r, out);
}

/* What is about memory begins with what is known of it beyond samples; else that comes last. */
void report_write_text(const struct report *r, struct sonde_buf *out)
{
    const int first = !r->tree || sonde_sample_kind_is_bytes(r->kind);
    profile_report_text_put_head(r, out);
    report_summary_text(r, out);
    if (r->o->pdf) {
        report_findings_pdf(r, out);
        report_charts_pdf(r, out);
    } else {
        report_findings_text(r, out);
    }
    if (first) heap_report_text(&r->heap, out);
    infer_report_text(&r->infer, out);
    gpu_report_text(&r->gpu, r->o, out);
    sonde_activity_report(r->activity, r->o, r->limit, out);
    sonde_ml_report(r->ml, r->o, r->limit, out);
    report_system_text(r->system, r->o, r->limit, out);
    report_gpus_text(r->gpus, r->o, r->limit, out);
    sonde_engine_report(r->inside, r->o, r->limit, out);
    report_samples_text(r, out);
    if (!first) heap_report_text(&r->heap, out);
    report_notes_text(r, out);
}

void sonde_profile_top(const struct sonde_tree *t, size_t limit, int ascii, struct sonde_buf *out)
{
    struct sonde_flat *flat;
    size_t count;
    const int rc = sonde_tree_flat(t, &flat, &count);
    if (rc) {
        out->error = rc;
        return;
    }
    const double total = t->nodes[0].total ? (double)t->nodes[0].total : 1;
    for (size_t i = 0; i < count && i < limit && flat[i].self; i++) {
        const struct sonde_flat *f = &flat[i];
        sonde_buf_printf(out, "%5.1f %%  ", 100 * (double)f->self / total);
        report_put_clean(out, f->name, ascii);
        if (*f->file && f->line) {
            sonde_buf_puts(out, "  ");
            report_put_clean(out, f->file, ascii);
            sonde_buf_printf(out, ":%u", f->line);
        } else if (*f->module) {
            sonde_buf_puts(out, "  ");
            report_put_clean(out, f->module, ascii);
        }
        sonde_buf_putc(out, '\n');
    }
    sonde__free(flat);
}
