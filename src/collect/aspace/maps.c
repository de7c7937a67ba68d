/* maps.c - what /proc/PID/maps says is mapped, and the files that a process has code of. */
#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/proc_maps.h"
#include "collect/aspace/private.h"
#include "sonde/sonde.h"

struct aspace_maps {
    int (*line)(void *arg, const struct sonde_aspace_event *e);
    void *arg;
};

static int aspace_maps_line(void *arg, const struct sonde_proc_mapping *m)
{
    const struct aspace_maps *to = arg;
    const struct sonde_aspace_event e = {
        .start = m->start, .len = m->end - m->start, .offset = m->offset, .dev = m->dev,
        .inode = m->inode, .path = m->path, .executable = m->executable,
    };
    return to->line(to->arg, &e);
}

int sonde_aspace_maps(uint32_t pid,
                      int (*line)(void *arg, const struct sonde_aspace_event *e), void *arg)
{
    struct aspace_maps to = { line, arg };
    return sonde_proc_maps(pid, aspace_maps_line, &to);
}

/* ---- Files ----------------------------------------------------------------------------------- */

struct aspace_look {
    uint32_t pid;
    int (*want)(void *arg, const struct sonde_aspace_file *f);
    void (*file)(void *arg, const struct sonde_aspace_file *f, int fd);
    void *arg;
};

static int aspace_look_at(void *arg, const struct sonde_aspace_event *e)
{
    const struct aspace_look *l = arg;
    const struct sonde_aspace_file f = { e->dev, e->inode, e->path };
    if (!e->executable || !e->inode || e->path[0] != '/' || !l->want(l->arg, &f)) return 0;
    const size_t size = strlen(e->path) + 1;
    struct sonde_mapping *m = sonde__calloc(1, sizeof(*m) + size);
    if (!m) return SONDE_ENOMEM;
    m->start = e->start;
    m->end = e->start + e->len;
    m->offset = e->offset;
    m->dev = e->dev;
    m->inode = e->inode;
    memcpy(m->path, e->path, size);
    struct sonde_module_bytes bytes = { .fd = -1 };
    int fd = -1;
    if (!sonde_module_bytes_open(m, l->pid, &bytes)) {
        fd = bytes.fd;
        if (bytes.memory) { /* no file can be had any more */
            close(fd);
            fd = -1;
        }
    }
    sonde__free(m);
    l->file(l->arg, &f, fd);
    return 0;
}

int sonde_aspace_files(uint32_t pid, int (*want)(void *arg, const struct sonde_aspace_file *f),
                       void (*file)(void *arg, const struct sonde_aspace_file *f, int fd),
                       void *arg)
{
    assert(want && file);
    struct aspace_look l = { pid, want, file, arg };
    return sonde_aspace_maps(pid, aspace_look_at, &l);
}
