/* Every instruction of real programs, from the loader's first to the last of exit: at each the
 * stack is unwound and compared with what it must be.
 *
 * The truth is a shadow stack: the program runs under ptrace, one instruction at a time; a
 * call shows by a return address that appears on the stack, a return by sp rising above it, and
 * a signal by the handler being entered. No decoder and no debug information is involved.
 *
 * Signals are sent at odd moments as well, so that handlers run on top of prologues, PLT entries
 * and the dynamic linker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect/aspace/aspace.h"
#include "unwind/arch_x86_64.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define FRAMES 256
#define STACK_MAX (256u << 10)
#define SIGNAL_FRAME_MIN 512u /* far more than one instruction pushes */
#define STEPS_MAX 3000000u

struct entry {
    uint64_t slot; /* where on the stack; gone when sp is above */
    uint64_t ip;   /* return address, or where a signal interrupted */
    int exact;
};

struct trace {
    pid_t pid;
    struct sonde_modules *modules;
    struct sonde_aspace *as;
    struct user_regs_struct regs;
    struct entry shadow[FRAMES];
    size_t depth;
    uint64_t stack_top;
    uint8_t stack[STACK_MAX];
    size_t stack_len;
    /* what came out */
    uint64_t steps, compared, complete, flagged, rewriting, rewriting_cut, wrong, frames;
    uint64_t shown[40]; /* addresses at which something was not right, each shown once */
    size_t shown_count;
    int verbose; /* also those that are marked truncated */
};

static void from_user(const struct user_regs_struct *u, struct sonde__regs *r)
{
    const uint64_t v[SONDE__ARCH_PERF_REG_COUNT] = {
        u->rax, u->rbx, u->rcx, u->rdx, u->rsi, u->rdi, u->rbp, u->rsp, u->rip,
        u->r8,  u->r9,  u->r10, u->r11, u->r12, u->r13, u->r14, u->r15,
    };
    sonde__arch_from_perf(v, r);
}

static void read_stack(struct trace *t)
{
    uint64_t len = t->stack_top - t->regs.rsp;
    if (len > STACK_MAX) len = STACK_MAX;
    struct iovec to = { t->stack, len }, from = { (void *)t->regs.rsp, len };
    const ssize_t n = process_vm_readv(t->pid, &to, 1, &from, 1, 0);
    t->stack_len = n < 0 ? 0 : (size_t)n;
}

static uint64_t stack_word(const struct trace *t)
{
    uint64_t v = 0;
    if (t->stack_len >= 8) memcpy(&v, t->stack, 8);
    return v;
}

static void push(struct trace *t, uint64_t slot, uint64_t ip, int exact)
{
    assert_true(t->depth < FRAMES);
    t->shadow[t->depth++] = (struct entry){ slot, ip, exact };
}

/* ---- Comparing ---------------------------------------------------------------------------- */

static void show(struct trace *t, const char *what, const uint64_t *ours, size_t our_count,
                 const uint64_t *truth, size_t truth_count)
{
    struct sonde_aspace_texts texts;
    struct sonde_module m = { .path = "?" };
    for (size_t i = 0; i < t->shown_count; i++) {
        if (t->shown[i] == t->regs.rip) return;
    }
    if (t->shown_count == COUNT(t->shown)) return;
    t->shown[t->shown_count++] = t->regs.rip;
    sonde_aspace_module(t->as, t->regs.rip, &texts, &m);
    print_message("step %lu: %s at %s+%#llx (sp %#llx)\n", t->steps, what, m.path,
                  t->regs.rip - m.start + m.offset, t->regs.rsp);
    for (size_t i = 0; i < our_count || i < truth_count; i++) {
        struct sonde_module f = { .path = "?" };
        if (i < truth_count) sonde_aspace_module(t->as, truth[i], &texts, &f);
        print_message("  %2zu  %#14lx  truth %#14lx %s+%#lx\n", i, i < our_count ? ours[i] : 0,
                      i < truth_count ? truth[i] : 0, f.path,
                      i < truth_count ? truth[i] - f.start + f.offset : 0);
        if (i < our_count && i < truth_count && ours[i] != truth[i]) break;
    }
}

/* Two moments when the stack is not what the calls made it: an exception has found its handler,
 * writes that over a return address and goes there by way of rcx, and longjmp, which says that
 * its caller is the code it is about to jump to, whose address it has in rdx. */
static int is_rewriting(const struct trace *t, const uint64_t *ours, size_t our_count, size_t same)
{
    if (same == 1 && our_count > 1 &&
        (ours[1] + 1 == t->regs.rdx || ours[1] + 1 == t->regs.rcx || ours[1] == t->regs.rcx)) {
        return 1;
    }
    for (size_t i = 0; i < t->depth; i++) {
        const struct entry *e = &t->shadow[i];
        uint64_t v;
        if (e->exact || e->slot - t->regs.rsp + 8 > t->stack_len) continue;
        memcpy(&v, t->stack + (e->slot - t->regs.rsp), sizeof(v));
        if (v != e->ip) return 1;
    }
    return 0;
}

static void check(struct trace *t)
{
    uint64_t ours[FRAMES + 1], truth[FRAMES + 1];
    size_t n = 1;
    struct sonde__regs r;
    int truncated;
    truth[0] = t->regs.rip;
    for (size_t i = t->depth; i > 0; i--) {
        const struct entry *e = &t->shadow[i - 1];
        /* A handler returns to its trampoline, which stands above the interrupted code. */
        const int trampoline = i > 1 && e[-1].exact && !e->exact;
        truth[n++] = e->exact || trampoline ? e->ip : e->ip - 1;
    }
    from_user(&t->regs, &r);
    const size_t our_count = sonde_aspace_unwind(t->as, &r, t->stack, r.sp, t->stack_len, ours,
                                                 FRAMES + 1, &truncated, NULL);
    t->compared++;
    t->frames += our_count;
    size_t same = 0;
    while (same < n && same < our_count && ours[same] == truth[same]) same++;
    if (!truncated && same == n && same == our_count) {
        t->complete++;
    } else if (is_rewriting(t, ours, our_count, same)) {
        t->rewriting++;
        t->rewriting_cut += truncated != 0;
        if (truncated) show(t, "rewritten and truncated", ours, our_count, truth, n);
    } else if (truncated) {
        t->flagged++;
        if (t->verbose) show(t, "truncated", ours, our_count, truth, n);
    } else {
        t->wrong++;
        show(t, "wrong", ours, our_count, truth, n);
    }
}

/* ---- Stepping ----------------------------------------------------------------------------- */

/* One instruction, or the entry of a handler when sig is given. 0: it has ended. */
static int step(struct trace *t, int sig, int *status)
{
    assert_int_equal(ptrace(PTRACE_SINGLESTEP, t->pid, 0, (void *)(intptr_t)sig), 0);
    assert_int_equal(waitpid(t->pid, status, 0), t->pid);
    if (!WIFSTOPPED(*status)) return 0;
    assert_int_equal(ptrace(PTRACE_GETREGS, t->pid, 0, &t->regs), 0);
    read_stack(t);
    t->steps++;
    return 1;
}

static void follow(struct trace *t, const struct user_regs_struct *before, int entered)
{
    const uint64_t sp = t->regs.rsp, word = stack_word(t);
    while (t->depth && t->shadow[t->depth - 1].slot < sp) t->depth--;
    if (entered) {
        push(t, sp + 8, before->rip, 1);
        push(t, sp, word, 0);
    } else if (sp == before->rsp - 8 && word - before->rip - 1 < 15 && t->regs.rip != word) {
        push(t, sp, word, 0);
    }
    /* mmap, mprotect, munmap, brk: a system call leaves its return address in rcx. */
    if (t->regs.rcx == t->regs.rip && before->rax >= 9 && before->rax <= 12) {
        assert_int_equal(sonde_aspace_scan(t->as), 0);
    }
}

static void start(struct trace *t, char *const *argv)
{
    int status;
    char path[64];
    fflush(NULL);
    t->pid = fork();
    assert_true(t->pid >= 0);
    if (!t->pid) {
        char *const env[] = { "LC_ALL=C", NULL };
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execve(argv[0], argv, env);
        _exit(127);
    }
    assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
    if (!WIFSTOPPED(status)) fail_msg("%s does not run: build everything first", argv[0]);
    ptrace(PTRACE_SETOPTIONS, t->pid, 0, PTRACE_O_EXITKILL);
    assert_int_equal(ptrace(PTRACE_GETREGS, t->pid, 0, &t->regs), 0);
    assert_int_equal(sonde_aspace_create(t->modules, (uint32_t)t->pid, &t->as), 0);
    assert_int_equal(sonde_aspace_scan(t->as), 0);
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)t->pid);
    FILE *f = fopen(path, "r");
    char line[512];
    unsigned long from, to;
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && t->regs.rsp >= from && t->regs.rsp < to) {
            t->stack_top = to;
        }
    }
    fclose(f);
    read_stack(t);
}

/* Run to the program's own breakpoint, and take the stack there as the truth to begin with: main
 * and what the other tests have shown to be below it. */
static void run_to_main(struct trace *t)
{
    uint64_t ips[FRAMES];
    struct sonde__regs r;
    int status, truncated;
    assert_int_equal(ptrace(PTRACE_CONT, t->pid, 0, 0), 0);
    assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
    assert_int_equal(ptrace(PTRACE_GETREGS, t->pid, 0, &t->regs), 0);
    assert_int_equal(sonde_aspace_scan(t->as), 0);
    read_stack(t);
    from_user(&t->regs, &r);
    const size_t n = sonde_aspace_unwind(t->as, &r, t->stack, r.sp, t->stack_len, ips, FRAMES,
                                         &truncated, NULL);
    assert_false(truncated);
    for (size_t i = n - 1; i > 0; i--) {
        uint64_t slot = r.sp, v = 0;
        for (size_t at = 0; at + 8 <= t->stack_len && v != ips[i] + 1; at += 8, slot += 8) {
            memcpy(&v, t->stack + at, sizeof(v));
        }
        push(t, slot - 8, ips[i] + 1, 0);
    }
}

/* from_main: begin at the program's breakpoint. signals_every: send SIGUSR2 each so many steps
 * once the program has its handlers; 0 = never. */
static void run(const char *name, int from_main, uint64_t signals_every)
{
    static struct trace t;
    char self[PATH_MAX], path[PATH_MAX + 64];
    struct sonde_modules_stats s;
    int status = 0, sig = 0, handlers = 0;
    t = (struct trace){ .verbose = getenv("SONDE_STEPS_VERBOSE") != NULL };
    assert_int_equal(sonde_modules_create(0, &t.modules), 0);
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(n > 0);
    self[n] = 0;
    snprintf(path, sizeof(path), "%s/../programs/%s", dirname(self), name);
    start(&t, (char *const[]){ path, from_main ? "stop" : NULL, NULL });
    if (from_main) run_to_main(&t);

    while (t.steps < STEPS_MAX) {
        check(&t);
        const struct user_regs_struct before = t.regs;
        const int delivered = sig;
        if (!step(&t, sig, &status)) break;
        sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        if (t.regs.rcx == t.regs.rip && before.rax == 13) handlers++;
        /* A handler was entered unless the signal was blocked: then it comes later, as a stop. */
        if (!sig) {
            follow(&t, &before, delivered && t.regs.rdi == (uint64_t)delivered &&
                                    before.rsp - t.regs.rsp > SIGNAL_FRAME_MIN);
        }
        if (handlers == 2 && signals_every && !sig && t.steps % signals_every == 0 &&
            t.depth < 40) {
            sig = SIGUSR2;
        }
    }
    sonde_modules_stats(t.modules, &s);
    print_message(
        "%s: %lu instructions, %lu stacks, %.1f frames each; %lu complete (%.4f %%), %lu "
        "truncated, %lu while the stack is rewritten, %lu wrong; tables %zu KB, %lu bad entries\n",
        name, t.steps, t.compared, (double)t.frames / (double)t.compared, t.complete,
        100.0 * (double)t.complete / (double)t.compared, t.flagged, t.rewriting, t.wrong,
        s.table_bytes >> 10, s.entries_bad);
    sonde_aspace_destroy(t.as);
    sonde_modules_destroy(t.modules);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(t.wrong, 0);
    assert_int_equal(t.rewriting_cut, 0);
    /* Two functions of crtbegin.o, of ten instructions each, have neither tables nor frame
     * pointers. */
    assert_true(t.flagged * 2000 <= t.compared);
}

static void dynamic(void **state)
{
    (void)state;
    run("unwind_steps", 0, 0);
}

static void dynamic_with_signals(void **state)
{
    (void)state;
    run("unwind_steps", 1, 997);
}

static void static_pie(void **state)
{
    (void)state;
    run("unwind_steps_static_pie", 0, 0);
}

static void fixed_address(void **state)
{
    (void)state;
    run("unwind_steps_no_pie", 1, 0);
}

static void static_fixed_address(void **state)
{
    (void)state;
    run("unwind_steps_static", 0, 0);
}

static void exceptions(void **state)
{
    (void)state;
    run("unwind_throw", 1, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dynamic),       cmocka_unit_test(dynamic_with_signals),
        cmocka_unit_test(static_pie),    cmocka_unit_test(fixed_address),
        cmocka_unit_test(static_fixed_address), cmocka_unit_test(exceptions),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
