/* Reading while others write: threads of a real process that count, time and trace at full speed,
 * and tell by shared memory how far they are. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collect/collector.h"

enum { THREADS = 3, RECORDS = 60000, KILLS = 12 };

static char dir[64];
static uint64_t *progress; /* by thread, 8 words apart; records done, told after each */

static struct sonde_counter counter;
static struct sonde_hist hist;

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/sonde-test-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    setenv("SONDE_DIR", dir, 1);
    progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return progress == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    munmap(progress, 4096);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

static void *work(void *arg)
{
    uint64_t *done = arg;
    for (uint64_t i = 0; i < RECORDS; i++) {
        SONDE_SCOPE("work");
        sonde_counter_add(counter, 1);
        sonde_hist_record(hist, 1 + i % 1000);
        __atomic_store_n(done, i + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static pid_t child_start(void)
{
    memset(progress, 0, 4096);
    pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* not to outlive a test that fails */
    pthread_t threads[THREADS];
    counter = sonde_counter("work_total", "Work.");
    hist = sonde_hist("work_items", "Work.", 1);
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, progress + i * 8) != 0) _exit(1);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    exit(0);
}

static uint64_t progress_sum(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++) sum += __atomic_load_n(progress + i * 8, __ATOMIC_ACQUIRE);
    return sum;
}

static struct sonde_model_series *find(struct sonde_model *m, const char *name)
{
    for (size_t i = 0; i < m->family_count; i++) {
        if (strcmp(m->families[i]->name, name) == 0 && m->families[i]->series_count > 0) {
            return m->families[i]->series[0];
        }
    }
    return NULL;
}

static struct sonde_collector *agent(void)
{
    struct sonde_collector_options o = { .agent = 1, .retain_s = 1000 };
    struct sonde_collector *c = NULL;
    assert_int_equal(sonde_collector_create(&o, &c, NULL), 0);
    return c;
}

/* Nothing goes back, nothing runs ahead, and at the end every record is there. */
static void totals_are_exact(void **state)
{
    (void)state;
    struct sonde_collector *c = agent();
    struct sonde_model *m = sonde_collector_model(c);
    pid_t pid = child_start();
    uint64_t counted = 0, timed = 0;
    int status = 0, ended = 0;
    while (!ended) {
        ended = waitpid(pid, &status, WNOHANG) == pid;
        uint64_t before = progress_sum();
        sonde_collector_step(c);
        uint64_t after = progress_sum();
        struct sonde_model_series *s = find(m, "work_total"), *h = find(m, "work_items");
        if (!s || !h || !h->hist) continue;
        assert_true(s->counter >= counted && h->hist->count >= timed);
        assert_true(s->counter >= before && s->counter <= after + THREADS);
        counted = s->counter;
        timed = h->hist->count;
    }
    assert_int_equal(status, 0);
    assert_int_equal(counted, THREADS * RECORDS);
    assert_int_equal(timed, THREADS * RECORDS);
    struct sonde_model_process *p = m->processes[0];
    assert_int_equal(p->spans_seen + p->spans_lost, THREADS * RECORDS);
    struct sonde_model_series *h = find(m, "sonde_span_duration_seconds");
    assert_int_equal(h->hist->count, p->spans_seen);
    assert_int_equal(p->state, SONDE_PROCESS_EXITED);
    for (size_t i = 0; i < m->spans_max && i < m->span_next; i++) {
        assert_string_equal(m->spans[i].name, "work"); /* none is torn */
        assert_true(m->spans[i].duration_ns < 100000000000u);
    }
    sonde_collector_destroy(c);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Killed at any instant: what each thread told, plus at most the record it was in. */
static void killed_at_any_instant(void **state)
{
    (void)state;
    for (int kills = 0; kills < KILLS; kills++) {
        struct sonde_collector *c = agent();
        struct sonde_model *m = sonde_collector_model(c);
        pid_t pid = child_start();
        while (progress_sum() < (uint64_t)(1 + kills * 4001)) {
        }
        kill(pid, SIGKILL);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        uint64_t told = progress_sum();
        sonde_collector_step(c);
        uint64_t counted = find(m, "work_total")->counter;
        uint64_t timed = find(m, "work_items")->hist->count;
        assert_true(counted >= told && counted <= told + THREADS);
        assert_true(timed >= told && timed <= told + THREADS);
        sonde_collector_destroy(c);
        char command[128];
        snprintf(command, sizeof(command), "rm -f %s/[0-9]*", dir);
        assert_int_equal(system(command), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(totals_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_at_any_instant, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
