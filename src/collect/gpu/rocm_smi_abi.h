/* rocm_smi_abi.h - as much of AMD's librocm_smi64 as rocm_smi.c calls. tests/peers/gpu_headers.py
 * holds it against the header that Debian has. */
#ifndef SONDE_COLLECT_GPU_ROCM_SMI_ABI_H
#define SONDE_COLLECT_GPU_ROCM_SMI_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { RSMI_OK = 0, RSMI_NOT_SUPPORTED = 2, RSMI_PERMISSION = 4, RSMI_NOT_IMPLEMENTED = 9,
       RSMI_NOT_FOUND = 10, RSMI_NO_DATA = 14 };
enum { RSMI_VRAM = 0, RSMI_GTT = 2 };
enum { RSMI_EDGE = 0, RSMI_JUNCTION = 1, RSMI_MEMORY = 2 };  /* sensors … */
enum { RSMI_T_CURRENT = 0, RSMI_T_CRITICAL = 5 };            /* … and what of them */
enum { RSMI_BLOCK_UMC = 1 };
struct rsmi_version { uint32_t major, minor, patch; const char *build; };
struct rsmi_errors { uint64_t correctable, uncorrectable; };

#define RSMI_FUNCTIONS(RSMI_FN)                                                                \
    RSMI_FN(init, "rsmi_init", (uint64_t))                                                     \
    RSMI_FN(shut_down, "rsmi_shut_down", (void))                                               \
    RSMI_FN(version, "rsmi_version_get", (struct rsmi_version *))                              \
    RSMI_FN(count, "rsmi_num_monitor_devices", (uint32_t *))                                   \
    RSMI_FN(pci, "rsmi_dev_pci_id_get", (uint32_t, uint64_t *))                                \
    RSMI_FN(name, "rsmi_dev_name_get", (uint32_t, char *, size_t))                             \
    RSMI_FN(unique, "rsmi_dev_unique_id_get", (uint32_t, uint64_t *))                          \
    RSMI_FN(busy, "rsmi_dev_busy_percent_get", (uint32_t, uint32_t *))                         \
    RSMI_FN(memory_busy, "rsmi_dev_memory_busy_percent_get", (uint32_t, uint32_t *))           \
    RSMI_FN(memory_total, "rsmi_dev_memory_total_get", (uint32_t, int, uint64_t *))            \
    RSMI_FN(memory_used, "rsmi_dev_memory_usage_get", (uint32_t, int, uint64_t *))             \
    RSMI_FN(temperature, "rsmi_dev_temp_metric_get", (uint32_t, uint32_t, int, int64_t *))     \
    RSMI_FN(power, "rsmi_dev_power_ave_get", (uint32_t, uint32_t, uint64_t *))                 \
    RSMI_FN(power_cap, "rsmi_dev_power_cap_get", (uint32_t, uint32_t, uint64_t *))             \
    RSMI_FN(energy, "rsmi_dev_energy_count_get", (uint32_t, uint64_t *, float *, uint64_t *))  \
    RSMI_FN(fan, "rsmi_dev_fan_speed_get", (uint32_t, uint32_t, int64_t *))                    \
    RSMI_FN(fan_max, "rsmi_dev_fan_speed_max_get", (uint32_t, uint32_t, uint64_t *))           \
    RSMI_FN(replays, "rsmi_dev_pci_replay_counter_get", (uint32_t, uint64_t *))                \
    RSMI_FN(ecc, "rsmi_dev_ecc_count_get", (uint32_t, int, struct rsmi_errors *))

#endif
