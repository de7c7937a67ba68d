/* aspace_unwind.c - a stack, frame by frame, with the rules of addresses remembered: return
 * addresses repeat from sample to sample, so nearly every step finds its rule by one probe of a
 * hash table, and reads two or three words of the stack. */
#include <string.h>

#include "collect/aspace_private.h"

#define CODE_BEFORE 8u
#define CODE_LEN 32u

struct stack {
    const uint8_t *copy;
    uint64_t addr;
    size_t len;
};

static int read_stack(void *arg, uint64_t addr, uint64_t *out)
{
    const struct stack *s = arg;
    const uint64_t at = addr - s->addr;
    if (s->len < sizeof(*out) || at > s->len - sizeof(*out)) return -1;
    memcpy(out, s->copy + at, sizeof(*out));
    return 0;
}

/* ---- Rules ------------------------------------------------------------------------------------------ */

/* Where no table has a rule the code itself may show one. */
static int guess(const struct sonde_aspace *as, const struct sonde_mapping *m, uint64_t ip,
                 int exact, struct sonde__unwind_row *row)
{
    uint8_t code[CODE_LEN];
    const uint64_t before = ip - m->start < CODE_BEFORE ? ip - m->start : CODE_BEFORE;
    const uint64_t after = m->end - ip < CODE_LEN - before ? m->end - ip : CODE_LEN - before;
    if (ip >= m->end || sonde_module_code(as->pid, ip - before, code, before + after)) return 0;
    return sonde__unwind_guess(code, before + after, before, exact, row);
}

static void find_rule(struct sonde_aspace *as, uint64_t pc, int exact, struct rule *out)
{
    struct sonde_mapping *m = sonde_aspace_find(as, pc);
    out->kind = RULE_NOWHERE;
    if (!m) return;
    if (m->state == MAPPING_NEW) sonde_mapping_open(as->modules, m, as->pid);
    if (m->state == MAPPING_OPEN && pc - m->first <= UINT32_MAX) {
        const struct sonde__unwind_table t = sonde_mapping_table(as->modules, m, as->pid);
        const struct sonde__unwind_row *row = sonde__unwind_lookup(&t, (uint32_t)(pc - m->first));
        if (row && row->cfa != SONDE__CFA_NONE) {
            out->row = *row;
            out->kind = RULE_ROW;
            return;
        }
    }
    out->kind = guess(as, m, exact ? pc : pc + 1, exact, &out->row) ? RULE_ROW : RULE_FP;
}

static const struct rule *rule_at(struct sonde_aspace *as, uint64_t pc, int exact)
{
    struct sonde_modules *all = as->modules;
    const uint64_t key = pc << 1 | (uint64_t)exact;
    const uint64_t hash = (key ^ (uint64_t)as->layout << 40) * 0x9e3779b97f4a7c15u;
    struct rule *r = &all->rules[hash >> 52];
    _Static_assert(RULES == 1u << 12, "the hash has as many bits");
    if (r->key == key && r->layout == as->layout && r->kind != RULE_EMPTY) {
        all->stats.rule_hits++;
        return r;
    }
    all->stats.rule_misses++;
    r->key = key;
    r->layout = as->layout;
    find_rule(as, pc, exact, r);
    return r;
}

/* ---- Stacks ----------------------------------------------------------------------------------------- */

size_t sonde_aspace_unwind(struct sonde_aspace *as, const struct sonde__regs *regs,
                           const void *stack, uint64_t stack_addr, size_t stack_len,
                           uint64_t *ips, size_t max, int *truncated)
{
    static const struct rule nowhere = { .kind = RULE_NOWHERE };
    struct stack s = { stack, stack_addr, stack_len };
    struct sonde__regs r = *regs;
    int exact = 1;
    size_t n = 0;
    *truncated = 1;
    while (n < max) {
        const uint64_t pc = exact ? r.ip : r.ip - 1;
        const struct rule *rule = pc >> 63 ? &nowhere : rule_at(as, pc, exact);
        enum sonde__step step = SONDE__STEP_FAIL;
        int signal = 0;
        /* What points to no code is no return address: the step before went wrong. */
        if (n && rule->kind == RULE_NOWHERE) break;
        ips[n++] = rule->kind == RULE_ROW && rule->row.cfa == SONDE__CFA_SIGNAL ? r.ip : pc;
        if (rule->kind == RULE_ROW) {
            step = sonde__unwind_apply(&rule->row, &r, read_stack, &s, &signal);
        } else if (rule->kind == RULE_FP) {
            step = sonde__unwind_fp(&r, read_stack, &s);
            /* In code that does not keep a frame pointer it may be 0 for any reason. */
            if (n == 1 && step == SONDE__STEP_END) step = SONDE__STEP_FAIL;
        }
        if (step != SONDE__STEP_OK) {
            *truncated = step != SONDE__STEP_END;
            break;
        }
        exact = signal;
    }
    return n;
}
