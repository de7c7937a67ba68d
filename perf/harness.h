/* harness.h - how everything in perf/ is measured.
 *
 * A group is a set of variants of one operation: ours, the bare operation it cannot be faster
 * than, and peers. Variants take turns in short rounds (A B C A B C …), so that a noisy
 * neighbour, a change of clock rate or a warm cache hits all of them alike and ratios hold even
 * where nanoseconds do not. Of each variant's rounds the least, the quartiles and the median are
 * kept: other load only ever adds, so the least is what the operation costs and the spread says
 * how disturbed the run was. A round in which the kernel took the CPU away is thrown out and
 * counted, as long as enough others remain.
 *
 * Loop overhead is not subtracted: the bare operation runs in the same loop, so it stands beside
 * the figure instead of being guessed out of it.
 *
 * A new group is one file with BENCH_GROUP(…), named in CMakeLists.txt. The program writes one
 * JSON object a row; perf/run makes the table and the report of it.
 */
#ifndef SONDE_PERF_HARNESS_H
#define SONDE_PERF_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_VARIANTS_MAX 12
#define BENCH_PEERS_MAX 3

struct bench_variant {
    const char *name;
    /* Do it n times. 0: the harness's clock counts; else the nanoseconds it took. */
    uint64_t (*run)(uint64_t n, unsigned thread);
    double round_ms;  /* how long a round shall be; 0 = 2 ms, short enough to escape preemption */
};

struct bench_row {
    const char *id;       /* key in the report; never changes its meaning */
    const char *figure;   /* what the table says */
    const char *unit;     /* "ns", "us", "ms" */
    const char *ours, *bare, *peers[BENCH_PEERS_MAX];  /* variants by name; NULL = none */
    double budget;        /* in unit; 0 = none */
    const char *note;     /* NULL = none */
};

struct bench_group {
    const char *name;
    unsigned threads;                     /* 1, or 2: the same operation on two pinned CPUs */
    void (*setup)(void);                  /* before anything else; may be NULL */
    void (*teardown)(void);               /* may be NULL */
    struct bench_variant variants[BENCH_VARIANTS_MAX];  /* up to the first without a name */
    const struct bench_row *rows;         /* up to the first without an id */
    const struct bench_group *next;       /* the harness's own */
};

void bench_add(struct bench_group *g);

#define BENCH_GROUP(symbol)                                                                    \
    static struct bench_group symbol;                                                          \
    __attribute__((constructor)) static void symbol##_add(void) { bench_add(&symbol); }        \
    static struct bench_group symbol

/* Without the clobber the compiler would keep the thread's lane in a register across rounds of
 * the loop, which no real call site lets it do. */
#define BENCH_LOOP(i, n)                                                                       \
    for (uint64_t i = 0; i < (n); i++, bench_clobber())

static inline void bench_clobber(void) { __asm__ volatile("" ::: "memory"); }

/* Make the compiler believe that a value is needed. */
static inline void bench_use(uint64_t v) { __asm__ volatile("" ::"r"(v)); }

uint64_t bench_now_ns(void);

/* Values to record, the same for us and for peers: latencies of 50 us to 5 s, most near 5 ms. */
#define BENCH_LATENCIES 256u
const uint64_t *bench_latencies_ns(void);

/* Label values that change from call to call: sets of two. */
#define BENCH_LABEL_SETS 16u
extern const char *const bench_label_sets[BENCH_LABEL_SETS][2];

/* Say what is wrong and exit: a benchmark that cannot run must not report. */
void bench_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
