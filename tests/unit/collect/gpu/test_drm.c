/* Cards of AMD, Intel and others as sysfs and fdinfo show them: exact figures, what is missing or
 * malformed, cards that come, go and sleep, and trees that nobody should have. */
#include "gpu_fixture.h"

extern const struct sonde_gpu_backend sonde_gpu_drm;

static void dev_write(const struct machine *m, const char *dev, const char *file, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", dev, file);
    machine_write(m, path, text);
}

static void setup_amd(const struct machine *m, char dev[static 128])
{
    machine_card(m, 0, "0000:03:00.0", "amdgpu", dev);
    static const struct { const char *file, *text; } files[] = {
        { "vendor", "0x1002\n" }, { "device", "0x744c\n" }, { "gpu_busy_percent", "37\n" },
        { "mem_busy_percent", "12\n" }, { "mem_info_vram_total", "25753026560\n" },
        { "mem_info_vram_used", "1000000000\n" }, { "mem_info_gtt_total", "16000000000\n" },
        { "mem_info_gtt_used", "250000000\n" },
        { "pp_dpm_sclk", "0: 500Mhz\n1: 1249Mhz *\n2: 2482Mhz\n" },
        { "pp_dpm_mclk", "0: 96Mhz *\n1: 1249Mhz\n" }, { "current_link_speed", "16.0 GT/s PCIe\n" },
        { "max_link_speed", "32.0 GT/s PCIe\n" }, { "current_link_width", "16\n" },
        { "max_link_width", "16\n" }, { "pcie_replay_count", "2\n" },
        { "hwmon/hwmon3/temp1_input", "45000\n" }, { "hwmon/hwmon3/temp1_label", "edge\n" },
        { "hwmon/hwmon3/temp2_input", "52000\n" }, { "hwmon/hwmon3/temp2_label", "junction\n" },
        { "hwmon/hwmon3/temp3_input", "64000\n" }, { "hwmon/hwmon3/temp3_label", "mem\n" },
        { "hwmon/hwmon3/temp1_crit", "100000\n" }, { "hwmon/hwmon3/power1_average", "123000000\n" },
        { "hwmon/hwmon3/power1_cap", "355000000\n" }, { "hwmon/hwmon3/pwm1", "51\n" },
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        dev_write(m, dev, files[i].file, files[i].text);
    }
}

static void amdgpu(void **state)
{
    (void)state;
    struct machine m;
    struct reading r;
    char dev[128];
    machine_init(&m);
    setup_amd(&m, dev);
    assert_int_equal(reading_open(&r, &sonde_gpu_drm, &m), 0);
    assert_int_equal(r.ops->read(r.state, &r.s, 1), 0);
    assert_int_equal(r.s.device_count, 1);
    const struct sonde_gpu_device *d = &r.s.device[0];
    assert_string_equal(d->key, "0000:03:00.0");
    assert_string_equal(d->driver, "amdgpu");
    assert_string_equal(d->name, "AMD 0x744c");
    assert_figure(d, UTILIZATION, 0.37);
    assert_figure(d, MEMORY_UTILIZATION, 0.12);
    assert_figure(d, MEMORY_TOTAL, 25753026560.0);
    assert_figure(d, MEMORY_USED, 1e9);
    assert_figure(d, MEMORY_FREE, 24753026560.0);
    assert_figure(d, SHARED_USED, 250e6);
    assert_figure(d, TEMPERATURE_CORE, 45);
    assert_figure(d, TEMPERATURE_HOTSPOT, 52);
    assert_figure(d, TEMPERATURE_MEMORY, 64);
    assert_figure(d, TEMPERATURE_LIMIT, 100);
    assert_figure(d, POWER, 123);
    assert_figure(d, POWER_LIMIT, 355);
    assert_figure(d, FAN, 0.2);
    assert_figure(d, CLOCK_GRAPHICS, 1249e6);
    assert_figure(d, CLOCK_MAX_GRAPHICS, 2482e6);
    assert_figure(d, CLOCK_MEMORY, 96e6);
    assert_figure(d, PCIE_GENERATION, 4);
    assert_figure(d, PCIE_GENERATION_MAX, 5);
    assert_figure(d, PCIE_WIDTH, 16);
    assert_figure(d, PCIE_REPLAYS, 2);

    /* A file that goes takes nothing along; one that has garbage neither. */
    char path[256];
    snprintf(path, sizeof(path), "%s/gpu_busy_percent", dev);
    machine_remove(&m, path);
    dev_write(&m, dev, "mem_info_vram_used", "lots\n");
    dev_write(&m, dev, "mem_busy_percent", "4294967295\n");
    dev_write(&m, dev, "hwmon/hwmon3/temp2_input", "-99999999999999999999999\n");
    assert_int_equal(r.ops->read(r.state, &r.s, 0), 0);
    assert_absent(d, UTILIZATION, NO_FILE);
    assert_absent(d, MEMORY_USED, MALFORMED);
    assert_absent(d, MEMORY_UTILIZATION, MALFORMED);
    assert_absent(d, TEMPERATURE_HOTSPOT, MALFORMED);
    assert_figure(d, TEMPERATURE_CORE, 45);
    assert_figure(d, POWER, 123);

    /* Asleep: nothing is read. */
    dev_write(&m, dev, "power/runtime_status", "suspended\n");
    assert_int_equal(r.ops->read(r.state, &r.s, 1), 0);
    assert_absent(d, POWER, ASLEEP);
    assert_figure(d, UTILIZATION, 0);
    dev_write(&m, dev, "power/runtime_status", "active\n");
    assert_int_equal(r.ops->read(r.state, &r.s, 0), 0);
    assert_figure(d, POWER, 123);

    /* Another card: to be opened anew. */
    machine_card(&m, 1, "0000:04:00.0", "xe", path);
    assert_int_equal(r.ops->read(r.state, &r.s, 1), SONDE_ESTALE);
    reading_close(&r);
    assert_int_equal(reading_open(&r, &sonde_gpu_drm, &m), 0);
    assert_int_equal(r.ops->read(r.state, &r.s, 1), 0);
    assert_int_equal(r.s.device_count, 2);
    /* And one that vanishes. */
    machine_remove(&m, "sys/devices/0000:03:00.0");
    assert_int_equal(r.ops->read(r.state, &r.s, 0), SONDE_ESTALE);
    reading_close(&r);
    machine_release(&m);
}

static void intel(void **state)
{
    (void)state;
    struct machine m;
    struct reading r;
    char dev[128], card[160];
    machine_init(&m);
    machine_card(&m, 1, "0000:00:02.0", "i915", dev);
    snprintf(card, sizeof(card), "%s/drm/card1", dev);
    dev_write(&m, dev, "vendor", "0x8086\n");
    dev_write(&m, dev, "device", "0x56a0\n");
    dev_write(&m, dev, "hwmon/hwmon1/energy1_input", "5000000\n");
    dev_write(&m, card, "gt/gt0/rps_act_freq_mhz", "2050\n");
    dev_write(&m, card, "gt/gt0/rps_RP0_freq_mhz", "2400\n");
    dev_write(&m, card, "gt/gt0/throttle_reason_pl1", "1\n");
    dev_write(&m, card, "gt/gt0/throttle_reason_pl2", "0\n");
    dev_write(&m, card, "gt/gt0/throttle_reason_thermal", "0\n");
    machine_client(&m, 100, 5, "drm-driver:\ti915\ndrm-client-id:\t7\ndrm-pdev:\t0000:00:02.0\n"
                   "drm-engine-render:\t1000 ns\ndrm-engine-capacity-video:\t2\n"
                   "drm-resident-local0:\t10 MiB\n");
    assert_int_equal(reading_open(&r, &sonde_gpu_drm, &m), 0);
    assert_int_equal(r.ops->read(r.state, &r.s, 1), 0);
    const struct sonde_gpu_device *d = &r.s.device[0];
    assert_string_equal(d->name, "Intel 0x56a0");
    assert_figure(d, ENERGY, 5000000);
    assert_figure(d, CLOCK_GRAPHICS, 2050e6);
    assert_figure(d, CLOCK_MAX_GRAPHICS, 2400e6);
    assert_figure(d, THROTTLED_POWER, 1);
    assert_figure(d, THROTTLED_THERMAL, 0);
    assert_absent(d, THROTTLED_HARDWARE, NO_FILE);
    assert_absent(d, UTILIZATION, NOT_YET);
    /* Busier than time allows: all of it. */
    machine_client(&m, 100, 5, "drm-driver:\ti915\ndrm-client-id:\t7\ndrm-pdev:\t0000:00:02.0\n"
                   "drm-engine-render:\t900000000000000000 ns\ndrm-resident-local0:\t20 MiB\n");
    assert_int_equal(r.ops->read(r.state, &r.s, 0), 0);
    assert_figure(d, UTILIZATION, 1);
    assert_figure(d, ENGINE_RENDER, 1);
    assert_figure(d, MEMORY_USED, 20 << 20);
    assert_int_equal(r.s.process_count, 1);
    assert_int_equal(r.s.process[0].pid, 100);
    assert_string_equal(r.s.process[0].name, "server");
    assert_true(r.s.process[0].memory_bytes == 20 << 20);
    assert_true(r.s.process[0].utilization == 1);
    /* A counter that goes back began again. */
    machine_client(&m, 100, 5, "drm-driver:\ti915\ndrm-client-id:\t7\ndrm-pdev:\t0000:00:02.0\n"
                   "drm-engine-render:\t1 ns\n");
    assert_int_equal(r.ops->read(r.state, &r.s, 0), 0);
    assert_absent(d, UTILIZATION, NOT_YET);
    machine_remove(&m, "proc/100");
    assert_int_equal(r.ops->read(r.state, &r.s, 0), 0);
    assert_int_equal(r.s.process_count, 0);
    assert_figure(d, UTILIZATION, 0);
    reading_close(&r);
    machine_release(&m);
}

/* One client in two processes, two clients in one, and a driver of its own kind. */
static void clients(void **state)
{
    (void)state;
    static const char *const text = "drm-driver:\tpanthor\ndrm-client-id:\t%d\ndrm-pdev:\t"
                                    "0000:05:00.0\ndrm-resident-memory:\t4 KiB\n"
                                    "drm-cycles-gpu:\t%d\ndrm-total-cycles-gpu:\t%d\n";
    struct machine m;
    struct reading r;
    char dev[128], info[512];
    machine_init(&m);
    machine_card(&m, 0, "0000:05:00.0", "panthor", dev);
    for (int round = 0; round < 2; round++) {
        snprintf(info, sizeof(info), text, 1, 100 + 25 * round, 1000 + 100 * round);
        machine_client(&m, 20, 3, info);
        machine_client(&m, 21, 3, info);
        snprintf(info, sizeof(info), text, 2, 50 * round, 1000 + 100 * round);
        machine_client(&m, 21, 4, info);
        if (!round) assert_int_equal(reading_open(&r, &sonde_gpu_drm, &m), 0);
        assert_int_equal(r.ops->read(r.state, &r.s, !round), 0);
    }
    const struct sonde_gpu_device *d = &r.s.device[0];
    assert_figure(d, UTILIZATION, 0.75);
    assert_figure(d, SHARED_USED, 8192);
    assert_int_equal(r.s.process_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct sonde_gpu_process *p = &r.s.process[i];
        assert_true(p->memory_bytes == 4096);
        assert_true(p->utilization == (p->pid == 20 ? 0.25 : 0.5));
    }
    reading_close(&r);
    machine_release(&m);
}

static void hostile(void **state)
{
    (void)state;
    struct machine m;
    struct reading r;
    char dev[128], path[256];
    machine_init(&m);
    setup_amd(&m, dev);
    /* A card that only shows pictures, links to nowhere and to themselves, names that are none. */
    machine_card(&m, 1, "0000:06:00.0", "ast", path);
    snprintf(path, sizeof(path), "sys/devices/0000:06:00.0/drm/renderD129");
    machine_remove(&m, path);
    machine_link(&m, "sys/class/drm/card2", "card2");
    machine_link(&m, "sys/class/drm/card3", "/nowhere");
    machine_write(&m, "sys/class/drm/card4", "a file");
    machine_write(&m, "sys/class/drm/card0-DP-1/status", "connected\n");
    machine_write(&m, "sys/class/drm/version", "drm 1.1.0\n");
    snprintf(path, sizeof(path), "%s/gpu_busy_percent", dev);
    machine_link(&m, path, "gpu_busy_percent");
    char huge[9000];
    memset(huge, '9', sizeof(huge) - 1);
    huge[sizeof(huge) - 1] = '\0';
    dev_write(&m, dev, "mem_info_vram_total", huge);
    dev_write(&m, dev, "pp_dpm_sclk", huge);
    dev_write(&m, dev, "pp_dpm_mclk", "::::*\n*\n0: nanMhz *\n1: -5Mhz *\n");
    dev_write(&m, dev, "current_link_speed", "Unknown\n");
    machine_client(&m, 77, 1, huge);
    machine_client(&m, 78, 1, "drm-driver:\tx\ndrm-client-id:\t1\ndrm-pdev:\t%s%n\n");
    machine_write(&m, "proc/not-a-pid/fd/1", "");
    assert_int_equal(reading_open(&r, &sonde_gpu_drm, &m), 0);
    assert_int_equal(r.ops->read(r.state, &r.s, 1), 0);
    assert_int_equal(r.s.device_count, 1);
    const struct sonde_gpu_device *d = &r.s.device[0];
    assert_true(d->figure[SONDE_GPU_UTILIZATION].state > SONDE_GPU_OK);
    assert_absent(d, MEMORY_TOTAL, MALFORMED);
    assert_absent(d, CLOCK_GRAPHICS, MALFORMED);
    assert_absent(d, CLOCK_MEMORY, MALFORMED);
    assert_absent(d, PCIE_GENERATION, MALFORMED);
    assert_figure(d, TEMPERATURE_CORE, 45);
    reading_close(&r);
    machine_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amdgpu), cmocka_unit_test(intel), cmocka_unit_test(clients),
        cmocka_unit_test(hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
