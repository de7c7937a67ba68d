/* What is sent to, or read from, a host whose name cannot be found out is given up at once when the
 * agent ends: getaddrinfo is ours here. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "collect/ingest/scrape.h"
#include "push/push_private.h"
#include "sonde/sonde.h"

enum { PATIENCE_S = 60 }; /* of a resolver whose servers are away */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int asked, let_go, answered;
} names = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    struct timespec until;
    int rc = 0;
    (void)node, (void)service, (void)hints, (void)out;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&names.lock);
    names.asked = 1;
    pthread_cond_broadcast(&names.changed);
    while (!names.let_go && !rc) rc = pthread_cond_timedwait(&names.changed, &names.lock, &until);
    names.answered = 1;
    pthread_cond_broadcast(&names.changed);
    pthread_mutex_unlock(&names.lock);
    return EAI_AGAIN;
}

static int once_asked(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&names.lock);
    const int asked = names.asked;
    pthread_mutex_unlock(&names.lock);
    return asked;
}

/* Nobody waited for the resolver: it is still at it. Let it go. */
static void expect_unanswered(void)
{
    pthread_mutex_lock(&names.lock);
    assert_true(names.asked);
    assert_false(names.answered);
    names.let_go = 1;
    pthread_cond_broadcast(&names.changed);
    while (!names.answered) pthread_cond_wait(&names.changed, &names.lock);
    names.asked = names.let_go = names.answered = 0;
    pthread_mutex_unlock(&names.lock);
    nanosleep(&(struct timespec){ 0, 200000000 }, NULL); /* for its thread to end */
}

static void a_push(void **state)
{
    (void)state;
    struct push_dest d = { .url = "http://collector.example:4318/v1/metrics" };
    const struct push_batch b = { .target = "", .body = "x", .body_len = 1 };
    struct push_answer answer = { 0 };
    sonde_buf_init(&answer.body, 1000);
    void *curl = push_http_open();
    assert_non_null(curl);
    assert_int_equal(push_http_post(curl, &d, &b, PATIENCE_S, once_asked, NULL, &answer),
                     SONDE_EIO);
    push_http_close(curl);
    sonde_buf_release(&answer.body);
    expect_unanswered();
}

static void a_scrape(void **state)
{
    (void)state;
    const struct sonde_scrape_options o = { .interval_s = 0.1, .timeout_s = PATIENCE_S,
                                            .series_max = 100, .body_max = 1000 };
    struct sonde_scrape_targets targets = { 0 };
    struct sonde_model *model;
    struct sonde_scrape *s;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_model_create(NULL, &model), 0);
    assert_int_equal(sonde_scrape_targets_add(&targets, "http://exporter.example:9100/metrics", &o,
                                              &err), 0);
    assert_int_equal(sonde_scrape_start(model, &targets, &o, &s, &err), 0);
    pthread_mutex_lock(&names.lock);
    while (!names.asked) pthread_cond_wait(&names.changed, &names.lock);
    pthread_mutex_unlock(&names.lock);
    sonde_scrape_stop(s);
    expect_unanswered();
    sonde_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_push), cmocka_unit_test(a_scrape) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
