/* walk.c - what a walk stands on: code that does not go away under it, and memory that is there. */
#include "preload/walk/walk.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/preload.h"
#include "record/state.h"

#define WAIT_NS 100000000u
#define MAIN_STACK (64u << 20)    /* the kernel puts nothing else so near below its end … */
#define MAIN_AHEAD (64u << 10)    /* … and so much of it is seen to in the beginning */
#define STACK_ROUND 8192u         /* the C library's rounding, and its own at the upper end */

struct sonde__walks sonde__walks;
__thread uint32_t sonde__walk_closing __attribute__((tls_model("initial-exec")));

__thread struct sonde__stack sonde__stack __attribute__((tls_model("initial-exec")));

/* ---- Stacks --------------------------------------------------------------------------------- */

extern void *__libc_stack_end;    /* the dynamic linker's: where the first thread began */

/* It grows downwards as it is used, in one piece, up to a limit. */
static void stack_main(void)
{
    const uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    const uint64_t high = (uint64_t)(uintptr_t)__libc_stack_end;
    struct rlimit limit;
    if (sonde__stack.high || getpid() != (pid_t)syscall(SYS_gettid)) return;
    if (getrlimit(RLIMIT_STACK, &limit)) return;
    const uint64_t most = limit.rlim_cur < MAIN_STACK ? limit.rlim_cur : MAIN_STACK;
    if (here >= high || high - here >= most || high < most) return;
    const uint64_t ahead = (here - MAIN_AHEAD) & ~7ull;
    const uint64_t known = ahead > high - most && sonde__readable(ahead) ? ahead : here;
    sonde__stack = (struct sonde__stack){ high - most, high, known };
}

/* What describes the thread is at the upper end of it, also if the program has brought its own. */
void sonde__stack_thread(uint64_t low, uint64_t bytes)
{
    const uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    const uint64_t high = (uint64_t)pthread_self();
    if (!low && bytes > STACK_ROUND && bytes < high) low = high - bytes + STACK_ROUND;
    if (!low || here < low || here >= high) return;
    sonde__stack = (struct sonde__stack){ low, high, low };
}

static void paths_keep(void)
{
    const ssize_t n = readlink("/proc/self/exe", sonde__paths.exe, sizeof(sonde__paths.exe) - 1);
    sonde__paths.exe[n > 0 ? n : 0] = 0;
    if (!getcwd(sonde__paths.cwd, sizeof(sonde__paths.cwd)) || sonde__paths.cwd[0] != '/') {
        sonde__paths.cwd[0] = 0;
    }
}

/* The kernel has mapped it, each part where it wants to be. */
static void program_find(void)
{
    const ElfW(Phdr) *first = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    const uint64_t count = getauxval(AT_PHNUM);
    uint64_t start = UINT64_MAX, end = 0, bias = UINT64_MAX;
    if (!first || getauxval(AT_PHENT) != sizeof(*first)) return;
    for (const ElfW(Phdr) *p = first; p < first + count; p++) {
        if (p->p_type == PT_PHDR) bias = (uint64_t)(uintptr_t)first - p->p_vaddr;
        if (p->p_type != PT_LOAD) continue;
        if (p->p_vaddr < start) start = p->p_vaddr;
        if (p->p_vaddr + p->p_memsz > end) end = p->p_vaddr + p->p_memsz;
    }
    if (bias == UINT64_MAX || start >= end) return;
    sonde__program = (struct sonde__program){ bias + (start & ~(uint64_t)4095), bias + end };
}

void sonde__walks_start(void)
{
    paths_keep();
    program_find();
    stack_main();
    /* Rules that somebody else found, or the parent of a fork, came with modules that the new
     * walker's agent has not been told of. */
    __atomic_fetch_add(&sonde__walks.unloads, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&sonde__walks.wanted, 1, __ATOMIC_SEQ_CST);
}

void sonde__walks_forked(void)
{
    sonde__walks.active = sonde__walks.closing = sonde__walks.spare_taken = 0;
}

/* The kernel copies a signal set in before it finds that it does not know what to do with it:
 * EFAULT or EINVAL. process_vm_readv says the same, but is forbidden in many containers. */
int sonde__readable(uint64_t addr)
{
    return syscall(SYS_rt_sigprocmask, -1, addr, NULL, sizeof(uint64_t)) != 0 && errno == EINVAL;
}

/* ---- Unloading ------------------------------------------------------------------------------ */

static int count_unloads(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    *(uint64_t *)arg = info->dlpi_subs;
    return 1;
}

static uint64_t walk_unloads(void)
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
    const uint64_t before = walk_unloads();
    sonde__walk_closing++;
    __atomic_fetch_add(&sonde__walks.closing, 1, __ATOMIC_SEQ_CST);
    wait_for_walks();
    const int rc = SONDE__REAL(dlclose)(handle);
    if (walk_unloads() != before) __atomic_fetch_add(&sonde__walks.unloads, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_sub(&sonde__walks.closing, 1, __ATOMIC_SEQ_CST);
    sonde__walk_closing--;
    return rc;
}
