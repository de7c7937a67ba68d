/* profile.c - the figures of a report. */
#include "present/report/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "base/path.h"
#include "present/debug_package.h"
#include "present/report/profile_private.h"
#include "present/units.h"
#include "sonde/sonde.h"

enum { LIMIT_DEFAULT = 20, NOTES_MAX = 1 << 17 };
#define SHARE_MIN_DEFAULT 0.01

static const char *report_module_advice(uint32_t flags)
{
    if (flags & SONDE_MODULE_VDSO) return "";
    if (flags & SONDE_MODULE_JIT) {
        return flags & SONDE_MODULE_STRIPPED
                   ? "code made while it ran, without a map of names (/tmp/perf-PID.map): start "
                     "node with --perf-basic-prof, Java with -XX:+DumpPerfMapAtExit, Python with "
                     "-X perf" : "";
    }
    if (flags & SONDE_MODULE_KERNEL) {
        return flags & SONDE_MODULE_STRIPPED ? "addresses are hidden: set the sysctl "
                                               "kernel.kptr_restrict to 0 or record as root" : "";
    }
    if (flags & SONDE_MODULE_DELETED && flags & (SONDE_MODULE_STRIPPED | SONDE_MODULE_NO_LINES)) {
        return "the file was deleted or replaced while it ran: record again";
    }
    if (flags & SONDE_MODULE_STRIPPED) {
        return "no symbols: install its debug symbols, set DEBUGINFOD_URLS, or build it with -g "
               "and do not strip it";
    }
    if (flags & SONDE_MODULE_NO_LINES) {
        return "no debug information, so no lines and inlined frames: install its debug symbols, "
               "set DEBUGINFOD_URLS, or build it with -g";
    }
    return "";
}

/* Python's interpreter, in a profile without functions of Python. */
static int report_hides_python(const struct report *r, const char *path)
{
    const char *base = sonde_path_base(path);
    if (strncmp(base, "python3", 7) != 0 && strncmp(base, "libpython3", 10) != 0) return 0;
    for (uint32_t i = 1; i < r->p->modules_count; i++) {
        if (r->p->modules[i].flags & SONDE_MODULE_PYTHON) return 0;
    }
    return 1;
}

void report_module_advise(const struct report *r, const struct report_module *m, char *out,
                          size_t size)
{
    if (report_hides_python(r, sonde_profile_str(r->p, m->path))) {
        snprintf(out, size, "functions of Python are not seen: start it under sonde, not by "
                 "--engine perf; of CPython 3.11 to 3.13");
        return;
    }
    static const char words[] = "install its debug symbols";
    char package[SONDE_DEBUG_PACKAGE_MAX];
    const char *advice = report_module_advice(m->flags);
    const char *at = strstr(advice, words);
    snprintf(out, size, "%s", advice);
    if (at && !sonde_debug_package(NULL, sonde_profile_str(r->p, m->path), package)) {
        snprintf(out, size, "%.*sinstall %s%s", (int)(at - advice), advice, package,
                 at + sizeof(words) - 1);
    }
}

/* ---- Threads and modules --------------------------------------------------------------------- */

static int by_thread_weight(const void *a, const void *b)
{
    const struct report_thread *x = a, *y = b;
    if (x->weight != y->weight) return SONDE_CMP(y->weight, x->weight);
    return SONDE_CMP(x->thread, y->thread);
}

static int by_module_weight(const void *a, const void *b)
{
    const struct report_module *x = a, *y = b;
    if (x->weight != y->weight) return SONDE_CMP(y->weight, x->weight);
    return SONDE_CMP(x->path, y->path);
}

/* A module is mapped in several places: one row for each file. */
static void join_modules(struct report *r)
{
    const struct sonde_profile *p = r->p;
    size_t kept = 0;
    for (uint32_t i = 1; i < p->modules_count; i++) {
        const struct report_module m = r->modules[i];
        if (!m.weight || !*report_module_advice(m.flags)) continue;
        size_t k = 0;
        while (k < kept && (r->modules[k].path != m.path || r->modules[k].build_id != m.build_id)) {
            k++;
        }
        if (k == kept) {
            r->modules[kept++] = m;
        } else {
            r->modules[k].weight += m.weight;
            r->modules[k].flags |= m.flags;
        }
    }
    r->module_count = kept;
    qsort(r->modules, kept, sizeof(*r->modules), by_module_weight);
}

static int sum_samples(struct report *r)
{
    const struct sonde_profile *p = r->p;
    const int rc = sonde_profile_match_create(p, &r->o->filter, &r->match, NULL);
    if (rc) return rc;
    r->threads = sonde__calloc(p->threads_count, sizeof(*r->threads));
    r->modules = sonde__calloc(p->modules_count, sizeof(*r->modules));
    if (!r->threads || !r->modules) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->modules_count; i++) {
        const struct sonde_profile_module *from = &p->modules[i];
        r->modules[i] = (struct report_module){ .path = from->path, .build_id = from->build_id,
                                                .flags = from->flags };
    }
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (!sonde_profile_matches(r->match, i)) continue;
        const struct sonde_profile_sample *s = &p->samples[i];
        const int cut = (s->flags & SONDE_SAMPLE_TRUNCATED) != 0;
        struct report_thread *t = &r->threads[s->thread];
        t->thread = s->thread;
        t->weight += s->weight;
        t->samples += s->count;
        t->truncated += cut ? s->count : 0;
        r->weight += s->weight;
        r->samples += s->count;
        r->truncated += cut ? s->count : 0;
        sonde_stack_sums_add(&r->stacks, s);
        r->modules[p->locations[p->stacks[s->stack].location].module].weight += s->weight;
    }
    for (uint32_t i = 0; i < p->threads_count; i++) {
        if (r->threads[i].samples) r->threads[r->thread_count++] = r->threads[i];
    }
    qsort(r->threads, r->thread_count, sizeof(*r->threads), by_thread_weight);
    join_modules(r);
    return 0;
}

/* ---- Spans ----------------------------------------------------------------------------------- */

static int by_span_duration(const void *a, const void *b)
{
    const struct report_span *x = a, *y = b;
    if (x->duration_ns_sum != y->duration_ns_sum) {
        return x->duration_ns_sum > y->duration_ns_sum ? -1 : 1;
    }
    return SONDE_CMP(x->name, y->name);
}

/* What is special in a glob, taken literally. */
static char *glob_of(const char *name)
{
    char *out = sonde__alloc(2 * strlen(name) + 1), *at = out;
    if (!out) return NULL;
    for (; *name; name++) {
        if (strchr("*?[]\\", *name)) *at++ = '\\';
        *at++ = *name;
    }
    *at = '\0';
    return out;
}

/* Weight of the samples that pass the filter and are inside a span of that name. */
static int weigh_span(const struct report *r, struct report_span *s)
{
    char *glob = glob_of(sonde_profile_str(r->p, s->name));
    if (!glob) return SONDE_ENOMEM;
    const struct sonde_profile_filter f = { .kind = (int)r->kind, .span = glob };
    struct sonde_profile_match *m;
    const int rc = sonde_profile_match_create(r->p, &f, &m, NULL);
    for (uint32_t i = 0; !rc && i < r->p->samples_count; i++) {
        if (sonde_profile_matches(m, i) && sonde_profile_matches(r->match, i)) {
            s->weight += r->p->samples[i].weight;
        }
    }
    if (!rc) sonde_profile_match_destroy(m);
    sonde__free(glob);
    return rc;
}

/* Spans that overlap the time range; the other filters are about samples. */
static int profile_report_sum_spans(struct report *r)
{
    const struct sonde_profile *p = r->p;
    const struct sonde_profile_filter *f = &r->o->filter;
    uint32_t *row_of = sonde__calloc(p->strings_count, sizeof(*row_of)); /* name -> row + 1 */
    if (!row_of) return SONDE_ENOMEM;
    int rc = 0;
    size_t cap = 0;
    for (uint32_t i = 0; !rc && i < p->spans_count; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        if (s->end_ns < s->start_ns || (f->from_ns && s->end_ns <= f->from_ns) ||
            (f->to_ns && s->start_ns >= f->to_ns)) {
            continue;
        }
        if (!row_of[s->name]) {
            rc = SONDE_ARRAY_ROOM(r->spans, r->span_count, cap);
            if (rc) break;
            r->spans[r->span_count++] = (struct report_span){ .name = s->name };
            row_of[s->name] = (uint32_t)r->span_count;
        }
        struct report_span *row = &r->spans[row_of[s->name] - 1];
        const uint64_t duration = s->end_ns - s->start_ns;
        row->count++;
        row->errors += s->outcome != SONDE_OK;
        row->duration_ns_sum += duration;
        if (duration > row->duration_ns_max) row->duration_ns_max = duration;
    }
    sonde__free(row_of);
    if (rc || !r->span_count) return rc;
    qsort(r->spans, r->span_count, sizeof(*r->spans), by_span_duration);
    for (size_t i = 0; !rc && r->tree && i < r->span_count && i < r->limit; i++) {
        rc = weigh_span(r, &r->spans[i]);
    }
    return rc;
}

/* ---- The report ------------------------------------------------------------------------------ */

/* 1 unless samples of some threads or spans are asked for, which series and heaps do not know. */
static int about_all(const struct sonde_profile_filter *f)
{
    return !f->thread && !f->span && !f->trace_hi && !f->trace_lo;
}

static int about_whole(const struct sonde_profile_filter *f)
{
    return about_all(f) && !f->from_ns && !f->to_ns;
}

/* Heap facts are of the whole process and the whole time, and beside the point for who asks for
 * another kind of sample. */
static int about_heap(const struct sonde_profile *p, const struct sonde_profile_filter *f)
{
    const int asked = f->kind < 0 ||
                      sonde_sample_kind_is_bytes((enum sonde_sample_kind)f->kind);
    return p->heap && asked && about_whole(f);
}

/* Nor do facts of GPUs know of a part. */
static int about_gpu(const struct sonde_profile *p, const struct sonde_profile_filter *f)
{
    const int asked = f->kind < 0 || f->kind == SONDE_SAMPLE_GPU ||
                      f->kind == SONDE_SAMPLE_GPU_WAIT;
    return p->gpu && asked && about_whole(f);
}

/* Requests are no samples: they are told unless something is asked for that they do not have. */
static int about_infer(const struct sonde_profile *p, const struct sonde_profile_filter *f)
{
    const int asked = f->kind < 0 || f->kind == SONDE_SAMPLE_CPU || f->kind == SONDE_SAMPLE_OFFCPU;
    return p->infer && (p->infer->request_count || p->infer->model_count) && asked && about_all(f);
}

/* Series: as they stood at the end, and of a part what they gained in it. */
static int report_series_init(struct report *r)
{
    const struct sonde_profile_filter *f = &r->o->filter;
    const struct sonde_final *final = r->p->final;
    const double from_s = (double)f->from_ns * 1e-9, to_s = (double)f->to_ns * 1e-9;
    int rc = 0;
    if (!about_all(f)) return 0;
    if (f->kind < 0) rc = sonde_system_build(r->p->tracks, from_s, to_s, &r->system);
    if (!rc && f->kind < 0) rc = sonde_gpus_build(r->p->tracks, from_s, to_s, &r->gpus);
    if (!rc && !about_whole(f)) {
        rc = sonde_final_of_tracks(r->p->tracks, from_s, to_s, &r->part);
        final = &r->part.final;
    }
    if (!rc) rc = sonde_ml_of_part(r->p, final, f->from_ns, f->to_ns, &r->ml);
    if (!rc && final) rc = sonde_engine_build(final->series, final->count, &r->inside);
    if (!rc && final) rc = sonde_activity_build(final->series, final->count, &r->activity);
    if (rc || !r->activity || final != &r->part.final) return rc;
    return sonde_activity_of_spans(r->activity, r->p, f->from_ns, f->to_ns);
}

/* Findings are of all of a recording. */
static int findings_init(struct report *r)
{
    const struct sonde_profile_filter *f = &r->o->filter;
    if (f->kind >= 0 || !about_whole(f) || !r->o->rules) return 0;
    return sonde_findings_look(r->p, r->o->rules, &r->findings);
}

/* What is known of all of a recording only. */
static int report_notes_init(struct report *r)
{
    const struct sonde_profile_filter *f = &r->o->filter;
    static const char whole[] = "of all of a recording: leave --from and --to out";
    sonde_buf_init(&r->notes, NOTES_MAX);
    if (r->p->notes) sonde_buf_puts(&r->notes, sonde_profile_str(r->p, r->p->notes));
    if (!about_all(f) || about_whole(f)) return r->notes.error;
    if (r->p->heap && f->kind < 0) {
        sonde_buf_printf(&r->notes, "%smemory: figures of heaps are %s", r->notes.len ? "\n" : "",
                         whole);
    }
    if (r->o->rules && f->kind < 0) {
        sonde_buf_printf(&r->notes, "%sfindings: rules look at figures %s",
                         r->notes.len ? "\n" : "", whole);
    }
    return r->notes.error;
}

static int report_samples_init(struct report *r)
{
    r->kind = r->tree->kind;
    int rc = sonde_tree_flat(r->tree, &r->flat, &r->flat_count);
    if (!rc) rc = sum_samples(r);
    if (!rc) {
        rc = sonde_profile_processes(r->p, r->match, r->kind, &r->processes, &r->process_count);
    }
    return rc;
}

/* Who asks for memory in use gets what is known of it, and who asks for everything what there is
 * besides samples; of another kind there is nothing to say. */
static int report_has_facts(const struct report *r, int heap, int inference)
{
    const struct sonde_profile_filter *f = &r->o->filter;
    const int in_use = f->kind < 0 || f->kind == SONDE_SAMPLE_LIVE;
    const int series = r->inside || r->activity || r->system || r->ml || r->p->spans_count ||
                       about_gpu(r->p, f);
    return (heap && in_use) ||
           ((inference || series) && (!r->p->samples_count || (f->kind < 0 && about_all(f))));
}

static int report_init(struct report *r, struct sonde_err *err)
{
    const struct sonde_profile_filter *f = &r->o->filter;
    const struct sonde_tree_options plain = { .by_module = 1 };
    const int heap = about_heap(r->p, f), inference = about_infer(r->p, f);
    int rc = report_series_init(r);
    if (!rc) rc = sonde_tree_build(r->p, f, &plain, &r->tree, err);
    if (rc == SONDE_ENOENT && report_has_facts(r, heap, inference)) rc = 0;
    else if (rc) return rc;
    if (r->tree) rc = report_samples_init(r);
    if (!rc && (r->tree || (f->kind < 0 && about_all(f)))) rc = profile_report_sum_spans(r);
    if (!rc && heap) rc = heap_report_init(&r->heap, r->p, r->o, r->limit);
    if (!rc && about_gpu(r->p, f)) rc = gpu_report_init(&r->gpu, r->p, r->limit);
    if (!rc && inference) rc = infer_report_init(&r->infer, r->p, r->o, r->limit);
    if (!rc) rc = report_notes_init(r);
    return rc ? rc : findings_init(r);
}

static void report_release(struct report *r)
{
    sonde_profile_match_destroy(r->match);
    sonde__free(r->flat);
    sonde__free(r->threads);
    sonde__free(r->processes);
    sonde__free(r->spans);
    sonde__free(r->modules);
    heap_report_release(&r->heap);
    infer_report_release(&r->infer);
    sonde_engine_destroy(r->inside);
    gpu_report_release(&r->gpu);
    sonde_activity_destroy(r->activity);
    sonde_system_destroy(r->system);
    sonde_gpus_destroy(r->gpus);
    sonde_ml_destroy(r->ml);
    sonde_final_part_release(&r->part);
    sonde_buf_release(&r->notes);
    sonde_findings_destroy(r->findings);
    sonde_tree_destroy(r->tree);
}

int sonde_profile_report(const struct sonde_profile *p, const struct sonde_report_options *o,
                         struct sonde_buf *out, struct sonde_err *err)
{
    static void (*const writers[])(const struct report *, struct sonde_buf *) = {
        [SONDE_REPORT_TEXT] = report_write_text, [SONDE_REPORT_MARKDOWN] = report_write_text,
        [SONDE_REPORT_JSON] = report_write_json, [SONDE_REPORT_CSV] = report_write_csv,
    };
    struct report r = { .p = p, .o = o, .limit = o->limit ? o->limit : LIMIT_DEFAULT,
                        .share_min = o->share_min > 0 ? o->share_min : SHARE_MIN_DEFAULT };
    int rc = report_init(&r, err);
    if (!rc && o->style == SONDE_REPORT_PDF) {
        rc = report_write_pdf(&r, out, err);
    } else if (!rc) {
        writers[o->style](&r, out);
        rc = out->error;
    }
    if (rc == SONDE_ENOMEM || rc == SONDE_EFULL) sonde_err_set(err, rc, "no memory for the report");
    report_release(&r);
    return rc;
}
