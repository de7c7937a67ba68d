#include "collect/uprobe/event.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "collect/perf/event.h"
#include "collect/perf/limits.h"
#include "collect/perf/record.h"
#include "collect/uprobe/pair.h"
#include "sonde/sonde.h"
#include "unwind/arch_x86_64.h"

enum {
    RING_BYTES = 512 << 10, /* some 2,000 hits */
    RING_BYTES_MIN = 32 << 10
};

#define DEVICE "/sys/bus/event_source/devices/uprobe"

/* ---- The kernel's side ----------------------------------------------------------------------- */

/* The number behind prefix in a small file; -1 = it cannot be read, or is something else. */
static long uprobe_event_read_number(const char *path, const char *prefix)
{
    char text[64], *end;
    const size_t skip = strlen(prefix);
    const ssize_t n = sonde_file_read_small(AT_FDCWD, path, text, sizeof(text));
    if (n <= (ssize_t)skip || strncmp(text, prefix, skip) != 0) return -1;
    const long v = strtol(text + skip, &end, 10);
    return end == text + skip || v < 0 || v > INT32_MAX ? -1 : v;
}

static int find_device(struct sonde_uprobe_set *s, struct sonde_err *err)
{
    const long type = uprobe_event_read_number(DEVICE "/type", "");
    const long bit = uprobe_event_read_number(DEVICE "/format/retprobe", "config:");
    if (type < 0 || bit < 0 || bit > 63) {
        return sonde_err_set(err, SONDE_EOFF, "this kernel has no uprobes (" DEVICE " is missing): "
                             "use one that was built with CONFIG_UPROBE_EVENTS, or start the "
                             "program with `sonde run`");
    }
    s->type = (uint32_t)type;
    s->return_bit = UINT64_C(1) << bit;
    return 0;
}

int sonde_uprobe_set_init(struct sonde_uprobe_set *s, struct sonde_err *err)
{
    memset(s, 0, sizeof(*s));
    sonde_lock_init(&s->lock, SONDE_RANK_UPROBE_EVENTS);
    const int rc = find_device(s, err);
    if (rc) return rc;
    s->cpus = sonde__calloc(SONDE_PERF_CPUS_MAX, sizeof(*s->cpus));
    if (!s->cpus) return sonde_err_set(err, SONDE_ENOMEM, "no memory for probes");
    s->cpu_count = sonde_perf_cpus(s->cpus, SONDE_PERF_CPUS_MAX);
    return 0;
}

/* ---- Closing --------------------------------------------------------------------------------- */

/* Every probe that is closed makes the kernel wait until no CPU can be in it any more, 20 to 100
 * ms, one after the other. So the descriptors are left to a process that has nothing else to do: it
 * holds them until this one has closed its own, and they go with it. */

static int by_fd(const void *a, const void *b)
{
    const struct sonde_uprobe_event *x = a, *y = b;
    return SONDE_CMP(x->fd, y->fd);
}

/* In the child: only system calls. Nobody shall wait for what else it has inherited, as a terminal
 * or a pipe. */
static _Noreturn void hold_until_closed(const struct sonde_uprobe_set *s, int wait_fd)
{
    unsigned next = 0;
    char byte;
    if (dup2(wait_fd, s->events[s->event_count - 1].fd + 1) < 0) _exit(0);
    for (uint32_t i = 0; i < s->event_count; i++) {
        const unsigned fd = (unsigned)s->events[i].fd;
        if (fd > next) close_range(next, fd - 1, 0);
        next = fd + 1;
    }
    close_range(next + 1, ~0u, 0);
    prctl(PR_SET_NAME, "sonde-unprobe");
    setsid();
    if (chdir("/") == 0 && read((int)next, &byte, 1) != 0) _exit(0);
    _exit(0);
}

static void close_events(struct sonde_uprobe_set *s)
{
    int pipe_fds[2], status;
    if (!s->event_count) return;
    sonde_uprobe_set_disable(s);
    qsort(s->events, s->event_count, sizeof(*s->events), by_fd);
    const int piped = pipe2(pipe_fds, O_CLOEXEC) == 0;
    const pid_t child = piped ? fork() : -1;
    if (child == 0) {
        close(pipe_fds[1]);
        if (fork() == 0) hold_until_closed(s, pipe_fds[0]); /* init's child, not ours */
        _exit(0);
    }
    if (child > 0) {
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    }
    for (uint32_t i = 0; i < s->event_count; i++) close(s->events[i].fd);
    if (piped) {
        close(pipe_fds[0]);
        close(pipe_fds[1]);
    }
}

void sonde_uprobe_set_release(struct sonde_uprobe_set *s)
{
    close_events(s);
    for (uint32_t i = 0; s->rings && i < s->cpu_count; i++) sonde_perf_ring_unmap(&s->rings[i]);
    sonde_map_release(&s->by_id);
    sonde__free(s->events);
    sonde__free(s->rings);
    sonde__free(s->cpus);
    sonde_lock_destroy(&s->lock);
    memset(s, 0, sizeof(*s));
}

static int uprobe_event_explain(int error, struct sonde_err *err)
{
    switch (error) {
    case EACCES:
    case EPERM:
        return sonde_err_set(err, SONDE_EACCES,
                             "probes in programs are not permitted: run sonde as root or give it "
                             "CAP_PERFMON and CAP_SYS_PTRACE, in a container also allow "
                             "perf_event_open; or start the program with `sonde run`, whose hooks "
                             "need no privileges");
    case EMFILE:
    case ENFILE:
        return sonde_err_set(err, SONDE_EFULL, "probes take one open file for each function and "
                             "CPU, which are more than there may be: raise the limit (ulimit -n)");
    case ENOMEM: return sonde_err_set(err, SONDE_ENOMEM, "no memory for probes");
    default:
        return sonde_err_set(err, SONDE_EIO, "the kernel refuses a probe: %s", strerror(error));
    }
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int uprobe_event_map_rings(struct sonde_uprobe_set *s, struct sonde_err *err)
{
    if (s->rings) return 0;
    struct sonde_perf_ring *rings = sonde__calloc(s->cpu_count, sizeof(*rings));
    if (!rings) return sonde_err_set(err, SONDE_ENOMEM, "no memory for probes");
    int rc = SONDE_EACCES;
    for (size_t bytes = RING_BYTES; rc == SONDE_EACCES && bytes >= RING_BYTES_MIN; bytes /= 2) {
        rc = 0;
        for (uint32_t i = 0; i < s->cpu_count && !rc; i++) {
            rc = sonde_perf_ring_open(&rings[i], s->cpus[i], bytes);
        }
        for (uint32_t i = 0; rc && i < s->cpu_count; i++) sonde_perf_ring_unmap(&rings[i]);
    }
    if (rc) {
        sonde__free(rings);
        return rc == SONDE_EACCES ? uprobe_event_explain(EACCES, err)
                                  : sonde_err_set(err, rc, "cannot map the rings of probes: %s",
                                                  sonde_strerror(rc));
    }
    sonde_lock(&s->lock);
    s->rings = rings;
    sonde_unlock(&s->lock);
    return 0;
}

struct sonde_perf_ring *sonde_uprobe_set_rings(struct sonde_uprobe_set *s)
{
    sonde_lock(&s->lock);
    struct sonde_perf_ring *rings = s->rings;
    sonde_unlock(&s->lock);
    return rings;
}

static int uprobe_event_add(struct sonde_uprobe_set *s, const struct sonde_uprobe_event *e)
{
    sonde_assert_held(&s->lock);
    if (sonde_map_reserve(&s->by_id) || SONDE_ARRAY_ROOM(s->events, s->event_count, s->event_cap)) {
        return SONDE_ENOMEM;
    }
    s->events[s->event_count++] = *e;
    sonde_map_put(&s->by_id, sonde_hash_end(e->id), s->event_count);
    return 0;
}

static int uprobe_event_remember(struct sonde_uprobe_set *s, const struct sonde_uprobe_event *e)
{
    sonde_lock(&s->lock);
    const int rc = uprobe_event_add(s, e);
    sonde_unlock(&s->lock);
    return rc;
}

int sonde_uprobe_set_find(struct sonde_uprobe_set *s, uint64_t id, struct sonde_uprobe_event *out)
{
    const uint32_t hash = sonde_hash_end(id);
    uint32_t at = hash, i;
    int found = 0;
    sonde_lock(&s->lock);
    while (!found && (i = sonde_map_next(&s->by_id, hash, &at))) {
        found = s->events[i - 1].id == id;
        if (found) *out = s->events[i - 1];
    }
    sonde_unlock(&s->lock);
    return found;
}

/* Not woken for every hit: only where memory must be read at once. */
static struct perf_event_attr uprobe_event_make_attr(const struct sonde_uprobe_set *s,
                                                     const char *path, uint64_t at,
                                                     const struct sonde_uprobe_rule *rule,
                                                     int is_return)
{
    struct perf_event_attr a = {
        .size = sizeof(a),
        .type = s->type,
        .config = is_return ? s->return_bit : 0,
        .uprobe_path = (uintptr_t)path,
        .probe_offset = at,
        .sample_period = 1,
        .sample_type = SONDE_PERF_SAMPLE_TYPE,
        .sample_regs_user = SONDE__ARCH_PERF_REGS,
        .sample_id_all = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .disabled = 1,
    };
    if (!is_return) a.sample_stack_user = rule->at_entry ? SONDE_UPROBE_BATCH_STACK : 8;
    if (is_return ? rule->at_return : rule->at_entry) {
        a.wakeup_events = 1;
    } else {
        a.watermark = 1;
        a.wakeup_watermark = RING_BYTES / 4;
    }
    return a;
}

/* One probe on one CPU: 0 or an errno. */
static int open_one(struct sonde_uprobe_set *s, const struct perf_event_attr *attr, uint32_t cpu,
                    const struct sonde_uprobe_event *what)
{
    struct sonde_uprobe_event e = *what;
    e.fd = sonde_perf_open(attr, -1, s->cpus[cpu]);
    if (e.fd < 0 && errno == EMFILE && sonde_perf_more_files()) {
        e.fd = sonde_perf_open(attr, -1, s->cpus[cpu]);
    }
    if (e.fd < 0) return errno == ENODEV ? 0 : errno; /* that CPU is gone by now */
    int error = ioctl(e.fd, PERF_EVENT_IOC_ID, &e.id) ||
                ioctl(e.fd, PERF_EVENT_IOC_SET_OUTPUT, s->rings[cpu].fd) ? errno : 0;
    if (!error && uprobe_event_remember(s, &e)) error = ENOMEM;
    if (error) close(e.fd);
    return error;
}

/* Both ends of one function on all CPUs; the return first, so that no entry goes without. */
static int open_function(struct sonde_uprobe_set *s, const char *path, uint32_t file, uint32_t fn,
                         uint64_t at)
{
    const struct sonde_uprobe_rule *rule = sonde_uprobe_rule(fn);
    const uint32_t before = s->event_count;
    int error = 0;
    for (int is_return = rule->returns; is_return >= 0 && !error; is_return--) {
        const struct perf_event_attr attr = uprobe_event_make_attr(s, path, at, rule, is_return);
        const struct sonde_uprobe_event what = { .file = file, .fn = (uint16_t)fn,
                                                 .is_return = (uint16_t)is_return };
        for (uint32_t cpu = 0; cpu < s->cpu_count && !error; cpu++) {
            error = open_one(s, &attr, cpu, &what);
        }
    }
    for (uint32_t i = before; i < s->event_count && !error; i++) {
        if (ioctl(s->events[i].fd, PERF_EVENT_IOC_ENABLE, 0)) error = errno;
    }
    /* What is known of them stays: ids are not used again. */
    for (uint32_t i = before; error && i < s->event_count; i++) {
        ioctl(s->events[i].fd, PERF_EVENT_IOC_DISABLE, 0);
    }
    return error;
}

int sonde_uprobe_set_open(struct sonde_uprobe_set *s, int fd, uint32_t file,
                          const struct sonde_uprobe_symbols *symbols, uint32_t *probed,
                          struct sonde_err *err)
{
    assert(fd >= 0 && symbols && probed);
    char path[64];
    int rc = uprobe_event_map_rings(s, err);
    *probed = 0;
    if (rc) return rc;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    for (uint32_t fn = 0; fn < SONDE__LLAMA_COUNT; fn++) {
        if (!symbols->at[fn] || !sonde_uprobe_rule(fn)) continue;
        const int error = open_function(s, path, file, fn, symbols->at[fn]);
        if (!error) {
            (*probed)++;
            continue;
        }
        rc = uprobe_event_explain(error, err);
        if (rc != SONDE_EIO) return rc;
        sonde_log(SONDE_LOG_WARN, "function %u at 0x%llx: %s", fn,
                  (unsigned long long)symbols->at[fn], err->text);
    }
    return *probed ? 0 : rc;
}

void sonde_uprobe_set_disable(struct sonde_uprobe_set *s)
{
    for (uint32_t i = 0; i < s->event_count; i++) ioctl(s->events[i].fd, PERF_EVENT_IOC_DISABLE, 0);
}

/* ---- For doctor ------------------------------------------------------------------------------ */

int sonde_uprobe_check(struct sonde_err *note)
{
    struct sonde_uprobe_set s;
    struct sonde_uprobe_symbols symbols = { 0 };
    char path[64];
    memset(&s, 0, sizeof(s));
    int rc = find_device(&s, note);
    if (rc) return rc;
    const int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (exe < 0 || sonde_uprobe_symbols_read(exe, &symbols) || !symbols.entry_at) {
        rc = sonde_err_set(note, SONDE_EIO, "this program cannot be read");
    } else {
        /* Where it has begun already: nothing comes there again. */
        snprintf(path, sizeof(path), "/proc/self/fd/%d", exe);
        const struct perf_event_attr attr = uprobe_event_make_attr(
            &s, path, symbols.entry_at, sonde_uprobe_rule(SONDE__LLAMA_APPLY), 0);
        const int fd = sonde_perf_open(&attr, getpid(), -1);
        rc = fd < 0 ? uprobe_event_explain(errno, note) : 0;
        if (fd >= 0) close(fd);
    }
    if (exe >= 0) close(exe);
    if (!rc) {
        sonde_err_set(note, 0, "uprobes work: llama.cpp is watched in programs that run already, "
                      "and in static ones");
    }
    return rc;
}
