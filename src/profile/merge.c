/* merge.c - one profile added to another: each table of the source is interned again, and a map
 * from old to new ids carries the next table over. Rows refer only to tables before theirs and
 * stacks only to earlier stacks, so one pass a table is enough. */
#include <assert.h>

#include "base/alloc.h"
#include "profile/engine.h"
#include "profile/heap.h"
#include "profile/infer.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

/* Old id to new id, for each table of the source. */
struct maps {
    uint32_t *string, *module, *function, *location, *stack, *thread;
};

static uint32_t *profile_merge_map_create(uint32_t count)
{
    return sonde__calloc(count, sizeof(uint32_t));
}

static int maps_create(struct maps *m, const struct sonde_profile *from)
{
    m->string = profile_merge_map_create(from->strings_count);
    m->module = profile_merge_map_create(from->modules_count);
    m->function = profile_merge_map_create(from->functions_count);
    m->location = profile_merge_map_create(from->locations_count);
    m->stack = profile_merge_map_create(from->stacks_count);
    m->thread = profile_merge_map_create(from->threads_count);
    return m->string && m->module && m->function && m->location && m->stack && m->thread
               ? 0
               : SONDE_ENOMEM;
}

static void maps_release(struct maps *m)
{
    sonde__free(m->string);
    sonde__free(m->module);
    sonde__free(m->function);
    sonde__free(m->location);
    sonde__free(m->stack);
    sonde__free(m->thread);
}

static int merge_names(struct sonde_profile *p, const struct sonde_profile *from, struct maps *m)
{
    for (uint32_t i = 1; i < from->strings_count; i++) {
        m->string[i] = sonde_profile_cstring(p, from->strings[i]);
        if (!m->string[i]) return SONDE_ENOMEM;
    }
    for (uint32_t i = 1; i < from->modules_count; i++) {
        struct sonde_profile_module row = from->modules[i];
        row.path = m->string[row.path];
        row.build_id = m->string[row.build_id];
        row.open_path = m->string[row.open_path];
        m->module[i] = sonde_profile_module(p, &row);
        if (!m->module[i]) return SONDE_ENOMEM;
        p->modules[m->module[i]].flags |= row.flags;
    }
    for (uint32_t i = 1; i < from->functions_count; i++) {
        struct sonde_profile_function row = from->functions[i];
        row.name = m->string[row.name];
        row.file = m->string[row.file];
        row.module = m->module[row.module];
        m->function[i] = sonde_profile_function(p, &row);
        if (!m->function[i]) return SONDE_ENOMEM;
    }
    for (uint32_t i = 1; i < from->threads_count; i++) {
        const struct sonde_profile_thread *t = &from->threads[i];
        m->thread[i] = sonde_profile_thread(p, t->pid, t->tid, from->strings[t->name]);
        if (!m->thread[i]) return SONDE_ENOMEM;
    }
    return 0;
}

static int merge_locations(struct sonde_profile *p, const struct sonde_profile *from,
                           struct maps *m)
{
    int rc = 0;
    struct sonde_profile_line *lines = NULL;
    uint32_t lines_cap = 0;
    for (uint32_t i = 1; i < from->locations_count && !rc; i++) {
        const struct sonde_profile_location *l = &from->locations[i];
        if (l->line_count > lines_cap) {
            sonde__free(lines);
            lines_cap = l->line_count;
            lines = sonde__calloc(lines_cap, sizeof(*lines));
            if (!lines) return SONDE_ENOMEM;
        }
        for (uint32_t k = 0; k < l->line_count; k++) {
            const struct sonde_profile_line *old = &from->lines[l->line + k];
            lines[k].function = m->function[old->function];
            lines[k].line = old->line;
        }
        m->location[i] = sonde_profile_lines_location(p, m->module[l->module], l->address, lines,
                                                      l->line_count);
        if (!m->location[i]) rc = SONDE_ENOMEM;
    }
    sonde__free(lines);
    return rc;
}

static int merge_samples(struct sonde_profile *p, const struct sonde_profile *from,
                         const struct maps *m)
{
    for (uint32_t i = 1; i < from->stacks_count; i++) {
        const struct sonde_profile_stack *s = &from->stacks[i];
        assert(s->parent < i);
        m->stack[i] = sonde_profile_stack(p, m->stack[s->parent], m->location[s->location]);
        if (!m->stack[i]) return SONDE_ENOMEM;
    }
    const uint32_t first_span = p->spans_count;
    for (uint32_t i = 0; i < from->spans_count; i++) {
        struct sonde_profile_span row = from->spans[i];
        row.thread = m->thread[row.thread];
        row.name = m->string[row.name];
        if (sonde_profile_add_span(p, &row)) return SONDE_ENOMEM;
    }
    for (uint32_t i = 0; i < from->parts_count; i++) {
        struct sonde_profile_part row = from->parts[i];
        row.span += first_span;
        if (sonde_profile_add_part(p, &row)) return SONDE_ENOMEM;
    }
    for (uint32_t i = 0; i < from->samples_count; i++) {
        struct sonde_profile_sample row = from->samples[i];
        row.thread = m->thread[row.thread];
        row.stack = m->stack[row.stack];
        const int rc = sonde_profile_add_sample(p, &row);
        if (rc) return rc;
    }
    return 0;
}

static int merge_heap(struct sonde_profile *p, const struct sonde_profile *from,
                      const struct maps *m)
{
    if (p->heap || !from->heap) return 0;
    struct sonde_heap *h = sonde_heap_copy(from->heap);
    if (!h) return SONDE_ENOMEM;
    h->allocator = m->string[h->allocator];
    for (uint32_t i = 0; i < h->site_count; i++) h->sites[i].stack = m->stack[h->sites[i].stack];
    for (uint32_t i = 0; i < h->thread_count; i++) {
        h->threads[i].thread = m->thread[h->threads[i].thread];
    }
    for (uint32_t i = 0; i < h->pool_count; i++) h->pools[i].name = m->string[h->pools[i].name];
    const int rc = sonde_profile_take_heap(p, h);
    if (rc) sonde_heap_destroy(h);
    return rc;
}

static void merge_facts(struct sonde_profile *p, const struct sonde_profile *from,
                        const struct maps *m)
{
    const double had = (double)(p->end_ns - p->start_ns);
    const double add = (double)(from->end_ns - from->start_ns);
    if (p->rate_hz == 0) p->rate_hz = from->rate_hz;
    if (p->achieved_hz == 0) {
        p->achieved_hz = from->achieved_hz;
    } else if (from->achieved_hz != 0 && had + add > 0) {
        p->achieved_hz = (p->achieved_hz * had + from->achieved_hz * add) / (had + add);
    }
    if (!p->start_ns || (from->start_ns && from->start_ns < p->start_ns)) {
        p->start_ns = from->start_ns;
    }
    if (from->end_ns > p->end_ns) p->end_ns = from->end_ns;
    p->lost_records += from->lost_records;
    p->dropped_samples += from->dropped_samples;
    if (!p->program) p->program = m->string[from->program];
    if (!p->command) p->command = m->string[from->command];
    if (!p->engine) p->engine = m->string[from->engine];
    if (!p->host) p->host = m->string[from->host];
}

int sonde_profile_merge(struct sonde_profile *p, const struct sonde_profile *from)
{
    assert(p != from);
    struct maps m = { 0 };
    int rc = maps_create(&m, from);
    if (!rc) rc = merge_names(p, from, &m);
    if (!rc) rc = merge_locations(p, from, &m);
    if (!rc) rc = merge_samples(p, from, &m);
    if (!rc) rc = merge_heap(p, from, &m);
    if (!rc) merge_facts(p, from, &m);
    maps_release(&m);
    if (!rc) rc = sonde_infer_run_merge(p, from);
    return rc ? rc : sonde_engine_run_merge(p, from);
}
