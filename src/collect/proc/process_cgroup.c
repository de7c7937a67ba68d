/* process_cgroup.c - see process_cgroup.h. */
#include "collect/proc/process_cgroup.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sonde/sonde.h"

enum { LEVELS_MAX = 32, DIR_MAX = SONDE_PROCESS_CGROUP_PATH_MAX };

void sonde_process_cgroup_init(struct sonde_process_cgroup *c)
{
    *c = (struct sonde_process_cgroup){ .stat_fd = -1 };
}

void sonde_process_cgroup_release(struct sonde_process_cgroup *c)
{
    if (c->stat_fd >= 0) close(c->stat_fd);
    sonde_process_cgroup_init(c);
}

static int cgroup_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* 1 if word is among the controllers, which commas separate. */
static int cgroup_has_cpu(struct sonde_procfs_text controllers)
{
    while (controllers.p < controllers.end) {
        const char *comma =
            memchr(controllers.p, ',', (size_t)(controllers.end - controllers.p));
        const struct sonde_procfs_text one = { controllers.p, comma ? comma : controllers.end };
        if (sonde_procfs_is(one, "cpu")) return 1;
        controllers.p = comma ? comma + 1 : controllers.end;
    }
    return 0;
}

struct cgroup_place {
    char mount[DIR_MAX];    /* root of the hierarchy */
    char dir[DIR_MAX];      /* the process's, at or below mount */
    int v2;
};

/* The folder of one line of /proc/PID/cgroup, "4:cpu,cpuacct:/a/b": 1 if it is there. */
static int cgroup_place_of(struct cgroup_place *out, const char *mount, int v2,
                           struct sonde_procfs_text path)
{
    const size_t len = (size_t)(path.end - path.p);
    if (!cgroup_is_dir(mount)) return 0;
    out->v2 = v2;
    snprintf(out->mount, sizeof(out->mount), "%s", mount);
    /* ".." leads to what lies outside of the own namespace. */
    const int plain = len < DIR_MAX / 2 && !memmem(path.p, len, "..", 2);
    const int n = snprintf(out->dir, sizeof(out->dir), "%s%.*s", mount, plain ? (int)len : 0,
                           path.p);
    if (n <= 0 || (size_t)n >= sizeof(out->dir) || !cgroup_is_dir(out->dir)) {
        snprintf(out->dir, sizeof(out->dir), "%s", mount);
    }
    return 1;
}

static int cgroup_place_find(struct cgroup_place *out, struct sonde_procfs_buf *buf,
                             int process_fd, const char *sys_root)
{
    static const char *const mounts[2][3] = { { "cpu", "cpu,cpuacct", "cpuacct,cpu" },
                                              { "", "unified", NULL } };
    char mount[DIR_MAX];
    int found = 0;
    if (sonde_procfs_read(buf, process_fd, "cgroup") != 0) return 0;
    struct sonde_procfs_text text = sonde_procfs_text(buf), line;
    while (sonde_procfs_line(&text, &line)) {
        const size_t len = (size_t)(line.end - line.p);
        const char *first = memchr(line.p, ':', len);
        const char *second =
            first ? memchr(first + 1, ':', (size_t)(line.end - first - 1)) : NULL;
        if (!second) continue;
        const int v2 = second == first + 1;
        if (!v2 && !cgroup_has_cpu((struct sonde_procfs_text){ first + 1, second })) continue;
        if (v2 && found) continue; /* where both are, the controller is in the old one */
        for (size_t i = 0; i < 3 && mounts[v2][i]; i++) {
            const struct sonde_procfs_text path = { second + 1, line.end };
            snprintf(mount, sizeof(mount), "%.200s/fs/cgroup%s%s", sys_root,
                     *mounts[v2][i] ? "/" : "", mounts[v2][i]);
            if (cgroup_place_of(out, mount, v2, path)) found = 1;
            else continue;
            if (!v2) return 1;
            break;
        }
    }
    return found;
}

/* A number in the file dir/name; *max: it is "max" or negative, no limit. 1 = read. */
static int cgroup_numbers(struct sonde_procfs_buf *buf, const char *dir, const char *name,
                          uint64_t *out, size_t count, int *none)
{
    char path[DIR_MAX + 32];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (sonde_procfs_read(buf, AT_FDCWD, path) != 0) return 0;
    struct sonde_procfs_text text = sonde_procfs_text(buf);
    *none = buf->len && (buf->data[0] == '-' || buf->data[0] == 'm');
    return *none || sonde_procfs_u64s(&text, out, count);
}

/* CPUs that the cgroup allows; 0 = any number, or it cannot be read. */
static double cgroup_quota(struct sonde_procfs_buf *buf, const char *dir, int v2)
{
    uint64_t v[2] = { 0, 0 };
    int none = 0;
    if (v2) {
        if (!cgroup_numbers(buf, dir, "cpu.max", v, 2, &none) || none) return 0;
    } else if (!cgroup_numbers(buf, dir, "cpu.cfs_quota_us", v, 1, &none) || none ||
               !cgroup_numbers(buf, dir, "cpu.cfs_period_us", v + 1, 1, &none) || none) {
        return 0;
    }
    return v[1] ? (double)v[0] / (double)v[1] : 0;
}

void sonde_process_cgroup_find(struct sonde_process_cgroup *c, struct sonde_procfs_buf *buf,
                               int process_fd, const char *sys_root)
{
    struct cgroup_place place;
    char least[DIR_MAX] = "";
    double quota = 0;
    c->moved = 0;
    if (cgroup_place_find(&place, buf, process_fd, sys_root)) {
        const size_t root = strlen(place.mount);
        for (int level = 0; level < LEVELS_MAX && strlen(place.dir) >= root; level++) {
            const double here = cgroup_quota(buf, place.dir, place.v2);
            if (here > 0 && (quota <= 0 || here < quota)) {
                quota = here;
                memcpy(least, place.dir, sizeof(least));
            }
            char *slash = strrchr(place.dir + root, '/');
            if (!slash) break;
            *slash = '\0';
        }
    }
    c->quota_cpus = quota;
    if (strcmp(least, c->dir) == 0) return;
    c->moved = 1;
    c->counts_known = 0;
    memcpy(c->dir, least, sizeof(c->dir));
    if (c->stat_fd >= 0) close(c->stat_fd);
    c->stat_fd = -1;
    if (*least) {
        char path[DIR_MAX + 16];
        snprintf(path, sizeof(path), "%s/cpu.stat", least);
        c->stat_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
}

void sonde_process_cgroup_read(struct sonde_process_cgroup *c, struct sonde_procfs_buf *buf)
{
    uint64_t value, seen = 0;
    c->counts_known = 0;
    if (c->stat_fd < 0 || sonde_procfs_read_fd(buf, c->stat_fd) != 0) return;
    struct sonde_procfs_text text = sonde_procfs_text(buf), line, word;
    while (sonde_procfs_line(&text, &line)) {
        if (!sonde_procfs_word(&line, &word) || !sonde_procfs_u64(&line, &value)) continue;
        if (sonde_procfs_is(word, "nr_periods")) {
            c->periods = value;
            seen |= 1;
        } else if (sonde_procfs_is(word, "nr_throttled")) {
            c->throttled = value;
            seen |= 2;
        } else if (sonde_procfs_is(word, "throttled_time")) { /* version 1: nanoseconds */
            c->throttled_ns = value;
            seen |= 4;
        } else if (sonde_procfs_is(word, "throttled_usec")) {
            c->throttled_ns = value <= UINT64_MAX / 1000 ? value * 1000 : UINT64_MAX;
            seen |= 4;
        }
    }
    c->counts_known = seen == 7;
}
