/* open.c - the file that was mapped. A file at the same path may be another one by now (an
 * upgrade, a rebuild), and its names would be wrong: the build id tells. The one that still runs
 * can be had from the kernel for as long as it runs. */
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/proc_maps.h"
#include "profile/profile.h"
#include "profile/symbol/symbol.h"
#include "sonde/sonde.h"

#define PLACES_TRIED 16u /* of one file mapped by many processes */

static const char DELETED[] = " (deleted)";

uint32_t sonde_symbol_pid(const char *path)
{
    char *end;
    if (strncmp(path, "/proc/", 6) != 0 || path[6] < '1' || path[6] > '9') return 0;
    const unsigned long pid = strtoul(path + 6, &end, 10);
    return *end == '/' && pid <= INT32_MAX ? (uint32_t)pid : 0;
}

static int open_in_root(uint32_t pid, const char *rest)
{
    char root[64];
    struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                            .resolve = RESOLVE_IN_ROOT };
    snprintf(root, sizeof(root), "/proc/%u/root", pid);
    const int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return -1;
    const long fd = syscall(SYS_openat2, dir, rest, &how, sizeof(how));
    const int error = errno;
    close(dir);
    errno = error;
    return (int)fd;
}

int sonde_symbol_open_path(const char *path)
{
    struct stat st;
    int fd = -1;
    const uint32_t pid = sonde_symbol_pid(path);
    const char *rest = pid ? strchr(path + 6, '/') : NULL;
    const int rooted = rest && strncmp(rest, "/root", 5) == 0 && rest[5] == '/';
    if (rooted) fd = open_in_root(pid, rest + 6);
    /* The second: a kernel before 5.6, or a filter that does not know the call. */
    if (!rooted || (fd < 0 && (errno == ENOSYS || errno == EPERM))) {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    }
    if (fd < 0) return -1;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* 1 if elf carries the build id, as hex. */
static int has_build_id(Elf *elf, const char *hex)
{
    const void *bytes = NULL;
    const ssize_t len = dwelf_elf_gnu_build_id(elf, &bytes);
    if (len <= 0 || strlen(hex) != (size_t)len * 2) return 0;
    for (ssize_t i = 0; i < len; i++) {
        char pair[3];
        snprintf(pair, sizeof(pair), "%02x", ((const unsigned char *)bytes)[i]);
        if (strncasecmp(pair, hex + 2 * i, 2) != 0) return 0;
    }
    return 1;
}

enum symbol_open_fit { FIT_NO_ELF, FIT_OTHER, FIT_OK };

static enum symbol_open_fit symbol_open_fits(int fd, const char *build_id)
{
    enum symbol_open_fit fit = FIT_NO_ELF;
    GElf_Ehdr header;
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header) &&
        (header.e_type == ET_EXEC || header.e_type == ET_DYN)) {
        fit = build_id[0] == '\0' || has_build_id(elf, build_id) ? FIT_OK : FIT_OTHER;
    }
    elf_end(elf);
    return fit;
}

/* Does the link lead to the file of this path, deleted or not? */
static int leads_to(const char *link, const char *path)
{
    char target[4096];
    size_t len = strlen(path);
    const size_t tail = sizeof(DELETED) - 1;
    const ssize_t n = readlink(link, target, sizeof(target) - 1);
    if (n <= 0) return 0;
    target[n] = '\0';
    if (len > tail && strcmp(path + len - tail, DELETED) == 0) len -= tail;
    return strncmp(target, path, len) == 0 &&
           (target[len] == '\0' || strcmp(target + len, DELETED) == 0);
}

struct symbol_open_mapping {
    const struct sonde_module *place;
    char *name;
    size_t size;
};

static int symbol_open_is_mapping(void *arg, const struct sonde_mapping *m)
{
    const struct symbol_open_mapping *l = arg;
    if (!m->inode || l->place->start < m->start || l->place->start >= m->end) return 0;
    snprintf(l->name, l->size, "/proc/%u/map_files/%llx-%llx", l->place->pid,
             (unsigned long long)m->start, (unsigned long long)m->end);
    return 1;
}

/* The name in map_files of the mapping around start, from /proc/PID/maps. */
static int mapping_name(const struct sonde_module *place, char *out, size_t size)
{
    struct symbol_open_mapping l = { place, out, size };
    return sonde_proc_maps(place->pid, symbol_open_is_mapping, &l) == 1;
}

/* What the process has mapped, by way of the kernel: right even if the path's file was replaced. */
static int open_running(const struct sonde_module *place)
{
    char link[96];
    if (place->pid == 0) return -1;
    snprintf(link, sizeof(link), "/proc/%u/exe", place->pid);
    if (leads_to(link, place->path)) {
        const int fd = open(link, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) return fd;
    }
    if (place->end <= place->start || !mapping_name(place, link, sizeof(link))) return -1;
    return leads_to(link, place->path) ? open(link, O_RDONLY | O_CLOEXEC) : -1;
}

static int try_place(const struct sonde_symbol_job *job, const struct sonde_module *place,
                     struct sonde_symbol_file *out, int *other)
{
    const char *name = place->open_path[0] ? place->open_path : place->path;
    /* Without a build id a deleted file's path says nothing about what is there now. */
    if (job->build_id[0] || !(place->flags & SONDE_MODULE_DELETED)) {
        const int fd = sonde_symbol_open_path(name);
        const enum symbol_open_fit fit = fd >= 0 ? symbol_open_fits(fd, job->build_id) : FIT_NO_ELF;
        if (fit == FIT_OK) {
            *out = (struct sonde_symbol_file){ .fd = fd, .place = place };
            snprintf(out->name, sizeof(out->name), "%s", name);
            return 1;
        }
        if (fd >= 0) close(fd);
        if (fit == FIT_OTHER) *other = 1;
    }
    const int fd = open_running(place);
    if (fd >= 0 && symbol_open_fits(fd, job->build_id) == FIT_OK) {
        *out = (struct sonde_symbol_file){ .fd = fd, .place = place };
        snprintf(out->name, sizeof(out->name), "%s", place->path);
        return 1;
    }
    if (fd >= 0) close(fd);
    return 0;
}

int sonde_symbol_open(const struct sonde_symbol_job *job, struct sonde_symbol_file *out,
                      uint32_t *flags)
{
    int other = 0, found = 0;
    for (size_t i = 0; !found && i < job->place_count && i < PLACES_TRIED; i++) {
        found = try_place(job, &job->places[i], out, &other);
    }
    /* Said even when the running one could be opened: that will not last. */
    if (other) *flags |= SONDE_MODULE_DELETED;
    return found ? 0 : SONDE_ENOENT;
}
