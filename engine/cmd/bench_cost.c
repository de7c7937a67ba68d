/* bench_cost.c - see bench_cost.h.
 *
 * One request after the other through the whole engine: queue, batches, forward passes, sampling,
 * detokenizing. From one token to the next is one turn of it, with recording on or off for all of
 * it, in the order on, off, off, on and then the other way round, so that a context that grows, a
 * machine that slows down and caches that fill cancel out. The figure of four turns is
 * (on + on) / (off + off) − 1, and of these the median counts. Fours in which the kernel took the
 * CPU away are thrown out: what follows is slower too, until the caches are filled again. Beside
 * the clock there is the CPU time of the engine's thread, for machines where others are at work
 * too, and its instructions in user mode where the kernel counts them: with one thread that is all
 * of the work. */
#include "cmd/bench_cost.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "run/engine.h"
#include "sonde/sonde.h"

enum { FOURS_MAX = 100000, TURNS = 4, ANSWER = 256, WARM = 8 };

enum cost_figure { COST_WALL, COST_CPU, COST_INSTRUCTIONS, COST_FIGURES };

struct cost_reading { double of[COST_FIGURES]; }; /* ns, ns, a count */

struct cost {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int done, failed;
    int counter;                 /* perf event; -1 = there is none, -2 = not tried yet */
    int counter_errno;
    struct sonde_counter opener;
    uint32_t tokens;             /* of this request */
    struct cost_reading before, turn[TURNS];
    long switches_before;        /* of the thread, when this four began */
    size_t fours, discarded;
    double more[COST_FIGURES][FOURS_MAX]; /* of each four: the share that is more with recording */
    double off_ns[FOURS_MAX];    /* a turn without recording */
};

static int counter_open(void)
{
    struct perf_event_attr attr = { .type = PERF_TYPE_HARDWARE, .size = sizeof(attr),
                                    .config = PERF_COUNT_HW_INSTRUCTIONS, .exclude_kernel = 1,
                                    .exclude_hv = 1 };
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static struct cost_reading cost_read(const struct cost *c)
{
    struct timespec cpu;
    uint64_t counted = 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    if (c->counter < 0 || read(c->counter, &counted, sizeof(counted)) != sizeof(counted)) {
        counted = 0;
    }
    return (struct cost_reading){ { (double)sonde_ticks_ns(sonde_ticks()),
                                    (double)cpu.tv_sec * 1e9 + (double)cpu.tv_nsec,
                                    (double)counted } };
}

static long thread_switches(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nivcsw + usage.ru_nvcsw;
}

/* Every other four is off, on, on, off. */
static int cost_is_swapped(uint32_t token) { return token > WARM && (token - WARM) / TURNS % 2; }

static void cost_four_add(struct cost *c)
{
    const struct cost_reading *t = c->turn;
    const int swap = cost_is_swapped(c->tokens - 1);
    if (c->fours == FOURS_MAX) return;
    if (thread_switches() != c->switches_before) {
        c->discarded++;
        return;
    }
    for (int i = 0; i < COST_FIGURES; i++) {
        const double outer = t[0].of[i] + t[3].of[i], inner = t[1].of[i] + t[2].of[i];
        const double on = swap ? inner : outer, off = swap ? outer : inner;
        c->more[i][c->fours] = off > 0 ? on / off - 1 : 0;
    }
    c->off_ns[c->fours++] = (t[swap ? 0 : 1].of[COST_WALL] + t[swap ? 3 : 2].of[COST_WALL]) / 2;
}

/* On the engine's thread, between one turn and the next. */
static int cost_token(void *context, int32_t token, const char *piece, size_t bytes)
{
    (void)token;
    (void)piece;
    (void)bytes;
    struct cost *c = context;
    const struct cost_reading now = cost_read(c);
    if (c->counter == -2) {
        c->counter = counter_open();
        c->counter_errno = errno;
    }
    if (c->tokens > WARM) {
        const uint32_t at = (c->tokens - WARM - 1) % TURNS;
        for (int i = 0; i < COST_FIGURES; i++) c->turn[at].of[i] = now.of[i] - c->before.of[i];
        if (at + 1 == TURNS) cost_four_add(c);
    }
    const uint32_t next = c->tokens < WARM ? 0 : (c->tokens - WARM) % TURNS;
    const int outer = next == 0 || next == 3, on = cost_is_swapped(c->tokens) ? !outer : outer;
    c->tokens++;
    if (next == 0) c->switches_before = thread_switches();
    sonde_enable(on);
    /* The first record after a switch does more: it is done here. */
    sonde_counter_add(c->opener, 1);
    c->before = cost_read(c);
    return 0;
}

static void cost_end(void *context, enum engine_finish finish, const char *why,
                     const struct engine_timings *timings)
{
    (void)timings;
    struct cost *c = context;
    pthread_mutex_lock(&c->lock);
    if (finish == ENGINE_FAILED) {
        fprintf(stderr, "sonde-engine bench: %s\n", why);
        c->failed = 1;
    }
    c->done = 1;
    pthread_cond_signal(&c->ended);
    pthread_mutex_unlock(&c->lock);
}

/* ---- Output ---------------------------------------------------------------------------------- */

static int cost_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double cost_quantile(double *values, size_t count, double q)
{
    qsort(values, count, sizeof(*values), cost_order);
    return values[(size_t)((double)(count - 1) * q)];
}

static void cost_print(struct cost *c, int json)
{
    static const char *const names[COST_FIGURES] = { "time", "CPU time", "instructions" };
    static const char *const keys[COST_FIGURES] = { "time", "cpu", "instructions" };
    const size_t n = c->fours;
    const double turn_us = cost_quantile(c->off_ns, n, 0.5) * 1e-3;
    if (json) {
        printf("{\"turns\":%zu,\"discarded\":%zu,\"turn_us\":%.3f", n * TURNS, c->discarded * TURNS,
               turn_us);
    } else {
        printf("%zu turns of %.1f µs, every other one without recording; %zu more were disturbed\n",
               n * TURNS, turn_us, c->discarded * TURNS);
    }
    for (int i = 0; i < COST_FIGURES; i++) {
        const double median = 100 * cost_quantile(c->more[i], n, 0.5);
        const double low = 100 * cost_quantile(c->more[i], n, 0.25);
        const double high = 100 * cost_quantile(c->more[i], n, 0.75);
        const int known = i != COST_INSTRUCTIONS || c->counter >= 0;
        if (json && known) {
            printf(",\"%s_percent\":{\"q1\":%.4f,\"median\":%.4f,\"q3\":%.4f}", keys[i], low,
                   median, high);
        } else if (json) {
            printf(",\"%s_percent\":null", keys[i]);
        } else if (known) {
            printf("%-13s %+.3f %%   (half of the fours from %+.3f to %+.3f)\n", names[i], median,
                   low, high);
        } else {
            printf("%-13s cannot be counted here: %s\n", names[i], strerror(c->counter_errno));
        }
    }
    if (json) puts("}");
}

/* ---- Requests -------------------------------------------------------------------------------- */

static int cost_request(struct cost *c, struct engine *e, const int32_t *prompt, uint32_t count)
{
    struct engine_request r = { .prompt = prompt, .prompt_count = count, .tokens_max = ANSWER,
                                .sampler = { 0, 0, 1, 0, 0 }, .ignore_end = 1,
                                .on_token = cost_token, .on_end = cost_end, .context = c };
    struct fail why;
    uint64_t id;
    sonde_enable(1);
    sonde_request_begin(&r.sonde, &(struct sonde_request_info){
                                      .size = sizeof(struct sonde_request_info),
                                      .model = engine_name(e), .route = sonde_name("bench") });
    c->tokens = 0;
    c->done = 0;
    if (engine_submit(e, &r, &id, &why)) {
        sonde_request_end(&r.sonde, SONDE_ERROR, NULL);
        fprintf(stderr, "sonde-engine bench: %s\n", why.text);
        return -1;
    }
    pthread_mutex_lock(&c->lock);
    while (!c->done) pthread_cond_wait(&c->ended, &c->lock);
    pthread_mutex_unlock(&c->lock);
    return c->failed ? -1 : 0;
}

int bench_cost(const struct solo_options *o, uint32_t prompt_count, uint32_t seconds, int json)
{
    const struct engine_options options = { .model_path = o->model_path, .threads = o->threads,
                                            .slots = 1, .context = prompt_count + ANSWER + 8,
                                            .memory_limit = o->memory_limit,
                                            .device = o->device,
                                            .device_memory = o->device_memory };
    struct fail why;
    struct engine *e;
    struct cost *c = calloc(1, sizeof(*c));
    int32_t *prompt = malloc((prompt_count + 1) * sizeof(*prompt));
    if (!c || !prompt || !sonde_is_enabled() || engine_create(&options, &e, &why)) {
        fprintf(stderr, "sonde-engine bench: %s\n",
                !c || !prompt ? "out of memory"
                              : !sonde_is_enabled() ? "recording is off: see SONDE_ENABLED and "
                                                      "SONDE_DIR" : why.text);
        free(c);
        free(prompt);
        return 2;
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->ended, NULL);
    c->counter = -2;
    c->opener = sonde_counter("sonde_engine_bench_switches_total", "recording was switched");
    for (uint32_t i = 0; i <= prompt_count; i++) {
        prompt[i] = (int32_t)((i * 37 + 11) % engine_model(e)->vocab);
    }
    const uint64_t begin = sonde_ticks();
    int rc = 0;
    while (!rc && sonde_ticks_ns(sonde_ticks() - begin) < seconds * 1000000000ull) {
        rc = cost_request(c, e, prompt, prompt_count ? prompt_count : 1);
    }
    engine_destroy(e);
    if (!rc && !c->fours) {
        fprintf(stderr, "sonde-engine bench: no four tokens were computed undisturbed: this "
                "machine is too busy, or give more seconds by -r\n");
        rc = -1;
    }
    if (!rc) cost_print(c, json);
    if (c->counter >= 0) close(c->counter);
    free(c);
    free(prompt);
    return rc ? 1 : 0;
}
