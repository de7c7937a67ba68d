/* Opening, switching off and on, what the environment says: each case in a fresh process. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "unit/record/child.h"
#include "unit/record/readback.h"

static unsigned files_in(const char *dir)
{
    char command[256];
    unsigned n = 999;
    snprintf(command, sizeof(command), "ls -A %s | wc -l", dir);
    FILE *p = popen(command, "r");
    if (!p || fscanf(p, "%u", &n) != 1) n = 999;
    if (p) pclose(p);
    return n;
}

/* A directory of the case's own below SONDE_DIR, as SONDE_DIR. */
static const char *own_dir(void)
{
    static char dir[128];
    snprintf(dir, sizeof(dir), "%s/own-XXXXXX", getenv("SONDE_DIR"));
    NEED(mkdtemp(dir) && !setenv("SONDE_DIR", dir, 1));
    return dir;
}

/* ---- Off and on ------------------------------------------------------------------------------ */

static void use_everything(void)
{
    const struct sonde_metric m = { .size = sizeof(m),
                                    .name = "all_labelled_total",
                                    .labels = (const char *const[]){ "k", NULL } };
    struct sonde_family f;
    SONDE_SCOPE("all");
    SONDE_RESOURCE_SCOPE("all");
    sonde_counter_add(sonde_counter("all_total", "x"), 1);
    sonde_gauge_set(sonde_gauge("all_gauge", "x"), 1);
    sonde_gauge_add(sonde_gauge("all_gauge", "x"), 1);
    sonde_hist_record_traced(sonde_hist("all_seconds", "x", 1e-9), 1000);
    sonde_define(SONDE_COUNTER, &m, &f);
    sonde_counter_add(sonde_counter_bind(f, (const char *const[]){ "v" }), 1);
    struct sonde_op op;
    sonde_op_begin(&op, "op");
    sonde_op_end(&op, SONDE_ERROR, "type");
    sonde_bandwidth_in("net", 1);
    sonde_cache_access(NULL, 0);
    sonde_pool_add(sonde_pool("all"), 1);
}

CHILD_TEST(environment_starts_it_off)
{
    const char *dir = own_dir();
    setenv("SONDE_ENABLED", "0", 1);
    NEED(!sonde_is_enabled());
    NEED(sonde_open(NULL) == SONDE_EOFF);
    use_everything();
    NEED_EQ(files_in(dir), 0);
    const uint64_t t = sonde_ticks();
    NEED(t && sonde_ticks_ns(sonde_ticks() - t + 1000000) > 0);

    /* "Starts it off": the program may switch it on. */
    sonde_enable(1);
    NEED(sonde_is_enabled());
    use_everything();
    NEED_EQ(files_in(dir), 1);
    NEED_EQ(readback_counter(sonde_counter("all_total", "x")), 1);
    sonde_enable(0);
    use_everything();
    NEED_EQ(readback_counter((struct sonde_counter){ 8 }), 1);
}

CHILD_TEST(only_zero_is_off)
{
    static const char *const on[] = { "1", "", "yes", "00", "no" };
    for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
        fflush(NULL);
        const pid_t pid = fork();
        if (pid == 0) {
            setenv("SONDE_ENABLED", on[i], 1);
            NEED(sonde_is_enabled());
            _exit(0);
        }
        int status;
        NEED(waitpid(pid, &status, 0) == pid && status == 0);
    }
}

/* What was asked for before recording was switched on holds once it is. */
CHILD_TEST(configuration_survives_off)
{
    const struct sonde_config c = { .size = sizeof(c), .name = "late", .lanes_max = 3 };
    own_dir();
    sonde_enable(0);
    NEED(sonde_open(&c) == SONDE_EOFF);
    sonde_enable(1);
    NEED(sonde_is_enabled());
    NEED(!strcmp(sonde__g.h->program, "late"));
    NEED_EQ(sonde__g.h->lane_max - sonde__g.h->lanes_shared, 1 + 3);
}

static int stop;
static struct sonde_counter toggled;
static struct sonde_gauge toggled_gauge;
static struct sonde_hist toggled_hist;
static struct sonde_family toggled_family;
static uint64_t attempts;

static void *records(void *arg)
{
    uint64_t n = 0;
    char value[24];
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        SONDE_SCOPE("toggled");
        const uint64_t start = sonde_ticks();
        sonde_counter_add(toggled, 1);
        sonde_gauge_add(toggled_gauge, 1);
        sonde_gauge_set(toggled_gauge, 3);
        sonde_hist_record_traced(toggled_hist, sonde_ticks_ns(sonde_ticks() - start));
        snprintf(value, sizeof(value), "%c%llu", *(const char *)arg,
                 (unsigned long long)n++ % 3000);
        sonde_counter_add(sonde_counter_bind(toggled_family, (const char *const[]){ value }), 1);
        sonde_name(value);
        (void)sonde_open(NULL);
    }
    __atomic_fetch_add(&attempts, n, __ATOMIC_RELAXED);
    return NULL;
}

/* Each series once and whole, whatever was going on while it was made. */
static void tables_are_sound(void)
{
    const struct sonde__header *h = sonde__g.h;
    const char *strings = sonde__at(h->string_off);
    for (uint32_t i = 1; i < h->family_count; i++) {
        const struct sonde__family *f = sonde__family_at(i);
        NEED_EQ(f->check, sonde__family_check(f, strings));
    }
    for (uint32_t i = 1; i < h->series_count; i++) {
        const struct sonde__series *s = sonde__series_at(i);
        NEED_EQ(s->check, sonde__series_check(s, strings));
    }
}

CHILD_TEST(toggling_while_threads_record)
{
    const struct sonde_metric m = { .size = sizeof(m),
                                    .name = "toggled_labelled_total",
                                    .labels = (const char *const[]){ "k", NULL },
                                    .series_max = 20000 };
    pthread_t t[4];
    toggled = sonde_counter("toggled_total", "x");
    toggled_gauge = sonde_gauge("toggled_gauge", "x");
    toggled_hist = sonde_hist("toggled_seconds", "x", 1e-9);
    NEED(!sonde_define(SONDE_COUNTER, &m, &toggled_family));
    for (int i = 0; i < 4; i++) NEED(!pthread_create(&t[i], NULL, records, &"abcd"[i]));
    for (int i = 0; i < 400; i++) {
        sonde_enable(i & 1);
        sched_yield();
    }
    NEED(sonde_is_enabled());
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    tables_are_sound();
    NEED(readback_counter(toggled) <= attempts);
    const uint64_t before = readback_counter(toggled);
    sonde_counter_add(toggled, 5);
    NEED_EQ(readback_counter(toggled), before + 5);
}

/* ---- Configuration --------------------------------------------------------------------------- */

struct newer_config { struct sonde_config known; uint64_t unknown[4]; };

static void expect_open(const void *config, int rc)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        NEED(sonde_open(config) == rc);
        /* A configuration that was refused leaves the defaults. */
        NEED(sonde_is_enabled());
        sonde_counter_add(sonde_counter("opened_total", "x"), 1);
        _exit(0);
    }
    int status;
    NEED(waitpid(pid, &status, 0) == pid);
    NEED_EQ(status, 0);
}

CHILD_TEST(sizes_of_configuration)
{
    static char long_dir[400];
    struct newer_config c;
    memset(long_dir, 'd', sizeof(long_dir) - 1);
    memset(&c, 0, sizeof(c));
    c.known.size = sizeof(c.known);
    expect_open(&c, 0);
    c.known.size = sizeof(c); /* newer, all that is unknown is zero */
    expect_open(&c, 0);
    c.unknown[3] = 1;
    expect_open(&c, SONDE_EINVAL);
    c.known.size = offsetof(struct sonde_config, dir); /* older: what follows is not looked at */
    c.known.dir = (const char *)(uintptr_t)1;
    expect_open(&c, 0);
    c.known.size = sizeof(size_t);
    expect_open(&c, 0);
    c.known.size = 0;
    expect_open(&c, SONDE_EINVAL);
    c.known.size = sizeof(size_t) - 1;
    expect_open(&c, SONDE_EINVAL);
    c.known.size = SIZE_MAX;
    expect_open(&c, SONDE_EINVAL);
    c.known.size = sizeof(c.known);
    c.known.dir = long_dir;
    expect_open(&c, SONDE_EINVAL);
    expect_open(NULL, 0);
}

CHILD_TEST(names_and_limits_are_kept)
{
    char dir[160];
    snprintf(dir, sizeof(dir), "%s/named", getenv("SONDE_DIR"));
    const struct sonde_config c = { .size = sizeof(c),
                                    .name = "b\xff" "d name that is longer than sixty-four bytes, "
                                            "which is all there is room for",
                                    .dir = dir,
                                    .bytes_max = 1u << 20,
                                    .series_max = 100,
                                    .lanes_max = 5 };
    NEED(sonde_open(&c) == 0);
    NEED(sonde_open(&c) == 0);
    NEED_EQ(files_in(dir), 1);
    const struct sonde__header *h = sonde__g.h;
    NEED(!strncmp(h->program, "b\xef\xbf\xbd" "d name", 9));
    NEED(strlen(h->program) < sizeof(h->program));
    NEED_EQ(h->bytes_max, 1u << 20);
    NEED_EQ(h->series_max, 100);
    NEED_EQ(h->lane_max, 1 + h->lanes_shared + 5);
    for (int i = 0; i < 200; i++) {
        char name[24];
        snprintf(name, sizeof(name), "limit_%d_total", i);
        sonde_counter_add(sonde_counter(name, "x"), 1);
    }
    NEED_EQ(h->series_count, 100);
    NEED_EQ(h->drops[SONDE__DROP_series_table], 200 - 99);
}

/* The name this process's segment would have is taken by something that is none: the program
 * must neither wait for it nor fail. */
static void segment_path(char *out, size_t size)
{
    snprintf(out, size, "%s/%d.%llu", getenv("SONDE_DIR"), (int)getpid(),
             (unsigned long long)sonde__start_time((uint32_t)getpid()));
}

CHILD_TEST(name_taken_by_a_directory)
{
    char path[256];
    own_dir();
    segment_path(path, sizeof(path));
    NEED(!mkdir(path, 0700));
    NEED(sonde_open(NULL) == 0);
    sonde_counter_add(sonde_counter("taken_total", "x"), 1);
    NEED_EQ(readback_counter(sonde_counter("taken_total", "x")), 1);
}

CHILD_TEST(name_taken_by_a_link)
{
    char path[256];
    own_dir();
    segment_path(path, sizeof(path));
    NEED(!symlink("/nonexistent/target", path));
    NEED(sonde_open(NULL) == 0);
}

CHILD_TEST(name_taken_by_rubbish)
{
    char path[256];
    own_dir();
    segment_path(path, sizeof(path));
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    NEED(write(fd, path, sizeof(path)) == sizeof(path));
    close(fd);
    NEED(sonde_open(NULL) == 0);
}

/* ---- Traces ---------------------------------------------------------------------------------- */

static const char parent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

static void *sees_parent(void *arg)
{
    (void)arg;
    const struct sonde_trace t = sonde_trace_current();
    NEED_EQ(t.hi, 0x0af7651916cd43ddull);
    NEED_EQ(t.lo, 0x8448eb211c80319cull);
    NEED_EQ(t.span, 0xb7ad6b7169203331ull);
    for (int i = 0; i < 2; i++) { /* the first does not end the trace */
        struct sonde_span s;
        sonde_span_begin(&s, sonde_name("below"));
        const uint64_t id = s.id;
        sonde_span_end(&s, SONDE_OK);
        if (!sonde_is_enabled()) continue;
        const struct sonde__span_rec *r = readback_span_id(id);
        NEED(r);
        NEED_EQ(r->trace_hi, 0x0af7651916cd43ddull);
        NEED_EQ(r->trace_lo, 0x8448eb211c80319cull);
        NEED_EQ(r->parent, 0xb7ad6b7169203331ull);
    }
    return NULL;
}

static void every_thread_continues(void)
{
    pthread_t t[6];
    for (int i = 0; i < 6; i++) NEED(!pthread_create(&t[i], NULL, sees_parent, NULL));
    for (int i = 0; i < 6; i++) pthread_join(t[i], NULL);
    sees_parent(NULL);
}

CHILD_TEST(traceparent_is_continued)
{
    setenv("TRACEPARENT", parent, 1);
    every_thread_continues();
    const pid_t pid = fork();
    if (pid == 0) {
        every_thread_continues();
        _exit(0);
    }
    int status;
    NEED(waitpid(pid, &status, 0) == pid);
    NEED_EQ(status, 0);
}

/* A process that does not record still hands the trace on. */
CHILD_TEST(traceparent_is_continued_when_off)
{
    setenv("TRACEPARENT", parent, 1);
    setenv("SONDE_ENABLED", "0", 1);
    every_thread_continues();
}

CHILD_TEST(traceparent_is_continued_when_switched_off)
{
    setenv("TRACEPARENT", parent, 1);
    sonde_enable(0);
    sees_parent(NULL);
    sonde_enable(1);
    every_thread_continues();
}

CHILD_TEST(traceparent_is_continued_by_a_thread_that_formats_first)
{
    char text[SONDE_TRACEPARENT_SIZE];
    setenv("TRACEPARENT", parent, 1);
    sonde_traceparent_format((struct sonde_trace){ 0, 0, 0 }, text);
    sees_parent(NULL);
}

CHILD_TEST(bad_traceparent_is_ignored)
{
    setenv("TRACEPARENT", "00-nonsense-01", 1);
    const struct sonde_trace t = sonde_trace_current();
    NEED(!t.hi && !t.lo && !t.span);
}

/* ---- Clock and errno ------------------------------------------------------------------------- */

/* What a forked worker records first is a duration. */
CHILD_TEST(durations_in_a_forked_child)
{
    (void)sonde_is_enabled();
    for (int raw = 0; raw < 2; raw++) {
        const uint64_t before = sonde_ticks();
        while (sonde_ticks_ns(sonde_ticks() - before) < 2000) continue;
        const pid_t pid = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
        if (pid == 0) {
            NEED(sonde_ticks_ns(sonde_ticks() - before) >= 2000);
            _exit(0);
        }
        int status;
        NEED(waitpid(pid, &status, 0) == pid);
        NEED_EQ(status, 0);
    }
}

static int scoped(void)
{
    SONDE_RESOURCE_SCOPE("errno");
    SONDE_SCOPE("errno");
    errno = 4321;
    return -1;
}

static void errno_is_left_alone(void)
{
    errno = 1234;
    (void)sonde_ticks();
    NEED_EQ(errno, 1234);
    use_everything();
    NEED_EQ(errno, 1234);
    (void)sonde_is_enabled();
    sonde_enable(0);
    sonde_enable(1);
    (void)sonde_open(NULL);
    NEED_EQ(errno, 1234);
    NEED(scoped() == -1 && errno == 4321);
}

CHILD_TEST(errno_when_all_is_well) { errno_is_left_alone(); }

CHILD_TEST(errno_without_descriptors)
{
    const struct rlimit none = { 0, 0 };
    NEED(!setrlimit(RLIMIT_NOFILE, &none));
    errno_is_left_alone();
    NEED(sonde_open(NULL) == SONDE_ENOMEM);
}

CHILD_TEST(errno_without_a_directory)
{
    setenv("SONDE_DIR", "/nonexistent/dir", 1);
    errno_is_left_alone();
    NEED(sonde_open(NULL) == SONDE_ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment_starts_it_off),
        cmocka_unit_test(only_zero_is_off),
        cmocka_unit_test(configuration_survives_off),
        cmocka_unit_test(toggling_while_threads_record),
        cmocka_unit_test(sizes_of_configuration),
        cmocka_unit_test(names_and_limits_are_kept),
        cmocka_unit_test(name_taken_by_a_directory),
        cmocka_unit_test(name_taken_by_a_link),
        cmocka_unit_test(name_taken_by_rubbish),
        cmocka_unit_test(traceparent_is_continued),
        cmocka_unit_test(traceparent_is_continued_when_off),
        cmocka_unit_test(traceparent_is_continued_when_switched_off),
        cmocka_unit_test(traceparent_is_continued_by_a_thread_that_formats_first),
        cmocka_unit_test(bad_traceparent_is_ignored),
        cmocka_unit_test(durations_in_a_forked_child),
        cmocka_unit_test(errno_when_all_is_well),
        cmocka_unit_test(errno_without_descriptors),
        cmocka_unit_test(errno_without_a_directory),
    };
    readback_private_dir();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
