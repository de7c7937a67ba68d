/* call.c - is an address the return address of a call of a certain function? For words of a
 * stack that were read later than the rest of it: what stands there by then may be another call's.
 *
 * The instruction before it must be a call. Of a direct one, or one through the PLT or the GOT, it
 * is known what it calls, and functions are told apart by where their entries in .eh_frame begin.
 * One that is called may end with a jump to another, or go on in a part of it that lies apart: its
 * code is searched for such jumps. */
#include <stdlib.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "collect/aspace/private.h"
#include "unwind/arch_call.h"

#define CODE 8u       /* of a call, at most */
#define PLT_CODE 16u

#define BODY_MAX 65536u /* of a function that is searched */

/* Where the function at addr begins; 0 = not known. *end (may be NULL): where the next one does. */
static uint64_t function_at(struct sonde_aspace *as, uint64_t addr, uint64_t *end)
{
    struct sonde_aspace_mapping *m = sonde_aspace_find(as, addr);
    if (!m) return 0;
    if (m->state == MAPPING_NEW) sonde_aspace_mapping_open(as->modules, m, as->pid);
    if (m->state != MAPPING_OPEN || addr - m->first > UINT32_MAX) return 0;
    sonde_aspace_mapping_table(as->modules, m, as->pid);
    const uint32_t *starts = m->module->functions;
    uint32_t low = 0, high = m->module->function_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (starts[middle] <= addr - m->first) low = middle + 1;
        else high = middle;
    }
    if (!low) return 0;
    if (end) *end = low < m->module->function_count ? m->first + starts[low] : m->map.end;
    return m->first + starts[low - 1];
}

uint64_t sonde_aspace_function(struct sonde_aspace *as, uint64_t pc)
{
    const uint64_t start = function_at(as, pc, NULL);
    return start ? start : pc;
}

static int code_at(const struct sonde_aspace *as, uint64_t addr, uint8_t *out, size_t len)
{
    const struct sonde_aspace_mapping *m = sonde_aspace_find(as, addr);
    if (!m || m->map.end - addr < len) return -1;
    return sonde_module_code(m, as->pid, addr, out, len);
}

static uint64_t memory_word(const struct sonde_aspace *as, uint64_t addr)
{
    uint64_t word;
    const struct iovec to = { &word, sizeof(word) };
    const struct iovec from = { (void *)(uintptr_t)addr, sizeof(word) };
    return process_vm_readv((pid_t)as->pid, &to, 1, &from, 1, 0) == sizeof(word) ? word : 0;
}

/* What a call of to ends up in: an entry of the PLT leads on. */
static uint64_t behind_plt(const struct sonde_aspace *as, uint64_t to)
{
    uint8_t code[PLT_CODE];
    if (code_at(as, to, code, sizeof(code))) return to;
    const uint64_t word = sonde__arch_plt_word(code, sizeof(code), to);
    return word ? memory_word(as, word) : to;
}

static void read_call(struct sonde_aspace *as, struct call_site *c)
{
    uint8_t code[CODE];
    const struct sonde_aspace_mapping *m = sonde_aspace_find(as, c->address - 1);
    c->kind = SONDE__CALL_NONE;
    if (!m) return;
    const uint64_t from = c->address - m->map.start;
    const uint64_t before = from < CODE ? from : CODE;
    if (sonde_module_code(m, as->pid, c->address - before, code, before)) return;
    c->kind = sonde__arch_call_before(code, before, c->address, &c->to);
    if (c->kind == SONDE__CALL_DIRECT) c->to = behind_plt(as, c->to);
    if (c->kind == SONDE__CALL_GOT) c->to = memory_word(as, c->to);
    if (c->kind == SONDE__CALL_NONE || c->kind == SONDE__CALL_INDIRECT) return;
    /* Not bound yet, or not to be read. */
    c->kind = c->to && sonde_aspace_find(as, c->to) ? SONDE__CALL_DIRECT : SONDE__CALL_INDIRECT;
}

/* Can the function from start to end go on in the one that begins at in? */
static enum sonde_aspace_call by_jump(struct sonde_aspace *as, uint64_t start, uint64_t end,
                                      uint64_t in)
{
    enum sonde_aspace_call call = SONDE_ASPACE_CALL_NOT;
    const size_t len = end - start < BODY_MAX ? end - start : BODY_MAX;
    uint8_t *code = sonde__alloc(len + 1);
    if (!code || code_at(as, start, code, len)) {
        sonde__free(code);
        return SONDE_ASPACE_CALL_OTHER;
    }
    /* At every byte: a jump that is none makes a caller possible, no more. */
    for (size_t i = 0; i < len && call != SONDE_ASPACE_CALL_UNKNOWN; i++) {
        uint64_t to;
        const enum sonde__call jump = sonde__arch_jump_at(code + i, len - i, start + i, &to);
        if (jump == SONDE__CALL_NONE || (jump == SONDE__CALL_DIRECT && to >= start && to < end)) {
            continue;
        }
        if (jump == SONDE__CALL_DIRECT && !sonde_aspace_find(as, to)) continue;
        call = SONDE_ASPACE_CALL_OTHER;
        if (jump == SONDE__CALL_DIRECT && function_at(as, behind_plt(as, to), NULL) == in) {
            call = SONDE_ASPACE_CALL_UNKNOWN;
        }
    }
    sonde__free(code);
    return call;
}

enum sonde_aspace_call sonde_aspace_call(struct sonde_aspace *as, uint64_t address, uint64_t pc)
{
    const uint64_t hash = (address ^ (uint64_t)as->layout << 40) * 0x9e3779b97f4a7c15u;
    struct call_site *c = &as->modules->calls[hash >> 54];
    _Static_assert(CALLS == 1u << 10, "the hash has as many bits");
    uint64_t end;
    if (!address) return SONDE_ASPACE_CALL_NOT;
    if (c->address != address || c->layout != as->layout) {
        *c = (struct call_site){ .address = address, .layout = as->layout };
        read_call(as, c);
    }
    if (c->kind == SONDE__CALL_NONE) return SONDE_ASPACE_CALL_NOT;
    if (c->kind == SONDE__CALL_INDIRECT) return SONDE_ASPACE_CALL_UNKNOWN;
    const uint64_t called = function_at(as, c->to, &end), in = function_at(as, pc, NULL);
    if (!called || !in) return SONDE_ASPACE_CALL_UNKNOWN;
    if (called == in) return SONDE_ASPACE_CALL_FITS;
    if (c->from != in) {
        c->from = in;
        c->call = by_jump(as, called, end, in);
    }
    return c->call;
}
