/* walk.c - code does not go away under a walk. */
#include "preload/walk.h"

#include <link.h>
#include <sched.h>
#include <unistd.h>

#include "preload/preload.h"
#include "record/state.h"

#define WAIT_NS 100000000u

struct sonde__walks sonde__walks;
__thread uint32_t sonde__walk_closing __attribute__((tls_model("initial-exec")));

static void paths_keep(void)
{
    const ssize_t n = readlink("/proc/self/exe", sonde__paths.exe, sizeof(sonde__paths.exe) - 1);
    sonde__paths.exe[n > 0 ? n : 0] = 0;
    if (!getcwd(sonde__paths.cwd, sizeof(sonde__paths.cwd)) || sonde__paths.cwd[0] != '/') {
        sonde__paths.cwd[0] = 0;
    }
}

void sonde__walks_start(void)
{
    paths_keep();
    /* Rules that somebody else found, or the parent of a fork, came with modules that the new
     * walker's agent has not been told of. */
    __atomic_fetch_add(&sonde__walks.unloads, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&sonde__walks.wanted, 1, __ATOMIC_SEQ_CST);
}

void sonde__walks_forked(void) { sonde__walks.active = sonde__walks.closing = 0; }

/* ---- Unloading ------------------------------------------------------------------------------ */

static int count_unloads(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    *(uint64_t *)arg = info->dlpi_subs;
    return 1;
}

static uint64_t unloads(void)
{
    uint64_t n = 0;
    dl_iterate_phdr(count_unloads, &n);
    return n;
}

/* A walk takes microseconds, but its thread may be kept from running. */
static void wait_for_walks(void)
{
    const uint64_t until = sonde__mono_ns() + WAIT_NS;
    while (__atomic_load_n(&sonde__walks.active, __ATOMIC_SEQ_CST) && sonde__mono_ns() < until) {
        sched_yield();
    }
}

__attribute__((visibility("default"))) int dlclose(void *handle)
{
    if (!__atomic_load_n(&sonde__walks.wanted, __ATOMIC_RELAXED)) {
        return SONDE__REAL(dlclose)(handle);
    }
    const uint64_t before = unloads();
    sonde__walk_closing++;
    __atomic_fetch_add(&sonde__walks.closing, 1, __ATOMIC_SEQ_CST);
    wait_for_walks();
    const int rc = SONDE__REAL(dlclose)(handle);
    if (unloads() != before) __atomic_fetch_add(&sonde__walks.unloads, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_sub(&sonde__walks.closing, 1, __ATOMIC_SEQ_CST);
    sonde__walk_closing--;
    return rc;
}
