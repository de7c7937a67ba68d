/* nvml_abi.h - as much of NVIDIA's management library (libnvidia-ml.so.1) as nvml.c calls, declared
 * here since there is no header of it in Debian. Its ABI is stable: functions whose arguments
 * changed got another name (_v2, _v3). tests/peers/gpu_headers.py holds all of this against the
 * real one. */
#ifndef SONDE_COLLECT_GPU_NVML_ABI_H
#define SONDE_COLLECT_GPU_NVML_ABI_H

#include <stdint.h>

struct nvml_device_st;
typedef struct nvml_device_st *nvml_device; /* opaque, and its address means nothing: a handle */
typedef void *nvml_handle;

enum {
    NVML_OK = 0, NVML_NOT_SUPPORTED = 3, NVML_NO_PERMISSION = 4, NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7, NVML_DRIVER_NOT_LOADED = 9, NVML_TIMED_OUT = 10,
    NVML_FUNCTION_NOT_FOUND = 13, NVML_IS_LOST = 15, NVML_MISMATCH = 18,
};

struct nvml_pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct nvml_utilization { unsigned gpu, memory; };                 /* percent */
struct nvml_memory { unsigned long long total, free, used; };
struct nvml_memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
#define NVML_MEMORY_V2 ((unsigned)sizeof(struct nvml_memory_v2) | 2u << 24)
struct nvml_process_v1 { unsigned pid; unsigned long long memory; };
struct nvml_process { unsigned pid; unsigned long long memory; unsigned gi, ci; }; /* v2, v3 */
struct nvml_process_sample {
    unsigned pid; unsigned long long time_us; unsigned sm, mem, enc, dec;
};
struct nvml_event {
    nvml_device device; unsigned long long type, data; unsigned gi, ci;
};
union nvml_value { double d; int i; unsigned u; unsigned long ul; unsigned long long ull;
                   long long ll; unsigned short us; };
enum { NVML_DOUBLE, NVML_UINT, NVML_ULONG, NVML_ULONGLONG, NVML_LONGLONG, NVML_INT, NVML_USHORT };
struct nvml_field {
    unsigned id, scope; long long time_us, latency_us; int type, rc; union nvml_value value;
};
#define NVML_NO_VALUE 0xffffffffffffffffull

enum { /* fields */
    NVML_F_NVLINK_CRC = 38, NVML_F_NVLINK_REPLAY = 52, NVML_F_NVLINK_RECOVERY = 59,
    NVML_F_MEMORY_TEMP = 82, NVML_F_NVLINK_COUNT = 91, NVML_F_NVLINK_TX = 138,
    NVML_F_NVLINK_RX = 139, NVML_F_REMAPPED_COR = 142, NVML_F_REMAPPED_UNC = 143,
};
enum { NVML_CLK_GRAPHICS, NVML_CLK_SM, NVML_CLK_MEM, NVML_CLK_VIDEO };
enum { NVML_THRESHOLD_SLOWDOWN = 1, NVML_EVENT_XID = 8, NVML_PCIE_TX = 0, NVML_PCIE_RX = 1 };
enum { /* reasons of lowered clocks */
    NVML_R_SETTING = 0x2, NVML_R_POWER_CAP = 0x4, NVML_R_HARDWARE = 0x8, NVML_R_SYNC = 0x10,
    NVML_R_SW_THERMAL = 0x20, NVML_R_HW_THERMAL = 0x40, NVML_R_BRAKE = 0x80,
    NVML_R_DISPLAY = 0x100,
};

enum { /* activity counters (GPM) */
    NVML_G_SM = 2, NVML_G_OCCUPANCY = 3, NVML_G_INTEGER = 4, NVML_G_TENSOR = 5, NVML_G_DRAM = 10,
    NVML_G_FP64 = 11, NVML_G_FP32 = 12, NVML_G_FP16 = 13, NVML_G_PCIE_TX = 20,
    NVML_G_PCIE_RX = 21,
};
struct nvml_gpm_metric {
    unsigned id; int rc; double value; struct { char *short_name, *long_name, *unit; } info;
};
/* The library's own has as many metrics as its version knows; it looks at `count` of them. */
struct nvml_gpm_get {
    unsigned version, count; void *sample1, *sample2; struct nvml_gpm_metric metric[512];
};
struct nvml_gpm_support { unsigned version, is; };

/* NVML_FN(member, symbol, arguments): all return an error of above. */
#define NVML_FUNCTIONS(NVML_FN)                                                                \
    NVML_FN(init, "nvmlInit_v2", (void))                                                       \
    NVML_FN(shutdown, "nvmlShutdown", (void))                                                  \
    NVML_FN(driver, "nvmlSystemGetDriverVersion", (char *, unsigned))                          \
    NVML_FN(version, "nvmlSystemGetNVMLVersion", (char *, unsigned))                           \
    NVML_FN(count, "nvmlDeviceGetCount_v2", (unsigned *))                                      \
    NVML_FN(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned, nvml_device *))                \
    NVML_FN(name, "nvmlDeviceGetName", (nvml_device, char *, unsigned))                        \
    NVML_FN(uuid, "nvmlDeviceGetUUID", (nvml_device, char *, unsigned))                        \
    NVML_FN(pci, "nvmlDeviceGetPciInfo_v3", (nvml_device, struct nvml_pci *))                  \
    NVML_FN(utilization, "nvmlDeviceGetUtilizationRates",                                      \
            (nvml_device, struct nvml_utilization *))                                          \
    NVML_FN(encoder, "nvmlDeviceGetEncoderUtilization", (nvml_device, unsigned *, unsigned *)) \
    NVML_FN(decoder, "nvmlDeviceGetDecoderUtilization", (nvml_device, unsigned *, unsigned *)) \
    NVML_FN(memory, "nvmlDeviceGetMemoryInfo", (nvml_device, struct nvml_memory *))            \
    NVML_FN(memory_v2, "nvmlDeviceGetMemoryInfo_v2", (nvml_device, struct nvml_memory_v2 *))   \
    NVML_FN(temperature, "nvmlDeviceGetTemperature", (nvml_device, int, unsigned *))           \
    NVML_FN(threshold, "nvmlDeviceGetTemperatureThreshold", (nvml_device, int, unsigned *))    \
    NVML_FN(power, "nvmlDeviceGetPowerUsage", (nvml_device, unsigned *))                       \
    NVML_FN(power_limit, "nvmlDeviceGetEnforcedPowerLimit", (nvml_device, unsigned *))         \
    NVML_FN(energy, "nvmlDeviceGetTotalEnergyConsumption", (nvml_device, unsigned long long *)) \
    NVML_FN(clock, "nvmlDeviceGetClockInfo", (nvml_device, int, unsigned *))                   \
    NVML_FN(clock_max, "nvmlDeviceGetMaxClockInfo", (nvml_device, int, unsigned *))            \
    NVML_FN(reasons, "nvmlDeviceGetCurrentClocksEventReasons",                                 \
            (nvml_device, unsigned long long *))                                               \
    NVML_FN(reasons_old, "nvmlDeviceGetCurrentClocksThrottleReasons",                          \
            (nvml_device, unsigned long long *))                                               \
    NVML_FN(fan, "nvmlDeviceGetFanSpeed", (nvml_device, unsigned *))                           \
    NVML_FN(state, "nvmlDeviceGetPerformanceState", (nvml_device, int *))                      \
    NVML_FN(pcie, "nvmlDeviceGetPcieThroughput", (nvml_device, int, unsigned *))               \
    NVML_FN(pcie_gen, "nvmlDeviceGetCurrPcieLinkGeneration", (nvml_device, unsigned *))        \
    NVML_FN(pcie_gen_max, "nvmlDeviceGetMaxPcieLinkGeneration", (nvml_device, unsigned *))     \
    NVML_FN(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth", (nvml_device, unsigned *))           \
    NVML_FN(pcie_width_max, "nvmlDeviceGetMaxPcieLinkWidth", (nvml_device, unsigned *))        \
    NVML_FN(pcie_replays, "nvmlDeviceGetPcieReplayCounter", (nvml_device, unsigned *))         \
    NVML_FN(fields, "nvmlDeviceGetFieldValues", (nvml_device, int, struct nvml_field *))       \
    NVML_FN(ecc, "nvmlDeviceGetTotalEccErrors",                                                \
            (nvml_device, int, int, unsigned long long *))                                     \
    NVML_FN(processes, "nvmlDeviceGetComputeRunningProcesses_v3",                              \
            (nvml_device, unsigned *, struct nvml_process *))                                  \
    NVML_FN(processes_v2, "nvmlDeviceGetComputeRunningProcesses_v2",                           \
            (nvml_device, unsigned *, struct nvml_process *))                                  \
    NVML_FN(processes_v1, "nvmlDeviceGetComputeRunningProcesses",                              \
            (nvml_device, unsigned *, struct nvml_process_v1 *))                               \
    NVML_FN(graphics, "nvmlDeviceGetGraphicsRunningProcesses_v3",                              \
            (nvml_device, unsigned *, struct nvml_process *))                                  \
    NVML_FN(process_utilization, "nvmlDeviceGetProcessUtilization",                            \
            (nvml_device, struct nvml_process_sample *, unsigned *, unsigned long long))       \
    NVML_FN(mig_mode, "nvmlDeviceGetMigMode", (nvml_device, unsigned *, unsigned *))           \
    NVML_FN(mig_max, "nvmlDeviceGetMaxMigDeviceCount", (nvml_device, unsigned *))              \
    NVML_FN(mig_handle, "nvmlDeviceGetMigDeviceHandleByIndex",                                 \
            (nvml_device, unsigned, nvml_device *))                                            \
    NVML_FN(mig_instance, "nvmlDeviceGetGpuInstanceId", (nvml_device, unsigned *))             \
    NVML_FN(event_create, "nvmlEventSetCreate", (nvml_handle *))                               \
    NVML_FN(event_register, "nvmlDeviceRegisterEvents",                                        \
            (nvml_device, unsigned long long, nvml_handle))                                    \
    NVML_FN(event_wait, "nvmlEventSetWait_v2", (nvml_handle, struct nvml_event *, unsigned))   \
    NVML_FN(gpm_support, "nvmlGpmQueryDeviceSupport", (nvml_device, struct nvml_gpm_support *)) \
    NVML_FN(gpm_alloc, "nvmlGpmSampleAlloc", (void **))                                        \
    NVML_FN(gpm_free, "nvmlGpmSampleFree", (void *))                                           \
    NVML_FN(gpm_sample, "nvmlGpmSampleGet", (nvml_device, void *))                             \
    NVML_FN(gpm_mig, "nvmlGpmMigSampleGet", (nvml_device, unsigned, void *))                   \
    NVML_FN(gpm_get, "nvmlGpmMetricsGet", (struct nvml_gpm_get *))

#endif
