/* proc_fixture.h - a made-up /proc or /sys in a temporary folder, and looking up what a probe
 * put into the model. */
#ifndef SONDE_TEST_COLLECT_PROC_PROC_FIXTURE_H
#define SONDE_TEST_COLLECT_PROC_PROC_FIXTURE_H

#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collect/proc/probe.h"

struct fixture {
    char root[64], proc[80], sys[80];
    struct sonde_model *model;
    struct sonde_probe_env env;
    const struct sonde_probe_ops *ops;
    void *probe;
};

static inline int fixture_remove(const char *path, const struct stat *st, int type,
                                 struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline void fixture_rm(const struct fixture *f, const char *path)
{
    char full[512];
    snprintf(full, sizeof(full), "%s/%s", f->root, path);
    nftw(full, fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* Write a file below the root in place, with the folders on the way. */
static inline void fixture_write_bytes(const struct fixture *f, const char *path,
                                       const char *data, size_t len)
{
    char full[512];
    snprintf(full, sizeof(full), "%s/%s", f->root, path);
    for (char *p = full + strlen(f->root) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(full, 0700);
        *p = '/';
    }
    const int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), (ssize_t)len);
    close(fd);
}

static inline void fixture_write(const struct fixture *f, const char *path, const char *text)
{
    fixture_write_bytes(f, path, text, strlen(text));
}

static inline void fixture_init(struct fixture *f, const struct sonde_probe_ops *ops)
{
    *f = (struct fixture){ .ops = ops };
    snprintf(f->root, sizeof(f->root), "/tmp/sonde-test-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    snprintf(f->proc, sizeof(f->proc), "%s/proc", f->root);
    snprintf(f->sys, sizeof(f->sys), "%s/sys", f->root);
    mkdir(f->proc, 0700);
    mkdir(f->sys, 0700);
    assert_int_equal(sonde_model_create(NULL, &f->model), 0);
    f->env = (struct sonde_probe_env){ f->model, f->proc, f->sys, 1000, NULL };
}

static inline void fixture_open(struct fixture *f)
{
    struct sonde_err err = { "" };
    assert_int_equal(f->ops->open(&f->env, &f->probe, &err), 0);
}

/* One interval as the collector does it. */
static inline void fixture_tick(struct fixture *f)
{
    sonde_wrlock(&f->model->lock);
    f->ops->read(f->probe, &f->env);
    sonde_model_tick(f->model, f->env.now_s);
    sonde_rwunlock(&f->model->lock);
    f->env.now_s += 1;
}

static inline void fixture_release(struct fixture *f)
{
    f->ops->close(f->probe);
    sonde_model_destroy(f->model);
    nftw(f->root, fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* The series whose label text begins with labels; NULL = not there. */
static inline const struct sonde_model_series *series(const struct fixture *f, const char *name,
                                                      const char *labels)
{
    for (size_t i = 0; i < f->model->family_count; i++) {
        const struct sonde_model_family *family = f->model->families[i];
        if (strcmp(family->name, name) != 0) continue;
        for (size_t k = 0; k < family->series_count; k++) {
            if (strncmp(family->series[k]->label_text, labels, strlen(labels)) == 0) {
                return family->series[k];
            }
        }
    }
    return NULL;
}

/* Its value in the exported unit; -1 = not there. */
static inline double value(const struct fixture *f, const char *name, const char *labels)
{
    const struct sonde_model_series *s = series(f, name, labels);
    if (!s) return -1;
    return s->family->type == SONDE_COUNTER ? (double)s->counter * s->family->scale : s->gauge;
}

static inline size_t series_of(const struct fixture *f, const char *name)
{
    for (size_t i = 0; i < f->model->family_count; i++) {
        const struct sonde_model_family *family = f->model->families[i];
        if (strcmp(family->name, name) == 0) return family->series_count;
    }
    return 0;
}

static inline void near_(double a, double b, const char *what, const char *file, int line)
{
    const double scale = b > 1 ? b : b < -1 ? -b : 1;
    const double d = a > b ? a - b : b - a;
    if (d <= 1e-9 * scale) return;
    print_error("%s is %.17g, not %.17g\n", what, a, b);
    _fail(file, line);
}
#define assert_near(a, b) near_((a), (b), #a, __FILE__, __LINE__)

#endif
