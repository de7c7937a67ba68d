/* engine_prefix.c - all prompts begin with the same long text, which is computed for each of
 * them. */
#include "../engine/mini_engine.h"

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    mini_engine_run(&b, &(struct mini_plan){
        .clients = bench_between(&b.random, 2, 4), .slots = 8, .pause_us = 10000, .chunk = 128,
        .shared_prefix = bench_between(&b.random, 250, 500), .reuse = 0, /* PLANTED */
        .prompt_min = 8, .prompt_max = 40, .output_min = 12, .output_max = 32
    });
    return 0;
}
