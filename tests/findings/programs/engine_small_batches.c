/* engine_small_batches.c - serves its requests in turn, one or two to a pass, though many are
 * there. */
#include "../engine/mini_engine.h"

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    mini_engine_run(&b, &(struct mini_plan){
        .clients = bench_between(&b.random, 7, 12), .slots = 16, .pause_us = 500,
        .pass_requests = bench_between(&b.random, 1, 2), /* PLANTED */
        .prompt_min = 10, .prompt_max = 40, .output_min = 40, .output_max = 100
    });
    return 0;
}
