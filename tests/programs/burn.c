/* burn - a workload whose truth is known: where its CPU time goes is measured by itself, slice by
 * slice with the thread's CPU clock, and printed beside the addresses that tell the parts apart.
 *
 *   alpha  60 %  a loop with inlined helpers
 *   beta   30 %  at the bottom of a recursion
 *   gamma  10 %  in a callback of libc's qsort
 *
 * Every part lives in a section of its own, so that a stack that passes through it can be told by
 * address alone. Built with -O2 and without frame pointers. It prints
 *
 *   range NAME START END     addresses of a part
 *   ready PID                then waits for a line on stdin, with --wait
 *   truth NAME NS            at the end: CPU time (blocked time for sleep and lock)
 *   done NAME COUNT          things that were done, the same in every run
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sonde/sonde.h"

#define IN(part) __attribute__((noinline, noclone, section("text_" #part)))
#define PARTS(X) X(alpha) X(beta) X(gamma) X(handler) X(child) X(sleep) X(lock)

enum { SLICE = 200000, RECURSION = 60, SORTED = 256, PARTS_TIMED = 3, THREADS_MAX = 256 };

struct burned {
    uint64_t ns[PARTS_TIMED];
};

static double seconds = 1; /* of CPU time for each thread */
static uint64_t turns = 1; /* of a part in a row: longer ones for samplers that look seldom */
static int recursion = RECURSION;

static uint64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) uint64_t mix(uint64_t x)
{
    x = x * 6364136223846793005u + 1442695040888963407u;
    __asm__ volatile("" : "+r"(x));
    return x;
}

static inline __attribute__((always_inline)) uint64_t spin(uint64_t x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) x = mix(x);
    return x;
}

IN(alpha) static uint64_t alpha(uint64_t n) { return spin(n | 1, n); }

IN(beta) static uint64_t beta_down(uint64_t n, int depth)
{
    volatile uint64_t local[4] = { n }; /* keeps it from becoming a loop */
    const uint64_t x = depth ? beta_down(n, depth - 1) : spin(n | 1, n);
    return x + local[depth & 3];
}

IN(beta) static uint64_t beta(uint64_t n) { return beta_down(n, recursion); }

IN(gamma) static int gamma_compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    spin(x, SLICE / (SORTED * 7));
    return (x > y) - (x < y);
}

IN(gamma) static uint64_t gamma_sort(uint64_t n)
{
    uint64_t values[SORTED], x = n;
    for (int i = 0; i < SORTED; i++) values[i] = x = x * 6364136223846793005u + 7;
    qsort(values, SORTED, sizeof(values[0]), gamma_compare);
    return values[0];
}

IN(handler) static void handler(int signal)
{
    (void)signal;
    spin(3, SLICE * turns * 2);
}

IN(child) static uint64_t child_work(uint64_t n) { return spin(n | 1, n); }

#define RANGE(part) extern char __start_text_##part[], __stop_text_##part[];
PARTS(RANGE)
#undef RANGE

static void print_ranges(void)
{
#define RANGE(part)                                                                            \
    printf("range " #part " %p %p\n", (void *)__start_text_##part, (void *)__stop_text_##part);
    PARTS(RANGE)
#undef RANGE
    fflush(stdout);
}

/* ---- Burning in known shares ----------------------------------------------------------------- */

static int spans;
static __thread volatile uint64_t sink;

static uint64_t run_turns(int part)
{
    static uint64_t (*const parts[PARTS_TIMED])(uint64_t) = { alpha, beta, gamma_sort };
    uint64_t x = 0;
    for (uint64_t i = 0; i < turns; i++) x += parts[part](SLICE);
    return x;
}

static uint64_t run_part(int part)
{
    if (!spans) return run_turns(part);
    uint64_t x;
    if (part == 0) {
        SONDE_SCOPE("alpha");
        x = run_turns(part);
    } else {
        SONDE_SCOPE("others");
        x = run_turns(part);
    }
    return x;
}

/* Ten turns at a time, six, three and one of each part, in random order: at a fixed one, samples at
 * a fixed period would meet some more often than others, as with any profiler. */
static void *burn(void *arg)
{
    struct burned *b = arg;
    const uint64_t all = (uint64_t)(seconds * 1e9);
    int deck[] = { 0, 0, 0, 0, 0, 0, 1, 1, 1, 2 };
    uint64_t total = 0, random = (uint64_t)(uintptr_t)arg;
    uint64_t before = now(CLOCK_THREAD_CPUTIME_ID);
    while (total < all) {
        for (unsigned left = 10; left > 0; left--) {
            random = mix(random);
            int *drawn = &deck[(unsigned)(random >> 33) % left];
            const int next = *drawn;
            *drawn = deck[left - 1];
            deck[left - 1] = next;
            sink += run_part(next);
            const uint64_t after = now(CLOCK_THREAD_CPUTIME_ID);
            b->ns[next] += after - before;
            total += after - before;
            before = after;
        }
    }
    return NULL;
}

static void burn_threads(int count)
{
    static struct burned burned[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    char name[16];
    for (int i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, burn, &burned[i])) abort();
        snprintf(name, sizeof(name), "burn-%d", i);
        pthread_setname_np(threads[i], name);
    }
    struct burned all = { { 0 } };
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        for (int k = 0; k < PARTS_TIMED; k++) all.ns[k] += burned[i].ns[k];
    }
    printf("truth alpha %llu\ntruth beta %llu\ntruth gamma %llu\ndone threads %d\n",
           (unsigned long long)all.ns[0], (unsigned long long)all.ns[1],
           (unsigned long long)all.ns[2], count);
}

/* Threads that are there, and wait, before anybody looks. */
static pthread_barrier_t barrier;

static void *burn_later(void *arg)
{
    pthread_barrier_wait(&barrier);
    return burn(arg);
}

static void wait_for_line(void)
{
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    for (int c = getchar(); c != '\n' && c != EOF; c = getchar()) continue;
}

static void burn_waiting(int count)
{
    static struct burned burned[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    pthread_barrier_init(&barrier, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, burn_later, &burned[i])) abort();
    }
    wait_for_line();
    pthread_barrier_wait(&barrier);
    uint64_t alpha_ns = 0;
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        alpha_ns += burned[i].ns[0];
    }
    printf("truth alpha %llu\ndone threads %d\n", (unsigned long long)alpha_ns, count);
}

/* Threads that start threads all the time, each with little to do: whoever attaches meanwhile finds
 * some of them half made. Until a line comes, and then so many more. */
static int churn_over;

struct churn {
    int count;
    uint64_t ns;
};

static void *churn_one(void *arg)
{
    uint64_t *ns = arg;
    sink = alpha(SLICE * 2);
    *ns = now(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

static void *churn(void *arg)
{
    struct churn *c = arg;
    for (int i = 0; i < c->count; i += __atomic_load_n(&churn_over, __ATOMIC_RELAXED)) {
        pthread_t thread;
        uint64_t ns = 0;
        if (pthread_create(&thread, NULL, churn_one, &ns)) abort();
        pthread_join(thread, NULL);
        c->ns += ns;
    }
    return NULL;
}

static void churn_threads(int count)
{
    pthread_t makers[4];
    struct churn churns[4] = { { 0, 0 } };
    uint64_t all = 0;
    for (int i = 0; i < 4; i++) {
        churns[i].count = count / 4;
        if (pthread_create(&makers[i], NULL, churn, &churns[i])) abort();
    }
    wait_for_line();
    __atomic_store_n(&churn_over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 4; i++) {
        pthread_join(makers[i], NULL);
        all += churns[i].ns;
    }
    printf("truth alpha %llu\ndone threads %d\n", (unsigned long long)all, count);
}

/* ---- Blocking -------------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

IN(sleep) static void sleep_here(void)
{
    const struct timespec t = { .tv_nsec = 300000000 };
    nanosleep(&t, NULL);
    __asm__ volatile("");
}

IN(lock) static void lock_here(void)
{
    pthread_mutex_lock(&mutex);
    __asm__ volatile("");
    pthread_mutex_unlock(&mutex);
}

static void *hold(void *arg)
{
    const struct timespec t = { .tv_nsec = 700000000 };
    pthread_mutex_lock(&mutex);
    pthread_barrier_wait(arg);
    nanosleep(&t, NULL);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void sleep_mutex(void)
{
    pthread_t holder;
    const uint64_t start = now(CLOCK_MONOTONIC);
    sleep_here();
    const uint64_t slept = now(CLOCK_MONOTONIC);
    pthread_barrier_init(&barrier, NULL, 2);
    if (pthread_create(&holder, NULL, hold, &barrier)) abort();
    pthread_barrier_wait(&barrier);
    const uint64_t held = now(CLOCK_MONOTONIC);
    lock_here();
    const uint64_t locked = now(CLOCK_MONOTONIC);
    pthread_join(holder, NULL);
    printf("truth sleep %llu\ntruth lock %llu\n", (unsigned long long)(slept - start),
           (unsigned long long)(locked - held));
}

static int ping[2], pong[2];

/* Time that was not spent on a CPU since then. */
static uint64_t waited(uint64_t wall, uint64_t cpu)
{
    return now(CLOCK_MONOTONIC) - wall - (now(CLOCK_THREAD_CPUTIME_ID) - cpu);
}

static void *answer(void *arg)
{
    const uint64_t wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
    char c;
    while (read(ping[0], &c, 1) == 1 && write(pong[1], &c, 1) == 1) continue;
    *(uint64_t *)arg = waited(wall, cpu);
    return NULL;
}

/* Many short blocks: two threads that wait for each other. */
static void ping_pong(int count)
{
    pthread_t other;
    char c = 'x';
    uint64_t others = 0;
    if (pipe(ping) || pipe(pong) || pthread_create(&other, NULL, answer, &others)) abort();
    const uint64_t wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
    int done = 0;
    while (done < count && write(ping[1], &c, 1) == 1 && read(pong[0], &c, 1) == 1) done++;
    const uint64_t ours = waited(wall, cpu);
    close(ping[1]);
    pthread_join(other, NULL);
    printf("truth wait %llu\ndone rounds %d\n", (unsigned long long)(ours + others), done);
}

/* ---- Processes, signals, plugins ------------------------------------------------------------- */

static void fork_children(int count)
{
    int ended = 0;
    for (int i = 0; i < count; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            sink = child_work(SLICE * 5);
            _exit(7);
        }
        int status;
        if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
            WEXITSTATUS(status) == 7) {
            ended++;
        }
    }
    printf("done children %d\n", ended);
}

static void exec_self(char **argv, int left)
{
    char count[16];
    sink = alpha(SLICE * 20);
    if (!left) {
        printf("done exec 0\n");
        return;
    }
    snprintf(count, sizeof(count), "%d", left - 1);
    char *const again[] = { argv[0], (char *)"--exec-self", count, NULL };
    fflush(stdout);
    execv("/proc/self/exe", again);
    perror("execv");
    exit(1);
}

static void in_handlers(int count)
{
    struct sigaction action = { .sa_handler = handler };
    uint64_t outside = 0, inside = 0, before = now(CLOCK_THREAD_CPUTIME_ID);
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < count; i++) {
        sink = alpha(SLICE * turns);
        const uint64_t between = now(CLOCK_THREAD_CPUTIME_ID);
        raise(SIGUSR1);
        const uint64_t after = now(CLOCK_THREAD_CPUTIME_ID);
        outside += between - before;
        inside += after - between;
        before = after;
    }
    printf("truth alpha %llu\ntruth handler %llu\ndone signals %d\n",
           (unsigned long long)outside, (unsigned long long)inside, count);
}

#ifndef BURN_STATIC /* which cannot load anything */
static void load_and_unload(const char *path, int count)
{
    int loaded = 0;
    for (int i = 0; i < count; i++) {
        void *plugin = dlopen(path, RTLD_NOW);
        if (!plugin) break;
        uint64_t (*work)(uint64_t);
        *(void **)&work = dlsym(plugin, "plugin_burn");
        if (work) sink = work(SLICE * 2);
        dlclose(plugin);
        loaded += work != NULL;
    }
    printf("done plugins %d\n", loaded);
}
#endif

/* ---- Options --------------------------------------------------------------------------------- */

static int usage(void)
{
    fprintf(stderr, "usage: burn [--seconds S] [--recursion N] [--turns N] [--spans] [--wait] "
                    "[--threads N | --sleep-mutex | --ping-pong N | --fork N | --exec-self N | "
                    "--signal N | --attach N | --churn N | --dlopen N PLUGIN]\n");
    return 2;
}

int main(int argc, char **argv)
{
    int i = 1;
    for (; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "0";
        if (!strcmp(argv[i], "--seconds")) {
            seconds = atof(next), i++;
        } else if (!strcmp(argv[i], "--recursion")) {
            recursion = atoi(next), i++;
        } else if (!strcmp(argv[i], "--turns")) {
            turns = strtoull(next, NULL, 10), i++;
        } else if (!strcmp(argv[i], "--spans")) {
            spans = 1;
        } else if (!strcmp(argv[i], "--wait")) {
            print_ranges();
            wait_for_line();
        } else {
            break;
        }
    }
    const char *mode = i < argc ? argv[i] : "--threads";
    const int count = i + 1 < argc ? atoi(argv[i + 1]) : 2;
    print_ranges();
    if (!strcmp(mode, "--threads") && count <= THREADS_MAX) {
        burn_threads(count);
    } else if (!strcmp(mode, "--attach") && count <= THREADS_MAX) {
        burn_waiting(count);
    } else if (!strcmp(mode, "--churn")) {
        churn_threads(count);
    } else if (!strcmp(mode, "--sleep-mutex")) {
        sleep_mutex();
    } else if (!strcmp(mode, "--ping-pong")) {
        ping_pong(count);
    } else if (!strcmp(mode, "--fork")) {
        fork_children(count);
    } else if (!strcmp(mode, "--exec-self")) {
        exec_self(argv, count);
    } else if (!strcmp(mode, "--signal")) {
        in_handlers(count);
#ifndef BURN_STATIC
    } else if (!strcmp(mode, "--dlopen") && i + 2 < argc) {
        load_and_unload(argv[i + 2], count);
#endif
    } else {
        return usage();
    }
    return 0;
}
