#include "collect/cpu/perf_reader.h"

#include <assert.h>
#include <string.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collect/cpu/perf_python_stack.h"
#include "collect/proc/describe.h"
#include "sonde/sonde.h"
#include "unwind/arch_call.h"

#define KERNEL_FRAMES_MAX 256u
#define LATE_NS 50000u          /* records of two rings that are so near may be in any order */
#define EXACT_BURST 32u /* short intervals of a thread that are samples of their own, at once */

int sonde_perf_reader_init(struct sonde_perf_reader *r, struct sonde_profile *p,
                           const struct sonde_perf_set *set,
                           const struct sonde_cpu_options *options)
{
    assert(r && p && options);
    memset(r, 0, sizeof(*r));
    r->p = p;
    r->set = set;
    r->pid = options->pid;
    r->children = options->children;
    r->period_ns = (uint64_t)(1e9 / options->rate_hz + 0.5);
    r->ns_per_count = 1;
    r->returns = options->returns;
    int rc = sonde_cpu_stacks_create(p, options->depth_max, &r->stacks);
    if (!rc) rc = sonde_perf_tasks_init(&r->tasks, r->stacks);
    if (!rc) rc = sonde_perf_outer_create(options->returns, &r->outer);
    if (!rc && !(r->mix = sonde_perf_python_mix_create())) rc = SONDE_ENOMEM;
    if (rc) sonde_perf_reader_release(r);
    return rc;
}

void sonde_perf_reader_release(struct sonde_perf_reader *r)
{
    sonde_perf_tasks_release(&r->tasks);
    sonde_perf_lot_release(&r->lot);
    sonde_perf_python_samples_release(&r->python);
    sonde_perf_python_mix_destroy(r->mix);
    r->mix = NULL;
    sonde_perf_outer_destroy(r->outer);
    r->outer = NULL;
    sonde_cpu_stacks_destroy(r->stacks);
    r->stacks = NULL;
}

/* ---- Whose it is ----------------------------------------------------------------------------- */

static int perf_reader_is_wanted(const struct sonde_perf_reader *r, uint32_t pid)
{
    return pid == r->pid || (r->children && pid && pid != UINT32_MAX);
}

/* The thread of a record; one whose beginning was missed is looked up. NULL = not of ours. */
static struct sonde_perf_thread *perf_reader_thread_of(struct sonde_perf_reader *r, uint32_t pid,
                                                       uint32_t tid)
{
    struct sonde_perf_thread *t = sonde_perf_tasks_thread(&r->tasks, tid);
    if (t && t->process->pid == pid) return t;
    if (!perf_reader_is_wanted(r, pid)) return NULL;
    struct sonde_perf_process *p = sonde_perf_tasks_process(&r->tasks, pid);
    if (!p) p = sonde_perf_tasks_find_process(&r->tasks, pid);
    return p ? sonde_perf_tasks_add_thread(&r->tasks, p, tid, NULL) : NULL;
}

/* Its row in the profile's table. */
static uint32_t perf_reader_row_of(struct sonde_perf_reader *r, struct sonde_perf_thread *t)
{
    if (t->row) return t->row;
    const uint32_t pid = t->process->pid;
    /* A process is called as its first thread is, which may have no samples. */
    struct sonde_perf_thread *first = sonde_perf_tasks_thread(&r->tasks, pid);
    if (first && !first->row) first->row = sonde_profile_thread(r->p, pid, pid, first->name);
    if (!t->row) t->row = sonde_profile_thread(r->p, pid, t->tid, t->name);
    return t->row;
}

/* Samples of a thread that has events of more than one owner count once: those of the newest
 * generation, and of the owner that was first in it. */
static int is_owner(struct sonde_perf_thread *t, const struct sonde_perf_event *e)
{
    if (!t->owner || e->generation > t->generation) {
        t->owner = e->owner;
        t->generation = e->generation;
    }
    return t->owner == e->owner && t->generation == e->generation;
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static size_t perf_reader_unwind(struct sonde_perf_reader *r, struct sonde_perf_thread *t,
                                 const struct sonde_perf_record *rec, uint64_t back, int final,
                                 struct sonde_aspace_walk *w)
{
    struct sonde_perf_process *p = t->process;
    struct sonde__regs regs = rec->u.sample.regs;
    regs.ip -= back;
    const struct sonde_aspace_outer *outer =
        sonde_perf_outer_begin(r->outer, p->as, p->pid, t->tid, rec->time_ns, final, &t->words);
    return sonde_aspace_unwind_frames(p->as, &regs, rec->u.sample.stack, regs.sp,
                                      rec->u.sample.stack_len, SONDE_PERF_STACK_MAX, outer, r->ips,
                                      r->cfas, SONDE_CPU_FRAMES_MAX, w);
}

/* What a sample is told of the stack that was just unwound. */
static uint16_t walk_flags(const struct sonde_perf_reader *r, const struct sonde_aspace_walk *w)
{
    static const uint8_t whys[] = {
        [SONDE_PERF_OUTER_NOTHING] = SONDE_CUT_CODE,
        [SONDE_PERF_OUTER_GONE] = SONDE_CUT_GONE,
        [SONDE_PERF_OUTER_DENIED] = SONDE_CUT_DENIED,
        [SONDE_PERF_OUTER_CHANGED] = SONDE_CUT_CHANGED,
        [SONDE_PERF_OUTER_HIDDEN] = SONDE_CUT_PROBED,
        [SONDE_PERF_OUTER_EARLY] = SONDE_CUT_CHANGED,
    };
    switch (w->end) {
    case SONDE_ASPACE_START: return w->mended ? SONDE_SAMPLE_MENDED : 0;
    case SONDE_ASPACE_DEEP: return sonde_sample_cut_flags(SONDE_CUT_DEEP);
    case SONDE_ASPACE_MEMORY:
        return sonde_sample_cut_flags(
            (enum sonde_sample_cut)whys[sonde_perf_outer_why(r->outer)]);
    default: return sonde_sample_cut_flags(SONDE_CUT_CODE);
    }
}

/* How far the copy should go, as this stack tells. */
static void count_need(struct sonde_perf_reader *r, const struct sonde_perf_record *rec,
                       const struct sonde_aspace_walk *w)
{
    const size_t len = rec->u.sample.stack_len;
    const int full = len == rec->u.sample.stack_max; /* else it ends where the stack does */
    const uint64_t missing = w->missing - rec->u.sample.regs.sp;
    if (w->end == SONDE_ASPACE_START) {
        r->needed[(w->used < SONDE_PERF_STACK_MAX ? w->used : SONDE_PERF_STACK_MAX - 1) /
                  SONDE_PERF_STACK_STEP]++;
        r->cut += full && w->used > len;
    } else if (w->end == SONDE_ASPACE_MEMORY) {
        r->cut += full && missing >= len && missing < SONDE_PERF_STACK_MAX;
    }
}

/* The copy ends at a page that was never used, in the middle of a large frame. Once it is read it
 * is there, as a page of zeros, and the next copy goes on. Only as far as the stack is known to. */
static void fill_hole(struct sonde_perf_thread *t, const struct sonde_perf_record *rec, size_t used)
{
    const size_t page = 4096, len = rec->u.sample.stack_len;
    const uint64_t at = rec->u.sample.regs.sp + len;
    char bytes[SONDE_PERF_STACK_MAX / 4096];
    struct iovec pages[sizeof(bytes)];
    const struct iovec to = { bytes, sizeof(bytes) };
    size_t n = 0;
    if (len == rec->u.sample.stack_max || at % page || at == t->hole || used <= len) return;
    t->hole = at;
    for (; n < sizeof(bytes) && n * page < used - len; n++) {
        pages[n] = (struct iovec){ (void *)(uintptr_t)(at + n * page), 1 };
    }
    /* Whatever cannot be read stays as it is. */
    (void)!process_vm_readv((pid_t)t->process->pid, &to, 1, pages, n, 0);
}

/* It may be known later what is not known now. */
#define STACK_LATER UINT32_MAX

/* The stack that was just unwound, with the frames of Python that came with it, if any. */
static uint32_t perf_reader_add_stack(struct sonde_perf_reader *r, struct sonde_perf_thread *t,
                                      const struct sonde_perf_record *rec,
                                      const struct sonde_perf_python_sample *python)
{
    struct sonde_perf_process *p = t->process;
    uint32_t missing;
    if (!python || !p->python) {
        return sonde_cpu_stacks_add(r->stacks, p->as, p->layout, 0, r->ips, r->ips_count);
    }
    const uint32_t stack =
        sonde_perf_python_stack(r->mix, p, python, rec->u.sample.regs.sp, r->ips, r->cfas,
                                r->ips_count, r->stacks, r->p, &missing);
    if (missing || python->flags || !python->count) r->python_missing++;
    else r->python_whole++;
    return stack;
}

static uint32_t user_stack(struct sonde_perf_reader *r, struct sonde_perf_thread *t,
                           const struct sonde_perf_record *rec,
                           const struct sonde_perf_python_sample *python, int in_kernel, int final,
                           uint16_t *flags)
{
    struct sonde_aspace_walk w;
    size_t n = perf_reader_unwind(r, t, rec, 0, final, &w);
    if (w.end != SONDE_ASPACE_START && in_kernel) {
        /* In a system call ip is behind the instruction, which may be a function's last one, as in
         * the return from a signal handler. */
        n = perf_reader_unwind(r, t, rec, 1, final, &w);
        if (w.end != SONDE_ASPACE_START) n = perf_reader_unwind(r, t, rec, 0, final, &w);
    }
    if (w.mended) {
        r->outer_ns = rec->time_ns;
        fill_hole(t, rec, w.used);
    }
    if (w.end == SONDE_ASPACE_MEMORY && !final &&
        sonde_perf_outer_why(r->outer) == SONDE_PERF_OUTER_EARLY) {
        return STACK_LATER;
    }
    r->seen++;
    r->ips_count = n;
    r->counts.unwound_frames += n;
    *flags |= walk_flags(r, &w);
    count_need(r, rec, &w);
    return perf_reader_add_stack(r, t, rec, python);
}

/* Frames of the kernel. Markers between the addresses say what kind follows. */
static size_t kernel_frames(const struct sonde_perf_record *rec, uint64_t ips[KERNEL_FRAMES_MAX])
{
    size_t n = 0;
    for (uint64_t i = 0; i < rec->u.sample.chain_count && n < KERNEL_FRAMES_MAX; i++) {
        const uint64_t ip = rec->u.sample.chain[i];
        if (ip >= PERF_CONTEXT_MAX) continue;
        ips[n] = n ? ip - 1 : ip;
        n++;
    }
    return n;
}

/* On top of the user's. */
static uint32_t kernel_stack(struct sonde_perf_reader *r, uint32_t parent,
                             const struct sonde_perf_record *rec)
{
    uint64_t ips[KERNEL_FRAMES_MAX];
    return sonde_cpu_stacks_add(r->stacks, NULL, 0, parent, ips, kernel_frames(rec, ips));
}

/* A thread that is ending, or in the kernel between two programs, has no user part. Its registers
 * are still those that it called exec with, and where addresses are not randomized the stack they
 * point to is there as well: the new program's. */
static int has_user_part(struct sonde_perf_process *p, const struct sonde_perf_record *rec,
                         int in_kernel)
{
    const uint64_t ip = rec->u.sample.regs.ip;
    if (!p || !rec->u.sample.has_user || !ip) return 0;
    if (!in_kernel) p->in_exec = 0;
    if (p->in_exec && !sonde_aspace_mapping(p->as, ip)) return 0;
    return rec->u.sample.stack_len || !in_kernel;
}

/* ---- Within probes ---- */

/* The kernel's page for probes: in its first SLOT bytes is what probed functions return to, in the
 * others are copies of the instructions that probes are at. The thread is as it was at the probe,
 * or just behind the return: the function that it is in, or its caller, is put in place of the
 * page. */
#define SLOT 128u
#define PLACES 5u

/* What functions return to: push rax, push rcx, push r11, mov eax, syscall, pop r11, pop rcx, ret.
 * In the system call sp is for a while as it was before. Older kernels have a breakpoint at 0.
 * Where the return address was, from sp on; returns how many places there are. */
static uint32_t places_behind(uint64_t at, int64_t out[PLACES])
{
    if (at == 0) out[0] = -8;
    else if (at == 1 || at == 16) out[0] = 0;
    else if (at == 2 || at == 15) out[0] = 8;
    else {
        out[0] = 16;
        out[1] = -8;
        return 2;
    }
    return 1;
}

/* At a copy: it has been executed, or not. */
static uint32_t places_at(uint64_t at, int64_t out[PLACES])
{
    const uint32_t count = at % SLOT ? PLACES : 1;
    for (uint32_t i = 0; i < count; i++) out[i] = 8 * (int64_t)i;
    return count;
}

static void step_out(struct sonde_perf_reader *r, struct sonde_perf_process *p,
                     struct sonde_perf_record *rec)
{
    struct sonde__regs *regs = &rec->u.sample.regs;
    struct sonde_uprobe_return call = { 0 }, one;
    int64_t places[PLACES];
    const uint64_t page = sonde_aspace_probes(p->as, regs->ip);
    if (!page) return;
    const uint64_t at = regs->ip - page;
    const uint32_t count = at < SLOT ? places_behind(at, places) : places_at(at, places);
    for (uint32_t i = 0; i < count; i++) {
        if (!sonde_uprobe_returns_find(r->returns, rec->tid, regs->sp + (uint64_t)places[i], page,
                                       0, rec->time_ns, &one) && one.time_ns >= call.time_ns) {
            call = one;
        }
    }
    if (!call.address) return;
    const uint64_t sp = at < SLOT ? call.place + SONDE__ARCH_CALL_BYTES : call.place;
    const uint64_t by = sp > regs->sp ? sp - regs->sp : 0;
    if (by > rec->u.sample.stack_len) return;
    rec->u.sample.stack = (const char *)rec->u.sample.stack + by;
    rec->u.sample.stack_len -= by;
    regs->sp = sp;
    regs->ip = at < SLOT ? call.address : call.entry;
}

/* The stack of a sample; 0 = no memory for it. STACK_LATER, unless it is asked finally. */
static uint32_t perf_reader_stack_of(struct sonde_perf_reader *r, struct sonde_perf_thread *t,
                                     const struct sonde_perf_record *rec,
                                     const struct sonde_perf_python_sample *python, int final,
                                     uint16_t *flags)
{
    struct sonde_perf_process *p = t ? t->process : NULL;
    const int in_kernel = (rec->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
    const int has_user = has_user_part(p, rec, in_kernel);
    struct sonde_perf_record mended;
    if (has_user && r->returns) {
        mended = *rec;
        step_out(r, p, &mended);
        rec = &mended;
    }
    uint32_t stack = has_user ? user_stack(r, t, rec, python, in_kernel, final, flags) : 0;
    if (!has_user) stack = sonde_cpu_stacks_named(r->stacks, "[no user stack]");
    if (stack == STACK_LATER) return stack;
    if (stack && rec->u.sample.chain_count) stack = kernel_stack(r, stack, rec);
    return stack;
}

/* 0, or SONDE_EBUSY: its stack is to be looked at later. Not when that is final. */
static int take_clock(struct sonde_perf_reader *r, struct sonde_perf_thread *t,
                      const struct sonde_perf_record *rec,
                      const struct sonde_perf_python_sample *python, int final)
{
    struct sonde_profile_sample s = {
        .time_ns = rec->time_ns + r->unix_ns,
        .weight = (uint64_t)((double)rec->u.sample.period * r->ns_per_count + 0.5),
        .thread = t ? perf_reader_row_of(r, t) : 0,
        .count = 1,
        .kind = SONDE_SAMPLE_CPU,
    };
    s.stack = perf_reader_stack_of(r, t, rec, python, final, &s.flags);
    if (s.stack == STACK_LATER) return SONDE_EBUSY;
    r->counts.samples++;
    r->counts.truncated += s.flags & SONDE_SAMPLE_TRUNCATED;
    r->counts.mended += (s.flags & SONDE_SAMPLE_MENDED) != 0;
    sonde_profile_add_sample(r->p, &s); /* what does not fit is counted there */
    return 0;
}

static int perf_reader_parse(const struct sonde_perf_reader *r, const struct perf_event_header *h,
                             struct sonde_perf_record *out)
{
    const int callchain = r->set->options.callchain && !r->set->plan.exclude_kernel;
    return sonde_perf_record_parse(h, callchain, out);
}

static void perf_reader_settle(struct sonde_perf_reader *r, uint64_t now_ns, uint32_t pid)
{
    struct sonde_perf_parked *p, *back = NULL;
    int final;
    while ((p = sonde_perf_lot_take(&r->lot, now_ns, pid, &final))) {
        struct sonde_perf_record rec;
        struct sonde_perf_thread *t = NULL;
        if (!perf_reader_parse(r, &p->header, &rec)) {
            t = sonde_perf_tasks_thread(&r->tasks, rec.tid);
        }
        const struct sonde_perf_python_sample *python = p->python.frames ? &p->python : NULL;
        if (t && t->process->pid == rec.pid && take_clock(r, t, &rec, python, final)) {
            p->next = back;
            back = p;
        } else {
            sonde_perf_lot_free(p);
        }
    }
    while ((p = back)) {
        back = p->next;
        sonde_perf_lot_back(&r->lot, p);
    }
}

void sonde_perf_reader_settle(struct sonde_perf_reader *r, uint64_t now_ns)
{
    perf_reader_settle(r, now_ns, 0);
}

/* What is known of a process is about to change: what waits must do with what there is. */
static void settle_process(struct sonde_perf_reader *r, uint32_t pid)
{
    if (r->lot.first) perf_reader_settle(r, UINT64_MAX, pid);
}

static void take_sample(struct sonde_perf_reader *r, const struct sonde_perf_record *rec,
                        const struct perf_event_header *h)
{
    const struct sonde_perf_event *e = sonde_perf_set_find(r->set, rec->id);
    const struct sonde_perf_python_sample *python = NULL;
    if (e && e->kind == SONDE_PERF_CLOCK) {
        python = sonde_perf_python_samples_take(&r->python, e->cpu, rec);
    }
    /* A thread that is about to be gone has lost its number already. */
    const int ending = rec->tid == UINT32_MAX;
    /* Of a whole CPU: whatever runs there. */
    if (e && e->owner == SONDE_PERF_WIDE && !sonde_perf_tasks_process(&r->tasks, rec->pid)) return;
    struct sonde_perf_thread *t = ending ? NULL : perf_reader_thread_of(r, rec->pid, rec->tid);
    if (!e || (!t && !ending) || (t && !is_owner(t, e))) return;
    if (e->kind == SONDE_PERF_CLOCK) {
        /* It runs, so that it came back was lost; unless this is of just before, and comes late. */
        if (t && rec->time_ns > t->out_ns + LATE_NS) t->blocked = t->preempted = 0;
        if (take_clock(r, t, rec, python, 0) &&
            sonde_perf_lot_put(&r->lot, h, rec->pid, rec->time_ns, python)) {
            take_clock(r, t, rec, python, 1);
        }
    } else if (e->kind == SONDE_PERF_SWITCH && t) {
        uint64_t kernel[KERNEL_FRAMES_MAX];
        t->switch_flags = 0;
        r->ips_count = 0;
        t->switch_stack = perf_reader_stack_of(r, t, rec, NULL, 1, &t->switch_flags);
        sonde_perf_python_keep(t, rec->u.sample.regs.sp, r->ips, r->cfas, r->ips_count, kernel,
                               kernel_frames(rec, kernel));
    }
}

/* ---- Off-CPU --------------------------------------------------------------------------------- */

/* A sample of time that t was off the CPU, from when it was switched out the last time. */
static void perf_reader_add_off(struct sonde_perf_reader *r, struct sonde_perf_thread *t,
                                enum sonde_sample_kind kind, uint64_t weight, uint32_t count)
{
    /* One that has not come back is still there. */
    const uint32_t stack = t->blocked && t->python_stack ? t->python_stack : t->out_stack;
    const struct sonde_profile_sample s = {
        .time_ns = t->out_ns + r->unix_ns,
        .weight = weight,
        .stack = stack ? stack
                       : sonde_cpu_stacks_named(r->stacks, "[stack not sampled]"),
        .thread = perf_reader_row_of(r, t),
        .count = count,
        .kind = (uint16_t)kind,
        .flags = t->out_flags,
    };
    sonde_profile_add_sample(r->p, &s);
}

/* 1 if t may have a sample of a short interval: as many as it has periods, and some at once. */
static int perf_reader_may_be_exact(const struct sonde_perf_reader *r, struct sonde_perf_thread *t,
                                    uint64_t now_ns)
{
    if (t->exact_ns > now_ns + EXACT_BURST * r->period_ns) return 0;
    t->exact_ns = (t->exact_ns > now_ns ? t->exact_ns : now_ns) + r->period_ns;
    return 1;
}

/* One interval has ended. It is a sample of its own, so that its begin and end are known to the
 * nanosecond, unless it is one of many short ones: those are added up. */
static void perf_reader_off_ended(struct sonde_perf_reader *r, struct sonde_perf_thread *t,
                                  uint64_t now_ns)
{
    const enum sonde_sample_kind kind = t->preempted ? SONDE_SAMPLE_RUNNABLE : SONDE_SAMPLE_OFFCPU;
    struct sonde_perf_off *off = t->preempted ? &t->runnable : &t->off;
    const uint64_t ns = now_ns > t->out_ns ? now_ns - t->out_ns : 0;
    if (ns >= r->period_ns || perf_reader_may_be_exact(r, t, now_ns)) {
        if (ns) perf_reader_add_off(r, t, kind, ns, 1);
        return;
    }
    off->ns += ns;
    off->count++;
    if (off->ns < r->period_ns || off->count < 2) return;
    perf_reader_add_off(r, t, kind, off->ns, off->count);
    *off = (struct sonde_perf_off){ 0 };
}

static void take_switch(struct sonde_perf_reader *r, const struct sonde_perf_record *rec)
{
    struct sonde_perf_thread *t = perf_reader_thread_of(r, rec->pid, rec->tid);
    if (!t) return;
    if (rec->misc & PERF_RECORD_MISC_SWITCH_OUT) {
        const int preempted = (rec->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0;
        /* Off twice: the record comes twice (then without a stack), or one between was lost. */
        if ((!t->blocked && !t->preempted) || t->switch_stack || (preempted && t->blocked)) {
            t->blocked = !preempted;
            t->preempted = preempted;
            t->out_ns = rec->time_ns;
            t->out_stack = t->switch_stack;
            t->out_flags = t->switch_flags;
            t->looked = 0;
            t->python_stack = t->python_looked = 0;
        }
        t->switch_stack = 0;
        return;
    }
    if (!t->blocked && !t->preempted) return;
    /* It had gone on before it was looked at: what was seen is where it was blocked next. */
    if (t->looked && rec->time_ns < t->looked_ns) t->out_stack = t->out_flags = 0;
    /* The same of Python's frames. */
    if (t->python_stack && rec->time_ns <= t->python_ns) t->python_stack = 0;
    perf_reader_off_ended(r, t, rec->time_ns);
    t->blocked = t->preempted = 0;
    t->python_stack = 0;
}

void sonde_perf_reader_blocked_since(struct sonde_perf_reader *r, uint64_t now_ns)
{
    struct sonde_perf_thread *t;
    for (uint32_t at = 0; (t = sonde_pointer_map_each(&r->tasks.threads, &at));) {
        t->blocked = sonde_perf_is_blocked(t->process->pid, t->tid);
        t->out_ns = now_ns;
    }
}

static void perf_reader_sample_sleeper(struct sonde_perf_reader *r, struct sonde_perf_thread *t)
{
    struct sonde_perf_process *p = t->process;
    struct sonde_aspace_walk w;
    t->looked = 1;
    t->looked_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    if (sonde_perf_blocked_read(p->pid, t->tid, &r->asleep)) return;
    const struct sonde_aspace_outer *outer =
        sonde_perf_outer_begin(r->outer, p->as, p->pid, t->tid, t->looked_ns, 1, &t->words);
    const size_t n = sonde_aspace_unwind_frames(p->as, &r->asleep.regs, r->asleep.stack,
                                                r->asleep.regs.sp, r->asleep.stack_len,
                                                r->asleep.stack_len, outer, r->ips, r->cfas,
                                                SONDE_CPU_FRAMES_MAX, &w);
    sonde_perf_python_keep(t, r->asleep.regs.sp, r->ips, r->cfas, n, NULL, 0);
    t->python_stack = t->python_looked = 0;
    r->counts.unwound_frames += n;
    t->out_stack = sonde_cpu_stacks_add(r->stacks, p->as, p->layout, 0, r->ips, n);
    t->out_flags = walk_flags(r, &w);
}

void sonde_perf_reader_sample_sleepers(struct sonde_perf_reader *r)
{
    struct sonde_perf_thread *t;
    for (uint32_t at = 0; (t = sonde_pointer_map_each(&r->tasks.threads, &at));) {
        if (t->blocked && !t->out_stack && !t->looked) perf_reader_sample_sleeper(r, t);
        if (t->blocked && !t->python_looked) {
            sonde_perf_python_look(r->mix, t, r->stacks, r->p);
        }
        r->tasks.python |= t->process->python != NULL;
    }
}

void sonde_perf_reader_forget(struct sonde_perf_reader *r)
{
    sonde_cpu_stacks_forget(r->stacks); /* without memory frames that are left out have no name */
    struct sonde_perf_thread *t;
    for (uint32_t at = 0; (t = sonde_pointer_map_each(&r->tasks.threads, &at));) {
        t->row = t->switch_stack = t->out_stack = t->python_stack = 0;
        t->switch_flags = t->out_flags = 0;
        t->looked = t->python_looked = 0;
    }
    struct sonde_perf_process *p;
    for (uint32_t at = 0; (p = sonde_pointer_map_each(&r->tasks.processes, &at));) {
        if (p->python) sonde_perf_python_forget(p->python);
    }
}

static void perf_reader_add_sum(struct sonde_perf_reader *r, struct sonde_perf_thread *t,
                                enum sonde_sample_kind kind, const struct sonde_perf_off *off)
{
    /* A count of 1 would say that it was just then. */
    if (off->ns) perf_reader_add_off(r, t, kind, off->ns, off->count > 1 ? off->count : 2);
}

/* What is added up but no sample yet, and how long it is blocked now. */
static void add_rest(struct sonde_perf_reader *r, struct sonde_perf_thread *t, uint64_t now_ns)
{
    const uint64_t open_ns = now_ns > t->out_ns ? now_ns - t->out_ns : 0;
    perf_reader_add_sum(r, t, SONDE_SAMPLE_OFFCPU, &t->off);
    perf_reader_add_sum(r, t, SONDE_SAMPLE_RUNNABLE, &t->runnable);
    if (t->blocked && open_ns) perf_reader_add_off(r, t, SONDE_SAMPLE_OFFCPU, open_ns, 1);
}

void sonde_perf_reader_blocked_flush(struct sonde_perf_reader *r, uint64_t now_ns)
{
    struct sonde_perf_thread *t;
    for (uint32_t at = 0; (t = sonde_pointer_map_each(&r->tasks.threads, &at));) {
        add_rest(r, t, now_ns);
    }
}

/* ---- Processes and threads ------------------------------------------------------------------- */

static void take_fork(struct sonde_perf_reader *r, const struct sonde_perf_record *rec)
{
    if (!perf_reader_is_wanted(r, rec->pid)) return;
    struct sonde_perf_process *parent =
        sonde_perf_tasks_process(&r->tasks, rec->u.task.parent_pid);
    struct sonde_perf_process *p = sonde_perf_tasks_process(&r->tasks, rec->pid);
    const struct sonde_perf_thread *maker =
        sonde_perf_tasks_thread(&r->tasks, rec->u.task.parent_tid);
    const int forked = !p && parent;
    if (forked) p = sonde_perf_tasks_fork(&r->tasks, parent, rec->pid);
    struct sonde_perf_thread *t =
        p ? sonde_perf_tasks_add_thread(&r->tasks, p, rec->tid, maker ? maker->name : "") : NULL;
    if (t && forked && maker && !t->words) t->words = sonde_perf_words_copy(maker->words);
}

static void take_exit(struct sonde_perf_reader *r, const struct sonde_perf_record *rec)
{
    struct sonde_perf_thread *t = sonde_perf_tasks_thread(&r->tasks, rec->tid);
    if (!t || t->process->pid != rec->pid) return;
    add_rest(r, t, rec->time_ns);
    settle_process(r, rec->pid);
    r->ended++;
    sonde_perf_tasks_end(&r->tasks, t);
}

static void take_comm(struct sonde_perf_reader *r, const struct sonde_perf_record *rec)
{
    struct sonde_perf_thread *t = perf_reader_thread_of(r, rec->pid, rec->tid);
    if (!t) return;
    memcpy(t->name, rec->u.comm.name, sizeof(t->name));
    if (t->row) sonde_profile_thread(r->p, rec->pid, rec->tid, t->name);
    if (!(rec->misc & PERF_RECORD_MISC_COMM_EXEC)) return;
    settle_process(r, rec->pid);
    sonde_perf_tasks_exec(&r->tasks, t);
    t->owner = 0; /* another thread may have taken this one's number */
    if (rec->pid == r->pid) r->unnamed = sonde_proc_describe(r->p, rec->pid, t->name) != 0;
}

static void take_map(struct sonde_perf_reader *r, const struct sonde_perf_record *rec)
{
    struct sonde_perf_process *p = sonde_perf_tasks_process(&r->tasks, rec->pid);
    const char *base = strrchr(rec->u.map.path, '/');
    settle_process(r, rec->pid);
    if (p) sonde_perf_tasks_map(&r->tasks, p, &rec->u.map);
    /* It may have an interpreter built in, whatever it is called. */
    if (p && p->in_exec && rec->pid == r->pid) p->python_due = r->tasks.python_due = 1;
    if (r->unnamed && rec->pid == r->pid && base) {
        /* Its name is cut after 15 bytes; that of the file may be another's, by a link. What was
         * started through /proc/self/exe is called exe. */
        const char *name = sonde_profile_str(r->p, r->p->program);
        if (!strcmp(name, "exe") || !strncmp(name, base + 1, strlen(name))) {
            r->p->program = sonde_profile_cstring(r->p, base + 1);
        }
        r->unnamed = 0;
    }
}

/* 1 if h is of a BPF program. */
static int take_output(struct sonde_perf_reader *r, const struct perf_event_header *h)
{
    struct sonde_perf_record rec;
    if (h->type != PERF_RECORD_SAMPLE || !r->tasks.bpf) return 0;
    const struct sonde_perf_event *e = sonde_perf_set_find(r->set, sonde_perf_record_event(h));
    if (!e || e->kind != SONDE_PERF_OUTPUT) return 0;
    if (sonde_perf_record_parse_output(h, &rec)) {
        r->bad_records++;
    } else {
        sonde_perf_python_samples_put(&r->python, e->cpu, r->set->cpu_count, &rec);
    }
    return 1;
}

void sonde_perf_reader_take(struct sonde_perf_reader *r, const struct perf_event_header *h)
{
    struct sonde_perf_record rec;
    if (take_output(r, h)) return;
    if (perf_reader_parse(r, h, &rec)) {
        r->bad_records++;
        return;
    }
    switch (rec.type) {
    case PERF_RECORD_SAMPLE: take_sample(r, &rec, h); break;
    case PERF_RECORD_SWITCH: take_switch(r, &rec); break;
    case PERF_RECORD_MMAP2: take_map(r, &rec); break;
    case PERF_RECORD_COMM: take_comm(r, &rec); break;
    case PERF_RECORD_FORK: take_fork(r, &rec); break;
    case PERF_RECORD_EXIT: take_exit(r, &rec); break;
    case PERF_RECORD_LOST:
    case PERF_RECORD_LOST_SAMPLES: r->counts.lost += rec.u.lost; break;
    default: break;
    }
}
