#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/thread.h"
#include "sonde/sonde.h"

struct seen {
    int go[2]; /* a byte comes when it may look at its name */
    char name[32];
    sigset_t blocked;
};

static void *look(void *arg)
{
    struct seen *s = arg;
    char c;
    if (read(s->go[0], &c, 1) != 1) return NULL;
    pthread_getname_np(pthread_self(), s->name, sizeof(s->name));
    pthread_sigmask(SIG_BLOCK, NULL, &s->blocked);
    return NULL;
}

static void named_and_without_signals(void **state)
{
    (void)state;
    static const struct { int number, blocked; } cases[] = {
        { SIGINT, 1 },  { SIGTERM, 1 }, { SIGHUP, 1 },  { SIGCHLD, 1 }, { SIGPIPE, 1 },
        { SIGUSR1, 1 }, { SIGALRM, 1 }, { SIGWINCH, 1 }, { SIGSEGV, 0 }, { SIGBUS, 0 },
        { SIGFPE, 0 },  { SIGILL, 0 },
    };
    struct seen s = { .name = "" };
    struct sonde_thread t = { 0 };
    struct sonde_err err = { "" };
    sigset_t before, after;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(pipe(s.go), 0);
    assert_int_equal(sonde_thread_start(&t, "sonde-test-name", look, &s, &err), 0);
    assert_int_equal(write(s.go[1], "x", 1), 1);
    sonde_thread_join(&t);
    assert_int_equal(t.started, 0);
    sonde_thread_join(&t); /* nothing is left to do */
    assert_string_equal(s.name, "sonde-test-name");
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        if (sigismember(&s.blocked, cases[i].number) != cases[i].blocked) {
            fail_msg("signal %d", cases[i].number);
        }
    }
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (int i = 1; i < NSIG; i++) {
        assert_int_equal(sigismember(&before, i), sigismember(&after, i));
    }
    close(s.go[0]);
    close(s.go[1]);
}

static void never_started(void **state)
{
    (void)state;
    struct sonde_thread t = { 0 };
    sonde_thread_join(&t);
    assert_int_equal(t.started, 0);
}

/* ---- What the thread itself does wrong ------------------------------------------------------ */

static volatile char *page;

static void on_bus(int number)
{
    (void)number;
    mmap((void *)page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void *read_page(void *arg)
{
    *(int *)arg = page[0];
    return NULL;
}

/* The handler of a guard runs in such a thread too. */
static void bus_error_is_handled(void **state)
{
    (void)state;
    const int fd = memfd_create("cut", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(page != MAP_FAILED);
    assert_int_equal(ftruncate(fd, 0), 0);
    struct sigaction old, action = { .sa_handler = on_bus };
    assert_int_equal(sigaction(SIGBUS, &action, &old), 0);
    struct sonde_thread t = { 0 };
    int value = -1;
    assert_int_equal(sonde_thread_start(&t, "sonde-bus", read_page, &value, NULL), 0);
    sonde_thread_join(&t);
    assert_int_equal(value, 0);
    sigaction(SIGBUS, &old, NULL);
    munmap((void *)page, 4096);
    close(fd);
}

/* ---- Failing --------------------------------------------------------------------------------- */

static void *nothing(void *arg) { return arg; }

/* A stack that does not fit into the address space is as good as no memory. */
static void no_thread_to_be_had(void **state)
{
    (void)state;
    pthread_attr_t usual, huge;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&huge), 0);
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 50), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    struct sonde_thread t = { 0 };
    struct sonde_err err = { "" };
    sigset_t now;
    assert_int_equal(sonde_thread_start(&t, "sonde-none", nothing, NULL, &err), SONDE_ENOMEM);
    assert_int_equal(t.started, 0);
    assert_non_null(strstr(err.text, "sonde-none"));
    assert_non_null(strstr(err.text, strerror(EAGAIN)));
    assert_int_equal(sonde_thread_start_detached("sonde-none", nothing, NULL, NULL), SONDE_ENOMEM);
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    assert_int_equal(sigismember(&now, SIGTERM), 0);
    pthread_setattr_default_np(&usual);
    pthread_attr_destroy(&huge);
    pthread_attr_destroy(&usual);
}

/* ---- Detached and workers -------------------------------------------------------------------- */

static void *write_byte(void *arg)
{
    return write(*(int *)arg, "y", 1) == 1 ? NULL : arg;
}

static void detached(void **state)
{
    (void)state;
    int ends[2];
    char c = 0;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(sonde_thread_start_detached("sonde-detached", write_byte, &ends[1], NULL), 0);
    assert_int_equal(read(ends[0], &c, 1), 1);
    assert_int_equal(c, 'y');
    close(ends[0]);
    close(ends[1]);
}

struct owner {
    struct sonde_lock lock;
    struct sonde_cond wake;
    struct sonde_worker worker;
    int runs;
};

static void *work(void *arg)
{
    struct owner *o = arg;
    sonde_lock(&o->lock);
    o->runs++;
    while (!o->worker.stopping) sonde_cond_wait(&o->wake, &o->lock);
    sonde_unlock(&o->lock);
    return NULL;
}

static void worker_starts_and_stops_once(void **state)
{
    (void)state;
    struct owner o = { .lock = SONDE_LOCK_INITIALIZER(SONDE_RANK_SESSIONS) };
    sonde_cond_init(&o.wake);
    sonde_worker_stop(&o.worker, &o.lock, &o.wake); /* never started */
    o.worker.stopping = 0;
    for (int i = 0; i < 3; i++) {
        sonde_lock(&o.lock);
        assert_int_equal(sonde_worker_start(&o.worker, "sonde-worker", work, &o), 0);
        sonde_unlock(&o.lock);
    }
    sonde_worker_stop(&o.worker, &o.lock, &o.wake);
    sonde_worker_stop(&o.worker, &o.lock, &o.wake);
    assert_int_equal(o.runs, 1);
    assert_int_equal(o.worker.stopping, 1);
    assert_int_equal(o.worker.thread.started, 0);
    sonde_cond_destroy(&o.wake);
    sonde_lock_destroy(&o.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_and_without_signals), cmocka_unit_test(never_started),
        cmocka_unit_test(bus_error_is_handled),      cmocka_unit_test(no_thread_to_be_had),
        cmocka_unit_test(detached),                  cmocka_unit_test(worker_starts_and_stops_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
