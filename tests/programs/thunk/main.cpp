/* main.cpp - calls all of calls.h, in all ways there are to call and to come back, and sees whether
 * it noticed anything of who stood in front. `thunk burn SECONDS`: CPU time below llama_free. */
#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "calls.h"

static int failures;

#define CHECK(x)                                                                               \
    do {                                                                                       \
        if (!(x)) {                                                                            \
            fprintf(stderr, "thunk: line %d: %s\n", __LINE__, #x);                             \
            __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);                                \
        }                                                                                      \
    } while (0)

static void values()
{
    CHECK(llama_synchronize(1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10) == 285 + 880);
    struct large in;
    for (int i = 0; i < 40; i++) in.v[i] = i;
    const struct large out = llama_memory_clear(5, in, 3.0);
    int right = 0;
    for (int i = 0; i < 40; i++) right += out.v[i] == 5 * i + 3 && in.v[i] == i;
    CHECK(right == 40);
    CHECK(llama_perf_context_reset(0) == 0);
    CHECK(llama_perf_context_reset(9, 1L, 1., 2L, 2., 3L, 3., 4L, 4., 5L, 5., 6L, 6., 7L, 7., 8L, 8.,
                                   9L, 9.) == 90);
    const struct small s = llama_get_logits({ 7, 1.5 }, 2.25L);
    CHECK(s.a == 21 && s.b == 3.75);
    const struct pair p = llama_get_embeddings_ith({ 1.25, 2.5 });
    CHECK(p.a == 2.5 && p.b == 1.25);
    const struct longs l = llama_get_embeddings_seq({ 3, -4 });
    CHECK(l.a == -4 && l.b == 3);
    CHECK(llama_get_memory(1.0000000000000000001L, 3) == 3 * 1.0000000000000000001L);
    struct wide w;
    for (int i = 0; i < 8; i++) w.v[i] = i + 1;
    CHECK(llama_model_free(w, 64));
    CHECK(llama_set_warmup(200) == 200);
    errno = 77;
    CHECK(llama_vocab_is_eog(&failures, 2) == 1 && llama_vocab_is_eog(&failures, 3) == 0);
    CHECK(errno == 77);
    int (*by_address)(void *, int) = llama_vocab_is_eog;
    CHECK(by_address(&failures, 2) == 1);
}

/* ---- Other ways back --------------------------------------------------------------------------- */

struct counts {
    int *n;
    ~counts() { ++*n; }
};

static int thrown()
{
    int destroyed = 0, caught = 0;
    try {
        counts c{ &destroyed };
        llama_sampler_apply(31); /* from the third of three inside each other */
    } catch (int v) {
        caught = v;
    }
    return caught == 42 && destroyed == 1;
}

static int jumped()
{
    jmp_buf buf;
    volatile int marker = 5;
    if (setjmp(buf)) return marker == 5;
    thunk_jump = &buf;
    llama_sampler_apply(22);
    return 0;
}

static void *throws_inside(void *arg)
{
    (void)arg;
    llama_sampler_apply(1);
    return nullptr;
}

static int thrown_through()
{
    try {
        llama_free(throws_inside, nullptr);
    } catch (int v) {
        return v == 42;
    }
    return 0;
}

/* ---- Stacks -------------------------------------------------------------------------------------- */

/* Frames up to main, as the C library sees them. */
static void *reaches_main(void *arg)
{
    void *frames[64];
    const int n = backtrace(frames, 64);
    Dl_info info;
    for (int i = 0; i < n; i++) {
        if (dladdr(frames[i], &info) && info.dli_sname && !strcmp(info.dli_sname, "main")) return arg;
    }
    return nullptr;
}

/* A stack whose last bytes are the caller's frame: nothing above it can be read. */
static ucontext_t here, there;
static int top_result;

static void on_top()
{
    top_result = llama_set_warmup(3) == 3 && llama_vocab_is_eog(&failures, 2);
    swapcontext(&there, &here);
}

static int at_the_top()
{
    const size_t size = 1 << 18, page = (size_t)sysconf(_SC_PAGESIZE);
    char *stack = (char *)mmap(nullptr, size + page, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack + size, page, PROT_NONE)) return 0;
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = size;
    there.uc_link = nullptr;
    makecontext(&there, on_top, 0);
    swapcontext(&here, &there);
    munmap(stack, size + page);
    return top_result;
}

/* ---- Threads ------------------------------------------------------------------------------------- */

static void *on_thread(void *arg)
{
    for (int i = 0; i < 300; i++) {
        values();
        CHECK(thrown());
        CHECK(thrown_through());
    }
    llama_sampler_apply(13); /* ends it */
    return arg;
}

static void threads()
{
    pthread_t t[4];
    for (pthread_t &one : t) pthread_create(&one, nullptr, on_thread, nullptr);
    for (pthread_t one : t) {
        void *result = nullptr;
        pthread_join(one, &result);
        CHECK(result == (void *)7);
    }
}

/* ---- All of it ------------------------------------------------------------------------------------ */

static double seconds()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static volatile double sink;

extern "C" __attribute__((noinline)) void *burn_below(void *arg)
{
    const double until = seconds() + *(const double *)arg;
    while (seconds() < until) {
        for (int i = 0; i < 20000; i++) sink = sink + i * 0.5;
    }
    return arg;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "burn")) {
        double s = atof(argv[2]);
        return llama_free(burn_below, &s) != &s;
    }
    for (int i = 0; i < 3; i++) {
        values();
        CHECK(thrown());
        CHECK(jumped());
        CHECK(thrown_through());
        CHECK(at_the_top());
        CHECK(llama_free(reaches_main, &failures) == &failures);
    }
    threads();
    if (!failures) puts("as if nobody had been there");
    return failures != 0;
}
