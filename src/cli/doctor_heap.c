/* doctor_heap.c - can the heap of a program be profiled here? Tried on a shell that does
 * nothing. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/doctor.h"
#include "collect/preload_targets.h"
#include "collect/heap/heap.h"
#include "segment/segment.h"
#include "sonde/sonde.h"

#define WAIT_S 10

/* Run it to its end. 0, or SONDE_EIO. */
static int run_to_end(struct sonde_child *child, struct sonde_heap_reader *reader,
                      struct sonde_err *err)
{
    size_t size;
    int status;
    const char *env = sonde_heap_reader_environment(reader, &size);
    if (sonde_child_exec(child, env, size) != 0) {
        return sonde_err_set(err, SONDE_EIO, "sh cannot be run");
    }
    if (sonde_child_wait(child, WAIT_S, &status)) return 0;
    kill(child->pid, SIGKILL);
    sonde_child_wait(child, 0, &status);
    return sonde_err_set(err, SONDE_EIO, "a shell with it did not end in %d s", WAIT_S);
}

static int try_heap(const char *dir, uint64_t *allocations, struct sonde_err *err)
{
    char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char[]){ ":" }, NULL };
    struct sonde_child child;
    struct sonde_heap_reader *reader;
    int rc = sonde_child_fork(&child, argv, dir, err);
    if (rc) return rc;
    const struct sonde_heap_reader_options o = { .pid = (uint32_t)child.pid, .full = 1,
                                                 .dir = dir };
    rc = sonde_heap_reader_start_on_exec(&o, &reader, err);
    if (rc) {
        sonde_child_cancel(&child);
    } else {
        struct sonde_heap_reader_status status;
        struct sonde_profile *p = NULL;
        rc = run_to_end(&child, reader, err);
        sonde_heap_reader_status(reader, &status);
        *allocations = status.alloc_count;
        if (!rc && !status.running) rc = sonde_err_set(err, SONDE_EOFF, "%s", status.note);
        if (sonde_heap_reader_stop(reader, &p) == 0) sonde_profile_destroy(p);
    }
    sigprocmask(SIG_SETMASK, &child.found_mask, NULL);
    return rc;
}

/* A directory inside of that of segments: an agent that looks there would keep what it finds, and
 * show a shell that was killed. "" = it cannot be made. */
static void make_dir(const char *dir, char *out, size_t size)
{
    char parent[256];
    out[0] = '\0';
    if (!dir && sonde__dir_default(parent, sizeof(parent)) != 0) return;
    if (dir && (size_t)snprintf(parent, sizeof(parent), "%s", dir) >= sizeof(parent)) return;
    if (mkdir(parent, 0700) != 0 && errno != EEXIST) return;
    if ((size_t)snprintf(out, size, "%s/doctor.XXXXXX", parent) >= size || !mkdtemp(out)) {
        out[0] = '\0';
    }
}

static void remove_dir(const char *dir)
{
    char lock[512];
    if (!dir[0]) return;
    snprintf(lock, sizeof(lock), "%s/agent.lock", dir);
    unlink(lock);
    rmdir(dir);
}

void sonde_doctor_heap(struct sonde_doctor *d)
{
    const char *dir = d->cli->config.agent_dir[0] ? d->cli->config.agent_dir : NULL;
    char own[384];
    struct sonde_err err = { "" }, none = { "" };
    char library[512];
    uint64_t allocations = 0;
    make_dir(dir, own, sizeof(own));
    const int rc = try_heap(own[0] ? own : dir, &allocations, &err);
    remove_dir(own);
    if (rc == 0) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "allocations of programs that `sonde run` "
                         "starts are seen, through libsonde_preload (a shell made %llu)",
                         (unsigned long long)allocations);
    } else {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         sonde_preload_library(library, sizeof(library), &none) != 0
                             ? "install libsonde_preload.so beside sonde or in its library "
                               "directory; until then memory is seen from outside only"
                             : "until then memory is seen from outside only",
                         "the heap cannot be profiled: %s", err.text);
    }
}
