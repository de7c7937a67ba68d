#include "collect/preload_targets.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/utf8.h"
#include "collect/discover.h"
#include "segment/segment.h"
#include "sonde/sonde.h"

#define LISTED_NS 1000000000u  /* names are gone through so often, whatever the directory says */
#define SETTLED_NS 100000000   /* a directory's time is the last change's when it is so old */
#define TARGETS_MAX 65536u
#define SCAN_EVERY_NS 200000000u
#define SEGMENT_LEAST ((uint64_t)2 << 20) /* bytes that a segment with samples in it takes */
#define FILE_LEAST ((uint64_t)64 << 20)   /* bytes that its file is long, most of them holes */
#define SPACE_LEAST ((uint64_t)4 << 30)   /* of addresses: less may do, or may not */
#define FILES_LEAST 32

/* ---- Readers of a process, for its collector ------------------------------------------------- */

void sonde_preload_readers_init(struct sonde_preload_readers *r)
{
    *r = (struct sonde_preload_readers){ 0 };
    sonde_lock_init(&r->lock, SONDE_RANK_PRELOADED);
}

void sonde_preload_readers_release(struct sonde_preload_readers *r)
{
    assert(!r->first);
    sonde_lock_destroy(&r->lock);
}

static void readers_add(struct sonde_preload_readers *r, struct sonde_preload_targets *p)
{
    p->readers = r;
    if (!r) return;
    sonde_lock(&r->lock);
    p->next = r->first;
    r->first = p;
    sonde_unlock(&r->lock);
}

static void readers_remove(struct sonde_preload_targets *p)
{
    struct sonde_preload_readers *r = p->readers;
    if (!r) return;
    sonde_lock(&r->lock);
    struct sonde_preload_targets **link = &r->first;
    while (*link && *link != p) link = &(*link)->next;
    if (*link) *link = p->next;
    sonde_unlock(&r->lock);
    p->readers = NULL;
}

static void readers_scanned(struct sonde_preload_targets *p, uint64_t began_ns)
{
    if (!p->readers) return;
    sonde_lock(&p->readers->lock);
    p->scanned_ns = began_ns;
    sonde_unlock(&p->readers->lock);
}

uint64_t sonde_preload_readers_scanned_ns(struct sonde_preload_readers *r)
{
    uint64_t earliest = UINT64_MAX;
    sonde_lock(&r->lock);
    for (const struct sonde_preload_targets *p = r->first; p; p = p->next) {
        if (p->scanned_ns < earliest) earliest = p->scanned_ns;
    }
    sonde_unlock(&r->lock);
    return earliest;
}

/* ---- Starting and ending --------------------------------------------------------------------- */

static uint64_t make_session(void)
{
    uint64_t session;
    if (getrandom(&session, sizeof(session), 0) == sizeof(session) && session) return session;
    return sonde_clock_ns(CLOCK_MONOTONIC);
}

int sonde_preload_init(struct sonde_preload_targets *p, struct sonde_preload_readers *readers,
                       const char *dir, uint32_t pid, int children, int new_session,
                       size_t target_bytes, struct sonde_err *err)
{
    assert(target_bytes >= sizeof(struct sonde_preload_target)); /* which is its first field */
    *p = (struct sonde_preload_targets){ .pid = pid, .children = children, .dirfd = -1,
                                         .lock_fd = -1, .target_bytes = target_bytes };
    int rc = 0;
    if (!dir || !dir[0]) rc = sonde__dir_default(p->dir, sizeof(p->dir));
    else if (strlen(dir) >= sizeof(p->dir)) rc = SONDE_EINVAL;
    else snprintf(p->dir, sizeof(p->dir), "%s", dir);
    if (rc != 0) {
        return sonde_err_set(err, rc, "the path of the directory of segments is longer than %zu "
                             "bytes", sizeof(p->dir) - 1);
    }
    if (mkdir(p->dir, 0700) != 0 && errno != EEXIST) {
        return sonde_err_set(err, SONDE_EOFF, "cannot create the directory of segments %s: %s; "
                             "choose another with SONDE_DIR", p->dir, strerror(errno));
    }
    sonde__here(&p->here);
    if (new_session) p->session = p->only = make_session();
    rc = sonde_discover_open(p->dir, &p->dirfd, err);
    if (rc != 0) return rc;
    p->lock_fd = sonde_discover_lock(p->dirfd, err);
    if (p->lock_fd < 0) return p->lock_fd;
    readers_add(readers, p);
    return 0;
}

static void remove_read(struct sonde_preload_targets *p)
{
    if (p->lock_fd < 0 || flock(p->lock_fd, LOCK_EX | LOCK_NB) != 0) return;
    for (uint32_t i = 0; i < p->target_count; i++) {
        const struct sonde_preload_target *t = p->targets[i];
        if (t->ours && t->gone) sonde__life_sweep(p->dirfd, t->name, &p->here);
    }
}

void sonde_preload_release(struct sonde_preload_targets *p)
{
    readers_remove(p);
    remove_read(p);
    for (uint32_t i = 0; i < p->target_count; i++) {
        sonde_preload_close(p->targets[i]);
        sonde__free(p->targets[i]);
    }
    sonde__free(p->targets);
    if (p->lock_fd >= 0) close(p->lock_fd);
    if (p->dirfd >= 0) close(p->dirfd);
    *p = (struct sonde_preload_targets){ .dirfd = -1, .lock_fd = -1 };
}

/* Limits of ours are the program's, which inherits them. */
void sonde_preload_absent(const struct sonde_preload_targets *p, char *out, size_t size)
{
    struct statvfs fs;
    struct rlimit file_size, files, space;
    const int known = p->dirfd >= 0 && fstatvfs(p->dirfd, &fs) == 0;
    if (known && (uint64_t)fs.f_bavail * fs.f_frsize < SEGMENT_LEAST) {
        snprintf(out, size, "the directory of segments %.160s is full: %llu KiB are left",
                 p->dir, (unsigned long long)((uint64_t)fs.f_bavail * fs.f_frsize >> 10));
    } else if (known && fs.f_files && !fs.f_favail) {
        snprintf(out, size, "the directory of segments %.160s is full: no more files can be made "
                 "there (df -i)", p->dir);
    } else if (getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur < FILE_LEAST) {
        snprintf(out, size, "files may not be larger than %llu KiB (ulimit -f), which is too "
                 "little for a segment", (unsigned long long)file_size.rlim_cur >> 10);
    } else if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_LEAST) {
        snprintf(out, size, "no more than %llu files may be open (ulimit -n)",
                 (unsigned long long)files.rlim_cur);
    } else if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur < SPACE_LEAST) {
        snprintf(out, size, "the program has no segment: its address space of %llu MiB (ulimit -v) "
                 "may be too small for one, or it cannot load libsonde_preload",
                 (unsigned long long)space.rlim_cur >> 20);
    } else {
        snprintf(out, size, "the program has not loaded libsonde_preload (yet): one that is linked "
                 "statically, built with AddressSanitizer, or changes its user, never does");
    }
}

/* ---- Finding --------------------------------------------------------------------------------- */

static struct sonde_preload_target *find_known(const struct sonde_preload_targets *p,
                                               const struct sonde_segment_name *id)
{
    for (uint32_t i = p->target_count; i-- > 0;) {
        const struct sonde_segment_name *k = &p->targets[i]->id;
        if (k->pid == id->pid && k->start == id->start && k->n == id->n) return p->targets[i];
    }
    return NULL;
}

static struct sonde_preload_target *target_add(struct sonde_preload_targets *p)
{
    if (p->target_count == TARGETS_MAX) return NULL;
    if (SONDE_ARRAY_ROOM(p->targets, p->target_count, p->target_cap)) return NULL;
    struct sonde_preload_target *t = sonde__calloc(1, p->target_bytes);
    if (t) p->targets[p->target_count++] = t;
    return t;
}

/* Different mount namespaces, as far as can be told. */
static int is_other_root(uint32_t pid)
{
    char path[64], theirs[64], ours[64];
    snprintf(path, sizeof(path), "/proc/%u/ns/mnt", pid);
    const ssize_t a = readlink(path, theirs, sizeof(theirs));
    const ssize_t b = readlink("/proc/self/ns/mnt", ours, sizeof(ours));
    return a > 0 && b > 0 && (a != b || memcmp(theirs, ours, (size_t)a) != 0);
}

static void preloaded_found(const char *name, const struct sonde_segment_name *id, void *arg)
{
    struct sonde_preload_targets *p = arg;
    struct sonde_err err;
    if (!p->children && id->pid != p->pid) return;
    struct sonde_preload_target *t = find_known(p, id);
    if (t) t->seen = 1;
    if (t || !(t = target_add(p))) return;
    t->seen = 1;
    t->id = *id;
    snprintf(t->name, sizeof(t->name), "%s", name);
    if (sonde_segment_open(p->dirfd, name, p->session != 0, &t->segment, &err) != 0) {
        t->segment = NULL;
        return;
    }
    t->pid_ns = sonde_segment_header(t->segment)->pid_ns;
    t->other_root = is_other_root(id->pid);
}

/* A name does not come again, so those that are gone need not be known any more. */
static void free_removed(struct sonde_preload_targets *p)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->target_count; i++) {
        struct sonde_preload_target *t = p->targets[i];
        if (t->segment || t->seen) p->targets[kept++] = t;
        else sonde__free(t);
    }
    p->target_count = kept;
}

/* Has nothing been made or removed since the last time? The clock of files stands still for some
 * milliseconds at a time, in which a change may follow another: a time that is so new says
 * nothing. */
static int is_unchanged(struct sonde_preload_targets *p, uint64_t now_ns)
{
    struct timespec now;
    struct stat st;
    if (fstat(p->dirfd, &st) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return 0;
    if (st.st_mtim.tv_sec == p->changed.tv_sec && st.st_mtim.tv_nsec == p->changed.tv_nsec &&
        now_ns - p->listed_ns < LISTED_NS) {
        return 1;
    }
    const int64_t age_ns = (int64_t)(now.tv_sec - st.st_mtim.tv_sec) * 1000000000 +
                           (now.tv_nsec - st.st_mtim.tv_nsec);
    p->changed = age_ns > SETTLED_NS ? st.st_mtim : (struct timespec){ 0 };
    p->listed_ns = now_ns;
    return 0;
}

void sonde_preload_scan(struct sonde_preload_targets *p)
{
    struct sonde_err err;
    const uint64_t began_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    if (p->dirfd < 0 && sonde_discover_open(p->dir, &p->dirfd, &err) != 0) {
        p->dirfd = -1;
        return;
    }
    if (is_unchanged(p, began_ns)) {
        free_removed(p); /* those that were let go of since */
        readers_scanned(p, began_ns);
        return;
    }
    for (uint32_t i = 0; i < p->target_count; i++) p->targets[i]->seen = 0;
    if (sonde_discover_scan(p->dirfd, preloaded_found, p, &err) != 0) {
        p->changed = (struct timespec){ 0 };
        return;
    }
    free_removed(p);
    readers_scanned(p, began_ns);
}

/* Another image of the same process is there: this one was replaced by exec. */
static int is_replaced(const struct sonde_preload_targets *p, const struct sonde_preload_target *t)
{
    for (uint32_t i = 0; i < p->target_count; i++) {
        const struct sonde_segment_name *k = &p->targets[i]->id;
        if (k->pid == t->id.pid && k->start == t->id.start && k->n > t->id.n &&
            p->targets[i]->pid_ns == t->pid_ns) {
            return 1;
        }
    }
    return 0;
}

void sonde_preload_look(struct sonde_preload_targets *p, struct sonde_preload_target *t)
{
    assert(t->segment);
    struct sonde_proc_stat st;
    t->replaced = is_replaced(p, t);
    t->gone = t->replaced ||
              !sonde_discover_alive(p->dirfd, t->name, &t->id, t->segment, &p->here, &st);
}

void sonde_preload_close(struct sonde_preload_target *t)
{
    sonde_segment_close(t->segment);
    t->segment = NULL;
}

/* ---- Code ------------------------------------------------------------------------------------ */

/* Which file a path is: in the process's own root while it is there. */
static void preloaded_identify(const struct sonde_preload_target *t, const char *path,
                               struct sonde_mapping *out)
{
    char in_root[SONDE_HEAP_PATH_MAX + 64];
    struct stat st;
    if (path[0] != '/') return;
    snprintf(in_root, sizeof(in_root), "/proc/%u/root%s", t->id.pid, path);
    if (stat(in_root, &st) != 0 && (t->other_root || stat(path, &st) != 0)) return;
    out->dev = st.st_dev;
    out->inode = st.st_ino;
}

int sonde_preload_map(const struct sonde_preload_target *t, struct sonde_aspace *as,
                      const struct sonde_mapping *m)
{
    assert(t && as && m && m->path);
    struct sonde_mapping whole = *m;
    preloaded_identify(t, m->path, &whole);
    /* The dynamic linker has a library by the name it looked for (libz.so.1), which is a link; the
     * kernel, and so everybody else, by the file's (libz.so.1.2.13). */
    char *file = m->path[0] == '/' && !t->other_root ? realpath(m->path, NULL) : NULL;
    if (file) whole.path = file;
    const int rc = sonde_aspace_map(as, &whole);
    free(file);
    return rc;
}

uint32_t sonde_preload_find_code(struct sonde_preload_target *t, struct sonde_modules *modules,
                                 struct sonde_aspace *as, const uint64_t *ips, uint32_t count,
                                 uint64_t now_ns)
{
    struct sonde_aspace *now = NULL;
    struct sonde_aspace_texts texts;
    struct sonde_module m;
    uint32_t added = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (sonde__python_is(ips[i]) || sonde_aspace_mapping(as, ips[i])) continue;
        if (!now) {
            if (t->gone || now_ns - t->scanned_ns < SCAN_EVERY_NS) return 0;
            t->scanned_ns = now_ns;
            if (sonde_aspace_create(modules, t->id.pid, &now) != 0) return 0;
            if (sonde_aspace_scan(now) != 0) break;
        }
        if (sonde_aspace_module(now, ips[i], &texts, &m) != 0) continue;
        const struct sonde_mapping map = { .start = m.start, .end = m.end, .offset = m.offset,
                                           .path = m.path, .executable = 1 };
        added += sonde_preload_map(t, as, &map) == 0;
    }
    sonde_aspace_destroy(now);
    return added;
}

/* ---- Threads --------------------------------------------------------------------------------- */

void sonde_preload_thread_name(uint32_t pid, uint32_t tid, char out[64])
{
    char path[64], text[32];
    int changed = 0;
    out[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", pid, tid);
    ssize_t n = sonde_file_read_small(AT_FDCWD, path, text, sizeof(text));
    if (n > 0 && text[n - 1] == '\n') n--;
    if (n > 0) out[sonde__utf8_copy(out, 63, text, (size_t)n, &changed)] = '\0';
}
