/* lock_holder.c - see lock_holder.h.
 *
 * While somebody waits for a lock, somebody else has it: of everything that other threads of the
 * process did in that time (on the CPU, waiting for a disk, sleeping in the function that takes the
 * lock), a function of the program that most of it is in is the section the lock is held for. */
#include "analyze/finding/lock_holder.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

enum { DEPTH_MAX = 512, SAMPLES_MIN = 10 };
#define SHARE_MIN 0.5 /* of what others did: less may be anybody's */

struct holder_look {
    struct finding_look *l;
    const struct finding_waits *waits;
    const struct finding_wait_site *site;
    uint64_t *starts, *ends;  /* of waits at the site, each in order */
    size_t count;
    double *weight, *depth;   /* by function: of samples that have it, and weighted depth */
    uint32_t *last;           /* by function: the sample that counted it last, + 1 */
    uint8_t *inlined;         /* by function: it is, somewhere */
    double all, disk;
    uint64_t samples;
    uint32_t disk_call;
    double disk_call_max;
};

static int holder_compare_times(const void *x, const void *y)
{
    return SONDE_CMP(*(const uint64_t *)x, *(const uint64_t *)y);
}

/* How many of count sorted times are at or before t. */
static size_t holder_before(const uint64_t *times, size_t count, uint64_t t)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (times[middle] <= t) low = middle + 1;
        else high = middle;
    }
    return low;
}

static int holder_is_wait(const struct holder_look *h, const struct sonde_profile_sample *s)
{
    if (s->kind != SONDE_SAMPLE_OFFCPU || s->stack >= h->l->p->stacks_count) return 0;
    const struct finding_wait *w = &h->waits->of_stack[s->stack];
    return w->type == FINDING_WAIT_LOCK && w->site == h->site->site && w->line == h->site->line;
}

/* When waits at the site began and ended. One sample may stand for several: then it is as long as
 * one of them is on average. */
static int holder_collect(struct holder_look *h)
{
    const struct sonde_profile *p = h->l->p;
    size_t n = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) n += (size_t)holder_is_wait(h, &p->samples[i]);
    h->starts = sonde__calloc(n + 1, sizeof(*h->starts));
    h->ends = sonde__calloc(n + 1, sizeof(*h->ends));
    if (!h->starts || !h->ends) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (!holder_is_wait(h, s) || !s->time_ns) continue;
        h->starts[h->count] = s->time_ns;
        h->ends[h->count++] = s->time_ns + s->weight / (s->count ? s->count : 1);
    }
    qsort(h->starts, h->count, sizeof(*h->starts), holder_compare_times);
    qsort(h->ends, h->count, sizeof(*h->ends), holder_compare_times);
    return 0;
}

static int holder_is_waited_for(const struct holder_look *h, uint64_t t)
{
    return holder_before(h->starts, h->count, t) > holder_before(h->ends, h->count, t);
}

static int holder_is_program(const struct sonde_profile *p, uint32_t module)
{
    static const char *const libraries[] = { "libc.so", "libc-", "libpthread", "ld-linux",
                                             "libstdc++", "libm.so", "libgcc", "libsqlite3" };
    const struct sonde_profile_module *m = &p->modules[module < p->modules_count ? module : 0];
    const char *path = sonde_profile_str(p, m->path), *slash = strrchr(path, '/');
    if (m->flags & (SONDE_MODULE_KERNEL | SONDE_MODULE_VDSO)) return 0;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        if (!strncmp(slash ? slash + 1 : path, libraries[i], strlen(libraries[i]))) return 0;
    }
    return 1;
}

/* 1 if function is on the stack. */
static int holder_stack_has(const struct sonde_profile *p, uint32_t stack, uint32_t function)
{
    for (unsigned n = 0; stack && n < DEPTH_MAX; stack = p->stacks[stack].parent, n++) {
        const struct sonde_profile_location *l = &p->locations[p->stacks[stack].location];
        for (uint32_t i = 0; i < l->line_count; i++) {
            if (p->lines[l->line + i].function == function) return 1;
        }
    }
    return 0;
}

/* What a sample says of what its thread did while somebody waited; 0 = nothing. */
static int holder_counts(const struct holder_look *h, const struct sonde_profile_sample *s)
{
    const struct sonde_profile *p = h->l->p;
    if (!s->stack || s->stack >= p->stacks_count || !s->time_ns) return 0;
    if (s->kind == SONDE_SAMPLE_CPU) return holder_is_waited_for(h, s->time_ns);
    if (s->kind != SONDE_SAMPLE_OFFCPU) return 0;
    const struct finding_wait *w = &h->waits->of_stack[s->stack];
    if (w->type == FINDING_WAIT_LOCK) return 0;
    if (w->type == FINDING_WAIT_IDLE && !holder_stack_has(p, s->stack, h->site->site)) return 0;
    return holder_is_waited_for(h, s->time_ns + (s->count == 1 ? s->weight / 2 : 0));
}

static void holder_add(struct holder_look *h, uint32_t sample)
{
    const struct sonde_profile *p = h->l->p;
    const struct sonde_profile_sample *s = &p->samples[sample];
    const double weight = (double)s->weight;
    unsigned depth = 0;
    for (uint32_t at = s->stack; at && depth < DEPTH_MAX; at = p->stacks[at].parent) depth++;
    h->all += weight;
    h->samples += s->count;
    if (s->kind == SONDE_SAMPLE_OFFCPU) {
        const struct finding_wait *w = &h->waits->of_stack[s->stack];
        if (w->type == FINDING_WAIT_DISK || w->type == FINDING_WAIT_FILE) {
            h->disk += weight;
            if (weight > h->disk_call_max) {
                h->disk_call_max = weight;
                h->disk_call = w->call;
            }
        }
    }
    for (uint32_t at = s->stack; at && depth; at = p->stacks[at].parent, depth--) {
        const struct sonde_profile_location *l = &p->locations[p->stacks[at].location];
        if (!holder_is_program(p, l->module)) continue;
        for (uint32_t i = 0; i < l->line_count; i++) {
            const uint32_t function = p->lines[l->line + i].function;
            if (i + 1 < l->line_count) h->inlined[function] = 1;
            if (h->last[function] == sample + 1) continue;
            h->last[function] = sample + 1;
            h->weight[function] += weight;
            h->depth[function] +=
                weight * ((double)depth + (double)(l->line_count - i) / (l->line_count + 1.0));
        }
    }
}

static void holder_choose(const struct holder_look *h, struct finding_lock_holder *out)
{
    const struct sonde_profile *p = h->l->p;
    const uint32_t site = h->site->site;
    double deepest = 0, deepest_whole = 0;
    for (uint32_t i = 1; i < p->functions_count; i++) {
        if (!(h->weight[i] >= SHARE_MIN * h->all)) continue;
        const double depth = h->depth[i] / h->weight[i];
        if (depth > deepest) {
            deepest = depth;
            out->inside = i;
        }
        if (h->inlined[i] || depth <= deepest_whole) continue;
        deepest_whole = depth;
        out->function = i;
    }
    if (site && h->weight[site] >= SHARE_MIN * h->all) out->function = site;
    if (!out->function) out->function = out->inside;
    if (out->function == out->inside) out->inside = 0;
    if (out->function) {
        out->share = h->weight[out->function] / h->all;
        out->line = p->functions[out->function].start_line;
    }
    out->disk_share = h->disk / h->all;
    out->disk_call = h->disk_call;
}

static void holder_release(struct holder_look *h)
{
    sonde__free(h->starts);
    sonde__free(h->ends);
    sonde__free(h->weight);
    sonde__free(h->depth);
    sonde__free(h->last);
    sonde__free(h->inlined);
}

int finding_lock_holder(struct finding_look *l, const struct finding_wait_site *site,
                        struct finding_lock_holder *out)
{
    struct holder_look h = { .l = l, .waits = finding_waits(l), .site = site };
    const struct sonde_profile *p = l->p;
    *out = (struct finding_lock_holder){ 0 };
    if (!h.waits) return 0;
    h.weight = sonde__calloc(p->functions_count, sizeof(*h.weight));
    h.depth = sonde__calloc(p->functions_count, sizeof(*h.depth));
    h.last = sonde__calloc(p->functions_count, sizeof(*h.last));
    h.inlined = sonde__calloc(p->functions_count, 1);
    int rc = h.weight && h.depth && h.last && h.inlined ? holder_collect(&h) : SONDE_ENOMEM;
    for (uint32_t i = 0; !rc && h.count && i < p->samples_count; i++) {
        if (holder_counts(&h, &p->samples[i])) holder_add(&h, i);
    }
    out->samples = h.samples;
    if (!rc && h.samples >= SAMPLES_MIN && h.all > 0) holder_choose(&h, out);
    holder_release(&h);
    return rc;
}
