/* heap_read.h - tests: the heap profile of a segment, read as plainly as can be, in a process that
 * trusts it. */
#ifndef SONDE_TEST_PRELOAD_HEAP_HEAP_READ_H
#define SONDE_TEST_PRELOAD_HEAP_HEAP_READ_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/heap.h"

struct view {
    char *base;
    size_t bytes;
    const struct sonde__header *h;
    const struct sonde__heap *m;
};

static inline void view_close(struct view *v)
{
    if (v->base) munmap(v->base, v->bytes);
    memset(v, 0, sizeof(*v));
}

/* The newest segment of pid in dir. 0, or -1: there is none, or it has no heap profile. */
static inline int view_open(struct view *v, const char *dir, int pid)
{
    char prefix[32], path[4352], newest[256] = "";
    memset(v, 0, sizeof(*v));
    snprintf(prefix, sizeof(prefix), "%d.", pid);
    DIR *d = opendir(dir);
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d));) {
        if (strncmp(e->d_name, prefix, strlen(prefix))) continue;
        if (strlen(e->d_name) > strlen(newest) || strcmp(e->d_name, newest) > 0) {
            snprintf(newest, sizeof(newest), "%s", e->d_name);
        }
    }
    closedir(d);
    if (!newest[0]) return -1;
    snprintf(path, sizeof(path), "%s/%s", dir, newest);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0) return -1;
    if (!fstat(fd, &st)) v->bytes = (size_t)st.st_size;
    v->base = mmap(NULL, v->bytes, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (v->base == MAP_FAILED) v->base = NULL;
    if (!v->base) return -1;
    v->h = (const struct sonde__header *)(void *)v->base;
    const uint64_t at = __atomic_load_n(&v->h->heap, __ATOMIC_ACQUIRE);
    if (at) v->m = (const struct sonde__heap *)(void *)(v->base + at);
    return at ? 0 : -1;
}

static inline const struct sonde__heap_node *view_node(const struct view *v, uint32_t i)
{
    return (const struct sonde__heap_node *)(void *)(v->base +
                                                     v->m->node_chunk[i / SONDE__HEAP_NODES]) +
           i % SONDE__HEAP_NODES;
}

static inline uint64_t view_ip(const struct view *v, uint32_t node)
{
    return view_node(v, node)->ip & ((1ull << 48) - 1);
}

static inline const struct sonde__heap_module *view_module(const struct view *v, uint32_t i)
{
    return (const struct sonde__heap_module *)(void *)(v->base +
                                                       v->m->module_chunk[i /
                                                                          SONDE__HEAP_MODULES]) +
           i % SONDE__HEAP_MODULES;
}

static inline const char *view_module_path(const struct view *v, uint32_t i, uint32_t *len)
{
    const struct sonde__heap_path *p =
        (const struct sonde__heap_path *)(void *)(v->base + view_module(v, i)->path);
    *len = p->len;
    return p->text;
}

#define VIEW_WORDS (sizeof(struct sonde__heap_row) / sizeof(uint64_t))

/* A site's totals, over all lanes. */
static inline struct sonde__heap_row view_row(const struct view *v, uint32_t site)
{
    struct sonde__heap_row sum;
    uint64_t *to = (uint64_t *)&sum;
    memset(&sum, 0, sizeof(sum));
    for (uint32_t lane = 0; lane < v->m->lane_count; lane++) {
        if (!v->m->lane[lane].rows) continue;
        const uint64_t *directory = (const uint64_t *)(void *)(v->base + v->m->lane[lane].rows);
        const uint64_t chunk = directory[site / SONDE__HEAP_ROWS];
        if (!chunk) continue;
        const uint64_t *row = (const uint64_t *)(void *)(v->base + chunk +
                                                         site % SONDE__HEAP_ROWS * sizeof(sum));
        for (size_t i = 0; i < VIEW_WORDS; i++) to[i] += row[i];
    }
    return sum;
}

/* Node of each site; sites: room for all of them. */
static inline void view_sites(const struct view *v, uint32_t *nodes)
{
    for (uint32_t i = 1; i < v->m->node_count; i++) {
        const uint32_t site = view_node(v, i)->site;
        if (site) nodes[site] = i;
    }
}

/* The totals of all stacks whose innermost frame is in [start, stop). */
static inline struct sonde__heap_row view_range(const struct view *v, uint64_t start, uint64_t stop)
{
    struct sonde__heap_row sum;
    uint64_t *to = (uint64_t *)&sum;
    memset(&sum, 0, sizeof(sum));
    for (uint32_t i = 1; i < v->m->node_count; i++) {
        const struct sonde__heap_node *n = view_node(v, i);
        if (!n->site || view_ip(v, i) < start || view_ip(v, i) >= stop) continue;
        const struct sonde__heap_row row = view_row(v, n->site);
        for (size_t k = 0; k < VIEW_WORDS; k++) to[k] += ((const uint64_t *)&row)[k];
    }
    return sum;
}

#endif
