/* collector.c - the agent's loop; see collector.h. What happens to segments is in
 * collector_entries.c. */
#include "collect/collector.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "collect/collector_private.h"
#include "collect/gpu/gpu.h"
#include "collect/ingest/ingest.h"
#include "infer/tracker.h"

#define DRAINS_PER_TICK 10
#define DRAIN_RECS (SONDE__RING_RECS / 8)  /* records a drain should find in a ring, at most … */
#define DRAIN_PAUSE_NS_MIN 5000000u        /* … but drains are no closer than this */

#define SONDE_PROBE(id) extern const struct sonde_probe_ops sonde_probe_##id;
#include "collect/proc/probe_list.h"
#undef SONDE_PROBE

static const struct sonde_probe_ops *const collector_probes[] = {
#define SONDE_PROBE(id) &sonde_probe_##id,
#include "collect/proc/probe_list.h"
#undef SONDE_PROBE
};

_Static_assert(SONDE_COUNT(collector_probes) <= COLLECTOR_PROBES, "a probe would have no place");

/* ---- Creating ----------------------------------------------------------------------------- */

static int dir_set(struct sonde_collector *c, const char *dir, struct sonde_err *err)
{
    if (!dir || !*dir) {
        c->dir_default = 1;
        if (sonde__dir_default(c->dir, sizeof(c->dir)) == 0) return 0;
        dir = "of SONDE_DIR";
    } else if (strlen(dir) < sizeof(c->dir)) {
        memcpy(c->dir, dir, strlen(dir) + 1);
        return 0;
    }
    return sonde_err_set(err, SONDE_EINVAL, "the path of the directory of segments %s is longer "
                         "than %zu bytes", dir, sizeof(c->dir) - 1);
}

/* Whether the directory can be used is said now, not in a log line of the first tick. */
static int dir_check(struct sonde_collector *c, struct sonde_err *err)
{
    int fd;
    if (c->agent && mkdir(c->dir, 0700) != 0 && errno != EEXIST) {
        return sonde_err_set(err, SONDE_EACCES, "cannot create the directory of segments %s: %s; "
                             "choose another with SONDE_DIR", c->dir, strerror(errno));
    }
    int rc = sonde_discover_open(c->dir, &fd, err);
    if (rc == SONDE_ENOENT) return 0; /* nobody has recorded yet */
    if (rc != 0) return rc;
    struct stat st;
    if (c->agent && fstat(fd, &st) == 0) {
        c->lock_fd = sonde_discover_lock(fd, err);
        c->lock_dev = st.st_dev;
        c->lock_ino = st.st_ino;
        if (c->lock_fd < 0) rc = c->lock_fd;
    }
    close(fd);
    return rc;
}

static struct sonde_probe_env probe_env(const struct sonde_collector *c, double now_s)
{
    return (struct sonde_probe_env){ .model = c->model, .proc_root = "/proc", .sys_root = "/sys",
                                     .now_s = now_s, .gpu = c->gpu };
}

static void probes_open(struct sonde_collector *c, const struct sonde_collector_options *o)
{
    struct sonde_probe_env env = probe_env(c, sonde_clock_s(CLOCK_REALTIME));
    for (size_t i = 0; i < SONDE_COUNT(collector_probes); i++) {
        const struct sonde_probe_ops *ops = collector_probes[i];
        struct sonde_err err;
        void *state = NULL;
        if (!o->host && strcmp(ops->name, "host") == 0) continue;
        if (!o->processes && strcmp(ops->name, "process") == 0) continue;
        if (!c->gpu && strcmp(ops->name, "gpu") == 0) continue;
        if (ops->open(&env, &state, &err) != 0) {
            sonde_log(SONDE_LOG_WARN, "probe %s is off: %s", ops->name, err.text);
            continue;
        }
        c->probes[c->probe_count++] = (struct probe){ ops, state };
    }
}

/* The agent of one program also wants what its shells started; see entry_wanted. */
static void group_set(struct sonde_collector *c)
{
    struct sonde_proc_stat st;
    if (!c->agent || c->pid == 0 || sonde_proc_stat(c->pid, &st) != 0) return;
    const pid_t group = getpgid((pid_t)c->pid);
    c->group = group > 0 ? (uint32_t)group : 0;
    c->pid_start = st.start;
}

int sonde_collector_create(const struct sonde_collector_options *options,
                           struct sonde_collector **out, struct sonde_err *err)
{
    assert(options && out);
    struct sonde_collector *c = sonde__calloc(1, sizeof(*c));
    if (!c) return sonde_err_set(err, SONDE_ENOMEM, "no memory for the collector");
    c->interval_s = options->interval_s > 0 ? options->interval_s : 1;
    c->retain_s = options->retain_s > 0 ? options->retain_s : 300;
    c->pid = options->pid;
    c->agent = options->agent;
    c->lock_fd = -1;
    sonde__here(&c->here);
    group_set(c);
    int rc = dir_set(c, options->dir, err);
    if (rc != 0) goto fail;
    if (sonde_model_create(&options->limits, &c->model) != 0 ||
        (options->infer && sonde_infer_create(c->model, options->infer, &c->tracker) != 0)) {
        rc = sonde_err_set(err, SONDE_ENOMEM, "no memory for the model");
        goto fail;
    }
    sonde_lock_init(&c->lock, SONDE_RANK_COLLECTOR);
    sonde_preload_readers_init(&c->readers);
    sonde_cond_init(&c->wake);
    rc = dir_check(c, err);
    if (rc != 0) {
        sonde_preload_readers_release(&c->readers);
        sonde_cond_destroy(&c->wake);
        sonde_lock_destroy(&c->lock);
        goto fail;
    }
    sonde_lock(&c->lock);
    collector_missed_look(c);
    if (c->agent) c->missed = 0; /* those were before us */
    sonde_unlock(&c->lock);
    c->model->now_s = sonde_clock_s(CLOCK_REALTIME);
    c->model->on_span = options->on_span;
    c->model->on_span_arg = options->on_span_arg;
    c->on_tick = options->on_tick;
    c->on_tick_arg = options->on_tick_arg;
    sonde_tick_clock_init(&c->clock);
    if (options->gpu.enabled) {
        struct sonde_gpu_options gpu = options->gpu;
        gpu.tick_ms = (uint32_t)(c->interval_s * 1000);
        if (sonde_gpu_create(&gpu, &c->gpu) != 0) c->gpu = NULL;
    }
    sonde_wrlock(&c->model->lock);
    probes_open(c, options);
    c->model->shared = 1;
    sonde_rwunlock(&c->model->lock);
    *out = c;
    return 0;

fail:
    sonde_infer_destroy(c->tracker);
    sonde_model_destroy(c->model);
    if (c->lock_fd >= 0) close(c->lock_fd);
    sonde__free(c);
    return rc;
}

static void missed_path(const struct sonde_collector *c, char out[static 512])
{
    snprintf(out, 512, "%s/" SONDE__MISSED_NAME, c->dir);
}

/* It begins anew for the next agent. */
static void collector_missed_end(const struct sonde_collector *c)
{
    char path[512];
    struct stat st;
    missed_path(c, path);
    if (c->agent && lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid()) {
        unlink(path);
    }
}

void sonde_collector_destroy(struct sonde_collector *c)
{
    if (!c) return;
    sonde_collector_stop(c);
    c->model->shared = 0; /* whoever knew it is gone */
    for (size_t i = 0; i < c->probe_count; i++) c->probes[i].ops->close(c->probes[i].state);
    sonde_gpu_destroy(c->gpu);
    /* Nobody else wants the locks; what is called relies on them. */
    sonde_lock(&c->lock);
    collector_missed_end(c);
    collector_state_save(c, 1);
    sonde_buf_release(&c->state.bytes);
    sonde_wrlock(&c->model->lock);
    collector_entries_free(c);
    sonde_rwunlock(&c->model->lock);
    sonde_unlock(&c->lock);
    struct sonde_infer_tracker *tracker = c->tracker;
    c->tracker = NULL; /* it reports requests that it gives up, and is not to be asked then */
    sonde_infer_destroy(tracker);
    sonde_model_destroy(c->model);
    if (c->lock_fd >= 0) close(c->lock_fd);
    sonde_cond_destroy(&c->wake);
    sonde_preload_readers_release(&c->readers);
    sonde_lock_destroy(&c->lock);
    sonde__free(c);
}

struct sonde_model *sonde_collector_model(struct sonde_collector *c) { return c->model; }

struct sonde_infer_tracker *sonde_collector_tracker(struct sonde_collector *c)
{
    return c->tracker;
}

const struct sonde_gpu *sonde_collector_gpu(const struct sonde_collector *c)
{
    return c->gpu;
}

void sonde_collector_gpu_burst(struct sonde_collector *c, int on)
{
    if (!c || !c->gpu) return;
    sonde_wrlock(&c->model->lock);
    sonde_gpu_burst(c->gpu, on);
    sonde_rwunlock(&c->model->lock);
}

const char *sonde_collector_dir(const struct sonde_collector *c) { return c->dir; }

struct sonde_preload_readers *sonde_collector_readers(struct sonde_collector *c)
{
    return c ? &c->readers : NULL;
}

/* ---- About the agent itself --------------------------------------------------------------- */

static struct sonde_model_series *self_series(struct sonde_collector *c, const char *name,
                                              const char *help, const char *unit,
                                              enum sonde_type type, double scale)
{
    const struct sonde_model_family_spec spec = {
        .name = name, .help = help, .unit = unit, .source = "sonde", .type = type,
        .scale = scale,
    };
    return sonde_model_own_series(c->model, &spec, NULL, NULL, 0);
}

static uint64_t collector_resident_bytes(void)
{
    char text[128];
    unsigned long long pages = 0;
    sonde_file_read_small(AT_FDCWD, "/proc/self/statm", text, sizeof(text));
    if (sscanf(text, "%*u %llu", &pages) != 1) return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void self_step(struct sonde_collector *c, uint64_t began_ns)
{
    sonde_assert_held_write(&c->model->lock);
    struct self *s = &c->self;
    if (!s->series) {
        s->series = self_series(c, "sonde_agent_series", "Series the agent keeps.", "",
                                SONDE_GAUGE, 1);
        s->tick_seconds = self_series(c, "sonde_agent_tick_seconds",
                                      "How long the agent's last reading took.", "seconds",
                                      SONDE_GAUGE, 1);
        s->refused = self_series(c, "sonde_agent_refused_segments_total",
                                 "Segments the agent did not read, or stopped reading.", "",
                                 SONDE_COUNTER, 1);
        s->missed = self_series(c, "sonde_agent_missed_processes_total",
                                "Processes that recorded nothing since there was no room for their "
                                "segments.", "", SONDE_COUNTER, 1);
        s->cpu = self_series(c, "sonde_agent_cpu_seconds_total", "CPU time the agent used.",
                             "seconds", SONDE_COUNTER, 1e-9);
        s->memory = self_series(c, "sonde_agent_memory_bytes", "Memory the agent uses.", "bytes",
                                SONDE_GAUGE, 1);
    }
    if (s->series) s->series->gauge = (double)c->model->series_count;
    if (s->refused) s->refused->counter = c->refused;
    if (s->missed) s->missed->counter = c->missed;
    if (s->cpu) s->cpu->counter = sonde_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (s->memory) s->memory->gauge = (double)collector_resident_bytes();
    if (s->tick_seconds) {
        s->tick_seconds->gauge = (double)(sonde_clock_ns(CLOCK_MONOTONIC) - began_ns) * 1e-9;
    }
}

/* ---- Stepping ----------------------------------------------------------------------------- */

/* What happened before the clock was looked at is in the model now. */
static void collector_drained(struct sonde_collector *c)
{
    sonde_assert_held_write(&c->model->lock);
    const uint64_t until_ns = c->clock.unix_ns + c->clock.now_mono_ns;
    c->model->spans_s = (double)until_ns * 1e-9;
    if (c->tracker) sonde_infer_drained(c->tracker, until_ns);
}

static void step_locked(struct sonde_collector *c)
{
    sonde_assert_held(&c->lock);
    sonde_tick_clock_update(&c->clock);
    uint64_t began_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    double now_s = sonde_clock_s(CLOCK_REALTIME);
    collector_missed_look(c);
    sonde_wrlock(&c->model->lock);
    collector_entries_step(c, now_s);
    collector_state_tell_lost(c);
    collector_watched_step(c, now_s);
    collector_drained(c);
    struct sonde_probe_env env = probe_env(c, now_s);
    for (size_t i = 0; i < c->probe_count; i++) {
        c->probes[i].ops->read(c->probes[i].state, &env);
    }
    sonde_ingest_tick(c->model, now_s);
    self_step(c, began_ns);
    if (c->tracker) sonde_infer_tick(c->tracker, now_s);
    sonde_model_tick(c->model, now_s);
    if (c->on_tick) c->on_tick(c->model, c->on_tick_arg);
    sonde_rwunlock(&c->model->lock);
    collector_state_save(c, 0);
}

void sonde_collector_step(struct sonde_collector *c)
{
    sonde_lock(&c->lock);
    step_locked(c);
    sonde_unlock(&c->lock);
}

static void drain_locked(struct sonde_collector *c)
{
    sonde_assert_held(&c->lock);
    sonde_tick_clock_update(&c->clock);
    sonde_wrlock(&c->model->lock);
    collector_entries_drain(c);
    collector_drained(c);
    sonde_rwunlock(&c->model->lock);
    collector_state_save(c, 0);
}

/* A process that writes much is looked at more often: the pause that would have found DRAIN_RECS in
 * the fullest ring. */
static uint64_t next_pause(const struct sonde_collector *c, uint64_t last_ns, uint64_t longest_ns)
{
    const uint32_t fullest = collector_entries_fullest(c);
    if (fullest == 0) return longest_ns;
    uint64_t ns = last_ns * DRAIN_RECS / fullest;
    if (ns < DRAIN_PAUSE_NS_MIN) ns = DRAIN_PAUSE_NS_MIN;
    return ns < longest_ns ? ns : longest_ns;
}

static void *collector_run(void *arg)
{
    struct sonde_collector *c = arg;
    const uint64_t tick_ns = (uint64_t)(c->interval_s * 1e9),
                   longest_ns = tick_ns / DRAINS_PER_TICK;
    uint64_t tick_at_ns = sonde_clock_ns(CLOCK_MONOTONIC), pause_ns = longest_ns;
    sonde_lock(&c->lock);
    while (!c->stopping) {
        const uint64_t began_ns = sonde_clock_ns(CLOCK_MONOTONIC);
        if (began_ns >= tick_at_ns) {
            step_locked(c);
            /* On schedule, not a pause after the work; but what was missed is not made up for. */
            tick_at_ns += tick_ns;
            const uint64_t now_ns = sonde_clock_ns(CLOCK_MONOTONIC);
            if (tick_at_ns < now_ns) tick_at_ns = now_ns;
        } else {
            drain_locked(c);
        }
        pause_ns = next_pause(c, pause_ns, longest_ns);
        uint64_t next_ns = began_ns + pause_ns;
        if (next_ns > tick_at_ns) next_ns = tick_at_ns;
        struct timespec until = sonde_clock_timespec(next_ns);
        while (!c->stopping &&
               sonde_cond_timedwait(&c->wake, &c->lock, &until) != ETIMEDOUT) {
        }
    }
    sonde_unlock(&c->lock);
    return NULL;
}

int sonde_collector_start(struct sonde_collector *c, struct sonde_err *err)
{
    if (c->thread.started) return 0;
    c->stopping = 0;
    return sonde_thread_start(&c->thread, "sonde-collector", collector_run, c, err);
}

void sonde_collector_stop(struct sonde_collector *c)
{
    if (!c->thread.started) return;
    sonde_lock(&c->lock);
    c->stopping = 1;
    sonde_cond_signal(&c->wake);
    sonde_unlock(&c->lock);
    sonde_thread_join(&c->thread);
    /* The next agent has the less to read. */
    sonde_lock(&c->lock);
    drain_locked(c);
    collector_state_save(c, 1);
    sonde_unlock(&c->lock);
}

void sonde_collector_watch(struct sonde_collector *c, uint32_t pid)
{
    assert(pid);
    sonde_lock(&c->lock);
    int known = 0;
    for (size_t i = 0; i < c->watched_count; i++) known |= c->watched[i].pid == pid;
    if (!known && c->watched_count < COLLECTOR_WATCHED) {
        c->watched[c->watched_count++] = (struct watched){ .pid = pid };
    }
    sonde_unlock(&c->lock);
}

size_t sonde_collector_refusals(struct sonde_collector *c, struct sonde_collector_refusal *out,
                                size_t max)
{
    assert(out || !max);
    sonde_lock(&c->lock);
    size_t n = c->refused < COLLECTOR_REFUSALS ? (size_t)c->refused : COLLECTOR_REFUSALS;
    if (n > max) n = max;
    for (size_t i = 0; i < n; i++) {
        out[i] = c->refusals[(c->refused - 1 - i) % COLLECTOR_REFUSALS];
    }
    sonde_unlock(&c->lock);
    return n;
}

/* ---- Processes without room --------------------------------------------------------------- */

/* Shorter than it was: another agent has removed it since. */
void collector_missed_look(struct sonde_collector *c)
{
    sonde_assert_held(&c->lock);
    char path[512];
    struct stat st;
    missed_path(c, path);
    const uint64_t bytes = lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    c->missed += bytes >= c->missed_bytes ? bytes - c->missed_bytes : bytes;
    c->missed_bytes = bytes;
}

uint64_t sonde_collector_missed(struct sonde_collector *c)
{
    sonde_lock(&c->lock);
    collector_missed_look(c);
    const uint64_t missed = c->missed;
    sonde_unlock(&c->lock);
    return missed;
}
