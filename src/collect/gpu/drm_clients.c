/* drm_clients.c - see drm_clients.h.
 *
 * A full look at /proc is made every 30 s, and one at processes that are new each second or two:
 * listing /proc is one call for some hundred processes, the files of one are as many readlink().
 * A client whose files are open in several processes (passed on, inherited) counts once, for the
 * process with the lowest pid. */
#include "collect/gpu/drm_clients.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"

#define FULL_NS 30000000000u
#define NEW_NS 1000000000u
#define FILES_MAX 4096u
#define PIDS_MAX 65536u
#define FDS_MAX 65536u            /* of one process that are looked at */

struct drm_file {
    uint32_t pid, fd;
    uint32_t seen;                /* full look that it was found in */
};

struct drm_client {
    char key[32];
    uint64_t client;
    uint32_t pid;
    uint64_t read_ns;
    uint64_t busy[SONDE_GPU_ENGINE_KINDS], all[SONDE_GPU_ENGINE_KINDS];
    double share[SONDE_GPU_ENGINE_KINDS]; /* NaN = not known */
    double device_bytes, system_bytes;    /* NaN = not known */
    uint32_t round;               /* it was read in */
};

struct sonde_drm_clients {
    char root[256];
    int proc_fd;
    struct sonde_procfs_buf buf;
    struct drm_file *file;
    size_t file_count, file_cap;
    struct drm_client *client;
    size_t client_count, client_cap;
    uint32_t *pid;                /* ascending: that were looked at */
    size_t pid_count, pid_cap;
    uint64_t full_ns, new_ns;     /* next look */
    uint32_t looks, round, refused;
};

int sonde_drm_clients_create(const char *root, struct sonde_drm_clients **out)
{
    struct sonde_drm_clients *c = sonde__calloc(1, sizeof(*c));
    char path[300];
    if (!c) return SONDE_ENOMEM;
    snprintf(c->root, sizeof(c->root), "%s", root);
    snprintf(path, sizeof(path), "%s/proc", root);
    c->proc_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (sonde_procfs_buf_init(&c->buf) != 0) {
        sonde_drm_clients_destroy(c);
        return SONDE_ENOMEM;
    }
    *out = c;
    return 0;
}

void sonde_drm_clients_destroy(struct sonde_drm_clients *c)
{
    if (!c) return;
    if (c->proc_fd >= 0) close(c->proc_fd);
    sonde_procfs_buf_release(&c->buf);
    sonde__free(c->file);
    sonde__free(c->client);
    sonde__free(c->pid);
    sonde__free(c);
}

/* ---- Looking for files ----------------------------------------------------------------------- */

static void drm_file_found(struct sonde_drm_clients *c, uint32_t pid, uint32_t fd)
{
    for (size_t i = 0; i < c->file_count; i++) {
        if (c->file[i].pid == pid && c->file[i].fd == fd) {
            c->file[i].seen = c->looks;
            return;
        }
    }
    if (SONDE_ARRAY_ROOM_MAX(c->file, c->file_count, c->file_cap, FILES_MAX)) return;
    c->file[c->file_count++] = (struct drm_file){ pid, fd, c->looks };
}

static void drm_look_at(struct sonde_drm_clients *c, uint32_t pid)
{
    struct sonde_procfs_dir dir;
    char path[64], link[64];
    uint32_t fd;
    snprintf(path, sizeof(path), "%u/fd", pid);
    const int rc = sonde_procfs_dir_open(&dir, c->proc_fd, path);
    if (rc) {
        c->refused += rc == SONDE_EACCES;
        return;
    }
    for (uint32_t n = 0; n < FDS_MAX && sonde_procfs_dir_next(&dir, &fd); n++) {
        snprintf(path, sizeof(path), "%u/fd/%u", pid, fd);
        const ssize_t len = readlinkat(c->proc_fd, path, link, sizeof(link));
        if (len > 9 && !memcmp(link, "/dev/dri/", 9)) drm_file_found(c, pid, fd);
    }
    sonde_procfs_dir_close(&dir);
}

static int drm_pid_order(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void drm_look(struct sonde_drm_clients *c, int full)
{
    struct sonde_procfs_dir dir;
    uint32_t pid, *now = NULL;
    size_t count = 0, cap = 0;
    if (c->proc_fd < 0 || sonde_procfs_dir_open(&dir, c->proc_fd, ".") != 0) return;
    if (full) c->refused = 0;
    c->looks += full != 0;
    while (sonde_procfs_dir_next(&dir, &pid)) {
        if (SONDE_ARRAY_ROOM_MAX(now, count, cap, PIDS_MAX)) break;
        now[count++] = pid;
    }
    sonde_procfs_dir_close(&dir);
    if (count) qsort(now, count, sizeof(*now), drm_pid_order);
    for (size_t i = 0; i < count; i++) {
        const int known = c->pid_count && bsearch(&now[i], c->pid, c->pid_count, sizeof(*now),
                                                  drm_pid_order) != NULL;
        if (full || !known) drm_look_at(c, now[i]);
    }
    sonde__free(c->pid);
    c->pid = now;
    c->pid_count = count;
    c->pid_cap = cap;
    size_t kept = 0;
    for (size_t i = 0; full && i < c->file_count; i++) {
        if (c->file[i].seen == c->looks) c->file[kept++] = c->file[i];
    }
    if (full) c->file_count = kept;
}

/* ---- Reading them ---------------------------------------------------------------------------- */

static struct drm_client *drm_client_of(struct sonde_drm_clients *c, const char *key,
                                        uint64_t client)
{
    for (size_t i = 0; i < c->client_count; i++) {
        if (c->client[i].client == client && !strcmp(c->client[i].key, key)) return &c->client[i];
    }
    if (SONDE_ARRAY_ROOM_MAX(c->client, c->client_count, c->client_cap, FILES_MAX)) return NULL;
    struct drm_client *n = &c->client[c->client_count++];
    memset(n, 0, sizeof(*n));
    sonde_gpu_text(n->key, sizeof(n->key), key);
    n->client = client;
    for (size_t e = 0; e < SONDE_GPU_ENGINE_KINDS; e++) n->share[e] = NAN;
    n->device_bytes = n->system_bytes = NAN;
    return n;
}

static double drm_share(uint64_t was, uint64_t is, uint64_t all_was, uint64_t all_is,
                        uint64_t capacity)
{
    if (is < was || all_is <= all_was) return NAN; /* it began again */
    const double share = (double)(is - was) / (double)(all_is - all_was) /
                         (double)(capacity ? capacity : 1);
    return fmin(1, share);
}

static void drm_client_take(struct drm_client *n, const struct sonde_gpu_fdinfo *f, uint64_t now_ns)
{
    for (size_t e = 0; e < SONDE_GPU_ENGINE_KINDS; e++) {
        const int cycles = f->engine[e].all_cycles != 0;
        const uint64_t busy = cycles ? f->engine[e].cycles : f->engine[e].busy_ns;
        const uint64_t all = cycles ? f->engine[e].all_cycles : now_ns;
        n->share[e] = NAN;
        if (f->engine[e].known && n->read_ns) {
            n->share[e] = drm_share(n->busy[e], busy, n->all[e], all, f->engine[e].capacity);
        }
        n->busy[e] = busy;
        n->all[e] = all;
    }
    n->device_bytes = f->has_memory ? (double)f->device_bytes : NAN;
    n->system_bytes = f->has_memory ? (double)f->system_bytes : NAN;
    n->read_ns = now_ns;
}

/* 0 = the file is none any more. */
static int drm_file_read(struct sonde_drm_clients *c, const struct drm_file *file)
{
    struct sonde_gpu_fdinfo f;
    char path[64];
    snprintf(path, sizeof(path), "%u/fdinfo/%u", file->pid, file->fd);
    if (sonde_procfs_read(&c->buf, c->proc_fd, path) != 0) return 0;
    sonde_gpu_fdinfo_parse(c->buf.data, c->buf.len, &f);
    if (!f.driver[0]) return 0;
    if (!f.pdev[0] || !f.has_client) return 1;
    struct drm_client *n = drm_client_of(c, f.pdev, f.client);
    if (!n) return 1;
    if (n->round == c->round) { /* another file of it */
        if (file->pid < n->pid) n->pid = file->pid;
        return 1;
    }
    n->round = c->round;
    n->pid = file->pid;
    drm_client_take(n, &f, sonde_clock_ns(CLOCK_MONOTONIC));
    return 1;
}

static double drm_sum(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : a + b;
}

static void drm_client_report(const struct sonde_drm_clients *c, const struct drm_client *n,
                              struct sonde_gpu_snapshot *s)
{
    struct sonde_gpu_process *p = sonde_gpu_process_of(s, n->key, UINT32_MAX, n->pid);
    double most = NAN;
    if (!p) return;
    for (size_t e = 0; e < SONDE_GPU_ENGINE_KINDS; e++) most = fmax(most, n->share[e]);
    p->utilization = drm_sum(p->utilization, most);
    if (p->utilization > 1) p->utilization = 1;
    /* A card without memory of its own uses the machine's. */
    p->memory_bytes = drm_sum(p->memory_bytes,
                              n->device_bytes > 0 ? n->device_bytes : n->system_bytes);
    sonde_gpu_process_name(p, c->root);
}

void sonde_drm_clients_read(struct sonde_drm_clients *c, struct sonde_gpu_snapshot *s)
{
    const uint64_t now = sonde_clock_ns(CLOCK_MONOTONIC);
    const int full = now >= c->full_ns;
    if (full || now >= c->new_ns) drm_look(c, full);
    if (full) c->full_ns = now + FULL_NS;
    if (now >= c->new_ns) c->new_ns = now + NEW_NS;
    c->round++;
    size_t kept = 0;
    for (size_t i = 0; i < c->file_count; i++) {
        const struct drm_file file = c->file[i];
        if (drm_file_read(c, &file)) c->file[kept++] = file;
    }
    c->file_count = kept;
    kept = 0;
    for (size_t i = 0; i < c->client_count; i++) {
        if (c->client[i].round == c->round) c->client[kept++] = c->client[i];
    }
    c->client_count = kept;
    for (size_t i = 0; i < c->client_count; i++) drm_client_report(c, &c->client[i], s);
}

void sonde_drm_clients_use(const struct sonde_drm_clients *c, const char *key,
                           struct sonde_drm_use *out)
{
    *out = (struct sonde_drm_use){ .device_bytes = NAN, .system_bytes = NAN };
    for (size_t e = 0; e < SONDE_GPU_ENGINE_KINDS; e++) out->busy[e] = NAN;
    for (size_t i = 0; i < c->client_count; i++) {
        const struct drm_client *n = &c->client[i];
        if (strcmp(n->key, key) != 0) continue;
        out->clients++;
        out->device_bytes = drm_sum(out->device_bytes, n->device_bytes);
        out->system_bytes = drm_sum(out->system_bytes, n->system_bytes);
        for (size_t e = 0; e < SONDE_GPU_ENGINE_KINDS; e++) {
            out->busy[e] = drm_sum(out->busy[e], n->share[e]);
            if (out->busy[e] > 1) out->busy[e] = 1;
            out->known |= !isnan(out->busy[e]);
        }
    }
}

uint32_t sonde_drm_clients_refused(const struct sonde_drm_clients *c) { return c->refused; }
