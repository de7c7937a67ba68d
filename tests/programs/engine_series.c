/* engine_series.c - an engine that does nothing but tell of its insides (sonde/engine.h), with
 * figures that are known: for tests of reports, terminals and HTTP. With "stay" it then waits for
 * its end. */
#include <string.h>
#include <unistd.h>

#include "sonde/engine.h"
#include "sonde/inference.h"

static void devices(void)
{
    const struct sonde_device cpu = sonde_device("cpu"), gpu = sonde_device("cuda0");
    const struct sonde_device_op matmul = sonde_device_op("cpu", "matmul");
    const struct sonde_device_op quantize = sonde_device_op("cpu", "quantize");
    const struct sonde_device_op fast = sonde_device_op("cuda0", "matmul");
    sonde_device_op("cpu", "never");
    sonde_device_memory(cpu, 256ull << 20, 1024ull << 20);
    sonde_device_memory(gpu, 6ull << 30, 8ull << 30);
    for (int i = 0; i < 300; i++) sonde_device_op_record(matmul, 1000000);
    for (int i = 0; i < 100; i++) sonde_device_op_record(quantize, 500000);
    for (int i = 0; i < 600; i++) sonde_device_op_record(fast, 250000);
    for (int i = 0; i < 3; i++) sonde_device_fallback("cuda0", "out_of_memory");
    sonde_device_fallback("cuda0", "unsupported");
}

static void pool(const char *name, double capacity, double used, double requested,
                 double free_block, double peak, int allocations, int frees)
{
    const struct sonde_allocator a = sonde_allocator(name);
    sonde_gauge_set(a.capacity, capacity);
    sonde_gauge_set(a.peak, peak);
    sonde_pool_set(a.used, (uint64_t)used);
    sonde_gauge_set(a.requested, requested);
    sonde_gauge_set(a.free_block, free_block);
    for (int i = 0; i < allocations; i++) sonde_hist_record(a.allocation, 2000);
    for (int i = 0; i < frees; i++) sonde_hist_record(a.release, 1000);
    if (free_block < 1048576) sonde_counter_add(a.failures, 2);
}

static void tokenizer(void)
{
    static struct sonde_tokenizer t;
    sonde_tokenizer_define(&t, "bpe");
    for (int i = 0; i < 180; i++) {
        sonde_tokenizer_encoded(&t, &(struct sonde_tokenizer_encoded){
            .ns = 100000, .bytes = 40, .tokens = 10, .lookups = 30, .merges = 20, .cache_hits = 2,
            .cache_misses = 6 });
    }
    for (int i = 0; i < 20; i++) {
        sonde_tokenizer_encoded(&t, &(struct sonde_tokenizer_encoded){
            .ns = 1000000, .bytes = 400, .tokens = 110, .lookups = 330, .merges = 220 });
    }
    for (int i = 0; i < 50; i++) sonde_hist_record(t.decode, 10000);
}

int main(int argc, char **argv)
{
    devices();
    pool("kv", 8388608, 4194304, 3145728, 2097152, 6291456, 40, 10);
    pool("weights", 4194304, 2097152, 2097152, 524288, 2097152, 4, 0);
    tokenizer();
    for (int i = 0; i < 5; i++) sonde_inference_record(sonde_name("tiny"), 50, 1000000000);
    while (argc > 1 && !strcmp(argv[1], "stay")) pause();
    return 0;
}
