/* What was worked out a moment ago: made once, given to all, let go. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/recent.h"
#include "sonde/sonde.h"

enum { WAIT_ROUNDS = 6000, THREADS = 8 };

static struct sonde_recent *recent;
static int made, destroyed; /* atomic */

struct number {
    int value;
    struct sonde_recent_thing *of; /* that it was made of */
};

struct wish {
    int value;
    size_t bytes;
    int fails;
    const char *of;     /* name of what it is made of */
    int slow;
};

static void destroy_number(void *thing)
{
    struct number *n = thing;
    sonde_recent_give(n->of);
    sonde__free(n);
    __atomic_fetch_add(&destroyed, 1, __ATOMIC_SEQ_CST);
}

static int make_number(void *arg, void **thing, size_t *bytes, struct sonde_err *err);

static int take(const char *name, double fresh_s, struct wish *w, struct sonde_recent_thing **out)
{
    struct sonde_err err = { "" };
    return sonde_recent_take(recent, name, fresh_s,
                             &(struct sonde_recent_maker){ make_number, w, destroy_number }, out,
                             &err);
}

static int make_number(void *arg, void **thing, size_t *bytes, struct sonde_err *err)
{
    struct wish *w = arg;
    if (w->fails) return sonde_err_set(err, SONDE_ENOENT, "there is none");
    struct number *n = sonde__calloc(1, sizeof(*n));
    assert_non_null(n);
    n->value = w->value;
    if (w->of) {
        assert_int_equal(take(w->of, 60, &(struct wish){ .value = 1, .bytes = 1 }, &n->of), 0);
    }
    if (w->slow) nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    __atomic_fetch_add(&made, 1, __ATOMIC_SEQ_CST);
    *bytes = w->bytes;
    *thing = n;
    return 0;
}

static int value_of(const struct sonde_recent_thing *t)
{
    return ((const struct number *)sonde_recent_get(t))->value;
}

static void begin(size_t bytes_max, double keep_s)
{
    made = destroyed = 0;
    assert_int_equal(sonde_recent_create(bytes_max, keep_s, &recent), 0);
}

static void end(void)
{
    sonde_recent_destroy(recent);
    assert_int_equal(made, destroyed);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void is_made_once(void **state)
{
    (void)state;
    struct sonde_recent_thing *a, *b, *c;
    begin(1000, 60);
    assert_int_equal(take("x", 60, &(struct wish){ .value = 1 }, &a), 0);
    assert_int_equal(take("x", 60, &(struct wish){ .value = 2 }, &b), 0);
    assert_int_equal(take("y", 60, &(struct wish){ .value = 3 }, &c), 0);
    assert_ptr_equal(a, b);
    assert_int_equal(value_of(b), 1);
    assert_int_equal(value_of(c), 3);
    sonde_recent_give(a);
    sonde_recent_give(b);
    sonde_recent_give(c);
    sonde_recent_give(NULL);
    end();
}

static void is_made_anew_when_old(void **state)
{
    (void)state;
    struct sonde_recent_thing *a, *b;
    begin(1000, 60);
    assert_int_equal(take("x", 60, &(struct wish){ .value = 1 }, &a), 0);
    assert_int_equal(take("x", -1, &(struct wish){ .value = 2 }, &b), 0);
    assert_int_equal(value_of(a), 1); /* whoever has the old one still has it */
    assert_int_equal(value_of(b), 2);
    sonde_recent_give(a);
    assert_int_equal(destroyed, 1);
    sonde_recent_give(b);
    assert_int_equal(destroyed, 1);
    end();
}

static void failures_are_not_kept(void **state)
{
    (void)state;
    struct sonde_recent_thing *a = NULL;
    size_t bytes;
    begin(1000, 60);
    assert_int_equal(take("x", 60, &(struct wish){ .fails = 1 }, &a), SONDE_ENOENT);
    assert_null(a);
    assert_int_equal(sonde_recent_count(recent, &bytes), 0);
    assert_int_equal(take("x", 60, &(struct wish){ .value = 2 }, &a), 0);
    sonde_recent_give(a);
    end();
}

/* The least recently used go when it is too much; never what somebody has, nor the last. */
static void memory_is_bounded(void **state)
{
    (void)state;
    struct sonde_recent_thing *a, *b;
    size_t bytes;
    begin(1000, 60);
    for (int i = 0; i < 10; i++) {
        char name[8];
        snprintf(name, sizeof(name), "%d", i);
        assert_int_equal(take(name, 60, &(struct wish){ .value = i, .bytes = 300 }, &a), 0);
        sonde_recent_give(a);
    }
    assert_int_equal(sonde_recent_count(recent, &bytes), 3);
    assert_int_equal(bytes, 903); /* with their names */
    assert_int_equal(take("7", 60, &(struct wish){ .value = -1 }, &a), 0);
    assert_int_equal(value_of(a), 7);
    assert_int_equal(take("large", 60, &(struct wish){ .value = 5, .bytes = 5000 }, &b), 0);
    assert_int_equal(sonde_recent_count(recent, &bytes), 3); /* two are in use, one was used last */
    sonde_recent_give(a);
    assert_int_equal(sonde_recent_count(recent, &bytes), 2);
    sonde_recent_give(b);
    assert_int_equal(sonde_recent_count(recent, &bytes), 1);
    assert_int_equal(bytes, 5005);
    end();
}

/* What things are called is a client's text, and may be larger than they are. */
static void names_count(void **state)
{
    (void)state;
    static char name[600];
    struct sonde_recent_thing *a;
    size_t bytes;
    begin(1000, 60);
    for (int i = 0; i < 10; i++) {
        memset(name, 'a' + i, sizeof(name) - 1);
        assert_int_equal(take(name, 60, &(struct wish){ .value = i, .bytes = 1 }, &a), 0);
        sonde_recent_give(a);
    }
    assert_int_equal(sonde_recent_count(recent, &bytes), 1);
    assert_int_equal(bytes, sizeof(name));
    end();
}

/* What something was made of lives as long as that. */
static void parts_live_as_long_as_the_whole(void **state)
{
    (void)state;
    struct sonde_recent_thing *a, *b;
    size_t bytes;
    begin(10, 60);
    assert_int_equal(take("whole", 60, &(struct wish){ .value = 2, .bytes = 8, .of = "part" }, &a),
                     0);
    sonde_recent_give(a);
    assert_int_equal(take("other", 60, &(struct wish){ .value = 3, .bytes = 1 }, &b), 0);
    assert_int_equal(sonde_recent_count(recent, &bytes), 3);
    sonde_recent_give(b);
    assert_int_equal(take("large", 60, &(struct wish){ .value = 4, .bytes = 100 }, &b), 0);
    sonde_recent_give(b);
    assert_int_equal(sonde_recent_count(recent, &bytes), 1);
    end();
}

static void what_is_not_used_goes_by_itself(void **state)
{
    (void)state;
    struct sonde_recent_thing *a, *b;
    size_t bytes;
    begin(1000, 0.01);
    assert_int_equal(take("x", 60, &(struct wish){ .value = 1, .of = "part" }, &a), 0);
    assert_int_equal(take("y", 60, &(struct wish){ .value = 1 }, &b), 0);
    sonde_recent_give(a);
    for (int i = 0; i < WAIT_ROUNDS && sonde_recent_count(recent, &bytes) > 1; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    assert_int_equal(sonde_recent_count(recent, &bytes), 1);
    assert_int_equal(value_of(b), 1);
    sonde_recent_give(b);
    end();
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

enum { BLOCKS = 1000, BLOCK_BYTES = 16 << 10, LARGE = 4 };

/* Many blocks, and behind them one that stays: the allocator keeps what is free before it. */
struct blocks { char *block[BLOCKS]; };

static char *stays[LARGE];

static void blocks_destroy(void *thing)
{
    struct blocks *b = thing;
    for (int i = 0; i < BLOCKS; i++) sonde__free(b->block[i]);
    sonde__free(b);
}

static int blocks_make(void *arg, void **thing, size_t *bytes, struct sonde_err *err)
{
    (void)err;
    struct blocks *b = sonde__calloc(1, sizeof(*b));
    assert_non_null(b);
    for (int i = 0; i < BLOCKS; i++) {
        b->block[i] = sonde__alloc(BLOCK_BYTES);
        assert_non_null(b->block[i]);
        memset(b->block[i], 1, BLOCK_BYTES);
    }
    *(char **)arg = sonde__calloc(1, BLOCK_BYTES);
    *bytes = (size_t)BLOCKS * BLOCK_BYTES;
    *thing = b;
    return 0;
}

static long resident_kb(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* What is let go is the system's again, also what made room for others. */
static void memory_is_given_back(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    const long each_kb = (long)BLOCKS * BLOCK_BYTES / 1024, before_kb = resident_kb();
    begin((size_t)BLOCKS * BLOCK_BYTES, 0.2);
    for (int i = 0; i < LARGE; i++) {
        char name[8];
        struct sonde_recent_thing *t;
        snprintf(name, sizeof(name), "%d", i);
        assert_int_equal(sonde_recent_take(recent, name, 60, &(struct sonde_recent_maker){
            blocks_make, &stays[i], blocks_destroy }, &t, &err), 0);
        assert_true(resident_kb() > before_kb + each_kb / 2);
        sonde_recent_give(t);
    }
    for (int i = 0; i < WAIT_ROUNDS && resident_kb() > before_kb + each_kb / 2; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    assert_in_range(resident_kb(), 0, before_kb + each_kb / 2);
    for (int i = 0; i < LARGE; i++) sonde__free(stays[i]);
    end();
}

#else
static void memory_is_given_back(void **state)
{
    (void)state;
    skip(); /* another allocator */
}
#endif

static void *ask(void *arg)
{
    struct sonde_recent_thing *t;
    (void)arg;
    for (int i = 0; i < 50; i++) {
        char name[8];
        snprintf(name, sizeof(name), "%d", i % 5);
        if (take(name, 60, &(struct wish){ .value = i % 5, .bytes = 400, .slow = i == 0 },
                 &t) != 0) {
            return (void *)1;
        }
        if (value_of(t) != i % 5) return (void *)1;
        sonde_recent_give(t);
    }
    return NULL;
}

static void several_at_a_time(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    begin(1000, 60);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_made_once),
        cmocka_unit_test(is_made_anew_when_old),
        cmocka_unit_test(failures_are_not_kept),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(names_count),
        cmocka_unit_test(parts_live_as_long_as_the_whole),
        cmocka_unit_test(what_is_not_used_goes_by_itself),
        cmocka_unit_test(memory_is_given_back),
        cmocka_unit_test(several_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
