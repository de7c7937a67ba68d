#include "harness.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define ROUND_MS 2.0
#define ROUNDS_MAX 1000u
#define ROUNDS_MIN 5u          /* whatever the time limit says */
#define GROUP_SECONDS 6.0      /* and no longer, for operations that take milliseconds */
#define CLEAN_MIN 7u           /* undisturbed rounds that are enough to drop the others */

enum disturbance { CLEAN, PREEMPTED, APART, DISTURBANCES }; /* APART: two threads, not at once */

struct sample {
    double ns;      /* per operation */
    enum disturbance disturbance;
};

struct stats {
    double min, q1, median, q3;
    unsigned rounds, discarded;
};

static struct {
    const struct bench_group *first, **last;
    unsigned rounds;
    const char *only;
    FILE *out;
} bench = { .last = &bench.first, .rounds = 101 };

void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void bench_add(struct bench_group *g)
{
    *bench.last = g;
    bench.last = &g->next;
}

uint64_t bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- One round ----------------------------------------------------------------------------- */

struct turn {               /* what one thread does and how it went */
    const struct bench_variant *v;
    uint64_t n, begin_ns, end_ns;
    long switches;
};

static long preemptions(void)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    return u.ru_nivcsw;
}

static void take_turn(struct turn *t, unsigned thread)
{
    const long before = preemptions();
    t->begin_ns = bench_now_ns();
    const uint64_t own_ns = t->v->run(t->n, thread);
    t->end_ns = own_ns ? t->begin_ns + own_ns : bench_now_ns();
    t->switches = preemptions() - before;
}

/* The second thread spins for its turn, so that both start within a cache line's journey. */
static struct {
    pthread_t thread;
    struct turn turn;
    unsigned go, done;      /* count up together */
    int stop;
} second;

static void pin(unsigned nth)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof(all), &all)) {
        bench_die("sched_getaffinity: %s", strerror(errno));
    }
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || nth--) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof(one), &one)) {
            bench_die("cannot pin a thread to CPU %u: %s", cpu, strerror(errno));
        }
        return;
    }
}

static void *second_main(void *arg)
{
    (void)arg;
    pin(1);
    for (unsigned turn = 1;; turn++) {
        while (__atomic_load_n(&second.go, __ATOMIC_ACQUIRE) != turn) __builtin_ia32_pause();
        if (second.stop) return NULL;
        take_turn(&second.turn, 1);
        __atomic_store_n(&second.done, turn, __ATOMIC_RELEASE);
    }
}

static struct sample one_round(const struct bench_variant *v, uint64_t n, unsigned threads)
{
    struct turn t = { .v = v, .n = n };
    if (threads == 1) {
        take_turn(&t, 0);
        return (struct sample){ (double)(t.end_ns - t.begin_ns) / (double)n,
                                t.switches ? PREEMPTED : CLEAN };
    }
    second.turn = t;
    const unsigned turn = second.go + 1;
    __atomic_store_n(&second.go, turn, __ATOMIC_RELEASE);
    take_turn(&t, 0);
    while (__atomic_load_n(&second.done, __ATOMIC_ACQUIRE) != turn) __builtin_ia32_pause();

    /* The slower of the two, and only if they really ran side by side. */
    const uint64_t a = t.end_ns - t.begin_ns, b = second.turn.end_ns - second.turn.begin_ns;
    const uint64_t longer = a > b ? a : b;
    const uint64_t begin = t.begin_ns > second.turn.begin_ns ? t.begin_ns : second.turn.begin_ns;
    const uint64_t end = t.end_ns < second.turn.end_ns ? t.end_ns : second.turn.end_ns;
    const int apart = end <= begin || (double)(end - begin) < 0.8 * (double)longer;
    return (struct sample){ (double)longer / (double)n,
                            apart                                 ? APART
                            : t.switches || second.turn.switches ? PREEMPTED
                                                                  : CLEAN };
}

/* How many operations make a round, found by doubling. The better of two tries counts: the first
 * may be the one that maps memory, or the one that was disturbed. */
static uint64_t calibrate(const struct bench_variant *v, unsigned threads)
{
    const double want_ns = (v->round_ms > 0 ? v->round_ms : ROUND_MS) * 1e6;
    for (uint64_t n = 1;; n *= 2) {
        const double a = one_round(v, n, threads).ns, b = one_round(v, n, threads).ns;
        const double ns = a < b ? a : b;
        if (ns * (double)n >= want_ns / 2 || n >= 1ull << 32) {
            const double fit = want_ns / ns;
            return fit < 1 ? 1 : (uint64_t)fit;
        }
    }
}

/* ---- All rounds of a group ----------------------------------------------------------------- */

static int by_ns(const void *a, const void *b)
{
    const double x = ((const struct sample *)a)->ns, y = ((const struct sample *)b)->ns;
    return (x > y) - (x < y);
}

/* Keep the least disturbed rounds there are enough of. */
static struct stats stats_of(struct sample *s, unsigned total)
{
    unsigned count = 0;
    for (int worst = CLEAN; count < CLEAN_MIN && worst < DISTURBANCES; worst++) {
        count = 0;
        for (unsigned i = 0; i < total; i++) {
            if ((int)s[i].disturbance > worst) continue;
            const struct sample kept = s[i]; /* swapped to the front */
            s[i] = s[count];
            s[count++] = kept;
        }
    }
    qsort(s, count, sizeof(*s), by_ns);
    return (struct stats){ s[0].ns, s[count / 4].ns, s[count / 2].ns, s[count * 3 / 4].ns, count,
                           total - count };
}

static void measure(const struct bench_group *g, unsigned variants, struct stats *out)
{
    static struct sample samples[BENCH_VARIANTS_MAX][ROUNDS_MAX];
    uint64_t n[BENCH_VARIANTS_MAX];
    for (unsigned i = 0; i < variants; i++) n[i] = calibrate(&g->variants[i], g->threads);
    const uint64_t begin = bench_now_ns();
    unsigned rounds = 0;
    while (rounds < bench.rounds &&
           (rounds < ROUNDS_MIN || (double)(bench_now_ns() - begin) < GROUP_SECONDS * 1e9)) {
        for (unsigned i = 0; i < variants; i++) {
            samples[i][rounds] = one_round(&g->variants[i], n[i], g->threads);
        }
        rounds++;
    }
    for (unsigned i = 0; i < variants; i++) out[i] = stats_of(samples[i], rounds);
}

static void second_start(void)
{
    second.go = second.done = 0;
    second.stop = 0;
    if (pthread_create(&second.thread, NULL, second_main, NULL)) bench_die("no second thread");
}

static void second_stop(void)
{
    second.stop = 1;
    __atomic_store_n(&second.go, second.go + 1, __ATOMIC_RELEASE);
    pthread_join(second.thread, NULL);
}

/* ---- The report ---------------------------------------------------------------------------- */

static double in_unit(double ns, const char *unit)
{
    if (!strcmp(unit, "us")) return ns / 1e3;
    if (!strcmp(unit, "ms")) return ns / 1e6;
    return ns;
}

/* Names, ids and notes are ours and hold nothing that JSON would escape. */
static void put_stats(const struct bench_group *g, const struct stats *all, const char *name,
                      const char *unit)
{
    for (unsigned i = 0; name && i < BENCH_VARIANTS_MAX && g->variants[i].name; i++) {
        if (strcmp(g->variants[i].name, name)) continue;
        const struct stats *s = &all[i];
        fprintf(bench.out,
                "{\"name\":\"%s\",\"min\":%.4g,\"q1\":%.4g,\"median\":%.4g,\"q3\":%.4g,"
                "\"rounds\":%u,\"discarded\":%u}",
                name, in_unit(s->min, unit), in_unit(s->q1, unit), in_unit(s->median, unit),
                in_unit(s->q3, unit), s->rounds, s->discarded);
        return;
    }
    if (name) bench_die("group %s has no variant named %s", g->name, name);
    fputs("null", bench.out);
}

static void put_row(const struct bench_group *g, const struct bench_row *r,
                    const struct stats *all)
{
    fprintf(bench.out, "{\"id\":\"%s\",\"group\":\"%s\",\"figure\":\"%s\",\"unit\":\"%s\","
                       "\"threads\":%u,\"ours\":", r->id, g->name, r->figure, r->unit, g->threads);
    put_stats(g, all, r->ours, r->unit);
    fputs(",\"bare\":", bench.out);
    put_stats(g, all, r->bare, r->unit);
    fputs(",\"peers\":[", bench.out);
    for (unsigned i = 0; i < BENCH_PEERS_MAX && r->peers[i]; i++) {
        if (i) fputc(',', bench.out);
        put_stats(g, all, r->peers[i], r->unit);
    }
    fprintf(bench.out, "],\"budget\":%.6g,\"note\":\"%s\"}\n", r->budget, r->note ? r->note : "");
    fflush(bench.out);
}

static void run_group(const struct bench_group *g)
{
    struct stats all[BENCH_VARIANTS_MAX];
    unsigned variants = 0;
    cpu_set_t before;
    while (variants < BENCH_VARIANTS_MAX && g->variants[variants].name) variants++;
    if (g->setup) g->setup();
    if (g->threads == 2) {
        sched_getaffinity(0, sizeof(before), &before);
        if (CPU_COUNT(&before) < 2) {
            fprintf(stderr, "bench: %s needs two CPUs: skipped\n", g->name);
            return;
        }
        second_start();
        pin(0);
    }
    measure(g, variants, all);
    if (g->threads == 2) {
        second_stop();
        sched_setaffinity(0, sizeof(before), &before);
    }
    if (g->teardown) g->teardown();
    for (const struct bench_row *r = g->rows; r->id; r++) put_row(g, r, all);
}

int main(int argc, char **argv)
{
    static const char usage[] = "usage: %s [--out FILE] [--only GROUP-GLOB] [--rounds N]";
    bench.out = stdout;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 >= argc) bench_die(usage, argv[0]);
        if (!strcmp(argv[i], "--out")) {
            bench.out = fopen(argv[i + 1], "w");
            if (!bench.out) bench_die("cannot write %s: %s", argv[i + 1], strerror(errno));
        } else if (!strcmp(argv[i], "--only")) {
            bench.only = argv[i + 1];
        } else if (!strcmp(argv[i], "--rounds")) {
            const long n = strtol(argv[i + 1], NULL, 10);
            if (n < 1 || n > (long)ROUNDS_MAX) bench_die("--rounds: 1 to %u", ROUNDS_MAX);
            bench.rounds = (unsigned)n;
        } else {
            bench_die(usage, argv[0]);
        }
    }
    for (const struct bench_group *g = bench.first; g; g = g->next) {
        if (bench.only && fnmatch(bench.only, g->name, 0)) continue;
        fprintf(stderr, "bench: %s\n", g->name);
        run_group(g);
    }
    return fclose(bench.out) ? 1 : 0;
}
