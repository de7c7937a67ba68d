/* monitor.c - the agent's side: starts children, takes what they send, ends those that do not, and
 * makes one row of each device: see gpu.h. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "collect/gpu/child.h"

#define LOOK_NS 10000000000u        /* between looks for what is not here */
#define RETRY_NS 30000000000u       /* after a failure; doubled with each */
#define RETRY_NS_MAX 3600000000000u
#define OPEN_S 60.0                 /* a driver may initialize its cards first */

#define SONDE_GPU_BACKEND(id) extern const struct sonde_gpu_backend sonde_gpu_##id;
#include "collect/gpu/backend_list.h"
#undef SONDE_GPU_BACKEND

static const struct sonde_gpu_backend *const gpu_backends[] = {
#define SONDE_GPU_BACKEND(id) &sonde_gpu_##id,
#include "collect/gpu/backend_list.h"
#undef SONDE_GPU_BACKEND
};

struct gpu_source {
    const struct sonde_gpu_backend *ops;
    enum sonde_gpu_source_state state;
    char note[256];
    pid_t pid;                       /* not reaped yet; 0 = none */
    int pidfd, fd;                   /* -1 = none */
    int killed;
    uint64_t heard_ns;               /* of it last; when it was started, at first */
    uint64_t retry_ns, pause_ns;     /* not before; how long the pause was */
    uint32_t restarts, hangs, crashes;
    uint32_t interval_ms;            /* it was told */
    double read_s;
    struct sonde_gpu_snapshot made, now; /* on its way; whole. NULL devices = nothing yet */
    uint64_t made_seq;
};

struct sonde_gpu {
    struct sonde_gpu_options o;
    char root[256];
    int burst;
    uint64_t look_ns;                /* next look for what is absent */
    struct gpu_source source[SONDE_COUNT(gpu_backends)];
    struct sonde_gpu_row *row;       /* owned */
    size_t row_count, row_cap;
    uint32_t next_index;
    char (*by)[48];                  /* of each row */
    size_t by_cap;
    struct sonde_gpu_process *process;
    size_t process_count, process_cap;
};

int sonde_gpu_create(const struct sonde_gpu_options *options, struct sonde_gpu **out)
{
    struct sonde_gpu *g = sonde__calloc(1, sizeof(*g));
    if (!g) return SONDE_ENOMEM;
    g->o = *options;
    if (!g->o.interval_ms) g->o.interval_ms = 1000;
    if (!g->o.burst_ms) g->o.burst_ms = 100;
    if (!g->o.tick_ms) g->o.tick_ms = 1000;
    if (!(g->o.hang_s > 0)) g->o.hang_s = 5;
    snprintf(g->root, sizeof(g->root), "%s", options->root ? options->root : "");
    g->o.root = g->root;
    for (size_t i = 0; i < SONDE_COUNT(gpu_backends); i++) {
        g->source[i] = (struct gpu_source){ .ops = gpu_backends[i], .pidfd = -1, .fd = -1 };
    }
    *out = g;
    return 0;
}

/* ---- Children -------------------------------------------------------------------------------- */

static void gpu_snapshot_release(struct sonde_gpu_snapshot *s)
{
    sonde__free(s->device);
    sonde__free(s->process);
    *s = (struct sonde_gpu_snapshot){ 0 };
}

static int gpu_snapshot_init(struct sonde_gpu_snapshot *s)
{
    if (!s->device) s->device = sonde__calloc(SONDE_GPU_DEVICES_MAX, sizeof(*s->device));
    if (!s->process) s->process = sonde__calloc(SONDE_GPU_PROCESSES_MAX, sizeof(*s->process));
    s->device_count = s->process_count = 0;
    return s->device && s->process ? 0 : SONDE_ENOMEM;
}

static void gpu_source_kill(struct gpu_source *s)
{
    if (!s->pid || s->killed) return;
    if (s->pidfd >= 0) pidfd_send_signal(s->pidfd, SIGKILL, NULL, 0);
    else kill(s->pid, SIGKILL);
    s->killed = 1;
}

/* It has nothing to say any more; what it read is gone with it. */
static void gpu_source_end(struct gpu_source *s)
{
    gpu_source_kill(s);
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
    gpu_snapshot_release(&s->made);
    gpu_snapshot_release(&s->now);
}

/* 1 = no process of it is left. One that hangs in the kernel stays, and is in nobody's way. */
static int gpu_source_reap(struct gpu_source *s)
{
    if (!s->pid) return 1;
    int status = 0;
    const pid_t got = waitpid(s->pid, &status, WNOHANG);
    if (got == 0) return 0;
    if (got == s->pid && WIFSIGNALED(status) && !s->killed) {
        s->crashes++;
        snprintf(s->note, sizeof(s->note), "it crashed (signal %d: %s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    }
    if (s->pidfd >= 0) close(s->pidfd);
    s->pidfd = -1;
    s->pid = 0;
    return 1;
}

static void gpu_source_broke(struct gpu_source *s, uint64_t now_ns)
{
    gpu_source_end(s);
    if (!gpu_source_reap(s)) {
        /* Give it a moment: its last words are in its status. */
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
        gpu_source_reap(s);
    }
    s->pause_ns = s->pause_ns ? s->pause_ns * 2 : RETRY_NS;
    if (s->pause_ns > RETRY_NS_MAX) s->pause_ns = RETRY_NS_MAX;
    s->retry_ns = now_ns + s->pause_ns;
    s->state = SONDE_GPU_BROKEN;
    sonde_log(SONDE_LOG_WARN, "GPU figures by %s are absent: %s; it is tried again in %.0f s",
              s->ops->name, s->note, (double)s->pause_ns * 1e-9);
}

static void gpu_source_start(struct sonde_gpu *g, struct gpu_source *s, uint64_t now_ns)
{
    const uint32_t interval = g->burst > 0 && g->o.burst_ms < g->o.interval_ms ? g->o.burst_ms
                                                                               : g->o.interval_ms;
    const struct sonde_gpu_child_options o = {
        .ops = s->ops, .env = { .root = g->root, .activity = g->o.activity },
        .interval_ms = interval,
        .send_ms = g->o.tick_ms > interval ? g->o.tick_ms : interval,
    };
    if (gpu_snapshot_init(&s->made) != 0 || gpu_snapshot_init(&s->now) != 0 ||
        sonde_gpu_child_start(&o, &s->pid, &s->pidfd, &s->fd) != 0) {
        snprintf(s->note, sizeof(s->note), "no process can be started for it");
        gpu_source_broke(s, now_ns);
        return;
    }
    s->killed = 0;
    s->heard_ns = now_ns;
    s->interval_ms = interval;
    s->state = SONDE_GPU_STARTING;
    s->note[0] = '\0';
}

static void gpu_source_whole(struct gpu_source *s)
{
    const struct sonde_gpu_snapshot whole = s->made;
    s->made = s->now;
    s->now = whole;
    s->made.device_count = s->made.process_count = 0;
}

/* 0, or it is over with this child: 1 = at once again, -1 = it broke. */
static int gpu_source_packet(struct gpu_source *s, const struct sonde_gpu_packet *p)
{
    switch (p->type) {
    case SONDE_GPU_PACKET_OPENED:
        snprintf(s->note, sizeof(s->note), "%s", p->text);
        s->state = SONDE_GPU_READING;
        return 0;
    case SONDE_GPU_PACKET_REFUSED:
        snprintf(s->note, sizeof(s->note), "%s", p->text);
        return -1;
    case SONDE_GPU_PACKET_REOPEN: return 1;
    default: break;
    }
    if (p->seq != s->made_seq) {
        s->made.device_count = s->made.process_count = 0;
        s->made_seq = p->seq;
    }
    if (p->type == SONDE_GPU_PACKET_DEVICE) {
        struct sonde_gpu_device *d = sonde_gpu_device_of(&s->made, p->device.key);
        if (d) *d = p->device;
    } else if (p->type == SONDE_GPU_PACKET_PROCESSES) {
        for (uint32_t i = 0; i < p->count; i++) {
            if (s->made.process_count == SONDE_GPU_PROCESSES_MAX) break;
            s->made.process[s->made.process_count++] = p->process[i];
        }
    } else if (s->made.device_count == p->count && s->made.process_count == p->processes) {
        s->read_s = (double)p->read_ns * 1e-9;
        gpu_source_whole(s);
    }
    return 0;
}

static void gpu_source_hear(struct gpu_source *s, uint64_t now_ns)
{
    struct sonde_gpu_packet p;
    for (int i = 0; i < 4096; i++) {
        const ssize_t n = recv(s->fd, &p, sizeof(p), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n <= 0) {
            snprintf(s->note, sizeof(s->note), "its process ended");
            gpu_source_reap(s); /* may know more */
            gpu_source_broke(s, now_ns);
            return;
        }
        s->heard_ns = now_ns;
        int rc = -1;
        if (sonde_gpu_packet_check(&p, (size_t)n)) rc = gpu_source_packet(s, &p);
        else snprintf(s->note, sizeof(s->note), "what it sent makes no sense");
        if (rc < 0) {
            gpu_source_broke(s, now_ns);
        } else if (rc > 0) {
            gpu_source_end(s);
            s->restarts++;
            s->state = SONDE_GPU_STARTING;
            s->retry_ns = 0;
        }
        if (rc) return;
    }
}

static void gpu_source_order(struct sonde_gpu *g, struct gpu_source *s)
{
    const uint32_t want = g->burst > 0 && g->o.burst_ms < g->o.interval_ms ? g->o.burst_ms
                                                                           : g->o.interval_ms;
    const struct sonde_gpu_order order = { SONDE_GPU_MAGIC, want };
    if (s->fd < 0 || s->interval_ms == want) return;
    if (send(s->fd, &order, sizeof(order), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) s->interval_ms = want;
}

/* Another one that reads the same is at it. */
static int gpu_source_not_needed(const struct sonde_gpu *g, const struct gpu_source *s)
{
    for (size_t i = 0; s->ops->instead_of && i < SONDE_COUNT(gpu_backends); i++) {
        if (g->source[i].state == SONDE_GPU_READING &&
            strstr(s->ops->instead_of, g->source[i].ops->name)) {
            return 1;
        }
    }
    return 0;
}

static void gpu_source_tick(struct sonde_gpu *g, struct gpu_source *s, int look, uint64_t now_ns)
{
    if (s->fd >= 0) {
        gpu_source_hear(s, now_ns);
        if (s->fd >= 0) gpu_source_order(g, s);
    }
    if (s->fd >= 0) {
        const double longest = s->state == SONDE_GPU_STARTING ? fmax(OPEN_S, g->o.hang_s)
                               : g->o.hang_s + 2e-3 * fmax(g->o.interval_ms, g->o.tick_ms);
        const double silent = (double)(now_ns - s->heard_ns) * 1e-9;
        if (silent <= (g->o.hang_s < 5 && s->state == SONDE_GPU_STARTING ? g->o.hang_s : longest)) {
            return;
        }
        s->hangs++;
        snprintf(s->note, sizeof(s->note), "it did not answer for %.0f s", silent);
        gpu_source_broke(s, now_ns);
        return;
    }
    if (!gpu_source_reap(s) || (!look && s->state == SONDE_GPU_ABSENT)) return;
    if (now_ns < s->retry_ns) return;
    const struct sonde_gpu_env env = { .root = g->root, .activity = g->o.activity };
    if (!s->ops->present(&env)) s->state = SONDE_GPU_ABSENT;
    else if (gpu_source_not_needed(g, s)) s->state = SONDE_GPU_NOT_NEEDED;
    else gpu_source_start(g, s, now_ns);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static struct sonde_gpu_row *gpu_row_of(struct sonde_gpu *g, const struct sonde_gpu_device *d)
{
    const struct sonde_gpu_row *card = NULL;
    for (size_t i = 0; i < g->row_count; i++) {
        if (!strcmp(g->row[i].device.key, d->key)) return &g->row[i];
        if (d->parent[0] && !strcmp(g->row[i].device.key, d->parent)) card = &g->row[i];
    }
    if (d->parent[0] && !card) return NULL;
    const uint32_t index = card ? card->index : g->next_index;
    if (SONDE_ARRAY_ROOM_MAX(g->row, g->row_count, g->row_cap, 4 * SONDE_GPU_DEVICES_MAX)) {
        return NULL;
    }
    if (SONDE_ARRAY_RESERVE(g->by, g->by_cap, g->row_cap)) return NULL;
    if (!card) g->next_index++;
    g->by[g->row_count][0] = '\0';
    struct sonde_gpu_row *r = &g->row[g->row_count++];
    *r = (struct sonde_gpu_row){ .index = index };
    memcpy(r->device.key, d->key, sizeof(d->key));
    return r;
}

/* Nothing of what it was before is left in a row, but for its index and names. */
static void gpu_rows_clear(struct sonde_gpu *g)
{
    for (size_t i = 0; i < g->row_count; i++) {
        g->row[i].there = 0;
        memset(g->row[i].device.figure, 0, sizeof(g->row[i].device.figure));
        g->row[i].device.xid_count = g->row[i].device.lost = 0;
        g->by[i][0] = '\0';
    }
    g->process_count = 0;
}

static void gpu_row_take_text(char *to, size_t size, const char *from)
{
    if (!to[0]) snprintf(to, size, "%s", from);
}

static void gpu_row_add(struct sonde_gpu *g, const struct gpu_source *s,
                        const struct sonde_gpu_device *d)
{
    struct sonde_gpu_row *r = gpu_row_of(g, d);
    if (!r) return;
    struct sonde_gpu_device *to = &r->device;
    const int first = !r->there;
    r->there = 1;
    char *by = g->by[r - g->row];
    const size_t n = strlen(by);
    snprintf(by + n, sizeof(g->by[0]) - n, "%s%s", n ? " " : "", s->ops->name);
    if (first) {
        char name[sizeof(to->name)];
        memcpy(name, d->name, sizeof(name));
        if (name[0]) memcpy(to->name, name, sizeof(name));
        to->lost = d->lost;
        to->partitioned = d->partitioned;
        to->instance = d->instance;
        memcpy(to->parent, d->parent, sizeof(to->parent));
        to->xid_count = d->xid_count;
        memcpy(to->xid, d->xid, sizeof(to->xid));
    }
    gpu_row_take_text(to->name, sizeof(to->name), d->name);
    gpu_row_take_text(to->uuid, sizeof(to->uuid), d->uuid);
    gpu_row_take_text(to->driver, sizeof(to->driver), d->driver);
    gpu_row_take_text(to->version, sizeof(to->version), d->version);
    for (size_t f = 0; f < SONDE_GPU_FIGURES; f++) {
        struct sonde_gpu_value *v = &to->figure[f];
        if (v->state == SONDE_GPU_OK || d->figure[f].state == SONDE_GPU_NONE) continue;
        if (v->state == SONDE_GPU_NONE || d->figure[f].state == SONDE_GPU_OK) *v = d->figure[f];
    }
}

static void gpu_process_add(struct sonde_gpu *g, const struct sonde_gpu_process *p)
{
    for (size_t i = 0; i < g->process_count; i++) {
        struct sonde_gpu_process *q = &g->process[i];
        if (q->pid != p->pid || q->instance != p->instance || strcmp(q->key, p->key) != 0) continue;
        if (isnan(q->memory_bytes)) q->memory_bytes = p->memory_bytes;
        if (isnan(q->utilization)) q->utilization = p->utilization;
        gpu_row_take_text(q->name, sizeof(q->name), p->name);
        return;
    }
    struct sonde_gpu_process *q = SONDE_ARRAY_ADD(g->process, g->process_count, g->process_cap);
    if (q) *q = *p;
}

static void gpu_rows_make(struct sonde_gpu *g)
{
    gpu_rows_clear(g);
    for (size_t i = 0; i < SONDE_COUNT(gpu_backends); i++) {
        const struct gpu_source *s = &g->source[i];
        for (uint32_t k = 0; s->now.device && k < s->now.device_count; k++) {
            gpu_row_add(g, s, &s->now.device[k]);
        }
        for (uint32_t k = 0; s->now.process && k < s->now.process_count; k++) {
            gpu_process_add(g, &s->now.process[k]);
        }
    }
    for (size_t i = 0; i < g->row_count; i++) g->row[i].by = g->by[i];
}

/* ---- What others call ------------------------------------------------------------------------ */

void sonde_gpu_tick(struct sonde_gpu *g)
{
    if (!g->o.enabled) return;
    const uint64_t now_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    const int look = now_ns >= g->look_ns;
    int any = 0;
    if (look) g->look_ns = now_ns + LOOK_NS;
    for (size_t i = 0; i < SONDE_COUNT(gpu_backends); i++) {
        gpu_source_tick(g, &g->source[i], look, now_ns);
        any |= g->source[i].state != SONDE_GPU_ABSENT;
    }
    if (any || g->row_count) gpu_rows_make(g);
}

void sonde_gpu_burst(struct sonde_gpu *g, int on)
{
    if (g) g->burst += on ? 1 : -1;
}

void sonde_gpu_settle(struct sonde_gpu *g, double seconds)
{
    const uint64_t until = sonde_clock_ns(CLOCK_MONOTONIC) + sonde_clock_ns_of(seconds);
    for (;;) {
        int waits = 0;
        sonde_gpu_tick(g);
        for (size_t i = 0; i < SONDE_COUNT(gpu_backends); i++) {
            const struct gpu_source *s = &g->source[i];
            /* Two readings, for what is a difference. */
            waits |= s->state == SONDE_GPU_STARTING ||
                     (s->state == SONDE_GPU_READING && s->made_seq < 2);
        }
        if (!waits || sonde_clock_ns(CLOCK_MONOTONIC) >= until) return;
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
}

size_t sonde_gpu_rows(const struct sonde_gpu *g, const struct sonde_gpu_row **out)
{
    *out = g->row;
    return g->row_count;
}

size_t sonde_gpu_processes(const struct sonde_gpu *g, const struct sonde_gpu_process **out)
{
    *out = g->process;
    return g->process_count;
}

int sonde_gpu_source(const struct sonde_gpu *g, size_t i, struct sonde_gpu_source *out)
{
    if (i >= SONDE_COUNT(gpu_backends)) return 0;
    const struct gpu_source *s = &g->source[i];
    *out = (struct sonde_gpu_source){
        .name = s->ops->name, .summary = s->ops->summary, .looked_for = s->ops->looked_for,
        .state = s->state, .note = s->note, .restarts = s->restarts, .hangs = s->hangs,
        .crashes = s->crashes, .read_s = s->read_s,
    };
    return 1;
}

uint32_t sonde_gpu_child_pid(const struct sonde_gpu *g, size_t i)
{
    return i < SONDE_COUNT(gpu_backends) ? (uint32_t)g->source[i].pid : 0;
}

void sonde_gpu_destroy(struct sonde_gpu *g)
{
    if (!g) return;
    for (size_t i = 0; i < SONDE_COUNT(gpu_backends); i++) {
        struct gpu_source *s = &g->source[i];
        gpu_source_end(s);
        /* A killed process is gone in a moment, unless it hangs in the kernel: then init has it. */
        for (int k = 0; k < 100 && !gpu_source_reap(s); k++) {
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        }
        if (s->pidfd >= 0) close(s->pidfd);
    }
    sonde__free(g->row);
    sonde__free(g->by);
    sonde__free(g->process);
    sonde__free(g);
}
