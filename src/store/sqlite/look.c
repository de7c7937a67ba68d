/* look.c - a store that is only looked at.
 *
 * A store keeps a log beside it, and SQLite wants to make files for that even to read. Where
 * nothing can be written (a disk that is mounted for reading, a folder of somebody else) it
 * refuses; without a log the file is all there is, and is read as one that does not change. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/run/private.h"
#include "store/sqlite/private.h"

enum { HEADER = 100, APPLICATION_AT = 68 }; /* of a database */

int sonde_store_is_file(const char *path)
{
    unsigned char head[HEADER] = "";
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    uint32_t application = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a FIFO */
    if (fd < 0) return 0;
    const ssize_t n = pread(fd, head, sizeof(head), 0);
    close(fd);
    if (n != HEADER || memcmp(head, SONDE_RUN_MAGIC, sizeof(SONDE_RUN_MAGIC)) != 0) return 0;
    for (int i = 0; i < 4; i++) application = application << 8 | head[APPLICATION_AT + i];
    if (application == STORE_APPLICATION) return 1;
    /* What tells it may be in the log still. */
    int is = 0;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "PRAGMA application_id", -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW) {
        is = sqlite3_column_int(st, 0) == STORE_APPLICATION;
    }
    sqlite3_finalize(st);
    sqlite3_close(db);
    return is;
}

/* Bytes of the log; 0 = there is none. */
static int64_t log_bytes(const struct sonde_store *s)
{
    struct sonde_buf path;
    struct stat st;
    sonde_buf_init(&path, 1 << 16);
    sonde_buf_printf(&path, "%s-wal", s->path);
    const int there = !path.error && stat(path.data, &st) == 0;
    sonde_buf_release(&path);
    return there ? st.st_size : 0;
}

/* SQLite could not make its files: again without any. */
static int look_at_file(struct sonde_store *s, int64_t *version, struct sonde_err *err)
{
    if (log_bytes(s) > 0) {
        return sonde_err_set(err, SONDE_EACCES, "store '%s' was not closed, and nothing can be "
                             "written here: copy it with '%s-wal' to a folder of yours", s->path,
                             s->path);
    }
    sqlite3_close_v2(s->read);
    s->read = NULL;
    s->uri = sonde_run_uri(s->path);
    if (!s->uri) return sonde_err_memory(err);
    const int rc = store_connect(s, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, &s->read, err);
    return rc ? rc : store_check_kind(s, s->read, version, err);
}

int store_look(struct sonde_store *s, struct sonde_err *err)
{
    int64_t version = 0, application = 0;
    if (access(s->path, F_OK) != 0) {
        return sonde_err_set(err, SONDE_ENOENT, "there is no store '%s'", s->path);
    }
    int rc = store_connect(s, SQLITE_OPEN_READONLY, &s->read, err);
    if (!rc) {
        rc = store_check_kind(s, s->read, &version, err);
        if (rc && (sqlite3_errcode(s->read) & 0xff) == SQLITE_CANTOPEN) {
            rc = look_at_file(s, &version, err);
        }
    }
    if (!rc) rc = store_number(s, s->read, "PRAGMA application_id", 0, &application, err);
    if (!rc && application != STORE_APPLICATION) {
        rc = sonde_err_set(err, SONDE_EFORMAT, "'%s' is not a store", s->path);
    }
    s->version = (int)version;
    return rc ? rc : store_recover(s, s->read, err);
}
