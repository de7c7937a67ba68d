/* stack_hot.c - from where a command is queued: the stack of the thread, out of this library. */
#include <errno.h>
#include <string.h>

#include "preload/kernels/recorder.h"
#include "preload/walk/python_walk.h"
#include "preload/walk/walk.h"
#include "unwind/arch_here.h"

#include "base/hot_banned.h"

struct kernels_walk {
    struct sonde__walker w;
    struct sonde__python_walk python;
    uint64_t ip[SONDE__KERNEL_DEPTH_MAX];
    uint32_t n, max;
    int truncated;
};

static int kernels_own_code(uint64_t ip)
{
    return ip >= sonde__kernels_state.own_low && ip < sonde__kernels_state.own_high;
}

/* The next run of Python's frames, in place of the native one at ip; 0 = ip is none. */
static void kernels_walk_python(struct kernels_walk *k, uint64_t ip)
{
    const uint32_t before = k->n;
    uint64_t frame;
    while (k->n < k->max && (frame = sonde__python_frame(&k->python))) k->ip[k->n++] = frame;
    if (k->n == before && ip && k->n < k->max) k->ip[k->n++] = ip;
}

static enum sonde__step kernels_walk_step(struct kernels_walk *k, uint64_t salt, uint64_t *ip)
{
    const uint64_t rule = k->w.exact ? 0 : sonde__fast_find(salt, k->w.regs.ip - 1);
    *ip = k->w.regs.ip - 1;
    const enum sonde__step step = rule ? sonde__walk_fast(&k->w, rule) : SONDE__STEP_FAIL;
    return step != SONDE__STEP_OK && !(rule && step == SONDE__STEP_END)
               ? sonde__walk_next(&k->w, 0, ip) : step;
}

static void kernels_walk_frames(struct kernels_walk *k)
{
    const uint64_t salt = sonde__fast_salt();
    k->truncated = 1;
    while (k->n < k->max) {
        const uint64_t sp = k->w.regs.sp;
        const int own = kernels_own_code(k->w.regs.ip - !k->w.exact);
        uint64_t ip;
        const enum sonde__step step = kernels_walk_step(k, salt, &ip);
        if (step == SONDE__STEP_OK && sonde__python_here(&k->python, sp, k->w.regs.sp)) {
            kernels_walk_python(k, ip);
            continue;
        }
        if (ip && !own) k->ip[k->n++] = ip;
        if (step == SONDE__STEP_OK) continue;
        if (step == SONDE__STEP_END) k->truncated = 0;
        return;
    }
}

__attribute__((noinline)) uint32_t sonde__kernels_stack(struct sonde__kernels *area)
{
    struct kernels_walk k;
    const int saved = errno;
    if (!sonde__kernels_state.walks) return 0;
    memset(&k.w, 0, sizeof(k.w));
    k.n = 0;
    k.max = sonde__kernels_state.depth_max;
    const uint64_t unloads = sonde__unloads();
    const int modules_go = sonde__walk_begin();
    k.w.known_only = modules_go;
    k.w.exact = 1;
    sonde__arch_here(&k.w.regs);
    k.w.memory = sonde__memory_above(k.w.regs.sp);
    sonde__python_begin(&k.python, 1);
    kernels_walk_frames(&k);
    /* Frames of Python are known also where native ones are not. */
    while (k.truncated && k.python.anchor && k.n < k.max) kernels_walk_python(&k, 0);
    sonde__python_end(&k.python);
    const uint32_t number =
        k.n ? sonde__kernels_stack_add(area, k.ip, k.n,
                                       k.truncated ? SONDE__SAMPLE_TRUNCATED : 0, unloads) : 0;
    sonde__walk_end(); /* code that a new stack is in has been told of by now */
    errno = saved;
    return number;
}
