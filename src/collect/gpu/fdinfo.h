/* fdinfo.h - what the kernel says of one open DRM device in /proc/PID/fdinfo/N: the words of
 * Documentation/gpu/drm-usage-stats, and older ones of amdgpu and i915. Input like any other: lines
 * that are not understood are passed over, numbers that overflow are refused. No allocation. */
#ifndef SONDE_COLLECT_GPU_FDINFO_H
#define SONDE_COLLECT_GPU_FDINFO_H

#include <stddef.h>
#include <stdint.h>

enum sonde_gpu_engine {
    SONDE_GPU_ENGINE_OF_RENDER, SONDE_GPU_ENGINE_OF_COMPUTE, SONDE_GPU_ENGINE_OF_COPY,
    SONDE_GPU_ENGINE_OF_VIDEO, SONDE_GPU_ENGINE_OF_OTHER, SONDE_GPU_ENGINE_KINDS
};

struct sonde_gpu_fdinfo {
    char driver[32];        /* "amdgpu"; "" = this is no DRM file, or an old driver */
    char pdev[32];          /* PCI address; "" = the device has none */
    uint64_t client;        /* of the device's; files of one client (dup, fork) share it */
    int has_client;
    struct {
        int known;
        uint64_t busy_ns;             /* since the client began; of all engines of the kind */
        uint64_t cycles, all_cycles;  /* instead (xe): busy, and all that there were */
        uint64_t capacity;            /* engines of the kind; 0 = 1 */
    } engine[SONDE_GPU_ENGINE_KINDS];
    int has_memory;
    uint64_t device_bytes, system_bytes; /* resident, of the card's memory and of the machine's */
};

void sonde_gpu_fdinfo_parse(const char *text, size_t len, struct sonde_gpu_fdinfo *out);

#endif
