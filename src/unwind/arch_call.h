/* arch_call.h - a call, as a probe at a function's entry sees it: arguments, result, and what can
 * be read from the code of small functions. All of it is x86-64. */
#ifndef SONDE_UNWIND_ARCH_CALL_H
#define SONDE_UNWIND_ARCH_CALL_H

#include "unwind/arch_x86_64.h"

#define SONDE__ARCH_ARGS 6u      /* words that are passed in registers: rdi rsi rdx rcx r8 r9 */
#define SONDE__ARCH_CALL_BYTES 8u /* what a call puts on the stack, and the return takes off
                                   * again */

static inline void sonde__arch_args(const struct sonde__regs *regs, uint64_t out[SONDE__ARCH_ARGS])
{
    static const uint8_t from[SONDE__ARCH_ARGS] = { 5, 4, 1, 2, 8, 9 };
    for (uint32_t i = 0; i < SONDE__ARCH_ARGS; i++) out[i] = regs->other[from[i]];
}

static inline uint64_t sonde__arch_result(const struct sonde__regs *regs) { return regs->other[0]; }

/* ---- Where to put a probe ----------------------------------------------------------------- */

/* 1 if the kernel emulates the instruction there; others are stepped through, at ten times the
 * cost: push, nop, jumps. */
static inline int sonde__arch_is_emulated(const uint8_t *code, size_t len, size_t at)
{
    if (at >= len) return 0;
    const uint8_t c = code[at];
    if (c == 0x41 && len - at > 1) return code[at + 1] >= 0x50 && code[at + 1] <= 0x57;
    if (c == 0x0f && len - at > 1) return code[at + 1] >= 0x80 && code[at + 1] <= 0x8f;
    return (c >= 0x50 && c <= 0x57) || (c >= 0x70 && c <= 0x7f) || c == 0x90 || c == 0xe9 ||
           c == 0xeb;
}

/* Bytes from a function's entry to where a probe costs least and still finds arguments and return
 * address as at the entry: behind endbr64, and behind what many short functions begin with, a test
 * of the first argument or a bool in the sixth made a word, if a cheap instruction follows. */
static inline uint32_t sonde__arch_probe_skip(const uint8_t *code, size_t len)
{
    uint32_t at = sonde__arch_bytes(code, len, 0, "\xf3\x0f\x1e\xfa", 4) ? 4 : 0;
    if (sonde__arch_bytes(code, len, at, "\x48\x85\xff", 3) && /* test %rdi,%rdi */
        sonde__arch_is_emulated(code, len, at + 3)) return at + 3;
    if (sonde__arch_bytes(code, len, at, "\x45\x0f\xb6\xc9", 4) && /* movzbl %r9b,%r9d */
        sonde__arch_is_emulated(code, len, at + 4)) return at + 4;
    return at;
}

/* ---- Where a call came from ------------------------------------------------------------------ */

enum sonde__call {
    SONDE__CALL_NONE,     /* no call ends here: this is not a return address */
    SONDE__CALL_DIRECT,   /* of *to */
    SONDE__CALL_GOT,      /* of what is in the word at *to */
    SONDE__CALL_INDIRECT  /* of what was in a register, or in memory that only it can find */
};

/* The call that ends with the len bytes of code, behind which, at the address after, it returns. */
static inline enum sonde__call sonde__arch_call_before(const uint8_t *code, size_t len,
                                                       uint64_t after, uint64_t *to)
{
    static const uint8_t sizes[] = { 2, 3, 4, 6, 7 }; /* of call *operand, without a prefix */
    int32_t by;
    if (len >= 5 && code[len - 5] == 0xe8) {
        memcpy(&by, code + len - 4, sizeof(by));
        *to = after + (uint64_t)(int64_t)by;
        return SONDE__CALL_DIRECT;
    }
    for (size_t i = 0; i < sizeof(sizes); i++) {
        if (len < sizes[i] || code[len - sizes[i]] != 0xff) continue;
        const uint8_t operand = code[len - sizes[i] + 1];
        const uint8_t mod = operand >> 6, rm = operand & 7;
        if ((operand >> 3 & 7) != 2) continue;
        uint32_t size = 2;
        if (mod != 3 && rm == 4) size++;                   /* SIB */
        if (mod == 1) size++;                              /* 8 bits of displacement */
        if (mod == 2 || (mod == 0 && rm == 5)) size += 4;  /* 32 */
        if (mod == 0 && rm == 4 && sizes[i] == 7 && (code[len - 5] & 7) == 5) size = 7;
        if (size != sizes[i]) continue;
        if (mod != 0 || rm != 5) return SONDE__CALL_INDIRECT;
        memcpy(&by, code + len - 4, sizeof(by));
        *to = after + (uint64_t)(int64_t)by;
        return SONDE__CALL_GOT;
    }
    return SONDE__CALL_NONE;
}

/* The jump that begins with code, at this address: DIRECT to *to, or INDIRECT. */
static inline enum sonde__call sonde__arch_jump_at(const uint8_t *code, size_t len, uint64_t at,
                                                   uint64_t *to)
{
    const size_t size = len && code[0] == 0x0f ? 2 : 1;
    int32_t by;
    if (len > 1 && code[0] == 0xff && (code[1] >> 3 & 7) == 4) return SONDE__CALL_INDIRECT;
    const int is_jump = len && (code[0] == 0xe9 || (size == 2 && len > 1 && code[1] >> 4 == 8));
    if (!is_jump || len < size + 4) return SONDE__CALL_NONE;
    memcpy(&by, code + size, sizeof(by));
    *to = at + size + 4 + (uint64_t)(int64_t)by;
    return SONDE__CALL_DIRECT;
}

/* The word that an entry of the PLT at this address jumps through; 0 = this is none. */
static inline uint64_t sonde__arch_plt_word(const uint8_t *code, size_t len, uint64_t at)
{
    size_t i = sonde__arch_bytes(code, len, 0, "\xf3\x0f\x1e\xfa", 4) ? 4 : 0;
    if (sonde__arch_bytes(code, len, i, "\xf2", 1)) i++;
    if (!sonde__arch_bytes(code, len, i, "\xff\x25", 2) || len - i < 6) return 0;
    int32_t by;
    memcpy(&by, code + i + 2, sizeof(by));
    return at + i + 6 + (uint64_t)(int64_t)by;
}

/* ---- What a getter returns ---------------------------------------------------------------- */

/* Where in its only argument a getter finds what it returns: a field that it loads (mov) or, with
 * address = 1, the address of one (lea, or add). Into rax from rdi, or in code that was not
 * optimized from rax; the last one before the first ret. -1 = this is no such code. */
static inline int32_t sonde__arch_getter(const uint8_t *code, size_t len, int address)
{
    const uint8_t op = address ? 0x8d : 0x8b;
    int32_t found = -1;
    for (size_t i = 0; i + 4 <= len && code[i] != 0xc3; i++) {
        if (code[i] != 0x48) continue;
        const uint8_t mod = code[i + 2];
        if (code[i + 1] == op && (mod == 0x47 || mod == 0x40) && code[i + 3] < 0x80) {
            found = code[i + 3];
            i += 3;
        } else if (code[i + 1] == op && (mod == 0x87 || mod == 0x80) && len - i >= 7) {
            memcpy(&found, code + i + 3, sizeof(found));
            i += 6;
        } else if (address && code[i + 1] == 0x05 && len - i >= 6) { /* add $n,%rax */
            memcpy(&found, code + i + 2, sizeof(found));
            i += 5;
        }
    }
    return found >= 0 && found < 4096 ? found : -1;
}

#endif
