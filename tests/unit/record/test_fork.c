/* fork, raw clone, vfork and exec: parent and child are counted apart, exactly. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "unit/record/readback.h"

static struct sonde_counter counter;
static struct sonde_family family;
static struct sonde_hist hist;
static struct sonde_gauge gauge;
static struct readback_hist seen;

static const char *const get_ok[] = { "GET", "200" };

static void define(void)
{
    const struct sonde_metric m = { .size = sizeof(m),
                                    .name = "fork_requests_total",
                                    .labels = (const char *const[]){ "m", "c", NULL } };
    counter = sonde_counter("fork_total", "x");
    gauge = sonde_gauge("fork_gauge", "x");
    hist = sonde_hist("fork_seconds", "x", 1e-9);
    assert_int_equal(sonde_define(SONDE_COUNTER, &m, &family), 0);
}

/* In the child: everything starts at zero, all handles work, new ones can be made. The exit code
 * says which line failed, since cmocka cannot. */
#define NEED(x)                                                                                \
    do {                                                                                       \
        if (!(x)) {                                                                            \
            fprintf(stderr, "child: line %d: %s\n", __LINE__, #x);                             \
            _exit(1);                                                                          \
        }                                                                                      \
    } while (0)

static void child_work(uint32_t parent)
{
    const struct sonde_counter bound = sonde_counter_bind(family, get_ok);
    sonde_counter_add(counter, 5);
    sonde_counter_add(bound, 2);
    sonde_gauge_set(gauge, 3);
    sonde_hist_record(hist, 1000);
    {
        SONDE_SCOPE("child");
    }
    NEED(sonde__g.pid == (uint32_t)getpid());
    NEED(sonde__g.h->parent_pid == parent);
    NEED(readback_counter(counter) == 5);
    NEED(readback_counter(bound) == 2);
    NEED(readback_gauge(gauge) == 3);
    readback_hist(hist, &seen);
    NEED(seen.count == 1);
    NEED(readback_span(0)->name_tid >> 32 == (uint32_t)getpid());
    NEED(sonde_counter("child_only_total", "x").off != 0);
    NEED(sonde_counter("fork_total", "x").off == counter.off);
    NEED(sonde__g.h->check == sonde__header_check(sonde__g.h));
    for (uint32_t i = 1; i < sonde__g.h->family_count; i++) {
        const struct sonde__family *f = sonde__family_at(i);
        NEED(f->check == sonde__family_check(f, sonde__at(sonde__g.h->string_off)));
    }
}

static void expect_child_ok(pid_t pid)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void forked_child_is_apart(void **state)
{
    (void)state;
    const uint32_t me = (uint32_t)getpid();
    sonde_counter_add(counter, 7);
    sonde_counter_add(sonde_counter_bind(family, get_ok), 1);
    const pid_t pid = fork();
    if (pid == 0) {
        child_work(me);
        const uint32_t child = (uint32_t)getpid();
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            child_work(child);
            _exit(0);
        }
        int status;
        NEED(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        NEED(readback_counter(counter) == 5);
        _exit(0);
    }
    expect_child_ok(pid);
    assert_int_equal(readback_counter(counter), 7);
    assert_int_equal(readback_counter(sonde_counter_bind(family, get_ok)), 1);
}

/* A clone that no atfork handler sees: the wiped gate alone has to do. */
static void raw_clone_is_apart(void **state)
{
    (void)state;
    const uint32_t me = (uint32_t)getpid();
    const uint64_t before = readback_counter(counter);
    const pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        child_work(me);
        _exit(0);
    }
    expect_child_ok(pid);
    assert_int_equal(readback_counter(counter), before);
}

static void *count_one(void *arg)
{
    (void)arg;
    sonde_counter_add(counter, 1);
    return NULL;
}

/* The same, and the child's first record is another thread's: the one it began with still has what
 * it knew in the parent. */
static void raw_clone_with_threads(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* it does not see such a child */
#endif
    const uint64_t before = readback_counter(counter);
    const uint32_t name = sonde_name("raw");
    struct sonde_span s;
    sonde_counter_add(counter, 0);
    sonde_span_begin(&s, name);
    sonde_span_end(&s, SONDE_OK);
    const pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        pthread_t t;
        NEED(!pthread_create(&t, NULL, count_one, NULL) && !pthread_join(t, NULL));
        for (int i = 0; i < 10; i++) {
            sonde_counter_add(counter, 1);
            sonde_hist_record(hist, 1000);
            sonde_span_begin(&s, name);
            sonde_span_end(&s, SONDE_OK);
        }
        NEED(sonde__g.pid == (uint32_t)getpid());
        NEED(readback_counter(counter) >= 1);
        readback_hist(hist, &seen);
        NEED(seen.count == 10);
        _exit(0);
    }
    expect_child_ok(pid);
    assert_int_equal(readback_counter(counter), before);
}

/* By the time a child makes its segment, the parent's has grown. */
static void parent_defines_more(void **state)
{
    (void)state;
    int go[2];
    char name[32];
    assert_int_equal(pipe(go), 0);
    const uint32_t me = (uint32_t)getpid();
    const pid_t pid = fork();
    if (pid == 0) {
        close(go[1]);
        NEED(read(go[0], name, 1) == 0);
        child_work(me);
        _exit(0);
    }
    for (int i = 0; i < 4000; i++) {
        snprintf(name, sizeof(name), "more_%d", i);
        assert_int_not_equal(sonde_name(name), 0);
        assert_int_not_equal(sonde_counter_bind(family, (const char *const[]){ name, "" }).off, 0);
    }
    close(go[0]);
    close(go[1]);
    expect_child_ok(pid);
}

static int stop;

static void *restless(void *arg)
{
    char name[32];
    for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
        sonde_counter_add(*(struct sonde_counter *)arg, 1);
        snprintf(name, sizeof(name), "v%u", i % 500);
        sonde_counter_bind(family, (const char *const[]){ name, "x" });
        sonde_name(name);
    }
    return NULL;
}

static void fork_while_others_define(void **state)
{
    (void)state;
    pthread_t t[3];
    struct sonde_counter busy = sonde_counter("fork_busy_total", "x");
    const uint32_t me = (uint32_t)getpid();
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, restless, &busy), 0);
    for (int i = 0; i < 100; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            child_work(me);
            _exit(0);
        }
        expect_child_ok(pid);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
}

static unsigned segments_of(pid_t pid)
{
    char pattern[256];
    snprintf(pattern, sizeof(pattern), "ls %s | grep -c '^%d[.]'", getenv("SONDE_DIR"), (int)pid);
    FILE *p = popen(pattern, "r");
    unsigned n = 99;
    if (!p || fscanf(p, "%u", &n) != 1) n = 99;
    pclose(p);
    return n;
}

static void fork_and_exec_leaves_nothing(void **state)
{
    (void)state;
    const pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    expect_child_ok(pid);
    assert_int_equal(segments_of(pid), 0);
    assert_int_equal(segments_of(getpid()), 1);

    const pid_t v = vfork();
    if (v == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    expect_child_ok(v);
    assert_int_equal(segments_of(v), 0);
    sonde_counter_add(counter, 1);
    assert_int_equal(sonde__g.pid, (uint32_t)getpid());
}

/* Off stays off in the child. */
static void off_is_inherited(void **state)
{
    (void)state;
    sonde_enable(0);
    const pid_t pid = fork();
    if (pid == 0) {
        sonde_counter_add(counter, 1);
        {
            SONDE_SCOPE("off");
        }
        NEED(!sonde_is_enabled());
        sonde_enable(1);
        sonde_counter_add(counter, 9);
        NEED(readback_counter(counter) == 9);
        _exit(0);
    }
    expect_child_ok(pid);
    sonde_enable(1);
    assert_true(sonde_is_enabled());
}

/* A span that is open across a fork is ended in both, each under its own thread id. */
static void span_across_fork(void **state)
{
    (void)state;
    struct sonde_span s;
    sonde_span_begin(&s, sonde_name("across"));
    const pid_t pid = fork();
    if (pid == 0) {
        sonde_span_end(&s, SONDE_OK);
        {
            SONDE_SCOPE("own"); /* gets this thread its ring, to look at */
        }
        NEED(readback_span(1)->name_tid >> 32 == (uint32_t)getpid());
        NEED(readback_span(0)->id != readback_span(1)->id);
        _exit(0);
    }
    sonde_span_end(&s, SONDE_OK);
    expect_child_ok(pid);
    assert_int_equal(readback_span(0)->name_tid >> 32, (uint32_t)getpid());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forked_child_is_apart),
        cmocka_unit_test(raw_clone_is_apart),
        cmocka_unit_test(raw_clone_with_threads),
        cmocka_unit_test(parent_defines_more),
        cmocka_unit_test(fork_while_others_define),
        cmocka_unit_test(fork_and_exec_leaves_nothing),
        cmocka_unit_test(off_is_inherited),
        cmocka_unit_test(span_across_fork),
    };
    readback_private_dir();
    define();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
