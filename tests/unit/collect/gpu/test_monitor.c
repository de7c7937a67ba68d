/* The monitor with stand-ins of NVML and ROCm SMI: what is read, and what happens when cards
 * vanish, calls fail, and libraries hang, crash or lie. */
#include "gpu_fixture.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "collect/gpu/child.h"
#include "collect/gpu/nvml_abi.h"
#include "collect/gpu/rocm_smi_abi.h"
#include "collect/proc/probe.h"
#include "model/model.h"

#define WAIT_S 60.0

extern const struct sonde_gpu_backend sonde_gpu_nvml;
extern const struct sonde_probe_ops sonde_probe_gpu;

enum { NVML, ROCM }; /* of backend_list.h */

static void env_clear(void)
{
    static const char *const names[] = { "NVML_CARDS", "NVML_MIG", "NVML_FAIL", "NVML_HANG",
                                         "NVML_CRASH", "NVML_LOST", "NVML_XID", "NVML_PID",
                                         "RSMI_CARDS", "RSMI_FAIL" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) unsetenv(names[i]);
}

static struct sonde_gpu *monitor(const struct machine *m, double hang_s)
{
    const struct sonde_gpu_options o = { .enabled = 1, .interval_ms = 10, .burst_ms = 10,
                                         .tick_ms = 10, .activity = 1, .root = m->root,
                                         .hang_s = hang_s };
    struct sonde_gpu *g = NULL;
    assert_int_equal(sonde_gpu_create(&o, &g), 0);
    sonde_gpu_settle(g, WAIT_S);
    return g;
}

static struct sonde_gpu_source source(const struct sonde_gpu *g, size_t i)
{
    struct sonde_gpu_source s;
    assert_true(sonde_gpu_source(g, i, &s));
    return s;
}

static const struct sonde_gpu_device *device(const struct sonde_gpu *g, const char *key)
{
    const struct sonde_gpu_row *row;
    const size_t n = sonde_gpu_rows(g, &row);
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(row[i].device.key, key)) return row[i].there ? &row[i].device : NULL;
    }
    return NULL;
}

/* Tick until it is so. */
#define until(condition)                                                                       \
    do {                                                                                       \
        const double end_ = sonde_clock_s(CLOCK_MONOTONIC) + WAIT_S;                           \
        while (!(condition)) {                                                                 \
            if (sonde_clock_s(CLOCK_MONOTONIC) > end_) fail_msg("never: %s", #condition);      \
            nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);                         \
            sonde_gpu_tick(g);                                                                 \
        }                                                                                      \
    } while (0)

static void none(void **state)
{
    (void)state;
    const struct sonde_gpu_row *row;
    struct sonde_gpu_source s;
    struct machine m;
    machine_init(&m);
    struct sonde_gpu *g = monitor(&m, 5);
    for (int i = 0; i < 10; i++) sonde_gpu_tick(g);
    assert_int_equal(sonde_gpu_rows(g, &row), 0);
    for (size_t i = 0; sonde_gpu_source(g, i, &s); i++) {
        assert_int_equal(s.state, SONDE_GPU_ABSENT);
        assert_int_equal(sonde_gpu_child_pid(g, i), 0);
    }
    sonde_gpu_destroy(g);
    machine_release(&m);
}

static void all_counters(void **state)
{
    (void)state;
    struct machine m;
    machine_init(&m);
    machine_write(&m, "dev/nvidiactl", "");
    setenv("NVML_CARDS", "8", 1);
    setenv("NVML_XID", "1", 1);
    struct sonde_gpu *g = monitor(&m, 30);
    const struct sonde_gpu_row *row;
    assert_int_equal(sonde_gpu_rows(g, &row), 8);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(row[i].index, i);
        assert_string_equal(row[i].by, "nvml");
        assert_figure(&row[i].device, UTILIZATION, 0.40 + 0.01 * i);
    }
    const struct sonde_gpu_device *d = &row[0].device;
    assert_string_equal(d->key, "0000:3b:00.0");
    assert_string_equal(d->name, "Stand-in H100");
    assert_string_equal(d->version, "550.54.15");
    assert_figure(d, MEMORY_UTILIZATION, 0.2);
    assert_figure(d, ENCODER, 0.11);
    assert_absent(d, DECODER, MALFORMED);
    assert_figure(d, MEMORY_TOTAL, 80.0 * (1 << 30));
    assert_figure(d, MEMORY_USED, 30.0 * (1 << 30));
    assert_figure(d, MEMORY_RESERVED, 0.5 * (1 << 30));
    assert_figure(d, MEMORY_FREE, 49.5 * (1 << 30));
    assert_figure(d, TEMPERATURE_CORE, 61);
    assert_figure(d, TEMPERATURE_MEMORY, 70);
    assert_figure(d, TEMPERATURE_LIMIT, 90);
    assert_figure(d, POWER, 300.5);
    assert_figure(d, POWER_LIMIT, 700);
    assert_figure(d, ENERGY, 123456789000.0);
    assert_figure(d, CLOCK_GRAPHICS, 1980e6);
    assert_figure(d, CLOCK_SM, 1975e6);
    assert_figure(d, CLOCK_MEMORY, 2619e6);
    assert_figure(d, CLOCK_VIDEO, 1545e6);
    assert_figure(d, CLOCK_MAX_GRAPHICS, 1980e6);
    assert_figure(d, THROTTLED_POWER, 1);
    assert_figure(d, THROTTLED_THERMAL, 0);
    assert_figure(d, FAN, 0.55);
    assert_figure(d, PERFORMANCE_STATE, 2);
    assert_figure(d, PCIE_GENERATION, 4);
    assert_figure(d, PCIE_GENERATION_MAX, 5);
    assert_figure(d, PCIE_WIDTH, 16);
    assert_figure(d, PCIE_REPLAYS, 7);
    assert_figure(d, NVLINK_TRANSMIT, 1024e6);
    assert_figure(d, NVLINK_LINKS, 18);
    assert_absent(d, NVLINK_CRC, MALFORMED);
    assert_absent(d, NVLINK_REPLAY, NOT_SUPPORTED);
    assert_figure(d, NVLINK_RECOVERY, 3);
    assert_figure(d, ECC_CORRECTED, 5);
    assert_figure(d, ECC_UNCORRECTED, 0);
    assert_figure(d, REMAPPED_CORRECTABLE, 3);
    /* Activity: of cards that have it; PCIe then is of those counters, too. */
    until(device(g, "0000:3b:00.0")->figure[SONDE_GPU_SM_ACTIVITY].state == SONDE_GPU_OK);
    sonde_gpu_rows(g, &row);
    d = &row[0].device;
    assert_figure(d, SM_ACTIVITY, 0.02);
    assert_figure(d, SM_OCCUPANCY, 0.03);
    assert_figure(d, MEMORY_BANDWIDTH, 0.10);
    assert_figure(d, PIPE_TENSOR, 0.05);
    assert_absent(d, PIPE_FP64, NOT_SUPPORTED);
    assert_figure(d, PCIE_TRANSMIT, 20.0 * 1048576);
    assert_absent(&row[1].device, SM_ACTIVITY, NOT_SUPPORTED);
    assert_figure(&row[1].device, PCIE_TRANSMIT, 1e6);
    assert_figure(&row[1].device, PCIE_RECEIVE, 2e6);
    assert_int_equal(d->xid_count, 2);
    assert_int_equal(d->xid[0].xid, 79);
    assert_int_equal(d->xid[0].count, 2);
    assert_int_equal(d->xid[1].xid, 13);
    sonde_gpu_destroy(g);
    machine_release(&m);
    env_clear();
}

static void partitioned(void **state)
{
    (void)state;
    const struct sonde_gpu_process *p;
    struct machine m;
    char pid[16];
    machine_init(&m);
    machine_write(&m, "dev/nvidiactl", "");
    snprintf(pid, sizeof(pid), "%d", getpid());
    setenv("NVML_MIG", "1", 1);
    setenv("NVML_PID", pid, 1);
    struct sonde_gpu *g = monitor(&m, 30);
    const struct sonde_gpu_device *card = device(g, "0000:3b:00.0"),
                                  *two = device(g, "0000:3b:00.0#2");
    assert_non_null(card);
    assert_non_null(two);
    assert_true(card->partitioned);
    assert_absent(card, UTILIZATION, NOT_SUPPORTED);
    assert_string_equal(two->parent, "0000:3b:00.0");
    assert_int_equal(two->instance, 2);
    assert_string_equal(two->name, "Stand-in H100 MIG 1g.10gb");
    assert_figure(two, MEMORY_USED, 4.0 * (1 << 30));
    assert_int_equal(sonde_gpu_processes(g, &p), 2);
    assert_int_equal(p[0].pid, getpid());
    assert_int_equal(p[0].instance, 2);
    assert_true(p[0].memory_bytes == 2.0 * (1 << 30));
    assert_true(isnan(p[1].memory_bytes)); /* the driver does not know */
    sonde_gpu_destroy(g);
    machine_release(&m);
    env_clear();
}

/* Whatever fails takes nothing else along. */
static void each_call_fails(void **state)
{
    (void)state;
    static const char *const symbols[] = {
#define NVML_FN(member, symbol, args) symbol,
        NVML_FUNCTIONS(NVML_FN)
#undef NVML_FN
    };
    struct machine m;
    machine_init(&m);
    machine_write(&m, "dev/nvidiactl", "");
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        char fail[96];
        snprintf(fail, sizeof(fail), "%s=%d", symbols[i], i % 2 ? 999 : NVML_NO_PERMISSION);
        setenv("NVML_FAIL", fail, 1);
        struct sonde_gpu *g = monitor(&m, 30);
        const struct sonde_gpu_source s = source(g, NVML);
        const struct sonde_gpu_row *row;
        const size_t rows = sonde_gpu_rows(g, &row);
        if (!strcmp(symbols[i], "nvmlInit_v2") || !strcmp(symbols[i], "nvmlDeviceGetCount_v2")) {
            assert_int_equal(s.state, SONDE_GPU_BROKEN);
            assert_non_null(strstr(s.note, "libnvidia-ml.so.1"));
        } else if (!strcmp(symbols[i], "nvmlDeviceGetHandleByIndex_v2")) {
            assert_int_equal(s.state, SONDE_GPU_READING);
        } else {
            unsigned known = 0;
            assert_int_equal(rows, 1);
            for (size_t f = 0; f < SONDE_GPU_FIGURES; f++) {
                known += row[0].device.figure[f].state == SONDE_GPU_OK;
            }
            if (known < 20) fail_msg("%s takes others along: %u are left", symbols[i], known);
        }
        sonde_gpu_destroy(g);
    }
    setenv("NVML_FAIL", "ALL=3", 1);
    struct sonde_gpu *g = monitor(&m, 30);
    const struct sonde_gpu_row *row;
    assert_int_equal(sonde_gpu_rows(g, &row), 1);
    assert_string_equal(row[0].device.key, "nvidia0");
    assert_absent(&row[0].device, UTILIZATION, NOT_SUPPORTED);
    sonde_gpu_destroy(g);
    machine_release(&m);
    env_clear();
}

static void hangs(void **state)
{
    (void)state;
    struct machine m;
    char dev[128];
    machine_init(&m);
    machine_write(&m, "dev/nvidiactl", "");
    machine_card(&m, 0, "0000:00:02.0", "i915", dev);
    setenv("NVML_HANG", "nvmlDeviceGetPowerUsage", 1);
    struct sonde_gpu *g = monitor(&m, 3);
    until(source(g, NVML).state == SONDE_GPU_BROKEN);
    const struct sonde_gpu_source s = source(g, NVML);
    assert_int_equal(s.hangs, 1);
    assert_non_null(strstr(s.note, "did not answer"));
    /* Another source is none the worse. */
    until(device(g, "0000:00:02.0") != NULL);
    until(sonde_gpu_child_pid(g, NVML) == 0);
    sonde_gpu_destroy(g);
    machine_release(&m);
    env_clear();
}

static void crashes(void **state)
{
    (void)state;
    struct machine m;
    machine_init(&m);
    machine_write(&m, "dev/nvidiactl", "");
    setenv("NVML_CRASH", "nvmlDeviceGetFanSpeed", 1);
    struct sonde_gpu *g = monitor(&m, 30);
    until(source(g, NVML).state == SONDE_GPU_BROKEN);
    until(sonde_gpu_child_pid(g, NVML) == 0);
    sonde_gpu_destroy(g);
    machine_release(&m);
    env_clear();
}

/* Killed from outside, it is missed, and everything it read with it. */
static void killed(void **state)
{
    (void)state;
    struct machine m;
    machine_init(&m);
    machine_write(&m, "dev/nvidiactl", "");
    struct sonde_gpu *g = monitor(&m, 30);
    assert_non_null(device(g, "0000:3b:00.0"));
    kill((pid_t)sonde_gpu_child_pid(g, NVML), SIGKILL);
    until(source(g, NVML).state == SONDE_GPU_BROKEN);
    sonde_gpu_tick(g);
    assert_null(device(g, "0000:3b:00.0"));
    sonde_gpu_destroy(g);
    machine_release(&m);
}

static void vanishes(void **state)
{
    (void)state;
    struct machine m;
    char flag[128];
    machine_init(&m);
    machine_write(&m, "dev/nvidiactl", "");
    snprintf(flag, sizeof(flag), "%s/lost", m.root);
    setenv("NVML_CARDS", "3", 1);
    setenv("NVML_LOST", flag, 1);
    struct sonde_gpu *g = monitor(&m, 30);
    assert_false(device(g, "0000:3c:00.0")->lost);
    machine_write(&m, "lost", "");
    until(device(g, "0000:3c:00.0")->lost);
    const struct sonde_gpu_device *d = device(g, "0000:3c:00.0");
    assert_absent(d, UTILIZATION, LOST);
    assert_absent(d, POWER, LOST);
    assert_figure(device(g, "0000:3b:00.0"), POWER, 300.5);
    assert_figure(device(g, "0000:3d:00.0"), POWER, 300.5);
    sonde_gpu_destroy(g);

    /* Cards of the driver come and go: the library is to be opened anew. */
    struct reading r;
    assert_int_equal(reading_open(&r, &sonde_gpu_nvml, &m), 0);
    assert_int_equal(r.ops->read(r.state, &r.s, 1), 0);
    machine_write(&m, "proc/driver/nvidia/gpus/0000:3b:00.0/information", "");
    assert_int_equal(r.ops->read(r.state, &r.s, 0), 0);
    assert_int_equal(r.ops->read(r.state, &r.s, 1), SONDE_ESTALE);
    reading_close(&r);
    machine_release(&m);
    env_clear();
}

/* Of two sources that know a card, each gives what it has. */
static void merged(void **state)
{
    (void)state;
    struct machine m;
    char dev[128], path[256];
    machine_init(&m);
    machine_write(&m, "dev/kfd", "");
    machine_card(&m, 0, "0000:83:00.0", "amdgpu", dev);
    snprintf(path, sizeof(path), "%s/hwmon/hwmon0/temp1_input", dev);
    machine_write(&m, path, "47000\n");
    snprintf(path, sizeof(path), "%s/pp_dpm_sclk", dev);
    machine_write(&m, path, "0: 2100Mhz *\n");
    setenv("RSMI_CARDS", "2", 1);
    struct sonde_gpu *g = monitor(&m, 30);
    const struct sonde_gpu_row *row;
    assert_int_equal(sonde_gpu_rows(g, &row), 2);
    const struct sonde_gpu_device *d = &row[0].device;
    assert_string_equal(row[0].by, "rocm_smi drm");
    assert_string_equal(row[1].by, "rocm_smi");
    assert_string_equal(d->name, "Stand-in MI300X");
    assert_string_equal(d->uuid, "GPU-0000000000abcdef");
    assert_figure(d, UTILIZATION, 0.77);
    assert_figure(d, MEMORY_TOTAL, 64.0 * (1 << 30));
    assert_figure(d, MEMORY_FREE, 56.0 * (1 << 30));
    assert_figure(d, TEMPERATURE_CORE, 47); /* sysfs: the library has none of the edge */
    assert_figure(d, TEMPERATURE_HOTSPOT, 51);
    assert_absent(&row[1].device, TEMPERATURE_CORE, NOT_SUPPORTED);
    assert_figure(d, POWER, 250);
    assert_figure(d, ENERGY, 15250000);
    assert_figure(d, CLOCK_GRAPHICS, 2100e6);
    assert_figure(d, ECC_CORRECTED, 4);
    assert_figure(d, ECC_UNCORRECTED, 1);
    assert_figure(d, FAN, 0.2);
    sonde_gpu_destroy(g);

    setenv("RSMI_FAIL", "rsmi_init=8", 1); /* sysfs has the rest */
    g = monitor(&m, 30);
    until(source(g, ROCM).state == SONDE_GPU_BROKEN);
    until(device(g, "0000:83:00.0") != NULL);
    assert_figure(device(g, "0000:83:00.0"), TEMPERATURE_CORE, 47);
    sonde_gpu_destroy(g);
    static const char *const symbols[] = {
#define RSMI_FN(member, symbol, args) symbol,
        RSMI_FUNCTIONS(RSMI_FN)
#undef RSMI_FN
    };
    for (size_t i = 3; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        snprintf(path, sizeof(path), "%s=%d", symbols[i], i % 2 ? RSMI_PERMISSION : 8);
        setenv("RSMI_FAIL", path, 1);
        g = monitor(&m, 30);
        until(device(g, "0000:83:00.0") != NULL);
        assert_figure(device(g, "0000:83:00.0"), CLOCK_GRAPHICS, 2100e6);
        sonde_gpu_destroy(g);
    }
    machine_release(&m);
    env_clear();
}

static void packets(void **state)
{
    (void)state;
    struct sonde_gpu_packet p;
    const size_t head = offsetof(struct sonde_gpu_packet, text);
    memset(&p, 0xff, sizeof(p));
    assert_false(sonde_gpu_packet_check(&p, sizeof(p)));
    p.magic = SONDE_GPU_MAGIC;
    for (size_t len = 0; len < 64; len++) assert_false(sonde_gpu_packet_check(&p, len));
    p.type = SONDE_GPU_PACKET_DEVICE;
    assert_false(sonde_gpu_packet_check(&p, head + sizeof(p.device) - 1));
    assert_true(sonde_gpu_packet_check(&p, head + sizeof(p.device)));
    assert_true(memchr(p.device.name, 0, sizeof(p.device.name)) != NULL);
    assert_int_equal(p.device.xid_count, SONDE_GPU_XIDS);
    for (size_t f = 0; f < SONDE_GPU_FIGURES; f++) {
        assert_int_equal(p.device.figure[f].state, SONDE_GPU_MALFORMED);
    }
    p.device.figure[SONDE_GPU_POWER] = (struct sonde_gpu_value){ .state = SONDE_GPU_OK, .v = NAN };
    assert_true(sonde_gpu_packet_check(&p, head + sizeof(p.device)));
    assert_absent(&p.device, POWER, MALFORMED);
    p.device.key[0] = '\0';
    assert_false(sonde_gpu_packet_check(&p, head + sizeof(p.device)));
    p.type = SONDE_GPU_PACKET_PROCESSES;
    p.count = SONDE_GPU_PACKET_PROCESSES_MAX + 1;
    assert_false(sonde_gpu_packet_check(&p, sizeof(p)));
    p.type = SONDE_GPU_PACKET_REFUSED;
    memset(p.text, 'x', sizeof(p.text));
    assert_true(sonde_gpu_packet_check(&p, head + sizeof(p.text)));
    assert_int_equal(p.text[sizeof(p.text) - 1], 0);
}

/* ---- Series ---------------------------------------------------------------------------------- */

static double series_value(const struct sonde_model *m, const char *family, const char *labels)
{
    for (size_t i = 0; i < m->family_count; i++) {
        const struct sonde_model_family *f = m->families[i];
        if (strcmp(f->name, family) != 0) continue;
        for (size_t k = 0; k < f->series_count; k++) {
            if (strncmp(f->series[k]->label_text, labels, strlen(labels)) != 0) continue;
            return f->type == SONDE_COUNTER ? sonde_model_series_total(f->series[k])
                                            : f->series[k]->gauge;
        }
    }
    return -1;
}

static void series(void **state)
{
    (void)state;
    struct machine m;
    struct sonde_model *model = NULL;
    struct sonde_err err = { "" };
    void *probe = NULL;
    char pid[16], flag[128];
    machine_init(&m);
    machine_write(&m, "dev/nvidiactl", "");
    snprintf(pid, sizeof(pid), "%d", getpid());
    snprintf(flag, sizeof(flag), "%s/lost", m.root);
    setenv("NVML_CARDS", "2", 1);
    setenv("NVML_PID", pid, 1);
    setenv("NVML_XID", "1", 1);
    setenv("NVML_LOST", flag, 1);
    struct sonde_gpu *g = monitor(&m, 30);
    assert_int_equal(sonde_model_create(NULL, &model), 0);
    sonde_wrlock(&model->lock);
    assert_non_null(sonde_model_process(model, (uint32_t)getpid(), 1, "server"));
    const struct sonde_probe_env env = { .model = model, .gpu = g, .now_s = 1000 };
    assert_int_equal(sonde_probe_gpu.open(&env, &probe, &err), 0);
    sonde_probe_gpu.read(probe, &env);
    sonde_model_tick(model, 1000);
    assert_true(series_value(model, "sonde_gpu_utilization_ratio", "gpu=\"1\"") == 0.41);
    assert_true(fabs(series_value(model, "sonde_gpu_energy_joules_total", "gpu=\"0\"") -
                     123456.789) < 1e-6);
    assert_true(series_value(model, "sonde_gpu_clock_hertz", "gpu=\"0\",domain=\"sm\"") == 1975e6);
    assert_true(series_value(model, "sonde_gpu_decoder_utilization_ratio", "") == -1);
    assert_true(series_value(model, "sonde_gpu_info", "gpu=\"0\",name=\"Stand-in H100\",uuid=\"GPU-"
                             "00000001\",pci=\"0000:3b:00.0\",driver=\"nvidia\"") == 1);
    assert_true(series_value(model, "sonde_gpu_xid_errors_total", "gpu=\"0\",xid=\"79\"") == 2);
    assert_true(series_value(model, "sonde_gpu_process_memory_bytes",
                             "gpu=\"0\",process=\"server\"") == 2.0 * (1 << 30));
    /* A card that is lost has no series, but its name; the other one is as it was. */
    machine_write(&m, "lost", "");
    until(device(g, "0000:3c:00.0")->lost);
    sonde_probe_gpu.read(probe, &env);
    assert_true(series_value(model, "sonde_gpu_utilization_ratio", "gpu=\"1\"") == -1);
    assert_true(series_value(model, "sonde_gpu_utilization_ratio", "gpu=\"0\"") == 0.40);
    /* The source is gone, and all of its series. */
    kill((pid_t)sonde_gpu_child_pid(g, NVML), SIGKILL);
    until(source(g, NVML).state == SONDE_GPU_BROKEN);
    sonde_probe_gpu.read(probe, &env);
    assert_true(series_value(model, "sonde_gpu_utilization_ratio", "") == -1);
    assert_true(series_value(model, "sonde_gpu_info", "") == -1);
    assert_true(series_value(model, "sonde_gpu_process_memory_bytes", "") == -1);
    sonde_rwunlock(&model->lock);
    sonde_probe_gpu.close(probe);
    sonde_gpu_destroy(g);
    sonde_model_destroy(model);
    machine_release(&m);
    env_clear();
}

int main(int argc, char **argv)
{
    (void)argc;
    if (!getenv("GPU_STAND_INS_SET")) { /* the loader looks at its path once */
        setenv("GPU_STAND_INS_SET", "1", 1);
        setenv("LD_LIBRARY_PATH", GPU_STAND_INS, 1);
        execv("/proc/self/exe", argv);
        return 1;
    }
    sonde_log_open(SONDE_LOG_ERROR, NULL);
    env_clear();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none), cmocka_unit_test(all_counters), cmocka_unit_test(partitioned),
        cmocka_unit_test(each_call_fails), cmocka_unit_test(hangs), cmocka_unit_test(crashes),
        cmocka_unit_test(killed), cmocka_unit_test(vanishes), cmocka_unit_test(merged),
        cmocka_unit_test(packets), cmocka_unit_test(series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
