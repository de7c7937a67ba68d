/* stand_in.c - a program with llama.cpp's functions linked into it, as far as they are watched:
 * same names, same signatures, same structs by value, known times, no inference. It serves requests
 * on two sequences as a server does: prompts are turned into tokens on a thread of each request's
 * own, prompts and single tokens share batches, part of a prompt is reused, samplers nest.
 *
 *     llama_stand_in [REQUESTS [STEP_US]]    waits for a line on its input first
 *
 * At the end it says what it did, one "name value" a line. */
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define API __attribute__((noinline, noipa))

enum { SLOTS = 2, EOG = 2, ROWS = 4096, WEIGHTS = 1 << 20, KV = 3 << 16, COMPUTE = 5 << 14 };

/* ---- What the library's own structs look like ------------------------------------------------ */

struct ggml_backend_buffer { void *calls[9]; void *type, *context; size_t size; int usage; };
struct ggml_tensor { char head[256]; char name[64]; };
struct ggml_object { size_t offset, size; struct ggml_object *next; int type; char pad[4]; };
struct ggml_context { size_t mem_size; void *mem_buffer; };
struct llama_model { int unused; };
struct llama_context { struct llama_model *model; int memory; };
struct llama_sampler { struct llama_sampler *inner[3]; };
struct llama_model_params { uint64_t words[9]; };
struct llama_context_params { uint64_t words[15]; };
struct llama_batch {
    int32_t n_tokens;
    int32_t *token;
    float *embd;
    int32_t *pos;
    int32_t *n_seq_id;
    int32_t **seq_id;
    int8_t *logits;
};

/* ---- What it did ----------------------------------------------------------------------------- */

static struct {
    uint64_t requests, prompt_tokens, reused_tokens, output_tokens, batches, batch_tokens;
    uint64_t tokenize, pieces, samples, decode_ns, tokenize_ns, sample_ns, load_ns;
} did;
static uint64_t step_ns = 3000000;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Busy for so long; says for how long it really was. */
static uint64_t busy(uint64_t ns)
{
    const uint64_t begin = now_ns();
    uint64_t now = begin;
    while (now - begin < ns) now = now_ns();
    return now - begin;
}

/* ---- The functions --------------------------------------------------------------------------- */

API size_t ggml_backend_buffer_get_size(struct ggml_backend_buffer *b) { return b->size; }
API const char *ggml_get_name(const struct ggml_tensor *t) { return t->name; }

API void ggml_backend_buffer_set_usage(struct ggml_backend_buffer *b, int usage)
{
    b->usage = usage;
}
API void ggml_backend_buffer_free(struct ggml_backend_buffer *b) { free(b); }

static struct ggml_backend_buffer *make_buffer(size_t size)
{
    struct ggml_backend_buffer *b = calloc(1, sizeof(*b));
    b->size = size;
    return b;
}

API struct ggml_backend_buffer *ggml_backend_alloc_ctx_tensors_from_buft(struct ggml_context *c,
                                                                         void *type)
{
    struct ggml_backend_buffer *b = make_buffer(KV);
    b->context = c;
    b->type = type;
    busy(step_ns);
    return b;
}

static struct ggml_backend_buffer *weights, *kv, *compute;

API struct llama_model *llama_model_load_from_file(const char *path, struct llama_model_params p)
{
    const uint64_t begin = now_ns();
    struct llama_model *m = path[0] && p.words[0] ? calloc(1, sizeof(*m)) : NULL;
    weights = make_buffer(WEIGHTS);
    ggml_backend_buffer_set_usage(weights, 1);
    busy(4 * step_ns);
    did.load_ns = now_ns() - begin;
    return m;
}

API struct llama_context *llama_init_from_model(struct llama_model *m,
                                                struct llama_context_params p)
{
    static char memory[1024];
    static struct ggml_context tensors = { sizeof(memory), memory };
    struct ggml_object *first = (struct ggml_object *)(void *)memory;
    struct llama_context *c = calloc(1, sizeof(*c));
    c->model = p.words[0] ? m : NULL;
    first->offset = sizeof(*first);
    struct ggml_tensor *t = (struct ggml_tensor *)(void *)(memory + first->offset);
    strcpy(t->name, "cache_k_l0");
    kv = ggml_backend_alloc_ctx_tensors_from_buft(&tensors, t);
    compute = make_buffer(COMPUTE);
    ggml_backend_buffer_set_usage(compute, 2);
    busy(step_ns);
    return c;
}

API void llama_free(struct llama_context *c) { free(c); }
API void llama_model_free(struct llama_model *m) { free(m); }
API void *llama_get_memory(struct llama_context *c) { return &c->memory; }
API bool llama_memory_seq_rm(void *m, int32_t seq, int32_t p0, int32_t p1)
{
    *(int *)m = p0 - p1;
    return seq >= 0;
}
API void llama_memory_clear(void *m, bool data) { *(int *)m = data; }
API void llama_set_warmup(struct llama_context *c, bool on) { c->memory = on; }
API void llama_perf_context_reset(struct llama_context *c) { c->memory = 0; }

API int32_t llama_tokenize(const void *vocab, const char *text, int32_t len, int32_t *tokens,
                           int32_t room, bool special, bool parse)
{
    const uint64_t ns = busy(300000);
    __atomic_fetch_add(&did.tokenize, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&did.tokenize_ns, ns, __ATOMIC_RELAXED);
    if (room < len || !vocab || (special && parse)) return -len;
    for (int32_t i = 0; i < len; i++) tokens[i] = 1000 + text[i] * 7 + i;
    return len;
}

static jmp_buf away;
API int32_t llama_token_to_piece(const void *vocab, int32_t token, char *out, int32_t room,
                                 int32_t strip, bool special)
{
    if (token < 0) longjmp(away, 1);
    if (room < 1 || strip || special || !vocab) return -1;
    did.pieces++;
    out[0] = (char)('a' + token % 26);
    return 1;
}

API bool llama_vocab_is_eog(const void *vocab, int32_t token) { return vocab && token == EOG; }

API int32_t llama_decode(struct llama_context *c, struct llama_batch b)
{
    did.decode_ns += busy(step_ns + (uint64_t)b.n_tokens * 20000);
    did.batches++;
    did.batch_tokens += (uint64_t)b.n_tokens;
    return c ? 0 : 1;
}

static float logits[16];
API float *llama_get_logits_ith(struct llama_context *c, int32_t row)
{
    return c && row >= 0 ? logits : NULL;
}

API void llama_sampler_apply(struct llama_sampler *s, void *candidates)
{
    for (int i = 0; i < 3; i++) {
        if (s->inner[i]) llama_sampler_apply(s->inner[i], candidates);
    }
    busy(50000);
}

API int32_t llama_sampler_sample(struct llama_sampler *s, struct llama_context *c, int32_t row)
{
    llama_sampler_apply(s, llama_get_logits_ith(c, row));
    return 0;
}

/* ---- A server -------------------------------------------------------------------------------- */

struct slot {
    int request;             /* -1 = idle */
    int32_t prompt[256], length, reused, done, left, last, row;
};

static int vocab;
static struct slot slots[SLOTS];

/* Turns a prompt into tokens as callers do: room for too few at first. */
static void *tokenize(void *arg)
{
    struct slot *s = arg;
    char text[256];
    snprintf(text, sizeof(text), "request %d %.*s", s->request, s->request % 50,
             "which has a prompt of a length of its own, as they do");
    const int32_t length = (int32_t)strlen(text);
    const int32_t wanted = llama_tokenize(&vocab, text, length, s->prompt, 4, false, true);
    s->length = llama_tokenize(&vocab, text, length, s->prompt, -wanted, false, true);
    return NULL;
}

static void begin(struct slot *s, int request, struct llama_context *c)
{
    pthread_t thread;
    s->request = request;
    if (pthread_create(&thread, NULL, tokenize, s) || pthread_join(thread, NULL)) abort();
    s->reused = request < SLOTS ? 0 : 4;
    s->done = s->reused;
    s->left = 4 + request % 3;
    llama_memory_seq_rm(llama_get_memory(c), (int32_t)(s - slots), s->reused, -1);
    did.requests++;
    did.prompt_tokens += (uint64_t)s->length;
    did.reused_tokens += (uint64_t)s->reused;
}

static void add(struct llama_batch *b, int32_t token, int32_t pos, int32_t seq, bool wanted)
{
    const int32_t i = b->n_tokens++;
    b->token[i] = token;
    b->pos[i] = pos;
    b->n_seq_id[i] = 1;
    b->seq_id[i][0] = seq;
    b->logits[i] = wanted;
}

static void put(struct llama_batch *b, struct slot *s)
{
    const int32_t seq = (int32_t)(s - slots);
    if (s->done < s->length) {
        for (; s->done < s->length; s->done++) {
            add(b, s->prompt[s->done], s->done, seq, s->done == s->length - 1);
        }
    } else {
        add(b, s->last, s->done++, seq, true);
    }
    s->row = b->n_tokens - 1;
}

/* Every other request is sampled as llama-server does it, without llama_sampler_sample. */
static void sample(struct slot *s, struct llama_sampler *chain, struct llama_context *c)
{
    char piece[8];
    const uint64_t from = now_ns();
    if (s->request % 2) {
        llama_sampler_sample(chain, c, s->row);
    } else {
        llama_get_logits_ith(c, s->row);
        llama_sampler_apply(chain, logits);
    }
    did.sample_ns += now_ns() - from;
    did.samples++;
    did.output_tokens++;
    s->last = --s->left ? 300 + s->left : EOG;
    llama_token_to_piece(&vocab, s->last, piece, sizeof(piece), 0, false);
    if (llama_vocab_is_eog(&vocab, s->last)) s->request = -1;
}

/* A call that is never returned from, as when an exception passes through it. */
API static void leave_a_call(void)
{
    char piece[8];
    if (!setjmp(away)) llama_token_to_piece(&vocab, -1, piece, sizeof(piece), 0, false);
}

static void serve(struct llama_context *c, struct llama_batch *b, int requests)
{
    struct llama_sampler leaf[2] = { 0 }, chain = { { &leaf[0], &leaf[1], NULL } };
    int next = 0, active = 1;
    for (int i = 0; i < SLOTS; i++) slots[i].request = -1;
    while (active) {
        active = 0;
        b->n_tokens = 0;
        for (int i = 0; i < SLOTS; i++) {
            struct slot *s = &slots[i];
            if (s->request < 0 && next < requests) begin(s, next++, c);
            if (s->request < 0) continue;
            put(b, s);
            active = 1;
        }
        if (!active) break;
        if (llama_decode(c, *b)) abort();
        for (int i = 0; i < SLOTS; i++) {
            if (slots[i].request >= 0) sample(&slots[i], &chain, c);
        }
        leave_a_call();
    }
}

static void make_batch(struct llama_batch *b)
{
    b->token = calloc(ROWS, sizeof(*b->token));
    b->pos = calloc(ROWS, sizeof(*b->pos));
    b->n_seq_id = calloc(ROWS, sizeof(*b->n_seq_id));
    b->seq_id = calloc(ROWS, sizeof(*b->seq_id));
    b->logits = calloc(ROWS, 1);
    for (int i = 0; i < ROWS; i++) b->seq_id[i] = calloc(2, sizeof(int32_t));
}

static void warm_up(struct llama_context *c)
{
    int32_t tokens[2] = { 1, EOG };
    struct llama_batch b = { .n_tokens = 2, .token = tokens };
    llama_set_warmup(c, true);
    if (llama_decode(c, b)) abort();
    llama_memory_clear(llama_get_memory(c), true);
    llama_perf_context_reset(c);
    llama_set_warmup(c, false);
    did.batches = did.batch_tokens = did.decode_ns = 0;
}

int main(int argc, char **argv)
{
    struct llama_batch b = { 0 };
    char line[16];
    const int requests = argc > 1 ? atoi(argv[1]) : 8;
    if (argc > 2) step_ns = (uint64_t)atoi(argv[2]) * 1000;
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin)) return 1;
    make_batch(&b);
    struct llama_model *m =
        llama_model_load_from_file("/models/stand-in.gguf", (struct llama_model_params){ { 1 } });
    struct llama_context *c = llama_init_from_model(m, (struct llama_context_params){ { 1 } });
    warm_up(c);
    serve(c, &b, requests);
    llama_free(c);
    ggml_backend_buffer_free(compute);
    ggml_backend_buffer_free(kv);
    ggml_backend_buffer_free(weights);
    llama_model_free(m);
#define SAY(name) printf(#name " %llu\n", (unsigned long long)did.name)
    SAY(requests);
    SAY(prompt_tokens);
    SAY(reused_tokens);
    SAY(output_tokens);
    SAY(batches);
    SAY(batch_tokens);
    SAY(tokenize);
    SAY(pieces);
    SAY(samples);
    SAY(decode_ns);
    SAY(tokenize_ns);
    SAY(sample_ns);
    SAY(load_ns);
    printf("weights_bytes %d\nkv_bytes %d\ncompute_bytes %d\n", WEIGHTS, KV, COMPUTE);
    return 0;
}
