#include "collect/perf/event.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/hash.h"
#include "collect/perf/limits.h"
#include "collect/perf/record.h"
#include "collect/proc/procfs.h"
#include "sonde/sonde.h"
#include "unwind/arch_x86_64.h"

enum {
    TRACK_BYTES = 128 << 10,      /* some 3,000 records */
    TRACK_SWITCH_BYTES = 512 << 10,
    SAMPLE_BYTES_MIN = 128 << 10,
    SAMPLE_BYTES_MAX = 8 << 20,
    SAMPLE_BYTES_ALL = 128 << 20, /* over all CPUs */
    STACK_MIN = 8 << 10,
    SCANS = 16                    /* of a process that keeps making threads */
};
/* Seconds of sampling that a ring should hold: on a busy machine the reader waits for a CPU. */
#define BUFFER_S 0.5

int sonde_perf_open(const struct perf_event_attr *attr, int pid, int cpu)
{
    return (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int open_event(const struct perf_event_attr *attr, uint32_t pid, int cpu)
{
    return sonde_perf_open(attr, (int)pid, cpu);
}

/* ---- Attributes ------------------------------------------------------------------------------ */

static struct perf_event_attr base_attr(void)
{
    return (struct perf_event_attr){
        .size = sizeof(struct perf_event_attr),
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_DUMMY,
        .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        .sample_id_all = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
}

static void sampling_attr(const struct sonde_perf_options *o, const struct sonde_perf_plan *plan,
                          enum sonde_perf_kind kind, struct perf_event_attr *a)
{
    a->sample_type = SONDE_PERF_SAMPLE_TYPE;
    a->sample_regs_user = SONDE__ARCH_PERF_REGS;
    a->sample_stack_user = kind == SONDE_PERF_SWITCH ? o->switch_bytes : o->stack_bytes;
    a->read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    a->exclude_kernel = (unsigned)plan->exclude_kernel & 1;
    if (o->callchain && !plan->exclude_kernel) {
        a->sample_type |= PERF_SAMPLE_CALLCHAIN;
        a->exclude_callchain_user = 1;
    }
    if (kind == SONDE_PERF_SWITCH) {
        /* Every one: at a frequency the kernel passes over those that follow others within
         * microseconds, as hand-overs between threads do, and their waits have no stack. A flood is
         * throttled by the kernel (perf_event_max_sample_rate). */
        a->config = PERF_COUNT_SW_CONTEXT_SWITCHES;
        a->sample_period = 1;
    } else if (plan->hardware) {
        a->type = PERF_TYPE_HARDWARE;
        a->config = PERF_COUNT_HW_CPU_CYCLES;
        a->freq = 1;
        a->sample_freq = (uint64_t)(o->rate_hz + 0.5);
    } else {
        a->config = PERF_COUNT_SW_CPU_CLOCK;
        a->sample_period = (uint64_t)(1e9 / o->rate_hz + 0.5);
    }
}

static struct perf_event_attr perf_event_make_attr(const struct sonde_perf_options *o,
                                                   const struct sonde_perf_plan *plan,
                                                   enum sonde_perf_kind kind)
{
    struct perf_event_attr a = base_attr();
    a.disabled = 1;
    a.inherit = 1;
    a.inherit_thread = !o->children && plan->threads_only;
    a.enable_on_exec = o->on_exec != 0;
    if (kind == SONDE_PERF_OUTPUT) {
        a.config = PERF_COUNT_SW_BPF_OUTPUT;
        a.sample_type = SONDE_PERF_OUTPUT_TYPE;
        a.sample_period = 1;
    } else if (kind == SONDE_PERF_TRACK) {
        a.mmap = a.mmap2 = a.comm = a.comm_exec = a.task = 1;
        a.context_switch = o->switches != 0;
    } else if (kind == SONDE_PERF_COUNT) {
        a.config = PERF_COUNT_SW_TASK_CLOCK;
        a.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        a.exclude_kernel = (unsigned)plan->exclude_kernel & 1;
    } else {
        sampling_attr(o, plan, kind, &a);
    }
    return a;
}

/* ---- Planning -------------------------------------------------------------------------------- */

int sonde_perf_plan(const struct sonde_perf_options *options, struct sonde_perf_plan *out,
                    struct sonde_err *err)
{
    struct sonde_perf_options o = *options;
    int cpu = 0, error = 0;
    o.children = 0;
    o.stack_bytes = STACK_MIN;
    sonde_perf_cpus(&cpu, 1);
    for (int n = 0; n < 8; n++) {
        const struct sonde_perf_plan plan = {
            .hardware = !(n & 4), .exclude_kernel = (n & 2) != 0, .threads_only = !(n & 1)
        };
        const struct perf_event_attr attr = perf_event_make_attr(&o, &plan, SONDE_PERF_CLOCK);
        const int fd = open_event(&attr, o.pid, cpu);
        if (fd >= 0) {
            close(fd);
            *out = plan;
            return 0;
        }
        if (errno == ESRCH) return sonde_perf_explain(ESRCH, o.pid, err);
        if (errno == EMFILE && sonde_perf_more_files()) {
            n--;
            continue;
        }
        /* "Not permitted" says more than that a counter or a flag is unknown. */
        if (error != EACCES && error != EPERM) error = errno;
    }
    return sonde_perf_explain(error, o.pid, err);
}

/* ---- Rings ----------------------------------------------------------------------------------- */

static size_t power_of_two(double bytes, size_t min, size_t max)
{
    size_t size = min;
    while (size < max && (double)size < bytes) size *= 2;
    return size;
}

int sonde_perf_ring_open(struct sonde_perf_ring *r, int cpu, size_t bytes)
{
    struct perf_event_attr attr = base_attr();
    attr.watermark = 1;
    attr.wakeup_watermark = (uint32_t)(bytes / 4);
    const int fd = open_event(&attr, (uint32_t)getpid(), cpu);
    if (fd < 0) {
        return errno == EACCES || errno == EPERM    ? SONDE_EACCES
               : errno == EMFILE || errno == ENFILE ? SONDE_EFULL : SONDE_EIO;
    }
    return sonde_perf_ring_map(r, fd, bytes);
}

static void unmap_rings(struct sonde_perf_set *s)
{
    for (uint32_t i = 0; s->rings && i < 2 * s->cpu_count; i++) sonde_perf_ring_unmap(&s->rings[i]);
}

static int map_all(struct sonde_perf_set *s, size_t track, size_t sample)
{
    int rc = 0;
    for (uint32_t i = 0; i < s->cpu_count && !rc; i++) {
        rc = sonde_perf_ring_open(&s->rings[i], s->cpus[i], track);
        if (!rc) rc = sonde_perf_ring_open(&s->rings[s->cpu_count + i], s->cpus[i], sample);
    }
    if (rc) unmap_rings(s);
    return rc;
}

/* A ring must hold 50 ms of samples, and a few of them however slow they come. */
uint32_t sonde_perf_set_stack_max(const struct sonde_perf_set *s)
{
    const double records = s->options.rate_hz * 0.05 < 4 ? 4 : s->options.rate_hz * 0.05;
    const double bytes = (double)s->rings[s->cpu_count].size / records;
    const double room = bytes < STACK_MIN ? STACK_MIN : bytes;
    return room < SONDE_PERF_STACK_MAX ? (uint32_t)room & ~7u : SONDE_PERF_STACK_MAX;
}

/* The rings wanted, or the largest that may be locked in memory, and a stack that fits them. */
static int perf_event_map_rings(struct sonde_perf_set *s, struct sonde_err *err)
{
    struct sonde_perf_options *o = &s->options;
    size_t max = SAMPLE_BYTES_MAX;
    while (max > SAMPLE_BYTES_MIN && max * s->cpu_count > SAMPLE_BYTES_ALL) max /= 2;
    const double record = o->stack_bytes ? o->stack_bytes : SONDE_PERF_STACK_USUAL;
    size_t sample = max; /* switches may come in floods */
    if (!o->switches) sample = power_of_two(o->rate_hz * BUFFER_S * record, SAMPLE_BYTES_MIN, max);
    size_t track = o->switches ? TRACK_SWITCH_BYTES : TRACK_BYTES;

    int rc;
    while ((rc = map_all(s, track, sample)) == SONDE_EACCES && sample > SAMPLE_BYTES_MIN / 4) {
        sample /= 2;
        if (track > sample) track /= 2;
    }
    if (rc == SONDE_EACCES) {
        return sonde_err_set(err, rc, "the kernel gives no memory for the rings of perf events: "
                             "raise kernel.perf_event_mlock_kb (now %ld) or ulimit -l",
                             sonde_perf_sysctl("perf_event_mlock_kb", 0));
    }
    if (rc == SONDE_EFULL) return sonde_perf_explain(EMFILE, o->pid, err);
    if (rc) {
        return sonde_err_set(err, rc, "cannot map the rings of perf events: %s",
                             sonde_strerror(rc));
    }
    const uint32_t room = sonde_perf_set_stack_max(s);
    o->stack_bytes = o->stack_bytes && o->stack_bytes < room ? o->stack_bytes & ~7u : room;
    o->switch_bytes =
        o->stack_bytes < SONDE_PERF_STACK_USUAL ? o->stack_bytes : SONDE_PERF_STACK_USUAL;
    return 0;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static int perf_event_remember(struct sonde_perf_set *s, const struct sonde_perf_event *e)
{
    assert(e->fd >= 0);
    if (sonde_map_reserve(&s->by_id) || SONDE_ARRAY_ROOM(s->events, s->event_count, s->event_cap)) {
        return SONDE_ENOMEM;
    }
    s->events[s->event_count++] = *e;
    sonde_map_put(&s->by_id, sonde_hash_end(e->id), s->event_count);
    return 0;
}

const struct sonde_perf_event *sonde_perf_set_find(const struct sonde_perf_set *s, uint64_t id)
{
    const uint32_t hash = sonde_hash_end(id);
    uint32_t at = hash, i;
    while ((i = sonde_map_next(&s->by_id, hash, &at))) {
        if (s->events[i - 1].id == id) return &s->events[i - 1];
    }
    return NULL;
}

/* One event: 0, SONDE_ENOENT (no such thread any more, or CPU), or SONDE_E… with err. */
static int perf_event_add(struct sonde_perf_set *s, uint32_t tid, uint32_t cpu,
                          enum sonde_perf_kind kind, struct sonde_err *err)
{
    struct perf_event_attr attr = perf_event_make_attr(&s->options, &s->plan, kind);
    const uint32_t ring = cpu + (kind == SONDE_PERF_TRACK ? 0 : s->cpu_count);
    if (tid == SONDE_PERF_WIDE) { /* which is -1 for the kernel, too */
        attr.inherit = attr.inherit_thread = attr.enable_on_exec = 0;
        attr.exclude_idle = kind == SONDE_PERF_CLOCK;
    }
    int rc = 0, fd = open_event(&attr, tid, s->cpus[cpu]);
    if (fd < 0 && errno == EMFILE && sonde_perf_more_files()) {
        fd = open_event(&attr, tid, s->cpus[cpu]);
    }
    if (fd < 0) {
        if (errno == ESRCH || errno == ENODEV) return SONDE_ENOENT;
        if (tid == SONDE_PERF_WIDE) return SONDE_EACCES;
        return sonde_perf_explain(errno, s->options.pid, err);
    }
    struct sonde_perf_event e = {
        .owner = tid, .generation = s->generation, .fd = fd, .cpu = (uint16_t)cpu,
        .kind = (uint16_t)kind
    };
    if (ioctl(fd, PERF_EVENT_IOC_ID, &e.id) ||
        (kind != SONDE_PERF_COUNT && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, s->rings[ring].fd)) ||
        (kind == SONDE_PERF_CLOCK && s->program &&
         ioctl(fd, PERF_EVENT_IOC_SET_BPF, s->program))) {
        rc = sonde_err_set(err, SONDE_EIO, "cannot set up a perf event on thread %u: %s", tid,
                           strerror(errno));
    }
    if (!rc && !s->options.on_exec && ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
        rc = errno == ESRCH ? SONDE_ENOENT : SONDE_EIO;
    }
    if (!rc) rc = perf_event_remember(s, &e);
    if (rc) close(fd);
    return rc;
}

/* Which events are opened, as bits of 1 << kind. */
enum { KINDS_TRACK = 1u << SONDE_PERF_TRACK, KINDS_COUNT = 1u << SONDE_PERF_COUNT };

static uint32_t sampling_kinds(const struct sonde_perf_set *s)
{
    const int counts = s->wide || s->options.no_clock;
    const uint32_t clock = 1u << (counts ? SONDE_PERF_COUNT : SONDE_PERF_CLOCK);
    /* A switch happens in the kernel: where that may not be seen there is no stack of it. */
    const int switches = s->options.switches && !s->plan.exclude_kernel;
    return clock | (switches ? 1u << SONDE_PERF_SWITCH : 0);
}

/* Events of these kinds on one thread. SONDE_ENOENT: it is gone. */
static int perf_event_add_thread(struct sonde_perf_set *s, uint32_t tid, uint32_t kinds,
                                 struct sonde_err *err)
{
    uint32_t opened = 0;
    for (uint32_t cpu = 0; cpu < s->cpu_count; cpu++) {
        for (int kind = SONDE_PERF_TRACK; kind <= SONDE_PERF_COUNT; kind++) {
            if (!(kinds & 1u << kind)) continue;
            const int rc = perf_event_add(s, tid, cpu, (enum sonde_perf_kind)kind, err);
            if (rc && rc != SONDE_ENOENT) return rc;
            opened += !rc;
        }
    }
    return opened ? 0 : SONDE_ENOENT;
}

static int is_opened(const struct sonde_perf_set *s, uint32_t tid, uint32_t from)
{
    for (uint32_t i = from; i < s->event_count; i++) {
        if (s->events[i].owner == tid) return 1;
    }
    return 0;
}

/* One look at the threads pid has: those not opened since event number from are. Returns how many
 * or SONDE_E…. */
static int scan_threads(struct sonde_perf_set *s, uint32_t pid, uint32_t from, uint32_t kinds,
                        struct sonde_err *err)
{
    char path[64];
    struct sonde_procfs_dir dir;
    uint32_t tid;
    int opened = 0, rc;
    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    rc = sonde_procfs_dir_open(&dir, AT_FDCWD, path);
    if (rc) return rc == SONDE_ENOENT ? sonde_perf_explain(ESRCH, pid, err) : rc;
    while (sonde_procfs_dir_next(&dir, &tid)) {
        if (is_opened(s, tid, from)) continue;
        rc = perf_event_add_thread(s, tid, kinds, err);
        if (rc && rc != SONDE_ENOENT) break;
        opened += !rc;
        rc = 0;
    }
    sonde_procfs_dir_close(&dir);
    return rc ? rc : opened;
}

static int open_threads(struct sonde_perf_set *s, uint32_t pid, uint32_t from, uint32_t kinds,
                        struct sonde_err *err)
{
    int opened = 1, all = 0;
    for (int n = 0; opened > 0 && n < SCANS; n++) {
        opened = scan_threads(s, pid, from, kinds, err);
        if (opened > 0) all += opened;
    }
    if (opened < 0) return opened;
    return all ? 0 : sonde_perf_explain(ESRCH, pid, err);
}

int sonde_perf_set_open(struct sonde_perf_set *s, uint32_t pid, struct sonde_err *err)
{
    assert(s->rings && pid);
    return open_threads(s, pid, s->event_count, KINDS_TRACK | sampling_kinds(s), err);
}

int sonde_perf_set_add(struct sonde_perf_set *s, uint32_t pid, struct sonde_err *err)
{
    return open_threads(s, pid, s->event_count, sampling_kinds(s), err);
}

/* ---- Counts and ends ------------------------------------------------------------------------- */

static void perf_event_read(const struct sonde_perf_event *e, uint64_t *count, uint64_t *ns)
{
    uint64_t v[3]; /* value, time enabled, time running */
    if (e->fd < 0 || e->owner == SONDE_PERF_WIDE) return;
    if (e->kind != SONDE_PERF_CLOCK && e->kind != SONDE_PERF_COUNT) return;
    if (read(e->fd, v, sizeof(v)) != sizeof(v)) return;
    *count += v[0];
    *ns += v[2];
}

void sonde_perf_set_read(struct sonde_perf_set *s, uint64_t *count, uint64_t *ns)
{
    *count = s->closed_count;
    *ns = s->closed_ns;
    for (uint32_t i = 0; i < s->event_count; i++) perf_event_read(&s->events[i], count, ns);
}

static void close_event(struct sonde_perf_set *s, struct sonde_perf_event *e)
{
    if (e->fd < 0) return;
    perf_event_read(e, &s->closed_count, &s->closed_ns);
    close(e->fd);
    e->fd = -1;
}

void sonde_perf_set_disable(struct sonde_perf_set *s)
{
    for (uint32_t i = 0; i < s->event_count; i++) {
        if (s->events[i].fd >= 0) ioctl(s->events[i].fd, PERF_EVENT_IOC_DISABLE, 0);
    }
}

void sonde_perf_set_pause(struct sonde_perf_set *s, int paused)
{
    for (uint32_t i = 0; i < s->event_count; i++) {
        const struct sonde_perf_event *e = &s->events[i];
        if (e->fd < 0 || e->kind != SONDE_PERF_CLOCK) continue;
        ioctl(e->fd, paused ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_ENABLE, 0);
    }
}

/* Events of two generations have counted side by side since the later one was opened: what that one
 * has, from number from on, is counted once only. */
static void count_once(struct sonde_perf_set *s, uint32_t from)
{
    uint64_t count = 0, ns = 0;
    for (uint32_t i = from; i < s->event_count; i++) perf_event_read(&s->events[i], &count, &ns);
    s->closed_count -= count < s->closed_count ? count : s->closed_count;
    s->closed_ns -= ns < s->closed_ns ? ns : s->closed_ns;
}

int sonde_perf_set_resize(struct sonde_perf_set *s, uint32_t stack_bytes, const uint32_t *pids,
                          uint32_t count, struct sonde_err *err)
{
    assert(stack_bytes && stack_bytes % 8 == 0); /* or the kernel refuses */
    const uint32_t before = s->event_count;
    const uint32_t had = s->options.stack_bytes, had_switch = s->options.switch_bytes;
    const uint64_t had_count = s->closed_count, had_ns = s->closed_ns;
    int rc = 0;
    s->options.stack_bytes = s->options.switch_bytes = stack_bytes;
    s->options.on_exec = 0;
    s->generation++;
    for (uint32_t i = 0; i < count && !rc; i++) {
        rc = open_threads(s, pids[i], before, sampling_kinds(s), err);
        if (rc == SONDE_ENOENT) rc = 0;
    }
    /* What is closed: the old ones, or, when there is no room for the new ones, those. */
    const uint32_t from = rc ? before : 0, to = rc ? s->event_count : before;
    for (uint32_t i = from; i < to; i++) {
        const uint16_t kind = s->events[i].kind;
        if (kind != SONDE_PERF_TRACK && kind != SONDE_PERF_OUTPUT) close_event(s, &s->events[i]);
    }
    if (rc) {
        s->options.stack_bytes = had;
        s->options.switch_bytes = had_switch;
        s->closed_count = had_count;
        s->closed_ns = had_ns;
    } else {
        count_once(s, before);
    }
    return rc;
}

int sonde_perf_set_program(struct sonde_perf_set *s, int program, struct sonde_err *err)
{
    const uint32_t before = s->event_count;
    const int on_exec = s->options.on_exec;
    int rc = 0;
    s->options.on_exec = 0; /* these are no process's */
    for (uint32_t cpu = 0; cpu < s->cpu_count && !rc; cpu++) {
        rc = perf_event_add(s, SONDE_PERF_WIDE, cpu, SONDE_PERF_OUTPUT, err);
        if (rc == SONDE_ENOENT) rc = 0; /* the CPU is gone */
        if (rc == SONDE_EACCES) {
            sonde_err_set(err, rc, "the kernel permits no events of whole CPUs: run as root, or "
                          "with CAP_PERFMON");
        }
    }
    s->options.on_exec = on_exec;
    if (!rc) s->program = program;
    for (uint32_t i = 0; i < before && !rc; i++) {
        const struct sonde_perf_event *e = &s->events[i];
        if (e->fd < 0 || e->kind != SONDE_PERF_CLOCK || e->owner != SONDE_PERF_WIDE) continue;
        (void)ioctl(e->fd, PERF_EVENT_IOC_SET_BPF, program); /* without it: no records */
    }
    for (uint32_t i = before; i < s->event_count && rc; i++) close_event(s, &s->events[i]);
    return rc;
}

int sonde_perf_set_widen(struct sonde_perf_set *s, uint32_t stack_bytes, const uint32_t *pids,
                         uint32_t count, struct sonde_err *err)
{
    const uint32_t before = s->event_count;
    const uint32_t had = s->options.stack_bytes;
    int rc = 0;
    s->options.stack_bytes = stack_bytes;
    s->options.on_exec = 0;
    s->generation++;
    for (uint32_t i = 0; i < count && !rc; i++) {
        rc = open_threads(s, pids[i], before, KINDS_COUNT, err);
        if (rc == SONDE_ENOENT) rc = 0;
    }
    for (uint32_t cpu = 0; cpu < s->cpu_count && !rc; cpu++) {
        rc = perf_event_add(s, SONDE_PERF_WIDE, cpu, SONDE_PERF_CLOCK, err);
        if (rc == SONDE_ENOENT) rc = 0;
    }
    if (rc) { /* as it was; samples of the new ones, if any came, are a few too many */
        for (uint32_t i = before; i < s->event_count; i++) {
            if (s->events[i].fd >= 0) close(s->events[i].fd);
            s->events[i].fd = -1;
        }
        s->options.stack_bytes = had;
        s->generation--;
        return rc;
    }
    s->wide = 1;
    for (uint32_t i = 0; i < before; i++) {
        if (s->events[i].kind == SONDE_PERF_CLOCK) close_event(s, &s->events[i]);
    }
    count_once(s, before);
    return 0;
}

int sonde_perf_set_init(struct sonde_perf_set *s, const struct sonde_perf_options *options,
                        struct sonde_err *err)
{
    assert(s && options);
    memset(s, 0, sizeof(*s));
    s->options = *options;
    int rc = sonde_perf_plan(options, &s->plan, err);
    if (rc) return rc;
    rc = SONDE_ENOMEM;
    s->cpus = sonde__calloc(SONDE_PERF_CPUS_MAX, sizeof(*s->cpus));
    if (!s->cpus) goto fail;
    s->cpu_count = sonde_perf_cpus(s->cpus, SONDE_PERF_CPUS_MAX);
    s->rings = sonde__calloc(2 * s->cpu_count, sizeof(*s->rings));
    if (!s->rings) goto fail;
    rc = perf_event_map_rings(s, err);
    if (!rc) return 0;
fail:
    sonde_perf_set_release(s);
    return rc;
}

void sonde_perf_set_release(struct sonde_perf_set *s)
{
    for (uint32_t i = 0; i < s->event_count; i++) {
        if (s->events[i].fd >= 0) close(s->events[i].fd);
    }
    unmap_rings(s);
    sonde_map_release(&s->by_id);
    sonde__free(s->events);
    sonde__free(s->rings);
    sonde__free(s->cpus);
    memset(s, 0, sizeof(*s));
}
