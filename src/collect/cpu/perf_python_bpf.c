#include "collect/cpu/perf_python_bpf.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "collect/cpu/perf_python_bpf_private.h"
#include "collect/perf/limits.h"
#include "sonde/sonde.h"

#define FIRST_SPACE 0xeffffffcu /* inode of the first pid namespace, for good */
#define KERNEL_MINOR_BITS 20    /* of a device, within the kernel */

struct sonde_python_bpf {
    struct python_bpf_maps maps;
    int entry;                 /* the program on events */
    int walks[PYTHON_BPF_LAYOUTS];
    struct sonde__python_layout layouts[PYTHON_BPF_LAYOUTS];
    uint32_t layout_count;
    uint32_t cpu_count;        /* the scratch has */
};

/* ---- Records --------------------------------------------------------------------------------- */

uint64_t sonde_python_bpf_key(const struct sonde__python_layout *l, uint64_t addr, const char *code)
{
    const uint16_t words[] = { l->code_name, l->code_file, l->code_lines };
    uint64_t h = 0, word = addr;
    for (uint32_t i = 0; i < 4; i++) {
        if (i) memcpy(&word, code + words[i - 1], sizeof(word));
        h = (h ^ word) * SONDE_HASH_MUL;
        h ^= h >> 29;
    }
    return h | 1;
}

size_t sonde_python_bpf_parse(const void *data, size_t size, struct sonde_python_bpf_frame *out,
                              uint32_t *flags)
{
    struct sonde_python_bpf_record head;
    *flags = 0;
    if (size < sizeof(head)) return 0;
    memcpy(&head, data, sizeof(head));
    if (head.count > SONDE_PYTHON_BPF_FRAMES_MAX ||
        head.count * sizeof(*out) > size - sizeof(head)) {
        return 0;
    }
    *flags = head.flags;
    memcpy(out, (const char *)data + sizeof(head), head.count * sizeof(*out));
    return head.count;
}

/* ---- Namespaces ------------------------------------------------------------------------------ */

/* The pid namespace of a process, as the kernel's helper wants it. */
static int python_bpf_space(const char *path, uint64_t *dev, uint64_t *inode)
{
    struct stat s;
    if (stat(path, &s)) return SONDE_ENOENT;
    *dev = (uint64_t)major(s.st_dev) << KERNEL_MINOR_BITS | minor(s.st_dev);
    *inode = s.st_ino;
    return 0;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static uint32_t python_bpf_cpus(void)
{
    int cpus[SONDE_PERF_CPUS_MAX];
    const uint32_t n = sonde_perf_cpus(cpus, SONDE_PERF_CPUS_MAX);
    int most = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (cpus[i] > most) most = cpus[i];
    }
    return (uint32_t)most + 1;
}

static int python_bpf_maps_create(struct sonde_python_bpf *b, struct sonde_err *err)
{
    const struct {
        int *fd;
        const char *name;
        enum bpf_map_type type;
        uint32_t value, entries;
    } maps[] = {
        { &b->maps.processes, "processes", BPF_MAP_TYPE_HASH, sizeof(struct python_bpf_process),
          PYTHON_BPF_PROCESSES },
        { &b->maps.slots, "threads", BPF_MAP_TYPE_ARRAY, sizeof(struct python_bpf_slot),
          PYTHON_BPF_SLOTS },
        { &b->maps.scratch, "scratch", BPF_MAP_TYPE_ARRAY, sizeof(struct python_bpf_scratch),
          b->cpu_count },
        { &b->maps.programs, "programs", BPF_MAP_TYPE_PROG_ARRAY, 4, PYTHON_BPF_LAYOUTS },
        { &b->maps.outputs, "outputs", BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, b->cpu_count },
        { &b->maps.lost, "lost", BPF_MAP_TYPE_ARRAY, sizeof(uint64_t), b->cpu_count },
    };
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        const int rc = sonde_bpf_map_create(maps[i].type, maps[i].name, 4, maps[i].value,
                                            maps[i].entries, maps[i].fd, err);
        if (rc) return rc;
    }
    return 0;
}

static int python_bpf_load(struct sonde_bpf_code *c, const char *name, int *fd,
                           struct sonde_err *err)
{
    if (sonde_bpf_finish(c)) {
        return sonde_err_set(err, SONDE_EINVAL, "the BPF program %s is not whole", name);
    }
    return sonde_bpf_program_create(c, name, fd, err);
}

static int python_bpf_entry_load(struct sonde_python_bpf *b, struct sonde_err *err)
{
    uint64_t dev = 0, space = 0;
    struct sonde_bpf_code *c = sonde__calloc(1, sizeof(*c));
    if (!c) return sonde_err_memory(err);
    if (python_bpf_space("/proc/self/ns/pid", &dev, &space) || space == FIRST_SPACE) space = 0;
    sonde__python_bpf_entry(c, &b->maps, dev, space);
    const int rc = python_bpf_load(c, "python", &b->entry, err);
    sonde__free(c);
    return rc;
}

/* The program of a layout: its number, or SONDE_E…. */
static int python_bpf_layout(struct sonde_python_bpf *b, const struct sonde__python_layout *l)
{
    struct sonde_err err;
    for (uint32_t i = 0; i < b->layout_count; i++) {
        if (!memcmp(&b->layouts[i], l, sizeof(*l))) return (int)i;
    }
    if (b->layout_count == PYTHON_BPF_LAYOUTS) return SONDE_EFULL;
    const uint32_t index = b->layout_count;
    struct sonde_bpf_code *c = sonde__calloc(1, sizeof(*c));
    if (!c) return SONDE_ENOMEM;
    sonde__python_bpf_walk(c, &b->maps, l, index);
    int rc = python_bpf_load(c, "python_walk", &b->walks[index], &err);
    sonde__free(c);
    if (!rc) rc = sonde_bpf_map_put(b->maps.programs, &index, &b->walks[index]);
    if (rc) return rc;
    b->layouts[index] = *l;
    b->layout_count++;
    return (int)index;
}

static void python_bpf_close(int fd)
{
    if (fd >= 0) close(fd);
}

void sonde_python_bpf_destroy(struct sonde_python_bpf *b)
{
    if (!b) return;
    /* The map of programs goes first: it and the programs in it have each other. */
    python_bpf_close(b->maps.programs);
    python_bpf_close(b->entry);
    for (uint32_t i = 0; i < PYTHON_BPF_LAYOUTS; i++) python_bpf_close(b->walks[i]);
    python_bpf_close(b->maps.outputs);
    python_bpf_close(b->maps.lost);
    python_bpf_close(b->maps.scratch);
    python_bpf_close(b->maps.slots);
    python_bpf_close(b->maps.processes);
    sonde__free(b);
}

int sonde_python_bpf_create(struct sonde_python_bpf **out, struct sonde_err *err)
{
    assert(out);
    struct sonde_python_bpf *b = sonde__calloc(1, sizeof(*b));
    if (!b) return sonde_err_memory(err);
    b->maps = (struct python_bpf_maps){ -1, -1, -1, -1, -1, -1 };
    b->entry = -1;
    for (uint32_t i = 0; i < PYTHON_BPF_LAYOUTS; i++) b->walks[i] = -1;
    b->cpu_count = python_bpf_cpus();
    int rc = python_bpf_maps_create(b, err);
    if (!rc) rc = python_bpf_entry_load(b, err);
    /* The other one is loaded with the first process; that it can be is known now. */
    if (!rc && python_bpf_layout(b, &sonde__python_3_11) < 0) {
        rc = sonde_err_set(err, SONDE_EOFF, "this kernel does not take the BPF program that reads "
                           "frames of Python: it may be older than 5.7");
    }
    if (rc) {
        sonde_python_bpf_destroy(b);
        return rc;
    }
    *out = b;
    return 0;
}

int sonde_python_bpf_check(struct sonde_err *err)
{
    struct sonde_python_bpf *b;
    const int rc = sonde_python_bpf_create(&b, err);
    if (!rc) sonde_python_bpf_destroy(b);
    return rc;
}

/* ---- Events and processes -------------------------------------------------------------------- */

int sonde_python_bpf_attach(struct sonde_python_bpf *b, struct sonde_perf_set *set,
                            struct sonde_err *err)
{
    int rc = sonde_perf_set_program(set, b->entry, err);
    for (uint32_t i = 0; i < set->event_count && !rc; i++) {
        const struct sonde_perf_event *e = &set->events[i];
        if (e->kind != SONDE_PERF_OUTPUT || e->fd < 0) continue;
        const uint32_t cpu = (uint32_t)set->cpus[e->cpu];
        rc = sonde_bpf_map_put(b->maps.outputs, &cpu, &e->fd);
        if (rc) sonde_err_set(err, rc, "cannot connect the BPF program with a ring of CPU %u", cpu);
    }
    return rc;
}

int sonde_python_bpf_add(struct sonde_python_bpf *b, const struct sonde_python_bpf_process *p)
{
    char path[64];
    struct python_bpf_process at = { .runtime = p->runtime, .type_code = p->type_code };
    const int layout = python_bpf_layout(b, p->layout);
    if (layout < 0) return layout;
    at.layout = (uint64_t)layout;
    snprintf(path, sizeof(path), "/proc/%u/ns/pid", p->pid);
    const int rc = python_bpf_space(path, &at.space_dev, &at.space);
    return rc ? rc : sonde_bpf_map_put(b->maps.processes, &p->pid, &at);
}

void sonde_python_bpf_remove(struct sonde_python_bpf *b, uint32_t pid)
{
    (void)sonde_bpf_map_take(b->maps.processes, &pid); /* it may not have been there */
}

uint64_t sonde_python_bpf_lost(const struct sonde_python_bpf *b)
{
    uint64_t lost = 0, n;
    for (uint32_t i = 0; i < b->cpu_count; i++) {
        if (!sonde_bpf_map_get(b->maps.lost, &i, &n)) lost += n;
    }
    return lost;
}
