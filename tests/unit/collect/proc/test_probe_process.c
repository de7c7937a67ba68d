/* The process probe: exact figures from a made-up /proc, threads that come, go and are too many,
 * pids that vanish or are used again, and the real /proc against this process's own clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/alloc.h"
#include "proc_fixture.h"
#include "segment/segment.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

extern const struct sonde_probe_ops sonde_probe_process;

struct made_up {
    uint32_t id;
    const char *name;
    char state;
    uint64_t minor, major, user, system, threads, start, virtual_bytes, rss, cpu;
};

static void write_stat(const struct fixture *f, const char *path, const struct made_up *p)
{
    char text[1024];
    snprintf(text, sizeof(text),
             "%u (%s) %c 1 1 1 0 -1 4194304 %lu 0 %lu 0 %lu %lu 0 0 20 0 %lu 0 %lu %lu %lu 1 1 1 "
             "1 0 0 0 0 0 0 0 0 0 17 %lu 0 0 0 0 0\n",
             p->id, p->name, p->state, p->minor, p->major, p->user, p->system, p->threads,
             p->start, p->virtual_bytes, p->rss, p->cpu);
    fixture_write(f, path, text);
}

static void write_thread(const struct fixture *f, uint32_t pid, const struct made_up *t,
                         uint64_t voluntary, uint64_t involuntary)
{
    char path[128], text[512];
    snprintf(path, sizeof(path), "proc/%u/task/%u/stat", pid, t->id);
    write_stat(f, path, t);
    snprintf(path, sizeof(path), "proc/%u/task/%u/status", pid, t->id);
    snprintf(text, sizeof(text),
             "Name:\tx\nVmRSS:\t 40 kB\nRssAnon:\t 20 kB\nRssFile:\t 12 kB\nRssShmem:\t 8 kB\n"
             "VmSwap:\t 3 kB\nvoluntary_ctxt_switches:\t%lu\nnonvoluntary_ctxt_switches:\t%lu\n",
             voluntary, involuntary);
    fixture_write(f, path, text);
}

#define PID 4242u
#define START 5000u

static const struct made_up process = { PID, "server", 'S', 100, 7, 300, 50, 2, START,
                                        1 << 20, 10, 1 };

static void setup(struct fixture *f)
{
    const struct made_up main_thread = { PID, "server", 'S', 1, 1, 200, 20, 2, START, 1, 1, 1 };
    const struct made_up worker = { 4243, "worker", 'R', 1, 1, 100, 30, 2, 5100, 1, 1, 3 };
    fixture_init(f, &sonde_probe_process);
    fixture_write(f, "proc/stat", "cpu 1 2 3\nbtime 900\n");
    write_stat(f, "proc/4242/stat", &process);
    write_thread(f, PID, &main_thread, 11, 22);
    write_thread(f, PID, &worker, 100, 200);
    fixture_write(f, "proc/4242/io", "rchar: 1000\nwchar: 2000\nsyscr: 1\nsyscw: 1\n"
                                     "read_bytes: 4096\nwrite_bytes: 8192\n"
                                     "cancelled_write_bytes: 1\n");
    fixture_write(f, "proc/4242/smaps_rollup", "0-1 ---p 00000000 00:00 0 [rollup]\n"
                                               "Rss:  40 kB\nPss:   33 kB\nPss_Dirty: 1 kB\n");
    fixture_write(f, "proc/4242/limits",
                  "Limit                     Soft Limit           Hard Limit           Units\n"
                  "Max open files            1024                 20000                files\n");
    for (int i = 0; i < 5; i++) {
        char path[64];
        snprintf(path, sizeof(path), "proc/4242/fd/%d", i);
        fixture_write(f, path, "");
    }
    assert_non_null(sonde_model_process(f->model, PID, START, "server"));
}

static void check_value(const struct fixture *f, const char *name, const char *labels, double v)
{
    const double is = value(f, name, labels);
    if (is - v > 1e-6 || v - is > 1e-6) print_error("%s{%s}\n", name, labels);
    assert_near(is, v);
}

static void golden(void **state)
{
    (void)state;
    static const struct { const char *name, *labels; double value; } cases[] = {
        { "sonde_process_cpu_seconds_total", "mode=\"user\",process=\"server\",pid=\"4242\"", 3 },
        { "sonde_process_cpu_seconds_total", "mode=\"system\"", 0.5 },
        { "sonde_process_page_faults_total", "type=\"minor\"", 100 },
        { "sonde_process_page_faults_total", "type=\"major\"", 7 },
        { "sonde_process_context_switches_total", "type=\"voluntary\"", 111 },
        { "sonde_process_context_switches_total", "type=\"involuntary\"", 222 },
        { "sonde_process_io_bytes_total", "direction=\"read\"", 1000 },
        { "sonde_process_io_bytes_total", "direction=\"write\"", 2000 },
        { "sonde_process_storage_bytes_total", "direction=\"read\"", 4096 },
        { "sonde_process_storage_bytes_total", "direction=\"write\"", 8192 },
        { "sonde_process_start_time_seconds", "", 950 },
        { "sonde_process_virtual_memory_bytes", "", 1 << 20 },
        { "sonde_process_proportional_memory_bytes", "", 33 * 1024 },
        { "sonde_process_shared_memory_bytes", "", 20 * 1024 },
        { "sonde_process_swap_memory_bytes", "", 3 * 1024 },
        { "sonde_process_threads", "process=\"server\"", 2 },
        { "sonde_process_open_fds", "", 5 },
        { "sonde_process_max_fds", "", 1024 },
        { "sonde_process_thread_states", "state=\"running\"", 1 },
        { "sonde_process_thread_states", "state=\"sleeping\"", 1 },
        { "sonde_process_thread_states", "state=\"disk\"", -1 },
        { "sonde_process_cpu_utilization_ratio", "", -1 },
        { "sonde_thread_cpu_seconds_total",
          "tid=\"4243\",name=\"worker\",mode=\"user\",process=\"server\",pid=\"4242\"", 1 },
        { "sonde_thread_cpu_seconds_total", "tid=\"4243\",name=\"worker\",mode=\"system\"", 0.3 },
        { "sonde_thread_cpu_seconds_total", "tid=\"4242\",name=\"server\",mode=\"user\"", 2 },
        { "sonde_thread_context_switches_total",
          "tid=\"4243\",name=\"worker\",type=\"voluntary\"", 100 },
        { "sonde_thread_context_switches_total",
          "tid=\"4243\",name=\"worker\",type=\"involuntary\"", 200 },
        { "sonde_thread_state", "tid=\"4242\"", 1 },
        { "sonde_thread_state", "tid=\"4243\"", 0 },
        { "sonde_thread_last_cpu", "tid=\"4243\"", 3 },
        { "sonde_thread_cpu_seconds_total", "tid=\"other\"", -1 },
    };
    struct fixture f;
    setup(&f);
    fixture_open(&f);
    fixture_tick(&f);
    for (size_t i = 0; i < COUNT(cases); i++) {
        check_value(&f, cases[i].name, cases[i].labels, cases[i].value);
    }
    check_value(&f, "sonde_process_resident_memory_bytes", "",
                10.0 * (double)sysconf(_SC_PAGESIZE));
    assert_int_equal(f.model->processes[0]->threads, 2);
    assert_int_equal(f.model->dropped_conflicts, 0);
    fixture_release(&f);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A process that has ended, until its parent waits for it, is shown by the kernel as one without
 * memory. */
static void ended_without_memory(void **state)
{
    (void)state;
    const double pages = 10.0 * (double)sysconf(_SC_PAGESIZE);
    struct made_up ended = process;
    ended.state = 'Z';
    ended.virtual_bytes = ended.rss = 0;
    for (int alive_first = 0; alive_first < 2; alive_first++) {
        struct fixture f;
        setup(&f);
        fixture_open(&f);
        if (alive_first) fixture_tick(&f);
        write_stat(&f, "proc/4242/stat", &ended);
        fixture_tick(&f);
        check_value(&f, "sonde_process_resident_memory_bytes", "", alive_first ? pages : -1);
        check_value(&f, "sonde_process_virtual_memory_bytes", "", alive_first ? 1 << 20 : -1);
        fixture_release(&f);
    }
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The interval is measured inside; from outside it is known to lie between two others. */
static void utilization(void **state)
{
    (void)state;
    struct fixture f;
    struct made_up p = process;
    setup(&f);
    fixture_open(&f);
    const double a = seconds_now();
    fixture_tick(&f);
    const double b = seconds_now();
    const struct timespec pause = { 0, 20000000 };
    nanosleep(&pause, NULL);
    p.user += 30;
    p.system += 10;
    write_stat(&f, "proc/4242/stat", &p);
    const double c = seconds_now();
    fixture_tick(&f);
    const double d = seconds_now();
    const double ratio = value(&f, "sonde_process_cpu_utilization_ratio", "");
    assert_true(ratio >= 0.4 / (d - a) && ratio <= 0.4 / (c - b));
    fixture_release(&f);
}

static void absent_files(void **state)
{
    (void)state;
    static const char *const lost[] = {
        "sonde_process_io_bytes_total",          "sonde_process_storage_bytes_total",
        "sonde_process_open_fds",                "sonde_process_max_fds",
        "sonde_process_proportional_memory_bytes", "sonde_process_shared_memory_bytes",
        "sonde_process_swap_memory_bytes",       "sonde_process_start_time_seconds",
        "sonde_thread_state",
    };
    struct fixture f;
    setup(&f);
    fixture_rm(&f, "proc/stat");
    fixture_rm(&f, "proc/4242/io");
    fixture_rm(&f, "proc/4242/fd");
    fixture_rm(&f, "proc/4242/limits");
    fixture_rm(&f, "proc/4242/smaps_rollup");
    fixture_rm(&f, "proc/4242/task");
    fixture_open(&f);
    fixture_tick(&f);
    fixture_tick(&f);
    for (size_t i = 0; i < COUNT(lost); i++) assert_int_equal(series_of(&f, lost[i]), 0);
    check_value(&f, "sonde_process_cpu_seconds_total", "mode=\"user\"", 3);
    /* What becomes unreadable goes away, and comes back. */
    fixture_write(&f, "proc/4242/io", "rchar: 5\nwchar: 6\nread_bytes: x\n");
    fixture_tick(&f);
    check_value(&f, "sonde_process_io_bytes_total", "direction=\"write\"", 6);
    assert_int_equal(series_of(&f, "sonde_process_storage_bytes_total"), 0);
    fixture_rm(&f, "proc/4242/io");
    fixture_tick(&f);
    assert_int_equal(series_of(&f, "sonde_process_io_bytes_total"), 0);
    fixture_release(&f);
}

/* Runnable but not running: of all threads together, also of those that ended since. */
static void run_delay(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    fixture_write(&f, "proc/4242/task/4242/schedstat", "0 0 0\n");
    fixture_open(&f);
    fixture_tick(&f);
    assert_int_equal(series_of(&f, "sonde_process_run_delay_seconds_total"), 0);
    fixture_write(&f, "proc/4242/task/4242/schedstat", "100 1000000000 3\n");
    fixture_write(&f, "proc/4242/task/4243/schedstat", "100 2500000000 9\n");
    fixture_write(&f, "proc/4242/task/4242/status",
                  "Name:\tx\nCpus_allowed:\t1,000000f1\nCpus_allowed_list:\t0,4-7,32\n");
    fixture_tick(&f);
    check_value(&f, "sonde_process_run_delay_seconds_total", "", 3.5);
    check_value(&f, "sonde_process_allowed_cpus", "", 6);
    fixture_rm(&f, "proc/4242/task/4243");
    fixture_write(&f, "proc/4242/task/4242/schedstat", "200 1500000000 5\n");
    fixture_tick(&f);
    check_value(&f, "sonde_process_run_delay_seconds_total", "", 4);
    fixture_release(&f);
}

static void check_cgroup(const struct fixture *f, double quota, double periods, double throttled,
                         double seconds)
{
    check_value(f, "sonde_process_cgroup_quota_cpus", "", quota);
    check_value(f, "sonde_process_cgroup_periods_total", "", periods);
    check_value(f, "sonde_process_cgroup_throttled_periods_total", "", throttled);
    check_value(f, "sonde_process_cgroup_throttled_seconds_total", "", seconds);
}

/* The tightest quota on the way up counts; version 1 has its own files and units. */
static void cgroup_quota(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    fixture_write(&f, "proc/4242/cgroup", "0::/pod/app\n");
    fixture_write(&f, "sys/fs/cgroup/pod/app/cpu.max", "max 100000\n");
    fixture_write(&f, "sys/fs/cgroup/pod/app/cpu.stat", "usage_usec 5\n");
    fixture_open(&f);
    fixture_tick(&f);
    check_cgroup(&f, -1, -1, -1, -1);
    fixture_write(&f, "sys/fs/cgroup/pod/cpu.max", "50000 100000\n");
    fixture_write(&f, "sys/fs/cgroup/pod/cpu.stat",
                  "usage_usec 9\nnr_periods 10\nnr_throttled 7\nthrottled_usec 2500000\n");
    fixture_tick(&f);
    check_cgroup(&f, 0.5, 10, 7, 2.5);
    fixture_write(&f, "sys/fs/cgroup/pod/cpu.stat", "nr_periods 10\nnr_throttled x\n");
    fixture_tick(&f); /* malformed: what was known stays */
    check_cgroup(&f, 0.5, 10, 7, 2.5);
    fixture_release(&f);

    setup(&f);
    fixture_write(&f, "proc/4242/cgroup",
                  "5:memory:/m\n4:cpu,cpuacct:/a/b\n1:name=systemd:/x\n0::/\n");
    fixture_write(&f, "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
    fixture_write(&f, "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "150000\n");
    fixture_write(&f, "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    fixture_write(&f, "sys/fs/cgroup/cpu,cpuacct/a/cpu.stat",
                  "nr_periods 4\nnr_throttled 1\nthrottled_time 500000000\n");
    fixture_open(&f);
    fixture_tick(&f);
    check_cgroup(&f, 1.5, 4, 1, 0.5);
    /* In a container the path of the host is not there: the mount's root is the cgroup. */
    fixture_write(&f, "proc/4242/cgroup", "4:cpu,cpuacct:/kube/c1\n");
    fixture_write(&f, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
    fixture_write(&f, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    fixture_write(&f, "sys/fs/cgroup/cpu,cpuacct/cpu.stat",
                  "nr_periods 2\nnr_throttled 0\nthrottled_time 0\n");
    fixture_tick(&f);
    check_cgroup(&f, 2, 2, 0, 0);
    /* Out of the namespace: nothing is read from above the mount. */
    fixture_write(&f, "proc/4242/cgroup", "4:cpu,cpuacct:/../../etc\n");
    fixture_tick(&f);
    check_cgroup(&f, 2, 2, 0, 0);
    fixture_release(&f);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void slow_files_are_read_rarely(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    fixture_open(&f);
    fixture_tick(&f);
    fixture_write(&f, "proc/4242/smaps_rollup", "Pss: 44 kB\n");
    for (int i = 1; i < 10; i++) {
        fixture_tick(&f);
        check_value(&f, "sonde_process_proportional_memory_bytes", "", 33 * 1024);
    }
    fixture_tick(&f); /* 11th: due again */
    const double pss = value(&f, "sonde_process_proportional_memory_bytes", "");
    /* Unless the first reading happened to take 5 ms on this machine. */
    assert_true(pss == 44 * 1024 || pss == 33 * 1024);
    fixture_release(&f);
}

static void names(void **state)
{
    (void)state;
    static const struct { const char *raw, *label; } cases[] = {
        { "a b", "name=\"a b\"" },
        { "a) R (b", "name=\"a) R (b\"" },
        { "x\ny", "name=\"x\\ny\"" },
        { "q\"\\", "name=\"q\\\"\\\\\"" },
        { "\xff", "name=\"\xef\xbf\xbd\"" },
        { "", "name=\"\"" },
    };
    struct fixture f;
    struct made_up worker = { 4243, "", 'S', 1, 1, 100, 30, 2, 5100, 1, 1, 3 };
    setup(&f);
    fixture_open(&f);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char labels[128];
        worker.name = cases[i].raw;
        write_thread(&f, PID, &worker, 1, 1);
        fixture_tick(&f);
        snprintf(labels, sizeof(labels), "tid=\"4243\",%s", cases[i].label);
        check_value(&f, "sonde_thread_state", labels, 1);
        assert_int_equal(series_of(&f, "sonde_thread_state"), 2); /* the old name is gone */
    }
    fixture_release(&f);
    assert_int_equal(sonde__alloc_live(), 0);
}

static double last_increase(const struct fixture *f, const struct sonde_model_series *s)
{
    assert_non_null(s);
    assert_true(s->history_count > 0);
    return s->history[(f->model->tick - 1) % SONDE_HISTORY];
}

static void threads_come_and_go(void **state)
{
    (void)state;
    struct fixture f;
    struct made_up t = { 4300, "new", 'S', 1, 1, 8, 1, 2, 6000, 1, 1, 0 };
    setup(&f);
    fixture_open(&f);
    fixture_tick(&f);
    write_thread(&f, PID, &t, 5, 6);
    fixture_rm(&f, "proc/4242/task/4243");
    fixture_tick(&f);
    assert_int_equal(series_of(&f, "sonde_thread_state"), 2);
    assert_int_equal(series_of(&f, "sonde_thread_cpu_seconds_total"), 4);
    assert_null(series(&f, "sonde_thread_state", "tid=\"4243\""));
    /* What it used up to now was used since the last tick. */
    assert_near(last_increase(&f, series(&f, "sonde_thread_cpu_seconds_total",
                                         "tid=\"4300\",name=\"new\",mode=\"user\"")), 0.08);
    /* The total of the process keeps what the other thread had done. */
    check_value(&f, "sonde_process_context_switches_total", "type=\"voluntary\"", 116);
    /* The same tid for another thread: counts begin again. */
    t.start = 7000;
    t.user = 3;
    write_thread(&f, PID, &t, 2, 2);
    fixture_tick(&f);
    check_value(&f, "sonde_thread_cpu_seconds_total", "tid=\"4300\",name=\"new\",mode=\"user\"",
                0.03);
    check_value(&f, "sonde_process_context_switches_total", "type=\"voluntary\"", 118);
    /* A thread whose stat is not one: as if it were not there. */
    fixture_write(&f, "proc/4242/task/4300/stat", "4300 (new) S 1 2");
    fixture_tick(&f);
    assert_int_equal(series_of(&f, "sonde_thread_state"), 1);
    fixture_release(&f);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A thread that the scheduler says has not run is not read again. */
static void resting_threads(void **state)
{
    (void)state;
    struct fixture f;
    struct made_up worker = { 4243, "worker", 'S', 1, 1, 100, 30, 2, 5100, 1, 1, 3 };
    static const char user[] = "tid=\"4243\",name=\"worker\",mode=\"user\"";
    setup(&f);
    write_thread(&f, PID, &worker, 1, 1);
    fixture_write(&f, "proc/4242/task/4243/schedstat", "1000 20 3\n");
    fixture_open(&f);
    fixture_tick(&f);
    worker.user = 150;
    write_thread(&f, PID, &worker, 1, 1);
    fixture_tick(&f);
    check_value(&f, "sonde_thread_cpu_seconds_total", user, 1);
    fixture_write(&f, "proc/4242/task/4243/schedstat", "2000 20 4\n");
    fixture_tick(&f);
    check_value(&f, "sonde_thread_cpu_seconds_total", user, 1.5);
    worker.user = 160;
    write_thread(&f, PID, &worker, 1, 1);
    fixture_write(&f, "proc/4242/task/4243/schedstat", "garbage\n");
    fixture_tick(&f);
    check_value(&f, "sonde_thread_cpu_seconds_total", user, 1.6);
    fixture_release(&f);
}

/* Sum over all tids, raw. */
static uint64_t thread_sum(const struct fixture *f, const char *mode)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < f->model->family_count; i++) {
        const struct sonde_model_family *family = f->model->families[i];
        if (strcmp(family->name, "sonde_thread_cpu_seconds_total") != 0) continue;
        for (size_t k = 0; k < family->series_count; k++) {
            if (strstr(family->series[k]->label_text, mode)) sum += family->series[k]->counter;
        }
    }
    return sum;
}

static double thread_increase_sum(const struct fixture *f, const char *mode)
{
    double sum = 0;
    for (size_t i = 0; i < f->model->family_count; i++) {
        const struct sonde_model_family *family = f->model->families[i];
        if (strcmp(family->name, "sonde_thread_cpu_seconds_total") != 0) continue;
        for (size_t k = 0; k < family->series_count; k++) {
            const struct sonde_model_series *s = family->series[k];
            if (!strstr(s->label_text, mode) || !s->history_count) continue;
            sum += s->history[(f->model->tick - 1) % SONDE_HISTORY];
        }
    }
    return sum;
}

static void too_many_threads(void **state)
{
    (void)state;
    enum { THREADS = 400, FIRST = 10000, LISTED = 256 };
    struct fixture f;
    uint64_t cpu[THREADS], sum = 0;
    setup(&f);
    fixture_rm(&f, "proc/4242/task");
    for (uint32_t i = 0; i < THREADS; i++) {
        cpu[i] = 1000 + (i * 7919u) % THREADS; /* all different */
        sum += cpu[i];
        const struct made_up t = { FIRST + i, "w", 'S', 0, 0, cpu[i], 0, THREADS, 5100, 1, 1, 0 };
        write_thread(&f, PID, &t, 1, 0);
    }
    fixture_open(&f);
    fixture_tick(&f);
    assert_int_equal(series_of(&f, "sonde_thread_state"), LISTED);
    assert_int_equal(series_of(&f, "sonde_thread_cpu_seconds_total"), 2 * LISTED + 2);
    assert_int_equal(thread_sum(&f, "mode=\"user\""), sum);
    for (uint32_t i = 0; i < THREADS; i++) { /* the busiest have series */
        char labels[64];
        snprintf(labels, sizeof(labels), "tid=\"%u\"", FIRST + i);
        assert_int_equal(series(&f, "sonde_thread_state", labels) != NULL,
                         cpu[i] >= 1000 + THREADS - LISTED);
    }
    check_value(&f, "sonde_process_context_switches_total", "type=\"voluntary\"", THREADS);

    /* One of the others works a little: it counts there. Increases over all tids are exact. */
    uint32_t lazy = 0;
    while (cpu[lazy] != 1000) lazy++;
    struct made_up t = { FIRST + lazy, "w", 'S', 0, 0, 1010, 0, THREADS, 5100, 1, 1, 0 };
    write_thread(&f, PID, &t, 1, 0);
    fixture_tick(&f);
    assert_near(thread_increase_sum(&f, "mode=\"user\""), 0.10);
    assert_int_equal(series_of(&f, "sonde_thread_state"), LISTED);

    /* It works a lot: it takes the place of the laziest. */
    t.user = 5000;
    write_thread(&f, PID, &t, 1, 0);
    fixture_tick(&f);
    char labels[64];
    snprintf(labels, sizeof(labels), "tid=\"%u\",name=\"w\",mode=\"user\"", FIRST + lazy);
    check_value(&f, "sonde_thread_cpu_seconds_total", labels, 50);
    assert_int_equal(series_of(&f, "sonde_thread_state"), LISTED);
    const double other = value(&f, "sonde_thread_cpu_seconds_total", "tid=\"other\"");
    t.user = 5025;
    write_thread(&f, PID, &t, 1, 0);
    fixture_tick(&f);
    assert_near(thread_increase_sum(&f, "mode=\"user\""), 0.25);
    assert_near(value(&f, "sonde_thread_cpu_seconds_total", "tid=\"other\""), other);
    fixture_release(&f);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void vanishing_pids(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    /* One that was never there, and one whose pid is another process's by now. */
    assert_non_null(sonde_model_process(f.model, 77, 1, "ghost"));
    assert_non_null(sonde_model_process(f.model, PID, START - 1, "before"));
    fixture_open(&f);
    fixture_tick(&f);
    assert_int_equal(series_of(&f, "sonde_process_threads"), 1);
    assert_null(series(&f, "sonde_process_threads", "process=\"before\""));

    /* Gone before the collector has noticed: no more about now, totals stay. */
    fixture_rm(&f, "proc/4242");
    fixture_tick(&f);
    fixture_tick(&f);
    assert_int_equal(series_of(&f, "sonde_process_threads"), 0);
    assert_int_equal(series_of(&f, "sonde_process_thread_states"), 0);
    assert_int_equal(series_of(&f, "sonde_thread_state"), 0);
    assert_int_equal(series_of(&f, "sonde_thread_cpu_seconds_total"), 0);
    check_value(&f, "sonde_process_cpu_seconds_total", "mode=\"user\"", 3);
    assert_int_equal(f.model->processes[0]->threads, 0);

    /* Another process gets the pid: nothing of it may show up as the old one. */
    struct made_up next = process;
    next.user = 99999;
    next.start = START + 1000;
    write_stat(&f, "proc/4242/stat", &next);
    fixture_tick(&f);
    check_value(&f, "sonde_process_cpu_seconds_total", "mode=\"user\"", 3);
    f.model->processes[0]->state = SONDE_PROCESS_EXITED;
    fixture_tick(&f);
    while (f.model->process_count) sonde_model_process_forget(f.model, f.model->processes[0]);
    fixture_tick(&f);
    assert_int_equal(f.model->series_count, 0);
    fixture_release(&f);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Forgotten and found again between two ticks, in the same memory even: a new life. */
static void forgotten_and_found_again(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    fixture_open(&f);
    for (int i = 0; i < 5; i++) {
        fixture_tick(&f);
        check_value(&f, "sonde_process_cpu_seconds_total", "mode=\"user\"", 3);
        check_value(&f, "sonde_thread_state", "tid=\"4242\"", 1);
        sonde_model_process_forget(f.model, f.model->processes[0]);
        assert_int_equal(f.model->series_count, 0);
        assert_non_null(sonde_model_process(f.model, PID, START, "server"));
    }
    fixture_release(&f);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void new_processes_count_from_zero(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    sonde_model_process_forget(f.model, f.model->processes[0]);
    fixture_open(&f);
    f.env.now_s = 940; /* started at 950 */
    fixture_tick(&f);
    assert_non_null(sonde_model_process(f.model, PID, START, "server"));
    f.env.now_s = 960;
    fixture_tick(&f);
    assert_near(last_increase(&f, series(&f, "sonde_process_cpu_seconds_total",
                                         "mode=\"user\"")), 3);
    assert_near(last_increase(&f, series(&f, "sonde_thread_cpu_seconds_total",
                                         "tid=\"4243\",name=\"worker\",mode=\"user\"")), 1);
    fixture_release(&f);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    sonde_model_destroy(f.model);
    for (uint64_t nth = 1; nth <= 400; nth++) {
        struct sonde_err err;
        assert_int_equal(sonde__alloc_live(), 0);
        assert_int_equal(sonde_model_create(NULL, &f.model), 0);
        f.env.model = f.model;
        assert_non_null(sonde_model_process(f.model, PID, START, "server"));
        sonde__alloc_fail_nth(nth);
        const int rc = f.ops->open(&f.env, &f.probe, &err);
        if (rc == 0) fixture_tick(&f);
        sonde__alloc_fail_nth(0);
        if (rc) {
            assert_int_equal(rc, SONDE_ENOMEM);
            f.probe = NULL;
        } else { /* the next tick puts right what is missing */
            fixture_tick(&f);
            check_value(&f, "sonde_process_cpu_seconds_total", "mode=\"user\"", 3);
            assert_int_equal(series_of(&f, "sonde_thread_cpu_seconds_total"), 4);
        }
        f.ops->close(f.probe);
        sonde_model_destroy(f.model);
    }
    f.probe = NULL;
    f.model = NULL;
    fixture_release(&f);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- The real /proc ---------------------------------------------------------------------- */

static void live_setup(struct fixture *f)
{
    fixture_init(f, &sonde_probe_process);
    f->env.proc_root = "/proc";
    const uint32_t pid = (uint32_t)getpid();
    assert_non_null(sonde_model_process(f->model, pid, sonde__start_time(pid), "test"));
    fixture_open(f);
}

static double cpu_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double process_cpu(const struct fixture *f)
{
    return value(f, "sonde_process_cpu_seconds_total", "mode=\"user\"") +
           value(f, "sonde_process_cpu_seconds_total", "mode=\"system\"");
}

static void live_cpu(void **state)
{
    (void)state;
    struct fixture f;
    const double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    live_setup(&f);
    const double clock_before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    fixture_tick(&f);
    const double before = process_cpu(&f);
    const double until = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) + 0.2;
    while (cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) < until) {}
    fixture_tick(&f);
    const double grew = process_cpu(&f) - before;
    const double clock = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - clock_before;
    assert_true(grew >= 0.2 - 3 * tick);
    assert_true(grew <= clock + 3 * tick);
    char labels[64];
    snprintf(labels, sizeof(labels), "tid=\"%d\"", getpid());
    const double thread = value(&f, "sonde_thread_cpu_seconds_total", labels); /* user */
    assert_true(thread > 0 && thread <= process_cpu(&f) + tick);
    assert_true(value(&f, "sonde_process_cpu_utilization_ratio", "") > 0);
    fixture_release(&f);
}

/* Sanitizers write memory of their own for what a program maps and touches; this they do not
 * see. */
__attribute__((no_sanitize("thread", "address"))) static char *map_and_touch(size_t size)
{
    char *p = (char *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    for (size_t i = 0; i < size; i += 4096) ((volatile char *)p)[i] = 1;
    return p;
}

static void live_memory(void **state)
{
    (void)state;
    enum { SIZE = 64 << 20, SLACK = 1 << 20 };
    struct fixture f;
    struct rusage a, b;
    live_setup(&f);
    fixture_tick(&f);
    const double rss = value(&f, "sonde_process_resident_memory_bytes", "");
    const double virt = value(&f, "sonde_process_virtual_memory_bytes", "");
    const double faults = value(&f, "sonde_process_page_faults_total", "type=\"minor\"");
    getrusage(RUSAGE_SELF, &a);
    char *p = map_and_touch(SIZE);
    getrusage(RUSAGE_SELF, &b);
    fixture_tick(&f);
    const double grew = value(&f, "sonde_process_resident_memory_bytes", "") - rss;
    assert_true(grew >= SIZE - SLACK && grew <= SIZE + SLACK);
    assert_true(value(&f, "sonde_process_virtual_memory_bytes", "") - virt >= SIZE);
    assert_true(value(&f, "sonde_process_page_faults_total", "type=\"minor\"") - faults >=
                (double)(b.ru_minflt - a.ru_minflt));
    assert_int_equal(syscall(SYS_munmap, p, (size_t)SIZE), 0);
    fixture_tick(&f);
    assert_true(value(&f, "sonde_process_resident_memory_bytes", "") - rss <= SLACK);
    fixture_release(&f);
}

static void live_files_and_limits(void **state)
{
    (void)state;
    struct fixture f;
    struct rlimit limit;
    static char block[10000];
    live_setup(&f);
    fixture_tick(&f);
    fixture_tick(&f); /* by now the probe has all its own files open */
    const double fds = value(&f, "sonde_process_open_fds", "");
    const double wrote = value(&f, "sonde_process_io_bytes_total", "direction=\"write\"");
    int fd[10];
    for (size_t i = 0; i < COUNT(fd); i++) fd[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(write(fileno(file), block, sizeof(block)), sizeof(block));
    fixture_tick(&f);
    assert_near(value(&f, "sonde_process_open_fds", "") - fds, COUNT(fd) + 1);
    assert_true(value(&f, "sonde_process_io_bytes_total", "direction=\"write\"") - wrote >=
                (double)sizeof(block));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_near(value(&f, "sonde_process_max_fds", ""), (double)limit.rlim_cur);
    for (size_t i = 0; i < COUNT(fd); i++) close(fd[i]);
    fclose(file);

    struct sonde_err note = { "" };
    assert_int_equal(sonde_probe_process.check(&f.env, &note), 0);
    assert_true(note.text[0] != 0);
    fixture_release(&f);
}

struct sleeper {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int ready, stop;
};

static void *sleeper_run(void *arg)
{
    struct sleeper *s = arg;
    prctl(PR_SET_NAME, "slee) R (per", 0, 0, 0);
    for (int i = 0; i < 50; i++) {
        const struct timespec pause = { 0, 100000 };
        nanosleep(&pause, NULL);
    }
    pthread_mutex_lock(&s->lock);
    s->ready = 1;
    pthread_cond_broadcast(&s->cond);
    while (!s->stop) pthread_cond_wait(&s->cond, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Voluntary switches of the thread of that name; NULL = it has no series. */
static const struct sonde_model_series *sleeper_series(const struct fixture *f)
{
    for (size_t i = 0; i < f->model->family_count; i++) {
        const struct sonde_model_family *family = f->model->families[i];
        if (strcmp(family->name, "sonde_thread_context_switches_total") != 0) continue;
        for (size_t k = 0; k < family->series_count; k++) {
            if (strstr(family->series[k]->label_text,
                       "name=\"slee) R (per\",type=\"voluntary\"")) {
                return family->series[k];
            }
        }
    }
    return NULL;
}

static void live_threads(void **state)
{
    (void)state;
    struct fixture f;
    struct sleeper s = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };
    pthread_t thread;
    live_setup(&f);
    fixture_tick(&f);
    const size_t before = series_of(&f, "sonde_thread_state");
    assert_int_equal(pthread_create(&thread, NULL, sleeper_run, &s), 0);
    pthread_mutex_lock(&s.lock);
    while (!s.ready) pthread_cond_wait(&s.cond, &s.lock);
    pthread_mutex_unlock(&s.lock);
    fixture_tick(&f);
    const size_t during = series_of(&f, "sonde_thread_state");
    assert_true(during > before); /* a sanitizer may start one, too */
    assert_non_null(sleeper_series(&f));
    assert_true(sleeper_series(&f)->counter >= 50);
    assert_near(value(&f, "sonde_process_threads", ""), (double)during);
    pthread_mutex_lock(&s.lock);
    s.stop = 1;
    pthread_cond_broadcast(&s.cond);
    pthread_mutex_unlock(&s.lock);
    pthread_join(thread, NULL);
    /* pthread_join returns when the kernel has told of the end, a moment before the thread has
     * left the folder. */
    for (int i = 0; i < 1000 && sleeper_series(&f); i++) {
        const struct timespec pause = { 0, 1000000 };
        nanosleep(&pause, NULL);
        fixture_tick(&f);
    }
    assert_null(sleeper_series(&f));
    assert_int_equal(series_of(&f, "sonde_thread_state"), during - 1);
    fixture_release(&f);
}

static void live_child_ends(void **state)
{
    (void)state;
    struct fixture f;
    int pipe_fd[2];
    fixture_init(&f, &sonde_probe_process);
    f.env.proc_root = "/proc";
    assert_int_equal(pipe(pipe_fd), 0);
    const pid_t child = fork();
    if (child == 0) {
        char c;
        close(pipe_fd[1]);
        if (read(pipe_fd[0], &c, 1) != 0) _exit(1);
        _exit(0);
    }
    assert_true(child > 0);
    close(pipe_fd[0]);
    const uint32_t pid = (uint32_t)child;
    assert_non_null(sonde_model_process(f.model, pid, sonde__start_time(pid), "child"));
    fixture_open(&f);
    fixture_tick(&f);
    /* A sanitizer may have a thread of its own in it. */
    assert_true(value(&f, "sonde_process_threads", "process=\"child\"") >= 1);
    close(pipe_fd[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    fixture_tick(&f);
    assert_int_equal(series_of(&f, "sonde_process_threads"), 0);
    assert_int_equal(series_of(&f, "sonde_thread_state"), 0);
    assert_int_equal(series_of(&f, "sonde_process_cpu_seconds_total"), 2);
    fixture_release(&f);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* In the steady state a tick allocates nothing: an allocation that fails changes nothing. */
static void live_steady_state(void **state)
{
    (void)state;
    struct fixture f;
    live_setup(&f);
    for (int i = 0; i < 12; i++) fixture_tick(&f);
    const size_t count = f.model->series_count;
    const int64_t live = sonde__alloc_live();
    sonde__alloc_fail_nth(1);
    for (int i = 0; i < 12; i++) f.ops->read(f.probe, &f.env);
    sonde__alloc_fail_nth(0);
    assert_int_equal(f.model->series_count, count);
    assert_int_equal(sonde__alloc_live(), live);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),
        cmocka_unit_test(ended_without_memory),
        cmocka_unit_test(utilization),
        cmocka_unit_test(absent_files),
        cmocka_unit_test(run_delay),
        cmocka_unit_test(cgroup_quota),
        cmocka_unit_test(slow_files_are_read_rarely),
        cmocka_unit_test(names),
        cmocka_unit_test(threads_come_and_go),
        cmocka_unit_test(resting_threads),
        cmocka_unit_test(too_many_threads),
        cmocka_unit_test(vanishing_pids),
        cmocka_unit_test(forgotten_and_found_again),
        cmocka_unit_test(new_processes_count_from_zero),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(live_cpu),
        cmocka_unit_test(live_memory),
        cmocka_unit_test(live_files_and_limits),
        cmocka_unit_test(live_threads),
        cmocka_unit_test(live_child_ends),
        cmocka_unit_test(live_steady_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
