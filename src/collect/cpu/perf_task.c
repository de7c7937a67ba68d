#include "collect/cpu/perf_task.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "collect/cpu/perf_python_bpf.h"
#include "collect/proc/procfs.h"
#include "segment/python.h"
#include "sonde/sonde.h"

int sonde_perf_tasks_init(struct sonde_perf_tasks *t, struct sonde_cpu_stacks *stacks)
{
    assert(t && stacks);
    memset(t, 0, sizeof(*t));
    t->stacks = stacks;
    return sonde_modules_create(0, &t->modules);
}

static void perf_task_python_end(struct sonde_perf_tasks *t, struct sonde_perf_process *p)
{
    if (p->python_added && t->bpf) sonde_python_bpf_remove(t->bpf, p->pid);
    sonde_perf_python_destroy(p->python);
    p->python = NULL;
    p->python_layout = 0;
    p->python_added = 0;
}

static void perf_task_process_free(struct sonde_perf_tasks *t, struct sonde_perf_process *p)
{
    perf_task_python_end(t, p);
    sonde_aspace_destroy(p->as);
    sonde__free(p);
}

static void perf_task_thread_free(struct sonde_perf_thread *thread)
{
    sonde_perf_words_free(thread->words);
    sonde__free(thread->native);
    sonde__free(thread);
}

void sonde_perf_tasks_release(struct sonde_perf_tasks *t)
{
    struct sonde_perf_thread *thread;
    struct sonde_perf_process *p;
    for (uint32_t at = 0; (thread = sonde_pointer_map_each(&t->threads, &at));) {
        perf_task_thread_free(thread);
    }
    for (uint32_t at = 0; (p = sonde_pointer_map_each(&t->processes, &at));) {
        perf_task_process_free(t, p);
    }
    sonde_pointer_map_release(&t->processes);
    sonde_pointer_map_release(&t->threads);
    sonde_modules_destroy(t->modules);
    memset(t, 0, sizeof(*t));
}

/* ---- Finding --------------------------------------------------------------------------------- */

static uint32_t perf_task_hash(uint32_t number) { return (uint32_t)sonde_hash_u64(number); }

struct sonde_perf_process *sonde_perf_tasks_process(const struct sonde_perf_tasks *t, uint32_t pid)
{
    const uint32_t hash = perf_task_hash(pid);
    uint32_t at = hash;
    struct sonde_perf_process *p;
    while ((p = sonde_pointer_map_next(&t->processes, hash, &at)) && p->pid != pid) continue;
    return p;
}

struct sonde_perf_thread *sonde_perf_tasks_thread(const struct sonde_perf_tasks *t, uint32_t tid)
{
    const uint32_t hash = perf_task_hash(tid);
    uint32_t at = hash;
    struct sonde_perf_thread *thread;
    while ((thread = sonde_pointer_map_next(&t->threads, hash, &at)) && thread->tid != tid) {
        continue;
    }
    return thread;
}

/* ---- Beginning ------------------------------------------------------------------------------- */

/* Takes as, also when it fails. */
static struct sonde_perf_process *perf_task_put_process(struct sonde_perf_tasks *t, uint32_t pid,
                                                        struct sonde_aspace *as)
{
    assert(!sonde_perf_tasks_process(t, pid));
    struct sonde_perf_process *p = NULL;
    if (t->processes.used < SONDE_PERF_TASKS_MAX && !sonde_pointer_map_reserve(&t->processes)) {
        p = sonde__calloc(1, sizeof(*p));
    }
    if (!p) {
        sonde_aspace_destroy(as);
        return NULL;
    }
    p->pid = pid;
    p->as = as;
    p->layout = sonde_cpu_stacks_layout_new(t->stacks);
    sonde_pointer_map_put(&t->processes, perf_task_hash(pid), p);
    return p;
}

struct sonde_perf_process *sonde_perf_tasks_add_process(struct sonde_perf_tasks *t, uint32_t pid)
{
    struct sonde_aspace *as;
    if (sonde_aspace_create(t->modules, pid, &as)) return NULL;
    return perf_task_put_process(t, pid, as);
}

static void perf_task_read_name(uint32_t pid, uint32_t tid, char *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", pid, tid);
    sonde_file_read_small(AT_FDCWD, path, out, size);
    out[strcspn(out, "\n")] = '\0';
}

struct sonde_perf_thread *sonde_perf_tasks_add_thread(struct sonde_perf_tasks *t,
                                                      struct sonde_perf_process *p, uint32_t tid,
                                                      const char *name)
{
    assert(p);
    struct sonde_perf_thread *thread = sonde_perf_tasks_thread(t, tid);
    if (thread && thread->process == p) return thread;
    if (thread) sonde_perf_tasks_end(t, thread); /* its end was missed */
    if (t->threads.used >= SONDE_PERF_TASKS_MAX || sonde_pointer_map_reserve(&t->threads)) {
        return NULL;
    }
    thread = sonde__calloc(1, sizeof(*thread));
    if (!thread) return NULL;
    thread->tid = tid;
    thread->process = p;
    if (name) {
        snprintf(thread->name, sizeof(thread->name), "%s", name);
    } else {
        perf_task_read_name(p->pid, tid, thread->name, sizeof(thread->name));
    }
    sonde_pointer_map_put(&t->threads, perf_task_hash(tid), thread);
    p->threads++;
    return thread;
}

struct sonde_perf_process *sonde_perf_tasks_find_process(struct sonde_perf_tasks *t, uint32_t pid)
{
    char path[64];
    struct sonde_procfs_dir dir;
    uint32_t tid;
    struct sonde_perf_process *p = sonde_perf_tasks_add_process(t, pid);
    if (!p) return NULL;
    sonde_aspace_scan(p->as); /* of one that is gone nothing can be known */
    p->python_due = t->python_due = 1;
    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    if (sonde_procfs_dir_open(&dir, AT_FDCWD, path)) return p;
    while (sonde_procfs_dir_next(&dir, &tid)) sonde_perf_tasks_add_thread(t, p, tid, NULL);
    sonde_procfs_dir_close(&dir);
    return p;
}

struct sonde_perf_process *sonde_perf_tasks_fork(struct sonde_perf_tasks *t,
                                                 const struct sonde_perf_process *parent,
                                                 uint32_t pid)
{
    assert(parent && parent->pid != pid);
    struct sonde_aspace *as;
    if (sonde_aspace_fork(parent->as, pid, &as)) return NULL;
    struct sonde_perf_process *p = perf_task_put_process(t, pid, as);
    if (!p) return NULL;
    p->layout = parent->layout;
    p->python_met = parent->python_met;
    if (parent->python) p->python = sonde_perf_python_fork(parent->python, pid);
    p->python_layout = p->python ? p->layout : 0;
    p->python_due = p->python || parent->python_due;
    t->python_due |= p->python_due;
    return p;
}

/* ---- Changing and ending --------------------------------------------------------------------- */

void sonde_perf_tasks_exec(struct sonde_perf_tasks *t, struct sonde_perf_thread *thread)
{
    assert(thread && thread->process);
    struct sonde_perf_process *p = thread->process;
    struct sonde_perf_thread *o, *gone = NULL;
    for (uint32_t at = 0; p->threads > 1 && (o = sonde_pointer_map_each(&t->threads, &at));) {
        if (o->process != p || o == thread) continue;
        o->next = gone;
        gone = o;
    }
    while ((o = gone)) {
        gone = o->next;
        sonde_perf_tasks_end(t, o);
    }
    assert(p->threads == 1);
    sonde_perf_words_free(thread->words);
    thread->words = NULL;
    perf_task_python_end(t, p);
    p->python_met = (struct sonde_perf_python_met){ 0 };
    sonde_aspace_exec(p->as);
    p->layout = sonde_cpu_stacks_layout_new(t->stacks);
    p->in_exec = 1;
}

void sonde_perf_tasks_map(struct sonde_perf_tasks *t, struct sonde_perf_process *p,
                          const struct sonde_mapping *map)
{
    sonde_aspace_map(p->as, map); /* what does not fit stays unknown code */
    if (map->path && sonde_perf_python_is_name(map->path)) p->python_due = t->python_due = 1;
    p->layout = sonde_cpu_stacks_layout_new(t->stacks);
}

void sonde_perf_tasks_rescan(struct sonde_perf_tasks *t)
{
    struct sonde_perf_process *p;
    for (uint32_t at = 0; (p = sonde_pointer_map_each(&t->processes, &at));) {
        sonde_aspace_scan(p->as);
        p->layout = sonde_cpu_stacks_layout_new(t->stacks);
        p->python_due = t->python_due = 1;
    }
}

/* ---- Interpreters ---------------------------------------------------------------------------- */

struct sonde_perf_python *sonde_perf_python_of(struct sonde_perf_process *p)
{
    if (p->python || p->python_layout == p->layout) return p->python;
    p->python_layout = p->layout;
    if (sonde_perf_python_create(p->pid, &p->python_met, &p->python)) p->python = NULL;
    return p->python;
}

void sonde_perf_tasks_bpf(struct sonde_perf_tasks *t, struct sonde_python_bpf *bpf)
{
    struct sonde_perf_process *p;
    t->bpf = bpf;
    for (uint32_t at = 0; (p = sonde_pointer_map_each(&t->processes, &at));) {
        p->python_added = 0;
        p->python_due |= p->python != NULL;
        t->python_due |= p->python_due;
    }
}

int sonde_perf_tasks_python(struct sonde_perf_tasks *t)
{
    struct sonde_perf_process *p;
    int some = 0;
    for (uint32_t at = 0; t->python_due && (p = sonde_pointer_map_each(&t->processes, &at));) {
        if (p->python_due) sonde_perf_python_of(p);
        p->python_due = 0;
        if (p->python_met.state > SONDE__PYTHON_READS) {
            t->unread = p->python_met;
            t->unread_pid = p->pid;
        }
        some |= p->python != NULL;
        if (!p->python || p->python_added || !t->bpf) continue;
        sonde_perf_python_add_to(p->python, t->bpf);
        p->python_added = 1;
    }
    t->python_due = 0;
    return some;
}

void sonde_perf_tasks_end(struct sonde_perf_tasks *t, struct sonde_perf_thread *thread)
{
    struct sonde_perf_process *p = thread->process;
    assert(p->threads > 0);
    sonde_pointer_map_remove(&t->threads, perf_task_hash(thread->tid), thread);
    perf_task_thread_free(thread);
    if (--p->threads) return;
    sonde_pointer_map_remove(&t->processes, perf_task_hash(p->pid), p);
    perf_task_process_free(t, p);
}
