/* compact.c - see compact.h. */
#include "profile/compact.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

/* ---- Adding a part ----------------------------------------------------------------------------- */

/* Old id to new id, for what has been needed so far; 0 = not yet. */
struct adding {
    const struct sonde_profile *from;
    struct sonde_profile *to;
    uint32_t *string, *module, *function, *location, *stack, *thread;
    uint8_t *span;             /* is wanted */
    int rebase;
};

/* How far a module's addresses move so that they are offsets in its file; 0 = not at all. */
static uint64_t moves_by(const struct adding *a, uint32_t module)
{
    const struct sonde_profile_module *m = &a->from->modules[module];
    const uint32_t no_file = SONDE_MODULE_KERNEL | SONDE_MODULE_JIT | SONDE_MODULE_VDSO;
    if (!a->rebase || !module || m->flags & no_file || !m->path) return 0;
    return m->offset - m->start;
}

static uint32_t add_string(struct adding *a, uint32_t id)
{
    if (id && !a->string[id]) a->string[id] = sonde_profile_cstring(a->to, a->from->strings[id]);
    return a->string[id];
}

static uint32_t add_module(struct adding *a, uint32_t id)
{
    if (!id || a->module[id]) return a->module[id];
    struct sonde_profile_module row = a->from->modules[id];
    row.path = add_string(a, row.path);
    row.build_id = add_string(a, row.build_id);
    row.open_path = add_string(a, row.open_path);
    row.start += moves_by(a, id);
    row.end += moves_by(a, id);
    if (a->rebase) row.open_path = 0; /* of one process */
    a->module[id] = sonde_profile_module(a->to, &row);
    if (a->module[id]) a->to->modules[a->module[id]].flags |= row.flags;
    return a->module[id];
}

static uint32_t profile_fold_add_function(struct adding *a, uint32_t id)
{
    if (!id || a->function[id]) return a->function[id];
    struct sonde_profile_function row = a->from->functions[id];
    row.name = add_string(a, row.name);
    row.file = add_string(a, row.file);
    row.module = add_module(a, row.module);
    return a->function[id] = sonde_profile_function(a->to, &row);
}

static uint32_t profile_fold_add_thread(struct adding *a, uint32_t id)
{
    if (!id || a->thread[id]) return a->thread[id];
    const struct sonde_profile_thread *t = &a->from->threads[id];
    return a->thread[id] =
               sonde_profile_thread(a->to, t->pid, t->tid, sonde_profile_str(a->from, t->name));
}

static uint32_t profile_fold_add_location(struct adding *a, uint32_t id)
{
    if (!id || a->location[id]) return a->location[id];
    const struct sonde_profile_location *l = &a->from->locations[id];
    const uint32_t module = add_module(a, l->module);
    const uint64_t address = l->address ? l->address + moves_by(a, l->module) : 0;
    struct sonde_profile_line *lines = NULL;
    if (l->line_count) {
        lines = sonde__calloc(l->line_count, sizeof(*lines));
        if (!lines) return 0;
    }
    for (uint32_t i = 0; i < l->line_count; i++) {
        const struct sonde_profile_line *old = &a->from->lines[l->line + i];
        lines[i] =
            (struct sonde_profile_line){ profile_fold_add_function(a, old->function), old->line };
    }
    a->location[id] = sonde_profile_lines_location(a->to, module, address, lines, l->line_count);
    sonde__free(lines);
    return a->location[id];
}

static int profile_fold_is_wanted(const struct sonde_profile *p,
                                  const struct sonde_profile_sample *s,
                                  const struct sonde_compact_part *part)
{
    if (part->kinds && !(part->kinds >> s->kind & 1)) return 0;
    if (part->from_ns && s->time_ns < part->from_ns) return 0;
    if (part->to_ns && s->time_ns >= part->to_ns) return 0;
    return !part->pid || p->threads[s->thread].pid == part->pid;
}

/* Callers come before what they call: so those that are needed are marked backwards, and made
 * forwards. */
static int add_stacks(struct adding *a, const struct sonde_compact_part *part)
{
    const struct sonde_profile *p = a->from;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (profile_fold_is_wanted(p, &p->samples[i], part)) a->stack[p->samples[i].stack] = 1;
    }
    for (uint32_t i = p->stacks_count; i-- > 1;) {
        if (a->stack[i]) a->stack[p->stacks[i].parent] = 1;
    }
    a->stack[0] = 0;
    for (uint32_t i = 1; i < p->stacks_count; i++) {
        if (!a->stack[i]) continue;
        a->stack[i] = sonde_profile_stack(a->to, a->stack[p->stacks[i].parent],
                                          profile_fold_add_location(a, p->stacks[i].location));
        if (!a->stack[i]) return SONDE_ENOMEM;
    }
    return 0;
}

static int profile_fold_add_samples(struct adding *a, const struct sonde_compact_part *part)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < a->from->samples_count; i++) {
        struct sonde_profile_sample s = a->from->samples[i];
        if (!profile_fold_is_wanted(a->from, &s, part)) continue;
        const uint32_t thread = profile_fold_add_thread(a, s.thread);
        if (s.thread && !thread) return SONDE_ENOMEM;
        s.stack = a->stack[s.stack];
        s.thread = thread;
        rc = sonde_profile_add_sample(a->to, &s);
    }
    return rc;
}

static uint64_t profile_fold_later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* ---- Spans that are wanted --------------------------------------------------------------------- */

enum { PASSES_MAX = 16 };

struct span_id { uint64_t id; uint32_t index; };

/* A sample outside of any span. */
struct outside { uint64_t time_ns; uint32_t pid; };

struct wanting {
    struct adding *a;
    const struct sonde_compact_part *part;
    uint32_t *of_sample, *of_span; /* sonde_profile_innermost_spans */
    struct span_id *ids;           /* of those that are on a thread, sorted */
    uint32_t id_count;
    struct outside *outside;       /* sorted */
    uint32_t outside_count;
};

static int is_on_thread(const struct sonde_profile *p, uint32_t span)
{
    return p->threads[p->spans[span].thread].tid != 0;
}

static int profile_fold_by_id(const void *a, const void *b)
{
    const struct span_id *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int by_process(const void *a, const void *b)
{
    const struct outside *x = a, *y = b;
    if (x->pid != y->pid) return x->pid < y->pid ? -1 : 1;
    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

/* Index + 1 of the first of that id; 0 = none. */
static uint32_t find_span(const struct wanting *w, uint64_t id)
{
    uint32_t low = 0, high = w->id_count;
    while (id && low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (w->ids[mid].id < id) low = mid + 1;
        else high = mid;
    }
    return id && low < w->id_count && w->ids[low].id == id ? w->ids[low].index + 1 : 0;
}

/* With each span those that it began inside of, and what it was begun for. Most are found in the
 * first pass or two. */
static void want_above(const struct wanting *w)
{
    const struct sonde_profile *p = w->a->from;
    uint8_t *wanted = w->a->span;
    int more = 1;
    for (int pass = 0; more && pass < PASSES_MAX; pass++) {
        more = 0;
        for (uint32_t i = 0; i < p->spans_count; i++) {
            const uint32_t above[] = { w->of_span[i], find_span(w, p->spans[i].parent) };
            for (int k = 0; k < 2 && wanted[i]; k++) {
                if (!above[k] || wanted[above[k] - 1]) continue;
                wanted[above[k] - 1] = 1;
                more = 1;
            }
        }
    }
}

/* Whether a sample outside of any span was taken in this process while span was open. */
static int had_outside(const struct wanting *w, const struct sonde_profile_span *s, uint32_t pid)
{
    const struct outside key = { s->start_ns, pid };
    uint32_t low = 0, high = w->outside_count;
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (by_process(&w->outside[mid], &key) < 0) low = mid + 1;
        else high = mid;
    }
    return low < w->outside_count && w->outside[low].pid == pid &&
           w->outside[low].time_ns < s->end_ns;
}

static void want_others(struct wanting *w)
{
    const struct sonde_profile *p = w->a->from;
    uint32_t left = w->part->others_max;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (w->of_sample[i] || !s->thread || !s->time_ns ||
            !profile_fold_is_wanted(p, s, w->part)) {
            continue;
        }
        w->outside[w->outside_count++] =
            (struct outside){ s->time_ns, p->threads[s->thread].pid };
    }
    qsort(w->outside, w->outside_count, sizeof(*w->outside), by_process);
    for (uint32_t i = 0; i < p->spans_count && left; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        if (w->a->span[i] || !is_on_thread(p, i)) continue;
        if (!had_outside(w, s, p->threads[s->thread].pid)) continue;
        w->a->span[i] = 1;
        left--;
    }
}

static int wanting_init(struct wanting *w)
{
    const struct sonde_profile *p = w->a->from;
    int rc = sonde_profile_innermost_spans(p, &w->of_sample, &w->of_span);
    w->ids = sonde__calloc(p->spans_count, sizeof(*w->ids));
    w->outside = sonde__calloc(p->samples_count + 1u, sizeof(*w->outside));
    if (rc || !w->ids || !w->outside) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        if (!p->spans[i].id || !is_on_thread(p, i)) continue;
        w->ids[w->id_count++] = (struct span_id){ p->spans[i].id, i };
    }
    qsort(w->ids, w->id_count, sizeof(*w->ids), profile_fold_by_id);
    return 0;
}

static int want_spans(struct adding *a, const struct sonde_compact_part *part)
{
    const struct sonde_profile *p = a->from;
    const uint64_t from_ns = profile_fold_later(p->start_ns, part->from_ns);
    struct wanting w = { .a = a, .part = part };
    const int rc = wanting_init(&w);
    for (uint32_t i = 0; !rc && i < p->samples_count; i++) {
        if (w.of_sample[i] && profile_fold_is_wanted(p, &p->samples[i], part)) {
            a->span[w.of_sample[i] - 1] = 1;
        }
    }
    for (uint32_t i = 0; !rc && i < p->spans_count; i++) {
        if (part->pid && p->threads[p->spans[i].thread].pid != part->pid) continue;
        a->span[i] |= p->spans[i].start_ns < from_ns && p->spans[i].end_ns > from_ns;
    }
    if (!rc && part->others_max) want_others(&w);
    if (!rc) want_above(&w);
    sonde__free(w.of_sample);
    sonde__free(w.of_span);
    sonde__free(w.ids);
    sonde__free(w.outside);
    return rc;
}

/* Parts that follow each other may both know of a span that goes over their border. */
static int profile_fold_is_there(const struct sonde_profile *p, const struct sonde_profile_span *s)
{
    for (uint32_t i = 0; i < p->spans_count; i++) {
        const struct sonde_profile_span *o = &p->spans[i];
        if (o->start_ns == s->start_ns && o->id == s->id && o->thread == s->thread &&
            o->end_ns == s->end_ns) {
            return 1;
        }
    }
    return 0;
}

static int add_spans(struct adding *a, uint64_t from_ns)
{
    const struct sonde_profile *p = a->from;
    uint32_t part = 0;
    int rc = 0;
    for (uint32_t i = 0; !rc && i < p->spans_count; i++) {
        struct sonde_profile_span s = p->spans[i];
        const uint32_t first = part;
        while (part < p->parts_count && p->parts[part].span == i) part++;
        if (!a->span[i]) continue;
        s.thread = profile_fold_add_thread(a, s.thread);
        s.name = add_string(a, s.name);
        if (s.start_ns < from_ns && profile_fold_is_there(a->to, &s)) continue;
        rc = sonde_profile_add_span(a->to, &s);
        for (uint32_t k = first; !rc && k < part; k++) {
            struct sonde_profile_part row = p->parts[k];
            row.span = a->to->spans_count - 1;
            rc = sonde_profile_add_part(a->to, &row);
        }
    }
    return rc;
}

static void profile_fold_add_facts(struct adding *a, const struct sonde_compact_part *part)
{
    const struct sonde_profile *from = a->from;
    struct sonde_profile *p = a->to;
    const uint64_t start = profile_fold_later(from->start_ns, part->from_ns);
    const uint64_t end = part->to_ns && part->to_ns < from->end_ns ? part->to_ns : from->end_ns;
    const double had = (double)(p->end_ns - p->start_ns);
    const double add = end > start ? (double)(end - start) : 0;
    if (p->rate_hz == 0) p->rate_hz = from->rate_hz;
    if (p->achieved_hz == 0) {
        p->achieved_hz = from->achieved_hz;
    } else if (from->achieved_hz != 0 && had + add > 0) {
        p->achieved_hz = (p->achieved_hz * had + from->achieved_hz * add) / (had + add);
    }
    if (!p->start_ns || start < p->start_ns) p->start_ns = start;
    if (end > p->end_ns) p->end_ns = end;
    if (p->end_ns < p->start_ns) p->end_ns = p->start_ns;
    if (!part->from_ns && !part->to_ns && !part->pid && !part->kinds) { /* when and whose they were is not known */
        p->lost_records += from->lost_records;
        p->dropped_samples += from->dropped_samples;
    }
    if (!p->program) p->program = add_string(a, from->program);
    if (!p->command) p->command = add_string(a, from->command);
    if (!p->engine) p->engine = add_string(a, from->engine);
    if (!p->host) p->host = add_string(a, from->host);
}

static uint32_t *profile_fold_map_create(uint32_t count)
{
    return sonde__calloc(count + 1u, sizeof(uint32_t));
}

int sonde_compact_add(struct sonde_profile *p, const struct sonde_profile *from,
                   const struct sonde_compact_part *part)
{
    assert(p != from);
    struct adding a = { .from = from, .to = p, .rebase = part->rebase };
    a.string = profile_fold_map_create(from->strings_count);
    a.module = profile_fold_map_create(from->modules_count);
    a.function = profile_fold_map_create(from->functions_count);
    a.location = profile_fold_map_create(from->locations_count);
    a.stack = profile_fold_map_create(from->stacks_count);
    a.thread = profile_fold_map_create(from->threads_count);
    a.span = sonde__calloc(from->spans_count + 1u, 1);
    int rc = a.string && a.module && a.function && a.location && a.stack && a.thread && a.span
                 ? 0
                 : SONDE_ENOMEM;
    if (!rc) rc = add_stacks(&a, part);
    if (!rc) rc = profile_fold_add_samples(&a, part);
    if (!rc && part->spans && from->spans_count) rc = want_spans(&a, part);
    if (!rc) rc = add_spans(&a, profile_fold_later(from->start_ns, part->from_ns));
    if (!rc) profile_fold_add_facts(&a, part);
    sonde__free(a.string);
    sonde__free(a.module);
    sonde__free(a.function);
    sonde__free(a.location);
    sonde__free(a.stack);
    sonde__free(a.thread);
    sonde__free(a.span);
    return rc;
}

/* ---- Folding ----------------------------------------------------------------------------------- */

static int profile_fold_in_order(const void *a, const void *b)
{
    const struct sonde_profile_sample *x = a, *y = b;
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    if (x->stack != y->stack) return x->stack < y->stack ? -1 : 1;
    return x->flags < y->flags ? -1 : x->flags > y->flags;
}

/* 1 if b could be added to a. */
static int profile_fold_add_up(struct sonde_profile_sample *a, const struct sonde_profile_sample *b)
{
    uint32_t count;
    if (profile_fold_in_order(a, b) != 0 || __builtin_add_overflow(a->count, b->count, &count)) {
        return 0;
    }
    a->weight += b->weight; /* all weights of a kind fit (profile.h) */
    a->count = count;
    return 1;
}

/* Each thread as the one of its process, or of all, that has its name. */
static int name_threads(struct sonde_profile *p, int all)
{
    const uint32_t count = p->threads_count;
    uint32_t *to = sonde__calloc(count, sizeof(*to));
    int rc = to ? 0 : SONDE_ENOMEM;
    for (uint32_t i = 1; !rc && i < count; i++) {
        to[i] = sonde_profile_thread(p, all ? 0 : p->threads[i].pid, 0,
                                     sonde_profile_str(p, p->threads[i].name));
        if (!to[i]) rc = SONDE_ENOMEM;
    }
    for (uint32_t i = 0; !rc && i < p->samples_count; i++) {
        p->samples[i].thread = to[p->samples[i].thread];
    }
    sonde__free(to);
    return rc;
}

int sonde_compact_steps(struct sonde_profile *p, uint64_t step_ns, enum sonde_compact_threads threads)
{
    assert(step_ns);
    const int rc = threads ? name_threads(p, threads == SONDE_COMPACT_THREADS_ALL) : 0;
    if (rc) return rc;
    p->spans_count = p->parts_count = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        p->samples[i].time_ns -= p->samples[i].time_ns % step_ns;
    }
    if (p->samples_count) {
        qsort(p->samples, p->samples_count, sizeof(p->samples[0]), profile_fold_in_order);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (kept && profile_fold_add_up(&p->samples[kept - 1], &p->samples[i])) continue;
        p->samples[kept++] = p->samples[i];
    }
    p->samples_count = kept;
    return 0;
}
