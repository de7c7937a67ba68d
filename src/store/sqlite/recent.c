/* recent.c - a store that is gone with its agent: the last hours, for one that was given no file.
 *
 * It is on a disk, since it is as large as the rest of the agent, and without a name, so that
 * nothing is left behind by an agent that is killed: a folder that only this user can look into is
 * made, the database opened there, by both connections and with its log, and then names and folder
 * are taken away. SQLite goes on with the descriptors it has: it opens the log and the index of it
 * once for a connection, and what it removes by name when it closes need not be there. (It warns of
 * files that are unlinked because another process might make others of these names; here nobody
 * can.) An agent that is killed in between, some milliseconds, leaves the folder; the next one
 * finds that nobody holds its lock, and removes it.
 *
 * When it cannot be written, it is given up: the readings of the last minute are in the model, and
 * what a full disk lacks is room. It logs that once.
 *
 * Rejected: a database in memory, or in /dev/shm, which is 64 MB of memory; /proc/self/fd/N as the
 * path of a file without a name, which SQLite resolves to the name that is gone; a journal in
 * memory instead of the log, with which whoever asks keeps the writer waiting. */
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

#include "base/alloc.h"
#include "base/array.h"
#include "base/errno.h"
#include "base/log.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

#define FOLDER "sonde-recent-"
#define FILE_NAME "recent.store"
enum { BEING_MADE_S = 60, PATH_BYTES = 4096 };

static const char *const file_names[] = { FILE_NAME, FILE_NAME "-wal", FILE_NAME "-shm",
                                          FILE_NAME ".lock" };

/* ---- Where ----------------------------------------------------------------------------------- */

static const char *choose_folder(void)
{
    static const char *const others[] = { "/var/tmp", "/tmp" };
    const char *own = getenv("TMPDIR");
    if (own && own[0] == '/') return own;
    return access(others[0], W_OK | X_OK) == 0 ? others[0] : others[1];
}

static void remove_files(int folder_fd)
{
    for (size_t i = 0; i < SONDE_COUNT(file_names); i++) {
        unlinkat(folder_fd, file_names[i], 0);
    }
}

/* 1 if whoever made it is no longer there: it is not new, and its lock is free or was never
 * made. */
static int is_abandoned(int folder_fd)
{
    struct stat st;
    if (fstat(folder_fd, &st) != 0 || st.st_uid != geteuid()) return 0;
    if (time(NULL) - st.st_mtime <= BEING_MADE_S) return 0;
    const int fd = openat(folder_fd, FILE_NAME ".lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return errno == ENOENT;
    const int is_free = flock(fd, LOCK_SH | LOCK_NB) == 0;
    close(fd);
    return is_free;
}

/* What agents left that were killed while they made theirs. */
static void store_recent_sweep(const char *parent)
{
    DIR *dir = opendir(parent);
    if (!dir) return;
    for (struct dirent *e; (e = readdir(dir));) {
        if (strncmp(e->d_name, FOLDER, sizeof(FOLDER) - 1) != 0) continue;
        const int fd = openat(dirfd(dir), e->d_name,
                              O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) continue;
        if (is_abandoned(fd)) {
            remove_files(fd);
            unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
        }
        close(fd);
    }
    closedir(dir);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void count_run(const struct sonde_store_run *r, void *arg)
{
    (void)r;
    ++*(int *)arg;
}

/* Opens it in a folder of its own; the writer's connection has its log then. The other one gets it
 * when it reads for the first time. */
static int open_in(const char *folder, const struct sonde_store_options *o,
                   struct sonde_store **out, struct sonde_err *err)
{
    struct sonde_store_options own = *o;
    char path[PATH_BYTES];
    int runs = 0;
    snprintf(path, sizeof(path), "%s/" FILE_NAME, folder);
    own.path = path;
    own.temporary = 1;
    int rc = sonde_store_sqlite.open(&own, out, err);
    if (rc) return rc;
    rc = sonde_store_sqlite.runs(*out, count_run, &runs, err);
    if (rc) sonde_store_sqlite.close(*out);
    return rc;
}

int sonde_store_recent_open(const struct sonde_store_options *o, struct sonde_store **out,
                            struct sonde_err *err)
{
    const char *parent = o->path ? o->path : choose_folder();
    struct sonde_store *s = NULL;
    char folder[PATH_BYTES - sizeof(FILE_NAME) - 1];
    const int n = snprintf(folder, sizeof(folder), "%s/" FOLDER "XXXXXX", parent);
    if (n < 0 || (size_t)n >= sizeof(folder)) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.100s…' is too long a path", parent);
    }
    store_recent_sweep(parent);
    if (!mkdtemp(folder)) {
        return sonde_err_set(err, sonde__from_errno(errno),
                             "cannot make a folder in '%s': %s", parent, strerror(errno));
    }
    const int rc = open_in(folder, o, &s, err);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        remove_files(fd);
        close(fd);
    }
    rmdir(folder);
    if (!rc) *out = s;
    return rc;
}

/* ---- Giving up ------------------------------------------------------------------------------- */

int store_is_off(const struct sonde_store *s) { return __atomic_load_n(&s->off, __ATOMIC_RELAXED); }

/* What waits in memory. */
static void drop_memory(struct sonde_store *s)
{
    sonde_assert_held(&s->lock);
    while (s->pending) {
        struct store_pending *p = s->pending;
        s->pending = p->next;
        sonde__free(p);
    }
    s->pending_end = &s->pending;
    s->pending_bytes = 0;
    store_drop_rows(s);
    while (s->sealing) {
        struct block *b = s->sealing;
        s->sealing = b->next;
        store_block_put(b);
    }
    if (s->open) store_block_put(s->open);
    s->open = NULL;
    for (uint32_t i = 0; i < s->slot_count; i++) s->slots[i].column = UINT32_MAX;
    for (int k = 0; k < STORE_EVENTS; k++) {
        struct store_events *e = &s->events[k];
        sonde_buf_reset(&e->open.data);
        sonde_buf_reset(&e->out.data);
        e->open.kept = e->open.seen = e->out.kept = e->out.seen = 0;
    }
}

void store_give_up(struct sonde_store *s, const struct sonde_err *why)
{
    sonde_assert_held(&s->db_lock);
    assert(s->o.temporary);
    sonde_lock(&s->read_lock);
    sonde_lock(&s->lock);
    __atomic_store_n(&s->off, 1, __ATOMIC_RELAXED);
    s->stats.off = 1;
    s->stats.failures++;
    s->stats.failing_since_s = (double)store_now_ms() * 1e-3;
    snprintf(s->stats.problem, sizeof(s->stats.problem), "%.*s",
             (int)sizeof(s->stats.problem) - 1, why->text);
    drop_memory(s);
    sonde_cond_broadcast(&s->done);
    sonde_unlock(&s->lock);
    s->job = (struct store_job){ 0 };
    sqlite3_close_v2(s->read);
    s->read = NULL;
    store_disconnect(s);
    sonde_unlock(&s->read_lock);
    sonde_log(SONDE_LOG_WARN, "the history of the last hours is off: %s. What is in memory is "
              "shown; --store FILE keeps it elsewhere", why->text);
}
