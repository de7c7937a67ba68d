/* nvml.c - NVIDIA's cards through libnvidia-ml.so.1, which comes with the driver.
 *
 * Every call stands for itself: what one card or driver refuses is absent with its reason, and the
 * rest is read. What hardly changes, or takes long (PCIe throughput is a measurement of 20 ms), is
 * read every ten seconds. A card that fell off the bus is lost until NVML is opened anew, which the
 * number of folders in /proc/driver/nvidia/gpus tells: it differs from what was opened. */
#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "collect/gpu/backend.h"
#include "collect/gpu/nvml_abi.h"

#define NVML_LIBRARY "libnvidia-ml.so.1"
#define CARDS_MAX 64u
#define INSTANCES_MAX 16u
#define PROCESSES_MAX 256u
#define MIB 1048576.0

struct nvml_functions {
#define NVML_FN(member, symbol, args) int (*member) args;
    NVML_FUNCTIONS(NVML_FN)
#undef NVML_FN
};

/* Activity counters are of the time between two samples. */
struct nvml_activity { void *sample[2]; int next, known; };

struct nvml_instance { nvml_device handle; uint32_t number; char key[32]; struct nvml_activity a; };

struct nvml_card {
    nvml_device handle;
    char key[32];
    int lost;
    int gpm;                        /* 1 = it has activity counters; else why not: */
    enum sonde_gpu_state gpm_why;
    int gpm_code;
    struct nvml_activity activity;
    struct nvml_instance instance[INSTANCES_MAX];
    uint32_t instance_count;
    uint64_t utilization_us;        /* newest sample of processes' utilization */
    uint32_t xid_count;
    struct { uint32_t xid; uint64_t count; } xid[SONDE_GPU_XIDS];
};

struct nvml {
    void *library;
    struct nvml_functions f;
    char root[256], version[80];
    int activity;
    uint32_t folders;               /* cards that the driver had when this was opened */
    nvml_handle events;             /* NULL = none */
    struct nvml_card card[CARDS_MAX];
    uint32_t card_count;
    struct nvml_gpm_get gpm;
};

static int nvml_present(const struct sonde_gpu_env *env)
{
    return sonde_gpu_has(env, "dev/nvidiactl") || sonde_gpu_has(env, "dev/dxg") ||
           sonde_gpu_has(env, "proc/driver/nvidia/version");
}

static uint32_t nvml_folders(const char *root)
{
    char path[300];
    uint32_t n = 0;
    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus", root);
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && n < 1024 && (e = readdir(dir));) n += e->d_name[0] != '.';
    if (dir) closedir(dir);
    return n;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static enum sonde_gpu_state nvml_state(int rc)
{
    switch (rc) {
    case NVML_NOT_SUPPORTED: return SONDE_GPU_NOT_SUPPORTED;
    case NVML_NO_PERMISSION: return SONDE_GPU_NO_PERMISSION;
    case NVML_FUNCTION_NOT_FOUND: return SONDE_GPU_NO_FUNCTION;
    case NVML_IS_LOST: return SONDE_GPU_LOST;
    default: return SONDE_GPU_FAILED;
    }
}

static void nvml_missing(struct nvml_card *c, struct sonde_gpu_device *d, enum sonde_gpu_figure f,
                         int rc)
{
    const enum sonde_gpu_state s = nvml_state(rc);
    sonde_gpu_absent(d, f, s, s == SONDE_GPU_FAILED ? rc : 0);
    if (rc == NVML_IS_LOST) c->lost = 1;
}

/* A call whose function the library may lack. */
#define NVML_CALL(n, member, ...) ((n)->f.member ? (n)->f.member(__VA_ARGS__)                  \
                                                 : NVML_FUNCTION_NOT_FOUND)

/* Of a call that gives one number: it times scale, or why it is absent. */
#define NVML_GAUGE(n, c, d, figure, scale, type, member, ...)                                  \
    do {                                                                                       \
        type value_ = 0;                                                                       \
        const int rc_ = NVML_CALL(n, member, __VA_ARGS__);                                     \
        if (rc_) nvml_missing(c, d, SONDE_GPU_##figure, rc_);                                  \
        else sonde_gpu_set(d, SONDE_GPU_##figure, (double)value_ * (scale));                   \
    } while (0)

/* ---- One card -------------------------------------------------------------------------------- */

static void nvml_read_busy(struct nvml *n, struct nvml_card *c, struct sonde_gpu_device *d)
{
    struct nvml_utilization u = { 0, 0 };
    unsigned period;
    const int rc = NVML_CALL(n, utilization, c->handle, &u);
    if (rc) {
        nvml_missing(c, d, SONDE_GPU_UTILIZATION, rc);
        nvml_missing(c, d, SONDE_GPU_MEMORY_UTILIZATION, rc);
    } else {
        sonde_gpu_set(d, SONDE_GPU_UTILIZATION, u.gpu / 100.0);
        sonde_gpu_set(d, SONDE_GPU_MEMORY_UTILIZATION, u.memory / 100.0);
    }
    NVML_GAUGE(n, c, d, ENCODER, 0.01, unsigned, encoder, c->handle, &value_, &period);
    NVML_GAUGE(n, c, d, DECODER, 0.01, unsigned, decoder, c->handle, &value_, &period);
}

static void nvml_read_memory(struct nvml *n, struct nvml_card *c, nvml_device handle,
                             struct sonde_gpu_device *d)
{
    static const enum sonde_gpu_figure all[] = {
        SONDE_GPU_MEMORY_TOTAL, SONDE_GPU_MEMORY_USED, SONDE_GPU_MEMORY_FREE,
        SONDE_GPU_MEMORY_RESERVED };
    struct nvml_memory_v2 v2 = { .version = NVML_MEMORY_V2 };
    struct nvml_memory v1 = { 0, 0, 0 };
    int rc = NVML_CALL(n, memory_v2, handle, &v2);
    if (!rc) {
        sonde_gpu_set(d, SONDE_GPU_MEMORY_RESERVED, (double)v2.reserved);
        v1 = (struct nvml_memory){ v2.total, v2.free, v2.used };
    } else {
        /* Here `used` has what is reserved in it. */
        nvml_missing(c, d, SONDE_GPU_MEMORY_RESERVED, rc);
        rc = NVML_CALL(n, memory, handle, &v1);
    }
    if (rc) {
        for (size_t i = 0; i < SONDE_COUNT(all); i++) nvml_missing(c, d, all[i], rc);
        return;
    }
    sonde_gpu_set(d, SONDE_GPU_MEMORY_TOTAL, (double)v1.total);
    sonde_gpu_set(d, SONDE_GPU_MEMORY_USED, (double)v1.used);
    sonde_gpu_set(d, SONDE_GPU_MEMORY_FREE, (double)v1.free);
}

static void nvml_read_throttled(struct nvml *n, struct nvml_card *c, struct sonde_gpu_device *d)
{
    static const struct { enum sonde_gpu_figure figure; unsigned long long bits; } kind[] = {
        { SONDE_GPU_THROTTLED_POWER, NVML_R_POWER_CAP | NVML_R_BRAKE },
        { SONDE_GPU_THROTTLED_THERMAL, NVML_R_SW_THERMAL | NVML_R_HW_THERMAL },
        { SONDE_GPU_THROTTLED_HARDWARE, NVML_R_HARDWARE },
        { SONDE_GPU_THROTTLED_SETTING, NVML_R_SETTING | NVML_R_SYNC | NVML_R_DISPLAY },
    };
    unsigned long long reasons = 0;
    int rc = NVML_CALL(n, reasons, c->handle, &reasons);
    if (rc == NVML_FUNCTION_NOT_FOUND) rc = NVML_CALL(n, reasons_old, c->handle, &reasons);
    for (size_t i = 0; i < SONDE_COUNT(kind); i++) {
        if (rc) nvml_missing(c, d, kind[i].figure, rc);
        else sonde_gpu_set(d, kind[i].figure, (reasons & kind[i].bits) != 0);
    }
}

static void nvml_read_power(struct nvml *n, struct nvml_card *c, struct sonde_gpu_device *d)
{
    static const struct { enum sonde_gpu_figure figure; int clock; } clocks[] = {
        { SONDE_GPU_CLOCK_GRAPHICS, NVML_CLK_GRAPHICS }, { SONDE_GPU_CLOCK_SM, NVML_CLK_SM },
        { SONDE_GPU_CLOCK_MEMORY, NVML_CLK_MEM }, { SONDE_GPU_CLOCK_VIDEO, NVML_CLK_VIDEO },
    };
    unsigned long long mj = 0;
    NVML_GAUGE(n, c, d, TEMPERATURE_CORE, 1, unsigned, temperature, c->handle, 0, &value_);
    NVML_GAUGE(n, c, d, POWER, 1e-3, unsigned, power, c->handle, &value_);
    const int rc = NVML_CALL(n, energy, c->handle, &mj);
    if (rc) nvml_missing(c, d, SONDE_GPU_ENERGY, rc);
    else sonde_gpu_count(d, SONDE_GPU_ENERGY, mj * 1000);
    for (size_t i = 0; i < SONDE_COUNT(clocks); i++) {
        unsigned mhz = 0;
        const int no = NVML_CALL(n, clock, c->handle, clocks[i].clock, &mhz);
        if (no) nvml_missing(c, d, clocks[i].figure, no);
        else sonde_gpu_set(d, clocks[i].figure, mhz * 1e6);
    }
    NVML_GAUGE(n, c, d, PERFORMANCE_STATE, 1, int, state, c->handle, &value_);
}

static double nvml_field_double(const struct nvml_field *f)
{
    switch (f->type) {
    case NVML_DOUBLE: return f->value.d;
    case NVML_UINT: return f->value.u;
    case NVML_ULONG: return (double)f->value.ul;
    case NVML_ULONGLONG: return (double)f->value.ull;
    case NVML_LONGLONG: return (double)f->value.ll;
    case NVML_INT: return f->value.i;
    case NVML_USHORT: return f->value.us;
    default: return -1e9;           /* a newer kind */
    }
}

static void nvml_read_fields(struct nvml *n, struct nvml_card *c, struct sonde_gpu_device *d)
{
    static const struct {
        unsigned id, scope;
        enum sonde_gpu_figure figure;
        double scale;
    } want[] = {
        { NVML_F_MEMORY_TEMP, 0, SONDE_GPU_TEMPERATURE_MEMORY, 1 },
        { NVML_F_NVLINK_TX, UINT32_MAX, SONDE_GPU_NVLINK_TRANSMIT, 1024 }, /* of all links */
        { NVML_F_NVLINK_RX, UINT32_MAX, SONDE_GPU_NVLINK_RECEIVE, 1024 },
        { NVML_F_NVLINK_COUNT, 0, SONDE_GPU_NVLINK_LINKS, 1 },
        { NVML_F_NVLINK_CRC, 0, SONDE_GPU_NVLINK_CRC, 1 },
        { NVML_F_NVLINK_REPLAY, 0, SONDE_GPU_NVLINK_REPLAY, 1 },
        { NVML_F_NVLINK_RECOVERY, 0, SONDE_GPU_NVLINK_RECOVERY, 1 },
        { NVML_F_REMAPPED_COR, 0, SONDE_GPU_REMAPPED_CORRECTABLE, 1 },
        { NVML_F_REMAPPED_UNC, 0, SONDE_GPU_REMAPPED_UNCORRECTABLE, 1 },
    };
    enum { WANT = SONDE_COUNT(want) };
    struct nvml_field field[WANT];
    memset(field, 0, sizeof(field));
    for (size_t i = 0; i < WANT; i++) {
        field[i].id = want[i].id;
        field[i].scope = want[i].scope;
    }
    const int rc = NVML_CALL(n, fields, c->handle, (int)WANT, field);
    for (size_t i = 0; i < WANT; i++) {
        if (rc || field[i].rc) {
            nvml_missing(c, d, want[i].figure, rc ? rc : field[i].rc);
            continue;
        }
        const double v = nvml_field_double(&field[i]) * want[i].scale;
        if (sonde_gpu_figures[want[i].figure].type != SONDE_COUNTER) {
            sonde_gpu_set(d, want[i].figure, v);
        } else if (v >= 0 && v < 1.8e19) {
            sonde_gpu_count(d, want[i].figure, (uint64_t)v);
        } else {
            sonde_gpu_absent(d, want[i].figure, SONDE_GPU_MALFORMED, 0);
        }
    }
}

static void nvml_read_slow(struct nvml *n, struct nvml_card *c, struct sonde_gpu_device *d)
{
    unsigned replays = 0;
    NVML_GAUGE(n, c, d, TEMPERATURE_LIMIT, 1, unsigned, threshold, c->handle,
               NVML_THRESHOLD_SLOWDOWN, &value_);
    NVML_GAUGE(n, c, d, POWER_LIMIT, 1e-3, unsigned, power_limit, c->handle, &value_);
    NVML_GAUGE(n, c, d, CLOCK_MAX_GRAPHICS, 1e6, unsigned, clock_max, c->handle,
               NVML_CLK_GRAPHICS, &value_);
    NVML_GAUGE(n, c, d, CLOCK_MAX_MEMORY, 1e6, unsigned, clock_max, c->handle, NVML_CLK_MEM,
               &value_);
    NVML_GAUGE(n, c, d, FAN, 0.01, unsigned, fan, c->handle, &value_);
    NVML_GAUGE(n, c, d, PCIE_GENERATION, 1, unsigned, pcie_gen, c->handle, &value_);
    NVML_GAUGE(n, c, d, PCIE_GENERATION_MAX, 1, unsigned, pcie_gen_max, c->handle, &value_);
    NVML_GAUGE(n, c, d, PCIE_WIDTH, 1, unsigned, pcie_width, c->handle, &value_);
    NVML_GAUGE(n, c, d, PCIE_WIDTH_MAX, 1, unsigned, pcie_width_max, c->handle, &value_);
    const int rc = NVML_CALL(n, pcie_replays, c->handle, &replays);
    if (rc) nvml_missing(c, d, SONDE_GPU_PCIE_REPLAYS, rc);
    else sonde_gpu_count(d, SONDE_GPU_PCIE_REPLAYS, replays);
    for (int kind = 0; kind < 2; kind++) { /* corrected, uncorrected; since the driver came */
        const enum sonde_gpu_figure f = kind ? SONDE_GPU_ECC_UNCORRECTED : SONDE_GPU_ECC_CORRECTED;
        unsigned long long errors = 0;
        const int no = NVML_CALL(n, ecc, c->handle, kind, 0, &errors);
        if (no) nvml_missing(c, d, f, no);
        else sonde_gpu_count(d, f, errors);
    }
    if (c->gpm) return; /* which has it for nothing */
    NVML_GAUGE(n, c, d, PCIE_TRANSMIT, 1000, unsigned, pcie, c->handle, NVML_PCIE_TX, &value_);
    NVML_GAUGE(n, c, d, PCIE_RECEIVE, 1000, unsigned, pcie, c->handle, NVML_PCIE_RX, &value_);
}

/* ---- Activity -------------------------------------------------------------------------------- */

static const struct { unsigned id; enum sonde_gpu_figure figure; double scale; int card; }
    nvml_metrics[] = {
        { NVML_G_SM, SONDE_GPU_SM_ACTIVITY, 0.01, 0 },
        { NVML_G_OCCUPANCY, SONDE_GPU_SM_OCCUPANCY, 0.01, 0 },
        { NVML_G_DRAM, SONDE_GPU_MEMORY_BANDWIDTH, 0.01, 0 },
        { NVML_G_TENSOR, SONDE_GPU_PIPE_TENSOR, 0.01, 0 },
        { NVML_G_FP64, SONDE_GPU_PIPE_FP64, 0.01, 0 },
        { NVML_G_FP32, SONDE_GPU_PIPE_FP32, 0.01, 0 },
        { NVML_G_FP16, SONDE_GPU_PIPE_FP16, 0.01, 0 },
        { NVML_G_INTEGER, SONDE_GPU_PIPE_INTEGER, 0.01, 0 },
        { NVML_G_PCIE_TX, SONDE_GPU_PCIE_TRANSMIT, MIB, 1 }, /* of cards, not of instances */
        { NVML_G_PCIE_RX, SONDE_GPU_PCIE_RECEIVE, MIB, 1 },
    };

static void nvml_activity_absent(struct sonde_gpu_device *d, int card, enum sonde_gpu_state why,
                                 int code)
{
    for (size_t i = 0; i < SONDE_COUNT(nvml_metrics); i++) {
        /* PCIe of a card without GPM is read otherwise. */
        if (nvml_metrics[i].card) continue;
        sonde_gpu_absent(d, nvml_metrics[i].figure, why, code);
    }
    (void)card;
}

/* instance UINT32_MAX: of the card. */
static void nvml_read_activity(struct nvml *n, struct nvml_card *c, struct nvml_activity *a,
                               uint32_t instance, struct sonde_gpu_device *d)
{
    const int card = instance == UINT32_MAX;
    if (!c->gpm) {
        nvml_activity_absent(d, card, c->gpm_why, c->gpm_code);
        return;
    }
    int rc = 0;
    for (int i = 0; i < 2 && !rc; i++) {
        if (!a->sample[i]) rc = NVML_CALL(n, gpm_alloc, &a->sample[i]);
    }
    if (!rc) {
        rc = card ? NVML_CALL(n, gpm_sample, c->handle, a->sample[a->next])
                  : NVML_CALL(n, gpm_mig, c->handle, instance, a->sample[a->next]);
    }
    if (rc) {
        const enum sonde_gpu_state s = nvml_state(rc);
        nvml_activity_absent(d, card, s, s == SONDE_GPU_FAILED ? rc : 0);
        a->known = 0;
        return;
    }
    const int newest = a->next;
    a->next = !a->next;
    if (!a->known) {
        a->known = 1;
        nvml_activity_absent(d, card, SONDE_GPU_NOT_YET, 0);
        return;
    }
    memset(&n->gpm, 0, sizeof(n->gpm));
    n->gpm.version = 1;
    n->gpm.sample1 = a->sample[!newest];
    n->gpm.sample2 = a->sample[newest];
    for (size_t i = 0; i < SONDE_COUNT(nvml_metrics); i++) {
        if (nvml_metrics[i].card && !card) continue;
        n->gpm.metric[n->gpm.count++].id = nvml_metrics[i].id;
    }
    rc = NVML_CALL(n, gpm_get, &n->gpm);
    for (unsigned k = 0; k < n->gpm.count && k < SONDE_COUNT(nvml_metrics); k++) {
        const struct nvml_gpm_metric *m = &n->gpm.metric[k];
        if (rc || m->rc) nvml_missing(c, d, nvml_metrics[k].figure, rc ? rc : m->rc);
        else sonde_gpu_set(d, nvml_metrics[k].figure, m->value * nvml_metrics[k].scale);
    }
}

static void nvml_activity_look(struct nvml *n, struct nvml_card *c)
{
    struct nvml_gpm_support s = { .version = 1 };
    c->gpm = 0;
    c->gpm_code = 0;
    c->gpm_why = SONDE_GPU_OFF;
    if (!n->activity) return;
    const int rc = NVML_CALL(n, gpm_support, c->handle, &s);
    c->gpm = !rc && s.is;
    c->gpm_why = rc ? nvml_state(rc) : SONDE_GPU_NOT_SUPPORTED;
    if (c->gpm_why == SONDE_GPU_FAILED) c->gpm_code = rc;
}

/* ---- Processes ------------------------------------------------------------------------------- */

static void nvml_process_put(const struct nvml *n, struct sonde_gpu_snapshot *s,
                             const struct nvml_card *c, const struct nvml_process *from)
{
    const uint32_t gi = c->instance_count ? from->gi : UINT32_MAX;
    struct sonde_gpu_process *p = from->pid ? sonde_gpu_process_of(s, c->key, gi, from->pid) : NULL;
    if (!p) return;
    sonde_gpu_process_name(p, n->root);
    if (from->memory == NVML_NO_VALUE) return;
    p->memory_bytes = (double)from->memory;
}

static void nvml_read_processes(struct nvml *n, struct nvml_card *c, struct sonde_gpu_snapshot *s)
{
    struct nvml_process list[PROCESSES_MAX];
    struct nvml_process_v1 old[PROCESSES_MAX];
    memset(list, 0, sizeof(list));
    unsigned count = PROCESSES_MAX;
    int rc = NVML_CALL(n, processes, c->handle, &count, list);
    if (rc == NVML_FUNCTION_NOT_FOUND) {
        count = PROCESSES_MAX;
        rc = NVML_CALL(n, processes_v2, c->handle, &count, list);
    }
    if (rc == NVML_FUNCTION_NOT_FOUND) {
        count = PROCESSES_MAX;
        rc = NVML_CALL(n, processes_v1, c->handle, &count, old);
        for (unsigned i = 0; !rc && i < count && i < PROCESSES_MAX; i++) {
            list[i] = (struct nvml_process){ old[i].pid, old[i].memory, UINT32_MAX, UINT32_MAX };
        }
    }
    for (unsigned i = 0; !rc && i < count && i < PROCESSES_MAX; i++) {
        nvml_process_put(n, s, c, &list[i]);
    }
    count = PROCESSES_MAX;
    rc = NVML_CALL(n, graphics, c->handle, &count, list);
    for (unsigned i = 0; !rc && i < count && i < PROCESSES_MAX; i++) {
        nvml_process_put(n, s, c, &list[i]);
    }
}

/* Samples since the last look; of one process the newest counts. */
static void nvml_read_process_utilization(struct nvml *n, struct nvml_card *c,
                                          struct sonde_gpu_snapshot *s)
{
    struct nvml_process_sample list[PROCESSES_MAX];
    unsigned count = PROCESSES_MAX;
    uint64_t newest = c->utilization_us;
    if (c->instance_count || /* NVML has none of instances */
        NVML_CALL(n, process_utilization, c->handle, list, &count, c->utilization_us)) {
        return;
    }
    for (unsigned i = 0; i < count && i < PROCESSES_MAX; i++) {
        if (!list[i].pid || list[i].time_us <= c->utilization_us) continue;
        struct sonde_gpu_process *p = sonde_gpu_process_of(s, c->key, UINT32_MAX, list[i].pid);
        if (p && list[i].sm <= 100) p->utilization = list[i].sm / 100.0;
        if (list[i].time_us > newest) newest = list[i].time_us;
    }
    c->utilization_us = newest;
}

/* ---- Instances (MIG), errors (XID) ----------------------------------------------------------- */

static void nvml_instances_look(struct nvml *n, struct nvml_card *c)
{
    unsigned mode = 0, pending = 0, max = 0;
    c->instance_count = 0;
    if (NVML_CALL(n, mig_mode, c->handle, &mode, &pending) || mode != 1 ||
        NVML_CALL(n, mig_max, c->handle, &max)) {
        return;
    }
    for (unsigned i = 0; i < max && i < 64 && c->instance_count < INSTANCES_MAX; i++) {
        struct nvml_instance *m = &c->instance[c->instance_count];
        nvml_device handle = NULL;
        unsigned number = i;
        if (NVML_CALL(n, mig_handle, c->handle, i, &handle)) continue;
        NVML_CALL(n, mig_instance, handle, &number);
        if (m->number != number) m->a.known = 0;
        m->handle = handle;
        m->number = number;
        char card[21];
        memcpy(card, c->key, sizeof(card) - 1);
        card[sizeof(card) - 1] = '\0';
        snprintf(m->key, sizeof(m->key), "%s#%u", card, number % 1000);
        c->instance_count++;
    }
}

static void nvml_names(struct nvml *n, nvml_device handle, struct sonde_gpu_device *d)
{
    char text[256] = "";
    if (!NVML_CALL(n, name, handle, text, 96)) sonde_gpu_text(d->name, sizeof(d->name), text);
    text[0] = '\0';
    if (!NVML_CALL(n, uuid, handle, text, 96)) sonde_gpu_text(d->uuid, sizeof(d->uuid), text);
    sonde_gpu_text(d->driver, sizeof(d->driver), "nvidia");
    sonde_gpu_text(d->version, sizeof(d->version), n->version);
}

static void nvml_read_instances(struct nvml *n, struct nvml_card *c, struct sonde_gpu_snapshot *s)
{
    for (uint32_t i = 0; i < c->instance_count; i++) {
        struct nvml_instance *m = &c->instance[i];
        struct sonde_gpu_device *d = sonde_gpu_device_of(s, m->key);
        if (!d) return;
        sonde_gpu_text(d->parent, sizeof(d->parent), c->key);
        d->instance = m->number;
        if (!d->uuid[0]) nvml_names(n, m->handle, d);
        nvml_read_memory(n, c, m->handle, d);
        nvml_read_activity(n, c, &m->a, m->number, d);
    }
}

static void nvml_card_xid(struct nvml_card *c, uint32_t xid)
{
    uint32_t i = 0;
    while (i < c->xid_count && c->xid[i].xid != xid) i++;
    if (i == SONDE_GPU_XIDS) return; /* eight kinds of errors are enough to act on */
    if (i == c->xid_count) {
        c->xid[i].xid = xid;
        c->xid[c->xid_count++].count = 0;
    }
    c->xid[i].count++;
}

static void nvml_read_events(struct nvml *n)
{
    struct nvml_event e;
    for (int i = 0; n->events && i < 64; i++) {
        memset(&e, 0, sizeof(e));
        if (NVML_CALL(n, event_wait, n->events, &e, 0)) return;
        for (uint32_t k = 0; k < n->card_count && e.type == NVML_EVENT_XID; k++) {
            if (n->card[k].handle == e.device) nvml_card_xid(&n->card[k], (uint32_t)e.data);
        }
    }
}

/* ---- The back-end ---------------------------------------------------------------------------- */

static void nvml_read_card(struct nvml *n, struct nvml_card *c, struct sonde_gpu_snapshot *s,
                           int slow)
{
    struct sonde_gpu_device *d = sonde_gpu_device_of(s, c->key);
    if (!d) return;
    if (!c->lost) {
        if (!d->name[0]) nvml_names(n, c->handle, d);
        if (slow) nvml_instances_look(n, c);
        nvml_read_busy(n, c, d);
    }
    if (!c->lost) {
        nvml_read_memory(n, c, c->handle, d);
        nvml_read_throttled(n, c, d);
        nvml_read_power(n, c, d);
        nvml_read_fields(n, c, d);
        nvml_read_activity(n, c, &c->activity, UINT32_MAX, d);
        if (slow) nvml_read_slow(n, c, d);
        nvml_read_processes(n, c, s);
        nvml_read_process_utilization(n, c, s);
        nvml_read_instances(n, c, s);
    }
    for (size_t f = 0; c->lost && f < SONDE_GPU_FIGURES; f++) {
        if (d->figure[f].state != SONDE_GPU_NONE) {
            sonde_gpu_absent(d, (enum sonde_gpu_figure)f, SONDE_GPU_LOST, 0);
        }
    }
    d->lost = (uint32_t)c->lost;
    d->partitioned = c->instance_count > 0;
    d->xid_count = c->xid_count;
    for (uint32_t i = 0; i < c->xid_count; i++) {
        d->xid[i].xid = c->xid[i].xid;
        d->xid[i].count = c->xid[i].count;
    }
}

static int nvml_read(void *state, struct sonde_gpu_snapshot *s, int slow)
{
    struct nvml *n = state;
    if (slow && n->folders != nvml_folders(n->root)) return SONDE_ESTALE;
    s->process_count = 0;
    uint32_t kept = 0; /* instances may have gone: cards stay */
    for (uint32_t i = 0; slow && i < s->device_count; i++) {
        if (!s->device[i].parent[0]) s->device[kept++] = s->device[i];
    }
    if (slow) s->device_count = kept;
    nvml_read_events(n);
    for (uint32_t i = 0; i < n->card_count; i++) nvml_read_card(n, &n->card[i], s, slow);
    return 0;
}

static void nvml_activity_release(const struct nvml *n, const struct nvml_activity *a)
{
    for (int i = 0; i < 2; i++) {
        if (a->sample[i]) NVML_CALL(n, gpm_free, a->sample[i]);
    }
}

static void nvml_close(void *state)
{
    struct nvml *n = state;
    if (!n) return;
    for (uint32_t i = 0; i < n->card_count; i++) {
        nvml_activity_release(n, &n->card[i].activity);
        for (uint32_t k = 0; k < INSTANCES_MAX; k++) {
            nvml_activity_release(n, &n->card[i].instance[k].a);
        }
    }
    if (n->library) {
        NVML_CALL(n, shutdown);
        dlclose(n->library);
    }
    sonde__free(n);
}

static int nvml_load(struct nvml *n, struct sonde_err *note)
{
    n->library = dlopen(NVML_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    /* Where WSL keeps it. */
    if (!n->library) n->library = dlopen("/usr/lib/wsl/lib/" NVML_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    if (!n->library) {
        return sonde_err_set(note, SONDE_ENOENT, "there is a driver, but no " NVML_LIBRARY " (%s); "
                             "install the driver's libraries, or in a container pass them in "
                             "(utility capability)", dlerror());
    }
    union { void *data; void (*code)(void); } symbol;
#define NVML_FN(member, name, args)                                                            \
    symbol.data = dlsym(n->library, name);                                                     \
    n->f.member = (int(*) args)symbol.code;
    NVML_FUNCTIONS(NVML_FN)
#undef NVML_FN
    if (!n->f.init || !n->f.count || !n->f.handle) {
        return sonde_err_set(note, SONDE_EVERSION, NVML_LIBRARY " lacks %s; a driver of 2012 or "
                             "newer has it", !n->f.init ? "nvmlInit_v2" : !n->f.count
                             ? "nvmlDeviceGetCount_v2" : "nvmlDeviceGetHandleByIndex_v2");
    }
    const int rc = n->f.init();
    if (!rc) return 0;
    const char *why = rc == NVML_DRIVER_NOT_LOADED ? "the driver is not loaded"
                      : rc == NVML_NO_PERMISSION   ? "not permitted to use /dev/nvidia*"
                      : rc == NVML_MISMATCH ? "the library is of another version than the driver: "
                                              "reboot, or load the new driver"
                                            : "it failed";
    sonde_err_set(note, SONDE_EIO, NVML_LIBRARY ": %s (error %d)", why, rc);
    return SONDE_EIO;
}

static void nvml_card_open(struct nvml *n, unsigned index)
{
    struct nvml_card *c = &n->card[n->card_count];
    struct nvml_pci pci;
    memset(&pci, 0, sizeof(pci));
    const int rc = n->f.handle(index, &c->handle);
    if (rc == NVML_NO_PERMISSION) return; /* a card of others, in a container */
    if (rc) c->lost = 1;
    if (!rc && !NVML_CALL(n, pci, c->handle, &pci)) {
        snprintf(c->key, sizeof(c->key), "%04x:%02x:%02x.0", pci.domain, pci.bus & 0xff,
                 pci.device & 0x1f);
    } else {
        snprintf(c->key, sizeof(c->key), "nvidia%u", index);
    }
    n->card_count++;
    if (rc) return;
    nvml_activity_look(n, c);
    if (n->events) NVML_CALL(n, event_register, c->handle, NVML_EVENT_XID, n->events);
}

static int nvml_open(const struct sonde_gpu_env *env, void **state, struct sonde_err *note)
{
    struct nvml *n = sonde__calloc(1, sizeof(*n));
    char library[80] = "", driver[80] = "";
    unsigned count = 0;
    if (!n) return sonde_err_set(note, SONDE_ENOMEM, "out of memory");
    snprintf(n->root, sizeof(n->root), "%s", env->root);
    n->activity = env->activity;
    int rc = nvml_load(n, note);
    if (!rc && (rc = n->f.count(&count)) != 0) {
        sonde_err_set(note, SONDE_EIO, NVML_LIBRARY " does not count its cards (error %d)", rc);
        rc = SONDE_EIO;
    }
    if (rc) {
        if (n->library && rc != SONDE_EIO) n->f.shutdown = NULL;
        nvml_close(n);
        return rc;
    }
    NVML_CALL(n, driver, driver, sizeof(driver));
    NVML_CALL(n, version, library, sizeof(library));
    sonde_gpu_text(n->version, sizeof(n->version), driver);
    n->folders = nvml_folders(n->root);
    if (NVML_CALL(n, event_create, &n->events)) n->events = NULL;
    for (unsigned i = 0; i < count && i < CARDS_MAX; i++) nvml_card_open(n, i);
    sonde_err_set(note, 0, NVML_LIBRARY " %.60s, driver %.60s, %u card%s", library, driver,
                  n->card_count, n->card_count == 1 ? "" : "s");
    *state = n;
    return 0;
}

const struct sonde_gpu_backend sonde_gpu_nvml = {
    .name = "nvml",
    .summary = "NVIDIA's cards, by " NVML_LIBRARY,
    .looked_for = "/dev/nvidiactl, /dev/dxg",
    .present = nvml_present,
    .open = nvml_open,
    .read = nvml_read,
    .close = nvml_close,
};
