/* healthy_warm_up.c - fills its tables in the first half second and then serves from them,
 * allocating and freeing a little per request. */
#include "bench.h"

static char **tables;
static unsigned tables_count, table_bytes;
static volatile unsigned result;

BENCH_NOINLINE static void table_load(unsigned i)
{
    tables[i] = bench_alloc(table_bytes);
    memset(tables[i], (int)i, table_bytes);
}

BENCH_NOINLINE static void request_serve(uint64_t *random)
{
    char *answer = bench_alloc(4096);
    const char *table = tables[bench_between(random, 0, tables_count - 1)];
    for (unsigned i = 0; i < 4096; i++) answer[i] = table[(i * 37) % table_bytes];
    result += (unsigned)answer[bench_between(random, 0, 4095)];
    free(answer);
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    tables_count = bench_between(&b.random, 200, 1000);
    table_bytes = bench_between(&b.random, 20000, 80000);
    tables = bench_alloc(tables_count * sizeof(*tables));
    for (unsigned i = 0; i < tables_count; i++) {
        table_load(i);
        bench_sleep_until(b.begin_ns + (uint64_t)(0.5e9 * (i + 1) / tables_count));
    }
    while (bench_running(&b)) {
        for (unsigned i = 0; i < 20; i++) request_serve(&b.random);
        bench_sleep_us(2000);
    }
    return 0;
}
