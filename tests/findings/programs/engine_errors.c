/* engine_errors.c - for some time most requests fail, as when a backend is away. */
#include "../engine/mini_engine.h"

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    mini_engine_run(&b, &(struct mini_plan){
        .clients = bench_between(&b.random, 3, 5), .slots = 8, .pause_us = 10000,
        .prompt_min = 20, .prompt_max = 60, .output_min = 8, .output_max = 24,
        .fail_from_s = 1 + 0.4 * bench_uniform(&b.random), .fail_to_s = 60,
        .fail_percent = bench_between(&b.random, 40, 90) /* PLANTED */
    });
    return 0;
}
