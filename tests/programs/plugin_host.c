/* plugin_host MODE DIR - a program with a copy of libsonde that loads plugins with others. DIR is
 * where the plugins are. Exits 1 and says why if a count is wrong. See
 * tests/e2e/test_plugins.sh. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/plugin/plugin.h"
#include "unit/record/child.h"
#include "unit/record/readback.h"

#define THREADS 4

static const char *dir;
static struct readback_hist seen;

struct plugin { void *handle; plugin_work_fn *work; };

static struct plugin load(const char *name, int flags)
{
    char path[512];
    struct plugin p;
    snprintf(path, sizeof(path), "%s/%s.so", dir, name);
    p.handle = dlopen(path, RTLD_NOW | flags);
    if (!p.handle) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(1);
    }
    *(void **)&p.work = dlsym(p.handle, "plugin_work");
    NEED(p.work);
    return p;
}

static unsigned lines_of_maps(void)
{
    unsigned lines = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    NEED(f);
    for (int c; (c = fgetc(f)) != EOF;) lines += c == '\n';
    fclose(f);
    return lines;
}

/* Attaches the program's own copy, if it has not recorded yet. */
static void expect_total(uint64_t n)
{
    NEED_EQ(readback_counter(sonde_counter("plugin_total", "Calls.")), n);
    readback_hist(sonde_hist("plugin_seconds", "Durations.", 1e-9), &seen);
    NEED_EQ(seen.count, n);
    uint64_t labelled = 0;
    for (uint32_t id = 1; id < sonde__g.h->series_count; id++) {
        const struct sonde__series *s = sonde__series_at(id);
        if (!strcmp(sonde__family_name(s->family), "plugin_labelled_total")) {
            labelled += readback_counter((struct sonde_counter){ 8ull * id });
        }
    }
    NEED_EQ(labelled, n);
    for (int i = 0; i < SONDE__DROP_COUNT; i++) NEED_EQ(sonde__g.h->drops[i], 0);
}

/* ---- Loaded and unloaded a thousand times, used by threads that live on ---------------------- */

static pthread_barrier_t begin, end;
static plugin_work_fn *current; /* NULL: leave */

static void *pool_thread(void *arg)
{
    for (;;) {
        pthread_barrier_wait(&begin);
        if (!current) return NULL;
        current(3, *(const unsigned *)arg);
        pthread_barrier_wait(&end);
    }
}

static void reload(const char *name)
{
    static unsigned ids[THREADS] = { 0, 10, 20, 30 };
    pthread_t t[THREADS];
    unsigned maps = 0;
    pthread_barrier_init(&begin, NULL, THREADS + 1);
    pthread_barrier_init(&end, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) NEED(!pthread_create(&t[i], NULL, pool_thread, &ids[i]));
    for (int round = 0; round < 1000; round++) {
        const struct plugin p = load(name, RTLD_LOCAL);
        current = p.work;
        pthread_barrier_wait(&begin);
        pthread_barrier_wait(&end);
        NEED(!dlclose(p.handle));
        const unsigned lines = lines_of_maps();
        if (round == 20) maps = lines;
        else if (round > 20) NEED(lines <= maps + 4); /* a heap may be split, once */
    }
    current = NULL;
    pthread_barrier_wait(&begin);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    expect_total(1000 * THREADS * 3);
    NEED(sonde__g.h->lane_count <= 1 + sonde__g.h->lanes_shared + THREADS + 1);
}

/* ---- All at once ----------------------------------------------------------------------------- */

static const char *const names[] = { "plugin_hidden", "plugin_exported", "plugin_shared" };

#define EACH 20000u

static void *run(void *arg)
{
    (*(plugin_work_fn **)arg)(EACH, 7);
    return NULL;
}

static void own_work(uint64_t n, unsigned id)
{
    (void)id;
    const struct sonde_counter total = sonde_counter("plugin_total", "Calls.");
    const struct sonde_hist hist = sonde_hist("plugin_seconds", "Durations.", 1e-9);
    const struct sonde_metric m = { .size = sizeof(m),
                                    .name = "plugin_labelled_total",
                                    .labels = (const char *const[]){ "id", NULL } };
    struct sonde_family f;
    NEED(!sonde_define(SONDE_COUNTER, &m, &f));
    for (uint64_t i = 0; i < n; i++) {
        sonde_counter_add(total, 1);
        sonde_hist_record(hist, i);
        sonde_counter_add(sonde_counter_bind(f, (const char *const[]){ "own" }), 1);
    }
}

static void together(int flags)
{
    struct plugin p[3];
    plugin_work_fn *work[4];
    pthread_t t[8];
    for (int i = 0; i < 3; i++) {
        p[i] = load(names[i], flags);
        work[i] = p[i].work;
    }
    work[3] = own_work;
    for (int i = 0; i < 8; i++) NEED(!pthread_create(&t[i], NULL, run, &work[i % 4]));
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
    expect_total(8 * EACH);

    /* One goes and comes back while the others record. */
    for (int i = 0; i < 6; i++) NEED(!pthread_create(&t[i], NULL, run, &work[1 + i % 3]));
    uint64_t more = 0;
    for (int i = 0; i < 100; i++) {
        NEED(!dlclose(p[0].handle));
        p[0] = load(names[0], flags);
        p[0].work(5, 3);
        more += 5;
    }
    for (int i = 0; i < 6; i++) pthread_join(t[i], NULL);
    expect_total(14 * EACH + more);
}

/* ---- Forked ---------------------------------------------------------------------------------- */

static void expect_child_ok(pid_t pid)
{
    int status = -1;
    NEED(pid > 0 && waitpid(pid, &status, 0) == pid);
    NEED_EQ(status, 0);
}

static unsigned own_files(void)
{
    char command[300];
    unsigned n = 99;
    snprintf(command, sizeof(command), "ls %s | grep -c '^%d[.]'", getenv("SONDE_DIR"),
             (int)getpid());
    FILE *f = popen(command, "r");
    NEED(f && fscanf(f, "%u", &n) == 1);
    pclose(f);
    return n;
}

/* A child of a process with several copies: each finds out by itself that it was forked, in any
 * order, and all come to one segment that starts at zero. */
static void forked(void)
{
    static const int orders[][4] = { { 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 1, 3, 0, 2 } };
    struct plugin p[3];
    plugin_work_fn *work[4];
    for (int i = 0; i < 3; i++) {
        p[i] = load(names[i], RTLD_LOCAL);
        work[i] = p[i].work;
    }
    work[3] = own_work;
    for (int i = 0; i < 4; i++) work[i](10, 0);
    expect_total(40);
    for (int o = 0; o < 3; o++) {
        const pid_t pid = fork();
        if (pid == 0) {
            for (int i = 0; i < 4; i++) work[orders[o][i]](10, 0);
            expect_total(40);
            NEED_EQ(own_files(), 1);
            const pid_t grandchild = fork();
            if (grandchild == 0) {
                pthread_t t[8];
                for (int i = 0; i < 8; i++) NEED(!pthread_create(&t[i], NULL, run, &work[i % 4]));
                for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
                expect_total(8 * EACH);
                NEED_EQ(own_files(), 1);
                _exit(0);
            }
            expect_child_ok(grandchild);
            expect_total(40);
            _exit(0);
        }
        expect_child_ok(pid);
    }
    expect_total(40);
    NEED_EQ(own_files(), 1);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: plugin_host reload|reload-beside|together|together-global|forked|"
                        "exit-loaded|exit-shared DIR\n");
        return 2;
    }
    const char *mode = argv[1];
    dir = argv[2];
    if (!strcmp(mode, "reload")) {
        reload("plugin_hidden");
    } else if (!strcmp(mode, "reload-beside")) {
        sonde_counter("own_total", "x"); /* this copy is there all the time */
        reload("plugin_exported");
    } else if (!strcmp(mode, "together")) {
        together(RTLD_LOCAL);
    } else if (!strcmp(mode, "together-global")) {
        together(RTLD_GLOBAL);
    } else if (!strcmp(mode, "forked")) {
        forked();
    } else if (!strcmp(mode, "exit-loaded")) {
        load("plugin_hidden", RTLD_LOCAL).work(1, 1);
        own_work(1, 1);
    } else if (!strcmp(mode, "exit-shared")) {
        load("plugin_hidden", RTLD_LOCAL).work(1, 1);
        load("plugin_shared", RTLD_LOCAL).work(1, 1);
    } else {
        fprintf(stderr, "plugin_host: unknown mode %s\n", mode);
        return 2;
    }
    return 0;
}
