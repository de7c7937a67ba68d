/* timer_host - programs as a profiler inside of them meets them: `timer_host MODE [N]`. Each mode
 * checks itself what it relies on and prints the same text in every run, sampled or not; only
 * lines that begin with "range" or "truth" differ. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <threads.h>
#include <ucontext.h>
#include <unistd.h>

#define IN(part) __attribute__((noinline, section("text_" #part)))

enum { SAMPLE_SIGNAL = SIGSTKFLT }; /* the one that libsonde_preload uses */

static volatile uint64_t sink;
static volatile int over; /* ends the threads that burn */

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline __attribute__((always_inline)) void spin(uint64_t ns)
{
    const uint64_t until = cpu_ns() + ns;
    while (cpu_ns() < until) {
        for (int i = 0; i < 20000; i++) sink = sink * 6364136223846793005u + 1;
    }
}

IN(alpha) static void alpha(uint64_t ns) { spin(ns); }
IN(beta) static void beta_leaf(uint64_t ns) { spin(ns); }

IN(beta) static int beta(uint64_t ns, int depth)
{
    if (!depth) {
        beta_leaf(ns);
        return 1;
    }
    volatile int one[4] = { 1, 1, 1, 1 }; /* keeps it from becoming a loop */
    return beta(ns, depth - 1) + one[depth & 3];
}

static uint64_t gamma_ns;

IN(gamma) static int gamma_compare(const void *a, const void *b)
{
    spin(gamma_ns);
    return *(const int *)a - *(const int *)b;
}

IN(gamma) static void gamma_sort(uint64_t ns)
{
    int values[16];
    for (int i = 0; i < 16; i++) values[i] = 16 - i;
    gamma_ns = ns / 32; /* merge sort of 16 that are in reverse: 32 compares */
    qsort(values, 16, sizeof(values[0]), gamma_compare);
}

static void require(int ok, const char *what)
{
    if (ok) return;
    printf("failed: %s (%s)\n", what, strerror(errno));
    exit(1);
}

static void *burn_on(void *arg)
{
    while (!over) alpha(1000000);
    return arg;
}

static pthread_t start(void *(*run)(void *), void *arg)
{
    pthread_t t;
    require(!pthread_create(&t, NULL, run, arg), "pthread_create");
    return t;
}

static pthread_t background(void) { return start(burn_on, NULL); }

static void background_end(pthread_t t)
{
    over = 1;
    pthread_join(t, NULL);
}

/* ---- Where the time goes --------------------------------------------------------------------- */

static uint64_t truth[2][3];

static void *slices(void *arg)
{
    uint64_t *ns = arg;
    const uint64_t t0 = cpu_ns();
    alpha(1200000000);
    const uint64_t t1 = cpu_ns();
    beta(600000000, 50);
    const uint64_t t2 = cpu_ns();
    gamma_sort(200000000);
    ns[0] = t1 - t0;
    ns[1] = t2 - t1;
    ns[2] = cpu_ns() - t2;
    return NULL;
}

static int c11(void *arg)
{
    slices(arg);
    return 7;
}

static void mode_shares(int n)
{
    extern char __start_text_alpha[], __stop_text_alpha[], __start_text_beta[], __stop_text_beta[],
        __start_text_gamma[], __stop_text_gamma[];
    pthread_t a;
    thrd_t b;
    int rc = 0;
    (void)n;
    printf("range alpha %p %p\n", (void *)__start_text_alpha, (void *)__stop_text_alpha);
    printf("range beta %p %p\n", (void *)__start_text_beta, (void *)__stop_text_beta);
    printf("range gamma %p %p\n", (void *)__start_text_gamma, (void *)__stop_text_gamma);
    fflush(stdout);
    require(!pthread_create(&a, NULL, slices, truth[0]), "pthread_create");
    pthread_setname_np(a, "posix");
    require(thrd_create(&b, c11, truth[1]) == thrd_success, "thrd_create");
    pthread_setname_np(b, "c11");
    pthread_join(a, NULL);
    thrd_join(b, &rc);
    static const char *const names[] = { "alpha", "beta", "gamma" };
    for (int i = 0; i < 3; i++) {
        printf("truth %s %llu\n", names[i], (unsigned long long)(truth[0][i] + truth[1][i]));
    }
    printf("result %d\n", rc);
}

static void mode_deep(int n)
{
    printf("depth %d\n", beta(300000000, n));
}

/* ---- Processes ------------------------------------------------------------------------------- */

static int wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) return -1;
    }
    return status;
}

static void mode_fork(int n)
{
    const pthread_t load = background();
    int good = 0;
    for (int i = 0; i < n; i++) {
        const pid_t pid = fork();
        require(pid >= 0, "fork");
        if (!pid) {
            /* Numbers of timers of this process must not be mixed up with the parent's. */
            timer_t mine;
            struct sigevent none = { .sigev_notify = SIGEV_NONE };
            struct sigaction action;
            require(!timer_create(CLOCK_MONOTONIC, &none, &mine), "timer_create");
            require(!sigaction(SAMPLE_SIGNAL, NULL, &action) && action.sa_handler == SIG_DFL,
                    "the child has the default action");
            beta(2000000, 5);
            require(!timer_delete(mine), "timer_delete");
            _exit(7);
        }
        alpha(1000000);
        good += wait_for(pid) == 7 << 8;
    }
    background_end(load);
    printf("children %d\n", good);
}

extern char **environ;

static void mode_spawn(int n)
{
    const pthread_t load = background();
    char *const argv[] = { (char *)"sh", (char *)"-c",
                           (char *)"test -z \"$LD_PRELOAD$SONDE_SAMPLER\" && exit 7", NULL };
    int good = 0;
    for (int i = 0; i < n; i++) {
        pid_t pid;
        if (i % 3 == 0) {
            require(!posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), "posix_spawn");
        } else if (i % 3 == 1) {
            pid = vfork();
            if (!pid) {
                execv("/bin/sh", argv);
                _exit(1);
            }
        } else {
            pid = fork();
            if (!pid) {
                execlp("sh", "sh", "-c", argv[2], NULL);
                _exit(1);
            }
        }
        good += pid > 0 && wait_for(pid) == 7 << 8;
    }
    good += system(argv[2]) == 7 << 8;
    background_end(load);
    printf("spawned %d\n", good);
}

/* Replaces itself under load, in each of the ways there are. */
static void mode_exec(int n)
{
    char left[16], self[512] = "";
    background();
    alpha(6000000);
    if (!n) {
        printf("exec 0\n");
        fflush(stdout);
        _exit(0);
    }
    require(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0, "readlink");
    snprintf(left, sizeof(left), "%d", n - 1);
    char *const argv[] = { self, (char *)"exec", left, NULL };
    switch (n % 8) {
    case 0: execv(self, argv); break;
    case 1: execl(self, self, "exec", left, NULL); break;
    case 2: execve(self, argv, environ); break;
    case 3: execvp(self, argv); break;
    case 4: execle(self, self, "exec", left, NULL, environ); break;
    case 5: fexecve(open(self, O_RDONLY | O_CLOEXEC), argv, environ); break;
    case 6: execveat(AT_FDCWD, self, argv, (char *[]){ NULL }, 0); break; /* nothing handed on */
    default: execlp(self, self, "exec", left, NULL); break;
    }
    require(0, "exec");
}

static void mode_env(int n)
{
    (void)n;
    printf("LD_PRELOAD %s\nSONDE_SAMPLER %s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "-",
           getenv("SONDE_SAMPLER") ? getenv("SONDE_SAMPLER") : "-");
    alpha(50000000);
}

/* ---- System calls that sleep ----------------------------------------------------------------- */

static int interrupted;

static void slept(int rc)
{
    if (rc < 0 && errno == EINTR) __atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
}

/* Short sleeps between bursts of work: the tick comes at any moment of them. */
static void *sleeper(void *arg)
{
    const int rounds = *(int *)arg, fd = epoll_create1(0);
    struct epoll_event event;
    sem_t sem;
    sem_init(&sem, 0, 0);
    for (int i = 0; i < rounds; i++) {
        struct timespec t = { .tv_nsec = 300000 };
        struct timeval v = { .tv_usec = 300 };
        alpha(700000);
        slept(poll(NULL, 0, 1));
        slept(nanosleep(&t, NULL) ? -1 : 0);
        alpha(500000);
        slept(epoll_wait(fd, &event, 1, 1));
        slept(select(0, NULL, NULL, NULL, &v));
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec = (t.tv_nsec + 300000) % 1000000000;
        slept(sem_timedwait(&sem, &t));
    }
    close(fd);
    return NULL;
}

static void mode_sleep(int n)
{
    pthread_t t[4];
    for (int i = 0; i < 4; i++) t[i] = start(sleeper, &n);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    printf("interrupted %d\n", interrupted);
}

/* ---- Signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t handled;

static void count_signal(int number)
{
    (void)number;
    handled++;
}

/* Wants the very signal. */
static void mode_own(int n)
{
    struct sigaction action;
    (void)n;
    alpha(100000000);
    require(!sigaction(SAMPLE_SIGNAL, NULL, &action) && action.sa_handler == SIG_DFL,
            "the signal has its default action");
    require(signal(SAMPLE_SIGNAL, SIG_DFL) == SIG_DFL, "the default can be set");
    alpha(50000000);
    memset(&action, 0, sizeof(action));
    action.sa_handler = count_signal;
    require(!sigaction(SAMPLE_SIGNAL, &action, NULL), "sigaction");
    pthread_t t = background();
    for (int i = 0; i < 50; i++) {
        alpha(2000000);
        raise(SAMPLE_SIGNAL);
    }
    background_end(t);
    require(!sigaction(SAMPLE_SIGNAL, NULL, &action) && action.sa_handler == count_signal,
            "the handler is the program's");
    printf("handled %d\n", (int)handled);
}

/* Profiles itself, with SIGPROF. */
static void mode_prof(int n)
{
    const struct itimerval every = { { 0, 10000 }, { 0, 10000 } };
    (void)n;
    signal(SIGPROF, count_signal);
    require(!setitimer(ITIMER_PROF, &every, NULL), "setitimer");
    for (int i = 0; i < 200 && handled < 5; i++) alpha(20000000);
    require(handled >= 5, "its own timer works");
    const struct itimerval never = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_PROF, &never, NULL);
    printf("profiled\n");
}

static void *blocked(void *arg)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    alpha(300000000);
    sigemptyset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    beta(50000000, 3);
    return arg;
}

static void mode_blocked(int n)
{
    (void)n;
    pthread_join(start(blocked, NULL), NULL);
    printf("unblocked\n");
}

/* Takes whatever signal there is: it must get the one that was sent, and no other. */
static void *waiter(void *arg)
{
    sigset_t all;
    const struct timespec soon = { 0, 2000000 };
    int got = 0, others = 0;
    sigfillset(&all);
    const int fd = signalfd(-1, &all, SFD_NONBLOCK);
    require(fd >= 0, "signalfd");
    for (int i = 0; i < *(int *)arg; i++) {
        struct signalfd_siginfo info;
        alpha(8000000);
        if (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) others++;
        alpha(8000000);
        const int number = sigtimedwait(&all, NULL, &soon);
        if (number > 0) others++;
        pthread_kill(pthread_self(), SIGUSR1);
        int which = 0;
        sigwait(&all, &which);
        if (which == SIGUSR1) got++;
        else others++;
    }
    close(fd);
    printf("got %d others %d\n", got, others);
    return NULL;
}

static void mode_sigwait(int n)
{
    pthread_t t;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    require(!pthread_create(&t, NULL, waiter, &n), "pthread_create");
    pthread_join(t, NULL);
}

/* Somebody sends it from outside: that ends a program. */
static void mode_raise(int n)
{
    (void)n;
    alpha(20000000);
    kill(getpid(), SAMPLE_SIGNAL);
    printf("survived\n");
}

static void mode_handler(int n)
{
    struct sigaction action = { .sa_handler = count_signal };
    sigaction(SIGUSR1, &action, NULL);
    const pthread_t t = background();
    for (int i = 0; i < n; i++) {
        beta(1000000, 10);
        raise(SIGUSR1);
    }
    background_end(t);
    printf("handled %d\n", (int)handled);
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static void on_stack(int number)
{
    (void)number;
    handled++;
    alpha(4000000);
}

static void alternate(size_t bytes, int n)
{
    static char memory[1 << 16];
    stack_t stack = { .ss_sp = memory, .ss_size = bytes };
    struct sigaction action = { .sa_handler = on_stack, .sa_flags = SA_ONSTACK };
    require(!sigaltstack(&stack, NULL), "sigaltstack");
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < n; i++) {
        alpha(4000000);
        raise(SIGUSR1);
    }
    stack.ss_flags = SS_DISABLE;
    require(!sigaltstack(&stack, NULL), "sigaltstack");
    beta(60000000, 4);
    printf("handled %d\n", (int)handled);
}

/* Room for what the kernel puts there (512 bytes on some CPUs, 11 KB on others) and for our
 * handler, but not for another one. */
static void mode_tiny_stack(int n)
{
    const size_t kernel = getauxval(AT_MINSIGSTKSZ);
    alternate((kernel ? kernel : 1024) + 1024, n);
}
/* Room for the kernel twice, for both handlers, and for walking; none for looking up rules. */
static void mode_alt_stack(int n)
{
    const size_t kernel = getauxval(AT_MINSIGSTKSZ);
    alternate(2 * (kernel ? kernel : 1024) + 4096, n);
}

/* Code that no table describes and that keeps no frame pointer. rbp is that of a caller's caller or
 * anything else; the only trace of the caller is the return address. */
void bare_spin(uint64_t n), leaf_spin(uint64_t n);
__asm__(
    ".text\n.skip 64, 0xcc\n.globl bare_spin\n.type bare_spin, @function\nbare_spin:\n"
    "push %rdi\n1: dec %rdi\n jnz 1b\n nop\n nop\n pop %rdi\n ret\n.size bare_spin, .-bare_spin\n"
    ".skip 64, 0xcc\n.globl leaf_spin\n.type leaf_spin, @function\nleaf_spin:\n"
    "1: dec %rdi\n jnz 1b\n nop\n nop\n nop\n ret\n.size leaf_spin, .-leaf_spin\n.skip 64, 0xcc\n");

__attribute__((noinline)) static void bare_caller(uint64_t n)
{
    bare_spin(n);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void leaf_caller(uint64_t n)
{
    leaf_spin(n);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline, optimize("no-omit-frame-pointer"))) static void mode_leaf(int n)
{
    leaf_caller((uint64_t)n * 1000000);
    printf("spun\n");
}

/* Keeps a frame pointer, so that a walk by it skips bare_caller. */
__attribute__((noinline, optimize("no-omit-frame-pointer"))) static void mode_bare(int n)
{
    bare_caller((uint64_t)n * 1000000);
    printf("spun\n");
}

static ucontext_t outside, inside;

static void coroutine(void)
{
    for (;;) {
        beta(500000, 3);
        swapcontext(&inside, &outside);
    }
}

static void mode_coroutine(int n)
{
    void *stack = malloc(32768);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = 32768;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    for (int i = 0; i < n; i++) {
        alpha(300000);
        swapcontext(&outside, &inside);
    }
    free(stack);
    printf("switched %d\n", n);
}

static jmp_buf back;

IN(beta) static void jump(int depth)
{
    if (!depth) {
        spin(300000);
        if (sink != 12345) longjmp(back, 1); /* always, but the compiler cannot know */
        return;
    }
    jump(depth - 1);
    sink++;
}

static void mode_longjmp(int n)
{
    volatile int jumped = 0;
    while (jumped < n) {
        if (setjmp(back)) jumped++;
        else jump(20);
    }
    printf("jumped %d\n", jumped);
}

/* ---- Many threads ---------------------------------------------------------------------------- */

static void *short_life(void *arg)
{
    alpha(200000);
    if ((uintptr_t)arg % 2) pthread_exit(arg);
    return arg;
}

static void mode_storm(int n)
{
    enum { AT_ONCE = 50 };
    pthread_t t[AT_ONCE];
    int joined = 0;
    for (int i = 0; i < n; i += AT_ONCE) {
        for (int k = 0; k < AT_ONCE; k++) t[k] = start(short_life, (void *)(uintptr_t)k);
        for (int k = 0; k < AT_ONCE; k++) {
            void *said = NULL;
            pthread_join(t[k], &said);
            joined += said == (void *)(uintptr_t)k;
        }
    }
    printf("joined %d\n", joined);
}

static void *asynchronous(void *arg)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;) alpha(1000000);
    return arg;
}

static void mode_cancel(int n)
{
    int cancelled = 0;
    for (int i = 0; i < n; i++) {
        pthread_t t;
        void *said = NULL;
        require(!pthread_create(&t, NULL, asynchronous, NULL), "pthread_create");
        alpha(5000000);
        pthread_cancel(t);
        pthread_join(t, &said);
        cancelled += said == PTHREAD_CANCELED;
    }
    printf("cancelled %d\n", cancelled);
}

/* All threads at once, more than there may be timers for. */
static void mode_few_timers(int n)
{
    const struct rlimit few = { 4, 4 };
    pthread_t t[64];
    require(!setrlimit(RLIMIT_SIGPENDING, &few), "setrlimit");
    for (int i = 0; i < 64; i++) t[i] = start(burn_on, NULL);
    alpha((uint64_t)n * 1000000);
    over = 1;
    for (int i = 0; i < 64; i++) pthread_join(t[i], NULL);
    printf("joined 64\n");
}

/* ---------------------------------------------------------------------------------------------- */

static const struct { const char *name; void (*run)(int n); int n; } modes[] = {
    { "shares", mode_shares, 0 },       { "deep", mode_deep, 1000 },
    { "fork", mode_fork, 20 },          { "spawn", mode_spawn, 9 },
    { "exec", mode_exec, 20 },          { "env", mode_env, 0 },
    { "sleep", mode_sleep, 100 },       { "own", mode_own, 0 },
    { "prof", mode_prof, 0 },           { "blocked", mode_blocked, 0 },
    { "sigwait", mode_sigwait, 20 },    { "raise", mode_raise, 0 },
    { "handler", mode_handler, 100 },   { "tiny-stack", mode_tiny_stack, 20 },
    { "alt-stack", mode_alt_stack, 50 },{ "coroutine", mode_coroutine, 500 },
    { "longjmp", mode_longjmp, 500 },   { "storm", mode_storm, 5000 },
    { "cancel", mode_cancel, 50 },      { "few-timers", mode_few_timers, 60 },
    { "bare", mode_bare, 600 },         { "leaf", mode_leaf, 600 },
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name)) continue;
        modes[i].run(argc > 2 ? atoi(argv[2]) : modes[i].n);
        return 0;
    }
    fprintf(stderr, "usage: timer_host MODE [N]\n");
    return 2;
}
