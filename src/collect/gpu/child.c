/* child.c - a process that opens one back-end, reads it over and over, and sends what it read until
 * the agent is gone: see child.h.
 *
 * fork() and no exec: what a back-end needs is in memory already, tests need no second program, and
 * the descriptors and signals of the agent are given up here in a few calls. The price is that the
 * child keeps pages of the agent as they were; it is started early, when those are few. */
#include "collect/gpu/child.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"

#define SLOW_EVERY_NS 10000000000u  /* between readings of what hardly changes */
#define CHILD_FD 3

/* Sums of readings since the last that was sent. */
struct gpu_child_sums {
    double sum[SONDE_GPU_FIGURES];
    uint32_t n[SONDE_GPU_FIGURES];
};

struct gpu_child {
    const struct sonde_gpu_child_options *o;
    struct sonde_gpu_snapshot s;
    struct gpu_child_sums *sums;      /* SONDE_GPU_DEVICES_MAX of them */
    struct sonde_gpu_packet packet;
    uint64_t seq, interval_ns;
};

/* 0; 1 = the agent does not take any now; -1 = it is gone. */
static int gpu_child_send(struct gpu_child *c, enum sonde_gpu_packet_type type, size_t bytes)
{
    c->packet.magic = SONDE_GPU_MAGIC;
    c->packet.type = type;
    c->packet.seq = c->seq;
    for (;;) {
        if (send(CHILD_FD, &c->packet, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return 0;
        if (errno == EINTR) continue;
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? 1 : -1;
    }
}

static void gpu_child_say(struct gpu_child *c, enum sonde_gpu_packet_type type, const char *text)
{
    sonde_gpu_text(c->packet.text, sizeof(c->packet.text), text);
    gpu_child_send(c, type, offsetof(struct sonde_gpu_packet, text) + sizeof(c->packet.text));
}

static void gpu_child_add(struct gpu_child *c)
{
    for (uint32_t i = 0; i < c->s.device_count; i++) {
        struct gpu_child_sums *sums = &c->sums[i];
        for (size_t f = 0; f < SONDE_GPU_FIGURES; f++) {
            const struct sonde_gpu_value *v = &c->s.device[i].figure[f];
            if (!sonde_gpu_figures[f].mean || v->state != SONDE_GPU_OK) continue;
            sums->sum[f] += v->v;
            sums->n[f]++;
        }
    }
}

static void gpu_child_fill(struct gpu_child *c, uint32_t i)
{
    struct sonde_gpu_device *d = &c->packet.device;
    const struct gpu_child_sums *sums = &c->sums[i];
    *d = c->s.device[i];
    for (size_t f = 0; f < SONDE_GPU_FIGURES; f++) {
        if (!sums->n[f]) continue;
        d->figure[f] = (struct sonde_gpu_value){ .state = SONDE_GPU_OK,
                                                 .v = sums->sum[f] / sums->n[f] };
    }
}

/* All of a reading, or as much as the agent takes: what has no end is passed over by it. */
static int gpu_child_report(struct gpu_child *c, uint64_t read_ns)
{
    const size_t head = offsetof(struct sonde_gpu_packet, text);
    int rc = 0;
    c->seq++;
    for (uint32_t i = 0; i < c->s.device_count && !rc; i++) {
        gpu_child_fill(c, i);
        rc = gpu_child_send(c, SONDE_GPU_PACKET_DEVICE, head + sizeof(c->packet.device));
    }
    for (uint32_t i = 0; i < c->s.process_count && !rc; i += c->packet.count) {
        const uint32_t left = c->s.process_count - i;
        c->packet.count = left < SONDE_GPU_PACKET_PROCESSES_MAX ? left
                                                                : SONDE_GPU_PACKET_PROCESSES_MAX;
        memcpy(c->packet.process, &c->s.process[i], c->packet.count * sizeof(c->s.process[0]));
        rc = gpu_child_send(c, SONDE_GPU_PACKET_PROCESSES,
                            head + c->packet.count * sizeof(c->packet.process[0]));
    }
    c->packet.count = c->s.device_count;
    c->packet.processes = c->s.process_count;
    c->packet.read_ns = read_ns;
    if (!rc) rc = gpu_child_send(c, SONDE_GPU_PACKET_END, head);
    memset(c->sums, 0, SONDE_GPU_DEVICES_MAX * sizeof(c->sums[0]));
    return rc < 0 ? -1 : 0;
}

/* Until until_ns, or an order came: 0; -1 = the agent is gone. */
static int gpu_child_wait(struct gpu_child *c, uint64_t until_ns)
{
    const uint64_t now = sonde_clock_ns(CLOCK_MONOTONIC);
    struct pollfd p = { .fd = CHILD_FD, .events = POLLIN };
    const int ms = until_ns > now ? (int)((until_ns - now + 999999) / 1000000) : 0;
    const int ready = poll(&p, 1, ms);
    if (ready <= 0) return ready < 0 && errno != EINTR ? -1 : 0;
    struct sonde_gpu_order order;
    const ssize_t n = recv(CHILD_FD, &order, sizeof(order), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return -1;
    if (n == (ssize_t)sizeof(order) && order.magic == SONDE_GPU_MAGIC && order.interval_ms) {
        c->interval_ns = (uint64_t)order.interval_ms * 1000000u;
    }
    return 0;
}

static void gpu_child_loop(struct gpu_child *c, void *state)
{
    const uint64_t send_ns = (uint64_t)c->o->send_ms * 1000000u;
    uint64_t read_at = 0, slow_at = 0, send_at = 0;
    for (;;) {
        const uint64_t began = sonde_clock_ns(CLOCK_MONOTONIC);
        if (began < read_at) {
            if (gpu_child_wait(c, read_at) != 0) return;
            /* A shorter interval counts from now on, not from the end of a longer one. */
            if (read_at > began + c->interval_ns) read_at = began + c->interval_ns;
            continue;
        }
        const int slow = began >= slow_at;
        if (slow) slow_at = began + SLOW_EVERY_NS;
        const int rc = c->o->ops->read(state, &c->s, slow);
        const uint64_t now = sonde_clock_ns(CLOCK_MONOTONIC);
        if (rc) {
            gpu_child_say(c, SONDE_GPU_PACKET_REOPEN, "");
            return;
        }
        gpu_child_add(c);
        /* On schedule, or a pause after a reading that took longer than it. */
        read_at = read_at + c->interval_ns > now ? read_at + c->interval_ns : now + c->interval_ns;
        if (read_at > now + c->interval_ns) read_at = now + c->interval_ns;
        if (now + 1000000 < send_at) continue;
        send_at = send_at + send_ns > now ? send_at + send_ns : now + send_ns;
        if (gpu_child_report(c, now - began) != 0) return;
    }
}

static void gpu_child_run(const struct sonde_gpu_child_options *o)
{
    struct gpu_child *c = sonde__calloc(1, sizeof(*c));
    struct sonde_err note = { "" };
    void *state = NULL;
    if (!c) return;
    c->o = o;
    c->interval_ns = (uint64_t)o->interval_ms * 1000000u;
    c->s.device = sonde__calloc(SONDE_GPU_DEVICES_MAX, sizeof(*c->s.device));
    c->s.process = sonde__calloc(SONDE_GPU_PROCESSES_MAX, sizeof(*c->s.process));
    c->sums = sonde__calloc(SONDE_GPU_DEVICES_MAX, sizeof(*c->sums));
    if (!c->s.device || !c->s.process || !c->sums) {
        gpu_child_say(c, SONDE_GPU_PACKET_REFUSED, "out of memory");
    } else if (o->ops->open(&o->env, &state, &note) != 0) {
        gpu_child_say(c, SONDE_GPU_PACKET_REFUSED, note.text);
    } else {
        gpu_child_say(c, SONDE_GPU_PACKET_OPENED, note.text);
        gpu_child_loop(c, state);
        o->ops->close(state);
    }
}

static _Noreturn void gpu_child_be(const struct sonde_gpu_child_options *o, pid_t parent, int fd)
{
    sigset_t none;
    struct rlimit core;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    prctl(PR_SET_NAME, "sonde-gpu");
    if (fd != CHILD_FD) dup2(fd, CHILD_FD);
    close_range(CHILD_FD + 1, ~0u, 0);
    /* Handlers of the agent are not for here, and ^C is for the agent to act on. */
    for (int s = 1; s < NSIG; s++) signal(s, SIG_DFL);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (getrlimit(RLIMIT_CORE, &core) == 0) {
        core.rlim_cur = 0;
        setrlimit(RLIMIT_CORE, &core);
    }
    gpu_child_run(o);
    _exit(0);
}

int sonde_gpu_child_start(const struct sonde_gpu_child_options *o, pid_t *pid, int *pidfd, int *fd)
{
    sigset_t all, before;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return SONDE_EIO;
    const pid_t self = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t child = fork();
    if (child == 0) gpu_child_be(o, self, ends[1]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return SONDE_EIO;
    }
    *pid = child;
    *pidfd = pidfd_open(child, 0);
    *fd = ends[0];
    return 0;
}

/* ---- What came of it ------------------------------------------------------------------------- */

static int gpu_packet_device(struct sonde_gpu_device *d)
{
    char *const text[] = { d->key, d->name, d->uuid, d->driver, d->version, d->parent };
    const size_t size[] = { sizeof(d->key), sizeof(d->name), sizeof(d->uuid), sizeof(d->driver),
                            sizeof(d->version), sizeof(d->parent) };
    for (size_t i = 0; i < SONDE_COUNT(text); i++) {
        char clean[128];
        text[i][size[i] - 1] = '\0';
        sonde_gpu_text(clean, size[i] < sizeof(clean) ? size[i] : sizeof(clean), text[i]);
        memcpy(text[i], clean, strlen(clean) + 1);
    }
    if (d->xid_count > SONDE_GPU_XIDS) d->xid_count = SONDE_GPU_XIDS;
    d->lost = d->lost != 0;
    d->partitioned = d->partitioned != 0;
    for (size_t f = 0; f < SONDE_GPU_FIGURES; f++) {
        struct sonde_gpu_value *v = &d->figure[f];
        if (v->state >= SONDE_GPU_STATE_COUNT) {
            *v = (struct sonde_gpu_value){ .state = SONDE_GPU_MALFORMED };
        } else if (v->state != SONDE_GPU_OK) {
            v->n = 0;
        } else if (sonde_gpu_figures[f].type == SONDE_GAUGE) {
            sonde_gpu_set(d, (enum sonde_gpu_figure)f, v->v);
        }
    }
    return d->key[0] != '\0';
}

static int gpu_packet_process(struct sonde_gpu_process *p)
{
    char clean[sizeof(p->name)];
    p->key[sizeof(p->key) - 1] = p->name[sizeof(p->name) - 1] = '\0';
    sonde_gpu_text(clean, sizeof(clean), p->name);
    memcpy(p->name, clean, sizeof(clean));
    if (!(p->memory_bytes >= 0 && p->memory_bytes < 1e18)) p->memory_bytes = __builtin_nan("");
    if (!(p->utilization >= 0)) p->utilization = __builtin_nan("");
    if (p->utilization > 1) p->utilization = 1;
    return p->pid != 0 && p->key[0];
}

int sonde_gpu_packet_check(struct sonde_gpu_packet *p, size_t len)
{
    const size_t head = offsetof(struct sonde_gpu_packet, text);
    if (len < head || p->magic != SONDE_GPU_MAGIC) return 0;
    switch (p->type) {
    case SONDE_GPU_PACKET_OPENED:
    case SONDE_GPU_PACKET_REFUSED:
    case SONDE_GPU_PACKET_REOPEN: {
        char clean[sizeof(p->text)];
        if (len != head + sizeof(p->text)) return 0;
        p->text[sizeof(p->text) - 1] = '\0';
        sonde_gpu_text(clean, sizeof(clean), p->text);
        memcpy(p->text, clean, strlen(clean) + 1);
        return 1;
    }
    case SONDE_GPU_PACKET_DEVICE:
        return len == head + sizeof(p->device) && gpu_packet_device(&p->device);
    case SONDE_GPU_PACKET_PROCESSES:
        if (p->count > SONDE_GPU_PACKET_PROCESSES_MAX ||
            len != head + p->count * sizeof(p->process[0])) {
            return 0;
        }
        for (uint32_t i = 0; i < p->count; i++) {
            if (!gpu_packet_process(&p->process[i])) return 0;
        }
        return 1;
    case SONDE_GPU_PACKET_END: return len == head;
    default: return 0;
    }
}
