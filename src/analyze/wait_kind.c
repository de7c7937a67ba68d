/* wait_kind.c - the table of functions that threads wait in, and the walk up a stack: see
 * wait_kind.h. */
#include "analyze/wait_kind.h"

#include <assert.h>
#include <string.h>

#include "base/array.h"
#include "base/path.h"

enum { FRAMES_MAX = 48 }; /* that are looked at, from the innermost on */

static const struct {
    const char *name, *title;
} wait_kinds[] = {
#define SONDE__X(id, name, title) { name, title },
    SONDE_WAIT_KINDS(SONDE__X)
#undef SONDE__X
};

const char *sonde_wait_kind_name(enum sonde_wait_kind k)
{
    assert((size_t)k < SONDE_COUNT(wait_kinds));
    return wait_kinds[k].name;
}

const char *sonde_wait_kind_title(enum sonde_wait_kind k)
{
    assert((size_t)k < SONDE_COUNT(wait_kinds));
    return wait_kinds[k].title;
}

/* Names as wait_kind_plain leaves them. One that ends in * is a beginning. weak: something further
 * out may say more. The first that fits counts. */
static const struct wait_kind_row {
    const char *name;
    enum sonde_wait_kind kind;
    int weak;
} wait_kind_rows[] = {
    /* Locks. */
    { "pthread_mutex_*", SONDE_WAIT_LOCK, 0 },
    { "pthread_rwlock_*", SONDE_WAIT_LOCK, 0 },
    { "pthread_spin_*", SONDE_WAIT_LOCK, 0 },
    { "lll_lock_wait*", SONDE_WAIT_LOCK, 1 },
    { "lll_mutex_lock*", SONDE_WAIT_LOCK, 1 },
    { "sem_wait*", SONDE_WAIT_LOCK, 0 },
    { "sem_timedwait*", SONDE_WAIT_LOCK, 0 },
    { "sem_clockwait*", SONDE_WAIT_LOCK, 0 },
    { "new_sem_wait*", SONDE_WAIT_LOCK, 0 },
    { "flock", SONDE_WAIT_LOCK, 0 },
    { "lockf*", SONDE_WAIT_LOCK, 0 },
    { "semop", SONDE_WAIT_LOCK, 0 },
    { "semtimedop", SONDE_WAIT_LOCK, 0 },
    { "mtx_lock", SONDE_WAIT_LOCK, 0 },
    { "std::mutex::lock*", SONDE_WAIT_LOCK, 0 },
    { "std::sys::sync::mutex*", SONDE_WAIT_LOCK, 0 },
    { "std::sys::sync::rwlock*", SONDE_WAIT_LOCK, 0 },
    { "parking_lot::raw_mutex*", SONDE_WAIT_LOCK, 0 },
    { "sync.(*Mutex).*", SONDE_WAIT_LOCK, 0 },
    { "sync.(*RWMutex).*", SONDE_WAIT_LOCK, 0 },
    { "PyThread_acquire_lock*", SONDE_WAIT_LOCK, 0 },
    { "take_gil", SONDE_WAIT_GIL, 0 },
    { "rwsem_down_*", SONDE_WAIT_LOCK, 1 },
    { "mutex_lock*", SONDE_WAIT_LOCK, 1 },
    /* Other threads. */
    { "pthread_cond_*", SONDE_WAIT_THREAD, 0 },
    { "pthread_join*", SONDE_WAIT_THREAD, 0 },
    { "pthread_timedjoin*", SONDE_WAIT_THREAD, 0 },
    { "pthread_clockjoin*", SONDE_WAIT_THREAD, 0 },
    { "pthread_barrier_wait*", SONDE_WAIT_THREAD, 0 },
    { "cnd_wait", SONDE_WAIT_THREAD, 0 },
    { "cnd_timedwait", SONDE_WAIT_THREAD, 0 },
    { "thrd_join", SONDE_WAIT_THREAD, 0 },
    { "std::condition_variable*", SONDE_WAIT_THREAD, 0 },
    { "std::thread::join", SONDE_WAIT_THREAD, 0 },
    { "std::thread::park*", SONDE_WAIT_THREAD, 0 },
    { "gomp_barrier*", SONDE_WAIT_THREAD, 0 },
    { "gomp_team_barrier*", SONDE_WAIT_THREAD, 0 },
    { "GOMP_barrier", SONDE_WAIT_THREAD, 0 },
    { "kmp_*barrier*", SONDE_WAIT_THREAD, 0 },
    { "futex_*", SONDE_WAIT_THREAD, 1 },
    { "futex", SONDE_WAIT_THREAD, 1 },
    { "do_futex", SONDE_WAIT_THREAD, 1 },
    { "x64_sys_futex*", SONDE_WAIT_THREAD, 1 },
    { "runtime.futex*", SONDE_WAIT_THREAD, 1 },
    { "eventfd_read", SONDE_WAIT_THREAD, 0 },
    { "sigwait*", SONDE_WAIT_THREAD, 0 },
    { "sigtimedwait", SONDE_WAIT_THREAD, 0 },
    /* Pages. */
    { "asm_exc_page_fault", SONDE_WAIT_PAGE_FAULT, 0 },
    { "exc_page_fault", SONDE_WAIT_PAGE_FAULT, 0 },
    { "do_user_addr_fault", SONDE_WAIT_PAGE_FAULT, 0 },
    { "mem*_avx*", SONDE_WAIT_PAGE_FAULT, 1 },
    { "memcpy*", SONDE_WAIT_PAGE_FAULT, 1 },
    { "memmove*", SONDE_WAIT_PAGE_FAULT, 1 },
    { "memset*", SONDE_WAIT_PAGE_FAULT, 1 },
    { "memcmp*", SONDE_WAIT_PAGE_FAULT, 1 },
    { "memchr*", SONDE_WAIT_PAGE_FAULT, 1 },
    { "strlen*", SONDE_WAIT_PAGE_FAULT, 1 },
    { "madvise", SONDE_WAIT_PAGE_FAULT, 0 },
    { "mlock*", SONDE_WAIT_PAGE_FAULT, 0 },
    { "msync", SONDE_WAIT_IO, 0 },
    /* The network; also of what the kernel says about a plain read or write. */
    { "tcp_*", SONDE_WAIT_NETWORK, 0 },
    { "udp_*", SONDE_WAIT_NETWORK, 0 },
    { "inet_*", SONDE_WAIT_NETWORK, 0 },
    { "unix_stream_*", SONDE_WAIT_NETWORK, 0 },
    { "unix_dgram_*", SONDE_WAIT_NETWORK, 0 },
    { "sock_*", SONDE_WAIT_NETWORK, 0 },
    { "sk_wait_data", SONDE_WAIT_NETWORK, 0 },
    { "recv*", SONDE_WAIT_NETWORK, 0 },
    { "send", SONDE_WAIT_NETWORK, 0 },
    { "sendto", SONDE_WAIT_NETWORK, 0 },
    { "sendmsg", SONDE_WAIT_NETWORK, 0 },
    { "sendmmsg", SONDE_WAIT_NETWORK, 0 },
    { "accept*", SONDE_WAIT_NETWORK, 0 },
    { "connect", SONDE_WAIT_NETWORK, 0 },
    { "poll", SONDE_WAIT_NETWORK, 0 },
    { "ppoll*", SONDE_WAIT_NETWORK, 0 },
    { "select", SONDE_WAIT_NETWORK, 0 },
    { "pselect*", SONDE_WAIT_NETWORK, 0 },
    { "epoll_wait*", SONDE_WAIT_NETWORK, 0 },
    { "epoll_pwait*", SONDE_WAIT_NETWORK, 0 },
    { "ep_poll", SONDE_WAIT_NETWORK, 1 },
    { "do_sys_poll", SONDE_WAIT_NETWORK, 1 },
    { "runtime.netpoll*", SONDE_WAIT_NETWORK, 0 },
    { "getaddrinfo", SONDE_WAIT_NETWORK, 0 },
    { "res_*", SONDE_WAIT_NETWORK, 0 },
    /* Files and pipes. */
    { "pipe_read", SONDE_WAIT_IO, 0 },
    { "pipe_write", SONDE_WAIT_IO, 0 },
    { "anon_pipe_*", SONDE_WAIT_IO, 0 },
    { "io_schedule*", SONDE_WAIT_IO, 1 },
    { "read", SONDE_WAIT_IO, 0 },
    { "readv", SONDE_WAIT_IO, 0 },
    { "pread*", SONDE_WAIT_IO, 0 },
    { "readahead", SONDE_WAIT_IO, 0 },
    { "write", SONDE_WAIT_IO, 0 },
    { "writev", SONDE_WAIT_IO, 0 },
    { "pwrite*", SONDE_WAIT_IO, 0 },
    { "fsync", SONDE_WAIT_IO, 0 },
    { "fdatasync", SONDE_WAIT_IO, 0 },
    { "sync", SONDE_WAIT_IO, 0 },
    { "syncfs", SONDE_WAIT_IO, 0 },
    { "sync_file_range", SONDE_WAIT_IO, 0 },
    { "open", SONDE_WAIT_IO, 0 },
    { "open64", SONDE_WAIT_IO, 0 },
    { "openat*", SONDE_WAIT_IO, 0 },
    { "close", SONDE_WAIT_IO, 0 },
    { "ftruncate*", SONDE_WAIT_IO, 0 },
    { "fallocate*", SONDE_WAIT_IO, 0 },
    { "posix_fallocate*", SONDE_WAIT_IO, 0 },
    { "copy_file_range", SONDE_WAIT_IO, 0 },
    { "sendfile*", SONDE_WAIT_IO, 0 },
    { "splice", SONDE_WAIT_IO, 0 },
    { "io_getevents*", SONDE_WAIT_IO, 0 },
    { "io_uring_*", SONDE_WAIT_IO, 0 },
    { "getdents*", SONDE_WAIT_IO, 0 },
    { "rename*", SONDE_WAIT_IO, 0 },
    { "unlink*", SONDE_WAIT_IO, 0 },
    { "stat*", SONDE_WAIT_IO, 0 },
    { "fstatat*", SONDE_WAIT_IO, 0 },
    /* Sleep. */
    { "nanosleep*", SONDE_WAIT_SLEEP, 0 },
    { "clock_nanosleep*", SONDE_WAIT_SLEEP, 0 },
    { "usleep", SONDE_WAIT_SLEEP, 0 },
    { "sleep", SONDE_WAIT_SLEEP, 0 },
    { "pause", SONDE_WAIT_SLEEP, 0 },
    { "sigsuspend", SONDE_WAIT_SLEEP, 0 },
    { "runtime.usleep*", SONDE_WAIT_SLEEP, 0 },
    { "hrtimer_nanosleep", SONDE_WAIT_SLEEP, 1 },
    /* Processes. */
    { "wait4", SONDE_WAIT_PROCESS, 0 },
    { "wait3", SONDE_WAIT_PROCESS, 0 },
    { "waitpid", SONDE_WAIT_PROCESS, 0 },
    { "waitid", SONDE_WAIT_PROCESS, 0 },
    { "wait", SONDE_WAIT_PROCESS, 0 },
    { "do_wait", SONDE_WAIT_PROCESS, 1 },
    { "vfork", SONDE_WAIT_PROCESS, 0 },
};

/* The name without what builds of a C library put around it: __GI___poll, __libc_read,
 * pthread_cond_wait@@GLIBC_2.3.2. len: up to the @. */
static const char *wait_kind_plain(const char *name, size_t *len)
{
    *len = strcspn(name, "@");
    for (;;) {
        size_t skip = 0;
        if (*len > 3 && !strncmp(name, "GI_", 3)) skip = 3;
        else if (*len > 5 && !strncmp(name, "libc_", 5)) skip = 5;
        else if (*len > 1 && *name == '_') skip = 1;
        if (!skip) return name;
        name += skip;
        *len -= skip;
    }
}

/* One * in the middle is enough for the table. */
static int wait_kind_fits(const char *pattern, const char *name, size_t len)
{
    const char *star = strchr(pattern, '*');
    if (!star || !strncmp(pattern, "sync.(", 6)) {
        const size_t n = strlen(pattern);
        if (star && pattern[n - 1] == '*') return len >= n - 1 && !memcmp(pattern, name, n - 1);
        return n == len && !memcmp(pattern, name, len);
    }
    const size_t head = (size_t)(star - pattern);
    if (len < head || memcmp(pattern, name, head) != 0) return 0;
    const char *tail = star + 1;
    const size_t inner = strcspn(tail, "*");
    return !inner || memmem(name + head, len - head, tail, inner) != NULL;
}

/* A program's own function may be called recv_all or state_next: outside of the system's libraries,
 * where only a static program has these functions, a pattern has to say more than that. */
static int wait_kind_is_loose(const char *pattern)
{
    const size_t head = strcspn(pattern, "*");
    return pattern[head] && strcspn(pattern, "_:.") > head;
}

static const struct wait_kind_row *wait_kind_find(const char *name, int system)
{
    size_t len;
    name = wait_kind_plain(name, &len);
    for (size_t i = 0; i < SONDE_COUNT(wait_kind_rows); i++) {
        const char *pattern = wait_kind_rows[i].name;
        if (!system && wait_kind_is_loose(pattern)) continue;
        if (wait_kind_fits(pattern, name, len)) return &wait_kind_rows[i];
    }
    return NULL;
}

/* Of the system: what called it is what people look for. */
static int wait_kind_is_system(const struct sonde_profile *p, uint32_t module, const char *name)
{
    static const char *const libraries[] = { "libc.so", "libc-", "libpthread", "ld-linux",
                                             "ld-musl", "libstdc++", "libgomp", "libm.so",
                                             "librt" };
    const struct sonde_profile_module *m = &p->modules[module < p->modules_count ? module : 0];
    const char *path = sonde_profile_str(p, m->path);
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    if (m->flags & (SONDE_MODULE_KERNEL | SONDE_MODULE_VDSO)) return 1;
    if (!strncmp(name, "std::", 5) || !strncmp(name, "runtime.", 8)) return 1;
    for (size_t i = 0; i < SONDE_COUNT(libraries); i++) {
        if (!strncmp(base, libraries[i], strlen(libraries[i]))) return 1;
    }
    return 0;
}

/* Python's interpreter: the program, or a library of it. */
static int wait_kind_is_interpreter(const struct sonde_profile *p, uint32_t module)
{
    const struct sonde_profile_module *m = &p->modules[module < p->modules_count ? module : 0];
    const char *base = sonde_path_base(sonde_profile_str(p, m->path));
    return !strncmp(base, "python3", 7) || !strncmp(base, "libpython3", 10);
}

struct wait_kind_walk {
    struct sonde_wait out;
    int program;           /* a frame of the interpreter, or of another program, was met */
    int interpreter;       /* out.caller is the interpreter's, until there is a better one */
    int found;             /* 0 no row yet, 1 a weak one, 2 it is decided */
    int frames;
    int system;            /* frames of the system among them */
};

/* The interpreter is what called: a condition is then the GIL. */
static void wait_kind_gil(const struct sonde_profile *p, struct wait_kind_walk *w)
{
    size_t len;
    const char *call =
        wait_kind_plain(sonde_profile_str(p, p->functions[w->out.call].name), &len);
    const int condition = len > 13 && !memcmp(call, "pthread_cond_", 13);
    const int mutex = len > 14 && !memcmp(call, "pthread_mutex_", 14); /* of the condition */
    if ((condition || mutex) && !w->program) w->out.kind = SONDE_WAIT_GIL;
    w->program = 1;
}

/* 1 = nothing further out matters. */
static int wait_kind_frame(const struct sonde_profile *p, uint32_t module, uint32_t function,
                           uint32_t line, struct wait_kind_walk *w)
{
    const char *name = sonde_profile_str(p, p->functions[function].name);
    const int system = wait_kind_is_system(p, module, name);
    const int interpreter = wait_kind_is_interpreter(p, module);
    if (interpreter) wait_kind_gil(p, w);
    /* Whatever calls the system's libraries is the program. */
    const int may = *name && (system || !w->system);
    const struct wait_kind_row *row = may ? wait_kind_find(name, system) : NULL;
    w->frames++;
    w->system += system;
    w->program |= w->system && !system;
    if (row && w->found < 2) {
        if (!row->weak || !w->found) {
            w->out.kind = row->kind;
            w->out.call = function;
        }
        w->found = row->weak ? 1 : 2;
        return 0;
    }
    if (row || system || !*name || *name == '[' || (interpreter && w->interpreter)) return 0;
    w->out.caller = function;
    w->out.caller_line = line;
    w->interpreter = interpreter;
    return !interpreter;
}

struct sonde_wait sonde_wait_of(const struct sonde_profile *p, uint32_t stack)
{
    struct wait_kind_walk w = { .found = 0 };
    int done = 0;
    for (; stack && stack < p->stacks_count && !done && w.frames < FRAMES_MAX;
         stack = p->stacks[stack].parent) {
        const struct sonde_profile_location *l = &p->locations[p->stacks[stack].location];
        if (!l->line_count) {
            w.frames++;
            w.system += wait_kind_is_system(p, l->module, "");
            if (wait_kind_is_interpreter(p, l->module)) wait_kind_gil(p, &w);
        }
        for (uint32_t i = 0; i < l->line_count && !done; i++) {
            const struct sonde_profile_line *line = &p->lines[l->line + i];
            done = wait_kind_frame(p, l->module, line->function, line->line, &w);
        }
    }
    if (!w.found && w.frames == 1 && w.out.caller) w.out.kind = SONDE_WAIT_PAGE_FAULT;
    return w.out;
}
