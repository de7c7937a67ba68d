/* cpu_timer.c - the engine that samples from within, through libsonde_preload: finding the
 * segments it writes, reading them, and saying what it could not do. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "collect/cpu_engine.h"
#include "collect/cpu_timer.h"
#include "collect/discover.h"
#include "segment/segment.h"
#include "sonde/sonde.h"

#define WAIT_MS 50
#define TARGETS_MAX 65536u

struct sonde_cpu_engine {
    struct sonde_cpu_options options;
    uint64_t session;            /* 0 = whoever samples that process */
    char dir[256];
    int dirfd;
    int lock_fd;                 /* agent.lock, so that the program leaves its segment to us */
    struct sonde_tick_clock clock;
    struct sonde_timer_reader reader;
    struct sonde_timer_target **targets;
    uint32_t target_count, target_cap;
    int described;
    uint32_t told;               /* bit n: the note of state n was made */
    char note[SONDE_CPU_NOTE_MAX];
    char env[SONDE_TIMER_ENV_MAX];
    size_t env_size;
};

static uint64_t monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Finding --------------------------------------------------------------------------------- */

static int is_known(const struct sonde_cpu_engine *e, const struct sonde_segment_name *id)
{
    for (uint32_t i = e->target_count; i-- > 0;) {
        const struct sonde_segment_name *k = &e->targets[i]->id;
        if (k->pid == id->pid && k->start == id->start && k->n == id->n) return 1;
    }
    return 0;
}

static struct sonde_timer_target *target_add(struct sonde_cpu_engine *e)
{
    if (e->target_count == TARGETS_MAX) return NULL;
    if (e->target_count == e->target_cap) {
        const uint32_t cap = e->target_cap ? e->target_cap * 2 : 16;
        struct sonde_timer_target **grown =
            sonde__realloc(e->targets, cap * sizeof(*grown));
        if (!grown) return NULL;
        e->targets = grown;
        e->target_cap = cap;
    }
    struct sonde_timer_target *t = sonde__calloc(1, sizeof(*t));
    if (t) e->targets[e->target_count++] = t;
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

static void found(const char *name, const struct sonde_segment_name *id, void *arg)
{
    struct sonde_cpu_engine *e = arg;
    struct sonde_err err;
    if ((!e->options.children && id->pid != e->options.pid) || is_known(e, id)) return;
    struct sonde_timer_target *t = target_add(e);
    if (!t) return;
    t->id = *id;
    snprintf(t->name, sizeof(t->name), "%s", name);
    if (sonde_segment_open(e->dirfd, name, e->session != 0, &t->segment, &err) != 0) {
        t->segment = NULL;
        return;
    }
    t->other_root = is_other_root(id->pid);
}

/* Another image of the same process is there: this one was replaced by exec. */
static int is_replaced(const struct sonde_cpu_engine *e, const struct sonde_timer_target *t)
{
    for (uint32_t i = 0; i < e->target_count; i++) {
        const struct sonde_segment_name *k = &e->targets[i]->id;
        if (k->pid == t->id.pid && k->start == t->id.start && k->n > t->id.n) return 1;
    }
    return 0;
}

static int is_gone(const struct sonde_cpu_engine *e, const struct sonde_timer_target *t)
{
    struct sonde_proc_stat st;
    return sonde_proc_stat(t->id.pid, &st) != 0 || st.start != t->id.start || is_replaced(e, t);
}

/* ---- Notes ----------------------------------------------------------------------------------- */

static void note_state(struct sonde_cpu_engine *e, const struct sonde_timer_target *t)
{
    static const char *const texts[] = {
#define SONDE__X(name, text) text,
        SONDE__SAMPLER_STATES(SONDE__X)
#undef SONDE__X
    };
    const uint32_t bit = 1u << t->info.state;
    if (t->info.state <= SONDE__SAMPLER_ENDED || e->told & bit) return;
    e->told |= bit;
    snprintf(e->note, sizeof(e->note), "process %u is not sampled%s: %s", t->id.pid,
             t->info.state == SONDE__SAMPLER_GAVE_WAY ? " any more" : "", texts[t->info.state]);
    sonde_log(SONDE_LOG_WARN, "%s", e->note);
}

static void note_threads(struct sonde_cpu_engine *e, const struct sonde_timer_target *t)
{
    if (t->info.state > SONDE__SAMPLER_ENDED) return;
    if (t->info.threads_refused) {
        snprintf(e->note, sizeof(e->note), "%llu threads of process %u were not sampled: the "
                 "kernel gave no more timers (ulimit -i is their limit)",
                 (unsigned long long)t->info.threads_refused, t->id.pid);
    } else if (t->info.threads_skipped) {
        snprintf(e->note, sizeof(e->note), "%llu threads of process %u were not sampled while "
                 "their alternate signal stack was too small",
                 (unsigned long long)t->info.threads_skipped, t->id.pid);
    } else if (t->info.late) {
        snprintf(e->note, sizeof(e->note), "%llu samples of process %u came late, because signals "
                 "were blocked: time is shown where they were unblocked",
                 (unsigned long long)t->info.late, t->id.pid);
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* 0, or SONDE_ENOENT: it is not sampled, or not by us. */
static int is_ours(struct sonde_cpu_engine *e, struct sonde_timer_target *t)
{
    struct sonde_err err;
    const int rc = sonde_segment_sampler(t->segment, &t->info, &err);
    if (rc == 0 && e->session && t->info.session != e->session) return SONDE_ENOENT;
    if (rc == 0 && !e->reader.stacks) {
        return sonde_cpu_stacks_create(e->reader.profile, t->info.depth_max, &e->reader.stacks);
    }
    return rc;
}

static void target_read(struct sonde_cpu_engine *e, struct sonde_timer_target *t)
{
    struct sonde_err err;
    if (!t->segment) return;
    t->gone = is_gone(e, t);  /* before the last look, so that nothing comes after it */
    if (!t->sampled) {
        const int rc = is_ours(e, t);
        if (rc != 0) {
            if (t->gone || rc != SONDE_ENOENT) sonde_timer_target_release(t);
            return;
        }
        t->sampled = 1;
    }
    if (!e->described && t->id.pid == e->options.pid) {
        sonde_cpu_describe(e->reader.profile, t->id.pid,
                           sonde_segment_header(t->segment)->program);
        e->described = 1;
    }
    const int rc = sonde_timer_read(&e->reader, t, t->gone, &err);
    if (rc != 0) sonde_log(SONDE_LOG_WARN, "samples of %s/%s: %s", e->dir, t->name, err.text);
    note_state(e, t);
    note_threads(e, t);
    if (rc != 0 || t->gone) sonde_timer_target_release(t);
}

static void engine_drain(struct sonde_cpu_engine *e, int last)
{
    struct sonde_err err;
    (void)last; /* records that are being written when sampling ends are nobody's */
    if (e->dirfd < 0 && sonde_discover_open(e->dir, &e->dirfd, &err) != 0) {
        e->dirfd = -1;
        return;
    }
    sonde_tick_clock_update(&e->clock);
    e->reader.now_ns = monotonic_ns();
    sonde_discover_scan(e->dirfd, found, e, &err);
    for (uint32_t i = 0; i < e->target_count; i++) target_read(e, e->targets[i]);
}

static void engine_wait(struct sonde_cpu_engine *e, int wake_fd)
{
    struct pollfd p = { .fd = wake_fd, .events = POLLIN };
    (void)e;
    poll(&p, 1, WAIT_MS);
}

static void engine_open_ends(struct sonde_cpu_engine *e) { (void)e; }

static void engine_counts(struct sonde_cpu_engine *e, struct sonde_cpu_counts *out)
{
    const struct sonde_timer_figures *f = &e->reader.figures;
    *out = (struct sonde_cpu_counts){ .samples = f->samples, .truncated = f->truncated,
                                      .unwound_frames = f->frames };
    int any = 0;
    for (uint32_t i = 0; i < e->target_count; i++) {
        out->lost += e->targets[i]->lost;
        out->cpu_ns += e->targets[i]->cpu_ns;
        any |= e->targets[i]->sampled;
    }
    out->note = e->note;
    if (!any) {
        out->note = "the program has not loaded libsonde_preload (yet): one that is linked "
                    "statically, or changes its user, never does";
    }
}

/* ---- Starting and ending --------------------------------------------------------------------- */

static int engine_check(struct sonde_err *note)
{
    char library[512];
    const int rc = sonde_timer_library(library, sizeof(library), note);
    if (rc != 0) return rc;
    return sonde_err_set(note, 0, "%s can sample programs that sonde starts", library);
}

static int dir_open(struct sonde_cpu_engine *e, struct sonde_err *err)
{
    int rc = 0;
    if (e->options.dir && e->options.dir[0]) {
        if (strlen(e->options.dir) >= sizeof(e->dir)) rc = SONDE_EINVAL;
        else snprintf(e->dir, sizeof(e->dir), "%s", e->options.dir);
    } else {
        rc = sonde__dir_default(e->dir, sizeof(e->dir));
    }
    if (rc != 0) {
        return sonde_err_set(err, rc, "the path of the directory of segments is longer than %zu "
                             "bytes", sizeof(e->dir) - 1);
    }
    if (mkdir(e->dir, 0700) != 0 && errno != EEXIST) {
        return sonde_err_set(err, SONDE_EOFF, "cannot create the directory of segments %s: %s; "
                             "choose another with SONDE_DIR", e->dir, strerror(errno));
    }
    rc = sonde_discover_open(e->dir, &e->dirfd, err);
    if (rc != 0) return rc;
    e->lock_fd = sonde_discover_lock(e->dirfd, err);
    return e->lock_fd < 0 ? e->lock_fd : 0;
}

/* A process that runs already must have come with the library in it. */
static int find_running(struct sonde_cpu_engine *e, struct sonde_err *err)
{
    sonde_discover_scan(e->dirfd, found, e, err);
    for (uint32_t i = 0; i < e->target_count; i++) {
        struct sonde_timer_target *t = e->targets[i];
        if (t->segment && t->id.pid == e->options.pid && is_ours(e, t) == 0) return 0;
    }
    return sonde_err_set(err, SONDE_EOFF, "process %u was not started with libsonde_preload, which "
                         "cannot come in later; start it with: sonde record --engine timer -- CMD",
                         e->options.pid);
}

static void engine_destroy(struct sonde_cpu_engine *e);

static int engine_start(const struct sonde_cpu_options *options, int on_exec,
                        struct sonde_profile *p, struct sonde_cpu_engine **out,
                        struct sonde_err *err)
{
    if (options->off_cpu) {
        return sonde_err_set(err, SONDE_EOFF, "the timer engine samples CPU time only: blocked "
                             "time needs perf events");
    }
    struct sonde_cpu_engine *e = sonde__calloc(1, sizeof(*e));
    if (!e) return sonde_err_set(err, SONDE_ENOMEM, "no memory to sample with");
    e->options = *options;
    e->dirfd = e->lock_fd = -1;
    e->reader.profile = p;
    e->reader.clock = &e->clock;
    sonde_tick_clock_init(&e->clock);
    int rc = dir_open(e, err);
    if (rc == 0 && sonde_modules_create(0, &e->reader.modules) != 0) {
        rc = sonde_err_set(err, SONDE_ENOMEM, "no memory to sample with");
    }
    if (rc == 0 && on_exec) {
        const uint64_t period_ns = (uint64_t)(1e9 / options->rate_hz + 0.5);
        if (getrandom(&e->session, sizeof(e->session), 0) != sizeof(e->session) || !e->session) {
            e->session = monotonic_ns();
        }
        rc = sonde_timer_environment(e->session, period_ns,
                                     options->depth_max < SONDE__DEPTH_MIN ? SONDE__DEPTH_MIN
                                                                           : options->depth_max,
                                     options->children, e->env, &e->env_size, err);
    } else if (rc == 0) {
        rc = find_running(e, err);
    }
    if (rc != 0) {
        engine_destroy(e);
        return rc;
    }
    *out = e;
    return 0;
}

static const char *engine_environment(const struct sonde_cpu_engine *e, size_t *size)
{
    *size = e->env_size;
    return e->env;
}

/* Programs leave their segments to agents: the last one takes them away. */
static void remove_read(struct sonde_cpu_engine *e)
{
    if (e->lock_fd < 0 || flock(e->lock_fd, LOCK_EX | LOCK_NB) != 0) return;
    for (uint32_t i = 0; i < e->target_count; i++) {
        const struct sonde_timer_target *t = e->targets[i];
        if (t->sampled && t->gone) unlinkat(e->dirfd, t->name, 0);
    }
}

static void engine_destroy(struct sonde_cpu_engine *e)
{
    if (!e) return;
    remove_read(e);
    for (uint32_t i = 0; i < e->target_count; i++) {
        sonde_timer_target_release(e->targets[i]);
        sonde__free(e->targets[i]);
    }
    sonde__free(e->targets);
    sonde_cpu_stacks_destroy(e->reader.stacks);
    sonde_modules_destroy(e->reader.modules);
    if (e->lock_fd >= 0) close(e->lock_fd);
    if (e->dirfd >= 0) close(e->dirfd);
    sonde__free(e);
}

const struct sonde_cpu_engine_ops sonde_cpu_engine_timer = {
    .kind = SONDE_CPU_TIMER,
    .check = engine_check,
    .start = engine_start,
    .environment = engine_environment,
    .wait = engine_wait,
    .drain = engine_drain,
    .open_ends = engine_open_ends,
    .counts = engine_counts,
    .destroy = engine_destroy,
};
