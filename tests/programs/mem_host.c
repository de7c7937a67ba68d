/* mem_host - a program that knows what it allocates: `mem_host MODE [N]`. Each place that allocates
 * is a function in a section of its own; at the end the program says for each
 *     site NAME START STOP allocations bytes frees bytes-freed
 * Otherwise it prints the same in every run, profiled or not. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SITES(X) X(one) X(two) X(three) X(four) X(early) X(deep) X(tls) X(handler) X(map) X(remap)

struct site {
    const char *name;
    const char *start, *stop;
    uint64_t allocs, bytes, frees, freed;
};

#define X(name) extern const char __start_site_##name[], __stop_site_##name[];
SITES(X)
#undef X

enum {
#define X(name) AT_##name,
    SITES(X)
#undef X
    SITE_COUNT
};

static struct site sites[] = {
#define X(name) { #name, __start_site_##name, __stop_site_##name, 0, 0, 0, 0 },
    SITES(X)
#undef X
};

#define IN(name) __attribute__((noinline, section("site_" #name)))
#define ADD(x, n) __atomic_fetch_add(&(x), (n), __ATOMIC_RELAXED)

static int failures;

#define CHECK(what)                                                                            \
    do {                                                                                       \
        if (!(what)) {                                                                         \
            printf("FAILED: %s (line %d)\n", #what, __LINE__);                                 \
            failures++;                                                                        \
        }                                                                                      \
    } while (0)

/* ---- Places ---------------------------------------------------------------------------------- */

static void *came(int at, void *p, size_t n)
{
    if (!p) return NULL;
    ADD(sites[at].allocs, 1);
    ADD(sites[at].bytes, n);
    return p;
}

static void went(int at, size_t n)
{
    ADD(sites[at].frees, 1);
    ADD(sites[at].freed, n);
}

static void drop(int at, void *p, size_t n)
{
    free(p);
    went(at, n);
}

IN(one) static void *one(size_t n) { return came(AT_one, malloc(n), n); }
IN(two) static void *two(size_t n) { return came(AT_two, calloc(n / 8, 8), n / 8 * 8); }
IN(tls) static void *tls(size_t n) { return came(AT_tls, malloc(n), n); }
IN(early) static void *early(size_t n) { return came(AT_early, malloc(n), n); }
IN(handler) static void *handler_place(size_t n) { return came(AT_handler, malloc(n), n); }

/* Seven kinds. */
IN(four) static void *four(int kind, size_t n)
{
    void *p = NULL;
    switch (kind % 7) {
    case 0: p = aligned_alloc(64, n); break;
    case 1: p = memalign(256, n); break;
    case 2: p = valloc(n); break;
    case 3: if (posix_memalign(&p, 128, n)) p = NULL; break;
    case 4: p = reallocarray(NULL, n, 1); break;
    case 5: p = realloc(NULL, n); break;
    default: p = pvalloc(n); /* not all allocators have it */
    }
    return came(AT_four, p, n);
}

IN(three) static void *three(void *p, int from, size_t had, size_t n)
{
    void *q = realloc(p, n);
    if (q || !n) went(from, had);
    return came(AT_three, q, n);
}

IN(deep) static void *deep(int depth, size_t n)
{
    if (!depth) return came(AT_deep, malloc(n), n);
    char room[24];
    __asm__ volatile("" ::"r"(room) : "memory");
    void *p = deep(depth - 1, n);
    __asm__ volatile("" ::"r"(room) : "memory"); /* no loop of it */
    return p;
}

static uint64_t next(uint64_t *r)
{
    *r ^= *r << 13;
    *r ^= *r >> 7;
    *r ^= *r << 17;
    return *r;
}

/* ---- Modes ----------------------------------------------------------------------------------- */

static void *early_block[3];

__attribute__((constructor)) static void before_main(void)
{
    for (int i = 0; i < 3; i++) early_block[i] = early(100);
    drop(AT_early, early_block[0], 100);
}

static void run_basic(int n)
{
    enum { KEEP = 3000 };
    static void *kept[KEEP];
    size_t size = 0;
    void *p = NULL;
    for (int i = 0; i < KEEP; i++) {
        const size_t bytes = (size_t)i;
        kept[i] = i % 3 == 0 ? one(bytes) : i % 3 == 1 ? two(bytes) : four(i, bytes);
        CHECK(kept[i] || !bytes);
        if (bytes) memset(kept[i], 1, i % 3 == 1 ? bytes / 8 * 8 : bytes);
        if (i % 3 == 2 && i % 7 < 4) CHECK((uintptr_t)kept[i] % 64 == 0);
    }
    for (int i = 0; i < KEEP; i += 2) {
        const size_t bytes = (size_t)i;
        drop(i % 3 == 0 ? AT_one : i % 3 == 1 ? AT_two : AT_four, kept[i],
             i % 3 == 1 ? bytes / 8 * 8 : bytes);
    }
    /* A chain of reallocs, through sizes that move and sizes that do not; one fails. */
    p = one(size = 24);
    int from = AT_one;
    for (int i = 0; i < n; i++) {
        const size_t to = 24 + (size_t)i * 37 % 100000;
        p = three(p, from, size, to);
        size = to;
        from = AT_three;
    }
    volatile size_t too_much = (size_t)1 << 60;
    errno = 0;
    CHECK(!three(p, from, size, too_much) && errno == ENOMEM);
    CHECK(!one(too_much) && errno == ENOMEM);
    CHECK(!reallocarray(NULL, too_much, 1000) && errno == ENOMEM);
    three(p, from, size, 0); /* a free */
    errno = E2BIG;
    for (int i = 0; i < 1000; i++) drop(AT_one, one(10), 10);
    CHECK(errno == E2BIG);
    free(NULL);
}

static void run_deep(int depth)
{
    for (int i = 0; i < 10; i++) {
        for (int d = 0; d < depth; d++) drop(AT_deep, deep(d, 50), 50);
    }
    deep(depth, 50);
}

/* Blocks that say what they are change hands. */
struct block { size_t size; int at; };
enum { EXCHANGE = 256 };
static struct block *exchange[EXCHANGE];

static void block_drop(struct block *b)
{
    if (b) drop(b->at, b, b->size);
}

static struct block *block_make(uint64_t *r)
{
    const size_t size = sizeof(struct block) + next(r) % 2000;
    const int kind = (int)(next(r) % 4);
    struct block *b = kind == 0 ? one(size) : kind == 1 ? two(size / 8 * 8)
                    : kind == 2 ? four((int)(next(r) % 6), size) : deep((int)(next(r) % 9), size);
    b->at = kind == 0 ? AT_one : kind == 1 ? AT_two : kind == 2 ? AT_four : AT_deep;
    b->size = kind == 1 ? size / 8 * 8 : size;
    return b;
}

static pthread_key_t key;
static int rounds;

static void *churn(void *arg)
{
    uint64_t r = 88172645463325252ull + (uint64_t)(uintptr_t)arg * 7777;
    if (key) pthread_setspecific(key, tls(64));
    for (int i = 0; i < rounds; i++) {
        struct block *b = block_make(&r);
        block_drop(__atomic_exchange_n(&exchange[next(&r) % EXCHANGE], b, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

static void exchange_empty(void)
{
    for (int i = 0; i < EXCHANGE; i += 2) {
        block_drop(exchange[i]);
        exchange[i] = NULL;
    }
}

/* Comes back until it has been called as often as it can be. */
static void at_thread_end(void *p)
{
    static __thread int times;
    drop(AT_tls, p, 64);
    if (++times < 4) pthread_setspecific(key, tls(64));
}

static void run_threads(int n)
{
    pthread_t t[16];
    pthread_key_create(&key, at_thread_end);
    rounds = n;
    for (int wave = 0; wave < 3; wave++) {
        for (uintptr_t i = 0; i < 16; i++) {
            CHECK(!pthread_create(&t[i], NULL, churn, (void *)(i + 1)));
        }
        for (int i = 0; i < 16; i++) pthread_join(t[i], NULL);
    }
    exchange_empty();
}

/* More than there are lanes for, all at once. */
static pthread_barrier_t all_here;

static void *crowd(void *arg)
{
    churn(arg);
    pthread_barrier_wait(&all_here);
    return churn(arg);
}

static void run_crowd(int n)
{
    enum { THREADS = 150 };
    pthread_t t[THREADS];
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    pthread_barrier_init(&all_here, NULL, THREADS);
    rounds = n;
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK(!pthread_create(&t[i], &attr, crowd, (void *)(i + 1)));
    }
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    exchange_empty();
}

/* Up by n pieces, then to the top and back in no time. */
static void run_spike(int n)
{
    void **p = calloc((size_t)n, sizeof(*p));
    for (int i = 0; i < n; i++) p[i] = two(10000);
    drop(AT_one, one(64 << 20), 64 << 20);
    for (int i = 0; i < n; i++) drop(AT_two, p[i], 10000);
    free(p);
}

static void run_hill(int n)
{
    void *kept[1000];
    if (n > 1000) n = 1000;
    for (int i = 0; i < n; i++) {
        kept[i] = one(10000);
        usleep(100);
    }
    while (n--) drop(AT_one, kept[n], 10000);
}

/* Allocates and waits to be killed. */
static void run_wait(int n)
{
    for (int i = 0; i < n; i++) one(100);
    puts("waiting");
    fflush(stdout);
    for (;;) pause();
}

static volatile int over;

static void *churn_until(void *arg)
{
    rounds = 1;
    for (uintptr_t i = 0; !over; i++) churn((void *)(i * 4 + (uintptr_t)arg));
    return NULL;
}

static int child(int raw)
{
    uint64_t r = 1234567;
    for (int i = 0; i < 300; i++) block_drop(block_make(&r));
    block_make(&r);
    return raw;
}

/* As often as n says, under load. Every fourth child comes without the C library knowing. */
static void run_fork(int n)
{
    pthread_t t[3];
    static int ended;
    for (uintptr_t i = 0; i < 3; i++) pthread_create(&t[i], NULL, churn_until, (void *)i);
    for (int i = 0; i < n; i++) {
        const pid_t pid = fork();
        if (!pid) _exit(child(0));
        int status;
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
        ended++;
    }
    over = 1;
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < n / 4; i++) {
        const pid_t raw = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (!raw) _exit(child(7));
        int status;
        CHECK(raw > 0 && waitpid(raw, &status, 0) == raw && WEXITSTATUS(status) == 7);
        const pid_t quick = vfork();
        if (!quick) {
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        CHECK(quick > 0 && waitpid(quick, &status, 0) == quick && status == 0);
    }
    exchange_empty();
    printf("children %d\n", ended);
}

/* With an allocator that does not mind: the handler comes in the middle of anything. */
static void *handler_kept[64];

static void handler(int number)
{
    static uint64_t r = 99;
    (void)number;
    const int saved = errno;
    void **slot = &handler_kept[next(&r) % 64];
    if (*slot) drop(AT_handler, *slot, 40);
    *slot = handler_place(40);
    errno = saved;
}

static void run_signal(int n)
{
    const struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { { 0, 0 }, { 0, 0 } };
    struct sigaction a;
    memset(&a, 0, sizeof(a));
    a.sa_handler = handler;
    a.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &a, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    uint64_t r = 4321;
    for (int i = 0; i < n; i++) block_drop(block_make(&r));
    setitimer(ITIMER_REAL, &never, NULL);
}

/* A plugin is loaded and unloaded; what it allocates is counted here. */
static void run_plugin(const char *path, int n)
{
    for (int i = 0; i < n; i++) {
        void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        CHECK(h != NULL);
        if (!h) return;
        void *(*take)(size_t) = (void *(*)(size_t))(uintptr_t)dlsym(h, "take");
        CHECK(take != NULL);
        void *p = take(333);
        CHECK(p != NULL);
        if (i % 2) free(p);
        dlclose(h);
        drop(AT_one, one(8), 8);
    }
}

/* Mappings, which come in pages and go in pieces. */
enum { PAGE = 4096 };

IN(map) static char *map(size_t pages, void *where, int fd)
{
    char *p = mmap(where, pages * PAGE - 100, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0) | (where ? MAP_FIXED : 0), fd, 0);
    CHECK(p != MAP_FAILED && (!where || p == where));
    return came(AT_map, p, pages * PAGE);
}

IN(remap) static char *remap(char *p, size_t had, size_t pages)
{
    char *q = mremap(p, had * PAGE, pages * PAGE, MREMAP_MAYMOVE);
    CHECK(q != MAP_FAILED);
    return came(AT_remap, q, pages * PAGE);
}

static void unmap(int at, char *p, size_t pages, int whole)
{
    CHECK(!munmap(p, pages * PAGE));
    ADD(sites[at].frees, (uint64_t)whole);
    ADD(sites[at].freed, pages * PAGE);
}

static void *map_churn(void *arg)
{
    for (int i = 0; i < rounds; i++) {
        char *p = map(3, NULL, -1);
        p[PAGE] = (char)i;
        unmap(AT_map, p, 3, 1);
    }
    return arg;
}

static void run_maps(int n)
{
    pthread_t t[4];
    const int exe = open("/proc/self/exe", O_RDONLY);
    char *a = map(10, NULL, -1);
    unmap(AT_map, a + 3 * PAGE, 3, 0);
    unmap(AT_map, a, 3, 1);             /* the lowest piece has the count */
    unmap(AT_map, a + 6 * PAGE, 4, 0);
    char *b = map(8, NULL, -1);
    b[0] = 'b';
    char *c = remap(b, 8, 20);
    went(AT_map, 8 * PAGE);
    CHECK(c[0] == 'b');
    map(2, c, -1);                      /* in its place */
    ADD(sites[AT_remap].freed, 2 * PAGE);
    CHECK(c[0] == 0);
    unmap(AT_remap, c + 10 * PAGE, 10, 0);
    map(1, NULL, exe);
    void *reserved = mmap(NULL, 1 << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(reserved != MAP_FAILED && !munmap(reserved, 1 << 30));
    errno = 0;
    CHECK(mmap(NULL, (size_t)1 << 60, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
              MAP_FAILED && errno == ENOMEM);
    CHECK(munmap(c + 1, PAGE) == -1 && errno == EINVAL);
    close(exe);
    rounds = n;
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, map_churn, NULL);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
}

/* Some are lost: `one` one by one, `two` in chains, and a mapping. All others can be got at: in all
 * the ways there are. */
static void *volatile kept_start[50], *volatile kept_middle, *volatile kept_chain;
static char **volatile kept_map;

__attribute__((noinline)) static void scrub(void)
{
    volatile char room[16384];
    for (size_t i = 0; i < sizeof(room); i++) room[i] = 0;
}

__attribute__((noinline)) static void lose(void)
{
    memset(one(40), 0, 40);
    void **head = two(64), **at = head;
    for (int i = 0; i < 4; i++) at = *at = two(64);
    *at = head; /* a ring, which points to itself */
}

static void *holds(void *arg)
{
    void *volatile mine[10];
    for (int i = 0; i < 10; i++) mine[i] = tls(64);
    sem_post(arg);
    for (;;) pause();
    return mine[0];
}

static void run_lost(int n)
{
    pthread_t t;
    sem_t ready;
    sem_init(&ready, 0, 0);
    for (int i = 0; i < n; i++) lose();
    for (int i = 0; i < 100; i++) CHECK(map(3, NULL, -1) != NULL);
    for (int i = 0; i < 50; i++) kept_start[i] = four(i % 6, (size_t)(100 + i * 500));
    kept_middle = (char *)deep(2, 3000) + 1500;
    void **at = kept_chain = deep(3, 48);
    for (int i = 0; i < 50; i++) at = *at = deep(i % 5, 48);
    kept_map = (char **)(void *)remap(map(2, NULL, -1), 2, 5);
    went(AT_map, 2 * PAGE);
    kept_map[1000] = handler_place(77);
    pthread_create(&t, NULL, holds, &ready);
    sem_wait(&ready);
    scrub();
}

/* Known sizes, for estimates: three places, much of it kept. */
static void *known_kept[1 << 16];

static void run_known(int n)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        void *p[3] = { one(48), two(1000), deep(3, (size_t)(200 + i % 7 * 400)) };
        static const int at[] = { AT_one, AT_two, AT_deep };
        const size_t size[] = { 48, 1000, (size_t)(200 + i % 7 * 400) };
        for (int k = 0; k < 3; k++) {
            if (i % 5 == k || count == 1 << 16) drop(at[k], p[k], size[k]);
            else known_kept[count++] = p[k];
        }
    }
    printf("kept %d\n", count);
}

static void say(void)
{
    for (int i = 0; i < SITE_COUNT; i++) {
        const struct site *s = &sites[i];
        printf("site %s %p %p %lu %lu %lu %lu\n", s->name, (const void *)s->start,
               (const void *)s->stop, (unsigned long)s->allocs, (unsigned long)s->bytes,
               (unsigned long)s->frees, (unsigned long)s->freed);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    const int n = argc > 2 ? atoi(argv[2]) : 0;
    if (!strcmp(mode, "basic")) run_basic(n);
    else if (!strcmp(mode, "deep")) run_deep(n);
    else if (!strcmp(mode, "threads")) run_threads(n);
    else if (!strcmp(mode, "crowd")) run_crowd(n);
    else if (!strcmp(mode, "hill")) run_hill(n);
    else if (!strcmp(mode, "spike")) run_spike(n);
    else if (!strcmp(mode, "wait")) run_wait(n);
    else if (!strcmp(mode, "fork")) run_fork(n);
    else if (!strcmp(mode, "maps")) run_maps(n);
    else if (!strcmp(mode, "lost")) run_lost(n);
    else if (!strcmp(mode, "signal")) run_signal(n);
    else if (!strcmp(mode, "known")) run_known(n);
    else if (!strcmp(mode, "plugin") && argc > 3) run_plugin(argv[3], n);
    else if (!strcmp(mode, "exec")) execl("/proc/self/exe", argv[0], "basic", argv[2], NULL);
    else if (!strcmp(mode, "environment")) return getenv("SONDE_HEAP") || getenv("LD_PRELOAD");
    else return 2;
    printf("heap %s\n", getenv("SONDE_HEAP") ? "still asked for" : "not asked for");
    say();
    return failures ? 1 : 0;
}
