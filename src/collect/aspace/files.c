/* files.c - the files that a process has code of, by /proc/PID/maps. */
#include <assert.h>
#include <unistd.h>

#include "base/proc_maps.h"
#include "collect/aspace/private.h"

struct aspace_look {
    uint32_t pid;
    int (*want)(void *arg, const struct sonde_mapping *m);
    void (*file)(void *arg, const struct sonde_mapping *m, int fd);
    void *arg;
};

static int aspace_look_at(void *arg, const struct sonde_mapping *m)
{
    const struct aspace_look *l = arg;
    if (!m->executable || !m->inode || m->path[0] != '/' || !l->want(l->arg, m)) return 0;
    struct sonde_module_bytes bytes = { .fd = -1 };
    int fd = -1;
    if (!sonde_module_bytes_open(m, l->pid, &bytes)) {
        fd = bytes.fd;
        if (bytes.memory) { /* no file can be had any more */
            close(fd);
            fd = -1;
        }
    }
    l->file(l->arg, m, fd);
    return 0;
}

int sonde_aspace_files(uint32_t pid, int (*want)(void *arg, const struct sonde_mapping *m),
                       void (*file)(void *arg, const struct sonde_mapping *m, int fd),
                       void *arg)
{
    assert(want && file);
    struct aspace_look l = { pid, want, file, arg };
    return sonde_proc_maps(pid, aspace_look_at, &l);
}
