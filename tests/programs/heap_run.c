/* heap_run.c - writes a run file with a heap profile whose figures are known (heap_sample.h):
 *   heap_run FILE [GROWTH]    of each site GROWTH times the bytes in use; default 1 */
#include <stdio.h>
#include <stdlib.h>

#include "analyze/growth.h"
#include "store/run/run.h"
#include "unit/present/heap_sample.h"

int main(int argc, char **argv)
{
    struct sonde_err err = { "" };
    if (argc < 2) return 2;
    struct sonde_profile *p = heap_sample(0.1);
    const double growth = argc > 2 ? atof(argv[2]) : 1;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        p->samples[i].weight = (uint64_t)((double)p->samples[i].weight * growth);
    }
    if (sonde_growth_judge_profile(p) || sonde_run_save(argv[1], p, &err)) {
        fprintf(stderr, "heap_run: %s\n", err.text);
        return 1;
    }
    sonde_profile_destroy(p);
    return 0;
}
