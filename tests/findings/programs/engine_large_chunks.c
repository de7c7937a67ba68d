/* engine_large_chunks.c - prompts of a good length are computed together with the answers, in
 * chunks so large that every pass with one takes a multiple of a pass without. */
#include "../engine/mini_engine.h"

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    mini_engine_run(&b, &(struct mini_plan){
        .clients = bench_between(&b.random, 5, 8), .slots = 8, .pause_us = 2000,
        .prompt_min = 500, .prompt_max = 1400, .output_min = 60, .output_max = 140,
        .chunk = bench_between(&b.random, 1024, 2048) /* PLANTED */
    });
    return 0;
}
