/* Signal handlers that record, define and jump away, in the middle of the same calls.
 *
 * A timer finds an unlucky instant once in a million. So the main part here steps through the
 * calls one machine instruction at a time (the trap flag), and has a signal delivered after every
 * single one: no instant is left out, and every run is the same. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#include <cmocka.h>

#include "unit/record/child.h"
#include "unit/record/readback.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* ---- What is recorded to --------------------------------------------------------------------- */

static struct sonde_counter counter, other;
static struct sonde_hist hist;
static struct sonde_family family;
static uint32_t span_name;
static struct readback_hist seen;

static void define_all(void)
{
    const struct sonde_metric m = { .size = sizeof(m),
                                    .name = "signal_labelled_total",
                                    .labels = (const char *const[]){ "k", NULL },
                                    .series_max = 100000 };
    counter = sonde_counter("signal_total", "x");
    other = sonde_counter("signal_other_total", "x");
    hist = sonde_hist("signal_seconds", "x", 1e-9);
    span_name = sonde_name("handler");
    NEED(!sonde_define(SONDE_COUNTER, &m, &family));
}

static char *number(char *out, const char *prefix, uint64_t n)
{
    char digits[24];
    int len = 0;
    strcpy(out, prefix);
    char *p = out + strlen(out);
    do digits[len++] = (char)('0' + n % 10);
    while (n /= 10);
    while (len) *p++ = digits[--len];
    *p = 0;
    return out;
}

static uint64_t labelled_total(void)
{
    uint64_t total = 0;
    for (uint32_t id = 1; id < sonde__g.h->series_count; id++) {
        if (sonde__series_at(id)->family == family.id) {
            total += readback_counter((struct sonde_counter){ 8ull * id });
        }
    }
    return total;
}

/* ---- Stepping -------------------------------------------------------------------------------- */

#if defined(__x86_64__) && !SANITIZED
#define STEPPING 1

static struct sonde_gauge gauge;
static uint64_t handled, handler_binds, handler_bound;
static int handler_defines; /* 1: it binds new label values too */

static void handler(int sig)
{
    (void)sig;
    struct sonde_span s;
    sonde_span_begin(&s, span_name);
    sonde_counter_add(counter, 1);
    sonde_hist_record_traced(hist, 1000 + handled % 100000);
    if (gauge.off) sonde_gauge_add(gauge, 1); /* else it is the sink, which counters share */
    sonde_span_attr_int(&s, span_name, 1);
    if (handler_defines) {
        char value[40];
        const struct sonde_counter c = sonde_counter_bind(
            family, (const char *const[]){ number(value, "h", handled % 5000) });
        handler_binds++;
        if (c.off) handler_bound++;
        sonde_counter_add(c, 1);
    }
    sonde_span_end(&s, SONDE_OK);
    handled++;
}

static uint64_t spans_ever(void)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < sonde__g.h->lane_count; i++) {
        const struct sonde__lane *l = sonde__lane_of(sonde__lane_cells(i));
        if (l->ring) n += ((struct sonde__ring *)(void *)sonde__at(l->ring))->reserve;
    }
    return n;
}

static uint64_t steps, signal_at; /* a signal after every step, or after this one only … */
static int signal_busy;           /* … or only in the middle of claiming a lane */

/* SIGUSR1 is blocked in here: it is delivered when the stepped code goes on, at that very
 * instruction, or when that code lets signals in. */
static void on_step(int sig)
{
    (void)sig;
    steps++;
    if (signal_busy && !sonde__tls.busy) return;
    if (!signal_at || steps == signal_at) {
        syscall(SYS_tgkill, (int)getpid(), (int)syscall(SYS_gettid), SIGUSR1);
    }
}

static void stepping_setup(void (*on_signal)(int), int on_stack)
{
    struct sigaction step = { .sa_handler = on_step, .sa_flags = SA_RESTART };
    struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    if (on_stack) act.sa_flags |= SA_ONSTACK;
    sigfillset(&step.sa_mask);
    NEED(!sigaction(SIGTRAP, &step, NULL) && !sigaction(SIGUSR1, &act, NULL));
}

static inline void step_on(void)
{
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static inline void step_off(void)
{
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static void define_stepped(void)
{
    define_all();
    gauge = sonde_gauge("signal_gauge", "x");
}

static void expect_exact(uint64_t records, uint64_t values)
{
    NEED(handled > 100);
    NEED_EQ(readback_counter(counter), handled);
    NEED_EQ(readback_counter(other), records);
    NEED(readback_gauge(gauge) == (double)handled);
    readback_hist(hist, &seen);
    NEED_EQ(seen.count, handled + values);
    NEED_EQ(labelled_total(), handler_bound);
    NEED_EQ(sonde__g.h->drops[SONDE__DROP_memory], 0);
}

/* Everything a thread does for the first time, and for the second. */
static void record_all(void)
{
    for (int i = 0; i < 2; i++) {
        struct sonde_span s;
        sonde_span_begin(&s, span_name);
        sonde_counter_add(other, 1);
        sonde_hist_record(hist, i ? 1000 : 1u << 30);
        sonde_span_attr_str(&s, span_name, "stepped");
        sonde_span_end(&s, SONDE_OK);
    }
}

CHILD_TEST(records_interrupted_at_every_instruction)
{
    stepping_setup(handler, 0);
    define_stepped();
    const uint64_t spans = spans_ever();
    step_on();
    record_all();
    step_off();
    expect_exact(2, 2);
    NEED_EQ(spans_ever() - spans, 2 * handled + 4); /* a span and an attribute each */
}

/* The thread takes over a lane where histograms are already there. */
static void *first_owner(void *arg)
{
    record_all();
    return arg;
}

static void *second_owner(void *arg)
{
    signal_busy = 1; /* an earlier one would claim the lane by itself */
    step_on();
    record_all();
    step_off();
    NEED(sonde__tls.lane != NULL);
    return arg;
}

CHILD_TEST(claiming_interrupted_at_every_instruction)
{
    const struct sonde_config c = { .size = sizeof(c), .lanes_max = 1 };
    pthread_t t;
    NEED(sonde_open(&c) == 0);
    stepping_setup(handler, 0);
    define_stepped();
    for (int i = 0; i < 2; i++) {
        NEED(!pthread_create(&t, NULL, i ? second_owner : first_owner, NULL));
        pthread_join(t, NULL);
    }
    expect_exact(4, 4);
    NEED_EQ(sonde__lane_of(sonde__lane_cells(1 + sonde__g.h->lanes_shared))->claims, 2);
}

CHILD_TEST(defining_interrupted_at_every_instruction)
{
    static struct sonde_counter made[40];
    char name[40];
    handler_defines = 1;
    stepping_setup(handler, 0);
    define_stepped();
    for (uint64_t i = 0; i < 40; i++) {
        number(name, "m", i);
        step_on();
        made[i] = sonde_counter_bind(family, (const char *const[]){ name });
        step_off();
        NEED(made[i].off);
    }
    number(name, "stepped_total", 0);
    step_on();
    const struct sonde_counter c = sonde_counter(name, "x");
    step_off();
    NEED(c.off);
    /* Signals wait while something is being defined, so a handler's own definitions succeed. */
    NEED_EQ(handler_bound, handler_binds);
    NEED_EQ(sonde__g.h->drops[SONDE__DROP_reentrant], 0);
    for (int i = 0; i < 40; i++) sonde_counter_add(made[i], 1);
    handler_bound += 40;
    expect_exact(0, 0);
}

/* What others find while something is being defined is whole: they get a handle that counts, or
 * have to wait for the lock (which in here, on the thread that holds it, is a refusal). */
static const char found_name[] = "found_total";

static void look_on_step(int sig)
{
    (void)sig;
    if (!sonde__g.h->define_lock) return; /* else this would define it */
    const uint64_t refused = sonde__g.h->drops[SONDE__DROP_reentrant];
    const struct sonde_counter c = sonde_counter(found_name, "x");
    NEED(c.off || sonde__g.h->drops[SONDE__DROP_reentrant] > refused);
    NEED(c.off / 8 < sonde__g.h->series_count);
}

CHILD_TEST(what_is_found_is_counted)
{
    struct sigaction look = { .sa_handler = look_on_step };
    define_stepped();
    NEED(!sigaction(SIGTRAP, &look, NULL));
    step_on();
    const struct sonde_counter c = sonde_counter(found_name, "x");
    step_off();
    NEED(c.off);
}

/* The first record of a process, and of a forked one, opens the segment. */
CHILD_TEST(opening_interrupted_at_every_instruction)
{
    const uint64_t before = handled;
    stepping_setup(handler, 0);
    step_on();
    sonde_counter_add((struct sonde_counter){ 0 }, 1);
    step_off();
    NEED(handled - before > 10); /* the first one to be let in opens, the others record */
    NEED_EQ(readback_counter((struct sonde_counter){ 0 }), handled - before + 1);
    define_stepped();
    handled = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        handled = 0;
        step_on();
        record_all();
        step_off();
        expect_exact(2, 2);
        _exit(0);
    }
    int status;
    NEED(waitpid(pid, &status, 0) == pid);
    NEED_EQ(status, 0);
}

CHILD_TEST(handlers_on_their_own_stack)
{
    static char memory[256 << 10];
    const stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) };
    handler_defines = 1;
    NEED(!sigaltstack(&stack, NULL));
    stepping_setup(handler, 1);
    define_stepped();
    step_on();
    record_all();
    step_off();
    expect_exact(2, 2);
}

/* ---- Jumping away ---------------------------------------------------------------------------- */

static sigjmp_buf back;

static void jump(int sig)
{
    (void)sig;
    siglongjmp(back, 1);
}

/* 1 if the work was left after n steps, 0 if it came to its end before. */
static int leave_after(uint64_t n, void (*work)(uint64_t))
{
    steps = 0;
    signal_at = n;
    if (sigsetjmp(back, 1)) return 1;
    step_on();
    work(n);
    step_off();
    return 0;
}

static void bind_one(uint64_t n)
{
    char value[40];
    sonde_counter_add(sonde_counter_bind(family, (const char *const[]){ number(value, "j", n) }),
                      1);
}

static void define_one(uint64_t n)
{
    char name[40];
    sonde_hist_record(sonde_hist(number(name, "jumped_seconds_", n), "x", 1e-9), n);
}

static void *other_thread_works(void *arg)
{
    char name[40];
    const uint64_t n = *(const uint64_t *)arg;
    const struct sonde_counter c = sonde_counter(number(name, "after_jump_total", n), "x");
    NEED(c.off);
    sonde_counter_add(c, 3);
    NEED_EQ(readback_counter(c), 3);
    return NULL;
}

static void leave_everywhere(void (*work)(uint64_t))
{
    uint64_t left = 0;
    for (uint64_t n = 1;; n += 1 + n / 16) {
        pthread_t t;
        if (!leave_after(n, work)) break;
        left++;
        /* Nobody waits for what the jump left behind, neither this thread … */
        const uint64_t before = readback_counter(other);
        bind_one(1000000 + left);
        sonde_counter_add(other, 1);
        NEED_EQ(readback_counter(other), before + 1);
        NEED(sonde__g.h->define_lock == 0 && sonde__gate.open_lock == 0);
        /* … nor another. */
        NEED(!pthread_create(&t, NULL, other_thread_works, &n));
        pthread_join(t, NULL);
    }
    NEED(left > 20);
    NEED_EQ(sonde__g.h->drops[SONDE__DROP_reentrant], 0);
}

CHILD_TEST(jumping_out_of_a_bind)
{
    stepping_setup(jump, 0);
    define_stepped();
    leave_everywhere(bind_one);
}

CHILD_TEST(jumping_out_of_a_definition)
{
    stepping_setup(jump, 0);
    define_stepped();
    leave_everywhere(define_one);
}

/* Out of the very first record: opened or not, the next one is kept. */
static void first_record(uint64_t n)
{
    (void)n;
    sonde_counter_add((struct sonde_counter){ 0 }, 1);
}

CHILD_TEST(jumping_out_of_the_opening)
{
    stepping_setup(jump, 0);
    for (uint64_t n = 1; n < 4000; n += 1 + n / 3) {
        const pid_t pid = fork();
        if (pid == 0) {
            (void)leave_after(n, first_record);
            const struct sonde_counter c = sonde_counter("opened_total", "x");
            sonde_counter_add(c, 2);
            NEED(c.off);
            NEED_EQ(readback_counter(c), 2);
            _exit(0);
        }
        int status;
        NEED(waitpid(pid, &status, 0) == pid);
        NEED_EQ(status, 0);
    }
}
#endif

/* ---- By the clock: all of it at once, with threads ------------------------------------------- */

static uint64_t timer_hits, timer_bound; /* atomic: several threads' handlers */

static void timer_handler(int sig)
{
    (void)sig;
    char value[40];
    struct sonde_span s;
    sonde_span_begin(&s, span_name);
    sonde_counter_add(counter, 1);
    sonde_hist_record(hist, 5000);
    const uint64_t n = __atomic_fetch_add(&timer_hits, 1, __ATOMIC_RELAXED);
    const struct sonde_counter c =
        sonde_counter_bind(family, (const char *const[]){ number(value, "t", n) });
    sonde_counter_add(c, 1);
    if (c.off) __atomic_fetch_add(&timer_bound, 1, __ATOMIC_RELAXED);
    sonde_span_end(&s, SONDE_OK);
}

static uint64_t loop_records, loop_bound;

static void *busy_thread(void *arg)
{
    struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };
    const struct itimerspec khz = { { 0, 1000000 }, { 0, 1000000 } };
    const struct itimerspec none = { { 0, 0 }, { 0, 0 } };
    timer_t timer;
    char value[40];
    uint64_t n = 0, bound = 0;
    ev._sigev_un._tid = (int)syscall(SYS_gettid);
    NEED(!timer_create(CLOCK_MONOTONIC, &ev, &timer) && !timer_settime(timer, 0, &khz, NULL));
    while (__atomic_load_n(&timer_hits, __ATOMIC_RELAXED) < 600) {
        SONDE_SCOPE("busy");
        sonde_counter_add(other, 1);
        sonde_hist_record(hist, n);
        number(value, arg, n % 1500);
        const struct sonde_counter c = sonde_counter_bind(family, (const char *const[]){ value });
        sonde_counter_add(c, 1);
        bound += c.off != 0;
        n++;
    }
    NEED(!timer_settime(timer, 0, &none, NULL) && !timer_delete(timer));
    __atomic_fetch_add(&loop_records, n, __ATOMIC_RELAXED);
    __atomic_fetch_add(&loop_bound, bound, __ATOMIC_RELAXED);
    return NULL;
}

CHILD_TEST(timers_in_several_threads)
{
    struct sigaction act = { .sa_handler = timer_handler, .sa_flags = SA_RESTART };
    pthread_t t[3];
    define_all();
    NEED(!sigaction(SIGALRM, &act, NULL));
    for (int i = 0; i < 3; i++) {
        static char *const prefixes[] = { "a", "b", "c" };
        NEED(!pthread_create(&t[i], NULL, busy_thread, prefixes[i]));
    }
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    NEED_EQ(readback_counter(counter), timer_hits);
    NEED_EQ(readback_counter(other), loop_records);
    readback_hist(hist, &seen);
    NEED_EQ(seen.count, timer_hits + loop_records);
    NEED_EQ(labelled_total(), timer_bound + loop_bound);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef STEPPING
        cmocka_unit_test(records_interrupted_at_every_instruction),
        cmocka_unit_test(claiming_interrupted_at_every_instruction),
        cmocka_unit_test(defining_interrupted_at_every_instruction),
        cmocka_unit_test(what_is_found_is_counted),
        cmocka_unit_test(opening_interrupted_at_every_instruction),
        cmocka_unit_test(handlers_on_their_own_stack),
        cmocka_unit_test(jumping_out_of_a_bind),
        cmocka_unit_test(jumping_out_of_a_definition),
        cmocka_unit_test(jumping_out_of_the_opening),
#endif
        cmocka_unit_test(timers_in_several_threads),
    };
    readback_private_dir();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
