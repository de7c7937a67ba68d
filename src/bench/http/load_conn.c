/* load_conn.c - connections of a loop; see load_private.h.
 *
 *   closed ─open─▶ connecting ─[▶ shaking, of TLS]─▶ idle ◀─▶ busy ─▶ closed
 *                                        └─ with a request ─┘
 *
 * Events are level-triggered and asked for once: reading always, writing while connecting and
 * while a request did not fit. A request is written at once, and its answer is read with one call
 * for each event; both cost no further call to the kernel. Rejected: edge-triggered events, with
 * which a server that floods one connection keeps the loop from all others, or needs a list of its
 * own.
 *
 * A connection that was idle and breaks before a byte of the answer came was closed by the server
 * at the moment we wrote to it, as every client with keep-alive meets: the request is sent again,
 * once, over a new one, and counted.
 *
 * With TLS bytes go through load_tls.c, and one event may bring several records: all are worked off
 * at once, also those behind the end of an answer (sessions, the server's goodbye). */
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "bench/http/load_private.h"
#include "sonde/sonde.h"

/* ---- Lists ----------------------------------------------------------------------------------- */

#define LOAD_LIST_ADD(list, conn, link)                                                        \
    do {                                                                                       \
        (conn)->link = (struct load_link){ (list)->last, NULL };                               \
        if ((list)->last) (list)->last->link.next = (conn);                                    \
        else (list)->first = (conn);                                                           \
        (list)->last = (conn);                                                                 \
    } while (0)

#define LOAD_LIST_REMOVE(list, conn, link)                                                     \
    do {                                                                                       \
        if ((conn)->link.before) (conn)->link.before->link.next = (conn)->link.next;           \
        else (list)->first = (conn)->link.next;                                                \
        if ((conn)->link.next) (conn)->link.next->link.before = (conn)->link.before;           \
        else (list)->last = (conn)->link.before;                                               \
        (conn)->link = (struct load_link){ NULL, NULL };                                       \
    } while (0)

static void conn_clear_first(struct load_conn *c)
{
    if (!c->awaits_first) return;
    LOAD_LIST_REMOVE(&c->loop->awaiting, c, in_first);
    c->awaits_first = 0;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void conn_set_idle(struct load_conn *c)
{
    c->state = LOAD_IDLE;
    c->reused = 1;
    LOAD_LIST_ADD(&c->loop->idle, c, in_state);
    c->loop->idle_count++;
}

static void conn_leave_idle(struct load_conn *c)
{
    LOAD_LIST_REMOVE(&c->loop->idle, c, in_state);
    c->loop->idle_count--;
}

/* The socket only; a request that it may have stays. */
static void conn_shut(struct load_conn *c)
{
    if (c->fd < 0) return;
    load_tls_close(c);
    close(c->fd); /* which takes it out of the epoll, too */
    c->fd = -1;
    c->generation++;
    c->loop->open--;
}

/* Without a request. */
static void conn_close(struct load_conn *c)
{
    if (c->state == LOAD_IDLE) conn_leave_idle(c);
    conn_shut(c);
    c->state = LOAD_CLOSED;
    LOAD_LIST_ADD(&c->loop->closed, c, in_state);
}

static int conn_ask_events(struct load_conn *c, int op, int out)
{
    struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP | (out ? (uint32_t)EPOLLOUT : 0u),
                             .data.u64 = (uint64_t)c->index << 32 | c->generation };
    c->wants_out = (uint8_t)out;
    return epoll_ctl(c->loop->epoll, op, c->fd, &e);
}

static int conn_connect(struct load_conn *c)
{
    struct load_loop *loop = c->loop;
    const struct sockaddr_storage *to = &loop->run->target.address[c->address];
    const socklen_t len = to->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                    : sizeof(struct sockaddr_in);
    const int one = 1;
    c->fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) return -1;
    loop->open++;
    c->generation++;
    c->reused = c->broken = 0;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(c->fd, (const struct sockaddr *)to, len) && errno != EINPROGRESS) return -1;
    return conn_ask_events(c, EPOLL_CTL_ADD, 1);
}

static void conn_end(struct load_conn *c);
static void conn_fail(struct load_conn *c, enum sonde_load_outcome outcome);
static void conn_shake(struct load_conn *c);

/* From the address that it has, over all others. */
static void conn_open(struct load_conn *c)
{
    struct load_loop *loop = c->loop;
    const size_t count = loop->run->target.address_count;
    c->state = LOAD_CONNECTING;
    for (; c->tried < count; c->tried++, c->address = (uint8_t)((c->address + 1u) % count)) {
        if (!conn_connect(c)) return;
        conn_shut(c);
    }
    if (c->has_request) {
        conn_fail(c, SONDE_LOAD_CONNECT);
        loop->hold_until_ns = loop->now_ns + LOAD_REFUSED_NS;
    } else {
        loop->spare_after_ns = loop->now_ns + 10 * LOAD_REFUSED_NS;
        conn_close(c);
    }
}

static void conn_begin_open(struct load_conn *c)
{
    c->address = c->loop->address;
    c->tried = 0;
    c->connect_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    conn_open(c);
}

/* One that is closed, or a new one; NULL when there is no memory. */
static struct load_conn *conn_get_closed(struct load_loop *loop)
{
    struct load_conn *c = loop->closed.first;
    if (c) {
        LOAD_LIST_REMOVE(&loop->closed, c, in_state);
        return c;
    }
    if (SONDE_ARRAY_ROOM(loop->conns, loop->conn_count, loop->conn_cap)) return NULL;
    c = sonde__calloc(1, sizeof(*c));
    if (!c) return NULL;
    c->loop = loop;
    c->fd = -1;
    c->index = loop->conn_count;
    load_answer_init(&c->answer);
    c->answer.stashes = &loop->stashes;
    loop->conns[loop->conn_count++] = c;
    return c;
}

void load_conn_open_spare(struct load_loop *loop)
{
    struct load_conn *c = conn_get_closed(loop);
    if (c) conn_begin_open(c);
}

void load_conn_release_all(struct load_loop *loop)
{
    for (uint32_t i = 0; i < loop->conn_count; i++) {
        struct load_conn *c = loop->conns[i];
        load_tls_close(c);
        if (c->fd >= 0) close(c->fd);
        load_answer_release(&c->answer);
        sonde_buf_release(&c->prepared.head);
        sonde__free(c);
    }
    sonde__free(loop->conns);
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Of a request that was not sent, too: its answer is begun anew. */
static void conn_await(struct load_conn *c)
{
    const struct load_run *run = c->loop->run;
    load_answer_begin(&c->answer, &c->record, &c->loop->gaps, run->answer_max,
                      c->prepared.request.keep_text);
}

/* The request has ended, as the record says. */
static void conn_end(struct load_conn *c)
{
    struct load_loop *loop = c->loop;
    struct sonde_load_record *r = &c->record;
    const int whole = c->written == c->prepared.head.len + c->prepared.request.body_len;
    const int keeps = c->answer.keep_alive && whole && !loop->run->options->no_keep_alive &&
                      c->state == LOAD_BUSY;
    load_loop_keep(loop, r);
    load_feed_done(loop, &c->prepared.request, r,
                   c->prepared.request.keep_text && r->outcome == SONDE_LOAD_OK ? &c->answer.text
                                                                                : NULL);
    conn_clear_first(c);
    LOAD_LIST_REMOVE(&loop->under_way, c, in_state);
    c->has_request = 0;
    if (loop->busy-- == loop->places) loop->full_until_ns = r->end_ns;
    loop->freed_ns = r->end_ns;
    if (keeps) conn_set_idle(c);
    else {
        c->state = LOAD_BUSY;
        conn_close(c);
    }
}

static void conn_fail(struct load_conn *c, enum sonde_load_outcome outcome)
{
    c->record.outcome = (uint8_t)outcome;
    c->record.end_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    c->answer.keep_alive = 0;
    conn_end(c);
}

void load_conn_break_off(struct load_conn *c, enum sonde_load_outcome outcome)
{
    conn_fail(c, outcome);
}

static ssize_t conn_send(const struct load_conn *c)
{
    const struct load_prepared *p = &c->prepared;
    const size_t head = p->head.len;
    struct iovec part[2];
    struct msghdr m = { .msg_iov = part };
    if (c->written < head) {
        part[m.msg_iovlen++] = (struct iovec){ p->head.data + c->written, head - c->written };
    }
    const size_t from = c->written > head ? c->written - head : 0;
    if (p->request.body_len > from) {
        part[m.msg_iovlen++] = (struct iovec){ (char *)(uintptr_t)p->request.body + from,
                                               p->request.body_len - from };
    }
    return sendmsg(c->fd, &m, MSG_NOSIGNAL);
}

/* As much of the request as the kernel takes. */
static void conn_write(struct load_conn *c)
{
    const size_t all = c->prepared.head.len + c->prepared.request.body_len;
    if (!c->record.sent_ns) {
        c->record.sent_ns = sonde_clock_ns(CLOCK_MONOTONIC);
        __atomic_store_n(&c->loop->sent, c->loop->sent + 1, __ATOMIC_RELAXED);
    }
    while (c->written < all && !c->broken) {
        const ssize_t n = c->tls ? load_tls_write(c) : conn_send(c);
        if (n > 0) c->written += (size_t)n;
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
        else if (n < 0 && errno == EINTR) continue;
        else c->broken = 1; /* what the server said before it closed can still be read */
    }
    const int out = c->tls ? load_tls_holds(c->tls) : c->written < all && !c->broken;
    if (out != c->wants_out) conn_ask_events(c, EPOLL_CTL_MOD, out);
}

void load_conn_send(struct load_loop *loop, struct load_prepared *p)
{
    const struct sonde_load_options *o = loop->run->options;
    struct load_conn *c = loop->idle.last; /* the one that was used last */
    if (c) conn_leave_idle(c);
    else c = conn_get_closed(loop);
    if (!c) {
        loop->error = SONDE_ENOMEM;
        return;
    }
    const struct load_prepared spare = c->prepared;
    c->prepared = *p;
    *p = spare;
    const struct load_prepared *now = &c->prepared;
    c->record = (struct sonde_load_record){
        .intended_ns = now->intended_ns, .trace = { now->trace[0], now->trace[1] },
        .request = now->request.request,
        .prompt_tokens = SONDE_LOAD_UNKNOWN, .output_tokens = SONDE_LOAD_UNKNOWN,
        .cached_tokens = SONDE_LOAD_UNKNOWN, .reasoning_tokens = SONDE_LOAD_UNKNOWN,
    };
    c->has_request = 1;
    c->resent = 0;
    c->written = 0;
    c->begun_ns = loop->now_ns;
    c->cancel_events = 0;
    if (o->cancel_ratio > 0) {
        struct sonde_draw draw = { o->seed + now->request.request * SONDE_HASH_MUL };
        if (sonde_draw_uniform(&draw) < o->cancel_ratio) {
            c->cancel_events = 1 + (uint32_t)sonde_draw_below(&draw, 32);
        }
    }
    loop->busy++;
    LOAD_LIST_ADD(&loop->under_way, c, in_state);
    if (o->first_timeout_ns) {
        LOAD_LIST_ADD(&loop->awaiting, c, in_first);
        c->awaits_first = 1;
    }
    conn_await(c);
    if (c->fd < 0) {
        conn_begin_open(c);
    } else {
        c->state = LOAD_BUSY;
        conn_write(c);
    }
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* The connection is gone. 1 if the request is sent again over a new one. */
static int conn_resend(struct load_conn *c)
{
    if (!c->reused || c->resent || c->answer.any) return 0;
    conn_shut(c);
    c->resent = 1;
    c->written = 0;
    c->loop->client.resent++;
    conn_await(c);
    conn_begin_open(c);
    return 1;
}

/* It can be written to. */
static void conn_set_ready(struct load_conn *c)
{
    c->loop->setup.opened++;
    if (c->has_request) {
        c->state = LOAD_BUSY;
        conn_write(c);
    } else {
        if (!c->tls) conn_ask_events(c, EPOLL_CTL_MOD, 0);
        conn_set_idle(c);
    }
}

/* Time since connect_ns, counted; from now on that of what is next. */
static uint32_t conn_count_time(struct load_conn *c, uint32_t *counts)
{
    const uint64_t now_ns = sonde_clock_ns(CLOCK_MONOTONIC), took_ns = now_ns - c->connect_ns;
    counts[sonde_load_gap_bucket(took_ns)]++;
    c->connect_ns = now_ns;
    return took_ns < UINT32_MAX ? (uint32_t)took_ns : UINT32_MAX;
}

static void conn_connected(struct load_conn *c)
{
    struct load_loop *loop = c->loop;
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len)) error = errno;
    if (error) {
        conn_shut(c);
        c->tried++;
        c->address = (uint8_t)((c->address + 1u) % loop->run->target.address_count);
        conn_open(c);
        return;
    }
    loop->address = c->address;
    const uint32_t took_ns = conn_count_time(c, loop->connects);
    if (c->has_request) c->record.connect_ns = took_ns;
    if (!loop->run->tls) {
        conn_set_ready(c);
    } else if (load_tls_open(c)) {
        loop->error = SONDE_ENOMEM;
    } else {
        c->state = LOAD_SHAKING;
        conn_shake(c);
    }
}

/* Bytes of the answer. */
static void conn_take_answer(struct load_conn *c, size_t len, uint64_t now_ns)
{
    struct load_loop *loop = c->loop;
    if (load_answer_feed(&c->answer, &loop->head, loop->buffer, len, now_ns)) {
        conn_end(c);
        return;
    }
    if (c->record.first_ns) conn_clear_first(c);
    if (c->cancel_events && c->record.head_ns &&
        (!c->record.streamed || c->record.events >= c->cancel_events)) {
        conn_fail(c, SONDE_LOAD_CANCELLED);
    }
}

static void conn_read(struct load_conn *c)
{
    struct load_loop *loop = c->loop;
    const ssize_t n = recv(c->fd, loop->buffer, sizeof(loop->buffer), 0);
    const int error = n < 0 ? errno : 0;
    const uint64_t now = sonde_clock_ns(CLOCK_MONOTONIC);
    loop->now_ns = now;
    if (n < 0 && (error == EAGAIN || error == EWOULDBLOCK || error == EINTR)) return;
    if (c->state == LOAD_IDLE) {
        conn_close(c); /* by the server; or it speaks without being asked */
        return;
    }
    if (n <= 0 && conn_resend(c)) return;
    if (n < 0) {
        conn_fail(c, SONDE_LOAD_RESET);
    } else if (n == 0) {
        load_answer_close(&c->answer, now);
        conn_end(c);
    } else {
        conn_take_answer(c, (size_t)n, now);
    }
}

/* ---- Events of TLS --------------------------------------------------------------------------- */

static void conn_fail_tls(struct load_conn *c, enum sonde_bench_tls_problem problem)
{
    struct load_loop *loop = c->loop;
    if (c->has_request) {
        c->record.tls_problem = (uint8_t)problem;
        conn_fail(c, SONDE_LOAD_TLS);
        loop->hold_until_ns = loop->now_ns + LOAD_REFUSED_NS;
    } else {
        loop->spare_after_ns = loop->now_ns + 10 * LOAD_REFUSED_NS;
        conn_close(c);
    }
}

static void conn_shake(struct load_conn *c)
{
    enum sonde_bench_tls_problem problem;
    const enum load_tls_step step = load_tls_shake(c, &problem);
    if (step == LOAD_TLS_BROKEN) {
        conn_fail_tls(c, problem);
        return;
    }
    if (step == LOAD_TLS_DONE) {
        const uint32_t took_ns = conn_count_time(c, c->loop->shakes);
        if (c->has_request) c->record.tls_ns = took_ns;
        c->loop->now_ns = c->connect_ns;
        conn_set_ready(c);
    }
}

/* The socket has ended, and the server had not said that it would. */
static void conn_cut_tls(struct load_conn *c, int error, uint64_t now_ns)
{
    if (c->state == LOAD_SHAKING) {
        load_tls_count(c->loop, SONDE_BENCH_TLS_CLOSED, "");
        conn_fail_tls(c, SONDE_BENCH_TLS_CLOSED);
    } else if (c->state == LOAD_IDLE) {
        conn_close(c);
    } else if (conn_resend(c)) {
        return;
    } else if (error) {
        conn_fail(c, SONDE_LOAD_RESET);
    } else {
        load_answer_cut(&c->answer, now_ns);
        conn_end(c);
    }
}

/* One record, or what else it was. 1 = there may be more. */
static int conn_open_record(struct load_conn *c, uint64_t now_ns)
{
    enum sonde_bench_tls_problem problem;
    size_t len = 0;
    const enum load_tls_step step = load_tls_read(c, &len, &problem);
    if (step == LOAD_TLS_MORE) return 0;
    if (step == LOAD_TLS_BROKEN) {
        conn_fail_tls(c, problem);
    } else if (c->state == LOAD_IDLE) {
        conn_close(c); /* by the server; or it speaks without being asked */
    } else if (step == LOAD_TLS_DONE) {
        conn_take_answer(c, len, now_ns);
    } else if (!conn_resend(c)) {
        load_answer_close(&c->answer, now_ns);
        conn_end(c);
    }
    return 1;
}

static void conn_read_tls(struct load_conn *c)
{
    const uint32_t generation = c->generation;
    const ssize_t n = load_tls_receive(c);
    const int error = n < 0 ? errno : 0;
    const uint64_t now_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    c->loop->now_ns = now_ns;
    if (n < 0 && (error == EAGAIN || error == EWOULDBLOCK || error == EINTR)) return;
    if (n <= 0) {
        conn_cut_tls(c, error, now_ns);
        return;
    }
    if (c->state == LOAD_SHAKING) conn_shake(c);
    while (c->generation == generation && c->state != LOAD_SHAKING && conn_open_record(c, now_ns)) {
    }
}

static void conn_event_tls(struct load_conn *c, uint32_t events)
{
    const uint32_t generation = c->generation;
    if (events & EPOLLOUT) load_tls_flush(c);
    if (events & ~(uint32_t)EPOLLOUT) conn_read_tls(c);
    if (c->generation != generation) return;
    /* What was held is gone, or the server has said what had to come first. */
    const int unsent = c->state == LOAD_BUSY &&
                       c->written < c->prepared.head.len + c->prepared.request.body_len;
    if (unsent && !c->broken) conn_write(c);
    const int out = load_tls_holds(c->tls);
    if (out != c->wants_out) conn_ask_events(c, EPOLL_CTL_MOD, out);
}

void load_conn_event(struct load_conn *c, uint32_t events)
{
    const uint32_t generation = c->generation;
    if (c->state == LOAD_CONNECTING) {
        if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) conn_connected(c);
        if (c->state == LOAD_SHAKING) conn_event_tls(c, 0);
        return;
    }
    if (c->tls) {
        conn_event_tls(c, events);
        return;
    }
    if ((events & EPOLLOUT) && c->state == LOAD_BUSY) conn_write(c);
    if ((events & ~(uint32_t)EPOLLOUT) && c->generation == generation) conn_read(c);
}
