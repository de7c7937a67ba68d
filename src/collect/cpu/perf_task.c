#include "collect/cpu/perf_task.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "collect/proc/procfs.h"
#include "sonde/sonde.h"

static uint32_t perf_task_bucket(uint32_t number) { return number & (SONDE_PERF_BUCKETS - 1); }

int sonde_perf_tasks_init(struct sonde_perf_tasks *t, struct sonde_cpu_stacks *stacks)
{
    memset(t, 0, sizeof(*t));
    t->stacks = stacks;
    t->processes = sonde__calloc(SONDE_PERF_BUCKETS, sizeof(*t->processes));
    t->threads = sonde__calloc(SONDE_PERF_BUCKETS, sizeof(*t->threads));
    if (t->processes && t->threads && !sonde_modules_create(0, &t->modules)) return 0;
    sonde_perf_tasks_release(t);
    return SONDE_ENOMEM;
}

static void free_process(struct sonde_perf_process *p)
{
    sonde_aspace_destroy(p->as);
    sonde__free(p);
}

void sonde_perf_tasks_release(struct sonde_perf_tasks *t)
{
    for (uint32_t i = 0; t->threads && i < SONDE_PERF_BUCKETS; i++) {
        for (struct sonde_perf_thread *thread = t->threads[i], *next; thread; thread = next) {
            next = thread->next;
            sonde_perf_words_free(thread->words);
            sonde__free(thread);
        }
    }
    for (uint32_t i = 0; t->processes && i < SONDE_PERF_BUCKETS; i++) {
        for (struct sonde_perf_process *p = t->processes[i], *next; p; p = next) {
            next = p->next;
            free_process(p);
        }
    }
    sonde__free(t->processes);
    sonde__free(t->threads);
    sonde_modules_destroy(t->modules);
    memset(t, 0, sizeof(*t));
}

/* ---- Finding --------------------------------------------------------------------------------- */

struct sonde_perf_process *sonde_perf_tasks_process(const struct sonde_perf_tasks *t, uint32_t pid)
{
    struct sonde_perf_process *p = t->processes[perf_task_bucket(pid)];
    while (p && p->pid != pid) p = p->next;
    return p;
}

struct sonde_perf_thread *sonde_perf_tasks_thread(const struct sonde_perf_tasks *t, uint32_t tid)
{
    struct sonde_perf_thread *thread = t->threads[perf_task_bucket(tid)];
    while (thread && thread->tid != tid) thread = thread->next;
    return thread;
}

/* ---- Beginning ------------------------------------------------------------------------------- */

/* Takes as, also when it fails. */
static struct sonde_perf_process *perf_task_put_process(struct sonde_perf_tasks *t, uint32_t pid,
                                                        struct sonde_aspace *as)
{
    struct sonde_perf_process *p =
        t->process_count < SONDE_PERF_TASKS_MAX ? sonde__calloc(1, sizeof(*p)) : NULL;
    if (!p) {
        sonde_aspace_destroy(as);
        return NULL;
    }
    p->pid = pid;
    p->as = as;
    p->layout = sonde_cpu_stacks_layout_new(t->stacks);
    p->next = t->processes[perf_task_bucket(pid)];
    t->processes[perf_task_bucket(pid)] = p;
    t->process_count++;
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
    out[0] = '\0';
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    const ssize_t n = read(fd, out, size - 1);
    close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

struct sonde_perf_thread *sonde_perf_tasks_add_thread(struct sonde_perf_tasks *t,
                                                      struct sonde_perf_process *p, uint32_t tid,
                                                      const char *name)
{
    struct sonde_perf_thread *thread = sonde_perf_tasks_thread(t, tid);
    if (thread && thread->process == p) return thread;
    if (thread) sonde_perf_tasks_end(t, thread); /* its end was missed */
    if (t->thread_count >= SONDE_PERF_TASKS_MAX) return NULL;
    thread = sonde__calloc(1, sizeof(*thread));
    if (!thread) return NULL;
    thread->tid = tid;
    thread->process = p;
    if (name) {
        snprintf(thread->name, sizeof(thread->name), "%s", name);
    } else {
        perf_task_read_name(p->pid, tid, thread->name, sizeof(thread->name));
    }
    thread->next = t->threads[perf_task_bucket(tid)];
    t->threads[perf_task_bucket(tid)] = thread;
    t->thread_count++;
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
    struct sonde_aspace *as;
    if (sonde_aspace_fork(parent->as, pid, &as)) return NULL;
    struct sonde_perf_process *p = perf_task_put_process(t, pid, as);
    if (p) p->layout = parent->layout;
    return p;
}

/* ---- Changing and ending --------------------------------------------------------------------- */

void sonde_perf_tasks_exec(struct sonde_perf_tasks *t, struct sonde_perf_thread *thread)
{
    struct sonde_perf_process *p = thread->process;
    for (uint32_t i = 0; p->threads > 1 && i < SONDE_PERF_BUCKETS; i++) {
        for (struct sonde_perf_thread *o = t->threads[i], *next; o; o = next) {
            next = o->next;
            if (o->process == p && o != thread) sonde_perf_tasks_end(t, o);
        }
    }
    sonde_perf_words_free(thread->words);
    thread->words = NULL;
    sonde_aspace_exec(p->as);
    p->layout = sonde_cpu_stacks_layout_new(t->stacks);
    p->in_exec = 1;
}

void sonde_perf_tasks_map(struct sonde_perf_tasks *t, struct sonde_perf_process *p,
                          const struct sonde_aspace_event *e)
{
    sonde_aspace_map(p->as, e); /* what does not fit stays unknown code */
    p->layout = sonde_cpu_stacks_layout_new(t->stacks);
}

void sonde_perf_tasks_rescan(struct sonde_perf_tasks *t)
{
    for (uint32_t i = 0; i < SONDE_PERF_BUCKETS; i++) {
        for (struct sonde_perf_process *p = t->processes[i]; p; p = p->next) {
            sonde_aspace_scan(p->as);
            p->layout = sonde_cpu_stacks_layout_new(t->stacks);
        }
    }
}

static void remove_process(struct sonde_perf_tasks *t, struct sonde_perf_process *gone)
{
    struct sonde_perf_process **at = &t->processes[perf_task_bucket(gone->pid)];
    while (*at != gone) at = &(*at)->next;
    *at = gone->next;
    t->process_count--;
    free_process(gone);
}

void sonde_perf_tasks_end(struct sonde_perf_tasks *t, struct sonde_perf_thread *thread)
{
    struct sonde_perf_thread **at = &t->threads[perf_task_bucket(thread->tid)];
    while (*at != thread) at = &(*at)->next;
    *at = thread->next;
    t->thread_count--;
    struct sonde_perf_process *p = thread->process;
    sonde_perf_words_free(thread->words);
    sonde__free(thread);
    if (!--p->threads) remove_process(t, p);
}
