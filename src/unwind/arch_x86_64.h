/* arch_x86_64.h - all that unwinding knows of x86-64: register numbers, where the kernel puts a
 * signal's registers, and what compilers and linkers write at both ends of functions. */
#ifndef SONDE_UNWIND_ARCH_X86_64_H
#define SONDE_UNWIND_ARCH_X86_64_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "unwind/unwind.h"

#define SONDE__ARCH_ELF_MACHINE 62u /* EM_X86_64 */
#define SONDE__ARCH_LINKER "/lib64/ld-linux-x86-64.so.2"

/* DWARF's numbers. */
enum {
    SONDE__ARCH_EH_DATA = 0, /* rax, which no call preserves: saved for handlers of exceptions */
    SONDE__ARCH_EH_ADJUST = 2, /* rcx: how far up a handler of exceptions is, then where */
    SONDE__ARCH_BX = 3,
    SONDE__ARCH_BP = 6,
    SONDE__ARCH_SP = 7,
    SONDE__ARCH_IP = 16
};

/* The signal frame: after the handler's return sp points to a struct ucontext, whose
 * uc_mcontext.gregs begin at byte 40 with r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
 * By DWARF number (rax rdx rcx rbx rsi rdi rbp rsp r8 …): */
static const uint8_t sonde__arch_ucontext[SONDE__REG_COUNT + 1] = {
    144, 136, 152, 128, 112, 104, 120, 160, 40, 48, 56, 64, 72, 80, 88, 96, 168
};

/* PERF_SAMPLE_REGS_USER: ask for this mask (all general registers and ip), and give what comes
 * in the order of its bits: ax bx cx dx si di bp sp ip r8 … r15. */
#define SONDE__ARCH_PERF_REGS 0xff01ffull
#define SONDE__ARCH_PERF_REG_COUNT 17u

static inline void sonde__arch_from_perf(const uint64_t v[SONDE__ARCH_PERF_REG_COUNT],
                                         struct sonde__regs *regs)
{
    static const uint8_t from[SONDE__REG_COUNT] = { 0, 3, 2, 1, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14,
                                                    15, 16 };
    for (uint32_t i = 0; i < SONDE__REG_COUNT; i++) regs->other[i] = v[from[i]];
    regs->ip = v[8];
    regs->sp = v[7];
    regs->bp = v[6];
    regs->known = 0xffff;
    regs->bp_lost = 0;
}

/* ---- Rules from code ---------------------------------------------------------------------- */

static inline int sonde__arch_bytes(const uint8_t *code, size_t len, size_t at, const char *bytes,
                                    size_t count)
{
    return at <= len && count <= len - at && !memcmp(code + at, bytes, count);
}

#define SONDE__ARCH_IS(at, bytes) sonde__arch_bytes(code, len, (at), (bytes), sizeof(bytes) - 1)

/* mov $15,%rax (or %eax); syscall: rt_sigreturn, as C libraries have it. */
static inline int sonde__arch_is_sigreturn(const uint8_t *code, size_t len, size_t ip)
{
    return SONDE__ARCH_IS(ip, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05") ||
           SONDE__ARCH_IS(ip, "\xb8\x0f\x00\x00\x00\x0f\x05");
}

/* The end of a function: add $n,%rsp and pop in any number, then ret. How far above sp the CFA
 * is; 0 = this is something else. */
static inline int sonde__arch_epilogue(const uint8_t *code, size_t len, size_t ip)
{
    int64_t above = 8;
    for (int i = 0; i < 16; i++) {
        if (SONDE__ARCH_IS(ip, "\xc3") || SONDE__ARCH_IS(ip, "\xf3\xc3") ||
            SONDE__ARCH_IS(ip, "\xc2")) return above < INT32_MAX ? (int)above : 0;
        if (SONDE__ARCH_IS(ip, "\x48\x83\xc4") && len - ip > 3 && code[ip + 3] < 0x80) {
            above += code[ip + 3];
            ip += 4;
        } else if (SONDE__ARCH_IS(ip, "\x48\x81\xc4") && len - ip >= 7 && code[ip + 6] < 0x80) {
            uint32_t n;
            memcpy(&n, code + ip + 3, sizeof(n));
            above += n;
            ip += 7;
        } else if (SONDE__ARCH_IS(ip, "\xc5\xf8\x77")) { /* vzeroupper */
            ip += 3;
        } else {
            if (SONDE__ARCH_IS(ip, "\x41")) ip++;
            if (ip >= len || code[ip] < 0x58 || code[ip] > 0x5f) return 0;
            above += 8;
            ip++;
        }
    }
    return 0;
}

/* Where ip is in _init of crti.o and crtn.o, which have no table: sub $8,%rsp / mov __gmon_start__,
 * %rax (or what the linker made of it, as long) / test %rax,%rax / je / call *%rax / add $8,%rsp /
 * ret. It begins a page of code as a rule, so that loading a module is sampled just there, while
 * the page comes in. -1: nowhere. */
static inline int sonde__arch_in_init(const uint8_t *code, size_t len, size_t ip)
{
    static const uint8_t at[] = { 0, 4, 11, 14, 16, 18 };
    for (size_t i = 0; i < sizeof(at); i++) {
        if (ip >= at[i] && SONDE__ARCH_IS(ip - at[i], "\x48\x83\xec\x08\x48") &&
            SONDE__ARCH_IS(ip - at[i] + 11, "\x48\x85\xc0\x74\x02\xff\xd0\x48\x83\xc4\x08\xc3")) {
            return at[i];
        }
    }
    return -1;
}

/* How far above sp the CFA is, as the instruction at ip tells; 0 = it does not. Linkers other
 * than GNU's describe no PLT: entries are jmp *got / push n / jmp plt0, and the first one is
 * push got[1] / jmp *got[2]. */
static inline int sonde__arch_cfa_above_sp(const uint8_t *code, size_t len, size_t ip)
{
    if (SONDE__ARCH_IS(ip, "\xff\x25")) {
        return ip >= 6 && SONDE__ARCH_IS(ip - 6, "\xff\x35") ? 24 : 8;
    }
    if (SONDE__ARCH_IS(ip, "\xff\x35") && SONDE__ARCH_IS(ip + 6, "\xff\x25")) return 16;
    if (SONDE__ARCH_IS(ip, "\x68") && SONDE__ARCH_IS(ip + 5, "\xe9")) return 8;
    if (SONDE__ARCH_IS(ip, "\xe9") && ip >= 5 && SONDE__ARCH_IS(ip - 5, "\x68")) return 16;
    if (SONDE__ARCH_IS(ip, "\xf2\xff\x25")) return 8;      /* bnd jmp *got */
    if (SONDE__ARCH_IS(ip, "\xf3\x0f\x1e\xfa")) return 8;  /* endbr64, and what is behind it */
    if (ip >= 4 && SONDE__ARCH_IS(ip - 4, "\xf3\x0f\x1e\xfa")) return 8;
    if (SONDE__ARCH_IS(ip, "\x55\x48\x89\xe5") || SONDE__ARCH_IS(ip, "\x55\x48\x8b\xec")) return 8;
    if (SONDE__ARCH_IS(ip, "\x48\x83\xec\x08\x48\x83\xc4\x08\xc3")) return 8; /* _fini of crti.o */
    const int init = sonde__arch_in_init(code, len, ip);
    if (init >= 0) return init ? 16 : 8;
    /* __do_global_dtors_aux of crtbegin.o: endbr64 / cmpb $0,completed / jne / push %rbp / cmpq */
    if (ip >= 11 && SONDE__ARCH_IS(ip - 11, "\xf3\x0f\x1e\xfa\x80\x3d")) return 8;
    if (SONDE__ARCH_IS(ip, "\x55\x48\x83\x3d") && SONDE__ARCH_IS(ip + 9, "\x48\x89\xe5")) return 8;
    return sonde__arch_epilogue(code, len, ip);
}

/* mov %rsp,%rbp behind push %rbp; __do_global_dtors_aux has cmpq $0,__cxa_finalize between them. */
static inline int sonde__arch_is_fp_set(const uint8_t *code, size_t len, size_t ip)
{
    if (ip >= 9 && SONDE__ARCH_IS(ip - 9, "\x55\x48\x83\x3d")) {
        return SONDE__ARCH_IS(ip, "\x48\x89\xe5");
    }
    return ip >= 1 && SONDE__ARCH_IS(ip - 1, "\x55") &&
           (SONDE__ARCH_IS(ip, "\x48\x89\xe5") || SONDE__ARCH_IS(ip, "\x48\x8b\xec") ||
            (SONDE__ARCH_IS(ip, "\x48\x83\x3d") && SONDE__ARCH_IS(ip + 8, "\x48\x89\xe5")));
}

/* mov %rsp,%rdi; call: the kernel's arguments, on the stack, are handed to the linker. */
static inline int sonde__arch_is_entry(const uint8_t *code, size_t len)
{
    return SONDE__ARCH_IS(0, "\x48\x89\xe7\xe8");
}

/* Is code[i], c3, not ret but %rbx,%rax or the like, the operands of the instruction before it?
 * With REX, and opcodes that are no offset of a field, since they are odd: mov, cmp, test, add,
 * sub, xor, and, or. */
static inline int sonde__arch_is_operands(const uint8_t *code, size_t i)
{
    static const uint8_t takes_two[] = { 0x89, 0x8b, 0x39, 0x3b, 0x85, 0x01, 0x03, 0x29, 0x2b,
                                         0x31, 0x33, 0x21, 0x23, 0x09, 0x0b, 0x63 };
    if (i < 2 || code[i - 2] >> 4 != 4) return 0;
    for (size_t k = 0; k < sizeof(takes_two); k++) {
        if (code[i - 1] == takes_two[k]) return 1;
    }
    return 0;
}

/* Does a function seem to end before code[i], which is at address at? With ret, where the next one
 * is aligned or what lies between is filled: int3, or a nop of any length. Or with int3 up to an
 * aligned address: V8 also has some behind calls that do not return. */
static inline int sonde__arch_ends_before(const uint8_t *code, size_t len, size_t i, uint64_t at)
{
    if (i >= 2 && SONDE__ARCH_IS(i - 2, "\xcc\xcc") && at % 16 == 0) return 1;
    if (!i || code[i - 1] != 0xc3) return 0;
    if (at % 16 == 0 && !sonde__arch_is_operands(code, i - 1)) return 1;
    return SONDE__ARCH_IS(i, "\xcc") || SONDE__ARCH_IS(i, "\x90") ||
           SONDE__ARCH_IS(i, "\x0f\x1f") || SONDE__ARCH_IS(i, "\x66\x90") ||
           SONDE__ARCH_IS(i, "\x66\x0f\x1f") || SONDE__ARCH_IS(i, "\x66\x2e\x0f\x1f") ||
           SONDE__ARCH_IS(i, "\x66\x66\x2e\x0f\x1f");
}

/* mov %rsp,%rbp in the last function of it, whose first byte is at address at. */
static inline int sonde__arch_keeps_fp(const uint8_t *code, size_t len, uint64_t at)
{
    for (size_t i = len; i-- > 0;) {
        if (SONDE__ARCH_IS(i, "\x48\x89\xe5") || SONDE__ARCH_IS(i, "\x48\x8b\xec")) return 1;
        if (sonde__arch_ends_before(code, len, i, at + i)) return 0;
    }
    return 0;
}

#undef SONDE__ARCH_IS

#endif
