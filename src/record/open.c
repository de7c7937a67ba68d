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
#include <sys/syscall.h>
#include <unistd.h>

#include "base/utf8.h"
#include "record/state.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct sonde__gate sonde__gate;
__thread struct sonde__tls sonde__tls __attribute__((tls_model("initial-exec")));
struct sonde__state sonde__g;

/* ---- The gate ------------------------------------------------------------------------------ */

static int open_lock(void)
{
    const uint32_t me = (uint32_t)syscall(SYS_gettid);
    const uint64_t deadline = sonde__mono_ns() + SONDE__LOCK_WAIT_MS * 1000000ull;
    for (;;) {
        uint32_t owner = 0;
        if (__atomic_compare_exchange_n(&sonde__gate.open_lock, &owner, me, 0, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
            return 0;
        }
        if (owner == me || sonde__mono_ns() > deadline) return SONDE_EBUSY;
        sched_yield();
    }
}

static void open_unlock(void)
{
    __atomic_store_n(&sonde__gate.open_lock, 0, __ATOMIC_RELEASE);
}

static void gate_set(uint32_t state)
{
    __atomic_store_n(&sonde__gate.state, state, __ATOMIC_RELEASE);
}

static void forget_thread(void)
{
    sonde__tls.lane = NULL;
    sonde__tls.ring = NULL;
    sonde__tls.rng = 0;
    sonde__tls.retry = 0;
}

static int wanted(void)
{
    const char *env = getenv("SONDE_ENABLED");
    return !sonde__g.user_off && !(env && env[0] == '0' && !env[1]);
}

static int open_now(void)
{
    const uint32_t pid = (uint32_t)getpid();
    const struct sonde__header *from = NULL;
    uint64_t from_bytes = 0;
    if (sonde__g.base && sonde__g.pid != pid) { /* forked */
        forget_thread();
        from = sonde__g.h;
        from_bytes = from->file_bytes;
    }
    if (!wanted()) return SONDE_EOFF;
    if (sonde__g.base && !from) return 0;

    if (!from) {
        const char *parent = getenv("TRACEPARENT");
        if (parent) sonde_traceparent_parse(parent, &sonde__g.env_trace);
    }
    sonde__g.pid = pid;
    const int rc = sonde__file_open(from);
    if (from) {
        munmap((void *)(uintptr_t)from, from_bytes);
        if (rc) sonde__g.base = NULL, sonde__g.h = NULL;
    }
    return rc;
}

int sonde__ensure_open(void)
{
    uint32_t state = SONDE__GATE();
    if (state == SONDE__GATE_CLOSED) {
        const int saved = errno;
        if (open_lock()) return SONDE_EBUSY;
        state = SONDE__GATE();
        if (state == SONDE__GATE_CLOSED) {
            sonde__clock_start();
            sonde__g.error = open_now();
            if (!sonde__g.error) sonde__gate.common = sonde__lane_cells(0);
            state = sonde__g.error ? SONDE__GATE_OFF : SONDE__GATE_ON;
            gate_set(state);
        }
        open_unlock();
        errno = saved;
    }
    if (state == SONDE__GATE_OFF) return SONDE_EOFF;
    sonde__thread_setup();
    return 0;
}

void sonde__clock_ensure(void)
{
    if (open_lock()) return;
    sonde__clock_start();
    open_unlock();
}

/* ---- Public -------------------------------------------------------------------------------- */

int sonde__take_options(void *out, size_t known, const void *in)
{
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
    if (SONDE__GATE() != SONDE__GATE_CLOSED) return sonde__g.error;
    if (config) {
        if (open_lock()) return SONDE_EBUSY;
        const int rc = SONDE__GATE() == SONDE__GATE_CLOSED ? take_config(config) : 0;
        open_unlock();
        if (rc) return rc;
    }
    const int rc = sonde__ensure_open();
    return rc == SONDE_EOFF ? sonde__g.error : rc;
}

void sonde_enable(int on)
{
    if (open_lock()) return;
    sonde__g.user_off = !on;
    if (!on) {
        sonde__clock_start();
        gate_set(SONDE__GATE_OFF);
        if (!sonde__g.error) sonde__g.error = SONDE_EOFF;
    } else if (SONDE__GATE() == SONDE__GATE_OFF && sonde__g.error == SONDE_EOFF) {
        sonde__g.error = 0;
        gate_set(SONDE__GATE_CLOSED); /* the next record opens, or finds it open */
    }
    open_unlock();
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

static void in_child(void)
{
    memset(&sonde__gate, 0, sizeof(sonde__gate));
    forget_thread();
}

__attribute__((constructor)) static void load(void)
{
    /* Safe only if the page is the gate's alone, which a copy relocation could spoil. */
    if ((uintptr_t)&sonde__gate % SONDE__PAGE == 0 && sysconf(_SC_PAGESIZE) == SONDE__PAGE) {
        madvise(&sonde__gate, sizeof(sonde__gate), MADV_WIPEONFORK);
    }
    pthread_atfork(NULL, NULL, in_child);
}

extern const ElfW(Ehdr) __ehdr_start __attribute__((weak, visibility("hidden")));
extern ElfW(Dyn) _DYNAMIC[] __attribute__((weak, visibility("hidden")));

/* 1 if this copy sits in a library that dlclose can take away: then its destructor does not mean
 * that the process ends. */
static int unloadable(void)
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

/* Other threads may go on recording after this: the mapping stays. */
__attribute__((destructor)) static void unload(void)
{
    if (!sonde__g.base || sonde__g.pid != (uint32_t)getpid()) return;
    if (!__atomic_sub_fetch(&sonde__g.h->copies_live, 1, __ATOMIC_ACQ_REL)) {
        __atomic_store_n(&sonde__g.h->closed, 1, __ATOMIC_RELEASE);
    } else if (!unloadable()) {
        return;
    }
    if (unloadable()) {
        sonde__lanes_release();
        return;
    }
    sonde__file_remove();
}
