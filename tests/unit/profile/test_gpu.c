/* Facts of GPUs: classes by name, sums, queues that stand still, merging. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "profile/gpu.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

static const struct { const char *kernel; enum sonde_gpu_class class; } names[] = {
    { "mul_mat_q4_0", SONDE_GPU_MATMUL },
    { "kernel_mul_mv_f16", SONDE_GPU_MATMUL },
    { "ampere_sgemm_128x64", SONDE_GPU_MATMUL },
    { "flash_attn_softmax", SONDE_GPU_ATTENTION },
    { "rope_norm", SONDE_GPU_ATTENTION },
    { "dequantize_mul_mat_vec", SONDE_GPU_QUANTISE },
    { "quantize_q8_1", SONDE_GPU_QUANTISE },
    { "RMS_Norm", SONDE_GPU_NORM },
    { "soft_max_f32", SONDE_GPU_NORM },
    { "cpy_f32_f16", SONDE_GPU_COPY },
    { "ncclDevKernel_AllReduce", SONDE_GPU_COLLECTIVE },
    { "vec_add", SONDE_GPU_OTHER },
    { "", SONDE_GPU_OTHER },
};

static void classes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (sonde_gpu_class_of(names[i].kernel) != names[i].class) fail_msg("%s", names[i].kernel);
    }
    assert_int_equal(sonde_gpu_class_find("copy"), SONDE_GPU_COPY);
    assert_int_equal(sonde_gpu_class_find("nothing"), -1);
}

static struct sonde_profile *profile_of(uint64_t from_ns)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    const struct sonde_gpu_queue q = { .pid = 7, .number = 1,
                                       .device = sonde_profile_string(p, "device", 6) };
    const uint32_t queue = sonde_gpu_queue(p, &q);
    const uint32_t kernel = sonde_gpu_kernel(p, "mul_mat", 1, SONDE_GPU_MATMUL, q.device);
    const uint32_t read = sonde_gpu_kernel(p, "read", 0, SONDE_GPU_COPY, q.device);
    assert_int_equal(sonde_gpu_kernel(p, "mul_mat", 1, SONDE_GPU_MATMUL, q.device), kernel);
    assert_int_equal(sonde_gpu_queue(p, &q), queue);
    const struct { uint64_t queued, start, end; uint32_t kernel; } commands[] = {
        { 5, 10, 30, kernel },  /* 20 */
        { 6, 30, 40, kernel },  /* at once after it */
        { 8, 35, 50, read },    /* beside it: 10 more */
        { 70, 80, 90, kernel }, /* after a gap of 30, of which 20 with nothing queued */
        { 85, 0, 0, kernel },   /* failed */
    };
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        const int timed = commands[i].start != 0;
        const struct sonde_gpu_command c = {
            .call_ns = from_ns + commands[i].queued, .bytes = commands[i].kernel == read ? 64 : 0,
            .start_ns = timed ? from_ns + commands[i].start : 0,
            .end_ns = timed ? from_ns + commands[i].end : 0,
            .kernel = commands[i].kernel, .queue = queue,
            .thread = sonde_profile_thread(p, 7, 8, "worker") };
        sonde_gpu_add(p, &c, from_ns + commands[i].queued);
    }
    p->gpu->enqueued = 6;
    p->gpu->recorded = 5;
    p->gpu->unread = 1;
    return p;
}

static void check(const struct sonde_gpu_work *g, uint64_t times)
{
    const struct sonde_gpu_kernel *k = &g->kernels[0];
    const struct sonde_gpu_queue *q = &g->queues[0];
    assert_int_equal(g->kernel_count, 2);
    assert_int_equal(g->queue_count, 1);
    assert_int_equal(k->count, 4 * times);
    assert_int_equal(k->untimed, times);
    assert_int_equal(k->ns, 40 * times);
    assert_int_equal(k->min_ns, 10);
    assert_int_equal(k->max_ns, 20);
    assert_int_equal(g->kernels[1].bytes, 64 * times);
    assert_int_equal(sonde_gpu_ns(g), 55 * times);
    assert_int_equal(sonde_gpu_class_ns(g, SONDE_GPU_COPY), 15 * times);
    assert_int_equal(q->commands, 5 * times);
    assert_int_equal(q->busy_ns, 50 * times);
    assert_int_equal(q->gaps, 2 * times);
    assert_int_equal(q->gap_ns, 30 * times);
    assert_int_equal(q->starved_ns, 20 * times);
    assert_int_equal(g->command_count, 4 * times);
    assert_int_equal(g->unread, times);
}

static void sums(void **state)
{
    (void)state;
    struct sonde_profile *p = profile_of(1000);
    check(p->gpu, 1);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void merging(void **state)
{
    (void)state;
    struct sonde_profile *p = profile_of(1000), *from = profile_of(100000), *empty;
    assert_int_equal(sonde_profile_merge(p, from), 0);
    check(p->gpu, 2);
    assert_string_equal(sonde_profile_str(p, p->threads[p->gpu->commands[7].thread].name),
                        "worker");
    assert_int_equal(sonde_profile_create(0, &empty), 0);
    assert_int_equal(sonde_profile_merge(empty, from), 0);
    check(empty->gpu, 1);
    sonde_profile_drop_gpu(empty);
    assert_null(empty->gpu);
    sonde_profile_destroy(empty);
    sonde_profile_destroy(from);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(classes), cmocka_unit_test(sums),
                                        cmocka_unit_test(merging) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
