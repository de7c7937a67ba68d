/* file.c - the segment's file: made, found, inherited, swept.
 *
 * It is made under a temporary name, formatted, then renamed to its real one, so no reader ever
 * sees half of it. At a normal end it is removed unless an agent is there (who holds agent.lock)
 * and removes it when it has read the rest; or was there a moment ago, and is being started again,
 * it seems. After a crash it stays, for whoever looks; the next
 * process to make a segment without an agent sweeps old ones. What is not ours, or not provably
 * dead, is left alone (segment/life.h): the directory may hold anything. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/utf8.h"
#include "record/call.h"
#include "record/dirents.h"
#include "record/room.h"
#include "record/state.h"
#include "segment/life.h"

#define BYTES_MAX_DEFAULT (256ull << 20)
#define SERIES_MAX_DEFAULT (1u << 17)
#define SERIES_MAX_LIMIT (1u << 21)
#define SERIES_MAX_SMALL (1u << 13)
#define FAMILY_MAX (1u << 14)
#define LANES_SHARED 8u
#define LANES_MAX_LIMIT 4096u
#define BLOCK_MAX (1ull << 30)
#define BLOCK_MAX_SMALL (32ull << 20)
#define TABLE_CHUNK (16u << 10)
#define LEAVE_S 60               /* for an agent that was there so long ago … */
#define LEAVE_BYTES (8u << 20)   /* … a segment is left that takes no more than this … */
#define LEAVE_KEEP 64            /* … and so many of the dead stay: DEAD_FILES_MAX of the agent */
#define SWEEP_KEEP 16            /* files of dead processes that may lie around */
#define SWEEP_AGE_S 600
#define SWEEP_LIVE 128           /* of live processes looked at, at most … */
#define SWEEP_REMOVE 256         /* … and of dead ones removed */
#define LOCK_TRIES 20
#define LOCK_SHARED 3            /* times in a row that it is shared with somebody */
#define NAME_TRIES 100
#define TEMP_TRIES 8
#define DIR_BYTES sizeof(sonde__g.dir)

static int record_file_from_errno(int e)
{
    switch (e) {
    case EACCES: case EPERM: case EROFS: case ELOOP: case ENOTDIR: return SONDE_EACCES;
    case ENOSPC: case EDQUOT: case EFBIG: return SONDE_ENOSPC;
    case ENOMEM: case EMFILE: case ENFILE: return SONDE_ENOMEM;
    case ENOENT: return SONDE_ENOENT;
    default: return SONDE_EIO;
    }
}

/* ---- Names --------------------------------------------------------------------------------- */

static char *record_file_put(char *out, const char *text)
{
    while (*text) *out++ = *text++;
    *out = 0;
    return out;
}

static int set_path(const char *dir, const char *name)
{
    if (strlen(dir) + 1 + strlen(name) >= sizeof(sonde__g.path)) return SONDE_EINVAL;
    record_file_put(record_file_put(record_file_put(sonde__g.path, dir), "/"), name);
    return 0;
}

/* ---- Sweeping ------------------------------------------------------------------------------ */

/* 1 if some agent holds agent.lock. A process that asks for it here holds it for an instant too,
 * but alone, and agents share it: if it cannot be had alone, though shared, and that more than
 * once, there is an agent. Programs that start thousands of others ask often, and giving way to
 * other threads instead, to see what stays, took most of the time of a process that ends at
 * once. */
static int agent_present(int dirfd)
{
    const int fd = openat(dirfd, "agent.lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return 0;
    int held = 1, shared = 0;
    for (int tries = 0; held && shared < LOCK_SHARED && tries < LOCK_TRIES; tries++) {
        held = flock(fd, LOCK_EX | LOCK_NB) != 0; /* gives up what is shared first */
        if (!held) break;
        if (!flock(fd, LOCK_SH | LOCK_NB)) {
            shared++;
        } else {
            shared = 0;
            sched_yield();
        }
    }
    close(fd);
    return held;
}

/* 1 if an agent has been here within LEAVE_S: its agent.state is kept young while it runs, unless
 * it reads so many processes that what they would leave were too much (collector_state.c). What
 * they recorded last is for the agent that follows. No call but fstatat: docs/sandbox.md. */
static int agent_expected(int dirfd)
{
    struct stat st;
    if (fstatat(dirfd, "agent.state", &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode)) return 0;
    const int64_t age_s = (int64_t)(sonde__real_ns() / 1000000000u) - (int64_t)st.st_mtime;
    return age_s >= -LEAVE_S && age_s <= LEAVE_S;
}

/* Remove what nothing will write any more: all that is old, and whatever passes SWEEP_KEEP; for an
 * agent that is expected, as many as it would keep itself. */
static void record_file_sweep(int dirfd)
{
    struct sonde__dirents s;
    struct stat st;
    struct sonde__here here;
    struct sonde__name parsed;
    const char *name;
    const uint64_t now_s = sonde__real_ns() / 1000000000u;
    int live = 0, dead = 0, removed = 0;
    if (agent_present(dirfd)) return;
    const int keep = agent_expected(dirfd) ? LEAVE_KEEP : SWEEP_KEEP;
    sonde__here(&here);
    sonde__dirents_begin(&s, dirfd);
    while (live < SWEEP_LIVE && removed < SWEEP_REMOVE && (name = sonde__dirents_next(&s))) {
        const int temp = !sonde__temp_parse(name);
        if (!temp && sonde__name_parse(name, &parsed)) continue;
        if (sonde__life(dirfd, name, &here) != SONDE__LIFE_DEAD) {
            live++;
            continue;
        }
        if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW)) continue;
        const int old = (uint64_t)st.st_mtime + SWEEP_AGE_S < now_s;
        if (temp || old || ++dead > keep) {
            removed += sonde__life_sweep(dirfd, name, &here) == SONDE__LIFE_DEAD;
        }
    }
    sonde__dirents_end(&s);
}

/* The number for this image of the process: that of the newest there is, which another copy of
 * the library may have made for this very image. Never one before it: the agent takes an image
 * for gone when there is one after it. *segments: how many there are of any process. */
static uint32_t newest_image(int dirfd, uint64_t start, uint32_t *segments)
{
    struct sonde__dirents s;
    struct sonde__name o;
    const char *name;
    uint32_t newest = 0;
    sonde__dirents_begin(&s, dirfd);
    *segments = 0;
    while ((name = sonde__dirents_next(&s))) {
        if (sonde__name_parse(name, &o)) continue;
        ++*segments;
        if (o.pid == sonde__g.pid && o.start == start && o.n > newest) newest = o.n;
    }
    sonde__dirents_end(&s);
    return newest;
}

/* ---- Layout -------------------------------------------------------------------------------- */

static uint64_t page_up(uint64_t v) { return (v + SONDE__PAGE - 1) & ~(uint64_t)(SONDE__PAGE - 1); }

static uint32_t lanes_default(void)
{
    const long cpus = sysconf(_SC_NPROCESSORS_CONF);
    const long lanes = cpus > 16 ? 4 * cpus : 64;
    return lanes > (long)LANES_MAX_LIMIT ? LANES_MAX_LIMIT : (uint32_t)lanes;
}

static void record_file_lay_out(struct sonde__header *h, int small)
{
    uint32_t series = sonde__g.series_max ? sonde__g.series_max : SERIES_MAX_DEFAULT;
    uint32_t lanes = sonde__g.lanes_max ? sonde__g.lanes_max : lanes_default();
    if (series > SERIES_MAX_LIMIT) series = SERIES_MAX_LIMIT;
    if (lanes > LANES_MAX_LIMIT) lanes = LANES_MAX_LIMIT;
    if (small && series > SERIES_MAX_SMALL) series = SERIES_MAX_SMALL;
    if (small && lanes > 64) lanes = 64;
    if (series < 64) series = 64;

    h->family_max = FAMILY_MAX;
    h->series_max = series;
    h->lanes_shared = LANES_SHARED;
    h->lane_max = 1 + LANES_SHARED + lanes;
    h->family_off = SONDE__PAGE;
    h->series_off = h->family_off + page_up((uint64_t)FAMILY_MAX * sizeof(struct sonde__family));
    h->string_off = h->series_off + page_up((uint64_t)series * sizeof(struct sonde__series));
    h->string_max = page_up((uint64_t)FAMILY_MAX * 256 + (uint64_t)series * 256);
    h->lane_off = h->string_off + h->string_max;
    h->lane_stride = page_up(SONDE__CELLS_OFF + 8ull * series);
    h->block_off = h->lane_off + h->lane_max * h->lane_stride;
    h->block_max = small ? BLOCK_MAX_SMALL : BLOCK_MAX;
    h->file_bytes = h->block_off + h->block_max;
}

static void record_file_budget(struct sonde__header *h, int fd)
{
    struct statvfs fs;
    h->bytes_max = sonde__g.bytes_max ? sonde__g.bytes_max : BYTES_MAX_DEFAULT;
    /* /dev/shm is the program's too; in a container it is often 64 MiB. */
    if (!fstatvfs(fd, &fs) && fs.f_blocks) {
        const uint64_t quarter = (uint64_t)fs.f_blocks * fs.f_frsize / 4;
        if (h->bytes_max > quarter) h->bytes_max = quarter;
    }
}

/* A child that was forked is called as its parent is. */
static const char *record_file_own_name(const struct sonde__header *from)
{
    if (sonde__g.name[0]) return sonde__g.name;
    if (from && __atomic_load_n(&from->named, __ATOMIC_ACQUIRE) == SONDE__NAMED) return from->name;
    return program_invocation_short_name;
}

/* To a segment that another copy of the library made, which did not know the name. */
static void tell_name(struct sonde__header *h)
{
    uint32_t not = SONDE__NAMED_NOT;
    if (!sonde__g.name[0] || !strcmp(sonde__g.name, h->program) ||
        !__atomic_compare_exchange_n(&h->named, &not, SONDE__NAMED_NOW, 0, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED)) {
        return;
    }
    memcpy(h->name, sonde__g.name, sizeof(h->name) - 1); /* which is 0 at its end, as in g */
    __atomic_store_n(&h->named, SONDE__NAMED, __ATOMIC_RELEASE);
}

static void record_file_identify(struct sonde__header *h, const struct sonde__header *from)
{
    const void *random = (const void *)getauxval(AT_RANDOM);
    const char *name = record_file_own_name(from);
    struct sonde__here here;
    int changed = 0;

    h->magic = SONDE__MAGIC;
    h->abi = SONDE__ABI;
    h->pid = sonde__g.pid;
    h->uid = getuid();
    h->start_time = sonde__start_time(0);
    h->parent_pid = from ? from->pid : 0;
    h->group = (uint32_t)getpgrp();
    sonde__here(&here);
    memcpy(h->boot_id, here.boot_id, sizeof(h->boot_id));
    h->pid_ns = here.pid_ns;
    h->time_ns = here.time_ns;
    if (random) memcpy(h->exec_id, random, sizeof(h->exec_id));
    if (name) {
        sonde__utf8_copy(h->program, sizeof(h->program) - 1, name, strlen(name), &changed);
    }
    h->tsc = sonde__g.tsc;
    h->tick0 = sonde__g.tick0;
    h->mono0_ns = sonde__g.mono0_ns;
    h->real0_ns = sonde__real_ns() - (sonde__mono_ns() - sonde__g.mono0_ns);
}

/* ---- Making -------------------------------------------------------------------------------- */

/* Size the file and map it. A limit on file size or address space gets the small layout; the
 * limit is asked for first, because passing RLIMIT_FSIZE would send the program a signal. */
static int map_new(int fd, struct sonde__header *plan)
{
    struct rlimit fsize = { RLIM_INFINITY, RLIM_INFINITY };
    getrlimit(RLIMIT_FSIZE, &fsize);
    for (int small = 0; small <= 1; small++) {
        record_file_lay_out(plan, small);
        if (fsize.rlim_cur != RLIM_INFINITY && plan->file_bytes > fsize.rlim_cur) continue;
        if (ftruncate(fd, (off_t)plan->file_bytes)) return record_file_from_errno(errno);
        void *base = mmap(NULL, plan->file_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (base == MAP_FAILED) continue;
        madvise(base, plan->file_bytes, MADV_DONTDUMP);
        madvise(base, plan->file_bytes, MADV_RANDOM); /* on a disk: do not read holes ahead */
        sonde__g.base = base;
        sonde__g.h = base;
        return 0;
    }
    return SONDE_ENOMEM;
}

static int populate_tables(struct sonde__header *h, const struct sonde__header *from)
{
    uint64_t families = TABLE_CHUNK, series = TABLE_CHUNK, strings = TABLE_CHUNK;
    uint32_t cells = (SONDE__PAGE - SONDE__CELLS_OFF) / 8;
    if (from) {
        const uint64_t f = (uint64_t)h->family_count * sizeof(struct sonde__family);
        const uint64_t s = (uint64_t)h->series_count * sizeof(struct sonde__series);
        if (f > families) families = page_up(f);
        if (s > series) series = page_up(s);
        if (h->string_used > strings) strings = page_up(h->string_used);
        if (h->series_count > cells) {
            cells = (uint32_t)((page_up(SONDE__CELLS_OFF + 8ull * h->series_count) -
                                SONDE__CELLS_OFF) / 8);
        }
    }
    int rc = sonde__populate(h->family_off, families);
    if (!rc) rc = sonde__populate(h->series_off, series);
    if (!rc) rc = sonde__populate(h->string_off, strings);
    for (uint32_t i = 0; !rc && i <= h->lanes_shared; i++) {
        rc = sonde__populate(sonde__lane_at(h, i), SONDE__CELLS_OFF + 8ull * cells);
    }
    if (rc) return rc;
    h->family_ready = families;
    h->series_ready = series;
    h->string_ready = strings;
    h->cells_ready = cells;
    h->lane_count = 1 + h->lanes_shared;
    return 0;
}

/* Of the parent's segment there may be more by now than could be accessed when it forked. */
static int record_file_take_over(uint64_t to, const struct sonde__header *from, uint64_t off,
                                 uint64_t len)
{
    char *old = (char *)(uintptr_t)from + off;
    if (mprotect(old, page_up(len), PROT_READ | PROT_WRITE)) return SONDE_ENOMEM;
    memcpy(sonde__at(to), old, len);
    return 0;
}

/* The parent's definitions up to what it has published. */
static int record_file_inherit(struct sonde__header *h, const struct sonde__header *from)
{
    int rc = record_file_take_over(h->family_off, from, from->family_off,
                                   (uint64_t)h->family_count * sizeof(struct sonde__family));
    if (!rc) {
        rc = record_file_take_over(h->series_off, from, from->series_off,
                                   (uint64_t)h->series_count * sizeof(struct sonde__series));
    }
    if (!rc) rc = record_file_take_over(h->string_off, from, from->string_off, h->string_used);
    return rc ? rc : sonde__define_reindex();
}

static int record_file_format(struct sonde__header *plan, int fd, const struct sonde__header *from)
{
    record_file_budget(plan, fd);
    record_file_identify(plan, from);
    plan->family_count = plan->series_count = 1; /* 0 is "none" and the sink */
    plan->string_used = 1;                       /* offset 0 is the empty string */
    if (from) {
        plan->family_count = __atomic_load_n(&from->family_count, __ATOMIC_ACQUIRE);
        plan->series_count = __atomic_load_n(&from->series_count, __ATOMIC_ACQUIRE);
        plan->string_used = __atomic_load_n(&from->string_used, __ATOMIC_ACQUIRE);
        if (plan->series_count > plan->series_max || plan->string_used > plan->string_max) {
            return SONDE_EFULL;
        }
    }
    plan->copies = plan->copies_live = 1;
    plan->tick_ns_q32 = sonde__g.tick_ns_q32;
    plan->heartbeat_ns = sonde__mono_ns();
    plan->populated_bytes = SONDE__PAGE;
    plan->map_addr = (uint64_t)(uintptr_t)sonde__g.base;
    plan->check = sonde__header_check(plan);
    /* The page that populate() itself counts in. */
    if (posix_fallocate(fd, 0, SONDE__PAGE) ||
        mprotect(sonde__g.base, SONDE__PAGE, PROT_READ | PROT_WRITE)) {
        return SONDE_ENOSPC;
    }
    memcpy(sonde__g.h, plan, sizeof(*plan));
    int rc = populate_tables(sonde__g.h, from);
    if (!rc && from) rc = record_file_inherit(sonde__g.h, from);
    return rc;
}

static uint64_t temp_random(void)
{
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint64_t v = 0;
    if (random) memcpy(&v, random, sizeof(v));
    v ^= sonde__mono_ns() * 0x9e3779b97f4a7c15ull ^ (uint64_t)sonde__gettid() << 40;
    return v ^ v >> 29;
}

/* A new file whose first bytes say what it is: if this process is killed, it can be swept. */
static int open_temp(int dirfd, char temp[SONDE__NAME_BYTES])
{
    const uint64_t magic = SONDE__MAGIC;
    struct rlimit fsize = { RLIM_INFINITY, RLIM_INFINITY };
    int fd = -1;
    getrlimit(RLIMIT_FSIZE, &fsize);
    if (fsize.rlim_cur < SONDE__PAGE) return SONDE_ENOMEM; /* writing would be a signal: map_new */
    for (int tries = 0; fd < 0 && tries < TEMP_TRIES; tries++) {
        sonde__temp_make(temp, temp_random(), sonde__g.pid);
        fd = openat(dirfd, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno != EEXIST) break;
    }
    if (fd < 0) return record_file_from_errno(errno);
    if (pwrite(fd, &magic, sizeof(magic), 0) == (ssize_t)sizeof(magic)) return fd;
    const int rc = record_file_from_errno(errno);
    unlinkat(dirfd, temp, 0);
    close(fd);
    return rc;
}

static int file_note(int fd)
{
    struct stat st;
    if (fstat(fd, &st)) return record_file_from_errno(errno);
    sonde__g.file_dev = (uint64_t)st.st_dev;
    sonde__g.file_ino = (uint64_t)st.st_ino;
    return 0;
}

/* On success sonde__g.base is the new mapping. SONDE_EEXIST: another copy was faster. */
static int record_file_create(int dirfd, const char *dir, const char *name,
                              const struct sonde__header *from)
{
    char temp[SONDE__NAME_BYTES];
    struct sonde__header plan;
    memset(&plan, 0, sizeof(plan));
    const int fd = open_temp(dirfd, temp);
    if (fd < 0) return fd;
    int rc = set_path(dir, temp);
    if (!rc) rc = file_note(fd);
    char *const old = sonde__g.base;
    if (!rc) rc = map_new(fd, &plan);
    if (!rc) rc = record_file_format(&plan, fd, from);
    if (!rc) __atomic_store_n(&sonde__g.h->copies_live, 1, __ATOMIC_RELEASE); /* see attach */
    if (!rc && sonde__call(SYS_renameat2, dirfd, SONDE__WORD(temp), dirfd, SONDE__WORD(name),
                           RENAME_NOREPLACE)) {
        rc = errno == EEXIST ? SONDE_EEXIST : record_file_from_errno(errno);
    }
    if (rc) unlinkat(dirfd, temp, 0);
    close(fd);
    if (!rc) rc = set_path(dir, name);
    if (rc && sonde__g.base != old) {
        munmap(sonde__g.base, plan.file_bytes);
        sonde__g.base = old;
        sonde__g.h = (struct sonde__header *)(void *)old;
    }
    if (!rc) sonde__g.copy = 1;
    return rc;
}

/* ---- Finding ------------------------------------------------------------------------------- */

/* Join the segment that another copy of the library in this process made. SONDE_ENOENT: it is
 * not of this image (we came here by exec) or of another version. A forked child has its
 * parent's exec id, so that what an earlier child of the same pid left could pass for ours: look
 * whether it is mapped before believing it. */
static int record_file_attach(int fd)
{
    struct sonde__header h;
    unsigned char resident;
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h) || h.magic != SONDE__MAGIC ||
        h.abi != SONDE__ABI || h.check != sonde__header_check(&h) || h.pid != sonde__g.pid ||
        !h.map_addr || !random || memcmp(h.exec_id, random, sizeof(h.exec_id))) {
        return SONDE_ENOENT;
    }
    struct sonde__header *mapped = (struct sonde__header *)(uintptr_t)h.map_addr;
    if (mincore(mapped, SONDE__PAGE, &resident)) return SONDE_ENOENT;
    /* Acquire: with the release in create, what its maker wrote is there. */
    (void)__atomic_load_n(&mapped->copies_live, __ATOMIC_ACQUIRE);
    if (memcmp(mapped, &h, SONDE__HEADER_FIXED) || file_note(fd)) return SONDE_ENOENT;
    sonde__g.h = mapped;
    sonde__g.base = (char *)mapped;
    sonde__g.copy = __atomic_add_fetch(&mapped->copies, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&mapped->copies_live, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&mapped->closed, 0, __ATOMIC_RELAXED);
    tell_name(mapped);
    return 0;
}

/* A directory of ours that nobody else can write: /dev/shm is world-writable, so somebody may
 * have put another one, or a link, in its place. */
static int record_file_open_dir(const char *dir)
{
    struct stat st;
    if (mkdir(dir, 0700) && errno != EEXIST) return record_file_from_errno(errno);
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return record_file_from_errno(errno);
    if (fstat(fd, &st) || st.st_uid != geteuid() || st.st_mode & 022) {
        close(fd);
        return SONDE_EACCES;
    }
    return fd;
}

/* The directory that was asked for, or the default one, which somebody may take first while we
 * look: then there is another. */
static int find_dir(char dir[static DIR_BYTES])
{
    int fd = SONDE_EACCES;
    if (sonde__g.dir[0]) {
        record_file_put(dir, sonde__g.dir);
        return record_file_open_dir(dir);
    }
    for (int tries = 0; fd == SONDE_EACCES && tries < 2; tries++) {
        const int rc = sonde__dir_default(dir, DIR_BYTES);
        if (rc) return rc;
        fd = record_file_open_dir(dir);
    }
    return fd;
}

int sonde__file_open(const struct sonde__header *from)
{
    char dir[DIR_BYTES], name[SONDE__NAME_BYTES];
    int rc;
    const int dirfd = find_dir(dir);
    if (dirfd < 0) return dirfd;

    const uint64_t start = sonde__start_time(0);
    uint32_t segments;
    const uint32_t first = newest_image(dirfd, start, &segments);
    rc = SONDE_EFULL;
    for (uint32_t n = first; n < first + NAME_TRIES; n++) {
        sonde__name_make(name, &(struct sonde__name){ sonde__g.pid, start, n });
        /* Not for writing: that would be taken for a sign of life. */
        const int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0) {
            rc = record_file_attach(fd);
            close(fd);
            if (rc == SONDE_ENOENT) continue;
            if (!rc) rc = set_path(dir, name);
            break;
        }
        if (errno != ENOENT) { /* something is there that is no segment, or we have no descriptor */
            rc = record_file_from_errno(errno);
            if (rc == SONDE_ENOMEM) break;
            continue;
        }
        record_file_sweep(dirfd);
        rc = sonde__room_is_left(dirfd, segments) ? record_file_create(dirfd, dir, name, from)
                                                  : SONDE_ENOSPC;
        if (rc != SONDE_EEXIST) break;
        n--; /* another copy won: join it */
    }
    if (rc == SONDE_ENOSPC && agent_present(dirfd)) sonde__room_missed(dirfd);
    close(dirfd);
    return rc;
}

void sonde__file_remove(void)
{
    char dir[sizeof(sonde__g.path)];
    struct stat st;
    record_file_put(dir, sonde__g.path);
    char *slash = strrchr(dir, '/');
    if (!slash) return;
    *slash = 0;
    const int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0) return;
    /* The path may lead elsewhere by now: the program may have changed its root or directory. */
    if (!fstatat(dirfd, slash + 1, &st, AT_SYMLINK_NOFOLLOW) && st.st_ino == sonde__g.file_ino &&
        st.st_dev == sonde__g.file_dev && !agent_present(dirfd) &&
        (__atomic_load_n(&sonde__g.h->populated_bytes, __ATOMIC_RELAXED) > LEAVE_BYTES ||
         !agent_expected(dirfd))) {
        unlinkat(dirfd, slash + 1, 0);
    }
    close(dirfd);
}
