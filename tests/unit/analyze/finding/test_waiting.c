/* Locks, spinning, I/O, page faults and scheduling: of each what is planted, what is healthy, and
 * what is too little to say anything. */
#include "unit/analyze/finding/finding_build.h"

#define PID 7u

static uint32_t thread(struct sonde_profile *p, uint32_t tid)
{
    char name[16];
    snprintf(name, sizeof(name), "t%u", tid);
    return sonde_profile_thread(p, PID, tid, name);
}

/* Blocked from a time on, for so long. */
static void blocked(struct sonde_profile *p, const char *stack, uint32_t tid, uint64_t at_ms,
                    uint64_t ms)
{
    const struct sonde_profile_sample s = {
        .stack = build_stack(p, stack), .weight = ms * MS, .thread = thread(p, tid),
        .time_ns = T0 + at_ms * MS, .count = 1, .kind = SONDE_SAMPLE_OFFCPU };
    assert_int_equal(sonde_profile_add_sample(p, &s), 0);
}

/* On the CPU for so long, a sample per millisecond. */
static void computes(struct sonde_profile *p, const char *stack, uint32_t tid, uint64_t at_ms,
                     uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        assert_int_equal(build_sample(p, stack, MS, thread(p, tid), T0 + (at_ms + i) * MS), 0);
    }
}

/* A second of a process: CPUs used, threads delayed, switches by themselves and not. */
static void second(struct sonde_profile *p, uint64_t at_ms, double used, double delayed,
                   double voluntary, double involuntary)
{
    find_tick(p, at_ms);
    find_value(p, "sonde_host_cpus", "", 0, 1, 2);
    find_value(p, "sonde_process_cpu_seconds_total", "mode=\"user\"", PID, 0, used);
    find_value(p, "sonde_process_run_delay_seconds_total", "", PID, 0, delayed);
    find_value(p, "sonde_process_context_switches_total", "type=\"voluntary\"", PID, 0, voluntary);
    find_value(p, "sonde_process_context_switches_total", "type=\"involuntary\"", PID, 0,
               involuntary);
}

/* ---- Locks ----------------------------------------------------------------------------------- */

/* Three threads take turns: each holds the lock for 10 ms in turn, the others wait for it. */
static struct sonde_profile *turns(const char *wait, const char *hold, int rounds)
{
    struct sonde_profile *p = find_make((uint64_t)rounds * 10);
    for (int i = 0; i < rounds; i++) {
        for (uint32_t t = 0; t < 3; t++) {
            if (t == (uint32_t)i % 3) computes(p, hold, 10 + t, (uint64_t)i * 10, 10);
            else blocked(p, wait, 10 + t, (uint64_t)i * 10, 10);
        }
    }
    return p;
}

static void test_lock(void **state)
{
    (void)state;
    struct sonde_profile *p =
        turns("main;work;post;pthread_mutex_lock", "main;work;post;audit", 60);
    struct sonde_findings *f = find_look(p);
    const struct sonde_finding *lock = &f->rows[0];
    assert_string_equal(lock->kind, "lock_contention");
    assert_int_equal(lock->severity, SONDE_SEVERITY_CRITICAL);
    assert_string_equal(lock->subject, "post");
    assert_true(fabs(lock->share - 2.0 / 3) < 1e-6 && fabs(lock->seconds - 1.2) < 1e-6);
    assert_non_null(strstr(lock->text, "3 threads waited 1.20 s for the lock that post takes "
                                       "(pthread_mutex_lock), 67 %"));
    assert_non_null(strstr(lock->text, "100 % of what others did meanwhile was in post"));
    assert_non_null(strstr(lock->text, "mostly audit"));
    assert_true(lock->evidence_count >= 2);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
    /* Another function holds it than the one that waits. */
    p = turns("main;read;lookup;pthread_rwlock_rdlock", "main;timer;rebuild", 60);
    f = find_look(p);
    assert_string_equal(f->rows[0].subject, "lookup");
    assert_non_null(strstr(f->rows[0].text, "100 % of what others did meanwhile was in rebuild"));
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

/* Idle workers wait with condition variables and semaphores, hardly ever for a queue's lock. */
static void test_lock_healthy(void **state)
{
    (void)state;
    static const char *const idle[] = {
        "main;worker;take;pthread_cond_wait", "main;worker;take;sem_wait",
        "main;worker;take;epoll_wait", "main;worker;PyThread_acquire_lock_timed",
        "main;join;pthread_join", "main;tick;nanosleep",
    };
    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
        find_expect(turns(idle[i], "main;worker;work", 60), NULL);
    }
    struct sonde_profile *p = find_make(1000);
    for (uint32_t t = 0; t < 4; t++) {
        computes(p, "main;worker;work", 10 + t, 0, 900);
        for (uint64_t i = 0; i < 12; i++) {
            blocked(p, "main;worker;take;pthread_mutex_lock", 10 + t, 900 + i * 5, 1);
        }
    }
    find_expect(p, NULL);
    find_expect(turns("main;a;pthread_mutex_lock", "main;b", 4), NULL); /* too little */
    /* Nothing was recorded of waiting: that is said. */
    p = find_make(1000);
    computes(p, "main;work", 10, 0, 200);
    struct sonde_findings *f = find_look(p);
    assert_int_equal(f->note_count, 1);
    assert_non_null(strstr(f->notes[0], "--off-cpu"));
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

static void expect_lock(const char *wait, const char *advice)
{
    struct sonde_profile *p = turns(wait, "main;app;write_rows", 60);
    struct sonde_findings *f = find_look(p);
    if (strcmp(f->rows[0].kind, "lock_contention")) print_error("%s\n", wait);
    assert_string_equal(f->rows[0].kind, "lock_contention");
    if (!strstr(f->rows[0].advice, advice)) print_error("%s\n", f->rows[0].advice);
    assert_non_null(strstr(f->rows[0].advice, advice));
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

static void test_lock_kinds(void **state)
{
    (void)state;
    expect_lock("main;app;sqlite3_step;sqlite3InvokeBusyHandler;sqliteDefaultBusyCallback;"
                "unixSleep;usleep", "SQLite has one writer");
    expect_lock("main;exec;LockAcquireExtended;ProcSleep;WaitLatch;epoll_wait", "pg_locks");
    expect_lock("main;app;LWLockAcquire;PGSemaphoreLock;sem_wait", "pg_locks");
    expect_lock("main;app;take_turn;fcntl64", "file lock");
    expect_lock("main;app;take_turn;flock", "file lock");
    expect_lock("main;app;my_lock;syscall", "held for write_rows");
    expect_lock("main;app;take_gil;pthread_cond_timedwait", "interpreter lock");
    /* A futex of which nothing says that it is a lock. */
    find_expect(turns("main;app;clock_wait;syscall", "main;app;b", 60), NULL);
    find_expect(turns("main;app;unlocked_wait;syscall", "main;app;b", 60), NULL);
    find_expect(turns("main;app;sqlite3_sleep;unixSleep;usleep", "main;app;b", 60), NULL);
}

/* Who has the lock waits for the disk: that is one cause, and what to change is the I/O. */
static void test_lock_with_io(void **state)
{
    (void)state;
    struct sonde_profile *p = find_make(600);
    for (int i = 0; i < 60; i++) {
        for (uint32_t t = 0; t < 3; t++) {
            const int holds = t == (uint32_t)i % 3;
            blocked(p, holds ? "main;append;fdatasync" : "main;append;pthread_mutex_lock", 10 + t,
                    (uint64_t)i * 10, 10);
        }
    }
    struct sonde_findings *f = find_look(p);
    assert_string_equal(f->rows[0].kind, "lock_contention");
    assert_non_null(strstr(f->rows[0].advice, "append calls fdatasync with the lock held"));
    assert_int_equal(f->causes, 1);
    assert_string_equal(f->rows[1].kind, "io_wait");
    assert_int_equal(f->rows[1].cause, 1);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

/* ---- I/O and memory -------------------------------------------------------------------------- */

static struct sonde_profile *waits(const char *stack, uint64_t wait_ms, int rounds)
{
    struct sonde_profile *p = find_make((uint64_t)rounds * 20);
    for (int i = 0; i < rounds; i++) {
        computes(p, "main;work", 10, (uint64_t)i * 20, 20 - wait_ms);
        blocked(p, stack, 10, (uint64_t)i * 20 + 20 - wait_ms, wait_ms);
    }
    return p;
}

static void test_io(void **state)
{
    (void)state;
    find_expect(waits("main;keep;fsync", 15, 60), "io_wait");
    find_expect(waits("main;load;fdatasync", 10, 60), "io_wait");
    find_expect(waits("main;keep;fsync", 1, 60), NULL);
    find_expect(waits("main;keep;fsync", 15, 5), NULL); /* too little */
    /* A read may be one of a pipe, unless storage has something to do. */
    find_expect(waits("main;load;read", 15, 60), NULL);
    struct sonde_profile *p = waits("main;load;read", 15, 60);
    for (uint64_t i = 1; i <= 2; i++) {
        find_tick(p, i * 600);
        find_value(p, "sonde_process_storage_bytes_total", "direction=\"read\"", PID, 0, 5e7);
    }
    find_expect(p, "io_wait");
    p = waits("main;load;read;pipe_read_[k]", 15, 60);
    find_expect(p, NULL);
}

static struct sonde_profile *faults(const char *stack, double major, double read)
{
    struct sonde_profile *p = stack ? waits(stack, 15, 60) : find_make(1200);
    for (uint64_t i = 1; i <= 2; i++) {
        find_tick(p, i * 600);
        find_value(p, "sonde_process_page_faults_total", "type=\"major\"", PID, 0, major);
        find_value(p, "sonde_process_storage_bytes_total", "direction=\"read\"", PID, 0, read);
        find_value(p, "sonde_process_resident_memory_bytes", "", PID, 1, 1e9);
    }
    return p;
}

static void test_page_faults(void **state)
{
    (void)state;
    find_expect(faults("main;expert_apply", 80, 1e8), "page_faults");
    find_expect(faults("main;load;mmap64", 0, 1e8), "page_faults"); /* MAP_POPULATE */
    find_expect(faults("main;expert_apply", 0, 0), NULL);           /* stopped, say */
    find_expect(faults(NULL, 500, 1e8), "page_faults");             /* waiting not recorded */
    find_expect(faults(NULL, 10, 1e8), NULL);
}

static void test_swapping(void **state)
{
    (void)state;
    for (int traffic = 0; traffic < 2; traffic++) {
        struct sonde_profile *p = faults("main;touch", 90, 1e7);
        find_value(p, "sonde_process_swap_memory_bytes", "", PID, 1, 5e8);
        find_value(p, "sonde_host_swapped_bytes_total", "direction=\"in\"", 0, 0,
                   traffic ? 3e7 : 0);
        find_expect(p, traffic ? "swapping" : "page_faults");
    }
}

/* ---- Scheduling ------------------------------------------------------------------------------ */

static struct sonde_profile *scheduled(double used, double delayed, double voluntary,
                                       double involuntary)
{
    struct sonde_profile *p = find_make(4000);
    for (uint64_t i = 1; i <= 4; i++) second(p, i * 1000, used, delayed, voluntary, involuntary);
    return p;
}

static void test_oversubscription(void **state)
{
    (void)state;
    struct sonde_profile *p = scheduled(1.95, 6, 10, 400);
    struct sonde_findings *f = find_look(p);
    assert_string_equal(f->rows[0].kind, "oversubscription");
    assert_int_equal(f->rows[0].severity, SONDE_SEVERITY_WARNING);
    assert_non_null(strstr(f->rows[0].text, "8.0 threads want to run on average"));
    assert_non_null(strstr(f->rows[0].advice, "use 2 threads"));
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
    find_expect(scheduled(1.95, 0.05, 10, 400), NULL);
    /* Others keep the machine busy: two threads wait, but they are not too many. */
    find_expect(scheduled(0.5, 1.5, 10, 400), NULL);
    /* So they do here, and threads that take turns at a lock look runnable. */
    find_expect(scheduled(0.3, 3, 400, 200), NULL);
    find_expect(scheduled(0.3, 2.5, 10, 400), NULL);
    find_expect(scheduled(0.3, 6, 10, 400), "oversubscription");
    /* It may use one CPU only. */
    p = scheduled(0.99, 1.1, 10, 400);
    find_value(p, "sonde_process_allowed_cpus", "", PID, 1, 1);
    find_expect(p, "oversubscription");
    /* Half a second says nothing. */
    p = find_make(500);
    assert_int_equal(sonde_tracks_tick(p, (double)T0 * 1e-9, 0.5), 0);
    find_value(p, "sonde_host_cpus", "", 0, 1, 2);
    find_value(p, "sonde_process_cpu_seconds_total", "mode=\"user\"", PID, 0, 2);
    find_value(p, "sonde_process_run_delay_seconds_total", "", PID, 0, 9);
    find_expect(p, NULL);
}

static struct sonde_profile *throttled(double periods, double full, double stopped, double used)
{
    struct sonde_profile *p = find_make(4000);
    for (uint64_t i = 1; i <= 4; i++) {
        second(p, i * 1000, used, 0, 10, 10);
        for (uint32_t pid = PID; pid < PID + 2; pid++) { /* two processes in one cgroup */
            find_value(p, "sonde_process_cgroup_quota_cpus", "", pid, 1, 0.5);
            find_value(p, "sonde_process_cgroup_periods_total", "", pid, 0, periods);
            find_value(p, "sonde_process_cgroup_throttled_periods_total", "", pid, 0, full);
            find_value(p, "sonde_process_cgroup_throttled_seconds_total", "", pid, 0, stopped);
        }
    }
    return p;
}

static void test_throttling(void **state)
{
    (void)state;
    struct sonde_profile *p = throttled(10, 9, 0.5, 0.5);
    struct sonde_findings *f = find_look(p);
    assert_string_equal(f->rows[0].kind, "cpu_throttling");
    assert_true(fabs(f->rows[0].share - 0.5) < 1e-6);
    assert_non_null(strstr(f->rows[0].text, "may use 0.50 CPUs, and used them up in 90 %"));
    assert_non_null(strstr(f->rows[0].advice, "from 0.50 to at least 1.00 CPUs"));
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
    find_expect(throttled(10, 0, 0, 0.3), NULL);
    find_expect(throttled(10, 0.5, 0.002, 0.3), NULL); /* now and then */
}

/* For so many seconds. */
static struct sonde_profile *stolen(double steal, double idle, uint64_t seconds)
{
    struct sonde_profile *p = find_make(seconds * 1000);
    for (uint64_t i = 1; i <= seconds; i++) second(p, i * 1000, 1, 0, 10, 10);
    find_value(p, "sonde_host_cpu_all_seconds_total", "mode=\"user\"", 0, 0, 2 - steal - idle);
    find_value(p, "sonde_host_cpu_all_seconds_total", "mode=\"idle\"", 0, 0, idle);
    find_value(p, "sonde_host_cpu_all_seconds_total", "mode=\"steal\"", 0, 0, steal);
    /* In the ticks before alike. */
    for (uint32_t i = 0; i < p->tracks->count; i++) {
        for (uint32_t k = 0; k + 1 < p->tracks->tick_count; k++) {
            struct sonde_track *t = &p->tracks->rows[i];
            if (!strcmp(t->family, "sonde_host_cpu_all_seconds_total")) {
                t->values[k] = t->values[p->tracks->tick_count - 1];
            }
        }
    }
    return p;
}

static void test_steal(void **state)
{
    (void)state;
    find_expect(stolen(0.5, 0.2, 30), "cpu_steal");
    find_expect(stolen(0.1, 0.2, 30), NULL);
    find_expect(stolen(0, 0.2, 30), NULL);
    /* What comes and goes is worth knowing, and no more. */
    struct sonde_profile *p = stolen(0.5, 0.2, 4);
    struct sonde_findings *f = find_look(p);
    const struct sonde_finding *steal = find_kind(f, "cpu_steal");
    assert_non_null(steal);
    assert_int_equal(steal->severity, SONDE_SEVERITY_INFO);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

/* ---- Spinning -------------------------------------------------------------------------------- */

static void mark_spinning(struct sonde_profile *p, const char *stack)
{
    p->locations[p->stacks[build_stack(p, stack)].location].flags |= SONDE_LOCATION_SPINS;
}

static struct sonde_profile *spinning(const char *stack, uint64_t spin_ms, uint64_t work_ms)
{
    struct sonde_profile *p = find_make(1000);
    computes(p, stack, 10, 0, spin_ms);
    computes(p, "main;loop;compute", 11, 0, work_ms);
    return p;
}

static void test_spin(void **state)
{
    (void)state;
    static const char *const known[] = {
        "main;loop;gomp_team_barrier_wait_end", "main;loop;ggml_barrier",
        "main;loop;__kmp_hyper_barrier_release", "main;loop;pthread_spin_lock",
        "main;loop;wait_for;sched_yield", "main;loop;ggml_barrier;ggml_thread_cpu_relax",
        "main;loop;wait_for;__sched_yield",
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        find_expect(spinning(known[i], 300, 500), "spin_wait");
        find_expect(spinning(known[i], 40, 900), NULL);
    }
    find_expect(spinning("main;loop;gomp_team_barrier_wait_end", 12, 3), NULL); /* too little */
    /* Functions of the same name that are the program's own. */
    find_expect(spinning("main;loop;do_wait", 300, 500), NULL);
    find_expect(spinning("main;loop;s_lock_table", 300, 500), NULL);

    struct sonde_profile *p = spinning("main;loop;await", 300, 500);
    find_expect(p, NULL); /* as far as is known it works */
    p = spinning("main;loop;await", 300, 500);
    mark_spinning(p, "main;loop;await");
    struct sonde_findings *f = find_look(p);
    assert_string_equal(f->rows[0].kind, "spin_wait");
    assert_string_equal(f->rows[0].subject, "await");
    assert_non_null(strstr(f->rows[0].text, "1 thread spun for 0.30 s of CPU time, 38 %"));
    assert_non_null(strstr(f->rows[0].advice, "compute"));
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

/* Threads that spin since those they wait for have no CPU: one cause, and it is that. */
static void test_spin_since_oversubscribed(void **state)
{
    (void)state;
    struct sonde_profile *p = spinning("main;loop;ggml_barrier", 600, 400);
    for (uint64_t i = 1; i <= 2; i++) second(p, i * 500, 1.9, 2.2, 10, 300);
    struct sonde_findings *f = find_look(p);
    assert_string_equal(f->rows[0].kind, "oversubscription");
    const struct sonde_finding *spin = find_kind(f, "spin_wait");
    assert_int_equal(spin->cause, 1);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
    /* So it is where other programs have most of the CPUs. */
    p = spinning("main;loop;ggml_barrier", 600, 400);
    for (uint64_t i = 1; i <= 2; i++) second(p, i * 500, 0.3, 3, 10, 300);
    find_expect(p, "oversubscription");
    p = spinning("main;loop;ggml_barrier", 600, 400); /* two threads, which others starve */
    for (uint64_t i = 1; i <= 2; i++) second(p, i * 500, 0.3, 1.6, 10, 300);
    find_expect(p, "spin_wait");
}

static void test_no_memory(void **state)
{
    (void)state;
    struct sonde_profile *p =
        turns("main;work;post;pthread_mutex_lock", "main;work;post;audit", 30);
    computes(p, "main;loop;ggml_barrier", 20, 0, 100);
    const int64_t live = sonde__alloc_live();
    int rc = SONDE_ENOMEM;
    for (unsigned nth = 1; rc && nth < 2000; nth++) {
        struct sonde_findings *f = NULL;
        const struct sonde_finding_options o = { 0 };
        sonde__alloc_fail_nth(nth);
        rc = sonde_findings_look(p, &o, &f);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        assert_true((f != NULL) == (rc == 0));
        sonde_findings_destroy(f);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_lock_healthy),
        cmocka_unit_test(test_lock_kinds),
        cmocka_unit_test(test_lock_with_io),
        cmocka_unit_test(test_io),
        cmocka_unit_test(test_page_faults),
        cmocka_unit_test(test_swapping),
        cmocka_unit_test(test_oversubscription),
        cmocka_unit_test(test_throttling),
        cmocka_unit_test(test_steal),
        cmocka_unit_test(test_spin),
        cmocka_unit_test(test_spin_since_oversubscribed),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
