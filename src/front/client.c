/* client.c - connections of clients: accepted, pumped, closed; see front_private.h. */
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "front/front_private.h"

#define LINGER_NS 2000000000u /* a client that is turned away has this long to notice */
#define RETRY_NS 100000000u   /* after running out of descriptors, or of room */
#define QUIET_NS 1000000000u  /* a client that has sent nothing for so long may have to go */
enum {
    ACCEPTS = 64,             /* at a time, before others have their turn */
    QUIET_TRIES = 8,          /* clients that are looked at to find one that keeps quiet */
    ROUNDS = 8,               /* of one client, before others have their turn */
};

static uint64_t in_ms(uint32_t ms) { return front_now_ns() + (uint64_t)ms * 1000000u; }

/* ---- Those that keep quiet ---------------------------------------------------------------- */

static void idle_join(struct front_client *c)
{
    assert(c->state != FRONT_DEAD);
    struct sonde_front *f = c->front;
    c->state = FRONT_IDLE;
    c->idle_ns = front_now_ns();
    c->louder = NULL;
    c->quieter = f->loudest;
    if (c->quieter) c->quieter->louder = c;
    else f->quietest = c;
    f->loudest = c;
}

static void idle_leave(struct front_client *c)
{
    assert(c->state == FRONT_IDLE);
    struct sonde_front *f = c->front;
    if (c->quieter) c->quieter->louder = c->louder;
    else f->quietest = c->louder;
    if (c->louder) c->louder->quieter = c->quieter;
    else f->loudest = c->quieter;
}

void front_client_idle(struct front_client *c) { idle_join(c); }

void front_client_busy(struct front_client *c)
{
    assert(c->state == FRONT_IDLE);
    idle_leave(c);
    c->state = FRONT_BUSY;
    c->s.deadline_ns = 0;
}

/* A limit alone would let whoever opens enough connections keep everybody else out. So the one has
 * to go that has been without a request for longest, unless there is one of it that has not been
 * read yet. NULL = there is none that could. */
static struct front_client *who_may_go(struct sonde_front *f)
{
    char byte;
    for (int i = 0; i < QUIET_TRIES; i++) {
        struct front_client *c = f->quietest;
        if (!c || front_now_ns() - c->idle_ns < QUIET_NS) return NULL;
        if (recv(c->s.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) return c;
        idle_leave(c);
        idle_join(c);
    }
    return NULL;
}

/* 1 if somebody waits to be accepted; accept4 says so only while there are descriptors. */
static int front_client_is_asked(const struct sonde_front *f)
{
    struct pollfd p = { .fd = f->listener.fd, .events = POLLIN };
    return poll(&p, 1, 0) > 0;
}

/* Nobody more is taken until a client leaves; or one that is quiet has been so for long enough. */
static void accept_later(struct sonde_front *f)
{
    front_listen(f, 0);
    if (f->quietest) f->listen_again_ns = front_now_ns() + RETRY_NS;
}

/* ---- Opening and closing ------------------------------------------------------------------ */

static void set_peer(struct front_client *c, const struct sockaddr_storage *a)
{
    const void *address = a->ss_family == AF_INET6
                              ? (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr
                              : (const void *)&((const struct sockaddr_in *)a)->sin_addr;
    if (!inet_ntop(a->ss_family, address, c->peer, sizeof(c->peer))) strcpy(c->peer, "unknown");
}

static void client_open(struct sonde_front *f, int fd, const struct sockaddr_storage *peer)
{
    struct front_client *c = sonde__calloc(1, sizeof(*c));
    if (!c) {
        close(fd);
        return;
    }
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    c->s = (struct front_socket){ .kind = FRONT_CLIENT, .fd = fd, .writable = 1,
                                  .deadline_ns = in_ms(f->o.idle_timeout_ms) };
    c->front = f;
    set_peer(c, peer);
    sonde_http_head_init(&c->head, 0);
    if (front_watch(f, &c->s) != 0) {
        close(fd);
        sonde__free(c);
        return;
    }
    idle_join(c);
    c->next = f->clients;
    if (c->next) c->next->prev = c;
    f->clients = c;
    f->state.clients++;
    f->state.accepted_total++;
    f->changed = 1;
}

void front_accept(struct sonde_front *f)
{
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage peer = { 0 };
        socklen_t len = sizeof(peer);
        const int full = f->state.clients >= f->o.connections_max;
        struct front_client *quiet = full ? who_may_go(f) : NULL;
        if (full && !quiet) {
            accept_later(f);
            return;
        }
        const int fd = accept4(f->listener.fd, (struct sockaddr *)&peer, &len,
                               SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            if (quiet) front_client_close(quiet);
            client_open(f, fd, &peer);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            quiet = front_client_is_asked(f) ? who_may_go(f) : NULL;
            if (quiet) {
                front_client_close(quiet);
                continue;
            }
            front_listen(f, 0);
            f->listen_again_ns = front_now_ns() + RETRY_NS;
            return;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return;
        }
    }
}

/* Its socket, and its place among the others. */
static void client_leave(struct front_client *c)
{
    struct sonde_front *f = c->front;
    assert(f->state.clients);
    close(c->s.fd);
    if (c->prev) c->prev->next = c->next;
    else f->clients = c->next;
    if (c->next) c->next->prev = c->prev;
    f->state.clients--;
}

void front_client_close(struct front_client *c)
{
    struct sonde_front *f = c->front;
    if (c->state == FRONT_DEAD) return;
    if (c->state == FRONT_IDLE) idle_leave(c);
    c->state = FRONT_DEAD;
    const int full = f->state.clients >= f->o.connections_max;
    if (c->up) front_upstream_close(c->up);
    front_bytes_release(&c->s.in);
    front_bytes_release(&c->s.out);
    if (c->memory) front_copy_close(c);
    else client_leave(c);
    c->next = f->dead_clients;
    f->dead_clients = c;
    f->changed = 1;
    if (!f->listening && !f->stopping && (full || !f->listen_again_ns)) front_listen(f, 1);
}

/* Closing with bytes unread resets the connection, and the answer may be lost with it. So say
 * that nothing more comes, and read on for a while. */
static void front_client_linger(struct front_client *c)
{
    assert(c->state == FRONT_BUSY);
    c->state = FRONT_LINGER;
    c->s.deadline_ns = front_now_ns() + LINGER_NS;
    front_bytes_release(&c->s.out);
    front_consume(&c->s.in, front_held(&c->s.in));
    c->s.readable = 1;
    if (shutdown(c->s.fd, SHUT_WR) != 0) front_client_close(c);
}

void front_client_next(struct front_client *c)
{
    assert(c->state == FRONT_BUSY && !c->proxied.observed);
    const struct front_proxied *proxied = &c->proxied;
    const int unread = proxied->request.progress != SONDE_HTTP_DONE || front_held(&c->s.in);
    if (c->memory) {
        front_client_close(c);
    } else if (proxied->keep_alive && !c->front->stopping) {
        idle_join(c);
        c->arrived_ns = c->s.read_ns;
        c->s.deadline_ns =
            in_ms(front_held(&c->s.in) ? c->front->o.head_timeout_ms : c->front->o.idle_timeout_ms);
        sonde_http_head_init(&c->head, 0);
        front_bytes_release(&c->s.out);
        if (!front_held(&c->s.in)) front_bytes_release(&c->s.in);
    } else if (unread && !proxied->cut) {
        front_client_linger(c);
    } else {
        front_client_close(c);
    }
}

void front_client_expire(struct front_client *c)
{
    assert(c->state != FRONT_DEAD);
    if (c->memory) {
        front_copy_expire(c);
    } else if (c->state == FRONT_IDLE && front_held(&c->s.in)) {
        front_refuse(c, 408, "the request's head did not come within the time there is for it");
        front_pump(c);
    } else if (c->state == FRONT_BUSY && front_held(&c->s.out)) {
        front_cancel(c, "client_stalled");
    } else if (c->state == FRONT_BUSY) {
        front_stalled(c);
        front_pump(c);
    } else {
        front_client_close(c);
    }
}

/* ---- Moving bytes ------------------------------------------------------------------------- */

static int step_idle(struct front_client *c)
{
    const int fresh = !front_held(&c->s.in) && !c->memory;
    const uint32_t n = c->memory ? front_copy_read(c) : front_read(&c->s);
    if (n && fresh) {
        c->arrived_ns = c->s.read_ns;
        c->s.deadline_ns = in_ms(c->front->o.head_timeout_ms);
    }
    struct front_bytes *in = &c->s.in;
    if (front_held(in)) {
        switch (sonde_http_head_feed(&c->head, in->data + in->begin, front_held(in))) {
        case SONDE_HTTP_DONE: front_begin(c); return 1;
        case SONDE_HTTP_BAD: front_refuse(c, c->head.problem_status, c->head.problem); return 1;
        case SONDE_HTTP_MORE: break;
        }
    }
    if (c->s.eof) front_client_close(c);
    return n > 0;
}

static int step_linger(struct front_client *c)
{
    const uint32_t n = front_read(&c->s);
    front_consume(&c->s.in, front_held(&c->s.in));
    if (c->s.eof) front_client_close(c);
    return n > 0;
}

static int write_client(struct front_client *c)
{
    assert(c->state == FRONT_BUSY);
    int failed = 0;
    uint32_t n = front_held(&c->s.out);
    if (c->memory) front_consume(&c->s.out, n); /* it has been looked at: that is all */
    else n = front_write(&c->s, &failed);
    c->proxied.r.bytes_out += n;
    if (failed) {
        front_cancel(c, "client_closed");
        return 1;
    }
    return n > 0;
}

/* It holds a connection to the upstream, and there a place, for as long as it likes: so it must
 * take what there is for it, and send the rest of its request once it may. */
static void set_deadline(struct front_client *c, int moved)
{
    const struct front_proxied *proxied = &c->proxied;
    if (c->memory) {
        if (moved || !c->s.deadline_ns) c->s.deadline_ns = in_ms(c->front->o.ab.copy_timeout_ms);
        return;
    }
    const int may_send = proxied->continued || !sonde_http_field(&c->head, SONDE_HTTP_EXPECT);
    const int takes_none = front_held(&c->s.out) && !c->s.writable;
    const int sends_none = proxied->request.progress == SONDE_HTTP_MORE && may_send &&
                           !proxied->head_passed && !front_held(&c->s.in);
    if (!takes_none && !sends_none) c->s.deadline_ns = 0;
    else if (moved || !c->s.deadline_ns) c->s.deadline_ns = in_ms(c->front->o.stall_timeout_ms);
}

static int step_busy(struct front_client *c)
{
    int moved = front_pass_request(c);
    if (c->state != FRONT_BUSY) return 1;
    moved |= front_pass_answer(c);
    if (c->state != FRONT_BUSY) return 1;
    moved |= write_client(c);
    if (c->state != FRONT_BUSY) return 1;
    if (c->proxied.phase == FRONT_DONE && !front_held(&c->s.out)) {
        front_finish(c);
        return 1;
    }
    /* A client that has said all it will say is taken to be gone: one that closes looks no
     * different, and the upstream would compute for nobody. */
    if (c->s.hup && c->proxied.phase < FRONT_TUNNEL &&
        c->proxied.request.progress == SONDE_HTTP_DONE) {
        front_cancel(c, "client_closed");
        return 1;
    }
    set_deadline(c, moved);
    return moved;
}

void front_pump_later(struct front_client *c)
{
    if (c->queued) return;
    c->queued = 1;
    c->next_again = c->front->again;
    c->front->again = c;
}

void front_pump(struct front_client *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        int moved = 0;
        switch (c->state) {
        case FRONT_IDLE: moved = step_idle(c); break;
        case FRONT_BUSY: moved = step_busy(c); break;
        case FRONT_LINGER: moved = step_linger(c); break;
        case FRONT_DEAD: return;
        }
        if (!moved) return;
    }
    front_pump_later(c);
}
