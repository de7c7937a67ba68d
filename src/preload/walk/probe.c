/* probe.c - may memory be read? The kernel copies a signal set in before it finds that it
 * does not know what to do with it: EFAULT or EINVAL. process_vm_readv says the same, but is
 * forbidden in many containers. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/walk/walk.h"

int sonde__readable(uint64_t addr)
{
    return syscall(SYS_rt_sigprocmask, -1, addr, NULL, sizeof(uint64_t)) != 0 && errno == EINVAL;
}
