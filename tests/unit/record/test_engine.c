/* engine.h: what its calls record, in which series, when recording is off, by zero handles, and by
 * several threads at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sonde/engine.h"
#include "unit/record/child.h"
#include "unit/record/readback.h"

/* The series with these labels, as a program in another language would find it. */
static struct sonde_family family_of(enum sonde_type type, const char *name, const char *a,
                                     const char *b)
{
    const char *const labels[] = { a, b, NULL };
    const struct sonde_metric m = { .size = sizeof(m), .name = name, .labels = labels,
                                    .scale = type == SONDE_HISTOGRAM ? 1e-9 : 0 };
    struct sonde_family f;
    NEED(!sonde_define(type, &m, &f));
    return f;
}

static uint64_t hist_count(struct sonde_hist h, uint64_t *sum)
{
    static struct readback_hist r;
    readback_hist(h, &r);
    *sum = r.sum;
    return r.count;
}

CHILD_TEST(devices)
{
    uint64_t sum;
    const struct sonde_device gpu = sonde_device("cuda0");
    sonde_device_memory(gpu, 1000, 4000);
    NEED(readback_gauge(gpu.used) == 1000);
    const struct sonde_family memory =
        family_of(SONDE_GAUGE, "sonde_device_memory_bytes", "device", "state");
    NEED_EQ(sonde_gauge_bind(memory, (const char *const[]){ "cuda0", "total" }).off, gpu.total.off);

    const struct sonde_device_op op = sonde_device_op("cuda0", "matmul");
    for (int i = 1; i <= 10; i++) sonde_device_op_record(op, 100);
    const struct sonde_family seconds =
        family_of(SONDE_HISTOGRAM, "sonde_device_operation_seconds", "device", "operation");
    const struct sonde_hist again =
        sonde_hist_bind(seconds, (const char *const[]){ "cuda0", "matmul" });
    NEED_EQ(again.off, op.seconds.off);
    NEED_EQ(hist_count(again, &sum), 10);
    NEED_EQ(sum, 1000);
    sonde_device_op_record_mean(op, 0, 0);
    sonde_device_op_record_mean(op, 70, 1);
    sonde_device_op_record_mean(op, 1007, 10); /* what does not divide is not lost */
    NEED_EQ(hist_count(again, &sum), 21);
    NEED_EQ(sum, 2077);
    /* No block of buckets yet. */
    const struct sonde_device_op first = sonde_device_op("cuda0", "copy");
    sonde_device_op_record_mean(first, 300, 3);
    NEED_EQ(hist_count(first.seconds, &sum), 3);
    NEED_EQ(sum, 300);
    NEED_EQ(sonde_device_op("cuda0", "matmul").seconds.off, op.seconds.off); /* defined once */
    NEED(sonde_device_op("cpu", "matmul").seconds.off != op.seconds.off);
    NEED_EQ(sonde_device_op(NULL, "matmul").seconds.off,
            sonde_device_op("cpu", "matmul").seconds.off);

    sonde_device_fallback("cuda0", "out_of_memory");
    sonde_device_fallback("cuda0", "out_of_memory");
    sonde_device_fallback("cuda0", NULL);
    const struct sonde_family falls =
        family_of(SONDE_COUNTER, "sonde_device_fallbacks_total", "device", "reason");
    NEED_EQ(readback_counter(
        sonde_counter_bind(falls, (const char *const[]){ "cuda0", "out_of_memory" })), 2);
    NEED_EQ(readback_counter(
        sonde_counter_bind(falls, (const char *const[]){ "cuda0", "other" })), 1);
}

CHILD_TEST(pools)
{
    uint64_t sum;
    const struct sonde_allocator a = sonde_allocator("kv");
    NEED_EQ(a.used.off, sonde_pool("kv").off); /* the same pool as sonde.h's */
    sonde_gauge_set(a.capacity, 1 << 20);
    sonde_pool_add(a.used, 4096);
    sonde_gauge_set(a.peak, 8192);
    sonde_gauge_add(a.requested, 3000);
    sonde_gauge_set(a.free_block, 1 << 19);
    sonde_hist_record(a.allocation, 250);
    sonde_hist_record(a.release, 120);
    sonde_counter_add(a.failures, 1);

    const struct sonde_allocator b = sonde_allocator("kv");
    NEED(readback_gauge(b.capacity) == 1 << 20);
    NEED(readback_gauge((struct sonde_gauge){ b.used.off }) == 4096);
    NEED(readback_gauge(b.peak) == 8192);
    NEED(readback_gauge(b.requested) == 3000);
    NEED(readback_gauge(b.free_block) == 1 << 19);
    NEED_EQ(hist_count(b.allocation, &sum), 1);
    NEED_EQ(sum, 250);
    NEED_EQ(hist_count(b.release, &sum), 1);
    NEED_EQ(sum, 120);
    NEED_EQ(readback_counter(b.failures), 1);
    NEED_EQ(sonde_allocator(NULL).used.off, sonde_pool("default").off);
}

CHILD_TEST(an_input_is_in_the_class_of_its_length)
{
    static const struct { uint64_t bytes; uint32_t class; } rows[] = {
        { 0, 0 }, { 1, 0 }, { 64, 0 }, { 65, 1 }, { 256, 1 }, { 257, 2 }, { 1024, 2 },
        { 1025, 3 }, { 4096, 3 }, { 4097, 4 }, { 16384, 4 }, { 16385, 5 }, { UINT64_MAX, 5 },
    };
    uint64_t expected[SONDE_TOKENIZER_CLASSES] = { 0 }, sum;
    struct sonde_tokenizer t;
    sonde_tokenizer_define(&t, "bpe");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        sonde_tokenizer_encoded(&t, &(struct sonde_tokenizer_encoded){
            .ns = 1000, .bytes = rows[i].bytes, .tokens = 2, .lookups = 5, .merges = 3,
            .cache_hits = 4, .cache_misses = 1 });
        expected[rows[i].class]++;
    }
    for (size_t i = 0; i < SONDE_TOKENIZER_CLASSES; i++) {
        NEED_EQ(hist_count(t.encode[i], &sum), expected[i]);
    }
    NEED_EQ(readback_counter(t.tokens), 26);
    NEED_EQ(readback_counter(t.lookups), 65);
    NEED_EQ(readback_counter(t.merges), 39);
    NEED_EQ(readback_counter(t.cache_hits), 52);
    NEED_EQ(readback_counter(t.cache_misses), 13);
    const struct sonde_family f =
        family_of(SONDE_HISTOGRAM, "sonde_tokenizer_encode_seconds", "tokenizer", "length");
    NEED_EQ(sonde_hist_bind(f, (const char *const[]){ "bpe", "257-1024" }).off, t.encode[2].off);
}

CHILD_TEST(zero_handles_and_off_are_harmless)
{
    static const struct sonde_tokenizer none;
    const struct sonde_device device = { { 0 }, { 0 } };
    const struct sonde_device_op op = { { 0, 0 } };
    const struct sonde_allocator a = { .used = { 0 } };
    sonde_enable(0);
    const struct sonde_device_op off = sonde_device_op("cpu", "norm");
    NEED_EQ(off.seconds.off, 0);
    sonde_device_fallback("cuda0", "off");
    sonde_enable(1);
    for (int i = 0; i < 3; i++) {
        sonde_device_memory(device, 1, 2);
        sonde_device_op_record(op, 5);
        sonde_device_op_record(off, 5);
        sonde_hist_record(a.allocation, 5);
        sonde_pool_add(a.used, 5);
        sonde_tokenizer_encoded(&none, &(struct sonde_tokenizer_encoded){ .ns = 1, .bytes = 9 });
    }
    uint64_t sum;
    NEED(sonde_device_op("cpu", "norm").seconds.off != 0); /* on again: defined */
    NEED_EQ(hist_count(sonde_device_op("cpu", "norm").seconds, &sum), 0);
}

static void *record_many(void *arg)
{
    const struct sonde_device_op op = sonde_device_op("cpu", "matmul");
    struct sonde_tokenizer t;
    sonde_tokenizer_define(&t, "bpe");
    (void)arg;
    for (int i = 0; i < 10000; i++) {
        sonde_device_op_record(op, 3);
        sonde_tokenizer_encoded(&t, &(struct sonde_tokenizer_encoded){ .bytes = 7, .tokens = 2 });
    }
    return NULL;
}

CHILD_TEST(threads_lose_nothing)
{
    pthread_t thread[4];
    uint64_t sum;
    for (int i = 0; i < 4; i++) NEED(!pthread_create(&thread[i], NULL, record_many, NULL));
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    NEED_EQ(hist_count(sonde_device_op("cpu", "matmul").seconds, &sum), 40000);
    NEED_EQ(sum, 120000);
    struct sonde_tokenizer t;
    sonde_tokenizer_define(&t, "bpe");
    NEED_EQ(readback_counter(t.tokens), 80000);
    NEED_EQ(readback_counter(t.bytes), 280000);
}

int main(void)
{
    readback_private_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices),
        cmocka_unit_test(pools),
        cmocka_unit_test(an_input_is_in_the_class_of_its_length),
        cmocka_unit_test(zero_handles_and_off_are_harmless),
        cmocka_unit_test(threads_lose_nothing),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
