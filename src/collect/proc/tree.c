#include "collect/proc/tree.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "base/file.h"
#include "collect/discover.h"
#include "collect/proc/procfs.h"
#include "sonde/sonde.h"

struct kin { uint32_t pid, parent; };

static int by_parent(const void *a, const void *b)
{
    const struct kin *x = a, *y = b;
    if (x->parent != y->parent) return SONDE_CMP(x->parent, y->parent);
    return SONDE_CMP(x->pid, y->pid);
}

/* Everybody and his parent. */
static int proc_tree_read_all(struct kin **out, uint32_t *count)
{
    struct sonde_procfs_dir dir;
    struct kin *all = NULL;
    uint32_t pid, cap = 0, n = 0;
    const int rc = sonde_procfs_dir_open(&dir, AT_FDCWD, "/proc");
    if (rc) return SONDE_EIO;
    while (n < SONDE_PROC_TREE_MAX && sonde_procfs_dir_next(&dir, &pid)) {
        struct sonde_proc_stat st;
        if (sonde_proc_stat(pid, &st)) continue;
        struct kin *one = SONDE_ARRAY_ADD(all, n, cap);
        if (!one) {
            sonde__free(all);
            sonde_procfs_dir_close(&dir);
            return SONDE_ENOMEM;
        }
        *one = (struct kin){ pid, st.ppid };
    }
    sonde_procfs_dir_close(&dir);
    if (n) qsort(all, n, sizeof(*all), by_parent);
    *out = all;
    *count = n;
    return 0;
}

/* The first of all whose parent it is, or where it would be. */
static uint32_t first_child(const struct kin *all, uint32_t count, uint32_t parent)
{
    assert(!count || all[0].parent <= all[count - 1].parent);
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (all[middle].parent < parent) low = middle + 1;
        else high = middle;
    }
    return low;
}

int sonde_proc_tree(uint32_t root, uint32_t **out, uint32_t *count)
{
    assert(root && out && count);
    struct kin *all = NULL;
    uint32_t all_count = 0, n = 0;
    int rc = proc_tree_read_all(&all, &all_count);
    if (rc) return rc;
    uint32_t *tree = sonde__alloc((all_count + 1) * sizeof(*tree));
    if (!tree) {
        sonde__free(all);
        return SONDE_ENOMEM;
    }
    tree[n++] = root;
    /* Everybody has one parent, and is here once: it cannot be more than all. */
    for (uint32_t done = 0; done < n; done++) {
        for (uint32_t i = first_child(all, all_count, tree[done]);
             i < all_count && all[i].parent == tree[done] && n <= all_count; i++) {
            if (all[i].pid != root) tree[n++] = all[i].pid;
        }
    }
    sonde__free(all);
    *out = tree;
    *count = n;
    return 0;
}

/* User, system, and both of children that it waited for. */
static int proc_tree_read_cpu(uint32_t pid, uint64_t out[4])
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    if (sonde_file_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0) return SONDE_ENOENT;
    const char *p = strrchr(text, ')'); /* the name may hold anything */
    unsigned long long ticks[4];
    if (!p || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu",
                     &ticks[0], &ticks[1], &ticks[2], &ticks[3]) != 4) {
        return SONDE_ENOENT;
    }
    const uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
    for (int i = 0; i < 4; i++) out[i] = ticks[i] * tick_ns;
    return 0;
}

int sonde_proc_cpu_ns(uint32_t pid, uint64_t *own, uint64_t *children)
{
    uint64_t ns[4];
    const int rc = proc_tree_read_cpu(pid, ns);
    if (rc) return rc;
    *own = ns[0] + ns[1];
    if (children) *children = ns[2] + ns[3];
    return 0;
}

int sonde_proc_cpu_modes(uint32_t pid, uint64_t *user, uint64_t *system)
{
    uint64_t ns[4];
    const int rc = proc_tree_read_cpu(pid, ns);
    if (rc) return rc;
    *user = ns[0];
    *system = ns[1];
    return 0;
}
