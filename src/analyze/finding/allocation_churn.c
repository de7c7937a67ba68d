/* allocation_churn.c - CPU time that goes into allocating and freeing, as the stacks of CPU samples
 * show it: every sample that has a function of the allocator on its stack counts, once. Which place
 * allocates the most is known if the heap was profiled, else by who calls the allocator. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/finding/rule.h"
#include "analyze/heap_site.h"
#include "base/array.h"
#include "profile/heap.h"

enum { SAMPLES_MIN = 30 };
#define INFO_SHARE 0.05
#define WARNING_SHARE 0.20
#define WARNING_CPUS 0.10 /* a program that hardly runs does not suffer */

/* Functions of allocators by name; those of glibc, jemalloc, tcmalloc, mimalloc and C++. */
static int churn_is_allocator(const char *name)
{
    static const char *const names[] = {
        "malloc", "free", "calloc", "realloc", "cfree", "aligned_alloc", "posix_memalign",
        "memalign", "_int_malloc", "_int_free", "_int_realloc", "malloc_consolidate", "sysmalloc",
        "unlink_chunk", "tcache_get", "tcache_put", "systrim", "__libc_malloc", "__libc_free",
        "__libc_calloc", "__libc_realloc", "_mid_memalign", "heap_trim", "arena_get2",
    };
    static const char *const beginnings[] = {
        "operator new", "operator delete", "je_", "jemalloc", "tcmalloc::", "tc_malloc", "tc_free",
        "mi_malloc", "mi_free", "_mi_", "_int_free", "_int_malloc", "malloc.", "unlink_chunk",
        "malloc_consolidate", "__GI___libc_free", "__GI___libc_malloc",
    };
    for (size_t i = 0; i < SONDE_COUNT(names); i++) {
        if (!strcmp(name, names[i])) return 1;
    }
    for (size_t i = 0; i < SONDE_COUNT(beginnings); i++) {
        if (!strncmp(name, beginnings[i], strlen(beginnings[i]))) return 1;
    }
    return 0;
}

struct churn_sums {
    double seconds, samples;
    const struct sonde_tree_node *caller; /* who asks the allocator for the most … */
    double caller_s;                      /* … and how much time goes there, over all its stacks */
};

/* The outermost nodes of the allocator: what is below them is counted with them. */
static void churn_sum(const struct sonde_tree *t, struct churn_sums *c)
{
    *c = (struct churn_sums){ 0 };
    for (uint32_t i = 1; i < t->node_count; i++) {
        const struct sonde_tree_node *n = &t->nodes[i];
        int inside = !churn_is_allocator(n->name);
        for (uint32_t up = n->parent; up && !inside; up = t->nodes[up].parent) {
            inside = churn_is_allocator(t->nodes[up].name);
        }
        if (inside) continue;
        c->seconds += (double)n->total * 1e-9;
        c->samples += (double)n->samples;
        if (n->parent && (double)n->total * 1e-9 > c->caller_s) {
            c->caller = &t->nodes[n->parent];
            c->caller_s = (double)n->total * 1e-9;
        }
    }
}

/* The site with the most allocations; NULL = the heap was not profiled. */
static const struct sonde_heap_site *churn_site(const struct sonde_heap *h)
{
    const struct sonde_heap_site *most = NULL;
    for (uint32_t i = 0; h && i < h->site_count; i++) {
        const struct sonde_heap_site *s = &h->sites[i];
        if (!most || s->alloc_count.value > most->alloc_count.value) most = s;
    }
    return most;
}

static void churn_add(struct finding_look *l, const struct churn_sums *c, double share)
{
    const struct sonde_heap *h = l->p->heap;
    const struct sonde_heap_site *site = churn_site(h);
    struct heap_frame frame = { .name = NULL };
    const int known = site && heap_frames(l->p, site->stack, &frame, 1) > 0;
    const char *who = known ? heap_frame_name(&frame) : c->caller ? c->caller->name : "";
    const double low = finding_share_low(c->samples, (double)l->cpu.samples);
    const int much = low >= WARNING_SHARE && c->seconds >= WARNING_CPUS * l->seconds;
    struct sonde_finding *f = finding_add(
        l, much ? SONDE_SEVERITY_WARNING : SONDE_SEVERITY_INFO, share);
    finding_subject(l, f, who, known ? frame.file : c->caller ? c->caller->file : "",
                    known ? frame.line : c->caller ? c->caller->line : 0);
    f->share = share;
    f->seconds = c->seconds;
    f->gain = share;
    f->gain_of = "CPU time";
    if (known && l->seconds > 0) {
        const double rate = h->alloc_count.value / l->seconds;
        const double size = site->alloc_bytes.value / fmax(1, site->alloc_count.value);
        f->count = h->alloc_count.value;
        finding_text(l, f,
                     "%.1f %% of the CPU time goes into allocating and freeing (%.3f of %.3f s): "
                     "%.3g allocations per second, %.0f %% of them by %.200s, of %.0f bytes each",
                     100 * share, c->seconds, l->cpu.seconds, rate,
                     100 * site->alloc_count.value / fmax(1, h->alloc_count.value), who, size);
        char life[64] = "";
        if (site->lifetime_s >= 0) {
            snprintf(life, sizeof(life), ", each is freed after %.3g ms", 1e3 * site->lifetime_s);
        }
        finding_advise(l, f,
                       "let %.200s keep its memory instead of asking for it again%s: a buffer or a "
                       "pool of %.0f bytes per object, kept by its caller or its thread",
                       who, life, size);
        finding_prove(l, f, &(struct sonde_evidence){
            .type = SONDE_EVIDENCE_SITE, .subject = (char *)(uintptr_t)who,
            .file = (char *)(uintptr_t)frame.file, .line = frame.line,
            .value = site->alloc_count.value / l->seconds, .unit = "per second",
            .what = "allocations" });
    } else {
        finding_text(l, f,
                     "%.1f %% of the CPU time goes into allocating and freeing (%.3f of %.3f s), "
                     "most of it for %.200s",
                     100 * share, c->seconds, l->cpu.seconds, who);
        finding_advise(l, f,
                       "let %.200s keep its memory instead of asking for it again; record with "
                       "--heap to see sizes and lifetimes",
                       who);
    }
}

static void churn_look(struct finding_look *l)
{
    struct churn_sums c;
    if (!l->cpu.tree || l->cpu.samples < SAMPLES_MIN) return;
    churn_sum(l->cpu.tree, &c);
    const double share = c.seconds / l->cpu.seconds;
    if (share < INFO_SHARE || c.seconds < l->o.seconds_min || c.samples < SAMPLES_MIN) return;
    churn_add(l, &c, share);
}

/* Hot spots in the allocator, that is; others have causes of their own. */
static int churn_explains(const struct sonde_finding *symptom)
{
    return churn_is_allocator(symptom->subject);
}

extern const struct finding_rule finding_rule_allocation_churn;
const struct finding_rule finding_rule_allocation_churn = {
    .kind = "allocation_churn",
    .title = "Allocation churn",
    .summary = "a twentieth of the CPU time or more goes into malloc and free; a warning from a "
               "fifth on, if that is a tenth of a CPU",
    .explains = "cpu_hot_spot",
    .explains_one = churn_explains,
    .look = churn_look,
};
