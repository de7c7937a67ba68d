/* arch_call.h - a call, as a probe at a function's entry sees it: arguments, result, and what can be
 * read from the code of small functions. All of it is x86-64. */
#ifndef SONDE_UNWIND_ARCH_CALL_H
#define SONDE_UNWIND_ARCH_CALL_H

#include "unwind/arch_x86_64.h"

#define SONDE__ARCH_ARGS 6u      /* words that are passed in registers: rdi rsi rdx rcx r8 r9 */
#define SONDE__ARCH_CALL_BYTES 8u /* what a call puts on the stack, and the return takes off again */

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
