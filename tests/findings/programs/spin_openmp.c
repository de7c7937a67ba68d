/* spin_openmp.c - a triangular loop with OpenMP's static schedule: the last thread has three
 * times the work of the first, which spins in libgomp's barrier (OMP_WAIT_POLICY=active). */
#include <omp.h>

#include "bench.h"

enum { ROWS_MAX = 768 };

static double matrix[ROWS_MAX][ROWS_MAX], row_sum[ROWS_MAX];

BENCH_NOINLINE static void triangle_sum(int rows)
{
#pragma omp parallel for schedule(static) num_threads(2)
    for (int r = 0; r < rows; r++) { /* PLANTED: rows are of unequal length */
        double sum = 0;
        for (int c = 0; c < r; c++) sum += matrix[r][c] * matrix[c][r] / (1 + sum * sum);
        row_sum[r] = sum;
    }
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    const int rows = (int)bench_between(&b.random, ROWS_MAX / 3, ROWS_MAX);
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < rows; c++) matrix[r][c] = bench_uniform(&b.random);
    }
    while (bench_running(&b)) triangle_sum(rows);
    return row_sum[1] < 0;
}
