/* healthy_engine.c - an inference engine at a third of its capacity: prompts share a prefix
 * that is kept, chunks are small, there is room in the KV cache. */
#include "../engine/mini_engine.h"

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    mini_engine_run(&b, &(struct mini_plan){
        .load = 0.2 + 0.15 * bench_uniform(&b.random), .slots = bench_between(&b.random, 8, 16),
        .chunk = 32,
        .prompt_min = 10, .prompt_max = 60, .shared_prefix = bench_between(&b.random, 100, 200),
        .reuse = 1,
        .output_min = 16, .output_max = bench_between(&b.random, 32, 64)
    });
    return 0;
}
