/* preload_host.h - programs that are started with libsonde_preload in them, as `sonde record` does
 * it, for tests of what looks at them from outside. Included once a test. */
#ifndef SONDE_TESTS_PRELOAD_HOST_H
#define SONDE_TESTS_PRELOAD_HOST_H

#include <dirent.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "collect/preload_targets.h"
#include "unit/collect/cpu_burn.h"

static char host_dir[64];         /* of segments */
static char host_library[4352];   /* libsonde_preload.so; "" = not built (sanitizers) */
static int host_ignores;          /* of the sampler's signals, so many are ignored in the program */

/* In the child: the environment comes through the pipe. */
static inline void host_main(int in, const char *path, char *const *argv)
{
    size_t size = 0;
    static char env[SONDE_PRELOAD_ENV_MAX];
    if (read(in, &size, sizeof(size)) != (ssize_t)sizeof(size) || size > sizeof(env)) _exit(126);
    if (size && read(in, env, size) != (ssize_t)size) _exit(126);
    for (char *at = env; at < env + size; at += strlen(at) + 1) putenv(at);
    setenv("SONDE_DIR", host_dir, 1);
    if (host_ignores > 0) signal(SIGSTKFLT, SIG_IGN);
    if (host_ignores > 1) signal(SIGPROF, SIG_IGN);
    execv(path, argv);
    _exit(127);
}

/* As burn_fork: it waits until it is given its environment. */
static inline void host_fork(struct burn *b, const char *program, const char *const *args)
{
    char path[4352];
    char *argv[BURN_ARGS + 2] = { path };
    int in[2], out[2];
    memset(b, 0, sizeof(*b));
    burn_path(program, path, sizeof(path));
    for (int i = 0; i < BURN_ARGS && args && args[i]; i++) argv[i + 1] = (char *)(uintptr_t)args[i];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    b->pid = fork();
    assert_true(b->pid >= 0);
    if (b->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], 1);
        host_main(in[0], path, argv);
    }
    close(in[0]);
    close(out[1]);
    b->go = in[1];
    b->out = fdopen(out[0], "r");
    assert_non_null(b->out);
}

static inline void host_go(struct burn *b, const char *env, size_t size)
{
    assert_int_equal(write(b->go, &size, sizeof(size)), sizeof(size));
    if (size) assert_int_equal(write(b->go, env, size), size);
}

/* A test: segments of programs that have ended are gone with their last agent. */
static inline void host_nothing_left(void **state)
{
    (void)state;
    DIR *d = opendir(host_dir);
    const struct dirent *e;
    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        struct sonde_segment_name id;
        if (sonde_segment_name_parse(e->d_name, &id) == 0) fail_msg("%s is left", e->d_name);
    }
    closedir(d);
    assert_int_equal(sonde__alloc_live(), 0);
}

static inline int host_set_up(void **state)
{
    struct stat st;
    (void)state;
    strcpy(host_dir, "/tmp/sonde-test-XXXXXX");
    assert_non_null(mkdtemp(host_dir));
    burn_path("../libsonde_preload.so", host_library, sizeof(host_library));
    if (stat(host_library, &st) != 0) host_library[0] = '\0';
    setenv("SONDE_PRELOAD", host_library, 1);
    return 0;
}

static inline int host_tear_down(void **state)
{
    char lock[128];
    (void)state;
    snprintf(lock, sizeof(lock), "%s/agent.lock", host_dir);
    unlink(lock);
    return rmdir(host_dir);
}

#endif
