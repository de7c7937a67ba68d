/* gpu_memory.c - an engine whose device has no memory left: what does not fit is computed by
 * the CPU. No GPU is here: the figures are told to sonde as an engine would tell those of
 * cuda0. */
#include "bench.h"
#include "sonde/engine.h"

enum { CELLS = 20000 };

static float cells[CELLS];

BENCH_NOINLINE static float fallback_compute(void)
{
    float sum = 0;
    for (unsigned i = 0; i < CELLS; i++) sum += cells[i] * cells[i];
    return sum;
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    const uint64_t total = (uint64_t)bench_between(&b.random, 8, 80) << 30;
    const double used = 0.965 + 0.03 * bench_uniform(&b.random);
    const unsigned fallback_percent = bench_between(&b.random, 10, 40);
    const struct sonde_device device = sonde_device("cuda0");
    const struct sonde_device_op on_device = sonde_device_op("cuda0", "matmul"),
        on_cpu = sonde_device_op("cpu", "matmul");
    for (unsigned i = 0; i < CELLS; i++) cells[i] = (float)bench_uniform(&b.random);
    float sum = 0;
    while (bench_running(&b)) {
        const double now = used + 0.004 * bench_uniform(&b.random);
        sonde_device_memory(device, (uint64_t)((double)total * now), total);
        const uint64_t begin = bench_now_ns();
        if (bench_between(&b.random, 1, 100) <= fallback_percent) {
            sonde_device_fallback("cuda0", "out_of_memory"); /* PLANTED */
            sum += fallback_compute();
            sonde_device_op_record(on_cpu, bench_now_ns() - begin);
        } else {
            bench_sleep_us(800); /* the device computes */
            sonde_device_op_record(on_device, bench_now_ns() - begin);
        }
    }
    return sum == 1;
}
