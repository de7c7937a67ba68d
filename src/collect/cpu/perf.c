/* perf.c - the engine that samples from outside, with perf events: opening, waiting, draining.
 * What is opened is in collect/perf/event.h, what becomes of the records in perf_reader.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "collect/cpu/account.h"
#include "collect/cpu/engine.h"
#include "collect/perf/limits.h"
#include "collect/cpu/perf_python_watch.h"
#include "collect/cpu/perf_reader.h"
#include "collect/proc/tree.h"
#include "collect/tick_clock.h"
#include "sonde/sonde.h"

#define WAIT_MS 100           /* at most between two drains */
#define LOOK_MS 10            /* the same where blocked threads must be looked at */
#define MEND_MS 2             /* the same where stacks go on beyond what is copied: the sooner their
                                 outer frames are read the better, they are those of later */
#define PYTHON_MS 4           /* the same where threads of Python block, whose frames are read while
                                 they do: those that wait for less have none */
#define NAMES_MS 10           /* the same where CPU samples have functions of Python, whose names
                                 are read while they are there */
#define MENDS_NS 5000000000u  /* such stacks are to be expected this long after one */
#define SETTLE_NS 1000000u    /* a record is in its ring this long after the time in it */

/* How much of the stack is copied. At first as much as there is room for, so that no stack is cut.
 * When FIT_STACKS have come, the least that none of them needed more than, and a step for others: a
 * ring then holds more of them, and the program loses less time to each (2 us of 19 from 16 KB to
 * 8). When some need more later, all of it again, and for good. */
#define FIT_STACKS 256u
#define CUT_MIN 3u
#define CUT_SHARE 2000u       /* one in so many is hardly any */

/* When clock events of whole CPUs take over from those of threads: see collect/perf/event.h. */
#define LEAST_MISSED 8u       /* threads that ended, and samples that are missing */
#define WIDEN_SHARE 0.03      /* of the samples that are missing */
#define MISSED_SHARE 0.1      /* the same where nothing can be done: worth a word */
#define WIDTH_NS 20000000u    /* between looks */

/* More time in the kernel, where that may not be sampled, is worth a word. */
#define KERNEL_SHARE 0.02
#define KERNEL_LEAST_NS 20000000u

struct sonde_cpu_engine {
    struct sonde_perf_set set;
    struct sonde_perf_rings rings;
    struct sonde_perf_reader reader;
    struct pollfd *polls;     /* of each ring, and last the caller's */
    uint32_t forbidden;       /* children that may not be sampled */
    char note[SONDE_CPU_NOTE_MAX];
    enum { FIT_ASK, FIT_LESS, FIT_DONE } fit;
    uint64_t width_ns;        /* when it was last looked whether threads are missed */
    int missed;               /* they are, and nothing can be done about it */
    struct sonde_cpu_account account;
    struct sonde_python_watch python;
    int paused;
};

/* ---- Processes ------------------------------------------------------------------------------- */

#define LOOKS 8 /* at processes that keep starting others */

/* Events on the processes that pid has started before, and what is mapped in them. Those that they
 * start from now on inherit them; whoever was started between two looks is found by the next. */
static int open_children(struct sonde_cpu_engine *e, uint32_t pid, struct sonde_err *err)
{
    struct sonde_perf_tasks *t = &e->reader.tasks;
    int rc = 0, added = 1;
    for (int n = 0; n < LOOKS && added && !rc; n++) {
        uint32_t *tree = NULL, count = 0;
        added = 0;
        e->forbidden = 0;
        if (sonde_proc_tree(pid, &tree, &count)) return 0; /* what there is to come is seen */
        for (uint32_t i = 1; i < count && !rc; i++) {
            if (sonde_perf_tasks_process(t, tree[i])) continue;
            rc = sonde_perf_set_open(&e->set, tree[i], err);
            if (rc == SONDE_EACCES) e->forbidden++;
            if (rc == SONDE_EACCES || rc == SONDE_ENOENT) {
                rc = 0;
                continue;
            }
            if (!rc && !sonde_perf_tasks_find_process(t, tree[i])) rc = SONDE_ENOMEM;
            if (!rc) sonde_cpu_account_begin(&e->account, tree[i]);
            added = 1;
        }
        sonde__free(tree);
    }
    return rc;
}

/* ---- Draining -------------------------------------------------------------------------------- */

/* A process that was started since the list was made has only events that went with the old ones,
 * if its parent had no other yet. One that has both is none the worse. */
static void add_started(struct sonde_cpu_engine *e, const uint32_t *pids, uint32_t count)
{
    uint32_t *tree = NULL, tree_count = 0;
    if (!e->reader.children || sonde_proc_tree(e->reader.pid, &tree, &tree_count)) return;
    for (uint32_t i = 1; i < tree_count; i++) {
        uint32_t k = 0;
        while (k < count && pids[k] != tree[i]) k++;
        if (k == count) sonde_perf_set_add(&e->set, tree[i], NULL);
    }
    sonde__free(tree);
}

/* Every process that is sampled; free it. NULL: no memory. */
static uint32_t *sampled_pids(const struct sonde_perf_reader *r, uint32_t *count)
{
    const struct sonde_perf_process *p;
    uint32_t *pids = sonde__calloc(r->tasks.processes.used + 1u, sizeof(*pids));
    *count = 0;
    for (uint32_t at = 0; pids && (p = sonde_pointer_map_each(&r->tasks.processes, &at));) {
        pids[(*count)++] = p->pid;
    }
    return pids;
}

static int cpu_perf_resize(struct sonde_cpu_engine *e, uint32_t stack_bytes)
{
    struct sonde_perf_reader *r = &e->reader;
    struct sonde_err err = { "" };
    uint32_t count, *pids = sampled_pids(r, &count);
    if (!pids) return SONDE_ENOMEM;
    const int rc = sonde_perf_set_resize(&e->set, stack_bytes, pids, count, &err);
    if (!rc) add_started(e, pids, count);
    sonde__free(pids);
    if (rc) {
        sonde_log(SONDE_LOG_WARN, "stacks are still copied as far as %u bytes, not %u: %s",
                  e->set.options.stack_bytes, stack_bytes, err.text);
    } else {
        sonde_log(SONDE_LOG_DEBUG, "stacks are copied as far as %u bytes", stack_bytes);
    }
    r->seen = r->cut = 0;
    return rc;
}

static uint32_t stack_needed(const struct sonde_perf_reader *r)
{
    uint32_t steps = SONDE_PERF_STACK_STEPS;
    while (steps > 1 && !r->needed[steps - 1]) steps--;
    return (steps + 1) * SONDE_PERF_STACK_STEP;
}

static void fit_stack(struct sonde_cpu_engine *e)
{
    struct sonde_perf_reader *r = &e->reader;
    if (e->fit == FIT_ASK && r->seen >= FIT_STACKS) {
        const uint32_t needed = stack_needed(r);
        e->fit = FIT_DONE;
        if (needed < e->set.options.stack_bytes && !cpu_perf_resize(e, needed)) e->fit = FIT_LESS;
    } else if (e->fit == FIT_LESS && r->cut >= CUT_MIN && r->cut > r->seen / CUT_SHARE) {
        cpu_perf_resize(e, sonde_perf_set_stack_max(&e->set));
        e->fit = FIT_DONE;
    }
}

/* Are there fewer samples than CPU time says, because threads end? One that was sampled counts as
 * well: what it used since its last sample is missed. */
static int misses_threads(struct sonde_cpu_engine *e, double share)
{
    const struct sonde_perf_reader *r = &e->reader;
    uint64_t count, ns;
    sonde_perf_set_read(&e->set, &count, &ns);
    const double expected = (double)ns * 1e-9 * e->set.options.rate_hz;
    const double got = (double)(r->counts.samples + r->counts.lost) + LEAST_MISSED;
    return r->ended >= LEAST_MISSED && got < expected * (1 - share);
}

static void fit_width(struct sonde_cpu_engine *e, uint64_t now_ns)
{
    if (e->set.wide || e->set.options.no_clock || e->missed) return;
    if (e->reader.ended < LEAST_MISSED) return;
    if (now_ns - e->width_ns < WIDTH_NS || e->reader.lot.first) return;
    e->width_ns = now_ns;
    if (!misses_threads(e, WIDEN_SHARE)) return;
    struct sonde_err err = { "" };
    uint32_t count, *pids = sampled_pids(&e->reader, &count);
    /* Frames beyond are read from outside: others' stacks are copied as well, for nothing. */
    const uint32_t bytes = e->set.options.stack_bytes < SONDE_PERF_STACK_USUAL
                               ? e->set.options.stack_bytes
                               : SONDE_PERF_STACK_USUAL;
    e->missed = !pids || sonde_perf_set_widen(&e->set, bytes, pids, count, &err);
    if (!e->missed) {
        e->fit = FIT_DONE;
        add_started(e, pids, count);
    }
    sonde__free(pids);
    sonde_log(SONDE_LOG_DEBUG, "threads end before their next sample: %s",
              e->missed ? "whole CPUs may not be" : "whole CPUs are");
}

/* Events run a program where there is Python. */
static void fit_python(struct sonde_cpu_engine *e)
{
    if (e->set.options.no_clock || !sonde_python_watch_look(&e->python, &e->set, &e->reader)) {
        return;
    }
    if (!e->set.wide) cpu_perf_resize(e, e->set.options.stack_bytes);
}

static void perf_drain(struct sonde_cpu_engine *e, int last)
{
    struct sonde_perf_reader *r = &e->reader;
    const struct perf_event_header *h;
    uint64_t count, ns;
    uint32_t ring;
    if (last) sonde_perf_set_disable(&e->set);
    const uint64_t now = sonde_clock_ns(CLOCK_MONOTONIC);
    if (r->returns) sonde_uprobe_returns_wait(r->returns, now - SETTLE_NS);
    r->unix_ns = sonde_unix_offset_ns(); /* as spans have it, which samples are joined with */
    if (e->set.plan.hardware && !e->set.wide) {
        sonde_perf_set_read(&e->set, &count, &ns);
        if (count) r->ns_per_count = (double)ns / (double)count;
    }
    sonde_perf_rings_begin(&e->rings, last ? UINT64_MAX : now - SETTLE_NS);
    while ((h = sonde_perf_rings_next(&e->rings, &ring))) {
        /* With a record of a mapping lost, the code that was mapped is unknown. */
        if (h->type == PERF_RECORD_LOST && ring < e->set.cpu_count) {
            sonde_perf_tasks_rescan(&r->tasks);
        }
        sonde_perf_reader_take(r, h);
    }
    sonde_perf_reader_settle(r, last ? UINT64_MAX : now);
    if (e->set.options.switches) sonde_perf_reader_sample_sleepers(r);
    if (!e->set.options.no_clock && (last || sonde_cpu_account_is_due(&e->account, now))) {
        sonde_cpu_account_settle(&e->account, r->p, now);
    }
    if (last) {
        sonde_perf_reader_blocked_flush(r, now);
    } else if (!e->paused) { /* events that are opened now would sample */
        fit_python(e);
        fit_stack(e);
        fit_width(e, now);
    }
}

static int perf_pause(struct sonde_cpu_engine *e, int paused, struct sonde_err *err)
{
    if (e->set.options.switches) {
        return sonde_err_set(err, SONDE_EOFF, "blocked time is recorded too, of which nothing may "
                             "be missing");
    }
    /* Events that wait for an exec would begin at once when they are turned on again. */
    if (e->set.options.on_exec && !e->reader.counts.samples) {
        return sonde_err_set(err, SONDE_EBUSY, "there is no sample yet");
    }
    if (e->paused == paused) return 0;
    if (paused) {
        sonde_perf_set_pause(&e->set, 1);
        perf_drain(e, 0);
        sonde_cpu_account_pause(&e->account, e->reader.p, sonde_clock_ns(CLOCK_MONOTONIC));
    } else {
        sonde_cpu_account_resume(&e->account, sonde_clock_ns(CLOCK_MONOTONIC));
        sonde_perf_set_pause(&e->set, 0);
    }
    e->paused = paused;
    return 0;
}

static void perf_blocked_flush(struct sonde_cpu_engine *e)
{
    sonde_perf_reader_blocked_flush(&e->reader, sonde_clock_ns(CLOCK_MONOTONIC));
}

static void perf_forget(struct sonde_cpu_engine *e) { sonde_perf_reader_forget(&e->reader); }

static void perf_emptied(struct sonde_cpu_engine *e) { sonde_cpu_account_emptied(&e->account); }

static void perf_wait(struct sonde_cpu_engine *e, int wake_fd)
{
    const nfds_t count = 2 * e->set.cpu_count;
    e->polls[count] = (struct pollfd){ .fd = wake_fd, .events = POLLIN };
    const int mends = e->reader.outer_ns &&
                      sonde_clock_ns(CLOCK_MONOTONIC) - e->reader.outer_ns < MENDS_NS;
    const int look = e->set.options.switches && e->set.plan.exclude_kernel;
    const int usual = look ? LOOK_MS : e->python.bpf ? NAMES_MS : WAIT_MS;
    poll(e->polls, count + 1, mends ? MEND_MS : e->reader.tasks.python ? PYTHON_MS : usual);
}

/* Of the time that events of the software clock ran, what came as samples was in user code. */
static uint64_t kernel_ns(const struct sonde_cpu_engine *e, const struct sonde_cpu_counts *c)
{
    const double user_ns = (double)(c->samples + c->lost) * 1e9 / e->set.options.rate_hz;
    return (double)c->cpu_ns > user_ns ? c->cpu_ns - (uint64_t)user_ns : 0;
}

static int misses_kernel(const struct sonde_cpu_engine *e, const struct sonde_cpu_counts *c)
{
    return e->set.plan.exclude_kernel && !e->set.plan.hardware && !e->set.options.no_clock &&
           (double)kernel_ns(e, c) > KERNEL_SHARE * (double)c->cpu_ns &&
           kernel_ns(e, c) > KERNEL_LEAST_NS;
}

static void cpu_perf_put_known(const struct sonde_perf_tasks *t, struct sonde_cpu_counts *out)
{
    out->known_count = 0;
    const struct sonde_perf_process *p;
    for (uint32_t at = 0; (p = sonde_pointer_map_each(&t->processes, &at));) {
        if (out->known_count == SONDE_CPU_KNOWN_MAX) return;
        out->known[out->known_count++] = p->pid;
    }
}

static void perf_counts(struct sonde_cpu_engine *e, struct sonde_cpu_counts *out)
{
    uint64_t count;
    /* Whoever asks wants all there is, with its final weight: it may be taken away next. */
    sonde_perf_reader_settle(&e->reader, UINT64_MAX);
    if (!e->set.options.no_clock) {
        sonde_cpu_account_settle(&e->account, e->reader.p, sonde_clock_ns(CLOCK_MONOTONIC));
    }
    *out = e->reader.counts;
    cpu_perf_put_known(&e->reader.tasks, out);
    sonde_perf_set_read(&e->set, &count, &out->cpu_ns);
    /* A ring that makes no sense is a loss of at least the record that did not. */
    out->lost += e->reader.bad_records + sonde_perf_rings_damaged(&e->rings);
    if (e->python.bpf) { /* which are no samples */
        const uint64_t python = sonde_python_bpf_lost(e->python.bpf);
        out->lost -= python < out->lost ? python : out->lost;
    }
    if (!e->set.options.no_clock) out->note = sonde_python_watch_note(&e->python, &e->reader);
    if (e->set.options.callchain && e->set.plan.exclude_kernel) {
        out->note = "there are no frames of the kernel, which does not permit them: run as root, "
                    "with CAP_PERFMON, or with kernel.perf_event_paranoid <= 1";
    }
    if (e->forbidden) {
        snprintf(e->note, sizeof(e->note), "%u of its children may not be sampled: they belong to "
                 "another user", e->forbidden);
        out->note = e->note;
    }
    if (misses_kernel(e, out)) {
        snprintf(e->note, sizeof(e->note), "time in the kernel is not in it, %.3g s of %.3g s: the "
                 "kernel permits that with kernel.perf_event_paranoid <= 1, CAP_PERFMON or to "
                 "root; --engine timer sees it too", (double)kernel_ns(e, out) * 1e-9,
                 (double)out->cpu_ns * 1e-9);
        out->note = e->note;
    } else if (e->missed && misses_threads(e, MISSED_SHARE)) {
        out->note =
            "there are fewer samples than the CPU time says: what threads and processes use "
            "after their last sample, within one sampling period of their end, is missed. "
            "Sample more often (-F 1000), or record as root, which permits sampling whole CPUs";
    }
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void perf_destroy(struct sonde_cpu_engine *e)
{
    if (!e) return;
    sonde_perf_reader_release(&e->reader);
    sonde_perf_rings_release(&e->rings);
    sonde_perf_set_release(&e->set);
    sonde_python_watch_release(&e->python);
    sonde_cpu_account_release(&e->account);
    sonde__free(e->polls);
    sonde__free(e);
}

static int make_polls(struct sonde_cpu_engine *e)
{
    const uint32_t count = 2 * e->set.cpu_count;
    e->polls = sonde__calloc(count + 1, sizeof(*e->polls));
    if (!e->polls) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        e->polls[i] = (struct pollfd){ .fd = e->set.rings[i].fd, .events = POLLIN };
    }
    return 0;
}

/* What there is of the process before the first record. */
static int know_process(struct sonde_cpu_engine *e, const struct sonde_cpu_options *o, int on_exec)
{
    struct sonde_perf_tasks *t = &e->reader.tasks;
    struct sonde_perf_process *p = on_exec ? sonde_perf_tasks_add_process(t, o->pid)
                                           : sonde_perf_tasks_find_process(t, o->pid);
    if (!p || (on_exec && !sonde_perf_tasks_add_thread(t, p, o->pid, NULL))) return SONDE_ENOMEM;
    return 0;
}

/* Is it Python, or one of the processes that it has started? */
static void expect_python(struct sonde_cpu_engine *e, const struct sonde_cpu_options *o,
                          int on_exec)
{
    uint32_t *tree = NULL, count = 0;
    if (on_exec || !o->children || sonde_proc_tree(o->pid, &tree, &count)) tree = NULL;
    const uint32_t *pids = tree ? tree : &o->pid;
    const uint32_t looked = on_exec ? 0 : tree ? count : 1; /* before exec it is what forked it */
    sonde_python_watch_begin(&e->python, &e->set, &e->reader, pids, looked, o->python);
    sonde__free(tree);
}

static int check_rate(const struct sonde_cpu_options *o, struct sonde_err *err)
{
    const long max = sonde_perf_sysctl("perf_event_max_sample_rate", 100000);
    if (o->rate_hz <= (double)max) return 0;
    return sonde_err_set(err, SONDE_EINVAL,
                         "%g samples a second are more than this kernel allows: ask for %ld or "
                         "less, or raise kernel.perf_event_max_sample_rate", o->rate_hz, max);
}

static int perf_start(const struct sonde_cpu_options *o, int on_exec, struct sonde_profile *p,
                      struct sonde_cpu_engine **out, struct sonde_err *err)
{
    const struct sonde_perf_options options = {
        .pid = o->pid,
        .rate_hz = o->rate_hz,
        .stack_bytes = o->stack_bytes,
        .callchain = o->kernel,
        .switches = o->off_cpu,
        .no_clock = o->blocked_only,
        .children = o->children,
        .on_exec = on_exec,
    };
    int rc = check_rate(o, err);
    if (rc) return rc;
    struct sonde_cpu_engine *e = sonde__calloc(1, sizeof(*e));
    if (!e) return sonde_err_set(err, SONDE_ENOMEM, "no memory to sample with");
    rc = sonde_perf_set_init(&e->set, &options, err);
    if (rc) goto fail;
    rc = sonde_perf_rings_init(&e->rings, e->set.rings, 2 * e->set.cpu_count);
    if (!rc) rc = make_polls(e);
    if (!rc) rc = sonde_perf_reader_init(&e->reader, p, &e->set, o);
    if (rc) {
        sonde_err_set(err, rc, "no memory to sample with");
        goto fail;
    }
    sonde_cpu_account_init(&e->account, e->set.plan.exclude_kernel,
                           sonde_clock_ns(CLOCK_MONOTONIC));
    if (!o->blocked_only) expect_python(e, o, on_exec);
    /* Events first, then what is mapped: what changes in between comes as a record. */
    rc = sonde_perf_set_open(&e->set, o->pid, err);
    if (!rc && (rc = know_process(e, o, on_exec))) {
        sonde_err_set(err, rc, "no memory to sample with");
    }
    if (!rc && !on_exec) sonde_cpu_account_begin(&e->account, o->pid);
    if (!rc && o->children && !on_exec) rc = open_children(e, o->pid, err);
    if (rc) goto fail;
    if (o->off_cpu && !on_exec) {
        sonde_perf_reader_blocked_since(&e->reader, sonde_clock_ns(CLOCK_MONOTONIC));
    }
    e->fit = o->stack_bytes ? FIT_DONE : FIT_ASK;
    *out = e;
    return 0;
fail:
    perf_destroy(e);
    return rc;
}

static int perf_check(struct sonde_err *note)
{
    const struct sonde_perf_options o = { .pid = (uint32_t)getpid(), .rate_hz = 1000 };
    struct sonde_perf_plan plan;
    const int rc = sonde_perf_plan(&o, &plan, note);
    if (rc) return rc;
    sonde_err_set(note, 0, "perf events by %s; %s",
                  plan.hardware ? "the CPU's cycle counter" : "the kernel's CPU clock, since there "
                                                              "is no cycle counter here",
                  plan.exclude_kernel ? "only time in user code, no kernel frames, and of off-CPU "
                                        "time only longer waits are told apart "
                                        "(kernel.perf_event_paranoid <= 1 or CAP_PERFMON permits)"
                                      : "kernel frames and off-CPU time are permitted");
    return 0;
}

const struct sonde_cpu_engine_ops sonde_cpu_engine_perf = {
    .kind = SONDE_CPU_PERF,
    .check = perf_check,
    .start = perf_start,
    .wait = perf_wait,
    .drain = perf_drain,
    .blocked_flush = perf_blocked_flush,
    .forget = perf_forget,
    .emptied = perf_emptied,
    .pause = perf_pause,
    .counts = perf_counts,
    .destroy = perf_destroy,
};
