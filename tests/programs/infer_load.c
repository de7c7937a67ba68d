/* infer_load.c - an inference engine without a model that a test steers while it runs:
 *
 *   steady load ─┐                 one thread a model: takes requests into slots, chunks of
 *   commands ────┴─▶ queue ──▶     prompts and one token of each running answer in one batch
 *
 * Every phase burns CPU in a function of its own name, in units of work that were timed at the
 * start, so a busy machine makes things later, not other. Commands are lines on stdin, each
 * answered by one line on stdout when it is done with:
 *
 *   burst N TOKENS     N prompts of so many tokens at once to the large model; answered when all
 *                      have ended, with the Unix times of the first arrival and the last end
 *   slow FUNCTION MS   prompts of bursts spend that much more in FUNCTION (see slow[]); 0 = no more
 *   error N, cancel N  the next N requests of the steady load end so
 *   odd N              N requests whose model, route, id and error have markup, quotes,
 *                      right-to-left text and emoji in them, through a function that is named so
 *   leak BYTES         allocates in leak_session_cache and keeps it
 *   reload             loads the large model once more
 *   rate R             requests of the steady load per second, both models together
 *   settle             answered when nothing waits or runs
 *   truth              what all requests that have ended add up to
 *   quit
 *
 * The end of stdin is not the end: it goes on for --seconds. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sonde/inference.h"

enum { SLOTS = 4, CHUNK_TOKENS = 128, PREFIX_TOKENS = 16, KV_CELLS = 32768 };
#define PREFILL_TOKEN_US 20.0
#define DECODE_STEP_US 600.0

struct load_request {
    struct sonde_request request;
    uint32_t prompt, reused, prefilled, wanted, produced;
    int encoded, in_burst, odd;
    enum sonde_outcome outcome;
    const char *error;           /* NULL = none */
    struct load_request *next;
};

struct load_engine {
    const char *model_name, *thread_name;
    uint32_t model;
    double cost;                 /* of a token, beside the small model's */
    uint64_t weights_bytes;
    int prefix_cached;
    struct load_request *first, *last, *slots[SLOTS];
    int waiting, running;
    pthread_t thread;
};

static struct load_engine engines[] = {
    { .model_name = "small-1b", .thread_name = "engine-small", .cost = 0.5,
      .weights_bytes = 700u << 20 },
    { .model_name = "large-8b", .thread_name = "engine-large", .cost = 1,
      .weights_bytes = 4800ull << 20 },
};
static const char *const route_names[] = { "/v1/chat/completions", "/v1/completions" };
static const char *const odd_names[] = {
    "<script>alert(1)</script>",
    "a \"quoted\" 'name' & <b>bold</b>",
    "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d \xe2\x80\xae""evil\xe2\x80\xac end", /* Hebrew, an override */
    "\xf0\x9f\xa6\x99 llama \xf0\x9f\x94\xa5",                             /* emoji */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static int stopping;
/* All below: under the lock. */
static double rate = 8;
static uint64_t begun, begun_odd, burst_number, burst_left;
static int errors_due, cancels_due;
static uint32_t routes[2], odd_ids[4], attr_temperature, attr_user;
static struct { uint64_t requests, ok, errors, cancelled, prompt, reused, output; } truth;
static struct { const char *name; double us; } slow[] = {
    { "tokenizer_slow_path", 0 }, { "kv_evict_scan", 0 }, { "grammar_mask_rebuild", 0 },
};
enum { SLOW_ENCODE, SLOW_PREFILL, SLOW_SAMPLE };

static double unix_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- Work ----------------------------------------------------------------------------------- */

static double turns_per_us;

/* A macro, so that profiles show the time in the function itself: an inline function is a frame. */
#define BURN(us) \
    for (uint64_t turns = (uint64_t)((us) * turns_per_us); turns; turns--) __asm__ volatile("" : "+r"(turns))

static double thread_cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void calibrate(void)
{
    for (int i = 0; i < 5; i++) {
        turns_per_us = turns_per_us ? turns_per_us : 500;
        const double begin = thread_cpu_us(), before = turns_per_us;
        BURN(4000);
        const double took = thread_cpu_us() - begin;
        turns_per_us = before * 4000 / (took > 1 ? took : 1);
    }
}

/* Functions to be found in profiles. The texts keep the compiler from making one of those that are
 * alike, and a jump of a call at the end. */
#define WORK(name) \
    __attribute__((noinline, noclone)) static void name(double us) \
    { \
        BURN(us); \
        __asm__ volatile("# " #name); \
    }
WORK(tokenize_words)
WORK(tokenizer_slow_path)
WORK(attention_scores)
WORK(prefill_matmul)
WORK(kv_evict_scan)
WORK(decode_matmul)
WORK(softmax_logits)
WORK(grammar_mask_rebuild)
WORK(detokenize_piece)
WORK(load_weights)

#ifdef __x86_64__
/* A function whose name is markup, as names of templates and of other languages nearly are. */
__asm__(".text\n"
        ".type \"<img src=x onerror=alert(2)>\", @function\n"
        "\"<img src=x onerror=alert(2)>\":\n"
        ".cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
        "mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"
        "1: dec %rdi\njnz 1b\n"
        "pop %rbp\n.cfi_def_cfa %rsp, 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size \"<img src=x onerror=alert(2)>\", .-\"<img src=x onerror=alert(2)>\"\n"
        ".data\n.balign 8\nodd_work: .quad \"<img src=x onerror=alert(2)>\"\n.text\n");
extern void (*odd_work)(uint64_t turns) __attribute__((visibility("hidden")));
#else
static void odd_work(uint64_t turns) { BURN((double)turns / turns_per_us); }
#endif

__attribute__((noinline)) static void leak_session_cache(size_t bytes)
{
    char *p = malloc(bytes);
    if (p) memset(p, 1, bytes);
    __asm__ volatile("# leak" : : "r"(p) : "memory");
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* With the lock held. model: what the request is said to be for. */
static struct load_request *request_submit(struct load_engine *e, uint32_t model, uint32_t route,
                                           const char *id, uint32_t prompt, uint32_t wanted)
{
    struct load_request *r = calloc(1, sizeof(*r));
    if (!r) abort();
    r->prompt = prompt;
    r->wanted = wanted;
    const struct sonde_request_info info = {
        .size = sizeof(info), .model = model, .route = route, .id = id, .tokens_max = wanted };
    sonde_request_begin(&r->request, &info);
    sonde_request_attr_double(&r->request, attr_temperature, 0.7);
    if (e->last) e->last->next = r;
    else e->first = r;
    e->last = r;
    sonde_model_waiting(e->model, (uint64_t)++e->waiting);
    pthread_cond_broadcast(&arrived);
    return r;
}

static void steady_submit(void)
{
    const uint64_t n = begun++;
    char id[40];
    snprintf(id, sizeof(id), "steady-%" PRIu64, n);
    struct load_engine *e = &engines[n % 2];
    struct load_request *r = request_submit(e, e->model, routes[n / 2 % 2], id,
                                            (uint32_t)(32 + 16 * (n % 3)), (uint32_t)(6 + n % 5));
    if (errors_due > 0) {
        errors_due--;
        r->outcome = SONDE_ERROR;
        r->error = "context_full";
    } else if (cancels_due > 0) {
        cancels_due--;
        r->outcome = SONDE_CANCELLED;
    }
}

static void odd_submit(void)
{
    const uint64_t n = begun_odd++;
    struct load_request *r =
        request_submit(&engines[1], odd_ids[n % 4], odd_ids[(n + 1) % 4],
                       odd_names[(n + 2) % 4], 48, 6);
    sonde_request_attr_str(&r->request, attr_user, "<u>\"o'neil\"</u>");
    r->odd = 1;
    if (n % 4 == 1) {
        r->outcome = SONDE_ERROR;
        r->error = "<i>bad</i> \"input\"";
    }
}

/* Requests at equal distances; a machine that was busy does not make up for it. */
static void *steady_load(void *arg)
{
    (void)arg;
    pthread_setname_np(pthread_self(), "steady-load");
    pthread_mutex_lock(&lock);
    while (!stopping) {
        const double wait_s = rate > 0 ? 1 / rate : 0.1;
        if (rate > 0) steady_submit();
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){ (time_t)wait_s,
                                      (long)((wait_s - (double)(time_t)wait_s) * 1e9) }, NULL);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- The engine ----------------------------------------------------------------------------- */

static void request_finish(struct load_engine *e, int slot)
{
    struct load_request *r = e->slots[slot];
    sonde_request_end(&r->request, r->outcome, r->outcome == SONDE_ERROR ? r->error : NULL);
    e->slots[slot] = e->slots[--e->running];
    pthread_mutex_lock(&lock);
    truth.requests++;
    truth.ok += r->outcome == SONDE_OK;
    truth.errors += r->outcome == SONDE_ERROR;
    truth.cancelled += r->outcome == SONDE_CANCELLED;
    truth.prompt += r->encoded ? r->prompt : 0;
    truth.reused += r->reused;
    truth.output += r->produced;
    burst_left -= r->in_burst ? 1u : 0u;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
    free(r);
}

/* Fill the slots; 0 when the program ends. */
static int engine_admit(struct load_engine *e)
{
    pthread_mutex_lock(&lock);
    while (!e->first && !e->running && !stopping) pthread_cond_wait(&arrived, &lock);
    while (e->first && e->running < SLOTS) {
        struct load_request *r = e->first;
        e->first = r->next;
        if (!e->first) e->last = NULL;
        e->slots[e->running++] = r;
        sonde_model_waiting(e->model, (uint64_t)--e->waiting);
    }
    const int go_on = !stopping;
    pthread_mutex_unlock(&lock);
    return go_on;
}

static double slow_us(const struct load_request *r, int which)
{
    pthread_mutex_lock(&lock);
    const double us = r->in_burst ? slow[which].us : 0;
    pthread_mutex_unlock(&lock);
    return us;
}

__attribute__((noinline)) static void tokenize_prompt(struct load_engine *e, struct load_request *r)
{
    struct sonde_phase p;
    sonde_phase_begin(&p, &r->request, SONDE_PHASE_ENCODE);
    tokenize_words(20 + 0.5 * r->prompt);
    const double more_us = slow_us(r, SLOW_ENCODE);
    if (more_us > 0) tokenizer_slow_path(more_us);
    if (r->odd) odd_work((uint64_t)(20000 * turns_per_us));
    sonde_phase_end(&p, r->prompt);
    r->reused = e->prefix_cached ? PREFIX_TOKENS : 0;
    e->prefix_cached = 1;
    r->prefilled = r->reused;
    r->encoded = 1;
    sonde_request_prompt(&r->request, r->prompt, r->reused);
}

__attribute__((noinline)) static void forward_pass(struct load_engine *e)
{
    struct sonde_batch b;
    double prefill_us = 0, decode_us = 0, evict_us = 0;
    uint64_t cells = 0;
    sonde_batch_begin(&b);
    uint32_t room = CHUNK_TOKENS;
    for (int i = 0; i < e->running; i++) {
        struct load_request *r = e->slots[i];
        const uint32_t left = r->prompt - r->prefilled;
        const uint32_t now = left < room ? left : room;
        if (left && !now) continue; /* its turn comes with a later pass */
        sonde_batch_add(&b, &r->request, now, left ? 0 : 1);
        if (!left) decode_us = DECODE_STEP_US * e->cost;
        else if (now == left) evict_us += slow_us(r, SLOW_PREFILL);
        prefill_us += PREFILL_TOKEN_US * e->cost * now;
        r->prefilled += now;
        room -= now;
        cells += r->prefilled + r->produced;
    }
    if (prefill_us > 0) prefill_matmul(prefill_us * 0.8);
    if (evict_us > 0) kv_evict_scan(evict_us);
    if (decode_us > 0) decode_matmul(decode_us * 0.8);
    attention_scores((prefill_us + decode_us) * 0.2);
    sonde_batch_end(&b);
    sonde_model_kv(e->model, cells, KV_CELLS);
}

__attribute__((noinline)) static void sample_token(struct load_request *r)
{
    struct sonde_phase p;
    sonde_phase_begin(&p, &r->request, SONDE_PHASE_SAMPLE);
    softmax_logits(40);
    const double more_us = r->produced ? 0 : slow_us(r, SLOW_SAMPLE);
    if (more_us > 0) grammar_mask_rebuild(more_us);
    sonde_phase_end(&p, 1);
    sonde_phase_begin(&p, &r->request, SONDE_PHASE_DETOKENIZE);
    detokenize_piece(5);
    sonde_phase_end(&p, 1);
    sonde_request_tokens(&r->request, 1);
    r->produced++;
}

static void *engine_run(void *arg)
{
    struct load_engine *e = arg;
    pthread_setname_np(pthread_self(), e->thread_name);
    while (engine_admit(e)) {
        for (int i = e->running; i-- > 0;) {
            if (!e->slots[i]->encoded) tokenize_prompt(e, e->slots[i]);
            if (e->slots[i]->outcome == SONDE_ERROR) request_finish(e, i);
        }
        if (!e->running) continue;
        forward_pass(e);
        for (int i = e->running; i-- > 0;) {
            struct load_request *r = e->slots[i];
            if (r->prefilled < r->prompt) continue;
            sample_token(r);
            const int gone = r->outcome == SONDE_CANCELLED && r->produced >= 3;
            if (gone || r->produced >= r->wanted) request_finish(e, i);
        }
    }
    return NULL;
}

static void engine_load(struct load_engine *e)
{
    struct sonde_model_load l;
    sonde_model_load_begin(&l, e->model);
    load_weights(20000 * e->cost);
    sonde_model_load_end(&l, e->weights_bytes, SONDE_OK);
    sonde_model_backend(e->model, "cpu");
    sonde_model_memory(e->model, "weights", e->weights_bytes);
    sonde_model_memory(e->model, "kv", 64u << 20);
    sonde_model_memory(e->model, "compute", 24u << 20);
}

/* ---- Commands ------------------------------------------------------------------------------- */

static int idle(void)
{
    return !engines[0].first && !engines[1].first &&
           begun + begun_odd + burst_number == truth.requests;
}

static void answer_burst(double n, double tokens)
{
    static uint64_t bursts;
    char id[40];
    pthread_mutex_lock(&lock);
    bursts++;
    const double begin = unix_now();
    for (int i = 1; i <= (int)n; i++) {
        snprintf(id, sizeof(id), "burst-%" PRIu64 "-%d", bursts, i);
        request_submit(&engines[1], engines[1].model, routes[0], id, (uint32_t)tokens,
                       4)->in_burst = 1;
        burst_left++;
        burst_number++;
    }
    while (burst_left && !stopping) pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
    printf("burst %.6f %.6f\n", begin, unix_now());
}

static int answer_slow(const char *function, double ms)
{
    for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++) {
        if (strcmp(slow[i].name, function)) continue;
        pthread_mutex_lock(&lock);
        slow[i].us = ms * 1e3;
        pthread_mutex_unlock(&lock);
        printf("slow %s %g\n", function, ms);
        return 1;
    }
    return 0;
}

static void answer_settle(void)
{
    pthread_mutex_lock(&lock);
    while (!idle() && !stopping) pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
    printf("settle %.6f\n", unix_now());
}

static void answer_truth(void)
{
    pthread_mutex_lock(&lock);
    printf("truth {\"requests\":%" PRIu64 ",\"ok\":%" PRIu64 ",\"errors\":%" PRIu64
           ",\"cancelled\":%" PRIu64 ",\"prompt_tokens\":%" PRIu64 ",\"reused_tokens\":%" PRIu64
           ",\"output_tokens\":%" PRIu64 "}\n",
           truth.requests, truth.ok, truth.errors, truth.cancelled, truth.prompt, truth.reused,
           truth.output);
    pthread_mutex_unlock(&lock);
}

static const struct { const char *name; int *due; } dues[] = {
    { "error", &errors_due }, { "cancel", &cancels_due } };

static void answer_number(const char *word, double v)
{
    pthread_mutex_lock(&lock);
    if (!strcmp(word, "rate")) rate = v;
    for (size_t i = 0; i < sizeof(dues) / sizeof(dues[0]); i++) {
        if (!strcmp(word, dues[i].name)) *dues[i].due += (int)v;
    }
    for (int i = 0; !strcmp(word, "odd") && i < (int)v; i++) odd_submit();
    pthread_mutex_unlock(&lock);
    if (!strcmp(word, "leak")) leak_session_cache((size_t)v);
    printf("%s %.0f\n", word, v);
}

/* 0 = not a command. */
static int answer(const char *line)
{
    char word[32] = "", function[64] = "";
    double a = 0, b = 0;
    const int words = sscanf(line, "%31s %lf %lf", word, &a, &b);
    const int one = words == 2 && a >= 0;
    if (!strcmp(word, "slow")) {
        return sscanf(line, "%*s %63s %lf", function, &a) == 2 && answer_slow(function, a);
    } else if (!strcmp(word, "burst") && words == 3 && a >= 1 && b >= 1) {
        answer_burst(a, b);
    } else if (!strcmp(word, "settle")) {
        answer_settle();
    } else if (!strcmp(word, "truth")) {
        answer_truth();
    } else if (!strcmp(word, "reload")) {
        engine_load(&engines[1]);
        printf("reload %.6f\n", unix_now());
    } else if (one && (!strcmp(word, "rate") || !strcmp(word, "error") || !strcmp(word, "cancel") ||
                       !strcmp(word, "odd") || !strcmp(word, "leak"))) {
        answer_number(word, a);
    } else {
        return 0;
    }
    return 1;
}

static void *commands(void *arg)
{
    (void)arg;
    char line[256];
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!strcmp(line, "quit")) {
            pthread_mutex_lock(&lock);
            stopping = 1;
            pthread_cond_broadcast(&arrived);
            pthread_cond_broadcast(&ended);
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        if (!answer(line)) printf("unknown %s\n", line);
        fflush(stdout);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    double seconds = 3600;
    for (int i = 1; i < argc; i++) {
        double *const to = !strcmp(argv[i], "--seconds")
                               ? &seconds : !strcmp(argv[i], "--rate") ? &rate : NULL;
        char *end = NULL;
        if (to && i + 1 < argc) *to = strtod(argv[++i], &end);
        if (!end || *end || !(*to >= 0)) {
            fprintf(stderr, "usage: infer_load [--rate REQUESTS_PER_SECOND] [--seconds N]\n");
            return 2;
        }
    }
    sonde_open(&(struct sonde_config){ .size = sizeof(struct sonde_config), .name = "infer_load" });
    calibrate();
    for (int i = 0; i < 2; i++) {
        engines[i].model = sonde_name(engines[i].model_name);
        routes[i] = sonde_name(route_names[i]);
    }
    for (int i = 0; i < 4; i++) odd_ids[i] = sonde_name(odd_names[i]);
    attr_temperature = sonde_name("temperature");
    attr_user = sonde_name("user");

    pthread_t load, reader;
    for (int i = 0; i < 2; i++) {
        engine_load(&engines[i]);
        if (pthread_create(&engines[i].thread, NULL, engine_run, &engines[i])) return 1;
    }
    if (pthread_create(&load, NULL, steady_load, NULL) ||
        pthread_create(&reader, NULL, commands, NULL)) {
        return 1;
    }
    puts("ready");
    fflush(stdout);

    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)seconds;
    pthread_mutex_lock(&lock);
    while (!stopping && pthread_cond_timedwait(&ended, &lock, &until) != ETIMEDOUT) continue;
    stopping = 1;
    pthread_cond_broadcast(&arrived);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 2; i++) pthread_join(engines[i].thread, NULL);
    pthread_join(load, NULL);
    return 0; /* the reader may be waiting for a line: it ends with the program */
}
