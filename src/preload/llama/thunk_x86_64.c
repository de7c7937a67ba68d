/* thunk_x86_64.c - see thunk.h: System V ABI, 64 bits.
 *
 * Frame, downwards from the caller's:
 *
 *     16(%rbp)  arguments on the stack, the original
 *      8(%rbp)  return address
 *      0(%rbp)  caller's rbp
 *     -8(%rbp)  caller's rbx; rbx is the address of the struct sonde__thunk meanwhile
 *    -16(%rbp)  caller's r12; r12 is the function behind
 *               struct sonde__thunk
 *               copy of the arguments, at an address that is the same modulo 64 as theirs, so that
 *               whatever they are aligned to they still are
 *
 * rax (how many vector registers a function with variable arguments was given) and r10 (the static
 * chain) are handed on too; r11 is nobody's. x87 and MXCSR are not touched. */
#include "preload/llama/thunk.h"
#include "segment/llama.h"

#if defined(__x86_64__)

#define SONDE__X(id, symbol, a, b, c, absent) "hook " symbol "\n"

__asm__(
    ".text\n"
    ".set sonde__hook_number, 0\n"
    /* Numbered in the order of the list. What is asked and not watched gets no hook. */
    ".macro hook name\n"
    ".ifnc \\name, llama_perf_context\n"
    ".p2align 4\n"
    ".globl \\name\n"
    ".type \\name, @function\n"
    "\\name:\n"
    "    .cfi_startproc\n"
    "    endbr64\n"
    "    movl $sonde__hook_number, %r11d\n"
    "    jmp sonde__thunk_common\n"
    "    .cfi_endproc\n"
    ".size \\name, . - \\name\n"
    ".endif\n"
    ".set sonde__hook_number, sonde__hook_number + 1\n"
    ".endm\n"

    ".p2align 6\n"
    ".type sonde__thunk_common, @function\n"
    "sonde__thunk_common:\n"
    "    .cfi_startproc\n"
    "    pushq %rbp\n"
    "    .cfi_def_cfa_offset 16\n"
    "    .cfi_offset %rbp, -16\n"
    "    movq %rsp, %rbp\n"
    "    .cfi_def_cfa_register %rbp\n"
    "    pushq %rbx\n"
    "    .cfi_offset %rbx, -24\n"
    "    pushq %r12\n"
    "    .cfi_offset %r12, -32\n"
    "    subq $304, %rsp\n"
    "    andq $-16, %rsp\n"
    "    movq %rsp, %rbx\n"
    "    movq %rdi, 0(%rbx)\n"
    "    movq %rsi, 8(%rbx)\n"
    "    movq %rdx, 16(%rbx)\n"
    "    movq %rcx, 24(%rbx)\n"
    "    movq %r8, 32(%rbx)\n"
    "    movq %r9, 40(%rbx)\n"
    "    movq %rax, 48(%rbx)\n"
    "    movq %r10, 56(%rbx)\n"
    "    movaps %xmm0, 64(%rbx)\n"
    "    movaps %xmm1, 80(%rbx)\n"
    "    movaps %xmm2, 96(%rbx)\n"
    "    movaps %xmm3, 112(%rbx)\n"
    "    movaps %xmm4, 128(%rbx)\n"
    "    movaps %xmm5, 144(%rbx)\n"
    "    movaps %xmm6, 160(%rbx)\n"
    "    movaps %xmm7, 176(%rbx)\n"
    "    leaq 16(%rbp), %rax\n"
    "    movq %rax, 192(%rbx)\n"
    "    movq 8(%rbp), %rax\n"
    "    movq %rax, 200(%rbx)\n"
    "    movl %r11d, 208(%rbx)\n"
    "    movl $0, 212(%rbx)\n"
    "    movq %rbx, %rdi\n"
    "    call sonde__thunk_enter\n"
    "    movq %rax, %r12\n"
    "    cmpl $0, 212(%rbx)\n"
    "    je 1f\n"

    /* Room for the copy, aligned as the original. */
    "    movq 216(%rbx), %rcx\n"
    "    leaq 16(%rbp), %rsi\n"
    "    movq %rsp, %rdi\n"
    "    subq %rcx, %rdi\n"
    "    movq %rdi, %rax\n"
    "    subq %rsi, %rax\n"
    "    andl $63, %eax\n"
    "    subq %rax, %rdi\n"
    "    movq %rdi, %rsp\n"
    "    shrq $3, %rcx\n"
    "    rep movsq\n"
    "1:\n"
    "    movq 0(%rbx), %rdi\n"
    "    movq 8(%rbx), %rsi\n"
    "    movq 16(%rbx), %rdx\n"
    "    movq 24(%rbx), %rcx\n"
    "    movq 32(%rbx), %r8\n"
    "    movq 40(%rbx), %r9\n"
    "    movq 48(%rbx), %rax\n"
    "    movq 56(%rbx), %r10\n"
    "    movaps 64(%rbx), %xmm0\n"
    "    movaps 80(%rbx), %xmm1\n"
    "    movaps 96(%rbx), %xmm2\n"
    "    movaps 112(%rbx), %xmm3\n"
    "    movaps 128(%rbx), %xmm4\n"
    "    movaps 144(%rbx), %xmm5\n"
    "    movaps 160(%rbx), %xmm6\n"
    "    movaps 176(%rbx), %xmm7\n"
    "    cmpl $0, 212(%rbx)\n"
    "    je 2f\n"
    "    call *%r12\n"

    "    movq %rax, 224(%rbx)\n"
    "    movq %rdx, 232(%rbx)\n"
    "    movaps %xmm0, 240(%rbx)\n"
    "    movaps %xmm1, 256(%rbx)\n"
    "    movq %rbx, %rsp\n"
    "    movq %rbx, %rdi\n"
    "    call sonde__thunk_leave\n"
    "    movq 224(%rbx), %rax\n"
    "    movq 232(%rbx), %rdx\n"
    "    movaps 240(%rbx), %xmm0\n"
    "    movaps 256(%rbx), %xmm1\n"
    "    movq -16(%rbp), %r12\n"
    "    movq -8(%rbp), %rbx\n"
    "    .cfi_remember_state\n"
    "    leave\n"
    "    .cfi_def_cfa %rsp, 8\n"
    "    .cfi_restore %rbp\n"
    "    .cfi_restore %rbx\n"
    "    .cfi_restore %r12\n"
    "    ret\n"
    "    .cfi_restore_state\n"

    /* Not watched: as if we had not been there. */
    "2:\n"
    "    movq %r12, %r11\n"
    "    movq -16(%rbp), %r12\n"
    "    movq -8(%rbp), %rbx\n"
    "    leave\n"
    "    .cfi_def_cfa %rsp, 8\n"
    "    .cfi_restore %rbp\n"
    "    .cfi_restore %rbx\n"
    "    .cfi_restore %r12\n"
    "    jmp *%r11\n"
    "    .cfi_endproc\n"
    ".size sonde__thunk_common, . - sonde__thunk_common\n"

    SONDE__LLAMA_FUNCTIONS(SONDE__X)
    ".purgem hook\n"
);

#undef SONDE__X

#else
#error "write llama_thunk_<machine>.c for this machine, and the accessors of thunk.h"
#endif
