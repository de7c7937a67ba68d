/* thunk.h - standing in front of functions whose parameters are somebody else's business.
 *
 * Each watched function of llama.cpp (segment/llama.h) is exported by us under its own name; what
 * stands there is the same for all: save every register that may hold an argument, ask
 * sonde__thunk_enter which function is behind it, and either jump there with everything as it was,
 * or, if the call is watched, call it and go through sonde__thunk_leave on the way back. Arguments
 * on the stack (structures by value) are copied below us for that call, as many bytes as there can
 * be; the callee may change its copy. What it returns, in whatever registers, is left as it is.
 *
 * The thunk has a frame like any function and says so in its CFI, so that stacks are walked, and
 * exceptions thrown, through it. A call that is left in another way (an exception, longjmp) is not
 * recorded, and nothing else depends on its return: everything kept of a call is in its frame.
 *
 * Rejected: replacing the return address on the stack instead of copying arguments. That is what
 * makes exceptions and shadow stacks trouble for other tracers.
 *
 * Only llama_thunk_<machine>.c and the accessors here depend on the machine. Registers wider than
 * 128 bits are not saved: code here does not touch their upper halves, but finding the function
 * behind (once per caller's library) may; no function of the list has such arguments. */
#ifndef SONDE_PRELOAD_LLAMA_THUNK_H
#define SONDE_PRELOAD_LLAMA_THUNK_H

#include <stddef.h>
#include <stdint.h>

#define SONDE__THUNK_STACK 512u /* bytes of arguments on the stack that are passed on */

/* A call under way; thunk_x86_64.c knows its layout. */
struct sonde__thunk {
    uint64_t reg[8];         /* rdi rsi rdx rcx r8 r9, rax, r10 */
    uint64_t vector[8][2];   /* xmm0 … xmm7 */
    uint64_t stack;          /* address of the arguments that are on the stack */
    uint64_t caller;         /* return address */
    uint32_t fn;             /* enum sonde__llama_fn */
    uint32_t watch;          /* sonde__thunk_leave wants to know of its return */
    uint64_t stack_bytes;    /* to be copied; a multiple of 8 */
    uint64_t result[2];      /* rax rdx */
    uint64_t result_vector[2][2]; /* xmm0 xmm1 */
    uint64_t begin;          /* ticks */
    uint64_t kept[3];        /* whatever has to be known at the return, from before */
};
_Static_assert(offsetof(struct sonde__thunk, vector) == 64, "as in the thunk");
_Static_assert(offsetof(struct sonde__thunk, stack) == 192, "as in the thunk");
_Static_assert(offsetof(struct sonde__thunk, caller) == 200, "as in the thunk");
_Static_assert(offsetof(struct sonde__thunk, fn) == 208, "as in the thunk");
_Static_assert(offsetof(struct sonde__thunk, watch) == 212, "as in the thunk");
_Static_assert(offsetof(struct sonde__thunk, stack_bytes) == 216, "as in the thunk");
_Static_assert(offsetof(struct sonde__thunk, result) == 224, "as in the thunk");
_Static_assert(offsetof(struct sonde__thunk, result_vector) == 240, "as in the thunk");
_Static_assert(sizeof(struct sonde__thunk) == 304, "as in the thunk");

/* Returns the function behind; sets watch and, if so, stack_bytes. errno is as it was. */
void *sonde__thunk_enter(struct sonde__thunk *c);
void sonde__thunk_leave(struct sonde__thunk *c);

/* The ith argument that is an integer or a pointer, of the first six. */
static inline uint64_t sonde__thunk_arg(const struct sonde__thunk *c, uint32_t i)
{
    return c->reg[i];
}
static inline int32_t sonde__thunk_int(const struct sonde__thunk *c, uint32_t i)
{
    return (int32_t)c->reg[i];
}

/* A large structure that is passed by value, as the first that is not in registers. */
static inline const void *sonde__thunk_struct(const struct sonde__thunk *c)
{
    return (const void *)(uintptr_t)c->stack;
}

#endif
