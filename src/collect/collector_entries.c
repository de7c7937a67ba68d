/* collector_entries.c - the life of a segment in the agent: found, read, read for the last time
 * when its process is gone, kept for a while, forgotten.
 *
 * Names are <pid>.<start>[.<n>]: of one process that still runs only the highest n does, the
 * others were replaced by exec. A series is known to the world by its program and pid, so when
 * a pid comes back with the same program the older process is forgotten early: two series with
 * the same labels would make every scrape invalid. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "collect/collector_private.h"
#include "infer/tracker.h"

#define READ_BY_OTHERS_NS 2000000000u /* agents look for segments several times a second */
#define DEAD_FILES_MAX 64u            /* kept for an agent that comes later: they are memory */
#define RUSH_FILES 32u                /* more than those: too many to wait for other agents */
#define MAPPED_MAX 64u                /* segments of which what was read stays mapped */
#define ENDING_LOOKS 40               /* at a process that is just ending … */
#define ENDING_US 5000u               /* … and between two of them */

/* Take down why path was refused. */
static void collector_entry_refuse(struct sonde_collector *c, const char *path, const char *reason)
{
    struct sonde_collector_refusal *r = &c->refusals[c->refused++ % COLLECTOR_REFUSALS];
    snprintf(r->path, sizeof(r->path), "%.255s", path); /* longer ones are cut */
    snprintf(r->reason, sizeof(r->reason), "%.255s", reason);
    sonde_log(SONDE_LOG_WARN, "refused %s: %s", path, reason);
}

static void entry_refuse(struct sonde_collector *c, struct entry *e, const struct sonde_err *err)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", c->dir, e->name);
    collector_entry_refuse(c, path, err->text);
    sonde_segment_close(e->segment);
    e->segment = NULL;
}

static int process_is_used(const struct sonde_collector *c, const struct entry *but,
                           const struct sonde_model_process *p)
{
    for (size_t i = 0; i < c->entry_count; i++) {
        if (&c->entries[i] != but && c->entries[i].process == p) return 1;
    }
    return 0;
}

static void entry_forget(struct sonde_collector *c, struct entry *e)
{
    sonde_segment_close(e->segment);
    e->segment = NULL;
    sonde_buf_release(&e->last);
    c->model->activity++;
    if (e->process && !process_is_used(c, e, e->process)) {
        sonde_model_process_forget(c->model, e->process);
    }
    e->process = NULL;
}

/* ---- Opening ------------------------------------------------------------------------------ */

static int entry_wanted(const struct sonde_collector *c, const struct entry *e)
{
    if (c->pid == 0) return 1;
    if (e->elsewhere) return 0; /* its pid is another process's here */
    struct sonde_proc_stat st;
    if (e->id.pid == c->pid) {
        return sonde_proc_stat(c->pid, &st) != 0 || st.start == e->id.start;
    }
    if (sonde_proc_descends(e->id.pid, c->pid)) return 1;
    /* Its parent may be gone already, but have been one of ours. */
    const struct sonde__header *h = sonde_segment_header(e->segment);
    uint32_t parent = h->parent_pid;
    if (parent == c->pid) return 1;
    for (size_t i = 0; parent && i < c->entry_count; i++) {
        if (c->entries[i].id.pid == parent && c->entries[i].process) return 1;
    }
    /* Gone before anybody could ask whose child it was, and the script that started it records
     * nothing: the job it was part of tells. One that still runs and does not descend is another
     * part of the same job, as in `sonde run a | b`. */
    return c->group != 0 && h->group == c->group && e->id.start >= c->pid_start &&
           (sonde_proc_stat(e->id.pid, &st) != 0 || st.start != e->id.start);
}

/* 0: e's process must stay unknown, since a later one has its pid and program. */
static int entry_supersedes(struct sonde_collector *c, const struct entry *e, const char *program)
{
    for (size_t i = 0; i < c->entry_count; i++) {
        struct entry *other = &c->entries[i];
        if (!other->process || other->id.pid != e->id.pid || other->id.start == e->id.start ||
            strcmp(other->process->program, program) != 0) {
            continue;
        }
        if (other->id.start > e->id.start) return 0;
        entry_forget(c, other);
    }
    return 1;
}

static void entry_open(struct sonde_collector *c, int dirfd, struct entry *e)
{
    struct sonde_err err;
    int fresh = c->scans > 0 || e->id.start >= c->created_ticks;
    int rc = sonde_segment_open(dirfd, e->name, fresh, &e->segment, &err);
    if (rc == SONDE_ENOENT) return;
    if (rc != 0) {
        entry_refuse(c, e, &err);
        return;
    }
    const struct sonde_infer_sink sink = sonde_infer_sink(c->tracker);
    sonde_segment_deliver_to(e->segment, &sink);
    const struct sonde__header *h = sonde_segment_header(e->segment);
    char program[64];
    sonde_segment_program(e->segment, program);
    e->pid_ns = h->pid_ns;
    e->group = h->group;
    e->elsewhere = !sonde__is_here(h, &c->here);
    if (!program[0]) strcpy(program, "unknown");
    if (!entry_wanted(c, e) || !entry_supersedes(c, e, program)) {
        sonde_segment_close(e->segment);
        e->segment = NULL;
        return;
    }
    struct sonde_model_process *p =
        sonde_model_process(c->model, e->id.pid, e->id.start, program);
    char *path = sonde__alloc(strlen(c->dir) + strlen(e->name) + 2);
    if (!p || !path) {
        sonde__free(path);
        sonde_err_set(&err, SONDE_ENOMEM, "no memory to read it");
        entry_refuse(c, e, &err);
        return;
    }
    snprintf(path, strlen(c->dir) + strlen(e->name) + 2, "%s/%s", c->dir, e->name);
    sonde__free(p->path);
    p->path = path;
    p->state = SONDE_PROCESS_RUNNING;
    p->elsewhere = e->elsewhere;
    p->ended_s = 0;
    e->process = p;
    e->named = strcmp(program, h->program) != 0;
    e->wanted = 1;
    e->mono0_ns = sonde_segment_header(e->segment)->mono0_ns;
}

/* Under `sonde run` it is the preloaded library that makes the segment, before the program says
 * what it is called. */
static void entry_rename(struct sonde_collector *c, struct entry *e)
{
    char program[64];
    if (e->named || !e->process) return;
    sonde_segment_program(e->segment, program);
    if (!program[0] || strcmp(program, sonde_segment_header(e->segment)->program) == 0) return;
    /* Where the name is taken, by an image before this one, it stays as it is. */
    if (sonde_model_process_rename(c->model, e->process, program) != SONDE_ENOMEM) e->named = 1;
}

/* ---- Scanning ----------------------------------------------------------------------------- */

static struct entry *collector_entry_find(struct sonde_collector *c,
                                          const struct sonde_segment_name *id)
{
    for (size_t i = 0; i < c->entry_count; i++) {
        const struct sonde_segment_name *k = &c->entries[i].id;
        if (k->pid == id->pid && k->start == id->start && k->n == id->n) return &c->entries[i];
    }
    return NULL;
}

struct collector_scan { struct sonde_collector *c; int dirfd; };

static void scan_found(const char *name, const struct sonde_segment_name *id, void *arg)
{
    const struct collector_scan *scan = arg;
    struct sonde_collector *c = scan->c;
    struct entry *e = collector_entry_find(c, id);
    if (!e) {
        if (strlen(name) >= sizeof(e->name)) return;
        e = SONDE_ARRAY_ADD(c->entries, c->entry_count, c->entry_cap);
        if (!e) return;
        *e = (struct entry){ .id = *id };
        snprintf(e->name, sizeof(e->name), "%s", name);
        entry_open(c, scan->dirfd, e);
    }
    e->seen = 1;
}

/* The lock belongs in the directory that is there now; somebody may have replaced it. */
static void lock_renew(struct sonde_collector *c, int dirfd)
{
    struct stat st;
    struct sonde_err err;
    if (!c->agent || fstat(dirfd, &st) != 0) return;
    if (c->lock_fd >= 0 && c->lock_dev == st.st_dev && c->lock_ino == st.st_ino) return;
    if (c->lock_fd >= 0) close(c->lock_fd);
    c->lock_fd = sonde_discover_lock(dirfd, &err);
    if (c->lock_fd < 0) sonde_log(SONDE_LOG_WARN, "%s", err.text);
    c->lock_dev = st.st_dev;
    c->lock_ino = st.st_ino;
}

/* The directory's descriptor, or -1. */
static int collector_entry_scan(struct sonde_collector *c)
{
    struct sonde_err err;
    int dirfd = -1;
    for (size_t i = 0; i < c->entry_count; i++) c->entries[i].seen = 0;
    if (c->agent && mkdir(c->dir, 0700) != 0 && errno != EEXIST) {
        sonde_log(SONDE_LOG_DEBUG, "cannot create %s: %s", c->dir, strerror(errno));
    }
    int rc = sonde_discover_open(c->dir, &dirfd, &err);
    if (rc == 0) {
        struct collector_scan arg = { c, dirfd };
        c->dir_refused = 0;
        lock_renew(c, dirfd);
        rc = sonde_discover_scan(dirfd, scan_found, &arg, &err);
    }
    if (rc != 0 && rc != SONDE_ENOENT && !c->dir_refused) {
        c->dir_refused = 1;
        collector_entry_refuse(c, c->dir, err.text);
        /* Removed, and taken by another user since: programs go elsewhere now. */
        if (c->dir_default) sonde__dir_default(c->dir, sizeof(c->dir));
    }
    if (rc == 0 && c->scans == 0) collector_state_load(c, dirfd);
    c->scans++;
    return dirfd;
}

/* ---- Reading ------------------------------------------------------------------------------ */

/* Of an image that exec replaced, the process lives on. */
static int entry_replaced(const struct sonde_collector *c, const struct entry *e)
{
    for (size_t i = 0; i < c->entry_count; i++) {
        const struct sonde_segment_name *k = &c->entries[i].id;
        if (k->pid == e->id.pid && k->start == e->id.start && k->n > e->id.n &&
            c->entries[i].pid_ns == e->pid_ns) {
            return 1;
        }
    }
    return 0;
}

/* Pages of segments that are mapped here count as the agent's memory as well, some 160 KB of each
 * at least. Where there are many they are given back as soon as they are read: to map them again
 * takes some microseconds. */
static int entries_crowded(const struct sonde_collector *c)
{
    size_t open = 0;
    for (size_t i = 0; i < c->entry_count; i++) open += c->entries[i].segment != NULL;
    return open > MAPPED_MAX;
}

static void collector_entry_read(struct sonde_collector *c, struct entry *e, int last)
{
    struct sonde_err err;
    int rc = sonde_segment_drain(e->segment, c->model, e->process, &c->clock, last, &err);
    if (rc == 0) rc = sonde_segment_read(e->segment, c->model, e->process, last, &err);
    if (rc == SONDE_ENOMEM) sonde_log(SONDE_LOG_WARN, "%s: %s", e->name, err.text);
    else if (rc != 0) entry_refuse(c, e, &err);
}

static void collector_entry_end(struct sonde_collector *c, struct entry *e, int replaced,
                                double now_s)
{
    int closed = e->segment && sonde_segment_closed(e->segment);
    struct sonde_model_process *p = e->process;
    e->ended = 1;
    e->ended_s = now_s;
    e->ended_ns = c->clock.now_mono_ns;
    collector_state_entry(e);
    c->model->activity++;
    sonde_segment_close(e->segment);
    e->segment = NULL;
    if (!p) return;
    /* Another image with the same name goes on in its place. */
    for (size_t i = 0; i < c->entry_count; i++) {
        const struct entry *other = &c->entries[i];
        if (other != e && other->process == p && !other->ended) return;
    }
    p->state = closed || replaced ? SONDE_PROCESS_EXITED : SONDE_PROCESS_KILLED;
    p->ended_s = now_s;
    p->threads = 0;
}

/* Whether it lives is asked before it is read: then the last reading misses nothing. */
static void entry_step(struct sonde_collector *c, struct entry *e, int dirfd, double now_s)
{
    struct sonde_proc_stat st;
    int replaced = entry_replaced(c, e);
    int alive = !replaced &&
                sonde_discover_alive(dirfd, e->name, &e->id, e->segment, &c->here, &st);
    if (e->segment) entry_rename(c, e);
    if (e->segment) collector_entry_read(c, e, !alive);
    if (!alive) collector_entry_end(c, e, replaced, now_s);
    else if (e->process) e->process->threads = st.threads;
}

/* Only if it is a segment of this user's and nothing can write to it any more. */
static void file_remove(const struct sonde_collector *c, struct entry *e, int dirfd)
{
    if (dirfd < 0 || e->left_alone) return;
    const enum sonde__life life = sonde__life_sweep(dirfd, e->name, &c->here);
    if (life == SONDE__LIFE_DEAD || life == SONDE__LIFE_NONE) e->seen = 0;
    if (life == SONDE__LIFE_FOREIGN) e->left_alone = 1;
}

/* How many files of the dead there are too many. */
struct dead {
    size_t surplus; /* for the agent of a host to keep */
    size_t rush;    /* for anybody to wait for other agents */
};

static struct dead dead_count(const struct sonde_collector *c)
{
    size_t dead = 0;
    for (size_t i = 0; i < c->entry_count; i++) {
        const struct entry *e = &c->entries[i];
        dead += e->ended && e->seen && !e->left_alone && (c->pid == 0 || e->wanted);
    }
    const size_t kept = c->pid == 0 ? DEAD_FILES_MAX : 0;
    return (struct dead){ .surplus = dead > kept ? dead - kept : 0,
                          .rush = dead > kept + RUSH_FILES ? dead - kept - RUSH_FILES : 0 };
}

/* A program that is recorded may start thousands of others, and each leaves a file. They go as
 * soon as everybody here who reads them has them open, and other agents had time to, unless they
 * are too many for that. Of a process that has replaced itself they stay, since they number its
 * images. The agent of a host does so with those that are too many, the ones found first first. */
static void entry_remove(struct sonde_collector *c, struct entry *e, int dirfd,
                         struct dead *d)
{
    struct sonde_proc_stat st;
    if (!c->agent || !e->ended || !e->seen || (c->pid != 0 ? !e->wanted : !d->surplus)) return;
    if ((!d->rush && c->clock.now_mono_ns - e->ended_ns < READ_BY_OTHERS_NS) ||
        sonde_preload_readers_scanned_ns(&c->readers) <= e->ended_ns ||
        (sonde_proc_stat(e->id.pid, &st) == 0 && st.start == e->id.start)) {
        return;
    }
    file_remove(c, e, dirfd);
    if (e->seen) return;
    if (d->surplus) d->surplus--;
    if (d->rush) d->rush--;
}

static void entry_expire(struct sonde_collector *c, struct entry *e, int dirfd, double now_s)
{
    if (!e->ended || now_s - e->ended_s < c->retain_s) return;
    entry_forget(c, e);
    /* Who looks at one program only leaves the others' files alone. */
    if (!c->agent || !e->seen || (c->pid != 0 && !e->wanted)) return;
    file_remove(c, e, dirfd);
}

static void entries_clear(struct sonde_collector *c, int dirfd, double now_s)
{
    struct dead dead = dead_count(c);
    size_t kept = 0;
    for (size_t i = 0; i < c->entry_count; i++) {
        struct entry *e = &c->entries[i];
        entry_remove(c, e, dirfd, &dead);
        entry_expire(c, e, dirfd, now_s);
        /* A file that is still there stays known, or it would be found as a new one. */
        if (e->seen || e->process) c->entries[kept++] = *e;
    }
    c->entry_count = kept;
}

void collector_entries_step(struct sonde_collector *c, double now_s)
{
    sonde_assert_held(&c->lock);
    sonde_assert_held_write(&c->model->lock);
    int dirfd = collector_entry_scan(c);
    const int crowded = entries_crowded(c);
    for (size_t i = 0; i < c->entry_count; i++) {
        struct entry *e = &c->entries[i];
        if (!e->ended) entry_step(c, e, dirfd, now_s);
        if (crowded && e->segment) sonde_segment_forget(e->segment);
    }
    entries_clear(c, dirfd, now_s);
    if (dirfd >= 0) close(dirfd);
}

/* A process that begins now may fill a ring before the next tick. */
static int dir_changed(struct sonde_collector *c)
{
    struct stat st;
    if (stat(c->dir, &st) != 0) return 0;
    const uint64_t ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    const int changed = ns != c->dir_changed_ns;
    c->dir_changed_ns = ns;
    return changed;
}

/* Between two ticks a program may start hundreds of others: their files are memory, and do not wait
 * for the next. */
static void entries_rush(struct sonde_collector *c, int dirfd)
{
    struct sonde_proc_stat st;
    const double now_s = sonde_clock_s(CLOCK_REALTIME);
    size_t files = 0;
    for (size_t i = 0; i < c->entry_count; i++) files += c->entries[i].seen != 0;
    if (!c->agent || files <= RUSH_FILES) return;
    for (size_t i = 0; i < c->entry_count; i++) {
        struct entry *e = &c->entries[i];
        if (e->ended) continue;
        if (entry_replaced(c, e) ||
            !sonde_discover_alive(dirfd, e->name, &e->id, e->segment, &c->here, &st)) {
            entry_step(c, e, dirfd, now_s);
        }
    }
    entries_clear(c, dirfd, now_s);
}

void collector_entries_drain(struct sonde_collector *c)
{
    sonde_assert_held(&c->lock);
    sonde_assert_held_write(&c->model->lock);
    struct sonde_err err;
    if (dir_changed(c)) {
        const int dirfd = collector_entry_scan(c);
        if (dirfd >= 0) entries_rush(c, dirfd);
        if (dirfd >= 0) close(dirfd);
    }
    const int crowded = entries_crowded(c);
    for (size_t i = 0; i < c->entry_count; i++) {
        struct entry *e = &c->entries[i];
        if (!e->segment) continue;
        int rc = sonde_segment_drain(e->segment, c->model, e->process, &c->clock, 0, &err);
        if (rc != 0 && rc != SONDE_ENOMEM) entry_refuse(c, e, &err);
        if (crowded && e->segment && sonde_segment_fullest(e->segment)) {
            sonde_segment_forget(e->segment);
        }
    }
}

uint32_t collector_entries_fullest(const struct sonde_collector *c)
{
    uint32_t fullest = 0;
    for (size_t i = 0; i < c->entry_count; i++) {
        if (!c->entries[i].segment) continue;
        const uint32_t n = sonde_segment_fullest(c->entries[i].segment);
        if (n > fullest) fullest = n;
    }
    return fullest;
}

/* One that was still running when its parent was gone could have been anybody's (see entry_wanted).
 * If it is of the same job and has ended in good order since, it has left its file to an agent. */
static int left_to_us(const struct sonde_collector *c, const struct entry *e, int dirfd)
{
    struct sonde_segment *segment;
    if (e->elsewhere || !c->group || e->group != c->group || e->id.start < c->pid_start ||
        sonde_segment_open(dirfd, e->name, 0, &segment, NULL) != 0) {
        return 0;
    }
    const int closed = sonde_segment_closed(segment);
    sonde_segment_close(segment);
    return closed;
}

/* The agent of a single program is not started again, so it leaves nothing behind. It ceases to be
 * an agent first: programs that end from now on remove their files themselves. Those that ended
 * since the last look, as helpers do when the program is gone, have left theirs to us; one that is
 * just ending is waited for. */
static void remove_ended(struct sonde_collector *c)
{
    if (!c->agent || c->pid == 0 || access(c->dir, F_OK) != 0) return;
    const int dirfd = collector_entry_scan(c);
    if (dirfd < 0) return;
    if (c->lock_fd >= 0) close(c->lock_fd);
    c->lock_fd = -1;
    for (size_t i = 0; i < c->entry_count; i++) {
        struct entry *e = &c->entries[i];
        if (!e->seen || (!e->wanted && !left_to_us(c, e, dirfd))) continue;
        int looks = e->segment && sonde_segment_closed(e->segment) ? ENDING_LOOKS : 0;
        sonde_segment_close(e->segment); /* or it would have a writer: us */
        e->segment = NULL;
        file_remove(c, e, dirfd);
        for (; looks && e->seen && !e->left_alone; looks--) {
            usleep(ENDING_US);
            file_remove(c, e, dirfd);
        }
    }
    close(dirfd);
}

void collector_entries_free(struct sonde_collector *c)
{
    assert(!c->thread.started);
    remove_ended(c);
    for (size_t i = 0; i < c->entry_count; i++) {
        sonde_segment_close(c->entries[i].segment);
        sonde_buf_release(&c->entries[i].last);
    }
    sonde__free(c->entries);
}

/* ---- Processes without a segment ---------------------------------------------------------- */

static int has_segment(const struct sonde_collector *c, const struct watched *w)
{
    for (size_t i = 0; i < c->entry_count; i++) {
        const struct entry *e = &c->entries[i];
        if (e->process && e->id.pid == w->pid && e->id.start == w->start) return 1;
    }
    return 0;
}

/* 0: done with it. */
static int watched_step(struct sonde_collector *c, struct watched *w, double now_s)
{
    struct sonde_proc_stat st;
    int alive = sonde_proc_stat(w->pid, &st) == 0 && (w->start == 0 || w->start == st.start);
    if (alive) w->start = st.start;
    struct sonde_model_process *p = w->process;
    int told = has_segment(c, w);
    /* It may be another program by now, or have opened a segment, which knows its name better;
     * under the same name it is the same process in the model. */
    if (p && (told || (alive && strcmp(p->program, st.comm) != 0))) {
        w->process = NULL;
        if (!p->path) sonde_model_process_forget(c->model, p);
    }
    if (!alive) {
        if (told || !w->process) return 0;
        if (w->ended_s > 0 && now_s - w->ended_s >= c->retain_s) {
            sonde_model_process_forget(c->model, w->process);
            return 0;
        }
        if (w->ended_s > 0) return 1;
        w->ended_s = w->process->ended_s = now_s;
        w->process->state = SONDE_PROCESS_EXITED;
        w->process->threads = 0;
        return 1;
    }
    if (told) return 1;
    if (!w->process) w->process = sonde_model_process(c->model, w->pid, w->start, st.comm);
    if (w->process) w->process->threads = st.threads;
    return 1;
}

void collector_watched_step(struct sonde_collector *c, double now_s)
{
    sonde_assert_held(&c->lock);
    sonde_assert_held_write(&c->model->lock);
    size_t kept = 0;
    for (size_t i = 0; i < c->watched_count; i++) {
        if (watched_step(c, &c->watched[i], now_s)) c->watched[kept++] = c->watched[i];
    }
    c->watched_count = kept;
}
