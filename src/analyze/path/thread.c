/* thread.c - what a thread did in a time: see private.h. */
#include <assert.h>
#include <string.h>

#include "analyze/path/private.h"

enum sonde_path_kind path_kind_of_wait(enum sonde_wait_kind k)
{
    switch (k) {
    case SONDE_WAIT_LOCK: return SONDE_PATH_LOCK;
    case SONDE_WAIT_GIL: return SONDE_PATH_GIL;
    case SONDE_WAIT_THREAD: return SONDE_PATH_THREAD;
    case SONDE_WAIT_IO: return SONDE_PATH_IO;
    case SONDE_WAIT_NETWORK: return SONDE_PATH_NETWORK;
    case SONDE_WAIT_SLEEP: return SONDE_PATH_SLEEP;
    case SONDE_WAIT_PAGE_FAULT: return SONDE_PATH_PAGE_FAULT;
    case SONDE_WAIT_PROCESS: return SONDE_PATH_PROCESS;
    default: return SONDE_PATH_BLOCKED;
    }
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static enum sonde_path_kind path_thread_phase(unsigned phase)
{
    switch (phase) {
    case SONDE_PHASE_QUEUE: return SONDE_PATH_QUEUE;
    case SONDE_PHASE_ENCODE: return SONDE_PATH_ENCODE;
    case SONDE_PHASE_PREFILL: return SONDE_PATH_PREFILL;
    case SONDE_PHASE_DECODE: return SONDE_PATH_DECODE;
    case SONDE_PHASE_SAMPLE: return SONDE_PATH_SAMPLE;
    case SONDE_PHASE_DETOKENIZE: return SONDE_PATH_DETOKENIZE;
    default: return SONDE_PATH_COMPUTE;
    }
}

static struct path_label path_thread_batch(const struct path_work *w, uint32_t span, uint32_t pid)
{
    const struct sonde_path_index *x = w->x;
    struct path_label label = { .kind = SONDE_PATH_BATCH_MATES, .told = 1, .batch = span + 1 };
    for (uint32_t i = x->part_first[span]; i < x->part_first[span + 1]; i++) {
        const struct sonde_profile_part *part = &x->p->parts[i];
        label.tokens += (uint64_t)part->tokens_in + part->tokens_out;
        if (!path_is_own(w, pid, part->request)) continue;
        label.own_in += part->tokens_in;
        label.own_out += part->tokens_out;
    }
    return label;
}

struct path_label path_label_of(const struct path_work *w, uint32_t span,
                                const struct path_label *inherit)
{
    const struct sonde_path_index *x = w->x;
    const struct sonde_profile_span *s = &x->p->spans[span];
    const uint32_t pid = path_pid(x, s->thread);
    if (x->part_first[span] < x->part_first[span + 1]) return path_thread_batch(w, span, pid);
    const unsigned phase = x->phase[s->name];
    const int of_request = path_request_find(x, pid, s->parent) != UINT32_MAX;
    if (of_request && w->own_count && !path_is_own(w, pid, s->parent)) {
        return (struct path_label){ .kind = SONDE_PATH_BATCH_MATES, .told = 1, .mate = s->parent };
    }
    if (phase || of_request) {
        const enum sonde_path_kind kind = path_thread_phase(phase);
        return (struct path_label){ .kind = kind, .told = 1, .all = kind == SONDE_PATH_QUEUE };
    }
    return *inherit;
}

/* ---- Stretches without a wait that is known by itself ---------------------------------------- */

uint64_t path_cpu_ns(const struct sonde_path_index *x, uint32_t thread, uint64_t from, uint64_t to)
{
    uint64_t ns = 0;
    uint32_t low = x->cpu_first[thread], high = x->cpu_first[thread + 1];
    const uint32_t end = high;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (x->cpus[middle].time < from) low = middle + 1;
        else high = middle;
    }
    for (; low < end && x->cpus[low].time < to; low++) ns += x->cpus[low].ns;
    return ns < to - from ? ns : to - from;
}

/* Without off-CPU samples: what the engine says, else what was sampled. */
static void path_thread_unknown(struct path_work *w, uint32_t thread, uint32_t span,
                                const struct path_label *label, uint64_t from, uint64_t to)
{
    w->out->no_off_cpu = 1;
    if (label->told) {
        path_add_label(w, label, from, to, thread, span);
        return;
    }
    const uint64_t ran = path_cpu_ns(w->x, thread, from, to);
    if (ran) path_add_label(w, label, from, from + ran, thread, span);
    path_add(w, SONDE_PATH_UNEXPLAINED, from + ran, to, thread, span);
}

/* Of a sum of short waits what is of this stretch. */
static uint64_t path_thread_share(const struct path_short *s, uint64_t from, uint64_t to)
{
    const uint64_t a = s->from > from ? s->from : from, b = s->to < to ? s->to : to;
    if (b <= a || !s->run_ns) return 0;
    return (uint64_t)((double)s->ns * (double)(b - a) / (double)s->run_ns);
}

static void path_thread_stretch(struct path_work *w, uint32_t thread, uint32_t span,
                                const struct path_label *label, uint64_t from, uint64_t to)
{
    const struct sonde_path_index *x = w->x;
    if (to <= from) return;
    if (label->all) {
        path_add(w, label->kind, from, to, thread, span);
        return;
    }
    const int covered = from >= x->p->start_ns && (!x->p->end_ns || to <= x->p->end_ns);
    if (!x->known[thread] || !covered) {
        path_thread_unknown(w, thread, span, label, from, to);
        return;
    }
    uint32_t low = x->short_first[thread], high = x->short_first[thread + 1];
    const uint32_t end = high;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (x->shorts[middle].to <= from) low = middle + 1;
        else high = middle;
    }
    /* Two rows of sums, of blocked and of runnable: each is passed when one of it begins later. */
    uint64_t left = to - from, sums[SONDE_PATH_KIND_COUNT] = { 0 };
    for (unsigned passed = 0; low < end && passed != 3; low++) {
        const struct path_short *s = &x->shorts[low];
        uint64_t ns = path_thread_share(s, from, to);
        if (s->from >= to) passed |= 1u << s->runnable;
        if (ns > left) ns = left;
        if (!ns) continue;
        const enum sonde_path_kind kind =
            s->runnable ? SONDE_PATH_RUNNABLE : path_kind_of_wait(x->waits[s->stack].kind);
        path_detail(w, kind, SONDE_PATH_STACK, s->stack, ns, 1);
        sums[kind] += ns;
        left -= ns;
    }
    path_add_label(w, label, from, from + left, thread, span);
    /* Where in the stretch they were is not known. */
    uint64_t at = from + left;
    for (int k = 0; k < SONDE_PATH_KIND_COUNT; k++) {
        path_add(w, (enum sonde_path_kind)k, at, at + sums[k], thread, span);
        at += sums[k];
    }
}

/* ---- With its waits -------------------------------------------------------------------------- */

static void path_thread_run(struct path_work *w, uint32_t thread, uint32_t span,
                            const struct path_label *label, uint64_t from, uint64_t to)
{
    const struct sonde_path_index *x = w->x;
    uint32_t low = x->off_first[thread], high = x->off_first[thread + 1];
    const uint32_t end = high;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (x->offs[middle].end <= from) low = middle + 1;
        else high = middle;
    }
    uint64_t at = from;
    for (; low < end && x->offs[low].start < to && !w->rc; low++) {
        const struct path_off *off = &x->offs[low];
        const uint64_t a = off->start > at ? off->start : at, b = off->end < to ? off->end : to;
        path_thread_stretch(w, thread, span, label, at, a);
        at = b;
        if (label->all || off->runnable) {
            const enum sonde_path_kind kind =
                off->runnable && !label->all ? SONDE_PATH_RUNNABLE : label->kind;
            path_add(w, kind, a, b, thread, span);
            path_detail(w, kind, SONDE_PATH_STACK, off->stack, b - a, 1);
        } else {
            path_wait(w, off, a, b, span, label);
        }
    }
    path_thread_stretch(w, thread, span, label, at, to);
}

/* Place in the thread's row of spans of the first that begins at or after a time. */
static uint32_t path_thread_first(const struct sonde_path_index *x, uint32_t thread, uint64_t at)
{
    uint32_t low = x->span_first[thread], high = x->span_first[thread + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (x->p->spans[x->spans[middle]].start_ns < at) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The span directly inside of outer (index + 1; 0 = outermost) that goes on at a time, having begun
 * before; index + 1. */
static uint32_t path_thread_open(const struct sonde_path_index *x, uint32_t thread, uint32_t outer,
                                 uint64_t at)
{
    const uint32_t next = path_thread_first(x, thread, at);
    uint32_t s = next > x->span_first[thread] ? x->spans[next - 1] + 1 : 0, found = 0;
    for (int hops = 0; s && s != outer && hops < PATH_DEPTH_MAX; hops++) {
        if (x->p->spans[s - 1].end_ns > at && x->of_span[s - 1] == outer) found = s;
        s = x->of_span[s - 1];
    }
    return found;
}

void path_inside(struct path_work *w, uint32_t thread, uint32_t span,
                 const struct path_label *label, uint64_t from, uint64_t to)
{
    const struct sonde_path_index *x = w->x;
    uint64_t at = from;
    uint32_t open = path_thread_open(x, thread, span, from);
    while (at < to && !w->rc) {
        uint32_t next = open ? open : 0;
        if (!open) {
            uint32_t row = path_thread_first(x, thread, at);
            for (; row < x->span_first[thread + 1]; row++) {
                const struct sonde_profile_span *s = &x->p->spans[x->spans[row]];
                if (s->start_ns >= to) break;
                if (x->of_span[x->spans[row]] != span || s->end_ns <= s->start_ns) continue;
                if (x->spans[row] + 1 == span) continue;
                next = x->spans[row] + 1;
                break;
            }
        }
        open = 0;
        if (!next) break;
        const struct sonde_profile_span *s = &x->p->spans[next - 1];
        const uint64_t a = s->start_ns > at ? s->start_ns : at;
        const uint64_t b = s->end_ns < to ? s->end_ns : to;
        path_thread_run(w, thread, span, label, at, a);
        path_span(w, next - 1, label, a, b);
        at = b;
    }
    path_thread_run(w, thread, span, label, at, to);
}
