#include "collect/uprobe/files.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/path.h"
#include "collect/aspace/aspace.h"
#include "collect/proc/procfs.h"
#include "sonde/sonde.h"

enum {
    FILES_MAX = 4096,      /* of one process that are remembered, so that each is read once */
    PROBED_MAX = 16        /* files with probes in them */
};
#define HOOKS "libsonde_preload."
#define HOOKS_ASKED "SONDE_LLAMA="

struct seen_file { dev_t dev; uint64_t inode; };

struct sonde_uprobe_files {
    uint32_t pid;
    struct sonde_uprobe_set *set;       /* borrowed */
    struct seen_file *seen;             /* FILES_MAX */
    uint32_t seen_count;
    uint64_t program_inode;             /* of what the process executes */
    int hooked;                         /* libsonde_preload is in it */
    /* Of a probed file, known to readers since its first event is. */
    struct sonde_uprobe_symbols symbols[PROBED_MAX];
    struct seen_file probed[PROBED_MAX];

    struct sonde_lock lock;               /* of what follows, for those who only look */
    uint32_t count, functions;
    uint64_t found;
    struct sonde_err problem;
};

/* ---- Files ----------------------------------------------------------------------------------- */

static int remember_file(struct sonde_uprobe_files *u, dev_t dev, uint64_t inode)
{
    for (uint32_t i = 0; i < u->seen_count; i++) {
        if (u->seen[i].dev == dev && u->seen[i].inode == inode) return 0;
    }
    if (u->seen_count == FILES_MAX) return 0;
    u->seen[u->seen_count++] = (struct seen_file){ dev, inode };
    return 1;
}

/* What stat says: on some file systems that is not what is in maps. */
static int is_probed(const struct sonde_uprobe_files *u, const struct stat *st)
{
    for (uint32_t i = 0; i < u->count; i++) {
        if (u->probed[i].dev == st->st_dev && u->probed[i].inode == st->st_ino) return 1;
    }
    return 0;
}

static void probe_file(struct sonde_uprobe_files *u, const char *path, int fd)
{
    struct sonde_uprobe_symbols symbols;
    struct sonde_err err = { "" };
    struct stat st;
    uint32_t probed = 0;
    if (fstat(fd, &st) || is_probed(u, &st)) return;
    if (sonde_uprobe_symbols_read(fd, &symbols) || !symbols.count) return;
    int rc = SONDE_EFULL;
    if (u->count == PROBED_MAX) {
        sonde_err_set(&err, rc, "at most %d files with llama.cpp in them are probed", PROBED_MAX);
    } else {
        u->symbols[u->count] = symbols;
        rc = sonde_uprobe_set_open(u->set, fd, u->count, &symbols, &probed, &err);
    }
    sonde_lock(&u->lock);
    if (rc) {
        sonde_err_set(&u->problem, rc, "%s: %s", path, err.text);
    } else {
        u->probed[u->count++] = (struct seen_file){ st.st_dev, st.st_ino };
        u->functions += probed;
    }
    for (uint32_t fn = 0; fn < SONDE__LLAMA_COUNT && !rc; fn++) {
        if (symbols.at[fn]) u->found |= UINT64_C(1) << fn;
    }
    sonde_unlock(&u->lock);
    if (rc) return;
    sonde_log(SONDE_LOG_INFO, "%u functions of llama.cpp are probed in %s", probed, path);
    if (symbols.at[SONDE__LLAMA_PROCESS]) {
        sonde_log(SONDE_LOG_WARN, "%s: requests that it computes by llama_process cannot be "
                  "followed from outside; `sonde run` follows them", path);
    }
}

static int want_file(void *arg, const struct sonde_mapping *m)
{
    struct sonde_uprobe_files *u = arg;
    if (u->hooked && m->inode != u->program_inode) return 0;
    return remember_file(u, m->dev, m->inode);
}

/* Was the process started with hooks? */
static int uprobe_files_is_asked(uint32_t pid)
{
    char path[64];
    struct sonde_procfs_buf env;
    int found = 0;
    snprintf(path, sizeof(path), "/proc/%u/environ", pid);
    if (sonde_procfs_buf_init(&env)) return 0;
    if (!sonde_procfs_read(&env, AT_FDCWD, path)) {
        for (size_t at = 0; at < env.len && !found; at += strlen(env.data + at) + 1) {
            found = !strncmp(env.data + at, HOOKS_ASKED, sizeof(HOOKS_ASKED) - 1);
        }
    }
    sonde_procfs_buf_release(&env);
    return found;
}

/* Where libsonde_preload is and was asked to, its hooks see the calls of libraries; they would be
 * told twice. Those within the program itself no hook sees. */
static int look_for_hooks(void *arg, const struct sonde_mapping *m)
{
    struct sonde_uprobe_files *u = arg;
    if (!u->hooked && sonde_has_prefix(sonde_path_base(m->path), HOOKS)) {
        u->hooked = uprobe_files_is_asked(u->pid);
    }
    return 0;
}

static void take_file(void *arg, const struct sonde_mapping *m, int fd)
{
    struct sonde_uprobe_files *u = arg;
    if (fd < 0) return;
    probe_file(u, m->path, fd);
    close(fd);
}

void sonde_uprobe_files_program(struct sonde_uprobe_files *u, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return;
    probe_file(u, path, fd);
    close(fd);
}

void sonde_uprobe_files_scan(struct sonde_uprobe_files *u)
{
    char exe[64];
    struct stat st;
    snprintf(exe, sizeof(exe), "/proc/%u/exe", u->pid);
    u->program_inode = stat(exe, &st) == 0 ? st.st_ino : 0;
    u->hooked = 0;
    if (!sonde_aspace_files(u->pid, look_for_hooks, take_file, u)) {
        sonde_aspace_files(u->pid, want_file, take_file, u);
    }
}

/* ---- Life ------------------------------------------------------------------------------------ */

int sonde_uprobe_files_create(uint32_t pid, struct sonde_uprobe_set *set,
                              struct sonde_uprobe_files **out)
{
    assert(pid && set && out);
    struct sonde_uprobe_files *u = sonde__calloc(1, sizeof(*u));
    if (!u) return SONDE_ENOMEM;
    u->pid = pid;
    u->set = set;
    u->seen = sonde__calloc(FILES_MAX, sizeof(*u->seen));
    if (!u->seen) {
        sonde__free(u);
        return SONDE_ENOMEM;
    }
    sonde_lock_init(&u->lock, SONDE_RANK_UPROBE_FILES);
    *out = u;
    return 0;
}

void sonde_uprobe_files_destroy(struct sonde_uprobe_files *u)
{
    if (!u) return;
    sonde_lock_destroy(&u->lock);
    sonde__free(u->seen);
    sonde__free(u);
}

const struct sonde_uprobe_symbols *sonde_uprobe_files_symbols(const struct sonde_uprobe_files *u,
                                                              uint32_t file)
{
    assert(file < SONDE_COUNT(u->symbols));
    return &u->symbols[file];
}

void sonde_uprobe_files_status(struct sonde_uprobe_files *u, struct sonde_uprobe_status *out)
{
    sonde_lock(&u->lock);
    out->files = u->count;
    out->functions = u->functions;
    out->found = u->found;
    out->problem = u->problem;
    sonde_unlock(&u->lock);
}

int sonde_uprobe_is_static(const char *path)
{
    struct sonde_uprobe_symbols symbols;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return 0;
    const int rc = sonde_uprobe_symbols_read(fd, &symbols);
    close(fd);
    return !rc && symbols.at[SONDE__LLAMA_DECODE] != 0;
}
