/* Facts of GPUs in run files: what was saved comes back; what cannot be is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/alloc.h"
#include "profile/gpu.h"
#include "sonde/sonde.h"
#include "store/run/run.h"

static char path[64];

static struct sonde_profile *gpu_profile(void)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    const uint32_t device = sonde_profile_string(p, "device", 6);
    const struct sonde_gpu_queue q = { .pid = 7, .number = 3, .device = device, .api = 1,
                                       .out_of_order = 1 };
    const uint32_t queue = sonde_gpu_queue(p, &q);
    const uint32_t kernel = sonde_gpu_kernel(p, "mul_mat", 1, SONDE_GPU_MATMUL, device);
    for (uint64_t i = 1; i <= 5; i++) {
        const struct sonde_gpu_command c = {
            .call_ns = 1000 * i, .start_ns = 1000 * i + 10, .end_ns = 1000 * i + 10 + i,
            .kernel = kernel, .queue = queue, .bytes = i,
            .thread = sonde_profile_thread(p, 7, 8, "worker") };
        sonde_gpu_add(p, &c, c.call_ns);
    }
    p->gpu->enqueued = 5;
    p->gpu->recorded = 5;
    p->gpu->own_ns = 1234;
    return p;
}

static void comes_back(void **state)
{
    struct sonde_err err = { "" };
    struct sonde_profile *p = gpu_profile(), *back;
    (void)state;
    if (sonde_run_save(path, p, &err)) fail_msg("%s", err.text);
    if (sonde_run_load(path, &back, &err)) fail_msg("%s", err.text);
    const struct sonde_gpu_work *a = p->gpu, *b = back->gpu;
    assert_non_null(b);
    assert_int_equal(b->kernel_count, a->kernel_count);
    assert_memory_equal(&b->kernels[0], &a->kernels[0], sizeof(a->kernels[0]));
    assert_memory_equal(&b->queues[0], &a->queues[0], sizeof(a->queues[0]));
    assert_int_equal(b->command_count, 5);
    assert_memory_equal(b->commands, a->commands, 5 * sizeof(a->commands[0]));
    assert_int_equal(b->own_ns, 1234);
    sonde_profile_destroy(back);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static const char *const wrongs[] = {
    "UPDATE gpu_commands SET kernel = 9 WHERE id = 2",
    "UPDATE gpu_commands SET queue = 1 WHERE id = 1",
    "UPDATE gpu_commands SET end_ns = 1",
    "UPDATE gpu_commands SET thread = 77",
    "UPDATE gpu_kernels SET class = 99",
    "UPDATE gpu_kernels SET untimed = 100",
    "UPDATE gpu_kernels SET name = 4000000",
    "UPDATE gpu_queues SET number = 'x'",
    "INSERT INTO gpu SELECT id + 1, enqueued, recorded, crowded, full, unprofiled, lost, failed, "
    "unread, off_calls, own_ns, waits, wait_ns, doubt_ns FROM gpu",
};

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
        struct sonde_err err = { "" };
        struct sonde_profile *p = gpu_profile(), *back = NULL;
        sqlite3 *db;
        char *said = NULL;
        assert_int_equal(sonde_run_save(path, p, &err), 0);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        if (sqlite3_exec(db, wrongs[i], NULL, NULL, &said)) fail_msg("%s: %s", wrongs[i], said);
        sqlite3_close(db);
        if (!sonde_run_load(path, &back, &err)) fail_msg("accepted: %s", wrongs[i]);
        assert_true(err.text[0]);
        sonde_profile_destroy(p);
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

static int setup(void **state)
{
    (void)state;
    strcpy(path, "/tmp/sonde-gpu-XXXXXX");
    const int fd = mkstemp(path);
    if (fd < 0) return -1;
    close(fd);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(comes_back), cmocka_unit_test(refused) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
