/* uprobe.c - see uprobe.h.
 *
 * Two steps. At once, as a hit comes out of its ring: read memory, since the call goes on meanwhile.
 * And later, when nothing earlier can come from another CPU's ring: hits in the order of time become
 * calls. Whether memory was read in time is then known by comparing two times, of the reading and of
 * the return. */
#include "collect/uprobe.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "collect/aspace.h"
#include "collect/perf_record.h"
#include "collect/tick_clock.h"
#include "collect/uprobe_event.h"
#include "collect/uprobe_pair.h"
#include "sonde/sonde.h"

enum {
    WAIT_MS = 50,          /* at most between two rounds */
    FILES_MAX = 4096,      /* of one process that are remembered, so that each is read once */
    PROBED_MAX = 16,       /* files with probes in them */
    PENDING_MAX = 65536,   /* hits that wait for their turn */
    TOKENIZING = 64,       /* threads whose last llama_tokenize is remembered; a power of two */
    NICE = -20
};
#define SETTLE_NS 1000000u    /* a record is in its ring this long after the time in it */
#define SCAN_NS 200000000u    /* between two looks for new files, at least */
#define SCAN_SHARE 100u       /* and as many times as long as a look takes */

struct seen_file { dev_t dev; uint64_t inode; };
struct tokenizing { uint32_t tid; uint64_t tokens; };

struct sonde_uprobe {
    struct sonde_uprobe_options options;
    struct sonde_uprobe_set set;
    struct sonde_perf_rings rings;      /* of the set's; count 0 until there are any */
    struct sonde_uprobe_reader reader;
    struct sonde_uprobe_pairs pairs;
    struct sonde_uprobe_symbols symbols[PROBED_MAX];
    struct seen_file *seen;             /* FILES_MAX */
    uint32_t seen_count;
    struct sonde_uprobe_hit *pending;   /* by time; PENDING_MAX */
    uint32_t pending_count;
    struct tokenizing tokenizing[TOKENIZING];
    struct pollfd *polls;               /* of each ring, and last of wake_fd */
    uint64_t scan_at_ns;
    struct sonde_uprobe_status now;     /* the thread's own */
    pthread_t thread;
    int wake_fd;                        /* readable: stop */

    pthread_mutex_t lock;               /* of what follows */
    struct sonde_uprobe_status status;
};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int remember_file(struct sonde_uprobe *u, dev_t dev, uint64_t inode)
{
    for (uint32_t i = 0; i < u->seen_count; i++) {
        if (u->seen[i].dev == dev && u->seen[i].inode == inode) return 0;
    }
    if (u->seen_count == FILES_MAX) return 0;
    u->seen[u->seen_count++] = (struct seen_file){ dev, inode };
    return 1;
}

/* Rings are there with the first probe. */
static int watch_rings(struct sonde_uprobe *u)
{
    if (u->rings.count) return 0;
    struct pollfd *polls = sonde__calloc(u->set.cpu_count + 1, sizeof(*polls));
    if (!polls) return SONDE_ENOMEM;
    const int rc = sonde_perf_rings_init(&u->rings, u->set.rings, u->set.cpu_count);
    if (rc) {
        u->rings.count = 0;
        sonde__free(polls);
        return rc;
    }
    for (uint32_t i = 0; i < u->set.cpu_count; i++) {
        polls[i] = (struct pollfd){ .fd = u->set.rings[i].fd, .events = POLLIN };
    }
    polls[u->set.cpu_count] = u->polls[0];
    sonde__free(u->polls);
    u->polls = polls;
    return 0;
}

static void probe_file(struct sonde_uprobe *u, const char *path, int fd)
{
    struct sonde_uprobe_symbols symbols;
    struct sonde_err err = { "" };
    uint32_t probed = 0;
    if (sonde_uprobe_symbols_read(fd, &symbols) || !symbols.count) return;
    if (u->now.files == PROBED_MAX) {
        sonde_err_set(&u->now.problem, SONDE_EFULL, "%s: at most %d files with llama.cpp in them "
                      "are probed", path, PROBED_MAX);
        return;
    }
    u->symbols[u->now.files] = symbols;
    int rc = sonde_uprobe_set_open(&u->set, fd, u->now.files, &symbols, &probed, &err);
    if (!rc && (rc = watch_rings(u))) sonde_err_set(&err, rc, "no memory for probes");
    if (rc) {
        sonde_err_set(&u->now.problem, rc, "%s: %s", path, err.text);
        return;
    }
    u->now.files++;
    u->now.functions += probed;
    for (uint32_t fn = 0; fn < SONDE__LLAMA_COUNT; fn++) {
        if (symbols.at[fn]) u->now.found |= UINT64_C(1) << fn;
    }
    sonde_log(SONDE_LOG_INFO, "%u functions of llama.cpp are probed in %s", probed, path);
}

static int want_file(void *arg, const struct sonde_aspace_file *f)
{
    return remember_file(arg, f->dev, f->inode);
}

static void take_file(void *arg, const struct sonde_aspace_file *f, int fd)
{
    if (fd < 0) return;
    probe_file(arg, f->path, fd);
    close(fd);
}

/* A file that is mapped as the program is: probes are put into inodes, whoever maps them. */
static void probe_program(struct sonde_uprobe *u, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0) return;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode)) {
        remember_file(u, st.st_dev, st.st_ino);
        probe_file(u, path, fd);
    }
    close(fd);
}

static void scan(struct sonde_uprobe *u)
{
    const uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    sonde_aspace_files(u->options.pid, want_file, take_file, u);
    const uint64_t end = clock_ns(CLOCK_MONOTONIC), pause = (end - begin) * SCAN_SHARE;
    u->scan_at_ns = end + (pause > SCAN_NS ? pause : SCAN_NS);
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
        return sonde_uprobe_read_size(&u->reader, &u->symbols[file], h->arg[0]);
    case SONDE__LLAMA_ALLOC_CTX:
        return sonde_uprobe_read_tensor(&u->reader, &u->symbols[file], h->arg[0]);
    default: return NULL;
    }
}

static struct sonde_uprobe_memory *read_at_return(struct sonde_uprobe *u,
                                                  const struct sonde_uprobe_hit *h, uint32_t file)
{
    const struct tokenizing *t = tokenizing_of(u, h->tid);
    if (h->fn == SONDE__LLAMA_ALLOC_CTX) {
        return sonde_uprobe_read_size(&u->reader, &u->symbols[file], h->arg[0]);
    }
    if (h->fn != SONDE__LLAMA_TOKENIZE || t->tid != h->tid) return NULL;
    return sonde_uprobe_read_tail(&u->reader, t->tokens, (int32_t)(uint32_t)h->arg[0]);
}

/* Give what is older than limit_ns to be paired, and as many more as there is no room for. */
static void release(struct sonde_uprobe *u, uint64_t limit_ns, uint32_t at_least)
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
    if (u->pending_count == PENDING_MAX) release(u, 0, PENDING_MAX / 2);
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

static void drain(struct sonde_uprobe *u, int last)
{
    const uint64_t limit = last ? UINT64_MAX : clock_ns(CLOCK_MONOTONIC) - SETTLE_NS;
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
            const struct sonde_uprobe_event *e = sonde_uprobe_set_find(&u->set, r.id);
            if (e) take_hit(u, e, &r);
        }
    }
    release(u, limit, 0);
    u->options.drained(u->options.arg, (last ? clock_ns(CLOCK_MONOTONIC) : limit) + u->pairs.unix_ns);
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void publish(struct sonde_uprobe *u)
{
    u->now.calls = u->pairs.calls;
    u->now.late = u->pairs.late;
    u->now.unpaired = u->pairs.unpaired;
    u->now.cpu_s = (double)clock_ns(CLOCK_THREAD_CPUTIME_ID) * 1e-9;
    pthread_mutex_lock(&u->lock);
    u->status = u->now;
    if (u->rings.count) u->status.lost += sonde_perf_rings_damaged(&u->rings);
    pthread_mutex_unlock(&u->lock);
}

static void *read_loop(void *arg)
{
    struct sonde_uprobe *u = arg;
    int stop = 0;
    /* Where that is permitted: memory must be read before a call returns. */
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    while (!stop) {
        poll(u->polls, u->rings.count + 1, WAIT_MS);
        stop = u->polls[u->rings.count].revents != 0;
        if (stop) sonde_uprobe_set_disable(&u->set);
        if (!stop && clock_ns(CLOCK_MONOTONIC) >= u->scan_at_ns) scan(u);
        if (u->rings.count) drain(u, stop);
        publish(u);
    }
    return NULL;
}

static void free_all(struct sonde_uprobe *u)
{
    for (uint32_t i = 0; i < u->pending_count; i++) sonde__free(u->pending[i].memory);
    if (u->rings.count) sonde_perf_rings_release(&u->rings);
    sonde_uprobe_set_release(&u->set);
    sonde_uprobe_pairs_release(&u->pairs);
    sonde_uprobe_reader_release(&u->reader);
    sonde__free(u->pending);
    sonde__free(u->seen);
    sonde__free(u->polls);
    if (u->wake_fd >= 0) close(u->wake_fd);
    pthread_mutex_destroy(&u->lock);
    sonde__free(u);
}

static int make(const struct sonde_uprobe_options *options, struct sonde_uprobe **out,
                struct sonde_err *err)
{
    struct sonde_uprobe *u = sonde__calloc(1, sizeof(*u));
    if (!u) return sonde_err_set(err, SONDE_ENOMEM, "no memory for probes");
    u->options = *options;
    pthread_mutex_init(&u->lock, NULL);
    u->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    u->seen = sonde__calloc(FILES_MAX, sizeof(*u->seen));
    u->pending = sonde__calloc(PENDING_MAX, sizeof(*u->pending));
    u->polls = sonde__calloc(1, sizeof(*u->polls));
    int rc = u->wake_fd < 0 || !u->seen || !u->pending || !u->polls ? SONDE_ENOMEM : 0;
    if (!rc) rc = sonde_uprobe_reader_init(&u->reader, options->pid);
    if (!rc) rc = sonde_uprobe_pairs_init(&u->pairs, options->call, options->arg);
    if (rc) {
        sonde_err_set(err, rc, "no memory for probes");
    } else {
        u->polls[0] = (struct pollfd){ .fd = u->wake_fd, .events = POLLIN };
        rc = sonde_uprobe_set_init(&u->set, err);
    }
    if (rc) {
        free_all(u);
        return rc;
    }
    *out = u;
    return 0;
}

int sonde_uprobe_start(const struct sonde_uprobe_options *options, struct sonde_uprobe **out,
                       struct sonde_err *err)
{
    struct sonde_uprobe *u = NULL;
    sigset_t all, before;
    int rc = make(options, &u, err);
    if (rc) return rc;
    if (options->program) {
        probe_program(u, options->program);
    } else {
        scan(u);
    }
    if (u->now.problem.text[0] && !u->now.files) {
        rc = sonde_err_set(err, SONDE_EACCES, "%s", u->now.problem.text);
    } else {
        publish(u);
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are for the program's own threads */
        const int error = pthread_create(&u->thread, NULL, read_loop, u);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (error) rc = sonde_err_set(err, SONDE_ENOMEM, "cannot start a thread: %s", strerror(error));
    }
    if (rc) {
        free_all(u);
        return rc;
    }
    pthread_setname_np(u->thread, "sonde-uprobe");
    *out = u;
    return 0;
}

void sonde_uprobe_status(struct sonde_uprobe *u, struct sonde_uprobe_status *out)
{
    pthread_mutex_lock(&u->lock);
    *out = u->status;
    pthread_mutex_unlock(&u->lock);
}

void sonde_uprobe_stop(struct sonde_uprobe *u, struct sonde_uprobe_status *out)
{
    const uint64_t one = 1;
    if (!u) return;
    const ssize_t n = write(u->wake_fd, &one, sizeof(one));
    (void)n; /* fails only when it is readable anyway */
    pthread_join(u->thread, NULL);
    if (out) *out = u->status;
    free_all(u);
}

int sonde_uprobe_is_static(const char *path)
{
    struct sonde_uprobe_symbols symbols;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return 0;
    const int rc = sonde_uprobe_symbols_read(fd, &symbols);
    close(fd);
    return !rc && symbols.at[SONDE__LLAMA_DECODE] != 0;
}
