/* gpu_fixture.h - a made-up machine in a temporary folder (dev, proc, sys), for tests of GPUs. */
#ifndef SONDE_TEST_COLLECT_GPU_GPU_FIXTURE_H
#define SONDE_TEST_COLLECT_GPU_GPU_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collect/gpu/backend.h"

struct machine { char root[64]; };

static inline void machine_init(struct machine *m)
{
    snprintf(m->root, sizeof(m->root), "/tmp/sonde-gpu-XXXXXX");
    assert_non_null(mkdtemp(m->root));
}

static inline void machine_path(const struct machine *m, const char *path, char out[static 512])
{
    snprintf(out, 512, "%s/%s", m->root, path);
    for (char *p = out + strlen(m->root) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(out, 0700);
        *p = '/';
    }
}

static inline void machine_write(const struct machine *m, const char *path, const char *text)
{
    char full[512];
    machine_path(m, path, full);
    unlink(full);
    const int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static inline void machine_link(const struct machine *m, const char *path, const char *to)
{
    char full[512];
    machine_path(m, path, full);
    unlink(full);
    assert_int_equal(symlink(to, full), 0);
}

static inline int machine_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline void machine_remove(const struct machine *m, const char *path)
{
    char full[512];
    snprintf(full, sizeof(full), "%s/%s", m->root, path);
    nftw(full, machine_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void machine_release(const struct machine *m) { machine_remove(m, ""); }

/* A PCI card as sysfs shows it; the folder of the device is out, for files of it. */
static inline void machine_card(const struct machine *m, int n, const char *pci, const char *driver,
                                char out[static 128])
{
    char path[256], to[256];
    snprintf(out, 128, "sys/devices/%s", pci);
    snprintf(path, sizeof(path), "%s/drm/card%d/dev", out, n);
    machine_write(m, path, "226:0\n");
    snprintf(path, sizeof(path), "%s/drm/renderD%d/dev", out, 128 + n);
    machine_write(m, path, "226:128\n");
    snprintf(path, sizeof(path), "%s/drm/card%d/device", out, n);
    snprintf(to, sizeof(to), "../../../%s", pci);
    machine_link(m, path, to);
    snprintf(path, sizeof(path), "sys/class/drm/card%d", n);
    snprintf(to, sizeof(to), "../../devices/%s/drm/card%d", pci, n);
    machine_link(m, path, to);
    snprintf(path, sizeof(path), "%s/driver", out);
    snprintf(to, sizeof(to), "../../bus/pci/drivers/%s", driver);
    machine_link(m, path, to);
}

/* A process that has that file of /dev/dri open. */
static inline void machine_client(const struct machine *m, int pid, int fd, const char *fdinfo)
{
    char path[128];
    snprintf(path, sizeof(path), "proc/%d/fd/%d", pid, fd);
    machine_link(m, path, "/dev/dri/renderD128");
    snprintf(path, sizeof(path), "proc/%d/fdinfo/%d", pid, fd);
    machine_write(m, path, fdinfo);
    snprintf(path, sizeof(path), "proc/%d/comm", pid);
    machine_write(m, path, "server\n");
}

/* What a back-end reads, in this process. */
struct reading {
    const struct sonde_gpu_backend *ops;
    struct sonde_gpu_snapshot s;
    void *state;
    struct sonde_err note;
};

static inline int reading_open(struct reading *r, const struct sonde_gpu_backend *ops,
                               const struct machine *m)
{
    const struct sonde_gpu_env env = { m->root, 1 };
    memset(r, 0, sizeof(*r));
    r->ops = ops;
    r->s.device = calloc(SONDE_GPU_DEVICES_MAX, sizeof(*r->s.device));
    r->s.process = calloc(SONDE_GPU_PROCESSES_MAX, sizeof(*r->s.process));
    assert_true(ops->present(&env));
    return ops->open(&env, &r->state, &r->note);
}

static inline void reading_close(struct reading *r)
{
    if (r->state) r->ops->close(r->state);
    free(r->s.device);
    free(r->s.process);
}

static inline double figure_of(const struct sonde_gpu_device *d, enum sonde_gpu_figure f)
{
    const struct sonde_gpu_value *v = &d->figure[f];
    if (v->state != SONDE_GPU_OK) return -1000 - (double)v->state;
    return sonde_gpu_figures[f].type == SONDE_COUNTER ? (double)v->n : v->v;
}

#define assert_figure(d, f, want)                                                              \
    do {                                                                                       \
        const double is_ = figure_of(d, SONDE_GPU_##f);                                        \
        if (fabs(is_ - (want)) > 1e-6 * (fabs((double)(want)) + 1)) {                          \
            fail_msg("%s is %g, not %g", #f, is_, (double)(want));                             \
        }                                                                                      \
    } while (0)
#define assert_absent(d, f, why)                                                               \
    assert_int_equal((d)->figure[SONDE_GPU_##f].state, SONDE_GPU_##why)

#endif
