/* A destination's thread: what becomes of a batch by what is answered, how long it waits before the
 * next try, and what it does when it is told to end. The clock and the network are the test's: time
 * goes on by a millisecond whenever somebody looks at it, and who waits until a time is there at
 * once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/lock.h"

static int wait_until(struct sonde_cond *cond, struct sonde_lock *lock,
                      const struct timespec *until);
#define sonde_cond_timedwait wait_until
#include "push/sender.c" /* over the fakes below; the library's own is not linked then */
#undef sonde_cond_timedwait

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define STEP_S 0.001

/* ---- Clock and network ----------------------------------------------------------------------- */

enum { TRIES_MAX = 64 };

struct reply { int rc; long status; double retry_after_s; const char *body; };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    double now_s;
    const struct reply *replies;  /* the last one is repeated */
    size_t reply_count;
    struct { double at_s; uint32_t items; } tries[TRIES_MAX];
    size_t try_count;
    int opens_fail;               /* push_http_open fails so often */
    int hold;                     /* posts wait until they are told to stop */
    int no_end;                   /* who waits does so until he is woken */
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

double push_clock_s(void)
{
    pthread_mutex_lock(&fake.lock);
    const double now = fake.now_s += STEP_S;
    pthread_mutex_unlock(&fake.lock);
    return now;
}

static int wait_until(struct sonde_cond *cond, struct sonde_lock *lock,
                      const struct timespec *until)
{
    if (fake.no_end) {
        sonde_cond_wait(cond, lock);
        return 0;
    }
    pthread_mutex_lock(&fake.lock);
    fake.now_s = (double)until->tv_sec + (double)until->tv_nsec * 1e-9;
    pthread_mutex_unlock(&fake.lock);
    return ETIMEDOUT;
}

double push_unix_s(void) { return 1e9; }
double push_timeout_s(const struct push_dest *d) { return (void)d, 5; }

void *push_http_open(void)
{
    pthread_mutex_lock(&fake.lock);
    const int fails = fake.opens_fail > 0 && fake.opens_fail--;
    pthread_mutex_unlock(&fake.lock);
    return fails ? NULL : &fake;
}

void push_http_close(void *curl) { (void)curl; }

int push_http_post(void *curl, const struct push_dest *d, const struct push_batch *b,
                   double timeout_s, int (*stop)(void *arg), void *arg, struct push_answer *out)
{
    assert_ptr_equal(curl, &fake);
    assert_true(timeout_s == push_timeout_s(d));
    const double now = push_clock_s();
    pthread_mutex_lock(&fake.lock);
    const size_t n = fake.try_count < fake.reply_count ? fake.try_count : fake.reply_count - 1;
    const struct reply r = fake.replies[n];
    assert_true(fake.try_count < TRIES_MAX);
    fake.tries[fake.try_count].at_s = now;
    fake.tries[fake.try_count].items = b->items;
    fake.try_count++;
    const int hold = fake.hold;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    sonde_buf_reset(&out->body);
    if (r.body) sonde_buf_puts(&out->body, r.body);
    out->status = r.status;
    out->retry_after_s = r.retry_after_s;
    snprintf(out->text, sizeof(out->text), "told by the test");
    while (hold && !stop(arg)) usleep(100);
    return hold ? SONDE_EIO : r.rc;
}

/* ---- A destination --------------------------------------------------------------------------- */

static int again(long status) { return status == 429 || status >= 500; }

/* The body says how many. */
static uint64_t rejected(const char *body, size_t len, char *why, size_t why_size)
{
    if (!len) return 0;
    snprintf(why, why_size, "because");
    return strtoull(body, NULL, 10);
}

static const struct sonde_push_ops ops = { .name = "test", .again = again, .rejected = rejected };
static const struct sonde_push_ops silent = { .name = "test", .again = again };

static void dest_open(struct push_dest *d, const struct reply *replies, size_t reply_count)
{
    memset(d, 0, sizeof(*d));
    d->ops = &ops;
    d->random = 0x1234567;
    snprintf(d->url, sizeof(d->url), "http://collector");
    sonde_lock_init(&d->lock, SONDE_RANK_PUSH_DEST);
    sonde_cond_init(&d->wake);
    assert_int_equal(push_queue_open(NULL, 1 << 20, 1e6, &d->queue, NULL), 0);
    fake.now_s = 0;
    fake.replies = replies;
    fake.reply_count = reply_count;
    fake.try_count = 0;
    fake.opens_fail = fake.hold = fake.no_end = 0;
}

static void dest_put(struct push_dest *d, uint32_t items)
{
    char *body = sonde__calloc(1, 11);
    struct push_batch *b = push_batch_create(SONDE_PUSH_METRICS, "/", items, body, 10);
    assert_non_null(b);
    push_queue_put(d->queue, b);
    sonde_lock(&d->lock);
    sonde_cond_signal(&d->wake);
    sonde_unlock(&d->lock);
}

static void dest_start(struct push_dest *d)
{
    struct sonde_err err;
    assert_int_equal(push_sender_start(d, &err), 0);
}

static void wait_for_tries(size_t n)
{
    pthread_mutex_lock(&fake.lock);
    while (fake.try_count < n) pthread_cond_wait(&fake.changed, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
}

/* Told to end with all the time there is: what waits is sent before. */
static void dest_finish(struct push_dest *d)
{
    while (!push_queue_empty(d->queue)) usleep(100);
    push_sender_stop(d, 1e300);
    push_sender_join(d);
}

static uint64_t dest_close(struct push_dest *d)
{
    const uint64_t left = push_queue_close(d->queue);
    sonde_cond_destroy(&d->wake);
    sonde_lock_destroy(&d->lock);
    return left;
}

/* ---- What becomes of a batch ----------------------------------------------------------------- */

static void by_answer(void **state)
{
    (void)state;
    static const struct {
        struct reply replies[6];
        size_t count;
        uint64_t sent, failed, refused, rejected;
    } cases[] = {
        { { { 0, 200, 0, NULL } }, 1, 1, 0, 0, 0 },
        { { { 0, 204, 0, NULL } }, 1, 1, 0, 0, 0 },
        { { { 0, 299, 0, NULL } }, 1, 1, 0, 0, 0 },
        { { { 0, 200, 0, "3" } }, 1, 1, 0, 0, 3 },
        { { { 0, 199, 0, NULL } }, 1, 0, 0, 1, 0 },
        { { { 0, 300, 0, NULL } }, 1, 0, 0, 1, 0 },   /* redirections are not followed */
        { { { 0, 400, 0, NULL } }, 1, 0, 0, 1, 0 },
        { { { 0, 401, 60, NULL } }, 1, 0, 0, 1, 0 },  /* also with a Retry-After */
        { { { 0, 413, 0, "9" } }, 1, 0, 0, 1, 0 },    /* what it says then is no count */
        { { { 0, 429, 0, NULL }, { 0, 200, 0, NULL } }, 2, 1, 1, 0, 0 },
        { { { 0, 503, 0, NULL }, { 0, 500, 0, NULL }, { 0, 200, 0, NULL } }, 3, 1, 2, 0, 0 },
        { { { 0, 503, 0, NULL }, { 0, 400, 0, NULL } }, 2, 0, 1, 1, 0 },
        { { { SONDE_EIO, 0, 0, NULL }, { SONDE_ENOMEM, 0, 0, NULL }, { 0, 200, 0, "1" } },
          3, 1, 2, 0, 1 },
        { { { SONDE_EIO, 200, 0, NULL }, { 0, 200, 0, NULL } }, 2, 1, 1, 0, 0 }, /* broke off */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        static struct push_dest d;
        dest_open(&d, cases[i].replies, cases[i].count);
        dest_start(&d);
        dest_put(&d, 1);
        dest_finish(&d);
        const struct push_counts *c = &d.counts;
        if (c->sent != cases[i].sent || c->failed != cases[i].failed ||
            c->dropped[PUSH_DROP_REFUSED] != cases[i].refused || c->rejected != cases[i].rejected) {
            fail_msg("case %zu: %d sent, %d failed, %d refused, %d rejected", i, (int)c->sent,
                     (int)c->failed, (int)c->dropped[PUSH_DROP_REFUSED], (int)c->rejected);
        }
        assert_int_equal(c->sent_bytes, 10 * c->sent);
        assert_true(c->last_sent_s == (c->sent ? 1e9 : 0));
        assert_int_equal(fake.try_count, cases[i].count);
        assert_int_equal(dest_close(&d), 0);
    }
}

/* The oldest first, and none overtakes one that has to wait. */
static void order_is_kept(void **state)
{
    (void)state;
    static const struct reply replies[] = {
        { 0, 503, 0, NULL }, { 0, 200, 0, NULL }, { SONDE_EIO, 0, 0, NULL }, { 0, 502, 0, NULL },
        { 0, 400, 0, NULL }, { 0, 200, 0, NULL },
    };
    static const uint32_t expected[] = { 1, 1, 2, 2, 2, 3, 4 };
    static struct push_dest d;
    dest_open(&d, replies, COUNT(replies));
    for (uint32_t i = 1; i <= 4; i++) dest_put(&d, i);
    dest_start(&d);
    dest_finish(&d);
    assert_int_equal(fake.try_count, COUNT(expected));
    for (size_t i = 0; i < COUNT(expected); i++) {
        assert_int_equal(fake.tries[i].items, expected[i]);
    }
    assert_int_equal(d.counts.sent, 3);
    assert_int_equal(dest_close(&d), 0);
}

static void without_partial_answers(void **state)
{
    (void)state;
    static const struct reply taken[] = { { 0, 200, 0, "7" } };
    static struct push_dest d;
    dest_open(&d, taken, 1);
    d.ops = &silent;
    dest_start(&d);
    dest_put(&d, 1);
    dest_finish(&d);
    assert_int_equal(d.counts.sent, 1);
    assert_int_equal(d.counts.rejected, 0);
    dest_close(&d);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Between half and all of 0.5 s, 1 s, 2 s … 60 s; looks at the clock add some steps. */
static void waits_double(void **state)
{
    (void)state;
    enum { FAILURES = 20 };
    static struct reply replies[FAILURES + 3];
    for (size_t i = 0; i < FAILURES; i++) replies[i].status = 503;
    replies[FAILURES].status = 200;
    replies[FAILURES + 1].status = 503; /* after a success it begins anew */
    replies[FAILURES + 2].status = 200;
    static struct push_dest d;
    dest_open(&d, replies, COUNT(replies));
    dest_put(&d, 1);
    dest_put(&d, 2);
    dest_start(&d);
    dest_finish(&d);
    assert_int_equal(fake.try_count, FAILURES + 3);
    double wait_s = 0.5;
    int spread = 0;
    for (size_t i = 0; i < FAILURES; i++, wait_s = wait_s < 30 ? wait_s * 2 : 60) {
        const double gap_s = fake.tries[i + 1].at_s - fake.tries[i].at_s;
        if (gap_s < wait_s / 2 || gap_s > wait_s + 20 * STEP_S) {
            fail_msg("after %zu failures: %g s, not %g to %g", i + 1, gap_s, wait_s / 2, wait_s);
        }
        spread += gap_s > wait_s * 0.55 && gap_s < wait_s * 0.95;
    }
    assert_true(spread > 5); /* not always the same share of it */
    const double gap_s = fake.tries[FAILURES + 2].at_s - fake.tries[FAILURES + 1].at_s;
    assert_true(gap_s >= 0.25 && gap_s <= 0.5 + 20 * STEP_S);
    dest_close(&d);
}

static void retry_after_is_honoured(void **state)
{
    (void)state;
    static const struct { double asked_s, least_s, most_s; } cases[] = {
        { 0, 0.25, 0.5 }, { 0.1, 0.25, 0.5 }, { 7, 7, 7 }, { 599, 599, 599 }, { 600, 600, 600 },
        { 601, 600, 600 }, { 1e9, 600, 600 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct reply replies[] = { { 0, 429, cases[i].asked_s, NULL }, { 0, 200, 0, NULL } };
        static struct push_dest d;
        dest_open(&d, replies, 2);
        dest_put(&d, 1);
        dest_start(&d);
        dest_finish(&d);
        const double gap_s = fake.tries[1].at_s - fake.tries[0].at_s;
        if (gap_s < cases[i].least_s || gap_s > cases[i].most_s + 20 * STEP_S) {
            fail_msg("asked for %g s, waited %g s", cases[i].asked_s, gap_s);
        }
        dest_close(&d);
    }
}

/* Agents that were started with other seeds do not come back together. */
static void jitter_differs(void **state)
{
    (void)state;
    static struct push_dest d;
    double sum = 0, least = 1, most = 0;
    d.random = 1;
    for (int i = 0; i < 10000; i++) {
        const double part = random_part(&d);
        assert_true(part >= 0 && part < 1);
        sum += part;
        least = part < least ? part : least;
        most = part > most ? part : most;
    }
    assert_true(sum > 4800 && sum < 5200 && least < 0.01 && most > 0.99);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void idle_ends_at_once(void **state)
{
    (void)state;
    static const struct reply ok[] = { { 0, 200, 0, NULL } };
    static struct push_dest d;
    dest_open(&d, ok, 1);
    dest_start(&d);
    push_sender_stop(&d, 0);
    push_sender_join(&d);
    push_sender_join(&d); /* not started any more: nothing */
    assert_int_equal(fake.try_count, 0);
    assert_int_equal(dest_close(&d), 0);
}

/* Waiting for the next try, it does not use up the time it has to flush: a collector that is away
 * is not there in a second either. */
static void waiting_ends_at_once(void **state)
{
    (void)state;
    static const struct reply away[] = { { 0, 503, 600, NULL } };
    static struct push_dest d;
    dest_open(&d, away, 1);
    fake.no_end = 1;
    dest_put(&d, 1);
    dest_put(&d, 2);
    dest_start(&d);
    wait_for_tries(1);
    push_sender_stop(&d, 1e300);
    push_sender_join(&d);
    assert_int_equal(fake.try_count, 1);
    assert_int_equal(dest_close(&d), 2);
}

/* One that is under way when time is up is given up, and stays. */
static void a_try_is_given_up(void **state)
{
    (void)state;
    static const struct reply ok[] = { { 0, 200, 0, NULL } };
    static struct push_dest d;
    dest_open(&d, ok, 1);
    fake.hold = 1;
    dest_put(&d, 1);
    dest_start(&d);
    wait_for_tries(1);
    push_sender_stop(&d, 0);
    push_sender_join(&d);
    assert_int_equal(d.counts.sent, 0);
    assert_int_equal(d.counts.failed, 0); /* it did not fail: there was no time */
    assert_int_equal(dest_close(&d), 1);
}

static void what_waits_is_flushed(void **state)
{
    (void)state;
    static const struct reply ok[] = { { 0, 200, 0, NULL } };
    static struct push_dest d;
    dest_open(&d, ok, 1);
    for (uint32_t i = 1; i <= 30; i++) dest_put(&d, i);
    push_sender_stop(&d, 1e300); /* before it has even begun */
    dest_start(&d);
    push_sender_join(&d);
    assert_int_equal(d.counts.sent, 30);
    assert_int_equal(dest_close(&d), 0);
}

/* Time is up before it looks: nothing is begun. */
static void nothing_is_begun_too_late(void **state)
{
    (void)state;
    static const struct reply ok[] = { { 0, 200, 0, NULL } };
    static struct push_dest d;
    dest_open(&d, ok, 1);
    for (uint32_t i = 1; i <= 3; i++) dest_put(&d, i);
    push_sender_stop(&d, 0);
    dest_start(&d);
    push_sender_join(&d);
    assert_int_equal(fake.try_count, 0);
    assert_int_equal(dest_close(&d), 3);
}

static void no_handle_at_first(void **state)
{
    (void)state;
    static const struct reply ok[] = { { 0, 200, 0, NULL } };
    static struct push_dest d;
    dest_open(&d, ok, 1);
    fake.opens_fail = 3;
    dest_put(&d, 1);
    dest_start(&d);
    dest_finish(&d);
    assert_int_equal(d.counts.sent, 1);
    assert_int_equal(dest_close(&d), 0);
}

static int quiet(void **state)
{
    (void)state;
    return sonde_log_open(SONDE_LOG_ERROR, NULL);
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(by_answer), T(order_is_kept), T(without_partial_answers), T(waits_double),
        T(retry_after_is_honoured), T(jitter_differs), T(idle_ends_at_once),
        T(waiting_ends_at_once), T(a_try_is_given_up), T(what_waits_is_flushed),
        T(nothing_is_begun_too_late),
        T(no_handle_at_first),
    };
    return cmocka_run_group_tests_name("sender", tests, quiet, NULL);
}
