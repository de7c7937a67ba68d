/* engine_batch MODEL TOKENS SLOTS THREADS BATCH: prompts as token ids, a line each, from standard
 * input, all submitted at once, so that they are computed in the same passes; then once more, so
 * that what the slots still hold is reused. Prints of each "cached n: id id …", greedy, in the
 * order of prompts; the second round behind the first. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/engine.h"

enum { PROMPTS_MAX = 64, LINE_MAX_BYTES = 1 << 16, ROUNDS = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int running, failed;

struct answer {
    int32_t *prompt, *tokens;
    uint32_t prompt_count, count, cached;
};

static int on_token(void *context, int32_t token, const char *piece, size_t bytes)
{
    (void)piece;
    (void)bytes;
    struct answer *a = context;
    a->tokens[a->count++] = token;
    return 0;
}

static void on_end(void *context, enum engine_finish finish, const char *why,
                   const struct engine_timings *timings)
{
    struct answer *a = context;
    pthread_mutex_lock(&lock);
    a->cached = timings->cache_n;
    if (finish != ENGINE_LENGTH) {
        fprintf(stderr, "engine_batch: ended with %d: %s\n", (int)finish, why ? why : "");
        failed = 1;
    }
    running--;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static size_t prompts_read(struct answer *answers, uint32_t tokens_max)
{
    static char line[LINE_MAX_BYTES];
    size_t n = 0;
    while (n < PROMPTS_MAX && fgets(line, sizeof(line), stdin)) {
        struct answer *a = &answers[n++];
        a->prompt = malloc((strlen(line) / 2 + 1) * sizeof(*a->prompt));
        a->tokens = malloc(tokens_max * sizeof(*a->tokens));
        if (!a->prompt || !a->tokens) exit(1);
        for (char *at = line, *end;; at = end) {
            const long id = strtol(at, &end, 10);
            if (end == at) break;
            a->prompt[a->prompt_count++] = (int32_t)id;
        }
    }
    return n;
}

static void round_run(struct engine *e, struct answer *answers, size_t count, uint32_t tokens_max)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++) {
        struct answer *a = &answers[i];
        struct engine_request r = { .prompt = a->prompt, .prompt_count = a->prompt_count,
            .tokens_max = tokens_max, .sampler = { .top_p = 1 }, .ignore_end = 1,
            .on_token = on_token, .on_end = on_end, .context = a };
        struct fail why;
        uint64_t id;
        a->count = 0;
        running++;
        if (!engine_submit(e, &r, &id, &why)) continue;
        fprintf(stderr, "engine_batch: %s\n", why.text);
        exit(1);
    }
    while (running) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < count; i++) {
        printf("cached %u:", answers[i].cached);
        for (uint32_t k = 0; k < answers[i].count; k++) printf(" %d", answers[i].tokens[k]);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    static struct answer answers[PROMPTS_MAX];
    if (argc != 6) return 2;
    const uint32_t tokens_max = (uint32_t)atoi(argv[2]);
    const struct engine_options o = { .model_path = argv[1], .slots = (uint32_t)atoi(argv[3]),
                                      .threads = (uint32_t)atoi(argv[4]),
                                      .batch_tokens = (uint32_t)atoi(argv[5]), .context = 512 };
    const size_t count = prompts_read(answers, tokens_max);
    struct engine *e;
    struct fail why;
    if (engine_create(&o, &e, &why)) {
        fprintf(stderr, "engine_batch: %s\n", why.text);
        return 1;
    }
    for (int i = 0; i < ROUNDS; i++) round_run(e, answers, count, tokens_max);
    engine_destroy(e);
    for (size_t i = 0; i < count; i++) {
        free(answers[i].prompt);
        free(answers[i].tokens);
    }
    return failed;
}
