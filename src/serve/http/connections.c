/* connections.c - see connections.h: two lists, of those that have not asked for anything and of those that read
 * an answer, each in the order they came to it. So the first of a list is the first whose time is up,
 * and the quietest. Busy ones are in none. */
#include "serve/http/connections.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/socket.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"

struct conn_list {
    struct sonde_conn *first, *last;
    double max_s; /* that one may be in it */
};

struct sonde_conn {
    struct sonde_conn *before, *after;
    struct conn_list *list;  /* NULL = in none */
    double since_s;
    int fd;
};

struct sonde_conns {
    struct sonde_lock lock;
    struct sonde_cond changed; /* a list has a first one that it did not have, or it ends */
    struct conn_list asking, reading;
    unsigned count, max;
    int ending;
    pthread_t watcher;
};

static void conn_unlist(struct sonde_conn *one)
{
    struct conn_list *l = one->list;
    if (!l) return;
    if (one->before) one->before->after = one->after;
    else l->first = one->after;
    if (one->after) one->after->before = one->before;
    else l->last = one->before;
    one->before = one->after = NULL;
    one->list = NULL;
}

static void list_last(struct sonde_conns *q, struct conn_list *l, struct sonde_conn *one)
{
    conn_unlist(one);
    one->since_s = sonde_clock_s(CLOCK_MONOTONIC);
    one->list = l;
    one->before = l->last;
    if (l->last) l->last->after = one;
    else l->first = one;
    l->last = one;
    if (l->first == one) sonde_cond_signal(&q->changed);
}

/* It stays counted until it is closed. */
static void send_away(struct sonde_conn *one)
{
    shutdown(one->fd, SHUT_RDWR);
    conn_unlist(one);
}

/* ---- The watcher -------------------------------------------------------------------------------- */

/* Sends away those whose time is up; when the next one's is, 0 = there is none. */
static double conn_sweep(struct conn_list *l, double now)
{
    while (l->first && l->first->since_s + l->max_s <= now) send_away(l->first);
    return l->first ? l->first->since_s + l->max_s : 0;
}

static void *conn_watch(void *arg)
{
    struct sonde_conns *q = arg;
    sonde_lock(&q->lock);
    while (!q->ending) {
        const double now = sonde_clock_s(CLOCK_MONOTONIC), asking = conn_sweep(&q->asking, now);
        const double reading = conn_sweep(&q->reading, now);
        const double next = asking == 0 || (reading != 0 && reading < asking) ? reading : asking;
        if (next == 0) {
            sonde_cond_wait(&q->changed, &q->lock);
            continue;
        }
        const struct timespec until = sonde_clock_timespec_s(next);
        sonde_cond_timedwait(&q->changed, &q->lock, &until);
    }
    sonde_unlock(&q->lock);
    return NULL;
}

/* ---- Life --------------------------------------------------------------------------------------- */

struct sonde_conns *sonde_conns_create(unsigned max, double ask_s, double read_s)
{
    struct sonde_conns *q = sonde__calloc(1, sizeof(*q));
    if (!q) return NULL;
    q->max = max;
    q->asking.max_s = ask_s;
    q->reading.max_s = read_s;
    sonde_lock_init(&q->lock, SONDE_RANK_CONNECTIONS);
    sonde_cond_init(&q->changed);
    if (pthread_create(&q->watcher, NULL, conn_watch, q) == 0) return q;
    sonde_cond_destroy(&q->changed);
    sonde_lock_destroy(&q->lock);
    sonde__free(q);
    return NULL;
}

void sonde_conns_destroy(struct sonde_conns *q)
{
    if (!q) return;
    sonde_lock(&q->lock);
    q->ending = 1;
    sonde_cond_signal(&q->changed);
    sonde_unlock(&q->lock);
    pthread_join(q->watcher, NULL);
    sonde_cond_destroy(&q->changed);
    sonde_lock_destroy(&q->lock);
    sonde__free(q);
}

/* ---- Connections -------------------------------------------------------------------------------- */

struct sonde_conn *sonde_conns_add(struct sonde_conns *q, int fd)
{
    struct sonde_conn *one = sonde__calloc(1, sizeof(*one));
    if (!one) return NULL;
    one->fd = fd;
    sonde_lock(&q->lock);
    if (q->count >= q->max && q->asking.first) send_away(q->asking.first);
    q->count++;
    list_last(q, &q->asking, one);
    sonde_unlock(&q->lock);
    return one;
}

void sonde_conns_remove(struct sonde_conns *q, struct sonde_conn *one)
{
    if (!one) return;
    sonde_lock(&q->lock);
    conn_unlist(one);
    q->count--;
    sonde_unlock(&q->lock);
    sonde__free(one);
}

void sonde_conns_busy(struct sonde_conns *q, struct sonde_conn *one)
{
    if (!one) return;
    sonde_lock(&q->lock);
    conn_unlist(one);
    sonde_unlock(&q->lock);
}

void sonde_conns_sending(struct sonde_conns *q, struct sonde_conn *one)
{
    if (!one) return;
    sonde_lock(&q->lock);
    list_last(q, &q->reading, one);
    sonde_unlock(&q->lock);
}

void sonde_conns_idle(struct sonde_conns *q, struct sonde_conn *one)
{
    if (!one) return;
    sonde_lock(&q->lock);
    list_last(q, &q->asking, one);
    sonde_unlock(&q->lock);
}
