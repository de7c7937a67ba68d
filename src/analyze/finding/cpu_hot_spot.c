/* cpu_hot_spot.c - functions that use much of the CPU time themselves. Worth knowing, never more:
 * the CPU's time goes somewhere in every program that works. What is waste (spinning, allocating,
 * encoding …) has rules of its own. */
#include <math.h>
#include <string.h>

#include "analyze/finding/rule.h"
#include "base/array.h"

enum { SAMPLES_MIN = 10 }; /* of its own: two of six say nothing */

/* Spans of a function's name say how often it was called, and how long a call takes. */
static void hot_spot_count_calls(const struct finding_look *l, struct sonde_finding *f)
{
    const struct sonde_profile *p = l->p;
    const uint32_t name = sonde_profile_find_string(p, f->subject ? f->subject : "");
    double count = 0, seconds = 0;
    for (uint32_t i = 0; name && i < p->spans_count; i++) {
        if (p->spans[i].name != name) continue;
        count++;
        seconds += (double)(p->spans[i].end_ns - p->spans[i].start_ns) * 1e-9;
    }
    if (count > 0) {
        f->count = count;
        f->avg_s = seconds / count;
    }
}

/* Libraries whose functions nobody will change: whoever calls them is the place to look at. */
static int hot_spot_is_system(const char *module)
{
    static const char *const names[] = { "libc.", "libc-", "libm.", "libm-", "libstdc++", "libgcc",
                                         "libpthread", "ld-linux", "[vdso]" };
    for (size_t i = 0; i < SONDE_COUNT(names); i++) {
        if (!strncmp(module, names[i], strlen(names[i]))) return 1;
    }
    return 0;
}

/* Who calls it the most, by the time that is spent in it then; functions of system libraries in
 * between are passed over. share: of its time that is under that caller. NULL = nobody. */
static const struct sonde_tree_node *hot_spot_caller(const struct sonde_tree *t,
                                                     const struct sonde_flat *row, double *share)
{
    uint64_t most = 0, all = 0;
    const struct sonde_tree_node *caller = NULL;
    for (uint32_t i = 1; i < t->node_count; i++) {
        const struct sonde_tree_node *n = &t->nodes[i];
        if (strcmp(n->name, row->name) != 0 || strcmp(n->module, row->module) != 0) continue;
        all += n->self;
        if (n->self <= most) continue;
        uint32_t up = n->parent;
        while (up && (hot_spot_is_system(t->nodes[up].module) ||
                      !strcmp(t->nodes[up].name, row->name))) {
            up = t->nodes[up].parent;
        }
        if (!up) continue;
        most = n->self;
        caller = &t->nodes[up];
    }
    *share = all ? (double)most / (double)all : 0;
    return caller;
}

static void hot_spot_add(struct finding_look *l, const struct sonde_flat *row)
{
    const double seconds = (double)row->self * 1e-9, share = seconds / l->cpu.seconds;
    const double low = finding_share_low((double)row->self_samples, (double)l->cpu.samples);
    const double high = finding_share_high((double)row->self_samples, (double)l->cpu.samples);
    struct sonde_finding *f = finding_add(l, SONDE_SEVERITY_INFO, fmin(low, share));
    double from = 0;
    const struct sonde_tree_node *caller = hot_spot_caller(l->cpu.tree, row, &from);
    if (caller && hot_spot_is_system(row->module)) {
        finding_subject(l, f, row->name, caller->file, caller->line);
    } else {
        finding_subject(l, f, row->name, row->file, row->line);
    }
    f->share = share;
    f->seconds = seconds;
    f->gain = share / 2;
    f->gain_of = "CPU time";
    hot_spot_count_calls(l, f);
    finding_text(l, f,
                 "%.200s itself uses %.1f %% of the CPU time (%.0f … %.0f %%, %.3f of %.3f s, "
                 "%llu samples); with what it calls %.1f %%",
                 row->name, 100 * share, 100 * low, 100 * high, seconds, l->cpu.seconds,
                 (unsigned long long)row->self_samples,
                 100 * (double)row->total * 1e-9 / l->cpu.seconds);
    if (caller) {
        finding_advise(l, f,
                       "look at %.200s and at how often %.200s calls it (%.0f %% of its time is "
                       "under that caller): half the cost of a call, or half the calls, would save "
                       "%.1f %% of the CPU time",
                       row->name, caller->name, 100 * from, 50 * share);
    } else {
        finding_advise(l, f,
                       "look at %.200s: half its cost would save %.1f %% of the CPU time",
                       row->name, 50 * share);
    }
    finding_prove_function(l, f, row, "CPU time");
    if (!caller) return;
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_FUNCTION, .subject = (char *)(uintptr_t)caller->name,
        .file = (char *)(uintptr_t)caller->file, .line = caller->line,
        .value = from, .unit = "ratio", .what = "of it is called by" });
}

static void hot_spot_look(struct finding_look *l)
{
    size_t few = 0, added = 0;
    for (size_t i = 0; i < l->cpu.count && added < l->o.limit; i++) {
        const struct sonde_flat *row = &l->cpu.rows[i];
        const double seconds = (double)row->self * 1e-9;
        if (seconds < l->o.share_min * l->cpu.seconds || seconds < l->o.seconds_min) break;
        if (row->self_samples < SAMPLES_MIN) {
            few++;
            continue;
        }
        hot_spot_add(l, row);
        added++;
    }
    if (few) {
        finding_note(l,
                     "%zu functions with fewer than %d samples are left out: the profile has %llu, "
                     "sample for longer or more often",
                     few, SAMPLES_MIN, (unsigned long long)l->cpu.samples);
    }
}

extern const struct finding_rule finding_rule_cpu_hot_spot;
const struct finding_rule finding_rule_cpu_hot_spot = {
    .kind = "cpu_hot_spot",
    .title = "CPU hot spot",
    .summary = "a function uses 5 % or more of the CPU time itself",
    .look = hot_spot_look,
};
