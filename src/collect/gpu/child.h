/* child.h - the process that a back-end reads in, and the messages that it sends: see gpu.h.
 *
 * One direction, one packet each (SOCK_SEQPACKET), the layout being that of structs: both ends are
 * the same program. Still, a library that writes where it should not may have written into them, so
 * the agent checks every one as if it came from elsewhere (wire.c). */
#ifndef SONDE_COLLECT_GPU_CHILD_H
#define SONDE_COLLECT_GPU_CHILD_H

#include <sys/types.h>

#include "collect/gpu/backend.h"

#define SONDE_GPU_MAGIC 0x55504753u /* "SGPU" */

enum sonde_gpu_packet_type {
    SONDE_GPU_PACKET_OPENED = 1,  /* text */
    SONDE_GPU_PACKET_REFUSED,     /* text; the child ends */
    SONDE_GPU_PACKET_DEVICE,
    SONDE_GPU_PACKET_PROCESSES,   /* as many as `count` says */
    SONDE_GPU_PACKET_END,         /* of a reading: `count` devices, `processes` processes */
    SONDE_GPU_PACKET_REOPEN,      /* the child ends, to be started at once */
};

enum { SONDE_GPU_PACKET_PROCESSES_MAX = 64 };

struct sonde_gpu_packet {
    uint32_t magic, type;
    uint64_t seq;                 /* of the reading */
    uint64_t read_ns;             /* END: how long it took */
    uint32_t count, processes;
    union {
        char text[256];
        struct sonde_gpu_device device;
        struct sonde_gpu_process process[SONDE_GPU_PACKET_PROCESSES_MAX];
    };
};

/* What the agent sends: how often to read from now on. */
struct sonde_gpu_order { uint32_t magic, interval_ms; };

struct sonde_gpu_child_options {
    const struct sonde_gpu_backend *ops;
    struct sonde_gpu_env env;
    uint32_t interval_ms, send_ms;  /* it reads so often, and sends what came of it so often */
};

/* Fork it: *fd is our end of the socket (nonblocking), *pidfd is readable when it has ended (-1
 * where the kernel has none). 0 or SONDE_EIO. */
int sonde_gpu_child_start(const struct sonde_gpu_child_options *o, pid_t *pid, int *pidfd, int *fd);

/* 1 if these len bytes are a packet that is whole and makes sense; texts in it end with a NUL then,
 * numbers that cannot be are made absent. */
int sonde_gpu_packet_check(struct sonde_gpu_packet *p, size_t len);

#endif
