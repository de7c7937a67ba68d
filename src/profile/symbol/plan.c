/* plan.c - see plan.h. */
#include "profile/symbol/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

enum sonde_symbol_kind sonde_symbol_plan_kind(const struct sonde_profile_module *m)
{
    if (m->flags & SONDE_MODULE_KERNEL) return SONDE_SYMBOL_KERNEL;
    if (m->flags & SONDE_MODULE_VDSO) return SONDE_SYMBOL_VDSO;
    if (m->flags & SONDE_MODULE_JIT) return SONDE_SYMBOL_JIT;
    return m->end > m->start ? SONDE_SYMBOL_FILE : SONDE_SYMBOL_VADDR;
}

uint64_t sonde_symbol_plan_at(const struct sonde_profile_module *m, uint64_t address)
{
    const enum sonde_symbol_kind kind = sonde_symbol_plan_kind(m);
    if (kind != SONDE_SYMBOL_FILE && kind != SONDE_SYMBOL_VDSO) return address;
    return address - m->start + m->offset;
}

static int symbol_plan_wanted(const struct sonde_profile *p, const struct sonde_profile_location *l)
{
    return l->line_count == 0 && l->module != 0 && l->module < p->modules_count && l->address != 0;
}

/* ---- Modules of one file together ---------------------------------------------------------- */

struct module {
    const struct sonde_profile *p;
    uint32_t id, pid;
};

static const char *symbol_plan_text(const struct module *m, uint32_t string)
{
    return sonde_profile_str(m->p, string);
}

static int by_file(const void *a, const void *b)
{
    const struct module *x = a, *y = b;
    const struct sonde_profile_module *m = &x->p->modules[x->id], *n = &y->p->modules[y->id];
    const enum sonde_symbol_kind kind = sonde_symbol_plan_kind(m);
    const enum sonde_symbol_kind other = sonde_symbol_plan_kind(n);
    if (kind != other) return SONDE_CMP(kind, other);
    if (kind == SONDE_SYMBOL_KERNEL) return 0;
    if (kind == SONDE_SYMBOL_JIT && x->pid != y->pid) return SONDE_CMP(x->pid, y->pid);
    int order = strcmp(symbol_plan_text(x, m->build_id), symbol_plan_text(y, n->build_id));
    /* Without a build id two files may have one path, in two containers. */
    if (order == 0 && m->build_id == 0) {
        order = strcmp(symbol_plan_text(x, m->path), symbol_plan_text(y, n->path));
    }
    if (order == 0 && m->build_id == 0) order = strcmp(symbol_plan_text(x, m->open_path),
                                                       symbol_plan_text(y, n->open_path));
    return order;
}

/* Equal ones in the order of the profile, so that the result is the same each time. */
static int by_file_and_id(const void *a, const void *b)
{
    const struct module *x = a, *y = b;
    const int order = by_file(a, b);
    return order ? order : SONDE_CMP(x->id, y->id);
}

/* A process of each module, from the samples in it, for modules whose path does not say. Each stack
 * is visited once. */
static int symbol_plan_find_pids(const struct sonde_profile *p, uint32_t *pid_of)
{
    unsigned char *seen = sonde__calloc(p->stacks_count, 1);
    if (!seen) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const uint32_t pid = p->threads[p->samples[i].thread].pid;
        uint32_t stack = p->samples[i].stack;
        while (pid && stack && stack < p->stacks_count && !seen[stack]) {
            seen[stack] = 1;
            const uint32_t module = p->locations[p->stacks[stack].location].module;
            if (module < p->modules_count && pid_of[module] == 0) pid_of[module] = pid;
            stack = p->stacks[stack].parent;
        }
    }
    sonde__free(seen);
    return 0;
}

static int live_here(const struct sonde_profile *p)
{
    /* The pids of an imported profile are of another machine, or another time. */
    return strcmp(sonde_profile_str(p, p->engine), "import") != 0;
}

/* ---- Making it ----------------------------------------------------------------------------- */

static int by_job_and_at(const void *a, const void *b)
{
    const struct sonde_symbol_plan_item *x = a, *y = b;
    if (x->job != y->job) return SONDE_CMP(x->job, y->job);
    if (x->at != y->at) return SONDE_CMP(x->at, y->at);
    return SONDE_CMP(x->location, y->location);
}

static void make_places(struct sonde_symbol_plan *plan, const struct sonde_profile *p,
                        const struct module *modules, uint32_t count, const char *debug_root)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct sonde_profile_module *m = &p->modules[modules[i].id];
        if (i == 0 || by_file(&modules[i - 1], &modules[i]) != 0) {
            plan->jobs[plan->job_count++] = (struct sonde_symbol_plan_job){
                .job = { .kind = sonde_symbol_plan_kind(m), .debug_root = debug_root,
                         .build_id = sonde_profile_str(p, m->build_id),
                         .places = plan->places + i },
                .modules = plan->modules + i,
            };
        }
        struct sonde_symbol_plan_job *job = &plan->jobs[plan->job_count - 1];
        plan->modules[i] = modules[i].id;
        plan->places[i] = sonde_profile_get_module(p, modules[i].id);
        plan->places[i].pid = modules[i].pid;
        job->job.place_count++;
    }
}

static void make_items(struct sonde_symbol_plan *plan, const struct sonde_profile *p,
                       uint32_t *job_of)
{
    for (uint32_t j = 0; j < plan->job_count; j++) {
        for (size_t i = 0; i < plan->jobs[j].job.place_count; i++) {
            job_of[plan->jobs[j].modules[i]] = j;
        }
    }
    for (uint32_t i = 1; i < p->locations_count; i++) {
        const struct sonde_profile_location *l = &p->locations[i];
        if (!symbol_plan_wanted(p, l)) continue;
        plan->items[plan->item_count++] = (struct sonde_symbol_plan_item){
            .at = sonde_symbol_plan_at(&p->modules[l->module], l->address),
            .job = job_of[l->module], .location = i,
        };
    }
    if (plan->item_count) {
        qsort(plan->items, plan->item_count, sizeof(*plan->items), by_job_and_at);
    }
}

/* at[] of each job from its items, each once. */
static void make_at(struct sonde_symbol_plan *plan)
{
    uint32_t item = 0, at = 0, first = 0;
    for (uint32_t j = 0; j < plan->job_count; j++) {
        struct sonde_symbol_plan_job *job = &plan->jobs[j];
        job->job.at = plan->at + at;
        job->first = plan->first + first;
        const uint32_t begin = item;
        for (; item < plan->item_count && plan->items[item].job == j; item++) {
            if (item > begin && plan->items[item].at == plan->items[item - 1].at) continue;
            plan->at[at++] = plan->items[item].at;
            plan->first[first++] = item;
            job->job.at_count++;
        }
        plan->first[first++] = item;
    }
}

static uint32_t choose_modules(const struct sonde_profile *p, struct module *modules,
                               uint32_t *pid_of, uint32_t *item_count)
{
    uint32_t count = 0;
    *item_count = 0;
    unsigned char *chosen = (unsigned char *)(modules + p->modules_count);
    for (uint32_t i = 1; i < p->locations_count; i++) {
        const struct sonde_profile_location *l = &p->locations[i];
        if (!symbol_plan_wanted(p, l)) continue;
        ++*item_count;
        if (chosen[l->module]) continue;
        chosen[l->module] = 1;
        const uint32_t pid =
            sonde_symbol_pid(sonde_profile_str(p, p->modules[l->module].open_path));
        modules[count++] = (struct module){ p, l->module, pid ? pid : pid_of[l->module] };
    }
    if (count) qsort(modules, count, sizeof(*modules), by_file_and_id);
    return count;
}

int sonde_symbol_plan_create(const struct sonde_profile *p, const char *debug_root,
                             struct sonde_symbol_plan *plan)
{
    uint32_t items, count;
    int rc = SONDE_ENOMEM;
    *plan = (struct sonde_symbol_plan){ 0 };
    /* One block: the modules, and behind them a mark for each that it was chosen. */
    struct module *modules = sonde__calloc(p->modules_count, sizeof(*modules) + 1);
    uint32_t *pid_of = sonde__calloc(p->modules_count, sizeof(*pid_of));
    if (!modules || !pid_of) goto out;
    if (live_here(p) && symbol_plan_find_pids(p, pid_of) != 0) goto out;
    count = choose_modules(p, modules, pid_of, &items);
    plan->jobs = sonde__calloc(count, sizeof(*plan->jobs));
    plan->places = sonde__calloc(count, sizeof(*plan->places));
    plan->modules = sonde__calloc(count, sizeof(*plan->modules));
    plan->items = sonde__calloc(items, sizeof(*plan->items));
    plan->at = sonde__calloc(items, sizeof(*plan->at));
    plan->first = sonde__calloc((size_t)items + count, sizeof(*plan->first));
    if (!plan->jobs || !plan->places || !plan->modules || !plan->items || !plan->at ||
        !plan->first) {
        goto out;
    }
    make_places(plan, p, modules, count, debug_root);
    make_items(plan, p, pid_of); /* whose pids are in the places now: memory for job numbers */
    make_at(plan);
    rc = 0;
out:
    sonde__free(modules);
    sonde__free(pid_of);
    if (rc) sonde_symbol_plan_release(plan);
    return rc;
}

void sonde_symbol_plan_release(struct sonde_symbol_plan *plan)
{
    sonde__free(plan->jobs);
    sonde__free(plan->places);
    sonde__free(plan->modules);
    sonde__free(plan->items);
    sonde__free(plan->at);
    sonde__free(plan->first);
    *plan = (struct sonde_symbol_plan){ 0 };
}
