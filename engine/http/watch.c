/* watch.c - clients that go away while their connection is suspended: libmicrohttpd does not look
 * at it then. One epoll set; what it knows of a connection is the engine's number of its request,
 * which means nothing to the engine once that has ended, so that a late event does no harm.
 *
 * A client that shuts down its sending side counts as gone: it cannot be told from one that
 * closed. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "http/server_private.h"

struct http_watch {
    struct engine *engine;
    int epoll, end;              /* end: an eventfd, id 0 in the set */
    pthread_t thread;
};

static void *watch_thread(void *arg)
{
    struct http_watch *w = arg;
    struct epoll_event events[64];
    pthread_setname_np(pthread_self(), "http-watch");
    for (;;) {
        const int n = epoll_wait(w->epoll, events, 64, -1);
        for (int i = 0; i < n; i++) {
            if (!events[i].data.u64) return NULL;
            engine_cancel(w->engine, events[i].data.u64);
        }
    }
}

int http_watch_create(struct engine *e, struct http_watch **out, struct fail *why)
{
    struct http_watch *w = calloc(1, sizeof(*w));
    if (!w) return fail_set(why, "out of memory");
    struct epoll_event event = { .events = EPOLLIN };
    w->engine = e;
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->end = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->epoll < 0 || w->end < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->end, &event) ||
        pthread_create(&w->thread, NULL, watch_thread, w)) {
        if (w->epoll >= 0) close(w->epoll);
        if (w->end >= 0) close(w->end);
        free(w);
        return fail_set(why, "cannot watch connections: too many open files or threads");
    }
    *out = w;
    return 0;
}

void http_watch_destroy(struct http_watch *w)
{
    if (!w) return;
    eventfd_write(w->end, 1);
    pthread_join(w->thread, NULL);
    close(w->epoll);
    close(w->end);
    free(w);
}

void http_watch_add(struct http_watch *w, int fd, uint64_t engine_id)
{
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = engine_id };
    epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event);
}

void http_watch_remove(struct http_watch *w, int fd)
{
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, fd, NULL);
}
