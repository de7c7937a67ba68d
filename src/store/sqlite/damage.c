/* damage.c - a file that SQLite finds damaged is kept as FILE.damaged-TIME, and recording goes
 * on in a new one: what is recorded now is worth more than a repair nobody looks at. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/log.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

enum { CHECK_MAX = 64 << 20 }; /* a file up to this size is checked whole when it is opened */

int store_is_damage(int code) { return code == SQLITE_CORRUPT || code == SQLITE_NOTADB; }

/* What is wrong, as SQLite says it: "Tree 7 page 12: …". Large files are not looked at: a damaged
 * page is then found when it is used. */
int store_check_pages(struct sonde_store *s, int whatever_size, char *what, size_t what_size)
{
    sonde_assert_held(&s->db_lock);
    struct stat st;
    if (!whatever_size && stat(s->path, &st) == 0 && st.st_size > CHECK_MAX) return 0;
    sqlite3_stmt *check = NULL;
    int damaged = 0;
    if (sqlite3_prepare_v2(s->db, "PRAGMA quick_check(1)", -1, &check, NULL) == SQLITE_OK &&
        sqlite3_step(check) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(check, 0);
        damaged = text && strcmp(text, "ok") != 0;
        if (damaged) {
            const char *line = strchr(text, '\n'); /* the first says only which database */
            snprintf(what, what_size, "%s", line ? line + 1 : text);
            what[strcspn(what, "\n")] = '\0';
        }
    } else if (store_is_damage(sqlite3_errcode(s->db) & 0xff)) {
        damaged = 1;
        snprintf(what, what_size, "%s", sqlite3_errmsg(s->db));
    }
    sqlite3_finalize(check);
    return damaged;
}

/* The errno of what failed, or 0. */
static int move_aside(const struct sonde_store *s, const char *suffix, const char *aside)
{
    struct sonde_buf from, to;
    sonde_buf_init(&from, 1 << 16);
    sonde_buf_init(&to, 1 << 16);
    sonde_buf_printf(&from, "%s%s", s->path, suffix);
    sonde_buf_printf(&to, "%s%s", aside, suffix);
    int failure = from.error || to.error ? ENOMEM : 0;
    if (!failure && rename(from.data, to.data) != 0 && errno != ENOENT) {
        failure = errno;
        /* A log that does not belong to the new file would be replayed into it. */
        if (*suffix && unlink(from.data) == 0) failure = 0;
    }
    sonde_buf_release(&from);
    sonde_buf_release(&to);
    return failure;
}

/* Whatever can be, is kept: without its place nothing is begun in it. */
static int move_all_aside(const struct sonde_store *s, const char *aside, struct sonde_err *err)
{
    static const char *const suffixes[] = { "", "-wal", "-shm" };
    int failure = 0;
    for (size_t i = 0; i < SONDE_COUNT(suffixes) && !failure; i++) {
        failure = move_aside(s, suffixes[i], aside);
    }
    return !failure ? 0 : sonde_err_set(err, SONDE_EIO, "store '%s' is damaged and cannot be kept "
                                        "as '%s': %s; move it yourself, or choose another file",
                                        s->path, aside, strerror(failure));
}

/* The damaged file; s has none then. */
static int put_aside(struct sonde_store *s, struct sonde_err *err)
{
    char when[32], what[256] = "";
    const time_t now = time(NULL);
    struct tm tm;
    strftime(when, sizeof(when), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
    if (s->db) store_check_pages(s, 1, what, sizeof(what));
    store_disconnect(s);
    sonde_lock(&s->read_lock);
    sqlite3_close_v2(s->read);
    s->read = NULL;
    sonde_unlock(&s->read_lock);
    struct sonde_buf aside;
    sonde_buf_init(&aside, 1 << 16);
    sonde_buf_printf(&aside, "%s.damaged-%s", s->path, when);
    for (int n = 2; !aside.error && access(aside.data, F_OK) == 0 && n < 1000; n++) {
        sonde_buf_reset(&aside);
        sonde_buf_printf(&aside, "%s.damaged-%s.%d", s->path, when, n);
    }
    const int rc = aside.error ? sonde_err_memory(err)
                               : move_all_aside(s, aside.data, err);
    if (rc) {
        sonde_buf_release(&aside);
        return rc;
    }
    sonde_log(SONDE_LOG_ERROR, "store '%s' is damaged (%s): it is kept as '%s', and recording goes "
              "on in a new file. `sqlite3 '%s' .recover | sqlite3 rescued.db` may save what is "
              "in it; a damaged file often means a failing disk", s->path,
              what[0] ? what : "found while it was used", aside.data, aside.data);
    sonde_lock(&s->lock);
    snprintf(s->stats.problem, sizeof(s->stats.problem), "was damaged; kept as %s", aside.data);
    sonde_unlock(&s->lock);
    sonde_buf_release(&aside);
    __atomic_store_n(&s->damaged, 0, __ATOMIC_RELAXED);
    s->job = (struct store_job){ 0 };
    return 0;
}

int store_start_over(struct sonde_store *s, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    int rc = store_is_damaged(s) ? put_aside(s, err) : 0;
    if (!rc && !s->db) {
        rc = store_set_up(s, err);
        if (rc) store_disconnect(s); /* a disk may be full as well: another time */
    }
    return rc || s->read ? rc : store_connect(s, SQLITE_OPEN_READONLY, &s->read, err);
}
