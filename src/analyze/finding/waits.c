/* waits.c - see waits.h. */
#include "analyze/finding/waits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

enum { FRAMES_MAX = 64, SITES_MAX = 4096 };

/* A second blocked in reads or writes of files moves at least this much, even on a slow disk. */
#define FILE_BYTES_PER_SECOND 131072.0

const char *finding_function_name(const struct finding_look *l, uint32_t function)
{
    const struct sonde_profile *p = l->p;
    return function < p->functions_count ? sonde_profile_str(p, p->functions[function].name) : "";
}

const char *finding_function_file(const struct finding_look *l, uint32_t function)
{
    const struct sonde_profile *p = l->p;
    return function < p->functions_count ? sonde_profile_str(p, p->functions[function].file) : "";
}

static const char *waits_module(const struct sonde_profile *p, uint32_t module)
{
    const char *path =
        sonde_profile_str(p, p->modules[module < p->modules_count ? module : 0].path);
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

struct waits_frame {
    const char *name;        /* "" = no symbol */
    const char *module;      /* base name */
    uint32_t function, line;
};

/* The innermost frames of a stack, inlined ones included. */
static size_t waits_frames(const struct sonde_profile *p, uint32_t stack,
                           struct waits_frame out[FRAMES_MAX])
{
    size_t n = 0;
    for (; stack && stack < p->stacks_count && n < FRAMES_MAX; stack = p->stacks[stack].parent) {
        const struct sonde_profile_location *l = &p->locations[p->stacks[stack].location];
        const char *module = waits_module(p, l->module);
        if (!l->line_count) out[n++] = (struct waits_frame){ "", module, 0, 0 };
        for (uint32_t i = 0; i < l->line_count && n < FRAMES_MAX; i++) {
            const struct sonde_profile_line *line = &p->lines[l->line + i];
            out[n++] = (struct waits_frame){
                sonde_profile_str(p, p->functions[line->function].name), module, line->function,
                line->line };
        }
    }
    return n;
}

static int waits_starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

static int waits_is_any(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (waits_starts(name, list[i])) return 1;
    }
    return 0;
}

/* Functions between a program and the wait that are not what people look for. */
static int waits_is_wrapper(const struct waits_frame *f)
{
    static const char *const names[] = {
        "std::", "boost::", "absl::", "folly::", "tbb::", "parking_lot", "lock_api::", "core::",
        "<parking_lot", "<std::", "g_mutex_", "g_rw_lock_", "uv_mutex_", "uv_rwlock_", "SDL_Lock",
        "pthread_", "__gthread", "QMutex", "sqlite3", "LWLock", "PGSemaphore", "ProcSleep",
        "WaitOnLock", "LockAcquire", "WaitLatch", "WaitEventSet", "s_lock", "perform_spin_delay",
        "pg_usleep", "__gnu_cxx::",
    };
    static const char *const calls[] = { "syscall", "futex", "fcntl", "fcntl64", "mmap", "mmap64" };
    for (size_t i = 0; i < SONDE_COUNT(calls); i++) { /* of a static program */
        if (!strcmp(f->name, calls[i])) return 1;
    }
    if (waits_starts(f->module, "libsqlite3") || waits_starts(f->module, "libstdc++")) return 1;
    return waits_is_any(f->name, names, SONDE_COUNT(names));
}

/* A name of a lock of one's own: my_lock, SpinLock::acquire, mutex_enter; not unlock, clock,
 * block. */
static int waits_names_lock(const char *name)
{
    for (const char *at = name; *at; at++) {
        if (!strncasecmp(at, "mutex", 5)) return 1;
        if (strncasecmp(at, "lock", 4) != 0) continue;
        const char before = at > name ? at[-1] : ' ';
        const int word = before == '_' || before == ':' || before == ' ' || before == '.' ||
                         (*at == 'L' && before >= 'a' && before <= 'z');
        if (word) return 1;
    }
    return 0;
}

/* ---- What it is ------------------------------------------------------------------------------ */

static int waits_has(const struct waits_frame *f, size_t n, const char *const *names, size_t count)
{
    for (size_t i = 0; i < n; i++) {
        if (*f[i].name && waits_is_any(f[i].name, names, count)) return 1;
    }
    return 0;
}

/* SQLite sleeps for one reason: another connection has the lock it needs. sqlite3_sleep is the
 * program's own sleep. */
static int waits_is_sqlite(const struct waits_frame *f, size_t n)
{
    static const char *const busy[] = { "sqliteDefaultBusyCallback", "sqlite3InvokeBusyHandler",
                                        "btreeInvokeBusyHandler", "walBusyLock" };
    static const char *const own[] = { "sqlite3_sleep" };
    if (waits_has(f, n, own, 1)) return 0;
    if (waits_has(f, n, busy, SONDE_COUNT(busy))) return 1;
    for (size_t i = 0; i < n && i < 6; i++) { /* the sleep is called by the library itself */
        if (waits_starts(f[i].module, "libsqlite3")) return 1;
        if (!waits_starts(f[i].module, "libc") && !waits_starts(f[i].module, "[") &&
            *f[i].module) {
            return 0;
        }
    }
    return 0;
}

static int waits_is_postgres(const struct waits_frame *f, size_t n)
{
    static const char *const names[] = { "LWLockAcquire", "ProcSleep", "WaitOnLock",
                                         "LockAcquireExtended", "s_lock", "LWLockDequeueSelf" };
    return waits_has(f, n, names, SONDE_COUNT(names));
}

static int waits_is_allocator(const struct waits_frame *f, size_t n)
{
    static const char *const names[] = { "malloc", "__libc_malloc", "_int_malloc", "free",
                                         "__libc_free", "_int_free", "calloc", "__libc_calloc",
                                         "realloc", "__libc_realloc", "arena_get", "tcache_",
                                         "__GI___libc_malloc", "__GI___libc_free" };
    for (size_t i = 0; i < n && i < 8; i++) {
        if (waits_starts(f[i].module, "libc") &&
            waits_is_any(f[i].name, names, SONDE_COUNT(names))) {
            return 1;
        }
    }
    return 0;
}

static const char *waits_plain(const char *name)
{
    if (waits_starts(name, "__GI_")) name += 5;
    if (waits_starts(name, "__libc_")) name += 7;
    while (*name == '_') name++;
    return name;
}

/* Semaphores and Python's locks are what queues of work are made of: who waits there is idle. */
static int waits_is_queue(const char *call)
{
    static const char *const names[] = { "sem_", "new_sem_", "semop", "semtimedop",
                                         "PyThread_acquire_lock" };
    return waits_is_any(waits_plain(call), names, SONDE_COUNT(names));
}

static enum finding_wait_type waits_io_type(const struct waits_frame *f, size_t n,
                                            const char *call)
{
    static const char *const disk[] = { "io_schedule", "folio_wait", "submit_bio_wait", "jbd2_",
                                        "balance_dirty_pages", "wait_on_page", "blkdev_" };
    static const char *const not_disk[] = { "pipe_", "anon_pipe_", "sock_", "n_tty_", "tty_",
                                            "eventfd_", "inotify_", "signalfd_", "fuse_dev_" };
    static const char *const either[] = { "read", "readv", "write", "writev", "close", "splice",
                                          "sendfile", "open", "io_uring" };
    if (waits_has(f, n, not_disk, SONDE_COUNT(not_disk))) return FINDING_WAIT_IDLE;
    if (waits_has(f, n, disk, SONDE_COUNT(disk))) return FINDING_WAIT_DISK;
    const char *plain = waits_plain(call);
    if (!strcmp(plain, "readahead")) return FINDING_WAIT_DISK;
    return waits_is_any(plain, either, SONDE_COUNT(either)) ? FINDING_WAIT_FILE
                                                             : FINDING_WAIT_DISK;
}

/* The innermost frame that is the program's: from where wait_kind.h says it begins outward, past
 * wrappers. */
static void waits_find_site(const struct waits_frame *f, size_t n, struct finding_wait *out)
{
    for (size_t i = 0; i < n; i++) {
        if (!f[i].function || !*f[i].name || *f[i].name == '[' || waits_is_wrapper(&f[i])) continue;
        if (out->site && f[i].function == out->site) continue; /* it calls itself */
        if (out->site) {
            out->caller = f[i].function;
            out->caller_line = f[i].line;
            return;
        }
        out->site = f[i].function;
        out->line = f[i].line;
    }
}

static void waits_classify_lock(const struct waits_frame *f, size_t n, struct finding_wait *out)
{
    out->type = FINDING_WAIT_LOCK;
    if (waits_is_postgres(f, n)) out->lock = FINDING_LOCK_POSTGRES;
    else if (waits_is_allocator(f, n)) out->lock = FINDING_LOCK_ALLOCATOR;
}

static struct finding_wait waits_classify(const struct sonde_profile *p, uint32_t stack)
{
    static const char *const gil[] = { "take_gil" };
    struct waits_frame f[FRAMES_MAX];
    const struct sonde_wait w = sonde_wait_of(p, stack);
    const size_t n = waits_frames(p, stack, f);
    const char *call = sonde_profile_str(p, p->functions[w.call].name);
    struct finding_wait out = { .type = FINDING_WAIT_IDLE, .call = w.call };
    const char *innermost = n ? waits_plain(f[0].name) : "";
    int skip_locks = 0;
    if (waits_is_postgres(f, n)) {
        waits_classify_lock(f, n, &out);
    } else if (w.kind == SONDE_WAIT_GIL || waits_has(f, n, gil, 1)) {
        out.type = FINDING_WAIT_LOCK; /* which waits with a condition variable, 5 ms each time */
        out.lock = FINDING_LOCK_GIL;
    } else if (w.kind == SONDE_WAIT_LOCK) {
        if (waits_is_queue(call)) return out;
        waits_classify_lock(f, n, &out);
        if (waits_starts(call, "flock") || waits_starts(call, "lockf")) {
            out.lock = FINDING_LOCK_FILE;
        }
    } else if (w.kind == SONDE_WAIT_SLEEP && waits_is_sqlite(f, n)) {
        out.type = FINDING_WAIT_LOCK;
        out.lock = FINDING_LOCK_SQLITE;
    } else if (waits_starts(innermost, "fcntl")) {
        out.type = FINDING_WAIT_LOCK; /* F_SETLKW: nothing else of it waits */
        out.lock = FINDING_LOCK_FILE;
    } else if (!strcmp(innermost, "syscall") || !strcmp(innermost, "futex")) {
        /* A futex of the program's own: its name may say what it is. */
        if (n > 1 && waits_names_lock(f[1].name)) {
            waits_classify_lock(f, n, &out);
            out.call = f[1].function;
            skip_locks = 1;
        }
    } else if (w.kind == SONDE_WAIT_IO) {
        out.type = waits_io_type(f, n, call);
    } else if (w.kind == SONDE_WAIT_PAGE_FAULT || waits_starts(innermost, "mmap")) {
        /* mmap: with MAP_POPULATE, which llama.cpp maps weights with. */
        out.type = FINDING_WAIT_FAULT;
    }
    size_t from = 0;
    while (from < n && (!w.caller || f[from].function != w.caller)) from++;
    while (skip_locks && from + 1 < n && waits_names_lock(f[from].name)) from++;
    waits_find_site(f + from, n - from, &out);
    return out;
}

/* ---- All of them ----------------------------------------------------------------------------- */

const char *finding_call_name(const struct finding_look *l, uint32_t function)
{
    return waits_plain(finding_function_name(l, function));
}

static int waits_is_write(const struct finding_look *l, const struct finding_wait *w)
{
    return waits_starts(finding_call_name(l, w->call), "write");
}

static double waits_storage_bytes(const struct finding_look *l, const char *direction)
{
    const struct finding_series s = { .family = "sonde_process_storage_bytes_total",
                                      .label = direction };
    double known_s = 0;
    const double rate = finding_series_mean(l, &s, &known_s);
    return isnan(rate) ? 0 : rate * known_s;
}

static void waits_sum(struct finding_look *l, struct finding_waits *w)
{
    const struct sonde_profile *p = l->p;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (s->kind != SONDE_SAMPLE_OFFCPU || s->stack >= p->stacks_count) continue;
        struct finding_wait *at = &w->of_stack[s->stack];
        if (at->type == FINDING_WAIT_UNKNOWN) *at = waits_classify(p, s->stack);
        const double seconds = (double)s->weight * 1e-9;
        w->seconds[at->type] += seconds;
        w->samples[at->type] += s->count;
        if (at->type != FINDING_WAIT_FILE) continue;
        if (waits_is_write(l, at)) w->write_s += seconds;
        else w->read_s += seconds;
    }
    const double moved = waits_storage_bytes(l, "direction=\"read\"") * (w->read_s > 0) +
                         waits_storage_bytes(l, "direction=\"write\"") * (w->write_s > 0);
    w->file_is_disk = moved > FILE_BYTES_PER_SECOND * (w->read_s + w->write_s);
    w->disk_s = w->seconds[FINDING_WAIT_DISK] +
                (w->file_is_disk ? w->seconds[FINDING_WAIT_FILE] : 0);
    w->active_s = l->cpu.seconds + w->seconds[FINDING_WAIT_LOCK] + w->disk_s +
                  w->seconds[FINDING_WAIT_FAULT];
}

const struct finding_waits *finding_waits(struct finding_look *l)
{
    if (l->waits || !l->p->weights[SONDE_SAMPLE_OFFCPU]) return l->waits;
    struct finding_waits *w = sonde__calloc(1, sizeof(*w));
    if (w) w->of_stack = sonde__calloc(l->p->stacks_count, sizeof(*w->of_stack));
    if (!w || !w->of_stack) {
        finding_waits_destroy(w);
        l->rc = SONDE_ENOMEM;
        return NULL;
    }
    waits_sum(l, w);
    l->waits = w;
    return w;
}

void finding_waits_destroy(struct finding_waits *w)
{
    if (!w) return;
    sonde__free(w->of_stack);
    sonde__free(w);
}

/* ---- Sites ----------------------------------------------------------------------------------- */

static int waits_compare_sites(const void *x, const void *y)
{
    const struct finding_wait_site *a = x, *b = y;
    if (a->seconds != b->seconds) return SONDE_CMP(b->seconds, a->seconds);
    if (a->site != b->site) return SONDE_CMP(a->site, b->site);
    return SONDE_CMP(a->line, b->line);
}

/* Sites are few: a list will do. */
static struct finding_wait_site *waits_site(struct finding_wait_site **rows, size_t *count,
                                            size_t *cap, const struct finding_wait *w)
{
    for (size_t i = 0; i < *count; i++) {
        struct finding_wait_site *s = &(*rows)[i];
        if (s->site == w->site && s->line == w->line && s->lock == w->lock) return s;
    }
    if (*count >= SITES_MAX) return &(*rows)[SITES_MAX - 1];
    struct finding_wait_site *s = SONDE_ARRAY_ADD(*rows, *count, *cap);
    if (s) {
        *s = (struct finding_wait_site){ .site = w->site, .line = w->line, .call = w->call,
                                         .lock = w->lock };
    }
    return s;
}

/* The majority of callers, by Boyer and Moore: right whenever one has more than half. */
static void waits_vote(struct finding_wait_site *site, const struct finding_wait *w, double seconds)
{
    if (site->caller == w->caller && site->caller_line == w->caller_line) {
        site->caller_s += seconds;
    } else if (site->caller_s > seconds) {
        site->caller_s -= seconds;
    } else {
        site->caller = w->caller;
        site->caller_line = w->caller_line;
        site->caller_s = seconds - site->caller_s;
    }
}

static uint32_t waits_threads_at(const struct finding_look *l, const struct finding_waits *w,
                                 const struct finding_wait_site *site, unsigned types,
                                 uint8_t *seen)
{
    const struct sonde_profile *p = l->p;
    uint32_t threads = 0;
    memset(seen, 0, p->threads_count);
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (s->kind != SONDE_SAMPLE_OFFCPU || s->stack >= p->stacks_count) continue;
        const struct finding_wait *at = &w->of_stack[s->stack];
        if (!(types & 1u << at->type) || at->site != site->site || at->line != site->line ||
            s->thread >= p->threads_count || seen[s->thread]) {
            continue;
        }
        seen[s->thread] = 1;
        threads++;
    }
    return threads;
}

struct finding_wait_site *finding_wait_sites(struct finding_look *l, unsigned types, size_t *count)
{
    const struct finding_waits *w = finding_waits(l);
    const struct sonde_profile *p = l->p;
    struct finding_wait_site *rows = NULL;
    size_t cap = 0;
    *count = 0;
    if (!w) return NULL;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (s->kind != SONDE_SAMPLE_OFFCPU || s->stack >= p->stacks_count) continue;
        const struct finding_wait *at = &w->of_stack[s->stack];
        if (!(types & 1u << at->type)) continue;
        struct finding_wait_site *site = waits_site(&rows, count, &cap, at);
        if (!site) {
            l->rc = SONDE_ENOMEM;
            break;
        }
        site->seconds += (double)s->weight * 1e-9;
        site->samples += s->count;
        waits_vote(site, at, (double)s->weight * 1e-9);
    }
    if (*count) qsort(rows, *count, sizeof(*rows), waits_compare_sites);
    uint8_t *seen = sonde__calloc(p->threads_count ? p->threads_count : 1, 1);
    if (!seen) l->rc = SONDE_ENOMEM;
    for (size_t i = 0; seen && i < *count && i < l->o.limit; i++) {
        rows[i].threads = waits_threads_at(l, w, &rows[i], types, seen);
    }
    sonde__free(seen);
    return rows;
}

struct waits_callers {
    uint32_t lines[2], line_count;             /* of the function: more than one are two */
    uint32_t callers[2], caller_lines[2], caller_count;
};

static void waits_see_caller(struct waits_callers *c, const struct sonde_profile_line *line)
{
    if (!line) return;
    for (uint32_t i = 0; i < c->caller_count; i++) {
        if (c->callers[i] == line->function && c->caller_lines[i] == line->line) return;
    }
    if (c->caller_count == 2) return;
    c->callers[c->caller_count] = line->function;
    c->caller_lines[c->caller_count++] = line->line;
}

/* Of everything that was sampled in function: from which lines it called on, and who called it. */
static void waits_find_callers(const struct sonde_profile *p, uint32_t function,
                               struct waits_callers *c)
{
    for (uint32_t i = 1; i < p->stacks_count; i++) {
        const struct sonde_profile_location *l = &p->locations[p->stacks[i].location];
        for (uint32_t k = 0; k < l->line_count; k++) {
            const struct sonde_profile_line *line = &p->lines[l->line + k];
            if (line->function != function) continue;
            if (!c->line_count) c->lines[c->line_count++] = line->line;
            else if (c->line_count == 1 && c->lines[0] != line->line) c->line_count = 2;
            const struct sonde_profile_line *caller = k + 1 < l->line_count ? line + 1 : NULL;
            const uint32_t parent = p->stacks[i].parent;
            if (!caller && parent) {
                const struct sonde_profile_location *outer =
                    &p->locations[p->stacks[parent].location];
                if (outer->line_count) caller = &p->lines[outer->line];
            }
            waits_see_caller(c, caller);
        }
    }
}

void finding_wait_site_unwrap(const struct finding_look *l, struct finding_wait_site *s)
{
    struct waits_callers c = { .line_count = 0 };
    if (!s->site || !s->caller || !s->line) return;
    waits_find_callers(l->p, s->site, &c);
    if (c.line_count != 1 || c.caller_count < 2) return;
    s->site = s->caller;
    s->line = s->caller_line;
    s->caller = s->caller_line = 0;
}

void finding_prove_site(struct finding_look *l, struct sonde_finding *f,
                        const struct finding_wait_site *s, const char *what)
{
    const char *name = finding_function_name(l, s->site ? s->site : s->call);
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_FUNCTION, .subject = (char *)(uintptr_t)(*name ? name : "[unknown]"),
        .file = (char *)(uintptr_t)finding_function_file(l, s->site), .line = s->line,
        .value = s->seconds, .unit = "seconds", .what = what });
}
