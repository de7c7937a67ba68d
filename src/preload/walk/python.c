/* python.c - reading memory that may not be there: see "Reading" in python.h. */
#include "preload/walk/python.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <string.h>
#include <unistd.h>

#include "preload/walk/walk.h"
#include "record/call.h"

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

int sonde__python_copy(uint64_t addr, void *to, size_t n)
{
    if (__atomic_load_n(&python_filter, __ATOMIC_RELAXED)) return python_copy_asked(addr, to, n);
    const struct iovec here = { to, n }, there = { (void *)(uintptr_t)addr, n };
    const long rc = process_vm_readv(python_pid, &here, 1, &there, 1, 0);
    if (rc == (long)n) return 0;
    /* The kernel may be built without it, or a module of it may forbid it. */
    if (rc < 0 && errno != EFAULT) sonde__python_filtered();
    return -1;
}
