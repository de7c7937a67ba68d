/* engine_slow_first.c - prompts so long for this machine that the first token takes longer than
 * the objective (bench.tsv sets it), though nothing waits and tokens then come quickly. */
#include "../engine/mini_engine.h"

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    mini_engine_run(&b, &(struct mini_plan){
        .clients = 1, .slots = 4, .pause_us = 20000, .copies = bench_between(&b.random, 4, 6),
        .chunk = 256,
        .prompt_min = 700, .prompt_max = 1000, .output_min = 4, .output_max = 8 /* PLANTED */
    });
    return 0;
}
