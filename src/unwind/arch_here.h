/* arch_here.h - where a function is itself, for walks that begin in it. All of it is x86-64. */
#ifndef SONDE_UNWIND_ARCH_HERE_H
#define SONDE_UNWIND_ARCH_HERE_H

#include <stdint.h>
#include <string.h>

#include "unwind/unwind.h"

/* The registers at this very instruction, which is exact: unwinding begins in the function that
 * this is inlined in. */
static inline __attribute__((always_inline)) void sonde__arch_here(struct sonde__regs *regs)
{
    uint64_t ip, sp, bp, bx;
    __asm__ volatile("lea 0(%%rip), %0\n\t"
                     "mov %%rsp, %1\n\t"
                     "mov %%rbp, %2\n\t"
                     "mov %%rbx, %3"
                     : "=&a"(ip), "=&c"(sp), "=&d"(bp), "=&S"(bx));
    memset(regs, 0, sizeof(*regs));
    regs->ip = ip;
    regs->sp = sp;
    regs->bp = bp;
    regs->other[3] = bx;
    regs->known = 1u << 3;
}

/* The caller of the function that this is inlined in: where it will go on, with which sp and
 * frame pointer. Has the function keep a frame pointer. */
struct sonde__caller { uint64_t ra, sp, bp; };

static inline __attribute__((always_inline)) struct sonde__caller sonde__arch_caller(void)
{
    const uint64_t *frame = __builtin_frame_address(0);
    return (struct sonde__caller){ frame[1], (uint64_t)(uintptr_t)(frame + 2), frame[0] };
}

/* Have the registers that survive calls on the stack, in the frame of the function that this is
 * inlined in. */
static inline __attribute__((always_inline)) void sonde__arch_spill(void)
{
    __asm__ volatile("" ::: "rbx", "r12", "r13", "r14", "r15", "memory");
}

/* In a loop that waits for another processor. */
static inline void sonde__arch_pause(void) { __builtin_ia32_pause(); }

#endif
