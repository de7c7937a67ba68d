/* heap_run.h - tests: a program under the heap profiler, what it said, and what the profile
 * says. */
#ifndef SONDE_TEST_PRELOAD_HEAP_HEAP_RUN_H
#define SONDE_TEST_PRELOAD_HEAP_HEAP_RUN_H

#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "unit/preload/heap/heap_read.h"

static char dir[64];         /* of segments */
static char build[4096];     /* where programs and libraries are */
static char library[4352];   /* libsonde_preload.so; "" = not built (sanitizers) */
static int agent_lock = -1;  /* held, so that segments stay */

struct run {
    pid_t pid;
    int status;
    char text[65536];        /* what it printed */
    struct view v;
};

struct truth { unsigned long start, stop, allocs, bytes, frees, freed; };

static int set_up(void **state)
{
    char path[4352];
    struct stat st;
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/sonde-mem-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    const ssize_t n = readlink("/proc/self/exe", build, sizeof(build) - 1);
    if (n <= 0) return -1;
    build[n] = '\0';
    dirname(dirname(build)); /* …/tests/unit_preload_test_mem */
    snprintf(library, sizeof(library), "%s/libsonde_preload.so", build);
    if (stat(library, &st) != 0) library[0] = '\0';
    snprintf(path, sizeof(path), "%s/agent.lock", dir);
    agent_lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return agent_lock < 0 || flock(agent_lock, LOCK_EX | LOCK_NB);
}

static void segments_remove(void)
{
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] >= '0' && e->d_name[0] <= '9') unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
}

static int tear_down(void **state)
{
    char path[128];
    (void)state;
    segments_remove();
    snprintf(path, sizeof(path), "%s/agent.lock", dir);
    unlink(path);
    close(agent_lock);
    return rmdir(dir);
}

#define NEED_LIBRARY()                                                                         \
    do {                                                                                       \
        if (!library[0]) skip();                                                               \
    } while (0)

static void child_main(const char *heap, const char *preload, const char *const *args, int out)
{
    char path[4352], both[9000];
    char *argv[16] = { path };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof(path), "%s%s%s", args[0][0] == '/' ? "" : build,
             args[0][0] == '/' ? "" : "/programs/", args[0]);
    for (int i = 1; i < 15 && args[i]; i++) argv[i] = (char *)(uintptr_t)args[i];
    snprintf(both, sizeof(both), "%s%s%s", library, preload ? ":" : "", preload ? preload : "");
    if (heap) setenv("SONDE_HEAP", heap, 1);
    setenv("LD_PRELOAD", both, 1);
    setenv("SONDE_DIR", dir, 1);
    dup2(out, 1);
    execv(path, argv);
    _exit(127);
}

/* To its end. heap: SONDE_HEAP; preload: another library behind ours, or NULL. */
static void run_program(struct run *r, const char *heap, const char *preload,
                        const char *const *args)
{
    int out[2];
    size_t len = 0;
    memset(r, 0, sizeof(*r));
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    r->pid = fork();
    assert_true(r->pid >= 0);
    if (r->pid == 0) child_main(heap, preload, args, out[1]);
    close(out[1]);
    for (ssize_t n; (n = read(out[0], r->text + len, sizeof(r->text) - 1 - len)) > 0;) {
        len += (size_t)n;
    }
    close(out[0]);
    assert_int_equal(waitpid(r->pid, &r->status, 0), r->pid);
    if (r->status != 0) fail_msg("%s ended with %#x:\n%s", args[1], r->status, r->text);
    if (heap && view_open(&r->v, dir, r->pid)) fail_msg("%s left no heap profile", args[1]);
}

static void run_done(struct run *r)
{
    view_close(&r->v);
    segments_remove();
}

static struct truth truth_of(const struct run *r, const char *name)
{
    struct truth t;
    char pattern[64];
    snprintf(pattern, sizeof(pattern), "site %s ", name);
    const char *p = strstr(r->text, pattern);
    if (!p) fail_msg("nothing is said about site %s:\n%s", name, r->text);
    assert_int_equal(sscanf(p + strlen(pattern), "%lx %lx %lu %lu %lu %lu", &t.start, &t.stop,
                            &t.allocs, &t.bytes, &t.frees, &t.freed), 6);
    return t;
}

static inline struct sonde__heap_row row_of(const struct run *r, const char *name)
{
    const struct truth t = truth_of(r, name);
    return view_range(&r->v, t.start, t.stop);
}

#endif
