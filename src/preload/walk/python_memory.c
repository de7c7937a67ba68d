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

/* Written to ourselves, not read from ourselves: of the two sides of such a call the kernel looks
 * up and pins the other process's pages, 350 ns each, and reads the caller's own as it reads any
 * argument, 20 ns each. It reports EFAULT for either. Not by libc's name, which AddressSanitizer
 * interposes: it would abort the program over what we read. */
int sonde__python_copy_all(const struct iovec *from, uint32_t count, void *to)
{
    SONDE_MUST(count > 0);
    const size_t n = from[0].iov_len;
    if (!__atomic_load_n(&python_filter, __ATOMIC_RELAXED)) {
        const struct iovec into = { to, n * count };
        const long rc = syscall(SYS_process_vm_writev, (long)python_pid, from, (long)count, &into,
                                1l, 0l);
        if (rc >= 0) return (size_t)rc == n * count ? 0 : -1;
        if (errno == EFAULT) return -1;
        sonde__python_filtered(); /* a kernel without it, or a module of it that forbids it */
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t addr = (uint64_t)(uintptr_t)from[i].iov_base;
        if (python_copy_asked(addr, (char *)to + i * n, n)) return -1;
    }
    return 0;
}

int sonde__python_copy(uint64_t addr, void *to, size_t n)
{
    const struct iovec from = { (void *)(uintptr_t)addr, n };
    return sonde__python_copy_all(&from, 1, to);
}
