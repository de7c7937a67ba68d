/* healthy_idle.c - a server that nobody asks anything: epoll, timers, a heartbeat. */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "bench.h"

enum { TIMERS = 4 };

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    const int loop = epoll_create1(EPOLL_CLOEXEC);
    int pair[2];
    if (loop < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) bench_fail("epoll");
    epoll_ctl(loop, EPOLL_CTL_ADD, pair[0], &(struct epoll_event){ .events = EPOLLIN,
        .data.fd = pair[0] });
    for (unsigned i = 0; i < TIMERS; i++) {
        const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
        const long ms = (long)bench_between(&b.random, 20, 400);
        const struct timespec period = { 0, ms * 1000000 };
        timerfd_settime(timer, 0, &(struct itimerspec){ period, period }, NULL);
        epoll_ctl(loop, EPOLL_CTL_ADD, timer, &(struct epoll_event){ .events = EPOLLIN,
            .data.fd = timer });
    }
    uint64_t ticks = 0;
    while (bench_running(&b)) {
        struct epoll_event event;
        uint64_t times;
        if (epoll_wait(loop, &event, 1, 1000) < 1) continue;
        if (read(event.data.fd, &times, sizeof(times)) == sizeof(times)) ticks += times;
    }
    return ticks == 0;
}
