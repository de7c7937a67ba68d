/* GPUs: idle, full, hot and throttled ones that processes of a profile use, and those that they do
 * not use. */
#include "finding_build.h"

struct planted {
    double busy, used_ratio, by_power, by_board, by_heat, celsius;
    int uses;                    /* 1 = a process uses it */
};

/* Ten seconds of work on two GPUs: 0 is as planted, 1 is well. */
static struct sonde_profile *gpus_make(const struct planted *g)
{
    struct sonde_profile *p = find_make(10000);
    find_samples(p, "main;serve;prepare", 5000);
    for (uint64_t k = 0; k < 10; k++) {
        find_tick(p, k * 1000 + 1000);
        for (int i = 0; i < 2; i++) {
            static const char *const gpu[] = { "gpu=\"0\"", "gpu=\"1\"" };
            const int well = i == 1;
            char labels[96];
            find_value(p, "sonde_gpu_utilization_ratio", gpu[i], 0, 1, well ? 0.9 : g->busy);
            find_value(p, "sonde_gpu_memory_total_bytes", gpu[i], 0, 1, 100e6);
            find_value(p, "sonde_gpu_memory_used_bytes", gpu[i], 0, 1,
                       well ? 10e6 : 100e6 * g->used_ratio);
            find_value(p, "sonde_gpu_power_watts", gpu[i], 0, 1, 290);
            find_value(p, "sonde_gpu_power_limit_watts", gpu[i], 0, 1, 300);
            find_value(p, "sonde_gpu_temperature_limit_celsius", gpu[i], 0, 1, 90);
            snprintf(labels, sizeof(labels), "%s,sensor=\"core\"", gpu[i]);
            find_value(p, "sonde_gpu_temperature_celsius", labels, 0, 1, well ? 50 : g->celsius);
            static const char *const reason[] = { "power", "hardware", "thermal" };
            const double by[] = { g->by_power, g->by_board, g->by_heat };
            for (int r = 0; r < 3; r++) {
                snprintf(labels, sizeof(labels), "%s,reason=\"%s\"", gpu[i], reason[r]);
                find_value(p, "sonde_gpu_throttled_ratio", labels, 0, 1, well ? 0 : by[r]);
            }
            if (g->uses || well) {
                find_value(p, "sonde_gpu_process_memory_bytes", gpu[i], 7, 1, 1e6);
            }
        }
    }
    return p;
}

static void test_planted(void **state)
{
    (void)state;
    static const struct {
        const char *kind;        /* NULL = none about GPUs */
        enum sonde_severity severity;
        struct planted g;
        const char *text;
    } cases[] = {
        { NULL, 0, { 0.9, 0.5, 0, 0, 0, 60, 1 }, NULL },
        { "gpu_idle", SONDE_SEVERITY_WARNING, { 0.1, 0.5, 0, 0, 0, 60, 1 }, "GPU 0 is busy 10 %" },
        { NULL, 0, { 0.1, 0.99, 1, 1, 1, 95, 0 }, NULL }, /* it is not used */
        { "gpu_memory", SONDE_SEVERITY_WARNING, { 0.9, 0.97, 0, 0, 0, 60, 1 },
          "GPU 0 has 93 of 95" },
        { "gpu_throttling", SONDE_SEVERITY_WARNING, { 0.9, 0.5, 0.6, 0, 0, 60, 1 },
          "60 % of the time by its power limit" },
        { "gpu_throttling", SONDE_SEVERITY_INFO, { 0.9, 0.5, 0.2, 0, 0, 60, 1 }, "20 %" },
        { NULL, 0, { 0.9, 0.5, 0.05, 0, 0, 60, 1 }, NULL },
        { "gpu_throttling", SONDE_SEVERITY_WARNING, { 0.9, 0.5, 0, 0.7, 0, 60, 1 }, "its board" },
        { "gpu_thermal", SONDE_SEVERITY_WARNING, { 0.9, 0.5, 0, 0, 0.1, 88, 1 }, "too hot (88" },
        { "gpu_thermal", SONDE_SEVERITY_CRITICAL, { 0.9, 0.5, 0, 0, 0.4, 91, 1 }, "40 %" },
        { "gpu_thermal", SONDE_SEVERITY_INFO, { 0.9, 0.5, 0, 0, 0, 88, 1 },
          "lowers its clocks at 90" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_profile *p = gpus_make(&cases[i].g);
        struct sonde_findings *f = find_look(p);
        size_t about = 0;
        for (size_t k = 0; k < f->count; k++) about += !strncmp(f->rows[k].kind, "gpu_", 4);
        assert_int_equal(about, cases[i].kind ? 1 : 0);
        if (cases[i].kind) {
            const struct sonde_finding *one = find_kind(f, cases[i].kind);
            assert_non_null(one);
            assert_int_equal(one->severity, cases[i].severity);
            assert_string_equal(one->subject, "GPU 0");
            if (!strstr(one->text, cases[i].text)) fail_msg("%s", one->text);
            assert_true(one->advice[0] && one->impact >= 0 && one->impact <= 1);
        }
        sonde_findings_destroy(f);
        sonde_profile_destroy(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_planted) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
