/* nvml_stand_in.c - a libnvidia-ml.so.1 with the real ABI and made-up cards, for tests. What it is
 * like comes from the environment:
 *
 *   NVML_CARDS=8        how many
 *   NVML_MIG=1          card 0 is partitioned into two instances
 *   NVML_FAIL=SYMBOL=N  that function returns N (of all cards); ALL = every one but init
 *   NVML_HANG=SYMBOL    that function never returns
 *   NVML_CRASH=SYMBOL   that function crashes
 *   NVML_LOST=FILE      card 1 is lost while FILE exists
 *   NVML_XID=1          card 0 has had XID 79 twice and 13 once
 *   NVML_PID=N          process that uses card 0
 *
 * With -DNVML_OLD there are only the functions of an old driver. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/gpu/nvml_abi.h"

static unsigned cards(void)
{
    const char *n = getenv("NVML_CARDS");
    return n ? (unsigned)atoi(n) : 1;
}

static int is_set(const char *name, const char *symbol)
{
    const char *v = getenv(name);
    return v && !strcmp(v, symbol);
}

/* What a function of this name does first. */
static int begin(const char *symbol)
{
    const char *fail = getenv("NVML_FAIL");
    while (is_set("NVML_HANG", symbol)) pause();
    if (is_set("NVML_CRASH", symbol)) raise(SIGSEGV);
    if (!fail) return 0;
    const char *equals = strchr(fail, '=');
    const size_t len = equals ? (size_t)(equals - fail) : strlen(fail);
    const int code = equals ? atoi(equals + 1) : 999;
    if (len == strlen(symbol) && !strncmp(fail, symbol, len)) return code;
    if (len == 3 && !strncmp(fail, "ALL", 3) && strcmp(symbol, "nvmlInit_v2") != 0 &&
        strcmp(symbol, "nvmlDeviceGetCount_v2") != 0 &&
        strcmp(symbol, "nvmlDeviceGetHandleByIndex_v2") != 0) {
        return code;
    }
    return 0;
}

/* Handles are 1 + the card, and 1001 + the instance. */
static unsigned card_of(nvml_device d) { return (unsigned)(uintptr_t)d - 1; }
static int is_instance(nvml_device d) { return (uintptr_t)d > 1000; }

static int of(const char *symbol, nvml_device d)
{
    const char *lost = getenv("NVML_LOST");
    if (lost && card_of(d) == 1 && access(lost, F_OK) == 0) return NVML_IS_LOST;
    return begin(symbol);
}

#define BEGIN(symbol) do { const int rc_ = begin(symbol); if (rc_) return rc_; } while (0)
#define OF(symbol, d) do { const int rc_ = of(symbol, d); if (rc_) return rc_; } while (0)
#define ONE(symbol, type, value)                                                               \
    int symbol(nvml_device d, type *out);                                                      \
    int symbol(nvml_device d, type *out)                                                       \
    {                                                                                          \
        OF(#symbol, d);                                                                        \
        *out = (type)(value);                                                                  \
        return 0;                                                                              \
    }

int nvmlInit_v2(void);
int nvmlInit_v2(void) { BEGIN("nvmlInit_v2"); return 0; }
int nvmlShutdown(void);
int nvmlShutdown(void) { return 0; }

int nvmlSystemGetDriverVersion(char *out, unsigned size);
int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    BEGIN("nvmlSystemGetDriverVersion");
    snprintf(out, size, "550.54.15");
    return 0;
}

int nvmlSystemGetNVMLVersion(char *out, unsigned size);
int nvmlSystemGetNVMLVersion(char *out, unsigned size)
{
    BEGIN("nvmlSystemGetNVMLVersion");
    snprintf(out, size, "12.550.54.15");
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *out);
int nvmlDeviceGetCount_v2(unsigned *out)
{
    BEGIN("nvmlDeviceGetCount_v2");
    *out = cards();
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvml_device *out);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvml_device *out)
{
    BEGIN("nvmlDeviceGetHandleByIndex_v2");
    if (i >= cards()) return NVML_NOT_FOUND;
    *out = (nvml_device)(uintptr_t)(i + 1);
    return 0;
}

int nvmlDeviceGetName(nvml_device d, char *out, unsigned size);
int nvmlDeviceGetName(nvml_device d, char *out, unsigned size)
{
    OF("nvmlDeviceGetName", d);
    if (is_instance(d)) snprintf(out, size, "Stand-in H100 MIG 1g.10gb");
    else snprintf(out, size, "Stand-in H100");
    return 0;
}

int nvmlDeviceGetUUID(nvml_device d, char *out, unsigned size);
int nvmlDeviceGetUUID(nvml_device d, char *out, unsigned size)
{
    OF("nvmlDeviceGetUUID", d);
    snprintf(out, size, "%s-%08u", is_instance(d) ? "MIG" : "GPU", (unsigned)(uintptr_t)d);
    return 0;
}

int nvmlDeviceGetPciInfo_v3(nvml_device d, struct nvml_pci *out);
int nvmlDeviceGetPciInfo_v3(nvml_device d, struct nvml_pci *out)
{
    OF("nvmlDeviceGetPciInfo_v3", d);
    memset(out, 0, sizeof(*out));
    out->bus = 0x3b + card_of(d);
    snprintf(out->bus_id, sizeof(out->bus_id), "00000000:%02X:00.0", out->bus);
    return 0;
}

int nvmlDeviceGetUtilizationRates(nvml_device d, struct nvml_utilization *out);
int nvmlDeviceGetUtilizationRates(nvml_device d, struct nvml_utilization *out)
{
    OF("nvmlDeviceGetUtilizationRates", d);
    if (card_of(d) == 0 && getenv("NVML_MIG")) return NVML_NOT_SUPPORTED;
    *out = (struct nvml_utilization){ 40 + card_of(d), 20 };
    return 0;
}

int nvmlDeviceGetMemoryInfo(nvml_device d, struct nvml_memory *out);
int nvmlDeviceGetMemoryInfo(nvml_device d, struct nvml_memory *out)
{
    OF("nvmlDeviceGetMemoryInfo", d);
    *out = (struct nvml_memory){ .total = 80ull << 30, .free = 50ull << 30, .used = 30ull << 30 };
    return 0;
}

ONE(nvmlDeviceGetPowerUsage, unsigned, 300500)
ONE(nvmlDeviceGetPerformanceState, int, 2)
ONE(nvmlDeviceGetFanSpeed, unsigned, 55)
ONE(nvmlDeviceGetEnforcedPowerLimit, unsigned, 700000)

int nvmlDeviceGetTemperature(nvml_device d, int sensor, unsigned *out);
int nvmlDeviceGetTemperature(nvml_device d, int sensor, unsigned *out)
{
    OF("nvmlDeviceGetTemperature", d);
    *out = sensor == 0 ? 61 : 0;
    return 0;
}

int nvmlDeviceGetClockInfo(nvml_device d, int clock, unsigned *out);
int nvmlDeviceGetClockInfo(nvml_device d, int clock, unsigned *out)
{
    static const unsigned mhz[] = { 1980, 1975, 2619, 1545 };
    OF("nvmlDeviceGetClockInfo", d);
    *out = mhz[clock & 3];
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses(nvml_device d, unsigned *count,
                                         struct nvml_process_v1 *out);
int nvmlDeviceGetComputeRunningProcesses(nvml_device d, unsigned *count,
                                         struct nvml_process_v1 *out)
{
    const char *pid = getenv("NVML_PID");
    OF("nvmlDeviceGetComputeRunningProcesses", d);
    *count = pid && card_of(d) == 0;
    if (*count) out[0] = (struct nvml_process_v1){ (unsigned)atoi(pid), 3ull << 30 };
    return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device d, unsigned long long *out);
int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device d, unsigned long long *out)
{
    OF("nvmlDeviceGetCurrentClocksThrottleReasons", d);
    *out = NVML_R_SW_THERMAL;
    return 0;
}

#ifndef NVML_OLD
ONE(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, 123456789ull)
ONE(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, NVML_R_POWER_CAP | 1)
ONE(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, 4)
ONE(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, 5)
ONE(nvmlDeviceGetCurrPcieLinkWidth, unsigned, 16)
ONE(nvmlDeviceGetMaxPcieLinkWidth, unsigned, 16)
ONE(nvmlDeviceGetPcieReplayCounter, unsigned, 7)
ONE(nvmlDeviceGetMaxMigDeviceCount, unsigned, 7)
ONE(nvmlDeviceGetGpuInstanceId, unsigned, (unsigned)((uintptr_t)d - 1000))

int nvmlDeviceGetEncoderUtilization(nvml_device d, unsigned *out, unsigned *period);
int nvmlDeviceGetEncoderUtilization(nvml_device d, unsigned *out, unsigned *period)
{
    OF("nvmlDeviceGetEncoderUtilization", d);
    *out = 11;
    *period = 1000;
    return 0;
}

int nvmlDeviceGetDecoderUtilization(nvml_device d, unsigned *out, unsigned *period);
int nvmlDeviceGetDecoderUtilization(nvml_device d, unsigned *out, unsigned *period)
{
    OF("nvmlDeviceGetDecoderUtilization", d);
    *out = 4294967295u; /* a value that cannot be */
    *period = 1000;
    return 0;
}

int nvmlDeviceGetMemoryInfo_v2(nvml_device d, struct nvml_memory_v2 *out);
int nvmlDeviceGetMemoryInfo_v2(nvml_device d, struct nvml_memory_v2 *out)
{
    OF("nvmlDeviceGetMemoryInfo_v2", d);
    if (out->version != NVML_MEMORY_V2) return 25;
    out->total = (is_instance(d) ? 10ull : 80ull) << 30;
    out->reserved = 1ull << 29;
    out->used = (is_instance(d) ? 4ull : 30ull) << 30;
    out->free = out->total - out->used - out->reserved;
    return 0;
}

int nvmlDeviceGetTemperatureThreshold(nvml_device d, int which, unsigned *out);
int nvmlDeviceGetTemperatureThreshold(nvml_device d, int which, unsigned *out)
{
    OF("nvmlDeviceGetTemperatureThreshold", d);
    *out = which == NVML_THRESHOLD_SLOWDOWN ? 90 : 95;
    return 0;
}

int nvmlDeviceGetMaxClockInfo(nvml_device d, int clock, unsigned *out);
int nvmlDeviceGetMaxClockInfo(nvml_device d, int clock, unsigned *out)
{
    OF("nvmlDeviceGetMaxClockInfo", d);
    *out = clock == NVML_CLK_MEM ? 2619 : 1980;
    return 0;
}

int nvmlDeviceGetPcieThroughput(nvml_device d, int which, unsigned *out);
int nvmlDeviceGetPcieThroughput(nvml_device d, int which, unsigned *out)
{
    OF("nvmlDeviceGetPcieThroughput", d);
    *out = which == NVML_PCIE_TX ? 1000 : 2000;
    return 0;
}

int nvmlDeviceGetTotalEccErrors(nvml_device d, int kind, int counter, unsigned long long *out);
int nvmlDeviceGetTotalEccErrors(nvml_device d, int kind, int counter, unsigned long long *out)
{
    OF("nvmlDeviceGetTotalEccErrors", d);
    *out = kind == 0 && counter == 0 ? 5 : 0;
    return 0;
}

int nvmlDeviceGetFieldValues(nvml_device d, int count, struct nvml_field *f);
int nvmlDeviceGetFieldValues(nvml_device d, int count, struct nvml_field *f)
{
    OF("nvmlDeviceGetFieldValues", d);
    for (int i = 0; i < count; i++) {
        f[i].rc = 0;
        f[i].type = NVML_UINT;
        switch (f[i].id) {
        case NVML_F_MEMORY_TEMP: f[i].value.u = 70; break;
        case NVML_F_NVLINK_TX:
        case NVML_F_NVLINK_RX:
            f[i].type = NVML_ULONGLONG;
            f[i].value.ull = f[i].scope == UINT32_MAX ? 1000000 : 0;
            break;
        case NVML_F_NVLINK_COUNT: f[i].value.u = 18; break;
        case NVML_F_NVLINK_CRC: f[i].type = 99; break; /* a kind that came later */
        case NVML_F_NVLINK_REPLAY: f[i].rc = NVML_NOT_SUPPORTED; break;
        default: f[i].value.u = 3; break;
        }
    }
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device d, unsigned *count,
                                            struct nvml_process *out);
int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device d, unsigned *count,
                                            struct nvml_process *out)
{
    const char *pid = getenv("NVML_PID");
    OF("nvmlDeviceGetComputeRunningProcesses_v3", d);
    *count = 0;
    if (!pid || card_of(d) != 0) return 0;
    const unsigned gi = getenv("NVML_MIG") ? 2 : UINT32_MAX;
    out[(*count)++] = (struct nvml_process){ (unsigned)atoi(pid), 2ull << 30, gi, gi };
    out[(*count)++] = (struct nvml_process){ 4000000, NVML_NO_VALUE, gi, gi };
    return 0;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device d, unsigned *count,
                                             struct nvml_process *out);
int nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device d, unsigned *count,
                                             struct nvml_process *out)
{
    OF("nvmlDeviceGetGraphicsRunningProcesses_v3", d);
    (void)out;
    *count = 0;
    return 0;
}

int nvmlDeviceGetProcessUtilization(nvml_device d, struct nvml_process_sample *out, unsigned *count,
                                    unsigned long long since);
int nvmlDeviceGetProcessUtilization(nvml_device d, struct nvml_process_sample *out, unsigned *count,
                                    unsigned long long since)
{
    const char *pid = getenv("NVML_PID");
    OF("nvmlDeviceGetProcessUtilization", d);
    if (!pid || card_of(d) != 0) return NVML_NOT_FOUND;
    out[0] = (struct nvml_process_sample){ (unsigned)atoi(pid), since + 1, 35, 10, 0, 0 };
    *count = 1;
    return 0;
}

int nvmlDeviceGetMigMode(nvml_device d, unsigned *mode, unsigned *pending);
int nvmlDeviceGetMigMode(nvml_device d, unsigned *mode, unsigned *pending)
{
    OF("nvmlDeviceGetMigMode", d);
    *mode = *pending = getenv("NVML_MIG") && card_of(d) == 0;
    return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device d, unsigned i, nvml_device *out);
int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device d, unsigned i, nvml_device *out)
{
    OF("nvmlDeviceGetMigDeviceHandleByIndex", d);
    if (i >= 2) return NVML_NOT_FOUND;
    *out = (nvml_device)(uintptr_t)(1001 + i);
    return 0;
}

int nvmlEventSetCreate(nvml_handle *out);
int nvmlEventSetCreate(nvml_handle *out)
{
    BEGIN("nvmlEventSetCreate");
    *out = (nvml_handle)(uintptr_t)7;
    return 0;
}

int nvmlDeviceRegisterEvents(nvml_device d, unsigned long long types, nvml_handle set);
int nvmlDeviceRegisterEvents(nvml_device d, unsigned long long types, nvml_handle set)
{
    OF("nvmlDeviceRegisterEvents", d);
    return types == NVML_EVENT_XID && set == (nvml_handle)(uintptr_t)7 ? 0 : 2;
}

int nvmlEventSetWait_v2(nvml_handle set, struct nvml_event *e, unsigned ms);
int nvmlEventSetWait_v2(nvml_handle set, struct nvml_event *e, unsigned ms)
{
    static const unsigned xid[] = { 79, 79, 13 };
    static unsigned next;
    (void)set;
    (void)ms;
    BEGIN("nvmlEventSetWait_v2");
    if (!getenv("NVML_XID") || next >= 3) return NVML_TIMED_OUT;
    *e = (struct nvml_event){ (nvml_device)(uintptr_t)1, NVML_EVENT_XID, xid[next++], ~0u, ~0u };
    return 0;
}

int nvmlGpmQueryDeviceSupport(nvml_device d, struct nvml_gpm_support *out);
int nvmlGpmQueryDeviceSupport(nvml_device d, struct nvml_gpm_support *out)
{
    OF("nvmlGpmQueryDeviceSupport", d);
    out->is = card_of(d) == 0; /* the others are older cards */
    return 0;
}

int nvmlGpmSampleAlloc(void **out);
int nvmlGpmSampleAlloc(void **out)
{
    BEGIN("nvmlGpmSampleAlloc");
    *out = calloc(1, 64);
    return *out ? 0 : 20;
}

int nvmlGpmSampleFree(void *sample);
int nvmlGpmSampleFree(void *sample)
{
    free(sample);
    return 0;
}

int nvmlGpmSampleGet(nvml_device d, void *sample);
int nvmlGpmSampleGet(nvml_device d, void *sample)
{
    OF("nvmlGpmSampleGet", d);
    *(unsigned *)sample = 1;
    return 0;
}

int nvmlGpmMigSampleGet(nvml_device d, unsigned gi, void *sample);
int nvmlGpmMigSampleGet(nvml_device d, unsigned gi, void *sample)
{
    OF("nvmlGpmMigSampleGet", d);
    *(unsigned *)sample = gi;
    return 0;
}

int nvmlGpmMetricsGet(struct nvml_gpm_get *g);
int nvmlGpmMetricsGet(struct nvml_gpm_get *g)
{
    BEGIN("nvmlGpmMetricsGet");
    if (g->version != 1 || !g->sample1 || !g->sample2 || g->sample1 == g->sample2) return 2;
    for (unsigned i = 0; i < g->count; i++) {
        g->metric[i].rc = g->metric[i].id == NVML_G_FP64 ? NVML_NOT_SUPPORTED : 0;
        g->metric[i].value = g->metric[i].id; /* percent, or MiB per second */
    }
    return 0;
}
#endif
