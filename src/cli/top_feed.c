/* top_feed.c - see top_feed.h. One thread; one lock over what is asked for and what was read. */
#include "cli/top_feed.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "sonde/sonde.h"

struct sonde_top_feed {
    struct sonde_top_source *source;
    struct sonde_thread thread;
    int fd;                           /* eventfd */
    struct sonde_top_memory memory;   /* the thread's */

    struct sonde_lock lock;
    struct sonde_cond wake;
    /* Under the lock. */
    struct sonde_top_request request;
    double interval_s;
    int paused, stop, again;          /* again: something was asked for */
    struct sonde_top_data fresh;      /* of fresh_page, if news and not lost */
    enum sonde_top_page fresh_page;
    struct sonde_err lost;            /* "" = not */
    int news;
};

static void top_feed_publish(struct sonde_top_feed *f, enum sonde_top_page page,
                             struct sonde_top_data *d, int rc, const struct sonde_err *err)
{
    sonde_lock(&f->lock);
    sonde_top_data_release(&f->fresh);
    f->fresh_page = page;
    if (rc == 0) {
        f->fresh = *d;
        f->lost.text[0] = 0;
    } else {
        sonde_top_data_release(d);
        snprintf(f->lost.text, sizeof(f->lost.text), "%s",
                 err->text[0] ? err->text : sonde_strerror(rc));
    }
    f->news = 1;
    sonde_unlock(&f->lock);
    const uint64_t one = 1;
    (void)!write(f->fd, &one, sizeof(one));
}

static void read_once(struct sonde_top_feed *f, const struct sonde_top_request *r)
{
    struct sonde_top_data d;
    struct sonde_err err = { "" };
    sonde_top_data_init(&d);
    int rc = sonde_top_source_read(f->source, r, &d, &err);
    if (!rc && r->page == SONDE_TOP_OVERVIEW) rc = sonde_top_data_rates(&d, &f->memory);
    top_feed_publish(f, r->page, &d, rc, &err);
}

/* Wait until the next tick is due or something is asked for. */
static void wait_turn(struct sonde_top_feed *f, double last_s)
{
    sonde_assert_held(&f->lock);
    while (!f->stop && !f->again) {
        if (f->paused) {
            sonde_cond_wait(&f->wake, &f->lock);
            continue;
        }
        const struct timespec due = sonde_clock_timespec_s(last_s + f->interval_s);
        if (sonde_cond_timedwait(&f->wake, &f->lock, &due) == ETIMEDOUT) return;
    }
}

/* A tick when one is due; what is asked for in between is answered from what there is, so that
 * keys do not disturb the length of intervals. */
static void *top_feed_run(void *arg)
{
    struct sonde_top_feed *f = arg;
    double last_s = sonde_clock_s(CLOCK_MONOTONIC);
    sonde_top_source_tick(f->source);

    sonde_lock(&f->lock);
    f->again = 1;
    for (;;) {
        wait_turn(f, last_s);
        if (f->stop) break;
        const struct sonde_top_request r = f->request;
        const int tick = !f->again && !f->paused;
        f->again = 0;
        sonde_unlock(&f->lock);
        if (tick) {
            last_s = sonde_clock_s(CLOCK_MONOTONIC);
            sonde_top_source_tick(f->source);
        }
        read_once(f, &r);
        sonde_lock(&f->lock);
    }
    sonde_unlock(&f->lock);
    return NULL;
}

static void top_feed_set_request(struct sonde_top_feed *f, const struct sonde_top_state *s)
{
    sonde_top_request_of(s, &f->request);
    f->interval_s = s->interval_s;
    f->paused = s->paused;
}

int sonde_top_feed_start(struct sonde_top_source *source, const struct sonde_top_state *s,
                         struct sonde_top_feed **out, struct sonde_err *err)
{
    struct sonde_top_feed *f = sonde__calloc(1, sizeof(*f));
    if (!f) return sonde_err_set(err, SONDE_ENOMEM, "out of memory");
    f->source = source;
    sonde_top_data_init(&f->fresh);
    top_feed_set_request(f, s);
    f->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->fd < 0) {
        const int rc = sonde_err_set(err, SONDE_EIO, "eventfd: %s", strerror(errno));
        sonde__free(f);
        return rc;
    }
    sonde_cond_init(&f->wake);
    sonde_lock_init(&f->lock, SONDE_RANK_TOP_FEED);

    const int rc = sonde_thread_start(&f->thread, "sonde-top", top_feed_run, f, err);
    if (rc) {
        close(f->fd);
        sonde__free(f);
        return rc;
    }
    *out = f;
    return 0;
}

void sonde_top_feed_stop(struct sonde_top_feed *f)
{
    if (!f) return;
    sonde_lock(&f->lock);
    f->stop = 1;
    sonde_cond_signal(&f->wake);
    sonde_unlock(&f->lock);
    sonde_top_source_cancel(f->source);
    sonde_thread_join(&f->thread);
    sonde_cond_destroy(&f->wake);
    sonde_lock_destroy(&f->lock);
    close(f->fd);
    sonde_top_data_release(&f->fresh);
    sonde_top_memory_release(&f->memory);
    sonde__free(f);
}

int sonde_top_feed_fd(const struct sonde_top_feed *f)
{
    return f->fd;
}

void sonde_top_feed_ask(struct sonde_top_feed *f, const struct sonde_top_state *s)
{
    sonde_lock(&f->lock);
    top_feed_set_request(f, s);
    f->again = 1;
    sonde_cond_signal(&f->wake);
    sonde_unlock(&f->lock);
}

int sonde_top_feed_take(struct sonde_top_feed *f, struct sonde_top_data pages[SONDE_TOP_PAGES],
                        struct sonde_err *lost)
{
    uint64_t count;
    (void)!read(f->fd, &count, sizeof(count));
    sonde_lock(&f->lock);
    const int news = f->news;
    if (news) {
        f->news = 0;
        *lost = f->lost;
        if (!f->lost.text[0]) {
            sonde_top_data_release(&pages[f->fresh_page]);
            pages[f->fresh_page] = f->fresh;
            sonde_top_data_init(&f->fresh);
        }
    }
    sonde_unlock(&f->lock);
    return news;
}
