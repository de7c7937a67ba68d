/* pthread_cancel of threads that define and record: sonde's calls are no cancellation points, and
 * a thread that is torn out of one leaves no lock, no half entry and no wrong count behind. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/record/child.h"
#include "unit/record/readback.h"

static struct sonde_counter counter;
static struct sonde_hist hist;
static struct sonde_family family;

static void define_all(void)
{
    const struct sonde_metric m = { .size = sizeof(m),
                                    .name = "cancel_labelled_total",
                                    .labels = (const char *const[]){ "k", NULL },
                                    .series_max = 100000 };
    counter = sonde_counter("cancel_total", "x");
    hist = sonde_hist("cancel_seconds", "x", 1e-9);
    NEED(!sonde_define(SONDE_COUNTER, &m, &family));
}

/* ---- Deferred: a cancellation is pending all the while --------------------------------------- */

static int reached;

static void *pending(void *arg)
{
    (void)arg;
    pthread_cancel(pthread_self());
    (void)sonde_ticks();
    sonde_counter_add((struct sonde_counter){ 0 }, 1); /* opens */
    define_all();
    sonde_counter_add(sonde_counter_bind(family, (const char *const[]){ "new" }), 1);
    sonde_hist_record(hist, 1);
    {
        SONDE_SCOPE("cancelled");
        SONDE_RESOURCE_SCOPE("cancelled");
        uint64_t items = 1;
        SONDE_THROUGHPUT_SCOPE("cancelled", items);
        struct sonde_op op;
        sonde_op_begin(&op, "cancelled");
        sonde_op_end(&op, SONDE_ERROR, NULL);
    }
    sonde_enable(0);
    sonde_enable(1);
    (void)sonde_trace_current();
    (void)sonde_open(NULL);
    reached = 1;
#ifndef __SANITIZE_ADDRESS__ /* it takes a cancelled thread's stack for one in use */
    pthread_testcancel();
    reached = 2;
#endif
    return NULL;
}

CHILD_TEST(no_call_is_a_cancellation_point)
{
    pthread_t t;
    NEED(!pthread_create(&t, NULL, pending, NULL));
    NEED(!pthread_join(t, NULL));
    NEED_EQ(reached, 1);
    NEED(sonde_is_enabled());
    NEED_EQ(readback_counter(sonde_counter_bind(family, (const char *const[]){ "new" })), 1);
}

/* ---- Asynchronous: at any instruction -------------------------------------------------------- */

/* The sanitizers' own code is not safe to be torn out of. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ASYNCHRONOUS 1

static struct readback_hist seen;

/* What the victim says it has done; counted after the record. */
static struct progress { uint64_t counted, recorded, begun; } progress;

static void *victim(void *arg)
{
    char value[32];
    const uint64_t round = *(const uint64_t *)arg;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (uint64_t i = 0;; i++) {
        snprintf(value, sizeof(value), "%llu-%llu", (unsigned long long)round,
                 (unsigned long long)i % 300);
        const struct sonde_counter c = sonde_counter_bind(family, (const char *const[]){ value });
        __atomic_store_n(&progress.begun, 1, __ATOMIC_RELAXED);
        sonde_counter_add(counter, 1);
        __atomic_store_n(&progress.counted, progress.counted + 1, __ATOMIC_RELAXED);
        sonde_hist_record(hist, i << (i % 30));
        __atomic_store_n(&progress.recorded, progress.recorded + 1, __ATOMIC_RELAXED);
        sonde_counter_add(c, 1);
        SONDE_SCOPE("victim");
    }
    return NULL;
}

static void tables_are_sound(void)
{
    const struct sonde__header *h = sonde__g.h;
    for (uint32_t i = 1; i < h->series_count; i++) {
        const struct sonde__series *s = sonde__series_at(i);
        NEED_EQ(s->check, sonde__series_check(s, sonde__at(h->string_off)));
    }
}

CHILD_TEST(torn_out_at_any_instruction)
{
    uint64_t counted = 0, recorded = 0;
    define_all();
    for (uint64_t round = 0; round < 300; round++) {
        pthread_t t;
        progress = (struct progress){ 0, 0, 0 };
        NEED(!pthread_create(&t, NULL, victim, &round));
        while (!__atomic_load_n(&progress.begun, __ATOMIC_RELAXED)) sched_yield();
        for (uint64_t spin = 0; spin < round * 37; spin++) __asm__ volatile("" ::: "memory");
        pthread_cancel(t);
        pthread_join(t, NULL);
        NEED(sonde__g.h->define_lock == 0 && sonde__gate.open_lock == 0);

        /* Nobody else is writing: what is new is what the victim did, or one more. */
        const uint64_t total = readback_counter(counter);
        NEED(total - counted - progress.counted <= 1);
        counted = total;
        readback_hist(hist, &seen);
        NEED(seen.count - recorded - progress.recorded <= 1);
        recorded = seen.count;
        char name[40];
        snprintf(name, sizeof(name), "round_%llu_total", (unsigned long long)round);
        NEED(sonde_counter(name, "x").off);
    }
    tables_are_sound();
    NEED_EQ(sonde__g.h->drops[SONDE__DROP_reentrant], 0);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_call_is_a_cancellation_point),
#ifdef ASYNCHRONOUS
        cmocka_unit_test(torn_out_at_any_instruction),
#endif
    };
    readback_private_dir();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
