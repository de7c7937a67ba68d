/* copy.c - see copy.h.
 *
 * Rows refer only to tables before theirs, and stacks only to earlier stacks: so nothing here
 * recurses but from a location to its functions, their module and its texts. */
#include "profile/copy.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

int sonde_profile_copy_init(struct sonde_profile_copy *c, struct sonde_profile *to,
                            const struct sonde_profile *from)
{
    assert(to && from && to != from);
    *c = (struct sonde_profile_copy){ .from = from, .to = to };
    c->strings = sonde__calloc(from->strings_count + 1u, sizeof(uint32_t));
    c->modules = sonde__calloc(from->modules_count + 1u, sizeof(uint32_t));
    c->functions = sonde__calloc(from->functions_count + 1u, sizeof(uint32_t));
    c->locations = sonde__calloc(from->locations_count + 1u, sizeof(uint32_t));
    c->stacks = sonde__calloc(from->stacks_count + 1u, sizeof(uint32_t));
    c->threads = sonde__calloc(from->threads_count + 1u, sizeof(uint32_t));
    return c->strings && c->modules && c->functions && c->locations && c->stacks && c->threads
               ? 0
               : SONDE_ENOMEM;
}

void sonde_profile_copy_release(struct sonde_profile_copy *c)
{
    sonde__free(c->strings);
    sonde__free(c->modules);
    sonde__free(c->functions);
    sonde__free(c->locations);
    sonde__free(c->stacks);
    sonde__free(c->threads);
    sonde__free(c->lines);
    *c = (struct sonde_profile_copy){ 0 };
}

/* ---- Rows that others refer to --------------------------------------------------------------- */

/* A row was made, or was not. */
static inline uint32_t copy_note(struct sonde_profile_copy *c, uint32_t made)
{
    if (__builtin_expect(!made, 0)) c->failed = 1;
    return made;
}

static uint32_t profile_copy_string(struct sonde_profile_copy *c, uint32_t id)
{
    assert(id < c->from->strings_count);
    if (!id || c->strings[id]) return c->strings[id];
    return c->strings[id] = copy_note(c, sonde_profile_cstring(c->to, c->from->strings[id]));
}

uint32_t sonde_profile_copy_thread(struct sonde_profile_copy *c, uint32_t id)
{
    assert(id < c->from->threads_count);
    if (!id || c->threads[id]) return c->threads[id];
    const struct sonde_profile_thread *t = &c->from->threads[id];
    const char *name = sonde_profile_str(c->from, t->name);
    return c->threads[id] = copy_note(c, sonde_profile_thread(c->to, t->pid, t->tid, name));
}

/* How far a module's addresses move so that they are offsets in its file; 0 = not at all. */
static uint64_t copy_rebase(const struct sonde_profile_copy *c, uint32_t module)
{
    const struct sonde_profile_module *m = &c->from->modules[module];
    const uint32_t no_file = SONDE_MODULE_KERNEL | SONDE_MODULE_JIT | SONDE_MODULE_VDSO |
                             SONDE_MODULE_PYTHON;
    if (!c->rebase || !module || m->flags & no_file || !m->path) return 0;
    return m->offset - m->start;
}

static uint32_t copy_module(struct sonde_profile_copy *c, uint32_t id)
{
    assert(id < c->from->modules_count);
    if (!id || c->modules[id]) return c->modules[id];
    struct sonde_profile_module row = c->from->modules[id];
    row.path = profile_copy_string(c, row.path);
    row.build_id = profile_copy_string(c, row.build_id);
    row.open_path = c->rebase ? 0 : profile_copy_string(c, row.open_path); /* of one process */
    row.start += copy_rebase(c, id);
    row.end += copy_rebase(c, id);
    const uint32_t made = copy_note(c, sonde_profile_module(c->to, &row));
    if (made) c->to->modules[made].flags |= row.flags;
    return c->modules[id] = made;
}

static uint32_t copy_function(struct sonde_profile_copy *c, uint32_t id)
{
    assert(id < c->from->functions_count);
    if (!id || c->functions[id]) return c->functions[id];
    struct sonde_profile_function row = c->from->functions[id];
    row.name = profile_copy_string(c, row.name);
    row.file = profile_copy_string(c, row.file);
    row.module = copy_module(c, row.module);
    return c->functions[id] = copy_note(c, sonde_profile_function(c->to, &row));
}

static uint32_t copy_location(struct sonde_profile_copy *c, uint32_t id)
{
    assert(id < c->from->locations_count);
    if (!id || c->locations[id]) return c->locations[id];
    const struct sonde_profile_location *l = &c->from->locations[id];
    const uint32_t module = copy_module(c, l->module);
    const uint64_t address = l->address ? l->address + copy_rebase(c, l->module) : 0;
    if (SONDE_ARRAY_RESERVE(c->lines, c->lines_cap, l->line_count)) return copy_note(c, 0);
    for (uint32_t i = 0; i < l->line_count; i++) {
        const struct sonde_profile_line *old = &c->from->lines[l->line + i];
        c->lines[i] = (struct sonde_profile_line){ copy_function(c, old->function), old->line };
    }
    const uint32_t copy =
        sonde_profile_lines_location(c->to, module, address, c->lines, l->line_count);
    if (copy) c->to->locations[copy].flags |= l->flags;
    return c->locations[id] = copy_note(c, copy);
}

static int copy_stack(struct sonde_profile_copy *c, uint32_t id)
{
    const struct sonde_profile_stack *s = &c->from->stacks[id];
    assert(s->parent < id);
    c->stacks[id] = copy_note(c, sonde_profile_stack(c->to, c->stacks[s->parent],
                                                     copy_location(c, s->location)));
    return c->failed ? SONDE_ENOMEM : 0;
}

int sonde_profile_copy_tables(struct sonde_profile_copy *c)
{
    assert(!c->complete && !c->failed);
    const struct sonde_profile *p = c->from;
    int rc = 0;
    for (uint32_t i = 1; i < p->strings_count && !c->failed; i++) profile_copy_string(c, i);
    for (uint32_t i = 1; i < p->modules_count && !c->failed; i++) copy_module(c, i);
    for (uint32_t i = 1; i < p->functions_count && !c->failed; i++) copy_function(c, i);
    for (uint32_t i = 1; i < p->threads_count && !c->failed; i++) sonde_profile_copy_thread(c, i);
    for (uint32_t i = 1; i < p->locations_count && !c->failed; i++) copy_location(c, i);
    if (c->failed) return SONDE_ENOMEM;
    for (uint32_t i = 1; i < p->stacks_count && !rc; i++) rc = copy_stack(c, i);
    c->complete = !rc;
    return rc;
}

/* ---- Samples and spans ----------------------------------------------------------------------- */

/* Stacks of samples that are wanted. Callers come before what they call: so those that are needed
 * are marked backwards, and made forwards. */
static int copy_sample_stacks(struct sonde_profile_copy *c, sonde_profile_copy_wanted *wanted,
                              void *arg)
{
    enum { NEEDED = 1 }; /* until its id is known */
    const struct sonde_profile *p = c->from;
    int rc = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (!wanted || wanted(arg, i)) c->stacks[p->samples[i].stack] = NEEDED;
    }
    for (uint32_t i = p->stacks_count; i-- > 1;) {
        if (c->stacks[i]) c->stacks[p->stacks[i].parent] = NEEDED;
    }
    c->stacks[0] = 0;
    for (uint32_t i = 1; i < p->stacks_count && !rc; i++) {
        if (c->stacks[i]) rc = copy_stack(c, i);
    }
    return rc;
}

int sonde_profile_copy_samples(struct sonde_profile_copy *c, sonde_profile_copy_wanted *wanted,
                               void *arg)
{
    assert(!c->failed);
    int rc = c->complete ? 0 : copy_sample_stacks(c, wanted, arg);
    for (uint32_t i = 0; i < c->from->samples_count && !rc; i++) {
        if (wanted && !wanted(arg, i)) continue;
        struct sonde_profile_sample row = c->from->samples[i];
        row.stack = c->stacks[row.stack];
        row.thread = sonde_profile_copy_thread(c, row.thread);
        rc = c->failed ? SONDE_ENOMEM : sonde_profile_add_sample(c->to, &row);
    }
    return rc;
}

/* Those of span i, of which the first is *at, for the span that was copied last. */
static int copy_attrs(struct sonde_profile_copy *c, uint32_t i, uint32_t *at, int wanted)
{
    const struct sonde_profile *p = c->from;
    int rc = 0;
    for (; *at < p->attrs_count && p->attrs[*at].span == i && !rc; ++*at) {
        if (!wanted) continue;
        struct sonde_profile_attr row = p->attrs[*at];
        row.span = c->to->spans_count - 1;
        row.key = profile_copy_string(c, row.key);
        row.text = profile_copy_string(c, row.text);
        rc = c->failed ? SONDE_ENOMEM : sonde_profile_add_attr(c->to, &row);
    }
    return rc;
}

int sonde_profile_copy_spans(struct sonde_profile_copy *c, sonde_profile_copy_wanted *wanted,
                             void *arg, int parts)
{
    const struct sonde_profile *p = c->from;
    uint32_t part = 0, attr = 0;
    int rc = 0;
    for (uint32_t i = 0; i < p->spans_count && !rc; i++) {
        const uint32_t first = part;
        while (part < p->parts_count && p->parts[part].span == i) part++;
        if (wanted && !wanted(arg, i)) {
            copy_attrs(c, i, &attr, 0);
            continue;
        }
        struct sonde_profile_span row = p->spans[i];
        row.thread = sonde_profile_copy_thread(c, row.thread);
        row.name = profile_copy_string(c, row.name);
        rc = c->failed ? SONDE_ENOMEM : sonde_profile_add_span(c->to, &row);
        for (uint32_t k = first; k < part && parts && !rc; k++) {
            struct sonde_profile_part of = p->parts[k];
            of.span = c->to->spans_count - 1;
            rc = sonde_profile_add_part(c->to, &of);
        }
        if (!rc) rc = copy_attrs(c, i, &attr, 1);
    }
    return rc;
}

/* ---- What it says of itself ------------------------------------------------------------------ */

static void copy_rates(struct sonde_profile *p, const struct sonde_profile *from, uint64_t start_ns,
                       uint64_t end_ns)
{
    const double had = p->end_ns > p->start_ns ? (double)(p->end_ns - p->start_ns) : 0;
    const double add = end_ns > start_ns ? (double)(end_ns - start_ns) : 0;
    if (p->rate_hz == 0) p->rate_hz = from->rate_hz;
    if (p->achieved_hz == 0) {
        p->achieved_hz = from->achieved_hz;
    } else if (from->achieved_hz != 0 && had + add > 0) {
        p->achieved_hz = (p->achieved_hz * had + from->achieved_hz * add) / (had + add);
    }
}

int sonde_profile_copy_facts(struct sonde_profile_copy *c, uint64_t start_ns, uint64_t end_ns)
{
    const struct sonde_profile *from = c->from;
    struct sonde_profile *p = c->to;
    copy_rates(p, from, start_ns, end_ns);
    if (!p->start_ns || (start_ns && start_ns < p->start_ns)) p->start_ns = start_ns;
    if (end_ns > p->end_ns) p->end_ns = end_ns;
    if (!p->program) p->program = profile_copy_string(c, from->program);
    if (!p->command) p->command = profile_copy_string(c, from->command);
    if (!p->engine) p->engine = profile_copy_string(c, from->engine);
    if (!p->host) p->host = profile_copy_string(c, from->host);
    if (!p->notes) p->notes = profile_copy_string(c, from->notes);
    if (from->cost.text && (!p->cost.text || from->cost.pairs >= p->cost.pairs)) {
        p->cost = from->cost; /* of two, what is known better, or was found later */
        p->cost.text = profile_copy_string(c, from->cost.text);
    }
    return c->failed ? SONDE_ENOMEM : 0;
}

/* ---- As it stands ---------------------------------------------------------------------------- */

static void *view_rows(const void *rows, uint32_t count, size_t row_bytes)
{
    void *copy = sonde__alloc((count ? count : 1) * row_bytes);
    if (copy && count) memcpy(copy, rows, count * row_bytes);
    return copy;
}

int sonde_profile_view_init(struct sonde_profile *view, const struct sonde_profile *p)
{
    assert(view != p);
    int ok = 1;
    *view = *p;
    view->index = NULL;
    view->heap = NULL;
    view->infer = NULL;
    view->final = NULL;
    view->tracks = NULL;
#define VIEW_TABLE(type, name)                                                                 \
    view->name = view_rows(p->name, p->name##_count, sizeof(*p->name));                        \
    view->name##_cap = view->name##_count;                                                     \
    ok &= view->name != NULL;
    SONDE_PROFILE_TABLES(VIEW_TABLE)
#undef VIEW_TABLE
    return ok ? 0 : SONDE_ENOMEM;
}

void sonde_profile_view_release(struct sonde_profile *view)
{
    assert(!view->index); /* else it is a profile */
#define VIEW_FREE(type, name) sonde__free(view->name);
    SONDE_PROFILE_TABLES(VIEW_FREE)
#undef VIEW_FREE
}
