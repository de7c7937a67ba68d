/* engine_loop.c - the loop of an inference engine, and what it takes to instrument it.
 *
 *   prompts ──▶ queue ──▶ slots ──▶ one pass over all slots: a prompt, or one token each ──▶ text
 *
 * The model is a real one, though nobody has trained it: bytes are its tokens, a state of DIM numbers
 * is what it remembers of a sequence, and a pass multiplies a matrix with it. Around it is what engines
 * do: continuous batching, memory of sequences from a pool, clients that go away. What has sonde_ in
 * it is the instrumentation. Time between tokens is also read back, in process, and decides how many
 * requests may share a pass: engine_loop [MICROSECONDS], the objective for its 95th percentile.
 * examples/engine.c does this with threads, engine/ is a whole server. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sonde/engine.h"
#include "sonde/inference.h"
#include "sonde/read.h"

enum { DIM = 512, VOCAB = 256, SLOTS = 8, JOBS = 32, TOKENS = 32, PASSES_A_DECISION = 8 };

struct job {
    struct sonde_request request;
    char prompt[64], answer[TOKENS];
    size_t prompt_tokens, prompt_done, produced;
    uint64_t last;                               /* ticks, of its last token */
    float *state;
};

static float recur[DIM][DIM], embed[VOCAB][DIM]; /* the weights */
static struct job jobs[JOBS], *slots[SLOTS];
static size_t arrived, running, slots_max = SLOTS;

static uint32_t model, route;                    /* names and handles: defined once, then kept */
static struct sonde_allocator pool;
static struct sonde_device_op matmul;
static struct sonde_tokenizer tokenizer;
static struct sonde_hist inter_token[SLOTS + 1]; /* by how many share a pass */

static uint64_t ns_since(uint64_t ticks) { return sonde_ticks_ns(sonde_ticks() - ticks); }

static void define(void)
{
    static const char *const labels[] = { "slots", NULL };
    struct sonde_family family;
    char slots_text[4];
    sonde_define(SONDE_HISTOGRAM, &(struct sonde_metric){ .size = sizeof(struct sonde_metric),
        .name = "loop_inter_token_seconds", .labels = labels, .scale = 1e-9 }, &family);
    for (int i = 1; i <= SLOTS; i++) {
        snprintf(slots_text, sizeof(slots_text), "%d", i);
        inter_token[i] = sonde_hist_bind(family, (const char *const[]){ slots_text });
    }
    model = sonde_name("loop");
    route = sonde_name("/loop");
    pool = sonde_allocator("kv");
    matmul = sonde_device_op("cpu", "matmul");
    sonde_tokenizer_define(&tokenizer, "bytes");
}

static void model_load(void)
{
    struct sonde_model_load load;
    uint32_t random = 1;
    sonde_model_load_begin(&load, model);
    for (size_t i = 0; i < (DIM + VOCAB) * DIM; i++) {
        float *const weight = i < DIM * DIM ? &recur[i / DIM][i % DIM] : &embed[i / DIM - DIM][i % DIM];
        random = random * 1664525u + 1013904223u;
        *weight = ((float)(random >> 8) / (1 << 24) - 0.5f) / 4;
    }
    sonde_model_load_end(&load, sizeof(recur) + sizeof(embed), SONDE_OK);
    sonde_model_backend(model, "cpu");
    sonde_model_memory(model, "weights", sizeof(recur) + sizeof(embed));
    sonde_gauge_set(pool.capacity, SLOTS * DIM * sizeof(float));
}

static void job_arrive(struct job *j, int number)
{
    struct sonde_phase phase;
    char id[16];
    snprintf(id, sizeof(id), "loop-%d", number);
    sonde_request_begin(&j->request, &(struct sonde_request_info){ .model = model, .route = route,
        .size = sizeof(struct sonde_request_info), .id = id, .tokens_max = TOKENS });
    sonde_phase_begin(&phase, &j->request, SONDE_PHASE_ENCODE);
    const uint64_t start = sonde_ticks();
    j->prompt_tokens = (size_t)snprintf(j->prompt, sizeof(j->prompt), "What is the square of %d?", number);
    sonde_tokenizer_encoded(&tokenizer, &(struct sonde_tokenizer_encoded){ .ns = ns_since(start),
        .bytes = j->prompt_tokens, .tokens = j->prompt_tokens, .lookups = j->prompt_tokens });
    sonde_phase_end(&phase, j->prompt_tokens);
    sonde_request_prompt(&j->request, j->prompt_tokens, 0);
}

static void job_start(struct job *j)
{
    const uint64_t start = sonde_ticks();
    j->state = calloc(DIM, sizeof(float));
    if (!j->state) abort();
    sonde_hist_record(pool.allocation, ns_since(start));
    sonde_pool_add(pool.used, DIM * sizeof(float));
    slots[running++] = j;
    sonde_model_waiting(model, JOBS - arrived);
}

static void job_end(size_t slot, enum sonde_outcome outcome)
{
    struct job *j = slots[slot];
    sonde_request_end(&j->request, outcome, NULL);
    const uint64_t start = sonde_ticks();
    free(j->state);
    sonde_hist_record(pool.release, ns_since(start));
    sonde_pool_add(pool.used, -(int64_t)(DIM * sizeof(float)));
    slots[slot] = slots[--running];
}

static void state_step(float *state, char token)
{
    const uint64_t start = sonde_ticks();
    float next[DIM];
    for (size_t r = 0; r < DIM; r++) {
        next[r] = embed[(unsigned char)token][r];
        for (size_t c = 0; c < DIM; c++) next[r] += recur[r][c] * state[c];
    }
    for (size_t r = 0; r < DIM; r++) state[r] = tanhf(next[r]);
    sonde_device_op_record(matmul, ns_since(start));
}

/* One forward pass for all slots: whole prompts, or the last token of an answer. */
static void pass(void)
{
    struct sonde_batch batch;
    sonde_batch_begin(&batch);
    for (size_t i = 0; i < running; i++) {
        struct job *j = slots[i];
        sonde_batch_add(&batch, &j->request, j->prompt_tokens - j->prompt_done, j->produced > 0);
        while (j->prompt_done < j->prompt_tokens) state_step(j->state, j->prompt[j->prompt_done++]);
        if (j->produced) state_step(j->state, j->answer[j->produced - 1]);
    }
    sonde_batch_end(&batch);
    sonde_model_kv(model, running, SLOTS);
}

/* The token that the state is most like, of those that can be printed. */
static void token_choose(struct job *j, size_t shared)
{
    struct sonde_phase phase;
    float best = -INFINITY;
    sonde_phase_begin(&phase, &j->request, SONDE_PHASE_SAMPLE);
    for (char token = ' '; token < 127; token++) {
        float logit = 0;
        for (size_t c = 0; c < DIM; c++) logit += embed[(int)token][c] * j->state[c];
        if (logit > best) j->answer[j->produced] = token, best = logit;
    }
    sonde_phase_end(&phase, 1);
    sonde_request_tokens(&j->request, 1);
    if (j->produced++) sonde_hist_record(inter_token[shared], ns_since(j->last));
    j->last = sonde_ticks();
}

int main(int argc, char **argv)
{
    const double objective_s = (argc > 1 ? atof(argv[1]) : 2000) * 1e-6;
    define();
    model_load();
    for (int i = 0; i < JOBS; i++) job_arrive(&jobs[i], i); /* all at once: they wait for slots */
    for (size_t passes = 1; running || arrived < JOBS; passes++) {
        while (arrived < JOBS && running < slots_max) job_start(&jobs[arrived++]);
        pass();
        for (size_t shared = running, i = running; i-- > 0;) {
            struct job *j = slots[i];
            token_choose(j, shared);
            if (j->produced == TOKENS) job_end(i, SONDE_OK);
            else if ((j - jobs) % 9 == 8 && j->produced == 10) job_end(i, SONDE_CANCELLED);
        }
        /* Too slow with so many: fewer. What nobody has measured yet is NaN, and no reason. */
        if (passes % PASSES_A_DECISION == 0 && slots_max > 1 &&
            sonde_read_quantile(inter_token[slots_max], 0.95) > objective_s) slots_max--;
    }
    printf("%d requests, up to %zu in a pass at the end\n", JOBS, slots_max);
    return 0;
}
