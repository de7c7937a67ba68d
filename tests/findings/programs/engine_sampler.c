/* engine_sampler.c - a sampler that sorts the whole vocabulary for each token and counts how
 * often each word of it is in the text so far: choosing takes longer than computing. */
#include "../engine/mini_engine.h"

struct choice { unsigned token; float logit; };

static int choice_compare(const void *a, const void *b)
{
    const float x = ((const struct choice *)a)->logit, y = ((const struct choice *)b)->logit;
    return (x < y) - (x > y);
}

BENCH_NOINLINE static void repeats_punish(float *logits, const uint16_t *history, unsigned count)
{
    /* PLANTED: all of the text for each token */
    for (unsigned token = 0; token < MINI_VOCAB; token++) {
        unsigned times = 0, last = 0;
        for (unsigned i = 0; i < count; i++) {
            if (history[i] != token) continue;
            times += 1 + (i && history[i - 1] == history[count - 1]); /* a pair counts twice */
            last = i;
        }
        if (times) logits[token] -= 0.1f * (float)times + 0.5f / (float)(count - last);
    }
}

BENCH_NOINLINE static unsigned sorted_sample(float *logits, const uint16_t *history,
                                             unsigned count, uint64_t *random)
{
    struct choice all[MINI_VOCAB]; /* PLANTED: all of the vocabulary, for forty candidates */
    repeats_punish(logits, history, count);
    for (unsigned i = 0; i < MINI_VOCAB; i++) all[i] = (struct choice){ i, logits[i] };
    qsort(all, MINI_VOCAB, sizeof(all[0]), choice_compare);
    for (unsigned i = 40; i < MINI_VOCAB; i++) logits[all[i].token] = -1e9f;
    return mini_sample(logits, history, count, random);
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    mini_engine_run(&b, &(struct mini_plan){
        .clients = bench_between(&b.random, 5, 8), .slots = 8, .pause_us = 1000,
        .sample = sorted_sample,
        .prompt_min = 40, .prompt_max = 120, .output_min = 200,
        .output_max = bench_between(&b.random, 260, 500)
    });
    return 0;
}
