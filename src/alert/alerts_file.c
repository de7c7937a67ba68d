/* alerts_file.c - the state's file: alerts, mutes, burn rates and what waits to be sent, all of it
 * or nothing.
 *
 *   "SONDEAL1" · check sum of what follows (8 bytes) · alerts · queue · mutes · burn rates
 *
 * It is replaced as a whole and is on the disk before a notification of it is sent. What was taken
 * by a receiver is noted at once, or while more waits for it at most five times per second: a crash
 * in between sends it again, with the same id. A second agent that finds the file in use goes on in
 * memory. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alert/alert_private.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "sonde/sonde.h"

#define STATE_MAGIC "SONDEAL1"
#define SAVE_EVERY_S 0.2
enum { STATE_HEAD = 16, STATE_MAX = 32 << 20 };

static void alerts_file_all_state(struct sonde_state *s, struct sonde_alerts *a)
{
    alert_table_state(s, &a->table); /* before the queue, which notes what waits for each */
    alerts_queue_state(s, a);
    alert_mutes_state(s, &a->mutes);
    alert_burn_state(s, &a->burn);
}

/* ---- Loading --------------------------------------------------------------------------------- */

static void alerts_file_load(struct sonde_alerts *a)
{
    struct sonde_buf b;
    struct sonde_err err = { "" };
    uint64_t sum = 0;
    sonde_buf_init(&b, STATE_MAX);
    if (access(a->state, F_OK) != 0) return;
    const int rc = sonde_file_read(a->state, &b, &err);
    int bad = rc != 0 || b.len < STATE_HEAD || memcmp(b.data, STATE_MAGIC, 8) != 0;
    if (!bad) {
        memcpy(&sum, b.data + 8, sizeof(sum));
        bad = sum != sonde_state_check(b.data + STATE_HEAD, b.len - STATE_HEAD);
    }
    if (!bad) {
        struct sonde_state s = { .from = (const unsigned char *)b.data + STATE_HEAD,
                                 .len = b.len - STATE_HEAD };
        sonde_lock(&a->lock);
        alerts_file_all_state(&s, a);
        sonde_unlock(&a->lock);
        bad = s.bad;
    }
    if (bad) {
        sonde_log(SONDE_LOG_WARN, "alerts: %s is damaged or of another version%s%s; alerts begin "
                  "anew", a->state, rc ? ": " : "", rc ? err.text : "");
    }
    sonde_buf_release(&b);
}

/* Folders of the default path may not be there yet. */
static void alerts_file_make_folders(const char *path)
{
    char folder[4096];
    if (snprintf(folder, sizeof(folder), "%s", path) >= (int)sizeof(folder)) return;
    for (char *c = folder + 1; *c; c++) {
        if (*c != '/') continue;
        *c = '\0';
        mkdir(folder, 0700);
        *c = '/';
    }
}

int alerts_file_open(struct sonde_alerts *a, const char *path, struct sonde_err *err)
{
    char lock[4096];
    a->state = sonde__strdup(path);
    if (!a->state) return sonde_err_memory(err);
    alerts_file_make_folders(path);
    if (snprintf(lock, sizeof(lock), "%s.lock", path) >= (int)sizeof(lock)) {
        return sonde_err_set(err, SONDE_EINVAL, "alerts.state: too long a path");
    }
    a->state_lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    const int in_use = a->state_lock_fd >= 0 && flock(a->state_lock_fd, LOCK_EX | LOCK_NB) != 0;
    if (a->state_lock_fd < 0 || in_use) {
        sonde_log(SONDE_LOG_WARN, "alerts: state is kept in memory, and lost with this agent: "
                  "%s: %s", lock, in_use ? "another agent uses it" : strerror(errno));
        if (a->state_lock_fd >= 0) close(a->state_lock_fd);
        a->state_lock_fd = -1;
        sonde__free(a->state);
        a->state = NULL;
        return 0;
    }
    alerts_file_load(a);
    return 0;
}

void alerts_file_close(struct sonde_alerts *a)
{
    if (a->state_lock_fd >= 0) close(a->state_lock_fd);
    a->state_lock_fd = -1;
    sonde__free(a->state);
    a->state = NULL;
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static int alerts_file_write(const struct sonde_alerts *a, struct sonde_buf *b,
                             struct sonde_err *err)
{
    if (b->error) return sonde_err_set(err, b->error, "%s", sonde_strerror(b->error));
    const uint64_t sum = sonde_state_check(b->data + STATE_HEAD, b->len - STATE_HEAD);
    memcpy(b->data + 8, &sum, sizeof(sum));
    struct sonde_file_temp t;
    int rc = sonde_file_temp_create(&t, a->state, err);
    if (rc) return rc;
    fchmod(t.fd, 0600); /* labels may say more than others should know */
    rc = sonde_file_write_all(t.fd, b->data, b->len);
    if (rc) sonde_err_set(err, rc, "%s: %s", a->state, strerror(errno));
    else rc = sonde_file_temp_commit(&t, err);
    sonde_file_temp_release(&t);
    return rc;
}

void alerts_file_save(struct sonde_alerts *a, uint64_t version)
{
    struct sonde_err err = { "" };
    struct sonde_buf b;
    sonde_buf_init(&b, STATE_MAX);
    sonde_lock(&a->file_lock);
    sonde_lock(&a->lock);
    const int needed = a->saved_version < version && a->state;
    const uint64_t now = a->version, table = a->table.changed;
    if (needed) {
        struct sonde_state s = { .to = &b };
        sonde_buf_add(&b, STATE_MAGIC "        ", STATE_HEAD);
        alerts_file_all_state(&s, a);
    }
    sonde_unlock(&a->lock);
    const int rc = needed ? alerts_file_write(a, &b, &err) : 0;
    sonde_lock(&a->lock);
    /* What cannot be kept is sent all the same: better twice than never. */
    if (a->saved_version < now) a->saved_version = now;
    if (needed) a->table_saved = table;
    a->saved_at_s = sonde_clock_s(CLOCK_MONOTONIC);
    sonde_unlock(&a->lock);
    if (rc && !a->told_unsaved) {
        sonde_log(SONDE_LOG_ERROR, "alerts: state is not kept: %s", err.text);
    }
    if (needed) a->told_unsaved = rc != 0;
    sonde_unlock(&a->file_lock);
    sonde_buf_release(&b);
}

void alerts_file_save_soon(struct sonde_alerts *a, size_t i)
{
    sonde_lock(&a->lock);
    const uint64_t version = a->version;
    const double since_s = sonde_clock_s(CLOCK_MONOTONIC) - a->saved_at_s;
    const int due = !alerts_queue_count(a, i) || since_s >= SAVE_EVERY_S;
    sonde_unlock(&a->lock);
    if (due) alerts_file_save(a, version);
}
