/* verdict.h - whether a load measured the server, and if not, why: the client was the limit, the
 * schedule was not kept, it was not steady, there are too few independent values, most failed.
 *
 * A reason makes a result invalid. What is only worth knowing (the CPU's governor, a little stolen
 * time, tokens that were counted as events) is a remark. Every limit is in the table of verdict.c,
 * with what it stands on. */
#ifndef SONDE_BENCH_HTTP_VERDICT_H
#define SONDE_BENCH_HTTP_VERDICT_H

#include "bench/http/load.h"
#include "bench/http/measure.h"
#include "bench/result.h"

#define SONDE_LOAD_REMARKS_MAX 16u
#define SONDE_LOAD_REMARK_SIZE 320u

struct sonde_load_remarks {
    char text[SONDE_LOAD_REMARKS_MAX][SONDE_LOAD_REMARK_SIZE];
    size_t count;
};
void sonde_load_remark(struct sonde_load_remarks *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reasons go to result, which has ended (its machine is looked at). 0 or SONDE_ENOMEM. */
int sonde_load_judge(const struct sonde_load_measures *m, const struct sonde_load_result *load,
                     int open, struct sonde_bench_result *result,
                     struct sonde_load_remarks *remarks);

#endif
