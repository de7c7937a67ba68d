/* What GPUs did over a recording, and a part of it. */
#include "finding/finding_build.h"

#include "analyze/gpus.h"

static void test_build(void **state)
{
    (void)state;
    struct sonde_profile *p = find_make(4000);
    for (uint64_t k = 0; k < 4; k++) {
        find_tick(p, k * 1000 + 1000);
        find_value(p, "sonde_gpu_info",
                   "gpu=\"3\",name=\"A \\\"B\\\"\",uuid=\"U\",pci=\"x\"", 0, 1, 1);
        find_value(p, "sonde_gpu_utilization_ratio", "gpu=\"3\"", 0, 1, 0.2 * (double)(k + 1));
        find_value(p, "sonde_gpu_energy_joules_total", "gpu=\"3\"", 0, 0, 100);
        find_value(p, "sonde_gpu_memory_total_bytes", "gpu=\"3\"", 0, 1, 1000);
        find_value(p, "sonde_gpu_temperature_celsius", "gpu=\"3\",sensor=\"memory\"", 0, 1, 99);
        find_value(p, "sonde_gpu_temperature_celsius", "gpu=\"3\",sensor=\"core\"", 0, 1, 50);
        find_value(p, "sonde_gpu_utilization_ratio", "gpu=\"1\"", 0, 1, 0.5);
        find_value(p, "sonde_gpu_mig_memory_used_bytes", "gpu=\"0\",mig=\"1\"", 0, 1, 5);
        find_value(p, "sonde_gpu_power_watts", "instance=\"elsewhere\"", 0, 1, 5);
        find_value(p, "sonde_gpu_process_memory_bytes", "gpu=\"3\"", 7, 1, 10 * (double)k);
        find_value(p, "sonde_gpu_process_utilization_ratio", "gpu=\"3\"", 7, 1, 0.5);
    }
    struct sonde_gpus *g = NULL;
    assert_int_equal(sonde_gpus_build(p->tracks, 0, 0, &g), 0);
    assert_non_null(g);
    assert_int_equal(g->count, 2);
    assert_int_equal(g->gpus[0].gpu, 1);
    const struct sonde_gpus_one *one = &g->gpus[1];
    assert_int_equal(one->gpu, 3);
    assert_string_equal(one->name, "A \"B\"");
    assert_string_equal(one->uuid, "U");
    const struct sonde_system_figure *busy = &one->figures[SONDE_GPUS_BUSY];
    assert_true(fabs(busy->min - 0.2) < 1e-6 && fabs(busy->max - 0.8) < 1e-6);
    assert_true(fabs(busy->mean - 0.5) < 1e-6);
    assert_true(one->joules == 400 && one->memory_bytes == 1000);
    assert_true(one->figures[SONDE_GPUS_TEMPERATURE].max == 50);
    assert_true(isnan(one->figures[SONDE_GPUS_POWER].mean));
    assert_int_equal(g->process_count, 1);
    assert_int_equal(g->processes[0].pid, 7);
    assert_true(g->processes[0].memory_max_bytes == 30 && g->processes[0].utilization == 0.5);
    sonde_gpus_destroy(g);

    /* The second half. */
    assert_int_equal(sonde_gpus_build(p->tracks, (double)T0 * 1e-9 + 2.5, 0, &g), 0);
    assert_true(fabs(g->gpus[1].figures[SONDE_GPUS_BUSY].min - 0.6) < 1e-6);
    assert_true(g->gpus[1].joules == 200);
    sonde_gpus_destroy(g);
    sonde_profile_destroy(p);

    p = find_make(1000);
    assert_int_equal(sonde_gpus_build(p->tracks, 0, 0, &g), 0);
    assert_null(g);
    find_tick(p, 1000);
    find_value(p, "sonde_gpu_odd", "gpu=\"x\"", 0, 1, 1);
    assert_int_equal(sonde_gpus_build(p->tracks, 0, 0, &g), 0);
    assert_null(g);
    sonde_gpus_destroy(NULL);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_build) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
