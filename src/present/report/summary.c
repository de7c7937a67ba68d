/* summary.c - the figures of a report that matter most, in a few lines at its beginning; the rest
 * is what its parts are for. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/percent.h"
#include "present/report/profile_private.h"
#include "present/units.h"

/* What an operation is compared by: p95, and where that is not known its mean. */
static double summary_slowness(const struct sonde_activity_operation *o)
{
    return isnan(o->p95_s) ? o->mean_s : o->p95_s;
}

static void summary_activity(const struct sonde_activity *a, struct report_summary *s)
{
    uint64_t hits = 0;
    if (!a) return;
    for (uint32_t i = 0; i < a->operation_count; i++) {
        const struct sonde_activity_operation *o = &a->operations[i];
        s->operations += o->count;
        s->errors += o->errors;
        s->operation_rate = (i ? s->operation_rate : 0) + o->rate;
        if (!s->slowest || summary_slowness(o) > summary_slowness(s->slowest)) s->slowest = o;
    }
    for (uint32_t i = 0; i < a->cache_count; i++) {
        hits += a->caches[i].hits;
        s->look_ups += a->caches[i].hits + a->caches[i].misses;
    }
    if (s->look_ups) s->hit_ratio = (double)hits / (double)s->look_ups;
    for (uint32_t i = 0; i < a->bandwidth_count; i++) {
        s->in_rate = (i ? s->in_rate : 0) + a->bandwidths[i].in_rate;
        s->out_rate = (i ? s->out_rate : 0) + a->bandwidths[i].out_rate;
    }
}

void report_summary_of(const struct report *r, struct report_summary *out)
{
    const struct sonde_profile *p = r->p;
    const struct sonde_profile_filter *f = &r->o->filter;
    const uint64_t from = f->from_ns > p->start_ns ? f->from_ns : p->start_ns;
    const uint64_t to = f->to_ns && f->to_ns < p->end_ns ? f->to_ns : p->end_ns;
    *out = (struct report_summary){
        .seconds = to > from ? (double)(to - from) * 1e-9 : NAN, .operation_rate = NAN,
        .hit_ratio = NAN, .in_rate = NAN, .out_rate = NAN, .cpu_ratio = NAN, .memory_ratio = NAN,
    };
    summary_activity(r->activity, out);
    if (r->system) {
        out->cpu_ratio = r->system->host[SONDE_HOST_CPU].mean;
        out->memory_ratio = r->system->host[SONDE_HOST_MEMORY].mean;
        if (r->system->process_count) out->busiest = &r->system->processes[0];
    }
    for (size_t i = 0; r->findings && i < r->findings->causes; i++) {
        const size_t severity = (size_t)r->findings->rows[i].severity;
        if (severity < 3) out->severities[severity]++;
    }
}

/* ---- Text ------------------------------------------------------------------------------------ */

struct summary_text {
    const struct report *r;
    const struct report_summary *s;
    struct sonde_buf *out;
};

static void summary_requests(const struct summary_text *x)
{
    const struct infer_report *i = &x->r->infer;
    char ttft[SONDE_VALUE_BYTES], total[SONDE_VALUE_BYTES], line[256] = "";
    if (!i->run || !i->all.count) return;
    const struct infer_dist *first = &i->all.dist[INFER_TTFT], *whole = &i->all.dist[INFER_TOTAL];
    const int ascii = x->r->o->ascii;
    if (first->count && whole->count) {
        snprintf(line, sizeof(line), "; p95 to the first token %s, in all %s",
                 sonde_value_format(ttft, first->p95, SONDE_UNIT_SECONDS, ascii),
                 sonde_value_format(total, whole->p95, SONDE_UNIT_SECONDS, ascii));
    }
    report_put_fact(x->r->o, x->out, "requests", "%" PRIu64 ", %" PRIu64 " ok%s", i->all.count,
                    i->all.requests[SONDE_OK], line);
    if (i->seconds > 0 && i->tokens_out) {
        report_put_fact(x->r->o, x->out, "tokens", "%.4g per second", (double)i->tokens_out /
                        i->seconds);
    }
}

static void summary_operations(const struct summary_text *x)
{
    const struct report_summary *s = x->s;
    char rate[SONDE_VALUE_BYTES], slow[SONDE_VALUE_BYTES], failed[64] = "none failed";
    const int ascii = x->r->o->ascii;
    if (!s->operations) return;
    if (s->errors) {
        char share[SONDE_PERCENT_BYTES];
        snprintf(failed, sizeof(failed), "%" PRIu64 " failed (%s)", s->errors,
                 sonde_percent_text(share, (double)s->errors / (double)s->operations));
    }
    report_put_fact(x->r->o, x->out, "operations", "%" PRIu64 ", %s per second, %s",
                    s->operations, sonde_value_format(rate, s->operation_rate, SONDE_UNIT_COUNT,
                                                      ascii), failed);
    report_put_fact(x->r->o, x->out, "slowest", "%.1000s, %s %s", s->slowest->operation,
                    isnan(s->slowest->p95_s) ? "mean" : "p95",
                    sonde_value_format(slow, summary_slowness(s->slowest), SONDE_UNIT_SECONDS,
                                       ascii));
}

static void summary_moved(const struct summary_text *x)
{
    const struct report_summary *s = x->s;
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    const int ascii = x->r->o->ascii;
    if (s->look_ups) {
        report_put_fact(x->r->o, x->out, "caches", "%.1f %% hits of %s look-ups", 100 *
                        s->hit_ratio, sonde_value_format(a, (double)s->look_ups, SONDE_UNIT_COUNT,
                                                         ascii));
    }
    if (!isnan(s->in_rate) || !isnan(s->out_rate)) {
        report_put_fact(x->r->o, x->out, "bandwidth", "%s per second in, %s out",
                        sonde_value_format(a, s->in_rate, SONDE_UNIT_BYTES, ascii),
                        sonde_value_format(b, s->out_rate, SONDE_UNIT_BYTES, ascii));
    }
}

static void summary_system(const struct summary_text *x)
{
    const struct sonde_system *s = x->r->system;
    const struct sonde_system_one *one = x->s->busiest;
    char mean[SONDE_VALUE_BYTES], most[SONDE_VALUE_BYTES], used[64] = "";
    const int ascii = x->r->o->ascii;
    if (!s) return;
    if (s->host[SONDE_HOST_CPU].points) {
        report_put_fact(x->r->o, x->out, "machine", "%.1f %% of %.0f CPU%s busy, at most %.1f %%; "
                        "memory %.1f %%", 100 * x->s->cpu_ratio, s->cpus, s->cpus > 1 ? "s" : "",
                        100 * s->host[SONDE_HOST_CPU].max, 100 * x->s->memory_ratio);
    }
    if (!one || !one->figures[SONDE_PROCESS_MEMORY].points) return;
    const struct sonde_system_figure *cpu = &one->figures[SONDE_PROCESS_CPU];
    const struct sonde_system_figure *memory = &one->figures[SONDE_PROCESS_MEMORY];
    if (cpu->max > 0) { /* what ends within a tick was not seen at work */
        snprintf(used, sizeof(used), "%.2f CPUs, at most %.2f; ", cpu->mean, cpu->max);
    }
    report_put_fact(x->r->o, x->out, "process", "%.500s: %smemory %s, at most %s", one->program,
                    used, sonde_value_format(mean, memory->mean, SONDE_UNIT_BYTES, ascii),
                    sonde_value_format(most, memory->max, SONDE_UNIT_BYTES, ascii));
}

/* The last value of what is trained for, under the first name that has one. */
static void summary_training(const struct summary_text *x)
{
    const struct sonde_ml *ml = x->r->ml;
    char rate[SONDE_VALUE_BYTES], last[160] = "";
    for (uint32_t i = 0; ml && i < ml->training_count && i < 3; i++) {
        const struct sonde_ml_training *t = &ml->trainings[i];
        const double v = t->epoch_count && t->curve_count
                             ? sonde_ml_epoch_value(&t->epochs[t->epoch_count - 1],
                                                    t->curve_names[0]) : NAN;
        if (!isnan(v)) snprintf(last, sizeof(last), ", %.100s %.4g", t->curve_names[0], v);
        report_put_fact(x->r->o, x->out, "training", "%.500s: %" PRIu64 " epoch%s%s, %s samples "
                        "per second", t->model, t->epoch.count, t->epoch.count == 1 ? "" : "s",
                        last, sonde_value_format(rate, t->samples_per_s, SONDE_UNIT_COUNT,
                                                 x->r->o->ascii));
    }
}

static void summary_findings(const struct summary_text *x)
{
    static const char *const words[3] = { "info", "warning", "critical" };
    char line[96] = "";
    size_t len = 0;
    for (int i = 2; x->r->findings && i >= 0; i--) {
        if (!x->s->severities[i]) continue;
        const int n = snprintf(line + len, sizeof(line) - len, "%s%zu %s", len ? ", " : "",
                               x->s->severities[i], words[i]);
        len += n > 0 ? (size_t)n : 0;
    }
    if (len) report_put_fact(x->r->o, x->out, "findings", "%s", line);
}

/* Of a part by thread or span, or of one kind of samples, there is nothing to sum up. */
static int summary_is_asked(const struct report *r)
{
    return r->o->filter.kind < 0 &&
           (r->activity || r->system || r->infer.run || r->inside || r->ml);
}

void report_summary_text(const struct report *r, struct sonde_buf *out)
{
    struct report_summary s;
    const struct summary_text x = { r, &s, out };
    if (!summary_is_asked(r)) return;
    report_summary_of(r, &s);
    report_put_heading(r->o, 2, "Summary", out);
    summary_requests(&x);
    summary_operations(&x);
    summary_moved(&x);
    summary_training(&x);
    if (r->flat_count && r->flat[0].self) {
        report_put_fact(r->o, out, "hot spot", "%.1000s, %.1f %% of the %s", r->flat[0].name,
                        100 * report_share(r, r->flat[0].self), sonde_sample_kind_title(r->kind));
    }
    summary_system(&x);
    summary_findings(&x);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void summary_json_slowest(const struct sonde_activity_operation *o, struct sonde_buf *out)
{
    if (!o) {
        sonde_json_str(out, "slowest_operation", NULL);
        return;
    }
    sonde_json_key_open(out, "slowest_operation", '{');
    sonde_json_str(out, "program", o->program);
    sonde_json_str(out, "operation", o->operation);
    sonde_json_u64(out, "count", o->count);
    sonde_json_num(out, "mean_s", o->mean_s);
    sonde_json_num(out, "p95_s", o->p95_s);
    sonde_json_close(out, '}');
}

static void summary_json_requests(const struct infer_report *i, struct sonde_buf *out)
{
    const int any = i->run && i->all.count;
    const int timed = any && i->seconds > 0;
    sonde_json_num(out, "requests", any ? (double)i->all.count : NAN);
    sonde_json_num(out, "requests_per_second", timed ? (double)i->all.count / i->seconds : NAN);
    sonde_json_num(out, "tokens_per_second", timed ? (double)i->tokens_out / i->seconds : NAN);
    sonde_json_num(out, "ttft_p95_s", any ? i->all.dist[INFER_TTFT].p95 : NAN);
}

static void summary_json_function(const struct report *r, struct sonde_buf *out)
{
    if (!r->flat_count || !r->flat[0].self) {
        sonde_json_str(out, "top_function", NULL);
        return;
    }
    sonde_json_key_open(out, "top_function", '{');
    sonde_json_str(out, "name", r->flat[0].name);
    sonde_json_num(out, "share", round(report_share(r, r->flat[0].self) * 1e6) / 1e6);
    sonde_json_close(out, '}');
}

static void summary_json_findings(const struct report *r, const struct report_summary *s,
                                  struct sonde_buf *out)
{
    if (!r->findings) {
        sonde_json_str(out, "findings", NULL);
        return;
    }
    sonde_json_key_open(out, "findings", '{');
    for (int i = 0; i < 3; i++) {
        sonde_json_u64(out, sonde_severity_name((enum sonde_severity)i), s->severities[i]);
    }
    sonde_json_close(out, '}');
}

static void summary_json_advice(const struct sonde_findings *f, struct sonde_buf *out)
{
    sonde_json_key_open(out, "recommendations", '[');
    for (size_t i = 0; i < f->causes; i++) {
        const struct sonde_finding *row = &f->rows[i];
        if (!*row->advice) continue;
        sonde_json_open(out, '{');
        sonde_json_str(out, "severity", sonde_severity_name(row->severity));
        sonde_json_str(out, "kind", row->kind);
        sonde_json_str(out, "subject", row->subject);
        sonde_json_str(out, "message", row->text);
        sonde_json_str(out, "details", row->advice);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

void report_summary_json(const struct report *r, struct sonde_buf *out)
{
    struct report_summary s;
    if (r->o->filter.kind >= 0) return;
    report_summary_of(r, &s);
    sonde_json_key_open(out, "summary", '{');
    sonde_json_num(out, "duration_seconds", s.seconds);
    sonde_json_num(out, "operations", r->activity ? (double)s.operations : NAN);
    sonde_json_num(out, "operations_per_second", s.operation_rate);
    sonde_json_num(out, "errors", r->activity ? (double)s.errors : NAN);
    sonde_json_num(out, "error_ratio",
                   s.operations ? (double)s.errors / (double)s.operations : NAN);
    summary_json_slowest(s.slowest, out);
    sonde_json_num(out, "cache_efficiency", s.hit_ratio);
    sonde_json_num(out, "bytes_per_second",
                   isnan(s.in_rate) && isnan(s.out_rate) ? NAN : s.in_rate + s.out_rate);
    summary_json_requests(&r->infer, out);
    sonde_json_num(out, "cpu_percent", round(1e4 * s.cpu_ratio) / 100);
    sonde_json_num(out, "memory_percent", round(1e4 * s.memory_ratio) / 100);
    sonde_json_num(out, "process_cpu_ratio",
                   s.busiest ? s.busiest->figures[SONDE_PROCESS_CPU].mean : NAN);
    sonde_json_num(out, "process_memory_peak_bytes",
                   s.busiest ? s.busiest->figures[SONDE_PROCESS_MEMORY].max : NAN);
    summary_json_function(r, out);
    summary_json_findings(r, &s, out);
    sonde_json_close(out, '}');
    if (r->findings) summary_json_advice(r->findings, out);
}
