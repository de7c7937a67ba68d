/* watch_tell.c - what a watch says on stderr and in the log.
 *
 * Standard input and output are the command's alone. With `sonde run` so is stderr unless it is a
 * terminal (or -v is given), where a line at the start and a few at the end help more than they
 * hurt; failures of our own are told in any case. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "model/window.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/visible.h"
#include "cli/watch_private.h"
#include "collect/discover.h"
#include "collect/proc/tree.h"
#include "present/report/profile.h"
#include "present/text.h"
#include "present/units.h"
#include "profile/own.h"
#include "profile/process.h"
#include "sonde/sonde.h"

enum { BUSIEST = 3, TOP = 5, FEW = 10 };
#define IDLE_SHARE 0.05     /* of the time on a CPU: one that has less slept */
#define SAMPLED_SHARE 0.9   /* of its CPU time that should have been sampled at least, */
#define SAMPLED_LEAST 0.5   /* where there are few samples, or it was said already what is
                             * missing */
#define SAMPLES_ENOUGH 50   /* to be expected: fewer vary too much to be judged by */
#define UNSAMPLED_S 0.1     /* less is not worth a word */
#define SWITCHES_MANY 1e4   /* in a second of CPU time: worth a hint */
#define CHANGED_SHARE 0.001 /* of the stacks, whose outer frames changed: worth a hint */
#define CHANGED_LEAST 3
#define OWN_SHARE 0.001     /* alike */

/* One write each: the command may be writing to the same terminal. */
static void watch_log_say(const char *line)
{
    sonde_visible_printf(STDERR_FILENO, "sonde: %s\n", line);
}

void watch_tell(const struct watch *s, const char *format, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    const struct sonde_cli *cli = s->cli;
    if (cli->log_path) sonde_log(SONDE_LOG_INFO, "%s", line);
    if (cli->verbose || (!cli->quiet && (s->o->told || isatty(STDERR_FILENO)))) watch_log_say(line);
}

void watch_tell_failure(const struct watch *s, const char *what, const struct sonde_err *err)
{
    char line[1024];
    snprintf(line, sizeof(line), "%s: %s", what, err->text);
    if (s->cli->log_path) sonde_log(SONDE_LOG_ERROR, "%s", line);
    if (!s->cli->quiet) watch_log_say(line);
}

void watch_tell_missing(const struct watch *s, const char *what, const struct sonde_err *err)
{
    watch_tell_failure(s, what, err);
    if (s->cli->quiet) sonde_visible_printf(STDERR_FILENO, "sonde: %s: %s\n", what, err->text);
}

/* ---- Series ---------------------------------------------------------------------------------- */

struct busy {
    const struct sonde_model_series *series;
    uint64_t count;
};

static void busiest_add(struct busy busy[BUSIEST], const struct sonde_model_series *s)
{
    struct busy one = { s, s->hist->count };
    for (size_t i = 0; i < BUSIEST; i++) {
        if (busy[i].count >= one.count) continue;
        const struct busy shifted = busy[i];
        busy[i] = one;
        one = shifted;
    }
}

static void tell_histogram(const struct watch *s, const struct sonde_model_series *series)
{
    const struct sonde_model_family *f = series->family;
    const struct sonde_hist_value *h = series->hist;
    const uint64_t *const *octave = (const uint64_t *const *)h->octave;
    const double p50 = sonde_quantile(0.5, h->zero, octave, f->scale);
    const double p99 = sonde_quantile(0.99, h->zero, octave, f->scale);

    const enum sonde_unit unit = sonde_unit_of(f->unit, f->name);
    const int ascii = sonde_text_locale_ascii();
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    watch_tell(s, "  %s{%s}: %llu recorded, p50 %s, p99 %s", f->name, series->label_text,
               (unsigned long long)h->count, sonde_value_format(a, p50, unit, ascii),
               sonde_value_format(b, p99, unit, ascii));
}

static void tell_percentiles(const struct watch *s, const char *what,
                             const struct sonde_model_series *series)
{
    if (!series || !series->hist || !series->hist->count) return;
    const struct sonde_hist_value *h = series->hist;
    const uint64_t *const *octave = (const uint64_t *const *)h->octave;
    const double scale = series->family->scale;
    const int ascii = sonde_text_locale_ascii();
    char p50[SONDE_VALUE_BYTES], p95[SONDE_VALUE_BYTES], p99[SONDE_VALUE_BYTES];
    watch_tell(s, "  %s: p50 %s, p95 %s, p99 %s", what,
               sonde_value_format(p50, sonde_quantile(0.5, h->zero, octave, scale),
                                  SONDE_UNIT_SECONDS, ascii),
               sonde_value_format(p95, sonde_quantile(0.95, h->zero, octave, scale),
                                  SONDE_UNIT_SECONDS, ascii),
               sonde_value_format(p99, sonde_quantile(0.99, h->zero, octave, scale),
                                  SONDE_UNIT_SECONDS, ascii));
}

static void watch_tell_infer(const struct watch *s)
{
    const struct sonde_model *m = sonde_collector_model(s->agent->collector);
    const struct sonde_infer_tracker *tracker = sonde_collector_tracker(s->agent->collector);
    sonde_assert_held(&m->lock);
    struct sonde_infer_totals t;
    uint64_t requests = 0;
    if (!tracker) return;
    sonde_infer_totals(tracker, m->now_s, &t);
    for (size_t i = 0; i < SONDE_INFER_OUTCOMES; i++) requests += t.requests[i];
    if (!requests) return;
    watch_tell(s, "%llu inference requests (%llu failed, %llu cancelled, %llu lost), %llu tokens "
               "in, %llu out", (unsigned long long)requests,
               (unsigned long long)(t.requests[SONDE_ERROR] + t.requests[SONDE_TIMEOUT]),
               (unsigned long long)t.requests[SONDE_CANCELLED],
               (unsigned long long)t.requests[SONDE_INFER_LOST],
               (unsigned long long)t.tokens_in, (unsigned long long)t.tokens_out);
    for (size_t i = 0; i < sonde_infer_group_count(tracker); i++) {
        struct sonde_infer_group_view g;
        sonde_infer_group(tracker, i, &g);
        watch_tell(s, " %s%s%s", g.model, g.model[0] && g.route[0] ? " " : "", g.route);
        tell_percentiles(s, "time to first token", g.series[SONDE_INFER_G_TTFT]);
        tell_percentiles(s, "between tokens", g.series[SONDE_INFER_G_ITL]);
        tell_percentiles(s, "in all", g.series[SONDE_INFER_G_DURATION]);
    }
}

static void tell_model(const struct watch *s)
{
    struct sonde_model *m = sonde_collector_model(s->agent->collector);
    struct busy busy[BUSIEST] = { { NULL, 0 } };
    size_t series = 0;
    sonde_rdlock(&m->lock);
    for (size_t i = 0; i < m->family_count; i++) {
        const struct sonde_model_family *f = m->families[i];
        for (size_t j = 0; j < f->series_count; j++) {
            const struct sonde_model_series *one = f->series[j];
            if (!one->process) continue;
            series++;
            if (f->type == SONDE_HISTOGRAM && one->hist) busiest_add(busy, one);
        }
    }
    watch_tell(s, "%zu series, %llu spans", series, (unsigned long long)m->span_next);
    for (size_t i = 0; i < BUSIEST && busy[i].series; i++) tell_histogram(s, busy[i].series);
    watch_tell_infer(s);
    sonde_rwunlock(&m->lock);
}

/* Calls that were missed, told where the figures made of them are. */
static void tell_llama(const struct watch *s)
{
    struct sonde_model *m = sonde_collector_model(s->agent->collector);
    sonde_rdlock(&m->lock);
    for (size_t i = 0; i < m->process_count; i++) {
        const struct sonde_model_process *p = m->processes[i];
        if (p->llama_note[0]) watch_tell(s, "%s (%u): %s", p->program, p->pid, p->llama_note);
    }
    sonde_rwunlock(&m->lock);
}

/* ---- The end --------------------------------------------------------------------------------- */

void watch_tell_end(const struct watch *s, int ended, int status)
{
    if (s->o->on_profile) return; /* what is made of it says more */
    char time[SONDE_VALUE_BYTES];
    sonde_value_format(time, s->elapsed_s, SONDE_UNIT_SECONDS,
                       sonde_text_locale_ascii());
    if (!s->o->argv) {
        watch_tell(s, "watched %s for %s%s", s->name, time, ended ? ", until it ended" : "");
    } else if (!ended) {
        watch_tell(s, s->o->stop ? "%s was recorded for %s" : "%s goes on; it was recorded for %s",
                   s->name, time);
    } else if (WIFEXITED(status)) {
        watch_tell(s, "%s ran %s, exit status %d", s->name, time, WEXITSTATUS(status));
    } else {
        const int sig = WTERMSIG(status);
        const char *name = sigabbrev_np(sig);
        watch_tell(s, "%s ran %s, killed by signal %d (%s%s)%s", s->name, time, sig,
                   name ? "SIG" : "real-time", name ? name : "",
                   WCOREDUMP(status) ? ", core dumped" : "");
    }
    if (s->agent->collector && s->o->series) tell_model(s);
    if (s->agent->collector) tell_llama(s);
}

void watch_tell_survivors(const struct watch *s)
{
    char names[512] = "";
    size_t len = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->agent->recording->known_count; i++) {
        const uint32_t pid = s->agent->recording->known[i];
        struct sonde_proc_stat st;
        if (pid == s->pid || sonde_proc_stat(pid, &st) != 0) continue;
        if (count++ < TOP) {
            len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%.63s (%u)",
                                    len ? ", " : "", st.comm, pid);
        }
    }
    if (!count) return;
    watch_tell(s, "%u process%s that it started go%s on and %s not recorded any more: %s%s", count,
               count > 1 ? "es" : "", count > 1 ? "" : "es", count > 1 ? "are" : "is", names,
               count > TOP ? " …" : "");
}

void watch_tell_waiting(const struct watch *s)
{
    if (s->o->stop) {
        watch_tell(s, "the recording is complete: %s (process %u) is asked to end", s->name,
                   s->pid);
    } else {
        watch_tell(s, "the recording is complete; waiting for %s (process %u) to end: Ctrl-C ends "
                   "it, --stop would have", s->name, s->pid);
    }
}

/* Once it takes more than a moment. With -v the log is on the same terminal. */
int watch_has_progress(const struct watch *s)
{
    return s->o->progress && !s->cli->quiet && !s->cli->verbose && isatty(STDERR_FILENO);
}

void watch_tell_progress(const struct watch *s, double seconds)
{
    const double elapsed_s = watch_clock_s() - s->started_s;
    char of[32] = "", samples[48] = "";
    if (seconds < 0) {
        dprintf(STDERR_FILENO, "\r\033[K");
        return;
    }
    if (seconds > 0) snprintf(of, sizeof(of), " of %g", seconds);
    if (s->agent->recording->cpu) {
        struct sonde_cpu_status status;
        sonde_cpu_status(s->agent->recording->cpu, &status);
        snprintf(samples, sizeof(samples), ", %llu samples", (unsigned long long)status.samples);
    }
    dprintf(STDERR_FILENO, "\rsonde: process %u: %.0f%s s%s; Ctrl-C ends it\033[K", s->pid,
            floor(elapsed_s), of, samples);
}

void watch_tell_probes(const struct watch *s)
{
    const struct sonde_uprobe_status *u = &s->agent->recording->probed;
    if (u->files) {
        watch_tell(s, "probes in llama.cpp saw %llu calls", (unsigned long long)u->calls);
    }
    if (u->late) {
        watch_tell(s, "%llu batches of llama.cpp were computed faster than they could be read, or "
                   "could not be read: they are in no request's figures",
                   (unsigned long long)u->late);
    }
    if (u->lost) {
        watch_tell(s, "%llu hits of probes in llama.cpp were lost: more came at once than there "
                   "was room for", (unsigned long long)u->lost);
    }
    if (u->problem.text[0]) watch_tell_failure(s, "some of llama.cpp was not seen", &u->problem);
}

/* Lines of a buffer, each told. */
static void tell_lines(const struct watch *s, struct sonde_buf *lines)
{
    char *at = lines->error ? NULL : lines->data;
    for (char *end; at && (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        watch_tell(s, "%.400s", at);
    }
}

static void put_resident(const struct sonde_rss_watch *o, const struct sonde_rss_verdict *v,
                         int ascii, struct sonde_buf *out)
{
    char now[SONDE_VALUE_BYTES], peak[SONDE_VALUE_BYTES], pss[SONDE_VALUE_BYTES];
    char change[SONDE_VALUE_BYTES], time[SONDE_VALUE_BYTES], slope[SONDE_VALUE_BYTES];
    const double grown = (double)o->rss_last - (double)o->rss_first;
    const struct sonde_growth *g = &v->growth;
    sonde_buf_printf(out, "memory: %s resident, %s at its peak%s%s; %s%s in %s",
                     sonde_value_format(now, (double)o->rss_last, SONDE_UNIT_BYTES, ascii),
                     sonde_value_format(peak, (double)o->rss_peak, SONDE_UNIT_BYTES, ascii),
                     o->pss_last ? ", PSS " : "",
                     o->pss_last ? sonde_value_format(pss, (double)o->pss_last, SONDE_UNIT_BYTES,
                                                      ascii) : "",
                     grown > 0 ? "+" : "",
                     sonde_value_format(change, grown, SONDE_UNIT_BYTES, ascii),
                     sonde_value_format(time, v->seconds, SONDE_UNIT_SECONDS, ascii));
    if (g->verdict == SONDE_HEAP_LEAK || g->verdict == SONDE_HEAP_CACHE) {
        sonde_buf_printf(out, ", by %s a second at the end",
                         sonde_value_format(slope, g->slope, SONDE_UNIT_BYTES, ascii));
    }
    sonde_buf_printf(out, ": %s\n", sonde_heap_verdict_text(g->verdict));
}

static void put_grown(const struct sonde_rss_verdict *v, int ascii, struct sonde_buf *out)
{
    for (size_t i = 0; i < v->grown_count; i++) {
        char value[SONDE_VALUE_BYTES], name[1024];
        const struct sonde_rss_grown *g = &v->grown[i];
        sonde_text_fit(name, sizeof(name), g->name, sonde_text_cells(g->name, ascii), SONDE_LEFT,
                       ascii);
        sonde_buf_printf(out, "%s%s +%s", i ? ", " : "memory that grew: ", name,
                         sonde_value_format(value, (double)g->bytes, SONDE_UNIT_BYTES, ascii));
    }
    if (v->grown_count) sonde_buf_putc(out, '\n');
}

void watch_tell_outside(struct watch *s)
{
    const int ascii = sonde_text_locale_ascii();
    struct sonde_rss_verdict v;
    struct sonde_buf lines;
    if (!s->from_outside || s->o->on_profile) return;
    sonde_rss_watch_end(&s->outside, watch_clock_s(), &v);
    if (!s->outside.rss_last) return;
    sonde_buf_init(&lines, 1 << 16);
    put_resident(&s->outside, &v, ascii, &lines);
    put_grown(&v, ascii, &lines);
    tell_lines(s, &lines);
    sonde_buf_release(&lines);
}

static void tell_top(const struct watch *s, const struct sonde_profile *p)
{
    /* Shares of allocations are no CPU time. */
    const struct sonde_profile_filter all = {
        .kind = s->o->cpu == SONDE_WATCH_NO      ? -1
                : p->weights[SONDE_SAMPLE_CPU] ? SONDE_SAMPLE_CPU : SONDE_SAMPLE_OFFCPU,
    };
    const struct sonde_tree_options plain = { .by_module = 1 };
    struct sonde_tree *tree;
    if (sonde_tree_build(p, &all, &plain, &tree, NULL) != 0) return;
    struct sonde_buf lines;
    sonde_buf_init(&lines, 1 << 16);
    sonde_profile_top(tree, TOP, sonde_text_locale_ascii(), &lines);
    tell_lines(s, &lines);
    sonde_buf_release(&lines);
    sonde_tree_destroy(tree);
}

static void tell_heap(const struct watch *s, const struct sonde_profile *p)
{
    struct sonde_buf lines;
    sonde_buf_init(&lines, 1 << 16);
    sonde_heap_summary(p, TOP, sonde_text_locale_ascii(), &lines);
    tell_lines(s, &lines);
    sonde_buf_release(&lines);
    if (s->agent->recording->heap_note[0]) {
        watch_tell(s, "heap: %s", s->agent->recording->heap_note);
    }
}

/* Why stacks are not whole, and what was done that others are. */
static void tell_stacks(const struct watch *s, const struct sonde_stack_sums *sums)
{
    const double all = (double)sums->stacks;
    if (sums->mended) {
        watch_tell(s, "%.2f %% of the stacks go on beyond what is copied with a sample: their "
                   "outer frames were read a moment later, and verified",
                   (double)sums->mended / all * 100);
    }
    if (sums->truncated) {
        const enum sonde_sample_cut most = sonde_stack_sums_main(sums);
        const double changed = (double)sums->cuts[SONDE_CUT_CHANGED];
        const int hint = most == SONDE_CUT_CHANGED && s->o->argv && changed >= CHANGED_LEAST &&
                         changed > all * CHANGED_SHARE;
        watch_tell(s, "%.2f %% of the stacks are truncated%s %s%s",
                   ceil((double)sums->truncated / all * 1e4) / 100,
                   sums->cuts[most] == sums->truncated ? "," : ", most of them",
                   sonde_sample_cut_title(most),
                   hint ? " (--engine timer unwinds in place, before anything changes)" : "");
    }
}

/* ---- CPU ------------------------------------------------------------------------------------- */

/* CPU time of the process, and of the children that it waited for, while it was recorded. */
static void used_cpu(const struct watch *s, double *own_s, double *children_s)
{
    uint64_t own = s->child.cpu_ns, children = s->child.children_cpu_ns;
    if (!own && !children && sonde_proc_cpu_ns(s->pid, &own, &children) != 0) own = s->cpu_ns;
    *own_s = own > s->cpu_ns ? (double)(own - s->cpu_ns) * 1e-9 : 0;
    *children_s = s->o->argv ? (double)children * 1e-9 : 0;
}

/* Is so little of it sampled that it is worth a word? How many samples there are varies by the root
 * of it at most; twice that is not by chance. */
static int is_short(const struct watch *s, double sampled_s, double used_s, double rate_hz)
{
    const double expected = used_s * rate_hz;
    if (used_s - sampled_s <= UNSAMPLED_S) return 0;
    if (sampled_s < used_s * SAMPLED_LEAST) return 1;
    if (expected < SAMPLES_ENOUGH || s->agent->recording->note[0]) return 0;
    return sampled_s * rate_hz < expected * SAMPLED_SHARE - 2 * sqrt(expected);
}

/* What was not sampled, and why: nothing is shown as a success that is not one. */
static void tell_unsampled(const struct watch *s, const struct sonde_profile *p,
                           uint64_t samples, double sampled_s)
{
    const int ascii = sonde_text_locale_ascii();
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES], c[SONDE_VALUE_BYTES];
    double own_s, children_s;
    used_cpu(s, &own_s, &children_s);
    const double used_s = own_s + (s->o->children ? children_s : 0);
    const double period_s = p->rate_hz > 0 ? 1 / p->rate_hz : 0;
    sonde_value_format(a, used_s, SONDE_UNIT_SECONDS, ascii);
    sonde_value_format(b, s->elapsed_s, SONDE_UNIT_SECONDS, ascii);
    if (samples <= FEW && used_s < s->elapsed_s * IDLE_SHARE) {
        watch_tell(s, "%s samples: it used %s of CPU time in %s, and slept %.1f %% of the time",
                   samples ? "few" : "no", a, b,
                   floor(1000 * (1 - used_s / s->elapsed_s)) / 10);
    } else if (!samples && used_s < 2 * period_s) {
        watch_tell(s, "no samples: it used %s of CPU time, too little for one every %s of it", a,
                   sonde_value_format(c, period_s, SONDE_UNIT_SECONDS, ascii));
    } else if (is_short(s, sampled_s, used_s, p->rate_hz)) {
        /* Its own time is sampled whatever happens, but for what a program that forks all the time
         * loses at each; that of children as they last long enough. */
        const int brief = !s->refused[0] && !s->unseen.count && s->o->children &&
                          used_s - sampled_s < children_s + own_s / 2;
        const int timer = !strcmp(sonde_profile_str(p, p->engine), "timer");
        watch_tell(s, "only %s of the %s of CPU time that it used was sampled%s%s%s",
                   sonde_value_format(c, sampled_s, SONDE_UNIT_SECONDS, ascii), a,
                   s->refused[0] ? ": " : "", s->refused,
                   !brief ? "" : timer ? ": processes that end soon are missed in part. --engine "
                                         "perf sees them"
                          : ": processes that end within a few sampling periods are missed in "
                            "part. Sample more often (-F 1000)");
    }
    if (!s->o->children && children_s > UNSAMPLED_S) {
        watch_tell(s, "its children used %s of CPU time and were not recorded (--no-children)",
                   sonde_value_format(a, children_s, SONDE_UNIT_SECONDS, ascii));
    }
}

/* The kernel stops the timer of a perf event whenever its thread leaves the CPU, and short turns on
 * it are sampled rather at their end where timers are late (virtual machines): docs/benchmarks.md
 * has figures. */
static void tell_switches(const struct watch *s, const struct sonde_profile *p)
{
    const double used_s = (double)(s->child.cpu_ns + s->child.children_cpu_ns) * 1e-9;
    if (strcmp(sonde_profile_str(p, p->engine), "perf") != 0 || used_s <= UNSAMPLED_S ||
        (double)s->child.switches < used_s * SWITCHES_MANY) {
        return;
    }
    watch_tell(s, "it left the CPU %.0f times a second of its CPU time: perf events then favour "
               "what a thread does last before it waits, by some percent (--engine timer does not)",
               (double)s->child.switches / used_s);
}

/* What the library in the program took of its time. */
static void tell_own(const struct watch *s, const struct sonde_profile *p)
{
    uint64_t own = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_location *l =
            &p->locations[p->stacks[p->samples[i].stack].location];
        if (p->samples[i].kind != SONDE_SAMPLE_CPU || l->module || !l->line_count) continue;
        const uint32_t name = p->functions[p->lines[l->line].function].name;
        if (!strcmp(sonde_profile_str(p, name), SONDE_OWN_FRAME)) own += p->samples[i].weight;
    }
    const double share = own ? (double)own / (double)p->weights[SONDE_SAMPLE_CPU] : 0;
    if (share >= OWN_SHARE) {
        watch_tell(s, "%.1f %% of the CPU time is sonde's own work in the program: "
                   SONDE_OWN_FRAME, 100 * share);
    }
}

/* "by process: nginx (17) 1.2 s, nginx (18) 1.1 s, and 3 more 20 ms" */
static void tell_processes(const struct watch *s, const struct sonde_profile *p)
{
    struct sonde_profile_process *all;
    uint32_t count;
    const int ascii = sonde_text_locale_ascii();
    if (sonde_profile_processes(p, NULL, SONDE_SAMPLE_CPU, &all, &count) != 0) return;
    char line[512];
    int len = 0;
    uint64_t rest = 0;
    for (uint32_t i = 0; i < count && count > 1; i++) {
        char weight[SONDE_WEIGHT_BYTES];
        if (i >= TOP) {
            rest += all[i].weight;
            continue;
        }
        sonde_weight_format(weight, all[i].weight, SONDE_SAMPLE_CPU, ascii);
        len += snprintf(line + len, sizeof(line) - (size_t)len, "%s%.64s (%u) %s", i ? ", " : "",
                        sonde_profile_str(p, all[i].name), all[i].pid, weight);
    }
    if (count > TOP) {
        char weight[SONDE_WEIGHT_BYTES];
        sonde_weight_format(weight, rest, SONDE_SAMPLE_CPU, ascii);
        snprintf(line + len, sizeof(line) - (size_t)len, ", and %u more %s", count - TOP, weight);
    }
    if (count > 1) watch_tell(s, "by process: %s", line);
    sonde__free(all);
}

static void tell_cpu(const struct watch *s, const struct sonde_profile *p, const char *file)
{
    struct sonde_stack_sums sums = { 0 };
    double sampled_s = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (p->samples[i].kind > SONDE_SAMPLE_OFFCPU) continue;
        if (p->samples[i].kind == SONDE_SAMPLE_CPU) {
            sampled_s += (double)p->samples[i].weight * 1e-9;
        }
        sonde_stack_sums_add(&sums, &p->samples[i]);
    }
    const uint64_t samples = sums.stacks, cut = sums.truncated;
    char spans[64] = "", lost[96] = "none lost", whole[64] = "";
    const uint64_t gone = p->lost_records + p->dropped_samples;
    if (gone) snprintf(lost, sizeof(lost), "%llu LOST", (unsigned long long)gone);
    if (p->spans_count) snprintf(spans, sizeof(spans), ", %u spans", p->spans_count);
    /* Rounded down: 99.996 % must not be shown as all. */
    if (samples) {
        snprintf(whole, sizeof(whole), ", %.2f %% of the stacks complete",
                 floor((1 - (double)cut / (double)samples) * 1e4) / 100);
    }
    watch_tell(s, "%s%s%llu samples at %.5g of %.5g Hz%s%s%s%s (engine %s)", file ? file : "",
               file ? ": " : "", (unsigned long long)samples, p->achieved_hz, p->rate_hz,
               samples || gone ? ", " : "", samples || gone ? lost : "", whole, spans,
               sonde_profile_str(p, p->engine));
    tell_stacks(s, &sums);
    if (s->agent->recording->spans_dropped) {
        watch_tell(s, "%llu spans are not in it, for lack of memory",
                   (unsigned long long)s->agent->recording->spans_dropped);
    }
    if (s->agent->recording->note[0]) watch_tell(s, "%s", s->agent->recording->note);
    if (p->cost.text) watch_tell(s, "%s", sonde_profile_str(p, p->cost.text));
    tell_unsampled(s, p, samples, sampled_s);
    tell_switches(s, p);
    tell_processes(s, p);
    tell_own(s, p);
    if (samples) tell_top(s, p);
}

/* Programs that the command has started, and that run without the library. */
static void tell_unseen(struct watch *s)
{
    struct sonde_buf line;
    sonde_buf_init(&line, 1 << 12);
    sonde_unseen_tell(&s->unseen, sonde_text_locale_ascii(), &line);
    if (line.len && !line.error) {
        watch_tell(s, "nothing is recorded from inside of some programs that it started (heap, "
                   "calls of llama.cpp, CPU by the timer engine): %.700s", line.data);
    }
    sonde_buf_release(&line);
}

/* /dev/shm has 64 MB in a container, and is the program's too. */
void watch_tell_missed(struct watch *s)
{
    struct sonde_collector *c = s->agent->collector;
    const uint64_t missed = c ? sonde_collector_missed(c) : 0;
    if (!missed) return;
    watch_tell(s, "%llu process%s recorded nothing from inside: segments may take a quarter of "
               "the file system of their directory, and leave an eighth free. Make it larger "
               "(containers: --shm-size 1g), or choose another directory with SONDE_DIR",
               (unsigned long long)missed, missed == 1 ? "" : "es");
}

void watch_tell_profile(struct watch *s, const struct sonde_profile *p, const char *file)
{
    if (s->o->cpu != SONDE_WATCH_NO || !p->heap) {
        tell_cpu(s, p, file);
    } else {
        if (file) watch_tell(s, "%s: the heap, %u spans", file, p->spans_count);
        if (p->heap->live_count.value > 0) {
            watch_tell(s, "memory in use, by who allocated it:");
            tell_top(s, p);
        }
    }
    if (p->heap || s->agent->recording->heap_note[0]) tell_heap(s, p);
    tell_unseen(s);
}
