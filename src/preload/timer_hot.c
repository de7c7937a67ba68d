/* timer_hot.c - the signal handler. May interrupt anything: the allocator, the dynamic linker, a
 * handler of the program's, code that has just switched stacks. */
#include <errno.h>
#include <string.h>
#include <ucontext.h>

#include "preload/timer.h"

#include "base/hot_banned.h"

#define PAGE 4096u
#define FRAMES_MAX 4096u      /* walked of a stack; depth_max of them are kept */
#define LATE_NS 100000000u    /* more CPU time than this at once: the signal was blocked. Ticks of
                                 virtual machines are missing for tens of milliseconds at times */
#define ROOM_TO_FIND 5120u    /* stack that looking up a rule may take, with what it calls */
#define ROOM_TO_WALK 1536u    /* … and walking by rules that are remembered */

/* Which part of memory is known to be there: it grows upwards, as stacks are walked. */
struct memory { uint64_t low, high; };

static int page_known(struct memory *m, uint64_t addr)
{
    const uint64_t page = addr & ~(uint64_t)(PAGE - 1);
    if (page >= m->low && page < m->high) return 1;
    if (!sonde__readable(page)) return 0;
    if (page != m->high) m->low = page;
    m->high = page + PAGE;
    return 1;
}

static int read_word(void *arg, uint64_t addr, uint64_t *out)
{
    struct memory *m = arg;
    if (addr > UINT64_MAX - sizeof(*out)) return -1;
    if (addr < m->low || addr + sizeof(*out) > m->high) {
        if (!page_known(m, addr) || !page_known(m, addr + sizeof(*out) - 1)) return -1;
    }
    memcpy(out, (const void *)(uintptr_t)addr, sizeof(*out));
    return 0;
}

static uint32_t walk(struct sonde__thread *t, const void *context, int known_only,
                     uint32_t *flags)
{
    static const struct sonde__unwind_row interrupted = { .cfa = SONDE__CFA_SIGNAL };
    struct memory m = { 0, 0 };
    struct sonde__regs r;
    struct sonde__unwind_row row;
    int exact = 1;
    uint32_t n = 0;
    *flags = SONDE__SAMPLE_TRUNCATED;
    memset(&r, 0, sizeof(r));
    r.sp = (uint64_t)(uintptr_t)context;
    if (sonde__unwind_apply(&interrupted, &r, read_word, &m, &exact) != SONDE__STEP_OK) return 0;
    while (n < FRAMES_MAX) {
        const uint64_t pc = exact ? r.ip : r.ip - 1;
        const enum sonde__rule rule =
            pc >> 63 ? SONDE__RULE_NOWHERE : sonde__rule_find(pc, exact, known_only, &row);
        enum sonde__step step = SONDE__STEP_FAIL;
        int signal = 0;
        /* What points to no code is no return address: the step before went wrong. */
        if (n && rule == SONDE__RULE_NOWHERE) break;
        t->ips[sonde__frame_slot(sonde__timer.depth_max, n++)] =
            rule == SONDE__RULE_ROW && row.cfa == SONDE__CFA_SIGNAL ? r.ip : pc;
        if (rule == SONDE__RULE_ROW) {
            step = sonde__unwind_apply(&row, &r, read_word, &m, &signal);
        } else if (rule == SONDE__RULE_FP) {
            step = sonde__unwind_fp(&r, read_word, &m);
            /* In code that does not keep a frame pointer it may be 0 for any reason. */
            if (n == 1 && step == SONDE__STEP_END) step = SONDE__STEP_FAIL;
        } else if (rule == SONDE__RULE_UNKNOWN) {
            __atomic_fetch_add(&sonde__timer.area->cut, 1, __ATOMIC_RELAXED);
        }
        if (step != SONDE__STEP_OK) {
            if (step == SONDE__STEP_END) *flags = 0;
            break;
        }
        exact = signal;
    }
    return n;
}

/* What is left of the alternate signal stack, if that is where we are. */
static size_t room(const ucontext_t *c)
{
    const uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    const uint64_t low = (uint64_t)(uintptr_t)c->uc_stack.ss_sp;
    if (c->uc_stack.ss_flags & SS_DISABLE || here < low || here - low >= c->uc_stack.ss_size) {
        return SIZE_MAX;
    }
    return (size_t)(here - low);
}

/* From dlclose's side: it counts itself in closing first and then waits for walks to be none; a
 * walk counts itself first and then looks at closing. One of them sees the other. The thread that
 * is in dlclose cannot take code away from itself. */
static int modules_stay(void)
{
    return __atomic_load_n(&sonde__timer.closing, __ATOMIC_SEQ_CST) == sonde__thread_closing;
}

__attribute__((noinline)) static void sample(struct sonde__thread *t, uint32_t overrun,
                                             const ucontext_t *context, size_t room_left)
{
    uint32_t flags;
    __atomic_fetch_add(&sonde__timer.walks, 1, __ATOMIC_SEQ_CST);
    const int known_only = room_left < ROOM_TO_FIND || !modules_stay();
    const uint32_t frames = walk(t, context, known_only, &flags);
    if (overrun * sonde__timer.period_ns > LATE_NS) {
        flags |= SONDE__SAMPLE_LATE;
        __atomic_fetch_add(&sonde__timer.area->late, 1, __ATOMIC_RELAXED);
    }
    sonde__ring_sample(t, frames, overrun, flags);
    __atomic_fetch_sub(&sonde__timer.walks, 1, __ATOMIC_SEQ_CST);
}

void sonde__timer_handler(int number, siginfo_t *info, void *context)
{
    struct sonde__thread *t = sonde__thread_self;
    if (info->si_code != SI_TIMER || (t && info->si_value.sival_ptr != t)) {
        sonde__signal_foreign(number);
        return;
    }
    if (!t || !sonde__timer.area) return; /* was on its way when the thread or sampling ended */
    const int saved = errno;
    const size_t left = room(context);
    const uint32_t overrun = info->si_overrun > 0 ? (uint32_t)info->si_overrun : 0;
    if (left >= ROOM_TO_WALK) {
        sample(t, overrun, context, left);
    } else {
        __atomic_fetch_add(&sonde__timer.area->cut, 1, __ATOMIC_RELAXED);
    }
    errno = saved;
}
