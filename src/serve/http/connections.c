/* connections.c - see connections.h. Two lists, of connections that have not sent a whole request
 * yet and of those that read their answer, each in the order in which they came to be so: the first
 * of a list is the one that has been idle for longest, and the first to time out. Those whose
 * request is being answered are in neither. */
#include "serve/http/connections.h"

#include <assert.h>
#include <stddef.h>
#include <sys/socket.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

struct conn_list {
    struct sonde_conn *first, *last;
    double max_s; /* that a connection may stay in it */
};

struct sonde_conn {
    struct sonde_conn *before, *after;
    struct conn_list *list;  /* NULL = in none */
    double since_s;          /* in that list */
    int fd;
};

struct sonde_conns {
    struct sonde_lock lock;    /* of all below, and of connections */
    struct sonde_cond changed; /* a list has another first connection, or it ends */
    struct conn_list asking, reading;
    unsigned count, max;
    int ending;
    struct sonde_thread watcher;
};

static void conn_unlist(struct sonde_conn *conn)
{
    struct conn_list *l = conn->list;
    if (!l) return;
    assert(l->first && l->last);
    if (conn->before) conn->before->after = conn->after;
    else l->first = conn->after;
    if (conn->after) conn->after->before = conn->before;
    else l->last = conn->before;
    conn->before = conn->after = NULL;
    conn->list = NULL;
}

static void conn_append(struct sonde_conns *conns, struct conn_list *l, struct sonde_conn *conn)
{
    sonde_assert_held(&conns->lock);
    conn_unlist(conn);
    conn->since_s = sonde_clock_s(CLOCK_MONOTONIC);
    conn->list = l;
    conn->before = l->last;
    if (l->last) l->last->after = conn;
    else l->first = conn;
    l->last = conn;
    if (l->first == conn) sonde_cond_signal(&conns->changed);
}

/* Whoever serves it sees its end; it stays counted until it is closed. */
static void conn_shut_down(struct sonde_conn *conn)
{
    shutdown(conn->fd, SHUT_RDWR);
    conn_unlist(conn);
}

/* ---- The watcher ----------------------------------------------------------------------------- */

/* Shuts down those whose time is up. When the next one's is; 0 = there is none. */
static double conn_sweep(struct conn_list *l, double now)
{
    while (l->first && l->first->since_s + l->max_s <= now) conn_shut_down(l->first);
    return l->first ? l->first->since_s + l->max_s : 0;
}

static void *conn_watch(void *arg)
{
    struct sonde_conns *conns = arg;
    sonde_lock(&conns->lock);
    while (!conns->ending) {
        const double now = sonde_clock_s(CLOCK_MONOTONIC), asking = conn_sweep(&conns->asking, now);
        const double reading = conn_sweep(&conns->reading, now);
        const double next = asking == 0 || (reading != 0 && reading < asking) ? reading : asking;
        if (next == 0) {
            sonde_cond_wait(&conns->changed, &conns->lock);
            continue;
        }
        const struct timespec until = sonde_clock_timespec_s(next);
        sonde_cond_timedwait(&conns->changed, &conns->lock, &until);
    }
    sonde_unlock(&conns->lock);
    return NULL;
}

/* ---- Life ------------------------------------------------------------------------------------ */

struct sonde_conns *sonde_conns_create(unsigned max, double ask_s, double read_s)
{
    assert(max > 0 && ask_s > 0 && read_s > 0);
    struct sonde_conns *conns = sonde__calloc(1, sizeof(*conns));
    if (!conns) return NULL;
    conns->max = max;
    conns->asking.max_s = ask_s;
    conns->reading.max_s = read_s;
    sonde_lock_init(&conns->lock, SONDE_RANK_CONNECTIONS);
    sonde_cond_init(&conns->changed);
    if (sonde_thread_start(&conns->watcher, "sonde-conns", conn_watch, conns, NULL) == 0) {
        return conns;
    }
    sonde_cond_destroy(&conns->changed);
    sonde_lock_destroy(&conns->lock);
    sonde__free(conns);
    return NULL;
}

void sonde_conns_destroy(struct sonde_conns *conns)
{
    if (!conns) return;
    sonde_lock(&conns->lock);
    conns->ending = 1;
    sonde_cond_signal(&conns->changed);
    sonde_unlock(&conns->lock);
    sonde_thread_join(&conns->watcher);
    sonde_cond_destroy(&conns->changed);
    sonde_lock_destroy(&conns->lock);
    sonde__free(conns);
}

/* ---- Connections ----------------------------------------------------------------------------- */

struct sonde_conn *sonde_conns_add(struct sonde_conns *conns, int fd)
{
    assert(fd >= 0);
    struct sonde_conn *conn = sonde__calloc(1, sizeof(*conn));
    if (!conn) return NULL;
    conn->fd = fd;
    sonde_lock(&conns->lock);
    if (conns->count >= conns->max && conns->asking.first) conn_shut_down(conns->asking.first);
    conns->count++;
    conn_append(conns, &conns->asking, conn);
    sonde_unlock(&conns->lock);
    return conn;
}

void sonde_conns_remove(struct sonde_conns *conns, struct sonde_conn *conn)
{
    if (!conn) return;
    sonde_lock(&conns->lock);
    assert(conns->count > 0);
    conn_unlist(conn);
    conns->count--;
    sonde_unlock(&conns->lock);
    sonde__free(conn);
}

void sonde_conns_busy(struct sonde_conns *conns, struct sonde_conn *conn)
{
    if (!conn) return;
    sonde_lock(&conns->lock);
    conn_unlist(conn);
    sonde_unlock(&conns->lock);
}

void sonde_conns_sending(struct sonde_conns *conns, struct sonde_conn *conn)
{
    if (!conn) return;
    sonde_lock(&conns->lock);
    conn_append(conns, &conns->reading, conn);
    sonde_unlock(&conns->lock);
}

void sonde_conns_idle(struct sonde_conns *conns, struct sonde_conn *conn)
{
    if (!conn) return;
    sonde_lock(&conns->lock);
    conn_append(conns, &conns->asking, conn);
    sonde_unlock(&conns->lock);
}
