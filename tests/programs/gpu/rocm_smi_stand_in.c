/* rocm_smi_stand_in.c - a librocm_smi64.so with the real ABI and made-up cards, for tests:
 *
 *   RSMI_CARDS=2        how many
 *   RSMI_FAIL=SYMBOL=N  that function returns N */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/gpu/rocm_smi_abi.h"

static int begin(const char *symbol)
{
    const char *fail = getenv("RSMI_FAIL"), *equals = fail ? strchr(fail, '=') : NULL;
    if (!equals || strlen(symbol) != (size_t)(equals - fail)) return 0;
    return strncmp(fail, symbol, strlen(symbol)) ? 0 : atoi(equals + 1);
}

#define BEGIN(symbol) do { const int rc_ = begin(symbol); if (rc_) return rc_; } while (0)
#define ONE(symbol, args, type, value)                                                         \
    int symbol args;                                                                           \
    int symbol args                                                                            \
    {                                                                                          \
        (void)i;                                                                               \
        BEGIN(#symbol);                                                                        \
        *out = (type)(value);                                                                  \
        return 0;                                                                              \
    }

int rsmi_init(uint64_t flags);
int rsmi_init(uint64_t flags)
{
    (void)flags;
    return begin("rsmi_init");
}

int rsmi_shut_down(void);
int rsmi_shut_down(void) { return 0; }

int rsmi_version_get(struct rsmi_version *out);
int rsmi_version_get(struct rsmi_version *out)
{
    BEGIN("rsmi_version_get");
    *out = (struct rsmi_version){ 5, 0, 2, "stand-in" };
    return 0;
}

int rsmi_num_monitor_devices(uint32_t *out);
int rsmi_num_monitor_devices(uint32_t *out)
{
    const char *n = getenv("RSMI_CARDS");
    BEGIN("rsmi_num_monitor_devices");
    *out = n ? (uint32_t)atoi(n) : 1;
    return 0;
}

ONE(rsmi_dev_pci_id_get, (uint32_t i, uint64_t *out), uint64_t, (0x83 + i) << 8)
ONE(rsmi_dev_unique_id_get, (uint32_t i, uint64_t *out), uint64_t, 0xabcdef + i)
ONE(rsmi_dev_busy_percent_get, (uint32_t i, uint32_t *out), uint32_t, 77)
ONE(rsmi_dev_memory_busy_percent_get, (uint32_t i, uint32_t *out), uint32_t, 12)
ONE(rsmi_dev_power_ave_get, (uint32_t i, uint32_t s, uint64_t *out), uint64_t, 250000000 + s)
ONE(rsmi_dev_power_cap_get, (uint32_t i, uint32_t s, uint64_t *out), uint64_t, 500000000 + s)
ONE(rsmi_dev_fan_speed_get, (uint32_t i, uint32_t s, int64_t *out), int64_t, 51 + s)
ONE(rsmi_dev_fan_speed_max_get, (uint32_t i, uint32_t s, uint64_t *out), uint64_t, 255 + s)
ONE(rsmi_dev_pci_replay_counter_get, (uint32_t i, uint64_t *out), uint64_t, 3)
ONE(rsmi_dev_memory_total_get, (uint32_t i, int kind, uint64_t *out), uint64_t,
    kind == RSMI_VRAM ? 64ull << 30 : 16ull << 30)
ONE(rsmi_dev_memory_usage_get, (uint32_t i, int kind, uint64_t *out), uint64_t,
    kind == RSMI_VRAM ? 8ull << 30 : 1ull << 30)

int rsmi_dev_name_get(uint32_t i, char *out, size_t size);
int rsmi_dev_name_get(uint32_t i, char *out, size_t size)
{
    (void)i;
    BEGIN("rsmi_dev_name_get");
    snprintf(out, size, "Stand-in MI300X");
    return 0;
}

int rsmi_dev_temp_metric_get(uint32_t i, uint32_t sensor, int metric, int64_t *out);
int rsmi_dev_temp_metric_get(uint32_t i, uint32_t sensor, int metric, int64_t *out)
{
    (void)i;
    BEGIN("rsmi_dev_temp_metric_get");
    if (sensor == RSMI_EDGE && metric == RSMI_T_CURRENT) return RSMI_NOT_SUPPORTED;
    *out = metric == RSMI_T_CRITICAL ? 100000 : 50000 + sensor * 1000;
    return 0;
}

int rsmi_dev_energy_count_get(uint32_t i, uint64_t *out, float *resolution, uint64_t *time);
int rsmi_dev_energy_count_get(uint32_t i, uint64_t *out, float *resolution, uint64_t *time)
{
    (void)i;
    BEGIN("rsmi_dev_energy_count_get");
    *out = 1000000;
    *resolution = 15.25f;
    *time = 1;
    return 0;
}

int rsmi_dev_ecc_count_get(uint32_t i, int block, struct rsmi_errors *out);
int rsmi_dev_ecc_count_get(uint32_t i, int block, struct rsmi_errors *out)
{
    (void)i;
    BEGIN("rsmi_dev_ecc_count_get");
    if (block != RSMI_BLOCK_UMC) return 1;
    *out = (struct rsmi_errors){ 4, 1 };
    return 0;
}
