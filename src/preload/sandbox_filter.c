/* sandbox_filter.c - classic BPF, as far as seccomp accepts it: jumps go forward only, so that a
 * program ends after its length at most. */
#include <linux/bpf_common.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <string.h>

#include "preload/sandbox.h"

struct machine { uint32_t a, x, memory[BPF_MEMWORDS]; };

/* 0, or -1: no such instruction. */
static int sandbox_filter_load(struct machine *m, const struct sock_filter *i,
                               const struct seccomp_data *data)
{
    const uint32_t size = sizeof(*data);
    uint32_t v = i->k;
    switch (BPF_MODE(i->code)) {
    case BPF_IMM: break;
    case BPF_LEN: v = size; break;
    case BPF_MEM:
        if (i->k >= BPF_MEMWORDS) return -1;
        v = m->memory[i->k];
        break;
    case BPF_ABS:
        if (BPF_CLASS(i->code) == BPF_LDX || i->k % 4 || i->k > size - 4) return -1;
        memcpy(&v, (const char *)data + i->k, 4);
        break;
    default: return -1;
    }
    if (BPF_CLASS(i->code) == BPF_LD) m->a = v;
    else m->x = v;
    return 0;
}

static int sandbox_filter_compute(struct machine *m, const struct sock_filter *i)
{
    const uint32_t v = BPF_SRC(i->code) == BPF_X ? m->x : i->k;
    switch (BPF_OP(i->code)) {
    case BPF_ADD: m->a += v; return 0;
    case BPF_SUB: m->a -= v; return 0;
    case BPF_MUL: m->a *= v; return 0;
    case BPF_DIV:
        if (!v) return -1;
        m->a /= v;
        return 0;
    case BPF_AND: m->a &= v; return 0;
    case BPF_OR: m->a |= v; return 0;
    case BPF_XOR: m->a ^= v; return 0;
    case BPF_LSH: m->a = v < 32 ? m->a << v : 0; return 0;
    case BPF_RSH: m->a = v < 32 ? m->a >> v : 0; return 0;
    case BPF_NEG: m->a = 0 - m->a; return 0;
    default: return -1;
    }
}

/* How many instructions are passed over, or -1. */
static int64_t sandbox_filter_jump(const struct machine *m, const struct sock_filter *i)
{
    const uint32_t v = BPF_SRC(i->code) == BPF_X ? m->x : i->k;
    switch (BPF_OP(i->code)) {
    case BPF_JA: return i->k;
    case BPF_JEQ: return m->a == v ? i->jt : i->jf;
    case BPF_JGT: return m->a > v ? i->jt : i->jf;
    case BPF_JGE: return m->a >= v ? i->jt : i->jf;
    case BPF_JSET: return m->a & v ? i->jt : i->jf;
    default: return -1;
    }
}

static int sandbox_filter_store(struct machine *m, const struct sock_filter *i)
{
    if (i->k >= BPF_MEMWORDS) return -1;
    m->memory[i->k] = BPF_CLASS(i->code) == BPF_ST ? m->a : m->x;
    return 0;
}

unsigned sonde__filter_run(const struct sock_filter *code, unsigned len,
                           const struct seccomp_data *data)
{
    struct machine m;
    memset(&m, 0, sizeof(m));
    for (uint64_t at = 0; at < len; at++) {
        const struct sock_filter *i = &code[at];
        int64_t rc = -1;
        switch (BPF_CLASS(i->code)) {
        case BPF_LD: case BPF_LDX: rc = sandbox_filter_load(&m, i, data); break;
        case BPF_ST: case BPF_STX: rc = sandbox_filter_store(&m, i); break;
        case BPF_ALU: rc = sandbox_filter_compute(&m, i); break;
        case BPF_JMP: rc = sandbox_filter_jump(&m, i); break;
        case BPF_MISC:
            if (BPF_MISCOP(i->code) == BPF_TAX) m.x = m.a;
            else m.a = m.x;
            rc = 0;
            break;
        case BPF_RET: return BPF_RVAL(i->code) == BPF_A ? m.a : i->k;
        }
        if (rc < 0) break;
        at += (uint64_t)rc;
    }
    return SECCOMP_RET_KILL_PROCESS;
}
