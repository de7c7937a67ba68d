/* rocm_smi.c - AMD's cards through librocm_smi64: names, energy, memory errors, and what sysfs has
 * too. Clocks are left to sysfs (drm.c): the struct that has them here changed its layout between
 * versions of the library without a new name. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "collect/gpu/backend.h"
#include "collect/gpu/rocm_smi_abi.h"

#define CARDS_MAX 64u

struct rocm {
    void *library;
    struct rocm_functions {
#define RSMI_FN(member, symbol, args) int (*member) args;
        RSMI_FUNCTIONS(RSMI_FN)
#undef RSMI_FN
    } f;
    char version[80];
    uint32_t count;
    char key[CARDS_MAX][32];
};

#define ROCM_MISSING (-1)
#define ROCM_CALL(r, member, ...) ((r)->f.member ? (r)->f.member(__VA_ARGS__) : ROCM_MISSING)

static int rocm_present(const struct sonde_gpu_env *env) { return sonde_gpu_has(env, "dev/kfd"); }

static void rocm_missing(struct sonde_gpu_device *d, enum sonde_gpu_figure f, int rc)
{
    const enum sonde_gpu_state s =
        rc == ROCM_MISSING      ? SONDE_GPU_NO_FUNCTION
        : rc == RSMI_PERMISSION ? SONDE_GPU_NO_PERMISSION
        : rc == RSMI_NOT_SUPPORTED || rc == RSMI_NOT_IMPLEMENTED || rc == RSMI_NOT_FOUND ||
                rc == RSMI_NO_DATA
            ? SONDE_GPU_NOT_SUPPORTED
            : SONDE_GPU_FAILED;
    sonde_gpu_absent(d, f, s, s == SONDE_GPU_FAILED ? rc : 0);
}

static void rocm_put(struct sonde_gpu_device *d, enum sonde_gpu_figure f, int rc, double v)
{
    if (rc) rocm_missing(d, f, rc);
    else sonde_gpu_set(d, f, v);
}

static void rocm_read_memory(const struct rocm *r, uint32_t i, struct sonde_gpu_device *d)
{
    uint64_t total = 0, used = 0;
    int rc = ROCM_CALL(r, memory_total, i, RSMI_VRAM, &total);
    rocm_put(d, SONDE_GPU_MEMORY_TOTAL, rc, (double)total);
    const int no = ROCM_CALL(r, memory_used, i, RSMI_VRAM, &used);
    rocm_put(d, SONDE_GPU_MEMORY_USED, no, (double)used);
    rc = rc ? rc : no;
    rocm_put(d, SONDE_GPU_MEMORY_FREE, rc, total >= used ? (double)(total - used) : -1e9);
    rc = ROCM_CALL(r, memory_total, i, RSMI_GTT, &total);
    rocm_put(d, SONDE_GPU_SHARED_TOTAL, rc, (double)total);
    rc = ROCM_CALL(r, memory_used, i, RSMI_GTT, &used);
    rocm_put(d, SONDE_GPU_SHARED_USED, rc, (double)used);
}

static void rocm_read_fast(const struct rocm *r, uint32_t i, struct sonde_gpu_device *d)
{
    static const struct { uint32_t sensor; enum sonde_gpu_figure figure; } sensors[] = {
        { RSMI_EDGE, SONDE_GPU_TEMPERATURE_CORE }, { RSMI_JUNCTION, SONDE_GPU_TEMPERATURE_HOTSPOT },
        { RSMI_MEMORY, SONDE_GPU_TEMPERATURE_MEMORY },
    };
    uint32_t percent = 0;
    uint64_t n = 0, time;
    float resolution = 0;
    int rc = ROCM_CALL(r, busy, i, &percent);
    rocm_put(d, SONDE_GPU_UTILIZATION, rc, percent / 100.0);
    rc = ROCM_CALL(r, memory_busy, i, &percent);
    rocm_put(d, SONDE_GPU_MEMORY_UTILIZATION, rc, percent / 100.0);
    rocm_read_memory(r, i, d);
    for (size_t k = 0; k < SONDE_COUNT(sensors); k++) {
        int64_t milli = 0;
        rc = ROCM_CALL(r, temperature, i, sensors[k].sensor, RSMI_T_CURRENT, &milli);
        rocm_put(d, sensors[k].figure, rc, (double)milli * 1e-3);
    }
    rc = ROCM_CALL(r, power, i, 0, &n);
    rocm_put(d, SONDE_GPU_POWER, rc, (double)n * 1e-6);
    n = 0;
    rc = ROCM_CALL(r, energy, i, &n, &resolution, &time);
    const double uj = (double)n * (double)resolution;
    if (rc) rocm_missing(d, SONDE_GPU_ENERGY, rc);
    else if (uj >= 0 && uj < 1.8e19) sonde_gpu_count(d, SONDE_GPU_ENERGY, (uint64_t)uj);
    else sonde_gpu_absent(d, SONDE_GPU_ENERGY, SONDE_GPU_MALFORMED, 0);
}

static void rocm_read_slow(const struct rocm *r, uint32_t i, struct sonde_gpu_device *d)
{
    struct rsmi_errors errors = { 0, 0 };
    uint64_t n = 0;
    int64_t speed = 0;
    int rc = ROCM_CALL(r, temperature, i, RSMI_EDGE, RSMI_T_CRITICAL, &speed);
    rocm_put(d, SONDE_GPU_TEMPERATURE_LIMIT, rc, (double)speed * 1e-3);
    rc = ROCM_CALL(r, power_cap, i, 0, &n);
    rocm_put(d, SONDE_GPU_POWER_LIMIT, rc, (double)n * 1e-6);
    rc = ROCM_CALL(r, fan, i, 0, &speed);
    if (!rc) rc = ROCM_CALL(r, fan_max, i, 0, &n);
    rocm_put(d, SONDE_GPU_FAN, rc, n ? (double)speed / (double)n : -1e9);
    rc = ROCM_CALL(r, replays, i, &n);
    if (rc) rocm_missing(d, SONDE_GPU_PCIE_REPLAYS, rc);
    else sonde_gpu_count(d, SONDE_GPU_PCIE_REPLAYS, n);
    rc = ROCM_CALL(r, ecc, i, RSMI_BLOCK_UMC, &errors);
    if (rc) {
        rocm_missing(d, SONDE_GPU_ECC_CORRECTED, rc);
        rocm_missing(d, SONDE_GPU_ECC_UNCORRECTED, rc);
    } else {
        sonde_gpu_count(d, SONDE_GPU_ECC_CORRECTED, errors.correctable);
        sonde_gpu_count(d, SONDE_GPU_ECC_UNCORRECTED, errors.uncorrectable);
    }
}

static int rocm_read(void *state, struct sonde_gpu_snapshot *s, int slow)
{
    const struct rocm *r = state;
    s->process_count = 0; /* drm.c has them */
    for (uint32_t i = 0; i < r->count; i++) {
        struct sonde_gpu_device *d = sonde_gpu_device_of(s, r->key[i]);
        if (!d) break;
        if (!d->driver[0]) {
            char text[256] = "";
            uint64_t id;
            sonde_gpu_text(d->driver, sizeof(d->driver), "amdgpu");
            if (!ROCM_CALL(r, name, i, text, 96)) sonde_gpu_text(d->name, sizeof(d->name), text);
            if (!ROCM_CALL(r, unique, i, &id)) {
                snprintf(d->uuid, sizeof(d->uuid), "GPU-%016" PRIx64, id);
            }
        }
        rocm_read_fast(r, i, d);
        if (slow) rocm_read_slow(r, i, d);
    }
    return 0;
}

static void rocm_close(void *state)
{
    struct rocm *r = state;
    if (!r) return;
    if (r->library) {
        ROCM_CALL(r, shut_down);
        dlclose(r->library);
    }
    sonde__free(r);
}

static int rocm_load(struct rocm *r, struct sonde_err *note)
{
    static const char *const names[] = {
        "librocm_smi64.so", "librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5",
        "librocm_smi64.so.1", "/opt/rocm/lib/librocm_smi64.so",
    };
    for (size_t i = 0; i < SONDE_COUNT(names) && !r->library; i++) {
        r->library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
    }
    if (!r->library) {
        return sonde_err_set(note, SONDE_ENOENT, "no librocm_smi64.so: figures are those of sysfs; "
                             "install librocm-smi64-1 or ROCm for energy and memory errors");
    }
    union { void *data; void (*code)(void); } symbol;
#define RSMI_FN(member, name, args)                                                            \
    symbol.data = dlsym(r->library, name);                                                     \
    r->f.member = (int(*) args)symbol.code;
    RSMI_FUNCTIONS(RSMI_FN)
#undef RSMI_FN
    if (!r->f.init || !r->f.count || !r->f.pci) {
        return sonde_err_set(note, SONDE_EVERSION, "librocm_smi64.so lacks functions of its first "
                             "version");
    }
    const int rc = r->f.init(0);
    if (!rc) return 0;
    return sonde_err_set(note, SONDE_EIO, "librocm_smi64.so: it cannot be initialized (error %d)",
                         rc);
}

static int rocm_open(const struct sonde_gpu_env *env, void **state, struct sonde_err *note)
{
    struct rocm *r = sonde__calloc(1, sizeof(*r));
    struct rsmi_version v = { 0, 0, 0, NULL };
    (void)env;
    if (!r) return sonde_err_set(note, SONDE_ENOMEM, "out of memory");
    const int rc = rocm_load(r, note);
    if (rc) {
        r->f.shut_down = NULL;
        rocm_close(r);
        return rc;
    }
    if (r->f.count(&r->count)) r->count = 0;
    if (r->count > CARDS_MAX) r->count = CARDS_MAX;
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t id = 0;
        if (r->f.pci(i, &id)) {
            snprintf(r->key[i], sizeof(r->key[i]), "amd%u", i);
        } else {
            snprintf(r->key[i], sizeof(r->key[i]), "%04x:%02x:%02x.%u",
                     (unsigned)(id >> 32 & 0xffff), (unsigned)(id >> 8 & 0xff),
                     (unsigned)(id >> 3 & 0x1f), (unsigned)(id & 7));
        }
    }
    ROCM_CALL(r, version, &v);
    sonde_err_set(note, 0, "librocm_smi64.so %u.%u.%u, %u card%s", v.major, v.minor, v.patch,
                  r->count, r->count == 1 ? "" : "s");
    *state = r;
    return 0;
}

const struct sonde_gpu_backend sonde_gpu_rocm_smi = {
    .name = "rocm_smi",
    .summary = "AMD's cards, by librocm_smi64.so",
    .looked_for = "/dev/kfd",
    .present = rocm_present,
    .open = rocm_open,
    .read = rocm_read,
    .close = rocm_close,
};
