/* socket.c - bytes in and out of sockets that do not block; see front_private.h. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "front/front_private.h"

uint64_t front_now_ns(void) { return sonde_clock_ns(CLOCK_MONOTONIC); }
uint64_t front_unix_ns(void) { return sonde_clock_ns(CLOCK_REALTIME); }

/* ---- Buffers ------------------------------------------------------------------------------ */

uint32_t front_room(struct front_bytes *b)
{
    assert(b->begin <= b->end && b->end <= FRONT_BUFFER);
    if (!b->data) {
        b->data = sonde__alloc(FRONT_BUFFER);
        b->begin = b->end = 0;
        return b->data ? FRONT_BUFFER : 0;
    }
    if (b->begin && b->begin >= b->end) {
        b->begin = b->end = 0;
    } else if (b->begin && b->end == FRONT_BUFFER) {
        memmove(b->data, b->data + b->begin, b->end - b->begin);
        b->end -= b->begin;
        b->begin = 0;
    }
    return FRONT_BUFFER - b->end;
}

void front_consume(struct front_bytes *b, uint32_t n)
{
    assert(n <= front_held(b));
    b->begin += n;
    if (b->begin == b->end) b->begin = b->end = 0;
}

void front_bytes_release(struct front_bytes *b)
{
    sonde__free(b->data);
    *b = (struct front_bytes){ 0 };
}

/* ---- Sockets ------------------------------------------------------------------------------ */

int front_watch(struct sonde_front *f, struct front_socket *s)
{
    /* Edge-triggered and once for all: no system call when what is waited for changes. */
    struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = s };
    return epoll_ctl(f->epoll, EPOLL_CTL_ADD, s->fd, &e);
}

uint32_t front_read(struct front_socket *s)
{
    if (!s->readable || s->eof) return 0;
    const uint32_t room = front_room(&s->in);
    if (!room) {
        if (!s->in.data) s->eof = s->broken = 1; /* without memory it cannot go on */
        return 0;
    }
    ssize_t n;
    do n = recv(s->fd, s->in.data + s->in.end, room, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        s->in.end += (uint32_t)n;
        s->read_ns = front_now_ns();
        /* A short read has emptied the socket, and there will be an edge when more comes; but for
         * an end that has been announced already. */
        if ((uint32_t)n < room && !s->hup) s->readable = 0;
        return (uint32_t)n;
    }
    if (n < 0 && errno == EAGAIN) {
        s->readable = 0;
    } else {
        s->eof = 1;
        s->broken = n < 0;
    }
    return 0;
}

uint32_t front_write(struct front_socket *s, int *failed)
{
    *failed = 0;
    const uint32_t held = front_held(&s->out);
    if (!held || !s->writable) return 0;
    ssize_t n;
    do n = send(s->fd, s->out.data + s->out.begin, held, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        if (errno == EAGAIN) s->writable = 0;
        else *failed = 1;
        return 0;
    }
    if ((uint32_t)n < held) s->writable = 0;
    front_consume(&s->out, (uint32_t)n);
    return (uint32_t)n;
}
