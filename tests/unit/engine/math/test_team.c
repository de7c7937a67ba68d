/* Every piece of every run is done once, by one of the team, whoever sleeps at the time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "math/team.h"

enum { PIECES_MAX = 40 };

struct job {
    uint32_t threads;
    uint32_t done[PIECES_MAX];   /* plain memory: the team orders it */
    const uint32_t *input;
    uint64_t out[PIECES_MAX];
    int wrong;
};

static void piece_do(void *arg, uint32_t piece, uint32_t thread)
{
    struct job *j = arg;
    if (thread >= j->threads || piece >= PIECES_MAX) {
        __atomic_store_n(&j->wrong, 1, __ATOMIC_RELAXED);
        return;
    }
    j->done[piece]++;
    j->out[piece] = (uint64_t)*j->input + piece;
}

static void run_many(uint32_t threads, int runs, int pause)
{
    struct team *t = NULL;
    struct fail why;
    assert_int_equal(team_create(threads, &t, &why), 0);
    assert_int_equal(team_threads(t), threads);
    struct job *j = calloc(1, sizeof(*j));
    assert_non_null(j);
    uint32_t input = 0;
    for (int i = 0; i < runs; i++) {
        const uint32_t pieces = (uint32_t)(i * 7 % (PIECES_MAX + 1));
        memset(j, 0, sizeof(*j)); /* who still works on the run before is seen here, by TSan too */
        j->threads = threads;
        j->input = &input;
        input = (uint32_t)i;
        team_run(t, pieces, piece_do, j);
        for (uint32_t p = 0; p < PIECES_MAX; p++) {
            assert_int_equal(j->done[p], p < pieces);
            if (p < pieces) assert_int_equal(j->out[p], (uint64_t)i + p);
        }
        assert_false(j->wrong);
        if (pause && i % 16 == 0) usleep(50); /* long enough that all sleep */
    }
    free(j);
    team_destroy(t);
}

static void test_runs(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 8; threads++) run_many(threads, 3000, 0);
}

static void test_sleepers(void **state)
{
    (void)state;
    for (uint32_t threads = 2; threads <= 8; threads += 3) run_many(threads, 600, 1);
}

static void test_create_destroy(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        struct team *t = NULL;
        assert_int_equal(team_create(1 + i % 8, &t, NULL), 0);
        team_destroy(t);
    }
    team_destroy(NULL);
}

static void test_bad(void **state)
{
    (void)state;
    struct team *t = NULL;
    struct fail why;
    assert_int_equal(team_create(0, &t, &why), -1);
    assert_int_equal(team_create(257, &t, &why), -1);
    assert_non_null(strstr(why.text, "257 threads"));
    assert_null(t);
}

struct look { int named, blocked; uint32_t others; };

static void thread_look(void *arg, uint32_t piece, uint32_t thread)
{
    (void)piece;
    struct look *l = arg;
    if (thread == 0) { /* the caller waits for one of the others, so that one is looked at */
        while (!__atomic_load_n(&l->others, __ATOMIC_ACQUIRE)) usleep(100);
        return;
    }
    char name[16];
    sigset_t set;
    if (!__atomic_load_n(&l->others, __ATOMIC_ACQUIRE)) {
        l->named = !pthread_getname_np(pthread_self(), name, sizeof(name)) &&
                   !strcmp(name, "engine-0");
        l->blocked = !pthread_sigmask(SIG_SETMASK, NULL, &set) && sigismember(&set, SIGTERM) == 1 &&
                     sigismember(&set, SIGINT) == 1;
        __atomic_store_n(&l->others, 1, __ATOMIC_RELEASE);
    }
}

static void test_threads(void **state)
{
    (void)state;
    struct team *t = NULL;
    struct look l = { 0 };
    assert_int_equal(team_create(2, &t, NULL), 0);
    team_run(t, 2, thread_look, &l);
    team_destroy(t);
    assert_true(l.others);
    assert_true(l.named);
    assert_true(l.blocked);
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    assert_false(sigismember(&set, SIGTERM)); /* the caller's are as they were */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),           cmocka_unit_test(test_sleepers),
        cmocka_unit_test(test_create_destroy), cmocka_unit_test(test_bad),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
