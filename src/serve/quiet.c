/* quiet.c - see quiet.h: a list, the quietest first. Busy ones are not in it. */
#include "serve/quiet.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/alloc.h"

struct sonde_quiet_one {
    struct sonde_quiet_one *before, *after;
    int fd;
    int listed;
};

struct sonde_quiet {
    pthread_mutex_t lock;
    struct sonde_quiet_one *first, *last;
    unsigned count, max;
};

struct sonde_quiet *sonde_quiet_create(unsigned max)
{
    struct sonde_quiet *q = sonde__calloc(1, sizeof(*q));
    if (!q) return NULL;
    q->max = max;
    pthread_mutex_init(&q->lock, NULL);
    return q;
}

void sonde_quiet_destroy(struct sonde_quiet *q)
{
    if (!q) return;
    pthread_mutex_destroy(&q->lock);
    sonde__free(q);
}

static void unlist(struct sonde_quiet *q, struct sonde_quiet_one *one)
{
    if (!one->listed) return;
    if (one->before) one->before->after = one->after;
    else q->first = one->after;
    if (one->after) one->after->before = one->before;
    else q->last = one->before;
    one->before = one->after = NULL;
    one->listed = 0;
}

static void list_last(struct sonde_quiet *q, struct sonde_quiet_one *one)
{
    unlist(q, one);
    one->before = q->last;
    if (q->last) q->last->after = one;
    else q->first = one;
    q->last = one;
    one->listed = 1;
}

struct sonde_quiet_one *sonde_quiet_add(struct sonde_quiet *q, int fd)
{
    struct sonde_quiet_one *one = sonde__calloc(1, sizeof(*one));
    if (!one) return NULL;
    one->fd = fd;
    pthread_mutex_lock(&q->lock);
    if (q->count >= q->max && q->first) {
        struct sonde_quiet_one *quietest = q->first;
        shutdown(quietest->fd, SHUT_RDWR);
        unlist(q, quietest); /* it stays counted until it is closed */
    }
    q->count++;
    list_last(q, one);
    pthread_mutex_unlock(&q->lock);
    return one;
}

void sonde_quiet_remove(struct sonde_quiet *q, struct sonde_quiet_one *one)
{
    if (!one) return;
    pthread_mutex_lock(&q->lock);
    unlist(q, one);
    q->count--;
    pthread_mutex_unlock(&q->lock);
    sonde__free(one);
}

void sonde_quiet_busy(struct sonde_quiet *q, struct sonde_quiet_one *one)
{
    if (!one) return;
    pthread_mutex_lock(&q->lock);
    unlist(q, one);
    pthread_mutex_unlock(&q->lock);
}

void sonde_quiet_idle(struct sonde_quiet *q, struct sonde_quiet_one *one)
{
    if (!one) return;
    pthread_mutex_lock(&q->lock);
    list_last(q, one);
    pthread_mutex_unlock(&q->lock);
}
