/* llama_logits: what the real llama.cpp says comes next, to compare an engine with.
 *
 *   llama_logits --model FILE --ids "1 2 3" [--tokens N] [--batch N] [--logits FILE] …
 *       goes on greedily and prints a token and how far its logit is above the second on each line;
 *       --logits writes the logits of every token, prompt and answer, as f32, one after the other.
 *       The same tokens in batches of another size, or with --flash 0, show how closely its own
 *       kernels agree.
 *   llama_logits --model FILE --bench PROMPT:ANSWER [--rounds N]
 *       prints for each round the seconds of a prompt in passes of --batch and of an answer one by
 *       one.
 *
 * The same options, where they are there, mean the same as those of `sonde-engine run`. */
#include "ggml-backend.h"
#include "llama.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
    const char *model, *ids, *logits, *bench;
    int tokens, batch, threads, flash, ctx, rounds;
    bool repack;                 /* weights in the order that this CPU likes, as by default */
};

struct eval {
    struct options o;
    struct llama_model *model;
    struct llama_context *ctx;
    struct llama_batch batch;
    int vocab, length;
    FILE *logits;
};

static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("llama_logits: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void on_log(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static void options_read(int argc, char **argv, struct options *o)
{
    *o = (struct options){ .tokens = 128, .batch = 512, .threads = 1, .flash = -1, .ctx = 1024,
                           .rounds = 1 };
    const struct { const char *name, **text; int *number; } rows[] = {
        { "--model", &o->model, NULL },     { "--ids", &o->ids, NULL },
        { "--logits", &o->logits, NULL },   { "--bench", &o->bench, NULL },
        { "--tokens", NULL, &o->tokens },   { "--batch", NULL, &o->batch },
        { "--threads", NULL, &o->threads }, { "--flash", NULL, &o->flash },
        { "--ctx", NULL, &o->ctx },         { "--rounds", NULL, &o->rounds },
    };
    for (int i = 1; i < argc; i++) {
        size_t row = 0;
        if (!strcmp(argv[i], "--repack")) {
            o->repack = true;
            continue;
        }
        while (row < sizeof(rows) / sizeof(rows[0]) && strcmp(argv[i], rows[row].name)) row++;
        if (row == sizeof(rows) / sizeof(rows[0])) die("there is no option %s", argv[i]);
        if (++i == argc) die("%s needs a value", argv[i - 1]);
        if (rows[row].text) *rows[row].text = argv[i];
        else *rows[row].number = atoi(argv[i]);
    }
    if (!o->model || (!o->ids && !o->bench)) die("--model FILE and --ids \"1 2 3\" or --bench P:N");
    if (o->batch < 1 || o->threads < 1 || o->ctx < 1) die("a number is too small");
}

static void load(struct eval *e)
{
    llama_log_set(on_log, NULL);
    ggml_backend_load_all_from_path(LLAMA_LIBRARY);
    llama_backend_init();
    struct llama_model_params model = llama_model_default_params();
    model.use_extra_bufts = e->o.repack;
    e->model = llama_model_load_from_file(e->o.model, model);
    if (!e->model) die("cannot load %s", e->o.model);
    e->vocab = llama_vocab_n_tokens(llama_model_get_vocab(e->model));

    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)e->o.ctx;
    params.n_batch = params.n_ubatch = (uint32_t)e->o.batch;
    params.n_threads = params.n_threads_batch = e->o.threads;
    params.flash_attn_type = (enum llama_flash_attn_type)e->o.flash; /* -1 = as it likes */
    e->ctx = llama_init_from_model(e->model, params);
    if (!e->ctx) die("cannot make a context");
    e->batch = llama_batch_init(e->o.batch, 0, 1);
}

/* Goes on with these tokens, in passes of --batch; the logits of the last one, or of all. */
static const float *evaluate(struct eval *e, const llama_token *tokens, int count)
{
    const float *last = NULL;
    for (int done = 0; done < count;) {
        struct llama_batch *b = &e->batch;
        const int part = count - done < e->o.batch ? count - done : e->o.batch;
        for (int i = 0; i < part; i++) {
            b->token[i] = tokens[done + i];
            b->pos[i] = e->length++;
            b->n_seq_id[i] = 1;
            b->seq_id[i][0] = 0;
            b->logits[i] = e->logits || done + i + 1 == count;
        }
        b->n_tokens = part;
        if (llama_decode(e->ctx, *b)) die("llama_decode failed at position %d", e->length);
        llama_synchronize(e->ctx);
        done += part;
        for (int i = 0; e->logits && i < part; i++) {
            const float *row = llama_get_logits_ith(e->ctx, i);
            if (!row || fwrite(row, sizeof(*row), (size_t)e->vocab, e->logits) != (size_t)e->vocab)
                die("cannot write logits");
        }
        if (done == count) last = llama_get_logits_ith(e->ctx, part - 1);
    }
    if (!last) die("no logits");
    return last;
}

static llama_token best_of(const struct eval *e, const float *logits, float *gap)
{
    int best = 0;
    float second = -1e30f;
    for (int i = 1; i < e->vocab; i++) {
        if (logits[i] > logits[best]) {
            second = logits[best];
            best = i;
        } else if (logits[i] > second) {
            second = logits[i];
        }
    }
    *gap = logits[best] - second;
    return best;
}

static void generate(struct eval *e)
{
    llama_token *prompt = malloc((strlen(e->o.ids) / 2 + 1) * sizeof(*prompt));
    if (!prompt) die("out of memory");
    int count = 0;
    for (char *at = (char *)e->o.ids, *end; prompt[count] = (llama_token)strtol(at, &end, 10),
         end != at; at = end) {
        count++;
    }
    if (e->o.logits && !(e->logits = fopen(e->o.logits, "wb"))) die("cannot write %s", e->o.logits);
    const float *logits = evaluate(e, prompt, count);
    for (int made = 0; made < e->o.tokens;) {
        float gap;
        const llama_token next = best_of(e, logits, &gap);
        printf("%d %.9g\n", next, (double)gap);
        if (++made < e->o.tokens) logits = evaluate(e, &next, 1);
    }
    free(prompt);
    if (e->logits && fclose(e->logits)) die("cannot write %s", e->o.logits);
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void bench(struct eval *e)
{
    int prompt_count = 0, answer_count = 0;
    if (sscanf(e->o.bench, "%d:%d", &prompt_count, &answer_count) != 2 || prompt_count < 1)
        die("--bench is '%s', not PROMPT:ANSWER", e->o.bench);
    llama_token *tokens = malloc((size_t)(prompt_count + answer_count) * sizeof(*tokens));
    if (!tokens) die("out of memory");
    for (int i = 0; i < prompt_count + answer_count; i++) tokens[i] = (i * 37 + 11) % e->vocab;
    evaluate(e, tokens, 1);
    for (int round = 0; round < e->o.rounds; round++) {
        llama_memory_clear(llama_get_memory(e->ctx), true);
        e->length = 0;
        const double begin = seconds_now();
        evaluate(e, tokens, prompt_count);
        const double middle = seconds_now();
        for (int i = 0; i < answer_count; i++) evaluate(e, tokens + prompt_count + i, 1);
        printf("%.9f %.9f\n", middle - begin, seconds_now() - middle);
        fflush(stdout);
    }
    free(tokens);
}

int main(int argc, char **argv)
{
    struct eval e = { 0 };
    options_read(argc, argv, &e.o);
    load(&e);
    if (e.o.bench) bench(&e);
    else generate(&e);
    llama_batch_free(e.batch);
    llama_free(e.ctx);
    llama_model_free(e.model);
    return 0;
}
