/* rules_hot.c - the rule for an address: remembered, or from the module it is in.
 *
 * Remembered rules are shared by all threads without a lock. An entry is four words and the last
 * one is a hash of the others: a mixture of two writers' words does not match and is no rule. */
#include <dlfcn.h>
#include <string.h>

#include "preload/timer.h"
#include "preload/walk.h"

#include "base/hot_banned.h"

#define RULES 4096u
#define CODE_BEFORE 24u
#define CODE_LEN 56u
#define PAGE 4096u

static struct entry { uint64_t key, row[2], check; } rules[RULES];
struct sonde__fast_rule sonde__fast_rules[SONDE__FAST_RULES];

/* 0: it takes more than a word. What is saved lies below the CFA. */
static uint64_t fast_rule(const struct sonde__unwind_row *row)
{
    const uint32_t bp = row->saved & 15u, bx = (row->saved & ~SONDE__SAVED_JUMPS) >> 4;
    uint64_t rule = (uint64_t)(uint32_t)row->cfa_off << 32 |
                    (uint64_t)(uint16_t)row->bp_off << 16 | (uint64_t)(uint8_t)row->bx_off << 8;
    if (row->cfa == SONDE__CFA_END) return SONDE__FAST_END;
    if (row->ra_off != -8 || row->saved & SONDE__SAVED_JUMPS) return 0;
    if (row->cfa == SONDE__CFA_SP) rule |= SONDE__FAST_SP;
    else if (row->cfa == SONDE__CFA_BP) rule |= SONDE__FAST_BP;
    else return 0;
    if (bp == SONDE__SAVED_AT_CFA && row->bp_off <= -8) rule |= SONDE__FAST_BP_SAVED;
    else if (bp != SONDE__SAVED_SAME) return 0;
    if (bx == SONDE__SAVED_AT_CFA && row->bx_off < 0) rule |= SONDE__FAST_BX_SAVED;
    else if (bx == SONDE__SAVED_LOST) rule |= SONDE__FAST_BX_LOST;
    else if (bx != SONDE__SAVED_SAME) return 0;
    return rule;
}

static void fast_put(uint64_t pc, const struct sonde__unwind_row *row)
{
    struct sonde__fast_rule *e = sonde__fast_at(pc);
    const uint64_t rule = fast_rule(row);
    if (!rule) return;
    __atomic_store_n(&e->rule, rule, __ATOMIC_RELAXED);
    __atomic_store_n(&e->key, sonde__fast_key(sonde__fast_salt(), pc, rule), __ATOMIC_RELAXED);
}

static uint64_t check_of(uint64_t key, const uint64_t row[2])
{
    return sonde__mix(sonde__mix(sonde__mix(sonde__unloads() + 1ull, key), row[0]), row[1]);
}

/* Where there is no rule the code may show one. Within a page: the next may not be there. */
static int guess(uint64_t ip, int exact, struct sonde__unwind_row *row)
{
    const uint64_t in_page = ip % PAGE;
    const uint64_t before = in_page < CODE_BEFORE ? in_page : CODE_BEFORE;
    const uint64_t after = PAGE - in_page < CODE_LEN - before ? PAGE - in_page : CODE_LEN - before;
    if (!sonde__readable(ip & ~7ull)) return 0;
    return sonde__unwind_guess((const uint8_t *)(uintptr_t)(ip - before), before + after, before,
                               exact, row);
}

static enum sonde__rule look(uint64_t pc, int exact, struct sonde__unwind_row *row)
{
    struct dl_find_object o;
    if (_dl_find_object((void *)(uintptr_t)pc, &o)) {
        return sonde__readable(pc & ~7ull) ? SONDE__RULE_FP : SONDE__RULE_NOWHERE;
    }
    if (sonde__timer.area) sonde__timer_announce(&o);
    const struct sonde__unwind_object object = { (uint64_t)(uintptr_t)o.dlfo_map_start,
                                                 (uint64_t)(uintptr_t)o.dlfo_map_end,
                                                 (uint64_t)(uintptr_t)o.dlfo_eh_frame };
    if (o.dlfo_eh_frame && !sonde__unwind_find(&object, pc, row)) return SONDE__RULE_ROW;
    return guess(exact ? pc : pc + 1, exact, row) ? SONDE__RULE_ROW : SONDE__RULE_FP;
}

enum sonde__rule sonde__rule_find(uint64_t pc, int exact, int known_only,
                                  struct sonde__unwind_row *row)
{
    const uint64_t key = pc << 1 | (uint64_t)exact;
    struct entry *e = &rules[sonde__mix(0, key) >> 52];
    _Static_assert(RULES == 1u << 12, "the hash has as many bits");
    _Static_assert(sizeof(*row) == sizeof(e->row), "a row is two words");
    uint64_t words[2] = { __atomic_load_n(&e->row[0], __ATOMIC_RELAXED),
                          __atomic_load_n(&e->row[1], __ATOMIC_RELAXED) };
    if (__atomic_load_n(&e->key, __ATOMIC_RELAXED) == key &&
        __atomic_load_n(&e->check, __ATOMIC_RELAXED) == check_of(key, words)) {
        memcpy(row, words, sizeof(*row));
        if (!exact && row->pc == SONDE__RULE_ROW) fast_put(pc, row);
        return (enum sonde__rule)row->pc;
    }
    if (known_only) return SONDE__RULE_UNKNOWN;

    memset(row, 0, sizeof(*row));
    const enum sonde__rule rule = look(pc, exact, row);
    row->pc = rule; /* nobody needs where the row began */
    if (rule == SONDE__RULE_NOWHERE) return rule;
    if (!exact && rule == SONDE__RULE_ROW) fast_put(pc, row);
    memcpy(words, row, sizeof(words));
    __atomic_store_n(&e->key, key, __ATOMIC_RELAXED);
    __atomic_store_n(&e->row[0], words[0], __ATOMIC_RELAXED);
    __atomic_store_n(&e->row[1], words[1], __ATOMIC_RELAXED);
    __atomic_store_n(&e->check, check_of(key, words), __ATOMIC_RELAXED);
    return rule;
}
