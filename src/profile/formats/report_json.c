/* report_json.c - a short report for programs: the functions that take the most, by kind of sample.
 * Only what is known is in it: a section without data is left out, and so is what an analysis
 * would have to conclude. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "profile/format.h"
#include "profile/formats/report_json.h"
#include "profile/heap.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"

enum { TOP_MAX = 100 };
#define BYTES_PER_MB (1024.0 * 1024.0)

/* 1 if the CPU was sampled, and no sample came. */
static int was_idle(const struct sonde_profile *p)
{
    return p->rate_hz > 0 && !p->weights[SONDE_SAMPLE_CPU];
}

static void report_json_put_string(struct sonde_buf *out, const char *before, const char *s)
{
    sonde_buf_puts(out, before);
    sonde_buf_json_str(out, s, strlen(s));
}

static void report_json_put_number(struct sonde_buf *out, const char *before, double v)
{
    sonde_buf_puts(out, before);
    sonde_buf_json_double(out, v);
}

/* To two decimals: more would only look exact. */
static double report_json_percent(uint64_t part, uint64_t whole)
{
    return whole ? round(1e4 * (double)part / (double)whole) / 100 : 0;
}

static void put_function(struct sonde_buf *out, const struct sonde_flat *row,
                         const struct sonde_tree *t)
{
    const uint64_t total = t->nodes[0].total;
    report_json_put_string(out, "{\"name\":", row->name);
    sonde_buf_printf(out, ",\"samples\":%llu", (unsigned long long)row->self_samples);
    report_json_put_number(out, ",\"percent\":", report_json_percent(row->self, total));
    report_json_put_number(out, ",\"total_percent\":", report_json_percent(row->total, total));
    if (*row->module) report_json_put_string(out, ",\"module\":", row->module);
    if (*row->file) report_json_put_string(out, ",\"file\":", row->file);
    if (row->line) sonde_buf_printf(out, ",\"line\":%u", row->line);
    sonde_buf_putc(out, '}');
}

/* The CPU was sampled, and nothing used it. */
static void put_idle(struct sonde_buf *out, const char *key)
{
    report_json_put_string(out, ",\n", key);
    sonde_buf_puts(out, ":{\"total_samples\":0,\"total_seconds\":0,\"truncated_percent\":0,"
                        "\"top_functions\":[],"
                        "\"note\":\"no samples: nothing used the CPU in that time\"}");
}

/* "cpu": {…}. Nothing if no sample of that kind passes. */
static int report_json_put_functions(struct sonde_buf *out, const char *key,
                                     const struct sonde_profile *p, struct sonde_profile_filter f,
                                     enum sonde_sample_kind kind, size_t limit)
{
    struct sonde_tree *t;
    struct sonde_flat *rows;
    size_t count;
    const struct sonde_tree_options o = { 0 };
    f.kind = (int)kind;
    int rc = sonde_tree_build(p, &f, &o, &t, NULL);
    if (rc == SONDE_ENOENT && kind == SONDE_SAMPLE_CPU && was_idle(p)) put_idle(out, key);
    if (rc) return rc == SONDE_ENOENT ? 0 : rc;
    rc = sonde_tree_flat(t, &rows, &count);
    if (rc) {
        sonde_tree_destroy(t);
        return rc;
    }
    report_json_put_string(out, ",\n", key);
    sonde_buf_printf(out, ":{\"total_samples\":%llu", (unsigned long long)t->nodes[0].samples);
    if (sonde_sample_kind_is_time(kind)) {
        report_json_put_number(out, ",\"total_seconds\":", (double)t->nodes[0].total / 1e9);
    }
    report_json_put_number(
        out, ",\"truncated_percent\":", report_json_percent(t->truncated, t->nodes[0].total));
    if (kind == SONDE_SAMPLE_CPU && p->achieved_hz > 0) {
        report_json_put_number(out, ",\"achieved_hz\":", p->achieved_hz);
    }
    sonde_buf_puts(out, ",\"top_functions\":[");
    for (size_t i = 0; i < count && i < limit && rows[i].self; i++) {
        sonde_buf_puts(out, i ? ",\n" : "\n");
        put_function(out, &rows[i], t);
    }
    sonde_buf_puts(out, "]}");
    sonde__free(rows);
    sonde_tree_destroy(t);
    return out->error;
}

/* Sums of memory samples that pass; 0: there are none. */
static int sum_kind(const struct sonde_profile *p, struct sonde_profile_filter f,
                    enum sonde_sample_kind kind, uint64_t *weight, uint64_t *count)
{
    struct sonde_profile_match *m;
    f.kind = (int)kind;
    *weight = *count = 0;
    if (sonde_profile_match_create(p, &f, &m, NULL)) return 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (!sonde_profile_matches(m, i)) continue;
        *weight += p->samples[i].weight;
        *count += p->samples[i].count;
    }
    const int found = sonde_profile_match_count(m) > 0;
    sonde_profile_match_destroy(m);
    return found;
}

/* What is known of the process, also when no allocation was sampled. 0 = unknown. */
static void report_json_put_process(struct sonde_buf *out, const struct sonde_heap *h)
{
    const struct { const char *key; uint64_t bytes; } parts[] = {
        { "rss_mb", h->rss_bytes },
        { "rss_peak_mb", h->rss_peak_bytes },
        { "pss_mb", h->pss_bytes },
    };
    for (size_t i = 0; i < SONDE_COUNT(parts); i++) {
        if (parts[i].bytes) {
            sonde_json_num(out, parts[i].key, (double)parts[i].bytes / BYTES_PER_MB);
        }
    }
}

int sonde_report_short_memory(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                              struct sonde_buf *out)
{
    static const struct {
        enum sonde_sample_kind kind;
        const char *megabytes, *events;
    } parts[] = {
        { SONDE_SAMPLE_PEAK, "peak_mb", NULL },
        { SONDE_SAMPLE_LIVE, "live_mb", NULL },
        { SONDE_SAMPLE_ALLOC, "allocated_mb", "allocations" },
        { SONDE_SAMPLE_TEMPORARY, "temporary_mb", "temporary_allocations" },
        { SONDE_SAMPLE_LEAKED, "leaked_mb", NULL },
    };
    int any = 0;
    for (size_t i = 0; i < SONDE_COUNT(parts); i++) {
        uint64_t weight, count;
        /* A heap that was watched and leaks nothing leaks 0; and so on. */
        if (!sum_kind(p, *f, parts[i].kind, &weight, &count) && !p->heap) continue;
        any = 1;
        sonde_json_num(out, parts[i].megabytes, (double)weight / BYTES_PER_MB);
        if (parts[i].events) sonde_json_u64(out, parts[i].events, count);
    }
    if (any && p->heap) report_json_put_process(out, p->heap);
    return any;
}

static void report_json_put_memory(struct sonde_buf *out, const struct sonde_profile *p,
                                   const struct sonde_profile_filter *f)
{
    const size_t before = out->len;
    sonde_json_key_open(out, "memory", '{');
    if (sonde_report_short_memory(p, f, out)) sonde_json_close(out, '}');
    else if (!out->error) out->len = before;
}

int sonde_report_short_functions(const struct sonde_profile *p,
                                 const struct sonde_profile_filter *f, size_t limit,
                                 struct sonde_buf *out)
{
    static const struct { const char *key; enum sonde_sample_kind kind; } parts[] = {
        { "cpu", SONDE_SAMPLE_CPU }, { "off_cpu", SONDE_SAMPLE_OFFCPU },
        { "runnable", SONDE_SAMPLE_RUNNABLE }, { "imported", SONDE_SAMPLE_OTHER },
        { "wall", SONDE_SAMPLE_WALL }, { "gpu", SONDE_SAMPLE_GPU },
        { "gpu_wait", SONDE_SAMPLE_GPU_WAIT },
    };
    int rc = 0;
    for (size_t i = 0; !rc && i < SONDE_COUNT(parts); i++) {
        rc = report_json_put_functions(out, parts[i].key, p, *f, parts[i].kind, limit);
    }
    return rc;
}

static void report_json_put_head(struct sonde_buf *out, const struct sonde_profile *p)
{
    const char *program = sonde_profile_str(p, p->program);
    const time_t start = (time_t)(p->start_ns / 1000000000u);
    char id[64] = "prof_imported";
    struct tm tm;
    if (p->start_ns && gmtime_r(&start, &tm)) {
        strftime(id, sizeof(id), "prof_%Y%m%d_%H%M%S", &tm);
    }
    report_json_put_string(out, "{\"profile_id\":", id);
    report_json_put_number(out, ",\n\"duration_seconds\":",
                           p->end_ns > p->start_ns ? (double)(p->end_ns - p->start_ns) / 1e9 : NAN);
    if (*program) report_json_put_string(out, ",\n\"program\":", program);
    if (p->lost_records) {
        sonde_buf_printf(out, ",\n\"lost_records\":%llu", (unsigned long long)p->lost_records);
    }
    if (p->cost.text) {
        report_json_put_string(out, ",\n\"own_cost\":{\"text\":",
                               sonde_profile_str(p, p->cost.text));
        report_json_put_number(out, ",\"ratio\":", p->cost.ratio);
        report_json_put_number(out, ",\"low\":", p->cost.low);
        report_json_put_number(out, ",\"high\":", p->cost.high);
        sonde_buf_printf(out, ",\"pairs\":%u}", p->cost.pairs);
    }
    if (p->dropped_samples) {
        sonde_buf_printf(out, ",\n\"dropped_samples\":%llu",
                         (unsigned long long)p->dropped_samples);
    }
}

/* The filter's kind does not count here: a report shows all kinds. */
static int report_write(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                        struct sonde_buf *out, struct sonde_err *err)
{
    struct sonde_profile_match *m;
    int rc = sonde_profile_match_create(p, f, &m, err);
    if (rc) return rc;
    const uint32_t matching = sonde_profile_match_count(m);
    sonde_profile_match_destroy(m);
    const int facts = !p->samples_count && (p->heap || was_idle(p));
    if (!matching && !facts) return sonde_profile_match_none(p, f, err);
    report_json_put_head(out, p);
    rc = sonde_report_short_functions(p, f, TOP_MAX, out);
    if (!rc) report_json_put_memory(out, p, f);
    sonde_buf_puts(out, "}\n");
    if (!rc) rc = out->error;
    return rc ? sonde_err_set(err, rc, "no memory for the report") : 0;
}

extern const struct sonde_format_ops sonde_format_report_json;
const struct sonde_format_ops sonde_format_report_json = {
    .name = "report-json",
    .summary = "a short report as JSON: top functions by kind of sample, memory in sums",
    .content_type = "application/json",
    .suffix = ".json",
    .write = report_write,
};
