/* pages.c - see cache.h. mincore() says of every page whether it is there, of a mapping that is
 * never touched. For files that the caller may neither write nor owns, it says that all are, so
 * that nobody watches what others read: that is not believed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "bench/cache/cache.h"

enum { PAGES_PIECE = 65536, PAGES_TRIES = 5 };

/* The kernel's own condition for the truth. */
static int pages_told(int fd)
{
    struct stat st;
    char path[64];
    if (fstat(fd, &st)) return 0;
    if (st.st_uid == geteuid() || geteuid() == 0) return 1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

double sonde_cache_pages_resident(int fd, uint64_t bytes)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t pages = (bytes + page - 1) / page;
    if (!bytes || !pages_told(fd)) return NAN;
    char *map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char *there = sonde__alloc(PAGES_PIECE);
    uint64_t found = 0, seen = 0;
    int bad = map == MAP_FAILED || !there;
    while (!bad && seen < pages) {
        const uint64_t n = pages - seen < PAGES_PIECE ? pages - seen : PAGES_PIECE;
        bad = mincore(map + seen * page, (size_t)(n * page), there) != 0;
        for (uint64_t i = 0; !bad && i < n; i++) found += there[i] & 1u;
        seen += n;
    }
    if (map != MAP_FAILED) munmap(map, (size_t)bytes);
    sonde__free(there);
    return bad ? (double)NAN : (double)found / (double)pages;
}

/* Pages that were read a moment ago may be held by a CPU's own list: again, after a while. */
double sonde_cache_pages_drop(int fd, uint64_t bytes)
{
    double left = NAN;
    for (int i = 0; i < PAGES_TRIES; i++) {
        if (i) usleep(20000);
        fdatasync(fd);
        if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)) return NAN;
        left = sonde_cache_pages_resident(fd, bytes);
        if (!(left > 0)) break;
    }
    return left;
}

int sonde_cache_pages_system(int fd, char *out, size_t size)
{
    static const struct { long magic; const char *name; int memory; } known[] = {
        { TMPFS_MAGIC, "tmpfs", 1 },     { RAMFS_MAGIC, "ramfs", 1 },
        { HUGETLBFS_MAGIC, "hugetlbfs", 1 }, { EXT4_SUPER_MAGIC, "ext4", 0 },
        { XFS_SUPER_MAGIC, "xfs", 0 },   { BTRFS_SUPER_MAGIC, "btrfs", 0 },
        { OVERLAYFS_SUPER_MAGIC, "overlayfs", 0 }, { NFS_SUPER_MAGIC, "nfs", 0 },
        { F2FS_SUPER_MAGIC, "f2fs", 0 }, { 0x65735546, "fuse", 0 },
    };
    struct statfs s;
    snprintf(out, size, "a file system");
    if (fstatfs(fd, &s)) return 0;
    for (size_t i = 0; i < SONDE_COUNT(known); i++) {
        if ((long)s.f_type != known[i].magic) continue;
        snprintf(out, size, "%s", known[i].name);
        return known[i].memory;
    }
    return 0;
}
