/* engine_text.c - text that is made anew for each token, from the first one on, and searched
 * for every stop string from its beginning: spelling takes longer than computing. */
#include "../engine/mini_engine.h"

enum { STOPS = 48 };

BENCH_NOINLINE static unsigned stops_search(const char *text)
{
    unsigned found = 0;
    for (unsigned s = 0; s < STOPS; s++) { /* PLANTED: from the beginning each time */
        const char *stop = mini_word(s * 5);
        for (const char *at = text; *at; at++) {
            unsigned i = 0;
            while (stop[i] && at[i] == stop[i]) i++;
            found += !stop[i] && at[i] == '\n';
        }
    }
    return found;
}

BENCH_NOINLINE static void whole_spell(struct mini_job *job)
{
    const unsigned produced = job->produced; /* PLANTED: quadratic in the length of the answer */
    job->answer_length = 0;
    for (job->produced = 1; job->produced <= produced; job->produced++) mini_spell(job);
    job->produced = produced;
    if (stops_search(job->answer)) job->answer[0] = 0;
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    mini_engine_run(&b, &(struct mini_plan){
        .clients = bench_between(&b.random, 5, 8), .slots = 8, .pause_us = 1000,
        .spell = whole_spell,
        .prompt_min = 10, .prompt_max = 40, .output_min = 200,
        .output_max = bench_between(&b.random, 300, 600)
    });
    return 0;
}
