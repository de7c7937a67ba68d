/* spin_wait.c - CPU time that is spent waiting: loops that read a variable until another thread has
 * changed it, barriers of OpenMP and ggml, spin locks, threads that yield again and again.
 *
 * Known from two sides: functions whose purpose it is, and code that can do nothing else (see
 * profile/symbol/spin.h). A few percent are how barriers work; a fifth of the CPU time is waste,
 * or work that is badly shared out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/finding/rule.h"
#include "analyze/finding/spin_wait.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

enum { SAMPLES_MIN = 20, FRAMES_LOOKED_AT = 4 };
#define WARNING_SHARE 0.20 /* of the CPU time; at the lower end of what it may be */

enum spin_type { SPIN_NONE, SPIN_CODE, SPIN_OPENMP, SPIN_GGML, SPIN_LOCK, SPIN_YIELD };

static const struct { const char *name; enum spin_type type; } spin_functions[] = {
    { "gomp_barrier_wait", SPIN_OPENMP },
    { "gomp_team_barrier_wait", SPIN_OPENMP },
    { "gomp_barrier_handle_tasks", SPIN_OPENMP },
    { "gomp_mutex_lock_slow", SPIN_OPENMP },
    { "gomp_sem_wait_slow", SPIN_OPENMP },
    { "do_spin", SPIN_OPENMP },
    { "do_wait", SPIN_OPENMP },
    { "__kmp_barrier", SPIN_OPENMP },
    { "__kmp_hyper_barrier", SPIN_OPENMP },
    { "__kmp_join_barrier", SPIN_OPENMP },
    { "__kmp_fork_barrier", SPIN_OPENMP },
    { "__kmp_wait", SPIN_OPENMP },
    { "__kmp_flag", SPIN_OPENMP },
    { "kmp_flag", SPIN_OPENMP },
    { "__kmp_execute_tasks", SPIN_OPENMP },
    { "__kmp_yield", SPIN_OPENMP },
    { "__kmp_x86_pause", SPIN_OPENMP },
    { "ggml_barrier", SPIN_GGML },
    { "ggml_graph_compute_poll_for_work", SPIN_GGML },
    { "ggml_graph_compute_check_for_work", SPIN_GGML },
    { "ggml_thread_cpu_relax", SPIN_GGML },
    { "pthread_spin_lock", SPIN_LOCK },
    { "s_lock", SPIN_LOCK },
    { "perform_spin_delay", SPIN_LOCK },
    { "sched_yield", SPIN_YIELD },
    { "std::this_thread::yield", SPIN_YIELD },
    { "thrd_yield", SPIN_YIELD },
    { "pthread_yield", SPIN_YIELD },
};

struct spin_site {
    uint32_t function, line; /* 0 = not known */
    enum spin_type type;
    double seconds;
    uint64_t samples;
    uint8_t *threads;        /* owned: those that spin there */
    uint32_t thread_count;
};

struct spin_look {
    struct finding_look *l;
    struct spin_site *sites;
    size_t count, cap;
    uint8_t *types;          /* by stack: enum spin_type + 1; 0 = not looked at */
    double seconds;
    uint64_t samples;
};

static const char *spin_module(const struct sonde_profile *p, uint32_t module)
{
    const char *path =
        sonde_profile_str(p, p->modules[module < p->modules_count ? module : 0].path);
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int spin_is_openmp(const char *module)
{
    return !strncmp(module, "libgomp", 7) || !strncmp(module, "libomp", 6) ||
           !strncmp(module, "libiomp", 7);
}

static int spin_is_system(const struct sonde_profile *p, uint32_t module)
{
    static const char *const names[] = { "libc.so", "libc-", "libpthread", "libstdc++",
                                         "ld-linux" };
    const char *name = spin_module(p, module);
    if (p->modules[module < p->modules_count ? module : 0].flags &
        (SONDE_MODULE_KERNEL | SONDE_MODULE_VDSO)) {
        return 1;
    }
    for (size_t i = 0; i < SONDE_COUNT(names); i++) {
        if (!strncmp(name, names[i], strlen(names[i]))) return 1;
    }
    return spin_is_openmp(name);
}

/* do_wait is the kernel's too, and anybody's: short names only count in the library. */
static enum spin_type spin_of_name(const char *name, const char *module)
{
    const int openmp = spin_is_openmp(module);
    while (!strncmp(name, "__GI_", 5)) name += 5;
    const char *plain = name;
    while (*plain == '_') plain++;
    for (size_t i = 0; i < SONDE_COUNT(spin_functions); i++) {
        const char *want = spin_functions[i].name;
        if (!openmp && !strncmp(want, "do_", 3)) continue;
        const size_t len = strlen(want);
        const int fits = *want == '_' || spin_functions[i].type == SPIN_OPENMP
                             ? !strncmp(name, want, len)
                             : !strcmp(plain, want);
        if (fits) return spin_functions[i].type;
    }
    return SPIN_NONE;
}

static int spin_is_nameless(const struct sonde_profile *p, const struct sonde_profile_location *l,
                            const char *module)
{
    if (!l->line_count) return 1;
    const char *name = sonde_profile_str(p, p->functions[p->lines[l->line].function].name);
    return !strncmp(name, module, strlen(module));
}

/* The innermost frames decide, inlined ones included; of the kernel's, that they were called by a
 * yield. */
static enum spin_type spin_classify(const struct sonde_profile *p, uint32_t stack)
{
    const struct sonde_profile_location *leaf = &p->locations[p->stacks[stack].location];
    unsigned frames = 0;
    for (uint32_t at = stack; at && frames < FRAMES_LOOKED_AT; at = p->stacks[at].parent) {
        const struct sonde_profile_location *l = &p->locations[p->stacks[at].location];
        const char *module = spin_module(p, l->module);
        const int kernel = (p->modules[l->module].flags & SONDE_MODULE_KERNEL) != 0;
        for (uint32_t i = 0; i < l->line_count && !kernel; i++) {
            const char *name =
                sonde_profile_str(p, p->functions[p->lines[l->line + i].function].name);
            const enum spin_type type = spin_of_name(name, module);
            if (type != SPIN_NONE) return type;
        }
        /* A library without symbols (its functions are called libgomp.so.1+0x1f780): what it does
         * with the CPU is waiting. */
        if (spin_is_openmp(module) && spin_is_nameless(p, l, module)) return SPIN_OPENMP;
        if (!kernel && !spin_is_openmp(module)) break;
        frames += !kernel;
    }
    if (leaf->flags & SONDE_LOCATION_SPINS) {
        return spin_is_openmp(spin_module(p, leaf->module)) ? SPIN_OPENMP : SPIN_CODE;
    }
    return SPIN_NONE;
}

/* ---- Where ----------------------------------------------------------------------------------- */

/* The innermost function of the program on the stack. */
static void spin_find_site(const struct sonde_profile *p, uint32_t stack, enum spin_type type,
                           struct spin_site *out)
{
    *out = (struct spin_site){ .type = type };
    for (uint32_t at = stack; at; at = p->stacks[at].parent) {
        const struct sonde_profile_location *l = &p->locations[p->stacks[at].location];
        if (spin_is_system(p, l->module)) continue;
        for (uint32_t i = 0; i < l->line_count; i++) {
            const struct sonde_profile_line *line = &p->lines[l->line + i];
            const char *name = sonde_profile_str(p, p->functions[line->function].name);
            /* What only pauses says less than who calls it. */
            if (i + 1 < l->line_count &&
                (strstr(name, "pause") || strstr(name, "relax") || strstr(name, "atomic") ||
                 strstr(name, "yield"))) {
                continue;
            }
            out->function = line->function;
            out->line = line->line;
            return;
        }
    }
}

static struct spin_site *spin_site(struct spin_look *s, const struct spin_site *want)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->sites[i].function == want->function && s->sites[i].type == want->type) {
            return &s->sites[i];
        }
    }
    struct spin_site *site = SONDE_ARRAY_ADD(s->sites, s->count, s->cap);
    if (!site) return NULL;
    *site = *want;
    site->threads = sonde__calloc(s->l->p->threads_count + 1u, 1);
    return site->threads ? site : NULL;
}

static void spin_add_sample(struct spin_look *s, const struct sonde_profile_sample *sample)
{
    const struct sonde_profile *p = s->l->p;
    if (sample->kind != SONDE_SAMPLE_CPU || !sample->stack || sample->stack >= p->stacks_count) {
        return;
    }
    uint8_t *type = &s->types[sample->stack];
    if (!*type) *type = (uint8_t)(spin_classify(p, sample->stack) + 1);
    if (*type == SPIN_NONE + 1) return;
    struct spin_site want;
    spin_find_site(p, sample->stack, (enum spin_type)(*type - 1), &want);
    struct spin_site *site = spin_site(s, &want);
    if (!site) {
        s->l->rc = SONDE_ENOMEM;
        return;
    }
    const double seconds = (double)sample->weight * 1e-9;
    site->seconds += seconds;
    site->samples += sample->count;
    s->seconds += seconds;
    s->samples += sample->count;
    if (sample->thread < p->threads_count && !site->threads[sample->thread]) {
        site->threads[sample->thread] = 1;
        site->thread_count++;
    }
}

static int spin_compare_sites(const void *x, const void *y)
{
    const struct spin_site *a = x, *b = y;
    if (!a->function != !b->function) return SONDE_CMP(!a->function, !b->function);
    if (a->seconds != b->seconds) return SONDE_CMP(b->seconds, a->seconds);
    return SONDE_CMP(a->function, b->function);
}

/* What those work on that the others wait for: of CPU samples that do not spin, the function of the
 * program with the most, and the line of most of its samples. */
static void spin_find_late(struct spin_look *s, struct spin_site *out)
{
    const struct sonde_profile *p = s->l->p;
    double *weight = sonde__calloc(p->functions_count, sizeof(*weight));
    *out = (struct spin_site){ 0 };
    if (!weight) {
        s->l->rc = SONDE_ENOMEM;
        return;
    }
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *sample = &p->samples[i];
        if (sample->kind != SONDE_SAMPLE_CPU || !sample->stack ||
            sample->stack >= p->stacks_count || s->types[sample->stack] != SPIN_NONE + 1) {
            continue;
        }
        struct spin_site at;
        spin_find_site(p, sample->stack, SPIN_NONE, &at);
        if (!at.function) continue;
        weight[at.function] += (double)sample->weight * 1e-9;
        if (weight[at.function] <= out->seconds) continue;
        out->seconds = weight[at.function];
        if (out->function != at.function || !out->line) out->line = at.line;
        out->function = at.function;
    }
    sonde__free(weight);
}

/* ---- What to say ----------------------------------------------------------------------------- */

static const char *spin_name(const struct spin_look *s, const struct spin_site *site)
{
    const struct sonde_profile *p = s->l->p;
    return site->function ? sonde_profile_str(p, p->functions[site->function].name) : "";
}

static const char *spin_file(const struct spin_look *s, const struct spin_site *site)
{
    const struct sonde_profile *p = s->l->p;
    return site->function ? sonde_profile_str(p, p->functions[site->function].file) : "";
}

static void spin_advise(const struct spin_look *s, struct sonde_finding *f, enum spin_type type,
                        const struct spin_site *late)
{
    struct finding_look *l = s->l;
    const char *work = *spin_name(s, late) ? spin_name(s, late) : "the parallel part";
    switch (type) {
    case SPIN_OPENMP:
        finding_advise(l, f,
                       "threads wait at OpenMP's barrier for those that have more to do in %.150s: "
                       "share the loop out as it goes (schedule(dynamic) or schedule(guided)), put "
                       "more work between barriers, or use fewer threads (OMP_NUM_THREADS); "
                       "OMP_WAIT_POLICY=passive gives the CPUs to others meanwhile",
                       work);
        return;
    case SPIN_GGML:
        finding_advise(l, f,
                       "threads wait at ggml's barrier: use as many as there are physical cores "
                       "that nothing else uses (llama.cpp: --threads, --threads-batch), pin them "
                       "(--cpu-mask, --cpu-strict 1), and --poll 0 if others need the CPUs");
        return;
    case SPIN_LOCK:
        finding_advise(l, f,
                       "use a mutex in %.150s, which sleeps when it has to wait, or hold the spin "
                       "lock for less than a microsecond", f->subject ? f->subject : "");
        return;
    case SPIN_YIELD:
        finding_advise(l, f,
                       "wait in %.150s with a condition variable, a futex or std::atomic::wait "
                       "instead of yielding again and again", f->subject ? f->subject : "");
        return;
    default:
        finding_advise(l, f,
                       "after some hundred turns of the loop in %.150s, wait with a condition "
                       "variable, a futex or std::atomic::wait (for a lock: use a mutex), and give "
                       "threads equal shares of %.150s", f->subject ? f->subject : "", work);
    }
}

static void spin_add(struct spin_look *s)
{
    struct finding_look *l = s->l;
    const double share = s->seconds / l->cpu.seconds;
    const double low = finding_share_low((double)s->samples, (double)l->cpu.samples);
    const struct spin_site *main_site = &s->sites[0];
    struct spin_site late;
    spin_find_late(s, &late);
    const enum spin_type type = main_site->type;
    /* Inside a library's barrier there is nothing to change: the work that it waits for is. */
    const struct spin_site *shown =
        (type == SPIN_OPENMP || type == SPIN_GGML || !main_site->function) && late.function
            ? &late
            : main_site;
    uint32_t threads = 0;
    for (uint32_t t = 0; t < l->p->threads_count; t++) {
        int spins = 0;
        for (size_t i = 0; i < s->count; i++) spins |= s->sites[i].threads[t];
        threads += (uint32_t)spins;
    }
    struct sonde_finding *f = finding_add(
        l, low >= WARNING_SHARE ? SONDE_SEVERITY_WARNING : SONDE_SEVERITY_INFO, share);
    finding_subject(l, f, spin_name(s, shown), spin_file(s, shown), shown->line);
    f->share = f->gain = share;
    f->gain_of = "CPU time";
    f->seconds = s->seconds;
    f->confidence = type == SPIN_CODE ? 0.9 : 0.95;
    finding_text(l, f,
                 "%u thread%s spun for %.2f s of CPU time, %.0f %% of all, waiting for others"
                 "%s%.150s%s",
                 threads, threads == 1 ? "" : "s", s->seconds, 100 * share,
                 type == SPIN_OPENMP   ? " at OpenMP's barriers"
                 : type == SPIN_GGML   ? " at ggml's barriers"
                 : main_site->function ? " in "
                                       : "",
                 type == SPIN_OPENMP || type == SPIN_GGML ? "" : spin_name(s, main_site),
                 type == SPIN_YIELD ? " (sched_yield)" : "");
    spin_advise(s, f, type, &late);
    for (size_t i = 0; i < s->count && i < 4; i++) {
        if (!s->sites[i].function || s->sites[i].seconds < 0.05 * s->seconds) continue;
        finding_prove(l, f, &(struct sonde_evidence){
            .type = SONDE_EVIDENCE_FUNCTION,
            .subject = (char *)(uintptr_t)spin_name(s, &s->sites[i]),
            .file = (char *)(uintptr_t)spin_file(s, &s->sites[i]), .line = s->sites[i].line,
            .value = s->sites[i].seconds, .unit = "seconds", .what = "spins" });
    }
    if (late.function) {
        finding_prove(l, f, &(struct sonde_evidence){
            .type = SONDE_EVIDENCE_FUNCTION, .subject = (char *)(uintptr_t)spin_name(s, &late),
            .file = (char *)(uintptr_t)spin_file(s, &late), .line = late.line,
            .value = late.seconds, .unit = "seconds", .what = "works meanwhile" });
    }
}

/* All samples that spin, by place; to be released, also after a failure (l->rc). */
static void spin_collect(struct finding_look *l, struct spin_look *s)
{
    const struct sonde_profile *p = l->p;
    *s = (struct spin_look){ .l = l };
    s->types = sonde__calloc(p->stacks_count ? p->stacks_count : 1, 1);
    if (!s->types) {
        l->rc = SONDE_ENOMEM;
        return;
    }
    for (uint32_t i = 0; i < p->samples_count && !l->rc; i++) spin_add_sample(s, &p->samples[i]);
    if (s->count) qsort(s->sites, s->count, sizeof(*s->sites), spin_compare_sites);
}

static void spin_release(struct spin_look *s)
{
    for (size_t i = 0; i < s->count; i++) sonde__free(s->sites[i].threads);
    sonde__free(s->sites);
    sonde__free(s->types);
}

double finding_spin_share(struct finding_look *l)
{
    struct spin_look s;
    if (!(l->cpu.seconds > 0)) return 0;
    spin_collect(l, &s);
    const double share = s.seconds / l->cpu.seconds;
    spin_release(&s);
    return share;
}

static void spin_look(struct finding_look *l)
{
    struct spin_look s;
    if (!l->cpu.samples) return;
    spin_collect(l, &s);
    if (!l->rc && s.samples >= SAMPLES_MIN && s.seconds >= l->o.seconds_min &&
        s.seconds >= l->o.share_min * l->cpu.seconds) {
        spin_add(&s);
    }
    spin_release(&s);
}

extern const struct finding_rule finding_rule_spin_wait;
const struct finding_rule finding_rule_spin_wait = {
    .kind = "spin_wait",
    .title = "Spinning",
    .summary = "20 % or more of the CPU time is spent waiting: in barriers of OpenMP or ggml, in "
               "spin locks, in loops that only read a variable, in sched_yield",
    .look = spin_look,
};
