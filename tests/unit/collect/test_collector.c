/* The collector on real processes: forked children that record, end, are killed or replaced. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "collect/collector.h"
#include "collect/discover.h"
#include "collect/preload_targets.h"
#include "unit/collect/segment/segment_build.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/sonde-test-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    setenv("SONDE_DIR", dir, 1);
    return sonde_log_open(SONDE_LOG_ERROR, NULL);
}

static int count_files(int remove)
{
    int n = 0;
    char command[128];
    snprintf(command, sizeof(command), "ls %s | grep -c '^[0-9]'", dir);
    FILE *p = popen(command, "r");
    if (fscanf(p, "%d", &n) != 1) n = -1;
    pclose(p);
    if (remove) {
        snprintf(command, sizeof(command), "rm -rf %s", dir);
        if (system(command) != 0) n = -1;
    }
    return n;
}

static int teardown(void **state)
{
    (void)state;
    count_files(1);
    assert_int_equal(sonde__alloc_live(), 0);
    return 0;
}

static struct sonde_collector *collector(int agent, double retain_s, uint32_t pid)
{
    struct sonde_collector_options o = { .agent = agent, .retain_s = retain_s, .pid = pid };
    struct sonde_collector *c = NULL;
    struct sonde_err err = { "" };
    if (sonde_collector_create(&o, &c, &err) != 0) print_error("%s\n", err.text);
    assert_non_null(c);
    return c;
}

static struct sonde_model_series *find(struct sonde_collector *c, const char *name, uint32_t pid)
{
    struct sonde_model *m = sonde_collector_model(c);
    for (size_t i = 0; i < m->family_count; i++) {
        if (strcmp(m->families[i]->name, name) != 0) continue;
        for (size_t k = 0; k < m->families[i]->series_count; k++) {
            struct sonde_model_series *s = m->families[i]->series[k];
            if (pid == 0 ? !s->process : s->process && s->process->pid == pid) return s;
        }
    }
    return NULL;
}

static void wait_for(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void pause_ms(long ms)
{
    struct timespec t = { .tv_nsec = ms * 1000000 };
    nanosleep(&t, NULL);
}

/* Children do not outlive a test that fails. */
static pid_t child_fork(void)
{
    pid_t pid = fork();
    if (pid == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

/* A child that records, tells so, and then ends by itself or waits to be killed. */
static pid_t child_start(int ends)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = child_fork();
    if (pid == 0) {
        struct sonde_config config = { .size = sizeof(config), .name = "child" };
        if (sonde_open(&config) != 0) _exit(1);
        struct sonde_counter c = sonde_counter("work_total", "Work.");
        struct sonde_hist h = sonde_hist("work_seconds", "Work.", 1e-9);
        for (uint64_t i = 0; i < 1000; i++) {
            SONDE_SCOPE("work");
            sonde_counter_add(c, 1);
            sonde_hist_record_traced(h, i * 1000);
        }
        if (write(ready[1], "x", 1) != 1) _exit(1);
        if (ends) exit(0);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void check_child(struct sonde_collector *c, pid_t pid, enum sonde_process_state state)
{
    struct sonde_model_series *s = find(c, "work_total", (uint32_t)pid);
    assert_non_null(s);
    assert_int_equal(s->counter, 1000);
    assert_string_equal(s->process->program, "child");
    assert_int_equal(s->process->state, state);
    assert_int_equal(s->process->ended_s > 0, state != SONDE_PROCESS_RUNNING);
    s = find(c, "work_seconds", (uint32_t)pid);
    assert_int_equal(s->hist->count, 1000);
    assert_true(s->exemplar_count > 0);
    s = find(c, "sonde_span_duration_seconds", (uint32_t)pid);
    assert_int_equal(s->hist->count, 1000);
    assert_int_equal(s->process->spans_seen, 1000);
    assert_int_equal(find(c, "sonde_spans_lost_total", (uint32_t)pid)->counter, 0);
}

static void check_newest_span(struct sonde_collector *c)
{
    struct sonde_model *m = sonde_collector_model(c);
    assert_true(m->span_next > 0);
    const struct sonde_model_span *span = &m->spans[(m->span_next - 1) % m->spans_max];
    assert_string_equal(span->name, "work");
    double age_s = m->now_s - (double)span->start_ns * 1e-9;
    assert_true(age_s > -1 && age_s < 600);
    assert_true(m->spans_s >= (double)(span->start_ns + span->duration_ns) * 1e-9 - 1e-3);
    assert_true(span->duration_ns > 0 && span->duration_ns < 600000000000u);
}

static void exited_and_killed(void **state)
{
    (void)state;
    struct sonde_collector *c = collector(1, 1000, 0);
    pid_t killed = child_start(0);
    sonde_collector_step(c);
    check_child(c, killed, SONDE_PROCESS_RUNNING);
    check_newest_span(c);
    pid_t exited = child_start(1);
    wait_for(exited);
    kill(killed, SIGKILL);
    pause_ms(1);
    while (sonde_proc_stat((uint32_t)killed, &(struct sonde_proc_stat){ 0 }) == 0) pause_ms(1);
    sonde_collector_step(c); /* the killed one is not reaped yet: gone all the same */
    check_child(c, killed, SONDE_PROCESS_KILLED);
    check_child(c, exited, SONDE_PROCESS_EXITED);
    wait_for(killed);
    sonde_collector_destroy(c);

    /* An agent that comes later counts all of it: the first one goes on with its state, for others
     * it is in the rings. */
    for (int agent = 1; agent >= 0; agent--) {
        c = collector(agent, 1000, 0);
        sonde_collector_step(c);
        check_child(c, killed, SONDE_PROCESS_KILLED);
        check_child(c, exited, SONDE_PROCESS_EXITED);
        assert_int_equal(count_files(0), 2);
        if (!agent) check_newest_span(c);
        sonde_collector_destroy(c);
    }
}

static void *wait_for_good(void *arg)
{
    for (;;) pause();
    return arg;
}

static char state_letter(pid_t pid)
{
    char path[64], letter = '?';
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%*d %*s %c", &letter) != 1) letter = '?';
    if (f) fclose(f);
    return letter;
}

/* The main thread may end before the others do: the process goes on. */
static void main_thread_ends(void **state)
{
    (void)state;
    struct sonde_proc_stat st;
    const pid_t pid = child_fork();
    if (pid == 0) {
        pthread_t other;
        if (pthread_create(&other, NULL, wait_for_good, NULL)) _exit(1);
        pthread_exit(NULL);
    }
    for (int i = 0; i < 6000 && state_letter(pid) != 'Z'; i++) pause_ms(10);
    assert_int_equal(state_letter(pid), 'Z');
    assert_int_equal(sonde_proc_stat((uint32_t)pid, &st), 0);
    assert_int_equal(st.ppid, getpid());
    kill(pid, SIGKILL);
    int rc = 0;
    for (int i = 0; i < 6000 && rc == 0; i++) {
        rc = sonde_proc_stat((uint32_t)pid, &st);
        if (rc == 0) pause_ms(10);
    }
    assert_int_equal(rc, SONDE_ENOENT); /* though nobody has waited for it yet */
    wait_for(pid);
}

static void retention(void **state)
{
    (void)state;
    struct sonde_collector *c = collector(1, 0.01, 0), *looker = collector(0, 0.01, 0);
    pid_t pid = child_start(1);
    wait_for(pid);
    sonde_collector_step(looker);
    sonde_collector_step(c);
    check_child(c, pid, SONDE_PROCESS_EXITED);
    pause_ms(15);
    sonde_collector_step(looker); /* forgets, but leaves the file to the agent */
    assert_null(find(looker, "work_total", (uint32_t)pid));
    assert_int_equal(count_files(0), 1);
    sonde_collector_step(looker);
    assert_null(find(looker, "work_total", (uint32_t)pid));
    sonde_collector_step(c);
    assert_null(find(c, "work_total", (uint32_t)pid));
    assert_int_equal(sonde_collector_model(c)->process_count, 0);
    assert_int_equal(count_files(0), 0);
    sonde_collector_destroy(looker);
    sonde_collector_destroy(c);
}

static void step_for_ms(struct sonde_collector *c, int ms)
{
    for (int i = 0; i < ms; i += 100) {
        pause_ms(100);
        sonde_collector_step(c);
    }
}

/* Of a program that is recorded the files of its children go long before what they said is
 * forgotten, but not before another reader in this process has them open. */
static void children_that_ended(void **state)
{
    (void)state;
    struct sonde_preload_targets reader;
    struct sonde_err err;
    const uint32_t me = (uint32_t)getpid();
    struct sonde_collector *c = collector(1, 1000, me);
    struct sonde_preload_readers *readers = sonde_collector_readers(c);
    assert_true(sonde_preload_readers_scanned_ns(readers) == UINT64_MAX);
    assert_int_equal(sonde_preload_init(&reader, readers, dir, me, 1, 0,
                                        sizeof(*reader.targets[0]), &err), 0);
    assert_int_equal(sonde_preload_readers_scanned_ns(readers), 0);
    const pid_t pid = child_start(1);
    wait_for(pid);
    sonde_collector_step(c);
    check_child(c, pid, SONDE_PROCESS_EXITED);
    step_for_ms(c, 2500);
    assert_int_equal(count_files(0), 1);

    sonde_preload_scan(&reader);
    assert_int_equal(reader.target_count, 1);
    for (int i = 0; i < 300 && count_files(0) > 0; i++) step_for_ms(c, 100);
    assert_int_equal(count_files(0), 0);
    check_child(c, pid, SONDE_PROCESS_EXITED); /* still known */

    sonde_preload_scan(&reader);
    assert_int_equal(reader.target_count, 1); /* it is not done with */
    assert_non_null(reader.targets[0]->segment);
    sonde_preload_look(&reader, reader.targets[0]);
    assert_int_equal(reader.targets[0]->gone, 1);
    sonde_preload_close(reader.targets[0]);
    sonde_preload_scan(&reader);
    assert_int_equal(reader.target_count, 0);
    sonde_preload_release(&reader);
    assert_true(sonde_preload_readers_scanned_ns(readers) == UINT64_MAX);
    sonde_collector_destroy(c);
}

/* Without an agent the program removes its file; who has it mapped still reads the rest. */
static void file_is_gone(void **state)
{
    (void)state;
    struct sonde_collector *c = collector(0, 1000, 0);
    pid_t pid = child_start(0);
    sonde_collector_step(c);
    char command[128];
    snprintf(command, sizeof(command), "rm %s/[0-9]*", dir);
    assert_int_equal(system(command), 0);
    kill(pid, SIGKILL);
    wait_for(pid);
    sonde_collector_step(c);
    check_child(c, pid, SONDE_PROCESS_KILLED);
    sonde_collector_destroy(c);
}

static void lock_tells_of_agents(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof(path), "%s/agent.lock", dir);
    struct sonde_collector *a = collector(1, 0, 0), *b = collector(1, 0, 0);
    int fd = open(path, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
    sonde_collector_destroy(a);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
    sonde_collector_destroy(b);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    close(fd);
}

/* Agents that start at the same instant write over each other's process ids: what is left of that
 * is written over too, and anything else is somebody's own. */
static void lock_says_who_came_last(void **state)
{
    (void)state;
    static const struct { const char *text; int ours; } cases[] = {
        { "", 1 },         { "7\n", 1 },                { "4194304\n", 1 }, { "99\n4304\n", 1 },
        { "99\n45\n", 1 }, { "7", 0 },                  { "mine\n", 0 },    { "7 8\n", 0 },
        { "-7\n", 0 },     { "0123456789012345\n", 0 },
    };
    char path[128], own[32], text[64];
    struct sonde_err err = { "" };
    snprintf(path, sizeof(path), "%s/agent.lock", dir);
    snprintf(own, sizeof(own), "%d\n", (int)getpid());
    const int dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const size_t len = strlen(cases[i].text);
        const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(write(fd, cases[i].text, len), len);
        const int lock = sonde_discover_lock(dirfd, &err);
        assert_true(lock >= 0);
        const ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
        assert_true(n >= 0);
        text[n] = 0;
        assert_string_equal(text, cases[i].ours ? own : cases[i].text);
        close(lock);
        close(fd);
    }
    close(dirfd);
    unlink(path);
}

/* Segments made by hand under this process's own name, so that they are alive. */
static void write_sample(int dirfd, uint32_t pid, uint64_t start, uint32_t n, const char *program)
{
    struct build b;
    char name[48];
    build_init(&b, pid, start, program);
    build_sample(&b);
    if (n) snprintf(name, sizeof(name), "%u.%llu.%u", pid, (unsigned long long)start, n);
    else snprintf(name, sizeof(name), "%u.%llu", pid, (unsigned long long)start);
    build_write(&b, dirfd, name, b.bytes);
    build_free(&b);
}

/* Files of the dead are memory: an agent keeps no more than a few, however long it retains what
 * they said. */
static void many_dead(void **state)
{
    (void)state;
    uint32_t pids[80];
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    for (uint32_t i = 0; i < 80; i++) {
        pids[i] = 4200000 + i; /* no pid is that high */
        write_sample(fd, pids[i], 1, 0, "dead");
    }
    close(fd);
    struct sonde_collector *c = collector(1, 1000, 0), *looker = collector(0, 1000, 0);
    sonde_collector_step(c);
    assert_int_equal(count_files(0), 80); /* others had no time to read them yet */
    for (int i = 0; i < 300 && count_files(0) > 64; i++) step_for_ms(c, 100);
    assert_int_equal(count_files(0), 64);
    step_for_ms(c, 300);
    step_for_ms(looker, 100);
    assert_int_equal(count_files(0), 64);
    for (uint32_t i = 0; i < 80; i++) assert_non_null(find(c, "app_done_total", pids[i]));
    sonde_collector_destroy(looker);
    sonde_collector_destroy(c);
}

/* Where they come by hundreds nobody else can have read them all, and they do not wait for it. */
static void rush_of_dead(void **state)
{
    (void)state;
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    for (uint32_t i = 0; i < 300; i++) write_sample(fd, 4200000 + i, 1, 0, "dead");
    close(fd);
    struct sonde_collector *c = collector(1, 1000, 0);
    sonde_collector_step(c);
    assert_int_equal(count_files(0), 96);
    for (uint32_t i = 0; i < 300; i++) assert_non_null(find(c, "app_done_total", 4200000 + i));
    sonde_collector_destroy(c);
}

static void append_bytes(const char *path, size_t count)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_true(fd >= 0);
    for (size_t i = 0; i < count; i++) assert_int_equal(write(fd, "", 1), 1);
    close(fd);
}

/* Processes that had no room for a segment: since the agent began, also if another agent begins the
 * file anew. Who is not an agent counts all that are told, and leaves the file alone. */
static void missed_processes(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, SONDE__MISSED_NAME);
    append_bytes(path, 5);
    struct sonde_collector *c = collector(1, 0, 0), *looker = collector(0, 0, 0);
    assert_int_equal(sonde_collector_missed(c), 0);
    assert_int_equal(sonde_collector_missed(looker), 5);
    sonde_collector_destroy(looker);
    append_bytes(path, 3);
    sonde_collector_step(c);
    assert_int_equal(find(c, "sonde_agent_missed_processes_total", 0)->counter, 3);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sonde_collector_missed(c), 3);
    append_bytes(path, 2);
    assert_int_equal(sonde_collector_missed(c), 5);
    sonde_collector_destroy(c);
    assert_int_equal(access(path, F_OK), -1);
}

static void images_of_one_process(void **state)
{
    (void)state;
    struct sonde_collector *c = collector(0, 0, 0);
    struct sonde_model *m = sonde_collector_model(c);
    uint32_t me = (uint32_t)getpid();
    uint64_t start = sonde__start_time(me);
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    write_sample(fd, me, start, 0, "shell");
    sonde_collector_step(c);
    assert_int_equal(m->processes[0]->state, SONDE_PROCESS_RUNNING);
    write_sample(fd, me, start, 1, "server");
    sonde_collector_step(c);
    assert_int_equal(m->process_count, 2);
    assert_int_equal(m->processes[0]->state, SONDE_PROCESS_EXITED);
    assert_int_equal(m->processes[1]->state, SONDE_PROCESS_RUNNING);
    write_sample(fd, me, start, 2, "server"); /* executed itself: goes on counting */
    sonde_collector_step(c);
    assert_int_equal(m->process_count, 2);
    assert_int_equal(m->processes[1]->state, SONDE_PROCESS_RUNNING);
    for (size_t i = 0; i < m->family_count; i++) {
        if (strcmp(m->families[i]->name, "app_done_total") != 0) continue;
        assert_int_equal(m->families[i]->series_count, 2);
        assert_int_equal(m->families[i]->series[0]->counter, 400);
        assert_int_equal(m->families[i]->series[1]->counter, 800);
    }
    close(fd);
    sonde_collector_destroy(c);
}

/* The same pid and program again: one set of series, that of the later process. */
static void pid_comes_back(void **state)
{
    (void)state;
    for (int both = 0; both <= 1; both++) {
        struct sonde_collector *c = collector(0, 0, 0);
        struct sonde_model *m = sonde_collector_model(c);
        uint32_t me = (uint32_t)getpid();
        uint64_t start = sonde__start_time(me);
        int fd = open(dir, O_RDONLY | O_DIRECTORY);
        write_sample(fd, me, start - 1, 0, "again");
        if (!both) {
            sonde_collector_step(c);
            assert_int_equal(m->processes[0]->state, SONDE_PROCESS_KILLED);
        }
        write_sample(fd, me, start, 0, "again");
        for (int i = 0; i < 2; i++) {
            sonde_collector_step(c);
            assert_int_equal(m->process_count, 1);
            assert_int_equal(m->processes[0]->start_time, start);
            assert_int_equal(m->processes[0]->state, SONDE_PROCESS_RUNNING);
            assert_int_equal(find(c, "app_done_total", me)->counter, 400);
        }
        close(fd);
        sonde_collector_destroy(c);
    }
}

static void refusals(void **state)
{
    (void)state;
    struct sonde_collector *c = collector(0, 0, 0);
    struct sonde_collector_refusal r[4];
    uint32_t me = (uint32_t)getpid();
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    struct build b;
    build_init(&b, me, sonde__start_time(me), "x");
    b.h->abi = 9;
    char name[48];
    snprintf(name, sizeof(name), "%u.%llu", me, (unsigned long long)sonde__start_time(me));
    build_write(&b, fd, name, b.bytes);
    write_sample(fd, me, sonde__start_time(me), 1, "good");
    build_write(&b, fd, "notes.txt", 10);
    sonde_collector_step(c);
    sonde_collector_step(c);
    assert_int_equal(sonde_collector_refusals(c, r, 4), 1);
    assert_non_null(strstr(r[0].path, name));
    assert_non_null(strstr(r[0].reason, "newer version"));
    assert_int_equal(find(c, "app_done_total", me)->counter, 400);
    assert_int_equal(find(c, "sonde_agent_refused_segments_total", 0)->counter, 1);

    /* Damage that comes later: refused then, and what was read stays. */
    snprintf(name, sizeof(name), "%u.%llu.1", me, (unsigned long long)sonde__start_time(me));
    int file = openat(fd, name, O_RDWR);
    assert_int_equal(ftruncate(file, 4096), 0);
    close(file);
    sonde_collector_step(c);
    assert_int_equal(sonde_collector_refusals(c, r, 4), 2);
    assert_non_null(strstr(r[0].reason, "cut short"));
    assert_int_equal(find(c, "app_done_total", me)->counter, 400);
    build_free(&b);
    close(fd);
    sonde_collector_destroy(c);
}

static void directories(void **state)
{
    (void)state;
    struct sonde_collector_options o = { .dir = "/nonexistent/sonde" };
    struct sonde_collector *c = NULL;
    struct sonde_err err;
    assert_int_equal(sonde_collector_create(&o, &c, &err), 0); /* nobody records yet */
    sonde_collector_step(c);
    struct sonde_collector_refusal r;
    assert_int_equal(sonde_collector_refusals(c, &r, 1), 0);
    sonde_collector_destroy(c);
    o.agent = 1;
    assert_int_equal(sonde_collector_create(&o, &c, &err), SONDE_EACCES);
    assert_non_null(strstr(err.text, "/nonexistent/sonde"));
    o = (struct sonde_collector_options){ .dir = dir };
    chmod(dir, 0777);
    assert_int_equal(sonde_collector_create(&o, &c, &err), SONDE_EACCES);
    assert_non_null(strstr(err.text, "chmod 700"));
    chmod(dir, 0700);
    char late[96];
    snprintf(late, sizeof(late), "%s/late", dir);
    o = (struct sonde_collector_options){ .dir = late, .agent = 1 };
    assert_int_equal(sonde_collector_create(&o, &c, &err), 0);
    char lock[128];
    snprintf(lock, sizeof(lock), "%s/agent.lock", late);
    assert_int_equal(access(lock, F_OK), 0);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(rmdir(late), 0);
    sonde_collector_step(c); /* somebody removed it: made and locked again */
    assert_int_equal(access(lock, F_OK), 0);
    sonde_collector_destroy(c);
}

static void one_process_only(void **state)
{
    (void)state;
    pid_t a = child_start(0), b = child_start(0);
    struct sonde_collector *c = collector(1, 0, (uint32_t)a);
    sonde_collector_step(c);
    assert_non_null(find(c, "work_total", (uint32_t)a));
    assert_null(find(c, "work_total", (uint32_t)b));
    struct sonde_collector *all = collector(0, 0, (uint32_t)getpid()); /* with its children */
    sonde_collector_step(all);
    assert_non_null(find(all, "work_total", (uint32_t)a));
    assert_non_null(find(all, "work_total", (uint32_t)b));
    sonde_collector_destroy(all);
    kill(a, SIGKILL);
    kill(b, SIGKILL);
    wait_for(a);
    wait_for(b);
    sonde_collector_step(c);
    sonde_collector_destroy(c); /* leaves nothing of a behind, and b alone */
    assert_int_equal(count_files(0), 1);
}

static void watched(void **state)
{
    (void)state;
    struct sonde_collector *c = collector(0, 0.01, 0);
    struct sonde_model *m = sonde_collector_model(c);
    pid_t pid = child_fork();
    if (pid == 0) {
        for (;;) pause();
    }
    sonde_collector_watch(c, (uint32_t)pid);
    sonde_collector_watch(c, (uint32_t)pid);
    sonde_collector_step(c);
    assert_int_equal(m->process_count, 1);
    assert_int_equal(m->processes[0]->pid, pid);
    assert_null(m->processes[0]->path);
    assert_true(m->processes[0]->threads >= 1);
    kill(pid, SIGKILL);
    wait_for(pid);
    sonde_collector_step(c);
    assert_int_equal(m->processes[0]->state, SONDE_PROCESS_EXITED);
    pause_ms(15);
    sonde_collector_step(c);
    assert_int_equal(m->process_count, 0);
    sonde_collector_destroy(c);
}

/* A watched process that opens a segment later is told about by it. */
static void watched_then_recording(void **state)
{
    (void)state;
    struct sonde_collector *c = collector(0, 1000, 0);
    struct sonde_model *m = sonde_collector_model(c);
    uint32_t me = (uint32_t)getpid();
    sonde_collector_watch(c, me);
    sonde_collector_step(c);
    assert_int_equal(m->process_count, 1);
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    write_sample(fd, me, sonde__start_time(me), 0, "named otherwise");
    sonde_collector_step(c);
    assert_int_equal(m->process_count, 1);
    assert_string_equal(m->processes[0]->program, "named otherwise");
    close(fd);
    sonde_collector_destroy(c);
}

static void thread(void **state)
{
    (void)state;
    struct sonde_collector_options o = { .interval_s = 0.05 };
    struct sonde_collector *c;
    assert_int_equal(sonde_collector_create(&o, &c, NULL), 0);
    pid_t pid = child_start(0);
    struct sonde_model *m = sonde_collector_model(c);
    assert_int_equal(sonde_collector_start(c, NULL), 0);
    assert_int_equal(sonde_collector_start(c, NULL), 0);
    for (;;) {
        sonde_rdlock(&m->lock);
        struct sonde_model_series *s = find(c, "work_total", (uint32_t)pid);
        int done = m->tick > 3 && s && s->counter == 1000;
        sonde_rwunlock(&m->lock);
        if (done) break;
        pause_ms(5);
    }
    sonde_collector_stop(c);
    uint64_t tick = m->tick;
    sonde_collector_step(c);
    assert_int_equal(m->tick, tick + 1);
    check_child(c, pid, SONDE_PROCESS_RUNNING);
    assert_true(find(c, "sonde_agent_series", 0)->gauge > 10);
    assert_true(find(c, "sonde_agent_memory_bytes", 0)->gauge > 100000);
    assert_true(find(c, "sonde_agent_cpu_seconds_total", 0)->counter > 0);
    assert_int_equal(sonde_collector_start(c, NULL), 0);
    sonde_collector_destroy(c); /* stops by itself */
    kill(pid, SIGKILL);
    wait_for(pid);
}

/* Rows of probe_list.h are opened as asked and put figures beside those of segments. */
static void probes(void **state)
{
    (void)state;
    uint32_t me = (uint32_t)getpid();
    for (int on = 0; on <= 1; on++) {
        struct sonde_collector_options o = { .host = on, .processes = on };
        struct sonde_collector *c;
        assert_int_equal(sonde_collector_create(&o, &c, NULL), 0);
        sonde_collector_watch(c, me);
        sonde_collector_step(c);
        sonde_collector_step(c);
        struct sonde_model *m = sonde_collector_model(c);
        size_t host = 0, process = 0;
        for (size_t i = 0; i < m->family_count; i++) {
            for (size_t k = 0; k < m->families[i]->series_count; k++) {
                const struct sonde_model_series *s = m->families[i]->series[k];
                if (s->process) process++;
                else if (strncmp(m->families[i]->name, "sonde_agent_", 12) != 0) host++;
            }
        }
        assert_int_equal(host > 0, on);
        assert_int_equal(process > 0, on);
        sonde_collector_destroy(c);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* Under `sonde run` the segment is there before the program says what it is called. */
static void named_later(void **state)
{
    (void)state;
    uint32_t me = (uint32_t)getpid(), named = SONDE__NAMED;
    uint64_t start = sonde__start_time(me);
    char file[48];
    snprintf(file, sizeof(file), "%u.%llu", me, (unsigned long long)start);
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    write_sample(dirfd, me, start, 0, "executable");
    struct sonde_collector *c = collector(0, 60, 0);
    struct sonde_model *m = sonde_collector_model(c);
    int fd = openat(dirfd, file, O_RDWR);
    const off_t name_at = offsetof(struct sonde__header, name);
    const off_t named_at = offsetof(struct sonde__header, named);
    const struct { const char *bytes, *shown; } cases[] = {
        { "", "executable" }, { "\xff\xfe", "executable" }, { "its name", "its name" },
    };
    assert_true(fd >= 0);
    sonde_collector_step(c);
    assert_int_equal(pwrite(fd, &named, sizeof(named), named_at), sizeof(named));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char name[64] = "";
        strcpy(name, cases[i].bytes);
        assert_int_equal(pwrite(fd, name, sizeof(name), name_at), sizeof(name));
        sonde_collector_step(c);
        assert_int_equal(m->process_count, 1);
        assert_string_equal(m->processes[0]->program, cases[i].shown);
        const struct sonde_model_series *s = find(c, "sonde_segment_bytes", me);
        assert_string_equal(s->labels[0].value, cases[i].shown);
    }
    close(fd);
    close(dirfd);
    sonde_collector_destroy(c);
    /* Who comes later knows it at once. */
    c = collector(0, 60, 0);
    sonde_collector_step(c);
    assert_int_equal(sonde_collector_model(c)->process_count, 1);
    assert_string_equal(sonde_collector_model(c)->processes[0]->program, "its name");
    sonde_collector_destroy(c);
}

/* KB of segments that are mapped here and count as this process's memory. */
static unsigned long mapped_kb(void)
{
    char line[512];
    unsigned long from, to, kb, sum = 0;
    int inside = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) inside = strstr(line, dir) != NULL;
        else if (inside && sscanf(line, "Rss: %lu kB", &kb) == 1) sum += kb;
    }
    fclose(f);
    return sum;
}

/* Of a few segments what was read stays mapped; of many it would be more than all else. */
static void many_live(void **state)
{
    (void)state;
    enum { FEW = 4, MANY = 80 };
    pid_t pid[MANY];
    struct sonde_collector *c = collector(1, 60, 0);
    for (int i = 0; i < FEW; i++) pid[i] = child_start(0);
    sonde_collector_step(c);
    assert_true(mapped_kb() >= FEW * 16);
    for (int i = FEW; i < MANY; i++) pid[i] = child_start(0);
    for (int i = 0; i < 3; i++) {
        sonde_collector_step(c);
        assert_true(mapped_kb() <= MANY * 8);
    }
    for (int i = 0; i < MANY; i++) check_child(c, pid[i], SONDE_PROCESS_RUNNING);
    for (int i = 0; i < MANY; i++) {
        kill(pid[i], SIGKILL);
        wait_for(pid[i]);
    }
    sonde_collector_step(c);
    for (int i = 0; i < MANY; i++) check_child(c, pid[i], SONDE_PROCESS_KILLED);
    sonde_collector_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(exited_and_killed), TEST(main_thread_ends), TEST(retention),
        TEST(children_that_ended), TEST(many_dead), TEST(rush_of_dead), TEST(missed_processes),
        TEST(many_live), TEST(named_later), TEST(file_is_gone),
        TEST(lock_tells_of_agents), TEST(lock_says_who_came_last),
        TEST(images_of_one_process), TEST(pid_comes_back), TEST(refusals), TEST(directories),
        TEST(one_process_only), TEST(watched), TEST(watched_then_recording), TEST(thread),
        TEST(probes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
