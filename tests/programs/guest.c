/* guest - programs that rely on what libsonde_preload could take from them: `guest MODE`. Each
 * prints the same text in every run, with the library in it or without. */
#include <elf.h>
#include <errno.h>
#include <fenv.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sonde/sonde.h"

#define BURN_NS 40000000u /* several ticks of the kernel's clock */

static char **arguments;

static void require(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "guest: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void burn(void)
{
    const uint64_t until = cpu_ns() + BURN_NS;
    while (cpu_ns() < until) continue;
}

/* As Go's runtime does: behind the environment, as found from argv, is the auxiliary vector. */
static void mode_auxv(void)
{
    char **p = arguments;
    unsigned long page = 0;
    while (*p) p++;
    p++;
    for (; *p; p++) require(strchr(*p, '=') != NULL, "an entry without =");
    for (const unsigned long *v = (const unsigned long *)(void *)(p + 1); v[0]; v += 2) {
        if (v[0] == AT_PAGESZ) page = v[1];
    }
    printf("page size %s\n", page == (unsigned long)sysconf(_SC_PAGESIZE) ? "found" : "missing");
}

static void mode_environ(void)
{
    for (char **e = environ; *e; e++) puts(*e);
    require(!setenv("GUEST_NEW", "1", 1) && !unsetenv("HOME"), "setenv");
    for (char **e = environ; *e; e++) puts(*e);
}

/* ---- Signals that are blocked but where the program waits ------------------------------------ */

static void on_alarm(int number) { (void)number; }

static void say(const char *what, int rc)
{
    printf("%s %d %s\n", what, rc, rc < 0 ? strerror(errno) : "");
}

static void mode_masks(void)
{
    const struct timespec t = { 0, 1000000 };
    struct epoll_event event;
    sigset_t all, none, pending;
    int count = 0;
    const int fd = epoll_create1(EPOLL_CLOEXEC);
    sigfillset(&all);
    sigemptyset(&none);
    require(fd >= 0 && !sigprocmask(SIG_SETMASK, &all, NULL), "sigprocmask");
    burn();
    require(!sigpending(&pending), "sigpending");
    for (int i = 1; i < 64; i++) count += sigismember(&pending, i) == 1;
    printf("pending %d\n", count);
    say("ppoll", ppoll(NULL, 0, &t, &none));
    burn();
    say("pselect", pselect(0, NULL, NULL, NULL, &t, &none));
    burn();
    say("epoll_pwait", epoll_pwait(fd, &event, 1, 1, &none));
    burn();
    say("epoll_pwait2", epoll_pwait2(fd, &event, 1, &t, &none));

    /* The alarm is blocked until the program waits for it, and is what ends the waiting. */
    require(signal(SIGALRM, on_alarm) != SIG_ERR, "signal");
    burn();
    raise(SIGALRM);
    say("sigsuspend", sigsuspend(&none));
    require(!sigpending(&pending), "sigpending");
    printf("alarm %s\n", sigismember(&pending, SIGALRM) ? "still pending" : "taken");
    close(fd);
}

/* ---- Stacks that are nearly used up ---------------------------------------------------------- */

static const char *low;
static size_t leave;
static int allocates;
static volatile int sink;

__attribute__((noinline)) static void spend(void)
{
    const uint64_t until = cpu_ns() + 2 * BURN_NS;
    for (size_t i = 0; cpu_ns() < until; i++) {
        if (!allocates) continue;
        void *volatile p = malloc(1000 + i % 7);
        free(p);
    }
}

__attribute__((noinline)) static int down(void)
{
    volatile char here[128];
    here[0] = 1;
    if ((size_t)((const char *)(uintptr_t)here - low) < leave) {
        spend();
        return 1;
    }
    return down() + here[0];
}

static void *at_the_bottom(void *arg)
{
    pthread_attr_t attr;
    void *stack;
    size_t bytes;
    (void)arg;
    require(!pthread_getattr_np(pthread_self(), &attr), "pthread_getattr_np");
    require(!pthread_attr_getstack(&attr, &stack, &bytes), "pthread_attr_getstack");
    pthread_attr_destroy(&attr);
    low = stack;
    sink = down();
    return NULL;
}

/* What is left is enough for the program itself, and for the kernel to put a signal there. */
static void bottoms(void)
{
    const size_t kernel = getauxval(AT_MINSIGSTKSZ) ? getauxval(AT_MINSIGSTKSZ) : 2048;
    for (leave = kernel + 1536; leave < kernel + 6144; leave += 512) {
        pthread_attr_t attr;
        pthread_t t;
        require(!pthread_attr_init(&attr) && !pthread_attr_setstacksize(&attr, 128 << 10), "attr");
        require(!pthread_create(&t, &attr, at_the_bottom, NULL), "pthread_create");
        pthread_join(t, NULL);
        pthread_attr_destroy(&attr);
    }
    printf("returned from the bottom\n");
}

static void mode_bottom(void) { bottoms(); }

static void mode_bottom_malloc(void)
{
    allocates = 1;
    bottoms();
}

/* ---- Floating point -------------------------------------------------------------------------- */

static void allocate(void)
{
    for (size_t i = 0; i < 5000; i++) {
        void *volatile p = malloc(1000 + i);
        void *volatile q = realloc(p, 3000 + i);
        free(q);
    }
    void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(p != MAP_FAILED && !munmap(p, 1 << 20), "mmap");
}

static void mode_float(void)
{
    require(!feclearexcept(FE_ALL_EXCEPT) && !fesetround(FE_UPWARD), "fesetround");
    allocate();
    printf("exceptions %x, rounding %s\n", (unsigned)fetestexcept(FE_ALL_EXCEPT),
           fegetround() == FE_UPWARD ? "up" : "changed");
    require(feenableexcept(FE_ALL_EXCEPT) >= 0, "feenableexcept");
    allocate();
    fedisableexcept(FE_ALL_EXCEPT);
    printf("no trap\n");
}

/* ---- A sandbox ------------------------------------------------------------------------------- */

/* No system call but read, write and exit from here on; what follows is long enough to be sampled,
 * and allocates what the allocator has at hand. */
static void strict(long number, long a, long b)
{
    static const char text[] = "still there\n";
    static void *kept[1000];
    volatile uint64_t x = 1;
    burn();
    for (int i = 0; i < 1000; i++) require((kept[i] = malloc(1000)) != NULL, "malloc");
    free(malloc(100000)); /* room */
    if (number ? syscall(number, a, b, 0L) : prctl((int)a, b, 0, 0, 0)) _exit(3);
    for (int i = 0; i < 300000000; i++) x = x * 6364136223846793005u + 1;
    for (int i = 0; i < 3000; i++) {
        void *volatile p = malloc(1000);
        free(kept[i % 1000]);
        kept[i % 1000] = realloc(p, 900);
    }
    if (syscall(SYS_write, 1, text, sizeof(text) - 1) > 0) syscall(SYS_exit, 0);
    for (;;) continue;
}

static void mode_strict(void) { strict(0, PR_SET_SECCOMP, SECCOMP_MODE_STRICT); }
static void mode_strict_prctl(void) { strict(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT); }
static void mode_strict_seccomp(void) { strict(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0); }

/* What a small sandbox allows: less than this program's own library calls need would kill it. */
static void filter_install(int by_syscall)
{
    static const int allowed[] = {
        SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_brk, SYS_mmap, SYS_munmap, SYS_futex,
    };
    enum { COUNT = sizeof(allowed) / sizeof(allowed[0]) };
    struct sock_filter code[COUNT + 4];
    unsigned n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0); /* the number */
    for (unsigned i = 0; i < COUNT; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i],
                                                 (uint8_t)(COUNT - i), 0);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog filter = { (unsigned short)n, code };
    require(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    /* As programs ask whether there is such a thing. */
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) == -1 && errno == EFAULT,
            "probe");
    require(!(by_syscall ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)
                         : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0)), "seccomp");
}

/* Long enough to be sampled, and with allocations; then it ends as programs do. */
static void filtered(int by_syscall)
{
    static void *kept[1000];
    volatile uint64_t x = 1;
    burn();
    for (int i = 0; i < 1000; i++) require((kept[i] = malloc(1000)) != NULL, "malloc");
    fflush(stdout);
    filter_install(by_syscall);
    for (int i = 0; i < 200000000; i++) x = x * 6364136223846793005u + 1;
    for (int i = 0; i < 1000; i++) {
        free(kept[i]);
        require((kept[i] = calloc(1, 3000)) != NULL, "calloc");
    }
    for (int i = 0; i < 1000; i++) {
        require((kept[i] = realloc(kept[i], 5000)) != NULL, "realloc");
        free(kept[i]);
    }
    static const char text[] = "still there\n";
    require(write(1, text, sizeof(text) - 1) > 0, "write");
    exit(5);
}

/* A program that records by itself, too. Without the preloaded library it has to allow its
 * calls. */
static void mode_filter_records(void)
{
    struct sonde_counter early = sonde_counter("guest_early_total", "Before.");
    sonde_counter_add(early, 1);
    burn();
    filter_install(0);
    for (int i = 0; i < 1000; i++) {
        SONDE_SCOPE("guest.step");
        sonde_counter_add(early, 1);
        sonde_counter_add(sonde_counter("guest_late_total", "After."), 1);
        sonde_hist_record(sonde_hist("guest_seconds", "Waiting.", 1e-9), 1000000);
    }
    exit(5);
}

/* One that records only what it had by then, and has to allow nothing for it: also alone. */
static void filter_counts(int by_syscall)
{
    struct sonde_counter steps = sonde_counter("guest_steps_total", "Steps.");
    struct sonde_hist took = sonde_hist("guest_step_seconds", "Time of one.", 1e-9);
    for (int i = 0; i < 2000; i++) {
        SONDE_SCOPE("guest.step");
        sonde_counter_add(steps, 1);
        sonde_hist_record(took, 1000000);
        if (i == 1000) filter_install(by_syscall);
    }
    exit(5);
}

static void mode_filter_counts(void) { filter_counts(0); }
static void mode_filter_counts_syscall(void) { filter_counts(1); }
static void mode_filter(void) { filtered(0); }
static void mode_filter_syscall(void) { filtered(1); }

/* ---- exec with as much as there is room for -------------------------------------------------- */

#define PAD "GUEST_PAD"

static char **environ_with(size_t pad)
{
    const size_t each = 100000;
    size_t n = 0;
    char **all = calloc(pad / each + 3, sizeof(*all));
    require(all != NULL, "calloc");
    do {
        const size_t some = pad < each ? pad : each;
        char *entry = malloc(some + 64);
        require(entry != NULL, "malloc");
        const int at = snprintf(entry, 64, PAD "%zu=", n);
        memset(entry + at, 'x', some);
        entry[(size_t)at + some] = 0;
        all[n++] = entry;
        pad -= some;
    } while (pad);
    return all;
}

static int exec_fits(size_t pad)
{
    char *const argv[] = { "true", NULL };
    char **all = environ_with(pad);
    int status = 1;
    fflush(stdout);
    const pid_t pid = fork();
    require(pid >= 0, "fork");
    if (!pid) {
        execve("/bin/true", argv, all);
        _exit(errno == E2BIG ? 1 : 2);
    }
    require(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) < 2,
            "exec");
    for (char **e = all; *e; e++) free(*e);
    free(all);
    return !WEXITSTATUS(status);
}

static void mode_exec_full(void)
{
    const struct rlimit small = { 1 << 20, 1 << 20 }; /* a quarter of it is for arguments */
    size_t fits = 1, too_much = 1 << 20;
    char *const argv[] = { "true", NULL };
    require(!setrlimit(RLIMIT_STACK, &small), "setrlimit");
    while (too_much - fits > 64) {
        const size_t middle = (fits + too_much) / 2;
        if (exec_fits(middle)) fits = middle;
        else too_much = middle;
    }
    printf("exec\n");
    fflush(stdout);
    execve("/bin/true", argv, environ_with(fits));
    printf("%s\n", strerror(errno));
}

/* ---------------------------------------------------------------------------------------------- */

static const struct { const char *name; void (*run)(void); } modes[] = {
    { "auxv", mode_auxv },     { "environ", mode_environ },
    { "masks", mode_masks },   { "bottom", mode_bottom },
    { "float", mode_float },   { "bottom-malloc", mode_bottom_malloc },
    { "exec-full", mode_exec_full }, { "strict", mode_strict },
    { "strict-prctl", mode_strict_prctl }, { "strict-seccomp", mode_strict_seccomp },
    { "filter", mode_filter }, { "filter-syscall", mode_filter_syscall },
    { "filter-records", mode_filter_records }, { "filter-counts", mode_filter_counts },
    { "filter-counts-syscall", mode_filter_counts_syscall },
};

int main(int argc, char **argv)
{
    arguments = argv;
    for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name)) continue;
        modes[i].run();
        return 0;
    }
    fprintf(stderr, "usage: guest MODE\n");
    return 2;
}
