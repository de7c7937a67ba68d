/* drm_clients.h - who uses DRM devices: the open files of all processes that sonde may look at, and
 * how busy each keeps the engines. Files are looked for seldom, since /proc has many; those that
 * were found are read each time. */
#ifndef SONDE_COLLECT_GPU_DRM_CLIENTS_H
#define SONDE_COLLECT_GPU_DRM_CLIENTS_H

#include "collect/gpu/backend.h"
#include "collect/gpu/fdinfo.h"
#include "collect/proc/procfs.h"

struct sonde_drm_clients;

/* Of one device, in the last interval. */
struct sonde_drm_use {
    int known;                        /* some client was read twice */
    uint32_t clients;
    double busy[SONDE_GPU_ENGINE_KINDS]; /* 0 … 1; NaN = no client has it */
    double device_bytes, system_bytes;
};

/* 0 or SONDE_ENOMEM. */
int sonde_drm_clients_create(const char *root, struct sonde_drm_clients **out);
void sonde_drm_clients_destroy(struct sonde_drm_clients *c); /* NULL is fine */

/* Read what is known, and look for more: in processes that are new, and by and by in all. Processes
 * go into s. */
void sonde_drm_clients_read(struct sonde_drm_clients *c, struct sonde_gpu_snapshot *s);
/* Of a device by its key, which is a PCI address. */
void sonde_drm_clients_use(const struct sonde_drm_clients *c, const char *key,
                           struct sonde_drm_use *out);
/* Processes whose files could not be looked at. */
uint32_t sonde_drm_clients_refused(const struct sonde_drm_clients *c);

#endif
