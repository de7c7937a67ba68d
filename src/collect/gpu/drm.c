/* drm.c - cards of every driver by what the kernel shows: files of /sys/class/drm (amdgpu, i915,
 * xe) and fdinfo of those who use them (drm_clients.h). No library, no ioctl.
 *
 * A card without a render node only shows pictures (the controller of a server's board), and is no
 * GPU. One that is suspended is left asleep: many files of it would wake it. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "collect/gpu/backend.h"
#include "collect/gpu/drm_clients.h"

#define CARDS_MAX 64u

struct drm_card {
    int fd;                        /* /sys/class/drm/cardN */
    int hwmon_fd;                  /* of it; -1 = none */
    char key[32], driver[32], name[96];
    const struct drm_reader *reader; /* NULL = of fdinfo alone */
    uint64_t energy;               /* as read last */
};

struct drm {
    int class_fd;
    char root[256];
    struct drm_card card[CARDS_MAX];
    uint32_t card_count, entries;  /* of the class when it was looked at */
    struct sonde_drm_clients *clients;
};

struct drm_reader {
    const char *driver;
    void (*read)(struct drm_card *c, struct sonde_gpu_device *d, int slow);
};

static int drm_is_card(const char *name)
{
    if (strncmp(name, "card", 4) != 0 || !isdigit((unsigned char)name[4])) return 0;
    return name[4 + strspn(name + 4, "0123456789")] == '\0';
}

/* Cards, and a number that changes when some come or go. */
static uint32_t drm_entries(const char *root)
{
    char path[300];
    uint32_t n = 0;
    snprintf(path, sizeof(path), "%s/sys/class/drm", root);
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && n < 4096 && (e = readdir(dir));) {
        n += (uint32_t)drm_is_card(e->d_name);
    }
    if (dir) closedir(dir);
    return n;
}

static int drm_present(const struct sonde_gpu_env *env)
{
    return sonde_gpu_has(env, "sys/class/drm") && drm_entries(env->root) > 0;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* One number of a file, times scale, or why it is absent. at: -1 = there is no such folder. */
static void drm_number(struct sonde_gpu_device *d, enum sonde_gpu_figure f, int at,
                       const char *path, double scale)
{
    char text[64], *end;
    if (d->figure[f].state == SONDE_GPU_OK && sonde_gpu_figures[f].type == SONDE_GAUGE) {
        d->figure[f].state = SONDE_GPU_NONE;
    }
    const ssize_t n = at < 0 ? SONDE_ENOENT : sonde_file_read_small(at, path, text, sizeof(text));
    if (n < 0) {
        sonde_gpu_absent(d, f, n == SONDE_EACCES   ? SONDE_GPU_NO_PERMISSION
                               : n == SONDE_ENOENT ? SONDE_GPU_NO_FILE
                                                   : SONDE_GPU_FAILED, 0);
        return;
    }
    const double v = strtod(text, &end);
    if (end == text || !isfinite(v) || fabs(v) > 1e18 || (*end && !isspace((unsigned char)*end))) {
        sonde_gpu_absent(d, f, SONDE_GPU_MALFORMED, 0);
    } else if (sonde_gpu_figures[f].type == SONDE_GAUGE) {
        if (v < 0 && scale > 0 && sonde_gpu_figures[f].kind != SONDE_KIND_CUSTOM) {
            sonde_gpu_absent(d, f, SONDE_GPU_MALFORMED, 0);
        } else {
            sonde_gpu_set(d, f, v * scale);
        }
    } else if (v < 0) {
        sonde_gpu_absent(d, f, SONDE_GPU_MALFORMED, 0);
    } else {
        sonde_gpu_count(d, f, (uint64_t)(v * scale));
    }
}

/* The first of two files that has it. */
static void drm_number_or(struct sonde_gpu_device *d, enum sonde_gpu_figure f, int at,
                          const char *path, const char *other, double scale)
{
    drm_number(d, f, at, path, scale);
    if (d->figure[f].state == SONDE_GPU_NO_FILE) drm_number(d, f, at, other, scale);
}

/* `1: 2100Mhz *`: the line with the star is in use; with most, the highest counts. */
static void drm_clock(struct sonde_gpu_device *d, enum sonde_gpu_figure f, int at, const char *path,
                      int most)
{
    char text[4096];
    const ssize_t n = sonde_file_read_small(at, path, text, sizeof(text));
    double mhz = -1;
    if (n < 0) {
        sonde_gpu_absent(d, f, n == SONDE_EACCES ? SONDE_GPU_NO_PERMISSION : SONDE_GPU_NO_FILE, 0);
        return;
    }
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *colon = strchr(line, ':');
        const double v = colon ? strtod(colon + 1, NULL) : -1;
        if (!(v > 0 && v < 1e6)) continue;
        if (most ? v > mhz : strchr(line, '*') != NULL) mhz = v;
    }
    if (mhz > 0) sonde_gpu_set(d, f, mhz * 1e6);
    else sonde_gpu_absent(d, f, SONDE_GPU_MALFORMED, 0);
}

/* `16.0 GT/s PCIe`. */
static void drm_link(struct sonde_gpu_device *d, enum sonde_gpu_figure f, int at, const char *path)
{
    static const double speed[] = { 2.5, 5, 8, 16, 32, 64 };
    char text[64];
    if (sonde_file_read_small(at, path, text, sizeof(text)) < 0) {
        sonde_gpu_absent(d, f, SONDE_GPU_NO_FILE, 0);
        return;
    }
    const double v = strtod(text, NULL);
    sonde_gpu_absent(d, f, SONDE_GPU_MALFORMED, 0);
    for (size_t i = 0; i < SONDE_COUNT(speed); i++) {
        if (fabs(v - speed[i]) < 0.01) sonde_gpu_set(d, f, (double)i + 1);
    }
}

static void drm_read_pcie(const struct drm_card *c, struct sonde_gpu_device *d)
{
    drm_link(d, SONDE_GPU_PCIE_GENERATION, c->fd, "device/current_link_speed");
    drm_link(d, SONDE_GPU_PCIE_GENERATION_MAX, c->fd, "device/max_link_speed");
    drm_number(d, SONDE_GPU_PCIE_WIDTH, c->fd, "device/current_link_width", 1);
    drm_number(d, SONDE_GPU_PCIE_WIDTH_MAX, c->fd, "device/max_link_width", 1);
}

/* ---- amdgpu ---------------------------------------------------------------------------------- */

/* hwmon numbers its sensors, and names each in a file. */
static void drm_read_temperatures(const struct drm_card *c, struct sonde_gpu_device *d)
{
    static const struct { const char *label; enum sonde_gpu_figure figure; } sensor[] = {
        { "edge", SONDE_GPU_TEMPERATURE_CORE }, { "junction", SONDE_GPU_TEMPERATURE_HOTSPOT },
        { "mem", SONDE_GPU_TEMPERATURE_MEMORY }, { "pkg", SONDE_GPU_TEMPERATURE_CORE },
        { "vram", SONDE_GPU_TEMPERATURE_MEMORY },
    };
    for (size_t i = 0; i < 3; i++) sonde_gpu_absent(d, sensor[i].figure, SONDE_GPU_NO_FILE, 0);
    for (int i = 1; c->hwmon_fd >= 0 && i <= 4; i++) {
        char path[32], label[32];
        snprintf(path, sizeof(path), "temp%d_label", i);
        if (sonde_file_read_small(c->hwmon_fd, path, label, sizeof(label)) < 0) {
            snprintf(label, sizeof(label), "%s", i == 1 ? "edge" : "");
        }
        label[strcspn(label, "\n")] = '\0';
        snprintf(path, sizeof(path), "temp%d_input", i);
        for (size_t k = 0; k < SONDE_COUNT(sensor); k++) {
            if (strcmp(label, sensor[k].label) != 0) continue;
            drm_number(d, sensor[k].figure, c->hwmon_fd, path, 1e-3);
        }
    }
}

static void drm_read_used(struct sonde_gpu_device *d)
{
    const struct sonde_gpu_value *total = &d->figure[SONDE_GPU_MEMORY_TOTAL];
    const struct sonde_gpu_value *used = &d->figure[SONDE_GPU_MEMORY_USED];
    if (total->state == SONDE_GPU_OK && used->state == SONDE_GPU_OK && total->v >= used->v) {
        sonde_gpu_set(d, SONDE_GPU_MEMORY_FREE, total->v - used->v);
    } else {
        sonde_gpu_absent(d, SONDE_GPU_MEMORY_FREE, SONDE_GPU_NO_FILE, 0);
    }
}

static void drm_read_amdgpu(struct drm_card *c, struct sonde_gpu_device *d, int slow)
{
    drm_number(d, SONDE_GPU_UTILIZATION, c->fd, "device/gpu_busy_percent", 0.01);
    drm_number(d, SONDE_GPU_MEMORY_UTILIZATION, c->fd, "device/mem_busy_percent", 0.01);
    drm_number(d, SONDE_GPU_MEMORY_USED, c->fd, "device/mem_info_vram_used", 1);
    drm_number(d, SONDE_GPU_SHARED_USED, c->fd, "device/mem_info_gtt_used", 1);
    drm_read_temperatures(c, d);
    drm_number_or(d, SONDE_GPU_POWER, c->hwmon_fd, "power1_average", "power1_input", 1e-6);
    drm_clock(d, SONDE_GPU_CLOCK_GRAPHICS, c->fd, "device/pp_dpm_sclk", 0);
    drm_clock(d, SONDE_GPU_CLOCK_MEMORY, c->fd, "device/pp_dpm_mclk", 0);
    if (slow) {
        drm_number(d, SONDE_GPU_MEMORY_TOTAL, c->fd, "device/mem_info_vram_total", 1);
        drm_number(d, SONDE_GPU_SHARED_TOTAL, c->fd, "device/mem_info_gtt_total", 1);
        drm_number(d, SONDE_GPU_TEMPERATURE_LIMIT, c->hwmon_fd, "temp1_crit", 1e-3);
        drm_number(d, SONDE_GPU_POWER_LIMIT, c->hwmon_fd, "power1_cap", 1e-6);
        drm_number(d, SONDE_GPU_FAN, c->hwmon_fd, "pwm1", 1 / 255.0);
        drm_clock(d, SONDE_GPU_CLOCK_MAX_GRAPHICS, c->fd, "device/pp_dpm_sclk", 1);
        drm_clock(d, SONDE_GPU_CLOCK_MAX_MEMORY, c->fd, "device/pp_dpm_mclk", 1);
        drm_number(d, SONDE_GPU_PCIE_REPLAYS, c->fd, "device/pcie_replay_count", 1);
        drm_read_pcie(c, d);
    }
    drm_read_used(d);
}

/* ---- i915, xe -------------------------------------------------------------------------------- */

struct drm_reason { const char *file; enum sonde_gpu_figure figure; };

/* A flag of each reason: of those that share a figure any counts. */
static void drm_read_reasons(const struct drm_card *c, struct sonde_gpu_device *d,
                             const struct drm_reason *reason, size_t count)
{
    double set[4] = { NAN, NAN, NAN, NAN };
    for (size_t i = 0; i < count; i++) {
        char text[16];
        double *to = &set[reason[i].figure - SONDE_GPU_THROTTLED_POWER];
        if (sonde_file_read_small(c->fd, reason[i].file, text, sizeof(text)) < 1) continue;
        *to = fmax(isnan(*to) ? 0 : *to, text[0] == '1');
    }
    for (size_t k = 0; k < 4; k++) {
        const enum sonde_gpu_figure f = (enum sonde_gpu_figure)(SONDE_GPU_THROTTLED_POWER + k);
        if (isnan(set[k])) sonde_gpu_absent(d, f, SONDE_GPU_NO_FILE, 0);
        else sonde_gpu_set(d, f, set[k]);
    }
}

static void drm_read_intel(struct drm_card *c, struct sonde_gpu_device *d, int slow)
{
    drm_read_temperatures(c, d);
    drm_number(d, SONDE_GPU_ENERGY, c->hwmon_fd, "energy1_input", 1);
    if (slow) {
        drm_number_or(d, SONDE_GPU_POWER_LIMIT, c->hwmon_fd, "power1_max", "power1_cap", 1e-6);
        drm_number(d, SONDE_GPU_TEMPERATURE_LIMIT, c->hwmon_fd, "temp1_crit", 1e-3);
        drm_read_pcie(c, d);
    }
}

static void drm_read_i915(struct drm_card *c, struct sonde_gpu_device *d, int slow)
{
    static const struct drm_reason reasons[] = {
        { "gt/gt0/throttle_reason_pl1", SONDE_GPU_THROTTLED_POWER },
        { "gt/gt0/throttle_reason_pl2", SONDE_GPU_THROTTLED_POWER },
        { "gt/gt0/throttle_reason_pl4", SONDE_GPU_THROTTLED_POWER },
        { "gt/gt0/throttle_reason_thermal", SONDE_GPU_THROTTLED_THERMAL },
        { "gt/gt0/throttle_reason_prochot", SONDE_GPU_THROTTLED_THERMAL },
        { "gt/gt0/throttle_reason_ratl", SONDE_GPU_THROTTLED_THERMAL },
        { "gt/gt0/throttle_reason_vr_thermalert", SONDE_GPU_THROTTLED_HARDWARE },
        { "gt/gt0/throttle_reason_vr_tdc", SONDE_GPU_THROTTLED_HARDWARE },
    };
    drm_read_intel(c, d, slow);
    drm_number_or(d, SONDE_GPU_CLOCK_GRAPHICS, c->fd, "gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz",
                  1e6);
    if (slow) {
        drm_number_or(d, SONDE_GPU_CLOCK_MAX_GRAPHICS, c->fd, "gt/gt0/rps_RP0_freq_mhz",
                      "gt_RP0_freq_mhz", 1e6);
    }
    drm_read_reasons(c, d, reasons, SONDE_COUNT(reasons));
}

#define XE "device/tile0/gt0/freq0/"
static void drm_read_xe(struct drm_card *c, struct sonde_gpu_device *d, int slow)
{
    static const struct drm_reason reasons[] = {
        { XE "throttle/reason_pl1", SONDE_GPU_THROTTLED_POWER },
        { XE "throttle/reason_pl2", SONDE_GPU_THROTTLED_POWER },
        { XE "throttle/reason_pl4", SONDE_GPU_THROTTLED_POWER },
        { XE "throttle/reason_thermal", SONDE_GPU_THROTTLED_THERMAL },
        { XE "throttle/reason_prochot", SONDE_GPU_THROTTLED_THERMAL },
        { XE "throttle/reason_ratl", SONDE_GPU_THROTTLED_THERMAL },
        { XE "throttle/reason_vr_thermalert", SONDE_GPU_THROTTLED_HARDWARE },
        { XE "throttle/reason_vr_tdc", SONDE_GPU_THROTTLED_HARDWARE },
    };
    drm_read_intel(c, d, slow);
    drm_number(d, SONDE_GPU_CLOCK_GRAPHICS, c->fd, XE "act_freq", 1e6);
    if (slow) drm_number(d, SONDE_GPU_CLOCK_MAX_GRAPHICS, c->fd, XE "rp0_freq", 1e6);
    drm_read_reasons(c, d, reasons, SONDE_COUNT(reasons));
}
#undef XE

static const struct drm_reader drm_readers[] = {
    { "amdgpu", drm_read_amdgpu }, { "i915", drm_read_i915 }, { "xe", drm_read_xe },
};

/* ---- What is busy ---------------------------------------------------------------------------- */

static void drm_read_engines(const struct drm *m, const struct drm_card *c,
                             struct sonde_gpu_device *d)
{
    struct sonde_drm_use use;
    double most = NAN;
    sonde_drm_clients_use(m->clients, c->key, &use);
    for (size_t e = 0; e < SONDE_GPU_ENGINE_KINDS; e++) {
        const enum sonde_gpu_figure f = (enum sonde_gpu_figure)(SONDE_GPU_ENGINE_RENDER + e);
        most = fmax(most, use.busy[e]);
        if (!isnan(use.busy[e])) sonde_gpu_set(d, f, use.busy[e]);
        else sonde_gpu_absent(d, f, use.clients ? SONDE_GPU_NOT_SUPPORTED : SONDE_GPU_NONE, 0);
    }
    if (c->reader && !strcmp(c->reader->driver, "amdgpu")) return;
    const int refused = sonde_drm_clients_refused(m->clients) != 0;
    const int nvidia = !strcmp(c->driver, "nvidia"); /* has no fdinfo: NVML knows */
    if (!use.clients && !refused && !nvidia) most = 0; /* nobody uses it */
    if (!isnan(most)) sonde_gpu_set(d, SONDE_GPU_UTILIZATION, most);
    else sonde_gpu_absent(d, SONDE_GPU_UTILIZATION, nvidia || use.known ? SONDE_GPU_NOT_SUPPORTED
                             : refused && !use.clients ? SONDE_GPU_NO_PERMISSION
                                                       : SONDE_GPU_NOT_YET, 0);
    if (use.device_bytes > 0) sonde_gpu_set(d, SONDE_GPU_MEMORY_USED, use.device_bytes);
    if (!isnan(use.system_bytes)) sonde_gpu_set(d, SONDE_GPU_SHARED_USED, use.system_bytes);
}

static int drm_asleep(const struct drm_card *c)
{
    char text[32];
    return sonde_file_read_small(c->fd, "device/power/runtime_status", text, sizeof(text)) > 0 &&
           !strncmp(text, "suspend", 7);
}

static int drm_read(void *state, struct sonde_gpu_snapshot *s, int slow)
{
    struct drm *m = state;
    if (slow && drm_entries(m->root) != m->entries) return SONDE_ESTALE;
    s->process_count = 0;
    sonde_drm_clients_read(m->clients, s);
    for (uint32_t i = 0; i < m->card_count; i++) {
        struct drm_card *c = &m->card[i];
        const int fresh = s->device_count <= i;
        struct sonde_gpu_device *d = sonde_gpu_device_of(s, c->key);
        if (!d) break;
        sonde_gpu_text(d->driver, sizeof(d->driver), c->driver);
        sonde_gpu_text(d->name, sizeof(d->name), c->name);
        /* Its folder stays open, and empty, when it is gone. */
        if (faccessat(c->fd, "device", F_OK, 0) != 0) return SONDE_ESTALE;
        if (drm_asleep(c)) {
            for (size_t f = 0; f < SONDE_GPU_FIGURES; f++) {
                if (d->figure[f].state == SONDE_GPU_NONE) continue;
                sonde_gpu_absent(d, (enum sonde_gpu_figure)f, SONDE_GPU_ASLEEP, 0);
            }
            sonde_gpu_set(d, SONDE_GPU_UTILIZATION, 0);
            continue;
        }
        const int woke = d->figure[SONDE_GPU_UTILIZATION].state == SONDE_GPU_OK &&
                         d->figure[SONDE_GPU_TEMPERATURE_CORE].state == SONDE_GPU_ASLEEP;
        if (c->reader) c->reader->read(c, d, slow || fresh || woke);
        drm_read_engines(m, c, d);
    }
    return 0;
}

/* ---- Finding cards --------------------------------------------------------------------------- */

static int drm_open_hwmon(int card_fd)
{
    const int at = openat(card_fd, "device/hwmon", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = at >= 0 ? fdopendir(at) : NULL;
    int found = -1;
    if (!dir && at >= 0) close(at);
    for (const struct dirent *e; dir && found < 0 && (e = readdir(dir));) {
        if (strncmp(e->d_name, "hwmon", 5) != 0) continue;
        found = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (dir) closedir(dir);
    return found;
}

static int drm_has_render_node(int card_fd)
{
    const int at = openat(card_fd, "device/drm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = at >= 0 ? fdopendir(at) : NULL;
    int found = 0;
    if (!dir && at >= 0) close(at);
    for (const struct dirent *e; dir && !found && (e = readdir(dir));) {
        found = !strncmp(e->d_name, "renderD", 7);
    }
    if (dir) closedir(dir);
    return found;
}

/* Last part of what a link leads to. */
static void drm_link_name(int at, const char *path, char *out, size_t out_size)
{
    char link[512];
    const ssize_t n = readlinkat(at, path, link, sizeof(link) - 1);
    out[0] = '\0';
    if (n <= 0) return;
    link[n] = '\0';
    const char *slash = strrchr(link, '/');
    sonde_gpu_text(out, out_size, slash ? slash + 1 : link);
}

static void drm_card_name(struct drm_card *c)
{
    static const struct { const char *id, *vendor; } vendors[] = {
        { "0x1002", "AMD" }, { "0x8086", "Intel" }, { "0x10de", "NVIDIA" },
    };
    char id[16] = "", device[16] = "", product[64] = "";
    sonde_file_read_small(c->fd, "device/product_name", product, sizeof(product));
    sonde_file_read_small(c->fd, "device/vendor", id, sizeof(id));
    sonde_file_read_small(c->fd, "device/device", device, sizeof(device));
    id[strcspn(id, "\n")] = device[strcspn(device, "\n")] = product[strcspn(product, "\n")] = '\0';
    const char *vendor = id;
    for (size_t i = 0; i < SONDE_COUNT(vendors); i++) {
        if (!strcmp(id, vendors[i].id)) vendor = vendors[i].vendor;
    }
    char name[sizeof(c->name)];
    if (product[0]) snprintf(name, sizeof(name), "%s", product);
    else if (id[0]) snprintf(name, sizeof(name), "%s %s", vendor, device);
    else snprintf(name, sizeof(name), "%s", c->driver);
    sonde_gpu_text(c->name, sizeof(c->name), name);
}

static void drm_card_open(struct drm *m, const char *name)
{
    struct drm_card *c = &m->card[m->card_count];
    *c = (struct drm_card){ .hwmon_fd = -1 };
    c->fd = openat(m->class_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->fd < 0) return;
    drm_link_name(c->fd, "device/driver", c->driver, sizeof(c->driver));
    if (!drm_has_render_node(c->fd)) {
        close(c->fd);
        return;
    }
    drm_link_name(c->fd, "device", c->key, sizeof(c->key));
    if (strchr(c->key, ':') == NULL) sonde_gpu_text(c->key, sizeof(c->key), name);
    c->hwmon_fd = drm_open_hwmon(c->fd);
    for (size_t i = 0; i < SONDE_COUNT(drm_readers); i++) {
        if (!strcmp(drm_readers[i].driver, c->driver)) c->reader = &drm_readers[i];
    }
    drm_card_name(c);
    m->card_count++;
}

static void drm_close(void *state)
{
    struct drm *m = state;
    if (!m) return;
    for (uint32_t i = 0; i < m->card_count; i++) {
        if (m->card[i].hwmon_fd >= 0) close(m->card[i].hwmon_fd);
        close(m->card[i].fd);
    }
    if (m->class_fd >= 0) close(m->class_fd);
    sonde_drm_clients_destroy(m->clients);
    sonde__free(m);
}

static int drm_name_order(const struct dirent **a, const struct dirent **b)
{
    return atoi((*a)->d_name + 4) - atoi((*b)->d_name + 4);
}

static int drm_name_wanted(const struct dirent *e) { return drm_is_card(e->d_name); }

static int drm_open(const struct sonde_gpu_env *env, void **state, struct sonde_err *note)
{
    struct drm *m = sonde__calloc(1, sizeof(*m));
    struct dirent **names = NULL;
    char path[300];
    if (!m) return sonde_err_set(note, SONDE_ENOMEM, "out of memory");
    snprintf(m->root, sizeof(m->root), "%s", env->root);
    snprintf(path, sizeof(path), "%s/sys/class/drm", env->root);
    m->class_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (m->class_fd < 0 || sonde_drm_clients_create(env->root, &m->clients) != 0) {
        drm_close(m);
        return sonde_err_set(note, SONDE_ENOENT, "%.200s cannot be read", path);
    }
    m->entries = drm_entries(env->root);
    const int n = scandir(path, &names, drm_name_wanted, drm_name_order);
    for (int i = 0; i < n; i++) {
        if (m->card_count < CARDS_MAX) drm_card_open(m, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    if (m->card_count) {
        sonde_err_set(note, 0, "%u card%s with a render node", m->card_count,
                      m->card_count == 1 ? "" : "s");
    } else {
        sonde_err_set(note, 0, "no card has a render node: they show pictures only");
    }
    *state = m;
    return 0;
}

const struct sonde_gpu_backend sonde_gpu_drm = {
    .name = "drm",
    .summary = "cards of every other driver, by /sys/class/drm and fdinfo of processes",
    .looked_for = "/sys/class/drm/card*",
    .present = drm_present,
    .open = drm_open,
    .read = drm_read,
    .close = drm_close,
};
