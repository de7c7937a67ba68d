/* mirror.c - mirrored requests: gathered while they pass, sent to B, answers looked at and dropped;
 * see struct sonde_front_ab.
 *
 *     client.in ──▶ request parser ──▶ upstream.out ──▶ A        front_copy_more
 *                        └──▶ gather ─ ─ ─ ─ ─ ┐                  front_copy_launch
 *     copy.in ◀────────────────────────────────┘                  front_copy_read
 *
 * Nothing here can hold the client up: what it sends is copied to memory as it passes, and B gets
 * it only when it is whole, from a client of its own that has no socket. So all that is known
 * about requests (parsing, connecting, reading answers) holds for copies too, and B's failures end
 * there. What would not fit into the limits is dropped and counted. A request is compared only if
 * its copy was sent: else a B that is too slow to take all would be compared by those that came
 * when little was to do.
 *
 * Rejected: sending the copy piece by piece along with the request. A client that does not send the
 * rest would leave half of a request at B, and two servers that take bytes at different speeds need
 * the memory anyway. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "front/front_private.h"

static void copy_drop(struct sonde_front *f, enum sonde_front_drop reason)
{
    f->state.dropped_total[reason]++;
    f->changed = 1;
}

static void gather_release(struct sonde_front *f, struct front_gather *g)
{
    if (!g) return;
    assert(f->copy_bytes >= g->room);
    f->copy_bytes -= g->room;
    sonde__free(g->data);
    g->data = NULL;
    g->len = g->read = g->room = 0;
}

static void gather_destroy(struct sonde_front *f, struct front_gather *g)
{
    gather_release(f, g);
    sonde__free(g);
}

/* Room for len bytes more; wanted: for all that is known to come. Or the reason there is none. */
static int gather_grow(struct sonde_front *f, struct front_gather *g, uint64_t len, uint64_t wanted)
{
    const struct sonde_front_ab *ab = &f->o.ab;
    if (g->len + len > ab->copy_bytes_max || wanted > ab->copy_bytes_max) {
        return SONDE_FRONT_DROP_TOO_LARGE;
    }
    if (g->len + len <= g->room && wanted <= g->room) return -1;
    uint64_t room = g->room ? (uint64_t)g->room * 2 : 2048;
    while (room < g->len + len || room < wanted) room *= 2;
    if (room > ab->copy_bytes_max) room = ab->copy_bytes_max;
    if (f->copy_bytes - g->room + room > ab->copies_bytes_max) return SONDE_FRONT_DROP_NO_ROOM;
    char *data = sonde__realloc(g->data, room);
    if (!data) return SONDE_FRONT_DROP_NO_ROOM;
    f->copy_bytes += room - g->room;
    g->data = data;
    g->room = (uint32_t)room;
    return -1;
}

void front_copy_more(struct front_client *c, const char *data, size_t len)
{
    struct sonde_front *f = c->front;
    struct front_gather *g = c->proxied.gather;
    /* Once for the body too, if its length is known. */
    const uint64_t known = c->head.has_length ? c->head.length : 0;
    const uint64_t wanted = g->len ? 0 : known > UINT32_MAX ? UINT32_MAX : len + known;
    const int reason = gather_grow(f, g, len, wanted);
    if (reason >= 0) {
        copy_drop(f, (enum sonde_front_drop)reason);
        gather_destroy(f, g);
        c->proxied.gather = NULL;
        return;
    }
    memcpy(g->data + g->len, data, len);
    g->len += (uint32_t)len;
}

void front_copy_gather(struct front_client *c, const char *head)
{
    struct sonde_front *f = c->front;
    assert(!c->proxied.gather && !c->memory);
    if (f->state.copies >= f->o.ab.copies_max) {
        copy_drop(f, SONDE_FRONT_DROP_BUSY);
        return;
    }
    c->proxied.gather = sonde__calloc(1, sizeof(*c->proxied.gather));
    if (!c->proxied.gather) copy_drop(f, SONDE_FRONT_DROP_NO_ROOM);
    else front_copy_more(c, head, c->head.len);
}

void front_copy_launch(struct front_client *c)
{
    struct sonde_front *f = c->front;
    struct front_gather *g = c->proxied.gather;
    assert(g);
    c->proxied.gather = NULL;
    struct front_client *copy = NULL;
    if (f->stopping || f->state.copies >= f->o.ab.copies_max) {
        copy_drop(f, SONDE_FRONT_DROP_BUSY);
    } else {
        copy = sonde__calloc(1, sizeof(*copy));
        if (!copy) copy_drop(f, SONDE_FRONT_DROP_NO_ROOM);
    }
    if (!copy) {
        gather_destroy(f, g);
        return;
    }
    copy->s = (struct front_socket){ .kind = FRONT_CLIENT, .fd = -1 };
    copy->front = f;
    copy->memory = g;
    copy->arrived_ns = copy->s.read_ns = c->proxied.r.whole_ns;
    memcpy(copy->peer, c->peer, sizeof(copy->peer));
    sonde_http_head_init(&copy->head, 0);
    copy->next = f->copies;
    if (copy->next) copy->next->prev = copy;
    f->copies = copy;
    f->state.copies++;
    f->state.copies_total++;
    g->from = c;
    c->proxied.copy = copy;
    c->proxied.r.arm = SONDE_FRONT_A;
    front_client_idle(copy);
    front_pump_later(copy);
}

uint32_t front_copy_read(struct front_client *c)
{
    struct front_gather *g = c->memory;
    const uint32_t left = g->len - g->read;
    if (!left) return 0;
    const uint32_t room = front_room(&c->s.in);
    if (!c->s.in.data) c->s.eof = c->s.broken = 1; /* as front_read does */
    const uint32_t n = left < room ? left : room;
    if (!n) return 0;
    memcpy(c->s.in.data + c->s.in.end, g->data + g->read, n);
    c->s.in.end += n;
    g->read += n;
    if (g->read == g->len) gather_release(c->front, g);
    return n;
}

void front_copy_expire(struct front_client *c)
{
    assert(c->memory);
    if (c->state == FRONT_BUSY) {
        front_fail(c, 504, "timeout", "the mirror http://%s did nothing for %u ms",
                   c->front->o.ab.upstream.authority, c->front->o.ab.copy_timeout_ms);
    } else {
        front_client_close(c);
    }
    front_pump(c);
}

static void copy_cancel(struct front_client *copy, const char *why)
{
    if (copy->state == FRONT_BUSY) front_cancel(copy, why);
    else front_client_close(copy);
}

void front_copy_leave(struct front_client *c, int left)
{
    struct front_proxied *proxied = &c->proxied;
    if (proxied->gather) gather_destroy(c->front, proxied->gather);
    proxied->gather = NULL;
    if (!proxied->copy) return;
    struct front_client *copy = proxied->copy;
    proxied->copy = NULL;
    copy->memory->from = NULL;
    if (left) copy_cancel(copy, "client_closed");
}

void front_copy_close(struct front_client *c)
{
    struct sonde_front *f = c->front;
    assert(c->memory && c->state == FRONT_DEAD && f->state.copies);
    if (c->memory->from) c->memory->from->proxied.copy = NULL;
    gather_destroy(f, c->memory);
    c->memory = NULL;
    if (c->prev) c->prev->next = c->next;
    else f->copies = c->next;
    if (c->next) c->next->prev = c->prev;
    f->state.copies--;
}

void front_copy_cancel_all(struct sonde_front *f)
{
    while (f->copies) copy_cancel(f->copies, "stopped");
}
