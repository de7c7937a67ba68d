/* hot.c - the signal handler. May interrupt anything: the allocator, the dynamic linker, a
 * handler of the program's, code that has just switched stacks. */
#include <errno.h>
#include <string.h>
#include <ucontext.h>

#include "preload/timer/timer.h"
#include "preload/walk/python_walk.h"
#include "preload/walk/walk.h"
#include "unwind/arch_here.h"

#include "base/hot_banned.h"

#define FRAMES_MAX 4096u      /* walked of a stack; depth_max of them are kept */
#define LATE_NS 100000000u    /* more CPU time than this at once: the signal was blocked. Ticks of
                                 virtual machines are missing for tens of milliseconds at times */
#define SPARE_LOOKS 1000u     /* for the spare stack, while another thread is on it */
#define ROOM_TO_WALK 1536u    /* stack that walking by rules that are remembered may take */

/* What is to be said of a walk beside its frames. */
struct walked {
    uint32_t flags;
    int jumps;   /* it went through a function that ends in a jump, with such an idea of it */
    int unknown; /* it ended where no rule is remembered, and it was not to look for one */
};

static void timer_handler_put(struct sonde__thread *t, uint32_t *n, uint64_t ip)
{
    t->ips[sonde__frame_slot(sonde__timer.depth_max, (*n)++)] = ip;
}

/* The next run of Python's frames, in place of the native one at ip. 0 = ip is only a part of what
 * is not seen. */
static void timer_handler_put_python(struct sonde__thread *t, uint32_t *n,
                                     struct sonde__python_walk *python, uint64_t ip)
{
    const uint32_t before = *n;
    uint64_t frame;
    while (*n < FRAMES_MAX && (frame = sonde__python_frame(python))) timer_handler_put(t, n, frame);
    if (*n == before && ip) timer_handler_put(t, n, ip);
}

static uint32_t timer_handler_walk(struct sonde__thread *t, const void *context, int known_only,
                                   enum sonde__landing landing, struct walked *out)
{
    static const struct sonde__unwind_row interrupted = { .cfa = SONDE__CFA_SIGNAL };
    const uint64_t salt = sonde__fast_salt();
    struct sonde__walker w;
    struct sonde__python_walk python = { .anchor = 0 };
    uint32_t n = 0;
    int begun = 0;
    *out = (struct walked){ .flags = SONDE__SAMPLE_TRUNCATED };
    memset(&w, 0, sizeof(w));
    w.known_only = known_only;
    w.landing = landing;
    w.judges = 1;
    w.memory = sonde__memory_above((uint64_t)(uintptr_t)__builtin_frame_address(0));
    w.regs.sp = (uint64_t)(uintptr_t)context;
    if (sonde__unwind_apply(&interrupted, &w.regs, sonde__walk_word, &w.memory, &w.exact) !=
        SONDE__STEP_OK) {
        return 0;
    }
    while (n < FRAMES_MAX) {
        uint64_t ip = w.regs.ip - 1;
        const uint64_t sp = w.regs.sp;
        const uint64_t rule = w.exact ? 0 : sonde__fast_find(salt, ip);
        enum sonde__step step = rule ? sonde__walk_fast(&w, rule) : SONDE__STEP_FAIL;
        if (step != SONDE__STEP_OK) {
            step = sonde__walk_next(&w, !n, &ip);
            out->unknown = w.rule == SONDE__RULE_UNKNOWN;
        }
        /* The first step is what finds an interpreter that was not met before. */
        if (!begun && !known_only) sonde__python_begin(&python, 0);
        begun = 1;
        if (step == SONDE__STEP_OK && sonde__python_here(&python, sp, w.regs.sp)) {
            timer_handler_put_python(t, &n, &python, ip);
            continue;
        }
        if (ip) timer_handler_put(t, &n, ip);
        if (step == SONDE__STEP_OK) continue;
        if (step == SONDE__STEP_END && !w.doubt) out->flags = 0;
        else if (!out->unknown) out->flags |= SONDE__SAMPLE_CODE;
        break;
    }
    /* Frames of Python are known also where native ones are not. */
    while (out->flags && python.anchor && n < FRAMES_MAX) {
        timer_handler_put_python(t, &n, &python, 0);
    }
    sonde__python_end(&python);
    out->jumps = w.jumps;
    return n;
}

/* What is left of the stack, at least: of the alternate signal stack, if that is where we are; else
 * of the thread's own, which may be down to its last bytes. */
static size_t timer_handler_room(const ucontext_t *c)
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

/* final: also if it has to end early. 0 = it would, and nothing was done. */
__attribute__((noinline)) static int timer_handler_sample(struct sonde__thread *t, uint32_t overrun,
                                                          uint32_t owed, const ucontext_t *context,
                                                          size_t room_left, int final)
{
    struct walked w;
    const int modules_go = sonde__walk_begin();
    const int known_only = room_left < SONDE__ROOM_TO_FIND || modules_go;
    uint32_t frames = timer_handler_walk(t, context, known_only, SONDE__LANDING_CALLER, &w);
    if (w.unknown && !final) {
        sonde__walk_end();
        return 0;
    }
    for (int i = 1; i <= SONDE__LANDINGS && w.flags && w.jumps; i++) { /* in the end as it was */
        frames = timer_handler_walk(t, context, known_only,
                                    (enum sonde__landing)(i % SONDE__LANDINGS), &w);
    }
    if (w.unknown) __atomic_fetch_add(&sonde__timer.area->cut, 1, __ATOMIC_RELAXED);
    if (overrun * sonde__timer.period_ns > LATE_NS) {
        w.flags |= SONDE__SAMPLE_LATE;
        __atomic_fetch_add(&sonde__timer.area->late, 1, __ATOMIC_RELAXED);
    }
    sonde__ring_sample(t, frames, overrun + owed, w.flags);
    sonde__walk_end();
    return 1;
}

/* A stack for threads whose alternate one has room to walk, but none to look up rules: of the 8 KB
 * that Rust gives each thread a signal's frame takes 3.6 where there is AVX-512. One for all, since
 * rules are remembered: whoever finds it taken walks by those. Signals wait until the handler is
 * through, so a thread does not meet itself there. */
static char spare[4 * SONDE__ROOM_TO_FIND] __attribute__((aligned(16)));

struct sample_call {
    struct sonde__thread *t;
    uint32_t overrun, owed;
    const ucontext_t *context;
};

static void sample_on_spare(void *arg)
{
    const struct sample_call *c = arg;
    timer_handler_sample(c->t, c->overrun, c->owed, c->context, SONDE__ROOM_TO_FIND, 1);
}

static void sample_with(struct sonde__thread *t, uint32_t overrun, uint32_t owed,
                        const ucontext_t *context, size_t room_left)
{
    struct sample_call c = { t, overrun, owed, context };
    if (timer_handler_sample(t, overrun, owed, context, room_left,
                             room_left >= SONDE__ROOM_TO_FIND)) {
        return;
    }
    /* Threads are often sampled in the same tick; another is through within microseconds. */
    uint32_t looks = 0;
    while (__atomic_exchange_n(&sonde__walks.spare_taken, 1, __ATOMIC_ACQUIRE)) {
        sonde__arch_pause();
        if (++looks < SPARE_LOOKS) continue;
        timer_handler_sample(t, overrun, owed, context, room_left, 1);
        return;
    }
    sonde__arch_call_on(spare + sizeof(spare), sample_on_spare, &c);
    __atomic_store_n(&sonde__walks.spare_taken, 0, __ATOMIC_RELEASE);
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
    const size_t left = timer_handler_room(context);
    const uint32_t overrun = info->si_overrun > 0 ? (uint32_t)info->si_overrun : 0;
    const uint32_t owed = t->owed;
    t->owed = 0;
    t->periods += 1ull + overrun + owed;
    if (left >= ROOM_TO_WALK) {
        sample_with(t, overrun, owed, context, left);
    } else {
        __atomic_fetch_add(&sonde__timer.area->cut, 1, __ATOMIC_RELAXED);
    }
    errno = saved;
}
