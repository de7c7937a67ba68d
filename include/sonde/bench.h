/* bench.h - benchmarks of functions in one header: nothing to link, C11 and C++11.
 *
 *     #include <sonde/bench.h>
 *
 *     SONDE_BENCH(copy)                                   // the argument `state` is its state
 *     {
 *         const size_t bytes = (size_t)sonde_bench_param(state);
 *         char *from = make(bytes), *to = make(bytes);    // not timed
 *         sonde_bench_bytes(state, bytes);                // by iteration: bytes per second too
 *         SONDE_BENCH_LOOP(state) {                       // timed
 *             memcpy(to, from, bytes);
 *             SONDE_BENCH_KEEP(to);
 *         }
 *         free(from), free(to);                           // not timed
 *     }
 *     SONDE_BENCH_PARAMS(copy, 64, 4096, 1 << 20)         // one case each; behind SONDE_BENCH
 *     SONDE_BENCH_THREADS(copy, 1, 2, 4)                  // times one each
 *
 *     SONDE_BENCH_MAIN()                                  // in one of the files that are linked
 *
 * `sonde bench run PROGRAM` runs the cases in random order, in several processes, until they are
 * known well enough, and keeps what it found. The program alone prints a short table: enough to see
 * that it works, without intervals.
 *
 * With glibc before 2.34 link with -pthread. The file of SONDE_BENCH_MAIN() needs POSIX: with
 * -std=c11 include this header first, or compile with -D_POSIX_C_SOURCE=200809L.
 *
 * What is run how often is told from outside, in lines of text over two descriptors:
 *
 *     PROGRAM --serve IN OUT
 *     > list                    < {"case":"copy/64/threads:2","name":"copy","param":64,"threads":2}
 *                               < …, one a case, and {"end":true,"cases":9,"protocol":1}
 *     > run 0 100000            < {"iterations":100000,"real_ns":…,"cpu_ns":…,"bytes":…,"items":…}
 *                               < or {"error":"why"}
 *
 * where iterations are those of one thread, real_ns the time of the slowest, and bytes and items
 * are by iteration. Rejected: a program that decides by itself how often to run, since the order of
 * cases and the number of processes are what makes figures of two builds comparable. */
#ifndef SONDE_BENCH_H
#define SONDE_BENCH_H

#if defined(__STRICT_ANSI__) && !defined(__cplusplus) && !defined(_GNU_SOURCE) && \
    !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif

#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SONDE_BENCH_PROTOCOL 1
#define SONDE_BENCH_THREADS_MAX 256u
#define SONDE_BENCH_CASES_MAX 10000u

/* ---- Simple ---------------------------------------------------------------------------------- */

struct sonde_bench;

/* A benchmark: a function of its own name with the argument `struct sonde_bench *state`. What is
 * before and behind its loop is not timed. */
#define SONDE_BENCH(id)                                                                           \
    static void sonde__bench_run_##id(struct sonde_bench *state);                                 \
    static struct sonde__bench_def sonde__bench_def_##id = {                                      \
        #id, sonde__bench_run_##id, NULL, 0, NULL, 0, { 0, 0, 0 }, NULL                           \
    };                                                                                            \
    __attribute__((constructor)) static void sonde__bench_add_##id(void)                          \
    {                                                                                             \
        sonde__bench_add(&sonde__bench_def_##id);                                                 \
    }                                                                                             \
    static void sonde__bench_run_##id(struct sonde_bench *state)

/* The loop that is timed, once a run; it must not be left by break, goto or return. */
#define SONDE_BENCH_LOOP(state)                                                                   \
    for (uint64_t sonde__left = sonde__bench_begin(state);                                        \
         sonde__left ? (sonde__left--, 1) : sonde__bench_end(state);)

/* value is taken to be used, and so has to be computed; and all of memory to be read and
 * written. */
#define SONDE_BENCH_KEEP(value) __asm__ __volatile__("" : : "r,m"(value) : "memory")
/* All that was written to memory so far has to be there. */
#define SONDE_BENCH_CLOBBER() __asm__ __volatile__("" : : : "memory")

/* int main(): in one of the files that are linked. */
#define SONDE_BENCH_MAIN()                                                                        \
    SONDE__BENCH_C struct sonde__bench_def *sonde__bench_first;                                   \
    struct sonde__bench_def *sonde__bench_first = NULL;                                           \
    int main(int argc, char **argv)                                                               \
    {                                                                                             \
        return sonde__bench_main(argc, argv);                                                     \
    }

/* ---- Cases ----------------------------------------------------------------------------------- */

/* One case for each of these integers. */
#define SONDE_BENCH_PARAMS(id, ...)                                                               \
    static const int64_t sonde__bench_params_##id[] = { __VA_ARGS__ };                            \
    __attribute__((constructor)) static void sonde__bench_set_params_##id(void)                   \
    {                                                                                             \
        sonde__bench_def_##id.params = sonde__bench_params_##id;                                  \
        sonde__bench_def_##id.param_count =                                                       \
            sizeof(sonde__bench_params_##id) / sizeof(sonde__bench_params_##id[0]);               \
    }                                                                                             \
    struct sonde_bench /* so that a semicolon may follow */

/* Instead: low, low × factor, … and high. factor is at least 2, low at least 1. */
#define SONDE_BENCH_RANGE(id, low, high, factor)                                                  \
    __attribute__((constructor)) static void sonde__bench_set_range_##id(void)                    \
    {                                                                                             \
        sonde__bench_def_##id.range[0] = (low);                                                   \
        sonde__bench_def_##id.range[1] = (high);                                                  \
        sonde__bench_def_##id.range[2] = (factor);                                                \
    }                                                                                             \
    struct sonde_bench

/* And for each of these numbers of threads, which run the function at the same time and enter their
 * loops together. */
#define SONDE_BENCH_THREADS(id, ...)                                                              \
    static const unsigned sonde__bench_threads_##id[] = { __VA_ARGS__ };                          \
    __attribute__((constructor)) static void sonde__bench_set_threads_##id(void)                  \
    {                                                                                             \
        sonde__bench_def_##id.threads = sonde__bench_threads_##id;                                \
        sonde__bench_def_##id.thread_count =                                                      \
            sizeof(sonde__bench_threads_##id) / sizeof(sonde__bench_threads_##id[0]);             \
    }                                                                                             \
    struct sonde_bench

#ifdef __cplusplus
#define SONDE__BENCH_C extern "C"
#else
#define SONDE__BENCH_C extern
#endif

/* Private: a benchmark, and the list of them. */
struct sonde__bench_def {
    const char *name;
    void (*run)(struct sonde_bench *state);
    const int64_t *params;
    size_t param_count;
    const unsigned *threads;
    size_t thread_count;
    int64_t range[3];
    struct sonde__bench_def *next;
};
SONDE__BENCH_C struct sonde__bench_def *sonde__bench_first;

/* What a thread that runs a benchmark knows. All fields are private. */
struct sonde_bench {
    uint64_t iterations;
    int64_t param;
    unsigned thread, threads;
    uint64_t bytes, items;
    const char *failed;
    int stage;                    /* 0: before its loop, 1: inside, 2: behind */
    uint64_t begin_ns, end_ns, pause_ns, paused_ns;
    uint64_t cpu_ns, cpu_pause_ns;
    void (*enter)(struct sonde_bench *state);  /* of the file of SONDE_BENCH_MAIN */
    void (*clock)(uint64_t *real_ns, uint64_t *cpu_ns);
    void *gate;
    const struct sonde__bench_def *def;
};

static inline int64_t sonde_bench_param(const struct sonde_bench *state) { return state->param; }
static inline unsigned sonde_bench_thread(const struct sonde_bench *state) { return state->thread; }
static inline unsigned sonde_bench_threads(const struct sonde_bench *state)
{
    return state->threads;
}
/* How often the loop will run: for what has to be prepared for each. */
static inline uint64_t sonde_bench_iterations(const struct sonde_bench *state)
{
    return state->iterations;
}

/* What one iteration of one thread works on. */
static inline void sonde_bench_bytes(struct sonde_bench *state, uint64_t bytes)
{
    state->bytes = bytes;
}
static inline void sonde_bench_items(struct sonde_bench *state, uint64_t items)
{
    state->items = items;
}

/* It cannot be measured: why, a text that stays. Then return, also from inside of the loop. */
static inline void sonde_bench_fail(struct sonde_bench *state, const char *why)
{
    state->failed = why;
}

/* Inside of the loop: what is between is not timed. Both read clocks, which takes about a
 * microsecond; work that is shorter than that is better prepared before the loop. */
static inline void sonde_bench_pause(struct sonde_bench *state)
{
    state->clock(&state->pause_ns, &state->cpu_pause_ns);
}
static inline void sonde_bench_resume(struct sonde_bench *state)
{
    uint64_t now, cpu;
    state->clock(&now, &cpu);
    state->paused_ns += now - state->pause_ns;
    state->cpu_ns += cpu - state->cpu_pause_ns; /* cpu_ns is the clock at the beginning */
}

/* ---- Private --------------------------------------------------------------------------------- */

/* Behind the others, so that they are in the order of the file. */
static inline void sonde__bench_add(struct sonde__bench_def *def)
{
    struct sonde__bench_def **at = &sonde__bench_first;
    while (*at) at = &(*at)->next;
    *at = def;
}

static inline uint64_t sonde__bench_begin(struct sonde_bench *state)
{
    if (state->stage) {
        state->failed = "it has two loops";
        return 0;
    }
    state->enter(state);
    state->stage = 1;
    state->clock(&state->begin_ns, &state->cpu_ns);
    SONDE_BENCH_CLOBBER();
    return state->iterations;
}

static inline int sonde__bench_end(struct sonde_bench *state)
{
    uint64_t cpu;
    SONDE_BENCH_CLOBBER();
    if (state->stage != 1) return 0;
    state->clock(&state->end_ns, &cpu);
    state->cpu_ns = cpu - state->cpu_ns;
    state->stage = 2;
    return 0;
}

#ifdef CLOCK_MONOTONIC

static inline uint64_t sonde__bench_clock_ns(clockid_t id)
{
    struct timespec t;
    if (clock_gettime(id, &t)) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void sonde__bench_clock(uint64_t *real_ns, uint64_t *cpu_ns)
{
    *cpu_ns = sonde__bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    *real_ns = sonde__bench_clock_ns(CLOCK_MONOTONIC);
}

/* Threads begin their loops together. */
struct sonde__bench_gate {
    pthread_mutex_t lock;
    pthread_cond_t open;
    unsigned missing;
};

static inline void sonde__bench_enter(struct sonde_bench *state)
{
    struct sonde__bench_gate *g = (struct sonde__bench_gate *)state->gate;
    if (!g) return;
    pthread_mutex_lock(&g->lock);
    if (--g->missing == 0) pthread_cond_broadcast(&g->open);
    while (g->missing) pthread_cond_wait(&g->open, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static inline void *sonde__bench_thread(void *arg)
{
    struct sonde_bench *state = (struct sonde_bench *)arg;
    state->def->run(state);
    if (state->stage == 0) sonde__bench_enter(state); /* others wait for it */
    return NULL;
}

/* One case. */
struct sonde__bench_case {
    const struct sonde__bench_def *def;
    int64_t param;
    unsigned threads;
    int has_param;
};

/* How many values of its parameter a benchmark has, 0 if it has none; *out is value number at. */
static inline size_t sonde__bench_param_at(const struct sonde__bench_def *d, size_t at,
                                           int64_t *out)
{
    size_t count = 0;
    if (d->param_count) {
        if (at < d->param_count) *out = d->params[at];
        return d->param_count;
    }
    if (d->range[0] < 1 || d->range[2] < 2) return 0;
    for (int64_t v = d->range[0]; v < d->range[1] && count < SONDE_BENCH_CASES_MAX; count++) {
        if (count == at) *out = v;
        v = v > d->range[1] / d->range[2] ? d->range[1] : v * d->range[2];
    }
    if (count == at) *out = d->range[1];
    return count + 1;
}

/* 1 and case number index, or 0: there are not so many. */
static inline int sonde__bench_case_at(size_t index, struct sonde__bench_case *out)
{
    for (const struct sonde__bench_def *d = sonde__bench_first; d; d = d->next) {
        int64_t param = 0;
        const size_t params = sonde__bench_param_at(d, 0, &param), rows = params ? params : 1;
        const size_t columns = d->thread_count ? d->thread_count : 1;
        if (index >= rows * columns) {
            index -= rows * columns;
            continue;
        }
        if (params) sonde__bench_param_at(d, index / columns, &param);
        out->def = d;
        out->param = param;
        out->has_param = params != 0;
        out->threads = d->thread_count ? d->threads[index % columns] : 1;
        return 1;
    }
    return 0;
}

static inline void sonde__bench_case_name(const struct sonde__bench_case *c, char *out, size_t size)
{
    char param[32] = "", threads[32] = "";
    if (c->has_param) snprintf(param, sizeof(param), "/%" PRId64, c->param);
    if (c->def->thread_count) snprintf(threads, sizeof(threads), "/threads:%u", c->threads);
    snprintf(out, size, "%s%s%s", c->def->name, param, threads);
}

struct sonde__bench_sample {
    uint64_t real_ns, cpu_ns, bytes, items;
    const char *error;
};

/* The time of the slowest thread, and the CPU time of all. */
static inline void sonde__bench_sum(const struct sonde_bench *states, unsigned count,
                                    struct sonde__bench_sample *out)
{
    memset(out, 0, sizeof(*out));
    for (unsigned i = 0; i < count; i++) {
        const struct sonde_bench *s = &states[i];
        if (s->failed) out->error = s->failed;
        else if (s->stage == 0) out->error = "it has no SONDE_BENCH_LOOP";
        else if (s->stage == 1) out->error = "its loop was left by break, goto or return";
        if (out->error) return;
        const uint64_t passed = s->end_ns - s->begin_ns;
        const uint64_t real = passed > s->paused_ns ? passed - s->paused_ns : 0;
        if (real > out->real_ns) out->real_ns = real;
        out->cpu_ns += s->cpu_ns;
        out->bytes = s->bytes;
        out->items = s->items;
    }
}

static inline void sonde__bench_take(const struct sonde__bench_case *c, uint64_t iterations,
                                     struct sonde__bench_sample *out)
{
    static struct sonde_bench states[SONDE_BENCH_THREADS_MAX];
    static pthread_t threads[SONDE_BENCH_THREADS_MAX];
    struct sonde__bench_gate gate;
    unsigned started = 0;
    memset(out, 0, sizeof(*out));
    if (c->threads < 1 || c->threads > SONDE_BENCH_THREADS_MAX) {
        out->error = "it asks for no threads, or for more than 256";
        return;
    }
    pthread_mutex_init(&gate.lock, NULL);
    pthread_cond_init(&gate.open, NULL);
    gate.missing = c->threads;
    for (unsigned i = 0; i < c->threads; i++) {
        memset(&states[i], 0, sizeof(states[i]));
        states[i].iterations = iterations;
        states[i].param = c->param;
        states[i].thread = i;
        states[i].threads = c->threads;
        states[i].enter = sonde__bench_enter;
        states[i].clock = sonde__bench_clock;
        states[i].gate = c->threads > 1 ? &gate : NULL;
        states[i].def = c->def;
    }
    if (c->threads == 1) {
        sonde__bench_thread(&states[0]);
    } else {
        for (; started < c->threads; started++) {
            if (pthread_create(&threads[started], NULL, sonde__bench_thread, &states[started])) {
                break;
            }
        }
        if (started < c->threads) { /* those that run must not wait for those that never will */
            pthread_mutex_lock(&gate.lock);
            gate.missing -= c->threads - started;
            if (!gate.missing) pthread_cond_broadcast(&gate.open);
            pthread_mutex_unlock(&gate.lock);
        }
        for (unsigned i = 0; i < started; i++) pthread_join(threads[i], NULL);
    }
    pthread_cond_destroy(&gate.open);
    pthread_mutex_destroy(&gate.lock);
    sonde__bench_sum(states, c->threads, out);
    if (c->threads > 1 && started < c->threads) out->error = "a thread could not be started";
}

/* ---- The program ----------------------------------------------------------------------------- */

static inline size_t sonde__bench_list(FILE *out)
{
    struct sonde__bench_case c;
    char name[256];
    size_t count = 0;
    for (; count < SONDE_BENCH_CASES_MAX && sonde__bench_case_at(count, &c); count++) {
        sonde__bench_case_name(&c, name, sizeof(name));
        fprintf(out, "{\"case\":\"%s\",\"name\":\"%s\",\"param\":", name, c.def->name);
        if (c.has_param) fprintf(out, "%" PRId64, c.param);
        else fputs("null", out);
        fprintf(out, ",\"threads\":%u}\n", c.threads);
    }
    return count;
}

static inline void sonde__bench_put_sample(FILE *out, uint64_t iterations,
                                           const struct sonde__bench_sample *s)
{
    if (!s->error) {
        fprintf(out, "{\"iterations\":%" PRIu64 ",\"real_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64
                ",\"bytes\":%" PRIu64 ",\"items\":%" PRIu64 "}\n", iterations, s->real_ns,
                s->cpu_ns, s->bytes, s->items);
        return;
    }
    fputs("{\"error\":\"", out);
    for (const char *c = s->error; *c; c++) {
        fputc((unsigned char)*c < 0x20 || *c == '"' || *c == '\\' ? ' ' : *c, out);
    }
    fputs("\"}\n", out);
}

/* Until there is nothing more to read. */
static inline int sonde__bench_serve(int in_fd, int out_fd)
{
    FILE *in = fdopen(in_fd, "r"), *out = fdopen(out_fd, "w");
    char line[128];
    if (!in || !out) return 1;
    while (fgets(line, sizeof(line), in)) {
        struct sonde__bench_case c;
        struct sonde__bench_sample s;
        size_t index;
        uint64_t iterations;
        if (!strcmp(line, "list\n")) {
            const size_t count = sonde__bench_list(out);
            fprintf(out, "{\"end\":true,\"cases\":%lu,\"protocol\":%d}\n", (unsigned long)count,
                    SONDE_BENCH_PROTOCOL);
        } else if (sscanf(line, "run %zu %" SCNu64, &index, &iterations) == 2 && iterations &&
                   sonde__bench_case_at(index, &c)) {
            sonde__bench_take(&c, iterations, &s);
            sonde__bench_put_sample(out, iterations, &s);
        } else {
            fputs("{\"error\":\"not understood\"}\n", out);
        }
        if (fflush(out)) return 1;
    }
    return 0;
}

/* As many iterations as take about ns; 0 = it failed, and out says why. */
static inline uint64_t sonde__bench_calibrate(const struct sonde__bench_case *c, uint64_t ns,
                                              struct sonde__bench_sample *out)
{
    uint64_t n = 1;
    for (;;) {
        sonde__bench_take(c, n, out);
        if (out->error) return 0;
        if (out->real_ns >= ns || n > UINT64_C(1) << 40) return n;
        const double more = (double)ns / (double)(out->real_ns ? out->real_ns : 1) * 1.2;
        n = (uint64_t)((double)n * (more < 10 ? more : 10)) + 1;
    }
}

/* The table of a program that is run alone: the least of a few samples. */
static inline int sonde__bench_table(const char *filter)
{
    struct sonde__bench_case c;
    char name[256];
    size_t shown = 0;
    int status = 0;
    for (size_t i = 0; i < SONDE_BENCH_CASES_MAX && sonde__bench_case_at(i, &c); i++) {
        struct sonde__bench_sample s, least;
        sonde__bench_case_name(&c, name, sizeof(name));
        if (filter && !strstr(name, filter)) continue;
        shown++;
        const uint64_t n = sonde__bench_calibrate(&c, 20000000, &least);
        for (int k = 0; k < 4 && !least.error; k++) {
            sonde__bench_take(&c, n, &s);
            if (s.error || s.real_ns < least.real_ns) least = s;
        }
        if (least.error) {
            printf("%-40s %s\n", name, least.error);
            status = 1;
            continue;
        }
        const double each = (double)least.real_ns / (double)n, all = (double)c.threads;
        printf("%-40s %12.2f ns", name, each);
        if (least.bytes) printf(" %10.1f MB/s", (double)least.bytes * all / each * 1e3);
        if (least.items) printf(" %10.3g items/s", (double)least.items * all / each * 1e9);
        putchar('\n');
        fflush(stdout);
    }
    if (!shown) fprintf(stderr, "no benchmark's name has '%s' in it\n", filter ? filter : "");
    return shown ? status : 2;
}

static inline int sonde__bench_main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        sonde__bench_list(stdout);
        return fflush(stdout) ? 1 : 0;
    }
    if (argc == 4 && !strcmp(argv[1], "--serve")) {
        return sonde__bench_serve(atoi(argv[2]), atoi(argv[3]));
    }
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        fprintf(stderr, "usage: %s [PART-OF-A-NAME] | --list\n"
                "`sonde bench run` runs it with intervals.\n", argv[0]);
        return 2;
    }
    return sonde__bench_table(argc == 2 ? argv[1] : NULL);
}

#endif /* CLOCK_MONOTONIC */

#endif
