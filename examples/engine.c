/* engine.c - a small inference engine without a model, to see sonde's inference tracking at work:
 *
 *   clients ──▶ queue ──▶ engine: one forward pass a step for all requests it has taken in
 *                           prefill of new prompts and one token of each running answer in one batch,
 *                           then choose and spell out a token for each
 *
 * Forward passes take the time they are told to, so what the agent shows can be checked: with
 * --truth the engine prints for every request what it measured itself. Prompts share a prefix that
 * is "cached" after the first. Every seventh client goes away early, every eleventh prompt is too
 * long; both are told to sonde as such. Look for sonde_ to see how little an engine has to do. */
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sonde/inference.h"

enum { CLIENTS_MAX = 256, SLOTS_MAX = 256, THREADS_MAX = 64, PREFIX = 48, KV_CELLS = 65536 };

struct job {
    struct sonde_request request;
    uint32_t number, prompt, reused, wanted, produced;
    int cancel_after;            /* the client goes away after so many tokens; 0 = it stays */
    const char *error;           /* NULL = none */
    enum sonde_outcome outcome;
    uint32_t prefilled;
    int done;
    uint64_t arrived_ns, first_ns, last_ns, end_ns;
    struct job *next;
};

static struct {
    int clients, requests, slots, tokens, prompt, threads, truth;
    double prefill_us, decode_ms, sample_us;
} options = { 8, 4, 4, 24, 96, 1, 0, 40, 4, 30 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static struct job *queue_first, *queue_last;
static int waiting, clients_left, prefix_cached;
static uint32_t model, route, attr_temperature;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Work: functions of their own, so that a profile can tell them apart -------------------- */

static volatile double sink;

static void compute(double us)
{
    const uint64_t until = now_ns() + (uint64_t)(us * 1e3);
    double x = 1;
    while (now_ns() < until) {
        for (int i = 0; i < 200; i++) x = x * 1.0000001 + 0.5;
        sink = x;
    }
}

/* With --threads, the others of a forward pass: they know nothing of phases and requests. */
static pthread_barrier_t pass_begins, pass_ends;
static double pass_us;

static void *pool(void *arg)
{
    (void)arg;
    for (;;) {
        pthread_barrier_wait(&pass_begins);
        if (pass_us < 0) return NULL;
        compute(pass_us);
        pthread_barrier_wait(&pass_ends);
    }
}

static void compute_with_all(double us)
{
    pass_us = us;
    if (options.threads > 1) pthread_barrier_wait(&pass_begins);
    compute(us);
    if (options.threads > 1) pthread_barrier_wait(&pass_ends);
}

/* Names that profiles can be told apart by. Compilers make one of functions that are alike, and a
 * jump of a call that is the last thing: hence the texts. */
__attribute__((noinline)) static void prefill_pass(double us)
{
    compute_with_all(us);
    __asm__ volatile("# prefill");
}

__attribute__((noinline)) static void decode_pass(double us)
{
    compute_with_all(us);
    __asm__ volatile("# decode");
}

__attribute__((noinline)) static void choose_token(void)
{
    compute(options.sample_us);
    __asm__ volatile("# sample");
}

/* ---- Clients -------------------------------------------------------------------------------- */

static void submit(struct job *j)
{
    j->arrived_ns = now_ns();
    char id[32];
    snprintf(id, sizeof(id), "job-%u", j->number);
    const struct sonde_request_info info = {
        .size = sizeof(info), .model = model, .route = route, .id = id, .tokens_max = j->wanted };
    sonde_request_begin(&j->request, &info);
    sonde_request_attr_double(&j->request, attr_temperature, 0.7);
    pthread_mutex_lock(&lock);
    if (queue_last) queue_last->next = j;
    else queue_first = j;
    queue_last = j;
    sonde_model_waiting(model, (uint64_t)++waiting);
    pthread_cond_signal(&arrived);
    while (!j->done) pthread_cond_wait(&finished, &lock);
    pthread_mutex_unlock(&lock);
}

static void print_truth(const struct job *j)
{
    static const char *const outcomes[] = { "ok", "error", "cancelled", "timeout" };
    printf("job-%u outcome=%s total_ns=%" PRIu64 " ttft_ns=%" PRIu64 " itl_ns=%" PRIu64
           " prompt=%u reused=%u tokens=%u\n",
           j->number, outcomes[j->outcome], j->end_ns - j->arrived_ns,
           j->produced ? j->first_ns - j->arrived_ns : 0,
           j->produced > 1 ? (j->last_ns - j->first_ns) / (j->produced - 1) : 0, j->prompt,
           j->reused, j->produced);
}

static void *client(void *arg)
{
    const uint32_t first = (uint32_t)(uintptr_t)arg * (uint32_t)options.requests;
    for (uint32_t i = 0; i < (uint32_t)options.requests; i++) {
        struct job j = { .number = first + i };
        j.prompt = PREFIX + (uint32_t)options.prompt * (1 + j.number % 3) / 2;
        j.wanted = (uint32_t)options.tokens * (1 + j.number % 2) / 2 + 1;
        if (j.number % 7 == 6) j.cancel_after = (int)j.wanted / 2 + 1;
        if (j.number % 11 == 10) j.error = "context_full";
        submit(&j);
        if (!options.truth) continue;
        flockfile(stdout);
        print_truth(&j);
        funlockfile(stdout);
    }
    pthread_mutex_lock(&lock);
    clients_left--;
    pthread_cond_signal(&arrived);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- The engine ----------------------------------------------------------------------------- */

static struct job *slots[SLOTS_MAX];
static int running;

static void finish(int slot, enum sonde_outcome outcome)
{
    struct job *j = slots[slot];
    sonde_request_end(&j->request, outcome, outcome == SONDE_ERROR ? j->error : NULL);
    j->end_ns = now_ns();
    j->outcome = outcome;
    slots[slot] = slots[--running];
    pthread_mutex_lock(&lock);
    j->done = 1;
    pthread_cond_broadcast(&finished);
    pthread_mutex_unlock(&lock);
}

/* Take in what fits; 0 when there is nothing left to do. */
static int take_in(void)
{
    pthread_mutex_lock(&lock);
    while (!queue_first && !running && clients_left) pthread_cond_wait(&arrived, &lock);
    while (queue_first && running < options.slots) {
        struct job *j = queue_first;
        queue_first = j->next;
        if (!queue_first) queue_last = NULL;
        slots[running++] = j;
        sonde_model_waiting(model, (uint64_t)--waiting);
    }
    pthread_mutex_unlock(&lock);
    return running > 0;
}

/* Text to tokens, and what of them is in the cache already. */
static void encode(struct job *j)
{
    struct sonde_phase p;
    sonde_phase_begin(&p, &j->request, SONDE_PHASE_ENCODE);
    compute(20);
    sonde_phase_end(&p, j->prompt);
    j->reused = prefix_cached ? PREFIX : 0;
    prefix_cached = 1;
    sonde_request_prompt(&j->request, j->prompt, j->reused);
}

static void forward(void)
{
    struct sonde_batch b;
    double prefill_us = 0, decode_us = 0;
    uint64_t cells = 0;
    sonde_batch_begin(&b);
    for (int i = 0; i < running; i++) {
        struct job *j = slots[i];
        const uint32_t new_tokens = j->prefilled ? 0 : j->prompt - j->reused;
        sonde_batch_add(&b, &j->request, new_tokens, j->prefilled);
        prefill_us += options.prefill_us * new_tokens;
        if (j->prefilled) decode_us = options.decode_ms * 1e3;
        cells += j->prompt + j->produced;
    }
    if (prefill_us > 0) prefill_pass(prefill_us);
    if (decode_us > 0) decode_pass(decode_us);
    sonde_batch_end(&b);
    sonde_model_kv(model, cells, KV_CELLS);
}

static void next_token(struct job *j)
{
    struct sonde_phase p;
    sonde_phase_begin(&p, &j->request, SONDE_PHASE_SAMPLE);
    choose_token();
    sonde_phase_end(&p, 1);
    sonde_phase_begin(&p, &j->request, SONDE_PHASE_DETOKENIZE);
    compute(5);
    sonde_phase_end(&p, 1);
    sonde_request_tokens(&j->request, 1);
    j->last_ns = now_ns();
    if (!j->produced++) j->first_ns = j->last_ns;
    j->prefilled = 1;
}

static void *engine(void *arg)
{
    (void)arg;
    while (take_in()) {
        for (int i = running; i-- > 0;) {
            if (!slots[i]->prefilled) encode(slots[i]);
            if (slots[i]->error) finish(i, SONDE_ERROR);
        }
        if (!running) continue;
        forward();
        for (int i = running; i-- > 0;) {
            struct job *j = slots[i];
            next_token(j);
            if (j->cancel_after && (int)j->produced >= j->cancel_after) finish(i, SONDE_CANCELLED);
            else if (j->produced >= j->wanted) finish(i, SONDE_OK);
        }
    }
    return NULL;
}

static void load_model(void)
{
    struct sonde_model_load l;
    sonde_model_load_begin(&l, model);
    compute(20000);
    sonde_model_load_end(&l, 512u << 20, SONDE_OK);
    sonde_model_backend(model, "cpu");
    sonde_model_memory(model, "weights", 512u << 20);
    sonde_model_memory(model, "kv", 64u << 20);
    sonde_model_memory(model, "compute", 24u << 20);
}

/* ---- Starting ------------------------------------------------------------------------------- */

static const struct { const char *name; int *to; int min, max; } numbers[] = {
    { "--clients", &options.clients, 1, CLIENTS_MAX },
    { "--requests", &options.requests, 1, 1000000 },
    { "--slots", &options.slots, 1, SLOTS_MAX },
    { "--tokens", &options.tokens, 1, 100000 },
    { "--prompt", &options.prompt, 1, 100000 },
    { "--threads", &options.threads, 1, THREADS_MAX },
};

static int parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        if (!strcmp(argv[i], "--truth")) {
            options.truth = 1;
            setvbuf(stdout, NULL, _IOLBF, 0); /* somebody may follow */
            continue;
        }
        while (k < sizeof(numbers) / sizeof(numbers[0]) && strcmp(argv[i], numbers[k].name)) k++;
        double *const times = !strcmp(argv[i], "--prefill-us") ? &options.prefill_us
                              : !strcmp(argv[i], "--decode-ms") ? &options.decode_ms
                              : !strcmp(argv[i], "--sample-us") ? &options.sample_us : NULL;
        char *end = NULL;
        const double v = i + 1 < argc ? strtod(argv[i + 1], &end) : -1;
        if ((!times && k == sizeof(numbers) / sizeof(numbers[0])) || !end || *end || !(v >= 0) ||
            (!times && (v < numbers[k].min || v > numbers[k].max))) {
            return 0;
        }
        if (times) *times = v;
        else *numbers[k].to = (int)v;
        i++;
    }
    return 1;
}

int main(int argc, char **argv)
{
    char why[256];
    struct sonde_inference_env env = { .size = sizeof(env) };
    if (sonde_inference_env(&env, why, sizeof(why))) {
        fprintf(stderr, "example_engine: %s\n", why);
        return 2;
    }
    if (env.batch_size) options.slots = env.batch_size < SLOTS_MAX ? (int)env.batch_size : SLOTS_MAX;
    if (!parse(argc, argv)) {
        fprintf(stderr, "usage: example_engine [--clients N] [--requests N] [--slots N] "
                        "[--tokens N] [--prompt N] [--threads N] [--prefill-us US] [--decode-ms MS] "
                        "[--sample-us US] [--truth]\n");
        return 2;
    }
    sonde_open(&(struct sonde_config){ .size = sizeof(struct sonde_config), .name = "engine" });
    model = sonde_name("tiny-llama");
    route = sonde_name("/v1/completions");
    attr_temperature = sonde_name("temperature");
    load_model();

    pthread_t threads[CLIENTS_MAX], others[THREADS_MAX], engine_thread;
    clients_left = options.clients;
    pthread_barrier_init(&pass_begins, NULL, (unsigned)options.threads);
    pthread_barrier_init(&pass_ends, NULL, (unsigned)options.threads);
    for (int i = 1; i < options.threads; i++) {
        if (pthread_create(&others[i], NULL, pool, NULL)) return 1;
    }
    if (pthread_create(&engine_thread, NULL, engine, NULL)) return 1;
    for (int i = 0; i < options.clients; i++) {
        if (pthread_create(&threads[i], NULL, client, (void *)(uintptr_t)i)) return 1;
    }
    for (int i = 0; i < options.clients; i++) pthread_join(threads[i], NULL);
    pthread_join(engine_thread, NULL);
    pass_us = -1;
    if (options.threads > 1) pthread_barrier_wait(&pass_begins);
    for (int i = 1; i < options.threads; i++) pthread_join(others[i], NULL);
    return 0;
}
