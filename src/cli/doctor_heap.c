/* doctor_heap.c - can the heap of a program be profiled here? Tried on a shell that does nothing. */
#include <signal.h>

#include "cli/child.h"
#include "cli/doctor.h"
#include "collect/mem.h"
#include "sonde/sonde.h"

#define WAIT_S 10

/* Run it to its end. 0, or SONDE_EIO. */
static int run_to_end(struct sonde_child *child, struct sonde_mem *mem, struct sonde_err *err)
{
    size_t size;
    int status;
    const char *env = sonde_mem_environment(mem, &size);
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
    struct sonde_mem *mem;
    int rc = sonde_child_fork(&child, argv, dir, err);
    if (rc) return rc;
    const struct sonde_mem_options o = { .pid = (uint32_t)child.pid, .full = 1, .dir = dir };
    rc = sonde_mem_start_on_exec(&o, &mem, err);
    if (rc) {
        sonde_child_cancel(&child);
    } else {
        struct sonde_mem_status status;
        struct sonde_profile *p = NULL;
        rc = run_to_end(&child, mem, err);
        sonde_mem_status(mem, &status);
        *allocations = status.alloc_count;
        if (!rc && !status.running) rc = sonde_err_set(err, SONDE_EOFF, "%s", status.note);
        if (sonde_mem_stop(mem, &p) == 0) sonde_profile_destroy(p);
    }
    sigprocmask(SIG_SETMASK, &child.found_mask, NULL);
    return rc;
}

void sonde_doctor_heap(struct sonde_doctor *d)
{
    const char *dir = d->cli->config.agent_dir[0] ? d->cli->config.agent_dir : NULL;
    struct sonde_err err = { "" };
    uint64_t allocations = 0;
    if (try_heap(dir, &allocations, &err) == 0) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "allocations of programs that `sonde run` "
                         "starts are seen, through libsonde_preload (a shell made %llu)",
                         (unsigned long long)allocations);
    } else {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "install libsonde_preload.so beside sonde or in its library directory; "
                         "until then memory is seen from outside only",
                         "the heap cannot be profiled: %s", err.text);
    }
}
