/* uprobe.c - see uprobe.h.
 *
 * Two steps. At once, as a hit comes out of its ring: read memory, since the call goes on
 * meanwhile. And later, when nothing earlier can come from another CPU's ring: hits in the order of
 * time become calls. Whether memory was read in time is then known by comparing two times, of the
 * reading and of the return. */
#include "collect/uprobe/uprobe.h"

#include <assert.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "collect/perf/record.h"
#include "collect/tick_clock.h"
#include "collect/uprobe/event.h"
#include "collect/uprobe/files.h"
#include "collect/uprobe/pair.h"
#include "collect/uprobe/returns.h"
#include "sonde/sonde.h"

enum {
    WAIT_MS = 50,          /* at most between two rounds */
    OTHER_FDS = 2,         /* that are polled besides rings */
    PENDING_MAX = 65536,   /* hits that wait for their turn */
    TOKENIZING = 64,       /* threads whose last llama_tokenize is remembered; a power of two */
    NICE = -20
};
#define SETTLE_NS 1000000u    /* a record is in its ring this long after the time in it */
#define SCAN_MS 200           /* between two looks for new files, at least */
#define SCAN_SHARE 100u       /* and as many times as long as a look takes */

struct tokenizing { uint32_t tid; uint64_t tokens; };

struct sonde_uprobe {
    struct sonde_uprobe_options options;
    struct sonde_uprobe_set set;
    struct sonde_perf_rings rings;      /* of the set's; count 0 until there are any */
    struct sonde_uprobe_reader reader;
    struct sonde_uprobe_pairs pairs;
    struct sonde_uprobe_hit *pending;   /* by time; PENDING_MAX */
    uint32_t pending_count;
    struct tokenizing tokenizing[TOKENIZING];
    struct pollfd *polls;               /* of each ring, then of wake_fd, then of returns */
    struct sonde_uprobe_status now;     /* the reading thread's own */
    struct sonde_thread thread;
    int wake_fd;                        /* readable: stop */

    struct sonde_uprobe_files *files;   /* the scanning thread's */
    struct sonde_thread scanner;
    int scan_fd;                        /* readable: stop */

    struct sonde_lock lock;               /* of what follows */
    struct sonde_uprobe_status status;
};

/* Before all others where that is permitted, since memory must be read before a call returns. */
static void uprobe_hurry(void)
{
    const struct sched_param first = { .sched_priority = 1 };
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first)) {
        setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    }
}

/* Rings are there with the first probe. */
static int watch_rings(struct sonde_uprobe *u)
{
    struct sonde_perf_ring *rings = sonde_uprobe_set_rings(&u->set);
    if (u->rings.count || !rings) return 0;
    struct pollfd *polls = sonde__calloc(u->set.cpu_count + OTHER_FDS, sizeof(*polls));
    if (!polls) return SONDE_ENOMEM;
    const int rc = sonde_perf_rings_init(&u->rings, rings, u->set.cpu_count);
    if (rc) {
        u->rings.count = 0;
        sonde__free(polls);
        return rc;
    }
    for (uint32_t i = 0; i < u->set.cpu_count; i++) {
        polls[i] = (struct pollfd){ .fd = rings[i].fd, .events = POLLIN };
    }
    memcpy(polls + u->set.cpu_count, u->polls, OTHER_FDS * sizeof(*polls));
    sonde__free(u->polls);
    u->polls = polls;
    return 0;
}

/* ---- Hits ------------------------------------------------------------------------------------ */

static struct tokenizing *tokenizing_of(struct sonde_uprobe *u, uint32_t tid)
{
    return &u->tokenizing[tid & (TOKENIZING - 1)];
}

static struct sonde_uprobe_memory *read_at_entry(struct sonde_uprobe *u,
                                                 const struct sonde_uprobe_hit *h,
                                                 const struct sonde_uprobe_batch *b, uint32_t file)
{
    switch (h->fn) {
    case SONDE__LLAMA_DECODE:
    case SONDE__LLAMA_ENCODE: return sonde_uprobe_read_batch(&u->reader, b);
    case SONDE__LLAMA_MODEL_LOAD: return sonde_uprobe_read_path(&u->reader, h->arg[0]);
    case SONDE__LLAMA_SET_USAGE:
        return sonde_uprobe_read_size(&u->reader, sonde_uprobe_files_symbols(u->files, file),
                                      h->arg[0]);
    case SONDE__LLAMA_ALLOC_CTX:
        return sonde_uprobe_read_tensor(&u->reader, sonde_uprobe_files_symbols(u->files, file),
                                        h->arg[0]);
    default: return NULL;
    }
}

static struct sonde_uprobe_memory *read_at_return(struct sonde_uprobe *u,
                                                  const struct sonde_uprobe_hit *h, uint32_t file)
{
    const struct tokenizing *t = tokenizing_of(u, h->tid);
    if (h->fn == SONDE__LLAMA_ALLOC_CTX) {
        return sonde_uprobe_read_size(&u->reader, sonde_uprobe_files_symbols(u->files, file),
                                      h->arg[0]);
    }
    if (h->fn != SONDE__LLAMA_TOKENIZE || t->tid != h->tid) return NULL;
    return sonde_uprobe_read_tail(&u->reader, t->tokens, (int32_t)(uint32_t)h->arg[0]);
}

/* Give what is older than limit_ns to be paired, and as many more as there is no room for. */
static void uprobe_release(struct sonde_uprobe *u, uint64_t limit_ns, uint32_t at_least)
{
    uint32_t n = 0;
    while (n < u->pending_count && (n < at_least || u->pending[n].time_ns < limit_ns)) {
        sonde_uprobe_pairs_take(&u->pairs, &u->pending[n++]);
    }
    memmove(u->pending, u->pending + n, (u->pending_count - n) * sizeof(*u->pending));
    u->pending_count -= n;
}

/* Nearly always the newest. */
static void put_in_order(struct sonde_uprobe *u, const struct sonde_uprobe_hit *h)
{
    if (u->pending_count == PENDING_MAX) uprobe_release(u, 0, PENDING_MAX / 2);
    uint32_t i = u->pending_count++;
    for (; i && u->pending[i - 1].time_ns > h->time_ns; i--) u->pending[i] = u->pending[i - 1];
    u->pending[i] = *h;
}

static void take_hit(struct sonde_uprobe *u, const struct sonde_uprobe_event *e,
                     const struct sonde_perf_record *r)
{
    const struct sonde_uprobe_rule *rule = sonde_uprobe_rule(e->fn);
    struct sonde_uprobe_batch batch = { 0 };
    struct sonde_uprobe_hit h = { .time_ns = r->time_ns, .sp = r->u.sample.regs.sp, .tid = r->tid,
                                  .fn = e->fn, .is_return = e->is_return };
    u->now.hits++;
    if (!r->u.sample.has_user) return;
    if (h.is_return) {
        h.arg[0] = sonde__arch_result(&r->u.sample.regs);
        if (rule->at_return) h.memory = read_at_return(u, &h, e->file);
    } else {
        sonde__arch_args(&r->u.sample.regs, h.arg);
        if (r->u.sample.stack_len >= sizeof(h.back)) {
            memcpy(&h.back, r->u.sample.stack, sizeof(h.back));
            if (u->options.returns) {
                const struct sonde_uprobe_return call = { h.sp, h.back, r->u.sample.regs.ip,
                                                          h.time_ns };
                sonde_uprobe_returns_put(u->options.returns, h.tid, &call);
            }
        }
        if (!sonde_uprobe_batch(r->u.sample.stack, r->u.sample.stack_len, &batch)) {
            h.batch_tokens = batch.tokens;
        }
        if (rule->at_entry) h.memory = read_at_entry(u, &h, &batch, e->file);
        if (h.fn == SONDE__LLAMA_TOKENIZE) {
            *tokenizing_of(u, h.tid) = (struct tokenizing){ h.tid, h.arg[3] };
        }
    }
    put_in_order(u, &h);
}

static void uprobe_drain(struct sonde_uprobe *u, int last)
{
    const uint64_t now = sonde_clock_ns(CLOCK_MONOTONIC);
    const uint64_t limit = last ? UINT64_MAX : now - SETTLE_NS;
    const struct perf_event_header *h;
    uint32_t ring;
    u->pairs.unix_ns = sonde_unix_offset_ns(); /* as samples have it, which are joined with calls */
    sonde_perf_rings_begin(&u->rings, UINT64_MAX);
    while ((h = sonde_perf_rings_next(&u->rings, &ring))) {
        struct sonde_perf_record r;
        if (sonde_perf_record_parse(h, 0, &r)) {
            u->now.lost++;
        } else if (r.type == PERF_RECORD_LOST || r.type == PERF_RECORD_LOST_SAMPLES) {
            u->now.lost += r.u.lost;
        } else if (r.type == PERF_RECORD_SAMPLE && r.pid == u->options.pid) {
            struct sonde_uprobe_event e;
            if (sonde_uprobe_set_find(&u->set, r.id, &e)) take_hit(u, &e, &r);
        }
    }
    if (u->options.returns) sonde_uprobe_returns_seen(u->options.returns, last ? UINT64_MAX : now);
    uprobe_release(u, limit, 0);
    u->options.drained(u->options.arg, (last ? now : limit) + u->pairs.unix_ns);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void uprobe_publish(struct sonde_uprobe *u)
{
    u->now.calls = u->pairs.calls;
    u->now.late = u->pairs.late;
    u->now.unpaired = u->pairs.unpaired;
    u->now.cpu_s = sonde_clock_s(CLOCK_THREAD_CPUTIME_ID);
    sonde_lock(&u->lock);
    u->status = u->now;
    if (u->rings.count) u->status.lost += sonde_perf_rings_damaged(&u->rings);
    sonde_unlock(&u->lock);
}

static void *uprobe_read_loop(void *arg)
{
    struct sonde_uprobe *u = arg;
    uint64_t asked;
    int stop = 0;
    uprobe_hurry();
    while (!stop) {
        watch_rings(u); /* without memory there is another try */
        poll(u->polls, u->rings.count + OTHER_FDS, WAIT_MS);
        if (u->polls[u->rings.count + 1].revents) {
            const ssize_t n = read(u->polls[u->rings.count + 1].fd, &asked, sizeof(asked));
            (void)n; /* that somebody waits is all it says */
        }
        stop = u->polls[u->rings.count].revents != 0;
        if (stop) sonde_uprobe_set_disable(&u->set);
        if (u->rings.count) uprobe_drain(u, stop);
        uprobe_publish(u);
    }
    return NULL;
}

/* Reading files and opening probes takes its time, in which hits must be read: hence a thread. */
static void *scan_loop(void *arg)
{
    struct sonde_uprobe *u = arg;
    struct pollfd stop = { .fd = u->scan_fd, .events = POLLIN };
    uint64_t pause_ms = SCAN_MS;
    while (poll(&stop, 1, (int)pause_ms) <= 0) {
        const uint64_t begin = sonde_clock_ns(CLOCK_MONOTONIC);
        sonde_uprobe_files_scan(u->files);
        pause_ms = (sonde_clock_ns(CLOCK_MONOTONIC) - begin) / 1000000u * SCAN_SHARE;
        if (pause_ms < SCAN_MS) pause_ms = SCAN_MS;
        if (pause_ms > SCAN_MS * SCAN_SHARE) pause_ms = SCAN_MS * SCAN_SHARE;
    }
    return NULL;
}

static void uprobe_stop_thread(struct sonde_thread *thread, int fd)
{
    const uint64_t one = 1;
    const ssize_t n = write(fd, &one, sizeof(one));
    (void)n; /* fails only when it is readable anyway */
    sonde_thread_join(thread);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void free_all(struct sonde_uprobe *u)
{
    for (uint32_t i = 0; i < u->pending_count; i++) sonde__free(u->pending[i].memory);
    if (u->rings.count) sonde_perf_rings_release(&u->rings);
    sonde_uprobe_files_destroy(u->files);
    sonde_uprobe_set_release(&u->set);
    sonde_uprobe_pairs_release(&u->pairs);
    sonde_uprobe_reader_release(&u->reader);
    sonde__free(u->pending);
    sonde__free(u->polls);
    if (u->wake_fd >= 0) close(u->wake_fd);
    if (u->scan_fd >= 0) close(u->scan_fd);
    sonde_lock_destroy(&u->lock);
    sonde__free(u);
}

static int uprobe_make(const struct sonde_uprobe_options *options, struct sonde_uprobe **out,
                       struct sonde_err *err)
{
    struct sonde_uprobe *u = sonde__calloc(1, sizeof(*u));
    if (!u) return sonde_err_set(err, SONDE_ENOMEM, "no memory for probes");
    u->options = *options;
    sonde_lock_init(&u->lock, SONDE_RANK_UPROBE);
    u->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    u->scan_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    u->pending = sonde__calloc(PENDING_MAX, sizeof(*u->pending));
    u->polls = sonde__calloc(OTHER_FDS, sizeof(*u->polls));
    int rc = sonde_uprobe_set_init(&u->set, err);
    if (!rc) {
        rc = u->wake_fd < 0 || u->scan_fd < 0 || !u->pending || !u->polls ? SONDE_ENOMEM : 0;
        if (!rc) rc = sonde_uprobe_files_create(options->pid, &u->set, &u->files);
        if (!rc) rc = sonde_uprobe_reader_init(&u->reader, options->pid);
        if (!rc) rc = sonde_uprobe_pairs_init(&u->pairs, options->call, options->arg);
        u->pairs.pass = options->pass;
        if (rc) sonde_err_set(err, rc, "no memory for probes");
    }
    if (rc) {
        free_all(u);
        return rc;
    }
    u->polls[0] = (struct pollfd){ .fd = u->wake_fd, .events = POLLIN };
    u->polls[1] = (struct pollfd){ .fd = -1, .events = POLLIN };
    if (options->returns) u->polls[1].fd = sonde_uprobe_returns_fd(options->returns);
    *out = u;
    return 0;
}

int sonde_uprobe_start(const struct sonde_uprobe_options *options, struct sonde_uprobe **out,
                       struct sonde_err *err)
{
    assert(options && options->pid && options->call && out);
    struct sonde_uprobe *u = NULL;
    struct sonde_uprobe_status status;
    int rc = uprobe_make(options, &u, err);
    if (rc) return rc;
    /* First who reads: opening probes takes a second and more, in which hits come. */
    rc = sonde_thread_start(&u->thread, "sonde-uprobe", uprobe_read_loop, u, err);
    if (rc) {
        free_all(u);
        return rc;
    }
    if (options->program) {
        sonde_uprobe_files_program(u->files, options->program);
    } else {
        sonde_uprobe_files_scan(u->files);
    }
    sonde_uprobe_status(u, &status);
    if (status.problem.text[0] && !status.files) {
        rc = sonde_err_set(err, SONDE_EACCES, "%s", status.problem.text);
    }
    if (!rc) rc = sonde_thread_start(&u->scanner, "sonde-scan", scan_loop, u, err);
    if (rc) {
        uprobe_stop_thread(&u->thread, u->wake_fd);
        free_all(u);
        return rc;
    }
    *out = u;
    return 0;
}

void sonde_uprobe_status(struct sonde_uprobe *u, struct sonde_uprobe_status *out)
{
    sonde_lock(&u->lock);
    *out = u->status;
    sonde_unlock(&u->lock);
    sonde_uprobe_files_status(u->files, out);
}

void sonde_uprobe_stop(struct sonde_uprobe *u, struct sonde_uprobe_status *out)
{
    if (!u) return;
    uprobe_stop_thread(&u->scanner, u->scan_fd);
    uprobe_stop_thread(&u->thread, u->wake_fd);
    if (out) sonde_uprobe_status(u, out);
    free_all(u);
}
