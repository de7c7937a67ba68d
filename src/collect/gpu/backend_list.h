/* One row a back-end; of two that have a figure of a device the first is believed. */
SONDE_GPU_BACKEND(nvml)
SONDE_GPU_BACKEND(rocm_smi)
SONDE_GPU_BACKEND(drm)
