/* mini_engine.c - the scheduler and the clients; see mini_engine.h. */
#include <pthread.h>
#include <math.h>

#include "mini_engine.h"
#include "mini_model.h"
#include "sonde/engine.h"
#include "sonde/inference.h"

enum { CLIENTS_MAX = 64, QUEUE_MAX = 4096, LANES_MAX = MINI_TOKENS_MAX + MINI_SLOTS };

struct mini_state {
    struct sonde_request request;
    char *text;                  /* of the prompt */
    unsigned wanted, reused, done; /* done: tokens in the KV cache */
    float *mean;                 /* of its KV cells: what attention would give with equal weights */
    float logits[MINI_VOCAB];
    float *kv;
    uint64_t arrived;            /* ticks */
    int ended;
};

static struct {
    struct bench *b;
    const struct mini_plan *plan;
    pthread_mutex_t lock;
    pthread_cond_t arrived, finished;
    struct mini_job *queue[QUEUE_MAX];
    unsigned queue_first, queue_count;
    struct mini_job *slots[MINI_SLOTS];
    unsigned running, turn;
    unsigned cells_used, cells_max;
    uint64_t random;
    int stopping, prefix_known;
    uint16_t prefix[MINI_TOKENS_MAX];
    unsigned numbers;
    uint32_t model, route, send_phase;
    struct sonde_allocator pool;
    struct sonde_tokenizer tokenizer;
} engine = { .lock = PTHREAD_MUTEX_INITIALIZER, .arrived = PTHREAD_COND_INITIALIZER,
             .finished = PTHREAD_COND_INITIALIZER };

static struct mini_lane lanes[LANES_MAX];

static size_t cell_bytes(void) { return MINI_DIM * sizeof(float); }

/* ---- Requests ------------------------------------------------------------------------------ */

static struct mini_job *job_make(int client, uint64_t *random)
{
    const struct mini_plan *p = engine.plan;
    struct mini_job *j = calloc(1, sizeof(*j));
    struct mini_state *s = calloc(1, sizeof(*s));
    if (!j || !s) bench_fail("calloc");
    const unsigned number = __atomic_add_fetch(&engine.numbers, 1, __ATOMIC_RELAXED);
    unsigned own = bench_between(random, p->prompt_min, p->prompt_max);
    if (p->long_every && number % p->long_every == 0) own = p->long_prompt;
    s->text = bench_alloc((p->shared_prefix + own) * 6 + 1);
    size_t at = 0;
    for (unsigned i = 0; i < p->shared_prefix + own; i++) {
        const unsigned token = i < p->shared_prefix
                                   ? engine.prefix[i] : bench_between(random, 0, MINI_VOCAB - 1);
        at += (size_t)sprintf(s->text + at, "%s ", mini_word(token));
    }
    s->wanted = bench_between(random, p->output_min, p->output_max);
    s->mean = calloc(MINI_DIM, sizeof(float));
    if (!s->mean) bench_fail("calloc");
    j->state = s;
    j->client = client;
    char id[24];
    snprintf(id, sizeof(id), "mini-%u", number);
    s->arrived = sonde_ticks();
    const struct sonde_request_info info = {
        .size = sizeof(info), .model = engine.model, .route = engine.route, .id = id,
        .tokens_max = s->wanted, .arrived = s->arrived };
    sonde_request_begin(&s->request, &info);
    return j;
}

static void job_free(struct mini_job *j)
{
    free(j->state->text);
    free(j->state->mean);
    free(j->state->kv);
    free(j->state);
    free(j->answer);
    free(j);
}

/* wait: until it has been answered. */
static void job_submit(struct mini_job *j, int wait)
{
    pthread_mutex_lock(&engine.lock);
    if (engine.queue_count == QUEUE_MAX) {
        sonde_request_end(&j->state->request, SONDE_ERROR, "queue_full");
        pthread_mutex_unlock(&engine.lock);
        job_free(j);
        return;
    }
    engine.queue[(engine.queue_first + engine.queue_count++) % QUEUE_MAX] = j;
    sonde_model_waiting(engine.model, engine.queue_count);
    pthread_cond_signal(&engine.arrived);
    while (wait && !j->state->ended && !engine.stopping) {
        pthread_cond_wait(&engine.finished, &engine.lock);
    }
    const int ended = j->state->ended;
    pthread_mutex_unlock(&engine.lock);
    if (wait && ended) job_free(j);
}

/* ---- KV cells ------------------------------------------------------------------------------- */

static void cells_tell(void)
{
    sonde_model_kv(engine.model, engine.cells_used, engine.cells_max);
    const uint64_t used = engine.cells_used * cell_bytes();
    sonde_pool_set(engine.pool.used, used);
    sonde_gauge_set(engine.pool.requested, (double)used);
    /* The largest request that would succeed: any cells will do. */
    sonde_gauge_set(engine.pool.free_block, (double)(engine.cells_max * cell_bytes() - used));
}

static unsigned cells_of(const struct mini_job *j) { return j->state->done - j->state->reused; }

/* ---- The engine's round --------------------------------------------------------------------- */

/* How the prompt begins, where this sonde can be told. */
static void job_tell_prefix(const struct mini_job *j)
{
#if __has_include("sonde/prefix.h")
    static int32_t tokens[MINI_TOKENS_MAX];
    for (unsigned i = 0; i < j->prompt; i++) tokens[i] = j->tokens[i];
    sonde_request_prefix(&j->state->request, tokens, j->prompt);
#else
    (void)j;
#endif
}

static void job_encode(struct mini_job *j)
{
    const struct mini_plan *p = engine.plan;
    struct mini_state *s = j->state;
    struct sonde_phase phase;
    sonde_phase_begin(&phase, &s->request, SONDE_PHASE_ENCODE);
    const uint64_t begin = sonde_ticks();
    j->prompt = p->encode(s->text, j->tokens, MINI_TOKENS_MAX - 1024);
    sonde_tokenizer_encoded(&engine.tokenizer, &(struct sonde_tokenizer_encoded){
        .ns = sonde_ticks_ns(sonde_ticks() - begin), .bytes = strlen(s->text), .tokens = j->prompt,
        .lookups = j->prompt });
    sonde_phase_end(&phase, j->prompt);
    s->reused = p->reuse && engine.prefix_known ? p->shared_prefix : 0;
    engine.prefix_known = 1;
    s->done = s->reused;
    s->kv = bench_alloc((j->prompt + s->wanted) * cell_bytes());
    sonde_request_prompt(&s->request, j->prompt, s->reused);
    job_tell_prefix(j);
}

static void job_end(unsigned slot, enum sonde_outcome outcome, const char *error)
{
    struct mini_job *j = engine.slots[slot];
    sonde_request_end(&j->state->request, outcome, error);
    engine.cells_used -= cells_of(j);
    engine.slots[slot] = engine.slots[--engine.running];
    pthread_mutex_lock(&engine.lock);
    j->state->ended = 1;
    pthread_cond_broadcast(&engine.finished);
    pthread_mutex_unlock(&engine.lock);
    if (j->client < 0) job_free(j);
}

/* No cell is free: the newest one gives up its own, and computes them again later. */
static void job_evict(unsigned slot)
{
    struct mini_job *j = engine.slots[slot];
    engine.cells_used -= cells_of(j);
    j->state->done = j->state->reused;
    engine.slots[slot] = engine.slots[--engine.running];
    pthread_mutex_lock(&engine.lock);
    engine.queue_first = (engine.queue_first + QUEUE_MAX - 1) % QUEUE_MAX;
    engine.queue[engine.queue_first] = j;
    engine.queue_count++;
    pthread_mutex_unlock(&engine.lock);
}

/* 0 when the time is over. */
static int jobs_admit(void)
{
    pthread_mutex_lock(&engine.lock);
    while (!engine.queue_count && !engine.running && !engine.stopping) {
        pthread_cond_wait(&engine.arrived, &engine.lock);
    }
    while (engine.queue_count && engine.running < engine.plan->slots) {
        /* A prompt must fit as it is; what its answer needs is seen later. */
        struct mini_job *j = engine.queue[engine.queue_first];
        const unsigned prompt = j->prompt ? j->prompt + j->produced
            : (unsigned)strlen(j->state->text) / 5;
        if (engine.running && engine.cells_used + prompt > engine.cells_max) break;
        engine.queue_first = (engine.queue_first + 1) % QUEUE_MAX;
        engine.queue_count--;
        engine.slots[engine.running++] = j;
    }
    sonde_model_waiting(engine.model, engine.queue_count);
    const int go = !engine.stopping;
    pthread_mutex_unlock(&engine.lock);
    return go;
}

/* Tokens of a request that its next pass computes: of what is not in the cache yet. */
static unsigned job_lanes(struct mini_job *j, unsigned count, unsigned at)
{
    struct mini_state *s = j->state;
    for (unsigned i = 0; i < count; i++) {
        const unsigned position = s->done + i;
        lanes[at + i] = (struct mini_lane){ .token = j->tokens[position], .mean = s->mean,
            .kv = s->kv + (size_t)position * MINI_DIM,
            .logits = position + 1 == j->prompt + j->produced ? s->logits : NULL };
    }
    return count;
}

static void job_computed(struct mini_job *j, unsigned count)
{
    struct mini_state *s = j->state;
    for (unsigned i = 0; i < count; i++) {
        const float *cell = s->kv + (size_t)(s->done + i) * MINI_DIM;
        const float weight = 1.0f / (float)(s->done + i + 1);
        for (unsigned r = 0; r < MINI_DIM; r++) s->mean[r] += (cell[r] - s->mean[r]) * weight;
    }
    s->done += count;
}

static int job_decodes(const struct mini_job *j)
{
    return j->produced && j->state->done + 1 == j->prompt + j->produced;
}

/* No cell for one of them: the last one in gives up its own. */
static int pass_evict(void)
{
    sonde_counter_add(engine.pool.failures, 1);
    if (engine.running > 1) job_evict(engine.running - 1);
    return 0;
}

/* How many tokens each slot has in this pass: answers first, prompts in what is left of the chunk
 * and of the cells. 0: something had to be evicted, plan anew. */
static int pass_plan(unsigned share[MINI_SLOTS])
{
    const struct mini_plan *p = engine.plan;
    const unsigned together = p->pass_requests && p->pass_requests < engine.running
                                  ? p->pass_requests : engine.running;
    const unsigned available = engine.cells_max - engine.cells_used;
    unsigned decodes = 0, prompts = 0, budget;
    memset(share, 0, MINI_SLOTS * sizeof(*share));
    for (unsigned k = 0; k < together; k++) {
        const unsigned i = (engine.turn + k) % engine.running;
        decodes += share[i] = (unsigned)job_decodes(engine.slots[i]);
    }
    if (decodes > available) return pass_evict();
    budget = p->chunk < available - decodes ? p->chunk : available - decodes;
    for (unsigned k = 0; k < together; k++) {
        const unsigned i = (engine.turn + k) % engine.running;
        const struct mini_job *j = engine.slots[i];
        const unsigned left = j->prompt + j->produced - j->state->done;
        if (share[i]) continue;
        share[i] = left < budget ? left : budget;
        budget -= share[i];
        prompts += share[i];
    }
    if (!decodes && !prompts) return pass_evict();
    for (unsigned i = 0; p->prefill_alone && prompts && i < engine.running; i++) {
        if (!share[i] || !job_decodes(engine.slots[i])) continue;
        share[i] = 0;
        decodes--;
    }
    engine.turn += together;
    engine.cells_used += decodes + prompts;
    return 1;
}

static void pass_compute(const unsigned share[MINI_SLOTS])
{
    struct sonde_batch batch;
    unsigned count = 0;
    sonde_batch_begin(&batch);
    for (unsigned i = 0; i < engine.running; i++) {
        struct mini_job *j = engine.slots[i];
        const int decodes = job_decodes(j);
        if (!share[i]) continue;
        sonde_batch_add(&batch, &j->state->request, decodes ? 0 : share[i], (uint64_t)decodes);
        count += job_lanes(j, share[i], count);
    }
    mini_model_pass(lanes, count, engine.plan->copies);
    for (unsigned i = 0; i < engine.running; i++) job_computed(engine.slots[i], share[i]);
    sonde_batch_end(&batch);
    cells_tell();
}

static void job_next(struct mini_job *j)
{
    struct sonde_phase phase;
    struct mini_state *s = j->state;
    sonde_phase_begin(&phase, &s->request, SONDE_PHASE_SAMPLE);
    const unsigned token = engine.plan->sample(s->logits, j->tokens, j->prompt + j->produced,
                                               &engine.random);
    sonde_phase_end(&phase, 1);
    j->tokens[j->prompt + j->produced++] = (uint16_t)token;
    const size_t before = j->answer_length;
    sonde_phase_begin(&phase, &s->request, SONDE_PHASE_DETOKENIZE);
    engine.plan->spell(j);
    sonde_phase_end(&phase, 1);
    sonde_request_tokens(&s->request, 1);
    if (!engine.plan->send) return;
    sonde_phase_begin(&phase, &s->request, SONDE_PHASE_NAME(engine.send_phase));
    engine.plan->send(j, j->answer + before, j->answer_length - before);
    sonde_phase_end(&phase, 1);
}

static int job_fails(void)
{
    const double t = bench_elapsed_s(engine.b);
    const struct mini_plan *p = engine.plan;
    return t >= p->fail_from_s && t < p->fail_to_s &&
           bench_between(&engine.random, 1, 100) <= p->fail_percent;
}

static void *engine_serve(void *arg)
{
    unsigned share[MINI_SLOTS];
    while (jobs_admit()) {
        for (unsigned i = engine.running; i-- > 0;) {
            if (engine.slots[i]->prompt) continue;
            job_encode(engine.slots[i]);
            if (job_fails()) job_end(i, SONDE_ERROR, "backend_unavailable");
        }
        if (!engine.running || !pass_plan(share)) continue;
        pass_compute(share);
        for (unsigned i = engine.running; i-- > 0;) {
            struct mini_job *j = engine.slots[i];
            if (!share[i] || j->state->done != j->prompt + j->produced) continue;
            job_next(j);
            if (j->produced == j->state->wanted) job_end(i, SONDE_OK, NULL);
        }
    }
    return arg;
}

/* ---- Clients -------------------------------------------------------------------------------- */

static void *client_ask(void *arg)
{
    const int client = (int)(intptr_t)arg;
    uint64_t random = (uint64_t)client * 7919 + engine.random;
    while (bench_running(engine.b)) {
        job_submit(job_make(client, &random), 1);
        if (engine.plan->pause_us) {
            bench_sleep_us(bench_between(&random, 0, 2 * engine.plan->pause_us));
        }
    }
    return NULL;
}

/* Requests per second that the engine can serve, of this plan and on this machine, as busy as it is
 * now: hence by the clock, and for longer than a scheduler's turn. */
static double capacity_measure(void)
{
    const struct mini_plan *p = engine.plan;
    float *kv = bench_alloc(cell_bytes()), *logits = bench_alloc(MINI_VOCAB * sizeof(float));
    const uint64_t begin = bench_now_ns();
    unsigned passes = 0;
    while (bench_now_ns() - begin < 150000000) {
        for (unsigned i = 0; i < MINI_LANES; i++) {
            lanes[i] = (struct mini_lane){ .token = 1, .kv = kv, .logits = logits };
        }
        mini_model_pass(lanes, MINI_LANES, p->copies);
        passes++;
    }
    const double pass_s = (double)(bench_now_ns() - begin) * 1e-9 / passes;
    free(kv);
    free(logits);
    const double prompt = (p->prompt_min + p->prompt_max) / 2.0 + (p->reuse ? 0 : p->shared_prefix);
    const double output = (p->output_min + p->output_max) / 2.0;
    const double groups = ceil((double)p->slots / MINI_LANES);
    return 1 / (pass_s * (prompt / MINI_LANES + output * groups / p->slots));
}

static void arrivals_make(double per_s)
{
    double at_s = 0;
    uint64_t random = engine.random ^ 0x5555;
    const uint64_t begin = bench_now_ns();
    while (bench_running(engine.b)) {
        at_s -= log(1 - bench_uniform(&random)) / per_s; /* Poisson */
        bench_sleep_until(begin + (uint64_t)(at_s * 1e9));
        job_submit(job_make(-1, &random), 0);
    }
}

static void engine_define(void)
{
    const struct mini_plan *p = engine.plan;
    struct sonde_model_load load;
    engine.model = sonde_name("mini");
    engine.route = sonde_name("/v1/completions");
    engine.send_phase = sonde_name("send");
    engine.pool = sonde_allocator("kv");
    sonde_tokenizer_define(&engine.tokenizer, "words");
    sonde_model_load_begin(&load, engine.model);
    mini_model_make(&engine.b->random);
    sonde_model_load_end(&load, mini_model_bytes(), SONDE_OK);
    sonde_model_backend(engine.model, "cpu");
    sonde_model_memory(engine.model, "weights", mini_model_bytes());
    engine.cells_max = p->kv_cells ? p->kv_cells : 65536;
    sonde_gauge_set(engine.pool.capacity, (double)(engine.cells_max * cell_bytes()));
    sonde_model_memory(engine.model, "kv", engine.cells_max * cell_bytes());
}

void mini_engine_run(struct bench *b, const struct mini_plan *given)
{
    static struct mini_plan plan;
    pthread_t server, clients[CLIENTS_MAX];
    plan = *given;
    if (!plan.encode) plan.encode = mini_encode;
    if (!plan.sample) plan.sample = mini_sample;
    if (!plan.spell) plan.spell = mini_spell;
    if (!plan.chunk) plan.chunk = 64;
    engine.b = b;
    engine.plan = &plan;
    engine.random = bench_random(&b->random);
    engine_define();
    for (unsigned i = 0; i < plan.shared_prefix; i++) {
        engine.prefix[i] = (uint16_t)bench_between(&b->random, 0, MINI_VOCAB - 1);
    }
    if (pthread_create(&server, NULL, engine_serve, NULL)) bench_fail("pthread_create");
    for (unsigned i = 0; i < plan.clients; i++) {
        if (pthread_create(&clients[i], NULL, client_ask, (void *)(intptr_t)i)) {
            bench_fail("pthread_create");
        }
    }
    if (plan.load > 0) arrivals_make(plan.load * capacity_measure());
    bench_sleep_until(b->end_ns);
    pthread_mutex_lock(&engine.lock);
    engine.stopping = 1;
    pthread_cond_broadcast(&engine.arrived);
    pthread_cond_broadcast(&engine.finished);
    pthread_mutex_unlock(&engine.lock);
    for (unsigned i = 0; i < plan.clients; i++) pthread_join(clients[i], NULL);
    pthread_join(server, NULL);
}
