/* oversubscription.c - more threads that want to run than there are CPUs.
 *
 * Threads that run and threads that wait to run add up to those that could: if a program alone has
 * more of them than it has CPUs, it has too many. What other programs take does not count, since a
 * program with as many threads as CPUs never has more runnable, however long they wait. */
#include <math.h>
#include <string.h>

#include "analyze/finding/cpu_share.h"
#include "analyze/finding/rule.h"
#include "analyze/finding/spin_wait.h"

#define KNOWN_MIN_S 1.0
#define INFO_RATIO 1.25    /* runnable threads per CPU */
#define WARNING_RATIO 1.4
#define SATURATED 0.7      /* of its CPUs: it is the program itself that its threads wait for */
#define PREEMPTED 2.0      /* involuntary switches per voluntary one, and so many threads … */
#define PREEMPTED_RATIO 3.0 /* … runnable per CPU are too many whatever else runs */
#define SPINNING 0.3       /* of the CPU time: threads that spin never rest, so all of them count */

/* Which setting says how many threads there are, as far as its code shows. */
static const char *oversubscription_setting(const struct sonde_profile *p)
{
    const char *found = "";
    for (uint32_t i = 1; i < p->modules_count; i++) {
        const char *path = sonde_profile_str(p, p->modules[i].path);
        if (strstr(path, "libllama") || strstr(path, "libggml")) return " (llama.cpp: --threads)";
        if (strstr(path, "libgomp") || strstr(path, "libomp") || strstr(path, "libiomp")) {
            found = " (OMP_NUM_THREADS)";
        }
    }
    return found;
}

static void oversubscription_add(struct finding_look *l, const struct finding_cpu_share *c)
{
    const double runnable = c->used + c->delayed, share = c->delayed / runnable;
    const struct finding_series threads = { .family = "sonde_process_threads" };
    const struct finding_series involuntary = {
        .family = "sonde_process_context_switches_total", .label = "type=\"involuntary\"" };
    const double usable = c->quota < c->cpus ? fmax(1, floor(c->quota)) : c->cpus;
    /* On a machine that others keep busy, threads that take turns at a lock are runnable for longer
     * than they would be by themselves. */
    const int saturated = c->used >= SATURATED * usable;
    const int sure = saturated ||
                     (c->involuntary >= PREEMPTED * c->voluntary &&
                      runnable >= PREEMPTED_RATIO * c->cpus) ||
                     finding_spin_share(l) >= SPINNING;
    struct sonde_finding *f = finding_add(
        l, sure && runnable >= WARNING_RATIO * c->cpus ? SONDE_SEVERITY_WARNING
                                                       : SONDE_SEVERITY_INFO, share);
    f->explains = saturated ? "spin_wait lock_contention" : sure ? "spin_wait" : NULL;
    finding_subject(l, f, c->program, "", 0);
    f->share = share;
    f->seconds = c->delayed * l->seconds;
    f->gain = share;
    f->gain_of = "time runnable threads need";
    f->confidence = saturated ? 0.95 : sure ? 0.8 : 0.5;
    finding_text(l, f,
                 "%.1f threads want to run on average, but there %s %.0f CPU%s: they spend %.0f %% "
                 "of that time waiting for one (%.0f preemptions per second)",
                 runnable, c->cpus == 1 ? "is" : "are", c->cpus, c->cpus == 1 ? "" : "s",
                 100 * share, fmax(0, c->involuntary));
    finding_advise(l, f,
                   "use %.0f thread%s that compute%s instead of about %.0f%s: more of them finish "
                   "nothing earlier, and whoever waits for one that is not running waits for all",
                   usable, usable == 1 ? "" : "s", usable == 1 ? "s" : "", round(runnable),
                   oversubscription_setting(l->p));
    finding_prove_series(l, f, &finding_series_run_delay, "threads", "waiting for a CPU");
    finding_prove_series(l, f, &finding_series_cpu, "CPUs", "CPU time per time");
    finding_prove_series(l, f, &threads, "threads", "threads there are");
    finding_prove_series(l, f, &involuntary, "per second", "involuntary context switches");
}

static void oversubscription_look(struct finding_look *l)
{
    struct finding_cpu_share c;
    finding_cpu_share(l, &c);
    if (isnan(c.cpus) || isnan(c.used) || isnan(c.delayed) || c.known_s < KNOWN_MIN_S) {
        if (l->p->tracks && !isnan(c.used) && isnan(c.delayed)) {
            finding_note(l, "how long threads waited for a CPU is not known: this kernel keeps no "
                         "/proc/PID/task/TID/schedstat");
        }
        return;
    }
    if (c.used + c.delayed >= INFO_RATIO * c.cpus && c.delayed > 0.25) oversubscription_add(l, &c);
}

extern const struct finding_rule finding_rule_oversubscription;
const struct finding_rule finding_rule_oversubscription = {
    .kind = "oversubscription",
    .title = "More threads than CPUs",
    .summary = "the program has 1.4 times as many threads that want to run as it has CPUs, or more",
    .look = oversubscription_look,
};
