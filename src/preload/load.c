/* load.c - the library is loaded, finds the functions that it stands in front of, and goes on in
 * children. */
#include <dlfcn.h>
#include <pthread.h>

#include "preload/llama/llama.h"
#include "preload/heap/heap.h"
#include "preload/kernels/recorder.h"
#include "preload/opencl/opencl.h"
#include "preload/preload.h"
#include "preload/sandbox.h"
#include "preload/timer/timer.h"
#include "preload/walk/python_walk.h"
#include "preload/walk/walk.h"
#include "record/state.h"
#include "segment/never.h"
#include "unwind/image.h"

struct sonde__sampler_config sonde__config;
struct sonde__heap_config sonde__heap_config;
struct sonde__llama_config sonde__llama_config;
struct sonde__gpu_config sonde__gpu_config;
struct sonde__host sonde__host;

static void *preload_found[SONDE__REAL_COUNT];

void *sonde__real(enum sonde__real_id id)
{
    static const char *const names[] = {
#define SONDE__X(name) #name,
        SONDE__INTERPOSED(SONDE__X)
#undef SONDE__X
    };
    if (SONDE_NEVER(id >= SONDE__REAL_COUNT)) return NULL;
    void *f = __atomic_load_n(&preload_found[id], __ATOMIC_RELAXED);
    if (f) return f;
    f = dlsym(RTLD_NEXT, names[id]);
    __atomic_store_n(&preload_found[id], f, __ATOMIC_RELAXED);
    return f;
}

static void preload_resolve(void)
{
    for (int i = 0; i < SONDE__REAL_COUNT; i++) sonde__real((enum sonde__real_id)i);
    sonde__sandbox_resolve();
}

/* fork() is restarted when a signal comes, and a large process takes longer to copy than a period
 * lasts: on some kernels it would never come to its end. So the signal waits. */
static __thread int blocked_here;

static void before_fork(void)
{
    blocked_here = sonde__timer_running() && !sonde__signal_block(1);
}

static void in_parent(void)
{
    if (blocked_here) sonde__signal_block(0);
}

static void preload_in_child(void)
{
    const int sampled = sonde__timer.area && sonde__timer.state == SONDE__SAMPLER_RUNNING;
    if (blocked_here) sonde__signal_block(0);
    sonde__threads_forked();
    sonde__timer.area = NULL;
    sonde__walks_forked();
    sonde__python_forked();
    sonde__python_start();
    if (sampled && sonde__config.children) sonde__timer_start();
    else if (sampled) sonde__signal_release();
    sonde__heap_forked(sonde__heap_config.children && !sonde__g.silent);
    if (!sonde__llama_config.children) sonde__llama_stop();
    if (sonde__gpu_config.text[0]) {
        sonde__kernels_forked(sonde__gpu_config.children);
        sonde__opencl_forked();
    }
}

void sonde__preload_start(void)
{
    static uint32_t started;
    if (__atomic_exchange_n(&started, 1, __ATOMIC_ACQ_REL)) return;
    preload_resolve();
    sonde__config_take(&sonde__config, &sonde__heap_config, &sonde__llama_config,
                       &sonde__gpu_config, &sonde__host);
    if (sonde__config.text[0] || sonde__heap_config.text[0] || sonde__llama_config.text[0] ||
        sonde__gpu_config.text[0]) {
        sonde__image_start();
        sonde__python_start();
        pthread_atfork(before_fork, in_parent, preload_in_child);
    }
    if (sonde__config.text[0]) sonde__timer_start();
    if (sonde__heap_config.text[0]) {
        if (sonde__heap_config.later) sonde__heap_start_later();
        else sonde__heap_start();
    }
    if (sonde__llama_config.text[0]) sonde__llama_start();
    if (sonde__gpu_config.text[0]) {
        sonde__kernels_start();
        sonde__opencl_start();
    }
    sonde__heap_decided();
}

__attribute__((constructor)) static void preload_load(void) { sonde__preload_start(); }

/* Both go on: libraries that end after this one are part of the program too. */
__attribute__((destructor)) static void preload_unload(void)
{
    sonde__timer_stop(SONDE__SAMPLER_ENDED);
    sonde__heap_stop();
}
