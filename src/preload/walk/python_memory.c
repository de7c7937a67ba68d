/* python_memory.c - reading memory that may not be there: see "Reading" in python_walk.h. */
#include "preload/walk/python_walk.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <string.h>
#include <unistd.h>

#include "preload/walk/walk.h"
#include "record/call.h"
#include "segment/never.h"

#define PAGE 4096u

static uint32_t python_filter;   /* ask for each page */
static pid_t python_pid;

void sonde__python_filtered(void) { __atomic_store_n(&python_filter, 1, __ATOMIC_RELAXED); }

void sonde__python_start(void)
{
    python_pid = getpid();
    if (sonde__call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) != 0) sonde__python_filtered();
}

static int python_copy_asked(uint64_t addr, void *to, size_t n)
{
    for (uint64_t page = addr & ~(uint64_t)(PAGE - 1); page < addr + n; page += PAGE) {
        if (!sonde__readable(page)) return -1;
    }
    memcpy(to, (const void *)(uintptr_t)addr, n);
    return 0;
}

uint32_t sonde__python_copy_all(const uint64_t *addrs, uint32_t count, char *to, size_t n)
{
    struct iovec there[SONDE__PYTHON_BATCH];
    const struct iovec here = { to, n * count };
    uint32_t done = 0;
    SONDE_MUST(count <= SONDE__PYTHON_BATCH);
    if (!__atomic_load_n(&python_filter, __ATOMIC_RELAXED)) {
        for (uint32_t i = 0; i < count; i++) {
            there[i] = (struct iovec){ (void *)(uintptr_t)addrs[i], n };
        }
        const long rc = process_vm_readv(python_pid, &here, 1, there, count, 0);
        if (rc >= 0) return (uint32_t)((size_t)rc / n);
        if (errno == EFAULT) return 0;
        sonde__python_filtered(); /* a kernel without it, or a module of it that forbids it */
    }
    while (done < count && !python_copy_asked(addrs[done], to + done * n, n)) done++;
    return done;
}

int sonde__python_copy(uint64_t addr, void *to, size_t n)
{
    return sonde__python_copy_all(&addr, 1, to, n) == 1 ? 0 : -1;
}
