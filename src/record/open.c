/* open.c - the gate: whether this process records, from its first record to its last.
 *
 * fork: the child's gate is empty (wiped by the kernel, or by the atfork handler), so its first
 * record comes here, sees another pid, and makes a segment of its own with the parent's
 * definitions, so that handles stay valid. A child that only execs never gets that far. */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/utf8.h"
#include "record/call.h"
#include "record/state.h"
#include "segment/never.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct sonde__gate sonde__gate;
__thread struct sonde__tls sonde__tls __attribute__((tls_model("initial-exec")));
struct sonde__state sonde__g;

/* ---- The gate ------------------------------------------------------------------------------ */

/* 0, SONDE_EBUSY: this thread holds it, SONDE_EIO: another does and does not let go. */
static int open_lock(void)
{
    struct sonde__shield shield;
    const uint32_t me = sonde__gettid();
    const uint64_t deadline = sonde__mono_ns() + SONDE__LOCK_WAIT_MS * 1000000ull;
    for (;;) {
        uint32_t owner = __atomic_load_n(&sonde__gate.open_lock, __ATOMIC_RELAXED);
        if (!owner) { /* not worth the shield's system calls otherwise */
            sonde__shield_up(&shield);
            if (__atomic_compare_exchange_n(&sonde__gate.open_lock, &owner, me, 0,
                                            __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
                sonde__g.open_shield = shield;
                return 0;
            }
            sonde__shield_down(&shield);
        }
        if (owner == me) return SONDE_EBUSY;
        if (sonde__mono_ns() > deadline) return SONDE_EIO;
        sched_yield();
    }
}

static void open_unlock(void)
{
    SONDE_MUST(__atomic_load_n(&sonde__gate.open_lock, __ATOMIC_RELAXED) == sonde__gettid());
    const struct sonde__shield shield = sonde__g.open_shield;
    __atomic_store_n(&sonde__gate.open_lock, 0, __ATOMIC_RELEASE);
    sonde__shield_down(&shield);
}

static void gate_set(uint32_t state)
{
    __atomic_store_n(&sonde__gate.state, state, __ATOMIC_RELEASE);
}

static void record_open_set_error(int error)
{
    __atomic_store_n(&sonde__g.error, error, __ATOMIC_RELAXED);
}

static int get_error(void) { return __atomic_load_n(&sonde__g.error, __ATOMIC_RELAXED); }

/* Whoever opens takes longer than anybody should wait (a file system that hangs): the others go
 * on without, until it is done. */
static void stop_waiting(void)
{
    uint32_t closed = SONDE__GATE_CLOSED;
    if (__atomic_compare_exchange_n(&sonde__gate.state, &closed, SONDE__GATE_OFF, 0,
                                    __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        record_open_set_error(SONDE_EIO);
    }
}

static int record_open_wanted(void)
{
    const char *env = secure_getenv("SONDE_ENABLED");
    if (sonde__g.user) return sonde__g.user > 0;
    return !(env && env[0] == '0' && !env[1]);
}

/* What is needed even while recording is off: the clock, and the trace to hand on. */
static void record_open_begin(void)
{
    sonde__clock_start();
    if (!sonde__g.env_read) {
        const char *parent = secure_getenv("TRACEPARENT");
        if (parent) sonde_traceparent_parse(parent, &sonde__g.env_trace);
        sonde__g.env_read = 1;
    }
}

static void set_base(char *base)
{
    sonde__g.base = base;
    sonde__g.h = (struct sonde__header *)(void *)base;
}

/* The parent's segment, in a child. If other copies of the library ever joined it, they have yet to
 * find out that they were forked, and read it for the definitions. And if the child was made behind
 * libc's back, the thread that it began with still has its lane there, unless that is this one:
 * what it records is lost, into memory of nobody's, until it comes to sonde__lane_get. */
static void record_open_let_go(const struct sonde__header *from, int lane_known)
{
    void *base = (void *)(uintptr_t)from;
    const size_t bytes = (size_t)from->file_bytes;
    if (from->copies != 1) return;
    if (lane_known) munmap(base, bytes);
    else mmap(base, bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static int open_now(void)
{
    const uint32_t pid = (uint32_t)getpid();
    const struct sonde__header *from = NULL;
    int lane_known = sonde__g.forked == pid;
    /* Forked while another thread was here. */
    if (sonde__g.opening) set_base(sonde__g.opening_base);
    sonde__g.opening = 0;
    if (sonde__g.base && sonde__g.pid != pid) { /* forked */
        lane_known |= sonde__tls.rng != 0;
        sonde__thread_forget();
        from = sonde__g.h;
    }
    if (!record_open_wanted()) return SONDE_EOFF;
    if (sonde__g.base && !from) return 0;

    sonde__g.opening_base = sonde__g.base;
    sonde__g.opening = 1;
    sonde__g.pid = pid;
    const int rc = sonde__file_open(from);
    if (rc) set_base(NULL);
    sonde__g.opening = 0;
    if (from) record_open_let_go(from, lane_known);
    return rc;
}

int sonde__ensure_open(void)
{
    uint32_t state = SONDE__GATE();
    if (state == SONDE__GATE_CLOSED) {
        const int saved = errno;
        const int busy = open_lock();
        if (busy) {
            if (busy != SONDE_EBUSY) stop_waiting();
            return SONDE_EBUSY;
        }
        state = SONDE__GATE();
        if (state == SONDE__GATE_CLOSED) {
            record_open_begin();
            const int rc = open_now();
            record_open_set_error(rc);
            if (!rc) {
                __atomic_store_n(&sonde__gate.common, sonde__lane_cells(0), __ATOMIC_RELAXED);
            }
            state = rc ? SONDE__GATE_OFF : SONDE__GATE_ON;
            gate_set(state);
        }
        errno = saved;
        open_unlock();
    }
    if (state == SONDE__GATE_OFF || sonde__silent()) return SONDE_EOFF;
    sonde__thread_setup();
    return 0;
}

void sonde__clock_ensure(void)
{
    const int saved = errno;
    if (open_lock()) return;
    record_open_begin();
    errno = saved;
    open_unlock();
}

/* ---- Public -------------------------------------------------------------------------------- */

int sonde__take_options(void *out, size_t known, const void *in)
{
    if (SONDE_NEVER(!out || known < sizeof(size_t))) return SONDE_EINVAL;
    size_t size;
    if (!in) return SONDE_EINVAL;
    memcpy(&size, in, sizeof(size));
    if (size < sizeof(size) || size > SONDE__PAGE) return SONDE_EINVAL;
    for (size_t i = known; i < size; i++) {
        if (((const char *)in)[i]) return SONDE_EINVAL;
    }
    memset(out, 0, known);
    memcpy(out, in, size < known ? size : known);
    return 0;
}

static int take_config(const struct sonde_config *config)
{
    struct sonde_config c;
    int changed = 0;
    const int rc = sonde__take_options(&c, sizeof(c), config);
    if (rc) return rc;
    if (c.dir) {
        if (strlen(c.dir) >= sizeof(sonde__g.dir)) return SONDE_EINVAL;
        strcpy(sonde__g.dir, c.dir);
    }
    if (c.name) {
        const size_t n = sonde__utf8_copy(sonde__g.name, sizeof(sonde__g.name) - 1, c.name,
                                          strlen(c.name), &changed);
        sonde__g.name[n] = 0;
    }
    sonde__g.bytes_max = c.bytes_max;
    sonde__g.series_max = c.series_max;
    sonde__g.lanes_max = c.lanes_max;
    return 0;
}

int sonde_open(const struct sonde_config *config)
{
    if (config) {
        if (open_lock()) return SONDE_EBUSY;
        /* Off is not open: what is asked for now holds when it is switched on. */
        const int fresh = SONDE__GATE() == SONDE__GATE_CLOSED ||
                          (!sonde__g.base && get_error() == SONDE_EOFF);
        const int rc = fresh ? take_config(config) : 0;
        open_unlock();
        if (rc) return rc;
    }
    const int rc = sonde__ensure_open();
    return rc == SONDE_EOFF ? get_error() : rc;
}

void sonde_enable(int on)
{
    const int saved = errno;
    if (open_lock()) return;
    sonde__g.user = on ? 1 : -1;
    if (!on) {
        record_open_begin();
        gate_set(SONDE__GATE_OFF);
        if (!get_error()) record_open_set_error(SONDE_EOFF);
    } else if (SONDE__GATE() == SONDE__GATE_OFF && get_error() == SONDE_EOFF) {
        record_open_set_error(0);
        gate_set(SONDE__GATE_CLOSED); /* the next record opens, or finds it open */
    }
    errno = saved;
    open_unlock();
}

void sonde__silence(void)
{
    if (sonde__g.h) {
        __atomic_store_n(&sonde__g.h->closed, 1, __ATOMIC_RELEASE); /* not at the end any more */
        __atomic_store_n(&sonde__g.h->silent, 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&sonde__g.silent, 1, __ATOMIC_RELEASE);
    gate_set(SONDE__GATE_OFF);
}

int sonde_is_enabled(void) { return sonde__ensure_open() == 0; }

const char *sonde_strerror(int error)
{
    switch (error) {
    case 0: return "success";
#define SONDE__X(name, value, text) case value: return text;
        SONDE_ERRORS(SONDE__X)
#undef SONDE__X
    default: return "unknown error";
    }
}

/* ---- Loading and unloading ------------------------------------------------------------------ */

static void record_open_in_child(void)
{
    memset(&sonde__gate, 0, sizeof(sonde__gate));
    if (sonde__silent()) {
        gate_set(SONDE__GATE_OFF);
        return;
    }
    sonde__g.forked = (uint32_t)getpid();
    sonde__thread_forget();
    if (sonde__g.clock_ready) sonde__clock_start(); /* durations come before the first record */
}

__attribute__((constructor)) static void record_open_load(void)
{
    /* Safe only if the page is the gate's alone, which a copy relocation could spoil. */
    if ((uintptr_t)&sonde__gate % SONDE__PAGE == 0 && sysconf(_SC_PAGESIZE) == SONDE__PAGE) {
        madvise(&sonde__gate, sizeof(sonde__gate), MADV_WIPEONFORK);
    }
    pthread_atfork(NULL, NULL, record_open_in_child);
}

extern const ElfW(Ehdr) __ehdr_start __attribute__((weak, visibility("hidden")));
extern ElfW(Dyn) _DYNAMIC[] __attribute__((weak, visibility("hidden")));

/* 1 if this copy sits in a library that dlclose can take away: then its destructor does not mean
 * that the process ends. */
static int record_open_unloadable(void)
{
    if (&__ehdr_start &&
        (uintptr_t)&__ehdr_start + __ehdr_start.e_phoff == getauxval(AT_PHDR)) {
        return 0; /* linked into the program itself */
    }
    for (const ElfW(Dyn) *d = _DYNAMIC; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_FLAGS_1 && d->d_un.d_val & DF_1_NODELETE) return 0;
    }
    return 1;
}

/* Other threads may go on recording after this: the mapping stays. A copy that cannot be
 * unloaded knows that the process ends, whatever other copies there are; others know only if
 * they are the last. */
__attribute__((destructor)) static void record_open_unload(void)
{
    if (!sonde__g.base || sonde__silent()) return;
    const int sandboxed = sonde__maybe_sandboxed();
    if (sandboxed ? SONDE__GATE() == SONDE__GATE_CLOSED : sonde__g.pid != (uint32_t)getpid()) {
        /* Forked, and nothing recorded since: the gate is wiped, and the segment another's. */
        return;
    }
    const int last = !__atomic_sub_fetch(&sonde__g.h->copies_live, 1, __ATOMIC_ACQ_REL);
    const int ends = !record_open_unloadable();
    if (last || ends) __atomic_store_n(&sonde__g.h->closed, 1, __ATOMIC_RELEASE);
    if (ends && !sandboxed) sonde__file_remove();
    else if (!ends) sonde__lanes_release();
}
