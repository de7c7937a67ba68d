/* engine_kv.c - a KV cache that is too small for the requests in the engine: the newest gives
 * up its cells and computes them again. */
#include "../engine/mini_engine.h"

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    mini_engine_run(&b, &(struct mini_plan){
        .clients = bench_between(&b.random, 8, 12), .slots = 8, .pause_us = 500,
        .prompt_min = 60, .prompt_max = 160, .output_min = 60, .output_max = 160,
        .kv_cells = bench_between(&b.random, 500, 900) /* PLANTED */
    });
    return 0;
}
