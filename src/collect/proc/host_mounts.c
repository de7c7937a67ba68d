#include "collect/proc/host_mounts.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/utf8.h"
#include "sonde/sonde.h"

/* One line of mountinfo: `36 35 98:0 /sub /path rw,noatime master:1 - ext3 /dev/root rw`. */
struct mount_line {
    uint64_t id, parent;
    struct sonde_procfs_text device_number, path, type, device;
};

static const char *const local_types[] = {
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs",
    "nilfs2", "vfat", "exfat", "ntfs", "ntfs3", "hfsplus",
};
/* What the root of a container or a small machine may be; elsewhere these say nothing new. */
static const char *const root_types[] = { "overlay", "tmpfs", "ramfs", "9p", "virtiofs" };
/* A full tmpfs here stops recording, so show it. */
static const char *const tmpfs_paths[] = { "/dev/shm", "/tmp" };

static int one_of(struct sonde_procfs_text word, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (sonde_procfs_is(word, list[i])) return 1;
    }
    return 0;
}
#define ONE_OF(word, list) one_of((word), (list), SONDE_COUNT(list))

static int host_mounts_wanted(const struct mount_line *l)
{
    if (ONE_OF(l->type, local_types)) return 1;
    if (sonde_procfs_is(l->path, "/")) return ONE_OF(l->type, root_types);
    return sonde_procfs_is(l->type, "tmpfs") && ONE_OF(l->path, tmpfs_paths);
}

static int host_mounts_same(struct sonde_procfs_text a, struct sonde_procfs_text b)
{
    return a.end - a.p == b.end - b.p && memcmp(a.p, b.p, (size_t)(a.end - a.p)) == 0;
}

static int host_mounts_parse(struct sonde_procfs_text line, struct mount_line *out)
{
    struct sonde_procfs_text word;
    if (!sonde_procfs_u64(&line, &out->id) || !sonde_procfs_u64(&line, &out->parent) ||
        !sonde_procfs_word(&line, &out->device_number) || !sonde_procfs_word(&line, &word) ||
        !sonde_procfs_word(&line, &out->path)) {
        return 0;
    }
    do {
        if (!sonde_procfs_word(&line, &word)) return 0;
    } while (!sonde_procfs_is(word, "-"));
    return sonde_procfs_word(&line, &out->type) && sonde_procfs_word(&line, &out->device);
}

/* The next line that is one; 0 at the end. */
static int next_mount(struct sonde_procfs_text *text, struct mount_line *out)
{
    struct sonde_procfs_text line;
    while (sonde_procfs_line(text, &line)) {
        if (host_mounts_parse(line, out)) return 1;
    }
    return 0;
}

/* 1 if path is dir or lies in it. */
static int host_mounts_inside(struct sonde_procfs_text path, struct sonde_procfs_text dir)
{
    const size_t n = (size_t)(dir.end - dir.p), len = (size_t)(path.end - path.p);
    if (n == 1 && *dir.p == '/') return 1;
    return len >= n && memcmp(path.p, dir.p, n) == 0 && (len == n || path.p[n] == '/');
}

/* 1 if other is above l in the tree of mounts. The tree is a few levels deep; the bound is for
 * files that lie. */
static int is_ancestor(struct sonde_procfs_text all, const struct mount_line *l, uint64_t other)
{
    uint64_t at = l->parent;
    for (int depth = 0; depth < 64; depth++) {
        struct sonde_procfs_text text = all;
        struct mount_line x;
        int found = 0;
        if (at == other) return 1;
        while (!found && next_mount(&text, &x)) found = x.id == at;
        if (!found || x.parent == at) return 0;
        at = x.parent;
    }
    return 0;
}

/* 1 if another mount lies over l's path, so that asking for the path asks the other one: its
 * mount point is the path or a folder on the way, and l is not mounted in it. */
static int is_hidden(struct sonde_procfs_text all, const struct mount_line *l)
{
    struct sonde_procfs_text text = all;
    struct mount_line x;
    while (next_mount(&text, &x)) {
        if (x.id == l->id || !host_mounts_inside(l->path, x.path)) continue;
        if (!is_ancestor(all, l, x.id)) return 1;
    }
    return 0;
}

/* Undo \040 and the like. 0 when it does not fit: a path that is cut is another path. */
static int host_mounts_unescape(struct sonde_procfs_text word, char *out, size_t out_size)
{
    size_t n = 0;
    for (const char *p = word.p; p < word.end; p++) {
        char c = *p;
        if (c == '\\' && word.end - p >= 4) {
            const int a = p[1] - '0', b = p[2] - '0', d = p[3] - '0';
            if ((unsigned)a < 4 && (unsigned)b < 8 && (unsigned)d < 8) {
                c = (char)(a * 64 + b * 8 + d);
                p += 3;
            }
        }
        if (n + 1 >= out_size) return 0;
        out[n++] = c;
    }
    out[n] = 0;
    return sonde__utf8_valid(out, n);
}

static void host_mounts_rebuild(struct sonde_host_mounts *h, struct sonde_procfs_text all)
{
    struct sonde_procfs_text text = all;
    struct sonde_procfs_text number[SONDE_HOST_MOUNTS_MAX]; /* devices that are there already */
    struct mount_line l;
    h->count = 0;
    while (h->count < SONDE_HOST_MOUNTS_MAX && next_mount(&text, &l)) {
        struct sonde_host_mount *mount = &h->mount[h->count];
        size_t i = 0;
        if (!host_mounts_wanted(&l)) continue;
        while (i < h->count && !host_mounts_same(number[i], l.device_number)) i++;
        /* A bind mount of a device that is there: the same figures again. The root is the
         * better name for a device, so it takes the place of an earlier one. */
        if (i < h->count && !sonde_procfs_is(l.path, "/")) continue;
        if (i < h->count) mount = &h->mount[i];
        if (is_hidden(all, &l)) continue;
        struct sonde_host_mount next;
        if (!host_mounts_unescape(l.path, next.path, sizeof(next.path)) ||
            !host_mounts_unescape(l.device, next.device, sizeof(next.device))) {
            continue;
        }
        sonde_procfs_copy(l.type, next.type, sizeof(next.type));
        *mount = next;
        number[i] = l.device_number;
        if (i == h->count) h->count++;
    }
}

void sonde_host_mounts_init(struct sonde_host_mounts *h)
{
    *h = (struct sonde_host_mounts){ .fd = -1 };
}

void sonde_host_mounts_release(struct sonde_host_mounts *h)
{
    if (h->fd >= 0) close(h->fd);
    sonde__free(h->mount);
    sonde_host_mounts_init(h);
}

static int open_mountinfo(struct sonde_host_mounts *h, int proc_fd)
{
    if (!h->mount) {
        h->mount = sonde__calloc(SONDE_HOST_MOUNTS_MAX, sizeof(*h->mount));
        if (!h->mount) return SONDE_ENOMEM;
    }
    if (h->fd >= 0) return 0;
    h->fd = openat(proc_fd, "self/mountinfo", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (h->fd < 0) return SONDE_ENOENT;
    struct statfs fs;
    h->watched = fstatfs(h->fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
    return 0;
}

void sonde_host_mounts_refresh(struct sonde_host_mounts *h, struct sonde_procfs_buf *buf,
                               int proc_fd)
{
    const int known = h->fd >= 0;
    if (open_mountinfo(h, proc_fd) != 0) return;
    struct pollfd p = { .fd = h->fd, .events = POLLPRI };
    /* Ask before reading: a change in between is then told again. */
    const int changed = poll(&p, 1, 0) > 0 && (p.revents & (POLLPRI | POLLERR));
    if (known && h->watched && !changed) return;
    h->count = 0;
    if (sonde_procfs_read_fd(buf, h->fd) == 0) host_mounts_rebuild(h, sonde_procfs_text(buf));
}

int sonde_host_mount_usage(const struct sonde_host_mount *mount, struct sonde_host_usage *out)
{
    struct statvfs v;
    if (statvfs(mount->path, &v) != 0 || v.f_blocks == 0) return SONDE_EIO;
    const double unit = (double)(v.f_frsize ? v.f_frsize : v.f_bsize);
    *out = (struct sonde_host_usage){
        .size_bytes = (double)v.f_blocks * unit,
        .free_bytes = (double)v.f_bfree * unit,
        .avail_bytes = (double)v.f_bavail * unit,
    };
    return 0;
}
