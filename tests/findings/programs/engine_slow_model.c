/* engine_slow_model.c - a model that is too large for this machine: each token takes longer
 * than the objective for time between tokens (bench.tsv sets it). One request at a time, short
 * prompts, no queue. */
#include "../engine/mini_engine.h"

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    mini_engine_run(&b, &(struct mini_plan){
        /* PLANTED */
        .clients = 1, .slots = 4, .pause_us = 5000, .copies = bench_between(&b.random, 90, 140),
        .prompt_min = 3, .prompt_max = 8, .output_min = 6, .output_max = 10
    });
    return 0;
}
