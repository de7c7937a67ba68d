#!/usr/bin/env python3
"""gpu_headers: our declarations of vendors' libraries (src/collect/gpu/*_abi.h) against their real
headers, as assertions of the compiler: sizes, offsets and values.

    gpu_headers.py SOURCE NVML_H ROCM_SMI_DIR
"""
import subprocess
import sys

NVML_SIZES = {
    "nvml_pci": "nvmlPciInfo_t", "nvml_utilization": "nvmlUtilization_t", "nvml_memory": "nvmlMemory_t",
    "nvml_memory_v2": "nvmlMemory_v2_t", "nvml_process_v1": "nvmlProcessInfo_v1_t",
    "nvml_process": "nvmlProcessInfo_v2_t", "nvml_process_sample": "nvmlProcessUtilizationSample_t",
    "nvml_event": "nvmlEventData_t", "nvml_field": "nvmlFieldValue_t",
    "nvml_gpm_metric": "nvmlGpmMetric_t", "nvml_gpm_support": "nvmlGpmSupport_t",
}
NVML_OFFSETS = [  # ours, member, theirs, member
    ("nvml_pci", "domain", "nvmlPciInfo_t", "domain"), ("nvml_pci", "bus", "nvmlPciInfo_t", "bus"),
    ("nvml_pci", "device", "nvmlPciInfo_t", "device"), ("nvml_pci", "bus_id", "nvmlPciInfo_t", "busId"),
    ("nvml_utilization", "memory", "nvmlUtilization_t", "memory"),
    ("nvml_memory", "free", "nvmlMemory_t", "free"), ("nvml_memory", "used", "nvmlMemory_t", "used"),
    ("nvml_memory_v2", "reserved", "nvmlMemory_v2_t", "reserved"),
    ("nvml_memory_v2", "free", "nvmlMemory_v2_t", "free"),
    ("nvml_memory_v2", "used", "nvmlMemory_v2_t", "used"),
    ("nvml_process_v1", "memory", "nvmlProcessInfo_v1_t", "usedGpuMemory"),
    ("nvml_process", "memory", "nvmlProcessInfo_v2_t", "usedGpuMemory"),
    ("nvml_process", "gi", "nvmlProcessInfo_v2_t", "gpuInstanceId"),
    ("nvml_process_sample", "time_us", "nvmlProcessUtilizationSample_t", "timeStamp"),
    ("nvml_process_sample", "sm", "nvmlProcessUtilizationSample_t", "smUtil"),
    ("nvml_event", "type", "nvmlEventData_t", "eventType"),
    ("nvml_event", "data", "nvmlEventData_t", "eventData"),
    ("nvml_field", "id", "nvmlFieldValue_t", "fieldId"), ("nvml_field", "scope", "nvmlFieldValue_t", "scopeId"),
    ("nvml_field", "type", "nvmlFieldValue_t", "valueType"), ("nvml_field", "rc", "nvmlFieldValue_t", "nvmlReturn"),
    ("nvml_field", "value", "nvmlFieldValue_t", "value"),
    ("nvml_gpm_metric", "rc", "nvmlGpmMetric_t", "nvmlReturn"),
    ("nvml_gpm_metric", "value", "nvmlGpmMetric_t", "value"),
    ("nvml_gpm_get", "count", "nvmlGpmMetricsGet_t", "numMetrics"),
    ("nvml_gpm_get", "sample1", "nvmlGpmMetricsGet_t", "sample1"),
    ("nvml_gpm_get", "sample2", "nvmlGpmMetricsGet_t", "sample2"),
    ("nvml_gpm_get", "metric", "nvmlGpmMetricsGet_t", "metrics"),
    ("nvml_gpm_support", "is", "nvmlGpmSupport_t", "isSupportedDevice"),
]
NVML_VALUES = {
    "NVML_OK": "NVML_SUCCESS", "NVML_NOT_SUPPORTED": "NVML_ERROR_NOT_SUPPORTED",
    "NVML_NO_PERMISSION": "NVML_ERROR_NO_PERMISSION", "NVML_NOT_FOUND": "NVML_ERROR_NOT_FOUND",
    "NVML_INSUFFICIENT_SIZE": "NVML_ERROR_INSUFFICIENT_SIZE",
    "NVML_DRIVER_NOT_LOADED": "NVML_ERROR_DRIVER_NOT_LOADED", "NVML_TIMED_OUT": "NVML_ERROR_TIMEOUT",
    "NVML_FUNCTION_NOT_FOUND": "NVML_ERROR_FUNCTION_NOT_FOUND", "NVML_IS_LOST": "NVML_ERROR_GPU_IS_LOST",
    "NVML_MISMATCH": "NVML_ERROR_LIB_RM_VERSION_MISMATCH", "NVML_MEMORY_V2": "nvmlMemory_v2",
    "NVML_DOUBLE": "NVML_VALUE_TYPE_DOUBLE", "NVML_UINT": "NVML_VALUE_TYPE_UNSIGNED_INT",
    "NVML_ULONG": "NVML_VALUE_TYPE_UNSIGNED_LONG", "NVML_ULONGLONG": "NVML_VALUE_TYPE_UNSIGNED_LONG_LONG",
    "NVML_LONGLONG": "NVML_VALUE_TYPE_SIGNED_LONG_LONG", "NVML_INT": "NVML_VALUE_TYPE_SIGNED_INT",
    "NVML_USHORT": "NVML_VALUE_TYPE_UNSIGNED_SHORT",
    "NVML_F_NVLINK_CRC": "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "NVML_F_NVLINK_REPLAY": "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    "NVML_F_NVLINK_RECOVERY": "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    "NVML_F_MEMORY_TEMP": "NVML_FI_DEV_MEMORY_TEMP", "NVML_F_NVLINK_COUNT": "NVML_FI_DEV_NVLINK_LINK_COUNT",
    "NVML_F_NVLINK_TX": "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
    "NVML_F_NVLINK_RX": "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX",
    "NVML_F_REMAPPED_COR": "NVML_FI_DEV_REMAPPED_COR", "NVML_F_REMAPPED_UNC": "NVML_FI_DEV_REMAPPED_UNC",
    "NVML_CLK_GRAPHICS": "NVML_CLOCK_GRAPHICS", "NVML_CLK_SM": "NVML_CLOCK_SM", "NVML_CLK_MEM": "NVML_CLOCK_MEM",
    "NVML_CLK_VIDEO": "NVML_CLOCK_VIDEO", "NVML_THRESHOLD_SLOWDOWN": "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN",
    "NVML_EVENT_XID": "nvmlEventTypeXidCriticalError", "NVML_PCIE_TX": "NVML_PCIE_UTIL_TX_BYTES",
    "NVML_PCIE_RX": "NVML_PCIE_UTIL_RX_BYTES", "0": "NVML_TEMPERATURE_GPU",
    "NVML_R_SETTING": "nvmlClocksEventReasonApplicationsClocksSetting",
    "NVML_R_POWER_CAP": "nvmlClocksEventReasonSwPowerCap", "NVML_R_HARDWARE": "nvmlClocksThrottleReasonHwSlowdown",
    "NVML_R_SYNC": "nvmlClocksEventReasonSyncBoost", "NVML_R_SW_THERMAL": "nvmlClocksEventReasonSwThermalSlowdown",
    "NVML_R_HW_THERMAL": "nvmlClocksThrottleReasonHwThermalSlowdown",
    "NVML_R_BRAKE": "nvmlClocksThrottleReasonHwPowerBrakeSlowdown",
    "NVML_R_DISPLAY": "nvmlClocksEventReasonDisplayClockSetting",
    "NVML_G_SM": "NVML_GPM_METRIC_SM_UTIL", "NVML_G_OCCUPANCY": "NVML_GPM_METRIC_SM_OCCUPANCY",
    "NVML_G_INTEGER": "NVML_GPM_METRIC_INTEGER_UTIL", "NVML_G_TENSOR": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
    "NVML_G_DRAM": "NVML_GPM_METRIC_DRAM_BW_UTIL", "NVML_G_FP64": "NVML_GPM_METRIC_FP64_UTIL",
    "NVML_G_FP32": "NVML_GPM_METRIC_FP32_UTIL", "NVML_G_FP16": "NVML_GPM_METRIC_FP16_UTIL",
    "NVML_G_PCIE_TX": "NVML_GPM_METRIC_PCIE_TX_PER_SEC", "NVML_G_PCIE_RX": "NVML_GPM_METRIC_PCIE_RX_PER_SEC",
    "1": "NVML_GPM_METRICS_GET_VERSION", "(1)": "NVML_GPM_SUPPORT_VERSION",
    "(0)": "NVML_MEMORY_ERROR_TYPE_CORRECTED", "+1": "NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "+0": "NVML_VOLATILE_ECC",
}
RSMI_VALUES = {
    "RSMI_OK": "RSMI_STATUS_SUCCESS", "RSMI_NOT_SUPPORTED": "RSMI_STATUS_NOT_SUPPORTED",
    "RSMI_PERMISSION": "RSMI_STATUS_PERMISSION", "RSMI_NOT_IMPLEMENTED": "RSMI_STATUS_NOT_YET_IMPLEMENTED",
    "RSMI_NOT_FOUND": "RSMI_STATUS_NOT_FOUND", "RSMI_NO_DATA": "RSMI_STATUS_NO_DATA",
    "RSMI_VRAM": "RSMI_MEM_TYPE_VRAM", "RSMI_GTT": "RSMI_MEM_TYPE_GTT", "RSMI_EDGE": "RSMI_TEMP_TYPE_EDGE",
    "RSMI_JUNCTION": "RSMI_TEMP_TYPE_JUNCTION", "RSMI_MEMORY": "RSMI_TEMP_TYPE_MEMORY",
    "RSMI_T_CURRENT": "RSMI_TEMP_CURRENT", "RSMI_T_CRITICAL": "RSMI_TEMP_CRITICAL",
    "RSMI_BLOCK_UMC": "RSMI_GPU_BLOCK_UMC",
}


def compile_c(what, lines, *includes):
    text = "\n".join(lines) + "\n"
    done = subprocess.run(["cc", "-std=gnu11", "-fsyntax-only", "-x", "c", *[f"-I{i}" for i in includes], "-"],
                          input=text, text=True, capture_output=True)
    asserted = text.count("_Static_assert")
    print(f"{what}: {asserted} sizes, offsets and values", "agree" if done.returncode == 0 else "do not agree")
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    return done.returncode == 0


def main():
    source, nvml_h, rocm = sys.argv[1:4]
    # Their values first, as numbers: some of their macros are hidden by ours then.
    nvml = [f'#include "{nvml_h}"', "#include <stddef.h>"]
    values = [f"enum {{ THEIRS_{i} = (int)({theirs}) }};" for i, theirs in enumerate(NVML_VALUES.values())]
    nvml += values
    nvml += [f'#include "{source}/src/collect/gpu/nvml_abi.h"']
    nvml += [f'_Static_assert(sizeof(struct {ours}) == sizeof({theirs}), "{ours}");' for ours, theirs in NVML_SIZES.items()]
    nvml += [f'_Static_assert(offsetof(struct {a}, {b}) == offsetof({c}, {d}), "{a}.{b}");' for a, b, c, d in NVML_OFFSETS]
    nvml += [f'_Static_assert((int)({ours}) == THEIRS_{i}, "{theirs}");'
             for i, (ours, theirs) in enumerate(NVML_VALUES.items())]
    nvml += ['_Static_assert(sizeof(((struct nvml_gpm_get *)0)->metric) >= sizeof(((nvmlGpmMetricsGet_t *)0)->metrics), "metrics");']
    rsmi = ["#include <rocm_smi/rocm_smi.h>", "#include <stddef.h>"]
    rsmi += [f"enum {{ THEIRS_{i} = (int)({theirs}) }};" for i, theirs in enumerate(RSMI_VALUES.values())]
    rsmi += [f'#include "{source}/src/collect/gpu/rocm_smi_abi.h"']
    rsmi += ['_Static_assert(sizeof(struct rsmi_errors) == sizeof(rsmi_error_count_t), "errors");',
             '_Static_assert(offsetof(struct rsmi_errors, uncorrectable) == offsetof(rsmi_error_count_t, uncorrectable_err), "uncorrectable");',
             '_Static_assert(sizeof(struct rsmi_version) == sizeof(rsmi_version_t), "version");']
    rsmi += [f'_Static_assert((int)({ours}) == THEIRS_{i}, "{theirs}");'
             for i, (ours, theirs) in enumerate(RSMI_VALUES.items())]
    ok = compile_c("NVML", nvml)
    ok = compile_c("ROCm SMI", rsmi, rocm) and ok
    # Every function that we look up is declared there under that name.
    for header, abi, word in ((nvml_h, "nvml_abi.h", "nvml"), (f"{rocm}/rocm_smi/rocm_smi.h", "rocm_smi_abi.h", "rsmi_")):
        with open(header, encoding="utf-8", errors="replace") as f:
            theirs = f.read()
        with open(f"{source}/src/collect/gpu/{abi}", encoding="utf-8") as f:
            wanted = [part for part in f.read().split('"') if part.startswith(word) and part.isidentifier()]
        missing = [name for name in wanted if f"{name}(" not in theirs]
        print(f"{abi}: {len(wanted)} functions,", f"missing: {missing}" if missing else "all declared there")
        ok = ok and not missing and len(wanted) > 10
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
