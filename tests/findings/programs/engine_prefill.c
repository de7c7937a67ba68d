/* engine_prefill.c - now and then a very long prompt comes and is computed in one pass of its own,
 * before anything else: all answers stand still meanwhile. */
#include "../engine/mini_engine.h"

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    mini_engine_run(&b, &(struct mini_plan){
        .clients = bench_between(&b.random, 4, 6), .slots = 8, .pause_us = 2000,
        .prompt_min = 10, .prompt_max = 40, .output_min = 60, .output_max = 120,
        .long_every = bench_between(&b.random, 4, 7),
        .long_prompt = bench_between(&b.random, 1500, 2800),
        .chunk = 4000, .prefill_alone = 1 /* PLANTED */
    });
    return 0;
}
