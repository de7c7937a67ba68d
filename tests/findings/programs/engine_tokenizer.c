/* engine_tokenizer.c - a tokenizer that merges pairs of letters and looks for the best pair in
 * all of the text each time: encoding takes longer than computing. */
#include "../engine/mini_engine.h"

/* Rank of the pair, from the vocabulary one by one: how early a word has it. */
BENCH_NOINLINE static unsigned pair_rank(char left, char right)
{
    for (unsigned t = 0; t < MINI_VOCAB; t++) { /* PLANTED: what it looks up again and again */
        const char *word = mini_word(t);
        for (unsigned i = 0; word[i] && word[i + 1]; i++) {
            if (word[i] == left && word[i + 1] == right) return t;
        }
    }
    return MINI_VOCAB;
}

BENCH_NOINLINE static unsigned pairs_encode(const char *text, uint16_t *tokens, unsigned max)
{
    static char merged[MINI_TOKENS_MAX * 6]; /* PLANTED: quadratic, and no table of ranks */
    const size_t length = strlen(text);
    memset(merged, 0, length);
    for (size_t merges = 0; merges < length / 8; merges++) {
        size_t best_at = 0;
        unsigned best = MINI_VOCAB;
        for (size_t i = 0; i + 1 < length; i++) {
            if (merged[i] || text[i] == ' ' || text[i + 1] == ' ') continue;
            const unsigned rank = pair_rank(text[i], text[i + 1]);
            if (rank < best) best = rank, best_at = i;
        }
        merged[best_at] = 1;
    }
    return mini_encode(text, tokens, max);
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    mini_engine_run(&b, &(struct mini_plan){
        .clients = bench_between(&b.random, 3, 6), .slots = 8, .pause_us = 3000,
        .encode = pairs_encode,
        .prompt_min = 100, .prompt_max = bench_between(&b.random, 160, 240), .output_min = 4,
        .output_max = 12
    });
    return 0;
}
