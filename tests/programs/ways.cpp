/* ways MODE N [PLUGIN…] - allocates N blocks by ways that it chooses at random: eight functions deep,
 * each one of two, whose sections are way_left and way_right, and in way_make the block itself. Its
 * size says which way it was, so whoever finds a stack of one size under frames of another has
 * mistaken one stack for another. MODE: on what kind of stack, or how the way back goes.
 *     site NAME START STOP 0 0 0 0
 * as mem_host prints them. */
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { LEVELS = 8, KEPT = 512, SIZE = 1000, STACK = 64 << 10, PAGE = 4096 };

#define SITES(X) X(way_left) X(way_right) X(way_make)
#define X(name) extern "C" const char __start_##name[], __stop_##name[];
SITES(X)
#undef X
#define IN(name) __attribute__((noinline, section(#name)))
#define STAYS(p) __asm__ volatile("" ::"r"(p) : "memory") /* no tail calls, no arrays left out */

enum back { RETURNS, THROWS, JUMPS };

static thread_local void *kept[KEPT];
static thread_local unsigned random_state = 1;
static thread_local jmp_buf out;
static int blocks;
static enum back back;

static unsigned next()
{
    random_state = random_state * 1103515245u + 12345u;
    return random_state >> 16;
}

IN(way_make) static void make(unsigned way)
{
    void **slot = &kept[next() % KEPT];
    free(*slot);
    *slot = malloc(SIZE + way);
    STAYS(slot);
    if (back == THROWS && next() % 2) throw way;
    if (back == JUMPS && next() % 2) longjmp(out, 1);
}

static void right(unsigned way, int levels);

/* Without a frame pointer, and with a frame pointer and as much stack as the way says. */
IN(way_left) static void left(unsigned way, int levels)
{
    char room[40];
    STAYS(room);
    if (!levels) make(way);
    else if (way >> (levels - 1) & 1) right(way, levels - 1);
    else left(way, levels - 1);
    STAYS(room);
}

IN(way_right) static void right(unsigned way, int levels)
{
    void *room = alloca(16 + (way & 3) * 16);
    STAYS(room);
    if (!levels) make(way);
    else if (way >> (levels - 1) & 1) right(way, levels - 1);
    else left(way, levels - 1);
    STAYS(room);
}

__attribute__((noinline)) static void go()
{
    const unsigned way = next() % (1u << LEVELS);
    if (setjmp(out)) return;
    try {
        if (way >> (LEVELS - 1)) right(way, LEVELS - 1);
        else left(way, LEVELS - 1);
    } catch (unsigned thrown) {
        if (thrown != way) abort();
    }
}

static void many()
{
    for (int i = 0; i < blocks; i++) go();
}

static void drop_all()
{
    for (void *&p : kept) {
        free(p);
        p = NULL;
    }
}

/* From other depths, so that the same frames are elsewhere. */
__attribute__((noinline)) static void deeper(int levels)
{
    char room[72];
    STAYS(room);
    if (levels) deeper(levels - 1);
    else go();
    STAYS(room);
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static void *thread_main(void *)
{
    many();
    drop_all();
    return NULL;
}

/* With nothing to be read before it and behind it. */
static char *stack_make(size_t bytes)
{
    char *p = (char *)mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + PAGE, bytes, PROT_READ | PROT_WRITE)) abort();
    return p + PAGE;
}

static void stack_drop(char *p, size_t bytes) { munmap(p - PAGE, bytes + 2 * PAGE); }

static void threads(size_t bytes, int own)
{
    for (int i = 0; i < 3; i++) {
        pthread_attr_t a;
        pthread_t t;
        char *stack = own ? stack_make(bytes) : NULL;
        pthread_attr_init(&a);
        if (own ? pthread_attr_setstack(&a, stack, bytes) : pthread_attr_setstacksize(&a, bytes)) abort();
        if (pthread_create(&t, &a, thread_main, NULL) || pthread_join(t, NULL)) abort();
        pthread_attr_destroy(&a);
        if (own) stack_drop(stack, bytes);
    }
}

static ucontext_t home, fibers[4];

static void fiber_main(int self)
{
    for (;;) {
        for (int i = 0; i < 8; i++) go();
        swapcontext(&fibers[self], &home);
    }
}

/* By itself: getcontext returns twice, for all the compiler knows, and then nobody's variables are safe. */
__attribute__((noinline)) static void fiber_make(int self, char *stack)
{
    getcontext(&fibers[self]);
    fibers[self].uc_stack.ss_sp = stack;
    fibers[self].uc_stack.ss_size = STACK;
    fibers[self].uc_link = &home;
    makecontext(&fibers[self], (void (*)())fiber_main, 1, self);
}

/* They are switched between, and end with their stacks, whose places others get. */
static void run_fibers()
{
    for (int round = 0; round < blocks / 512 + 2; round++) {
        char *stack[4];
        for (int i = 0; i < 4; i++) {
            stack[i] = stack_make(STACK);
            fiber_make(i, stack[i]);
        }
        for (int i = 0; i < 64; i++) {
            swapcontext(&home, &fibers[next() % 4]);
            go();
        }
        for (char *s : stack) stack_drop(s, STACK);
    }
}

static void on_signal(int) { many(); }

/* In a handler, on a stack of its own. */
static void run_alternate()
{
    stack_t s = {};
    struct sigaction a = {};
    s.ss_sp = stack_make(STACK);
    s.ss_size = STACK;
    a.sa_handler = on_signal;
    a.sa_flags = SA_ONSTACK;
    if (sigaltstack(&s, NULL) || sigaction(SIGUSR1, &a, NULL)) abort();
    raise(SIGUSR1);
    many();
    raise(SIGUSR1);
}

/* Through modules that are loaded in turn, where the last one was: at the same addresses there are
 * frames of another size. */
static void run_plugins(char **paths, int count)
{
    for (int i = 0; i < blocks / 64 + 4; i++) {
        void *module = dlopen(paths[i % count], RTLD_NOW);
        void (*way)(void (*)()) = module ? (void (*)(void (*)()))dlsym(module, "plugin_way") : NULL;
        if (!way) abort();
        for (int k = 0; k < 64; k++) way(go);
        dlclose(module);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[1] : "";
    if (argc > 2) blocks = atoi(argv[2]);
    if (!strcmp(mode, "throw")) back = THROWS;
    if (!strcmp(mode, "longjmp")) back = JUMPS;
    if (!strcmp(mode, "small")) threads(32 << 10, 0);
    else if (!strcmp(mode, "own")) threads(32 << 10, 1);
    else if (!strcmp(mode, "fibers")) run_fibers();
    else if (!strcmp(mode, "alternate")) run_alternate();
    else if (!strcmp(mode, "plugins") && argc > 3) run_plugins(argv + 3, argc - 3);
    else if (!strcmp(mode, "deep")) for (int i = 0; i < blocks; i++) deeper((int)(next() % 100));
    else if (back || !strcmp(mode, "plain")) many();
    else return 2;
    drop_all();
#define X(name) printf("site %s %lx %lx 0 0 0 0\n", #name, (uintptr_t)__start_##name, (uintptr_t)__stop_##name);
    SITES(X)
#undef X
    return 0;
}
