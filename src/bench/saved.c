/* saved.c - see saved.h. */
#include "bench/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "base/json_read.h"
#include "sonde/sonde.h"

#define SAVED_PATH_MAX 4096

int sonde_bench_saved_name_check(const char *name, struct sonde_err *err)
{
    const size_t len = strlen(name);
    const size_t good = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789._-");
    if (len && good == len && *name != '.' && *name != '-' && len <= SONDE_BENCH_SAVED_NAME_MAX) {
        return 0;
    }
    return sonde_err_set(err, SONDE_EINVAL, "'%.120s' is not a name of a result: at most %u "
                         "letters, digits, '.', '_' and '-', the first a letter, digit or '_'; or "
                         "the path of a file, with a slash", name, SONDE_BENCH_SAVED_NAME_MAX);
}

void sonde_bench_saved_release(struct sonde_bench_saved *s)
{
    for (size_t i = 0; i < s->count; i++) sonde_bench_result_release(&s->runs[i]);
    sonde__free(s->runs);
    *s = (struct sonde_bench_saved){ 0 };
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int saved_read_all(struct sonde_json_reader *json, struct sonde_bench_saved *s,
                          struct sonde_err *err)
{
    while (!sonde_json_at_end(json)) {
        if (s->count >= SONDE_BENCH_SAVED_RUNS_MAX) {
            return sonde_err_set(err, SONDE_EFULL, "it has more than %u runs",
                                 SONDE_BENCH_SAVED_RUNS_MAX);
        }
        struct sonde_bench_result r;
        const int rc = sonde_bench_result_read(json, &r, err);
        if (rc) return rc;
        struct sonde_bench_result *at = SONDE_ARRAY_ADD(s->runs, s->count, s->cap);
        if (!at) {
            sonde_bench_result_release(&r);
            return sonde_err_memory(err);
        }
        *at = r;
    }
    return s->count ? 0 : sonde_err_set(err, SONDE_EFORMAT, "it is empty");
}

int sonde_bench_saved_load_bytes(const char *data, size_t len, const char *name,
                                 struct sonde_bench_saved *out, struct sonde_err *err)
{
    struct sonde_bench_saved s = { 0 };
    struct sonde_json_reader json;
    struct sonde_err why = { "" };
    sonde_json_reader_init(&json, data, len);
    const int rc = saved_read_all(&json, &s, &why);
    if (!rc) {
        *out = s;
        return 0;
    }
    sonde_bench_saved_release(&s);
    if (rc == SONDE_ENOMEM) return sonde_err_memory(err);
    return sonde_err_set(err, rc, "'%.200s' is not a result that `sonde bench` wrote: line %zu: "
                         "%.200s", name, sonde_json_line(&json), why.text);
}

int sonde_bench_saved_load(const char *path, struct sonde_bench_saved *out, struct sonde_err *err)
{
    struct sonde_buf file;
    sonde_buf_init(&file, SONDE_BENCH_JSON_MAX);
    int rc = sonde_file_read(path, &file, err);
    const char *data = file.data ? file.data : "";
    if (!rc) rc = sonde_bench_saved_load_bytes(data, file.len, path, out, err);
    sonde_buf_release(&file);
    return rc;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

static void saved_make_folders(const char *path, char folder[SAVED_PATH_MAX])
{
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(folder, SAVED_PATH_MAX, "%.*s", (int)(slash - path), path);
        mkdir(folder, 0700); /* what cannot be made is told when the file cannot be written */
    }
    const char *last = strrchr(path, '/');
    if (!last) snprintf(folder, SAVED_PATH_MAX, ".");
    else if (last == path) snprintf(folder, SAVED_PATH_MAX, "/");
}

/* The lock of a folder, until the descriptor is closed; -1 = it cannot be opened, which is told
 * when the file cannot be written. */
static int saved_lock(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && flock(fd, LOCK_EX) != 0 && errno == EINTR) { }
    return fd;
}

static int saved_append_locked(const char *path, const struct sonde_bench_result *r, size_t *runs,
                               struct sonde_err *err)
{
    struct sonde_buf file;
    struct sonde_bench_saved had = { 0 };
    int rc = 0;
    sonde_buf_init(&file, SONDE_BENCH_JSON_MAX);
    if (access(path, F_OK) == 0) {
        rc = sonde_file_read(path, &file, err);
        if (!rc) {
            const char *data = file.data ? file.data : "";
            rc = sonde_bench_saved_load_bytes(data, file.len, path, &had, err);
        }
        if (!rc && had.count >= SONDE_BENCH_SAVED_RUNS_MAX) {
            rc = sonde_err_set(err, SONDE_EFULL, "'%.200s' has %zu runs, and more are not kept: "
                               "save under another name", path, had.count);
        }
        if (!rc && file.len && file.data[file.len - 1] != '\n') sonde_buf_putc(&file, '\n');
    }
    if (!rc) {
        sonde_bench_result_json(r, &file);
        if (file.error == SONDE_EFULL) {
            rc = sonde_err_set(err, SONDE_EFULL, "'%.200s' would be larger than %zu MiB: save "
                               "under another name", path, SONDE_BENCH_JSON_MAX >> 20);
        } else if (file.error) {
            rc = sonde_err_memory(err);
        }
    }
    if (!rc) rc = sonde_file_replace(path, file.data, file.len, err);
    if (!rc && runs) *runs = had.count + 1;
    sonde_bench_saved_release(&had);
    sonde_buf_release(&file);
    return rc;
}

int sonde_bench_saved_append(const char *path, const struct sonde_bench_result *r, size_t *runs,
                             struct sonde_err *err)
{
    char folder[SAVED_PATH_MAX];
    if (strlen(path) >= SAVED_PATH_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.100s…' is too long a path", path);
    }
    saved_make_folders(path, folder);
    const int lock = saved_lock(folder);
    const int rc = saved_append_locked(path, r, runs, err);
    if (lock >= 0) close(lock);
    return rc;
}
