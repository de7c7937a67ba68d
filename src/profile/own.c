#include "profile/own.h"

#include <string.h>

#include "base/alloc.h"
#include "base/path.h"
#include "sonde/sonde.h"

#define OWN_LIBRARY "libsonde_preload.so"
enum { DEPTH_MAX = 4096 };

enum module_kind { PROGRAM, SYSTEM, OWN };

static enum module_kind profile_own_kind_of(const struct sonde_profile *p, uint32_t module)
{
    const char *path = sonde_profile_str(p, p->modules[module].path);
    const char *name = sonde_path_base(path);
    if (!strcmp(name, OWN_LIBRARY)) return OWN;
    if (p->modules[module].flags & (SONDE_MODULE_KERNEL | SONDE_MODULE_VDSO) ||
        !strncmp(name, "libc.so", 7) || !strncmp(name, "libc-", 5) || !strncmp(name, "ld-", 3)) {
        return SYSTEM;
    }
    return PROGRAM;
}

/* What the library stands in front of has the name of that, and no name of ours. */
static int profile_own_is_ours(const struct sonde_profile *p,
                               const struct sonde_profile_location *l)
{
    for (uint32_t i = 0; i < l->line_count; i++) {
        const struct sonde_profile_function *f = &p->functions[p->lines[l->line + i].function];
        if (!strncmp(sonde_profile_str(p, f->name), "sonde_", 6)) return 1;
    }
    return 0;
}

struct profile_own_folding {
    struct sonde_profile *p;
    enum module_kind *kinds;   /* of modules */
    uint32_t own;              /* the location of SONDE_OWN_FRAME */
    uint32_t frames[DEPTH_MAX]; /* locations, innermost first */
};

/* The stack to have instead; 0 = no memory. */
static uint32_t profile_own_fold(struct profile_own_folding *f, uint32_t stack)
{
    struct sonde_profile *p = f->p;
    uint32_t n = 0, from = 0, any = 0;
    for (uint32_t at = stack; at && n < DEPTH_MAX; at = p->stacks[at].parent) {
        f->frames[n++] = p->stacks[at].location;
        any |= f->kinds[p->locations[p->stacks[at].location].module] == OWN;
    }
    if (!any || n == DEPTH_MAX) return stack;
    /* Of the innermost frames, that are of no program, those that ours called are ours. */
    for (uint32_t i = 0; i < n; i++) {
        const struct sonde_profile_location *l = &p->locations[f->frames[i]];
        const enum module_kind kind = f->kinds[l->module];
        if (kind == PROGRAM) break;
        if (kind == OWN && (i == 0 || profile_own_is_ours(p, l))) from = i + 1;
    }
    uint32_t folded = 0;
    for (uint32_t i = n; i-- > from;) {
        if (f->kinds[p->locations[f->frames[i]].module] == OWN) continue;
        folded = sonde_profile_stack(p, folded, f->frames[i]);
        if (!folded) return 0;
    }
    return from || !folded ? sonde_profile_stack(p, folded, f->own) : folded;
}

static int profile_own_fold_all(struct profile_own_folding *f, uint32_t *map, uint32_t count)
{
    struct sonde_profile *p = f->p;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        struct sonde_profile_sample *s = &p->samples[i];
        if (s->kind > SONDE_SAMPLE_OFFCPU || s->stack >= count) continue;
        if (!map[s->stack]) map[s->stack] = profile_own_fold(f, s->stack);
        if (!map[s->stack]) return SONDE_ENOMEM;
        s->stack = map[s->stack];
    }
    return 0;
}

int sonde_profile_fold_own(struct sonde_profile *p)
{
    int any = 0, rc = SONDE_ENOMEM;
    enum module_kind *kinds = sonde__calloc(p->modules_count + 1, sizeof(*kinds));
    if (!kinds) return rc;
    for (uint32_t i = 1; i < p->modules_count; i++) {
        kinds[i] = profile_own_kind_of(p, i);
        any |= kinds[i] == OWN;
    }
    if (!any) {
        sonde__free(kinds);
        return 0;
    }
    const uint32_t count = p->stacks_count;
    uint32_t *map = sonde__calloc(count, sizeof(*map));
    struct profile_own_folding *f = sonde__calloc(1, sizeof(*f));
    if (map && f) {
        f->p = p;
        f->kinds = kinds;
        f->own = sonde_profile_named_location(p, SONDE_OWN_FRAME, strlen(SONDE_OWN_FRAME));
        if (f->own) rc = profile_own_fold_all(f, map, count);
    }
    sonde__free(f);
    sonde__free(map);
    sonde__free(kinds);
    return rc;
}
