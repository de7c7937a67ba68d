/* collector_state.c - from one agent to the next: what was counted out of the rings, and how far
 * they were read for it.
 *
 * Counters of programs are in their segments and outlive any agent. What the agent itself counts,
 * spans and inference, comes out of rings that hold the newest records only: an agent that began
 * again with what is in them would count a part, and that part twice. So the agent keeps a file
 * beside the segments, agent.state, which outlives it and not the boot:
 *
 *   magic, version, the boot, bytes, check | unix offset, processes, segments (positions in their
 *   rings, what waits for its record), series that the agent counts, requests in flight and events
 *   in order
 *
 * It is made of one instant, between two drains, so positions and counts agree: the next agent
 * reads each ring from there, and what was overwritten meanwhile is counted as lost. It is written
 * under another name and renamed, so whoever is killed leaves the one before or this one.
 *
 * When: after a drain that found something, if the last is a tenth of a second ago, or if half a
 * ring would have to be read again. Not more often than that it takes a hundredth of the time; an
 * agent that finds nothing writes nothing. Rejected: a journal of events (it has to be compacted,
 * and the totals are small), shared memory written in place (a kill in the midst leaves neither old
 * nor new).
 *
 * Its age tells programs whether there was an agent a moment ago: one that ends meanwhile leaves
 * its segment to the next (record/file.c). So it is written at the start and touched now and then,
 * unless there are more processes than may leave something.
 *
 * Whose: of several agents on a directory the one that has the second byte of agent.lock locked
 * (the first ones' flock() is shared). Agents of one program (`run`, `record`) have none: they end
 * with it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/state.h"
#include "base/strip.h"
#include "collect/collector_private.h"
#include "infer/tracker.h"

#define NAME "agent.state"
#define NAME_NEW "agent.state.new"
#define MAGIC "sondest\n"
#define VERSION 4u
#define BYTES_MAX (64u << 20)
#define PERIOD_NS 100000000u
#define COST_MAX 100u           /* writing takes one in so many nanoseconds, at most … */
#define COST_MAX_BUSY 10u       /* … or one in so many, if rings fill up meanwhile */
#define TOUCH_NS 5000000000u
#define LEAVERS_MAX 64u         /* processes that may leave their segments to the next agent */
#define OWN_TRIES 20            /* 10 ms each: the agent before may be on its way out */

struct collector_state_header {
    char magic[8];
    uint32_t version;
    uint32_t stripped;          /* names and labels are without what --strip takes away */
    uint8_t boot_id[16];
    uint64_t bytes;             /* that follow */
    uint64_t check;             /* of them */
};

/* ---- Whose it is ---------------------------------------------------------------------------- */

/* Also renews: the lock is gone with the descriptor, whoever closed it. */
static int state_own(const struct sonde_collector *c)
{
    struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1 };
    return c->agent && c->pid == 0 && c->lock_fd >= 0 &&
           fcntl(c->lock_fd, F_OFD_SETLK, &range) == 0;
}

/* ---- Processes and segments ----------------------------------------------------------------- */

static void collector_state_process_io(struct sonde_state *s, struct sonde_model_process *p,
                                       char program[64])
{
    sonde_state_u64(s, &p->serial);
    sonde_state_u32(s, &p->pid);
    sonde_state_u64(s, &p->start_time);
    sonde_state_text(s, program, 64);
    sonde_state_u64(s, &p->spans_seen);
    sonde_state_u64(s, &p->spans_lost);
    sonde_state_u64(s, &p->gap_ns);
}

struct segment_key { uint64_t serial, start, mono0_ns; uint32_t pid, n; };

static void key_io(struct sonde_state *s, struct segment_key *k)
{
    sonde_state_u64(s, &k->serial);
    sonde_state_u32(s, &k->pid);
    sonde_state_u64(s, &k->start);
    sonde_state_u32(s, &k->n);
    sonde_state_u64(s, &k->mono0_ns);
}

/* Its positions are known, from the segment or from when that was read for the last time. */
static int entry_counts(const struct entry *e) { return e->process && (e->segment || e->last.len); }

static void segments_save(const struct sonde_collector *c, struct sonde_state *s)
{
    uint64_t count = 0;
    for (size_t i = 0; i < c->entry_count; i++) count += entry_counts(&c->entries[i]) != 0;
    sonde_state_u64(s, &count);
    for (size_t i = 0; i < c->entry_count; i++) {
        const struct entry *e = &c->entries[i];
        if (!entry_counts(e)) continue;
        struct segment_key k = { .serial = e->process->serial, .pid = e->id.pid,
                                 .start = e->id.start, .n = e->id.n, .mono0_ns = e->mono0_ns };
        key_io(s, &k);
        const size_t part = sonde_state_begin(s);
        if (e->segment) sonde_segment_state(e->segment, s);
        else sonde_buf_add(s->to, e->last.data, e->last.len);
        sonde_state_end(s, part);
    }
}

void collector_state_entry(struct entry *e)
{
    struct sonde_state s = { .to = &e->last };
    sonde_buf_release(&e->last);
    sonde_buf_init(&e->last, 1u << 20);
    if (e->segment) sonde_segment_state(e->segment, &s);
    if (e->last.error) sonde_buf_release(&e->last);
}

static struct entry *entry_of(struct sonde_collector *c, const struct segment_key *k)
{
    for (size_t i = 0; i < c->entry_count; i++) {
        struct entry *e = &c->entries[i];
        if (e->id.pid == k->pid && e->id.start == k->start && e->id.n == k->n) return e;
    }
    return NULL;
}

static void known_set(struct sonde_model_known *known, size_t count, uint64_t serial,
                      struct sonde_model_process *p)
{
    for (size_t i = 0; i < count; i++) {
        if (known[i].serial == serial) known[i].process = p;
    }
}

static void segments_load(struct sonde_collector *c, struct sonde_state *s,
                          struct sonde_model_known *known, size_t known_count)
{
    uint64_t count = 0;
    sonde_state_count(s, &count, 1u << 20);
    for (uint64_t i = 0; i < count && !s->bad; i++) {
        struct segment_key k = { 0 };
        key_io(s, &k);
        const size_t part = sonde_state_begin(s);
        struct entry *e = s->bad ? NULL : entry_of(c, &k);
        if (e && e->segment && e->process && e->mono0_ns == k.mono0_ns) {
            sonde_segment_state(e->segment, s);
            known_set(known, known_count, k.serial, e->process);
        }
        sonde_state_end(s, part);
    }
}

/* ---- All of it ------------------------------------------------------------------------------ */

static void payload_save(const struct sonde_collector *c, struct sonde_state *s)
{
    const struct sonde_model *m = c->model;
    uint64_t offset_ns = c->clock.unix_ns, count = m->process_count;
    uint32_t infer = c->tracker != NULL;
    sonde_state_u64(s, &offset_ns);
    sonde_state_u64(s, &count);
    for (size_t i = 0; i < m->process_count; i++) {
        struct sonde_model_process p = *m->processes[i];
        char program[64];
        snprintf(program, sizeof(program), "%.63s", p.program);
        collector_state_process_io(s, &p, program);
    }
    segments_save(c, s);
    sonde_model_save(m, s);
    sonde_state_u32(s, &infer);
    if (infer) sonde_infer_save(c->tracker, s);
}

static void counts_set(const struct sonde_model_known *known,
                       const struct sonde_model_process *saved, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sonde_model_process *p = known[i].process;
        if (!p) continue;
        p->spans_seen += saved[i].spans_seen;
        p->spans_lost += saved[i].spans_lost;
        if (saved[i].gap_ns > p->gap_ns) p->gap_ns = saved[i].gap_ns;
    }
}

static size_t processes_load(struct sonde_state *s, struct sonde_model_process **saved,
                             struct sonde_model_known **known)
{
    uint64_t count = 0, last = 0;
    sonde_state_count(s, &count, 1u << 20);
    if (count > s->len) s->bad = 1; /* each takes some bytes */
    *saved = s->bad ? NULL : sonde__calloc((size_t)count + 1, sizeof(**saved));
    *known = s->bad ? NULL : sonde__calloc((size_t)count + 1, sizeof(**known));
    if (!*saved || !*known) {
        s->bad = 1;
        return 0;
    }
    for (uint64_t i = 0; i < count && !s->bad; i++) {
        char program[64];
        collector_state_process_io(s, &(*saved)[i], program);
        (*known)[i].serial = (*saved)[i].serial;
        if ((*saved)[i].serial <= last) s->bad = 1;
        last = (*saved)[i].serial;
    }
    return s->bad ? 0 : (size_t)count;
}

static void payload_load(struct sonde_collector *c, struct sonde_state *s)
{
    struct sonde_model *m = c->model;
    struct sonde_model_process *saved = NULL;
    struct sonde_model_known *known = NULL;
    uint64_t offset_ns = 0;
    uint32_t infer = 0;
    sonde_state_u64(s, &offset_ns);
    sonde_unix_offset_adopt(offset_ns);
    const size_t count = processes_load(s, &saved, &known);
    segments_load(c, s, known, count);
    if (!s->bad) {
        const struct sonde_model_knowns k = { known, count };
        counts_set(known, saved, count);
        sonde_model_load(m, s, &k);
        sonde_state_u32(s, &infer);
        if (infer && !s->bad && c->tracker) sonde_infer_load(c->tracker, s, &k);
    }
    sonde__free(saved);
    sonde__free(known);
}

/* ---- Reading the file ----------------------------------------------------------------------- */

/* 0; SONDE_ENOENT; SONDE_EFORMAT with the reason. */
static int file_read(int dirfd, struct sonde_buf *out, struct sonde_err *err)
{
    struct stat st;
    struct collector_state_header h;
    uint8_t boot_id[16];
    const int fd = openat(dirfd, NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return SONDE_ENOENT;
    const char *reason = NULL;
    sonde__boot_id(boot_id);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 022)) {
        reason = "it is not a file of this user";
    } else if (sonde_file_read_full(fd, &h, sizeof(h)) != (ssize_t)sizeof(h) ||
               memcmp(h.magic, MAGIC, sizeof(h.magic)) != 0 || h.bytes > BYTES_MAX) {
        reason = "it is damaged";
    } else if (h.version != VERSION) {
        reason = "another version of sonde wrote it";
    } else if (memcmp(h.boot_id, boot_id, sizeof(boot_id)) != 0) {
        reason = "the machine was started again since";
    } else if (h.stripped != (uint32_t)(sonde_strip_on() != 0)) {
        reason = "it was made with another setting of --strip";
    } else {
        char *to = sonde_buf_reserve(out, (size_t)h.bytes);
        const ssize_t n = to ? sonde_file_read_full(fd, to, (size_t)h.bytes) : -1;
        out->len += n > 0 ? (size_t)n : 0;
        if (n != (ssize_t)h.bytes || sonde_state_check(out->data, out->len) != h.check) {
            reason = "it is damaged";
        }
    }
    close(fd);
    return reason ? sonde_err_set(err, SONDE_EFORMAT, "%s", reason) : 0;
}

static uint64_t records_lost(const struct sonde_model *m)
{
    uint64_t lost = 0;
    for (size_t i = 0; i < m->process_count; i++) lost += m->processes[i]->spans_lost;
    return lost;
}

void collector_state_tell_lost(struct sonde_collector *c)
{
    sonde_assert_held(&c->lock);
    sonde_assert_held(&c->model->lock);
    if (!c->state.loaded) return;
    c->state.loaded = 0;
    const uint64_t lost = records_lost(c->model);
    if (lost <= c->state.lost) return;
    sonde_log(SONDE_LOG_WARN, "%llu records of spans and requests were overwritten while no agent "
              "ran: they are in no figures, and requests that they belong to count as lost",
              (unsigned long long)(lost - c->state.lost));
}

void collector_state_load(struct sonde_collector *c, int dirfd)
{
    sonde_assert_held(&c->lock);
    sonde_assert_held_write(&c->model->lock);
    struct sonde_err err;
    struct sonde_buf bytes;
    if (!c->agent || c->pid != 0 || c->lock_fd < 0) return;
    for (int i = 0; !state_own(c); i++) {
        const struct timespec pause = { .tv_nsec = 10000000 };
        if (i == OWN_TRIES) {
            sonde_log(SONDE_LOG_INFO, "another agent reads %s and keeps " NAME ": spans and "
                                      "requests are counted from what the rings hold", c->dir);
            return;
        }
        nanosleep(&pause, NULL);
    }
    sonde_buf_init(&bytes, BYTES_MAX);
    const int rc = file_read(dirfd, &bytes, &err);
    struct sonde_state s = { .from = (const unsigned char *)bytes.data, .len = bytes.len };
    if (rc == 0) payload_load(c, &s);
    if (rc == 0 && s.bad) sonde_err_set(&err, SONDE_EFORMAT, "it is damaged");
    if (rc == SONDE_EFORMAT || s.bad) {
        sonde_log(SONDE_LOG_WARN, "%s/" NAME " is not used, %s: spans and requests are counted "
                                  "from what the rings hold", c->dir, err.text);
    } else if (rc == 0) {
        sonde_log(SONDE_LOG_INFO, "counts go on from %s/" NAME, c->dir);
        c->state.loaded = 1;
        c->state.lost = records_lost(c->model);
    }
    sonde_buf_release(&bytes);
}

/* ---- Writing it ----------------------------------------------------------------------------- */

static int all_write(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        const ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return -1;
        at += done;
        n -= (size_t)done;
    }
    return 0;
}

/* May the file of this name be replaced: is it not there, empty, or ours as far as it goes?
 * Anything else, a link or a FIFO too, is somebody's. */
static int is_replaceable(int dirfd, const char *name)
{
    char magic[8];
    struct stat st;
    const int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT;
    const int plain = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    const ssize_t n = plain ? pread(fd, magic, sizeof(magic), 0) : -1;
    close(fd);
    return n >= 0 && memcmp(magic, MAGIC, (size_t)n) == 0;
}

static int file_write(const struct sonde_collector *c, const struct sonde_buf *payload)
{
    struct collector_state_header h = { .magic = MAGIC, .version = VERSION,
                                        .stripped = sonde_strip_on() != 0, .bytes = payload->len,
                                        .check = sonde_state_check(payload->data, payload->len) };
    int dirfd;
    sonde__boot_id(h.boot_id);
    if (sonde_discover_open(c->dir, &dirfd, NULL) != 0) return ENOENT;
    if (!is_replaceable(dirfd, NAME) || !is_replaceable(dirfd, NAME_NEW)) {
        close(dirfd);
        return EEXIST;
    }
    unlinkat(dirfd, NAME_NEW, 0);
    const int fd =
        openat(dirfd, NAME_NEW, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int failure = fd < 0 ? errno : 0;
    if (fd >= 0 && (all_write(fd, &h, sizeof(h)) != 0 ||
                    all_write(fd, payload->data, payload->len) != 0)) {
        failure = errno ? errno : EIO;
    }
    if (fd >= 0 && close(fd) != 0 && !failure) failure = errno;
    if (!failure && renameat(dirfd, NAME_NEW, dirfd, NAME) != 0) failure = errno;
    if (failure && fd >= 0) unlinkat(dirfd, NAME_NEW, 0);
    close(dirfd);
    return failure;
}

static int state_due(const struct sonde_collector *c, uint64_t now_ns)
{
    const struct state *t = &c->state;
    const uint64_t since_ns = now_ns - t->written_ns;
    if (c->model->activity == t->activity) return 0;
    if (t->unsaved >= SONDE__RING_RECS / 2) return since_ns >= COST_MAX_BUSY * t->cost_ns;
    return since_ns >= PERIOD_NS && since_ns >= COST_MAX * t->cost_ns;
}

/* Young, or so old that nobody leaves anything; now: the agent ends. */
static void file_touch(struct sonde_collector *c, uint64_t now_ns, int now)
{
    struct state *t = &c->state;
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_NOW } };
    size_t live = 0;
    int dirfd;
    if (!now && t->touched_ns && now_ns - t->touched_ns < TOUCH_NS) return;
    if (!state_own(c) || sonde_discover_open(c->dir, &dirfd, NULL) != 0) return;
    for (size_t i = 0; i < c->entry_count; i++) live += c->entries[i].segment != NULL;
    if (live > LEAVERS_MAX) times[1] = (struct timespec){ 0 };
    utimensat(dirfd, NAME, times, AT_SYMLINK_NOFOLLOW);
    close(dirfd);
    t->touched_ns = now_ns;
}

static void state_write(struct sonde_collector *c, uint64_t began_ns)
{
    struct state *t = &c->state;
    struct sonde_state s = { .to = &t->bytes };
    if (!t->bytes.max) sonde_buf_init(&t->bytes, BYTES_MAX);
    sonde_buf_reset(&t->bytes);
    sonde_rdlock(&c->model->lock);
    const uint64_t activity = c->model->activity;
    payload_save(c, &s);
    sonde_rwunlock(&c->model->lock);
    const int failure = t->bytes.error ? ENOMEM : file_write(c, &t->bytes);
    if (failure && !t->refused) {
        sonde_log(SONDE_LOG_WARN, "cannot write %s/" NAME ": %s; an agent that is started again "
                                  "may lose counts of spans and requests", c->dir,
                  failure == EEXIST
                      ? "it, or " NAME_NEW ", is there and is not sonde's; move it away"
                      : strerror(failure));
    }
    t->refused = failure != 0;
    t->unsaved = 0;
    t->activity = activity;
    t->written_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    t->cost_ns = t->written_ns - began_ns;
    t->touched_ns = 0; /* the new file is young, whether it should be or not */
}

void collector_state_save(struct sonde_collector *c, int now)
{
    sonde_assert_not_held(&c->model->lock); /* a disk may keep it waiting */
    struct state *t = &c->state;
    const uint64_t began_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    t->unsaved += collector_entries_fullest(c);
    if (!c->scans) return;
    const int due = now ? c->model->activity != t->activity : state_due(c, began_ns);
    if ((due || !t->written_ns) && state_own(c)) state_write(c, began_ns);
    if (t->written_ns) file_touch(c, began_ns, now);
}
