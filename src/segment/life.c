/* life.c - see life.h. In the user's process too: no allocation, no stdio. */
#include "segment/life.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define XFS_MAGIC 0x58465342 /* not in linux/magic.h */

/* ---- Names ---------------------------------------------------------------------------------- */

static int number_parse(const char **at, uint64_t max, uint64_t *out)
{
    const char *p = *at;
    uint64_t v = 0;
    if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9')) return SONDE_EINVAL;
    for (; *p >= '0' && *p <= '9'; p++) {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (v > (max - digit) / 10) return SONDE_EINVAL;
        v = v * 10 + digit;
    }
    *at = p;
    *out = v;
    return 0;
}

int sonde__name_parse(const char *name, struct sonde__name *out)
{
    uint64_t pid, start, n = 0;
    if (number_parse(&name, INT32_MAX, &pid) || !pid || *name++ != '.') return SONDE_EINVAL;
    if (number_parse(&name, UINT64_MAX - 1, &start)) return SONDE_EINVAL;
    if (*name == '.') {
        name++;
        if (number_parse(&name, UINT32_MAX, &n) || !n) return SONDE_EINVAL;
    }
    if (*name) return SONDE_EINVAL;
    *out = (struct sonde__name){ (uint32_t)pid, start, (uint32_t)n };
    return 0;
}

static char *segment_life_put(char *out, const char *text)
{
    while (*text) *out++ = *text++;
    *out = 0;
    return out;
}

static char *segment_life_put_number(char *out, uint64_t v, unsigned base, int width)
{
    char digits[21], *p = digits + 20;
    *p = 0;
    do {
        *--p = "0123456789abcdef"[v % base];
        v /= base;
    } while (v || digits + 20 - p < width);
    return segment_life_put(out, p);
}

void sonde__name_make(char out[SONDE__NAME_BYTES], const struct sonde__name *name)
{
    out = segment_life_put_number(out, name->pid, 10, 1);
    out = segment_life_put_number(segment_life_put(out, "."), name->start, 10, 1);
    if (name->n) segment_life_put_number(segment_life_put(out, "."), name->n, 10, 1);
}

#define TEMP_FIRST ".sonde-"
#define TEMP_LAST ".tmp"
#define TEMP_DIGITS 16

void sonde__temp_make(char out[SONDE__NAME_BYTES], uint64_t random, uint32_t pid)
{
    out = segment_life_put_number(segment_life_put(out, TEMP_FIRST), random, 16, TEMP_DIGITS);
    segment_life_put(segment_life_put_number(segment_life_put(out, "-"), pid, 10, 1), TEMP_LAST);
}

int sonde__temp_parse(const char *name)
{
    uint64_t pid;
    if (strncmp(name, TEMP_FIRST, sizeof(TEMP_FIRST) - 1)) return SONDE_EINVAL;
    name += sizeof(TEMP_FIRST) - 1;
    if (strspn(name, "0123456789abcdef") != TEMP_DIGITS || name[TEMP_DIGITS] != '-') {
        return SONDE_EINVAL;
    }
    name += TEMP_DIGITS + 1;
    if (number_parse(&name, INT32_MAX, &pid) || !pid || strcmp(name, TEMP_LAST)) {
        return SONDE_EINVAL;
    }
    return 0;
}

/* ---- Processes ------------------------------------------------------------------------------ */

/* 1 if /proc shows the pids of this process's own namespace. */
static int proc_is_ours(void)
{
    char text[16], me[21];
    const ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);
    if (n <= 0) return 0;
    text[n] = 0;
    segment_life_put_number(me, (uint64_t)getpid(), 10, 1);
    return !strcmp(text, me);
}

static uint64_t inode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) ? 0 : (uint64_t)st.st_ino;
}

void sonde__here(struct sonde__here *out)
{
    const int saved = errno;
    sonde__boot_id(out->boot_id);
    out->pid_ns = proc_is_ours() ? inode_of("/proc/self/ns/pid") : 0;
    out->time_ns = inode_of("/proc/self/ns/time"); /* 0: a kernel before 5.6 */
    errno = saved;
}

int sonde__is_here(const struct sonde__header *h, const struct sonde__here *here)
{
    static const uint8_t unknown[16];
    return here->pid_ns && h->pid_ns == here->pid_ns && h->time_ns == here->time_ns &&
           memcmp(here->boot_id, unknown, 16) && !memcmp(h->boot_id, here->boot_id, 16);
}

/* A process that /proc hides (hidepid) is there for kill, and cannot be judged. */
static enum sonde__life process_life(const struct sonde__header *h, const struct sonde__here *here)
{
    if (h->abi != SONDE__ABI || h->check != sonde__header_check(h) || !sonde__is_here(h, here)) {
        return SONDE__LIFE_UNKNOWN;
    }
    const uint64_t start = sonde__start_time(h->pid);
    if (start) return start == h->start_time ? SONDE__LIFE_ALIVE : SONDE__LIFE_DEAD;
    return kill((pid_t)h->pid, 0) && errno == ESRCH ? SONDE__LIFE_DEAD : SONDE__LIFE_UNKNOWN;
}

/* ---- Files ---------------------------------------------------------------------------------- */

/* File systems whose inode knows all its writers. An overlay's does not know mappings, and a
 * network's not the other machines. */
static int leases_hold(int fd)
{
    struct statfs fs;
    if (fstatfs(fd, &fs)) return 0;
    switch ((uint32_t)fs.f_type) {
    case TMPFS_MAGIC: case RAMFS_MAGIC: case EXT4_SUPER_MAGIC: case XFS_MAGIC:
    case BTRFS_SUPER_MAGIC: return 1;
    default: return 0;
    }
}

/* The lease is given back at once. Who opened the file for writing in between would wait for that,
 * and we would be sent a signal; nobody does, since only the process that has it mapped opens it
 * for writing, but let it be one that is ignored unless the program asks for it: SIGIO kills. */
int sonde__is_written(int fd)
{
    if (!leases_hold(fd) || fcntl(fd, F_SETSIG, SIGURG)) return -1;
    if (fcntl(fd, F_SETLEASE, F_RDLCK)) return errno == EAGAIN ? 1 : -1;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return 0;
}

/* The magic number is a temporary file's first bytes; one that is empty was left at once. */
static int is_temp(int fd, const struct stat *st)
{
    uint64_t magic;
    return !st->st_size ||
           (pread(fd, &magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) && magic == SONDE__MAGIC);
}

/* Also of another version: what is looked at here has been in its place in all of them. */
static int is_segment(int fd, const struct stat *st, const struct sonde__name *name,
                      struct sonde__header *h)
{
    return pread(fd, h, sizeof(*h), 0) == (ssize_t)sizeof(*h) && h->magic == SONDE__MAGIC &&
           h->file_bytes == (uint64_t)st->st_size && h->pid == name->pid &&
           h->start_time == name->start;
}

static enum sonde__life segment_life_judge(int fd, const char *name, const struct stat *st,
                                           const struct sonde__here *here)
{
    struct sonde__name parsed;
    struct sonde__header h;
    const int temp = !sonde__temp_parse(name);
    if (!S_ISREG(st->st_mode) || st->st_uid != geteuid() || st->st_nlink != 1) {
        return SONDE__LIFE_FOREIGN;
    }
    if (temp ? !is_temp(fd, st)
             : sonde__name_parse(name, &parsed) || !is_segment(fd, st, &parsed, &h)) {
        return SONDE__LIFE_FOREIGN;
    }
    const int written = sonde__is_written(fd);
    if (written >= 0) return written ? SONDE__LIFE_ALIVE : SONDE__LIFE_DEAD;
    return temp ? SONDE__LIFE_UNKNOWN : process_life(&h, here);
}

static enum sonde__life segment_life_look(int dirfd, const char *name,
                                          const struct sonde__here *here, struct stat *st)
{
    struct sonde__name parsed;
    if (sonde__temp_parse(name) && sonde__name_parse(name, &parsed)) return SONDE__LIFE_FOREIGN;
    const int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? SONDE__LIFE_NONE : SONDE__LIFE_FOREIGN;
    const enum sonde__life life =
        fstat(fd, st) ? SONDE__LIFE_UNKNOWN : segment_life_judge(fd, name, st, here);
    close(fd);
    return life;
}

enum sonde__life sonde__life(int dirfd, const char *name, const struct sonde__here *here)
{
    struct stat st;
    const int saved = errno;
    const enum sonde__life life = segment_life_look(dirfd, name, here, &st);
    errno = saved;
    return life;
}

enum sonde__life sonde__life_sweep(int dirfd, const char *name, const struct sonde__here *here)
{
    struct stat st, now;
    const int saved = errno;
    enum sonde__life life = segment_life_look(dirfd, name, here, &st);
    /* The name is still that file's: another sweep may have been faster. */
    if (life == SONDE__LIFE_DEAD) {
        if (fstatat(dirfd, name, &now, AT_SYMLINK_NOFOLLOW)) life = SONDE__LIFE_NONE;
        else if (now.st_dev != st.st_dev || now.st_ino != st.st_ino) life = SONDE__LIFE_UNKNOWN;
        else if (unlinkat(dirfd, name, 0) && errno != ENOENT) life = SONDE__LIFE_UNKNOWN;
    }
    errno = saved;
    return life;
}
