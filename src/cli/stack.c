/* stack.c - see stack.h.
 *
 * The same thread goes on, with the same process and thread id, on memory of our own. Rejected: to
 * raise the limit, which the hard one forbids to all but root, and which CMD would inherit; a
 * thread with a large stack, which would not be the one that signals and perf events are for; and
 * smaller frames, a rule that every path of forty commands would have to keep. */
#include "cli/stack.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

#define STACK_BYTES (8u << 20) /* what Linux gives as a rule */
#define GUARD_BYTES (64u << 10) /* a page, however large those are */

static struct {
    ucontext_t found, roomy;
    sonde_stack_fn *call;
    int argc;
    char **argv, **envp;
    int status;
} switched;

static void cli_stack_enter(void)
{
    switched.status = switched.call(switched.argc, switched.argv, switched.envp);
}

/* Threads get the limit's size, too, unless told otherwise. */
static void threads_enlarge(void)
{
    pthread_attr_t a;
    if (pthread_attr_init(&a)) return;
    if (!pthread_attr_setstacksize(&a, STACK_BYTES)) pthread_setattr_default_np(&a);
    pthread_attr_destroy(&a);
}

int sonde_stack_run(sonde_stack_fn *call, int argc, char **argv, char **envp)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= STACK_BYTES) {
        return call(argc, argv, envp);
    }
    threads_enlarge();
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED || getcontext(&switched.roomy)) return call(argc, argv, envp);
    mprotect(stack, GUARD_BYTES, PROT_NONE);
    switched.roomy.uc_stack.ss_sp = stack;
    switched.roomy.uc_stack.ss_size = STACK_BYTES;
    switched.roomy.uc_link = &switched.found;
    switched.call = call;
    switched.argc = argc;
    switched.argv = argv;
    switched.envp = envp;
    makecontext(&switched.roomy, cli_stack_enter, 0);
    if (swapcontext(&switched.found, &switched.roomy)) return call(argc, argv, envp);
    return switched.status;
}
