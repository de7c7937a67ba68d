#include "collect/gpu/fdinfo.h"

#include <string.h>

#include "base/array.h"
#include "collect/proc/procfs.h"

static uint64_t fdinfo_sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* `gfx_0`, `rcs`, `render`: drivers have words of their own. */
static enum sonde_gpu_engine fdinfo_engine(const char *name)
{
    static const struct { const char *start; enum sonde_gpu_engine kind; } words[] = {
        { "gfx", SONDE_GPU_ENGINE_OF_RENDER },     { "render", SONDE_GPU_ENGINE_OF_RENDER },
        { "rcs", SONDE_GPU_ENGINE_OF_RENDER },     { "gpu", SONDE_GPU_ENGINE_OF_RENDER },
        { "fragment", SONDE_GPU_ENGINE_OF_RENDER }, { "compute", SONDE_GPU_ENGINE_OF_COMPUTE },
        { "ccs", SONDE_GPU_ENGINE_OF_COMPUTE },    { "copy", SONDE_GPU_ENGINE_OF_COPY },
        { "bcs", SONDE_GPU_ENGINE_OF_COPY },       { "dma", SONDE_GPU_ENGINE_OF_COPY },
        { "sdma", SONDE_GPU_ENGINE_OF_COPY },      { "video", SONDE_GPU_ENGINE_OF_VIDEO },
        { "vcs", SONDE_GPU_ENGINE_OF_VIDEO },      { "vecs", SONDE_GPU_ENGINE_OF_VIDEO },
        { "enc", SONDE_GPU_ENGINE_OF_VIDEO },      { "dec", SONDE_GPU_ENGINE_OF_VIDEO },
        { "jpeg", SONDE_GPU_ENGINE_OF_VIDEO },
    };
    for (size_t i = 0; i < SONDE_COUNT(words); i++) {
        if (!strncmp(name, words[i].start, strlen(words[i].start))) return words[i].kind;
    }
    return SONDE_GPU_ENGINE_OF_OTHER;
}

static int fdinfo_after(const char *key, const char *start, const char **rest)
{
    const size_t n = strlen(start);
    if (strncmp(key, start, n) != 0) return 0;
    *rest = key + n;
    return 1;
}

/* A number with a unit: "12 KiB", "3 MiB", "7"; 0 = it is none. */
static int fdinfo_bytes(struct sonde_procfs_text *line, uint64_t *out)
{
    struct sonde_procfs_text unit;
    uint64_t n, scale = 1;
    if (!sonde_procfs_u64(line, &n)) return 0;
    if (sonde_procfs_word(line, &unit)) {
        if (sonde_procfs_is(unit, "KiB") || sonde_procfs_is(unit, "kB")) scale = 1024;
        else if (sonde_procfs_is(unit, "MiB")) scale = 1048576;
        else if (sonde_procfs_is(unit, "GiB")) scale = 1073741824;
        else return 0;
    }
    if (n > (UINT64_C(1) << 60) / scale) return 0;
    *out = n * scale;
    return 1;
}

static void fdinfo_line_engine(const char *key, struct sonde_procfs_text *line,
                               struct sonde_gpu_fdinfo *out)
{
    const char *name;
    uint64_t n;
    if (fdinfo_after(key, "drm-engine-capacity-", &name)) {
        if (sonde_procfs_u64(line, &n) && n > 0 && n < 4096) {
            out->engine[fdinfo_engine(name)].capacity = n;
        }
    } else if (fdinfo_after(key, "drm-engine-", &name)) {
        if (!sonde_procfs_u64(line, &n)) return;
        const enum sonde_gpu_engine e = fdinfo_engine(name);
        out->engine[e].known = 1;
        out->engine[e].busy_ns = fdinfo_sum(out->engine[e].busy_ns, n);
    } else if (fdinfo_after(key, "drm-cycles-", &name)) {
        if (!sonde_procfs_u64(line, &n)) return;
        const enum sonde_gpu_engine e = fdinfo_engine(name);
        out->engine[e].known = 1;
        out->engine[e].cycles = fdinfo_sum(out->engine[e].cycles, n);
    } else if (fdinfo_after(key, "drm-total-cycles-", &name) && sonde_procfs_u64(line, &n)) {
        const enum sonde_gpu_engine e = fdinfo_engine(name);
        out->engine[e].all_cycles = fdinfo_sum(out->engine[e].all_cycles, n);
    }
}

struct fdinfo_memory { uint64_t device, system; int known; };

static void fdinfo_add_memory(const char *region, struct sonde_procfs_text *line,
                              struct fdinfo_memory *to)
{
    uint64_t bytes;
    const char *rest;
    if (!fdinfo_bytes(line, &bytes)) return;
    to->known = 1;
    if (fdinfo_after(region, "vram", &rest) || fdinfo_after(region, "local", &rest)) {
        to->device = fdinfo_sum(to->device, bytes);
    } else {
        to->system = fdinfo_sum(to->system, bytes);
    }
}

void sonde_gpu_fdinfo_parse(const char *text, size_t len, struct sonde_gpu_fdinfo *out)
{
    struct sonde_procfs_text all = { text, text + len }, line, word;
    struct fdinfo_memory resident = { 0, 0, 0 }, old = { 0, 0, 0 };
    memset(out, 0, sizeof(*out));
    while (sonde_procfs_line(&all, &line)) {
        char key[64];
        const char *rest;
        if (!sonde_procfs_word(&line, &word)) continue;
        const size_t n = sonde_procfs_copy(word, key, sizeof(key));
        if (n < 5 || strncmp(key, "drm-", 4) != 0 || key[n - 1] != ':') continue;
        key[n - 1] = '\0';
        if (!strcmp(key, "drm-driver") && sonde_procfs_word(&line, &word)) {
            sonde_procfs_copy(word, out->driver, sizeof(out->driver));
        } else if (!strcmp(key, "drm-pdev") && sonde_procfs_word(&line, &word)) {
            sonde_procfs_copy(word, out->pdev, sizeof(out->pdev));
        } else if (!strcmp(key, "drm-client-id")) {
            out->has_client = sonde_procfs_u64(&line, &out->client);
        } else if (fdinfo_after(key, "drm-resident-", &rest)) {
            fdinfo_add_memory(rest, &line, &resident);
        } else if (fdinfo_after(key, "drm-memory-", &rest)) {
            fdinfo_add_memory(rest, &line, &old);
        } else {
            fdinfo_line_engine(key, &line, out);
        }
    }
    const struct fdinfo_memory *m = resident.known ? &resident : &old;
    out->has_memory = m->known;
    out->device_bytes = m->device;
    out->system_bytes = m->system;
}
