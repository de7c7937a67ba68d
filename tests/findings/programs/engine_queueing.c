/* engine_queueing.c - more requests arrive than the engine can serve: they wait ever longer. */
#include "../engine/mini_engine.h"

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    mini_engine_run(&b, &(struct mini_plan){
        .load = 2.5 + 1.5 * bench_uniform(&b.random), .slots = bench_between(&b.random, 4, 8),
        /* PLANTED */
        .prompt_min = 20, .prompt_max = 80, .output_min = 16,
        .output_max = bench_between(&b.random, 32, 96)
    });
    return 0;
}
