/* fuzz_gpu.c - fdinfo of DRM devices, and what the child that reads GPUs sends. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collect/gpu/child.h"
#include "collect/gpu/fdinfo.h"

static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("0drm-driver:\tamdgpu\ndrm-client-id:\t42\ndrm-pdev:\t0000:03:00.0\n"
         "drm-memory-vram:\t2048 KiB\ndrm-engine-gfx:\t1000 ns\n"),
    SEED("0drm-driver:\txe\ndrm-cycles-rcs:\t28257900\ndrm-total-cycles-rcs:\t7655183225\n"
         "drm-engine-capacity-vcs:\t2\ndrm-resident-vram0:\t64 KiB\n"),
    SEED("1SGPU\x03\0\0\0aaaaaaaaaaaaaaaaaaaaaaaa0000:03:00.0"),
};

#include "fuzz/fuzz_seeds.h"

static void fuzz_fdinfo(const char *text, size_t len)
{
    struct sonde_gpu_fdinfo f;
    sonde_gpu_fdinfo_parse(text, len, &f);
    CHECK(memchr(f.driver, 0, sizeof(f.driver)) && memchr(f.pdev, 0, sizeof(f.pdev)));
    for (size_t e = 0; e < SONDE_GPU_ENGINE_KINDS; e++) CHECK(f.engine[e].capacity < 4096);
}

/* A packet of this type and as long as one is, of these bytes over and over. */
static void fuzz_packet(const uint8_t *data, size_t size)
{
    static struct sonde_gpu_packet p;
    const size_t head = offsetof(struct sonde_gpu_packet, text);
    for (size_t i = 0; i < sizeof(p); i++) ((uint8_t *)&p)[i] = size ? data[i % size] : 0;
    p.magic = SONDE_GPU_MAGIC;
    p.type = size ? data[0] % 8u : 0;
    p.count = size > 1 ? data[1] : 0;
    const size_t len = p.type == SONDE_GPU_PACKET_DEVICE ? head + sizeof(p.device)
                       : p.type == SONDE_GPU_PACKET_PROCESSES
                           ? head + p.count * sizeof(p.process[0])
                       : p.type == SONDE_GPU_PACKET_END ? head
                                                        : head + sizeof(p.text);
    if (!sonde_gpu_packet_check(&p, len)) return;
    CHECK(p.type != 0 && p.type <= SONDE_GPU_PACKET_REOPEN);
    if (p.type == SONDE_GPU_PACKET_PROCESSES) {
        CHECK(p.count <= SONDE_GPU_PACKET_PROCESSES_MAX);
        for (uint32_t i = 0; i < p.count; i++) {
            CHECK(p.process[i].pid && !(p.process[i].utilization > 1));
            CHECK(memchr(p.process[i].key, 0, sizeof(p.process[i].key)) != NULL);
        }
    }
    if (p.type != SONDE_GPU_PACKET_DEVICE) return;
    CHECK(p.device.key[0] && p.device.xid_count <= SONDE_GPU_XIDS);
    CHECK(memchr(p.device.name, 0, sizeof(p.device.name)) != NULL);
    for (size_t f = 0; f < SONDE_GPU_FIGURES; f++) {
        const struct sonde_gpu_value *v = &p.device.figure[f];
        CHECK(v->state < SONDE_GPU_STATE_COUNT);
        if (v->state == SONDE_GPU_OK && sonde_gpu_figures[f].type == SONDE_GAUGE) {
            CHECK(isfinite(v->v));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    if (data[0] & 1) fuzz_packet(data + 1, size - 1);
    else fuzz_fdinfo((const char *)data + 1, size - 1);
    return 0;
}
