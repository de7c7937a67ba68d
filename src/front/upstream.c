/* upstream.c - connections to the upstream, and to sonde's own server; see front_private.h.
 *
 * A connection that has answered is kept for the next request. The other side may close it just
 * when we send on it, and then nobody can tell whether the request was acted on. So it is kept for
 * a short time only, shorter than servers do (uvicorn, node and cpp-httplib: five seconds), is
 * looked at before it is used, and a request is sent a second time only when not a byte of it left
 * the first. Rejected: sending again whatever seems unanswered; a completion that is asked for
 * twice is computed twice. */
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "front/front_private.h"

#define IDLE_NS 3000000000u /* unless the upstream says how long it waits */
enum { POOL_MAX = 256 };

/* ---- Lists -------------------------------------------------------------------------------- */

static void unlink_from(struct sonde_front *f, int list, struct front_upstream *u)
{
    if (u->prev) u->prev->next = u->next;
    else f->upstreams[list] = u->next;
    if (u->next) u->next->prev = u->prev;
}

static void link_to(struct sonde_front *f, int list, struct front_upstream *u)
{
    u->prev = NULL;
    u->next = f->upstreams[list];
    if (u->next) u->next->prev = u;
    f->upstreams[list] = u;
}

static int front_upstream_pool_of(int own, int b)
{
    return own ? FRONT_POOL_OWN : b ? FRONT_POOL_B : FRONT_POOL;
}

void front_upstream_close(struct front_upstream *u)
{
    struct sonde_front *f = u->front;
    if (u->dead) return;
    assert(f->state.upstreams && (u->client || f->state.upstreams_idle));
    u->dead = 1;
    if (u->s.fd >= 0) close(u->s.fd);
    u->s.fd = -1;
    front_bytes_release(&u->s.in);
    front_bytes_release(&u->s.out);
    unlink_from(f, u->client ? FRONT_IN_USE : front_upstream_pool_of(u->own, u->b), u);
    if (u->client) {
        u->client->up = NULL;
        u->client = NULL;
    } else {
        f->state.upstreams_idle--;
    }
    f->state.upstreams--;
    f->changed = 1;
    link_to(f, FRONT_BURIED, u);
}

/* ---- Connecting --------------------------------------------------------------------------- */

static void socket_renew(struct front_upstream *u, int fd)
{
    assert(fd >= 0 && u->s.fd < 0);
    u->s.fd = fd;
    u->s.readable = u->s.hup = u->s.eof = u->s.broken = 0;
    u->s.writable = 1;
    u->s.deadline_ns = 0;
    u->connecting = u->write_dead = 0;
    u->sent = u->received = 0;
}

/* To sonde's own server. 0 or an errno. */
static int open_own(struct front_upstream *u)
{
    assert(u->own && u->front->o.adopt);
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        return errno;
    }
    if (u->front->o.adopt(pair[1], u->who, u->front->o.arg) != 0) {
        close(pair[0]);
        return EAGAIN;
    }
    socket_renew(u, pair[0]);
    return front_watch(u->front, &u->s) == 0 ? 0 : errno;
}

static socklen_t address_len(const struct sockaddr_storage *a)
{
    return a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

/* To u->address. 0: connected, or about to be; or an errno. */
static int open_remote(struct front_upstream *u)
{
    const struct sonde_front_upstream *server = front_arm_server(u);
    assert(!u->own && u->address < server->address_count);
    const struct sockaddr_storage *a = &server->address[u->address];
    const int fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return errno;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    socket_renew(u, fd);
    if (connect(fd, (const struct sockaddr *)a, address_len(a)) != 0) {
        if (errno != EINPROGRESS) return errno;
        u->connecting = 1;
        u->s.writable = 0;
        u->s.deadline_ns = front_now_ns() + (uint64_t)u->front->o.connect_timeout_ms * 1000000u;
    }
    return front_watch(u->front, &u->s) == 0 ? 0 : errno;
}

/* From u->address on, the first that works. 0, or -1 and the request has failed or has another
 * upstream; error is why the address before did not. */
static int open_any(struct front_upstream *u, int error)
{
    assert(u->client); /* who is told */
    struct sonde_front *f = u->front;
    const struct sonde_front_upstream *server = front_arm_server(u);
    while (u->own || u->address < server->address_count) {
        error = u->own ? open_own(u) : open_remote(u);
        if (error == 0) {
            f->state.connected_total++;
            return 0;
        }
        if (u->s.fd >= 0) close(u->s.fd);
        u->s.fd = -1;
        if (u->own) break;
        u->address++;
    }
    const char *why = error == ETIMEDOUT      ? "connect_timeout"
                      : error == ECONNREFUSED ? "connect_refused"
                                              : "connect_failed";
    if (u->own) {
        front_fail(u->client, 503, "own_server", "sonde's own server takes no more connections");
    } else if (u->b && front_fall_back(u->client, why)) {
        return -1;
    } else if (error == ETIMEDOUT) {
        front_fail(u->client, 504, why,
                   "the upstream http://%s did not answer to a connection within %u ms",
                   server->authority, f->o.connect_timeout_ms);
    } else {
        front_fail(u->client, 502, why,
                   "cannot connect to the upstream http://%s: %s; is the server running?",
                   server->authority, strerror(error));
    }
    return -1;
}

/* The attempt at hand has failed. */
static void try_next(struct front_upstream *u, int error)
{
    close(u->s.fd);
    u->s.fd = -1;
    u->address++;
    open_any(u, error);
}

void front_upstream_connected(struct front_upstream *u)
{
    assert(u->connecting && u->client);
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(u->s.fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) error = errno;
    if (error) {
        try_next(u, error);
        return;
    }
    u->connecting = 0;
    u->s.deadline_ns = 0;
}

void front_upstream_expire(struct front_upstream *u)
{
    struct front_client *c = u->client;
    if (!u->connecting) {
        front_upstream_close(u);
        return;
    }
    try_next(u, ETIMEDOUT);
    front_pump(c);
}

/* ---- The pool ----------------------------------------------------------------------------- */

/* 1 if the other side has neither closed it nor sent what nobody asked for. */
static int still_open(const struct front_upstream *u)
{
    char byte;
    return recv(u->s.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static struct front_upstream *from_pool(struct front_client *c)
{
    struct sonde_front *f = c->front;
    const int list =
        front_upstream_pool_of(c->proxied.own, front_is_for_b(&c->proxied));
    for (struct front_upstream *u = f->upstreams[list], *next; u; u = next) {
        next = u->next;
        if (u->own && u->who != c->who) continue;
        assert(!u->client && f->state.upstreams_idle);
        if (!still_open(u)) {
            front_upstream_close(u);
            continue;
        }
        unlink_from(f, list, u);
        f->state.upstreams_idle--;
        f->state.reused_total++;
        u->reused = 1;
        u->sent = u->received = 0;
        u->s.deadline_ns = 0;
        return u;
    }
    return NULL;
}

int front_upstream_attach(struct front_client *c)
{
    struct sonde_front *f = c->front;
    assert(!c->up && c->state == FRONT_BUSY);
    if (c->proxied.own && f->o.who && !c->who_known) {
        c->who = f->o.who(c->s.fd, f->o.arg);
        c->who_known = 1;
    }
    struct front_upstream *u = from_pool(c);
    const int fresh = !u;
    if (fresh) {
        u = sonde__calloc(1, sizeof(*u));
        if (!u) {
            front_fail(c, 503, "out_of_memory", "the front is out of memory");
            return -1;
        }
        *u = (struct front_upstream){ .s = { .kind = FRONT_UPSTREAM, .fd = -1 }, .front = f,
                                      .own = c->proxied.own, .who = c->proxied.own ? c->who : 0,
                                      .b = front_is_for_b(&c->proxied) };
        f->state.upstreams++;
    }
    u->client = c;
    c->up = u;
    link_to(f, FRONT_IN_USE, u);
    f->changed = 1;
    return fresh ? open_any(u, 0) : 0;
}

void front_upstream_lost(struct front_client *c)
{
    assert(c->up && !c->up->dead);
    struct front_upstream *u = c->up;
    if (u->reused && !u->sent && !u->received) {
        close(u->s.fd);
        u->s.fd = -1;
        u->reused = 0;
        u->address = 0;
        open_any(u, ECONNRESET);
        return;
    }
    front_fail(c, 502, "closed_early",
               "the upstream http://%s closed the connection before it had answered",
               front_arm_server(u)->authority);
}

/* How long the answer says that the connection is kept, less a second. */
static uint64_t idle_ns(const struct front_proxied *proxied, const char *head)
{
    static const char key[] = "timeout=";
    const struct sonde_http_field *f =
        sonde_http_field(&proxied->answer_head, SONDE_HTTP_KEEP_ALIVE);
    for (uint32_t i = 0; f && i + sizeof(key) - 1 < f->value.len; i++) {
        const char *at = head + f->value.at + i;
        if (strncasecmp(at, key, sizeof(key) - 1) != 0) continue;
        uint64_t s = 0;
        for (i += sizeof(key) - 1; i < f->value.len && s < 1000; i++) {
            const char digit = head[f->value.at + i];
            if (digit < '0' || digit > '9') break;
            s = s * 10 + (uint64_t)(digit - '0');
        }
        return (s > 60 ? 60 : s > 1 ? s - 1 : 0) * 1000000000u;
    }
    return IDLE_NS;
}

void front_upstream_keep_alive(struct front_client *c, const char *head)
{
    assert(c->up);
    c->up->idle_ns = idle_ns(&c->proxied, head);
}

void front_upstream_release(struct front_client *c, int reusable)
{
    struct front_upstream *u = c->up;
    struct sonde_front *f = c->front;
    if (!u) return;
    assert(u->client == c && !u->dead);
    if (!reusable || !u->idle_ns || f->stopping || f->state.upstreams_idle >= POOL_MAX) {
        front_upstream_close(u);
        return;
    }
    unlink_from(f, FRONT_IN_USE, u);
    u->client = NULL;
    c->up = NULL;
    front_bytes_release(&u->s.in);
    front_bytes_release(&u->s.out);
    u->s.deadline_ns = front_now_ns() + u->idle_ns;
    f->state.upstreams_idle++;
    f->changed = 1;
    link_to(f, front_upstream_pool_of(u->own, u->b), u);
}
