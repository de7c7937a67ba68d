/* cache.c - a profile without samples is the cache: it interns all that a cache of names
 * would, and has a limit. When that is reached everything is dropped, since what is in use comes
 * back with one look at its files. */
#include "profile/symbol/cache.h"

#include <string.h>

#include "base/utf8.h"
#include "profile/symbol/plan.h"
#include "sonde/sonde.h"

#define CACHE_BYTES (32u << 20)

/* Only what cannot change behind the key: a file with a build id, and the running kernel. */
static const char *symbol_cache_key_of(enum sonde_symbol_kind kind, const char *build_id)
{
    if (kind == SONDE_SYMBOL_KERNEL) return "[kernel]";
    if (kind == SONDE_SYMBOL_JIT || build_id[0] == '\0') return NULL;
    return build_id;
}

/* VADDR and FILE count from different places. */
static uint32_t module_of(struct sonde_profile *known, enum sonde_symbol_kind kind,
                          const char *key)
{
    struct sonde_profile_module m = { .path = sonde_profile_cstring(known, key),
                                      .offset = kind == SONDE_SYMBOL_VADDR };
    return m.path ? sonde_profile_module(known, &m) : 0;
}

static uint32_t symbol_cache_clean(struct sonde_profile *p, const char *s)
{
    char text[SONDE_SYMBOL_TEXT_MAX];
    int changed = 0;
    const size_t len = sonde__utf8_copy(text, sizeof(text), s, strlen(s), &changed);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) text[i] = '?';
    }
    return sonde_profile_string(p, text, len);
}

int sonde_symbol_set(struct sonde_profile *p, uint32_t location, uint32_t module,
                     const struct sonde_symbol_frame *frames, uint32_t count)
{
    struct sonde_profile_line lines[SONDE_SYMBOL_FRAMES_MAX];
    for (uint32_t i = 0; i < count; i++) {
        struct sonde_profile_function f = { .name = symbol_cache_clean(p, frames[i].name),
                                            .file = symbol_cache_clean(p, frames[i].file),
                                            .start_line = frames[i].start_line,
                                            .module = module };
        lines[i] = (struct sonde_profile_line){ sonde_profile_function(p, &f), frames[i].line };
        if (!lines[i].function || (frames[i].name[0] && !f.name)) return SONDE_ENOMEM;
    }
    return sonde_profile_set_lines(p, location, lines, count);
}

/* From the cache's location to p's. */
static int symbol_cache_copy(const struct sonde_profile *known, uint32_t from,
                             struct sonde_profile *p, uint32_t to)
{
    struct sonde_symbol_frame frames[SONDE_SYMBOL_FRAMES_MAX];
    const struct sonde_profile_location *l = &known->locations[from];
    for (uint32_t i = 0; i < l->line_count; i++) {
        const struct sonde_profile_line *line = &known->lines[l->line + i];
        const struct sonde_profile_function *f = &known->functions[line->function];
        frames[i] = (struct sonde_symbol_frame){ sonde_profile_str(known, f->name),
                                                 sonde_profile_str(known, f->file), line->line,
                                                 f->start_line };
    }
    return sonde_symbol_set(p, to, p->locations[to].module, frames, l->line_count);
}

int sonde_symbol_cache_use(struct sonde_symbol_cache *c, struct sonde_profile *p)
{
    int rc = 0;
    for (uint32_t i = 1; c->known && !rc && i < p->locations_count; i++) {
        const struct sonde_profile_location *l = &p->locations[i];
        if (l->line_count || !l->module || l->module >= p->modules_count || !l->address) continue;
        struct sonde_profile_module *m = &p->modules[l->module];
        const enum sonde_symbol_kind kind = sonde_symbol_plan_kind(m);
        const char *key = symbol_cache_key_of(kind, sonde_profile_str(p, m->build_id));
        const uint32_t module = key ? module_of(c->known, kind, key) : 0;
        const uint32_t from =
            module ? sonde_profile_location(c->known, module,
                                            sonde_symbol_plan_at(m, l->address)) : 0;
        if (!from || !c->known->locations[from].line_count) continue;
        m->flags |= c->known->modules[module].flags;
        rc = symbol_cache_copy(c->known, from, p, i);
    }
    return rc;
}

void sonde_symbol_cache_put(struct sonde_symbol_cache *c, const struct sonde_symbol_job *job,
                            size_t index, const struct sonde_symbol_frame *frames,
                            uint32_t count)
{
    const char *key = symbol_cache_key_of(job->kind, job->build_id);
    if (!key || (!c->known && sonde_profile_create(CACHE_BYTES, &c->known) != 0)) return;
    const uint32_t module = module_of(c->known, job->kind, key);
    const uint32_t location =
        module ? sonde_profile_location(c->known, module, job->at[index]) : 0;
    if (!location || sonde_symbol_set(c->known, location, module, frames, count) != 0) {
        sonde_symbol_cache_release(c);
    }
}

void sonde_symbol_cache_flags(struct sonde_symbol_cache *c, const struct sonde_symbol_job *job,
                              uint32_t flags)
{
    const char *key = symbol_cache_key_of(job->kind, job->build_id);
    const uint32_t module = key && c->known ? module_of(c->known, job->kind, key) : 0;
    if (module) c->known->modules[module].flags |= flags;
}

void sonde_symbol_cache_release(struct sonde_symbol_cache *c)
{
    sonde_profile_destroy(c->known);
    c->known = NULL;
}
