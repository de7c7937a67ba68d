/* open.c - the bytes of a mapped module.
 *
 * In this order: the path as it is, if what is there now has the mapping's device and inode; the
 * path in the process's own root, if the inode is the same (some file systems show other devices
 * in maps than in stat) or, where file systems lie about inodes too, if it has the build id that
 * is in the process's memory; the kernel's link to the very file, also when it was deleted, which
 * takes privileges; and last the process's memory.
 *
 * Paths come from other processes and may name anything by now, so they are opened without
 * touching (O_PATH) until it is certain that they are regular files. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/proc_maps.h"
#include "collect/aspace/private.h"

static int open_regular(const char *path, struct stat *st)
{
    char link[64];
    const int at = open(path, O_PATH | O_CLOEXEC);
    if (at < 0) return -1;
    int fd = -1;
    if (!fstat(at, st) && S_ISREG(st->st_mode)) {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", at);
        fd = open(link, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    }
    close(at);
    return fd;
}

int sonde_module_open_path(const struct sonde_aspace_mapping *m, uint32_t pid, char *out,
                           size_t size)
{
    assert(m && out && size > 0);
    int n = 0;
    out[0] = 0;
    if (m->text[0] != '/') return 0;
    if (m->from == FROM_ROOT) n = snprintf(out, size, "/proc/%u/root%s", pid, m->text);
    if (m->from == FROM_MAP_FILES) {
        n = snprintf(out, size, "/proc/%u/map_files/%llx-%llx", pid,
                     (unsigned long long)m->map.start, (unsigned long long)m->map.end);
    }
    if (n < 0 || (size_t)n >= size) {
        out[0] = 0;
        return -1;
    }
    return 0;
}

/* ---- Memory ------------------------------------------------------------------------------- */

static int aspace_open_memory(uint32_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/mem", pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int aspace_open_read(int fd, uint64_t at, void *out, size_t len)
{
    return sonde_file_pread_full(fd, out, len, (off_t)at) == (ssize_t)len ? 0 : -1;
}

int sonde_module_bytes_read(void *bytes, uint64_t at, void *out, size_t len)
{
    const struct sonde_module_bytes *b = bytes;
    if (at > INT64_MAX - len) return -1;
    return aspace_open_read(b->fd, b->memory ? b->first + at : at, out, len);
}

struct header_search {
    const struct sonde_mapping *m;
    uint64_t at;
};

/* The file's first bytes are mapped somewhere below its code. */
static int search_header(void *arg, const struct sonde_mapping *e)
{
    struct header_search *s = arg;
    if (e->start > s->m->start) return 1; /* lines are in order */
    if (!e->offset && e->dev == s->m->dev && e->inode == s->m->inode) s->at = e->start;
    return 0;
}

static int is_vdso(const struct sonde_mapping *m) { return !strcmp(m->path, "[vdso]"); }

static int memory_bytes(const struct sonde_mapping *m, uint32_t pid, struct sonde_module_bytes *out)
{
    struct header_search s = { m, m->start - m->offset };
    uint64_t first;
    if (is_vdso(m)) {
        /* All processes have the same one, and ours does not go away. */
        pid = (uint32_t)getpid();
        first = getauxval(AT_SYSINFO_EHDR);
        if (!first) return -1;
    } else {
        if (sonde_proc_maps(pid, search_header, &s) < 0) return -1;
        first = s.at;
    }
    const int fd = aspace_open_memory(pid);
    if (fd < 0) return -1;
    *out = (struct sonde_module_bytes){ fd, 1, first, FROM_MEMORY };
    return 0;
}

static int same_build_id(const struct sonde_mapping *m, uint32_t pid, int fd)
{
    struct sonde__elf_info file, memory;
    struct sonde_module_bytes in_file = { .fd = fd }, in_memory;
    const struct sonde__elf_reader r = { sonde_module_bytes_read, &in_file, 0 };
    if (sonde__elf_find(&r, &file) || !file.build_id_len) return 0;
    if (memory_bytes(m, pid, &in_memory)) return 0;
    const struct sonde__elf_reader rm = { sonde_module_bytes_read, &in_memory, 1 };
    const int failed = sonde__elf_find(&rm, &memory);
    close(in_memory.fd);
    return !failed && memory.build_id_len == file.build_id_len &&
           !memcmp(memory.build_id, file.build_id, file.build_id_len);
}

/* ---- Files -------------------------------------------------------------------------------- */

static int path_bytes(const struct sonde_mapping *m, struct sonde_module_bytes *out)
{
    struct stat st;
    const int fd = open_regular(m->path, &st);
    if (fd < 0) return -1;
    if (st.st_dev != m->dev || st.st_ino != m->inode) {
        close(fd);
        return -1;
    }
    *out = (struct sonde_module_bytes){ .fd = fd, .from = FROM_PATH };
    return 0;
}

static int root_bytes(const struct sonde_mapping *m, uint32_t pid, struct sonde_module_bytes *out)
{
    char path[SONDE_ASPACE_PATH];
    struct stat st, ours;
    const int n = snprintf(path, sizeof(path), "/proc/%u/root%s", pid, m->path);
    if (n < 0 || (size_t)n >= sizeof(path)) return -1;
    const int fd = open_regular(path, &st);
    if (fd < 0) return -1;
    if (m->inode && st.st_ino != m->inode && !same_build_id(m, pid, fd)) {
        close(fd);
        return -1;
    }
    const int plain = !stat(m->path, &ours) && ours.st_dev == st.st_dev && ours.st_ino == st.st_ino;
    *out = (struct sonde_module_bytes){ .fd = fd, .from = plain ? FROM_PATH : FROM_ROOT };
    return 0;
}

static int link_bytes(const struct sonde_mapping *m, uint32_t pid, struct sonde_module_bytes *out)
{
    char path[128];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%u/map_files/%llx-%llx", pid, (unsigned long long)m->start,
             (unsigned long long)m->end);
    const int fd = open_regular(path, &st);
    if (fd < 0) return -1;
    if (m->inode && st.st_ino != m->inode) {
        close(fd);
        return -1;
    }
    *out = (struct sonde_module_bytes){ .fd = fd, .from = FROM_MAP_FILES };
    return 0;
}

int sonde_module_bytes_open(const struct sonde_mapping *m, uint32_t pid,
                            struct sonde_module_bytes *out)
{
    if (is_vdso(m)) return memory_bytes(m, pid, out);
    if (!path_bytes(m, out) || !root_bytes(m, pid, out) || !link_bytes(m, pid, out)) return 0;
    return memory_bytes(m, pid, out);
}

int sonde_module_code(const struct sonde_aspace_mapping *m, uint32_t pid, uint64_t addr, void *out,
                      size_t len)
{
    assert(m && out);
    struct sonde_module_bytes bytes;
    int rc = -1;
    if (m->module && !m->module->in_memory && !sonde_module_bytes_open(&m->map, pid, &bytes)) {
        if (!bytes.memory) {
            rc = aspace_open_read(bytes.fd, m->map.offset + (addr - m->map.start), out, len);
        }
        close(bytes.fd);
    }
    if (!rc) return 0;
    const int fd = aspace_open_memory(pid);
    if (fd < 0) return -1;
    rc = aspace_open_read(fd, addr, out, len);
    close(fd);
    return rc;
}
