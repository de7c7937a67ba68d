/* front.c - the front's thread: waits for events and hands them on; see front.h. */
#include "front/front.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "front/front_private.h"
#include "sonde/sonde.h"

#define SWEEP_NS 250000000u /* how late a deadline is noticed */
#define TICK_NS 100000000u
#define HELD_POLL_NS 2000000u
enum { EVENTS = 256 };

/* ---- Routes ----------------------------------------------------------------------------- */

const char *sonde_front_route_name(enum sonde_front_route route)
{
    static const char *const names[] = {
#define SONDE__X(id, text) [SONDE_FRONT_##id] = text,
        SONDE_FRONT_ROUTES(SONDE__X)
#undef SONDE__X
    };
    assert((size_t)route < SONDE_COUNT(names));
    return names[route];
}

/* Ends of paths: servers are mounted under prefixes of all kinds. The first that fits counts. */
static const struct { const char *end; enum sonde_front_route route; } route_ends[] = {
    { "/chat/completions", SONDE_FRONT_CHAT },
    { "/completions", SONDE_FRONT_COMPLETIONS },
    { "/responses", SONDE_FRONT_RESPONSES },
    { "/v1/messages", SONDE_FRONT_MESSAGES },
    { "/completion", SONDE_FRONT_LLAMA_COMPLETION },
    { "/infill", SONDE_FRONT_LLAMA_COMPLETION },
    { "/api/chat", SONDE_FRONT_OLLAMA_CHAT },
    { "/api/generate", SONDE_FRONT_OLLAMA_GENERATE },
    { "/api/embed", SONDE_FRONT_OLLAMA_EMBED },
    { "/api/embeddings", SONDE_FRONT_OLLAMA_EMBED },
    { "/embeddings", SONDE_FRONT_EMBEDDINGS },
    { "/embedding", SONDE_FRONT_EMBEDDINGS },
    { "/generate", SONDE_FRONT_TGI_GENERATE },
    { "/generate_stream", SONDE_FRONT_TGI_GENERATE },
};

enum sonde_front_route sonde_front_route_of(const char *method, const char *path)
{
    if (strcmp(method, "POST") != 0) return SONDE_FRONT_OTHER;
    size_t len = strlen(path);
    if (len > 1 && path[len - 1] == '/') len--;
    for (size_t i = 0; i < SONDE_COUNT(route_ends); i++) {
        const size_t n = strlen(route_ends[i].end);
        if (n <= len && memcmp(path + len - n, route_ends[i].end, n) == 0) {
            return route_ends[i].route;
        }
    }
    return SONDE_FRONT_OTHER;
}

/* ---- Events ------------------------------------------------------------------------------- */

void front_listen(struct sonde_front *f, int on)
{
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = &f->listener };
    if (on == f->listening || f->listener.fd < 0) return;
    if (epoll_ctl(f->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, f->listener.fd, &e) == 0) {
        f->listening = on;
    }
    f->listen_again_ns = 0;
}

static void begin_stopping(struct sonde_front *f)
{
    uint64_t count;
    const ssize_t n = read(f->wake.fd, &count, sizeof(count)); /* or it would wake for ever */
    if (n < 0 || f->stopping) return;
    f->stopping = 1;
    front_listen(f, 0);
    close(f->listener.fd); /* who comes now is refused, not kept waiting */
    f->listener.fd = -1;
    front_copy_cancel_all(f);
    for (struct front_client *c = f->clients, *next; c; c = next) {
        next = c->next;
        if (c->state != FRONT_BUSY) front_client_close(c);
    }
}

static void socket_event(struct front_socket *s, uint32_t events)
{
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) s->readable = 1;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) s->writable = 1;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) s->hup = 1;
}

static void upstream_event(struct front_upstream *u, uint32_t events)
{
    struct front_client *c = u->client;
    if (u->dead) return;
    socket_event(&u->s, events);
    if (u->connecting) {
        if (!u->s.writable) return;
        front_upstream_connected(u);
    }
    if (c) front_pump(c);
    else if (u->s.readable) front_upstream_close(u); /* idle: it has closed, or says nonsense */
}

static void front_handle(struct sonde_front *f, const struct epoll_event *e)
{
    struct front_socket *s = e->data.ptr;
    switch (s->kind) {
    case FRONT_LISTENER: front_accept(f); break;
    case FRONT_WAKE: begin_stopping(f); break;
    case FRONT_CLIENT: {
        struct front_client *c = (struct front_client *)s;
        if (c->state == FRONT_DEAD) break;
        socket_event(s, e->events);
        front_pump(c);
        break;
    }
    case FRONT_UPSTREAM: upstream_event((struct front_upstream *)s, e->events); break;
    }
}

/* Those that had more to move than one turn allows. */
static void pump_again(struct sonde_front *f)
{
    struct front_client *c = f->again;
    f->again = NULL;
    while (c) {
        struct front_client *next = c->next_again;
        c->queued = 0;
        front_pump(c);
        c = next;
    }
}

/* Those that wait for the observer. */
static void front_release_held(struct sonde_front *f, uint64_t now)
{
    const struct sonde_front_observer *o = &f->o.observer;
    for (struct front_client *c = f->clients, *next; c && f->held; c = next) {
        next = c->next;
        if (c->state != FRONT_BUSY || !c->proxied.held_ns) continue;
        if (now < c->proxied.held_ns && !o->ready(o->arg, &c->proxied.r)) continue;
        front_let_go(c);
        front_pump(c);
    }
}

/* ---- Time --------------------------------------------------------------------------------- */

static void front_sweep(struct sonde_front *f, uint64_t now)
{
    f->swept_ns = now;
    for (struct front_client *c = f->clients, *next; c; c = next) {
        next = c->next;
        if (c->s.deadline_ns && now >= c->s.deadline_ns) front_client_expire(c);
    }
    for (struct front_client *c = f->copies, *next; c; c = next) {
        next = c->next;
        if (c->s.deadline_ns && now >= c->s.deadline_ns) front_client_expire(c);
    }
    for (int list = 0; list < FRONT_BURIED; list++) {
        for (struct front_upstream *u = f->upstreams[list], *next; u; u = next) {
            next = u->next;
            if (u->s.deadline_ns && now >= u->s.deadline_ns) front_upstream_expire(u);
        }
    }
    if (f->listen_again_ns && now >= f->listen_again_ns) front_listen(f, 1);
}

static void front_tick(struct sonde_front *f, uint64_t now)
{
    const struct sonde_front_observer *o = &f->o.observer;
    f->ticked_ns = now;
    f->changed = 0;
    if (o->tick) o->tick(o->arg, &f->state);
}

/* Milliseconds to sleep at most; -1 = until something happens. */
static int front_patience(const struct sonde_front *f, uint64_t now)
{
    uint64_t until = UINT64_MAX;
    if (f->again) return 0;
    if (f->changed) until = f->ticked_ns + TICK_NS;
    if (f->clients || f->copies || f->state.upstreams_idle || f->listen_again_ns || f->stopping) {
        const uint64_t next = f->swept_ns + SWEEP_NS;
        if (next < until) until = next;
    }
    if (f->held && now + HELD_POLL_NS < until) until = now + HELD_POLL_NS;
    if (until == UINT64_MAX) return -1;
    return until <= now ? 0 : (int)((until - now + 999999u) / 1000000u);
}

static void front_bury(struct sonde_front *f)
{
    for (struct front_client **at = &f->dead_clients; *at;) {
        struct front_client *c = *at;
        if (c->queued) { /* pump_again will come across it */
            at = &c->next;
            continue;
        }
        *at = c->next;
        sonde__free(c);
    }
    for (struct front_upstream *u; (u = f->upstreams[FRONT_BURIED]) != NULL;) {
        f->upstreams[FRONT_BURIED] = u->next;
        sonde__free(u);
    }
}

/* For as long as poll.h says: how many events there are, and how long it looked, without the time
 * that another thread had the CPU. */
static int front_look(struct sonde_front *f, struct epoll_event *events, uint32_t most,
                      uint64_t begin_ns, uint64_t *looked_ns)
{
    uint64_t now = begin_ns;
    int n;
    do {
        const uint64_t before = now;
        n = epoll_wait(f->epoll, events, EVENTS, 0);
        if (n == 0) sched_yield();
        now = front_now_ns();
        if (n == 0 && now - before > FRONT_POLL_BUSY_NS) {
            *looked_ns = before - begin_ns + 1;
            return 0;
        }
    } while (n == 0 && now - begin_ns < most);
    *looked_ns = now - begin_ns + 1; /* 0 is for those that did not look */
    return n;
}

/* Until something happens, or it is time for something. */
static int wait_for_events(struct sonde_front *f, struct epoll_event *events)
{
    const uint64_t begin = front_now_ns();
    const int timeout = front_patience(f, begin);
    if (timeout == 0) return epoll_wait(f->epoll, events, EVENTS, 0);
    const enum front_wait kind = f->upstreams[FRONT_IN_USE] ? FRONT_WAIT_ANSWER
                                                            : FRONT_WAIT_REQUEST;
    const uint32_t most = front_poll_time(&f->poll, kind, begin);
    uint64_t looked = 0;
    int n = 0;
    if (most) n = front_look(f, events, most, begin, &looked);
    if (n > 0) {
        front_poll_done(&f->poll, kind, looked, looked, 1);
    } else {
        n = epoll_wait(f->epoll, events, EVENTS, timeout);
        front_poll_done(&f->poll, kind, looked, front_now_ns() - begin, n > 0);
    }
    return n;
}

static void *front_run(void *arg)
{
    struct sonde_front *f = arg;
    struct epoll_event events[EVENTS];
    uint64_t now = front_now_ns(), stop_ns = 0;
    while (!f->stopping || (f->clients && now < stop_ns)) {
        const int n = wait_for_events(f, events);
        for (int i = 0; i < n; i++) front_handle(f, &events[i]);
        pump_again(f);
        now = front_now_ns();
        if (f->held) front_release_held(f, now);
        if (now - f->swept_ns >= SWEEP_NS) front_sweep(f, now);
        if (f->changed && now - f->ticked_ns >= TICK_NS) front_tick(f, now);
        front_bury(f);
        if (f->stopping && !stop_ns) stop_ns = now + (uint64_t)f->o.drain_ms * 1000000u;
    }
    front_copy_cancel_all(f);
    while (f->clients) {
        if (f->clients->state == FRONT_BUSY) front_cancel(f->clients, "stopped");
        else front_client_close(f->clients);
    }
    for (int list = 0; list < FRONT_BURIED; list++) {
        while (f->upstreams[list]) front_upstream_close(f->upstreams[list]);
    }
    pump_again(f);
    front_bury(f);
    front_tick(f, now);
    return NULL;
}

/* ---- Start and stop ----------------------------------------------------------------------- */

static void set_defaults(struct sonde_front_options *o)
{
    if (!o->connections_max) o->connections_max = 4096;
    if (!o->connect_timeout_ms) o->connect_timeout_ms = 5000;
    if (!o->head_timeout_ms) o->head_timeout_ms = 30000;
    if (!o->idle_timeout_ms) o->idle_timeout_ms = 75000;
    if (!o->stall_timeout_ms) o->stall_timeout_ms = 75000;
    if (!o->ab.copies_max) o->ab.copies_max = 64;
    if (!o->ab.copy_bytes_max) o->ab.copy_bytes_max = 1u << 20;
    if (!o->ab.copies_bytes_max) o->ab.copies_bytes_max = 16u << 20;
    if (!o->ab.copy_timeout_ms) o->ab.copy_timeout_ms = 75000;
}

static int open_loop(struct sonde_front *f)
{
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = &f->wake };
    const int flags = fcntl(f->listener.fd, F_GETFL);
    if (flags < 0 || fcntl(f->listener.fd, F_SETFL, flags | O_NONBLOCK) != 0) return -1;
    f->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (f->epoll < 0) return -1;
    f->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->wake.fd < 0 || epoll_ctl(f->epoll, EPOLL_CTL_ADD, f->wake.fd, &e) != 0) return -1;
    front_listen(f, 1);
    return f->listening ? 0 : -1;
}

static void close_loop(struct sonde_front *f)
{
    if (f->wake.fd >= 0) close(f->wake.fd);
    if (f->epoll >= 0) close(f->epoll);
}

int sonde_front_start(const struct sonde_front_options *options, struct sonde_front **out,
                      struct sonde_err *err)
{
    assert(options->listen_fd >= 0);
    uint32_t random = 0;
    struct sonde_front *f = sonde__calloc(1, sizeof(*f));
    if (!f) return sonde_err_set(err, SONDE_ENOMEM, "cannot start the front: out of memory");
    f->o = *options;
    set_defaults(&f->o);
    f->listener = (struct front_socket){ .kind = FRONT_LISTENER, .fd = options->listen_fd };
    f->wake = (struct front_socket){ .kind = FRONT_WAKE, .fd = -1 };
    f->epoll = -1;
    /* With one CPU, looking keeps the others from working. */
    front_poll_init(&f->poll, sysconf(_SC_NPROCESSORS_ONLN) < 2 ? 0 : options->poll_percent);
    /* Told apart from other fronts that a request may pass. */
    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) random = (uint32_t)getpid();
    snprintf(f->name, sizeof(f->name), "sonde-%08x", random);
    f->swept_ns = f->ticked_ns = front_now_ns();
    if (open_loop(f) != 0) {
        const int error = errno;
        close_loop(f);
        sonde__free(f);
        return sonde_err_set(err, SONDE_EIO, "cannot start the front: %s", strerror(error));
    }
    const int rc = sonde_thread_start(&f->thread, "sonde-front", front_run, f, err);
    if (rc) {
        close_loop(f);
        sonde__free(f);
        return rc;
    }
    *out = f;
    return 0;
}

void sonde_front_stop(struct sonde_front *f)
{
    if (!f) return;
    const uint64_t one = 1;
    /* The counter cannot be full: nobody else writes to it. */
    const ssize_t n = write(f->wake.fd, &one, sizeof(one));
    (void)n;
    sonde_thread_join(&f->thread);
    close_loop(f);
    if (f->listener.fd >= 0) close(f->listener.fd);
    sonde__free(f);
}
