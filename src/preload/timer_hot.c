/* timer_hot.c - the signal handler. May interrupt anything: the allocator, the dynamic linker, a
 * handler of the program's, code that has just switched stacks. */
#include <errno.h>
#include <string.h>
#include <ucontext.h>

#include "preload/timer.h"
#include "preload/walk.h"

#include "base/hot_banned.h"

#define FRAMES_MAX 4096u      /* walked of a stack; depth_max of them are kept */
#define LATE_NS 100000000u    /* more CPU time than this at once: the signal was blocked. Ticks of
                                 virtual machines are missing for tens of milliseconds at times */
#define ROOM_TO_WALK 1536u    /* stack that walking by rules that are remembered may take */

/* *jumps: it went through a function that ends in a jump, with such an idea of it. */
static uint32_t walk(struct sonde__thread *t, const void *context, int known_only,
                     enum sonde__landing landing, int *jumps, uint32_t *flags)
{
    static const struct sonde__unwind_row interrupted = { .cfa = SONDE__CFA_SIGNAL };
    const uint64_t salt = sonde__fast_salt();
    struct sonde__walker w;
    uint32_t n = 0;
    *flags = SONDE__SAMPLE_TRUNCATED;
    memset(&w, 0, sizeof(w));
    w.known_only = known_only;
    w.landing = landing;
    *jumps = 0;
    w.memory = sonde__memory_above((uint64_t)(uintptr_t)__builtin_frame_address(0));
    w.regs.sp = (uint64_t)(uintptr_t)context;
    if (sonde__unwind_apply(&interrupted, &w.regs, sonde__walk_word, &w.memory, &w.exact) !=
        SONDE__STEP_OK) {
        return 0;
    }
    while (n < FRAMES_MAX) {
        uint64_t ip = w.regs.ip - 1;
        const uint64_t rule = w.exact ? 0 : sonde__fast_find(salt, ip);
        if (rule && sonde__walk_fast(&w, rule) == SONDE__STEP_OK) {
            t->ips[sonde__frame_slot(sonde__timer.depth_max, n++)] = ip;
            continue;
        }
        const enum sonde__step step = sonde__walk_next(&w, !n, &ip);
        if (ip) t->ips[sonde__frame_slot(sonde__timer.depth_max, n++)] = ip;
        if (w.rule == SONDE__RULE_UNKNOWN) {
            __atomic_fetch_add(&sonde__timer.area->cut, 1, __ATOMIC_RELAXED);
        }
        if (step == SONDE__STEP_END) *flags = 0;
        if (step == SONDE__STEP_FAIL && w.rule != SONDE__RULE_UNKNOWN) *flags |= SONDE__SAMPLE_CODE;
        if (step != SONDE__STEP_OK) break;
    }
    *jumps = w.jumps;
    return n;
}

/* What is left of the stack, at least: of the alternate signal stack, if that is where we are; else
 * of the thread's own, which may be down to its last bytes. */
static size_t room(const ucontext_t *c)
{
    const uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    const uint64_t low = (uint64_t)(uintptr_t)c->uc_stack.ss_sp;
    struct sonde__memory m = { 0, 0 };
    if (!(c->uc_stack.ss_flags & SS_DISABLE) && here >= low && here - low < c->uc_stack.ss_size) {
        return (size_t)(here - low);
    }
    if (sonde__walk_room(&m, here)) return SONDE__ROOM_TO_FIND;
    return sonde__readable((here - ROOM_TO_WALK) & ~7ull) ? ROOM_TO_WALK : 0;
}

__attribute__((noinline)) static void sample(struct sonde__thread *t, uint32_t overrun,
                                             uint32_t owed, const ucontext_t *context,
                                             size_t room_left)
{
    uint32_t flags;
    int jumps;
    const int modules_go = sonde__walk_begin();
    const int known_only = room_left < SONDE__ROOM_TO_FIND || modules_go;
    uint32_t frames = walk(t, context, known_only, SONDE__LANDING_CALLER, &jumps, &flags);
    for (int i = 1; i <= SONDE__LANDINGS && flags && jumps; i++) { /* in the end as it was */
        frames = walk(t, context, known_only, (enum sonde__landing)(i % SONDE__LANDINGS), &jumps,
                      &flags);
    }
    if (overrun * sonde__timer.period_ns > LATE_NS) {
        flags |= SONDE__SAMPLE_LATE;
        __atomic_fetch_add(&sonde__timer.area->late, 1, __ATOMIC_RELAXED);
    }
    sonde__ring_sample(t, frames, overrun + owed, flags);
    sonde__walk_end();
}

void sonde__timer_handler(int number, siginfo_t *info, void *context)
{
    struct sonde__thread *t = sonde__thread_self;
    if (info->si_code != SI_TIMER || (t && info->si_value.sival_ptr != t)) {
        sonde__signal_foreign(number);
        return;
    }
    /* Was on its way when the thread or sampling ended. */
    if (!t || !sonde__timer.area || sonde__timer.state != SONDE__SAMPLER_RUNNING) return;
    const int saved = errno;
    const size_t left = room(context);
    const uint32_t overrun = info->si_overrun > 0 ? (uint32_t)info->si_overrun : 0;
    const uint32_t owed = t->owed;
    t->owed = 0;
    t->periods += 1ull + overrun + owed;
    if (left >= ROOM_TO_WALK) {
        sample(t, overrun, owed, context, left);
    } else {
        __atomic_fetch_add(&sonde__timer.area->cut, 1, __ATOMIC_RELAXED);
    }
    errno = saved;
}
