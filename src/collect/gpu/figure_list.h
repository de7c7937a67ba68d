/* One row a figure of a device, whoever reads it. A family is "sonde_gpu_" and the second column;
 * rows of a family stand together, told apart by a label. Wire and tables follow the order here.
 *
 *   SONDE_GPU_FIGURE(id, family, unit, TYPE, KIND, scale, HOW, label, value, help)
 *
 * HOW: MEAN = the mean of all readings since the tick before, LAST = the newest. Scale is of
 * counters: they are read as whole numbers (microjoules), and shown times it. */
SONDE_GPU_FIGURE(UTILIZATION, "utilization_ratio", "ratio", GAUGE, RATIO, 1, MEAN, NULL, NULL,
    "Share of time in which the GPU had something to do, which does not mean that it did much.")
SONDE_GPU_FIGURE(MEMORY_UTILIZATION, "memory_utilization_ratio", "ratio", GAUGE, RATIO, 1, MEAN,
    NULL, NULL, "Share of time in which memory of the GPU was read or written.")
SONDE_GPU_FIGURE(ENCODER, "encoder_utilization_ratio", "ratio", GAUGE, RATIO, 1, MEAN, NULL, NULL,
    "Share of time in which the video encoder was busy.")
SONDE_GPU_FIGURE(DECODER, "decoder_utilization_ratio", "ratio", GAUGE, RATIO, 1, MEAN, NULL, NULL,
    "Share of time in which the video decoder was busy.")
#define SONDE__ENGINE(id, name)                                                                \
    SONDE_GPU_FIGURE(ENGINE_##id, "engine_utilization_ratio", "ratio", GAUGE, RATIO, 1, MEAN,  \
                     "engine", name,                                                           \
                     "Share of time in which engines of the kind were busy for processes that " \
                     "sonde may look at.")
SONDE__ENGINE(RENDER, "render")
SONDE__ENGINE(COMPUTE, "compute")
SONDE__ENGINE(COPY, "copy")
SONDE__ENGINE(VIDEO, "video")
SONDE__ENGINE(OTHER, "other")
#undef SONDE__ENGINE
SONDE_GPU_FIGURE(MEMORY_TOTAL, "memory_total_bytes", "bytes", GAUGE, MEMORY, 1, LAST, NULL, NULL,
    "Memory of the GPU.")
SONDE_GPU_FIGURE(MEMORY_USED, "memory_used_bytes", "bytes", GAUGE, MEMORY, 1, LAST, NULL, NULL,
    "Memory of the GPU that is allocated.")
SONDE_GPU_FIGURE(MEMORY_FREE, "memory_free_bytes", "bytes", GAUGE, MEMORY, 1, LAST, NULL, NULL,
    "Memory of the GPU that is free.")
SONDE_GPU_FIGURE(MEMORY_RESERVED, "memory_reserved_bytes", "bytes", GAUGE, MEMORY, 1, LAST, NULL,
    NULL, "Memory of the GPU that its driver and firmware keep.")
SONDE_GPU_FIGURE(SHARED_TOTAL, "shared_memory_total_bytes", "bytes", GAUGE, MEMORY, 1, LAST, NULL,
    NULL, "Memory of the machine that the GPU may map (GTT).")
SONDE_GPU_FIGURE(SHARED_USED, "shared_memory_used_bytes", "bytes", GAUGE, MEMORY, 1, LAST, NULL,
    NULL, "Memory of the machine that the GPU has mapped (GTT).")
#define SONDE__TEMPERATURE(id, name)                                                           \
    SONDE_GPU_FIGURE(TEMPERATURE_##id, "temperature_celsius", "celsius", GAUGE, CUSTOM, 1, LAST, \
                     "sensor", name, "Temperature of the GPU.")
SONDE__TEMPERATURE(CORE, "core")
SONDE__TEMPERATURE(HOTSPOT, "hotspot")
SONDE__TEMPERATURE(MEMORY, "memory")
#undef SONDE__TEMPERATURE
SONDE_GPU_FIGURE(TEMPERATURE_LIMIT, "temperature_limit_celsius", "celsius", GAUGE, CUSTOM, 1, LAST,
    NULL, NULL, "Temperature of the core at which the GPU lowers its clocks.")
SONDE_GPU_FIGURE(POWER, "power_watts", "watts", GAUGE, CUSTOM, 1, MEAN, NULL, NULL,
    "Power that the GPU draws.")
SONDE_GPU_FIGURE(POWER_LIMIT, "power_limit_watts", "watts", GAUGE, CUSTOM, 1, LAST, NULL, NULL,
    "Power that the GPU may draw.")
SONDE_GPU_FIGURE(ENERGY, "energy_joules_total", "joules", COUNTER, COUNTER, 1e-6, LAST, NULL, NULL,
    "Energy that the GPU used.")
#define SONDE__CLOCK(id, name)                                                                 \
    SONDE_GPU_FIGURE(CLOCK_##id, "clock_hertz", "hertz", GAUGE, CUSTOM, 1, MEAN, "domain", name, \
                     "Frequency of a clock of the GPU.")
SONDE__CLOCK(GRAPHICS, "graphics")
SONDE__CLOCK(SM, "sm")
SONDE__CLOCK(MEMORY, "memory")
SONDE__CLOCK(VIDEO, "video")
#undef SONDE__CLOCK
#define SONDE__CLOCK_MAX(id, name)                                                             \
    SONDE_GPU_FIGURE(CLOCK_MAX_##id, "clock_max_hertz", "hertz", GAUGE, CUSTOM, 1, LAST, "domain", \
                     name, "Highest frequency of a clock of the GPU.")
SONDE__CLOCK_MAX(GRAPHICS, "graphics")
SONDE__CLOCK_MAX(MEMORY, "memory")
#undef SONDE__CLOCK_MAX
#define SONDE__THROTTLED(id, name)                                                             \
    SONDE_GPU_FIGURE(THROTTLED_##id, "throttled_ratio", "ratio", GAUGE, RATIO, 1, MEAN, "reason", \
                     name,                                                                     \
                     "Share of readings that found clocks lowered: for power (a limit, or the " \
                     "supply), temperature, hardware (a brake of the board), or setting (limits " \
                     "that somebody set).")
SONDE__THROTTLED(POWER, "power")
SONDE__THROTTLED(THERMAL, "thermal")
SONDE__THROTTLED(HARDWARE, "hardware")
SONDE__THROTTLED(SETTING, "setting")
#undef SONDE__THROTTLED
SONDE_GPU_FIGURE(FAN, "fan_ratio", "ratio", GAUGE, RATIO, 1, LAST, NULL, NULL,
    "Speed of the fan, of its highest.")
SONDE_GPU_FIGURE(PERFORMANCE_STATE, "performance_state", NULL, GAUGE, CUSTOM, 1, LAST, NULL, NULL,
    "Performance state: 0 is the fastest, 15 the slowest.")
#define SONDE__PCIE(id, name)                                                                  \
    SONDE_GPU_FIGURE(PCIE_##id, "pcie_bytes_per_second", "bytes", GAUGE, THROUGHPUT, 1, MEAN,  \
                     "direction", name, "Bytes per second over PCIe, as seen from the GPU.")
SONDE__PCIE(RECEIVE, "receive")
SONDE__PCIE(TRANSMIT, "transmit")
#undef SONDE__PCIE
SONDE_GPU_FIGURE(PCIE_GENERATION, "pcie_link_generation", NULL, GAUGE, CUSTOM, 1, LAST, NULL, NULL,
    "Generation of PCIe that the link runs at now.")
SONDE_GPU_FIGURE(PCIE_GENERATION_MAX, "pcie_link_generation_max", NULL, GAUGE, CUSTOM, 1, LAST,
    NULL, NULL, "Generation of PCIe that the link can run at.")
SONDE_GPU_FIGURE(PCIE_WIDTH, "pcie_link_width", NULL, GAUGE, CUSTOM, 1, LAST, NULL, NULL,
    "Lanes of the PCIe link now.")
SONDE_GPU_FIGURE(PCIE_WIDTH_MAX, "pcie_link_width_max", NULL, GAUGE, CUSTOM, 1, LAST, NULL, NULL,
    "Lanes that the PCIe link can have.")
SONDE_GPU_FIGURE(PCIE_REPLAYS, "pcie_replays_total", NULL, COUNTER, COUNTER, 1, LAST, NULL, NULL,
    "Packets that were sent again over PCIe.")
#define SONDE__NVLINK(id, name)                                                                \
    SONDE_GPU_FIGURE(NVLINK_##id, "nvlink_bytes_total", "bytes", COUNTER, THROUGHPUT, 1, LAST, \
                     "direction", name, "Bytes over all NVLinks, as seen from the GPU.")
SONDE__NVLINK(RECEIVE, "receive")
SONDE__NVLINK(TRANSMIT, "transmit")
#undef SONDE__NVLINK
SONDE_GPU_FIGURE(NVLINK_LINKS, "nvlink_links", NULL, GAUGE, CUSTOM, 1, LAST, NULL, NULL,
    "NVLinks that the GPU has.")
#define SONDE__NVLINK_ERRORS(id, name)                                                         \
    SONDE_GPU_FIGURE(NVLINK_##id, "nvlink_errors_total", NULL, COUNTER, COUNTER, 1, LAST, "kind", \
                     name, "Errors of all NVLinks.")
SONDE__NVLINK_ERRORS(CRC, "crc")
SONDE__NVLINK_ERRORS(REPLAY, "replay")
SONDE__NVLINK_ERRORS(RECOVERY, "recovery")
#undef SONDE__NVLINK_ERRORS
#define SONDE__ECC(id, name)                                                                   \
    SONDE_GPU_FIGURE(ECC_##id, "ecc_errors_total", NULL, COUNTER, COUNTER, 1, LAST, "kind", name, \
                     "Errors of memory since the driver was loaded.")
SONDE__ECC(CORRECTED, "corrected")
SONDE__ECC(UNCORRECTED, "uncorrected")
#undef SONDE__ECC
#define SONDE__REMAPPED(id, name)                                                              \
    SONDE_GPU_FIGURE(REMAPPED_##id, "memory_rows_remapped", NULL, GAUGE, CUSTOM, 1, LAST, "cause", \
                     name, "Rows of memory that were replaced by spare ones.")
SONDE__REMAPPED(CORRECTABLE, "correctable")
SONDE__REMAPPED(UNCORRECTABLE, "uncorrectable")
#undef SONDE__REMAPPED
SONDE_GPU_FIGURE(SM_ACTIVITY, "sm_activity_ratio", "ratio", GAUGE, RATIO, 1, MEAN, NULL, NULL,
    "Streaming multiprocessors that were busy, on average.")
SONDE_GPU_FIGURE(SM_OCCUPANCY, "sm_occupancy_ratio", "ratio", GAUGE, RATIO, 1, MEAN, NULL, NULL,
    "Warps that were resident, of those that could be.")
SONDE_GPU_FIGURE(MEMORY_BANDWIDTH, "memory_bandwidth_ratio", "ratio", GAUGE, RATIO, 1, MEAN, NULL,
    NULL, "Bandwidth of the GPU's memory that was used.")
#define SONDE__PIPE(id, name)                                                                  \
    SONDE_GPU_FIGURE(PIPE_##id, "pipe_activity_ratio", "ratio", GAUGE, RATIO, 1, MEAN, "pipe", \
                     name, "Share of time in which pipes of the kind were busy.")
SONDE__PIPE(TENSOR, "tensor")
SONDE__PIPE(FP64, "fp64")
SONDE__PIPE(FP32, "fp32")
SONDE__PIPE(FP16, "fp16")
SONDE__PIPE(INTEGER, "integer")
#undef SONDE__PIPE
