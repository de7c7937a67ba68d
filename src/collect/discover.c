/* discover.c - see discover.h. */
#include "collect/discover.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/utf8.h"

int sonde_discover_open(const char *dir, int *fd, struct sonde_err *err)
{
    struct stat st;
    uid_t me = geteuid();
    int d = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (d < 0) {
        int failure = errno;
        if (failure == ENOENT) return sonde_err_set(err, SONDE_ENOENT, "%s is not there", dir);
        const int few = failure == EMFILE || failure == ENFILE;
        return sonde_err_set(err, SONDE_EACCES, "cannot open the directory of segments %s: %s%s",
                             dir, strerror(failure),
                             few ? " (ulimit -n)" : "; choose another with SONDE_DIR");
    }
    int rc = 0;
    if (fstat(d, &st) != 0) {
        rc = sonde_err_set(err, SONDE_EIO, "cannot look at %s: %s", dir, strerror(errno));
    } else if (st.st_uid != me) {
        rc = sonde_err_set(err, SONDE_EACCES, "the directory of segments %s belongs to user %u, "
                           "not to this one (%u); choose another with SONDE_DIR", dir,
                           (unsigned)st.st_uid, (unsigned)me);
    } else if (st.st_mode & 022) {
        rc = sonde_err_set(err, SONDE_EACCES, "others may write to the directory of segments %s; "
                           "run: chmod 700 %s", dir, dir);
    }
    if (rc != 0) close(d);
    else *fd = d;
    return rc;
}

int sonde_discover_scan(int dirfd, sonde_discover_fn *found, void *arg, struct sonde_err *err)
{
    assert(dirfd >= 0 && found);
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int failure = errno;
        if (fd >= 0) close(fd);
        return sonde_err_set(err, SONDE_EIO, "cannot list the directory of segments: %s",
                             strerror(failure));
    }
    const struct dirent *entry;
    while ((entry = readdir(d)) != NULL) {
        struct sonde_segment_name id;
        if (sonde_segment_name_parse(entry->d_name, &id) == 0) found(entry->d_name, &id, arg);
    }
    closedir(d);
    return 0;
}

/* ---- Processes ---------------------------------------------------------------------------- */

int sonde_proc_stat(uint32_t pid, struct sonde_proc_stat *out)
{
    char path[32], text[1024];
    unsigned long long start;
    long threads;
    int ppid, changed = 0;
    char state;
    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    if (sonde_file_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0) return SONDE_ENOENT;
    /* The name is in parentheses and may itself hold any of them. */
    const char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (!name || !end || end < name) return SONDE_ENOENT;
    if (sscanf(end + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld "
               "%*d %llu", &state, &ppid, &threads, &start) != 4) {
        return SONDE_ENOENT;
    }
    /* A main thread may end before the others: then it stays as a zombie, and is counted too. */
    if ((state == 'Z' && threads <= 1) || state == 'X' || state == 'x') return SONDE_ENOENT;
    *out = (struct sonde_proc_stat){ .start = start, .ppid = (uint32_t)ppid,
                                     .threads = (uint32_t)threads };
    sonde__utf8_copy(out->comm, sizeof(out->comm) - 1, name + 1, (size_t)(end - name - 1),
                     &changed);
    return 0;
}

int sonde_proc_descends(uint32_t pid, uint32_t root)
{
    for (int depth = 0; depth < 64 && pid > 1; depth++) {
        struct sonde_proc_stat st;
        if (pid == root) return 1;
        if (sonde_proc_stat(pid, &st) != 0) return 0;
        pid = st.ppid;
    }
    return pid == root;
}

int sonde_discover_alive(int dirfd, const char *name, const struct sonde_segment_name *id,
                         const struct sonde_segment *segment, const struct sonde__here *here,
                         struct sonde_proc_stat *st)
{
    *st = (struct sonde_proc_stat){ 0 };
    if (!segment || sonde__is_here(sonde_segment_header(segment), here)) {
        return sonde_proc_stat(id->pid, st) == 0 && st->start == id->start;
    }
    switch (dirfd < 0 ? SONDE__LIFE_UNKNOWN : sonde__life(dirfd, name, here)) {
    case SONDE__LIFE_NONE: case SONDE__LIFE_DEAD: return 0;
    case SONDE__LIFE_FOREIGN: case SONDE__LIFE_UNKNOWN: return !sonde_segment_closed(segment);
    default: return 1;
    }
}

/* ---- The lock ----------------------------------------------------------------------------- */

/* Empty, or process ids as below: two agents that start at the same instant write over each
 * other's, and what is left may be two lines of digits. Who holds the lock is for people who look;
 * somebody's own text is worth more. */
static int lock_is_ours(int fd)
{
    char text[16];
    const ssize_t n = pread(fd, text, sizeof(text), 0);
    if (n <= 0) return n == 0;
    for (ssize_t i = 0; i < n - 1; i++) {
        if (text[i] != '\n' && (text[i] < '0' || text[i] > '9')) return 0;
    }
    return n < (ssize_t)sizeof(text) && text[n - 1] == '\n';
}

int sonde_discover_lock(int dirfd, struct sonde_err *err)
{
    assert(dirfd >= 0);
    int fd = openat(dirfd, "agent.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                    0600);
    if (fd < 0) {
        return sonde_err_set(err, SONDE_EACCES, "cannot create agent.lock in the directory of "
                             "segments: %s", strerror(errno));
    }
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        st.st_nlink != 1) {
        close(fd);
        return sonde_err_set(err, SONDE_EACCES, "agent.lock in the directory of segments is not a "
                             "plain file of user %u; remove it", (unsigned)geteuid());
    }
    /* A program that ends tries for the lock alone, but holds it for an instant only. */
    for (int i = 0; i < 100; i++) {
        if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
            char text[16];
            int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
            if (!lock_is_ours(fd)) {
                sonde_log(SONDE_LOG_WARN, "agent.lock in the directory of segments holds something "
                          "that sonde did not write; it is locked, and left as it is");
            } else if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n) {
                /* Only for people who look; the lock is what counts. */
            }
            return fd;
        }
        struct timespec pause = { .tv_nsec = 1000000 };
        nanosleep(&pause, NULL);
    }
    close(fd);
    return sonde_err_set(err, SONDE_EACCES, "agent.lock in the directory of segments is held by "
                         "somebody who is no agent; find out who with: fuser agent.lock");
}
