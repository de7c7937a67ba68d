/* preload.h - what the files of libsonde_preload share. Everything here runs in somebody else's
 * program: libc only, no allocation from its heap, nothing printed, and whatever cannot be done is
 * counted in the segment, where the agent tells it.
 *
 * libsonde_preload.so comes in by LD_PRELOAD and does nothing unless the agent that started the
 * program asks for it in the environment, for CPU samples, for a heap profile, for calls of
 * llama.cpp, for commands of GPUs, or for several of them:
 *
 *     SONDE_SAMPLER=session=<hex>,period=<ns>,depth=<frames>,children=<0|1>
 *     SONDE_HEAP=session=<hex>,mode=<sampled|full>,mean=<bytes>,depth=<frames>,children=<0|1>,
 *                scan=<0|1>,seed=<number, 0 = any>[,later=1]
 *     SONDE_LLAMA=children=<0|1>
 *     SONDE_GPU=session=<hex>,depth=<frames>,on=<0|1>,children=<0|1>
 *
 * Variables are taken out of the environment again; exec.c hands them on when the program replaces
 * itself, and, if children are wanted too, to what it starts. */
#ifndef SONDE_PRELOAD_PRELOAD_H
#define SONDE_PRELOAD_PRELOAD_H

#include <stdint.h>

#define SONDE__PRELOAD_NAME "libsonde_preload.so"
#define SONDE__SAMPLER_ENV "SONDE_SAMPLER"
#define SONDE__HEAP_ENV "SONDE_HEAP"
#define SONDE__LLAMA_ENV "SONDE_LLAMA"
#define SONDE__GPU_ENV "SONDE_GPU"

/* ---- load.c: functions behind ours --------------------------------------------------------- */

/* Functions of libc that this library stands in front of. Also change preload.map. Those of
 * llama.cpp are in segment/llama.h. */
#define SONDE__INTERPOSED(X)                                                                   \
    X(pthread_create) X(thrd_create) X(dlclose) X(sigaction) X(__sigaction) X(signal)          \
    X(ssignal) X(bsd_signal) X(sysv_signal) X(__sysv_signal) X(sigset) X(sigignore)            \
    X(sigaltstack) X(sigwait) X(sigwaitinfo) X(sigtimedwait) X(signalfd) X(sigpending)         \
    X(sigsuspend) X(ppoll) X(pselect) X(epoll_pwait) X(epoll_pwait2) X(prctl)                  \
    X(execve) X(execv) X(execvp) X(execvpe) X(fexecve) X(execveat) X(posix_spawn)              \
    X(posix_spawnp) X(system) X(popen) X(getenv) X(secure_getenv)

enum sonde__real_id {
#define SONDE__X(name) SONDE__REAL_##name,
    SONDE__INTERPOSED(SONDE__X)
#undef SONDE__X
    SONDE__REAL_COUNT
};

/* The next definition of it, NULL if there is none. Found when the library is loaded. */
void *sonde__real(enum sonde__real_id id);
#define SONDE__REAL(name) ((__typeof__(&name))sonde__real(SONDE__REAL_##name))

/* ---- spin.c -------------------------------------------------------------------------------- */

/* Wait for a lock that is a word, 1 while it is held. 0: it is ours; -1: whoever holds it does not
 * let go, for seconds. */
int sonde__spin_wait(uint32_t *lock);

/* ---- env.c -------------------------------------------------------------------------------- */

struct sonde__sampler_config {
    uint64_t session, period_ns;
    uint32_t depth_max;
    int children;              /* also what the program starts */
    char text[128];            /* the variable's value; "" = not asked for */
};

struct sonde__heap_config {
    uint64_t session, mean, seed;
    uint32_t mode;             /* SONDE__HEAP_SAMPLED or SONDE__HEAP_FULL */
    uint32_t depth_max;
    int children, scan;
    int later;                 /* it is a child: exec.c says so */
    char text[192];            /* as above */
};

struct sonde__llama_config {
    int children;
    char text[64];             /* as above */
};

struct sonde__gpu_config {
    uint64_t session;
    uint32_t depth_max;
    int on;                    /* from the beginning; else it waits to be switched on */
    int children;
    char text[96];             /* as above */
};

struct sonde__host {           /* how the program was started */
    char library[512];         /* LD_PRELOAD's entry for this library; "" = it has none */
    char dir[256];             /* SONDE_DIR; "" = not set */
    uint32_t pid;              /* of the process that read the environment */
};

/* From environ, and out of it. What makes no sense is not asked for. */
void sonde__config_take(struct sonde__sampler_config *sampler, struct sonde__heap_config *heap,
                        struct sonde__llama_config *llama, struct sonde__gpu_config *gpu,
                        struct sonde__host *host);

/* ---- load.c ------------------------------------------------------------------------------- */

extern struct sonde__sampler_config sonde__config;
extern struct sonde__heap_config sonde__heap_config;
extern struct sonde__llama_config sonde__llama_config;
extern struct sonde__gpu_config sonde__gpu_config;
extern struct sonde__host sonde__host;

/* What the library's constructor does, once; also when another library's constructor needs it
 * before that. */
void sonde__preload_start(void);

#endif
