#include "cli/unseen.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "collect/discover.h"
#include "collect/preload_targets.h"
#include "collect/proc/tree.h"
#include "present/units.h"

#define FIRST_S 0.05
#define LAST_S 1.0
#define TOLD 4

void sonde_unseen_start(struct sonde_unseen *u, uint32_t root, double now_s)
{
    *u = (struct sonde_unseen){ .root = root, .next_s = now_s + FIRST_S, .wait_s = FIRST_S };
}

static struct sonde_unseen_process *row_find(struct sonde_unseen *u, uint32_t pid, const char *name)
{
    for (uint32_t i = 0; i < u->count; i++) {
        if (u->rows[i].pid == pid && !strcmp(u->rows[i].name, name)) return &u->rows[i];
    }
    return NULL;
}

/* 1 = it was executed by another user, whom the directory of segments does not let in. One that
 * only changed its user goes on writing to the segment that it has; the kernel shows it as
 * root's. */
static int is_stranger(uint32_t pid)
{
    char path[32];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%u", pid);
    return stat(path, &st) == 0 && st.st_uid != 0 && st.st_uid != geteuid();
}

/* Why the library is not in the process, as a text that follows "it is"; NULL = it may be, or
 * nothing can be said since it is ending. */
static const char *process_why(uint32_t pid)
{
    char exe[32];
    if (is_stranger(pid)) {
        return "run by another user, who may not write where sonde reads (--engine perf "
               "samples it)";
    }
    snprintf(exe, sizeof(exe), "/proc/%u/exe", pid);
    const int fd = open(exe, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    snprintf(exe, sizeof(exe), "/proc/self/fd/%d", fd);
    const char *why = sonde_preload_refused(exe);
    close(fd);
    return why;
}

static void process_look(struct sonde_unseen *u, uint32_t pid)
{
    struct sonde_proc_stat st;
    char name[sizeof(u->rows[0].name)];
    if (sonde_proc_stat(pid, &st) != 0) return;
    snprintf(name, sizeof(name), "%.15s", st.comm);
    struct sonde_unseen_process *row = row_find(u, pid, name);
    if (!row) {
        const char *why = process_why(pid);
        if (!why) return;
        if (u->count == SONDE_UNSEEN_MAX) {
            u->more++;
            return;
        }
        row = &u->rows[u->count++];
        *row = (struct sonde_unseen_process){ .pid = pid, .why = why };
        memcpy(row->name, name, sizeof(name));
    }
    uint64_t ns;
    if (sonde_proc_cpu_ns(pid, &ns, NULL) == 0 && ns > row->cpu_ns) row->cpu_ns = ns;
}

double sonde_unseen_look(struct sonde_unseen *u, double now_s)
{
    uint32_t *tree = NULL, count = 0;
    if (now_s < u->next_s) return u->next_s;
    if (u->root && sonde_proc_tree(u->root, &tree, &count) == 0) {
        for (uint32_t i = 1; i < count; i++) process_look(u, tree[i]);
        sonde__free(tree);
    }
    u->wait_s = u->wait_s * 2 < LAST_S ? u->wait_s * 2 : LAST_S;
    u->next_s = now_s + u->wait_s;
    return u->next_s;
}

static int by_cpu(const void *a, const void *b)
{
    const struct sonde_unseen_process *x = a, *y = b;
    if (x->cpu_ns != y->cpu_ns) return SONDE_CMP(y->cpu_ns, x->cpu_ns);
    return SONDE_CMP(x->pid, y->pid);
}

void sonde_unseen_tell(struct sonde_unseen *u, int ascii, struct sonde_buf *out)
{
    if (!u->count) return;
    qsort(u->rows, u->count, sizeof(u->rows[0]), by_cpu);
    for (uint32_t i = 0; i < u->count && i < TOLD; i++) {
        const struct sonde_unseen_process *row = &u->rows[i];
        char cpu[SONDE_VALUE_BYTES];
        sonde_value_format(cpu, (double)row->cpu_ns * 1e-9, SONDE_UNIT_SECONDS, ascii);
        sonde_buf_printf(out, "%s%s (%u), at least %s of CPU time, is %s", i ? "; " : "", row->name,
                         row->pid, cpu, row->why);
    }
    const uint32_t rest = u->count - (u->count < TOLD ? u->count : TOLD) + u->more;
    if (rest) sonde_buf_printf(out, "; and %u more", rest);
}
