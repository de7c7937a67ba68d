/* Samples by process: names, sums, order. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "profile/process.h"

static void add(struct sonde_profile *p, uint32_t thread, uint64_t weight, uint16_t kind,
                uint16_t flags)
{
    const uint32_t location = sonde_profile_named_location(p, "f", 1);
    const struct sonde_profile_sample s = { .stack = sonde_profile_stack(p, 0, location),
                                            .thread = thread, .weight = weight, .count = 1,
                                            .kind = kind, .flags = flags };
    assert_int_equal(sonde_profile_add_sample(p, &s), 0);
}

static void test_processes(void **state)
{
    (void)state;
    struct sonde_profile *p;
    struct sonde_profile_process *all;
    uint32_t count;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    const uint32_t worker = sonde_profile_thread(p, 20, 21, "worker");
    sonde_profile_thread(p, 20, 20, "server"); /* no samples, but the process's name */
    const uint32_t other = sonde_profile_thread(p, 20, 22, "other");
    const uint32_t alone = sonde_profile_thread(p, 30, 31, "alone");
    add(p, worker, 10, SONDE_SAMPLE_CPU, 0);
    add(p, other, 5, SONDE_SAMPLE_CPU, SONDE_SAMPLE_TRUNCATED);
    add(p, alone, 40, SONDE_SAMPLE_CPU, 0);
    add(p, worker, 1000, SONDE_SAMPLE_OFFCPU, 0);
    add(p, 0, 99, SONDE_SAMPLE_CPU, 0); /* of nobody knows whom */
    assert_int_equal(sonde_profile_processes(p, NULL, SONDE_SAMPLE_CPU, &all, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(all[0].pid, 30);
    assert_string_equal(sonde_profile_str(p, all[0].name), "alone");
    assert_int_equal(all[0].weight, 40);
    assert_int_equal(all[1].pid, 20);
    assert_string_equal(sonde_profile_str(p, all[1].name), "server");
    assert_int_equal(all[1].weight, 15);
    assert_int_equal(all[1].samples, 2);
    assert_int_equal(all[1].truncated, 1);
    assert_int_equal(all[1].threads, 2);
    sonde__free(all);
    assert_int_equal(sonde_profile_processes(p, NULL, SONDE_SAMPLE_ALLOC, &all, &count), 0);
    assert_int_equal(count, 0);
    sonde__free(all);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_processes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
