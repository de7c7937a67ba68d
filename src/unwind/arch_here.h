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

/* fn(arg) on another stack, down from top, which is a multiple of 16. */
static inline void sonde__arch_call_on(void *top, void (*fn)(void *), void *arg)
{
    __asm__ volatile("mov %%rsp, %%rbx\n\t"
                     "mov %[top], %%rsp\n\t"
                     "call *%[fn]\n\t"
                     "mov %%rbx, %%rsp"
                     : [top] "+r"(top), [fn] "+r"(fn), "+D"(arg)
                     :
                     : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory",
                       "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                       "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

/* Arithmetic inside of somebody else's: between these the processor raises no exception that the
 * program has asked for, and what it notes of ours is not left behind. Nothing keeps a compiler
 * from moving arithmetic across them but what goes in and comes out, which has to pass through
 * _here. */
static inline uint32_t sonde__arch_float_begin(void)
{
    const uint32_t usual = 0x1f80; /* all masked, round to nearest */
    uint32_t theirs;
    __asm__ volatile("stmxcsr %0" : "=m"(theirs));
    __asm__ volatile("ldmxcsr %0" ::"m"(usual) : "memory");
    return theirs;
}

static inline void sonde__arch_float_end(uint32_t theirs)
{
    __asm__ volatile("ldmxcsr %0" ::"m"(theirs) : "memory");
}

static inline uint64_t sonde__arch_float_here(uint64_t v)
{
    __asm__ volatile("" : "+r"(v));
    return v;
}

/* In a loop that waits for another processor. */
static inline void sonde__arch_pause(void) { __builtin_ia32_pause(); }

#endif
